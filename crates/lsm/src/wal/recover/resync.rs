//! Continues behind damage in the log, for salvage: finds the next frame that certainly belongs to this log.
//!
//! In:     a reading that damage has ended. A torn tail is no damage: nothing behind it was promised to last.
//! Out:    the reading at the next frame, and the gap: the seqnos that were skipped.
//! Holds:  a frame's link cannot be checked if the frame before it is damaged. One of two proofs replaces it. The
//!         header of the damaged frame is intact, so its link is known. Or the frame's body fits its header, and the
//!         frame after it follows its link and its seqno; a link mixes the log offset, so frames of an earlier use of
//!         the file, and log bytes inside values, never pass.
//! Limits: a frame that has neither proof is given up: the last one of the log behind a damaged header. The search
//!         stays in the segment of the damage; the caller starts the next segment by its own header.

use std::path::Path;

use super::super::scan::read_body;
use super::super::segment::PAGE;
use super::super::source::FrameSource;
use super::super::{LogPlace, LogStart};
use super::{LogEnd, LogProofs, LogReading, Stop, Tolerates, Visit};
use crate::batch::BatchOperations;
use crate::env::{Env, Machine};
use crate::error::{Error, Result};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::record::Seqno;

/// Bytes searched in one piece.
const PIECE_BYTES: u64 = 64 * 1024;

/// A stretch of the log that was skipped.
#[derive(Clone, Debug)]
pub struct Gap {
    /// The damage.
    pub fault: Error,
    /// The next seqno that was expected there; `None` if no frame was read before.
    pub next: Option<Seqno>,
    /// The first seqno of the frame behind the gap.
    pub first: Seqno,
}

/// A frame whose link was not checked against the frame before it.
struct Unlinked {
    offset: u64,
    header: FrameHeader,
    body: Vec<u8>,
}

/// As `recover` that accepts losses, but reads on behind damage. The gaps are added to `gaps`, also if this fails.
pub fn recover_behind_gaps(
    env: &Env,
    dir: &Path,
    from: &LogStart,
    facts: &LogProofs,
    machine: Machine,
    gaps: &mut Vec<Gap>,
    visit: &mut Visit<'_>,
) -> Result<LogEnd> {
    let mut reading = LogReading::begin((env, dir), from, facts, machine, false)?;
    reading.gives_up_unread = true;
    reading.run(env, dir, visit)?;
    while let Some(gap) = reading.pass_gap((env, dir), visit)? {
        gaps.push(gap);
        reading.run(env, dir, visit)?;
    }
    reading.judge(true)
}

impl LogReading<'_> {
    /// Moves behind the damage at the current place, if there is damage and a frame behind it.
    fn pass_gap(&mut self, of: (&Env, &Path), visit: &mut Visit<'_>) -> Result<Option<Gap>> {
        let Some(fault) = self.damage_here()? else { return Ok(None) };
        let (next, at) = (self.expected, self.place.offset);
        let first = match self.behind_whole_header()? {
            Some(first) => first,
            None => match self.behind_unknown()? {
                Some(frame) => self.begin_with(frame, of, visit)?,
                None => {
                    self.damage = Some(fault); // `judge` reports it
                    return Ok(None);
                }
            },
        };
        debug_assert!(self.place.offset > at, "a gap ends behind its begin");
        self.missed = None;
        Ok(Some(Gap { fault, next, first }))
    }

    /// Returns the damage that ended the reading; `None` at a sound end or a torn tail.
    fn damage_here(&mut self) -> Result<Option<Error>> {
        let fault = self.fault()?;
        if fault.is_some() || self.seal().is_some() {
            return Ok(fault);
        }
        let witness = self.signs()?.0.witness;
        self.disproved_by(witness)
    }

    /// Skips the damaged frame if its header is intact and gives length and hash link. Returns the next frame's seqno.
    fn behind_whole_header(&mut self) -> Result<Option<Seqno>> {
        let (before, expected) = (self.place, self.expected);
        for in_ring in [false, true] {
            let Some(source) = self.source_mut(in_ring) else { continue };
            let Ok(Some(header)) = source.header(before.offset) else { continue };
            let is_expected = expected.is_some_and(|expected| expected == header.seqno);
            if !is_expected || header.kind == FrameKind::Turnover {
                continue;
            }
            self.place = LogPlace { offset: before.offset + header.extent(), link: header.link, ..before };
            if let Some(next) = self.next_whole_frame()? {
                self.expected = Some(next.seqno);
                return Ok(Some(next.seqno));
            }
        }
        self.place = before;
        Ok(None)
    }

    /// Finds the next frame in this segment or the ring that the frame after it proves.
    fn behind_unknown(&mut self) -> Result<Option<Unlinked>> {
        let from = self.place.offset + 8;
        let Some(segment) = self.segments.last() else { return Ok(None) };
        let limit = segment.limit(from);
        let mut found = None;
        if let Ok(ring) = &self.ring {
            // The ring holds the end of the log; older offsets are in the segment.
            let capacity = ring.header.capacity;
            let start = from.max(ring.marks.acknowledged.saturating_sub(capacity) / 8 * 8);
            found = self.search(true, start, limit.min(start.saturating_add(2 * capacity)))?;
        }
        let until = found.as_ref().map_or(limit, |frame| frame.offset);
        Ok(self.search(false, from, until)?.or(found))
    }

    /// Searches one source for a frame that begins in a range of offsets.
    fn search(&mut self, in_ring: bool, from: u64, until: u64) -> Result<Option<Unlinked>> {
        let least = self.expected.unwrap_or(self.facts.seqno);
        let mut budget = until.saturating_sub(from).saturating_mul(4); // whole frames do not overlap
        let mut piece = vec![0; PIECE_BYTES as usize + FRAME_HEADER_BYTES - 8];
        let mut at = from;
        while at + FRAME_HEADER_BYTES as u64 <= until {
            let length = (until - at).min(piece.len() as u64) as usize / 8 * 8;
            self.read_piece(in_ring, at, &mut piece[..length]);
            for start in (0..=length - FRAME_HEADER_BYTES).step_by(8) {
                let Some(bytes) = piece[start..].first_chunk::<FRAME_HEADER_BYTES>() else { break };
                let Some(header) = FrameHeader::peek(bytes).filter(|header| header.seqno >= least) else { continue };
                let offset = at + start as u64;
                let Some(source) = self.source_mut(in_ring) else { return Ok(None) };
                if header.extent() > budget || header.extent() > source.limit(offset).saturating_sub(offset) {
                    continue;
                }
                budget -= header.extent();
                if let Some(body) = read_body(source, offset, &header)?
                    && self.is_proved(offset, &header, &body)?
                {
                    return Ok(Some(Unlinked { offset, header, body }));
                }
            }
            at += PIECE_BYTES;
        }
        Ok(None)
    }

    /// Reads page by page where a device does not return a page; such pages are left zero.
    fn read_piece(&mut self, in_ring: bool, at: u64, piece: &mut [u8]) {
        piece.fill(0);
        let Some(source) = self.source_mut(in_ring) else { return };
        if source.read(at, piece).is_ok() {
            return;
        }
        for (offset, page) in (at..).step_by(PAGE as usize).zip(piece.chunks_mut(PAGE as usize)) {
            if source.read(offset, page).is_err() {
                page.fill(0);
            }
        }
    }

    /// Returns true if the frame after this one follows its link and its seqno.
    fn is_proved(&mut self, offset: u64, header: &FrameHeader, body: &[u8]) -> Result<bool> {
        let taken = match header.kind {
            FrameKind::Batch | FrameKind::LargeBatch => match BatchOperations::new(body) {
                Ok(operations) => operations.remaining(),
                Err(_) => return Ok(false),
            },
            FrameKind::Padding | FrameKind::Skippable => 0,
            FrameKind::Turnover => return Ok(false), // its successor begins another segment
        };
        let before = self.place;
        self.place = LogPlace { offset: offset + header.extent(), link: header.link, ..before };
        let next = self.next_whole_frame();
        self.place = before;
        Ok(next?.is_some_and(|next| next.seqno == header.seqno + taken))
    }

    /// Takes the first frame behind a gap. Returns its seqno.
    fn begin_with(&mut self, frame: Unlinked, of: (&Env, &Path), visit: &mut Visit<'_>) -> Result<Seqno> {
        let Unlinked { offset, header, body } = frame;
        self.place = LogPlace { offset, ..self.place };
        (self.body, self.expected) = (body, Some(header.seqno));
        let tolerates = Tolerates { damaged: true, unread: true };
        match self.take(of, &header, tolerates, visit) {
            Ok(()) => {}
            Err(Stop::Refused(error)) => return Err(self.in_frame(error, false)),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Damage(error) | Stop::NotWhole(error) | Stop::Unread(error)) => self.damage = Some(error),
        }
        Ok(header.seqno)
    }

    fn source_mut(&mut self, in_ring: bool) -> Option<&mut dyn FrameSource> {
        match &mut self.ring {
            Ok(ring) if in_ring => Some(ring),
            _ if in_ring => None,
            _ => self.segments.last_mut().map(|segment| segment as &mut dyn FrameSource),
        }
    }
}
