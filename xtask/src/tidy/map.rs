//! ARCHITECTURE.md stays short, and every file and folder that it names exists.

use std::path::Path;

const PAGE: &str = "ARCHITECTURE.md";

/// Longest page, in bytes: what a newcomer reads in half an hour.
const LONGEST: usize = 20 * 1024;

/// Folders in which a path of the page may begin.
const STARTS: &[&str] = &["crates/lsm/src", ""];

/// Returns the missing paths that the page names, and the page itself if it is too long.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    faults_of(&page, |path| STARTS.iter().any(|start| root.join(start).join(path).exists()))
}

fn faults_of(page: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let missing = paths(page).filter(|path| !exists(path));
    let mut faults: Vec<String> = missing.map(|path| format!("{PAGE} names {path}, which does not exist")).collect();
    if page.len() > LONGEST {
        faults.push(format!("{PAGE} has {} bytes, more than {LONGEST}", page.len()));
    }
    faults
}

/// Code spans that are paths: Rust files, and folders of at least two parts.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    let is_path = |span: &&str| {
        let is_plain = span.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
        is_plain && (span.ends_with(".rs") || span.contains('/'))
    };
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_other_code() {
        let page = "`db/`, `wal/order.rs` and `order.rs`\nnot `Log::apply`, `a / b` nor `put`; `crates/lsm/tests`";
        assert_eq!(paths(page).collect::<Vec<_>>(), ["db/", "wal/order.rs", "order.rs", "crates/lsm/tests"]);
    }

    #[test]
    fn a_file_that_is_missing_is_reported() {
        let exists = |path: &str| path == "new.rs";
        let found = faults_of("`old.rs` and `new.rs`", exists);
        assert_eq!(found, ["ARCHITECTURE.md names old.rs, which does not exist"]);
        assert_eq!(faults_of(&" ".repeat(LONGEST + 1), exists).len(), 1);
    }
}
