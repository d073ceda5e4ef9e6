//! Ranges as streams: the rows of the synchronous range, no more read than asked for, none lost.

use std::task::Poll;

use waxseal::{AsyncDb, Db, Result};

use crate::support::*;

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
