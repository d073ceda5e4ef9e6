//! Packages depend only on packages below them: lsm, meta, registry, the face, files and tables, and on top what
//! nothing imports.

use std::path::Path;

/// The storeys of the house, lowest first. Packages of one storey do not know each other.
const STOREYS: &[&[&str]] = &[
    &["waxseal-lsm", "waxseal-table-derive"],
    &["waxseal-testing"],
    &["waxseal-meta"],
    &["waxseal-registry"],
    &["waxseal"],
    &["waxseal-files", "waxseal-table"],
    &["waxseal-corpus", "waxseal-http", "waxseal-mount", "waxseal-placement", "waxseal-remote", "waxseal-sql"],
    &[
        "waxseal-cli",
        "waxseal-ffi",
        "waxseal-lab",
        "waxseal-leveldb",
        "waxseal-python",
        "waxseal-bench",
        "waxseal-abi",
        "xtask",
    ],
    &["waxseal-papers", "waxseal-fuzz"],
];

/// Pairs of packages: the tests of the first may import the second, although it is above. The tests of the engine share
/// their tools with the crates above it, and the paper's store is in the laboratory. The libraries are built without.
const FOR_TESTS: &[(&str, &str)] = &[("waxseal-lsm", "waxseal-testing"), ("waxseal-meta", "waxseal-lab")];

/// Packages that only tests import, and packages for development above them.
const TEST_BENCH: &str = "waxseal-testing";

/// Packages that are not shipped.
const DEVELOPMENT: &[&str] = &["waxseal-lab", "waxseal-papers", "waxseal-bench"];

/// Dependencies that do not lead down, and packages that stand on no storey.
pub(super) fn upward(root: &Path) -> Vec<String> {
    let is_manifest = |file: &std::path::PathBuf| file.file_name().is_some_and(|name| name == "Cargo.toml");
    let mut faults = Vec::new();
    for file in super::files(root).iter().filter(|file| is_manifest(file)) {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        faults.extend(upward_in(&text).into_iter().map(|fault| format!("{}: {fault}", file.display())));
    }
    faults
}

fn upward_in(manifest: &str) -> Vec<String> {
    let Some(package) = package_name(manifest) else { return Vec::new() }; // the workspace's own
    let Some(own) = storey(&package) else { return vec![format!("{package} stands on no storey")] };
    let mut faults = Vec::new();
    for (name, for_tests) in dependencies(manifest) {
        match storey(&name) {
            Some(_) if name == TEST_BENCH && !for_tests && !DEVELOPMENT.contains(&package.as_str()) => {
                faults.push(format!("{package} ships {name}, which is for tests"));
            }
            Some(_) if for_tests && FOR_TESTS.contains(&(package.as_str(), name.as_str())) => {}
            Some(other) if other >= own => faults.push(format!("{package} imports {name}, which is not below it")),
            Some(_) => {}
            None if name.starts_with("waxseal") => faults.push(format!("{name} stands on no storey")),
            None => {}
        }
    }
    faults
}

fn storey(package: &str) -> Option<usize> {
    STOREYS.iter().position(|storey| storey.contains(&package))
}

/// `name = ".."` of the section `[package]`.
fn package_name(manifest: &str) -> Option<String> {
    let mut lines = manifest.lines().skip_while(|line| line.trim() != "[package]").skip(1);
    let line = lines.by_ref().take_while(|line| !line.starts_with('[')).find(|line| line.starts_with("name"))?;
    Some(line.split('"').nth(1)?.to_owned())
}

/// Names in every dependency section, `[dependencies.name]` too, and whether only tests have it; a renamed one counts
/// by its package.
fn dependencies(manifest: &str) -> Vec<(String, bool)> {
    let (mut found, mut inside, mut for_tests) = (Vec::new(), false, false);
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = section.ends_with("dependencies");
            for_tests = section.contains("dev-dependencies");
            if let Some((_, name)) = section.split_once("dependencies.") {
                found.push((name.to_owned(), for_tests));
            }
        } else if inside && !line.starts_with('#') {
            let Some((name, value)) = line.split_once(['=', '.']) else { continue };
            let renamed = value.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
            found.push((renamed.unwrap_or(name.trim()).to_owned(), for_tests));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upward_dependency_is_found() {
        let manifest =
            "[package]\nname = \"waxseal-lsm\"\n[dependencies]\nbytes = \"1\"\nwaxseal-meta.workspace = true\n";
        assert_eq!(upward_in(manifest), ["waxseal-lsm imports waxseal-meta, which is not below it"]);
        let beside = "[package]\nname = \"waxseal-cli\"\n[dev-dependencies]\nwaxseal-bench = { path = \"../bench\" }\n";
        assert_eq!(upward_in(beside).len(), 1);
        let renamed =
            "[package]\nname = \"waxseal-meta\"\n[dependencies]\nface = { package = \"waxseal\", path = \"x\" }\n";
        assert_eq!(upward_in(renamed).len(), 1);
        let table =
            "[package]\nname = \"waxseal-meta\"\n[target.'cfg(unix)'.dependencies.waxseal-cli]\npath = \"../cli\"\n";
        assert_eq!(upward_in(table).len(), 1);
    }

    #[test]
    fn downward_dependencies_pass() {
        let manifest =
            "[package]\nname = \"waxseal\"\n[dependencies]\nwaxseal-lsm = { path = \"../lsm\" }\ntokio = \"1\"\n";
        assert!(upward_in(manifest).is_empty());
        assert!(upward_in("[workspace]\nmembers = []\n").is_empty());
    }

    #[test]
    fn tests_may_import_what_is_named() {
        let manifest = "[package]\nname = \"waxseal-meta\"\n[dev-dependencies]\nwaxseal-lab = { path = \"../lab\" }\n";
        assert!(upward_in(manifest).is_empty());
        assert_eq!(upward_in(&manifest.replace("dev-", "")).len(), 1);
        assert_eq!(upward_in(&manifest.replace("lab", "registry")).len(), 1);
    }

    #[test]
    fn the_test_bench_is_for_tests() {
        let manifest = "[package]\nname = \"waxseal\"\n[dependencies]\nwaxseal-testing = { path = \"../testing\" }\n";
        assert_eq!(upward_in(manifest), ["waxseal ships waxseal-testing, which is for tests"]);
        assert!(upward_in(&manifest.replace("[dep", "[dev-dep")).is_empty());
        assert!(upward_in(&manifest.replace("\"waxseal\"", "\"waxseal-lab\"")).is_empty());
    }

    #[test]
    fn an_unknown_package_is_found() {
        assert_eq!(upward_in("[package]\nname = \"other\"\n"), ["other stands on no storey"]);
    }
}
