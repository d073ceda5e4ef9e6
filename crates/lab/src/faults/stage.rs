//! The stage: a small store on a simulated disk with its model, and the judge of its answers.
//!
//! Holds:  every check reads each key by itself, including deleted keys and some that never existed, and scans in both
//!         directions. An answer that differs from the model's is wrong. A record that is missing without an error in
//!         its place is lost. An error excuses only the keys that it covers.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Db, Event, Family, Listener, Parts};
use waxseal_lsm::env::SimFs;
use waxseal_lsm::env::sim::Crash;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::{CfOptions, Compression, Durability, KIB, MIB, SealLayout, Settings, Verify};
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, PendingWrite};

use super::redirect::RedirectFs;
use super::{Dice, Outcome};
use waxseal_meta::Sealer;
use waxseal_meta::builtin::{Labels, standard};
use waxseal_meta::provider::LABELS;
use waxseal_meta::reading::meta_of;
use waxseal_meta::stamp::{Stamp, StampVerb};

pub(super) const DIR: &str = "/store";

/// Every key that was ever written, with its value, or `None` if deleted.
pub(super) type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The outcome of a fault, and its evidence.
#[derive(Clone, Debug)]
pub struct Told {
    /// The outcome.
    pub outcome: Outcome,
    /// The decisive answer, as text.
    pub detail: String,
    /// True if the store could not be opened without repair.
    pub refused: bool,
}

/// The configuration of a stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Setting {
    pub(super) packed: bool,
    pub(super) column: bool,
    pub(super) cached: bool,
    /// Values of 64 bytes and more are in blob files.
    pub(super) apart: bool,
}

/// A disk with a closed store, and the store's content.
#[derive(Clone)]
pub(super) struct Image {
    pub(super) disk: SimFs,
    /// The same disk at an earlier time.
    pub(super) older: SimFs,
    pub(super) model: Model,
}

/// An open store on a disk of its own.
pub(super) struct Stage {
    pub(super) disk: SimFs,
    pub(super) fs: RedirectFs,
    pub(super) model: Model,
    setting: Setting,
    ears: Arc<Ears>,
    db: Option<(Db, Family)>,
    pub(super) refused: bool,
}

/// Counts of the events that the listener received.
#[derive(Default)]
struct Ears {
    mended: AtomicU64,
    damage: AtomicU64,
}

impl Listener for Ears {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Healed { .. } => self.mended.fetch_add(1, Relaxed),
            Event::Corruption { .. } | Event::Fenced { .. } | Event::Barred { .. } => self.damage.fetch_add(1, Relaxed),
            _ => 0,
        };
    }
}

/// The worst outcome of all answers so far.
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) detail: String,
}

impl Verdict {
    pub(super) fn new() -> Verdict {
        Verdict { outcome: Outcome::Correct, detail: String::new() }
    }

    pub(super) fn add(&mut self, outcome: Outcome, detail: impl FnOnce() -> String) {
        if outcome > self.outcome {
            (self.outcome, self.detail) = (outcome, detail());
        }
    }

    fn error(&mut self, error: &Error) {
        self.add(Outcome::Error, || error.to_string());
    }
}

const KEYS: usize = 60;

pub(super) fn key(number: usize) -> Vec<u8> {
    // A common prefix, as real keys have.
    format!("key/{:05}", number * 10).into_bytes()
}

/// Returns the protector of a stage: seals and all standard providers.
pub(super) fn protector() -> Arc<dyn Companions> {
    Arc::new(Sealer::new().with(standard()))
}

/// Every third key has a label that depends on its value.
pub(super) fn has_label(key: &[u8]) -> bool {
    key.iter().map(|byte| u32::from(*byte)).sum::<u32>().is_multiple_of(3)
}

/// Some keys are watched, with and without a label, so that their records have a stamp.
pub(super) fn has_stamp(key: &[u8]) -> bool {
    let sum = key.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    sum.is_multiple_of(6) || sum % 12 == 4
}

/// Returns the stamp of a value: its time and session depend on the value.
pub(super) fn stamp(value: &[u8]) -> Stamp {
    let number = hash(value);
    Stamp { elsewhere: true, ..Stamp::new(StampVerb::Update, number, number % 100) }
}

/// The label of a value.
pub(super) fn label(value: &[u8]) -> Result<Vec<u8>> {
    Labels::of(&[("sum", &format!("{:016x}", hash(value)))])
}

/// Returns a unique value.
pub(super) fn value(round: u64, number: usize, dice: &mut Dice) -> Vec<u8> {
    let length = 8 + dice.below(80);
    let mut value = format!("{round}:{number}:").into_bytes();
    value.extend((0..length).map(|_| dice.below(256) as u8));
    value
}

/// Adds an operation, with label and stamp if its key has them.
pub(super) fn push(
    batch: &mut Batch,
    family: &Family,
    kind: Kind,
    key: &[u8],
    value: &[u8],
    protector: &dyn Companions,
) -> Result<()> {
    let label = label(value)?;
    let entries: [(u16, &[u8]); 1] = [(LABELS, &label)];
    let entries = if kind == Kind::Put && has_label(key) { &entries[..] } else { &[] };
    let pending = PendingWrite { family: family.id(), kind, key, value, key_hash: None, entries };
    batch.push_by(pending.family, kind, key, value, |out| {
        protector.on_write(&pending, out)?;
        if kind == Kind::Put && has_stamp(key) {
            stamp(value).put(hash(key), out);
        }
        Ok(())
    })
}

impl Image {
    /// Creates a store with old and new versions of half its keys, some deleted, in two levels, and with some records
    /// only in the log.
    pub(super) fn new(setting: Setting) -> Result<Image> {
        let disk = SimFs::new(7);
        let mut stage = Stage::over(disk.clone(), Model::new(), setting);
        let mut dice = Dice::new(7);
        stage.open(protector())?;
        for number in 0..KEYS {
            stage.put(&key(number), &value(0, number, &mut dice))?;
        }
        stage.db()?.0.flush()?;
        let (db, family) = stage.db()?;
        db.compact(&family, &(Bound::Unbounded, Bound::Unbounded))?;
        for number in (0..KEYS).filter(|number| number % 2 == 0) {
            match number % 10 {
                0 => stage.delete(&key(number))?,
                _ => stage.put(&key(number), &value(1, number, &mut dice))?,
            }
        }
        let older = disk.fork();
        stage.db()?.0.flush()?;
        for number in (0..KEYS).filter(|number| number % 7 == 0) {
            stage.put(&key(number), &value(2, number, &mut dice))?;
        }
        stage.delete(&key(33))?;
        stage.db()?.0.sync()?;
        for number in (0..KEYS).filter(|number| number % 13 == 0) {
            stage.put(&key(number), &value(3, number, &mut dice))?;
        }
        disk.reboot(Crash::Process);
        let model = std::mem::take(&mut stage.model);
        drop(stage);
        Ok(Image { disk, older, model })
    }

    pub(super) fn stage(&self, setting: Setting) -> Stage {
        Stage::over(self.disk.fork(), self.model.clone(), setting)
    }
}

impl Stage {
    fn over(disk: SimFs, model: Model, setting: Setting) -> Stage {
        let (fs, _) = RedirectFs::new(Arc::new(disk.clone()));
        Stage { disk, fs, model, setting, ears: Arc::default(), db: None, refused: false }
    }

    pub(super) fn open(&mut self, companions: Arc<dyn Companions>) -> Result<()> {
        self.db = None;
        let options = CfOptions {
            block_bytes: 256,
            restart_interval: 4,
            compression: if self.setting.packed { Compression::default() } else { Compression::None },
            seals: SealLayout::always(self.setting.column),
            table_bytes: 2 * KIB as u64,
            level_base_bytes: 4 * KIB as u64,
            fanout: 3,
            level0_tables: 4,
            large_value_bytes: if self.setting.apart { 64 } else { 0 },
            // The question is whether a check detects the fault, not how often reads check.
            verify_scans: Verify::Always,
            ..CfOptions::default()
        };
        let settings = Settings {
            memtable_bytes: 64 * KIB,
            cache_bytes: if self.setting.cached { MIB } else { 0 },
            segment_bytes: 64 * KIB as u64,
            ring_bytes: 16 * KIB,
            drain_bytes: 4 * KIB,
            ..Settings::default()
        };
        let mut env = self.disk.env(self.disk.steps() + 1);
        env.fs = Arc::new(self.fs.clone());
        let families = vec![("default".to_owned(), options)];
        let parts = Parts {
            env,
            companions,
            listener: self.ears.clone(),
            families,
            filters: Vec::new(),
            orders: Vec::new(),
            merge_operators: Vec::new(),
            engine_log: None,
            cache: None,
        };
        let db = Db::open(Path::new(DIR), settings, parts)?;
        let family = db.family("default").ok_or_else(Error::closed)?;
        self.db = Some((db, family));
        Ok(())
    }

    /// Opens with a new protector; a failed open counts as an error for every key.
    pub(super) fn open_judged(&mut self, verdict: &mut Verdict) -> bool {
        match self.open(protector()) {
            Ok(()) => true,
            Err(error) => {
                self.refused = true;
                verdict.error(&error);
                false
            }
        }
    }

    pub(super) fn db(&self) -> Result<(Db, Family)> {
        self.db.clone().ok_or_else(Error::closed)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.apply(Kind::Put, key, value)?;
        self.model.insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.apply(Kind::Delete, key, b"")?;
        self.model.insert(key.to_vec(), None);
        Ok(())
    }

    fn apply(&mut self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let (db, family) = self.db()?;
        let mut batch = Batch::new();
        push(&mut batch, &family, kind, key, value, db.companions())?;
        db.commit(&mut batch, Durability::Os)?;
        Ok(())
    }

    /// Runs an operation of the store; an error counts as an answer.
    pub(super) fn does(&self, verdict: &mut Verdict, what: impl FnOnce(&Db, &Family) -> Result<()>) {
        if let Err(error) = self.db().and_then(|(db, family)| what(&db, &family)) {
            verdict.error(&error);
        }
    }

    pub(super) fn compacts(&self, verdict: &mut Verdict) {
        self.does(verdict, |db, family| db.compact(family, &(Bound::Unbounded, Bound::Unbounded)));
    }

    /// Closes the store; an error counts as an answer.
    pub(super) fn close(&mut self, verdict: &mut Verdict) {
        self.does(verdict, |db, _| db.close());
        self.db = None;
    }

    /// Reads everything and judges the answers.
    pub(super) fn reads(&self, verdict: &mut Verdict) {
        let Ok((db, family)) = self.db() else { return };
        self.gets(&db, &family, verdict);
        for forward in [true, false] {
            if let Err(error) = self.scan(&db, &family, forward, verdict) {
                verdict.error(&error);
            }
        }
        if db.recovery().cut_bytes > 0 {
            verdict.add(Outcome::Error, || "bytes were cut from the log, and that was told".into());
        }
    }

    /// Resets the event counts.
    pub(super) fn forget(&mut self) {
        self.ears.mended.store(0, Relaxed);
        self.ears.damage.store(0, Relaxed);
    }

    /// Records whether an event reported damage or a repair.
    pub(super) fn heard(&self, verdict: &mut Verdict) {
        if self.ears.mended.load(Relaxed) + self.ears.damage.load(Relaxed) > 0 {
            verdict.add(Outcome::Repaired, || "damage was met, and no answer suffered".into());
        }
    }

    fn gets(&self, db: &Db, family: &Family, verdict: &mut Verdict) {
        let absent = (0..KEYS).map(|number| (format!("key/{:05}", number * 10 + 3).into_bytes(), None));
        let keys = self.model.iter().map(|(key, value)| (key.clone(), value.clone())).chain(absent);
        for (key, expected) in keys {
            let mut found = None;
            let outcome = db.get(family, &key, At::Latest, &mut |record| found = Some(record.value.to_vec()));
            let name = || String::from_utf8_lossy(&key).into_owned();
            match (outcome, expected) {
                (Err(error), _) => verdict.error(&error),
                (Ok(_), expected) if found == expected => {}
                (Ok(_), Some(_)) if found.is_none() => {
                    verdict.add(Outcome::HiddenLoss, || format!("get of {} answers nothing", name()));
                }
                (Ok(_), _) => verdict.add(Outcome::SilentWrong, || format!("get of {} answers another value", name())),
            }
            self.beside(db, family, &key, verdict);
        }
    }

    /// Checks that a record's companions are the written ones. They are read with the record, which is verified.
    fn beside(&self, db: &Db, family: &Family, key: &[u8], verdict: &mut Verdict) {
        let Some(Some(value)) = self.model.get(key) else { return };
        let name = || String::from_utf8_lossy(key).into_owned();
        let (mut meta, mut stamped) = (Ok(None), Ok(None));
        let got = db.get(family, key, At::Latest, &mut |record| {
            meta = meta_of(record, LABELS);
            stamped = Stamp::of(record.companion, hash(record.key));
        });
        if let Err(error) = got {
            return verdict.error(&error);
        }
        if has_label(key) {
            match (meta, label(value)) {
                (Err(error), _) => verdict.error(&error),
                (Ok(Some(found)), Ok(label)) if found.bytes == label => {}
                (Ok(None), _) => verdict.add(Outcome::HiddenLoss, || format!("the label of {} is gone", name())),
                _ => verdict.add(Outcome::SilentWrong, || format!("the label of {} is another one", name())),
            }
        }
        match (stamped, has_stamp(key).then(|| stamp(value))) {
            (Err(error), _) => verdict.error(&error),
            (Ok(found), expected) if found == expected => {}
            (Ok(None), _) => verdict.add(Outcome::HiddenLoss, || format!("the stamp of {} is gone", name())),
            _ => verdict.add(Outcome::SilentWrong, || format!("the stamp of {} is another one", name())),
        }
    }

    fn scan(&self, db: &Db, family: &Family, forward: bool, verdict: &mut Verdict) -> Result<()> {
        let mut cursor = db.cursor(family, At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
        let mut expected: Vec<(&Vec<u8>, &Vec<u8>)> =
            self.model.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
        if !forward {
            expected.reverse();
        }
        let before = |a: &[u8], b: &[u8]| if forward { a < b } else { a > b };
        let mut rest = expected.into_iter().peekable();
        let mut excuse = Excuse::default();
        let mut errors = 0;
        let mut step = if forward { cursor.first() } else { cursor.last() };
        loop {
            match step {
                Err(error) => {
                    verdict.error(&error);
                    excuse.add(&error);
                    errors += 1;
                    if errors > 10 * KEYS {
                        verdict.add(Outcome::SilentWrong, || "a scan that yields errors without end".into());
                        return Ok(());
                    }
                }
                Ok(()) if !cursor.valid() => break,
                Ok(()) => {
                    let (key, value) = (cursor.key(), cursor.value());
                    while let Some((missing, _)) = rest.next_if(|(expected, _)| before(expected, key)) {
                        excuse.lost(verdict, missing, forward);
                    }
                    match rest.next_if(|(expected, _)| expected.as_slice() == key) {
                        Some((_, expected)) if expected.as_slice() == value => {}
                        _ => verdict.add(Outcome::SilentWrong, || {
                            format!(
                                "a scan (forward: {forward}) shows a row that is not there: {}",
                                String::from_utf8_lossy(key)
                            )
                        }),
                    }
                    excuse.here = false;
                }
            }
            step = if forward { cursor.next() } else { cursor.prev() };
        }
        rest.for_each(|(missing, _)| excuse.lost(verdict, missing, forward));
        Ok(())
    }
}

/// The excuses from errors of a scan: rows missing at the error's position, and the keys in its range.
#[derive(Default)]
struct Excuse {
    /// True if an error occurred since the last row.
    here: bool,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Excuse {
    fn add(&mut self, error: &Error) {
        self.here = true;
        self.ranges.extend(error.damage().and_then(|damage| damage.key_range.clone()));
    }

    fn lost(&self, verdict: &mut Verdict, key: &[u8], forward: bool) {
        let covers = |(low, high): &(Vec<u8>, Vec<u8>)| low.as_slice() <= key && key <= high.as_slice();
        if !self.here && !self.ranges.iter().any(covers) {
            verdict.add(Outcome::HiddenLoss, || {
                format!("a scan (forward: {forward}) passes over {} in silence", String::from_utf8_lossy(key))
            });
        }
    }
}

/// Runs the complete procedure without a fault. Any outcome but `Correct` is a false alarm.
pub fn clean(seed: u64) -> Result<Told> {
    let mut dice = Dice::new(seed);
    let mut either = || dice.once_in(2);
    let setting = Setting { packed: either(), column: either(), cached: either(), apart: either() };
    let image = Image::new(setting)?;
    let mut stage = image.stage(setting);
    let mut verdict = Verdict::new();
    for _ in 0..2 {
        if stage.open_judged(&mut verdict) {
            stage.reads(&mut verdict);
            let number = dice.below(KEYS);
            stage.put(&key(number), &value(4, number, &mut dice))?;
            stage.does(&mut verdict, |db, _| db.flush());
            stage.reads(&mut verdict);
            stage.compacts(&mut verdict);
            stage.reads(&mut verdict);
            stage.heard(&mut verdict);
            stage.close(&mut verdict);
        }
    }
    Ok(Told { outcome: verdict.outcome, detail: verdict.detail, refused: stage.refused })
}
