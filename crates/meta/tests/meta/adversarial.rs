//! The twenty adversarial cases of docs/integrity.md, each by its number.
//!
//! - 15 (merge operands are collapsed) comes with merge operators; the keeper's part is tried in its own file.
//! - 16 (a range delete is cut at a table's edge) comes with range deletes.
//! - 7 and 8, through the pass that flushes and compactions share, bit by bit: tests/launder.rs.
//! - 4 and 5, through files exchanged with plain nodes: beside the exchange.

use std::cmp::Ordering;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::{hash, keys_hashed, mix};
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::error::{ErrorKind, Verdict as Damaged};
use waxseal_lsm::options::CfOptions;
use waxseal_lsm::order::{Comparator, Order};
use waxseal_lsm::record::{Kind, Record, companion};
use waxseal_lsm::seam::{Check, Companions, PendingWrite, Plain, Protection};
use waxseal_meta::builtin::standard;
use waxseal_meta::provider::LABELS;
use waxseal_meta::verdict::SealVerdict;
use waxseal_meta::{Seal, Sealer};
use waxseal_testing::harness::{DIR, Owned, Store, options};

use crate::support::{holds, sealed_store, unmapped};

/// Keys at which a companion that had a key of its own would lie.
const NEIGHBOURS: [&[u8]; 7] = [b"", b"a", b"a\0", b"a\0\xff", b"a\x01", b"a\x01\x01", b"\x01"];

fn sealed(sealer: &Sealer, kind: Kind, key: &[u8], value: &[u8], seqno: u64) -> Owned {
    Owned::made(sealer, kind, key, seqno, value).unwrap()
}

fn check(sealer: &Sealer, record: &Record<'_>) -> Check {
    sealer.verify(record, hash(record.key), Protection::Complete)
}

/// Case 14: a value is taken out of its record by a flush and moved by the collector; seal, digest and ledger terms do
/// not change, and a value that is another one is not served.
#[test]
fn case_14_a_value_file_collector_moves_a_value() {
    let (sim, sealer) = (SimFs::new(14), Arc::new(Sealer::new()));
    let options = CfOptions { large_value_bytes: 64, ..options() };
    let store = Store::open(&sim, sealer.clone(), options);
    let value = |n: u8, round: u8| vec![n ^ round.wrapping_mul(37); 200 + usize::from(n)];
    for n in 0..40u8 {
        store.put(&[n], &value(n, 1));
    }
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let digest_now = || waxseal_meta::integrity::digest(&store.db, &store.family, &all, At::Latest).unwrap();
    let (born, before) = (store.get(&[3]).unwrap().unwrap(), digest_now());
    assert_eq!(Sealer::seal_of(&born.record()).unwrap(), Some(Seal::of([3], value(3, 1))));
    let place = |key: &[u8]| {
        let mut place = None;
        let look = &mut |record: &Record<'_>| {
            if record.kind == Kind::BlobPointer {
                place = waxseal_lsm::pointer::Pointer::decode(record.value).ok();
            }
        };
        store.db.get_record(&store.family, key, At::Latest, waxseal_lsm::options::Verify::Always, look).unwrap();
        place
    };
    let put_at = place(&[3]).expect("the commit has put the value apart");
    store.db.flush().unwrap();
    let first = place(&[3]).expect("it is still apart");
    assert_eq!(first, put_at, "a flush copies the pointer");
    assert_eq!((store.get(&[3]).unwrap().unwrap(), digest_now()), (born.clone(), before));
    // The pointer asks for the same seal as the value, with the same companion.
    let pointed = Record { kind: Kind::BlobPointer, value: &first.encode(), ..born.record() };
    assert_eq!((check(&sealer, &pointed), check(&sealer, &born.record())), (Check::Validated, Check::Validated));
    for n in (0..40).filter(|n| n % 4 != 3) {
        store.put(&[n], &value(n, 2));
    }
    store.compact();
    store.db.settle().unwrap();
    let moved = place(&[3]).expect("it is still apart");
    assert_ne!(moved.uid, first.uid, "three values of four were garbage: the file is collected");
    assert!(store.db.metrics().values_moved > 0);
    assert_eq!(store.get(&[3]).unwrap().unwrap(), born);
    assert_eq!(store.get(&[4]).unwrap().unwrap().value, value(4, 2));
    // Neither the value of another record, whose pointer checks, nor a pointer that was hit passes.
    let other = place(&[7]).unwrap();
    let exchanged = Record { kind: Kind::BlobPointer, value: &other.encode(), ..born.record() };
    assert_eq!(check(&sealer, &exchanged), Check::Corrupted);
    let mut bytes = moved.encode();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let hit = Record { kind: Kind::BlobPointer, value: &bytes, ..born.record() };
        assert_eq!(check(&sealer, &hit), Check::Corrupted, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Cases 1 and 2: keys next to each other, the empty one among them, and all their companions.
#[test]
fn cases_1_and_2_keys_next_to_companions() {
    let (sim, sealer) = (SimFs::new(1), Arc::new(Sealer::new()));
    let store = sealed_store(&sim, &sealer);
    for round in 0..3u8 {
        for key in NEIGHBOURS {
            store.put(key, &[round; 3]);
        }
        holds(&store);
        store.db.flush().unwrap();
    }
    store.compact();
    let mut keys: Vec<Vec<u8>> = NEIGHBOURS.iter().map(|key| key.to_vec()).collect();
    keys.sort();
    assert_eq!(store.keys(), keys);
    holds(&store);
    store.delete(b"a\x01"); // and none of its neighbours
    store.compact();
    keys.retain(|key| key != b"a\x01");
    assert_eq!(store.keys(), keys);
    holds(&store);
}

struct Reverse;
impl Comparator for Reverse {
    fn name(&self) -> &str {
        "test.reverse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// Panics on keys that are not eight bytes, as comparators of numbers do.
struct Numbers;
impl Comparator for Numbers {
    fn name(&self) -> &str {
        "test.numbers"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let number = |key: &[u8]| u64::from_le_bytes(key.try_into().expect("eight bytes"));
        number(a).cmp(&number(b))
    }
}

struct CaseBlind;
impl Comparator for CaseBlind {
    fn name(&self) -> &str {
        "test.case_blind"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
    fn equal_means_same_bytes(&self) -> bool {
        false
    }
}

/// Case 3: a comparator never sees a companion, and a seal is of the key that was stored.
#[test]
fn case_3_comparators() {
    let comparators: [Arc<dyn Comparator>; 3] = [Arc::new(Reverse), Arc::new(Numbers), Arc::new(CaseBlind)];
    for comparator in comparators {
        let (sim, sealer) = (SimFs::new(1), Arc::new(Sealer::new()));
        let order = Order::custom(comparator);
        let options = CfOptions { order: order.clone(), ..options() };
        let store = Store::open(&sim, sealer.clone(), options);
        for n in 0..200u64 {
            let key = (n * 7 % 64).to_le_bytes();
            store.put(&key, &n.to_le_bytes());
            store.put(b"Abcdefgh", b"1");
            store.put(b"abcdefgH", b"2");
        }
        store.compact();
        holds(&store);
        let keys = store.keys();
        assert_eq!(keys.len(), 65 + usize::from(order.is_hashable()), "{order:?}");
        assert!(keys.is_sorted_by(|a, b| order.compare(a, b).is_lt()));
        let found = store.get(b"ABCDEFGH").unwrap();
        assert_eq!(found.map(|record| record.key), (!order.is_hashable()).then(|| b"abcdefgH".to_vec()));
    }
}

/// Cases 4 and 5: what a plain node did with `K\x01`, put or deleted, stays what it was when its tables come under a
/// keeper.
#[test]
fn cases_4_and_5_what_a_plain_node_did_stays() {
    let sim = SimFs::new(1);
    let plain = Store::open(&sim, Arc::new(Plain), options());
    for key in [&b"K"[..], b"K\x01", b"L", b"L\x01"] {
        plain.put(key, key);
    }
    plain.db.flush().unwrap();
    plain.apply(Kind::Delete, b"L\x01", &[0x18; 24]); // with as many bytes as a checksum of the paper has
    plain.delete(b"M\x01");
    plain.db.flush().unwrap();
    plain.db.close().unwrap();
    drop(plain);
    let sealer = Arc::new(Sealer::new());
    let store = sealed_store(&sim, &sealer);
    let left = [b"K".to_vec(), b"K\x01".to_vec(), b"L".to_vec()];
    assert_eq!(store.keys(), left);
    store.compact();
    assert_eq!(store.keys(), left);
    holds(&store);
    assert_eq!(sealer.counts().computed, 0);
    assert!(sealer.counts().adopted >= 3 && store.scan().iter().all(|owned| Sealer::is_adopted(&owned.record())));
}

/// Case 6: equal and exchanged parts.
#[test]
fn case_6_equal_and_exchanged_parts_are_noticed() {
    let (sealer, seqno) = (Sealer::new(), 0x1234_5678u64);
    let number = seqno.to_le_bytes();
    for (key, value) in [(&b"same"[..], &b"same"[..]), (&number, b"v"), (b"k", &number), (&number, &number)] {
        let whole = sealed(&sealer, Kind::Put, key, value, seqno);
        assert_eq!(check(&sealer, &whole.record()), Check::Validated);
        let other = [9u8; 8];
        for wrong in [
            Record { key: &other, value: &other, ..whole.record() },
            Record { key: value, value: key, seqno: seqno + 1, ..whole.record() },
            Record { key: &other, seqno: u64::from_le_bytes(other) & 0xFFFF, ..whole.record() },
        ] {
            assert_eq!(check(&sealer, &wrong), Check::Corrupted, "{wrong:?}");
        }
        if key != value {
            let exchanged = Record { key: value, value: key, ..whole.record() };
            assert_eq!(check(&sealer, &exchanged), Check::Corrupted);
        }
    }
}

/// Cases 7 and 8: one bit of key or seqno.
#[test]
fn cases_7_and_8_one_bit_of_key_or_seqno() {
    let sealer = Sealer::new();
    let whole = sealed(&sealer, Kind::Put, b"key", b"value", 77);
    for bit in 0..24 {
        let mut hit = whole.clone();
        hit.key[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(check(&sealer, &hit.record()), Check::Corrupted);
        hit.companion.clear(); // and an orphan is no adopted child
        assert_eq!(check(&sealer, &hit.record()), Check::Missing);
    }
    for bit in 0..56 {
        let hit = Record { seqno: 77 ^ 1 << bit, ..whole.record() };
        assert_eq!(check(&sealer, &hit), Check::Corrupted);
    }
    assert_eq!(sealer.counts().adopted, 0);
}

/// Cases 9 and 10: up to three bits of a kind, a record's or a companion's, make no other kind.
#[test]
fn cases_9_and_10_flipped_kinds() {
    let sealer = Sealer::new();
    let kinds = (0..=255u8).filter(|byte| Kind::from_byte(*byte).is_some() || companion::begins(*byte));
    for kind in kinds {
        for flips in (1..=255u8).filter(|flips| flips.count_ones() <= 3) {
            let hit = kind ^ flips;
            assert!(Kind::from_byte(hit).is_none() && !companion::begins(hit), "{kind:02x} and {hit:02x}");
        }
    }
    // And were it turned all the same, the seal is of another kind.
    let whole = sealed(&sealer, Kind::Put, b"k", b"", 5);
    assert_eq!(check(&sealer, &Record { kind: Kind::Delete, ..whole.record() }), Check::Corrupted);
}

/// Case 11: a seqno that is zeroed takes nothing from the seal, and nothing is made anew.
#[test]
fn case_11_a_zeroed_seqno() {
    let sealer = Sealer::new();
    let mut moved = sealed(&sealer, Kind::Put, b"k", b"v", 5);
    let term = sealer.term(&moved.record());
    sealer.bind(&mut moved.companion, Some(5), 0);
    assert_eq!(check(&sealer, &moved.record()), Check::Corrupted); // the word is, the seqno is not yet
    moved.seqno = 0;
    assert_eq!((check(&sealer, &moved.record()), sealer.term(&moved.record())), (Check::Validated, term));
    assert_eq!(sealer.counts().computed, 1);
}

/// Case 12: a snapshot holds a version, a newer one is written: each keeps its own seal, at no cost but its own.
#[test]
fn case_12_versions_under_a_snapshot() {
    let (sim, sealer) = (SimFs::new(1), Arc::new(Sealer::new()));
    let store = sealed_store(&sim, &sealer);
    store.put(b"k", b"old");
    let snapshot = store.db.snapshot().unwrap();
    store.put(b"k", b"new");
    store.compact();
    for (at, value) in [(At::Snapshot(&snapshot), &b"old"[..]), (At::Latest, b"new")] {
        let found = store.get_at(b"k", at).unwrap().unwrap();
        assert_eq!((&found.value[..], found.companion.len()), (value, 9));
        assert_eq!(check(&sealer, &found.record()), Check::Validated);
    }
    drop(snapshot);
    store.compact();
    assert_eq!(sealer.counts().computed, 2);
}

/// Case 13: two versions of a key; what hits the seal of one says nothing of the other, and neither passes for the
/// other.
#[test]
fn case_13_two_versions_of_a_key() {
    let sealer = Sealer::new();
    let (old, new) = (sealed(&sealer, Kind::Put, b"k", b"1", 5), sealed(&sealer, Kind::Put, b"k", b"2", 9));
    for bit in 0..64 {
        let mut hit = new.clone();
        hit.companion[1 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(check(&sealer, &hit.record()), Check::CompanionDamaged);
        assert_eq!(check(&sealer, &old.record()), Check::Validated);
    }
    for (one, other) in [(&old, &new), (&new, &old)] {
        assert_eq!(check(&sealer, &Record { companion: &other.companion, ..one.record() }), Check::Corrupted);
        assert_eq!(check(&sealer, &Record { seqno: other.seqno, ..one.record() }), Check::Corrupted);
    }
}

/// Case 17: a value flips in the log, and every sum and link of the log is made anew over it: nothing but the seal can
/// tell.
#[test]
fn case_17_a_log_whose_sums_were_made_anew() {
    let (sim, sealer) = (SimFs::new(1), Arc::new(Sealer::new()));
    sim.set_mapped(false);
    let store = unmapped(&sim, sealer).unwrap();
    store.put(b"whole", b"whole");
    store.put(b"k", b"a value that is hit");
    store.db.sync().unwrap();
    drop(store);
    sim.reboot(Crash::Process);
    let name = sim.files(DIR).into_iter().find(|name| name.ends_with(".log")).unwrap();
    let path = format!("{DIR}/{name}");
    let mut bytes = sim.read_all(&path).unwrap();
    let at = bytes.windows(9).position(|bytes| bytes == b"that is h").unwrap();
    bytes[at] ^= 0x10;
    mend_log(&mut bytes);
    sim.write_all(&path, &bytes).unwrap();

    let sealer = Arc::new(Sealer::new());
    let refused = |error: waxseal_lsm::error::Error| assert!(error.is_corruption(), "{error}");
    match unmapped(&sim, sealer.clone()) {
        Err(error) => refused(error),
        Ok(store) => {
            match store.get(b"k") {
                Err(error) => refused(error),
                Ok(found) => {
                    let found = found.expect("not lost in silence");
                    assert_eq!(sealer.judge(&found.record(), hash(b"k"), true), SealVerdict::RecordDamaged);
                }
            }
            assert_eq!(store.get(b"whole").unwrap().unwrap().value, b"whole");
            refused(store.db.flush().unwrap_err());
        }
    }
    assert_eq!(sealer.counts().adopted + sealer.counts().computed, 0);
}

/// Computes body sums and links of a log segment anew. docs/format.md, section 5.
fn mend_log(bytes: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut link, first) = (word(bytes, 72), word(bytes, 80));
    let mut at = 4096;
    while at + 24 <= bytes.len() && bytes[at..at + 24] != [0; 24] {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let Some(body) = bytes.get(at + 24..at + 24 + length) else { return };
        let sum = hash(body);
        bytes[at + 4..at + 8].copy_from_slice(&(sum as u32).to_le_bytes());
        link = mix(link ^ mix((first + at as u64 - 4096).wrapping_add(0x9E37_79B9_7F4A_7C15)));
        for part in [word(bytes, at), word(bytes, at + 8), sum] {
            link = mix(link ^ part);
        }
        bytes[at + 16..at + 24].copy_from_slice(&link.to_le_bytes());
        at = (at + 24 + length).next_multiple_of(8);
    }
}

/// Case 18: an older table, whole in itself, stands where a newer one was; and so do the first records of it, whole in
/// themselves, with the sum of the newer block behind them, and with their own.
#[test]
fn case_18_old_copies_of_tables_and_blocks() {
    let (sim, sealer) = (SimFs::new(1), Arc::new(Sealer::new()));
    let store = sealed_store(&sim, &sealer);
    store.put(b"k", b"old");
    store.db.flush().unwrap();
    let old = sim.read_all(&store.tables()[0]).unwrap();
    store.put(b"k", b"new");
    store.compact();
    let path = store.tables().pop().unwrap();
    let new = sim.read_all(&path).unwrap();
    store.db.close().unwrap();
    drop(store);
    let with_old = |bytes: usize| {
        let mut mixed = new.clone();
        mixed[64..64 + bytes].copy_from_slice(&old[64..64 + bytes]);
        assert_ne!(mixed, new);
        mixed
    };
    // One entry of 18 bytes, one restart and the end of the body, codec and sum.
    for (stale, verdicts) in [
        (old.clone(), &[Damaged::Misplaced, Damaged::Structural][..]),
        (with_old(18), &[Damaged::Checksum]),
        (with_old(18 + 12 + 5), &[Damaged::Checksum]),
    ] {
        sim.write_all(&path, &stale).unwrap();
        let store = sealed_store(&sim, &sealer);
        let error = store.get(b"k").expect_err("an old copy");
        let verdict = error.damage().map(|damage| damage.verdict);
        assert!(verdict.is_some_and(|verdict| verdicts.contains(&verdict)), "{error}");
        store.db.close().unwrap();
    }
}

/// Case 19: companions that are cut, or that claim to be longer than all there is.
#[test]
fn case_19_cut_and_endless_companions() {
    let sealer = Sealer::new().with(standard());
    let mut companion = Vec::new();
    let label = waxseal_meta::builtin::Labels::of(&[("a", "b")]).unwrap();
    let pending = PendingWrite {
        family: 0,
        kind: Kind::Put,
        key: b"k",
        value: b"v",
        key_hash: None,
        entries: &[(LABELS, &label)],
    };
    sealer.on_write(&pending, &mut companion).unwrap();
    sealer.bind(&mut companion, None, 3);
    fn record(companion: &[u8]) -> Record<'_> {
        Record { key: b"k", seqno: 3, kind: Kind::Put, value: b"v", companion }
    }
    assert_eq!(check(&sealer, &record(&companion)), Check::Validated);
    for length in (1..companion.len()).filter(|length| *length != 9) {
        assert_eq!(check(&sealer, &record(&companion[..length])), Check::Corrupted, "cut at {length}");
    }
    for length in
        [&[0x7F][..], &[0xFF, 0xFF, 0x7F], &[0xFF; 9], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]]
    {
        let endless = [&companion[..10], length, &companion[11..]].concat();
        assert_eq!(check(&sealer, &record(&endless)), Check::Corrupted, "{length:x?}");
        let mut batch = Batch::new();
        assert!(batch.push_with(0, Kind::Put, b"k", b"v", &endless).is_err());
    }
}

/// Case 20: 64 KiB beside ten bytes.
#[test]
fn case_20_too_much_beside_a_value() {
    let (sim, sealer) = (SimFs::new(1), Arc::new(Sealer::new().with(standard())));
    let store = sealed_store(&sim, &sealer);
    sealer.set_block_bytes(store.family.id(), 8192);
    let label = |bytes: usize| waxseal_meta::builtin::Labels::of(&[("l", &"x".repeat(bytes))]).unwrap();
    let refused = |bytes: usize, words: [&str; 2]| {
        let error = store.try_apply(Kind::Put, b"k", b"ten bytes.", &[(LABELS, &label(bytes))]).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Invalid);
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    };
    refused(65_000, ["labels", "an entry of 65005 bytes"]);
    refused(1100, ["labels", "1024"]);
    store.try_apply(Kind::Put, b"k", b"ten bytes.", &[(LABELS, &label(1000))]).unwrap();
    sealer.set_block_bytes(store.family.id(), 512);
    refused(200, ["labels 20", "128"]);
    assert!(store.get(b"k").unwrap().is_some());
    assert_eq!(sealer.counts().computed, 1);
}

/// A key is hashed once an operation, on the thread that makes it.
#[test]
fn keys_are_hashed_once_an_operation() {
    let (sim, sealer) = (SimFs::new(1), Arc::new(Sealer::new()));
    let store = sealed_store(&sim, &sealer);
    let hashed = |of: &dyn Fn()| {
        let before = keys_hashed();
        of();
        keys_hashed() - before
    };
    assert_eq!(hashed(&|| store.put(b"k", b"v")), 1);
    assert!(hashed(&|| drop(store.get(b"k").unwrap())) <= 1);
    store.db.flush().unwrap();
    assert!(hashed(&|| drop(store.get(b"k").unwrap())) <= 1);
    let seal = Seal::of(b"k", b"w");
    let mut batch = Batch::new();
    assert_eq!(hashed(&|| {}), 0);
    let before = keys_hashed();
    let pending = PendingWrite {
        family: store.family.id(),
        kind: Kind::Put,
        key: b"k",
        value: b"w",
        key_hash: None,
        entries: &[],
    };
    sealer.push_sealed(&mut batch, &pending, seal).unwrap();
    assert_eq!(keys_hashed() - before, 1);
}
