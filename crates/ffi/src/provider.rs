//! Metadata providers, implemented by callbacks: they make and check annotations of records.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::{Arc, Mutex};

use face::care::Kind as RecordKind;
use face::meta::{Descriptor, DropReason, Locality, MetadataProvider, OnUnknown, Rebuild, Record, Wants, WriteCtx};

use crate::call::status_of;
use crate::callback::{Context, ask, waxseal_destroy_fn};
use crate::declare::{destroy, field, setters};
use crate::error::{calls, waxseal_error_t};
use crate::failure::{WAXSEAL_NOT_FOUND, failed};
use crate::handle::{HandleKind, handle, issue, with_mut};
use crate::lent::waxseal_slice_t;
use crate::options::{set_calling, waxseal_options_t};
use crate::reentry::Caller;

/// Waxseal's own expiry provider: eight bytes, microseconds since 1970, little-endian.
pub const WAXSEAL_PROVIDER_EXPIRY: u16 = 1;
/// Waxseal's own provenance provider: session and microseconds, two varints.
pub const WAXSEAL_PROVIDER_PROVENANCE: u16 = 2;
/// Waxseal's own provider of statistics for extract-transform-load jobs.
pub const WAXSEAL_PROVIDER_ETL: u16 = 3;
/// Waxseal's own labels provider.
pub const WAXSEAL_PROVIDER_LABELS: u16 = 4;

/// A record with a value.
pub const WAXSEAL_KIND_PUT: i32 = 1;
/// A tombstone.
pub const WAXSEAL_KIND_DELETE: i32 = 2;
/// A merge operand; the record's value is the operand.
pub const WAXSEAL_KIND_MERGE: i32 = 3;
/// A record of a kind for which this header has no number.
pub const WAXSEAL_KIND_OTHER: i32 = 0;

/// Keep the entry unchanged, or keep it absent.
pub const WAXSEAL_ENTRY_KEEP: i32 = 0;
/// A new entry was written.
pub const WAXSEAL_ENTRY_SET: i32 = 1;
/// Remove the entry.
pub const WAXSEAL_ENTRY_REMOVE: i32 = 2;

/// A newer record of the same key hides the record from every snapshot.
pub const WAXSEAL_DROP_SHADOWED: i32 = 0;
/// The record is a tombstone with no older record left to hide.
pub const WAXSEAL_DROP_TOMBSTONE: i32 = 1;
/// The record's key range was deleted.
pub const WAXSEAL_DROP_RANGE_DELETE: i32 = 2;
/// The record has expired.
pub const WAXSEAL_DROP_EXPIRED: i32 = 3;
/// The record's family or column was dropped.
pub const WAXSEAL_DROP_PURGED: i32 = 4;
/// The record is a merge operand, or the value below operands, and a merged record replaces it.
pub const WAXSEAL_DROP_MERGED: i32 = 5;
/// A compaction filter dropped or changed the record.
pub const WAXSEAL_DROP_FILTERED: i32 = 6;

/// A record, valid during a call.
#[repr(C)]
pub struct waxseal_record_t {
    /// Its key.
    pub key: waxseal_slice_t,
    /// Its value.
    pub value: waxseal_slice_t,
    /// Its sequence number; 0 once no snapshot needs it, and before the commit.
    pub seqno: u64,
    /// One of `WAXSEAL_KIND_..`.
    pub kind: i32,
}

/// Makes the entry of an operation, on the writing thread. `given` is the caller's entry for this provider, null if
/// there is none. The callback writes the entry to `entry`, which has room for `capacity` bytes (the maximum length of
/// an entry), writes its length to `entry_len`, and returns `WAXSEAL_OK`. It returns `WAXSEAL_NOT_FOUND` for no entry.
/// A negative status refuses the operation.
pub type waxseal_on_write_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        record: *const waxseal_record_t,
        given: *const waxseal_slice_t,
        entry: *mut u8,
        capacity: usize,
        entry_len: *mut usize,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

/// Called for a record that is written to a table, with its `entry`, null if it has none. Returns one of
/// `WAXSEAL_ENTRY_..`; `WAXSEAL_ENTRY_SET` means that the callback wrote a new entry as in `waxseal_on_write_fn`. Any
/// other return value keeps the entry.
pub type waxseal_on_build_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        record: *const waxseal_record_t,
        entry: *const waxseal_slice_t,
        new_entry: *mut u8,
        capacity: usize,
        new_len: *mut usize,
    ) -> i32,
>;

/// Called for a record with an entry that is omitted from a table; `reason` is one of `WAXSEAL_DROP_..`.
pub type waxseal_on_drop_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        record: *const waxseal_record_t,
        entry: *const waxseal_slice_t,
        reason: i32,
    ),
>;

/// Returns 0 if an entry is not valid for this provider and record.
pub type waxseal_on_verify_fn = Option<
    unsafe extern "C" fn(context: *mut c_void, record: *const waxseal_record_t, entry: *const waxseal_slice_t) -> i32,
>;

/// A metadata provider for `waxseal_options_add_provider`. Used by one thread at a time.
pub struct waxseal_provider_t {
    _opaque: [u8; 0],
}

handle!(waxseal_provider_t => Mutex<CallerProvider>, HandleKind::Provider, "provider");

/// A provider that a caller supplied, for any number of stores.
#[derive(Clone)]
pub(crate) struct CallerProvider {
    descriptor: Descriptor,
    wants: Wants,
    context: Arc<Context>,
    on_write: waxseal_on_write_fn,
    on_build: waxseal_on_build_fn,
    on_drop: waxseal_on_drop_fn,
    on_verify: waxseal_on_verify_fn,
}

/// The provider of one store.
pub(crate) struct KeepingOf {
    pub(crate) caller: Caller,
    pub(crate) keeping: CallerProvider,
}

impl KeepingOf {
    /// Runs a callback with the store busy, and passes the context to it.
    fn calls<T>(&self, function: impl FnOnce(*mut c_void) -> T) -> T {
        self.caller.calls(|| function(self.keeping.context.get()))
    }

    /// Lends room for an entry to `write`, which sets the used length. Returns the result of `write`; on `None` or an
    /// error, `out` is unchanged.
    fn entry<T>(
        &self,
        out: &mut Vec<u8>,
        write: impl FnOnce(*mut u8, usize, &mut usize) -> face::Result<Option<T>>,
    ) -> face::Result<Option<T>> {
        let (start, capacity) = (out.len(), self.keeping.descriptor.max_len);
        out.resize(start + capacity, 0);
        let mut used = 0;
        let outcome = write(out[start..].as_mut_ptr(), capacity, &mut used);
        let kept = match &outcome {
            Ok(Some(_)) if used > capacity => {
                out.truncate(start);
                let what = format!("it says that an entry has {used} bytes; at most {capacity} are allowed");
                return Err(failed(&self.keeping.descriptor.name, what));
            }
            Ok(Some(_)) => used,
            _ => 0,
        };
        out.truncate(start + kept);
        outcome
    }
}

fn lent_record(record: &Record<'_>) -> waxseal_record_t {
    let (key, value) = (waxseal_slice_t::of(record.key), waxseal_slice_t::of(record.value));
    waxseal_record_t { key, value, seqno: record.seqno, kind: kind_number(record.kind) }
}

/// Returns the number of a kind.
pub(crate) fn kind_number(kind: RecordKind) -> i32 {
    match kind {
        RecordKind::Put => WAXSEAL_KIND_PUT,
        RecordKind::Delete => WAXSEAL_KIND_DELETE,
        RecordKind::Merge => WAXSEAL_KIND_MERGE,
        _ => WAXSEAL_KIND_OTHER,
    }
}

/// Returns a pointer, null for `None`.
fn pointer(slice: Option<&waxseal_slice_t>) -> *const waxseal_slice_t {
    slice.map_or(null(), |slice| slice)
}

// SAFETY of all calls below: the header states each function's arguments and their lifetime; the caller supplied the
// context with the function.
impl MetadataProvider for KeepingOf {
    fn descriptor(&self) -> Descriptor {
        self.keeping.descriptor.clone()
    }

    fn wants(&self) -> Wants {
        self.keeping.wants
    }

    fn on_write(&self, write: &WriteCtx<'_>, out: &mut Vec<u8>) -> face::Result<bool> {
        let Some(function) = self.keeping.on_write else {
            out.extend_from_slice(write.given.unwrap_or_default());
            return Ok(write.given.is_some());
        };
        let record = waxseal_record_t {
            key: waxseal_slice_t::of(write.key),
            value: waxseal_slice_t::of(write.value),
            seqno: 0,
            kind: kind_number(write.kind),
        };
        let given = write.given.map(waxseal_slice_t::of);
        let context = self.keeping.context.get();
        let entry = self.entry(out, |entry, capacity, used| {
            let status = ask(&self.caller, &self.keeping.descriptor.name, |error| {
                // SAFETY: as above.
                unsafe { function(context, &record, pointer(given.as_ref()), entry, capacity, used, error) }
            })?;
            Ok((status != WAXSEAL_NOT_FOUND).then_some(()))
        })?;
        Ok(entry.is_some())
    }

    fn on_build(&self, record: &Record<'_>, entry: Option<&[u8]>, out: &mut Vec<u8>) -> Rebuild {
        let Some(function) = self.keeping.on_build else { return Rebuild::Keep };
        let (record, entry) = (lent_record(record), entry.map(waxseal_slice_t::of));
        let mut answer_given = WAXSEAL_ENTRY_KEEP;
        let set = self.entry(out, |new, capacity, used| {
            // SAFETY: as above.
            answer_given = self
                .calls(|context| unsafe { function(context, &record, pointer(entry.as_ref()), new, capacity, used) });
            Ok((answer_given == WAXSEAL_ENTRY_SET).then_some(()))
        });
        match (answer_given, set) {
            (WAXSEAL_ENTRY_SET, Ok(Some(()))) => Rebuild::Set,
            (WAXSEAL_ENTRY_REMOVE, _) => Rebuild::Remove,
            _ => Rebuild::Keep,
        }
    }

    fn on_drop(&self, record: &Record<'_>, entry: &[u8], reason: DropReason) {
        let Some(function) = self.keeping.on_drop else { return };
        let (record, entry) = (lent_record(record), waxseal_slice_t::of(entry));
        let reason = match reason {
            DropReason::Shadowed => WAXSEAL_DROP_SHADOWED,
            DropReason::Tombstone => WAXSEAL_DROP_TOMBSTONE,
            DropReason::RangeDelete => WAXSEAL_DROP_RANGE_DELETE,
            DropReason::Expired => WAXSEAL_DROP_EXPIRED,
            DropReason::Purged => WAXSEAL_DROP_PURGED,
            DropReason::Merged => WAXSEAL_DROP_MERGED,
            DropReason::Filtered => WAXSEAL_DROP_FILTERED,
        };
        // SAFETY: as above.
        self.calls(|context| unsafe { function(context, &record, &entry, reason) })
    }

    fn verify(&self, record: &Record<'_>, entry: &[u8]) -> bool {
        let Some(function) = self.keeping.on_verify else { return true };
        let (record, entry) = (lent_record(record), waxseal_slice_t::of(entry));
        // SAFETY: as above.
        self.calls(|context| unsafe { function(context, &record, &entry) }) != 0
    }
}

calls! {
    /// Creates a provider with a number, from 16 on, and a name of 1 to 64 bytes. Defaults, which the setters change:
    /// entries have at most 1 KiB, are exported with their record, are not covered by the seal, and are preserved by
    /// stores that do not know the provider. Without callbacks, the provider stores the entries that writers supply.
    /// Unless `destroy` is null, it destroys `context` once the provider and every store that was opened with it are
    /// gone, or if this call fails. The callbacks may be called by any thread, concurrently, and by the store's own
    /// threads.
    ///
    /// Thread-safe. On success the caller owns `*provider` and frees it with `waxseal_provider_destroy`. Errors:
    /// `WAXSEAL_INVALID` for a reserved number or an invalid name.
    fn waxseal_provider_create(
        id: u16, bytes name, context: *mut c_void, destroy: waxseal_destroy_fn,
        out provider: *mut *mut waxseal_provider_t,
    ) {
        let context = Arc::new(Context::new(context, destroy));
        let provider = provider.needed("provider")?;
        let descriptor = Descriptor::new(id, name.text("name")?);
        descriptor.validate()?;
        let keeping = CallerProvider {
            descriptor,
            wants: Wants::default(),
            context,
            on_write: None,
            on_build: None,
            on_drop: None,
            on_verify: None,
        };
        provider.set(issue(Mutex::new(keeping))?);
        Ok(())
    }
}

/// Changes a setting of a provider.
fn set(provider: *mut waxseal_provider_t, change: impl FnOnce(&mut CallerProvider)) -> i32 {
    status_of(|| {
        with_mut(provider.cast_const(), |keeping: &mut CallerProvider| {
            change(keeping);
            Ok(())
        })
    })
}

setters! {
    field;

    /// The format version of the entries that it writes, any number. Default 0.
    fn waxseal_provider_set_version(provider: *mut waxseal_provider_t, version: u8) => descriptor.version = version;

    /// Whether its entries belong to this store alone, and are not exported. Default false.
    fn waxseal_provider_set_local(provider: *mut waxseal_provider_t, local: bool) =>
        descriptor.locality = if local { Locality::NodeLocal } else { Locality::Portable };

    /// The maximum length of an entry, in bytes. Default 1024.
    fn waxseal_provider_set_max_len(provider: *mut waxseal_provider_t, bytes: usize) => descriptor.max_len = bytes;

    /// Whether the seal covers its entries. Sealed entries never change after the write. Default false.
    fn waxseal_provider_set_sealed(provider: *mut waxseal_provider_t, sealed: bool) => descriptor.in_checksum = sealed;

    /// Whether a store that does not know this provider omits its entries when it writes a table, instead of preserving
    /// them. Default false.
    fn waxseal_provider_set_dropped_if_unknown(provider: *mut waxseal_provider_t, dropped: bool) =>
        descriptor.on_unknown = if dropped { OnUnknown::Drop } else { OnUnknown::Preserve };
}

/// Sets the callback that makes the entry of an operation; null means that the writer's entry is stored. With `every`
/// the store also calls it for operations without a writer's entry.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_on_write(
    provider: *mut waxseal_provider_t,
    on_write: waxseal_on_write_fn,
    every: bool,
) -> i32 {
    set(provider, |keeping| {
        keeping.on_write = on_write;
        keeping.wants.every_write = every && on_write.is_some();
    })
}

/// Sets the callback that is called for every record that is written to a table, with or without an entry; null keeps
/// entries unchanged. Not for entries that the seal covers.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_on_build(
    provider: *mut waxseal_provider_t,
    on_build: waxseal_on_build_fn,
) -> i32 {
    set(provider, |keeping| {
        keeping.on_build = on_build;
        keeping.wants.every_build = on_build.is_some();
    })
}

setters! {
    field;

    /// Sets the callback that is called for records with an entry that are omitted from a table; null for none.
    fn waxseal_provider_set_on_drop(provider: *mut waxseal_provider_t, on_drop: waxseal_on_drop_fn) =>
        on_drop = on_drop;

    /// Sets the callback that validates entries; null accepts all.
    fn waxseal_provider_set_on_verify(provider: *mut waxseal_provider_t, on_verify: waxseal_on_verify_fn) =>
        on_verify = on_verify;
}

destroy! {
    /// Destroys a provider; stores that were opened with it keep using it. Null is allowed; a destroyed provider is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_provider_destroy(provider: *mut waxseal_provider_t);
}

/// Adds a metadata provider with its current settings; later changes have no effect. Waxseal's own providers are always
/// present. The open returns `WAXSEAL_INVALID` if two providers have the same number, or if a provider's settings are
/// invalid.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_add_provider(
    options: *mut waxseal_options_t,
    provider: *const waxseal_provider_t,
) -> i32 {
    status_of(|| {
        let keeping = with_mut(provider, |keeping: &mut CallerProvider| Ok(keeping.clone()))?;
        set_calling(options, move |builder, caller| {
            builder.provider(Arc::new(KeepingOf { caller: caller.clone(), keeping: keeping.clone() }))
        })
    })
}
