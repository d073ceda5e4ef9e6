//! Each call answers as its synchronous twin does, from memory and from files, on both kinds of runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use waxseal::env::ManualClock;
use waxseal::registry::Operation;
use waxseal::{
    AsyncColumnFamily, AsyncDb, AsyncSession, AsyncSnapshot, CfOptions, Db, Durability, ErrorKind, KeyStream,
    MergeOperator, RangeStream, Result, Seal, Slice, WriteOptions,
};

use crate::support::*;
use crate::watched::Touched;

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
fn a_transaction_sees_its_merges() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let options = CfOptions { merge_operator: Some(MergeOperator::append(",")), ..CfOptions::default() };
        let cf = db.create_column_family("tags", options).await.unwrap();
        cf.put("k", "a").await.unwrap();
        let transaction = db.transaction().await.unwrap();
        transaction.merge(&cf, "k", "b").await.unwrap();
        assert_eq!(transaction.get(&cf, "k").await.unwrap().unwrap(), "a,b");
        assert_eq!(cf.get("k").await.unwrap().unwrap(), "a");
        transaction.commit().await.unwrap();
        assert_eq!(cf.get("k").await.unwrap().unwrap(), "a,b");
    });
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
        assert!(cf.put_if_absent("e", "5").await.unwrap() && !cf.put_if_absent("e", "6").await.unwrap());
        assert!(!cf.compare_and_set("e", Some("6"), Some("7")).await.unwrap());
        assert!(cf.compare_and_set("e", Some("5"), Some("7")).await.unwrap());
        let new = cf.update("e", |old| old.map(|old| [old, b"!"].concat())).await.unwrap();
        assert_eq!((new.unwrap(), cf.get("e").await.unwrap().unwrap()), (b"7!".to_vec(), Slice::from(&b"7!"[..])));
        assert_eq!(cf.update("e", |_| None::<Vec<u8>>).await.unwrap(), None);
        let adds = (0..4).map(|_| cf.clone()).map(|cf| async move {
            for _ in 0..50 {
                cf.fetch_add("e", 1).await.unwrap();
            }
        });
        let adds: Vec<_> = adds.map(tokio::spawn).collect();
        for add in adds {
            add.await.unwrap();
        }
        assert_eq!(cf.fetch_add("e", i64::MAX).await.unwrap_err().kind(), &ErrorKind::Invalid);
        assert_eq!(cf.fetch_add_with("e", 1, synced()).await.unwrap(), 200);
        cf.delete("e").await.unwrap();
        let labelled = WriteOptions::new().label("from", "test");
        cf.put_with("d", "4", labelled).await.unwrap();
        assert!(cf.get_meta("d", waxseal::meta::LABELS).await.unwrap().is_some());
        let values = cf.multi_get(["a", "none", "b"]).await.unwrap();
        assert_eq!(values, [Some(Slice::from(&b"1"[..])), None, Some(Slice::from(&b"2"[..]))]);

        let snapshot = db.snapshot();
        let mut batch = db.batch();
        let other = db.column_family("other").await.unwrap();
        batch.put(&cf, "a", "5").delete(&cf, "b").put_logged_as_insert(&other, "x", "6");
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

        let keys = ["k1", "k2", "k3", "k4"];
        batch.put(&other, keys[0], "1").put(&other, keys[1], "2").put(&other, keys[2], "3").put(&other, keys[3], "4");
        batch.delete_range(&other, "k2".."k3").commit(Durability::Sync).await.unwrap();
        other.delete_range_with(..="k1", synced()).await.unwrap();
        let left = other.multi_get(keys).await.unwrap();
        assert_eq!(left.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, true]);
        assert_eq!(other.delete_range("k4".."k3").await.unwrap_err().kind(), &ErrorKind::Invalid);
        let labelled = WriteOptions::new().label("from", "test");
        assert_eq!(other.delete_range_with(.., labelled).await.unwrap_err().kind(), &ErrorKind::Invalid);
        other.delete_range("k4"..).await.unwrap();
        assert!(other.contains("k3").await.unwrap() && !other.contains("k4").await.unwrap());
        let third = db.column_family("third").await.unwrap();
        third.put("x", "1").await.unwrap();
        db.clear([&other, &third]).await.unwrap();
        assert_eq!(third.get("x").await.unwrap().or(other.get("k3").await.unwrap()), None);
        db.drop_column_family("third").await.unwrap();
        other.put("k3", "3").await.unwrap();
        other.clear().await.unwrap();
        assert_eq!(other.get("x").await.unwrap().or(other.get("k3").await.unwrap()), None);
        other.put("x", "6").await.unwrap();

        let alice = db.session("alice").await.unwrap();
        assert!(alice.register("users", "*").await.unwrap());
        alice.column_family("users").await.unwrap().put("a", "8").await.unwrap(); // watched: through a lane
        let events = alice.query_all("users.a", "*").await.unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(alice.query_latest("users.a", Operation::ROW_UPDATE).await.unwrap().unwrap().key.client, "alice");
        assert!(alice.unregister("users", "*").await.unwrap());
        alice.close().await.unwrap();

        db.sync().await.unwrap();
        db.flush().await.unwrap();
        db.settle().await.unwrap();
        cf.compact().await.unwrap();
        assert!(cf.approximate_size(..).await.unwrap() > 0);
        assert!(db.verify().await.unwrap().is_clean());
        assert!(db.repair().await.unwrap().is_clean());
        db.checkpoint(path.with_file_name("copy")).await.unwrap();
        assert_eq!(db.backup(path.with_file_name("backups")).await.unwrap().id, 1);
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
        assert!(db.find_column_family("other").unwrap().is_none());
        assert!(db.find_column_family("users").unwrap().is_some());
        let bob = db.session("bob").await.unwrap();
        assert!(bob.find_column_family("other").unwrap().is_none());
        assert_eq!(db.run(|db| Ok(db.column_families().len())).await.unwrap(), 2);
        db.close().await.unwrap();
    });
}

/// What needs no waiting is answered by the first poll, in the task itself.
#[test]
fn what_is_in_memory_is_answered_by_the_first_poll() {
    let home = tempfile::tempdir().unwrap();
    current_thread().block_on(async {
        let db = AsyncDb::open(home.path().join("store")).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        // Not each of them: the engine's own threads hold the log for a moment now and then.
        let at_once = (0..100).any(|_| poll_once(std::pin::pin!(cf.put("key", "value"))).is_ready());
        assert!(at_once || !commits_at_once(&db), "a commit with room waits");
        cf.put("key", "value").await.unwrap();
        assert!(poll_once(std::pin::pin!(cf.get("key"))).is_ready(), "a read of a memtable waits");
        db.close().await.unwrap();

        let db = AsyncDb::open(home.path().join("store")).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        let snapshot = db.snapshot();
        assert_eq!(cf.get("key").await.unwrap().unwrap(), "value");
        assert!(poll_once(std::pin::pin!(cf.get("key"))).is_ready());
        assert!(poll_once(std::pin::pin!(cf.get_sealed("key"))).is_ready());
        assert!(poll_once(std::pin::pin!(cf.multi_get(["key", "none"]))).is_ready());
        assert!(poll_once(std::pin::pin!(snapshot.get(&cf, "key"))).is_ready());
        db.close().await.unwrap();
    });
}

/// Whatever is asked of a store, and however little room it has, the thread that polls touches no file.
#[test]
fn a_thread_that_polls_touches_no_file() {
    for wal_mapped in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let (fs, touched) = Touched::watching();
        current_thread().block_on(async {
            let db = Db::builder(home.path().join("store"))
                .fs(Arc::new(fs))
                .wal_mapped(wal_mapped)
                .cache_bytes(16 << 10)
                .memtable_bytes(256 << 10)
                .tune(|settings| settings.segment_bytes = 256 << 10)
                .tune(|settings| (settings.ring_bytes, settings.drain_bytes) = (64 << 10, 16 << 10))
                .open_async()
                .await
                .unwrap();
            let cf = db.column_family("made").await.unwrap();
            for n in 0..5000 {
                let options = if n % 100 == 0 { synced() } else { WriteOptions::new() };
                cf.put_with(key(n), [n as u8; 200], options).await.unwrap();
            }
            let mut batch = db.batch();
            batch.put(&cf, "large", vec![1; 100_000]);
            batch.commit(Durability::Sync).await.unwrap();
            db.flush().await.unwrap();
            for n in (0..5000).step_by(9) {
                assert_eq!(cf.get(key(n)).await.unwrap().unwrap(), [n as u8; 200]);
                assert!(!cf.contains(format!("{} not", key(n))).await.unwrap());
            }
            cf.multi_get((0..100).map(key)).await.unwrap();
            let mut rows = cf.iter();
            let mut count = 0;
            while let Some(row) = rows.next().await {
                row.unwrap();
                count += 1;
            }
            assert_eq!(count, 5001);
            let alice = db.session("alice").await.unwrap();
            alice.register("made", "*").await.unwrap();
            alice.column_family("made").await.unwrap().put("watched", "1").await.unwrap();
            assert!(alice.query_latest("made.watched", "*").await.unwrap().is_some());
            db.sync().await.unwrap();
            db.verify().await.unwrap();
            db.checkpoint(home.path().join("copy")).await.unwrap();
            drop((rows, alice, batch, cf));
            db.close().await.unwrap();
        });
        let touched = touched.threads();
        assert!(!touched.contains(&std::thread::current().id()), "the thread that polled touched a file");
        assert!(touched.len() > 3, "nobody was watched");
    }
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
fn records_expire_as_in_the_synchronous_face() {
    const HOUR: Duration = Duration::from_secs(3600);
    on_each(|path| async move {
        let clock = Arc::new(ManualClock::default());
        clock.advance_nanos(1_790_000_000_000_000_000); // in the year 2026
        let db = Db::builder(&path).clock(clock.clone()).open_async().await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        let options = CfOptions { default_ttl: Some(HOUR), ..CfOptions::default() };
        let sessions = db.create_column_family("sessions", options).await.unwrap();
        let in_hours = |hours: u32| WriteOptions::new().expires_in(HOUR * hours);
        cf.put_with("a", "1", in_hours(1)).await.unwrap();
        cf.put_with("b", "2", in_hours(2)).await.unwrap();
        cf.put("c", "3").await.unwrap();
        let mut batch = db.batch();
        batch.put_with(&cf, "d", "4", in_hours(1)).put(&sessions, "default", "5");
        batch.put_with(&sessions, "longer", "6", in_hours(2));
        batch.put_sealed(&sessions, "sealed", "7", Seal::of("sealed", "7"));
        batch.commit(Durability::Os).await.unwrap();
        let early = WriteOptions::new().expires_at(SystemTime::UNIX_EPOCH + HOUR);
        assert_eq!(cf.put_with("c", "8", early).await.unwrap_err().kind(), &ErrorKind::Invalid);
        let (snapshot, mut stream) = (db.snapshot(), cf.iter());
        let digest = snapshot.digest(&cf, ..).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().0, "a");
        clock.advance_nanos(HOUR.as_nanos() as u64);
        for flushed in [false, true] {
            if flushed {
                db.flush().await.unwrap(); // the values are in files then, and the lanes read them
            }
            assert_eq!((cf.get("a").await.unwrap(), cf.contains("d").await.unwrap()), (None, false));
            let values = cf.multi_get(["a", "b", "c", "d"]).await.unwrap();
            assert_eq!(values.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true, false]);
            assert!(cf.get_sealed("a").await.unwrap().is_none());
            assert_eq!(keys_of(cf.iter()).await, ["b", "c"]);
            assert_eq!(keys_of(sessions.iter()).await, ["longer", "sealed"]);
            assert_eq!(keys_of(snapshot.range(&cf, ..)).await, ["a", "b", "c", "d"]);
            assert_eq!(snapshot.digest(&cf, ..).await.unwrap(), digest);
        }
        assert_eq!(keys_of(stream).await, ["b", "c", "d"], "a stream judges by the time at which it was made");
        drop(snapshot);
        cf.compact().await.unwrap();
        // The background may have dropped the expired record of `sessions` by now.
        assert!((2..=3).contains(&db.metrics().expired), "{}", db.metrics().expired);
        db.close().await.unwrap();
    });
}

/// The keys that a stream still has.
async fn keys_of(mut stream: RangeStream) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some(row) = stream.next().await {
        keys.push(String::from_utf8_lossy(&row.unwrap().0).into_owned());
    }
    keys
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
