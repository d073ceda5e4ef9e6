//! Reads a manifest back. It writes nothing, so a read-only open beside a writer uses the same code.
//!
//! Path:   CURRENT -> first page (identity, durable length) -> edits, one chained frame after the other -> State
//! Before: the files may have any contents.
//! After:  the state as of the last whole edit, and a description of the bytes after it.
//! Rule:   a bad edit below the witness is damage, because other data relies on it. A bad edit above it is torn and was
//!         never confirmed: it is left out and reported. Unreadable bytes are an error, never an end.
//!
//! A manifest that was read is never appended to: `Manifest::resume` writes a new one, because the page cache may,
//! after a failed sync, show data that is not on the disk (I16).

use std::io::ErrorKind as IoKind;
use std::path::Path;

use super::contents::{Contents, contents};
use super::current::Current;
use super::edit::Edit;
use super::state::ManifestState;
use crate::checksum::hash;
use crate::codec::Reader;
use crate::env::{Env, Open, read_exact};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, Mark, PAGE_BYTES};
use crate::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::identity::StoreIdentity;
use crate::names::StoreFileName;

/// Positions of the witness and its copy in the first page: two sectors, so that one torn write spares one of them.
pub(super) const WITNESS_AT: [usize; 2] = [512, 1536];

/// Edits begin after the first page.
pub(super) const EDITS_AT: u64 = PAGE_BYTES as u64;

/// Bytes of the first page that its check covers, and the check's position.
pub(super) const CHECK_AT: usize = 80;

/// Number of times that a reader follows a CURRENT moved by concurrent rotations.
const FOLLOW_LIMIT: usize = 100;

/// A store as described by its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredManifest {
    /// The result of all whole edits.
    pub state: ManifestState,
    /// The store, and those that it descends from.
    pub identity: StoreIdentity,
    /// Features that whoever writes the store must know; a reader may ignore them.
    pub read_compatible: u32,
    /// The number of the manifest that was read.
    pub number: u64,
    /// The torn end that was left out; `None` if there was none.
    pub torn: Option<Torn>,
    /// A number above every number in the manifest and in the directory: free for new files.
    pub next_file: u64,
}

impl RecoveredManifest {
    /// True if the creation of this store was interrupted, so that it was never confirmed. Only its first manifest,
    /// which names no log, has the number 1.
    pub fn is_unfinished(&self) -> bool {
        self.number == 1 && self.state.log.is_none()
    }
}

/// No session uses this many numbers: files with numbers further above the manifest's counter are not the remains of a
/// crash.
const MOST_UNNAMED: u64 = 1 << 32;

/// The end of a manifest that was left out: an edit that was never confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The manifest's name.
    pub file: String,
    /// The end of the whole edits.
    pub offset: u64,
    /// Number of bytes after it.
    pub bytes: u64,
}

/// The contents of one manifest file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EditReplay {
    pub(super) identity: StoreIdentity,
    pub(super) read_compatible: u32,
    pub(super) state: ManifestState,
    pub(super) torn: Option<Torn>,
}

/// Reads the store in `dir`; `None` if there is none. A directory with our tables or log files but without CURRENT is
/// damage. A directory with nothing but manifests is a store whose creation was interrupted and never confirmed
/// (`contents`).
pub fn recover(env: &Env, dir: &Path) -> Result<Option<RecoveredManifest>> {
    let names = match env.fs.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(format!("list {}", dir.display()), error)),
    };
    let names: Vec<StoreFileName> = names.iter().filter_map(|name| StoreFileName::parse(name)).collect();
    match contents(env, dir)? {
        Contents::Store => {}
        Contents::Damaged => return Current::read(env, dir)?.map_or_else(|| Err(Current::missing()), |_| Ok(None)),
        _ => return Ok(None),
    }
    let Some((current, replay)) = follow(env, dir)? else { return Ok(None) };
    let EditReplay { identity, read_compatible, state, torn } = replay;
    if identity.store != current.store {
        let damage = Damage { verdict: Verdict::Misplaced, ..Damage::default() };
        let error = Error::corruption(damage, "the manifest of another store");
        return Err(error.in_file(&StoreFileName::Manifest(current.manifest).to_string(), 0));
    }
    let counter = state.next_file.max(current.manifest.saturating_add(1));
    let numbers = names.iter().filter_map(|name| name.number());
    let greatest = numbers.filter(|number| *number < counter.saturating_add(MOST_UNNAMED)).max().unwrap_or(0);
    let next_file = counter.max(greatest.saturating_add(1));
    Ok(Some(RecoveredManifest { state, identity, read_compatible, number: current.manifest, torn, next_file }))
}

/// True if the creation of the store in `dir` was interrupted (`RecoveredManifest::is_unfinished`). Reads no manifest
/// but the first.
pub fn is_unfinished(env: &Env, dir: &Path) -> Result<bool> {
    match Current::read(env, dir)? {
        Some(current) if current.manifest == 1 => Ok(recover(env, dir)?.is_some_and(|found| found.is_unfinished())),
        _ => Ok(false),
    }
}

/// Reads the manifest that CURRENT names, and retries if a writer has just replaced it. Returns `None` without CURRENT.
fn follow(env: &Env, dir: &Path) -> Result<Option<(Current, EditReplay)>> {
    let mut before = None;
    for _ in 0..FOLLOW_LIMIT {
        let Some(current) = Current::read(env, dir)? else { return Ok(None) };
        let name = StoreFileName::Manifest(current.manifest).to_string();
        match env.fs.open(&dir.join(&name), Open::Read) {
            Ok(file) => {
                let length = || file.len().during(|| format!("length of {name}"));
                let read = |offset, length| read_exact(&*file, offset, length).during(|| format!("read {name}"));
                return Ok(Some((current, replay(&name, length, read)?)));
            }
            Err(error) if error.kind() == IoKind::NotFound && before != Some(current) => before = Some(current),
            Err(error) if error.kind() == IoKind::NotFound => {
                let damage = Damage { file: name, verdict: Verdict::Missing, ..Damage::default() };
                return Err(Error::corruption(damage, "the manifest that CURRENT names is missing"));
            }
            Err(error) => return Err(Error::io(format!("open {name}"), error)),
        }
    }
    Err(Error::io("read CURRENT", IoKind::TimedOut.into()))
}

/// Reads a manifest of `length()` bytes through `read(offset, bytes)`, which is never called for bytes beyond the end
/// (I10).
///
/// The witness is read before the edits, and before their length is determined: edits appended meanwhile are above the
/// witness and can only look torn, and all edits below the witness are present.
pub(super) fn replay(
    name: &str,
    length: impl Fn() -> Result<u64>,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>>,
) -> Result<EditReplay> {
    let damaged = |offset: u64| move |error: Error| error.in_file(name, offset);
    let paged = length()?;
    if paged < EDITS_AT {
        return Err(damaged(paged)(Error::structural("ends within its first page")));
    }
    let page = first_page(&read(0, PAGE_BYTES)?).map_err(damaged(0))?;
    let length = length()?;
    if StoreFileName::Manifest(page.number).to_string() != name {
        let damage = Damage { verdict: Verdict::Misplaced, ..Damage::default() };
        return Err(damaged(0)(Error::corruption(damage, "another manifest under this name")));
    }
    let witness = page.witness.ok_or_else(|| damaged(WITNESS_AT[0] as u64)(Error::structural("no witness checks")))?;

    let mut state = ManifestState::default();
    let (mut end, mut link, mut edits) = (0, page.nonce, 0);
    while let Some((header, body)) = next_frame(length, end, &mut read)? {
        if !(header.kind == FrameKind::Batch && header.seqno == edits && header.fits(link, end, &body)) {
            break;
        }
        // The frame is intact: an edit that does not decode is not torn but intended, or damaged.
        let edit = Edit::decode(&body).map_err(damaged(EDITS_AT + end))?;
        let applied = state.apply(&edit).map_err(|what| Error::structural(&format!("edit {edits} {what}")));
        applied.map_err(damaged(EDITS_AT + end))?;
        (end, link, edits) = (end + header.extent(), header.link, edits + 1);
    }
    if end < witness || edits == 0 {
        let damage = Damage { verdict: Verdict::Checksum, ..Damage::default() };
        let error = Error::corruption(damage, format!("edit {edits} is damaged, and it was confirmed"));
        return Err(damaged(EDITS_AT + end)(error));
    }
    let bytes = length - (EDITS_AT + end);
    let torn = (bytes > 0).then(|| Torn { file: name.to_owned(), offset: EDITS_AT + end, bytes });
    Ok(EditReplay { identity: page.identity, read_compatible: page.read_compatible, state, torn })
}

/// Reads the frame that may begin `end` bytes into the edits, if the rest of the file is long enough for one.
fn next_frame(
    length: u64,
    end: u64,
    read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>>,
) -> Result<Option<(FrameHeader, Vec<u8>)>> {
    let left = length - (EDITS_AT + end);
    if left < FRAME_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let header = read(EDITS_AT + end, FRAME_HEADER_BYTES)?;
    let Some(header) = header.first_chunk().and_then(|bytes| FrameHeader::decode(bytes).ok()) else {
        return Ok(None);
    };
    if header.extent() > left {
        return Ok(None);
    }
    let body = read(EDITS_AT + end + FRAME_HEADER_BYTES as u64, header.length as usize)?;
    Ok(Some((header, body)))
}

/// The contents of the first page.
struct FirstPage {
    identity: StoreIdentity,
    read_compatible: u32,
    number: u64,
    nonce: u64,
    /// The highest valid copy.
    witness: Option<u64>,
}

fn first_page(page: &[u8]) -> Result<FirstPage> {
    let FileHeader { uid: store, read_compatible, .. } = FileHeader::decode(page, FileKind::Manifest)?;
    let mut reader = Reader::starting_at(page, HEADER_BYTES);
    let (number, nonce, expected) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let found = hash(&page[..CHECK_AT]);
    if expected != found {
        return Err(Error::mismatch(expected, found, "first page of a manifest"));
    }
    let copies = WITNESS_AT.map(|at| Reader::starting_at(page, at).u64().ok());
    let witness = copies.into_iter().flatten().filter_map(|word| Mark::Edited.decode(nonce, word)).max();
    // The header decides: the identity block may be damaged or from another build.
    let identity =
        StoreIdentity::in_page(page).filter(|identity| identity.store == store).unwrap_or_else(|| store.into());
    Ok(FirstPage { identity, read_compatible, number, nonce, witness })
}
