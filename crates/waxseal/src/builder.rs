//! Settings of a store, collected before it is opened.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::compaction_filter::CompactionFilter;
use waxseal_lsm::db::{self as engine, DEFAULT_FAMILY, Listener, Parts};
use waxseal_lsm::env::{Clock, Env, Fs, MemoryFs};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Compression, Durability, MIB, Settings, Verify};
use waxseal_lsm::order::{Comparator, Order};
use waxseal_lsm::sst::Cache;
use waxseal_lsm::version;
use waxseal_meta::builtin::{Etl, Expiry, Labels, Provenance};
use waxseal_meta::{MetadataProvider, Providers, Sealer};
use waxseal_registry::{Authorizer, Everybody, Prepared, Registrar, Ring, Setup};

use crate::attach::{PlainProtector, attach, may_be_plain};
use crate::db::Db;
use crate::inner::{Inner, refuse_system};
use crate::verify::{Policies, VerifyPolicy};

/// The location and the settings of a store to be opened, created by [`Db::builder`]. Settings that are not set keep
/// their defaults.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("store");
/// use waxseal::{Compression, Db, Durability, MIB};
///
/// let db = Db::builder(&path)
///     .cache_bytes(64 * MIB)
///     .memtable_bytes(16 * MIB)
///     .compression(Compression::None)
///     .durability(Durability::Sync)
///     .open()?;
/// # drop(db);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Builder {
    path: PathBuf,
    settings: Settings,
    cache_bytes: Option<usize>,
    memtable_bytes: Option<usize>,
    memory_bytes: Option<usize>,
    /// Options for families that are created by name alone.
    template: CfOptions,
    /// The options of the template that also replace those that the store recorded for `default`.
    of_default: DefaultChanges,
    /// The verification policy for families whose options do not set one.
    policy: VerifyPolicy,
    /// Open without seals.
    plain: bool,
    /// The caller's metadata providers, in addition to Waxseal's own.
    providers: Vec<Arc<dyn MetadataProvider>>,
    /// Open with registry and log. A plain open ignores it and has neither.
    has_registry: bool,
    authorizer: Arc<dyn Authorizer>,
    ring: Ring,
    parts: Parts,
}

/// Ways to open a store.
impl Db {
    /// Opens the store in a directory, or creates one there. Only one process at a time may write: otherwise the error
    /// `Locked` names the holder.
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open()
    }

    /// Opens a store for reading. Takes no lock and writes nothing, so another process may write at the same time. The
    /// handle shows the store as of the open, until [`Db::refresh`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open_read_only()
    }

    /// Creates a new store in memory. It is discarded with its last handle.
    pub fn memory() -> Result<Db> {
        Builder::in_memory().open()
    }

    /// Returns a [`Builder`] with the settings for a store; [`Builder::open`] opens it.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }
}

impl Builder {
    pub(crate) fn new(path: &Path) -> Builder {
        Builder {
            path: path.to_owned(),
            settings: Settings::default(),
            cache_bytes: None,
            memtable_bytes: None,
            memory_bytes: None,
            template: CfOptions::default(),
            of_default: DefaultChanges::default(),
            policy: VerifyPolicy::default(),
            plain: false,
            providers: Vec::new(),
            has_registry: true,
            authorizer: Arc::new(Everybody),
            ring: Ring::default(),
            parts: Parts::real(),
        }
    }

    /// Configures a new store in memory; it is opened like any other.
    pub fn in_memory() -> Builder {
        Builder::new(Path::new("memory")).fs(Arc::new(MemoryFs::default()))
    }

    /// Size of the cache for table blocks and large values, in bytes. Default 256 MiB.
    pub fn cache_bytes(mut self, bytes: usize) -> Builder {
        self.cache_bytes = Some(bytes);
        self
    }

    /// Size at which a family's memtable is frozen and flushed, in bytes. Default 64 MiB. A larger memtable means fewer
    /// flushes and a longer recovery after a crash.
    pub fn memtable_bytes(mut self, bytes: usize) -> Builder {
        self.memtable_bytes = Some(bytes);
        self
    }

    /// One budget for all memory of the store, in bytes. Default: no budget.
    ///
    /// It covers the memtables of all families, the log's ring, indexes and filters of open tables, buffers of flushes
    /// and compactions, and cached blocks. Cached blocks are evicted as memtables grow. Memtables may use half of the
    /// memory that the other users leave: from a quarter on, the largest memtable and those of idle families are flushed
    /// before they are full, and at half, writers wait.
    ///
    /// Cache and memtable sizes that are not set are derived from the budget. If both are set, the cache and two
    /// memtables must fit into it. Memory held by snapshots, cursors and values is not included; [`Db::metrics`] shows
    /// it. A [shared cache](Builder::cache) has its own budget, so this one limits only the memtables then.
    pub fn memory_bytes(mut self, bytes: usize) -> Builder {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Target size of a data block in bytes, for `default` and for families created by name alone. Default 4 KiB.
    ///
    /// It replaces the block size that the store recorded for `default`, for this open. The other options of `default`
    /// stay as recorded, unless [`column_family`](Builder::column_family) sets them.
    pub fn block_bytes(mut self, bytes: usize) -> Builder {
        self.template.block_bytes = bytes;
        self.of_default.block_bytes = Some(bytes);
        self
    }

    /// Compression for `default` and for families created by name alone. It replaces the recorded compression of
    /// `default` as [`block_bytes`](Builder::block_bytes) does. Default LZ4, if built in.
    pub fn compression(mut self, compression: Compression) -> Builder {
        self.template.compression = compression;
        self.of_default.compression = Some(compression);
        self
    }

    /// Durability of writes that do not set one. Default [`Durability::Os`].
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.settings.durability = durability;
        self
    }

    /// Number of compaction threads, in addition to the log's thread and the flush thread. Default 1.
    pub fn background_threads(mut self, threads: usize) -> Builder {
        self.settings.background_threads = threads;
        self
    }

    /// Whether to create the store if it does not exist. Default true.
    pub fn create_if_missing(mut self, create: bool) -> Builder {
        self.settings.create_if_missing = create;
        self
    }

    /// Whether a store may be created in a directory that holds other files. Default false: such an open fails with
    /// `Invalid`. Another engine's database, and files whose names a store would use, are always refused.
    pub fn beside_other_files(mut self, allow: bool) -> Builder {
        self.settings.beside_other_files = allow;
        self
    }

    /// Permission mode of the files that the store creates, less the bits of the process's umask. Default: everything that
    /// the umask leaves. A directory that it creates can be searched by everyone whom the mode lets read. Existing files
    /// keep their mode. [`open`](Builder::open) fails with `Invalid` unless the owner may read and write.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("store");
    /// let db = waxseal::Db::builder(path).file_mode(0o600).open()?; // the owner alone
    /// # db.close()
    /// # }
    /// ```
    pub fn file_mode(mut self, mode: u32) -> Builder {
        self.settings.file_mode = Some(mode);
        self
    }

    /// The [format level](crate::Db::upgrade) of a store that is created, 1 or 2. Default: the newest, 2. A lower one keeps
    /// the store readable for older versions of this library, without what later levels add. An existing store keeps its
    /// level. [`open`](Builder::open) fails with `Invalid` for an unknown level.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("store");
    /// let db = waxseal::Db::builder(path).format_level(1).open()?;
    /// let words = db.column_family("default")?;
    /// assert!(words.delete_range("a".."b").is_err());
    /// db.upgrade(2)?;
    /// words.delete_range("a".."b")?;
    /// # db.close()
    /// # }
    /// ```
    pub fn format_level(mut self, level: u32) -> Builder {
        self.settings.format_level = level;
        self
    }

    /// Whether the newest log bytes are kept in a mapped file where the file system allows it, so that a commit needs
    /// no system call. Default true. False makes every commit a `write`.
    pub fn wal_mapped(mut self, mapped: bool) -> Builder {
        self.settings.wal_mapped = mapped;
        self
    }

    /// Opens the store without seals, as a *plain node*: new records get no seal, and no seal is checked.
    ///
    /// The records of a sealed store can be read. Their seals are carried unchanged and dropped with their records.
    /// Commits that are only in the log lose their seals when a plain open replays them.
    ///
    /// A later ordinary open restores sealing. Records written in the meantime have no seal then, and reads return them
    /// unchecked. The first flush or compaction that rewrites such a record seals it, if it can establish that the
    /// record never had a seal; [`Db::seals`] counts both cases.
    ///
    /// A plain open has neither registry nor log, as with [`registry(false)`](Builder::registry), because logged data
    /// depends on the seals. It fails with `Invalid` if anything is registered, or if events of earlier registrations
    /// are waiting for their flush. Old values that events hold with their rows are kept.
    ///
    /// A plain store saves eight or nine bytes a record, and the time to compute and check seals. Block and frame
    /// checksums remain: docs/integrity.md.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("store");
    /// use waxseal::Db;
    ///
    /// let db = Db::builder(&path).plain().open()?;
    /// assert!(db.seals().is_none());
    /// db.column_family("default")?.put("key", "value")?;
    /// db.close()?;
    /// assert_eq!(Db::open(&path)?.column_family("default")?.get("key")?.unwrap(), "value");
    /// # Ok(())
    /// # }
    /// ```
    pub fn plain(mut self) -> Builder {
        self.plain = true;
        self
    }

    /// Which point reads verify seals, for families whose [`CfOptions`] are not passed to this open. Default
    /// [`Verify::Always`]. [`ColumnFamily::with_verify`](crate::ColumnFamily::with_verify) overrides it per handle.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::{Builder, Verify};
    ///
    /// let db = Builder::in_memory().verify_reads(Verify::Always).verify_scans(Verify::Sampled(64)).open()?;
    /// # drop(db);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify_reads(mut self, verify: Verify) -> Builder {
        self.template.verify_reads = verify;
        self.policy.reads = Some(verify);
        self
    }

    /// Which records cursors and iterators verify, for the same families. Default [`Verify::Always`]: every record that
    /// affects the result of a scan is verified, including tombstones and versions that hide older ones.
    pub fn verify_scans(mut self, verify: Verify) -> Builder {
        self.template.verify_scans = verify;
        self.policy.scans = Some(verify);
        self
    }

    /// Adds a metadata provider, which stores its own entries with values: see [`meta`](crate::meta). Waxseal's own
    /// providers (expiry, provenance, ETL, labels) are always present. The open fails with `Invalid` if two providers
    /// have the same id, or if a descriptor is not valid.
    pub fn provider(mut self, provider: Arc<dyn MetadataProvider>) -> Builder {
        self.providers.push(provider);
        self
    }

    /// Whether the store has a [registry and a log](crate::registry). Default true.
    ///
    /// While nothing is registered, they cost a write one load and one comparison, and a flush or compaction one line
    /// in the manifest. A store without them has no sessions, logs nothing, and does not create the system families.
    ///
    /// If anything is registered, opening the store for writing without them fails with `Invalid`, because its
    /// operations would not be logged. Unregister first.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Builder::in_memory().registry(false).open()?;
    /// assert!(db.session("alice").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn registry(mut self, registry: bool) -> Builder {
        self.has_registry = registry;
        self
    }

    /// Decides which sessions may register, read the log, add events and delete events. Default: every session may.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use std::sync::Arc;
    /// use waxseal::Builder;
    /// use waxseal::registry::{Asker, Authorizer, Operation, Target};
    ///
    /// /// Only the auditor has these rights.
    /// struct Auditor;
    ///
    /// impl Authorizer for Auditor {
    ///     fn can_register(&self, who: &Asker, _: &Target, _: Option<Operation>) -> bool {
    ///         who.name() == "auditor"
    ///     }
    ///     fn can_read_log(&self, who: &Asker, _: &Target) -> bool {
    ///         who.name() == "auditor"
    ///     }
    ///     fn can_delete_log(&self, _: &Asker, _: &Target) -> bool {
    ///         false
    ///     }
    /// }
    ///
    /// let db = Builder::in_memory().authorizer(Arc::new(Auditor)).open()?;
    /// db.column_family("users")?;
    /// assert!(db.registry().register("users", "*").is_err());
    /// db.session("auditor")?.register("users", "*")?;
    /// assert!(db.registry().query_all("users", "*").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Builder {
        self.authorizer = authorizer;
        self
    }

    /// The ring buffer in which events of mode [`Mode::Async`](crate::registry::Mode::Async) wait until they are
    /// written, and the policy for a full ring. A crash may lose all events in it. The ring also counts as full when it
    /// holds 16 MiB of rows.
    pub fn ring(mut self, ring: Ring) -> Builder {
        self.ring = ring;
        self
    }

    /// Replaces the file system.
    pub fn fs(mut self, fs: Arc<dyn Fs>) -> Builder {
        self.parts.env.fs = fs;
        self
    }

    /// Replaces the clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Builder {
        self.parts.env.clock = clock;
        self
    }

    /// Replaces the whole environment: files, clock, randomness and the execution of background work.
    pub fn env(mut self, env: Env) -> Builder {
        self.parts.env = env;
        self
    }

    /// Sets a listener for engine events. It is called on a background thread of the store, or on a thread inside a
    /// call to it. A listener must return quickly and must not call the store.
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Builder {
        self.parts.listener = listener;
        self
    }

    /// Opens the store even if acknowledged commits at the end of the log are damaged: they are set aside and reported
    /// by [`Db::recovery`], like a torn end. Default false: such an open fails with `Corruption`.
    pub fn accept_loss(mut self, accept: bool) -> Builder {
        self.settings.accept_loss = accept;
        self
    }

    /// Sets the options of a family, replacing those recorded in the store. Creates the family if it does not exist.
    pub fn column_family(mut self, name: impl Into<String>, options: CfOptions) -> Builder {
        self.parts.families.push((name.into(), options));
        self
    }

    /// Adds a key order for families of the store, which refer to it by its name. A store with a family in a custom
    /// order cannot be opened without that order.
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Builder {
        self.parts.orders.push(Order::custom(comparator));
        self
    }

    /// Adds a compaction filter for families of the store, which refer to it by its name: those whose options name no
    /// other filter apply it again. Without it, compactions of these families keep all values.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::{CfOptions, CompactionFilter, Db, FilterDecision};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path();
    /// let filter = CompactionFilter::new("drop empty", |_key, value| match value.is_empty() {
    ///     true => Ok(FilterDecision::Drop),
    ///     false => Ok(FilterDecision::Keep),
    /// });
    /// let db = Db::open(path)?;
    /// let options = CfOptions { compaction_filter: Some(filter.clone()), ..CfOptions::default() };
    /// db.create_column_family("users", options)?.put("alice", "")?;
    /// db.close()?;
    ///
    /// let db = Db::builder(path).compaction_filter(filter).open()?;
    /// let users = db.column_family("users")?;
    /// users.compact()?;
    /// assert_eq!(users.get("alice")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compaction_filter(mut self, filter: CompactionFilter) -> Builder {
        self.parts.filters.push(filter);
        self
    }

    /// Adds a custom merge operator for families of the store, which refer to it by its name. Without it, reads of keys
    /// with operands fail. The engine's own operators need no adding.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("store");
    /// use waxseal::{CfOptions, Db, MergeOperator};
    ///
    /// let longest = || {
    ///     MergeOperator::custom("longest", |_key, older, newer| {
    ///         Ok(if newer.len() > older.len() { newer } else { older }.to_vec())
    ///     })
    /// };
    /// let db = Db::open(&path)?;
    /// let options = CfOptions { merge_operator: Some(longest()), ..CfOptions::default() };
    /// db.create_column_family("words", options)?.merge("w", "short")?;
    /// db.close()?;
    /// let db = Db::builder(&path).merge_operator(longest()).open()?;
    /// let words = db.column_family("words")?;
    /// words.merge("w", "longer")?;
    /// assert_eq!(words.get("w")?.unwrap(), "longer");
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge_operator(mut self, operator: MergeOperator) -> Builder {
        self.parts.merge_operators.push(operator);
        self
    }

    /// Shares a block cache with other stores, in place of a private cache. All stores together never exceed the
    /// capacity of the cache, and [`cache_bytes`](Builder::cache_bytes) has no effect.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use std::sync::Arc;
    /// use waxseal::{Builder, Cache, MIB};
    ///
    /// let cache = Arc::new(Cache::new(64 * MIB));
    /// let one = Builder::in_memory().cache(cache.clone()).open()?;
    /// let other = Builder::in_memory().cache(cache).open()?;
    /// # drop((one, other));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cache(mut self, cache: Arc<Cache>) -> Builder {
        self.parts.cache = Some(cache);
        self
    }

    /// Changes settings that have no builder method.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Builder::in_memory().tune(|settings| settings.segment_bytes = 1 << 20).open()?;
    /// # drop(db);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tune(mut self, apply: impl FnOnce(&mut Settings)) -> Builder {
        apply(&mut self.settings);
        self
    }

    /// Opens the store for reading and writing.
    pub fn open(self) -> Result<Db> {
        let mut is_seen = true;
        if self.plain {
            let sealed = Builder { plain: false, ..self.clone() }.prepare()?;
            is_seen = may_be_plain(&sealed.path, sealed.settings, sealed.parts)?;
        }
        let mut ready = self.prepare()?;
        if !is_seen {
            ready.parts.companions = Arc::new(PlainProtector { keeps_seals: true });
        }
        ready.open_by(engine::Db::open)
    }

    /// Opens the store for reading; another process may write at the same time. Families that do not exist are not
    /// created.
    pub fn open_read_only(self) -> Result<Db> {
        self.prepare()?.open_by(engine::Db::open_read_only)
    }

    /// Converts the builder's settings to those of the engine.
    pub(crate) fn prepare(self) -> Result<Ready> {
        let mut settings = self.settings;
        let (cache, memtable) = split_memory(
            self.memory_bytes,
            (self.cache_bytes, settings.cache_bytes),
            (self.memtable_bytes, settings.memtable_bytes),
        )?;
        settings.cache_bytes = cache;
        settings.memory_bytes = self.memory_bytes.unwrap_or(settings.memory_bytes);
        settings.memtable_bytes = memtable;
        let mut parts = self.parts;
        parts.families.iter().try_for_each(|(name, _)| refuse_system(name))?;
        let explicit: BTreeSet<String> = parts.families.iter().map(|(name, _)| name.clone()).collect();
        if self.of_default != DefaultChanges::default() && !explicit.contains(DEFAULT_FAMILY) {
            let stored = stored_default(&self.path, &parts).unwrap_or_else(|| self.template.clone());
            parts.families.push((DEFAULT_FAMILY.to_owned(), self.of_default.over(stored)));
        }
        let protector = match (self.plain, self.providers) {
            (false, providers) => Some(Sealer::new().with(all_providers(providers)?)),
            (true, providers) if providers.is_empty() => None,
            (true, _) => return Err(Error::invalid("a store that is opened plain has no metadata providers")),
        };
        let setup = Setup { authorizer: self.authorizer, ring: self.ring, ..Setup::new(&parts.env) };
        let prepared = Registrar::prepare(setup);
        // Needed without a registry as well: events that wait with records become log rows when those are flushed, in
        // every kind of sealed open.
        let protector = protector.map(|protector| Arc::new(protector.emitting(prepared.emitter.clone())));
        let prepared = (self.has_registry && protector.is_some()).then_some(prepared);
        if let Some(prepared) = &prepared {
            parts.families.extend(prepared.families.iter().cloned());
            parts.engine_log = Some(prepared.engine_log.clone());
        }
        parts.companions = match &protector {
            Some(protector) => protector.clone(),
            None => Arc::new(PlainProtector { keeps_seals: false }),
        };
        let policies = Policies::new(self.policy, explicit);
        Ok(Ready { path: self.path, settings, parts, protector, prepared, template: self.template, policies })
    }
}

/// Options that replace those of `default` one by one.
#[derive(Clone, Copy, Default, PartialEq)]
struct DefaultChanges {
    block_bytes: Option<usize>,
    compression: Option<Compression>,
}

impl DefaultChanges {
    fn over(self, options: CfOptions) -> CfOptions {
        CfOptions {
            block_bytes: self.block_bytes.unwrap_or(options.block_bytes),
            compression: self.compression.unwrap_or(options.compression),
            ..options
        }
    }
}

/// Returns the options that a store recorded for `default`. `None` for a new store, and for one that cannot be read:
/// the open then reports why.
fn stored_default(path: &Path, parts: &Parts) -> Option<CfOptions> {
    let state = version::recover(&parts.env, path).ok()??.state;
    let stored = state.families.values().find(|family| family.name == DEFAULT_FAMILY)?;
    let bytewise = Order::bytewise();
    let order = parts.orders.iter().chain([&bytewise]).find(|order| order.name() == stored.comparator)?;
    version::family::decode(&stored.options, order.clone()).ok()
}

/// A store that is ready to be opened.
pub(crate) struct Ready {
    pub(crate) path: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) parts: Parts,
    pub(crate) protector: Option<Arc<Sealer>>,
    prepared: Option<Prepared>,
    template: CfOptions,
    policies: Policies,
}

impl Ready {
    fn open_by(self, open: impl FnOnce(&Path, Settings, Parts) -> Result<engine::Db>) -> Result<Db> {
        let env = self.parts.env.clone();
        let engine = open(&self.path, self.settings, self.parts)?;
        let watching = attach(&engine, self.protector.as_ref(), self.prepared)?;
        let inner = Inner::new(engine, env, self.protector, watching, self.template, self.policies);
        Ok(Db { inner: Arc::new(inner) })
    }
}

/// Combines Waxseal's own providers with the caller's.
fn all_providers(others: Vec<Arc<dyn MetadataProvider>>) -> Result<Providers> {
    let own: [Arc<dyn MetadataProvider>; 4] = [Arc::new(Expiry), Arc::new(Provenance), Arc::new(Etl), Arc::new(Labels)];
    Providers::of(own.into_iter().chain(others).collect())
}

/// Derives cache and memtable bytes from a budget. `cache` and `memtable` are pairs of the explicit size and the
/// default.
fn split_memory(
    budget: Option<usize>,
    cache: (Option<usize>, usize),
    memtable: (Option<usize>, usize),
) -> Result<(usize, usize)> {
    let Some(budget) = budget else {
        return Ok((cache.0.unwrap_or(cache.1), memtable.0.unwrap_or(memtable.1)));
    };
    let exceeded = || Error::invalid(format!("cache and two memtables do not fit into memory_bytes ({budget})"));
    let memtable = match (memtable.0, cache.0) {
        (Some(said), _) => said,
        (None, Some(cache)) => (budget.saturating_sub(cache) / 2).min(memtable.1),
        (None, None) => (budget / 8).clamp(MIB.min(budget / 4), memtable.1.max(MIB)),
    };
    let left = memtable.checked_mul(2).and_then(|two| budget.checked_sub(two)).ok_or_else(exceeded)?;
    match cache.0 {
        Some(said) if said > left => Err(exceeded()),
        Some(said) => Ok((said, memtable)),
        None => Ok((left, memtable)),
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("path", &self.path).field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: (usize, usize) = (256 * MIB, 64 * MIB);

    fn split(budget: Option<usize>, cache: Option<usize>, memtable: Option<usize>) -> Result<(usize, usize)> {
        split_memory(budget, (cache, DEFAULTS.0), (memtable, DEFAULTS.1))
    }

    #[test]
    fn without_a_budget_nothing_changes() {
        assert_eq!(split(None, None, None).unwrap(), DEFAULTS);
        assert_eq!(split(None, Some(1), Some(2)).unwrap(), (1, 2));
    }

    #[test]
    fn a_budget_is_kept_and_used_up() {
        for budget in [MIB, 3 * MIB, 100 * MIB, 1000 * MIB, 100_000 * MIB] {
            let (cache, memtable) = split(Some(budget), None, None).unwrap();
            assert_eq!(cache + 2 * memtable, budget);
            assert!(memtable >= budget.min(4 * MIB) / 4 && memtable <= 64 * MIB);
        }
        assert_eq!(split(Some(100), None, Some(10)).unwrap(), (80, 10));
        assert_eq!(split(Some(100), Some(40), None).unwrap(), (40, 30));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(split(Some(100), Some(90), Some(10)).is_err());
        assert!(split(Some(100), None, Some(51)).is_err());
        assert!(split(Some(100), None, Some(usize::MAX)).is_err());
        assert!(split(Some(100), Some(101), None).is_err());
    }
}
