//! Sums and mixers that formats depend on. docs/format.md, section 1. Changing a constant here is a new format.

use twox_hash::XxHash3_64;
use xxhash_rust::xxh3::xxh3_64;

/// From so many bytes on the twin is faster that asks the processor for wider registers at run time; a short hash is over before it has.
const LONG_BYTES: usize = 512;

/// XXH3-64 of at most so many bytes takes about twenty instructions.
const INLINED_BYTES: usize = 16;

/// XXH3-64 of `bytes`, seed 0: keys (filters), frame bodies, headers, digests. A megabyte takes about as long as the memory that it comes from.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    if bytes.len() < LONG_BYTES { xxh3_64(bytes) } else { XxHash3_64::oneshot(bytes) }
}

/// `hash` of a user key: taken once an operation and used for filter, companions and whatever else needs it. Builds with debug
/// assertions count the calls of each thread, so that a test can hold operations to that.
#[inline]
pub fn hash_key(key: &[u8]) -> u64 {
    #[cfg(debug_assertions)]
    KEYS_HASHED.with(|count| count.set(count.get() + 1));
    hash(key)
}

/// `hash_key`, inlined for keys of up to 16 bytes: for loops that hash one key after the other.
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

/// How many keys this thread has hashed so far.
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

/// Which part of a file a block is; bound into its CRC so that a block cannot stand in for another.
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
    /// Anything later versions add.
    Side = 6,
    /// The head and the key of a value in a value file.
    ValueHead = 7,
    /// A value in a value file.
    Value = 8,
    /// The top of a cut index.
    Top = 9,
}

/// The start value of a block's CRC-32: the file's uid, the block's offset and its role.
pub fn block_seed(uid: &Uid, offset: u64, role: Role) -> u32 {
    let (low, high) = uid.words();
    mix(low ^ mix(high ^ mix(offset << 8 | role as u64))) as u32
}

/// CRC-32 (ISO-HDLC, as in zlib) of the parts one after the other, from a start value. Linear, so that a syndrome tells which bits flipped.
pub fn crc(seed: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// A random 128-bit name: of a file, of a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Uid(pub [u8; 16]);

impl Uid {
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
        // docs/format.md, section 1, gives these so that an independent reader can check itself.
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
