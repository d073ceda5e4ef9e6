//! Records that are damaged or left over: errors of their row, and of no other.

use waxseal_table::{ErrorKind, Row};

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
