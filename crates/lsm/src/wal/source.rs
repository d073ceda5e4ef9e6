//! The sources of frames for recovery: a segment, read through a window, and the ring, copied once. Beside a writer the
//! copy is taken immediately, otherwise when it is first needed.
//!
//! An unreadable page is damage to the frame that needs it, never the end of the log. Every length is checked against
//! the file's size before memory is allocated for it (I10).

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::env::{Env, File, Open, check_room, read_exact, read_into, try_resize};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, PAGE_BYTES};
use crate::names::StoreFileName;
use crate::planted;

use super::ring::{Marks, RingHeader};
use super::segment::{LogStart, PAGE, SegmentHeader};

/// Bytes of a segment read at once.
const WINDOW_BYTES: u64 = 256 * 1024;

/// The state of the frame at an offset.
pub(super) enum FrameLookup {
    /// A whole frame whose link fits; its body is in the buffer.
    Whole(FrameHeader),
    /// No fitting frame.
    Nothing,
    /// The bytes cannot be read.
    Unreadable(Error),
}

/// A file that holds frames by logical offset.
pub(super) trait FrameSource {
    /// The file's name.
    fn name(&self) -> &str;
    /// Position in the file of a logical offset.
    fn position(&self, offset: u64) -> u64;
    /// Offset after the last byte that can be read from `offset` on.
    fn limit(&self, offset: u64) -> u64;
    /// Copies bytes out. The caller has checked the limit.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// The frame at `offset`, if it is whole and follows `link`.
    fn frame(&mut self, offset: u64, link: u64, body: &mut Vec<u8>) -> FrameLookup {
        let header = match self.header(offset) {
            Ok(Some(header)) => header,
            Ok(None) => return FrameLookup::Nothing,
            Err(error) => return FrameLookup::Unreadable(self.unreadable(offset, error)),
        };
        body.clear();
        if let Err(error) = try_resize(body, header.length as usize) {
            return FrameLookup::Unreadable(Error::io(format!("reading a frame of {}", self.name()), error));
        }
        if let Err(error) = self.read(offset + FRAME_HEADER_BYTES as u64, body) {
            return FrameLookup::Unreadable(self.unreadable(offset, error));
        }
        let fits = planted!(
            RecycledFrameReplayed,
            header.body_sum == crate::checksum::hash(body) as u32,
            header.fits(link, offset, body)
        );
        if fits { FrameLookup::Whole(header) } else { FrameLookup::Nothing }
    }

    /// Reads the header at `offset`; Returns `None` without a valid header, or if the frame extends beyond the file.
    fn header(&mut self, offset: u64) -> io::Result<Option<FrameHeader>> {
        let left = self.limit(offset).saturating_sub(offset);
        if left < FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; FRAME_HEADER_BYTES];
        self.read(offset, &mut bytes)?;
        Ok(FrameHeader::peek(&bytes).filter(|header| header.extent() <= left))
    }

    /// Returns the damage for a frame at `offset` that cannot be read.
    fn unreadable(&self, offset: u64, error: io::Error) -> Error {
        missing(self.name(), self.position(offset), format!("the log cannot be read here: {error}"))
    }
}

/// Returns the damage for a required object that is missing.
pub(super) fn missing(file: &str, offset: u64, message: impl Into<String>) -> Error {
    let damage = Damage { file: file.to_owned(), offset, verdict: Verdict::Missing, ..Damage::default() };
    Error::corruption(damage, message)
}

fn misplaced(file: &str, message: &str) -> Error {
    let damage = Damage { file: file.to_owned(), verdict: Verdict::Misplaced, ..Damage::default() };
    Error::corruption(damage, message)
}

/// Opens a log file that must exist, and reads its page 0.
fn open(env: &Env, dir: &Path, name: &str) -> Result<(Arc<dyn File>, u64, Vec<u8>)> {
    let file = match env.fs.open(&dir.join(name), Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(missing(name, 0, "a file of the log is missing"));
        }
        opened => opened.during(|| format!("open {name}"))?,
    };
    let length = file.len().during(|| format!("ask for the length of {name}"))?;
    if length < PAGE {
        return Err(missing(name, 0, "a file of the log is shorter than its first page"));
    }
    let page = read_exact(&*file, 0, PAGE_BYTES)
        .map_err(|error| missing(name, 0, format!("the first page of a log file cannot be read: {error}")))?;
    Ok((file, length, page))
}

/// A segment, read front to back.
pub(super) struct SegmentSource {
    pub header: SegmentHeader,
    pub file: Arc<dyn File>,
    name: String,
    length: u64,
    window: Vec<u8>,
    /// Position of the window in the file.
    window_at: u64,
}

impl SegmentSource {
    /// Opens the segment with exactly this number, nonce and first offset; any other file is damage.
    pub(super) fn open(env: &Env, dir: &Path, number: u64, nonce: u64, first: u64) -> Result<SegmentSource> {
        let name = StoreFileName::Segment(number).to_string();
        let (file, length, page) = open(env, dir, &name)?;
        let header = SegmentHeader::decode(&page).map_err(|error| error.in_file(&name, 0))?;
        if (header.number, header.nonce, header.first) != (number, nonce, first) {
            return Err(misplaced(&name, "this is not the segment that the log goes on in"));
        }
        Ok(SegmentSource { header, file, name, length, window: Vec::new(), window_at: 0 })
    }

    /// Drops the bytes read ahead: a writer may have written there since.
    pub(super) fn forget(&mut self) {
        self.window.clear();
    }

    fn load(&mut self, from: u64, to: u64) -> io::Result<()> {
        self.window.resize((to - from) as usize, 0);
        self.window_at = from;
        let read = read_into(&*self.file, from, &mut self.window);
        if read.is_err() {
            self.window.clear();
        }
        read
    }
}

impl FrameSource for SegmentSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn position(&self, offset: u64) -> u64 {
        PAGE + offset.saturating_sub(self.header.first)
    }

    fn limit(&self, _offset: u64) -> u64 {
        self.header.first.saturating_add(self.length - PAGE)
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = self.position(offset);
        let end = at + out.len() as u64;
        if out.len() as u64 > WINDOW_BYTES / 2 {
            return read_into(&*self.file, at, out);
        }
        if at < self.window_at || end > self.window_at + self.window.len() as u64 {
            let from = at / PAGE * PAGE;
            // An unreadable page must not hide the readable ones before it: fall back to the requested range.
            if self.load(from, (from + WINDOW_BYTES).max(end).min(self.length)).is_err() {
                self.load(from, end.next_multiple_of(PAGE).min(self.length))?;
            }
        }
        let skip = (at - self.window_at) as usize;
        out.copy_from_slice(&self.window[skip..skip + out.len()]);
        Ok(())
    }
}

/// The ring as of the moment it was read.
pub(super) struct RingSource {
    pub header: RingHeader,
    pub marks: Marks,
    pub file: Arc<dyn File>,
    name: String,
    picture: Option<RingCopy>,
}

/// The contents of a ring when it was read.
pub(super) struct RingCopy {
    bytes: Vec<u8>,
    /// Numbers of the unreadable pages, and why.
    unreadable: Vec<(u64, io::ErrorKind)>,
}

impl RingSource {
    /// Opens exactly the ring that the manifest names; any other file is damage. Frames are read on first use.
    pub(super) fn open(env: &Env, dir: &Path, from: &LogStart) -> Result<RingSource> {
        let name = StoreFileName::Ring(from.ring).to_string();
        let (file, length, page) = open(env, dir, &name)?;
        let header = RingHeader::decode(&page).map_err(|error| error.in_file(&name, 0))?;
        if (header.number, header.nonce) != (from.ring, from.ring_nonce) {
            return Err(misplaced(&name, "this is not the ring of this log"));
        }
        let marks = header.marks(&page, &name)?;
        if header.capacity > length - PAGE {
            return Err(missing(&name, length, "the ring is shorter than it says"));
        }
        check_room(header.capacity as usize).during(|| format!("read {name}"))?;
        Ok(RingSource { header, marks, file, name, picture: None })
    }

    /// Copies the whole ring, unless that was done before.
    pub(super) fn take_copy(&mut self) -> &RingCopy {
        let (file, capacity) = (&*self.file, self.header.capacity);
        self.picture.get_or_insert_with(|| RingCopy::of(file, capacity))
    }
}

impl RingCopy {
    fn of(file: &dyn File, capacity: u64) -> RingCopy {
        let mut bytes = vec![0; capacity as usize];
        let mut unreadable = Vec::new();
        if read_into(file, PAGE, &mut bytes).is_err() {
            for (number, page) in (0..).zip(bytes.chunks_mut(PAGE_BYTES)) {
                if let Err(error) = read_into(file, PAGE + number * PAGE, page) {
                    unreadable.push((number, error.kind()));
                }
            }
        }
        RingCopy { bytes, unreadable }
    }
}

impl FrameSource for RingSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn position(&self, offset: u64) -> u64 {
        PAGE + if self.header.capacity == 0 { 0 } else { offset % self.header.capacity }
    }

    fn limit(&self, offset: u64) -> u64 {
        offset.saturating_add(self.header.capacity)
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let RingCopy { bytes, unreadable } = self.take_copy();
        let capacity = bytes.len() as u64;
        if out.len() as u64 > capacity {
            return Err(io::ErrorKind::UnexpectedEof.into()); // the ring holds no more at once
        }
        let touches = |page: u64| {
            let behind = (page * PAGE + capacity - offset % capacity) % capacity;
            behind < out.len() as u64 || behind + PAGE > capacity
        };
        if let Some((_, kind)) = unreadable.iter().find(|(page, _)| touches(*page)) {
            return Err((*kind).into());
        }
        let at = (offset % capacity) as usize;
        let head = out.len().min(bytes.len() - at);
        let (front, back) = out.split_at_mut(head);
        front.copy_from_slice(&bytes[at..at + head]);
        back.copy_from_slice(&bytes[..back.len()]);
        Ok(())
    }
}
