#![allow(unsafe_code, reason = "fence: a hint to the processor")]
//! A line of memory, asked for before it is needed.
//!
//! Contract: takes references only, so that what is asked for is there; beside an `Arc`, the line in front of it, wherever that leads.
//!           The hint reads nothing that a program could see, faults on no address, orders nothing, and nothing waits for it.
//! Proof:    that is how the instruction is defined. Where there is none (other processors, Miri) the call does nothing, and every answer
//!           is the same.

use std::sync::Arc;

/// Bytes of a line of memory.
pub(crate) const LINE: usize = 64;

/// Asks the processor for the line in which `at` begins.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(at: &T) {
    line(std::ptr::from_ref(at).cast());
}

/// Asks for the line in front of what an `Arc` holds: where that begins a line of its own, its counters stand there.
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
