//! Histories of interleaved transactions, with flushes, compactions and crashes. A checker builds the graph of their
//! dependencies: a cycle proves that a history is not serializable.
//!
//! A test runs in one thread, so the order of the commits is known. The version of a key that a transaction must have
//! read is the last one committed before its snapshot; its value is compared. The graph has an edge from the writer of
//! a version to its readers and to the writer of the next version, and from a reader to the writer of the next version.
//! All values differ except that of an absent key: a transaction that found a key absent may have read any version that
//! removes it. If the key is absent when the transaction commits, this is the last one. (The engine forgets a key that
//! was put and removed between snapshot and commit.)
//!
//! `WAXSEAL_ROUNDS=1000 cargo test -p waxseal-meta --test simulation transactions` checks more histories.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts, ReadSet, Snapshot};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::{Random, SeededRandom};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::Kind;

/// The keys are the bytes below it.
const KEYS: u8 = 10;

/// Transactions that are open at the same time.
const OPEN: usize = 4;

/// The value that a key has or gets; `None` if it is absent or removed. Each put has a value of its own.
type Value = Option<u64>;

/// A transaction as its client saw it.
#[derive(Clone, Default)]
struct Recorded {
    /// Number of commits that its snapshot sees.
    begun: usize,
    reads: BTreeMap<u8, Value>,
    writes: BTreeMap<u8, Value>,
}

/// The committed transactions, in the order of their commits, and those that only read.
#[derive(Default)]
struct History {
    commits: Vec<Recorded>,
    readers: Vec<Recorded>,
}

impl History {
    /// Returns true if the dependencies have a cycle. Panics if a transaction read another value than that of its
    /// snapshot.
    fn has_cycle(&self) -> bool {
        let all: Vec<&Recorded> = self.commits.iter().chain(&self.readers).collect();
        let mut edges = vec![Vec::new(); all.len()];
        for key in 0..KEYS {
            let writers: Vec<usize> =
                (0..self.commits.len()).filter(|at| self.commits[*at].writes.contains_key(&key)).collect();
            for pair in writers.windows(2) {
                edges[pair[0]].push(pair[1]);
            }
            for (reader, recorded) in all.iter().enumerate() {
                let Some(found) = recorded.reads.get(&key) else { continue };
                let last_before = |commit| {
                    let next = writers.partition_point(|writer| *writer < commit);
                    let read = next.checked_sub(1).map(|at| writers[at]);
                    (next, read, read.and_then(|writer| self.commits[writer].writes[&key]))
                };
                let (mut next, mut read, expected) = last_before(recorded.begun);
                assert_eq!(*found, expected, "key {key} at commit {}", recorded.begun);
                if found.is_none()
                    && reader < self.commits.len()
                    && let (last, removal, None) = last_before(reader)
                {
                    (next, read) = (last, removal);
                }
                if let Some(writer) = read {
                    edges[writer].push(reader);
                }
                // Its own write of the next version is no dependency.
                if let Some(writer) = writers[next..].iter().find(|writer| **writer != reader) {
                    edges[reader].push(*writer);
                }
            }
        }
        // Transactions without predecessors are removed until none is left; a cycle stays.
        let mut before = vec![0; all.len()];
        edges.iter().flatten().for_each(|to| before[*to] += 1);
        let mut free: Vec<usize> = (0..all.len()).filter(|at| before[*at] == 0).collect();
        let mut removed = 0;
        while let Some(at) = free.pop() {
            removed += 1;
            for to in &edges[at] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        removed < all.len()
    }

    /// Returns the content after a number of commits.
    fn content(&self, commits: usize) -> BTreeMap<u8, u64> {
        let mut content = BTreeMap::new();
        for (key, value) in self.commits[..commits].iter().flat_map(|commit| &commit.writes) {
            match value {
                Some(value) => content.insert(*key, *value),
                None => content.remove(key),
            };
        }
        content
    }
}

struct OpenTransaction {
    snapshot: Snapshot,
    reads: ReadSet,
    batch: Batch,
    recorded: Recorded,
}

/// The isolation level of a history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Serializable,
    Snapshot,
}

struct Clients {
    sim: SimFs,
    random: SeededRandom,
    level: Level,
    db: Option<Db>,
    open: Vec<OpenTransaction>,
    history: History,
    /// Number of commits that a machine crash must leave.
    durable: usize,
    last_value: u64,
    conflicts: usize,
}

impl Clients {
    fn new(seed: u64, level: Level) -> Clients {
        let (sim, random) = (SimFs::new(seed), SeededRandom::new(seed));
        let (open, history) = (Vec::new(), History::default());
        let mut clients =
            Clients { sim, random, level, db: None, open, history, durable: 0, last_value: 0, conflicts: 0 };
        clients.open_store();
        clients
    }

    fn open_store(&mut self) {
        let options = CfOptions { block_bytes: 256, ..CfOptions::default() };
        let settings = Settings {
            memtable_bytes: 64 * 1024,
            segment_bytes: 64 * 1024,
            ring_bytes: 32 * 1024,
            drain_bytes: 8 * 1024,
            ..Settings::default()
        };
        let parts = Parts {
            env: self.sim.env(self.sim.steps()),
            families: vec![("default".to_owned(), options)],
            ..Parts::real()
        };
        self.db = Some(Db::open(&PathBuf::from("/store"), settings, parts).unwrap());
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn family(&self) -> Family {
        self.db().family("default").unwrap()
    }

    fn below(&self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn key(&self) -> u8 {
        self.below(KEYS.into()) as u8
    }

    fn step(&mut self) {
        match self.below(60) {
            0 => self.db().flush().unwrap(),
            1 => self.db().compact(&self.family(), &(Bound::Unbounded, Bound::Unbounded)).unwrap(),
            2 if self.below(4) == 0 => self.crash(),
            3..6 => drop(self.db().step()),
            6..10 if self.open.len() < OPEN => self.begin(),
            10..16 if !self.open.is_empty() => self.commit(),
            16..18 => self.write_plainly(),
            _ if !self.open.is_empty() => self.operate(),
            _ => self.begin(),
        }
    }

    fn begin(&mut self) {
        if self.open.len() == OPEN {
            return;
        }
        let snapshot = self.db().transaction_snapshot().unwrap();
        let recorded = Recorded { begun: self.history.commits.len(), ..Recorded::default() };
        self.open.push(OpenTransaction { snapshot, reads: ReadSet::default(), batch: Batch::new(), recorded });
    }

    fn operate(&mut self) {
        let (at, family) = (self.below(self.open.len()), self.family());
        let mut open = self.open.swap_remove(at);
        let key = self.key();
        match self.below(9) {
            0..3 => {
                let mut value = None;
                let take = &mut |record: &waxseal_lsm::record::Record<'_>| value = Some(number(record.value));
                self.db().get(&family, &[key], At::Snapshot(&open.snapshot), take).unwrap();
                if !open.recorded.writes.contains_key(&key) {
                    open.recorded.reads.insert(key, value);
                    open.reads.add_key(&family, &[key]);
                }
            }
            3..5 => self.read_range(&family, &mut open),
            write => self.add_write(&family, &mut open.batch, &mut open.recorded, key, write),
        }
        self.open.push(open);
    }

    /// Reads a range as far as a cursor goes: to a record within it, or to its end.
    fn read_range(&mut self, family: &Family, open: &mut OpenTransaction) {
        let (low, most) = (self.key(), self.below(4));
        let end = low + self.below((KEYS - low).into()) as u8 + 1;
        let bounds = (Bound::Included(vec![low]), Bound::Excluded(vec![end]));
        let mut cursor = self.db().cursor(family, At::Snapshot(&open.snapshot), bounds.clone()).unwrap();
        let (mut found, mut passed) = (BTreeMap::new(), end);
        cursor.first().unwrap();
        while cursor.valid() {
            found.insert(cursor.key()[0], number(cursor.value()));
            if found.len() > most {
                passed = cursor.key()[0] + 1;
                break;
            }
            cursor.next().unwrap();
        }
        for key in (low..passed).filter(|key| !open.recorded.writes.contains_key(key)) {
            open.recorded.reads.insert(key, found.get(&key).copied());
        }
        let high = if passed == end { bounds.1 } else { Bound::Included(vec![passed - 1]) };
        open.reads.add_range(family, (bounds.0, high));
    }

    fn add_write(&mut self, family: &Family, batch: &mut Batch, recorded: &mut Recorded, key: u8, write: usize) {
        let companions = self.db.as_ref().unwrap().companions();
        match write {
            8 => {
                let end = key + self.below((KEYS - key).into()) as u8 + 1;
                batch.delete_range(family.id(), (Some(&[key]), Some(&[end])), companions).unwrap();
                recorded.writes.extend((key..end).map(|key| (key, None)));
            }
            7 => {
                batch.push(family.id(), Kind::Delete, &[key], b"", companions).unwrap();
                recorded.writes.insert(key, None);
            }
            _ => {
                self.last_value += 1;
                batch.push(family.id(), Kind::Put, &[key], &self.last_value.to_le_bytes(), companions).unwrap();
                recorded.writes.insert(key, Some(self.last_value));
            }
        }
    }

    fn commit(&mut self) {
        let (at, family) = (self.below(self.open.len()), self.family());
        let OpenTransaction { snapshot, mut reads, mut batch, recorded } = self.open.swap_remove(at);
        if batch.is_empty() {
            self.history.readers.push(recorded);
            return;
        }
        if self.level == Level::Snapshot {
            reads = ReadSet::default();
            recorded.writes.keys().for_each(|key| reads.add_key(&family, &[*key]));
        }
        let durability = if self.below(3) == 0 { Durability::Sync } else { Durability::Os };
        let db = self.db.as_ref().unwrap();
        let outcome = {
            let mut validation = db.validation(&reads, &snapshot).unwrap();
            db.commit_when(&mut batch, durability, &mut validation)
        };
        match outcome {
            Ok(last) => {
                assert!(last.is_some());
                self.committed(recorded, durability);
            }
            Err(error) => {
                assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
                self.conflicts += 1;
            }
        }
    }

    fn committed(&mut self, recorded: Recorded, durability: Durability) {
        self.history.commits.push(recorded);
        if durability == Durability::Sync {
            self.durable = self.history.commits.len();
        }
    }

    fn write_plainly(&mut self) {
        let (mut batch, mut recorded, family) = (Batch::new(), Recorded::default(), self.family());
        let (key, write) = (self.key(), 5 + self.below(4));
        self.add_write(&family, &mut batch, &mut recorded, key, write);
        self.db().commit(&mut batch, Durability::Os).unwrap();
        self.committed(recorded, Durability::Os);
    }

    /// Kills the process or the machine. Open transactions vanish; what is found must be a prefix of the commits with
    /// all durable ones.
    fn crash(&mut self) {
        self.open.clear();
        let crash = if self.below(2) == 0 { Crash::Process } else { Crash::Machine(Loss::DurableOnly) };
        let least = if crash == Crash::Process { self.history.commits.len() } else { self.durable };
        self.sim.crash_at(self.sim.steps());
        self.db = None;
        self.sim.reboot(crash);
        self.open_store();
        let content = self.content();
        let kept = (least..=self.history.commits.len()).rev().find(|kept| self.history.content(*kept) == content);
        let kept = kept.expect("a prefix of the commits with all durable ones");
        self.history.commits.truncate(kept);
        // A reader may have seen commits that the crash has undone; they are no part of this history.
        self.history.readers.retain(|reader| reader.begun <= kept);
        self.durable = kept;
    }

    fn content(&self) -> BTreeMap<u8, u64> {
        let bounds = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = self.db().cursor(&self.family(), At::Latest, bounds).unwrap();
        let mut content = BTreeMap::new();
        cursor.first().unwrap();
        while cursor.valid() {
            content.insert(cursor.key()[0], number(cursor.value()));
            cursor.next().unwrap();
        }
        content
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

/// Runs histories of one level. Returns the number of commits, of conflicts, and of histories with a cycle.
fn run(seeds: std::ops::Range<u64>, level: Level) -> (usize, usize, usize) {
    let (mut commits, mut conflicts, mut cycles) = (0, 0, 0);
    for seed in seeds {
        let mut clients = Clients::new(seed, level);
        (0..400).for_each(|_| clients.step());
        let (history, content) = (&clients.history, clients.content());
        assert_eq!(content, history.content(history.commits.len()), "seed {seed}");
        let has_cycle = history.has_cycle();
        assert!(!has_cycle || level == Level::Snapshot, "seed {seed}: the history is not serializable");
        (commits, conflicts) = (commits + history.commits.len(), conflicts + clients.conflicts);
        cycles += usize::from(has_cycle);
    }
    (commits, conflicts, cycles)
}

/// No history of serializable transactions has a cycle.
pub fn serializable_histories_have_no_cycle() {
    let rounds = std::env::var("WAXSEAL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(40);
    let (commits, conflicts, _) = run(0..rounds, Level::Serializable);
    assert!(commits > 0 && conflicts > 0, "{commits} commits, {conflicts} conflicts");
}

#[cfg(feature = "planted")]
pub const ALL: [fn(); 1] = [serializable_histories_have_no_cycle];

#[test]
fn histories_of_serializable_transactions_have_no_cycle() {
    serializable_histories_have_no_cycle();
}

/// Snapshot isolation permits write skew: the checker finds its cycles.
#[test]
fn histories_under_snapshot_isolation_have_cycles() {
    let (commits, conflicts, cycles) = run(0..40, Level::Snapshot);
    assert!(commits > 0 && conflicts > 0 && cycles > 0, "{commits} commits, {conflicts} conflicts, {cycles} cycles");
}
