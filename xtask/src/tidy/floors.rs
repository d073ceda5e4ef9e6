//! Modules of the engine, and of the registry, import only from floors below their own.
//!
//! The floors are the list at the head of the crate's `lib.rs`, top first, so the page that readers see is the rule.
//! Modules of one floor do not import each other, but for the ground files, which may as long as no circle arises.
//! A folder may list floors of its own at the head of its `mod.rs`: its folders import downwards only, the files inside
//! each of them form no circle, and none imports through the re-exports of `mod.rs`, which would hide the floor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::source::{NamedPath, Source};

const CRATES: &[&str] = &["crates/lsm/src", "crates/registry/src"];

/// Folders with floors of their own: the crate's sources, and the folder inside.
const FOLDERS: &[(&str, &str)] = &[("crates/lsm/src", "sst"), ("crates/lsm/src", "db")];

/// Imports that look upward and are none, with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("env", "checksum", "random numbers and uids are mixed by the ground's bijection, which imports nothing")];

/// An import of one module by another, and its file and line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Import {
    from: String,
    to: String,
    place: String,
}

/// Returns the violations of the order of the floors.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let crates = CRATES.iter().flat_map(|folder| faults_in(root, folder));
    crates.chain(FOLDERS.iter().flat_map(|(sources, folder)| faults_inside(root, sources, folder))).collect()
}

/// Faults of a folder with floors of its own.
fn faults_inside(root: &Path, sources: &str, folder: &str) -> Vec<String> {
    let head = std::fs::read_to_string(root.join(sources).join(folder).join("mod.rs")).unwrap_or_default();
    let files = super::rust_sources(root).into_iter().filter_map(|(file, text)| {
        let inside = file.strip_prefix(sources).ok()?.to_path_buf();
        inside.starts_with(folder).then_some((inside, text))
    });
    inner_faults(folder, &head, &files.collect::<Vec<_>>())
}

/// As `faults_inside`, with the text of `mod.rs` and of all files.
fn inner_faults(folder: &str, head: &str, files: &[(PathBuf, String)]) -> Vec<String> {
    let floors = floors(head);
    if floors.len() < 3 {
        return vec![format!("{folder}/mod.rs lists no floors")];
    }
    let read = |(file, text): &(PathBuf, String), depth: usize| {
        imports_at(&module_of(file), depth, &file.display().to_string(), text)
    };
    let imports = files.iter().flat_map(|file| read(file, 1));
    let is_wrong = |import: &Import| match (floor(&floors, &import.from), floor(&floors, &import.to)) {
        (Some(from), Some(to)) => from >= to,
        (from, _) => from.is_some(),
    };
    let mut faults = unlisted(&floors, head);
    faults.extend(imports.filter(is_wrong).map(|import| not_below(&import)));
    for room in floors.iter().flatten() {
        let own: Vec<_> = files.iter().filter(|(file, _)| file.starts_with(Path::new(folder).join(room))).collect();
        let names: Vec<String> = own.iter().filter_map(|(file, _)| module_of(file).get(2).cloned()).collect();
        let imports: Vec<Import> = own.iter().flat_map(|file| read(file, 2)).collect();
        faults.extend(circles(&names, &imports));
    }
    faults
}

fn faults_in(root: &Path, folder: &str) -> Vec<String> {
    let lib = std::fs::read_to_string(root.join(folder).join("lib.rs")).unwrap_or_default();
    let floors = floors(&lib);
    if floors.len() < 3 {
        return vec![format!("{folder}/lib.rs lists no floors")];
    }
    let mut imports = Vec::new();
    for (file, text) in super::rust_sources(root) {
        if let Ok(inside) = file.strip_prefix(folder) {
            imports.extend(imports_of(&module_of(inside), &file.display().to_string(), &text));
        }
    }
    let mut faults = unlisted(&floors, &lib);
    faults.extend(upward(&floors, &imports));
    faults.extend(circles(&floors[floors.len() - 2], &imports));
    faults
}

/// The list in the documentation, after the words "top first": a line a floor, names separated by commas, then two
/// spaces and prose.
fn floors(lib: &str) -> Vec<Vec<String>> {
    let docs = lib.lines().map_while(|line| line.strip_prefix("//!"));
    let listed = docs.skip_while(|line| !line.contains("top first"));
    let listed = listed.skip_while(|line| line.trim() != "```text").skip(1).take_while(|line| line.trim() != "```");
    let names = |line: &str| {
        line.trim().split("  ").next().unwrap_or("").split(',').map(|name| name.trim().to_owned()).collect()
    };
    listed.map(names).collect()
}

/// Modules that lib.rs declares and no floor holds.
fn unlisted(floors: &[Vec<String>], lib: &str) -> Vec<String> {
    // Modules that only tests compile have no floor.
    let declared = lib.replace("#[cfg(test)]\nmod ", "");
    let declared = declared.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("pub(crate) ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';')
    });
    declared.filter(|name| floor(floors, name).is_none()).map(|name| format!("{name} stands on no floor")).collect()
}

fn floor(floors: &[Vec<String>], module: &str) -> Option<usize> {
    floors.iter().position(|names| names.iter().any(|name| name == module))
}

/// `sst/block.rs` is module `sst::block`; lib.rs is the root.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

/// Imports from one file's top-level module into others. lib.rs only declares, so it has none.
fn imports_of(module: &[String], file: &str, text: &str) -> BTreeSet<Import> {
    imports_at(module, 0, file, text)
}

/// Imports from the module that holds a file, `depth` levels below the crate, into its neighbors.
fn imports_at(module: &[String], depth: usize, file: &str, text: &str) -> BTreeSet<Import> {
    let Some(from) = module.get(depth) else { return BTreeSet::new() };
    let source = Source::read(text);
    let to = |path: &NamedPath| target(module, path)?.strip_prefix(&module[..depth])?.first().cloned();
    let targets = source.paths().into_iter().filter_map(|path| Some((to(&path)?, path.line)));
    let others = targets.filter(|(to, _)| to != from);
    others.map(|(to, line)| Import { from: from.clone(), to, place: format!("{file}:{line}") }).collect()
}

/// The path from the crate's root that a path leads to, if it stays in this crate.
fn target(module: &[String], path: &NamedPath) -> Option<Vec<String>> {
    let mut here: Vec<String> = module.iter().chain(&path.inside).cloned().collect();
    let (first, mut rest) = path.words.split_first()?;
    match first.as_str() {
        "crate" => here.clear(),
        "self" => {}
        "super" => drop(here.pop()),
        _ => return None,
    }
    while rest.first().is_some_and(|word| word == "super") {
        here.pop();
        rest = &rest[1..];
    }
    here.extend_from_slice(rest);
    Some(here)
}

/// Returns the message for an import that does not go downwards.
fn not_below(import: &Import) -> String {
    format!("{}: {} imports {}, which is not below it", import.place, import.from, import.to)
}

fn upward(floors: &[Vec<String>], imports: &[Import]) -> Vec<String> {
    let ground = floors.len() - 2;
    let wrong = |import: &&Import| {
        let (Some(from), Some(to)) = (floor(floors, &import.from), floor(floors, &import.to)) else { return false };
        let excepted = EXCEPTIONS.iter().any(|(a, b, _)| *a == import.from && *b == import.to);
        !(from < to || from == ground && to == ground || excepted)
    };
    imports.iter().filter(wrong).map(not_below).collect()
}

/// Circles among files: what is left after taking away, again and again, files that import none that is left.
fn circles(ground: &[String], imports: &[Import]) -> Vec<String> {
    let mut left: BTreeMap<&str, BTreeSet<&str>> = ground.iter().map(|name| (name.as_str(), BTreeSet::new())).collect();
    for import in imports.iter().filter(|import| ground.contains(&import.to)) {
        if let Some(targets) = left.get_mut(import.from.as_str()) {
            targets.insert(&import.to);
        }
    }
    while let Some(free) = left.iter().find(|(_, to)| !to.iter().any(|to| left.contains_key(to))).map(|(name, _)| *name)
    {
        left.remove(free);
    }
    if left.is_empty() { Vec::new() } else { vec![format!("circle of files among {:?}", left.keys())] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "\
//! Head. Layers, top first:
//!
//! ```text
//! db             open, commit
//! read, flush    one job each
//! sst, wal       where a record lives
//! codec, error   ground
//! env            files
//! ```
//!
//! More, with other words.
pub mod codec;
pub mod db;
";

    fn check(file: &str, text: &str) -> Vec<String> {
        let imports: Vec<Import> = imports_of(&module_of(Path::new(file)), file, text).into_iter().collect();
        upward(&floors(LIB), &imports)
    }

    #[test]
    fn floors_are_read_from_the_page() {
        let floors = floors(LIB);
        assert_eq!(floors.len(), 5);
        assert_eq!(floors[1], ["read", "flush"]);
        assert_eq!(floor(&floors, "env"), Some(4));
        assert!(unlisted(&floors, LIB).is_empty());
        assert_eq!(
            unlisted(&floors, "pub mod attic;\nmod cellar;"),
            ["attic stands on no floor", "cellar stands on no floor"]
        );
    }

    #[test]
    fn a_made_up_upward_import_is_found() {
        let said = check("sst/block.rs", "use crate::codec::Reader;\nuse crate::{error::Error, db::Db};");
        assert_eq!(said, ["sst/block.rs:2: sst imports db, which is not below it"]);
        assert_eq!(check("codec.rs", "fn f() { super::wal::log() }").len(), 1);
        assert_eq!(check("sst/block/entry.rs", "use super::super::super::flush::Flush;").len(), 1);
        assert_eq!(check("env/real.rs", "use crate::codec::Reader;").len(), 1);
    }

    #[test]
    fn neighbours_are_found() {
        assert_eq!(
            check("sst/mod.rs", "use crate::wal::Log;"),
            ["sst/mod.rs:1: sst imports wal, which is not below it"]
        );
        assert!(check("codec.rs", "use crate::error::Error;").is_empty());
    }

    #[test]
    fn downward_and_inner_imports_pass() {
        assert!(check("db/mod.rs", "use crate::{sst, env::Fs, read::x};\nuse std::fs;\nmod inner;").is_empty());
        assert!(check("sst/block.rs", "use super::index::Index;\nuse self::entry::Entry;").is_empty());
        assert!(check("sst/mod.rs", "mod inner { use super::super::codec; use super::reader; }").is_empty());
        assert!(check("sst/mod.rs", "#[cfg(test)]\nmod tests { use crate::db::Db; }").is_empty());
        assert!(check("lib.rs", "pub use crate::db::Db;").is_empty());
    }

    #[test]
    fn a_circle_of_ground_files_is_found() {
        let imports = |pairs: &[(&str, &str)]| -> Vec<Import> {
            let import = |(from, to): &(&str, &str)| Import {
                from: (*from).to_owned(),
                to: (*to).to_owned(),
                place: String::new(),
            };
            pairs.iter().map(import).collect()
        };
        let ground: Vec<String> = ["a", "b", "c"].into_iter().map(str::to_owned).collect();
        assert!(circles(&ground, &imports(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        assert_eq!(circles(&ground, &imports(&[("a", "b"), ("b", "c"), ("c", "b")])).len(), 1);
    }

    const FOLDER: &str = "\
//! ```text
//! read  a path that is no floor
//! ```
//!
//! Folders, top first:
//!
//! ```text
//! damage  repair
//! table   reads
//! block   bytes
//! ```
mod block;
mod damage;
mod table;
#[cfg(test)]
mod tests;
pub use table::cursor::Cursor;
";

    fn inner(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(PathBuf, String)> =
            files.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned())).collect();
        inner_faults("sst", FOLDER, &files)
    }

    #[test]
    fn a_folder_that_imports_upward_inside_is_found() {
        let downward = ("sst/table/read.rs", "use crate::sst::block::frame::Handle;\nuse crate::error::Error;");
        assert!(inner(&[downward, ("sst/mod.rs", FOLDER)]).is_empty());
        let upward = ("sst/block/frame.rs", "use crate::sst::table::read::Table;");
        assert_eq!(inner(&[upward]), ["sst/block/frame.rs:1: block imports table, which is not below it"]);
        let upward = ("sst/block/frame.rs", "fn f() { super::super::damage::repair() }");
        assert_eq!(inner(&[upward]).len(), 1);
        let hidden = ("sst/block/frame.rs", "use crate::sst::Cursor;");
        assert_eq!(inner(&[hidden]), ["sst/block/frame.rs:1: block imports Cursor, which is not below it"]);
    }

    #[test]
    fn a_circle_of_files_in_a_folder_is_found() {
        let (a, b) = (("sst/table/a.rs", "use super::b::B;"), ("sst/table/b.rs", "use crate::sst::table::a::A;"));
        assert!(inner(&[a, ("sst/table/b.rs", "")]).is_empty());
        assert_eq!(inner(&[a, b]).len(), 1);
    }
}
