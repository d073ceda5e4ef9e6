//! The default policy of exports, and the counts of the metadata that stays in the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_meta::Sealer;
use waxseal_meta::builtin::{Etl, Labels, standard};
use waxseal_meta::exchange::{ExportRequest, Exported, LeftBehind, Policy, Versions, export, import};
use waxseal_meta::provider::{ETL, EXPIRY, LABELS};
use waxseal_meta::reading::get_meta;
use waxseal_testing::harness::Store;

use crate::nodes::{open_node, put_given, put_until};

fn sealing(sim: &SimFs, dir: &str) -> Store {
    open_node(sim, dir, Arc::new(Sealer::new().with(standard())))
}

fn exported(sim: &SimFs, node: &Store, out: &str, request: &ExportRequest<'_>) -> Exported {
    export(&node.db, &node.family, &sim.env(4), Path::new(out), request).unwrap()
}

/// Ten plain records, one with a label, one with statistics.
fn giver(sim: &SimFs) -> Store {
    let node = sealing(sim, "/giver");
    (0..10u8).for_each(|n| node.put(&[b'0' + n], b"value"));
    put_given(&node, b"labelled", b"value", (LABELS, &Labels::of(&[("class", "secret")]).unwrap()));
    put_given(&node, b"counted", b"value", (ETL, &Etl::of(7, -7)));
    node
}

#[test]
fn seals_and_labels_are_exported_by_default() {
    let sim = SimFs::new(3);
    let node = giver(&sim);
    let done = exported(&sim, &node, "/out", &ExportRequest::default());
    assert_eq!((done.records, done.unsealed, done.manifest.complete), (12, 0, true));
    let statistics = done.left_behind.bytes;
    assert!(statistics > 0);
    let entries = BTreeMap::from([(ETL, 1)]);
    assert_eq!(done.left_behind, LeftBehind { entries, bytes: statistics, ..LeftBehind::default() });
    let taker = sealing(&sim, "/taker");
    let imported = import(&taker.db, &taker.family, &sim.env(5), Path::new("/out")).unwrap();
    assert_eq!((imported.records, imported.sealed, imported.unsealed), (12, 12, 0));
    let label = get_meta(&taker.db, &taker.family, b"labelled", At::Latest, LABELS).unwrap().unwrap();
    assert_eq!(label.bytes, Labels::of(&[("class", "secret")]).unwrap());
    assert_eq!(get_meta(&taker.db, &taker.family, b"counted", At::Latest, ETL).unwrap(), None);
}

#[test]
fn every_policy_counts_what_it_leaves_behind() {
    let sim = SimFs::new(3);
    let node = giver(&sim);
    let seals_only = Policy::Companion { allow: vec![] };
    for (at, policy) in [Policy::Strip, Policy::PaperSafe, Policy::PaperLiteral, seals_only].into_iter().enumerate() {
        let left_seals = if matches!(policy, Policy::Companion { .. }) { 0 } else { 12 };
        let request = ExportRequest { policy: policy.clone(), ..ExportRequest::default() };
        let left = exported(&sim, &node, &format!("/out{at}"), &request).left_behind;
        assert_eq!((left.seals, left.stamps, left.entry_count()), (left_seals, 0, 2), "{policy:?}");
        assert_eq!(left.entries, BTreeMap::from([(ETL, 1), (LABELS, 1)]), "{policy:?}");
    }
}

#[test]
fn expired_values_are_counted_and_stay() {
    let sim = SimFs::new(3);
    let node = giver(&sim);
    put_until(&node, b"short", b"gone soon", sim.env(1).clock.wall_micros() + 1_000_000);
    let left = exported(&sim, &node, "/before", &ExportRequest::default()).left_behind;
    assert_eq!((left.expired, left.entries.get(&EXPIRY)), (0, None), "the seal covers it, so that it is exported");
    sim.clock().advance_nanos(2_000_000_000);
    for (versions, records) in [(Versions::Newest, 12), (Versions::All, 13)] {
        let done =
            exported(&sim, &node, &format!("/{versions:?}"), &ExportRequest { versions, ..ExportRequest::default() });
        assert_eq!((done.records, done.left_behind.expired), (records, 1), "{versions:?}");
    }
}
