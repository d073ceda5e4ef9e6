//! Tests of directories and the judgements on them.

use std::collections::BTreeMap;
use std::path::Path;

use super::current::Current;
use super::{Contents, Foreign, Marked, contents, our_files, owner_of};
use crate::checksum::Uid;
use crate::env::{Fs, RealFs, SimFs};
use crate::header::{FileHeader, FileKind};
use crate::names::StoreFileName;

fn header(kind: FileKind) -> Vec<u8> {
    FileHeader::new(kind, Uid([7; 16])).encode().to_vec()
}

/// Files in a simulated directory; a name that ends in a slash is a directory.
fn judged(files: &[(&str, &[u8])]) -> (Contents, Vec<StoreFileName>) {
    let (sim, dir) = (SimFs::new(1), Path::new("/dir"));
    sim.create_dir_all(dir).unwrap();
    for (name, bytes) in files {
        match name.strip_suffix('/') {
            Some(name) => sim.create_dir_all(&dir.join(name)).unwrap(),
            None => sim.write_all(dir.join(name), bytes).unwrap(),
        }
    }
    (contents(&sim.env(1), dir).unwrap(), our_files(&sim.env(1), dir).unwrap())
}

fn what(files: &[(&str, &[u8])]) -> Contents {
    judged(files).0
}

fn other(name: &str) -> Contents {
    Contents::Foreign(Foreign::Other(name.to_owned()))
}

#[test]
fn a_directory_is_judged_by_first_bytes_and_never_by_names_alone() {
    let current = Current { manifest: 4, store: Uid([9; 16]) }.encode();
    let current = current.as_bytes();
    let mut flipped = current.to_vec();
    flipped[20] ^= 1;
    let [log, ring, values, table, manifest] =
        [FileKind::Segment, FileKind::Ring, FileKind::Values, FileKind::Table, FileKind::Manifest].map(header);
    let [exchange, backup] = [FileKind::Exchange, FileKind::Backup].map(header);
    let text: &[u8] = b"my own notes";
    type Files<'a> = Vec<(&'a str, &'a [u8])>;
    let cases: Vec<(Files<'_>, Contents)> = vec![
        (vec![], Contents::Empty),
        (vec![("lost+found/", b"")], Contents::Empty),
        (vec![("LOCK", b"process 17")], Contents::Empty),
        (vec![("LOCK", b"")], Contents::Empty),
        (vec![("LOCK", text)], other("LOCK")),
        (vec![("lost+found", text)], other("lost+found")),
        (vec![("photos/", b"")], other("photos")),
        (vec![("notes.txt", b"")], other("notes.txt")),
        // An interrupted creation.
        (vec![("LOCK", b""), ("MANIFEST-000001", &manifest)], Contents::Empty),
        (vec![("LOCK", b""), ("MANIFEST-000001", b""), ("CURRENT.tmp", b"")], Contents::Empty),
        (vec![("LOCK", b""), ("MANIFEST-000001", &manifest), ("CURRENT.tmp", current)], Contents::Empty),
        (vec![("LOCK", b""), ("UNFINISHED", b"waxseal ch")], Contents::Empty),
        (vec![("LOCK", b""), ("MANIFEST-000001", b"WAXS"), ("CURRENT.tmp", b"MANIF")], Contents::Empty),
        (vec![("MANIFEST-000001", b"")], other("MANIFEST-000001")),
        (vec![("LOCK", b""), ("MANIFEST-000001", &manifest), ("a", text)], other("a")),
        // A user's own files with our names.
        (vec![("CURRENT", text)], other("CURRENT")),
        (vec![("CURRENT", b"")], other("CURRENT")),
        (vec![("LOCK", b""), ("CURRENT", b"")], other("CURRENT")),
        (vec![("MANIFEST-000001", text)], other("MANIFEST-000001")),
        (vec![("000001.log", text)], other("000001.log")),
        (vec![("LOCK", b""), ("000001.log", text)], other("000001.log")),
        (vec![("000001.tbl", text)], other("000001.tbl")),
        (vec![("000001.cut", text)], other("000001.cut")),
        (vec![("CURRENT/", b"")], other("CURRENT")),
        (vec![("000001.log/", b"")], other("000001.log")),
        // A file with our header under a name of another kind is not ours.
        (vec![("000001.log", &table)], other("000001.log")),
        // Stores.
        (vec![("CURRENT", current)], Contents::Store),
        (vec![("CURRENT", current), ("MANIFEST-000004", &manifest), ("notes.txt", text)], Contents::Store),
        (vec![("000002.log", &log)], Contents::Damaged),
        (vec![("000002.ring", &ring)], Contents::Damaged),
        (vec![("000002.val", &values)], Contents::Damaged),
        (vec![("000002.tbl", &table)], Contents::Damaged),
        (vec![("MANIFEST-000001", &manifest), ("000002.log", &log)], Contents::Damaged),
        (vec![("000002.log", &log), ("notes.txt", text), ("000001.log", text)], Contents::Damaged),
        (vec![("CURRENT", &flipped), ("MANIFEST-000004", &manifest)], Contents::Damaged),
        (vec![("CURRENT", b""), ("000002.log", &log)], Contents::Damaged),
        // Directories of ours that are not stores.
        (vec![("UNFINISHED", b"waxseal checkpoint\n"), ("000002.tbl", &table)], {
            Contents::Marked(Marked::UnfinishedCheckpoint)
        }),
        (vec![("UNFINISHED", b"waxseal export\n"), ("000001.tbl", &table)], Contents::Marked(Marked::UnfinishedExport)),
        (vec![("EXCHANGE", &exchange), ("000001.tbl", &table)], Contents::Marked(Marked::Export)),
        (vec![("UNFINISHED", b"waxseal restore\n"), ("000001.tbl", &table)], {
            Contents::Marked(Marked::UnfinishedRestore)
        }),
        (vec![("BACKUP-000001", &backup), ("LOCK", b"")], Contents::Marked(Marked::Backups)),
        (vec![("BACKUP-000001", text)], other("BACKUP-000001")),
        (vec![("BACKUP-000001", &backup), ("CURRENT", current)], Contents::Store),
        (vec![("UNFINISHED", b"waxseal ch")], Contents::Empty),
        (vec![("CURRENT.tmp", current)], other("CURRENT.tmp")),
        (vec![("UNFINISHED", text)], other("UNFINISHED")),
        (vec![("UNFINISHED", b"waxseal checkpoint\n"), ("CURRENT", current)], Contents::Store),
        (vec![("UNFINISHED", b"waxseal restore\n"), ("CURRENT", &flipped), ("000001.tbl", &table)], Contents::Damaged),
        (vec![("UNFINISHED", b"waxseal restore\n"), ("CURRENT", text)], other("CURRENT")),
        // Other engines.
        (vec![("CURRENT", b"MANIFEST-000004\n"), ("LOCK", b""), ("000003.log", text)], {
            Contents::Foreign(Foreign::LevelDb)
        }),
        (vec![("CURRENT", b"MANIFEST-000004\n"), ("IDENTITY", text)], Contents::Foreign(Foreign::RocksDb)),
        (vec![("CURRENT", b"MANIFEST-000004\n"), ("OPTIONS-000007", text)], Contents::Foreign(Foreign::RocksDb)),
        (vec![("000005.ldb", text), ("LOCK", b"")], Contents::Foreign(Foreign::LevelDb)),
        (vec![("000005.sst", text), ("OPTIONS-000007", text)], Contents::Foreign(Foreign::RocksDb)),
        (vec![("CURRENT", b"MANIFEST-000004\n"), ("000002.log", &log)], Contents::Foreign(Foreign::LevelDb)),
        (vec![("CURRENT", b"MANIFEST-\n")], other("CURRENT")),
    ];
    for (files, expected) in cases {
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        assert_eq!(what(&files), expected, "{names:?}");
    }
    assert_eq!(contents(&SimFs::new(1).env(1), Path::new("/none")).unwrap(), Contents::Empty);
}

#[test]
fn only_files_that_the_engine_wrote_are_a_stores_own() {
    let current = Current { manifest: 4, store: Uid([9; 16]) }.encode();
    let [log, table, manifest] = [FileKind::Segment, FileKind::Table, FileKind::Manifest].map(header);
    let text: &[u8] = b"my own notes";
    let (_, ours) = judged(&[
        ("CURRENT", current.as_bytes()),
        ("LOCK", b"process 1"),
        ("MANIFEST-000004", &manifest),
        ("MANIFEST-000009", text),
        ("000001.tbl", &table),
        ("000002.tbl", text),
        ("000003.tbl", b""),
        ("000005.log", &log),
        ("000006.log", text),
        ("000007.cut", text),
        ("000008.damaged", text),
        ("notes.txt", text),
        ("000010.tbl/", b""),
    ]);
    let named: BTreeMap<StoreFileName, String> = ours.into_iter().map(|name| (name, name.to_string())).collect();
    let expected = [
        "000001.tbl",
        "000003.tbl",
        "000005.log",
        "MANIFEST-000004",
        "000007.cut",
        "000008.damaged",
        "CURRENT",
        "LOCK",
    ];
    assert_eq!(named.into_values().collect::<Vec<_>>(), expected);
}

/// Only the operating system has these: links, pipes that would block a reader, and files without read permission.
#[test]
fn links_and_pipes_are_not_read_and_are_never_ours() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let (dir, elsewhere) = (home.path().join("dir"), home.path().join("CURRENT"));
    RealFs.create_dir_all(&dir).unwrap();
    let file = RealFs.open(&elsewhere, crate::env::Open::Create).unwrap();
    file.write_at(Current { manifest: 4, store: Uid([9; 16]) }.encode().as_bytes(), 0).unwrap();
    symlink(&elsewhere, dir.join("CURRENT")).unwrap();
    let env = crate::env::Env::real();
    assert_eq!(contents(&env, &dir).unwrap(), other("CURRENT"));
    assert_eq!(our_files(&env, &dir).unwrap(), []);
    RealFs.remove(&dir.join("CURRENT")).unwrap();
    symlink(home.path().join("nowhere"), dir.join("000001.log")).unwrap();
    assert_eq!(contents(&env, &dir).unwrap(), other("000001.log"));
    RealFs.remove(&dir.join("000001.log")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(dir.join("CURRENT")).status().unwrap();
    assert!(made.success());
    assert_eq!(contents(&env, &dir).unwrap(), other("CURRENT"));
    RealFs.create_dir_all(&dir.join("000002.log")).unwrap();
    for name in [StoreFileName::Current, StoreFileName::Segment(2), StoreFileName::Segment(3)] {
        assert_eq!(owner_of(&RealFs, &dir, name).unwrap(), None, "{name}");
    }
}
