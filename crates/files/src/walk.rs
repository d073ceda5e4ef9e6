//! Lists of directories and walks over trees: iterators over one snapshot.

use waxseal::Cursor;

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::path::{FilePath, end_of, first_name, has_names, is_name, path_of};

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DirEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The attributes.
    pub metadata: Metadata,
}

/// The entries of a directory in the order of their names. Costs a step for each entry, and a seek for each directory
/// among them.
///
/// The list is of one point in time: it pins a snapshot until it is dropped. A damaged entry is an error of the kind
/// `Corruption`, and the list goes on behind it and what is below it. After another error it ends.
#[must_use = "iterators are lazy"]
pub struct List {
    cursor: Cursor,
    /// The beginning of the keys of all entries.
    prefix: Vec<u8>,
    next: Next,
}

/// Where the next entry is.
enum Next {
    /// At the first key from this one on.
    Seek(Vec<u8>),
    /// At the first key of the cursor's range.
    First,
    /// Behind the cursor's key.
    Step,
    Ended,
}

impl List {
    /// Lists a directory behind a name; from the first one without.
    pub(crate) fn new(cursor: Cursor, directory: &FilePath, after: Option<&[u8]>) -> List {
        let prefix = directory.children();
        let next = match after {
            Some(name) => Next::Seek(end_of(&[&prefix[..], name].concat())),
            None => Next::First,
        };
        List { cursor, prefix, next }
    }

    /// Returns the encoded entry that the list returned last.
    pub(crate) fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    /// Returns the path of the entry that the list returned last.
    pub(crate) fn path(&self) -> Vec<u8> {
        path_of(self.cursor.key())
    }

    fn advance(&mut self) -> Result<Option<DirEntry>> {
        let moved = match std::mem::replace(&mut self.next, Next::Step) {
            Next::First => self.cursor.first(),
            Next::Seek(key) => self.cursor.seek(key),
            Next::Step => self.cursor.next(),
            Next::Ended => return Ok(None),
        };
        if let Err(error) = moved {
            if !error.is_corruption() {
                self.next = Next::Ended;
            }
            return Err(error.into());
        }
        if !self.cursor.valid() {
            self.next = Next::Ended;
            return Ok(None);
        }
        let key = self.cursor.key();
        let (name, is_whole) = first_name(&key[self.prefix.len()..]);
        if !is_name(name) {
            return Err(no_name(key));
        }
        if !is_whole {
            let directory = &key[..self.prefix.len() + name.len()];
            self.next = Next::Seek(end_of(directory));
            return Err(Error::corruption("entries below a directory that is missing").at(path_of(directory)));
        }
        let metadata = Entry::decode_metadata(self.cursor.value()).map_err(|error| error.at(path_of(key)));
        if metadata.as_ref().map_or(true, Metadata::is_directory) {
            self.next = Next::Seek(end_of(key));
        }
        let metadata = metadata?;
        Ok(Some(DirEntry { name: name.to_vec(), metadata }))
    }
}

impl Iterator for List {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Result<DirEntry>> {
        self.advance().transpose()
    }
}

/// An entry of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WalkEntry {
    /// The path from the root of the store, without a leading `/`.
    pub path: Vec<u8>,
    /// The attributes.
    pub metadata: Metadata,
}

/// The entries of a tree, depth first: each directory before its entries, these in the order of their names. One scan.
///
/// The walk is of one point in time: it pins a snapshot until it is dropped. A damaged entry is an error of the kind
/// `Corruption`, and the walk goes on behind it. After another error it ends.
#[must_use = "iterators are lazy"]
pub struct Walk {
    cursor: Cursor,
    state: WalkState,
}

#[derive(PartialEq)]
enum WalkState {
    Begins,
    Walks,
    Ended,
}

impl Walk {
    pub(crate) fn new(cursor: Cursor) -> Walk {
        Walk { cursor, state: WalkState::Begins }
    }

    /// Moves to the next entry, and passes key and value to `visit`. `None` at the end. After `Corruption` the walk goes
    /// on behind the damage.
    pub(crate) fn visit<R>(&mut self, visit: impl FnOnce(&[u8], &[u8]) -> R) -> Result<Option<R>> {
        let moved = match std::mem::replace(&mut self.state, WalkState::Ended) {
            WalkState::Begins => self.cursor.first(),
            WalkState::Walks => self.cursor.next(),
            WalkState::Ended => return Ok(None),
        };
        if let Err(error) = moved {
            if error.is_corruption() {
                self.state = WalkState::Walks;
            }
            return Err(error.into());
        }
        if !self.cursor.valid() {
            return Ok(None);
        }
        self.state = WalkState::Walks;
        Ok(Some(visit(self.cursor.key(), self.cursor.value())))
    }

    /// Returns the encoded entry that the walk returned last.
    pub(crate) fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    fn entry(key: &[u8], value: &[u8]) -> Result<WalkEntry> {
        if !has_names(key) {
            return Err(no_name(key));
        }
        let path = path_of(key);
        match Entry::decode_metadata(value) {
            Ok(metadata) => Ok(WalkEntry { path, metadata }),
            Err(error) => Err(error.at(path)),
        }
    }
}

/// The error for a key that is no path: it could lead out of the directory into which a caller copies the tree.
fn no_name(key: &[u8]) -> Error {
    Error::corruption("the key of an entry is no path").at(path_of(key))
}

impl Iterator for Walk {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Result<WalkEntry>> {
        Some(self.visit(Walk::entry).transpose()?.flatten())
    }
}
