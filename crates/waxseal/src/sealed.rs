//! Values together with their seals.

use std::fmt;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::error::{Damage, Error, Result, Verdict};
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::{Check, Companions, Protection};
use waxseal_meta::rebuild_companions::rebuilt_companions;
use waxseal_meta::{Seal, Sealer};

use crate::slice::Slice;

/// A value with the seal computed when it was first written, and its sequence number.
///
/// The seal covers the key and the value, but not their location: replicas share the same seal, and compactions
/// preserve it. A receiver of key, value and seal can check them with [`Seal::of`].
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// use waxseal::{Db, Seal};
///
/// let cf = Db::memory()?.column_family("default")?;
/// cf.put("key", "value")?;
/// let sealed = cf.get_sealed("key")?.unwrap();
/// assert_eq!(sealed.value, "value");
/// assert_eq!(sealed.seal, Seal::of(b"key", b"value"));
///
/// let other = Db::memory()?.column_family("default")?; // another store, perhaps on another machine
/// other.put_sealed("key", &sealed.value, sealed.seal)?;
/// assert!(other.put_sealed("key", "damaged on the way", sealed.seal).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// A copy of the value.
    pub value: Slice,
    /// The seal; the value was checked against it.
    pub seal: Seal,
    /// The sequence number of its commit; 0 once compaction has dropped it because no snapshot needs it.
    pub seqno: Seqno,
}

impl Sealed {
    /// Returns the record's value and seal if the two match. Errors: `Corruption` if they do not, `Invalid` if the
    /// record has no seal.
    pub(crate) fn of(record: &Record<'_>, protector: &Sealer) -> Result<Sealed> {
        let seal = match protector.verify(record, hash_key(record.key), Protection::Partial) {
            Check::Validated => Sealer::seal_of(record)?,
            Check::CompanionDamaged => whole(record, protector)?,
            Check::Unverified => None,
            Check::Missing | Check::Corrupted => {
                let damage = Damage { verdict: Verdict::Seal, ..Damage::default() };
                return Err(Error::corruption(damage, "a record does not match its seal"));
            }
        };
        let seal = seal.ok_or_else(|| Error::invalid("the record has no seal: it was written by a plain store"))?;
        Ok(Sealed { value: Slice::copied(record.value)?, seal, seqno: record.seqno })
    }
}

/// Returns the seal of a record whose metadata is damaged, after correcting it if possible.
#[cold]
fn whole(record: &Record<'_>, protector: &Sealer) -> Result<Option<Seal>> {
    match rebuilt_companions(protector, record) {
        Some(mended) => Sealer::seal_of(&Record { companion: &mended.companions, ..*record }),
        None => Sealer::seal_of(record),
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}, {:?}", self.value, self.seqno, self.seal)
    }
}
