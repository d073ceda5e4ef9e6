//! Versions: reads for callers that need more than the newest value of a key.
//!
//! In:    a family and a key, a seqno or a snapshot.
//! Out:   the version below a seqno; the location of the deciding version; all records that are not flushed yet.
//! Holds: an older version exists only while a snapshot (I08) or a newer record that retains it (`Companions::retains`)
//!        keeps it. Lost records are errors, as for any reader.

use std::sync::Arc;

use super::search::{Search, newest_version};
use crate::checksum::{Uid, hash_key};
use crate::cursor::Cursor;
use crate::db::state::family::{Family, Generation, TableHandle, View};
use crate::error::{Error, Result};
use crate::lost_range::LostRange;
use crate::memtable::Memtable;
use crate::merge::MergeCursor;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Check, Companions, Protection, RecordSource};

/// The place that holds a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordPlace {
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
pub struct RecordLocation {
    /// The version's seqno.
    pub seqno: Seqno,
    /// The version's kind; a tombstone decides too.
    pub kind: Kind,
    /// The place that holds the version.
    pub place: RecordPlace,
    /// The result of its companion's check.
    pub check: Check,
    /// The version's companions.
    pub companion: Vec<u8>,
}

/// Returns the location of the version that decides a read, or `None` if the key has no version.
pub(in crate::db) fn locate(
    companions: &dyn Companions,
    family: &Family,
    view: &View,
    (key, seqno): (&[u8], Seqno),
    unopened: &dyn Fn(&TableHandle, Error) -> Error,
) -> Result<Option<RecordLocation>> {
    let mut search =
        LocationSearch { companions, family, view, key, seqno, memtables: 0, unopened, hidden: 0, found: None };
    newest_version(view, family.order(), (key, seqno), &mut search)?;
    Ok(search.found)
}

/// A search by cursors, without filters.
struct LocationSearch<'a> {
    companions: &'a dyn Companions,
    family: &'a Family,
    view: &'a View,
    key: &'a [u8],
    seqno: Seqno,
    /// Number of memtables searched.
    memtables: usize,
    unopened: &'a dyn Fn(&TableHandle, Error) -> Error,
    /// A range delete hides the versions below this seqno.
    hidden: Seqno,
    found: Option<RecordLocation>,
}

impl LocationSearch<'_> {
    fn is_at_key(&self, cursor: &dyn Cursor) -> bool {
        cursor.valid() && self.family.order().compare(cursor.record().key, self.key).is_eq()
    }

    /// Takes a version of the key, unless it lies in a lost range.
    fn take(&mut self, record: &Record<'_>, place: RecordPlace, protection: Protection) -> Result<bool> {
        let (order, mut lost_ranges) = (self.family.order(), self.view.lost_ranges.iter());
        let hides = |lost_range: &&LostRange| {
            lost_range.bound >= self.hidden && lost_range.covers_at(order, self.key, record.seqno, self.seqno)
        };
        if let Some(lost_range) = lost_ranges.find(hides) {
            return Err(self.lost(lost_range));
        }
        if record.seqno < self.hidden {
            return Ok(true);
        }
        self.found = Some(RecordLocation {
            seqno: record.seqno,
            kind: record.kind.logical(),
            place,
            check: self.companions.verify(record, hash_key(record.key), protection),
            companion: record.companion.to_vec(),
        });
        Ok(true)
    }
}

impl Search for LocationSearch<'_> {
    type Error = Error;

    fn hide_below(&mut self, seqno: Seqno) {
        self.hidden = seqno;
    }

    fn in_memtable(&mut self, generation: &Generation) -> Result<bool> {
        let place = if self.memtables == 0 { RecordPlace::Active } else { RecordPlace::Frozen(self.memtables - 1) };
        self.memtables += 1;
        let mut cursor = generation.memtable.cursor();
        cursor.seek(self.key, self.seqno)?;
        if !self.is_at_key(&cursor) {
            return Ok(false);
        }
        if cursor.record().kind == Kind::Fence {
            let lost_range = LostRange::shown(&cursor.record())?;
            return Err(self.lost(&lost_range));
        }
        self.take(&cursor.record(), place, generation.memtable.protection(self.companions.protection()))
    }

    fn in_table(&mut self, table: &Arc<TableHandle>) -> Result<bool> {
        let reader = table.table().map_err(|error| (self.unopened)(table, error))?;
        let mut cursor = reader.cursor(true);
        cursor.seek(self.key, self.seqno)?;
        if !self.is_at_key(&cursor) {
            return Ok(false);
        }
        let (source, meta) = (cursor.source(), table.meta());
        let mut levels = self.view.levels.iter();
        let level = levels.position(|level| level.tables().iter().any(|of| Arc::ptr_eq(of, table))).unwrap_or(0);
        let place = RecordPlace::Table { level, number: meta.number, uid: meta.uid, offset: source.offset };
        self.take(&cursor.record(), place, source.protection)
    }

    fn lost(&mut self, lost_range: &LostRange) -> Error {
        lost_range.error().in_family(self.family.name(), None)
    }
}

/// Returns a cursor over the versions in a view's memtables at or below a seqno.
pub(in crate::db) fn unflushed(
    companions: &Arc<dyn Companions>,
    family: &Family,
    view: Arc<View>,
    seqno: Seqno,
) -> Box<dyn Cursor + Send> {
    let verify = family.verify_scans();
    let filled = view.memtables().filter(|generation| !generation.memtable.is_empty());
    let source =
        |memtable: &Arc<Memtable>| -> Box<dyn Cursor> { Box::new(memtable.cursor_checked(companions, verify)) };
    let sources: Vec<_> = filled.map(|generation| source(&generation.memtable)).collect();
    let versions = MergeCursor::new(family.order().clone(), sources);
    Box::new(Unflushed { versions, seqno, _view: view })
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
            return Err(
                LostRange::shown(&self.versions.record()).map_or_else(|error| error, |lost_range| lost_range.error())
            );
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
    fn source(&self) -> RecordSource<'_> {
        self.versions.source()
    }
}
