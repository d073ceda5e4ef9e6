//! Compaction filters from the Rust face: what readers, snapshots, transactions and watches see of them.

use std::time::Duration;

use waxseal::{
    CfOptions, ColumnFamily, CompactionFilter, Db, FilterDecision, MergeOperator, VerifyOptions, WriteOptions,
};

/// Drops the value `old` and large ones that begin with it, and changes those that begin with `raw`.
fn filter() -> CompactionFilter {
    CompactionFilter::new("ages", |_, value| {
        Ok(match value {
            b"old" | [b'o', b'l', b'd', 7, ..] => FilterDecision::Drop,
            [b'r', b'a', b'w', rest @ ..] => FilterDecision::Change([b"done", rest].concat()),
            _ => FilterDecision::Keep,
        })
    })
}

fn family(db: &Db) -> ColumnFamily {
    let options = CfOptions {
        compaction_filter: Some(filter()),
        merge_operator: Some(MergeOperator::append("")),
        ..CfOptions::default()
    };
    db.create_column_family("filtered", options).unwrap()
}

#[test]
fn snapshots_and_transactions_keep_what_a_filter_drops() {
    let db = Db::memory().unwrap();
    let cf = family(&db);
    let large = [b"old", &[7; 10_000][..]].concat();
    cf.put("a", "old").unwrap();
    cf.put("b", "raw 1").unwrap();
    cf.put("c", &large).unwrap();
    let (snapshot, transaction) = (db.snapshot(), db.transaction());
    assert_eq!(transaction.get(&cf, "a").unwrap().unwrap(), "old");
    cf.compact().unwrap();
    for (key, value) in [("a", &b"old"[..]), ("b", b"raw 1"), ("c", &large)] {
        assert_eq!(snapshot.get(&cf, key).unwrap().unwrap(), value);
        assert_eq!(transaction.get(&cf, key).unwrap().unwrap(), value);
    }
    drop((snapshot, transaction));
    cf.compact().unwrap();
    assert_eq!((cf.get("a").unwrap(), cf.get("c").unwrap()), (None, None));
    assert_eq!(cf.get("b").unwrap().unwrap(), "done 1");
    assert_eq!(cf.iter().count(), 1);
    let sealed = cf.get_sealed("b").unwrap().unwrap();
    assert_eq!(sealed.seal, waxseal::Seal::of("b", "done 1"), "the seal of the changed value");
    let metrics = db.metrics();
    assert_eq!((metrics.filter_dropped, metrics.filter_changed, metrics.filter_failures), (2, 1, 0));
    assert!(metrics.to_string().contains("filters dropped 2, changed 1"), "{metrics}");
    let events = db.session("auditor").unwrap().query_all("engine:compaction", "Engine.Compact").unwrap();
    let shown = format!("{events:?}");
    assert!(shown.contains(r#"("filter_dropped", "2")"#) && shown.contains(r#"("filter_changed", "1")"#), "{shown}");
    let report = db.verify(VerifyOptions::default()).unwrap();
    assert_eq!((report.corrupted, report.missing), (0, 0));
}

#[test]
fn expiries_operands_and_watched_versions_meet_a_filter() {
    let db = Db::memory().unwrap();
    let cf = family(&db);
    cf.put_with("expires", "raw 2", WriteOptions::new().expires_in(Duration::from_secs(3600))).unwrap();
    cf.put("merged", "old").unwrap();
    cf.merge("merged", " but used").unwrap();
    cf.put("watched", "old 1").unwrap();
    let alice = db.session("alice").unwrap();
    alice.register("filtered", "Row.Update").unwrap();
    alice.column_family("filtered").unwrap().put("watched", "raw 3").unwrap();
    cf.compact().unwrap();
    assert_eq!(cf.get("expires").unwrap().unwrap(), "done 2");
    assert!(cf.get_meta("expires", waxseal::meta::EXPIRY).unwrap().is_some(), "the expiry stays");
    assert_eq!(cf.get("merged").unwrap().unwrap(), "old but used");
    assert_eq!(cf.get("watched").unwrap().unwrap(), "done 3");
    let events = alice.query_all("filtered.watched", "*").unwrap();
    assert_eq!(events.len(), 1, "a filter writes no event");
}

#[test]
fn a_store_opens_without_its_filter_and_keeps_everything() {
    let dir = tempfile::tempdir().unwrap();
    let options = CfOptions { compaction_filter: Some(filter()), ..CfOptions::default() };
    let db = Db::builder(dir.path()).column_family("default", options.clone()).open().unwrap();
    db.column_family("default").unwrap().put("k", "old").unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let cf = db.column_family("default").unwrap();
    cf.compact().unwrap();
    assert_eq!(cf.get("k").unwrap().unwrap(), "old");
    db.close().unwrap();
    let db = Db::builder(dir.path()).column_family("default", options).open().unwrap();
    let cf = db.column_family("default").unwrap();
    cf.compact().unwrap();
    assert_eq!(cf.get("k").unwrap(), None);
}

/// Options that an open without the function has returned hold the filter's name alone: they hide no function that a later
/// open has, and do not replace the stored name.
#[test]
fn options_with_a_name_alone_hide_no_filter() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path()).unwrap();
    let cf = family(&db);
    let other = CompactionFilter::new("others", |_, _| Ok(FilterDecision::Keep));
    let with_other = CfOptions { compaction_filter: Some(other), ..CfOptions::default() };
    db.create_column_family("other", with_other).unwrap();
    cf.put("k", "old").unwrap();
    drop(cf);
    db.close().unwrap();
    let db = Db::open(home.path()).unwrap();
    let of = |name: &str| CfOptions::clone(&db.column_family(name).unwrap().options());
    let (named, others) = (of("filtered"), of("other"));
    assert!(named.compaction_filter.as_ref().is_some_and(|filter| filter.name() == "ages" && !filter.is_known()));
    db.close().unwrap();
    for options in [named, CfOptions { merge_operator: Some(MergeOperator::append("")), ..others }] {
        let builder = Db::builder(home.path()).compaction_filter(filter());
        let db = builder.column_family("filtered", options).open().unwrap();
        let cf = db.column_family("filtered").unwrap();
        cf.put("l", "raw").unwrap();
        cf.compact().unwrap();
        assert_eq!((cf.get("k").unwrap(), cf.get("l").unwrap().unwrap()), (None, b"done"[..].into()));
        drop(cf);
        db.close().unwrap();
    }
}

#[test]
fn a_filter_changes_values_that_only_later_snapshots_see_if_they_hide_them() {
    let db = Db::memory().unwrap();
    let cf = family(&db);
    let hide = || cf.set_functions(Some(filter().hidden_from(db.snapshot().seqno().unwrap())), vec![]).unwrap();
    for (key, value) in [("a", "old"), ("b", "raw 1"), ("c", "raw 2")] {
        cf.put(key, value).unwrap();
    }
    hide();
    let later = db.snapshot();
    cf.put("c", "new").unwrap();
    cf.compact().unwrap();
    assert_eq!(later.get(&cf, "a").unwrap(), None);
    for (key, before, now) in [("b", "done 1", "done 1"), ("c", "done 2", "new")] {
        assert_eq!(later.get(&cf, key).unwrap().unwrap(), before);
        assert_eq!(cf.get(key).unwrap().unwrap(), now);
    }
    cf.put("d", "raw 3").unwrap();
    let earlier = db.snapshot();
    cf.put("e", "raw 4").unwrap();
    hide();
    cf.compact().unwrap();
    assert_eq!(earlier.get(&cf, "d").unwrap().unwrap(), "raw 3");
    assert_eq!(cf.get("e").unwrap().unwrap(), "done 4");
    drop(earlier);
    cf.compact().unwrap();
    assert_eq!(cf.get("d").unwrap().unwrap(), "done 3");
    let report = db.verify(VerifyOptions::default()).unwrap();
    assert_eq!((report.corrupted, report.missing), (0, 0));
}
