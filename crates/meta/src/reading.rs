//! Reads providers' entries without reading the values.
//!
//! In:     a record, or a store and a key or bounds; a provider.
//! Out:    a copy of the provider's entry, and how far it was checked.
//! Holds:  the value is not copied, hashed or read from its blob file. A seal covers its entries only together with the
//!         value, so it is checked only on request. An entry outside the seal is checked by its own CRC.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, CursorBounds, Db, Family};
use waxseal_lsm::error::{Damage, Error, Result, Verdict};
use waxseal_lsm::options::Verify;
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::record::Record;

use crate::annotations::{Annotation, Annotations};
use crate::builtin::Provenance;
use crate::protector::Sealer;
use crate::provider::PROVENANCE;
use crate::stamp::Stamp;
use crate::verdict;

/// How far an entry was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    /// Not checked: the seal covers the entry, and the seal was not checked.
    Not,
    /// Checked by its own CRC.
    Itself,
    /// Checked by its record's seal, and by the entry's own CRC if present.
    Sealed,
}

/// An entry that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Format version of its bytes.
    pub version: u8,
    /// The provider's data.
    pub bytes: Vec<u8>,
    /// How far the entry was checked.
    pub checked: Checked,
}

/// Returns a provider's entry of a record, without reading the value. For a watched record without a provenance entry,
/// provenance comes from its stamp. Errors: `Corruption` if the companions cannot be decoded or an entry fails its CRC.
pub fn meta_of(record: &Record<'_>, provider: u16) -> Result<Option<Meta>> {
    let annotations = Annotations::read(record.companion)?;
    let is_whole = |entry: &Annotation<'_>| entry.is_whole(hash(record.key));
    let Some(entry) = annotations.entry(provider)? else {
        // Report "no such entry" only if all companions are intact: a damaged one might have been this entry.
        return match annotations.is_whole(record.companion, hash(record.key)) {
            true if provider == PROVENANCE => stamped(record, &annotations),
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

/// Returns the session and time from a record's stamp, encoded as a provenance entry.
fn stamped(record: &Record<'_>, annotations: &Annotations<'_>) -> Result<Option<Meta>> {
    let Some(content) = annotations.stamp else { return Ok(None) };
    let stamp = Stamp::read(content, hash(record.key))
        .ok_or_else(|| damaged(record, Verdict::Checksum, "the stamp beside a record does not fit its check"))?;
    let bytes = Provenance::of(stamp.session, stamp.micros());
    Ok(Some(Meta { version: 0, bytes, checked: Checked::Itself }))
}

/// Returns a provider's entry after checking the record against its seal, which reads the value. Errors: those of
/// `meta_of`, and `Corruption` if the record does not match its seal.
pub fn verified_meta_of(sealer: &Sealer, record: &Record<'_>, provider: u16) -> Result<Option<Meta>> {
    match sealer.judge(record, hash(record.key), false) {
        verdict::SealVerdict::Validated | verdict::SealVerdict::SealDamaged => {
            Ok(meta_of(record, provider)?.map(|meta| Meta { checked: Checked::Sealed, ..meta }))
        }
        verdict::SealVerdict::Unverified => meta_of(record, provider),
        _ => Err(damaged(record, Verdict::Seal, "a record does not match its seal")),
    }
}

/// Returns a provider's entry for the value of a key, or `None` if the key has no value or the value has no entry.
///
/// Errors: those of `Db::get` and of `meta_of`.
pub fn get_meta(db: &Db, family: &Family, key: &[u8], at: At<'_>, provider: u16) -> Result<Option<Meta>> {
    let mut meta = Ok(None);
    db.get_record(family, key, at, Verify::Never, &mut |record| meta = meta_of(record, provider))?;
    meta
}

/// Iterates over a provider's entries within bounds, in key order. Values without an entry are skipped.
pub fn iter_meta(
    db: &Db,
    family: &Family,
    at: At<'_>,
    bounds: CursorBounds,
    provider: u16,
) -> Result<AnnotationCursor> {
    let cursor = db.cursor_checked(family, at, bounds, Verify::Never)?.without_values();
    Ok(AnnotationCursor { cursor, provider, place: RangeState::Before })
}

/// Iterator over keys and the entries of one provider. After an error it continues behind the damage if the cursor can.
pub struct AnnotationCursor {
    cursor: UserCursor,
    provider: u16,
    place: RangeState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeState {
    Before,
    Within,
    Behind,
}

impl Iterator for AnnotationCursor {
    type Item = Result<(Vec<u8>, Meta)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let moved = match self.place {
                RangeState::Before => self.cursor.first(),
                RangeState::Within => self.cursor.next(),
                RangeState::Behind => return None,
            };
            self.place = RangeState::Within;
            // A merged value has the entries of its inputs.
            if let Err(error) = moved.and_then(|()| self.cursor.merge_operands()) {
                return Some(Err(error));
            }
            if !self.cursor.valid() {
                self.place = RangeState::Behind;
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
