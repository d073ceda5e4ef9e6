#![expect(unsafe_code, reason = "fence 1: one shared mapping, seen as atomic words")]
//! A shared file mapping as a slice of atomic words.
//!
//! Contract: the mapping lives as long as `Words`; after its release, anonymous memory replaces it. Its file is never
//!           truncated while the mapping lives (the ring file is ours alone; docs/durability.md describes the effect of
//!           a truncation by another program). All access is by relaxed atomic words, so that a drain may read beside
//!           writers without a data race. It is not inherited by fork.
//! Proof:  the tests below (store, load, visibility through another descriptor, no mapping in a child); the words never
//!         leave this file as a reference.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::env::Mapped;
use crate::env::work::lock;

/// Maps the first `length` bytes of `file`.
pub(super) fn map(file: &File, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
    Ok(Some(Arc::new(map_words(file, length)?)))
}

fn map_words(file: &File, length: usize) -> io::Result<Words> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
    if length == 0 || !length.is_multiple_of(4096) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if file.metadata()?.len() < length as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: a new shared mapping at an address of the kernel's choice, unknown to other code. The file is long
    // enough.
    let base =
        unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)? };
    let words = Words { base: base.cast(), words: length / 8, file: Mutex::new(Some(file.try_clone()?)) };
    // SAFETY: the range is the mapping just made. MADV_DONTFORK keeps a child from writing into its parent's log.
    unsafe { madvise(base, length, Advice::LinuxDontFork)? };
    words.populate(0, 4096)?;
    Ok(words)
}

#[derive(Debug)]
struct Words {
    base: *mut AtomicU64,
    words: usize,
    /// `None` after the file is released.
    file: Mutex<Option<File>>,
}

// SAFETY: the mapping is plain shared memory reached only through atomic words.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `base` is page-aligned, `words` words long, mapped until `drop`, and accessed only through atomics.
        unsafe { std::slice::from_raw_parts(self.base, self.words) }
    }

    /// Faults pages in now, so that a failure is an error code and not a signal later. Their blocks become reserved.
    #[cfg(target_os = "linux")]
    fn populate(&self, offset: usize, length: usize) -> io::Result<()> {
        use rustix::mm::{Advice, madvise};
        let span = self.span(offset, length);
        // SAFETY: the range is part of the mapping, page by page.
        let populated = unsafe { madvise(span.as_ptr().cast_mut().cast(), length, Advice::LinuxPopulateWrite) };
        match populated {
            // Kernels before 5.14 do not support this advice: a word of each page is rewritten unchanged.
            Err(rustix::io::Errno::INVAL) => {
                for word in span.iter().step_by(4096 / 8) {
                    word.fetch_or(0, Ordering::Relaxed);
                }
                Ok(())
            }
            populated => Ok(populated?),
        }
    }

    fn span(&self, offset: usize, length: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && length.is_multiple_of(8), "whole words");
        &self.words()[offset / 8..(offset + length) / 8]
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        // SAFETY: the same base and length as mapped; no reference to the words outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.words * 8) };
    }
}

/// Copies words to the same number of slots, eight at a time, so that the bounds are checked once per cache line, not
/// once per word.
#[inline]
fn put(slots: &[AtomicU64], words: &[[u8; 8]]) {
    debug_assert_eq!(slots.len(), words.len());
    let (slot_lines, last_slots) = slots.as_chunks::<8>();
    let (lines, last_words) = words.as_chunks::<8>();
    for (slots, line) in slot_lines.iter().zip(lines) {
        slots.iter().zip(line).for_each(put_word);
    }
    last_slots.iter().zip(last_words).for_each(put_word);
}

#[inline]
fn put_word((slot, word): (&AtomicU64, &[u8; 8])) {
    slot.store(u64::from_le_bytes(*word).to_le(), Ordering::Relaxed);
}

/// Returns the last bytes of a body, less than a word, padded with zeros.
#[inline]
fn padded(body: &[u8], rest: &[u8]) -> [u8; 8] {
    match body.last_chunk::<8>() {
        // Load the word that ends with them, and drop the bytes before them.
        Some(word) if !rest.is_empty() => (u64::from_le_bytes(*word) >> (64 - 8 * rest.len())).to_le_bytes(),
        _ => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            word
        }
    }
}

impl Mapped for Words {
    fn store(&self, offset: usize, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        put(self.span(offset, bytes.len()), words);
    }

    fn prepare(&self, offset: usize, length: usize) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            const ZERO_BYTES: usize = 256 * 1024;
            assert!(offset.is_multiple_of(4096) && length.is_multiple_of(4096), "whole pages");
            let file = lock(&self.file);
            let file = file.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            super::space::reserve(file, offset as u64, length as u64)?;
            let zeros = vec![0; length.min(ZERO_BYTES)];
            for at in (0..length).step_by(ZERO_BYTES) {
                file.write_all_at(&zeros[..zeros.len().min(length - at)], (offset + at) as u64)?;
            }
            self.populate(offset, length)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (offset, length);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn store_framed(&self, offset: usize, head: &[u8; 24], body: &[u8]) {
        let (words, rest) = body.as_chunks::<8>();
        let slots = self.span(offset, (head.len() + body.len()).next_multiple_of(8));
        let (head_slots, slots) = slots.split_at(head.len() / 8);
        let (body_slots, last) = slots.split_at(words.len());
        put(head_slots, head.as_chunks::<8>().0);
        put(body_slots, words);
        if let [last] = last {
            put_word((last, &padded(body, rest)));
        }
    }

    fn store_word(&self, offset: usize, word: u64) {
        assert!(offset.is_multiple_of(8), "a whole word");
        self.words()[offset / 8].store(word.to_le(), Ordering::Relaxed);
    }

    fn store_twice(&self, offsets: [usize; 2], word: u64) {
        let words = self.words();
        for offset in offsets {
            assert!(offset.is_multiple_of(8), "a whole word");
            words[offset / 8].store(word.to_le(), Ordering::Relaxed);
        }
    }

    fn load(&self, offset: usize, out: &mut [u8]) {
        let span = self.span(offset, out.len());
        let (words, _) = out.as_chunks_mut::<8>();
        for (slot, word) in span.iter().zip(words) {
            *word = u64::from_le(slot.load(Ordering::Relaxed)).to_le_bytes();
        }
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.file).as_ref().map_or(Ok(()), File::sync_data)
    }

    fn release(&self) {
        let Some(_file) = lock(&self.file).take() else { return };
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
            let (flags, length) = (MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE, self.words * 8);
            // SAFETY: replaces the whole mapping atomically with anonymous pages of the same length and protection, so
            // that threads that still store or load find memory there. `self` unmaps it as before.
            let _ = unsafe { mmap_anonymous(self.base.cast(), length, ProtFlags::READ | ProtFlags::WRITE, flags) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_seen_through_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mapped = map(&file, 8192).unwrap().unwrap();
        mapped.prepare(4096, 4096).unwrap();
        mapped.store(4096, b"sixteen bytes..!");
        let mut seen = [0; 16];
        file.read_exact_at(&mut seen, 4096).unwrap();
        assert_eq!(&seen, b"sixteen bytes..!");
        mapped.load(4096, &mut seen);
        assert_eq!(&seen, b"sixteen bytes..!");
        // All ways of storing a frame produce the same bytes.
        for length in 0..150 {
            let head: [u8; 24] = std::array::from_fn(|at| at as u8 + 1);
            let body: Vec<u8> = (0..length).map(|at| at as u8 + 50).collect();
            let mut joined = [&head[..], &body].concat();
            joined.resize(joined.len().next_multiple_of(8), 0);
            mapped.store(4096, &[9; 200]);
            mapped.store_framed(4096, &head, &body);
            let mut found = vec![1; 200];
            mapped.load(4096, &mut found);
            joined.resize(200, 9);
            assert_eq!(found, joined, "{length}");
        }
        mapped.store_twice([4096, 0], 0x0807_0605_0403_0201);
        mapped.load(0, &mut seen);
        assert_eq!(&seen[..8], &[1, 2, 3, 4, 5, 6, 7, 8]);
        mapped.load(4096, &mut seen);
        assert_eq!(&seen[..8], &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(map(&file, 1 << 20).is_err(), "past the end of the file");
        assert!(map(&file, 0).is_err() && map(&file, 100).is_err(), "not whole pages");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_does_not_inherit_the_mapping() {
        use rustix::mm::{MsyncFlags, msync};
        use std::os::unix::process::CommandExt;
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mapped = map_words(&file, 4096).unwrap();
        let base = mapped.base as usize;
        let ask = move || {
            // SAFETY: the kernel only checks whether the range is mapped; no memory is touched.
            unsafe { msync(base as *mut _, 4096, MsyncFlags::ASYNC) }
        };
        assert_eq!(ask(), Ok(()));
        let mut command = std::process::Command::new("/nonexistent");
        // SAFETY: between fork and exec there is one system call.
        unsafe { command.pre_exec(move || ask().map_err(Into::into)) };
        let error = command.spawn().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOMEM.raw_os_error()));
    }
}
