//! Question: what does each step from the literal paper to Waxseal gain, and what does it cost?
//! Protocol: one engine, one workload (20 B keys, 100 B values, in cache), eight ways to store checksums, measured in
//!           turn: none; exactly the paper's, where a verified get must also find the row; inside the value; apart from
//!           the data, like a footer; with the record, computed at the flush; computed at the put and checked only by
//!           compaction; checked by every get; and in a column. Measured are nanoseconds of a put and of a verified
//!           get, bytes per record, and blocks loaded by a verified get. Then faults, for each choice separately: those
//!           that the paper's choice misses, and those that ours misses.
//! Passes:   every choice of the paper misses the faults that it must miss (otherwise it is not the paper's), ours
//!           misses none; a verified get loads one block, like a plain one. Times are printed; `table1` judges them.

use super::Run;
use super::content::{Flat, values};
use super::node::{Node, Shape};
use super::rounds::{LEAST, Rounds, alternate, shown};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::{Random, touch};
use waxseal_lab::faults::protectors::Launderer;
use waxseal_lab::paper::{Paper, RowForm, row};
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::inject::{self, Fate, Strike};
use waxseal_lsm::options::{Durability, SealLayout, Verify};
use waxseal_lsm::record::{Kind, OwnedRecord};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::{SealPoint, Sealer};
use waxseal_testing::above::Over;

/// Records at scale 1, and faults of each kind.
const FULL: u64 = 1_000_000;
const FAULTS: u64 = 4_000;

/// The position of the checksum, and the operations that check it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    None,
    Literal,
    InValue,
    Apart,
    AtFlush,
    AtPut,
    Checked,
    Column,
}

const WAYS: [(Way, &str); 8] = [
    (Way::None, "none"),
    (Way::Literal, "the paper: a row of its own, made at the flush"),
    (Way::InValue, "inside the value, by the application"),
    (Way::Apart, "apart from the data, as in a footer"),
    (Way::AtFlush, "beside the record, made at the flush, checked by compaction only"),
    (Way::AtPut, "beside the record, made at the put, checked by compaction only"),
    (Way::Checked, "beside the record, made at the put, checked by every get"),
    (Way::Column, "in a column, made at the put, checked by every get"),
];

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let num = run.size(FULL, 1_000);
    let mut kept = Vec::new();
    for (place, (way, _)) in WAYS.iter().enumerate() {
        kept.push(Kept::new(run, place, *way, num)?);
    }
    let asked = (num / 4).clamp(200, 40_000);
    let keys = Flat::even(num, &mut Random::stream(run.seed, 1), asked);
    let mut values = values(run.seed, 1);
    let gets = {
        let run = run.within(0.4);
        alternate(&run, WAYS.len(), LEAST, |way| timed(&keys, |key| kept[way].get(key)))?
    };
    let puts = {
        let run = run.within(0.6);
        alternate(&run, WAYS.len(), LEAST, |way| {
            let time = timed(&keys, |key| kept[way].put(key, values.value()).map(|()| 0));
            kept[way].node.db.settle()?;
            time
        })?
    };
    drop(kept);
    let blocks =
        WAYS.iter().enumerate().map(|(place, (way, _))| blocks(run, place, *way)).collect::<Outcome<Vec<f64>>>()?;
    let bytes =
        WAYS.iter().enumerate().map(|(place, (way, _))| bytes(run, place, *way)).collect::<Outcome<Vec<f64>>>()?;
    table(&gets, &puts, &blocks, &bytes);
    let mut gates = vec![run.none(
        "blocks",
        "blocks_a_verified_get_loads_more_than_a_plain_one",
        ((blocks[6] - blocks[0]).abs() * 1000.0) as u64,
        asked,
        1,
    )];
    gates.extend(faults(run)?);
    Ok(gates)
}

fn table(gets: &Rounds, puts: &Rounds, blocks: &[f64], bytes: &[f64]) {
    println!(
        "put and verified get in ns more than none (medians of {} rounds), bytes a record, blocks a get loads:",
        gets.count()
    );
    println!(
        "    none: put {:.0} ns, get {:.0} ns, {:.1} B, {:.2} blocks",
        puts.of(0),
        gets.of(0),
        bytes[0],
        blocks[0]
    );
    for (way, (_, name)) in WAYS.iter().enumerate().skip(1) {
        println!(
            "    {name}: put {} ns, {} %; get {} ns, {} %; {:+.1} B; {:.2} blocks",
            shown(puts.more(way, 0)),
            shown(puts.percent(way, 0, 0.0)),
            shown(gets.more(way, 0)),
            shown(gets.percent(way, 0, 0.0)),
            bytes[way] - bytes[0],
            blocks[way]
        );
    }
}

fn timed(keys: &Flat, mut work: impl FnMut(&[u8]) -> Outcome<u64>) -> Outcome<f64> {
    let (mut count, start) = (0u64, Instant::now());
    for key in keys.iter() {
        black_box(work(key)?);
        count += 1;
    }
    Ok(start.elapsed().as_nanos() as f64 / count.max(1) as f64)
}

/// A store with one way of storing checksums.
struct Kept {
    way: Way,
    node: Node,
    /// The separate checksums, for the ways that store them apart.
    apart: Option<Node>,
    buffer: Vec<u8>,
}

fn protector(way: Way) -> Arc<dyn Companions> {
    match way {
        Way::None | Way::InValue | Way::Apart => Arc::new(Plain),
        Way::Literal => Arc::new(Paper::default()),
        Way::AtFlush => Arc::new(Sealer::new().at(SealPoint::Flush)),
        Way::AtPut | Way::Checked | Way::Column => Arc::new(Sealer::new()),
    }
}

fn shaped(mut shape: Shape, way: Way) -> Shape {
    shape.options.seals = SealLayout::always(way == Way::Column);
    shape.options.verify_reads = if matches!(way, Way::Checked | Way::Column) { Verify::Always } else { Verify::Never };
    shape
}

impl Kept {
    fn new(run: &Run, place: usize, way: Way, num: u64) -> Outcome<Kept> {
        Kept::filled(run, place, way, num, Shape::real())
    }

    fn filled(run: &Run, place: usize, way: Way, num: u64, shape: Shape) -> Outcome<Kept> {
        let shape = shaped(shape, way);
        let node = Node::open(&run.fresh(&format!("way{place}"))?, &shape, protector(way))?;
        let apart = match way {
            Way::Apart => Some(Node::open(&run.fresh(&format!("apart{place}"))?, &shape, Arc::new(Plain))?),
            _ => None,
        };
        let mut kept = Kept { way, node, apart, buffer: Vec::new() };
        let mut values = values(run.seed, 0);
        for key in Flat::all(num).iter() {
            kept.put(key, values.value())?;
        }
        for node in [Some(&kept.node), kept.apart.as_ref()].into_iter().flatten() {
            node.db.settle()?;
            node.compact()?;
            node.scan()?;
        }
        Ok(kept)
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let sum = hash(key) ^ hash(value);
        match (self.way, &mut self.apart) {
            (Way::InValue, _) => {
                self.buffer.clear();
                self.buffer.extend_from_slice(value);
                self.buffer.extend_from_slice(&sum.to_le_bytes());
                Ok(self.node.apply(Kind::Put, key, &self.buffer, Durability::Os)?)
            }
            (_, Some(apart)) => {
                apart.put(key, &sum.to_le_bytes())?;
                Ok(self.node.put(key, value)?)
            }
            _ => Ok(self.node.put(key, value)?),
        }
    }

    /// A get that verifies the value, as far as this way can.
    #[inline]
    fn get(&self, key: &[u8]) -> Outcome<u64> {
        let (mut sum, mut found, mut whole) = (0, 0u64, true);
        match self.way {
            Way::InValue => {
                self.node.db.get(&self.node.family, key, At::Latest, &mut |record| {
                    if let Some((value, own)) = record.value.split_last_chunk() {
                        whole = u64::from_le_bytes(*own) == hash(key) ^ hash(value);
                        sum = touch(value);
                    }
                })?;
            }
            Way::Apart => {
                self.node.db.get(&self.node.family, key, At::Latest, &mut |record| {
                    found = hash(key) ^ hash(record.value);
                    sum = touch(record.value);
                })?;
                if let Some(apart) = &self.apart {
                    apart.db.get(&apart.family, key, At::Latest, &mut |record| {
                        whole = record.value == found.to_le_bytes();
                    })?;
                }
            }
            Way::Literal => return self.get_with_row(key),
            _ => {
                self.node.db.get(&self.node.family, key, At::Latest, &mut |record| sum = touch(record.value))?;
            }
        }
        if whole { Ok(sum) } else { Err("a record is not as it was put".into()) }
    }

    /// The paper's gets read no row (4.3). A verifying get would have to find it: the next tombstone after the key's
    /// versions.
    fn get_with_row(&self, key: &[u8]) -> Outcome<u64> {
        let bounds = (std::ops::Bound::Included(key.to_vec()), std::ops::Bound::Included(row::key_of(key)));
        let mut raw = self.node.db.raw(&self.node.family, At::Latest, bounds)?;
        let (mut sum, mut word, mut whole) = (0, 0, true);
        while let Some((record, _)) = raw.next()? {
            match RowForm::Literal.read(&record) {
                Some((_, stored)) => {
                    whole = stored.first().is_some_and(|stored| stored.word == word);
                    break;
                }
                None if record.key == key => {
                    sum = touch(record.value);
                    word = row::word(record.key, record.value, record.seqno, record.kind);
                }
                None => {}
            }
        }
        if whole { Ok(sum) } else { Err("a record does not match its row".into()) }
    }
}

/// Returns the blocks that a verified get loads with an empty cache.
fn blocks(run: &Run, place: usize, way: Way) -> Outcome<f64> {
    let num = 5_000;
    let mut shape = Shape::real();
    shape.settings.cache_bytes = 0;
    let kept = Kept::filled(run, place, way, num, shape)?;
    let keys = Flat::even(num, &mut Random::stream(run.seed, 2), 200);
    // A raw walk bypasses the cache and its counters: it reads the block of the key, and the next one if the row is
    // there.
    if way == Way::Literal {
        let mut blocks = 0;
        for key in keys.iter() {
            let bounds = (std::ops::Bound::Included(key.to_vec()), std::ops::Bound::Included(row::key_of(key)));
            let mut raw = kept.node.db.raw(&kept.node.family, At::Latest, bounds)?;
            let mut seen = Vec::new();
            while let Some((_, source)) = raw.next()? {
                if !seen.contains(&source.offset) {
                    seen.push(source.offset);
                }
            }
            blocks += seen.len();
        }
        return Ok(blocks as f64 / 200.0);
    }
    let loads = || {
        let apart = kept.apart.as_ref().map_or(0, |node| node.db.metrics().cache.loads);
        kept.node.db.metrics().cache.loads + apart
    };
    let before = loads();
    for key in keys.iter() {
        kept.get(key)?;
    }
    Ok((loads() - before) as f64 / 200.0)
}

/// Returns bytes of tables per record.
fn bytes(run: &Run, place: usize, way: Way) -> Outcome<f64> {
    let num = run.size(FULL / 5, 1_000);
    let kept = Kept::filled(run, place, way, num, Shape::real())?;
    let apart = kept.apart.as_ref().map_or(0, |node| node.tables().0);
    Ok((kept.node.tables().0 + apart) as f64 / num as f64)
}

/// A trial with a seed, for our side or the paper's: returns true if the fault was missed.
type Axis = fn(u64, bool) -> Outcome<bool>;

/// Each choice separately: the faults that the paper's side misses, and those that ours misses.
fn faults(run: &Run) -> Outcome<Vec<Gate>> {
    let trials = run.size(FAULTS, 40);
    let mut gates = Vec::new();
    let axes: [(&str, &str, Axis); 4] = [
        ("seal_point", "a value that flips in the memtable; sealed at the flush, or at the put", seal_point),
        ("missing_seal", "a seal lost and a value flipped in compaction; made anew, or carried", missing_seal),
        (
            "verification",
            "a value that flips in a cached block; checked by compaction only, or by every get",
            verification,
        ),
        ("triage", "one bit of a seal; taken for a damaged record, or known for what it is", triage),
    ];
    for (name, what, axis) in axes {
        let mut missed = [0u64; 2];
        for trial in 0..trials {
            for (ours, missed) in [false, true].into_iter().zip(&mut missed) {
                *missed += u64::from(axis(run.seed ^ trial << 16, ours)?);
            }
        }
        println!("{what}: of {trials} the paper's way misses {}, ours {}", missed[0], missed[1]);
        gates.push(run.counted_share(&format!("{name}.paper"), "misses_as_predicted", missed[0], trials, 100.0));
        gates.push(run.none(&format!("{name}.ours"), "misses", missed[1], trials, trials));
    }
    Ok(gates)
}

const DIR: &str = "/store";
const KEY: &[u8] = b"key/00007";

fn small(seed: u64, protector: Arc<dyn Companions>, verify: Verify) -> Outcome<Node> {
    let sim = SimFs::new(seed);
    let mut shape = Shape::small(sim.env(1));
    shape.options.verify_reads = verify;
    (shape.options.level0_tables, shape.options.block_bytes) = (8, 64);
    Node::open(Path::new(DIR), &shape, protector)
}

fn fill(node: &mut Node, round: u8) -> Outcome<()> {
    for n in 0..20u8 {
        node.put(format!("key/{n:05}").as_bytes(), &[round; 24])?;
    }
    Ok(())
}

/// Damages the record of `KEY` at every step.
struct AtKey {
    random: Random,
    lose_seal: bool,
}

impl AtKey {
    fn hit(&mut self, record: &mut OwnedRecord) {
        if record.key == KEY {
            let bit = self.random.below(record.value.len() as u64 * 8) as usize;
            record.value[bit / 8] ^= 1 << (bit % 8);
            if self.lose_seal {
                record.companion.clear();
            }
        }
    }
}

impl Strike for AtKey {
    fn record(&mut self, record: &mut OwnedRecord) -> Fate {
        self.hit(record);
        Fate::Pass
    }
    fn insert(&mut self, record: &mut OwnedRecord) -> Fate {
        self.hit(record);
        Fate::Pass
    }
}

/// Returns true if a get returns a value that was never put.
fn is_wrong(node: &Node, verify: Verify) -> bool {
    let mut value = Vec::new();
    let found = node.db.get_checked(&node.family, KEY, At::Latest, verify, &mut |record| value = record.value.to_vec());
    matches!(found, Ok(true)) && !value.windows(2).all(|pair| pair[0] == pair[1])
}

fn seal_point(seed: u64, ours: bool) -> Outcome<bool> {
    let point = if ours { SealPoint::Put } else { SealPoint::Flush };
    let mut node = small(seed, Arc::new(Sealer::new().at(point)), Verify::Always)?;
    fill(&mut node, 1)?;
    node.db.damage_memtable(&node.family, &mut AtKey { random: Random::new(seed), lose_seal: false })?;
    // A repetition from the log or an error is not a miss.
    let _ = node.db.flush();
    Ok(is_wrong(&node, Verify::Always))
}

fn missing_seal(seed: u64, ours: bool) -> Outcome<bool> {
    let protector: Arc<dyn Companions> =
        if ours { Arc::new(Sealer::new()) } else { Arc::new(Over::<Launderer>::default()) };
    let mut node = small(seed, protector, Verify::Always)?;
    for round in 1..3 {
        fill(&mut node, round)?;
        node.db.flush()?;
    }
    inject::arm(Box::new(AtKey { random: Random::new(seed), lose_seal: true }));
    let outcome = node.compact();
    inject::disarm();
    let _ = outcome;
    Ok(is_wrong(&node, Verify::Always))
}

fn verification(seed: u64, ours: bool) -> Outcome<bool> {
    let verify = if ours { Verify::Always } else { Verify::Never };
    let mut node = small(seed, Arc::new(Sealer::new()), verify)?;
    fill(&mut node, 1)?;
    node.compact()?;
    node.touch(KEY)?;
    let mut random = Random::new(seed);
    // Every record has its own block: kind, three lengths and seqno, nine bytes of key, then the value.
    let at = 14 + random.below(24) as usize;
    for (_, _, table) in node.db.tables_in_memory(&node.family)? {
        for block in 0..table.blocks() {
            table.damage_cached(block, at, 1 << random.below(8))?;
        }
    }
    let mut value = Vec::new();
    let found = node.db.get_checked(&node.family, KEY, At::Latest, verify, &mut |record| value = record.value.to_vec());
    Ok(matches!(found, Ok(true)) && value != [1; 24])
}

/// Here a miss means that an intact record is not returned.
fn triage(seed: u64, ours: bool) -> Outcome<bool> {
    use waxseal_lab::faults::protectors::judged;
    use waxseal_testing::records::Owned;
    let mut random = Random::new(seed);
    let value: [u8; 24] = std::array::from_fn(|_| random.word() as u8);
    let mut record = Owned::born(&Sealer::new(), KEY, 1 + random.below(1 << 30), &value)?;
    let bit = 8 + random.below(64) as usize;
    record.companion[bit / 8] ^= 1 << (bit % 8);
    let right = waxseal_meta::Seal::of_record(&record.record()).at(record.seqno).to_le_bytes();
    // Without triage, any mismatch condemns the record.
    let served = if ours { judged(&record.record(), true).serves() } else { record.companion[1..] == right };
    Ok(!served)
}
