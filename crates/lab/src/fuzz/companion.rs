//! Entry points for fuzzers: companions of any bytes are decoded or rejected, and never make a damaged record validate.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::pointer::Pointer;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::{Build, Check, Companions, Protection};

use waxseal_meta::Sealer;
use waxseal_meta::annotations::{Annotations, put_without_stamp};
use waxseal_meta::builtin::standard;
use waxseal_meta::reading::meta_of;
use waxseal_meta::seal::{Attribute, AttributesHash, Seal};
use waxseal_meta::stamp::Stamp;

/// Input: six bytes of choices, a key and a value with one length byte each, and companions.
pub fn fuzz_companion(bytes: &[u8]) {
    let Some((choices, rest)) = bytes.split_first_chunk::<6>() else { return };
    let (Some((key, rest)), Some((seqno, _))) = (prefixed(rest), choices.split_first_chunk::<4>()) else { return };
    let Some((value, companions)) = prefixed(rest) else { return };
    let kind = [Kind::Put, Kind::Delete, Kind::Merge, Kind::BlobPointer][usize::from(choices[4] & 3)];
    let record = Record { key, seqno: u32::from_le_bytes(*seqno).into(), kind, value, companion: companions };
    let sealer = Sealer::new().with(standard());
    as_it_is(&sealer, &record);
    let mut mended = companions.to_vec();
    if mend(&record, &mut mended) {
        changed(&sealer, &Record { companion: &mended, ..record }, choices[5]);
    }
}

/// Checks invariants for arbitrary companions.
fn as_it_is(sealer: &Sealer, record: &Record<'_>) {
    let key_hash = hash(record.key);
    let check = sealer.verify(record, key_hash, Protection::Complete);
    if matches!(check, Check::Validated) {
        assert_eq!(Sealer::seal_of(record).ok().flatten(), asked_for(record), "a wrong word is validated");
    }
    assert_eq!(sealer.verify(record, key_hash, Protection::Foreign), Check::Unverified);
    let _ = (Sealer::is_adopted(record), sealer.expired(record, &|| u64::MAX));
    (0..6).for_each(|provider| drop(meta_of(record, provider)));
    stamped(sealer, record, check);
    // Binding to another seqno keeps the term, and binding back restores the companions.
    let (term, mut moved) = (sealer.term(record), record.companion.to_vec());
    sealer.bind(&mut moved, Some(record.seqno), MAX_SEQNO);
    assert_eq!(sealer.term(&Record { seqno: MAX_SEQNO, companion: &moved, ..*record }), term);
    sealer.bind(&mut moved, Some(MAX_SEQNO), record.seqno);
    assert_eq!(moved, record.companion);
    for source in [Protection::None, Protection::Complete, Protection::Foreign] {
        let mut out = Vec::new();
        if sealer.on_build(record, source, &mut out) != Build::Keep {
            let built = sealer.verify(&Record { companion: &out, ..*record }, key_hash, Protection::Complete);
            let may_fail = matches!(check, Check::Corrupted); // a new list beside a word that was wrong before
            assert!(built.serves() || may_fail, "what was built is {built:?}");
            assert!(source != Protection::Foreign || may_fail || Annotations::read(record.companion).is_ok());
        }
    }
}

/// Checks stamps: an intact stamp is encoded again unchanged and does not change the verdict on its record. With
/// another key everything intact stays intact, and damage stays detectable.
fn stamped(sealer: &Sealer, record: &Record<'_>, check: Check) {
    let (key_hash, other) = (hash(record.key), b"another key".as_slice());
    if let Ok(Some(stamp)) = Stamp::of(record.companion, key_hash) {
        let mut bare = Vec::new();
        put_without_stamp(record.companion, &mut bare).expect("companions that were read");
        let of_bare = sealer.verify(&Record { companion: &bare, ..*record }, key_hash, Protection::Complete);
        assert_eq!(of_bare, check, "a right stamp changes what a record is");
        stamp.put(key_hash, &mut bare);
        assert_eq!(Stamp::of(&bare, key_hash).ok().flatten(), Some(stamp));
    }
    let mut moved = record.companion.to_vec();
    sealer.rekey(&mut moved, record.key, other);
    let elsewhere = Record { key: other, companion: &moved, ..*record };
    assert_eq!(sealer.verify(&elsewhere, hash(other), Protection::Complete), check);
    sealer.rekey(&mut moved, other, record.key);
    assert_eq!(moved, record.companion);
}

/// Checks an intact record, then flips one bit that its seal covers.
fn changed(sealer: &Sealer, record: &Record<'_>, choice: u8) {
    let right = sealer.verify(record, hash(record.key), Protection::Complete);
    assert!(matches!(right, Check::Validated | Check::CompanionDamaged), "a right record is {right:?}");
    let flipped = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let at = usize::from(choice) % bytes.len().max(1);
        bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (choice & 7));
        bytes
    };
    let (key, value): (Vec<u8>, Vec<u8>) = (flipped(record.key), flipped(record.value));
    let seqno: Seqno = record.seqno ^ 1 << (choice % 56);
    let others = [
        Record { key: &key, ..*record },
        Record { value: &value, ..*record },
        Record { seqno, ..*record },
        Record { kind: Kind::RangeDelete, ..*record },
    ];
    for other in others.iter().filter(|other| *other != record) {
        let check = sealer.verify(other, hash(other.key), Protection::Complete);
        assert_eq!(check, Check::Corrupted, "{other:?}");
    }
}

/// Writes the correct word into the seal; returns false if there is no seal.
fn mend(record: &Record<'_>, companions: &mut [u8]) -> bool {
    let (Ok(Some((at, _))), Some(seal)) =
        (Annotations::read(companions).map(|annotations| annotations.seal), asked_for(record))
    else {
        return false;
    };
    companions[at..at + 8].copy_from_slice(&seal.at(record.seqno).to_le_bytes());
    true
}

/// Computes the seal independently of the protector's code.
fn asked_for(record: &Record<'_>) -> Option<Seal> {
    let annotations = Annotations::read(record.companion).ok()?;
    let entries: Vec<_> = annotations.entries().collect::<Result<_, _>>().ok()?;
    let covered: Vec<Attribute<'_>> =
        entries.iter().filter(|entry| entry.sealed).map(|entry| entry.attribute()).collect();
    let value_hash = match record.kind {
        Kind::BlobPointer => Pointer::decode(record.value).ok()?.value_hash,
        _ => hash(record.value),
    };
    let seal = Seal::of_hashes(record.kind, hash(record.key), value_hash);
    Some(match AttributesHash::of(&covered).ok()? {
        None => seal,
        Some(attributes) => seal.with(attributes),
    })
}

fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked((*length).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use waxseal_meta::annotations::{ADOPTED_BYTES, Annotation, put_list, seal_bytes};
    use waxseal_meta::stamp::{StampValues, StampVerb, Via};

    fn stamps() -> impl Strategy<Value = Stamp> {
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

    /// Companions that are likely to decode.
    fn companions() -> impl Strategy<Value = Vec<u8>> {
        let entries = vec((any::<bool>(), any::<bool>(), vec(any::<u8>(), 0..12)), 0..5).prop_map(|entries| {
            let (mut list, mut out) = (Vec::new(), Vec::new());
            for (provider, (sealed, discardable, bytes)) in (1..).zip(&entries) {
                Annotation::new(provider, 0, *sealed, *discardable && !*sealed, bytes, hash(b"k")).put(&mut list);
            }
            put_list(&list, &mut out);
            out
        });
        let parts = vec(
            prop_oneof![
                any::<u64>().prop_map(|word| seal_bytes(word).to_vec()),
                Just(ADOPTED_BYTES.to_vec()),
                entries,
                stamps().prop_map(|stamp| {
                    let mut out = Vec::new();
                    stamp.put(hash(b"k"), &mut out);
                    out
                }),
                vec(any::<u8>(), 0..12),
                Just(vec![0xF0, 1, 2, 3, 4, 0x55, 1, 7]),
            ],
            0..4,
        );
        parts.prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn companions_of_every_shape(choices: [u8; 6], key in prop_oneof![Just(b"k".to_vec()), vec(any::<u8>(), 0..9)], value in vec(any::<u8>(), 0..40), companions in companions()) {
            let parts = [&choices[..], &[key.len() as u8], &key, &[value.len() as u8], &value, &companions];
            fuzz_companion(&parts.concat());
        }

        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            fuzz_companion(&bytes);
        }
    }

    #[test]
    fn the_seeds_pass() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/companion");
        let (fs, mut seen) = (waxseal_lsm::env::Env::real().fs, 0);
        for name in fs.list(folder.as_ref()).unwrap() {
            let path = std::path::Path::new(folder).join(name);
            let file = fs.open(&path, waxseal_lsm::env::Open::Read).unwrap();
            let bytes = waxseal_lsm::env::read_exact(&*file, 0, file.len().unwrap() as usize).unwrap();
            fuzz_companion(&bytes);
            seen += 1;
        }
        assert!(seen >= 5);
    }
}
