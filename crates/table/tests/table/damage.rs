//! Records that are damaged or left over: errors of their row, and of no other.

use std::path::Path;

use waxseal::Db;
use waxseal_lsm::env::sim::SimFs;
use waxseal_table::{Changes, ColumnType, ErrorKind, Index, Row, Schema, Select, Table, Tables, Value};

use crate::store::{book, books, fill, memory, volumes};

#[test]
fn a_damaged_record_is_an_error_of_its_row() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    fill(&table);
    let rows = tables.db().column_family("waxseal_tables-1-rows").unwrap();
    let keys: Vec<_> = rows.iter().keys().map(Result::unwrap).collect();
    for (record, kind) in [
        (&b""[..], ErrorKind::Corruption),
        (b"\x00", ErrorKind::Corruption),
        (b"\x02", ErrorKind::FormatTooNew),
        (b"\x01\x03\x02\x05ab", ErrorKind::Corruption),
        (b"\x01\x03\x00a", ErrorKind::Corruption),
        (b"\x01\x03\x63a", ErrorKind::FormatTooNew),
        (b"\x01\x03\x80\x01a", ErrorKind::FormatTooNew),
        (b"\x01\x03\x04\x00\x00\x00\x00", ErrorKind::Corruption),
    ] {
        rows.put(&keys[1], record).unwrap();
        assert_eq!(table.get(("Austen", 1813)).unwrap_err().kind(), kind, "{record:?}");
        if kind == ErrorKind::FormatTooNew {
            continue;
        }
        for is_reverse in [false, true] {
            let select = if is_reverse { table.select().reverse() } else { table.select() };
            let found: Vec<_> = select.rows().unwrap().collect();
            let failed: Vec<_> = found.iter().filter_map(|row| row.as_ref().err()).collect();
            assert_eq!((found.len(), failed.len()), (5, 1), "{record:?}");
            assert!(failed[0].is_corruption());
        }
    }
    table.upsert(book("Austen", 1813, "Pride and Prejudice")).unwrap();
    rows.put(b"no key of a row", "").unwrap();
    let found: Vec<_> = table.select().rows().unwrap().collect();
    assert_eq!((found.len(), found.iter().filter(|row| row.is_err()).count()), (6, 1));
}

#[test]
fn records_without_group_0_are_no_row() {
    let tables = memory();
    let table = tables.create("corpus.volumes", volumes()).unwrap();
    let volume = |name: &str| Row::new().with("volume", name).with("zip", b"zip").with("label", 1);
    for name in ["1", "2", "3"] {
        table.insert(volume(name)).unwrap();
    }
    let rows = tables.db().column_family("waxseal_tables-1-rows").unwrap();
    rows.delete(b"2\0\x01").unwrap();
    assert_eq!(table.get("2").unwrap(), None);
    for is_reverse in [false, true] {
        let select = if is_reverse { table.select().reverse() } else { table.select() };
        let mut found: Vec<_> = select.rows().unwrap().map(Result::unwrap).collect();
        if is_reverse {
            found.reverse();
        }
        assert_eq!(found, [volume("1"), volume("3")]);
    }
    table.insert(Row::new().with("volume", "2")).unwrap();
    assert_eq!(table.get("2").unwrap(), Some(Row::new().with("volume", "2")));
    // A damaged group is an error of its row, also where it is not the first record.
    rows.put(b"2\0\x01\0\x01", b"\0").unwrap();
    assert!(table.get("2").unwrap_err().is_corruption());
    for is_reverse in [false, true] {
        let select = if is_reverse { table.select().reverse() } else { table.select() };
        let found: Vec<_> = select.rows().unwrap().collect();
        assert_eq!((found.len(), found.iter().filter(|row| row.is_err()).count()), (3, 1));
    }
    assert_eq!(table.select().columns(["volume"]).count().unwrap(), 3);
}

#[test]
fn a_damaged_row_keeps_its_entries_until_it_is_written_over() {
    let indexed = || books().index(Index::on("by_title", ["title"]).unique()).index(Index::on("by_price", ["price"]));
    let priced = |year: i32, title: &str| book("Austen", year, title).with("price", Value::from(year));
    let writes: [fn(&Table); 4] = [
        |table| table.upsert(book("Austen", 1813, "Emma?")).unwrap(),
        |table| table.delete(("Austen", 1813)).unwrap(),
        |table| table.delete_range("Austen", 1812..1814).unwrap(),
        |table| table.delete_partition("Austen").unwrap(),
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let tables = memory();
        let table = tables.create("library.books", indexed()).unwrap();
        for (year, title) in [(1811, "Sense"), (1813, "Pride"), (1815, "Emma")] {
            table.insert(priced(year, title)).unwrap();
        }
        let rows = tables.db().column_family("waxseal_tables-1-rows").unwrap();
        let keys: Vec<_> = rows.iter().keys().map(Result::unwrap).collect();
        rows.put(&keys[1], b"\0").unwrap();
        let by_title = |title: &str| table.select().index("by_title").prefix(title).count().unwrap();
        assert_eq!(table.rebuild_index("by_title").unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!([by_title("Sense"), by_title("Emma")], [1, 1], "the index is as it was");
        assert_eq!(table.insert(book("Austen", 1820, "Pride")).unwrap_err().kind(), ErrorKind::Exists);
        if number % 2 == 0 {
            assert_eq!(table.repair_indexes().unwrap_err().kind(), ErrorKind::Corruption);
            let report = table.verify_indexes().unwrap();
            assert_eq!((report.damaged, report.missing, report.stale, report.entries), (3, 0, 0, 6), "{report:?}");
        }
        write(&table);
        let report = table.verify_indexes().unwrap();
        assert!(report.is_clean(), "{number}: {report:?}");
        assert_eq!(table.repair_indexes().unwrap(), 2);
        table.upsert(book("Austen", 1820, "Pride")).unwrap();
    }
}

/// Bytes that are not compressed away, different for each number.
pub(crate) fn noise(number: u64) -> Vec<u8> {
    let step = |state: u64| (state ^ (state >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number);
    std::iter::successors(Some(step(number + 1)), |state| Some(step(*state)))
        .take(10)
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// A row with records in other groups, whose group 0 is newer than them for some rows.
fn grouped_row(number: i64) -> Row {
    let value = if (30..40).contains(&number) { "new" } else { "old" };
    Row::new().with("number", number).with("value", value).with("large", noise(number as u64)).with_entry(
        "pages",
        "1",
        "text",
        noise(1000 + number as u64),
    )
}

#[test]
fn damage_below_newer_records_leaves_no_row_without_its_groups() {
    let (disk, path) = (SimFs::new(1), Path::new("/store"));
    let builder = || Db::builder(path).env(disk.env(1)).block_bytes(1024);
    let schema = Schema::new()
        .partition_key("number", ColumnType::I64)
        .column("value", ColumnType::Text)
        .column_in("other", "large", ColumnType::Bytes)
        .repeated_group("pages")
        .column_in("pages", "text", ColumnType::Bytes);
    let tables = Tables::open(&builder().open().unwrap()).unwrap();
    let table = tables.create("a.b", schema).unwrap();
    (0..60).for_each(|number| table.insert(grouped_row(number).with("value", "old")).unwrap());
    tables.db().flush().unwrap();
    tables.db().column_family("waxseal_tables-1-rows").unwrap().compact().unwrap();
    (30..40).for_each(|number| _ = table.update(number, Changes::new().set("value", "new")).unwrap());
    tables.db().flush().unwrap();
    tables.db().close().unwrap();
    drop((table, tables));

    let tables = disk.files(path).into_iter().filter(|name| name.ends_with(".tbl")).map(|name| path.join(name));
    let (largest, whole) = tables
        .map(|table| (table.clone(), disk.read_all(table).unwrap()))
        .max_by_key(|(_, bytes)| bytes.len())
        .unwrap();
    let scans: [for<'a> fn(Select<'a>) -> Select<'a>; 4] = [
        |select| select,
        |select| select.reverse(),
        |select| select.columns(["number", "large"]),
        |select| select.range(31i64..39),
    ];
    let mut failed = 0;
    for at in (4096..whole.len()).step_by(300) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x5A;
        disk.write_all(&largest, &damaged).unwrap();
        let tables = Tables::open(&builder().open_read_only().unwrap()).unwrap();
        let table = tables.table("a.b").unwrap();
        for scan in scans {
            for row in scan(table.select()).rows().unwrap() {
                let Ok(row) = row.inspect_err(|error| assert!(error.is_corruption(), "{error}")) else {
                    failed += 1;
                    continue;
                };
                let number = row.get("number").unwrap().as_i64().unwrap();
                assert_eq!(row.get("large"), grouped_row(number).get("large"), "row {number}, byte {at}");
                if row.get("value").is_some() {
                    assert_eq!(row, grouped_row(number), "byte {at}");
                }
            }
        }
    }
    assert!(failed > 100, "{failed}");
}
