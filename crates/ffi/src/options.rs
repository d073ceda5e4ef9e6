//! How a store is opened: settings, gathered before there is a path.

use std::sync::Mutex;

use face::{Builder, Compression, Durability, Verify};

use crate::call::{answer, status_of};
use crate::callback::Caller;
use crate::error::{Failure, Result, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with_mut};
use crate::lent::out;

/// The store's default: what `waxseal_options_set_durability` said, else as `WAXSEAL_DURABILITY_OS`.
pub const WAXSEAL_DURABILITY_DEFAULT: i32 = 0;
/// Lost with the process at the latest. Never weaker than that, and today as strong as `WAXSEAL_DURABILITY_OS`.
pub const WAXSEAL_DURABILITY_BUFFERED: i32 = 1;
/// Survives the process, may be lost with the machine.
pub const WAXSEAL_DURABILITY_OS: i32 = 2;
/// Never lost once the call has returned.
pub const WAXSEAL_DURABILITY_SYNC: i32 = 3;

/// Blocks are stored as they are.
pub const WAXSEAL_COMPRESSION_NONE: i32 = 0;
/// LZ4, the default.
pub const WAXSEAL_COMPRESSION_LZ4: i32 = 1;
/// Zstandard at its usual level, with a dictionary at the bottom level. Only in libraries built with the feature `zstd`; others refuse it.
pub const WAXSEAL_COMPRESSION_ZSTD: i32 = 2;

/// Nothing is checked against seals, besides the sums of blocks when they are loaded.
pub const WAXSEAL_VERIFY_NEVER: i32 = 0;
/// All records of a block when it is loaded from its file.
pub const WAXSEAL_VERIFY_ON_FILL: i32 = 1;
/// As `WAXSEAL_VERIFY_ON_FILL`, and one record in so many of those read.
pub const WAXSEAL_VERIFY_SAMPLED: i32 = 2;
/// Every record that is read, and that there is none where none is found.
pub const WAXSEAL_VERIFY_ALWAYS: i32 = 3;

/// How a store is to be opened. Whatever is not set keeps its default; an open with a null pointer has nothing but defaults. May be
/// used for any number of opens, by one thread at a time, and is ended by `waxseal_options_destroy`, any time after.
pub struct waxseal_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_options_t => Mutex<Options>, Kind::Options, "options object");

/// One thing that was set: what it does to the builder of a store, which may call functions of the caller.
type Step = Box<dyn Fn(Builder, &Caller) -> Builder + Send>;

/// Everything that was set, in order.
#[derive(Default)]
pub(crate) struct Options {
    steps: Vec<Step>,
}

impl Options {
    /// Sets one thing more.
    pub(crate) fn then(&mut self, step: impl Fn(Builder) -> Builder + Send + 'static) {
        self.then_calling(move |builder, _| step(builder));
    }

    /// Sets one thing more, for which the store calls functions of the caller.
    pub(crate) fn then_calling(&mut self, step: impl Fn(Builder, &Caller) -> Builder + Send + 'static) {
        self.steps.push(Box::new(step));
    }

    /// Does to a builder all that was set.
    fn apply(&self, builder: Builder, caller: &Caller) -> Builder {
        self.steps.iter().fold(builder, |builder, step| step(builder, caller))
    }
}

/// A builder with what was set, null options set nothing; and who calls functions of the caller, to be told of its store.
pub(crate) fn configured(options: *const waxseal_options_t, builder: Builder) -> Result<(Builder, Caller)> {
    let caller = Caller::default();
    if options.is_null() {
        return Ok((builder, caller));
    }
    let builder = with_mut(options, |options| Ok(options.apply(builder, &caller)))?;
    Ok((builder, caller))
}

/// The durability with this number; none: the store's default.
pub(crate) fn durability(number: i32) -> Result<Option<Durability>> {
    match number {
        WAXSEAL_DURABILITY_DEFAULT => Ok(None),
        WAXSEAL_DURABILITY_BUFFERED => Ok(Some(Durability::Buffered)),
        WAXSEAL_DURABILITY_OS => Ok(Some(Durability::Os)),
        WAXSEAL_DURABILITY_SYNC => Ok(Some(Durability::Sync)),
        other => Err(Failure::invalid(format!("{other} is no durability"))),
    }
}

/// The level of zstd, which has no number of its own here.
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

/// Sets one thing, for which the store calls functions of the caller.
pub(crate) fn set_calling(
    options: *mut waxseal_options_t,
    step: impl Fn(Builder, &Caller) -> Builder + Send + 'static,
) -> Result<()> {
    with_mut(options.cast_const(), |options| {
        options.then_calling(step);
        Ok(())
    })
}

/// Sets one thing that cannot be wrong by itself.
pub(crate) fn set(options: *mut waxseal_options_t, step: impl Fn(Builder) -> Builder + Send + 'static) -> i32 {
    status_of(|| {
        with_mut(options.cast_const(), |options| {
            options.then(step);
            Ok(())
        })
    })
}

/// New options: defaults.
///
/// Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_options_destroy`. Errors: `WAXSEAL_INVALID` without a place
/// for the options.
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

/// Blocks of tables kept in memory, in bytes. Default 256 MiB.
///
/// One thread at a time. Answers `WAXSEAL_OK`, or what is wrong with the handle; so do all setters of options. What was set is checked
/// by the open.
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

/// One budget for everything the store keeps in memory, in bytes: memtables, blocks, indexes and filters, the log's newest bytes, the room
/// of jobs. What callers hold is not in it. Default 0: none.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_memory_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    set(options, move |builder| builder.memory_bytes(bytes))
}

/// Target size of a data block, in bytes, in `default` and in families made by name alone. Default 4 KiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_block_bytes(options: *mut waxseal_options_t, bytes: usize) -> i32 {
    set(options, move |builder| builder.block_bytes(bytes))
}

/// Compression in `default` and in families made by name alone, one of `WAXSEAL_COMPRESSION_..`. Default LZ4.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no compression.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_compression(options: *mut waxseal_options_t, number: i32) -> i32 {
    status_of(|| {
        let compression = compression(number)?;
        Ok(set(options, move |builder| builder.compression(compression)))
    })
}

/// Durability of writes that do not say, one of `WAXSEAL_DURABILITY_..`. Default `WAXSEAL_DURABILITY_OS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no durability.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_durability(options: *mut waxseal_options_t, number: i32) -> i32 {
    status_of(|| {
        let durability = durability(number)?.unwrap_or_default();
        Ok(set(options, move |builder| builder.durability(durability)))
    })
}

/// Threads that compact, beside the one that keeps the log and the one that flushes. Default 1.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_background_threads(options: *mut waxseal_options_t, threads: usize) -> i32 {
    set(options, move |builder| builder.background_threads(threads))
}

/// Whether a store is made where there is none. Default true.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_create_if_missing(options: *mut waxseal_options_t, create: bool) -> i32 {
    set(options, move |builder| builder.create_if_missing(create))
}

/// Whether a store may be created in a directory that holds other files. Default false.
/// Files of another engine, and of names that a store would use, are refused either way.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_beside_other_files(options: *mut waxseal_options_t, allow: bool) -> i32 {
    set(options, move |builder| builder.beside_other_files(allow))
}

/// Whether an open is refused where a store is. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_error_if_exists(options: *mut waxseal_options_t, refuse: bool) -> i32 {
    set(options, move |builder| builder.tune(|settings| settings.error_if_exists = refuse))
}

/// Whether the newest log bytes live in a mapped file where the file system allows it. Default true. False makes every commit a
/// `write`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_wal_mapped(options: *mut waxseal_options_t, mapped: bool) -> i32 {
    set(options, move |builder| builder.wal_mapped(mapped))
}

/// Opens without seals, registry and log. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_plain(options: *mut waxseal_options_t, plain: bool) -> i32 {
    set(options, move |builder| if plain { builder.plain() } else { builder })
}

/// Whether the store has a registry and a log. Default true; they cost nothing until something is registered.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_registry(options: *mut waxseal_options_t, registry: bool) -> i32 {
    set(options, move |builder| builder.registry(registry))
}

/// Opens although acknowledged commits at the end of the log are damaged: they are set aside and reported. Default false: such an open
/// is `WAXSEAL_CORRUPTION`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_accept_loss(options: *mut waxseal_options_t, accept: bool) -> i32 {
    set(options, move |builder| builder.accept_loss(accept))
}

/// What point reads check against the seals, one of `WAXSEAL_VERIFY_..`; `one_in` counts for `WAXSEAL_VERIFY_SAMPLED` alone. Default
/// `WAXSEAL_VERIFY_ALWAYS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_verify_reads(options: *mut waxseal_options_t, policy: i32, one_in: u32) -> i32 {
    status_of(|| {
        let verify = verify(policy, one_in)?;
        Ok(set(options, move |builder| builder.verify_reads(verify)))
    })
}

/// What iterators check, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_verify_scans(options: *mut waxseal_options_t, policy: i32, one_in: u32) -> i32 {
    status_of(|| {
        let verify = verify(policy, one_in)?;
        Ok(set(options, move |builder| builder.verify_scans(verify)))
    })
}

/// Ends options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_destroy(options: *mut waxseal_options_t) -> i32 {
    status_of(|| end(options.cast_const()))
}
