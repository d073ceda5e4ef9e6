//! Long operations, which run in a lane: ingestion, loads, cursors of the change feed, compactions of ranges, exchange,
//! scrubs, salvage.

use std::path::{Path, PathBuf};

use waxseal::exchange::ExportOptions;
use waxseal::{AsyncDb, ChangeReach, Error, ErrorKind, IngestOptions, TableWriter, WriteOptions};

use super::support::*;

/// A second path beside a store's.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}

#[test]
fn files_are_ingested_into_several_families_at_once() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let (one, other) = (db.column_family("one").await.unwrap(), db.column_family("other").await.unwrap());
        let file = |name: &str, family: &waxseal::AsyncColumnFamily| {
            let at = beside(&path, name);
            TableWriter::create(&at, family.blocking()).unwrap().put(name, "1").unwrap().finish().unwrap();
            at
        };
        let (a, b) = (file("a", &one), file("b", &other));
        let missing = [(&one, [&a]), (&other, [&beside(&path, "missing")])];
        assert!(db.ingest_families(missing, IngestOptions::default()).await.is_err());
        assert!(one.is_empty().await.unwrap(), "all families or none");
        let ingested = db.ingest_families([(&one, [&a]), (&other, [&b])], IngestOptions::default()).await.unwrap();
        assert_eq!(ingested.records, 2);
        assert!(one.contains("a").await.unwrap() && other.contains("b").await.unwrap());
        db.close().await.unwrap();
    });
}

#[test]
fn a_load_from_a_source_that_fails_changes_nothing() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        let rows = |last: usize| {
            (0..100).map(move |n| if n < last { Ok((key(n), "1")) } else { Err(Error::invalid("no more rows")) })
        };
        let error = db.try_bulk_load(&cf, rows(50)).await.unwrap_err();
        assert!(error.to_string().contains("no more rows"), "{error}");
        assert!(cf.is_empty().await.unwrap());
        assert_eq!(db.try_bulk_load(&cf, rows(100)).await.unwrap().records, 100);
        assert!(cf.contains(key(99)).await.unwrap());
        let failing = |_: Option<&[u8]>| Err::<Option<&str>, _>(Error::invalid("not now"));
        let error = cf.try_update_with(key(0), failing, WriteOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("not now"), "{error}");
        assert_eq!(cf.get(key(0)).await.unwrap().unwrap(), "1");
        db.close().await.unwrap();
    });
}

#[test]
fn a_cursor_of_the_change_feed_keeps_its_place() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        let cursor = db.change_cursor("copy").await.unwrap();
        let start = cursor.position().await.unwrap();
        cf.put_with("a", "1", synced()).await.unwrap();
        cf.put_with("b", "2", synced()).await.unwrap();
        let changes = cursor.changes().await.unwrap();
        assert_eq!(changes.next().await.unwrap().unwrap().key(), b"a");
        let first = changes.position().await.unwrap();
        assert!(first != start && cursor.position().await.unwrap() == start, "a read moves no cursor");
        cursor.advance(first).await.unwrap();
        assert!(db.change_position().await.unwrap() != first);
        drop((changes, cursor, cf));
        db.close().await.unwrap();

        let db = AsyncDb::open(&path).await.unwrap();
        let cursor = db.change_cursor("copy").await.unwrap();
        assert_eq!(db.change_cursors().await.unwrap(), [("copy".to_owned(), first)]);
        assert_eq!(cursor.changes().await.unwrap().next().await.unwrap().unwrap().key(), b"b");
        let visible = db.changes_within(first, ChangeReach::Visible).await.unwrap();
        assert_eq!(visible.next().await.unwrap().unwrap().key(), b"b");
        assert_eq!(cursor.name(), "copy");
        cursor.clone().remove().await.unwrap();
        assert_eq!(cursor.position().await.unwrap_err().kind(), &ErrorKind::Invalid);
        assert!(db.change_cursors().await.unwrap().is_empty());
        db.close().await.unwrap();
    });
}

#[test]
fn a_range_is_compacted_and_exported() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for round in 0..2u8 {
            for n in 0..100 {
                cf.put(key(n), [round; 50]).await.unwrap();
            }
            db.flush().await.unwrap();
        }
        cf.compact_range(key(200)..).await.unwrap();
        let before = cf.approximate_size(..).await.unwrap();
        cf.compact_range(key(10)..key(20)).await.unwrap();
        assert!(cf.approximate_size(..).await.unwrap() < before, "the overwritten records are gone");

        let (parcel, copy) = (beside(&path, "parcel"), AsyncDb::open(beside(&path, "copy")).await.unwrap());
        let exported = cf.export(&parcel, ExportOptions::new().range(key(10)..key(20))).await.unwrap();
        assert_eq!(exported.records, 10);
        assert!(cf.export(&parcel, ExportOptions::new()).await.is_err(), "the directory has an export");
        let taker = copy.column_family("default").await.unwrap();
        assert_eq!(taker.import(&parcel).await.unwrap().records, 10);
        assert_eq!(taker.get(key(15)).await.unwrap().unwrap(), [1u8; 50]);
        copy.close().await.unwrap();
        db.close().await.unwrap();
    });
}

#[test]
fn damage_is_found_by_a_scrub_and_left_out_by_a_salvage() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..2000 {
            cf.put(key(n), [n as u8; 50]).await.unwrap();
        }
        db.settle().await.unwrap();
        assert!(db.scrub().await.unwrap().is_clean());
        drop(cf);
        db.close().await.unwrap();
        assert!(db.scrub().await.is_err(), "closed");
        let table = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let table = table.filter(|file| file.extension().is_some_and(|end| end == "tbl")).max().unwrap();
        let mut bytes = std::fs::read(&table).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0xa5);
        std::fs::write(&table, bytes).unwrap();

        let db = AsyncDb::open(&path).await.unwrap();
        assert!(!db.scrub().await.unwrap().is_clean());
        db.close().await.unwrap();
        let saved = beside(&path, "saved");
        assert!(!AsyncDb::salvage(&path, &saved).await.unwrap().is_clean());
        let db = AsyncDb::open(&saved).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        assert_eq!(cf.get(key(0)).await.unwrap().unwrap(), [0u8; 50]);
        assert_eq!(cf.get(key(1999)).await.unwrap().unwrap(), [1999usize as u8; 50]);
        db.close().await.unwrap();
    });
}
