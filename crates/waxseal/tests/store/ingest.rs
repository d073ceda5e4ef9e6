//! Table files and bulk loads beside the rest of the API.

use std::time::{Duration, SystemTime};

use waxseal::registry::{Event, Field};
use waxseal::{CfOptions, ChangeReach, Db, ErrorKind, IngestOptions, Result, TableWriter, VerifyOptions, WriteOptions};

/// A plain node that compacts ingested tables keeps their seals, labels and expiries, and so does its change feed.
#[test]
fn a_plain_node_keeps_what_ingested_records_have() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (dir.path().join("store"), dir.path().join("file"));
    let db = Db::open(&store)?;
    let at = db.change_cursor("all")?.position()?;
    let cf = db.column_family("default")?;
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let mut writer = TableWriter::create(&file, &cf)?;
    writer.put_with("a", "1", WriteOptions::new().label("source", "file"))?;
    writer.put_with("b", "2", WriteOptions::new().expires_at(later))?;
    writer.put("c", "3")?.finish()?;
    db.ingest(&cf, [&file], IngestOptions::default())?;
    db.settle()?;
    let what = |db: &Db| -> Result<_> {
        let cf = db.column_family("default")?;
        let entry = |key, id| cf.get_meta(key, id).map(|entry| entry.map(|entry| entry.bytes.to_vec()));
        let seals: Result<Vec<_>> = ["a", "b", "c"].iter().map(|key| Ok(cf.get_sealed(key)?.unwrap().seal)).collect();
        Ok((entry("a", waxseal::meta::LABELS)?.unwrap(), entry("b", waxseal::meta::EXPIRY)?.unwrap(), seals?))
    };
    let feed = |db: &Db| -> Result<Vec<_>> {
        let changes = db.changes_within(at, ChangeReach::Visible)?;
        changes.map(|change| change.and_then(|change| Ok((change.seal, change.expires_at()?)))).collect()
    };
    let (before, fed) = (what(&db)?, feed(&db)?);
    db.close()?;
    let db = Db::builder(&store).plain().open()?;
    assert_eq!(feed(&db)?, fed);
    let cf = db.column_family("default")?;
    cf.put("bb", "between")?;
    cf.compact()?;
    db.close()?;
    let db = Db::open(&store)?;
    assert_eq!(what(&db)?, before);
    let report = db.verify(VerifyOptions::default())?;
    assert_eq!((report.corrupted, report.missing), (0, 0), "{report}");
    assert_eq!(db.seals().unwrap().adopted, 0);
    Ok(())
}

#[test]
fn ingested_records_have_seals_entries_and_expiry() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"))?;
    let hour = CfOptions { default_ttl: Some(Duration::from_secs(3600)), ..CfOptions::default() };
    let (cf, brief) = (db.column_family("default")?, db.create_column_family("brief", hour)?);
    cf.put("a", "old")?;
    cf.delete_range("a"..)?;
    let paths = ["one", "two"].map(|name| dir.path().join(name));
    let mut writer = TableWriter::create(&paths[0], &cf)?;
    writer.put("a", "1")?.put_with("b", "2", WriteOptions::new().label("source", "file"))?;
    writer.put_with(
        "c",
        "3",
        WriteOptions::new().expires_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
    )?;
    writer.delete("d")?.finish()?;
    assert_eq!(writer.finish().unwrap_err().kind(), &ErrorKind::Invalid);
    TableWriter::create(&paths[1], &brief)?.put("a", "1")?.finish()?;
    let moved = IngestOptions::default().move_files(true);
    let done = db.ingest_families([(&cf, [&paths[0]]), (&brief, [&paths[1]])], moved)?;
    assert_eq!((done.records, done.tables), (5, 2));
    assert!(!paths[0].exists() && !paths[1].exists());
    let check = |db: &Db| -> Result<()> {
        let (cf, brief) = (db.column_family("default")?, db.column_family("brief")?);
        assert_eq!(cf.get("a")?.unwrap(), "1");
        assert_eq!(cf.get_meta("b", waxseal::meta::LABELS)?.unwrap().bytes, b"\x06source\x04file");
        assert_eq!(cf.get("c")?, None);
        assert!(brief.get_meta("a", waxseal::meta::EXPIRY)?.is_some(), "the family's default");
        let report = db.verify(VerifyOptions::default())?;
        assert_eq!((report.corrupted, report.missing, report.unverified), (0, 0, 0));
        Ok(())
    };
    check(&db)?;
    let sum = db.digest(&cf, "a".."c")?;
    cf.compact()?;
    assert_eq!(db.digest(&cf, "a".."c")?, sum);
    check(&db)?;
    db.checkpoint(dir.path().join("copy"))?;
    check(&Db::open(dir.path().join("copy"))?)
}

#[test]
fn a_family_of_another_store_is_refused() -> Result<()> {
    let (db, other) = (Db::memory()?, Db::memory()?);
    let (own, foreign) = (db.column_family("default")?, other.column_family("default")?);
    assert_eq!(db.bulk_load(&foreign, [("a", "1")]).unwrap_err().kind(), &ErrorKind::Invalid);
    let none: [&str; 0] = [];
    assert_eq!(db.ingest(&foreign, none, IngestOptions::default()).unwrap_err().kind(), &ErrorKind::Invalid);
    assert_eq!(db.bulk_load(&own, [("b", "2"), ("a", "1"), ("b", "3")])?.records, 2);
    assert_eq!(own.iter().map(|row| row.map(|(_, value)| value.to_vec())).collect::<Result<Vec<_>>>()?, [b"1", b"3"]);
    assert_eq!(db.bulk_load(&own, Vec::<(&str, &str)>::new())?.tables, 0);
    Ok(())
}

#[test]
fn a_transaction_that_read_an_ingested_key_conflicts() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("a", "1")?;
    for read in [true, false] {
        let t = db.transaction();
        if read {
            t.get(&cf, "a")?;
        } else {
            assert_eq!(t.range(&cf, "x"..).count(), 0);
        }
        db.bulk_load(&cf, [("a", "2"), ("y", "2")])?;
        t.put(&cf, "b", "3")?;
        assert_eq!(t.commit().unwrap_err().kind(), &ErrorKind::Conflict);
        cf.delete("y")?;
    }
    let t = db.transaction();
    t.get(&cf, "c")?;
    db.bulk_load(&cf, [("a", "4")])?;
    t.put(&cf, "b", "3")?;
    t.commit()
}

#[test]
fn an_ingestion_is_one_event_with_the_keys_of_each_family() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"))?;
    let cf = db.column_family("users")?;
    db.registry().register("users", "Row.Write")?;
    db.bulk_load(&cf, [("a", "1"), ("b", "2")])?;
    cf.put("a", "3")?;
    assert_eq!(db.registry().query_all("users.a", "Row.Write")?.len(), 1, "the put alone");
    let others = db.column_family("others")?;
    let paths = ["one", "two", "three"].map(|name| dir.path().join(name));
    for (path, (family, keys)) in paths.iter().zip([(&others, "xy"), (&cf, "mn"), (&others, "bc")]) {
        let mut writer = TableWriter::create(path, family)?;
        keys.chars().try_for_each(|key| writer.put(key.to_string(), "4").map(drop))?;
        writer.finish()?;
    }
    let copied = IngestOptions::default();
    db.ingest_families([(&others, &paths[..1]), (&cf, &paths[1..2]), (&others, &paths[2..])], copied)?;
    let events = db.registry().query_all("engine:store", "Engine.Ingest")?;
    let told = |event: &Event| {
        let text = |field: &Field| match field {
            Field::RangeStart(key) | Field::RangeEnd(key) => Some(String::from_utf8(key.clone()).unwrap()),
            Field::Setting((name, family)) if name == "family" => Some(family.clone()),
            _ => None,
        };
        event.payload.fields().iter().filter_map(text).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = events.iter().map(told).collect();
    all.sort();
    // The families, their first keys, their last keys.
    assert_eq!(all, [&["others", "users", "b", "m", "y", "n"][..], &["users", "a", "b"]]);
    Ok(())
}
