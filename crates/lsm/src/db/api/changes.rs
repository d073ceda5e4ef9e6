//! The calls of the change feed. They check arguments and call `maintenance::changes`.

use super::Db;
use crate::db::maintenance::changes::{self, ChangeReach, Changes};
use crate::error::Result;
use crate::version::{ChangePosition, FeedCursor};

impl Db {
    /// Returns the position of the change feed as of now: of the last durable commit, or of the last visible one. A
    /// reader from this position returns what is committed later, if the log is kept from here on: by a cursor, a reader
    /// or an option. The first call in the life of a store writes an edit.
    pub fn change_position(&self, reach: ChangeReach) -> Result<ChangePosition> {
        let (inner, _) = self.writable()?;
        changes::change_position(inner, reach)
    }

    /// Opens a reader of the changes after a position. It keeps the log that it has not read, within `cursor_log_bytes`
    /// and `cursor_log_age`, until it is dropped or the store is closed. If nothing kept the log before, an edit begins
    /// to keep it.
    ///
    /// Errors: `OutOfReach` if the log is not kept that far back, or if the position lies in a history that was cut before
    /// it; the message names the oldest position. `Invalid` if the position lies ahead of the store. `Io`.
    ///
    /// In a store that was opened read-only, the reader follows the process that writes. It keeps no log: a cursor or an
    /// option of the writer does. It returns durable changes alone.
    pub fn changes_since(&self, position: &ChangePosition, reach: ChangeReach) -> Result<Changes> {
        changes::changes_since(self.open_inner()?, position, reach)
    }

    /// Keeps the log for a consumer of the change feed, from the position of its named cursor on, also after the store was
    /// closed or has crashed. Returns the position of the cursor. The first call with a name creates the cursor at
    /// `position`, or at the last durable commit. A later call with a position moves it, and releases the log before it
    /// with the next edit of the log. Durable when the call returns; costs an fsync.
    ///
    /// Errors: those of `changes_since` for the position; `Invalid` for a name that is empty, longer than 255 bytes or has
    /// a zero byte, and for more than 1,024 cursors.
    pub fn keep_log_for(&self, name: &str, position: Option<&ChangePosition>) -> Result<ChangePosition> {
        let (inner, _) = self.writable()?;
        changes::set_cursor(inner, name, position)
    }

    /// Removes a cursor. The next edit of the log releases what only this cursor needed. Fails with `Invalid` if there is
    /// no cursor of this name.
    pub fn drop_change_cursor(&self, name: &str) -> Result<()> {
        let (inner, _) = self.writable()?;
        changes::drop_cursor(inner, name)
    }

    /// Returns the cursors by name. A cursor that has fallen behind is among them; reads from its position fail.
    pub fn change_cursors(&self) -> Vec<FeedCursor> {
        self.inner().catalog().feed.view().state.cursors.values().cloned().collect()
    }

    /// Returns the oldest position from which the feed can be read; `None` if no log is kept for it.
    pub fn oldest_change_position(&self) -> Option<ChangePosition> {
        self.inner().catalog().feed.view().state.oldest()
    }

    /// Returns the position at which this store branched from another history: of the store that it is a copy of, or of
    /// its own before a recovery cut the log. A follower that was made of a checkpoint continues from there. `None` in
    /// the first history.
    pub fn change_branch(&self) -> Option<ChangePosition> {
        self.inner().catalog().feed.view().state.branch()
    }
}
