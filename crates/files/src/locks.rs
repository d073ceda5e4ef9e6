//! The namespace's locks.
//!
//! Operations on paths share the namespace and take *stripes*: locks that directories are spread over by a hash. The
//! stripe of a directory guards the entries in it and its own times. An operation that creates or removes a directory
//! takes the stripes of the directory and of its parent. Operations on trees have the namespace to themselves, so that
//! they need no stripe. Stripes are taken in the order of their numbers.
//!
//! No lock is held while a commit is made durable.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use xxhash_rust::xxh3::xxh3_64;

use crate::path::FilePath;

const STRIPES: usize = 64;

/// The locks of one file store.
pub(crate) struct Namespace {
    tree: RwLock<()>,
    stripes: [RwLock<()>; STRIPES],
}

/// Locked directories.
#[must_use]
pub(crate) struct PathLock<'a> {
    _tree: RwLockReadGuard<'a, ()>,
    _stripes: Vec<RwLockWriteGuard<'a, ()>>,
}

/// A directory locked for reading.
#[must_use]
pub(crate) struct ReadLock<'a> {
    _tree: RwLockReadGuard<'a, ()>,
    _stripe: RwLockReadGuard<'a, ()>,
}

/// The locked namespace.
#[must_use]
pub(crate) struct TreeLock<'a> {
    _tree: RwLockWriteGuard<'a, ()>,
}

impl Namespace {
    pub(crate) fn new() -> Namespace {
        Namespace { tree: RwLock::new(()), stripes: [const { RwLock::new(()) }; STRIPES] }
    }

    /// Locks directories for changes of their entries.
    pub(crate) fn lock<'a>(&self, directories: impl IntoIterator<Item = &'a FilePath>) -> PathLock<'_> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        let numbers: BTreeSet<usize> = directories.into_iter().map(stripe_of).collect();
        let stripe = |number: usize| self.stripes[number].write().unwrap_or_else(PoisonError::into_inner);
        PathLock { _tree: tree, _stripes: numbers.into_iter().map(stripe).collect() }
    }

    /// Locks the directory of a path, and the path itself in case it is a directory.
    pub(crate) fn lock_entry(&self, path: &FilePath) -> PathLock<'_> {
        self.lock(path.parent().iter().chain([path]))
    }

    /// Locks the directory of a path against changes.
    pub(crate) fn lock_for_reading(&self, path: &FilePath) -> ReadLock<'_> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        let number = stripe_of(&path.parent().unwrap_or(FilePath::ROOT));
        let stripe = self.stripes[number].read().unwrap_or_else(PoisonError::into_inner);
        ReadLock { _tree: tree, _stripe: stripe }
    }

    /// Locks all paths.
    pub(crate) fn lock_tree(&self) -> TreeLock<'_> {
        TreeLock { _tree: self.tree.write().unwrap_or_else(PoisonError::into_inner) }
    }
}

fn stripe_of(directory: &FilePath) -> usize {
    (xxh3_64(directory.key()) % STRIPES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> FilePath {
        FilePath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_locked_directory_is_locked_for_everyone() {
        let namespace = Namespace::new();
        let held = namespace.lock([&path("a"), &path("b"), &path("a")]);
        assert!(namespace.stripes[stripe_of(&path("a"))].try_read().is_err());
        assert!(namespace.stripes[stripe_of(&path("b"))].try_read().is_err());
        assert!(namespace.tree.try_write().is_err() && namespace.tree.try_read().is_ok());
        drop(held);
        let _reading = namespace.lock_for_reading(&path("a/file"));
        let stripe = &namespace.stripes[stripe_of(&path("a"))];
        assert!(stripe.try_read().is_ok() && stripe.try_write().is_err());
    }

    #[test]
    fn a_tree_is_locked_alone() {
        let namespace = Namespace::new();
        let held = namespace.lock_tree();
        assert!(namespace.tree.try_read().is_err());
        drop(held);
        assert!(namespace.tree.try_write().is_ok());
    }
}
