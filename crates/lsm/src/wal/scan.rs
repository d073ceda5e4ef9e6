//! Searches for traces of frames after the point where the log stopped being readable.
//!
//! Recovery never replays a frame found here. The search finds out whether commits were lost, so that a cut is
//! reported. It also finds out whether a later frame proves that the point had been synced, so that damage is not
//! mistaken for a torn tail. Stale frames of an earlier use have lower seqnos than any frame that could be here, and do
//! not count.
//!
//! A length is bounded by what its source holds before memory is requested for a body. Memory that is not available is
//! an error and never "no frame": the search would otherwise miss a lost commit.

use crate::checksum::hash;
use crate::env::try_resize;
use crate::error::{IoContext, Result};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, Mark};
use crate::record::{MAX_SEQNO, Seqno};

use super::source::FrameSource;

/// Bytes searched in one piece.
const PIECE_BYTES: u64 = 64 * 1024;

/// The traces found after a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameTraces {
    /// End of the last frame, or of the torn one at the point itself; 0 if there is none.
    pub end: u64,
    /// The greatest witness in a padding frame that directly follows its predecessor.
    pub witness: u64,
}

/// True if a frame is evidence of a commit here. A filler with the next seqno is not: the last fillers before the point
/// carry it, and they reappear in the ring.
fn is_sign(header: &FrameHeader, least: Seqno) -> bool {
    matches!(header.kind, FrameKind::Batch | FrameKind::LargeBatch) || header.seqno > least
}

/// True if the bytes at `offset` look like a damaged or torn copy of the expected frame.
pub(super) fn is_torn_frame(source: &mut dyn FrameSource, offset: u64, expected: Option<Seqno>) -> Result<bool> {
    let Some(seqno) = seqno_at(source, offset) else { return Ok(false) };
    match expected {
        Some(expected) if expected != 0 && seqno == expected => Ok(true),
        // The seqno itself may have flipped bits.
        Some(expected) => Ok((seqno ^ expected).count_ones() <= 2 && has_whole_body(source, offset)?),
        None => has_whole_body(source, offset),
    }
}

/// Reads the seqno field of a header at `offset` without checking the rest.
fn seqno_at(source: &mut dyn FrameSource, offset: u64) -> Option<Seqno> {
    let mut bytes = [0; FRAME_HEADER_BYTES];
    let room = source.limit(offset).saturating_sub(offset) >= FRAME_HEADER_BYTES as u64;
    (room && source.read(offset, &mut bytes).is_ok()).then(|| {
        let (words, _) = bytes.as_chunks::<8>();
        u64::from_le_bytes(words[1]) & MAX_SEQNO
    })
}

/// True if the frame at `offset` has a body that matches its header, wherever the frame belongs.
fn has_whole_body(source: &mut dyn FrameSource, offset: u64) -> Result<bool> {
    match source.header(offset) {
        Ok(Some(header)) => Ok(read_body(source, offset, &header)?.is_some()),
        _ => Ok(false),
    }
}

/// Reads the body of a frame, if it fits the header. The caller has checked that the frame ends within the source.
/// Returns `Io` if the memory is not available.
pub(super) fn read_body(source: &mut dyn FrameSource, offset: u64, header: &FrameHeader) -> Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    try_resize(&mut body, header.length as usize).during(|| format!("reading a frame of {}", source.name()))?;
    let is_read = source.read(offset + FRAME_HEADER_BYTES as u64, &mut body).is_ok();
    Ok((is_read && hash(&body) as u32 == header.body_sum).then_some(body))
}

/// Searches for frames from offset `from` on, and ignores frames with seqnos below `least`. Returns `Io` if the memory
/// for a frame is not available.
pub(super) fn scan(
    source: &mut dyn FrameSource,
    from: u64,
    expected: Option<Seqno>,
    least: Seqno,
) -> Result<FrameTraces> {
    let mut signs = FrameTraces::default();
    let limit = source.limit(from);
    if limit < from + FRAME_HEADER_BYTES as u64 {
        return Ok(signs);
    }
    // An operation takes at least four bytes, so no frame here can have a higher seqno.
    let seqnos = least..=least.saturating_add((limit - from) / 4);
    // Limit on the total length of hashed bodies: real frames do not overlap.
    let mut budget = 4 * (limit - from);
    let mut before: Option<(u64, u64)> = None;
    let mut piece = vec![0; PIECE_BYTES as usize + FRAME_HEADER_BYTES - 8];
    let mut at = from;
    while at + FRAME_HEADER_BYTES as u64 <= limit {
        let length = (limit - at).min(piece.len() as u64) as usize / 8 * 8;
        let piece = &mut piece[..length];
        if source.read(at, piece).is_ok() {
            for start in (0..=length - FRAME_HEADER_BYTES).step_by(8) {
                let Some(bytes) = piece[start..].first_chunk::<FRAME_HEADER_BYTES>() else { break };
                let Some(header) = FrameHeader::peek(bytes) else { continue };
                let offset = at + start as u64;
                let extent = header.extent();
                if !seqnos.contains(&header.seqno) || extent > limit - offset || extent > budget {
                    continue;
                }
                budget -= extent;
                let Some(body) = read_body(source, offset, &header)? else { continue };
                if is_sign(&header, least) {
                    signs.end = signs.end.max(offset + extent);
                }
                let follows = before.is_some_and(|(end, link)| end == offset && header.fits(link, offset, &body));
                if let (true, FrameKind::Padding, Some(word)) = (follows, header.kind, body.first_chunk::<8>()) {
                    let witness = Mark::Synced.decode(0, u64::from_le_bytes(*word)).unwrap_or(0);
                    signs.witness = signs.witness.max(witness.min(offset));
                }
                before = Some((offset + extent, header.link));
            }
        }
        at += PIECE_BYTES;
    }
    if expected.is_some_and(|expected| expected != 0 && seqno_at(source, from) == Some(expected)) {
        let header = source.header(from).ok().flatten();
        if header.is_none_or(|header| is_sign(&header, least)) {
            let torn = header.map_or(FRAME_HEADER_BYTES as u64, |header| header.extent());
            signs.end = signs.end.max(from + torn);
        }
    }
    Ok(signs)
}
