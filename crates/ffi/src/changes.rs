//! The change feed: the commits of a store in order, and named cursors that keep the log for their consumers.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use face::{Change, ChangeCursor, ChangeOperation, ChangePosition, ChangeReach, Changes, Db, StoreId};

use crate::batch::{add, waxseal_batch_t};
use crate::bytes::{give, waxseal_bytes_t};
use crate::db::waxseal_db_t;
use crate::declare::{destroy, mirror};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, peek, with, with_mut};
use crate::json::put_text;
use crate::lent::{Lent, waxseal_slice_t};
use crate::seal::waxseal_seal_t;

/// Changes that are durable: no crash takes back a change that the reader has returned.
pub const WAXSEAL_CHANGES_DURABLE: i32 = 0;
/// All changes that reads of the store see. A position behind a commit that a crash of the machine takes back is refused
/// later.
pub const WAXSEAL_CHANGES_VISIBLE: i32 = 1;

/// A key was set to a value.
pub const WAXSEAL_CHANGE_PUT: i32 = 0;
/// A key was deleted.
pub const WAXSEAL_CHANGE_DELETE: i32 = 1;
/// An operand was merged into the value of a key.
pub const WAXSEAL_CHANGE_MERGE: i32 = 2;
/// All keys from `key` to `value`, which is excluded, were deleted. A null pointer is no bound.
pub const WAXSEAL_CHANGE_DELETE_RANGE: i32 = 3;
/// The family was dropped.
pub const WAXSEAL_CHANGE_DROP_FAMILY: i32 = 4;

/// Reads the changes of a store in commit order. Used by one thread at a time. Destroyed by `waxseal_changes_destroy`.
/// The log that it has not read is kept as long as it exists and the store is open, within the bounds of
/// `waxseal_options_set_cursor_log_bytes`.
pub struct waxseal_changes_t {
    _opaque: [u8; 0],
}

handle!(waxseal_changes_t => Mutex<CallerChanges>, HandleKind::Changes, "reader of changes",
    |changes| peek(changes, |changes| changes.store));

/// A reader, and the change that it returned last.
pub(crate) struct CallerChanges {
    store: StoreId,
    changes: Changes,
    last: Option<ReadChange>,
    /// A change that the reader has passed and that could not be decoded, and the position before it.
    undecoded: Option<(Change, ChangePosition)>,
}

impl CallerChanges {
    /// Moves to the next change, by `read`, and returns it. After an error the next call tries the same change again.
    fn advance(&mut self, read: impl FnOnce(&mut Changes) -> Result<Option<Change>>) -> Result<Option<&ReadChange>> {
        self.last = None;
        let changes = &mut self.changes;
        let read = || {
            let before = Changes::position(changes);
            Ok(read(changes)?.map(|change| (change, before)))
        };
        let decoded = retried(&mut self.undecoded, read, |(change, _)| expires_micros(change))?;
        let read = decoded.map(|((change, _), expires_micros)| ReadChange { change, expires_micros });
        Ok(read.map(|read| &*self.last.insert(read)))
    }

    /// Returns the position after the last change that was returned.
    fn position(&self) -> ChangePosition {
        self.undecoded.as_ref().map_or_else(|| self.changes.position(), |(_, before)| *before)
    }
}

/// Reads a value and decodes it. A value that cannot be decoded is put back, and is the next one to be decoded.
fn retried<T, D>(
    put_back: &mut Option<T>,
    read: impl FnOnce() -> Result<Option<T>>,
    decode: impl FnOnce(&T) -> Result<D>,
) -> Result<Option<(T, D)>> {
    let Some(value) = put_back.take().map_or_else(read, |value| Ok(Some(value)))? else { return Ok(None) };
    match decode(&value) {
        Ok(decoded) => Ok(Some((value, decoded))),
        Err(failure) => {
            *put_back = Some(value);
            Err(failure)
        }
    }
}

/// Returns the time at which the value of a change expires, in microseconds since 1970; 0 for never.
fn expires_micros(change: &Change) -> Result<u64> {
    let since = |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(change.expires_at()?.map_or(0, |time| since(time).as_micros() as u64))
}

pub(crate) struct ReadChange {
    change: Change,
    expires_micros: u64,
}

impl ReadChange {
    fn operation(&self) -> i32 {
        match self.change.operation {
            ChangeOperation::Put { .. } => WAXSEAL_CHANGE_PUT,
            ChangeOperation::Delete { .. } => WAXSEAL_CHANGE_DELETE,
            ChangeOperation::Merge { .. } => WAXSEAL_CHANGE_MERGE,
            ChangeOperation::DeleteRange { .. } => WAXSEAL_CHANGE_DELETE_RANGE,
            ChangeOperation::DropFamily => WAXSEAL_CHANGE_DROP_FAMILY,
        }
    }

    fn key(&self) -> Option<&[u8]> {
        match &self.change.operation {
            ChangeOperation::DeleteRange { start, .. } => start.as_deref(),
            ChangeOperation::DropFamily => None,
            _ => Some(self.change.key()),
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match &self.change.operation {
            ChangeOperation::Put { value, .. } => Some(value),
            ChangeOperation::Merge { operand, .. } => Some(operand),
            ChangeOperation::DeleteRange { end, .. } => end.as_deref(),
            ChangeOperation::Delete { .. } | ChangeOperation::DropFamily => None,
        }
    }
}

mirror! {
    /// One change of a commit. Its slices are valid until the next call with its reader.
    pub struct waxseal_change_t of |read: &ReadChange| {
        /// Its position in the commit order. The rows of an ingestion share one.
        pub seqno: u64 = read.change.seqno,
        /// The name of the column family.
        pub family: waxseal_slice_t = waxseal_slice_t::text(&read.change.family),
        /// The name of the family's key order.
        pub order: waxseal_slice_t = waxseal_slice_t::text(&read.change.order),
        /// One of `WAXSEAL_CHANGE_..`.
        pub operation: i32 = read.operation(),
        /// True for the last change of a commit.
        pub ends_commit: bool = read.change.ends_commit,
        /// False in a plain store, and for a dropped family: then `seal` is zero.
        pub has_seal: bool = read.change.seal.is_some(),
        /// The key; the start of a range delete. A null pointer if there is none.
        pub key: waxseal_slice_t = waxseal_slice_t::or_empty(read.key()),
        /// The value, the operand, or the end of a range delete. A null pointer if there is none.
        pub value: waxseal_slice_t = waxseal_slice_t::or_empty(read.value()),
        /// The seal that was made at the write; the change was checked against it.
        pub seal: waxseal_seal_t = read.change.seal.map(Into::into).unwrap_or_default(),
        /// The session's number if the write was watched, otherwise 0.
        pub session: u64 = read.change.session.unwrap_or(0),
        /// The time at which the value expires, in microseconds since 1970; 0 for never.
        pub expires_micros: u64 = read.expires_micros,
        /// The id of the family in the store that changed: see `waxseal_family_id`.
        pub family_id: u32 = read.change.family_id,
    }
}

fn position_of(position: Lent<'_>) -> Result<ChangePosition> {
    Ok(position.text("position")?.parse()?)
}

/// Returns an existing cursor. Fails with `WAXSEAL_INVALID` if the store has no cursor of this name.
fn existing(db: &Db, name: Lent<'_>) -> Result<ChangeCursor> {
    let name = name.text("name")?;
    match db.change_cursors().iter().any(|(known, _)| known == name) {
        true => Ok(db.change_cursor(name)?),
        false => Err(Failure::invalid(format!("there is no cursor {name:?} of the change feed"))),
    }
}

calls! {
    /// Returns the position of the last durable commit, as text. A reader from there returns later changes, if the log is
    /// kept: by a cursor, a reader or an option.
    ///
    /// Thread-safe. On success the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_INVALID` for a store of format level 1, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_change_position(db: *mut waxseal_db_t, out position: *mut *mut waxseal_bytes_t) {
        let position = position.needed("position")?;
        let at = with(db.cast_const(), |db: &Db| Ok(db.change_position()?))?;
        give(position, at.to_string().as_bytes())
    }

    /// Returns the oldest position from which changes can be read. `WAXSEAL_NOT_FOUND` if no log is kept.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_oldest_change_position(db: *const waxseal_db_t, out position: *mut *mut waxseal_bytes_t) {
        let position = position.needed("position")?;
        let Some(at) = with(db, |db: &Db| Ok(db.oldest_change_position()))? else { return Ok(false) };
        give(position, at.to_string().as_bytes())?;
        Ok(true)
    }

    /// Returns the position at which this store branched from its last history: for a checkpoint or a restored backup,
    /// the position of the other store at which a follower continues. `WAXSEAL_NOT_FOUND` if it never branched.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_change_branch(db: *const waxseal_db_t, out position: *mut *mut waxseal_bytes_t) {
        let position = position.needed("position")?;
        let Some(at) = with(db, |db: &Db| Ok(db.change_branch()))? else { return Ok(false) };
        give(position, at.to_string().as_bytes())?;
        Ok(true)
    }

    /// Opens a reader of the changes after a position. `reach` is one of `WAXSEAL_CHANGES_..`; a read-only store, which
    /// may be open beside a writer, has durable changes alone.
    ///
    /// Thread-safe. On success the caller owns `*changes` and frees it with `waxseal_changes_destroy`. Errors:
    /// `WAXSEAL_OUT_OF_REACH` if the log is not kept that far back, or if the position lies in a history that was cut
    /// before it; `WAXSEAL_INVALID` for text that is no position, for a position ahead of the store (unless it is open for
    /// reading only: it waits there for the writer's commits), and for an unknown
    /// reach; `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_changes_since(
        db: *mut waxseal_db_t, bytes position, reach: i32, out changes: *mut *mut waxseal_changes_t,
    ) {
        let place = changes.needed("reader")?;
        let reach = match reach {
            WAXSEAL_CHANGES_DURABLE => ChangeReach::Durable,
            WAXSEAL_CHANGES_VISIBLE => ChangeReach::Visible,
            other => return Err(Failure::invalid(format!("{other} is no reach of a reader of changes"))),
        };
        let position = position_of(position)?;
        let (store, changes) =
            with(db.cast_const(), |db: &Db| Ok((db.store(), db.changes_within(position, reach)?)))?;
        place.set(issue(Mutex::new(CallerChanges { store, changes, last: None, undecoded: None }))?);
        Ok(())
    }

    /// Returns the next change, and waits for it at most `timeout_micros`; 0 does not wait, `UINT64_MAX` waits without
    /// end. `WAXSEAL_NOT_FOUND` if there is none: a later call returns what was committed since. A reader of durable
    /// changes that waits syncs the log if it finds commits that are visible and not durable yet.
    ///
    /// One thread at a time; another thread that closes the store ends the wait. The wait can be interrupted, as
    /// `waxseal_set_interrupt` describes. The slices of `*change` are valid until the next call with the reader. Errors:
    /// `WAXSEAL_OUT_OF_REACH` if the reader fell behind the bounds of the log; `WAXSEAL_CORRUPTION` of the log, a value
    /// or a record; `WAXSEAL_INTERRUPTED`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`. After an error the next call tries again.
    fn waxseal_changes_next(
        changes: *mut waxseal_changes_t, timeout_micros: u64, out change: *mut waxseal_change_t,
    ) {
        let place = change.needed("change")?;
        with_mut(changes.cast_const(), |reader: &mut CallerChanges| {
            let read = |changes: &mut Changes| match timeout_micros {
                0 => Ok(changes.next().transpose()?),
                u64::MAX => Ok(changes.wait_next(Duration::MAX)?),
                micros => Ok(changes.wait_next(Duration::from_micros(micros))?),
            };
            let Some(change) = reader.advance(read)? else { return Ok(false) };
            place.set(waxseal_change_t::of(change));
            Ok(true)
        })
    }

    /// Returns the position after the last change that the reader returned, as text. A reader that is opened there goes
    /// on with the next one, also in the middle of a commit.
    ///
    /// One thread at a time. On success the caller owns `*position` and frees it with `waxseal_bytes_destroy`.
    fn waxseal_changes_position(changes: *mut waxseal_changes_t, out position: *mut *mut waxseal_bytes_t) {
        let position = position.needed("position")?;
        let at = with_mut(changes.cast_const(), |reader: &mut CallerChanges| Ok(reader.position()))?;
        give(position, at.to_string().as_bytes())
    }

    /// Adds the change that the reader returned last to a batch of another store, with its seal, its expiry and its
    /// other entries. The session is not part of it. An operand needs the merge operator of its family.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` if the reader has returned no change,
    /// and for a dropped family, which the caller drops itself.
    fn waxseal_batch_apply(
        batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, changes: *mut waxseal_changes_t,
    ) {
        with_mut(changes.cast_const(), |reader: &mut CallerChanges| {
            let last = reader.last.as_ref();
            let last = last.ok_or_else(|| Failure::invalid("the reader has returned no change since it was called"))?;
            add(batch, family, |batch, family| {
                batch.apply(family, &last.change);
                Ok(())
            })
        })
    }

    /// Finds the named cursor of the change feed, or creates it at the last durable commit, and returns its position as
    /// text. A cursor keeps the log that its consumer has not processed, also while the store is closed and after a crash,
    /// within the bounds of `waxseal_options_set_cursor_log_bytes` and `waxseal_options_set_cursor_log_age`. A cursor
    /// that falls behind them stays, and readers from its position fail. `position` may be null. Creating a cursor costs
    /// two fsyncs.
    ///
    /// Thread-safe. On success the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_INVALID` for a name that is empty, longer than 255 bytes or has a zero byte, for more than 1,024 cursors,
    /// and for a store of format level 1; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_change_cursor(db: *mut waxseal_db_t, bytes name, out position: *mut *mut waxseal_bytes_t) {
        let at = with(db.cast_const(), |db: &Db| Ok(db.change_cursor(name.text("name")?)?.position()?))?;
        if position.is_nowhere() { Ok(()) } else { give(position, at.to_string().as_bytes()) }
    }

    /// Moves a cursor: its consumer has durably processed the changes up to a position. The log before it is released
    /// with the next flush. Durable when the call returns; costs an fsync.
    ///
    /// Thread-safe. Errors: those of `waxseal_changes_since` for the position; `WAXSEAL_INVALID` if there is no such
    /// cursor.
    fn waxseal_change_cursor_advance(db: *mut waxseal_db_t, bytes name, bytes position) {
        let position = position_of(position)?;
        with(db.cast_const(), |db: &Db| Ok(existing(db, name)?.advance(position)?))
    }

    /// Removes a cursor. The next flush releases the log that only this cursor needed.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` if there is no such cursor.
    fn waxseal_change_cursor_remove(db: *mut waxseal_db_t, bytes name) {
        with(db.cast_const(), |db: &Db| Ok(existing(db, name)?.remove()?))
    }

    /// Returns the cursors as a JSON object: the name and the position of each.
    ///
    /// Thread-safe. On success the caller owns `*json` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_change_cursors_json(db: *const waxseal_db_t, out json: *mut *mut waxseal_bytes_t) {
        let json = json.needed("text")?;
        let mut text = String::from("{");
        for (index, (name, position)) in with(db, |db: &Db| Ok(db.change_cursors()))?.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            put_text(&mut text, name);
            let _ = write!(text, ":\"{position}\"");
        }
        give(json, (text + "}").as_bytes())
    }
}

destroy! {
    /// Destroys a reader of changes. Null is allowed; a destroyed reader is `WAXSEAL_CLOSED`.
    fn waxseal_changes_destroy(changes: *mut waxseal_changes_t);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_decoded_is_the_next_one_again() {
        let (mut put_back, mut rest) = (None, vec![3, 2, 1]);
        let mut next = |fails: bool| {
            let decode = |value: &i32| if fails { Err(Failure::invalid("damaged")) } else { Ok(value * 10) };
            retried(&mut put_back, || Ok(rest.pop()), decode).ok()
        };
        assert_eq!(next(false), Some(Some((1, 10))));
        assert_eq!([next(true), next(true)], [None, None]);
        assert_eq!([next(false), next(false)], [Some(Some((2, 20))), Some(Some((3, 30)))]);
        assert_eq!(next(true), Some(None));
    }
}
