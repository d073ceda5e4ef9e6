//! Handles: numbers in the shape of pointers, and the tables that map them to objects.
//!
//! In: an object. Out: a handle, which finds the object from any thread until one thread destroys the handle; from then
//! on it finds nothing, forever. A lookup touches no lock and no counter that threads share. Results of calls (a value,
//! an error) are the exception: their handles are cheap to create and destroy instead.
//!
//! ```text
//! bit 63 .. 58    kind, 1 to 62: no process has such an address, so C code that dereferences a handle faults at once
//! bit 57 .. 28    generation: how often the slot was used before; a slot is retired after its last generation
//! bit 27 .. 0     slot in the table of its kind
//! ```
//!
//! Slots are never returned to the system, so that a stale handle can be looked up. An entry is freed once its handle
//! is destroyed and the last call that uses it has returned.

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use arc_swap::ArcSwapOption;

use face::StoreId;

use crate::failure::{Failure, Result};
use crate::order_failure::{OrderGuard, check};
use crate::reentry::{is_inside, refuse_reentry};

const PLACE_BITS: u32 = 28;
const GENERATION_BITS: u32 = 30;
const KIND_SHIFT: u32 = PLACE_BITS + GENERATION_BITS;
const LAST_GENERATION: u64 = (1 << GENERATION_BITS) - 1;

/// Slots of the first chunk; each further chunk doubles the table.
const FIRST_CHUNK: u32 = 64;
/// Number of chunks that hold all slots.
const CHUNKS: usize = (PLACE_BITS - FIRST_CHUNK.trailing_zeros() + 1) as usize;

/// Number of live handles of all kinds.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The kinds of handles, by the number encoded in the handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum HandleKind {
    Error = 1,
    Bytes,
    Options,
    FamilyOptions,
    WriteOptions,
    Store,
    Family,
    Snapshot,
    Batch,
    Iterator,
    Values,
    Session,
    Report,
    Events,
    Registrations,
    Explanation,
    CareOptions,
    ExportOptions,
    RegisterOptions,
    Query,
    Provider,
    MetaIter,
    Tables,
    Fences,
    Cases,
    Pause,
    Transaction,
    TableWriter,
    Backups,
    Files,
    File,
    FileWriter,
    FileSnapshot,
    FileList,
    Changes,
    Table,
    TableDescription,
    TableRows,
    TableTransaction,
}

impl HandleKind {
    /// True for results of calls, which are created, read a few times and destroyed. All other objects are looked up
    /// many times.
    fn is_answer(self) -> bool {
        use HandleKind::{
            Backups, Bytes, Cases, Error, Events, Explanation, Fences, Registrations, Report, Tables, Values,
        };
        matches!(
            self,
            Backups | Bytes | Cases | Error | Events | Explanation | Fences | Registrations | Report | Tables | Values
        )
    }
}

/// A C type whose pointers are handles.
pub(crate) trait Handle: Sized + 'static {
    /// The type of the objects.
    type Object: Send + Sync + 'static;
    /// The name of the type in messages.
    const NAME: &'static str;
    /// The table of its objects.
    fn table() -> &'static HandleTable<Self::Object>;
    /// Returns the store that an object belongs to, if any: the object may not be used inside a callback of that store.
    fn store(_object: &Self::Object) -> Option<StoreId> {
        None
    }
}

/// Makes a C type a handle: `handle!(waxseal_error_t => Story, Kind::Error, "error")`. For an object of a store, a
/// fourth argument returns the store of the object.
macro_rules! handle {
    ($type:ty => $object:ty, $kind:expr, $name:literal $(, $store:expr)?) => {
        impl $crate::handle::Handle for $type {
            type Object = $object;
            const NAME: &'static str = $name;
            fn table() -> &'static $crate::handle::HandleTable<$object> {
                static TABLE: $crate::handle::HandleTable<$object> = $crate::handle::HandleTable::new($kind);
                &TABLE
            }
            $(
                fn store(object: &Self::Object) -> Option<face::StoreId> {
                    let of: fn(&Self::Object) -> Option<face::StoreId> = $store;
                    of(object)
                }
            )?
        }
    };
}
pub(crate) use handle;

/// Creates a handle for an object.
pub(crate) fn issue<H: Handle>(object: H::Object) -> Result<*mut H> {
    let bits = H::table().insert(object).ok_or_else(|| Failure::out_of_memory(H::NAME))?;
    LIVE.fetch_add(1, Ordering::Relaxed);
    Ok(ptr::without_provenance_mut(bits as usize))
}

/// Lends the object of a handle to `call`. Fails if the comparator of the object's store has failed, before `call` or
/// during it; in the second case the result of `call` is discarded.
#[inline]
pub(crate) fn with<H: Handle, R>(handle: *const H, call: impl FnOnce(&H::Object) -> Result<R>) -> Result<R> {
    with_failed(handle, |object| {
        let watch = OrderGuard(|| H::store(object));
        check(&watch.0)?;
        let outcome = call(object);
        check(&watch.0)?;
        outcome
    })
}

/// Lends the object of a handle to `call`, even if the comparator of its store has failed.
#[inline]
pub(crate) fn with_failed<H: Handle, R>(handle: *const H, call: impl FnOnce(&H::Object) -> Result<R>) -> Result<R> {
    let bits = handle.addr() as u64;
    let lend = |entry: &HandleEntry<H::Object>| {
        if is_inside() {
            refuse_reentry(H::store(&entry.object))?;
        }
        call(&entry.object)
    };
    let missing = || Err(not_alive::<H>(bits));
    H::table().slot_of(bits).map_or_else(missing, |slot| slot.held.find(bits, lend, missing))
}

/// Lends the object of a handle that one thread at a time may use.
#[inline]
pub(crate) fn with_mut<H, T, R>(handle: *const H, call: impl FnOnce(&mut T) -> Result<R>) -> Result<R>
where
    H: Handle<Object = Mutex<T>>,
{
    with(handle, |object| match object.try_lock() {
        Ok(mut object) => call(&mut object),
        Err(TryLockError::WouldBlock) => Err(Failure::busy(H::NAME)),
        Err(TryLockError::Poisoned(_)) => {
            Err(Failure::internal(format!("an earlier call with this {} panicked", H::NAME)))
        }
    })
}

/// Reads an object that one thread at a time may use, unless another thread uses it. Ignores poisoning by a panic.
pub(crate) fn peek<T, R>(object: &Mutex<T>, look: impl FnOnce(&T) -> R) -> Option<R> {
    match object.try_lock() {
        Ok(object) => Some(look(&object)),
        Err(TryLockError::Poisoned(object)) => Some(look(&object.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Destroys a handle. Running calls keep the object. Null is allowed and does nothing.
pub(crate) fn end<H: Handle>(handle: *const H) -> Result<()> {
    if handle.is_null() { Ok(()) } else { take(handle).map(drop) }
}

/// Destroys a handle and returns its object, which other threads may still use.
pub(crate) fn take<H: Handle>(handle: *const H) -> Result<Arc<HandleEntry<H::Object>>> {
    let bits = handle.addr() as u64;
    let entry = H::table().remove(bits).ok_or_else(|| not_alive::<H>(bits))?;
    LIVE.fetch_sub(1, Ordering::Relaxed);
    Ok(entry)
}

/// Returns the reason why a handle finds nothing.
#[cold]
fn not_alive<H: Handle>(bits: u64) -> Failure {
    let name = H::NAME;
    if bits == 0 {
        return Failure::invalid(format!("the {name} is a null pointer"));
    }
    if bits >> KIND_SHIFT != H::table().kind as u64 {
        return Failure::invalid(format!("this pointer is no {name}"));
    }
    Failure::closed(format!("the {name} was ended"))
}

/// Number of live handles, of all kinds together. A program that destroys everything it creates ends with 0.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_live_handles() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// An object with its handle; a lookup compares the handle to detect a reused slot.
pub(crate) struct HandleEntry<T> {
    handle: u64,
    pub(crate) object: T,
}

/// The content of a slot.
enum SlotContent<T> {
    /// Lookups write no memory that threads share; filling and emptying the slot costs a few hundred nanoseconds each.
    Shared(ArcSwapOption<HandleEntry<T>>),
    /// Filled, emptied and looked up under a lock of the slot, which is released before the found object is used.
    Answer(Mutex<Option<Arc<HandleEntry<T>>>>),
}

impl<T> SlotContent<T> {
    fn nothing(kind: HandleKind) -> SlotContent<T> {
        if kind.is_answer() {
            SlotContent::Answer(Mutex::new(None))
        } else {
            SlotContent::Shared(ArcSwapOption::empty())
        }
    }

    /// Returns the result of `call` for the entry with this handle, or of `missing` if the slot does not hold it.
    #[inline]
    fn find<R>(&self, handle: u64, call: impl FnOnce(&HandleEntry<T>) -> R, missing: impl FnOnce() -> R) -> R {
        match self {
            SlotContent::Shared(held) => match &*held.load() {
                Some(entry) if entry.handle == handle => call(entry),
                _ => missing(),
            },
            SlotContent::Answer(held) => {
                let entry = locked(held).as_ref().filter(|entry| entry.handle == handle).cloned();
                entry.map_or_else(missing, |entry| call(&entry))
            }
        }
    }

    fn fill(&self, entry: Arc<HandleEntry<T>>) {
        match self {
            SlotContent::Shared(held) => held.store(Some(entry)),
            SlotContent::Answer(held) => *locked(held) = Some(entry),
        }
    }

    /// Removes the entry with this handle; `None` if the slot does not hold it, or another thread removed it.
    fn take(&self, handle: u64) -> Option<Arc<HandleEntry<T>>> {
        match self {
            SlotContent::Shared(held) => {
                let entry = held.load_full().filter(|entry| entry.handle == handle)?;
                let before = held.compare_and_swap(&entry, None);
                before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &entry)).then_some(entry)
            }
            SlotContent::Answer(held) => locked(held).take_if(|entry| entry.handle == handle),
        }
    }
}

/// No code panics while it holds this lock, so poisoning is ignored.
fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A slot of a table.
struct Slot<T> {
    held: SlotContent<T>,
    generation: AtomicU64,
    /// The next free slot on the stack of free slots, plus one.
    below: AtomicU32,
}

/// All objects of one kind.
pub(crate) struct HandleTable<T> {
    kind: HandleKind,
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    /// Slots from here on were never used.
    fresh: AtomicU32,
    /// The top of the stack of free slots: its slot plus one in the low half, the number of changes in the high half.
    free: AtomicU64,
}

impl<T> HandleTable<T> {
    pub(crate) const fn new(kind: HandleKind) -> HandleTable<T> {
        HandleTable {
            kind,
            chunks: [const { OnceLock::new() }; CHUNKS],
            fresh: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// Returns the handle; `None` if all slots are used.
    fn insert(&self, object: T) -> Option<u64> {
        let place = self.pop().or_else(|| self.next_fresh())?;
        let slot = self.slot(place)?;
        let generation = slot.generation.load(Ordering::Acquire);
        let handle = (self.kind as u64) << KIND_SHIFT | generation << PLACE_BITS | u64::from(place);
        slot.held.fill(Arc::new(HandleEntry { handle, object }));
        Some(handle)
    }

    /// Removes the entry of a handle; `None` if the handle finds nothing, or another thread removed it.
    fn remove(&self, handle: u64) -> Option<Arc<HandleEntry<T>>> {
        let slot = self.slot_of(handle)?;
        let entry = slot.held.take(handle)?;
        // This thread alone owns the slot until it is pushed.
        if slot.generation.fetch_add(1, Ordering::AcqRel) < LAST_GENERATION {
            self.push((handle & ((1 << PLACE_BITS) - 1)) as u32, slot);
        }
        Some(entry)
    }

    /// Returns the slot that a handle names, if the handle is of this kind and the slot's chunk exists.
    #[inline]
    fn slot_of(&self, handle: u64) -> Option<&Slot<T>> {
        if handle >> KIND_SHIFT != self.kind as u64 {
            return None;
        }
        let (chunk, offset) = split((handle & ((1 << PLACE_BITS) - 1)) as u32);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// Returns a slot, whose chunk is allocated if needed.
    fn slot(&self, place: u32) -> Option<&Slot<T>> {
        let (chunk, offset) = split(place);
        let slots = self.chunks.get(chunk)?.get_or_init(|| {
            let new = |_| Slot {
                held: SlotContent::nothing(self.kind),
                generation: AtomicU64::new(0),
                below: AtomicU32::new(0),
            };
            (0..FIRST_CHUNK << chunk).map(new).collect()
        });
        slots.get(offset)
    }

    fn next_fresh(&self) -> Option<u32> {
        let next = |place: u32| (place < (1 << PLACE_BITS) - 1).then_some(place + 1);
        self.fresh.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    fn push(&self, place: u32, slot: &Slot<T>) {
        let mut top = self.free.load(Ordering::Relaxed);
        loop {
            slot.below.store(top as u32, Ordering::Relaxed);
            let new = changed(top, place + 1);
            match self.free.compare_exchange_weak(top, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    fn pop(&self) -> Option<u32> {
        let mut top = self.free.load(Ordering::Acquire);
        loop {
            let place = (top as u32).checked_sub(1)?;
            let new = changed(top, self.slot(place)?.below.load(Ordering::Relaxed));
            match self.free.compare_exchange_weak(top, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(place),
                Err(now) => top = now,
            }
        }
    }
}

/// Returns the stack's top with another slot. The change count avoids the ABA problem: no thread mistakes the new top
/// for an earlier one.
fn changed(top: u64, place: u32) -> u64 {
    ((top >> 32).wrapping_add(1)) << 32 | u64::from(place)
}

/// Chunk and offset of a slot: chunk `n` begins at `64 * (2^n - 1)` and has `64 * 2^n` slots.
#[inline]
fn split(place: u32) -> (usize, usize) {
    let chunk = (place / FIRST_CHUNK + 1).ilog2();
    (chunk as usize, (place - FIRST_CHUNK * ((1 << chunk) - 1)) as usize)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    impl<T> SlotContent<T> {
        fn is_filled(&self) -> bool {
            match self {
                SlotContent::Shared(held) => held.load().is_some(),
                SlotContent::Answer(held) => locked(held).is_some(),
            }
        }
    }

    #[test]
    fn places_are_split_into_chunks_without_gaps() {
        let mut expected = (0, 0);
        for place in 0..100_000 {
            assert_eq!(split(place), expected);
            expected.1 += 1;
            if expected.1 == (FIRST_CHUNK as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        let (chunk, offset) = split((1 << PLACE_BITS) - 1);
        assert!(chunk < CHUNKS && offset < (FIRST_CHUNK as usize) << chunk);
    }

    #[test]
    fn a_place_is_used_again_under_another_handle() {
        let table: HandleTable<u32> = HandleTable::new(HandleKind::Values);
        let first = table.insert(1).unwrap();
        assert_eq!(table.remove(first).unwrap().object, 1);
        assert!(table.remove(first).is_none());
        let second = table.insert(2).unwrap();
        assert_ne!(first, second);
        assert_eq!(first & ((1 << PLACE_BITS) - 1), second & ((1 << PLACE_BITS) - 1));
        assert!(table.remove(first).is_none());
        assert_eq!(table.remove(second).unwrap().object, 2);
    }

    #[test]
    fn a_place_that_used_up_its_generations_rests() {
        let table: HandleTable<u32> = HandleTable::new(HandleKind::Values);
        let first = table.insert(1).unwrap();
        let slot = table.slot_of(first).unwrap();
        slot.generation.store(LAST_GENERATION, Ordering::Relaxed);
        table.remove(first).unwrap();
        let second = table.insert(2).unwrap();
        assert_ne!(first & ((1 << PLACE_BITS) - 1), second & ((1 << PLACE_BITS) - 1));
    }

    #[test]
    fn no_address_of_a_process_is_a_handle() {
        let local = 7;
        let address = ptr::from_ref(&local).addr() as u64;
        assert_eq!(address >> KIND_SHIFT, 0);
        assert!(HandleKind::Error as u64 > 0);
    }

    /// Threads destroy each other's handles while a third looks them up: each object is destroyed once, and found
    /// complete or not at all.
    #[test]
    fn each_object_is_ended_once() {
        each_is_ended_once(HandleTable::new(HandleKind::Values));
        each_is_ended_once(HandleTable::new(HandleKind::Family));
    }

    fn each_is_ended_once(table: HandleTable<[u64; 4]>) {
        const OBJECTS: u64 = 20_000;
        let (newest, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let enders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut ended = 0;
                        while !done.load(Ordering::Acquire) {
                            ended += u64::from(table.remove(newest.load(Ordering::Acquire)).is_some());
                        }
                        ended
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let handle = newest.load(Ordering::Acquire);
                    if let Some(slot) = table.slot_of(handle) {
                        let whole =
                            |entry: &HandleEntry<[u64; 4]>| entry.object.iter().all(|word| *word == entry.object[0]);
                        assert!(slot.held.find(handle, whole, || true));
                    }
                }
            });
            let mut kept = 0;
            for number in 0..OBJECTS {
                let handle = table.insert([number; 4]).unwrap();
                newest.store(handle, Ordering::Release);
                kept += u64::from(number % 3 == 0 && table.remove(handle).is_some());
            }
            done.store(true, Ordering::Release);
            let ended: u64 = enders.into_iter().map(|ender| ender.join().unwrap()).sum();
            reader.join().unwrap();
            let left = table.chunks.iter().filter_map(OnceLock::get).flat_map(|slots| slots.iter());
            let left = left.filter(|slot| slot.held.is_filled()).count() as u64;
            assert_eq!(ended + kept + left, OBJECTS);
        });
    }
}
