//! The annotated bytes of a small table. If this test fails, the format has changed, which requires a new format level.
//! `BLESS=1 cargo test -p waxseal-lsm golden` rewrites the file.

use super::*;
use crate::cursor::Cursor;
use crate::prefix_extractor::PrefixExtractor;
use crate::table_property::TableProperty;
use std::fmt::Write;

fn dump(bytes: &[u8], table: &Table) -> String {
    let mut out = String::new();
    let mut section = |name: &str, from: u64, to: u64| {
        writeln!(out, "# {name}").unwrap();
        for (row, line) in bytes[from as usize..to as usize].chunks(16).enumerate() {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let text: String =
                line.iter().map(|byte| if (32..127).contains(byte) { *byte as char } else { '.' }).collect();
            writeln!(out, "{:06x}  {:<47}  {text}", from as usize + row * 16, hex.join(" ")).unwrap();
        }
    };
    section("header", 0, 64);
    for number in 0..table.blocks() {
        let handle = table.handle(number).unwrap();
        section(&format!("data block {number}"), handle.offset, handle.end() - 5);
        section("codec and crc", handle.end() - 5, handle.end());
    }
    for (number, span) in table.table_index.spans().iter().enumerate() {
        section(&format!("index part {number}, with codec and crc"), span.index.offset, span.index.end());
        section(&format!("filter part {number}, with codec and crc"), span.filter.offset, span.filter.end());
    }
    let size = bytes.len() as u64;
    let handle = |at: u64| u64::from_le_bytes(bytes[(size - 136 + at) as usize..][..8].try_into().unwrap());
    if table.table_index.spans().is_empty() {
        section("filter, with codec and crc", handle(20), handle(40));
    }
    section("properties, with codec and crc", handle(40), handle(0));
    let last = if table.table_index.spans().is_empty() { "index" } else { "top" };
    section(&format!("{last}, with codec and crc"), handle(0), size - 136);
    section("handles: index, filter, properties, range deletes, side", size - 136, size - 36);
    section("zero, base seqno, digest", size - 36, size - 16);
    section("check, magic", size - 16, size);
    out
}

fn small() -> Vec<Owned> {
    vec![
        Owned::put(b"", 1000, b"the empty key").sealed(),
        Owned::put(b"apple", 1003, b"red").sealed(),
        Owned { kind: Kind::Delete, ..Owned::put(b"apple", 1001, b"") }.sealed(),
        Owned::put(b"applet", 0, b"seqno 0").sealed(),
        Owned { companion: vec![0xF0, 1, 2, 3, 4, 0x0F, 2, 8, 9], ..Owned::put(b"banana", 1002, b"yellow") },
        Owned::put(b"cherry", 1300, &[b'x'; 80]).sealed(),
    ]
}

#[test]
fn the_bytes_of_a_small_table() {
    let mut text = String::new();
    for (title, seal_column) in [("companions inline", false), ("companions in a column where they can be", true)] {
        let settings =
            WriterSettings { base_seqno: 1000, restart_interval: 2, block_bytes: 160, seal_column, ..settings() };
        let (file, finished) = written(&small(), &settings);
        let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(0)));
        writeln!(text, "## {title}").unwrap();
        text.push_str(&dump(&file.bytes(), &table));
    }
    compare(&text, concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/table.txt"));
}

/// A table that names the store which it was written for.
#[test]
fn the_bytes_of_a_table_of_a_store() {
    let store = Some(Uid(*b"uid of a store.."));
    let settings = WriterSettings { base_seqno: 1000, restart_interval: 2, block_bytes: 160, store, ..settings() };
    let (file, finished) = written(&small(), &settings);
    let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(0)));
    assert_eq!(table.properties().store, store);
    compare(&dump(&file.bytes(), &table), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/owned.txt"));
}

/// A table whose filter knows prefixes: `appl` of two keys, and none of the empty key.
#[test]
fn the_bytes_of_a_table_with_prefixes() {
    let prefix_extractor = Some(PrefixExtractor::Fixed(4));
    let settings =
        WriterSettings { base_seqno: 1000, restart_interval: 2, block_bytes: 160, prefix_extractor, ..settings() };
    let (file, finished) = written(&small(), &settings);
    let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(0)));
    assert_eq!(table.properties().prefix_extractor, prefix_extractor);
    table.verify(&Sealer, &mut |_| Ok(())).unwrap();
    compare(&dump(&file.bytes(), &table), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/prefixes.txt"));
}

/// A table with properties that an application collected.
#[test]
fn the_bytes_of_a_table_with_properties() {
    let property = |name: &str, at: usize| {
        TableProperty::new(name, move |key, _, add| {
            key.get(at).iter().for_each(|byte| add(&[**byte]));
            Ok(())
        })
    };
    let properties = vec![property("second", 1), property("first", 0), property("ninth", 8)];
    let settings = WriterSettings { base_seqno: 1000, restart_interval: 2, block_bytes: 160, properties, ..settings() };
    let (file, finished) = written(&small(), &settings);
    let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(0)));
    for (item, is_there) in [(b"a", true), (b"b", true), (b"c", true), (b"d", false)] {
        assert_eq!(table.properties().collected.may_have("first", item), is_there);
        assert!(!table.properties().collected.may_have("ninth", item));
    }
    compare(&dump(&file.bytes(), &table), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/properties.txt"));
}

#[test]
fn the_bytes_of_a_cut_table() {
    let settings = WriterSettings { base_seqno: 1000, restart_interval: 2, block_bytes: 60, ..settings() };
    let file = Memory::of(Vec::new());
    let writer = Writer::new(file.clone(), UID, settings.clone(), Arc::new(Sealer)).created_by("golden");
    let mut writer = writer.cut_into(1);
    small().iter().for_each(|record| writer.add(&record.borrow()).unwrap());
    let finished = writer.finish().unwrap();
    let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(0)));
    assert!(table.table_index.spans().len() > 2);
    compare(&dump(&file.bytes(), &table), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/cut.txt"));
}

/// Earlier builds wrote property 15, a synopsis of companions. Such a table must stay readable.
#[test]
fn a_table_with_property_15_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/collected.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.get(8..55));
    let bytes = rows.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap());
    let file = Memory::of(bytes.collect());
    let expected = Table::identify(NAME, &*file).unwrap();
    let cache = Arc::new(Cache::new(0));
    let table = Table::open(NAME.into(), file, expected, Order::bytewise(), cache, Arc::new(Sealer)).unwrap();
    table.verify(&Sealer, &mut |_| Ok(())).unwrap();
    let (mut cursor, mut found) = (table.cursor(false), Vec::new());
    cursor.first().unwrap();
    while cursor.valid() {
        found.push(Owned::of(&cursor.record()));
        cursor.next().unwrap();
    }
    assert_eq!(found, small());
}

#[expect(clippy::disallowed_methods, reason = "a golden file is no file of a store")]
fn compare(text: &str, path: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let kept = String::from_utf8(std::fs::read(path).unwrap()).unwrap();
    assert_eq!(text, kept, "the format has changed");
}
