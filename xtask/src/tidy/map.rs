//! The map is whole: each file of the engine is named in ARCHITECTURE.md, on its own floor, so that a newcomer finds from the page where a thing lives.

use std::path::Path;

const PAGE: &str = "ARCHITECTURE.md";
const ENGINE: &str = "crates/lsm/src";

/// The floor of files that stand in no folder, or in one that is no floor.
const GROUND: &str = "the ground";

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
        || has_word(floor_of(page, file), name)
}

/// What the page says of a file's floor: from the line that begins with its name to the next that begins with anything.
fn floor_of<'p>(page: &'p str, file: &Path) -> &'p str {
    let folder = file.parent().and_then(|folder| folder.iter().next()).and_then(|floor| floor.to_str());
    let begin = |floor: &str| {
        let line = format!("\n{floor} ");
        page.find(&line).map(|at| at + 1)
    };
    let Some(begin) = folder.and_then(begin).or_else(|| begin(GROUND)) else { return "" };
    let rest = &page[begin..];
    let is_end = |(at, _): &(usize, &str)| !rest[at + 1..].starts_with(' ');
    let end = rest.match_indices('\n').find(is_end).map_or(rest.len(), |(at, _)| at);
    &rest[..end]
}

/// True if a name stands in a text, and not as the end of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, _)| begins(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_whole_name() {
        let named = |page: &str, file: &str| is_named(page, Path::new(file));
        let page = "floors\nsst  tables\n block.rs  a block  key.rs\nthe ground  order.rs, deadblock.rs\n    batch/walk.rs\nend\n heap.rs\n";
        assert!(named(page, "sst/block.rs") && named(page, "sst/key.rs"));
        assert!(named(page, "order.rs") && named(page, "batch/walk.rs"));
        assert!(!named(page, "block.rs"), "a longer name, on another floor");
        assert!(!named(page, "sst/order.rs"), "on another floor");
        assert!(!named(page, "heap.rs"), "on none");
        assert!(!named("", "sst/block.rs"));
        assert!(named("", "sst/mod.rs") && named("", "env/sim/dice.rs"));
    }
}
