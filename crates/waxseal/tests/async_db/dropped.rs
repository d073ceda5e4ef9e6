//! What is dropped: futures, runtimes, handles, the store itself. Nothing is lost by it, and nothing hangs.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use waxseal::{AsyncDb, Db, Durability, ErrorKind, Result, WriteOptions};

use crate::support::*;

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
        tokio::task::yield_now().await; // a task that polls more than 128 times at a stretch is held back by tokio
        gates.writes.shut();
        let mut large = db.batch(); // through a lane, and into the log itself
        for n in 0..1000 {
            large.put(&cf, format!("large {n:04}"), [7; 3000]);
        }
        let mut commit = Box::pin(large.commit(Durability::Os));
        assert!(poll_once(commit.as_mut()).is_pending());
        drop(commit);
        gates.writes.open();
        gates.syncs.open();
        db.sync().await.unwrap();
        assert!(!cf.contains("never polled").await.unwrap());
        // What a lane was given is done; `close` may come before it, and then it is not done at all.
        while cf.blocking().iter().count() < 1100 {
            tokio::task::yield_now().await;
        }
        for n in 0..100 {
            assert_eq!(cf.get(key(n)).await.unwrap().unwrap(), [7; 1000]);
        }
        cf.put_with("after", "1", synced()).await.unwrap();
        db.close().await.unwrap();
        let db = Db::open(&path).unwrap();
        let cf = db.column_family("default").unwrap();
        assert_eq!(cf.iter().count(), 1101);
    });
}

#[test]
fn a_batch_whose_commit_is_dropped_is_whole_or_not_there() {
    on_each(|path| async move {
        let db = AsyncDb::open(&path).await.unwrap();
        let cf = db.column_family("default").await.unwrap();
        let mut done = [false; 50]; // by a poll: the others were given to a lane, and `close` may come before it
        for (n, done) in done.iter_mut().enumerate() {
            let mut batch = db.batch();
            for part in 0..4 {
                batch.put(&cf, format!("{n:02} {part}"), vec![1; if n % 2 == 0 { 10 } else { 30_000 }]);
            }
            let polls = n % 3;
            let mut commit = Box::pin(batch.commit(Durability::Os));
            *done = (0..polls).any(|_| poll_once(commit.as_mut()).is_ready());
            drop(commit);
            match polls {
                0 => assert_eq!(batch.len(), 4, "not polled, so it keeps its writes"),
                _ => assert!(batch.is_empty(), "begun, so it has given its writes away"),
            }
        }
        db.close().await.unwrap();
        let db = Db::open(&path).unwrap();
        let cf = db.column_family("default").unwrap();
        for (n, done) in done.into_iter().enumerate() {
            let parts = cf.prefix(format!("{n:02} ")).count();
            assert!(parts == 0 || parts == 4, "{parts} parts of batch {n}");
            assert!(n % 3 > 0 || parts == 0, "batch {n} was never polled");
            assert!(!done || parts == 4, "batch {n} was committed when it was polled");
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
        // Lanes may still be at what they were given.
        let seen: Vec<_> = cf.blocking().iter().keys().map(Result::unwrap).collect();
        assert!((1..=100).contains(&seen.len()));
        cf.put_with("after", "1", synced()).await.unwrap();
        assert!(cf.iter().next_back().await.unwrap().unwrap().0 >= *seen.last().unwrap());
        db.close().await.unwrap();
        let db = Db::open(&path).unwrap();
        let cf = db.column_family("default").unwrap();
        assert!(cf.contains("after").unwrap());
        assert!(seen.iter().all(|key| cf.contains(key).unwrap()), "what was visible is there");
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
        db.close().await.unwrap();
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

/// What follows is still written in the name of the session.
#[test]
fn a_batch_whose_commit_is_dropped_keeps_its_name() {
    on_each(|path| async move {
        let (db, gates) = gated(&path).await;
        let cf = db.column_family("users").await.unwrap();
        let alice = db.session("alice").await.unwrap();
        alice.register("users", "*").await.unwrap();
        let mut batch = alice.batch();
        for n in 0..1000 {
            batch.put(&cf, key(n), [7; 3000]); // through a lane, and into the log itself
        }
        gates.writes.shut();
        let mut commit = Box::pin(batch.commit(Durability::Os));
        assert!(poll_once(commit.as_mut()).is_pending());
        drop(commit);
        gates.writes.open();
        assert!(batch.is_empty());
        batch.put(&cf, "jane", "1");
        batch.commit(Durability::Os).await.unwrap();
        let event = alice.query_latest("users.jane", "*").await.unwrap().unwrap();
        assert_eq!(event.key.client, "alice");
    });
}
