//! Prepares the next segment and recycles retired ones.
//!
//! `prepare` keeps one empty segment ready, durable and named in the directory, so that a turnover costs no I/O. Its
//! first logical offset is the end of the current segment's file, however much of that file is used. If no thread waits
//! for syncs, no zeros are written, and further segments are made in advance: as many as the log fills in half a
//! second, so a fast log does not wait for a busy disk.
//!
//! A new segment is made in pieces, because writing its zeros takes disk time from syncs. With few syncing threads,
//! syncing blocks that were written before halves the cost of each commit, so the next segment is made as fast as
//! possible. With many threads sharing each sync, the journal's share is small and the disk is the bottleneck. Then the
//! segment is made no faster than the current one fills, so that it is ready just in time. `Way::due` decides.
//!
//! A segment is retired in two steps: `retirable` returns the segments that are not needed below an offset, and
//! `recycle` releases them only after the manifest has durably dropped them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::env::work::lock;
use crate::error::Result;
use crate::planted::{self, Bug};

use super::order::Order;
use super::segment::{Made, Making, PAGE, Refusal, Segment, ZERO_BYTES};
use super::{LogStart, Wal, written_first};

/// Maximum number of retired segments kept for reuse.
const POOL: usize = 3;

/// Minimum and maximum number of next segments of a log in continuous use.
pub(super) const LEAST_READY: usize = 2;
pub(super) const MOST_READY: usize = 8;

/// How long the next segments should last, which is how long a sync may take on a busy disk; and how often the log's
/// pace is measured.
const LASTING_NANOS: u64 = 500_000_000;
const LOOK_NANOS: u64 = 100_000_000;

/// Number of waiting threads beside a group's leader from which on they count as a crowd.
const CROWD: usize = 4;

/// Sources of the next segment.
#[derive(Debug, Default)]
pub(super) struct Retired {
    /// Segments that are retired and not yet reused.
    segments: Vec<Arc<Segment>>,
    /// A new segment under construction.
    pub(super) making: Option<Making>,
    /// First offset of the segment during which the disk had no room for a segment ahead.
    pub(super) no_room_at: Option<u64>,
    /// Time of the last pace measurement, and the number of turnovers until then.
    pace: (u64, u64),
}

/// Returns how many next segments a log wants after `turnovers` turnovers in `nanos` nanoseconds.
fn ready_wanted(turnovers: u64, nanos: u64) -> usize {
    let lasting = u128::from(turnovers) * u128::from(LASTING_NANOS) / u128::from(nanos.max(1));
    (lasting.min(MOST_READY as u128) as usize).max(LEAST_READY)
}

/// Progress of the log through its current segment, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub used: u64,
    /// End of the part that is preferred while a next segment exists (`Segment::good_until`).
    pub good: u64,
    /// End of the usable part.
    pub room: u64,
}

impl Way {
    /// Returns how many bytes of a next segment of `length` bytes should be written by now, given the number of threads
    /// that waited beside the last group's leader. Without a crowd: all of them, once half of the preferred part is
    /// used. With a crowd the share grows with the used part of the segment, from none at 1/8 to all at 7/8.
    pub(super) fn due(&self, length: u64, crowd: usize) -> u64 {
        if crowd < CROWD {
            return if self.used >= self.good / 2 { length } else { 0 };
        }
        let (from, over) = (self.room / 8, (self.room / 4 * 3).max(1));
        let share = u128::from(self.used.saturating_sub(from).min(over)) * u128::from(length) / u128::from(over);
        share as u64
    }
}

/// The segments that are no longer needed, and the log's start without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retirable {
    /// Numbers of the segments, oldest first.
    pub segments: Vec<u64>,
    /// The log's start once they are gone.
    pub start: LogStart,
}

impl<T> Wal<T> {
    /// True if work on the next segment is due. A store with few writes keeps one segment.
    pub fn prepare_due(&self) -> bool {
        self.is_wanted(&self.order.lock(), LEAST_READY)
    }

    /// True if work on the segments after the next one is due.
    pub fn prepare_more_due(&self) -> bool {
        self.is_wanted(&self.order.lock(), MOST_READY)
    }

    /// True if work on one more next segment is due, given that `enough` suffice.
    fn is_wanted(&self, order: &Order<T>, enough: usize) -> bool {
        let is_of_no_use = order.is_next_unwritten(self.limits) && self.expects_syncs.load(Ordering::Relaxed);
        let more = || order.wants_more(self.ready_wanted().min(enough), self.limits);
        is_of_no_use || order.way().map_or_else(more, |way| self.is_due(&way))
    }

    /// Returns whether the last check found work due, and resets the flag. In most calls this is one atomic load.
    #[inline]
    pub fn prepare_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Publishes whether work on the next segment is due, for readers without the lock.
    pub(super) fn note_wanted(&self, order: &Order<T>) {
        self.wanted.store(self.is_wanted(order, LEAST_READY), Ordering::Relaxed);
    }

    /// Runs the check whenever the log passes a multiple of 1/16 of a segment. `from` is the previous end of the log.
    /// Without drains and syncs no other code triggers the check.
    pub(super) fn note_way(&self, order: &Order<T>, from: u64) {
        let step = self.limits.segment_bytes / 16;
        if from / step != order.end / step {
            self.note_wanted(order);
        }
    }

    fn is_due(&self, way: &Way) -> bool {
        let length = self.limits.segment_bytes;
        if way.room + PAGE < length {
            return way.used >= way.room / 8; // the rest of a short segment lasts until the next one is ready
        }
        let (made, crowd) = (self.made.load(Ordering::Relaxed), self.crowd.load(Ordering::Relaxed));
        way.due(length, crowd) >= length.min(made + ZERO_BYTES as u64)
    }

    /// Returns how many next segments are wanted. If zeros are written, making one already takes enough disk time;
    /// further ones are not begun before their turn.
    fn ready_wanted(&self) -> usize {
        if self.expects_syncs.load(Ordering::Relaxed) { 1 } else { self.ready_wanted.load(Ordering::Relaxed) }
    }

    /// Measures how fast the log grows.
    fn look_at_pace(&self, retired: &mut Retired) {
        let (now, turnovers) = (self.env.clock.monotonic_nanos(), self.metrics.turnovers.load(Ordering::Relaxed));
        let (since, before) = retired.pace;
        if now.saturating_sub(since) >= LOOK_NANOS {
            self.ready_wanted.store(ready_wanted(turnovers - before, now - since), Ordering::Relaxed);
            retired.pace = (now, turnovers);
        }
    }

    /// Continues work on the next segment: writes one piece of a new file, finishes it, or begins the segment after it.
    /// Returns true if it did any work. A failure leaves the log unchanged, except that a failed sync halts it.
    pub fn prepare_some(&self) -> Result<bool> {
        let mut retired = lock(&self.retired);
        self.check()?;
        self.look_at_pace(&mut retired);
        self.drop_unwritten();
        let order = self.order.lock();
        let (is_there, wants_more) = (!order.next.is_empty(), order.wants_more(self.ready_wanted(), self.limits));
        let (at, first) = (order.current.first, order.next_first());
        drop(order);
        if is_there {
            if !wants_more || retired.no_room_at == Some(at) {
                return Ok(false);
            }
            let made = self.make(&mut retired, first, self.limits.segment_bytes);
            return match self.unless_halted(made) {
                // The segment is not needed yet: other work that needs room continues.
                Err(error) if error.is_out_of_space() && self.failed.get().is_none() => {
                    retired.no_room_at = Some(at);
                    Ok(false)
                }
                made => made.map(|next| {
                    self.order.lock().add_next(next);
                    true
                }),
            };
        }
        let length = self.limits.segment_bytes;
        if self.fitting(&retired, length).is_none() {
            let making = match retired.making.take() {
                Some(making) => making,
                None => self.maker.begin(&self.env, &self.dir, (self.numbers)(), length)?,
            };
            if self.maker.has_to_fill(&making) && self.expects_syncs.load(Ordering::Relaxed) && !self.is_short() {
                self.note_making(&retired);
                let (making, bytes) = self.unless_halted(self.maker.fill_some(&self.env, &self.dir, making))?;
                self.metrics.zeroed_bytes.fetch_add(bytes, Ordering::Relaxed);
                let is_whole = making.filled == length;
                retired.making = Some(making);
                self.note_making(&retired);
                if !is_whole {
                    return Ok(true);
                }
            } else {
                retired.making = Some(making);
            }
        }
        drop(retired);
        self.prepare()
    }

    /// Returns the result of making a segment; a failed sync halts the log.
    pub(super) fn unless_halted<A>(&self, made: Made<A>) -> Result<A> {
        made.map_err(|refusal| match refusal {
            Refusal::Plain(error) => error,
            Refusal::Sync(error) => self.halt(error),
        })
    }

    /// Discards next segments that were made before any thread waited for syncs: their blocks were never written, which
    /// makes syncs slow.
    fn drop_unwritten(&self) {
        if !self.expects_syncs.load(Ordering::Relaxed) {
            return;
        }
        let mut order = self.order.lock();
        let unwritten = if order.is_next_unwritten(self.limits) { order.take_next(0) } else { Vec::new() };
        drop(order);
        unwritten.iter().for_each(|segment| self.remove(segment.number));
    }

    /// Makes the whole next segment ready. Returns true if it was not ready before.
    pub fn prepare(&self) -> Result<bool> {
        self.prepare_at_least(self.limits.segment_bytes)
    }

    /// Makes the next segment ready, with a file at least `length` bytes long. A failure leaves the log unchanged,
    /// except that a failed sync halts it.
    pub(super) fn prepare_at_least(&self, length: u64) -> Result<bool> {
        let mut retired = lock(&self.retired);
        self.check()?;
        let (short, first) = {
            let mut order = self.order.lock();
            if order.next.front().is_some_and(|next| next.length() >= length) {
                return Ok(false);
            }
            // The segments after an extended one would have to begin at other offsets.
            let keeps = if planted::active(Bug::BehindLongerKept) { MOST_READY } else { 1 };
            retired.segments.extend(order.take_next(keeps));
            (order.next.pop_front(), order.current.limit())
        };
        let made = match &short {
            Some(next) => {
                self.shed(&mut retired, 0); // the extension may need their disk space
                self.maker.extend(&self.env, next, length).map(|()| next.clone())
            }
            None => self.make(&mut retired, first, length),
        };
        let (next, outcome) = match made {
            Ok(next) => (Some(next), Ok(true)),
            Err(Refusal::Plain(error)) => (short.clone(), Err(error)),
            Err(Refusal::Sync(error)) => return Err(self.halt(error)),
        };
        let mut order = self.order.lock();
        if let Some(next) = next {
            if short.is_none() {
                order.live.push_back(next.clone());
            }
            order.next.push_front(next);
            order.easy_until = 0;
        }
        if order.waiting > 0 {
            self.order.notify_all();
        }
        outcome
    }

    fn make(&self, retired: &mut Retired, first: u64, length: u64) -> Made<Arc<Segment>> {
        let length = length.max(self.limits.segment_bytes);
        self.shed(retired, POOL);
        let making = match self.fitting(retired, length) {
            Some(at) => self.reuse(retired, at)?,
            None => match retired.making.take() {
                Some(making) => making,
                None => self.maker.begin(&self.env, &self.dir, (self.numbers)(), length)?,
            },
        };
        self.note_making(retired);
        if !making.is_used_again {
            self.metrics.segments_made.fetch_add(1, Ordering::Relaxed);
        }
        // A segment made for one large frame is rarely reused.
        let is_filled = length == self.limits.segment_bytes && self.expects_syncs.load(Ordering::Relaxed);
        let filled = match is_filled {
            true if self.is_short() => written_first(length),
            true => length,
            false => 0,
        };
        if self.maker.has_to_fill(&making) {
            let zeros = filled.saturating_sub(making.filled);
            self.metrics.zeroed_bytes.fetch_add(zeros, Ordering::Relaxed);
        }
        self.maker.finish(&self.env, &self.dir, making, first, length, filled).map(Arc::new)
    }

    /// Takes a retired segment for reuse.
    fn reuse(&self, retired: &mut Retired, at: usize) -> Result<Making> {
        let old = retired.segments.swap_remove(at);
        self.metrics.segments_recycled.fetch_add(1, Ordering::Relaxed);
        self.maker.reuse(&self.env, &self.dir, &old, (self.numbers)())
    }

    /// Publishes how much of the file under construction is written.
    pub(super) fn note_making(&self, retired: &Retired) {
        let made = retired.making.as_ref().map_or(0, |making| making.filled);
        self.made.store(made, Ordering::Relaxed);
    }

    /// Returns the index of a retired segment of this length.
    fn fitting(&self, retired: &Retired, length: u64) -> Option<usize> {
        retired.segments.iter().position(|segment| segment.length() == length)
    }

    /// Removes retired segments except up to `most` of the standard length. Returns the number removed.
    pub(super) fn shed(&self, retired: &mut Retired, most: usize) -> usize {
        let (mut kept, before) = (0, retired.segments.len());
        retired.segments.retain(|segment| {
            let keep = segment.length() == self.limits.segment_bytes && kept < most;
            kept += keep as usize;
            if !keep {
                self.remove(segment.number);
            }
            keep
        });
        before - retired.segments.len()
    }

    /// Returns the segments that lie entirely below an offset, and the log's start without them; `None` if there are
    /// none. A segment with bytes that are still only in the ring is left out: draining them after its file was
    /// recycled would overwrite the new contents.
    pub fn retirable(&self, below: u64) -> Option<Retirable> {
        let mut order = self.order.lock();
        self.look(&mut order);
        let below = if planted::active(Bug::RetiredBeforeDrained) { below } else { below.min(order.drained) };
        let is_over = |segment: &&Arc<Segment>| segment.closed.get().is_some_and(|(end, _)| *end <= below);
        let segments: Vec<u64> = order.live.iter().take_while(is_over).map(|segment| segment.number).collect();
        let place = order.live.get(segments.len())?.start();
        let start = LogStart { place, ring: self.ring.number, ring_nonce: self.ring.nonce };
        (!segments.is_empty()).then_some(Retirable { segments, start })
    }

    /// Returns the end of the oldest segment, if the log has left and drained it: only then can a segment be retired.
    pub fn oldest_end(&self) -> Option<u64> {
        let mut order = self.order.lock();
        self.look(&mut order);
        let (end, _) = *order.live.front()?.closed.get()?;
        (end <= order.drained || planted::active(Bug::RetiredBeforeDrained)).then_some(end)
    }

    /// Releases retired segments. The manifest must have durably dropped them.
    pub fn recycle(&self, numbers: &[u64]) {
        let mut retired = lock(&self.retired);
        let mut order = self.order.lock();
        while let Some(oldest) = order.live.front().filter(|oldest| numbers.contains(&oldest.number)) {
            retired.segments.push(oldest.clone());
            order.live.pop_front();
        }
        drop(order);
        self.shed(&mut retired, POOL);
    }

    /// Returns the live size of the log in bytes: from the oldest segment's start to the end.
    pub fn live_bytes(&self) -> u64 {
        let order = self.order.lock();
        order.live.front().map_or(0, |oldest| order.end - oldest.first)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::batch::Batch;
    use crate::env::SimFs;
    use crate::identity::StoreIdentity;
    use crate::options::{MIB, Settings};
    use crate::record::Kind;
    use crate::seam::Plain;

    #[test]
    fn few_want_the_next_segment_at_once_and_a_crowd_in_time() {
        let way = |used| Way { used, good: 100, room: 1600 };
        let few = [0, 49, 50, 1600].map(|used| way(used).due(4000, CROWD - 1));
        assert_eq!(few, [0, 0, 4000, 4000]);
        let crowd = [0, 200, 500, 800, 1400, 1600].map(|used| way(used).due(4000, CROWD));
        assert_eq!(crowd, [0, 0, 1000, 2000, 4000, 4000]);
        let largest = Way { used: u64::MAX / 2, good: u64::MAX, room: u64::MAX };
        assert!(largest.due(u64::MAX, CROWD) < u64::MAX && Way { room: 0, ..largest }.due(7, CROWD) == 7);
    }

    /// Runs a log with 4 MiB segments on a simulated disk, and the log lane's work after each commit of 3 kB. Commits
    /// from `synced_from` on are synced, each with `crowd` waiting threads.
    fn live(crowd: usize, commits: (u64, u64), look: impl FnMut(&Wal<()>, u64)) {
        live_on(&SimFs::new(1), crowd, commits, look);
    }

    fn live_on(sim: &SimFs, crowd: usize, (commits, synced_from): (u64, u64), mut look: impl FnMut(&Wal<()>, u64)) {
        let dir = Path::new("/log");
        let env = sim.env(1);
        env.fs.create_dir_all(dir).unwrap();
        let settings =
            Settings { segment_bytes: 4 * MIB as u64, ring_bytes: MIB, drain_bytes: MIB / 4, ..Settings::default() };
        let next = AtomicU64::new(1);
        let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
        let (wal, _) = Wal::<()>::create(&env, (dir, &StoreIdentity::default()), &settings, 0, 1, numbers).unwrap();
        let mut batch = Batch::new();
        batch.push(0, Kind::Put, b"key", &[7; 3000], &Plain).unwrap();
        let body = batch.seal();
        let mut group = Vec::new();
        for n in 0..commits {
            let ticket = wal.order(&body, ()).unwrap();
            wal.copy(&ticket, &body).unwrap();
            wal.take_whole(&mut group);
            group.clear();
            wal.acknowledge(ticket.end).unwrap();
            if n >= synced_from {
                wal.sync(ticket.end).unwrap();
                wal.crowd.store(crowd, Ordering::Relaxed); // simulated: the test has one thread
            }
            while wal.drain_due() {
                wal.drain().unwrap();
            }
            wal.sync_full().unwrap();
            if wal.prepare_more_due() {
                assert!(wal.prepare_some().unwrap() || sim.free_space() == Some(0));
            }
            look(&wal, ticket.end);
        }
    }

    #[test]
    fn in_a_crowd_the_next_segment_grows_as_the_present_one_is_used_and_no_commit_waits_for_it() {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (mut before, mut turnovers) = (0, 0);
        live(CROWD, (6000, 0), |wal, used| {
            let metrics = wal.metrics();
            let zeroed = count(&metrics.zeroed_bytes);
            assert!(zeroed - before <= ZERO_BYTES as u64, "more than a piece at a time");
            assert!(zeroed <= used * 4 / 3 + ZERO_BYTES as u64, "{zeroed} bytes for a log of {used}");
            assert_eq!(count(&metrics.waits_for_segment), 0);
            (before, turnovers) = (zeroed, count(&metrics.turnovers));
        });
        assert!(turnovers > 3, "{turnovers}");
    }

    #[test]
    fn where_few_sync_the_next_segment_comes_as_fast_as_its_pieces_do() {
        let mut ready = None;
        live(0, (60, 0), |wal, used| {
            assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
            if ready.is_none() && !wal.order.lock().next.is_empty() {
                ready = Some(used);
            }
        });
        // The first segment has 256 KiB of written blocks, half of which are used when preparation begins; each commit
        // takes a page.
        let pieces = 4 * MIB as u64 / ZERO_BYTES as u64;
        assert!(ready.unwrap() <= 128 * 1024 + (pieces + 2) * PAGE, "{ready:?}");
    }

    #[test]
    fn a_segment_that_was_left_early_is_used_to_its_end_the_next_time() {
        let mut again: Option<(Arc<Segment>, u64)> = None;
        live(0, (2600, 0), |wal, end| {
            let below = wal.synced().offset.min(wal.taken_up_to());
            if let Some(retirable) = wal.retirable(below) {
                wal.recycle(&retirable.segments);
            }
            let ahead = wal.metrics().zeroed_ahead_bytes.load(Ordering::Relaxed);
            let current = wal.order.lock().current.clone();
            if current.is_used_again && again.is_none() {
                again = Some((current.clone(), ahead));
            }
            let Some((segment, before)) = again.as_ref().filter(|(segment, _)| Arc::ptr_eq(segment, &current)) else {
                return;
            };
            // Zeros are written as soon as a page was never written before.
            assert!(end + PAGE > segment.written || ahead == *before, "{end}");
            assert!(end <= segment.written || ahead > *before, "{end}");
        });
        let (segment, _) = again.unwrap();
        let (left_at, _) = *segment.closed.get().unwrap();
        assert!(segment.written < segment.limit() && left_at + PAGE >= segment.limit(), "{left_at} of {segment:?}");
    }

    #[test]
    fn a_log_of_which_nobody_waits_for_the_disk_is_written_once() {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (synced_from, is_zeroed) in [(4000, false), (3900, true)] {
            let (mut made, mut zeroed, mut synced, mut n) = (0, 0, 0, 0);
            live(0, (4000, synced_from), |wal, _| {
                let metrics = wal.metrics();
                n += 1;
                assert!(n > synced_from || count(&metrics.zeroed_bytes) == 0, "after {n} commits");
                assert_eq!(count(&metrics.waits_for_segment), 0);
                (made, zeroed, synced) =
                    (count(&metrics.segments_made), count(&metrics.zeroed_bytes), count(&metrics.syncs));
            });
            // Full segments are synced by the log itself.
            assert!(made >= 3 && synced >= 2 && (zeroed > 0) == is_zeroed, "{made} {synced} {zeroed}");
        }
    }

    /// A writer that resumes after a trim never waits for a segment, and writes no more zeros for the first one than a
    /// new log does.
    #[test]
    fn behind_a_trim_the_next_segment_is_there_before_the_short_one_is_used_up() {
        for (crowd, synced_from) in [(0, 0), (CROWD, 0), (0, u64::MAX)] {
            let (mut n, mut lengths) = (0, Vec::new());
            live(crowd, (6000, synced_from), |wal, _| {
                n += 1;
                let length = wal.order.lock().current.length();
                if lengths.last() != Some(&length) {
                    lengths.push(length);
                }
                if n % 3000 == 0 {
                    let zeroed = wal.metrics().zeroed_bytes.load(Ordering::Relaxed);
                    assert!(wal.turn_short().unwrap() && !wal.turn_short().unwrap());
                    wal.sync_full().unwrap();
                    let below = wal.synced().offset.min(wal.taken_up_to());
                    wal.recycle(&wal.retirable(below).unwrap().segments);
                    wal.give_back();
                    let order = wal.order.lock();
                    assert!(order.live.len() == 1 && order.next.is_empty() && below == order.end);
                    drop(order);
                    assert!(lock(&wal.retired).segments.is_empty());
                    assert_eq!(wal.metrics().zeroed_bytes.load(Ordering::Relaxed), zeroed);
                    assert!(!wal.prepare_due(), "a store that is not written keeps none");
                }
                assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
            });
            let (usual, short) = (4 * MIB as u64, MIB as u64 / 2);
            assert_eq!(lengths, [usual, short, usual, short][..lengths.len()]);
            assert!(lengths.len() >= 3);
        }
    }

    #[test]
    fn a_log_that_nobody_syncs_has_the_segment_behind_the_next_one_in_time() {
        let (mut last, mut turned) = (0, 0);
        live(0, (8000, u64::MAX), |wal, _| {
            let order = wal.order.lock();
            let (first, used) = (order.current.first, order.end - order.current.first);
            let firsts: Vec<u64> = order.next.iter().map(|next| next.first).collect();
            let limit = order.current.limit();
            drop(order);
            if first != last {
                turned += 1; // one was ready, and the lane makes another with each step
                last = first;
            }
            assert!(turned <= 1 || firsts.first() == Some(&limit), "{firsts:?} behind {limit}");
            if turned > 1 && used > wal.limits.segment_bytes / 4 {
                assert_eq!(firsts.get(1), Some(&(limit + wal.limits.segment_bytes - PAGE)));
            }
            assert!(firsts.len() <= LEAST_READY);
        });
        assert!(turned > 3, "{turned}");
    }

    #[test]
    fn as_many_are_ready_as_half_a_second_takes() {
        let wanted = [(0, 1), (1, 0), (2, 1_000_000_000), (20, 2_000_000_000), (9, 500_000_000), (u64::MAX, 1)];
        assert_eq!(wanted.map(|(turns, nanos)| ready_wanted(turns, nanos)), [2, 8, 2, 5, 8, 8]);
        // 1,398 commits fill a segment: microseconds per commit, and the number of ready segments at the end.
        for (micros, ready) in [(20, 8), (90, 4), (1000, 2)] {
            let (sim, mut most) = (SimFs::new(1), 0);
            live_on(&sim, 0, (14_000, u64::MAX), |wal, _| {
                sim.clock().advance_nanos(micros * 1000);
                let order = wal.order.lock();
                most = most.max(order.next.len());
                let entered = order.live.iter().filter(|at| at.first <= order.current.first).count();
                assert_eq!(order.live.len() - order.next.len(), entered);
            });
            assert_eq!(most, ready, "{micros} us a commit");
        }
    }

    /// Segments made while no thread waited for syncs have unwritten blocks: a syncing thread does not turn to them.
    #[test]
    fn a_first_sync_behind_a_fast_fill_turns_to_a_segment_that_was_written_before_and_to_no_other() {
        let (sim, mut before, mut most) = (SimFs::new(1), None, 0);
        live_on(&sim, 0, (14_100, 14_000), |wal, _| {
            sim.clock().advance_nanos(20_000);
            let mut order = wal.order.lock();
            most = most.max(order.next.len());
            if most == MOST_READY && before.is_none() {
                // The first sync, before the lane has run.
                order.want_written(wal.limits);
                assert_eq!(order.situation(wal.limits).turn_at, order.current.limit());
                order.wants_written = false;
            }
            drop(order);
            let turnovers = wal.metrics().turnovers.load(Ordering::Relaxed);
            if wal.expects_syncs.load(Ordering::Relaxed) {
                let before = *before.get_or_insert(turnovers);
                assert!(turnovers <= before + 1, "{turnovers} turnovers, {before} of them before");
            }
            assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
        });
        assert_eq!(most, MOST_READY);
    }

    /// A frame that needs a segment of its own has the next one extended; the segments after it, which would begin
    /// elsewhere, are made again.
    #[test]
    fn what_stands_behind_a_segment_that_grows_is_made_again() {
        let (mut dropped, mut made_again) = (None, false);
        live(0, (8000, u64::MAX), |wal, _| {
            let numbers = || wal.order.lock().next.iter().map(|next| next.number).collect::<Vec<_>>();
            let before = numbers();
            if dropped.is_none() && before.len() == LEAST_READY {
                assert!(wal.prepare_at_least(9 * MIB as u64).unwrap());
                assert_eq!(numbers(), before[..1]);
                assert!(lock(&wal.retired).segments.is_empty());
                dropped = Some(before[1]);
            }
            let order = wal.order.lock();
            made_again |= dropped.is_some() && order.next.len() == LEAST_READY;
            let ends: Vec<(u64, u64)> = order.live.iter().map(|at| (at.first, at.limit())).collect();
            assert!(ends.windows(2).all(|pair| pair[0].1 == pair[1].0), "{ends:?}");
            assert!(order.live.iter().all(|segment| Some(segment.number) != dropped));
        });
        assert!(made_again);
    }

    /// Otherwise the frame that waits for it would have it made again.
    #[test]
    fn a_segment_that_was_made_longer_for_a_frame_is_not_let_go_by_a_first_sync() {
        let mut looked = false;
        live(0, (8000, u64::MAX), |wal, _| {
            let numbers = || wal.order.lock().next.iter().map(|next| next.number).collect::<Vec<_>>();
            if !looked && numbers().len() == 1 {
                looked = wal.prepare_at_least(9 * MIB as u64).unwrap();
                let before = numbers();
                wal.expects_syncs.store(true, Ordering::Relaxed);
                assert!(!wal.prepare_due() && !wal.prepare_some().unwrap());
                assert_eq!(numbers(), before);
                wal.expects_syncs.store(false, Ordering::Relaxed);
            }
        });
        assert!(looked);
    }

    /// A full disk: the file after the next one is not needed yet, so all other work continues, and the attempt is
    /// repeated one segment later.
    #[test]
    fn a_file_ahead_that_finds_no_room_keeps_nobody_from_anything() {
        let sim = SimFs::new(1);
        let (mut tried, mut turnovers, mut segments) = (0, 0, 0);
        live_on(&sim, 0, (6000, u64::MAX), |wal, _| {
            assert!(lock(&wal.retired).making.is_none());
            assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
            turnovers = wal.metrics().turnovers.load(Ordering::Relaxed);
            let order = wal.order.lock();
            tried += u32::from(order.wants_more(LEAST_READY, wal.limits));
            segments = order.live.len();
            // The ring and the first segment are still growing until then.
            let is_grown = order.blocks.until() == u64::MAX;
            sim.set_free_space(order.next.front().filter(|_| is_grown).map(|_| 0));
        });
        assert!(turnovers > 3 && tried > 1000, "{turnovers} {tried}");
        assert_eq!(sim.files("/log").len(), segments + 1, "beside the ring, and no file that nobody needs");
    }

    #[test]
    fn what_is_in_the_making_is_finished_by_whoever_needs_it() {
        live(CROWD, (800, 0), |wal, _| {
            let retired = lock(&wal.retired);
            if retired.making.is_none() {
                return;
            }
            let made = retired.making.as_ref().map(|making| making.number);
            drop(retired);
            assert!(wal.prepare().unwrap() && !wal.prepare().unwrap());
            let next = wal.order.lock().next.front().cloned().unwrap();
            assert_eq!((Some(next.number), next.written), (made, next.limit()));
            assert!(lock(&wal.retired).making.is_none());
        });
    }
}
