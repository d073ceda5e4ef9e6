//! The C library as C sees it: compiled against, linked, installed, and used by programs.
//!
//! In: the header, the programs in tests/c and examples, and a C compiler. Out: a line for each test, those of the
//! programs among them, and their count in the words of cargo. A test whose tool is missing is skipped, in one line
//! that names the tool. In CI (environment variable `CI`) a missing compiler is a failure.
//!
//! ```text
//! toolchain.rs   compilers, what they can do, and the library, built by cargo
//! header.rs      the page: clean in three languages, current, every function documented
//! symbols.rs     what the library exports: the header's functions, as listed in symbols.txt
//! every.rs       every function with arguments that cannot be: none crashes
//! callers.rs     a script of calls, answered as Rust answers it
//! programs.rs    the programs of tests/c, under the address sanitizer where there is one
//! recipes.rs     the C blocks of docs/recipes.md
//! install.rs     a staged install, found by pkg-config; the examples, built and run with it
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "tests start compilers and write programs; they are no part of the engine"
)]

mod callers;
mod every;
mod header;
mod install;
mod programs;
mod prototypes;
mod recipes;
mod symbols;
mod toolchain;

use std::ffi::OsStr;
use std::process::ExitCode;

use toolchain::Toolchain;

/// Tests counted so far.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Counts one test of our own.
    fn count(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(why) => {
                self.failed += 1;
                println!("test {name} ... FAILED\n{why}");
            }
        }
    }
}

impl Tally {
    /// Skips what needs a compiler that is missing; in CI that is a failure.
    fn skip(&mut self, name: &str, missing: &str) {
        if is_ci(std::env::var_os("CI").as_deref()) {
            self.count(name, Err(format!("CI has no {missing}")));
        } else {
            println!("{name}: skipped, there is no {missing} here");
        }
    }
}

/// True for the value that the variable `CI` has in a run of continuous integration.
fn is_ci(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value == "true" || value == "1")
}

/// Tests of one thing.
type Group = fn(&Toolchain, &mut Tally);

fn main() -> ExitCode {
    // Cargo hands on what it was asked to run: a part of a name.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut tally = Tally::default();
    match Toolchain::find() {
        Err(why) => tally.count("the library is built", Err(why)),
        Ok(None) => tally.skip("the C API", "C compiler"),
        Ok(Some(toolchain)) => run(&toolchain, &wanted, &mut tally),
    }
    let word = if tally.failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {} passed; {} failed; 0 ignored", tally.passed, tally.failed);
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(toolchain: &Toolchain, wanted: &str, tally: &mut Tally) {
    let groups: [(&str, Group); 7] = [
        ("header", header::run),
        ("symbols", symbols::run),
        ("every", every::run),
        ("callers", callers::run),
        ("programs", |toolchain, tally| programs::run(toolchain, "", tally)),
        ("recipes", recipes::run),
        ("install", install::run),
    ];
    let known = groups.iter().any(|(name, _)| name.contains(wanted));
    for (_, group) in groups.iter().filter(|(name, _)| known && name.contains(wanted)) {
        group(toolchain, tally);
    }
    if !known {
        programs::run(toolchain, wanted, tally);
    }
}
