//! Reading a manifest back. Writes nothing, so a read-only open beside a writer uses the same code.
//!
//! Path:   CURRENT -> first page (who am I, how far was I synced) -> edits, one chained frame after the other -> State
//! Before: anything may stand in the files.
//! After:  the state of the last whole edit, and what was behind it.
//! Rule:   a bad edit below the witness is damage: somebody relied on it. One above it is a torn edit that nobody was told of:
//!         it is left out and said so. Bytes that cannot be read at all are an error, never an end.
//!
//! Nobody appends to a manifest that was read: `Manifest::resume` writes a fresh one, for what the page cache shows after a
//! failed sync need not be on the disk (I16).

use std::io::ErrorKind as IoKind;
use std::path::Path;

use super::contents::{Contents, contents};
use super::current::Current;
use super::edit::Edit;
use super::state::State;
use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::env::{Env, Open, read_exact};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, Mark, PAGE_BYTES};
use crate::header::{FileKind, HEADER_BYTES, Header};
use crate::names::Name;

/// Where the witness and its copy stand in the first page: two sectors, so that one torn write spares one of them.
pub(super) const WITNESS_AT: [usize; 2] = [512, 1536];

/// Edits begin behind the first page.
pub(super) const EDITS_AT: u64 = PAGE_BYTES as u64;

/// Bytes of the first page that its check covers, and the check's place.
pub(super) const CHECK_AT: usize = 80;

/// A writer that rotates while we read moves CURRENT; so often we follow it.
const FOLLOW_LIMIT: usize = 100;

/// A store as its manifest tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// What all whole edits add up to.
    pub state: State,
    /// The store's uid.
    pub store: Uid,
    /// Features that whoever writes the store must know; a reader may ignore them.
    pub read_compatible: u32,
    /// The number of the manifest that was read.
    pub number: u64,
    /// What was left out at its end, if anything.
    pub torn: Option<Torn>,
    /// Above every number in the manifest and in the directory: free for new files.
    pub next_file: u64,
}

impl Recovered {
    /// True if the creation of this store was interrupted, so that nobody was told of it. Its first manifest, which names no log, has the number 1, and no
    /// other has.
    pub fn is_unfinished(&self) -> bool {
        self.number == 1 && self.state.log.is_none()
    }
}

/// No session uses so many numbers: files numbered above that are not ones that a crash left behind the manifest's counter.
const MOST_UNNAMED: u64 = 1 << 32;

/// The end of a manifest that was left out: an edit that nobody was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The manifest's name.
    pub file: String,
    /// Where the whole edits end.
    pub offset: u64,
    /// How many bytes follow.
    pub bytes: u64,
}

/// What one manifest file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replay {
    pub(super) store: Uid,
    pub(super) read_compatible: u32,
    pub(super) state: State,
    pub(super) torn: Option<Torn>,
}

/// Reads the store in `dir`; none if there is none. A directory with tables or log files of ours but without CURRENT is damage;
/// one with nothing but manifests is a store whose creation was interrupted, and nobody was told of it (`contents`).
pub fn recover(env: &Env, dir: &Path) -> Result<Option<Recovered>> {
    let names = match env.fs.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(format!("list {}", dir.display()), error)),
    };
    let names: Vec<Name> = names.iter().filter_map(|name| Name::parse(name)).collect();
    match contents(env, dir)? {
        Contents::Store => {}
        Contents::Damaged => return Current::read(env, dir)?.map_or_else(|| Err(Current::missing()), |_| Ok(None)),
        _ => return Ok(None),
    }
    let Some((current, replay)) = follow(env, dir)? else { return Ok(None) };
    let Replay { store, read_compatible, state, torn } = replay;
    if store != current.store {
        let damage = Damage { verdict: Verdict::Misplaced, ..Damage::default() };
        let error = Error::corruption(damage, "the manifest of another store");
        return Err(error.in_file(&Name::Manifest(current.manifest).to_string(), 0));
    }
    let counter = state.next_file.max(current.manifest.saturating_add(1));
    let numbers = names.iter().filter_map(|name| name.number());
    let greatest = numbers.filter(|number| *number < counter.saturating_add(MOST_UNNAMED)).max().unwrap_or(0);
    let next_file = counter.max(greatest.saturating_add(1));
    Ok(Some(Recovered { state, store, read_compatible, number: current.manifest, torn, next_file }))
}

/// True if the store in `dir` is one whose creation was interrupted (`Recovered::is_unfinished`). Reads no manifest but the first.
pub fn is_unfinished(env: &Env, dir: &Path) -> Result<bool> {
    match Current::read(env, dir)? {
        Some(current) if current.manifest == 1 => Ok(recover(env, dir)?.is_some_and(|found| found.is_unfinished())),
        _ => Ok(false),
    }
}

/// Reads the manifest that CURRENT names, again if a writer has just replaced it. None without CURRENT.
fn follow(env: &Env, dir: &Path) -> Result<Option<(Current, Replay)>> {
    let mut before = None;
    for _ in 0..FOLLOW_LIMIT {
        let Some(current) = Current::read(env, dir)? else { return Ok(None) };
        let name = Name::Manifest(current.manifest).to_string();
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

/// Reads a manifest of `length()` bytes through `read(offset, bytes)`, which is never asked for more than there is (I10).
///
/// The witness is read before the edits, and before it is asked how far they go: what a writer appends meanwhile lies above the witness
/// and can only look torn, and what the witness speaks of is there.
pub(super) fn replay(
    name: &str,
    length: impl Fn() -> Result<u64>,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>>,
) -> Result<Replay> {
    let damaged = |offset: u64| move |error: Error| error.in_file(name, offset);
    let paged = length()?;
    if paged < EDITS_AT {
        return Err(damaged(paged)(Error::structural("ends within its first page")));
    }
    let page = first_page(&read(0, PAGE_BYTES)?).map_err(damaged(0))?;
    let length = length()?;
    if Name::Manifest(page.number).to_string() != name {
        let damage = Damage { verdict: Verdict::Misplaced, ..Damage::default() };
        return Err(damaged(0)(Error::corruption(damage, "another manifest under this name")));
    }
    let witness = page.witness.ok_or_else(|| damaged(WITNESS_AT[0] as u64)(Error::structural("no witness checks")))?;

    let mut state = State::default();
    let (mut end, mut link, mut edits) = (0, page.nonce, 0);
    while let Some((header, body)) = next_frame(length, end, &mut read)? {
        if !(header.kind == FrameKind::Batch && header.seqno == edits && header.fits(link, end, &body)) {
            break;
        }
        // The frame is as it was written: what its body says is not torn but meant, or wrong.
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
    Ok(Replay { store: page.store, read_compatible: page.read_compatible, state, torn })
}

/// The frame that may stand `end` bytes into the edits, if what is left of the file is long enough for one.
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

/// What the first page says.
struct FirstPage {
    store: Uid,
    read_compatible: u32,
    number: u64,
    nonce: u64,
    /// The greatest copy that checks.
    witness: Option<u64>,
}

fn first_page(page: &[u8]) -> Result<FirstPage> {
    let Header { uid: store, read_compatible, .. } = Header::decode(page, FileKind::Manifest)?;
    let mut reader = Reader::starting_at(page, HEADER_BYTES);
    let (number, nonce, expected) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let found = hash(&page[..CHECK_AT]);
    if expected != found {
        return Err(Error::mismatch(expected, found, "first page of a manifest"));
    }
    let copies = WITNESS_AT.map(|at| Reader::starting_at(page, at).u64().ok());
    let witness = copies.into_iter().flatten().filter_map(|word| Mark::Edited.decode(nonce, word)).max();
    Ok(FirstPage { store, read_compatible, number, nonce, witness })
}
