//! Recovery: reads the bodies of all batches in order and finds the end of the log. It writes nothing. docs/format.md,
//! section 5.5.
//!
//! Frames are read offset by offset from the segment or the ring, whichever holds a whole frame with the expected link.
//! The log ends where neither does. That end is then judged. It is *damage* if a proof shows that a durable frame stood
//! there; otherwise it is a *torn tail*, which is cut and reported. The proofs:
//!
//! | proof | reaches to |
//! |---|---|
//! | a segment that the manifest has sealed | its end |
//! | an edit made commits permanent (I15) | the offset it names |
//! | a witness: ring, manifest, padding frames | the offset it names |
//! | same kernel and device: no page can have been lost | the acknowledged mark |
//!
//! A frame that points to values counts as whole without its damaged values if a proof shows that it was whole: then
//! each such value is lost individually (`Tolerates`). Without a proof the frame was not whole, and the log ends there.
//!
//! A missing ring, or a mark with no valid copy, removes proofs. So either is damage too, unless the last segment is
//! sealed. An unreadable page is damage. Salvage reads on behind damage (`resync`). With `accept_loss` the log is cut
//! at the damage instead, and the damage is reported with the cut.

use std::path::Path;

use crate::batch::BatchOperations;
use crate::codec::Reader;
use crate::env::{Env, Machine, Open};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::frame::{FrameHeader, FrameKind, Mark};
use crate::names::StoreFileName;
use crate::planted;
use crate::record::Seqno;

use super::scan;
use super::segment::{LogPlace, LogStart, PAGE};
use super::source::{FrameLookup, FrameSource, RingSource, SegmentSource};

mod resync;

pub use resync::{Gap, recover_behind_gaps};

/// Proofs about the log from the manifest.
#[derive(Clone, Debug, Default)]
pub struct LogProofs {
    /// Segments that are sealed: the end of each.
    pub sealed: Vec<LogPlace>,
    /// The log was durable up to here before an edit made commits permanent.
    pub permanent: u64,
    /// The witness that manifest edits carry.
    pub witness: u64,
    /// No frame from `permanent` on has a lower seqno.
    pub seqno: Seqno,
}

/// One batch read from the log.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a> {
    /// Logical offset of its frame.
    pub offset: u64,
    /// Logical offset of the end of its frame.
    pub end: u64,
    /// Seqno of its first operation.
    pub seqno: Seqno,
    /// Count and operations.
    pub body: &'a [u8],
    /// Values that may be missing although the frame counts as whole.
    pub tolerates: Tolerates,
}

/// Kinds of values that may be missing from a whole frame: each of them is lost individually.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerates {
    /// Damaged or missing values are tolerated: a proof shows that the frame was whole.
    pub damaged: bool,
    /// Values that the device does not return now are tolerated.
    pub unread: bool,
}

/// The part that was cut off the end of the log.
#[derive(Clone, Debug)]
pub struct LogCut {
    /// Logical offset of the first byte that was cut.
    pub offset: u64,
    /// Bytes from there to the last trace of a commit.
    pub bytes: u64,
    /// The file that holds the cut bytes.
    pub file: String,
    /// Position in the file.
    pub position: u64,
    /// Commits above the cut had been acknowledged up to this offset. At or below `offset`, no acknowledged commit is
    /// known to be lost.
    pub acknowledged: u64,
    /// The damage that the operator accepted; `None` for a torn tail.
    pub accepted: Option<Error>,
    /// The ring wraps around at this many bytes after its first page; 0 if the file is a segment.
    capacity: u64,
}

/// The end of the log, and the findings of recovery.
#[derive(Clone, Debug)]
pub struct LogEnd {
    /// The end of the last whole frame.
    pub place: LogPlace,
    /// The seqno after the last operation; `None` if there was no frame.
    pub next_seqno: Option<Seqno>,
    /// The part that was cut off; `None` if there was none.
    pub cut: Option<LogCut>,
    /// The acknowledged mark.
    pub acknowledged: u64,
    /// The log was not closed, and it was written under another kernel or on another device, or the origin is unknown.
    pub may_lack_unsynced: bool,
    /// A multiple of 4096 above every offset that this log can have used: the start of the next log.
    pub next_start: u64,
    /// Numbers of the segments that were read.
    pub segments: Vec<u64>,
    /// Number of batches read.
    pub batches: u64,
    /// Number of frames that were taken from the ring because the segment did not hold them.
    pub from_ring: u64,
    /// True if the last segment was sealed: the store was closed.
    pub closed: bool,
}

/// Reads the log that the manifest names. `machine` is the current kernel and device.
pub fn recover(
    env: &Env,
    dir: &Path,
    from: &LogStart,
    facts: &LogProofs,
    machine: Machine,
    accept_loss: bool,
    visit: &mut Visit<'_>,
) -> Result<LogEnd> {
    let mut reading = LogReading::begin((env, dir), from, facts, machine, false)?;
    reading.gives_up_unread = accept_loss;
    reading.run(env, dir, visit)?;
    reading.judge(accept_loss)
}

/// A log being read.
pub(super) struct LogReading<'a> {
    from: LogStart,
    facts: &'a LogProofs,
    /// The current kernel and device.
    machine: Machine,
    /// If true, values that the device does not return are given up individually, instead of ending the log at their
    /// frame.
    pub(super) gives_up_unread: bool,
    /// True once the frames after the current place were followed for a witness.
    looked_ahead: bool,
    /// True if a value file was missing or replaced.
    is_value_file_gone: bool,
    /// True if the damage is a value that the device does not return.
    is_value_unread: bool,
    /// Frames from this offset on are neither read nor judged (reading beside a writer).
    pub(super) stop: Option<u64>,
    pub(super) ring: Result<RingSource>,
    /// The segments opened so far; the last one is being read.
    pub(super) segments: Vec<SegmentSource>,
    place: LogPlace,
    expected: Option<Seqno>,
    witness: u64,
    batches: u64,
    from_ring: u64,
    /// The damage that stopped the reading; `None` at an ordinary end.
    damage: Option<Error>,
    /// The error for values that the frame at the place points to and that are missing: such a frame is not whole.
    missed: Option<Error>,
    body: Vec<u8>,
}

/// Why reading a frame's body stopped. Errors that a visitor passes on have their own variants.
#[derive(Debug)]
pub enum Stop {
    /// The frame is damaged.
    Damage(Error),
    /// The data that the frame points to is damaged: it was never completely written, or was damaged later.
    NotWhole(Error),
    /// The device does not return the data that the frame points to.
    Unread(Error),
    /// The visitor rejected the frame.
    Refused(Error),
    /// The visitor failed for a reason other than the frame.
    Failed(Error),
}

impl Stop {
    /// Classifies an error in the data that a frame points to.
    pub fn of(error: Error) -> Stop {
        if error.is_corruption() { Stop::NotWhole(error) } else { Stop::Refused(error) }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Refused(error)
    }
}

/// Visitor that receives the batches of a log, in order.
pub type Visit<'v> = dyn FnMut(Replayed<'_>) -> std::result::Result<(), Stop> + 'v;

impl<'a> LogReading<'a> {
    /// Beside a writer it copies the ring first and then opens the first segment: bytes that the drain moves meanwhile
    /// are seen twice, never missed. Errors of the operating system are returned; damage is kept to be judged.
    pub(super) fn begin(
        (env, dir): (&Env, &Path),
        from: &LogStart,
        facts: &'a LogProofs,
        machine: Machine,
        is_beside: bool,
    ) -> Result<LogReading<'a>> {
        let mut ring = match RingSource::open(env, dir, from) {
            Err(error) if !error.is_corruption() => return Err(error),
            opened => opened,
        };
        if let (true, Ok(ring)) = (is_beside, &mut ring) {
            ring.take_copy();
        }
        let mut reading = LogReading {
            from: *from,
            facts,
            machine,
            gives_up_unread: false,
            looked_ahead: false,
            is_value_file_gone: false,
            is_value_unread: false,
            stop: None,
            ring,
            segments: Vec::new(),
            place: LogPlace { link: from.place.nonce, ..from.place },
            expected: None,
            witness: 0,
            batches: 0,
            from_ring: 0,
            damage: None,
            missed: None,
            body: Vec::new(),
        };
        match SegmentSource::open(env, dir, from.place.segment, from.place.nonce, from.place.offset) {
            Ok(segment) => reading.segments.push(segment),
            Err(error) if error.is_corruption() => reading.damage = Some(error),
            Err(error) => return Err(error),
        }
        Ok(reading)
    }

    /// Reads frames until the next offset has no fitting frame.
    pub(super) fn run(&mut self, env: &Env, dir: &Path, visit: &mut Visit<'_>) -> Result<()> {
        while self.damage.is_none() && self.missed.is_none() && self.stop.is_none_or(|stop| self.place.offset < stop) {
            let (header, in_ring) = match self.next_frame() {
                (FrameLookup::Whole(header), in_ring) => (header, in_ring),
                (FrameLookup::Nothing, _) => break,
                (FrameLookup::Unreadable(error), _) if !error.is_corruption() => return Err(error),
                (FrameLookup::Unreadable(error), _) => {
                    self.damage = Some(error);
                    break;
                }
            };
            self.from_ring += in_ring as u64;
            match self.take_tolerantly((env, dir), &header, visit) {
                Ok(()) => {}
                Err(Stop::Refused(error)) => return Err(self.in_frame(error, in_ring)),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::NotWhole(error)) => self.missed = Some(error),
                Err(Stop::Unread(error)) => {
                    self.is_value_unread = true;
                    self.damage = Some(error);
                }
                Err(Stop::Damage(error)) if error.is_corruption() => {
                    self.damage = Some(self.in_frame(error, in_ring));
                }
                Err(Stop::Damage(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the frame at the current place: from the segment if it is whole there, otherwise from the ring.
    fn next_frame(&mut self) -> (FrameLookup, bool) {
        let (offset, link) = (self.place.offset, self.place.link);
        let in_segment = match self.segments.last_mut() {
            Some(segment) => segment.frame(offset, link, &mut self.body),
            None => FrameLookup::Nothing,
        };
        if matches!(in_segment, FrameLookup::Whole(_)) {
            return (in_segment, false);
        }
        let is_end = matches!(in_segment, FrameLookup::Nothing) && self.is_closed_here();
        let in_ring = match &mut self.ring {
            Ok(ring) if !is_end => ring.frame(offset, link, &mut self.body),
            _ => FrameLookup::Nothing,
        };
        match (in_segment, in_ring) {
            (_, FrameLookup::Whole(header)) => (FrameLookup::Whole(header), true),
            (FrameLookup::Unreadable(error), _) => (FrameLookup::Unreadable(error), false),
            (_, in_ring) => (in_ring, true),
        }
    }

    /// Takes a frame whose own checksums are valid. If it points to damaged values and a proof shows that it was whole,
    /// the log does not end: the visitor receives the frame again and loses those values individually.
    fn take_tolerantly(
        &mut self,
        (env, dir): (&Env, &Path),
        header: &FrameHeader,
        visit: &mut Visit<'_>,
    ) -> std::result::Result<(), Stop> {
        let mut tolerates = Tolerates::default();
        loop {
            match self.take((env, dir), header, tolerates, visit) {
                Err(Stop::NotWhole(error)) if !tolerates.damaged => {
                    self.is_value_file_gone |= is_of_another_file(&error);
                    if !self.is_promised((env, dir)).map_err(Stop::Failed)? {
                        return Err(Stop::NotWhole(error));
                    }
                    tolerates.damaged = true;
                }
                Err(Stop::Unread(_)) if self.gives_up_unread && !tolerates.unread => tolerates.unread = true,
                outcome => return outcome,
            }
            self.next_frame(); // reloads its body into the buffer
        }
    }

    /// Returns whether a proof shows that the frame at the current place was whole.
    fn is_promised(&mut self, of: (&Env, &Path)) -> Result<bool> {
        let at = self.place.offset;
        // Without the ring the proof cannot be evaluated, and the end of the log is refused or accepted anyway. Losing
        // one value is the smaller loss.
        if self.ring.is_err() || at < self.proof().0 {
            return Ok(true);
        }
        if !self.looked_ahead {
            self.looked_ahead = true;
            self.look_ahead(of)?;
        }
        Ok(at < self.proof().0)
    }

    /// Follows the frames after the current place to their end, and keeps the greatest witness that they carry. No
    /// batch is visited.
    fn look_ahead(&mut self, of: (&Env, &Path)) -> Result<()> {
        let (place, expected, opened, counts) =
            (self.place, self.expected, self.segments.len(), (self.batches, self.from_ring));
        while self.stop.is_none_or(|stop| self.place.offset < stop)
            && let Some(header) = self.next_whole_frame()?
            && self.take(of, &header, Tolerates::default(), &mut |_| Ok(())).is_ok()
        {}
        if self.stop.is_none() {
            self.witness = self.witness.max(self.signs()?.0.witness);
        }
        self.segments.truncate(opened);
        (self.place, self.expected) = (place, expected);
        (self.batches, self.from_ring) = counts;
        Ok(())
    }

    /// Returns the frame at the current place, if it is whole. Returns `Io` if the memory for it is not available.
    fn next_whole_frame(&mut self) -> Result<Option<FrameHeader>> {
        match self.next_frame().0 {
            FrameLookup::Whole(header) => Ok(Some(header)),
            FrameLookup::Unreadable(error) if !error.is_corruption() => Err(error),
            FrameLookup::Unreadable(_) | FrameLookup::Nothing => Ok(None),
        }
    }

    /// Processes a whole frame: visits its batch, or follows it to the next segment.
    fn take(
        &mut self,
        (env, dir): (&Env, &Path),
        header: &FrameHeader,
        tolerates: Tolerates,
        visit: &mut Visit<'_>,
    ) -> std::result::Result<(), Stop> {
        let offset = self.place.offset;
        let end = offset + header.extent();
        let mut next = LogPlace { offset: end, link: header.link, ..self.place };
        if self.expected.is_some_and(|expected| header.seqno != expected) {
            return Err(Stop::Damage(Error::structural("a frame whose seqno does not follow the one before")));
        }
        let mut count = 0;
        match header.kind {
            FrameKind::Batch | FrameKind::LargeBatch => {
                count = BatchOperations::new(&self.body).map_err(Stop::Damage)?.remaining();
                visit(Replayed { offset, end, seqno: header.seqno, body: &self.body, tolerates })?;
                self.batches += 1;
            }
            FrameKind::Padding => {
                let word = Reader::new(&self.body).u64().map_err(Stop::Damage)?;
                self.witness = self.witness.max(Mark::Synced.decode(0, word).unwrap_or(0));
            }
            FrameKind::Turnover => {
                let mut reader = Reader::new(&self.body);
                let mut word = || reader.u64().map_err(Stop::Damage);
                let (segment, nonce, first) = (word()?, word()?, word()?);
                if first < end {
                    return Err(Stop::Damage(Error::structural(
                        "a segment that begins before the one it follows ends",
                    )));
                }
                // The segment's header and name were durable before this frame was, so a missing segment is damage.
                let source = SegmentSource::open(env, dir, segment, nonce, first).map_err(Stop::Damage)?;
                self.segments.push(source);
                next = LogPlace { segment, nonce, offset: first, link: nonce };
            }
            FrameKind::Skippable => {}
        }
        self.expected = Some(header.seqno + count);
        self.place = next;
        Ok(())
    }

    /// Adds file and frame to an error that names none yet.
    fn in_frame(&self, error: Error, in_ring: bool) -> Error {
        let source = self.source(in_ring);
        source.map_or(error.clone(), |source| error.in_file(source.name(), source.position(self.place.offset)))
    }

    fn source(&self, in_ring: bool) -> Option<&dyn FrameSource> {
        match &self.ring {
            Ok(ring) if in_ring => Some(ring),
            _ => self.segments.last().map(|segment| segment as &dyn FrameSource),
        }
    }

    /// True if the trace of the frame at the current place is in the ring. Synced bytes are in the segment; otherwise
    /// it is the source in which a trace is found.
    fn is_in_ring(&mut self) -> Result<bool> {
        let (offset, expected) = (self.place.offset, self.expected);
        let Ok(ring) = &mut self.ring else { return Ok(false) };
        if expected.is_none() && offset < ring.marks.synced {
            return Ok(false);
        }
        let in_segment = match self.segments.last_mut() {
            Some(segment) => scan::is_torn_frame(segment, offset, expected)?,
            None => false,
        };
        Ok(!in_segment && scan::is_torn_frame(ring, offset, expected)?)
    }

    /// Returns whether the log was written under this kernel and on this device: on the same machine no page is lost.
    fn is_same_machine(&self) -> bool {
        let is_same = |written: &Machine| self.machine.is_same_kernel(written);
        let ring = self.ring.as_ref().is_ok_and(|ring| is_same(&ring.header.machine));
        ring && self.segments.last().is_some_and(|last| is_same(&last.header.machine))
    }

    /// Returns the offset up to which frames must exist, and the reason.
    fn proof(&self) -> (u64, &'static str) {
        let sealed = self.facts.sealed.iter().map(|seal| seal.offset).max().unwrap_or(0);
        let mut proofs = vec![
            (sealed, "in a segment that was sealed"),
            (self.facts.permanent, "below what an edit of the manifest made permanent"),
            (self.facts.witness, "below the manifest's witness"),
            (self.witness, "below the witness in the log"),
        ];
        if let Ok(ring) = &self.ring {
            proofs.push((ring.marks.synced, "below the ring's witness"));
            if self.is_same_machine() {
                proofs.push((ring.marks.acknowledged, "below the acknowledged mark, on the kernel that wrote it"));
            }
        }
        let (reach, why) = proofs.into_iter().max_by_key(|(reach, _)| *reach).unwrap_or_default();
        (reach.min(self.stop.unwrap_or(u64::MAX)), why)
    }

    /// Returns the seal of the segment where the reading ended, if the reading ended exactly at it.
    fn seal(&self) -> Option<&LogPlace> {
        let at = &self.place;
        let is_here = |seal: &&LogPlace| (seal.segment, seal.nonce, seal.offset) == (at.segment, at.nonce, at.offset);
        self.facts.sealed.iter().find(is_here)
    }

    /// True if the store was closed here and the ring's marks reach no further: then the ring need not be read.
    fn is_closed_here(&self) -> bool {
        let at = self.place.offset;
        let is_last = self.facts.sealed.iter().all(|seal| seal.offset <= at);
        is_last && self.seal().is_some() && self.ring.as_ref().is_ok_and(|ring| ring.marks.acknowledged <= at)
    }

    /// True if a file was missing or replaced: beside a writer it may have been recycled.
    pub(super) fn is_file_gone(&self) -> bool {
        let found = [self.damage.as_ref(), self.missed.as_ref(), self.ring.as_ref().err()];
        self.is_value_file_gone || found.into_iter().flatten().any(is_of_another_file)
    }

    /// Returns the fault at this end; `None` if the end is sound. Returns `Io` if the memory for a frame is not
    /// available.
    pub(super) fn fault(&mut self) -> Result<Option<Error>> {
        let at = self.place.offset;
        if let Some(damage) = self.damage.take() {
            return Ok(Some(damage));
        }
        let (reach, why) = self.proof();
        if at < reach {
            let in_ring = self.is_in_ring()?;
            let damage = Damage { verdict: Verdict::Checksum, ..Damage::default() };
            let message = format!("a frame is damaged or missing at offset {at} of the log, {why} ({reach})");
            return Ok(Some(match &self.missed {
                Some(missed) => {
                    let damage = missed.damage().cloned().unwrap_or_default();
                    Error::corruption(damage, format!("{message}, or what it points to: {missed}"))
                }
                None => self.in_frame(Error::corruption(damage, message), in_ring),
            }));
        }
        if let Some(seal) = self.seal() {
            let damage = Damage { verdict: Verdict::Misplaced, ..Damage::default() };
            return Ok((seal.link != self.place.link).then(|| {
                self.in_frame(Error::corruption(damage, "a sealed segment ends with another frame than it had"), false)
            }));
        }
        Ok(self.ring.as_ref().err().cloned())
    }

    /// Returns the traces of frames after the end, and whether the ring holds them.
    fn signs(&mut self) -> Result<(scan::FrameTraces, bool)> {
        let (at, expected) = (self.place.offset, self.expected);
        let least = expected.unwrap_or(self.facts.seqno);
        let mut in_segment = scan::FrameTraces::default();
        if let Some(segment) = self.segments.last_mut() {
            in_segment = scan::scan(segment, at, expected, least)?;
        }
        let mut in_ring = scan::FrameTraces::default();
        if let Ok(ring) = &mut self.ring {
            in_ring = scan::scan(ring, at, expected, least)?;
        }
        let witness = in_segment.witness.max(in_ring.witness);
        Ok(match in_ring.end > in_segment.end {
            true => (scan::FrameTraces { witness, ..in_ring }, true),
            false => (scan::FrameTraces { witness, ..in_segment }, false),
        })
    }

    /// Returns the fault of an end below the witness of a later frame.
    fn disproved_by(&mut self, witness: u64) -> Result<Option<Error>> {
        let at = self.place.offset;
        if witness <= at {
            return Ok(None);
        }
        let in_ring = self.is_in_ring()?;
        let damage = Damage { verdict: Verdict::Checksum, ..Damage::default() };
        let message =
            format!("a frame is damaged or missing at offset {at} of the log, a later one proves that it was synced");
        Ok(Some(self.in_frame(Error::corruption(damage, message), in_ring)))
    }

    /// Judges the end: returns an error for damage, otherwise the end of the log and the cut.
    pub(super) fn judge(mut self, accept_loss: bool) -> Result<LogEnd> {
        let is_value_unread = self.is_value_unread;
        let mut fault = self.fault()?;
        let closed = fault.is_none() && self.seal().is_some();
        let beside = self.stop.is_some();
        let at = self.place.offset;
        let (signs, in_ring) = if closed || beside { Default::default() } else { self.signs()? };
        if fault.is_none() {
            fault = self.disproved_by(signs.witness)?;
        }
        if let Some(error) = fault.take_if(|_| !accept_loss) {
            return Err(error.advise(way_on(is_value_unread, self.ring.is_err() && at >= self.proof().0)));
        }
        let acknowledged = self.ring.as_ref().map_or(0, |ring| ring.marks.acknowledged);
        let (reach, _) = self.proof();
        let lost = acknowledged.max(signs.end).max(if fault.is_some() { reach } else { 0 });
        let is_cut = !closed && !beside && (lost > at || fault.is_some());
        let cut = planted!(TornTailNotReported, false, is_cut).then(|| {
            let source = self.source(in_ring);
            let capacity = self.ring.as_ref().map_or(0, |ring| ring.header.capacity);
            LogCut {
                offset: at,
                bytes: lost.saturating_sub(at),
                file: source
                    .map_or_else(|| StoreFileName::Segment(self.place.segment).to_string(), |s| s.name().to_owned()),
                position: source.map_or(0, |source| source.position(at)),
                acknowledged,
                accepted: fault,
                capacity: if in_ring { capacity } else { 0 },
            }
        });
        let used = [at, lost, reach, signs.end, acknowledged, self.from.place.offset].into_iter().max().unwrap_or(at);
        Ok(LogEnd {
            place: self.place,
            next_seqno: self.expected,
            cut,
            acknowledged,
            may_lack_unsynced: !closed && !beside && !self.is_same_machine(),
            next_start: used.next_multiple_of(PAGE),
            segments: self.segments.iter().map(|segment| segment.header.number).collect(),
            batches: self.batches,
            from_ring: self.from_ring,
            closed,
        })
    }
}

/// Returns the advice for the caller of a refused open, the least lossy option first.
fn way_on(is_value_unread: bool, is_proof_alone_missing: bool) -> &'static str {
    if is_value_unread {
        "open it again once the device returns the value; with `accept_loss` the values that it does not return are lost, and no others"
    } else if is_proof_alone_missing {
        "with `accept_loss` the store opens with every commit that can be read, but nothing proves that these are all"
    } else {
        "copy the directory first; `salvage` into a new directory keeps everything that can be read and marks what is lost, and with \
         `accept_loss` this store opens without the commits from here on"
    }
}

/// True if the damage is a missing file, or another file in its place.
fn is_of_another_file(error: &Error) -> bool {
    error.damage().is_some_and(|damage| matches!(damage.verdict, Verdict::Missing | Verdict::Misplaced))
}

/// Passes the cut bytes to `keep` piece by piece, unchanged (zeros for unreadable bytes). Nothing is passed beyond the
/// end of a segment's file.
pub fn set_aside(env: &Env, dir: &Path, cut: &LogCut, keep: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let file = match env.fs.open(&dir.join(&cut.file), Open::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.during(|| format!("open {}", cut.file))?,
    };
    let length = file.len().during(|| format!("ask for the length of {}", cut.file))?;
    let end = if cut.capacity > 0 { (PAGE + cut.capacity).min(length) } else { length };
    let mut left = if cut.capacity > 0 { cut.bytes.min(cut.capacity) } else { cut.bytes };
    let mut at = cut.position;
    let mut page = [0; PAGE as usize];
    while left > 0 && at < end {
        let piece = left.min(PAGE - at % PAGE).min(end - at) as usize;
        let read = file.read_at(&mut page[..piece], at).unwrap_or(0);
        page[read..piece].fill(0);
        keep(&page[..piece])?;
        left -= piece as u64;
        at += piece as u64;
        if cut.capacity > 0 && at == end {
            at = PAGE;
        }
    }
    Ok(())
}
