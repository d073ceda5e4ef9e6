//! A directory of backups in an object store, as the engine's backups reach it: object by object, under the names that
//! a local directory has (docs/format.md, section 11).
//!
//! In:    files that the engine writes under an unfinished name, checks, and renames.
//! Out:   a rename uploads the file. Before that it is a temporary file without a name, so a backup needs local space
//!        for its largest table or blob file, never for all.
//! Holds: an upload is completed only if the bytes read for it have the hash of those written, which the engine checked.
//!        A description is created, never replaced, and only while the lock is held.

use std::collections::HashMap;
use std::fs::File as LocalFile;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use object_store::{Error, PutMode};
use waxseal::env::{DirEntry, Env, File, Fs, Lock, Machine, Mapped, Open, lock};
use xxhash_rust::xxh3::Xxh3;

use crate::directory::RemoteDirectory;
use crate::download::Download;
use crate::lease::{HeldLease, Lease};
use crate::upload::{PART_BYTES, Upload};

/// The prefix of the names of descriptions.
const DESCRIPTION_PREFIX: &str = "BACKUP-";

/// A directory of backups in an object store: a file system for [`waxseal::Db::backup_in`] and
/// [`waxseal::Backup::open_in`]. Clones share it.
#[derive(Clone, Debug)]
pub struct BackupFs {
    shared: Arc<Shared>,
}

struct Shared {
    directory: RemoteDirectory,
    path: PathBuf,
    env: Env,
    /// Files that are written and not renamed yet.
    unfinished: Mutex<HashMap<PathBuf, Arc<Spool>>>,
    lease: Mutex<Weak<Lease>>,
}

impl BackupFs {
    /// Opens the directory of a URL, as [`RemoteDirectory::open`] does. No request is made.
    pub fn open(url: &str) -> io::Result<BackupFs> {
        Ok(BackupFs::new(RemoteDirectory::open(url)?, Env::real()))
    }

    /// Returns the directory of backups in a remote directory, with a clock and random numbers.
    pub fn new(directory: RemoteDirectory, env: Env) -> BackupFs {
        let path = PathBuf::from(directory.url());
        let (unfinished, lease) = (Mutex::default(), Mutex::default());
        BackupFs { shared: Arc::new(Shared { directory, path, env, unfinished, lease }) }
    }

    /// Returns the path by which the engine names the directory, which is its URL.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns the environment in which the directory is.
    pub fn env(&self) -> Env {
        Env { fs: Arc::new(self.clone()), ..self.shared.env.clone() }
    }

    fn directory(&self) -> &RemoteDirectory {
        &self.shared.directory
    }

    /// Returns the name of an object by its path. Errors: `InvalidInput` for a path outside the directory.
    fn name<'a>(&self, path: &'a Path) -> io::Result<&'a str> {
        let name = path.strip_prefix(&self.shared.path).ok().and_then(Path::to_str).filter(|name| !name.is_empty());
        name.ok_or_else(|| {
            let (path, url) = (path.display(), self.directory().url());
            io::Error::new(io::ErrorKind::InvalidInput, format!("{path} is no object below {url}"))
        })
    }

    /// Gives a sign of life if the lock is held.
    fn keep_lease(&self, must: bool) -> io::Result<()> {
        let lease = lock(&self.shared.lease).upgrade();
        lease.map_or(Ok(()), |lease| lease.keep(must))
    }

    fn upload(&self, spool: &Spool, name: &str) -> io::Result<()> {
        if name.starts_with(DESCRIPTION_PREFIX) {
            return self.create_description(spool, name);
        }
        let length = spool.len();
        let mut upload = Upload::begin(self.directory(), name)?.expecting(length);
        let mut hash = Xxh3::new();
        spool.each(|piece| {
            self.keep_lease(false)?;
            hash.update(piece);
            upload.write(piece)
        })?;
        spool.check_hash(&hash, name)?;
        upload.finish()
    }

    /// Creates a description. Fails if the object exists with other content. Equal content means that the answer to an
    /// earlier attempt was lost.
    fn create_description(&self, spool: &Spool, name: &str) -> io::Result<()> {
        let (mut bytes, mut hash) = (Vec::new(), Xxh3::new());
        spool.each(|piece| {
            hash.update(piece);
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        spool.check_hash(&hash, name)?;
        let bytes = Bytes::from(bytes);
        self.keep_lease(true)?;
        match self.directory().put(name, bytes.clone(), PutMode::Create) {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                match self.directory().read(name, bytes.len() as u64 + 1) {
                    Ok((_, found)) if found == bytes => Ok(()),
                    _ => {
                        let what = format!("{} was made by another process", self.directory().url_of(name));
                        Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
                    }
                }
            }
            made => made.map(drop).map_err(|error| self.directory().failed(name, error)),
        }
    }
}

impl Fs for BackupFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let name = self.name(path)?;
        match how {
            Open::Read => {
                let download = Download::open(self.directory(), name)?;
                let content = Content::Object { length: download.entry().size, download: Mutex::new(download) };
                Ok(Arc::new(BackupFile { fs: self.clone(), content }))
            }
            Open::Create | Open::CreateMode(_) => {
                let spool = Arc::new(Spool { file: tempfile::tempfile()?, written: Mutex::default() });
                lock(&self.shared.unfinished).insert(path.to_owned(), Arc::clone(&spool));
                Ok(Arc::new(BackupFile { fs: self.clone(), content: Content::Unfinished(spool) }))
            }
            Open::Write => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let spool = lock(&self.shared.unfinished).remove(from);
        let spool = spool.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        self.upload(&spool, self.name(to)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = self.name(path)?;
        match lock(&self.shared.unfinished).remove(path) {
            Some(_) => Ok(()),
            None => {
                self.keep_lease(false)?;
                self.directory().remove(name)
            }
        }
    }

    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(self.entries(dir)?.into_iter().filter(|entry| entry.is_file).map(|entry| entry.name).collect())
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        if *dir != *self.shared.path {
            return Err(io::ErrorKind::NotFound.into());
        }
        let entries = self.directory().list("")?.into_iter();
        Ok(entries.map(|entry| DirEntry { is_file: !entry.is_prefix, name: entry.name }).collect())
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    /// A prefix exists always.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        if self.shared.path.starts_with(path) {
            return Ok(true);
        }
        match self.directory().head(self.name(path)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// An object is durable when its upload has ended.
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        let taken = Lease::take(self.directory(), self.name(path)?, holder, &self.shared.env)?;
        Ok(taken.map(|lease| {
            *lock(&self.shared.lease) = Arc::downgrade(&lease);
            Box::new(HeldLease(lease)) as Box<dyn Lock>
        }))
    }

    fn machine(&self, _: &Path) -> io::Result<Machine> {
        Ok(Machine::default())
    }

    fn reserves_blocks(&self, _: &Path) -> io::Result<bool> {
        Ok(false)
    }
}

/// A file of the directory. The engine reads objects at any place, and writes files once from start to end; everything
/// else is refused.
#[derive(Debug)]
struct BackupFile {
    fs: BackupFs,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Object { length: u64, download: Mutex<Download> },
    Unfinished(Arc<Spool>),
}

impl File for BackupFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.content {
            Content::Object { download, .. } => {
                self.fs.keep_lease(false)?;
                lock(download).read_at(buffer, offset)
            }
            Content::Unfinished(spool) => spool.read_at(buffer, offset),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match &self.content {
            Content::Object { .. } => Err(io::ErrorKind::Unsupported.into()),
            Content::Unfinished(spool) => {
                self.fs.keep_lease(false)?;
                spool.write_at(bytes, offset)
            }
        }
    }

    /// Nothing is durable before the upload.
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        match &self.content {
            Content::Object { length, .. } => Ok(*length),
            Content::Unfinished(spool) => Ok(spool.len()),
        }
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn map(&self, _: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        Ok(None)
    }
}

/// A file that is written from its start to its end, in a temporary file without a name.
#[derive(Debug)]
struct Spool {
    file: LocalFile,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    length: u64,
    hash: Xxh3,
}

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}

impl Spool {
    fn len(&self) -> u64 {
        lock(&self.written).length
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    /// Errors: `InvalidInput` for a write at another place than the end.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = lock(&self.written);
        if offset != written.length {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.file.write_all_at(bytes, offset)?;
        written.hash.update(bytes);
        written.length += bytes.len() as u64;
        Ok(())
    }

    /// Passes the content in pieces.
    fn each(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let length = self.len();
        let (mut buffer, mut at) = (vec![0; length.min(PART_BYTES as u64) as usize], 0);
        while at < length {
            let piece = &mut buffer[..(length - at).min(PART_BYTES as u64) as usize];
            self.file.read_exact_at(piece, at)?;
            take(piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Fails if the bytes read are not those written.
    fn check_hash(&self, read: &Xxh3, name: &str) -> io::Result<()> {
        match lock(&self.written).hash.digest() == read.digest() {
            true => Ok(()),
            false => {
                let what = format!("the temporary file of {name} has changed; it is not uploaded");
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.directory.fmt(f)
    }
}
