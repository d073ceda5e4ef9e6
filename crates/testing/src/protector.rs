//! A record protector for tests: one word per record, computed from the whole record, correction of one or two flipped
//! bits of a block, and switchable faults.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use waxseal_lsm::checksum::{crc, hash, mix};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::pointer::value_hash;
use waxseal_lsm::record::{Kind, Record, Seqno, companion};
use waxseal_lsm::seam::{Build, Check, Companions, Emitted, Emitting, PendingWrite, Protection};

/// The family that receives rows.
pub const ROWS: u32 = 1;

/// Adds a word to each record, and has switchable faults. The word is computed without the seqno, which binding adds.
#[derive(Debug, Default)]
pub struct TestProtector {
    /// While set, every check passes.
    pub blind: AtomicBool,
    /// Emits a row for each put of the default family.
    pub emits: AtomicBool,
    /// Emits rows for the puts of this family instead.
    pub emits_of: AtomicU32,
    /// Looks up this key of this family whenever a row is emitted.
    pub asks: Mutex<Option<(u32, Vec<u8>)>>,
    /// Results of these lookups.
    pub told: Mutex<Vec<Option<Vec<u8>>>>,
    /// Emits no row and returns an error instead.
    pub refusing: AtomicBool,
    /// This many checks fail, whatever record they check.
    pub failing: AtomicU64,
    /// Checks of this key's record fail, wherever the record is stored.
    pub rotten: Mutex<Option<Vec<u8>>>,
    /// This key's record loses its word while it is written to a table.
    pub losing: Mutex<Option<Vec<u8>>>,
}

fn is(of: &Mutex<Option<Vec<u8>>>, key: &[u8]) -> bool {
    of.lock().unwrap().as_deref() == Some(key)
}

/// Returns the word of a record. A pointer to a blob file has the word of its value.
fn word(kind: Kind, key_hash: u64, value: &[u8]) -> u64 {
    let value_hash = value_hash(kind, value).unwrap_or_default();
    let kind = if kind == Kind::BlobPointer { Kind::Put } else { kind };
    mix(key_hash) ^ mix(value_hash ^ mix(kind as u64))
}

fn bound(word: u64, seqno: Seqno) -> u64 {
    word ^ mix(seqno + 1)
}

fn stamp(word: u64) -> [u8; 9] {
    let mut stamp = [companion::WORD8; 9];
    stamp[1..].copy_from_slice(&word.to_le_bytes());
    stamp
}

/// Returns the companion of a record of a table or memtable.
fn companion_of(record: &Record<'_>, key_hash: u64) -> [u8; 9] {
    stamp(bound(word(record.kind, key_hash, record.value), record.seqno))
}

impl TestProtector {
    /// Returns true if a record has its own word.
    pub fn is_right(record: &Record<'_>) -> bool {
        record.companion == companion_of(record, hash(record.key))
    }
}

impl Companions for TestProtector {
    fn on_write(&self, pending: &PendingWrite<'_>, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&stamp(word(pending.kind, hash(pending.key), pending.value)));
        Ok(())
    }
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        if let Some(bytes) = companion.last_chunk_mut::<8>() {
            let kept = u64::from_le_bytes(*bytes);
            let free = old.map_or(kept, |old| bound(kept, old));
            *bytes = bound(free, new).to_le_bytes();
        }
    }
    fn rekey(&self, companion: &mut [u8], old_key: &[u8], new_key: &[u8]) {
        if let Some(word) = companion.last_chunk_mut::<8>() {
            *word = (u64::from_le_bytes(*word) ^ mix(hash(old_key)) ^ mix(hash(new_key))).to_le_bytes();
        }
    }
    fn on_build(&self, record: &Record<'_>, _: Protection, _: &mut Vec<u8>) -> Build {
        if is(&self.losing, record.key) { Build::Set } else { Build::Keep }
    }
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        if self.failing.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
            || is(&self.rotten, record.key)
        {
            return Check::Corrupted;
        }
        match record.companion {
            _ if self.blind.load(Relaxed) => Check::Validated,
            [] if source == Protection::Complete => Check::Missing,
            [] => Check::Unverified,
            held if held == companion_of(record, key_hash) => Check::Validated,
            _ => Check::Corrupted,
        }
    }
    fn term(&self, record: &Record<'_>) -> u64 {
        let word = record.companion.get(1..9).and_then(|bytes| bytes.try_into().ok());
        word.map_or(0, |word| bound(u64::from_le_bytes(word), record.seqno))
    }
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
        if !self.may_emit(family.id, record) {
            return Ok(());
        }
        if self.refusing.load(Relaxed) {
            return Err(Error::invalid("no row"));
        }
        if let Some((other, key)) = &*self.asks.lock().unwrap() {
            let mut told = None;
            let found = family.lookup.get(*other, key, &mut |value| told = Some(value.to_vec()))?;
            assert_eq!(found, told.is_some());
            self.told.lock().unwrap().push(told);
        }
        let (key, value) = (format!("row of {}", record.seqno).into_bytes(), record.key);
        let companion = stamp(bound(word(Kind::Put, hash(&key), value), record.seqno));
        rows.push(Emitted::new(ROWS, record.seqno, &key, value).with_companion(&companion));
        Ok(())
    }
    fn may_emit(&self, family: u32, record: &Record<'_>) -> bool {
        self.emits.load(Relaxed) && family == self.emits_of.load(Relaxed) && record.kind == Kind::Put
    }
    fn protection(&self) -> Protection {
        Protection::Complete
    }
    fn algorithm(&self) -> u64 {
        77
    }
    fn descriptors(&self) -> Vec<u8> {
        b"a word".to_vec()
    }
    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        correct(block, seed, confirm)
    }
}

/// Corrects one or two flipped bits of a block that ends in its checksum, by the change that each bit makes to the
/// checksum, the last bit first. Returns true if exactly one correction is confirmed.
pub fn correct(block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
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
