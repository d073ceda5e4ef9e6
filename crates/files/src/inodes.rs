//! Access by inode number, as FUSE asks for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use waxseal::env::lock;

use crate::condition::Condition;
use crate::entry::{Body, ROOT_INODE, Xattrs};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{File, OpenOptions};
use crate::metadata::{FileKind, Metadata, SetAttributes};
use crate::namespace::{XattrMode, is_root, node_body};
use crate::path::{FilePath, is_name};
use crate::place::Place;
use crate::rename::{MAX_TREE_ENTRIES, RenameMode};
use crate::snapshot::{Snapshot, no_attribute};
use crate::store::{Files, stale};

/// The entries that a caller has looked up, by inode number. May be used from any thread.
///
/// An entry stays known for as many [`forget`](Inodes::forget)s as it was looked up. A number costs memory for its name
/// and that of its directory. A rename through [`Inodes::rename`] moves an entry with everything below it in one step.
/// After any other rename, the moved inode numbers are `Stale` until the next lookup or
/// [`note_change`](Inodes::note_change), except those of open files, which follow every rename.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// use waxseal_files::{Inodes, ROOT_INODE, RenameMode};
///
/// fs.mkdir("dir")?;
/// fs.write("dir/file", "content")?;
/// let inodes = Inodes::new(&fs);
/// let dir = inodes.lookup(ROOT_INODE, "dir")?.inode;
/// let file = inodes.lookup(dir, "file")?.inode;
/// inodes.rename((ROOT_INODE, b"dir"), (ROOT_INODE, b"other"), RenameMode::Replace)?;
/// assert_eq!(inodes.path(file)?, b"other/file");
/// # Ok(())
/// # }
/// ```
pub struct Inodes {
    files: Files,
    /// Held while an operation finds its path and runs. A rename takes it alone.
    paths: RwLock<()>,
    known: Mutex<HashMap<u64, Known>>,
}

/// The place of an entry, and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InodePlace {
    /// The inode number of the directory.
    pub parent: u64,
    /// The name in the directory.
    pub name: Vec<u8>,
    /// The inode number of the entry; `None` if there is no entry.
    pub inode: Option<u64>,
}

/// An entry that was looked up.
struct Known {
    /// The inode number of its directory.
    parent: u64,
    name: Vec<u8>,
    lookups: u64,
    /// The last attributes of an entry that was removed or replaced through the table.
    removed: Option<Metadata>,
}

impl Inodes {
    /// Returns a table that knows the root only.
    pub fn new(files: &Files) -> Inodes {
        Inodes { files: files.clone(), paths: RwLock::new(()), known: Mutex::new(HashMap::new()) }
    }

    /// Looks up a name in a directory. Returns its attributes, whose number is known from then on. Errors: as for
    /// `stat`; `Stale` if the directory is not known or no longer at its path.
    pub fn lookup(&self, parent: u64, name: impl AsRef<[u8]>) -> Result<Metadata> {
        let (_paths, name) = (self.hold_paths(), name.as_ref());
        let metadata = self.files.stat_at(&self.place(parent, name)?)?;
        self.learn(metadata.inode, parent, name);
        Ok(metadata)
    }

    /// Takes back a number of lookups. An entry without any is no longer known. Returns true then.
    pub fn forget(&self, inode: u64, lookups: u64) -> bool {
        let mut known = lock(&self.known);
        if let Some(entry) = known.get_mut(&inode) {
            entry.lookups = entry.lookups.saturating_sub(lookups);
            if entry.lookups == 0 {
                known.remove(&inode);
            }
        }
        !known.contains_key(&inode)
    }

    /// Returns the path of an entry. Costs a `stat`, unless a handle has the file open. Errors: as for `stat`; `Stale`
    /// if the number is not known, if another entry is at its path, or if handles alone keep the file.
    pub fn path(&self, inode: u64) -> Result<Vec<u8>> {
        let _paths = self.hold_paths();
        Ok(self.present_path(inode)?.display())
    }

    /// Returns the attributes of an entry. One that was removed through the table has its last attributes while it is
    /// known, and a file that was removed while a handle has it open. Errors: as for `path`.
    pub fn stat(&self, inode: u64) -> Result<Metadata> {
        let _paths = self.hold_paths();
        Ok(self.find(inode)?.1)
    }

    /// Returns a snapshot, and the path of an entry in it. Errors: as for `path`.
    pub fn snapshot(&self, inode: u64) -> Result<(Snapshot, Vec<u8>)> {
        let _paths = self.hold_paths();
        let path = self.last_path(inode)?.ok_or_else(stale)?;
        let snapshot = self.files.snapshot();
        match snapshot.view().metadata(&path)?.inode == inode {
            true => Ok((snapshot, path.display())),
            false => Err(stale().at(path.display())),
        }
    }

    /// Returns the path of a name in a directory, whether it exists or not. Errors: as for `path`; `Invalid` for a name
    /// that no entry can have.
    pub fn path_in(&self, parent: u64, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let _paths = self.hold_paths();
        Ok(self.place(parent, name.as_ref())?.path.display())
    }

    /// Returns the place of a name in a directory. The caller holds the paths.
    fn place(&self, parent: u64, name: &[u8]) -> Result<Place> {
        if !is_name(name) {
            let kind =
                if name.len() > crate::path::MAX_NAME_BYTES { ErrorKind::NameTooLong } else { ErrorKind::Invalid };
            return Err(Error::of(kind, "the name of an entry is expected").at(name));
        }
        let mut path = self.present_path(parent)?.display();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(Place { path: FilePath::parse(&path)?, parent: Some(parent) })
    }

    /// Opens a file, also one that was removed and that another handle has open. The options create nothing. Errors: as
    /// for [`Files::open_with`] and `path`.
    pub fn open(&self, inode: u64, options: &OpenOptions) -> Result<File> {
        let _paths = self.hold_paths();
        self.files.open_inode(inode, self.last_path(inode)?.as_ref(), options)
    }

    /// Opens a file of a directory, and creates it if the options say so. Its number is known from then on. Errors: as
    /// for [`Files::open_with`] and `path`.
    pub fn open_in(&self, parent: u64, name: impl AsRef<[u8]>, options: &OpenOptions) -> Result<File> {
        let (_paths, name) = (self.hold_paths(), name.as_ref());
        let file = self.files.open_at(&self.place(parent, name)?, options)?;
        self.learn(file.inode(), parent, name);
        Ok(file)
    }

    /// Creates a directory. Returns its attributes, whose number is known from then on. Errors: as for
    /// [`Files::mkdir`] and `path`.
    pub fn mkdir(&self, parent: u64, name: impl AsRef<[u8]>, attributes: &SetAttributes) -> Result<Metadata> {
        self.create((parent, name.as_ref()), FileKind::Directory, attributes, Body::Nothing)
    }

    /// Creates a symbolic link: see [`mkdir`](Inodes::mkdir) and [`Files::symlink`].
    pub fn symlink(
        &self,
        target: impl AsRef<[u8]>,
        parent: u64,
        name: impl AsRef<[u8]>,
        attributes: &SetAttributes,
    ) -> Result<Metadata> {
        self.create((parent, name.as_ref()), FileKind::Link, attributes, Body::Link(target.as_ref().to_vec()))
    }

    /// Creates an empty file, a fifo or a socket: see [`mkdir`](Inodes::mkdir) and [`Files::create_node`].
    pub fn create_node(
        &self,
        parent: u64,
        name: impl AsRef<[u8]>,
        kind: FileKind,
        attributes: &SetAttributes,
    ) -> Result<Metadata> {
        self.create((parent, name.as_ref()), kind, attributes, node_body(kind)?)
    }

    fn create(
        &self,
        (parent, name): (u64, &[u8]),
        kind: FileKind,
        attributes: &SetAttributes,
        body: Body,
    ) -> Result<Metadata> {
        let _paths = self.hold_paths();
        let created = self.files.create(&self.place(parent, name)?, kind, attributes, body)?;
        self.learn(created.inode, parent, name);
        Ok(created)
    }

    /// Removes a file, link, fifo or socket: see [`Files::remove`].
    pub fn remove(&self, parent: u64, name: impl AsRef<[u8]>) -> Result<()> {
        let _paths = self.hold_paths();
        let removed = self.files.remove_at(&self.place(parent, name.as_ref())?, Condition::Always)?;
        self.note_removed(removed);
        Ok(())
    }

    /// Removes an empty directory: see [`Files::remove_dir`].
    pub fn remove_dir(&self, parent: u64, name: impl AsRef<[u8]>) -> Result<()> {
        let _paths = self.hold_paths();
        let removed = self.files.remove_dir_at(&self.place(parent, name.as_ref())?)?;
        self.note_removed(removed);
        Ok(())
    }

    /// Renames an entry, named by its directory and its name: see [`Files::rename_with`].
    pub fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), mode: RenameMode) -> Result<()> {
        let _paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        let (old, new) = (self.place(from.0, from.1)?, self.place(to.0, to.1)?);
        let moved = self.files.stat_at(&old)?.inode;
        let other = self.files.stat_at(&new).ok().filter(|other| other.inode != moved);
        self.files.rename_at(&old, &new, mode, MAX_TREE_ENTRIES)?;
        if mode != RenameMode::Exchange {
            self.note_removed(other);
        }
        let mut known = lock(&self.known);
        let mut place = |inode: u64, (parent, name): (u64, &[u8])| {
            if let Some(entry) = known.get_mut(&inode) {
                (entry.parent, entry.name) = (parent, name.to_vec());
            }
        };
        place(moved, to);
        if let Some(other) = other.filter(|_| mode == RenameMode::Exchange) {
            place(other.inode, from);
        }
        Ok(())
    }

    /// Sets attributes of an entry, or of a file that handles alone keep: see [`Files::set_attributes`].
    pub fn set_attributes(&self, inode: u64, attributes: &SetAttributes) -> Result<()> {
        let _paths = self.hold_paths();
        self.files.set_attributes_of(inode, self.last_path(inode)?.as_ref(), attributes)
    }

    /// Returns an extended attribute: see [`Files::xattr`].
    pub fn xattr(&self, inode: u64, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.with_xattrs(inode, |xattrs| xattrs.get(name.as_ref()).cloned())?.ok_or_else(no_attribute)
    }

    /// Returns the names of the extended attributes: see [`Files::xattrs`].
    pub fn xattrs(&self, inode: u64) -> Result<Vec<Vec<u8>>> {
        self.with_xattrs(inode, |xattrs| xattrs.keys().cloned().collect())
    }

    fn with_xattrs<R>(&self, inode: u64, read: impl FnOnce(&Xattrs) -> R) -> Result<R> {
        let _paths = self.hold_paths();
        if let Some(file) = self.files.shared.open_files.find(inode) {
            return Ok(read(file.read().xattrs()));
        }
        let path = self.last_path(inode)?.ok_or_else(stale)?;
        let entry = self.files.families.latest().entry(&path)?;
        match entry.metadata.inode == inode {
            true => Ok(read(&entry.xattrs)),
            false => Err(stale().at(path.display())),
        }
    }

    /// Sets an extended attribute: see [`Files::set_xattr`].
    pub fn set_xattr(
        &self,
        inode: u64,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        let _paths = self.hold_paths();
        let path = self.last_path(inode)?;
        self.files.set_xattr_of(inode, path.as_ref(), (name.as_ref(), value.as_ref()), mode)
    }

    /// Removes an extended attribute: see [`Files::remove_xattr`].
    pub fn remove_xattr(&self, inode: u64, name: impl AsRef<[u8]>) -> Result<()> {
        let _paths = self.hold_paths();
        self.files.remove_xattr_of(inode, self.last_path(inode)?.as_ref(), name.as_ref())
    }

    /// Notes that the entry at a path may have changed by another way than through the table, and returns its place. A
    /// known entry that was moved there is found again, with everything below it. Errors: as for `stat` of the
    /// directory; `Busy` for the root, which has no place.
    pub fn note_change(&self, path: impl AsRef<[u8]>) -> Result<InodePlace> {
        let (_paths, path) = (self.hold_paths(), FilePath::parse(path.as_ref())?);
        let parent = path.parent().ok_or_else(is_root)?;
        let parent = self.files.stat(parent.display())?.inode;
        let name = path.name().to_vec();
        let inode = self.files.stat(path.display()).ok().map(|metadata| metadata.inode);
        let mut known = lock(&self.known);
        if let Some(entry) = inode.and_then(|inode| known.get_mut(&inode)) {
            (entry.parent, entry.name) = (parent, name.clone());
        }
        drop(known);
        Ok(InodePlace { parent, name, inode })
    }

    /// Returns the places of the entries that are known below a path. Costs a look at every known entry.
    pub fn known_below(&self, path: impl AsRef<[u8]>) -> Result<Vec<InodePlace>> {
        let (_paths, path) = (self.hold_paths(), FilePath::parse(path.as_ref())?);
        let known = lock(&self.known);
        let is_below = |inode| {
            let own = path_of(&known, inode).and_then(|own| FilePath::parse(&own).ok());
            own.is_some_and(|own| own.is_below(&path))
        };
        let below = known.iter().filter(|(inode, _)| is_below(**inode));
        Ok(below
            .map(|(inode, entry)| InodePlace { parent: entry.parent, name: entry.name.clone(), inode: Some(*inode) })
            .collect())
    }

    /// Returns a guard under which no rename through the table changes a path.
    fn hold_paths(&self) -> RwLockReadGuard<'_, ()> {
        self.paths.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a lookup.
    fn learn(&self, inode: u64, parent: u64, name: &[u8]) {
        let mut known = lock(&self.known);
        let lookups = known.get(&inode).map_or(0, |known| known.lookups) + 1;
        known.insert(inode, Known { parent, name: name.to_vec(), lookups, removed: None });
    }

    /// Notes the attributes of an entry that was removed.
    fn note_removed(&self, removed: Option<Metadata>) {
        if let Some(metadata) = removed
            && let Some(entry) = lock(&self.known).get_mut(&metadata.inode)
        {
            entry.removed = Some(Metadata { is_removed: true, ..metadata });
        }
    }

    /// Returns the attributes of an entry that was removed through the table.
    fn removed(&self, inode: u64) -> Option<Metadata> {
        lock(&self.known).get(&inode)?.removed
    }

    /// Returns the path of an entry that is there. The caller holds the paths.
    fn present_path(&self, inode: u64) -> Result<FilePath> {
        self.find(inode)?.0.ok_or_else(stale)
    }

    /// Returns path and attributes. An entry that was removed has no path. The caller holds the paths.
    fn find(&self, inode: u64) -> Result<(Option<FilePath>, Metadata)> {
        if let Some(file) = self.files.shared.open_files.find(inode) {
            let state = file.read();
            return Ok((state.path.clone(), state.metadata()));
        }
        if let Some(metadata) = self.removed(inode) {
            return Ok((None, metadata));
        }
        let path = FilePath::parse(&self.known_path(inode).ok_or_else(stale)?)?;
        let metadata = self.files.stat(path.display())?;
        match metadata.inode == inode {
            true => Ok((Some(path), metadata)),
            false => Err(stale().at(path.display())),
        }
    }

    /// Returns the path of an open file, or the path that an entry had last. An entry that was removed has none.
    fn last_path(&self, inode: u64) -> Result<Option<FilePath>> {
        if let Some(file) = self.files.shared.open_files.find(inode) {
            return Ok(file.read().path.clone());
        }
        if self.removed(inode).is_some() {
            return Ok(None);
        }
        let path = self.known_path(inode).ok_or_else(stale)?;
        FilePath::parse(&path).map(Some)
    }

    /// Returns the path that an entry had last, as far as the table knows.
    fn known_path(&self, inode: u64) -> Option<Vec<u8>> {
        path_of(&lock(&self.known), inode)
    }
}

fn path_of(known: &HashMap<u64, Known>, inode: u64) -> Option<Vec<u8>> {
    let (mut names, mut at) = (Vec::new(), inode);
    while at != ROOT_INODE {
        let entry = known.get(&at)?;
        names.push(&entry.name[..]);
        at = entry.parent;
        if names.len() > crate::path::MAX_PATH_BYTES {
            return None; // renames elsewhere have closed a circle of what is known
        }
    }
    names.reverse();
    Some(names.join(&b'/'))
}

impl fmt::Debug for Inodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inodes({} known)", lock(&self.known).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileStore;

    /// A rename beside the table may come after an operation has found its path.
    #[test]
    fn an_operation_never_reaches_another_directory_at_the_path() {
        let fs = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        let inodes = Inodes::new(&fs);
        let dir = inodes.mkdir(ROOT_INODE, "dir", &SetAttributes::new()).unwrap().inode;
        let place = |name: &str| inodes.place(dir, name.as_bytes()).unwrap();
        let (file, empty, new) = (place("file"), place("empty"), place("new"));
        fs.rename("dir", "moved").unwrap();
        fs.create_dir_all("dir/empty").unwrap();
        fs.write("dir/file", "of another").unwrap();
        fs.write("own", "own").unwrap();
        let (options, attributes) = (OpenOptions::new().write(true).create(true), SetAttributes::new());
        let own = Place::parse(b"own").unwrap();
        for result in [
            fs.stat_at(&file).map(drop),
            fs.open_at(&file, &options.truncate(true)).map(drop),
            fs.open_at(&new, &options).map(drop),
            fs.open_at(&new, &options.create_new(true)).map(drop),
            fs.create(&new, FileKind::Directory, &attributes, Body::Nothing).map(drop),
            fs.remove_at(&file, Condition::Always).map(drop),
            fs.remove_dir_at(&empty).map(drop),
            fs.rename_at(&file, &own, RenameMode::Replace, 1),
            fs.rename_at(&own, &new, RenameMode::Replace, 1),
            fs.rename_at(&empty, &own, RenameMode::Exchange, 1),
        ] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Stale);
        }
        assert_eq!((fs.read("dir/file").unwrap(), fs.read("own").unwrap()), (b"of another".to_vec(), b"own".to_vec()));
        assert_eq!(fs.list("dir").unwrap().count(), 2);
    }
}
