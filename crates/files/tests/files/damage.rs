//! Damage below the files: an error, never a wrong byte and never zeros.

use std::io::Write;
use std::path::{Path, PathBuf};

use waxseal::{Db, Durability};
use waxseal_files::{Error, ErrorKind, FileStore, OpenOptions};
use waxseal_lsm::env::sim::{Crash, SimFs};

use crate::store::{assert_clean, bytes, fails, memory, small_chunks};

/// Returns the key of a chunk, as docs/format-files.md describes it.
fn chunk_key(content: u64, number: u32) -> Vec<u8> {
    [&b"c"[..], &content.swap_bytes().to_le_bytes(), &number.swap_bytes().to_le_bytes()].concat()
}

/// Returns the content ids that have chunks.
fn contents(fs: &FileStore) -> Vec<u64> {
    let chunks = fs.db().column_family("files-chunks").unwrap();
    let mut ids: Vec<u64> = chunks
        .range("c".."d")
        .keys()
        .map(|key| u64::from_le_bytes(key.unwrap()[1..9].try_into().unwrap()).swap_bytes())
        .collect();
    ids.dedup();
    ids
}

#[test]
fn a_missing_chunk_is_an_error_and_the_rest_is_read() {
    let fs = memory();
    let content = bytes(20_000, 1);
    fs.write("file", &content).unwrap();
    let id = contents(&fs)[0];
    let chunks = fs.db().column_family("files-chunks").unwrap();
    chunks.delete(chunk_key(id, 2)).unwrap();
    let error = fails(fs.read("file"), ErrorKind::Corruption);
    assert!(error.to_string().contains("chunk 2") && error.path() == Some(b"file"), "{error}");
    fails(fs.copy("file", "copy"), ErrorKind::Corruption);
    let file = fs.open_with("file", &OpenOptions::new().read(true).write(true)).unwrap();
    let mut out = vec![0; 4096];
    for (number, part) in content.chunks(4096).enumerate() {
        match file.read_at(&mut out, number as u64 * 4096) {
            Ok(read) => assert!(number != 2 && out[..read] == *part),
            Err(error) => assert!(number == 2 && error.is_corruption(), "{error}"),
        }
    }
    fails(file.write_at(b"x", 2 * 4096 + 5), ErrorKind::Corruption);
    fails(file.set_len(10_000), ErrorKind::Corruption);
    chunks.delete(chunk_key(id, 4)).unwrap();
    fails(file.write_at(&[1; 8192], 4 * 4096), ErrorKind::Corruption);
    assert_eq!(
        (file.metadata().size, file.metadata().has_changes),
        (20_000, false),
        "a write that fails changes nothing"
    );
    chunks.put(chunk_key(id, 4), &content[4 * 4096..]).unwrap();
    drop(file);
    fs.write("next", bytes(5_000, 2)).unwrap();
    let read: Vec<bool> = fs.read_dir("").unwrap().map(|file| file.is_ok()).collect();
    assert_eq!(read, [false, true], "a scan goes on behind a damaged file");
    let (verified, checked) = (fs.verify("").unwrap(), fs.fsck().unwrap());
    assert_eq!((verified.faults, checked.faults), (1, 1));
    assert!(checked.problems[0].fault.contains("chunk 2 is missing") && checked.problems[0].path == b"file");
    fs.write("file", &content).unwrap(); // a new content heals the file
    assert_clean(&fs);
}

#[test]
fn a_chunk_that_is_not_the_files_own_is_found() {
    let fs = memory();
    fs.write("file", bytes(20_000, 1)).unwrap();
    fs.write("other", bytes(20_000, 2)).unwrap();
    let ids = contents(&fs);
    let chunks = fs.db().column_family("files-chunks").unwrap();
    let foreign = chunks.get(chunk_key(ids[1], 1)).unwrap().unwrap();
    chunks.put(chunk_key(ids[0], 1), foreign).unwrap();
    let report = fs.verify("file").unwrap();
    assert!(report.faults == 1 && report.problems[0].fault.contains("digest"), "{report:?}");
    fs.write("copy", "kept").unwrap();
    fails(fs.copy("file", "copy"), ErrorKind::Corruption);
    assert_eq!(fs.read("copy").unwrap(), b"kept");
    chunks.put(chunk_key(ids[0], 1), [1; 4097]).unwrap();
    fails(fs.read("file"), ErrorKind::Corruption);
}

/// A part of the fault that `fsck` reports, and what causes it.
type Damage = (&'static str, fn(&FileStore));

#[test]
fn fsck_finds_records_that_do_not_agree() {
    let damages: &[Damage] = &[
        ("no directory holds it", |fs| fs.db().column_family("files").unwrap().delete("dir").unwrap()),
        ("the root is missing", |fs| fs.db().column_family("files").unwrap().delete("").unwrap()),
        ("the key is no path", |fs| {
            let entries = fs.db().column_family("files").unwrap();
            entries.put("dir\0", entries.get("small").unwrap().unwrap()).unwrap();
        }),
        ("is cut short", |fs| fs.db().column_family("files").unwrap().put("small", [1, 1]).unwrap()),
        ("has two entries", |fs| {
            let entries = fs.db().column_family("files").unwrap();
            entries.put("twice", entries.get("dir\0file").unwrap().unwrap()).unwrap();
        }),
        ("belongs to no file", |fs| {
            fs.db().column_family("files-chunks").unwrap().put(chunk_key(1 << 40, 0), "chunk").unwrap();
        }),
        ("is stored and not named", |fs| {
            let chunks = fs.db().column_family("files-chunks").unwrap();
            chunks.put(chunk_key(contents(fs)[0], 7), "chunk").unwrap();
        }),
        ("inode 2 has two entries", |fs| {
            let entries = fs.db().column_family("files").unwrap();
            entries.put("twin", entries.get("dir").unwrap().unwrap()).unwrap();
        }),
        ("a greater one is in use", |fs| {
            fs.db().column_family("files-chunks").unwrap().put("n", 3u64.to_le_bytes()).unwrap();
        }),
        ("the counter of numbers is missing", |fs| {
            fs.db().column_family("files-chunks").unwrap().delete("n").unwrap();
        }),
        ("has not 8 bytes", |fs| fs.db().column_family("files-chunks").unwrap().put("n", "3").unwrap()),
        ("an entry and a reclaim record", |fs| {
            let key = [&b"r"[..], &contents(fs)[0].swap_bytes().to_le_bytes()].concat();
            fs.db().column_family("files-chunks").unwrap().put(key, [1, 2]).unwrap();
        }),
    ];
    for (fault, damage) in damages {
        let fs = memory();
        fs.mkdir("dir").unwrap();
        fs.write("dir/file", bytes(9_000, 1)).unwrap();
        fs.write("small", "small").unwrap();
        assert_clean(&fs);
        damage(&fs);
        let report = fs.fsck().unwrap();
        assert!(report.problems.iter().any(|problem| problem.fault.contains(fault)), "{fault}: {:?}", report.problems);
    }
}

/// Keys that lead out of a directory, for callers who join paths to one of their own.
#[test]
fn keys_that_are_no_paths_are_not_listed() {
    for key in [&b"dir\0.."[..], b"dir\0../../x", b"..\0x", b"a/../x", b"dir\0\0x"] {
        let fs = memory();
        fs.mkdir("dir").unwrap();
        fs.write("small", "small").unwrap();
        let entries = fs.db().column_family("files").unwrap();
        entries.put(key, entries.get("small").unwrap().unwrap()).unwrap();
        let walked: Vec<_> = fs.walk("").unwrap().collect();
        assert!(walked.iter().any(|entry| entry.as_ref().is_err_and(Error::is_corruption)), "{walked:?}");
        let dir = if key.starts_with(b"dir") { "dir" } else { "" };
        assert!(fs.list(dir).unwrap().any(|entry| entry.is_err_and(|error| error.is_corruption())), "{key:?}");
    }
    for after in ["..", "a/b", "a\0b"] {
        fails(memory().list_after("", after), ErrorKind::Invalid);
    }
}

/// A write fails in the midst, for want of room: the old file stays, although the rest could be written.
#[test]
fn a_writer_with_a_gap_replaces_nothing() {
    let disk = SimFs::new(12);
    let db = open(&disk).unwrap();
    let fs = small_chunks(&db);
    fs.write("file", "old").unwrap();
    let mut writer = fs.writer("file").unwrap();
    writer.write_all(&bytes(10_000, 1)).unwrap();
    disk.set_free_space(Some(0));
    let mut hits = 0;
    for n in 0..200 {
        hits += usize::from(writer.write_all(&bytes(10_000, n)).is_err());
    }
    disk.set_free_space(None);
    assert!(hits > 0);
    fails(writer.finish(), ErrorKind::Invalid);
    assert_eq!(fs.read("file").unwrap(), b"old");
    assert_clean(&fs);
}

const DIR: &str = "/store";

fn open(disk: &SimFs) -> waxseal::Result<Db> {
    Db::builder(DIR).env(disk.env(disk.steps() + 1)).tune(|settings| settings.memtable_bytes = 64 * 1024).open()
}

/// Flips single bits all over the store's files. Each file is then read as it was written, or not at all.
#[test]
fn flipped_bits_never_change_a_byte_that_is_read() {
    let files: Vec<(String, Vec<u8>)> = [0, 10, 900, 1025, 5_000, 9_000, 40_000]
        .into_iter()
        .enumerate()
        .map(|(n, length)| (format!("dir{}/file{n}", n % 2), bytes(length, n as u64)))
        .collect();
    let disk = SimFs::new(11);
    let db = open(&disk).unwrap();
    let fs = small_chunks(&db);
    ["dir0", "dir1"].iter().for_each(|name| fs.mkdir(name).unwrap());
    files.iter().for_each(|(path, content)| fs.with_durability(Durability::Sync).write(path, content).unwrap());
    db.settle().unwrap();
    db.close().unwrap();
    drop((fs, db));
    disk.settle();
    disk.reboot(Crash::Process);
    let stored: Vec<(PathBuf, u64)> = disk
        .files(DIR)
        .into_iter()
        .filter(|name| name.ends_with(".tbl") || name.ends_with(".val"))
        .map(|name| Path::new(DIR).join(name))
        .map(|path| (path.clone(), disk.read_all(&path).unwrap().len() as u64 * 8))
        .collect();
    assert!(stored.len() > 2, "{stored:?}");
    let (mut intact, mut refused) = (0, 0);
    for (path, bits) in &stored {
        for n in 0..24 {
            let disk = disk.fork();
            disk.flip(path, bits / 24 * n + n * 7919 % (bits / 24)).unwrap();
            let Ok(db) = open(&disk) else { continue };
            let Ok(fs) = FileStore::open(&db, "files") else { continue };
            for (path, content) in &files {
                match fs.read(path) {
                    Ok(read) => {
                        intact += 1;
                        assert!(read == *content, "{path} has other bytes");
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(error.is_corruption(), "{path}: {error:?}");
                    }
                }
            }
            let listed: Result<Vec<_>, _> = fs.walk("").and_then(Iterator::collect);
            assert!(listed.is_err() || listed.unwrap().len() == 3 + files.len(), "an entry is hidden");
        }
    }
    assert!(intact > 0 && refused > 0, "{intact} reads intact, {refused} refused");
}

/// One entry that does not decode: the others are listed, and it is removed or replaced like any other.
#[test]
fn a_damaged_entry_is_one_error_and_not_the_end() {
    let fs = memory();
    fs.mkdir("dir").unwrap();
    fs.mkdir("dir/lost").unwrap();
    for name in ["dir/a", "dir/b", "dir/c", "dir/lost/below"] {
        fs.write(name, bytes(5_000, 1)).unwrap();
    }
    let entries = fs.db().column_family("files").unwrap();
    entries.put("dir\0b", [1, 1]).unwrap();
    entries.put("dir\0lost", [1, 2]).unwrap();
    let listed: Vec<_> = fs.list("dir").unwrap().map(|entry| entry.map(|entry| entry.name)).collect();
    let names: Vec<_> = listed.iter().map(|entry| entry.as_deref().unwrap_or(b"?")).collect();
    assert_eq!(names, [&b"a"[..], b"?", b"c", b"?"]);
    let errors: Vec<_> = listed.iter().filter_map(|entry| entry.as_ref().err()).collect();
    assert_eq!(errors.iter().map(|error| error.path().unwrap()).collect::<Vec<_>>(), [&b"dir/b"[..], b"dir/lost"]);
    assert_eq!(fs.list_after("dir", "b").unwrap().map(|entry| entry.is_ok()).collect::<Vec<_>>(), [true, false]);
    let walked: Vec<bool> = fs.walk("").unwrap().map(|entry| entry.is_ok()).collect();
    assert_eq!(walked, [true, true, true, false, true, false, true]);
    let read: Vec<bool> = fs.read_dir("dir").unwrap().map(|file| file.is_ok()).collect();
    assert_eq!(read, [true, false, true, false]);
    assert_eq!(fs.verify("").unwrap().faults, 2);
    let entry = entries.get("dir").unwrap().unwrap();
    entries.delete("dir").unwrap();
    let listed: Vec<bool> = fs.list("").unwrap().map(|entry| entry.is_ok()).collect();
    assert_eq!(listed, [false], "one error for all that is below a missing directory");
    entries.put("dir", entry).unwrap();
    fails(fs.remove_dir("dir"), ErrorKind::NotEmpty);
    fails(fs.remove("dir/lost"), ErrorKind::Corruption); // it may be a directory
    fails(fs.write("dir/lost", ""), ErrorKind::Corruption);
    fs.write("dir/b", "replaced").unwrap();
    assert_eq!(fs.read("dir/b").unwrap(), b"replaced");
    entries.put("dir\0b", [1, 1]).unwrap();
    fs.remove("dir/b").unwrap();
    assert!(!fs.exists("dir/b").unwrap());
    fs.remove_tree("dir/lost").unwrap();
    assert_eq!(fs.list("dir").unwrap().filter(Result::is_ok).count(), 2);
    entries.put("dir\0c", [1, 1]).unwrap();
    fs.remove_tree("dir").unwrap();
    fs.reclaim().unwrap();
    let report = fs.fsck().unwrap();
    assert_eq!((report.entries, report.contents), (1, 0));
    assert!(report.faults > 0 && report.problems.iter().all(|problem| problem.fault.contains("belongs to no file")));
}

/// A handle of a file whose entry was damaged and replaced does not write to the new file.
#[test]
fn a_handle_lets_a_replaced_damaged_entry_go() {
    let fs = memory();
    fs.write("file", "old").unwrap();
    let file = fs.open_with("file", &OpenOptions::new().write(true)).unwrap();
    fs.db().column_family("files").unwrap().put("file", [1, 1]).unwrap();
    fs.write("file", "new").unwrap();
    file.write_at(b"OLD", 0).unwrap();
    file.close().unwrap();
    assert_eq!(fs.read("file").unwrap(), b"new");
}

#[test]
fn a_damaged_reclaim_record_does_not_keep_the_store_shut() {
    let disk = SimFs::new(13);
    let db = open(&disk).unwrap();
    let fs = small_chunks(&db);
    let chunks = db.column_family("files-chunks").unwrap();
    fs.write("file", bytes(9_000, 1)).unwrap();
    fs.write("gone", bytes(9_000, 2)).unwrap();
    fs.remove("gone").unwrap();
    chunks.put(b"r\0\0\0\0\0\0\x0f\xff", [1]).unwrap();
    chunks.put(b"r\xff", [1, 2]).unwrap();
    drop(fs);
    let fs = FileStore::open(&db, "files").unwrap();
    assert_eq!((fs.waiting_to_reclaim(), fs.reclaim().unwrap()), (1, 1), "the record that is whole");
    assert_eq!(fs.read("file").unwrap(), bytes(9_000, 1));
    let report = fs.fsck().unwrap();
    assert_eq!((report.faults, report.chunks), (2, 3), "{:?}", report.problems);
}

/// Bytes that no compression shortens.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Changes several bytes of a content in the table or value file that holds it.
fn destroy(disk: &SimFs, content: &[u8]) {
    let needle = &content[content.len() / 2..][..16];
    let places: Vec<(PathBuf, usize)> = disk
        .files(DIR)
        .into_iter()
        .filter(|name| name.ends_with(".tbl") || name.ends_with(".val"))
        .map(|name| Path::new(DIR).join(name))
        .filter_map(|path| {
            let bytes = disk.read_all(&path).unwrap();
            let place = bytes.windows(16).position(|window| window == needle)?;
            Some((path, place))
        })
        .collect();
    assert_eq!(places.len(), 1, "{places:?}");
    let (path, place) = &places[0];
    (0..12).for_each(|byte| disk.flip(path, (*place as u64 + byte) * 8 + byte % 8).unwrap());
}

/// Damage below the families, in the midst of a file's chunks: it is that file's alone, and `fsck` goes on behind it.
#[test]
fn damage_of_a_chunk_is_that_of_its_file_alone() {
    let disk = SimFs::new(14);
    let db = open(&disk).unwrap();
    let fs = small_chunks(&db);
    fs.mkdir("dir").unwrap();
    let contents = [("dir/a", noise(12_000, 1)), ("dir/z", noise(3_000, 2)), ("dir/b", noise(12_000, 3))];
    for (name, content) in &contents {
        fs.write(name, content).unwrap(); // the chunks of `z` come before those of `b`
    }
    db.settle().unwrap();
    db.close().unwrap();
    drop((fs, db));
    disk.settle();
    disk.reboot(Crash::Process);
    destroy(&disk, &contents[1].1); // its chunk is short enough for a table
    let db = open(&disk).unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    let read: Vec<_> = fs.read_dir("dir").unwrap().map(|file| file.map(|(_, content)| content.unwrap())).collect();
    assert!(read[0].as_ref().is_ok_and(|content| *content == contents[0].1), "{:?}", read[0].as_ref().err());
    assert!(read[1].as_ref().is_ok_and(|content| *content == contents[2].1), "{:?}", read[1].as_ref().err());
    let error = read[2].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Corruption, Some(&b"dir/z"[..])));
    assert_eq!(fs.verify("").unwrap().faults, 1);
    let report = fs.fsck().unwrap();
    assert_eq!((report.entries, report.contents), (5, 3));
    assert!(
        report.faults > 0 && report.problems.iter().all(|problem| problem.path == b"dir/z"),
        "{:?}",
        report.problems
    );
    fs.remove("dir/z").unwrap();
    assert_eq!(fs.read("dir/b").unwrap(), contents[2].1);
}

/// The store is full: a writer gets the error of its own file, although another one waits with more changes.
#[test]
fn a_writer_gets_the_error_of_its_own_file() {
    let disk = SimFs::new(15);
    let db = open(&disk).unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let (large, small) = (fs.open_with("large", &options).unwrap(), fs.open_with("small", &options).unwrap());
    disk.set_free_space(Some(0));
    let part = bytes(1 << 20, 1);
    let mut place = 0;
    let first = loop {
        match large.write_at(&part, place) {
            Ok(()) => place += 1 << 20,
            Err(error) => break error,
        }
    };
    assert_eq!((first.kind(), first.path()), (ErrorKind::NoSpace, Some(&b"large"[..])));
    assert!(place > 60 << 20, "{place} bytes waited");
    small.write_at(b"small", 0).unwrap(); // fits into the log, and is committed instead
    assert_eq!(fs.read("small").unwrap(), b"small");
    disk.set_free_space(None);
    large.set_len(0).unwrap();
}

/// A stream that finds no room gives back what it took. Otherwise a process that ends then leaves a store without room
/// to recover its log, in which no file can be removed.
#[test]
fn a_stream_that_finds_no_room_takes_none() {
    let disk = SimFs::new(17);
    let reopen = || Db::builder(DIR).env(disk.env(disk.steps() + 1)).open().unwrap();
    let db = reopen();
    let fs = FileStore::open(&db, "files").unwrap();
    fs.write("kept", bytes(100_000, 1)).unwrap();
    db.flush().unwrap();
    let room = 4 << 20;
    disk.set_free_space(Some(room));
    let mut writer = fs.writer("large").unwrap();
    // Compression does not shorten it.
    let mut state = 1u64;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    let part: Vec<u8> = noise.take(1 << 20).collect();
    let written = (0..8).take_while(|_| writer.write_all(&part).is_ok()).count();
    assert!((1..8).contains(&written), "{written}");
    drop(writer);
    while db.step().unwrap() {}
    let left = disk.free_space().unwrap();
    assert!(left > room - (1 << 20), "{left} of {room} bytes are free");
    drop((fs, db));
    disk.reboot(Crash::Process);
    let db = reopen();
    assert!(!db.is_read_only());
    let fs = FileStore::open(&db, "files").unwrap();
    assert_clean(&fs);
    fs.remove("kept").unwrap();
}

/// The error of a change in a store that could not be recovered names the reason, and the way out.
#[test]
fn a_store_without_room_to_recover_says_so() {
    let disk = SimFs::new(18);
    let db = open(&disk).unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    fs.write("file", bytes(100_000, 1)).unwrap();
    drop((fs, db));
    disk.reboot(Crash::Process);
    disk.set_free_space(Some(0));
    let db = open(&disk).unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    let error = fs.remove("file").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    let said = error.to_string();
    assert!(said.contains("no room on the device") && said.contains("free space outside the store"), "{said}");
}

/// An open file elsewhere does not make the reclaim records of a tree worse: its contents go chunk by chunk.
#[test]
fn a_removed_tree_is_reclaimed_as_well_beside_an_open_file() {
    let db = open(&SimFs::new(16)).unwrap();
    let fs = small_chunks(&db);
    fs.mkdir("tree").unwrap();
    fs.write("tree/open", bytes(9_000, 1)).unwrap();
    fs.write("tree/shut", bytes(9_000, 2)).unwrap();
    let file = fs.open("tree/open").unwrap();
    let ids = contents(&fs);
    fs.remove_tree("tree").unwrap();
    let chunks = db.column_family("files-chunks").unwrap();
    let record = |id: u64| chunks.get([&b"r"[..], &id.swap_bytes().to_le_bytes()].concat()).unwrap().unwrap().to_vec();
    assert_eq!((record(ids[1]), record(ids[0]).len()), (vec![1, 3], 6), "3 chunks; any number of chunks");
    drop(file);
    assert_clean(&fs);
}

/// Damage below the families, in the midst of the entries: lists and walks report it once and go on.
#[test]
fn damage_among_entries_is_one_gap() {
    let disk = SimFs::new(17);
    let db = open(&disk).unwrap();
    let fs = small_chunks(&db);
    fs.mkdir("dir").unwrap();
    let contents: Vec<Vec<u8>> = (0..7).map(|n| noise(1_000, n + 30)).collect();
    contents.iter().enumerate().for_each(|(n, content)| fs.write(format!("dir/{n}"), content).unwrap());
    db.settle().unwrap();
    db.close().unwrap();
    drop((fs, db));
    disk.settle();
    disk.reboot(Crash::Process);
    destroy(&disk, &contents[3]);
    let db = open(&disk).unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    let count = |entries: Vec<bool>| {
        (entries.iter().filter(|is_ok| **is_ok).count(), entries.iter().filter(|is_ok| !**is_ok).count())
    };
    assert_eq!(count(fs.list("dir").unwrap().map(|entry| entry.is_ok()).collect()), (6, 1));
    assert_eq!(count(fs.walk("").unwrap().map(|entry| entry.is_ok()).collect()), (8, 1));
    assert_eq!(count(fs.read_dir("dir").unwrap().map(|entry| entry.is_ok()).collect()), (6, 1));
    assert_eq!(fs.read("dir/4").unwrap(), contents[4]);
    fails(fs.read("dir/3"), ErrorKind::Corruption);
    assert_eq!((fs.verify("").unwrap().faults, fs.verify("").unwrap().entries), (1, 8));
    let report = fs.fsck().unwrap();
    assert!(report.entries == 8 && report.faults > 0, "{report:?}");
    fails(fs.rename("dir", "moved"), ErrorKind::Corruption); // an entry would be lost on the way
    fs.write("dir/3", "replaced").unwrap();
    assert_eq!(fs.read("dir/3").unwrap(), b"replaced");
    fs.remove_tree("dir").unwrap();
    assert!(!fs.exists("dir").unwrap());
}

/// A file is shortened by the chunks that stay or by those that go, whichever are fewer: damage among the others is no
/// obstacle.
#[test]
fn the_whole_part_of_a_damaged_file_is_kept() {
    for (missing, kept) in [(5, 2), (1, 8)] {
        let fs = memory();
        let content = bytes(40_000, 1);
        fs.write("file", &content).unwrap();
        fs.db().column_family("files-chunks").unwrap().delete(chunk_key(contents(&fs)[0], missing)).unwrap();
        fs.truncate("file", u64::from(kept * 4096_u32)).unwrap();
        match missing < kept {
            true => drop(fails(fs.read("file"), ErrorKind::Corruption)),
            false => {
                assert!(fs.read("file").unwrap() == content[..8192]);
                assert_clean(&fs);
            }
        }
    }
}
