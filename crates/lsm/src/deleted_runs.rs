//! Deleted runs: ranges of keys that hold no record for any present or later reader of a family.
//!
//! A queue deletes where it reads. Its head lies behind all records that were deleted since the last compaction, and a
//! reader that looks for it would walk over them each time. The first reader that does so notes the run, and the next
//! ones seek its end.
//!
//! In:     `begin` and `end` of a walk over deleted records, by a reader at a seqno; `note`, by the applying thread, for
//!         each record that a commit adds to the family while the runs are *armed*.
//! Out:    `past`: the end of a run that holds a key.
//! Holds:  no reader at or above a run's seqno finds a record in it. The walk has shown that for its own seqno. A record
//!         that is added later is noted, and cuts runs and walks at its key.
//! Begins: the first walk only arms the runs. A batch that was being applied meanwhile may not be noted, so walks count
//!         from the first noted batch on: `noted_from`. A walk needs a reader who sees all noted records, and every record
//!         that is not noted.
//! Views:  an ingestion adds records that no commit adds, in a new view of the family. Each change of the view forgets
//!         all runs and begins anew: a reader of the new view may have a seqno below the ingested records. A run is used
//!         only by readers of the view in which it was found.
//! Ends:   `note` disarms the runs once nobody has used them for `IDLE` records.
//! Costs:  one load for each record of a commit; while armed, a lock and a few comparisons.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::env::work::lock;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno};

/// Maximum number of runs, and of unfinished walks. The oldest one makes room.
const MOST: usize = 8;

/// Records that are noted after the last use before the runs are disarmed.
const IDLE: u32 = 1 << 16;

/// The deleted runs of one family. Any thread may call all methods.
#[derive(Default)]
pub struct DeletedRuns {
    is_armed: AtomicBool,
    state: Mutex<RunState>,
}

#[derive(Default)]
struct RunState {
    /// The seqno of the first noted record; `None` before it.
    noted_from: Option<Seqno>,
    /// The greatest seqno of a noted record that is no tombstone.
    newest_put: Seqno,
    /// Oldest first.
    runs: Vec<DeletedRun>,
    walks: Vec<DeletedWalk>,
    next_walk: u64,
    /// Records noted since the last use.
    unused: u32,
}

/// A reader of the family: the address of its view, which is unique while the view is alive, and its seqno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunReader {
    pub(crate) view: usize,
    pub(crate) seqno: Seqno,
}

/// Keys without a record for readers of the same view at or above a seqno.
struct DeletedRun {
    start: Vec<u8>,
    /// Excluded; `None`: no end.
    end: Option<Vec<u8>>,
    found_by: RunReader,
}

/// A walk that has found no record since its start.
struct DeletedWalk {
    id: WalkId,
    start: Vec<u8>,
    /// The least key added since the walk began.
    cut: Option<Vec<u8>>,
    reader: RunReader,
}

/// Names a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WalkId(u64);

/// The end of a run: excluded; `None`: it has no end.
pub(crate) type RunEnd = Option<Vec<u8>>;

impl DeletedRuns {
    /// Begins a walk at a key, for a reader that has found it deleted. If the key lies in a run that the
    /// reader may use, the walk covers that run, too. Returns `None` if the run that it will find could not be trusted.
    /// `is_current` returns false if the family has another view meanwhile.
    pub(crate) fn begin(
        &self,
        order: &Order,
        key: &[u8],
        reader: RunReader,
        is_current: impl FnOnce() -> bool,
    ) -> Option<WalkId> {
        let mut state = lock(&self.state);
        self.is_armed.store(true, Ordering::Release);
        let sees_all = state.noted_from.is_some_and(|from| from <= reader.seqno) && state.newest_put <= reader.seqno;
        if !sees_all || !is_current() {
            return None;
        }
        let start = state.run_at(order, key, reader).map_or(key, |run| &run.start).to_vec();
        let id = WalkId(state.next_walk);
        state.next_walk += 1;
        add(&mut state.walks, DeletedWalk { id, start, cut: None, reader });
        Some(id)
    }

    /// Returns the end of the run that holds a key, if the reader may use it.
    pub(crate) fn past(&self, order: &Order, key: &[u8], reader: RunReader) -> Option<RunEnd> {
        if !self.is_armed.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = lock(&self.state);
        let end = state.run_at(order, key, reader)?.end.clone();
        state.unused = 0;
        Some(end)
    }

    /// Ends a walk that has found no record before `end` (`None`: none at all), and notes its run.
    pub(crate) fn end(&self, order: &Order, walk: WalkId, end: Option<&[u8]>) {
        let mut state = lock(&self.state);
        let Some(at) = state.walks.iter().position(|known| known.id == walk) else { return };
        let DeletedWalk { start, cut, reader, .. } = state.walks.remove(at);
        let is_cut = |cut: &Vec<u8>| end.is_none_or(|end| order.compare(cut, end).is_lt());
        let end = cut.filter(is_cut).or_else(|| end.map(<[u8]>::to_vec));
        if end.as_ref().is_some_and(|end| order.compare(&start, end).is_ge()) {
            return;
        }
        state.runs.retain(|run| order.compare(&run.start, &start).is_ne());
        add(&mut state.runs, DeletedRun { start, end, found_by: reader });
    }

    /// Returns true if records must be noted.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Acquire)
    }

    /// Notes a record that a commit adds. Only the applying thread calls this, before the record's seqno is visible.
    #[cold]
    pub(crate) fn note(&self, order: &Order, record: &Record<'_>) {
        let mut state = lock(&self.state);
        state.noted_from.get_or_insert(record.seqno);
        state.unused += 1;
        if state.unused > IDLE {
            self.is_armed.store(false, Ordering::Release);
            *state = RunState { next_walk: state.next_walk, ..RunState::default() };
            return;
        }
        if matches!(record.kind, Kind::Delete | Kind::RangeDelete) {
            return;
        }
        state.newest_put = state.newest_put.max(record.seqno);
        for run in &mut state.runs {
            if cuts(order, record.key, &run.start, run.end.as_deref()) {
                run.end = Some(record.key.to_vec());
            }
        }
        for walk in &mut state.walks {
            if cuts(order, record.key, &walk.start, walk.cut.as_deref()) {
                walk.cut = Some(record.key.to_vec());
            }
        }
    }

    /// Forgets all runs and walks, before and after the family's view changes. Readers from the next noted record on may
    /// begin new ones: its seqno is above that of the records that come with the view.
    pub(crate) fn clear(&self) {
        if self.is_armed() {
            let mut state = lock(&self.state);
            state.noted_from = None;
            state.runs.clear();
            state.walks.clear();
        }
    }
}

impl RunState {
    fn run_at(&self, order: &Order, key: &[u8], reader: RunReader) -> Option<&DeletedRun> {
        self.runs.iter().find(|run| {
            let is_before_end = run.end.as_ref().is_none_or(|end| order.compare(key, end).is_lt());
            run.found_by.view == reader.view
                && run.found_by.seqno <= reader.seqno
                && is_before_end
                && order.compare(&run.start, key).is_le()
        })
    }
}

/// Returns true if a key lies between a start (included) and an end (excluded; `None`: no end).
fn cuts(order: &Order, key: &[u8], start: &[u8], end: Option<&[u8]>) -> bool {
    order.compare(start, key).is_le() && end.is_none_or(|end| order.compare(key, end).is_lt())
}

fn add<T>(list: &mut Vec<T>, item: T) {
    if list.len() == MOST {
        list.remove(0);
    }
    list.push(item);
}
