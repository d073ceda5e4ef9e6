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

/// Every segment whose first page is whole, by the offset at which it begins; each with the newest ring. And an error for each whose
/// first page the device does not give: nobody can tell whether there was anything in it.
pub fn find(env: &Env, dir: &Path) -> Result<(Vec<LogStart>, Vec<Error>)> {
    let names = env.fs.list(dir).during(|| "listing the store's directory")?;
    let page = |name: Name| -> io::Result<Vec<u8>> {
        read_exact(&*env.fs.open(&dir.join(name.to_string()), Open::Read)?, 0, PAGE_BYTES)
    };
    let (mut starts, mut unread, mut ring) = (Vec::new(), Vec::new(), (0, 0));
    for name in names.iter().filter_map(|name| Name::parse(name)) {
        match name {
            Name::Segment(number) => {
                let header = match page(name) {
                    Ok(page) => SegmentHeader::decode(&page).ok(),
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
    Ok((starts, unread))
}

/// Reads batches from a segment on, as far as each frame links to the one before; answers the numbers of the segments read.
pub fn read_linked(env: &Env, dir: &Path, from: &LogStart, visit: &mut Visit<'_>) -> Result<Vec<u64>> {
    let facts = Facts::default();
    let mut reading = Reading::begin(env, dir, from, &facts, false)?;
    reading.run(env, dir, visit)?;
    Ok(reading.segments.iter().map(|segment| segment.header.number).collect())
}
