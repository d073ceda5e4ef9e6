//! Verdicts: what a seal and its record say together. Pure.
//!
//! In:     what was found in the place of the seal, whether its file claims to be complete, and the word that the record
//!         asks for as it lies there.
//! Out:    a verdict, and from it what is to be done.
//!
//! A word that differs from the right one in a few bits has itself been hit: a damaged record would ask for a word that
//! differs in about half of them. (Five or more bits apart: the record is taken to be damaged. A damaged record comes as near
//! as four bits with a chance of 4e-14.) The paper instead keeps a checksum of the checksum, and has four branches; they are
//! `paper`, for the store that follows it to the letter.

/// A word at most so many bits from the right one is a right one that was hit.
pub const NEAR_BITS: u32 = 4;

/// What is so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Verdict {
    /// Record and seal agree.
    Validated,
    /// Record and seal agree; the checksum of the checksum does not (only the paper's store has one).
    CheckDamaged,
    /// The record is what was written, its seal was hit.
    SealDamaged,
    /// The seal is what was written, the record is not.
    RecordDamaged,
    /// Neither speaks for the other.
    BothDamaged,
    /// A file in which every record has a seal, and this one has none.
    Missing,
    /// There is no seal to check by, and none was promised.
    Unverified,
    /// What stands there cannot be decoded.
    Structural,
}

/// What a verdict asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing.
    None,
    /// Write the seal, or the checksum of it, anew from the record, which is right.
    Rewrite,
    /// Repair; and until then answer corruption.
    Repair,
}

impl Verdict {
    /// What is to be done.
    pub fn action(self) -> Action {
        match self {
            Verdict::Validated | Verdict::Unverified => Action::None,
            Verdict::CheckDamaged | Verdict::SealDamaged => Action::Rewrite,
            Verdict::RecordDamaged | Verdict::BothDamaged | Verdict::Missing | Verdict::Structural => Action::Repair,
        }
    }

    /// True if the record may be returned.
    pub fn serves(self) -> bool {
        self.action() != Action::Repair
    }
}

/// What stands in the place of a seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Bytes that are no companions, or two seals.
    Undecodable,
    /// Nothing.
    Nothing,
    /// A word.
    Word(u64),
}

/// The verdict on a record that asks for the word `current`, from a file that is complete or not.
pub fn judge(found: Found, complete: bool, current: u64) -> Verdict {
    match found {
        Found::Undecodable => Verdict::Structural,
        Found::Nothing if complete => Verdict::Missing,
        Found::Nothing => Verdict::Unverified,
        Found::Word(word) if word == current => Verdict::Validated,
        Found::Word(word) if (word ^ current).count_ones() <= NEAR_BITS => Verdict::SealDamaged,
        Found::Word(_) => Verdict::RecordDamaged,
    }
}

/// The paper's four branches, and the fifth case that it passes over in silence: `word` with `check`, its checksum by `sum`,
/// beside a record that asks for `current`.
pub fn paper(word: u64, check: u64, current: u64, sum: impl Fn(u64) -> u64) -> Verdict {
    match (word == current, check == sum(word)) {
        (true, true) => Verdict::Validated,
        (true, false) => Verdict::CheckDamaged,
        (false, true) => Verdict::RecordDamaged,
        (false, false) if check == sum(current) => Verdict::SealDamaged,
        (false, false) => Verdict::BothDamaged,
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
            (Found::Word(right), false, Verdict::Validated, Action::None),
            (Found::Word(right), true, Verdict::Validated, Action::None),
            (Found::Word(right ^ 1), true, Verdict::SealDamaged, Action::Rewrite),
            (Found::Word(right ^ 0x8000_0001_0010_0000), true, Verdict::SealDamaged, Action::Rewrite),
            (Found::Word(right ^ 0xF), true, Verdict::SealDamaged, Action::Rewrite),
            (Found::Word(right ^ 0x1F), true, Verdict::RecordDamaged, Action::Repair),
            (Found::Word(!right), false, Verdict::RecordDamaged, Action::Repair),
            (Found::Nothing, true, Verdict::Missing, Action::Repair),
            (Found::Nothing, false, Verdict::Unverified, Action::None),
            (Found::Undecodable, false, Verdict::Structural, Action::Repair),
            (Found::Undecodable, true, Verdict::Structural, Action::Repair),
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
            (right, sum(right), right, Verdict::Validated, true),
            (right, noise, right, Verdict::CheckDamaged, true),
            (right, sum(right), wrong, Verdict::RecordDamaged, false),
            (wrong, sum(right), right, Verdict::SealDamaged, true),
            (wrong, noise, right, Verdict::BothDamaged, false),
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
            let expected = if hits.len() <= 4 { Verdict::SealDamaged } else { Verdict::RecordDamaged };
            prop_assert_eq!(judge(Found::Word(word), true, current), expected);
        }

        #[test]
        fn a_damaged_record_is_not_taken_for_a_damaged_seal(key: Vec<u8>, value in proptest::collection::vec(any::<u8>(), 1..100), bit: usize) {
            let word = crate::Seal::of(&key, &value).at(9);
            let mut damaged = value.clone();
            let bit = bit % (damaged.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(judge(Found::Word(word), true, crate::Seal::of(&key, &damaged).at(9)), Verdict::RecordDamaged);
        }
    }
}
