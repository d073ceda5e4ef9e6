//! The digest of what a snapshot sees: a count and a sum that are equal for equal content, wherever and however it lies.
//!
//! The sum is of seals without their seqno, modulo 2^64, so that neither the order of tables nor the seqnos of a replica speak in
//! it, and a record that is there twice does not cancel one that is lost. A record without a seal gets one for the sum alone.

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::{At, Bounds, Db, Family};
use waxseal_lsm::error::Result;
use waxseal_lsm::interrupt;
use waxseal_lsm::seam::{Check, Protection};

use crate::keeper::Sealer;
use crate::seal::Seal;

/// What a range of a snapshot adds up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Digest {
    /// Records that are seen.
    pub count: u64,
    /// The sum of their seals.
    pub sum: u64,
}

impl Digest {
    /// Adds a record's seal.
    pub fn add(&mut self, seal: Seal) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(seal.number());
    }

    /// The digest of two ranges that do not overlap.
    #[must_use]
    pub fn and(self, other: Digest) -> Digest {
        Digest { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// The digest of what a snapshot sees within bounds. Every record is checked against its seal before it counts. Errors:
/// `Corruption` where anything in the range is damaged or may have been lost.
pub fn digest(db: &Db, family: &Family, bounds: &Bounds, at: At<'_>) -> Result<Digest> {
    let mut digest = Digest::default();
    let mut cursor = db.cursor(family, at, bounds.clone())?;
    cursor.first()?;
    while cursor.valid() {
        interrupt::check()?;
        let record = cursor.record();
        let check = db.companions().verify(&record, hash_key(record.key), Protection::Partial);
        let seal = match (check, Sealer::seal_of(&record)) {
            (Check::Validated, Ok(Some(seal))) => seal,
            (check, _) if check.serves() => Seal::of_record(&record), // without one, or with one that was hit
            _ => return Err(super::verify::mismatch(&record).in_family(family.name(), None)),
        };
        digest.add(seal);
        cursor.next()?;
    }
    Ok(digest)
}
