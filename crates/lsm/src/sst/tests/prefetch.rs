//! Readahead advice to the operating system: scans cause it, in both directions, and reads of several keys.

use std::sync::Mutex;

use super::*;
use crate::cursor::Cursor;
use crate::options::KIB;
use crate::record::MAX_SEQNO;

/// A file that records the ranges of readahead advice.
#[derive(Debug)]
struct Advised {
    file: Arc<Memory>,
    told: Mutex<Vec<(u64, u64)>>,
}

impl File for Advised {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
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
    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        assert!(will_need, "a scan leaves the page cache alone");
        self.told.lock().unwrap().push((offset, offset + length));
    }
}

#[test]
fn a_scan_is_read_ahead_both_ways_and_single_reads_are_not() {
    let records: Vec<Owned> = (0..2000).map(|n| Owned::put(&numbered(n), 1, &[7; 900])).collect();
    let settings = WriterSettings { block_bytes: 1000, ..settings() };
    let (file, finished) = written(&records, &settings);
    let file = Arc::new(Advised { file, told: Mutex::default() });
    let cache = Arc::new(Cache::new(0));
    let expected = expected(&finished);
    let table = Table::open(NAME.into(), file.clone(), expected, settings.order, cache, Arc::new(Sealer)).unwrap();
    let told = || std::mem::take(&mut *file.told.lock().unwrap());
    told(); // discards the advice given at open
    for n in (0..2000).step_by(7) {
        assert!(got(&table, &numbered(n), MAX_SEQNO).unwrap().is_some());
    }
    assert_eq!(told(), []);

    let [third, end] = [3, table.blocks() - 1].map(|number| table.handle(number).unwrap().end());
    let mut cursor = table.cursor(true);
    cursor.first().unwrap();
    while cursor.valid() {
        cursor.next().unwrap();
    }
    let forwards = told();
    assert!(forwards.iter().all(|(from, to)| to - from == 512 * KIB as u64), "{forwards:?}");
    assert!(forwards.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[1].0 <= pair[0].1), "{forwards:?}");
    assert!(forwards[0].0 < third && forwards.last().unwrap().1 >= end, "{forwards:?} of {end}");

    cursor.last().unwrap();
    while cursor.valid() {
        cursor.prev().unwrap();
    }
    let backwards = told();
    assert!(backwards.windows(2).all(|pair| pair[1].0 < pair[0].0 && pair[1].1 >= pair[0].0), "{backwards:?}");
    assert!(backwards[0].1 + 4 * 1000 > end && backwards.last().unwrap().0 < third, "{backwards:?} of {end}");
}

#[test]
fn the_blocks_of_several_keys_are_requested_before_they_are_read() {
    let records: Vec<Owned> = (0..200).map(|n| Owned::put(&numbered(n), 1, &[7; 900]).sealed()).collect();
    let settings = WriterSettings { block_bytes: 1000, ..settings() };
    let (file, finished) = written(&records, &settings);
    let file = Arc::new(Advised { file, told: Mutex::default() });
    let (cache, expected) = (Arc::new(Cache::new(1 << 20)), expected(&finished));
    let table = Table::open(NAME.into(), file.clone(), expected, settings.order, cache, Arc::new(Sealer)).unwrap();
    let told = || std::mem::take(&mut *file.told.lock().unwrap());
    told(); // discards the advice given at open
    for n in [3, 50, 199] {
        let key = numbered(n);
        let Approach::At(number) = table.prefetch_slot(&key, hash(&key)) else { panic!("the index is in memory") };
        let handle = table.handle(number).unwrap();
        table.prefetch_block(number);
        assert_eq!(told(), [(handle.offset, handle.end())]);
        assert!(got(&table, &key, MAX_SEQNO).unwrap().is_some());
        table.prefetch_block(number);
        assert_eq!(told(), [], "it is in the cache");
    }
    table.prefetch_block(table.blocks());
    assert_eq!(told(), []);
}
