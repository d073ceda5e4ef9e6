//! The ends of a table file: header, footer, and what the footer names, which is everything but the data blocks.
//!
//! In:    an open file and what the manifest says of it. Out: index, filter and properties, checked.
//! Costs: two reads for a table whose index and filter are small, header and tail; one more for each block that reaches out of the
//!        tail. A tail that cannot be read as a whole is read piece by piece: a bad page among the data takes nothing along.
//! Holds: no length is believed before it was held against the file's (I10), and nothing before its sum was checked.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use super::dictionary::Dictionary;
use super::filter::{self, Filter};
use super::format::{FOOTER_BYTES, Footer, Handle, Stored, check, digest, misplaced};
use super::index::Index;
use super::policed::{self, Policed};
use super::properties::Properties;
use super::table::Expected;
use crate::checksum::{Role, Uid};
use crate::env::{File, read_exact};
use crate::error::{Damage, Error, ErrorKind, Result};
use crate::header::{FileKind, HEADER_BYTES, Header};
use crate::order::Order;
use crate::policy::FilterPolicy;
use crate::record::Seqno;

/// Bytes at the end of a file that are read at once: footer, properties, and of a small table index and filter.
const TAIL_BYTES: u64 = 16 * 1024;

/// Everything of a table but its records.
pub(super) struct Parts {
    pub(super) base: Seqno,
    pub(super) properties: Properties,
    pub(super) filter: Option<Filter>,
    pub(super) policed: Option<Policed>,
    pub(super) index: Index,
    pub(super) dictionary: Option<Arc<Dictionary>>,
}

impl Parts {
    /// True if there is a dictionary that cannot be read.
    pub(super) fn lacks_dictionary(&self) -> bool {
        self.dictionary.as_ref().is_some_and(|dictionary| !dictionary.is_whole())
    }
}

/// The last bytes of a file, read at once. Not yet believed.
pub(super) struct Tail {
    from: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// Reads it; where that fails it holds nothing.
    pub(super) fn read(file: &dyn File, size: u64) -> Tail {
        let from = size - size.min(TAIL_BYTES);
        Tail { from, bytes: read_exact(file, from, (size - from) as usize).unwrap_or_default() }
    }

    /// Bytes of the file: from here, or read.
    fn or_read(&self, file: &dyn File, offset: u64, length: usize) -> io::Result<Cow<'_, [u8]>> {
        let start = offset.checked_sub(self.from).and_then(|start| usize::try_from(start).ok());
        let held = start.and_then(|start| self.bytes.get(start..start.checked_add(length)?));
        held.map_or_else(|| read_exact(file, offset, length).map(Cow::Owned), |held| Ok(Cow::Borrowed(held)))
    }
}

/// An error of the operating system while reading; an early end is damage, since lengths are checked before.
pub(super) fn read_error(name: &str, offset: u64, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Error::structural("the file ends too early").in_file(name, offset);
    }
    Error::io(format_args!("reading {name} at {offset}"), error)
}

/// Reads a block with its trailer. Its handle was checked against the file's length.
pub(super) fn read_framed(name: &str, file: &dyn File, handle: &Handle) -> Result<Vec<u8>> {
    read_exact(file, handle.offset, handle.bytes()).map_err(|error| read_error(name, handle.offset, error))
}

/// Reads and checks header and footer.
pub(super) fn read_ends(name: &str, file: &dyn File, size: u64, tail: &Tail) -> Result<(Uid, Footer)> {
    let Some(footer_at) = size.checked_sub(FOOTER_BYTES as u64).filter(|at| *at >= HEADER_BYTES as u64) else {
        return Err(Error::structural("the file is too short for a table").in_file(name, 0));
    };
    let read = |offset, length| tail.or_read(file, offset, length).map_err(|error| read_error(name, offset, error));
    let header = Header::decode(&read(0, HEADER_BYTES)?, FileKind::Table).map_err(|error| error.in_file(name, 0))?;
    let footer = Footer::decode(&read(footer_at, FOOTER_BYTES)?, &header.uid);
    Ok((header.uid, footer.map_err(|error| error.in_file(name, footer_at))?))
}

/// Reads and checks everything but the data blocks.
pub(super) fn read_parts(
    name: &str,
    file: &dyn File,
    expected: Expected,
    order: &Order,
    policy: Option<&Arc<dyn FilterPolicy>>,
) -> Result<Parts> {
    let size = file.len().map_err(|error| read_error(name, 0, error))?;
    if size != expected.size {
        let message = format!("the file has {size} bytes, not {}", expected.size);
        return Err(Error::corruption(Damage::default(), message).in_file(name, size.min(expected.size)));
    }
    let tail = Tail::read(file, size);
    let (uid, footer) = read_ends(name, file, size, &tail)?;
    let footer_at = size - FOOTER_BYTES as u64;
    if uid != expected.uid {
        return Err(misplaced("another file stands under this name").in_file(name, 0));
    }
    if footer.digest != expected.digest {
        return Err(misplaced("another state of the file than the manifest names").in_file(name, footer_at));
    }
    if !footer.range_deletes.is_absent() {
        return Err(Error::of(
            ErrorKind::FormatTooNew,
            format!("{name} has range deletes, which this version cannot read"),
        ));
    }
    let blocks = Blocks { name, file, uid, end: footer_at, tail: &tail };
    let properties = blocks.read(&footer.properties, Role::Properties, Properties::decode)?;
    if properties.comparator != order.name() {
        let (kept, given) = (&properties.comparator, order.name());
        return Err(Error::invalid(format!("{name} is ordered by {kept:?}, the family was opened with {given:?}")));
    }
    let data_end = footer.sides().map(|handle| handle.offset).into_iter();
    let data_end = data_end.filter(|offset| *offset > 0).min().unwrap_or(footer_at);
    let index = blocks.read(&footer.index, Role::Index, |body| Index::decode(body, order, data_end))?;
    let in_index = |error: Error| error.in_file(name, footer.index.offset);
    if properties.data_blocks != index.len() as u64 || index.data_end() != data_end {
        return Err(in_index(Error::structural("the index does not name the blocks that are there")));
    }
    let (mut filter, mut policed) = (None, None);
    match (properties.filter.as_deref(), policy) {
        (Some(filter::NAME), _) => {
            let own = blocks.read(&footer.filter, Role::Filter, Filter::decode)?;
            filter = order.is_hashable().then_some(own);
        }
        (Some(name), Some(policy)) if name == policed::name_of(&**policy) => {
            policed = Some(blocks.read(&footer.filter, Role::Filter, |body| Policed::decode(body, policy.clone()))?);
        }
        _ => {}
    }
    let dictionary = match footer.side.is_absent() {
        true => None,
        false => Some(Arc::new(Dictionary::or_lost(blocks.read(&footer.side, Role::Side, Dictionary::of))?)),
    };
    let sides = footer.sides().into_iter().filter(|handle| !handle.is_absent());
    let found = digest(index.handles().iter().chain(sides).map(|handle| handle.crc));
    if found != footer.digest {
        return Err(Error::mismatch(footer.digest, found, "table digest").in_file(name, footer_at));
    }
    Ok(Parts { base: footer.base_seqno, properties, filter, policed, index, dictionary })
}

/// The blocks of a file that are not data.
struct Blocks<'a> {
    name: &'a str,
    file: &'a dyn File,
    uid: Uid,
    end: u64,
    tail: &'a Tail,
}

impl Blocks<'_> {
    fn read<T>(&self, handle: &Handle, role: Role, decode: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let decoded = handle.check_within(self.end).and_then(|()| {
            let block = self.tail.or_read(self.file, handle.offset, handle.bytes());
            let block = block.map_err(|error| read_error(self.name, handle.offset, error))?;
            let (stored, codec) = check(&block, &self.uid, role, handle)?;
            decode(Stored::split(stored, codec)?.body(handle.raw_len, &mut Vec::new(), None)?)
        });
        decoded.map_err(|error| error.in_file(self.name, handle.offset))
    }
}
