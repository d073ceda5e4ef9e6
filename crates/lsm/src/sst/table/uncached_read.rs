//! Point reads in blocks that are read from the file for one search and not cached.
//!
//! In:    a block that the cache does not admit, and a key.
//! Out:   the outcome of the search, as from a cached block.
//! Holds: the block's CRC is checked against its trailer and the index. The result is then verified by seals alone: of
//!        the record before the landing point (a smaller key, or a newer version than the one sought), and of the
//!        record at it. At an edge of the block, the checked separators of the index bracket the key. Records without
//!        a seal, and any deviation from the format, cause the validation of the whole block.
//! Costs: one `pread`, one CRC, half a restart group and two seals. The block is neither validated nor indexed, which
//!        takes several times as long as these: a block that is searched once does not repay it.

use std::cmp::Ordering;

use super::table::{LoadedBlock, ReadOutcome, Table};
use super::verify_read::PointRead;
use crate::checksum::{Role, hash_key};
use crate::env::{read_into, try_copy};
use crate::error::Result;
use crate::planted;
use crate::record::Record;
use crate::seam::Check;
use crate::sst::block::frame::{BlockHandle, COMPANION_BYTES, StoredBlock, check_frame, read_error};
use crate::sst::block::lookup::{BlockLookup, LookupKey, VisitedEntry};
use crate::sst::cache::read_buffer::ReadBuffer;

impl Table {
    /// Performs a point read in a block that is read for this search alone.
    pub(in crate::sst) fn read_uncached(
        &self,
        number: usize,
        wanted: &PointRead<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        if let Some(partial) = self.bad_blocks.find(number) {
            return self.search_partial(&partial, wanted, visit);
        }
        let handle = self.handle(number)?;
        let mut buffer = ReadBuffer::take();
        let outcome = self.read_into_buffer(&mut buffer, (number, &handle), wanted, visit);
        buffer.give_back();
        outcome
    }

    fn read_into_buffer(
        &self,
        buffer: &mut ReadBuffer,
        (number, handle): (usize, &BlockHandle),
        wanted: &PointRead<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        let parts = buffer.parts(handle.bytes());
        let (framed, body) = parts.map_err(|error| read_error(&self.name, handle.offset, error))?;
        let read = read_into(&*self.file, handle.offset, framed)
            .map_err(|error| read_error(&self.name, handle.offset, error))
            .and_then(|()| check_frame(framed, &self.expected.uid, Role::Data, handle));
        let (stored, codec) = match read {
            // A short read and a mismatch may be transient.
            Err(error) if error.is_corruption() => return self.search_repaired(number, wanted, visit),
            read => read?,
        };
        let mut room = Vec::new();
        let searched = self.bound((stored, codec), handle, &mut room).and_then(|(stored, codec, handle)| {
            let stored = StoredBlock::split(stored, codec)?;
            self.search_stored(&stored, body, (number, &handle), wanted, visit)
        });
        match searched {
            Ok(ReadOutcome::Doubtful) => {}
            Err(error) if error.is_corruption() => {}
            outcome => {
                self.slots.count_pass();
                return outcome;
            }
        }
        let copy = try_copy(framed).map_err(|error| read_error(&self.name, handle.offset, error))?;
        match self.load(copy, handle, true) {
            Ok(block) => self.search_loaded(LoadedBlock::Whole(self.slots.pass(block)), number, wanted, visit),
            Err(error) if error.is_corruption() => self.search_repaired(number, wanted, visit),
            Err(error) => Err(error),
        }
    }

    /// Repairs a block that failed a check, and searches it.
    #[cold]
    fn search_repaired(
        &self,
        number: usize,
        wanted: &PointRead<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        self.watch.doubted();
        let repaired = self.repair(number)?;
        self.search_loaded(repaired, number, wanted, visit)
    }

    /// Searches the stored bytes of a block whose CRC was checked; `scratch` is a buffer for its body. Returns
    /// `Doubtful` unless seals and index verify the result.
    pub(in crate::sst) fn search_stored(
        &self,
        stored: &StoredBlock<'_>,
        scratch: &mut Vec<u8>,
        (number, handle): (usize, &BlockHandle),
        wanted: &PointRead<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        let PointRead { key, seqno, index, follows, .. } = *wanted;
        let order = &self.records.order;
        let body = stored.body(handle.raw_len, scratch, self.dictionary.as_deref())?;
        let lookup = BlockLookup::new(body, stored.column, self.base, order)?;
        let landing = lookup.find(key, seqno)?;
        // A newer version of the key may be the one before the landing point, damaged so that it seems to be less.
        let mut is_version = false;
        let is_bracketed = match &landing.before {
            Some(before) => self.confirm(&lookup, before, |record| {
                let compared = order.compare(record.key, key);
                is_version = compared.is_eq();
                compared.then(seqno.cmp(&record.seqno)) == Ordering::Less
            })?,
            None => follows || index.begins_at(number, key, order),
        };
        if planted!(MissNeighborNotVerified, false, !is_bracketed) {
            return Ok(ReadOutcome::Doubtful);
        }
        let Some(at) = &landing.at else {
            return Ok(match is_version {
                true => ReadOutcome::Further,
                false if index.proves(number, key, follows, order) => ReadOutcome::Absent,
                false => ReadOutcome::Doubtful,
            });
        };
        if landing.is_equal {
            let (mut room, mut word) = (LookupKey::new(), [0; COMPANION_BYTES]);
            // Keys that compare equal may differ in their bytes: return the stored key.
            let (key, key_hash) = match order.is_hashable() {
                true => (key, wanted.key_hash),
                false => {
                    let stored = lookup.key(at, &mut room)?;
                    (stored, hash_key(stored))
                }
            };
            let record = lookup.record(at, key, &mut word);
            if self.records.protector.verify(&record, key_hash, self.records.protection) != Check::Validated {
                return Ok(ReadOutcome::Doubtful);
            }
            visit(&record);
            return Ok(ReadOutcome::Found);
        }
        let is_absent = self.confirm(&lookup, at, |record| order.compare(record.key, key) == Ordering::Greater)?
            && (landing.before.is_some() || index.proves(number, key, follows, order));
        Ok(if is_absent { ReadOutcome::Absent } else { ReadOutcome::Doubtful })
    }

    /// Returns true if a seal confirms the record of an entry, and `pass` accepts it.
    fn confirm(
        &self,
        lookup: &BlockLookup<'_>,
        visited: &VisitedEntry,
        pass: impl FnOnce(&Record<'_>) -> bool,
    ) -> Result<bool> {
        let (mut room, mut word) = (LookupKey::new(), [0; COMPANION_BYTES]);
        let key = lookup.key(visited, &mut room)?;
        let record = lookup.record(visited, key, &mut word);
        let check = self.records.protector.verify(&record, hash_key(key), self.records.protection);
        Ok(check == Check::Validated && pass(&record))
    }
}
