//! Sessions: writes and log queries under an identity.
//!
//! A session is a handle to the store with a name. Families and batches taken from it write under that name. Its calls
//! to registry and log (`registry.rs`) carry the name, and the authorizer receives it. Calls without a session are
//! anonymous.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::CfOptions;
use waxseal_registry::Identity;

use crate::batch::Batch;
use crate::db::Db;
use crate::inner::ColumnFamily;
use crate::registry::Registry;

/// A handle to the store with an identity, created by [`Db::session`]. Clones are the same session and may be used from
/// any thread.
///
/// Writes through its [families](Session::column_family) and [batches](Session::batch) carry its name: in the log with
/// every registered event, and in the record itself. The store does not verify the name, so open sessions only for
/// identities that the application has checked.
///
/// Every call of [`Registry`] is also a call of a session, by `Deref`: registrations and queries run under its name.
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
    registry: Registry,
}

impl Deref for Session {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

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
        Ok(Session { registry: Registry { inner: Arc::clone(&self.inner), who } })
    }

    /// Returns the anonymous session, in whose name all calls without a session run.
    pub fn nobody(&self) -> Session {
        Session { registry: self.registry() }
    }
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

    /// Returns the store, whose calls are anonymous.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let alice = waxseal::Db::memory()?.session("alice")?;
    /// alice.db().sync()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn db(&self) -> Db {
        Db { inner: Arc::clone(&self.inner) }
    }

    /// Logs the end of the session, if `Session.Close` of `engine:session` is registered, and does nothing else: clones
    /// can still write in its name. Dropping a handle logs nothing. Errors: as for a commit, if an event is logged.
    pub fn close(self) -> Result<()> {
        self.inner.registrar()?.close_session(&self.who)
    }

    /// [`Db::column_family`](Db::column_family), with a handle that writes in this session's name.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        self.inner.column_family(name, &self.who)
    }

    /// [`Db::find_column_family`](Db::find_column_family), with a handle that writes in this session's name.
    pub fn find_column_family(&self, name: &str) -> Result<Option<ColumnFamily>> {
        self.inner.find_column_family(name, &self.who)
    }

    /// [`Db::create_column_family`](Db::create_column_family), with a handle that writes in this session's name.
    pub fn create_column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        self.inner.create_column_family(name, options, &self.who)
    }

    /// [`Db::drop_column_family`](Db::drop_column_family) in this session's name. Events of the family's rows
    /// stay in the log, and registrations remain.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, false, &self.who)
    }

    /// [`Db::drop_described_family`](Db::drop_described_family) in this session's name.
    pub fn drop_described_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, true, &self.who)
    }

    /// Returns an empty batch that commits in this session's name.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.inner, &self.who)
    }
}

impl ColumnFamily {
    /// Returns a handle to the same family that writes in a session's name. Costs no search for the family, and never
    /// creates one. Errors: `Invalid` for a session of another store.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// let users = db.column_family("users")?;
    /// db.registry().register("users", "Row.Update")?;
    /// users.in_session(&db.session("alice")?)?.put("john", "33")?;
    /// let event = db.registry().query_latest("users.john", "Row.Update")?.unwrap();
    /// assert_eq!(event.key.client, "alice");
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_session(&self, session: &Session) -> Result<ColumnFamily> {
        match Arc::ptr_eq(&self.inner, &session.inner) {
            true => Ok(ColumnFamily { who: session.who.clone(), ..self.clone() }),
            false => Err(Error::invalid("the session is of another store")),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?})", self.name())
    }
}
