//! The companions of a sealed world: the annotations and the seal of each value. Both are derived from key and value
//! alone, so the oracle need not store them.

use std::sync::{Arc, LazyLock};

use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Companions, PendingWrite};
use waxseal_meta::builtin::{Expiry, Labels, standard};
use waxseal_meta::provider::{EXPIRY, LABELS};
use waxseal_meta::{Seal, Sealer};

use crate::world::Seals;

static WITH_ENTRIES: LazyLock<Sealer> = LazyLock::new(|| Sealer::new().with(standard()));

/// Creates the record protector of such a world.
pub fn sealer(seals: Seals) -> Arc<Sealer> {
    Arc::new(match seals {
        Seals::Entries => Sealer::new().with(standard()),
        _ => Sealer::new(),
    })
}

/// Returns labels, a time in the past, a time that never comes, or no annotations.
pub fn entries(value: &[u8]) -> Vec<(u16, Vec<u8>)> {
    match value.len() % 5 {
        1 => vec![(EXPIRY, Expiry::at(if is_over(value) { 0 } else { u64::MAX }).to_vec())],
        2 => vec![(LABELS, Labels::of(&[("colour", "green"), ("sort", "b")]).expect("labels"))],
        _ => Vec::new(),
    }
}

/// Returns true if the value is expired from the moment it is written.
pub fn is_over(value: &[u8]) -> bool {
    value.len() % 15 == 1
}

/// Returns the seal of a value written with these annotations.
pub fn seal(key: &[u8], value: &[u8], entries: &[(u16, Vec<u8>)]) -> Seal {
    if entries.is_empty() {
        return Seal::of(key, value);
    }
    let entries: Vec<(u16, &[u8])> = entries.iter().map(|(id, entry)| (*id, &entry[..])).collect();
    let protector = &*WITH_ENTRIES;
    let mut companion = Vec::new();
    let pending = PendingWrite { family: 0, kind: Kind::Put, key, value, key_hash: None, entries: &entries };
    protector.on_write(&pending, &mut companion).expect("entries of providers that are there");
    protector.bind(&mut companion, None, 1);
    let record = Record { key, seqno: 1, kind: Kind::Put, value, companion: &companion };
    Sealer::seal_of(&record).expect("companions").expect("a seal")
}
