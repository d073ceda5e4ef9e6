//! The change feed: reads the commits of a store in order, and keeps the log for its consumers. `waxseal_lsm` implements
//! it.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::time::Duration;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db as engine;
use waxseal_lsm::env::{SystemTime, UNIX_EPOCH};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_meta::annotations::Annotations;
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::{Seal, Stamp};

pub use waxseal_lsm::db::{ChangeOperation, ChangeReach};
pub use waxseal_lsm::version::ChangePosition;

use crate::batch::{Batch, Write};
use crate::db::Db;
use crate::inner::ColumnFamily;

/// How long one step of a tail waits.
const TAIL_STEP: Duration = Duration::from_millis(200);

/// One change of a commit.
#[derive(Clone)]
pub struct Change {
    /// Its position in the commit order. The rows of an ingestion share one.
    pub seqno: Seqno,
    /// The name of the column family.
    pub family: Arc<str>,
    /// The family's [id](ColumnFamily::id) in this store. A family that is dropped and created again has another one.
    pub family_id: u32,
    /// The name of the family's key order.
    pub order: Arc<str>,
    /// What changed.
    pub operation: ChangeOperation,
    /// The seal that was made at the write; the change was checked against it. `None` in a plain store, and for a dropped
    /// family.
    pub seal: Option<Seal>,
    /// The number of the session that wrote it, if the write was watched.
    pub session: Option<u64>,
    /// True for the last change of a commit.
    pub ends_commit: bool,
    companion: Vec<u8>,
}

impl Change {
    fn of(change: engine::Change) -> Result<Change> {
        let engine::Change { seqno, family, operation, companion, ends_commit } = change;
        let (mut seal, mut session) = (None, None);
        if !companion.is_empty() {
            // Not bound to a seqno yet: the word is the seal itself.
            let key = key_of(&operation);
            let record = Record { key, seqno: 0, kind: Kind::Put, value: &[], companion: &companion };
            seal = Annotations::read(record.companion)?.seal.map(|(_, word)| Seal::from_bytes(word.to_le_bytes()));
            session = Stamp::standing(&companion, hash_key(key))?.map(|stamp| stamp.session);
        }
        let (family, family_id, order) = (Arc::clone(&family.name), family.id, Arc::clone(&family.order));
        Ok(Change { seqno, family, family_id, order, operation, seal, session, ends_commit, companion })
    }

    /// Returns the key; empty for a range delete without a start and for a dropped family.
    pub fn key(&self) -> &[u8] {
        key_of(&self.operation)
    }

    /// Returns the entry of a metadata provider for a put; `None` if there is none. Errors: `Corruption` if the entries
    /// cannot be decoded.
    ///
    /// ```
    /// use waxseal::meta::{LABELS, Labels};
    /// use waxseal::{Db, WriteOptions};
    ///
    /// let db = Db::memory()?;
    /// let cf = db.column_family("default")?;
    /// let cursor = db.change_cursor("copy")?;
    /// cf.put_with("key", "value", WriteOptions::new().label("source", "import"))?;
    /// db.sync()?;
    /// let change = cursor.changes()?.next().unwrap()?;
    /// let labels = change.meta(LABELS)?.and_then(Labels::read);
    /// assert_eq!(labels.unwrap(), [("source", "import")]);
    /// # Ok::<(), waxseal::Error>(())
    /// ```
    pub fn meta(&self, provider: u16) -> Result<Option<&[u8]>> {
        Ok(Annotations::read(&self.companion)?.entry(provider)?.map(|entry| entry.bytes))
    }

    /// Returns the expiry time of a put; `None` if the value never expires, or if the change is no put. Errors:
    /// `Corruption` if the entries cannot be decoded.
    pub fn expires_at(&self) -> Result<Option<SystemTime>> {
        let micros = self.meta(EXPIRY)?.and_then(Expiry::read);
        Ok(micros.map(|micros| UNIX_EPOCH + Duration::from_micros(micros)))
    }
}

fn key_of(operation: &ChangeOperation) -> &[u8] {
    match operation {
        ChangeOperation::Put { key, .. } | ChangeOperation::Delete { key } | ChangeOperation::Merge { key, .. } => key,
        ChangeOperation::DeleteRange { start, .. } => start.as_deref().unwrap_or_default(),
        ChangeOperation::DropFamily => &[],
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}: {:?}", self.seqno, self.family, self.operation)
    }
}

/// Reads changes in commit order. See [`Db::changes_since`].
///
/// The iterator ends at the store's last durable commit; a later call returns what was committed since.
pub struct Changes(engine::Changes);

impl Changes {
    /// Returns the next change, and waits for it at most `timeout`. A reader of durable changes syncs the log if it finds
    /// commits that are visible and not durable yet. `None` after the timeout. Errors: those of the iterator.
    pub fn wait_next(&mut self, timeout: Duration) -> Result<Option<Change>> {
        self.0.wait_next(timeout)?.map(Change::of).transpose()
    }

    /// Returns the position after the last change that was returned. A reader that is opened there goes on with the next
    /// one, also in the middle of a commit.
    pub fn position(&self) -> ChangePosition {
        self.0.position()
    }

    /// Returns an iterator that waits for changes, for ever. It ends with an error: `Closed` when the store is closed.
    pub fn tail(self) -> Tail {
        Tail { changes: self, has_ended: false }
    }
}

impl Iterator for Changes {
    type Item = Result<Change>;

    /// Returns the next change; `None` if there is none now. Errors: `OutOfReach` if the reader fell behind the bounds
    /// of the log; `Corruption` of the log, a value or a record; `Io`, `Closed`. After an error the next call tries again.
    fn next(&mut self) -> Option<Result<Change>> {
        self.0.next().and_then(|change| change.map(Change::of).transpose()).transpose()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns changes as they are committed, and blocks between them. See [`Changes::tail`].
#[derive(Debug)]
pub struct Tail {
    changes: Changes,
    has_ended: bool,
}

impl Tail {
    /// Returns the position after the last change that was returned.
    pub fn position(&self) -> ChangePosition {
        self.changes.position()
    }
}

impl Iterator for Tail {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Result<Change>> {
        while !self.has_ended {
            match self.changes.wait_next(TAIL_STEP) {
                Ok(None) => {}
                Ok(Some(change)) => return Some(Ok(change)),
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl FusedIterator for Tail {}

/// A named cursor of the change feed, which keeps the log for its consumer. See [`Db::change_cursor`].
#[derive(Clone)]
pub struct ChangeCursor {
    db: Db,
    name: String,
}

impl ChangeCursor {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the position up to which the consumer has moved the cursor. Errors: `Invalid` if it was removed.
    pub fn position(&self) -> Result<ChangePosition> {
        let cursors = self.db.inner.engine.change_cursors();
        let found = cursors.into_iter().find(|cursor| cursor.name == self.name);
        found.map(|cursor| cursor.position).ok_or_else(|| Error::invalid("the cursor was removed"))
    }

    /// Opens a reader of the durable changes after the cursor's position. Errors: those of [`Db::changes_since`].
    pub fn changes(&self) -> Result<Changes> {
        self.db.changes_since(self.position()?)
    }

    /// Moves the cursor: the consumer has durably processed the changes up to a position. Durable when the call returns;
    /// costs an fsync. The log before it is released with the next flush. Errors: those of [`Db::changes_since`];
    /// `Invalid` if the cursor was removed.
    pub fn advance(&self, position: ChangePosition) -> Result<()> {
        self.position()?;
        self.db.inner.engine.keep_log_for(&self.name, Some(&position)).map(drop)
    }

    /// Removes the cursor. Errors: `Invalid` if it was removed already.
    pub fn remove(self) -> Result<()> {
        self.db.inner.engine.drop_change_cursor(&self.name)
    }
}

impl fmt::Debug for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeCursor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Db {
    /// Returns a reader of the durable changes after a position: of whole commits, in order, with their seals. Ingested
    /// rows, range deletes and dropped families are changes; the system families are not among them.
    ///
    /// The changes come from the log. The log is kept for named cursors ([`Db::change_cursor`]), for open readers, and by
    /// the options [`keep_log_bytes`](crate::Settings::keep_log_bytes) and
    /// [`keep_log_age`](crate::Settings::keep_log_age). Commits pay nothing for the feed.
    ///
    /// Errors: `OutOfReach` if the log is not kept that far back; the message names the oldest position. The same if the
    /// position lies in a history that was cut before it: a crash of the machine took back commits that the consumer has
    /// seen, or the store was restored from an older backup. The consumer then starts again, from a
    /// [checkpoint](Db::checkpoint) or a backup. `Invalid` if the position lies ahead of the store
    /// (a store that is open for reading only waits there for the writer's commits); `ReadOnly`, `Io`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::{Db, Durability};
    ///
    /// let (db, copy) = (Db::memory()?, Db::memory()?);
    /// let users = db.column_family("users")?;
    /// let cursor = db.change_cursor("copy")?; // keeps the log from here on, over restarts
    /// users.put("john", "33")?;
    /// users.delete("mary")?;
    /// db.sync()?;
    ///
    /// let mut changes = db.changes_since(cursor.position()?)?;
    /// let mut batch = copy.batch();
    /// for change in &mut changes {
    ///     let change = change?;
    ///     batch.apply(&copy.column_family(&change.family)?, &change);
    ///     if change.ends_commit {
    ///         batch.commit(Durability::Sync)?;
    ///         batch.clear();
    ///     }
    /// }
    /// cursor.advance(changes.position())?; // the log before it may go
    /// assert_eq!(copy.column_family("users")?.get("john")?.unwrap(), "33");
    /// # Ok(())
    /// # }
    /// ```
    pub fn changes_since(&self, position: ChangePosition) -> Result<Changes> {
        self.changes_within(position, ChangeReach::Durable)
    }

    /// As [`changes_since`](Db::changes_since), with changes that may not be durable yet if `reach` says so.
    pub fn changes_within(&self, position: ChangePosition, reach: ChangeReach) -> Result<Changes> {
        self.inner.engine.changes_since(&position, reach).map(Changes)
    }

    /// Returns the position of the last durable commit. Without a cursor, a reader or an option,
    /// the log after it is not kept: [`change_cursor`](Db::change_cursor) creates a cursor at this position.
    pub fn change_position(&self) -> Result<ChangePosition> {
        self.inner.engine.change_position(ChangeReach::Durable)
    }

    /// Returns the named cursor of the change feed; creates it at the last durable commit if there is none. A cursor keeps
    /// the log that its consumer has not processed, also while the store is closed and after a crash, up to
    /// [`cursor_log_bytes`](crate::Settings::cursor_log_bytes) and
    /// [`cursor_log_age`](crate::Settings::cursor_log_age). A cursor that falls behind these bounds stays, and reads from
    /// it fail with `OutOfReach`.
    ///
    /// Creating a cursor syncs the log and costs an fsync more. Errors: `Invalid` for a name that is empty, longer than
    /// 255 bytes or holds a zero byte, for more than 1,024 cursors, and for a store of format level 1; `ReadOnly`, `Io`.
    pub fn change_cursor(&self, name: &str) -> Result<ChangeCursor> {
        self.inner.engine.keep_log_for(name, None)?;
        Ok(ChangeCursor { db: self.clone(), name: name.to_owned() })
    }

    /// Returns the cursors of the change feed, each with its position, by name.
    pub fn change_cursors(&self) -> Vec<(String, ChangePosition)> {
        self.inner.engine.change_cursors().into_iter().map(|cursor| (cursor.name, cursor.position)).collect()
    }

    /// Returns the oldest position from which changes can be read; `None` if no log is kept for the feed.
    pub fn oldest_change_position(&self) -> Option<ChangePosition> {
        self.inner.engine.oldest_change_position()
    }

    /// Returns the position at which this store branched from its last history: for a checkpoint or a restored backup,
    /// the position of the other store at which a follower continues. `None` if it never branched.
    pub fn change_branch(&self) -> Option<ChangePosition> {
        self.inner.engine.change_branch()
    }
}

impl Batch {
    /// Adds a change of another store to the batch, with its seal, expiry and other entries. The seal is compared with key
    /// and value. The session is not part of it. A merge operand needs the merge operator of its family. A dropped family
    /// is a refused write (`Invalid`): the caller drops its own.
    pub fn apply(&mut self, cf: &ColumnFamily, change: &Change) -> &mut Batch {
        let entries =
            match Annotations::read(&change.companion).and_then(|read| read.entries().collect::<Result<Vec<_>>>()) {
                Ok(entries) => entries,
                Err(error) => return self.refuse(error),
            };
        let entries: Vec<(u16, &[u8])> = entries.iter().map(|entry| (entry.provider, entry.bytes)).collect();
        let write = match &change.operation {
            ChangeOperation::Put { key, value } => Write::put(key, value),
            ChangeOperation::Delete { key } => Write::delete(key),
            ChangeOperation::Merge { key, operand } => Write::merge(key, operand),
            ChangeOperation::DeleteRange { start, end } => {
                return match self.try_delete_between(cf, (start.as_deref(), end.as_deref())) {
                    Ok(()) => self,
                    Err(error) => self.refuse(error),
                };
            }
            ChangeOperation::DropFamily => return self.refuse(Error::invalid("a batch cannot drop a column family")),
        };
        self.push(cf, Write { seal: change.seal, entries: &entries, is_lasting: true, is_resolved: true, ..write })
    }
}
