//! Registry and log: what is watched, and what happened to it. The work is done by `waxseal_registry`; this file lends it the store,
//! and reads what people write.
//!
//! A *target* is anything with a name (a family `users`, a key `users.john`, the whole store `cluster:`, a table file, ..), an
//! *operation* is what can happen to it (`Row.Update`, `Table.Drop`, `Engine.Compact`, ..). Once a pair is
//! [registered](crate::Session::register), every such operation leaves an *event* in the log: to what, what, when, by whom, in
//! which commit. While nothing is registered, a write pays a load and a comparison for it.
//!
//! Registry and log are column families of the store, `system_metadata.registry`, `system_metadata.log` and others beside them. They can
//! be read like any family, by name, and are written by nobody but the store. What the engine does by itself (recovery, flushes,
//! compactions, repairs, ..) has events too, without being registered.
//!
//! A store whose registry is damaged opens, and is read as ever. Since nobody could know what is to be logged, writes and the calls of
//! registry and log answer `Corruption` then, until it is [repaired](crate::Db::repair) and opened anew.

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

/// Names a target: text, read as described at [`Target`], or a [`Target`].
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

/// Names an operation: its name, `*` for any, or an [`Operation`].
pub trait ToOperation {
    #[doc(hidden)]
    fn to_operation(&self, registrar: &Registrar) -> Result<Option<Operation>>;
}

/// What stands for any operation.
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

/// An operation where any will not do.
pub(crate) fn one_operation(operation: impl ToOperation, registrar: &Registrar) -> Result<Operation> {
    operation.to_operation(registrar)?.ok_or_else(|| Error::invalid("say which operation: `*` stands for all of them"))
}

/// The uid of a table file that is there by its name, or of any by its uid.
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

/// Registry and log, asked by nobody in particular: everything here does what the method of [`Session`] does that has its name.
impl Db {
    /// A session: what is written and asked through it is written and asked in its name, which is [`Identity`] or text. The same
    /// identity is the same session, also after a reopen.
    ///
    /// Where `Session.Open` of `engine:session` is registered, each call is an event.
    ///
    /// Errors: `Invalid` for a name that is not 1 to 255 bytes or begins with `unknown session`, or in a store that was opened without its
    /// registry; as of a commit if there is an event.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::Identity;
    ///
    /// let db = Db::memory()?;
    /// let alice = db.session("alice")?;
    /// alice.column_family("users")?.put("john", "33")?;
    /// let surely = db.session(Identity::named("alice").authenticated("password"))?; // not the same as one who only says so
    /// assert_eq!((surely.name(), surely.authenticated()), ("alice", Some("password")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(&self, identity: impl Into<Identity>) -> Result<Session> {
        let who = self.inner.registrar()?.session(identity.into())?;
        Ok(Session { inner: Arc::clone(&self.inner), who })
    }

    /// The session of nobody in particular, in whose name everything is done that is done without a session.
    pub fn nobody(&self) -> Session {
        Session { inner: Arc::clone(&self.inner), who: Who::ANONYMOUS }
    }

    /// From now on an operation on a target is logged: [`Session::register`].
    pub fn register(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        self.nobody().register(target, operation)
    }

    /// The same with options: [`Session::register_with`].
    pub fn register_with(
        &self,
        target: impl ToTarget,
        operation: impl ToOperation,
        options: RegisterOptions,
    ) -> Result<bool> {
        self.nobody().register_with(target, operation, options)
    }

    /// The pair is not logged any more: [`Session::unregister`].
    pub fn unregister(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        self.nobody().unregister(target, operation)
    }

    /// True if an operation on a target is logged: [`Session::is_registered`].
    pub fn is_registered(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        self.nobody().is_registered(target, operation)
    }

    /// Everything that is registered: [`Session::registrations`].
    pub fn registrations(&self) -> Result<Vec<Registration>> {
        self.nobody().registrations()
    }

    /// All events of a target itself: [`Session::query_all`].
    pub fn query_all(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Vec<Event>> {
        self.nobody().query_all(target, operation)
    }

    /// The latest event of a target itself: [`Session::query_latest`].
    pub fn query_latest(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Option<Event>> {
        self.nobody().query_latest(target, operation)
    }

    /// The events that a query asks for, a page at a time: [`Session::log_query`].
    pub fn log_query(&self, query: &Query, paging: &Paging) -> Result<Page> {
        self.nobody().log_query(query, paging)
    }

    /// The same as the store was: [`Session::log_query_at`].
    pub fn log_query_at(&self, query: &Query, paging: &Paging, snapshot: &Snapshot) -> Result<Page> {
        self.nobody().log_query_at(query, paging, snapshot)
    }

    /// The latest event that a query asks for: [`Session::log_latest`].
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

    /// Deletes the events that a query asks for: [`Session::log_delete`].
    pub fn log_delete(&self, query: &Query) -> Result<u64> {
        self.nobody().log_delete(query)
    }

    /// Where a key is watched, and why it is what it is: [`Session::provenance`].
    pub fn provenance(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Provenance> {
        self.nobody().provenance(cf, key)
    }

    /// The events of all keys of a range: [`Session::query_range`].
    pub fn query_range(&self, cf: &ColumnFamily, range: impl KeyRange, paging: &Paging) -> Result<Page> {
        self.nobody().query_range(cf, range, paging)
    }

    /// Everything that is known of a key: [`Session::explain`].
    pub fn explain(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.nobody().explain(cf, key)
    }

    /// How a table file came to be: [`Session::lineage`].
    pub fn lineage(&self, file: impl AsRef<str>) -> Result<Lineage> {
        self.nobody().lineage(file)
    }

    /// Which tables are barred and which spans of keys are fenced, and which were: what stands in the family `system_metadata.quarantine`, by
    /// family. What of it cannot be read is left out. Costs a scan of that family.
    ///
    /// Errors: `Invalid` in a store that was opened without its registry.
    pub fn quarantined(&self) -> Result<Vec<Case>> {
        self.inner.registrar()?.quarantined()
    }

    /// Reads a target as people write it: [`Session::target`].
    pub fn target(&self, text: &str) -> Result<Target> {
        self.nobody().target(text)
    }

    /// A target as people write it: [`Session::target_text`].
    pub fn target_text(&self, target: &Target) -> Result<String> {
        self.nobody().target_text(target)
    }

    /// The operation that a name means: [`Session::operation`].
    pub fn operation(&self, name: &str) -> Result<Operation> {
        self.nobody().operation(name)
    }

    /// The name of an operation: [`Session::operation_name`].
    pub fn operation_name(&self, operation: Operation) -> Result<String> {
        self.nobody().operation_name(operation)
    }

    /// Defines an operation of your own: [`Session::define_operation`].
    pub fn define_operation(&self, name: &str) -> Result<Operation> {
        self.nobody().define_operation(name)
    }

    /// Waits until every event of mode [`Mode::Async`] that was taken so far is in the log. They wait in a [ring](crate::Builder::ring), and
    /// those that wait in it are lost in a crash; [`Db::close`] waits too.
    pub fn drain_events(&self) -> Result<()> {
        self.inner.registrar()?.drain()
    }

    /// How things stand with events of mode [`Mode::Async`]: how many wait, and how many were dropped since the store was opened.
    pub fn event_ring(&self) -> Result<RingStats> {
        Ok(self.inner.registrar()?.ring())
    }
}

impl Inner {
    /// Registry and log of the store, if it is open and has them.
    pub(crate) fn registrar(&self) -> Result<&Registrar> {
        self.check_open()?;
        self.watching.registrar()
    }

    /// `Invalid` for a family of another store, or one that was dropped.
    pub(crate) fn own(&self, cf: &ColumnFamily) -> Result<()> {
        if !std::ptr::eq(self, &*cf.inner) {
            return Err(Error::invalid(format!("column family {:?} belongs to another store", cf.name())));
        }
        self.check(&cf.family)
    }
}
