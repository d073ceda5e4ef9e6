//! A walk over a table that goes on where something is damaged: for verifying, scrubbing, repair and salvage.

use super::heal::{Recovered, TRIES};
use super::remains::Item;
use super::table::{Table, promised};
use crate::checksum::hash_key;
use crate::error::{Error, Remedy, Result};
use crate::fence::Fence;
use crate::record::{Record, Seqno};
use crate::seam::{Check, Companions, Source};

/// What a walk comes by.
#[derive(Debug)]
pub enum Found<'a> {
    /// A record that may be given out, what its companion says, and where it stands.
    Record(&'a Record<'a>, Check, Source<'a>),
    /// Records may have been lost in this span.
    Gap(&'a Fence),
    /// The device did not give a block, however often it was asked: so the gap that follows.
    Refused {
        /// Offset of the block in the file.
        offset: u64,
        /// What it said.
        error: &'a Error,
    },
    /// The block at this offset was made whole; its records follow.
    Healed {
        /// Offset of the block in the file.
        offset: u64,
        /// What helped.
        by: Remedy,
    },
}

impl Table {
    /// Walks all records in order, past the cache and what readers know of damage, and shows what cannot be had as gaps between them. With `heal` a block
    /// that is not right is read again and corrected if that goes; without, it is taken as it lies.
    ///
    /// Errors: what `visit` answers ends the walk. A block that the device does not give is a gap.
    pub fn examine(
        &self,
        keeper: &dyn Companions,
        heal: bool,
        visit: &mut dyn FnMut(Found<'_>) -> Result<()>,
    ) -> Result<()> {
        let protection = promised(&self.properties, keeper);
        let tries = if heal { TRIES } else { 0 };
        let mut key = Vec::new();
        let mut before: Option<(Vec<u8>, Seqno)> = None;
        for number in 0..self.blocks() {
            if heal {
                self.examine_part(number, visit)?;
            }
            let source = Source { protection, ..self.source(number) };
            let known = before.take();
            let known = known.as_ref().map(|(key, seqno)| (&key[..], *seqno));
            match self.recover(number, keeper, tries, known)? {
                Recovered::Whole(block, remedy, all) => {
                    self.wounds.remove(number);
                    if let Some(by) = remedy {
                        visit(Found::Healed { offset: source.offset, by })?;
                    }
                    block.each(&mut key, |record| {
                        let check = all.unwrap_or_else(|| keeper.verify(record, hash_key(record.key), protection));
                        visit(Found::Record(record, check, source))
                    })?;
                    before = Some(block.last()?);
                }
                Recovered::Broken(left, error) => {
                    if !error.is_corruption() {
                        visit(Found::Refused { offset: source.offset, error: &error })?;
                    }
                    for item in &left.items {
                        match item {
                            Item::Whole(kept) => visit(Found::Record(&kept.record(), kept.check, source))?,
                            Item::Gap(fence) => visit(Found::Gap(fence))?,
                        }
                    }
                    if let Some(Item::Whole(kept)) = left.items.last() {
                        let record = kept.record();
                        before = Some((record.key.to_vec(), record.seqno));
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells of a part that leads to this block and those behind it, and is not as it was written.
    fn examine_part(&self, first: usize, visit: &mut dyn FnMut(Found<'_>) -> Result<()>) -> Result<()> {
        let Some(span) = self.guide.spans().iter().find(|span| span.range.first == first) else { return Ok(()) };
        match self.check_part(span) {
            Err(error) if error.is_corruption() => {
                let offset = error.damage().map_or(span.index.offset, |damage| damage.offset);
                visit(Found::Healed { offset, by: Remedy::Rebuilt })
            }
            _ => Ok(()),
        }
    }
}
