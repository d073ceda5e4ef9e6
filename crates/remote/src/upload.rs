//! Writes of one object.

use std::io;

use bytes::BytesMut;
use object_store::path::Path;
use object_store::{Attributes, PutMode, PutMultipartOptions, WriteMultipart};

use crate::directory::{LABEL, RemoteDirectory};
use crate::upload_queue::UploadQueue;

/// Bytes of a part. A smaller object is written by one request.
pub(crate) const PART_BYTES: usize = 8 << 20;

/// Parts that are sent, or requested, at the same time.
pub(crate) const PARALLEL_PARTS: usize = 4;

/// Bytes after which parts are larger: S3 takes at most 10,000 parts.
const LARGE_BYTES: u64 = 9_000 * PART_BYTES as u64;

/// An object that is written. Dropped before it is finished, it leaves no object.
///
/// Holds up to 5 parts of 8 MiB in memory. Parts are larger for an object whose expected length needs more than 9,000.
#[derive(Debug)]
pub struct Upload {
    directory: RemoteDirectory,
    name: String,
    path: Path,
    part_bytes: usize,
    label: Option<String>,
    /// The content of an object that fits a part.
    whole: BytesMut,
    parts: Option<WriteMultipart>,
}

impl Upload {
    /// Begins an object, which appears with its whole content when the upload is finished. No request is made.
    pub fn begin(directory: &RemoteDirectory, name: &str) -> io::Result<Upload> {
        let (directory, path) = (directory.clone(), directory.path(name)?);
        let (name, whole) = (name.to_owned(), BytesMut::new());
        Ok(Upload { directory, name, path, part_bytes: PART_BYTES, label: None, whole, parts: None })
    }

    /// Chooses the size of the parts for an object of this length.
    #[must_use]
    pub fn expecting(mut self, length: u64) -> Upload {
        let times = usize::try_from(length.div_ceil(LARGE_BYTES)).unwrap_or(usize::MAX).max(1);
        self.part_bytes = PART_BYTES.saturating_mul(times);
        self
    }

    /// Sets the label that the object keeps, as text in ASCII. Takes effect before the second part begins.
    pub fn label(&mut self, label: String) {
        self.label = Some(label);
    }

    /// Returns true if parts of the object were sent, so that a label comes too late.
    pub fn has_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// Appends bytes. Errors: those of the store, also of earlier parts.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let attributes = self.attributes();
        let RemoteDirectory { store, runtime, .. } = &self.directory;
        if self.parts.is_none() {
            let room = (PART_BYTES - self.whole.len()).min(bytes.len());
            self.whole.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
            if bytes.is_empty() {
                return Ok(());
            }
            let begun = runtime
                .wait(store.put_multipart_opts(&self.path, PutMultipartOptions { attributes, ..Default::default() }));
            let begun = begun.map_err(|error| self.directory.failed(&self.name, error))?;
            let mut parts = WriteMultipart::new_with_chunk_size(begun, self.part_bytes);
            let whole = self.whole.split().freeze();
            runtime.wait(async { parts.put(whole) });
            self.parts = Some(parts);
        }
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let sent = runtime.wait(async {
            for piece in bytes.chunks(self.part_bytes) {
                parts.wait_for_capacity(PARALLEL_PARTS).await?;
                parts.write(piece);
            }
            Ok(())
        });
        sent.map_err(|error| self.directory.failed(&self.name, error))
    }

    /// Ends the object, which appears under its name and replaces an existing one. Errors: those of the store; the
    /// object then has its whole content, or does not exist.
    pub fn finish(mut self) -> io::Result<()> {
        let RemoteDirectory { runtime, .. } = &self.directory;
        let finished = match self.parts.take() {
            None => {
                let (bytes, attributes) = (self.whole.split().freeze(), self.attributes());
                self.directory.put_with(&self.name, bytes, PutMode::Overwrite, attributes)
            }
            Some(parts) => runtime.wait(parts.finish()),
        };
        finished.map(drop).map_err(|error| self.directory.failed(&self.name, error))
    }

    /// As `finish`, for an object that may be sent while the caller goes on: if it fits a part, it joins the queue.
    /// Errors: those of `finish`, and of earlier objects of the queue.
    pub fn finish_in(mut self, queue: &mut UploadQueue) -> io::Result<()> {
        match self.has_parts() {
            true => self.finish(),
            false => queue.push(std::mem::take(&mut self.name), self.whole.split().freeze(), self.attributes()),
        }
    }

    fn attributes(&self) -> Attributes {
        self.label.iter().map(|label| (LABEL, label.clone())).collect()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            // The parts of an unfinished upload are no object; a store that keeps them names them in its own list.
            let _ = self.directory.runtime.wait(parts.abort());
        }
    }
}
