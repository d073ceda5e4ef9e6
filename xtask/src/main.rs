//! The workspace's own chores, as `cargo xtask VERB`.
//!
//! `test` runs what proves the workspace, in Rust, C and Python; `tidy` runs the rules of the house alone. The
//! program is not shipped and has no dependencies: a clone with cargo can run it.

#![allow(
    clippy::disallowed_methods,
    reason = "chores read the tree and start programs; they are no part of the engine"
)]

mod header;
mod install;
mod options;
mod plain_node;
mod python;
mod source;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test [rust|c|python] [--quick]   runs the tests; the last line is `N passed, N failed`
cargo xtask plain-node DIR                   builds a node of an older make, from history, into DIR
cargo xtask header [--check]                 makes crates/ffi/include/waxseal.h, or says whether it is current
cargo xtask options [--check]                writes the options into docs/tuning.md, or says if current
cargo xtask install --prefix DIR [--destdir DIR] [--profile NAME]
                                             puts the C library, its header and its pkg-config file below DIR
cargo xtask tidy                             checks imports, floors, fences, sizes, words and licences";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"test", rest)) => match test::Choice::parse(rest) {
            Some(choice) => test::run(&root(), choice),
            None => usage(),
        },
        Some((&"header", [])) => header::run(&root(), false),
        Some((&"header", ["--check"])) => header::run(&root(), true),
        Some((&"options", [])) => options::run(&root(), false),
        Some((&"options", ["--check"])) => options::run(&root(), true),
        Some((&"install", rest)) => match install::Place::parse(rest) {
            Some(place) => install::run(&root(), &place),
            None => usage(),
        },
        Some((&"plain-node", [into])) => plain_node::run(&root(), Path::new(into)),
        Some((&"tidy", [])) => tidy::run(&root()),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(1)
}

/// The root of the workspace: the folder above this package.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// Returns the cargo that started this program, or else the one on the path.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
