//! Validation of a transaction: a set of keys and ranges, and a commit that is ordered only if none of them changed.
//!
//! ```text
//! snapshot   every read of the transaction sees its seqno S and its time
//! commit     notes the visible seqno A, then loads the views and looks for versions newer than S of what was read
//! found      `Conflict`, which names the key
//! not found  the log orders the batch only if no other batch was ordered after A (`unchanged_since`)
//! rejected   newer commits are applied, and only versions newer than A are looked for
//! ```
//!
//! Holds:   a batch that was ordered follows directly on a state in which everything that the transaction read has the
//!          value that it read. Transactions are therefore serializable, in the order of their commits.
//! Where:   a version newer than S is in a memtable, or in a table whose newest seqno is above S. Only those are
//!          searched, so that memtables need not be retained for open transactions, and a long transaction fails only
//!          if it has a conflict. The price is at most one `get` for each key, and one scan for each range.
//! Missed:  the snapshot is live until the batch is ordered. A compaction therefore gives no version above S the seqno
//!          0, and drops such versions only if a newer one hides them, or if neither S nor the present sees the key.
//!          Such a key is absent at both seqnos: the change has no effect on the transaction.
//! Order:   A is read before the views. A view holds all commits that were visible before it was loaded. A newer
//!          version in the view is a conflict as well.
//! Family:  a family that was dropped is a conflict. A drop changes the epoch, so that a batch validated before the
//!          drop is not ordered after it.
//! Costs:   nothing if no commit was ordered since S. Plain commits pay nothing.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Db;
use super::optimistic::{Attempts, Condition};
use crate::cursor::Cursor;
use crate::db::open::inner::StoreInner;
use crate::db::state::family::{Family, View};
use crate::db::state::snapshot::Snapshot;
use crate::db::state::store_log::OpenLog;
use crate::env::work::pause;
use crate::error::{Error, ErrorKind, Result};
use crate::interrupt;
use crate::key_text::KeyText;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::read::CursorBounds;
use crate::record::{MAX_SEQNO, Seqno};
use crate::wal::Precondition;

/// The keys and key ranges on which a commit depends.
#[derive(Debug, Default)]
pub struct ReadSet {
    families: BTreeMap<u32, FamilyReads>,
}

#[derive(Debug)]
struct FamilyReads {
    family: Family,
    keys: HashSet<Box<[u8]>>,
    ranges: Vec<CursorBounds>,
}

impl ReadSet {
    /// Adds a key, whether it was found or not.
    pub fn add_key(&mut self, family: &Family, key: &[u8]) {
        let keys = &mut self.of(family).keys;
        if !keys.contains(key) {
            keys.insert(key.into());
        }
    }

    /// Adds the keys within bounds, including those that were not found.
    pub fn add_range(&mut self, family: &Family, bounds: CursorBounds) {
        self.of(family).ranges.push(bounds);
    }

    /// Returns true if it has neither keys nor ranges.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    fn of(&mut self, family: &Family) -> &mut FamilyReads {
        let reads = || FamilyReads { family: family.clone(), keys: HashSet::new(), ranges: Vec::new() };
        self.families.entry(family.id()).or_insert_with(reads)
    }
}

/// The condition that nothing in a set changed since a snapshot. Its error for a change is `Conflict`.
pub struct Validation<'a> {
    inner: &'a Arc<StoreInner>,
    reads: &'a ReadSet,
    /// Keeps the versions that the transaction read.
    _snapshot: &'a Snapshot,
    /// Nothing in the set has a version newer than the snapshot, up to this seqno.
    validated: Seqno,
    log: &'a OpenLog,
    attempts: Attempts<'a>,
    is_first: bool,
}

impl Db {
    /// Takes the snapshot of a transaction. Waits while an ingestion is running, whose records appear under a seqno
    /// that is already visible. Errors: `ReadOnly` if the store cannot be written.
    pub fn transaction_snapshot(&self) -> Result<Snapshot> {
        let (inner, _) = self.writable()?;
        loop {
            let ingestions = inner.catalog().ingestions.load(Ordering::SeqCst);
            if ingestions.is_multiple_of(2) {
                let snapshot = self.snapshot()?;
                if inner.catalog().ingestions.load(Ordering::SeqCst) == ingestions {
                    return Ok(snapshot);
                }
            } else {
                pause(Duration::from_millis(1));
            }
            interrupt::check()?;
        }
    }

    /// Returns the condition that no key or range of `reads` has a version newer than the snapshot. For `commit_when`,
    /// which then fails with `Conflict`, and with the errors of a read.
    pub fn validation<'a>(&'a self, reads: &'a ReadSet, snapshot: &'a Snapshot) -> Result<Validation<'a>> {
        let (inner, log) = self.writable()?;
        let (validated, attempts) = (snapshot.seqno(), Attempts::new(log));
        Ok(Validation { inner, reads, _snapshot: snapshot, validated, log, attempts, is_first: true })
    }
}

impl Validation<'_> {
    /// Looks for versions above the validated seqno, and raises it to the visible one. Errors: `Conflict`.
    fn validate(&mut self) -> Result<()> {
        let catalog = self.inner.catalog();
        loop {
            let ingestions = catalog.ingestions.load(Ordering::SeqCst);
            if ingestions.is_multiple_of(2) {
                let visible = self.inner.store_log().visible(); // before the views
                if visible > self.validated {
                    for reads in self.reads.families.values() {
                        self.validate_family(reads)?;
                    }
                }
                if catalog.ingestions.load(Ordering::SeqCst) == ingestions {
                    self.validated = visible;
                    return Ok(());
                }
            } else {
                pause(Duration::from_millis(1));
            }
            interrupt::check()?;
        }
    }

    fn validate_family(&self, FamilyReads { family, keys, ranges }: &FamilyReads) -> Result<()> {
        let view = family.open_view()?;
        if family.is_dropped() {
            let name = family.name();
            return Err(Error::of(ErrorKind::Conflict, format!("the column family {name:?} was dropped")));
        }
        let changes = Changes { inner: self.inner, family, view: &view, since: self.validated };
        planted!(TransactionReadNotValidated => let keys = &HashSet::new());
        for key in keys {
            if changes.has_key(key)? {
                return Err(conflict(family, key));
            }
        }
        planted!(TransactionRangeNotValidated => let ranges = &Vec::new());
        for bounds in ranges {
            if let Some(key) = changes.first_key_in(bounds)? {
                return Err(conflict(family, &key));
            }
        }
        Ok(())
    }
}

impl Condition for Validation<'_> {
    fn prepare(&mut self) -> Result<()> {
        self.attempts.begin().map(drop)
    }

    fn precondition(&mut self) -> Result<Option<Precondition>> {
        if !std::mem::take(&mut self.is_first) {
            self.inner.write_path().apply_ordered(self.log)?;
        }
        self.validate()?;
        Ok(Some(self.attempts.unchanged_since(self.validated)))
    }
}

impl fmt::Debug for Validation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validation").field("validated", &self.validated).finish_non_exhaustive()
    }
}

fn conflict(family: &Family, key: &[u8]) -> Error {
    let (key, name) = (KeyText(key), family.name());
    let message = format!("another commit changed the key {key} of the column family {name:?} first");
    Error::of(ErrorKind::Conflict, message)
}

/// The versions of a view that are newer than a seqno.
struct Changes<'a> {
    inner: &'a StoreInner,
    family: &'a Family,
    view: &'a View,
    since: Seqno,
}

impl Changes<'_> {
    /// Returns true if a key was put, deleted or covered by a range delete.
    fn has_key(&self, key: &[u8]) -> Result<bool> {
        if self.view.active.range_deleted_at(key, MAX_SEQNO) > self.since {
            return Ok(true);
        }
        let reads = &self.inner.catalog().reads;
        let checks = reads.checks(self.family.verify_reads());
        let mut newest = 0;
        let visit = |record: &crate::record::Record<'_>| newest = record.seqno;
        reads.version_by((self.family, self.view), (key, None), MAX_SEQNO, checks, visit, |table, hash, decide| {
            if table.meta().newest_seqno() <= self.since {
                return Ok::<_, Error>(false);
            }
            let reader = table.table().map_err(|error| reads.unopened(self.family, table, error))?;
            reader.get(key, hash, MAX_SEQNO, checks, decide)
        })?;
        Ok(newest > self.since)
    }

    /// Returns the first key found within bounds that was put, deleted or covered by a range delete.
    fn first_key_in(&self, bounds: &CursorBounds) -> Result<Option<Vec<u8>>> {
        let order = self.family.order();
        if is_empty(order, bounds) {
            return Ok(None);
        }
        let in_memory = self.view.memtables().flat_map(|generation| generation.memtable.range_deletes());
        for range in self.view.range_deletes.iter().cloned().chain(in_memory) {
            if range.seqno > self.since && !range.is_empty(order) && meets(order, &range, bounds) {
                return Ok(Some(range.start.clone().unwrap_or_default()));
            }
        }
        let is_lost = |lost: &&LostRange| lost.bound > self.since && is_near(order, bounds, &lost.from.0, &lost.to.0);
        if let Some(lost) = self.view.lost_ranges.iter().find(is_lost) {
            return Err(lost.error().in_family(self.family.name(), None));
        }
        for generation in self.view.memtables() {
            let memtable = &generation.memtable;
            if memtable.greatest_seqno().is_some_and(|greatest| greatest > self.since)
                && let Some(key) = self.first_in_source(&mut memtable.cursor(), bounds)?
            {
                return Ok(Some(key));
            }
        }
        for table in self.view.levels.iter().flat_map(|level| level.tables()) {
            let meta = table.meta();
            if meta.newest_seqno() > self.since && is_near(order, bounds, &meta.smallest, &meta.largest) {
                let unopened = |error| self.inner.catalog().reads.unopened(self.family, table, error);
                let reader = table.table().map_err(unopened)?;
                if let Some(key) = self.first_in_source(&mut reader.cursor(false), bounds)? {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }

    /// Returns the first key of a memtable or table within bounds that has a new version.
    fn first_in_source(&self, cursor: &mut dyn Cursor, (low, high): &CursorBounds) -> Result<Option<Vec<u8>>> {
        let order = self.family.order();
        match low {
            Bound::Unbounded => cursor.first()?,
            Bound::Included(key) | Bound::Excluded(key) => cursor.seek(key, MAX_SEQNO)?,
        }
        for step in 0u32.. {
            if !cursor.valid() {
                break;
            }
            let record = cursor.record();
            let is_after = match high {
                Bound::Unbounded => false,
                Bound::Included(high) => order.compare(record.key, high).is_gt(),
                Bound::Excluded(high) => order.compare(record.key, high).is_ge(),
            };
            if is_after {
                break;
            }
            let is_before = matches!(low, Bound::Excluded(low) if order.compare(record.key, low).is_le());
            if record.seqno > self.since && !is_before {
                return Ok(Some(record.key.to_vec()));
            }
            if step.is_multiple_of(1024) {
                interrupt::check()?;
            }
            cursor.next()?;
        }
        Ok(None)
    }
}

/// Returns true if no key can be within bounds.
fn is_empty(order: &Order, bounds: &CursorBounds) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => order.compare(low, high).is_gt(),
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            order.compare(low, high).is_ge()
        }
    }
}

/// Returns true if keys from `smallest` to `largest`, both included, may be within bounds.
fn is_near(order: &Order, (low, high): &CursorBounds, smallest: &[u8], largest: &[u8]) -> bool {
    let ends_before = match low {
        Bound::Unbounded => false,
        Bound::Included(low) | Bound::Excluded(low) => order.compare(largest, low).is_lt(),
    };
    let begins_after = match high {
        Bound::Unbounded => false,
        Bound::Included(high) | Bound::Excluded(high) => order.compare(smallest, high).is_gt(),
    };
    !ends_before && !begins_after
}

/// Returns true if a range delete may hold a key within bounds.
fn meets(order: &Order, range: &RangeDelete, (low, high): &CursorBounds) -> bool {
    let ends_before = match (&range.end, low) {
        (None, _) | (_, Bound::Unbounded) => false,
        (Some(end), Bound::Included(low) | Bound::Excluded(low)) => order.compare(end, low).is_le(),
    };
    let begins_after = match (&range.start, high) {
        (None, _) | (_, Bound::Unbounded) => false,
        (Some(start), Bound::Included(high)) => order.compare(start, high).is_gt(),
        (Some(start), Bound::Excluded(high)) => order.compare(start, high).is_ge(),
    };
    !ends_before && !begins_after
}
