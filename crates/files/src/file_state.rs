//! The state of a file that handles have open: its last commit, and the changes since.
//!
//! Changed chunks wait in memory until a flush commits them with the entry's size, times and digest in one batch. A
//! chunk that is partly overwritten is read first, and so is a chunk that is overwritten as a whole: the file's digest
//! changes by the difference of the chunk's digests.

use std::collections::BTreeMap;
use std::ops::Range;

use waxseal::Batch;

use crate::content::{
    MAX_FILLED, Piece, copy_padded, fill_holes, next_data, next_hole, pieces, read_at, read_piece, too_many_holes,
    visit_stored,
};
use crate::digest::{Digest, without_trailing_zeros};
use crate::entry::{Chunks, Content, Entry, MAX_INLINE_BYTES, Xattrs, chunk_count};
use crate::error::{Error, ErrorKind, Result};
use crate::families::{Families, View};
use crate::holes::Holes;
use crate::ids::Ids;
use crate::metadata::Metadata;
use crate::path::FilePath;
use crate::reclaim::Pin;
use crate::records::{ContentId, chunk_key, reclaim_key, reclaim_value};

/// The id of a content that gets its id at the next flush.
const UNASSIGNED: ContentId = 0;

/// A range with at most this many stored chunks is deleted chunk by chunk.
const POINT_DELETES: usize = 16;

/// The state of one open file.
pub(crate) struct FileState {
    /// `None` once the entry was removed or replaced: the file lives until its last handle is closed.
    pub(crate) path: Option<FilePath>,
    /// The entry as it was committed last.
    pub(crate) committed: Entry,
    /// The entry with all changes. The digests of changed chunks are those of the last commit.
    current: Entry,
    changed: BTreeMap<u32, ChangedChunk>,
    /// The sum of the memory of `changed`.
    changed_bytes: usize,
    /// The numbers of committed chunks that were cut off or zeroed. The next flush deletes them.
    dropped: Holes,
    is_changed: bool,
    /// One more than the number of times that changes were committed or discarded.
    generation: u64,
    /// Pins the committed content.
    pub(crate) pin: Option<Pin>,
    /// The chunk size of a content that this file gets.
    chunk_bytes: u32,
    /// The snapshot that the handle of a read-only store reads: a refresh shows the chunks of newer commits.
    at: Option<waxseal::Snapshot>,
}

/// A chunk that waits for the next flush.
struct ChangedChunk {
    /// Its content up to some place, with zeros behind it.
    bytes: Vec<u8>,
    /// The digest of the chunk in the last commit, as counted in the file's.
    before: Digest,
    /// Whether the last commit has a record for it.
    is_stored: bool,
}

impl ChangedChunk {
    /// Returns the bytes of memory that the chunk takes, with its place in the map.
    fn memory(&self) -> usize {
        const PLACE: usize = 2 * size_of::<(u32, ChangedChunk)>(); // nodes of the map are at least half full
        self.bytes.capacity() + PLACE
    }
}

/// What a flush commits, apart from its batch.
pub(crate) struct Flush {
    pub(crate) entry: Entry,
    /// A content that the entry no longer has, and the number that its chunks are below.
    pub(crate) replaced: Option<(ContentId, u32)>,
    /// The content of a file without a path, whose chunks have grown.
    pub(crate) orphaned: Option<(ContentId, u32)>,
}

impl FileState {
    pub(crate) fn new(path: FilePath, entry: Entry, pin: Option<Pin>, chunk_bytes: u32) -> FileState {
        FileState {
            path: Some(path),
            current: entry.clone(),
            committed: entry,
            changed: BTreeMap::new(),
            changed_bytes: 0,
            dropped: Holes::default(),
            is_changed: false,
            generation: 1,
            pin,
            chunk_bytes,
            at: None,
        }
    }

    /// Returns the state of a file that is read in a snapshot and never changes.
    pub(crate) fn in_snapshot(path: FilePath, entry: Entry, at: waxseal::Snapshot, chunk_bytes: u32) -> FileState {
        FileState { at: Some(at), ..FileState::new(path, entry, None, chunk_bytes) }
    }

    /// Returns the attributes with all changes. The digest is that of the last commit until a flush.
    pub(crate) fn metadata(&self) -> Metadata {
        Metadata { has_changes: self.is_changed, is_removed: self.path.is_none(), ..self.current.metadata }
    }

    pub(crate) fn size(&self) -> u64 {
        self.current.metadata.size
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns a number that differs before and after the changes are committed or discarded. It is never 0.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the bytes of memory that changed chunks take.
    pub(crate) fn changed_bytes(&self) -> usize {
        self.changed_bytes
    }

    /// Returns the extended attributes.
    pub(crate) fn xattrs(&self) -> &Xattrs {
        &self.current.xattrs
    }

    /// Sets the path after a rename or a removal at a time, which later flushes keep as `ctime`.
    pub(crate) fn set_path(&mut self, path: Option<FilePath>, now: i64) {
        self.path = path;
        self.set_attributes(|entry| entry.metadata.ctime = entry.metadata.ctime.max(now));
    }

    /// Sets attributes of the committed entry and of the changed one, after a commit of the former.
    pub(crate) fn set_attributes(&mut self, change: impl Fn(&mut Entry)) {
        change(&mut self.committed);
        change(&mut self.current);
    }

    /// Sets attributes of a file without a path, which no entry has. After an error nothing is changed.
    pub(crate) fn set_own_attributes(&mut self, change: impl FnOnce(&mut Entry) -> Result<()>) -> Result<()> {
        change(&mut self.current)?;
        let (from, to) = (&self.current, &mut self.committed);
        to.xattrs.clone_from(&from.xattrs);
        let Metadata { mode, uid, gid, mtime, ctime, .. } = from.metadata;
        to.metadata = Metadata { mode, uid, gid, mtime, ctime, ..to.metadata };
        Ok(())
    }

    /// Reads like `content::read_at`, with all changes.
    pub(crate) fn read_at(&self, families: &Families, offset: u64, out: &mut [u8]) -> Result<usize> {
        let (view, size) = (View { families, at: self.at.as_ref() }, self.size());
        let content = self.current.content()?;
        let Content::Chunks(chunks) = content else {
            return read_at(view, content, size, offset, out);
        };
        let length = size.saturating_sub(offset).min(out.len() as u64) as usize;
        for piece in pieces(chunks.chunk_bytes, offset, length) {
            let out = &mut out[piece.place..piece.place + piece.length];
            match self.changed.get(&piece.number) {
                Some(chunk) => copy_padded(&chunk.bytes, piece.from, out),
                None => read_piece(view, chunks, &piece, out)?,
            }
        }
        Ok(length)
    }

    /// Returns where the next hole begins: see `content::next_hole`.
    pub(crate) fn next_hole(&self, offset: u64) -> Option<u64> {
        self.current.content().ok().and_then(|content| next_hole(content, self.size(), offset))
    }

    /// Returns where the next data begins: see `content::next_data`.
    pub(crate) fn next_data(&self, offset: u64) -> Option<u64> {
        self.current.content().ok().and_then(|content| next_data(content, self.size(), offset))
    }

    /// Writes at a position. Bytes between the end and the position become zeros. After an error nothing is changed.
    pub(crate) fn write_at(&mut self, families: &Families, offset: u64, bytes: &[u8], now: i64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(bytes.len() as u64).ok_or_else(beyond_all_files)?;
        let (chunk_bytes, before) = (self.chunks().chunk_bytes, self.count());
        let (first, after) = (chunk_count(offset + 1, chunk_bytes)? - 1, chunk_count(end, chunk_bytes)?);
        self.check_holes(|holes| {
            holes.insert(before, after);
            holes.remove(first, after);
        })?;
        for piece in pieces(chunk_bytes, offset, bytes.len()).take_while(|piece| piece.number < before) {
            self.load(families, piece.number)?;
        }
        if end > self.size() {
            self.grow(end)?;
        }
        for piece in pieces(chunk_bytes, offset, bytes.len()) {
            let chunk = self.load(families, piece.number)?;
            let (end, memory) = (piece.from + piece.length, chunk.memory());
            if chunk.bytes.len() < end {
                chunk.bytes.resize(end, 0);
            }
            chunk.bytes[piece.from..end].copy_from_slice(&bytes[piece.place..piece.place + piece.length]);
            let grown = chunk.memory() - memory;
            self.changed_bytes += grown;
        }
        self.touch(now);
        Ok(())
    }

    /// Sets the length. A longer file ends in zeros. A shorter one loses the rest, which costs a read of its chunks or
    /// of those that stay, whichever are fewer, for the digest.
    pub(crate) fn set_len(&mut self, families: &Families, size: u64, now: i64) -> Result<()> {
        let (before, after) = (self.count(), chunk_count(size, self.chunks().chunk_bytes)?);
        self.check_holes(|holes| holes.insert(before, after))?;
        match size {
            _ if size >= self.size() => self.grow(size)?,
            0 => self.clear(),
            _ => self.shorten(families, size)?,
        }
        self.touch(now);
        Ok(())
    }

    /// Makes the bytes of a range zeros, as far as the file has them. Chunks that the range covers become a hole, which
    /// costs a read of them or of all other chunks, whichever are fewer, for the digest. Then makes the file at least
    /// `len` bytes long. Returns false if the range has nothing to change. After an error nothing is changed.
    pub(crate) fn zero(&mut self, families: &Families, range: Range<u64>, len: u64, now: i64) -> Result<bool> {
        let size = self.size();
        let start = range.start.min(size);
        let end = range.end.min(size).max(start);
        if start == end && len <= size {
            return Ok(false);
        }
        let (chunk_bytes, before) = (self.chunks().chunk_bytes, self.count());
        let after = chunk_count(len.max(size), chunk_bytes)?;
        let (covered, edges) = covered_chunks(chunk_bytes, start..end, size);
        self.check_holes(|holes| {
            holes.insert(before, after);
            holes.insert(covered.start, covered.end);
        })?;
        let digest = self.digest_without(families, &covered, before)?;
        let holes = &self.chunks().holes;
        let edges: Vec<Piece> = edges.filter(|piece| !holes.contains(piece.number)).collect();
        for piece in &edges {
            self.load(families, piece.number)?;
        }
        for Piece { number, from, length, .. } in edges {
            let bytes = &mut self.load(families, number)?.bytes;
            let end = bytes.len().min(from + length);
            bytes[from.min(end)..end].fill(0);
        }
        self.drop_chunks(covered);
        self.current.metadata.digest = digest;
        if len > size {
            self.grow(len)?;
        }
        self.touch(now);
        Ok(true)
    }

    /// Makes a hole of chunks. The caller has computed the digest without them.
    fn drop_chunks(&mut self, chunks: Range<u32>) {
        let numbers: Vec<u32> = self.changed.range(chunks.clone()).map(|(number, _)| *number).collect();
        for chunk in numbers.iter().filter_map(|number| self.changed.remove(number)) {
            self.changed_bytes -= chunk.memory();
        }
        self.chunks().holes.insert(chunks.start, chunks.end);
        self.dropped.insert(chunks.start, chunks.end);
    }

    /// Checks that a flush can fill the holes that an entry cannot list, after a change of two holes at most. Errors:
    /// `TooLarge`.
    fn check_holes(&mut self, change: impl FnOnce(&mut Holes)) -> Result<()> {
        if !self.chunks().holes.is_nearly_full() {
            return Ok(());
        }
        let mut holes = self.chunks().holes.clone();
        change(&mut holes);
        match holes.beyond_limit() <= MAX_FILLED {
            true => Ok(()),
            false => Err(too_many_holes()),
        }
    }

    fn touch(&mut self, now: i64) {
        let size = self.size();
        let chunks = self.chunks();
        let (allocated, chunk_bytes) = match is_inline(chunks, size) {
            true => (0, 0),
            false => (chunks.allocated(size), chunks.chunk_bytes),
        };
        let metadata = self.current.metadata;
        self.current.metadata = Metadata { mtime: now, ctime: now, allocated, chunk_bytes, ..metadata };
        self.is_changed = true;
    }

    /// Returns the chunks of the changed content. An inline content becomes a chunk that waits.
    fn chunks(&mut self) -> &mut Chunks {
        use crate::entry::Body;
        if let Body::File(content) = &mut self.current.body {
            if let Content::Inline(bytes) = content {
                let bytes = std::mem::take(bytes);
                if !bytes.is_empty() {
                    let before = Digest::of_chunk(0, &bytes);
                    let chunk = ChangedChunk { bytes, before, is_stored: false };
                    self.changed_bytes += chunk.memory();
                    self.changed.insert(0, chunk);
                }
                let chunk_bytes = self.chunk_bytes;
                *content = Content::Chunks(Chunks { id: UNASSIGNED, chunk_bytes, holes: Holes::default() });
            }
            if let Content::Chunks(chunks) = content {
                return chunks;
            }
        }
        unreachable!("only files are opened")
    }

    fn count(&mut self) -> u32 {
        let size = self.size();
        let chunk_bytes = self.chunks().chunk_bytes;
        chunk_count(size, chunk_bytes).unwrap_or(u32::MAX)
    }

    fn grow(&mut self, size: u64) -> Result<()> {
        let before = self.count();
        let after = chunk_count(size, self.chunks().chunk_bytes)?;
        self.chunks().holes.insert(before, after);
        self.current.metadata.size = size;
        Ok(())
    }

    /// Drops all content. What was stored is left to the reclaimer.
    fn clear(&mut self) {
        let chunk_bytes = self.chunk_bytes;
        *self.chunks() = Chunks { id: UNASSIGNED, chunk_bytes, holes: Holes::default() };
        self.changed.clear();
        self.changed_bytes = 0;
        self.dropped = Holes::default();
        (self.current.metadata.size, self.current.metadata.digest) = (0, Digest::default());
    }

    fn shorten(&mut self, families: &Families, size: u64) -> Result<()> {
        let chunk_bytes = self.chunks().chunk_bytes;
        let (kept, before) = (chunk_count(size, chunk_bytes)?, self.count());
        let digest = self.digest_without(families, &(kept..before), before)?;
        let tail = (size % u64::from(chunk_bytes)) as usize;
        if tail > 0 && !self.chunks().holes.contains(kept - 1) {
            // Bytes behind the end must not come back when the file grows again.
            self.load(families, kept - 1)?.bytes.truncate(tail);
        }
        self.drop_chunks(kept..before);
        self.chunks().holes.truncate(kept);
        (self.current.metadata.size, self.current.metadata.digest) = (size, digest);
        Ok(())
    }

    /// Returns the sum of the committed digests of all chunks but some, out of `count` that are counted now.
    fn digest_without(&mut self, families: &Families, dropped: &Range<u32>, count: u32) -> Result<Digest> {
        let stored: Vec<(u32, u32)> = self.chunks().holes.stored_runs(count).collect();
        let stored_in = |range: Range<u32>| {
            let runs = stored.iter().map(move |(from, to)| *from.max(&range.start)..*to.min(&range.end));
            runs.filter(|run| !run.is_empty())
        };
        let length = |runs: &[Range<u32>]| runs.iter().map(|run| run.len() as u64).sum::<u64>();
        let lost: Vec<_> = stored_in(dropped.clone()).collect();
        let kept: Vec<_> = stored_in(0..dropped.start).chain(stored_in(dropped.end..count)).collect();
        let is_lost_shorter = length(&lost) <= length(&kept);
        let (runs, mut digest) =
            if is_lost_shorter { (lost, self.current.metadata.digest) } else { (kept, Digest::default()) };
        for number in runs.into_iter().flatten() {
            let own = match self.changed.get(&number) {
                Some(chunk) => chunk.before,
                None => {
                    let Chunks { id, chunk_bytes, .. } = *self.chunks();
                    visit_stored(families.latest(), (id, chunk_bytes), number, |bytes| Digest::of_chunk(number, bytes))?
                }
            };
            if is_lost_shorter {
                digest -= own;
            } else {
                digest += own;
            }
        }
        Ok(digest)
    }

    /// Returns a chunk among those that wait, after reading it if it is stored.
    fn load(&mut self, families: &Families, number: u32) -> Result<&mut ChangedChunk> {
        if !self.changed.contains_key(&number) {
            let chunks = self.chunks();
            let chunk = if chunks.holes.contains(number) {
                chunks.holes.remove(number, number + 1);
                ChangedChunk { bytes: Vec::new(), before: Digest::default(), is_stored: false }
            } else {
                let content = (chunks.id, chunks.chunk_bytes);
                let bytes = visit_stored(families.latest(), content, number, <[u8]>::to_vec)?;
                ChangedChunk { before: Digest::of_chunk(number, &bytes), bytes, is_stored: true }
            };
            self.changed_bytes += chunk.memory();
            self.changed.insert(number, chunk);
        }
        self.changed.get_mut(&number).ok_or_else(|| Error::invalid("a chunk that was not loaded"))
    }

    /// Adds all changes to a batch. The state stays as it is until `flushed`.
    pub(crate) fn flush_into(&self, families: &Families, ids: &Ids, batch: &mut Batch) -> Result<Flush> {
        let mut entry = self.current.clone();
        let size = entry.metadata.size;
        if let Content::Chunks(chunks) = self.current.content()? {
            let (content, digest) = match is_inline(chunks, size) {
                true => self.inline(size),
                false => self.put_chunks(families, ids, batch, chunks.clone(), size)?,
            };
            entry.set_content(content, size, digest);
        }
        let (before, after) = (self.committed.stored_content(), entry.stored_content());
        let replaced = before.filter(|(id, _)| after.is_none_or(|(other, _)| other != *id));
        let mut orphaned = None;
        match &self.path {
            Some(path) => {
                families.put_entry(batch, path, &entry);
                if let Some((id, chunks)) = replaced {
                    batch.put(&families.chunks, reclaim_key(id), reclaim_value(chunks));
                }
            }
            // Nothing names the content; what it had before is recorded already.
            None => {
                orphaned = after.map(|(id, _)| (id, u32::MAX));
                if let Some((id, chunks)) = orphaned {
                    batch.put(&families.chunks, reclaim_key(id), reclaim_value(chunks));
                }
            }
        }
        Ok(Flush { entry, replaced, orphaned })
    }

    fn inline(&self, size: u64) -> (Content, Digest) {
        let mut bytes = vec![0; size as usize];
        if let Some(chunk) = self.changed.get(&0) {
            copy_padded(&chunk.bytes, 0, &mut bytes);
        }
        let digest = Digest::of_chunk(0, &bytes);
        (Content::Inline(bytes), digest)
    }

    fn put_chunks(
        &self,
        families: &Families,
        ids: &Ids,
        batch: &mut Batch,
        mut chunks: Chunks,
        size: u64,
    ) -> Result<(Content, Digest)> {
        if chunks.id == UNASSIGNED {
            chunks.id = ids.next(families)?;
        }
        self.delete_dropped(families, batch, chunks.id)?;
        let mut digest = self.current.metadata.digest;
        for (number, chunk) in &self.changed {
            let span = size.saturating_sub(u64::from(*number) * u64::from(chunks.chunk_bytes));
            let span = usize::try_from(span).unwrap_or(usize::MAX).min(chunk.bytes.len());
            let bytes = without_trailing_zeros(&chunk.bytes[..span]);
            digest -= chunk.before;
            digest += Digest::of_chunk(*number, bytes);
            if !bytes.is_empty() {
                batch.put(&families.chunks, chunk_key(chunks.id, *number), bytes);
                continue;
            }
            chunks.holes.insert(*number, number + 1);
            if chunk.is_stored {
                batch.delete(&families.chunks, chunk_key(chunks.id, *number));
            }
        }
        fill_holes(families, batch, chunks.id, &mut chunks.holes);
        Ok((Content::Chunks(chunks), digest))
    }

    /// Deletes the records of chunks that the content has lost.
    fn delete_dropped(&self, families: &Families, batch: &mut Batch, id: ContentId) -> Result<()> {
        let Content::Chunks(before) = self.committed.content()? else { return Ok(()) };
        if before.id != id {
            return Ok(()); // the reclaimer deletes all of it
        }
        let count = chunk_count(self.committed.metadata.size, before.chunk_bytes)?;
        for (start, end) in self.dropped.runs().map(|(start, end)| (start, end.min(count))) {
            let few: Vec<u32> = before.holes.stored_in(start..end).take(POINT_DELETES + 1).collect();
            match few.len() <= POINT_DELETES {
                true => few.iter().for_each(|number| {
                    batch.delete(&families.chunks, chunk_key(id, *number));
                }),
                false => {
                    batch.delete_range(&families.chunks, chunk_key(id, start)..chunk_key(id, end));
                }
            }
        }
        Ok(())
    }

    /// Forgets the changes since the last commit.
    pub(crate) fn discard(&mut self) {
        self.current = self.committed.clone();
        self.forget_changes();
    }

    /// Notes that the changes were committed. `pin` pins the content that the entry has now.
    pub(crate) fn flushed(&mut self, entry: Entry, pin: Option<Pin>) {
        self.current = entry.clone();
        self.committed = entry;
        self.forget_changes();
        self.pin = pin;
    }

    fn forget_changes(&mut self) {
        self.changed.clear();
        (self.changed_bytes, self.dropped, self.is_changed) = (0, Holes::default(), false);
        self.generation += 1;
    }
}

/// Returns true if a flush puts the content into the entry.
fn is_inline(chunks: &Chunks, size: u64) -> bool {
    chunks.id == UNASSIGNED && size <= MAX_INLINE_BYTES as u64
}

/// Returns the chunks that a range of a file covers, and its parts of others: at most two. The last chunk ends with the
/// file.
fn covered_chunks(chunk_bytes: u32, range: Range<u64>, size: u64) -> (Range<u32>, impl Iterator<Item = Piece>) {
    let Range { start, end } = range;
    let unit = u64::from(chunk_bytes);
    let after = if end == size { end.div_ceil(unit) } else { end / unit };
    let first = start.div_ceil(unit).min(after);
    let edges = match first < after {
        true => [(start, first * unit), ((after * unit).min(end), end)],
        false => [(start, end), (end, end)],
    };
    let edges = edges.into_iter().flat_map(move |(from, to)| pieces(chunk_bytes, from, (to - from) as usize));
    (first as u32..after as u32, edges)
}

fn beyond_all_files() -> Error {
    Error::of(ErrorKind::TooLarge, "a position beyond the end of every file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{FileKind, SetAttributes};
    use waxseal::Db;

    /// Returns the state of an empty file with chunks of 4 KiB.
    fn empty() -> FileState {
        let entry = Entry::new(FileKind::File, 2, 0, &SetAttributes::new());
        FileState::new(FilePath::parse(b"file").unwrap(), entry, None, 4096)
    }

    #[test]
    fn memory_is_counted_with_what_each_chunk_takes() {
        let families = Families::open(&Db::memory().unwrap(), "files").unwrap();
        let mut state = empty();
        for chunk in 0..100 {
            state.write_at(&families, chunk * 4096, b"x", 0).unwrap();
        }
        let counted = |state: &FileState| state.changed.values().map(ChangedChunk::memory).sum::<usize>();
        let full = state.changed_bytes();
        assert!(full == counted(&state) && full > 100 * size_of::<ChangedChunk>(), "{full}");
        state.write_at(&families, 4096 * 7 + 9, &[1; 6000], 0).unwrap();
        assert_eq!(state.changed_bytes(), counted(&state));
        state.set_len(&families, 4096 * 50 + 1, 0).unwrap();
        assert!(state.changed_bytes() == counted(&state) && state.changed_bytes() < full, "{}", state.changed_bytes());
        state.set_len(&families, 0, 0).unwrap();
        assert_eq!(state.changed_bytes(), 0);
        state.write_at(&families, 0, b"x", 0).unwrap();
        let entry = state.committed.clone();
        state.flushed(entry, None);
        assert_eq!(state.changed_bytes(), 0);
    }
}
