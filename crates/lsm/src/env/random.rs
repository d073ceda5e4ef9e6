//! Random numbers for uids and nonces: from the system, or from a seed.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checksum::{Uid, mix};

/// A source of random words. Used for uids and nonces, never for secrets.
pub trait Random: Send + Sync {
    /// Returns the next 64 random bits.
    fn next_u64(&self) -> u64;

    /// Returns a random uid for a file or store.
    fn uid(&self) -> Uid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_u64().to_le_bytes());
        bytes[8..].copy_from_slice(&self.next_u64().to_le_bytes());
        Uid(bytes)
    }
}

/// The system's randomness (the keys that the standard library draws for each hash map).
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        RandomState::new().hash_one(std::process::id())
    }
}

/// SplitMix from a seed; the same seed gives the same words.
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { state: AtomicU64::new(seed) }
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns true with probability 1/`n`.
    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let next = self.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(next)
    }
}
