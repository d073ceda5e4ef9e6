//! Sessions: writes and log queries under an identity.
//!
//! A session is a handle to the store with a name. Families and batches taken from it write under that name. Calls to
//! registry and log carry it, and the authorizer receives it. Calls without a session are anonymous.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::db::At;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::CfOptions;
use waxseal_lsm::record::Seqno;
use waxseal_registry::provenance::{Explanation, Lineage, Provenance};
use waxseal_registry::{
    Event, Operation, Options as RegisterOptions, Page, Paging, Payload, Query, Registration, Session as Who, Target,
    Time,
};

use crate::batch::Batch;
use crate::db::Inner;
use crate::family::ColumnFamily;
use crate::range::KeyRange;
use crate::registry::{ToOperation, ToTarget, one_operation, table_uid};
use crate::snapshot::Snapshot;

/// A handle to the store with an identity, created by [`Db::session`](crate::Db::session). Clones are the same session
/// and may be used from any thread.
///
/// Writes through its [families](Session::column_family) and [batches](Session::batch) carry its name: in the log with
/// every registered event, and in the record itself. The store does not verify the name, so open sessions only for
/// identities that the application has checked.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// use waxseal::Db;
///
/// let db = Db::memory()?;
/// db.column_family("users")?;
/// let alice = db.session("alice")?;
/// alice.register("users", "Row.Update")?; // covers every key of the family
///
/// alice.column_family("users")?.put("john", "33")?;
/// db.session("bob")?.column_family("users")?.put("john", "34")?;
///
/// let events = alice.query_all("users.john", "Row.Update")?;
/// let who: Vec<&str> = events.iter().map(|event| event.key.client.as_str()).collect();
/// assert_eq!(who, ["alice", "bob"]);
/// let latest = alice.query_latest("users.john", "Row.Update")?.unwrap();
/// assert_eq!(latest.key.client, "bob");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
    pub(crate) who: Who,
}

impl Session {
    /// Returns the name; `-` for the anonymous session.
    pub fn name(&self) -> &str {
        self.who.name()
    }

    /// Returns the authentication method; `None` means unauthenticated.
    pub fn authenticated(&self) -> Option<&str> {
        self.who.authenticated()
    }

    /// Logs the end of the session, if `Session.Close` of `engine:session` is registered, and does nothing else: clones
    /// can still write in its name. Dropping a handle logs nothing. Errors: as for a commit, if an event is logged.
    pub fn close(self) -> Result<()> {
        self.inner.registrar()?.close_session(&self.who)
    }

    /// [`Db::column_family`](crate::Db::column_family), with a handle that writes in this session's name.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        self.inner.column_family(name, &self.who)
    }

    /// [`Db::create_column_family`](crate::Db::create_column_family), with a handle that writes in this session's name.
    pub fn create_column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        self.inner.create_column_family(name, options, &self.who)
    }

    /// [`Db::drop_column_family`](crate::Db::drop_column_family) in this session's name. Events of the family's rows
    /// stay in the log, and registrations remain.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, &self.who)
    }

    /// Returns an empty batch that commits in this session's name.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.inner, &self.who)
    }

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
    /// let users = db.column_family("users")?;
    /// assert!(db.register("users.john", "Row.Delete")?);
    /// assert!(!db.register(Target::key("users", "john"), Operation::ROW_DELETE)?); // the same pair
    /// users.put("john", "33")?; // not registered
    /// users.delete("john")?;
    /// assert_eq!(db.query_all("users.john", "*")?.len(), 1);
    /// assert!(db.unregister("users.john", "Row.Delete")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
        registrar.register(&target, operation, None, Some(&self.who))
    }

    /// [`register`](Session::register) with explicit options. Errors: also `Invalid` for options that are not
    /// compatible.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::{Mode, RegisterOptions, Scope, Values};
    ///
    /// let db = Db::memory()?;
    /// let users = db.column_family("users")?;
    /// let options = RegisterOptions { scope: Scope::Subtree, mode: Mode::Sync, values: Values::OldNew, ..Default::default() };
    /// db.register_with("users", "Row.Update", options)?;
    /// users.put("john", "33")?;
    /// users.put("john", "34")?;
    /// let event = db.query_latest("users.john", "Row.Update")?.unwrap();
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
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
        registrar.register(&target, operation, Some(options), Some(&self.who))
    }

    /// Stops logging a pair; its events stay. Returns false if the pair was not registered. Errors: as for
    /// [`register`](Session::register).
    pub fn unregister(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
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
    /// [`log_query`](Session::log_query).
    ///
    /// Errors: `Invalid` for a malformed target or unknown operation, or if the session is not authorized; `Corruption`
    /// where the log is damaged.
    pub fn query_all(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Vec<Event>> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
        registrar.query_all(&target, operation, Some(&self.who))
    }

    /// Returns the latest event of a target itself, for one operation or (`*`) any. Costs one seek for each operation
    /// that has events on the target, however many events there are. Errors: as for [`query_all`](Session::query_all).
    pub fn query_latest(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Option<Event>> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
        registrar.query_latest(&target, operation, Some(&self.who))
    }

    /// Returns the events that match a query, one page at a time. A query can include targets below its own, and can
    /// select a time span and a client. Errors: as for [`query_all`](Session::query_all); `Invalid` for a page position
    /// that does not come from this query.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::{Paging, Query};
    ///
    /// let db = Db::memory()?;
    /// let users = db.session("alice")?.column_family("users")?;
    /// db.register("users", "*")?;
    /// for n in 0..5 {
    ///     users.put(format!("user{n}"), "value")?;
    /// }
    /// let query = Query { below: true, client: Some("alice".to_owned()), ..Query::of(db.target("users")?) };
    /// let (mut events, mut paging) = (0, Paging::first(2));
    /// loop {
    ///     let page = db.log_query(&query, &paging)?;
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

    /// [`log_query`](Session::log_query) at a snapshot: events of commits that the snapshot does not see are left out.
    pub fn log_query_at(&self, query: &Query, paging: &Paging, snapshot: &Snapshot) -> Result<Page> {
        let at = snapshot.of_store(&self.inner)?;
        self.inner.registrar()?.log_query(query, paging, At::Snapshot(at), Some(&self.who))
    }

    /// Returns the latest event that matches a query. Targets below the query's own are not searched. Errors: as for
    /// [`query_all`](Session::query_all).
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
    /// db.column_family("users")?;
    /// let reindexed = db.define_operation("app.reindexed")?;
    /// assert!(db.log_add("users", reindexed, None, Payload::text("too early")).is_err()); // not registered yet
    /// db.register("users", reindexed)?;
    /// db.log_add("users", "app.reindexed", None, Payload::text("took 3 s"))?;
    /// assert_eq!(db.query_all("users", reindexed)?.len(), 1);
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
    /// deleted. Apart from this call, only retention removes events. Errors: `Invalid` if the session is not
    /// authorized; as for a commit.
    pub fn log_delete(&self, query: &Query) -> Result<u64> {
        self.inner.registrar()?.log_delete(query, Some(&self.who))
    }

    /// Returns a key's provenance: the registrations that cover it, and all its events. Errors: as for
    /// [`query_all`](Session::query_all).
    pub fn provenance(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Provenance> {
        self.inner.own(cf)?;
        self.inner.registrar()?.provenance(&cf.family, key.as_ref(), Some(&self.who))
    }

    /// Returns the events of all keys of a range, one page at a time. The range is in the family's key order; the
    /// events are in log order, by the bytes of their keys. In a family with a comparator, each page scans the events
    /// of all the family's keys. Errors: as for [`log_query`](Session::log_query).
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
    /// let users = db.session("alice")?.column_family("users")?;
    /// db.register("users", "*")?;
    /// users.put("john", "33")?;
    /// db.flush()?;
    /// let known = db.explain(&users, "john")?;
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
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?})", self.name())
    }
}
