//! Seals: handed in with values, handed out with them.

use face::Seal;

use crate::batch::{add, waxseal_batch_t};
use crate::bytes::{copied, waxseal_bytes_t};
use crate::call::answer;
use crate::error::waxseal_error_t;
use crate::family::waxseal_family_t;
use crate::handle::{issue, with};
use crate::lent::{lent, out};
use crate::snapshot::{read, waxseal_snapshot_t};
use crate::write_options::{waxseal_write_options_t, write_settings};

/// The checksum of a key with its value, wherever the record lives: the same on every replica. Eight bytes, to be kept or sent along as they
/// are; as a number they are low first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_seal_t {
    /// The seal.
    pub bytes: [u8; 8],
}

impl From<Seal> for waxseal_seal_t {
    fn from(seal: Seal) -> waxseal_seal_t {
        waxseal_seal_t { bytes: seal.to_bytes() }
    }
}

impl From<waxseal_seal_t> for Seal {
    fn from(seal: waxseal_seal_t) -> Seal {
        Seal::from_bytes(seal.bytes)
    }
}

/// The seal of a value under a key, made where they are, so that nothing that happens to them from here on can pass.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` for a key or value that cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_seal_of(
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    seal: *mut waxseal_seal_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, value, seal, error) = unsafe { (lent(key, key_len), lent(value, value_len), out(seal), out(error)) };
    answer(error, || {
        seal.needed("seal")?.set(Seal::of(key.key()?, value.value()?).into());
        Ok(())
    })
}

/// Sets a key to a value with the seal that the caller was given with them, or made where they came from. It is checked now, kept as it is,
/// and handed back by `waxseal_get_sealed`. `options` may be null.
///
/// Thread-safe, if the options are this thread's own meanwhile. Errors: `WAXSEAL_INVALID` if the seal is not that of key and value, or the
/// store was opened plain; else as of `waxseal_put`. Nothing was changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_put_sealed(
    family: *mut waxseal_family_t,
    options: *const waxseal_write_options_t,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    seal: waxseal_seal_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, value, error) = unsafe { (lent(key, key_len), lent(value, value_len), out(error)) };
    answer(error, || {
        let options = write_settings(options)?;
        with(family.cast_const(), |family| {
            Ok(family.put_sealed_with(key.key()?, value.value()?, seal.into(), options)?)
        })
    })
}

/// Adds to a batch: sets a key to a value whose seal the caller was given.
///
/// One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` if the seal is not that of key and value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_batch_put_sealed(
    batch: *mut waxseal_batch_t,
    family: *mut waxseal_family_t,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    seal: waxseal_seal_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, value, error) = unsafe { (lent(key, key_len), lent(value, value_len), out(error)) };
    answer(error, || {
        add(batch, family, |batch, family| {
            batch.put_sealed(family, key.key()?, value.value()?, seal.into());
            Ok(())
        })
    })
}

/// The value of a key, copied, with its seal and, unless `seqno` is null, its place in the order of commits (0 once no snapshot can tell).
/// Value and seal are checked against each other whatever the policy. `snapshot` null: as it is now. `WAXSEAL_NOT_FOUND` if the key is not
/// there.
///
/// Thread-safe. On `WAXSEAL_OK` `*value` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CORRUPTION` if the two
/// do not agree; `WAXSEAL_INVALID` if the record has no seal, since a plain store wrote it, or if this store was opened plain; else as
/// of `waxseal_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_get_sealed(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    key: *const u8,
    key_len: usize,
    value: *mut *mut waxseal_bytes_t,
    seal: *mut waxseal_seal_t,
    seqno: *mut u64,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, value, seal, seqno, error) =
        unsafe { (lent(key, key_len), out(value), out(seal), out(seqno), out(error)) };
    answer(error, || {
        let (value, seal) = (value.needed("value")?, seal.needed("seal")?);
        let key = key.key()?;
        let found = with(family, |family| {
            read(snapshot, || family.get_sealed(key), |snapshot| snapshot.get_sealed(family, key))
        })?;
        let Some(sealed) = found else { return Ok(false) };
        value.set(issue(copied(&sealed.value)?)?);
        seal.set(sealed.seal.into());
        seqno.set(sealed.seqno);
        Ok(true)
    })
}
