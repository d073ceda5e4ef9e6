//! Versions: reads for those who must know more of a key than its newest value.
//!
//! In:     a family and a key, a seqno or a snapshot.
//! Out:    the version below a seqno; where the version stands that decides; everything that no flush has taken up yet.
//! Holds:  older versions are there only as far as somebody keeps them: a snapshot (I08), or a newer record that retains
//!         (`Companions::retains`). What is lost is an error, here as for any reader.

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

/// Where a version stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stands {
    /// In the memtable that is written to.
    Active,
    /// In a memtable that waits for its flush; 0 is the newest.
    Frozen(usize),
    /// In a table.
    Table {
        /// Its level.
        level: usize,
        /// The number in its file name.
        number: u64,
        /// The file's own name.
        uid: Uid,
        /// Where its block stands in the file.
        offset: u64,
    },
}

/// The version that decides what a read of a key answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// Its seqno.
    pub seqno: Seqno,
    /// What it is: a tombstone decides too.
    pub kind: Kind,
    /// Where it stands.
    pub stands: Stands,
    /// What its companion says of it.
    pub check: Check,
    /// Its companions.
    pub companion: Vec<u8>,
}

impl Db {
    /// Shows the newest version of `key` below a seqno to `visit`, whatever it is: a tombstone too, and a value whose time is over
    /// since. False if there is none. It is certain to be there only if a record with this seqno retains it.
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

    /// The same, with the record as its table holds it: a value that stands in a value file is not read, and the record has a pointer in
    /// its place (kind `BlobPointer`). For whoever asks what stands beside a value.
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

    /// Where the version stands that decides what a read of `key` answers; none if there is no version. Every look is a search of its
    /// own, past the filters: it costs more than a read. An error where a read answers one, but for a version that does not match its
    /// companion: that is told.
    pub fn whereabouts(&self, family: &Family, key: &[u8], at: At<'_>) -> Result<Option<Whereabouts>> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        inner.find(family, &view, key, inner.seqno(at)?)
    }

    /// All versions of a family's keys that stand in memory, in internal order, none above the seqno of `at`. It keeps its view of them
    /// until it is dropped. Checked as the family's `verify_scans` says; where one is damaged it answers one error, and its next step
    /// goes on behind it.
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

    /// The view that a read at this moment sees, to be held. `Closed` once the store is closed.
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

/// What stands in memory, none above a seqno.
struct Unflushed {
    versions: MergeCursor,
    seqno: Seqno,
    /// Holds the memtables.
    _view: Arc<View>,
}

impl Unflushed {
    /// Passes over what is too new. A damaged version is an error, once.
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

/// The error of a kind that this version does not read.
#[cold]
pub(super) fn unread(kind: Kind) -> Error {
    Error::invalid(format!("a record of kind {kind:?}, which this version does not read"))
}
