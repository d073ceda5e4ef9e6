//! The permission mode of every file and directory that a store creates.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use waxseal_lsm::db::{Db, Parts};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::{Durability, Settings};
use waxseal_testing::store::*;

#[expect(clippy::disallowed_methods, reason = "the engine cannot read a mode")]
fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns each file of a directory with its mode, without those that the store removes meanwhile.
#[expect(clippy::disallowed_methods, reason = "the engine cannot read a mode")]
fn modes(dir: &Path) -> Vec<(String, u32)> {
    let mut modes = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.metadata() {
            Ok(metadata) => {
                modes.push((entry.file_name().to_string_lossy().into_owned(), metadata.permissions().mode() & 0o777));
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
        }
    }
    modes
}

fn open(dir: &Path, file_mode: Option<u32>) -> waxseal_lsm::error::Result<Db> {
    Db::open(dir, Settings { file_mode, ..settings() }, Parts { families: vec![], ..Parts::real() })
}

#[test]
fn every_file_that_a_store_creates_has_the_mode() {
    let home = tempfile::tempdir().unwrap();
    let (dir, copy) = (home.path().join("a").join("store"), home.path().join("copy"));
    let db = open(&dir, Some(0o600)).unwrap();
    put(&db, &default(&db), b"large", &[7; 10_000], Durability::Os).unwrap(); // in a blob file
    fill(&db, 0..600, 1);
    db.flush().unwrap();
    fill(&db, 0..600, 2);
    db.settle().unwrap();
    db.checkpoint(&copy).unwrap();
    for dir in [&dir, &copy] {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
        let modes = modes(dir);
        for end in [".tbl", ".val", "CURRENT", "LOCK"] {
            assert!(modes.iter().any(|(name, _)| name.ends_with(end)), "no {end} in {modes:?}");
        }
        assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
    }
    assert_ne!(mode(&home.path().join("a")), 0o700); // a parent is no directory of the store
    db.close().unwrap();

    let db = open(&dir, Some(0o640)).unwrap();
    let now = modes(&dir);
    let of = |name: &str| now.iter().find(|(other, _)| other == name).unwrap().1;
    assert_eq!((of("LOCK"), of("CURRENT")), (0o600, 0o640)); // the old file keeps its mode, a new one gets it
    assert_eq!(mode(&dir), 0o700);
    db.close().unwrap();
}

#[test]
fn without_a_mode_the_umask_decides() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    #[expect(clippy::disallowed_methods, reason = "the engine cannot read a mode")]
    std::fs::write(home.path().join("plain"), "").unwrap();
    let plain = mode(&home.path().join("plain"));
    let db = open(&dir, None).unwrap();
    let modes = modes(&dir);
    assert!(!modes.is_empty() && modes.iter().all(|(_, mode)| *mode == plain), "{modes:?}, not {plain:o}");
    db.close().unwrap();
}

#[test]
fn a_mode_that_keeps_the_owner_out_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    for mode in [0, 0o400, 0o200, 0o066, 0o1600, u32::MAX] {
        let error = assert_kind(open(&dir, Some(mode)), ErrorKind::Invalid, "a bad mode");
        assert!(error.to_string().contains("file_mode"), "{error}");
        assert!(!dir.exists());
    }
}
