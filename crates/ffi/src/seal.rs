//! Seals: passed in with values, and returned with them.

use face::Seal;

use crate::batch::{add, waxseal_batch_t};
use crate::bytes::{copied, waxseal_bytes_t};
use crate::error::calls;
use crate::family::waxseal_family_t;
use crate::handle::{issue, with};
use crate::snapshot::{read, waxseal_snapshot_t};
use crate::write_options::{waxseal_write_options_t, write_settings};

/// The checksum of a key with its value, independent of where the record is stored: the same on every replica. Eight
/// bytes to be stored or transmitted unchanged; as a number they are little-endian.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_seal_t {
    /// The bytes of the seal.
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

calls! {
    /// Computes the seal of a key and a value. Compute it where the data originates: any later change of key or value
    /// is then detected.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for an invalid key or value.
    fn waxseal_seal_of(bytes key, bytes value, out seal: *mut waxseal_seal_t) {
        seal.needed("seal")?.set(Seal::of(key.key()?, value.value()?).into());
        Ok(())
    }

    /// Sets a key to a value with a seal that the caller received with them or computed at their origin. The seal is
    /// checked now, stored unchanged, and returned by `waxseal_get_sealed`. `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_INVALID` if the seal does not match
    /// key and value, or the store was opened plain; otherwise as of `waxseal_put`. On an error nothing was changed.
    fn waxseal_put_sealed(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key, bytes value,
        seal: waxseal_seal_t,
    ) {
        let options = write_settings(options)?;
        with(family.cast_const(), |family| {
            Ok(family.put_sealed_with(key.key()?, value.value()?, seal.into(), options)?)
        })
    }

    /// Adds a write to a batch that sets a key to a value with the caller's seal.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` if the seal does not match key and
    /// value.
    fn waxseal_batch_put_sealed(
        batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, bytes key, bytes value, seal: waxseal_seal_t,
    ) {
        add(batch, family, |batch, family| {
            batch.put_sealed(family, key.key()?, value.value()?, seal.into());
            Ok(())
        })
    }

    /// Returns a copy of a key's value, with its seal and, unless `seqno` is null, its sequence number (0 once no
    /// snapshot needs it). The value is checked against the seal under every verification policy. A null `snapshot`
    /// reads the current state. `WAXSEAL_NOT_FOUND` if the key does not exist.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CORRUPTION` if value and seal do not match. `WAXSEAL_INVALID` if the record has no seal because a plain
    /// store wrote it, or if this store was opened plain. Otherwise as of `waxseal_get`.
    fn waxseal_get_sealed(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes key,
        out value: *mut *mut waxseal_bytes_t, out seal: *mut waxseal_seal_t, out seqno: *mut u64,
    ) {
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
    }
}
