//! Opening, sharing and closing a file store; calls that the other tests repeat.

use waxseal::{CfOptions, Db, Durability};
use waxseal_files::{Error, ErrorKind, FileStore, FileStoreOptions, Files, OpenOptions, Result};

/// Returns a file store in memory with chunks of 4 KiB.
pub(crate) fn memory() -> FileStore {
    small_chunks(&Db::memory().unwrap())
}

/// Opens a file store with chunks of 4 KiB.
pub(crate) fn small_chunks(db: &Db) -> FileStore {
    FileStoreOptions::new().chunk_bytes(4096).open(db, "files").unwrap()
}

/// Returns bytes without zeros that differ from chunk to chunk.
pub(crate) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|n| ((n * 31 + n / 4096 * 7 + seed) % 255 + 1) as u8).collect()
}

/// Checks the kind of an error.
#[track_caller]
pub(crate) fn fails<T>(result: Result<T>, kind: ErrorKind) -> Error {
    match result {
        Ok(_) => panic!("succeeded, expected {kind:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error}");
            error
        }
    }
}

/// Returns the names in a directory.
pub(crate) fn names(fs: &Files, path: &str) -> Vec<String> {
    let names = fs.list(path).unwrap().map(|entry| String::from_utf8(entry.unwrap().name).unwrap());
    names.collect()
}

/// Returns the paths of a tree.
pub(crate) fn paths(fs: &Files, path: &str) -> Vec<String> {
    let paths = fs.walk(path).unwrap().map(|entry| String::from_utf8(entry.unwrap().path).unwrap());
    paths.collect()
}

/// Checks that nothing is wrong and nothing waits to be deleted.
#[track_caller]
pub(crate) fn assert_clean(fs: &Files) {
    fs.reclaim().unwrap();
    let report = fs.fsck().unwrap();
    assert_eq!((report.faults, report.reclaims), (0, 0), "{:?}", report.problems);
    let report = fs.verify("").unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

#[test]
fn a_store_keeps_its_files_and_its_chunk_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let content = bytes(10_000, 1);
    {
        let db = Db::open(&path).unwrap();
        let fs = small_chunks(&db);
        fs.mkdir("a").unwrap();
        fs.with_durability(Durability::Sync).write("a/b", &content).unwrap();
        db.close().unwrap();
        fails(fs.read("a/b"), ErrorKind::Stale);
    }
    let db = Db::open(&path).unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    assert_eq!(fs.chunk_bytes(), 4096);
    assert_eq!(fs.read("a/b").unwrap(), content);
    let inode = fs.stat("a/b").unwrap().inode;
    fs.write("a/c", "").unwrap();
    assert!(fs.stat("a/c").unwrap().inode > inode);
    assert_clean(&fs);
    drop((fs, db));

    let db = Db::open_read_only(&path).unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    assert_eq!(fs.read("a/b").unwrap(), content);
    fails(fs.write("a/b", ""), ErrorKind::ReadOnly);
    fails(fs.remove("a/b"), ErrorKind::ReadOnly);
    fails(fs.mkdir("d"), ErrorKind::ReadOnly);
    fails(fs.rename("a", "d"), ErrorKind::ReadOnly);
    fails(fs.append("a/b", "x"), ErrorKind::ReadOnly);
    fails(FileStore::open(&db, "other").map(drop), ErrorKind::Invalid);
}

#[test]
fn handles_of_one_process_share_their_state() {
    let db = Db::memory().unwrap();
    let (one, other) = (small_chunks(&db), FileStore::open(&db, "files").unwrap());
    one.write("file", bytes(9000, 1)).unwrap();
    let file = other.open("file").unwrap();
    one.remove("file").unwrap();
    assert_eq!((one.reclaim().unwrap(), one.waiting_to_reclaim()), (0, 1), "the other handle has it open");
    drop(file);
    assert_clean(&other);
    let elsewhere = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
    assert!(!elsewhere.exists("file").unwrap());
}

#[test]
fn families_with_other_records_are_refused() {
    let db = Db::memory().unwrap();
    db.column_family("files").unwrap().put("key", "value").unwrap();
    db.column_family("other-chunks").unwrap().put("key", "value").unwrap();
    let names = || db.column_families().iter().map(|family| family.name().to_owned()).collect::<Vec<_>>();
    let before = names();
    fails(FileStore::open(&db, "files").map(drop), ErrorKind::Invalid);
    fails(FileStore::open(&db, "other").map(drop), ErrorKind::Invalid);
    assert_eq!(names(), before, "a refused store creates no family");
    fails(FileStoreOptions::new().chunk_bytes(4095).open(&db, "more").map(drop), ErrorKind::Invalid);
    fails(FileStoreOptions::new().chunk_bytes(5_000_001).open(&db, "more").map(drop), ErrorKind::Invalid);
}

/// The error names the family that is gone, and nothing is created in its place.
#[test]
fn a_family_that_is_gone_is_named() {
    let families = ["files", "files-chunks"];
    for (gone, other) in [(families[0], families[1]), (families[1], families[0])] {
        let db = Db::memory().unwrap();
        FileStore::open(&db, "files").unwrap().write("file", "content").unwrap();
        db.drop_column_family(gone).unwrap();
        let error = fails(FileStore::open(&db, "files").map(drop), ErrorKind::Corruption).to_string();
        assert!(
            error.contains(&format!("{other:?} is part of a file store whose family {gone:?} is missing")),
            "{error}"
        );
        assert!(db.column_families().iter().all(|family| family.name() != gone));
        if gone == "files-chunks" {
            drop(db.create_column_family(gone, CfOptions::default()).unwrap()); // as an earlier build did it
            fails(FileStore::open(&db, "files").map(drop), ErrorKind::Corruption);
        }
    }
}

/// A session's handle creates no family with the default options in the place of one that was dropped.
#[test]
fn a_session_makes_no_family() {
    for gone in ["files", "files-chunks"] {
        let db = Db::memory().unwrap();
        let store = FileStore::open(&db, "files").unwrap();
        db.drop_column_family(gone).unwrap();
        let error = fails(store.in_session(&db.session("alice").unwrap()).map(drop), ErrorKind::Invalid);
        assert!(error.to_string().contains(&format!("{gone:?} was dropped")), "{error}");
        assert!(db.column_families().iter().all(|family| family.name() != gone));
    }
}

#[test]
fn two_file_stores_of_one_db_are_apart() {
    let db = Db::memory().unwrap();
    let (one, other) = (FileStore::open(&db, "one").unwrap(), FileStore::open(&db, "other").unwrap());
    one.write("file", bytes(5000, 1)).unwrap();
    other.write("file", bytes(5000, 2)).unwrap();
    assert_eq!(one.read("file").unwrap(), bytes(5000, 1));
    one.remove("file").unwrap();
    assert_eq!(other.read("file").unwrap(), bytes(5000, 2));
    assert_clean(&one);
    assert_clean(&other);
}

/// A handle of a read-only store reads one commit, whatever the writer does to the chunks of the file.
#[test]
fn a_handle_beside_a_writer_keeps_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store")).unwrap();
    let fs = small_chunks(&db);
    let before = bytes(20_000, 1);
    fs.write("file", &before).unwrap();
    fs.write("small", "small").unwrap();
    db.sync().unwrap();
    let beside = Db::open_read_only(dir.path().join("store")).unwrap();
    let reading = FileStore::open(&beside, "files").unwrap();
    let (file, removed) = (reading.open("file").unwrap(), reading.open("small").unwrap());
    let read = |file: &waxseal_files::File, length: usize| {
        let mut out = vec![0; length];
        assert_eq!(file.read_at(&mut out, 0).unwrap(), length);
        out
    };
    let change = fs.open_with("file", &OpenOptions::new().write(true)).unwrap();
    change.write_at(b"changed", 9_000).unwrap();
    change.set_len(19_000).unwrap();
    change.close().unwrap();
    fs.remove("small").unwrap();
    db.sync().unwrap();
    beside.refresh().unwrap();
    assert!(read(&file, 20_000) == before, "old and new chunks are mixed");
    assert_eq!((file.metadata().size, read(&removed, 5)), (20_000, b"small".to_vec()));
    let again = reading.open("file").unwrap();
    assert_eq!((again.metadata().size, &read(&again, 19_000)[9_000..9_007]), (19_000, &b"changed"[..]));
    fs.remove("file").unwrap();
    fs.reclaim().unwrap();
    db.sync().unwrap();
    beside.refresh().unwrap();
    assert!(read(&file, 20_000) == before);
    fails(reading.stat("file"), ErrorKind::NotFound);
}

#[test]
fn a_store_without_range_deletes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path().join("store")).format_level(1).open().unwrap();
    let error = fails(FileStore::open(&db, "files"), ErrorKind::Invalid);
    assert!(error.to_string().contains("upgrade(2)"), "{error}");
    db.upgrade(2).unwrap();
    FileStore::open(&db, "files").unwrap().write("/file", b"content").unwrap();
}
