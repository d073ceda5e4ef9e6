//! Options for opening a store, collected before a path is known.

use std::sync::Mutex;

use face::{Builder, Compression, Durability, Verify};

use crate::call::status_of;
use crate::declare::{destroy, setters};
use crate::error::create;
use crate::failure::{Failure, Result};
use crate::handle::{HandleKind, handle, with_mut};
use crate::reentry::Caller;

/// The store's default: the durability set by `waxseal_options_set_durability`, or else `WAXSEAL_DURABILITY_OS`.
pub const WAXSEAL_DURABILITY_DEFAULT: i32 = 0;
/// May be lost when the process dies. Never weaker than that, and today as strong as `WAXSEAL_DURABILITY_OS`.
pub const WAXSEAL_DURABILITY_BUFFERED: i32 = 1;
/// Survives a crash of the process, but may be lost in a crash of the machine.
pub const WAXSEAL_DURABILITY_OS: i32 = 2;
/// Never lost once the call has returned.
pub const WAXSEAL_DURABILITY_SYNC: i32 = 3;

/// Blocks are stored uncompressed.
pub const WAXSEAL_COMPRESSION_NONE: i32 = 0;
/// LZ4, the default.
pub const WAXSEAL_COMPRESSION_LZ4: i32 = 1;
/// Zstandard at its usual level, with a dictionary at the bottom level. Only in libraries built with the feature
/// `zstd`; others refuse it.
pub const WAXSEAL_COMPRESSION_ZSTD: i32 = 2;

/// Records are not checked against their seals. Block checksums are still verified when blocks are loaded.
pub const WAXSEAL_VERIFY_NEVER: i32 = 0;
/// Checks all records of a block when it is loaded from its file.
pub const WAXSEAL_VERIFY_ON_FILL: i32 = 1;
/// As `WAXSEAL_VERIFY_ON_FILL`, and also checks one in `one_in` of the records that are read.
pub const WAXSEAL_VERIFY_SAMPLED: i32 = 2;
/// Checks every record that is read, and verifies absence when no record is found.
pub const WAXSEAL_VERIFY_ALWAYS: i32 = 3;

/// Options for opening a store. Options that are not set keep their defaults; a null pointer means all defaults. Usable
/// for any number of opens, by one thread at a time. Destroyed by `waxseal_options_destroy`, at any time after the
/// opens.
pub struct waxseal_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_options_t => Mutex<Options>, HandleKind::Options, "options object");

/// One option: how it changes the builder of a store, which may call callbacks.
type OptionStep = Box<dyn Fn(Builder, &Caller) -> Builder + Send>;

/// All options that were set, in order.
#[derive(Default)]
pub(crate) struct Options {
    steps: Vec<OptionStep>,
}

impl Options {
    /// Adds an option.
    pub(crate) fn then(&mut self, step: impl Fn(Builder) -> Builder + Send + 'static) {
        self.then_calling(move |builder, _| step(builder));
    }

    /// Adds an option for which the store calls callbacks.
    pub(crate) fn then_calling(&mut self, step: impl Fn(Builder, &Caller) -> Builder + Send + 'static) {
        self.steps.push(Box::new(step));
    }

    /// Applies all options to a builder.
    fn apply(&self, builder: Builder, caller: &Caller) -> Builder {
        self.steps.iter().fold(builder, |builder, step| step(builder, caller))
    }
}

/// Applies `options` to a builder; null options change nothing. Also returns the `Caller` of the callbacks, which
/// learns its store after the open.
pub(crate) fn configured(options: *const waxseal_options_t, builder: Builder) -> Result<(Builder, Caller)> {
    let caller = Caller::default();
    if options.is_null() {
        return Ok((builder, caller));
    }
    let builder = with_mut(options, |options| Ok(options.apply(builder, &caller)))?;
    Ok((builder, caller))
}

/// Returns the durability with this number; `None` means the store's default.
pub(crate) fn durability(number: i32) -> Result<Option<Durability>> {
    match number {
        WAXSEAL_DURABILITY_DEFAULT => Ok(None),
        WAXSEAL_DURABILITY_BUFFERED => Ok(Some(Durability::Buffered)),
        WAXSEAL_DURABILITY_OS => Ok(Some(Durability::Os)),
        WAXSEAL_DURABILITY_SYNC => Ok(Some(Durability::Sync)),
        other => Err(Failure::invalid(format!("{other} is no durability"))),
    }
}

/// The zstd level: the C interface has no number for it.
const ZSTD_LEVEL: i32 = 3;

pub(crate) fn compression(number: i32) -> Result<Compression> {
    match number {
        WAXSEAL_COMPRESSION_NONE => Ok(Compression::None),
        WAXSEAL_COMPRESSION_LZ4 => Ok(Compression::Lz4),
        WAXSEAL_COMPRESSION_ZSTD => Ok(Compression::Zstd(ZSTD_LEVEL)),
        other => Err(Failure::invalid(format!("{other} is no compression"))),
    }
}

pub(crate) fn verify(number: i32, one_in: u32) -> Result<Verify> {
    match number {
        WAXSEAL_VERIFY_NEVER => Ok(Verify::Never),
        WAXSEAL_VERIFY_ON_FILL => Ok(Verify::OnFill),
        WAXSEAL_VERIFY_SAMPLED => Ok(Verify::Sampled(one_in)),
        WAXSEAL_VERIFY_ALWAYS => Ok(Verify::Always),
        other => Err(Failure::invalid(format!("{other} is no policy of verification"))),
    }
}

/// Sets an option for which the store calls callbacks.
pub(crate) fn set_calling(
    options: *mut waxseal_options_t,
    step: impl Fn(Builder, &Caller) -> Builder + Send + 'static,
) -> Result<()> {
    with_mut(options.cast_const(), |options| {
        options.then_calling(step);
        Ok(())
    })
}

/// Stores a value as a call of the builder's method of that name.
macro_rules! step {
    ($options:ident, $value:ident, $method:ident) => {
        $options.then(move |builder| builder.$method($value))
    };
}
pub(crate) use step;

/// Stores a value as a change of the setting of that name.
macro_rules! setting {
    ($options:ident, $value:ident, $field:ident) => {
        $options.then(move |builder| builder.tune(|settings| settings.$field = $value))
    };
}
pub(crate) use setting;

create! {
    /// Creates options with all defaults.
    fn waxseal_options_create(options: *mut *mut waxseal_options_t) => "options";
}

setters! {
    step;

    /// Capacity of the block cache, in bytes. Default 256 MiB.
    ///
    /// One thread at a time. Returns `WAXSEAL_OK`, or a status about the handle; so do all option setters. The open
    /// validates the values.
    fn waxseal_options_set_cache_bytes(options: *mut waxseal_options_t, bytes: usize) => cache_bytes = bytes;

    /// Size at which a family's memtable is frozen and flushed, in bytes. Default 64 MiB.
    fn waxseal_options_set_memtable_bytes(options: *mut waxseal_options_t, bytes: usize) => memtable_bytes = bytes;

    /// One memory budget for the whole store, in bytes: memtables, cached blocks, indexes and filters, the log's newest
    /// bytes, and buffers of background jobs. Objects that callers hold do not count. Default 0: no budget.
    fn waxseal_options_set_memory_bytes(options: *mut waxseal_options_t, bytes: usize) => memory_bytes = bytes;

    /// Target size of a data block, in bytes, for `default` and for families created without options. Default 4 KiB.
    fn waxseal_options_set_block_bytes(options: *mut waxseal_options_t, bytes: usize) => block_bytes = bytes;

    /// Compression for `default` and for families created without options, one of `WAXSEAL_COMPRESSION_..`. Default
    /// LZ4.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
    fn waxseal_options_set_compression(options: *mut waxseal_options_t, number: i32) =>
        compression = compression(number)?;

    /// Durability of writes that request `WAXSEAL_DURABILITY_DEFAULT`, one of `WAXSEAL_DURABILITY_..`. Default
    /// `WAXSEAL_DURABILITY_OS`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
    fn waxseal_options_set_durability(options: *mut waxseal_options_t, number: i32) =>
        durability = durability(number)?.unwrap_or_default();

    /// Number of compaction threads, in addition to the log thread and the flush thread. Default 1.
    fn waxseal_options_set_background_threads(options: *mut waxseal_options_t, threads: usize) =>
        background_threads = threads;

    /// Whether a missing store is created. Default true.
    fn waxseal_options_set_create_if_missing(options: *mut waxseal_options_t, create: bool) =>
        create_if_missing = create;

    /// Whether a store may be created in a directory that holds other files. Default false. Files of another engine,
    /// and files with names that a store would use, are refused either way.
    fn waxseal_options_set_beside_other_files(options: *mut waxseal_options_t, allow: bool) =>
        beside_other_files = allow;

    /// Permission mode of the files that the store creates, less the bits of the process's umask, as in `0600`. A
    /// directory that it creates can be searched by everyone whom the mode lets read. Existing files keep their mode.
    /// Default: everything that the umask leaves. The open refuses a mode under which the owner cannot read and write.
    fn waxseal_options_set_file_mode(options: *mut waxseal_options_t, mode: u32) =>
        file_mode = mode;

    /// The format level of a store that is created, 1 or 2; `waxseal_upgrade` describes the levels. Default: the newest.
    /// An existing store keeps its level.
    fn waxseal_options_set_format_level(options: *mut waxseal_options_t, level: u32) =>
        format_level = level;
}

setters! {
    setting;

    /// Whether the open fails if the store already exists. Default false.
    fn waxseal_options_set_error_if_exists(options: *mut waxseal_options_t, refuse: bool) => error_if_exists = refuse;
}

setters! {
    step;

    /// Whether the log's newest bytes are kept in a memory-mapped file, where the file system allows it. Default true.
    /// False makes every commit a `write` system call.
    fn waxseal_options_set_wal_mapped(options: *mut waxseal_options_t, mapped: bool) => wal_mapped = mapped;
}

/// Opens the store without seals, registry and log of events. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_plain(options: *mut waxseal_options_t, plain: bool) -> i32 {
    status_of(|| set_calling(options, move |builder, _| if plain { builder.plain() } else { builder }))
}

setters! {
    step;

    /// Whether the store has a registry and a log of events. Default true; both cost nothing until a target is
    /// registered.
    fn waxseal_options_set_registry(options: *mut waxseal_options_t, registry: bool) => registry = registry;

    /// Opens the store even if acknowledged commits at the end of the log are damaged: these commits are set aside and
    /// reported. Default false: such an open is `WAXSEAL_CORRUPTION`.
    fn waxseal_options_set_accept_loss(options: *mut waxseal_options_t, accept: bool) => accept_loss = accept;

    /// How point reads are checked against the seals, one of `WAXSEAL_VERIFY_..`. Only `WAXSEAL_VERIFY_SAMPLED` uses
    /// `one_in`. Default `WAXSEAL_VERIFY_ALWAYS`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
    fn waxseal_options_set_verify_reads(options: *mut waxseal_options_t, policy: i32, one_in: u32) =>
        verify_reads = verify(policy, one_in)?;

    /// How iterators are checked against the seals, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
    fn waxseal_options_set_verify_scans(options: *mut waxseal_options_t, policy: i32, one_in: u32) =>
        verify_scans = verify(policy, one_in)?;
}

destroy! {
    /// Destroys options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
    fn waxseal_options_destroy(options: *mut waxseal_options_t);
}
