//! Determines what a directory holds before any file in it is created, changed or removed.
//!
//! File names prove nothing: users and other engines also have files named `CURRENT`, `MANIFEST-000001` or
//! `000001.log`. A file is ours if its first bytes are those that this engine writes there. `judge` decides from names
//! and first bytes alone; `contents` collects them.

use std::fmt;
use std::io::ErrorKind as IoKind;
use std::path::Path;

use super::current::Current;
use crate::env::{DirEntry, Env, Fs, Open};
use crate::error::{Error, IoContext, Result};
use crate::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::names::StoreFileName;

/// The contents of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing, `lost+found`, a lock file, or manifests of a creation that was interrupted.
    Empty,
    /// A store: `CURRENT` names its manifest.
    Store,
    /// Files of a store whose `CURRENT` is missing or damaged.
    Damaged,
    /// Files of this engine that are not a store.
    Marked(Marked),
    /// No store, but files that this engine did not write.
    Foreign(Foreign),
}

/// A directory that this engine wrote and that is not a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// A checkpoint that was interrupted.
    UnfinishedCheckpoint,
    /// An export that was interrupted.
    UnfinishedExport,
    /// An export.
    Export,
    /// A restore of a backup that was interrupted.
    UnfinishedRestore,
    /// Backups.
    Backups,
}

/// The origin of the files in a directory that holds no store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A LevelDB database.
    LevelDb,
    /// A RocksDB database.
    RocksDb,
    /// Other files or directories; the name of one of them.
    Other(String),
}

impl fmt::Display for Contents {
    /// Completes the sentence "the directory holds …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contents::Empty => f.write_str("no store"),
            Contents::Store => f.write_str("a store"),
            Contents::Damaged => f.write_str("a store whose CURRENT is missing or damaged"),
            Contents::Marked(Marked::UnfinishedCheckpoint) => {
                f.write_str("a checkpoint that was interrupted, not a store")
            }
            Contents::Marked(Marked::UnfinishedExport) => f.write_str("an export that was interrupted, not a store"),
            Contents::Marked(Marked::UnfinishedRestore) => {
                f.write_str("a restored backup that was interrupted, not a store")
            }
            Contents::Marked(Marked::Backups) => f.write_str("backups, not a store"),
            Contents::Marked(Marked::Export) => f.write_str("an export, not a store"),
            Contents::Foreign(Foreign::LevelDb) => f.write_str("a LevelDB database, not a Waxseal store"),
            Contents::Foreign(Foreign::RocksDb) => f.write_str("a RocksDB database, not a Waxseal store"),
            Contents::Foreign(Foreign::Other(name)) => write!(f, "no store, but other files ({name:?})"),
        }
    }
}

/// The name of the file that describes an export. docs/format.md, section 8.3.
const EXPORT: &str = "EXCHANGE";

/// The prefix of the names of the files that describe backups. docs/format.md, section 11.
pub(crate) const BACKUP_PREFIX: &str = "BACKUP-";

/// The line of a marker for each kind of unfinished directory. docs/format.md, section 3.
const LINES: [(&str, Marked); 3] = [
    ("waxseal checkpoint\n", Marked::UnfinishedCheckpoint),
    ("waxseal export\n", Marked::UnfinishedExport),
    ("waxseal restore\n", Marked::UnfinishedRestore),
];

/// The first bytes of a file.
enum FileHead {
    /// Empty or all zeros: a file that a crash left before its first write.
    Blank,
    Bytes(Vec<u8>),
    Unreadable,
}

impl FileHead {
    fn of(bytes: Vec<u8>) -> FileHead {
        if bytes.iter().all(|byte| *byte == 0) { FileHead::Blank } else { FileHead::Bytes(bytes) }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            FileHead::Bytes(bytes) => bytes,
            FileHead::Blank | FileHead::Unreadable => &[],
        }
    }

    /// True if this engine wrote the first bytes of a file with this name.
    fn is_ours(&self, name: StoreFileName) -> bool {
        let bytes = self.bytes();
        match name {
            StoreFileName::Table(_) | StoreFileName::Trash(_) | StoreFileName::Damaged(_) => {
                FileHeader::is_of(bytes, FileKind::Table)
            }
            StoreFileName::Values(_) => FileHeader::is_of(bytes, FileKind::Values),
            StoreFileName::Segment(_) => FileHeader::is_of(bytes, FileKind::Segment),
            StoreFileName::Ring(_) => FileHeader::is_of(bytes, FileKind::Ring),
            StoreFileName::Manifest(_) => FileHeader::is_of(bytes, FileKind::Manifest),
            StoreFileName::Current => Current::decode(bytes).is_ok(),
            // These two are written before any other file identifies the owner, so a crash may leave part of their
            // line.
            StoreFileName::Temporary => is_begun(bytes, b"MANIFEST-") || bytes.starts_with(b"MANIFEST-"),
            StoreFileName::Unfinished => LINES.iter().any(|(line, _)| is_begun(bytes, line.as_bytes())),
            StoreFileName::Lock => matches!(self, FileHead::Blank) || bytes.starts_with(b"process "),
            StoreFileName::Cut(_) => false, // no header distinguishes it from a user's file
        }
    }

    /// True if a file in a store's directory belongs to the store. There an unwritten file with one of our names is the
    /// remains of a crash, and a `.cut` or `.damaged` file is the work of a recovery or repair.
    fn is_a_stores(&self, name: StoreFileName) -> bool {
        matches!(name, StoreFileName::Cut(_) | StoreFileName::Damaged(_))
            || matches!(self, FileHead::Blank)
            || self.is_ours(name)
    }
}

/// True if the bytes are a nonempty prefix of a line.
fn is_begun(bytes: &[u8], line: &[u8]) -> bool {
    !bytes.is_empty() && line.starts_with(bytes)
}

fn marked(bytes: &[u8]) -> Option<Marked> {
    LINES.into_iter().find(|(line, _)| line.as_bytes() == bytes).map(|(_, marked)| marked)
}

/// Judges a directory from its entries. `head` reads the first bytes of a regular file. A file that is unreadable for
/// lack of permission, or has disappeared, proves nothing. Any other error is returned, and so is every error on
/// `CURRENT`, which is needed for any judgement.
fn judge(entries: &[DirEntry], mut head: impl FnMut(&str) -> std::io::Result<Vec<u8>>) -> Result<Contents> {
    let mut failed = None;
    let mut heads = |file: &str| match head(file) {
        Ok(bytes) => FileHead::of(bytes),
        Err(error) => {
            let proves_nothing = matches!(error.kind(), IoKind::PermissionDenied | IoKind::NotFound);
            if file == "CURRENT" || !proves_nothing {
                failed.get_or_insert_with(|| Error::io(format!("reading {file}"), error));
            }
            FileHead::Unreadable
        }
    };
    let contents = judge_heads(entries, &mut heads);
    failed.map_or(Ok(contents), Err)
}

fn judge_heads(entries: &[DirEntry], heads: &mut dyn FnMut(&str) -> FileHead) -> Contents {
    let files = || entries.iter().filter(|entry| entry.is_file).map(|entry| &*entry.name);
    let has = |name: &str| files().any(|file| file == name);
    let current = has("CURRENT").then(|| heads("CURRENT"));
    if let Some(head) = &current {
        if Current::decode(head.bytes()).is_ok() {
            return Contents::Store;
        }
        if let Some(engine) = engine_of(head.bytes(), entries) {
            return Contents::Foreign(engine);
        }
    }
    // A copy is complete when it has a `CURRENT`, so a mark beside one tells nothing.
    let is_marked = current.is_none() && has("UNFINISHED");
    if let Some(marked) = is_marked.then(|| marked(heads("UNFINISHED").bytes())).flatten() {
        return Contents::Marked(marked);
    }
    if has(EXPORT) && FileHeader::is_of(heads(EXPORT).bytes(), FileKind::Exchange) {
        return Contents::Marked(Marked::Export);
    }
    if files().any(|name| name.starts_with(BACKUP_PREFIX) && FileHeader::is_of(heads(name).bytes(), FileKind::Backup)) {
        return Contents::Marked(Marked::Backups);
    }
    // Check data files first: any one of them decides.
    let named = || files().filter_map(|file| StoreFileName::parse(file).map(|name| (file, name)));
    let holds_data = |name: &StoreFileName| name.number().is_some() && !matches!(name, StoreFileName::Manifest(_));
    let is_evidence =
        |name: &StoreFileName| holds_data(name) || current.is_some() && matches!(name, StoreFileName::Manifest(_));
    if named().filter(|(_, name)| is_evidence(name)).any(|(file, name)| heads(file).is_ours(name)) {
        return Contents::Damaged;
    }
    if let Some(engine) = engine_by_names(entries) {
        return Contents::Foreign(engine);
    }
    // A creation takes the lock first, so an unwritten file counts as its remains only beside a lock file of ours.
    let is_locked = has("LOCK") && heads("LOCK").is_ours(StoreFileName::Lock);
    let is_of_creation =
        |entry: &DirEntry, heads: &mut dyn FnMut(&str) -> FileHead| match StoreFileName::parse(&entry.name) {
            _ if entry.name == "lost+found" => !entry.is_file,
            _ if !entry.is_file => false,
            Some(StoreFileName::Lock) => is_locked,
            Some(name @ (StoreFileName::Manifest(_) | StoreFileName::Temporary | StoreFileName::Unfinished)) => {
                let head = heads(&entry.name);
                is_locked && matches!(head, FileHead::Blank)
                    || head.is_ours(name) && (is_locked || name != StoreFileName::Temporary)
            }
            _ => false,
        };
    let other = entries.iter().find(|entry| !is_of_creation(entry, heads));
    other.map_or(Contents::Empty, |entry| Contents::Foreign(Foreign::Other(entry.name.clone())))
}

/// Returns the engine that wrote a `CURRENT` consisting of a manifest's name.
fn engine_of(current: &[u8], entries: &[DirEntry]) -> Option<Foreign> {
    let number = current.strip_prefix(b"MANIFEST-")?.strip_suffix(b"\n")?;
    let is_theirs = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    is_theirs.then(|| if is_rocksdbs(entries) { Foreign::RocksDb } else { Foreign::LevelDb })
}

/// Returns the engine whose tables or options are present, if `CURRENT` is inconclusive.
fn engine_by_names(entries: &[DirEntry]) -> Option<Foreign> {
    let is_table = |entry: &&DirEntry| {
        let number = entry.name.strip_suffix(".ldb").or_else(|| entry.name.strip_suffix(".sst"));
        entry.is_file && number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let has_tables = entries.iter().any(|entry| is_table(&entry));
    match is_rocksdbs(entries) {
        true => Some(Foreign::RocksDb),
        false => has_tables.then_some(Foreign::LevelDb),
    }
}

fn is_rocksdbs(entries: &[DirEntry]) -> bool {
    let is_options = |name: &str| {
        let number = name.strip_prefix("OPTIONS-");
        number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let files = || entries.iter().filter(|entry| entry.is_file).map(|entry| &*entry.name);
    files().any(is_options) || files().any(|name| name == "IDENTITY") && files().any(|name| name == "CURRENT")
}

/// Determines what the directory holds. A directory that does not exist is empty. Reads `CURRENT`, and without one the
/// first bytes of files with our names.
pub fn contents(env: &Env, dir: &Path) -> Result<Contents> {
    let entries = match env.fs.entries(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == IoKind::NotFound => return Ok(Contents::Empty),
        Err(error) => return Err(Error::io(format!("list {}", dir.display()), error)),
    };
    judge(&entries, |name| head(&*env.fs, &dir.join(name)))
}

/// True if a file in a store's directory belongs to the store. Errors count as false.
pub fn is_a_stores(fs: &dyn Fs, dir: &Path, name: StoreFileName) -> bool {
    try_is_a_stores(fs, dir, name).unwrap_or(false)
}

/// True if a file in a store's directory belongs to the store; false if it does not exist, or is a directory or a pipe.
/// Errors: it cannot be read.
fn try_is_a_stores(fs: &dyn Fs, dir: &Path, name: StoreFileName) -> std::io::Result<bool> {
    owner_of(fs, dir, name).map(|owner| owner == Some(FileOwner::Store))
}

/// The owner of a file that has one of our names and is in a store's directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileOwner {
    /// The store.
    Store,
    /// A user, or the store if the first bytes are damaged.
    Unknown,
}

/// Returns the owner of a file in a store's directory, or `None` for a missing file, a directory or a pipe. Errors: the
/// file cannot be read.
pub fn owner_of(fs: &dyn Fs, dir: &Path, name: StoreFileName) -> std::io::Result<Option<FileOwner>> {
    let is_no_file = |kind: IoKind| matches!(kind, IoKind::NotFound | IoKind::IsADirectory | IoKind::NotSeekable);
    match head(fs, &dir.join(name.to_string())) {
        Err(error) if is_no_file(error.kind()) => Ok(None),
        head => {
            let is_a_stores = FileHead::of(head?).is_a_stores(name);
            Ok(Some(if is_a_stores { FileOwner::Store } else { FileOwner::Unknown }))
        }
    }
}

/// Returns our files in the directory of a store, or in the remains of one. Symbolic links are left out, and so are
/// files of other programs under our names. Returns `Io` if a file with one of our names cannot be read.
pub fn our_files(env: &Env, dir: &Path) -> Result<Vec<StoreFileName>> {
    let entries = env.fs.entries(dir).during(|| format!("list {}", dir.display()))?;
    let names = entries.iter().filter(|entry| entry.is_file).filter_map(|entry| StoreFileName::parse(&entry.name));
    let is_ours = |name: StoreFileName| try_is_a_stores(&*env.fs, dir, name).during(|| format!("read {name}"));
    names.filter_map(|name| is_ours(name).map(|is_ours| is_ours.then_some(name)).transpose()).collect()
}

/// Reads the first bytes of a file: a whole header, or a whole `CURRENT`.
fn head(fs: &dyn Fs, path: &Path) -> std::io::Result<Vec<u8>> {
    let file = fs.open(path, Open::Read)?;
    let mut bytes = vec![0; HEADER_BYTES.max(super::current::MAX_BYTES)];
    let length = file.read_at(&mut bytes, 0)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Durably marks a directory as unfinished: until `mark_finished` its contents are not a store.
pub fn mark_unfinished(env: &Env, dir: &Path, what: Marked) -> Result<()> {
    let name = StoreFileName::Unfinished;
    if is_a_stores(&*env.fs, dir, name) {
        let _ = env.fs.remove(&dir.join(name.to_string())); // a marker that was never completely written
    }
    let line = LINES.iter().find(|(_, marked)| *marked == what).map_or("", |(line, _)| *line);
    let file = env.fs.open(&dir.join(name.to_string()), Open::Create).during(|| format!("create {name}"))?;
    file.write_at(line.as_bytes(), 0).during(|| format!("write {name}"))?;
    file.sync_data().during(|| format!("sync {name}"))?;
    env.fs.sync_dir(dir).during(|| format!("sync the directory of {name}"))
}

/// Removes the mark: the contents are complete and durable.
pub fn mark_finished(env: &Env, dir: &Path) -> Result<()> {
    let name = StoreFileName::Unfinished;
    env.fs.remove(&dir.join(name.to_string())).during(|| format!("remove {name}"))?;
    env.fs.sync_dir(dir).during(|| format!("sync the directory of {name}"))
}
