//! Decides when the next segments are made.
//!
//! A new segment is made in pieces, because writing its zeros takes disk time from syncs. With few syncing threads,
//! syncing blocks that were written before halves the cost of each commit, so the next segment is made as fast as
//! possible. With many threads sharing each sync, the journal's share is small and the disk is the bottleneck. Then the
//! segment is made no faster than the current one fills, so that it is ready just in time.
//!
//! If no thread waits for syncs, no zeros are written, and further segments are made in advance: as many as the log
//! fills in half a second, so a fast log does not wait for a busy disk.

/// Minimum and maximum number of next segments of a log in continuous use.
pub(super) const LEAST_READY: usize = 2;
pub(super) const MOST_READY: usize = 8;

/// How long the next segments should last, which is how long a sync may take on a busy disk; and how often the log's
/// pace is measured.
const LASTING_NANOS: u64 = 500_000_000;
pub(super) const PACE_NANOS: u64 = 100_000_000;

/// Number of waiting threads beside a group's leader from which on they count as a crowd.
pub(super) const CROWD: usize = 4;

/// Returns how many next segments a log wants after `turnovers` turnovers in `nanos` nanoseconds.
pub(super) fn ready_wanted(turnovers: u64, nanos: u64) -> usize {
    let lasting = u128::from(turnovers) * u128::from(LASTING_NANOS) / u128::from(nanos.max(1));
    (lasting.min(MOST_READY as u128) as usize).max(LEAST_READY)
}

/// Progress of the log through its current segment, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreallocationProgress {
    pub used: u64,
    /// End of the part that is preferred while a next segment exists (`Segment::good_until`).
    pub good: u64,
    /// End of the usable part.
    pub room: u64,
}

impl PreallocationProgress {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_want_the_next_segment_at_once_and_a_crowd_in_time() {
        let progress = |used| PreallocationProgress { used, good: 100, room: 1600 };
        let few = [0, 49, 50, 1600].map(|used| progress(used).due(4000, CROWD - 1));
        assert_eq!(few, [0, 0, 4000, 4000]);
        let crowd = [0, 200, 500, 800, 1400, 1600].map(|used| progress(used).due(4000, CROWD));
        assert_eq!(crowd, [0, 0, 1000, 2000, 4000, 4000]);
        let largest = PreallocationProgress { used: u64::MAX / 2, good: u64::MAX, room: u64::MAX };
        assert!(largest.due(u64::MAX, CROWD) < u64::MAX);
        assert_eq!(PreallocationProgress { room: 0, ..largest }.due(7, CROWD), 7);
    }

    #[test]
    fn as_many_are_wanted_as_half_a_second_takes() {
        let wanted = [(0, 1), (1, 0), (2, 1_000_000_000), (20, 2_000_000_000), (9, 500_000_000), (u64::MAX, 1)];
        assert_eq!(wanted.map(|(turnovers, nanos)| ready_wanted(turnovers, nanos)), [2, 8, 2, 5, 8, 8]);
    }
}
