//! Rules for single source files: permitted calls, permitted content, length.

use std::path::Path;

use crate::source::Source;

/// Packages whose outside is `waxseal_lsm::env`. The tops read and write files of their users' own.
const INNER: &[&str] =
    &["crates/files/", "crates/lsm/", "crates/meta/", "crates/registry/", "crates/table/", "crates/waxseal/"];

/// The door.
const DOOR: &str = "crates/lsm/src/env/";

/// Beginnings of paths that lead outside.
const OUTSIDE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::os",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::thread::scope",
    "std::thread::Builder",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::env",
    "rustix",
    "libc",
];

/// Paths that lead outside where they may, with the reason.
const PASSES: &[(&str, &str, &str)] = &[(
    "crates/lsm/src/db/open/directory.rs",
    "std::process::id",
    "LOCK names its holder for people; nothing is decided by it",
)];

/// Files, and folders, that may hold unsafe code, and what for.
const FENCES: &[(&str, &str)] = &[
    ("crates/ffi/src/", "the C boundary: every function takes pointers of a caller"),
    ("crates/leveldb/src/api/", "LevelDB's C functions"),
    ("crates/leveldb/src/callback.rs", "comparators and filter policies of C callers"),
    ("crates/leveldb/src/raw.rs", "bytes, texts and error pointers of C callers"),
    ("crates/cli/src/closed_streams.rs", "a function that runs before `main`"),
    ("crates/lsm/src/env/real/mapping.rs", "one shared mapping, seen as atomic words"),
    ("crates/lsm/src/env/real/pages.rs", "memory of the system, owned by whoever asked for it"),
    ("crates/lsm/src/env/real/origin.rs", "one page that a fork wipes"),
    ("crates/lsm/src/memtable/arena.rs", "bytes of records, written once and lent for as long as the arena lives"),
    ("crates/lsm/src/prefetch.rs", "a hint to the processor"),
    ("crates/bench/src/engine/lmdb.rs", "heed's opening of a map"),
    ("crates/bench/src/heap.rs", "an allocator that counts"),
    ("crates/testing/src/allocator.rs", "an allocator that counts"),
    ("python/src/", "calls of the C library, which take pointers"),
];

/// Lines of a file without its tests.
const MOST_LINES: usize = 1000;

/// Files that are longer, with the reason.
const LONG: &[(&str, &str)] = &[];

/// Names that say nothing about what a module holds.
const DRAWERS: &[&str] = &["util", "utils", "helper", "helpers", "misc", "common"];

/// Paths to files, threads, clocks and the system outside the door.
pub(super) fn outside(root: &Path) -> Vec<String> {
    let inner = |file: &str| INNER.iter().any(|package| file.starts_with(package)) && !file.starts_with(DOOR);
    each(root, |file, source, _| if inner(file) { outside_in(file, source) } else { Vec::new() })
}

fn outside_in(file: &str, source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    for path in source.paths() {
        let named = path.words.join("::");
        let passes = PASSES.iter().any(|(place, name, _)| *place == file && named.starts_with(name));
        let leads = |start: &&str| named == *start || named.starts_with(&format!("{start}::"));
        if !passes && OUTSIDE.iter().any(leads) {
            faults.push(format!("{file}:{}: {named} leads past env", path.line));
        }
    }
    faults
}

/// Unsafe code in files that are no fence, and fences that are gone.
pub(super) fn unfenced(root: &Path) -> Vec<String> {
    let mut faults = each(root, |file, source, _| {
        let fenced = FENCES.iter().any(|(fence, _)| *fence == file || fence.ends_with('/') && file.starts_with(fence));
        let line = source.line_of("unsafe").filter(|_| !fenced);
        line.map(|line| format!("{file}:{line}: unsafe outside a fence")).into_iter().collect()
    });
    let gone = FENCES.iter().filter(|(fence, _)| !root.join(fence).exists());
    faults.extend(gone.map(|(fence, _)| format!("{fence}: a fence that is not there")));
    faults
}

/// Files that are too long, and modules named like drawers.
pub(super) fn shapes(root: &Path) -> Vec<String> {
    each(root, |file, source, _| {
        let mut faults = Vec::new();
        let excused = LONG.iter().any(|(long, _)| *long == file);
        if source.lines > MOST_LINES && !excused {
            faults.push(format!("{file}: {} lines without tests, at most {MOST_LINES}", source.lines));
        }
        if is_drawer(Path::new(file)) {
            faults.push(format!("{file}: name it after what it holds"));
        }
        faults
    })
}

fn is_drawer(file: &Path) -> bool {
    file.with_extension("").iter().any(|part| DRAWERS.iter().any(|drawer| part == *drawer))
}

/// Runs a rule over every source file.
fn each(root: &Path, rule: impl Fn(&str, &Source, &str) -> Vec<String>) -> Vec<String> {
    let run = |(file, text): (std::path::PathBuf, String)| {
        rule(&file.to_string_lossy().replace('\\', "/"), &Source::read(&text), &text)
    };
    super::rust_sources(root).into_iter().flat_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_outside_is_found() {
        let found = |text: &str| outside_in("x.rs", &Source::read(text)).len();
        assert_eq!(found("use std::{fs::File, io, time::{Duration, Instant}};"), 2);
        assert_eq!(found("fn f() { std::thread::sleep(x); std::thread::current(); }"), 1);
        assert_eq!(found("use std::fs;"), 1);
        assert_eq!(found("use std::fsx::y; use crate::env::Fs; // std::fs"), 0);
        assert_eq!(found("#[cfg(test)]\nmod tests { use std::fs; }"), 0);
    }

    #[test]
    fn drawers_are_found() {
        assert!(is_drawer(Path::new("crates/lsm/src/util.rs")));
        assert!(is_drawer(Path::new("crates/lsm/src/helpers/bits.rs")));
        assert!(!is_drawer(Path::new("crates/lsm/src/utility_of_rows.rs")));
    }
}
