//! The two families of a file store, and reads of entries.

use waxseal::{Batch, CfOptions, ColumnFamily, Cursor, Db, Durability, Session, Snapshot};

use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{FileKind, Metadata};
use crate::path::{FilePath, KeyBounds};
use crate::records::{HEADER_KEY, Header};

/// Follows the name of the entries family in that of the chunks family.
const CHUNKS_SUFFIX: &str = "-chunks";

/// The families of a file store, in the name of one session. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Families {
    pub(crate) db: Db,
    /// Entries, by path.
    pub(crate) entries: ColumnFamily,
    /// Chunks, reclaim records, header and counter.
    pub(crate) chunks: ColumnFamily,
}

impl Families {
    /// Opens both families, or creates them. Errors: `Corruption` if one of them is missing and the other holds that of a
    /// file store; `Invalid` if it holds other records, or the store is open for reading. Neither is created then.
    pub(crate) fn open(db: &Db, name: &str) -> Result<Families> {
        let chunks_name = chunks_name(name);
        let find = |name: &str| db.column_families().into_iter().find(|family| family.name() == name);
        let (entries, chunks) = (find(name), find(&chunks_name));
        if entries.is_none() || chunks.is_none() {
            entries.iter().chain(&chunks).try_for_each(|found| check_unused(found, name))?;
            if db.is_read_only() {
                let message = format!("the store has no files in the family {name:?}, and is open for reading only");
                return Err(Error::invalid(message));
            }
        }
        let entries = match entries {
            Some(entries) => entries,
            // Entries are read by `stat` and lists, which must not follow a pointer to a value file.
            None => db.create_column_family(name, CfOptions { large_value_bytes: 0, ..CfOptions::default() })?,
        };
        let chunks = match chunks {
            Some(chunks) => chunks,
            None => db.create_column_family(&chunks_name, CfOptions::default())?,
        };
        Ok(Families { db: db.clone(), entries, chunks })
    }

    /// Returns the families in the name of a session. Errors: `Invalid` if one of them was dropped.
    pub(crate) fn in_session(&self, session: &Session) -> Result<Families> {
        let find = |family: &ColumnFamily| match session.find_column_family(family.name())? {
            Some(found) => Ok(found),
            None => Err(Error::invalid(format!("the column family {:?} was dropped", family.name()))),
        };
        Ok(Families { db: self.db.clone(), entries: find(&self.entries)?, chunks: find(&self.chunks)? })
    }

    /// Returns the view of the latest commits.
    pub(crate) fn latest(&self) -> View<'_> {
        View { families: self, at: None }
    }

    /// Returns an empty batch.
    pub(crate) fn batch(&self) -> Batch {
        self.db.batch()
    }

    /// Adds a put of an entry to a batch.
    pub(crate) fn put_entry(&self, batch: &mut Batch, path: &FilePath, entry: &Entry) {
        batch.put(&self.entries, path.key(), entry.encode());
    }

    /// Commits a batch in the order of the namespace's locks. The caller makes it durable when it holds none.
    pub(crate) fn commit(&self, mut batch: Batch) -> Result<()> {
        Ok(batch.commit(Durability::Os)?)
    }
}

/// Returns the name of the family of chunks.
pub(crate) fn chunks_name(name: &str) -> String {
    format!("{name}{CHUNKS_SUFFIX}")
}

/// Fails if a family that is to become one of a file store holds records. Errors: `Corruption` for those of a file store,
/// whose other family is missing or empty, and `Invalid` for others.
pub(crate) fn check_unused(family: &ColumnFamily, name: &str) -> Result<()> {
    if family.iter().next().transpose()?.is_none() {
        return Ok(());
    }
    let (chunks_name, found) = (chunks_name(name), family.name());
    let other = if found == name { &chunks_name } else { name };
    let has = |key: &[u8], is_valid: fn(&[u8]) -> bool| Ok::<_, Error>(family.get_with(key, is_valid)? == Some(true));
    match has(FilePath::ROOT.key(), |value| Entry::decode(value).is_ok())?
        || has(HEADER_KEY, |value| Header::decode(value).is_ok())?
    {
        true => Err(Error::corruption(format!(
            "the family {found:?} is part of a file store whose family {other:?} is missing or not part of it: restore a backup"
        ))),
        false => Err(Error::invalid(format!("the family {found:?} holds other records than files"))),
    }
}

/// The families at one point in time: the latest commits, or a snapshot.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) families: &'a Families,
    pub(crate) at: Option<&'a Snapshot>,
}

impl View<'_> {
    /// Passes the value of an entry to `visit`; `None` without one.
    pub(crate) fn visit_entry<R>(&self, path: &FilePath, visit: impl FnOnce(&[u8]) -> Result<R>) -> Result<Option<R>> {
        let entries = &self.families.entries;
        let found = match self.at {
            Some(snapshot) => snapshot.get_with(entries, path.key(), visit),
            None => entries.get_with(path.key(), visit),
        };
        found.map_err(Error::from).and_then(Option::transpose).map_err(|error| error.at(path.display()))
    }

    /// Returns the entry of a path; `None` without one.
    pub(crate) fn find(&self, path: &FilePath) -> Result<Option<Entry>> {
        self.visit_entry(path, Entry::decode)
    }

    /// Returns the entry of a path. Errors: `NotFound`, and `NotDirectory` if a component above is none.
    pub(crate) fn entry(&self, path: &FilePath) -> Result<Entry> {
        match self.find(path)? {
            Some(entry) => Ok(entry),
            None => Err(self.absent(path)),
        }
    }

    /// Returns the attributes of a path. Errors: as for `entry`.
    pub(crate) fn metadata(&self, path: &FilePath) -> Result<Metadata> {
        match self.visit_entry(path, Entry::decode_metadata)? {
            Some(metadata) => Ok(metadata),
            None => Err(self.absent(path)),
        }
    }

    /// Returns the entry of a directory. Errors: as for `entry`, and `NotDirectory`.
    pub(crate) fn directory(&self, path: &FilePath) -> Result<Entry> {
        let entry = self.entry(path)?;
        match entry.metadata.kind {
            FileKind::Directory => Ok(entry),
            _ => Err(Error::of(ErrorKind::NotDirectory, "is not a directory").at(path.display())),
        }
    }

    /// Returns the error of a path without an entry.
    #[cold]
    fn absent(&self, path: &FilePath) -> Error {
        let mut above = path.parent();
        while let Some(directory) = above {
            match self.visit_entry(&directory, Entry::decode_metadata) {
                Ok(Some(metadata)) if metadata.is_directory() => break,
                Ok(Some(_)) => {
                    let shown = directory.display();
                    let message = format!("\"{}\" is not a directory", shown.escape_ascii());
                    return Error::of(ErrorKind::NotDirectory, message).at(path.display());
                }
                Ok(None) => above = directory.parent(),
                Err(error) => return error,
            }
        }
        Error::of(ErrorKind::NotFound, "there is no such file or directory").at(path.display())
    }

    /// Passes the value of a record of the chunks family to `visit`; `None` without one.
    pub(crate) fn visit_chunk<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let chunks = &self.families.chunks;
        Ok(match self.at {
            Some(snapshot) => snapshot.get_with(chunks, key, visit)?,
            None => chunks.get_with(key, visit)?,
        })
    }

    /// Opens a cursor over entries.
    pub(crate) fn entries(&self, bounds: KeyBounds) -> Cursor {
        match self.at {
            Some(snapshot) => snapshot.cursor_in(&self.families.entries, bounds),
            None => self.families.entries.cursor_in(bounds),
        }
    }

    /// Returns true if a path has entries below it that can be read, whatever is damaged beside them.
    pub(crate) fn has_readable_children(&self, path: &FilePath) -> Result<bool> {
        let mut cursor = self.entries(path.below());
        let mut moved = cursor.first();
        loop {
            match moved {
                Ok(()) => return Ok(cursor.valid()),
                Err(error) if error.is_corruption() => moved = cursor.next(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns true if a directory has entries.
    pub(crate) fn has_children(&self, path: &FilePath) -> Result<bool> {
        let mut cursor = self.entries(path.below());
        cursor.first()?;
        Ok(cursor.valid())
    }
}
