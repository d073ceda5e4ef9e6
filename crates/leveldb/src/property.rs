//! Properties of a store, by LevelDB's names, and two of Waxseal's own.
//!
//! | name | answer |
//! |---|---|
//! | `leveldb.num-files-at-level<N>` | the number of table files of a level, 0 to 6 |
//! | `leveldb.stats` | a table of the levels, then all counters of the store |
//! | `leveldb.sstables` | the table files of each level, with their bounds |
//! | `leveldb.approximate-memory-usage` | bytes in the block cache (all of a shared one) and in memtables |
//! | `waxseal.options` | what the store was opened with |
//! | `waxseal.options` | the options of the open |

use std::fmt::Write as _;

use waxseal::{FamilyMetrics, LevelMetrics, Result, TableInfo};

use crate::store::{FAMILY, Store};

/// Levels are 0 to 6, as in LevelDB.
const LEVELS: usize = 7;

/// Returns the text of a property; `None` for an unknown name.
pub(crate) fn property(store: &Store, name: &[u8]) -> Result<Option<String>> {
    let name = std::str::from_utf8(name).unwrap_or_default();
    if let Some(level) = name.strip_prefix("leveldb.num-files-at-level").and_then(level) {
        return Ok(Some(files_at(store, level)?));
    }
    Ok(match name {
        "leveldb.stats" => Some(stats(store)),
        "leveldb.sstables" => Some(tables(&store.family().tables()?)),
        "leveldb.approximate-memory-usage" => Some(memory(store).to_string()),
        "waxseal.options" => Some(store.options().to_owned()),
        "waxseal.metrics" => Some(store.db().metrics().to_string()),
        _ => None,
    })
}

/// Parses the number of a level.
fn level(digits: &str) -> Option<usize> {
    let level = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    level.filter(|level| *level < LEVELS)
}

fn files_at(store: &Store, level: usize) -> Result<String> {
    let tables = store.family().tables()?;
    Ok(tables.iter().filter(|table| table.level == level).count().to_string())
}

fn stats(store: &Store) -> String {
    let metrics = store.db().metrics();
    let family = metrics.families.iter().find(|family| family.name == FAMILY);
    let mut text = "                               Levels\nLevel  Files Size(MB)   Records Tombstones\n".to_owned();
    text.push_str("--------------------------------------------\n");
    let filled = |level: &&LevelMetrics| level.tables > 0;
    for level in family.iter().flat_map(|family| &family.levels).filter(filled) {
        let LevelMetrics { level, tables, bytes, records, tombstones, .. } = level;
        let megabytes = *bytes as f64 / 1_048_576.0;
        let _ = writeln!(text, "{level:3} {tables:8} {megabytes:8.0} {records:9} {tombstones:10}"); // to a string
    }
    let _ = write!(text, "{metrics}");
    text
}

/// Formats tables as LevelDB does: a line per level, then ` number:bytes[smallest .. largest]` for each table.
fn tables(tables: &[TableInfo]) -> String {
    let mut text = String::new();
    for level in 0..LEVELS {
        let _ = writeln!(text, "--- level {level} ---");
        for table in tables.iter().filter(|table| table.level == level) {
            let (from, to) = (table.smallest.escape_ascii(), table.largest.escape_ascii());
            let (least, greatest) = table.seqnos;
            let TableInfo { number, bytes, .. } = table;
            let _ = writeln!(text, " {number}:{bytes}['{from}' .. '{to}'] @ {least} .. {greatest}");
        }
    }
    text
}

fn memory(store: &Store) -> u64 {
    let metrics = store.db().metrics();
    let of = |family: &FamilyMetrics| family.memtable_bytes + family.frozen as u64 * store.write_buffer_bytes();
    metrics.cache.used_bytes + metrics.families.iter().map(of).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_name_a_level() {
        assert_eq!(
            ["0", "6", "06", "7", "", "+1", "1 ", "99999999999999999999"].map(level),
            [Some(0), Some(6), Some(6), None, None, None, None, None]
        );
    }
}
