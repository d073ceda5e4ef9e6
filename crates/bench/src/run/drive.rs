//! One step in progress: its threads start together, and their results are merged when the last one ends.

use super::Step;
use super::hand::Hand;
use super::state::{Drive, Tally};
use crate::Outcome;
use crate::engine::View;
use crate::workload::{Random, Values, Zipf};
use std::hint::black_box;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

impl Drive<'_> {
    /// Runs all threads; returns the time from the first start to the last end.
    pub(super) fn all(&self) -> Outcome<(Tally, Duration)> {
        if self.step.is_wait() {
            return self.wait();
        }
        let zipf = self.step.is_zipfian().then(|| Zipf::new(self.plan.num));
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
            all.absorb_windows(tally.windows);
            span = Some(span.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        black_box(all.touched);
        let elapsed = span.map_or(Duration::ZERO, |(first, last)| last - first);
        Ok((all, elapsed))
    }

    /// The time in which the store was already idle is not counted.
    fn wait(&self) -> Outcome<(Tally, Duration)> {
        let mut tally = Tally::new();
        let start = Instant::now();
        let watched = match self.step {
            Step::Settle => self.store.settle()?,
            Step::Backup => self.store.backup().map(|()| Duration::ZERO)?,
            Step::Compact => self.store.compact().map(|()| Duration::ZERO)?,
            _ => self.store.sync().map(|()| Duration::ZERO)?,
        };
        let elapsed = start.elapsed().saturating_sub(watched);
        tally.laps.record(elapsed);
        tally.ops = 1;
        Ok((tally, elapsed))
    }

    /// Returns the number of operations of a step, over all threads.
    fn ops(&self) -> u64 {
        match self.step {
            Step::FillSeq | Step::BulkLoad | Step::FillRandom | Step::FillBatch | Step::Overwrite => self.plan.num,
            Step::FillSync => self.plan.ops.unwrap_or((self.plan.num / 1000).max(1)),
            _ => self.plan.ops.unwrap_or(self.plan.num),
        }
    }

    /// Returns one thread's share of the operations.
    fn share(&self, thread: u64) -> Range<u64> {
        let (ops, threads) = (self.ops(), self.plan.threads);
        ops * thread / threads..ops * (thread + 1) / threads
    }

    /// Runs one thread of the step, from the common start to its own end.
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

    /// The concurrent writer: overwrites until the readers are done.
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
