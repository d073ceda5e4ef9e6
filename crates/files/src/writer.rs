//! Whole-file writes: a new content, swapped in by one entry.

use std::fmt;
use std::io;

use waxseal::Batch;

use crate::condition::Condition;
use crate::content::{ChunkSink, visit_stored};
use crate::digest::Digest;
use crate::entry::{Chunks, Content, MAX_INLINE_BYTES, Xattrs, chunk_count, not_a_file};
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{FileKind, Metadata, SetAttributes};
use crate::namespace::{NewContent, insert_xattr, of_path};
use crate::path::FilePath;
use crate::reclaim::Pin;
use crate::records::{reclaim_key, reclaim_value};
use crate::snapshot::Snapshot;
use crate::store::Files;

/// Contents up to this length are committed with their entry in one batch; longer ones chunk by chunk before it.
const MAX_BATCH_BYTES: usize = 4 << 20;

impl Files {
    /// Writes a whole file: creates it, or replaces its content.
    ///
    /// Readers, snapshots and crashes see the old file or the new one, never a mixture. Of several writers of one path
    /// the last one wins whole. Handles of the old file keep it. An existing file keeps its owner, mode and extended
    /// attributes, and gets a new inode number.
    ///
    /// Errors: `IsDirectory`, `SymbolicLink` or `Invalid` if the path exists and is no file; `NotFound` or
    /// `NotDirectory` for the directory above.
    pub fn write(&self, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.write_with(path, bytes, &SetAttributes::new()).map(drop)
    }

    /// [`write`](Files::write) with attributes, which apply to an existing file, too. Returns those of the file.
    pub fn write_with(
        &self,
        path: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
        attributes: &SetAttributes,
    ) -> Result<Metadata> {
        self.write_if(path, bytes, attributes, Condition::Always)
    }

    /// [`write_with`](Files::write_with) under a condition. Errors: also `ConditionFailed`, and then the file stays.
    pub fn write_if(
        &self,
        path: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
        attributes: &SetAttributes,
        condition: Condition,
    ) -> Result<Metadata> {
        let bytes = bytes.as_ref();
        let mut writer = self.writer_with(path, attributes)?.only_if(condition);
        match bytes.len() <= MAX_BATCH_BYTES {
            true => writer.write_in_one_batch(bytes),
            false => {
                writer.push(bytes)?;
                writer.finish()
            }
        }
    }

    /// Returns a stream that writes a whole file: [`write`](Files::write) for content that is not in memory.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// use std::io::Write;
    ///
    /// let mut writer = fs.writer("large")?;
    /// for _ in 0..1000 {
    ///     writer.write_all(&[7; 1000]).unwrap();
    /// }
    /// assert!(!fs.exists("large")?); // nothing is seen of it until
    /// writer.finish()?;
    /// assert_eq!(fs.stat("large")?.size, 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn writer(&self, path: impl AsRef<[u8]>) -> Result<Writer> {
        self.writer_with(path, &SetAttributes::new())
    }

    /// [`writer`](Files::writer) with attributes, which apply to an existing file, too.
    pub fn writer_with(&self, path: impl AsRef<[u8]>, attributes: &SetAttributes) -> Result<Writer> {
        let path = FilePath::parse(path.as_ref())?;
        self.check_writable()?;
        attributes.check()?;
        let Some(parent) = path.parent() else { return Err(not_a_file(FileKind::Directory).at("")) };
        self.families.latest().directory(&parent).map_err(|error| of_path(error, &path))?;
        Ok(Writer {
            fs: self.clone(),
            path,
            attributes: *attributes,
            chunk_bytes: self.shared.chunk_bytes,
            buffer: Vec::new(),
            size: 0,
            stream: None,
            expected: None,
            xattrs: None,
            condition: Condition::Always,
            has_failed: false,
        })
    }

    /// Copies a file: content, owner, mode, time of the last change and extended attributes, in one atomic step.
    /// Replaces an existing file, as a whole-file write does; its extended attributes go. Errors: as for `read` and `write`.
    ///
    /// The copy is of one point in time. Holes stay holes. Every byte is verified on the way.
    pub fn copy(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.copy_if(from, to, Condition::Always)
    }

    /// [`copy`](Files::copy) under a condition on the new path. Errors: also `ConditionFailed`.
    pub fn copy_if(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, condition: Condition) -> Result<()> {
        self.copy_from(&self.snapshot(), from.as_ref(), to.as_ref(), condition)
    }

    /// Copies a file of a snapshot.
    pub(crate) fn copy_from(&self, snapshot: &Snapshot, from: &[u8], to: &[u8], condition: Condition) -> Result<()> {
        let from = FilePath::parse(from)?;
        let entry = snapshot.view().entry(&from)?;
        let metadata = entry.metadata;
        let attributes =
            SetAttributes::new().mode(metadata.mode).owner(metadata.uid, metadata.gid).mtime(metadata.mtime);
        let mut writer = self.writer_with(to, &attributes)?.only_if(condition);
        writer.expected = Some((metadata.digest, metadata.size));
        writer.xattrs = Some(entry.xattrs.clone());
        match entry.content().map_err(|error| error.at(from.display()))? {
            Content::Inline(bytes) => writer.push(bytes)?,
            Content::Chunks(chunks) => {
                writer.copy_chunks(snapshot, chunks, metadata.size).map_err(|error| error.at(from.display()))?;
            }
        }
        writer.finish().map_err(|error| if error.is_corruption() { error.at(from.display()) } else { error })?;
        Ok(())
    }
}

/// A whole-file write in progress. Nothing is seen of it until [`finish`](Writer::finish); dropped before, it leaves
/// nothing behind. The writer buffers one chunk of content in memory.
#[must_use = "a writer that is not finished writes nothing"]
pub struct Writer {
    fs: Files,
    path: FilePath,
    attributes: SetAttributes,
    chunk_bytes: u32,
    /// The chunk that is not full yet.
    buffer: Vec<u8>,
    size: u64,
    /// Chunks that were committed, once there is a full one.
    stream: Option<Stream>,
    /// Digest and size that the content must have.
    expected: Option<(Digest, u64)>,
    /// The extended attributes that the file gets; `None` leaves it those that it has.
    xattrs: Option<Xattrs>,
    condition: Condition,
    /// A write has failed, so that content is missing.
    has_failed: bool,
}

/// Chunks of a content that has no entry yet, but a reclaim record.
struct Stream {
    sink: ChunkSink,
    /// Until the content has its entry.
    pin: Pin,
}

impl Writer {
    /// Sets the condition under which [`finish`](Writer::finish) gives the file its content.
    pub fn only_if(mut self, condition: Condition) -> Writer {
        self.condition = condition;
        self
    }

    /// Appends bytes. Errors: also `Invalid` after a call that failed.
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt(|writer| writer.append(bytes))
    }

    /// Runs a step. After one that failed, no further step and no `finish` succeeds: the file would lack its content.
    fn attempt(&mut self, step: impl FnOnce(&mut Writer) -> Result<()>) -> Result<()> {
        self.check_whole()?;
        let outcome = step(self);
        self.has_failed = outcome.is_err();
        outcome
    }

    fn check_whole(&self) -> Result<()> {
        match self.has_failed {
            true => {
                Err(Error::of(ErrorKind::Invalid, "an earlier write of this writer failed").at(self.path.display()))
            }
            false => Ok(()),
        }
    }

    /// Checks the whole content against what it must be, before it replaces anything.
    fn check_expected(&self, digest: Digest, size: u64) -> Result<()> {
        match self.expected {
            Some(expected) if expected != (digest, size) => {
                Err(Error::corruption("the content does not match the digest of its entry"))
            }
            _ => Ok(()),
        }
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        let chunk_bytes = self.chunk_bytes as usize;
        chunk_count(self.size.saturating_add(bytes.len() as u64), self.chunk_bytes)?;
        self.size += bytes.len() as u64;
        while self.buffer.len() + bytes.len() > chunk_bytes {
            let (now, later) = bytes.split_at(chunk_bytes - self.buffer.len());
            self.buffer.extend_from_slice(now);
            bytes = later;
            self.commit_chunk()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Commits the full chunk in the buffer.
    fn commit_chunk(&mut self) -> Result<()> {
        let families = &self.fs.families;
        let mut batch = families.batch();
        let stream = stream_of(&self.fs, self.chunk_bytes, &mut self.stream, &mut batch)?;
        stream.sink.push(families, &mut batch, &self.buffer)?;
        self.buffer.clear();
        families.commit(batch)
    }

    /// Appends zeros. Whole chunks of them become a hole, which takes no space, whatever its length. Errors: `TooLarge`;
    /// `Invalid` after a call that failed.
    pub fn skip(&mut self, bytes: u64) -> Result<()> {
        self.attempt(|writer| writer.append_zeros(bytes))
    }

    fn append_zeros(&mut self, bytes: u64) -> Result<()> {
        chunk_count(self.size.saturating_add(bytes), self.chunk_bytes)?;
        let chunk_bytes = u64::from(self.chunk_bytes);
        let begun = self.buffer.len() as u64;
        let head = if begun == 0 { 0 } else { bytes.min(chunk_bytes - begun) };
        self.buffer.resize((begun + head) as usize, 0);
        self.size += head;
        let (chunks, tail) = ((bytes - head) / chunk_bytes, (bytes - head) % chunk_bytes);
        if chunks > 0 {
            self.append_hole(chunks as u32)?;
        }
        if tail > 0 {
            if !self.buffer.is_empty() {
                self.commit_chunk()?;
            }
            self.buffer.resize(tail as usize, 0);
            self.size += tail;
        }
        Ok(())
    }

    /// Removes the extended attributes that an existing file would keep.
    pub fn clear_xattrs(&mut self) {
        self.xattrs = Some(Xattrs::new());
    }

    /// Sets an extended attribute, which the file gets with its content. The file then has those that this call sets,
    /// and none of an existing file. Errors: `Invalid`, `NameTooLong` and `NoSpace`, as of
    /// [`set_xattr`](Files::set_xattr).
    pub fn set_xattr(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let xattrs = self.xattrs.get_or_insert_default();
        insert_xattr(xattrs, name.as_ref(), value.as_ref()).map_err(|error| error.at(self.path.display()))
    }

    /// Adds a hole of whole chunks. The bytes before it are whole chunks, too.
    fn skip_chunks(&mut self, chunks: u32) -> Result<()> {
        self.attempt(|writer| writer.append_hole(chunks))
    }

    fn append_hole(&mut self, chunks: u32) -> Result<()> {
        if !self.buffer.is_empty() {
            self.commit_chunk()?;
        }
        let mut batch = self.fs.families.batch();
        stream_of(&self.fs, self.chunk_bytes, &mut self.stream, &mut batch)?.sink.skip(
            &self.fs.families,
            &mut batch,
            chunks,
        )?;
        self.size += u64::from(chunks) * u64::from(self.chunk_bytes);
        self.fs.families.commit(batch)
    }

    fn write_in_one_batch(mut self, bytes: &[u8]) -> Result<Metadata> {
        let fs = &self.fs;
        let mut batch = fs.families.batch();
        let size = bytes.len() as u64;
        let (content, digest) = match bytes.len() <= MAX_INLINE_BYTES {
            true => (Content::Inline(bytes.to_vec()), Digest::of_chunk(0, bytes)),
            false => {
                let mut sink = ChunkSink::new(fs.shared.ids.next(&fs.families)?, self.chunk_bytes);
                let mut chunks = bytes.chunks(self.chunk_bytes as usize);
                chunks.try_for_each(|chunk| sink.push(&fs.families, &mut batch, chunk))?;
                sink.finish()
            }
        };
        self.check_expected(digest, size)?;
        let new = NewContent {
            batch,
            content,
            size,
            digest,
            recorded: None,
            xattrs: self.xattrs.take(),
            condition: self.condition,
        };
        self.fs.swap(&self.path, &self.attributes, new)
    }

    /// Appends a whole content, chunk by chunk. Nothing was written before.
    fn copy_chunks(&mut self, snapshot: &Snapshot, chunks: &Chunks, size: u64) -> Result<()> {
        self.chunk_bytes = chunks.chunk_bytes;
        let (content, count) = ((chunks.id, chunks.chunk_bytes), chunk_count(size, chunks.chunk_bytes)?);
        let (mut bytes, mut copied) = (Vec::new(), 0);
        for (start, end) in chunks.holes.stored_runs(count) {
            if start > copied {
                self.skip_chunks(start - copied)?;
            }
            for number in start..end {
                bytes.clear();
                visit_stored(snapshot.view(), content, number, |stored| bytes.extend_from_slice(stored))?;
                let span = (size - u64::from(number) * u64::from(chunks.chunk_bytes)).min(chunks.chunk_bytes.into());
                bytes.resize(span as usize, 0);
                self.push(&bytes)?;
            }
            copied = end;
        }
        if count > copied {
            self.skip_chunks(count - copied)?;
            self.size = size;
        }
        Ok(())
    }

    /// Gives the file its content, in one atomic step. Returns its attributes. Errors: as for `write`; the content is
    /// deleted then.
    ///
    /// Errors: also `Invalid` if an earlier write failed, and `ConditionFailed`: the old file stays.
    pub fn finish(mut self) -> Result<Metadata> {
        self.check_whole()?;
        let Some(mut stream) = self.stream.take() else {
            let bytes = std::mem::take(&mut self.buffer);
            return self.write_in_one_batch(&bytes);
        };
        let fs = self.fs.clone();
        let mut batch = fs.families.batch();
        let (id, size) = (stream.sink.id, self.size);
        let last = match self.buffer.is_empty() {
            true => Ok(()),
            false => stream.sink.push(&fs.families, &mut batch, &self.buffer),
        };
        let finished = last.and_then(|()| {
            let (content, digest) = stream.sink.finish();
            self.check_expected(digest, size)?;
            let new = NewContent {
                batch,
                content,
                size,
                digest,
                recorded: Some(id),
                xattrs: self.xattrs.take(),
                condition: self.condition,
            };
            fs.swap(&self.path, &self.attributes, new)
        });
        if finished.is_err() && fs.families.chunks.contains(reclaim_key(id))? {
            fs.shared.reclaimer.add([(id, u32::MAX)]);
        }
        drop(stream.pin);
        finished
    }
}

/// Returns the stream of a writer. The batch begins it with a reclaim record if there is none.
fn stream_of<'a>(
    fs: &Files,
    chunk_bytes: u32,
    stream: &'a mut Option<Stream>,
    batch: &mut Batch,
) -> Result<&'a mut Stream> {
    let begun = match stream.take() {
        Some(begun) => begun,
        None => {
            let id = fs.shared.ids.next(&fs.families)?;
            batch.put(&fs.families.chunks, reclaim_key(id), reclaim_value(u32::MAX));
            Stream { sink: ChunkSink::new(id, chunk_bytes), pin: fs.shared.reclaimer.pin(id) }
        }
    };
    Ok(stream.insert(begun))
}

/// Returns an error of a write that [`write_all`](io::Write::write_all) does not take for a reason to write again.
fn unrepeatable(error: Error) -> io::Error {
    match error.kind() {
        ErrorKind::Interrupted => io::Error::other(error),
        _ => error.into(),
    }
}

impl io::Write for Writer {
    /// An interrupted write is an error of the kind `Other` around one of the kind `Interrupted`.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes).map_err(unrepeatable)?;
        Ok(bytes.len())
    }

    /// Does nothing: only `finish` shows the file.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.fs.shared.reclaimer.add([(stream.sink.id, u32::MAX)]);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({:?})", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_write_is_not_repeated() {
        let error = unrepeatable(Error::of(ErrorKind::Interrupted, "stopped by a signal"));
        assert_ne!(error.kind(), io::ErrorKind::Interrupted);
        assert_eq!(error.downcast::<Error>().unwrap().errno(), 4);
    }
}
