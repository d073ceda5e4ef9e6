//! Trim: releases disk space that the log holds in advance. For an idle store it releases all of it, on a full disk
//! most of it.
//!
//! In:     an idle log; the caller, which knows the memtables, decides that a trim is worthwhile. Out: the log
//!         continues in a short, empty segment, with no file beside it but the ring, once the segments before it are
//!         retired as usual (`retirable`, the edit, `recycle`).
//! Then:   the first frame after it requests a segment of the usual length, which is made like the first one of a
//!         store: reserved, with only its front written. Retired segments accumulate again over time.
//! Crash:  the removed files were never named (the next segments, a file under construction) or are no longer named
//!         (retired segments); the next open deletes any that remain. The log enters the short segment by a turnover
//!         like any other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::env::work::lock;
use crate::error::Result;
use crate::names::Name;

use super::Wal;
use super::blocks::first_bytes;
use super::order::Step;

impl<T> Wal<T> {
    /// Turns to a short segment, unless the log is at the beginning of one. Returns true if it did. Concurrent commits
    /// are neither lost nor delayed. After a failure the log remains usable, except that a failed sync halts it.
    pub fn turn_short(&self) -> Result<bool> {
        let Some(first) = self.make_short()? else { return Ok(false) };
        let filler = loop {
            let mut order = self.order.lock();
            if order.closed || order.current.first >= first {
                break None; // a commit has turned to it already
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

    /// Makes a short segment the next one, and returns its first offset.
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

    /// Removes all files kept for future writes: retired segments, the next ones, and one under construction. The log
    /// makes new ones as needed.
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

    /// Removes the files kept beyond the next segment, or beyond the file that it can be made of, since commits may
    /// need it at any time. The room is needed by a table flush, after which the log needs less. No other segment is
    /// made ahead while the current one is being written. Returns true if any file was removed.
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

    /// Returns the offset up to which no frame waits to be taken. For the thread that takes frames (the db's apply
    /// lock).
    pub fn taken_up_to(&self) -> u64 {
        self.order.lock().taken_up_to()
    }

    /// True if the current segment is a short one.
    pub(super) fn is_short(&self) -> bool {
        self.order.lock().current.length() < self.limits.segment_bytes
    }

    /// Removes a segment that is not referenced. If that fails, the next open deletes it.
    pub(super) fn remove(&self, number: u64) {
        let _ = self.env.fs.remove(&self.dir.join(Name::Segment(number).to_string()));
    }
}
