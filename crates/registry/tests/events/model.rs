//! The model: operations from a seed on a store of each mode, each answer checked against what was done.

use waxseal_lsm::db::{At, Snapshot};
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::env::{Random, SeededRandom};
use waxseal_registry::{Operation, Paging, Query, StampVerb, Target, Time, Values};

use crate::store::{ASYNC, Config, DEFERRED, FAMILIES, SYNC, Store, Write, is_engines, same, told};

const KEYS: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0b", b"b", b"\xFF", b"\xFF\xFF"];
const OPERATIONS: [Option<Operation>; 5] = [
    None,
    Some(Operation::ROW_INSERT),
    Some(Operation::ROW_UPDATE),
    Some(Operation::ROW_DELETE),
    Some(Operation::TABLE_DROP),
];
const VALUES: [Values; 4] = [Values::None, Values::New, Values::OldNew, Values::Hash];

struct Run {
    store: Store,
    random: SeededRandom,
    snapshots: Vec<Snapshot>,
    app: Operation,
}

/// One seed, in one of the modes.
pub(crate) fn run(seed: u64) {
    let config = [SYNC, DEFERRED, ASYNC][seed as usize % 3];
    run_as(seed, config, 160);
}

pub(crate) fn run_as(seed: u64, config: Config, operations: usize) {
    let sim = SimFs::new(seed);
    let store = Store::new(config, &sim).unwrap();
    let app = store.registrar.define("app.reindex", None).unwrap();
    let mut run = Run { store, random: SeededRandom::new(seed / 3 + 1), snapshots: Vec::new(), app };
    for at in 0..operations {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.step()));
        assert!(outcome.is_ok(), "seed {seed}, {config:?}, operation {at}");
    }
    run.check();
    run.snapshots.clear();
    run.store.restart().unwrap();
    run.check();
}

impl Run {
    fn below(&self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn one<T: Clone>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn target(&self) -> Target {
        match self.below(6) {
            0 => Target::Cluster,
            1 | 2 => Target::family(self.one(&FAMILIES)),
            _ => Target::key(self.one(&FAMILIES), self.one(&KEYS)),
        }
    }

    fn write(&self) -> Write {
        let long = if self.below(8) == 0 { 300 } else { 1 + self.below(20) };
        let value = (self.below(4) > 0).then(|| (0..long).map(|_| self.below(256) as u8).collect());
        let verb = self.one(&[StampVerb::Insert, StampVerb::Update]);
        Write { family: self.one(&FAMILIES), key: self.one(&KEYS).to_vec(), value, verb }
    }

    fn step(&mut self) {
        match self.below(100) {
            0..50 => {
                let writes: Vec<Write> = (0..1 + self.below(4)).map(|_| self.write()).collect();
                let client = self.below(3) as usize;
                self.store.write(&writes, client).unwrap();
            }
            50..58 => {
                let (target, operation, values) = (self.target(), self.one(&OPERATIONS), self.one(&VALUES));
                match (&target, operation) {
                    (Target::Key { .. }, Some(Operation::TABLE_DROP)) => {
                        self.store.registrar.register(&target, operation, None, None).unwrap_err(); // no key is dropped
                    }
                    _ => self.store.register(target, operation, values).unwrap(),
                }
            }
            58..62 => {
                let known: Vec<_> = self.store.oracle.registered.clone();
                let (target, operation) = match known.is_empty() || self.below(4) == 0 {
                    true => (self.target(), self.one(&OPERATIONS)),
                    false => {
                        let one = self.one(&known);
                        (one.target, one.operation)
                    }
                };
                self.store.unregister(&target, operation).unwrap();
            }
            62..67 => self.store.db.flush().unwrap(),
            67..69 => self.store.db.settle().unwrap(),
            69..73 => while self.store.db.step().unwrap() {},
            73..76 => {
                let app = self.app;
                self.store.add(self.target(), app, "said").unwrap();
            }
            76..78 => {
                let app = self.app;
                self.store.register(self.target(), Some(app), Values::None).unwrap();
            }
            78..80 => {
                let query = self.query();
                self.store.delete(&query).unwrap();
            }
            80..82 => {
                self.snapshots.clear(); // what old values they see goes with the family
                self.store.registrar.drain().unwrap();
                let name = self.one(&FAMILIES[1..]);
                self.store.renew(name).unwrap();
            }
            82..84 => self.restart(),
            84..88 => self.turn_clock(),
            88..90 => {
                self.store.registrar.drain().unwrap(); // a snapshot sees no event that is written later
                self.snapshots.push(self.store.db.snapshot().unwrap());
            }
            _ => self.check(),
        }
    }

    fn restart(&mut self) {
        self.snapshots.clear();
        self.store.registrar.drain().unwrap();
        match self.below(2) {
            0 => self.store.restart().unwrap(),
            _ => {
                self.store.sim.reboot(Crash::Process);
                self.store.reopen().unwrap();
            }
        }
    }

    /// Also backwards, and not at all.
    fn turn_clock(&self) {
        let wall = &self.store.wall.0;
        wall.store(self.below(2_000_000), std::sync::atomic::Ordering::SeqCst);
    }

    fn query(&self) -> Query {
        let events = self.store.everything(At::Latest).unwrap();
        let time = |events: &[waxseal_registry::Event]| match events.is_empty() {
            true => Time(self.below(1000)),
            false => events[self.below(events.len() as u64) as usize].key.time,
        };
        let target = self.target();
        let below = !matches!(target, Target::Key { .. }) && self.below(3) > 0;
        Query {
            target,
            below,
            operation: self.one(&OPERATIONS),
            from: if self.below(2) == 0 { Time::FIRST } else { time(&events) },
            to: if self.below(2) == 0 { Time::LAST } else { time(&events) },
            client: (self.below(3) == 0).then(|| self.one(&["-", "alice", "bob"]).to_owned()),
        }
    }

    /// Everything, then some queries, which must find of everything what they ask for.
    fn check(&mut self) {
        let all = self.store.check_now();
        for _ in 0..6 {
            let query = self.query();
            let asked = |event: &&waxseal_registry::Event| {
                let key = &event.key;
                (if query.below { query.target.covers(&key.target) } else { query.target == key.target })
                    && query.operation.is_none_or(|operation| operation == key.operation)
                    && (query.from..=query.to).contains(&key.time)
                    && query.client.as_ref().is_none_or(|client| *client == key.client)
            };
            let mut expected: Vec<_> = all.iter().filter(asked).cloned().collect();
            let newest = expected.iter().max_by_key(|event| (event.key.time, event.key.seqno)).cloned();
            expected.sort_by_key(|event| event.encode().unwrap().0);
            assert_eq!(self.store.find(&query, At::Latest).unwrap(), expected, "{query:?}");
            self.check_pages(&query, &expected);
            if !query.below {
                let found = self.store.registrar.log_latest(&query, At::Latest, None).unwrap();
                assert_eq!(found, newest, "the latest of {query:?}");
            }
        }
        for snapshot in &self.snapshots {
            self.store.check(At::Snapshot(snapshot), snapshot);
        }
    }

    fn check_pages(&self, query: &Query, expected: &[waxseal_registry::Event]) {
        let (mut found, mut paging) = (Vec::new(), Paging::first(1 + self.below(5) as usize));
        loop {
            let page = self.store.registrar.log_query(query, &paging, At::Latest, None).unwrap();
            assert!(page.events.len() <= paging.limit);
            found.extend(page.events.into_iter().filter(|event| !is_engines(event)));
            match page.next {
                Some(next) => paging.after = Some(next),
                None => break,
            }
        }
        same(&found.iter().map(told).collect::<Vec<_>>(), &expected.iter().map(told).collect::<Vec<_>>());
    }
}
