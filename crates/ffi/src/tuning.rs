//! Store settings that seldom need to be changed.

use std::time::Duration;

use crate::declare::setters;
use crate::options::{setting, waxseal_options_t};

setters! {
    setting;

    /// Maximum number of table and blob files that are open at the same time. Above it, the least recently read file is
    /// closed, and its next read reopens it. Default 0: a limit that leaves half of the process's descriptor limit to
    /// the application.
    fn waxseal_options_set_open_tables(options: *mut waxseal_options_t, tables: usize) => open_tables = tables;

    /// Memory for indexes and filters of open tables, in bytes. Above it, tables without recent reads drop theirs and
    /// load them again when needed. Default 1 GiB.
    fn waxseal_options_set_index_bytes(options: *mut waxseal_options_t, bytes: usize) => index_bytes = bytes;

    /// Maximum number of threads for one large compaction, 1 to 64. Default 2.
    fn waxseal_options_set_subcompactions(options: *mut waxseal_options_t, threads: usize) => subcompactions = threads;

    /// Limits the bytes per second that flushes and compactions write together. Default 0: no limit.
    fn waxseal_options_set_background_bytes_per_second(options: *mut waxseal_options_t, bytes: u64) =>
        background_bytes_per_second = bytes;

    /// Bytes of replaced table files, the newest ones, that are kept for repairs. Default 0: they are deleted at once.
    fn waxseal_options_set_trash_bytes(options: *mut waxseal_options_t, bytes: u64) => trash_bytes = bytes;

    /// Size of a log segment, in bytes, a multiple of 4096, at least 16 KiB. Default 16 MiB. If half of
    /// `memtable_bytes` is smaller, segments have that size, but at least 1 MiB.
    fn waxseal_options_set_segment_bytes(options: *mut waxseal_options_t, bytes: u64) => segment_bytes = bytes;

    /// Size of the file that holds the newest bytes of the log, the log's tail ring; a multiple of 4096, at least 16
    /// KiB. Default 4 MiB. Not the event ring of `waxseal_options_set_ring`.
    fn waxseal_options_set_ring_bytes(options: *mut waxseal_options_t, bytes: usize) => ring_bytes = bytes;

    /// The tail ring is drained to its segment each time this many bytes have accumulated; at most half of its size.
    /// Default 256 KiB.
    fn waxseal_options_set_drain_bytes(options: *mut waxseal_options_t, bytes: usize) => drain_bytes = bytes;

    /// Size at which the manifest is rewritten, in bytes. Default 4 MiB.
    fn waxseal_options_set_manifest_bytes(options: *mut waxseal_options_t, bytes: u64) => manifest_bytes = bytes;

    /// Number of engine events in the manifest at which the oldest half moves to the log of events. Default 4,096.
    fn waxseal_options_set_chronicle_lines(options: *mut waxseal_options_t, lines: usize) => chronicle_lines = lines;

    /// Maximum number of engine events that the log keeps, the newest ones, if they are younger than
    /// `waxseal_options_set_engine_event_age`. A later flush drops an event beyond either limit. Events that wrote a
    /// live table or belong to an open quarantine stay. Events of users do not count and are never dropped. Default
    /// 10,000; `SIZE_MAX` keeps all.
    fn waxseal_options_set_engine_events(options: *mut waxseal_options_t, events: usize) => engine_events = events;

    /// Maximum age of engine events, in microseconds, as described for `waxseal_options_set_engine_events`. Default 30
    /// days; `UINT64_MAX` means no age limit.
    fn waxseal_options_set_engine_event_age(options: *mut waxseal_options_t, micros: u64) =>
        engine_event_age = if micros == u64::MAX { Duration::MAX } else { Duration::from_micros(micros) };

    /// Bytes of the newest log that are kept for the change feed, without a cursor. Default 0: what cursors and readers
    /// need.
    fn waxseal_options_set_keep_log_bytes(options: *mut waxseal_options_t, bytes: u64) => keep_log_bytes = bytes;

    /// Age up to which log is kept for the change feed, in microseconds, whatever `waxseal_options_set_keep_log_bytes`.
    /// Default 0; `UINT64_MAX` keeps all.
    fn waxseal_options_set_keep_log_age(options: *mut waxseal_options_t, micros: u64) =>
        keep_log_age = if micros == u64::MAX { Duration::MAX } else { Duration::from_micros(micros) };

    /// Maximum bytes of log that cursors and readers of the change feed keep. A cursor that needs older log has fallen
    /// behind. Default 16 GiB.
    fn waxseal_options_set_cursor_log_bytes(options: *mut waxseal_options_t, bytes: u64) => cursor_log_bytes = bytes;

    /// Maximum age of log that cursors and readers of the change feed keep, in microseconds. Default `UINT64_MAX`: no
    /// age limit.
    fn waxseal_options_set_cursor_log_age(options: *mut waxseal_options_t, micros: u64) =>
        cursor_log_age = if micros == u64::MAX { Duration::MAX } else { Duration::from_micros(micros) };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use face::{CfOptions, Settings};

    const SYMBOLS: &str = include_str!("../symbols.txt");
    const BUILDER: &str = include_str!("../../waxseal/src/builder.rs");

    /// Settings without a setter, and the reason.
    const NOT_OF_A_STORE: [(&str, &str); 12] = [
        ("fs", "a file system is a trait of Rust's"),
        ("clock", "likewise"),
        ("env", "likewise"),
        ("cache", "a cache that stores share is an object of Rust's"),
        ("in_memory", "waxseal_open_memory"),
        ("open", "waxseal_open"),
        ("open_read_only", "waxseal_open_read_only"),
        ("column_family", "waxseal_options_add_family"),
        ("comparator", "waxseal_options_add_comparator"),
        ("compaction_filter", "waxseal_options_add_compaction_filter"),
        ("merge_operator", "waxseal_options_add_merge_operator"),
        ("provider", "waxseal_options_add_provider"),
    ];
    const NOT_OF_A_FAMILY: [(&str, &str); 6] = [
        ("order", "waxseal_family_options_set_comparator"),
        ("filter_policy", "filters of a caller's own are LevelDB's: libwaxseal_leveldb has them"),
        ("table_properties", "waxseal_family_options_add_table_property"),
        ("key_ends_in_seqno", "for layers above the engine"),
        ("system", "likewise"),
        ("part_blocks", "for tests, which want ranges of a table that are small"),
    ];

    /// Returns the field names of a struct, from its debug output.
    fn fields(told: &str) -> BTreeSet<String> {
        let own = told.lines().filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with(' ')));
        own.filter_map(|line| line.split_once(": ")).map(|(name, _)| name.to_owned()).collect()
    }

    fn have_setters(names: BTreeSet<String>, prefix: &str, others: &[(&str, &str)]) {
        let symbols: BTreeSet<&str> = SYMBOLS.lines().collect();
        assert!(names.len() > 12, "{names:?}");
        for name in &names {
            let has_one = symbols.contains(format!("{prefix}{name}").as_str());
            let is_excused = others.iter().any(|(other, _)| other == name);
            assert!(has_one != is_excused, "{prefix}{name}: there is none, and no reason; or both");
        }
        for (other, _) in others {
            assert!(names.contains(*other), "{other} is excused, and is not there");
        }
    }

    #[test]
    fn whatever_rust_can_set_of_a_store_c_can() {
        let mut names = fields(&format!("{:#?}", Settings::default()));
        let (_, methods) = BUILDER.split_once("\nimpl Builder {").expect("the builder's methods");
        let parts = methods.lines().filter_map(|line| line.strip_prefix("    pub fn "));
        names.extend(parts.filter_map(|line| line.split_once('(')).map(|(name, _)| name.to_owned()));
        // `tune` changes any setting and names none.
        assert!(names.remove("tune"));
        have_setters(names, "waxseal_options_set_", &NOT_OF_A_STORE);
    }

    #[test]
    fn whatever_rust_can_set_of_a_family_c_can() {
        have_setters(fields(&format!("{:#?}", CfOptions::default())), "waxseal_family_options_set_", &NOT_OF_A_FAMILY);
    }
}
