//! The log: what was committed, in one chained stream of frames. docs/format.md, section 5.
//!
//! ```text
//! order    short mutex: seqno, place and link of a frame                          order.rs
//! copy     each thread its own frame, into the ring or (plain mode, large) the segment   append.rs
//! take     frames that are whole, with all before them, in order: the db applies them    append.rs
//! alone    the three at once, where nothing waits to be taken                     append.rs
//! drain    ring -> segment, whole pages                                           drain.rs
//! gather   those who come back at once come into the same group                   gather.rs
//! sync     one leader a group: pad, drain, fdatasync, witness                     sync.rs
//! prepare  the next segment, ready before it is needed; retired ones used again   prepare.rs
//! reserve  blocks of the ring and of the first segment, ahead of the log          reserve.rs, blocks.rs
//! trim     a short segment, and nothing kept beside it, where nobody writes;
//!          nothing beside the next one where the disk is full                 trim.rs
//! recover  segments and ring -> bodies of batches, in order; where the log ends   recover.rs, scan.rs
//! ```
//!
//! Before: the manifest names the first segment and the ring. After: I01 (a commit is whole only with all before it), I15
//! (older segments are synced first). It knows no families and no memtables: a payload `T` rides through the queue.
//!
//! Failures (I09): a write or sync of the log that failed halts it. Whoever waits gets the error, every later write `Halted`;
//! nothing more is acknowledged, synced, marked or sealed. What fails *before* a frame is ordered (no space for the next
//! segment) fails that commit alone.
//!
//! Waiting: a thread that needs room or a segment drains or prepares itself unless another is at it. So the log is alive
//! without background threads (`work::Mode::Stepped`), and only faster with them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::env::Env;
use crate::env::work::{Bell, Signal, lock};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::options::Settings;
use crate::record::Seqno;

mod append;
mod beside;
mod blocks;
mod drain;
mod find;
mod frame_ends;
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
pub use recover::{Cut, Facts, LogEnd, Replayed, Stop, Tolerates, Visit, recover, set_aside};
pub use ring::Marks;
pub use segment::Place;

use blocks::first_bytes;
use drain::AHEAD;
use order::Order;
use prepare::Retired;
use ring::Ring;
use segment::{Maker, PAGE, Refusal};
use sync::Group;

/// Frames that may be ordered and not taken yet: more threads than this commit at once only by waiting.
const DEPTH: usize = 4096;

/// Where recovery begins: what the manifest names. docs/format.md, section 6, tag 12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStart {
    /// The first segment; `link` is its nonce.
    pub place: Place,
    /// Number of the ring's file.
    pub ring: u64,
    /// The ring's nonce.
    pub ring_nonce: u64,
}

/// How much of a segment behind a short one is written before it is used: little, so that writing on costs little. Where commits are synced the
/// log goes on behind it in a segment that is written all over, as soon as there is one.
fn written_first(segment_bytes: u64) -> u64 {
    (segment_bytes / 16 / PAGE * PAGE).max(4 * PAGE).min(segment_bytes)
}

/// Whole pages that are due, and the zeros behind them.
fn staging_bytes(settings: &Settings) -> usize {
    settings.drain_bytes.next_multiple_of(PAGE as usize).max(PAGE as usize) + AHEAD as usize
}

/// Gives the number of the next file.
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
    /// Places and the queue; held for no I/O.
    order: Signal<Order<T>>,
    /// Held while blocks are reserved.
    reserving: Mutex<()>,
    /// Slot `sequence % DEPTH` holds `sequence + 1` once that frame is copied.
    slots: Box<[AtomicU64]>,
    /// How far frames are whole and drained, for a look without the lock.
    whole: AtomicU64,
    drained: AtomicU64,
    /// Pages on their way from ring to segment; held by the one that drains.
    staging: Mutex<Vec<u8>>,
    /// Up to here zeros went out ahead of the log, or are on their way; changes under the order lock.
    ahead: AtomicU64,
    /// The witness stored last.
    witness: AtomicU64,
    /// The greatest acknowledged mark stored.
    acknowledged: AtomicU64,
    rules: Alone,
    /// The time of the last batch that says one. It changes under the order lock only.
    last_time: Arc<AtomicU64>,
    group: Mutex<Group>,
    /// Those who wait for the group under way, and for the one after it, in turn.
    bells: [Bell; 2],
    /// Held while a segment is prepared.
    retired: Mutex<Retired>,
    /// Somebody has waited for a commit to be durable. Where nobody does, zeros are a second writing of the whole log, and save nothing.
    expects_syncs: AtomicBool,
    /// How much of the file that is in the making is written.
    made: AtomicU64,
    /// How many next segments are wanted where nobody waits for syncs.
    ready_wanted: AtomicUsize,
    /// How many waited beside the leader when the last group was synced.
    crowd: AtomicUsize,
    /// Whoever synced last saw that the next segment is to be gone on with.
    wanted: AtomicBool,
    /// Makes durable what frames point to, before they are said to be.
    syncs_first: OnceLock<SyncsFirst>,
    failed: OnceLock<Error>,
    metrics: Metrics,
}

/// Makes durable what was written beside the log before the call.
pub type SyncsFirst = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A word that every writer reads and hardly anybody writes, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

/// Sizes that decide where a frame goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Length of an ordinary segment's file.
    pub segment_bytes: u64,
    /// Bytes of the ring; 0 in plain mode.
    pub ring_bytes: u64,
    /// The ring is to be drained at this many bytes.
    pub drain_bytes: u64,
    /// A batch up to this long is a short one, whatever segment and ring are.
    pub easy_bytes: u64,
}

impl Limits {
    /// Length of the segment that an idle log stands in: an eighth of the usual one, which whoever begins to write does not use up before the
    /// next is there.
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
    /// A fresh log that begins at `start` (a multiple of 4096 above every offset used before) with `seqno`: one segment and
    /// a ring, durable with their directory entries. Nothing may be ordered before the manifest names them durably.
    pub fn create(
        env: &Env,
        dir: &Path,
        settings: &Settings,
        start: u64,
        seqno: Seqno,
        numbers: Numbers,
    ) -> Result<(Wal<T>, LogStart)> {
        debug_assert!(start.is_multiple_of(PAGE));
        let maker = Maker {
            machine: env.fs.machine(dir).during(|| "ask for the device of the store")?,
            reserves: env.fs.reserves_blocks(dir).during(|| "ask for the file system of the store")?,
        };
        let capacity = if settings.wal_mapped && maker.reserves { settings.ring_bytes as u64 } else { 0 };
        let ring = Ring::create(env, dir, maker.machine, numbers(), start, capacity)?;
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

    /// Frames will point to what stands beside the log: from now on each group is durable only when that is. Said once, before the first such
    /// frame is ordered; what a frame points to is written before it is.
    pub fn syncs_first(&self, first: SyncsFirst) {
        let _ = self.syncs_first.set(first);
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// True if frames go through a mapped ring.
    pub fn is_mapped(&self) -> bool {
        self.limits.ring_bytes > 0
    }

    /// Number and nonce of the ring.
    pub fn ring(&self) -> (u64, u64) {
        (self.ring.number, self.ring.nonce)
    }

    /// The word of rules under which batches are ordered: its upper half counts what this store's own keeper of the log says, its
    /// lower half is the caller's. It changes under the order lock only.
    #[inline]
    pub fn rules(&self) -> u64 {
        self.rules.0.load(Ordering::Acquire)
    }

    /// From now on the lower half of the word is this.
    pub fn set_rules(&self, low: u32) {
        let mut order = self.order.lock();
        self.turn_rules(&mut order, Then::Low(low));
    }

    /// The upper half of the word is another from now on: what was made under it so far is handed back.
    pub fn renew_rules(&self) {
        let mut order = self.order.lock();
        self.turn_rules(&mut order, Then::NextHigh);
    }

    /// Shows the time of the last batch that says one (`Under::time`); 0: none did.
    pub fn last_time(&self) -> &Arc<AtomicU64> {
        &self.last_time
    }

    /// Offset up to which frames were seen to be whole.
    pub fn whole_up_to(&self) -> u64 {
        self.whole.load(Ordering::Acquire)
    }

    /// The failure that halted the log, as every later write reports it.
    pub fn failed(&self) -> Option<Error> {
        self.failed
            .get()
            .map(|cause| Error::of(ErrorKind::Halted, format!("the store failed earlier, reopen it to write: {cause}")))
    }

    /// Halts the log from outside: the manifest's sync failed, say (I09). The first cause stays. Answers what the caller is to hear: the cause, but that a
    /// device is full only where nothing has happened, so that it may be tried again.
    pub fn halt(&self, cause: Error) -> Error {
        let _ = self.failed.set(cause.clone());
        // Under their locks, so that nobody goes to sleep on the old state.
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
