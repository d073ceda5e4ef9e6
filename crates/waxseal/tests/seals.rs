//! Seals as a user meets them: on by default, handed in and out, through every place where a record lives; plain nodes.

use std::sync::Arc;

use waxseal::env::MemoryFs;
use waxseal::{Builder, ColumnFamily, Db, Durability, ErrorKind, Result, Seal, Verify, WriteOptions};

/// A store in memory that is opened more than once.
struct Shelf {
    fs: Arc<MemoryFs>,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf { fs: Arc::new(MemoryFs::new()) }
    }

    fn builder(&self) -> Builder {
        Db::builder("store").fs(self.fs.clone())
    }
}

fn invalid<T: std::fmt::Debug>(outcome: Result<T>) {
    assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Invalid);
}

#[test]
fn a_seal_given_comes_back_from_wherever_its_record_lives() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    let seal = Seal::of("key", "value");
    cf.put_sealed("key", "value", seal)?;
    let snapshot = db.snapshot();
    let is_back = |cf: &ColumnFamily| {
        let sealed = cf.get_sealed("key").unwrap().unwrap();
        assert_eq!((&sealed.value[..], sealed.seal), (&b"value"[..], seal));
        assert_eq!(Seal::from_bytes(sealed.seal.to_bytes()), seal);
        sealed.seqno
    };
    assert_eq!(is_back(&cf), 1);
    db.flush()?;
    is_back(&cf);
    drop(snapshot);
    for n in 0..5 {
        cf.put(format!("other {n}"), "value")?;
        cf.compact()?;
        is_back(&cf);
    }
    let counts = db.seals().unwrap();
    assert_eq!((counts.given, counts.computed, counts.derived), (1, 5, 0), "no seal is made on the way");
    db.close()?;

    let db = shelf.builder().open()?;
    is_back(&db.column_family("default")?);
    assert_eq!(db.column_family("default")?.get_sealed("none")?, None);
    db.column_family("default")?.delete("key")?;
    assert_eq!(db.column_family("default")?.get_sealed("key")?, None);
    Ok(())
}

#[test]
fn a_seal_survives_in_the_log_alone() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    cf.put("made", "here")?;
    cf.put_sealed("given", "there", Seal::of("given", "there"))?;
    db.close()?;
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    assert_eq!(cf.get_sealed("made")?.unwrap().seal, Seal::of("made", "here"));
    assert_eq!(cf.get_sealed("given")?.unwrap().seal, Seal::of("given", "there"));
    Ok(())
}

#[test]
fn a_snapshot_hands_seals_out_too() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("key", "before")?;
    let snapshot = db.snapshot();
    cf.put("key", "after")?;
    assert_eq!(snapshot.get_sealed(&cf, "key")?.unwrap().seal, Seal::of("key", "before"));
    assert_eq!(cf.get_sealed("key")?.unwrap().seal, Seal::of("key", "after"));
    Ok(())
}

#[test]
fn a_wrong_seal_is_refused_and_changes_nothing() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("key", "old")?;
    invalid(cf.put_sealed("key", "new", Seal::of("key", "mew")));
    invalid(cf.put_sealed("key", "new", Seal::of("kez", "new")));
    invalid(cf.put_sealed("key", "", Seal::from_bytes([0; 8])));
    let mut batch = db.batch();
    batch.put(&cf, "a", "1").put_sealed(&cf, "key", "new", Seal::of("key", "mew")).put(&cf, "b", "2");
    invalid(batch.commit(Durability::Os));
    assert_eq!(cf.get("key")?.unwrap(), "old");
    assert_eq!(cf.iter().count(), 1);
    batch.clear();
    batch.put_sealed(&cf, "key", "new", Seal::of("key", "new"));
    batch.commit(Durability::Os)?;
    assert_eq!(cf.get("key")?.unwrap(), "new");
    assert_eq!(db.seals().unwrap().given, 1, "only what was right counts");
    Ok(())
}

#[test]
fn a_plain_store_keeps_nothing_beside_its_values() -> Result<()> {
    let db = Builder::in_memory().plain().open()?;
    let cf = db.column_family("default")?;
    cf.put("key", "value")?;
    assert_eq!(db.seals(), None);
    invalid(cf.put_sealed("key", "other", Seal::of("key", "other")));
    invalid(cf.get_sealed("key"));
    invalid(cf.put_with("key", "other", WriteOptions::new().entry(1, "beside")));
    let mut batch = db.batch();
    batch.put_given(&cf, "key", "other", &[(1, b"beside")]);
    invalid(batch.commit(Durability::Os));
    assert_eq!(cf.get("key")?.unwrap(), "value");
    assert_eq!(cf.with_verify(Verify::Always).get("key")?.unwrap(), "value", "there is nothing to check by");
    Ok(())
}

fn fill(cf: &ColumnFamily, value: &str, keys: std::ops::Range<u32>) -> Result<()> {
    keys.into_iter().try_for_each(|key| cf.put(format!("{key:04}"), format!("{value} {key}")))
}

/// Everything that is read says what was written; how many records have a seal.
fn sealed_among(cf: &ColumnFamily, value: &str, keys: std::ops::Range<u32>) -> Result<usize> {
    let mut sealed = 0;
    for key in keys {
        let (name, value) = (format!("{key:04}"), format!("{value} {key}"));
        assert_eq!(cf.get(&name)?.unwrap(), *value);
        match cf.get_sealed(&name) {
            Ok(found) => {
                assert_eq!(found.unwrap().seal, Seal::of(&name, &value));
                sealed += 1;
            }
            Err(error) => assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}"),
        }
    }
    Ok(sealed)
}

#[test]
fn a_plain_node_carries_the_seals_of_a_sealed_store() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().open()?;
    fill(&db.column_family("default")?, "sealed", 0..300)?;
    db.settle()?;
    db.close()?;

    let db = shelf.builder().plain().open()?;
    let cf = db.column_family("default")?;
    fill(&cf, "plain", 300..400)?;
    cf.delete("0000")?;
    cf.compact()?;
    assert_eq!(cf.iter().count(), 399);
    assert_eq!(cf.get("0299")?.unwrap(), "sealed 299");
    db.close()?;

    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    assert_eq!(cf.iter().count(), 399);
    assert_eq!(cf.get("0000")?, None);
    assert_eq!(sealed_among(&cf, "sealed", 1..300)?, 299, "carried by length, untouched");
    assert_eq!(sealed_among(&cf, "plain", 300..400)?, 0, "and none was made");
    // What such a store writes anew has seals again, and what it cannot seal it counts.
    fill(&cf, "sealed", 300..310)?;
    cf.compact()?;
    assert_eq!(sealed_among(&cf, "sealed", 1..310)?, 309);
    let counts = db.seals().unwrap();
    assert_eq!(counts.adopted + counts.unsealed, 90, "{counts:?}");
    assert_eq!(sealed_among(&cf, "plain", 310..400)? as u64, counts.adopted);
    Ok(())
}

#[test]
fn a_sealed_node_takes_over_a_plain_store() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().plain().open()?;
    let cf = db.column_family("default")?;
    fill(&cf, "plain", 0..100)?;
    db.flush()?;
    fill(&cf, "plain", 100..200)?; // in the log alone
    db.close()?;

    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    fill(&cf, "sealed", 200..300)?;
    assert_eq!(cf.iter().count(), 300);
    sealed_among(&cf, "plain", 0..200)?;
    assert_eq!(sealed_among(&cf, "sealed", 200..300)?, 100);
    cf.compact()?;
    let counts = db.seals().unwrap();
    let sealed = sealed_among(&cf, "plain", 0..200)?;
    assert!(counts.adopted + counts.unsealed >= 200, "each is counted: {counts:?}");
    assert!(sealed as u64 <= counts.adopted, "and none is sealed in silence: {counts:?}");
    assert_eq!(sealed_among(&cf, "sealed", 200..300)?, 100);
    Ok(())
}

#[test]
fn what_reads_check_is_said_by_builder_family_and_handle() -> Result<()> {
    let db = Builder::in_memory().verify_reads(Verify::Never).verify_scans(Verify::Always).open()?;
    let cf = db.column_family("default")?;
    cf.put("key", "value")?;
    db.flush()?;
    let before = db.seals().unwrap().verified;
    for verify in [Verify::Never, Verify::OnFill, Verify::Sampled(3), Verify::Always] {
        let cf = cf.with_verify(verify);
        assert_eq!(cf.get("key")?.unwrap(), "value");
        assert_eq!(cf.get("none")?, None);
        assert_eq!(cf.multi_get(["key", "none"])?, [Some("value".as_bytes().into()), None]);
        assert_eq!(cf.iter().rev().count(), 1);
        assert_eq!(db.snapshot().get(&cf, "key")?.unwrap(), "value");
        assert_eq!(db.snapshot().iter(&cf).count(), 1);
        let mut cursor = cf.cursor();
        cursor.seek("a")?;
        assert_eq!(cursor.value(), b"value");
    }
    assert!(db.seals().unwrap().verified >= before);
    Ok(())
}
