//! Access by inode number, as FUSE asks for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

use waxseal::env::lock;

use crate::entry::ROOT_INODE;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::Metadata;
use crate::path::is_name;
use crate::rename::RenameMode;
use crate::store::Files;

/// The entries that a caller has looked up, by inode number. May be used from any thread.
///
/// An entry stays known for as many [`forget`](Inodes::forget)s as it was looked up. A number costs memory for its name
/// and that of its directory. A rename through [`Inodes::rename`] moves an entry with everything below it in one step.
/// After any other rename, the moved inode numbers are `Stale` until the next lookup.
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
    known: Mutex<HashMap<u64, Known>>,
}

/// An entry that was looked up.
struct Known {
    /// The inode number of its directory.
    parent: u64,
    name: Vec<u8>,
    lookups: u64,
}

impl Inodes {
    /// Returns a table that knows the root only.
    pub fn new(files: &Files) -> Inodes {
        Inodes { files: files.clone(), known: Mutex::new(HashMap::new()) }
    }

    /// Looks up a name in a directory. Returns its attributes, whose number is known from then on. Errors: as for
    /// `stat`; `Stale` if the directory is not known or no longer at its path.
    pub fn lookup(&self, parent: u64, name: impl AsRef<[u8]>) -> Result<Metadata> {
        let name = name.as_ref();
        let metadata = self.files.stat(self.path_in(parent, name)?)?;
        let mut known = lock(&self.known);
        let lookups = known.get(&metadata.inode).map_or(0, |known| known.lookups) + 1;
        known.insert(metadata.inode, Known { parent, name: name.to_vec(), lookups });
        Ok(metadata)
    }

    /// Takes back a number of lookups. An entry without any is no longer known.
    pub fn forget(&self, inode: u64, lookups: u64) {
        let mut known = lock(&self.known);
        if let Some(entry) = known.get_mut(&inode) {
            entry.lookups = entry.lookups.saturating_sub(lookups);
            if entry.lookups == 0 {
                known.remove(&inode);
            }
        }
    }

    /// Returns the path of an entry. Costs a `stat`. Errors: as for `stat`; `Stale` if the number is not known, or if
    /// another entry is at its path.
    pub fn path(&self, inode: u64) -> Result<Vec<u8>> {
        Ok(self.find(inode)?.0)
    }

    /// Returns the attributes of an entry. Errors: as for `path`.
    pub fn stat(&self, inode: u64) -> Result<Metadata> {
        Ok(self.find(inode)?.1)
    }

    /// Returns the path of a name in a directory, whether it exists or not. Errors: as for `path`; `Invalid` for a name
    /// that no entry can have.
    pub fn path_in(&self, parent: u64, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let name = name.as_ref();
        if !is_name(name) {
            let kind =
                if name.len() > crate::path::MAX_NAME_BYTES { ErrorKind::NameTooLong } else { ErrorKind::Invalid };
            return Err(Error::of(kind, "the name of an entry is expected").at(name));
        }
        let mut path = self.path(parent)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(path)
    }

    /// Renames an entry, named by its directory and its name: see [`Files::rename_with`].
    pub fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), mode: RenameMode) -> Result<()> {
        let (old, new) = (self.path_in(from.0, from.1)?, self.path_in(to.0, to.1)?);
        let moved = self.files.stat(&old)?.inode;
        let other = self.files.stat(&new).ok().filter(|_| mode == RenameMode::Exchange);
        self.files.rename_with(&old, &new, mode)?;
        let mut known = lock(&self.known);
        let mut place = |inode: u64, (parent, name): (u64, &[u8])| {
            if let Some(entry) = known.get_mut(&inode) {
                (entry.parent, entry.name) = (parent, name.to_vec());
            }
        };
        place(moved, to);
        if let Some(other) = other {
            place(other.inode, from);
        }
        Ok(())
    }

    fn find(&self, inode: u64) -> Result<(Vec<u8>, Metadata)> {
        let path = self.known_path(inode).ok_or_else(stale)?;
        let metadata = self.files.stat(&path)?;
        match metadata.inode == inode {
            true => Ok((path, metadata)),
            false => Err(stale().at(path)),
        }
    }

    /// Returns the path that an entry had last, as far as the table knows.
    fn known_path(&self, inode: u64) -> Option<Vec<u8>> {
        let known = lock(&self.known);
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
}

fn stale() -> Error {
    Error::of(ErrorKind::Stale, "the entry is not known, or no longer at its path: look it up again")
}

impl fmt::Debug for Inodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inodes({} known)", lock(&self.known).len())
    }
}
