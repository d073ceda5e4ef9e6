//! Snapshots: the whole store as it was at one moment.

use face::{ColumnFamily, Db, Snapshot};

use crate::call::{answer, status_of};
use crate::db::waxseal_db_t;
use crate::error::{Result, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with};
use crate::lent::{Out, out};

/// The store as it was at one moment, in all its column families. May be used from any thread, and is ended by
/// `waxseal_snapshot_destroy`; until then what it sees takes space.
pub struct waxseal_snapshot_t {
    _opaque: [u8; 0],
}

handle!(waxseal_snapshot_t => Snapshot, Kind::Snapshot, "snapshot", |snapshot| Some(snapshot.store()));

fn take_one(
    db: *const waxseal_db_t,
    snapshot: Out<'_, *mut waxseal_snapshot_t>,
    take: impl FnOnce(&Db) -> Snapshot,
) -> Result<()> {
    let snapshot = snapshot.needed("snapshot")?;
    let taken = with(db, |db| {
        let taken = take(db);
        taken.seqno()?; // there may be no moment: the store may be closing
        Ok(taken)
    })?;
    snapshot.set(issue(taken)?);
    Ok(())
}

/// Reads a family through a snapshot, or, where that is null, as it is now.
#[inline]
pub(crate) fn read<R>(
    snapshot: *const waxseal_snapshot_t,
    latest: impl FnOnce() -> face::Result<R>,
    then: impl FnOnce(&Snapshot) -> face::Result<R>,
) -> Result<R> {
    if snapshot.is_null() { Ok(latest()?) } else { with(snapshot, |snapshot| Ok(then(snapshot)?)) }
}

/// Lends the value of a key, now or as a snapshot sees it. None if it is not there.
#[inline]
pub(crate) fn lend_value<R>(
    family: &ColumnFamily,
    snapshot: *const waxseal_snapshot_t,
    key: &[u8],
    visit: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>> {
    if snapshot.is_null() {
        Ok(family.get_with(key, visit)?)
    } else {
        with(snapshot, |snapshot| Ok(snapshot.get_with(family, key, visit)?))
    }
}

/// The same, if no file would have to be read for it; else none.
#[inline]
pub(crate) fn lend_resident<R>(
    family: &ColumnFamily,
    snapshot: *const waxseal_snapshot_t,
    key: &[u8],
    visit: impl FnOnce(&[u8]) -> R,
) -> Result<Option<Option<R>>> {
    if snapshot.is_null() {
        Ok(family.get_resident(key, visit)?)
    } else {
        with(snapshot, |snapshot| Ok(snapshot.get_resident(family, key, visit)?))
    }
}

/// The store as it is now, for as long as the snapshot is kept.
///
/// Thread-safe. On success `*snapshot` is the caller's, to be ended by `waxseal_snapshot_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_snapshot_create(
    db: *mut waxseal_db_t,
    snapshot: *mut *mut waxseal_snapshot_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (snapshot, error) = unsafe { (out(snapshot), out(error)) };
    answer(error, || take_one(db.cast_const(), snapshot, Db::snapshot))
}

/// The store as a crash of the machine would leave it at this moment: at the last commit known to be durable.
///
/// Thread-safe. On success `*snapshot` is the caller's, to be ended by `waxseal_snapshot_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_snapshot_create_durable(
    db: *mut waxseal_db_t,
    snapshot: *mut *mut waxseal_snapshot_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (snapshot, error) = unsafe { (out(snapshot), out(error)) };
    answer(error, || take_one(db.cast_const(), snapshot, Db::durable_snapshot))
}

/// The snapshot's place in the order of commits: commits up to this number are seen.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_snapshot_seqno(
    snapshot: *const waxseal_snapshot_t,
    seqno: *mut u64,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (seqno, error) = unsafe { (out(seqno), out(error)) };
    answer(error, || {
        let seqno = seqno.needed("seqno")?;
        seqno.set(with(snapshot, |snapshot| Ok(snapshot.seqno()?))?);
        Ok(())
    })
}

/// Ends a snapshot. Iterators made from it go on. Null is no error; a snapshot that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_snapshot_destroy(snapshot: *mut waxseal_snapshot_t) -> i32 {
    status_of(|| end(snapshot.cast_const()))
}
