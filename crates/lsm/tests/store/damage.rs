//! A damaged table loses only its own records: writers continue, and compaction skips the table.

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_testing::store::*;

/// The state after a file system shutdown: the most recently written pages are lost and no writer is active. The error
/// reports exactly that.
#[test]
fn marks_that_are_lost_are_not_a_log_that_keeps_changing() {
    let (sim, dir) = sim(21);
    let db = open(&sim, &dir);
    let ring = dir.join(named(&sim, &dir, ".ring").remove(0));
    let marks = sim.read_all(&ring).unwrap()[..4096].to_vec();
    fill(&db, 0..40, 0);
    db.flush().unwrap();
    assert!(db.read_log(&mut |_, _| false).is_ok());
    let mut bytes = sim.read_all(&ring).unwrap();
    bytes[..4096].copy_from_slice(&marks);
    sim.write_all(&ring, &bytes).unwrap();
    let error = db.read_log(&mut |_, _| false).map(drop).unwrap_err();
    assert!(error.damage().is_some_and(|damage| damage.file.ends_with(".ring")), "{error}");
}

#[test]
fn writers_are_not_stopped_by_a_table_that_cannot_be_compacted() {
    let (sim, dir) = sim(20);
    let once = CfOptions { level0_tables: 1, ..options() };
    let parts = || Parts { families: vec![("default".to_owned(), once.clone())], ..parts(sim.env(sim.steps())) };
    let db = Db::open(&dir, settings(), parts()).unwrap();
    fill(&db, 0..40, 0);
    db.flush().unwrap();
    fill(&db, 100..101, 0);
    db.flush().unwrap();
    db.close().unwrap();
    let table = &named(&sim, &dir, ".tbl")[0];
    sim.flip(dir.join(table), 8 * 100).unwrap();
    let db = Db::open(&dir, settings(), parts()).unwrap();
    for round in 0..60 {
        fill(&db, 20..30, round);
        put(&db, &default(&db), b"key-9", b"elsewhere", Durability::Os).unwrap();
        db.flush().unwrap();
        db.settle().unwrap();
    }
    for n in 20..30 {
        assert_eq!(get(&db, &default(&db), &record(n, 59).0, At::Latest).unwrap(), Some(record(n, 59).1));
    }
    let mut damaged = 0;
    for n in 0..20 {
        match get(&db, &default(&db), &record(n, 0).0, At::Latest) {
            Ok(value) => assert_eq!(value, Some(record(n, 0).1)),
            Err(error) => {
                assert_eq!(error.damage().map(|damage| &damage.file), Some(table), "{error}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0, "the flip hit nothing");
    assert_eq!(get(&db, &default(&db), b"key-9", At::Latest).unwrap().unwrap(), b"elsewhere");
}
