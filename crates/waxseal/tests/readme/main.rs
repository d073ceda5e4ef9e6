//! The starts of the README, word for word: each block is a file of this repository, and each file runs. Those in Rust
//! run here, those in other languages in the tests of their faces.
#![cfg(feature = "tokio")]

use std::path::{Path, PathBuf};

/// Each block of the README, in order, and the file that it shows.
const STARTS: &[(&str, &str)] = &[
    ("rust,no_run", "crates/waxseal/tests/readme/start.rs"),
    ("c", "crates/ffi/examples/start.c"),
    ("python", "python/examples/start.py"),
    ("rust,no_run", "crates/waxseal/tests/readme/start_async.rs"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Fenced blocks of programs: language and text.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let (mut found, mut open): (Vec<(&str, String)>, bool) = (Vec::new(), false);
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) if !open => {
                found.push((language, String::new()));
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let text = &mut found.last_mut().expect("a block is open").1;
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    found.retain(|(language, _)| *language != "sh");
    found
}

#[test]
fn the_starts_of_the_readme_are_files_that_run() {
    let page = read("README.md");
    let blocks = blocks(&page);
    let shown: Vec<&str> = blocks.iter().map(|(language, _)| *language).collect();
    assert_eq!(shown, STARTS.iter().map(|(language, _)| *language).collect::<Vec<_>>());
    for ((_, block), (_, file)) in blocks.iter().zip(STARTS) {
        assert_eq!(*block, read(file), "the README and {file} differ");
        assert!(block.lines().count() <= 20, "{file} is no start any more: {} lines", block.lines().count());
    }
}

mod start {
    include!("start.rs");

    pub(super) fn run() -> waxseal::Result<()> {
        main()
    }
}

mod start_async {
    include!("start_async.rs");

    pub(super) fn run() -> waxseal::Result<()> {
        main()
    }
}

/// Both in one test: they make their store in the directory where they are started, which is the process's.
#[test]
fn the_starts_in_rust_run() {
    let home = tempfile::tempdir().unwrap();
    std::env::set_current_dir(home.path()).unwrap();
    for run in [start::run, start_async::run] {
        run().unwrap();
        let db = waxseal::Db::open("start.waxseal").unwrap();
        let keys: Vec<_> = db.column_family("users").unwrap().iter().keys().collect::<waxseal::Result<_>>().unwrap();
        assert_eq!(keys, ["bob"]);
        db.close().unwrap();
        waxseal::Db::destroy("start.waxseal").unwrap();
    }
}
