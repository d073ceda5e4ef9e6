//! The change feed: a reader of the log, and named cursors that keep the log for their consumers.
//!
//! # Design
//!
//! The feed is a reader of the log plus one rule of retention (`catalog/feed.rs`). Commits pay nothing for it.
//!
//! - **Position.** A history and a seqno. A history is a line of commits without a cut. A recovery that cut the log, or
//!   may have lost unsynced commits, begins another one, and so does a copy of the store (checkpoint, restored backup).
//!   The manifest records where each branched from its parent. A position at or below the branch goes on; a later one is
//!   refused, because its consumer has seen commits that this store does not have.
//! - **Reading.** Frames are read from kept segments, then from the live log, which is drained first. Each link is
//!   checked, and each record is verified before it is returned. A reader of durable changes stops at the last sync. Where
//!   segments of several opens meet, the seqnos must follow each other, or a history must begin there.
//! - **Retention.** A segment that the live log has left is kept instead of recycled while somebody needs it. The floor
//!   rises over it in an edit; positions below the floor are out of reach.
//! - **Values.** A frame may point into a blob file. The edit of the flush after which only the feed needs the file keeps
//!   it, with the last seqno of its memtable.
//! - **Changes that are not in the log.** A drop and an ingestion take a seqno in the log, and their edit adds a *mark*
//!   with this seqno, and keeps the ingested tables. Both hold the job lock from the seqno to the edit. A reader that meets
//!   such a seqno without a mark waits for that lock and looks again: then there is a mark, or the job failed. Beside a
//!   writer of another process it stops there: the writer, or its next recovery, marks a failed job as one that did
//!   nothing. A clear is a range delete, and is in the log.
//! - **Recovery** replaces the log, part of which may be in the ring alone. It copies the frames that the feed needs to
//!   segments of their own first. After a clean close there are none.
//! - **Beside a writer** of another process, the manifest and the ring's witness say how far the log is durable and where
//!   it is. A reader that finds a segment gone reads the manifest again.
//! - **Families** are named by the store as it is; of dropped ones, the mark has the name. System families are not part of
//!   the feed: a follower has its own.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::BatchOperations;
use crate::checksum::hash_key;
use crate::codec::Reader;
use crate::cursor::Cursor;
use crate::db::catalog::feed::{FeedReader, FeedView, is_needed};
use crate::db::open::inner::StoreInner;
use crate::db::open::kept_log::first_history;
use crate::db::writes::commit::NO_FAMILY;
use crate::env::{Open, try_copy};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::interrupt;
use crate::names::{StoreFileName, system_number};
use crate::order::Order;
use crate::planted;
use crate::range_delete::bounds_of;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Check, Protection};
use crate::sst::{NoWatch, Table};
use crate::values::LoggedValues;
use crate::version::feed::{MAX_CURSOR_NAME_BYTES, MOST_CURSORS};
use crate::version::{
    ChangePosition, Edit, EditChange, FamilyState, FeedCursor, FeedEdit, FeedMark, FeedState, MarkedTable, recover,
};
use crate::wal::{self, LogCursor};

/// How often a read beside a writer begins anew.
const ATTEMPTS: usize = 16;

/// The shortest and the longest pause between two looks of a waiting reader.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Which changes a reader returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChangeReach {
    /// Durable ones: no crash takes back a change that the reader has returned.
    #[default]
    Durable,
    /// All that reads of the store see. A position behind a commit that a crash of the machine takes back is refused
    /// later.
    Visible,
}

/// The family of a change.
#[derive(Clone, Debug)]
pub struct ChangedFamily {
    /// Its id in this store.
    pub id: u32,
    /// Its name.
    pub name: Arc<str>,
    /// The name of its order.
    pub order: Arc<str>,
}

/// What a change does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOperation {
    /// Puts a value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// Adds a merge operand to a key.
    Merge {
        /// The key.
        key: Vec<u8>,
        /// The operand.
        operand: Vec<u8>,
    },
    /// Deletes the keys from `start`, included, to `end`, excluded. `None`: unbounded.
    DeleteRange {
        /// The first key.
        start: Option<Vec<u8>>,
        /// The first key that stays.
        end: Option<Vec<u8>>,
    },
    /// Drops the family.
    DropFamily,
}

/// One change of a commit.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its position in the commit order. Ingested rows share one.
    pub seqno: Seqno,
    /// The family that changed.
    pub family: Arc<ChangedFamily>,
    /// What changed.
    pub operation: ChangeOperation,
    /// The record's companions as its batch held them: a protector of another store binds them to its own seqno.
    pub companion: Vec<u8>,
    /// True for the last change of a commit: a consumer that applies commits whole applies what it has collected.
    pub ends_commit: bool,
}

/// Reads the changes of a store in commit order. The log that it has not read yet is kept, within the bounds of the
/// settings, as long as it exists and the store is open.
pub struct Changes {
    inner: Arc<StoreInner>,
    reader: FeedReader,
    reach: ChangeReach,
    values: LoggedValues,
    source: Option<Source>,
    /// The seqno of the next operation to be read from the log.
    next_seqno: Seqno,
    /// The seqno up to which changes were returned.
    returned: Seqno,
    waiting: VecDeque<LoggedChange>,
    ingested: Option<IngestedRows>,
    families: HashMap<u32, Arc<ChangedFamily>>,
    /// In a read-only store: the state of the manifest, as it was last read.
    outside: Option<Outside>,
}

/// The state of a store that another process may write.
struct Outside {
    view: Arc<FeedView>,
    /// Name and order of each family.
    families: HashMap<u32, (String, String)>,
}

impl Outside {
    fn read(inner: &StoreInner) -> Result<Outside> {
        let context = inner.context();
        let found = recover(&context.env, &context.dir)?;
        let state = found.ok_or_else(|| Error::invalid("the store was removed"))?.state;
        let family = |(id, family): (&u32, &Arc<FamilyState>)| (*id, (family.name.clone(), family.comparator.clone()));
        let families = state.families.iter().map(family).collect();
        Ok(Outside { view: Arc::new(FeedView::of(&state)), families })
    }
}

/// Where frames are read.
struct Source {
    cursor: LogCursor,
    /// The end of a kept segment; `None` in the live log.
    end: Option<u64>,
}

/// A change that was read, whose value may still be in a blob file.
struct LoggedChange {
    seqno: Seqno,
    family: Arc<ChangedFamily>,
    kind: Kind,
    key: Vec<u8>,
    value: Vec<u8>,
    companion: Vec<u8>,
    ends_commit: bool,
    /// The tables of an ingestion, in place of an operation.
    tables: Option<Vec<MarkedTable>>,
    is_drop: bool,
}

/// The rows of an ingestion that is being returned.
struct IngestedRows {
    seqno: Seqno,
    family: Arc<ChangedFamily>,
    order: Order,
    tables: VecDeque<MarkedTable>,
    open: Option<Box<dyn Cursor>>,
    values: HashMap<crate::checksum::Uid, u64>,
    ends_commit: bool,
}

/// Opens a reader after a position; see `Db::changes_since`.
pub(in crate::db) fn changes_since(
    inner: &Arc<StoreInner>,
    position: &ChangePosition,
    reach: ChangeReach,
) -> Result<Changes> {
    let feed = &inner.catalog().feed;
    let reader = feed.add_reader();
    let outside = match inner.store_log().log() {
        Some(_) => switch_on(inner).map(|()| None)?,
        None if reach == ChangeReach::Visible => {
            return Err(Error::invalid("the change feed of a read-only store returns durable changes alone"));
        }
        None => Some(Outside::read(inner)?),
    };
    let view = outside.as_ref().map_or_else(|| feed.view(), |outside| Arc::clone(&outside.view));
    let seqno = view.state.resolve(position)?;
    check_reach(inner, &view.state, position, seqno)?;
    reader.move_to(seqno);
    let context = inner.context();
    let values = LoggedValues::new(context.env.fs.clone(), &context.dir, context.companions.clone());
    Ok(Changes {
        inner: Arc::clone(inner),
        reader,
        reach,
        values,
        source: None,
        next_seqno: seqno + 1,
        returned: seqno,
        waiting: VecDeque::new(),
        ingested: None,
        families: HashMap::new(),
        outside,
    })
}

/// Returns the position of the store as of now; see `Db::change_position`.
pub(in crate::db) fn change_position(inner: &StoreInner, reach: ChangeReach) -> Result<ChangePosition> {
    if inner.catalog().feed.view().state.histories.is_empty() {
        let _job = inner.flusher().job()?;
        if inner.catalog().feed.view().state.histories.is_empty() {
            let begun = EditChange::Feed(first_history(&inner.context().env));
            inner.catalog().install(Edit::from(vec![begun]), None)?;
        }
    }
    let Some(history) = inner.catalog().feed.view().state.history() else { return Err(Error::closed()) };
    let seqno = match (reach, inner.store_log().log()) {
        (ChangeReach::Durable, Some(log)) => log.durable_seqno().min(inner.store_log().visible()),
        _ => inner.store_log().visible(),
    };
    Ok(ChangePosition { history, seqno })
}

/// Creates or moves a cursor; see `Db::keep_log_for`.
pub(in crate::db) fn set_cursor(
    inner: &StoreInner,
    name: &str,
    position: Option<&ChangePosition>,
) -> Result<ChangePosition> {
    if !(1..=MAX_CURSOR_NAME_BYTES).contains(&name.len()) || name.contains('\0') {
        return Err(Error::invalid("the name of a cursor has 1 to 255 bytes, none of them zero"));
    }
    let known = |state: &FeedState| state.cursors.contains_key(name);
    let edit = |position: ChangePosition| {
        let moved_micros = inner.context().env.clock.wall_micros();
        let cursor = FeedCursor { name: name.to_owned(), position, moved_micros };
        Edit::from(vec![EditChange::Feed(FeedEdit::CursorSet(cursor))])
    };
    let view = inner.catalog().feed.view();
    if let (Some(cursor), None) = (view.state.cursors.get(name), position) {
        return Ok(cursor.position);
    }
    if let (true, Some(position)) = (known(&view.state), position) {
        // The floor does not rise above a position that the cursor leaves behind.
        check_reach(inner, &view.state, position, view.state.resolve(position)?)?;
        inner.catalog().install(edit(*position), None)?;
        return Ok(*position);
    }
    let _reader = inner.catalog().feed.add_reader(); // the feed stays on
    switch_on(inner)?;
    let _job = inner.flusher().job()?; // no edit raises the floor meanwhile
    let view = inner.catalog().feed.view();
    if view.state.cursors.len() >= MOST_CURSORS && !known(&view.state) {
        return Err(Error::invalid(format!("a store has at most {MOST_CURSORS} cursors of the change feed")));
    }
    let position = match position {
        Some(position) => *position,
        None => match view.state.cursors.get(name) {
            Some(cursor) => return Ok(cursor.position),
            None => change_position(inner, ChangeReach::Durable)?,
        },
    };
    let seqno = view.state.resolve(&position)?;
    check_reach(inner, &view.state, &position, seqno)?;
    inner.catalog().install(edit(position), None)?;
    Ok(position)
}

/// Removes a cursor; see `Db::drop_change_cursor`.
pub(in crate::db) fn drop_cursor(inner: &StoreInner, name: &str) -> Result<()> {
    let _job = inner.flusher().job()?;
    if !inner.catalog().feed.view().state.cursors.contains_key(name) {
        return Err(Error::invalid(format!("there is no cursor {name:?} of the change feed")));
    }
    let removed = EditChange::Feed(FeedEdit::CursorRemoved(name.to_owned()));
    inner.catalog().install(Edit::from(vec![removed]), None)
}

/// Begins to keep the log, from the last commit on, which becomes durable, unless it is kept already.
fn switch_on(inner: &StoreInner) -> Result<()> {
    let view = inner.catalog().feed.view();
    if view.state.from.is_some() && is_needed(&view.state, &inner.context().settings.current()) {
        return Ok(());
    }
    // No edit is about to end the feed, which the caller now needs. Drops and ingestions are finished, or come later.
    let _job = inner.flusher().job()?;
    let view = inner.catalog().feed.view();
    if view.state.from.is_some() {
        return Ok(());
    }
    let begun = view.state.histories.is_empty().then(|| first_history(&inner.context().env));
    let durable = inner.write_path().sync_log()?.seqno; // a cursor that begins here survives any crash
    let edits = begun.into_iter().chain([FeedEdit::KeptFrom(Some(durable))]);
    inner.catalog().install(Edit::from(edits.map(EditChange::Feed).collect::<Vec<_>>()), None)
}

/// Checks that the feed can be read after a seqno.
fn check_reach(inner: &StoreInner, state: &FeedState, position: &ChangePosition, seqno: Seqno) -> Result<()> {
    if inner.store_log().log().is_some() && seqno > inner.store_log().visible() {
        return Err(Error::invalid(format!("the position {position} lies ahead of the store")));
    }
    match state.from {
        Some(from) if seqno >= from => Ok(()),
        _ => Err(state.out_of_reach(position, "is older than the log that is kept")),
    }
}

impl Changes {
    /// Returns the next change; `None` if there is none now. Later calls return later changes.
    ///
    /// Errors: `OutOfReach` if the log behind the reader exceeded the bounds and was dropped; `Corruption` of the log, of
    /// a value or of a record, with its place; `Invalid` for ingested rows in an order that was not given; `Io`, `Closed`.
    /// After an error the reader stays where it is.
    #[allow(clippy::should_implement_trait, reason = "the end of the changes is not final")]
    pub fn next(&mut self) -> Result<Option<Change>> {
        loop {
            self.check_open()?;
            if let Some(change) = self.next_ingested()? {
                return Ok(Some(change));
            }
            if let Some(logged) = self.waiting.pop_front() {
                if logged.tables.is_some() {
                    self.begin_ingested(logged)?;
                    continue;
                }
                return match self.whole(&logged) {
                    Ok(change) => {
                        self.returned = change.seqno;
                        Ok(Some(change))
                    }
                    Err(error) => {
                        self.waiting.push_front(logged);
                        Err(error)
                    }
                };
            }
            self.returned = self.next_seqno - 1;
            self.reader.move_to(self.returned);
            interrupt::check()?;
            if !self.read_frame()? {
                return Ok(None);
            }
        }
    }

    /// Returns the next change, and waits for it at most `timeout`. A reader of durable changes syncs the log if it finds
    /// commits that are visible and not durable. `None` after the timeout. Errors: as `next`.
    pub fn wait_next(&mut self, timeout: Duration) -> Result<Option<Change>> {
        let clock = self.inner.context().env.clock.clone();
        let (started, [mut pause, longest]) = (clock.monotonic_nanos(), PAUSES);
        loop {
            if let Some(change) = self.next()? {
                return Ok(Some(change));
            }
            let is_writer = self.outside.is_none();
            if is_writer && self.reach == ChangeReach::Durable && self.inner.store_log().visible() >= self.next_seqno {
                self.inner.write_path().sync_and_check()?;
                continue;
            }
            let waited = Duration::from_nanos(clock.monotonic_nanos().saturating_sub(started));
            let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else { return Ok(None) };
            clock.sleep_nanos(u64::try_from(pause.min(left).as_nanos()).unwrap_or(u64::MAX));
            pause = (pause * 2).min(longest);
        }
    }

    /// Returns the position after the last change that was returned, from which another reader goes on. Within a commit,
    /// it is the position between two of its changes.
    pub fn position(&self) -> ChangePosition {
        let history = self.view().state.history().unwrap_or_default();
        ChangePosition { history, seqno: self.returned }
    }

    fn check_open(&self) -> Result<()> {
        if self.inner.is_over() { Err(self.inner.why_over()) } else { Ok(()) }
    }

    /// Reads the next frame, if there is one now.
    fn read_frame(&mut self) -> Result<bool> {
        let mut attempts = 0;
        loop {
            let view = self.view();
            let read = self.readable(&view).and_then(|until| self.read_from(&view, until));
            match read {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) => {
                    self.source = None;
                    let is_renewed = self.renew()? || !Arc::ptr_eq(&view, &self.view());
                    // A segment that was released meanwhile.
                    if self.view().state.from.is_none_or(|from| self.next_seqno <= from) {
                        let why = "has fallen behind the log that is kept";
                        return Err(self.view().state.out_of_reach(&self.position(), why));
                    }
                    attempts += 1;
                    if !is_renewed || attempts > ATTEMPTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Returns the state of the feed.
    fn view(&self) -> Arc<FeedView> {
        match &self.outside {
            Some(outside) => Arc::clone(&outside.view),
            None => self.inner.catalog().feed.view(),
        }
    }

    /// In a read-only store, reads the manifest again. Returns true if the feed's state or the log's begin has changed.
    fn renew(&mut self) -> Result<bool> {
        let Some(outside) = &mut self.outside else { return Ok(false) };
        let before = std::mem::replace(outside, Outside::read(&self.inner)?);
        Ok(before.view.state != outside.view.state || before.view.log != outside.view.log)
    }

    /// Returns the log offset up to which changes may be returned, all of it drained to the segments.
    fn readable(&self, view: &FeedView) -> Result<u64> {
        let Some(log) = self.inner.store_log().log() else {
            let Some(start) = &view.log else { return Ok(0) };
            let context = self.inner.context();
            return Ok(wal::read_marks(&context.env, &context.dir, start)?.synced);
        };
        let applied = self.inner.write_path().applied();
        match self.reach {
            ChangeReach::Durable if planted!(FeedReadsUnsynced, false, true) => {
                Ok(log.wal().synced().offset.min(applied.offset))
            }
            _ => {
                log.wal().drain()?;
                Ok(applied.offset)
            }
        }
    }

    /// Reads one frame at the current place. `None`: the place is the end of a kept segment.
    fn read_from(&mut self, view: &FeedView, until: u64) -> Result<Option<bool>> {
        let mut source = match self.source.take() {
            Some(source) => source,
            None => match self.locate(view)? {
                Some(source) => source,
                None => return Ok(Some(false)),
            },
        };
        let following = view.state.following(self.next_seqno - 1);
        let limit = source.end.unwrap_or(until);
        let Some(frame) = source.cursor.next(limit)? else {
            let is_live = source.end.is_none();
            if is_live {
                self.source = Some(source);
            }
            return Ok(is_live.then_some(false));
        };
        let count = BatchOperations::new(frame.body)?.remaining();
        let end = frame.seqno + count;
        if end > self.next_seqno {
            if frame.seqno > self.next_seqno && frame.seqno != following {
                return Err(Error::structural("commits are missing between two segments of the log"));
            }
            let body = try_copy(frame.body).during(|| "copying a commit of the log")?;
            if !self.take_frame(view, frame.seqno, &body)? {
                return Ok(Some(false)); // the next call reads the frame again
            }
            self.next_seqno = end;
        }
        self.source = Some(source);
        Ok(Some(true))
    }

    /// Returns the segment that holds the next seqno.
    fn locate(&self, view: &FeedView) -> Result<Option<Source>> {
        let context = self.inner.context();
        let open = |number, nonce, first| LogCursor::open(&context.env, &context.dir, number, nonce, first);
        if let Some((_, segment)) = view.state.segments.range(self.next_seqno + 1..).next() {
            let cursor = open(segment.number, segment.nonce, segment.first)?;
            return Ok(Some(Source { cursor, end: Some(segment.end) }));
        }
        let Some(log) = &view.log else { return Ok(None) };
        let cursor = open(log.place.segment, log.place.nonce, log.place.offset)?;
        Ok(Some(Source { cursor, end: None }))
    }

    /// Queues the changes of a frame. Returns false while a job of the frame has no outcome.
    fn take_frame(&mut self, view: &FeedView, first: Seqno, body: &[u8]) -> Result<bool> {
        let mut logged = Vec::new();
        for (seqno, operation) in (first..).zip(BatchOperations::new(body)?) {
            let operation = operation?;
            if seqno < self.next_seqno {
                continue;
            }
            if operation.family == NO_FAMILY {
                if operation.value.is_empty() {
                    continue;
                }
                let id = Reader::new(operation.key).varint()?;
                let id = u32::try_from(id).map_err(|_| Error::structural("family id above 32 bits"))?;
                let Some(mark) = self.mark(seqno)? else { return Ok(false) };
                let is_nothing = mark.ingested.as_ref().is_some_and(Vec::is_empty);
                if !is_nothing {
                    logged.push(self.marked(mark, id)?);
                }
                continue;
            }
            if system_number(operation.family).is_some() {
                continue;
            }
            let family = self.family(view, operation.family, seqno)?;
            logged.push(LoggedChange {
                seqno,
                family,
                kind: operation.kind,
                key: operation.key.to_vec(),
                value: try_copy(operation.value).during(|| "copying a value")?,
                companion: operation.companion.to_vec(),
                ends_commit: false,
                tables: None,
                is_drop: false,
            });
        }
        if let Some(last) = logged.last_mut() {
            last.ends_commit = true;
        }
        self.waiting.extend(logged);
        Ok(true)
    }

    /// Returns what an edit did at a seqno: nothing, if the job failed. `None`: a job of another process is still at work.
    fn mark(&mut self, seqno: Seqno) -> Result<Option<FeedMark>> {
        let find = |changes: &Changes| changes.view().state.marks.get(&seqno).cloned();
        if let Some(mark) = find(self) {
            return Ok(Some(mark));
        }
        if self.outside.is_some() {
            self.renew()?;
            return Ok(find(self));
        }
        drop(self.inner.flusher().job()?); // the job that took the seqno has ended
        Ok(Some(find(self).unwrap_or_else(|| FeedMark::nothing(seqno, 0))))
    }

    /// Returns the change of a mark.
    fn marked(&mut self, mark: FeedMark, family: u32) -> Result<LoggedChange> {
        let FeedMark { seqno, ingested, .. } = mark;
        let view = self.view();
        let family = self.family(&view, family, seqno)?;
        let (key, value, companion) = Default::default();
        let (kind, is_drop) = (Kind::Delete, ingested.is_none());
        let ends_commit = false;
        Ok(LoggedChange { seqno, family, kind, key, value, companion, ends_commit, tables: ingested, is_drop })
    }

    /// Returns the family with an id. The mark of a drop at or after `seqno` names a dropped family.
    fn family(&mut self, view: &FeedView, id: u32, seqno: Seqno) -> Result<Arc<ChangedFamily>> {
        if let Some(family) = self.families.get(&id) {
            return Ok(Arc::clone(family));
        }
        let made = |name: &str, order: &str| Arc::new(ChangedFamily { id, name: name.into(), order: order.into() });
        let dropped = |view: &FeedView| {
            let mark = view.state.marks.range(seqno..).map(|(_, mark)| mark);
            let mut mark = mark.filter(|mark| mark.family == id && mark.ingested.is_none());
            mark.next().map(|mark| made(&mark.dropped.0, &mark.dropped.1))
        };
        let open = |changes: &Changes| match &changes.outside {
            Some(outside) => outside.families.get(&id).map(|(name, order)| made(name, order)),
            None => {
                let families = changes.inner.catalog().families();
                families.by_id.get(&id).map(|family| made(family.name(), family.order().name()))
            }
        };
        let mut found = open(self).or_else(|| dropped(view));
        if found.is_none() {
            self.renew()?;
            found = open(self).or_else(|| dropped(&self.view()));
        }
        let family = found.ok_or_else(|| Error::structural("the log names a family that does not exist"))?;
        self.families.insert(id, Arc::clone(&family));
        Ok(family)
    }

    /// Returns a change with its value, verified.
    fn whole(&mut self, logged: &LoggedChange) -> Result<Change> {
        let LoggedChange { seqno, kind, ends_commit, .. } = *logged;
        let (family, companion) = (Arc::clone(&logged.family), logged.companion.clone());
        let (key, value) = (logged.key.clone(), &logged.value);
        if logged.is_drop {
            return Ok(Change { seqno, family, operation: ChangeOperation::DropFamily, companion, ends_commit });
        }
        let value = match kind {
            Kind::BlobPointer => {
                let record = Record { key: &key, seqno, kind, value, companion: &companion };
                let whole = self.values.whole(&record, value).map_err(|error| error.in_key(&key))?;
                try_copy(whole.value)
            }
            _ => try_copy(value),
        };
        let value = value.during(|| "copying a value")?;
        let kind = kind.logical();
        self.verify(&Record { key: &key, seqno, kind, value: &value, companion: &companion })?;
        let operation = match kind {
            Kind::Put => ChangeOperation::Put { key, value },
            Kind::Delete => ChangeOperation::Delete { key },
            Kind::Merge => ChangeOperation::Merge { key, operand: value },
            Kind::RangeDelete => {
                let (start, end) = bounds_of(&key, &value)?;
                ChangeOperation::DeleteRange { start: start.map(<[u8]>::to_vec), end: end.map(<[u8]>::to_vec) }
            }
            _ => return Err(Error::structural("an operation of a reserved kind in the log")),
        };
        Ok(Change { seqno, family, operation, companion, ends_commit })
    }

    /// Checks a record of the log against its companion, which is not bound to its seqno yet.
    fn verify(&self, record: &Record<'_>) -> Result<()> {
        let protector = &*self.inner.context().companions;
        if protector.protection() == Protection::None {
            return Ok(());
        }
        let mut companion = record.companion.to_vec();
        protector.bind(&mut companion, None, record.seqno);
        let record = Record { companion: &companion, ..*record };
        match protector.verify(&record, hash_key(record.key), Protection::Partial) {
            Check::Validated | Check::Unverified => Ok(()),
            _ => Err(mismatch(record.key)),
        }
    }

    /// Begins to read the rows of an ingestion. The family may be dropped, or unknown yet to a read-only store.
    fn begin_ingested(&mut self, logged: LoggedChange) -> Result<()> {
        let Some(order) = self.inner.given.order(&logged.family.order) else {
            let ChangedFamily { name, order, .. } = &*logged.family;
            let what = format!(
                "rows were ingested into family {name:?}, which is ordered by {order:?}; open the store with that order"
            );
            self.waiting.push_front(logged);
            return Err(Error::invalid(what));
        };
        let LoggedChange { seqno, family, ends_commit, tables, .. } = logged;
        let tables = tables.unwrap_or_default();
        let values = tables.iter().flat_map(|table| table.values.iter().map(|(number, uid)| (*uid, *number))).collect();
        let tables = tables.into();
        self.ingested = Some(IngestedRows { seqno, family, order, tables, open: None, values, ends_commit });
        Ok(())
    }

    /// Returns the next row of the ingestion that is being read.
    fn next_ingested(&mut self) -> Result<Option<Change>> {
        while let Some(rows) = &mut self.ingested {
            match &mut rows.open {
                None => {
                    let Some(table) = rows.tables.front() else {
                        self.ingested = None;
                        continue;
                    };
                    let mut cursor = open_table(&self.inner, table, &rows.order)?;
                    cursor.first()?;
                    rows.open = Some(cursor);
                }
                Some(cursor) if !cursor.valid() => {
                    rows.open = None;
                    rows.tables.pop_front();
                }
                Some(cursor) => {
                    let record = cursor.record();
                    let (kind, key) = (record.kind, record.key.to_vec());
                    let protector = &*self.inner.context().companions;
                    if !protector.verify(&record, hash_key(&key), cursor.source().protection).serves() {
                        return Err(mismatch(&key));
                    }
                    let mut companion = record.companion.to_vec();
                    protector.unbind(&mut companion, record.seqno);
                    let value = match kind {
                        Kind::BlobPointer => {
                            let pointer = crate::pointer::Pointer::decode(record.value)?;
                            let number = rows.values.get(&pointer.uid).copied();
                            let number =
                                number.ok_or_else(|| Error::structural("a pointer names an unknown blob file"))?;
                            let logged = pointer.encode_logged(number);
                            let record = Record { value: &logged, ..record };
                            try_copy(self.values.whole(&record, &logged)?.value)
                        }
                        _ => try_copy(record.value),
                    };
                    let value = value.during(|| "copying a value")?;
                    let operation = match kind.logical() {
                        Kind::Put => ChangeOperation::Put { key, value },
                        Kind::Delete => ChangeOperation::Delete { key },
                        _ => return Err(Error::structural("an ingested record of another kind")),
                    };
                    let (seqno, family) = (rows.seqno, Arc::clone(&rows.family));
                    cursor.next()?;
                    let is_last = !cursor.valid() && rows.tables.len() == 1;
                    let ends_commit = is_last && rows.ends_commit;
                    if is_last {
                        self.ingested = None;
                        self.returned = seqno;
                    }
                    return Ok(Some(Change { seqno, family, operation, companion, ends_commit }));
                }
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("returned", &self.returned).finish_non_exhaustive()
    }
}

fn open_table(inner: &StoreInner, table: &MarkedTable, order: &Order) -> Result<Box<dyn Cursor>> {
    let context = inner.context();
    let name = StoreFileName::Table(table.number);
    let file = context.env.fs.open(&context.path(name), Open::Read).during(|| format!("opening {name}"))?;
    let (cache, protector) = (context.cache.clone(), context.companions.clone());
    let read_by = (table.expected, order.clone(), None);
    let table = Table::open_watched(name.to_string(), file, read_by, cache, protector, Arc::new(NoWatch))?;
    Ok(Box::new(Arc::new(table).cursor(false)))
}

fn mismatch(key: &[u8]) -> Error {
    let key_range = Some((key.to_vec(), key.to_vec()));
    let damage = Damage { verdict: Verdict::Seal, key_range, ..Damage::default() };
    Error::corruption(damage, "a record of the change feed does not match its companion")
}
