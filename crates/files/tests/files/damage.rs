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
        .filter(|name| name.ends_with(".tbl") || name.ends_with(".blob"))
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
