//! The rules of the house that no compiler checks. Each rule reads the tree and gives the places that break it.
//!
//! `cargo xtask tidy` prints them; the tests below run the same rules, so `cargo xtask test` holds everybody to them.
//! An exception is a line in one of the tables, with its reason.

mod circles;
mod crates;
mod floors;
mod licences;
mod map;
mod prose;
mod sources;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::source::Source;

/// A rule: what it is called, and what breaks it.
type Rule = (&'static str, fn(&Path) -> Vec<String>);

const RULES: &[Rule] = &[
    ("crates import downwards", crates::upward),
    ("floors of the engine", floors::faults),
    ("no circles inside a folder", circles::faults),
    ("the outside enters through env", sources::outside),
    ("unsafe stays behind fences", sources::unfenced),
    ("files are small, and none is a drawer", sources::shapes),
    ("the map is short and true", map::faults),
    ("prose has nouns", prose::faults),
    ("words of the page", words::faults),
    ("licences are permissive", licences::faults),
    ("the table of options is current", crate::options::faults),
];

/// Checks every rule and prints what breaks it.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut clean = true;
    for (name, rule) in RULES {
        let faults = rule(root);
        println!("{name}: {}", if faults.is_empty() { "ok".to_owned() } else { format!("{} faults", faults.len()) });
        for fault in &faults {
            println!("    {fault}");
        }
        clean &= faults.is_empty();
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The files that belong to the repository: what git tracks or would track. Without git: everything but build output.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let mut found: Vec<PathBuf> = match git.output() {
        Ok(output) if output.status.success() => {
            let names = String::from_utf8_lossy(&output.stdout).into_owned();
            names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect()
        }
        _ => below(root, Path::new("")),
    };
    found.retain(|file| root.join(file).is_file());
    found.sort();
    found
}

/// Files below a folder, relative to the root; build output and hidden folders left out.
fn below(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = folder.join(&name);
        if !root.join(&path).is_dir() {
            found.push(path);
        } else if name != "target" && name != ".git" {
            found.extend(below(root, &path));
        }
    }
    found
}

/// Rust files of the workspace's packages, with their text. Files that only tests use are left out.
fn rust_sources(root: &Path) -> Vec<(PathBuf, String)> {
    let is_source = |file: &PathBuf| {
        let in_package = file.iter().any(|part| part == "src") && !file.iter().any(|part| part == "tests");
        in_package && file.extension().is_some_and(|extension| extension == "rs")
    };
    let read = |file: PathBuf| std::fs::read_to_string(root.join(&file)).ok().map(|text| (file, text));
    let mut found: Vec<(PathBuf, String)> = files(root).into_iter().filter(is_source).filter_map(read).collect();
    let tests: Vec<PathBuf> = found.iter().flat_map(|(file, text)| test_files(file, text)).collect();
    found.retain(|(file, _)| !tests.iter().any(|test| file.with_extension("").starts_with(test)));
    found
}

/// Where the modules of a file lie that only tests see, without `.rs`.
fn test_files(file: &Path, text: &str) -> Vec<PathBuf> {
    let is_root = file.file_stem().is_some_and(|stem| stem == "mod" || stem == "lib" || stem == "main");
    let folder = if is_root { file.parent().unwrap_or(file).to_path_buf() } else { file.with_extension("") };
    Source::read(text).test_modules.iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(name: &str) {
        let (_, rule) = RULES.iter().find(|(rule, _)| *rule == name).unwrap();
        let faults = rule(&crate::root());
        assert!(faults.is_empty(), "{name}:\n    {}", faults.join("\n    "));
    }

    #[test]
    fn crates_import_downwards() {
        holds("crates import downwards");
    }

    #[test]
    fn floors_of_the_engine_hold() {
        holds("floors of the engine");
    }

    #[test]
    fn no_circles_inside_a_folder() {
        holds("no circles inside a folder");
    }

    #[test]
    fn the_outside_enters_through_env() {
        holds("the outside enters through env");
    }

    #[test]
    fn unsafe_stays_behind_fences() {
        holds("unsafe stays behind fences");
    }

    #[test]
    fn files_are_small_and_none_is_a_drawer() {
        holds("files are small, and none is a drawer");
    }

    #[test]
    fn the_map_is_short_and_true() {
        holds("the map is short and true");
    }

    #[test]
    fn prose_has_nouns() {
        holds("prose has nouns");
    }

    #[test]
    fn pages_name_no_machine() {
        holds("words of the page");
    }

    #[test]
    fn licences_are_permissive() {
        holds("licences are permissive");
    }

    #[test]
    fn the_table_of_options_is_current() {
        holds("the table of options is current");
    }

    #[test]
    fn every_rule_is_a_test() {
        assert_eq!(RULES.len(), 11, "a new rule needs its test above");
    }

    #[test]
    fn files_of_tests_are_known_by_their_declaration() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n";
        assert_eq!(test_files(Path::new("x/src/sst/mod.rs"), text), [PathBuf::from("x/src/sst/b")]);
        assert_eq!(test_files(Path::new("x/src/cursor.rs"), text), [PathBuf::from("x/src/cursor/b")]);
    }

    #[test]
    fn the_walk_finds_what_git_finds() {
        let root = crate::root();
        let walked = below(&root, Path::new(""));
        assert!(walked.contains(&PathBuf::from("xtask/src/main.rs")));
        assert!(files(&root).contains(&PathBuf::from("xtask/src/main.rs")));
        assert!(!walked.iter().any(|file| file.starts_with("target")));
    }
}
