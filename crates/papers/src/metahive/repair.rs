//! Question: how many flipped bits on disk are repaired, how fast, and is a wrong answer ever returned?
//! Protocol: sealed stores with blocks of 4 KiB, compressed and not, with seals following and in a column. One bit of a
//!           block is flipped on disk, then two, without any copy. A get of a record in that block is timed, bypassing
//!           every cache, and every record of the block is read. Then three bits, and bursts: the answers of reads, and
//!           the result of `repair` with a replica, with the table that was compacted away, and with nothing. Half of
//!           these faults are anywhere in a block, half only in its values.
//! Passes:   one bit: all repaired; two bits: 99.9 %; never a wrong answer; at most 1 ms per block, as the median over
//!           the blocks of the slowest of the eight settings, by its upper bound. The trash restores everything, and so
//!           does a replica if keys, seqnos and seals of the block are intact (it knows none of our seqnos; other cases
//!           are printed). Otherwise a lost range covers the losses, the handler was called once for each loss, and
//!           nothing is missing unreported, also after a reopen.

use super::Run;
use super::content::{Flat, Laps, values};
use super::node::{ALL, Node, Shape};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::stats::{Interval, median_interval};
use waxseal_bench::workload::Random;
use waxseal_lab::faults::anatomy::Anatomy;
use waxseal_lsm::db::At;
use waxseal_lsm::env::Fs;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{Compression, KIB, SealLayout};
use waxseal_lsm::record::Kind;
use waxseal_meta::integrity::{
    Candidate, Corrupted, Decision, ErrorHandler, Finding, Outcome as Ended, RepairOptions, RepairSource, Report,
    repair,
};
use waxseal_meta::{Seal, Sealer};

/// Number of one-bit and two-bit flips, and of larger damage, at scale 1.
const FULL: u64 = 40_000;
const WORSE: u64 = 4_000;

const DIR: &str = "/store";
const TRASH: &str = "/trash";
const RECORDS: u64 = 240;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let mut gates = Vec::new();
    let (mut wrong, mut answers) = (0, 0);
    let each = run.size(FULL, 200) / 8;
    let mut slowest: Option<Interval> = None;
    for bits in [1, 2] {
        let (mut tried, mut right) = (0, 0);
        for shape in 0..4 {
            let mut corrected = corrections(run, shape, bits, each)?;
            tried += corrected.tried;
            right += corrected.right;
            wrong += corrected.wrong;
            answers += corrected.answers;
            let median = median_interval(&corrected.laps.millis(), run.seed);
            let slower = median.filter(|median| slowest.is_none_or(|slowest| slowest.high < median.high));
            slowest = slower.or(slowest);
            println!(
                "{bits} bit(s), {}: {} of {} blocks right again, {:.3} ms a block (median)",
                name(shape),
                corrected.right,
                corrected.tried,
                corrected.laps.median() / 1e6
            );
        }
        let least = if bits == 1 { 100.0 } else { 99.9 };
        gates.push(run.counted_share(&format!("bits{bits}"), "blocks_right_again", right, tried, least));
    }
    gates.push(run.at_most("time", "slowest_median_a_block", "ms", slowest, 1.0));
    let mut told = Worse::default();
    let worse = run.size(WORSE, 24);
    for trial in 0..worse {
        if run.is_over() {
            break;
        }
        worse_damage(run.seed ^ trial << 24, trial, &mut told)?;
    }
    println!(
        "{} damages of three bits and bursts, {} losses: whole again with a replica {} of {} ({} of {} where values alone were hit), with the trash {} of {}; {} fenced, the handler was asked {} times",
        told.trials,
        told.losses,
        told.by_source,
        told.source_trials,
        told.brought,
        told.owed,
        told.by_trash,
        told.trash_trials,
        told.fenced,
        told.asked
    );
    wrong += told.wrong;
    answers += told.answers;
    gates.push(run.none("wrong", "wrong_answers", wrong, answers, 1));
    gates.push(run.none("hidden", "records_missing_in_silence", told.hidden, told.answers, 1));
    gates.push(run.counted_share("source", "stores_whole_again_of_hit_values", told.brought, told.owed, 100.0));
    gates.push(run.counted_share("trash", "stores_whole_again", told.by_trash, told.trash_trials, 100.0));
    gates.push(run.none("handler", "asked_twice_or_not_at_all", told.wrongly_asked, told.trials, 1));
    Ok(gates)
}

fn name(shape: u64) -> &'static str {
    ["stored, following", "stored, column", "packed, following", "packed, column"][shape as usize % 4]
}

fn shape_of(sim: &SimFs, shape: u64) -> Shape {
    let mut made = Shape::small(sim.env(sim.steps() + 1));
    made.options.block_bytes = 4 * KIB;
    made.options.restart_interval = 16;
    (made.options.table_bytes, made.options.level_base_bytes) = (1 << 20, 4 << 20);
    made.options.compression = if shape >= 2 { Compression::Lz4 } else { Compression::None };
    made.options.seals = SealLayout::always(shape % 2 == 1);
    made.settings.memtable_bytes = 1 << 20;
    made.settings.cache_bytes = 0;
    made
}

/// A store with one table at a deep level, and its content; an earlier copy of the table is in the trash.
fn store(seed: u64, shape: u64) -> Outcome<(SimFs, Model)> {
    let sim = SimFs::new(seed);
    let mut node = Node::open(Path::new(DIR), &shape_of(&sim, shape), Arc::new(Sealer::new()))?;
    let mut values = values(seed, shape);
    let mut model = Model::new();
    for half in 0..2 {
        for (place, key) in Flat::all(RECORDS).iter().enumerate() {
            if place % 2 == half {
                let value = values.value();
                node.put(key, value)?;
                model.insert(key.to_vec(), value.to_vec());
            }
        }
        node.db.flush()?;
    }
    node.compact()?;
    node.db.close()?;
    sim.create_dir_all(Path::new(TRASH))?;
    for path in tables(&sim) {
        sim.write_all(Path::new(TRASH).join(path.file_name().unwrap_or_default()), &sim.read_all(&path)?)?;
    }
    sim.settle();
    Ok((sim, model))
}

fn tables(sim: &SimFs) -> Vec<PathBuf> {
    sim.files(DIR).into_iter().filter(|name| name.ends_with(".tbl")).map(|name| Path::new(DIR).join(name)).collect()
}

/// Position of a framed block, and its keys.
type Framed = (std::ops::Range<usize>, Vec<Vec<u8>>);

/// Returns the framed blocks of a table and the keys in each.
fn blocks(node: &Node, sim: &SimFs) -> Outcome<Vec<Framed>> {
    let path = tables(sim).pop().ok_or("a store without a table")?;
    let anatomy = Anatomy::read(&sim.read_all(&path)?)?;
    let mut keys: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    let mut raw = node.db.raw(&node.family, At::Latest, ALL)?;
    while let Some((record, source)) = raw.next()? {
        keys.entry(source.offset).or_default().push(record.key.to_vec());
    }
    let block = |span: std::ops::Range<usize>| (span.clone(), keys.remove(&(span.start as u64)).unwrap_or_default());
    Ok(anatomy.blocks.iter().map(|found| found.framed()).map(block).collect())
}

struct Corrected {
    tried: u64,
    right: u64,
    wrong: u64,
    answers: u64,
    laps: Laps,
}

fn corrections(run: &Run, shape: u64, bits: u64, trials: u64) -> Outcome<Corrected> {
    // The eight settings share two thirds of the time; the rest is for larger damage.
    let run = &run.within((2.0 / 3.0) / (8.0 - ((bits - 1) * 4 + shape) as f64 * 2.0 / 3.0));
    let (sim, model) = store(run.seed, shape)?;
    let node = Node::open(Path::new(DIR), &shape_of(&sim, shape), Arc::new(Sealer::new()))?;
    let path = tables(&sim).pop().ok_or("a store without a table")?;
    let blocks = blocks(&node, &sim)?;
    let mut random = Random::stream(run.seed, shape << 8 | bits);
    let mut told = Corrected { tried: 0, right: 0, wrong: 0, answers: 0, laps: Laps::with_room(trials as usize) };
    for _ in 0..trials {
        if run.is_over() && told.tried > 0 {
            break;
        }
        let (span, keys) = &blocks[random.below(blocks.len() as u64) as usize];
        let Some(asked) = keys.get(random.below(keys.len().max(1) as u64) as usize) else { continue };
        let flips = flips(span, bits, &mut random);
        for bit in &flips {
            sim.flip(&path, *bit)?;
        }
        let start = Instant::now();
        let first = value_of(&node, asked);
        told.laps.push(start.elapsed());
        let mut right = true;
        for (key, found) in keys.iter().map(|key| (key, value_of(&node, key))).chain([(asked, first)]) {
            told.answers += 1;
            match found {
                Ok(found) if found.as_ref() == model.get(key) => {}
                Ok(_) => {
                    told.wrong += 1;
                    right = false;
                }
                Err(_) => right = false,
            }
        }
        for bit in &flips {
            sim.flip(&path, *bit)?;
        }
        told.tried += 1;
        told.right += u64::from(right);
    }
    Ok(told)
}

/// Returns this number of distinct bits in a span of a file.
fn flips(span: &std::ops::Range<usize>, bits: u64, random: &mut Random) -> Vec<u64> {
    let mut flips = Vec::new();
    while (flips.len() as u64) < bits {
        let bit = span.start as u64 * 8 + random.below(span.len() as u64 * 8);
        if !flips.contains(&bit) {
            flips.push(bit);
        }
    }
    flips
}

fn value_of(node: &Node, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = None;
    node.db.get(&node.family, key, At::Latest, &mut |record| value = Some(record.value.to_vec()))?;
    Ok(value)
}

#[derive(Default)]
struct Worse {
    trials: u64,
    losses: u64,
    source_trials: u64,
    by_source: u64,
    /// Cases with a replica in which keys, seqnos and seals were intact, and the number of them that were restored.
    owed: u64,
    brought: u64,
    trash_trials: u64,
    by_trash: u64,
    fenced: u64,
    asked: u64,
    wrongly_asked: u64,
    wrong: u64,
    hidden: u64,
    answers: u64,
}

/// A replica.
struct Replica<'a>(&'a Model);

impl RepairSource for Replica<'_> {
    fn by_seal(&self, _: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        let found = self.0.get(key).filter(|value| Seal::of(key, value) == seal);
        Ok(found.map(|value| Candidate { kind: Kind::Put, key: key.to_vec(), value: value.clone() }))
    }
    fn by_range(&self, _: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        let within = self.0.iter().filter(|(key, _)| (low..=high).contains(&key.as_slice()));
        within.for_each(|(key, value)| visit(Candidate { kind: Kind::Put, key: key.clone(), value: value.clone() }));
        Ok(())
    }
}

/// Remembers the events of its calls.
#[derive(Default)]
struct Asked(Mutex<Vec<Corrupted>>);

impl ErrorHandler for Asked {
    fn on_corruption(&self, event: &Corrupted) -> Decision {
        lock(&self.0).push(event.clone());
        Decision::Quarantine
    }
}

impl Asked {
    /// Returns repeated calls, and losses that became lost ranges without a call.
    fn wrong(&self, report: &Report) -> u64 {
        let events = lock(&self.0);
        let twice = (0..events.len()).filter(|at| events[..*at].contains(&events[*at])).count();
        let fenced = report.damage.iter().filter(|finding| finding.outcome == Ended::Fenced);
        let about = |finding: &Finding| {
            let of = |event: &&Corrupted| (&event.file, event.offset) == (&finding.file, finding.offset);
            events.iter().filter(of).any(|event| match &finding.key_range {
                Some((low, high)) => *low <= event.span.1.0 && event.span.0.0 <= *high,
                None => true,
            })
        };
        twice as u64 + fenced.filter(|finding| !about(finding)).count() as u64
    }
}

fn worse_damage(seed: u64, trial: u64, told: &mut Worse) -> Outcome<()> {
    let shape = trial % 4;
    let (sim, model) = store(seed, shape)?;
    let path = tables(&sim).pop().ok_or("a store without a table")?;
    let mut random = Random::new(seed);
    let anatomy = Anatomy::read(&sim.read_all(&path)?)?;
    let block = &anatomy.blocks[random.below(anatomy.blocks.len() as u64) as usize];
    // In a compressed block the position of a value is unknown.
    let value = (!block.is_packed() && random.below(2) == 0).then(|| random.below(block.entries.len() as u64) as usize);
    let value = value.and_then(|entry| block.entries.get(entry)).map(|entry| entry.value.clone());
    let values_alone = value.is_some();
    let span = value.unwrap_or_else(|| block.framed());
    let damaged = match random.below(2) {
        0 => flips(&span, 3, &mut random),
        _ => {
            // Up to 64 random bytes.
            let length = (8 + random.below(56) as usize).min(span.len());
            let start = span.start + random.below((span.len() - length) as u64 + 1) as usize;
            (start as u64 * 8..(start + length) as u64 * 8).filter(|_| random.below(2) == 0).collect()
        }
    };
    for bit in &damaged {
        sim.flip(&path, *bit)?;
    }
    let node = Node::open(Path::new(DIR), &shape_of(&sim, shape), Arc::new(Sealer::new()))?;
    told.trials += 1;
    look(&node, &model, told)?;
    let (replica, asked) = (Replica(&model), Asked::default());
    let helper = trial / 4 % 3;
    let options = RepairOptions {
        source: (helper == 0).then_some(&replica as &dyn RepairSource),
        trash: (helper == 1).then(|| PathBuf::from(TRASH)),
        handler: Some(&asked),
        ..RepairOptions::default()
    };
    let report = repair(&node.db, options)?;
    told.losses += report.damage.len() as u64;
    let fenced = |finding: &&Finding| finding.outcome == Ended::Fenced;
    told.fenced += report.damage.iter().filter(fenced).count() as u64;
    told.asked += lock(&asked.0).len() as u64;
    told.wrongly_asked += asked.wrong(&report);
    let whole = look(&node, &model, told)?;
    node.db.close()?;
    drop(node);
    let node = Node::open(Path::new(DIR), &shape_of(&sim, shape), Arc::new(Sealer::new()))?;
    let again = look(&node, &model, told)?;
    match helper {
        0 => {
            told.source_trials += 1;
            told.by_source += u64::from(whole && again);
            told.owed += u64::from(values_alone);
            told.brought += u64::from(values_alone && whole && again);
        }
        1 => {
            told.trash_trials += 1;
            told.by_trash += u64::from(whole && again);
        }
        _ => {}
    }
    Ok(())
}

/// Reads everything by key; returns true if it is complete.
fn look(node: &Node, model: &Model, told: &mut Worse) -> Outcome<bool> {
    let mut whole = true;
    for (key, value) in model {
        told.answers += 1;
        match value_of(node, key) {
            Ok(Some(found)) if found == *value => {}
            Ok(Some(_)) => told.wrong += 1,
            Ok(None) => told.hidden += 1,
            Err(_) => whole = false,
        }
    }
    Ok(whole)
}
