//! Sessions: what is written and asked in somebody's name.
//!
//! A session is a handle to the store with a name on it. Families and batches taken from it write in that name; registry and log
//! are asked through it, and whoever authorizes is told who asks. Without a session all of it is done by nobody in particular.

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

/// A store, and who uses it. Made by [`Db::session`](crate::Db::session); clones are the same session, and may be used from any thread.
///
/// What is written through its [families](Session::column_family) and [batches](Session::batch) is written in its name, which stands
/// in the log beside every event that is registered, and with the record itself. A name is taken as it is given: the store
/// asks nobody whether it is true, so open sessions only for those you know.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// use waxseal::Db;
///
/// let db = Db::memory()?;
/// db.column_family("users")?;
/// let alice = db.session("alice")?;
/// alice.register("users", "Row.Update")?; // from now on, and for every key of the family
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
    /// The name; `-` for nobody in particular.
    pub fn name(&self) -> &str {
        self.who.name()
    }

    /// How it was authenticated; none: not at all.
    pub fn authenticated(&self) -> Option<&str> {
        self.who.authenticated()
    }

    /// Says that the session has ended: an event where `Session.Close` of `engine:session` is registered, and nothing else; clones go on
    /// writing in its name. A handle that is dropped says nothing. Errors: as of a commit, if there is an event.
    pub fn close(self) -> Result<()> {
        self.inner.registrar()?.close_session(&self.who)
    }

    /// [`Db::column_family`](crate::Db::column_family), as a handle that writes in this name.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        self.inner.column_family(name, &self.who)
    }

    /// [`Db::create_column_family`](crate::Db::create_column_family), as a handle that writes in this name.
    pub fn create_column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        self.inner.create_column_family(name, options, &self.who)
    }

    /// [`Db::drop_column_family`](crate::Db::drop_column_family), in this name. The events of its rows stay, and so do registrations.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, &self.who)
    }

    /// An empty batch that commits in this name.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.inner, &self.who)
    }

    /// From now on an operation on a target is logged: by every commit after this call, by none before. To register a pair again
    /// changes nothing but its options. True if it is new.
    ///
    /// A target is text (`users`, `users.john`, `cluster:`, ..: see [`Target`]) or a [`Target`]; an operation is its name
    /// (`Row.Insert`, `Row.Update`, `Row.Delete`, ..), `*` for any, or an [`Operation`]. The options are those that
    /// suit the pair ([`RegisterOptions::suited`]): a family is watched with all its keys; rows are logged deferred.
    ///
    /// Costs a synced commit. Errors: `Invalid` for what is no target, for an operation or a family that is not there (a key need not
    /// be), for an operation that cannot occur on the target or below it (the error names where it occurs), and if the session may
    /// not; `ReadOnly`.
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

    /// [`register`](Session::register), with options of your own. Errors: also `Invalid` for options that do not go together.
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

    /// The pair is not logged any more; its events stay. False if it was not registered. Errors: as [`register`](Session::register).
    pub fn unregister(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
        registrar.unregister(&target, operation, Some(&self.who))
    }

    /// True if an operation on a target is logged, by whatever registration.
    pub fn is_registered(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let registrar = self.inner.registrar()?;
        Ok(registrar.is_registered(&target.to_target(registrar)?, one_operation(operation, registrar)?))
    }

    /// Everything that is registered, by target and operation.
    pub fn registrations(&self) -> Result<Vec<Registration>> {
        Ok(self.inner.registrar()?.registrations())
    }

    /// All events of a target itself, of one operation or (`*`) any, by operation and then by time. Those of what lies below it are
    /// asked for by [`log_query`](Session::log_query). Events that were not written to the log yet are among them.
    ///
    /// Errors: `Invalid` for what is no target or operation, or if the session may not; `Corruption` where the log is damaged.
    pub fn query_all(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Vec<Event>> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
        registrar.query_all(&target, operation, Some(&self.who))
    }

    /// The latest event of a target itself, of one operation or (`*`) any. Costs one seek for each operation that it has events of, however
    /// many there are.
    /// Errors: as [`query_all`](Session::query_all).
    pub fn query_latest(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Option<Event>> {
        let registrar = self.inner.registrar()?;
        let (target, operation) = (target.to_target(registrar)?, operation.to_operation(registrar)?);
        registrar.query_latest(&target, operation, Some(&self.who))
    }

    /// The events that a query asks for, a page at a time: of what lies below the target too, of a span of time, of one client.
    /// Errors: as [`query_all`](Session::query_all); `Invalid` for a place where no page of this query ended.
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

    /// [`log_query`](Session::log_query) as the store was: events of commits that the snapshot does not see are left out.
    pub fn log_query_at(&self, query: &Query, paging: &Paging, snapshot: &Snapshot) -> Result<Page> {
        let at = snapshot.of_store(&self.inner)?;
        self.inner.registrar()?.log_query(query, paging, At::Snapshot(at), Some(&self.who))
    }

    /// The latest event that a query asks for. What lies below its target is not looked at. Errors: as
    /// [`query_all`](Session::query_all).
    pub fn log_latest(&self, query: &Query) -> Result<Option<Event>> {
        self.inner.registrar()?.log_latest(query, At::Latest, Some(&self.who))
    }

    /// Adds an event: something happened that the store cannot know of. `time` none: now. What its seqno is is the answer.
    /// Errors: `Invalid` if the pair is not registered, or the session may not; as of a commit.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    /// use waxseal::registry::Payload;
    ///
    /// let db = Db::memory()?;
    /// db.column_family("users")?;
    /// let reindexed = db.define_operation("app.reindexed")?;
    /// assert!(db.log_add("users", reindexed, None, Payload::text("too early")).is_err()); // nobody wants to know
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

    /// Deletes the events that a query asks for, and says how many there were. Those of the engine that are no rows yet stay. Otherwise
    /// events go by their retention alone. Errors: `Invalid` if the session may not; as of a commit.
    pub fn log_delete(&self, query: &Query) -> Result<u64> {
        self.inner.registrar()?.log_delete(query, Some(&self.who))
    }

    /// Where a key is watched, and why it is what it is: the registrations that cover it, and all its events. Errors: as
    /// [`query_all`](Session::query_all).
    pub fn provenance(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Provenance> {
        self.inner.own(cf)?;
        self.inner.registrar()?.provenance(&cf.family, key.as_ref(), Some(&self.who))
    }

    /// The events of all keys of a range, a page at a time. The range is one of the family's own order; the events come in the order of
    /// the log, by the bytes of their keys. In a family with a comparator each page looks at the events of all its keys. Errors: as [`log_query`](Session::log_query).
    pub fn query_range(&self, cf: &ColumnFamily, range: impl KeyRange, paging: &Paging) -> Result<Page> {
        self.inner.own(cf)?;
        let bounds = range.into_bounds();
        self.inner.registrar()?.query_range(&cf.family, &bounds, paging, At::Latest, Some(&self.who))
    }

    /// Everything that is known of a key: value and verdict, who wrote it and when, what happened to it, in which file it lies and how
    /// that came to be. Damage is told, not an error. Costs several reads.
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

    /// How a table file came to be: what wrote it, what that had read, and so on back. `file` is its name in the store's directory, or,
    /// also of one that is gone, its uid: 32 hexadecimal digits, with `sst:` before them or without. Errors: `Invalid` for a file that
    /// is not there.
    pub fn lineage(&self, file: impl AsRef<str>) -> Result<Lineage> {
        let registrar = self.inner.registrar()?;
        registrar.lineage(table_uid(&self.inner, registrar, file.as_ref())?, Some(&self.who))
    }

    /// Reads a target as people write it: see [`Target`]. Errors: `Invalid`, with what is wrong and where.
    pub fn target(&self, text: &str) -> Result<Target> {
        self.inner.registrar()?.target(text)
    }

    /// A target as people write it.
    pub fn target_text(&self, target: &Target) -> Result<String> {
        Ok(self.inner.registrar()?.text(target))
    }

    /// The operation that a name means. Errors: `Invalid` if it means none.
    pub fn operation(&self, name: &str) -> Result<Operation> {
        self.inner.registrar()?.operation(name)
    }

    /// The name of an operation; one that was defined in another store is written by its number.
    pub fn operation_name(&self, operation: Operation) -> Result<String> {
        Ok(self.inner.registrar()?.operations().name(operation))
    }

    /// Defines an operation of your own, or finds it: 1 to 64 letters, digits, `_`, `-` or `.`. Its number follows from the name, and is
    /// the same in every store. Errors: `Invalid` for a name that cannot be or means something else; as of a commit.
    pub fn define_operation(&self, name: &str) -> Result<Operation> {
        self.inner.registrar()?.define(name, Some(&self.who))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?})", self.name())
    }
}
