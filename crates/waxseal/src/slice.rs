//! The bytes that a read returns: short ones inline, longer ones shared.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use waxseal_lsm::env::try_copy;
use waxseal_lsm::error::{IoContext, Result};

/// Longest byte string stored without an allocation.
const INLINE_BYTES: usize = 30;

/// Shortest copy whose memory may not be available. An `Arc<[u8]>` cannot be requested without an abort on failure.
const LONG_BYTES: usize = 1 << 20;

/// The bytes of a key or value. Cheap to clone and independent of the store: a slice may outlive it and pins no memory
/// of it.
///
/// Short byte strings are stored inline, longer ones behind a shared pointer; the limit is not part of the interface. A
/// slice dereferences to `&[u8]`. It converts with [`Into`] to [`Bytes`], without copying shared bytes.
///
/// ```
/// use waxseal::Slice;
///
/// let slice = Slice::from(&b"some bytes"[..]);
/// assert_eq!(&slice[..4], b"some");
/// assert_eq!(slice, *b"some bytes");
/// let bytes: bytes::Bytes = slice.into();
/// assert_eq!(&bytes[..], b"some bytes");
/// ```
#[derive(Clone)]
pub struct Slice(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Shared(Arc<[u8]>),
    Long(Arc<Vec<u8>>),
}

const _: () = assert!(size_of::<Slice>() == 32);

impl Slice {
    /// Returns an empty slice.
    pub const fn new() -> Slice {
        Slice(Repr::Inline { len: 0, bytes: [0; INLINE_BYTES] })
    }

    /// Copies bytes that a read found. Returns `Io` if the memory for them is not available.
    #[inline]
    pub(crate) fn copied(from: &[u8]) -> Result<Slice> {
        if from.len() < LONG_BYTES {
            return Ok(Slice::from(from));
        }
        Ok(Slice(Repr::Long(Arc::new(try_copy(from).during(|| "copying a value")?))))
    }

    /// Returns the bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..*len as usize],
            Repr::Shared(bytes) => bytes,
            Repr::Long(bytes) => bytes,
        }
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::new()
    }
}

impl From<&[u8]> for Slice {
    #[inline]
    fn from(from: &[u8]) -> Slice {
        if from.len() > INLINE_BYTES {
            return Slice(Repr::Shared(from.into()));
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..from.len()].copy_from_slice(from);
        Slice(Repr::Inline { len: from.len() as u8, bytes })
    }
}

impl From<Slice> for Bytes {
    fn from(slice: Slice) -> Bytes {
        match slice.0 {
            Repr::Inline { len, bytes } => Bytes::copy_from_slice(&bytes[..len as usize]),
            Repr::Shared(bytes) => Bytes::from_owner(bytes),
            Repr::Long(_) => Bytes::from_owner(slice),
        }
    }
}

impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Vec<u8> {
        slice.to_vec()
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Slice {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Slice) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialEq<[u8]> for Slice {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_bytes() == other
    }
}

impl PartialEq<&[u8]> for Slice {
    fn eq(&self, other: &&[u8]) -> bool {
        self.as_bytes() == *other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Slice {
    fn eq(&self, other: &[u8; N]) -> bool {
        self.as_bytes() == other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Slice {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self.as_bytes() == *other
    }
}

impl PartialEq<str> for Slice {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Slice {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<String> for Slice {
    fn eq(&self, other: &String) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<Vec<u8>> for Slice {
    fn eq(&self, other: &Vec<u8>) -> bool {
        self.as_bytes() == other
    }
}

/// Formats as a byte string literal: `b"text\x00"`.
impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::hash::{BuildHasher, RandomState};

    proptest! {
        #[test]
        fn a_slice_is_its_bytes(a: Vec<u8>, b: Vec<u8>) {
            let (x, y) = (Slice::from(&a[..]), Slice::from(&b[..]));
            prop_assert_eq!(&x[..], &a[..]);
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(&Bytes::from(x.clone())[..], &a[..]);
            let hasher = RandomState::new();
            prop_assert_eq!(hasher.hash_one(&x), hasher.hash_one(&a[..]));
        }
    }

    #[test]
    fn lengths_around_the_inline_limit() {
        for length in [0, 1, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1, 1000] {
            let bytes = vec![7; length];
            assert_eq!(Slice::from(&bytes[..]), bytes);
            assert_eq!(matches!(Slice::from(&bytes[..]).0, Repr::Inline { .. }), length <= INLINE_BYTES);
        }
    }
}
