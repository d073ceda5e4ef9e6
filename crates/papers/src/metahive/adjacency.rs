//! Question: is every seal directly behind its record, in the same block, for all possible key bytes?
//! Protocol: small stores under three orders, with keys over {00, 01, 02, FF}* of length 0 to 6, including the empty
//!           key; puts, deletes, snapshots, flushes and compactions from a seed, with a model. Then a parser that is
//!           independent of the engine decodes every table file.
//! Passes:   every record has one seal, directly behind it or in its block's column; there are as many seals as
//!           records; the store returns the model's content, in both directions, at the snapshot and now, without any
//!           trace of the seals.
//! Gaps:     merges, range deletes, single deletes and blob files are not in this version.

use super::Run;
use super::node::{ALL, Node, Shape};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lab::faults::anatomy::{Anatomy, Block};
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::{Compression, SealLayout};
use waxseal_lsm::order::{Comparator, Order};
use waxseal_lsm::record::{Kind, companion};
use waxseal_meta::Sealer;

/// Records at scale 1.
const FULL: u64 = 1_000_000;

/// Operations per store.
const OPERATIONS: u64 = 400;

const DIR: &str = "/store";
const ALPHABET: [u8; 4] = [0x00, 0x01, 0x02, 0xFF];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The findings of the walks.
#[derive(Default)]
struct Found {
    records: u64,
    seals: u64,
    /// Records without a seal directly behind them.
    apart: u64,
    /// Answers that differ from the model's.
    wrong: u64,
    reads: u64,
    packed: u64,
}

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let operations = run.size(FULL, 3 * OPERATIONS);
    let mut found = Found::default();
    let mut stores = 0;
    while stores * OPERATIONS < operations && !run.is_over() {
        store(run.seed, stores, &mut found)?;
        stores += 1;
    }
    let done = stores * OPERATIONS;
    println!(
        "{stores} stores, {done} operations: {} records and {} seals in blocks, {} blocks packed, {} reads",
        found.records, found.seals, found.packed, found.reads
    );
    // Untested stores are reported, not ignored.
    let enough = operations / 2;
    Ok(vec![
        run.none("apart", "records_without_their_seal_behind_them", found.apart, done, enough),
        run.none("counts", "seals_more_or_less_than_records", found.seals.abs_diff(found.records), done, enough),
        run.none("wrong", "answers_unlike_the_model", found.wrong, found.reads, enough as usize as u64),
    ])
}

/// Compares bytes from last to first.
struct Reversed;

impl Comparator for Reversed {
    fn name(&self) -> &str {
        "bench.reversed"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// Compares by length first.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "bench.length"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

fn order(number: u64) -> Order {
    match number % 3 {
        0 => Order::bytewise(),
        1 => Order::custom(Arc::new(Reversed)),
        _ => Order::custom(Arc::new(ByLength)),
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    let length = random.below(7);
    (0..length).map(|_| ALPHABET[random.below(4) as usize]).collect()
}

fn store(seed: u64, number: u64, found: &mut Found) -> Outcome<()> {
    let sim = SimFs::new(seed ^ number);
    let mut shape = Shape::small(sim.env(1 + number));
    shape.options.order = order(number);
    shape.options.seals = SealLayout::always(number / 3 % 2 == 1);
    shape.options.compression = if number / 6 % 4 == 3 { Compression::Lz4 } else { Compression::None };
    let mut node = Node::open(Path::new(DIR), &shape, Arc::new(Sealer::new()))?;
    let mut random = Random::stream(seed, number);
    let mut model = Model::new();
    let mut then = None;
    for operation in 0..OPERATIONS {
        let key = key(&mut random);
        match random.below(6) {
            0 => {
                node.apply(Kind::Delete, &key, b"", waxseal_lsm::options::Durability::Os)?;
                model.remove(&key);
            }
            _ => {
                // Some values look like companions.
                let value = [&[companion::WORD8][..], &random.word().to_le_bytes()]
                    .concat()
                    .repeat(1 + random.below(4) as usize);
                node.put(&key, &value)?;
                model.insert(key, value);
            }
        }
        if operation == OPERATIONS / 3 {
            then = Some((node.db.snapshot()?, model.clone()));
        }
        if operation % 16 == 0 {
            while node.db.step()? {}
        }
    }
    node.db.settle()?;
    walk(&sim, found)?;
    if let Some((snapshot, model)) = &then {
        reads(&node, At::Snapshot(snapshot), model, found)?;
    }
    reads(&node, At::Latest, &model, found)?;
    drop(then);
    node.compact()?;
    walk(&sim, found)?;
    reads(&node, At::Latest, &model, found)
}

/// Decodes every table.
fn walk(sim: &SimFs, found: &mut Found) -> Outcome<()> {
    for name in sim.files(DIR).into_iter().filter(|name| name.ends_with(".tbl")) {
        let file = sim.read_all(Path::new(DIR).join(name))?;
        for block in &Anatomy::read(&file)?.blocks {
            found.packed += u64::from(block.is_packed());
            look(&file, block, found);
        }
    }
    Ok(())
}

fn look(file: &[u8], block: &Block, found: &mut Found) {
    for entry in &block.entries {
        found.records += 1;
        let at = &entry.companions;
        let follows = match block.has_column() {
            true => at.len() == 8 && at.end <= block.stored.end,
            false => at.start == entry.value.end && at.len() == 9 && file[at.start] == companion::WORD8,
        };
        found.seals += u64::from(follows);
        found.apart += u64::from(!follows);
    }
}

/// Compares the content in both directions and by key with the model.
fn reads(node: &Node, at: At<'_>, model: &Model, found: &mut Found) -> Outcome<()> {
    let mut cursor = node.db.cursor(&node.family, at, ALL)?;
    let (mut there, mut back) = (Vec::new(), Vec::new());
    cursor.first()?;
    while cursor.valid() {
        there.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next()?;
    }
    cursor.last()?;
    while cursor.valid() {
        back.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.prev()?;
    }
    back.reverse();
    let mut expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    expected.sort_by(|a, b| node.family.order().compare(&a.0, &b.0));
    found.wrong += u64::from(there != expected) + u64::from(back != expected);
    found.reads += 2 * expected.len() as u64;
    let mut random = Random::new(model.len() as u64);
    let others: Vec<Vec<u8>> = (0..50).map(|_| key(&mut random)).collect();
    for key in model.keys().chain(&others) {
        let mut value = None;
        node.db.get(&node.family, key, at, &mut |record| value = Some(record.value.to_vec()))?;
        found.wrong += u64::from(value.as_ref() != model.get(key));
        found.reads += 1;
    }
    Ok(())
}
