//! Copies the frames that a recovery read to segments of their own, which the change feed keeps: the log that was read is
//! replaced, and part of it may be in the ring alone.
//!
//! Out:   segments as the log writes them, with other nonces and offsets; the frames keep their seqnos and bodies.
//! Holds: `finish` makes the files durable, not their names: the caller syncs the directory before an edit keeps them.
//! Crash: segments that no edit names, which the next open removes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checksum::hash;
use crate::env::{Env, File, Machine, Open};
use crate::error::{Error, IoContext, Result};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::identity::StoreIdentity;
use crate::names::StoreFileName;
use crate::record::Seqno;

use super::segment::{PAGE, SegmentHeader};
use super::supply::Numbers;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 256 * 1024;

/// A segment that holds copied frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedSegment {
    /// Its number.
    pub number: u64,
    /// Its nonce.
    pub nonce: u64,
    /// The end of its frames; they begin at offset 0.
    pub end: u64,
    /// The seqno after its last operation.
    pub next_seqno: Seqno,
}

/// Writes copied frames.
pub struct KeptLogCopy {
    env: Env,
    dir: PathBuf,
    store: StoreIdentity,
    numbers: Numbers,
    segment_bytes: u64,
    open: Option<OpenCopy>,
    written: Vec<CopiedSegment>,
}

/// The segment that is being written.
struct OpenCopy {
    file: Arc<dyn File>,
    segment: CopiedSegment,
    link: u64,
    /// Frames that are not written yet.
    buffer: Vec<u8>,
}

impl OpenCopy {
    fn name(&self) -> StoreFileName {
        StoreFileName::Segment(self.segment.number)
    }

    fn write(&mut self) -> Result<()> {
        let at = PAGE + self.segment.end - self.buffer.len() as u64;
        self.file.write_at(&self.buffer, at).during(|| format!("writing {}", self.name()))?;
        self.buffer.clear();
        Ok(())
    }
}

impl KeptLogCopy {
    /// Creates a copy without frames: no file exists before the first one.
    pub fn new(env: &Env, (dir, store): (&Path, &StoreIdentity), segment_bytes: u64, numbers: Numbers) -> KeptLogCopy {
        let (env, dir, store) = (env.clone(), dir.to_owned(), store.clone());
        KeptLogCopy { env, dir, store, numbers, segment_bytes, open: None, written: Vec::new() }
    }

    /// Appends a frame of `count` operations.
    pub fn push(&mut self, seqno: Seqno, count: u64, body: &[u8]) -> Result<()> {
        let length = u32::try_from(body.len()).map_err(|_| Error::structural("a frame of 4 GiB or more"))?;
        if self.open.as_ref().is_some_and(|open| open.segment.end >= self.segment_bytes) {
            self.end_segment()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(begin(&self.env, &self.dir, &self.store, (self.numbers)())?),
        };
        let header = FrameHeader::chained(open.link, open.segment.end, FrameKind::Batch, seqno, length, hash(body));
        open.buffer.extend_from_slice(&header.encode());
        open.buffer.extend_from_slice(body);
        let padding = header.extent() as usize - FRAME_HEADER_BYTES - body.len();
        open.buffer.extend_from_slice(&[0; 8][..padding]);
        open.segment.end += header.extent();
        open.segment.next_seqno = seqno + count;
        open.link = header.link;
        if open.buffer.len() >= WRITE_BYTES { open.write() } else { Ok(()) }
    }

    /// Makes all segments durable, and returns them, oldest first.
    pub fn finish(mut self) -> Result<Vec<CopiedSegment>> {
        self.end_segment()?;
        Ok(self.written)
    }

    fn end_segment(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.write()?;
        open.file.sync_data().during(|| format!("syncing {}", open.name()))?;
        self.written.push(open.segment);
        Ok(())
    }
}

fn begin(env: &Env, dir: &Path, store: &StoreIdentity, number: u64) -> Result<OpenCopy> {
    let (name, nonce) = (StoreFileName::Segment(number).to_string(), env.random.next_u64());
    let file = env.fs.open(&dir.join(&name), Open::Create).during(|| format!("creating {name}"))?;
    // The machine does not matter: no recovery reads the segment.
    let header = SegmentHeader { number, nonce, first: 0, machine: Machine::default(), length: 0 };
    file.write_at(&header.encode(env.random.uid(), store), 0).during(|| format!("writing {name}"))?;
    let segment = CopiedSegment { number, nonce, end: 0, next_seqno: 0 };
    Ok(OpenCopy { file, segment, link: nonce, buffer: Vec::new() })
}
