//! The digest of a snapshot: a count and a sum that are equal for equal content, independent of its physical layout.
//!
//! The sum adds the seals without their seqnos, modulo 2^64. So it depends neither on the order of tables nor on a
//! replica's seqnos, and a duplicated record does not cancel a lost one. For a record without a seal, one is computed
//! for the sum.

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::{At, CursorBounds, Db, Family};
use waxseal_lsm::error::Result;
use waxseal_lsm::interrupt;
use waxseal_lsm::seam::{Check, Protection};

use crate::protector::Sealer;
use crate::seal::Seal;

/// The count and sum of a range of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Digest {
    /// Number of visible records.
    pub count: u64,
    /// Sum of their seals.
    pub sum: u64,
}

impl Digest {
    /// Adds a record's seal.
    pub fn add(&mut self, seal: Seal) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(seal.number());
    }

    /// Returns the digest of two disjoint ranges.
    #[must_use]
    pub fn and(self, other: Digest) -> Digest {
        Digest { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// Computes the digest of the records that a snapshot sees within bounds. Every record is checked against its seal.
/// Errors: `Corruption` if anything in the range is damaged or may have been lost.
pub fn digest(db: &Db, family: &Family, bounds: &CursorBounds, at: At<'_>) -> Result<Digest> {
    let mut digest = Digest::default();
    let mut cursor = db.cursor(family, at, bounds.clone())?;
    cursor.first()?;
    while cursor.valid() {
        interrupt::check()?;
        let record = cursor.record();
        let check = db.companions().verify(&record, hash_key(record.key), Protection::Partial);
        let seal = match (check, Sealer::seal_of(&record)) {
            (Check::Validated, Ok(Some(seal))) => seal,
            (check, _) if check.serves() => Seal::of_record(&record), // without a seal, or with a damaged one
            _ => return Err(super::verify::mismatch(&record).in_family(family.name(), None)),
        };
        digest.add(seal);
        cursor.next()?;
    }
    Ok(digest)
}
