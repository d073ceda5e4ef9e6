//! The heap of this process, watched while somebody asks: how far it grew at its peak. Exact, where resident memory is a guess.
//!
//! The program installs `Watched` as its allocator. While nobody watches, an allocation costs one relaxed load more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

static WATCHING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, counting while it is watched.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

fn grows(by: i64) {
    if WATCHING.load(Relaxed) {
        let live = LIVE.fetch_add(by, Relaxed) + by;
        PEAK.fetch_max(live, Relaxed);
    }
}

#[expect(unsafe_code, reason = "the only way to count what is allocated")]
// SAFETY: every call is handed to the system's allocator as it came; counting touches three atomics and allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grows(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grows(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        grows(-(layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grows(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// By how many bytes the heap of the whole process grew while `work` ran, at its peak, and what `work` answered. 0 in a program
/// that did not install `Watched`. One watch at a time.
pub fn peak<T>(work: impl FnOnce() -> T) -> (u64, T) {
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    WATCHING.store(true, Relaxed);
    let answer = work();
    WATCHING.store(false, Relaxed);
    (PEAK.load(Relaxed).max(0) as u64, answer)
}
