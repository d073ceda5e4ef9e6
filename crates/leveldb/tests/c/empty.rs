//! Every function is tested: with any one of them emptied, so that it does nothing and answers 0, some program fails.
//!
//! The emptied function stands in a library of its own that is loaded before ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::compiler::{Compiler, Language, must_succeed, package, start};

/// Programs that say most at once, for functions that `usual` does not know.
const ORDER: &[&str] =
    &["options", "store", "batch", "snapshot", "manage", "filter", "comparator", "cache", "property"];

/// Tested in `api/options.rs`, where what it asks for can be seen: it shows only in a store that was hit in memory.
const ELSEWHERE: &[&str] = &["leveldb_readoptions_set_verify_checksums"];

/// The program that is most about a function.
fn usual(function: &str) -> Option<&'static str> {
    let of = [
        ("_iter_", "iterator"),
        ("_writebatch_", "batch"),
        ("_snapshot", "snapshot"),
        ("_filterpolicy_", "filter"),
        ("_options_set_filter", "filter"),
        ("_comparator", "comparator"),
        ("_cache", "cache"),
        ("_property_", "property"),
        ("_approximate_", "property"),
        ("_compact_", "property"),
        ("_destroy_db", "manage"),
        ("_repair_db", "manage"),
        ("_env_get", "manage"),
        ("_version", "manage"),
        ("_options_", "options"),
        ("_env", "options"),
    ];
    of.iter().find(|(part, _)| function.contains(part)).map(|(_, program)| *program)
}

#[test]
fn no_function_can_be_emptied_unnoticed() {
    let Some(compiler) = Compiler::plain(Language::C99) else { return };
    let dir = tempfile::tempdir().unwrap();
    let built: Vec<&str> = ORDER.iter().copied().chain(["iterator"]).collect();
    built.iter().for_each(|name| drop(compiler.build(name, dir.path())));
    let list = std::fs::read_to_string(package().join("symbols.txt")).unwrap();
    let left = Mutex::new(list.lines().filter(|name| !ELSEWHERE.contains(name)).collect::<Vec<_>>());
    let unnoticed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (left, unnoticed, compiler) = (&left, &unnoticed, &compiler);
            let stores = dir.path().join(format!("worker-{worker}"));
            std::fs::create_dir(&stores).unwrap();
            let programs = dir.path();
            scope.spawn(move || {
                loop {
                    let Some(function) = left.lock().unwrap().pop() else { break };
                    let emptied = emptied(compiler, function, &stores);
                    let mut order: Vec<&str> = usual(function).into_iter().chain(ORDER.iter().copied()).collect();
                    order.dedup();
                    if !order.iter().any(|name| fails_with(&emptied, &programs.join(name), &stores)) {
                        unnoticed.lock().unwrap().push(function);
                    }
                }
            });
        }
    });
    let unnoticed = unnoticed.into_inner().unwrap();
    assert!(unnoticed.is_empty(), "nobody notices if these do nothing: {unnoticed:?}");
}

/// A library with this one function, which does nothing.
fn emptied(compiler: &Compiler, function: &str, into: &Path) -> PathBuf {
    let (source, library) = (into.join("emptied.c"), into.join("libemptied.so"));
    std::fs::write(&source, format!("long {function}(void);\nlong {function}(void) {{ return 0; }}\n")).unwrap();
    must_succeed(compiler.command().args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source));
    library
}

fn fails_with(emptied: &Path, program: &Path, dir: &Path) -> bool {
    let mut command: Command = start(program, dir, false);
    !command.env("LD_PRELOAD", emptied).output().unwrap().status.success()
}
