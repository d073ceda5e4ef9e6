//! Cursors: positions that lend what they stand on.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::db::At;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::read::{Bounds, UserCursor};
use waxseal_lsm::record::Seqno;
use waxseal_meta::{Seal, Sealer};

use crate::db::Inner;
use crate::family::ColumnFamily;

/// A position in a column family as it was when the cursor was made. Keys and values are borrowed until the next move.
///
/// It starts nowhere: move it with `seek`, `seek_for_prev`, `first` or `last`. If it could not be made at all, each of these says
/// why, and steps lead nowhere. It holds its view of the store, so drop it when done.
///
/// Damage that it meets is one `Corruption`. The cursor is not valid then, but `next` and `prev` lead on, to the first record
/// behind what is damaged; after any other error, `Closed` among them, it stands nowhere, and may be moved anew. So a loop that steps
/// on after a `Corruption`, as below, gives every record that is whole, says once for each gap that there is one, and ends.
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
///         Err(error) => return Err(error), // of the device, or the store was closed
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
    /// The engine's cursor, or why there is none, or none any more.
    at: Result<UserCursor>,
}

/// A record that a cursor lends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Its place in the order of commits; 0 once no snapshot can tell.
    pub seqno: Seqno,
    /// The seal that stands beside it, if one does. Whether the two were checked against each other is said by the policy of the handle
    /// that the cursor is of: [`ColumnFamily::with_verify`](crate::ColumnFamily::with_verify).
    pub seal: Option<Seal>,
}

impl Cursor {
    pub(crate) fn new(cf: &ColumnFamily, at: At<'_>, bounds: Bounds) -> Cursor {
        let at = cf.inner.scan(cf, at, bounds);
        Cursor { inner: Arc::clone(&cf.inner), at }
    }

    pub(crate) fn failed(inner: &Arc<Inner>, error: Error) -> Cursor {
        Cursor { inner: Arc::clone(inner), at: Err(error) }
    }

    /// Why the cursor could not be made, if it could not; `Closed` once a move has found the store closed.
    pub fn check(&self) -> Result<()> {
        self.at.as_ref().map(|_| ()).map_err(Error::clone)
    }

    /// To the first record at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.engine()?.seek(key.as_ref())
    }

    /// To the last record at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.engine()?.seek_for_prev(key.as_ref())
    }

    /// To the first record.
    pub fn first(&mut self) -> Result<()> {
        self.engine()?.first()
    }

    /// To the last record.
    pub fn last(&mut self) -> Result<()> {
        self.engine()?.last()
    }

    /// One record on, or on behind what is damaged. From the last one, and from nowhere, this leads nowhere.
    #[expect(clippy::should_implement_trait, reason = "it lends; an iterator cannot")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        self.check_open()?;
        self.at.as_mut().map_or(Ok(()), UserCursor::next)
    }

    /// One record back, or back before what is damaged. From the first one, and from nowhere, this leads nowhere.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.check_open()?;
        self.at.as_mut().map_or(Ok(()), UserCursor::prev)
    }

    /// True if the cursor stands on a record.
    #[inline]
    pub fn valid(&self) -> bool {
        self.standing().is_some()
    }

    /// The key under the cursor; empty if it stands nowhere.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], UserCursor::key)
    }

    /// The value under the cursor; empty if it stands nowhere.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], UserCursor::value)
    }

    /// All of the record under the cursor; none if it stands nowhere. Errors: `Corruption` if what stands beside the value cannot be
    /// decoded.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::{Seal, Verify};
    ///
    /// cf.put("key", "value")?;
    /// let mut cursor = cf.with_verify(Verify::Always).cursor(); // so that seal and value were checked against each other
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

    /// `Closed` once the store was closed, and the cursor stands nowhere then.
    #[inline]
    fn check_open(&mut self) -> Result<()> {
        self.inner.check_open().map_err(|closed| self.leave(closed))
    }

    /// Lets go of the place in a store that was closed: else who steps on while the cursor is valid, and looks at no error, would do so
    /// for ever.
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
