//! The registrar: everything that registry and log can do, in one handle.
//!
//! It is made in two steps, since the engine asks for parts of it while it opens: `Registrar::prepare` before, `Prepared::attach`
//! once the store is open and before anybody writes. From then on every write goes through `commit`; while nothing is registered
//! that is the engine's own commit and one load more.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::env;
use waxseal_lsm::env::work::{self, lock};
use waxseal_lsm::error::{Error, IoContext, Result};
use waxseal_lsm::options::{CfOptions, Durability, Verify};
use waxseal_lsm::planted::{self, Bug};
use waxseal_lsm::read::Bounds;
use waxseal_lsm::record::Seqno;
use waxseal_lsm::seam::{Chronicle, Draft};
use waxseal_meta::{Emitter, Seal, Sealer};

use crate::chronicle::Line;
use crate::clock::Time;
use crate::event::Event;
use crate::families::{
    Lost, QUARANTINE, REGISTRY, SCHEMA, SCHEMA_ID, SESSIONS, each_row, family, one_row, readable_rows, rows_and_losses,
    system_families,
};
use crate::hooks::{Hooks, is_forked, next_number};
use crate::key::{Query, read_registry_key};
use crate::log::{Page, Paging, Reading};
use crate::matching::{Matching, Snapshot};
use crate::modes::{Queue, Ring, RingStats};
use crate::occurrence::why_never;
use crate::operation::{Group, Operation, Operations};
use crate::payload::{Field, Payload};
use crate::pending::Making;
use crate::provenance::{self, Explanation, Lineage, Provenance};
use crate::quarantine::{self, Case};
use crate::registration::{Mode, Options, Registration, Scope, check_options};
use crate::registry::{check_target, event_at, retention_of};
use crate::rights::{Authorizer, Everybody, allowed};
use crate::sessions::{Identity, Session, read_session_key};
use crate::single::{Single, push_unsealed};
use crate::target::{NoTables, Schema, Target};
use crate::turns::Turns;
use crate::witness::Witness;

pub use waxseal_meta::stamp::Verb;

/// Which tables there are.
pub trait Catalogue: Schema + Send + Sync {}
impl<T: Schema + Send + Sync> Catalogue for T {}

/// The part of the engine to which it happens that sessions begin and end.
const SESSION: &str = "session";

/// The part of the engine to which it happens that the store is opened.
const STORE: &str = "store";

/// What events call any operation.
const ANY: &str = "*";

/// What a registrar is made of.
#[derive(Clone)]
pub struct Setup {
    /// The clock of the store's `Env`.
    pub clock: Arc<dyn env::Clock>,
    /// The `work` of the store's `Env`: whether rows of mode async are written by a thread, or by `drain` alone.
    pub work: work::Mode,
    /// Who may do what.
    pub authorizer: Arc<dyn Authorizer>,
    /// The tables that targets may name.
    pub catalogue: Arc<dyn Catalogue>,
    /// Where rows of mode async wait.
    pub ring: Ring,
}

impl Setup {
    /// Everybody may do everything, there are no tables, and the ring is as it comes.
    pub fn new(env: &env::Env) -> Setup {
        Setup {
            clock: env.clock.clone(),
            work: env.work,
            authorizer: Arc::new(Everybody),
            catalogue: Arc::new(NoTables),
            ring: Ring::default(),
        }
    }
}

/// What the store is to be opened with; then `attach`.
pub struct Prepared {
    /// The system families, for `Parts::families`.
    pub families: Vec<(String, CfOptions)>,
    /// For `Parts::chronicle`.
    pub chronicle: Arc<dyn Chronicle>,
    /// For `Sealer::emitting`.
    pub emitter: Arc<dyn Emitter>,
    setup: Setup,
    witness: Arc<Witness>,
}

impl Prepared {
    /// The store is open: reads what is registered. Nobody may have written to it yet. `sealer` is the store's keeper, and
    /// emits by `emitter`. Errors: as of reads.
    pub fn attach(self, db: Db, sealer: Arc<Sealer>) -> Result<Registrar> {
        let Prepared { setup, witness, .. } = self;
        for (_, line) in db.chronicle() {
            Line::decode(&line).map(|line| witness.meet(line.time))?;
        }
        witness.clock.follow(db.last_time());
        let operations = operations_of(&db)?;
        take_up_sessions(&db, &witness)?;
        let registrations = registrations_of(&db)?;
        let hooks = Hooks {
            number: next_number(),
            db,
            sealer,
            witness,
            matching: Matching::new(Snapshot::empty()),
            turns: Turns::default(),
            change: Mutex::default(),
            queue: Arc::new(Queue::new(setup.ring)),
            work: setup.work,
            again: Default::default(),
        };
        let any_async = registrations.iter().any(|registration| registration.options.mode == Mode::Async);
        hooks.begin(registrations)?;
        let shared = Shared {
            hooks: Arc::new(hooks),
            operations: RwLock::new(operations),
            defining: Mutex::default(),
            authorizer: setup.authorizer,
            catalogue: setup.catalogue,
            clock: setup.clock,
            thread: Mutex::default(),
        };
        let registrar = Registrar { db: shared.hooks.db.clone(), shared: Arc::new(shared) };
        if any_async {
            registrar.start_thread()?;
        }
        registrar.record_open();
        Ok(registrar)
    }
}

/// The operations that a store knows.
fn operations_of(db: &Db) -> Result<Operations> {
    let mut operations = Operations::new();
    each_row(db, SCHEMA, &mut |key, value| operations.load(key, value).map(|_| ()))?;
    Ok(operations)
}

/// What is registered in a store. Where rows of the registry are lost a registration stands in that watches all that they may have
/// watched: no event is missed, and no write is refused. It ends when the loss is accepted, or the pair is registered or taken back.
fn registrations_of(db: &Db) -> Result<Vec<Registration>> {
    let mut registrations = Vec::new();
    let mut take = |key: &[u8], value: &[u8]| Registration::decode(key, value).map(|row| registrations.push(row));
    let lost = rows_and_losses(db, REGISTRY, &mut take)?;
    for stand_in in lost.iter().map(stand_in_for) {
        let is_known =
            |known: &Registration| (&known.target, known.operation) == (&stand_in.target, stand_in.operation);
        if !registrations.iter().any(is_known) {
            registrations.push(stand_in);
        }
    }
    Ok(registrations)
}

/// A registration that watches at least what the lost rows of a range watched: their own pair if the range has a single key, else
/// every operation in the store.
fn stand_in_for(lost: &Lost) -> Registration {
    let only = lost.as_ref().filter(|(first, last)| first == last);
    let pair = only.and_then(|(key, _)| read_registry_key(key).ok());
    let (target, operation) = pair.unwrap_or((Target::Cluster, None));
    Registration { target, operation, options: Options { scope: Scope::Subtree, ..Options::default() } }
}

/// Loads the sessions that there are, and sees to it that no number stands for two of them. The rows of some may be gone: then something
/// of their family is in quarantine, or was, or cannot be read now; or so it is with the family that would tell.
fn take_up_sessions(db: &Db, witness: &Witness) -> Result<()> {
    let (cases, untold) = match db.is_read_only() {
        true => (Vec::new(), false),
        false => quarantine::make_up(db, &witness.clock)?,
    };
    let telling: &[&str] = match planted::active(Bug::QuarantineTrustedWithoutItsRows) {
        true => &[SESSIONS],
        false => &[SESSIONS, QUARANTINE],
    };
    let lost = cases.iter().filter(|case| telling.contains(&case.family.as_str()));
    lost.for_each(|case| witness.sessions.leap(case.until.as_ref().map_or(case.since, |(until, _)| *until)));
    let damaged = readable_rows(db, SESSIONS, &mut |key, value| {
        witness.sessions.load(read_session_key(key)?, Identity::read(value)?).map(|_| ())
    })?;
    if damaged || untold {
        witness.sessions.leap(witness.clock.now());
    }
    Ok(())
}

/// Registry and log of one store. Clones share it, and may be used from any thread.
///
/// `who` is the session in whose name something is done; none: nobody in particular. It is the caller who vouches for it.
#[derive(Clone)]
pub struct Registrar {
    /// That of `shared` once more: a write that nobody watches asks nothing else.
    db: Db,
    shared: Arc<Shared>,
}

struct Shared {
    hooks: Arc<Hooks>,
    operations: RwLock<Operations>,
    /// Held by whoever defines one, so that no two names get one number.
    defining: Mutex<()>,
    authorizer: Arc<dyn Authorizer>,
    catalogue: Arc<dyn Catalogue>,
    clock: Arc<dyn env::Clock>,
    /// Writes events of mode async, from the first registration of that mode on.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Registrar {
    /// The first step.
    pub fn prepare(setup: Setup) -> Prepared {
        let witness = Arc::new(Witness::new(setup.clock.clone()));
        let (chronicle, emitter) = (witness.clone(), witness.clone());
        Prepared { families: system_families(), chronicle, emitter, setup, witness }
    }

    /// Commits a batch, and what is to be known of it: every write of a user goes this way. `verbs` says what the operations are
    /// called, in order; puts beyond them are updates, deletes are deletes whatever it says. The batch itself is left as it was.
    /// Gives the seqno of its last operation. Errors: as the engine's.
    #[inline]
    pub fn commit(
        &self,
        batch: &mut Batch,
        durability: Durability,
        who: Option<&Session>,
        verbs: &[Verb],
    ) -> Result<Seqno> {
        let rules = self.db.rules();
        if rules & 1 == 0
            && let Some(last) = self.db.commit_unheard(batch, durability, rules)?
        {
            return Ok(last);
        }
        self.shared.hooks.commit(batch, durability, who, verbs)
    }

    /// Commits one operation, as `commit` does, and encodes it here: `draft` is what is to be written, `seal` the one that the caller
    /// was given with it, if it was. `batch` is room to encode it in, for the caller to use again: what it holds before and after
    /// means nothing. The hash of the key is put into `draft`, where it lies, if it was not at hand. Errors: also what the keeper refuses.
    #[inline]
    pub fn commit_one(
        &self,
        batch: &mut Batch,
        draft: &mut Draft<'_>,
        seal: Option<Seal>,
        durability: Durability,
        (who, verb): (Option<&Session>, Verb),
    ) -> Result<Seqno> {
        let rules = self.db.rules();
        if rules & 1 == 0 && seal.is_none() {
            push_unsealed(batch, draft, self.db.companions())?;
            if let Some(last) = self.db.commit_unheard(batch, durability, rules)? {
                return Ok(last);
            }
        }
        let single = Single { draft: *draft, seal, verb, who, durability }; // a copy, so that the way above needs none of it in memory
        self.shared.hooks.commit_one(batch, &single, rules)
    }

    /// Creates a family; what was registered of one of that name holds for it.
    pub fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        self.shared.hooks.create_family(name, options)
    }

    /// Drops a family. The events of its rows stay, those that wait in memory too, and with them old values that were kept with
    /// the rows; so do the registrations.
    pub fn drop_family(&self, name: &str, who: Option<&Session>) -> Result<()> {
        self.shared.hooks.drop_family(name, who)
    }

    /// Opens a session; an event where that is registered of `engine:session`. Errors: `Invalid` for a name that cannot be; as of a
    /// commit for the event.
    pub fn session(&self, identity: Identity) -> Result<Session> {
        let session = self.shared.hooks.witness.sessions.open(identity)?;
        self.tell_session(&session, Operation::SESSION_OPEN)?;
        Ok(session)
    }

    /// Somebody says that a session has ended: an event where that is registered of `engine:session`, and nothing else. Errors: as of
    /// a commit.
    pub fn close_session(&self, session: &Session) -> Result<()> {
        if session.is(&Session::ANONYMOUS) { Ok(()) } else { self.tell_session(session, Operation::SESSION_CLOSE) }
    }

    fn tell_session(&self, who: &Session, operation: Operation) -> Result<()> {
        self.record_watched((SESSION, operation), Some(who))
    }

    /// The event of an open for writing, if that is registered. A failed write of it is left out: the store still opens, and the
    /// next write fails for the same reason and returns it.
    fn record_open(&self) {
        let _ = self.record_watched((STORE, Operation::ENGINE_OPEN), None);
    }

    /// Commits an event of a part of the engine, if that is registered and the store can be written.
    fn record_watched(&self, (part, operation): (&str, Operation), who: Option<&Session>) -> Result<()> {
        let hooks = &self.shared.hooks;
        if hooks.db.rules() & 1 == 0 || hooks.db.is_read_only() {
            return Ok(());
        }
        let target = Target::Engine(part.to_owned());
        let snapshot = hooks.matching.load();
        let Some(watching) = snapshot.find(&target, operation) else { return Ok(()) };
        let make = |now| event_at(now, watching, (&target, operation), Payload::new(), who);
        hooks.add(hooks.db.settings().durability, retention_of(watching), make).map(|_| ())
    }

    /// Reads a target as people write it. Errors: `Invalid`.
    pub fn target(&self, text: &str) -> Result<Target> {
        Target::parse(text, self.schema())
    }

    /// A target as people write it.
    pub fn text(&self, target: &Target) -> String {
        target.text(self.schema())
    }

    /// The operation that a name means. Errors: `Invalid` if it means none.
    pub fn operation(&self, name: &str) -> Result<Operation> {
        self.shared.operations.read().unwrap_or_else(PoisonError::into_inner).named(name)
    }

    /// The operations, those that were defined among them.
    pub fn operations(&self) -> Operations {
        self.shared.operations.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Defines an operation of the embedder's own, or finds it; the name is kept. Errors: `Invalid` for a name that cannot be or means
    /// something else, or a session that may not register it anywhere.
    pub fn define(&self, name: &str, who: Option<&Session>) -> Result<Operation> {
        // Who is asked, and who hears of the commit, may look operations up: they are locked for the assignment alone.
        let who = who.unwrap_or(&Session::ANONYMOUS);
        let operation = self.operations().define(name)?;
        let may = self.shared.authorizer.can_register(who, &Target::Cluster, Some(operation));
        allowed(may, who, "define operations for", &Target::Cluster)?;
        let _one_at_a_time = self.shared.defining.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.operations();
        let is_new = !next.contains(operation);
        next.define(name)?;
        if is_new {
            let (key, value) = Operations::row(operation, name);
            let db = &self.shared.hooks.db;
            db.commit(&mut one_row(db, SCHEMA_ID, &key, &value)?, db.settings().durability)?;
            *self.shared.operations.write().unwrap_or_else(PoisonError::into_inner) = next;
        }
        Ok(operation)
    }

    /// From now on an operation (none: any) on a target is logged: every commit after this one's, none before. `options` none: what
    /// suits the pair. To register a pair again changes its options. Durable when it returns. True if it is new. Errors: `Invalid` for what is not there (a
    /// row need not be), an operation that nobody defined, a pair that cannot occur, options that do not go together, or a session that may not.
    pub fn register(
        &self,
        target: &Target,
        operation: Option<Operation>,
        options: Option<Options>,
        who: Option<&Session>,
    ) -> Result<bool> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        check_target(&self.shared.hooks.db, self.schema(), target)?;
        if let Some(operation) = operation
            && !self.operations().contains(operation)
        {
            return Err(Error::invalid(format!("there is no {operation:?}: nobody defined it")));
        }
        let options = options.unwrap_or_else(|| Options::suited(target, operation));
        check_options(&options)?;
        if let Some(why) = why_never(target, operation, options.scope) {
            return Err(Error::invalid(format!("a registration on {} would log nothing: {why}", self.text(target))));
        }
        allowed(self.shared.authorizer.can_register(who, target, operation), who, "register", target)?;
        if options.mode == Mode::Async {
            self.start_thread()?;
        }
        let registration = Registration { target: target.clone(), operation, options };
        let said = self.said_of(operation);
        self.shared.hooks.add_registration(registration, said, Some(who))
    }

    /// The pair is not logged any more; its events stay. False if it was not registered.
    pub fn unregister(&self, target: &Target, operation: Option<Operation>, who: Option<&Session>) -> Result<bool> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        target.check()?;
        allowed(self.shared.authorizer.can_register(who, target, operation), who, "unregister", target)?;
        let said = self.said_of(operation);
        self.shared.hooks.delete_registration(target, operation, said, Some(who))
    }

    /// What the event of a change of the registry says of the pair beside its target: the operation by its name, `*` for any.
    fn said_of(&self, operation: Option<Operation>) -> Payload {
        let name = operation.map_or_else(|| ANY.to_owned(), |operation| self.operations().name(operation));
        Payload::new().with(Field::Setting(("operation".to_owned(), name)))
    }

    /// True if an operation on a target is logged.
    pub fn is_registered(&self, target: &Target, operation: Operation) -> bool {
        self.shared.hooks.matching.load().find(target, operation).is_some()
    }

    /// Everything that is registered, by target and operation.
    pub fn registrations(&self) -> Vec<Registration> {
        let mut registrations = self.shared.hooks.matching.load().registrations().to_vec();
        registrations.sort_by(|a, b| (&a.target, a.operation).cmp(&(&b.target, b.operation)));
        registrations
    }

    /// Takes up what another process has registered and defined meanwhile, in a store that is only read and has caught up with it. Errors: as of
    /// reads.
    pub fn refresh(&self) -> Result<()> {
        let mut operations = self.shared.operations.write().unwrap_or_else(PoisonError::into_inner);
        *operations = operations_of(&self.db)?;
        self.shared.hooks.begin(registrations_of(&self.db)?)
    }

    /// All events of a target itself, by operation and then by time.
    pub fn query_all(
        &self,
        target: &Target,
        operation: Option<Operation>,
        who: Option<&Session>,
    ) -> Result<Vec<Event>> {
        let query = Query { operation, ..Query::of(target.clone()) };
        self.log_query(&query, &Paging::ALL, At::Latest, who).map(|page| page.events)
    }

    /// The latest event of a target itself, of one operation or any.
    pub fn query_latest(
        &self,
        target: &Target,
        operation: Option<Operation>,
        who: Option<&Session>,
    ) -> Result<Option<Event>> {
        self.log_latest(&Query { operation, ..Query::of(target.clone()) }, At::Latest, who)
    }

    /// The events that a query asks for, a page at a time. Those of mode async are there once they are written (`drain`). Errors:
    /// `Invalid` for what is no target, a page that is none of this query's, or a session that may not.
    pub fn log_query(&self, query: &Query, paging: &Paging, at: At<'_>, who: Option<&Session>) -> Result<Page> {
        self.may_read(who, &query.target)?;
        self.reading(at, |reading| reading.page(&query.target, query.plan()?, paging))
    }

    /// The latest event that a query asks for; what lies below its target is not looked at.
    pub fn log_latest(&self, query: &Query, at: At<'_>, who: Option<&Session>) -> Result<Option<Event>> {
        self.may_read(who, &query.target)?;
        self.reading(at, |reading| reading.latest(query))
    }

    /// Adds an event, whatever the mode in a commit of its own. `time` none: now. Gives the seqno of that commit. Errors: `Invalid`
    /// if the pair is not registered, or the session may not.
    pub fn log_add(
        &self,
        target: &Target,
        operation: Operation,
        time: Option<Time>,
        payload: Payload,
        who: Option<&Session>,
    ) -> Result<Seqno> {
        let (hooks, who) = (&self.shared.hooks, who.unwrap_or(&Session::ANONYMOUS));
        target.check()?;
        let snapshot = hooks.matching.load();
        let Some(watching) = snapshot.find(target, operation) else {
            let named = self.operations().name(operation);
            return Err(Error::invalid(format!("{named} of {} is not registered", self.text(target))));
        };
        allowed(self.shared.authorizer.can_add_to_log(who, target, operation), who, "add events to", target)?;
        let make = |now: Time| event_at(time.unwrap_or(now), watching, (target, operation), payload.clone(), Some(who));
        make(Time::FIRST).encode()?;
        let retention = retention_of(watching);
        hooks.add(hooks.db.settings().durability, retention, make)
    }

    /// Deletes the events that a query asks for, as of now; how many there were. Those of the engine itself that are not rows yet
    /// stay. Rows of memtables are written to tables first. Errors: `Invalid` for a session that may not.
    pub fn log_delete(&self, query: &Query, who: Option<&Session>) -> Result<u64> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        query.target.check()?;
        allowed(self.shared.authorizer.can_delete_log(who, &query.target), who, "delete events of", &query.target)?;
        self.drain()?;
        let durability = self.shared.hooks.db.settings().durability;
        self.reading(At::Latest, |reading| reading.delete(query, durability))
    }

    /// Where a key is watched, and why it is what it is: all its events, oldest first.
    pub fn provenance(&self, family: &Family, key: &[u8], who: Option<&Session>) -> Result<Provenance> {
        let target = Target::key(family.name(), key);
        self.may_read(who, &target)?;
        let snapshot = self.shared.hooks.matching.load();
        self.reading(At::Latest, |reading| provenance::provenance(reading, &snapshot, target))
    }

    /// The events of the keys that the family's order has within bounds, a page at a time, as they stand in the log.
    pub fn query_range(
        &self,
        family: &Family,
        bounds: &Bounds,
        paging: &Paging,
        at: At<'_>,
        who: Option<&Session>,
    ) -> Result<Page> {
        self.may_read(who, &Target::family(family.name()))?;
        self.reading(at, |reading| reading.page_of_range(family, bounds, paging))
    }

    /// Everything that is known of a key: value, verdict, who and when, its events, where it lies and how that came to be.
    pub fn explain(&self, family: &Family, key: &[u8], who: Option<&Session>) -> Result<Explanation> {
        self.may_read(who, &Target::key(family.name(), key))?;
        let db = &self.shared.hooks.db;
        let session = |id| self.shared.session(id);
        self.reading(At::Latest, |reading| provenance::explain(db, reading, (family, key), &session))
    }

    /// How a table file came to be: what wrote it, what that read, and so on back.
    pub fn lineage(&self, file: Uid, who: Option<&Session>) -> Result<Lineage> {
        self.may_read(who, &Target::TableFile(file))?;
        self.reading(At::Latest, |reading| provenance::lineage(reading, file))
    }

    /// Notes what was done to the store from above the engine: export, scrub, repair, restore, quarantine. Errors: `Invalid` for any
    /// other operation.
    pub fn note(&self, operation: Operation, payload: Payload) -> Result<()> {
        if operation.group() != Group::Engine {
            return Err(Error::invalid(format!("{operation:?} is nothing that is done to a store")));
        }
        let (db, witness) = (&self.shared.hooks.db, &self.shared.hooks.witness);
        let seqno = db.snapshot()?.seqno();
        db.note(Line { operation, time: witness.clock.now(), seqno, payload }.encode()?)
    }

    /// Which tables and spans of keys are kept out of reach, and which were, by family: as it stands in `system_metadata.quarantine`.
    pub fn quarantined(&self) -> Result<Vec<Case>> {
        quarantine::read(&self.shared.hooks.db)
    }

    /// Waits until every event of mode async that was taken so far is in the log.
    pub fn drain(&self) -> Result<()> {
        while self.shared.hooks.write_waiting()? {}
        Ok(())
    }

    /// How things stand with events of mode async.
    pub fn ring(&self) -> RingStats {
        self.shared.hooks.queue.stats()
    }

    /// Before the store is closed: writes what waits, and ends the registrar's own thread. Errors: `Invalid` in a forked child, where
    /// there is no such thread and nothing is its own to write.
    pub fn close(&self) -> Result<()> {
        if is_forked(&self.shared.hooks.db) {
            return self.shared.hooks.db.snapshot().map(|_| ());
        }
        // Who passed the face's look at "closed" may still commit: with its event beside it, or its row is waited for.
        self.shared.hooks.queue.shut();
        let outcome = self.shared.hooks.write_claimed();
        self.shared.hooks.queue.stop();
        if let Some(thread) = lock(&self.shared.thread).take() {
            let _ = thread.join();
        }
        outcome
    }

    /// Starts the thread that writes events of mode async, unless it runs or whoever drives the store takes its steps.
    fn start_thread(&self) -> Result<()> {
        let mut thread = lock(&self.shared.thread);
        let hooks = &self.shared.hooks;
        if thread.is_some() || hooks.work == work::Mode::Stepped || hooks.db.is_read_only() {
            return Ok(());
        }
        let (queue, hooks) = (hooks.queue.clone(), Arc::downgrade(hooks));
        let name = "waxseal-events";
        let started = work::spawn(name, false, move || write_events(&queue, &hooks));
        *thread = Some(started.during(|| format!("starting {name}"))?);
        Ok(())
    }

    fn schema(&self) -> &dyn Schema {
        &*self.shared.catalogue
    }

    fn may_read(&self, who: Option<&Session>, target: &Target) -> Result<()> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        target.check()?;
        allowed(self.shared.authorizer.can_read_log(who, target), who, "read the events of", target)
    }

    fn reading<T>(&self, at: At<'_>, read: impl FnOnce(&Reading<'_>) -> Result<T>) -> Result<T> {
        let session = |id| self.shared.session(id);
        let making = Making { session: &session, now: self.shared.clock.wall_micros() };
        read(&Reading::new(&self.shared.hooks.db, at, making)?)
    }
}

impl Shared {
    /// The session of a number in a record.
    fn session(&self, id: u64) -> Session {
        let db = &self.hooks.db;
        let found = self.hooks.witness.session(id, |key, visit| {
            let sessions = family(db, SESSIONS)?;
            db.get_checked(&sessions, key, At::Latest, Verify::Always, &mut |record| visit(record.value))
        });
        found.unwrap_or_else(|_| Session::unknown(id))
    }
}

/// Writes events of mode async until the ring or the registrar ends.
fn write_events(queue: &Queue, hooks: &Weak<Hooks>) {
    let mut failed = false;
    while queue.wait_for_rows(failed) {
        let Some(hooks) = hooks.upgrade() else { return };
        failed = hooks.write_waiting().is_err();
    }
}

impl std::fmt::Debug for Registrar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registrar").field("db", &self.shared.hooks.db).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}
