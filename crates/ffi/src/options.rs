//! Options for opening a store, collected before a path is known.

use std::sync::Mutex;

use face::{Builder, Compression, Durability, Verify};

use crate::call::{answer, status_of};
use crate::callback::Caller;
use crate::error::{Failure, Result, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with_mut};
use crate::lent::out;

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

handle!(waxseal_options_t => Mutex<Options>, Kind::Options, "options object");

/// One option: how it changes the builder of a store, which may call callbacks.
type Step = Box<dyn Fn(Builder, &Caller) -> Builder + Send>;

/// All options that were set, in order.
#[derive(Default)]
pub(crate) struct Options {
    steps: Vec<Step>,
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

/// Sets an option whose value cannot be invalid by itself.
pub(crate) fn set(options: *mut waxseal_options_t, step: impl Fn(Builder) -> Builder + Send + 'static) -> i32 {
    status_of(|| {
        with_mut(options.cast_const(), |options| {
            options.then(step);
            Ok(())
        })
    })
}

/// Creates options with all defaults.
///
/// Thread-safe. On success the caller owns `*options` and frees it with `waxseal_options_destroy`. Errors:
/// `WAXSEAL_INVALID` if `options` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_options_create(
    options: *mut *mut waxseal_options_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (options, error) = unsafe { (out(options), out(error)) };
    answer(error, || {
        let options = options.needed("options")?;
        options.set(issue(Mutex::default())?);
        Ok(())
    })
}

/// Capacity of the block cache, in bytes. Default 256 MiB.
///
/// One thread at a time. Returns `WAXSEAL_OK`, or a status about the handle; so do all option setters. The open
/// validates the values.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_cache_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    set(options, move |builder| builder.cache_bytes(bytes))
}

/// Size at which a family's memtable is frozen and flushed, in bytes. Default 64 MiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_memtable_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    set(options, move |builder| builder.memtable_bytes(bytes))
}

/// One memory budget for the whole store, in bytes: memtables, cached blocks, indexes and filters, the log's newest
/// bytes, and buffers of background jobs. Objects that callers hold do not count. Default 0: no budget.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_memory_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    set(options, move |builder| builder.memory_bytes(bytes))
}

/// Target size of a data block, in bytes, for `default` and for families created without options. Default 4 KiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_block_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    set(options, move |builder| builder.block_bytes(bytes))
}

/// Compression for `default` and for families created without options, one of `WAXSEAL_COMPRESSION_..`. Default LZ4.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_compression(options: *mut waxseal_options_t, number: i32) -> i32 {
    status_of(|| {
        let compression = compression(number)?;
        Ok(set(options, move |builder| builder.compression(compression)))
    })
}

/// Durability of writes that request `WAXSEAL_DURABILITY_DEFAULT`, one of `WAXSEAL_DURABILITY_..`. Default
/// `WAXSEAL_DURABILITY_OS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_durability(options: *mut waxseal_options_t, number: i32) -> i32 {
    status_of(|| {
        let durability = durability(number)?.unwrap_or_default();
        Ok(set(options, move |builder| builder.durability(durability)))
    })
}

/// Number of compaction threads, in addition to the log thread and the flush thread. Default 1.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_background_threads(options: *mut waxseal_options_t, threads: usize) -> i32 {
    set(options, move |builder| builder.background_threads(threads))
}

/// Whether a missing store is created. Default true.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_create_if_missing(options: *mut waxseal_options_t, create: bool) -> i32 {
    set(options, move |builder| builder.create_if_missing(create))
}

/// Whether a store may be created in a directory that holds other files. Default false. Files of another engine, and
/// files with names that a store would use, are refused either way.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_beside_other_files(options: *mut waxseal_options_t, allow: bool) -> i32 {
    set(options, move |builder| builder.beside_other_files(allow))
}

/// Whether the open fails if the store already exists. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_error_if_exists(options: *mut waxseal_options_t, refuse: bool) -> i32 {
    set(options, move |builder| builder.tune(|settings| settings.error_if_exists = refuse))
}

/// Whether the log's newest bytes are kept in a memory-mapped file, where the file system allows it. Default true.
/// False makes every commit a `write` system call.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_wal_mapped(options: *mut waxseal_options_t, mapped: bool) -> i32 {
    set(options, move |builder| builder.wal_mapped(mapped))
}

/// Opens the store without seals, registry and log of events. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_plain(options: *mut waxseal_options_t, plain: bool) -> i32 {
    set(options, move |builder| if plain { builder.plain() } else { builder })
}

/// Whether the store has a registry and a log of events. Default true; both cost nothing until a target is registered.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_registry(options: *mut waxseal_options_t, registry: bool) -> i32 {
    set(options, move |builder| builder.registry(registry))
}

/// Opens the store even if acknowledged commits at the end of the log are damaged: these commits are set aside and
/// reported. Default false: such an open is `WAXSEAL_CORRUPTION`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_accept_loss(options: *mut waxseal_options_t, accept: bool) -> i32 {
    set(options, move |builder| builder.accept_loss(accept))
}

/// How point reads are checked against the seals, one of `WAXSEAL_VERIFY_..`. Only `WAXSEAL_VERIFY_SAMPLED` uses
/// `one_in`. Default `WAXSEAL_VERIFY_ALWAYS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_verify_reads(options: *mut waxseal_options_t, policy: i32, one_in: u32) -> i32 {
    status_of(|| {
        let verify = verify(policy, one_in)?;
        Ok(set(options, move |builder| builder.verify_reads(verify)))
    })
}

/// How iterators are checked against the seals, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_verify_scans(options: *mut waxseal_options_t, policy: i32, one_in: u32) -> i32 {
    status_of(|| {
        let verify = verify(policy, one_in)?;
        Ok(set(options, move |builder| builder.verify_scans(verify)))
    })
}

/// Destroys options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_destroy(options: *mut waxseal_options_t) -> i32 {
    status_of(|| end(options.cast_const()))
}
