//! Invalidation of what the kernel has cached, after changes that do not come through the mount.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{INodeNo, Notifier};
use waxseal_files::{InodePlace, Inodes, ROOT_INODE};

/// The kernel's cache of names, attributes and pages of a mount.
///
/// The kernel uses names and attributes for a second without asking. A change by another way than the mount must
/// invalidate them: otherwise a write by a name that was removed or moved reaches the file that the name had before.
///
/// The methods may be called from any thread that holds no lock of the files, but not while it answers the kernel. They
/// wait for requests of the kernel that are on their way in the same directory. After the mount has ended they do
/// nothing.
#[derive(Clone)]
pub struct KernelCache {
    inodes: Arc<Inodes>,
    notifier: Notifier,
}

impl KernelCache {
    pub(crate) fn new(inodes: Arc<Inodes>, notifier: Notifier) -> KernelCache {
        KernelCache { inodes, notifier }
    }

    /// Invalidates an entry that may have been created, changed, replaced, moved or removed. Call it for both paths of
    /// a move.
    pub fn invalidate(&self, path: impl AsRef<[u8]>) {
        match self.inodes.note_change(path) {
            Ok(place) => self.invalidate_place(&place),
            // The root has attributes and no name. A directory that is gone has no valid entries.
            Err(_) => self.invalidate_inode(ROOT_INODE),
        }
    }

    /// Invalidates a removed tree, entry by entry, because the working directory of a process may be in it. Costs a
    /// look at every entry that the kernel knows.
    pub fn invalidate_tree(&self, path: impl AsRef<[u8]>) {
        for place in self.inodes.known_below(&path).unwrap_or_default() {
            self.invalidate_place(&place);
        }
        self.invalidate(path);
    }

    fn invalidate_place(&self, place: &InodePlace) {
        // An error is of an entry that the kernel does not know, or of a mount that has ended.
        let _ = self.notifier.inval_entry(INodeNo(place.parent), OsStr::from_bytes(&place.name));
        self.invalidate_inode(place.parent);
        if let Some(inode) = place.inode {
            self.invalidate_inode(inode);
        }
    }

    /// Invalidates attributes, and all pages.
    fn invalidate_inode(&self, inode: u64) {
        let _ = self.notifier.inval_inode(INodeNo(inode), 0, 0);
    }
}

impl fmt::Debug for KernelCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelCache({:?})", self.inodes)
    }
}
