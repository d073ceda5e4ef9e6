//! Question: does a checksum that XORs the hashes of a record's parts identify the record?
//! Protocol: the paper's formula, XXH3(key) ^ XXH3(value) ^ XXH3(seqno) ^ XXH3(type), and ours, on records whose parts
//!           cancel: value equal to the key, seqno equal to the key, key and value exchanged; and a key that flips
//!           during the paper's compaction, which finds no companion for it, takes it for a record of an old node and
//!           computes a new checksum.
//! Passes:   the paper's formula misses all these cases (otherwise it is not the paper's formula); ours misses none.

use super::Run;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lsm::checksum::{hash, hash_key};
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::{Companions, Protection};
use waxseal_meta::{Seal, Sealer};

/// Records per case at scale 1.
const FULL: u64 = 100_000;

/// The type byte of a put in the paper's store.
const PAPER_PUT: u8 = 1;

/// A written record, and the one found in its place.
struct Exchanged {
    written: (Vec<u8>, Vec<u8>, Seqno),
    found: (Vec<u8>, Vec<u8>, Seqno),
    /// The paper's store computes a new checksum for the record it finds.
    recreated: bool,
}

type Maker = fn(&mut Random) -> Exchanged;

const CASES: [(&str, Maker); 4] = [
    ("value_equals_key", value_equals_key),
    ("seqno_equals_key", seqno_equals_key),
    ("key_and_value_exchanged", exchanged),
    ("key_flipped_in_compaction", flipped_in_compaction),
];

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let trials = run.size(FULL, 1_000);
    let mut gates = Vec::new();
    for (case, (name, maker)) in CASES.iter().enumerate() {
        let mut random = Random::stream(run.seed, case as u64);
        let (mut missed_by_paper, mut missed_by_us) = (0, 0);
        for _ in 0..trials {
            let exchanged = maker(&mut random);
            missed_by_paper += u64::from(is_missed_by_paper(&exchanged));
            missed_by_us += u64::from(is_missed_by_us(&exchanged));
        }
        println!("{name}: of {trials} the paper's checksum misses {missed_by_paper}, ours {missed_by_us}");
        gates.push(run.counted_share(
            &format!("paper_misses.{name}"),
            "share_as_predicted",
            missed_by_paper,
            trials,
            100.0,
        ));
        gates.push(run.none(&format!("ours_misses.{name}"), "records", missed_by_us, trials, trials));
    }
    Ok(gates)
}

fn paper(key: &[u8], value: &[u8], seqno: Seqno) -> u64 {
    hash(key) ^ hash(value) ^ hash(&seqno.to_le_bytes()) ^ hash(&[PAPER_PUT])
}

fn is_missed_by_paper(exchanged: &Exchanged) -> bool {
    let [written, found] = [&exchanged.written, &exchanged.found].map(|(key, value, seqno)| paper(key, value, *seqno));
    exchanged.recreated || written == found
}

fn is_missed_by_us(exchanged: &Exchanged) -> bool {
    let (key, value, seqno) = &exchanged.written;
    let mut companion = vec![waxseal_lsm::record::companion::WORD8];
    companion.extend(Seal::of(key, value).at(*seqno).to_le_bytes());
    let (key, value, seqno) = &exchanged.found;
    let found = Record { key, seqno: *seqno, kind: Kind::Put, value, companion: &companion };
    Sealer::new().verify(&found, hash_key(key), Protection::Complete).serves()
}

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.word() as u8).collect()
}

fn value_equals_key(random: &mut Random) -> Exchanged {
    let length = 1 + random.below(40) as usize;
    let (one, other) = (bytes(random, length), bytes(random, length + 1));
    let seqno = random.below(MAX_SEQNO);
    Exchanged { written: (one.clone(), one, seqno), found: (other.clone(), other, seqno), recreated: false }
}

fn seqno_equals_key(random: &mut Random) -> Exchanged {
    let (one, other) = (random.below(MAX_SEQNO), random.below(MAX_SEQNO - 1));
    let other = if other == one { other + 1 } else { other };
    let value = bytes(random, 100);
    let key = |seqno: Seqno| seqno.to_le_bytes().to_vec();
    Exchanged { written: (key(one), value.clone(), one), found: (key(other), value, other), recreated: false }
}

fn exchanged(random: &mut Random) -> Exchanged {
    let (key, value) = (bytes(random, 20), bytes(random, 100));
    let seqno = random.below(MAX_SEQNO);
    Exchanged { written: (key.clone(), value.clone(), seqno), found: (value, key, seqno), recreated: false }
}

fn flipped_in_compaction(random: &mut Random) -> Exchanged {
    let (key, value) = (bytes(random, 20), bytes(random, 100));
    let seqno = random.below(MAX_SEQNO);
    let mut flipped = key.clone();
    let bit = random.below(160) as usize;
    flipped[bit / 8] ^= 1 << (bit % 8);
    Exchanged { written: (key, value.clone(), seqno), found: (flipped, value, seqno), recreated: true }
}
