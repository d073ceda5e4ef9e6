//! The text of the repository makes sense in every clone: no page or source names a folder of somebody's machine.

use std::path::Path;

/// Beginnings of absolute paths, and folders beside the clone. In two pieces, so that this file does not hold them.
const PLACES: &[(&str, &str)] = &[("/", "work"), ("/", "root"), ("/", "home"), ("../", "shared")];

/// Places named in files that git tracks.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for file in super::files(root) {
        let Ok(bytes) = std::fs::read(root.join(&file)) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for (number, line) in text.lines().enumerate() {
            if let Some(place) = place_in(line) {
                faults.push(format!("{}:{}: names {place}", file.display(), number + 1));
            }
        }
    }
    faults
}

/// A place that a line names: at the beginning of a path, and as a whole folder name.
fn place_in(line: &str) -> Option<String> {
    let places = PLACES.iter().map(|(start, name)| format!("{start}{name}"));
    places
        .into_iter()
        .find(|place| line.match_indices(place.as_str()).any(|(at, _)| stands_alone(line, at, place.len())))
}

fn stands_alone(line: &str, at: usize, length: usize) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | ')' | '}');
    let before = line[..at].chars().next_back();
    let behind = line[at + length..].chars().next();
    !before.is_some_and(part_of_name) && !behind.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_their_likes_are_not() {
        for (start, name) in PLACES {
            let place = format!("{start}{name}");
            assert_eq!(place_in(&format!("see {place}/x")).as_ref(), Some(&place));
            assert_eq!(place_in(&format!("`{place}`")).as_ref(), Some(&place));
            assert_eq!(place_in(&format!("{place}shop/x")), None);
        }
        assert_eq!(place_in("env/work.rs, background/work"), None);
        assert_eq!(place_in("https://example.org/home"), None);
    }
}
