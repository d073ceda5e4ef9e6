//! The async face on real runtimes, of one thread and of many: nothing blocks a task, nothing is lost by dropping one, and a thousand synced
//! writers share fdatasyncs. Where a test must know that something is under way, a gate in the file system says so, not a clock.
#![cfg(feature = "tokio")]

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{Builder as Runtimes, Runtime};
use tokio::task::JoinSet;
use waxseal::env::RealFs;
use waxseal::registry::Operation;
use waxseal::{
    AsyncColumnFamily, AsyncDb, AsyncSession, AsyncSnapshot, Builder, Db, Durability, ErrorKind, KeyStream,
    RangeStream, Result, Seal, Slice, WriteOptions,
};

#[path = "../../lsm/tests/store/gate.rs"]
mod gate;

use gate::{GatedFs, Gates};

fn current_thread() -> Runtime {
    Runtimes::new_current_thread().build().unwrap()
}

fn multi_thread() -> Runtime {
    Runtimes::new_multi_thread().worker_threads(4).build().unwrap()
}

/// Runs a test on both kinds of runtime, each with a directory of its own.
fn on_each<F: Future<Output = ()> + Send + 'static>(test: impl Fn(std::path::PathBuf) -> F) {
    for runtime in [current_thread(), multi_thread()] {
        let home = tempfile::tempdir().unwrap();
        let test = test(home.path().join("store"));
        runtime.block_on(runtime.spawn(test)).unwrap(); // as a task, not on the caller's thread
    }
}

fn key(n: usize) -> String {
    format!("key {n:06}")
}

fn synced() -> WriteOptions {
    WriteOptions::new().durability(Durability::Sync)
}

/// A store whose syncs and log writes wait behind gates.
async fn gated(path: &Path) -> (AsyncDb, Gates) {
    let (fs, gates) = GatedFs::new(Arc::new(RealFs));
    (Db::builder(path).fs(Arc::new(fs)).open_async().await.unwrap(), gates)
}

/// Polls once, with a waker that counts.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Nobody))))
}

#[test]
fn handles_go_anywhere() {
    fn anywhere<T: Clone + Send + Sync + 'static>() {}
    anywhere::<AsyncDb>();
    anywhere::<AsyncColumnFamily>();
    anywhere::<AsyncSnapshot>();
    anywhere::<AsyncSession>();
    fn moves<T: Send + Unpin + 'static>() {}
    moves::<RangeStream>();
    moves::<KeyStream>();
}

#[test]
fn every_call_answers_as_the_synchronous_one() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("users").await.unwrap();
        cf.put("a", "1").await.unwrap();
        cf.put_with("b", "2", synced()).await.unwrap();
        cf.put_sealed("c", "3", Seal::of("c", "3")).await.unwrap();
        let refused = cf.put_sealed("c", "4", Seal::of("c", "3")).await.unwrap_err();
        assert_eq!(refused.kind(), &ErrorKind::Invalid);
        assert_eq!(cf.get("a").await.unwrap().unwrap(), "1");
        assert_eq!(cf.get("none").await.unwrap(), None);
        assert_eq!(cf.get_sealed("b").await.unwrap().unwrap().seal, Seal::of("b", "2"));
        assert!(cf.contains("c").await.unwrap() && !cf.contains("d").await.unwrap());
        cf.delete("c").await.unwrap();
        assert!(!cf.contains("c").await.unwrap());
        let labelled = WriteOptions::new().label("from", "test");
        cf.put_with("d", "4", labelled).await.unwrap();
        assert!(cf.get_meta("d", waxseal::meta::LABELS).await.unwrap().is_some());
        let values = cf.multi_get(["a", "none", "b"]).await.unwrap();
        assert_eq!(values, [Some(Slice::from(&b"1"[..])), None, Some(Slice::from(&b"2"[..]))]);

        let snapshot = db.snapshot();
        let mut batch = db.batch();
        let other = db.column_family("other").await.unwrap();
        batch.put(&cf, "a", "5").delete(&cf, "b").insert(&other, "x", "6");
        assert_eq!((batch.len(), batch.is_empty()), (3, false));
        batch.commit(Durability::Sync).await.unwrap();
        assert!(batch.is_empty());
        assert_eq!(snapshot.get(&cf, "a").await.unwrap().unwrap(), "1");
        assert!(snapshot.contains(&cf, "b").await.unwrap());
        assert_eq!(snapshot.multi_get(&cf, ["a", "x"]).await.unwrap()[0].as_deref(), Some(&b"1"[..]));
        assert_eq!(snapshot.get_sealed(&cf, "b").await.unwrap().unwrap().value, "2");
        assert_eq!(cf.get("a").await.unwrap().unwrap(), "5");
        assert_eq!(db.durable_snapshot().get(&other, "x").await.unwrap().unwrap(), "6");
        let unlike = snapshot.digest(&cf, ..).await.unwrap();
        assert_ne!(unlike, db.digest(&cf, ..).await.unwrap());

        let mut batch = db.batch();
        batch.put(&cf, vec![0; 70_000], "a key too long").put(&cf, "a", "7");
        assert_eq!(batch.commit(Durability::Os).await.unwrap_err().kind(), &ErrorKind::Invalid);
        batch.clear();
        batch.commit(Durability::Sync).await.unwrap();
        assert_eq!(cf.get("a").await.unwrap().unwrap(), "5");

        let alice = db.session("alice").unwrap();
        assert!(alice.register("users", "*").await.unwrap());
        alice.column_family("users").await.unwrap().put("a", "8").await.unwrap(); // watched: through a lane
        let events = alice.query_all("users.a", "*").await.unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(alice.query_latest("users.a", Operation::ROW_UPDATE).await.unwrap().unwrap().key.client, "alice");
        assert!(alice.unregister("users", "*").await.unwrap());

        db.sync().await.unwrap();
        db.flush().await.unwrap();
        db.settle().await.unwrap();
        cf.compact().await.unwrap();
        assert!(cf.approximate_size(..).await.unwrap() > 0);
        assert!(db.verify().await.unwrap().is_clean());
        assert!(db.repair().await.unwrap().is_clean());
        db.checkpoint(path.with_file_name("copy")).await.unwrap();
        let copy = AsyncDb::open_read_only(path.with_file_name("copy")).await.unwrap();
        copy.refresh().await.unwrap();
        let copied = copy.column_family("users").await.unwrap();
        assert_eq!(copied.get("a").await.unwrap().unwrap(), "8");
        assert_eq!(copied.put("a", "9").await.unwrap_err().kind(), &ErrorKind::ReadOnly);
        assert_eq!(copy.sync().await.unwrap_err().kind(), &ErrorKind::ReadOnly);

        assert_eq!(db.column_families().len(), 3);
        db.drop_column_family("other").await.unwrap();
        assert_eq!(other.get("x").await.unwrap_err().kind(), &ErrorKind::Invalid);
        assert_eq!(other.put("x", "1").await.unwrap_err().kind(), &ErrorKind::Invalid);
        assert_eq!(db.run(|db| Ok(db.column_families().len())).await.unwrap(), 2);
        db.close().await.unwrap();
    });
}

#[test]
fn values_that_are_not_in_memory_are_read_in_a_lane() {
    on_each(|path| async move {
        let open = || Db::builder(&path).cache_bytes(64 << 10).memtable_bytes(64 << 10).open_async();
        let db = open().await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..3000 {
            cf.put(key(n), [n as u8; 100]).await.unwrap();
        }
        db.settle().await.unwrap();
        db.close().await.unwrap();
        let db = open().await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        let loads = db.metrics().cache.loads;
        let snapshot = db.snapshot();
        for n in (0..3000).rev().step_by(7) {
            assert_eq!(cf.get(key(n)).await.unwrap().unwrap(), [n as u8; 100]);
            assert_eq!(cf.get(format!("{} not", key(n))).await.unwrap(), None);
            assert_eq!(snapshot.get_sealed(&cf, key(n)).await.unwrap().unwrap().value, [n as u8; 100]);
        }
        let many = cf.multi_get((0..3000).map(key)).await.unwrap();
        assert!(many.iter().enumerate().all(|(n, value)| value.as_ref().unwrap() == &[n as u8; 100]));
        assert!(db.metrics().cache.loads > loads);
        db.close().await.unwrap();
    });
}

#[test]
fn a_stream_gives_what_a_range_gives_from_both_ends() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..5000 {
            // A few rows that are a page by themselves.
            cf.put(key(n), vec![n as u8; if n % 1000 == 5 { 300_000 } else { 10 }]).await.unwrap();
        }
        let expected: Vec<_> = cf.blocking().iter().collect::<Result<_>>().unwrap();
        let mut rows = cf.iter();
        cf.put(key(0), "later").await.unwrap(); // it sees the moment at which it was made
        for row in &expected {
            assert_eq!(&rows.next().await.unwrap().unwrap(), row);
        }
        assert!(rows.next().await.is_none() && rows.next().await.is_none());

        // Ends taken in turns, turned round on the way.
        let mut rows = db.snapshot().range(&cf, key(100)..key(4900));
        let (mut low, mut high) = (100, 4900);
        for turn in 0..4800 {
            let n = if turn % 5 < 3 {
                low += 1;
                low - 1
            } else {
                high -= 1;
                high
            };
            let from_front = (turn % 5 < 3) == (turn < 2000);
            let row = if from_front { rows.next().await } else { rows.next_back().await };
            assert_eq!(row.unwrap().unwrap().0, key(n), "turn {turn}");
            if turn == 1999 {
                rows = rows.rev();
            }
        }
        assert!(rows.next().await.is_none() && rows.next_back().await.is_none());

        let mut keys = cf.prefix("key 0001").keys().rev();
        let mut count = 0;
        while let Some(key) = keys.next().await {
            assert_eq!(key.unwrap(), format!("key {:06}", 199 - count));
            count += 1;
        }
        assert_eq!(count, 100);
        db.close().await.unwrap();
    });
}

#[test]
fn a_stream_reads_no_more_than_a_page_ahead_and_loses_no_row_to_a_poll_that_is_given_up() {
    let home = tempfile::tempdir().unwrap();
    let runtime = current_thread();
    runtime.block_on(async {
        let db = Db::builder(home.path()).block_bytes(1 << 10).open_async().await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..2000 {
            cf.put(key(n), [1; 500]).await.unwrap();
        }
        db.settle().await.unwrap();
        let loads = db.metrics().cache.loads;
        let mut rows = cf.iter();
        assert_eq!(db.metrics().cache.loads, loads, "read before it was polled");
        rows.next().await.unwrap().unwrap();
        let first = db.metrics().cache.loads - loads;
        assert!(first < 50, "{first} blocks of 2000 rows were read for the first row");
        for n in 1..2000 {
            let given_up = poll_once(std::pin::pin!(rows.next()));
            let row = match given_up {
                Poll::Ready(row) => row,
                Poll::Pending => rows.next().await,
            };
            assert_eq!(row.unwrap().unwrap().0, key(n));
        }
        assert!(rows.next().await.is_none());
    });
}

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
        for writer in &mut writers {
            assert!(poll_once(writer.as_mut()).is_pending());
        }
        // Other tests of this process may have threads of these names, each store one.
        assert!(threads_named("waxseal-synced") <= 40, "{} threads sync", threads_named("waxseal-synced"));
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
fn a_write_that_is_dropped_has_happened_or_not_and_the_store_goes_on() {
    on_each(|path| async move {
        let (db, gates) = gated(&path).await;
        let cf = db.column_family("default").await.unwrap();
        drop(cf.put("never polled", "1"));
        gates.syncs.shut();
        for n in 0..100 {
            let mut write = Box::pin(cf.put_with(key(n), [7; 1000], synced()));
            assert!(poll_once(write.as_mut()).is_pending());
            drop(write);
        }
        gates.writes.shut();
        let mut large = Box::pin(cf.put("large", vec![7; 2 << 20])); // through a lane
        assert!(poll_once(large.as_mut()).is_pending());
        drop(large);
        gates.writes.open();
        gates.syncs.open();
        db.sync().await.unwrap();
        assert!(!cf.contains("never polled").await.unwrap());
        for n in 0..100 {
            assert_eq!(cf.get(key(n)).await.unwrap().unwrap(), [7; 1000], "it was committed when it was polled");
        }
        // What a lane was given is done; `close` may come before it, and then it is not done at all.
        while !cf.contains("large").await.unwrap() {
            tokio::task::yield_now().await;
        }
        cf.put_with("after", "1", synced()).await.unwrap();
        db.close().await.unwrap();
        let db = Db::open(&path).unwrap();
        let cf = db.column_family("default").unwrap();
        assert_eq!(cf.iter().count(), 102);
        assert_eq!(cf.get("large").unwrap().unwrap(), vec![7; 2 << 20]);
    });
}

#[test]
fn a_batch_whose_commit_is_dropped_is_whole_or_not_there() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..50 {
            let mut batch = db.batch();
            for part in 0..4 {
                batch.put(&cf, format!("{n:02} {part}"), vec![1; if n % 2 == 0 { 10 } else { 30_000 }]);
            }
            let polls = n % 3;
            let mut commit = Box::pin(batch.commit(Durability::Os));
            let _is_done = (0..polls).any(|_| poll_once(commit.as_mut()).is_ready());
            drop(commit);
            match polls {
                0 => assert_eq!(batch.len(), 4, "not polled, so it keeps its writes"),
                _ => assert!(batch.is_empty(), "begun, so it has given its writes away"),
            }
        }
        db.close().await.unwrap();
        let db = Db::open(&path).unwrap();
        let cf = db.column_family("default").unwrap();
        for n in 0..50 {
            let parts = cf.prefix(format!("{n:02} ")).count();
            assert!(parts == 0 || parts == 4, "{parts} parts of batch {n}");
            assert!(n % 3 > 0 || parts == 0, "batch {n} was never polled");
            assert!(n % 3 == 0 || n % 2 == 1 || parts == 4, "batch {n} was committed when it was polled");
        }
    });
}

#[test]
fn the_store_outlives_the_runtime_that_polled_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    let first = multi_thread();
    let (db, gates) = first.block_on(gated(&path));
    let cf = first.block_on(db.column_family("default")).unwrap();
    gates.syncs.shut();
    for n in 0..100 {
        let cf = cf.clone();
        first.spawn(async move { cf.put_with(key(n), "value", synced()).await });
    }
    let reading = cf.clone();
    first.spawn(async move { reading.iter().next().await });
    gates.syncs.wait_for_one();
    drop(first); // with every task that waits
    gates.syncs.open();

    let second = current_thread();
    second.block_on(async {
        let before = cf.blocking().iter().count();
        assert!((1..=100).contains(&before));
        cf.put_with("after", "1", synced()).await.unwrap();
        assert_eq!(cf.iter().next_back().await.unwrap().unwrap().0, key(before - 1).max("after".to_owned()));
        db.close().await.unwrap();
        assert_eq!(Db::open(&path).unwrap().column_family("default").unwrap().iter().count(), before + 1);
    });
}

#[test]
fn no_runtime_at_all_is_needed() {
    // A loop that parks its thread: nothing of tokio's but what runs anywhere.
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    fn block_on<F: Future>(future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = std::pin::pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => std::thread::park(),
            }
        }
    }
    let home = tempfile::tempdir().unwrap();
    block_on(async {
        let db = AsyncDb::open(home.path().join("store")).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..500 {
            cf.put_with(key(n), "value", if n % 100 == 0 { synced() } else { WriteOptions::new() }).await.unwrap();
        }
        db.flush().await.unwrap();
        let mut rows = cf.iter();
        let mut count = 0;
        while let Some(row) = rows.next().await {
            row.unwrap();
            count += 1;
        }
        assert_eq!(count, 500);
        db.close().await.unwrap();
    });
}

#[test]
fn after_close_everything_answers_closed_and_nothing_hangs() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..100 {
            cf.put(key(n), "value").await.unwrap();
        }
        let snapshot = db.snapshot();
        let mut begun = cf.iter();
        begun.next().await.unwrap().unwrap();
        let mut batch = db.batch();
        batch.put(&cf, "k", "v");
        db.close().await.unwrap();

        fn closed<T: std::fmt::Debug>(outcome: Result<T>) {
            assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Closed);
        }
        closed(db.close().await);
        closed(cf.get("k").await);
        closed(cf.get_sealed("k").await);
        closed(cf.multi_get(["k"]).await);
        closed(cf.multi_get((0..100).map(key)).await);
        closed(cf.put("k", "v").await);
        closed(cf.put_with("k", "v", synced()).await);
        closed(cf.delete("k").await);
        closed(batch.commit(Durability::Sync).await);
        closed(snapshot.get(&cf, "k").await);
        closed(db.sync().await);
        closed(db.flush().await);
        closed(db.column_family("new").await);
        closed(db.run(|_| Ok(())).await);
        closed(cf.iter().next().await.unwrap());
        let mut left = 0;
        loop {
            match begun.next().await {
                Some(Ok(_)) => left += 1, // of the page that was read
                Some(Err(error)) => break assert_eq!(error.kind(), &ErrorKind::Closed),
                None => panic!("a stream that was cut off ended as if it were whole"),
            }
        }
        assert!(left < 100);
        assert!(begun.next().await.is_none());
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

#[test]
fn the_last_handle_may_go_in_a_task() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        cf.put("key", "value").await.unwrap();
        let mut rows = cf.iter();
        rows.next().await.unwrap().unwrap();
        drop((db, cf));
        drop(rows);
        // Another thread closes it; until then it is locked.
        let db = loop {
            match AsyncDb::open(&path).await {
                Ok(db) => break db,
                Err(error) => assert_eq!(error.kind(), &ErrorKind::Locked),
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(db.recovery().cut_bytes, 0);
        assert_eq!(db.column_family("default").await.unwrap().get("key").await.unwrap().unwrap(), "value");
        db.close().await.unwrap();
    });
}

#[test]
fn a_panic_in_the_callers_work_is_the_callers() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let run = db.clone();
        let task = tokio::spawn(async move { run.run(|_| -> Result<()> { panic!("expected by the test") }).await });
        assert!(task.await.unwrap_err().is_panic());
        db.column_family("default").await.unwrap().put("key", "value").await.unwrap();
        db.close().await.unwrap();
    });
}

#[test]
fn a_task_that_only_reads_what_is_in_memory_lets_others_run() {
    let home = tempfile::tempdir().unwrap();
    current_thread().block_on(async {
        let db = AsyncDb::open(home.path().join("store")).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        cf.put("key", "value").await.unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let other = done.clone();
        tokio::spawn(async move { other.store(1, Ordering::SeqCst) });
        let mut reads = 0u64;
        while done.load(Ordering::SeqCst) == 0 {
            cf.get("key").await.unwrap();
            reads += 1;
            assert!(reads < 10_000_000, "a task that reads never yields");
        }
        db.close().await.unwrap();
    });
}

#[test]
fn damage_is_told_as_by_the_synchronous_face() {
    on_each(|path| async move {
        let db = Db::builder(&path).open_async().await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        for n in 0..2000 {
            cf.put(key(n), [n as u8; 50]).await.unwrap();
        }
        db.settle().await.unwrap();
        db.close().await.unwrap();
        let table = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let table = table.filter(|file| file.extension().is_some_and(|end| end == "tbl")).max().unwrap();
        let mut bytes = std::fs::read(&table).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0xa5);
        std::fs::write(&table, bytes).unwrap();

        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        let rows: Vec<_> = cf.blocking().iter().map(|row| row.map_err(|error| error.kind().clone())).collect();
        let mut stream = cf.iter();
        for row in &rows {
            assert_eq!(&stream.next().await.unwrap().map_err(|error| error.kind().clone()), row);
        }
        assert!(stream.next().await.is_none());
        let mut corrupt = 0;
        for n in 0..2000 {
            let (one, other) = (cf.get(key(n)).await, cf.blocking().get(key(n)));
            corrupt += usize::from(one.is_err());
            assert_eq!(one.map_err(|error| error.kind().clone()), other.map_err(|error| error.kind().clone()));
        }
        assert!(corrupt > 0 && rows.iter().any(|row| row.is_err()));
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
