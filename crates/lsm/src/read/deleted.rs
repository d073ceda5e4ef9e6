//! Steps of the user's cursor over long runs of deleted keys, with what other readers of the family have found
//! (`deleted_runs.rs`).

use super::reader::BlobReader;
use crate::deleted_runs::{RunReader, WalkId};
use crate::order::Order;
use crate::record::Seqno;

/// Number of deleted keys before the family's deleted runs are asked, and again at each double of it.
const MANY: u32 = 16;

/// A leaf of a memtable whose keys are all deleted is passed as quickly as so many deleted keys.
const KEYS_OF_A_LEAF: u32 = 4;

/// The deleted keys that a cursor has walked over in a row, within one step.
pub(super) struct DeletedSteps {
    count: u32,
    /// The count from which on the deleted runs are asked.
    next: u32,
    walk: Option<WalkId>,
}

impl Default for DeletedSteps {
    fn default() -> Self {
        DeletedSteps { count: 0, next: MANY, walk: None }
    }
}

/// How far a step passes a deleted run.
pub(super) enum RunPassed {
    None,
    /// To the first record at or after a key.
    To(Vec<u8>),
    /// The run has no end: no record follows.
    ToTheLastKey,
}

impl DeletedSteps {
    /// Counts a key.
    #[inline]
    pub(super) fn add(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Counts passed leaves.
    #[inline]
    pub(super) fn add_leaves(&mut self, leaves: u32) {
        self.count = self.count.saturating_add(leaves.saturating_mul(KEYS_OF_A_LEAF));
    }

    /// Returns how many leaves may be passed before the deleted runs are asked: a run may lead past all of them.
    #[inline]
    pub(super) fn most_leaves(&self) -> u32 {
        self.count.max(MANY)
    }

    /// Returns true if the deleted runs are to be asked now.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.count >= self.next
    }

    /// Returns true if the end of these steps is the end of a run that other readers may use.
    #[inline]
    pub(super) fn has_walk(&self) -> bool {
        self.walk.is_some()
    }

    /// Returns the end of the deleted run that holds a key, if one is known, and begins a walk if there is none.
    #[cold]
    #[inline(never)]
    pub(super) fn pass(&mut self, order: &Order, key: &[u8], seqno: Seqno, family: &dyn BlobReader) -> RunPassed {
        self.next = self.count.saturating_mul(2);
        let Some((runs, view)) = family.deleted_runs() else { return RunPassed::None };
        let reader = RunReader { view, seqno };
        if self.walk.is_none() {
            self.walk = runs.begin(order, key, reader, || family.is_current());
        }
        match runs.past(order, key, reader) {
            None => RunPassed::None,
            Some(Some(end)) => RunPassed::To(end),
            Some(None) => RunPassed::ToTheLastKey,
        }
    }

    /// Notes the run: no record lies before the key `end` (`None`: none at all).
    #[cold]
    #[inline(never)]
    pub(super) fn end(&mut self, order: &Order, end: Option<&[u8]>, family: &dyn BlobReader) {
        if let (Some(walk), Some((runs, _))) = (self.walk.take(), family.deleted_runs()) {
            runs.end(order, walk, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deleted_runs::DeletedRuns;
    use crate::error::{Error, Result};
    use crate::expiry::AsOf;
    use crate::record::{OwnedRecord, Record};
    use crate::values::BlobBuffer;

    /// A family that knows no deleted run.
    struct Unknown(DeletedRuns);

    impl BlobReader for Unknown {
        fn read(&self, _: &Record<'_>, _: &mut BlobBuffer) -> Result<()> {
            Ok(())
        }

        fn deleted_runs(&self) -> Option<(&DeletedRuns, usize)> {
            Some((&self.0, 0))
        }

        fn is_current(&self) -> bool {
            true
        }

        fn damaged_in_memory(&self, _: Seqno, _: &Error) {}

        fn merge(&self, _: &[u8], _: (Seqno, AsOf), _: &mut OwnedRecord) -> Result<()> {
            Ok(())
        }
    }

    /// Asks for deleted runs if it is time to. Returns true if it was.
    fn asks(steps: &mut DeletedSteps) -> bool {
        let is_time = steps.are_many();
        if is_time {
            let found = steps.pass(&Order::bytewise(), b"key", 9, &Unknown(DeletedRuns::default()));
            assert!(matches!(found, RunPassed::None));
        }
        is_time
    }

    #[test]
    fn a_few_passed_leaves_ask_for_no_runs() {
        let mut steps = DeletedSteps::default();
        for _ in 0..3 {
            steps.add();
            steps.add_leaves(1);
            assert!(!asks(&mut steps) && steps.most_leaves() == MANY);
        }
        steps.add();
        assert!(asks(&mut steps) && !asks(&mut steps), "16 keys, once");
    }

    #[test]
    fn a_count_that_jumps_over_its_double_asks() {
        let mut steps = DeletedSteps::default();
        for (leaves, is_time) in [(5, true), (4, false), (7, true), (100, true), (u32::MAX, true)] {
            steps.add_leaves(leaves);
            assert_eq!(asks(&mut steps), is_time, "{leaves}");
        }
        assert_eq!(steps.most_leaves(), u32::MAX);
    }

    /// However long the run is, it is passed in few pieces, and asked for between any two of them.
    #[test]
    fn the_pieces_of_a_long_run_grow() {
        let (mut steps, mut passed, mut pieces, mut asked) = (DeletedSteps::default(), 0u32, 0, 0);
        while passed < 10_000_000 {
            let most = steps.most_leaves();
            steps.add();
            steps.add_leaves(most);
            passed += most;
            pieces += 1;
            asked += u32::from(asks(&mut steps));
        }
        assert!((8..=12).contains(&pieces) && asked == pieces, "{pieces} pieces, asked {asked} times");
    }
}
