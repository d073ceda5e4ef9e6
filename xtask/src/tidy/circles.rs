//! No circle by imports between the modules of one folder, in any folder of any crate.
//!
//! Files and folders directly inside a folder are its modules; an import of anything in a module is an import of the
//! module. Where a crate has floors, `floors` holds its modules to more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::{NamedPath, Source};

/// The modules that each module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

pub(super) fn faults(root: &Path) -> Vec<String> {
    let sources = super::rust_sources(root);
    folders(sources.iter().map(|(file, _)| file.as_path()))
        .iter()
        .filter_map(|folder| {
            let files =
                sources.iter().filter_map(|(file, text)| Some((file.strip_prefix(folder).ok()?, text.as_str())));
            let circle = circle(imports(&prefix(folder), files))?;
            Some(format!("{folder}: a circle of imports through {}", circle.join(", ")))
        })
        .collect()
}

/// The folders of sources, `src` itself and everything in it, of every crate.
fn folders<'a>(files: impl Iterator<Item = &'a Path>) -> BTreeSet<String> {
    let inside = |folder: &&Path| folder.iter().any(|part| part == "src");
    files.flat_map(|file| file.ancestors().skip(1)).filter(inside).map(|folder| folder.display().to_string()).collect()
}

/// The module that a folder is: its words behind `src`.
fn prefix(folder: &str) -> Vec<String> {
    folder.split('/').skip_while(|part| *part != "src").skip(1).map(str::to_owned).collect()
}

/// The imports between the modules of a folder, of files named by their path inside it.
fn imports<'a>(folder: &[String], files: impl Iterator<Item = (&'a Path, &'a str)>) -> Imports {
    let mut found = Imports::new();
    for (file, text) in files {
        let mut module: Vec<String> =
            file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            module.pop();
        }
        // The file of the folder itself declares its modules.
        let Some(name) = module.first().cloned() else { continue };
        let module = [folder, &module].concat();
        let targets =
            Source::read(text).paths().into_iter().filter_map(|path| child(folder, &absolute(&module, &path)?));
        found.entry(name.clone()).or_default().extend(targets.filter(|target| *target != name));
    }
    let modules: BTreeSet<String> = found.keys().cloned().collect();
    found.values_mut().for_each(|targets| targets.retain(|target| modules.contains(target)));
    found
}

/// The words of a path from the root of the crate; none for a path into another crate.
fn absolute(module: &[String], path: &NamedPath) -> Option<Vec<String>> {
    let mut here: Vec<String> = module.iter().chain(&path.inside).cloned().collect();
    let (first, mut rest) = path.words.split_first()?;
    match first.as_str() {
        "crate" => here.clear(),
        "self" => {}
        "super" => drop(here.pop()),
        _ => return None,
    }
    while let Some(("super", below)) = rest.split_first().map(|(word, below)| (word.as_str(), below)) {
        here.pop();
        rest = below;
    }
    here.extend_from_slice(rest);
    Some(here)
}

fn child(folder: &[String], path: &[String]) -> Option<String> {
    path.strip_prefix(folder)?.first().cloned()
}

/// Returns the modules of the circles: repeatedly removes each module that imports no other or is imported by none.
fn circle(mut imports: Imports) -> Option<Vec<String>> {
    loop {
        let imported: BTreeSet<String> = imports.values().flatten().cloned().collect();
        let free = imports.iter().find(|(name, targets)| targets.is_empty() || !imported.contains(*name));
        let Some(free) = free.map(|(name, _)| name.clone()) else { break };
        imports.remove(&free);
        for targets in imports.values_mut() {
            targets.remove(&free);
        }
    }
    (!imports.is_empty()).then(|| imports.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(folder: &str, files: &[(&str, &str)]) -> Option<Vec<String>> {
        circle(imports(&prefix(folder), files.iter().map(|(file, text)| (Path::new(*file), *text))))
    }

    #[test]
    fn a_circle_is_found_whatever_form_its_imports_have() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "fn f() { super::c::g() }"),
            ("c.rs", "use crate::{a::A, d};"),
            ("d.rs", "use std::fmt;"),
        ];
        assert_eq!(of("crates/x/src", &files).unwrap(), ["a", "b", "c"]);
        assert_eq!(of("crates/x/src", &files[..4]), of("crates/x/src", &files));
    }

    #[test]
    fn downward_imports_tests_and_inner_imports_are_none() {
        let files = [
            ("a.rs", "use crate::b::B;\n#[cfg(test)]\nmod tests { use crate::b; }"),
            ("b/mod.rs", "mod inner;\nuse self::inner::f;\n#[cfg(test)]\nmod tests { use crate::a; }"),
            ("b/inner.rs", "use super::B;\nuse crate::Named;"),
        ];
        assert_eq!(of("crates/x/src", &files), None);
    }

    #[test]
    fn every_folder_of_sources_is_looked_at() {
        let files = ["crates/x/src/a/b/c.rs", "crates/x/src/lib.rs", "python/src/lib.rs", "crates/x/build.rs"];
        let folders = folders(files.iter().map(Path::new));
        assert_eq!(Vec::from_iter(folders), ["crates/x/src", "crates/x/src/a", "crates/x/src/a/b", "python/src"]);
    }

    #[test]
    fn a_folder_below_the_root_is_known_by_its_path() {
        let files = [("a.rs", "use super::b::B; use crate::z::Z;"), ("b.rs", "use crate::y::a::A;")];
        assert_eq!(of("crates/x/src/y", &files).unwrap(), ["a", "b"]);
        assert_eq!(of("crates/x/src/z", &files), None);
    }
}
