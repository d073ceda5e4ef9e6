//! Ingested tables: files that were written before their place in the commit order was known.
//!
//! In:    a checked block whose records all have `WRITTEN_SEQNO`, with companions bound to it.
//! Out:   the same block as readers see it: companions bound to the seqno that the manifest gives to the table. The seqno
//!        itself needs no work, because a block stores seqnos relative to the table's base.
//! Holds: the conversion happens once for each block that is read, directly after its CRC was checked. So nothing above
//!        the table, the cache and compactions included, can tell an ingested table from another one.

use super::table::Table;
use super::tail::WRITTEN_SEQNO;
use crate::error::Result;
use crate::record::Record;
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::PLAIN;
use crate::sst::block::entry::BlockBuilder;
use crate::sst::block::frame::{BlockHandle, COLUMN, StoredBlock, WORD_BYTES, companion_of};
use crate::sst::block::partial_block::{PartialBlock, PartialItem};
use crate::sst::block::scan::{EntryScan, KeyBuffer, scan_entries};

/// A checked block as readers see it: its stored bytes, codec and handle.
pub(in crate::sst) type BoundBlock<'b> = (&'b [u8], u8, BlockHandle);

impl Table {
    /// Returns true if the manifest gives its records their seqno.
    #[inline]
    pub(in crate::sst) fn is_ingested(&self) -> bool {
        self.expected.ingest_seqno != 0
    }

    /// Returns true if the file may have been written to be ingested: all its records have `WRITTEN_SEQNO`. So may those
    /// of a store's first table.
    pub fn is_ingestible(&self) -> bool {
        let (least, greatest) = (self.properties.least_seqno, self.properties.greatest_seqno);
        [self.base, least, greatest] == [WRITTEN_SEQNO; 3]
    }

    /// Returns true if its records have companions that its protector can bind to another seqno.
    fn binds(&self) -> bool {
        self.records.protector.binds(self.properties.seal_algorithm)
    }

    /// Returns a checked block as readers see it; `room` is a buffer for its bytes. Blocks of other tables stay as they
    /// are.
    #[inline]
    pub(in crate::sst) fn bound<'b>(
        &self,
        (stored, codec): (&'b [u8], u8),
        handle: &BlockHandle,
        room: &'b mut Vec<u8>,
    ) -> Result<BoundBlock<'b>> {
        if !self.is_ingested() || self.properties.protection == Protection::None as u8 {
            return Ok((stored, codec, *handle));
        }
        let codec = self.bind_block((stored, codec), handle, room)?;
        let (stored_len, raw_len) = (room.len() as u32, handle.raw_len);
        let raw_len = if codec == PLAIN { stored_len } else { raw_len };
        Ok((room, codec, BlockHandle { stored_len, raw_len, ..*handle }))
    }

    /// Writes a block with bound companions to `out`, and returns its codec. Companions that the protector does not know
    /// are left out: unbound, they would make good records look damaged.
    #[cold]
    #[inline(never)]
    fn bind_block(&self, (stored, codec): (&[u8], u8), handle: &BlockHandle, out: &mut Vec<u8>) -> Result<u8> {
        out.clear();
        let parts = StoredBlock::split(stored, codec)?;
        if let Some(column) = parts.column {
            out.extend_from_slice(parts.packed);
            if !self.binds() {
                return Ok(codec & !COLUMN);
            }
            for word in column.chunks_exact(WORD_BYTES) {
                let mut companion = companion_of(word);
                self.bind(&mut companion);
                out.extend_from_slice(&companion[companion.len() - WORD_BYTES..]);
            }
            out.extend_from_slice(&((column.len() / WORD_BYTES) as u32).to_le_bytes());
            return Ok(codec);
        }
        let (mut scratch, mut keys) = (Vec::new(), KeyBuffer::default());
        let body = parts.body(handle.raw_len, &mut scratch, self.dictionary.as_deref())?;
        let (base, order) = (self.base, &self.records.order);
        if !self.binds() {
            let interval = EntryScan::new(body, None, &mut keys)?.shape().interval;
            let mut bare = BlockBuilder::new(interval.into(), base);
            scan_entries(body, None, base, order, &mut keys, |_, record| {
                bare.add(record, &[]);
                Ok(())
            })?;
            out.extend_from_slice(bare.finish());
            return Ok(PLAIN);
        }
        out.extend_from_slice(body);
        let mut scan = EntryScan::new(body, None, &mut keys)?;
        while let Some(step) = scan.next(body, base, order, &mut keys)? {
            self.bind(&mut out[step.companion]);
        }
        Ok(PLAIN)
    }

    /// Binds companions as the file stores them to the table's seqno.
    pub(in crate::sst) fn bind(&self, companion: &mut [u8]) {
        self.records.protector.bind(companion, Some(WRITTEN_SEQNO), self.expected.ingest_seqno);
    }

    /// Binds the companions of the records that were salvaged from a damaged block.
    pub(in crate::sst) fn bind_salvaged(&self, partial: &mut PartialBlock) {
        if !self.is_ingested() {
            return;
        }
        for item in &mut partial.items {
            if let PartialItem::Record(kept) = item {
                match self.binds() {
                    true => self.bind(&mut kept.bytes[kept.value_len..]),
                    false => kept.bytes.truncate(kept.value_len),
                }
            }
        }
    }
}

/// Checks records with companions as the file of an ingested table stores them.
pub(in crate::sst) struct AsStored<'a>(pub(in crate::sst) &'a dyn Companions);

impl Companions for AsStored<'_> {
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        self.0.verify(&Record { seqno: WRITTEN_SEQNO, ..*record }, key_hash, source)
    }
    fn protection(&self) -> Protection {
        self.0.protection()
    }
    fn algorithm(&self) -> u64 {
        self.0.algorithm()
    }
    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.0.correct(block, seed, confirm)
    }
}
