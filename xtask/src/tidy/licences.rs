//! Every package that the workspace stands on may be used by whoever uses the workspace.
//!
//! Cargo lists the packages and their licence expressions; an expression passes if one of its choices is permissive.
//! The bench counts without its features: other engines are built for comparison only and are never shipped.

use std::path::Path;
use std::process::Command;

/// Licences that ask for no more than a notice.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

const BENCH: &str = "waxseal-bench";

/// Packages whose licence is not permissive.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let mut faults = listed(root, &["--workspace", "--exclude", BENCH, "--all-features"]);
    if std::fs::read_to_string(root.join("crates/bench/Cargo.toml")).is_ok_and(|text| text.contains(BENCH)) {
        faults.extend(listed(root, &["--package", BENCH]));
    }
    faults.sort();
    faults.dedup();
    faults
}

fn listed(root: &Path, choice: &[&str]) -> Vec<String> {
    let mut tree = Command::new(crate::cargo());
    tree.args(["tree", "--quiet", "--locked", "--target", "all", "--prefix", "none", "--format", "{p}|{l}"]);
    let output = match tree.args(choice).current_dir(root).output() {
        Ok(output) => output,
        Err(error) => return vec![format!("cargo tree cannot be started: {error}")],
    };
    if !output.status.success() {
        return vec![format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim())];
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains('|') {
        return vec!["cargo tree lists nothing".to_owned()];
    }
    text.lines().filter_map(fault_in).collect()
}

/// A line `name v1.0.0 (source)|licence`, `(*)` behind it where the package was listed before.
fn fault_in(line: &str) -> Option<String> {
    let (package, licence) = line.split_once('|')?;
    let licence = licence.trim_end_matches("(*)").trim();
    let name = package.split(" (").next().unwrap_or(package);
    (!is_permissive(licence)).then(|| format!("{name}: {}", if licence.is_empty() { "no licence" } else { licence }))
}

/// Evaluates a licence expression: `OR` and the old `/` need one side, `AND` needs both.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any(&words, &mut at) == Some(true) && at == words.len()
}

fn any(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut holds = all(words, at)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= all(words, at)?;
    }
    Some(holds)
}

fn all(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut holds = one(words, at)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(words, at)?;
    }
    Some(holds)
}

fn one(words: &[&str], at: &mut usize) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let holds = any(words, at)?;
        *at += 1;
        return (words.get(*at - 1) == Some(&")")).then_some(holds);
    }
    if words.get(*at) != Some(&"WITH") {
        return Some(PERMISSIVE.contains(&word));
    }
    let exception = words.get(*at + 1)?;
    *at += 2;
    Some(PERMISSIVE.contains(&format!("{word} WITH {exception}").as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let good =
            ["MIT", "MIT OR Apache-2.0", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"];
        assert!(good.iter().all(|expression| is_permissive(expression)));
        assert!(is_permissive("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        let bad =
            ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND MPL-2.0", "MIT OR", "( MIT", "MIT ISC", "MIT WITH X"];
        assert!(!bad.iter().any(|expression| is_permissive(expression)));
    }

    #[test]
    fn lines_of_the_tree_are_read() {
        assert_eq!(fault_in("arc-swap v1.9.3|MIT OR Apache-2.0"), None);
        assert_eq!(fault_in("heavy v2.0.0 (proc-macro)|GPL-2.0 (*)"), Some("heavy v2.0.0: GPL-2.0".to_owned()));
        assert_eq!(fault_in("bare v0.1.0 |"), Some("bare v0.1.0 : no licence".to_owned()));
    }
}
