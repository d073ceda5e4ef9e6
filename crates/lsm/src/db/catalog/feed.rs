//! Retention for the change feed: the files that the manifest keeps for it, and the consumers that need them. The only
//! owner of log retention.
//!
//! ```text
//! needed by   `keep_log_bytes`, `keep_log_age`; named cursors (in the manifest); open readers (in memory)
//! decided by  `floor`, with every edit of the log: the floor rises over segments that nobody needs, or that exceed the
//!             bounds of cursors and readers
//! kept        segments that the live log has left, blob files that kept frames point into, ingested tables
//! released    by the edit that raises the floor; then the files are removed
//! ```
//!
//! The feed is off while nobody needs it: then no edit names it, and segments are recycled as ever. Commits do no
//! work for it.
//!
//! Holds: while the feed is on, every commit after the floor can be read: its frame, its values, the tables that it
//!        ingested. A segment is kept only after it is durable.
//! Crash: the manifest as of the last edit. Files that it does not name are removed by the next open.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::db::state::family::Family;
use crate::env::work::lock;
use crate::names::StoreFileName;
use crate::options::Settings;
use crate::planted;
use crate::record::Seqno;
use crate::version::{
    EditChange, FeedEdit, FeedMark, FeedState, KeptFile, KeptSegment, ManifestState, MarkedTable, TableMeta,
};
use crate::wal::{LogStart, RetiredSegment};

/// The manifest's record of the feed, and the begin of the live log.
#[derive(Clone, Debug, Default)]
pub(in crate::db) struct FeedView {
    pub(in crate::db) state: Arc<FeedState>,
    pub(in crate::db) log: Option<LogStart>,
}

impl FeedView {
    pub(in crate::db) fn of(state: &ManifestState) -> FeedView {
        FeedView { state: Arc::clone(&state.feed), log: state.log }
    }
}

/// The owner of what the change feed keeps.
pub(in crate::db) struct Feed {
    view: ArcSwap<FeedView>,
    readers: Mutex<Readers>,
    files: Mutex<FeedFiles>,
    /// Numbers of the kept segments that end with their frames, durably.
    cut: Mutex<BTreeSet<u64>>,
    jobs: Mutex<MarkingJobs>,
}

/// Seqnos that jobs took for an edit, each with its family. They leave when an edit that marks them is durable.
#[derive(Default)]
struct MarkingJobs {
    /// Of the job that holds the job lock.
    running: Vec<(Seqno, u32)>,
    /// Of jobs that ended without the edit.
    failed: Vec<(Seqno, u32)>,
}

impl MarkingJobs {
    /// Forgets the seqnos that the state marks, or that no reader needs.
    fn forget_marked(&mut self, state: &FeedState) {
        let is_due = |(seqno, _): &(Seqno, u32)| {
            state.from.is_some_and(|from| *seqno > from) && !state.marks.contains_key(seqno)
        };
        self.running.retain(is_due);
        self.failed.retain(is_due);
    }
}

/// The positions of open readers.
#[derive(Default)]
struct Readers {
    next: u64,
    at: HashMap<u64, Seqno>,
}

/// Files that only the feed keeps, and files that it has released.
#[derive(Default)]
struct FeedFiles {
    /// Kept files that neither tables nor memtables need any more.
    buried: BTreeSet<StoreFileName>,
    /// Files to be removed.
    released: Vec<StoreFileName>,
}

/// A registered reader, until it is dropped.
pub(in crate::db) struct FeedReader {
    feed: Arc<Feed>,
    id: u64,
}

impl FeedReader {
    /// Moves the reader: it needs the commits after this seqno.
    pub(in crate::db) fn move_to(&self, seqno: Seqno) {
        lock(&self.feed.readers).at.insert(self.id, seqno);
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        lock(&self.feed.readers).at.remove(&self.id);
    }
}

/// The feed's changes to an edit of the log.
#[derive(Default)]
pub(in crate::db) struct FeedChanges {
    pub(in crate::db) changes: Vec<EditChange>,
    /// Numbers of the retired segments that stay.
    pub(in crate::db) kept: Vec<u64>,
}

impl Feed {
    /// Creates the owner with the state of an open. Files of the feed that no table names are its own.
    pub(in crate::db) fn new(state: &ManifestState) -> Feed {
        let named: BTreeSet<StoreFileName> = {
            let tables = state.families.values().flat_map(|family| family.tables.values());
            let names = |table: &TableMeta| {
                let values = table.values.iter().map(|values| StoreFileName::Values(values.file.number));
                values.chain([StoreFileName::Table(table.number)]).collect::<Vec<_>>()
            };
            tables.flat_map(|(_, table)| names(table)).collect()
        };
        let buried = state.feed.files.keys().filter(|name| !named.contains(name)).copied().collect();
        let files = Mutex::new(FeedFiles { buried, released: Vec::new() });
        Feed { files, ..Feed::of_reader(FeedView::of(state)) }
    }

    /// Creates the owner of a read-only store, which keeps nothing.
    pub(in crate::db) fn of_reader(view: FeedView) -> Feed {
        let view = ArcSwap::from_pointee(view);
        let (readers, files, cut, jobs) = Default::default();
        Feed { view, readers, files, cut, jobs }
    }

    /// Shows the state that a read-only store has read anew.
    pub(in crate::db) fn show_read(&self, view: FeedView) {
        self.view.store(Arc::new(view));
    }

    /// Returns the state as of the last edit.
    pub(in crate::db) fn view(&self) -> Arc<FeedView> {
        self.view.load_full()
    }

    /// True if the log is kept for the feed.
    pub(in crate::db) fn is_on(&self) -> bool {
        self.view.load().state.from.is_some()
    }

    /// Shows the state of a durable edit. Files that it released are to be removed, unless tables still name them.
    pub(super) fn show(&self, state: &ManifestState) {
        let before = self.view.load_full();
        if Arc::ptr_eq(&before.state, &state.feed) && before.log == state.log {
            return;
        }
        let mut files = lock(&self.files);
        let (old, new) = (&before.state, &state.feed);
        let segments = old.segments.iter().filter(|(next, _)| !new.segments.contains_key(next));
        files.released.extend(segments.map(|(_, segment)| segment.name()));
        for name in old.files.keys().filter(|name| !new.files.contains_key(name)) {
            if files.buried.remove(name) {
                files.released.push(*name);
            }
        }
        self.view.store(Arc::new(FeedView::of(state)));
        lock(&self.jobs).forget_marked(new);
    }

    /// Takes over a file that nobody else needs. Returns false if the feed does not keep it.
    pub(super) fn bury(&self, name: StoreFileName) -> bool {
        let mut files = lock(&self.files);
        let keeps = self.view.load().state.files.contains_key(&name);
        if keeps {
            files.buried.insert(name);
        }
        keeps
    }

    /// Takes a file to be removed.
    pub(super) fn take_released(&self) -> Option<StoreFileName> {
        lock(&self.files).released.pop()
    }

    /// Returns the kept segments that may have older frames behind their own ones, now or after a loss of power.
    pub(in crate::db) fn uncut_segments(&self) -> Vec<KeptSegment> {
        let (view, mut cut) = (self.view(), lock(&self.cut));
        let segments: BTreeMap<u64, KeptSegment> =
            view.state.segments.values().map(|segment| (segment.number, *segment)).collect();
        cut.retain(|number| segments.contains_key(number));
        segments.into_values().filter(|segment| !cut.contains(&segment.number)).collect()
    }

    /// Notes that a kept segment ends with its frames, durably.
    pub(in crate::db) fn note_cut(&self, segment: &KeptSegment) {
        lock(&self.cut).insert(segment.number);
    }

    /// Returns the least seqno that a record may have in files that only the feed keeps or has released. 0 if that is
    /// not known.
    pub(super) fn oldest_in_files(&self) -> Option<Seqno> {
        let files = lock(&self.files);
        let view = self.view();
        let seqno_of = |name: &StoreFileName| match name {
            // It was ingested, so all of its records have one seqno.
            StoreFileName::Table(_) => view.state.files.get(name).copied().unwrap_or(0),
            _ => 0,
        };
        files.buried.iter().chain(&files.released).map(seqno_of).min()
    }

    /// Registers a reader: from now on the feed stays on, and the floor stays where it is, within the bounds.
    pub(in crate::db) fn add_reader(self: &Arc<Self>) -> FeedReader {
        let mut readers = lock(&self.readers);
        readers.next += 1;
        let id = readers.next;
        readers.at.insert(id, 0);
        FeedReader { feed: Arc::clone(self), id }
    }

    /// Notes that a job begins, so jobs before it have ended.
    pub(in crate::db) fn job_begins(&self) {
        let MarkingJobs { running, failed } = &mut *lock(&self.jobs);
        failed.append(running);
    }

    /// Notes that the running job has taken a seqno for an edit.
    pub(in crate::db) fn job_takes(&self, seqno: Seqno, family: u32) {
        if self.is_on() {
            lock(&self.jobs).running.push((seqno, family));
        }
    }

    /// Returns the feed's changes to an edit that retires segments and flushes memtables: what stays, and the floor. The
    /// caller holds the job lock.
    pub(in crate::db) fn changes(
        &self,
        settings: &Settings,
        now: u64,
        retired: &[RetiredSegment],
        flushed: &[(&Family, Seqno)],
    ) -> FeedChanges {
        let view = self.view();
        let Some(from) = view.state.from else { return FeedChanges::default() };
        let mut next = FeedState::clone(&view.state);
        let reader = lock(&self.readers).at.values().copied().min();
        for segment in retired {
            let RetiredSegment { number, nonce, first, end, next_seqno } = *segment;
            let kept = KeptSegment { number, nonce, first, end, next_seqno, closed_micros: now };
            next.segments.entry(next_seqno).or_insert(kept); // another one of this seqno holds no operation
        }
        let floor = floor(&next, &Needs { reader, settings, now });
        let is_kept = |through: Seqno| floor.is_some_and(|floor| through > floor);
        let (mut edits, mut kept) = (Vec::new(), Vec::new());
        let is_own = |segment: &RetiredSegment| next.segments[&segment.next_seqno].number == segment.number;
        for segment in retired.iter().filter(|segment| is_kept(segment.next_seqno - 1) && is_own(segment)) {
            kept.push(segment.number);
            edits.push(FeedEdit::SegmentKept(next.segments[&segment.next_seqno]));
        }
        for (family, through) in flushed {
            planted!(FeedValuesForgotten => break);
            let files = family.value_files_through(*through).into_iter();
            let files = files.map(|(number, through)| KeptFile { name: StoreFileName::Values(number), through });
            edits.extend(files.filter(|file| is_kept(file.through)).map(FeedEdit::FileKept));
        }
        let failed = lock(&self.jobs).failed.clone(); // the edit may fail
        edits.extend(failed.into_iter().map(|(seqno, family)| FeedEdit::Marked(FeedMark::nothing(seqno, family))));
        if floor != Some(from) {
            edits.push(FeedEdit::KeptFrom(floor));
        }
        FeedChanges { changes: edits.into_iter().map(EditChange::Feed).collect(), kept }
    }

    /// Returns the changes that record an ingestion, whose tables stay until no reader of the feed needs them. Empty if
    /// the feed is off.
    pub(in crate::db) fn ingested(&self, family: u32, seqno: Seqno, tables: &[Arc<TableMeta>]) -> Vec<EditChange> {
        if planted!(FeedMarkForgotten, true, !self.is_on() || tables.is_empty()) {
            return Vec::new();
        }
        let marked = |table: &Arc<TableMeta>| MarkedTable {
            number: table.number,
            expected: table.expected(),
            values: table.values.iter().map(|values| (values.file.number, values.file.uid)).collect(),
        };
        let tables: Vec<MarkedTable> = tables.iter().map(marked).collect();
        let names = |table: &MarkedTable| {
            let values = table.values.iter().map(|(number, _)| StoreFileName::Values(*number));
            values.chain([StoreFileName::Table(table.number)]).collect::<Vec<_>>()
        };
        let kept = tables.iter().flat_map(names).map(|name| FeedEdit::FileKept(KeptFile { name, through: seqno }));
        let mut edits: Vec<FeedEdit> = kept.collect();
        edits.push(FeedEdit::Marked(FeedMark { seqno, family, ingested: Some(tables), dropped: Default::default() }));
        edits.into_iter().map(EditChange::Feed).collect()
    }

    /// Returns the change that records a drop. `None` if the feed is off.
    pub(in crate::db) fn dropped(&self, family: &Family, seqno: Seqno) -> Option<EditChange> {
        let dropped = (family.name().to_owned(), family.order().name().to_owned());
        let mark = FeedMark { seqno, family: family.id(), ingested: None, dropped };
        self.is_on().then_some(EditChange::Feed(FeedEdit::Marked(mark)))
    }
}

/// Who needs kept log.
struct Needs<'a> {
    /// The oldest open reader.
    reader: Option<Seqno>,
    settings: &'a Settings,
    now: u64,
}

/// True if the options or a cursor need the feed.
pub(in crate::db) fn is_needed(state: &FeedState, settings: &Settings) -> bool {
    settings.keep_log_bytes > 0 || settings.keep_log_age > Duration::ZERO || !state.cursors.is_empty()
}

/// Returns the floor of a feed: commits after it are kept. `None` if nobody needs the feed.
fn floor(state: &FeedState, needs: &Needs<'_>) -> Option<Seqno> {
    let Needs { reader, settings, now } = *needs;
    let from = state.from?;
    if reader.is_none() && !is_needed(state, settings) {
        return None;
    }
    let cursors = state.cursors.values().filter_map(|cursor| state.resolve(&cursor.position).ok());
    let holder = planted!(FeedIgnoresCursors, reader, cursors.chain(reader).min());
    let by_options = settings.keep_log_bytes > 0 || settings.keep_log_age > Duration::ZERO;
    let micros = |age: Duration| u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
    let (mut newer, mut floor) = (0_u64, from);
    for segment in state.segments.values().rev() {
        let (last, age) = (segment.next_seqno - 1, now.saturating_sub(segment.closed_micros));
        let is_option = newer < settings.keep_log_bytes || age < micros(settings.keep_log_age);
        let within = newer < settings.cursor_log_bytes && age <= micros(settings.cursor_log_age);
        if !(is_option || within && holder.is_some_and(|holder| holder < last)) {
            floor = floor.max(last);
            break;
        }
        newer = newer.saturating_add(segment.bytes());
    }
    match holder {
        Some(holder) if !by_options => Some(floor.max(holder)),
        _ => Some(floor),
    }
}
