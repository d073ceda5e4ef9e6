//! Modules of the engine, and of the registry, import only from floors below their own.
//!
//! The floors are the list at the head of the crate's `lib.rs`, top first, so the page that readers see is the rule.
//! Modules of one floor do not import each other, but for the ground files, which may as long as no circle arises.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::{NamedPath, Source};

const CRATES: &[&str] = &["crates/lsm/src", "crates/registry/src"];

/// Imports that look upward and are none, with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("env", "checksum", "random numbers and uids are mixed by the ground's bijection, which imports nothing")];

/// An import of one module by another, and where it stands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Import {
    from: String,
    to: String,
    place: String,
}

/// What breaks the order of the floors.
pub(super) fn faults(root: &Path) -> Vec<String> {
    CRATES.iter().flat_map(|folder| faults_in(root, folder)).collect()
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

/// The list in the documentation of lib.rs: a line a floor, names separated by commas, then two spaces and prose.
fn floors(lib: &str) -> Vec<Vec<String>> {
    let docs = lib.lines().map_while(|line| line.strip_prefix("//!"));
    let listed = docs.skip_while(|line| line.trim() != "```text").skip(1).take_while(|line| line.trim() != "```");
    let names = |line: &str| {
        line.trim().split("  ").next().unwrap_or("").split(',').map(|name| name.trim().to_owned()).collect()
    };
    listed.map(names).collect()
}

/// Modules that lib.rs declares and no floor holds.
fn unlisted(floors: &[Vec<String>], lib: &str) -> Vec<String> {
    let declared = lib.lines().filter_map(|line| {
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
    let Some(from) = module.first() else { return BTreeSet::new() };
    let source = Source::read(text);
    let targets = source.paths().into_iter().filter_map(|path| Some((target(module, &path)?, path.line)));
    let others = targets.filter(|(to, _)| to != from);
    others.map(|(to, line)| Import { from: from.clone(), to, place: format!("{file}:{line}") }).collect()
}

/// The top-level module that a path leads to, if it stays in this crate.
fn target(module: &[String], path: &NamedPath) -> Option<String> {
    let mut here: Vec<&String> = module.iter().chain(&path.inside).collect();
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
    here.first().copied().or(rest.first()).cloned()
}

fn upward(floors: &[Vec<String>], imports: &[Import]) -> Vec<String> {
    let ground = floors.len() - 2;
    let wrong = |import: &&Import| {
        let (Some(from), Some(to)) = (floor(floors, &import.from), floor(floors, &import.to)) else { return false };
        let excepted = EXCEPTIONS.iter().any(|(a, b, _)| *a == import.from && *b == import.to);
        !(from < to || from == ground && to == ground || excepted)
    };
    let say =
        |import: &Import| format!("{}: {} imports {}, which is not below it", import.place, import.from, import.to);
    imports.iter().filter(wrong).map(say).collect()
}

/// Circles among the ground files: what is left after taking away, again and again, files that import none that is left.
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
    if left.is_empty() { Vec::new() } else { vec![format!("circle of ground files among {:?}", left.keys())] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "\
//! Head.
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
}
