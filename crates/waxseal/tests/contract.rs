//! The names that others rely on, as calls that compile and run.
//!
//! Calls that do not exist yet, by the issue that brings them:
//! - zstd: `Compression::Zstd` needs the feature `zstd`, and is refused at open without it

use std::sync::Arc;

use waxseal::env::{RealFs, SystemClock};
use waxseal::{
    Backup, CfOptions, Change, ChangeOperation, ColumnFamily, Compression, Cursor, Damage, Db, Digest, Durability,
    Error, ErrorKind, Event, IngestOptions, Isolation, Keys, Listener, MergeOperator, Metrics, Range, RecoveryReport,
    RepairOptions, Report, Result, ScrubOptions, Seal, Sealed, Session, Settings, Slice, Snapshot, TableWriter,
    Transaction, VerifyOptions, WriteOptions,
};

struct Quiet;

impl Listener for Quiet {
    fn on_event(&self, _event: &Event) {}
}

#[test]
fn opening() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    db.column_family("default")?.put("k", "v")?;
    db.close()?;
    let db = Db::open_read_only(&path)?;
    assert_eq!(db.column_family("default")?.get("k")?.unwrap(), "v");
    db.refresh()?;
    db.close()?;
    Db::destroy(&path)?;
    Db::memory()?.close()?;

    let db = Db::builder(&path)
        .cache_bytes(16 << 20)
        .memtable_bytes(4 << 20)
        .memory_bytes(64 << 20)
        .block_bytes(4096)
        .compression(Compression::Lz4)
        .durability(Durability::Os)
        .background_threads(1)
        .create_if_missing(true)
        .wal_mapped(true)
        .plain()
        .fs(Arc::new(RealFs))
        .clock(Arc::new(SystemClock::new()))
        .listener(Arc::new(Quiet))
        .accept_loss(false)
        .open()?;
    let _: RecoveryReport = db.recovery();
    let RecoveryReport { commits, cut_bytes, cut_at, set_aside, acknowledged_bytes_missing, .. } = db.recovery();
    assert_eq!((cut_bytes, cut_at, set_aside, acknowledged_bytes_missing), (0, None, None, 0));
    let _: u64 = commits;
    let metrics: Metrics = db.metrics();
    assert!(!metrics.to_string().is_empty());
    Ok(())
}

#[test]
fn column_families() -> Result<()> {
    let db = Db::memory()?;
    let users: ColumnFamily = db.column_family("users")?;
    db.create_column_family("c", CfOptions::default())?;
    assert!(db.create_column_family("c", CfOptions::default()).is_err());
    let mut names: Vec<String> = db.column_families().iter().map(|cf| cf.name().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["c", "default", "users"]);
    db.drop_column_family("c")?;
    assert_eq!(db.column_families().len(), 2);
    users.put("k", "v")?;
    users.set_options(CfOptions { level0_tables: 9, ..(*users.options()).clone() })?;
    assert_eq!(users.options().level0_tables, 9);
    db.set_options(Settings { subcompactions: 5, ..(*db.options()).clone() })?;
    assert_eq!(db.options().subcompactions, 5);
    Ok(())
}

#[test]
fn keys_and_values() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("users")?;
    cf.put("k", "v")?;
    cf.put_with(b"l", vec![1, 2, 3], WriteOptions::default().durability(Durability::Sync))?;
    let slice: Option<Slice> = cf.get("k")?;
    assert_eq!(slice.as_deref(), Some(&b"v"[..]));
    let bytes: bytes::Bytes = slice.unwrap().into();
    assert_eq!(&bytes[..], b"v");
    assert_eq!(cf.get_with("l", |v: &[u8]| v.len())?, Some(3));
    let mut vec = vec![9; 9];
    assert!(cf.get_into("l", &mut vec)?);
    assert_eq!(vec, [1, 2, 3]);
    assert!(cf.contains("k")?);
    cf.delete("k")?;
    cf.delete_range("a".."b")?;
    assert!(!cf.contains("k")?);
    let options = CfOptions { merge_operator: Some(MergeOperator::append(b",")), ..CfOptions::default() };
    let merged = db.create_column_family("merged", options)?;
    merged.merge("k", "a")?;
    let mut b = db.batch();
    b.merge(&merged, "k", "b").commit(Durability::Os)?;
    assert_eq!(merged.get("k")?.unwrap(), "a,b");
    let set: bool = cf.compare_and_set("n", None::<&str>, Some("1"))?;
    assert!(set && cf.compare_and_set("n", Some(b"1"), Some(vec![2]))? && !cf.put_if_absent("n", "v")?);
    let new: Option<Vec<u8>> = cf.update("n", |old: Option<&[u8]>| old.map(<[u8]>::to_vec))?;
    assert_eq!(new, Some(vec![2]));
    let before: i64 = cf.fetch_add("i", 1)?;
    assert_eq!(before, 0);
    let values: Vec<Option<Slice>> = cf.multi_get(["k", "l"])?;
    assert_eq!(values, [None, Some(Slice::from(&[1, 2, 3][..]))]);
    let popped: Option<(Slice, Slice)> = cf.pop_first()?;
    assert_eq!(popped.map(|(key, _)| key), Some(Slice::from(&b"i"[..])));
    assert!(cf.pop_last()?.is_some());
    cf.clear()?;
    assert_eq!(cf.pop_first()?, None);
    Ok(())
}

#[test]
fn transactions() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let t: Transaction = db.transaction();
    let found: Option<Slice> = t.get(&cf, "k")?;
    assert_eq!((found, t.get_for_update(&cf, "k")?), (None, None));
    t.put(&cf, "k", "v")?;
    t.savepoint();
    t.delete(&cf, "k")?;
    t.delete_range(&cf, "a".."b")?;
    let merge_operator = Some(MergeOperator::add_i64());
    let merged = db.create_column_family("merged", CfOptions { merge_operator, ..CfOptions::default() })?;
    t.merge(&merged, "k", 1i64.to_le_bytes())?;
    t.rollback_to_savepoint()?;
    assert_eq!(t.range(&cf, "a".."z").count(), 1);
    t.commit()?;
    let t = db.transaction_with(Isolation::Snapshot);
    t.put(&cf, "k", "w")?;
    t.rollback();
    let read: Option<Slice> = db.transact(|t| t.get(&cf, "k"))?;
    assert_eq!(read.as_deref(), Some(&b"v"[..]));
    Ok(())
}

#[test]
fn first_and_last() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    assert!(cf.is_empty()?);
    cf.put("a", "1")?;
    let s: Snapshot = db.snapshot();
    cf.put("b", "2")?;
    let first: Option<(Slice, Slice)> = cf.first_key_value()?;
    assert_eq!(first.unwrap().0, "a");
    assert_eq!(cf.last_key_value()?.unwrap().1, "2");
    assert_eq!(s.last_key_value(&cf)?, s.first_key_value(&cf)?);
    assert!(!s.is_empty(&cf)?);
    Ok(())
}

#[test]
fn cursors_and_iterators() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    for key in ["a1", "a2", "b1"] {
        cf.put(key, key)?;
    }
    let mut c: Cursor = cf.cursor();
    c.seek("a2")?;
    assert_eq!((c.key(), c.value()), (&b"a2"[..], &b"a2"[..]));
    c.seek_for_prev("b")?;
    assert_eq!(c.key(), b"a2");
    c.first()?;
    assert_eq!(c.key(), b"a1");
    c.last()?;
    assert_eq!(c.key(), b"b1");
    c.prev()?;
    c.next()?;
    c.next()?;
    assert!(!c.valid());

    fn is_iterator<I>(_: &I)
    where
        I: DoubleEndedIterator<Item = Result<(Slice, Slice)>> + Send + 'static,
    {
    }
    let range: Range = cf.range("a1".."b1");
    is_iterator(&range);
    assert_eq!(range.count(), 2);
    assert_eq!(cf.range(b"a2"..).rev().count(), 2);
    assert_eq!(cf.prefix("a").count(), 2);
    let keys: Keys = cf.iter().keys();
    assert_eq!(keys.map(Result::unwrap).collect::<Vec<Slice>>(), ["a1", "a2", "b1"]);
    Ok(())
}

#[test]
fn batches_and_snapshots() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("old", "1")?;
    let s: Snapshot = db.snapshot();
    let mut b = db.batch();
    b.put(&cf, "new", "2");
    b.delete(&cf, "old");
    b.delete_range(&cf, "x".."y");
    b.commit(Durability::Sync)?;
    assert_eq!(s.get(&cf, "old")?.unwrap(), "1");
    assert_eq!(s.get(&cf, "new")?, None);
    let mut c = s.cursor(&cf);
    c.first()?;
    assert_eq!(c.key(), b"old");
    assert_eq!(s.range(&cf, "a".."z").count(), 1);
    assert_eq!(db.durable_snapshot().get(&cf, "new")?.unwrap(), "2");
    Ok(())
}

#[test]
fn seals() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let (k, v) = ("key", vec![1u8, 2, 3]);
    cf.put_sealed(k, &v, Seal::of(k, &v))?;
    let Sealed { value, seal, seqno } = cf.get_sealed(k)?.unwrap();
    let _: (&Slice, u64) = (&value, seqno);
    let bytes: [u8; 8] = seal.to_bytes();
    assert_eq!((value, Seal::from_bytes(bytes)), (Slice::from(&v[..]), Seal::of(k, &v)));
    let mut b = db.batch();
    b.put_sealed(&cf, "l", "w", Seal::of("l", "w"));
    b.commit(Durability::Sync)?;
    let _: Option<Sealed> = cf.get_sealed("none")?;
    cf.put_with("k", "v", WriteOptions::new().durability(Durability::Sync).entry(4, vec![]))?;
    Ok(())
}

#[test]
fn care() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"))?;
    let cf = db.column_family("default")?;
    cf.put("a", "1")?;
    db.flush()?;
    cf.put("b", "2")?;
    let report: Report = db.verify(VerifyOptions::default())?;
    let Report { records, validated, corrupted, missing, unverified, structural, repaired, damage, .. } = report;
    assert_eq!((records, validated), (2, 2));
    assert_eq!((corrupted, missing, unverified, structural, repaired, damage.len()), (0, 0, 0, 0, 0, 0));
    let _: Report = db.scrub(ScrubOptions::default())?;
    let _: Report = db.repair(RepairOptions::default())?;
    let digest: Digest = db.digest(&cf, "a".."c")?;
    assert_eq!(digest.count, 2);
    let _: u64 = digest.sum;
    Ok(())
}

#[test]
fn upkeep() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"))?;
    let cf = db.column_family("default")?;
    cf.put("k", "v")?;
    db.sync()?;
    db.flush()?;
    drop(db.pause_background()?);
    db.settle()?;
    cf.compact()?;
    let _: u64 = cf.approximate_size("a".."z")?;
    assert_eq!(cf.approximate_len(), 1);
    let path = dir.path().join("table");
    TableWriter::create(&path, &cf)?.put("k", "w")?.finish()?;
    db.ingest(&cf, [&path], IngestOptions::default())?;
    assert_eq!(cf.get("k")?.unwrap(), "w");
    db.bulk_load(&cf, [("k", "v")])?;
    db.checkpoint(dir.path().join("copy"))?;
    assert_eq!(Db::open(dir.path().join("copy"))?.column_family("default")?.get("k")?.unwrap(), "v");
    let id = db.backup(dir.path().join("backups"))?.id;
    let backup = Backup::open(dir.path().join("backups"))?;
    assert_eq!(backup.list()?.len(), 1);
    backup.verify(id)?;
    backup.restore(id, dir.path().join("restored"))?;
    backup.purge(1)?;
    Db::restore(dir.path().join("backups"), id, dir.path().join("again"))?;
    let cursor = db.change_cursor("replica")?;
    cf.put("k", "x")?;
    db.sync()?;
    for change in db.changes_since(cursor.position()?)? {
        let Change { family, operation, session, .. } = change?;
        assert!(matches!(operation, ChangeOperation::Put { .. }) && &*family == "default" && session.is_none());
    }
    Ok(())
}

#[test]
fn sessions() -> Result<()> {
    let db = Db::memory()?;
    let (k, v) = ("key", "value");
    let (target, op) = ("users.key", "Row.Update");
    let alice: Session = db.session("alice")?;
    alice.column_family("users")?.put(k, v)?;
    alice.register(target, op)?;
    alice.column_family("users")?.put(k, v)?;
    assert_eq!(alice.query_all(target, op)?.len(), 1);
    assert_eq!(alice.query_latest(target, op)?.unwrap().key.client, "alice");
    let (target, op) = (target.to_owned(), op.to_owned());
    alice.unregister(&target, &op)?;
    alice.column_family("users")?.put(k, v)?;
    assert_eq!(alice.query_all(target, op)?.len(), 1);
    Ok(())
}

#[test]
fn kinds_of_errors() {
    fn name(error: &Error) -> &'static str {
        match error.kind() {
            ErrorKind::Corruption(damage) => {
                let Damage { file: _, offset: _, cf: _, key_range: _, expected: _, found: _, verdict: _ } = &**damage;
                "corruption"
            }
            ErrorKind::Io(_) => "io",
            ErrorKind::Locked => "locked",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Conflict => "conflict",
            ErrorKind::ReadOnly => "read only",
            ErrorKind::Halted => "halted",
            ErrorKind::FormatTooNew => "format too new",
            ErrorKind::Closed => "closed",
            _ => "unknown",
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path).unwrap();
    assert_eq!(name(&Db::open(&path).unwrap_err()), "locked");
    let cf = db.column_family("default").unwrap();
    assert_eq!(name(&cf.put(vec![0; 65_536], "v").unwrap_err()), "invalid");
    db.close().unwrap();
    assert_eq!(name(&cf.put("k", "v").unwrap_err()), "closed");
    let db = Db::open_read_only(&path).unwrap();
    assert_eq!(name(&db.column_family("default").unwrap().put("k", "v").unwrap_err()), "read only");
}

#[test]
fn handles_are_shared_between_threads() {
    fn is_shared<T: Clone + Send + Sync + 'static>() {}
    fn is_sent<T: Send + 'static>() {}
    is_shared::<Db>();
    is_shared::<ColumnFamily>();
    is_shared::<Snapshot>();
    is_shared::<Session>();
    is_shared::<Slice>();
    is_sent::<Cursor>();
    is_sent::<Range>();
    is_sent::<waxseal::Batch>();
}
