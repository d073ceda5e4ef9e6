//! The log: all commits, in one chained stream of frames. docs/format.md, section 5.
//!
//! ```text
//! order    short mutex: seqno, place and link of a frame                          order.rs
//! copy     each thread its own frame, into the ring or (plain mode, large) the segment   append.rs
//! take     frames that are whole, with all before them, in order: the db applies them    append.rs
//! alone    fast path: the three in one step, if no frame waits to be taken         append.rs
//! drain    ring -> segment, whole pages                                           drain.rs
//! gather   waits briefly so that concurrent syncs share one group                  gather.rs
//! sync     one leader a group: pad, drain, fdatasync, witness                     sync.rs
//! prepare  makes the next segment ahead of its use; recycles retired segments      prepare.rs
//! reserve  blocks of the ring and of the first segment, ahead of the log          reserve.rs, blocks.rs
//! trim     shrinks an idle log to one short segment, and removes spare segments
//!          when the disk is full                                                  trim.rs
//! recover  segments and ring -> bodies of batches, in order; where the log ends   recover.rs, scan.rs
//! ```
//!
//! Before: the manifest names the first segment and the ring. After: I01 (a commit is whole only if all commits before
//!         it are), I15 (older segments are synced first). The log knows no families and no memtables: each batch
//!         carries an opaque payload `T` through the queue.
//!
//! Failures (I09): a failed write or sync of the log halts it. Waiting threads get the error, every later write gets
//! `Halted`, and nothing more is acknowledged, synced, marked or sealed. A failure *before* a frame is ordered (no
//! space for the next segment) fails that commit alone.
//!
//! Waiting: a thread that needs room or a segment drains or prepares itself unless another thread is doing so. So the
//! log works without background threads (`work::Mode::Stepped`); they only make it faster.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::env::Env;
use crate::env::work::{Bell, Signal, lock};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::identity::StoreIdentity;
use crate::options::Settings;
use crate::record::Seqno;

mod append;
mod beside;
mod blocks;
mod drain;
mod find;
mod frame_ends;
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod order;
mod prepare;
mod recover;
mod reserve;
mod ring;
mod scan;
#[cfg(test)]
mod scripts;
mod segment;
mod source;
mod sync;
mod trim;

pub use append::{Then, Ticket, Under, Whole};
pub use beside::{Beside, Until, read_marks, recover_beside};
pub use find::{Headless, Segments, find, read_linked};
pub use prepare::Retirable;
pub use recover::{Cut, Facts, Gap, LogEnd, Replayed, Stop, Tolerates, Visit, recover, recover_behind_gaps, set_aside};
pub use ring::Marks;
pub use segment::Place;

use blocks::first_bytes;
use drain::AHEAD;
use order::Order;
use prepare::Retired;
use ring::Ring;
use segment::{Maker, PAGE, Refusal};
use sync::Group;

/// Maximum number of frames that are ordered and not taken: more threads than this cannot commit at once without
/// waiting.
const DEPTH: usize = 4096;

/// Start of recovery, as the manifest names it. docs/format.md, section 6, tag 12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStart {
    /// The first segment; `link` is its nonce.
    pub place: Place,
    /// Number of the ring's file.
    pub ring: u64,
    /// The ring's nonce.
    pub ring_nonce: u64,
}

/// Bytes of a segment that are zero-filled before use if it follows a short segment: few, so that resuming writes is
/// cheap. If commits are synced, the log leaves it early for a fully zero-filled segment, as soon as one is ready.
fn written_first(segment_bytes: u64) -> u64 {
    (segment_bytes / 16 / PAGE * PAGE).max(4 * PAGE).min(segment_bytes)
}

/// Size of the drain buffer: the whole pages of one run, and the zeros after them.
fn staging_bytes(settings: &Settings) -> usize {
    settings.drain_bytes.next_multiple_of(PAGE as usize).max(PAGE as usize) + AHEAD as usize
}

/// Returns the number of the next file.
pub type Numbers = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Counters of one log.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names are the sentences")]
pub struct Metrics {
    pub waits_for_room: AtomicU64,
    pub waits_for_segment: AtomicU64,
    pub waits_for_queue: AtomicU64,
    pub longest_wait_nanos: AtomicU64,
    pub drains: AtomicU64,
    pub drained_bytes: AtomicU64,
    pub groups: AtomicU64,
    pub syncs: AtomicU64,
    pub turnovers: AtomicU64,
    pub segments_made: AtomicU64,
    pub segments_recycled: AtomicU64,
    pub zeroed_bytes: AtomicU64,
    pub zeroed_ahead_bytes: AtomicU64,
    pub frames: AtomicU64,
    pub frame_bytes: AtomicU64,
    pub large_frames: AtomicU64,
    pub filler_bytes: AtomicU64,
}

/// The log of one open store. All methods may be called from any thread.
pub struct Wal<T> {
    env: Env,
    dir: PathBuf,
    numbers: Numbers,
    maker: Maker,
    limits: Limits,
    ring: Ring,
    /// The frame order and the queue. Never held during I/O.
    order: Signal<Order<T>>,
    /// Held while blocks are reserved.
    reserving: Mutex<()>,
    /// Slot `sequence % DEPTH` holds `sequence + 1` once that frame is copied.
    slots: Box<[AtomicU64]>,
    /// Offsets up to which frames are whole and drained, readable without the lock.
    whole: AtomicU64,
    drained: AtomicU64,
    /// Drain buffer: pages on their way from ring to segment. Held by the draining thread.
    staging: Mutex<Vec<u8>>,
    /// End of the zeros written ahead of the log, or in flight. Changes under the order lock.
    ahead: AtomicU64,
    /// The last witness stored.
    witness: AtomicU64,
    /// The greatest acknowledged mark stored.
    acknowledged: AtomicU64,
    rules: Alone,
    /// Time of the last batch that has one. Changes only under the order lock.
    last_time: Arc<AtomicU64>,
    group: Mutex<Group>,
    /// Wake-up channels of the current group and of the next one, alternating.
    bells: [Bell; 2],
    /// Held while a segment is prepared.
    retired: Mutex<Retired>,
    /// Set once a thread has waited for a durable commit. Without syncs, zero-filling would write the whole log twice
    /// and save nothing.
    expects_syncs: AtomicBool,
    /// Bytes written of the segment file under creation.
    made: AtomicU64,
    /// Number of segments to keep ready if commits are not synced.
    ready_wanted: AtomicUsize,
    /// Number of threads that waited beside the leader when the last group was synced.
    crowd: AtomicUsize,
    /// Set by the last check if work on the next segment is due.
    wanted: AtomicBool,
    /// Syncs the files that frames point to, before those frames count as durable.
    syncs_first: OnceLock<SyncsFirst>,
    failed: OnceLock<Error>,
    metrics: Metrics,
}

/// Syncs everything written outside the log before the call.
pub type SyncsFirst = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A word that every writer reads and that changes rarely, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

/// Sizes that decide whether a frame goes to the ring, and to which segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Length of an ordinary segment's file.
    pub segment_bytes: u64,
    /// Bytes of the ring; 0 in plain mode.
    pub ring_bytes: u64,
    /// A drain is due at this many bytes.
    pub drain_bytes: u64,
    /// A batch up to this length is short for any segment and ring.
    pub easy_bytes: u64,
}

impl Limits {
    /// File length of the segment of an idle log: 1/8 of the usual length. When writes resume, the next segment is
    /// ready before this one is full.
    pub(super) fn short_bytes(&self) -> u64 {
        (self.segment_bytes / 8 / PAGE * PAGE).max(4 * PAGE)
    }
}

impl<T> std::fmt::Debug for Wal<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wal").field("dir", &self.dir).field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl<T> Wal<T> {
    /// Creates a log that begins at `start` (a multiple of 4096 above every offset used before) with `seqno`: one
    /// segment and a ring, durable with their directory entries. No frame may be ordered before the manifest names them
    /// durably.
    pub fn create(
        env: &Env,
        (dir, store): (&Path, &StoreIdentity),
        settings: &Settings,
        start: u64,
        seqno: Seqno,
        numbers: Numbers,
    ) -> Result<(Wal<T>, LogStart)> {
        debug_assert!(start.is_multiple_of(PAGE));
        let maker = Maker {
            store: store.clone(),
            machine: env.fs.machine(dir).during(|| "ask for the device of the store")?,
            reserves: env.fs.reserves_blocks(dir).during(|| "ask for the file system of the store")?,
        };
        let capacity = if settings.wal_mapped && maker.reserves { settings.ring_bytes as u64 } else { 0 };
        let ring = Ring::create(env, (dir, store), maker.machine, numbers(), start, capacity)?;
        let segment_bytes = settings.log_segment_bytes();
        let blocks = first_bytes(segment_bytes);
        let first =
            maker.sparse(env, dir, (numbers(), start, segment_bytes), blocks, true).map_err(Refusal::into_error)?;
        let first = Arc::new(first);
        let place = first.start();
        let limits = Limits {
            segment_bytes,
            ring_bytes: ring.capacity,
            drain_bytes: settings.drain_bytes as u64,
            easy_bytes: segment_bytes.min(ring.capacity) / 8,
        };
        let log_start = LogStart { place, ring: ring.number, ring_nonce: ring.nonce };
        let wal = Wal {
            env: env.clone(),
            dir: dir.to_owned(),
            numbers,
            maker,
            limits,
            order: Signal::new(Order::new(first, seqno, &limits)),
            reserving: Mutex::default(),
            slots: (0..DEPTH).map(|_| AtomicU64::new(0)).collect(),
            whole: AtomicU64::new(start),
            drained: AtomicU64::new(start),
            staging: Mutex::new(vec![0; if capacity > 0 { staging_bytes(settings) } else { 0 }]),
            ahead: AtomicU64::new(0),
            witness: AtomicU64::new(start),
            acknowledged: AtomicU64::new(start),
            rules: Alone::default(),
            last_time: Arc::default(),
            group: Mutex::new(Group::new(place)),
            bells: [const { Bell::new() }; 2],
            retired: Mutex::new(Retired::default()),
            expects_syncs: AtomicBool::new(false),
            made: AtomicU64::new(0),
            ready_wanted: AtomicUsize::new(prepare::LEAST_READY),
            crowd: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
            syncs_first: OnceLock::new(),
            failed: OnceLock::new(),
            metrics: Metrics::default(),
            ring,
        };
        wal.reserve_up_to(start + blocks, start + blocks)?;
        Ok((wal, log_start))
    }

    /// Registers a sync of files outside the log that frames point to: later groups count as durable only after that
    /// sync. Called once, before the first such frame is ordered. Data is written before the frame that points to it is
    /// ordered.
    pub fn syncs_first(&self, first: SyncsFirst) {
        let _ = self.syncs_first.set(first);
    }

    /// Returns the counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// True if frames go through a mapped ring.
    pub fn is_mapped(&self) -> bool {
        self.limits.ring_bytes > 0
    }

    /// Returns the number and nonce of the ring.
    pub fn ring(&self) -> (u64, u64) {
        (self.ring.number, self.ring.nonce)
    }

    /// Returns the epoch word under which batches are ordered. Its upper half counts the changes that this store makes
    /// itself; its lower half belongs to the caller. It changes only under the order lock.
    #[inline]
    pub fn rules(&self) -> u64 {
        self.rules.0.load(Ordering::Acquire)
    }

    /// Replaces the lower half of the epoch word.
    pub fn set_rules(&self, low: u32) {
        let mut order = self.order.lock();
        self.turn_rules(&mut order, Then::Low(low));
    }

    /// Increments the upper half of the epoch word: batches made under the old one are rejected for retry.
    pub fn renew_rules(&self) {
        let mut order = self.order.lock();
        self.turn_rules(&mut order, Then::NextHigh);
    }

    /// Returns the time of the last batch that has one (`Under::time`); 0 if none had.
    pub fn last_time(&self) -> &Arc<AtomicU64> {
        &self.last_time
    }

    /// Returns the published offset up to which all frames are whole.
    pub fn whole_up_to(&self) -> u64 {
        self.whole.load(Ordering::Acquire)
    }

    /// Returns the failure that halted the log, in the form in which later writes report it.
    pub fn failed(&self) -> Option<Error> {
        self.failed
            .get()
            .map(|cause| Error::of(ErrorKind::Halted, format!("the store failed earlier, reopen it to write: {cause}")))
    }

    /// Halts the log because of a failure outside it, such as a failed manifest sync (I09). The first cause is kept.
    /// Returns the error for the caller: the cause, or `Halted` if the cause is a full device, since an out-of-space
    /// error promises that nothing was changed and that a retry may succeed.
    pub fn halt(&self, cause: Error) -> Error {
        let _ = self.failed.set(cause.clone());
        // Notify under the locks, so that no thread goes to sleep on the old state.
        drop(self.order.lock());
        self.order.notify_all();
        drop(lock(&self.group));
        self.bells.iter().for_each(Bell::wake_all);
        if cause.is_out_of_space() { self.failed().unwrap_or(cause) } else { cause }
    }

    #[inline]
    fn check(&self) -> Result<()> {
        if self.failed.get().is_none() { Ok(()) } else { self.failed().map_or(Ok(()), Err) }
    }
}
