//! Scripts of a memtable: `scripts/memtable`.
//!
//! ```text
//! put a 5 red [term=7], delete a 6     one record: key, seqno, value
//! get a [at=5]                         the newest version at or below a seqno
//! walk, walk back                      all records, with a new cursor
//! seek a at=5, seek-back a at=5        stands at or after, at or before; then next, prev
//! ledger                               counts and sums of the inserted records
//! ```

use std::sync::Arc;

use waxseal_testing::golden::{self, number};

use super::*;
use crate::cursor::Cursor;
use crate::record::MAX_SEQNO;

/// A memtable and a cursor over it.
struct MemtableStage {
    table: Arc<Memtable>,
    cursor: MemtableCursor,
}

#[test]
fn scripts_tell_what_a_memtable_does() {
    let fresh = || {
        let table = Arc::new(Memtable::with_budget(Order::bytewise(), 64 << 10));
        MemtableStage { cursor: table.cursor(), table }
    };
    golden::run("scripts/memtable", fresh, |stage, input| input.lines().map(|line| step(stage, line)).collect());
}

fn step(stage: &mut MemtableStage, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let key = words.get(1).copied().unwrap_or_default().as_bytes();
    let (table, cursor) = (&stage.table, &mut stage.cursor);
    match words[0] {
        "put" => insert(table, Kind::Put, key, &words, number(line, "term", 0)),
        "delete" => insert(table, Kind::Delete, key, &words, number(line, "term", 0)),
        "get" => {
            let mut out = format!("{}: none\n", words[1]);
            table.get(key, number(line, "at", MAX_SEQNO), &mut |record| out = described(record));
            out
        }
        "walk" => walk(table, words.get(1) == Some(&"back")),
        "ledger" => ledger(table),
        _ => {
            match words[0] {
                "seek" => cursor.seek(key, number(line, "at", MAX_SEQNO)).unwrap(),
                "seek-back" => cursor.seek_for_prev(key, number(line, "at", 0)).unwrap(),
                "next" => cursor.next().unwrap(),
                "prev" => cursor.prev().unwrap(),
                other => panic!("no such step: {other}"),
            }
            if cursor.valid() { described(&cursor.record()) } else { "nowhere\n".to_owned() }
        }
    }
}

fn insert(table: &Memtable, kind: Kind, key: &[u8], words: &[&str], term: u64) -> String {
    let value = words.get(3).filter(|word| !word.contains('=')).copied().unwrap_or_default().as_bytes();
    let seqno = words[2].parse().unwrap();
    table.insert(&Record { key, seqno, kind, value, companion: &[] }, term).unwrap();
    String::new()
}

fn walk(table: &Arc<Memtable>, back: bool) -> String {
    let mut cursor = table.cursor();
    let mut out = String::new();
    if back {
        cursor.last().unwrap()
    } else {
        cursor.first().unwrap()
    }
    while cursor.valid() {
        out += &described(&cursor.record());
        if back { cursor.prev().unwrap() } else { cursor.next().unwrap() }
    }
    if out.is_empty() { "nothing\n".to_owned() } else { out }
}

fn described(record: &Record<'_>) -> String {
    let Record { key, seqno, kind, value, .. } = record;
    match kind {
        Kind::Put => format!("{}@{seqno} {}\n", key.escape_ascii(), value.escape_ascii()),
        _ => format!("{}@{seqno} deleted\n", key.escape_ascii()),
    }
}

fn ledger(table: &Memtable) -> String {
    let Ledger { puts, deletes, .. } = table.ledger();
    let seqnos = match (table.least_seqno(), table.greatest_seqno()) {
        (Some(least), Some(greatest)) => format!("seqnos {least} to {greatest}"),
        _ => "no seqnos".to_owned(),
    };
    let (put_count, delete_count) = (puts.count, deletes.count);
    format!("{put_count} puts, sum {}; {delete_count} deletes, sum {}; {seqnos}\n", puts.sum, deletes.sum)
}
