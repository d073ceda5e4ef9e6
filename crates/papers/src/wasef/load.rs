//! The paper's workload (8 byte keys, 1 KB values, zipfian, half reads and half updates), and the compared sides.

use super::Run;
use super::store::Store;
use crate::node::Shape;
use std::hint::black_box;
use std::time::{Duration, Instant};
use waxseal_bench::Outcome;
use waxseal_bench::workload::{Keys, Random, Values, Zipf, fmix64};
use waxseal_lsm::options::MIB;
use waxseal_registry::{Mode, Operation, Target};

pub(super) const KEY_BYTES: usize = 8;
pub(super) const VALUE_BYTES: usize = 1024;

/// Number of records in the paper's 12 GB.
pub(super) const RECORDS: u64 = 12_000_000;

/// Maximum number of individually registered keys: each registration is its own commit.
const MOST_KEYS: u64 = 4_096;

/// Percentage of updates to individually registered keys, with 1 % of the keys registered.
const SHARE: u64 = 1;

/// The registrations of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The store has no registry.
    Without,
    /// Nothing is registered.
    Nothing,
    /// One key in a hundred is registered.
    Few(Mode),
    /// The whole family is registered.
    All(Mode),
}

impl Side {
    pub(super) fn name(self) -> String {
        let mode = |mode| match mode {
            Mode::Sync => "sync",
            Mode::Async => "async",
            Mode::Deferred => "deferred",
        };
        match self {
            Side::Without => "no registry".into(),
            Side::Nothing => "nothing registered".into(),
            Side::Few(of) => format!("1 % registered, {}", mode(of)),
            Side::All(of) => format!("all registered, {}", mode(of)),
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) rank: u64,
    pub(super) update: bool,
}

/// The keys and their access order.
pub(super) struct Load {
    pub(super) records: u64,
    zipf: Zipf,
    /// With few registrations, every key whose rank is a multiple of this is registered.
    step: u64,
}

impl Load {
    pub(super) fn new(records: u64) -> Load {
        let watched = (records / 100).clamp(1, MOST_KEYS);
        Load { records, zipf: Zipf::new(records), step: (records / watched).max(2) }
    }

    pub(super) fn keys(&self) -> Outcome<Keys> {
        Keys::new(self.records, KEY_BYTES, 0).ok_or_else(|| "more records than 8 byte keys can tell apart".into())
    }

    /// Returns the registered keys for the side with few.
    fn watched(&self) -> impl Iterator<Item = u64> {
        (0..self.records).step_by(self.step as usize)
    }

    /// Returns the requests of one thread; `updates` is a percentage.
    pub(super) fn script(&self, random: &mut Random, count: u64, updates: u64) -> Vec<Request> {
        let draw = |_| {
            let mut rank = fmix64(self.zipf.rank(random)) % self.records;
            if random.below(100) < SHARE {
                rank = random.below(self.records.div_ceil(self.step)) * self.step;
            } else if rank.is_multiple_of(self.step) {
                rank = (rank + 1) % self.records;
            }
            Request { rank, update: random.below(100) < updates }
        };
        (0..count).map(draw).collect()
    }

    /// Creates a store for a side: filled, settled, then registered.
    pub(super) fn store(&self, run: &Run, name: &str, side: Side, shape: &Shape) -> Outcome<Store> {
        let dir = run.fresh(name)?;
        let store = if side == Side::Without { Store::without(&dir, shape)? } else { Store::open(&dir, shape)? };
        let mut keys = self.keys()?;
        let mut values = values(run.seed, 0);
        let mut writer = store.writer();
        for rank in 0..self.records {
            writer.put(keys.ordered(rank), values.value())?;
        }
        store.db.settle()?;
        match side {
            Side::Without | Side::Nothing => {}
            Side::All(mode) => store.watch_all(mode)?,
            Side::Few(mode) => {
                for rank in self.watched() {
                    let target = Target::key(super::store::FAMILY, keys.ordered(rank));
                    store.register(target, Some(Operation::ROW_UPDATE), mode)?;
                }
            }
        }
        Ok(store)
    }

    /// Runs a script sequentially and reports the duration of each request. The time of `heard` is not counted.
    pub(super) fn time_each(
        &self,
        store: &Store,
        script: &[Request],
        values: &mut Values,
        mut heard: impl FnMut(&Request, Duration),
    ) -> Outcome<()> {
        let mut keys = self.keys()?;
        let mut writer = store.writer();
        let mut last = Instant::now();
        for request in script {
            let key = keys.ordered(request.rank);
            if request.update {
                writer.put(key, values.value())?;
            } else {
                black_box(store.touch(key)?);
            }
            heard(request, last.elapsed());
            last = Instant::now();
        }
        Ok(())
    }

    /// Runs one script per thread, all at once; returns wall-clock nanoseconds per request.
    pub(super) fn play(&self, store: &Store, scripts: &[Vec<Request>], seed: u64) -> Outcome<f64> {
        let requests: usize = scripts.iter().map(Vec::len).sum();
        let mut players = Vec::new();
        for (thread, script) in scripts.iter().enumerate() {
            players.push((self.keys()?, values(seed, 1 + thread as u64), script));
        }
        let start = Instant::now();
        std::thread::scope(|scope| -> Outcome<()> {
            let mut threads = Vec::new();
            for (mut keys, mut values, script) in players {
                threads.push(scope.spawn(move || -> Outcome<()> {
                    let mut writer = store.writer();
                    for request in script {
                        let key = keys.ordered(request.rank);
                        if request.update {
                            writer.put(key, values.value())?;
                        } else {
                            black_box(store.touch(key)?);
                        }
                    }
                    Ok(())
                }));
            }
            for thread in threads {
                thread.join().map_err(|_| "a thread failed")??;
            }
            Ok(())
        })?;
        Ok(start.elapsed().as_nanos() as f64 / requests.max(1) as f64)
    }
}

/// Returns values of the paper's length.
pub(super) fn values(seed: u64, stream: u64) -> Values {
    Values::new(VALUE_BYTES, seed, stream)
}

/// The configuration of the published runs, with memtables small enough that every measurement includes flushes.
pub(super) fn shape(data: u64) -> Shape {
    let mut shape = Shape::real();
    shape.settings.cache_bytes = (data as usize * 2).clamp(64 * MIB, 4096 * MIB);
    shape.settings.memtable_bytes = (data as usize / 16).clamp(4 * MIB, 64 * MIB);
    shape
}

/// Returns the number of requests of a measurement: the paper's at scale 1, reduced by the square root of a smaller
/// scale, since fewer would mostly measure the clock.
pub(super) fn requests(run: &Run, full: u64, least: u64) -> u64 {
    ((full as f64 * run.scale.min(1.0).sqrt()) as u64).max(least)
}
