//! The records of a tree, by place: what decides their order.
//!
//! A *place* is the number of a record in the arena. Leaves hold places; comparing two of them reads the records.

use std::cmp::Ordering;
use std::sync::Arc;

use super::arena::Arena;
use super::node::half;
use crate::order::{Order, common_prefix, head};
use crate::record::{Record, Seqno};

/// A search key.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) key: &'a [u8],
    pub(super) seqno: Seqno,
}

/// The records in an arena, and their order.
#[derive(Debug)]
pub(super) struct PlacedRecords {
    pub(super) order: Order,
    pub(super) arena: Arc<Arena>,
}

impl PlacedRecords {
    /// True if two keys are equal in the order.
    pub(super) fn is_same_key(&self, a: &[u8], b: &[u8]) -> bool {
        self.order.compare(a, b).is_eq()
    }

    #[inline]
    pub(super) fn record(&self, place: u32) -> Option<Record<'_>> {
        self.arena.record(place)
    }

    /// Prefetches the record at a place.
    #[inline]
    pub(super) fn ask_for(&self, place: u32) {
        self.arena.ask_for(place);
    }

    /// Returns the half of a key after its first `skip` bytes; 0 in an order without heads.
    #[inline]
    pub(super) fn half(&self, key: &[u8], skip: usize) -> u32 {
        if self.order.is_bytewise() { half(key, skip) } else { 0 }
    }

    /// Returns the head of the key at a place after its first `skip` bytes; 0 in an order without heads.
    pub(super) fn head_at(&self, place: u32, skip: usize) -> u64 {
        if self.order.is_bytewise() { head(self.key(place), skip) } else { 0 }
    }

    /// Returns the length of the common prefix of the keys at some places; 0 in an order without heads.
    pub(super) fn common_start(&self, mut places: impl Iterator<Item = u32>) -> usize {
        let Some(first) = places.next().filter(|_| self.order.is_bytewise()) else { return 0 };
        let first = self.key(first);
        places.map(|place| common_prefix(first, self.key(place))).min().unwrap_or(first.len())
    }

    #[inline]
    pub(super) fn key(&self, place: u32) -> &[u8] {
        self.arena.placed(place).map_or(&[], |(key, _)| key)
    }

    /// Compares a probe with the record at a place.
    #[inline]
    pub(super) fn compare(&self, probe: &Probe<'_>, place: u32) -> Ordering {
        let (key, seqno) = self.arena.placed(place).unwrap_or_default();
        self.order.compare_internal((probe.key, probe.seqno), (key, seqno))
    }

    /// Compares two records whose keys agree in the first `same` bytes, where a shorter key is extended by zeros. They
    /// are mostly versions of one key, and then no key byte is read.
    pub(super) fn compare_behind(&self, a: u32, b: u32, same: usize) -> Ordering {
        let (key, seqno) = self.arena.placed(a).unwrap_or_default();
        let (other, older) = self.arena.placed(b).unwrap_or_default();
        match key.len() == other.len() && key.len() <= same && self.order.is_bytewise() {
            true => older.cmp(&seqno),
            false => self.order.compare_internal((key, seqno), (other, older)),
        }
    }
}
