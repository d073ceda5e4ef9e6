//! Metrics of a store: one by name, all as JSON, all as text; the options of an open store; and the result of its recovery.
//!
//! Each metric has a name, a dotted path: `flushes`, `cache.loads`, `family.users.level.0.tables`. All functions here
//! use one list of metrics.

use std::fmt::Write as _;

use face::{Db, FamilyMetrics, Metrics, RecoveryReport};

use crate::bytes::{give, waxseal_bytes_t};
use crate::db::waxseal_db_t;
use crate::declare::mirror;
use crate::error::calls;
use crate::handle::with;
use crate::json::{options_json, put_text};

mirror! {
    /// The recovery of the log when the store was opened.
    #[derive(Clone, Copy, Debug)]
    pub struct waxseal_recovery_t of |report: &RecoveryReport| {
        /// Number of replayed commits.
        pub commits: u64,
        /// Bytes of the log that were cut as a torn tail, or as damage where that was accepted. 0 after a clean close.
        pub cut_bytes: u64,
        /// The position where the log was cut, in bytes from its beginning; `UINT64_MAX` if it was not cut.
        pub cut_at: u64 = report.cut_at.unwrap_or(u64::MAX),
        /// Bytes of acknowledged commits that are missing. 0 unless the machine failed; a lower bound if
        /// `may_lack_unsynced`.
        pub acknowledged_bytes_missing: u64,
        /// 1 if the store had not been closed, and the machine failed or the store was moved to another device: an
        /// unknown number of acknowledged but unsynced commits may be missing. Otherwise 0.
        pub may_lack_unsynced: u64 = u64::from(report.may_lack_unsynced),
        /// Number of damaged values of commits in the log: reads of their keys return `WAXSEAL_CORRUPTION` until the
        /// keys are overwritten or repaired.
        pub lost_values: u64,
    }
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

/// The fields of a struct and of its parts, each with its path as its name.
macro_rules! named {
    ($from:ident: $($field:ident),* $(; $part:ident: $($inner:ident),*)* $(;)?) => {
        [
            $((stringify!($field), $from.$field as u64),)*
            $($((concat!(stringify!($part), ".", stringify!($inner)), $from.$part.$inner as u64),)*)*
        ]
    };
}

#[allow(clippy::unnecessary_cast, reason = "most of them are u64, some are sizes")]
fn fixed(metrics: &Metrics) -> Vec<(&'static str, u64)> {
    let all = named! { metrics:
        visible_seqno, snapshots, oldest_snapshot_nanos, oldest_cursor_nanos, background_pauses, flushes, flushed_bytes, compactions, moves, compacted_read, compacted_written,
        subcompactions, paced_nanos, stalls, stall_nanos, longest_stall_nanos, manifest_rotations,
        operands_folded, merge_failures, mended, adopted, values_moved, values_unreadable, prefix_skips, filter_dropped, filter_changed,
        filter_failures, filter_unreadable, expired, dropped_tables, dropped_bytes, pinned_bytes,
        kept_log_bytes, kept_files, change_cursors, oldest_change_cursor_nanos, open_tables,
        open_files, index_bytes;
        wal: mapped, frames, frame_bytes, filler_bytes, large_frames, drains, groups, syncs, turnovers,
            recycled, waits_for_room, waits_for_segment, longest_wait_nanos, live_bytes, needed_bytes,
            limit_bytes, early_freezes;
        memory: budget_bytes, memtable_bytes, block_bytes, other_bytes, held_by_callers_bytes;
        cache: budget_bytes, used_bytes, blocks, loads, evictions, refused, warmed, charged_bytes;
        integrity: doubted, read_again, corrected, damaged_blocks, damaged_in_memory, gaps_met, fences_met;
    };
    all.to_vec()
}

#[allow(clippy::unnecessary_cast, reason = "likewise")]
fn of_family(family: &FamilyMetrics, all: &mut Vec<(String, u64)>) {
    let numbers = named! { family: memtable_bytes, frozen; values: files, bytes, values, garbage };
    all.extend(numbers.map(|(what, number)| (format!("family.{}.{what}", family.name), number)));
    for level in &family.levels {
        let numbers = named! { level: tables, bytes, target_bytes, records, tombstones };
        let start = format!("family.{}.level.{}", family.name, level.level);
        all.extend(numbers.map(|(what, number)| (format!("{start}.{what}"), number)));
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
        text.push_str(if index == 0 { "" } else { "," });
        put_text(&mut text, name);
        let _ = write!(text, ":{number}");
    }
    text + "}"
}

calls! {
    /// Returns the options of a store as of now as one JSON object: their names with numbers, words, true, false or null.
    /// Times are in microseconds.
    ///
    /// Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_options_json(db: *const waxseal_db_t, out text: *mut *mut waxseal_bytes_t) {
        let text = text.needed("text")?;
        give(text, options_json(&with(db, |db| Ok(db.options().list()))?).as_bytes())
    }

    /// Changes an option of a store while it is open. Name and value are texts as of `waxseal_options_json`:
    /// `background_bytes_per_second`, `cache_bytes`, `chronicle_lines`, `cursor_log_age_micros`, `cursor_log_bytes`,
    /// `durability` ("buffered", "os" or "sync"), `engine_events`, `engine_event_age_micros`, `manifest_bytes`,
    /// `subcompactions` or `trash_bytes`. The store does not record it.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for another name, for an invalid value, and for `cache_bytes` of a cache that
    /// others may share; `WAXSEAL_CLOSED`.
    fn waxseal_set_option(db: *mut waxseal_db_t, bytes name, bytes value) {
        with(db.cast_const(), |db| {
            let (name, value) = (name.text("name")?, value.text("value")?);
            Ok(db.update_options(|options| options.set(name, value))?)
        })
    }

    /// Returns the format level of a store: what its files may hold. See `waxseal_upgrade`.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CLOSED`.
    fn waxseal_format_level(db: *const waxseal_db_t, out level: *mut u32) {
        let level = level.needed("level")?;
        level.set(with(db, |db| Ok(db.format_level()))?);
        Ok(())
    }

    /// Raises the format level of a store, for good: versions of this library that do not know the level refuse to open
    /// the store from then on. Level 2 adds range deletes, merge operators, ingested table files and the change feed. Does
    /// nothing if the store has the level or a higher one. Durable when the call returns; costs two fsyncs.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown level; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_upgrade(db: *mut waxseal_db_t, level: u32) {
        with(db.cast_const(), |db| Ok(db.upgrade(level)?))
    }

    /// Returns one metric of a store by its name: `flushes`, `compactions`, `cache.used_bytes`, `wal.syncs`,
    /// `family.default.memtable_bytes`, `family.default.level.0.tables`, ..; `waxseal_metrics_json` lists all names.
    /// `WAXSEAL_NOT_FOUND` for an unknown name.
    ///
    /// Thread-safe. A number of a family costs a look at the family's tables, any other one a look at all tables: ask
    /// for all at once where you need many. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8, `WAXSEAL_CLOSED`.
    fn waxseal_metric(db: *const waxseal_db_t, bytes name, out number: *mut u64) {
        let (number, name) = (number.needed("number")?, name.text("name")?);
        let found = with(db, |db| Ok(number_of(db, name)))?;
        Ok(found.map(|found| number.set(found)).is_some())
    }

    /// Returns all metrics of a store as one JSON object: names as of `waxseal_metric`, values as integers. Counters
    /// start at the open.
    ///
    /// Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_metrics_json(db: *const waxseal_db_t, out text: *mut *mut waxseal_bytes_t) {
        let text = text.needed("text")?;
        let all = with(db, |db| Ok(numbers(db)))?;
        give(text, json(&all).as_bytes())
    }

    /// Returns all metrics of a store as text for people.
    ///
    /// Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_metrics_text(db: *const waxseal_db_t, out text: *mut *mut waxseal_bytes_t) {
        let text = text.needed("text")?;
        let names_of = with(db, |db| Ok(db.metrics().to_string()))?;
        give(text, names_of.as_bytes())
    }

    /// Returns the result of the log's recovery when this store was opened: the replayed commits, and the bytes cut
    /// from its torn end. `set_aside` may be null. Otherwise it receives the name of the file in the store's directory
    /// that keeps the cut bytes, empty if none were cut.
    ///
    /// Thread-safe. On success the caller owns `*set_aside` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_recovery(
        db: *const waxseal_db_t, out recovery: *mut waxseal_recovery_t, out set_aside: *mut *mut waxseal_bytes_t,
    ) {
        let recovery = recovery.needed("recovery")?;
        let report = with(db, |db| Ok(db.recovery()))?;
        if !set_aside.is_nowhere() {
            give(set_aside, report.set_aside.as_deref().unwrap_or_default().as_bytes())?;
        }
        recovery.set(waxseal_recovery_t::of(&report));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the paths of the numbers in the debug output of a struct; lists are skipped.
    fn names_of(text: &str) -> Vec<String> {
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
        let store_names = names_of(&format!("{:#?}", Metrics::default()));
        assert!(store_names.len() > 40 && names.iter().all(|name| store_names.iter().any(|names_of| names_of == name)));
        for name in store_names {
            assert!(names.contains(&name.as_str()), "{name} has no name in C");
        }
        let family = FamilyMetrics { levels: vec![Default::default()], ..FamilyMetrics::default() };
        let mut all = Vec::new();
        of_family(&family, &mut all);
        let of_level = names_of(&format!("{:#?}", family.levels[0])).into_iter().filter(|name| name != "level");
        let of_level = of_level.map(|name| format!("level.0.{name}"));
        let own = FamilyMetrics::default();
        for name in names_of(&format!("{own:#?}")).into_iter().chain(of_level) {
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
