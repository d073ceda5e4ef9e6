//! The ages of the oldest snapshot and cursor, and the event that reports an old one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waxseal::env::ManualClock;
use waxseal::{Builder, ColumnFamily, Db, Event, Listener, OLD_READER_NANOS, OldReader, Result};

const MINUTE: u64 = 60_000_000_000;

/// The reports of old readers.
#[derive(Default)]
struct Reports(Mutex<Vec<(OldReader, u64)>>);

impl Listener for Reports {
    fn on_event(&self, event: &Event) {
        if let Event::OldReader { reader, nanos } = event {
            self.0.lock().unwrap().push((*reader, *nanos));
        }
    }
}

impl Reports {
    fn take(&self) -> Vec<(OldReader, u64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn open() -> Result<(Db, ColumnFamily, Arc<ManualClock>, Arc<Reports>)> {
    let (clock, reports) = (Arc::new(ManualClock::default()), Arc::new(Reports::default()));
    clock.advance_nanos(Duration::from_secs(1_790_000_000).as_nanos() as u64);
    let db = Builder::in_memory().clock(clock.clone()).listener(reports.clone()).open()?;
    let cf = db.column_family("default")?;
    Ok((db, cf, clock, reports))
}

/// Replaces the family's view, and gives the store an occasion to report.
fn write_and_flush(db: &Db, cf: &ColumnFamily) -> Result<()> {
    cf.put("key", "value")?;
    db.flush()
}

#[test]
fn an_old_snapshot_is_measured_and_reported_once() -> Result<()> {
    let (db, cf, clock, reports) = open()?;
    assert_eq!(db.metrics().oldest_snapshot_nanos, 0);
    let snapshot = db.snapshot();
    clock.advance_nanos(OLD_READER_NANOS - MINUTE);
    let younger = db.snapshot();
    write_and_flush(&db, &cf)?;
    assert_eq!((db.metrics().oldest_snapshot_nanos, reports.take()), (OLD_READER_NANOS - MINUTE, vec![]));
    clock.advance_nanos(2 * MINUTE);
    for _ in 0..2 {
        write_and_flush(&db, &cf)?;
    }
    assert_eq!(reports.take(), [(OldReader::Snapshot, OLD_READER_NANOS + MINUTE)]);
    assert!(db.metrics().to_string().contains("oldest snapshot 3660 s"), "{}", db.metrics());
    drop(snapshot);
    assert_eq!(db.metrics().oldest_snapshot_nanos, 2 * MINUTE);
    clock.advance_nanos(OLD_READER_NANOS);
    write_and_flush(&db, &cf)?;
    assert_eq!(reports.take(), [(OldReader::Snapshot, OLD_READER_NANOS + 2 * MINUTE)]);
    drop(younger);
    assert_eq!(db.metrics().oldest_snapshot_nanos, 0);
    db.close()
}

/// A cursor counts from the moment at which it begins to keep something alive.
#[test]
fn an_old_cursor_is_measured_and_reported_once() -> Result<()> {
    let (db, cf, clock, reports) = open()?;
    write_and_flush(&db, &cf)?;
    let mut cursor = cf.cursor();
    cursor.first()?;
    clock.advance_nanos(2 * OLD_READER_NANOS);
    assert_eq!(db.metrics().oldest_cursor_nanos, 0);
    write_and_flush(&db, &cf)?;
    clock.advance_nanos(OLD_READER_NANOS + MINUTE);
    assert_eq!((db.metrics().oldest_cursor_nanos, reports.take()), (OLD_READER_NANOS + MINUTE, vec![]));
    for _ in 0..2 {
        write_and_flush(&db, &cf)?;
    }
    assert_eq!(reports.take(), [(OldReader::Cursor, OLD_READER_NANOS + MINUTE)]);
    assert_eq!(cursor.key(), b"key");
    drop(cursor);
    assert_eq!(db.metrics().oldest_cursor_nanos, 0);
    db.close()
}
