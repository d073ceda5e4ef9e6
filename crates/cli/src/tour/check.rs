//! Comparison of a stored tree with the expected entries: each path with its content, then the list of all entries.
//!
//! The list is compared step by step with the sorted entries. This finds a missing entry, an additional one, one in the
//! wrong position, and wrong attributes.

use waxseal_files::{Snapshot, WalkEntry};

use super::entries::EntryState;
use crate::failure::Failure;
use crate::files::tree::by_component;

/// The answers of a store.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answers {
    pub(super) exact: u64,
    /// Files that were read by path and are exact.
    pub(super) files: u64,
    pub(super) errors: u64,
    /// Wrong answers without an error.
    pub(super) silent: u64,
}

impl Answers {
    pub(super) fn add(&mut self, other: Answers) {
        self.exact += other.exact;
        self.files += other.files;
        self.errors += other.errors;
        self.silent += other.silent;
    }
}

/// Reads each path with its content, then lists the tree. Paths that must be absent have no state. Passes each wrong
/// answer to `fault`.
pub(super) fn tree<'a>(
    snapshot: &Snapshot,
    expected: impl Iterator<Item = (&'a [u8], Option<EntryState>)> + Clone,
    chunk_bytes: u32,
    fault: &mut dyn FnMut(&str, &[u8]),
) -> Result<Answers, Failure> {
    let mut answers = Answers::default();
    for (path, state) in expected.clone() {
        match EntryState::stored(snapshot, path, chunk_bytes) {
            Ok(found) if found == state => {
                answers.exact += 1;
                answers.files += u64::from(state.is_some_and(EntryState::is_file));
            }
            Ok(_) => {
                answers.silent += 1;
                fault("has another entry", path);
            }
            Err(failure) if failure.is_corruption() => answers.errors += 1,
            Err(failure) => return Err(failure),
        }
    }
    answers.add(list(snapshot, expected.filter_map(|(path, state)| Some((path, state?))), fault)?);
    Ok(answers)
}

/// Compares the list of all entries with the expected ones. An entry may be missing only within the key range of a
/// reported error.
fn list<'a>(
    snapshot: &Snapshot,
    expected: impl Iterator<Item = (&'a [u8], EntryState)>,
    fault: &mut dyn FnMut(&str, &[u8]),
) -> Result<Answers, Failure> {
    let (mut answers, mut gaps) = (Answers::default(), Gaps::default());
    let mut missing = |path: &[u8], gaps: &Gaps| match gaps.excuse(path) {
        true => 0,
        false => {
            fault("lists no entry", path);
            1
        }
    };
    let mut wrong = Vec::new();
    let mut expected = expected.peekable();
    let walk = match snapshot.walk("") {
        Err(error) if error.is_corruption() => return Ok(Answers { errors: 1, ..answers }),
        walk => walk?,
    };
    for entry in walk {
        let WalkEntry { path, metadata, .. } = match entry {
            Err(error) if error.is_corruption() => {
                answers.errors += 1;
                gaps.note(error.store_error());
                continue;
            }
            entry => entry?,
        };
        while let Some((path, _)) = expected.next_if(|(other, _)| by_component(other, &path).is_lt()) {
            answers.silent += missing(path, &gaps);
        }
        gaps.open = false;
        match expected.next_if(|(other, _)| *other == path) {
            Some((_, state)) if state.is_listed_as(&metadata) => answers.exact += 1,
            None if path.is_empty() => {} // the root
            _ => wrong.push(path),
        }
    }
    answers.silent += expected.map(|(path, _)| missing(path, &gaps)).sum::<u64>();
    answers.silent += wrong.len() as u64;
    wrong.iter().for_each(|path| fault("lists a wrong entry, or one too many", path));
    Ok(answers)
}

/// The gaps that a list reported.
#[derive(Default)]
struct Gaps {
    /// Ranges of keys of the entries family.
    spans: Vec<(Vec<u8>, Vec<u8>)>,
    /// The last step returned an error: a gap extends between the adjacent entries, whatever keys it names.
    open: bool,
}

impl Gaps {
    fn note(&mut self, error: Option<&waxseal::Error>) {
        self.open = true;
        let span = error.and_then(|error| error.damage()?.key_range.clone());
        self.spans.extend(span.filter(|span| !self.spans.contains(span)));
    }

    /// Returns true if the entry of this path may be missing.
    fn excuse(&self, path: &[u8]) -> bool {
        let key: Vec<u8> = path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect();
        self.open || self.spans.iter().any(|(from, to)| *from <= key && key <= *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal::Db;
    use waxseal_files::FileStore;

    fn answers(written: &[(&str, &str)], expected: &[(&str, Option<&str>)]) -> Answers {
        let files = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
        for (path, content) in written {
            files.write(path, content).unwrap();
        }
        let expected = expected.iter().map(|(path, content)| (path.as_bytes(), content.map(EntryState::file)));
        let mut faults = 0;
        let answers = tree(&files.snapshot(), expected, files.chunk_bytes(), &mut |_, _| faults += 1).unwrap();
        assert_eq!(faults, answers.silent);
        answers
    }

    #[test]
    fn every_kind_of_wrong_answer_is_silent() {
        let whole = [("a", "1"), ("b", "2"), ("c", "3")];
        let all = [("a", Some("1")), ("aa", None), ("b", Some("2")), ("c", Some("3"))];
        assert_eq!(answers(&whole, &all), Answers { exact: 4 + 3, files: 3, errors: 0, silent: 0 });
        assert_eq!(answers(&whole[1..], &all).silent, 2, "missing");
        assert_eq!(answers(&whole[..2], &all).silent, 2, "missing at the end");
        assert_eq!(answers(&[("a", "1"), ("b", "old"), ("c", "3")], &all).silent, 2, "another content");
        assert_eq!(answers(&[("a", "1"), ("aa", "back"), ("b", "2"), ("c", "3")], &all).silent, 2, "one too many");
        assert_eq!(answers(&[], &[]), Answers::default());
    }

    #[test]
    fn a_missing_entry_is_excused_by_damage_around_it() {
        let files = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
        for path in ["a", "b", "c"] {
            files.write(path, path).unwrap();
        }
        files.db().column_family("files").unwrap().put("b", [1, 1]).unwrap();
        let expected = |paths: &'static [&'static str]| {
            paths.iter().map(|path| (path.as_bytes(), Some(EntryState::file(path)))).collect::<Vec<_>>().into_iter()
        };
        let check = |paths| tree(&files.snapshot(), expected(paths), files.chunk_bytes(), &mut |_, _| {}).unwrap();
        assert_eq!(check(&["a", "b", "c"]), Answers { exact: 4, files: 2, errors: 2, silent: 0 });
        assert_eq!(check(&["a", "b", "c", "d"]).silent, 2, "behind it");
    }

    #[test]
    fn an_error_excuses_what_it_names() {
        let mut gaps = Gaps::default();
        assert!(!gaps.excuse(b"b"));
        let damage =
            waxseal::Damage { key_range: Some((b"b".to_vec(), b"d\0x".to_vec())), ..waxseal::Damage::default() };
        gaps.note(Some(&waxseal::Error::corruption(damage, "here")));
        assert!(gaps.excuse(b"z"), "before the next entry");
        gaps.open = false;
        let excused = ["a", "b", "c", "d", "d/x", "d!"].map(|path| gaps.excuse(path.as_bytes()));
        assert_eq!(excused, [false, true, true, true, true, false]);
    }
}
