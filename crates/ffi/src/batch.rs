//! Batches: writes to any column families that commit together.

use std::sync::Mutex;

use face::{Batch, ColumnFamily};

use crate::call::status_of;
use crate::db::waxseal_db_t;
use crate::declare::{destroy, getters};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, peek, with, with_mut};
use crate::options::durability;
use crate::range::half_open;

/// Writes to any column families of one store that commit atomically: a crash preserves all of them or none. A
/// later write to a key overrides an earlier one. Used by one thread at a time. Destroyed by `waxseal_batch_destroy`.
///
/// A rejected write makes the whole batch fail: the call returns the error at once, and so does every commit until
/// `waxseal_batch_clear`.
pub struct waxseal_batch_t {
    _opaque: [u8; 0],
}

handle!(waxseal_batch_t => Mutex<CallerBatch>, HandleKind::Batch, "batch", |writes| peek(writes, |writes| writes.batch.store()));

/// A batch, and the failure of a write that this layer rejected before the engine's batch saw it.
pub(crate) struct CallerBatch {
    batch: Batch,
    refused: Option<Failure>,
}

impl From<Batch> for CallerBatch {
    fn from(batch: Batch) -> CallerBatch {
        CallerBatch { batch, refused: None }
    }
}

/// Adds a write. A failure is returned at once and remembered.
pub(crate) fn add(
    batch: *mut waxseal_batch_t,
    family: *mut waxseal_family_t,
    write: impl FnOnce(&mut Batch, &ColumnFamily) -> Result<()>,
) -> Result<()> {
    with_mut(batch.cast_const(), |writes: &mut CallerBatch| {
        if let Some(failure) = &writes.refused {
            return Err(failure.clone());
        }
        let batch = &mut writes.batch;
        let added = with(family.cast_const(), |family| {
            write(batch, family)?;
            Ok(batch.check()?)
        });
        added.inspect_err(|failure| writes.refused = Some(failure.clone()))
    })
}

calls! {
    /// Creates an empty batch of a store.
    ///
    /// Thread-safe. On success the caller owns `*batch` and frees it with `waxseal_batch_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_batch_create(db: *mut waxseal_db_t, out batch: *mut *mut waxseal_batch_t) {
        let batch = batch.needed("batch")?;
        let empty = with(db.cast_const(), |db| Ok(db.batch()))?;
        batch.set(issue(Mutex::new(empty.into()))?);
        Ok(())
    }

    /// Adds a write that sets a key to a value.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a key or value that is too long, or null with a length, and
    /// for a family of another store.
    fn waxseal_batch_put(batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, bytes key, bytes value) {
        add(batch, family, |batch, family| {
            batch.put(family, key.key()?, value.value()?);
            Ok(())
        })
    }

    /// Adds a write that sets a key to a value and that the log of events records as `Row.Insert` instead of
    /// `Row.Update`. It overwrites like `waxseal_batch_put`; the store does not check whether the key existed.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`.
    fn waxseal_batch_put_logged_as_insert(
        batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, bytes key, bytes value,
    ) {
        add(batch, family, |batch, family| {
            batch.put_logged_as_insert(family, key.key()?, value.value()?);
            Ok(())
        })
    }

    /// Adds a write that deletes a key.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`.
    fn waxseal_batch_delete(batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, bytes key) {
        add(batch, family, |batch, family| {
            batch.delete(family, key.key()?);
            Ok(())
        })
    }

    /// Adds a write that deletes all keys from `start` to `end`, `end` excluded, that were written before the commit or
    /// earlier in the batch. A null pointer with length 0 is no bound. A start behind the end fails the commit.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`.
    fn waxseal_batch_delete_range(
        batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, bytes start, bytes end,
    ) {
        add(batch, family, |batch, family| {
            batch.delete_range(family, half_open(start, end)?);
            Ok(())
        })
    }

    /// Adds a write that merges an operand into the value of a key, as of `waxseal_merge`. An operand that the family's
    /// merge operator cannot read fails the commit.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`.
    fn waxseal_batch_merge(batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, bytes key, bytes operand) {
        add(batch, family, |batch, family| {
            batch.merge(family, key.key()?, operand.value()?);
            Ok(())
        })
    }

    /// Commits all writes of the batch atomically and empties it for reuse. On an error the batch keeps its writes, and
    /// none was applied unless the message says otherwise. `durability` is one of `WAXSEAL_DURABILITY_..`.
    ///
    /// One thread at a time. Errors: that of the rejected write; `WAXSEAL_INVALID` for a dropped family, `WAXSEAL_IO`,
    /// `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_batch_commit(batch: *mut waxseal_batch_t, durability: i32) {
        let durability = self::durability(durability)?;
        with_mut(batch.cast_const(), |CallerBatch { batch, refused }: &mut CallerBatch| match refused {
            Some(failure) => Err(failure.clone()),
            None => Ok(batch.commit(durability.unwrap_or(batch.durability()))?),
        })
    }
}

/// Removes all writes, and the error of a rejected one.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_batch_clear(batch: *mut waxseal_batch_t) -> i32 {
    status_of(|| {
        with_mut(batch.cast_const(), |writes| {
            writes.batch.clear();
            writes.refused = None;
            Ok(())
        })
    })
}

getters! {
    with_mut;

    /// Number of writes; 0 for null, for a destroyed batch and for one that another thread is using.
    fn waxseal_batch_count(batch: *const waxseal_batch_t) -> usize => |writes| writes.batch.len(), or 0;

    /// Approximate bytes that the commit will take in the log; 0 for null, for a destroyed batch and for one that
    /// another thread is using.
    fn waxseal_batch_bytes(batch: *const waxseal_batch_t) -> usize => |writes| writes.batch.bytes(), or 0;
}

destroy! {
    /// Destroys a batch and discards its uncommitted writes. Null is allowed; a destroyed batch is `WAXSEAL_CLOSED`.
    fn waxseal_batch_destroy(batch: *mut waxseal_batch_t);
}
