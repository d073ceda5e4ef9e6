#![expect(unsafe_code, reason = "fence 2: one page that a fork wipes")]
//! Identifies the process that created an object. After a fork the child has copies of all objects that its parent had
//! open, and must not use them.
//!
//! One private page per process holds the process's number; the kernel wipes it in every child (MADV_WIPEONFORK). An
//! `Origin` records the number at its creation, and checking it costs one load. In a child the word is zero until the
//! child creates an `Origin` of its own, with a new number. If the kernel does not support such pages (Linux before
//! 4.14, other systems), the process id is compared, which costs a system call.
//!
//! Contract: the page is mapped once, never unmapped, and accessed only as one atomic word.
//! Proof:  the tests below, which fork.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A token of the process that created it.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    word: Option<&'static AtomicU64>,
    number: u64,
}

impl Origin {
    /// Returns a token of this process.
    pub fn here() -> Origin {
        match page() {
            Some(word) => Origin { word: Some(word), number: number_in(word) },
            None => Origin::by_process_id(),
        }
    }

    fn by_process_id() -> Origin {
        Origin { word: None, number: u64::from(std::process::id()) }
    }

    /// Returns true in the process that created the token, and false in every child forked from it.
    #[inline]
    pub fn is_here(&self) -> bool {
        match self.word {
            Some(word) => word.load(Ordering::Relaxed) == self.number,
            None => u64::from(std::process::id()) == self.number,
        }
    }
}

/// Returns the number of this process: the number stored in the page, or the next number after a fork wiped the page.
fn number_in(word: &AtomicU64) -> u64 {
    // Inherited by children, so that their numbers are larger than those of all inherited tokens.
    static LAST: AtomicU64 = AtomicU64::new(0);
    match word.load(Ordering::Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|first| first, |_| next)
        }
        number => number,
    }
}

/// Returns the page's word. No lock guards it: a fork at the wrong moment would leave the lock held in the child for
/// ever.
fn page() -> Option<&'static AtomicU64> {
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    let mut base = PAGE.load(Ordering::Acquire);
    if base.is_null() {
        let new = map()?;
        base = match PAGE.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            // Another thread was faster; this page stays unused.
            Err(first) => first,
        };
    }
    // SAFETY: `base` came from `map`: a page of zeros or of later stores, aligned, mapped forever, accessed only
    // through atomics.
    Some(unsafe { &*base })
}

#[cfg(target_os = "linux")]
fn map() -> Option<*mut AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    const LENGTH: usize = 4096;
    // SAFETY: a fresh private mapping at an address of the kernel's choice.
    let base = unsafe {
        mmap_anonymous(std::ptr::null_mut(), LENGTH, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE).ok()?
    };
    // SAFETY: the range is the new mapping, unknown to other code; it is unmapped if the advice fails.
    unsafe {
        if madvise(base, LENGTH, Advice::LinuxWipeOnFork).is_err() {
            let _ = munmap(base, LENGTH);
            return None;
        }
    }
    Some(base.cast())
}

#[cfg(not(target_os = "linux"))]
fn map() -> Option<*mut AtomicU64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    /// Runs `check` in a forked child; its result is returned as an error number with no other meaning.
    fn in_a_child(check: impl Fn() -> bool + Send + Sync + 'static) -> bool {
        const NO: i32 = 4000;
        const YES: i32 = 4001;
        let mut command = std::process::Command::new("/nonexistent");
        let answer =
            move || -> std::io::Result<()> { Err(std::io::Error::from_raw_os_error(if check() { YES } else { NO })) };
        // SAFETY: between fork and exec the closure loads and stores words and reads the process id; it takes no lock.
        unsafe { command.pre_exec(answer) };
        match command.spawn().err().and_then(|error| error.raw_os_error()) {
            Some(YES) => true,
            Some(NO) => false,
            other => panic!("no answer from the child: {other:?}"),
        }
    }

    #[test]
    fn a_child_is_somewhere_else() {
        for origin in [Origin::here(), Origin::by_process_id()] {
            assert!(origin.is_here());
            assert!(!in_a_child(move || origin.is_here()));
            assert!(origin.is_here(), "the parent does not notice");
        }
        assert!(cfg!(not(target_os = "linux")) || Origin::here().word.is_some(), "one load on this kernel");
    }

    #[test]
    fn a_child_that_starts_anew_does_not_revive_what_it_inherited() {
        let before = Origin::here();
        assert!(in_a_child(move || Origin::here().is_here() && !before.is_here()));
        assert!(before.is_here() && Origin::here().is_here());
    }

    #[test]
    fn a_tokens_copy_in_another_thread_is_here() {
        let origin = Origin::here();
        std::thread::scope(|scope| scope.spawn(move || assert!(origin.is_here() && Origin::here().is_here())).join())
            .unwrap();
    }
}
