//! Open files: changes that wait in memory, flushes, removed and renamed files.

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::test_runner::Config;
use waxseal_files::{ErrorKind, File, Files, OpenOptions, SetAttributes};

use crate::store::{assert_clean, bytes, fails, memory};

fn open(fs: &Files, path: &str) -> File {
    fs.open_with(path, &OpenOptions::new().read(true).write(true).create(true)).unwrap()
}

fn content(file: &File) -> Vec<u8> {
    let mut out = vec![1; file.metadata().size as usize];
    assert_eq!(file.read_at(&mut out, 0).unwrap(), out.len());
    out
}

#[test]
fn changes_are_seen_by_handles_and_after_a_flush_by_all() {
    let fs = memory();
    let before = bytes(10_000, 1);
    fs.write("file", &before).unwrap();
    let (one, other) = (open(&fs, "file"), fs.open("file").unwrap());
    let snapshot = fs.snapshot();
    one.write_at(b"changed", 4090).unwrap();
    one.write_at(b"appended", 12_000).unwrap();
    let mut after = before.clone();
    after[4090..4097].copy_from_slice(b"changed");
    after.resize(12_000, 0);
    after.extend_from_slice(b"appended");
    assert_eq!(content(&other), after);
    assert_eq!(fs.stat("file").unwrap().size, 12_008);
    assert_eq!(fs.read("file").unwrap(), before);
    let inode = one.inode();
    one.flush().unwrap();
    assert_eq!((fs.read("file").unwrap(), snapshot.read("file").unwrap()), (after.clone(), before));
    assert_eq!((content(&other), fs.stat("file").unwrap().inode), (after.clone(), inode));
    fs.write("whole", &after).unwrap();
    assert_eq!(fs.stat("file").unwrap().digest, fs.stat("whole").unwrap().digest);
    drop((one, other));
    assert_clean(&fs);
}

#[test]
fn a_shortened_file_grows_with_zeros() {
    let fs = memory();
    for cut in [0, 1, 500, 1024, 4096, 5000, 8192, 9999, 65_536] {
        for flush in [false, true] {
            let before = bytes(100_000, 2);
            fs.write("file", &before).unwrap();
            let file = open(&fs, "file");
            file.write_at(b"waits", 90_000).unwrap();
            file.set_len(cut).unwrap();
            if flush {
                file.flush().unwrap();
            }
            file.set_len(100_000).unwrap();
            file.write_at(b"x", 99_000).unwrap();
            let mut after = before[..cut as usize].to_vec();
            after.resize(100_000, 0);
            after[99_000] = b'x';
            assert!(content(&file) == after, "cut at {cut}");
            file.close().unwrap();
            assert!(fs.read("file").unwrap() == after, "cut at {cut}, flushed");
            assert_clean(&fs);
        }
    }
}

#[test]
fn small_files_grow_out_of_their_entries_and_back() {
    let fs = memory();
    fs.append("log", "one ").unwrap();
    fs.append("log", "two ").unwrap();
    assert_eq!(fs.stat("log").unwrap().allocated, 0);
    for _ in 0..600 {
        fs.append("log", "0123456789").unwrap();
    }
    assert_eq!((fs.stat("log").unwrap().size, fs.stat("log").unwrap().allocated), (6008, 8192));
    fs.truncate("log", 0).unwrap();
    assert_eq!((fs.stat("log").unwrap().allocated, fs.fsck().unwrap().contents), (0, 0));
    fs.append("log", "three").unwrap();
    assert_eq!(fs.read("log").unwrap(), b"three");
    assert_clean(&fs);
}

#[test]
fn a_removed_or_replaced_file_lives_until_its_last_handle() {
    let fs = memory();
    let before = bytes(30_000, 1);
    for replace in [false, true] {
        fs.write("file", &before).unwrap();
        let (one, other) = (open(&fs, "file"), fs.open("file").unwrap());
        match replace {
            true => fs.write("file", "new").unwrap(),
            false => fs.remove("file").unwrap(),
        }
        assert_eq!((fs.reclaim().unwrap(), one.path()), (0, None));
        one.write_at(b"still", 29_000).unwrap();
        one.append(&bytes(50_000, 2)).unwrap();
        one.flush().unwrap();
        assert!(fs.fsck().unwrap().is_clean());
        let mut after = before.clone();
        after[29_000..29_005].copy_from_slice(b"still");
        after.extend_from_slice(&bytes(50_000, 2));
        assert!(content(&other) == after);
        one.close().unwrap();
        assert_eq!(fs.reclaim().unwrap(), 0);
        drop(other);
        assert_eq!(fs.exists("file").unwrap(), replace);
        assert_clean(&fs);
    }
    assert_eq!(fs.read("file").unwrap(), b"new");
}

#[test]
fn a_removed_small_file_may_grow() {
    let fs = memory();
    let file = open(&fs, "temporary");
    fs.remove("temporary").unwrap();
    file.write_at(&bytes(20_000, 1), 0).unwrap();
    file.flush().unwrap();
    assert!(fs.fsck().unwrap().is_clean());
    assert_eq!(content(&file), bytes(20_000, 1));
    file.set_len(0).unwrap();
    file.write_at(&bytes(9_000, 2), 0).unwrap();
    file.flush().unwrap();
    assert_eq!(content(&file), bytes(9_000, 2));
    drop(file);
    assert_clean(&fs);
    assert_eq!(fs.fsck().unwrap().entries, 1);
}

#[test]
fn handles_follow_renames_of_files_and_trees() {
    let fs = memory();
    fs.create_dir_all("a/b").unwrap();
    fs.write("a/b/file", bytes(9000, 1)).unwrap();
    let file = open(&fs, "a/b/file");
    file.write_at(b"1", 0).unwrap();
    fs.rename("a/b/file", "a/b/other").unwrap();
    fs.rename("a", "z").unwrap();
    assert_eq!(file.path().unwrap(), b"z/b/other");
    file.write_at(b"2", 1).unwrap();
    file.flush().unwrap();
    assert_eq!(&fs.read("z/b/other").unwrap()[..2], b"12");
    fs.remove_tree("z").unwrap();
    assert_eq!((file.path(), content(&file).len()), (None, 9000));
    file.close().unwrap();
    assert_clean(&fs);
}

#[test]
fn attributes_set_beside_a_handle_are_kept_by_its_flush() {
    let fs = memory();
    fs.write("file", "content").unwrap();
    let file = open(&fs, "file");
    file.write_at(b"C", 0).unwrap();
    fs.set_attributes("file", &SetAttributes::new().mode(0o600)).unwrap();
    assert_eq!((fs.read("file").unwrap(), file.metadata().mode), (b"content".to_vec(), 0o600));
    assert_eq!(file.metadata().ctime, fs.snapshot().stat("file").unwrap().ctime);
    file.close().unwrap();
    assert_eq!((fs.read("file").unwrap(), fs.stat("file").unwrap().mode), (b"Content".to_vec(), 0o600));
    assert_clean(&fs);
}

#[test]
fn attributes_set_beside_a_handle_leave_the_time_of_its_writes() {
    let fs = memory();
    fs.write("file", bytes(9_000, 1)).unwrap();
    let before = fs.stat("file").unwrap().mtime;
    let file = open(&fs, "file");
    file.write_at(b"changed", 0).unwrap();
    fs.set_attributes("file", &SetAttributes::new().mode(0o600)).unwrap();
    file.flush().unwrap();
    let after = fs.stat("file").unwrap();
    assert!(after.mtime > before && after.mode & 0o777 == 0o600, "{before:?}, {after:?}");
    file.write_at(b"again", 0).unwrap();
    fs.set_attributes("file", &SetAttributes::new().mtime(before)).unwrap();
    file.flush().unwrap();
    assert_eq!(fs.stat("file").unwrap().mtime, before);
}

#[test]
fn the_time_of_a_rename_or_removal_is_that_of_an_open_file_too() {
    let fs = memory();
    fs.write("file", "content").unwrap();
    let file = open(&fs, "file");
    file.write_at(b"C", 0).unwrap();
    fs.rename("file", "renamed").unwrap();
    let renamed = fs.snapshot().stat("renamed").unwrap().ctime;
    assert_eq!(file.metadata().ctime, renamed);
    file.flush().unwrap();
    assert_eq!(fs.snapshot().stat("renamed").unwrap().ctime, renamed, "a flush of an older change");
    let removals: [fn(&Files); 3] = [
        |fs| fs.remove("renamed").unwrap(),
        |fs| fs.write("renamed", "replaced").unwrap(),
        |fs| fs.remove_tree("renamed").unwrap(),
    ];
    for remove in removals {
        let file = open(&fs, "renamed");
        let before = file.metadata();
        while fs.stat("clock").map_or(i64::MIN, |clock| clock.ctime) <= before.ctime {
            fs.write("clock", "").unwrap();
        }
        remove(&fs);
        assert!(file.metadata().ctime > before.ctime && file.metadata().mtime == before.mtime, "{before:?}");
    }
}

#[test]
fn handles_do_what_they_were_opened_for() {
    let fs = memory();
    fs.write("file", "content").unwrap();
    let reading = fs.open("file").unwrap();
    fails(reading.write_at(b"x", 0), ErrorKind::BadHandle);
    fails(reading.set_len(0), ErrorKind::BadHandle);
    let appending = fs.open_with("file", &OpenOptions::new().append(true)).unwrap();
    appending.write_at(b"+", 0).unwrap();
    fails(appending.read_at(&mut [0], 0), ErrorKind::BadHandle);
    assert_eq!(content(&reading), b"content+");
    let options = OpenOptions::new();
    fails(fs.open_with("file", &options), ErrorKind::Invalid);
    fails(fs.open_with("file", &options.read(true).create(true)), ErrorKind::Invalid);
    fails(fs.open_with("file", &options.write(true).create_new(true)), ErrorKind::Exists);
    let truncated = fs.open_with("file", &options.write(true).truncate(true)).unwrap();
    assert_eq!(truncated.metadata().size, 0);
    fails(truncated.write_at(b"x", u64::MAX - 5), ErrorKind::TooLarge);
    fails(truncated.set_len(u64::MAX), ErrorKind::TooLarge);
    drop((reading, appending, truncated));
    assert_eq!(fs.read("file").unwrap(), b"");
    assert_clean(&fs);
}

#[test]
fn writes_beyond_the_memory_of_the_store_are_committed() {
    let fs = waxseal_files::FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
    let (large, small) = (open(&fs, "large"), open(&fs, "small"));
    small.write_at(b"waits", 0).unwrap();
    let part = bytes(1 << 20, 1);
    for n in 0..66 {
        large.write_at(&part, n << 20).unwrap();
    }
    assert!(fs.read("large").unwrap().len() >= 64 << 20, "the file that has changed most");
    assert_eq!(fs.read("small").unwrap(), b"");
    drop((large, small));
    assert_eq!((fs.stat("large").unwrap().size, fs.read("small").unwrap()), (66 << 20, b"waits".to_vec()));
    assert!(fs.fsck().unwrap().is_clean());
}

#[test]
fn writers_of_one_file_change_different_parts() {
    let fs = memory();
    let size = 64 * 1024;
    fs.write("file", vec![1; size]).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let fs = &fs;
            scope.spawn(move || {
                let file = open(fs, "file");
                for n in (writer..size / 512).step_by(4) {
                    file.write_at(&[writer as u8 + 2; 512], n as u64 * 512).unwrap();
                    if n % 16 == 0 {
                        file.flush().unwrap();
                    }
                }
            });
        }
    });
    let expected: Vec<u8> = (0..size).map(|at| (at / 512 % 4) as u8 + 2).collect();
    assert!(fs.read("file").unwrap() == expected);
    assert_clean(&fs);
}

/// Another thread removes the file as soon as it is there: the handle is that of the file that was created.
#[test]
fn a_new_file_is_opened_as_it_was_created() {
    let fs = memory();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let _ = fs.remove("file");
            }
        });
        let options = OpenOptions::new().read(true).write(true).create_new(true);
        for n in 0..400 {
            match fs.open_with("file", &options) {
                Ok(file) => assert_eq!(file.metadata().size, 0),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Exists, "{n}: {error}"),
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

/// The size that `stat` returns never goes back, while a handle grows the file and flushes it.
#[test]
fn a_file_that_grows_never_looks_smaller() {
    let fs = memory();
    let file = open(&fs, "file");
    std::thread::scope(|scope| {
        let growing = scope.spawn(|| {
            for _ in 0..1500 {
                file.append(b"x").unwrap();
                file.flush().unwrap();
            }
        });
        let mut last = 0;
        while !growing.is_finished() {
            let size = fs.stat("file").unwrap().size;
            assert!(size >= last, "{size} after {last}");
            last = size;
        }
    });
}

#[test]
fn the_tag_of_a_file_is_that_of_its_content_or_none() {
    let fs = memory();
    fs.write("file", "before").unwrap();
    let before = fs.stat("file").unwrap();
    let file = open(&fs, "file");
    assert_eq!((fs.stat("file").unwrap(), file.metadata()), (before, before));
    file.append(b" and after").unwrap();
    let waiting = fs.stat("file").unwrap();
    assert!(waiting.has_changes && waiting.etag().is_none() && file.metadata().etag().is_none(), "{waiting:?}");
    assert_eq!((waiting.size, fs.snapshot().stat("file").unwrap().etag()), (16, before.etag()));
    file.flush().unwrap();
    fs.write("same", "before and after").unwrap();
    assert_eq!(fs.stat("file").unwrap().etag(), fs.stat("same").unwrap().etag());
    assert!(fs.stat("file").unwrap().etag().is_some());
}

/// Also in a file that was in its entry so far.
#[test]
fn holes_of_changes_that_wait_are_not_counted() {
    let fs = memory();
    let file = open(&fs, "file");
    let allocated = || (fs.stat("file").unwrap().allocated, fs.stat("file").unwrap().chunk_bytes);
    file.write_at(b"small", 0).unwrap();
    assert_eq!(allocated(), (0, 0));
    for flush in [false, true] {
        file.set_len(1 << 20).unwrap();
        file.write_at(b"x", 500_000).unwrap();
        assert_eq!(allocated(), (2 * 4096, 4096));
        if flush {
            file.flush().unwrap();
            assert_eq!(allocated(), (2 * 4096, 4096));
        }
        file.set_len(4096).unwrap();
        assert_eq!(allocated(), (4096, 4096));
    }
    file.set_len(0).unwrap();
    assert_eq!(allocated(), (0, 0));
}

/// A chunk that is overwritten with zeros becomes a hole, and its record goes.
#[test]
fn zeros_over_a_chunk_are_a_hole() {
    let fs = memory();
    fs.write("file", bytes(12_000, 1)).unwrap();
    let file = open(&fs, "file");
    file.write_at(&[0; 4096], 4096).unwrap();
    file.close().unwrap();
    assert_eq!((fs.stat("file").unwrap().allocated, fs.fsck().unwrap().chunks), (8192, 2));
    assert_eq!(fs.read("file").unwrap()[4000..8300].iter().filter(|byte| **byte == 0).count(), 4096);
    assert_clean(&fs);
}

/// A handle that changes nothing leaves a rewrite through another one uncommitted until that one is closed.
#[test]
fn a_close_commits_nothing_that_others_write() {
    let fs = memory();
    fs.write("file", "old").unwrap();
    let (unused, flushed) = (open(&fs, "file"), open(&fs, "file"));
    flushed.append(b"er").unwrap();
    flushed.flush().unwrap();
    let rewrite = fs.open_with("file", &OpenOptions::new().write(true).truncate(true)).unwrap();
    rewrite.append(b"ne").unwrap();
    unused.flush_own().unwrap();
    drop(unused);
    flushed.flush_own().unwrap();
    flushed.close().unwrap();
    assert_eq!(fs.read("file").unwrap(), b"older");
    rewrite.append(b"w").unwrap();
    rewrite.flush_own().unwrap();
    assert_eq!(fs.read("file").unwrap(), b"new");
    rewrite.close().unwrap();
    assert_eq!(fs.read("file").unwrap(), b"new");
    assert_clean(&fs);
}

/// The changes of a removed file are of no use to anyone: its last handle commits nothing.
#[test]
fn the_last_handle_of_a_removed_file_commits_nothing() {
    let fs = memory();
    let file = open(&fs, "file");
    fs.remove("file").unwrap();
    file.write_at(&bytes(20_000, 1), 0).unwrap();
    let before = fs.db().snapshot().seqno().unwrap();
    file.close().unwrap();
    assert_eq!(fs.db().snapshot().seqno().unwrap(), before);
}

#[test]
fn a_handle_lets_a_file_go_that_a_rename_replaces() {
    let fs = memory();
    fs.write("old", "old").unwrap();
    fs.write("new", "new").unwrap();
    let file = open(&fs, "old");
    fs.rename("new", "old").unwrap();
    assert_eq!(file.path(), None);
    file.write_at(b"OLD", 0).unwrap();
    file.close().unwrap();
    assert_eq!(fs.read("old").unwrap(), b"new");
    assert_clean(&fs);
}

/// What a handle may do to a file, with a place and a length.
#[derive(Clone, Copy, Debug)]
enum Change {
    Write(usize, usize),
    SetLen(usize),
    ExtendTo(usize),
    Zero(usize, usize),
    Punch(usize, usize),
    Flush,
}

impl Change {
    fn apply(self, file: &File) {
        let range = |place: usize, length: usize| place as u64..(place + length) as u64;
        let changed = match self {
            Change::Write(place, length) => file.write_at(&bytes(length, 7), place as u64),
            Change::SetLen(length) => file.set_len(length as u64),
            Change::ExtendTo(length) => file.extend_to(length as u64),
            Change::Zero(place, length) => file.zero_range(range(place, length)),
            Change::Punch(place, length) => file.punch_hole(range(place, length)),
            Change::Flush => file.flush(),
        };
        changed.unwrap();
    }

    fn model(self, content: &mut Vec<u8>) {
        let length_now = content.len();
        match self {
            Change::Write(place, length) | Change::Zero(place, length) if length > 0 => {
                content.resize(length_now.max(place + length), 0);
                let new = if matches!(self, Change::Write(..)) { bytes(length, 7) } else { vec![0; length] };
                content[place..place + length].copy_from_slice(&new);
            }
            Change::SetLen(length) => content.resize(length, 0),
            Change::ExtendTo(length) => content.resize(length_now.max(length), 0),
            Change::Punch(place, length) => content[place.min(length_now)..(place + length).min(length_now)].fill(0),
            _ => {}
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let lengths = [0, 1, 100, 1024, 4095, 4096, 4097, 8192, 12_000, 20_000, 90_000];
    let number = || prop::sample::select(lengths.to_vec());
    prop_oneof![
        3 => (number(), number()).prop_map(|(place, length)| Change::Write(place, length)),
        1 => number().prop_map(Change::SetLen),
        1 => number().prop_map(Change::ExtendTo),
        2 => (number(), number()).prop_map(|(place, length)| Change::Zero(place, length)),
        3 => (number(), number()).prop_map(|(place, length)| Change::Punch(place, length)),
        2 => Just(Change::Flush),
    ]
}

proptest! {
    #![proptest_config(Config { cases: 80, ..Config::default() })]

    #[test]
    fn a_handle_changes_a_file_as_memory(changes in prop::collection::vec(change(), 1..30)) {
        let fs = memory();
        let (file, mut expected) = (open(&fs, "file"), Vec::new());
        for change in changes {
            change.apply(&file);
            change.model(&mut expected);
            prop_assert!(content(&file) == expected, "{:?}", change);
        }
        file.close().unwrap();
        prop_assert!(fs.read("file").unwrap() == expected);
        assert_clean(&fs);
    }
}

#[test]
fn a_hole_gives_its_space_back() {
    let fs = memory();
    let content: Vec<u8> = bytes(40 * 4096 + 5, 1);
    fs.write("file", &content).unwrap();
    let (file, chunks) = (open(&fs, "file"), || fs.fsck().unwrap().chunks);
    let before = fs.stat("file").unwrap();
    file.punch_hole(4000..2 * 4096 + 10).unwrap();
    file.flush().unwrap();
    let after = fs.stat("file").unwrap();
    assert_eq!((after.size, after.allocated, chunks()), (before.size, before.allocated - 4096, 40));
    assert!(after.mtime > before.mtime);
    assert_eq!((file.next_hole(0), file.next_data(4096)), (Some(4096), Some(8192)));
    file.punch_hole(3 * 4096..u64::MAX).unwrap(); // more chunks than are deleted one by one, and the last one
    file.flush().unwrap();
    assert_eq!((chunks(), fs.stat("file").unwrap().allocated), (2, 2 * 4096));
    let expected = [&content[..4000], &[0; 4192 + 10], &content[2 * 4096 + 10..3 * 4096]].concat();
    let found = fs.read("file").unwrap();
    assert!(found.starts_with(&expected) && found[3 * 4096..] == vec![0; content.len() - 3 * 4096]);
    // Beyond the end nothing is changed.
    let before = file.metadata();
    file.punch_hole(1 << 30..1 << 40).unwrap();
    file.zero_range(1 << 30..1 << 30).unwrap();
    file.extend_to(10).unwrap();
    assert_eq!(file.metadata(), before);
    fails(file.zero_range(0..u64::MAX), ErrorKind::TooLarge);
    fails(fs.open("file").unwrap().punch_hole(0..1), ErrorKind::BadHandle);
    assert_clean(&fs);
}

/// A handle that is closed after it has changed nothing commits no half of what another one writes.
#[test]
fn a_range_that_changes_nothing_is_no_change() {
    let fs = memory();
    fs.write("file", "old").unwrap();
    let (one, other) = (open(&fs, "file"), open(&fs, "file"));
    other.write_at(b"new", 0).unwrap();
    one.punch_hole(100..200).unwrap();
    one.zero_range(7..7).unwrap();
    one.extend_to(2).unwrap();
    one.close().unwrap();
    assert_eq!(fs.read("file").unwrap(), b"old");
    other.close().unwrap();
    assert_eq!(fs.read("file").unwrap(), b"new");
}

/// The cost of a range depends on what is stored in it.
#[test]
fn a_range_of_a_terabyte_costs_its_chunks() {
    const TERABYTE: u64 = 1 << 40;
    let fs = memory();
    let file = open(&fs, "file");
    file.extend_to(TERABYTE).unwrap();
    file.write_at(b"kept", 0).unwrap();
    file.write_at(b"zeroed", 1 << 39).unwrap();
    file.flush().unwrap();
    file.punch_hole(4096..TERABYTE - 1).unwrap();
    file.zero_range(1 << 38..TERABYTE + 4096).unwrap();
    file.close().unwrap();
    let stat = fs.stat("file").unwrap();
    assert_eq!((stat.size, stat.allocated, fs.fsck().unwrap().chunks), (TERABYTE + 4096, 4096, 1));
    fs.write("short", "kept").unwrap();
    fs.truncate("short", TERABYTE + 4096).unwrap();
    assert_eq!(fs.stat("short").unwrap().digest, stat.digest);
}
