//! Batches: writes to any column families that commit together.

use std::sync::Mutex;

use face::{Batch, ColumnFamily};

use crate::call::{answer, status_of, value_of};
use crate::db::waxseal_db_t;
use crate::error::{Failure, Result, waxseal_error_t};
use crate::family::waxseal_family_t;
use crate::handle::{Kind, end, handle, issue, peek, with, with_mut};
use crate::lent::{lent, out};
use crate::options::durability;

/// Writes to any column families of one store that commit together: after a crash all of them are there, or none. Later writes to
/// one key win over earlier ones. Used by one thread at a time, and ended by `waxseal_batch_destroy`.
///
/// A write that is refused refuses the batch: its error is answered at once, and by every commit until `waxseal_batch_clear`.
pub struct waxseal_batch_t {
    _opaque: [u8; 0],
}

handle!(waxseal_batch_t => Mutex<Writes>, Kind::Batch, "batch", |writes| peek(writes, |writes| writes.batch.store()));

/// A batch, and why it may not commit although it was not the batch that refused the write.
pub(crate) struct Writes {
    batch: Batch,
    refused: Option<Failure>,
}

impl From<Batch> for Writes {
    fn from(batch: Batch) -> Writes {
        Writes { batch, refused: None }
    }
}

/// Adds a write; its refusal is told at once, and kept.
pub(crate) fn add(
    batch: *mut waxseal_batch_t,
    family: *mut waxseal_family_t,
    write: impl FnOnce(&mut Batch, &ColumnFamily) -> Result<()>,
) -> Result<()> {
    with_mut(batch.cast_const(), |writes: &mut Writes| {
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

/// An empty batch of a store.
///
/// Thread-safe. On success `*batch` is the caller's, to be ended by `waxseal_batch_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_batch_create(
    db: *mut waxseal_db_t,
    batch: *mut *mut waxseal_batch_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (batch, error) = unsafe { (out(batch), out(error)) };
    answer(error, || {
        let batch = batch.needed("batch")?;
        let empty = with(db.cast_const(), |db| Ok(db.batch()))?;
        batch.set(issue(Mutex::new(empty.into()))?);
        Ok(())
    })
}

/// Adds: sets a key to a value.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a key or value that is too long or null with a length, and for a family of
/// another store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_batch_put(
    batch: *mut waxseal_batch_t,
    family: *mut waxseal_family_t,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, value, error) = unsafe { (lent(key, key_len), lent(value, value_len), out(error)) };
    answer(error, || {
        add(batch, family, |batch, family| {
            batch.put(family, key.key()?, value.value()?);
            Ok(())
        })
    })
}

/// Adds: sets a key to a value, which the log calls `Row.Insert` instead of `Row.Update`. It overwrites like `waxseal_batch_put`; the store
/// does not look whether the key was there.
///
/// One thread at a time. Errors: as of `waxseal_batch_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_batch_put_logged_as_insert(
    batch: *mut waxseal_batch_t,
    family: *mut waxseal_family_t,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, value, error) = unsafe { (lent(key, key_len), lent(value, value_len), out(error)) };
    answer(error, || {
        add(batch, family, |batch, family| {
            batch.put_logged_as_insert(family, key.key()?, value.value()?);
            Ok(())
        })
    })
}

/// Adds: removes a key.
///
/// One thread at a time. Errors: as of `waxseal_batch_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_batch_delete(
    batch: *mut waxseal_batch_t,
    family: *mut waxseal_family_t,
    key: *const u8,
    key_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, error) = unsafe { (lent(key, key_len), out(error)) };
    answer(error, || {
        add(batch, family, |batch, family| {
            batch.delete(family, key.key()?);
            Ok(())
        })
    })
}

/// Makes all writes of the batch visible at once and empties it for use again. On an error it keeps them, and nothing has happened
/// unless the message says otherwise. `durability` is one of `WAXSEAL_DURABILITY_..`.
///
/// One thread at a time. Errors: of the write that was refused; `WAXSEAL_INVALID` for a family that was dropped, `WAXSEAL_IO`,
/// `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_batch_commit(
    batch: *mut waxseal_batch_t,
    durability: i32,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || {
        let durability = self::durability(durability)?;
        with_mut(batch.cast_const(), |Writes { batch, refused }: &mut Writes| match refused {
            Some(failure) => Err(failure.clone()),
            None => Ok(batch.commit(durability.unwrap_or(batch.durability()))?),
        })
    })
}

/// Forgets all writes, and a refused one.
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

/// How many writes there are; 0 for null, for a batch that was ended and for one that another thread is using.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_batch_count(batch: *const waxseal_batch_t) -> usize {
    value_of(0, || with_mut(batch, |writes| Ok(writes.batch.len())))
}

/// About how many bytes the commit will take in the log; 0 where `waxseal_batch_count` is 0 for want of a batch.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_batch_bytes(batch: *const waxseal_batch_t) -> usize {
    value_of(0, || with_mut(batch, |writes| Ok(writes.batch.bytes())))
}

/// Ends a batch and forgets what was not committed. Null is no error; a batch that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_batch_destroy(batch: *mut waxseal_batch_t) -> i32 {
    status_of(|| end(batch.cast_const()))
}
