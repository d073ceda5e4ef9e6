#![allow(unsafe_code, reason = "fence: a hint to the processor")]
//! A line of memory, asked for before it is needed.
//!
//! Contract: takes references only, so that what is asked for is there. The hint reads nothing that a program could see, faults on no
//!           address, orders nothing, and nothing waits for it.
//! Proof:    that is how the instruction is defined. Where there is none (other processors, Miri) the call does nothing, and every answer
//!           is the same.

/// Asks the processor for the line in which `at` begins.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(at: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction; it dereferences nothing, and the address is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
