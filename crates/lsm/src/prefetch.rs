#![allow(unsafe_code, reason = "fence: a hint to the processor")]
//! Prefetching of cache lines.
//!
//! Contract: takes references only, so that the address is valid. For an `Arc` it is the cache line before the object,
//!           which may belong to other memory. The hint reads no data that a program could observe, faults on no
//!           address, orders nothing, and never blocks.
//! Proof:    this is how the instruction is defined. Other processors and Miri omit the hint; results are the same.

use std::sync::Arc;

/// Bytes in a cache line.
pub(crate) const LINE: usize = 64;

/// Prefetches the cache line in which `at` begins.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(at: &T) {
    line(std::ptr::from_ref(at).cast());
}

/// Prefetches the cache line before an `Arc`'s object. If the object is aligned to a cache line, its reference counters
/// are there.
#[inline(always)]
pub(crate) fn prefetch_counters<T>(held: &Arc<T>) {
    line(Arc::as_ptr(held).cast::<u8>().wrapping_sub(LINE));
}

#[inline(always)]
fn line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction; it dereferences nothing, and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
