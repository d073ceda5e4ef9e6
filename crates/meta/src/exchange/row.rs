//! The paper's row: a tombstone of `key ‖ 01` whose value has the checksum of one version of `key`. docs/format.md,
//! section 8.1.
//!
//! ```text
//! key ‖ 01   DELETE   seqno of the version | word | check         each u64, low first
//! word  = hash(key) ^ hash(value) ^ hash(seqno) ^ hash(kind)      check = hash(word)
//! ```
//!
//! The formula is the paper's, with its weaknesses: equal parts cancel (a key equal to its value, or to its seqno's
//! bytes, contributes nothing), and exchanged parts are not detected. Seals have neither weakness.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::record::{Kind, Record, Seqno};

/// The byte appended to a key to form its row's key.
pub const MARK: u8 = 1;

/// Length of a row's value.
pub const ROW_BYTES: usize = 24;

/// Prefix of the value of a row for all versions of its key.
pub const SAFE_MAGIC: &[u8; 8] = b"WAXSAFE1";

/// Computes the paper's checksum of a version.
pub fn word(key: &[u8], value: &[u8], seqno: Seqno, kind: Kind) -> u64 {
    hash(key) ^ hash(value) ^ hash(&seqno.to_le_bytes()) ^ hash(&[kind as u8])
}

/// Computes the paper's checksum of the checksum.
pub fn check(word: u64) -> u64 {
    hash(&word.to_le_bytes())
}

/// The stored checksum of one version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredChecksum {
    /// The seqno of the version.
    pub seqno: Seqno,
    /// Its checksum, as `word` computes it.
    pub word: u64,
    /// The checksum of `word`.
    pub check: u64,
}

impl StoredChecksum {
    /// Computes the row content of a record.
    pub fn of(record: &Record<'_>) -> StoredChecksum {
        StoredChecksum::new(record.seqno, word(record.key, record.value, record.seqno, record.kind))
    }

    /// Creates the row content for a version with this seqno and checksum.
    pub fn new(seqno: Seqno, word: u64) -> StoredChecksum {
        StoredChecksum { seqno, word, check: check(word) }
    }

    /// Encodes the 24 bytes.
    pub fn encode(&self) -> [u8; ROW_BYTES] {
        let mut out = [0; ROW_BYTES];
        for (at, part) in [self.seqno, self.word, self.check].into_iter().enumerate() {
            out[8 * at..8 * at + 8].copy_from_slice(&part.to_le_bytes());
        }
        out
    }

    /// Decodes 24 bytes; `None` for any other length.
    pub fn decode(bytes: &[u8]) -> Option<StoredChecksum> {
        let mut reader = Reader::new(bytes);
        let stored = StoredChecksum { seqno: reader.u64().ok()?, word: reader.u64().ok()?, check: reader.u64().ok()? };
        reader.is_empty().then_some(stored)
    }
}

/// Returns the key of the rows of a key.
pub fn key_of(key: &[u8]) -> Vec<u8> {
    [key, &[MARK]].concat()
}

/// Encodes the value of a row for several versions, newest first.
pub fn encode_safe(versions: &[StoredChecksum]) -> Vec<u8> {
    let mut out = SAFE_MAGIC.to_vec();
    versions.iter().for_each(|version| out.extend_from_slice(&version.encode()));
    out
}

/// The rule that distinguishes rows from users' tombstones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowForm {
    /// As in the paper: every tombstone whose key ends in 01 is a row, even a user's.
    Faithful,
    /// As in the paper, but only with a value of exactly 24 bytes.
    Literal,
    /// One row for all versions of a key, at seqno 0, with a magic prefix.
    Safe,
}

impl RowForm {
    /// Decodes a row: its user key and its checksums, possibly none. `None` if the record is not a row.
    pub fn read<'a>(self, record: &Record<'a>) -> Option<(&'a [u8], Vec<StoredChecksum>)> {
        let (last, key) = record.key.split_last()?;
        if *last != MARK || record.kind != Kind::Delete {
            return None;
        }
        let one = || StoredChecksum::decode(record.value).map(|stored| vec![stored]);
        let stored = match self {
            RowForm::Faithful => one().unwrap_or_default(),
            RowForm::Literal => one()?,
            RowForm::Safe => {
                let versions = record.value.strip_prefix(SAFE_MAGIC)?;
                if record.seqno != 0 || !versions.len().is_multiple_of(ROW_BYTES) {
                    return None;
                }
                versions.chunks_exact(ROW_BYTES).filter_map(StoredChecksum::decode).collect()
            }
        };
        Some((key, stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seal;
    use proptest::prelude::*;

    fn tombstone<'a>(key: &'a [u8], seqno: Seqno, value: &'a [u8]) -> Record<'a> {
        Record { key, seqno, kind: Kind::Delete, value, companion: &[] }
    }

    /// Changes that the paper's formula misses and a seal detects.
    #[test]
    fn the_papers_formula_misses_what_cancels_and_what_is_swapped() {
        let paper = |key: &[u8], value: &[u8], seqno| word(key, value, seqno, Kind::Put);
        let ours = |key: &[u8], value: &[u8], seqno| Seal::of(key, value).at(seqno);
        // Key and value equal: every pair of equal parts has the same checksum.
        assert_eq!(paper(b"alice", b"alice", 7), paper(b"mallory", b"mallory", 7));
        assert_ne!(ours(b"alice", b"alice", 7), ours(b"mallory", b"mallory", 7));
        // A key equal to its seqno's bytes, both damaged alike: again the parts cancel.
        let key = |seqno: Seqno| seqno.to_le_bytes();
        assert_eq!(paper(&key(7), b"v", 7), paper(&key(8), b"v", 8));
        assert_ne!(ours(&key(7), b"v", 7), ours(&key(8), b"v", 8));
        // Key and value exchanged.
        assert_eq!(paper(b"from", b"to", 7), paper(b"to", b"from", 7));
        assert_ne!(ours(b"from", b"to", 7), ours(b"to", b"from", 7));
        // Changes that it detects.
        assert_ne!(paper(b"alice", b"bob", 7), paper(b"alice", b"rob", 7));
        assert_ne!(paper(b"alice", b"bob", 7), paper(b"alice", b"bob", 6));
        assert_ne!(word(b"a", b"b", 7, Kind::Put), word(b"a", b"b", 7, Kind::Delete));
    }

    #[test]
    fn a_users_own_tombstone_is_a_row_to_the_paper_only() {
        let own = tombstone(b"x\x01", 9, b"");
        assert_eq!(RowForm::Faithful.read(&own), Some((&b"x"[..], vec![])));
        assert_eq!(RowForm::Literal.read(&own), None);
        assert_eq!(RowForm::Safe.read(&own), None);
        let put = Record { kind: Kind::Put, ..own };
        assert!([RowForm::Faithful, RowForm::Literal, RowForm::Safe].iter().all(|form| form.read(&put).is_none()));
        assert_eq!(RowForm::Faithful.read(&tombstone(b"", 9, b"")), None);
    }

    #[test]
    fn the_vector_of_the_format_page() {
        let page = include_str!("../../../../docs/format.md");
        let record = Record { key: b"apple", seqno: 7, kind: Kind::Put, value: b"red", companion: &[] };
        let stored = StoredChecksum::of(&record);
        let row = format!("| `apple` | `red` | 7 | {:016X} | {:016X} |", stored.word, stored.check);
        assert!(page.contains(&row), "{row}");
    }

    proptest! {
        #[test]
        fn rows_come_back(versions: Vec<(u64, u64)>) {
            let versions: Vec<StoredChecksum> = versions.into_iter().map(|(seqno, word)| StoredChecksum::new(seqno, word)).collect();
            let safe = encode_safe(&versions);
            prop_assert_eq!(RowForm::Safe.read(&tombstone(b"k\x01", 0, &safe)), Some((&b"k"[..], versions.clone())));
            for version in versions {
                let bytes = version.encode();
                prop_assert_eq!(RowForm::Literal.read(&tombstone(b"k\x01", 3, &bytes)), Some((&b"k"[..], vec![version])));
            }
        }

        #[test]
        fn any_bytes_are_a_row_or_not(key: Vec<u8>, value: Vec<u8>, seqno in 0..3u64) {
            for form in [RowForm::Faithful, RowForm::Literal, RowForm::Safe] {
                if let Some((of, _)) = form.read(&tombstone(&key, seqno, &value)) {
                    prop_assert_eq!(key_of(of), key.clone());
                }
            }
        }
    }
}
