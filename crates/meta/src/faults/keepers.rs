//! Keepers that go wrong, or do less, on purpose: each is `Sealer` but for what its name says.

use std::collections::BTreeMap;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::error::Result;
use waxseal_lsm::record::{Record, Seqno, companion};
use waxseal_lsm::seam::{Build, Check, Collector, Companions, Draft, DropReason, Emitted, Emitting, Protection};

use crate::builtin::standard;
use crate::{Seal, Sealer};

/// Everything of a `Companions` that a keeper below leaves to the `Sealer` inside it.
macro_rules! as_sealer {
    ($($name:ident)*) => { $(as_sealer!(@ $name);)* };
    (@ on_write) => {
        fn on_write(&self, draft: &Draft<'_>, out: &mut Vec<u8>) -> Result<()> {
            self.sealer.on_write(draft, out)
        }
    };
    (@ bind) => {
        fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
            self.sealer.bind(companion, old, new);
        }
    };
    (@ on_build) => {
        fn on_build(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build {
            self.sealer.on_build(record, source, out)
        }
    };
    (@ verify) => {
        fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
            self.sealer.verify(record, key_hash, source)
        }
    };
    (@ term) => {
        fn term(&self, record: &Record<'_>) -> u64 {
            self.sealer.term(record)
        }
    };
    (@ rest) => {
        fn on_merge(&self, inputs: &[Record<'_>], result: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
            self.sealer.on_merge(inputs, result, out)
        }
        fn on_drop(&self, record: &Record<'_>, reason: DropReason) {
            self.sealer.on_drop(record, reason);
        }
        fn rekey(&self, companion: &mut [u8], old_key: &[u8], new_key: &[u8]) {
            self.sealer.rekey(companion, old_key, new_key);
        }
        fn retains(&self, record: &Record<'_>) -> bool {
            self.sealer.retains(record)
        }
        fn collector(&self) -> Option<Box<dyn Collector>> {
            self.sealer.collector()
        }
        fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
            self.sealer.emit(family, record, rows)
        }
        fn protection(&self) -> Protection {
            self.sealer.protection()
        }
        fn algorithm(&self) -> u64 {
            self.sealer.algorithm()
        }
        fn descriptors(&self) -> Vec<u8> {
            self.sealer.descriptors()
        }
        fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
            self.sealer.correct(block, seed, confirm)
        }
    };
}

/// Seals whatever it meets in a pass, as it is, and keeps no ledger: what the paper's compaction does with a record whose companion
/// it cannot find. Damage on the way is sealed in.
#[derive(Debug, Default)]
pub struct Launderer {
    sealer: Sealer,
}

impl Launderer {
    /// A new one.
    pub fn new() -> Launderer {
        Launderer::default()
    }
}

impl Companions for Launderer {
    as_sealer!(on_write bind rest);
    fn verify(&self, record: &Record<'_>, key_hash: u64, _: Protection) -> Check {
        // No place promises it anything: what has no seal is of an old node.
        self.sealer.verify(record, key_hash, Protection::Partial)
    }
    fn on_build(&self, record: &Record<'_>, _: Protection, out: &mut Vec<u8>) -> Build {
        put_word(out, Seal::of_record(record).at(record.seqno));
        Build::Set
    }
    fn term(&self, _: &Record<'_>) -> u64 {
        0
    }
}

/// Carries and checks seals and keeps no sums: what the ledger costs is what this does not.
#[derive(Debug, Default)]
pub struct Unsummed {
    sealer: Sealer,
}

impl Unsummed {
    /// A new one.
    pub fn new() -> Unsummed {
        Unsummed::default()
    }
}

impl Companions for Unsummed {
    as_sealer!(on_write bind on_build verify rest);
    fn term(&self, _: &Record<'_>) -> u64 {
        0
    }
}

/// Writes tables in which the seals of chosen records are not what they were, under sums that fit: what damage in memory before the
/// sum was taken leaves behind. It believes everything.
#[derive(Debug, Default)]
pub struct Forger {
    sealer: Sealer,
    masks: BTreeMap<Vec<u8>, u64>,
}

impl Forger {
    /// A keeper that flips these bits of the seals of these keys.
    pub fn new(masks: impl IntoIterator<Item = (Vec<u8>, u64)>) -> Forger {
        Forger { sealer: Sealer::new().with(standard()), masks: masks.into_iter().collect() }
    }
}

impl Companions for Forger {
    as_sealer!(on_write bind term rest);
    fn on_build(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build {
        match (self.masks.get(record.key), Sealer::seal_of(record)) {
            (Some(mask), Ok(Some(seal))) => {
                put_word(out, seal.at(record.seqno) ^ mask);
                out.extend_from_slice(record.companion.get(9..).unwrap_or_default());
                Build::Derive
            }
            _ => self.sealer.on_build(record, source, out),
        }
    }
    fn verify(&self, _: &Record<'_>, _: u64, _: Protection) -> Check {
        Check::Validated
    }
}

/// A word as a companion.
pub fn put_word(out: &mut Vec<u8>, word: u64) {
    out.push(companion::WORD8);
    out.extend_from_slice(&word.to_le_bytes());
}

/// What a fresh `Sealer` says of a record.
pub fn judged(record: &Record<'_>, complete: bool) -> crate::verdict::Verdict {
    Sealer::new().judge(record, hash_key(record.key), complete)
}
