//! Steps of the user's cursor over long runs of deleted keys, with what other readers of the family have found
//! (`deleted_runs.rs`).

use super::cursor::UserCursor;
use crate::cursor::Cursor;
use crate::deleted_runs::RunReader;
use crate::error::Result;

/// Number of deleted keys walked over in one step before the family's deleted runs are asked, and again at each double of
/// it.
pub(super) const DELETED_STEPS: u32 = 16;

/// How far a step has passed a deleted run.
pub(super) enum RunPassed {
    None,
    ToItsEnd,
    /// The run has no end: no record follows.
    ToTheLastKey,
}

impl UserCursor {
    /// Moves past the deleted run that holds the inner cursor's key, if one is known. `is_first`: the first time in this
    /// step, which begins a walk.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_deleted_run(&mut self, is_first: bool) -> Result<RunPassed> {
        let runs = self.values.as_ref().filter(|_| self.lost_ranges.is_empty());
        let Some((family, (runs, view))) = runs.and_then(|family| Some((family, family.deleted_runs()?))) else {
            self.walk = None;
            return Ok(RunPassed::None);
        };
        let (key, reader) = (self.inner.place().0, RunReader { view, seqno: self.seqno });
        if is_first {
            self.walk = runs.begin(&self.order, key, reader, || family.is_current());
        }
        match runs.past(&self.order, key, reader) {
            None => Ok(RunPassed::None),
            Some(None) => Ok(RunPassed::ToTheLastKey),
            Some(Some(end)) => {
                self.inner.seek(&end, self.seqno)?;
                Ok(RunPassed::ToItsEnd)
            }
        }
    }

    /// Notes the run of deleted keys that this step has walked over.
    #[cold]
    #[inline(never)]
    pub(super) fn end_walk(&mut self) {
        let end = self.inner.valid().then(|| self.inner.place().0);
        if let (Some(walk), Some((runs, _))) = (self.walk.take(), self.values.as_ref().and_then(|of| of.deleted_runs()))
        {
            runs.end(&self.order, walk, end);
        }
    }
}
