//! Decodes the companions of a record: its seal, marks, stamp and list of typed entries. docs/format.md, section 7.
//! Pure.
//!
//! In:     the companions of a record, as arbitrary bytes.
//! Out:    the position of its seal, its marks, its entries; or an error if they cannot be decoded.
//! Holds:  a length is compared with the remaining bytes before it is used (I10). A record has at most one seal, one
//!         list and one stamp. Entries ascend by provider, without duplicates. Each entry has flags for "the seal
//!         covers it" and "an unknown protector may drop it", so that it can be checked and copied without knowing its
//!         provider.
//!
//! An entry outside the seal has its own CRC, started from the hash of its record's key, which detects flipped bits and
//! entries of other records. An entry inside has no CRC, because the seal covers it.

use std::ops::Range;

use waxseal_lsm::checksum::crc;
use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::companion;

use crate::seal::{Attribute, AttributesHash};
use crate::stamp_check::{self, SHORT_BYTES};

/// Length of a seal as a companion: its kind and its word.
pub use waxseal_lsm::record::companion::WORD8_BYTES as SEAL_BYTES;
/// The kind of the companion that holds marks, and the mark of an adopted record: one whose seal was made by a flush or
/// compaction because the record had none.
pub use waxseal_lsm::record::companion::{ADOPTED, MARKS};

/// The kind of the stamp companion: session and time of a write to a watched key. The module `stamp` decodes it.
pub const STAMP: u8 = 0x3C;

/// The mark of an adopted record, as a companion.
pub const ADOPTED_BYTES: [u8; 3] = [MARKS, 1, ADOPTED as u8];

/// Length of a seal and a stamp of the minimum length.
const STAMPED_BYTES: usize = SEAL_BYTES + SHORT_BYTES;

/// Length of the CRC behind an entry that the seal does not cover.
const CRC_BYTES: usize = 4;

/// The decoded companions of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Annotations<'a> {
    /// Position of the seal word's eight bytes among the companions, and the word.
    pub seal: Option<(usize, u64)>,
    /// Bits about the record's origin, such as `ADOPTED`.
    pub marks: u64,
    /// The bytes of the list of entries.
    pub list: &'a [u8],
    /// The content of the stamp, with its check.
    pub stamp: Option<&'a [u8]>,
    /// Range of the list's companion, kind byte included.
    list_at: (usize, usize),
    /// Range of the stamp's companion, kind byte included.
    stamp_at: (usize, usize),
}

/// Returns the seal word if the companions are a seal and nothing else, as for most records.
#[inline]
pub fn only_word(companions: &[u8]) -> Option<u64> {
    match companions {
        [companion::WORD8, a, b, c, d, e, f, g, h] => Some(u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
        _ => None,
    }
}

/// Returns word and stamp if the companions are a seal followed by one stamp, as for most watched records.
#[inline]
pub fn word_and_stamp(companions: &[u8]) -> Option<(u64, &[u8])> {
    let (seal, rest) = companions.split_first_chunk::<SEAL_BYTES>()?;
    match rest {
        [STAMP, length, content @ ..] if *length < 0x80 && usize::from(*length) == content.len() => {
            Some((only_word(seal)?, content))
        }
        _ => None,
    }
}

/// Returns the word and these companions if they are a seal followed by a stamp of the minimum length.
#[inline]
pub(crate) fn word_and_short_stamp(companions: &[u8]) -> Option<(u64, &[u8; STAMPED_BYTES])> {
    let both: &[u8; STAMPED_BYTES] = companions.try_into().ok()?;
    let (seal, stamp) = both.split_first_chunk::<SEAL_BYTES>()?;
    if stamp.starts_with(&[STAMP, (SHORT_BYTES - 2) as u8]) { Some((only_word(seal)?, both)) } else { None }
}

/// Returns the word if the companions are a seal, or a seal followed by a stamp.
#[inline]
pub fn usual_word(companions: &[u8]) -> Option<u64> {
    only_word(companions).or_else(|| Some(word_and_stamp(companions)?.0))
}

/// Returns the position of the seal word's eight bytes among the companions.
#[inline]
pub(crate) fn word_at(companions: &[u8]) -> Option<usize> {
    match usual_word(companions) {
        Some(_) => Some(1),
        None => Annotations::read(companions).ok()?.seal.map(|(at, _)| at),
    }
}

/// Returns false if the companions cannot contain a list of entries.
#[inline]
pub fn may_have_entries(companions: &[u8]) -> bool {
    companions.len() > SEAL_BYTES && word_and_stamp(companions).is_none()
}

/// Encodes a seal word as a companion.
#[inline]
pub fn seal_bytes(word: u64) -> [u8; SEAL_BYTES] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [companion::WORD8, a, b, c, d, e, f, g, h]
}

impl<'a> Annotations<'a> {
    /// Decodes companions. Errors: `Corruption` if they are incomplete, or if there are two seals, lists or stamps.
    pub fn read(companions: &'a [u8]) -> Result<Annotations<'a>> {
        let mut reader = Reader::new(companions);
        let mut annotations = Annotations::default();
        while !reader.is_empty() {
            let start = reader.position();
            let kind = reader.u8()?;
            match kind {
                companion::WORD8 => {
                    let at = reader.position();
                    if annotations.seal.replace((at, reader.u64()?)).is_some() {
                        return Err(Error::structural("a record with two seals"));
                    }
                }
                companion::WORD4 => {
                    reader.u32()?;
                }
                companion::LIST => {
                    annotations.list = reader.length_prefixed()?;
                    if annotations.list_at != (0, 0) {
                        return Err(Error::structural("a record with two lists of entries"));
                    }
                    annotations.list_at = (start, reader.position());
                }
                STAMP => {
                    if annotations.stamp.replace(reader.length_prefixed()?).is_some() {
                        return Err(Error::structural("a record with two stamps"));
                    }
                    annotations.stamp_at = (start, reader.position());
                }
                // Marks that are not a single number are ignored here; `CompanionPart::is_whole` reports them.
                MARKS => annotations.marks |= Reader::new(reader.length_prefixed()?).varint().unwrap_or(0),
                kind if companion::begins(kind) => {
                    reader.length_prefixed()?;
                }
                _ => return Err(Error::structural("bytes that are no companion")),
            }
        }
        Ok(annotations)
    }

    /// Creates companions that consist of a list.
    pub fn of_list(list: &'a [u8]) -> Annotations<'a> {
        Annotations { list, ..Annotations::default() }
    }

    /// Returns true if the record was adopted.
    pub fn is_adopted(&self) -> bool {
        self.marks & ADOPTED != 0
    }

    /// Returns the entries of the list, ascending by provider.
    pub fn entries(&self) -> AnnotationIter<'a> {
        AnnotationIter { reader: Reader::new(self.list), before: None }
    }

    /// Returns false if any of these companions fails its own check, beside a record with this key hash. A
    /// companion that seems absent may then be the damaged one.
    pub(crate) fn is_whole(&self, companions: &[u8], key_hash: u64) -> bool {
        parts(companions).all(|part| part.is_whole(companions))
            && self.entries().all(|entry| entry.is_ok_and(|entry| entry.is_whole(key_hash)))
            && self.stamp.is_none_or(|content| stamp_check::is_whole(content, key_hash))
    }

    /// Returns the stamp's content and its position among the companions.
    pub(crate) fn stamp_content(&self) -> Option<(usize, &'a [u8])> {
        self.stamp.map(|content| (self.stamp_at.1 - content.len(), content))
    }

    /// Returns the entries of the list, each with its end position among the companions.
    pub(crate) fn entry_ends(&self) -> impl Iterator<Item = (usize, Result<Annotation<'a>>)> {
        let (mut entries, start) = (self.entries(), self.list_at.1 - self.list.len());
        std::iter::from_fn(move || {
            let entry = entries.next()?;
            Some((start + entries.reader.position(), entry))
        })
    }

    /// Returns the entry of one provider. Errors: `Corruption` if any part of the list cannot be decoded.
    pub fn entry(&self, provider: u16) -> Result<Option<Annotation<'a>>> {
        let mut found = None;
        for entry in self.entries() {
            let entry = entry?;
            if entry.provider == provider {
                found = Some(entry);
            }
        }
        Ok(found)
    }

    /// Returns the hash of the entries that the seal covers, or `None` if it covers none.
    pub fn attributes(&self) -> Result<Option<AttributesHash>> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let covered = self.entries().filter(|entry| entry.as_ref().map_or(true, |entry| entry.sealed));
        AttributesHash::of_each(covered.map(|entry| entry.map(|entry| entry.attribute())))
    }

    /// Appends the companions with another list. It replaces their list, or is added at the end; an empty list is
    /// omitted. All other companions are copied unchanged.
    pub fn with_list(&self, companions: &[u8], list: &[u8], out: &mut Vec<u8>) {
        let (from, to) = if self.list_at == (0, 0) { (companions.len(), companions.len()) } else { self.list_at };
        out.extend_from_slice(&companions[..from]);
        put_list(list, out);
        out.extend_from_slice(&companions[to..]);
    }

    /// Returns the companions with this list instead of theirs, and an unchanged copy of every other companion for
    /// which `kept` is true.
    pub(crate) fn with_parts(&self, companions: &[u8], list: &[u8], kept: &dyn Fn(&CompanionPart) -> bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(companions.len());
        for part in parts(companions) {
            match part.kind {
                companion::LIST => put_list(list, &mut out),
                _ if kept(&part) => out.extend_from_slice(&companions[part.span]),
                _ => {}
            }
        }
        out
    }
}

/// One companion of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CompanionPart {
    /// The companion's kind byte.
    pub(crate) kind: u8,
    /// Its range, kind byte included.
    pub(crate) span: Range<usize>,
    /// Position of its content, behind kind and length.
    content: usize,
}

impl CompanionPart {
    /// Returns false if the companion's own check fails: a mark that is not a single number, or an unknown kind whose
    /// CRC does not match. Seals, lists and stamps are checked elsewhere.
    pub(crate) fn is_whole(&self, companions: &[u8]) -> bool {
        let content = &companions[self.content..self.span.end];
        match self.kind {
            companion::WORD8 | companion::WORD4 | companion::LIST | STAMP => true,
            MARKS => {
                let mut reader = Reader::new(content);
                reader.varint().is_ok() && reader.is_empty()
            }
            kind => content.split_last_chunk().is_some_and(|(said, sum)| *sum == sum_of(kind, said)),
        }
    }
}

/// Returns the CRC at the end of a companion whose kind is reserved for later versions.
pub(crate) fn sum_of(kind: u8, said: &[u8]) -> [u8; CRC_BYTES] {
    crc(0, &[&[kind], said]).to_le_bytes()
}

/// Iterates over the companions of a record, up to the first that cannot be decoded.
pub(crate) fn parts(companions: &[u8]) -> impl Iterator<Item = CompanionPart> {
    let mut reader = Reader::new(companions);
    let mut next = move || -> Result<Option<CompanionPart>> {
        // The end returns `None`, not an error: building an error would cost each verified read an allocation.
        if reader.is_empty() {
            return Ok(None);
        }
        let start = reader.position();
        let kind = reader.u8()?;
        let length = match kind {
            companion::WORD8 => 8,
            companion::WORD4 => 4,
            _ => reader.varint_len()?,
        };
        let content = reader.position();
        reader.bytes(length)?;
        Ok(Some(CompanionPart { kind, span: start..reader.position(), content }))
    };
    std::iter::from_fn(move || next().ok().flatten())
}

/// Appends companions without their stamp, otherwise unchanged. Errors: `Corruption` if they are incomplete.
pub fn put_without_stamp(companions: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (from, to) = match only_word(companions) {
        Some(_) => (0, 0),
        None => Annotations::read(companions)?.stamp_at,
    };
    out.extend_from_slice(&companions[..from]);
    out.extend_from_slice(&companions[to..]);
    Ok(())
}

/// Appends a list as a companion; an empty list is omitted.
pub fn put_list(list: &[u8], out: &mut Vec<u8>) {
    if !list.is_empty() {
        out.push(companion::LIST);
        put_bytes(out, list);
    }
}

/// The entry of one provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Annotation<'a> {
    /// Id of the provider.
    pub provider: u16,
    /// Format version of its bytes.
    pub version: u8,
    /// True if the seal covers the entry: it never changes after the write, and every replica has the same entry.
    pub sealed: bool,
    /// True if a protector that does not know the provider drops the entry from the tables it writes.
    pub discardable: bool,
    /// The provider's data.
    pub bytes: &'a [u8],
    /// Its own CRC; 0 if the seal covers the entry.
    pub sum: u32,
}

impl<'a> Annotation<'a> {
    /// Creates an entry beside a record with this key hash, and computes its CRC unless the seal covers it.
    pub fn new(provider: u16, version: u8, sealed: bool, discardable: bool, bytes: &'a [u8], key_hash: u64) -> Self {
        let entry = Annotation { provider, version, sealed, discardable, bytes, sum: 0 };
        Annotation { sum: if sealed { 0 } else { entry.sum_at(key_hash) }, ..entry }
    }

    /// Returns false if the entry's own CRC does not match beside a record with this key hash. For an entry that the
    /// seal covers, the result is always true.
    pub fn is_whole(&self, key_hash: u64) -> bool {
        self.sealed || self.sum == self.sum_at(key_hash)
    }

    /// Returns the XOR that moves the entry's CRC from one key to another.
    pub(crate) fn difference(&self, old_key_hash: u64, new_key_hash: u64) -> u32 {
        self.sum_at(old_key_hash) ^ self.sum_at(new_key_hash)
    }

    /// Returns the entry as an attribute of the seal.
    pub fn attribute(&self) -> Attribute<'a> {
        Attribute { provider: self.provider, version: self.version, bytes: self.bytes }
    }

    /// Appends the entry to a list.
    pub fn put(&self, list: &mut Vec<u8>) {
        put_varint(list, self.provider.into());
        put_varint(list, self.form());
        if self.sealed {
            return put_bytes(list, self.bytes);
        }
        put_varint(list, (self.bytes.len() + CRC_BYTES) as u64);
        list.extend_from_slice(self.bytes);
        list.extend_from_slice(&self.sum.to_le_bytes());
    }

    /// Encodes version and the two flags as one number.
    fn form(&self) -> u64 {
        u64::from(self.version) << 2 | u64::from(self.discardable) << 1 | u64::from(self.sealed)
    }

    fn sum_at(&self, key_hash: u64) -> u32 {
        let head = [u64::from(self.provider), self.form()].map(u64::to_le_bytes);
        crc(key_hash as u32, &[&head[0], &head[1], self.bytes])
    }
}

/// Iterator over a list of entries. Any bytes are accepted; the iterator ends after the first error.
#[derive(Clone, Debug)]
pub struct AnnotationIter<'a> {
    reader: Reader<'a>,
    before: Option<u16>,
}

impl<'a> AnnotationIter<'a> {
    /// Iterates over the entries of a list.
    pub fn of(list: &'a [u8]) -> AnnotationIter<'a> {
        AnnotationIter { reader: Reader::new(list), before: None }
    }

    fn read(&mut self) -> Result<Annotation<'a>> {
        let provider = self.reader.varint()?;
        let provider = u16::try_from(provider).map_err(|_| Error::structural("a provider above 16 bits"))?;
        if self.before.replace(provider).is_some_and(|before| before >= provider) {
            return Err(Error::structural("entries that do not ascend by provider"));
        }
        let form = self.reader.varint()?;
        let version = u8::try_from(form >> 2).map_err(|_| Error::structural("an entry of a version above 255"))?;
        let (sealed, discardable) = (form & 1 != 0, form & 2 != 0);
        if sealed && discardable {
            return Err(Error::structural("an entry that the seal covers cannot be left out"));
        }
        let bytes = self.reader.length_prefixed()?;
        let (bytes, sum) = match sealed {
            true => (bytes, 0),
            false => {
                let (bytes, sum) =
                    bytes.split_last_chunk().ok_or_else(|| Error::structural("an entry without its sum"))?;
                (bytes, u32::from_le_bytes(*sum))
            }
        };
        Ok(Annotation { provider, version, sealed, discardable, bytes, sum })
    }
}

impl<'a> Iterator for AnnotationIter<'a> {
    type Item = Result<Annotation<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    type Drawn = std::collections::BTreeMap<u16, (u8, bool, bool, Vec<u8>)>;

    fn drawn() -> impl Strategy<Value = Drawn> {
        btree_map(any::<u16>(), (any::<u8>(), any::<bool>(), any::<bool>(), vec(any::<u8>(), 0..40)), 0..5)
    }

    fn entries(drawn: &Drawn, key_hash: u64) -> Vec<Annotation<'_>> {
        drawn.iter().map(|(p, (v, s, d, bytes))| Annotation::new(*p, *v, *s, *d && !*s, bytes, key_hash)).collect()
    }

    fn list(entries: &[Annotation<'_>]) -> Vec<u8> {
        let mut list = Vec::new();
        entries.iter().for_each(|entry| entry.put(&mut list));
        list
    }

    proptest! {
        #[test]
        fn entries_come_back(drawn in drawn(), key_hash: u64, word: u64) {
            let entries = entries(&drawn, key_hash);
            let mut companions = [&seal_bytes(word)[..], &ADOPTED_BYTES, &[STAMP, 2, 9, 9]].concat();
            put_list(&list(&entries), &mut companions);
            let annotations = Annotations::read(&companions).unwrap();
            prop_assert_eq!((annotations.seal, annotations.is_adopted()), (Some((1, word)), true));
            prop_assert_eq!(&annotations.entries().collect::<Result<Vec<_>>>().unwrap(), &entries);
            for entry in &entries {
                prop_assert!(entry.is_whole(key_hash));
                prop_assert_eq!(annotations.entry(entry.provider).unwrap(), Some(*entry));
            }
            let attributes: Vec<_> = entries.iter().filter(|entry| entry.sealed).map(Annotation::attribute).collect();
            prop_assert_eq!(annotations.attributes().unwrap(), AttributesHash::of(&attributes).unwrap());
            // Replacing the list by itself changes no byte, and an empty list removes only the list.
            let mut again = Vec::new();
            annotations.with_list(&companions, annotations.list, &mut again);
            prop_assert_eq!(&again, &companions);
            again.clear();
            annotations.with_list(&companions, &[], &mut again);
            prop_assert_eq!(&again[..], &companions[..SEAL_BYTES + 3 + 4]);
            again.clear();
            put_without_stamp(&companions, &mut again).unwrap();
            prop_assert_eq!(&again[..], [&companions[..SEAL_BYTES + 3], &companions[SEAL_BYTES + 3 + 4..]].concat());
            prop_assert!(Annotations::read(&[&companions[..], &[STAMP, 0]].concat()).is_err());
        }

        #[test]
        fn a_flipped_bit_or_another_key_is_noticed(drawn in drawn(), key_hash: u64, bit: usize) {
            let entries = entries(&drawn, key_hash);
            let whole = list(&entries);
            prop_assume!(!whole.is_empty());
            let mut hit = whole.clone();
            let bit = bit % (hit.len() * 8);
            hit[bit / 8] ^= 1 << (bit % 8);
            let annotations = Annotations::of_list(&hit);
            let read: Result<Vec<_>> = annotations.entries().collect();
            let noticed = match &read {
                Err(_) => true,
                Ok(read) => {
                    read.iter().any(|entry| !entry.is_whole(key_hash))
                        || annotations.attributes().unwrap() != Annotations::of_list(&whole).attributes().unwrap()
                }
            };
            prop_assert!(noticed);
            if let Some(own) = entries.iter().find(|entry| !entry.sealed) {
                prop_assert!(!own.is_whole(key_hash ^ 1));
            }
        }

        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes: Vec<u8>, first in 0..7usize) {
            let kinds = [companion::WORD8, companion::WORD4, companion::LIST, 0x0F, 0x3C, 0x55, 0];
            for bytes in [bytes.clone(), [&[kinds[first]][..], &bytes].concat()] {
                if let Ok(annotations) = Annotations::read(&bytes) {
                    let _ = (annotations.attributes(), annotations.entry(1), annotations.entries().count());
                }
            }
        }
    }

    #[test]
    fn two_seals_or_two_lists_or_entries_out_of_order_are_refused() {
        let seal = seal_bytes(7);
        assert!(Annotations::read(&[seal, seal].concat()).is_err());
        let empty = [companion::LIST, 0];
        assert!(Annotations::read(&[empty, empty].concat()).is_err());
        assert!(Annotations::read(&[&seal[..], &empty].concat()).is_ok());
        let (one, two) = (Annotation::new(1, 0, true, false, b"", 0), Annotation::new(2, 0, true, false, b"", 0));
        for wrong in [[one, one], [two, one]] {
            assert!(AnnotationIter::of(&list(&wrong)).any(|entry| entry.is_err()));
        }
    }
}
