//! Salvage: what can still be read of a store that may not even open, written into a new one.

use std::path::Path;

use waxseal_lsm::db::Parts;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::Settings;

use super::options::SalvageOptions;
use super::report::Report;

/// Reads what can be read of the store at `from` and writes it into a new one at `to`. The source is never written to.
pub fn salvage(
    _from: &Path,
    _to: &Path,
    _settings: Settings,
    _parts: Parts,
    _options: SalvageOptions<'_>,
) -> Result<Report> {
    Err(Error::invalid("not in this version"))
}
