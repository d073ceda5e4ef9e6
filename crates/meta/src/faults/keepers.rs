//! Keepers that go wrong, or do less, on purpose: each is `Sealer` but for what its name says.

use std::collections::BTreeMap;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::record::{Record, companion};
use waxseal_lsm::seam::{Build, Check, Companions, Protection};

use crate::builtin::standard;
use crate::{Seal, Sealer};

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
    fn beneath(&self) -> Option<&dyn Companions> {
        Some(&self.sealer)
    }
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
    fn beneath(&self) -> Option<&dyn Companions> {
        Some(&self.sealer)
    }
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
    fn beneath(&self) -> Option<&dyn Companions> {
        Some(&self.sealer)
    }
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
