//! Merge operands: every read agrees with a model, through flushes, compactions, snapshots and crashes.

mod failures;
mod folding;
mod model;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{Db, Family};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::Kind;

/// Merges an operand into a key.
fn merge(db: &Db, family: &Family, key: &[u8], operand: &[u8], durability: Durability) -> Result<u64> {
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Merge, key, operand, db.companions())?;
    db.commit(&mut batch, durability)
}
