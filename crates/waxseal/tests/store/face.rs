//! What the face adds to the engine: both ends of an iterator, deferred errors, closing, foreign handles.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;
use waxseal::meta::LABELS;
use waxseal::{
    CfOptions, Comparator, Compression, Cursor, Db, Durability, ErrorKind, Order, Result, Slice, WriteOptions,
};

/// Lengths first, then bytes from the end: nothing like bytewise.
struct Odd;

impl Comparator for Odd {
    fn name(&self) -> &str {
        "test.odd"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| b.iter().rev().cmp(a.iter().rev()))
    }
}

fn odd() -> CfOptions {
    CfOptions { order: Order::custom(Arc::new(Odd)), ..CfOptions::default() }
}

fn small_key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(proptest::sample::select(vec![0u8, 1, 0xff]), 0..4)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), small_key().prop_map(Bound::Included), small_key().prop_map(Bound::Excluded)]
}

fn admits(order: &Order, bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>), key: &[u8]) -> bool {
    let low = match &bounds.0 {
        Bound::Unbounded => true,
        Bound::Included(low) => order.compare(key, low).is_ge(),
        Bound::Excluded(low) => order.compare(key, low).is_gt(),
    };
    let high = match &bounds.1 {
        Bound::Unbounded => true,
        Bound::Included(high) => order.compare(key, high).is_le(),
        Bound::Excluded(high) => order.compare(key, high).is_lt(),
    };
    low && high
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Taken from both ends in any interleaving, a range gives each record once, in its place.
    #[test]
    fn both_ends_meet(
        records: BTreeMap<Vec<u8>, u8>,
        extra in proptest::collection::btree_set(small_key(), 0..20),
        bounds in (bound(), bound()),
        prefix in small_key(),
        turns in proptest::collection::vec(any::<bool>(), 40),
        is_odd: bool,
        by_prefix: bool,
    ) {
        let db = Db::memory().unwrap();
        let cf = db.create_column_family("c", if is_odd { odd() } else { CfOptions::default() }).unwrap();
        let order = cf.options().order.clone();
        let mut expected: Vec<Vec<u8>> = records.into_keys().chain(extra).collect();
        for key in &expected {
            cf.put(key, key).unwrap();
        }
        expected.sort_by(|a, b| order.compare(a, b));
        expected.dedup();
        expected.retain(|key| if by_prefix { key.starts_with(&prefix) } else { admits(&order, &bounds, key) });

        let mut range = if by_prefix { cf.prefix(&prefix) } else { cf.range(bounds) };
        let mut expected = expected.into_iter();
        for turn in turns.into_iter().chain([true; 60]) {
            let (found, wanted) =
                if turn { (range.next(), expected.next()) } else { (range.next_back(), expected.next_back()) };
            let found = found.map(Result::unwrap);
            prop_assert_eq!(found.as_ref().map(|(key, _)| key.to_vec()), wanted.clone());
            prop_assert_eq!(found.map(|(_, value)| value.to_vec()), wanted);
        }
    }
}

#[test]
fn an_iterator_keeps_the_moment_it_was_made_at() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("a", "1")?;
    cf.put("b", "1")?;
    let mut range = cf.iter();
    assert_eq!(range.next().unwrap()?.0, "a");
    cf.put("c", "2")?; // the back end is opened only now
    cf.delete("b")?;
    assert_eq!(range.next_back().unwrap()?.0, "b");
    assert!(range.next().is_none() && range.next_back().is_none());
    Ok(())
}

#[test]
fn a_refused_write_spoils_its_batch_and_nothing_else() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let mut batch = db.batch();
    batch.put(&cf, "a", "1").put(&cf, vec![0; 65_536], "2").put(&cf, "b", "3");
    assert_eq!(batch.commit(Durability::Os).unwrap_err().kind(), &ErrorKind::Invalid);
    assert_eq!(cf.iter().count(), 0);
    batch.clear();
    batch.put(&cf, "a", "1");
    batch.commit(Durability::Os)?;
    assert!(batch.is_empty());
    assert_eq!(cf.iter().count(), 1);
    // A refused single put leaves nothing behind in the thread's buffer.
    assert!(cf.put(vec![0; 65_536], "").is_err());
    cf.put("b", "2")?;
    assert_eq!(cf.iter().count(), 2);
    Ok(())
}

#[test]
fn handles_of_another_store_are_refused() -> Result<()> {
    let (one, other) = (Db::memory()?, Db::memory()?);
    let cf = other.column_family("default")?;
    cf.put("a", "1")?;
    let mut batch = one.batch();
    batch.put(&cf, "a", "2");
    assert_eq!(batch.commit(Durability::Os).unwrap_err().kind(), &ErrorKind::Invalid);
    let snapshot = one.snapshot();
    assert_eq!(snapshot.get(&cf, "a").unwrap_err().kind(), &ErrorKind::Invalid);
    assert_eq!(snapshot.cursor(&cf).first().unwrap_err().kind(), &ErrorKind::Invalid);
    let mut range = snapshot.iter(&cf);
    assert_eq!(range.next().unwrap().unwrap_err().kind(), &ErrorKind::Invalid);
    assert!(range.next().is_none());
    Ok(())
}

#[test]
fn after_close_every_call_is_closed() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("a", "1")?;
    cf.put("b", "1")?;
    let (mut cursor, mut range, snapshot, mut batch) = (cf.cursor(), cf.iter(), db.snapshot(), db.batch());
    cursor.first()?;
    range.next().unwrap()?;
    batch.put(&cf, "c", "1");
    db.close()?;

    let closed = |outcome: Result<()>| assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Closed);
    closed(cf.put("a", "2"));
    closed(cf.delete("a"));
    closed(cf.get("a").map(drop));
    closed(cf.get_with("a", |_| ()).map(drop));
    closed(cf.get_into("a", &mut Vec::new()).map(drop));
    closed(cf.contains("a").map(drop));
    closed(cf.multi_get(["a"]).map(drop));
    closed(cf.cursor().first());
    closed(cf.iter().next().unwrap().map(drop));
    closed(cf.compact());
    closed(cf.approximate_size(..).map(drop));
    closed(cursor.next());
    closed(range.next().unwrap().map(drop));
    closed(snapshot.get(&cf, "a").map(drop));
    closed(snapshot.iter(&cf).next().unwrap().map(drop));
    closed(db.snapshot().get(&cf, "a").map(drop));
    closed(batch.commit(Durability::Os));
    closed(db.batch().commit(Durability::Os));
    closed(db.column_family("default").map(drop));
    closed(db.column_family("new").map(drop));
    closed(db.create_column_family("new", CfOptions::default()).map(drop));
    closed(db.drop_column_family("default"));
    closed(db.sync());
    closed(db.flush());
    closed(db.settle());
    closed(db.refresh());
    closed(db.step().map(drop));
    closed(db.checkpoint("nowhere"));
    db.close()?;
    Ok(())
}

/// Whoever steps on while it is valid, and looks at no error, comes to an end; and whoever seeks finds nothing.
#[test]
fn a_cursor_that_is_moved_after_close_stands_nowhere() -> Result<()> {
    type Move = fn(&mut Cursor) -> Result<()>;
    let moves: [Move; 6] = [
        Cursor::next,
        Cursor::prev,
        Cursor::first,
        Cursor::last,
        |cursor| cursor.seek("a"),
        |cursor| cursor.seek_for_prev("b"),
    ];
    for go in moves {
        let db = Db::memory()?;
        let cf = db.column_family("default")?;
        cf.put("a", "1")?;
        cf.put("b", "1")?;
        let mut cursor = cf.cursor();
        cursor.first()?;
        db.close()?;
        assert!(cursor.valid() && cursor.check().is_ok(), "nobody has moved it since");
        for _ in 0..2 {
            assert_eq!(go(&mut cursor).unwrap_err().kind(), &ErrorKind::Closed);
            assert!(!cursor.valid() && cursor.key().is_empty() && cursor.value().is_empty());
            assert_eq!(cursor.row()?, None);
            assert_eq!(cursor.check().unwrap_err().kind(), &ErrorKind::Closed);
        }
    }
    Ok(())
}

#[test]
fn what_is_not_in_memory_is_declined_until_it_is() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    let db = Db::open(&path)?;
    let cf = db.column_family("default")?;
    cf.put("key", "value")?;
    let resident = |cf: &waxseal::ColumnFamily, key: &str| cf.get_resident(key, |value| value.to_vec());
    assert_eq!(resident(&cf, "key")?, Some(Some(b"value".to_vec())), "in the memtable");
    assert_eq!(resident(&cf, "none")?, Some(None));
    db.close()?;
    assert_eq!(*resident(&cf, "key").unwrap_err().kind(), ErrorKind::Closed);
    let db = Db::open(&path)?;
    db.flush()?;
    let (cf, snapshot) = (db.column_family("default")?, db.snapshot());
    assert_eq!(resident(&cf, "key")?, None, "in a block that nobody has read");
    assert_eq!(snapshot.get_resident(&cf, "key", |value| value.to_vec())?, None);
    assert_eq!(cf.get("key")?.unwrap(), "value");
    assert_eq!(resident(&cf, "key")?, Some(Some(b"value".to_vec())), "in the cache");
    assert_eq!(snapshot.get_resident(&cf, "key", |value| value.to_vec())?, Some(Some(b"value".to_vec())));
    db.close()
}

/// C gets names in a list that ends each with a zero byte, so that none may have one.
#[test]
fn names_that_no_family_can_have() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    let refused = |outcome: Result<()>, name: &str| {
        assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Invalid, "{name:?}");
    };
    let db = Db::memory()?;
    for name in ["", "\0", "two\0names", "ends\0", &"x".repeat(256)] {
        refused(db.column_family(name).map(drop), name);
        refused(db.create_column_family(name, CfOptions::default()).map(drop), name);
        refused(Db::builder(&path).column_family(name, CfOptions::default()).open().map(drop), name);
    }
    assert!(!path.exists());
    db.column_family(&"x".repeat(255))?;
    assert_eq!(db.column_families().len(), 2);
    Ok(())
}

#[test]
fn a_family_is_found_and_not_made() -> Result<()> {
    let db = Db::memory()?;
    let alice = db.session("alice")?;
    assert!(db.find_column_family("c")?.is_none() && alice.find_column_family("c")?.is_none());
    assert_eq!(db.column_families().len(), 1);
    alice.column_family("c")?.put("a", "1")?;
    assert_eq!(db.find_column_family("c")?.unwrap().get("a")?.unwrap(), "1");
    alice.find_column_family("c")?.unwrap().put("a", "2")?;
    assert!(db.find_column_family("system_metadata.registry")?.is_some());
    db.drop_column_family("c")?;
    assert!(db.find_column_family("c")?.is_none() && db.find_column_family("")?.is_none());
    assert_eq!(db.column_families().len(), 1);
    db.close()?;
    assert_eq!(db.find_column_family("default").map(drop).unwrap_err().kind(), &ErrorKind::Closed);
    Ok(())
}

#[test]
fn a_dropped_family_refuses_its_handles() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("c")?;
    cf.put("a", "1")?;
    let (snapshot, mut range, mut batch) = (db.snapshot(), cf.iter(), db.batch());
    assert_eq!(range.next().unwrap()?.0, "a");
    batch.put(&cf, "b", "1");
    db.drop_column_family("c")?;
    let refused = |outcome: Result<()>| assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Invalid);
    refused(cf.put("a", "2"));
    refused(batch.commit(Durability::Os));
    refused(cf.get("a").map(drop));
    refused(cf.multi_get(["a"]).map(drop));
    refused(cf.cursor().first());
    refused(cf.iter().next().unwrap().map(drop));
    refused(cf.compact());
    refused(snapshot.get(&cf, "a").map(drop));
    refused(range.next_back().unwrap().map(drop));
    let again = db.column_family("c")?;
    assert_eq!(again.get("a")?, None);
    Ok(())
}

#[test]
fn a_cursor_from_nowhere_goes_nowhere() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("", "the empty key")?;
    let mut cursor = cf.cursor();
    cursor.next()?;
    cursor.prev()?;
    assert!(!cursor.valid());
    assert_eq!((cursor.key(), cursor.value()), (&b""[..], &b""[..]));
    cursor.first()?;
    assert!(cursor.valid());
    assert_eq!((cursor.key(), cursor.value()), (&b""[..], &b"the empty key"[..]));
    Ok(())
}

#[test]
fn many_threads_make_one_family() -> Result<()> {
    let db = Db::memory()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u8)
            .map(|thread| {
                let db = db.clone();
                scope.spawn(move || db.column_family("shared")?.put([thread], [thread]))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    let keys: Vec<Slice> = db.column_family("shared")?.iter().keys().collect::<Result<_>>()?;
    assert_eq!(keys.len(), 8);
    Ok(())
}

#[test]
fn an_iterator_of_entries_ends_with_its_store() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    for key in ["a", "b", "c"] {
        cf.put_with(key, "value", WriteOptions::new().label("source", key))?;
    }
    let mut entries = cf.iter_meta(.., LABELS)?;
    assert_eq!(entries.next().unwrap()?.0, b"a");
    db.close()?;
    assert_eq!(entries.next().unwrap().unwrap_err().kind(), &ErrorKind::Closed);
    assert!(entries.next().is_none());
    Ok(())
}

#[test]
fn a_block_size_of_the_builder_leaves_the_other_options_of_default() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let own = CfOptions { order: odd().order, filter_bits: 3, fanout: 7, block_bytes: 1024, ..CfOptions::default() };
    Db::builder(&path).column_family("default", own).open()?.close()?;
    for round in 0..2 {
        let db =
            Db::builder(&path).comparator(Arc::new(Odd)).block_bytes(8192).compression(Compression::None).open()?;
        let default = db.column_family("default")?;
        let options = default.options();
        assert_eq!((options.block_bytes, options.compression), (8192, Compression::None), "round {round}");
        assert_eq!((options.filter_bits, options.fanout, options.order.name()), (3, 7, "test.odd"));
        assert_eq!(db.column_family("other")?.options().filter_bits, CfOptions::default().filter_bits);
        db.close()?;
    }
    let db = Db::builder(&path).comparator(Arc::new(Odd)).open()?;
    assert_eq!(db.column_family("default")?.options().block_bytes, 1024, "it was for those opens alone");
    db.close()
}
