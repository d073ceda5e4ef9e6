//! Snapshots: the whole store at one point in time.

use face::{ColumnFamily, Db, Snapshot};

use crate::db::waxseal_db_t;
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::Result;
use crate::handle::{HandleKind, handle, issue, with};
use crate::lent::Out;

/// The state of all column families of a store at one point in time. Usable from any thread. Destroyed by
/// `waxseal_snapshot_destroy`; until then the versions that it sees take space.
pub struct waxseal_snapshot_t {
    _opaque: [u8; 0],
}

handle!(waxseal_snapshot_t => Snapshot, HandleKind::Snapshot, "snapshot", |snapshot| Some(snapshot.store()));

fn take_one(
    db: *const waxseal_db_t,
    snapshot: Out<'_, *mut waxseal_snapshot_t>,
    take: impl FnOnce(&Db) -> Snapshot,
) -> Result<()> {
    let snapshot = snapshot.needed("snapshot")?;
    let taken = with(db, |db| {
        let taken = take(db);
        taken.seqno()?; // fails if the store is closing
        Ok(taken)
    })?;
    snapshot.set(issue(taken)?);
    Ok(())
}

/// Reads through a snapshot, or the current state if the snapshot is null.
#[inline]
pub(crate) fn read<R>(
    snapshot: *const waxseal_snapshot_t,
    latest: impl FnOnce() -> face::Result<R>,
    then: impl FnOnce(&Snapshot) -> face::Result<R>,
) -> Result<R> {
    if snapshot.is_null() { Ok(latest()?) } else { with(snapshot, |snapshot| Ok(then(snapshot)?)) }
}

/// Lends the value of a key, at a snapshot or in the current state, to `visit`. Returns `None` if the key does not
/// exist.
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

/// As `lend_value`, but reads no file. The outer `None` means that the answer is not in memory.
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

calls! {
    /// Creates a snapshot of the store's current state.
    ///
    /// Thread-safe. On success the caller owns `*snapshot` and frees it with `waxseal_snapshot_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_snapshot_create(db: *mut waxseal_db_t, out snapshot: *mut *mut waxseal_snapshot_t) {
        take_one(db.cast_const(), snapshot, Db::snapshot)
    }

    /// Creates a snapshot of the last commit known to be durable: the state that a crash of the machine at this moment
    /// would leave.
    ///
    /// Thread-safe. On success the caller owns `*snapshot` and frees it with `waxseal_snapshot_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_snapshot_create_durable(db: *mut waxseal_db_t, out snapshot: *mut *mut waxseal_snapshot_t) {
        take_one(db.cast_const(), snapshot, Db::durable_snapshot)
    }

    /// Returns the snapshot's sequence number: the snapshot sees the commits up to it.
    ///
    /// Thread-safe.
    fn waxseal_snapshot_seqno(snapshot: *const waxseal_snapshot_t, out seqno: *mut u64) {
        let seqno = seqno.needed("seqno")?;
        seqno.set(with(snapshot, |snapshot| Ok(snapshot.seqno()?))?);
        Ok(())
    }
}

destroy! {
    /// Destroys a snapshot. Iterators created from it stay valid. Null is allowed; a destroyed snapshot is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_snapshot_destroy(snapshot: *mut waxseal_snapshot_t);
}
