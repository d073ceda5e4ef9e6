//! Cursors: positions in a family that lend the current record.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::db::At;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::read::{CursorBounds, UserCursor};
use waxseal_lsm::record::Seqno;
use waxseal_meta::{Seal, Sealer};

use crate::inner::{ColumnFamily, Inner};

/// A position in a column family, as of the cursor's creation. Keys and values are borrowed until the next move.
///
/// A new cursor has no position: move it with `seek`, `seek_for_prev`, `first` or `last`. If its creation failed, each
/// of these methods returns the error, while `next` and `prev` do nothing. A cursor pins its view of the store, so drop
/// it after use.
///
/// Damage is reported as one `Corruption` error per gap. The cursor is not valid then, but `next` and `prev` continue
/// at the first record behind the damage. After any other error, such as `Closed`, the cursor has no position and may
/// be moved anew. A loop that continues after `Corruption`, as below, therefore visits every undamaged record, reports
/// each gap once, and ends.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let cf = waxseal::Db::memory()?.column_family("default")?;
/// # for key in ["a", "b", "c"] { cf.put(key, "1")?; }
/// let (mut rows, mut gaps) = (0, Vec::new());
/// let mut cursor = cf.cursor();
/// let mut step = cursor.first();
/// loop {
///     match step {
///         Ok(()) if !cursor.valid() => break,
///         Ok(()) => rows += 1,
///         Err(gap) if gap.is_corruption() => gaps.push(gap),
///         Err(error) => return Err(error), // a device error, or the store was closed
///     }
///     step = cursor.next();
/// }
/// assert_eq!((rows, gaps.len()), (3, 0));
/// # Ok(())
/// # }
/// ```
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let cf = waxseal::Db::memory()?.column_family("default")?;
/// # for key in ["a", "b", "c"] { cf.put(key, "1")?; }
/// let mut bytes = 0;
/// let mut cursor = cf.cursor();
/// cursor.first()?;
/// while cursor.valid() {
///     bytes += cursor.key().len() + cursor.value().len();
///     cursor.next()?;
/// }
/// assert_eq!(bytes, 6);
/// # Ok(())
/// # }
/// ```
pub struct Cursor {
    pub(crate) inner: Arc<Inner>,
    /// The engine's cursor, or the error that prevented or ended it.
    at: Result<UserCursor>,
}

/// A record borrowed from a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The sequence number of its commit; 0 once compaction has dropped it because no snapshot needs it.
    pub seqno: Seqno,
    /// The record's seal; `None` if the record was written without seals. Whether it was checked against the value
    /// depends on the verification policy of the cursor's handle:
    /// [`ColumnFamily::with_verify`](crate::ColumnFamily::with_verify).
    pub seal: Option<Seal>,
}

impl Cursor {
    pub(crate) fn new(cf: &ColumnFamily, at: At<'_>, bounds: CursorBounds) -> Cursor {
        let at = cf.inner.scan(cf, at, bounds);
        Cursor { inner: Arc::clone(&cf.inner), at }
    }

    pub(crate) fn failed(inner: &Arc<Inner>, error: Error) -> Cursor {
        Cursor { inner: Arc::clone(inner), at: Err(error) }
    }

    /// Returns the error that prevented the cursor's creation, if any; `Closed` once a move has found the store closed.
    pub fn check(&self) -> Result<()> {
        self.at.as_ref().map(|_| ()).map_err(Error::clone)
    }

    /// Moves to the first record at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.engine()?.seek(key.as_ref())
    }

    /// Moves to the last record at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.engine()?.seek_for_prev(key.as_ref())
    }

    /// Moves to the first record.
    pub fn first(&mut self) -> Result<()> {
        self.engine()?.first()
    }

    /// Moves to the last record.
    pub fn last(&mut self) -> Result<()> {
        self.engine()?.last()
    }

    /// Moves to the next record, or over damage to the record behind it. At the last record the cursor loses its
    /// position; without a position this does nothing.
    #[expect(clippy::should_implement_trait, reason = "it lends; an iterator cannot")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        self.check_open()?;
        self.at.as_mut().map_or(Ok(()), UserCursor::next)
    }

    /// Moves to the previous record, or over damage to the record before it. At the first record the cursor loses its
    /// position; without a position this does nothing.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.check_open()?;
        self.at.as_mut().map_or(Ok(()), UserCursor::prev)
    }

    /// Returns true if the cursor is positioned on a record.
    #[inline]
    pub fn valid(&self) -> bool {
        self.standing().is_some()
    }

    /// Returns the current key; empty if the cursor is not valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], UserCursor::key)
    }

    /// Returns the current value; empty if the cursor is not valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], UserCursor::value)
    }

    /// Returns the current record with its seal and sequence number; `None` if the cursor is not valid. Errors:
    /// `Corruption` if the record's metadata cannot be decoded.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::{Seal, Verify};
    ///
    /// cf.put("key", "value")?;
    /// let mut cursor = cf.with_verify(Verify::Always).cursor(); // verifies each value against its seal
    /// cursor.first()?;
    /// let row = cursor.row()?.unwrap();
    /// assert_eq!((row.key, row.value), (&b"key"[..], &b"value"[..]));
    /// assert_eq!(row.seal, Some(Seal::of("key", "value")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn row(&self) -> Result<Option<Row<'_>>> {
        let Some(cursor) = self.standing() else { return Ok(None) };
        let record = cursor.record();
        let seal = Sealer::seal_of(&record)?;
        Ok(Some(Row { key: record.key, value: record.value, seqno: record.seqno, seal }))
    }

    #[inline]
    fn engine(&mut self) -> Result<&mut UserCursor> {
        self.check_open()?;
        self.at.as_mut().map_err(|error| error.clone())
    }

    /// Fails with `Closed` once the store was closed, and drops the position then.
    #[inline]
    fn check_open(&mut self) -> Result<()> {
        self.inner.check_open().map_err(|closed| self.leave(closed))
    }

    /// Drops the position in a closed store. Otherwise a loop that steps while the cursor is valid, and ignores errors,
    /// would never end.
    #[cold]
    fn leave(&mut self, closed: Error) -> Error {
        self.at = Err(closed.clone());
        closed
    }

    #[inline]
    fn standing(&self) -> Option<&UserCursor> {
        self.at.as_ref().ok().filter(|cursor| cursor.valid())
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("valid", &self.valid()).field("failed", &self.at.as_ref().err()).finish()
    }
}
