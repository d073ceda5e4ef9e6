//! The user's cursor: for each key within bounds, the newest version at or below a seqno, if it is a value.
//!
//! In:     a cursor over internal records: every version of every key, including tombstones.
//! Out:    the user's records, in both directions, with direction changes at any point.
//! Holds:  the cursor shows the same results as point reads at the same seqno (I13). Records above the seqno are
//!         skipped wherever they appear, so memtables may grow during the walk.
//! Errors: an error from a source, or a record of a reserved kind that would be the result, leaves the cursor invalid
//!         until the next seek.
//! Losses: a source that has lost records shows a lost range. The cursor returns one error for it and is invalid, but
//!         its next step continues after the damage. Until then, records that lost ones may have superseded are skipped;
//!         newer ones are shown.
//!
//! Forward, the first version at or below the seqno is the result, and the cursor stays at it without copying: only
//! keys too long for their lead are copied. Backward, versions come oldest first, so each is saved until the key is
//! left, and the last one saved is the result; the inner cursor is then before the key. After `LONG_RUN` records of one
//! key the cursor seeks, so that a key with a thousand versions costs one search, not a thousand steps.
//!
//! Most steps do none of this. If the source is a table block in which no key has two versions, and no other source and
//! no bound comes before the block's next keys, the table's cursor is lent for these keys, and a step of the user's
//! cursor is one step of the table's cursor (`run`).

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::deleted::{DeletedSteps, RunPassed};
use super::reader::BlobReader;
use super::run::SourceRun;
use super::saved::{SavedRecord, SeenKey};
use crate::checksum::hash_key;
use crate::cursor::Cursor;
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};
use crate::expiry::{AsOf, ExpiryClock};
use crate::lost_range::LostRange;
use crate::merge::{MergeCursor, MergeSource};
use crate::order::Order;
use crate::planted;
use crate::range_index::{FragmentPlace, RangeFragment, RangeIndex};
use crate::record::{Kind, MAX_SEQNO, OwnedRecord, Record, Seqno};
use crate::seam::{Companions, Life, Protection, RecordSource};
use crate::values::BlobBuffer;

/// The range of user keys that a cursor may show: lower and upper bound.
pub type CursorBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Number of records skipped one by one before a seek is cheaper.
const LONG_RUN: usize = 16;

/// The user's view of a family at a seqno. It starts invalid, and a step on an invalid cursor leaves it invalid.
pub struct UserCursor {
    order: Order,
    inner: MergeCursor,
    /// A run of one block in which each record is shown as stored. While there is one, the place is `Inner`, and the
    /// inner cursor has lent out its table cursor.
    pub(super) run: Option<SourceRun>,
    pub(super) seqno: Seqno,
    bounds: CursorBounds,
    place: CursorPlace,
    /// Forward: the key that was left last, whose other versions are skipped.
    seen: SeenKey,
    /// Backward: the newest version found so far of the key being left.
    saved: SavedRecord,
    /// Buffer for a key while the inner cursor seeks it.
    target: Vec<u8>,
    /// The lost ranges whose ranges the cursor is in. All but the last `pending` were reported to the caller; those
    /// were encountered while a key was being left backwards, and are reported at the next steps.
    lost_ranges: Vec<LostRange>,
    pending: usize,
    /// The range deletes that the cursor may see; `None` if there are none.
    ranges: Option<Arc<RangeIndex>>,
    /// The place of the last fragment that the cursor was in.
    fragment: FragmentPlace,
    /// The family's name, for errors.
    family: Arc<str>,
    /// The provider of expiry times, the clock, and the time at which records are judged.
    expiry: Option<(Arc<dyn Companions>, Arc<ExpiryClock>, AsOf)>,
    /// The reader of separated values; `None` shows pointer records as stored.
    values: Option<Arc<dyn BlobReader>>,
    /// The value read last.
    room: BlobBuffer,
    /// True to show pointers without reading values, and operands without merging them.
    shows_pointers: bool,
    /// The current record points to its value, which was read, or it is an operand, which was merged. During a move:
    /// the record must be resolved.
    is_pointer: bool,
    /// The record that was merged last. Empty unless the current record is an operand.
    merged: Option<Box<OwnedRecord>>,
}

/// The position of the cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CursorPlace {
    /// Invalid.
    Nowhere,
    /// At a lost range at the inner cursor's position, which was reported to the caller.
    Fence,
    /// Like `Saved`, but the record is not shown: a lost range was reported in its place.
    Reported,
    /// At the record of the inner cursor, or of the cursor that it has lent out.
    Inner,
    /// At the saved record; the inner cursor has moved back past its versions, or is exhausted.
    Saved,
}

impl UserCursor {
    /// Creates a view of `inner` at `seqno`, within `bounds`. It starts invalid and moves nothing.
    pub fn new(order: Order, inner: Box<dyn Cursor>, seqno: Seqno, bounds: CursorBounds) -> UserCursor {
        let inner = MergeCursor::of(order.clone(), vec![MergeSource::Other(inner)]);
        UserCursor::over(order, inner, seqno, bounds)
    }

    /// Creates a view over a merge, from which it borrows table cursors for runs.
    pub fn over(order: Order, inner: MergeCursor, seqno: Seqno, bounds: CursorBounds) -> UserCursor {
        UserCursor {
            order,
            inner,
            run: None,
            seqno,
            bounds,
            place: CursorPlace::Nowhere,
            seen: SeenKey::default(),
            saved: SavedRecord::default(),
            target: Vec::new(),
            lost_ranges: Vec::new(),
            pending: 0,
            ranges: None,
            fragment: FragmentPlace::default(),
            family: Arc::default(),
            expiry: None,
            values: None,
            room: BlobBuffer::default(),
            shows_pointers: false,
            is_pointer: false,
            merged: None,
        }
    }

    /// Skips the records that range deletes hide.
    #[must_use]
    pub fn within_ranges(self, ranges: Option<Arc<RangeIndex>>) -> UserCursor {
        UserCursor { ranges, ..self }
    }

    /// Shows separated values as if they were in their records: each is read when the cursor arrives at it.
    #[must_use]
    pub fn reading(self, values: Arc<dyn BlobReader>) -> UserCursor {
        UserCursor { values: Some(values), ..self }
    }

    /// Shows records with separated values as pointers, and keys with operands by their newest operand: reads no such
    /// values and merges nothing. For callers interested in keys and companions.
    #[must_use]
    pub fn without_values(self) -> UserCursor {
        UserCursor { shows_pointers: true, ..self }
    }

    /// Sets the name of the family, for errors.
    #[must_use]
    pub fn of_family(mut self, name: impl Into<Arc<str>>) -> UserCursor {
        self.family = name.into();
        self
    }

    /// Skips records that have expired at a given time, like tombstones.
    #[must_use]
    pub fn expiring(mut self, protector: Arc<dyn Companions>, clock: Arc<ExpiryClock>, as_of: AsOf) -> UserCursor {
        self.expiry = Some((protector, clock, as_of));
        self
    }

    /// Moves to the first key at or after `key` within the bounds.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.is_below(key) {
            return self.first();
        }
        if self.is_above(key) {
            self.stand_nowhere();
            return Ok(());
        }
        // A source that keeps its position would not show again a lost range that begins before it and extends to here.
        let is_whole = self.lost_ranges.is_empty();
        self.leave();
        match is_whole {
            true => self.inner.seek_on(key, self.seqno)?,
            false => self.inner.seek(key, self.seqno)?,
        }
        self.find_forward()
    }

    /// Moves to the last key at or before `key` within the bounds.
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

    /// Moves to the first key within the bounds.
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

    /// Moves to the last key within the bounds.
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

    /// Moves one key forward; from a lost range that was returned as an error, to the next key after it.
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

    /// Moves one key back; from a lost range that was returned as an error, to the previous key before it.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if let Some(run) = &mut self.run
            && run.prev(self.seqno)
        {
            return Ok(());
        }
        self.prev_of_all()
    }

    /// Steps forward, considering every source.
    fn next_of_all(&mut self) -> Result<()> {
        if !self.end_run()
            && self.place == CursorPlace::Inner
            && !self.is_pointer
            && self.begin_run(true)
            && let Some(run) = &mut self.run
        {
            if run.next(self.seqno) {
                return Ok(());
            }
            self.end_run();
        }
        self.is_pointer = false; // the cursor is invalid if the step fails
        match std::mem::replace(&mut self.place, CursorPlace::Nowhere) {
            CursorPlace::Nowhere => return Ok(()),
            CursorPlace::Inner => {
                self.seen.set_by(self.inner.lead(), || self.inner.place().0);
                self.inner.next()?
            }
            CursorPlace::Fence => self.inner.next()?,
            // Direction change: the inner cursor is before all versions of the key, or exhausted.
            CursorPlace::Saved | CursorPlace::Reported => {
                self.report_pending()?;
                let key = self.saved.record().key;
                self.seen.set(self.order.lead(key), key);
                if self.inner.valid() { self.inner.next()? } else { self.inner.first()? }
            }
        }
        self.find_forward()
    }

    /// Steps back, considering every source.
    fn prev_of_all(&mut self) -> Result<()> {
        self.end_run();
        self.seen.clear();
        self.is_pointer = false;
        match std::mem::replace(&mut self.place, CursorPlace::Nowhere) {
            CursorPlace::Nowhere => return Ok(()),
            // Records before the newest visible version are above the seqno or have another key.
            CursorPlace::Inner | CursorPlace::Fence => self.inner.prev()?,
            CursorPlace::Saved | CursorPlace::Reported => self.report_pending()?,
        }
        self.find_backward()
    }

    /// Returns true if the cursor is at a record.
    #[inline]
    pub fn valid(&self) -> bool {
        matches!(self.place, CursorPlace::Inner | CursorPlace::Saved)
    }

    /// Returns the current key, borrowed until the next move; empty if the cursor is invalid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.run {
            Some(run) => run.key(),
            None if self.place == CursorPlace::Inner => self.inner.place().0,
            None => self.standing().key,
        }
    }

    /// Returns the current value, borrowed until the next move; empty if the cursor is invalid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.run {
            Some(run) => run.value(),
            None => self.record().value,
        }
    }

    /// Returns the current record, borrowed until the next move; an empty tombstone if the cursor is invalid.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        let record = self.standing();
        match (self.is_pointer, &self.merged) {
            (true, Some(merged)) if record.kind == Kind::Merge => merged.borrow(),
            (true, _) => Record { kind: Kind::Put, value: self.room.value(), ..record },
            (false, _) => record,
        }
    }

    /// Returns the current record, as stored.
    #[inline]
    fn standing(&self) -> Record<'_> {
        match self.place {
            CursorPlace::Inner => match &self.run {
                Some(run) => run.record(),
                None => self.inner.record(),
            },
            CursorPlace::Saved => self.saved.record(),
            CursorPlace::Nowhere | CursorPlace::Fence | CursorPlace::Reported => {
                Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] }
            }
        }
    }

    /// Moves from the inner cursor's position forward to the next record to show, skipping other versions of the seen
    /// key.
    fn find_forward(&mut self) -> Result<()> {
        self.is_pointer = false;
        self.walk_forward()?;
        if self.is_pointer { self.resolve() } else { Ok(()) }
    }

    #[inline]
    fn walk_forward(&mut self) -> Result<()> {
        let (mut passed, mut deleted) = (0, DeletedSteps::default());
        while self.inner.valid() {
            let record = self.inner.record();
            if self.is_above(record.key) {
                break;
            }
            if record.kind == Kind::Fence {
                deleted = DeletedSteps::default();
                if !self.is_decided()? {
                    self.meet_lost_range(false)?;
                }
                self.inner.next()?;
                continue;
            }
            let lead = self.inner.lead();
            // The seqno at which the next candidate version can be found, if this record is not one.
            let pass_to = if self.seen.is(&self.order, &lead, record.key) {
                Some(0)
            } else {
                (record.seqno > self.seqno).then_some(self.seqno)
            };
            // A record other than a value is treated as expired.
            let life = match pass_to {
                None if (record.kind.is_value() || record.kind == Kind::Merge)
                    && !is_range_deleted(self.ranges.as_deref(), &mut self.fragment, &record, self.seqno) =>
                {
                    if record.kind == Kind::Merge { Life::Alive } else { self.life(&record) }
                }
                _ => Life::Over,
            };
            match pass_to {
                None if !self.lost_ranges.is_empty()
                    && is_covered(&mut self.lost_ranges, &self.order, &record, self.seqno) =>
                {
                    self.seen.set(lead, record.key);
                    (passed, deleted) = (0, DeletedSteps::default());
                }
                None if life != Life::Over => {
                    let is_pointer = record.kind != Kind::Put || life == Life::Doubtful;
                    (self.place, self.is_pointer) = (CursorPlace::Inner, is_pointer);
                    break;
                }
                None => {
                    hides_its_key(&record)?;
                    self.seen.set(lead, record.key);
                    passed = 0;
                    // An expired record is not deleted for readers at an earlier time.
                    match record.kind == Kind::Delete
                        || is_range_deleted(self.ranges.as_deref(), &mut self.fragment, &record, self.seqno)
                    {
                        true => deleted.add(),
                        false => deleted = DeletedSteps::default(),
                    }
                    if record.kind == Kind::Delete
                        && self.lost_ranges.is_empty()
                        && let Some(leaves) =
                            self.inner.pass_deleted(self.seqno, bound_of(&self.bounds.1), deleted.most_leaves())
                    {
                        self.seen.set_by(self.inner.lead(), || self.inner.place().0);
                        deleted.add_leaves(leaves);
                    }
                    if deleted.are_many()
                        && let Some(family) = self.values.as_ref().filter(|_| self.lost_ranges.is_empty())
                    {
                        match deleted.pass(&self.order, self.inner.place().0, self.seqno, &**family) {
                            RunPassed::None => {}
                            RunPassed::To(end) => {
                                self.inner.seek(&end, self.seqno)?;
                                continue;
                            }
                            RunPassed::ToTheLastKey => return Ok(()),
                        }
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
        if deleted.has_walk()
            && let Some(family) = &self.values
        {
            // Nothing is known of keys beyond the bound: the cursor may lack tables that have no key within its bounds.
            let next = self.inner.valid().then(|| self.inner.place().0);
            let end = match next {
                Some(key) if !self.is_above(key) => next,
                _ => bound_of(&self.bounds.1).or(next),
            };
            deleted.end(&self.order, end, &**family);
        }
        Ok(())
    }

    /// Moves from the inner cursor's position back to the next record to show. The inner cursor must not be at a
    /// version, at or below the seqno, of a key shown before.
    fn find_backward(&mut self) -> Result<()> {
        self.is_pointer = false;
        self.walk_backward()?;
        if self.is_pointer { self.resolve() } else { Ok(()) }
    }

    fn walk_backward(&mut self) -> Result<()> {
        let mut passed = 0;
        while self.inner.valid() && !self.begin_run(false) {
            if self.pending > 0 && self.order.compare(self.inner.record().key, self.saved.record().key).is_ne() {
                self.report_pending()?; // none of the key's versions is the result
            }
            let record = self.inner.record();
            if self.is_below(record.key) {
                break;
            }
            if record.kind == Kind::Fence {
                self.meet_lost_range_backward()?;
                self.inner.prev()?;
                continue;
            }
            if record.seqno > self.seqno {
                if passed >= LONG_RUN && record.seqno < MAX_SEQNO {
                    // Newer versions of this key are above the seqno too: go to the key before them.
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
            self.saved.set(&record)?;
            let place = self.leave_key_backward()?;
            if !self.lost_ranges.is_empty() {
                if self.is_saved_covered() {
                    self.report_pending()?;
                    continue;
                }
                self.drop_decided();
            }
            let newest = if place == CursorPlace::Inner { self.inner.record() } else { self.saved.record() };
            let life = match newest.kind {
                _ if is_range_deleted(self.ranges.as_deref(), &mut self.fragment, &newest, self.seqno) => Life::Over,
                Kind::Put | Kind::BlobPointer => self.life(&newest),
                Kind::Merge => Life::Alive,
                _ => Life::Over,
            };
            if life != Life::Over {
                let is_pointer = newest.kind != Kind::Put || life == Life::Doubtful;
                (self.place, self.is_pointer) = (place, is_pointer);
                break;
            }
            hides_its_key(&newest)?;
            self.report_pending()?;
            if place == CursorPlace::Inner {
                self.inner.prev()?;
            }
        }
        self.report_pending_unless_shown()
    }

    /// With the oldest version of a key saved, and the inner cursor at it: moves back through its versions to the
    /// newest one at or below the seqno, and returns its place.
    fn leave_key_backward(&mut self) -> Result<CursorPlace> {
        let mut passed = 0;
        while passed < LONG_RUN || !self.lost_ranges.is_empty() {
            self.inner.prev()?;
            if !self.inner.valid() {
                return Ok(CursorPlace::Saved);
            }
            let record = self.inner.record();
            let is_other = self.order.compare(record.key, self.saved.record().key).is_ne();
            if record.kind == Kind::Fence && !is_other {
                // Newer versions of the key may come before it: the lost range is reported when the key is decided.
                self.meet_lost_range(true)?;
                continue;
            }
            if is_other {
                return Ok(CursorPlace::Saved);
            }
            // Versions above the seqno are skipped up to the end of the key: a damaged version with a corrupted seqno
            // may be among them.
            if planted!(ReverseCursorSkipsVersion, false, record.seqno <= self.seqno) {
                self.saved.set(&record)?;
            }
            passed += 1;
        }
        // The saved version is at or below the seqno, so the seek finds it, a newer one, or a lost range that may hide
        // one.
        self.inner.seek(self.saved.record().key, self.seqno)?;
        while self.inner.valid() && self.inner.record().kind == Kind::Fence {
            self.meet_lost_range(true)?;
            self.inner.next()?;
        }
        if self.lost_ranges.is_empty() {
            // An inconsistent comparator may fail to find a record again.
            return if self.inner.valid() { Ok(CursorPlace::Inner) } else { Err(lost_again()) };
        }
        // With lost ranges, the newest version is saved, and the inner cursor is before all versions.
        if self.inner.valid() {
            let newest = self.inner.record();
            if self.order.compare(newest.key, self.saved.record().key).is_eq() {
                self.saved.set(&newest)?;
            }
        }
        self.inner.seek_for_prev(self.saved.record().key, MAX_SEQNO)?;
        Ok(CursorPlace::Saved)
    }

    /// Begins a run at the inner cursor's record, if the table cursor can be borrowed. Backwards this record was not
    /// shown yet, and the run shows it.
    #[inline]
    fn begin_run(&mut self, forward: bool) -> bool {
        if !self.lost_ranges.is_empty() {
            return false;
        }
        // A step to the bound itself is left to the full walk.
        let bound = bound_of(if forward { &self.bounds.1 } else { &self.bounds.0 });
        let bound = match &self.ranges {
            None => bound,
            Some(ranges) => {
                let fragment = ranges.fragment_from(&mut self.fragment, self.inner.place().0);
                match free_of_ranges(&self.order, fragment, self.seqno, forward, bound) {
                    Some(bound) => bound,
                    None => return false,
                }
            }
        };
        let Some((table, reach)) = self.inner.lend(forward, bound) else { return false };
        if !forward && !table.is_plain(self.seqno) {
            self.inner.take_back(table);
            return false;
        }
        self.run = Some(SourceRun::new(table, reach));
        self.place = CursorPlace::Inner;
        true
    }

    /// Returns the lent cursor to the merge. Returns false if none was lent.
    #[inline]
    fn end_run(&mut self) -> bool {
        let run = self.run.take();
        let was_lent = run.is_some();
        run.into_iter().for_each(|run| self.inner.take_back(run.into_table()));
        was_lent
    }

    /// Forgets the position and the lost ranges, before the sources are moved elsewhere.
    fn leave(&mut self) {
        self.stand_nowhere();
        self.lost_ranges.clear();
    }

    /// Forgets the position but keeps the lost ranges: sources that keep their positions would not show them again.
    fn stand_nowhere(&mut self) {
        self.end_run();
        (self.place, self.is_pointer) = (CursorPlace::Nowhere, false);
        self.seen.clear();
        self.pending = 0;
    }

    /// Names the family in an error.
    #[cold]
    fn named(&self, error: Error) -> Error {
        if self.family.is_empty() { error } else { error.in_family(&self.family, None) }
    }

    /// Returns whether a record has expired.
    #[inline]
    fn life(&self, record: &Record<'_>) -> Life {
        match &self.expiry {
            Some((protector, clock, as_of)) => clock.life(&**protector, record, *as_of),
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

/// Resolves the record at which the cursor arrives, which few records need: one that points to its value, or one that
/// appears expired and fails its check. After an error in its place, the next step continues after its key: no older
/// version is shown instead.
impl UserCursor {
    /// Reads the value of the current record in a cursor that shows pointers (`without_values`), or merges its operands:
    /// the cursor shows that value until its next move. For callers that decide by key whether they want a value.
    /// Errors, and the cursor's state after them, are those of a move to the record.
    pub fn read_pointed(&mut self) -> Result<()> {
        match !self.is_pointer && self.standing().kind == Kind::BlobPointer {
            true => self.read_value(),
            false => self.merge_operands(),
        }
    }

    /// Merges the operands of the current key in a cursor that shows them as stored. As for `read_pointed` otherwise.
    pub fn merge_operands(&mut self) -> Result<()> {
        match !self.is_pointer && self.standing().kind == Kind::Merge {
            true => self.merge(),
            false => Ok(()),
        }
    }

    /// Resolves the record at which the walk has arrived.
    #[cold]
    #[inline(never)]
    fn resolve(&mut self) -> Result<()> {
        let standing = self.standing();
        if standing.kind == Kind::Merge {
            self.is_pointer = false;
            return if self.shows_pointers { Ok(()) } else { self.merge() };
        }
        let (is_pointer, life) = (standing.kind == Kind::BlobPointer, self.life(&standing));
        self.is_pointer = false;
        if life == Life::Doubtful
            && let Some(damage) = self.damage_of_standing()?
        {
            return Err(self.leave_with(damage));
        }
        if is_pointer && !self.shows_pointers { self.read_value() } else { Ok(()) }
    }

    /// Reads the value that the current record points to.
    fn read_value(&mut self) -> Result<()> {
        let record = match self.place {
            CursorPlace::Inner => self.inner.record(),
            CursorPlace::Saved => self.saved.record(),
            CursorPlace::Nowhere | CursorPlace::Fence | CursorPlace::Reported => return Ok(()),
        };
        let Some(values) = &self.values else { return Ok(()) };
        let outcome = values.read(&record, &mut self.room);
        self.is_pointer = outcome.is_ok();
        outcome.map_err(|error| self.leave_with(error))
    }

    /// Merges the operands of the current key.
    fn merge(&mut self) -> Result<()> {
        self.is_pointer = false;
        let record = match self.place {
            CursorPlace::Saved => self.saved.record(),
            _ => self.inner.record(),
        };
        let Some(values) = &self.values else { return Err(reserved(record.kind)) };
        let as_of = self.expiry.as_ref().map_or(AsOf::NOW, |(_, _, as_of)| *as_of);
        let merged = self.merged.get_or_insert_with(|| Box::new(OwnedRecord::of(&record)));
        let outcome = values.merge(record.key, (self.seqno, as_of), merged);
        self.is_pointer = outcome.is_ok();
        outcome.map_err(|error| self.leave_with(error))
    }

    /// Moves off the current record, with an error in its place.
    fn leave_with(&mut self, error: Error) -> Error {
        let (record, after) = match self.place {
            CursorPlace::Saved => (self.saved.record(), CursorPlace::Reported),
            _ => (self.inner.record(), CursorPlace::Fence),
        };
        // The next step must not show an older version of the key.
        self.seen.set(self.order.lead(record.key), record.key);
        (self.place, self.is_pointer) = (after, false);
        error
    }

    /// Checks the record at which the cursor is to stop, and returns its damage; `None` if it is sound. Errors are
    /// those of the sources, and leave the cursor invalid.
    fn damage_of_standing(&mut self) -> Result<Option<Error>> {
        let Some((protector, ..)) = &self.expiry else { return Ok(None) };
        let place = std::mem::replace(&mut self.place, CursorPlace::Nowhere);
        if place == CursorPlace::Saved {
            // The inner cursor has left the record and must be at it for the check.
            self.inner.seek(self.saved.record().key, self.saved.record().seqno)?;
        }
        let is_there = self.inner.valid() && {
            let (saved, found) = (self.saved.record(), self.inner.record());
            let is_it = || found.seqno == saved.seqno && self.order.compare(found.key, saved.key).is_eq();
            place == CursorPlace::Inner || found.kind != Kind::Fence && is_it()
        };
        let record = if place == CursorPlace::Saved { self.saved.record() } else { self.inner.record() };
        let unknown = RecordSource { protection: Protection::Complete, ..RecordSource::default() };
        let source = if is_there { self.inner.source() } else { unknown };
        let is_right = protector.verify(&record, hash_key(record.key), source.protection).serves();
        let damage = (!is_right).then(|| self.named(not_as_written(&record, source)));
        if let (Some(damage), Some(values)) = (&damage, &self.values)
            && is_there
            && source.file.is_empty()
        {
            values.damaged_in_memory(record.seqno, damage);
        }
        if place == CursorPlace::Saved {
            self.inner.seek_for_prev(self.saved.record().key, MAX_SEQNO)?;
        }
        self.place = place;
        Ok(damage)
    }
}

/// The lost ranges that the cursor encounters: which of them it reports, and when. A lost range over several keys
/// may hide any of them, so it is reported wherever the walk enters it. A lost range over versions of a single key is
/// reported only if no newer version is the result: forward the newer version comes first; backward the lost range
/// waits for it (`pending`).
impl UserCursor {
    /// Handles a lost range at the inner cursor's position. A lost range that was not known is reported as an error,
    /// now or (`later`) at the next step.
    #[cold]
    #[inline(never)]
    fn meet_lost_range(&mut self, later: bool) -> Result<()> {
        let lost_range = LostRange::shown(&self.inner.record())?;
        let is_outside = self.is_below(&lost_range.to.0) || self.is_above(&lost_range.from.0);
        let is_newer = self.only_key(&lost_range).is_some_and(|key| !lost_range.may_hide(&self.order, key, self.seqno));
        if is_outside || is_newer || self.is_whole_deleted(&lost_range) || self.lost_ranges.contains(&lost_range) {
            return Ok(());
        }
        self.lost_ranges.push(lost_range);
        if later {
            self.pending += 1;
            return Ok(());
        }
        self.place = CursorPlace::Fence;
        Err(self.error_of(self.lost_ranges.len() - 1))
    }

    /// Returns true if range deletes that the cursor sees hide every record that a lost range may have held.
    fn is_whole_deleted(&self, lost_range: &LostRange) -> bool {
        self.ranges.as_ref().is_some_and(|ranges| {
            ranges.newest_over_all(&lost_range.from.0, &lost_range.to.0, self.seqno) > lost_range.bound
        })
    }

    /// Handles a lost range on the way back. A lost range over versions of a single key waits for the versions before
    /// it: the newest of them may be the result.
    #[cold]
    #[inline(never)]
    fn meet_lost_range_backward(&mut self) -> Result<()> {
        let record = self.inner.record();
        let is_of_one_key = self.only_key(&LostRange::shown(&record)?).is_some();
        if self.pending == 0 && is_of_one_key {
            self.saved.set(&record)?;
        }
        self.meet_lost_range(self.pending > 0 || is_of_one_key)
    }

    /// True for a lost range over versions of a single key if none of them is visible, or the key is already decided:
    /// it hides nothing from this cursor. The inner cursor is at the lost range.
    #[cold]
    #[inline(never)]
    fn is_decided(&self) -> Result<bool> {
        let record = self.inner.record();
        let lost_range = LostRange::shown(&record)?;
        let hides = |key: &[u8]| lost_range.may_hide(&self.order, key, self.seqno);
        let is_seen = || self.seen.is(&self.order, &self.inner.lead(), record.key);
        Ok(self.only_key(&lost_range).is_some_and(|key| !hides(key) || is_seen()))
    }

    /// Returns the key, if a lost range spans versions of one key only. For a damaged record in memory (in no file) the
    /// key itself may be wrong.
    fn only_key<'f>(&self, lost_range: &'f LostRange) -> Option<&'f [u8]> {
        lost_range.only_key(&self.order).filter(|_| !lost_range.file.is_empty())
    }

    /// Drops the pending lost ranges that span only the saved key: its newest version is the result.
    #[cold]
    fn drop_decided(&mut self) {
        let waiting = self.lost_ranges.split_off(self.lost_ranges.len() - self.pending);
        let key = self.saved.record().key;
        let is_of_key = |lost_range: &LostRange| {
            self.only_key(lost_range).is_some_and(|only| self.order.compare(only, key).is_eq())
        };
        let waiting: Vec<LostRange> = waiting.into_iter().filter(|lost_range| !is_of_key(lost_range)).collect();
        self.pending = waiting.len();
        self.lost_ranges.extend(waiting);
    }

    /// Returns the error of an unreported lost range from the way here; the cursor then keeps its position and shows no
    /// record.
    #[inline]
    fn report_pending(&mut self) -> Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        self.place = CursorPlace::Reported;
        let number = self.lost_ranges.len() - self.pending;
        self.pending -= 1;
        Err(self.error_of(number))
    }

    #[cold]
    fn error_of(&self, number: usize) -> Error {
        let none = || Error::structural("a fence that is not there");
        let lost_range = self.lost_ranges.get(number);
        let error = self.named(lost_range.map_or_else(none, LostRange::error));
        // A lost range in no file stands for a record in memory.
        if let (Some(lost_range), Some(values)) = (lost_range, &self.values)
            && lost_range.file.is_empty()
        {
            values.damaged_in_memory(lost_range.offset, &error);
        }
        error
    }

    /// True if the saved record may be older than a lost one.
    #[cold]
    fn is_saved_covered(&mut self) -> bool {
        let (record, order) = (self.saved.record(), &self.order);
        if self.pending == 0 {
            self.lost_ranges.retain(|lost_range| order.compare(&lost_range.from.0, record.key).is_le());
        }
        self.lost_ranges.iter().any(|lost_range| lost_range.covers_at(order, record.key, record.seqno, self.seqno))
    }

    /// Reports, at the end of a backward walk, pending lost ranges over a key of which no version was shown.
    fn report_pending_unless_shown(&mut self) -> Result<()> {
        if self.place == CursorPlace::Nowhere { self.report_pending() } else { Ok(()) }
    }
}

/// Returns true if a range delete that a reader at `at` sees hides a record. `place` is for this cursor's ranges alone.
#[inline]
fn is_range_deleted(ranges: Option<&RangeIndex>, place: &mut FragmentPlace, record: &Record<'_>, at: Seqno) -> bool {
    ranges.is_some_and(|ranges| ranges.fragment_from(place, record.key).newest(at) > record.seqno)
}

/// Returns the bound of a run that begins in a fragment and meets no range delete: the given bound, or the fragment's
/// edge. `None` if range deletes hold the fragment, where each record must be compared.
fn free_of_ranges<'a>(
    order: &Order,
    fragment: RangeFragment<'a>,
    seqno: Seqno,
    forward: bool,
    bound: Option<&'a [u8]>,
) -> Option<Option<&'a [u8]>> {
    if fragment.newest(seqno) > 0 {
        return None;
    }
    let edge = if forward { fragment.end } else { fragment.start };
    let is_nearer = |edge: &&[u8]| {
        bound.is_none_or(|bound| order.compare(edge, bound) == if forward { Ordering::Less } else { Ordering::Greater })
    };
    Some(edge.filter(is_nearer).or(bound))
}

fn bound_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(bound) | Bound::Excluded(bound) => Some(bound),
    }
}

/// True if a record on the way forward may be older than a lost one. Lost ranges that end before the record are
/// dropped.
#[cold]
#[inline(never)]
fn is_covered(lost_ranges: &mut Vec<LostRange>, order: &Order, record: &Record<'_>, at: Seqno) -> bool {
    planted!(OlderVersionShownUnderFence => return false);
    lost_ranges.retain(|lost_range| order.compare(record.key, &lost_range.to.0).is_le());
    lost_ranges.iter().any(|lost_range| lost_range.covers_at(order, record.key, record.seqno, at))
}

/// Accepts a record that hides its key: a tombstone, an expired value, or any version that a range delete hides. A record of any other kind needs a newer
/// version of the engine.
#[inline]
fn hides_its_key(record: &Record<'_>) -> Result<()> {
    if matches!(record.kind, Kind::Delete | Kind::Merge) || record.kind.is_value() {
        Ok(())
    } else {
        Err(reserved(record.kind))
    }
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

fn not_as_written(record: &Record<'_>, source: RecordSource<'_>) -> Error {
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    let (file, offset, verdict) = (source.file.to_owned(), source.offset, Verdict::Seal);
    let damage = Damage { file, offset, key_range, verdict, ..Damage::default() };
    Error::corruption(damage, "a record does not match its companion")
}
