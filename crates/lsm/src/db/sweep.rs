//! Obsolete files: frees their memory, and removes the files or keeps them as trash.
//!
//! In:    tables and blob files that no reader can reach any more (`version::dead`, I06).
//! Out:   released memory and disk space.
//! Who:   the flush lane removes one per step, and all of them if its flush fails, possibly for lack of space. Calls
//!        that promise the removal of files they made obsolete also do it (a compaction, a drop, `settle`, `close`). An
//!        edit does not, because the log lane and writers that wait for a flush must not be delayed. A read-only store
//!        frees only memory, because the files belong to the writing process.
//! Crash: files that no version names, which the next open removes. The same holds for a file that cannot be removed.

use super::{Access, Inner};
use crate::env::work::lock;
use crate::names::Name;
use crate::version::Dead;

impl Inner {
    /// Frees or removes one obsolete object; returns false if none is left. The lock is held during the work, so a
    /// caller that finds none knows that all removals are complete.
    pub(super) fn sweep_one(&self) -> bool {
        let _one_at_a_time = lock(&self.sweeping);
        match self.dead_files.take() {
            Some(Dead::Memory(late)) => drop(late),
            Some(Dead::Table(_) | Dead::Values(_)) if self.access != Access::Write => {}
            Some(Dead::Table(table)) => self.trash.take(&*self.env.fs, &self.dir, table.number, table.size),
            Some(Dead::Values(number)) => {
                let _ = self.env.fs.remove(&self.path(Name::Values(number)));
            }
            None => return false,
        }
        true
    }

    /// Frees and removes all obsolete objects. All objects that were obsolete at the call are gone when it returns,
    /// whichever thread removes them.
    pub(super) fn sweep_dead_files(&self) {
        while self.sweep_one() {}
    }
}
