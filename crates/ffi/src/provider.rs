//! Metadata providers: who keeps what beside values, as functions of the caller.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::{Arc, Mutex};

use face::care::Kind as RecordKind;
use face::meta::{Descriptor, DropReason, Locality, MetadataProvider, OnUnknown, Rebuild, Record, Wants, WriteCtx};

use crate::call::{answer, status_of};
use crate::callback::{Caller, Context, ask, failed, waxseal_destroy_fn};
use crate::error::{WAXSEAL_NOT_FOUND, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with_mut};
use crate::lent::{lent, out, waxseal_slice_t};
use crate::options::{set_calling, waxseal_options_t};

/// Waxseal's own provider of expiry: eight bytes, microseconds since 1970, low first.
pub const WAXSEAL_PROVIDER_EXPIRY: u16 = 1;
/// Waxseal's own provider of provenance: session and microseconds, two varints.
pub const WAXSEAL_PROVIDER_PROVENANCE: u16 = 2;
/// Waxseal's own provider of statistics for loading elsewhere.
pub const WAXSEAL_PROVIDER_ETL: u16 = 3;
/// Waxseal's own provider of labels.
pub const WAXSEAL_PROVIDER_LABELS: u16 = 4;

/// A record that is a value.
pub const WAXSEAL_KIND_PUT: i32 = 1;
/// A record that says that its key is gone.
pub const WAXSEAL_KIND_DELETE: i32 = 2;
/// A record of a kind that this header has no number for.
pub const WAXSEAL_KIND_OTHER: i32 = 0;

/// The entry goes on as it is, or stays absent.
pub const WAXSEAL_ENTRY_KEEP: i32 = 0;
/// A new entry was written.
pub const WAXSEAL_ENTRY_SET: i32 = 1;
/// The entry goes.
pub const WAXSEAL_ENTRY_REMOVE: i32 = 2;

/// A newer record of the same key hides it from every snapshot.
pub const WAXSEAL_DROP_SHADOWED: i32 = 0;
/// A tombstone with nothing left to hide.
pub const WAXSEAL_DROP_TOMBSTONE: i32 = 1;
/// A range of keys was deleted.
pub const WAXSEAL_DROP_RANGE_DELETE: i32 = 2;
/// Its time is over.
pub const WAXSEAL_DROP_EXPIRED: i32 = 3;
/// Its family or column is gone.
pub const WAXSEAL_DROP_PURGED: i32 = 4;

/// A record, lent for a call.
#[repr(C)]
pub struct waxseal_record_t {
    /// Its key.
    pub key: waxseal_slice_t,
    /// Its value.
    pub value: waxseal_slice_t,
    /// Its place in the order of commits; 0 once no snapshot can tell, and before it is committed.
    pub seqno: u64,
    /// `WAXSEAL_KIND_PUT`, `WAXSEAL_KIND_DELETE` or `WAXSEAL_KIND_OTHER`.
    pub kind: i32,
}

/// An operation is written, on the thread that writes. `given` is what the caller gave for this provider, null if nothing. Writes the
/// entry to `entry`, where `capacity` (the longest entry) bytes have room, and its length to `entry_len`, and answers `WAXSEAL_OK`; or
/// answers `WAXSEAL_NOT_FOUND`: there is none. A negative status refuses the operation.
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

/// A record enters a table with `entry`, null if it has none. Answers one of `WAXSEAL_ENTRY_..`, where `WAXSEAL_ENTRY_SET` means that a
/// new one was written as by `waxseal_on_write_fn`. Whatever else it answers keeps the entry.
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

/// A record with an entry is left out of a table; `reason` is one of `WAXSEAL_DROP_..`.
pub type waxseal_on_drop_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        record: *const waxseal_record_t,
        entry: *const waxseal_slice_t,
        reason: i32,
    ),
>;

/// Answers 0 if an entry cannot be one of this provider's, at this record.
pub type waxseal_on_verify_fn = Option<
    unsafe extern "C" fn(context: *mut c_void, record: *const waxseal_record_t, entry: *const waxseal_slice_t) -> i32,
>;

/// Somebody who keeps something beside values, as `waxseal_options_add_provider` wants it. One thread at a time may use it.
pub struct waxseal_provider_t {
    _opaque: [u8; 0],
}

handle!(waxseal_provider_t => Mutex<Keeping>, Kind::Provider, "provider");

/// A provider that a caller gave, for any stores.
#[derive(Clone)]
pub(crate) struct Keeping {
    descriptor: Descriptor,
    wants: Wants,
    context: Arc<Context>,
    on_write: waxseal_on_write_fn,
    on_build: waxseal_on_build_fn,
    on_drop: waxseal_on_drop_fn,
    on_verify: waxseal_on_verify_fn,
}

/// The same for one store.
pub(crate) struct KeepingOf {
    pub(crate) caller: Caller,
    pub(crate) keeping: Keeping,
}

impl KeepingOf {
    /// Calls a function with the store busy; the function is given the context.
    fn calls<T>(&self, function: impl FnOnce(*mut c_void) -> T) -> T {
        self.caller.calls(|| function(self.keeping.context.get()))
    }

    /// Lends room for an entry to `write`, which says how much of it was used, or none; false if none.
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

/// The number of a kind.
pub(crate) fn kind_number(kind: RecordKind) -> i32 {
    match kind {
        RecordKind::Put => WAXSEAL_KIND_PUT,
        RecordKind::Delete => WAXSEAL_KIND_DELETE,
        _ => WAXSEAL_KIND_OTHER,
    }
}

/// A pointer to what may be absent.
fn pointer(slice: Option<&waxseal_slice_t>) -> *const waxseal_slice_t {
    slice.map_or(null(), |slice| slice)
}

// SAFETY of all calls below: the header says what each function is given and for how long; the context is the one it came with.
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
        let mut said = WAXSEAL_ENTRY_KEEP;
        let set = self.entry(out, |new, capacity, used| {
            // SAFETY: as above.
            said = self
                .calls(|context| unsafe { function(context, &record, pointer(entry.as_ref()), new, capacity, used) });
            Ok((said == WAXSEAL_ENTRY_SET).then_some(()))
        });
        match (said, set) {
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

/// A provider with a number, from 16 on, and a name of 1 to 64 bytes: its entries have at most 1 KiB, belong to the record wherever it
/// goes, stand outside of the seal and are carried by whoever does not know them, unless the setters say otherwise. Without functions
/// it keeps what writers give it. `destroy`, unless null, ends `context` once the provider and every store that was opened with it
/// are gone, or if this call fails. The functions may be called by any thread, by several at once, and by the store's own threads.
///
/// Thread-safe. On success `*provider` is the caller's, to be ended by `waxseal_provider_destroy`. Errors: `WAXSEAL_INVALID` for a number
/// that is reserved, or a name that cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_provider_create(
    id: u16,
    name: *const u8,
    name_len: usize,
    context: *mut c_void,
    destroy: waxseal_destroy_fn,
    provider: *mut *mut waxseal_provider_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    let context = Arc::new(Context::new(context, destroy));
    // SAFETY: the header asks that bytes be readable, and outputs null or writable.
    let (name, provider, error) = unsafe { (lent(name, name_len), out(provider), out(error)) };
    answer(error, || {
        let provider = provider.needed("provider")?;
        let descriptor = Descriptor::new(id, name.text("name")?);
        descriptor.validate()?;
        let keeping = Keeping {
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
    })
}

/// Changes what a provider says of itself.
fn set(provider: *mut waxseal_provider_t, change: impl FnOnce(&mut Keeping)) -> i32 {
    status_of(|| {
        with_mut(provider.cast_const(), |keeping: &mut Keeping| {
            change(keeping);
            Ok(())
        })
    })
}

/// The form of the entries that it writes, any number. Default 0.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_version(provider: *mut waxseal_provider_t, version: u8) -> i32 {
    set(provider, |keeping| keeping.descriptor.version = version)
}

/// Whether its entries belong to this store alone, and are not exported. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_local(provider: *mut waxseal_provider_t, local: bool) -> i32 {
    set(provider, |keeping| {
        keeping.descriptor.locality = if local { Locality::NodeLocal } else { Locality::Portable };
    })
}

/// The longest entry, in bytes. Default 1024.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_max_len(provider: *mut waxseal_provider_t, bytes: usize) -> i32 {
    set(provider, |keeping| keeping.descriptor.max_len = bytes)
}

/// Whether the seal covers its entries: then they never change after the write. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_sealed(provider: *mut waxseal_provider_t, sealed: bool) -> i32 {
    set(provider, |keeping| keeping.descriptor.in_checksum = sealed)
}

/// Whether a store that does not know this provider leaves its entries out when it writes a table, instead of carrying them. Default
/// false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_dropped_if_unknown(provider: *mut waxseal_provider_t, dropped: bool) -> i32 {
    set(provider, |keeping| {
        keeping.descriptor.on_unknown = if dropped { OnUnknown::Drop } else { OnUnknown::Preserve };
    })
}

/// The function that makes the entry of an operation; null: what the writer gives is the entry. With `every` it is also asked about
/// operations for which nothing was given.
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

/// The function that is asked about every record that enters a table, with an entry or without; null: entries go on as they are. Not for
/// entries that the seal covers.
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

/// The function that hears of records with an entry that are left out of a table; null: none.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_on_drop(provider: *mut waxseal_provider_t, on_drop: waxseal_on_drop_fn) -> i32 {
    set(provider, |keeping| keeping.on_drop = on_drop)
}

/// The function that knows which entries can be; null: any can.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_set_on_verify(
    provider: *mut waxseal_provider_t,
    on_verify: waxseal_on_verify_fn,
) -> i32 {
    set(provider, |keeping| keeping.on_verify = on_verify)
}

/// Ends a provider; stores that were opened with it go on with it. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_provider_destroy(provider: *mut waxseal_provider_t) -> i32 {
    status_of(|| end(provider.cast_const()))
}

/// Somebody who keeps something of their own beside values, as the provider is now: what is set later does not count. Waxseal's own are
/// always there. The open answers `WAXSEAL_INVALID` if two providers have the same number, or if one cannot be.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_add_provider(
    options: *mut waxseal_options_t,
    provider: *const waxseal_provider_t,
) -> i32 {
    status_of(|| {
        let keeping = with_mut(provider, |keeping: &mut Keeping| Ok(keeping.clone()))?;
        set_calling(options, move |builder, caller| {
            builder.provider(Arc::new(KeepingOf { caller: caller.clone(), keeping: keeping.clone() }))
        })
    })
}
