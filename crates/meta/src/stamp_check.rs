//! The check at the end of a stamp, and the lengths of stamps. Pure.
//!
//! In:     the content of a stamp, any bytes; the hash of its record's key.
//! Out:    whether the two belong together.

use waxseal_lsm::checksum::{hash, mix};

/// Length of the check at the end of a stamp.
pub(crate) const CHECK_BYTES: usize = 3;

/// Length of the shortest stamp, without kind and length: flags, time, session, check.
pub(crate) const LEAST_BYTES: usize = 1 + 8 + 1 + CHECK_BYTES;

/// Length of the shortest stamp as a companion; most stamps have it.
pub(crate) const SHORT_BYTES: usize = 2 + LEAST_BYTES;

/// Returns true if a stamp's content matches its check beside a record with this key hash.
#[inline]
pub(crate) fn is_whole(content: &[u8], key_hash: u64) -> bool {
    match content.split_last_chunk::<CHECK_BYTES>() {
        Some((said, check)) if content.len() >= LEAST_BYTES => check_of(said, key_hash) == *check,
        _ => false,
    }
}

/// Returns the XOR that moves the check of a stamp from one key to another.
pub(crate) fn difference(content: &[u8], old_key_hash: u64, new_key_hash: u64) -> [u8; CHECK_BYTES] {
    let said = &content[..content.len().saturating_sub(CHECK_BYTES)];
    let (old, new) = (check_of(said, old_key_hash), check_of(said, new_key_hash));
    std::array::from_fn(|at| old[at] ^ new[at])
}

/// Returns the low 24 bits of a hash over the content of a stamp and its key.
#[inline]
pub(crate) fn check_of(said: &[u8], key_hash: u64) -> [u8; CHECK_BYTES] {
    let [a, b, c, ..] = mix(hash(said) ^ key_hash).to_le_bytes();
    [a, b, c]
}
