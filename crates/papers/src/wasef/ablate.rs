//! Question: which of our choices pays off, compared with the paper's?
//! Protocol: three questions, each with the paper's variants implemented here on the public engine.
//!           Check: every put checks whether its row is registered (one row in a hundred is): in the registry's table;
//!           in a cache of its rows (the paper's); in our snapshot. None of the written rows is registered.
//!           Writing: everything is registered; rows are written in one batch with the put, by a thread behind a queue
//!           (the paper's), and deferred.
//!           Keys: eight threads log a million events of one target; the paper's key is target, operation, time and
//!           client.
//! Passes:   our check costs no more than the paper's; deferred costs no more than sync; the paper's key overwrites
//!           events, ours overwrites none.

use super::Run;
use super::load::{VALUE_BYTES, requests, values};
use super::store::{FAMILY, Store};
use crate::node::Shape;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{LEAST, alternate, shown};
use waxseal_bench::stats::Interval;
use waxseal_bench::workload::{Keys, Random, Values};
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::record::Kind;
use waxseal_registry::key::{LogKey, registry_key};
use waxseal_registry::{Event, Mode, Operation, Options, Paging, Payload, Query, Registration, Scope, Target, Time};

/// Puts of a measurement at scale 1, and number of rows.
const PUTS: u64 = 250_000;
const ROWS: u64 = 100_000;

/// Number of events for the comparison of keys.
const EVENTS: u64 = 1_000_000;
const THREADS: u64 = 8;

const UPDATE: Operation = Operation::ROW_UPDATE;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let mut gates = Vec::new();
    gates.extend(keys(run)?);
    gates.push(checks(&run.within(0.5), run)?);
    gates.push(writing(&run.within(0.9), run)?);
    Ok(gates)
}

/// The upper bound is at most half a percent, which cannot be distinguished from zero.
fn no_more(run: &Run, what: &str, percent: Option<Interval>) -> Gate {
    run.at_most(what, "more_time", "%", percent, 0.5)
}

// The check.

const CHECKS: [&str; 4] = ["no check", "read of the registry's table", "cache of its rows (the paper's)", "snapshot"];

/// One way to check whether a row is registered.
struct Check {
    store: Store,
    /// The registry's table, for the paper's variants.
    registry: Option<Family>,
    /// Cache of its rows; like Cassandra's row cache, of unlimited size.
    rows: Mutex<HashMap<Vec<u8>, bool>>,
    kind: usize,
    batch: Batch,
}

impl Check {
    fn open(run: &Run, kind: usize, rows: u64) -> Outcome<Check> {
        let dir = run.fresh(&format!("check{kind}"))?;
        let store = if kind == 3 { Store::open(&dir, &Shape::real())? } else { Store::without(&dir, &Shape::real())? };
        let mut registry = None;
        if kind == 1 || kind == 2 {
            registry = Some(store.db.create_family("registry", CfOptions::default())?);
        }
        let mut check = Check { store, registry, rows: Mutex::default(), kind, batch: Batch::new() };
        for rank in (0..rows).step_by(100).take(4_096) {
            check.register(&written(rank))?;
        }
        check.store.db.settle()?;
        Ok(check)
    }

    fn register(&mut self, key: &[u8]) -> Outcome<()> {
        let registration = Registration::new(Target::key(FAMILY, key), Some(UPDATE));
        if let Some(registry) = &self.registry {
            let (key, value) = registration.encode()?;
            self.batch.clear();
            self.batch.push(registry.id(), Kind::Put, &key, &value, self.store.db.companions())?;
            self.store.db.commit(&mut self.batch, Durability::Os)?;
        } else if self.kind == 3 {
            self.store.register(registration.target, Some(UPDATE), Mode::Deferred)?;
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        if self.is_registered(key)? {
            return Err("a row that nobody registered".into());
        }
        self.batch.clear();
        self.batch.push(self.store.family.id(), Kind::Put, key, value, self.store.db.companions())?;
        match self.kind {
            3 => self.store.registrar()?.commit(&mut self.batch, Durability::Os, None, &[])?,
            _ => self.store.db.commit(&mut self.batch, Durability::Os)?,
        };
        Ok(())
    }

    fn is_registered(&self, key: &[u8]) -> Outcome<bool> {
        let Some(registry) = &self.registry else { return Ok(false) };
        let row = registry_key(&Target::key(FAMILY, key), Some(UPDATE))?;
        let read = || self.store.db.get(registry, &row, At::Latest, &mut |_| {});
        if self.kind == 1 {
            return Ok(read()?);
        }
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = rows.get(&row) {
            return Ok(*known);
        }
        let known = read()?;
        rows.insert(row, known);
        Ok(known)
    }
}

/// Returns a registered key or a written one; both are decimal.
fn written(rank: u64) -> Vec<u8> {
    format!("{rank:08}").into_bytes()
}

fn checks(part: &waxseal_bench::experiment::Run, run: &Run) -> Outcome<Gate> {
    let rows = run.size(ROWS, 1_000);
    let count = requests(run, PUTS, 1_000).min(100_000);
    let mut sides = (0..CHECKS.len()).map(|kind| Check::open(run, kind, rows)).collect::<Outcome<Vec<_>>>()?;
    let mut values = values(run.seed, 1);
    let mut turn = 0;
    let rounds = alternate(part, CHECKS.len(), 2 * LEAST, |side| {
        turn += 1;
        let mut random = Random::stream(run.seed, turn / CHECKS.len() as u64);
        let side = &mut sides[side];
        side.store.db.settle()?;
        // Unregistered keys between the registered ones.
        let keys: Vec<Vec<u8>> =
            (0..count).map(|_| written(random.below(rows) / 100 * 100 + 1 + random.below(99))).collect();
        let start = Instant::now();
        for key in &keys {
            side.put(key, values.value())?;
        }
        let time = start.elapsed();
        side.store.db.settle()?; // remaining work must not burden the next side
        Ok(time.as_nanos() as f64 / count as f64)
    })?;
    println!("check: a put without takes {:.0} ns; {} rounds", rounds.of(0), rounds.count());
    for (side, name) in CHECKS.iter().enumerate().skip(1) {
        println!("    {name}: {} ns, {} %", shown(rounds.more(side, 0)), shown(rounds.percent(side, 0, 0.0)));
    }
    println!("    the paper: checks read the nearest replica's registry with its row cache on");
    Ok(no_more(run, "check.snapshot_beside_row_cache", rounds.percent(3, 2, 0.0)))
}

// Writing.

const WRITINGS: [&str; 5] = ["not logged", "sync", "a queue and a thread (the paper's)", "async", "deferred"];

/// The paper's writing: events enter a queue, and a thread puts each into the log's table.
struct Behind {
    events: mpsc::SyncSender<(Vec<u8>, Vec<u8>)>,
    waiting: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<waxseal_lsm::error::Result<()>>,
}

impl Behind {
    fn start(db: Db, log: Family) -> Behind {
        let (events, queue) = mpsc::sync_channel::<(Vec<u8>, Vec<u8>)>(4_096);
        let waiting = Arc::new(AtomicU64::new(0));
        let left = waiting.clone();
        let thread = std::thread::spawn(move || {
            let mut batch = Batch::new();
            for (key, value) in queue {
                batch.clear();
                batch.push(log.id(), Kind::Put, &key, &value, db.companions())?;
                db.commit(&mut batch, Durability::Os)?;
                left.fetch_sub(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Behind { events, waiting, thread }
    }
}

struct Writing {
    store: Store,
    behind: Option<Behind>,
    batch: Batch,
}

impl Writing {
    fn open(run: &Run, kind: usize) -> Outcome<Writing> {
        let dir = run.fresh(&format!("writing{kind}"))?;
        let is_ours = matches!(kind, 1 | 3 | 4);
        let store = if is_ours { Store::open(&dir, &Shape::real())? } else { Store::without(&dir, &Shape::real())? };
        match kind {
            1 => store.watch_all(Mode::Sync)?,
            3 => store.watch_all(Mode::Async)?,
            4 => store.watch_all(Mode::Deferred)?,
            _ => {}
        }
        let behind = match kind {
            2 => Some(Behind::start(store.db.clone(), store.db.create_family("log", CfOptions::default())?)),
            _ => None,
        };
        Ok(Writing { store, behind, batch: Batch::new() })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let Some(behind) = &self.behind else {
            self.store.writer().put(key, value)?;
            return Ok(());
        };
        self.batch.clear();
        self.batch.push(self.store.family.id(), Kind::Put, key, value, self.store.db.companions())?;
        let seqno = self.store.db.commit(&mut self.batch, Durability::Os)?;
        let key = log_key(Target::key(FAMILY, key), wall(), seqno);
        let event = Event { key, payload: Payload::new() }.encode()?;
        behind.waiting.fetch_add(1, Ordering::Relaxed);
        behind.events.send(event).map_err(|_| "the thread behind has ended")?;
        Ok(())
    }

    /// Waits until all events are in the log.
    fn drain(&self) -> Outcome<()> {
        if let Some(behind) = &self.behind {
            while behind.waiting.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
        }
        if let Ok(registrar) = self.store.registrar() {
            registrar.drain()?;
        }
        Ok(())
    }
}

fn wall() -> Time {
    Time::from_micros(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64))
}

fn log_key(target: Target, time: Time, seqno: u64) -> LogKey {
    LogKey { target, operation: UPDATE, time, client: "-".into(), seqno }
}

fn writing(part: &waxseal_bench::experiment::Run, run: &Run) -> Outcome<Gate> {
    let count = requests(run, PUTS, 1_000).min(100_000);
    let rows = run.size(ROWS, 1_000);
    let mut sides = (0..WRITINGS.len()).map(|kind| Writing::open(run, kind)).collect::<Outcome<Vec<_>>>()?;
    let mut keys = Keys::new(rows, 8, 0).ok_or("too many rows")?;
    let mut values = Values::new(VALUE_BYTES, run.seed, 2);
    let mut turn = 0;
    let rounds = alternate(part, WRITINGS.len(), 2 * LEAST, |side| {
        turn += 1;
        let mut random = Random::stream(run.seed, turn / WRITINGS.len() as u64);
        let side = &mut sides[side];
        side.store.db.settle()?;
        let start = Instant::now();
        for _ in 0..count {
            side.put(keys.ordered(random.below(rows)), values.value())?;
        }
        side.drain()?;
        let time = start.elapsed();
        side.store.db.settle()?;
        Ok(time.as_nanos() as f64 / count as f64)
    })?;
    println!("writing: a put takes {:.0} ns, the log drained; {} rounds", rounds.of(0), rounds.count());
    for (side, name) in WRITINGS.iter().enumerate().skip(1) {
        println!("    {name}: {} ns, {} %", shown(rounds.more(side, 0)), shown(rounds.percent(side, 0, 0.0)));
    }
    for side in sides {
        if let Some(behind) = side.behind {
            drop(behind.events);
            behind.thread.join().map_err(|_| "the thread behind failed")??;
        }
        side.store.close()?;
    }
    Ok(no_more(run, "writing.deferred_beside_sync", rounds.percent(4, 1, 0.0)))
}

// Keys.

fn keys(run: &Run) -> Outcome<Vec<Gate>> {
    let each = run.size(EVENTS, 8_000) / THREADS;
    let (events, target) = (each * THREADS, Target::key(FAMILY, *b"one"));
    // The paper's key: target, operation, time and client. Simultaneous events share one row.
    let theirs = Store::without(&run.fresh("keys.paper")?, &Shape::real())?;
    let mut paper = Vec::new();
    for (what, client) in [("one client", false), ("eight clients", true)] {
        let log = theirs.db.create_family(what, CfOptions::default())?;
        let log_of = |thread: u64| -> Outcome<()> {
            let mut batch = Batch::new();
            for _ in 0..each {
                let mut key = log_key(target.clone(), wall(), 0);
                if client {
                    key.client = format!("client{thread}");
                }
                let (key, value) = Event { key, payload: Payload::new() }.encode()?;
                batch.clear();
                batch.push(log.id(), Kind::Put, &key, &value, theirs.db.companions())?;
                theirs.db.commit(&mut batch, Durability::Os)?;
            }
            Ok(())
        };
        in_threads(&log_of)?;
        let left = rows(&theirs.db, &log)?;
        println!("keys: the paper's, {what}: {} of {events} events overwritten", events - left);
        paper.push(events - left);
    }
    let ours = Store::open(&run.fresh("keys.ours")?, &Shape::real())?;
    let options = Options { scope: Scope::Exact, ..Options::default() };
    ours.registrar()?.register(&target, Some(UPDATE), Some(options), None)?;
    in_threads(&|_| {
        for _ in 0..each {
            ours.registrar()?.log_add(&target, UPDATE, None, Payload::new(), None)?;
        }
        Ok(())
    })?;
    let left =
        ours.registrar()?.log_query(&Query::of(target.clone()), &Paging::ALL, At::Latest, None)?.events.len() as u64;
    println!("keys: ours: {} of {events} events overwritten", events - left.min(events));
    let lost = run.none("keys.ours", "overwritten", events.abs_diff(left), events, events);
    let shown = waxseal_bench::experiment::exactly(paper[0] as f64, events);
    Ok(vec![lost, run.at_least("keys.paper", "overwritten", "count", Some(shown), 1.0)])
}

fn in_threads(work: &(dyn Fn(u64) -> Outcome<()> + Sync)) -> Outcome<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread failed")??;
        }
        Ok(())
    })
}

fn rows(db: &Db, family: &Family) -> Outcome<u64> {
    let mut cursor = db.cursor(family, At::Latest, crate::node::ALL)?;
    let mut rows = 0;
    cursor.first()?;
    while cursor.valid() {
        rows += 1;
        cursor.next()?;
    }
    Ok(rows)
}
