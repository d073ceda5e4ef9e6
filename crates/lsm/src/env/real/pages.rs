#![expect(unsafe_code, reason = "fence 4: memory of the system, owned by whoever asked for it")]
//! Memory for data that is written once and dropped as a whole, such as the records of a memtable. Long runs are mapped
//! pages, which the system gets back immediately when they are dropped.
//!
//! Why:    an allocator caches memory that a thread frees. A memtable is filled by one thread and dropped by another,
//!         so with every thread another memtable's memory would stay in the allocator, unaccounted by any budget.
//! In:     a length. Out: word-aligned memory, exclusively owned, with arbitrary contents. Or a buffer, whose pages are
//!         to be populated (`populate`).
//! Else:   if no mapping is available, and on other systems, under Miri, or for a short run, the memory comes from the
//!         allocator.
//! Contract: `base` is valid for `bytes()` bytes until it is dropped, and only its owner accesses them.
//! Proof:  the test below; the memtable's tests use both kinds, under Miri the allocator's.
//!
//! Huge pages (2 MiB) were tried: reading 300 MB of memtable takes a tenth less time, but occasionally a writer waits 5
//! to 9 ms until the kernel has made room for one, compared with 0.5 to 4 ms without. So they are not used.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Runs of at least this length are mapped.
const LONG_BYTES: usize = 256 << 10;

/// The smallest page size of supported systems.
const PAGE_BYTES: usize = 4 << 10;

/// Alignment of `base`.
const WORD_BYTES: usize = 8;

/// A run of memory.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    layout: Layout,
    is_mapped: bool,
}

// SAFETY: plain memory, exclusively owned.
unsafe impl Send for Pages {}
// SAFETY: as above; a shared reference only returns a pointer.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates at least `bytes` bytes; `None` if the length is too large.
    pub fn new(bytes: usize) -> Option<Pages> {
        let layout = Layout::from_size_align(bytes.max(WORD_BYTES), WORD_BYTES).ok()?;
        if layout.size() >= LONG_BYTES
            && let Some(base) = map(layout.size())
        {
            return Some(Pages { base, layout, is_mapped: true });
        }
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        Some(Pages { base, layout, is_mapped: false })
    }

    /// Returns the start of the memory.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns its length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.is_mapped {
            unmap(self.base, self.layout.size());
        } else {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let (anywhere, both) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a private mapping of its own, at an address of the kernel's choice.
    NonNull::new(unsafe { mmap_anonymous(anywhere, bytes, both, MapFlags::PRIVATE) }.ok()?.cast())
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: mapped with this length.
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn unmap(_: NonNull<u8>, _: usize) {}

/// Populates the pages of a buffer that is about to be filled, in one call: one by one, on first access, takes the
/// system a third more time. A hint: systems that do not support it, or with larger pages, decline.
pub fn populate(buffer: &mut [u8]) {
    let lead = buffer.as_ptr().align_offset(PAGE_BYTES);
    if let Some(whole) = buffer.get_mut(lead..).filter(|whole| whole.len() >= LONG_BYTES) {
        let bytes = whole.len() / PAGE_BYTES * PAGE_BYTES;
        advise(&mut whole[..bytes]);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise(pages: &mut [u8]) {
    use rustix::mm::{Advice, madvise};
    // SAFETY: memory that the caller owns exclusively; the call changes no byte of it.
    let _ = unsafe { madvise(pages.as_mut_ptr().cast(), pages.len(), Advice::LinuxPopulateWrite) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise(_: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_can_be_written_whatever_the_length() {
        for bytes in [0, 1, 4096, LONG_BYTES - 1, LONG_BYTES, LONG_BYTES + 4097] {
            let pages = Pages::new(bytes).unwrap();
            assert_eq!(pages.is_mapped, pages.bytes() >= LONG_BYTES && cfg!(all(target_os = "linux", not(miri))));
            assert!(pages.bytes() >= bytes && pages.base().cast::<u64>().is_aligned());
            // SAFETY: these bytes belong to the allocation, and no other code accesses them.
            unsafe {
                pages.base().write_bytes(7, bytes);
                assert!((0..bytes).step_by(4096).all(|at| pages.base().add(at).read() == 7));
            }
        }
    }

    #[test]
    fn pages_that_were_asked_for_are_what_they_were() {
        for bytes in [0, 1, LONG_BYTES, LONG_BYTES + PAGE_BYTES + 1, 1 << 20] {
            let mut buffer = vec![7; bytes + 3];
            (0..3).for_each(|lead| populate(&mut buffer[lead..]));
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
    }
}
