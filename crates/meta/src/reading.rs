//! Reading what is kept beside values, without the values.
//!
//! In:     a record, or a store and a key or bounds; a provider.
//! Out:    the provider's entry, copied, and how far it was checked.
//! Holds:  a value is neither copied nor hashed for it, nor read where it stands in a value file. So the seal, which speaks for the entries it covers only together with the
//!         value, is not checked unless that is asked for; an entry outside of it is, by its own CRC.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Bounds, Db, Family};
use waxseal_lsm::error::{Damage, Error, Result, Verdict};
use waxseal_lsm::options::Verify;
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::record::Record;

use crate::beside::{Beside, Entry};
use crate::builtin::Provenance;
use crate::keeper::Sealer;
use crate::provider::PROVENANCE;
use crate::stamp::Stamp;
use crate::verdict;

/// How far an entry was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    /// Not at all: the seal covers it, and was not checked.
    Not,
    /// By its own CRC.
    Itself,
    /// By the seal of its record, and its own CRC if it has one.
    Sealed,
}

/// One entry, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The form of its bytes.
    pub version: u8,
    /// What the provider keeps.
    pub bytes: Vec<u8>,
    /// How far it was checked.
    pub checked: Checked,
}

/// The entry of a provider beside a record; the value is not looked at. Of a record that is watched and has no entry of provenance,
/// what its stamp says. Errors: `Corruption` if what stands beside the record cannot be decoded, or does not fit its own sum.
pub fn meta_of(record: &Record<'_>, provider: u16) -> Result<Option<Meta>> {
    let beside = Beside::read(record.companion)?;
    let is_whole = |entry: &Entry<'_>| entry.is_whole(hash(record.key));
    let Some(entry) = beside.entry(provider)? else {
        // There is none only if nothing that is there was this one before it was hit.
        return match beside.is_whole(record.companion, hash(record.key)) {
            true if provider == PROVENANCE => stamped(record, &beside),
            true => Ok(None),
            false => Err(damaged(record, Verdict::Checksum, "an entry beside a record does not fit its sum")),
        };
    };
    if !is_whole(&entry) {
        return Err(damaged(record, Verdict::Checksum, "an entry beside a record does not fit its sum"));
    }
    let checked = if entry.sealed { Checked::Not } else { Checked::Itself };
    Ok(Some(Meta { version: entry.version, bytes: entry.bytes.to_vec(), checked }))
}

/// Who wrote a record and when, by its stamp, in the form of an entry.
fn stamped(record: &Record<'_>, beside: &Beside<'_>) -> Result<Option<Meta>> {
    let Some(content) = beside.stamp else { return Ok(None) };
    let stamp = Stamp::read(content, hash(record.key))
        .ok_or_else(|| damaged(record, Verdict::Checksum, "the stamp beside a record does not fit its check"))?;
    let bytes = Provenance::of(stamp.session, stamp.micros());
    Ok(Some(Meta { version: 0, bytes, checked: Checked::Itself }))
}

/// The same, after the record's seal has spoken for it: this reads the value. Errors: `Corruption` also if it does not.
pub fn verified_meta_of(sealer: &Sealer, record: &Record<'_>, provider: u16) -> Result<Option<Meta>> {
    match sealer.judge(record, hash(record.key), false) {
        verdict::Verdict::Validated | verdict::Verdict::SealDamaged => {
            Ok(meta_of(record, provider)?.map(|meta| Meta { checked: Checked::Sealed, ..meta }))
        }
        verdict::Verdict::Unverified => meta_of(record, provider),
        _ => Err(damaged(record, Verdict::Seal, "a record does not match its seal")),
    }
}

/// The entry of a provider beside the value of a key; none if there is no value, or no entry.
///
/// Errors: those of `Db::get` and of `meta_of`.
pub fn get_meta(db: &Db, family: &Family, key: &[u8], at: At<'_>, provider: u16) -> Result<Option<Meta>> {
    let mut meta = Ok(None);
    db.get_record(family, key, at, Verify::Never, &mut |record| meta = meta_of(record, provider))?;
    meta
}

/// The entries of a provider beside the values within bounds, in the order of their keys; values without one are passed over.
pub fn iter_meta(db: &Db, family: &Family, at: At<'_>, bounds: Bounds, provider: u16) -> Result<MetaIter> {
    let cursor = db.cursor_checked(family, at, bounds, Verify::Never)?.without_values();
    Ok(MetaIter { cursor, provider, place: Place::Before })
}

/// Keys with their entries of one provider. After an error it goes on behind what is damaged, where the cursor below can.
pub struct MetaIter {
    cursor: UserCursor,
    provider: u16,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Within,
    Behind,
}

impl Iterator for MetaIter {
    type Item = Result<(Vec<u8>, Meta)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let moved = match self.place {
                Place::Before => self.cursor.first(),
                Place::Within => self.cursor.next(),
                Place::Behind => return None,
            };
            self.place = Place::Within;
            if let Err(error) = moved {
                return Some(Err(error));
            }
            if !self.cursor.valid() {
                self.place = Place::Behind;
                return None;
            }
            let record = self.cursor.record();
            match meta_of(&record, self.provider) {
                Ok(None) => {}
                Ok(Some(meta)) => return Some(Ok((record.key.to_vec(), meta))),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cold]
fn damaged(record: &Record<'_>, verdict: Verdict, what: &str) -> Error {
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    Error::corruption(Damage { verdict, key_range, ..Damage::default() }, what)
}
