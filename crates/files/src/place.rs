//! Entries as callers name them: by path, or by directory and name.

use crate::error::Result;
use crate::families::View;
use crate::path::FilePath;
use crate::store::stale;

/// The path of an entry, as a caller names it.
pub(crate) struct Place {
    pub(crate) path: FilePath,
    /// The inode number that the directory must have. `None` if the caller knows the path alone.
    pub(crate) parent: Option<u64>,
}

impl Place {
    /// Returns the place of a path, whichever directory holds it.
    pub(crate) fn of(path: FilePath) -> Place {
        Place { path, parent: None }
    }

    /// Parses a path. Errors: as for `FilePath::parse`.
    pub(crate) fn parse(path: &[u8]) -> Result<Place> {
        FilePath::parse(path).map(Place::of)
    }

    /// Fails with `Stale` if another directory is at the path of the one that the caller knows. The caller holds its
    /// lock, or the view is of a snapshot.
    pub(crate) fn check(&self, view: View<'_>) -> Result<()> {
        let (Some(expected), Some(parent)) = (self.parent, self.path.parent()) else { return Ok(()) };
        match view.metadata(&parent)?.inode == expected {
            true => Ok(()),
            false => Err(stale().at(self.path.display())),
        }
    }
}
