//! The tables and blob files of all families at one commit, kept from deletion while they are copied.
//!
//! In:    an open store. All records up to the commit are flushed first, which also finishes the blob files that they
//!        point into, so tables and blob files alone hold them.
//! Out:   the manifest's state without a log, and handles of the files.
//! Holds: a file is deleted only when its last handle is gone (I06), so a file that is not copied yet exists, whatever
//!        compactions and collections do meanwhile. A handle that is dropped ends the protection of its file.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checksum::Uid;
use crate::db::jobs::job_lock::Flusher;
use crate::db::state::family::{Family, TableHandle};
use crate::env::work::lock;
use crate::env::{Env, File, Open};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::identity::StoreIdentity;
use crate::interrupt;
use crate::names::StoreFileName;
use crate::record::Seqno;
use crate::seam::Companions;
use crate::sst::{Cache, Table};
use crate::values::{self, BlobFile, BlobMeta};
use crate::version::{Level, ManifestState};

/// The files of a store at one commit.
pub struct PinnedFiles {
    /// The state of all families, without a log.
    pub state: ManifestState,
    /// The last commit in the files. The state's counter may be greater, by commits that came during the flush.
    pub through: Seqno,
    /// The identity of the store.
    pub identity: StoreIdentity,
    /// The files that the state names, each once.
    pub files: Vec<PinnedFile>,
}

/// A file that exists at least as long as this handle.
pub struct PinnedFile {
    name: StoreFileName,
    handle: Handle,
    source: Arc<Source>,
}

/// The store of pinned files.
struct Source {
    env: Env,
    dir: PathBuf,
    companions: Arc<dyn Companions>,
    cache: Arc<Cache>,
    /// The store's count of pinned bytes.
    pinned_bytes: Arc<AtomicU64>,
}

enum Handle {
    Table(Family, Arc<TableHandle>),
    Values(Arc<BlobMeta>, #[expect(dead_code, reason = "it keeps the file")] Arc<BlobFile>),
}

impl PinnedFiles {
    /// Flushes all memtables and pins the tables of the resulting state.
    pub(in crate::db) fn pin(flusher: &Flusher) -> Result<PinnedFiles> {
        let _job = flusher.job()?;
        let through = flusher.write_path().freeze(&|_| true)?;
        flusher.flush_frozen(&|_| true, through)?;
        let manifest = lock(&flusher.catalog().manifest);
        let Some(manifest) = manifest.as_ref() else { return Err(Error::closed()) };
        let (state, identity) = (manifest.state().without_log(), manifest.identity().clone());
        let mut handles = BTreeMap::new();
        for family in flusher.catalog().families().by_id.values() {
            let view = family.pinned_view();
            for table in view.levels.iter().flat_map(Level::tables) {
                for (blobs, file) in table.meta().values.iter().zip(table.values()) {
                    let handle = Handle::Values(Arc::clone(&blobs.file), Arc::clone(file));
                    handles.entry(StoreFileName::Values(blobs.file.number)).or_insert(handle);
                }
                let handle = Handle::Table(family.clone(), Arc::clone(table));
                handles.insert(StoreFileName::Table(table.meta().number), handle);
            }
        }
        let context = flusher.context();
        let source = Arc::new(Source {
            env: context.env.clone(),
            dir: context.dir.clone(),
            companions: Arc::clone(&context.companions),
            cache: Arc::clone(&context.cache),
            pinned_bytes: Arc::clone(&context.counters.pinned_bytes),
        });
        let files = handles.into_iter().map(|(name, handle)| PinnedFile::new(name, handle, &source)).collect();
        Ok(PinnedFiles { state, through, identity, files })
    }
}

impl PinnedFile {
    fn new(name: StoreFileName, handle: Handle, source: &Arc<Source>) -> PinnedFile {
        let file = PinnedFile { name, handle, source: Arc::clone(source) };
        source.pinned_bytes.fetch_add(file.size(), Ordering::Relaxed);
        file
    }

    /// Returns the file's name in the store.
    pub fn name(&self) -> StoreFileName {
        self.name
    }

    /// Returns the file's permanent unique id.
    pub fn uid(&self) -> Uid {
        match &self.handle {
            Handle::Table(_, table) => table.meta().uid,
            Handle::Values(blobs, _) => blobs.uid,
        }
    }

    /// Returns the digest of the file's contents that the manifest records.
    pub fn digest(&self) -> u64 {
        match &self.handle {
            Handle::Table(_, table) => table.meta().digest,
            Handle::Values(blobs, _) => blobs.digest,
        }
    }

    /// Returns the length of the file in bytes.
    pub fn size(&self) -> u64 {
        match &self.handle {
            Handle::Table(_, table) => table.meta().size,
            Handle::Values(blobs, _) => blobs.size,
        }
    }

    /// Opens the file. Errors: `Corruption` if it is missing, `Io`.
    pub fn open(&self) -> Result<Arc<dyn File>> {
        let Source { env, dir, .. } = &*self.source;
        match env.fs.open(&dir.join(self.name.to_string()), Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let damage = Damage { file: self.name.to_string(), verdict: Verdict::Missing, ..Damage::default() };
                Err(Error::corruption(damage, format!("{} is missing", self.name)))
            }
            opened => opened.during(|| format!("opening {}", self.name)),
        }
    }

    /// Checks every byte of a copy of the file: all blocks, records and companions of a table, all values of a blob
    /// file. Errors: `Corruption` with the name of the file in the store, the offset and the keys; `Io`.
    pub fn check(&self, copy: Arc<dyn File>) -> Result<()> {
        let Source { companions, cache, .. } = &*self.source;
        let name = self.name.to_string();
        match &self.handle {
            Handle::Table(family, table) => {
                let (meta, order) = (table.meta(), family.order().clone());
                let keys = Some((&meta.smallest[..], &meta.largest[..]));
                let checked = Table::open(name, copy, meta.expected(), order, cache.clone(), companions.clone())
                    .and_then(|table| table.verify(&**companions, &mut |_| interrupt::check()));
                checked.map(drop).map_err(|error| error.in_family(family.name(), keys))
            }
            Handle::Values(blobs, _) => values::verify(&name, &*copy, blobs, &mut |_| interrupt::check()),
        }
    }
}

impl Drop for PinnedFile {
    fn drop(&mut self) {
        self.source.pinned_bytes.fetch_sub(self.size(), Ordering::Relaxed);
    }
}

impl fmt::Debug for PinnedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pinned {}", self.name)
    }
}
