//! Question: is exactly the data that survives a crash logged?
//! Protocol: a store on a simulated file system, small enough for flushes and compactions of data and log every few
//!           operations; a script of batches, each with one operation on a watched family and the batch's number in
//!           another family. The process is killed, or the machine loses power in one of nine ways, at every n-th I/O
//!           that changes or syncs a file; then the store is reopened. The recovered number shows which batches
//!           survived. The log must hold one event per surviving batch, with name, key and value, before and after a
//!           flush of all families.
//! Passes:   sync and deferred: an event exists if and only if its batch survived. Async: no event without its data,
//!           and at most as many missing events as the ring declares. All modes: acknowledged writes survive a kill,
//!           synced writes survive a power loss, and every store opens.

use super::Run;
use super::store::{FAMILY, Store};
use crate::node::Shape;
use std::collections::BTreeMap;
use std::path::Path;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::{Random, fmix64};
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::At;
use waxseal_lsm::env::SimFs;
use waxseal_lsm::env::sim::{Crash, Loss};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::record::{Kind, Record};
use waxseal_registry::{
    Event, Field, Image, Mode, Operation, Options, Paging, Query, Ring, Scope, Setup, StampVerb, Target, Values,
};

/// Crashes of each mode at scale 1.
const CRASHES: u64 = 20_000;

/// Batches of a script.
const BATCHES: u64 = 160;

/// Number of keys that they write.
const KEYS: u64 = 23;

/// Number of events that mode async may lose.
const RING: usize = 8;

/// One batch in this many is synced.
const SYNCED: u64 = 8;

const DIR: &str = "/store";
const NUMBERS: &str = "numbers";

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let crashes = run.size(CRASHES, 30);
    let mut gates = Vec::new();
    for (place, (name, mode)) in
        [("sync", Mode::Sync), ("deferred", Mode::Deferred), ("async", Mode::Async)].into_iter().enumerate()
    {
        let part = run.within(1.0 / (3 - place) as f64);
        let mut found = Found::default();
        let steps = trial(mode, run.seed, None, &mut Found::default())?;
        for crash in 0..crashes {
            if part.is_over() && found.trials >= 30 {
                break;
            }
            // Spread over the whole script; repeated crashes at a step have different results.
            let step = steps[(crash * steps.len() as u64 / crashes) as usize];
            trial(mode, fmix64(run.seed ^ crash), Some(step), &mut found)?;
        }
        println!("{name}: {found:?}; {} I/O steps", steps.len());
        let Found { trials, .. } = found;
        let enough = trials.min(30);
        gates.push(run.none(&format!("{name}.unopened"), "stores", found.unopened, trials, enough));
        gates.push(run.none(&format!("{name}.acknowledged"), "lost", found.lost, trials, enough));
        gates.push(run.none(&format!("{name}.without_data"), "events", found.without_data, trials, enough));
        if mode == Mode::Async {
            gates.push(run.none("async.beyond_the_bound", "crashes", found.beyond, trials, enough));
        } else {
            gates.push(run.none(&format!("{name}.not_logged"), "operations", found.not_logged, trials, enough));
        }
        gates.push(run.none(&format!("{name}.changed_by_flush"), "logs", found.changed, trials, enough));
    }
    Ok(gates)
}

/// The findings of all crashes.
#[derive(Debug, Default)]
struct Found {
    trials: u64,
    /// Batches that were recovered.
    survived: u64,
    unopened: u64,
    /// Lost batches that were acknowledged, or synced before a power loss.
    lost: u64,
    without_data: u64,
    not_logged: u64,
    /// Crashes after which more events were missing than the ring declares.
    beyond: u64,
    /// Logs that a flush changed.
    changed: u64,
}

/// One batch: operation and key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Done {
    key: Vec<u8>,
    operation: u16,
    value: Option<Vec<u8>>,
}

fn script(seed: u64) -> Vec<(Kind, StampVerb, Done)> {
    let mut random = Random::new(seed);
    (0..BATCHES)
        .map(|number| {
            let key = format!("key{:03}", random.below(KEYS)).into_bytes();
            let (kind, verb, operation) = match random.below(4) {
                0 => (Kind::Delete, StampVerb::Delete, Operation::ROW_DELETE),
                1 => (Kind::Put, StampVerb::Insert, Operation::ROW_INSERT),
                _ => (Kind::Put, StampVerb::Update, Operation::ROW_UPDATE),
            };
            let value =
                (kind == Kind::Put).then(|| format!("{number}:{}", "v".repeat(random.below(60) as usize)).into_bytes());
            (kind, verb, Done { key, operation: operation.number(), value })
        })
        .collect()
}

/// Runs the script until the crash, and checks the recovered store. Returns the steps at which a crash is useful.
fn trial(mode: Mode, seed: u64, crash: Option<u64>, found: &mut Found) -> Outcome<Vec<u64>> {
    // All crashes of a run use the same script, so that a step has one meaning.
    let script = script(7);
    let sim = SimFs::new(seed);
    if let Some(step) = crash {
        sim.crash_at(step);
    }
    let acknowledged = play(&sim, mode, &script, seed);
    let steps = sim.changing_steps();
    if crash.is_none() {
        acknowledged.map_err(|(_, error)| error)?;
        return Ok(steps);
    }
    let acknowledged = acknowledged.unwrap_or_else(|(acknowledged, _)| acknowledged);
    let kill = (seed >> 8).is_multiple_of(2);
    let loss = Loss::all(seed)[(seed % 9) as usize];
    sim.reboot(if kill { Crash::Process } else { Crash::Machine(loss) });
    found.trials += 1;
    let Ok(store) = open(&sim, seed) else {
        found.unopened += 1;
        return Ok(steps);
    };
    let survived = number(&store)?;
    found.survived += survived;
    // Every eighth commit is synced, with all earlier ones: a power loss keeps these too.
    let kept = if kill { acknowledged } else { acknowledged - acknowledged % SYNCED };
    if kept > survived {
        let how = if kill { "a kill".to_owned() } else { format!("{loss:?}") };
        println!(
            "    {mode:?}, seed {seed}: {how} at step {}: {survived} batches of {kept} are left",
            crash.unwrap_or(0)
        );
        found.lost += kept - survived;
    }
    let events = events(&store)?;
    compare(mode, &script[..survived as usize], &events, found);
    store.db.settle()?;
    found.changed += u64::from(self::events(&store)? != events);
    Ok(steps)
}

fn compare(mode: Mode, script: &[(Kind, StampVerb, Done)], events: &[Event], found: &mut Found) {
    let mut balance: BTreeMap<Done, i64> = BTreeMap::new();
    for (_, _, done) in script {
        *balance.entry(done.clone()).or_default() += 1;
    }
    for event in events {
        *balance.entry(done_of(event)).or_default() -= 1;
    }
    let missing: i64 = balance.values().filter(|left| **left > 0).sum();
    let extra: i64 = balance.values().filter(|left| **left < 0).sum();
    found.without_data += extra.unsigned_abs();
    if mode == Mode::Async {
        found.beyond += u64::from(missing > RING as i64);
    } else {
        found.not_logged += missing.unsigned_abs();
    }
}

fn done_of(event: &Event) -> Done {
    let key = match &event.key.target {
        Target::Key { key, .. } => key.clone(),
        _ => Vec::new(),
    };
    let value = event.payload.fields().iter().find_map(|field| match field {
        Field::NewValue(Image::Value(value)) => Some(value.clone()),
        _ => None,
    });
    Done { key, operation: event.key.operation.number(), value }
}

fn open(sim: &SimFs, seed: u64) -> Result<Store> {
    let shape = Shape::small(sim.env(seed));
    let ring = Ring { events: RING, ..Ring::default() };
    Store::try_open(Path::new(DIR), &shape, Setup { ring, ..Setup::new(&shape.env) })
}

/// Runs all batches; returns the number of acknowledged ones, and the error that ended the run.
fn play(
    sim: &SimFs,
    mode: Mode,
    script: &[(Kind, StampVerb, Done)],
    seed: u64,
) -> std::result::Result<u64, (u64, waxseal_lsm::error::Error)> {
    let mut acknowledged = 0;
    play_on(sim, mode, script, seed, &mut acknowledged).map_err(|error| (acknowledged, error))?;
    Ok(acknowledged)
}

fn play_on(
    sim: &SimFs,
    mode: Mode,
    script: &[(Kind, StampVerb, Done)],
    seed: u64,
    acknowledged: &mut u64,
) -> Result<()> {
    let store = open(sim, seed)?;
    let registrar = store.registrar()?;
    let numbers = registrar.create_family(NUMBERS, CfOptions::default())?;
    let options = Options { scope: Scope::Subtree, mode, values: Values::New, ..Options::default() };
    registrar.register(&Target::family(FAMILY), None, Some(options), None)?;
    let mut batch = Batch::new();
    for (number, (kind, verb, done)) in (0u64..).zip(script) {
        batch.clear();
        let value = done.value.as_deref().unwrap_or_default();
        batch.push(store.family.id(), *kind, &done.key, value, store.db.companions())?;
        batch.push(numbers.id(), Kind::Put, b"number", &(number + 1).to_le_bytes(), store.db.companions())?;
        let durability = if number % SYNCED == SYNCED - 1 { Durability::Sync } else { Durability::Os };
        registrar.commit(&mut batch, durability, None, &[*verb])?;
        if sim.is_crashed() {
            break; // a store into the mapped ring cannot fail; the caller is already dead
        }
        *acknowledged += 1;
        if number % 5 == 4 {
            store.db.step()?;
        }
        if number % 40 == 39 {
            store.db.flush()?;
        }
    }
    store.db.settle()?;
    store.close()
}

/// Returns the number of recovered batches.
fn number(store: &Store) -> Result<u64> {
    let Some(family) = store.db.family(NUMBERS) else { return Ok(0) };
    let mut number = 0;
    store.db.get(&family, b"number", At::Latest, &mut |record: &Record<'_>| {
        number = record.value.try_into().map_or(u64::MAX, u64::from_le_bytes);
    })?;
    Ok(number)
}

/// Returns the events of all keys of the family.
fn events(store: &Store) -> Result<Vec<Event>> {
    let query = Query { below: true, ..Query::of(Target::family(FAMILY)) };
    Ok(store.registrar()?.log_query(&query, &Paging::ALL, At::Latest, None)?.events)
}
