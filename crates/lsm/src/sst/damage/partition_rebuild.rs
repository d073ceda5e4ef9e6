//! Rebuild of one partition of an index from the blocks of its range.

use super::block_search::{BlockSearch, FoundBlock};
use super::tolerant_file::TolerantFile;
use crate::error::{Error, Result};
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{BlockHandle, LOST, TRAILER_BYTES};
use crate::sst::index::index::{Index, IndexAssembler};
use crate::sst::index::partitions::PartitionReader;
use crate::sst::index::top_index::{PartitionEntry, sum_of};

/// Rebuilds the index partition of a range from its blocks. The bytes between the blocks found are listed as the
/// missing blocks, with CRCs that never match, so that all other blocks keep their numbers. Returns true if the block
/// CRCs are those of the lost partition. Errors: `Io`.
pub(in crate::sst) fn rebuild_partition(
    from: &PartitionReader<'_>,
    span: &PartitionEntry,
    dictionary: Option<&Dictionary>,
) -> Result<(Index, bool, Option<Error>)> {
    let given = TolerantFile::new(from.name, from.file);
    let scan = BlockSearch { given: &given, uid: from.uid, end: span.end, order: from.order, dictionary };
    let mut blocks = scan.blocks_from(span.range.offset, span.range.floor.as_deref());
    blocks.retain(|block| from.order.compare(&block.last_key, &span.bound).is_le());
    let mut named = between(&blocks, span);
    let widest = (0..named.len()).filter(|at| named[*at].is_gap).max_by_key(|at| named[*at].handle.stored_len);
    match (span.blocks.checked_sub(named.len()), widest) {
        (Some(0), _) => {}
        (Some(missing), Some(gap)) => {
            let pieces = named[gap].shared_out(missing + 1);
            named.splice(gap..=gap, pieces);
        }
        // More blocks than the range had, or fewer without a gap: do not trust the blocks found.
        _ => named = NamedBlock::gap((span.range.offset, span.end), &span.bound).shared_out(span.blocks),
    }
    if let Some(last) = named.last_mut() {
        last.separator.clone_from(&span.bound);
    }
    let is_it =
        !named.iter().any(|named| named.is_gap) && sum_of(named.iter().map(|named| named.handle.crc)) == span.sum;
    let mut index = IndexAssembler::new(span.range.clone(), from.order, (named.len(), 0));
    for NamedBlock { separator, handle, .. } in &named {
        index.add(separator, *handle)?;
    }
    Ok((index.finish()?, is_it, given.refused()))
}

/// A block with its separator, or a gap.
struct NamedBlock {
    separator: Vec<u8>,
    handle: BlockHandle,
    is_gap: bool,
}

impl NamedBlock {
    /// Creates a gap: a range in which no block was found.
    fn gap((from, to): (u64, u64), separator: &[u8]) -> NamedBlock {
        let stored_len = (to - from).saturating_sub(TRAILER_BYTES as u64).min(u32::MAX.into()) as u32;
        let handle = BlockHandle { offset: from, stored_len, raw_len: stored_len, crc: LOST };
        NamedBlock { separator: separator.to_vec(), handle, is_gap: true }
    }

    /// Splits the gap into `count` blocks of equal length.
    fn shared_out(&self, count: usize) -> Vec<NamedBlock> {
        let each = self.handle.bytes() / count.max(1);
        let stored_len = each.saturating_sub(TRAILER_BYTES) as u32;
        let piece = |n: usize| {
            let offset = self.handle.offset + (n * each) as u64;
            let handle = BlockHandle { offset, stored_len, raw_len: stored_len, crc: LOST };
            NamedBlock { separator: self.separator.clone(), handle, is_gap: true }
        };
        (0..count).map(piece).collect()
    }
}

/// Returns the blocks found in a range, with one gap for each range of bytes between them.
fn between(blocks: &[FoundBlock], span: &PartitionEntry) -> Vec<NamedBlock> {
    let (mut named, mut at) = (Vec::with_capacity(span.blocks), span.range.offset);
    for block in blocks {
        if block.handle.offset > at {
            named.push(NamedBlock::gap((at, block.handle.offset), &block.first_key));
        }
        named.push(NamedBlock { separator: block.last_key.clone(), handle: block.handle, is_gap: false });
        at = block.handle.end();
    }
    if at < span.end {
        named.push(NamedBlock::gap((at, span.end), &span.bound));
    }
    named
}
