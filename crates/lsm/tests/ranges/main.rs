//! Range deletes and ingested tables: every read agrees with a model, through flushes, compactions, snapshots and
//! crashes, and the space comes back.

mod hostile;
mod ingest;
mod model;
mod space;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{Db, Family};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;
use waxseal_lsm::range_delete::RangeBounds;

/// Deletes a range.
fn delete_range(db: &Db, family: &Family, bounds: RangeBounds<'_>, durability: Durability) -> Result<u64> {
    let mut batch = Batch::new();
    batch.delete_range(family.id(), bounds, db.companions())?;
    db.commit(&mut batch, durability)
}
