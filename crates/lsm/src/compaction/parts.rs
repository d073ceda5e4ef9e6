//! Subcompactions: one pass in several parallel parts, each a range of the keys.
//!
//! In:     the boundary keys, and a function that makes cursor, rules and splitter of a part.
//! Out:    the tables of all parts in key order, as if one pass had written them.
//! Holds:  every key belongs to one part, with all its versions (I05). There is one ledger: the written and dropped
//!         records of all parts against the inputs' ledger, so that a record taken by two parts, or by none, is
//!         detected (I11).
//! Errors: the first part that fails stops the others, and all files are removed.
//! Steps:  in stepped mode the parts run one after the other on the same thread, so that a seed determines the outcome.

use std::sync::atomic::{AtomicBool, Ordering};

use super::output::{CompactionJob, PartOutput, PartRange, PassOptions, PassResult, close, write_span};
use super::rules::Rules;
use super::split::Splitter;
use crate::cursor::Cursor;
use crate::env::work::{Mode, side_by_side};
use crate::error::Result;

/// The inputs and decision rules of one part.
pub struct CompactionPart<'c, B> {
    /// The merged inputs; the part seeks to its own start.
    pub cursor: Box<dyn Cursor + 'c>,
    /// Decides which records may be dropped.
    pub rules: Rules<B>,
    /// Decides where tables end.
    pub splitter: Splitter,
}

/// Runs a pass in parts that begin at the given keys, which ascend. `part` is called once for each.
pub fn write_parts<'c, B: FnMut(&[u8]) -> bool + Send>(
    job: &CompactionJob<'_>,
    pass: &PassOptions<'_>,
    cuts: &[Vec<u8>],
    mut part: impl FnMut() -> Result<CompactionPart<'c, B>>,
) -> Result<PassResult> {
    let stop = AtomicBool::new(false);
    let bound = |at: Option<usize>| at.and_then(|at| cuts.get(at)).map(Vec::as_slice);
    let spans =
        (0..=cuts.len()).map(|at| PartRange { from: bound(at.checked_sub(1)), to: bound(Some(at)), stop: Some(&stop) });
    let parts = spans.map(|span| part().map(|part| (span, part))).collect::<Result<Vec<_>>>()?;
    let write = |(span, part): (PartRange<'_>, CompactionPart<'c, B>)| {
        let CompactionPart { mut cursor, rules, splitter } = part;
        let done = write_span(job, pass, &mut *cursor, rules, splitter, span);
        if done.has_failed() {
            stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let done: Vec<PartOutput> = match job.env.work {
        Mode::Threads => side_by_side("waxseal-part", parts, write),
        Mode::Stepped => parts.into_iter().map(write).collect(),
    };
    close(job, pass, done)
}
