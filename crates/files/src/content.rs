//! Reads the bytes of a content, and adds the chunks of a whole one to a batch.

use waxseal::Batch;

use crate::digest::{Digest, without_trailing_zeros};
use crate::entry::{Chunks, Content, chunk_count};
use crate::error::{Error, ErrorKind, Result};
use crate::families::{Families, View};
use crate::holes::Holes;
use crate::records::{ContentId, chunk_key};

/// Passes the stored bytes of a chunk that is in no hole: its content without trailing zeros.
///
/// Errors: `Corruption` if the chunk is missing or longer than it may be. A damaged chunk is an error of the read.
pub(crate) fn visit_stored<R>(
    view: View<'_>,
    (id, chunk_bytes): (ContentId, u32),
    number: u32,
    visit: impl FnOnce(&[u8]) -> R,
) -> Result<R> {
    let found = view.visit_chunk(&chunk_key(id, number), |bytes| match bytes.len() <= chunk_bytes as usize {
        true => Ok(visit(bytes)),
        false => Err(bytes.len()),
    })?;
    match found {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(length)) => Err(Error::corruption(format!(
            "chunk {number} of content {id} has {length} bytes instead of {chunk_bytes}"
        ))),
        None => Err(Error::corruption(format!("chunk {number} of content {id} is missing"))),
    }
}

/// Copies the bytes of a chunk from `from` on to `out`, with zeros behind its stored bytes.
pub(crate) fn copy_padded(bytes: &[u8], from: usize, out: &mut [u8]) {
    let stored = bytes.get(from..).unwrap_or_default();
    let length = stored.len().min(out.len());
    out[..length].copy_from_slice(&stored[..length]);
    out[length..].fill(0);
}

/// Reads from a position of a content. Returns the number of bytes, which is short at the end of the file only.
pub(crate) fn read_at(view: View<'_>, content: &Content, size: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
    let length = size.saturating_sub(offset).min(out.len() as u64) as usize;
    let out = &mut out[..length];
    match content {
        Content::Inline(bytes) => copy_padded(bytes, usize::try_from(offset).unwrap_or(usize::MAX), out),
        Content::Chunks(chunks) => {
            for piece in pieces(chunks.chunk_bytes, offset, length) {
                let out = &mut out[piece.place..piece.place + piece.length];
                read_piece(view, chunks, &piece, out)?;
            }
        }
    }
    Ok(length)
}

/// Returns the first position from `offset` on that is in a hole; the end of the file counts as one. `None` at the end
/// and beyond it (`SEEK_HOLE`).
pub(crate) fn next_hole(content: &Content, size: u64, offset: u64) -> Option<u64> {
    let next = match content {
        Content::Inline(_) => size,
        Content::Chunks(chunks) => {
            let number = u32::try_from(offset / u64::from(chunks.chunk_bytes)).unwrap_or(u32::MAX);
            offset.max(u64::from(chunks.holes.next_hole(number)) * u64::from(chunks.chunk_bytes))
        }
    };
    (offset < size).then_some(next.min(size))
}

/// Returns the first position from `offset` on that is in no hole; `None` if nothing but holes follow (`SEEK_DATA`).
pub(crate) fn next_data(content: &Content, size: u64, offset: u64) -> Option<u64> {
    let next = match content {
        Content::Inline(_) => offset,
        Content::Chunks(chunks) => {
            let number = u32::try_from(offset / u64::from(chunks.chunk_bytes)).unwrap_or(u32::MAX);
            offset.max(u64::from(chunks.holes.next_stored(number)) * u64::from(chunks.chunk_bytes))
        }
    };
    (next < size).then_some(next)
}

/// Reads a part of one chunk.
pub(crate) fn read_piece(view: View<'_>, chunks: &Chunks, piece: &Piece, out: &mut [u8]) -> Result<()> {
    if chunks.holes.contains(piece.number) {
        out.fill(0);
        return Ok(());
    }
    let content = (chunks.id, chunks.chunk_bytes);
    visit_stored(view, content, piece.number, |bytes| copy_padded(bytes, piece.from, out))
}

/// The part of one chunk in a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// The chunk.
    pub(crate) number: u32,
    /// Where the part begins in the chunk.
    pub(crate) from: usize,
    /// Its length.
    pub(crate) length: usize,
    /// Where it begins in the range.
    pub(crate) place: usize,
}

/// Divides a range of a file by its chunks. The file's number of chunks fits 32 bits.
pub(crate) fn pieces(chunk_bytes: u32, offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut place = 0;
    std::iter::from_fn(move || {
        if place == length {
            return None;
        }
        let at = offset + place as u64;
        let from = (at % u64::from(chunk_bytes)) as usize;
        let part = (chunk_bytes as usize - from).min(length - place);
        let piece = Piece { number: (at / u64::from(chunk_bytes)) as u32, from, length: part, place };
        place += part;
        Some(piece)
    })
}

/// Returns an empty buffer for a whole content. Errors: `TooLarge` if memory does not hold it.
pub(crate) fn reserve(size: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX)).map_err(|_| {
        Error::of(ErrorKind::TooLarge, format!("{size} bytes do not fit into memory: read the file in parts"))
    })?;
    Ok(bytes)
}

/// Reads a whole content. Errors: `TooLarge` if memory does not hold it.
pub(crate) fn read_all(view: View<'_>, content: &Content, size: u64) -> Result<Vec<u8>> {
    let mut bytes = reserve(size)?;
    let length = bytes.capacity().min(size as usize);
    let Content::Chunks(chunks) = content else {
        bytes.resize(length, 0);
        read_at(view, content, size, 0, &mut bytes)?;
        return Ok(bytes);
    };
    for number in 0..chunk_count(size, chunks.chunk_bytes)? {
        let end = (bytes.len() + chunks.chunk_bytes as usize).min(length);
        if !chunks.holes.contains(number) {
            let span = end - bytes.len();
            let content = (chunks.id, chunks.chunk_bytes);
            visit_stored(view, content, number, |stored| bytes.extend_from_slice(&stored[..stored.len().min(span)]))?;
        }
        bytes.resize(end, 0);
    }
    Ok(bytes)
}

/// Collects the chunks of a new content that is written from front to back.
pub(crate) struct ChunkSink {
    pub(crate) id: ContentId,
    pub(crate) chunk_bytes: u32,
    holes: Holes,
    digest: Digest,
    count: u32,
}

impl ChunkSink {
    pub(crate) fn new(id: ContentId, chunk_bytes: u32) -> ChunkSink {
        ChunkSink { id, chunk_bytes, holes: Holes::default(), digest: Digest::default(), count: 0 }
    }

    /// Adds the next chunk to a batch, unless it is all zeros. All chunks but the last are full.
    pub(crate) fn push(&mut self, families: &Families, batch: &mut Batch, bytes: &[u8]) -> Result<()> {
        let (number, stored) = (self.count, without_trailing_zeros(bytes));
        if stored.is_empty() {
            return self.skip(families, batch, 1);
        }
        self.count += 1;
        self.digest += Digest::of_chunk(number, stored);
        batch.put(&families.chunks, chunk_key(self.id, number), stored);
        Ok(())
    }

    /// Adds a hole of several chunks. Of too many holes the smallest is filled at once: one for each batch.
    pub(crate) fn skip(&mut self, families: &Families, batch: &mut Batch, chunks: u32) -> Result<()> {
        let end = self.count.checked_add(chunks).ok_or_else(too_many_holes)?;
        self.holes.insert(self.count, end);
        self.count = end;
        if self.holes.beyond_limit() > MAX_FILLED {
            return Err(too_many_holes());
        }
        fill_holes(families, batch, self.id, &mut self.holes);
        Ok(())
    }

    /// Returns the number above those of all chunks.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the content and its digest.
    pub(crate) fn finish(self) -> (Content, Digest) {
        let chunks = Chunks { id: self.id, chunk_bytes: self.chunk_bytes, holes: self.holes };
        (Content::Chunks(chunks), self.digest)
    }
}

/// Most chunks of holes that one batch fills. An entry has 1,024 holes before any is filled.
pub(crate) const MAX_FILLED: u64 = 65_536;

pub(crate) fn too_many_holes() -> Error {
    Error::of(ErrorKind::TooLarge, "the file would have too many holes that are too large to fill")
}

/// Fills the smallest holes with empty chunks, until the entry can list the others. The caller has checked that these
/// are few.
pub(crate) fn fill_holes(families: &Families, batch: &mut Batch, id: ContentId, holes: &mut Holes) {
    while let Some((start, end)) = holes.smallest_beyond_limit() {
        for number in start..end {
            batch.put(&families.chunks, chunk_key(id, number), []);
        }
        holes.remove(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_at_the_ends_of_chunks() {
        let piece = |number, from, length, place| Piece { number, from, length, place };
        let all: Vec<Piece> = pieces(10, 8, 14).collect();
        assert_eq!(all, [piece(0, 8, 2, 0), piece(1, 0, 10, 2), piece(2, 0, 2, 12)]);
        assert_eq!(pieces(10, 20, 10).collect::<Vec<_>>(), [piece(2, 0, 10, 0)]);
        assert_eq!(pieces(10, 5, 0).count(), 0);
    }

    #[test]
    fn a_chunk_ends_in_the_zeros_that_it_does_not_store() {
        let mut out = [9; 4];
        copy_padded(b"abc", 1, &mut out);
        assert_eq!(&out, b"bc\0\0");
        copy_padded(b"abc", 5, &mut out);
        assert_eq!(out, [0; 4]);
    }
}
