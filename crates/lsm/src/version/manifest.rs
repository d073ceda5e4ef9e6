//! The manifest: a chain of edits, and a pointer to it. docs/format.md, section 6.
//!
//! Path:   Edit -> chained frame -> write -> sync -> witness (not synced by itself: the next sync includes it)
//! Before: every file that the edit names is durable (I04), and so is the log up to the commits that the edit makes
//!         permanent (I15). LOCK is the file that this store locked, and CURRENT names this manifest: otherwise another
//!         process may have opened the store.
//! After:  the edit is durable; only then may readers rely on added files, or removed files be deleted.
//! Fails:  a failed sync ends the manifest, and so does a write that failed for another reason than a full disk, or a
//!         replaced lock or CURRENT: every later call returns `Halted` until the store is reopened (I09). After *any*
//!         error neither the files that the edit adds nor those it removes may be touched: only the next open
//!         determines whether the edit is in effect. Only a full disk leaves the manifest unchanged.
//! Crash:  the edit is present entirely or not at all; `recover` leaves out a torn edit that was never confirmed.
//!
//! Rotation writes a new manifest that begins with the whole state, syncs it and the directory, and only then updates
//! CURRENT: manifest first, then the pointer. The old manifest is removed last; a crash leaves at worst an unreferenced
//! file.
//!
//! The manifest has one owner, behind a lock that no reader takes (I14).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::current::Current;
use super::edit::Edit;
use super::recover::{CHECK_AT, EDITS_AT, RecoveredManifest, WITNESS_AT};
use super::state::ManifestState;
use crate::checksum::{Uid, hash};
use crate::env::{Env, File, Open};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, Mark, PAGE_BYTES};
use crate::header::{FileHeader, FileKind};
use crate::identity::StoreIdentity;
use crate::left_files::LeftFiles;
use crate::names::{StoreFileName, check_place};
use crate::planted;

/// The open manifest of a store.
#[derive(Debug)]
pub struct Manifest {
    env: Env,
    dir: PathBuf,
    identity: StoreIdentity,
    state: ManifestState,
    chain: Chain,
    /// The error after which nothing more is written.
    ended: Option<Error>,
}

/// One manifest file and the position of its next edit.
#[derive(Debug)]
struct Chain {
    file: Arc<dyn File>,
    number: u64,
    nonce: u64,
    /// Total length of the edits.
    end: u64,
    /// Length of the first edit, which holds the whole state.
    first: u64,
    /// Weight of all edits, and of the first one alone.
    weight: u64,
    first_weight: u64,
    /// The link before the next edit.
    link: u64,
    /// Number of edits.
    edits: u64,
}

/// A manifest is also rotated when its length reaches this multiple of the weight limit, because some changes have no
/// weight.
const LENGTH_OVER_WEIGHT: u64 = 8;

/// An error, and the possible effects of the failed operation.
struct ManifestFailure {
    error: Error,
    /// True if the operation certainly had no effect, so that the manifest remains usable.
    harmless: bool,
    /// True if `CURRENT` may name the new manifest.
    may_be_named: bool,
}

type Attempt<T> = std::result::Result<T, ManifestFailure>;

fn harmless(error: Error) -> ManifestFailure {
    ManifestFailure { error, harmless: true, may_be_named: false }
}

fn fatal(error: Error) -> ManifestFailure {
    ManifestFailure { error, harmless: false, may_be_named: false }
}

fn half_named(error: Error) -> ManifestFailure {
    ManifestFailure { error, harmless: false, may_be_named: true }
}

impl Manifest {
    /// The manifest of a new store. To be made before any other numbered file: `recover` takes a directory with tables
    /// or log files and without CURRENT for a damaged store. An interrupted creation leaves no store.
    pub fn create(
        env: &Env,
        dir: &Path,
        number: u64,
        identity: impl Into<StoreIdentity>,
        first: &Edit,
    ) -> Result<Manifest> {
        let mut state = ManifestState::default();
        state.apply(first).map_err(refused)?;
        if Current::read(env, dir)?.is_some() {
            return Err(Error::invalid("the directory holds a store"));
        }
        // The remains of an interrupted creation are not referenced.
        remove_leftover(env, &dir.join(StoreFileName::Manifest(number).to_string()))?;
        Manifest::begin(env, dir, number, identity.into(), state)
    }

    /// Continues after a recovery: begins a new manifest with the recovered state and one edit with the results of the
    /// recovery, and moves CURRENT to it (I16). Until that moment the store is unchanged; after it the caller removes
    /// the old manifest. `number` must be at least `RecoveredManifest::next_file`.
    pub fn resume(env: &Env, dir: &Path, found: &RecoveredManifest, number: u64, edit: &Edit) -> Result<Manifest> {
        let mut state = found.state.clone();
        state.apply(edit).map_err(refused)?;
        Manifest::begin(env, dir, number, found.identity.clone(), state)
    }

    fn begin(
        env: &Env,
        dir: &Path,
        number: u64,
        identity: StoreIdentity,
        mut state: ManifestState,
    ) -> Result<Manifest> {
        state.next_file = state.next_file.max(number.saturating_add(1));
        let chain = publish(env, dir, number, &identity, &state).map_err(|failure| failure.error)?;
        Ok(Manifest { env: env.clone(), dir: dir.to_owned(), identity, state, chain, ended: None })
    }

    /// Appends one edit and makes it durable. An edit that does not fit the state returns `Invalid`, and nothing is
    /// written.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        self.check_place()?;
        let edit = &*self.state.with_value_items(edit);
        let mut next = self.state.clone();
        next.apply(edit).map_err(refused)?;
        let written = self.chain.append(&edit.encode());
        written.map_err(|failure| self.note(failure))?;
        self.chain.weight += edit.weight();
        self.state = next;
        let marked = self.chain.mark();
        marked.map_err(|failure| self.note(failure))
    }

    /// Returns true if a rotation is due: the edits weigh more than `manifest_bytes` and at least twice as much as the
    /// state itself; or the file is several times as long, whatever its weight.
    pub fn is_full(&self, manifest_bytes: u64) -> bool {
        let Chain { weight, first_weight, end, first, .. } = self.chain;
        let is_heavy = EDITS_AT + weight > manifest_bytes && weight >= 2 * first_weight;
        is_heavy || (self.bytes() > manifest_bytes.saturating_mul(LENGTH_OVER_WEIGHT) && end >= 2 * first)
    }

    /// Rotates to a new manifest with this number. If there is no room for it (or no file can be created), returns an
    /// error, and the old manifest remains in use. `left` knows the unused one of the two if it cannot be removed.
    pub fn rotate(&mut self, number: u64, left: &LeftFiles) -> Result<()> {
        self.check_place()?;
        self.state.next_file = self.state.next_file.max(number.saturating_add(1));
        let discard = |number: u64| left.remove(&*self.env.fs, &self.dir, StoreFileName::Manifest(number));
        match publish(&self.env, &self.dir, number, &self.identity, &self.state) {
            Ok(fresh) => {
                discard(std::mem::replace(&mut self.chain, fresh).number);
                Ok(())
            }
            Err(failure) => {
                if !failure.may_be_named {
                    discard(number); // again, if `publish` could not
                }
                Err(self.note(failure))
            }
        }
    }

    /// Makes the witness durable. No edit can be appended afterwards.
    pub fn close(&mut self) -> Result<()> {
        self.check_place()?;
        let synced = self.chain.file.sync_data().during(|| format!("sync {}", self.chain.name()));
        synced.and_then(|()| check_place(&self.env)).map_err(|error| self.note(fatal(error)))?;
        self.ended = Some(Error::closed());
        Ok(())
    }

    /// Returns the state that results from all edits.
    pub fn state(&self) -> &ManifestState {
        &self.state
    }

    /// Returns the store's uid.
    pub fn store(&self) -> Uid {
        self.identity.store
    }

    /// The store, and those that it descends from.
    pub fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    /// Returns the number in its file name.
    pub fn number(&self) -> u64 {
        self.chain.number
    }

    /// Returns the length of its file in bytes.
    pub fn bytes(&self) -> u64 {
        EDITS_AT + self.chain.end
    }

    /// Returns true if no edit can be appended any more: after a failure that requires reopening, or after `close`.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Checks that an edit may follow: this process owns the store, and CURRENT names this manifest.
    fn check_place(&mut self) -> Result<()> {
        self.alive()?;
        check_place(&self.env).map_err(|error| match error.kind() {
            ErrorKind::Halted => self.note(fatal(error)),
            _ => error, // it could not be read now
        })
    }

    fn alive(&self) -> Result<()> {
        match &self.ended {
            None => Ok(()),
            Some(error) if *error.kind() == ErrorKind::Closed => Err(error.clone()),
            Some(error) => {
                Err(Error::of(ErrorKind::Halted, format!("the manifest ended with an earlier error: {error}")))
            }
        }
    }

    fn note(&mut self, failure: ManifestFailure) -> Error {
        if !failure.harmless {
            self.ended.get_or_insert_with(|| failure.error.clone());
        }
        failure.error
    }
}

impl Chain {
    fn name(&self) -> String {
        StoreFileName::Manifest(self.number).to_string()
    }

    /// Writes the next edit after the last one and syncs. The remains of a write that failed for lack of space are
    /// truncated, so that no two of them together look like a whole edit that was reported as failed.
    fn append(&mut self, body: &[u8]) -> Attempt<()> {
        let (frame, link) = framed(self.link, self.end, self.edits, body).map_err(harmless)?;
        let at = EDITS_AT + self.end;
        if let Err(error) = self.file.write_at(&frame, at).during(|| format!("write {}", self.name())) {
            let can_go_on = error.is_out_of_space() && self.file.set_len(at).is_ok();
            return Err(ManifestFailure { error, harmless: can_go_on, may_be_named: false });
        }
        self.file.sync_data().during(|| format!("sync {}", self.name())).map_err(fatal)?;
        (self.end, self.link, self.edits) = (self.end + frame.len() as u64, link, self.edits + 1);
        Ok(())
    }

    /// Stores the witness: the edits are durable up to their end.
    fn mark(&self) -> Attempt<()> {
        let word = Mark::Edited.encode(self.nonce, self.end).to_le_bytes();
        for at in WITNESS_AT {
            self.file.write_at(&word, at as u64).during(|| format!("mark {}", self.name())).map_err(fatal)?;
        }
        Ok(())
    }
}

/// Writes a manifest that begins with the whole state, makes it durable, and lets CURRENT name it.
fn publish(env: &Env, dir: &Path, number: u64, identity: &StoreIdentity, state: &ManifestState) -> Attempt<Chain> {
    let name = StoreFileName::Manifest(number).to_string();
    let path = dir.join(&name);
    let file = env.fs.open(&path, Open::Create).during(|| format!("create {name}")).map_err(harmless)?;
    let published = fill(env, Arc::clone(&file), number, identity, state).and_then(|chain| {
        // Manifest first: CURRENT must not name what a crash could take away.
        let sync = || file.sync_data().during(|| format!("sync {name}")).map_err(fatal);
        let early = planted!(CurrentBeforeManifestSync, true, false);
        if !early {
            sync()?;
        }
        env.fs.sync_dir(dir).during(|| "sync the directory").map_err(fatal)?;
        point(env, dir, Current { manifest: number, store: identity.store })?;
        if early {
            sync().map_err(|failure| half_named(failure.error))?;
        }
        Ok(chain)
    });
    published.inspect_err(|failure| {
        if !failure.may_be_named {
            let _ = env.fs.remove(&path);
            let _ = env.fs.remove(&dir.join(StoreFileName::Temporary.to_string()));
        }
    })
}

/// Writes the first page, which already counts the first edit as witnessed: nobody reads it before it is synced.
fn fill(
    env: &Env,
    file: Arc<dyn File>,
    number: u64,
    identity: &StoreIdentity,
    state: &ManifestState,
) -> Attempt<Chain> {
    let nonce = env.random.next_u64();
    let picture = state.snapshot();
    let weight = picture.weight();
    let (frame, link) = framed(nonce, 0, 0, &picture.encode()).map_err(harmless)?;
    let end = frame.len() as u64;
    // Each by itself: the page is marked with every edit, and a kernel that keeps both as one would take all of it for
    // changed.
    for (bytes, at) in [(&first_page(number, nonce, identity, end), 0), (&frame, EDITS_AT)] {
        file.write_at(bytes, at).during(|| format!("write {}", StoreFileName::Manifest(number))).map_err(harmless)?;
    }
    Ok(Chain { file, number, nonce, end, first: end, weight, first_weight: weight, link, edits: 1 })
}

/// Replaces CURRENT. A failure before the rename has no effect; after it CURRENT may name either manifest.
fn point(env: &Env, dir: &Path, current: Current) -> Attempt<()> {
    let temporary = dir.join(StoreFileName::Temporary.to_string());
    remove_leftover(env, &temporary).map_err(harmless)?;
    let file = env.fs.open(&temporary, Open::Create).during(|| "create CURRENT.tmp").map_err(harmless)?;
    let line = current.encode();
    file.write_at(line.as_bytes(), 0).during(|| "write CURRENT.tmp").map_err(harmless)?;
    file.sync_data().during(|| "sync CURRENT.tmp").map_err(fatal)?;
    env.fs
        .rename_pinned(&temporary, &dir.join(StoreFileName::Current.to_string()), line.as_bytes())
        .during(|| "rename CURRENT.tmp")
        .map_err(half_named)?;
    env.fs.sync_dir(dir).during(|| "sync the directory").map_err(half_named)
}

fn remove_leftover(env: &Env, path: &Path) -> Result<()> {
    match env.fs.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

fn first_page(number: u64, nonce: u64, identity: &StoreIdentity, end: u64) -> Vec<u8> {
    let mut page = FileHeader::new(FileKind::Manifest, identity.store).encode().to_vec();
    page.extend_from_slice(&number.to_le_bytes());
    page.extend_from_slice(&nonce.to_le_bytes());
    debug_assert_eq!(page.len(), CHECK_AT);
    let check = hash(&page);
    page.extend_from_slice(&check.to_le_bytes());
    page.resize(PAGE_BYTES, 0);
    identity.put_into(&mut page);
    for at in WITNESS_AT {
        page[at..at + 8].copy_from_slice(&Mark::Edited.encode(nonce, end).to_le_bytes());
    }
    page
}

/// Returns a frame with its zero padding, and its link.
fn framed(previous: u64, offset: u64, number: u64, body: &[u8]) -> Result<(Vec<u8>, u64)> {
    let length = u32::try_from(body.len()).map_err(|_| Error::invalid("an edit of 4 GiB or more"))?;
    let header = FrameHeader::chained(previous, offset, FrameKind::Batch, number, length, hash(body));
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + body.len() + 8);
    frame.extend_from_slice(&header.encode());
    frame.extend_from_slice(body);
    frame.resize(header.extent() as usize, 0);
    Ok((frame, header.link))
}

fn refused(what: &'static str) -> Error {
    Error::invalid(format!("an edit that cannot follow: it {what}"))
}
