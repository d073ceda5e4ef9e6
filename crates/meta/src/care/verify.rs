//! Verify: every byte of a store looked at, and nothing changed.

use std::path::Path;

use waxseal_lsm::db::{Db, Parts};
use waxseal_lsm::error::{Damage, Error, Result, Verdict};
use waxseal_lsm::options::Settings;
use waxseal_lsm::record::Record;

use super::options::VerifyOptions;
use super::report::Report;

/// Looks at every table, block and record of an open store, at its memtables and at what its log and manifest say, beside readers
/// and writers. Damage is reported, not an error.
pub fn verify(_db: &Db, _options: VerifyOptions<'_>) -> Result<Report> {
    Err(Error::invalid("not in this version"))
}

/// The same for a store that nobody has open; one that does not open is reported as damaged. Writes nothing.
pub fn verify_closed(_dir: &Path, _settings: Settings, _parts: Parts, _options: VerifyOptions<'_>) -> Result<Report> {
    Err(Error::invalid("not in this version"))
}

/// A record that does not match its seal.
pub(super) fn mismatch(record: &Record<'_>) -> Error {
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    let damage = Damage { key_range, verdict: Verdict::Seal, ..Damage::default() };
    Error::corruption(damage, "a record does not match its seal")
}
