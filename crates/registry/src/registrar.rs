//! The registrar: everything that registry and log can do, in one handle.
//!
//! It is made in two steps, since the engine asks for parts of it while it opens: `Registrar::prepare` before, `Prepared::attach`
//! once the store is open and before anybody writes. From then on every write goes through `commit`; while nothing is registered
//! that is the engine's own commit and one load more.

use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::env::{self, work};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::read::Bounds;
use waxseal_lsm::record::Seqno;
use waxseal_meta::Sealer;

use crate::clock::Time;
use crate::event::Event;
use crate::key::Query;
use crate::log::{Page, Paging};
use crate::modes::{Ring, RingStats};
use crate::operation::{Operation, Operations};
use crate::payload::Payload;
use crate::provenance::{Explanation, Lineage, Provenance};
use crate::registration::{Options, Registration};
use crate::rights::{Authorizer, Everybody};
use crate::sessions::{Identity, Session};
use crate::target::{NoTables, Schema, Target};

/// What the caller calls a write to a row: all of them are the same to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// It says that the row was not there.
    Insert,
    /// It says nothing of what was there.
    Update,
    /// The row goes.
    Delete,
}

/// Which tables there are.
pub trait Catalogue: Schema + Send + Sync {}
impl<T: Schema + Send + Sync> Catalogue for T {}

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

/// What the store is to be opened with: goes into `db::Parts` and `Sealer::emitting`, then `attach`.
pub struct Prepared {
    /// The system families, for `Parts::families`.
    pub families: Vec<(String, CfOptions)>,
}

impl Prepared {
    /// The store is open: reads what is registered. Nobody may have written to it yet. `sealer` is the store's keeper.
    pub fn attach(self, db: Db, sealer: Arc<Sealer>) -> Result<Registrar> {
        let _ = sealer;
        Ok(Registrar { db })
    }
}

/// Registry and log of one store. Clones share it, and may be used from any thread.
///
/// `who` is the session in whose name something is done; none: nobody in particular.
#[derive(Clone)]
pub struct Registrar {
    db: Db,
}

impl Registrar {
    /// The first step.
    pub fn prepare(setup: Setup) -> Prepared {
        let _ = setup;
        Prepared { families: Vec::new() }
    }

    /// Commits a batch, and what is to be known of it: every write of a user goes this way. `verbs` says what the operations are
    /// called, in order; puts beyond them are updates, deletes deletes. The batch itself is left as it was. Errors: as the engine's.
    #[inline]
    pub fn commit(
        &self,
        batch: &mut Batch,
        durability: Durability,
        who: Option<&Session>,
        verbs: &[Verb],
    ) -> Result<Seqno> {
        let _ = (who, verbs);
        self.db.commit(batch, durability)
    }

    /// Creates a family; what was registered of one of that name holds for it.
    pub fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        self.db.create_family(name, options)
    }

    /// Drops a family. The events of its rows stay, those that wait in memory too; so do the registrations.
    pub fn drop_family(&self, name: &str, who: Option<&Session>) -> Result<()> {
        let _ = who;
        self.db.drop_family(name)
    }

    /// Opens a session. Errors: `Invalid` for a name that cannot be; as of a commit if it is a new one.
    pub fn session(&self, identity: Identity) -> Result<Session> {
        let _ = identity;
        Err(unbuilt())
    }

    /// Reads a target as people write it. Errors: `Invalid`.
    pub fn target(&self, text: &str) -> Result<Target> {
        let _ = text;
        Err(unbuilt())
    }

    /// A target as people write it.
    pub fn text(&self, target: &Target) -> String {
        target.text(&NoTables)
    }

    /// The operation that a name means. Errors: `Invalid` if it means none.
    pub fn operation(&self, name: &str) -> Result<Operation> {
        let _ = name;
        Err(unbuilt())
    }

    /// The operations, those that were defined among them.
    pub fn operations(&self) -> Operations {
        Operations::new()
    }

    /// Defines an operation of the embedder's own; the name is kept. Errors: `Invalid` for a name that cannot be or means something.
    pub fn define(&self, name: &str, who: Option<&Session>) -> Result<Operation> {
        let _ = (name, who);
        Err(unbuilt())
    }

    /// From now on an operation (none: any) on a target is logged: every commit after this one's seqno, none before. `options`
    /// none: what suits the pair. To register a pair again changes its options. True if it is new. Errors: `Invalid` for what is
    /// not there (a key need not be), options that do not go together, or a session that may not.
    pub fn register(
        &self,
        target: &Target,
        operation: Option<Operation>,
        options: Option<Options>,
        who: Option<&Session>,
    ) -> Result<bool> {
        let _ = (target, operation, options, who);
        Err(unbuilt())
    }

    /// The pair is not logged any more; its events stay. False if it was not registered.
    pub fn unregister(&self, target: &Target, operation: Option<Operation>, who: Option<&Session>) -> Result<bool> {
        let _ = (target, operation, who);
        Err(unbuilt())
    }

    /// True if an operation on a target is logged.
    pub fn is_registered(&self, target: &Target, operation: Operation) -> bool {
        let _ = (target, operation);
        false
    }

    /// Everything that is registered, by target and operation.
    pub fn registrations(&self) -> Vec<Registration> {
        Vec::new()
    }

    /// All events of a target itself, by operation and then by time.
    pub fn query_all(
        &self,
        target: &Target,
        operation: Option<Operation>,
        who: Option<&Session>,
    ) -> Result<Vec<Event>> {
        let _ = (target, operation, who);
        Err(unbuilt())
    }

    /// The latest event of a target itself, of one operation or any.
    pub fn query_latest(
        &self,
        target: &Target,
        operation: Option<Operation>,
        who: Option<&Session>,
    ) -> Result<Option<Event>> {
        let _ = (target, operation, who);
        Err(unbuilt())
    }

    /// The events that a query asks for, a page at a time.
    pub fn log_query(&self, query: &Query, paging: &Paging, at: At<'_>, who: Option<&Session>) -> Result<Page> {
        let _ = (query, paging, at, who);
        Err(unbuilt())
    }

    /// The latest event that a query asks for; what lies below its target is not looked at.
    pub fn log_latest(&self, query: &Query, at: At<'_>, who: Option<&Session>) -> Result<Option<Event>> {
        let _ = (query, at, who);
        Err(unbuilt())
    }

    /// Adds an event. `time` none: now. Errors: `Invalid` if the pair is not registered, or the session may not.
    pub fn log_add(
        &self,
        target: &Target,
        operation: Operation,
        time: Option<Time>,
        payload: Payload,
        who: Option<&Session>,
    ) -> Result<Seqno> {
        let _ = (target, operation, time, payload, who);
        Err(unbuilt())
    }

    /// Deletes the events that a query asks for; how many there were. Those of the engine itself stay.
    pub fn log_delete(&self, query: &Query, who: Option<&Session>) -> Result<u64> {
        let _ = (query, who);
        Err(unbuilt())
    }

    /// Where a key is watched, and why it is what it is: all its events.
    pub fn provenance(&self, family: &Family, key: &[u8], who: Option<&Session>) -> Result<Provenance> {
        let _ = (family, key, who);
        Err(unbuilt())
    }

    /// The events of the keys of a family within bounds, a page at a time.
    pub fn query_range(
        &self,
        family: &Family,
        bounds: &Bounds,
        paging: &Paging,
        at: At<'_>,
        who: Option<&Session>,
    ) -> Result<Page> {
        let _ = (family, bounds, paging, at, who);
        Err(unbuilt())
    }

    /// Everything that is known of a key: value, verdict, who and when, its events, where it lies and how that came to be.
    pub fn explain(&self, family: &Family, key: &[u8], who: Option<&Session>) -> Result<Explanation> {
        let _ = (family, key, who);
        Err(unbuilt())
    }

    /// How a table file came to be: what wrote it, what that read, and so on back.
    pub fn lineage(&self, file: Uid, who: Option<&Session>) -> Result<Lineage> {
        let _ = (file, who);
        Err(unbuilt())
    }

    /// Notes what was done to the store from above the engine: export, scrub, repair, restore.
    pub fn note(&self, operation: Operation, payload: Payload) -> Result<()> {
        let _ = (operation, payload);
        Err(unbuilt())
    }

    /// Waits until every event of mode async that was taken so far is in the log.
    pub fn drain(&self) -> Result<()> {
        Err(unbuilt())
    }

    /// How things stand with events of mode async.
    pub fn ring(&self) -> RingStats {
        RingStats::default()
    }

    /// Before the store is closed: writes what waits, and ends the registrar's own thread.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[cold]
fn unbuilt() -> Error {
    Error::invalid("not built yet")
}

impl std::fmt::Debug for Registrar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registrar").field("db", &self.db).finish_non_exhaustive()
    }
}
