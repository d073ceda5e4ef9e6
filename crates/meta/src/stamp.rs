//! Stamps: the session and time of a write to a watched key, and the form of its event row. docs/format.md, section
//! 7.2.
//!
//! In:     the registry's result for an operation; companions, any bytes.
//! Out:    a companion of at most 16 bytes for most records; a decoded stamp, or an error if it is damaged.
//! Holds:  the seal does not cover the stamp, so a record has the same seal whether or not it is watched. The stamp's
//!         own check starts from the hash of the record's key, so it detects both flipped bits and a stamp moved from
//!         another record. A stamp is never exported; within its store it follows its record.
//! Crash:  the stamp is in the log frame of its operation: a crash leaves both or neither.

use std::num::NonZero;

use waxseal_lsm::codec::{Reader, put_varint};
use waxseal_lsm::error::{Damage, Error, Result, Verdict};
use waxseal_lsm::record::Record;

use crate::annotations::{Annotations, SEAL_BYTES, STAMP, may_have_entries, only_word, word_and_stamp};
use crate::stamp_check::{CHECK_BYTES, LEAST_BYTES, SHORT_BYTES, check_of, is_whole};

/// Length of the longest stamp, without kind and length: two bytes of flags, and each number at its longest.
const MOST_BYTES: usize = 2 + 8 + 10 + 10 + CHECK_BYTES;

/// Length of the longest stamp as a companion.
pub const MAX_BYTES: usize = 2 + MOST_BYTES;

const ELSEWHERE: u64 = 1 << 6;
const HISTORY: u64 = 1 << 7;
const RETENTION: u64 = 1 << 8;
const KNOWN: u64 = (1 << 9) - 1;

/// The change that an operation made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum StampVerb {
    /// A key was written; an older value is not known.
    Insert = 1,
    /// A value was overwritten.
    Update = 2,
    /// A key was deleted.
    Delete = 3,
}

/// Which values the event row shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum StampValues {
    /// No value.
    #[default]
    None = 0,
    /// The new value.
    New = 1,
    /// The old and the new value.
    OldNew = 2,
    /// The seals of both values instead of the values.
    Hash = 3,
}

/// The registration that made the key a target and decides how the operation is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Via {
    /// The key's own registration.
    #[default]
    Key = 0,
    /// The registration of its family.
    Family = 1,
    /// The registration of the cluster.
    Cluster = 2,
}

/// The stamp of a watched record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The change that was made.
    pub verb: StampVerb,
    /// Which values the event row shows.
    pub values: StampValues,
    /// The registration that applied.
    pub via: Via,
    /// True if the row is written with the record or by a queue, so that no flush emits it.
    pub elsewhere: bool,
    /// True if the older version that this record hides must be kept.
    pub history: bool,
    /// Time of the write: microseconds since 1970 << 12 | count. docs/format.md, section 9.5.
    pub time: u64,
    /// Id of the writing session; 0 if no session was given.
    pub session: u64,
    /// How many microseconds the event row is kept; `None` means forever.
    pub retention: Option<u64>,
}

/// The part of a stamp that is known before the write, so that a caller with many writes encodes it once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blank {
    /// Never 0: the flags contain the verb.
    flags: NonZero<u64>,
    /// Valid only if the flags contain `RETENTION`.
    retention: u64,
}

impl Stamp {
    /// Creates a stamp for a key's own registration; a flush emits its row, without values.
    pub fn new(verb: StampVerb, time: u64, session: u64) -> Stamp {
        let (values, via) = (StampValues::None, Via::Key);
        Stamp { verb, values, via, elsewhere: false, history: false, time, session, retention: None }
    }

    /// Returns the time of the write in microseconds since 1970.
    pub fn micros(&self) -> u64 {
        self.time >> 12
    }

    /// Appends the stamp as a companion; `key_hash` is the `checksum::hash` of the record's key.
    pub fn put(&self, key_hash: u64, out: &mut Vec<u8>) {
        self.blank().put(self.time, self.session, key_hash, out);
    }

    /// Returns the stamp without its time and session.
    pub fn blank(&self) -> Blank {
        Blank { flags: self.flags(), retention: self.retention.unwrap_or_default() }
    }

    /// Returns the stamp among the companions of a record, or `None`. `key_hash` is the hash of the record's key.
    /// Errors: `Corruption` if the companions cannot be decoded, or if the stamp or any companion that may have been
    /// the stamp is damaged.
    #[inline]
    pub fn of(companions: &[u8], key_hash: u64) -> Result<Option<Stamp>> {
        match Stamp::standing(companions, key_hash)? {
            None if may_have_entries(companions) && !Annotations::read(companions)?.is_whole(companions, key_hash) => {
                Err(hit())
            }
            stamp => Ok(stamp),
        }
    }

    /// Returns the stamp even if other companions are damaged, for callers that copy records and check each companion
    /// separately. Errors: `Corruption` if the companions cannot be decoded, or if the stamp is damaged.
    #[inline]
    pub fn standing(companions: &[u8], key_hash: u64) -> Result<Option<Stamp>> {
        if only_word(companions).is_some() || companions.is_empty() {
            return Ok(None);
        }
        let content = match word_and_stamp(companions) {
            Some((_, content)) => Some(content),
            None => Annotations::read(companions)?.stamp,
        };
        content.map(|content| Stamp::read(content, key_hash).ok_or_else(hit)).transpose()
    }

    /// Decodes a stamp from its content (without kind and length) beside a record with this key hash; `None` if the
    /// content is damaged.
    pub fn read(content: &[u8], key_hash: u64) -> Option<Stamp> {
        if !is_whole(content, key_hash) {
            return None;
        }
        let mut reader = Reader::new(&content[..content.len() - CHECK_BYTES]);
        let flags = reader.varint().ok()?;
        let verb = match flags & 3 {
            1 => StampVerb::Insert,
            2 => StampVerb::Update,
            3 => StampVerb::Delete,
            _ => return None,
        };
        let values = match flags >> 2 & 3 {
            0 => StampValues::None,
            1 => StampValues::New,
            2 => StampValues::OldNew,
            _ => StampValues::Hash,
        };
        let via = match flags >> 4 & 3 {
            0 => Via::Key,
            1 => Via::Family,
            2 => Via::Cluster,
            _ => return None,
        };
        let (time, session) = (reader.u64().ok()?, reader.varint().ok()?);
        let retention = if flags & RETENTION == 0 { None } else { Some(reader.varint().ok()?) };
        let (elsewhere, history) = (flags & ELSEWHERE != 0, flags & HISTORY != 0);
        let is_all = reader.is_empty() && flags <= KNOWN;
        is_all.then_some(Stamp { verb, values, via, elsewhere, history, time, session, retention })
    }

    fn flags(&self) -> NonZero<u64> {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        let verb = NonZero::new(self.verb as u64).unwrap_or(NonZero::<u64>::MIN); // no verb is 0
        let words = (self.values as u64) << 2 | (self.via as u64) << 4;
        let bits = bit(self.elsewhere, ELSEWHERE) | bit(self.history, HISTORY);
        verb | words | bits | bit(self.retention.is_some(), RETENTION)
    }
}

impl Blank {
    /// The blank of an insert with default flags.
    pub const LEAST: Blank = Blank { flags: NonZero::<u64>::MIN, retention: 0 };

    /// Appends the stamp with this time and session, as `Stamp::put` does.
    #[inline]
    pub fn put(self, time: u64, session: u64, key_hash: u64, out: &mut Vec<u8>) {
        let flags = self.flags.get();
        if flags >= 0x80 || session >= 0x80 {
            return self.put_long(time, session, key_hash, out);
        }
        // Most stamps have the minimum length: they are assembled in registers, without growing a buffer.
        let said = u128::from(flags) | u128::from(time) << 8 | u128::from(session) << 72;
        let [a, b, c] = check_of(&said.to_le_bytes()[..LEAST_BYTES - CHECK_BYTES], key_hash);
        let check = u32::from_le_bytes([a, b, c, 0]);
        let head = u16::from_le_bytes([STAMP, LEAST_BYTES as u8]);
        let stamp = u128::from(head) | said << 16 | u128::from(check) << 96;
        out.extend_from_slice(&stamp.to_le_bytes()[..SHORT_BYTES]);
    }

    #[cold]
    #[inline(never)]
    fn put_long(self, time: u64, session: u64, key_hash: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&[STAMP, 0]);
        let start = out.len();
        put_varint(out, self.flags.get());
        out.extend_from_slice(&time.to_le_bytes());
        put_varint(out, session);
        if self.flags.get() & RETENTION != 0 {
            put_varint(out, self.retention);
        }
        let check = check_of(&out[start..], key_hash);
        out.extend_from_slice(&check);
        out[start - 1] = (out.len() - start) as u8; // at most MOST_BYTES
    }
}

/// Returns true if a stamp asks for the version below its record to be kept. The caller must verify the check
/// separately.
fn says_history(content: &[u8]) -> bool {
    Reader::new(content).varint().is_ok_and(|flags| flags & HISTORY != 0)
}

/// Returns true if a record's stamp asks for the version below it to be kept.
#[inline]
pub fn has_history(record: &Record<'_>) -> bool {
    if record.companion.len() <= SEAL_BYTES {
        return false;
    }
    match word_and_stamp(record.companion) {
        Some((_, content)) => says_history(content),
        None => {
            Annotations::read(record.companion).is_ok_and(|annotations| annotations.stamp.is_some_and(says_history))
        }
    }
}

#[cold]
fn hit() -> Error {
    let damage = Damage { verdict: Verdict::Checksum, ..Damage::default() };
    Error::corruption(damage, "a stamp beside a record does not fit its check")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use waxseal_lsm::checksum::hash;

    use crate::annotations::{Annotation, put_list, seal_bytes, sum_of};
    use proptest::prelude::*;

    pub(crate) fn drawn() -> impl Strategy<Value = Stamp> {
        let verb = prop_oneof![Just(StampVerb::Insert), Just(StampVerb::Update), Just(StampVerb::Delete)];
        let values = prop_oneof![
            Just(StampValues::None),
            Just(StampValues::New),
            Just(StampValues::OldNew),
            Just(StampValues::Hash)
        ];
        let via = prop_oneof![Just(Via::Key), Just(Via::Family), Just(Via::Cluster)];
        let session = prop_oneof![0..16_384u64, any::<u64>()];
        (verb, values, via, any::<(bool, bool, u64)>(), session, any::<Option<u64>>()).prop_map(
            |(verb, values, via, (elsewhere, history, time), session, retention)| Stamp {
                verb,
                values,
                via,
                elsewhere,
                history,
                time,
                session,
                retention,
            },
        )
    }

    fn bytes(stamp: &Stamp, key_hash: u64) -> Vec<u8> {
        let mut out = Vec::new();
        stamp.put(key_hash, &mut out);
        out
    }

    #[test]
    fn the_vector_of_the_format_page() {
        let page = include_str!("../../../docs/format.md");
        let stamp = Stamp { values: StampValues::New, ..Stamp::new(StampVerb::Update, 1_510_051_314_000_000 << 12, 7) };
        let hex: Vec<String> = bytes(&stamp, hash(b"apple")).iter().map(|byte| format!("{byte:02X}")).collect();
        let line = format!("`{}`", hex.join(" "));
        assert!(page.contains(&line), "{line}");
    }

    #[test]
    fn there_is_no_stamp_only_if_nothing_that_was_hit_may_have_been_one() {
        let key_hash = hash(b"key");
        let (mut entries, mut list) = (Vec::new(), Vec::new());
        Annotation::new(4, 0, false, false, b"label", key_hash).put(&mut entries);
        put_list(&entries, &mut list);
        let sealed = |rest: &[u8]| [&seal_bytes(7)[..], rest].concat();
        let later = [&[0x55, 5, 1][..], &sum_of(0x55, &[1])].concat();
        for (mut companions, last) in [(sealed(&list), list.len()), (sealed(&later), later.len())] {
            assert_eq!(Stamp::of(&companions, key_hash).unwrap(), None);
            for at in companions.len() - last + 3..companions.len() {
                companions[at] ^= 0x40;
                assert!(Stamp::of(&companions, key_hash).is_err(), "{companions:02x?}");
                assert_eq!(Stamp::standing(&companions, key_hash).ok().flatten(), None);
                companions[at] ^= 0x40;
            }
        }
        let mut stamped = sealed(&bytes(&Stamp::new(StampVerb::Update, 7, 7), key_hash));
        let is_whole = |companions: &[u8]| Annotations::read(companions).unwrap().is_whole(companions, key_hash);
        assert!(is_whole(&stamped));
        *stamped.last_mut().unwrap() ^= 1;
        assert!(!is_whole(&stamped), "what it had swallowed is not there either");
    }

    proptest! {
        #[test]
        fn a_stamp_comes_back(stamp in drawn(), key_hash: u64, word: u64) {
            let alone = bytes(&stamp, key_hash);
            let small = stamp.session < 16_384 && !stamp.history && stamp.retention.is_none();
            let most = if small { 16 } else { MAX_BYTES };
            prop_assert!(alone.len() <= most);
            for companions in [alone.clone(), [&seal_bytes(word)[..], &alone].concat(), [&alone[..], &[0x55, 1, 2]].concat()] {
                prop_assert_eq!(Stamp::of(&companions, key_hash).unwrap(), Some(stamp));
                prop_assert!(Stamp::of(&companions, !key_hash).is_err());
            }
            prop_assert_eq!(says_history(&alone[2..]), stamp.history);
            prop_assert_eq!(Stamp::of(&seal_bytes(word), key_hash).unwrap(), None);
        }

        #[test]
        fn a_flipped_bit_is_noticed(stamp in drawn(), key_hash: u64, word: u64, bit: usize) {
            let mut companions = [&seal_bytes(word)[..], &bytes(&stamp, key_hash)].concat();
            let bits = (companions.len() - SEAL_BYTES - 2) * 8; // a flipped kind or length is not a stamp
            let bit = (SEAL_BYTES + 2) * 8 + bit % bits;
            companions[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Stamp::of(&companions, key_hash).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(content: Vec<u8>, key_hash: u64, flags: u16) {
            let _ = (Stamp::read(&content, key_hash), Stamp::of(&content, key_hash), says_history(&content));
            // The same with a matching check: impossible contents are rejected too.
            let mut said = Vec::new();
            put_varint(&mut said, flags.into());
            said.extend_from_slice(&content);
            let check = check_of(&said, key_hash);
            said.extend_from_slice(&check);
            if let Some(stamp) = Stamp::read(&said, key_hash) {
                let again = bytes(&stamp, key_hash);
                prop_assert_eq!(Stamp::read(&again[2..], key_hash), Some(stamp));
            }
        }
    }
}
