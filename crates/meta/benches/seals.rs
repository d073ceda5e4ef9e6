//! The cost of seals, step by step, with everything in the processor's caches.
//!
//! `cargo bench -p waxseal-meta` measures; `cargo test -p waxseal-meta --benches` does each step once.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use waxseal_lsm::checksum::{crc, hash};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Check, Companions, PendingWrite, Protection};
use waxseal_meta::annotations::Annotations;
use waxseal_meta::builtin::{Expiry, Labels, standard};
use waxseal_meta::correct::{BlockCorrection, correct};
use waxseal_meta::provider::{EXPIRY, LABELS};
use waxseal_meta::stamp::{Stamp, StampVerb};
use waxseal_meta::verdict::{FoundSeal, judge};
use waxseal_meta::{Seal, Sealer};

const KEY: [u8; 20] = *b"a key of 20 bytes...";
const VALUE: [u8; 100] = [7; 100];
const SEQNO: u64 = 123_456;

/// The companions of the record, bound, with these entries.
fn companions(sealer: &Sealer, entries: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let pending = PendingWrite { family: 0, kind: Kind::Put, key: &KEY, value: &VALUE, key_hash: None, entries };
    sealer.on_write(&pending, &mut out).expect("within the limits");
    sealer.bind(&mut out, None, SEQNO);
    out
}

fn record(companion: &[u8]) -> Record<'_> {
    Record { key: &KEY, seqno: SEQNO, kind: Kind::Put, value: &VALUE, companion }
}

fn seals(criterion: &mut Criterion) {
    let sealer = Sealer::new().with(standard());
    let key_hash = hash(&KEY);
    criterion.bench_function("seal_of_20_and_100_bytes", |bencher| {
        bencher.iter(|| Seal::of_operation(Kind::Put, black_box(&KEY), black_box(&VALUE)));
    });
    criterion.bench_function("seal_of_100_bytes_key_hash_at_hand", |bencher| {
        bencher.iter(|| Seal::of_hashed_key(Kind::Put, black_box(key_hash), black_box(&VALUE)));
    });
    criterion.bench_function("on_write_of_20_and_100_bytes", |bencher| {
        let pending =
            PendingWrite { family: 0, kind: Kind::Put, key: &KEY, value: &VALUE, key_hash: None, entries: &[] };
        let mut out = Vec::with_capacity(16);
        bencher.iter(|| {
            out.clear();
            sealer.on_write(black_box(&pending), &mut out).expect("written");
            black_box(out.len())
        });
    });
    let mut bound = companions(&sealer, &[]);
    criterion.bench_function("bind_to_another_seqno", |bencher| {
        bencher.iter(|| sealer.bind(black_box(&mut bound), Some(1), 2));
    });
    let alone = companions(&sealer, &[]);
    let labels = Labels::of(&[("class", "secret")]).expect("in order");
    let (expiry, with_labels) = (Expiry::at(1 << 60), [(LABELS, &labels[..])]);
    let listed = companions(&sealer, &with_labels);
    let expiring = companions(&sealer, &[(EXPIRY, &expiry)]);
    let stamp = Stamp::new(StampVerb::Update, 1_700_000_000_000_000 << 12, 300);
    let mut stamped = alone.clone();
    stamp.put(key_hash, &mut stamped);
    for (name, companion) in [
        ("verify_20_and_100_bytes_seal_alone", &alone),
        ("verify_20_and_100_bytes_stamp_beside", &stamped),
        ("verify_20_and_100_bytes_labels_beside", &listed),
        ("verify_20_and_100_bytes_expiry_beside", &expiring),
    ] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                let check = sealer.verify(black_box(&record(companion)), black_box(key_hash), Protection::Complete);
                assert_eq!(check, Check::Validated);
            });
        });
    }
    for (name, companion) in [("expired_asked_of_a_seal_alone", &alone), ("expired_asked_of_an_expiry", &expiring)] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| assert!(!sealer.expired(black_box(&record(companion)), &|| 1000)));
        });
    }
    criterion.bench_function("stamp_written", |bencher| {
        let mut out = Vec::with_capacity(64);
        bencher.iter(|| {
            out.clear();
            black_box(&stamp).put(black_box(key_hash), &mut out);
            black_box(out.len())
        });
    });
    criterion.bench_function("stamp_read", |bencher| {
        bencher.iter(|| Stamp::of(black_box(&stamped), black_box(key_hash)).expect("whole"));
    });
    criterion.bench_function("verdict_of_a_word", |bencher| {
        bencher.iter(|| judge(black_box(FoundSeal::Word(7)), true, black_box(7)));
    });
    criterion.bench_function("entry_found_in_a_list", |bencher| {
        bencher.iter(|| Annotations::read(black_box(&listed)).and_then(|beside| beside.entry(LABELS)).expect("whole"));
    });
    let mut ledger = Ledger::default();
    criterion.bench_function("ledger_of_one_record", |bencher| {
        bencher.iter(|| ledger.add(Kind::Put, sealer.term(black_box(&record(&alone)))));
    });
}

fn corrections(criterion: &mut Criterion) {
    let mut block: Vec<u8> = (0..4096u32).map(|n| hash(&n.to_le_bytes()) as u8).collect();
    block.push(0);
    block.extend_from_slice(&crc(5, &[&block]).to_le_bytes());
    let right = hash(&block);
    for (name, bits) in
        [("correction_of_1_bit_of_4_KiB", &[20_001usize][..]), ("correction_of_2_bits_of_4_KiB", &[777, 30_000])]
    {
        let mut hit = block.clone();
        bits.iter().for_each(|bit| hit[bit / 8] ^= 1 << (bit % 8));
        criterion.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || hit.clone(),
                |hit| {
                    let outcome = correct(hit, 5, &mut |candidate| hash(candidate) == right);
                    assert!(matches!(outcome, BlockCorrection::Corrected(_)));
                },
                BatchSize::SmallInput,
            );
        });
    }
}

criterion_group!(benches, seals, corrections);
criterion_main!(benches);
