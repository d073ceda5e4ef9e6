//! Read-only opens: they write nothing, need no lock, and see one moment at a time, even beside a writer.

use std::sync::atomic::{AtomicBool, Ordering};

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::Fs;
use waxseal_lsm::error::{ErrorKind, Verdict};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_testing::gates::GatedFs;
use waxseal_testing::store::*;

#[test]
fn a_read_only_store_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let db = Db::open(&dir, settings(), parts(waxseal_lsm::env::Env::real())).unwrap();
    fill(&db, 0..400, 0);
    db.flush().unwrap();
    fill(&db, 100..200, 1);
    db.close().unwrap();
    let before = real_bytes(&dir);
    let reader = Db::open_read_only(&dir, settings(), parts(waxseal_lsm::env::Env::real())).unwrap();
    assert!(reader.is_read_only());
    let expected = [filled(0..100, 0), filled(100..200, 1), filled(200..400, 0)].concat();
    assert_eq!(rows(&reader, &default(&reader), At::Latest).unwrap(), expected);
    for (call, error) in every_call(&reader, &default(&reader), &dir) {
        let reads =
            ["get", "cursor", "multi_get", "approximate_size", "snapshot", "durable_snapshot", "refresh", "step"];
        let expected = if reads.contains(&call) { None } else { Some(ErrorKind::ReadOnly) };
        assert_eq!(error.map(|error| error.kind().clone()), expected, "{call}");
    }
    reader.close().unwrap();
    assert_eq!(real_bytes(&dir), before);
}

#[test]
fn a_crashed_store_is_read_as_recovery_would_leave_it() {
    for mapped in [true, false] {
        let (sim, dir) = sim(30);
        sim.set_mapped(mapped);
        let db = open(&sim, &dir);
        fill(&db, 0..300, 0);
        for round in 1..4 {
            db.flush().unwrap();
            fill(&db, 50..100, round);
        }
        kill(&sim, db);
        let before = sim_bytes(&sim, &dir);
        let steps = sim.changing_steps().len();
        let expected = [filled(0..50, 0), filled(50..100, 3), filled(100..300, 0)].concat();
        let reader = read_only(&sim, &dir).unwrap();
        assert_eq!(rows(&reader, &default(&reader), At::Latest).unwrap(), expected);
        while reader.step().unwrap() {}
        reader.refresh().unwrap();
        assert_eq!(rows(&reader, &default(&reader), At::Latest).unwrap(), expected);
        reader.close().unwrap();
        assert_eq!(sim.changing_steps().len(), steps, "a step that changes something");
        assert_eq!(sim_bytes(&sim, &dir), before);
        let db = open(&sim, &dir);
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected);
    }
}

#[test]
fn a_reader_beside_a_writer_sees_one_moment_until_it_looks_again() {
    let (sim, dir) = sim(31);
    let db = open(&sim, &dir);
    fill(&db, 0..200, 0);
    let reader = read_only(&sim, &dir).unwrap();
    let family = default(&reader);
    let snapshots: Vec<_> = (1..12)
        .map(|round| {
            let snapshot = reader.snapshot().unwrap();
            fill(&db, 0..200, round);
            if round % 3 == 0 {
                db.compact(&default(&db), &ALL).unwrap(); // the writer's tables no longer hold the snapshots' versions
            }
            assert_eq!(rows(&reader, &family, At::Latest).unwrap(), filled(0..200, round - 1));
            reader.refresh().unwrap();
            assert_eq!(rows(&reader, &family, At::Latest).unwrap(), filled(0..200, round));
            (round - 1, snapshot)
        })
        .collect();
    for (round, snapshot) in &snapshots {
        assert_eq!(rows(&reader, &family, At::Snapshot(snapshot)).unwrap(), filled(0..200, *round), "round {round}");
        let (key, value) = record(77, *round);
        assert_eq!(get(&reader, &family, &key, At::Snapshot(snapshot)).unwrap(), Some(value));
    }
    assert_kind(get(&db, &default(&db), b"k", At::Snapshot(&snapshots[0].1)), ErrorKind::Invalid, "another store's");
    let added = db.create_family("added", options()).unwrap();
    put(&db, &added, b"k", b"v", Durability::Os).unwrap();
    assert!(reader.family("added").is_none());
    reader.refresh().unwrap();
    assert_eq!(get(&reader, &reader.family("added").unwrap(), b"k", At::Latest).unwrap().unwrap(), b"v");
    db.drop_family("added").unwrap();
    reader.refresh().unwrap();
    assert!(reader.family("added").is_none());
}

/// A reader with few open files cannot keep the tables that a writer replaces. It asks for a refresh, and reports
/// neither damage nor fewer rows.
#[test]
fn a_reader_without_a_table_that_the_writer_replaced_asks_for_a_refresh() {
    let (sim, dir) = sim(43);
    let db = open(&sim, &dir);
    fill(&db, 0..1500, 0);
    db.settle().unwrap();
    let open = |most| {
        let settings = Settings { open_tables: most, ..settings() };
        Db::open_read_only(&dir, settings, parts(sim.env(sim.steps()))).unwrap()
    };
    let (reader, pinned) = (open(2), open(1000));
    fill(&db, 0..1500, 1);
    db.compact(&default(&db), &ALL).unwrap();
    let family = default(&reader);
    let (mut found, mut outdated) = (0, 0);
    for (key, value) in filled(0..1500, 0) {
        match get(&reader, &family, &key, At::Latest) {
            Ok(stored) => {
                assert_eq!(stored, Some(value));
                found += 1;
            }
            Err(error) => {
                assert!(error.needs_refresh(), "{error:?}");
                outdated += 1;
            }
        }
    }
    assert!(found > 0 && outdated > 500, "{found} found, {outdated} outdated");
    let error = rows(&reader, &family, At::Latest).unwrap_err();
    assert!(error.needs_refresh() && error.to_string().contains("`refresh`"), "{error}");
    assert_eq!(reader.metrics().integrity.damaged_blocks, 0);
    assert_eq!(rows(&pinned, &default(&pinned), At::Latest).unwrap(), filled(0..1500, 0));
    reader.refresh().unwrap();
    assert_eq!(rows(&reader, &family, At::Latest).unwrap(), filled(0..1500, 1));
    assert!(reader.metrics().open_files <= 2);

    // The manifest names a lost table.
    let tables = db.tables(&default(&db)).unwrap();
    db.close().unwrap();
    sim.env(1).fs.remove(&dir.join(tables[0].name())).unwrap();
    let reader = open(2);
    let error = rows(&reader, &default(&reader), At::Latest).unwrap_err();
    assert_eq!(
        error.damage().map(|damage| (damage.verdict, &damage.file[..])),
        Some((Verdict::Missing, &tables[0].name()[..]))
    );
}

/// After a reader has read the marks and before it reads the manifest, a batch over two families is committed, and one
/// of them is flushed. The tables then hold half of the batch, and the log up to the marks holds none of it.
#[test]
fn a_manifest_that_is_ahead_of_the_marks_is_looked_at_again() {
    let (sim, dir) = sim(42);
    let db = open(&sim, &dir);
    let other = db.create_family("other", options()).unwrap();
    fill(&db, 0..20, 0);
    let env = sim.env(9);
    let (fs, gates) = GatedFs::new(env.fs);
    let beside = parts(waxseal_lsm::env::Env { fs: std::sync::Arc::new(fs), ..env });
    let writer = db.clone();
    gates.before_looks.push(move || {
        let mut batch = waxseal_lsm::batch::Batch::new();
        for family in [default(&writer), other.clone()] {
            batch.push(family.id(), waxseal_lsm::record::Kind::Put, b"both", b"1", writer.companions()).unwrap();
        }
        writer.commit(&mut batch, Durability::Os).unwrap();
        writer.flush_ordered(&other).unwrap();
    });
    gates.before_looks.push(|| {}); // the first read of the manifest locates the marks
    let reader = Db::open_read_only(&dir, settings(), beside).unwrap();
    assert!(gates.before_looks.are_over());
    for name in ["default", "other"] {
        let family = reader.family(name).unwrap();
        assert_eq!(get(&reader, &family, b"both", At::Latest).unwrap().as_deref(), Some(&b"1"[..]), "{name}");
    }
}

/// A reader sees every commit that it counts, even if an edit without a log change counts a commit newer than the
/// marks.
#[test]
fn a_reader_counts_no_commit_that_it_does_not_see() {
    let (sim, dir) = sim(43);
    let db = open(&sim, &dir);
    fill(&db, 0..20, 0);
    let env = sim.env(9);
    let (fs, gates) = GatedFs::new(env.fs);
    let beside = parts(waxseal_lsm::env::Env { fs: std::sync::Arc::new(fs), ..env });
    let writer = db.clone();
    gates.before_looks.push(move || {
        put(&writer, &default(&writer), b"late", b"1", Durability::Os).unwrap();
        writer.create_family("told", options()).unwrap();
    });
    gates.before_looks.push(|| {}); // as above
    let reader = Db::open_read_only(&dir, settings(), beside).unwrap();
    assert!(gates.before_looks.are_over());
    let sees = get(&reader, &default(&reader), b"late", At::Latest).unwrap().is_some();
    assert_eq!(sees, reader.metrics().visible_seqno == db.metrics().visible_seqno);
}

/// Signals the end of the writer, even after a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One thread writes, another refreshes repeatedly, and others read: batches are never torn, and time never runs back.
#[test]
fn readers_of_a_read_only_store_stay_exact_while_it_looks_again() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let env = waxseal_lsm::env::Env::real();
    let db = Db::open(&dir, settings(), parts(env.clone())).unwrap();
    let other = db.create_family("other", options()).unwrap();
    let write = |round: u64| {
        let mut batch = waxseal_lsm::batch::Batch::new();
        for family in [&default(&db), &other] {
            for n in 0..20 {
                let (key, _) = record(n, 0);
                let kind = waxseal_lsm::record::Kind::Put;
                batch.push(family.id(), kind, &key, &round.to_le_bytes(), db.companions()).unwrap();
            }
        }
        db.commit(&mut batch, Durability::Os).unwrap();
    };
    write(0);
    let reader = Db::open_read_only(&dir, settings(), Parts { ..parts(env) }).unwrap();
    let done = AtomicBool::new(false);
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut last, mut last_latest) = (0, 0);
                    while !done.load(Ordering::Relaxed) {
                        let key = record(7, 0).0;
                        let latest = get(&reader, &default(&reader), &key, At::Latest).unwrap();
                        let latest = number(&latest.expect("a key that was never deleted"));
                        assert!(latest >= last_latest, "{latest} after {last_latest}");
                        last_latest = latest;
                        let snapshot = reader.snapshot().unwrap();
                        let mut seen = Vec::new();
                        for name in ["default", "other"] {
                            let family = reader.family(name).unwrap();
                            seen.extend(rows(&reader, &family, At::Snapshot(&snapshot)).unwrap());
                        }
                        assert_eq!(seen.len(), 40);
                        let first = number(&seen[0].1);
                        assert!(seen.iter().all(|(_, value)| number(value) == first), "a torn batch");
                        assert!(first >= last, "{first} after {last}");
                        last = first;
                    }
                })
            })
            .collect();
        let end = Ended(&done);
        for round in 1..400 {
            write(round);
            if round % 4 == 0 {
                reader.refresh().unwrap();
            }
            if round % 40 == 0 {
                db.compact(&default(&db), &ALL).unwrap();
            }
        }
        drop(end);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    reader.refresh().unwrap();
    assert_eq!(number(&get(&reader, &default(&reader), &record(7, 0).0, At::Latest).unwrap().unwrap()), 399);
    assert!(waxseal_lsm::env::RealFs.exists(&dir).unwrap());
}

/// Neither a writer nor a reader needs the ring of a closed store.
#[test]
fn a_closed_store_is_read_though_its_ring_is_lost() {
    let (sim, dir) = sim(41);
    let db = open(&sim, &dir);
    fill(&db, 0..40, 0);
    db.close().unwrap();
    drop(db);
    let ring = named(&sim, &dir, ".ring").remove(0);
    sim.remove(&dir.join(ring)).unwrap();
    let beside = read_only(&sim, &dir).unwrap();
    assert_eq!(rows(&beside, &default(&beside), At::Latest).unwrap(), filled(0..40, 0));
    drop(beside);
    let db = open(&sim, &dir);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..40, 0));
}

/// The state of a copy whose ring was copied before its manifest, on the store's own machine: no writer will update its
/// marks. The log is therefore read as in an open for writing.
#[test]
fn a_ring_that_is_older_than_its_manifest_is_no_writer_at_work() {
    let (sim, dir) = sim(43);
    let db = open(&sim, &dir);
    fill(&db, 0..20, 0);
    let ring = dir.join(named(&sim, &dir, ".ring").remove(0));
    let older = sim.read_all(&ring).unwrap();
    fill(&db, 20..40, 0);
    db.flush().unwrap();
    kill(&sim, db);
    sim.write_all(&ring, &older).unwrap();
    let beside = read_only(&sim, &dir).map(|beside| rows(&beside, &default(&beside), At::Latest).unwrap());
    let written = Db::open(&dir, settings(), parts(sim.env(9))).map(|db| rows(&db, &default(&db), At::Latest).unwrap());
    match (beside, written) {
        (Ok(beside), Ok(written)) => assert_eq!(beside, written),
        (Err(beside), Err(written)) => assert_eq!(beside.to_string(), written.to_string()),
        (beside, written) => panic!("{beside:?} beside {written:?}"),
    }
}
