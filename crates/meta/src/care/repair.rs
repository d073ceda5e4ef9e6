//! Repair: what is damaged goes up the ladder, and what nothing helps becomes a fence.

use waxseal_lsm::db::Db;
use waxseal_lsm::error::{Error, Result};

use super::options::RepairOptions;
use super::report::Report;

/// Mends every damaged table of a store.
pub fn repair(_db: &Db, _options: RepairOptions<'_>) -> Result<Report> {
    Err(Error::invalid("not in this version"))
}
