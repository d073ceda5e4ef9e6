//! Whole-file writes: a new content, swapped in by one entry.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use waxseal::Batch;

use crate::condition::Condition;
use crate::content::{ChunkSink, visit_stored};
use crate::digest::Digest;
use crate::entry::{Chunks, Content, MAX_INLINE_BYTES, Xattrs, chunk_count, not_a_file};
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{FileKind, Metadata, SetAttributes};
use crate::namespace::{insert_xattr, of_path};
use crate::path::FilePath;
use crate::reclaim::Pin;
use crate::records::{ContentId, chunk_key, reclaim_key, reclaim_value};
use crate::snapshot::Snapshot;
use crate::store::Files;
use crate::swap::NewFile;

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
        if bytes.len() > MAX_BATCH_BYTES {
            writer.push(bytes)?;
            return writer.finish();
        }
        writer.size = bytes.len() as u64;
        let mut batch = self.families.batch();
        let (file, _) = writer.complete(&mut batch, bytes)?;
        only(self.swap(batch, vec![file])?)
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
    begun: Begun,
}

/// Most chunks that a writer deletes one by one when the device is full.
const MOST_DELETED: u32 = 65_536;

/// A content with a reclaim record. It is deleted when this is dropped, unless an entry names it.
struct Begun {
    fs: Files,
    id: ContentId,
    is_named: bool,
    /// The number above those of all chunks, when the writer has failed or is complete.
    chunks: u32,
    /// A step failed because the device is full.
    is_out_of_space: bool,
    _pin: Pin,
}

impl Begun {
    /// Notes that an entry names the content.
    fn end(mut self) {
        self.is_named = true;
    }

    /// Deletes the chunks, and flushes. The flush drops chunks that are deleted one by one, and the value files go with
    /// the memtable. A store that ends before that may find no room to recover its log.
    fn give_back(&self) -> Result<()> {
        let families = &self.fs.families;
        let mut batch = families.batch();
        for number in 0..self.chunks {
            batch.delete(&families.chunks, chunk_key(self.id, number));
        }
        batch.delete(&families.chunks, reclaim_key(self.id));
        families.commit(batch)?;
        let _ = families.db.flush(); // without room the store flushes later
        Ok(())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // A commit that was reported as failed may have removed the record.
        let is_recorded = || self.fs.families.chunks.contains(reclaim_key(self.id)).unwrap_or(false);
        if self.is_named || !is_recorded() {
            return;
        }
        if !self.is_out_of_space || self.chunks > MOST_DELETED || self.give_back().is_err() {
            self.fs.shared.reclaimer.add([(self.id, u32::MAX)]);
        }
    }
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
        if let (Err(error), Some(stream)) = (&outcome, &mut self.stream) {
            stream.begun.chunks = stream.sink.count();
            stream.begun.is_out_of_space = error.kind() == ErrorKind::NoSpace;
        }
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
    pub fn finish(self) -> Result<Metadata> {
        only(self.fs.clone().finish_all([self])?)
    }

    /// Adds the bytes that are not committed yet to a batch. Returns the file with its content.
    fn complete(self, batch: &mut Batch, rest: &[u8]) -> Result<(NewFile, Option<Begun>)> {
        self.check_whole()?;
        let families = &self.fs.families;
        let (content, digest, begun) = match self.stream {
            None if rest.len() <= MAX_INLINE_BYTES => (Content::Inline(rest.to_vec()), Digest::of_chunk(0, rest), None),
            None => {
                let mut sink = ChunkSink::new(self.fs.shared.ids.next(families)?, self.chunk_bytes);
                let mut chunks = rest.chunks(self.chunk_bytes as usize);
                chunks.try_for_each(|chunk| sink.push(families, batch, chunk))?;
                let (content, digest) = sink.finish();
                (content, digest, None)
            }
            Some(Stream { mut sink, mut begun }) => {
                if !rest.is_empty() {
                    sink.push(families, batch, rest)?;
                }
                begun.chunks = sink.count();
                let (content, digest) = sink.finish();
                (content, digest, Some(begun))
            }
        };
        if self.expected.is_some_and(|expected| expected != (digest, self.size)) {
            return Err(Error::corruption("the content does not match the digest of its entry"));
        }
        let file = NewFile {
            path: self.path,
            attributes: self.attributes,
            content,
            size: self.size,
            digest,
            recorded: begun.as_ref().map(|begun| begun.id),
            xattrs: self.xattrs,
            condition: self.condition,
        };
        Ok((file, begun))
    }
}

impl Files {
    /// Gives several files their contents, all in one atomic step: readers, snapshots and crashes see all of them or
    /// none. Returns the attributes of the files, in the order of their writers. Costs memory for the entries and up to
    /// 4 MiB of content.
    ///
    /// Of several writers of one path the last one counts. Errors: as for [`Writer::finish`]; `Invalid` for a writer
    /// of another store; `ConditionFailed` for two writers of a path of which one has a condition. No file is changed
    /// then, and the contents are deleted. After the commit, errors of the log of events or of a sync are returned, too.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// use std::io::Write;
    ///
    /// let (mut data, mut index) = (fs.writer("data")?, fs.writer("index")?);
    /// data.write_all(b"..").unwrap();
    /// index.write_all(b"0").unwrap();
    /// fs.finish_all([data, index])?;
    /// assert!(fs.exists("data")? && fs.exists("index")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn finish_all(&self, writers: impl IntoIterator<Item = Writer>) -> Result<Vec<Metadata>> {
        let mut batch = self.families.batch();
        let (mut files, mut begun, mut waiting) = (Vec::new(), Vec::new(), 0);
        for mut writer in last_of_each_path(writers.into_iter().collect())? {
            if !Arc::ptr_eq(&writer.fs.shared, &self.shared) {
                return Err(Error::invalid("the file is written to another store").at(writer.path.display()));
            }
            waiting += writer.buffer.len();
            if waiting > MAX_BATCH_BYTES && writer.buffer.len() > MAX_INLINE_BYTES {
                waiting -= writer.buffer.len();
                writer.attempt(Writer::commit_chunk)?;
            }
            let rest = std::mem::take(&mut writer.buffer);
            let (file, content) = writer.complete(&mut batch, &rest)?;
            files.push(file);
            begun.extend(content);
        }
        let swapped = self.swap(batch, files);
        match &swapped {
            Ok(_) => begun.into_iter().for_each(Begun::end),
            Err(error) => {
                let is_out_of_space = error.kind() == ErrorKind::NoSpace;
                begun.iter_mut().for_each(|content| content.is_out_of_space = is_out_of_space);
            }
        }
        swapped
    }
}

/// Returns the attributes of the one file that was written.
fn only(mut written: Vec<Metadata>) -> Result<Metadata> {
    written.pop().ok_or_else(|| Error::invalid("no file was written"))
}

/// Returns the last writer of each path, in their order. Errors: `ConditionFailed` for two writers
/// of a path of which one has a condition.
fn last_of_each_path(writers: Vec<Writer>) -> Result<Vec<Writer>> {
    let mut last = HashMap::with_capacity(writers.len());
    for (number, writer) in writers.iter().enumerate() {
        let earlier = last.insert(writer.path.clone(), number);
        let has_condition = |writer: &Writer| writer.condition != Condition::Always;
        if earlier.is_some_and(|earlier| has_condition(writer) || has_condition(&writers[earlier])) {
            let text = "the file is written twice, and once under a condition";
            return Err(Error::of(ErrorKind::ConditionFailed, text).at(writer.path.display()));
        }
    }
    let numbered = writers.into_iter().enumerate();
    Ok(numbered.filter(|(number, writer)| last[&writer.path] == *number).map(|(_, writer)| writer).collect())
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
            let (fs, _pin) = (fs.clone(), fs.shared.reclaimer.pin(id));
            let begun = Begun { fs, id, is_named: false, chunks: 0, is_out_of_space: false, _pin };
            Stream { sink: ChunkSink::new(id, chunk_bytes), begun }
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
