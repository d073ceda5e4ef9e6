//! A record protector for tests: adds one word to each record, and has switchable faults.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use waxseal_lsm::checksum::{hash, mix};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{Kind, Record, companion};
use waxseal_lsm::seam::{Build, Check, Companions, Emitted, Emitting, PendingWrite, Protection};

/// The family that receives rows.
pub const ROWS: u32 = 1;

#[derive(Default)]
pub struct Tester {
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

fn word(kind: Kind, key: &[u8], value: &[u8]) -> u64 {
    mix(hash(key)) ^ mix(hash(value) ^ kind as u64)
}

fn stamp(kind: Kind, key: &[u8], value: &[u8]) -> Vec<u8> {
    [&[companion::WORD8][..], &word(kind, key, value).to_le_bytes()].concat()
}

impl Companions for Tester {
    fn on_write(&self, pending: &PendingWrite<'_>, out: &mut Vec<u8>) -> Result<()> {
        out.extend(stamp(pending.kind, pending.key, pending.value));
        Ok(())
    }
    fn rekey(&self, companion: &mut [u8], old_key: &[u8], new_key: &[u8]) {
        if let Some(word) = companion.last_chunk_mut::<8>() {
            *word = (u64::from_le_bytes(*word) ^ mix(hash(old_key)) ^ mix(hash(new_key))).to_le_bytes();
        }
    }
    fn on_build(&self, record: &Record<'_>, _: Protection, _: &mut Vec<u8>) -> Build {
        if is(&self.losing, record.key) { Build::Set } else { Build::Keep }
    }
    fn verify(&self, record: &Record<'_>, _: u64, source: Protection) -> Check {
        if self.failing.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
            || is(&self.rotten, record.key)
        {
            return Check::Corrupted;
        }
        match (record.companion, source) {
            ([], Protection::Complete) => Check::Missing,
            ([], _) => Check::Unverified,
            (held, _) if held == stamp(record.kind, record.key, record.value) => Check::Validated,
            _ => Check::Corrupted,
        }
    }
    fn term(&self, record: &Record<'_>) -> u64 {
        let word = record.companion.get(1..9).and_then(|bytes| bytes.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    }
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
        if self.emits.load(Relaxed) && family.id == self.emits_of.load(Relaxed) && record.kind == Kind::Put {
            if self.refusing.load(Relaxed) {
                return Err(Error::invalid("no row"));
            }
            if let Some((other, key)) = &*self.asks.lock().unwrap() {
                let mut told = None;
                let found = family.lookup.get(*other, key, &mut |value| told = Some(value.to_vec()))?;
                assert_eq!(found, told.is_some());
                self.told.lock().unwrap().push(told);
            }
            let (key, value) = (format!("row of {}", record.seqno).into_bytes(), record.key.to_vec());
            let companion = stamp(Kind::Put, &key, &value);
            rows.push(Emitted::new(ROWS, record.seqno, &key, &value).with_companion(&companion));
        }
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
}
