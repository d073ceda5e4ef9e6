//! Trim: the log gives back the disk that it holds in advance, for a store that nobody writes to; or most of it, on a disk that is full.
//!
//! In:    a log that has settled: whoever knows the memtables says that it is worth it. Out: a short segment, empty, which the log goes on in, and
//!        no file beside it but the ring, once what lies before it is retired as ever (`retirable`, the edit, `recycle`).
//! Then:  the first frame behind it asks for a segment of the usual length, which is made like the first of a store: reserved, and written
//!        at its front alone. Retired ones gather again as they come.
//! Crash: files that go were never named (the next segments, one in the making) or are no longer (retired ones); what of them is left is
//!        swept at the next open. The short segment is entered by a turnover like any other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::env::work::lock;
use crate::error::Result;
use crate::names::Name;

use super::Wal;
use super::blocks::first_bytes;
use super::order::Step;

impl<T> Wal<T> {
    /// Turns to a short segment, unless the log stands at the beginning of one; true if it did. Who commits
    /// meanwhile is neither lost nor in the way. A failure leaves the log able to go on, except that a failed sync halts it.
    pub fn turn_short(&self) -> Result<bool> {
        let Some(first) = self.make_short()? else { return Ok(false) };
        let filler = loop {
            let mut order = self.order.lock();
            if order.closed || order.current.first >= first {
                break None; // whoever commits has turned to it
            }
            match order.turn_step(self.limits) {
                Step::Turn(until) => break order.turn(until, self.limits),
                step => {
                    drop(order);
                    self.await_step(step, false)?;
                }
            }
        };
        if let Some(filler) = filler {
            self.metrics.turnovers.fetch_add(1, Ordering::Relaxed);
            self.copy_filler(&filler)?;
        }
        self.look(&mut self.order.lock());
        Ok(true)
    }

    /// Makes a short segment the next one, and gives its first offset.
    fn make_short(&self) -> Result<Option<u64>> {
        let retired = lock(&self.retired); // one segment is made at a time
        self.check()?;
        let length = self.limits.short_bytes();
        let (spare, first) = {
            let mut order = self.order.lock();
            let is_there = order.end == order.current.first && order.current.length() <= length;
            if is_there || order.closed {
                return Ok(None);
            }
            (order.take_next(0), order.current.limit())
        };
        spare.iter().for_each(|spare| self.remove(spare.number));
        let blocks = first_bytes(self.limits.segment_bytes);
        let is_filled = self.expects_syncs.load(Ordering::Relaxed);
        let made = self.maker.sparse(&self.env, &self.dir, ((self.numbers)(), first, length), blocks, is_filled);
        let short = Arc::new(self.unless_halted(made)?);
        self.metrics.segments_made.fetch_add(1, Ordering::Relaxed);
        let mut order = self.order.lock();
        order.add_next(short);
        if order.waiting > 0 {
            self.order.notify_all();
        }
        drop(order);
        drop(retired);
        Ok(Some(first))
    }

    /// Removes what is kept for what may be written: retired segments, the next ones, one in the making. The log makes others as it needs them.
    pub fn give_back(&self) {
        let mut retired = lock(&self.retired);
        if let Some(making) = retired.making.take() {
            self.note_making(&retired);
            self.remove(making.number);
        }
        let next = self.order.lock().take_next(0);
        next.iter().for_each(|next| self.remove(next.number));
        self.shed(&mut retired, 0);
    }

    /// Removes what is kept beside the next segment, or what that can be made of: commits may come to it at any time. What lacks the room is a
    /// table, behind which the log needs less. No other is made ahead while the present segment is written. True if there was any.
    pub fn give_back_spare(&self) -> bool {
        let mut retired = lock(&self.retired);
        let mut order = self.order.lock();
        let behind = order.take_next(1);
        retired.no_room_at = Some(order.current.first);
        let kept = usize::from(order.next.is_empty() && retired.making.is_none());
        drop(order);
        behind.iter().for_each(|next| self.remove(next.number));
        self.shed(&mut retired, kept) > 0 || !behind.is_empty()
    }

    /// Offset up to which no frame waits to be taken. For the one who takes (the db's apply lock).
    pub fn taken_up_to(&self) -> u64 {
        self.order.lock().taken_up_to()
    }

    /// True if the log stands in a short segment.
    pub(super) fn is_short(&self) -> bool {
        self.order.lock().current.length() < self.limits.segment_bytes
    }

    /// Removes a segment that nobody names. One that cannot be removed is swept at the next open.
    pub(super) fn remove(&self, number: u64) {
        let _ = self.env.fs.remove(&self.dir.join(Name::Segment(number).to_string()));
    }
}
