//! The read path: the active memtable, the frozen ones, then the levels, newest first; the first answer ends it.
//!
//! In:     a family, a key or bounds, and which commits to see.
//! Order:  the view is loaded before the seqno. A view holds everything committed before it was loaded, so whatever the
//!         seqno then adds is only newer; the other way round a compaction could have dropped what an old seqno needs.
//! Costs:  a cached `get` allocates nothing, takes no lock and writes no counter that another core writes.

use std::ops::Bound;
use std::sync::Arc;

use super::family::{Family, View};
use super::snapshot::At;
use super::{Db, Inner, TableHandle};
use crate::checksum::hash;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::merge::{ConcatCursor, MergeCursor, Part};
use crate::planted::{self, Bug};
use crate::read::UserCursor;
use crate::record::{Kind, Record, Seqno};
use crate::version::LEVELS;

pub use crate::read::Bounds;

impl Db {
    /// Shows the value of `key` to `visit`, borrowed from where it lives; false if there is none.
    ///
    /// Errors: `Corruption` if what would decide cannot be trusted (never an older version in its place), `Io`, `Closed`,
    /// `Invalid` for a snapshot of another store. Costs no allocation when cached.
    pub fn get(&self, family: &Family, key: &[u8], at: At<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        let inner = self.open_inner()?;
        if let At::Snapshot(snapshot) = at
            && let Some(view) = snapshot.view(family.id())
        {
            return inner.get_in(family, view, key, inner.seqno(at)?, visit);
        }
        let view = family.view();
        let seqno = inner.seqno(at)?;
        inner.get_in(family, &view, key, seqno, visit)
    }

    /// A cursor over the values of a family within bounds, both ways. It keeps its view of the store until it is dropped.
    pub fn cursor(&self, family: &Family, at: At<'_>, bounds: Bounds) -> Result<UserCursor> {
        let inner = self.open_inner()?;
        let view = match at {
            At::Snapshot(snapshot) => snapshot.view(family.id()).cloned(),
            At::Latest => None,
        };
        let view = view.unwrap_or_else(|| family.pinned_view());
        let seqno = inner.seqno(at)?;
        let internal = internal_cursor(family, &view, true)?;
        let cursor = UserCursor::new(family.order().clone(), internal, seqno, bounds);
        Ok(cursor.expiring(inner.companions.clone(), inner.env.clock.clone()))
    }

    /// Looks several keys up at one moment. `visit` gets the index of each key that has a value.
    pub fn multi_get(
        &self,
        family: &Family,
        keys: &[&[u8]],
        at: At<'_>,
        visit: &mut dyn FnMut(usize, &Record<'_>),
    ) -> Result<()> {
        let inner = self.open_inner()?;
        let view = match at {
            At::Snapshot(snapshot) => snapshot.view(family.id()).cloned(),
            At::Latest => None,
        };
        let view = view.unwrap_or_else(|| family.pinned_view());
        let seqno = inner.seqno(at)?;
        for (index, key) in keys.iter().enumerate() {
            inner.get_in(family, &view, key, seqno, &mut |record| visit(index, record))?;
        }
        Ok(())
    }

    /// About how many bytes of table files the keys within bounds take. Memtables are not counted.
    pub fn approximate_size(&self, family: &Family, bounds: &Bounds) -> Result<u64> {
        self.open_inner()?;
        let view = family.view();
        let mut total = 0;
        for table in view.levels.iter().flat_map(|level| level.tables()) {
            let reader = table.table()?;
            let from = match &bounds.0 {
                Bound::Included(key) | Bound::Excluded(key) => reader.approximate_offset(key),
                Bound::Unbounded => 0,
            };
            let to = match &bounds.1 {
                Bound::Included(key) | Bound::Excluded(key) => reader.approximate_offset(key),
                Bound::Unbounded => table.meta().size,
            };
            total += to.saturating_sub(from);
        }
        Ok(total)
    }
}

impl Inner {
    /// The seqno that a read sees.
    #[inline]
    pub(super) fn seqno(&self, at: At<'_>) -> Result<Seqno> {
        match at {
            At::Latest => Ok(self.visible()),
            At::Snapshot(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.seqno()),
            At::Snapshot(_) => Err(Error::invalid("the snapshot belongs to another store")),
        }
    }

    fn get_in(
        &self,
        family: &Family,
        view: &View,
        key: &[u8],
        seqno: Seqno,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let mut outcome = Ok(false);
        let mut decide = |record: &Record<'_>| {
            outcome = match record.kind {
                Kind::Put if self.companions.expired(record, &|| self.env.clock.wall_micros()) => Ok(false),
                Kind::Put => {
                    visit(record);
                    Ok(true)
                }
                Kind::Delete => Ok(false),
                kind => Err(Error::invalid(format!("a record of kind {kind:?}, which this version does not read"))),
            };
        };
        if view.active.memtable.get(key, seqno, &mut decide) {
            return outcome;
        }
        for frozen in view.frozen.iter().filter(|_| !planted::active(Bug::FrozenMemtableSkipped)) {
            if frozen.memtable.get(key, seqno, &mut decide) {
                return outcome;
            }
        }
        if view.levels.tables() == 0 {
            return Ok(false);
        }
        let key_hash = if family.order().is_hashable() { hash(key) } else { 0 };
        let deeper = (1..LEVELS).filter_map(|level| view.levels.find(level, key));
        for table in view.levels.newest_holding(key).chain(deeper) {
            let found = table.table().and_then(|reader| reader.get(key, key_hash, seqno, &mut decide));
            match found {
                Ok(true) => return outcome,
                Ok(false) => {}
                Err(error) => return Err(self.damaged(family, table, error)),
            }
        }
        Ok(false)
    }
}

/// All records of a view in internal order.
pub(super) fn internal_cursor(family: &Family, view: &Arc<View>, fill_cache: bool) -> Result<Box<dyn Cursor>> {
    let order = family.order();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for generation in [&view.active].into_iter().chain(&view.frozen) {
        if !generation.memtable.is_empty() {
            sources.push(Box::new(generation.memtable.cursor()));
        }
    }
    for table in view.levels.level(0).tables() {
        sources.push(Box::new(table.table()?.cursor(fill_cache)));
    }
    for level in view.levels.iter().skip(1).filter(|level| !level.tables().is_empty()) {
        let parts = level.tables().iter().map(|table| LevelPart { table: table.clone(), fill_cache });
        sources.push(Box::new(ConcatCursor::new(order.clone(), parts.collect())));
    }
    Ok(match sources.len() {
        1 => sources.remove(0),
        _ => Box::new(MergeCursor::new(order.clone(), sources)),
    })
}

/// A table as a part of its level, opened when a cursor gets there.
pub(super) struct LevelPart {
    pub(super) table: Arc<TableHandle>,
    pub(super) fill_cache: bool,
}

impl Part for LevelPart {
    fn smallest(&self) -> &[u8] {
        &self.table.meta().smallest
    }

    fn largest(&self) -> &[u8] {
        &self.table.meta().largest
    }

    fn open(&self) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(self.table.table()?.cursor(self.fill_cache)))
    }
}
