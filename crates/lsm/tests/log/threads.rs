//! Many threads on one log: real files, real syncs, and a background thread that drains and prepares. Also the exact
//! order of I/O of one synced commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::driver::*;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::work::lock;
use waxseal_lsm::env::{Env, Fs, Open, RealFs, TracedFs};
use waxseal_lsm::identity::StoreIdentity;
use waxseal_lsm::options::Settings;
use waxseal_lsm::wal::{LogProofs, Precondition, Wal, Whole, recover};

#[test]
fn threads_commit_beside_each_other_and_all_is_read_back() {
    const THREADS: usize = 6;
    const EACH: usize = 1500;
    for mapped in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::real();
        let settings = Settings {
            segment_bytes: 256 * 1024,
            ring_bytes: 64 * 1024,
            drain_bytes: 16 * 1024,
            wal_mapped: mapped,
            ..Settings::default()
        };
        let next = Arc::new(AtomicU64::new(1));
        let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
        let (wal, start) =
            Wal::<Vec<u8>>::create(&env, (dir.path(), &StoreIdentity::default()), &settings, 4096, 1, numbers).unwrap();
        let applied: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let background = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let drained = wal.drain_due() && wal.drain().unwrap();
                    let prepared = wal.prepare_due() && wal.prepare_some().unwrap();
                    if !drained && !prepared && !wal.sync_full().unwrap() {
                        std::thread::yield_now();
                    }
                }
            });
            let committers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (wal, applied) = (&wal, &applied);
                    scope.spawn(move || {
                        let mut group: Vec<Whole<Vec<u8>>> = Vec::new();
                        for at in 0..EACH {
                            let number = thread * EACH + at;
                            let bytes = match at % 100 {
                                0 => 20_000,
                                50 => 70_000,
                                other => other * 7,
                            };
                            let body = body(number, bytes);
                            let alone = applied.try_lock().ok().and_then(|mut applied| {
                                let whole = wal.try_append_fast(&body.sum(), &Precondition::default())?;
                                wal.acknowledge(whole.end).unwrap();
                                applied.push(body.bytes.to_vec());
                                Some(whole.end)
                            });
                            let end = alone.unwrap_or_else(|| {
                                let (payload, under) = (body.bytes.to_vec(), Precondition::default());
                                let ticket = wal.order_under(&body, payload, &under, |_| {}).unwrap().unwrap();
                                wal.copy(&ticket, &body).unwrap();
                                let mut applied = lock(applied);
                                wal.take_whole(&mut group);
                                if let Some(last) = group.last() {
                                    wal.acknowledge(last.end).unwrap();
                                }
                                applied.extend(group.drain(..).map(|whole| whole.payload));
                                ticket.end
                            });
                            if thread == 0 && at % 50 == 0 {
                                while wal.whole_up_to() < end {
                                    std::thread::yield_now();
                                }
                                wal.sync(end).unwrap();
                            }
                        }
                    })
                })
                .collect();
            committers.into_iter().for_each(|thread| thread.join().unwrap());
            done.store(true, Ordering::Relaxed);
            background.join().unwrap();
        });
        let applied = applied.into_inner().unwrap();
        assert_eq!(applied.len(), THREADS * EACH);
        let machine = RealFs.machine(dir.path()).unwrap();
        let mut at = 0;
        let end = recover(&env, dir.path(), &start, &LogProofs::default(), machine, false, &mut |replayed| {
            assert_eq!(replayed.body, applied[at], "commit {at}");
            at += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(at, applied.len());
        assert!(end.cut.is_none());
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let metrics = wal.metrics();
        assert!(count(&metrics.turnovers) > 10 && count(&metrics.large_frames) > 0);
        assert!(!mapped || count(&metrics.drains) > 100);
        // One fdatasync per group, however many segments the group spans.
        assert_eq!(count(&metrics.groups), count(&metrics.syncs));
    }
}

fn transcript(mapped: bool) -> String {
    let sim = SimFs::new(3);
    let traced = TracedFs::new(Arc::new(sim.clone()), "/db");
    let env = Env { fs: Arc::new(traced.clone()), ..sim.env(3) };
    sim.env(3).fs.create_dir_all(Path::new("/db")).unwrap();
    traced.note("# create");
    let mut driver = Driver::create(&env, Path::new("/db"), &settings(mapped), 0).unwrap();
    for (note, script) in [
        ("# a commit", &[Do::Commit(100)][..]),
        ("# a synced commit", &[Do::CommitSync(100)]),
        ("# a large one, synced", &[Do::CommitSync(5000)]),
        ("# prepare", &[Do::Prepare]),
        ("# turnover, then sync", &[Do::Commit(7500), Do::Commit(3000), Do::Commit(3000), Do::CommitSync(3000)]),
        ("# retire, prepare from the pool", &[Do::Retire, Do::Recycle, Do::Prepare]),
        ("# close", &[Do::Commit(10), Do::Close]),
    ] {
        traced.note(note);
        driver.run(script).unwrap();
    }
    traced.take()
}

#[test]
fn the_order_of_io_is_as_written_down() {
    let found = format!("mapped\n\n{}\nplain\n\n{}", transcript(true), transcript(false));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/log_io.txt");
        let file = RealFs.open(&path, Open::Write).unwrap();
        file.set_len(0).and_then(|()| file.write_at(found.as_bytes(), 0)).unwrap();
        return;
    }
    assert_eq!(found, include_str!("../golden/log_io.txt"), "UPDATE_GOLDEN=1 writes the file anew");
}

/// Commits wait for a hold, end it after its longest time, and leave it alone if they pass all holds. Holds are served
/// in the order in which they were taken.
#[test]
fn commits_wait_for_holds() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { segment_bytes: 256 * 1024, ring_bytes: 64 * 1024, ..Settings::default() };
    let next = Arc::new(AtomicU64::new(1));
    let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
    let (wal, _) =
        Wal::<Vec<u8>>::create(&Env::real(), (dir.path(), &StoreIdentity::default()), &settings, 4096, 1, numbers)
            .unwrap();
    let body = body(1, 100);
    let commit = |under: Precondition| {
        let ticket = wal.order_under(&body, body.bytes.to_vec(), &under, |_| {}).unwrap().unwrap();
        wal.copy(&ticket, &body).unwrap();
        let mut group = Vec::new();
        wal.take_whole(&mut group);
        wal.acknowledge(ticket.end).unwrap();
    };
    let is_fast = || {
        let whole = wal.try_append_fast(&body.sum(), &Precondition::default());
        whole.map(|whole| wal.acknowledge(whole.end).unwrap()).is_some()
    };
    assert!(is_fast());

    let held = wal.hold();
    assert!(held.is_served() && !is_fast());
    commit(Precondition::default().passing_holds());
    assert!(held.is_served());
    commit(Precondition::default());
    assert!(!held.is_served(), "the commit did not wait for the hold");
    assert!(is_fast());
    drop(held);

    let (held, second) = (wal.hold(), wal.hold());
    assert!(!held.is_served() && second.is_served(), "the second hold did not wait for the first one");
    drop(held); // ends no hold but its own
    assert!(second.is_served());
    wal.await_holds();
    assert!(!second.is_served());

    let held = wal.hold();
    drop(held);
    assert!(is_fast(), "a dropped hold has ended");
}
