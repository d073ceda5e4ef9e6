//! Reads the frames of segments whose extent is known, front to back: those that the change feed keeps, and the live log
//! up to an offset to which it was drained. Every frame is checked against its link, so bytes of another file or of a
//! recycled one are never taken for the log.

use std::path::{Path, PathBuf};

use crate::codec::Reader;
use crate::env::Env;
use crate::error::{Damage, Error, Result, Verdict};
use crate::frame::{FrameHeader, FrameKind};
use crate::record::Seqno;

use super::source::{FrameLookup, FrameSource, SegmentSource};

/// A frame with operations.
#[derive(Clone, Copy, Debug)]
pub struct ForwardFrame<'a> {
    /// Seqno of its first operation.
    pub seqno: Seqno,
    /// Count and operations.
    pub body: &'a [u8],
}

/// A place in a log that is read forward.
pub struct LogCursor {
    env: Env,
    dir: PathBuf,
    segment: SegmentSource,
    offset: u64,
    link: u64,
    body: Vec<u8>,
}

impl std::fmt::Debug for LogCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogCursor").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl LogCursor {
    /// Starts at the first frame of a segment. Errors: `Corruption` if it is missing or another one, `Io`.
    pub fn open(env: &Env, dir: &Path, number: u64, nonce: u64, first: u64) -> Result<LogCursor> {
        let segment = SegmentSource::open(env, dir, number, nonce, first)?;
        let (env, dir) = (env.clone(), dir.to_owned());
        Ok(LogCursor { env, dir, segment, offset: first, link: nonce, body: Vec::new() })
    }

    /// Returns the logical offset of the next frame.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of the segment that is being read.
    pub fn segment(&self) -> u64 {
        self.segment.header.number
    }

    /// Returns the next frame with operations; `None` at offset `until`, which must be the end of a frame that was
    /// written to the segments. Errors: `Corruption` with file and position if a frame is missing or damaged, `Io`.
    pub fn next(&mut self, until: u64) -> Result<Option<ForwardFrame<'_>>> {
        while self.offset < until {
            let header = self.whole_frame()?;
            let end = self.offset + header.extent();
            match header.kind {
                FrameKind::Batch | FrameKind::LargeBatch => {
                    (self.offset, self.link) = (end, header.link);
                    return Ok(Some(ForwardFrame { seqno: header.seqno, body: &self.body }));
                }
                FrameKind::Padding | FrameKind::Skippable => (self.offset, self.link) = (end, header.link),
                FrameKind::Turnover if end >= until => (self.offset, self.link) = (end, header.link),
                FrameKind::Turnover => {
                    let mut reader = Reader::new(&self.body);
                    let (number, nonce, first) = (reader.u64()?, reader.u64()?, reader.u64()?);
                    if first < end {
                        return Err(self.damaged("a segment that begins before the one it follows ends"));
                    }
                    self.segment = SegmentSource::open(&self.env, &self.dir, number, nonce, first)?;
                    (self.offset, self.link) = (first, nonce);
                }
            }
        }
        Ok(None)
    }

    fn whole_frame(&mut self) -> Result<FrameHeader> {
        for _ in 0..2 {
            match self.segment.frame(self.offset, self.link, &mut self.body) {
                FrameLookup::Whole(header) => return Ok(header),
                FrameLookup::Unreadable(error) => return Err(error),
                FrameLookup::Nothing => self.segment.forget(),
            }
        }
        Err(self.damaged("a frame of the log is damaged or missing"))
    }

    fn damaged(&self, what: &str) -> Error {
        let (file, offset) = (self.segment.name().to_owned(), self.segment.position(self.offset));
        Error::corruption(Damage { file, offset, verdict: Verdict::Checksum, ..Damage::default() }, what)
    }
}
