//! The calls of a store that read: they check arguments, pin a view, and call `reads`.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::Db;
use crate::checksum::Uid;
use crate::cursor::Cursor;
use crate::db::catalog::Catalog;
use crate::db::reads::values::{blob_files_of, fetch_by};
use crate::db::reads::versions::{RecordLocation, locate, unflushed};
use crate::db::reads::{ReadPoint, SIDE_BY_SIDE, approach};
use crate::db::state::family::{Family, TableHandle, View};
use crate::db::state::snapshot::At;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::options::{ReadSettings, Verify};
use crate::order::Order;
use crate::read::{CursorBounds, UserCursor};
use crate::record::{Kind, Record, Seqno};
use crate::sst::Checks;
use crate::values::{BlobBuffer, BlobFile};

impl Db {
    /// Passes the value of `key` to `visit`, borrowed from the cache or memtable; returns false if the key has no
    /// value. The family's `verify_reads` selects the checks.
    ///
    /// Errors: `Corruption` if the deciding record cannot be trusted (an older version is never returned instead),
    /// `Io`, `Closed`, `Invalid` for a snapshot of another store. A cached read allocates nothing.
    #[inline]
    pub fn get(&self, family: &Family, key: &[u8], at: At<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        self.get_checked(family, key, at, family.verify_reads(), visit)
    }

    /// Reads like `get`, with checks other than the family's.
    pub fn get_checked(
        &self,
        family: &Family,
        key: &[u8],
        at: At<'_>,
        reading: impl Into<ReadSettings>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let catalog = self.open_inner()?.catalog();
        let checks = catalog.reads.checks(reading);
        let read = |view: &_, moment| catalog.reads.get_in((family, view), (key, None), moment, checks, visit);
        in_view(catalog, family, at, read)
    }

    /// Reads like `get_checked`, but returns the record as its table holds it. A value in a blob file is not read; the
    /// record has a pointer instead (kind `BlobPointer`). A key with merge operands has its merged record. For callers that
    /// need only a record's companions, or only whether a value exists.
    pub fn get_record(
        &self,
        family: &Family,
        key: &[u8],
        at: At<'_>,
        reading: impl Into<ReadSettings>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let inner = self.open_inner()?;
        let (view, moment, mut checks) =
            (self.view_at(family, at)?, inner.catalog().read_point(at)?, inner.catalog().reads.checks(reading));
        loop {
            let (mut found, mut is_operand) = (Some(false), false);
            inner.catalog().reads.version_in((family, &view), (key, None), moment.seqno, checks, |record| {
                found = inner.catalog().reads.is_value(record, moment.as_of, checks);
                is_operand = record.kind == Kind::Merge;
                if found == Some(true) {
                    visit(record);
                }
            })?;
            match found {
                Some(_) if is_operand => {
                    inner.catalog().reads.merged_in((family, &view), key, moment, checks, visit)?;
                    return Ok(true);
                }
                Some(found) => return Ok(found),
                None => checks.each = true,
            }
        }
    }

    /// Returns a bidirectional cursor over the values of a family within bounds. It keeps its view of the store until
    /// it is dropped. The family's `verify_scans` selects the checks. At a lost range the cursor returns one error, and
    /// its next step continues after the range.
    pub fn cursor(&self, family: &Family, at: At<'_>, bounds: CursorBounds) -> Result<UserCursor> {
        self.cursor_checked(family, at, bounds, family.verify_scans())
    }

    /// Opens a cursor like `cursor`, with checks other than the family's.
    pub fn cursor_checked(
        &self,
        family: &Family,
        at: At<'_>,
        bounds: CursorBounds,
        reading: impl Into<ReadSettings>,
    ) -> Result<UserCursor> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        let moment = inner.catalog().read_point(at)?.fixed(inner.catalog().reads.expiry_clock());
        Ok(inner.catalog().reads.cursor_in(family, view, moment, bounds, reading.into()))
    }

    /// Looks up several keys at one seqno. `visit` receives the index of each key that has a value.
    pub fn multi_get(
        &self,
        family: &Family,
        keys: &[&[u8]],
        at: At<'_>,
        visit: &mut dyn FnMut(usize, &Record<'_>),
    ) -> Result<()> {
        self.multi_get_checked(family, keys, at, family.verify_reads(), visit)
    }

    /// Reads like `multi_get`, with checks other than the family's.
    pub fn multi_get_checked(
        &self,
        family: &Family,
        keys: &[&[u8]],
        at: At<'_>,
        reading: impl Into<ReadSettings>,
        visit: &mut dyn FnMut(usize, &Record<'_>),
    ) -> Result<()> {
        let (inner, reading) = (self.open_inner()?, reading.into());
        let view = self.view_at(family, at)?;
        let moment = inner.catalog().read_point(at)?.fixed(inner.catalog().reads.expiry_clock());
        for (group, keys) in keys.chunks(SIDE_BY_SIDE).enumerate() {
            interrupt::check()?;
            let ways = approach((family, &view), keys);
            for (at, (key, way)) in keys.iter().zip(ways).enumerate() {
                let again = ways.get(at + 1).is_some_and(|next| way.is_beside(next));
                let checks = Checks { again, ..inner.catalog().reads.checks(reading) };
                let mut show = |record: &Record<'_>| visit(group * SIDE_BY_SIDE + at, record);
                inner.catalog().reads.get_on(way, (family, &view), key, moment, checks, &mut show)?;
            }
        }
        Ok(())
    }

    /// Estimates the bytes of table and blob files that the keys within bounds occupy. The estimates of adjacent bounds
    /// add up, and bounds around all keys of a table count all of its bytes. Memtables are not counted.
    pub fn approximate_size(&self, family: &Family, bounds: &CursorBounds) -> Result<u64> {
        self.open_inner()?;
        let view = family.open_view()?;
        let mut total = 0u64;
        for table in view.levels.iter().flat_map(|level| level.tables()) {
            let to = bytes_up_to(table, &bounds.1, true, family.order())?;
            let from = bytes_up_to(table, &bounds.0, false, family.order())?;
            total = total.saturating_add(to.saturating_sub(from));
        }
        Ok(total)
    }

    /// Estimates the number of records that a scan of the family would return now. Reads no file if the lowest level
    /// holds all data; otherwise it looks up about 1,000 sampled records of the memtables and upper levels. Damage only
    /// makes the estimate worse. Fails with `Closed`.
    pub fn approximate_len(&self, family: &Family) -> Result<u64> {
        let catalog = self.open_inner()?.catalog();
        let view = family.open_view()?;
        Ok(catalog.reads.approximate_len(family, &view, catalog.read_point(At::Latest)?))
    }

    /// Returns the record with its value if it is a pointer; returns any other record unchanged. The record must come
    /// from this family, and the caller must keep its table alive by a cursor, a snapshot or a `TableRef`. Fails with
    /// `Corruption` that names the key.
    pub fn resolve<'a>(&self, family: &Family, record: &Record<'a>, room: &'a mut BlobBuffer) -> Result<Record<'a>> {
        self.open_inner()?;
        blob_files_of(&*family.open_view()?)?
            .resolve(record, true, room)
            .map_err(|error| error.in_family(family.name(), None))
    }

    /// Verifies the value that a record points to, and the rest of its entry in the blob file. Returns `None` if the
    /// entry is intact. Returns an error in `Some` if the value is readable, but part of its entry is damaged. Fails if
    /// the value is unreadable.
    pub fn look_at_value(&self, family: &Family, record: &Record<'_>, room: &mut BlobBuffer) -> Result<Option<Error>> {
        let blob_files = self.open_inner().and_then(|_| blob_files_of(&*family.open_view()?))?;
        let named = |error: Error| error.in_family(family.name(), None);
        blob_files.look_at(record, room).map(|hit| hit.map(named)).map_err(named)
    }

    /// Returns the blob file with this unique id if it is still held; the returned reference keeps it from being
    /// removed.
    pub fn value_file(&self, family: &Family, uid: &Uid) -> Result<Option<Arc<BlobFile>>> {
        let blob_files = self.open_inner().and_then(|_| blob_files_of(&*family.open_view()?))?;
        Ok(blob_files.find(uid))
    }

    /// Returns the blob files that the tables of a family point into; each reference keeps its file from being removed.
    pub fn value_files(&self, family: &Family) -> Result<Vec<Arc<BlobFile>>> {
        self.open_inner()?;
        let view = family.open_view()?;
        let mut files: Vec<Arc<BlobFile>> = Vec::new();
        for file in view.levels.iter().flat_map(|level| level.tables()).flat_map(|table| table.values()) {
            if !files.iter().any(|known| Arc::ptr_eq(known, file)) {
                files.push(file.clone());
            }
        }
        Ok(files)
    }

    /// Reads like `get_checked` if no file access is needed; otherwise returns `None` without calling `visit`.
    pub fn get_resident(
        &self,
        family: &Family,
        key: &[u8],
        at: At<'_>,
        verify: Verify,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Option<bool>> {
        let catalog = self.open_inner()?.catalog();
        let checks = catalog.reads.checks(verify);
        let read = |view: &_, moment| catalog.reads.get_resident((family, view), key, moment, checks, visit);
        in_view(catalog, family, at, read)
    }

    /// Reads like `multi_get_checked` if no file access is needed; otherwise returns false, and the caller must discard
    /// the values already passed to `visit`.
    pub fn multi_get_resident(
        &self,
        family: &Family,
        keys: &[&[u8]],
        at: At<'_>,
        verify: Verify,
        visit: &mut dyn FnMut(usize, &Record<'_>),
    ) -> Result<bool> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        let moment = inner.catalog().read_point(at)?;
        for (index, key) in keys.iter().enumerate() {
            let checks = inner.catalog().reads.checks(verify);
            let mut show = |record: &Record<'_>| visit(index, record);
            if inner.catalog().reads.get_resident((family, &view), key, moment, checks, &mut show)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes the newest version of `key` below a seqno to `visit`, even if it is a tombstone or an expired value. If it
    /// is a merge operand, passes the merged record; a base that has expired by now counts as absent.
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
        let (checks, view, mut shown) = (inner.catalog().reads.checks(verify), family.view(), Ok(()));
        let (hidden, mut is_hidden) = (view.range_deleted_before(family.order(), key, at), false);
        let reads = &inner.catalog().reads;
        let found = reads.version_in((family, &view), (key, None), at, checks, |record| {
            is_hidden = record.seqno < hidden;
            shown = match record.kind {
                _ if is_hidden => Ok(()),
                Kind::Merge => reads.merged_above((family, &view), (key, hidden), ReadPoint::now(at), checks, visit),
                _ => reads.show_whole((family, &view), record, fetch_by(checks), visit),
            };
        })?;
        shown.map(|()| found && !is_hidden)
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
        let reads = &self.open_inner()?.catalog().reads;
        let Some(at) = seqno.checked_sub(1) else { return Ok(false) };
        let view = family.view();
        let (hidden, mut is_hidden) = (view.range_deleted_before(family.order(), key, at), false);
        let found = reads.version_in((family, &view), (key, None), at, reads.checks(verify), |record| {
            is_hidden = record.seqno < hidden;
            if !is_hidden {
                visit(record);
            }
        })?;
        Ok(found && !is_hidden)
    }

    /// Returns the location of the version that decides a read of `key`, or `None` if the key has no version. Each
    /// memtable and table is searched without filters, so the call costs more than a read. It fails where a read fails,
    /// with one exception: a version that does not match its companion is returned with the result of its check.
    pub fn locate(&self, family: &Family, key: &[u8], at: At<'_>) -> Result<Option<RecordLocation>> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        let unopened = |table: &TableHandle, error| inner.catalog().reads.unopened(family, table, error);
        let (companions, seqno) = (&*inner.context().companions, inner.catalog().seqno(at)?);
        locate(companions, family, &view, (key, seqno), &unopened)
    }

    /// Returns a cursor over all versions of a family's keys in memtables, in internal order, at or below the seqno of
    /// `at`. It keeps its view of the memtables until it is dropped. The family's `verify_scans` selects the checks. At
    /// a damaged version the cursor returns one error, and its next step continues after the version.
    pub fn unflushed(&self, family: &Family, at: At<'_>) -> Result<Box<dyn Cursor + Send>> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        let seqno = inner.catalog().seqno(at)?;
        Ok(unflushed(&inner.context().companions, family, view, seqno))
    }

    /// Returns the view that a read at `at` uses. `Closed` once the store is closed.
    pub(super) fn view_at(&self, family: &Family, at: At<'_>) -> Result<Arc<View>> {
        match at {
            At::Snapshot(snapshot) => snapshot.view_of(family),
            At::Latest => family.readable_view(),
        }
    }
}

/// Calls `read` with the view that a read at `at` uses: the snapshot's view, or else the current view, borrowed without
/// a reference count. The view is loaded before the seqno (I13).
#[inline(always)]
fn in_view<T>(
    catalog: &Catalog,
    family: &Family,
    at: At<'_>,
    read: impl FnOnce(&View, ReadPoint) -> Result<T>,
) -> Result<T> {
    if let At::Snapshot(snapshot) = at
        && let Some(views) = snapshot.views()
        && let Some(view) = views.of(family)?
    {
        return read(view, catalog.read_point(at)?);
    }
    let view = family.view();
    let moment = catalog.read_point(at)?;
    read(&view, moment)
}

/// Estimates the bytes of a table, and of the values it points to, that belong to keys below one end of some bounds.
fn bytes_up_to(table: &TableHandle, bound: &Bound<Vec<u8>>, is_upper: bool, order: &Order) -> Result<u64> {
    let meta = table.meta();
    let all = meta.bytes_with_values();
    let (key, and_key) = match bound {
        Bound::Unbounded => return Ok(if is_upper { all } else { 0 }),
        Bound::Included(key) => (key, is_upper),
        Bound::Excluded(key) => (key, !is_upper),
    };
    // Bounds at or beyond the table's own ends need no search and no open table.
    match (order.compare(key, &meta.smallest), order.compare(key, &meta.largest)) {
        (Ordering::Less, _) => Ok(0),
        (Ordering::Equal, _) if !and_key => Ok(0),
        (_, Ordering::Greater) => Ok(all),
        (_, Ordering::Equal) if and_key => Ok(all),
        _ => table.table()?.approximate_bytes_before(key, and_key, all),
    }
}
