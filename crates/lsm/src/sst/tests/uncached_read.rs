//! Point reads in blocks that are not cached: they answer like cached ones, whichever byte was hit.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::*;
use crate::record::MAX_SEQNO;
use crate::sst::block::frame::StoredBlock;
use crate::sst::table::table::ReadOutcome;

/// Keys with gaps after them; some have several versions, and the versions of the last one fill blocks.
fn records() -> Vec<Owned> {
    let mut records = Vec::new();
    for n in 0..24u32 {
        let versions: Vec<u64> = match n {
            23 => (1..20).rev().collect(),
            n if n % 5 == 0 => vec![90, 60, 30],
            _ => vec![50],
        };
        for seqno in versions {
            records.push(Owned::put(&numbered(n * 2), seqno, format!("value {n} at {seqno}").as_bytes()).sealed());
        }
    }
    records
}

/// Settings without a filter, so that the lookup of an absent key reads blocks.
fn shapes() -> Vec<WriterSettings> {
    let plain = WriterSettings { filter_bits: 0, restart_interval: 4, ..settings() };
    let mut shapes = vec![
        WriterSettings { block_bytes: 300, ..plain.clone() },
        WriterSettings { block_bytes: 4096, restart_interval: 1, ..plain.clone() },
        WriterSettings { block_bytes: 4096, order: Order::custom(Arc::new(Caseless)), ..plain.clone() },
    ];
    if cfg!(feature = "lz4") {
        let compression = Compression::Lz4;
        shapes.push(WriterSettings { block_bytes: 500, compression, seal_column: true, ..plain });
    }
    shapes
}

/// Every present and absent key, at several seqnos.
fn places() -> impl Iterator<Item = (Vec<u8>, Seqno)> {
    let seqnos = |n: u32| if n.is_multiple_of(10) || n == 46 { &[MAX_SEQNO, 70, 10][..] } else { &[MAX_SEQNO] };
    (0..50u32).flat_map(move |n| seqnos(n).iter().map(move |seqno| (numbered(n), *seqno)))
}

fn newest<'a>(records: &'a [Owned], key: &[u8], seqno: Seqno) -> Option<&'a Owned> {
    records.iter().find(|record| record.key == key && record.seqno <= seqno)
}

#[test]
fn an_uncached_read_answers_like_a_sorted_list() {
    for settings in shapes() {
        let (file, finished) = written(&records(), &settings);
        let cache = Arc::new(Cache::new(0));
        let table = opened(file, &finished, &settings.order, &cache);
        let records = records();
        for (key, seqno) in places() {
            let before = cache.metrics();
            assert_eq!(got(&table, &key, seqno).unwrap().as_ref(), newest(&records, &key, seqno), "{key:?} at {seqno}");
            let metrics = cache.metrics();
            assert_eq!(metrics.loads - before.loads, metrics.refused - before.refused);
            // The index places a key after the last one in no block.
            assert!(metrics.loads > before.loads || key > records[records.len() - 1].key);
        }
    }
}

/// The bytes are hit after their CRC was checked. The search then has the seals alone: it gives the same outcome, or is
/// in doubt.
#[test]
fn no_bit_of_a_body_that_is_searched_once_changes_an_outcome() {
    let records = records();
    for settings in shapes() {
        let (file, finished) = written(&records, &settings);
        let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(0)));
        let (mut same, mut doubtful) = (0, 0);
        for number in 0..table.blocks() {
            let handle = table.index().handles()[number];
            let framed = file.bytes()[handle.offset as usize..handle.end() as usize].to_vec();
            let (stored, codec) = (&framed[..handle.stored_len as usize], framed[handle.stored_len as usize]);
            let search = |bytes: &[u8], key: &[u8], seqno: Seqno| {
                let part = table.partition_for(key).unwrap();
                let wanted = table.wanted(&part.index, (key, hash(key)), seqno, Checks::EACH);
                let mut found = None;
                let outcome = StoredBlock::split(bytes, codec).and_then(|stored| {
                    let visit = &mut |record: &Record<'_>| found = Some(Owned::of(record));
                    table.search_stored(&stored, &mut Vec::new(), (number, &handle), &wanted, visit)
                });
                match outcome {
                    Ok(ReadOutcome::Found) => Some(("found", found)),
                    Ok(ReadOutcome::Absent) => Some(("absent", found)),
                    Ok(ReadOutcome::Further) => Some(("further", found)),
                    Ok(ReadOutcome::Doubtful) => None,
                    Err(error) if error.is_corruption() => None,
                    Err(error) => panic!("{error}"),
                }
            };
            let order = &settings.order;
            let here: Vec<_> = places()
                .filter(|(key, _)| table.partition_for(key).unwrap().index.find(key, order) == number)
                .collect();
            for (key, seqno) in &here {
                let right = search(stored, key, *seqno).expect("no doubt without damage");
                match &right {
                    ("found", found) => assert_eq!(found.as_ref(), newest(&records, key, *seqno)),
                    ("absent", None) => assert_eq!(None, newest(&records, key, *seqno)),
                    _ => {}
                }
                let mut hit = stored.to_vec();
                for bit in (0..stored.len() * 8).step_by(if stored.len() > 1000 { 11 } else { 3 }) {
                    hit[bit / 8] ^= 1 << (bit % 8);
                    let found = search(&hit, key, *seqno);
                    hit[bit / 8] ^= 1 << (bit % 8);
                    match found {
                        Some(outcome) => {
                            assert_eq!(outcome, right, "bit {bit} of block {number}, {key:?} at {seqno}");
                            same += 1;
                        }
                        None => doubtful += 1,
                    }
                }
            }
        }
        assert!(same > 10_000 && doubtful > 1_000, "{same} and {doubtful}");
    }
}

/// Bits of the file are flipped, one or several at once: an answer is right, or it is an error with the table's name.
#[test]
fn no_bits_of_a_file_change_an_answer_of_an_uncached_read() {
    let records = records();
    for (settings, cache_bytes) in shapes().into_iter().flat_map(|shape| [(shape.clone(), 0), (shape, 2000)]) {
        let (file, finished) = written(&records, &settings);
        let (whole, mut errors) = (file.bytes(), 0);
        for n in 0..120usize {
            let mut bytes = whole.clone();
            for flip in 0..1 + n % 4 {
                let bit = mix((n * 4 + flip) as u64 + 1) as usize % (whole.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let (cache, protector) = (Arc::new(Cache::new(cache_bytes)), Arc::new(Sealer));
            let (name, order) = (NAME.into(), settings.order.clone());
            let table = match Table::open(name, Memory::of(bytes), expected(&finished), order, cache, protector) {
                Ok(table) => table,
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    continue;
                }
            };
            for (key, seqno) in places() {
                match got(&table, &key, seqno) {
                    Ok(found) => {
                        let found = found.map(Owned::sealed); // a damaged companion is harmless
                        assert_eq!(found.as_ref(), newest(&records, &key, seqno), "{n}: {key:?} at {seqno}");
                    }
                    Err(error) => {
                        assert_eq!(error.damage().expect("corruption").file, NAME);
                        errors += 1;
                    }
                }
            }
        }
        assert!(errors > 0, "{errors}");
    }
}

#[test]
fn records_without_seals_are_found_in_a_block_that_is_validated() {
    let mut records = records();
    records.iter_mut().step_by(3).for_each(|record| record.companion.clear());
    for settings in shapes() {
        let (file, finished) = written(&records, &settings);
        let table = opened(file, &finished, &settings.order, &Arc::new(Cache::new(0)));
        for (key, seqno) in places() {
            assert_eq!(got(&table, &key, seqno).unwrap().as_ref(), newest(&records, &key, seqno), "{key:?} at {seqno}");
        }
    }
}

/// A callback reads another block: both reads have buffers of their own.
#[test]
fn a_read_within_a_read_leaves_the_record_as_it_is() {
    let records = records();
    let settings = &shapes()[0];
    let (file, finished) = written(&records, settings);
    let table = opened(file, &finished, &settings.order, &Arc::new(Cache::new(0)));
    let (first, last) = (&records[0], &records[records.len() - 1]);
    for _ in 0..2 {
        let mut seen = Vec::new();
        let visit = &mut |record: &Record<'_>| {
            assert_eq!(got(&table, &last.key, last.seqno).unwrap().as_ref(), Some(last));
            seen.push(Owned::of(record));
        };
        assert!(table.get(&first.key, hash(&first.key), MAX_SEQNO, Checks::EACH, visit).unwrap());
        assert_eq!(seen, std::slice::from_ref(first));
    }
}

/// A file whose next read is short, or has a wrong byte.
#[derive(Debug)]
struct Unsteady {
    file: Arc<Memory>,
    is_short: AtomicBool,
    is_wrong: AtomicBool,
}

impl File for Unsteady {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = self.file.read_at(buf, offset)?;
        if self.is_wrong.swap(false, SeqCst) {
            buf[length / 2] ^= 0x10;
        }
        Ok(if self.is_short.swap(false, SeqCst) { length - 1 } else { length })
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        self.file.map(length)
    }
}

#[test]
fn a_read_that_fails_once_is_read_again() {
    let records = records();
    for settings in shapes() {
        let (file, finished) = written(&records, &settings);
        let file = Arc::new(Unsteady { file, is_short: AtomicBool::new(false), is_wrong: AtomicBool::new(false) });
        let (cache, expected) = (Arc::new(Cache::new(0)), expected(&finished));
        let order = settings.order.clone();
        let table = Table::open(NAME.into(), file.clone(), expected, order, cache, Arc::new(Sealer)).unwrap();
        for fault in [&file.is_short, &file.is_wrong] {
            for (key, seqno) in places().filter(|(key, _)| *key <= numbered(46)) {
                fault.store(true, SeqCst);
                assert_eq!(got(&table, &key, seqno).unwrap().as_ref(), newest(&records, &key, seqno));
                assert!(!fault.load(SeqCst), "the block was read");
            }
        }
    }
}
