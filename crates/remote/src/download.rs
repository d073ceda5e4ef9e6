//! Reads of one object.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{GetOptions, GetResult};

use crate::directory::{RemoteDirectory, RemoteEntry};
use crate::upload::{PARALLEL_PARTS, PART_BYTES};

/// An object that is read. Sequential reads share one request; a read at another place begins a new one.
pub struct Download {
    directory: RemoteDirectory,
    entry: RemoteEntry,
    /// The rest of the object behind `piece`.
    rest: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    /// The bytes at hand, and their place.
    piece: Bytes,
    at: u64,
}

impl Download {
    /// Opens an object for reading. A read fails if the object has changed since. Errors: `NotFound`, and those of the
    /// store.
    pub fn open(directory: &RemoteDirectory, name: &str) -> io::Result<Download> {
        let entry = directory.head(name)?;
        Ok(Download { directory: directory.clone(), entry, rest: None, piece: Bytes::new(), at: 0 })
    }

    /// Returns the object.
    pub fn entry(&self) -> &RemoteEntry {
        &self.entry
    }

    /// Fills `buffer` from a place on; fewer bytes only at the end of the object. Errors: `UnexpectedEof` if the object
    /// ends before its length; `Other` if another process has replaced the object since `open`; those of the store.
    pub fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let length = (buffer.len() as u64).min(self.entry.size.saturating_sub(at)) as usize;
        let mut filled = 0;
        while filled < length {
            let place = at + filled as u64;
            let bytes = self.piece_at(place)?;
            let count = bytes.len().min(length - filled);
            buffer[filled..filled + count].copy_from_slice(&bytes[..count]);
            filled += count;
        }
        Ok(filled)
    }

    /// Passes the whole content in pieces of 8 MiB, of which up to four are requested at the same time. Errors: those of
    /// `read_at` and of `take`.
    pub fn each<E: From<io::Error>>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let (size, part) = (self.entry.size, PART_BYTES as u64);
        let pieces = (0..size.div_ceil(part)).map(|piece| self.piece(piece * part, ((piece + 1) * part).min(size)));
        let mut pieces = stream::iter(pieces).buffered(PARALLEL_PARTS);
        while let Some(piece) = self.directory.runtime.wait(pieces.next()) {
            take(&piece?)?;
        }
        Ok(())
    }

    /// Requests a range of bytes.
    async fn piece(&self, start: u64, end: u64) -> io::Result<Bytes> {
        let got = self.get(start, end).await.map_err(|error| self.failed(error))?;
        let bytes = got.bytes().await.map_err(|error| self.failed(error))?;
        match bytes.len() as u64 == end - start {
            true => Ok(bytes),
            false => Err(self.ends_early()),
        }
    }

    /// Returns bytes at a place before the end; at least one.
    fn piece_at(&mut self, place: u64) -> io::Result<Bytes> {
        loop {
            let end = self.at + self.piece.len() as u64;
            if (self.at..end).contains(&place) {
                return Ok(self.piece.slice((place - self.at) as usize..));
            }
            if place != end || self.rest.is_none() {
                self.rest = Some(self.request(place)?);
                (self.piece, self.at) = (Bytes::new(), place);
            }
            let runtime = &self.directory.runtime;
            match self.rest.as_mut().and_then(|rest| runtime.wait(rest.next())) {
                None => return Err(self.ends_early()),
                Some(piece) => {
                    self.at += self.piece.len() as u64;
                    self.piece = piece.map_err(|error| self.directory.failed(&self.entry.name, error))?;
                }
            }
        }
    }

    fn request(&self, place: u64) -> io::Result<BoxStream<'static, object_store::Result<Bytes>>> {
        let got = self.directory.runtime.wait(self.get(place, self.entry.size));
        got.map(GetResult::into_stream).map_err(|error| self.failed(error))
    }

    /// Requests a range of bytes, or the object: a server need not know ranges.
    async fn get(&self, start: u64, end: u64) -> object_store::Result<GetResult> {
        let is_whole = start == 0 && end == self.entry.size;
        let options = GetOptions {
            range: (!is_whole).then(|| (start..end).into()),
            if_match: self.entry.etag.clone(),
            ..GetOptions::default()
        };
        self.directory.store.get_opts(&Path::parse(&self.entry.name)?, options).await
    }

    fn failed(&self, error: object_store::Error) -> io::Error {
        match error {
            object_store::Error::Precondition { .. } => {
                let what = format!("{} was replaced while it was read", self.directory.url_of(&self.entry.name));
                io::Error::other(what)
            }
            error => self.directory.failed(&self.entry.name, error),
        }
    }

    fn ends_early(&self) -> io::Error {
        let what = format!("{} ends before its length", self.directory.url_of(&self.entry.name));
        io::Error::new(io::ErrorKind::UnexpectedEof, what)
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("directory", &self.directory).field("entry", &self.entry).finish()
    }
}
