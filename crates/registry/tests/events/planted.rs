//! Planted bugs: each wrong turn of registry and log, taken at run time, must be found.
//!
//! Alone in its process: `cargo test -p waxseal-registry --features planted --test events`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use waxseal_lsm::planted::{Bug, plant};

use crate::store::{DEFERRED, SYNC};
use crate::{crash, model, quarantine, retention, threads, times, ways};

fn is_found() -> bool {
    let found = |test: &dyn Fn()| catch_unwind(AssertUnwindSafe(test)).is_err();
    found(&ways::all)
        || found(&quarantine::all)
        || found(&times::all)
        || found(&retention::all)
        || found(&threads::dropped_meanwhile)
        || found(&threads::overtaken)
        || (0..30).any(|seed| found(&|| model::run(seed)))
        || [SYNC, DEFERRED].iter().any(|config| found(&|| crash::sweep(*config, 5)))
        || found(&crash::lossy)
        || (0..10).any(|_| found(&threads::exact))
        || (0..10).any(|_| found(&|| threads::chained(4, 500)))
        || found(&|| threads::one_instant(4, 100))
}

#[test]
fn planted_bugs_are_found() {
    let only = std::env::var("WAXSEAL_BUG").ok();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let clean = only.is_some() || !is_found();
    let mut missed = Vec::new();
    for bug in Bug::OF_REGISTRY {
        if only.as_ref().is_some_and(|only| *only != format!("{bug:?}")) {
            continue;
        }
        plant(Some(bug));
        if !is_found() {
            missed.push(bug);
        }
        plant(None);
    }
    std::panic::set_hook(hook);
    assert!(clean, "the suite fails without a planted bug");
    assert!(missed.is_empty(), "not found: {missed:?}");
}
