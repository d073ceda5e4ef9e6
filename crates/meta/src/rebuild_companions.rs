//! Rebuilds the companions of an intact record beside which something is damaged.
//!
//! In:     a record that reads may return, for which the protector reports `CompanionDamaged`.
//! Out:    its companions with the correct seal, without damaged parts that cannot be recomputed: a stamp, or an entry
//!         outside the seal. The removed parts are listed, so that the caller can report them.
//! Holds:  the seal has shown the record to be intact, so the correct seal can be computed from it. A part is kept only
//!         if the protector validates the record with the seal, the sealed entries and that part. The result must
//!         validate too; otherwise there is no result.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::record::{Record, companion};
use waxseal_lsm::seam::{Check, Companions, Protection};

use crate::annotations::{Annotation, Annotations, CompanionPart, MARKS, STAMP, parts};
use crate::protector::seal_of;

/// Rebuilt companions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuiltCompanions {
    /// The record's new companions.
    pub companions: Vec<u8>,
    /// True if the seal word was damaged; it has been recomputed.
    pub seal_was_hit: bool,
    /// Short names of the parts that were removed.
    pub left_out: Vec<&'static str>,
}

/// Rebuilds the companions of an intact record. Returns `None` if the record has no seal, or if its provider rejects an
/// entry that the seal covers.
pub fn rebuilt_companions(protector: &dyn Companions, record: &Record<'_>) -> Option<RebuiltCompanions> {
    let key_hash = hash(record.key);
    let annotations = Annotations::read(record.companion).ok()?;
    let (at, word) = annotations.seal?;
    let right = seal_of(record.kind, key_hash, record.value, &annotations).ok()?.at(record.seqno);
    let mut companions = record.companion.to_vec();
    companions[at..at + 8].copy_from_slice(&right.to_le_bytes());
    let is_right = |companion: &[u8]| {
        protector.verify(&Record { companion, ..*record }, key_hash, Protection::Complete) == Check::Validated
    };
    let seal_was_hit = word != right;
    if is_right(&companions) {
        return Some(RebuiltCompanions { companions, seal_was_hit, left_out: Vec::new() });
    }
    let annotations = Annotations::read(&companions).ok()?;
    let entries: Vec<Annotation<'_>> = annotations.entries().collect::<Result<_, _>>().ok()?;
    let list = |kept: &dyn Fn(&Annotation<'_>) -> bool| {
        let mut list = Vec::new();
        entries.iter().filter(|entry| kept(entry)).for_each(|entry| entry.put(&mut list));
        list
    };
    let is_word = |part: &CompanionPart| matches!(part.kind, companion::WORD8 | companion::WORD4);
    let sealed = list(&|entry| entry.sealed);
    if !is_right(&annotations.with_parts(&companions, &sealed, &is_word)) {
        return None;
    }
    let (mut stay, mut left_out) = (Vec::new(), Vec::new());
    for entry in entries.iter().filter(|entry| !entry.sealed) {
        let alone = list(&|other| other.sealed || other.provider == entry.provider);
        match is_right(&annotations.with_parts(&companions, &alone, &is_word)) {
            true => stay.push(entry.provider),
            false => left_out.push("an entry"),
        }
    }
    let mut kept = Vec::new();
    for part in parts(&companions).filter(|part| !is_word(part) && part.kind != companion::LIST) {
        match is_right(&annotations.with_parts(&companions, &sealed, &|other| is_word(other) || *other == part)) {
            true => kept.push(part),
            false => left_out.push(name_of(part.kind)),
        }
    }
    let list = list(&|entry| entry.sealed || stay.contains(&entry.provider));
    let companions = annotations.with_parts(&companions, &list, &|part| is_word(part) || kept.contains(part));
    is_right(&companions).then_some(RebuiltCompanions { companions, seal_was_hit, left_out })
}

/// Returns a short name of a companion kind.
fn name_of(kind: u8) -> &'static str {
    match kind {
        STAMP => "the stamp",
        MARKS => "the mark",
        _ => "a part that is not known here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sealer;
    use crate::annotations::{ADOPTED_BYTES, put_list, seal_bytes, sum_of};
    use crate::stamp::{Stamp, StampVerb};
    use proptest::prelude::*;
    use waxseal_lsm::record::Kind;

    /// A record with two entries of each kind, a mark and a stamp, and the end of each part.
    struct Sample {
        companions: Vec<u8>,
        seqno: u64,
    }

    const KEY: &[u8] = b"key";
    const VALUE: &[u8] = b"value";

    fn entry(provider: u16, bytes: &[u8]) -> Annotation<'_> {
        Annotation::new(provider, 0, provider < 100, false, bytes, hash(KEY))
    }

    fn sample(seqno: u64, providers: &[u16], stamped: bool) -> Sample {
        let mut list = Vec::new();
        providers.iter().for_each(|provider| entry(*provider, b"some bytes").put(&mut list));
        let seal = seal_of(Kind::Put, hash(KEY), VALUE, &Annotations::of_list(&list)).unwrap();
        let mut companions = seal_bytes(seal.at(seqno)).to_vec();
        companions.extend_from_slice(&ADOPTED_BYTES);
        put_list(&list, &mut companions);
        if stamped {
            Stamp::new(StampVerb::Update, 99 << 12, 3).put(hash(KEY), &mut companions);
        }
        Sample { companions, seqno }
    }

    fn record<'a>(companion: &'a [u8], seqno: u64) -> Record<'a> {
        Record { key: KEY, seqno, kind: Kind::Put, value: VALUE, companion }
    }

    proptest! {
        #[test]
        fn what_was_hit_goes_and_nothing_else(seqno in 1u64..1 << 56, bits in proptest::collection::vec(any::<usize>(), 1..5)) {
            let protector = Sealer::new();
            let Sample { companions, seqno } = sample(seqno, &[7, 8, 100, 101], true);
            let mut hit = companions.clone();
            for bit in bits {
                let bit = bit % (hit.len() * 8);
                hit[bit / 8] ^= 1 << (bit % 8);
            }
            let check = protector.verify(&record(&hit, seqno), hash(KEY), Protection::Complete);
            if check == Check::CompanionDamaged {
                let mended = rebuilt_companions(&protector, &record(&hit, seqno)).unwrap();
                let annotations = Annotations::read(&mended.companions).unwrap();
                let left: Vec<u16> = annotations.entries().map(|entry| entry.unwrap().provider).collect();
                prop_assert!(left.starts_with(&[7, 8]));
                let stamped = !mended.left_out.contains(&"the stamp");
                prop_assert!(mended.seal_was_hit || !mended.left_out.is_empty());
                // A flipped bit that leaves a mark a valid number cannot be detected.
                if Annotations::read(&mended.companions).unwrap().marks == 1 {
                    prop_assert_eq!(mended.left_out.len(), 4 - left.len() + usize::from(!stamped));
                    prop_assert_eq!(&mended.companions, &sample(seqno, &left, stamped).companions);
                }
            }
        }

        #[test]
        fn any_companions_are_mended_or_not(companions: Vec<u8>, seqno in 0u64..1 << 56) {
            let protector = Sealer::new();
            let with_seal = [&seal_bytes(7)[..], &companions].concat();
            for companions in [&companions, &with_seal] {
                let _ = rebuilt_companions(&protector, &record(companions, seqno));
            }
        }
    }

    /// A flipped kind byte must not turn a part into a mark or a later version's part unnoticed.
    #[test]
    fn a_part_that_looks_like_another_is_missed() {
        let protector = Sealer::new();
        let whole = sample(5, &[7, 100], true).companions;
        for part in parts(&whole).filter(|part| part.kind != companion::WORD8) {
            for kind in 0..=u8::MAX {
                let mut other = whole.clone();
                other[part.span.start] = kind;
                let check = protector.verify(&record(&other, 5), hash(KEY), Protection::Complete);
                assert_eq!(check == Check::Validated, kind == part.kind, "{:02x} as {kind:02x}", part.kind);
            }
        }
        let mut later = whole.clone();
        later.extend_from_slice(&[0x55, 7, 1, 2, 3]);
        later.extend_from_slice(&sum_of(0x55, &[1, 2, 3]));
        assert_eq!(protector.verify(&record(&later, 5), hash(KEY), Protection::Complete), Check::Validated);
        *later.last_mut().unwrap() ^= 1;
        assert_eq!(protector.verify(&record(&later, 5), hash(KEY), Protection::Complete), Check::CompanionDamaged);
        let mended = rebuilt_companions(&protector, &record(&later, 5)).unwrap();
        assert_eq!((mended.companions, mended.left_out), (whole, vec!["a part that is not known here"]));
    }

    #[test]
    fn each_part_alone() {
        let protector = Sealer::new();
        let whole = sample(5, &[7, 100], true).companions;
        let after = |hit: &[u8]| rebuilt_companions(&protector, &record(hit, 5)).unwrap();
        let mut hit = whole.clone();
        hit[3] ^= 5;
        let seal = after(&hit);
        assert_eq!((seal.companions == whole, seal.seal_was_hit, seal.left_out.len()), (true, true, 0));
        let mut hit = whole.clone();
        *hit.last_mut().unwrap() ^= 0xFF;
        let stamp = after(&hit);
        assert_eq!(stamp.companions, sample(5, &[7, 100], false).companions);
        assert_eq!((stamp.seal_was_hit, stamp.left_out), (false, vec!["the stamp"]));
        let text = whole.windows(10).rposition(|bytes| bytes == b"some bytes").unwrap();
        let mut hit = whole.clone();
        hit[text..text + 10].fill(b'!');
        let label = after(&hit);
        assert_eq!(label.companions, sample(5, &[7], true).companions);
        assert_eq!(label.left_out, vec!["an entry"]);
        hit[1] ^= 1;
        assert!(after(&hit).seal_was_hit);
    }
}
