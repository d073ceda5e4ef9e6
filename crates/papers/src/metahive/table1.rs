//! Question: what do puts and gets cost with seals, compared with the same engine without? (The paper's Table 1.)
//! Protocol: 20 B keys, 100 B values, zipfian; mixes of 0, 5 and 50 % puts; the slowest 1 % is excluded, as in the
//!           paper. Four stores on one disk in one process, in turn, forwards and backwards: plain; sealed with all
//!           gets verified; sealed with no get verified; and the paper's control, plain with a checksum that the
//!           application stores inside the value. The reader reads the whole value on every side. Two regimes:
//!           everything in cache; and the paper's, with synced puts, and gets that bypass block cache and page cache.
//!           Also scans of everything in cache: none verified, all, and one record in 64.
//! Passes:   in cache: put at most 2 % or 40 ns more, verified get at most 3 % or 30 ns, unverified get at most 1 % or
//!           30 ns. In the paper's regime: put at most 0.8 % and verified get at most 0.5 %, derived from the first
//!           regime's nanoseconds and the base measured here, and not contradicted by a paired run. The control and the
//!           scans are printed, not judged.

use super::claim::Claim;
use super::content::{Flat, Laps, clock_nanos, values};
use super::node::{Node, Shape};
use super::rounds::{LEAST, Rounds, alternate_many, shown};
use super::{Regime, Run, published};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::stats::Interval;
use waxseal_bench::workload::{Random, Values, Zipf, touch};
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::At;
use waxseal_lsm::options::{Durability, Verify};
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::Sealer;

/// Operations of the paper's run, and number of records.
const FULL: u64 = 2_000_000;

/// The sides, in measuring order.
const SIDES: [&str; 4] = ["plain", "sealed, always verified", "sealed, never verified", "checksum in the value"];
const PLAIN: usize = 0;
const ALWAYS: usize = 1;
const NEVER: usize = 2;
const EMBEDDED: usize = 3;

/// Puts of a mix in percent, with the paper's results: nanoseconds of put and get, plain and with its metadata.
type Mix = (u64, Option<(f64, f64)>, (f64, f64));

/// The three mixes of the paper.
const MIXES: [Mix; 3] = [
    (0, None, (172_124.0, 172_829.0)),
    (5, Some((83_530.0, 84_001.0)), (163_417.0, 164_021.0)),
    (50, Some((100_184.0, 100_931.0)), (159_856.0, 160_543.0)),
];

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let num = run.size(FULL, 2_000);
    published::beside(&run.fresh("published")?, num.min(200_000))?;
    let mut gates = Vec::new();
    let cached = cached(run, num, &mut gates)?;
    if run.regime != Some(Regime::Cached) {
        paper(run, num, &cached, &mut gates)?;
    }
    if run.regime == Some(Regime::Paper) {
        gates.retain(|gate| gate.id.starts_with("table1.paper"));
    }
    Ok(gates)
}

/// Results of the first regime: additional nanoseconds of the put and of the verified get.
struct Extra {
    put: Option<Interval>,
    get: Option<Interval>,
}

/// One store of the comparison.
struct Side {
    node: Node,
    embedded: bool,
    buffer: Vec<u8>,
}

impl Side {
    fn open(run: &Run, side: usize, shape: &Shape) -> Outcome<Side> {
        let protector: Arc<dyn Companions> =
            if matches!(side, ALWAYS | NEVER) { Arc::new(Sealer::new()) } else { Arc::new(Plain) };
        let mut shape = shape.clone();
        if side == NEVER {
            shape.options.verify_reads = Verify::Never; // its scans verify one record in 64 by default
        } else {
            (shape.options.verify_reads, shape.options.verify_scans) = (Verify::Always, Verify::Always);
        }
        let node = Node::open(&run.fresh(&format!("side{side}"))?, &shape, protector)?;
        Ok(Side { node, embedded: side == EMBEDDED, buffer: Vec::new() })
    }

    fn fill(&mut self, run: &Run, num: u64) -> Outcome<()> {
        let mut values = values(run.seed, 0);
        for key in Flat::all(num).iter() {
            self.put(key, values.value(), Durability::Os)?;
        }
        self.node.db.settle()?;
        Ok(())
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8], durability: Durability) -> Outcome<()> {
        if self.embedded {
            self.buffer.clear();
            self.buffer.extend_from_slice(value);
            self.buffer.extend_from_slice(&embedded(key, value).to_le_bytes());
            return Ok(self.node.apply(Kind::Put, key, &self.buffer, durability)?);
        }
        Ok(self.node.apply(Kind::Put, key, value, durability)?)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Outcome<u64> {
        let mut sum = 0;
        let mut whole = true;
        let is_embedded = self.embedded;
        let found = self.node.db.get(&self.node.family, key, At::Latest, &mut |record| match record
            .value
            .split_last_chunk()
        {
            Some((value, own)) if is_embedded => {
                whole = u64::from_le_bytes(*own) == embedded(key, value);
                sum = touch(value);
            }
            _ => sum = touch(record.value),
        })?;
        match found && whole {
            true => Ok(sum),
            false => Err("a record is not as it was written".into()),
        }
    }
}

/// The checksum that an application stores behind its value.
fn embedded(key: &[u8], value: &[u8]) -> u64 {
    hash(key) ^ hash(value)
}

/// Operations of one round of one side, created before the measurement.
struct Script {
    keys: Flat,
    puts: Vec<bool>,
}

impl Script {
    fn new(num: u64, zipf: &Zipf, random: &mut Random, count: u64, mix: u64) -> Script {
        let keys = Flat::zipfian(num, zipf, random, count);
        Script { keys, puts: (0..count).map(|_| random.below(100) < mix).collect() }
    }

    /// Nanoseconds of a put and of a get: means without the slowest 1 %, then medians; 0 without samples.
    fn play(&self, side: &mut Side, values: &mut Values) -> Outcome<[f64; 4]> {
        let puts = self.puts.iter().filter(|put| **put).count();
        let (mut put_laps, mut get_laps) = (Laps::with_room(puts), Laps::with_room(self.puts.len() - puts));
        let mut last = Instant::now();
        for (key, put) in self.keys.iter().zip(&self.puts) {
            if *put {
                side.put(key, values.value(), Durability::Os)?;
            } else {
                black_box(side.get(key)?);
            }
            let now = Instant::now();
            if *put {
                put_laps.push(now - last)
            } else {
                get_laps.push(now - last)
            }
            last = now;
        }
        Ok([put_laps.trimmed_mean(), get_laps.trimmed_mean(), put_laps.median(), get_laps.median()])
    }
}

fn cached(run: &Run, num: u64, gates: &mut Vec<Gate>) -> Outcome<Extra> {
    let shape = Shape::real();
    let mut sides = (0..SIDES.len()).map(|side| Side::open(run, side, &shape)).collect::<Outcome<Vec<Side>>>()?;
    for side in &mut sides {
        side.fill(run, num)?;
    }
    let zipf = Zipf::new(num);
    let driver = clock_nanos();
    println!(
        "in cache: {num} records; the driver's own {driver:.0} ns an operation are inside the times and net of the percentages"
    );
    let count = (num / 8).clamp(500, 30_000);
    let mut extra = Extra { put: None, get: None };
    for (place, (mix, paper_put, paper_get)) in MIXES.into_iter().enumerate() {
        // The three mixes, the scans and the other regime share the time.
        let run = &run.within(1.0 / (MIXES.len() + 2 - place) as f64);
        let mut random = Random::stream(run.seed, mix);
        let mut values = values(run.seed, 1 + mix);
        let [puts, gets, put_medians, get_medians] = alternate_many(run, SIDES.len(), 2 * LEAST + 9, |side| {
            let script = Script::new(num, &zipf, &mut random, count, mix);
            let side = &mut sides[side];
            side.node.db.settle()?;
            side.node.scan()?;
            Script {
                puts: vec![false; script.puts.len()],
                keys: Flat::zipfian(num, &zipf, &mut random, count.min(2_000)),
            }
            .play(side, &mut values)?;
            script.play(side, &mut values)
        })?;
        if mix > 0 {
            told(&format!("mix {mix} put"), &puts, &put_medians, paper_put, driver);
            let gate = tax(run, &format!("cached.put.mix{mix}"), &puts, ALWAYS, (0.02, 40.0), driver);
            gates.push(gate);
        }
        told(&format!("mix {mix} get"), &gets, &get_medians, Some(paper_get), driver);
        gates.push(tax(run, &format!("cached.get.mix{mix}"), &gets, ALWAYS, (0.03, 30.0), driver));
        gates.push(tax(run, &format!("cached.get_unverified.mix{mix}"), &gets, NEVER, (0.01, 30.0), driver));
        match mix {
            0 => extra.get = gets.more(ALWAYS, PLAIN),
            50 => extra.put = puts.more(ALWAYS, PLAIN),
            _ => {}
        }
    }
    scans(&run.within(0.5), &sides)?;
    Ok(extra)
}

/// Cost of a scan step with verified seals. Only printed: `peers` judges scans with default settings.
fn scans(run: &Run, sides: &[Side]) -> Outcome<()> {
    let [rows] = alternate_many(run, NEVER + 1, 2 * LEAST + 1, |side| {
        let start = Instant::now();
        let (rows, sum) = sides[side].node.scan()?;
        black_box(sum);
        Ok([start.elapsed().as_nanos() as f64 / rows.max(1) as f64])
    })?;
    println!("a row of a scan: plain {:.1} ns, {} rounds", rows.of(PLAIN), rows.count());
    for (side, what) in [(NEVER, "sealed, one in 64 verified"), (ALWAYS, "sealed, always verified")] {
        println!("    {what}: {} ns, {} %", shown(rows.more(side, PLAIN)), shown(rows.percent(side, PLAIN, 0.0)));
    }
    Ok(())
}

/// At most this share of the plain engine's time, or this many nanoseconds, whichever is more.
fn tax(run: &Run, what: &str, rounds: &Rounds, side: usize, (share, nanos): (f64, f64), driver: f64) -> Gate {
    let threshold = (share * (rounds.of(PLAIN) - driver)).max(nanos);
    run.at_most(what, "more_than_plain", "ns", rounds.more(side, PLAIN), threshold)
}

fn told(what: &str, means: &Rounds, medians: &Rounds, paper: Option<(f64, f64)>, driver: f64) {
    println!("{what}: plain {:.1} ns (median {:.0}), {} rounds", means.of(PLAIN), medians.of(PLAIN), means.count());
    for (side, name) in SIDES.iter().enumerate().skip(1) {
        let (more, percent) = (means.more(side, PLAIN), means.percent(side, PLAIN, driver));
        println!("    {name}: {} ns, {} %", shown(more), shown(percent));
    }
    if let Some((plain, with)) = paper {
        println!(
            "    the paper: {plain:.0} ns, with metadata {with:.0}: {:+.0} ns, {:+.2} %, gets not verified; its control more than 10 %",
            with - plain,
            (with / plain - 1.0) * 100.0
        );
    }
}

/// Operations for planning the time, and the minimum per round.
const TRIED: u64 = 20;

fn paper(run: &Run, num: u64, cached: &Extra, gates: &mut Vec<Gate>) -> Outcome<()> {
    let mut shape = Shape::real();
    shape.settings.cache_bytes = 0;
    let mut sides = Vec::new();
    for side in 0..SIDES.len() {
        let mut side = Side::open(run, side, &shape)?;
        side.fill(run, num)?;
        sides.push(side);
    }
    let mut random = Random::stream(run.seed, 77);
    let mut values = values(run.seed, 78);
    let zipf = Zipf::new(num);
    // A few operations are timed to find the number that leaves time for the minimum number of rounds.
    let few = Flat::zipfian(num, &zipf, &mut random, TRIED);
    let start = Instant::now();
    cold_gets(run, PLAIN, &sides[PLAIN], &few)?;
    few.iter().try_for_each(|key| sides[PLAIN].put(key, values.value(), Durability::Sync))?;
    let each = start.elapsed().as_secs_f64() / TRIED as f64;
    let room = run.left().as_secs_f64() / (each * (SIDES.len() * (LEAST + 1)) as f64);
    let count = run.size(4_000, TRIED).min(2_000).min(room as u64).max(TRIED);
    let [puts, gets] = alternate_many(run, SIDES.len(), LEAST, |number| {
        let keys = Flat::zipfian(num, &zipf, &mut random, count);
        let side = &mut sides[number];
        let get = cold_gets(run, number, side, &keys)?;
        let mut laps = Laps::with_room(count as usize);
        for key in keys.iter() {
            let start = Instant::now();
            side.put(key, values.value(), Durability::Sync)?;
            laps.push(start.elapsed());
        }
        side.node.db.settle()?;
        Ok([laps.trimmed_mean(), get])
    })?;
    for (what, rounds, extra, threshold) in [("put", &puts, cached.put, 0.8), ("get", &gets, cached.get, 0.5)] {
        let claim = Claim {
            base: rounds.of(PLAIN),
            base_bounds: rounds.interval_of(PLAIN),
            extra,
            paired: rounds.percent(ALWAYS, PLAIN, 0.0),
            threshold,
        };
        let within = if claim.has_the_papers_base() { "within" } else { "NOT within" };
        println!(
            "the paper's regime, {what}: plain {:.0} ns, {within} the 80 to 170 us of the paper",
            rounds.of(PLAIN)
        );
        for (side, name) in SIDES.iter().enumerate().skip(1) {
            println!(
                "    {name}, paired: {} ns, {} %",
                shown(rounds.more(side, PLAIN)),
                shown(rounds.percent(side, PLAIN, 0.0))
            );
        }
        let judged = |id: &str, metric: &str, interval, threshold| run.at_most(id, metric, "%", interval, threshold);
        gates.extend(claim.gates(what, judged));
    }
    Ok(())
}

/// Nanoseconds of a get whose block is in no cache.
fn cold_gets(run: &Run, number: usize, side: &Side, keys: &Flat) -> Outcome<f64> {
    let dir = run.dir.join(format!("side{number}"));
    let tables = std::fs::read_dir(&dir)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tbl"));
    let mut files = Vec::new();
    for path in tables {
        match std::fs::File::open(path) {
            Ok(file) => files.push(file),
            // A replaced table is deleted with its last reader, which may be now.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut laps = Laps::with_room(64);
    for key in keys.iter() {
        for file in &files {
            rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        let start = Instant::now();
        black_box(side.get(key)?);
        laps.push(start.elapsed());
    }
    Ok(laps.trimmed_mean())
}
