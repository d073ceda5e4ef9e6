//! Whether a group is synced now, or a moment later with more in it.
//!
//! Those who sync in turn come back as soon as they are let go, while the next group is on its way to the disk already: two halves that take turns,
//! and twice as many syncs as need be. So the first of a group waits for as many as were there when the last one was synced, at most as long as a
//! sync takes, and whoever comes last leads. Where that comes to nothing, since they think between their commits, it is tried ever more rarely.
//! One writer alone waits for nobody.

use std::time::Duration;

/// Nobody watches longer at a time, however slow the disk is.
const LONGEST: Duration = Duration::from_millis(2);

/// After so many waits in vain the groups between two tries are no more than before: 64.
const MOST_MISSES: u32 = 6;

/// What is known of those who come.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// As many as were there when the last group was synced, its leader among them.
    expected: usize,
    /// How long the last sync took.
    sync: Duration,
    /// Somebody sees to it that the group does not wait for ever.
    watched: bool,
    /// Waits in vain, one after the other, and how many groups are not to be waited for.
    misses: u32,
    skips: u32,
}

/// What one who waits for a sync does while nobody leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Leads.
    Lead,
    /// Waits for whoever leads, and no longer than that: then it leads.
    Watch(Duration),
    /// Waits for whoever leads.
    Wait,
}

impl Gathering {
    /// What one of so many who are `present` does; it may be the one that watched, and was woken before its time was up.
    pub(super) fn next(&mut self, present: usize, watched: bool) -> Next {
        if present >= self.expected || self.skips > 0 || self.sync.is_zero() {
            return Next::Lead;
        }
        match std::mem::replace(&mut self.watched, true) && !watched {
            true => Next::Wait,
            false => Next::Watch(self.sync.min(LONGEST)),
        }
    }

    /// Somebody leads now, so many being `present`, or since the time was up. A group that was all there halves what waits in vain have taught, so
    /// that where half of them are, they are waited for; one alone teaches nothing.
    pub(super) fn led(&mut self, present: usize, time_is_up: bool) {
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

    /// A group was synced, in so much time; so many were there then.
    pub(super) fn synced(&mut self, there: usize, took: Duration) {
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
        // Those in vain were more than six: one that helps leaves three, and the next in vain is the fourth.
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
