//! The seal of a record, algorithm 1. docs/format.md, section 7. A changed constant needs a new algorithm number.
//!
//! ```text
//! B        = f(hash(key) ^ KEY) ^ f(hash(value) ^ VALUE) ^ f(class ^ CLASS) [^ f(hash(attributes) ^ ATTRIBUTES)]
//! C(seqno) = B ^ f(seqno ^ SEQNO)          f = checksum::mix, a bijection; hash = XXH3-64
//! ```
//!
//! `B` is the seal: it depends on the record's content but not on its position, so every replica has the same seal. `C`
//! is the word stored with the record, bound to its seqno. Rebinding to another seqno costs two mixings and does not
//! need the record. Each part is mixed with its own constant, so that equal parts do not cancel and exchanged parts are
//! detected.

use std::cell::RefCell;

use waxseal_lsm::checksum::{hash, mix};
use waxseal_lsm::codec::{put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{Kind, Record, Seqno};

/// The algorithm number stored in files.
pub const ALGORITHM: u64 = 1;

const KEY: u64 = 0x6E9A_627B_1AFB_9125;
const VALUE: u64 = 0xB4CF_DE19_351B_44FD;
const CLASS: u64 = 0xA944_E6EB_31DC_8FDF;
const ATTRIBUTES: u64 = 0x322E_B2B5_FD49_BB4B;
const SEQNO: u64 = 0x23E2_A3C8_26DE_E2D5;

/// The checksum of a record, independent of its position. Records with the same key, value, kind class and attributes
/// have the same seal; different records share one with probability 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seal(u64);

impl Seal {
    /// Returns the seal of a put of `value` under `key`.
    #[inline]
    pub fn of(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Seal {
        Seal::of_operation(Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Returns the seal of an operation of any kind. The value of a tombstone is its payload, the value of a range
    /// delete is its end key. For a blob pointer use `of_hashes` with the hash of the value in the blob file.
    #[inline]
    pub fn of_operation(kind: Kind, key: &[u8], value: &[u8]) -> Seal {
        Seal::of_hashes(kind, hash(key), hash(value))
    }

    /// Like `of_operation`, for a caller that already has the key's `checksum::hash`, so that each operation hashes its
    /// key once.
    #[inline]
    pub fn of_hashed_key(kind: Kind, key_hash: u64, value: &[u8]) -> Seal {
        Seal::of_hashes(kind, key_hash, hash(value))
    }

    /// Like `of_operation`, from the hashes of the key and of the logical value.
    #[inline]
    pub const fn of_hashes(kind: Kind, key_hash: u64, value_hash: u64) -> Seal {
        Seal(mix(key_hash ^ KEY) ^ mix(value_hash ^ VALUE) ^ mix(class(kind) ^ CLASS))
    }

    /// Computes the seal of a record from its bytes, ignoring its companions.
    #[inline]
    pub fn of_record(record: &Record<'_>) -> Seal {
        Seal::of_operation(record.kind, record.key, record.value)
    }

    /// Adds attributes to the seal; a second call with the same attributes removes them.
    #[must_use]
    pub const fn with(self, attributes: AttributesHash) -> Seal {
        Seal(self.0 ^ mix(attributes.0 ^ ATTRIBUTES))
    }

    /// Returns the word stored with the record at `seqno`.
    #[inline]
    pub const fn at(self, seqno: Seqno) -> u64 {
        self.0 ^ place(seqno)
    }

    /// Returns the seal contained in the word of a record at `seqno`.
    #[inline]
    pub const fn from_word(word: u64, seqno: Seqno) -> Seal {
        Seal(word ^ place(seqno))
    }

    /// Moves the word of a record from one seqno to another.
    #[inline]
    pub const fn rebind(word: u64, old: Seqno, new: Seqno) -> u64 {
        word ^ place(old) ^ place(new)
    }

    /// Returns the seal of the same value under another key, from the `checksum::hash` of both keys.
    #[inline]
    #[must_use]
    pub const fn rekey(self, old_key_hash: u64, new_key_hash: u64) -> Seal {
        Seal(self.0 ^ mix(old_key_hash ^ KEY) ^ mix(new_key_hash ^ KEY))
    }

    /// Returns the seal as a number: its term in ledgers and digests.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Encodes the seal for callers, peers and logs: eight bytes, little-endian.
    #[inline]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// Decodes a seal; every eight bytes are valid.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 8]) -> Seal {
        Seal(u64::from_le_bytes(bytes))
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seal({:016x})", self.0)
    }
}

/// Returns the class of a kind: its code word. A blob pointer has the class of a put, so that moving a value into or
/// out of a blob file keeps its seal.
const fn class(kind: Kind) -> u64 {
    match kind {
        Kind::Put | Kind::BlobPointer => Kind::Put as u64,
        other => other as u64,
    }
}

/// Returns the contribution of a seqno to the word.
#[inline]
const fn place(seqno: Seqno) -> u64 {
    mix(seqno ^ SEQNO)
}

/// One attribute that is part of the write, such as an expiry time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    /// Id of the provider that defines the attribute.
    pub provider: u16,
    /// Format version of its bytes.
    pub version: u8,
    /// The attribute's value.
    pub bytes: &'a [u8],
}

/// The hash of a record's attributes in their canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttributesHash(u64);

impl AttributesHash {
    /// Hashes `provider varint | version varint | bytes` of each attribute, providers ascending. Returns `None` for an
    /// empty list. Errors: `Invalid` if the providers do not ascend or one occurs twice.
    pub fn of(attributes: &[Attribute<'_>]) -> Result<Option<AttributesHash>> {
        if !attributes.is_sorted_by(|a, b| a.provider < b.provider) {
            return Err(Error::invalid("attributes must ascend by provider, each once"));
        }
        AttributesHash::of_each(attributes.iter().copied().map(Ok))
    }

    /// Like `of`, for an iterator that is known to ascend; it stops at the first error.
    pub(crate) fn of_each<'a>(
        mut attributes: impl Iterator<Item = Result<Attribute<'a>>>,
    ) -> Result<Option<AttributesHash>> {
        let Some(first) = attributes.next().transpose()? else { return Ok(None) };
        let mut canonical = CANONICAL.try_with(RefCell::take).unwrap_or_default(); // None while the thread exits
        canonical.clear();
        first.put(&mut canonical);
        attributes.try_for_each(|attribute| attribute.map(|attribute| attribute.put(&mut canonical)))?;
        let of = AttributesHash(hash(&canonical));
        let _ = CANONICAL.try_with(|room| room.replace(canonical));
        Ok(Some(of))
    }
}

impl Attribute<'_> {
    fn put(&self, canonical: &mut Vec<u8>) {
        put_varint(canonical, self.provider.into());
        put_varint(canonical, self.version.into());
        put_bytes(canonical, self.bytes);
    }
}

thread_local! {
    /// Reused buffer for the canonical form, so that reads allocate nothing once it has grown.
    static CANONICAL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;
    use waxseal_lsm::record::MAX_SEQNO;

    const KINDS: [Kind; 8] = [
        Kind::Put,
        Kind::Delete,
        Kind::SingleDelete,
        Kind::Merge,
        Kind::RangeDelete,
        Kind::BlobPointer,
        Kind::Fence,
        Kind::SidePointer,
    ];

    #[test]
    fn the_vectors_of_the_format_page() {
        let page = include_str!("../../../docs/format.md");
        let vectors = [
            (Kind::Put, "", "", 0),
            (Kind::Put, "apple", "red", 1),
            (Kind::Put, "red", "apple", 1),
            (Kind::Put, "same", "same", MAX_SEQNO),
            (Kind::Delete, "apple", "", 7),
            (Kind::RangeDelete, "a", "b", 7),
        ];
        for (kind, key, value, seqno) in vectors {
            let seal = Seal::of_operation(kind, key.as_bytes(), value.as_bytes());
            let (kind, word) = (kind as u8, seal.at(seqno));
            let row = format!("| {kind:02X} | `{key}` | `{value}` | {seqno} | {:016X} | {word:016X} |", seal.number());
            assert!(page.contains(&row), "{row}");
        }
        let lease = Attribute { provider: 1, version: 0, bytes: &[1, 2, 3] };
        let hash = AttributesHash::of(&[lease]).unwrap().unwrap();
        let seal = Seal::of(b"apple", b"red").with(hash);
        let line = format!("hash {:016X}, B = {:016X}", hash.0, seal.number());
        assert!(page.contains(&line), "{line}");
    }

    #[test]
    fn constants_are_odd_and_apart() {
        let constants = [KEY, VALUE, CLASS, ATTRIBUTES, SEQNO];
        for (at, a) in constants.iter().enumerate() {
            assert!(a % 2 == 1 && (16..=48).contains(&a.count_ones()));
            assert!(constants[at + 1..].iter().all(|b| (16..=48).contains(&(a ^ b).count_ones())));
        }
    }

    #[test]
    fn kinds_differ_but_a_separated_value_is_a_put() {
        let seal = |kind| Seal::of_operation(kind, b"k", b"v");
        for (at, a) in KINDS.iter().enumerate() {
            for b in &KINDS[at + 1..] {
                let alike = [*a, *b] == [Kind::Put, Kind::BlobPointer];
                assert_eq!(seal(*a) == seal(*b), alike, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn attributes_are_in_order_and_each_counts() {
        let of = |list: &[(u16, u8, &'static [u8])]| {
            let list: Vec<_> =
                list.iter().map(|&(provider, version, bytes)| Attribute { provider, version, bytes }).collect();
            AttributesHash::of(&list)
        };
        assert_eq!(of(&[]).unwrap(), None);
        assert!(of(&[(2, 0, b""), (1, 0, b"")]).is_err());
        assert!(of(&[(1, 0, b""), (1, 1, b"")]).is_err());
        let all: Vec<_> = [
            &[(1, 0, &b""[..])][..],
            &[(1, 1, b"")],
            &[(2, 0, b"")],
            &[(1, 0, b"ab")],
            &[(1, 0, b"a"), (2, 0, b"b")],
            &[(1, 0, b""), (2, 0, b"ab")],
        ]
        .map(|list| Seal::of(b"k", b"v").with(of(list).unwrap().unwrap()))
        .into();
        for (at, a) in all.iter().enumerate() {
            assert!(*a != Seal::of(b"k", b"v") && !all[at + 1..].contains(a));
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..40), proptest::collection::vec(any::<u8>(), 200..600)]
    }

    proptest! {
        #[test]
        fn equal_or_exchanged_parts_do_not_cancel(a in bytes(), b in bytes(), seqno in 0..=MAX_SEQNO) {
            // If the parts were only combined by XOR, equal key and value would cancel and leave only the kind.
            prop_assert_ne!(Seal::of(&a, &a).number(), mix(class(Kind::Put) ^ CLASS));
            if a != b {
                prop_assert_ne!(Seal::of(&a, &a), Seal::of(&b, &b));
                prop_assert_ne!(Seal::of(&a, &b), Seal::of(&b, &a));
            }
            // A key or value equal to the seqno's bytes does not cancel the seqno.
            let own = seqno.to_le_bytes();
            for (key, value) in [(&own[..], &a[..]), (&a[..], &own[..])] {
                prop_assert_ne!(Seal::of(key, value).at(seqno), Seal::of(key, value).at(seqno ^ 1));
                prop_assert_ne!(Seal::of(key, value).at(seqno), Seal::of(b"", &a).at(0));
            }
        }

        #[test]
        fn binding_is_algebra(a in bytes(), b in bytes(), s in 0..=MAX_SEQNO, t in 0..=MAX_SEQNO, u in 0..=MAX_SEQNO) {
            let seal = Seal::of(&a, &b);
            prop_assert_eq!(Seal::from_word(seal.at(s), s), seal);
            prop_assert_eq!(Seal::rebind(seal.at(s), s, t), seal.at(t));
            prop_assert_eq!(Seal::rebind(Seal::rebind(seal.at(s), s, t), t, u), seal.at(u));
            prop_assert_eq!(Seal::rebind(seal.at(s), s, 0), seal.at(0)); // seqno zeroed at the bottom level
            prop_assert_eq!(seal.at(s) == seal.at(t), s == t);
            prop_assert_eq!(Seal::from_bytes(seal.to_bytes()), seal);
        }

        #[test]
        fn exchanged_words_of_two_records_are_noticed(
            a in bytes(), b in bytes(), c in bytes(), s in 0..MAX_SEQNO, apart in 1..1000u64,
        ) {
            let t = (s + apart).min(MAX_SEQNO);
            let (one, other) = (Seal::of(&a, &b), Seal::of(&a, &c));
            // Exchanged seqnos and exchanged words are detected, even for two versions of one key.
            prop_assert_ne!(one.at(s), one.at(t));
            if b != c {
                prop_assert_ne!(one.at(s), other.at(t));
                prop_assert_ne!(one.at(t), other.at(s));
                prop_assert_ne!(one.number().wrapping_add(other.number()), one.number().wrapping_add(one.number()));
            }
        }

        #[test]
        fn any_flipped_bit_changes_it(
            key in bytes(), value in bytes(), kind in select(KINDS.to_vec()), seqno in 0..=MAX_SEQNO, bit: usize,
        ) {
            let word = Seal::of_operation(kind, &key, &value).at(seqno);
            let flipped = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                let bit = bit % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            };
            if !key.is_empty() {
                prop_assert_ne!(Seal::of_operation(kind, &flipped(&key), &value).at(seqno), word);
            }
            if !value.is_empty() {
                prop_assert_ne!(Seal::of_operation(kind, &key, &flipped(&value)).at(seqno), word);
            }
            prop_assert_ne!(Seal::of_operation(kind, &key, &value).at(seqno ^ 1 << (bit % 56)), word);
            let class_bit = 1 << (bit % 8);
            prop_assert_ne!(mix(class(kind) ^ CLASS), mix((class(kind) ^ class_bit) ^ CLASS));
        }

        #[test]
        fn a_key_hash_at_hand_gives_the_same(key in bytes(), value in bytes(), kind in select(KINDS.to_vec())) {
            let seal = Seal::of_operation(kind, &key, &value);
            prop_assert_eq!(Seal::of_hashed_key(kind, hash(&key), &value), seal);
            prop_assert_eq!(Seal::of_hashes(kind, hash(&key), hash(&value)), seal);
            let record = Record { key: &key, seqno: 3, kind, value: &value, companion: b"junk" };
            prop_assert_eq!(Seal::of_record(&record), seal);
        }
    }
}
