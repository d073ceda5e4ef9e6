//! Bits that flip in the memory of a running store, as a failing module flips them: the test writes its own process's
//! memory through `/proc/self/mem`, where it finds records of memtables and entries of cached blocks by their shape.
//! Under the default policy no scan may return a wrong row, an older version or a deleted key, and none may leave a row
//! out without an error.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "the test writes its own process's memory through a file of the system")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use waxseal::{Builder, ColumnFamily, Compression, Db, Result, Snapshot};

const KEYS: u32 = 240;
const VALUE_BYTES: usize = 100;
const HEADER_BYTES: u64 = 18;
const PUT: u8 = 0x33;
const SEAL: u8 = 0xAA;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// Rows as a scan returns them, and the number of its errors.
type Scanned = (Vec<(Vec<u8>, Vec<u8>)>, usize);

/// Tests that look through all memory run one at a time: each would find the other's records.
static MEMORY: Mutex<()> = Mutex::new(());

fn key(n: u32) -> Vec<u8> {
    format!("key-{n:012}").into_bytes()
}

fn value(n: u32, round: u32) -> Vec<u8> {
    let mut state = (u64::from(n) << 32 | u64::from(round)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

/// The process's memory.
struct Memory(File);

impl Memory {
    fn open() -> Memory {
        Memory(OpenOptions::new().read(true).write(true).open("/proc/self/mem").unwrap())
    }

    fn read(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    }

    fn flip(&self, at: u64, mask: u8) {
        let byte = self.read(at, 1).unwrap()[0];
        self.0.write_all_at(&[byte ^ mask], at).unwrap();
    }

    /// Where memory that belongs to no file holds `wanted`, whose bytes come inverted so that they are not found
    /// themselves.
    fn find(&self, inverted: &[u8]) -> Vec<u64> {
        const PIECE: usize = 1 << 20;
        let mut room = vec![0; PIECE + inverted.len()];
        let own = room.as_ptr() as u64..room.as_ptr() as u64 + room.len() as u64;
        let mut found = Vec::new();
        for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_heap = fields.len() == 5 || fields[5] == "[heap]";
            if !fields[1].starts_with("rw") || !is_heap {
                continue;
            }
            let (from, to) = fields[0].split_once('-').unwrap();
            let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
            for at in (from..to).step_by(PIECE) {
                let length = room.len().min((to - at) as usize);
                if self.0.read_exact_at(&mut room[..length], at).is_err() {
                    continue;
                }
                let is_wanted = |bytes: &[u8]| bytes.iter().zip(inverted).all(|(byte, wanted)| *byte == !*wanted);
                let places = room[..length].windows(inverted.len()).enumerate().filter(|(_, bytes)| is_wanted(bytes));
                found.extend(places.map(|(place, _)| at + place as u64).filter(|place| !own.contains(place)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A record as it lies in a memtable: where its header, its key, its value and its seal begin.
#[derive(Debug)]
struct Stored {
    n: u32,
    seqno: u64,
    is_value: bool,
    header: u64,
    key: u64,
    value: u64,
    seal: u64,
}

/// All records of keys of this test in memtables.
fn stored(memory: &Memory) -> Vec<Stored> {
    let inverted: Vec<u8> = b"key-00000000".iter().map(|byte| !*byte).collect();
    let mut all = Vec::new();
    for at in memory.find(&inverted) {
        let Some(bytes) = memory.read(at - HEADER_BYTES, HEADER_BYTES as usize + 16 + VALUE_BYTES + 9) else {
            continue;
        };
        let lengths = [&bytes[8..12], &bytes[12..16]].map(|length| u32::from_le_bytes(length.try_into().unwrap()));
        let value = lengths[0] as usize;
        let digits = std::str::from_utf8(&bytes[HEADER_BYTES as usize + 4..HEADER_BYTES as usize + 16]);
        let Some(n) = digits.ok().and_then(|digits| digits.parse().ok()) else { continue };
        let is_record = lengths[1] == 9 && bytes[16..18] == [16, 0] && [0, VALUE_BYTES].contains(&value);
        if is_record && bytes[HEADER_BYTES as usize + 16 + value] == SEAL {
            let (value_at, seqno) = (at + 16, u64::from_le_bytes(bytes[..8].try_into().unwrap()) >> 8);
            let (header, seal) = (at - HEADER_BYTES, value_at + value as u64);
            all.push(Stored { n, seqno, is_value: bytes[0] == PUT, header, key: at, value: value_at, seal });
        }
    }
    all
}

/// What a scan is asked for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    All,
    Between(u32, u32),
    Prefix,
}

/// Scans from either end.
fn scan(cf: &ColumnFamily, at: Option<&Snapshot>, asked: Asked, forward: bool) -> Scanned {
    let range = match (asked, at) {
        (Asked::All, None) => cf.iter(),
        (Asked::All, Some(at)) => at.iter(cf),
        (Asked::Between(from, to), None) => cf.range(key(from)..key(to)),
        (Asked::Between(from, to), Some(at)) => at.range(cf, key(from)..key(to)),
        (Asked::Prefix, None) => cf.prefix("key-00000000003"),
        (Asked::Prefix, Some(at)) => at.prefix(cf, "key-00000000003"),
    };
    let (mut rows, mut errors) = (Vec::new(), 0);
    let mut take = |row: Result<(Vec<u8>, Vec<u8>)>| match row {
        Ok(row) => rows.push(row),
        Err(error) => {
            assert!(error.is_corruption(), "{error}");
            errors += 1;
        }
    };
    let owned =
        |row: Result<_>| row.map(|(key, value): (waxseal::Slice, waxseal::Slice)| (key.to_vec(), value.to_vec()));
    match forward {
        true => range.map(owned).for_each(&mut take),
        false => range.rev().map(owned).for_each(&mut take),
    }
    assert!(errors < 50, "the scan does not end");
    (rows, errors)
}

/// Every scan shows right rows in order, and leaves a row out only with an error, and only a few. Answers how many
/// scans told of an error.
fn check(cf: &ColumnFamily, at: Option<&Snapshot>, expected: &Rows, what: &dyn std::fmt::Debug, around: u32) -> usize {
    let mut told = 0;
    let spans = [(0, 300), (1, 9), (9, 1), (0, 1), (2, 0)]
        .map(|(before, behind): (u32, u32)| Asked::Between(around.saturating_sub(before), around + behind));
    for asked in [Asked::All, Asked::Prefix].into_iter().chain(spans) {
        for forward in [true, false] {
            let (mut rows, errors) = scan(cf, at, asked, forward);
            if !forward {
                rows.reverse();
            }
            let context = || format!("{asked:?} forward {forward} of {what:?}, {errors} errors");
            assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "out of order: {}", context());
            for (key, value) in &rows {
                assert_eq!(expected.get(key), Some(value), "{}: {}", String::from_utf8_lossy(key), context());
            }
            let is_asked = |row: &[u8]| match asked {
                Asked::All => true,
                Asked::Between(from, to) => (key(from)..key(to)).contains(&row.to_vec()),
                Asked::Prefix => row.starts_with(b"key-00000000003"),
            };
            let missing = expected.keys().filter(|key| is_asked(key)).count() - rows.len();
            assert!(missing == 0 || errors > 0, "{missing} rows are missing in silence: {}", context());
            // The records of one leaf, at most, and what tables have between them.
            assert!(missing <= 64, "{missing} rows are missing: {}", context());
            told += usize::from(errors > 0);
        }
    }
    told
}

fn model(round: impl Fn(u32) -> Option<u32>) -> Rows {
    (0..KEYS).filter_map(|n| Some((key(n), value(n, round(n)?)))).collect()
}

fn open(builder: Builder) -> (Db, ColumnFamily) {
    let db = builder.compression(Compression::None).cache_bytes(4 << 20).memtable_bytes(1 << 20).open().unwrap();
    let cf = db.column_family("default").unwrap();
    (db, cf)
}

const TARGETS: [RangeInclusive<u32>; 3] = [0..=3, 30..=35, KEYS - 4..=KEYS - 1];

/// In tables an older value of every key; above, in the memtable, newer values, tombstones, and for some keys two
/// versions, between which a snapshot was taken.
#[test]
fn no_bit_of_a_memtable_changes_what_a_scan_shows() {
    let _alone = MEMORY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (db, cf) = open(Builder::in_memory());
    (0..KEYS).for_each(|n| cf.put(key(n), value(n, 0)).unwrap());
    db.settle().unwrap();
    let settled = db.snapshot().seqno().unwrap();
    for n in 0..KEYS {
        match n % 3 {
            0 => cf.put(key(n), value(n, 1)).unwrap(),
            1 => cf.delete(key(n)).unwrap(),
            _ => {}
        }
    }
    let snapshot = db.snapshot();
    (0..KEYS).step_by(6).for_each(|n| cf.put(key(n), value(n, 2)).unwrap());
    let before = |n: u32| [Some(1), None, Some(0)][n as usize % 3];
    let views = [(None, model(|n| if n % 6 == 0 { Some(2) } else { before(n) })), (Some(&snapshot), model(before))];
    let memory = Memory::open();
    let mut all = stored(&memory);
    all.retain(|record| record.seqno > settled); // not what is left of the memtable that was flushed
    let newest = |record: &Stored| all.iter().all(|other| other.n != record.n || other.seqno <= record.seqno);
    let (mut hits, mut found) = (0, 0);
    for record in all.iter().filter(|record| TARGETS.iter().any(|range| range.contains(&record.n))) {
        let key_bytes = (0..16).map(|at| (record.key + at, 1 << (at % 3)));
        let header = [
            (0, 0x10),
            (1, 1),
            (1, 0x40),
            (2, 4),
            (5, 2),
            (8, 1),
            (8, 0x80),
            (9, 1),
            (12, 1),
            (12, 8),
            (16, 1),
            (17, 1),
        ];
        let header = header.map(|(at, mask)| (record.header + at, mask));
        let ends = if record.is_value { vec![0, 49, 99] } else { Vec::new() };
        let value = ends.into_iter().map(|at| (record.value + at, 0x20));
        let seal = [(record.seal, 2), (record.seal + 4, 8)];
        for (byte, mask) in key_bytes.chain(header).chain(value).chain(seal) {
            memory.flip(byte, mask);
            let what = (record, byte - record.header, mask);
            let told: Vec<usize> =
                views.iter().map(|(at, expected)| check(&cf, *at, expected, &what, record.n)).collect();
            memory.flip(byte, mask);
            // What a hit seal says is known from the record itself.
            if byte < record.seal && newest(record) {
                hits += 1;
                found += usize::from(told[0] > 0);
            }
        }
    }
    assert!(hits > 200 && found == hits, "{found} of {hits}");
    for (at, expected) in &views {
        assert_eq!(check(&cf, *at, expected, &"nothing", 30), 0);
    }
}

/// An entry of a cached block, where its kind, its lengths and its seqno, its key's own bytes, its value and its seal
/// begin.
#[derive(Debug)]
struct Cached {
    entry: u64,
    suffix: u64,
    value: u64,
    seal: u64,
}

fn cached(memory: &Memory, n: u32, round: u32) -> Vec<Cached> {
    let inverted: Vec<u8> = value(n, round).iter().map(|byte| !*byte).collect();
    let mut all = Vec::new();
    for value in memory.find(&inverted) {
        let Some(bytes) = memory.read(value - 32, 32 + VALUE_BYTES + 9) else { continue };
        let is_entry = |at: &usize| {
            let [kind, shared, own, length] = [0, 1, 2, 3].map(|next| usize::from(bytes[at + next]));
            let seqno = bytes[at + 4..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
            kind == usize::from(PUT) && shared + own == 16 && length == VALUE_BYTES && at + 4 + seqno + own == 32
        };
        if bytes[32 + VALUE_BYTES] == SEAL
            && let Some(at) = (4..27).find(is_entry)
        {
            let (entry, own) = (value - 32 + at as u64, u64::from(bytes[at + 2]));
            all.push(Cached { entry, suffix: value - own, value, seal: value + VALUE_BYTES as u64 });
        }
    }
    all
}

/// Every copy of an entry is hit, so that the one in the cache is: its block is read again, and no row is missing.
#[test]
fn no_bit_of_a_cached_block_changes_what_a_scan_shows() {
    let _alone = MEMORY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let write = |rounds: &dyn Fn(u32) -> Option<u32>, settles: bool| {
        let (db, cf) = open(Db::builder(dir.path()));
        (0..KEYS).for_each(|n| match rounds(n) {
            Some(round) => cf.put(key(n), value(n, round)).unwrap(),
            None if n % 3 == 1 => cf.delete(key(n)).unwrap(),
            None => {}
        });
        if settles {
            db.settle().unwrap()
        } else {
            db.flush().unwrap()
        }
        db.close().unwrap();
    };
    write(&|_| Some(0), true);
    write(&|n| (n % 3 == 0).then_some(1), false);
    let (_db, cf) = open(Db::builder(dir.path()));
    let expected = model(|n| [Some(1), None, Some(0)][n as usize % 3]);
    let memory = Memory::open();
    let mut hits = 0;
    for n in TARGETS.into_iter().flatten().filter(|n| n % 3 != 1) {
        assert_eq!(check(&cf, None, &expected, &"nothing", n), 0);
        let own = (0..16).map(|at| ("key", at));
        let value = [0, 49, 99].map(|at| ("value", at));
        let rest = [("kind", 0), ("shared", 1), ("own", 2), ("length", 3), ("seqno", 4), ("seal", 0), ("seal", 4)];
        for (part, at) in own.chain(value).chain(rest) {
            assert_eq!(check(&cf, None, &expected, &"nothing", n), 0);
            let mut is_hit = false;
            for entry in cached(&memory, n, if n % 3 == 0 { 1 } else { 0 }) {
                let byte = match part {
                    "key" if entry.suffix + at < entry.value => entry.suffix + at,
                    "value" => entry.value + at,
                    "seal" => entry.seal + at,
                    "key" => continue,
                    _ => entry.entry + at,
                };
                memory.flip(byte, 1 << (at % 8));
                is_hit = true;
            }
            hits += usize::from(is_hit);
            assert_eq!(check(&cf, None, &expected, &(n, part, at), n), 0, "{part} {at} of {n}");
        }
    }
    assert!(hits > 60, "{hits}");
}
