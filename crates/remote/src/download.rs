//! Reads of one object.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};

use crate::directory::{RemoteDirectory, RemoteEntry};

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
    /// ends before its length; `Other` if it has changed since it was found; those of the store.
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

    /// Passes the whole content in pieces. Errors: those of `read_at` and of `take`.
    pub fn each<E: From<io::Error>>(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut place = 0;
        while place < self.entry.size {
            let left = usize::try_from(self.entry.size - place).unwrap_or(usize::MAX);
            let piece = self.piece_at(place)?;
            let piece = piece.slice(..piece.len().min(left));
            take(&piece)?;
            place += piece.len() as u64;
        }
        Ok(())
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
                None => {
                    let what = format!("{} ends before its length", self.directory.url_of(&self.entry.name));
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
                }
                Some(piece) => {
                    self.at += self.piece.len() as u64;
                    self.piece = piece.map_err(|error| self.directory.failed(&self.entry.name, error))?;
                }
            }
        }
    }

    fn request(&self, place: u64) -> io::Result<BoxStream<'static, object_store::Result<Bytes>>> {
        let RemoteDirectory { store, runtime, .. } = &self.directory;
        let name = &self.entry.name;
        let options = GetOptions {
            range: Some((place..self.entry.size).into()),
            if_match: self.entry.etag.clone(),
            ..GetOptions::default()
        };
        let got = runtime.wait(async { store.get_opts(&Path::parse(name)?, options).await });
        match got {
            Ok(got) => Ok(got.into_stream()),
            Err(object_store::Error::Precondition { .. }) => {
                let what = format!("{} was replaced while it was read", self.directory.url_of(name));
                Err(io::Error::other(what))
            }
            Err(error) => Err(self.directory.failed(name, error)),
        }
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("directory", &self.directory).field("entry", &self.entry).finish()
    }
}
