//! Record protectors with deliberate faults or omissions: each, in `Over`, acts like `Sealer`, except as its name says.

use std::collections::BTreeMap;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::record::{Record, companion};
use waxseal_lsm::seam::{Build, Check, Companions, Protection};
use waxseal_meta::builtin::standard;
use waxseal_meta::verdict::SealVerdict;
use waxseal_meta::{Seal, Sealer};
use waxseal_testing::above::Above;

/// Recomputes the seal of every record when a table is built, and keeps no ledger. The paper's compaction does this for
/// a record without a companion; damage gets a valid seal.
#[derive(Debug, Default)]
pub struct Launderer {
    sealer: Sealer,
}

impl Above for Launderer {
    fn beneath(&self) -> &dyn Companions {
        &self.sealer
    }
    fn verify(&self, record: &Record<'_>, key_hash: u64, _: Protection) -> Check {
        // It expects seals from no source: a record without one counts as written by an old node.
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

/// Copies and checks seals but keeps no sums, to measure the cost of the ledger.
#[derive(Debug, Default)]
pub struct Unsummed {
    sealer: Sealer,
}

impl Above for Unsummed {
    fn beneath(&self) -> &dyn Companions {
        &self.sealer
    }
    fn term(&self, _: &Record<'_>) -> u64 {
        0
    }
}

/// Writes tables with wrong seals for chosen records under correct block checksums, like damage in memory before the
/// checksum is computed. All its checks succeed.
#[derive(Debug, Default)]
pub struct Forger {
    sealer: Sealer,
    masks: BTreeMap<Vec<u8>, u64>,
}

impl Forger {
    /// Creates a protector that flips these bits in the seals of these keys.
    pub fn new(masks: impl IntoIterator<Item = (Vec<u8>, u64)>) -> Forger {
        Forger { sealer: Sealer::new().with(standard()), masks: masks.into_iter().collect() }
    }
}

impl Above for Forger {
    fn beneath(&self) -> &dyn Companions {
        &self.sealer
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

/// Appends a seal word as a companion.
pub fn put_word(out: &mut Vec<u8>, word: u64) {
    out.push(companion::WORD8);
    out.extend_from_slice(&word.to_le_bytes());
}

/// Returns the verdict of a new `Sealer` on a record.
pub fn judged(record: &Record<'_>, complete: bool) -> SealVerdict {
    Sealer::new().judge(record, hash_key(record.key), complete)
}
