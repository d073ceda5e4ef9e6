//! What stands beside a record: its seal, marks, a stamp, and a list of typed entries. docs/format.md, section 7. Pure.
//!
//! In:     the companions of a record, any bytes.
//! Out:    where its seal stands, what its marks say, its entries; or that they cannot be decoded.
//! Holds:  a length is held against what remains before it is used (I10). At most one seal, one list, one stamp; entries ascend
//!         by provider, each once. An entry says itself whether the seal covers it and whether a keeper that does not know it may
//!         leave it out, so that it can be checked and carried by one that has never heard of its provider.
//!
//! An entry outside of the seal has a CRC of its own, started from the hash of its record's key, so that neither a flipped bit
//! nor another record's entry passes. An entry inside has none: the seal speaks for it.

use std::ops::Range;

use waxseal_lsm::checksum::crc;
use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::companion;

use crate::seal::{Attribute, AttributesHash};
use crate::stamp::{self, SHORT_BYTES};

/// Bytes of a seal as a companion: its kind and its word.
pub use waxseal_lsm::record::companion::WORD8_BYTES as SEAL_BYTES;
/// The kind of the companion that holds marks, and the mark of a record whose seal was made by a flush or compaction, since it came
/// without one.
pub use waxseal_lsm::record::companion::{ADOPTED, MARKS};

/// The kind of the companion that says who wrote a record that is watched, and when. `stamp` reads it.
pub const STAMP: u8 = 0x3C;

/// The mark of an adopted record, as a companion.
pub const ADOPTED_BYTES: [u8; 3] = [MARKS, 1, ADOPTED as u8];

/// Bytes of a seal and a stamp as short as nearly all.
const STAMPED_BYTES: usize = SEAL_BYTES + SHORT_BYTES;

/// Bytes of the CRC behind an entry that the seal does not cover.
const CRC_BYTES: usize = 4;

/// The companions of one record, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beside<'a> {
    /// Where the eight bytes of the seal's word stand among the companions, and the word.
    pub seal: Option<(usize, u64)>,
    /// Bits that say how the record came here.
    pub marks: u64,
    /// The bytes of the list of entries.
    pub list: &'a [u8],
    /// What the stamp says, with its check.
    pub stamp: Option<&'a [u8]>,
    /// Where the list's companion stands, kind byte included.
    list_at: (usize, usize),
    /// Where the stamp's companion stands, kind byte included.
    stamp_at: (usize, usize),
}

/// The word of companions that are a seal and nothing else: what nearly every record has.
#[inline]
pub fn only_word(companions: &[u8]) -> Option<u64> {
    match companions {
        [companion::WORD8, a, b, c, d, e, f, g, h] => Some(u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
        _ => None,
    }
}

/// Word and stamp of companions that are a seal and one stamp behind it: what nearly every record that is watched has.
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

/// Word of companions that are a seal and behind it a stamp as short as nearly all, and these companions.
#[inline]
pub(crate) fn word_and_short_stamp(companions: &[u8]) -> Option<(u64, &[u8; STAMPED_BYTES])> {
    let both: &[u8; STAMPED_BYTES] = companions.try_into().ok()?;
    let (seal, stamp) = both.split_first_chunk::<SEAL_BYTES>()?;
    if stamp.starts_with(&[STAMP, (SHORT_BYTES - 2) as u8]) { Some((only_word(seal)?, both)) } else { None }
}

/// The word of companions that are a seal and nothing else, or a stamp behind it.
#[inline]
pub fn usual_word(companions: &[u8]) -> Option<u64> {
    only_word(companions).or_else(|| Some(word_and_stamp(companions)?.0))
}

/// True unless companions are plainly without a list of entries.
#[inline]
pub fn may_have_entries(companions: &[u8]) -> bool {
    companions.len() > SEAL_BYTES && word_and_stamp(companions).is_none()
}

/// A word as a companion.
#[inline]
pub fn seal_bytes(word: u64) -> [u8; SEAL_BYTES] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [companion::WORD8, a, b, c, d, e, f, g, h]
}

impl<'a> Beside<'a> {
    /// Takes companions apart. Errors: `Corruption` if they are not whole, or if there are two seals, lists or stamps.
    pub fn read(companions: &'a [u8]) -> Result<Beside<'a>> {
        let mut reader = Reader::new(companions);
        let mut beside = Beside::default();
        while !reader.is_empty() {
            let start = reader.position();
            let kind = reader.u8()?;
            match kind {
                companion::WORD8 => {
                    let at = reader.position();
                    if beside.seal.replace((at, reader.u64()?)).is_some() {
                        return Err(Error::structural("a record with two seals"));
                    }
                }
                companion::WORD4 => {
                    reader.u32()?;
                }
                companion::LIST => {
                    beside.list = reader.length_prefixed()?;
                    if beside.list_at != (0, 0) {
                        return Err(Error::structural("a record with two lists of entries"));
                    }
                    beside.list_at = (start, reader.position());
                }
                STAMP => {
                    if beside.stamp.replace(reader.length_prefixed()?).is_some() {
                        return Err(Error::structural("a record with two stamps"));
                    }
                    beside.stamp_at = (start, reader.position());
                }
                // One that is not one number says nothing: see `Part::is_whole`.
                MARKS => beside.marks |= Reader::new(reader.length_prefixed()?).varint().unwrap_or(0),
                kind if companion::begins(kind) => {
                    reader.length_prefixed()?;
                }
                _ => return Err(Error::structural("bytes that are no companion")),
            }
        }
        Ok(beside)
    }

    /// A list and nothing else.
    pub fn of_list(list: &'a [u8]) -> Beside<'a> {
        Beside { list, ..Beside::default() }
    }

    /// True if the record was adopted.
    pub fn is_adopted(&self) -> bool {
        self.marks & ADOPTED != 0
    }

    /// The entries of the list, ascending by provider.
    pub fn entries(&self) -> Entries<'a> {
        Entries { reader: Reader::new(self.list), before: None }
    }

    /// False if anything among these companions says itself that it was hit, beside a record whose key has this hash: then it may have been
    /// what is missed there.
    pub(crate) fn is_whole(&self, companions: &[u8], key_hash: u64) -> bool {
        parts(companions).all(|part| part.is_whole(companions))
            && self.entries().all(|entry| entry.is_ok_and(|entry| entry.is_whole(key_hash)))
            && self.stamp.is_none_or(|content| stamp::is_whole(content, key_hash))
    }

    /// The stamp's content, and where it begins among the companions.
    pub(crate) fn stamp_content(&self) -> Option<(usize, &'a [u8])> {
        self.stamp.map(|content| (self.stamp_at.1 - content.len(), content))
    }

    /// The entries of the list, each with the place among the companions at which it ends.
    pub(crate) fn entry_ends(&self) -> impl Iterator<Item = (usize, Result<Entry<'a>>)> {
        let (mut entries, start) = (self.entries(), self.list_at.1 - self.list.len());
        std::iter::from_fn(move || {
            let entry = entries.next()?;
            Some((start + entries.reader.position(), entry))
        })
    }

    /// The entry of one provider. Errors: `Corruption` if the list cannot be decoded, wherever in it.
    pub fn entry(&self, provider: u16) -> Result<Option<Entry<'a>>> {
        let mut found = None;
        for entry in self.entries() {
            let entry = entry?;
            if entry.provider == provider {
                found = Some(entry);
            }
        }
        Ok(found)
    }

    /// The hash of the entries that the seal covers; none if there are none.
    pub fn attributes(&self) -> Result<Option<AttributesHash>> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let covered = self.entries().filter(|entry| entry.as_ref().map_or(true, |entry| entry.sealed));
        AttributesHash::of_each(covered.map(|entry| entry.map(|entry| entry.attribute())))
    }

    /// Appends the companions with another list in the place of theirs, or behind them if they have none; without one if it is
    /// empty. Everything else goes on byte by byte.
    pub fn with_list(&self, companions: &[u8], list: &[u8], out: &mut Vec<u8>) {
        let (from, to) = if self.list_at == (0, 0) { (companions.len(), companions.len()) } else { self.list_at };
        out.extend_from_slice(&companions[..from]);
        put_list(list, out);
        out.extend_from_slice(&companions[to..]);
    }

    /// The companions with this list in the place of theirs, and those others that are `kept`, byte by byte.
    pub(crate) fn with_parts(&self, companions: &[u8], list: &[u8], kept: &dyn Fn(&Part) -> bool) -> Vec<u8> {
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
pub(crate) struct Part {
    /// What it is.
    pub(crate) kind: u8,
    /// Where it stands, kind byte included.
    pub(crate) span: Range<usize>,
    /// Where its bytes begin, behind kind and length.
    content: usize,
}

impl Part {
    /// False if it speaks for itself, and says that it was hit: a mark that is not one number, or a companion of a kind that is not
    /// known here whose sum is not right.
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

/// The sum at the end of a companion of a kind for later versions.
pub(crate) fn sum_of(kind: u8, said: &[u8]) -> [u8; CRC_BYTES] {
    crc(0, &[&[kind], said]).to_le_bytes()
}

/// The companions of a record, one behind the other; what cannot be told apart ends them.
pub(crate) fn parts(companions: &[u8]) -> impl Iterator<Item = Part> {
    let mut reader = Reader::new(companions);
    let mut next = move || -> Result<Option<Part>> {
        // The end is not an error, which a verified read of such a record would pay for with its allocations.
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
        Ok(Some(Part { kind, span: start..reader.position(), content }))
    };
    std::iter::from_fn(move || next().ok().flatten())
}

/// Appends companions without their stamp; everything else goes on byte by byte. Errors: `Corruption` if they are not whole.
pub fn put_without_stamp(companions: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (from, to) = match only_word(companions) {
        Some(_) => (0, 0),
        None => Beside::read(companions)?.stamp_at,
    };
    out.extend_from_slice(&companions[..from]);
    out.extend_from_slice(&companions[to..]);
    Ok(())
}

/// Appends a list as a companion; nothing if it is empty.
pub fn put_list(list: &[u8], out: &mut Vec<u8>) {
    if !list.is_empty() {
        out.push(companion::LIST);
        put_bytes(out, list);
    }
}

/// What one provider keeps beside a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Who defines it.
    pub provider: u16,
    /// Which form its bytes have.
    pub version: u8,
    /// True if the seal covers it: it never changes after the write, and holds on every replica.
    pub sealed: bool,
    /// True if a keeper that does not know the provider leaves it out of the tables it writes.
    pub discardable: bool,
    /// What it says.
    pub bytes: &'a [u8],
    /// Its own CRC; 0 if the seal covers it.
    pub sum: u32,
}

impl<'a> Entry<'a> {
    /// An entry beside a record whose key has this hash, with the CRC it needs.
    pub fn new(provider: u16, version: u8, sealed: bool, discardable: bool, bytes: &'a [u8], key_hash: u64) -> Self {
        let entry = Entry { provider, version, sealed, discardable, bytes, sum: 0 };
        Entry { sum: if sealed { 0 } else { entry.sum_at(key_hash) }, ..entry }
    }

    /// True unless the entry's own CRC, beside a record whose key has this hash, says otherwise. Of an entry that the seal covers only
    /// the seal can say it.
    pub fn is_whole(&self, key_hash: u64) -> bool {
        self.sealed || self.sum == self.sum_at(key_hash)
    }

    /// What is added to the CRC of an entry that goes from beside one key to beside another.
    pub(crate) fn difference(&self, old_key_hash: u64, new_key_hash: u64) -> u32 {
        self.sum_at(old_key_hash) ^ self.sum_at(new_key_hash)
    }

    /// The same as an attribute of the seal.
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

    /// Version and the two flags, one number.
    fn form(&self) -> u64 {
        u64::from(self.version) << 2 | u64::from(self.discardable) << 1 | u64::from(self.sealed)
    }

    fn sum_at(&self, key_hash: u64) -> u32 {
        let head = [u64::from(self.provider), self.form()].map(u64::to_le_bytes);
        crc(key_hash as u32, &[&head[0], &head[1], self.bytes])
    }
}

/// Walks a list of entries; any bytes are walked or refused. After an error it is at its end.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
    before: Option<u16>,
}

impl<'a> Entries<'a> {
    /// The entries of a list.
    pub fn of(list: &'a [u8]) -> Entries<'a> {
        Entries { reader: Reader::new(list), before: None }
    }

    fn read(&mut self) -> Result<Entry<'a>> {
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
        Ok(Entry { provider, version, sealed, discardable, bytes, sum })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>>;

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

    fn entries(drawn: &Drawn, key_hash: u64) -> Vec<Entry<'_>> {
        drawn.iter().map(|(p, (v, s, d, bytes))| Entry::new(*p, *v, *s, *d && !*s, bytes, key_hash)).collect()
    }

    fn list(entries: &[Entry<'_>]) -> Vec<u8> {
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
            let beside = Beside::read(&companions).unwrap();
            prop_assert_eq!((beside.seal, beside.is_adopted()), (Some((1, word)), true));
            prop_assert_eq!(&beside.entries().collect::<Result<Vec<_>>>().unwrap(), &entries);
            for entry in &entries {
                prop_assert!(entry.is_whole(key_hash));
                prop_assert_eq!(beside.entry(entry.provider).unwrap(), Some(*entry));
            }
            let attributes: Vec<_> = entries.iter().filter(|entry| entry.sealed).map(Entry::attribute).collect();
            prop_assert_eq!(beside.attributes().unwrap(), AttributesHash::of(&attributes).unwrap());
            // The same list in the same place is the same bytes, and no list is all but the list.
            let mut again = Vec::new();
            beside.with_list(&companions, beside.list, &mut again);
            prop_assert_eq!(&again, &companions);
            again.clear();
            beside.with_list(&companions, &[], &mut again);
            prop_assert_eq!(&again[..], &companions[..SEAL_BYTES + 3 + 4]);
            again.clear();
            put_without_stamp(&companions, &mut again).unwrap();
            prop_assert_eq!(&again[..], [&companions[..SEAL_BYTES + 3], &companions[SEAL_BYTES + 3 + 4..]].concat());
            prop_assert!(Beside::read(&[&companions[..], &[STAMP, 0]].concat()).is_err());
        }

        #[test]
        fn a_flipped_bit_or_another_key_is_noticed(drawn in drawn(), key_hash: u64, bit: usize) {
            let entries = entries(&drawn, key_hash);
            let whole = list(&entries);
            prop_assume!(!whole.is_empty());
            let mut hit = whole.clone();
            let bit = bit % (hit.len() * 8);
            hit[bit / 8] ^= 1 << (bit % 8);
            let beside = Beside::of_list(&hit);
            let read: Result<Vec<_>> = beside.entries().collect();
            let noticed = match &read {
                Err(_) => true,
                Ok(read) => {
                    read.iter().any(|entry| !entry.is_whole(key_hash))
                        || beside.attributes().unwrap() != Beside::of_list(&whole).attributes().unwrap()
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
                if let Ok(beside) = Beside::read(&bytes) {
                    let _ = (beside.attributes(), beside.entry(1), beside.entries().count());
                }
            }
        }
    }

    #[test]
    fn two_seals_or_two_lists_or_entries_out_of_order_are_refused() {
        let seal = seal_bytes(7);
        assert!(Beside::read(&[seal, seal].concat()).is_err());
        let empty = [companion::LIST, 0];
        assert!(Beside::read(&[empty, empty].concat()).is_err());
        assert!(Beside::read(&[&seal[..], &empty].concat()).is_ok());
        let (one, two) = (Entry::new(1, 0, true, false, b"", 0), Entry::new(2, 0, true, false, b"", 0));
        for wrong in [[one, one], [two, one]] {
            assert!(Entries::of(&list(&wrong)).any(|entry| entry.is_err()));
        }
    }
}
