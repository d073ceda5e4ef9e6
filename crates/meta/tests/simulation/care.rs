//! Integrity maintenance: flushes, compactions and repairs of damaged or lost data. Each check fails under a planted
//! bug.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Db, Event, Parts, Remedy, Replacement};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::error::{Result, Verdict};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::RecordSource;
use waxseal_testing::listener::Heard;
use waxseal_testing::protector::{ROWS, TestProtector};

/// Describes the events of damage and repair.
fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::Corruption { error } => {
            let damage = error.damage().unwrap();
            let place = if damage.file.is_empty() { "memory" } else { &damage.file };
            format!("{:?} in {place} of {}", damage.verdict, damage.cf.clone().unwrap_or_default())
        }
        Event::Barred { table, .. } => format!("barred {table:06}.tbl"),
        Event::Healed { by: Remedy::Log, .. } => "healed by the log".to_owned(),
        Event::BackgroundError { error, .. } => format!("failed: {error}"),
        _ => return None,
    })
}

struct Store {
    sim: SimFs,
    dir: PathBuf,
    protector: Option<Arc<TestProtector>>,
    heard: Arc<Heard<String>>,
    db: Option<Db>,
}

impl Store {
    fn new(seed: u64, sealed: bool) -> Store {
        let protector = sealed.then(Arc::default);
        let mut store =
            Store { sim: SimFs::new(seed), dir: PathBuf::from("/store"), protector, heard: Heard::new(line), db: None };
        store.open().unwrap();
        store
    }

    fn open(&mut self) -> Result<()> {
        let options = CfOptions { block_bytes: 256, level0_tables: 2, filter_bits: 10, ..CfOptions::default() };
        let families = ["default", "rows"].map(|name| (name.to_owned(), options.clone())).to_vec();
        let env = self.sim.env(self.sim.steps());
        let mut parts = Parts { env, families, listener: self.heard.clone(), ..Parts::real() };
        if let Some(protector) = &self.protector {
            parts.companions = protector.clone();
        }
        let settings = Settings {
            memtable_bytes: 64 * 1024,
            segment_bytes: 64 * 1024,
            ring_bytes: 32 * 1024,
            drain_bytes: 8 * 1024,
            ..Settings::default()
        };
        self.db = Some(Db::open(&self.dir, settings, parts)?);
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn kill_and_open(&mut self) {
        self.sim.crash_at(self.sim.steps());
        self.db = None;
        self.sim.reboot(Crash::Process);
        self.open().unwrap();
    }

    fn put(&self, key: &str, value: &str) -> Result<Seqno> {
        self.write(Kind::Put, key, value)
    }

    fn write(&self, kind: Kind, key: &str, value: &str) -> Result<Seqno> {
        let mut batch = Batch::new();
        batch.push(0, kind, key.as_bytes(), value.as_bytes(), self.db().companions())?;
        self.db().commit(&mut batch, Durability::Os)
    }

    fn rows(&self, family: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let family = self.db().families().into_iter().find(|of| of.id() == family).unwrap();
        let mut cursor = self.db().cursor(&family, At::Latest, (Bound::Unbounded, Bound::Unbounded)).unwrap();
        let mut rows = Vec::new();
        cursor.first().unwrap();
        while cursor.valid() {
            rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.next().unwrap();
        }
        rows
    }

    fn tables(&self) -> Vec<u64> {
        let names = self.sim.files(&self.dir).into_iter().filter(|name| name.ends_with(".tbl"));
        names.map(|name| name[..6].parse().unwrap()).collect()
    }

    fn compact(&self) {
        let family = self.db().family("default").unwrap();
        self.db().compact(&family, &(Bound::Unbounded, Bound::Unbounded)).unwrap();
    }
}

fn lost_range(from: &str, to: &str, bound: Seqno) -> LostRange {
    let (from, to) = ((from.as_bytes().to_vec(), bound), (to.as_bytes().to_vec(), 0));
    LostRange { from, to, bound, file: "000077.tbl".into(), offset: 64, verdict: Verdict::Seal }
}

/// Lost ranges and quarantined tables are known after a reopen.
pub fn fences_and_bars_are_remembered() {
    let mut store = Store::new(1, false);
    store.put("a", "1").unwrap();
    store.put("b", "1").unwrap();
    store.db().flush().unwrap();
    let family = store.db().family("default").unwrap();
    let tables = store.tables();
    store.db().quarantine_tables(&family, &tables).unwrap();
    store.db().add_lost_ranges(&family, vec![lost_range("c", "d", 2)]).unwrap();
    store.kill_and_open();
    let family = store.db().family("default").unwrap();
    assert_eq!(store.db().lost_ranges(&family).len(), 1);
    assert_eq!(store.db().quarantined_tables(&family), tables);
    store.put("a", "2").unwrap();
    store.compact();
    assert!(store.tables().contains(&tables[0]));
}

/// Removing a lost range makes no deleted record visible again.
pub fn tombstones_stay_under_fences() {
    let store = Store::new(2, false);
    for key in ["a", "c", "e"] {
        store.write(Kind::Delete, key, "").unwrap();
    }
    store.put("x", "1").unwrap();
    let family = store.db().family("default").unwrap();
    store.db().add_lost_ranges(&family, vec![lost_range("b", "d", 0)]).unwrap();
    store.compact();
    let tombstones = store.db().metrics().families[0].levels.iter().map(|level| level.tombstones).sum::<u64>();
    assert_eq!(tombstones, 1);
}

/// The records that replace a table must match the caller's ledger.
pub fn a_ledger_that_does_not_close_is_refused() {
    let store = Store::new(3, false);
    store.put("a", "1").unwrap();
    store.db().flush().unwrap();
    let family = store.db().family("default").unwrap();
    let held = store.db().hold_tables(&family, &store.tables()).unwrap().unwrap();
    let mut expected = Ledger::default();
    expected.puts.count = 1;
    let mut nothing = Nothing;
    let records: Option<&mut dyn Cursor> = Some(&mut nothing);
    let replacement =
        Replacement { records, expected, summed: false, base_seqno: 0, fenced: Vec::new(), lifted: Vec::new() };
    let error = held.replace(replacement).unwrap_err();
    assert_eq!(error.damage().map(|damage| damage.verdict), Some(Verdict::Ledger));
    assert_eq!(store.rows(0).len(), 1);
}

/// An empty cursor.
struct Nothing;

impl Cursor for Nothing {
    fn seek(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Ok(())
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Ok(())
    }
    fn first(&mut self) -> Result<()> {
        Ok(())
    }
    fn last(&mut self) -> Result<()> {
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        Ok(())
    }
    fn valid(&self) -> bool {
        false
    }
    fn record(&self) -> Record<'_> {
        unreachable!("there is none")
    }
    fn source(&self) -> RecordSource<'_> {
        Default::default()
    }
}

/// A flush that finds damage in memory is repeated from the log. If that fails too, it is retried later, and no record
/// is lost.
pub fn a_damaged_flush_is_redone_from_the_log() {
    let mut store = Store::new(4, true);
    let protector = store.protector.clone().unwrap();
    for n in 0..40 {
        store.put(&format!("key-{n}"), "old").unwrap();
        store.put(&format!("key-{n}"), "new").unwrap();
    }
    let rows = store.rows(0);
    assert_eq!(rows.len(), 40);
    protector.failing.store(1, Relaxed);
    store.db().flush().unwrap();
    assert_eq!(store.heard.take(), ["healed by the log"]);
    assert_eq!((store.rows(0), protector.failing.load(Relaxed)), (rows.clone(), 0));

    // If the log is damaged as well, the flush fails and the store is unchanged; it succeeds once the damage is gone.
    store.put("key-7", "newest").unwrap();
    store.put("key-8", "newest").unwrap();
    *protector.rotten.lock().unwrap() = Some(b"key-7".to_vec());
    for _ in 0..3 {
        let error = store.db().flush().unwrap_err();
        assert_eq!(error.damage().map(|damage| damage.verdict), Some(Verdict::Seal), "{error}");
    }
    *protector.rotten.lock().unwrap() = None;
    let rows = store.rows(0);
    assert_eq!(rows.iter().filter(|(_, value)| value == b"newest").count(), 2);
    store.kill_and_open();
    assert_eq!(store.rows(0), rows);

    // Records damaged while a recovery writes them are also read again.
    store.put("key-9", "newest").unwrap();
    store.sim.crash_at(store.sim.steps());
    store.db = None;
    store.sim.reboot(Crash::Process);
    protector.failing.store(1, Relaxed);
    store.open().unwrap();
    assert_eq!(store.rows(0).iter().filter(|(_, value)| value == b"newest").count(), 3);
}

/// Damage in an input quarantines and names its table; temporary damage is gone at the second attempt.
pub fn a_damaged_compaction_names_its_table() {
    let store = Store::new(5, true);
    let protector = store.protector.clone().unwrap();
    let family = store.db().family("default").unwrap();
    for (low, high) in [("a", "c"), ("b", "d")] {
        store.put(low, "1").unwrap();
        store.put(high, "1").unwrap();
        store.db().flush().unwrap();
    }
    let tables = store.tables();
    assert_eq!(tables.len(), 2);
    protector.failing.store(1, Relaxed);
    store.compact();
    assert_eq!((store.heard.take(), store.tables().len()), (vec![], 1));
    store.put("b", "2").unwrap();
    store.put("x", "2").unwrap();
    store.db().flush().unwrap();
    let tables = store.tables();
    *protector.rotten.lock().unwrap() = Some(b"d".to_vec());
    store.compact();
    let name = format!("{:06}.tbl", tables[0]);
    assert_eq!(store.heard.take(), [format!("barred {name}"), format!("Seal in {name} of default")]);
    assert_eq!((store.tables(), store.db().quarantined_tables(&family)), (tables.clone(), tables[..1].to_vec()));
    *protector.rotten.lock().unwrap() = None;
    assert_eq!(store.rows(0).len(), 5);
}

/// A record without a companion is an error if its source promises one for every record.
pub fn a_companion_that_is_lost_on_the_way_is_missed() {
    let store = Store::new(6, true);
    let protector = store.protector.clone().unwrap();
    store.put("a", "1").unwrap();
    store.put("b", "1").unwrap();
    store.db().flush().unwrap();
    store.put("b", "2").unwrap();
    store.db().flush().unwrap();
    *protector.losing.lock().unwrap() = Some(b"a".to_vec());
    store.compact();
    let heard = store.heard.take();
    assert!(heard.contains(&"Missing in memory of default".to_owned()), "{heard:?}");
    assert_eq!(store.tables().len(), 2);
}

/// Rows that a flush emits appear together with its records, whenever the machine crashes.
pub fn rows_come_with_their_records() {
    let write = |store: &Store| -> Result<()> {
        for round in 0..2 {
            for n in 0..4 {
                store.put(&format!("key-{round}-{n}"), "v")?;
            }
            store.db().flush()?;
        }
        store.put("key-in-the-log", "v").map(drop)
    };
    let check = |store: &Store| {
        let keys: Vec<_> = store.rows(0).into_iter().map(|(key, _)| key).collect();
        let mut rows: Vec<_> = store.rows(ROWS).into_iter().map(|(_, key)| key).collect();
        rows.sort();
        assert_eq!(rows, keys);
        keys.len()
    };
    let mut store = Store::new(7, true);
    let protector = store.protector.clone().unwrap();
    protector.emits.store(true, Relaxed);
    let from = store.sim.steps();
    write(&store).unwrap();
    assert_eq!(store.rows(ROWS).len(), 8);
    let steps: Vec<u64> = store.sim.changing_steps().into_iter().filter(|step| *step >= from).collect();
    store.kill_and_open();
    assert_eq!(check(&store), 9, "those in the log are flushed by recovery, and give rise to rows then");
    assert!(steps.len() > 20);
    for step in steps {
        for crash in [Crash::Process, Crash::Machine(Loss::DurableOnly)] {
            let mut store = Store::new(7, true);
            store.protector.as_ref().unwrap().emits.store(true, Relaxed);
            store.sim.crash_at(step);
            let _ = write(&store);
            store.db = None;
            store.sim.reboot(crash);
            store.open().unwrap();
            check(&store);
        }
    }
}

/// All checks of this file.
#[cfg(feature = "planted")]
pub const ALL: [fn(); 7] = [
    fences_and_bars_are_remembered,
    tombstones_stay_under_fences,
    a_ledger_that_does_not_close_is_refused,
    a_damaged_flush_is_redone_from_the_log,
    a_damaged_compaction_names_its_table,
    a_companion_that_is_lost_on_the_way_is_missed,
    rows_come_with_their_records,
];

mod tests {
    #[test]
    fn fences_and_bars_are_remembered() {
        super::fences_and_bars_are_remembered();
    }
    #[test]
    fn tombstones_stay_under_fences() {
        super::tombstones_stay_under_fences();
    }
    #[test]
    fn a_ledger_that_does_not_close_is_refused() {
        super::a_ledger_that_does_not_close_is_refused();
    }
    #[test]
    fn a_damaged_flush_is_redone_from_the_log() {
        super::a_damaged_flush_is_redone_from_the_log();
    }
    #[test]
    fn a_damaged_compaction_names_its_table() {
        super::a_damaged_compaction_names_its_table();
    }
    #[test]
    fn a_companion_that_is_lost_on_the_way_is_missed() {
        super::a_companion_that_is_lost_on_the_way_is_missed();
    }
    #[test]
    fn rows_come_with_their_records() {
        super::rows_come_with_their_records();
    }
}
