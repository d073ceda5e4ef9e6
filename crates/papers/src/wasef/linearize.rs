//! Question: which commits does a registration cover exactly?
//! Protocol: eight threads write, each its own keys, and record the seqno of every commit; a ninth registers and
//!           unregisters the whole family and single keys, in modes sync and deferred. The registry's own rows, all
//!           versions of which are still in memory, show the seqno of each change.
//! Passes:   every commit above the seqno of a registration, and below that of its end, has exactly one event with its
//!           seqno; no other commit has one. Exact to the seqno, without tolerance.

use super::Run;
use super::store::{FAMILY, REGISTRY, Store};
use crate::node::Shape;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lsm::db::At;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::MIB;
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_registry::key::read_registry_key;
use waxseal_registry::{Mode, Operation, Paging, Query, Target};

const WRITERS: u64 = 8;

/// Commits of each writer at scale 1.
const COMMITS: u64 = 50_000;

/// Keys of each writer.
const KEYS: u64 = 7;

/// Approximate number of registry changes, and how many of them the writers may run ahead.
const CHANGES: u64 = 60;
const AHEAD: u64 = 4;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let commits = run.size(COMMITS, 500);
    // Without flushes, every version of the registry's rows can be read at the end.
    let mut shape = Shape::real();
    shape.settings.memtable_bytes = 512 * MIB;
    let store = Store::open(&run.fresh("store")?, &shape)?;
    let turns = Turns { left: AtomicUsize::new(WRITERS as usize), changes: AtomicU64::new(0) };
    let (written, changes) = std::thread::scope(|scope| -> Outcome<_> {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let (store, turns) = (&store, &turns);
            writers.push(scope.spawn(move || {
                let outcome = write(store, writer, commits, turns);
                turns.left.fetch_sub(1, Ordering::Relaxed);
                outcome
            }));
        }
        let changes = change(&store, &turns, run.seed);
        turns.changes.store(CHANGES, Ordering::Relaxed); // also after an error, so that no writer waits
        let mut written = Vec::new();
        for writer in writers {
            written.extend(writer.join().map_err(|_| "a writer failed")??);
        }
        Ok((written, changes?))
    })?;
    let history = history(&store)?;
    let logged = logged(&store)?;
    let mut found = compare(&written, &history, &logged);
    println!(
        "{} commits of {WRITERS} threads, {changes} changes asked for and {} found, {} events",
        written.len(),
        history.len(),
        logged.values().sum::<u64>()
    );
    if changes != history.len() as u64 {
        found.push(("changes that the registry does not show", changes.abs_diff(history.len() as u64)));
    }
    let trials = written.len() as u64;
    let mut gates = Vec::new();
    for (what, count) in found {
        println!("    {what}: {count}");
        gates.push(run.none(&what.replace(' ', "_"), "commits", count, trials, trials));
    }
    gates.push(run.at_least(
        "changes",
        "of_the_registry",
        "count",
        Some(waxseal_bench::experiment::exactly(changes as f64, 1)),
        10.0,
    ));
    Ok(gates)
}

/// The progress of both sides.
struct Turns {
    /// Number of active writers.
    left: AtomicUsize,
    /// Number of registry changes so far.
    changes: AtomicU64,
}

/// Writes, and returns key and seqno of each commit.
fn write(store: &Store, writer: u64, commits: u64, turns: &Turns) -> Result<Vec<(Vec<u8>, Seqno)>> {
    let mut out = Vec::with_capacity(commits as usize);
    let mut random = Random::stream(5, writer);
    let mut writes = store.writer();
    for commit in 0..commits {
        // In step with the changes, so that these are spread over all commits under any scheduling.
        while turns.changes.load(Ordering::Relaxed) + AHEAD < commit * CHANGES / commits {
            std::thread::yield_now();
        }
        let key = format!("w{writer}.{}", random.below(KEYS)).into_bytes();
        let seqno = writes.put(&key, &commit.to_le_bytes())?;
        out.push((key, seqno));
    }
    Ok(out)
}

/// Registers and unregisters until the writers finish; returns the number of changes.
fn change(store: &Store, turns: &Turns, seed: u64) -> Result<u64> {
    let registrar = store.registrar()?;
    let targets =
        [Target::family(FAMILY), Target::key(FAMILY, *b"w0.0"), Target::key(FAMILY, *b"w5.3"), Target::Cluster];
    let mut random = Random::stream(seed, 3);
    let mut changes = 0;
    while turns.left.load(Ordering::Relaxed) > 0 {
        let target = &targets[random.below(targets.len() as u64) as usize];
        let operation = Some(Operation::ROW_UPDATE);
        if !registrar.unregister(target, operation, None)? {
            let mode = if random.below(2) == 0 { Mode::Sync } else { Mode::Deferred };
            store.register(target.clone(), operation, mode)?;
        }
        changes += 1;
        turns.changes.store(changes, Ordering::Relaxed);
        // Sometimes many commits come between two changes, sometimes hardly any.
        std::thread::sleep(std::time::Duration::from_micros(random.below(100)));
    }
    Ok(changes)
}

/// Every change of the registry: seqno, target, and true for a registration.
type History = Vec<(Seqno, Target, bool)>;

fn history(store: &Store) -> Outcome<History> {
    let family = store.db.family(REGISTRY).ok_or("a store without a registry")?;
    let mut cursor = store.db.unflushed(&family, At::Latest)?;
    let mut history = Vec::new();
    cursor.first()?;
    while cursor.valid() {
        let record = cursor.record();
        let (target, _) = read_registry_key(record.key)?;
        history.push((record.seqno, target, record.kind == Kind::Put));
        cursor.next()?;
    }
    history.sort_by_key(|(seqno, ..)| *seqno);
    Ok(history)
}

/// Returns the number of events for each key and seqno.
fn logged(store: &Store) -> Result<BTreeMap<(Vec<u8>, Seqno), u64>> {
    let query = Query { below: true, ..Query::of(Target::family(FAMILY)) };
    let page = store.registrar()?.log_query(&query, &Paging::ALL, At::Latest, None)?;
    let mut logged = BTreeMap::new();
    for event in page.events {
        if let Target::Key { key, .. } = event.key.target {
            *logged.entry((key, event.key.seqno)).or_default() += 1;
        }
    }
    Ok(logged)
}

fn compare(
    written: &[(Vec<u8>, Seqno)],
    history: &History,
    logged: &BTreeMap<(Vec<u8>, Seqno), u64>,
) -> Vec<(&'static str, u64)> {
    let mut by_seqno: Vec<&(Vec<u8>, Seqno)> = written.iter().collect();
    by_seqno.sort_by_key(|(_, seqno)| *seqno);
    let (mut holds, mut changes) = (BTreeSet::new(), history.iter().peekable());
    let (mut missed, mut unasked, mut twice, mut known) = (0, 0, 0, 0);
    for (key, seqno) in by_seqno {
        while let Some((_, target, held)) = changes.next_if(|(at, ..)| at < seqno) {
            if *held {
                holds.insert(target.clone());
            } else {
                holds.remove(target);
            }
        }
        let of_key = Target::key(FAMILY, key.clone());
        let watched = holds.iter().any(|target| target.covers(&of_key));
        let events = logged.get(&(key.clone(), *seqno)).copied().unwrap_or(0);
        known += events;
        match (watched, events) {
            (true, 0) => missed += 1,
            (false, 1..) => unasked += 1,
            (_, 2..) => twice += 1,
            _ => {}
        }
    }
    let all: u64 = logged.values().sum();
    vec![
        ("not logged", missed),
        ("logged unasked", unasked),
        ("logged twice", twice),
        ("events of no commit", all - known),
    ]
}
