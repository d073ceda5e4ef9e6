//! How a column family of its own kind is made.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use face::{CfOptions, SealLayout, StoreId};

use crate::call::{answer, status_of};
use crate::callback::Caller;
use crate::comparator::Given;
use crate::error::{Failure, Result, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with_mut};
use crate::lent::{lent, out};
use crate::options::{compression, set_calling, verify, waxseal_options_t};

/// Seals stand in a column where a codec packs the block, else behind their records.
pub const WAXSEAL_SEALS_BY_CODEC: i32 = 0;
/// Always behind their records.
pub const WAXSEAL_SEALS_FOLLOWING: i32 = 1;
/// Always in a column.
pub const WAXSEAL_SEALS_COLUMN: i32 = 2;

/// Settings of one column family. Whatever is not set keeps its default; a null pointer stands for nothing but defaults. May be used
/// for any number of families, by one thread at a time, and is ended by `waxseal_family_options_destroy`, any time after.
pub struct waxseal_family_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_family_options_t => Mutex<FamilyOptions>, Kind::FamilyOptions, "family options object");

/// What was set, and whose order the family has, if not bytewise.
#[derive(Clone, Default)]
pub(crate) struct FamilyOptions {
    options: CfOptions,
    order: Option<Arc<Given>>,
}

impl FamilyOptions {
    fn of(&self, caller: &Caller) -> CfOptions {
        let mut options = self.options.clone();
        if let Some(given) = &self.order {
            options.order = given.order_of(caller);
        }
        options
    }
}

/// What was set, for a family of this store; null sets nothing.
pub(crate) fn family_settings(options: *const waxseal_family_options_t, store: StoreId) -> Result<CfOptions> {
    if options.is_null() {
        return Ok(CfOptions::default());
    }
    with_mut(options, |options: &mut FamilyOptions| Ok(options.of(&Caller::of(store))))
}

/// The options of a family, in the place of those that the store keeps; one of this name is made if there is none. `family_options` may be
/// null, and is copied as it is now.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_options_add_family(
    options: *mut waxseal_options_t,
    name: *const u8,
    name_len: usize,
    family_options: *const waxseal_family_options_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, error) = unsafe { (lent(name, name_len), out(error)) };
    answer(error, || {
        let name = name.text("name")?.to_owned();
        let family = match family_options.is_null() {
            true => FamilyOptions::default(),
            false => with_mut(family_options, |options: &mut FamilyOptions| Ok(options.clone()))?,
        };
        set_calling(options, move |builder, caller| builder.column_family(name.clone(), family.of(caller)))
    })
}

/// Sets whose order the family has.
pub(crate) fn set_order(options: *mut waxseal_family_options_t, order: Arc<Given>) -> Result<()> {
    with_mut(options.cast_const(), |options: &mut FamilyOptions| {
        options.order = Some(order);
        Ok(())
    })
}

fn set(options: *mut waxseal_family_options_t, turn: impl FnOnce(&mut CfOptions)) -> i32 {
    status_of(|| {
        with_mut(options.cast_const(), |options: &mut FamilyOptions| {
            turn(&mut options.options);
            Ok(())
        })
    })
}

/// New family options: defaults.
///
/// Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_family_options_destroy`. Errors: `WAXSEAL_INVALID` without a place
/// for the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_options_create(
    options: *mut *mut waxseal_family_options_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (options, error) = unsafe { (out(options), out(error)) };
    answer(error, || {
        let options = options.needed("family options")?;
        options.set(issue(Mutex::default())?);
        Ok(())
    })
}

/// Target size of a data block before compression, in bytes, 64 to 1 MiB. Default 4 KiB.
///
/// One thread at a time. Answers `WAXSEAL_OK`, or what is wrong with the handle; so do all setters of family options. What was set is
/// checked when a family is made with it.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_block_bytes(options: *mut waxseal_family_options_t, bytes: usize) -> i32 {
    set(options, |options| options.block_bytes = bytes)
}

/// Records between restart points of a block, 1 to 255. Default 16.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_restart_interval(
    options: *mut waxseal_family_options_t,
    records: usize,
) -> i32 {
    set(options, |options| options.restart_interval = records)
}

/// Filter bits per key, 0 (no filter) to 32. Default 10.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_filter_bits(options: *mut waxseal_family_options_t, bits: usize) -> i32 {
    set(options, |options| options.filter_bits = bits)
}

/// Compression, one of `WAXSEAL_COMPRESSION_..`. Default LZ4.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no compression.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_compression(options: *mut waxseal_family_options_t, number: i32) -> i32 {
    status_of(|| {
        let compression = compression(number)?;
        Ok(set(options, |options| options.compression = compression))
    })
}

/// Compression of the bottom level, where most of the data stands and least of it is written, one of `WAXSEAL_COMPRESSION_..`. Default: as
/// that of the other levels.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no compression.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_bottom_compression(
    options: *mut waxseal_family_options_t,
    number: i32,
) -> i32 {
    status_of(|| {
        let compression = compression(number)?;
        Ok(set(options, |options| options.bottom_compression = Some(compression)))
    })
}

/// Target size of a table, in bytes. Default 64 MiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_table_bytes(options: *mut waxseal_family_options_t, bytes: u64) -> i32 {
    set(options, |options| options.table_bytes = bytes)
}

/// Size of the first level below level 0 that holds data, in bytes. Default 256 MiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_level_base_bytes(
    options: *mut waxseal_family_options_t,
    bytes: u64,
) -> i32 {
    set(options, |options| options.level_base_bytes = bytes)
}

/// How much larger each level is than the one above. Default 10.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_fanout(options: *mut waxseal_family_options_t, times: u64) -> i32 {
    set(options, |options| options.fanout = times)
}

/// Tables in level 0 at which they are compacted. Default 4.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_level0_tables(
    options: *mut waxseal_family_options_t,
    tables: usize,
) -> i32 {
    set(options, |options| options.level0_tables = tables)
}

/// Values of at least so many bytes stand in files of their own, where they are written once; 0: none does. Kept in the store. Default
/// 4 KiB.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_large_value_bytes(
    options: *mut waxseal_family_options_t,
    bytes: usize,
) -> i32 {
    set(options, |options| options.large_value_bytes = bytes)
}

/// How many microseconds a record of the family lives that is put without an expiry of its own; 0: for ever. Records that come with their
/// seal, by ingestion or from another store keep what they came with. Kept in the store. Default 0.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_default_ttl(options: *mut waxseal_family_options_t, micros: u64) -> i32 {
    set(options, |options| options.default_ttl = (micros > 0).then(|| Duration::from_micros(micros)))
}

/// Where the seals of a block stand, one of `WAXSEAL_SEALS_..`. Kept in the store. Default `WAXSEAL_SEALS_BY_CODEC`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no layout.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_seals(options: *mut waxseal_family_options_t, number: i32) -> i32 {
    status_of(|| {
        let layout = match number {
            WAXSEAL_SEALS_BY_CODEC => SealLayout::ByCodec,
            WAXSEAL_SEALS_FOLLOWING => SealLayout::Following,
            WAXSEAL_SEALS_COLUMN => SealLayout::Column,
            other => return Err(Failure::invalid(format!("{other} is no layout of seals"))),
        };
        Ok(set(options, |options| options.seals = layout))
    })
}

/// What point reads check, one of `WAXSEAL_VERIFY_..`; `one_in` counts for `WAXSEAL_VERIFY_SAMPLED` alone. Default
/// `WAXSEAL_VERIFY_ALWAYS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_verify_reads(
    options: *mut waxseal_family_options_t,
    policy: i32,
    one_in: u32,
) -> i32 {
    status_of(|| {
        let verify = verify(policy, one_in)?;
        Ok(set(options, |options| options.verify_reads = verify))
    })
}

/// What iterators check, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_set_verify_scans(
    options: *mut waxseal_family_options_t,
    policy: i32,
    one_in: u32,
) -> i32 {
    status_of(|| {
        let verify = verify(policy, one_in)?;
        Ok(set(options, |options| options.verify_scans = verify))
    })
}

/// Ends family options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_options_destroy(options: *mut waxseal_family_options_t) -> i32 {
    status_of(|| end(options.cast_const()))
}
