//! Moves the companions of an operation to its complete key, which is known only with its seqno. Pure.
//!
//! In:     companions without a seqno; the written key and the complete key.
//! Out:    the companions of the complete key, changed in place: every check by the key is moved to it.
//! Holds:  the value is not read. Each change is an XOR difference, so a damaged companion stays damaged by the same
//!         bits.

use waxseal_lsm::checksum::hash_key;

use crate::annotations::{Annotations, word_at};
use crate::seal::Seal;
use crate::stamp_check::{CHECK_BYTES, difference};

/// Adjusts companions in place. Companions that cannot be decoded stay unchanged, and a later check reports them.
pub(crate) fn rekey(companion: &mut [u8], old_key: &[u8], new_key: &[u8]) {
    let (old, new) = (hash_key(old_key), hash_key(new_key));
    for (at, difference) in beside_the_seal(companion, old, new) {
        companion[at..].iter_mut().zip(difference).for_each(|(byte, difference)| *byte ^= difference);
    }
    if let Some(bytes) = word_at(companion).and_then(|at| companion[at..].first_chunk_mut::<8>()) {
        *bytes = Seal::from_bytes(*bytes).rekey(old, new).to_bytes();
    }
}

/// Returns the position of each check by the key, with its four-byte difference. For a stamp the last byte is zero.
fn beside_the_seal(companion: &[u8], old: u64, new: u64) -> Vec<(usize, [u8; 4])> {
    let mut changes = Vec::new();
    let Ok(annotations) = Annotations::read(companion) else { return changes };
    if let Some((at, content)) = annotations.stamp_content()
        && content.len() >= CHECK_BYTES
    {
        let [a, b, c] = difference(content, old, new);
        changes.push((at + content.len() - CHECK_BYTES, [a, b, c, 0]));
    }
    for (end, entry) in annotations.entry_ends() {
        if let Ok(entry) = entry
            && !entry.sealed
        {
            changes.push((end - 4, entry.difference(old, new).to_le_bytes()));
        }
    }
    changes
}
