//! Sealed stores on a simulated disk.

use std::sync::Arc;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Settings;
use waxseal_lsm::seam::{Check, Companions, Protection};
use waxseal_meta::{Seal, Sealer};
use waxseal_testing::harness::{DIR, Store, options, parts, settings};

/// Opens a store with this sealer.
pub(crate) fn sealed_store(sim: &SimFs, sealer: &Arc<Sealer>) -> Store {
    Store::open(sim, sealer.clone(), options())
}

/// Opens a store whose log is not mapped.
pub(crate) fn unmapped(sim: &SimFs, protector: Arc<dyn Companions>) -> Result<Store> {
    Store::try_open(sim, DIR, Settings { wal_mapped: false, ..settings() }, parts(protector, options()))
}

/// Checks that every record of a scan has its own seal, and that it is right.
pub(crate) fn holds(store: &Store) {
    for owned in store.scan() {
        let record = owned.record();
        let check = store.protector().verify(&record, hash(record.key), Protection::Complete);
        assert_eq!(check, Check::Validated, "{owned:?}");
        if record.companion.len() == 9 {
            assert_eq!(Sealer::seal_of(&record).unwrap(), Some(Seal::of(record.key, record.value)));
        }
    }
}
