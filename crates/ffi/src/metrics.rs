//! Metrics of a store: one by name, all as JSON, all as text; and the result of its recovery.
//!
//! Each metric has a name, a dotted path: `flushes`, `cache.loads`, `family.users.level.0.tables`. All functions here
//! use one list of metrics.

use std::fmt::Write as _;

use face::{Db, FamilyMetrics, Metrics};

use crate::bytes::{give, waxseal_bytes_t};
use crate::call::answer;
use crate::db::waxseal_db_t;
use crate::error::waxseal_error_t;
use crate::handle::with;
use crate::lent::{lent, out};

/// The recovery of the log when the store was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_recovery_t {
    /// Number of replayed commits.
    pub commits: u64,
    /// Bytes of the log that were cut as a torn tail, or as damage where that was accepted. 0 after a clean close.
    pub cut_bytes: u64,
    /// The position where the log was cut, in bytes from its beginning; `UINT64_MAX` if it was not cut.
    pub cut_at: u64,
    /// Bytes of acknowledged commits that are missing. 0 unless the machine failed; a lower bound if
    /// `may_lack_unsynced`.
    pub acknowledged_bytes_missing: u64,
    /// 1 if the store had not been closed, and the machine failed or the store was moved to another device: an unknown
    /// number of acknowledged but unsynced commits may be missing. Otherwise 0.
    pub may_lack_unsynced: u64,
    /// Number of damaged values of commits in the log: reads of their keys return `WAXSEAL_CORRUPTION` until the keys
    /// are overwritten or repaired.
    pub lost_values: u64,
}

/// Returns all metrics of a store, with their names.
fn numbers(db: &Db) -> Vec<(String, u64)> {
    let metrics = db.metrics();
    let mut all: Vec<(String, u64)> = fixed(&metrics).into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
    for family in &metrics.families {
        of_family(family, &mut all);
    }
    all
}

fn fixed(metrics: &Metrics) -> Vec<(&'static str, u64)> {
    let Metrics { wal, memory, cache, integrity, .. } = metrics;
    vec![
        ("visible_seqno", metrics.visible_seqno),
        ("snapshots", metrics.snapshots as u64),
        ("flushes", metrics.flushes),
        ("flushed_bytes", metrics.flushed_bytes),
        ("compactions", metrics.compactions),
        ("moves", metrics.moves),
        ("compacted_read", metrics.compacted_read),
        ("compacted_written", metrics.compacted_written),
        ("subcompactions", metrics.subcompactions),
        ("paced_nanos", metrics.paced_nanos),
        ("stalls", metrics.stalls),
        ("stall_nanos", metrics.stall_nanos),
        ("longest_stall_nanos", metrics.longest_stall_nanos),
        ("manifest_rotations", metrics.manifest_rotations),
        ("mended", metrics.mended),
        ("adopted", metrics.adopted),
        ("values_moved", metrics.values_moved),
        ("values_unreadable", metrics.values_unreadable),
        ("expired", metrics.expired),
        ("dropped_tables", metrics.dropped_tables),
        ("dropped_bytes", metrics.dropped_bytes),
        ("open_tables", metrics.open_tables as u64),
        ("open_files", metrics.open_files as u64),
        ("index_bytes", metrics.index_bytes),
        ("wal.mapped", u64::from(wal.mapped)),
        ("wal.frames", wal.frames),
        ("wal.frame_bytes", wal.frame_bytes),
        ("wal.filler_bytes", wal.filler_bytes),
        ("wal.large_frames", wal.large_frames),
        ("wal.drains", wal.drains),
        ("wal.groups", wal.groups),
        ("wal.syncs", wal.syncs),
        ("wal.turnovers", wal.turnovers),
        ("wal.recycled", wal.recycled),
        ("wal.waits_for_room", wal.waits_for_room),
        ("wal.waits_for_segment", wal.waits_for_segment),
        ("wal.longest_wait_nanos", wal.longest_wait_nanos),
        ("wal.live_bytes", wal.live_bytes),
        ("wal.needed_bytes", wal.needed_bytes),
        ("wal.limit_bytes", wal.limit_bytes),
        ("wal.early_freezes", wal.early_freezes),
        ("memory.budget_bytes", memory.budget_bytes),
        ("memory.memtable_bytes", memory.memtable_bytes),
        ("memory.block_bytes", memory.block_bytes),
        ("memory.other_bytes", memory.other_bytes),
        ("memory.held_by_callers_bytes", memory.held_by_callers_bytes),
        ("cache.budget_bytes", cache.budget_bytes),
        ("cache.used_bytes", cache.used_bytes),
        ("cache.blocks", cache.blocks),
        ("cache.loads", cache.loads),
        ("cache.evictions", cache.evictions),
        ("cache.refused", cache.refused),
        ("cache.warmed", cache.warmed),
        ("cache.charged_bytes", cache.charged_bytes),
        ("integrity.doubted", integrity.doubted),
        ("integrity.read_again", integrity.read_again),
        ("integrity.corrected", integrity.corrected),
        ("integrity.damaged_blocks", integrity.damaged_blocks),
        ("integrity.damaged_in_memory", integrity.damaged_in_memory),
        ("integrity.gaps_met", integrity.gaps_met),
        ("integrity.fences_met", integrity.fences_met),
    ]
}

fn of_family(family: &FamilyMetrics, all: &mut Vec<(String, u64)>) {
    let FamilyMetrics { name, values, .. } = family;
    let mut add = |what: &str, number: u64| all.push((format!("family.{name}.{what}"), number));
    add("memtable_bytes", family.memtable_bytes);
    add("frozen", family.frozen as u64);
    add("values.files", values.files as u64);
    add("values.bytes", values.bytes);
    add("values.values", values.values);
    add("values.garbage", values.garbage);
    for level in &family.levels {
        let mut add = |what: &str, number: u64| add(&format!("level.{}.{what}", level.level), number);
        add("tables", level.tables as u64);
        add("bytes", level.bytes);
        add("target_bytes", level.target_bytes);
        add("records", level.records);
        add("tombstones", level.tombstones);
    }
}

/// The number of this name. One of a family costs a look at that family: a caller may ask for each of many families.
fn number_of(db: &Db, name: &str) -> Option<u64> {
    let Some(rest) = name.strip_prefix("family.") else {
        return fixed(&db.metrics()).into_iter().find(|(known, _)| *known == name).map(|(_, number)| number);
    };
    // Names of families may have dots, as their numbers have.
    rest.match_indices('.').find_map(|(at, _)| {
        let mut numbers = Vec::new();
        of_family(&db.family_metrics(rest.get(..at)?)?, &mut numbers);
        numbers.into_iter().find(|(known, _)| known == name).map(|(_, number)| number)
    })
}

/// One JSON object, name by name.
fn json(numbers: &[(String, u64)]) -> String {
    let mut text = String::from("{");
    for (index, (name, number)) in numbers.iter().enumerate() {
        text.push_str(if index == 0 { "\"" } else { ",\"" });
        for c in name.chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                c if u32::from(c) < 0x20 => {
                    let _ = write!(text, "\\u{:04x}", u32::from(c));
                }
                c => text.push(c),
            }
        }
        let _ = write!(text, "\":{number}");
    }
    text + "}"
}

/// Returns one metric of a store by its name: `flushes`, `compactions`, `cache.used_bytes`, `wal.syncs`,
/// `family.default.memtable_bytes`, `family.default.level.0.tables`, ..; `waxseal_metrics_json` lists all names.
/// `WAXSEAL_NOT_FOUND` for an unknown name.
///
/// Thread-safe. A number of a family costs a look at the family's tables, any other one a look at all tables: ask for all at once where you
/// need many. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_metric(
    db: *const waxseal_db_t,
    name: *const u8,
    name_len: usize,
    number: *mut u64,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, number, error) = unsafe { (lent(name, name_len), out(number), out(error)) };
    answer(error, || {
        let (number, name) = (number.needed("number")?, name.text("name")?);
        let found = with(db, |db| Ok(number_of(db, name)))?;
        Ok(found.map(|found| number.set(found)).is_some())
    })
}

/// Returns all metrics of a store as one JSON object: names as of `waxseal_metric`, values as integers. Counters start
/// at the open.
///
/// Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_metrics_json(
    db: *const waxseal_db_t,
    text: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (text, error) = unsafe { (out(text), out(error)) };
    answer(error, || {
        let text = text.needed("text")?;
        let all = with(db, |db| Ok(numbers(db)))?;
        give(text, json(&all).as_bytes())
    })
}

/// Returns all metrics of a store as text for people.
///
/// Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_metrics_text(
    db: *const waxseal_db_t,
    text: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (text, error) = unsafe { (out(text), out(error)) };
    answer(error, || {
        let text = text.needed("text")?;
        let told = with(db, |db| Ok(db.metrics().to_string()))?;
        give(text, told.as_bytes())
    })
}

/// Returns the result of the log's recovery when this store was opened: the replayed commits, and the bytes cut from
/// its torn end. `set_aside` may be null. Otherwise it receives the name of the file in the store's directory that
/// keeps the cut bytes, empty if none were cut.
///
/// Thread-safe. On success the caller owns `*set_aside` and frees it with `waxseal_bytes_destroy`. Errors:
/// `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_recovery(
    db: *const waxseal_db_t,
    recovery: *mut waxseal_recovery_t,
    set_aside: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (recovery, set_aside, error) = unsafe { (out(recovery), out(set_aside), out(error)) };
    answer(error, || {
        let recovery = recovery.needed("recovery")?;
        let report = with(db, |db| Ok(db.recovery()))?;
        if !set_aside.is_nowhere() {
            give(set_aside, report.set_aside.unwrap_or_default().as_bytes())?;
        }
        recovery.set(waxseal_recovery_t {
            commits: report.commits,
            cut_bytes: report.cut_bytes,
            cut_at: report.cut_at.unwrap_or(u64::MAX),
            acknowledged_bytes_missing: report.acknowledged_bytes_missing,
            may_lack_unsynced: u64::from(report.may_lack_unsynced),
            lost_values: report.lost_values,
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the paths of the numbers in the debug output of a struct; lists are skipped.
    fn told(text: &str) -> Vec<String> {
        let mut within: Vec<String> = Vec::new();
        let mut names = Vec::new();
        for line in text.lines().skip(1) {
            let deep = (line.len() - line.trim_start().len()) / 4;
            let Some((name, said)) = line.trim().split_once(": ") else { continue };
            within.truncate(deep - 1);
            within.push(name.to_owned());
            if said.trim_end_matches(',').parse::<u64>().is_ok()
                || said.starts_with("true")
                || said.starts_with("false")
            {
                names.push(within.join("."));
            }
        }
        names
    }

    #[test]
    fn whatever_rust_counts_has_a_name() {
        let fixed = fixed(&Metrics::default());
        let names: Vec<&str> = fixed.iter().map(|(name, _)| *name).collect();
        let told_of_store = told(&format!("{:#?}", Metrics::default()));
        assert!(told_of_store.len() > 40 && names.iter().all(|name| told_of_store.iter().any(|told| told == name)));
        for name in told_of_store {
            assert!(names.contains(&name.as_str()), "{name} has no name in C");
        }
        let family = FamilyMetrics { levels: vec![Default::default()], ..FamilyMetrics::default() };
        let mut all = Vec::new();
        of_family(&family, &mut all);
        let of_level = told(&format!("{:#?}", family.levels[0])).into_iter().filter(|name| name != "level");
        let of_level = of_level.map(|name| format!("level.0.{name}"));
        let own = FamilyMetrics::default();
        for name in told(&format!("{own:#?}")).into_iter().chain(of_level) {
            assert!(
                all.iter().any(|(known, _)| *known == format!("family..{name}")),
                "{name} of a family has no name in C"
            );
        }
    }

    #[test]
    fn each_name_finds_its_number() {
        let db = Db::memory().unwrap();
        for name in ["a", "a.b", "a.b.level.0", "a.frozen", ".", "é.ü"] {
            let family = db.column_family(name).unwrap();
            (0..1 + name.len() as u32).for_each(|n| family.put(n.to_le_bytes(), name).unwrap());
        }
        db.flush().unwrap();
        let all = numbers(&db);
        assert!(all.len() > 300);
        for (name, number) in &all {
            let found = number_of(&db, name);
            assert!(
                found == Some(*number) || name.starts_with("memory.") || name.starts_with("wal."),
                "{name}: {found:?}"
            );
        }
        for wrong in [
            "",
            "family.",
            "family.a",
            "family.a.",
            "family.a.b.c",
            "family.z.frozen",
            "family",
            "a.frozen",
            "é.frozen",
        ] {
            assert_eq!(number_of(&db, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let numbers = [("a\"b\\c\n".to_owned(), 1), ("d".to_owned(), 2)];
        assert_eq!(json(&numbers), r#"{"a\"b\\c\u000a":1,"d":2}"#);
        assert_eq!(json(&[]), "{}");
    }
}
