//! The queue of threads that wait for a group sync: who leads the next group, and when.
//!
//! In:     the offset that a thread needs durable. Out: the thread returns, or leads the next group. The leader does
//!         the I/O (`sync.rs`) without a lock of this file.
//!
//! Only threads with work to do are woken: the group's members return, and one of the later arrivals leads the next
//! group, or waits with a timeout for the others to come back. So a group is synced immediately, or waits briefly for
//! more commits.
//!
//! Without a wait, threads that sync in a loop return while the next group is already on its way to the disk. They then
//! split into two halves that alternate, which doubles the number of syncs. So the first member of a group waits until
//! the group is as large as the previous one, for at most the duration of a sync, and the last thread to arrive leads.
//! If the threads think between their commits the wait fails; it is then tried ever more rarely. A single writer never
//! waits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::env::work::{Bell, lock};

use super::segment::LogPlace;

/// Upper limit of one wait, however slow the disk is.
const LONGEST: Duration = Duration::from_millis(2);

/// After this many failed waits in a row, the number of groups between two tries stops growing: 64.
const MOST_MISSES: u32 = 6;

/// The queue for a group sync.
#[derive(Debug)]
pub(super) struct GroupQueue {
    state: Mutex<GroupState>,
    /// Wake-up channels of the current group and of the next one, alternating.
    bells: [Bell; 2],
    /// Number of threads that waited beside the leader when the last group was synced.
    pub(super) crowd: AtomicUsize,
}

/// The leader of the group sync, and its progress.
#[derive(Debug)]
struct GroupState {
    /// The log is durable up to this place.
    synced: LogPlace,
    leading: bool,
    /// The end of the group being synced. `None` while the group gathers: it then covers all whole frames.
    end: Option<u64>,
    /// Index of the current group's wake-up channel.
    current: usize,
    gathering: Gathering,
}

/// Outcome of joining the queue.
pub(super) enum Joined {
    /// The log is durable up to the offset.
    Durable,
    /// The log has failed.
    Failed,
    /// The thread leads the next group: it syncs, then calls `GroupQueue::finish`.
    Leads(Leadership),
}

/// One thread's lead of a group.
pub(super) struct Leadership {
    /// Index of the group's wake-up channel.
    bell: usize,
    /// The log was durable up to this offset when the lead began.
    pub synced: u64,
}

impl GroupQueue {
    /// Starts with a log that is durable up to `synced`.
    pub(super) fn new(synced: LogPlace) -> GroupQueue {
        let state = GroupState { synced, leading: false, end: None, current: 0, gathering: Gathering::default() };
        GroupQueue { state: Mutex::new(state), bells: [const { Bell::new() }; 2], crowd: AtomicUsize::new(0) }
    }

    /// Returns the place up to which the log is durable.
    pub(super) fn synced(&self) -> LogPlace {
        lock(&self.state).synced
    }

    /// Waits until the log is durable up to `upto`, or it has failed, or this thread is to lead.
    pub(super) fn join(&self, upto: u64, has_failed: impl Fn() -> bool) -> Joined {
        let mut state = lock(&self.state);
        let (mut watches, mut time_is_up) = (false, false);
        loop {
            if state.synced.offset >= upto {
                return Joined::Durable;
            }
            if has_failed() {
                return Joined::Failed;
            }
            if state.leading {
                (watches, time_is_up) = (false, false);
                let bell = state.bell(upto);
                state = self.bells[bell].wait(state, None);
                continue;
            }
            let bell = &self.bells[state.current];
            let present = bell.waiting() + 1;
            if !time_is_up {
                match state.gathering.next(present, watches) {
                    Next::Lead => {}
                    Next::Wait => {
                        state = bell.wait(state, None);
                        continue;
                    }
                    Next::Watch(time) => {
                        watches = true;
                        (state, time_is_up) = bell.wait_at_most(state, time);
                        continue;
                    }
                }
            }
            state.gathering.led(present, time_is_up);
            state.leading = true;
            return Joined::Leads(Leadership { bell: state.current, synced: state.synced.offset });
        }
    }

    /// Fixes the end of the group being synced: threads that need more wait for the next group.
    pub(super) fn fix_end(&self, end: u64) {
        lock(&self.state).end = Some(end);
    }

    /// Ends a lead that took this time. The log is durable up to `synced`, or the sync failed. One of the later
    /// arrivals leads next; their wake-up channel becomes that of its group. Then this group's members return.
    pub(super) fn finish(&self, lead: &Leadership, took: Duration, synced: Option<LogPlace>) {
        let mut state = lock(&self.state);
        let crowd = self.bells.iter().map(Bell::waiting).sum();
        self.crowd.store(crowd, Ordering::Relaxed);
        state.gathering.synced(crowd + 1, took);
        (state.leading, state.end, state.current) = (false, None, 1 - lead.bell);
        if let Some(place) = synced {
            state.synced = place;
        }
        drop(state);
        self.bells[1 - lead.bell].wake_one();
        self.bells[lead.bell].wake_all();
    }

    /// Wakes all waiting threads, after the log has failed. It takes the lock, so that no thread goes to sleep on the
    /// old state.
    pub(super) fn wake_all(&self) {
        drop(lock(&self.state));
        self.bells.iter().for_each(Bell::wake_all);
    }
}

impl GroupState {
    /// Returns the wake-up channel of the group that makes `upto` durable.
    fn bell(&self, upto: u64) -> usize {
        match self.end {
            Some(end) if end < upto => 1 - self.current,
            _ => self.current,
        }
    }
}

/// Statistics on the threads that sync.
#[derive(Debug, Default)]
struct Gathering {
    /// Size of the previous group when it was synced, its leader included.
    expected: usize,
    /// Duration of the last sync.
    sync: Duration,
    /// True if a member limits the group's wait with a timeout.
    watched: bool,
    /// Failed waits in a row, and the number of groups that are not waited for.
    misses: u32,
    skips: u32,
}

/// The action of a thread that waits for a sync while no thread leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// Lead the group.
    Lead,
    /// Wait for a leader, at most this long; then lead.
    Watch(Duration),
    /// Wait for a leader.
    Wait,
}

impl Gathering {
    /// Returns the action of a thread when `present` threads are in the group. The thread may be the timed waiter,
    /// woken before its timeout.
    fn next(&mut self, present: usize, watched: bool) -> Next {
        if present >= self.expected || self.skips > 0 || self.sync.is_zero() {
            return Next::Lead;
        }
        match std::mem::replace(&mut self.watched, true) && !watched {
            true => Next::Wait,
            false => Next::Watch(self.sync.min(LONGEST)),
        }
    }

    /// Records that a thread leads now, with `present` members or because the timeout ended. A complete group halves
    /// the penalty of failed waits, so waiting continues if half of the waits succeed. A group that was expected to
    /// have one thread changes nothing.
    fn led(&mut self, present: usize, time_is_up: bool) {
        self.watched = false;
        if self.skips > 0 {
            self.skips -= 1;
        } else if time_is_up && present < self.expected {
            self.misses = (self.misses + 1).min(MOST_MISSES);
            self.skips = 1 << self.misses;
        } else if self.expected > 1 {
            self.misses /= 2;
        }
    }

    /// Records that a group of `there` threads was synced in this time.
    fn synced(&mut self, there: usize, took: Duration) {
        (self.expected, self.sync) = (there, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(100);

    #[test]
    fn one_alone_waits_for_nobody() {
        let mut gathering = Gathering::default();
        for _ in 0..3 {
            assert_eq!(gathering.next(1, false), Next::Lead);
            gathering.led(1, false);
            gathering.synced(1, SYNC);
        }
    }

    #[test]
    fn the_first_watches_and_whoever_comes_last_leads() {
        let mut gathering = Gathering::default();
        gathering.synced(3, SYNC);
        for _ in 0..3 {
            let next = [1, 2, 3].map(|present| gathering.next(present, false));
            assert_eq!(next, [Next::Watch(SYNC), Next::Wait, Next::Lead]);
            gathering.led(3, false);
            gathering.synced(3, SYNC);
        }
        gathering.synced(3, Duration::from_secs(1));
        assert_eq!(gathering.next(1, false), Next::Watch(LONGEST));
    }

    #[test]
    fn what_came_to_nothing_is_tried_ever_more_rarely_and_again_once_it_helps() {
        let (mut gathering, mut tries) = (Gathering::default(), Vec::new());
        for at in 0..600 {
            gathering.synced(2, SYNC);
            let waits = gathering.next(1, false) != Next::Lead;
            if waits {
                tries.push(at);
            }
            gathering.led(1, waits);
        }
        assert_eq!(tries, [0, 3, 8, 17, 34, 67, 132, 197, 262, 327, 392, 457, 522, 587]);
        while gathering.next(1, false) == Next::Lead {
            gathering.led(1, false);
        }
        // More than six waits had failed: a success leaves three, and the next failure is the fourth.
        for (present, skipped) in [(2, 0), (1, 16), (2, 0), (2, 0), (1, 4)] {
            assert_eq!(gathering.next(1, true), Next::Watch(SYNC));
            gathering.led(present, present == 1);
            for _ in 0..skipped {
                assert_eq!(gathering.next(1, false), Next::Lead);
                gathering.led(1, false);
            }
        }
    }

    #[test]
    fn one_that_was_woken_early_watches_again() {
        let mut gathering = Gathering::default();
        gathering.synced(3, SYNC);
        let next =
            [(1, false), (2, true), (2, false), (2, true)].map(|(present, watched)| gathering.next(present, watched));
        assert_eq!(next, [Next::Watch(SYNC), Next::Watch(SYNC), Next::Wait, Next::Watch(SYNC)]);
    }

    #[test]
    fn a_clock_that_stands_still_makes_nobody_wait() {
        let mut gathering = Gathering::default();
        gathering.synced(16, Duration::ZERO);
        assert_eq!(gathering.next(1, false), Next::Lead);
    }
}
