//! Reads of one point in time.

use std::sync::Arc;

use waxseal::env::Clock;
use waxseal::{Cursor, KeyRange, Range};

use crate::content::{next_data, next_hole, read_all, read_at};
use crate::entry::{Body, Entry, not_a_file};
use crate::error::{Error, ErrorKind, Result};
use crate::families::{Families, View};
use crate::metadata::{FileKind, Metadata};
use crate::path::{FilePath, is_name};
use crate::place::Place;
use crate::store::Files;
use crate::walk::{List, Walk};

/// The tree at one point in time: the last commit before it was taken. Clones share it and may be used from any thread.
///
/// Changes of open files that were not flushed are not in it. It keeps the content that it sees, whatever is removed
/// meanwhile.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// fs.write("report", "draft")?;
/// let snapshot = fs.snapshot();
/// fs.write("report", "final")?;
/// assert_eq!(snapshot.read("report")?, b"draft");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    families: Families,
    pub(crate) at: waxseal::Snapshot,
}

impl Snapshot {
    pub(crate) fn view(&self) -> View<'_> {
        View { families: &self.families, at: Some(&self.at) }
    }

    /// Returns the clock of the store.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.families.db.env().clock)
    }

    /// Opens a cursor over records of the chunks family.
    pub(crate) fn chunks(&self, range: impl KeyRange) -> Cursor {
        self.at.cursor_in(&self.families.chunks, range)
    }

    /// Iterates over records of the chunks family.
    pub(crate) fn chunk_range(&self, range: impl KeyRange) -> Range {
        self.at.range(&self.families.chunks, range)
    }

    /// Returns the attributes of a path. Errors: `NotFound`, `NotDirectory`, `Corruption`.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.view().metadata(&FilePath::parse(path.as_ref())?)
    }

    /// Returns whether a path exists. Errors: as for `stat`, except `NotFound` and `NotDirectory`.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> Result<bool> {
        exists(self.stat(path))
    }

    /// Returns the content of a file. Errors: as for `stat`; `IsDirectory`, `SymbolicLink`, `Invalid`; `TooLarge` if
    /// memory does not hold it.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = FilePath::parse(path.as_ref())?;
        let entry = self.view().entry(&path)?;
        let content = entry.content().and_then(|content| read_all(self.view(), content, entry.metadata.size));
        content.map_err(|error| error.at(path.display()))
    }

    /// Opens a file for reads at positions. Errors: as for `read`.
    pub fn open(&self, path: impl AsRef<[u8]>) -> Result<SnapshotFile> {
        self.open_path(&FilePath::parse(path.as_ref())?)
    }

    pub(crate) fn open_path(&self, path: &FilePath) -> Result<SnapshotFile> {
        let entry = self.view().entry(path)?;
        if entry.metadata.kind != FileKind::File {
            return Err(not_a_file(entry.metadata.kind).at(path.display()));
        }
        Ok(SnapshotFile { snapshot: self.clone(), path: path.clone(), entry })
    }

    /// Returns the target of a symbolic link. Errors: as for `stat`; `Invalid` if it is none.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = FilePath::parse(path.as_ref())?;
        match self.view().entry(&path)?.body {
            Body::Link(target) => Ok(target),
            _ => Err(Error::of(ErrorKind::Invalid, "is no symbolic link").at(path.display())),
        }
    }

    /// Returns an extended attribute. Errors: as for `stat`; `NoAttribute`.
    pub fn xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = FilePath::parse(path.as_ref())?;
        let value = self.view().entry(&path)?.xattrs.remove(name.as_ref());
        value.ok_or_else(|| no_attribute().at(path.display()))
    }

    /// Returns the names of the extended attributes, sorted. Errors: as for `stat`.
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        let path = FilePath::parse(path.as_ref())?;
        Ok(self.view().entry(&path)?.xattrs.into_keys().collect())
    }

    /// Lists a directory. Errors: as for `stat`; `NotDirectory` if it is none.
    pub fn list(&self, path: impl AsRef<[u8]>) -> Result<List> {
        self.list_from(path.as_ref(), None)
    }

    /// Lists a directory from the name behind `after` on: the next page. `after` need not exist.
    pub fn list_after(&self, path: impl AsRef<[u8]>, after: impl AsRef<[u8]>) -> Result<List> {
        let after = after.as_ref();
        if after.is_empty() {
            return self.list(path);
        }
        if !is_name(after) {
            return Err(Error::of(ErrorKind::Invalid, "a list begins behind the name of an entry").at(path.as_ref()));
        }
        self.list_from(path.as_ref(), Some(after))
    }

    fn list_from(&self, path: &[u8], after: Option<&[u8]>) -> Result<List> {
        let path = FilePath::parse(path)?;
        self.view().directory(&path)?;
        Ok(List::new(self.view().entries(path.below()), &path, after))
    }

    /// Walks over a tree, its root first. Errors: as for `stat`.
    pub fn walk(&self, path: impl AsRef<[u8]>) -> Result<Walk> {
        let path = FilePath::parse(path.as_ref())?;
        self.view().metadata(&path)?;
        Ok(Walk::new(self.view().entries(path.subtree())))
    }
}

pub(crate) fn no_attribute() -> Error {
    Error::of(ErrorKind::NoAttribute, "there is no such extended attribute")
}

fn exists(metadata: Result<Metadata>) -> Result<bool> {
    match metadata {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotDirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file in a snapshot.
#[derive(Clone)]
pub struct SnapshotFile {
    pub(crate) snapshot: Snapshot,
    pub(crate) path: FilePath,
    pub(crate) entry: Entry,
}

impl SnapshotFile {
    /// Returns the attributes.
    pub fn metadata(&self) -> Metadata {
        self.entry.metadata
    }

    /// Returns the first position from `offset` on that is in a hole, where the file has no chunk; its end counts as one.
    /// `None` from the end on (`SEEK_HOLE`).
    pub fn next_hole(&self, offset: u64) -> Option<u64> {
        self.entry.content().ok().and_then(|content| next_hole(content, self.entry.metadata.size, offset))
    }

    /// Returns the first position from `offset` on that is in no hole. `None` if nothing but holes follow (`SEEK_DATA`).
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        self.entry.content().ok().and_then(|content| next_data(content, self.entry.metadata.size, offset))
    }

    /// Reads from a position. Returns the number of bytes, which is short at the end of the file only. Errors:
    /// `Corruption`; `out` holds nothing to rely on then.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize> {
        let read = self
            .entry
            .content()
            .and_then(|content| read_at(self.snapshot.view(), content, self.entry.metadata.size, offset, out));
        read.map_err(|error| error.at(self.path.display()))
    }
}

impl Files {
    /// Returns the tree as it is now. Costs no copy.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { families: self.families.clone(), at: self.families.db.snapshot() }
    }

    /// Returns the attributes of a path, with changes of open files that wait in memory. Errors: `NotFound`,
    /// `NotDirectory`, `Corruption`.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        let path = FilePath::parse(path.as_ref())?;
        self.live_of(|| self.families.latest().metadata(&path))
    }

    /// `stat` of a place.
    pub(crate) fn stat_at(&self, place: &Place) -> Result<Metadata> {
        self.live_of(|| {
            let snapshot = self.snapshot();
            place.check(snapshot.view())?;
            snapshot.view().metadata(&place.path)
        })
    }

    /// Reads the attributes of an entry, again if its last handle may have been closed meanwhile. Returns those of the
    /// open file, if a handle has it open.
    fn live_of(&self, read: impl Fn() -> Result<Metadata>) -> Result<Metadata> {
        let open_files = &self.shared.open_files;
        loop {
            let closed = open_files.closed();
            let committed = read()?;
            match open_files.find(committed.inode) {
                Some(file) => return Ok(file.read().metadata()),
                None if open_files.closed() == closed => return Ok(committed),
                None => {} // a flush may have come since they were read
            }
        }
    }

    /// Returns the attributes of an open file for those of its entry, which may be older: a flush may have come since
    /// they were read. The caller holds the lock of the directory, under which no flush comes.
    pub(crate) fn live(&self, committed: Metadata) -> Metadata {
        self.shared.open_files.find(committed.inode).map_or(committed, |file| file.read().metadata())
    }

    /// Returns whether a path exists. Errors: those of `stat` except `NotFound` and `NotDirectory`.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> Result<bool> {
        exists(self.families.latest().metadata(&FilePath::parse(path.as_ref())?))
    }

    /// Returns the content of a file as it was committed last. Every byte is verified.
    ///
    /// Errors: as for `stat`; `IsDirectory`, `SymbolicLink`, `Invalid` if the path is no file; `TooLarge` if memory does
    /// not hold it; `Corruption` if a byte is damaged or missing.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.snapshot().read(path)
    }

    /// Returns the target of a symbolic link. Errors: as for `stat`; `Invalid` if it is none.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.snapshot().read_link(path)
    }

    /// Returns an extended attribute. Errors: as for `stat`; `NoAttribute`.
    pub fn xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.snapshot().xattr(path, name)
    }

    /// Returns the names of the extended attributes, sorted. Errors: as for `stat`.
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        self.snapshot().xattrs(path)
    }

    /// Lists a directory, in the order of names. Errors: as for `stat`; `NotDirectory` if it is none.
    pub fn list(&self, path: impl AsRef<[u8]>) -> Result<List> {
        self.snapshot().list(path)
    }

    /// Lists a directory from the name behind `after` on: the next page. `after` need not exist.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// for name in ["a", "b", "c", "d", "e"] {
    ///     fs.write(name, "")?;
    /// }
    /// let page: Vec<_> = fs.list_after("", "b")?.take(2).collect::<waxseal_files::Result<_>>()?;
    /// assert_eq!((&page[0].name[..], &page[1].name[..]), (&b"c"[..], &b"d"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_after(&self, path: impl AsRef<[u8]>, after: impl AsRef<[u8]>) -> Result<List> {
        self.snapshot().list_after(path, after)
    }

    /// Walks over a tree, its root first. Errors: as for `stat`.
    pub fn walk(&self, path: impl AsRef<[u8]>) -> Result<Walk> {
        self.snapshot().walk(path)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use crate::handle::OpenOptions;
    use crate::store::FileStore;

    #[test]
    fn attributes_are_those_of_a_flush_that_came_in_between() {
        let fs = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        let file = fs.open_with("file", &OpenOptions::new().write(true).create(true)).unwrap();
        let read = fs.stat("file").unwrap();
        file.append(b"more").unwrap();
        assert_eq!((fs.live(read).size, fs.live(read).has_changes), (4, true));
        file.flush().unwrap();
        assert_eq!((fs.live(read).size, fs.live(read).has_changes), (4, false));
    }

    #[test]
    fn attributes_are_those_of_the_last_close_that_came_in_between() {
        let fs = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        let file = fs.open_with("file", &OpenOptions::new().write(true).create(true)).unwrap();
        file.append(b"more").unwrap();
        let file = RefCell::new(Some(file));
        let read = || {
            let committed = fs.snapshot().stat("file");
            file.take().map_or(Ok(()), |file| file.close())?;
            committed
        };
        assert_eq!(fs.live_of(read).unwrap().size, 4);
    }
}
