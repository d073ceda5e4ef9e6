//! Reserves blocks for the growing log: zeroed parts of the ring, and the front of a sparse segment.
//!
//! In:     the offset that a batch needs (`Step::AwaitBlocks`), or the log lane's look-ahead. Out: a larger
//!         `Order::blocks`.
//! Holds:  blocks count as reserved only after the file system has allocated them. A failure leaves the log unchanged.
//! Waits:  a batch that needs blocks reserves them itself, unless the log lane did so earlier (`reserve_ahead`).

use std::sync::Arc;

use crate::env::work::lock;
use crate::error::Result;

use super::Wal;
use super::blocks::ahead_bytes;
use super::order::Order;

impl<T> Wal<T> {
    /// Reserves blocks up to an offset, and further blocks in advance if the disk has room.
    pub(super) fn reserve(&self, until: u64) -> Result<()> {
        let ahead = self.ahead(&self.order.lock());
        match self.reserve_up_to(until, until + ahead) {
            Err(error) if error.is_out_of_space() => self.reserve_up_to(until, until),
            reserved => reserved,
        }
    }

    /// Reserves blocks before a batch needs them. Returns true if it did. A full disk is not an error here: the batch
    /// that lacks the blocks reports it.
    pub fn reserve_ahead(&self) -> Result<bool> {
        let until = {
            let order = self.order.lock();
            let until = order.end + self.ahead(&order) / 2;
            if order.closed || order.blocks.until() >= until {
                return Ok(false);
            }
            until
        };
        match self.reserve(until) {
            Err(error) if error.is_out_of_space() => Ok(false),
            reserved => reserved.map(|()| true),
        }
    }

    fn ahead(&self, order: &Order<T>) -> u64 {
        ahead_bytes(order.end - order.current.first, self.limits.segment_bytes)
    }

    /// Reserves blocks up to `goal`, unless another thread has meanwhile reserved them up to `until`.
    pub(super) fn reserve_up_to(&self, until: u64, goal: u64) -> Result<()> {
        let _one_at_a_time = lock(&self.reserving);
        self.check()?;
        let (segment, segment_until) = {
            let order = self.order.lock();
            if order.blocks.until() >= until {
                return Ok(());
            }
            (order.current.clone(), order.blocks.segment_until())
        };
        if segment_until < goal {
            let reserved = segment.reserve(goal)?;
            let mut order = self.order.lock();
            if Arc::ptr_eq(&order.current, &segment) {
                order.reserved(|blocks, end| blocks.enter(end, reserved));
            }
        }
        loop {
            let missing = {
                let order = self.order.lock();
                order.blocks.missing(order.end, goal)
            };
            let Some(run) = missing else { return Ok(()) };
            self.ring.prepare(run.at, run.length)?;
            self.order.lock().reserved(|blocks, end| blocks.add(run, end));
        }
    }
}
