//! A record protector for tests: one word per record, computed from the whole record, and correction of one or two
//! flipped bits of a block.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use waxseal_lsm::checksum::{crc, hash, mix};
use waxseal_lsm::error::Result;
use waxseal_lsm::record::{Kind, Record, Seqno, companion};
use waxseal_lsm::seam::{Check, Companions, PendingWrite, Protection};

/// A word computed without the seqno, which binding adds to it.
#[derive(Default)]
pub(crate) struct TestProtector {
    /// While set, every check passes.
    pub(crate) blind: AtomicBool,
}

fn word(kind: Kind, key_hash: u64, value: &[u8]) -> u64 {
    mix(key_hash ^ mix(hash(value) ^ mix(kind as u64)))
}

fn bound(word: u64, seqno: Seqno) -> u64 {
    word ^ mix(seqno + 1)
}

impl Companions for TestProtector {
    fn on_write(&self, pending: &PendingWrite<'_>, out: &mut Vec<u8>) -> Result<()> {
        out.push(companion::WORD8);
        out.extend_from_slice(&word(pending.kind, hash(pending.key), pending.value).to_le_bytes());
        Ok(())
    }
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        if let Some(bytes) = companion.get_mut(1..9) {
            let kept = u64::from_le_bytes(bytes.try_into().unwrap());
            let free = old.map_or(kept, |old| bound(kept, old));
            bytes.copy_from_slice(&bound(free, new).to_le_bytes());
        }
    }
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        match record.companion {
            _ if self.blind.load(Ordering::Relaxed) => Check::Validated,
            [companion::WORD8, kept @ ..] if kept.len() == 8 => {
                let right = bound(word(record.kind, key_hash, record.value), record.seqno).to_le_bytes();
                if kept == right { Check::Validated } else { Check::Corrupted }
            }
            [] if source == Protection::Complete => Check::Missing,
            [] => Check::Unverified,
            _ => Check::Corrupted,
        }
    }
    fn term(&self, record: &Record<'_>) -> u64 {
        let kept = record.companion.get(1..9).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        if record.companion.is_empty() { 0 } else { bound(kept, record.seqno) }
    }
    fn protection(&self) -> Protection {
        Protection::Complete
    }
    fn algorithm(&self) -> u64 {
        77
    }
    /// Uses the change that each bit makes to the checksum, the last bit first.
    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let Some((covered, kept)) = block.split_last_chunk() else { return false };
        let wanted = crc(seed, &[covered]) ^ u32::from_le_bytes(*kept);
        let flip = |block: &mut [u8], bits: &[usize]| bits.iter().for_each(|bit| block[bit / 8] ^= 1 << (bit % 8));
        let (mut words, mut word) = (HashMap::from([(0, None)]), 1u32 << 31);
        let mut survivors = Vec::new();
        for bit in (0..block.len() * 8).rev() {
            if let Some(partner) = words.get(&(wanted ^ word)) {
                let bits: Vec<usize> = [Some(bit), *partner].into_iter().flatten().collect();
                flip(block, &bits);
                if confirm(block) {
                    survivors.push(bits.clone());
                }
                flip(block, &bits);
            }
            words.insert(word, Some(bit));
            word = (word >> 1) ^ (0xEDB8_8320 & (word & 1).wrapping_neg());
        }
        let [bits] = &survivors[..] else { return false };
        flip(block, bits);
        true
    }
}
