//! Subcompactions: one pass in several parts, each a span of the keys, beside each other.
//!
//! In:     where the keys are cut, and what makes cursor, rules and splitter of a part.
//! Out:    the tables of all parts in the order of their keys, as if one pass had written them.
//! Holds:  every key falls into one part, with all its versions (I05). The ledger is one: what all parts wrote and dropped against
//!         what the inputs say, so that a record that two parts took, or none, is found (I11).
//! Errors: the first part that fails stops the others, and no file of any is left.
//! Steps:  in stepped mode the parts follow one another in the same thread, so that a seed tells what happens.

use std::sync::atomic::{AtomicBool, Ordering};

use super::output::{Done, Job, Pass, Span, Written, close, write_span};
use super::rules::Rules;
use super::split::Splitter;
use crate::cursor::Cursor;
use crate::env::work::{Mode, side_by_side};
use crate::error::Result;

/// What one part reads, and how it decides.
pub struct Part<B> {
    /// The merged inputs; the part seeks its own start.
    pub cursor: Box<dyn Cursor>,
    /// Which records may go.
    pub rules: Rules<B>,
    /// Where a table ends.
    pub splitter: Splitter,
}

/// Does a pass in parts that are cut before the given keys, which ascend. `part` is called once for each.
pub fn write_parts<B: FnMut(&[u8]) -> bool + Send>(
    job: &Job<'_>,
    pass: &Pass<'_>,
    cuts: &[Vec<u8>],
    mut part: impl FnMut() -> Result<Part<B>>,
) -> Result<Written> {
    let stop = AtomicBool::new(false);
    let bound = |at: Option<usize>| at.and_then(|at| cuts.get(at)).map(Vec::as_slice);
    let spans =
        (0..=cuts.len()).map(|at| Span { from: bound(at.checked_sub(1)), to: bound(Some(at)), stop: Some(&stop) });
    let parts = spans.map(|span| part().map(|part| (span, part))).collect::<Result<Vec<_>>>()?;
    let write = |(span, part): (Span<'_>, Part<B>)| {
        let Part { mut cursor, rules, splitter } = part;
        let done = write_span(job, pass, &mut *cursor, rules, splitter, span);
        if done.has_failed() {
            stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let done: Vec<Done> = match job.env.work {
        Mode::Threads => side_by_side("waxseal-part", parts, write),
        Mode::Stepped => parts.into_iter().map(write).collect(),
    };
    close(job, pass, done)
}
