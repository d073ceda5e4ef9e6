//! Verdicts on a record and its seal. Pure.
//!
//! In:     the stored seal, if any; whether the file guarantees seals; the word computed from the record.
//! Out:    a verdict, and the action that it requires.
//!
//! A stored word that differs from the computed one in at most four bits was itself damaged, because a damaged record
//! changes about half of the computed bits. At five or more differing bits the record counts as damaged. A damaged
//! record comes within four bits with probability 4e-14. The paper instead stores a checksum of the checksum and has
//! four branches; `paper` implements them for the store that follows it exactly.

/// A stored word at most this many bits from the computed one counts as a damaged seal of an intact record.
pub const NEAR_BITS: u32 = 4;

/// The result of comparing a record with its seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SealVerdict {
    /// Record and seal agree.
    Validated,
    /// Record and seal agree, but the seal's own checksum does not match; only the paper's store has such a checksum.
    CheckDamaged,
    /// The record is intact; its seal is damaged.
    SealDamaged,
    /// The seal is intact; the record is damaged.
    RecordDamaged,
    /// Record, seal and the seal's checksum all disagree.
    BothDamaged,
    /// The record has no seal, but its file guarantees one for every record.
    Missing,
    /// The record has no seal, and its source does not guarantee one.
    Unverified,
    /// The companions cannot be decoded.
    Structural,
}

/// The action that a verdict requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// No action.
    None,
    /// Rewrite the seal, or its checksum, from the intact record.
    Rewrite,
    /// Repair the record; until then reads of it return `Corruption`.
    Repair,
}

impl SealVerdict {
    /// Returns the required action.
    pub fn action(self) -> Action {
        match self {
            SealVerdict::Validated | SealVerdict::Unverified => Action::None,
            SealVerdict::CheckDamaged | SealVerdict::SealDamaged => Action::Rewrite,
            SealVerdict::RecordDamaged | SealVerdict::BothDamaged | SealVerdict::Missing | SealVerdict::Structural => {
                Action::Repair
            }
        }
    }

    /// Returns true if reads may return the record.
    pub fn serves(self) -> bool {
        self.action() != Action::Repair
    }
}

/// The content at the position of a seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundSeal {
    /// Bytes that are no companions, or two seals.
    Undecodable,
    /// No seal.
    Nothing,
    /// A seal word.
    Word(u64),
}

/// Returns the verdict on a record whose computed word is `current`. `complete`: its file guarantees seals.
pub fn judge(found: FoundSeal, complete: bool, current: u64) -> SealVerdict {
    match found {
        FoundSeal::Undecodable => SealVerdict::Structural,
        FoundSeal::Nothing if complete => SealVerdict::Missing,
        FoundSeal::Nothing => SealVerdict::Unverified,
        FoundSeal::Word(word) if word == current => SealVerdict::Validated,
        FoundSeal::Word(word) if (word ^ current).count_ones() <= NEAR_BITS => SealVerdict::SealDamaged,
        FoundSeal::Word(_) => SealVerdict::RecordDamaged,
    }
}

/// Returns the paper's verdict: its four branches, and the fifth case that it does not mention. `word` is the stored
/// checksum, `check` its stored checksum (computed by `sum`), and `current` the word computed from the record.
pub fn paper(word: u64, check: u64, current: u64, sum: impl Fn(u64) -> u64) -> SealVerdict {
    match (word == current, check == sum(word)) {
        (true, true) => SealVerdict::Validated,
        (true, false) => SealVerdict::CheckDamaged,
        (false, true) => SealVerdict::RecordDamaged,
        (false, false) if check == sum(current) => SealVerdict::SealDamaged,
        (false, false) => SealVerdict::BothDamaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::checksum::mix;

    #[test]
    fn every_row_of_the_table() {
        let right = 0x0123_4567_89AB_CDEF;
        let rows = [
            (FoundSeal::Word(right), false, SealVerdict::Validated, Action::None),
            (FoundSeal::Word(right), true, SealVerdict::Validated, Action::None),
            (FoundSeal::Word(right ^ 1), true, SealVerdict::SealDamaged, Action::Rewrite),
            (FoundSeal::Word(right ^ 0x8000_0001_0010_0000), true, SealVerdict::SealDamaged, Action::Rewrite),
            (FoundSeal::Word(right ^ 0xF), true, SealVerdict::SealDamaged, Action::Rewrite),
            (FoundSeal::Word(right ^ 0x1F), true, SealVerdict::RecordDamaged, Action::Repair),
            (FoundSeal::Word(!right), false, SealVerdict::RecordDamaged, Action::Repair),
            (FoundSeal::Nothing, true, SealVerdict::Missing, Action::Repair),
            (FoundSeal::Nothing, false, SealVerdict::Unverified, Action::None),
            (FoundSeal::Undecodable, false, SealVerdict::Structural, Action::Repair),
            (FoundSeal::Undecodable, true, SealVerdict::Structural, Action::Repair),
        ];
        for (found, complete, verdict, action) in rows {
            assert_eq!(judge(found, complete, right), verdict, "{found:?}, complete: {complete}");
            assert_eq!(verdict.action(), action);
            assert_eq!(verdict.serves(), action != Action::Repair);
        }
    }

    #[test]
    fn every_branch_of_the_paper() {
        let sum = |word| mix(word ^ 7);
        let (right, wrong, noise) = (11, 12, 13);
        let rows = [
            (right, sum(right), right, SealVerdict::Validated, true),
            (right, noise, right, SealVerdict::CheckDamaged, true),
            (right, sum(right), wrong, SealVerdict::RecordDamaged, false),
            (wrong, sum(right), right, SealVerdict::SealDamaged, true),
            (wrong, noise, right, SealVerdict::BothDamaged, false),
        ];
        for (word, check, current, verdict, serves) in rows {
            assert_eq!(paper(word, check, current, sum), verdict);
            assert_eq!(verdict.serves(), serves);
        }
    }

    proptest! {
        #[test]
        fn a_seal_hit_up_to_four_times_is_known_for_what_it_is(current: u64, hits in proptest::collection::btree_set(0..64u32, 1..9)) {
            let word = hits.iter().fold(current, |word, bit| word ^ 1 << bit);
            let expected = if hits.len() <= 4 { SealVerdict::SealDamaged } else { SealVerdict::RecordDamaged };
            prop_assert_eq!(judge(FoundSeal::Word(word), true, current), expected);
        }

        #[test]
        fn a_damaged_record_is_not_taken_for_a_damaged_seal(key: Vec<u8>, value in proptest::collection::vec(any::<u8>(), 1..100), bit: usize) {
            let word = crate::Seal::of(&key, &value).at(9);
            let mut damaged = value.clone();
            let bit = bit % (damaged.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(judge(FoundSeal::Word(word), true, crate::Seal::of(&key, &damaged).at(9)), SealVerdict::RecordDamaged);
        }
    }
}
