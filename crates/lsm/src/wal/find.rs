//! Reads the log without a manifest, for salvage: finds the segments, and reads from each of them as far as frames
//! link.
//!
//! Nothing is judged here: without the manifest there is no proof of where the log must end.

use std::io::{self, ErrorKind};
use std::path::Path;

use super::recover::{LogProofs, LogReading, Visit};
use super::ring::RingHeader;
use super::segment::{LogPlace, LogStart, SegmentHeader};
use crate::env::{Env, File, Machine, Open, read_exact, read_into};
use crate::error::{Error, IoContext, Result};
use crate::frame::PAGE_BYTES;
use crate::names::StoreFileName;

/// Bytes read at once.
const PIECE_BYTES: usize = 256 * 1024;

/// The segments found in a directory.
#[derive(Debug, Default)]
pub struct FoundSegments {
    /// Every segment whose first page is intact, by its first offset; each is paired with the newest ring.
    pub starts: Vec<LogStart>,
    /// One error for each segment whose first page the device does not return: its contents are unknown.
    pub unread: Vec<Error>,
    /// Segments whose first page is damaged.
    pub damaged: Vec<HeadlessSegment>,
}

/// A segment without a header: it was damaged, or a crash interrupted the creation of the segment.
#[derive(Clone, Debug)]
pub struct HeadlessSegment {
    /// The damage of its first page.
    pub error: Error,
    /// True if bytes other than zero follow the first page: the segment may have held frames.
    pub is_used: bool,
}

/// Looks at the first page of every segment. Files that `is_other` names are another store's, and left alone.
pub fn find(env: &Env, dir: &Path, is_other: &dyn Fn(StoreFileName) -> bool) -> Result<FoundSegments> {
    let names = env.fs.list(dir).during(|| "listing the store's directory")?;
    let open = |name: StoreFileName| env.fs.open(&dir.join(name.to_string()), Open::Read);
    let page = |name: StoreFileName| -> io::Result<Vec<u8>> { read_exact(&*open(name)?, 0, PAGE_BYTES) };
    let headless = |error: Error, name: StoreFileName| {
        let is_used = open(name).and_then(|file| is_used(&*file)).unwrap_or(true);
        HeadlessSegment { error: of_segment(error, name), is_used }
    };
    let (mut starts, mut unread, mut damaged, mut ring) = (Vec::new(), Vec::new(), Vec::new(), (0, 0));
    for name in names.iter().filter_map(|name| StoreFileName::parse(name)).filter(|name| !is_other(*name)) {
        match name {
            StoreFileName::Segment(number) => {
                let header = match page(name) {
                    Ok(page) => match SegmentHeader::decode(&page) {
                        Ok(header) => Some(header),
                        Err(error) => {
                            let headless = headless(error, name);
                            // A file without a nonzero byte is a segment under creation.
                            if headless.is_used || page.iter().any(|byte| *byte != 0) {
                                damaged.push(headless);
                            }
                            None
                        }
                    },
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                        damaged.push(headless(Error::structural("the segment has no header"), name));
                        None
                    }
                    Err(error) => {
                        if error.kind() != ErrorKind::NotFound {
                            unread.push(Error::io(format!("reading the header of {name}"), error));
                        }
                        None
                    }
                };
                if let Some(SegmentHeader { nonce, first, .. }) = header.filter(|header| header.number == number) {
                    let place = LogPlace { segment: number, nonce, offset: first, link: nonce };
                    starts.push(LogStart { place, ..LogStart::default() });
                }
            }
            StoreFileName::Ring(number) => {
                let header = page(name).ok().and_then(|page| RingHeader::decode(&page).ok());
                if let Some(header) = header.filter(|header| header.number == number) {
                    ring = ring.max((number, header.nonce));
                }
            }
            _ => {}
        }
    }
    starts.sort_by_key(|start| start.place.offset);
    let starts = starts.into_iter().map(|start| LogStart { ring: ring.0, ring_nonce: ring.1, ..start }).collect();
    Ok(FoundSegments { starts, unread, damaged })
}

/// True if the file has a nonzero byte after its first page.
fn is_used(file: &dyn File) -> io::Result<bool> {
    let (length, mut piece) = (file.len()?, vec![0; PIECE_BYTES]);
    let mut at = PAGE_BYTES as u64;
    while at < length {
        let part = (length - at).min(PIECE_BYTES as u64) as usize;
        read_into(file, at, &mut piece[..part])?;
        if piece[..part].iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
        at += part as u64;
    }
    Ok(false)
}

fn of_segment(error: Error, name: StoreFileName) -> Error {
    // A bit flip in the version number makes the file look too new: report it as damage.
    let error = if error.is_corruption() { error } else { Error::structural(&error.to_string()) };
    error.in_file(&name.to_string(), 0)
}

/// Reads batches, starting at a segment, as long as each frame links to its predecessor. Returns the numbers of the
/// segments read.
pub fn read_linked(env: &Env, dir: &Path, from: &LogStart, visit: &mut Visit<'_>) -> Result<Vec<u64>> {
    let facts = LogProofs::default();
    let mut reading = LogReading::begin((env, dir), from, &facts, Machine::default(), false)?;
    reading.run(env, dir, visit)?;
    Ok(reading.segments.iter().map(|segment| segment.header.number).collect())
}
