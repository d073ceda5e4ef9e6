//! The library as C programs meet it: each program of this folder, as C99 and as C++17, linked with what cargo has
//! built.
//!
//! C99 runs under the address and undefined-behaviour sanitizers where the compiler has them. A test whose tool is
//! missing is skipped, in one line that names the tool. In CI (environment variable `CI`) a missing compiler is a
//! failure.

#![expect(clippy::disallowed_methods, reason = "the tests write programs and run them")]

mod compiler;
mod empty;
mod library;

use compiler::{Compiler, Language, run};

/// Every program runs twice; one that is in the folder and not here fails `every_program_is_run`.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];
        $(mod $name {
            use super::*;

            #[test]
            fn holds_as_c99() {
                if let Some(compiler) = Compiler::find(Language::C99) {
                    run(&compiler, stringify!($name));
                }
            }

            #[test]
            fn holds_as_cpp17() {
                if let Some(compiler) = Compiler::find(Language::Cpp17) {
                    run(&compiler, stringify!($name));
                }
            }
        })*
    };
}

programs! { bad batch cache comparator damage filter iterator manage options property snapshot store threads }

#[test]
fn every_program_is_run() {
    let folder = std::fs::read_dir(compiler::folder()).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".c")?.to_owned())).collect();
    found.sort();
    assert_eq!(found, PROGRAMS);
}
