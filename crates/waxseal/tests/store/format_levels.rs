//! Format levels: what a store of each may hold, and stores of each as they were written once.

#![expect(clippy::disallowed_methods, reason = "the files of golden stores are no business of a store")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use waxseal::{
    CfOptions, ColumnFamily, Db, Durability, ErrorKind, IngestOptions, MergeOperator, Result, TableWriter,
    VerifyOptions, WriteOptions,
};

/// In the year 2100.
const LATE: Duration = Duration::from_secs(4_102_444_800);

fn counters() -> CfOptions {
    CfOptions { merge_operator: Some(MergeOperator::add_i64()), ..CfOptions::default() }
}

/// Every way to what level 2 adds.
fn beyond_level_1(db: &Db, cf: &ColumnFamily, table: &Path) -> [Result<()>; 7] {
    let mut batch = db.batch();
    batch.put(cf, "batched", "1").delete_range(cf, "a".."b");
    [
        cf.delete_range("a".."b"),
        batch.commit(Durability::Os).map(drop),
        db.create_column_family("counters", counters()).map(drop),
        db.ingest(cf, [table], IngestOptions::default()).map(drop),
        db.bulk_load(cf, [("loaded", "1")]).map(drop),
        db.change_cursor("copy").map(drop),
        db.change_position().map(drop),
    ]
}

#[test]
fn a_store_of_an_older_level_refuses_what_it_lacks_until_it_is_upgraded() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (path, table) = (dir.path().join("store"), dir.path().join("table"));
    let db = Db::builder(&path).format_level(1).open()?;
    let cf = db.column_family("default")?;
    cf.put("a", "1")?;
    TableWriter::create(&table, &cf)?.put("a", "2")?.finish()?;
    let rows = || cf.iter().collect::<Result<Vec<_>>>();
    let before = rows()?;
    for (n, outcome) in beyond_level_1(&db, &cf, &table).into_iter().enumerate() {
        let error = outcome.unwrap_err();
        assert!(error.kind() == &ErrorKind::Invalid && error.to_string().contains("upgrade(2)"), "{n}: {error}");
    }
    assert_eq!((rows()?, db.column_families().len(), db.format_level()), (before, 1, 1));
    db.close()?;
    // An open changes the level neither by itself nor for a merge operator or the change feed.
    let with_operator = || Db::builder(&path).column_family("default", counters());
    let with_feed = |path: &Path, level| {
        Db::builder(path).format_level(level).tune(|settings| settings.keep_log_bytes = 1 << 20).open()
    };
    assert!(with_operator().open().unwrap_err().to_string().contains("upgrade(2)"));
    assert!(with_feed(&path, 1).unwrap_err().to_string().contains("upgrade(2)"));
    assert!(with_feed(&dir.path().join("fed"), 1).unwrap_err().to_string().contains("upgrade(2)"));
    assert!(with_feed(&dir.path().join("fed"), 2)?.oldest_change_position().is_some());
    let (db, reader) = (Db::open(&path)?, Db::open_read_only(&path)?);
    assert_eq!((db.format_level(), reader.format_level()), (1, 1));
    // A refused creation leaves no store behind.
    let other = dir.path().join("other");
    let refused = Db::builder(&other).format_level(1).column_family("counters", counters()).open();
    assert!(refused.unwrap_err().to_string().contains("upgrade(2)"));
    assert_eq!(
        Db::builder(&other)
            .column_family("counters", counters())
            .tune(|settings| settings.error_if_exists = true)
            .open()?
            .format_level(),
        2
    );
    for unknown in [0, 3, u32::MAX] {
        assert_eq!(db.upgrade(unknown).unwrap_err().kind(), &ErrorKind::Invalid);
        assert!(Db::builder(dir.path().join("third")).format_level(unknown).open().is_err());
    }
    assert_eq!(reader.upgrade(2).unwrap_err().kind(), &ErrorKind::ReadOnly);
    db.upgrade(1)?;
    assert_eq!(db.format_level(), 1);
    db.upgrade(2)?;
    db.upgrade(1)?;
    assert_eq!((db.format_level(), reader.format_level()), (2, 1));
    reader.refresh()?;
    assert_eq!(reader.format_level(), 2);
    drop(reader);
    for outcome in beyond_level_1(&db, &db.column_family("default")?, &table) {
        outcome?;
    }
    db.checkpoint(dir.path().join("copy"))?;
    db.close()?;
    assert_eq!(with_operator().open()?.format_level(), 2);
    assert!(with_feed(&path, 1)?.oldest_change_position().is_some());
    assert_eq!(Db::open(dir.path().join("copy"))?.format_level(), 2);
    Ok(())
}

#[test]
fn stores_of_each_level_are_read_for_ever() -> Result<()> {
    for level in 1..=2 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/store-level-{level}.txt"));
        if !golden.exists() && std::env::var_os("WAXSEAL_GOLDEN").is_some() {
            fs::write(&golden, dump(&made(&dir.path().join("new"), level)?)).unwrap();
        }
        unpack(&fs::read_to_string(&golden).unwrap(), &path);
        let has_counters = |db: &Db| db.column_families().iter().any(|family| family.name() == "counters");
        let reader = Db::open_read_only(&path)?;
        check(&reader, level)?;
        assert_eq!(has_counters(&reader), level > 1);
        drop(reader);
        let db = Db::open(&path)?;
        check(&db, level)?;
        let cf = db.column_family("default")?;
        assert_eq!(cf.delete_range("gone".."gonf").is_ok(), level > 1);
        cf.compact()?;
        db.settle()?;
        check(&db, level)?;
        db.close()?;
        let db = Db::open(&path)?;
        db.upgrade(2)?;
        check(&db, 2.max(level))?;
        db.column_family("default")?.delete_range("a"..)?;
        db.close()?;
        assert!(Db::open(&path)?.column_family("default")?.is_empty()?);
    }
    Ok(())
}

/// Makes a store in which every kind of record is in tables, value files and the log, as its writer leaves it when it
/// is killed. Returns its directory.
fn made(path: &Path, level: u32) -> Result<PathBuf> {
    let db = Db::builder(path).format_level(level).memtable_bytes(64 << 10).open()?;
    let cf = db.column_family("default")?;
    let large = db.create_column_family("large", CfOptions { large_value_bytes: 200, ..CfOptions::default() })?;
    let totals = (level > 1).then(|| db.create_column_family("counters", counters())).transpose()?;
    db.registry().register("default", "Row.Write")?;
    for round in ["old", "new"] {
        for n in 0..20 {
            cf.put(format!("key {n:02}"), format!("{round} value {n}"))?;
        }
        cf.put("gone", "soon")?;
        large.put("large", [7; 300])?;
        cf.put_with(
            "late",
            round,
            WriteOptions::new().expires_at(SystemTime::UNIX_EPOCH + LATE).label("from", "test"),
        )?;
        if level > 1 {
            totals.as_ref().unwrap().merge("count", 5i64.to_le_bytes())?;
            cf.put("ranged 1", "1")?;
            cf.delete_range("ranged".."rangee")?;
        }
        if round == "old" {
            db.flush()?;
        }
    }
    cf.delete("gone")?;
    if level > 1 {
        let table = path.with_extension("table");
        TableWriter::create(&table, &cf)?.put("ingested", "row")?.finish()?;
        db.ingest(&cf, [&table], IngestOptions::default())?;
    }
    large.put("large", [8; 300])?;
    db.sync()?;
    std::mem::forget((db, cf, large, totals));
    Ok(path.to_owned())
}

fn check(db: &Db, level: u32) -> Result<()> {
    assert_eq!(db.format_level(), level);
    let cf = db.column_family("default")?;
    for n in 0..20 {
        assert_eq!(cf.get(format!("key {n:02}"))?.unwrap(), format!("new value {n}"));
    }
    assert_eq!((cf.get("gone")?, cf.get("ranged 1")?), (None, None));
    assert_eq!(cf.get("late")?.unwrap(), "new");
    assert_eq!(cf.get_meta("late", waxseal::meta::LABELS)?.unwrap().bytes, b"\x04from\x04test");
    assert_eq!(db.column_family("large")?.get("large")?.unwrap(), [8; 300]);
    if db.column_families().iter().any(|family| family.name() == "counters") {
        let counters = db.column_family("counters")?;
        assert_eq!(counters.get("count")?.unwrap(), 10i64.to_le_bytes());
        assert_eq!(cf.get("ingested")?.unwrap(), "row");
    }
    let report = db.verify(VerifyOptions::default())?;
    assert_eq!((report.corrupted, report.missing, report.unverified), (0, 0, 0));
    let events = db.registry().query_all("default.gone", "*")?.len();
    assert_eq!(events, 2, "two puts");
    Ok(())
}

/// Writes the files of a directory as text: the rows of 32 bytes that are not zero.
fn dump(dir: &Path) -> String {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let mut text = String::new();
    for name in names.iter().filter_map(|name| name.to_str()).filter(|name| *name != "LOCK") {
        let bytes = fs::read(dir.join(name)).unwrap();
        writeln!(text, "file {name} {}", bytes.len()).unwrap();
        for (n, row) in bytes.chunks(32).enumerate().filter(|(_, row)| row.iter().any(|byte| *byte != 0)) {
            let digits: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{:06x} {digits}", n * 32).unwrap();
        }
    }
    text
}

/// Makes the files that `dump` wrote.
fn unpack(text: &str, dir: &Path) {
    fs::create_dir(dir).unwrap();
    let mut file: (PathBuf, Vec<u8>) = Default::default();
    for line in text.lines() {
        match *line.split(' ').collect::<Vec<_>>() {
            ["file", name, length] => {
                let next = (dir.join(name), vec![0; length.parse().unwrap()]);
                let (path, bytes) = std::mem::replace(&mut file, next);
                if !bytes.is_empty() {
                    fs::write(path, bytes).unwrap();
                }
            }
            [at, digits] => {
                let at = usize::from_str_radix(at, 16).unwrap();
                for (n, pair) in digits.as_bytes().chunks(2).enumerate() {
                    file.1[at + n] = u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
                }
            }
            _ => panic!("{line}"),
        }
    }
    fs::write(file.0, file.1).unwrap();
}
