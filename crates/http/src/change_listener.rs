//! A listener for the changes that requests make.

use std::fmt::Debug;

/// Learns which entries requests change, as a cache of the files needs it.
///
/// The methods are called after the commit and before the client gets the response, also for a change that has failed.
/// They hold no lock of the store, and may wait.
pub trait ChangeListener: Debug + Send + Sync {
    /// The entry at a path may have been created, changed, replaced, moved or removed.
    fn entry_changed(&self, path: &[u8]);

    /// A request has removed the tree at a path, or a part of it.
    fn tree_removed(&self, path: &[u8]);
}
