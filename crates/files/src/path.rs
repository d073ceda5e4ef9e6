//! Paths, and the keys of the entries family. docs/format-files.md, section 2.
//!
//! A key is the path's components joined by zero bytes; the root has the empty key. A name contains any byte but `\0`
//! and `/`, so that the zero byte sorts before every byte of a name. Hence the order of keys is the order of
//! components, depth first, and a subtree with its root is one contiguous range: from its key up to its key followed by
//! `\x01`. The entries of a directory `a` sort between `a` and its sibling `a!`.

use std::fmt;
use std::ops::Bound;

use crate::error::{Error, ErrorKind, Result};

/// Longest name of an entry, in bytes (`NAME_MAX`).
pub const MAX_NAME_BYTES: usize = 255;
/// Longest path, in bytes.
pub const MAX_PATH_BYTES: usize = 32 * 1024;

const SEPARATOR: u8 = 0;
/// The least byte of a name. A key followed by it is above every key of the subtree.
const ABOVE_SEPARATOR: u8 = 1;

/// A range of keys.
pub(crate) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The path of an entry, as its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilePath(Vec<u8>);

impl FilePath {
    /// The path of the root.
    pub(crate) const ROOT: FilePath = FilePath(Vec::new());

    /// Parses a path: components separated by `/`. A leading, trailing or repeated `/` is ignored; the empty path is
    /// the root. Errors: `Invalid` for `.`, `..` and a zero byte, `NameTooLong`.
    pub(crate) fn parse(path: &[u8]) -> Result<FilePath> {
        let fault = |kind, message: &str| Err(Error::of(kind, message).at(path));
        if path.len() > MAX_PATH_BYTES {
            return fault(ErrorKind::NameTooLong, &format!("a path has at most {MAX_PATH_BYTES} bytes"));
        }
        let mut key = Vec::with_capacity(path.len());
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if let Err((kind, message)) = check_name(name) {
                return fault(kind, &message);
            }
            if !key.is_empty() {
                key.push(SEPARATOR);
            }
            key.extend_from_slice(name);
        }
        Ok(FilePath(key))
    }

    /// Returns the path of a stored key.
    pub(crate) fn of_key(key: &[u8]) -> FilePath {
        FilePath(key.to_vec())
    }

    /// Returns true if the bytes are a key that `parse` can return.
    pub(crate) fn is_key(key: &[u8]) -> bool {
        let text: Vec<u8> = key.iter().map(|byte| if *byte == SEPARATOR { b'/' } else { *byte }).collect();
        !key.contains(&b'/') && FilePath::parse(&text).is_ok_and(|path| path.0 == key)
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the directory that holds the entry; `None` for the root.
    pub(crate) fn parent(&self) -> Option<FilePath> {
        parent_of(&self.0).map(FilePath::of_key)
    }

    /// Returns the last component; empty for the root.
    pub(crate) fn name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == SEPARATOR).next().unwrap_or_default()
    }

    /// Returns true if the path is below another one.
    pub(crate) fn is_below(&self, other: &FilePath) -> bool {
        match self.0.strip_prefix(other.key()) {
            Some(rest) => other.is_root() && !rest.is_empty() || rest.first() == Some(&SEPARATOR),
            None => false,
        }
    }

    /// Returns the path with its beginning `from` replaced by `to`. `self` must be `from` or below it.
    pub(crate) fn moved(&self, from: &FilePath, to: &FilePath) -> FilePath {
        FilePath([to.key(), &self.0[from.0.len()..]].concat())
    }

    /// Returns the keys of the subtree with its root.
    pub(crate) fn subtree(&self) -> KeyBounds {
        if self.is_root() {
            return (Bound::Unbounded, Bound::Unbounded);
        }
        (Bound::Included(self.0.clone()), Bound::Excluded(self.end()))
    }

    /// Returns the least key above the subtree. The root has none; the caller checks that.
    pub(crate) fn end(&self) -> Vec<u8> {
        end_of(&self.0)
    }

    /// Returns the beginning of the keys of all entries below the directory.
    pub(crate) fn children(&self) -> Vec<u8> {
        match self.is_root() {
            true => Vec::new(),
            false => [&self.0[..], &[SEPARATOR]].concat(),
        }
    }

    /// Returns the keys below the directory.
    pub(crate) fn below(&self) -> KeyBounds {
        match self.is_root() {
            true => (Bound::Excluded(Vec::new()), Bound::Unbounded),
            false => (Bound::Included(self.children()), Bound::Excluded(self.end())),
        }
    }

    /// Returns the path as text for callers: components separated by `/`, without a leading one.
    pub(crate) fn display(&self) -> Vec<u8> {
        path_of(&self.0)
    }
}

/// Checks a name that is not empty. Returns what is wrong with it.
fn check_name(name: &[u8]) -> std::result::Result<(), (ErrorKind, String)> {
    if name.len() > MAX_NAME_BYTES {
        return Err((ErrorKind::NameTooLong, format!("a name has at most {MAX_NAME_BYTES} bytes")));
    }
    if matches!(name, b"." | b"..") {
        return Err((ErrorKind::Invalid, "paths with the component `.` or `..` are refused".to_owned()));
    }
    match name.iter().any(|byte| matches!(*byte, SEPARATOR | b'/')) {
        true => Err((ErrorKind::Invalid, "a name contains no zero byte and no slash".to_owned())),
        false => Ok(()),
    }
}

/// Returns true for the name of an entry: a caller may join it to a local path, and stays below that path.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && check_name(name).is_ok()
}

/// Returns true if all components of a stored key are names. The root has none.
pub(crate) fn has_names(key: &[u8]) -> bool {
    key.is_empty() || key.split(|byte| *byte == SEPARATOR).all(is_name)
}

/// Returns the path of a key, as callers write it.
pub(crate) fn path_of(key: &[u8]) -> Vec<u8> {
    key.iter().map(|byte| if *byte == SEPARATOR { b'/' } else { *byte }).collect()
}

/// Returns the least key above the subtree of a key.
pub(crate) fn end_of(key: &[u8]) -> Vec<u8> {
    [key, &[ABOVE_SEPARATOR]].concat()
}

/// Returns the key of the directory that holds an entry; `None` for the root.
pub(crate) fn parent_of(key: &[u8]) -> Option<&[u8]> {
    if key.is_empty() {
        return None;
    }
    Some(key.iter().rposition(|byte| *byte == SEPARATOR).map_or(&[], |at| &key[..at]))
}

/// Returns the first component of the part of a key behind a directory's prefix, and whether it is all of it.
pub(crate) fn first_name(rest: &[u8]) -> (&[u8], bool) {
    match rest.iter().position(|byte| *byte == SEPARATOR) {
        Some(at) => (&rest[..at], false),
        None => (rest, true),
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.display().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> FilePath {
        FilePath::parse(text.as_bytes()).unwrap()
    }

    fn holds(bounds: &KeyBounds, path: &FilePath) -> bool {
        use std::ops::RangeBounds;
        bounds.contains(&path.key().to_vec())
    }

    #[test]
    fn slashes_at_the_ends_and_between_count_once() {
        assert_eq!(path("/a//b/"), path("a/b"));
        assert_eq!(path("a/b").key(), b"a\0b");
        assert_eq!((path(""), path("///")), (FilePath::ROOT, FilePath::ROOT));
        assert_eq!(path("a/b").display(), b"a/b");
    }

    #[test]
    fn names_that_posix_reserves_are_refused() {
        for wrong in ["a/./b", "..", "a/..", "a\0b"] {
            assert_eq!(FilePath::parse(wrong.as_bytes()).unwrap_err().kind(), ErrorKind::Invalid, "{wrong:?}");
        }
        for fine in ["...", ".a", "a..", "\x01", "x_$1"] {
            assert_eq!(path(fine).display(), fine.as_bytes());
        }
        let long = |length| FilePath::parse(&vec![b'n'; length]).map_err(|error| error.kind());
        assert!(long(MAX_NAME_BYTES).is_ok());
        assert_eq!(long(MAX_NAME_BYTES + 1), Err(ErrorKind::NameTooLong));
        assert_eq!(FilePath::parse(&b"n/".repeat(MAX_PATH_BYTES)).unwrap_err().kind(), ErrorKind::NameTooLong);
    }

    #[test]
    fn parents_are_the_beginnings_of_paths() {
        assert_eq!(path("a/b").parent(), Some(path("a")));
        assert_eq!(path("a").parent(), Some(FilePath::ROOT));
        assert_eq!(FilePath::ROOT.parent(), None);
        assert_eq!(path("a/b/c").moved(&path("a/b"), &path("x")), path("x/c"));
        assert_eq!(path("a").moved(&path("a"), &path("x/y")), path("x/y"));
    }

    #[test]
    fn keys_are_told_from_other_bytes() {
        for key in [&b""[..], b"a", b"a\0b", b"\x01"] {
            assert!(FilePath::is_key(key), "{key:?}");
        }
        for other in [&b"\0"[..], b"a\0", b"\0a", b"a\0\0b", b"a/b", b".", b"a\0.."] {
            assert!(!FilePath::is_key(other), "{other:?}");
        }
    }

    proptest! {
        /// Names of bytes around the separator, where a wrong order would show.
        #[test]
        fn a_subtree_is_one_range_in_the_order_of_components(
            names in prop::collection::vec(prop::collection::vec("[\u{1}\u{2}a!]{1,2}", 0..4), 2..6),
        ) {
            let paths: Vec<(Vec<String>, FilePath)> =
                names.into_iter().map(|names| (names.clone(), path(&names.join("/")))).collect();
            for (names, one) in &paths {
                for (others, other) in &paths {
                    prop_assert_eq!(names.cmp(others), one.cmp(other));
                    let is_below = others.len() > names.len() && others.starts_with(names);
                    prop_assert_eq!(other.is_below(one), is_below);
                    prop_assert_eq!(holds(&one.below(), other), is_below);
                    prop_assert_eq!(holds(&one.subtree(), other), is_below || one == other);
                }
            }
        }
    }
}
