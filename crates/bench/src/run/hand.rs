//! One thread of a step: its calls, their order and their keys.

use super::state::{Drive, Tally};
use super::{SEEK_ROWS, Step};
use crate::Outcome;
use crate::engine::{Op, Reader, Rows, Start};
use crate::workload::{Keys, Random, Values, Zipf};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of waiting rows in the queue of `queue`.
const QUEUE_DEPTH: u64 = 1000;

/// Number of records that the transactions of `transacthigh` share.
const CONTENDED: u64 = 16;

/// Keys of a range of `deleterange`.
const RANGE_ROWS: u64 = 100;

/// Keys of a call of `multiget`.
const CALL_KEYS: u64 = 32;

/// Time limit of `queue`: a store that skips the tombstones of all earlier heads at each look-up would take hours.
const QUEUE_AT_MOST: Duration = Duration::from_secs(20);

/// The state of one thread.
pub(super) struct Hand<'a> {
    pub(super) drive: &'a Drive<'a>,
    pub(super) keys: Keys,
    pub(super) values: Values,
    pub(super) random: Random,
    pub(super) zipf: Option<&'a Zipf>,
    pub(super) tally: Tally,
}

impl Hand<'_> {
    pub(super) fn work(&mut self, reader: &mut dyn Reader, share: Range<u64>) -> Outcome<()> {
        let store = self.drive.store;
        let num = self.drive.plan.num;
        match self.drive.step {
            Step::FillSeq => self.each(share, |hand, i| store.put(hand.keys.ordered(i), hand.values.value(), false)),
            Step::BulkLoad => store.bulk_load(&mut |sink| {
                self.each(share.clone(), |hand, i| sink(hand.keys.ordered(i), hand.values.value()))
            }),
            Step::FillRandom => self.each(share, |hand, i| store.put(hand.keys.written(i), hand.values.value(), false)),
            Step::FillBatch => self.batches(share),
            Step::Overwrite => self.each(share, |hand, _| {
                let i = hand.random.below(num);
                store.put(hand.keys.written(i), hand.values.value(), false)
            }),
            Step::FillSync => self.each(share, |hand, i| store.put(hand.keys.written(i), hand.values.value(), true)),
            Step::DeleteRandom => self.each(share, |hand, _| {
                let i = hand.random.below(num);
                store.delete(hand.keys.written(i), false)
            }),
            Step::ReadRandom | Step::ReadWhileWriting => self.each(share, |hand, _| {
                let i = hand.random.below(num);
                let answer = reader.get(hand.keys.written(i))?;
                hand.count(answer);
                Ok(())
            }),
            Step::MultiGet => self.multi_gets(reader, share),
            Step::ReadMissing => self.each(share, |hand, _| {
                let i = hand.random.below(num);
                let answer = reader.get(hand.keys.missing(i))?;
                hand.count(answer);
                Ok(())
            }),
            Step::SeekRandom => self.each(share, |hand, _| {
                let i = hand.random.below(num);
                let mut rows = Rows::wanted(SEEK_ROWS);
                reader.scan(Start::Seek(hand.keys.written(i)), &mut rows)?;
                hand.tally.found += rows.seen();
                hand.tally.touched = hand.tally.touched.wrapping_add(rows.touched());
                Ok(())
            }),
            Step::ReadSeq => self.scan(reader, Start::First),
            Step::ReadReverse => self.scan(reader, Start::Last),
            Step::YcsbA => self.mix(reader, share, 50, Hand::update),
            Step::YcsbB => self.mix(reader, share, 95, Hand::update),
            Step::YcsbC => self.mix(reader, share, 100, Hand::update),
            Step::YcsbD => self.recent(reader, share),
            Step::YcsbE => self.scans(reader, share),
            Step::YcsbF => self.mix(reader, share, 50, Hand::modify),
            Step::Queue => self.queue(reader, share),
            Step::Counter => self.each(share, |_, _| store.count(b"counter")),
            Step::Merge => self.each(share, |_, _| store.merge(b"counter")),
            Step::TransactLow => self.transactions(share, num),
            Step::TransactHigh => self.transactions(share, num.min(CONTENDED)),
            Step::DeleteRange => self.each(share, |hand, _| {
                let i = hand.random.below(num);
                let start = hand.keys.ordered(i).to_vec();
                store.delete_range(&start, hand.keys.ordered(i + RANGE_ROWS))
            }),
            Step::Changes => self.pass(|rows| store.changes(rows)),
            Step::TablesWith => self.each(share, |hand, _| {
                let i = hand.random.below(num);
                hand.tally.found += store.tables_with(hand.keys.written(i))?;
                Ok(())
            }),
            Step::ReadPrefix => self.each(share, |hand, n| {
                let i = hand.random.below(num);
                let key = if n % 2 == 0 { hand.keys.written(i) } else { hand.keys.missing_prefix(i) };
                let prefix = &key[..key.len() - 1];
                let mut rows = Rows::of_prefix(prefix);
                reader.scan_prefix(prefix, &mut rows)?;
                hand.tally.found += rows.seen();
                hand.tally.touched = hand.tally.touched.wrapping_add(rows.touched());
                Ok(())
            }),
            Step::Mixed => self.mixed(reader),
            Step::Settle | Step::Sync | Step::Backup | Step::Compact | Step::Open => Ok(()),
        }
    }

    #[inline]
    fn each(&mut self, share: Range<u64>, mut operation: impl FnMut(&mut Self, u64) -> Outcome<()>) -> Outcome<()> {
        for i in share {
            operation(self, i)?;
            self.tally.ops += 1;
            self.tally.laps.lap();
        }
        Ok(())
    }

    #[inline]
    pub(super) fn count(&mut self, answer: Option<u64>) {
        if let Some(sum) = answer {
            self.tally.found += 1;
            self.tally.touched = self.tally.touched.wrapping_add(sum);
        }
    }

    /// The timed operation is the batch; the counted operations are its records.
    fn batches(&mut self, share: Range<u64>) -> Outcome<()> {
        let mut ops: Vec<Op> = Vec::new();
        let mut next = share.start;
        while next < share.end {
            let end = share.end.min(next + self.drive.plan.batch as u64);
            ops.resize_with((end - next) as usize, Op::default);
            for (op, i) in ops.iter_mut().zip(next..end) {
                op.key.clear();
                op.key.extend_from_slice(self.keys.written(i));
                let value = op.value.get_or_insert_default();
                value.clear();
                value.extend_from_slice(self.values.value());
            }
            self.drive.store.batch(&ops, false)?;
            self.tally.ops += end - next;
            self.tally.laps.lap();
            next = end;
        }
        Ok(())
    }

    /// The timed operation is the call; the counted operations are its keys.
    fn multi_gets(&mut self, reader: &mut dyn Reader, share: Range<u64>) -> Outcome<()> {
        let num = self.drive.plan.num;
        let mut keys = vec![Vec::new(); CALL_KEYS as usize];
        let mut next = share.start;
        while next < share.end {
            let end = share.end.min(next + CALL_KEYS);
            keys.truncate((end - next) as usize);
            for key in &mut keys {
                let i = self.random.below(num);
                key.clear();
                key.extend_from_slice(self.keys.written(i));
            }
            reader.multi_get(&keys, &mut |answer| self.count(answer))?;
            self.tally.ops += end - next;
            self.tally.laps.lap();
            next = end;
        }
        Ok(())
    }

    /// Each transaction reads and writes two of the first `bound` records.
    fn transactions(&mut self, share: Range<u64>, bound: u64) -> Outcome<()> {
        self.each(share, |hand, _| {
            let (i, j) = (hand.random.below(bound), hand.random.below(bound));
            let one = hand.keys.written(i).to_vec();
            hand.tally.found += hand.drive.store.transact([&one, hand.keys.written(j)], hand.values.value())?;
            Ok(())
        })
    }

    fn scan(&mut self, reader: &mut dyn Reader, start: Start<'_>) -> Outcome<()> {
        self.pass(|rows| reader.scan(start, rows))
    }

    /// Counts the rows of one pass over them.
    fn pass(&mut self, pass: impl FnOnce(&mut Rows<'_>) -> Outcome<()>) -> Outcome<()> {
        let mut rows = Rows::timed(&mut self.tally.laps);
        pass(&mut rows)?;
        let (seen, touched) = (rows.seen(), rows.touched());
        self.tally.ops += seen;
        self.tally.found += seen;
        self.tally.touched = self.tally.touched.wrapping_add(touched);
        Ok(())
    }

    /// Zipfian over all records; the keys themselves spread the ranks over the key space.
    fn mix(
        &mut self,
        reader: &mut dyn Reader,
        share: Range<u64>,
        reads: u64,
        write: impl Fn(&mut Self, &mut dyn Reader, u64) -> Outcome<()>,
    ) -> Outcome<()> {
        self.each(share, |hand, _| {
            let i = hand.rank();
            if hand.random.below(100) < reads {
                let answer = reader.get(hand.keys.written(i))?;
                hand.count(answer);
                Ok(())
            } else {
                write(hand, reader, i)
            }
        })
    }

    pub(super) fn rank(&mut self) -> u64 {
        match self.zipf {
            Some(zipf) => zipf.rank(&mut self.random),
            None => self.random.below(self.drive.plan.num),
        }
    }

    pub(super) fn update(&mut self, _: &mut dyn Reader, i: u64) -> Outcome<()> {
        self.drive.store.put(self.keys.written(i), self.values.value(), false)
    }

    fn modify(&mut self, reader: &mut dyn Reader, i: u64) -> Outcome<()> {
        let answer = reader.get(self.keys.written(i))?;
        self.count(answer);
        self.update(reader, i)
    }

    fn insert(&mut self) -> Outcome<()> {
        let i = self.drive.inserted.fetch_add(1, Ordering::Relaxed);
        self.drive.store.put(self.keys.inserted(i), self.values.value(), false)
    }

    /// The most recent insert is read most often.
    fn recent(&mut self, reader: &mut dyn Reader, share: Range<u64>) -> Outcome<()> {
        self.each(share, |hand, _| {
            if hand.random.below(100) >= 95 {
                return hand.insert();
            }
            let inserted = hand.drive.inserted.load(Ordering::Relaxed);
            let age = hand.rank();
            let key = match inserted.checked_sub(age + 1) {
                Some(i) => hand.keys.inserted(i),
                None => hand.keys.written(hand.drive.plan.num - 1 - (age - inserted).min(hand.drive.plan.num - 1)),
            };
            let answer = reader.get(key)?;
            hand.count(answer);
            Ok(())
        })
    }

    fn scans(&mut self, reader: &mut dyn Reader, share: Range<u64>) -> Outcome<()> {
        self.each(share, |hand, _| {
            if hand.random.below(100) >= 95 {
                return hand.insert();
            }
            let i = hand.rank();
            let mut rows = Rows::wanted(1 + hand.random.below(100));
            reader.scan(Start::Seek(hand.keys.written(i)), &mut rows)?;
            hand.tally.found += rows.seen();
            hand.tally.touched = hand.tally.touched.wrapping_add(rows.touched());
            Ok(())
        })
    }

    /// The first operations fill the queue. Each later operation looks up its head, behind the tombstones of all
    /// earlier heads. The step ends early at its time limit; a report states its number of operations.
    fn queue(&mut self, reader: &mut dyn Reader, share: Range<u64>) -> Outcome<()> {
        let (store, first) = (self.drive.store, share.start);
        let end = Instant::now() + QUEUE_AT_MOST;
        for i in share {
            store.put(self.keys.ordered(i), self.values.value(), false)?;
            if i >= first + QUEUE_DEPTH {
                let mut rows = Rows::wanted(1);
                // Each thread has its own queue in the store; only the lowest queue begins with the store's first row.
                match self.drive.plan.threads {
                    1 => reader.scan(Start::First, &mut rows)?,
                    _ => reader.scan(Start::Seek(self.keys.ordered(first)), &mut rows)?,
                }
                self.tally.found += rows.seen();
                self.tally.touched = self.tally.touched.wrapping_add(rows.touched());
                store.delete(self.keys.ordered(i - QUEUE_DEPTH), false)?;
            }
            self.tally.ops += 1;
            self.tally.laps.lap();
            if self.tally.laps.read_at() >= end {
                break;
            }
        }
        Ok(())
    }
}
