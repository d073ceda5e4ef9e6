//! Folding of merge operands under seals: what flushes and compactions must not do to them. Each check uses a short-lived
//! store.

use std::sync::Arc;

use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Error;
use waxseal_lsm::inject::{self, Fate, Strike};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Verify};
use waxseal_lsm::record::{Kind, OwnedRecord};
use waxseal_meta::Sealer;
use waxseal_meta::builtin::{Expiry, standard};
use waxseal_meta::provider::EXPIRY;
use waxseal_testing::above::Over;
use waxseal_testing::harness::{Store, options};
use waxseal_testing::scribe::{Retaining, retains};

/// The checks that must find the planted bugs.
pub const ALL: [fn(); 4] = [flipped_operands, snapshots, retained_versions, expiring_bases];

#[test]
fn operands_fold_as_they_should() {
    ALL.iter().for_each(|check| check());
}

fn store() -> Store {
    let options = CfOptions { merge_operator: Some(MergeOperator::append("")), ..options() };
    Store::open(&SimFs::new(5), Arc::new(Over(Retaining(Arc::new(Sealer::new().with(standard()))))), options)
}

/// A key none of whose tombstones and operands is retained, and a value that is retained or not.
fn word(kind: Kind, retained: bool) -> Vec<u8> {
    let mut words = (0u32..).map(|n| format!("{n:08}").into_bytes());
    words.find(|word| retains(kind, word, word) == retained).expect("a word")
}

/// Flips one bit of the n-th record of a pass, after its source was read.
struct Nth(usize);

impl Strike for Nth {
    fn record(&mut self, record: &mut OwnedRecord) -> Fate {
        if self.0 == 0 {
            record.value[0] ^= 1;
        }
        self.0 = self.0.wrapping_sub(1);
        Fate::Pass
    }
}

/// A bit of any operand, or of the base, flips between its source and the operator. No value is made of it.
fn flipped_operands() {
    for is_compaction in [false, true] {
        for nth in 0..5 {
            let (store, key) = (store(), word(Kind::Merge, false));
            store.apply(Kind::Put, &key, b"v");
            for operand in [b"a", b"b", b"c", b"d"] {
                store.apply(Kind::Merge, &key, operand);
                if is_compaction {
                    store.db.flush().expect("flush");
                }
            }
            inject::arm(Box::new(Nth(nth)));
            let _ = if is_compaction {
                store.db.compact(&store.family, &waxseal_testing::store::ALL)
            } else {
                store.db.flush()
            };
            inject::disarm();
            match store.get(&key) {
                Ok(found) => {
                    assert_eq!(found.as_ref().map(|found| &found.value[..]), Some(&b"vabcd"[..]), "record {nth}")
                }
                Err(error) => assert!(Error::is_corruption(&error), "{error}"),
            }
        }
    }
}

fn snapshots() {
    let (store, key) = (store(), word(Kind::Merge, false));
    store.apply(Kind::Put, &key, b"v");
    store.apply(Kind::Merge, &key, b"a");
    let snapshot = store.db.snapshot().expect("a snapshot");
    store.apply(Kind::Merge, &key, b"b");
    for _ in 0..2 {
        store.db.flush().expect("flush");
        store.compact();
        assert_eq!(store.value(At::Snapshot(&snapshot), &key).as_deref(), Some(&b"va"[..]));
        assert_eq!(store.value(At::Latest, &key).as_deref(), Some(&b"vab"[..]));
    }
}

/// A retained value, whose previous version is made of operands and their base, is hidden by a newer value.
fn retained_versions() {
    let (store, key, retained) = (store(), word(Kind::Merge, false), word(Kind::Put, true));
    store.apply(Kind::Put, &key, b"v");
    store.apply(Kind::Merge, &key, b"a");
    store.apply(Kind::Merge, &key, b"b");
    let seqno = store.try_apply(Kind::Put, &key, &retained, &[]).expect("a put");
    store.apply(Kind::Put, &key, b"w");
    for _ in 0..2 {
        let mut before = None;
        let mut visit = |record: &waxseal_lsm::record::Record<'_>| before = Some(record.value.to_vec());
        assert!(store.db.get_before(&store.family, &key, seqno, Verify::Always, &mut visit).expect("a read"));
        assert_eq!(before.as_deref(), Some(&b"vab"[..]));
        store.db.flush().expect("flush");
        store.compact();
    }
}

/// A base with an expiry keeps its operands, which begin with nothing once it has expired.
fn expiring_bases() {
    let (store, key) = (store(), word(Kind::Merge, false));
    let expiry = Expiry::at(store.db.expiry_micros() + 1_000_000);
    store.try_apply(Kind::Put, &key, b"v", &[(EXPIRY, &expiry)]).expect("a put");
    store.apply(Kind::Merge, &key, b"a");
    store.apply(Kind::Merge, &key, b"b");
    for value in [b"vab", b"vab", &b"ab"[..]] {
        store.db.flush().expect("flush");
        store.compact();
        assert_eq!(store.value(At::Latest, &key).as_deref(), Some(value));
        store.sim.clock().advance_nanos(600_000_000);
    }
    store.compact();
    assert_eq!(store.value(At::Latest, &key).as_deref(), Some(&b"ab"[..]));
}
