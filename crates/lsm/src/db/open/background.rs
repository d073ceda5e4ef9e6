//! Runs the lanes' steps, in their threads or in a call that waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::inner::StoreInner;
use crate::db::jobs::expire::until_expiry;
use crate::db::notify::events::Event;
use crate::db::notify::lanes::{LANES, Lane, RETRY};
use crate::db::state::context::Access;
use crate::env::work::{Mode, spawn};
use crate::error::{ErrorKind, IoContext, Result};

impl StoreInner {
    /// Starts the lanes' threads.
    pub(crate) fn start_lanes(self: &Arc<StoreInner>) -> Result<Vec<std::thread::JoinHandle<()>>> {
        if self.lanes().mode == Mode::Stepped || self.context().access != Access::Write {
            return Ok(Vec::new());
        }
        let compactors = (0..self.context().settings.current().background_threads).map(|_| Lane::Compact);
        [Lane::Log, Lane::Flush]
            .into_iter()
            .chain(compactors)
            .map(|lane| {
                let inner = self.clone();
                let name = format!("waxseal-{}", format!("{lane:?}").to_lowercase());
                spawn(&name, lane != Lane::Log, move || inner.run_lane(lane)).during(|| format!("starting {name}"))
            })
            .collect()
    }

    fn run_lane(&self, lane: Lane) {
        while !self.lanes().is_stopping() {
            let pause = match self.try_step(lane) {
                Ok(true) => continue,
                // Postponed tables are retried after a while, and no bell rings for that.
                Ok(false)
                    if lane == Lane::Compact && self.catalog().claims.waits_for_any(self.context().now_nanos()) =>
                {
                    Some(RETRY)
                }
                Ok(false) if lane == Lane::Compact => until_expiry(self.catalog()),
                Ok(false) => None,
                Err(_) => Some(RETRY),
            };
            let kicked = &self.lanes().kicked[lane as usize];
            let mut state = self.lanes().state.lock();
            if pause.is_some() {
                kicked.store(false, Ordering::Release);
            }
            while !kicked.load(Ordering::Acquire) && !self.lanes().is_stopping() {
                state = self.lanes().bells[lane as usize].wait(state, pause);
                if pause.is_some() {
                    break;
                }
            }
            // A swap, so that the following check sees all work done before the kick.
            kicked.swap(false, Ordering::AcqRel);
        }
    }

    /// Performs one step in a lane, unless a pause holds it back. Records and reports its failure, and catches a panic of
    /// a callback.
    fn try_step(&self, lane: Lane) -> Result<bool> {
        let Some(_step) = self.lanes().begin_step(lane) else { return Ok(false) };
        self.store_log().catch_panic(lane, || self.step_and_report(lane))
    }

    fn step_and_report(&self, lane: Lane) -> Result<bool> {
        let outcome = match lane {
            Lane::Log => self.flusher().log_step(),
            Lane::Flush => self.flusher().flush_step(),
            Lane::Compact => self.compactor().compact_step(),
        };
        if outcome.is_err() && self.store_log().check_halted().is_ok() {
            let _ = self.store_log().halt_if_lost();
        }
        let failed = match &outcome {
            Err(error) if !matches!(error.kind(), ErrorKind::Closed | ErrorKind::Interrupted) => Some(error.clone()),
            _ => None,
        };
        let mut state = self.lanes().state.lock();
        let is_news = failed.is_some() && state.failed[lane as usize].is_none();
        state.failed[lane as usize] = failed.clone();
        drop(state);
        self.lanes().state.notify_all();
        if let (true, Some(error)) = (is_news, failed) {
            self.notifier().queue(Event::BackgroundError { error, halted: false });
        }
        self.notifier().deliver();
        outcome
    }

    /// Performs one step in any lane, the log first, because the other lanes wait for it.
    pub(crate) fn step_any(&self) -> bool {
        LANES.into_iter().any(|lane| self.try_step(lane).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{At, Db, Parts};
    use crate::env::SimFs;
    use crate::env::sim::Crash;
    use crate::options::{CfOptions, Durability, Settings};
    use crate::record::Kind;

    fn open(sim: &SimFs, segment_bytes: u64) -> Db {
        let families = vec![("default".to_owned(), CfOptions::default())];
        let parts = Parts { env: sim.env(1), families, ..Parts::real() };
        let settings = Settings { segment_bytes, ring_bytes: 64 * 1024, drain_bytes: 32 * 1024, ..Settings::default() };
        Db::open(Path::new("/store"), settings, parts).unwrap()
    }

    /// The lane may have looked for work while the tables were held.
    #[test]
    fn tables_that_are_given_back_wake_the_lane_that_compacts() {
        let db = open(&SimFs::new(3), 64 * 1024);
        let family = db.family("default").unwrap();
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, b"key", b"value", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        db.flush().unwrap();
        let table = db.tables(&family).unwrap()[0].meta().number;
        let held = db.hold_tables(&family, &[table]).unwrap();
        let kicked = &db.inner().lanes().kicked[Lane::Compact as usize];
        kicked.store(false, Ordering::Relaxed);
        drop(held);
        assert!(kicked.load(Ordering::Relaxed));
    }

    /// Makes single commits until the log lane is kicked.
    fn sync_until_kicked(db: &Db, most: usize) {
        commit_until_kicked(db, most, Durability::Sync);
    }

    fn commit_until_kicked(db: &Db, most: usize, durability: Durability) {
        let family = db.family("default").unwrap();
        let is_kicked = || db.inner().lanes().kicked[Lane::Log as usize].load(Ordering::Relaxed);
        let mut commits = 0;
        while !is_kicked() {
            let mut batch = Batch::new();
            batch.push(family.id(), Kind::Put, b"key", b"value", db.companions()).unwrap();
            db.commit(&mut batch, durability).unwrap();
            commits += 1;
            assert!(commits < most, "half of what was written of the first segment is used, and nobody knows");
        }
    }

    #[test]
    fn a_segment_in_the_making_is_gone_after_a_crash() {
        let sim = SimFs::new(1);
        let segments = || sim.files("/store").iter().filter(|name| name.ends_with(".log")).count();
        let db = open(&sim, 1 << 20);
        sync_until_kicked(&db, 32);
        let before = segments();
        while segments() == before {
            assert!(db.step().unwrap(), "blocks are reserved, then comes the first of four pieces");
        }
        assert_eq!(segments(), before + 1);
        assert_eq!(db.inner().store_log().log().unwrap().wal().metrics().segments_made.load(Ordering::Relaxed), 0);
        sim.crash_at(sim.steps());
        drop(db);
        sim.reboot(Crash::Process);
        let db = open(&sim, 1 << 20);
        assert_eq!(segments(), before + 2, "both of the crash, and a fresh one");
        while db.step().unwrap() {}
        assert_eq!(segments(), before, "the lanes remove what is left over");
        let mut value = None;
        db.get(&db.family("default").unwrap(), b"key", At::Latest, &mut |record| value = Some(record.value.to_vec()))
            .unwrap();
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
    }

    /// A sync also drains the ring, so no drain is ever due; the lane must still learn of the next segment.
    #[test]
    fn a_log_that_is_only_synced_asks_for_its_next_segment() {
        let sim = SimFs::new(1);
        let db = open(&sim, 256 * 1024);
        sync_until_kicked(&db, 8);
        let log = db.inner().store_log().log().unwrap();
        let made = || log.wal().metrics().segments_made.load(Ordering::Relaxed);
        let before = made();
        while db.step().unwrap() {}
        assert_eq!(made(), before + 1);
    }

    /// A log that is not mapped has no drains, and an unsynced commit makes no other log work due. Without a kick, full
    /// segments stay unsynced until the next flush, and each commit that reaches the end of a segment must create the
    /// next one itself.
    #[test]
    fn a_log_that_is_not_mapped_asks_for_its_next_segment() {
        let sim = SimFs::new(1);
        let parts =
            Parts { env: sim.env(1), families: vec![("default".to_owned(), CfOptions::default())], ..Parts::real() };
        let settings = Settings { segment_bytes: 16 * 1024, wal_mapped: false, ..Settings::default() };
        let db = Db::open(Path::new("/store"), settings, parts).unwrap();
        let log = db.inner().store_log().log().unwrap();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for _ in 0..4 {
            commit_until_kicked(&db, 400, Durability::Os);
            while db.step().unwrap() {}
            db.inner().lanes().kicked[Lane::Log as usize].store(false, Ordering::Relaxed);
        }
        assert!(count(&log.wal().metrics().segments_made) > 1 && count(&log.wal().metrics().syncs) > 0);
    }
}
