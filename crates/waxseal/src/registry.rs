//! Registry and log: the registered operations and their events. `waxseal_registry` implements them; this module passes
//! it the store and parses target and operation names.
//!
//! A *target* is anything with a name (a family `users`, a key `users.john`, the whole store `cluster:`, a table file,
//! ..). An *operation* can happen to a target (`Row.Update`, `Table.Drop`, `Engine.Compact`, ..). Once a pair is
//! [registered](crate::Session::register), every such operation adds an *event* to the log: target, operation, time,
//! session and commit. While nothing is registered, this costs a write one load and one comparison.
//!
//! Registry and log are stored in column families of the store: `system_metadata.registry`, `system_metadata.log` and
//! others. They can be read by name like any family, but only the store writes them. The engine's own work (recovery,
//! flushes, compactions, repairs, ..) is logged without registration.
//!
//! A store whose registry is damaged can still be opened and read. Because the registrations are unknown, writes and
//! calls to registry and log return `Corruption`, until the store is [repaired](crate::Db::repair) and reopened.

use std::borrow::Cow;
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::Seqno;
use waxseal_registry::{Registrar, Session as Who};

use crate::db::{Db, Inner};
use crate::family::ColumnFamily;
use crate::range::KeyRange;
use crate::session::Session;
use crate::snapshot::Snapshot;

pub use waxseal_lsm::checksum::Uid as FileUid;
pub use waxseal_registry::Options as RegisterOptions;
pub use waxseal_registry::key::LogKey;
pub use waxseal_registry::payload::{FileRef, TokenRange};
pub use waxseal_registry::quarantine::Item;
pub use waxseal_registry::target::{TableName, TargetPath};
pub use waxseal_registry::{
    Authorizer, Case, Event, Everybody, Explanation, Field, Identity, Image, Lies, Lineage, Mode, Operation, Page,
    Paging, Payload, Provenance, Query, Registration, Ring, RingStats, Scope, Session as Asker, Site, Step, Target,
    Time, Values, WhenFull,
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
pub(crate) fn one_operation(operation: impl ToOperation, registrar: &Registrar) -> Result<Operation> {
    operation.to_operation(registrar)?.ok_or_else(|| Error::invalid("say which operation: `*` stands for all of them"))
}

/// Returns the uid of an existing table file by its name, or of any table file by its uid.
pub(crate) fn table_uid(inner: &Inner, registrar: &Registrar, file: &str) -> Result<Uid> {
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

/// Calls to registry and log without a session. Each method is the method of [`Session`] with the same name, called
/// anonymously.
impl Db {
    /// Returns the session of an identity ([`Identity`] or text). Its writes and queries carry the identity's name. An
    /// identity keeps its session across a reopen.
    ///
    /// If `Session.Open` of `engine:session` is registered, each call logs an event.
    ///
    /// Errors: `Invalid` if the name is not 1 to 255 bytes long or begins with `unknown session`, or if the store was
    /// opened without its registry; as for a commit, if an event is logged.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::Identity;
    ///
    /// let db = Db::memory()?;
    /// let alice = db.session("alice")?;
    /// alice.column_family("users")?.put("john", "33")?;
    /// let surely = db.session(Identity::named("alice").authenticated("password"))?; // another session than `alice`
    /// assert_eq!((surely.name(), surely.authenticated()), ("alice", Some("password")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(&self, identity: impl Into<Identity>) -> Result<Session> {
        let who = self.inner.registrar()?.session(identity.into())?;
        Ok(Session { inner: Arc::clone(&self.inner), who })
    }

    /// Returns the anonymous session, in whose name all calls without a session run.
    pub fn nobody(&self) -> Session {
        Session { inner: Arc::clone(&self.inner), who: Who::ANONYMOUS }
    }

    /// Starts logging an operation on a target: [`Session::register`].
    pub fn register(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        self.nobody().register(target, operation)
    }

    /// Starts logging an operation on a target, with options: [`Session::register_with`].
    pub fn register_with(
        &self,
        target: impl ToTarget,
        operation: impl ToOperation,
        options: RegisterOptions,
    ) -> Result<bool> {
        self.nobody().register_with(target, operation, options)
    }

    /// Stops logging a pair: [`Session::unregister`].
    pub fn unregister(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        self.nobody().unregister(target, operation)
    }

    /// Returns true if an operation on a target is logged: [`Session::is_registered`].
    pub fn is_registered(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        self.nobody().is_registered(target, operation)
    }

    /// Returns all registrations: [`Session::registrations`].
    pub fn registrations(&self) -> Result<Vec<Registration>> {
        self.nobody().registrations()
    }

    /// Returns all events of a target itself: [`Session::query_all`].
    pub fn query_all(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Vec<Event>> {
        self.nobody().query_all(target, operation)
    }

    /// Returns the latest event of a target itself: [`Session::query_latest`].
    pub fn query_latest(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Option<Event>> {
        self.nobody().query_latest(target, operation)
    }

    /// Returns the events that match a query, one page at a time: [`Session::log_query`].
    pub fn log_query(&self, query: &Query, paging: &Paging) -> Result<Page> {
        self.nobody().log_query(query, paging)
    }

    /// Returns the events that match a query at a snapshot: [`Session::log_query_at`].
    pub fn log_query_at(&self, query: &Query, paging: &Paging, snapshot: &Snapshot) -> Result<Page> {
        self.nobody().log_query_at(query, paging, snapshot)
    }

    /// Returns the latest event that matches a query: [`Session::log_latest`].
    pub fn log_latest(&self, query: &Query) -> Result<Option<Event>> {
        self.nobody().log_latest(query)
    }

    /// Adds an event: [`Session::log_add`].
    pub fn log_add(
        &self,
        target: impl ToTarget,
        operation: impl ToOperation,
        time: Option<Time>,
        payload: Payload,
    ) -> Result<Seqno> {
        self.nobody().log_add(target, operation, time, payload)
    }

    /// Deletes the events that match a query: [`Session::log_delete`].
    pub fn log_delete(&self, query: &Query) -> Result<u64> {
        self.nobody().log_delete(query)
    }

    /// Returns the registrations that cover a key, and its events: [`Session::provenance`].
    pub fn provenance(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Provenance> {
        self.nobody().provenance(cf, key)
    }

    /// Returns the events of all keys of a range: [`Session::query_range`].
    pub fn query_range(&self, cf: &ColumnFamily, range: impl KeyRange, paging: &Paging) -> Result<Page> {
        self.nobody().query_range(cf, range, paging)
    }

    /// Explains a key: value, writer, events and files: [`Session::explain`].
    pub fn explain(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.nobody().explain(cf, key)
    }

    /// Returns the lineage of a table file: [`Session::lineage`].
    pub fn lineage(&self, file: impl AsRef<str>) -> Result<Lineage> {
        self.nobody().lineage(file)
    }

    /// Returns the current and past quarantine cases by family: tables excluded from compaction, and lost key ranges.
    /// Read from the family `system_metadata.quarantine`; its unreadable rows are left out. Costs a scan of that
    /// family.
    ///
    /// Errors: `Invalid` in a store that was opened without its registry.
    pub fn quarantined(&self) -> Result<Vec<Case>> {
        self.inner.registrar()?.quarantined()
    }

    /// Parses a target: [`Session::target`].
    pub fn target(&self, text: &str) -> Result<Target> {
        self.nobody().target(text)
    }

    /// Formats a target as text: [`Session::target_text`].
    pub fn target_text(&self, target: &Target) -> Result<String> {
        self.nobody().target_text(target)
    }

    /// Returns the operation with this name: [`Session::operation`].
    pub fn operation(&self, name: &str) -> Result<Operation> {
        self.nobody().operation(name)
    }

    /// Returns the name of an operation: [`Session::operation_name`].
    pub fn operation_name(&self, operation: Operation) -> Result<String> {
        self.nobody().operation_name(operation)
    }

    /// Defines a custom operation: [`Session::define_operation`].
    pub fn define_operation(&self, name: &str) -> Result<Operation> {
        self.nobody().define_operation(name)
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
