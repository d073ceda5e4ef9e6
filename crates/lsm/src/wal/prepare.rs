//! Segments before and after their use: the next one made ready, retired ones used again.
//!
//! `prepare` keeps one empty segment ready, durable and named in the directory, so that a turnover costs no I/O. Its first
//! logical offset is where the current segment's file ends, whatever part of that is used.
//! A segment is retired in two steps: `retirable` tells which ones nobody needs below an offset, and only after the manifest
//! says so durably does `recycle` let them go. While a pin exists (a checkpoint copies segments) none is used again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::env::work::lock;
use crate::error::Result;
use crate::names::Name;

use super::segment::{Made, PAGE, Place, Refusal, Segment};
use super::{LogStart, Wal};

/// Retired segments that are kept to be used again.
const POOL: usize = 3;

/// Segments that are retired, and not used again yet.
#[derive(Debug, Default)]
pub(super) struct Retired(Vec<Arc<Segment>>);

/// What nobody needs any more, and where the log begins without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retirable {
    /// Numbers of the segments, oldest first.
    pub segments: Vec<u64>,
    /// The log's start once they are gone.
    pub start: LogStart,
}

/// A segment as a checkpoint copies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSegment {
    /// The place at its start.
    pub start: Place,
    /// Length of its file.
    pub length: u64,
}

impl LiveSegment {
    /// Bytes of its file up to a logical offset, header included; 0 if it begins behind.
    pub fn bytes_up_to(&self, offset: u64) -> u64 {
        if offset < self.start.offset { 0 } else { (PAGE + offset - self.start.offset).min(self.length) }
    }
}

/// While one exists, no segment is used again or removed.
#[derive(Debug)]
pub struct Pin(Arc<AtomicUsize>);

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Wal<T> {
    /// True once half of the current segment is used and no next one is ready: a store that is hardly written keeps one.
    pub fn prepare_due(&self) -> bool {
        self.order.lock().wants_next()
    }

    /// Makes the next segment ready. True if it was not.
    pub fn prepare(&self) -> Result<bool> {
        self.prepare_at_least(self.limits.segment_bytes)
    }

    /// Makes the next segment ready, with a file at least `length` bytes long. A failure leaves the log as it was, except
    /// that a failed sync halts it.
    pub(super) fn prepare_at_least(&self, length: u64) -> Result<bool> {
        let mut retired = lock(&self.retired);
        self.check()?;
        let (short, first) = {
            let mut order = self.order.lock();
            match &order.next {
                Some(next) if next.length() >= length => return Ok(false),
                _ => (order.next.take(), order.current.limit()),
            }
        };
        let made = match &short {
            Some(next) => self.maker.extend(&self.env, next, length).map(|()| next.clone()),
            None => self.make(&mut retired, first, length),
        };
        let (next, outcome) = match made {
            Ok(next) => (Some(next), Ok(true)),
            Err(Refusal::Plain(error)) => (short.clone(), Err(error)),
            Err(Refusal::Sync(error)) => return Err(self.halt(error)),
        };
        let mut order = self.order.lock();
        if let Some(next) = next {
            if short.is_none() {
                order.live.push_back(next.clone());
            }
            order.next = Some(next);
        }
        if order.waiting > 0 {
            self.order.notify_all();
        }
        outcome
    }

    fn make(&self, retired: &mut Retired, first: u64, length: u64) -> Made<Arc<Segment>> {
        let length = length.max(self.limits.segment_bytes);
        self.shed(retired);
        let fitting = retired.0.iter().position(|segment| segment.length() == length);
        let number = (self.numbers)();
        let segment = match fitting.filter(|_| self.pins.load(Ordering::Acquire) == 0) {
            Some(at) => {
                let old = retired.0.swap_remove(at);
                self.metrics.segments_recycled.fetch_add(1, Ordering::Relaxed);
                self.maker.recycled(&self.env, &self.dir, &old, number, first)?
            }
            None => {
                self.metrics.segments_made.fetch_add(1, Ordering::Relaxed);
                let ordinary = length == self.limits.segment_bytes;
                self.maker.fresh(&self.env, &self.dir, number, first, length, if ordinary { length } else { 0 })?
            }
        };
        Ok(Arc::new(segment))
    }

    /// Removes retired segments beyond those worth keeping. One that cannot be removed is swept at the next open.
    fn shed(&self, retired: &mut Retired) {
        if self.pins.load(Ordering::Acquire) > 0 {
            return;
        }
        let mut kept = 0;
        retired.0.retain(|segment| {
            let keep = segment.length() == self.limits.segment_bytes && kept < POOL;
            kept += keep as usize;
            if !keep {
                let _ = self.env.fs.remove(&self.dir.join(Name::Segment(segment.number).to_string()));
            }
            keep
        });
    }

    /// The segments that lie entirely below an offset, and the log's start without them; none: None.
    pub fn retirable(&self, below: u64) -> Option<Retirable> {
        let order = self.order.lock();
        let is_over = |segment: &&Arc<Segment>| segment.closed.get().is_some_and(|(end, _)| *end <= below);
        let segments: Vec<u64> = order.live.iter().take_while(is_over).map(|segment| segment.number).collect();
        let place = order.live.get(segments.len())?.start();
        let start = LogStart { place, ring: self.ring.number, ring_nonce: self.ring.nonce };
        (!segments.is_empty()).then_some(Retirable { segments, start })
    }

    /// Lets retired segments go: the manifest no longer names them, durably.
    pub fn recycle(&self, numbers: &[u64]) {
        let mut retired = lock(&self.retired);
        let mut order = self.order.lock();
        while let Some(oldest) = order.live.front().filter(|oldest| numbers.contains(&oldest.number)) {
            retired.0.push(oldest.clone());
            order.live.pop_front();
        }
        drop(order);
        self.shed(&mut retired);
    }

    /// Keeps every segment as it is until the pin is dropped.
    pub fn pin(&self) -> Pin {
        // Under the lock: nobody is renaming one right now.
        let _retired = lock(&self.retired);
        self.pins.fetch_add(1, Ordering::AcqRel);
        Pin(self.pins.clone())
    }

    /// The segments that hold the log, oldest first, up to the current one.
    pub fn live(&self) -> Vec<LiveSegment> {
        let order = self.order.lock();
        let up_to_now = order.live.iter().filter(|segment| segment.first <= order.current.first);
        up_to_now.map(|segment| LiveSegment { start: segment.start(), length: segment.length() }).collect()
    }

    /// Bytes of log that are live: from the oldest segment's start to the end.
    pub fn live_bytes(&self) -> u64 {
        let order = self.order.lock();
        order.live.front().map_or(0, |oldest| order.end - oldest.first)
    }
}
