#![expect(unsafe_code, reason = "fence 4: memory of the system, owned by whoever asked for it")]
//! Memory for what is written once and dropped as a whole, the records of a memtable: long runs are pages of the system's own, which it has back at once when they are dropped.
//!
//! Why:    an allocator keeps what a thread gives back. A memtable is filled by one thread and dropped by another, so that with every
//!         thread a whole memtable more would stay behind, of which no budget knows.
//! In:     a length. Out: memory that nobody else knows, at a whole word, of any content. Or a buffer, whose pages the system is asked for (`populate`).
//! Else:   no mapping to be had, another system, Miri, a short run: then it is the allocator's.
//! Contract: `base` is valid for `bytes()` bytes until it is dropped, and its owner alone reaches them.
//! Proof:  the test below; the memtable's tests use both kinds, under Miri the allocator's.
//!
//! Huge pages were tried (2 MiB at a time): 300 MB of memtable are read in a tenth less, but now and then a writer waits 5 to 9 ms
//! until the kernel has made room for one, where it waits 0.5 to 4 without. So there are none.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// What is at least as long is mapped.
const LONG_BYTES: usize = 256 << 10;

/// What a page is where pages are smallest.
const PAGE_BYTES: usize = 4 << 10;

/// What `base` is aligned to.
const WORD_BYTES: usize = 8;

/// A run of memory.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    layout: Layout,
    is_mapped: bool,
}

// SAFETY: plain memory that is owned.
unsafe impl Send for Pages {}
// SAFETY: as above; a shared one gives out a pointer and nothing else.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least so many bytes; none if there cannot be so many.
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

    /// Where it begins.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How long it is.
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

/// Has the system give the pages of a buffer, which is about to be filled, all at once: one by one, as they are touched, takes it a third more
/// time. A hint: systems that do not know it, or whose pages are larger, decline.
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
    // SAFETY: memory of the caller's alone, which stays what it is: no byte of it changes.
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
            // SAFETY: these are the bytes, and nobody else knows them.
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
