//! Reads the log while another process writes it: takes no lock, writes nothing, cuts nothing.
//!
//! `read_marks` comes first. The caller then reads the manifest, and `recover_live` reads the ring, then the
//! segments. A frame below the first mark is either in the copy of the ring, or it was drained before the ring was
//! overwritten and is in the segment read afterwards. The log ends at that mark. Finally the nonces of everything read
//! and the marks are read again. If a segment was recycled meanwhile, or the ring was replaced, the caller starts over
//! from the manifest.
//!
//! A missing file was either removed by the writer, after an edit, or lost. The manifest decides: if it is unchanged
//! since before the log was read, the file is lost.
//!
//! This protocol applies under the kernel that the ring was created under, since an active writer has created its ring
//! under it. Otherwise no writer is active. The marks may then be as old as the ring, because a log sync does not sync
//! them, and the log is read and judged as in recovery.

use std::path::Path;

use crate::env::{Env, Machine, read_exact};
use crate::error::Result;
use crate::frame::PAGE_BYTES;
use crate::planted;

use super::recover::{LogEnd, LogProofs, LogReading, Visit};
use super::ring::{Marks, RingHeader};
use super::segment::{LogStart, SegmentHeader};
use super::source::RingSource;

/// Result of reading the log while it may be written.
#[derive(Debug)]
pub enum LiveRead {
    /// The log was read, up to the first mark or else to the end that recovery would find.
    Read {
        /// Where it ends.
        end: LogEnd,
        /// True if the end is a mark.
        by_marks: bool,
    },
    /// Files were recycled meanwhile. Discard what was visited and start again from the manifest.
    Moved,
    /// A file was missing or replaced. If the manifest is unchanged the file is lost, and this is the result for the
    /// log without it; otherwise treat this as `Moved`.
    Gone(Box<Result<LogEnd>>),
}

/// Returns the marks of a log that may have an active writer.
pub fn read_marks(env: &Env, dir: &Path, from: &LogStart) -> Result<Marks> {
    RingSource::open(env, dir, from).map(|ring| ring.marks)
}

/// Where reading the log ends.
#[derive(Clone, Copy, Debug)]
pub enum ReadUntil {
    /// At these marks, which the calling process writes itself.
    Own(Marks),
    /// At these marks, as long as their writer may be active; otherwise, or if there are none, at the end that recovery
    /// would find.
    Theirs(Option<Marks>),
}

/// Reads the log up to `until`, without excluding a writer.
pub fn recover_live(
    env: &Env,
    dir: &Path,
    from: &LogStart,
    facts: &LogProofs,
    machine: Machine,
    until: ReadUntil,
    visit: &mut Visit<'_>,
) -> Result<LiveRead> {
    let mut reading = LogReading::begin((env, dir), from, facts, machine, true)?;
    reading.gives_up_unread = true; // reading without writing loses no value for good
    let is_here = reading.ring.as_ref().is_ok_and(|ring| machine.is_same_kernel(&ring.header.machine));
    let marks = match until {
        ReadUntil::Own(marks) => Some(marks),
        ReadUntil::Theirs(marks) => marks.filter(|_| planted!(MarksBelievedAfterACrash, true, is_here)),
    };
    if let Some(first) = marks {
        // The manifest may be newer than the marks; a log that was started meanwhile has nothing to read yet.
        reading.stop = Some(first.acknowledged.max(from.place.offset));
        // Tables contain operations that the log is not read for: a batch over two families would appear in part.
        if facts.permanent > first.acknowledged.max(from.place.offset) {
            return Ok(LiveRead::Moved);
        }
    }
    reading.run(env, dir, visit)?;
    if has_moved(&reading) {
        return Ok(LiveRead::Moved);
    }
    let (is_gone, by_marks) = (reading.is_file_gone(), marks.is_some());
    let end = reading.judge(false);
    if is_gone { Ok(LiveRead::Gone(Box::new(end))) } else { end.map(|end| LiveRead::Read { end, by_marks }) }
}

/// True if a file that was read has changed since.
fn has_moved(reading: &LogReading<'_>) -> bool {
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
