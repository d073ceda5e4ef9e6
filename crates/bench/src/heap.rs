//! Measures the peak heap growth of this process. It is exact, unlike resident memory.
//!
//! The program installs `Watched` as its allocator. While no measurement runs, an allocation costs one additional
//! relaxed load.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

static WATCHING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, with counters during a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

fn grows(by: i64) {
    if WATCHING.load(Relaxed) {
        let live = LIVE.fetch_add(by, Relaxed) + by;
        PEAK.fetch_max(live, Relaxed);
    }
}

#[expect(unsafe_code, reason = "the only way to count what is allocated")]
// SAFETY: every call is forwarded unchanged to the system's allocator; counting uses three atomics and allocates
// nothing.
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

/// Runs `work`; returns the peak growth of the process's heap in bytes during it, and its result. The growth is 0 in a
/// program without `Watched`. Only one measurement may run at a time.
pub fn peak<T>(work: impl FnOnce() -> T) -> (u64, T) {
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    WATCHING.store(true, Relaxed);
    let answer = work();
    WATCHING.store(false, Relaxed);
    (PEAK.load(Relaxed).max(0) as u64, answer)
}
