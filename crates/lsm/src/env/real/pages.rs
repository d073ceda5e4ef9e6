#![expect(unsafe_code, reason = "fence 4: memory of the system, owned by whoever asked for it")]
//! Memory for what is written once and dropped as a whole, the records of a memtable: long runs are pages of the system's own, which it has back at once when they are dropped.
//!
//! Why:    an allocator keeps what a thread gives back. A memtable is filled by one thread and dropped by another, so that with every
//!         thread a whole memtable more would stay behind, of which no budget knows.
//! In:     a length. Out: memory that nobody else knows, at a whole word, of any content.
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
}
