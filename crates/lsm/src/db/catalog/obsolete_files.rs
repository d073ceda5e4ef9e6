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
//! Crash: files that no version names, which the next open removes. It keeps files that already have the name of a kept
//!        table.
//! Fails: a file that cannot be removed is known to `StoreContext::left`, and is tried again by `remove_all`.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use super::feed::Feed;
use crate::db::state::context::{Access, StoreContext};
use crate::env::Open;
use crate::env::work::lock;
use crate::error::{IoContext, Result};
use crate::names::StoreFileName;
use crate::record::Seqno;
use crate::version::{self, FileOwner, ObsoleteList, ObsoleteObject, TableMeta};

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
    /// Takes over the leftovers and the numbers of the kept tables that the open found.
    pub(in crate::db) fn new(
        context: &StoreContext,
        dead: Arc<ObsoleteList>,
        (leftovers, kept): (Vec<StoreFileName>, Vec<u64>),
        feed: Arc<Feed>,
    ) -> ObsoleteFiles {
        let trash = Trash::open(context, kept);
        ObsoleteFiles { dead, removing: Mutex::default(), leftovers: Leftovers::new(leftovers), trash, feed }
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
            Some(ObsoleteObject::Table(table)) if context.access != Access::Write => self.dead.removed(table.number),
            Some(ObsoleteObject::Values(number)) if context.access != Access::Write => {
                self.dead.values().removed(number);
            }
            Some(ObsoleteObject::Table(table)) if self.feed.bury(StoreFileName::Table(table.number)) => {}
            Some(ObsoleteObject::Values(number)) if self.feed.bury(StoreFileName::Values(number)) => {}
            Some(ObsoleteObject::Table(table)) => {
                self.trash.take(context, &table);
                self.dead.removed(table.number);
            }
            Some(ObsoleteObject::Values(number)) => self.remove(context, StoreFileName::Values(number)),
            None => match self.feed.take_released() {
                Some(name) => self.remove(context, name),
                None => return false,
            },
        }
        true
    }

    /// Removes the file of an obsolete object. If that fails, it is known as a left file before it leaves the lists.
    fn remove(&self, context: &StoreContext, name: StoreFileName) {
        context.remove_file(name);
        match name {
            StoreFileName::Table(number) => self.dead.removed(number),
            StoreFileName::Values(number) => self.dead.values().removed(number),
            _ => {}
        }
    }

    /// Returns the least seqno of a record in files that no version names: files that readers, backups or the change
    /// feed hold, those that wait for their removal, kept tables, and what a recovery or a repair has set aside. 0 if
    /// it is not known. Errors: `Io` if the directory cannot be listed.
    pub(in crate::db) fn oldest_seqno(&self, context: &StoreContext) -> Result<Option<Seqno>> {
        let _no_file_is_being_removed = lock(&self.removing);
        // A file moves from the first to the last of these.
        let (unnamed, of_feed) = (self.dead.oldest_seqno(), self.feed.oldest_in_files());
        let kept = self.trash.oldest_seqno();
        let names = context.env.fs.list(&context.dir).during(|| "listing the store's directory")?;
        let is_set_aside = |name: &String| {
            matches!(StoreFileName::parse(name), Some(StoreFileName::Cut(_) | StoreFileName::Damaged(_)))
        };
        let is_unknown = self.leftovers.hold_records() || !context.left.is_empty() || names.iter().any(is_set_aside);
        Ok(if is_unknown { Some(0) } else { unnamed.into_iter().chain(of_feed).chain(kept).min() })
    }

    /// Removes kept tables beyond the present budget.
    pub(in crate::db) fn trim_trash(&self, context: &StoreContext) {
        let _one_at_a_time = lock(&self.removing);
        self.trash.shorten(context);
    }

    /// Frees and removes all obsolete objects. All objects that were obsolete at the call are gone when it returns,
    /// whichever thread removes them, apart from files that cannot be removed. Files whose removal failed before are tried
    /// again, and so are leftovers of the open whose owner is unknown.
    pub(in crate::db) fn remove_all(&self, context: &StoreContext) {
        context.retry_removals();
        self.leftovers.retry_unknown();
        while self.remove_one(context) {}
    }

    /// Removes one file that the open found; returns false if none is left.
    pub(in crate::db) fn remove_leftover(&self, context: &StoreContext) -> bool {
        self.leftovers.remove_one(context)
    }

    /// Removes files that could not be removed before, or else the oldest kept table, because the disk is full. Returns
    /// true if this freed space.
    pub(in crate::db) fn make_room(&self, context: &StoreContext) -> bool {
        let _one_at_a_time = lock(&self.removing);
        context.retry_removals() || self.trash.make_room(context)
    }
}

/// Files that an open found and that no version names after it (I16).
#[derive(Debug)]
struct Leftovers(Mutex<LeftoverNames>);

#[derive(Debug)]
struct LeftoverNames {
    waiting: Vec<StoreFileName>,
    /// Files whose header could not be read, or is none of ours: those of a user, or of the store if the header is damaged.
    /// They stay in the directory.
    unknown: Vec<StoreFileName>,
}

impl Leftovers {
    fn new(waiting: Vec<StoreFileName>) -> Leftovers {
        Leftovers(Mutex::new(LeftoverNames { waiting, unknown: Vec::new() }))
    }

    /// Removes one file; returns false if none is left. The lock is held during the removal, so a caller that finds
    /// none knows that all removals are complete.
    fn remove_one(&self, context: &StoreContext) -> bool {
        let LeftoverNames { waiting, unknown } = &mut *lock(&self.0);
        let Some(name) = waiting.pop() else { return false };
        match version::owner_of(&*context.env.fs, &context.dir, name) {
            Ok(None) => {}
            Ok(Some(FileOwner::Store)) => _ = context.remove_file(name),
            Ok(Some(FileOwner::Unknown)) | Err(_) => unknown.push(name),
        }
        true
    }

    /// Lets `remove_one` judge the files of an unknown owner again.
    fn retry_unknown(&self) {
        let LeftoverNames { waiting, unknown } = &mut *lock(&self.0);
        waiting.append(unknown);
    }

    /// Returns true if a file of records may be among them.
    fn hold_records(&self) -> bool {
        let LeftoverNames { waiting, unknown } = &*lock(&self.0);
        waiting.iter().chain(unknown).any(|name| !matches!(name, StoreFileName::Manifest(_)))
    }
}

/// The replaced tables that are kept, up to `Settings::trash_bytes`.
#[derive(Debug, Default)]
struct Trash {
    /// Oldest first.
    held: Mutex<VecDeque<KeptTable>>,
}

/// A replaced table that is kept.
#[derive(Debug)]
struct KeptTable {
    number: u64,
    size: u64,
    /// The least seqno of a record; 0 if it is not known.
    oldest: Seqno,
}

impl Trash {
    /// Creates the trash, with the tables that an earlier process kept.
    fn open(context: &StoreContext, mut numbers: Vec<u64>) -> Trash {
        let trash = Trash::default();
        numbers.sort_unstable();
        for number in numbers {
            let file = context.env.fs.open(&context.path(StoreFileName::Trash(number)), Open::Read);
            let size = match file.and_then(|file| file.len()) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue, // the recovery needed its space
                size => size.unwrap_or(0),
            };
            trash.keep(context, KeptTable { number, size, oldest: 0 });
        }
        trash
    }

    /// Takes over an obsolete table file. A file that can be neither renamed nor removed is removed later.
    fn take(&self, context: &StoreContext, table: &TableMeta) {
        let (number, size, oldest) = (table.number, table.size, table.oldest_seqno());
        let [from, to] = [StoreFileName::Table(number), StoreFileName::Trash(number)];
        let is_kept = size <= context.settings.current().trash_bytes;
        if !is_kept {
            context.remove_file(from);
        } else if context.env.fs.rename(&context.path(from), &context.path(to)).is_err() {
            let _ = [from, to].map(|name| context.remove_file(name)); // the rename may have taken effect
        } else {
            self.keep(context, KeptTable { number, size, oldest });
        }
    }

    /// Removes the oldest file, because the disk is full. Returns true if this freed space.
    fn make_room(&self, context: &StoreContext) -> bool {
        let oldest = || lock(&self.held).pop_front();
        let mut files = std::iter::from_fn(oldest).map(|kept| StoreFileName::Trash(kept.number));
        files.any(|name| context.remove_file(name))
    }

    fn keep(&self, context: &StoreContext, kept: KeptTable) {
        lock(&self.held).push_back(kept);
        self.shorten(context);
    }

    /// Removes the oldest files beyond the budget.
    fn shorten(&self, context: &StoreContext) {
        let budget = context.settings.current().trash_bytes;
        let mut held = lock(&self.held);
        let mut bytes: u64 = held.iter().map(|kept| kept.size).sum();
        let mut over = Vec::new();
        while (bytes > budget || budget == 0)
            && let Some(kept) = held.pop_front()
        {
            bytes -= kept.size;
            over.push(kept.number);
        }
        drop(held);
        for number in over {
            context.remove_file(StoreFileName::Trash(number));
        }
    }

    /// Returns the least seqno of a record in the kept tables.
    fn oldest_seqno(&self) -> Option<Seqno> {
        lock(&self.held).iter().map(|kept| kept.oldest).min()
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
