//! Planted bugs: the model, the crash sweep or the flips must find each bug, enabled at run time, within CI's time.
//!
//! Alone in its process: `cargo test -p waxseal-lsm --features planted --test simulation planted`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::At;
use waxseal_lsm::options::Durability;
use waxseal_lsm::planted::{Bug, plant};
use waxseal_lsm::record::Kind;

use crate::flips::{Outcomes, subject};
use crate::model::Run;
use crate::sweep::{SCENARIOS, sweep, torn_tails, trims};
use crate::world::{CONFIGS, World};
use crate::{care, epoch, expiring, forged, hurt, kept, memory, panics, values};

/// Flips bits of a held batch in the length of a value. The value then ends at the end of its seal, and seems to have
/// none.
fn a_swallowed_seal() {
    let mut world = World::new(3, CONFIGS[5]);
    world.open().expect("a new store");
    let (db, family) = (world.db(), world.db().family("default").expect("always there"));
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, b"k", b"123456", db.companions()).expect("a batch");
    batch.hold();
    // Kind, family, key length, value length; the seal has a kind and eight bytes.
    let length = &mut batch.bytes_mut()[3];
    assert_eq!(*length, 6);
    *length ^= 0b1001;
    assert!(db.commit(&mut batch, Durability::Os).is_err(), "a value with its seal in it is taken");
    assert!(!db.get(&family, b"k", At::Latest, &mut |_| {}).expect("a read"));
}

/// Runs until a check panics; returns true if one did.
fn is_found() -> bool {
    let found = |test: &dyn Fn()| catch_unwind(AssertUnwindSafe(test)).is_err();
    if memory::ALL
        .iter()
        .chain(&care::ALL)
        .chain(&forged::ALL)
        .chain(&epoch::ALL)
        .chain(&kept::ALL)
        .chain(&values::ALL)
        .chain(&panics::ALL)
        .chain(&memory::QUEUES)
        .any(|check| found(check))
    {
        return true;
    }
    if found(&torn_tails) || found(&trims) || found(&a_swallowed_seal) {
        return true;
    }
    for (name, scenario) in SCENARIOS {
        for config in [CONFIGS[0], CONFIGS[5]] {
            if found(&|| {
                sweep(name, scenario, config, 24);
            }) {
                return true;
            }
        }
    }
    if found(&|| {
        hurt::stopped_repairs(CONFIGS[5], 6);
    }) {
        return true;
    }
    for closed in [true, false] {
        if found(&|| {
            let mut subject = subject(CONFIGS[0], closed);
            let bits = subject.bits();
            let outcomes = Outcomes::default();
            for n in 0..600 {
                subject.flip(n * (bits / 600), &outcomes);
            }
        }) {
            return true;
        }
    }
    for seed in 0..40 {
        if found(&|| Run::new(seed, CONFIGS[seed as usize % CONFIGS.len()]).operations(2_000)) {
            return true;
        }
    }
    false
}

#[test]
fn planted_bugs_are_found() {
    let only = std::env::var("WAXSEAL_BUG").ok();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let clean = only.is_some() || !is_found();
    let mut missed = Vec::new();
    let mut found = Vec::new();
    for bug in Bug::ALL {
        if only.as_ref().is_some_and(|only| *only != format!("{bug:?}")) {
            continue;
        }
        plant(Some(bug));
        if is_found() {
            found.push(bug)
        } else {
            missed.push(bug)
        }
        plant(None);
    }
    let clean = clean && (only.is_some() || !expiring::is_found());
    for bug in Bug::OF_EXPIRY.into_iter().filter(|bug| only.as_ref().is_none_or(|only| *only == format!("{bug:?}"))) {
        plant(Some(bug));
        if expiring::is_found() {
            found.push(bug)
        } else {
            missed.push(bug)
        }
        plant(None);
    }
    std::panic::set_hook(hook);
    println!("found: {found:?}");
    assert!(clean, "the suite fails without a planted bug");
    assert!(missed.is_empty(), "not found: {missed:?}");
    assert!(only.is_some() || found.len() >= Bug::ALL.len() + Bug::OF_EXPIRY.len());
}
