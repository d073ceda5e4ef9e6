//! The user's view over real tables, whose cursors are lent for runs, and a memtable, for all block layouts and orders.

use std::path::Path;

use super::*;
use crate::checksum::{Uid, hash};
use crate::env::{File, Fs, MemoryFs, Open};
use crate::error::Result;
use crate::merge::{ConcatCursor, MergePart, MergeSource, PartCursor};
use crate::options::{CfOptions, Compression, MIB, Verify};
use crate::record::companion;
use crate::seam::{Check, Companions, Protection};
use crate::sst::{Cache, Expected, Table, Writer, WriterSettings};

/// A record protector that adds one word per record.
struct TestProtector;

impl Companions for TestProtector {
    fn verify(&self, record: &Record<'_>, key_hash: u64, _: Protection) -> Check {
        let is_right = record.companion.get(1..9) == Some(&word(record, key_hash)[..]);
        if is_right || record.companion.first() != Some(&companion::WORD8) {
            Check::Validated
        } else {
            Check::Corrupted
        }
    }
    fn protection(&self) -> Protection {
        Protection::Complete
    }
}

fn word(record: &Record<'_>, key_hash: u64) -> [u8; 8] {
    (key_hash ^ hash(record.value).rotate_left(7) ^ record.seqno).to_le_bytes()
}

/// Parameters of writing and reading tables.
#[derive(Clone, Debug)]
struct Shape {
    block_bytes: usize,
    restart_interval: usize,
    seal_column: bool,
    verify: Verify,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let verify = select(vec![Verify::Never, Verify::Sampled(3), Verify::Sampled(64), Verify::Always]);
    (select(vec![64usize, 200, 4000, 100_000]), select(vec![1usize, 3, 16]), any::<bool>(), verify).prop_map(
        |(block_bytes, restart_interval, seal_column, verify)| Shape {
            block_bytes,
            restart_interval,
            seal_column,
            verify,
        },
    )
}

/// A table of these records, most of which have a companion word.
fn table(order: &Order, records: &[Owned], shape: &Shape) -> Arc<Table> {
    table_of_file(order, records, shape).0
}

/// Returns such a table, and its file.
fn table_of_file(order: &Order, records: &[Owned], shape: &Shape) -> (Arc<Table>, Arc<dyn File>) {
    let file = MemoryFs::new().open(Path::new("/table"), Open::Create).unwrap();
    let settings = WriterSettings {
        order: order.clone(),
        block_bytes: shape.block_bytes,
        restart_interval: shape.restart_interval,
        compression: Compression::None,
        seal_column: shape.seal_column,
        ..WriterSettings::of(&CfOptions::default(), 0, 0)
    };
    let (uid, protector): (_, Arc<dyn Companions>) = (Uid([1; 16]), Arc::new(TestProtector));
    let mut writer = Writer::new(file.clone(), uid, settings, protector.clone());
    for record in sorted(order, records) {
        writer.add(&record.borrow()).unwrap();
    }
    let finished = writer.finish().unwrap();
    let expected = Expected { uid, size: finished.size, digest: finished.digest, ingest_seqno: 0 };
    let cache = Arc::new(Cache::new(MIB));
    (Table::open("table".into(), file.clone(), expected, order.clone(), cache, protector).unwrap(), file)
}

struct Only(Arc<Table>, Verify, [Vec<u8>; 2]);

impl MergePart for Only {
    fn smallest(&self) -> &[u8] {
        &self.2[0]
    }
    fn largest(&self) -> &[u8] {
        &self.2[1]
    }
    fn open(&self) -> Result<PartCursor> {
        Ok(PartCursor::Table(Box::new(self.0.cursor_checked(self.1))))
    }
}

/// The tables of a level, with boundaries that depend on the keys' numbers.
fn level(order: &Order, records: &[Owned], shape: &Shape, tables: usize) -> MergeSource {
    let records = sorted(order, records);
    let mut parts = Vec::new();
    let mut rest = &records[..];
    while !rest.is_empty() {
        let mut end = (records.len() / tables.max(1)).clamp(1, rest.len());
        while end < rest.len() && order.compare(&rest[end - 1].key, &rest[end].key).is_eq() {
            end += 1;
        }
        let (own, behind) = rest.split_at(end);
        let bounds = [own[0].key.clone(), own[own.len() - 1].key.clone()];
        parts.push(Only(table(order, own, shape), shape.verify, bounds));
        rest = behind;
    }
    MergeSource::Tables(ConcatCursor::new(order.clone(), parts.into()))
}

/// Mostly distinct keys of several lengths, mostly values with only a companion word.
fn rows() -> impl Strategy<Value = Vec<Owned>> {
    let row = (0u32..300, 0u8..30, select(vec![4usize, 12, 40]), 0u8..20);
    vec(row, 0..250).prop_map(|drawn| {
        let make = |(n, (number, kind, zeros, dress)): (usize, (u32, u8, usize, u8))| {
            let mut record = Owned {
                key: format!("{number:0zeros$}").into_bytes(),
                seqno: 1 + n as Seqno,
                kind: if kind == 0 { Kind::Delete } else { Kind::Put },
                value: n.to_string().into_bytes(),
                companion: vec![],
            };
            record.companion = match dress {
                0 => vec![],
                1 => vec![companion::WORD4, 1, 2, 3, 4],
                _ => [&[companion::WORD8][..], &word(&record.borrow(), hash(&record.key))].concat(),
            };
            record
        };
        drawn.into_iter().enumerate().map(make).collect()
    })
}

/// Moves among such keys, mostly long stretches in one direction.
fn strides() -> impl Strategy<Value = Vec<Move>> {
    let key = || (0u32..300, select(vec![4usize, 12, 40])).prop_map(|(n, zeros)| format!("{n:0zeros$}").into_bytes());
    let stride = prop_oneof![
        1 => Just(vec![Move::First]),
        1 => Just(vec![Move::Last]),
        4 => (1usize..20).prop_map(|steps| vec![Move::Next; steps]),
        4 => (1usize..20).prop_map(|steps| vec![Move::Prev; steps]),
        3 => key().prop_map(|key| vec![Move::Seek(key, 0)]),
        2 => key().prop_map(|key| vec![Move::SeekForPrev(key, 0)]),
    ];
    vec(stride, 0..24).prop_map(|strides| strides.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn over_tables_the_view_is_that_of_the_oracle(
        order in orders(), records in prop_oneof![4 => rows(), 1 => records(80), 1 => versions()], shape in shapes(),
        cuts in (0usize..100, 0usize..100, 1usize..4), seqno in prop_oneof![0u64..250, Just(MAX_SEQNO)],
        bounds in prop_oneof![Just((Bound::Unbounded, Bound::Unbounded)), number_bounds()], moves in strides(),
    ) {
        let view = view(&order, &records, seqno, &bounds);
        let (older, rest) = records.split_at(records.len() * cuts.0 / 100);
        let (newer, newest) = rest.split_at(rest.len() * cuts.1 / 100);
        let memtable = Arc::new(Memtable::new(order.clone()));
        newest.iter().for_each(|record| memtable.insert(&record.borrow(), 0).unwrap());
        let mut sources = Vec::new();
        if !newest.is_empty() {
            sources.push(MergeSource::Memtable(Box::new(memtable.cursor())));
        }
        for (level_of, tables) in [(newer, 1), (older, cuts.2)] {
            if !level_of.is_empty() {
                sources.push(level(&order, level_of, &shape, tables));
            }
        }
        let mut cursor = UserCursor::over(order.clone(), MergeCursor::of(order.clone(), sources), seqno, bounds);
        check_view(&order, &view, &mut cursor, &moves, || ());
    }
}

fn number_bounds() -> impl Strategy<Value = CursorBounds> {
    let bound = || {
        let key = || (0u32..300).prop_map(|n| format!("{n:012}").into_bytes());
        prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded)]
    };
    (bound(), bound())
}

fn numbered(numbers: impl Iterator<Item = u32>, seqno: Seqno) -> Vec<Owned> {
    numbers.map(|n| Owned { seqno: seqno + n as Seqno, ..record(&format!("{n:016}"), 0, Kind::Put) }).collect()
}

/// Counts the steps of a whole walk that were run steps, and all steps.
fn steps_of_runs(cursor: &mut UserCursor, forward: bool) -> (usize, usize) {
    let (mut own, mut all) = (0, 0);
    if forward {
        cursor.first().unwrap()
    } else {
        cursor.last().unwrap()
    };
    while cursor.valid() {
        let seqno = cursor.seqno;
        let run = cursor.run.as_mut();
        let stepped = run.is_some_and(|run| if forward { run.next(seqno) } else { run.prev(seqno) });
        own += usize::from(stepped);
        all += 1;
        match (stepped, forward) {
            (true, _) => {}
            (false, true) => cursor.next().unwrap(),
            (false, false) => cursor.prev().unwrap(),
        }
    }
    (own, all)
}

/// Three levels, each ten times larger than the one above: every 11th and every 121st key is in an upper level.
fn three_levels() -> [Vec<Owned>; 3] {
    [
        numbered((0..10_000).filter(|n| n % 121 == 0), 40_000),
        numbered((0..10_000).filter(|n| n % 11 == 0 && n % 121 != 0), 20_000),
        numbered((0..10_000).filter(|n| n % 11 != 0), 1),
    ]
}

/// Backwards, a record that no run shows is copied.
#[test]
fn hardly_a_record_is_copied_on_the_way_back() {
    let order = Order::bytewise();
    let shape = Shape { block_bytes: 4000, restart_interval: 16, seal_column: false, verify: Verify::Sampled(64) };
    let levels = three_levels().map(|records| level(&order, &records, &shape, 1));
    let merge = MergeCursor::of(order.clone(), levels.into());
    let mut cursor = UserCursor::over(order, merge, MAX_SEQNO, (Bound::Unbounded, Bound::Unbounded));
    let (mut copied, mut all) = (0, 0);
    cursor.last().unwrap();
    while cursor.valid() {
        copied += usize::from(cursor.run.is_none());
        all += 1;
        cursor.prev().unwrap();
    }
    assert_eq!(all, 10_000);
    assert!(copied < 400, "{copied} of {all}");
}

/// A seek beyond the bounds leaves the sources in position, including the lost ranges they have shown: a loss that
/// extends to the next place is reported there, and no older version is shown.
#[test]
fn a_seek_beyond_the_bounds_forgets_no_loss_that_the_cursor_stands_in() {
    let order = Order::bytewise();
    let shape = Shape { block_bytes: 4000, restart_interval: 16, seal_column: false, verify: Verify::Sampled(64) };
    let rows = |keys: &[&str], seqno: Seqno| -> Vec<Owned> {
        let make = |key: &&str| {
            let mut row = Owned { seqno, value: format!("{key} at {seqno}").into_bytes(), ..record(key, 0, Kind::Put) };
            row.companion = [&[companion::WORD8][..], &word(&row.borrow(), hash(&row.key))].concat();
            row
        };
        keys.iter().map(make).collect()
    };
    let (older, newer) = (rows(&["a", "d", "f", "z"], 1), rows(&["c", "f"], 2));
    let (table, file) = table_of_file(&order, &newer, &shape);
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(newer[1].value.len()).position(|window| window == newer[1].value).unwrap();
    file.write_at(&[0xEE; 5], at as u64).unwrap();
    let memtable = Arc::new(Memtable::new(order.clone()));
    memtable.insert(&rows(&["e"], 3)[0].borrow(), 0).unwrap();
    let part = Only(table, shape.verify, [b"c".to_vec(), b"f".to_vec()]);
    let sources = vec![
        MergeSource::Memtable(Box::new(memtable.cursor())),
        MergeSource::Tables(ConcatCursor::new(order.clone(), vec![part].into())),
        level(&order, &older, &shape, 1),
    ];
    let bounds = (Bound::Included(b"b".to_vec()), Bound::Included(b"x".to_vec()));
    let mut cursor = UserCursor::over(order.clone(), MergeCursor::of(order.clone(), sources), MAX_SEQNO, bounds);
    for beyond in [true, false] {
        cursor.first().unwrap();
        assert_eq!(cursor.record().key, b"c");
        assert!(cursor.next().is_err(), "what is lost begins behind it");
        cursor.next().unwrap();
        assert_eq!(cursor.record().key, b"e", "newer than what is lost");
        match beyond {
            true => cursor.seek(b"y").unwrap(),
            false => cursor.seek_for_prev(b"a").unwrap(),
        }
        assert!(!cursor.valid());
        assert!(cursor.seek(b"f").is_err(), "the older one does not answer for the one that is lost");
    }
}

/// If runs never began, or ended early, all other tests would still pass.
#[test]
fn nearly_all_steps_are_steps_of_runs() {
    let order = Order::bytewise();
    let shape = Shape { block_bytes: 4000, restart_interval: 16, seal_column: false, verify: Verify::Sampled(64) };
    let everything = || (Bound::Unbounded, Bound::Unbounded);
    let within = || (Bound::Included(b"0".to_vec()), Bound::Excluded(b"1".to_vec()));
    let over = |sources: Vec<MergeSource>, bounds| {
        UserCursor::over(order.clone(), MergeCursor::of(order.clone(), sources), MAX_SEQNO, bounds)
    };
    let many = numbered(0..10_000, 1);
    for forward in [true, false] {
        for bounds in [everything(), within()] {
            let (own, all) = steps_of_runs(&mut over(vec![level(&order, &many, &shape, 2)], bounds), forward);
            assert_eq!(all, 10_000);
            assert!(own > 9_700, "{own} of one level, forward {forward}");
        }
        let levels = three_levels().map(|records| level(&order, &records, &shape, 1));
        let (own, all) = steps_of_runs(&mut over(levels.into(), everything()), forward);
        assert_eq!(all, 10_000);
        assert!(own > 6_000, "{own} of three levels, forward {forward}");
    }
}
