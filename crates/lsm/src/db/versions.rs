//! Versions: reads for callers that need more than the newest value of a key.
//!
//! In:    a family and a key, a seqno or a snapshot.
//! Out:   the version below a seqno; the location of the deciding version; all records that are not flushed yet.
//! Holds: an older version exists only while a snapshot (I08) or a newer record that retains it (`Companions::retains`)
//!        keeps it. Lost records are errors, as for any reader.

use std::sync::Arc;

use super::family::{Family, View};
use super::snapshot::At;
use super::values::fetch_by;
use super::{Db, Inner};
use crate::checksum::{Uid, hash_key};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::merge::MergeCursor;
use crate::options::Verify;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Check, Source};

/// The location of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stands {
    /// In the active memtable.
    Active,
    /// In a memtable that waits for its flush; 0 is the newest.
    Frozen(usize),
    /// In a table.
    Table {
        /// The table's level.
        level: usize,
        /// The number in the file name.
        number: u64,
        /// The file's unique id.
        uid: Uid,
        /// Offset of the block in the file.
        offset: u64,
    },
}

/// The version that decides the result of reading a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The version's seqno.
    pub seqno: Seqno,
    /// The version's kind; a tombstone decides too.
    pub kind: Kind,
    /// The version's location.
    pub stands: Stands,
    /// The result of its companion's check.
    pub check: Check,
    /// The version's companions.
    pub companion: Vec<u8>,
}

impl Db {
    /// Passes the newest version of `key` below a seqno to `visit`, even if it is a tombstone or an expired value.
    /// Returns false if no such version exists. The version is guaranteed to exist only if a record with this seqno
    /// retains it.
    pub fn get_before(
        &self,
        family: &Family,
        key: &[u8],
        seqno: Seqno,
        verify: Verify,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let inner = self.open_inner()?;
        let Some(at) = seqno.checked_sub(1) else { return Ok(false) };
        let (checks, view, mut shown) = (inner.checks(verify), family.view(), Ok(()));
        let found = inner.version_in((family, &view), (key, None), at, checks, |record| {
            shown = inner.show_whole((family, &view), record, fetch_by(checks), visit);
        })?;
        shown.map(|()| found)
    }

    /// Reads like `get_before`, but returns the record as its table holds it. A value in a blob file is not read; the
    /// record has a pointer instead (kind `BlobPointer`). For callers that need only a record's companions.
    pub fn get_record_before(
        &self,
        family: &Family,
        key: &[u8],
        seqno: Seqno,
        verify: Verify,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let inner = self.open_inner()?;
        let Some(at) = seqno.checked_sub(1) else { return Ok(false) };
        inner.version_in((family, &family.view()), (key, None), at, inner.checks(verify), visit)
    }

    /// Returns the location of the version that decides a read of `key`, or `None` if the key has no version. Each
    /// memtable and table is searched without filters, so the call costs more than a read. It fails where a read fails,
    /// with one exception: a version that does not match its companion is returned with the result of its check.
    pub fn whereabouts(&self, family: &Family, key: &[u8], at: At<'_>) -> Result<Option<Whereabouts>> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        inner.find(family, &view, key, inner.seqno(at)?)
    }

    /// Returns a cursor over all versions of a family's keys in memtables, in internal order, at or below the seqno of
    /// `at`. It keeps its view of the memtables until it is dropped. The family's `verify_scans` selects the checks. At
    /// a damaged version the cursor returns one error, and its next step continues after the version.
    pub fn unflushed(&self, family: &Family, at: At<'_>) -> Result<Box<dyn Cursor + Send>> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        let seqno = inner.seqno(at)?;
        let generations = [&view.active].into_iter().chain(&view.frozen);
        let filled = generations.filter(|generation| !generation.memtable.is_empty());
        let verify = family.options().verify_scans;
        let source = |memtable: &Arc<crate::memtable::Memtable>| -> Box<dyn Cursor> {
            Box::new(memtable.cursor_checked(&inner.companions, verify))
        };
        let sources: Vec<_> = filled.map(|generation| source(&generation.memtable)).collect();
        let versions = MergeCursor::new(family.order().clone(), sources);
        Ok(Box::new(Unflushed { versions, seqno, _view: view }))
    }

    /// Returns the view that a read at `at` uses. `Closed` once the store is closed.
    pub(super) fn view_at(&self, family: &Family, at: At<'_>) -> Result<Arc<View>> {
        match at {
            At::Snapshot(snapshot) => snapshot.view_of(family),
            At::Latest => family.open_view(),
        }
    }
}

impl Inner {
    fn find(&self, family: &Family, view: &View, key: &[u8], seqno: Seqno) -> Result<Option<Whereabouts>> {
        let found = |record: &Record<'_>, stands: Stands, source: Source<'_>| Whereabouts {
            seqno: record.seqno,
            kind: record.kind.logical(),
            stands,
            check: self.companions.verify(record, hash_key(record.key), source.protection),
            companion: record.companion.to_vec(),
        };
        let decides = |found: Whereabouts| match view
            .fences
            .iter()
            .find(|fence| fence.covers_at(family.order(), key, found.seqno, seqno))
        {
            Some(fence) => Err(fence.error().in_family(family.name(), None)),
            None => Ok(Some(found)),
        };
        let at_key = |record: &Record<'_>| family.order().compare(record.key, key).is_eq();
        for (at, generation) in [&view.active].into_iter().chain(&view.frozen).enumerate() {
            let mut cursor = generation.memtable.cursor();
            cursor.seek(key, seqno)?;
            if cursor.valid() && at_key(&cursor.record()) {
                if cursor.record().kind == Kind::Fence {
                    return Err(Fence::shown(&cursor.record())?.error().in_family(family.name(), None));
                }
                let stands = if at == 0 { Stands::Active } else { Stands::Frozen(at - 1) };
                let protection = generation.memtable.protection(self.companions.protection());
                return decides(found(&cursor.record(), stands, Source { protection, ..Source::default() }));
            }
        }
        let level0 = view.levels.newest_holding(key).map(|table| (0, table));
        let deeper = view.levels.filled().filter_map(|level| Some((level, view.levels.find(level, key)?)));
        for (level, table) in level0.chain(deeper) {
            let reader = table.table().map_err(|error| self.unopened(family, table, error))?;
            let mut cursor = reader.cursor(true);
            cursor.seek(key, seqno)?;
            if cursor.valid() && at_key(&cursor.record()) {
                let (record, source, meta) = (cursor.record(), cursor.source(), table.meta());
                let stands = Stands::Table { level, number: meta.number, uid: meta.uid, offset: source.offset };
                return decides(found(&record, stands, source));
            }
        }
        match view.fences.iter().find(|fence| fence.may_hide(family.order(), key, seqno)) {
            Some(fence) => Err(fence.error().in_family(family.name(), None)),
            None => Ok(None),
        }
    }
}

/// The versions in memtables at or below a seqno.
struct Unflushed {
    versions: MergeCursor,
    seqno: Seqno,
    /// Keeps the memtables alive.
    _view: Arc<View>,
}

impl Unflushed {
    /// Skips versions above the seqno. A damaged version is an error, once.
    fn settle(&mut self, moved: Result<()>, forward: bool) -> Result<()> {
        moved?;
        while self.versions.valid() && self.versions.record().seqno > self.seqno {
            match forward {
                true => self.versions.next()?,
                false => self.versions.prev()?,
            }
        }
        if self.versions.valid() && self.versions.record().kind == Kind::Fence {
            return Err(Fence::shown(&self.versions.record()).map_or_else(|error| error, |fence| fence.error()));
        }
        Ok(())
    }
}

impl Cursor for Unflushed {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.versions.seek(key, seqno.min(self.seqno));
        self.settle(moved, true)
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.versions.seek_for_prev(key, seqno);
        self.settle(moved, false)
    }
    fn first(&mut self) -> Result<()> {
        let moved = self.versions.first();
        self.settle(moved, true)
    }
    fn last(&mut self) -> Result<()> {
        let moved = self.versions.last();
        self.settle(moved, false)
    }
    fn next(&mut self) -> Result<()> {
        let moved = self.versions.next();
        self.settle(moved, true)
    }
    fn prev(&mut self) -> Result<()> {
        let moved = self.versions.prev();
        self.settle(moved, false)
    }
    fn valid(&self) -> bool {
        self.versions.valid()
    }
    fn record(&self) -> Record<'_> {
        self.versions.record()
    }
    fn source(&self) -> Source<'_> {
        self.versions.source()
    }
}

/// Returns the error of a record kind that this version does not read.
#[cold]
pub(super) fn unread(kind: Kind) -> Error {
    Error::invalid(format!("a record of kind {kind:?}, which this version does not read"))
}
