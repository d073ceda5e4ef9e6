//! Rekey: the companions of an operation whose key becomes whole when its seqno is known. Pure.
//!
//! In:     companions that are not bound to a seqno yet; the key as it was written, and as it is.
//! Out:    the companions of the key as it is, in place: what they say of the key is taken out and put in anew.
//! Holds:  the value is not looked at. Each change is a difference, so that what was damaged before stays as damaged as it was.

use waxseal_lsm::checksum::hash_key;

use crate::beside::Beside;
use crate::keeper::word_at;
use crate::seal::Seal;
use crate::stamp::{self, CHECK_BYTES};

/// Adjusts companions in place. What cannot be taken apart stays as it is, for a check to find.
pub(crate) fn rekey(companion: &mut [u8], old_key: &[u8], new_key: &[u8]) {
    let (old, new) = (hash_key(old_key), hash_key(new_key));
    for (at, difference) in beside_the_seal(companion, old, new) {
        companion[at..].iter_mut().zip(difference).for_each(|(byte, difference)| *byte ^= difference);
    }
    if let Some(bytes) = word_at(companion).and_then(|at| companion[at..].first_chunk_mut::<8>()) {
        *bytes = Seal::from_bytes(*bytes).rekey(old, new).to_bytes();
    }
}

/// Where checks by the key stand, and what is to be added to each: four bytes, of a stamp's the last is zero.
fn beside_the_seal(companion: &[u8], old: u64, new: u64) -> Vec<(usize, [u8; 4])> {
    let mut changes = Vec::new();
    let Ok(beside) = Beside::read(companion) else { return changes };
    if let Some((at, content)) = beside.stamp_content()
        && content.len() >= CHECK_BYTES
    {
        let [a, b, c] = stamp::difference(content, old, new);
        changes.push((at + content.len() - CHECK_BYTES, [a, b, c, 0]));
    }
    for (end, entry) in beside.entry_ends() {
        if let Ok(entry) = entry
            && !entry.sealed
        {
            changes.push((end - 4, entry.difference(old, new).to_le_bytes()));
        }
    }
    changes
}
