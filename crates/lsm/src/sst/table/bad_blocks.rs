//! The blocks of a table that are known to be damaged, with their readable parts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::env::work::lock;
use crate::sst::block::partial_block::PartialBlock;

/// Maximum number, and bytes, of damaged blocks whose readable parts are kept in memory for one table.
const MOST_BLOCKS: usize = 64;
const MOST_BYTES: usize = 4 << 20;

/// The known bad blocks of a table.
#[derive(Default)]
pub(in crate::sst) struct BadBlocks {
    any: AtomicBool,
    known: Mutex<KnownBlocks>,
}

#[derive(Default)]
struct KnownBlocks {
    /// The oldest first.
    broken: Vec<(usize, Arc<PartialBlock>)>,
    bytes: usize,
    /// Blocks that were already reported as damaged.
    reported: BTreeSet<usize>,
}

impl BadBlocks {
    /// Returns the readable part of a block that is known to be damaged.
    pub(in crate::sst) fn find(&self, number: usize) -> Option<Arc<PartialBlock>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.known).broken.iter().find(|(known, _)| *known == number).map(|(_, partial)| partial.clone())
    }

    /// Adds the readable part of a block; returns true if the block was not reported before.
    pub(in crate::sst) fn add(&self, number: usize, partial: &Arc<PartialBlock>) -> bool {
        let mut known = lock(&self.known);
        self.any.store(true, Ordering::Release);
        if !known.broken.iter().any(|(other, _)| *other == number) {
            known.bytes += partial.memory();
            known.broken.push((number, partial.clone()));
        }
        while known.broken.len() > MOST_BLOCKS || (known.bytes > MOST_BYTES && known.broken.len() > 1) {
            let (_, oldest) = known.broken.remove(0);
            known.bytes -= oldest.memory();
        }
        known.reported.insert(number)
    }

    /// Removes all bad blocks.
    pub(in crate::sst) fn clear(&self) {
        if self.any.load(Ordering::Acquire) {
            *lock(&self.known) = KnownBlocks::default();
        }
    }

    /// Removes a block that turned out to be whole.
    pub(in crate::sst) fn remove(&self, number: usize) {
        if self.any.load(Ordering::Acquire) {
            let mut known = lock(&self.known);
            if let Some(at) = known.broken.iter().position(|(other, _)| *other == number) {
                let (_, partial) = known.broken.remove(at);
                known.bytes -= partial.memory();
            }
        }
    }
}
