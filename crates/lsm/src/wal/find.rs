//! The log without a manifest, for salvage: which segments there are, and what can be read from each on as far as it links.
//!
//! Nothing is judged here: nobody is left who could say where the log must end.

use std::io::{self, ErrorKind};
use std::path::Path;

use super::LogStart;
use super::recover::{Facts, Reading, Visit};
use super::ring::RingHeader;
use super::segment::{Place, SegmentHeader};
use crate::env::{Env, Open, read_exact};
use crate::error::{Error, IoContext, Result};
use crate::frame::PAGE_BYTES;
use crate::names::Name;

/// What there is of a log.
#[derive(Debug, Default)]
pub struct Segments {
    /// Every segment whose first page is whole, by the offset at which it begins; each with the newest ring.
    pub starts: Vec<LogStart>,
    /// One for each whose first page the device does not give: nobody can tell whether there was anything in it.
    pub unread: Vec<Error>,
    /// One for each whose first page has something in it and is not whole: it was hit, or a crash has cut off the making of the segment.
    pub damaged: Vec<Error>,
}

/// Looks at the first page of every segment.
pub fn find(env: &Env, dir: &Path) -> Result<Segments> {
    let names = env.fs.list(dir).during(|| "listing the store's directory")?;
    let page = |name: Name| -> io::Result<Vec<u8>> {
        read_exact(&*env.fs.open(&dir.join(name.to_string()), Open::Read)?, 0, PAGE_BYTES)
    };
    let (mut starts, mut unread, mut damaged, mut ring) = (Vec::new(), Vec::new(), Vec::new(), (0, 0));
    for name in names.iter().filter_map(|name| Name::parse(name)) {
        match name {
            Name::Segment(number) => {
                let header = match page(name) {
                    Ok(page) if page.iter().all(|byte| *byte == 0) => None, // it is being made
                    Ok(page) => {
                        let header = SegmentHeader::decode(&page);
                        header.map_err(|error| damaged.push(of_segment(error, name))).ok()
                    }
                    Err(error) => {
                        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) {
                            unread.push(Error::io(format!("reading the header of {name}"), error));
                        }
                        None
                    }
                };
                if let Some(SegmentHeader { nonce, first, .. }) = header.filter(|header| header.number == number) {
                    let place = Place { segment: number, nonce, offset: first, link: nonce };
                    starts.push(LogStart { place, ..LogStart::default() });
                }
            }
            Name::Ring(number) => {
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
    Ok(Segments { starts, unread, damaged })
}

fn of_segment(error: Error, name: Name) -> Error {
    // A bit of the version may have been hit: then it seems to be too new.
    let error = if error.is_corruption() { error } else { Error::structural(&error.to_string()) };
    error.in_file(&name.to_string(), 0)
}

/// Reads batches from a segment on, as far as each frame links to the one before; answers the numbers of the segments read.
pub fn read_linked(env: &Env, dir: &Path, from: &LogStart, visit: &mut Visit<'_>) -> Result<Vec<u64>> {
    let facts = Facts::default();
    let mut reading = Reading::begin(env, dir, from, &facts, false)?;
    reading.run(env, dir, visit)?;
    Ok(reading.segments.iter().map(|segment| segment.header.number).collect())
}
