//! Synced writes: a thousand share fdatasyncs, no thread waits for them, and everybody hears the truth.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use waxseal::{AsyncDb, Builder, Db, ErrorKind};

use crate::support::*;

#[test]
fn a_thousand_synced_writers_share_fdatasyncs() {
    for runtime in [current_thread(), multi_thread()] {
        let home = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let (db, gates) = gated(&home.path().join("store")).await;
            let cf = db.column_family("default").await.unwrap();
            db.sync().await.unwrap();
            let before = db.metrics().wal;
            gates.syncs.shut();
            let returned = Arc::new(AtomicUsize::new(0));
            let mut writers = JoinSet::new();
            for n in 0..1000 {
                let (cf, returned) = (cf.clone(), returned.clone());
                writers.spawn(async move {
                    cf.put_with(key(n), "value", synced()).await.unwrap();
                    returned.fetch_add(1, Ordering::SeqCst);
                });
            }
            // All of them commit while the first sync stands before its gate, and none returns.
            while cf.blocking().iter().count() < 1000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(returned.load(Ordering::SeqCst), 0, "a synced write returned before its sync");
            gates.syncs.open();
            while let Some(writer) = writers.join_next().await {
                writer.unwrap();
            }
            let after = db.metrics().wal;
            let syncs = after.syncs - before.syncs;
            println!("{syncs} fdatasyncs for 1000 synced writes");
            assert!((1..=4).contains(&syncs), "{syncs} fdatasyncs for 1000 synced writes");
            assert_eq!(db.durable_snapshot().blocking().iter(cf.blocking()).count(), 1000);
            db.close().await.unwrap();
        });
    }
}

/// How many threads of the store there are.
fn threads_named(start: &str) -> usize {
    let name = |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
    std::fs::read_dir("/proc/self/task").unwrap().filter_map(name).filter(|name| name.starts_with(start)).count()
}

#[test]
fn no_thread_is_parked_for_a_writer_that_waits() {
    let home = tempfile::tempdir().unwrap();
    current_thread().block_on(async {
        let (db, gates) = gated(&home.path().join("store")).await;
        let cf = db.column_family("default").await.unwrap();
        gates.syncs.shut();
        let mut writers: Vec<_> = (0..200).map(|n| Box::pin(cf.put_with(key(n), "value", synced()))).collect();
        for (n, writer) in writers.iter_mut().enumerate() {
            assert!(poll_once(writer.as_mut()).is_pending());
            if n % 50 == 0 {
                tokio::task::yield_now().await; // a task that polls more than 128 times at a stretch is held back by tokio
            }
        }
        // Other tests of this process may have threads of these names, each store one.
        assert!(threads_named("waxseal-synced") <= 40, "{} threads sync", threads_named("waxseal-synced"));
        while cf.blocking().iter().count() < 200 {
            tokio::task::yield_now().await;
        }
        // Reads, other writes and ranges go on.
        assert_eq!(cf.get(key(7)).await.unwrap().unwrap(), "value");
        cf.put("not synced", "1").await.unwrap();
        assert_eq!(cf.iter().next().await.unwrap().unwrap().0, key(0));
        gates.syncs.open();
        for writer in writers {
            writer.await.unwrap();
        }
        db.close().await.unwrap();
    });
}

#[test]
fn a_failed_sync_reaches_everybody_who_waits() {
    // The simulated disk fails at a step; every synced writer of the group hears it, reads go on.
    use waxseal_lsm::env::sim::{Fault, SimFs};
    use waxseal_lsm::env::work::Mode;
    current_thread().block_on(async {
        let sim = SimFs::new(3);
        let env = waxseal::env::Env { work: Mode::Threads, ..sim.env(3) };
        let db = Builder::in_memory().env(env).open_async().await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        cf.put_with("before", "1", synced()).await.unwrap();
        sim.fail_from(sim.steps(), Fault::SyncFailed);
        let mut writers = JoinSet::new();
        for n in 0..50 {
            let cf = cf.clone();
            writers.spawn(async move { cf.put_with(key(n), "value", synced()).await });
        }
        while let Some(writer) = writers.join_next().await {
            let error = writer.unwrap().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Io(_) | ErrorKind::Halted), "{error}");
        }
        assert_eq!(cf.get("before").await.unwrap().unwrap(), "1");
        assert_eq!(cf.put("after", "1").await.unwrap_err().kind(), &ErrorKind::Halted);
        let _ = db.close().await;
    });
}

#[test]
fn a_close_that_overtakes_synced_writes_tells_them_the_truth() {
    for runtime in [current_thread(), multi_thread()] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        let acknowledged = runtime.block_on(async {
            let db = AsyncDb::open(&path).await.unwrap();
            let cf = db.column_family("default").await.unwrap();
            let mut writers = JoinSet::new();
            for n in 0..2000 {
                let cf = cf.clone();
                writers.spawn(async move { (n, cf.put_with(key(n), "value", synced()).await) });
            }
            for _ in 0..3 {
                writers.join_next().await.unwrap().unwrap().1.unwrap();
            }
            db.close().await.unwrap();
            let (mut acknowledged, mut refused) = (3, 0);
            while let Some(writer) = writers.join_next().await {
                match writer.unwrap() {
                    (_, Ok(())) => acknowledged += 1,
                    (_, Err(error)) => {
                        assert_eq!(error.kind(), &ErrorKind::Closed);
                        refused += 1;
                    }
                }
            }
            assert_eq!(acknowledged + refused, 2000);
            acknowledged
        });
        let db = Db::open(&path).unwrap();
        let there = db.column_family("default").unwrap().iter().count();
        assert_eq!(there, acknowledged, "what answered `Closed` is not there, what answered is");
    }
}
