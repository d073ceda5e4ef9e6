//! A seek in steps, so that the tables of many levels are sought side by side; and what a walk comes to next, asked for before it is there.
//!
//! In:     a key. Out: what the next seek of that key reads stands in the processor's caches, as far as it is in memory at all, and is
//!         not looked for again.
//! Holds:  a step changes no answer: the seek finds what it finds without it, and checks what it checks. Nothing is read from the file.
//! Costs:  a seek waits for the slot of its block, the block, and the entry, one after the other. Those of several tables
//!         wait together if each step is made for all of them before the next: `aim`, `ask_for_block`, `take_block`, then the seek.
//!         A walk waits for the same three where it comes into a block. The processor sees by itself where it goes within one.

use arc_swap::Guard;

use super::block::Aim;
use super::cursor::TableCursor;
use crate::prefetch::prefetch_counters;

/// So many entries before it a walk is soon at the end of its block.
const SOON: usize = 12;

/// Where the next seek of a key begins.
#[derive(Clone, Copy)]
pub(super) struct Aimed {
    /// The block that the index has named.
    pub(super) number: usize,
    /// The place in it, if it is held.
    pub(super) within: Option<Aim>,
}

impl TableCursor {
    /// Asks the index where a key belongs, and memory for the slot of that block. The cursor then stands nowhere.
    pub(crate) fn aim(&mut self, key: &[u8]) {
        self.leave();
        // What lies in the block that is held needs no index.
        if !self.proves() && self.block.as_deref().is_some_and(|block| block.surrounds(key)) {
            return;
        }
        // What leads there may have to be read: the seek itself does that.
        if let Some(part) = self.part_in_memory_for(key) {
            let number = part.index.find(key, &self.table.order);
            self.table.slots.prefetch(number);
            self.aimed = Some(Aimed { number, within: None });
        }
    }

    /// Asks memory for the block that was aimed at.
    pub(crate) fn ask_for_block(&mut self) {
        let Some(aimed) = &self.aimed else { return };
        if !self.holds(aimed.number) && self.may_take(aimed.number) {
            let slot = self.table.slots.slot(aimed.number).load();
            if let Some(block) = &*slot {
                block.prefetch();
                prefetch_counters(block);
                self.asked_for = Some(slot);
            }
        }
    }

    /// Takes that block, if it is in memory, and asks for the entry where the key belongs.
    pub(crate) fn take_block(&mut self, key: &[u8]) {
        let asked_for = self.asked_for.take().and_then(Guard::into_inner);
        let Some(mut aimed) = self.aimed else { return };
        match asked_for {
            Some(block) => self.takes(aimed.number, block),
            None if self.holds(aimed.number) => {}
            None => return,
        }
        if let Some(block) = &self.block {
            aimed.within = block.aim(key);
            aimed.within.iter().for_each(|aim| block.prefetch_entry(aim.at));
            self.aimed = Some(aimed);
        }
    }

    /// Asks for what comes first on a walk that goes from where the cursor stands as far as a place in its block; and where it is soon at
    /// the end of that, for what leads to the entries of the next one.
    #[inline]
    pub(crate) fn ask_ahead(&self, forward: bool, reach: usize) {
        let Some(block) = self.block.as_deref() else { return };
        let is_near_end = match forward {
            true => {
                block.prefetch_up(self.at + 1, reach);
                reach + 1 == block.len() && self.at + SOON >= block.len()
            }
            false => {
                block.prefetch_down(self.at, reach);
                reach <= 1 && self.at <= SOON
            }
        };
        let (next, behind) = self.beyond(forward);
        if is_near_end && self.fill_cache && self.asked_beyond != behind {
            self.table.prefetch_block(next);
        }
    }

    /// A walk has come into a block: asks for the first entries of the next one, and for what leads to those of the one behind that.
    pub(super) fn ask_beyond(&mut self, forward: bool) {
        if !self.fill_cache {
            return;
        }
        let (next, behind) = self.beyond(forward);
        match std::mem::replace(&mut self.asked_beyond, behind) == next {
            true => self.table.prefetch_entries(next, forward),
            false => self.table.prefetch_block(next),
        }
        self.table.prefetch_block(behind);
    }

    /// The next two blocks in a direction; where there is none, a number that no block has.
    #[inline]
    fn beyond(&self, forward: bool) -> (usize, usize) {
        let step = if forward { 1 } else { usize::MAX };
        (self.number.wrapping_add(step), self.number.wrapping_add(step.wrapping_mul(2)))
    }

    /// True if every record is checked: a seek then proves that it passed nothing over.
    #[inline]
    pub(crate) fn proves(&self) -> bool {
        self.every == 1
    }
}
