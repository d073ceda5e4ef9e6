//! A cursor for the user: of each key the newest version not above a seqno, if it is a value, within bounds.
//!
//! In:     a cursor over internal records, every version of every key, tombstones among them.
//! Out:    the user's records, in both directions, with turns at any point.
//! Holds:  what is shown is what a point read of that key at the same seqno answers (I13). Records above the seqno are
//!         passed over wherever they appear, so memtables may grow beneath.
//! Errors: an error from below, or a record of a reserved kind where it would decide, leaves the cursor invalid until the
//!         next seek.
//! Fences: where a source below has lost something, it shows a fence. The cursor answers one error for it and is invalid, but
//!         its next step goes on behind what is damaged. Meanwhile records that what was lost may have hidden are passed
//!         over, newer ones are shown.
//!
//! Forward, the first version met that is not above the seqno decides, and the cursor stands on it where it lies: nothing
//! is copied but keys too long for their lead. Backward, versions come oldest first, so each is saved until the key is left
//! and the last one saved decides; the cursor below then stands before the key. After `LONG_RUN` records of one key a seek
//! takes over, so that a key written a thousand times costs one search, not a thousand steps.
//!
//! Most steps do none of this. Where the source below is a table's block in which no key has two versions, and no other source and
//! no bound comes before the block's next keys, the table's cursor is lent for these, and a step is a step of its own (`run`).

mod closer;
mod lost;

use std::ops::Bound;
use std::sync::Arc;

use super::run::Run;
use super::saved::{SavedRecord, SeenKey};
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::{AsOf, ExpiryClock};
use crate::fence::Fence;
use crate::merge::{MergeCursor, Walk};
use crate::order::Order;
use crate::planted::{self, Bug};
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::{Companions, Life};
use crate::values::Room;

/// The user keys that a cursor may show: from, to.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Records passed over one by one before a seek is cheaper.
const LONG_RUN: usize = 16;

/// Reads values that do not stand in their records, and hears of damage that nobody below can tell of.
pub trait Values: Send + Sync {
    /// Reads the value that a record points to into a room.
    fn read(&self, record: &Record<'_>, room: &mut Room) -> Result<()>;
    /// A record in memory is not what was written: its seqno, and the error that is answered in its place.
    fn damaged_in_memory(&self, seqno: Seqno, error: &Error);
}

/// The user's view of a family at a seqno. Starts invalid. A step on an invalid cursor leaves it so.
pub struct UserCursor {
    order: Order,
    inner: MergeCursor,
    /// A stretch of one block where each record is shown as it stands; while there is one, the place is `Inner`, and the inner cursor
    /// has lent what stands there.
    pub(super) run: Option<Run>,
    pub(super) seqno: Seqno,
    bounds: Bounds,
    place: Place,
    /// Forward: the key that was left last, whose other versions are passed over.
    seen: SeenKey,
    /// Backward: the newest version met of the key that is being left.
    saved: SavedRecord,
    /// Room for a key while the cursor below seeks it.
    target: Vec<u8>,
    /// Fences whose spans the cursor has come into and not left. The caller has heard of each but the last so many, which were met
    /// while a key was being left backwards and are told of at the next steps.
    fences: Vec<Fence>,
    pending: usize,
    /// The family's name, for errors.
    family: Arc<str>,
    /// Who says when a record expires, the clock, and the time that the cursor judges by.
    expiry: Option<(Arc<dyn Companions>, Arc<ExpiryClock>, AsOf)>,
    /// Who reads values that stand elsewhere; none: the record is shown as it lies.
    values: Option<Arc<dyn Values>>,
    /// The value read last.
    room: Room,
    /// Nobody wants them: pointers are shown.
    shows_pointers: bool,
    /// The record it stands on points to its value, which was read. On the way there: that record is to be looked at closer.
    is_pointer: bool,
}

/// Where the cursor stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Nowhere.
    Nowhere,
    /// On a fence under the inner cursor, of which the caller has heard.
    Fence,
    /// As `Saved`, but the record is not shown: the caller has heard of a fence in its place.
    Told,
    /// On the record under the inner cursor, or under what it has lent.
    Inner,
    /// On the saved record; the inner cursor has left its versions behind on the way back, or run out.
    Saved,
}

impl UserCursor {
    /// A view of `inner` at `seqno`, within `bounds`. Starts invalid and moves nothing.
    pub fn new(order: Order, inner: Box<dyn Cursor>, seqno: Seqno, bounds: Bounds) -> UserCursor {
        let inner = MergeCursor::of(order.clone(), vec![Walk::Other(inner)]);
        UserCursor::over(order, inner, seqno, bounds)
    }

    /// The same over a merge, which is asked for runs.
    pub fn over(order: Order, inner: MergeCursor, seqno: Seqno, bounds: Bounds) -> UserCursor {
        UserCursor {
            order,
            inner,
            run: None,
            seqno,
            bounds,
            place: Place::Nowhere,
            seen: SeenKey::default(),
            saved: SavedRecord::default(),
            target: Vec::new(),
            fences: Vec::new(),
            pending: 0,
            family: Arc::default(),
            expiry: None,
            values: None,
            room: Room::default(),
            shows_pointers: false,
            is_pointer: false,
        }
    }

    /// The same, with values that stand elsewhere shown as if they stood in their records: each is read when the cursor comes to it.
    #[must_use]
    pub fn reading(self, values: Arc<dyn Values>) -> UserCursor {
        UserCursor { values: Some(values), ..self }
    }

    /// The same for whoever looks at keys and at what stands beside values: no value is read that does not stand in its record, and
    /// such a record is shown with its pointer.
    #[must_use]
    pub fn without_values(self) -> UserCursor {
        UserCursor { shows_pointers: true, ..self }
    }

    /// The same, with the name of its family for errors.
    #[must_use]
    pub fn of_family(mut self, name: impl Into<Arc<str>>) -> UserCursor {
        self.family = name.into();
        self
    }

    /// The same, but a record that has expired by a time is passed over like a tombstone.
    #[must_use]
    pub fn expiring(mut self, keeper: Arc<dyn Companions>, clock: Arc<ExpiryClock>, as_of: AsOf) -> UserCursor {
        self.expiry = Some((keeper, clock, as_of));
        self
    }

    /// To the first key at or after `key` within the bounds.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.is_below(key) {
            return self.first();
        }
        if self.is_above(key) {
            self.stand_nowhere();
            return Ok(());
        }
        // A source that stays would not show again a fence that reaches from behind it to here.
        let is_whole = self.fences.is_empty();
        self.leave();
        match is_whole {
            true => self.inner.seek_on(key, self.seqno)?,
            false => self.inner.seek(key, self.seqno)?,
        }
        self.find_forward()
    }

    /// To the last key at or before `key` within the bounds.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.is_above(key) {
            return self.last();
        }
        if self.is_below(key) {
            self.stand_nowhere();
            return Ok(());
        }
        self.leave();
        self.inner.seek_for_prev(key, 0)?;
        self.find_backward()
    }

    /// To the first key within the bounds.
    pub fn first(&mut self) -> Result<()> {
        self.leave();
        match &self.bounds.0 {
            Bound::Unbounded => self.inner.first()?,
            Bound::Included(key) => self.inner.seek(key, self.seqno)?,
            Bound::Excluded(key) => {
                self.seen.set(self.order.lead(key), key);
                self.inner.seek(key, 0)?;
            }
        }
        self.find_forward()
    }

    /// To the last key within the bounds.
    pub fn last(&mut self) -> Result<()> {
        self.leave();
        match &self.bounds.1 {
            Bound::Unbounded => self.inner.last()?,
            Bound::Included(key) => self.inner.seek_for_prev(key, 0)?,
            Bound::Excluded(key) => {
                self.inner.seek_for_prev(key, MAX_SEQNO)?;
                if self.inner.valid() {
                    let record = self.inner.record();
                    if record.kind != Kind::Fence && self.order.compare(record.key, key).is_eq() {
                        self.inner.prev()?;
                    }
                }
            }
        }
        self.find_backward()
    }

    /// One key on; from a fence that was answered as an error, to what is behind it.
    #[expect(clippy::should_implement_trait, reason = "a cursor lends what it shows, an iterator cannot")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if let Some(run) = &mut self.run
            && run.next(self.seqno)
        {
            return Ok(());
        }
        self.next_of_all()
    }

    /// One key back; from a fence that was answered as an error, to what is before it.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if let Some(run) = &mut self.run
            && run.prev(self.seqno)
        {
            return Ok(());
        }
        self.prev_of_all()
    }

    /// `next`, with a look at every source.
    fn next_of_all(&mut self) -> Result<()> {
        if !self.end_run()
            && self.place == Place::Inner
            && !self.is_pointer
            && self.begin_run(true)
            && let Some(run) = &mut self.run
        {
            if run.next(self.seqno) {
                return Ok(());
            }
            self.end_run();
        }
        self.is_pointer = false; // where the step fails the cursor stands nowhere
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Nowhere => return Ok(()),
            Place::Inner => {
                self.seen.set_by(self.inner.lead(), || self.inner.place().0);
                self.inner.next()?
            }
            Place::Fence => self.inner.next()?,
            // Turns round: the inner cursor stands before all versions of the key, or there is nothing before them.
            Place::Saved | Place::Told => {
                self.tell_pending()?;
                let key = self.saved.record().key;
                self.seen.set(self.order.lead(key), key);
                if self.inner.valid() { self.inner.next()? } else { self.inner.first()? }
            }
        }
        self.find_forward()
    }

    /// `prev`, with a look at every source.
    fn prev_of_all(&mut self) -> Result<()> {
        self.end_run();
        self.seen.clear();
        self.is_pointer = false;
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Nowhere => return Ok(()),
            // What lies before the newest visible version is above the seqno or another key.
            Place::Inner | Place::Fence => self.inner.prev()?,
            Place::Saved | Place::Told => self.tell_pending()?,
        }
        self.find_backward()
    }

    /// True if the cursor stands on a record.
    #[inline]
    pub fn valid(&self) -> bool {
        matches!(self.place, Place::Inner | Place::Saved)
    }

    /// The key under the cursor, borrowed until the next move; empty if the cursor stands nowhere.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.run {
            Some(run) => run.key(),
            None if self.place == Place::Inner => self.inner.place().0,
            None => self.standing().key,
        }
    }

    /// The value under the cursor, borrowed until the next move; empty if the cursor stands nowhere.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.run {
            Some(run) => run.value(),
            None => self.record().value,
        }
    }

    /// The whole record under the cursor, borrowed until the next move; an empty tombstone if the cursor stands nowhere.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        let record = self.standing();
        match self.is_pointer {
            true => Record { kind: Kind::Put, value: self.room.value(), ..record },
            false => record,
        }
    }

    /// The record under the cursor, as it lies.
    #[inline]
    fn standing(&self) -> Record<'_> {
        match self.place {
            Place::Inner => match &self.run {
                Some(run) => run.record(),
                None => self.inner.record(),
            },
            Place::Saved => self.saved.record(),
            Place::Nowhere | Place::Fence | Place::Told => {
                Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] }
            }
        }
    }

    /// From where the inner cursor stands, on to the next record to show, other versions of the seen key passed over.
    fn find_forward(&mut self) -> Result<()> {
        self.is_pointer = false;
        self.walk_forward()?;
        if self.is_pointer { self.look_closer() } else { Ok(()) }
    }

    #[inline]
    fn walk_forward(&mut self) -> Result<()> {
        let mut passed = 0;
        while self.inner.valid() {
            let record = self.inner.record();
            if self.is_above(record.key) {
                break;
            }
            if record.kind == Kind::Fence {
                if !self.is_decided()? {
                    self.meet(false)?;
                }
                self.inner.next()?;
                continue;
            }
            let lead = self.inner.lead();
            // Where the next record of interest is at the earliest, if not here.
            let pass_to = if self.seen.is(&self.order, &lead, record.key) {
                Some(0)
            } else {
                (record.seqno > self.seqno).then_some(self.seqno)
            };
            // Anything but a value is as good as one whose time is over.
            let life = if pass_to.is_none() && record.kind.is_value() { self.life(&record) } else { Life::Over };
            match pass_to {
                None if !self.fences.is_empty() && is_covered(&mut self.fences, &self.order, &record, self.seqno) => {
                    self.seen.set(lead, record.key);
                    passed = 0;
                }
                None if life != Life::Over => {
                    let is_pointer = record.kind == Kind::BlobPointer || life == Life::Doubtful;
                    (self.place, self.is_pointer) = (Place::Inner, is_pointer);
                    break;
                }
                None => {
                    hides_its_key(&record)?;
                    self.seen.set(lead, record.key);
                    passed = 0;
                    if record.kind == Kind::Delete
                        && self.fences.is_empty()
                        && self.inner.pass_deleted(self.seqno, bound_of(&self.bounds.1))
                    {
                        self.seen.set_by(self.inner.lead(), || self.inner.place().0);
                    }
                }
                Some(seqno) if passed >= LONG_RUN && record.seqno > seqno => {
                    self.target.clear();
                    self.target.extend_from_slice(record.key);
                    self.inner.seek(&self.target, seqno)?;
                    passed = 0;
                    continue;
                }
                Some(_) => passed += 1,
            }
            self.inner.next()?;
        }
        Ok(())
    }

    /// From where the inner cursor stands, back to the next record to show. It stands on no version of a key shown before
    /// that is not above the seqno.
    fn find_backward(&mut self) -> Result<()> {
        self.is_pointer = false;
        self.walk_backward()?;
        if self.is_pointer { self.look_closer() } else { Ok(()) }
    }

    fn walk_backward(&mut self) -> Result<()> {
        let mut passed = 0;
        while self.inner.valid() && !self.begin_run(false) {
            if self.pending > 0 && self.order.compare(self.inner.record().key, self.saved.record().key).is_ne() {
                self.tell_pending()?; // no version of the key decides
            }
            let record = self.inner.record();
            if self.is_below(record.key) {
                break;
            }
            if record.kind == Kind::Fence {
                self.meet_backward()?;
                self.inner.prev()?;
                continue;
            }
            if record.seqno > self.seqno {
                if passed >= LONG_RUN && record.seqno < MAX_SEQNO {
                    // Newer versions of this key are above the seqno too: to what precedes them.
                    self.target.clear();
                    self.target.extend_from_slice(record.key);
                    self.inner.seek_for_prev(&self.target, MAX_SEQNO)?;
                    passed = 0;
                } else {
                    self.inner.prev()?;
                    passed += 1;
                }
                continue;
            }
            passed = 0;
            self.saved.set(&record);
            let place = self.leave_key_backward()?;
            if !self.fences.is_empty() {
                if self.is_saved_covered() {
                    self.tell_pending()?;
                    continue;
                }
                self.drop_decided();
            }
            let newest = if place == Place::Inner { self.inner.record() } else { self.saved.record() };
            let life = if newest.kind.is_value() { self.life(&newest) } else { Life::Over };
            if life != Life::Over {
                let is_pointer = newest.kind == Kind::BlobPointer || life == Life::Doubtful;
                (self.place, self.is_pointer) = (place, is_pointer);
                break;
            }
            hides_its_key(&newest)?;
            self.tell_pending()?;
            if place == Place::Inner {
                self.inner.prev()?;
            }
        }
        self.tell_pending_unless_shown()
    }

    /// The oldest version of a key is saved and the inner cursor stands on it: goes back through its versions to the newest
    /// that is not above the seqno, and answers where that is.
    fn leave_key_backward(&mut self) -> Result<Place> {
        let mut passed = 0;
        while passed < LONG_RUN || !self.fences.is_empty() {
            self.inner.prev()?;
            if !self.inner.valid() {
                return Ok(Place::Saved);
            }
            let record = self.inner.record();
            let is_other = self.order.compare(record.key, self.saved.record().key).is_ne();
            if record.kind == Kind::Fence && !is_other {
                // Newer versions of the key may stand before it: it is told of when the key is dealt with.
                self.meet(true)?;
                continue;
            }
            if is_other {
                return Ok(Place::Saved);
            }
            // Versions that are too new are passed over to the end of the key: a damaged one whose seqno was hit may stand among them.
            if record.seqno <= self.seqno && !planted::active(Bug::ReverseCursorSkipsVersion) {
                self.saved.set(&record);
            }
            passed += 1;
        }
        // The saved version is not above the seqno, so this finds it or a newer one, or a fence that may hide one.
        self.inner.seek(self.saved.record().key, self.seqno)?;
        while self.inner.valid() && self.inner.record().kind == Kind::Fence {
            self.meet(true)?;
            self.inner.next()?;
        }
        if self.fences.is_empty() {
            // An order that contradicts itself may not find again what it has shown.
            return if self.inner.valid() { Ok(Place::Inner) } else { Err(lost_again()) };
        }
        // Among fences the newest is saved, and the inner cursor stands before all versions.
        if self.inner.valid() {
            let newest = self.inner.record();
            if self.order.compare(newest.key, self.saved.record().key).is_eq() {
                self.saved.set(&newest);
            }
        }
        self.inner.seek_for_prev(self.saved.record().key, MAX_SEQNO)?;
        Ok(Place::Saved)
    }

    /// Begins a run at the record under the inner cursor, if there is one to be had. Backwards this record was not shown yet, and the
    /// run shows it.
    #[inline]
    fn begin_run(&mut self, forward: bool) -> bool {
        if !self.fences.is_empty() {
            return false;
        }
        // A step to the bound itself is left to those that look.
        let bound = bound_of(if forward { &self.bounds.1 } else { &self.bounds.0 });
        let Some((table, reach)) = self.inner.lend(forward, bound) else { return false };
        if !forward && !table.is_plain(self.seqno) {
            self.inner.take_back(table);
            return false;
        }
        self.run = Some(Run::new(table, reach));
        self.place = Place::Inner;
        true
    }

    /// Gives back what was lent; false if nothing was.
    #[inline]
    fn end_run(&mut self) -> bool {
        let run = self.run.take();
        let was_lent = run.is_some();
        run.into_iter().for_each(|run| self.inner.take_back(run.into_table()));
        was_lent
    }

    /// Forgets where the cursor stood, for its sources to be moved elsewhere.
    fn leave(&mut self) {
        self.stand_nowhere();
        self.fences.clear();
    }

    /// The same where the sources stay: so do the fences that they may not show again.
    fn stand_nowhere(&mut self) {
        self.end_run();
        (self.place, self.is_pointer) = (Place::Nowhere, false);
        self.seen.clear();
        self.pending = 0;
    }

    /// Names the family in an error.
    #[cold]
    fn named(&self, error: Error) -> Error {
        if self.family.is_empty() { error } else { error.in_family(&self.family, None) }
    }

    /// Whether the time of a record is over.
    #[inline]
    fn life(&self, record: &Record<'_>) -> Life {
        match &self.expiry {
            Some((keeper, clock, as_of)) => clock.life(&**keeper, record, *as_of),
            None => Life::Alive,
        }
    }

    /// True if a key lies below the bounds.
    #[inline]
    fn is_below(&self, key: &[u8]) -> bool {
        match &self.bounds.0 {
            Bound::Unbounded => false,
            Bound::Included(bound) => self.order.compare(key, bound).is_lt(),
            Bound::Excluded(bound) => self.order.compare(key, bound).is_le(),
        }
    }

    /// True if a key lies above the bounds.
    #[inline]
    fn is_above(&self, key: &[u8]) -> bool {
        match &self.bounds.1 {
            Bound::Unbounded => false,
            Bound::Included(bound) => self.order.compare(key, bound).is_gt(),
            Bound::Excluded(bound) => self.order.compare(key, bound).is_ge(),
        }
    }
}

fn bound_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(bound) | Bound::Excluded(bound) => Some(bound),
    }
}

/// True if a record that a walk on comes to may be older than one that was lost. Fences that lie behind it are forgotten.
#[cold]
#[inline(never)]
fn is_covered(fences: &mut Vec<Fence>, order: &Order, record: &Record<'_>, at: Seqno) -> bool {
    if planted::active(Bug::OlderVersionShownUnderFence) {
        return false;
    }
    fences.retain(|fence| order.compare(record.key, &fence.to.0).is_le());
    fences.iter().any(|fence| fence.covers_at(order, record.key, record.seqno, at))
}

/// The record that decides over its key is none to show: a tombstone, or a value whose time is over, hides the key; any other kind
/// needs a newer version.
#[inline]
fn hides_its_key(record: &Record<'_>) -> Result<()> {
    if record.kind == Kind::Delete || record.kind.is_value() { Ok(()) } else { Err(reserved(record.kind)) }
}

#[cold]
fn lost_again() -> Error {
    Error::structural("a version of a key that is not found again")
}

#[cold]
fn reserved(kind: Kind) -> Error {
    Error::of(
        ErrorKind::Invalid,
        format!("a record of a reserved kind ({kind:?}) stands here; this version cannot read it"),
    )
}
