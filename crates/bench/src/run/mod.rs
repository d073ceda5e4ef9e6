//! `run`: one store, steps one after the other, a line a step.
//!
//! Coming in: a store directory (new or left by an earlier run) and a plan. Going out: one `StepReport` a step. A step is driven by
//! `threads` threads that start together; its time ends when the last one ends. Generating a key and reading the clock are inside
//! the time of every operation; the `null` store measures them.

use crate::Outcome;
use crate::engine::{self, Engine, Name, Op, Reader, Rows, Settings, Start, View};
use crate::measure::{Counters, Laps, StepReport, disk_bytes, peak_rss_bytes};
use crate::workload::{Keys, Random, Values, Zipf};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// All keys in order.
    FillSeq,
    /// `num` records in random order, about 63 % of them new.
    FillRandom,
    /// The same in batches.
    FillBatch,
    /// `num` records over existing ones, in another random order.
    Overwrite,
    /// `ops` records in random order, each synced before it is acknowledged.
    FillSync,
    /// Waits until flushes and compactions have nothing left to do.
    Settle,
    /// Keys that exist, drawn evenly.
    ReadRandom,
    /// Keys that do not exist, between those that do.
    ReadMissing,
    /// Every row, upwards, once a thread.
    ReadSeq,
    /// Every row, downwards, once a thread.
    ReadReverse,
    /// A seek to a key that exists, and ten rows.
    SeekRandom,
    /// Random reads while one more thread overwrites.
    ReadWhileWriting,
    /// Deletes of keys drawn evenly.
    DeleteRandom,
    /// Half reads, half updates; zipfian, like the other mixes.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Reads.
    YcsbC,
    /// 95 % reads of recent records, 5 % inserts.
    YcsbD,
    /// 95 % scans of 1 to 100 rows, 5 % inserts.
    YcsbE,
    /// Half reads, half read-modify-writes.
    YcsbF,
}

impl Step {
    /// The name as the command line and the reports spell it.
    pub fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether the step only reads, so that the store's caches may be warmed before it.
    pub fn only_reads(self) -> bool {
        use Step::{ReadMissing, ReadRandom, ReadReverse, ReadSeq, SeekRandom, YcsbC};
        matches!(self, ReadRandom | ReadMissing | ReadSeq | ReadReverse | SeekRandom | YcsbC)
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which store.
    pub engine: Name,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Records that the fills write, and the space that keys are drawn from.
    pub num: u64,
    /// Operations of the other steps; by default `num`, and a thousandth of it where each is synced.
    pub ops: Option<u64>,
    /// Threads that drive.
    pub threads: u64,
    /// Length of keys.
    pub key_bytes: usize,
    /// Length of values.
    pub value_bytes: usize,
    /// Records a batch.
    pub batch: usize,
    /// What the store is given.
    pub settings: Settings,
    /// From which everything follows.
    pub seed: u64,
    /// Where the store is.
    pub dir: PathBuf,
    /// Reads everything once before a step that only reads.
    pub warm: bool,
}

/// Rows of a `seekrandom`.
const SEEK_ROWS: u64 = 10;

/// Opens the store, runs the steps, hands out a report after each, closes the store.
pub fn run(plan: &Plan, report: &mut dyn FnMut(StepReport) -> Outcome<()>) -> Outcome<()> {
    let keys = Keys::new(plan.num, plan.key_bytes, plan.seed).ok_or("keys are too short for their number")?;
    if plan.threads == 0 || plan.batch == 0 {
        return Err("threads and batch are at least 1".into());
    }
    let store = engine::open(plan.engine, &plan.dir, &plan.settings)?;
    for (place, step) in plan.steps.iter().enumerate() {
        if plan.warm && step.only_reads() {
            warm(plan, store.as_ref(), &keys)?;
        }
        let drive = Drive {
            plan,
            store: store.as_ref(),
            keys: &keys,
            step: *step,
            place: place as u64,
            inserted: AtomicU64::new(0),
        };
        let counters = Counters::start();
        let (tally, elapsed) = drive.all()?;
        let (cpu, written) = counters.since();
        let ops = tally.ops.max(1) as f64;
        report(StepReport {
            engine: plan.engine.text().into(),
            bench: step.text(),
            threads: plan.threads,
            ops: tally.ops,
            ops_per_s: tally.ops as f64 / elapsed.as_secs_f64().max(1e-9),
            p50_us: tally.laps.quantile_us(0.5),
            p99_us: tally.laps.quantile_us(0.99),
            p999_us: tally.laps.quantile_us(0.999),
            max_us: tally.laps.max_us(),
            cpu_us_per_op: cpu.as_secs_f64() * 1e6 / ops,
            written_bytes: written,
            disk_bytes: disk_bytes(&plan.dir),
            peak_rss_bytes: peak_rss_bytes(),
            found: tally.found,
        })?;
    }
    store.close()
}

/// One pass over all rows, and reads of half the keys that the step will draw from.
fn warm(plan: &Plan, store: &dyn Engine, keys: &Keys) -> Outcome<()> {
    let mut keys = keys.clone();
    let mut reader = store.reader(View::Fixed)?;
    let mut rows = Rows::wanted(u64::MAX);
    reader.scan(Start::First, &mut rows)?;
    let mut random = Random::stream(plan.seed, u64::MAX);
    for _ in 0..plan.num / 2 {
        black_box(reader.get(keys.written(random.below(plan.num)))?);
    }
    Ok(())
}

/// What threads did.
struct Tally {
    ops: u64,
    found: u64,
    touched: u64,
    laps: Laps,
}

impl Tally {
    fn new() -> Tally {
        Tally { ops: 0, found: 0, touched: 0, laps: Laps::new() }
    }
}

/// One step on its way.
struct Drive<'a> {
    plan: &'a Plan,
    store: &'a dyn Engine,
    keys: &'a Keys,
    step: Step,
    place: u64,
    inserted: AtomicU64,
}

impl Drive<'_> {
    /// All threads; the time from the first start to the last end.
    fn all(&self) -> Outcome<(Tally, Duration)> {
        if self.step == Step::Settle {
            return self.settle();
        }
        let zipf = self.is_zipfian().then(|| Zipf::new(self.plan.num));
        let threads = self.plan.threads;
        let writing = self.step == Step::ReadWhileWriting;
        let barrier = Barrier::new(threads as usize + usize::from(writing));
        let done = AtomicBool::new(false);
        let results: Vec<Outcome<(Tally, Instant, Instant)>> = std::thread::scope(|scope| {
            let writer = writing.then(|| scope.spawn(|| self.overwrite_until(&done, &barrier)));
            let readers: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn({
                        let (zipf, barrier) = (&zipf, &barrier);
                        move || self.one(thread, zipf.as_ref(), barrier)
                    })
                })
                .collect();
            let mut results: Vec<_> = readers.into_iter().map(joined).collect();
            done.store(true, Ordering::Relaxed);
            if let Some(Err(fault)) = writer.map(joined) {
                results.push(Err(fault));
            }
            results
        });
        let mut all = Tally::new();
        let mut span: Option<(Instant, Instant)> = None;
        for result in results {
            let (tally, start, end) = result?;
            all.ops += tally.ops;
            all.found += tally.found;
            all.touched = all.touched.wrapping_add(tally.touched);
            all.laps.absorb(&tally.laps);
            span = Some(span.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        black_box(all.touched);
        let elapsed = span.map_or(Duration::ZERO, |(first, last)| last - first);
        Ok((all, elapsed))
    }

    /// The time that only watched for quiet is not the store's.
    fn settle(&self) -> Outcome<(Tally, Duration)> {
        let mut tally = Tally::new();
        let start = Instant::now();
        let watched = self.store.settle()?;
        let elapsed = start.elapsed().saturating_sub(watched);
        tally.laps.record(elapsed);
        tally.ops = 1;
        Ok((tally, elapsed))
    }

    fn is_zipfian(&self) -> bool {
        use Step::{YcsbA, YcsbB, YcsbC, YcsbD, YcsbE, YcsbF};
        matches!(self.step, YcsbA | YcsbB | YcsbC | YcsbD | YcsbE | YcsbF)
    }

    /// Operations of a step, all threads together.
    fn ops(&self) -> u64 {
        match self.step {
            Step::FillSeq | Step::FillRandom | Step::FillBatch | Step::Overwrite => self.plan.num,
            Step::FillSync => self.plan.ops.unwrap_or((self.plan.num / 1000).max(1)),
            _ => self.plan.ops.unwrap_or(self.plan.num),
        }
    }

    /// The part of one thread.
    fn share(&self, thread: u64) -> Range<u64> {
        let (ops, threads) = (self.ops(), self.plan.threads);
        ops * thread / threads..ops * (thread + 1) / threads
    }

    /// One thread of the step, from the common start to its own end.
    fn one(&self, thread: u64, zipf: Option<&Zipf>, barrier: &Barrier) -> Outcome<(Tally, Instant, Instant)> {
        let seed = self.plan.seed;
        let view = if self.step.only_reads() { View::Fixed } else { View::Latest };
        let mut hand = Hand {
            drive: self,
            keys: self.keys.clone(),
            values: Values::new(self.plan.value_bytes, seed, thread + self.place * 1000),
            random: Random::stream(seed, 1 + thread + self.place * 1000),
            zipf,
            tally: Tally::new(),
        };
        let reader = self.store.reader(view);
        barrier.wait();
        let mut reader = reader?;
        let start = Instant::now();
        hand.tally.laps.restart();
        hand.work(reader.as_mut(), self.share(thread))?;
        Ok((hand.tally, start, Instant::now()))
    }

    /// The writer beside the readers: overwrites until they are done.
    fn overwrite_until(&self, done: &AtomicBool, barrier: &Barrier) -> Outcome<(Tally, Instant, Instant)> {
        let mut keys = self.keys.clone();
        let mut values = Values::new(self.plan.value_bytes, self.plan.seed, u64::MAX);
        let mut random = Random::stream(self.plan.seed, u64::MAX - 1);
        barrier.wait();
        let start = Instant::now();
        while !done.load(Ordering::Relaxed) {
            self.store.put(keys.written(random.below(self.plan.num)), values.value(), false)?;
        }
        Ok((Tally::new(), start, Instant::now()))
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Outcome<T>>) -> Outcome<T> {
    thread.join().unwrap_or_else(|_| Err("a driving thread panicked".into()))
}

/// What one thread works with.
struct Hand<'a> {
    drive: &'a Drive<'a>,
    keys: Keys,
    values: Values,
    random: Random,
    zipf: Option<&'a Zipf>,
    tally: Tally,
}

impl Hand<'_> {
    fn work(&mut self, reader: &mut dyn Reader, share: Range<u64>) -> Outcome<()> {
        let store = self.drive.store;
        let num = self.drive.plan.num;
        match self.drive.step {
            Step::FillSeq => self.each(share, |hand, i| store.put(hand.keys.ordered(i), hand.values.value(), false)),
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
            Step::Settle => Ok(()),
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
    fn count(&mut self, answer: Option<u64>) {
        if let Some(sum) = answer {
            self.tally.found += 1;
            self.tally.touched = self.tally.touched.wrapping_add(sum);
        }
    }

    /// The operation that is timed is the batch; what is counted are its records.
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

    fn scan(&mut self, reader: &mut dyn Reader, start: Start<'_>) -> Outcome<()> {
        let mut rows = Rows::timed(&mut self.tally.laps);
        reader.scan(start, &mut rows)?;
        let (seen, touched) = (rows.seen(), rows.touched());
        self.tally.ops += seen;
        self.tally.found += seen;
        self.tally.touched = self.tally.touched.wrapping_add(touched);
        Ok(())
    }

    /// Zipfian over all records; the ranks are spread over the key space by the keys themselves.
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

    fn rank(&mut self) -> u64 {
        match self.zipf {
            Some(zipf) => zipf.rank(&mut self.random),
            None => self.random.below(self.drive.plan.num),
        }
    }

    fn update(&mut self, _: &mut dyn Reader, i: u64) -> Outcome<()> {
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

    /// The most recent insert is asked for most.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(engine: Name, steps: &[Step], dir: PathBuf) -> Plan {
        Plan {
            engine,
            steps: steps.to_vec(),
            num: 2_000,
            ops: Some(500),
            threads: 2,
            key_bytes: 16,
            value_bytes: 100,
            batch: 64,
            settings: Settings { cache_bytes: 8 << 20, memtable_bytes: 1 << 20, synced: false },
            seed: 1,
            dir,
            warm: true,
        }
    }

    fn reports(plan: &Plan) -> Vec<StepReport> {
        let mut reports = Vec::new();
        run(plan, &mut |report| {
            reports.push(report);
            Ok(())
        })
        .expect("runs");
        reports
    }

    #[test]
    fn a_report_has_the_fields_of_the_contract_in_their_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let reports = reports(&plan(Name::Null, &[Step::FillRandom], dir.path().into()));
        let line = serde_json::to_string(&reports[0]).expect("printed");
        let names: Vec<&str> =
            line.split('"').skip(1).step_by(2).filter(|word| !["null", "fillrandom"].contains(word)).collect();
        assert_eq!(
            names,
            [
                "engine",
                "bench",
                "threads",
                "ops",
                "ops_per_s",
                "p50_us",
                "p99_us",
                "p999_us",
                "max_us",
                "cpu_us_per_op",
                "written_bytes",
                "disk_bytes",
                "peak_rss_bytes",
                "found"
            ]
        );
    }

    #[test]
    fn every_step_does_its_operations_on_the_null_store() {
        let dir = tempfile::tempdir().expect("a directory");
        for report in reports(&plan(Name::Null, Step::value_variants(), dir.path().into())) {
            let expected = match report.bench.as_str() {
                "fillseq" | "fillrandom" | "fillbatch" | "overwrite" => 2_000,
                "settle" => 1,
                "readseq" | "readreverse" => 0,
                _ => 500,
            };
            assert_eq!(report.ops, expected, "{}", report.bench);
            assert_eq!(report.found, 0, "{}", report.bench);
        }
    }

    #[test]
    fn real_stores_find_what_was_written_and_nothing_else() {
        use Step::{
            FillRandom, ReadMissing, ReadRandom, ReadReverse, ReadSeq, ReadWhileWriting, SeekRandom, Settle, YcsbC,
            YcsbD,
        };
        for engine in Name::built().into_iter().filter(|name| *name != Name::Null) {
            let dir = tempfile::tempdir().expect("a directory");
            let steps = [
                FillRandom,
                Settle,
                ReadRandom,
                ReadMissing,
                ReadSeq,
                ReadReverse,
                SeekRandom,
                ReadWhileWriting,
                YcsbC,
                YcsbD,
            ];
            let reports = reports(&plan(engine, &steps, dir.path().into()));
            let found =
                |step: Step| reports.iter().find(|report| report.bench == step.text()).map(|report| report.found);
            assert_eq!(found(ReadRandom), Some(500), "{engine:?}");
            assert_eq!(found(ReadMissing), Some(0), "{engine:?}");
            assert_eq!(found(ReadWhileWriting), Some(500), "{engine:?}");
            assert_eq!(found(YcsbC), Some(500), "{engine:?}");
            assert!(found(YcsbD) >= Some(440), "{engine:?}");
            assert!(found(SeekRandom) > Some(4_500), "{engine:?}");
            let rows = found(ReadSeq);
            assert!(rows > Some(2 * 1_100) && rows == found(ReadReverse), "{engine:?} {rows:?}");
        }
    }
}
