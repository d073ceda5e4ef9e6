//! The registrar: the public handle to registry and log.
//!
//! It is created in two steps, because the engine needs parts of it while it opens: `Registrar::prepare` before the
//! open, and `Prepared::attach` after the open and before the first write. From then on every write uses `commit`.
//! While nothing is registered, that is the engine's own commit plus one load.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Condition, Db, Family, Precondition};
use waxseal_lsm::env;
use waxseal_lsm::env::work::{self, lock};
use waxseal_lsm::error::{Error, IoContext, Result};
use waxseal_lsm::options::{CfOptions, Durability, Verify};
use waxseal_lsm::planted;
use waxseal_lsm::record::Seqno;
use waxseal_lsm::seam::{EngineLog, PendingWrite};
use waxseal_meta::{Emitter, Seal, Sealer};

use crate::commit_gate::CommitGate;
use crate::described::Notes;
use crate::emission::{event_at, retention_of};
use crate::engine_log::EngineLine;
use crate::families::{
    Lost, QUARANTINE, REGISTRY, SCHEMA, SCHEMA_ID, SESSIONS, family, one_row, readable_rows, rows_and_losses,
    system_families,
};
use crate::hooks::{Hooks, is_forked, is_watched, next_number};
use crate::key::read_registry_key;
use crate::matching::{Matching, RegistrySnapshot};
use crate::modes::{Ring, RingStats, RowQueue};
use crate::occurrence::why_never;
use crate::operation::{Operation, OperationGroup, Operations};
use crate::payload::{Field, Payload};
use crate::quarantine::{self, Case};
use crate::registration::{Mode, Options, Registration, Scope, check_options};
use crate::registry::check_target;
use crate::rights::{Authorizer, Everybody, allowed};
use crate::sessions::{Identity, Session, read_session_key};
use crate::single::{Single, push_unsealed};
use crate::target::{NoTables, Schema, Target};
use crate::witness::Witness;

pub use waxseal_meta::stamp::StampVerb;

/// The tables that targets may name.
pub trait Catalogue: Schema + Send + Sync {}
impl<T: Schema + Send + Sync> Catalogue for T {}

/// The engine part of the events of sessions.
const SESSION: &str = "session";

/// The engine part of the event of an open.
const STORE: &str = "store";

/// The text for any operation in events.
const ANY: &str = "*";

/// The parameters of a registrar.
#[derive(Clone)]
pub struct Setup {
    /// The clock of the store's `Env`.
    pub clock: Arc<dyn env::Clock>,
    /// The `work` of the store's `Env`: rows of mode async are written by a thread, or only by `drain`.
    pub work: work::Mode,
    /// The authorizer.
    pub authorizer: Arc<dyn Authorizer>,
    /// The tables that targets may name.
    pub catalogue: Arc<dyn Catalogue>,
    /// The ring in which rows of mode async wait.
    pub ring: Ring,
}

impl Setup {
    /// Returns the default parameters: no restrictions, no tables, the default ring.
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

/// The parts of a registrar that the engine's open needs; `attach` follows.
pub struct Prepared {
    /// The system families, for `Parts::families`.
    pub families: Vec<(String, CfOptions)>,
    /// For `Parts::engine_log`.
    pub engine_log: Arc<dyn EngineLog>,
    /// For `Sealer::emitting`.
    pub emitter: Arc<dyn Emitter>,
    setup: Setup,
    witness: Arc<Witness>,
}

impl Prepared {
    /// Completes the registrar after the open: reads the registrations. No write may have occurred yet. `sealer` is the
    /// store's record protector, and emits through `emitter`. Errors: those of reads.
    pub fn attach(self, db: Db, sealer: Arc<Sealer>) -> Result<Registrar> {
        let Prepared { setup, witness, .. } = self;
        for (_, line) in db.engine_log() {
            EngineLine::decode(&line).map(|line| witness.meet(line.time))?;
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
            matching: Matching::new(RegistrySnapshot::empty()),
            gate: CommitGate::default(),
            change: Mutex::default(),
            log_rows: Mutex::default(),
            queue: Arc::new(RowQueue::new(setup.ring)),
            work: setup.work,
            again: Default::default(),
        };
        let any_async = registrations.iter().any(|registration| registration.options.mode == Mode::Async);
        hooks.begin(registrations)?;
        let shared = RegistrarShared {
            hooks: Arc::new(hooks),
            operations: RwLock::new(operations),
            defining: Mutex::default(),
            authorizer: setup.authorizer,
            catalogue: RwLock::new(setup.catalogue),
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

/// The operations that a store knows. A lost row refuses no open and no write: events, registrations and queries have
/// the number of an operation, and its name makes that number again when it is defined again.
fn operations_of(db: &Db) -> Result<Operations> {
    let mut operations = Operations::new();
    let lost = rows_and_losses(db, SCHEMA, &mut |key, value| operations.load(key, value).map(|_| ()))?;
    if !lost.is_empty() {
        operations.lose_names();
    }
    Ok(operations)
}

/// Reads the registrations of a store. Where registry rows are lost, a substitute registration covers everything that
/// they may have covered, so no event is missed and no write is refused. It ends when the loss is accepted, or when its
/// pair is registered or unregistered.
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

/// Returns a registration that covers at least what the lost rows of a range covered: their own pair if the range has a
/// single key, else every operation in the store.
fn stand_in_for(lost: &Lost) -> Registration {
    let only = lost.as_ref().filter(|(first, last)| first == last);
    let pair = only.and_then(|(key, _)| read_registry_key(key).ok());
    let (target, operation) = pair.unwrap_or((Target::Cluster, None));
    Registration { target, operation, options: Options { scope: Scope::Subtree, ..Options::default() } }
}

/// Loads the sessions, and prevents a session number from being assigned twice. Session rows may have been lost if
/// their family has, or had, a quarantine case or is partly unreadable, or if the quarantine family that would show
/// this is damaged.
fn take_up_sessions(db: &Db, witness: &Witness) -> Result<()> {
    let (cases, incomplete) = match db.is_read_only() {
        true => (Vec::new(), false),
        false => quarantine::make_up(db, &witness.clock)?,
    };
    let needed: &[&str] = planted!(QuarantineTrustedWithoutItsRows, &[SESSIONS], &[SESSIONS, QUARANTINE]);
    let lost = cases.iter().filter(|case| needed.contains(&case.family.as_str()));
    lost.for_each(|case| witness.sessions.leap(case.until.as_ref().map_or(case.since, |(until, _)| *until)));
    let damaged = readable_rows(db, SESSIONS, &mut |key, value| {
        witness.sessions.load(read_session_key(key)?, Identity::read(value)?).map(|_| ())
    })?;
    if damaged || incomplete {
        witness.sessions.leap(witness.clock.now());
    }
    Ok(())
}

/// The handle to registry and log of one store. Clones share it and may be used from any thread.
///
/// `who` is the session in whose name a call is made; `None` means anonymous. The caller is responsible for its
/// authenticity.
#[derive(Clone)]
pub struct Registrar {
    /// A copy of the handle in `shared`, so that an unregistered write accesses nothing else.
    db: Db,
    pub(crate) shared: Arc<RegistrarShared>,
}

/// The parts that all clones of a registrar share.
pub(crate) struct RegistrarShared {
    pub(crate) hooks: Arc<Hooks>,
    operations: RwLock<Operations>,
    /// Held while an operation is defined, so that no two names get the same number.
    defining: Mutex<()>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    catalogue: RwLock<Arc<dyn Catalogue>>,
    pub(crate) clock: Arc<dyn env::Clock>,
    /// Writes events of mode async; started by the first registration of that mode.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Registrar {
    /// Creates the parts that the engine's open needs.
    pub fn prepare(setup: Setup) -> Prepared {
        let witness = Arc::new(Witness::new(setup.clock.clone()));
        let (engine_log, emitter) = (witness.clone(), witness.clone());
        Prepared { families: system_families(), engine_log, emitter, setup, witness }
    }

    /// Commits a batch, with the events of registered operations; every write of a user uses it. `verbs` names the
    /// operations in order. Puts beyond its end are updates, and deletes are always deletes. The batch itself is
    /// unchanged. Returns the seqno of its last operation. Errors: as for the engine's commit.
    #[inline]
    pub fn commit(
        &self,
        batch: &mut Batch,
        durability: Durability,
        who: Option<&Session>,
        verbs: &[StampVerb],
    ) -> Result<Seqno> {
        let epoch = self.db.epoch();
        if !is_watched(epoch)
            && let Some(last) = self.db.commit_if(batch, durability, Precondition::epoch(epoch))?
        {
            return Ok(last);
        }
        self.shared.hooks.commit(batch, durability, who, verbs)
    }

    /// Commits a batch like `commit`, with all that its caller says of it.
    pub fn commit_noted(&self, batch: &mut Batch, durability: Durability, notes: Notes<'_>) -> Result<Seqno> {
        let epoch = self.db.epoch();
        if !is_watched(epoch)
            && let Some(last) = self.db.commit_if(batch, durability, Precondition::epoch(epoch))?
        {
            return Ok(last);
        }
        self.shared.hooks.commit_noted(batch, durability, notes)
    }

    /// Commits a batch like `commit_noted` while a condition holds: repeats rejected attempts until one succeeds. Returns
    /// `None`, and changes nothing, once the condition no longer holds. Errors: also those of the condition.
    pub fn commit_when(
        &self,
        batch: &mut Batch,
        durability: Durability,
        notes: Notes<'_>,
        condition: &mut dyn Condition,
    ) -> Result<Option<Seqno>> {
        loop {
            let epoch = self.db.epoch();
            if is_watched(epoch) {
                return self.shared.hooks.commit_when(batch, durability, notes, condition);
            }
            condition.prepare()?;
            let Some(under) = condition.precondition()? else { return Ok(None) };
            if let Some(last) = self.db.commit_if(batch, durability, under.in_epoch(epoch))? {
                return Ok(Some(last));
            }
        }
    }

    /// Commits one operation like `commit`, and also encodes it: `pending` is the operation, `seal` the caller's seal
    /// if any. `batch` is a reusable buffer; its content before and after the call is meaningless. If `pending` lacks
    /// the hash of its key, the hash is computed and stored there. Errors: also those of the record protector.
    #[inline]
    pub fn commit_one(
        &self,
        batch: &mut Batch,
        pending: &mut PendingWrite<'_>,
        seal: Option<Seal>,
        durability: Durability,
        (who, verb): (Option<&Session>, StampVerb),
    ) -> Result<Seqno> {
        let epoch = self.db.epoch();
        if !is_watched(epoch) && seal.is_none() {
            push_unsealed(batch, pending, self.db.companions())?;
            if let Some(last) = self.db.commit_if(batch, durability, Precondition::epoch(epoch))? {
                return Ok(last);
            }
        }
        // a copy: the path above stays in registers
        let single = Single { pending: *pending, seal, verb, who, durability };
        self.shared.hooks.commit_one(batch, &single, epoch)
    }

    /// Creates a family. Existing registrations that name it apply to it. Errors: `Invalid` for the name of a keyspace,
    /// since the text of a target could not tell them apart.
    pub fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        if self.catalogue().is_keyspace(name) {
            return Err(Error::invalid(format!("a keyspace has the name of the column family, {name}")));
        }
        self.shared.hooks.create_family(name, options)
    }

    /// Drops a family. The events of its rows stay, including those still in memory and the old values kept in the
    /// family; so do the registrations.
    pub fn drop_family(&self, name: &str, who: Option<&Session>) -> Result<()> {
        self.shared.hooks.drop_family(name, false, who)
    }

    /// Drops a family of a layer that describes its operations: registrations of the whole store do not log it.
    pub fn drop_described_family(&self, name: &str, who: Option<&Session>) -> Result<()> {
        self.shared.hooks.drop_family(name, true, who)
    }

    /// Opens a session, and logs an event if that is registered on `engine:session`. Errors: `Invalid` for a malformed
    /// name; as for a commit if an event is logged.
    pub fn session(&self, identity: Identity) -> Result<Session> {
        let session = self.shared.hooks.witness.sessions.open(identity)?;
        self.log_session(&session, Operation::SESSION_OPEN)?;
        Ok(session)
    }

    /// Logs the end of a session, if that is registered on `engine:session`, and does nothing else. Errors: as for a
    /// commit.
    pub fn close_session(&self, session: &Session) -> Result<()> {
        if session.is(&Session::ANONYMOUS) { Ok(()) } else { self.log_session(session, Operation::SESSION_CLOSE) }
    }

    fn log_session(&self, who: &Session, operation: Operation) -> Result<()> {
        self.record_watched((SESSION, operation), Some(who))
    }

    /// Logs an open for writing, if that is registered. A failure to write the event is ignored: the store still opens,
    /// and the next write fails for the same reason and returns the error.
    fn record_open(&self) {
        let _ = self.record_watched((STORE, Operation::ENGINE_OPEN), None);
    }

    /// Commits an event of an engine part, if that is registered and the store is writable.
    fn record_watched(&self, (part, operation): (&str, Operation), who: Option<&Session>) -> Result<()> {
        let hooks = &self.shared.hooks;
        if !is_watched(hooks.db.epoch()) || hooks.db.is_read_only() {
            return Ok(());
        }
        let target = Target::Engine(part.to_owned());
        let snapshot = hooks.matching.load();
        let Some(watching) = snapshot.find(&target, operation) else { return Ok(()) };
        let make = |now| event_at(now, watching, (&target, operation), Payload::new(), who);
        hooks.add(hooks.db.durability(), retention_of(watching), make).map(|_| ())
    }

    /// Parses a target. Errors: `Invalid`.
    pub fn target(&self, text: &str) -> Result<Target> {
        Target::parse(text, &*self.catalogue())
    }

    /// Formats a target as text.
    pub fn text(&self, target: &Target) -> String {
        target.text(&*self.catalogue())
    }

    /// Returns the operation with this name. Errors: `Invalid` for an unknown name.
    pub fn operation(&self, name: &str) -> Result<Operation> {
        self.shared.operations.read().unwrap_or_else(PoisonError::into_inner).named(name)
    }

    /// Returns the operations, including the defined ones.
    pub fn operations(&self) -> Operations {
        self.shared.operations.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Defines an embedder's operation, or returns it if it exists; the store keeps the name. Errors: `Invalid` for a
    /// name that is malformed or has another meaning, or if the session may not register the operation on the cluster.
    pub fn define(&self, name: &str, who: Option<&Session>) -> Result<Operation> {
        // The authorizer, and listeners of the commit, may look up operations: the lock is held only for the
        // assignment.
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
            db.commit(&mut one_row(db, SCHEMA_ID, &key, &value)?, db.durability())?;
            *self.shared.operations.write().unwrap_or_else(PoisonError::into_inner) = next;
        }
        Ok(operation)
    }

    /// Registers an operation (`None`: any) on a target: logging begins with the next commit after this one. `options`:
    /// `None` selects the pair's defaults. Registering a pair again changes its options. Durable when it returns.
    /// Returns true if the pair is new. Errors: `Invalid` for a target that does not exist (a row need not exist), an
    /// undefined operation, an operation that cannot occur there, incompatible options, or a session without
    /// authorization.
    pub fn register(
        &self,
        target: &Target,
        operation: Option<Operation>,
        options: Option<Options>,
        who: Option<&Session>,
    ) -> Result<bool> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        check_target(&self.shared.hooks.db, &*self.catalogue(), target)?;
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
        let payload = self.payload_of(operation);
        self.shared.hooks.add_registration(registration, payload, Some(who))
    }

    /// Stops logging a pair; its events stay. Returns false if the pair was not registered.
    pub fn unregister(&self, target: &Target, operation: Option<Operation>, who: Option<&Session>) -> Result<bool> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        target.check()?;
        allowed(self.shared.authorizer.can_register(who, target, operation), who, "unregister", target)?;
        let payload = self.payload_of(operation);
        self.shared.hooks.delete_registration(target, operation, payload, Some(who))
    }

    /// Returns the payload for the event of a registry change: the operation by its name, or `*` for any. The event's
    /// target is that of the pair.
    fn payload_of(&self, operation: Option<Operation>) -> Payload {
        let name = operation.map_or_else(|| ANY.to_owned(), |operation| self.operations().name(operation));
        Payload::new().with(Field::Setting(("operation".to_owned(), name)))
    }

    /// Returns true if an operation on a target is logged.
    pub fn is_registered(&self, target: &Target, operation: Operation) -> bool {
        self.shared.hooks.matching.load().find(target, operation).is_some()
    }

    /// Returns all registrations, ordered by target and operation.
    pub fn registrations(&self) -> Vec<Registration> {
        let mut registrations = self.shared.hooks.matching.load().registrations().to_vec();
        registrations.sort_by(|a, b| (&a.target, a.operation).cmp(&(&b.target, b.operation)));
        registrations
    }

    /// Loads the registrations and operations that another process has added meanwhile, in a read-only store that has
    /// caught up with it. Errors: those of reads.
    pub fn refresh(&self) -> Result<()> {
        let mut operations = self.shared.operations.write().unwrap_or_else(PoisonError::into_inner);
        *operations = operations_of(&self.db)?;
        self.shared.hooks.begin(registrations_of(&self.db)?)
    }

    /// Logs work done to the store above the engine: export, scrub, repair, restore, quarantine. Errors: `Invalid` for
    /// any other operation.
    pub fn note(&self, operation: Operation, payload: Payload) -> Result<()> {
        if operation.group() != OperationGroup::Engine {
            return Err(Error::invalid(format!("{operation:?} is nothing that is done to a store")));
        }
        let (db, witness) = (&self.shared.hooks.db, &self.shared.hooks.witness);
        let seqno = db.snapshot()?.seqno();
        db.note(EngineLine { operation, time: witness.clock.now(), seqno, payload }.encode()?)?;
        if operation == Operation::ENGINE_REPAIR {
            let _ = quarantine::trim(db, &witness.clock); // what stays for now leaves at the next open
        }
        Ok(())
    }

    /// Returns the current and past quarantined tables and lost ranges, by family, from `system_metadata.quarantine`.
    pub fn quarantined(&self) -> Result<Vec<Case>> {
        quarantine::read(&self.shared.hooks.db)
    }

    /// Waits until every event of mode async accepted so far is in the log.
    pub fn drain(&self) -> Result<()> {
        while self.shared.hooks.write_waiting()? {}
        Ok(())
    }

    /// Returns the statistics of events of mode async.
    pub fn ring(&self) -> RingStats {
        self.shared.hooks.queue.stats()
    }

    /// Runs before the store is closed: writes the waiting events and ends the registrar's thread. Errors: `Invalid` in
    /// a forked child, where that thread does not exist and the child owns no data to write.
    pub fn close(&self) -> Result<()> {
        if is_forked(&self.shared.hooks.db) {
            return self.shared.hooks.db.snapshot().map(|_| ());
        }
        // A caller that passed the check for "closed" may still commit. Its event is written with the operation, or its
        // row is waited for.
        self.shared.hooks.queue.shut();
        let outcome = self.shared.hooks.write_claimed();
        self.shared.hooks.queue.stop();
        if let Some(thread) = lock(&self.shared.thread).take() {
            let _ = thread.join();
        }
        outcome
    }

    /// Starts the thread that writes events of mode async, unless it runs already or the store is in stepped mode or
    /// read-only.
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

    /// Replaces the tables that targets may name.
    pub fn set_catalogue(&self, catalogue: Arc<dyn Catalogue>) {
        *self.shared.catalogue.write().unwrap_or_else(PoisonError::into_inner) = catalogue;
    }

    fn catalogue(&self) -> Arc<dyn Catalogue> {
        self.shared.catalogue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RegistrarShared {
    /// Returns the session with a number from a record.
    pub(crate) fn session(&self, id: u64) -> Session {
        let db = &self.hooks.db;
        let found = self.hooks.witness.session(id, |key, visit| {
            let sessions = family(db, SESSIONS)?;
            db.get_checked(&sessions, key, At::Latest, Verify::Always, &mut |record| visit(record.value))
        });
        found.unwrap_or_else(|_| Session::unknown(id))
    }
}

/// Writes events of mode async until the ring is stopped or the registrar is dropped.
fn write_events(queue: &RowQueue, hooks: &Weak<Hooks>) {
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
