//! Settings of a store that seldom need to be turned.

use std::time::Duration;

use face::{MemtableKind, Settings};

use crate::call::status_of;
use crate::error::Failure;
use crate::options::{set, waxseal_options_t};

/// A tree of leaves in an arena, the default.
pub const WAXSEAL_MEMTABLE_ARENA: i32 = 0;
/// A skip list with a node a record.
pub const WAXSEAL_MEMTABLE_SKIPLIST: i32 = 1;

/// Turns one setting.
fn tune(options: *mut waxseal_options_t, turn: impl Fn(&mut Settings) + Send + 'static) -> i32 {
    set(options, move |builder| builder.tune(&turn))
}

/// In what the newest records stand until they are flushed, one of `WAXSEAL_MEMTABLE_..`. Nothing of it is on disk: it may be another
/// one at each open.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no kind of memtable.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_memtable(options: *mut waxseal_options_t, number: i32) -> i32 {
    status_of(|| {
        let kind = match number {
            WAXSEAL_MEMTABLE_ARENA => MemtableKind::Arena,
            WAXSEAL_MEMTABLE_SKIPLIST => MemtableKind::Skiplist,
            other => return Err(Failure::invalid(format!("{other} is no kind of memtable"))),
        };
        Ok(tune(options, move |settings| settings.memtable = kind))
    })
}

/// Files of tables and of large values that are open at the same time. Beyond that number the file that was not read for longest is closed, and
/// opened again by its next read. Default 0: what leaves the host half of the files that the process may have open.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_open_tables(options: *mut waxseal_options_t, tables: usize) -> i32 {
    tune(options, move |settings| settings.open_tables = tables)
}

/// Memory that indexes and filters of open tables take, in bytes. Beyond it, tables that nobody asked of late drop theirs and read them again.
/// Default 1 GiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_index_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    tune(options, move |settings| settings.index_bytes = bytes)
}

/// Threads that one large compaction may be divided among, 1 to 64. Default 2.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_subcompactions(options: *mut waxseal_options_t, threads: usize) -> i32 {
    tune(options, move |settings| settings.subcompactions = threads)
}

/// Bytes that flushes and compactions together may write in a second. Default 0: as many as they can.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_background_bytes_per_second(options: *mut waxseal_options_t, bytes: u64) -> i32 {
    tune(options, move |settings| settings.background_bytes_per_second = bytes)
}

/// Bytes of replaced table files that are kept, the newest, for a repair to look into. Default 0: they are removed at once.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_trash_bytes(options: *mut waxseal_options_t, bytes: u64) -> i32 {
    tune(options, move |settings| settings.trash_bytes = bytes)
}

/// Length of one segment of the log, in bytes, a multiple of 4096, at least 16 KiB. Default 16 MiB. Where half of `memtable_bytes` is less, segments
/// are that long, but at least 1 MiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_segment_bytes(options: *mut waxseal_options_t, bytes: u64) -> i32 {
    tune(options, move |settings| settings.segment_bytes = bytes)
}

/// Length of the file in which the newest bytes of the log live, a multiple of 4096, at least 16 KiB. Default 4 MiB. Not the ring
/// of `waxseal_options_set_ring`, in which events wait.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_ring_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    tune(options, move |settings| settings.ring_bytes = bytes)
}

/// That file is drained to its segment each time so many bytes have gathered; at most half of its length. Default 256 KiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_drain_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    tune(options, move |settings| settings.drain_bytes = bytes)
}

/// Size at which the manifest is written anew, in bytes. Default 4 MiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_manifest_bytes(options: *mut waxseal_options_t, bytes: u64) -> i32 {
    tune(options, move |settings| settings.manifest_bytes = bytes)
}

/// Lines on what the engine did that the manifest holds before the oldest half become rows of the log. Default 4,096.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_chronicle_lines(options: *mut waxseal_options_t, lines: usize) -> i32 {
    tune(options, move |settings| settings.chronicle_lines = lines)
}

/// Events of the engine's own work that the log keeps: the newest so many, if they are younger than
/// `waxseal_options_set_engine_event_age` says. An event that is beyond either bound goes with a later flush. One that wrote a table
/// of the store, or tells of an open quarantine, stays. Events of users are not counted and never go. Default 10,000; `SIZE_MAX`: all.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_engine_events(options: *mut waxseal_options_t, events: usize) -> i32 {
    tune(options, move |settings| settings.engine_events = events)
}

/// The age beyond which events of the engine's own work go, in microseconds, as `waxseal_options_set_engine_events` says. Default 30 days;
/// `UINT64_MAX`: none goes for its age.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_engine_event_age(options: *mut waxseal_options_t, micros: u64) -> i32 {
    let age = if micros == u64::MAX { Duration::MAX } else { Duration::from_micros(micros) };
    tune(options, move |settings| settings.engine_event_age = age)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use face::{CfOptions, Settings};

    const SYMBOLS: &str = include_str!("../symbols.txt");
    const BUILDER: &str = include_str!("../../waxseal/src/builder.rs");

    /// What has no setter, and why.
    const NOT_OF_A_STORE: [(&str, &str); 10] = [
        ("fs", "a file system is a trait of Rust's"),
        ("clock", "likewise"),
        ("env", "likewise"),
        ("cache", "a cache that stores share is an object of Rust's"),
        ("in_memory", "waxseal_open_memory"),
        ("open", "waxseal_open"),
        ("open_read_only", "waxseal_open_read_only"),
        ("column_family", "waxseal_options_add_family"),
        ("comparator", "waxseal_options_add_comparator"),
        ("provider", "waxseal_options_add_provider"),
    ];
    const NOT_OF_A_FAMILY: [(&str, &str); 5] = [
        ("order", "waxseal_family_options_set_comparator"),
        ("filter_policy", "filters of a caller's own are LevelDB's: libwaxseal_leveldb has them"),
        ("key_ends_in_seqno", "for layers above the engine"),
        ("system", "likewise"),
        ("part_blocks", "for tests, which want ranges of a table that are small"),
    ];

    /// The fields of a structure, by what it tells of itself.
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
        let parts = BUILDER.lines().filter_map(|line| line.strip_prefix("    pub fn "));
        names.extend(parts.filter_map(|line| line.split_once('(')).map(|(name, _)| name.to_owned()));
        // What turns any setting, and says nothing of which.
        assert!(names.remove("tune"));
        have_setters(names, "waxseal_options_set_", &NOT_OF_A_STORE);
    }

    #[test]
    fn whatever_rust_can_set_of_a_family_c_can() {
        have_setters(fields(&format!("{:#?}", CfOptions::default())), "waxseal_family_options_set_", &NOT_OF_A_FAMILY);
    }
}
