//! Sessions, for async code.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::error::Result;
use waxseal_lsm::options::CfOptions;
use waxseal_registry::{Event, Options as RegisterOptions, Page, Paging, Query};

use super::AsyncShared;
use super::batch::AsyncBatch;
use super::family::{self, AsyncColumnFamily};
use crate::registry::{ToOperation, ToTarget};
use crate::session::Session;

/// A store handle with an identity, for async code: see [`Session`]. [`run`](AsyncSession::run) gives access to the
/// calls that are missing here.
///
/// ```
/// # async fn example() -> waxseal::Result<()> {
/// let db = waxseal::AsyncDb::memory().await?;
/// db.column_family("users").await?;
/// let alice = db.session("alice").await?;
/// alice.register("users", "*").await?;
/// alice.column_family("users").await?.put("john", "33").await?;
/// let latest = alice.query_latest("users.john", "*").await?.unwrap();
/// assert_eq!(latest.key.client, "alice");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct AsyncSession {
    session: Session,
    shared: Arc<AsyncShared>,
}

impl AsyncSession {
    pub(super) fn new(session: Session, shared: &Arc<AsyncShared>) -> AsyncSession {
        AsyncSession { session, shared: shared.clone() }
    }

    pub(super) fn shared(&self) -> &Arc<AsyncShared> {
        &self.shared
    }

    /// Returns the synchronous handle of the same session. Its calls may block.
    pub fn blocking(&self) -> &Session {
        &self.session
    }

    /// Returns the name; `-` for the anonymous session.
    pub fn name(&self) -> &str {
        self.session.name()
    }

    /// Runs a closure with the synchronous session, on one of the store's threads.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Session) -> Result<T> + Send + 'static) -> Result<T> {
        let session = self.session.clone();
        self.shared.work(move |_| work(&session)).await
    }

    /// Logs the end of the session: see [`Session::close`].
    pub async fn close(self) -> Result<()> {
        self.run(|session| session.clone().close()).await
    }

    /// Returns a column family, as a handle that writes in this session's name: see [`Session::column_family`].
    pub async fn column_family(&self, name: &str) -> Result<AsyncColumnFamily> {
        family::open(&self.shared, name, &self.session.who).await
    }

    /// Returns a column family, and creates none: see [`Session::find_column_family`]. It is a look-up in memory.
    pub fn find_column_family(&self, name: &str) -> Result<Option<AsyncColumnFamily>> {
        family::find(&self.shared, name, &self.session.who)
    }

    /// Creates a column family with its own options: see [`Session::create_column_family`].
    pub async fn create_column_family(&self, name: &str, options: CfOptions) -> Result<AsyncColumnFamily> {
        let name = name.to_owned();
        let cf = self.run(move |session| session.create_column_family(&name, options)).await?;
        Ok(AsyncColumnFamily::new(cf, &self.shared))
    }

    /// Drops a column family in this session's name: see [`Session::drop_column_family`].
    pub async fn drop_column_family(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.run(move |session| session.drop_column_family(&name)).await
    }

    /// Returns an empty batch that commits in this session's name.
    pub fn batch(&self) -> AsyncBatch {
        AsyncBatch::new(self.session.batch(), &self.shared)
    }

    /// Registers an operation on a target: see [`Registry::register`](crate::Registry::register).
    pub async fn register(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let (_, target, operation) = self.session.pair(target, operation)?;
        self.run(move |session| session.register(target, operation)).await
    }

    /// `register` with explicit options: see [`Registry::register_with`](crate::Registry::register_with).
    pub async fn register_with(
        &self,
        target: impl ToTarget,
        operation: impl ToOperation,
        options: RegisterOptions,
    ) -> Result<bool> {
        let (_, target, operation) = self.session.pair(target, operation)?;
        self.run(move |session| session.register_with(target, operation, options)).await
    }

    /// Stops logging a pair: see [`Registry::unregister`](crate::Registry::unregister).
    pub async fn unregister(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<bool> {
        let (_, target, operation) = self.session.pair(target, operation)?;
        self.run(move |session| session.unregister(target, operation)).await
    }

    /// Returns all events of a target itself: see [`Registry::query_all`](crate::Registry::query_all).
    pub async fn query_all(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Vec<Event>> {
        let (_, target, operation) = self.session.pair(target, operation)?;
        let session = self.session.clone();
        self.shared.look(move || session.query_all(target, operation)).await
    }

    /// Returns the latest event of a target itself: see [`Registry::query_latest`](crate::Registry::query_latest).
    pub async fn query_latest(&self, target: impl ToTarget, operation: impl ToOperation) -> Result<Option<Event>> {
        let (_, target, operation) = self.session.pair(target, operation)?;
        let session = self.session.clone();
        self.shared.look(move || session.query_latest(target, operation)).await
    }

    /// Returns the events that match a query, one page at a time: see
    /// [`Registry::log_query`](crate::Registry::log_query).
    pub async fn log_query(&self, query: Query, paging: Paging) -> Result<Page> {
        let session = self.session.clone();
        self.shared.look(move || session.log_query(&query, &paging)).await
    }
}

impl fmt::Debug for AsyncSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncSession({:?})", self.name())
    }
}
