//! Reading the log beside the process that writes it: no lock, nothing written, nothing cut.
//!
//! `read_marks` comes first; the caller then reads the manifest, and `recover_beside` the ring, then the segments. A frame below
//! the first mark is in the picture of the ring, or was drained before the ring was overwritten and is in the segment that is
//! read afterwards. What lies above that mark is the end. At last the nonces of everything that was read and the marks are
//! read again: a segment that was used again meanwhile, or another ring, means that all must be read again from the manifest on.
//!
//! A file that is not there any more was removed by a writer, behind an edit, or is lost. The manifest tells: if it says still what it said before
//! the log was read, no writer did.
//!
//! That is so where the kernel runs that the ring was made under: whoever writes now has made it since. Else nobody writes, the marks may be as old as the
//! ring, since a sync of the log does not take them along, and what is in the log is read and judged as a recovery does.

use std::path::Path;

use crate::env::{Env, Machine, read_exact};
use crate::error::Result;
use crate::frame::PAGE_BYTES;
use crate::planted::{Bug, active};

use super::LogStart;
use super::recover::{Facts, LogEnd, Reading, Visit};
use super::ring::{Marks, RingHeader};
use super::segment::SegmentHeader;
use super::source::RingSource;

/// What reading beside a writer came to.
#[derive(Debug)]
pub enum Beside {
    /// The log: up to the first mark, or else to the end that a recovery would find.
    Read {
        /// Where it ends.
        end: LogEnd,
        /// It was read up to a mark.
        by_marks: bool,
    },
    /// Files were used again meanwhile: what was visited is void, begin again with the manifest.
    Moved,
    /// A file was not there, or another stood in its place. If the manifest says what it said before, it is lost, and this is what the log comes
    /// to without it; else as `Moved`.
    Gone(Box<Result<LogEnd>>),
}

/// The marks of a log that may be written to now.
pub fn read_marks(env: &Env, dir: &Path, from: &LogStart) -> Result<Marks> {
    RingSource::open(env, dir, from).map(|ring| ring.marks)
}

/// Up to where a log is read.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// These marks, by the process that writes them.
    Own(Marks),
    /// These marks, if whoever wrote them may still be there; else, or where there are none, the end that a recovery would find.
    Theirs(Option<Marks>),
}

/// Reads the log as far as is asked for, beside whoever writes it.
pub fn recover_beside(
    env: &Env,
    dir: &Path,
    from: &LogStart,
    facts: &Facts,
    machine: Machine,
    until: Until,
    visit: &mut Visit<'_>,
) -> Result<Beside> {
    let mut reading = Reading::begin((env, dir), from, facts, machine, true)?;
    reading.gives_up_unread = true; // a reader loses nothing for good
    let is_here = reading.ring.as_ref().is_ok_and(|ring| machine.is_same_kernel(&ring.header.machine));
    let marks = match until {
        Until::Own(marks) => Some(marks),
        Until::Theirs(marks) => marks.filter(|_| is_here || active(Bug::MarksBelievedAfterACrash)),
    };
    if let Some(first) = marks {
        // The manifest may be newer than the marks; a log that began meanwhile has nothing to be read yet.
        reading.stop = Some(first.acknowledged.max(from.place.offset));
        // Tables have what the log is not read for: a batch over two families would be half there.
        if facts.permanent > first.acknowledged.max(from.place.offset) {
            return Ok(Beside::Moved);
        }
    }
    reading.run(env, dir, visit)?;
    if has_moved(&reading) {
        return Ok(Beside::Moved);
    }
    let (is_gone, by_marks) = (reading.is_file_gone(), marks.is_some());
    let end = reading.judge(false);
    if is_gone { Ok(Beside::Gone(Box::new(end))) } else { end.map(|end| Beside::Read { end, by_marks }) }
}

/// True if a file that was read is not any more what it was.
fn has_moved(reading: &Reading<'_>) -> bool {
    let changed = |segment: &super::source::SegmentSource| {
        read_exact(&*segment.file, 0, PAGE_BYTES).is_ok_and(|page| {
            SegmentHeader::decode(&page)
                .is_ok_and(|now| (now.number, now.nonce) != (segment.header.number, segment.header.nonce))
        })
    };
    if reading.segments.iter().any(changed) {
        return true;
    }
    let Ok(ring) = &reading.ring else { return false };
    let Ok(page) = read_exact(&*ring.file, 0, PAGE_BYTES) else { return false };
    let Ok(now) = RingHeader::decode(&page) else { return false };
    now != ring.header || now.marks(&page, "").is_ok_and(|marks| marks.acknowledged < ring.marks.acknowledged)
}
