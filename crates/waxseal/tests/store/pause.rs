//! Pauses of background work beside threads and listeners.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use waxseal::{Builder, CfOptions, Db, Event, Listener, Result};

#[test]
fn writers_on_threads_stay_bounded_during_a_pause() -> Result<()> {
    let db = Builder::in_memory().memtable_bytes(64 << 10).open()?;
    let options = CfOptions { level0_tables: 1, table_bytes: 64 << 10, ..CfOptions::default() };
    let cf = db.create_column_family("records", options)?;
    let pause = db.pause_background()?;
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            let cf = &cf;
            scope.spawn(move || {
                for n in 0..10_000u32 {
                    cf.put([&[thread][..], &n.to_le_bytes()].concat(), [0; 300]).unwrap();
                }
            });
        }
    });
    assert!(db.metrics().memory.memtable_bytes < 4 << 20, "{}", db.metrics());
    assert!(db.metrics().flushes > 0);
    drop(pause);
    db.settle()?;
    assert_eq!(cf.iter().keys().count(), 30_000);
    db.close()
}

/// Pauses in each event, on the thread of the job that the pause would wait for.
#[derive(Default)]
struct PausesInEvents {
    db: Mutex<Option<Db>>,
    pauses: AtomicUsize,
}

impl Listener for PausesInEvents {
    fn on_event(&self, _event: &Event) {
        let db = self.db.lock().unwrap().clone();
        if db.is_some_and(|db| db.pause_background().is_ok()) {
            self.pauses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_listener_may_pause() -> Result<()> {
    let listener = Arc::new(PausesInEvents::default());
    let db = Builder::in_memory().memtable_bytes(64 << 10).listener(listener.clone()).open()?;
    *listener.db.lock().unwrap() = Some(db.clone());
    let cf = db.column_family("default")?;
    for n in 0..5000u32 {
        cf.put(n.to_le_bytes(), [0; 300])?;
    }
    db.settle()?;
    assert!(listener.pauses.load(Ordering::Relaxed) > 0);
    *listener.db.lock().unwrap() = None;
    db.close()
}
