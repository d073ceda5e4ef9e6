//! Options for the creation of a column family.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use face::{CfOptions, ColumnFamily, MergeOperator, SealLayout, StoreId, TableProperty};

use crate::declare::{destroy, field, setters};
use crate::error::{calls, create};
use crate::failure::{Failure, Result};
use crate::filter_function::GivenFilter;
use crate::handle::{HandleKind, handle, issue, with_mut};
use crate::key_order::Given;
use crate::merge_function::GivenOperator;
use crate::options::{compression, set_calling, verify, waxseal_options_t};
use crate::property_function::GivenProperty;
use crate::reentry::Caller;

/// Seals are stored in a column if a codec compresses the block, otherwise after their records.
pub const WAXSEAL_SEALS_BY_CODEC: i32 = 0;
/// Seals are always stored after their records.
pub const WAXSEAL_SEALS_FOLLOWING: i32 = 1;
/// Seals are always stored in a column.
pub const WAXSEAL_SEALS_COLUMN: i32 = 2;

/// Settings of one column family. Settings that are not set keep their defaults; a null pointer means all defaults.
/// Usable for any number of families, by one thread at a time. Destroyed by `waxseal_family_options_destroy`, at any
/// time.
pub struct waxseal_family_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_family_options_t => Mutex<FamilyOptions>, HandleKind::FamilyOptions, "family options object");

/// The options that were set, the comparator if the order is not bytewise, and the functions of the caller.
#[derive(Clone, Default)]
pub(crate) struct FamilyOptions {
    options: CfOptions,
    order: Option<Arc<Given>>,
    merge: Option<Arc<GivenOperator>>,
    filter: Option<Arc<GivenFilter>>,
    properties: Vec<Arc<GivenProperty>>,
    /// The options as `waxseal_family_get_options` found them, or as the last change left them.
    found: Option<Found>,
}

/// The options of a family, as they were found.
#[derive(Clone)]
struct Found {
    /// The store: callbacks in the options are bound to it.
    store: StoreId,
    family: String,
    options: CfOptions,
}

impl FamilyOptions {
    /// Fails if the options hold callbacks that are bound to another store than `store`.
    fn check_bound(&self, store: Option<StoreId>) -> Result<()> {
        let is_bound = (self.order.is_none() && !self.options.order.is_bytewise())
            || (self.merge.is_none()
                && self.options.merge_operator.as_ref().is_some_and(|one| !one.name().starts_with("wax.")))
            || (self.filter.is_none() && self.options.compaction_filter.is_some())
            || !self.options.table_properties.iter().all(|found| self.is_given(found));
        match self.found.as_ref().is_some_and(|found| Some(found.store) != store) && is_bound {
            false => Ok(()),
            true => Err(Failure::invalid(
                "the options are those of another store's family: set comparator, merge operator, compaction filter and \
                 properties anew",
            )),
        }
    }

    /// Returns true if a property of this name was added anew.
    fn is_given(&self, found: &TableProperty) -> bool {
        self.properties.iter().any(|given| given.name() == found.name())
    }

    fn of(&self, caller: &Caller) -> CfOptions {
        let mut options = self.options.clone();
        options.table_properties.retain(|found| !self.is_given(found));
        if let Some(given) = &self.order {
            options.order = given.order_of(caller);
        }
        if let Some(given) = &self.merge {
            options.merge_operator = Some(given.operator_of(caller));
        }
        if let Some(given) = &self.filter {
            options.compaction_filter = Some(given.filter_of(caller));
        }
        options.table_properties.extend(self.properties.iter().map(|given| given.property_of(caller)));
        options
    }
}

/// Returns the options for a family of this store; null means defaults.
pub(crate) fn family_settings(options: *const waxseal_family_options_t, store: StoreId) -> Result<CfOptions> {
    if options.is_null() {
        return Ok(CfOptions::default());
    }
    with_mut(options, |options: &mut FamilyOptions| {
        options.check_bound(Some(store))?;
        Ok(options.of(&Caller::of(store)))
    })
}

/// Returns an object with the options of a family.
pub(crate) fn options_of(family: &ColumnFamily) -> Result<*mut waxseal_family_options_t> {
    let options = (*family.options()).clone();
    let found = Found { store: family.store(), family: family.name().to_owned(), options: options.clone() };
    issue(Mutex::new(FamilyOptions { options, found: Some(found), ..FamilyOptions::default() }))
}

/// Gives the options to a family; of options that were found there, those that have changed since.
pub(crate) fn change_family(family: &ColumnFamily, options: *const waxseal_family_options_t) -> Result<()> {
    let new = family_settings(options, family.store())?;
    let is_of = |found: &Found| found.store == family.store() && found.family == family.name();
    let found = match options.is_null() {
        true => None,
        false => with_mut(options, |options: &mut FamilyOptions| Ok(options.found.clone().filter(is_of)))?,
    };
    let Some(found) = found else { return Ok(family.set_options(new)?) };
    family.update_options(|now| now.apply_changes(&found.options, &new))?;
    with_mut(options, |options: &mut FamilyOptions| {
        options.found = Some(Found { options: new, ..found });
        Ok(())
    })
}

calls! {
    /// Sets the options of a family, which replace those recorded in the store. The open creates the family if it does
    /// not exist. `family_options` may be null, and is copied in its current state.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8.
    fn waxseal_options_add_family(
        options: *mut waxseal_options_t, bytes name, family_options: *const waxseal_family_options_t,
    ) {
        let name = name.text("name")?.to_owned();
        let family = match family_options.is_null() {
            true => FamilyOptions::default(),
            false => with_mut(family_options, |options: &mut FamilyOptions| {
                options.check_bound(None)?;
                Ok(options.clone())
            })?,
        };
        set_calling(options, move |builder, caller| builder.column_family(name.clone(), family.of(caller)))
    }

    /// Prefix of a key that filters know besides the whole key, so that an iterator whose bounds are within one prefix
    /// skips the tables without a key of it: `fixed:8` for the first eight bytes of a key, `delimited:2f:1` for all
    /// bytes through the first `/` (in hexadecimal digits), or an empty text for none. Recorded in the store. Default:
    /// none.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for another text.
    fn waxseal_family_options_set_prefix_extractor(options: *mut waxseal_family_options_t, bytes text) {
        let text = text.text("prefix extractor")?;
        let extractor = match text.is_empty() {
            true => None,
            false => Some(text.parse()?),
        };
        with_mut(options.cast_const(), |options: &mut FamilyOptions| {
            options.options.prefix_extractor = extractor;
            Ok(())
        })
    }
}

/// Sets the comparator of the family.
pub(crate) fn set_order(options: *mut waxseal_family_options_t, order: Arc<Given>) -> Result<()> {
    with_mut(options.cast_const(), |options: &mut FamilyOptions| {
        options.order = Some(order);
        Ok(())
    })
}

/// Sets an operator of the engine.
pub(crate) fn set_operator(options: *mut waxseal_family_options_t, operator: MergeOperator) -> Result<()> {
    with_mut(options.cast_const(), |options: &mut FamilyOptions| {
        (options.options.merge_operator, options.merge) = (Some(operator), None);
        Ok(())
    })
}

/// Sets an operator of the caller.
pub(crate) fn set_custom_operator(options: *mut waxseal_family_options_t, given: Arc<GivenOperator>) -> Result<()> {
    with_mut(options.cast_const(), |options: &mut FamilyOptions| {
        options.merge = Some(given);
        Ok(())
    })
}

/// Adds a property of tables.
pub(crate) fn add_property(options: *mut waxseal_family_options_t, given: Arc<GivenProperty>) -> Result<()> {
    with_mut(options.cast_const(), |options: &mut FamilyOptions| {
        options.properties.push(given);
        Ok(())
    })
}

/// Sets the compaction filter.
pub(crate) fn set_filter(options: *mut waxseal_family_options_t, given: Arc<GivenFilter>) -> Result<()> {
    with_mut(options.cast_const(), |options: &mut FamilyOptions| {
        options.filter = Some(given);
        Ok(())
    })
}

fn seal_layout(number: i32) -> Result<SealLayout> {
    match number {
        WAXSEAL_SEALS_BY_CODEC => Ok(SealLayout::ByCodec),
        WAXSEAL_SEALS_FOLLOWING => Ok(SealLayout::Following),
        WAXSEAL_SEALS_COLUMN => Ok(SealLayout::Column),
        other => Err(Failure::invalid(format!("{other} is no layout of seals"))),
    }
}

create! {
    /// Creates family options with all defaults.
    fn waxseal_family_options_create(options: *mut *mut waxseal_family_options_t) => "family options";
}

setters! {
    field;

    /// Target size of a data block before compression, in bytes, 64 to 1 MiB. Default 4 KiB.
    ///
    /// One thread at a time. Returns `WAXSEAL_OK`, or a status about the handle; so do all setters of family options.
    /// The values are validated when a family is created with them.
    fn waxseal_family_options_set_block_bytes(options: *mut waxseal_family_options_t, bytes: usize) =>
        options.block_bytes = bytes;

    /// Records between restart points of a block, 1 to 255. Default 16.
    fn waxseal_family_options_set_restart_interval(options: *mut waxseal_family_options_t, records: usize) =>
        options.restart_interval = records;

    /// Filter bits per key, 0 (no filter) to 32. Default 10.
    fn waxseal_family_options_set_filter_bits(options: *mut waxseal_family_options_t, bits: usize) =>
        options.filter_bits = bits;

    /// Compression, one of `WAXSEAL_COMPRESSION_..`. Default LZ4.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
    fn waxseal_family_options_set_compression(options: *mut waxseal_family_options_t, number: i32) =>
        options.compression = compression(number)?;

    /// Compression of the bottom level, which holds most of the data and is written least often, one of
    /// `WAXSEAL_COMPRESSION_..`. Default: the compression of the other levels.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
    fn waxseal_family_options_set_bottom_compression(options: *mut waxseal_family_options_t, number: i32) =>
        options.bottom_compression = Some(compression(number)?);

    /// Target size of a table, in bytes. Default 64 MiB.
    fn waxseal_family_options_set_table_bytes(options: *mut waxseal_family_options_t, bytes: u64) =>
        options.table_bytes = bytes;

    /// Size of the first level below level 0 that holds data, in bytes. Default 256 MiB.
    fn waxseal_family_options_set_level_base_bytes(options: *mut waxseal_family_options_t, bytes: u64) =>
        options.level_base_bytes = bytes;

    /// Size ratio of each level to the level above. Default 10.
    fn waxseal_family_options_set_fanout(options: *mut waxseal_family_options_t, times: u64) => options.fanout = times;

    /// Number of level-0 tables that triggers a compaction. Default 4.
    fn waxseal_family_options_set_level0_tables(options: *mut waxseal_family_options_t, tables: usize) =>
        options.level0_tables = tables;

    /// Values of at least this many bytes are stored in blob files, where they are written once; 0 means no value is.
    /// Recorded in the store. Default 4 KiB.
    fn waxseal_family_options_set_large_value_bytes(options: *mut waxseal_family_options_t, bytes: usize) =>
        options.large_value_bytes = bytes;

    /// Default time to live, in microseconds, of records put without an expiry time; 0 means no expiry. Records that
    /// arrive with their seal, by ingestion or from another store, keep their own expiry. Recorded in the store.
    /// Default 0.
    fn waxseal_family_options_set_default_ttl(options: *mut waxseal_family_options_t, micros: u64) =>
        options.default_ttl = (micros > 0).then(|| Duration::from_micros(micros));

    /// Position of the seals in a block, one of `WAXSEAL_SEALS_..`. Recorded in the store. Default
    /// `WAXSEAL_SEALS_BY_CODEC`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown layout.
    fn waxseal_family_options_set_seals(options: *mut waxseal_family_options_t, number: i32) =>
        options.seals = seal_layout(number)?;

    /// How point reads are verified, one of `WAXSEAL_VERIFY_..`. Only `WAXSEAL_VERIFY_SAMPLED` uses `one_in`. Default
    /// `WAXSEAL_VERIFY_ALWAYS`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
    fn waxseal_family_options_set_verify_reads(options: *mut waxseal_family_options_t, policy: i32, one_in: u32) =>
        options.verify_reads = verify(policy, one_in)?;

    /// How iterators are verified, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
    fn waxseal_family_options_set_verify_scans(options: *mut waxseal_family_options_t, policy: i32, one_in: u32) =>
        options.verify_scans = verify(policy, one_in)?;
}

destroy! {
    /// Destroys family options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
    fn waxseal_family_options_destroy(options: *mut waxseal_family_options_t);
}
