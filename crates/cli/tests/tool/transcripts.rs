//! Golden transcripts: commands as a user types them, and everything that the tool answers.
//!
//! The files of `crates/cli/scripts` have the form of `waxseal_testing::golden`: a step is shell lines, and its output
//! is standard output and standard error in the order of their arrival. A step that fails ends with `[exit N]`. Each
//! file runs in an empty directory of its own, with the tool on the path and `WAXSEAL_DIR=d`. Empty lines of the output
//! are left out.

use std::fs;
use std::path::Path;
use std::process::Command;

use waxseal_testing::golden;

/// Words that differ from run to run, as extended regular expressions for `sed`, and what stands for them.
const VOLATILE: &[(&str, &str)] = &[
    ("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z([+][0-9]+)?", "TIME"),
    ("/tmp/[A-Za-z0-9._]+", "HOME"),
    ("\\b[0-9a-f]{32}\\b", "ID"),
    ("process [0-9]+", "process N"),
];

/// Runs the shell lines of one step in `home`.
fn step(home: &Path, lines: &str) -> String {
    let tool = Path::new(env!("CARGO_BIN_EXE_waxseal"));
    let path = format!("{}:{}", tool.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{lines}")])
        .current_dir(home)
        .env("PATH", path)
        .env("WAXSEAL_DIR", "d")
        .env("USER", "tester")
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let mut sed = Command::new("sed");
    sed.arg("-E");
    for (pattern, word) in VOLATILE {
        sed.arg("-e").arg(format!("s,{pattern},{word},g"));
    }
    let raw = home.with_extension("out");
    fs::write(&raw, &output.stdout).unwrap();
    let text = sed.arg(&raw).output().unwrap().stdout;
    fs::remove_file(&raw).unwrap();
    let mut text: String = String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| !line.is_empty())
        .fold(String::new(), |text, line| text + line.trim_end() + "\n");
    match output.status.code() {
        Some(0) => {}
        Some(code) => text += &format!("[exit {code}]\n"),
        None => text += "[ended by a signal]\n",
    }
    text
}

#[test]
fn the_tool_answers_as_written_down() {
    golden::run("scripts", || tempfile::tempdir().unwrap(), |home, lines| step(home.path(), lines));
}

/// The commands of pages and what they print, as users of `waxseal table`, `node` and `sql` read them. Those of SQL need
/// the feature.
#[test]
fn the_pages_of_tables_are_true() {
    for page in ["tables-tutorial.md", "tables.md", "moves.md"] {
        check_page(page);
    }
}

fn check_page(page: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join(page)).unwrap();
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block: String = blocks.filter(|block| cfg!(feature = "sql") || !block.contains("$ waxseal sql")).collect();
    let home = tempfile::tempdir().unwrap();
    fs::copy(docs.join("data/packages.tsv"), home.path().join("packages.tsv")).unwrap();
    let mut printed = String::new();
    for command in block.split("$ ").skip(1) {
        // A command goes on behind a line that ends with a backslash.
        let lines = command.split_inclusive('\n');
        let mut is_open = true;
        let lines = lines.take_while(|line| std::mem::replace(&mut is_open, line.ends_with("\\\n")));
        let lines: String = lines.collect();
        printed += &format!("$ {lines}{}", step(home.path(), &lines));
    }
    assert_eq!(printed, block);
}
