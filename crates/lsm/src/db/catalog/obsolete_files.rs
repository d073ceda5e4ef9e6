//! Obsolete files: frees their memory, and removes the files or keeps them for a while.
//!
//! In:    tables and blob files that no reader can reach any more (`version::obsolete_files`, I06); files that an open
//! found and
//!        that no version names after it (I16), such as the old log; files that the change feed has released.
//! Out:   released memory and disk space. Replaced tables stay as `000012.trash`, the newest ones up to a budget, so
//!        that a repair can find records that their successors have lost.
//! Runs:  the flush lane removes one file per step, and all of them if its flush fails, possibly for lack of space.
//!        Calls that promise the removal of files they made obsolete also do it (a compaction, a drop, `settle`,
//!        `close`). An edit does not, because the log lane and writers that wait for a flush must not be delayed. An
//!        open does not either. A read-only store frees only memory, because the files belong to the writing process.
//! Crash: files that no version names, which the next open removes. The same holds for a file that cannot be removed.
//!        The next open keeps files that already have the name of a kept table.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::feed::Feed;
use crate::db::state::context::{Access, StoreContext};
use crate::env::work::lock;
use crate::env::{Fs, Open};
use crate::names::StoreFileName;
use crate::version::{self, ObsoleteList, ObsoleteObject};

/// The files of a store that wait for their removal.
pub(in crate::db) struct ObsoleteFiles {
    dead: Arc<ObsoleteList>,
    /// Held while a file is freed or removed.
    removing: Mutex<()>,
    leftovers: Leftovers,
    trash: Trash,
    feed: Arc<Feed>,
}

impl ObsoleteFiles {
    pub(in crate::db) fn new(
        context: &StoreContext,
        dead: Arc<ObsoleteList>,
        leftovers: Vec<StoreFileName>,
        feed: Arc<Feed>,
    ) -> ObsoleteFiles {
        let budget = if context.access == Access::Write { context.settings.current().trash_bytes } else { 0 };
        let trash = Trash::open(budget, &*context.env.fs, &context.dir);
        ObsoleteFiles { dead, removing: Mutex::default(), leftovers: Leftovers(Mutex::new(leftovers)), trash, feed }
    }

    /// Returns the list that tables and blob files enter when their last reader is gone.
    pub(in crate::db) fn dead(&self) -> &Arc<ObsoleteList> {
        &self.dead
    }

    /// Frees or removes one obsolete object; returns false if none is left. The lock is held during the work, so a
    /// caller that finds none knows that all removals are complete.
    pub(in crate::db) fn remove_one(&self, context: &StoreContext) -> bool {
        let _one_at_a_time = lock(&self.removing);
        match self.dead.take() {
            Some(ObsoleteObject::Memory(late)) => drop(late),
            Some(ObsoleteObject::Table(_) | ObsoleteObject::Values(_)) if context.access != Access::Write => {}
            Some(ObsoleteObject::Table(table)) if self.feed.bury(StoreFileName::Table(table.number)) => {}
            Some(ObsoleteObject::Values(number)) if self.feed.bury(StoreFileName::Values(number)) => {}
            Some(ObsoleteObject::Table(table)) => {
                self.trash.take(&*context.env.fs, &context.dir, table.number, table.size)
            }
            Some(ObsoleteObject::Values(number)) => {
                let _ = context.env.fs.remove(&context.path(StoreFileName::Values(number)));
            }
            None => match self.feed.take_released() {
                Some(name) => drop(context.env.fs.remove(&context.path(name))),
                None => return false,
            },
        }
        true
    }

    /// Frees and removes all obsolete objects. All objects that were obsolete at the call are gone when it returns,
    /// whichever thread removes them.
    pub(in crate::db) fn remove_all(&self, context: &StoreContext) {
        while self.remove_one(context) {}
    }

    /// Removes one file that the open found; returns false if none is left.
    pub(in crate::db) fn remove_leftover(&self, context: &StoreContext) -> bool {
        self.leftovers.remove_one(&*context.env.fs, &context.dir)
    }

    /// Removes the oldest kept table, because the disk is full. Returns true if this freed space.
    pub(in crate::db) fn make_room(&self, context: &StoreContext) -> bool {
        self.trash.make_room(&*context.env.fs, &context.dir)
    }
}

/// Files that an open found and that no version names after it (I16).
#[derive(Debug)]
struct Leftovers(Mutex<Vec<StoreFileName>>);

impl Leftovers {
    /// Removes one file; returns false if none is left. The lock is held during the removal, so a caller that finds
    /// none knows that all removals are complete.
    fn remove_one(&self, fs: &dyn Fs, dir: &Path) -> bool {
        let mut names = lock(&self.0);
        let Some(name) = names.pop() else { return false };
        if !version::is_a_stores(fs, dir, name) {
            return true; // a user's file with such a name
        }
        let _ = fs.remove(&dir.join(name.to_string()));
        true
    }
}

/// The replaced tables that are kept.
#[derive(Debug, Default)]
struct Trash {
    budget: u64,
    /// Number and size, oldest first.
    held: Mutex<VecDeque<(u64, u64)>>,
}

impl Trash {
    /// Creates the trash, with the files that an earlier process left.
    fn open(budget: u64, fs: &dyn Fs, dir: &Path) -> Trash {
        let trash = Trash { budget, held: Mutex::default() };
        if budget > 0 {
            let names = fs.list(dir).unwrap_or_default();
            let mut numbers: Vec<u64> = names
                .iter()
                .filter_map(|name| match StoreFileName::parse(name) {
                    Some(StoreFileName::Trash(number)) => Some(number),
                    _ => None,
                })
                .collect();
            numbers.sort_unstable();
            for number in numbers {
                let file = fs.open(&dir.join(StoreFileName::Trash(number).to_string()), Open::Read);
                let size = file.and_then(|file| file.len()).unwrap_or(0);
                trash.keep(fs, dir, number, size);
            }
        }
        trash
    }

    /// Takes over an obsolete table file. A file that can be neither renamed nor removed is removed by the next open.
    fn take(&self, fs: &dyn Fs, dir: &Path, number: u64, size: u64) {
        let table = dir.join(StoreFileName::Table(number).to_string());
        if size > self.budget || fs.rename(&table, &dir.join(StoreFileName::Trash(number).to_string())).is_err() {
            let _ = fs.remove(&table);
            return;
        }
        self.keep(fs, dir, number, size);
    }

    /// Removes the oldest file, because the disk is full. Returns true if this freed space.
    fn make_room(&self, fs: &dyn Fs, dir: &Path) -> bool {
        let oldest = || lock(&self.held).pop_front();
        let mut files = std::iter::from_fn(oldest).map(|(number, _)| StoreFileName::Trash(number).to_string());
        files.any(|name| fs.remove(&dir.join(name)).is_ok())
    }

    fn keep(&self, fs: &dyn Fs, dir: &Path, number: u64, size: u64) {
        let mut held = lock(&self.held);
        held.push_back((number, size));
        let mut bytes: u64 = held.iter().map(|(_, size)| size).sum();
        let mut over = Vec::new();
        while bytes > self.budget
            && let Some((number, size)) = held.pop_front()
        {
            bytes -= size;
            over.push(number);
        }
        drop(held);
        for number in over {
            let _ = fs.remove(&dir.join(StoreFileName::Trash(number).to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::batch::Batch;
    use crate::db::{Db, Parts};
    use crate::env::SimFs;
    use crate::options::{CfOptions, Durability, Settings};
    use crate::record::Kind;

    #[test]
    fn a_store_that_is_closed_at_once_leaves_nothing_of_the_log_before() {
        let sim = SimFs::new(1);
        let open = || {
            let families = vec![("default".to_owned(), CfOptions::default())];
            let parts = Parts { env: sim.env(1), families, ..Parts::real() };
            Db::open(Path::new("/store"), Settings::default(), parts).unwrap()
        };
        let logs = || sim.files("/store").into_iter().filter(|name| name.ends_with(".log") || name.ends_with(".ring"));
        let db = open();
        let mut batch = Batch::new();
        batch.push(0, Kind::Put, b"key", b"value", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        db.close().unwrap();
        let first: Vec<String> = logs().collect();
        let db = open();
        assert!(first.iter().all(|name| logs().any(|left| left == *name)), "whoever opens does not wait for it");
        db.close().unwrap();
        assert_eq!(first.iter().filter(|name| logs().any(|left| left == **name)).count(), 0);
        assert_eq!(logs().count(), 2, "a segment and a ring");
    }
}
