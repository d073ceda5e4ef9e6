//! Cursors of a transaction.

use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use waxseal_lsm::db::At;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::order::Order;
use waxseal_lsm::read::{CursorBounds, UserCursor};

use super::own_writes::FamilyWrites;
use super::{Isolation, Shared, State};
use crate::inner::{ColumnFamily, Inner};
use crate::range::Bounds;

/// A position in a column family, as a transaction sees it: the store when the transaction began, with the writes that
/// the transaction has made by the time of each move. Key and value are borrowed until the next move.
///
/// A new cursor has no position. After an error it has none either. Its moves fail once the transaction has ended.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let db = waxseal::Db::memory()?;
/// # let cf = db.column_family("default")?;
/// cf.put("b", "2")?;
/// let transaction = db.transaction();
/// transaction.put(&cf, "a", "1")?;
/// let mut cursor = transaction.cursor(&cf);
/// cursor.last()?;
/// assert_eq!((cursor.key(), cursor.value()), (&b"b"[..], &b"2"[..]));
/// cursor.prev()?;
/// assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"1"[..]));
/// # Ok(())
/// # }
/// ```
pub struct TransactionCursor {
    shared: Arc<Shared>,
    cf: ColumnFamily,
    bounds: Bounds,
    /// The cursor at the snapshot, or the error that prevented it. It reads a value only where the transaction has not
    /// written the key.
    base: Result<UserCursor>,
    /// The direction of the last move. `base` is at the first record in this direction that is not before the position.
    direction: Direction,
    position: Position,
    /// The number of rollbacks of the transaction before the last move.
    rollbacks: u64,
    /// The keys passed since the last seek; `None` if they need no validation.
    span: Option<Arc<Mutex<CursorBounds>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

enum Position {
    None,
    /// On the record of `base`.
    Base,
    /// On a write of the transaction: key and value.
    Own(Vec<u8>, Vec<u8>),
}

impl TransactionCursor {
    pub(super) fn new(shared: &Arc<Shared>, cf: &ColumnFamily, bounds: Bounds) -> TransactionCursor {
        let base = shared.state().map(drop).and_then(|()| {
            let snapshot = shared.snapshot_for(cf)?;
            Ok(shared.inner.scan(cf, At::Snapshot(snapshot), bounds.clone())?.without_values())
        });
        TransactionCursor {
            shared: Arc::clone(shared),
            cf: cf.clone(),
            bounds,
            base,
            direction: Direction::Forward,
            position: Position::None,
            rollbacks: 0,
            span: None,
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.shared.inner
    }

    /// Returns the error that prevented the cursor's creation, if any: every move returns it too.
    pub fn check(&self) -> Result<()> {
        self.base.as_ref().map(|_| ()).map_err(Error::clone)
    }

    /// Moves to the first record at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let is_below = |low: &Bound<Vec<u8>>| match low {
            Bound::Unbounded => false,
            Bound::Included(low) | Bound::Excluded(low) => self.cf.order().compare(key, low).is_le(),
        };
        let from = if is_below(&self.bounds.0) { self.bounds.0.clone() } else { Bound::Included(key.to_vec()) };
        self.go(Direction::Forward, from, |base| base.seek(key))
    }

    /// Moves to the last record at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let is_above = |high: &Bound<Vec<u8>>| match high {
            Bound::Unbounded => false,
            Bound::Included(high) | Bound::Excluded(high) => self.cf.order().compare(key, high).is_ge(),
        };
        let from = if is_above(&self.bounds.1) { self.bounds.1.clone() } else { Bound::Included(key.to_vec()) };
        self.go(Direction::Backward, from, |base| base.seek_for_prev(key))
    }

    /// Moves to the first record.
    pub fn first(&mut self) -> Result<()> {
        self.go(Direction::Forward, self.bounds.0.clone(), UserCursor::first)
    }

    /// Moves to the last record.
    pub fn last(&mut self) -> Result<()> {
        self.go(Direction::Backward, self.bounds.1.clone(), UserCursor::last)
    }

    /// Moves to the next record. At the last record the cursor loses its position; without a position this does
    /// nothing.
    #[expect(clippy::should_implement_trait, reason = "it lends; an iterator cannot")]
    pub fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    /// Moves to the previous record. At the first record the cursor loses its position; without a position this does
    /// nothing.
    pub fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    /// Returns true if the cursor is positioned on a record.
    pub fn valid(&self) -> bool {
        !matches!(self.position, Position::None)
    }

    /// Returns the current key; empty if the cursor is not valid.
    pub fn key(&self) -> &[u8] {
        match (&self.position, &self.base) {
            (Position::Own(key, _), _) => key,
            (Position::Base, Ok(base)) => base.key(),
            _ => &[],
        }
    }

    /// Returns the current value; empty if the cursor is not valid.
    pub fn value(&self) -> &[u8] {
        match (&self.position, &self.base) {
            (Position::Own(_, value), _) => value,
            (Position::Base, Ok(base)) => base.value(),
            _ => &[],
        }
    }

    /// Moves to the first record at or after `from` in a direction.
    fn go(
        &mut self,
        direction: Direction,
        from: Bound<Vec<u8>>,
        move_base: impl FnOnce(&mut UserCursor) -> Result<()>,
    ) -> Result<()> {
        self.position = Position::None;
        self.shared.inner.check_open()?;
        let base = self.base.as_mut().map_err(|error| error.clone())?;
        self.direction = direction;
        self.span = None;
        move_base(base)?;
        self.settle(from)
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        let at = match &self.position {
            Position::None => return Ok(()),
            Position::Base => self.key().to_vec(),
            Position::Own(key, _) => key.clone(),
        };
        let is_base = matches!(self.position, Position::Base);
        self.position = Position::None;
        self.shared.inner.check_open()?;
        let base = self.base.as_mut().map_err(|error| error.clone())?;
        let rollbacks = self.shared.state()?.rollbacks;
        if !is_base && (self.direction != direction || self.rollbacks != rollbacks) {
            // `base` is on the other side of the position, or has passed records that are visible again.
            match direction {
                Direction::Forward => base.seek(&at)?,
                Direction::Backward => base.seek_for_prev(&at)?,
            }
            if base.valid() && self.cf.order().compare(base.key(), &at).is_eq() {
                advance(base, direction)?;
            }
        } else if is_base {
            advance(base, direction)?;
        }
        self.direction = direction;
        self.settle(Bound::Excluded(at))
    }

    /// Takes the nearer one of the record of `base` and the transaction's next write, from a key on.
    fn settle(&mut self, from: Bound<Vec<u8>>) -> Result<()> {
        let TransactionCursor { shared, cf, bounds, base, direction, position, rollbacks, span } = self;
        let base = base.as_mut().map_err(|error| error.clone())?;
        let (order, direction) = (cf.order(), *direction);
        let mut state = shared.state()?;
        *rollbacks = state.rollbacks;
        let own = match state.own_writes.of(cf.family.id()) {
            None => None,
            Some(writes) => {
                pass_hidden(base, writes, direction)?;
                match direction {
                    Direction::Forward => writes.first_in(&(from.clone(), bounds.1.clone())),
                    Direction::Backward => writes.last_in(&(bounds.0.clone(), from.clone())),
                }
            }
        };
        let is_nearer = |own: &[u8], base: &[u8]| is_before(order, own, base, direction);
        let own = own.filter(|(key, _)| !base.valid() || is_nearer(key, base.key()));
        let own = own.map(|(key, value)| (key.to_vec(), value.clone()));
        let reached = match &own {
            Some((key, _)) => Some(&key[..]),
            None => base.valid().then(|| base.key()),
        };
        if shared.isolation == Isolation::Serializable {
            note(&mut state, cf, span, (from, reached), bounds, direction);
        }
        drop(state); // a merge operator may use the transaction
        *position = match own {
            None if base.valid() => {
                base.read_pointed()?;
                Position::Base
            }
            None => Position::None,
            Some((key, value)) => match value.resolve(&cf.family, &key, || shared.stored(cf, &key))? {
                Some(value) => Position::Own(key, value),
                None => Position::None,
            },
        };
        Ok(())
    }
}

/// Adds the keys between `from` and the reached key to the cursor's validated span. Without a reached key, the span ends
/// at the cursor's limit.
fn note(
    state: &mut State,
    cf: &ColumnFamily,
    span: &mut Option<Arc<Mutex<CursorBounds>>>,
    (from, reached): (Bound<Vec<u8>>, Option<&[u8]>),
    bounds: &Bounds,
    direction: Direction,
) {
    let limit = match direction {
        Direction::Forward => &bounds.1,
        Direction::Backward => &bounds.0,
    };
    match span {
        Some(span) => {
            let (low, high) = &mut *span.lock().unwrap_or_else(PoisonError::into_inner);
            let end = if direction == Direction::Forward { high } else { low };
            extend(cf.order(), end, reached, limit, direction);
        }
        None => {
            let end = reached.map_or_else(|| limit.clone(), |key| Bound::Included(key.to_vec()));
            let keys = if direction == Direction::Forward { (from, end) } else { (end, from) };
            let passed = span.insert(Arc::new(Mutex::new(keys)));
            state.spans.push((cf.clone(), passed.clone()));
        }
    }
}

/// Moves a cursor of the snapshot over the records that the transaction's writes hide.
/// Errors: `Invalid` if the family's comparator contradicts itself.
fn pass_hidden(base: &mut UserCursor, writes: &FamilyWrites, direction: Direction) -> Result<()> {
    let mut ranges_ahead = writes.deleted_ranges();
    while base.valid() && writes.holds(base.key()) {
        let deleted = writes.deleted_range(base.key());
        if deleted.is_some() {
            let passed_again = || Error::invalid("the comparator of the column family contradicts itself");
            ranges_ahead = ranges_ahead.checked_sub(1).ok_or_else(passed_again)?;
        }
        match (deleted, direction) {
            (None, _) => advance(base, direction)?,
            (Some((_, Some(end))), Direction::Forward) => base.seek(end)?,
            (Some((_, None)), Direction::Forward) => {
                base.last()?;
                base.next()?;
            }
            (Some((Some(start), _)), Direction::Backward) => {
                base.seek_for_prev(start)?;
                if base.valid() && writes.deleted_range(base.key()).is_some() {
                    base.prev()?; // the start itself
                }
            }
            (Some((None, _)), Direction::Backward) => {
                base.first()?;
                base.prev()?;
            }
        }
    }
    Ok(())
}

fn advance(base: &mut UserCursor, direction: Direction) -> Result<()> {
    match direction {
        Direction::Forward => base.next(),
        Direction::Backward => base.prev(),
    }
}

/// Returns true if a key comes before another one in a direction.
fn is_before(order: &Order, key: &[u8], other: &[u8], direction: Direction) -> bool {
    let ordering = order.compare(key, other);
    match direction {
        Direction::Forward => ordering.is_lt(),
        Direction::Backward => ordering.is_gt(),
    }
}

/// Moves the end of a span to the key that was reached, or to the limit of the cursor if there is none. A span never
/// shrinks.
fn extend(
    order: &Order,
    end: &mut Bound<Vec<u8>>,
    reached: Option<&[u8]>,
    limit: &Bound<Vec<u8>>,
    direction: Direction,
) {
    let Some(reached) = reached else {
        end.clone_from(limit);
        return;
    };
    if let Bound::Included(key) | Bound::Excluded(key) = end
        && is_before(order, key, reached, direction)
    {
        reached.clone_into(key);
        *end = Bound::Included(std::mem::take(key));
    }
}

impl fmt::Debug for TransactionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionCursor").field("cf", &self.cf.name()).field("valid", &self.valid()).finish()
    }
}
