//! The stage: a small store on a simulated disk beside its model, and the judge of what it answers.
//!
//! Holds:  what is read is every key by itself, those that were deleted and some that never were too, and everything in order, both
//!         ways. An answer unlike the model's is wrong; a record that is missing without an error where it should stand is lost.
//!         Errors excuse what they cover and nothing else.

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
use waxseal_lsm::seam::{Companions, Draft};

use super::redirect::RedirectFs;
use super::{Dice, Outcome};
use crate::Sealer;
use crate::builtin::{Labels, standard};
use crate::provider::LABELS;
use crate::reading::meta_of;
use crate::stamp::{Stamp, Verb};

pub(super) const DIR: &str = "/store";

/// Every key that was ever written, and its value or none.
pub(super) type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What came of a fault, and how one sees it.
#[derive(Clone, Debug)]
pub struct Told {
    /// What came of it.
    pub outcome: Outcome,
    /// The answer that decided, for a person.
    pub detail: String,
    /// The store could not be opened until it was dealt with.
    pub refused: bool,
}

/// How a stage is set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Setting {
    pub(super) packed: bool,
    pub(super) column: bool,
    pub(super) cached: bool,
    /// Values from 64 bytes on stand in value files.
    pub(super) apart: bool,
}

/// A disk with a store that nobody has open, and what it holds.
#[derive(Clone)]
pub(super) struct Image {
    pub(super) disk: SimFs,
    /// The same disk a while before.
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

/// What a listener heard.
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

/// The verdict so far: the worst of all answers.
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
    // A few bytes in common, as keys have.
    format!("key/{:05}", number * 10).into_bytes()
}

/// The keeper of a stage: seals, and what providers keep beside them.
pub(super) fn keeper() -> Arc<dyn Companions> {
    Arc::new(Sealer::new().with(standard()))
}

/// Every third key has a label that says what its value is.
pub(super) fn has_label(key: &[u8]) -> bool {
    key.iter().map(|byte| u32::from(*byte)).sum::<u32>().is_multiple_of(3)
}

/// Some keys are watched, with a label and without: their records have a stamp.
pub(super) fn has_stamp(key: &[u8]) -> bool {
    let sum = key.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    sum.is_multiple_of(6) || sum % 12 == 4
}

/// The stamp of a value: when and by whom follow from it.
pub(super) fn stamp(value: &[u8]) -> Stamp {
    let number = hash(value);
    Stamp { elsewhere: true, ..Stamp::new(Verb::Update, number, number % 100) }
}

/// The label of a value.
pub(super) fn label(value: &[u8]) -> Result<Vec<u8>> {
    Labels::of(&[("sum", &format!("{:016x}", hash(value)))])
}

/// A value that stands nowhere else.
pub(super) fn value(round: u64, number: usize, dice: &mut Dice) -> Vec<u8> {
    let length = 8 + dice.below(80);
    let mut value = format!("{round}:{number}:").into_bytes();
    value.extend((0..length).map(|_| dice.below(256) as u8));
    value
}

/// Adds an operation, with its label and its stamp if it is to have them.
pub(super) fn push(
    batch: &mut Batch,
    family: &Family,
    kind: Kind,
    key: &[u8],
    value: &[u8],
    keeper: &dyn Companions,
) -> Result<()> {
    let label = label(value)?;
    let entries: [(u16, &[u8]); 1] = [(LABELS, &label)];
    let entries = if kind == Kind::Put && has_label(key) { &entries[..] } else { &[] };
    let draft = Draft { family: family.id(), kind, key, value, key_hash: None, entries };
    batch.push_by(draft.family, kind, key, value, |out| {
        keeper.on_write(&draft, out)?;
        if kind == Kind::Put && has_stamp(key) {
            stamp(value).put(hash(key), out);
        }
        Ok(())
    })
}

impl Image {
    /// A store with an old and a new version of half its keys, some deleted, in two levels, and some in the log alone.
    pub(super) fn new(setting: Setting) -> Result<Image> {
        let disk = SimFs::new(7);
        let mut stage = Stage::over(disk.clone(), Model::new(), setting);
        let mut dice = Dice::new(7);
        stage.open(keeper())?;
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
        let fs = RedirectFs::over(disk.clone());
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
            // What is asked is whether a check finds it, not how often one is made.
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
            orders: Vec::new(),
            chronicle: None,
            cache: None,
        };
        let db = Db::open(Path::new(DIR), settings, parts)?;
        let family = db.family("default").ok_or_else(Error::closed)?;
        self.db = Some((db, family));
        Ok(())
    }

    /// Opens with a keeper of its own; a store that is refused is an error that everybody sees.
    pub(super) fn open_judged(&mut self, verdict: &mut Verdict) -> bool {
        match self.open(keeper()) {
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

    /// Something that the store is asked to do: an error is an answer.
    pub(super) fn does(&self, verdict: &mut Verdict, what: impl FnOnce(&Db, &Family) -> Result<()>) {
        if let Err(error) = self.db().and_then(|(db, family)| what(&db, &family)) {
            verdict.error(&error);
        }
    }

    pub(super) fn compacts(&self, verdict: &mut Verdict) {
        self.does(verdict, |db, family| db.compact(family, &(Bound::Unbounded, Bound::Unbounded)));
    }

    /// Closes the store, and forgets what was heard of it only if it says so.
    pub(super) fn close(&mut self, verdict: &mut Verdict) {
        self.does(verdict, |db, _| db.close());
        self.db = None;
    }

    /// Reads everything and judges.
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

    /// Forgets what was heard so far.
    pub(super) fn forget(&mut self) {
        self.ears.mended.store(0, Relaxed);
        self.ears.damage.store(0, Relaxed);
    }

    /// Whether anybody said that something was damaged or mended.
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

    /// What stands beside a record is what was written there. It is read with the record, which is checked.
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

/// What the errors of a scan excuse: what is missing where one came, and between the keys that it names.
#[derive(Default)]
struct Excuse {
    /// One came since the last row.
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

/// Goes through all that a fault goes through, without one. Anything but `Correct` is a false alarm.
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
