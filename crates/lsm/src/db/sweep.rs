//! Sweep: what died is freed, and its files are removed or kept as trash.
//!
//! In:    tables and value files that nobody can read any more (`version::dead`, I06). Out: their memory and their place on the disk.
//! Who:   the flush lane, a piece a step, and all of it if its flush fails, for want of room perhaps; and whoever promises that
//!        what died by its own doing is gone when it returns (a compaction, a drop, `settle`, `close`). An edit does not: the lane of the log
//!        and those who wait for a flush have no time for it.
//!        Whoever opened the store for reading frees memory alone: the files are somebody else's.
//! Crash: files that no version names, which the next open sweeps. So is one that cannot be removed.

use super::{Access, Inner};
use crate::env::work::lock;
use crate::names::Name;
use crate::version::Dead;

impl Inner {
    /// Frees or removes one thing that died; false if there is none. Held over the work, so that whoever finds nothing knows that
    /// all is gone.
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

    /// The same for all: what was dead when it was called is gone when it returns, whoever sees to it.
    pub(super) fn sweep_dead_files(&self) {
        while self.sweep_one() {}
    }
}
