//! Question: does every combination of seal and record get the required verdict and action?
//! Protocol: the paper's four branches and the fifth case that it does not mention, on words with a checksum of the
//!           checksum; and ours, on records in a real table file: record and seal are damaged in place, and all
//!           checksums of the file are recomputed, so that only the seal can detect the damage. Each row is repeated
//!           many times with random bits.
//! Passes:   every verdict and action matches its row; the table's own check rejects records that must not be
//!           returned.

use super::Run;
use std::path::Path;
use std::sync::Arc;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lab::faults::anatomy::{Anatomy, Entry, mend};
use waxseal_lab::faults::protectors::judged;
use waxseal_lsm::checksum::mix;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::options::CfOptions;
use waxseal_lsm::order::Order;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_lsm::sst::{Cache, Table, Writer, WriterSettings};
use waxseal_meta::Sealer;
use waxseal_meta::verdict::{Action, SealVerdict, paper};
use waxseal_testing::harness;
use waxseal_testing::records::Owned;

/// Repetitions of each row at scale 1.
const FULL: u64 = 2_000;

const DIR: &str = "/tables";
const RECORDS: u64 = 8;

/// A row of ours: the damage to one record of a file.
struct Row {
    name: &'static str,
    damage: fn(&mut Vec<u8>, &Entry, &mut Random),
    /// Whether the file guarantees a seal for every record, and whether the record got one.
    complete: bool,
    sealed: bool,
    verdict: SealVerdict,
    action: Action,
}

const ROWS: [Row; 9] = [
    row("untouched", |_, _, _| {}, SealVerdict::Validated, Action::None),
    row(
        "value",
        |file, entry, random| flip(file, entry.value.clone(), 1, random),
        SealVerdict::RecordDamaged,
        Action::Repair,
    ),
    row(
        "key",
        |file, entry, random| flip(file, entry.suffix.clone(), 1, random),
        SealVerdict::RecordDamaged,
        Action::Repair,
    ),
    row(
        "seal_1_bit",
        |file, entry, random| flip_word(file, entry, 1, random),
        SealVerdict::SealDamaged,
        Action::Rewrite,
    ),
    row(
        "seal_4_bits",
        |file, entry, random| flip_word(file, entry, 4, random),
        SealVerdict::SealDamaged,
        Action::Rewrite,
    ),
    row(
        "seal_12_bits",
        |file, entry, random| flip_word(file, entry, 12, random),
        SealVerdict::RecordDamaged,
        Action::Repair,
    ),
    row(
        "record_and_seal",
        |file, entry, random| {
            flip(file, entry.value.clone(), 1, random);
            flip_word(file, entry, 1, random);
        },
        SealVerdict::RecordDamaged,
        Action::Repair,
    ),
    Row { sealed: false, ..row("missing", |_, _, _| {}, SealVerdict::Missing, Action::Repair) },
    Row { sealed: false, complete: false, ..row("unverified", |_, _, _| {}, SealVerdict::Unverified, Action::None) },
];

const fn row(
    name: &'static str,
    damage: fn(&mut Vec<u8>, &Entry, &mut Random),
    verdict: SealVerdict,
    action: Action,
) -> Row {
    Row { name, damage, complete: true, sealed: true, verdict, action }
}

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let trials = run.size(FULL, 50);
    let mut gates = vec![of_the_paper(run, trials)];
    for (number, row) in ROWS.iter().enumerate() {
        let mut random = Random::stream(run.seed, number as u64);
        let (mut other, mut passed_over) = (0, 0);
        for _ in 0..trials {
            let (verdict, refused) = ours(row, &mut random)?;
            other += u64::from((verdict, verdict.action()) != (row.verdict, row.action));
            // A walk over the file rejects records that must not be returned.
            passed_over += u64::from(row.action == Action::Repair && !refused);
        }
        println!("{}: {:?}, {:?}", row.name, row.verdict, row.action);
        gates.push(run.none(row.name, "other_verdicts", other, trials, trials));
        gates.push(run.none(&format!("{}.refused", row.name), "passed_by_the_table", passed_over, trials, trials));
    }
    let mut random = Random::stream(run.seed, 99);
    let mut decoded = 0;
    for _ in 0..trials {
        decoded += u64::from(!undecodable(&mut random)?);
    }
    println!("undecodable: Structural");
    gates.push(run.none("undecodable", "not_refused", decoded, trials, trials));
    Ok(gates)
}

/// The paper's branches: (word matches, checksum of the checksum matches the word or its correct value).
fn of_the_paper(run: &Run, trials: u64) -> Gate {
    let sum = |word: u64| mix(word ^ 0x51);
    let mut random = Random::stream(run.seed, 5);
    let mut other = 0;
    for _ in 0..trials {
        let [right, wrong, noise] = [random.word(), random.word(), random.word()];
        let rows = [
            (right, sum(right), right, SealVerdict::Validated, Action::None),
            (right, noise, right, SealVerdict::CheckDamaged, Action::Rewrite),
            (right, sum(right), wrong, SealVerdict::RecordDamaged, Action::Repair),
            (wrong, sum(right), right, SealVerdict::SealDamaged, Action::Rewrite),
            (wrong, noise, right, SealVerdict::BothDamaged, Action::Repair),
        ];
        other += rows
            .iter()
            .filter(|(word, check, current, verdict, action)| {
                let found = paper(*word, *check, *current, sum);
                (found, found.action()) != (*verdict, *action)
            })
            .count() as u64;
    }
    run.none("paper", "other_verdicts", other, 5 * trials, 5 * trials)
}

/// Flips this number of distinct bits.
fn flip(file: &mut [u8], span: std::ops::Range<usize>, bits: u64, random: &mut Random) {
    let mut chosen = std::collections::BTreeSet::new();
    while (chosen.len() as u64) < bits.min(span.len() as u64 * 8) {
        chosen.insert(random.below(span.len() as u64 * 8));
    }
    for bit in chosen {
        file[span.start + (bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

fn flip_word(file: &mut [u8], entry: &Entry, bits: u64, random: &mut Random) {
    flip(file, entry.companions.end - 8..entry.companions.end, bits, random);
}

/// Returns the bytes of a table of sealed records. Without `sealed`, record `struck` has no seal.
fn table(random: &mut Random, struck: u64, sealed: bool) -> Outcome<Vec<u8>> {
    let sim = SimFs::new(1);
    let protector = Sealer::new();
    sim.create_dir_all(Path::new(DIR))?;
    let path = Path::new(DIR).join("000001.tbl");
    let file = sim.open(&path, Open::Create)?;
    let options = CfOptions { restart_interval: 1, ..harness::options() };
    let settings = WriterSettings::of(&options, 0, 1);
    let uid = waxseal_lsm::checksum::Uid(std::array::from_fn(|_| random.word() as u8));
    let mut writer = Writer::new(file, uid, settings, Arc::new(Plain));
    for n in 0..RECORDS {
        let mut record =
            Owned::born(&protector, format!("key{:08}", n * 100).as_bytes(), 1 + n, &random.word().to_le_bytes())?;
        if n == struck && !sealed {
            record.companion.clear();
        }
        writer.add(&record.record())?;
    }
    writer.finish()?;
    Ok(sim.read_all(&path)?)
}

/// Returns the verdict on the damaged record, and whether the table's own walk rejects the file.
fn ours(row: &Row, random: &mut Random) -> Outcome<(SealVerdict, bool)> {
    let struck = 1 + random.below(RECORDS - 2);
    let mut bytes = table(random, struck, row.sealed)?;
    let anatomy = Anatomy::read(&bytes)?;
    let entry = anatomy.entries().nth(struck as usize).ok_or("a record that is not there")?.clone();
    if row.complete && !row.sealed {
        promise(&mut bytes, &anatomy)?;
    }
    // A key flipped out of order is a separate case: here it stays between its neighbors.
    loop {
        let mut damaged = bytes.clone();
        (row.damage)(&mut damaged, &entry, random);
        if in_order(&damaged, &anatomy) {
            bytes = damaged;
            break;
        }
    }
    mend(&mut bytes, &anatomy)?;
    let sim = SimFs::new(1);
    sim.create_dir_all(Path::new(DIR))?;
    let name = "000001.tbl".to_owned();
    let path = Path::new(DIR).join(&name);
    sim.write_all(&path, &bytes)?;
    let file = sim.open(&path, Open::Read)?;
    let expected = Table::identify(&name, &*file)?;
    let (cache, sealer) = (Arc::new(Cache::new(0)), Arc::new(Sealer::new()));
    let table = Table::open(name, file, expected, Order::bytewise(), cache, sealer.clone() as Arc<dyn Companions>)?;
    let refused = table.verify(&*sealer, &mut |_| Ok(())).is_err();
    // Reads the record without the table's checks.
    let plain = {
        let file = sim.open(&path, Open::Read)?;
        let cache = Arc::new(Cache::new(0));
        Table::open("000001.tbl".into(), file, expected, Order::bytewise(), cache, Arc::new(Plain))?
    };
    let mut cursor = plain.cursor(false);
    cursor.first()?;
    for _ in 0..struck {
        cursor.next()?;
    }
    Ok((judged(&cursor.record(), row.complete), refused))
}

/// Sets the property that every record has a seal.
fn promise(bytes: &mut [u8], anatomy: &Anatomy) -> Outcome<()> {
    use waxseal_lsm::codec::Reader;
    let end = anatomy.properties.end - 5;
    let mut reader = Reader::starting_at(&bytes[..end], anatomy.properties.start);
    while !reader.is_empty() {
        let tag = reader.varint()?;
        let length = reader.varint()? as usize;
        let at = reader.position();
        if tag == 9 {
            bytes[at] = 2;
            return Ok(());
        }
        reader.bytes(length)?;
    }
    Err("a table that says nothing of its protection".into())
}

fn in_order(bytes: &[u8], anatomy: &Anatomy) -> bool {
    let key = |entry: &Entry| bytes[entry.suffix.clone()].to_vec();
    let keys: Vec<Vec<u8>> = anatomy.entries().map(key).collect();
    keys.windows(2).all(|pair| pair[0] < pair[1])
}

/// Returns true if a table with undecodable companions, or with an invalid kind, is rejected.
fn undecodable(random: &mut Random) -> Outcome<bool> {
    let struck = random.below(RECORDS);
    let mut bytes = table(random, struck, true)?;
    let anatomy = Anatomy::read(&bytes)?;
    let entry = anatomy.entries().nth(struck as usize).ok_or("a record that is not there")?.clone();
    let at = if random.below(2) == 0 { entry.kind } else { entry.companions.start };
    bytes[at] ^= 1 << random.below(8);
    mend(&mut bytes, &anatomy)?;
    let sim = SimFs::new(1);
    sim.create_dir_all(Path::new(DIR))?;
    let path = Path::new(DIR).join("000001.tbl");
    sim.write_all(&path, &bytes)?;
    let file = sim.open(&path, Open::Read)?;
    let expected = Table::identify("000001.tbl", &*file)?;
    let sealer: Arc<dyn Companions> = Arc::new(Sealer::new());
    let cache = Arc::new(Cache::new(0));
    let table = Table::open("000001.tbl".into(), file, expected, Order::bytewise(), cache, sealer.clone())?;
    Ok(table.verify(&*sealer, &mut |_| Ok(())).is_err())
}
