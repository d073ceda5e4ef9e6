//! A store with registry and log on a simulated disk, and what it must say: each commit is told to an oracle that knows
//! nothing of stamps, rows or memtables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts, Silent, Snapshot};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{self, Env};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_lsm::seam::PendingWrite;
use waxseal_meta::{Seal, Sealer};
use waxseal_registry::target::TargetPath;
use waxseal_registry::{
    Event, Field, Identity, Image, Mode, Operation, Options, Paging, Payload, Query, Registrar, Registration, Ring,
    Scope, Session, Setup, StampVerb, Target, Values,
};
use waxseal_testing::store::backwards;

/// A wall clock that says what it is told.
#[derive(Default)]
pub(crate) struct Told(pub(crate) AtomicU64);

impl env::Clock for Told {
    fn wall_micros(&self) -> u64 {
        self.0.load(SeqCst)
    }
    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

/// An event that must be there, but for its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    pub(crate) target: Target,
    pub(crate) operation: Operation,
    pub(crate) client: String,
    pub(crate) seqno: Seqno,
    pub(crate) payload: Payload,
}

/// What became of the log in the order of commits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Added(Expected),
    /// The event of this seqno was deleted by the commit of the other.
    Deleted {
        seqno: Seqno,
        by: Seqno,
    },
    /// A family went at this seqno.
    Dropped(String, Seqno),
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) family: &'static str,
    pub(crate) key: Vec<u8>,
    /// None: it is deleted.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) verb: StampVerb,
}

/// What was registered, and what must have come of it.
#[derive(Clone, Default)]
pub(crate) struct Oracle {
    pub(crate) registered: Vec<Registration>,
    pub(crate) content: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    pub(crate) entries: Vec<Entry>,
}

impl Oracle {
    /// The registration that decides how an operation on a target is logged.
    fn watching(&self, target: &Target, operation: Operation) -> Option<&Registration> {
        self.registered.iter().filter(|one| one.matches(target, operation)).max_by_key(|one| one.rank())
    }

    fn wrote(&mut self, write: &Write, client: (&str, Option<&str>), seqno: Seqno) {
        let target = Target::key(write.family, write.key.clone());
        let operation = match (&write.value, write.verb) {
            (None, _) => Operation::ROW_DELETE,
            (_, StampVerb::Insert) => Operation::ROW_INSERT,
            _ => Operation::ROW_UPDATE,
        };
        let place = (write.family.to_owned(), write.key.clone());
        let image = |value: Option<&Vec<u8>>| value.map_or(Image::Absent, |value| Image::Value(value.clone()));
        let old = image(self.content.get(&place));
        if let Some(watching) = self.watching(&target, operation) {
            let mut payload = Payload::new();
            let new = image(write.value.as_ref());
            match watching.options.values {
                Values::None => {}
                Values::New => payload.push(Field::NewValue(new)),
                Values::OldNew => {
                    payload.push(Field::NewValue(new));
                    payload.push(Field::OldValue(old));
                }
                Values::Hash => payload.push(Field::NewValue(match &write.value {
                    Some(value) => Image::Seal(Seal::of(&write.key, value)),
                    None => Image::Absent,
                })),
            }
            if watching.target != target {
                payload.push(Field::Via(TargetPath::of(&watching.target)));
            }
            if let Some(how) = client.1 {
                payload.push(Field::Authenticated(how.to_owned()));
            }
            let client = client.0.to_owned();
            self.entries.push(Entry::Added(Expected { target, operation, client, seqno, payload }));
        }
        match &write.value {
            Some(value) => drop(self.content.insert(place, value.clone())),
            None => drop(self.content.remove(&place)),
        }
    }

    /// What is registered changes; `last` is the seqno of the event, or of the change if nobody watches that.
    fn changed(&mut self, target: &Target, operation: Operation, mut payload: Payload, last: Seqno) {
        let Some(watching) = self.watching(target, operation) else { return };
        if watching.target != *target {
            payload.push(Field::Via(TargetPath::of(&watching.target)));
        }
        let (target, client, seqno) = (target.clone(), "-".to_owned(), last - 1);
        self.entries.push(Entry::Added(Expected { target, operation, client, seqno, payload }));
    }

    /// The events of commits up to a seqno.
    pub(crate) fn events(&self, through: Seqno) -> Vec<Expected> {
        let deleted = |event: &Expected| {
            let by = |entry: &Entry| matches!(entry, Entry::Deleted { seqno, by } if *seqno == event.seqno && *by <= through);
            self.entries.iter().any(by)
        };
        let added =
            self.entries.iter().filter_map(|entry| if let Entry::Added(event) = entry { Some(event) } else { None });
        let mut events: Vec<Expected> =
            added.filter(|event| event.seqno <= through && !deleted(event)).cloned().collect();
        events.sort_by_key(|event| event.seqno);
        events
    }
}

/// How the stores of a run are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) memtable_bytes: usize,
    pub(crate) ring: Ring,
    /// The engine's own events that are kept, by number and age.
    pub(crate) kept: (usize, Duration),
}

pub(crate) const SYNC: Config = Config {
    mode: Mode::Sync,
    memtable_bytes: 16 * 1024,
    kept: (usize::MAX, Duration::MAX),
    ring: Ring { events: 8, when_full: waxseal_registry::WhenFull::Backpressure },
};
pub(crate) const DEFERRED: Config = Config { mode: Mode::Deferred, ..SYNC };
pub(crate) const ASYNC: Config = Config { mode: Mode::Async, ..SYNC };

pub(crate) const DIR: &str = "/store";
pub(crate) const FAMILIES: [&str; 3] = ["default", "kept", "back"];
const CLIENTS: [(&str, Option<&str>); 3] = [("-", None), ("alice", None), ("bob", Some("password"))];

pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) sim: SimFs,
    pub(crate) wall: Arc<Told>,
    pub(crate) oracle: Oracle,
    pub(crate) db: Db,
    pub(crate) registrar: Registrar,
}

fn options(name: &str) -> CfOptions {
    let order = if name == "back" { backwards() } else { Order::bytewise() };
    CfOptions {
        order,
        block_bytes: 256,
        restart_interval: 4,
        compression: Compression::None,
        table_bytes: 2048,
        level_base_bytes: 4096,
        fanout: 3,
        level0_tables: 2,
        ..CfOptions::default()
    }
}

fn settings(config: Config) -> Settings {
    Settings {
        memtable_bytes: config.memtable_bytes,
        segment_bytes: 64 * 1024,
        ring_bytes: 16 * 1024,
        drain_bytes: 4096,
        chronicle_lines: 16,
        engine_events: config.kept.0,
        engine_event_age: config.kept.1,
        ..Settings::default()
    }
}

/// The engine alone, with seals and nobody who keeps a chronicle.
pub(crate) fn open_without_engine_log(sim: &SimFs) -> Result<Db> {
    let parts = Parts {
        env: sim.env(sim.steps() + 1),
        companions: Arc::new(Sealer::new().with(waxseal_meta::builtin::standard())),
        listener: Arc::new(Silent),
        families: vec![("default".to_owned(), options("default"))],
        filters: Vec::new(),
        orders: vec![backwards()],
        merge_operators: Vec::new(),
        engine_log: None,
        cache: None,
    };
    Db::open(Path::new(DIR), settings(DEFERRED), parts)
}

pub(crate) fn open(config: Config, sim: &SimFs, wall: &Arc<Told>) -> Result<(Db, Registrar)> {
    let env = Env { clock: wall.clone(), ..sim.env(sim.steps() + 1) };
    let prepared = Registrar::prepare(Setup { ring: config.ring, ..Setup::new(&env) });
    let sealer = Arc::new(Sealer::new().with(waxseal_meta::builtin::standard()).emitting(prepared.emitter.clone()));
    let mut families = prepared.families.clone();
    families.push(("default".to_owned(), options("default")));
    let parts = Parts {
        env,
        companions: sealer.clone(),
        listener: Arc::new(Silent),
        families,
        filters: Vec::new(),
        orders: vec![backwards()],
        merge_operators: Vec::new(),
        engine_log: Some(prepared.engine_log.clone()),
        cache: None,
    };
    let db = Db::open(Path::new(DIR), settings(config), parts)?;
    let registrar = prepared.attach(db.clone(), sealer)?;
    Ok((db, registrar))
}

impl Store {
    pub(crate) fn new(config: Config, sim: &SimFs) -> Result<Store> {
        let wall = Arc::new(Told(AtomicU64::new(1_000_000)));
        let (db, registrar) = open(config, sim, &wall)?;
        let store = Store { config, sim: sim.clone(), wall, oracle: Oracle::default(), db, registrar };
        for name in &FAMILIES[1..] {
            store.registrar.create_family(name, options(name))?;
        }
        Ok(store)
    }

    /// What a crash left of a store, or a new one if it left none. The wall clock is behind.
    pub(crate) fn new_or_old(config: Config, sim: &SimFs) -> Result<Store> {
        let wall = Arc::new(Told(AtomicU64::new(500_000)));
        let (db, registrar) = open(config, sim, &wall)?;
        let store = Store { config, sim: sim.clone(), wall, oracle: Oracle::default(), db, registrar };
        for name in FAMILIES.iter().filter(|name| store.db.family(name).is_none()) {
            store.registrar.create_family(name, options(name))?;
        }
        Ok(store)
    }

    /// Opens the store anew, after a close or a crash.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        (self.db, self.registrar) = open(self.config, &self.sim, &self.wall)?;
        Ok(())
    }

    /// Closes and opens again.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.registrar.close()?;
        self.db.close()?;
        self.reopen()
    }

    /// An error if the simulated crash has struck: a store into the mapping cannot say so itself.
    pub(crate) fn alive(&self) -> Result<()> {
        if self.sim.is_crashed() { Err(Error::closed()) } else { Ok(()) }
    }

    pub(crate) fn seqno(&self) -> Seqno {
        self.db.snapshot().unwrap().seqno()
    }

    pub(crate) fn family(&self, name: &str) -> Family {
        self.db.family(name).unwrap()
    }

    pub(crate) fn session(&self, client: usize) -> Result<Option<Session>> {
        let (name, how) = CLIENTS[client];
        if client == 0 {
            return Ok(None);
        }
        let identity = Identity::named(name);
        let identity = if let Some(how) = how { identity.authenticated(how) } else { identity };
        self.registrar.session(identity).map(Some)
    }

    /// Commits writes as one batch, and tells the oracle.
    pub(crate) fn write(&mut self, writes: &[Write], client: usize) -> Result<Seqno> {
        let mut batch = Batch::new();
        for write in writes {
            let kind = if write.value.is_some() { Kind::Put } else { Kind::Delete };
            let value = write.value.as_deref().unwrap_or_default();
            batch.push(self.family(write.family).id(), kind, &write.key, value, self.db.companions())?;
        }
        let verbs: Vec<StampVerb> = writes.iter().map(|write| write.verb).collect();
        let session = self.session(client)?;
        let last = match (writes, session.as_ref()) {
            ([write], who) if write.key.len() % 2 == 1 => {
                let (kind, value) =
                    (if write.value.is_some() { Kind::Put } else { Kind::Delete }, write.value.as_deref());
                let (family, value) = (self.family(write.family).id(), value.unwrap_or_default());
                let mut pending = PendingWrite { family, kind, key: &write.key, value, key_hash: None, entries: &[] };
                self.registrar.commit_one(&mut batch, &mut pending, None, Durability::Os, (who, write.verb))?
            }
            (_, who) => self.registrar.commit(&mut batch, Durability::Os, who, &verbs)?,
        };
        self.alive()?;
        for (at, write) in writes.iter().enumerate() {
            self.oracle.wrote(write, CLIENTS[client], last + 1 + at as u64 - writes.len() as u64);
        }
        Ok(last)
    }

    pub(crate) fn put(&mut self, family: &'static str, key: &[u8], value: &[u8]) -> Result<Seqno> {
        let write = Write { family, key: key.to_vec(), value: Some(value.to_vec()), verb: StampVerb::Update };
        self.write(&[write], 1)
    }

    /// The options that this store's mode has for what is asked.
    pub(crate) fn options(&self, scope: Scope, values: Values) -> Options {
        let history = values == Values::OldNew && self.config.mode != Mode::Sync;
        Options { scope, mode: self.config.mode, values, history, retention: None }
    }

    pub(crate) fn register(&mut self, target: Target, operation: Option<Operation>, values: Values) -> Result<()> {
        let scope = if matches!(target, Target::Key { .. }) { Scope::Exact } else { Scope::Subtree };
        let options = self.options(scope, values);
        let is_pair = |one: &Registration| one.target == target && one.operation == operation;
        let known = self.oracle.registered.iter().any(is_pair);
        let new = self.registrar.register(&target, operation, Some(options), None)?;
        self.alive()?;
        assert_eq!(new, !known);
        let (_, row) = Registration { target: target.clone(), operation, options }.encode()?;
        let said = self.payload_of(operation).with(Field::Options(row));
        self.oracle.changed(&target, Operation::REGISTRY_ADD, said, self.seqno());
        self.oracle.registered.retain(|one| !is_pair(one));
        self.oracle.registered.push(Registration { target, operation, options });
        Ok(())
    }

    pub(crate) fn unregister(&mut self, target: &Target, operation: Option<Operation>) -> Result<()> {
        let is_pair = |one: &Registration| one.target == *target && one.operation == operation;
        let known = self.oracle.registered.iter().any(is_pair);
        assert_eq!(self.registrar.unregister(target, operation, None)?, known);
        self.alive()?;
        if known {
            let said = self.payload_of(operation);
            self.oracle.changed(target, Operation::REGISTRY_DELETE, said, self.seqno());
        }
        self.oracle.registered.retain(|one| !is_pair(one));
        Ok(())
    }

    /// What the event of a change of the registry says of the operation.
    fn payload_of(&self, operation: Option<Operation>) -> Payload {
        let name = operation.map_or("*".to_owned(), |operation| self.registrar.operations().name(operation));
        Payload::new().with(Field::Setting(("operation".to_owned(), name)))
    }

    /// Drops a family and makes it anew.
    pub(crate) fn renew(&mut self, name: &'static str) -> Result<()> {
        let before = self.seqno();
        self.registrar.drop_family(name, None)?;
        let target = Target::family(name);
        let found =
            self.find(&Query { operation: Some(Operation::TABLE_DROP), ..Query::of(target.clone()) }, At::Latest)?;
        let seqno = found.iter().map(|event| event.key.seqno).max().unwrap_or(before + 1);
        self.oracle.entries.push(Entry::Dropped(name.to_owned(), seqno));
        if let Some(watching) = self.oracle.watching(&target, Operation::TABLE_DROP) {
            let mut payload = Payload::new();
            if watching.target != target {
                payload.push(Field::Via(TargetPath::of(&watching.target)));
            }
            let (operation, client) = (Operation::TABLE_DROP, "-".to_owned());
            self.oracle.entries.push(Entry::Added(Expected { target, operation, client, seqno, payload }));
        }
        self.oracle.content.retain(|(family, _), _| family != name);
        self.registrar.create_family(name, options(name))?;
        Ok(())
    }

    /// Adds an event that is not of a write.
    pub(crate) fn add(&mut self, target: Target, operation: Operation, text: &str) -> Result<()> {
        let watching = self.oracle.watching(&target, operation).cloned();
        let outcome = self.registrar.log_add(&target, operation, None, Payload::text(text), None);
        let Some(watching) = watching else {
            assert!(outcome.is_err(), "an event of a pair that is not registered was taken");
            return Ok(());
        };
        let mut payload = Payload::text(text);
        if watching.target != target {
            payload.push(Field::Via(TargetPath::of(&watching.target)));
        }
        let seqno = outcome?;
        self.alive()?;
        let client = "-".to_owned();
        self.oracle.entries.push(Entry::Added(Expected { target, operation, client, seqno, payload }));
        Ok(())
    }

    /// All events that a query finds, those of the engine's own work left out.
    pub(crate) fn find(&self, query: &Query, at: At<'_>) -> Result<Vec<Event>> {
        let events = self.registrar.log_query(query, &Paging::ALL, at, None)?.events;
        Ok(events.into_iter().filter(|event| !is_engines(event)).collect())
    }

    pub(crate) fn everything(&self, at: At<'_>) -> Result<Vec<Event>> {
        self.find(&Query { below: true, ..Query::of(Target::Cluster) }, at)
    }

    /// Deletes what a query finds, and tells the oracle.
    pub(crate) fn delete(&mut self, query: &Query) -> Result<()> {
        self.registrar.drain()?;
        let gone = self.find(query, At::Latest)?;
        let deleted = self.registrar.log_delete(query, None)?;
        let engines = query.below && query.target == Target::Cluster; // some of its events are rows by now
        assert!(deleted == gone.len() as u64 || engines && deleted > gone.len() as u64);
        let by = self.seqno();
        self.oracle.entries.extend(gone.iter().map(|event| Entry::Deleted { seqno: event.key.seqno, by }));
        Ok(())
    }

    /// Checks that exactly the expected events are there, in the order of their keys and with times that rise with
    /// their seqnos.
    pub(crate) fn check(&self, at: At<'_>, snapshot: &Snapshot) -> Vec<Event> {
        let mut found = self.everything(at).unwrap();
        assert!(found.is_sorted_by_key(|event| event.encode().unwrap().0), "events out of order");
        found.sort_by_key(|event| event.key.seqno);
        for pair in found.windows(2) {
            let [before, after] = [&pair[0].key, &pair[1].key];
            assert!(before.time <= after.time, "times do not rise with commits: {before:?} {after:?}");
        }
        let said: Vec<Expected> = found.iter().map(told).collect();
        same(&said, &self.oracle.events(snapshot.seqno()));
        found
    }

    pub(crate) fn check_now(&self) -> Vec<Event> {
        self.registrar.drain().unwrap();
        let snapshot = self.db.snapshot().unwrap();
        self.check(At::Latest, &snapshot)
    }
}

/// What an event says, but for its time.
pub(crate) fn told(event: &Event) -> Expected {
    let (key, payload) = (event.key.clone(), event.payload.clone());
    Expected { target: key.target, operation: key.operation, client: key.client, seqno: key.seqno, payload }
}

/// Fails with the first difference.
pub(crate) fn same(found: &[Expected], expected: &[Expected]) {
    for event in expected {
        assert!(found.contains(event), "not in the log: {event:?}\nwhich has {} of {}", found.len(), expected.len());
    }
    for event in found {
        assert!(expected.contains(event), "in the log, and never happened: {event:?}");
    }
    assert_eq!(found.len(), expected.len(), "an event twice");
}

pub(crate) fn is_engines(event: &Event) -> bool {
    matches!(event.key.target, Target::Engine(_) | Target::TableFile(_))
}
