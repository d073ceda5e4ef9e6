//! Question: can a flush or compaction lose, duplicate or change a record unnoticed?
//! Protocol: small stores on a simulated disk; one random record of a flush or of a compaction is lost, duplicated or
//!           altered in the merge buffer, twice in a row so that a second attempt is affected too. Then the whole store
//!           is compared with the model. The cost of the ledger is measured by compactions of the same tables with and
//!           without sums, in turn.
//! Passes:   every fault is rejected or the job repeated correctly, no record is lost or wrong, and the inputs are
//!           unchanged; the ledger takes at most 1 % of a compaction.

use super::Run;
use super::content::{Flat, values};
use super::node::{ALL, Node, Shape};
use super::rounds::{LEAST, alternate, shown};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lab::faults::protectors::Unsummed;
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::work::Mode;
use waxseal_lsm::inject::{self, Fate, Strike};
use waxseal_lsm::record::OwnedRecord;
use waxseal_lsm::seam::Companions;
use waxseal_meta::Sealer;
use waxseal_testing::above::Over;

/// Number of faults, and of records in a timed compaction, at scale 1.
const FULL: u64 = 20_000;
const RECORDS: u64 = 2_000_000;

const DIR: &str = "/store";
const KEYS: u64 = 40;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let trials = run.size(FULL, 60);
    let mut told = Told::default();
    for trial in 0..trials {
        trial_of(run.seed, trial, &mut told)?;
    }
    println!(
        "{trials} faults, {} refused, {} done again right, {} wrong answers, {} stores without all their records",
        told.refused, told.redone, told.wrong, told.lost
    );
    Ok(vec![
        run.counted_share("noticed", "refused_or_redone", told.refused + told.redone, trials, 100.0),
        run.none("wrong", "stores_with_a_wrong_answer", told.wrong, trials, trials),
        run.none("lost", "stores_without_all_their_records", told.lost, trials, trials),
        overhead(run)?,
    ])
}

#[derive(Default)]
struct Told {
    refused: u64,
    redone: u64,
    wrong: u64,
    lost: u64,
}

/// The fault applied to the record.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Lose,
    Double,
    Alter,
}

/// Damages the records of one key, the given number of times.
struct OneKey {
    deed: Deed,
    at: u64,
    seen: u64,
    strikes: Rc<Cell<u32>>,
    random: Random,
}

impl Strike for OneKey {
    fn record(&mut self, record: &mut OwnedRecord) -> Fate {
        let strikes = self.seen % KEYS == self.at && self.strikes.get() > 0;
        self.seen += 1;
        if !strikes {
            return Fate::Pass;
        }
        self.strikes.set(self.strikes.get() - 1);
        match self.deed {
            Deed::Lose => Fate::Lost,
            Deed::Double => Fate::Twice,
            Deed::Alter => {
                let bit = self.random.below(record.value.len() as u64 * 8) as usize;
                record.value[bit / 8] ^= 1 << (bit % 8);
                Fate::Pass
            }
        }
    }
}

fn trial_of(seed: u64, trial: u64, told: &mut Told) -> Outcome<()> {
    let mut random = Random::stream(seed, trial);
    let sim = SimFs::new(seed ^ trial);
    let mut shape = Shape::small(sim.env(1 + trial));
    // One flush, one compaction: the fault injector counts records.
    (shape.options.level0_tables, shape.options.table_bytes, shape.options.level_base_bytes) = (8, 1 << 20, 1 << 20);
    let mut node = Node::open(Path::new(DIR), &shape, Arc::new(Sealer::new()))?;
    let mut model = BTreeMap::new();
    let flush = trial.is_multiple_of(2);
    for round in 0..if flush { 1 } else { 2u64 } {
        for key in 0..KEYS {
            let (key, value) = (format!("{key:04}"), format!("{round} {}", random.word()));
            node.put(key.as_bytes(), value.as_bytes())?;
            model.insert(key.into_bytes(), value.into_bytes());
        }
        if !flush {
            node.db.flush()?;
        }
    }
    let deed = [Deed::Lose, Deed::Double, Deed::Alter][(trial / 2 % 3) as usize];
    let often = 1 + (trial / 6 % 2) as u32;
    let left = Rc::new(Cell::new(often));
    let at = random.below(KEYS);
    inject::arm(Box::new(OneKey { deed, at, seen: 0, strikes: left.clone(), random }));
    let outcome = if flush { node.db.flush() } else { node.compact() };
    inject::disarm();
    if left.get() == often {
        return Err("no record was struck".into());
    }
    // A compaction reports to a listener and the store continues; if it was rejected, its inputs still exist.
    let (_, records) = node.tables();
    match (flush, outcome) {
        (_, Err(error)) if error.is_corruption() => told.refused += 1,
        (_, Err(error)) => return Err(error.into()),
        (true, Ok(())) if records == KEYS => told.redone += 1,
        (true, Ok(())) => {}
        (false, Ok(())) if records == 2 * KEYS => told.refused += 1,
        (false, Ok(())) => told.redone += 1,
    }
    let mut found = BTreeMap::new();
    let mut cursor = node.db.cursor(&node.family, At::Latest, ALL)?;
    cursor.first()?;
    while cursor.valid() {
        found.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next()?;
    }
    told.lost += u64::from(model.keys().any(|key| !found.contains_key(key)));
    told.wrong += u64::from(found.iter().any(|(key, value)| model.get(key) != Some(value)));
    Ok(())
}

/// Time ratio of a compaction with sums to one without.
fn overhead(run: &Run) -> Outcome<Gate> {
    let num = run.size(RECORDS, 2_000);
    let protectors: [Arc<dyn Companions>; 2] = [Arc::new(Over::<Unsummed>::default()), Arc::new(Sealer::new())];
    let rounds = alternate(run, 2, 2 * LEAST + 1, |side| compaction(run, num, protectors[side].clone()))?;
    let percent = rounds.percent(1, 0, 0.0);
    println!(
        "compaction of {num} records: {:.0} ns a record without sums; with them {} ns more, {} %, {} rounds",
        rounds.of(0),
        shown(rounds.more(1, 0)),
        shown(percent),
        rounds.count()
    );
    Ok(run.at_most("ledger", "more_a_compaction", "%", percent, 1.0))
}

/// Nanoseconds per record of a compaction of two overlapping tables.
fn compaction(run: &Run, num: u64, protector: Arc<dyn Companions>) -> Outcome<f64> {
    let mut shape = Shape::real();
    shape.env.work = Mode::Stepped;
    let mut node = Node::open(&run.fresh("compaction")?, &shape, protector)?;
    let mut values = values(run.seed, 0);
    for half in 0..2 {
        for (place, key) in Flat::all(num).iter().enumerate() {
            if place % 2 == half {
                node.put(key, values.value())?;
            }
        }
        node.db.flush()?;
    }
    let start = Instant::now();
    node.compact()?;
    Ok(start.elapsed().as_nanos() as f64 / num as f64)
}
