//! Registry and log: the registered operations and their events. `waxseal_registry` implements them; this module passes
//! it the store and parses target and operation names.
//!
//! A *target* is anything with a name (a family `users`, a key `users.john`, the whole store `cluster:`, a table file,
//! ..). An *operation* can happen to a target (`Row.Update`, `Table.Drop`, `Engine.Compact`, ..). Once a pair is
//! [registered](Registry::register), every such operation adds an *event* to the log: target, operation, time,
//! session and commit. While nothing is registered, this costs a write one load and one comparison.
//!
//! Registry and log are stored in column families of the store: `system_metadata.registry`, `system_metadata.log` and
//! others. They can be read by name like any family, but only the store writes them. The engine's own work (recovery,
//! flushes, compactions, repairs, ..) is logged without registration.
//!
//! A store whose registry is damaged can still be opened and read. Because the registrations are unknown, writes and
//! calls to registry and log return `Corruption`, until the store is [repaired](crate::Db::repair) and reopened.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::At;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::Seqno;
use waxseal_registry::{Registrar, Session as Who};

use crate::db::Db;
use crate::inner::{ColumnFamily, Inner};
use crate::range::KeyRange;
use crate::snapshot::Snapshot;

pub use waxseal_lsm::checksum::Uid as FileUid;
pub use waxseal_registry::Options as RegisterOptions;
pub use waxseal_registry::key::LogKey;
pub use waxseal_registry::payload::{FileRef, TokenRange};
pub use waxseal_registry::quarantine::Item;
pub use waxseal_registry::target::{Schema, TableColumns, TableName, TargetPath};
pub use waxseal_registry::{
    Authorizer, Case, Catalogue, Event, EventChange, EventCounts, EventVersion, Everybody, Explanation, Field,
    Identity, Image, Lies, Lineage, Mode, Operation, OperationGroup, Page, Paging, Payload, Provenance, Query,
    Registration, Ring, RingStats, Scope, Session as Asker, Site, Step, Target, Time, Values, WhenFull,
};

/// Types that name a target: text in the syntax described at [`Target`], or a [`Target`].
pub trait ToTarget {
    #[doc(hidden)]
    fn to_target(&self, registrar: &Registrar) -> Result<Target>;
}

impl ToTarget for str {
    fn to_target(&self, registrar: &Registrar) -> Result<Target> {
        registrar.target(self)
    }
}

impl ToTarget for String {
    fn to_target(&self, registrar: &Registrar) -> Result<Target> {
        registrar.target(self)
    }
}

impl ToTarget for Cow<'_, str> {
    fn to_target(&self, registrar: &Registrar) -> Result<Target> {
        registrar.target(self)
    }
}

impl ToTarget for Target {
    fn to_target(&self, _: &Registrar) -> Result<Target> {
        self.check().map(|()| self.clone())
    }
}

impl<T: ToTarget + ?Sized> ToTarget for &T {
    fn to_target(&self, registrar: &Registrar) -> Result<Target> {
        (**self).to_target(registrar)
    }
}

/// Types that name an operation: its name, `*` for any, or an [`Operation`].
pub trait ToOperation {
    #[doc(hidden)]
    fn to_operation(&self, registrar: &Registrar) -> Result<Option<Operation>>;
}

/// The text that means any operation.
const ANY: &str = "*";

impl ToOperation for str {
    fn to_operation(&self, registrar: &Registrar) -> Result<Option<Operation>> {
        if self == ANY { Ok(None) } else { registrar.operation(self).map(Some) }
    }
}

impl ToOperation for String {
    fn to_operation(&self, registrar: &Registrar) -> Result<Option<Operation>> {
        self.as_str().to_operation(registrar)
    }
}

impl ToOperation for Cow<'_, str> {
    fn to_operation(&self, registrar: &Registrar) -> Result<Option<Operation>> {
        (**self).to_operation(registrar)
    }
}

impl ToOperation for Operation {
    fn to_operation(&self, _: &Registrar) -> Result<Option<Operation>> {
        Ok(Some(*self))
    }
}

impl ToOperation for Option<Operation> {
    fn to_operation(&self, _: &Registrar) -> Result<Option<Operation>> {
        Ok(*self)
    }
}

impl<T: ToOperation + ?Sized> ToOperation for &T {
    fn to_operation(&self, registrar: &Registrar) -> Result<Option<Operation>> {
        (**self).to_operation(registrar)
    }
}

/// Returns a single operation, for calls that do not accept `*`.
fn one_operation(operation: impl ToOperation, registrar: &Registrar) -> Result<Operation> {
    operation.to_operation(registrar)?.ok_or_else(|| Error::invalid("say which operation: `*` stands for all of them"))
}

/// Returns the uid of an existing table file by its name, or of any table file by its uid.
fn table_uid(inner: &Inner, registrar: &Registrar, file: &str) -> Result<Uid> {
    for family in inner.engine.families() {
        if let Some(table) = inner.engine.tables(&family)?.iter().find(|table| table.name() == file) {
            return Ok(table.meta().uid);
        }
    }
    let digits = file.strip_prefix("sst:").unwrap_or(file);
    match registrar.target(&format!("sst:{digits}")) {
        Ok(Target::TableFile(uid)) => Ok(uid),
        _ => Err(Error::invalid(format!("no table file {file:?}: say the name of one that is there, or a uid"))),
    }
}

/// The calls to registry and log of a store. Those from [`Db::registry`] are anonymous; a
/// [`Session`](crate::Session) makes them under its identity. Clones may be used from any thread.
#[derive(Clone)]
pub struct Registry {
    pub(crate) inner: Arc<Inner>,
    pub(crate) who: Who,
}

impl Db {
    /// Returns the anonymous calls to registry and log. Costs one reference count.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// let users = db.column_family("users")?;
    /// let registry = db.registry();
    /// registry.register("users", "*")?;
    /// users.put("john", "33")?;
    /// assert_eq!(registry.query_latest("users.john", "*")?.unwrap().key.client, "-");
    /// # Ok(())
    /// # }
    /// ```
    pub fn registry(&self) -> Registry {
        Registry { inner: Arc::clone(&self.inner), who: Who::ANONYMOUS }
    }
}

impl Registry {
    /// Registers an operation on a target: every commit after this call logs it, and no earlier one. Registering a pair
    /// again only changes its options. Returns true if the pair is new.
    ///
    /// A target is text (`users`, `users.john`, `cluster:`, ..: see [`Target`]) or a [`Target`]; an operation is its
    /// name (`Row.Insert`, `Row.Update`, `Row.Delete`, ..), `*` for any, or an [`Operation`]. The options are the
    /// pair's defaults ([`RegisterOptions::suited`]): a family is registered with all its keys, and rows are logged
    /// deferred.
    ///
    /// Costs a synced commit. Errors: `Invalid` if the target is malformed, if the operation or the family does not
    /// exist (a key need not exist), if the operation cannot occur on the target or below it (the error names where it
    /// occurs), or if the session is not authorized; `ReadOnly`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::{Operation, Target};
    ///
    /// let db = Db::memory()?;
    /// let registry = db.registry();
    /// let users = db.column_family("users")?;
    /// assert!(registry.register("users.john", "Row.Delete")?);
    /// assert!(!registry.register(Target::key("users", "john"), Operation::ROW_DELETE)?); // the same pair
    /// users.put("john", "33")?; // not registered
    /// users.delete("john")?;
    /// assert_eq!(registry.query_all("users.john", "*")?.len(), 1);
    /// assert!(registry.unregister("users.john", "Row.Delete")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let (registrar, target, operation) = self.pair(target, operation)?;
        registrar.register(&target, operation, None, Some(&self.who))
    }

    /// [`register`](Registry::register) with explicit options. Errors: also `Invalid` for options that are not
    /// compatible.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::{Mode, RegisterOptions, Scope, Values};
    ///
    /// let db = Db::memory()?;
    /// let registry = db.registry();
    /// let users = db.column_family("users")?;
    /// let (scope, mode, values) = (Scope::Subtree, Mode::Sync, Values::OldNew);
    /// let options = RegisterOptions { scope, mode, values, ..Default::default() };
    /// registry.register_with("users", "Row.Update", options)?;
    /// users.put("john", "33")?;
    /// users.put("john", "34")?;
    /// let event = registry.query_latest("users.john", "Row.Update")?.unwrap();
    /// println!("{:?}", event.payload); // both values
    /// # Ok(())
    /// # }
    /// ```
    pub fn register_with(
        &self,
        target: impl ToTarget,
        operation: impl ToOperation,
        options: RegisterOptions,
    ) -> Result<bool> {
        let (registrar, target, operation) = self.pair(target, operation)?;
        registrar.register(&target, operation, Some(options), Some(&self.who))
    }

    /// Tells which tables targets may name, for layers that keep tables in column families. The last call counts.
    pub fn set_catalogue(&self, catalogue: Arc<dyn Catalogue>) -> Result<()> {
        self.inner.registrar()?.set_catalogue(catalogue);
        Ok(())
    }

    /// Stops logging a pair; its events stay. Returns false if the pair was not registered. Errors: as for
    /// [`register`](Registry::register).
    pub fn unregister(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let (registrar, target, operation) = self.pair(target, operation)?;
        registrar.unregister(&target, operation, Some(&self.who))
    }

    /// Returns true if any registration causes this operation on this target to be logged.
    pub fn is_registered(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let registrar = self.inner.registrar()?;
        Ok(registrar.is_registered(&target.to_target(registrar)?, one_operation(operation, registrar)?))
    }

    /// Returns all registrations, ordered by target and operation.
    pub fn registrations(&self) -> Result<Vec<Registration>> {
        Ok(self.inner.registrar()?.registrations())
    }

    /// Returns all events of a target itself, for one operation or (`*`) any, ordered by operation and then by time.
    /// The result includes events that the log does not contain yet. For events below the target, use
    /// [`log_query`](Registry::log_query).
    ///
    /// Errors: `Invalid` for a malformed target or unknown operation, or if the session is not authorized; `Corruption`
    /// where the log is damaged.
    pub fn query_all(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Vec<Event>> {
        let (registrar, target, operation) = self.pair(target, operation)?;
        registrar.query_all(&target, operation, Some(&self.who))
    }

    /// Returns the latest event of a target itself, for one operation or (`*`) any. Costs one seek for each operation
    /// that has events on the target, however many events there are. Errors: as for [`query_all`](Registry::query_all).
    pub fn query_latest(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Option<Event>> {
        let (registrar, target, operation) = self.pair(target, operation)?;
        registrar.query_latest(&target, operation, Some(&self.who))
    }

    /// Returns the events that match a query, one page at a time. A query can include targets below its own, and can
    /// select a time span and a client. Errors: as for [`query_all`](Registry::query_all); `Invalid` for a page
    /// position that does not come from this query.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::{Paging, Query};
    ///
    /// let db = Db::memory()?;
    /// let registry = db.registry();
    /// let users = db.session("alice")?.column_family("users")?;
    /// registry.register("users", "*")?;
    /// for n in 0..5 {
    ///     users.put(format!("user{n}"), "value")?;
    /// }
    /// let query = Query { below: true, client: Some("alice".to_owned()), ..Query::of(registry.target("users")?) };
    /// let (mut events, mut paging) = (0, Paging::first(2));
    /// loop {
    ///     let page = registry.log_query(&query, &paging)?;
    ///     events += page.events.len();
    ///     paging.after = page.next;
    ///     if paging.after.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(events, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_query(&self, query: &Query, paging: &Paging) -> Result<Page> {
        self.inner.registrar()?.log_query(query, paging, At::Latest, Some(&self.who))
    }

    /// [`log_query`](Registry::log_query) at a snapshot: events of commits that the snapshot does not see are left out.
    pub fn log_query_at(&self, query: &Query, paging: &Paging, snapshot: &Snapshot) -> Result<Page> {
        let at = snapshot.of_store(&self.inner)?;
        self.inner.registrar()?.log_query(query, paging, At::Snapshot(at), Some(&self.who))
    }

    /// Returns the latest event that matches a query. Targets below the query's own are not searched. Errors: as for
    /// [`query_all`](Registry::query_all).
    pub fn log_latest(&self, query: &Query) -> Result<Option<Event>> {
        self.inner.registrar()?.log_latest(query, At::Latest, Some(&self.who))
    }

    /// Adds an event for something that happened outside the store, and returns the event's sequence number. `time`:
    /// when it happened; `None` means now. Errors: `Invalid` if the pair is not registered, or if the session is not
    /// authorized; as for a commit.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::Payload;
    ///
    /// let db = Db::memory()?;
    /// let registry = db.registry();
    /// db.column_family("users")?;
    /// let reindexed = registry.define_operation("app.reindexed")?;
    /// assert!(registry.log_add("users", reindexed, None, Payload::text("too early")).is_err()); // not registered yet
    /// registry.register("users", reindexed)?;
    /// registry.log_add("users", "app.reindexed", None, Payload::text("took 3 s"))?;
    /// assert_eq!(registry.query_all("users", reindexed)?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_add(
        &self,
        target: impl ToTarget,
        operation: impl ToOperation,
        time: Option<Time>,
        payload: Payload,
    ) -> Result<Seqno> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, one_operation(operation, registrar)?);
        registrar.log_add(&target, operation, time, payload, Some(&self.who))
    }

    /// Deletes the events that match a query and returns their number. Engine events that are not log rows yet are not
    /// deleted. Apart from this call and [`rewrite_events`](Registry::rewrite_events), only retention removes events. Errors: `Invalid` if the session is not
    /// authorized; as for a commit.
    pub fn log_delete(&self, query: &Query) -> Result<u64> {
        self.inner.registrar()?.log_delete(query, Some(&self.who))
    }

    /// Passes all versions of the events of a target and below it to `visit`, until that returns false: also older
    /// versions that a snapshot sees or that no compaction has removed yet, and expired events. Events that are not rows
    /// of the log yet are left out: [`drain_events`](Registry::drain_events) and [`Db::flush`] write them. Costs a read of
    /// these events. Errors: as for [`log_query`](Registry::log_query); `Corruption`; those of `visit`.
    pub fn event_versions(
        &self,
        target: impl ToTarget,
        visit: &mut dyn FnMut(EventVersion) -> Result<bool>,
    ) -> Result<()> {
        let registrar = self.inner.registrar()?;
        registrar.event_versions(&target.to_target(registrar)?, Some(&self.who), visit)
    }

    /// Changes and removes events of a target and below it, as `judge` decides, and returns the numbers of both. Events of
    /// the engine that are not rows of the log yet are left out. An event keeps its target, operation, time, client and
    /// expiry, and gets a new seal.
    ///
    /// Each commit of up to 1,024 changes adds an event `Registry.Rewrite` to the target, in the name of the session and
    /// with both numbers, also if that is not registered. `judge` never receives these events.
    ///
    /// Queries see the changes when the call returns, with the durability of the store; older snapshots see the events as
    /// they were. The old versions are in files until [`compact_events`](Registry::compact_events). Costs a flush and
    /// reads of these events. `judge` is called at least twice for a changed event, without a lock; the store's reads and
    /// writes go on.
    ///
    /// Errors: `Invalid` if the session may not delete these events; `Corruption` for a damaged event; those of `judge`;
    /// as for a commit. Events that were changed before the error stay changed.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::registry::{EventChange, Payload, RegisterOptions, Values};
    ///
    /// let db = waxseal::Db::memory()?;
    /// let (users, registry) = (db.column_family("users")?, db.registry());
    /// registry.register_with("users.john", "*", RegisterOptions { values: Values::New, ..RegisterOptions::default() })?;
    /// users.put("john", "555-0100")?;
    /// let counts = registry.rewrite_events("users", &|_| Ok(EventChange::Replace(Payload::text("erased"))))?;
    /// assert_eq!((counts.changed, counts.removed), (1, 0));
    /// registry.compact_events("users")?;
    /// assert_eq!(registry.query_all("users.john", "*")?[0].payload, Payload::text("erased"));
    /// assert_eq!(registry.query_all("users", "Registry.Rewrite")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rewrite_events(
        &self,
        target: impl ToTarget,
        judge: &dyn Fn(&Event) -> Result<EventChange>,
    ) -> Result<EventCounts> {
        let registrar = self.inner.registrar()?;
        registrar.rewrite_events(&target.to_target(registrar)?, Some(&self.who), judge)
    }

    /// Compacts the part of the log that has the events of a target and below it: older versions of events go, and so do
    /// removed events, unless a snapshot sees them. Errors: as for [`rewrite_events`](Registry::rewrite_events).
    pub fn compact_events(&self, target: impl ToTarget) -> Result<()> {
        let registrar = self.inner.registrar()?;
        registrar.compact_events(&target.to_target(registrar)?, Some(&self.who))
    }

    /// Returns a key's provenance: the registrations that cover it, and all its events. Errors: as for
    /// [`query_all`](Registry::query_all).
    pub fn provenance(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Provenance> {
        self.inner.own(cf)?;
        self.inner.registrar()?.provenance(&cf.family, key.as_ref(), Some(&self.who))
    }

    /// Returns the events of all keys of a range, one page at a time. The range is in the family's key order; the
    /// events are in log order, by the bytes of their keys. In a family with a comparator, each page scans the events
    /// of all the family's keys. Errors: as for [`log_query`](Registry::log_query).
    pub fn query_range(&self, cf: &ColumnFamily, range: impl KeyRange, paging: &Paging) -> Result<Page> {
        self.inner.own(cf)?;
        let bounds = range.into_bounds();
        self.inner.registrar()?.query_range(&cf.family, &bounds, paging, At::Latest, Some(&self.who))
    }

    /// Explains a key: its value and verdict, its writer and time, its events, the file that holds it, and that file's
    /// lineage. Damage is part of the result, not an error. Costs several reads.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// let registry = db.registry();
    /// let users = db.session("alice")?.column_family("users")?;
    /// registry.register("users", "*")?;
    /// users.put("john", "33")?;
    /// db.flush()?;
    /// let known = registry.explain(&users, "john")?;
    /// assert_eq!((known.value.as_deref(), known.verdict.as_str()), (Some(&b"33"[..]), "validated"));
    /// assert_eq!(known.written.unwrap().0, "alice");
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.inner.own(cf)?;
        self.inner.registrar()?.explain(&cf.family, key.as_ref(), Some(&self.who))
    }

    /// Returns the lineage of a table file: the job that wrote it, that job's input files, their jobs, and so on.
    /// `file` is a name in the store's directory or a uid: 32 hexadecimal digits, with or without `sst:` before them. A
    /// uid also finds a file that was deleted. Errors: `Invalid` if there is no such file.
    pub fn lineage(&self, file: impl AsRef<str>) -> Result<Lineage> {
        let registrar = self.inner.registrar()?;
        registrar.lineage(table_uid(&self.inner, registrar, file.as_ref())?, Some(&self.who))
    }

    /// Returns the current and past quarantine cases by family: tables excluded from compaction, and lost key ranges.
    /// Read from the family `system_metadata.quarantine`; its unreadable rows are left out. Costs a scan of that
    /// family.
    ///
    /// Errors: `Invalid` in a store that was opened without its registry.
    pub fn quarantined(&self) -> Result<Vec<Case>> {
        self.inner.registrar()?.quarantined()
    }

    /// Parses a target: see [`Target`]. Errors: `Invalid`, with the mistake and its position.
    pub fn target(&self, text: &str) -> Result<Target> {
        self.inner.registrar()?.target(text)
    }

    /// Formats a target as text.
    pub fn target_text(&self, target: &Target) -> Result<String> {
        Ok(self.inner.registrar()?.text(target))
    }

    /// Returns the operation with this name. Errors: `Invalid` for an unknown name.
    pub fn operation(&self, name: &str) -> Result<Operation> {
        self.inner.registrar()?.operation(name)
    }

    /// Returns the name of an operation; for one defined in another store, its number.
    pub fn operation_name(&self, operation: Operation) -> Result<String> {
        Ok(self.inner.registrar()?.operations().name(operation))
    }

    /// Defines a custom operation, or returns it if it exists. The name has 1 to 64 letters, digits, `_`, `-` or `.`.
    /// The number is derived from the name, so every store assigns the same number. Errors: `Invalid` for a malformed
    /// name or one with another meaning; as for a commit.
    pub fn define_operation(&self, name: &str) -> Result<Operation> {
        self.inner.registrar()?.define(name, Some(&self.who))
    }

    /// Waits until every event of mode [`Mode::Async`] accepted so far is in the log. Such events wait in a
    /// [ring](crate::Builder::ring), and a crash loses the events in it. [`Db::close`] waits for them too.
    pub fn drain_events(&self) -> Result<()> {
        self.inner.registrar()?.drain()
    }

    /// Returns how many events of mode [`Mode::Async`] are waiting, and how many were dropped since the store was
    /// opened.
    pub fn event_ring(&self) -> Result<RingStats> {
        Ok(self.inner.registrar()?.ring())
    }

    /// Parses the target and the operation of a call.
    pub(crate) fn pair(
        &self,
        target: impl ToTarget,
        operation: impl ToOperation,
    ) -> Result<(&Registrar, Target, Option<Operation>)> {
        let registrar = self.inner.registrar()?;
        Ok((registrar, target.to_target(registrar)?, operation.to_operation(registrar)?))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({:?})", self.who.name())
    }
}

impl Inner {
    /// Returns the registrar, if the store is open and has one.
    pub(crate) fn registrar(&self) -> Result<&Registrar> {
        self.check_open()?;
        self.watching.registrar()
    }

    /// Fails with `Invalid` for a family of another store, or one that was dropped.
    pub(crate) fn own(&self, cf: &ColumnFamily) -> Result<()> {
        if !std::ptr::eq(self, &*cf.inner) {
            return Err(Error::invalid(format!("column family {:?} belongs to another store", cf.name())));
        }
        self.check(&cf.family)
    }
}
