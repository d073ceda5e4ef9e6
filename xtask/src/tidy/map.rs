//! The map is whole: each file of the engine is named in ARCHITECTURE.md, so that a newcomer finds from the page where a thing lives.

use std::path::Path;

const PAGE: &str = "ARCHITECTURE.md";
const ENGINE: &str = "crates/lsm/src";

/// Folders that the page names as wholes.
const WHOLES: &[&str] = &["env/real", "env/sim"];

/// Files of the engine that the page does not name.
pub(super) fn unnamed(root: &Path) -> Vec<String> {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let sources = super::rust_sources(root);
    let engine = sources.iter().filter_map(|(file, _)| file.strip_prefix(ENGINE).ok());
    engine
        .filter(|file| !is_named(&page, file))
        .map(|file| format!("{ENGINE}/{}: not on {PAGE}", file.display()))
        .collect()
}

/// True if the page names a file, or its folder as a whole. Roots of modules go by the names of their folders.
fn is_named(page: &str, file: &Path) -> bool {
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else { return false };
    let is_root = name == "mod.rs" || name == "lib.rs";
    let is_of_tests = name.ends_with("_tests.rs"); // declared under another name
    is_root
        || is_of_tests
        || WHOLES.iter().any(|folder| file.starts_with(folder))
        || page.match_indices(name).any(|(at, _)| begins_there(page, at))
}

/// True if what stands there is no end of a longer name.
fn begins_there(page: &str, at: usize) -> bool {
    !page[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_whole_name() {
        let named = |page: &str, file: &str| is_named(page, Path::new(file));
        assert!(named("`sst/block.rs` a block", "sst/block.rs"));
        assert!(!named("deadblock.rs", "sst/block.rs"));
        assert!(named("", "sst/mod.rs") && named("", "env/sim/dice.rs"));
    }
}
