//! The digest of a file's content. docs/format-files.md, section 4.
//!
//! A chunk's digest is XXH3-128 of its number (eight bytes, little-endian) and its bytes without trailing zeros; a chunk
//! of zeros has the digest 0. The file's digest is the sum of its chunks' digests, modulo 2^128. A change of one chunk
//! therefore changes the sum by the difference, and a hole counts as the zeros that a read returns.

use std::fmt;
use std::ops::{AddAssign, SubAssign};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The digest of a file's content: 128 bits, against rot and not against forgery.
///
/// Two files of one size and one chunk size have the same content if they have the same digest. It depends neither on
/// the path nor on the way in which the content was written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Digest(u128);

impl Digest {
    /// Returns the digest of a number that [`Digest::number`] gave.
    pub fn from_number(number: u128) -> Digest {
        Digest(number)
    }

    /// Returns the digest as a number.
    pub fn number(self) -> u128 {
        self.0
    }

    /// Returns the digest of one chunk.
    pub(crate) fn of_chunk(number: u32, bytes: &[u8]) -> Digest {
        let bytes = without_trailing_zeros(bytes);
        if bytes.is_empty() {
            return Digest(0);
        }
        /// The longest chunk that is copied behind its number; a longer one is hashed in two pieces.
        const SHORT: usize = 240;
        let number = u64::from(number).to_le_bytes();
        if bytes.len() <= SHORT {
            let mut joined = [0; 8 + SHORT];
            joined[..8].copy_from_slice(&number);
            joined[8..8 + bytes.len()].copy_from_slice(bytes);
            return Digest(xxh3_128(&joined[..8 + bytes.len()]));
        }
        let mut hash = Xxh3::new();
        hash.update(&number);
        hash.update(bytes);
        Digest(hash.digest128())
    }
}

/// Computes the digest that a content has in a file store, for example of a local file before it is copied.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// let mut digester = waxseal_files::Digester::new(fs.chunk_bytes());
/// digester.update(b"con");
/// digester.update(b"tent");
/// fs.write("file", "content")?;
/// assert_eq!(digester.finish(), fs.stat("file")?.digest);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Digester {
    chunk_bytes: usize,
    /// The chunk that is not full yet.
    buffer: Vec<u8>,
    number: u32,
    digest: Digest,
}

impl Digester {
    /// Begins the digest of a content with this chunk size: [`Files::chunk_bytes`](crate::Files::chunk_bytes) for new
    /// files, [`Metadata::chunk_bytes`](crate::Metadata::chunk_bytes) of a file that is compared. 0 counts as 1.
    pub fn new(chunk_bytes: u32) -> Digester {
        let chunk_bytes = chunk_bytes.max(1) as usize;
        Digester { chunk_bytes, buffer: Vec::new(), number: 0, digest: Digest::default() }
    }

    /// Adds bytes. Buffers one chunk at most.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while self.buffer.len() + bytes.len() > self.chunk_bytes {
            let (now, later) = bytes.split_at(self.chunk_bytes - self.buffer.len());
            self.buffer.extend_from_slice(now);
            self.digest += Digest::of_chunk(self.number, &self.buffer);
            self.number = self.number.wrapping_add(1);
            self.buffer.clear();
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Adds zeros. Whole chunks of them cost nothing.
    pub fn skip(&mut self, bytes: u64) {
        let room = self.chunk_bytes - self.buffer.len();
        let Some(rest) = bytes.checked_sub(room as u64).filter(|rest| *rest > 0) else {
            self.buffer.resize(self.buffer.len() + bytes as usize, 0);
            return;
        };
        self.digest += Digest::of_chunk(self.number, &self.buffer);
        let zeros = (rest - 1) / self.chunk_bytes as u64;
        self.number = self.number.wrapping_add(1).wrapping_add(zeros as u32);
        self.buffer.clear();
        self.buffer.resize((rest - zeros * self.chunk_bytes as u64) as usize, 0);
    }

    /// Returns the digest of all bytes.
    pub fn finish(mut self) -> Digest {
        self.digest += Digest::of_chunk(self.number, &self.buffer);
        self.digest
    }
}

impl AddAssign for Digest {
    fn add_assign(&mut self, other: Digest) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl SubAssign for Digest {
    fn sub_assign(&mut self, other: Digest) {
        self.0 = self.0.wrapping_sub(other.0);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Returns the bytes up to the last one that is not zero: the bytes that a chunk's record holds.
pub(crate) fn without_trailing_zeros(bytes: &[u8]) -> &[u8] {
    // Words first: chunks of zeros are long.
    let mut end = bytes.len();
    while let Some((_, word)) = bytes[..end].split_last_chunk::<16>() {
        if u128::from_le_bytes(*word) != 0 {
            break;
        }
        end -= 16;
    }
    let length = bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    &bytes[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_digest_is_the_same_in_every_version() {
        assert_eq!(Digest::of_chunk(0, b"waxseal").to_string(), GOLDEN);
        assert_ne!(Digest::of_chunk(1, b"waxseal"), Digest::of_chunk(0, b"waxseal"));
        assert_eq!(Digest::of_chunk(3, &[0; 1000]), Digest::default());
    }

    const GOLDEN: &str = "ec24bdb345f1dec0279005d0638e19d6";

    proptest! {
        #[test]
        fn both_ways_of_hashing_agree(mut bytes in prop::collection::vec(any::<u8>(), 0..600), number: u32) {
            bytes.push(1);
            let whole = [&u64::from(number).to_le_bytes()[..], &bytes].concat();
            prop_assert_eq!(Digest::of_chunk(number, &bytes), Digest(xxh3_128(&whole)));
        }

        #[test]
        fn zeros_may_be_skipped(parts in prop::collection::vec((0u64..40, 0usize..9), 0..6)) {
            let (mut skipped, mut written) = (Digester::new(8), Digester::new(8));
            for (zeros, bytes) in parts {
                skipped.skip(zeros);
                written.update(&vec![0; zeros as usize]);
                skipped.update(&vec![7; bytes]);
                written.update(&vec![7; bytes]);
            }
            prop_assert_eq!(skipped.finish(), written.finish());
        }

        #[test]
        fn trailing_zeros_do_not_count(bytes in prop::collection::vec(0u8..3, 0..100), zeros in 0usize..60) {
            let kept = without_trailing_zeros(&bytes);
            prop_assert!(kept.last() != Some(&0) && bytes[kept.len()..].iter().all(|byte| *byte == 0));
            let longer = [&bytes[..], &vec![0; zeros]].concat();
            prop_assert_eq!(without_trailing_zeros(&longer), kept);
            prop_assert_eq!(Digest::of_chunk(7, &longer), Digest::of_chunk(7, &bytes));
        }
    }
}
