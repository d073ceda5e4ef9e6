//! A full table scan that continues past damage: for verification, scrubbing, repair and salvage.

use super::block_repair::{RepairResult, recover};
use crate::checksum::hash_key;
use crate::error::{Error, Remedy, Result};
use crate::lost_range::LostRange;
use crate::record::{Record, Seqno};
use crate::seam::{Check, Companions, RecordSource};
use crate::sst::block::frame::TRIES;
use crate::sst::block::partial_block::PartialItem;
use crate::sst::table::table::{Table, promised};

/// An item of the scan.
#[derive(Debug)]
pub enum ExaminedItem<'a> {
    /// A readable record, the result of its check, and its location.
    Record(&'a Record<'a>, Check, RecordSource<'a>),
    /// A key range in which records may have been lost.
    Gap(&'a LostRange),
    /// The device could not read a block, even after retries; this causes the gap that follows.
    Refused {
        /// Offset of the block in the file.
        offset: u64,
        /// The device's error.
        error: &'a Error,
    },
    /// The block at this offset was repaired; its records follow.
    Healed {
        /// Offset of the block in the file.
        offset: u64,
        /// The repair that succeeded.
        by: Remedy,
    },
}

impl Table {
    /// Visits all records in order, bypassing the cache and the list of known bad blocks. Ranges that cannot be read
    /// are visited as gaps between the records. With `repair`, a damaged block is read again and corrected if possible;
    /// without, it is used as it is.
    ///
    /// Errors: an error of `visit` ends the scan. A block that the device cannot read is a gap, not an error.
    pub fn examine(
        &self,
        protector: &dyn Companions,
        repair: bool,
        visit: &mut dyn FnMut(ExaminedItem<'_>) -> Result<()>,
    ) -> Result<()> {
        let protection = promised(&self.properties, protector);
        let tries = if repair { TRIES } else { 0 };
        let mut key = Vec::new();
        let mut before: Option<(Vec<u8>, Seqno)> = None;
        for number in 0..self.blocks() {
            if repair {
                self.examine_partition(number, visit)?;
            }
            let source = RecordSource { protection, ..self.source(number) };
            let known = before.take();
            let known = known.as_ref().map(|(key, seqno)| (&key[..], *seqno));
            match recover(self, number, protector, tries, known)? {
                RepairResult::Whole(block, remedy, all) => {
                    self.bad_blocks.remove(number);
                    if let Some(by) = remedy {
                        visit(ExaminedItem::Healed { offset: source.offset, by })?;
                    }
                    block.each(&mut key, |record| {
                        let check = all.unwrap_or_else(|| protector.verify(record, hash_key(record.key), protection));
                        visit(ExaminedItem::Record(record, check, source))
                    })?;
                    before = Some(block.last()?);
                }
                RepairResult::Salvaged(left, error) => {
                    if !error.is_corruption() {
                        visit(ExaminedItem::Refused { offset: source.offset, error: &error })?;
                    }
                    for item in &left.items {
                        match item {
                            PartialItem::Record(kept) => {
                                visit(ExaminedItem::Record(&kept.record(), kept.check, source))?
                            }
                            PartialItem::Lost(lost_range) => visit(ExaminedItem::Gap(lost_range))?,
                        }
                    }
                    if let Some(PartialItem::Record(kept)) = left.items.last() {
                        let record = kept.record();
                        before = Some((record.key.to_vec(), record.seqno));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reports a damaged index partition when the scan reaches its first block.
    fn examine_partition(&self, first: usize, visit: &mut dyn FnMut(ExaminedItem<'_>) -> Result<()>) -> Result<()> {
        let Some(span) = self.table_index.spans().iter().find(|span| span.range.first == first) else { return Ok(()) };
        match self.check_partition(span) {
            Err(error) if error.is_corruption() => {
                let offset = error.damage().map_or(span.index.offset, |damage| damage.offset);
                visit(ExaminedItem::Healed { offset, by: Remedy::Rebuilt })
            }
            _ => Ok(()),
        }
    }
}
