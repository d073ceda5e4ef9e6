//! Hashes and checksums that the formats depend on. See docs/format.md, section 1. Changing a constant here creates a
//! new format.

use std::hash::Hasher;

use twox_hash::XxHash3_64;
use xxhash_rust::xxh3::xxh3_64;

/// From this length on, `twox_hash` is faster: it detects wider registers at run time. For short inputs the detection
/// costs more than the hash.
const LONG_BYTES: usize = 512;

/// XXH3-64 of at most this length takes about twenty instructions.
const INLINED_BYTES: usize = 16;

/// Returns XXH3-64 of `bytes` with seed 0. Used for keys (filters), frame bodies, headers and digests. Its throughput
/// is about that of main memory.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    if bytes.len() < LONG_BYTES { xxh3_64(bytes) } else { XxHash3_64::oneshot(bytes) }
}

/// Computes `hash` of bytes that arrive in pieces.
#[derive(Default)]
pub struct RunningHash(XxHash3_64);

impl RunningHash {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Returns the hash of all bytes so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}

/// Returns `hash` of a user key. Each operation computes it once and uses it for filter and companions. Builds with
/// debug assertions count the calls per thread, so that a test can verify this.
#[inline]
pub fn hash_key(key: &[u8]) -> u64 {
    #[cfg(debug_assertions)]
    KEYS_HASHED.with(|count| count.set(count.get() + 1));
    hash(key)
}

/// As `hash_key`, inlined for keys of up to 16 bytes, for loops that hash many keys.
#[inline(always)]
pub fn hash_short_key(key: &[u8]) -> u64 {
    if key.len() > INLINED_BYTES {
        return hash_key(key);
    }
    #[cfg(debug_assertions)]
    KEYS_HASHED.with(|count| count.set(count.get() + 1));
    xxh3_64(key)
}

#[cfg(debug_assertions)]
thread_local! {
    static KEYS_HASHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns the number of keys that this thread has hashed.
#[cfg(debug_assertions)]
pub fn keys_hashed() -> u64 {
    KEYS_HASHED.with(std::cell::Cell::get)
}

/// A bijection on 64-bit words that spreads every bit (two multiplications). `mix(0) == 0`.
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x ^= x >> 27;
    x = x.wrapping_mul(0x3C79_AC49_2BA7_B653);
    x ^= x >> 33;
    x = x.wrapping_mul(0x1C69_B3F7_4AC4_AE35);
    x ^ (x >> 27)
}

/// The role of a block in its file. It is part of the CRC's seed, so that one block cannot replace another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Role {
    /// Records.
    Data = 1,
    /// Separators and handles of the data blocks.
    Index = 2,
    /// The filter.
    Filter = 3,
    /// Properties.
    Properties = 4,
    /// Range deletes (reserved).
    RangeDelete = 5,
    /// Other data, including additions of later versions.
    Side = 6,
    /// The header and the key of a value in a blob file.
    ValueHead = 7,
    /// A value in a blob file.
    Value = 8,
    /// The top level of a partitioned index.
    Top = 9,
}

/// Returns the start value of a block's CRC-32, from the file's uid, the block's offset and its role.
pub fn block_seed(uid: &Uid, offset: u64, role: Role) -> u32 {
    let (low, high) = uid.words();
    mix(low ^ mix(high ^ mix(offset << 8 | role as u64))) as u32
}

/// Returns the CRC-32 (ISO-HDLC, as in zlib) of the concatenated parts, from a start value. The CRC is linear, so a
/// syndrome identifies flipped bits.
pub fn crc(seed: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// A random 128-bit id of a file or a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Uid(pub [u8; 16]);

impl Uid {
    /// Reads 32 hexadecimal digits, as `Debug` writes them; none for any other text.
    pub fn parse(text: &str) -> Option<Uid> {
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = u128::from_str_radix(text, 16).ok()?.to_le_bytes();
        bytes.reverse(); // the text begins with the first byte
        Some(Uid(bytes))
    }

    /// The two little-endian halves.
    pub fn words(&self) -> (u64, u64) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = self.0;
        (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from_le_bytes([i, j, k, l, m, n, o, p]))
    }
}

impl std::fmt::Debug for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_values() {
        // docs/format.md, section 1, lists these values so that an independent reader can verify itself.
        assert_eq!(hash(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(crc(0, &[b"123456789"]), 0xCBF4_3926);
        assert_eq!(mix(1), 0x3C02_AA47_7582_92BD);
    }

    proptest! {
        #[test]
        fn a_long_hash_is_that_of_its_twin(bytes in prop::collection::vec(any::<u8>(), 0..4096), times in 1usize..64) {
            let long = bytes.repeat(times);
            for bytes in [&bytes, &long] {
                prop_assert_eq!(hash(bytes), xxh3_64(bytes));
                prop_assert_eq!(XxHash3_64::oneshot(bytes), xxh3_64(bytes));
                let mut running = RunningHash::default();
                bytes.chunks(bytes.len() / 3 + 1).for_each(|piece| running.add(piece));
                prop_assert_eq!(running.value(), xxh3_64(bytes));
            }
        }
    }

    #[test]
    fn crc_is_affine_in_its_seed_and_bytes() {
        let a = crc(7, &[b"abcd"]);
        assert_eq!(a, crc(7, &[b"ab", b"cd"]));
        assert_ne!(a, crc(8, &[b"abcd"]));
    }
}
