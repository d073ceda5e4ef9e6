//! Other sources for a damaged block: its copy in the cache, and entries that are readable but not confirmed by a seal.
//!
//! Neither is trusted as it is. A cached copy is used only if companions confirm all its records. An unconfirmed entry
//! (a suspect) only tells a repair which keys to look for.

use super::block_repair::{mismatch, read_or_probe};
use std::borrow::Cow;

use crate::checksum::{Role, hash_key};
use crate::codec::Reader;
use crate::error::Result;
use crate::ledger::Ledger;
use crate::lost_range::LostRange;
use crate::record::{MAX_KEY_BYTES, MAX_SEQNO, Record, companion};
use crate::seam::{Check, Companions};
use crate::sst::block::entry::{BlockEntry, LEAST_ENTRY_BYTES};
use crate::sst::block::frame::{BlockHandle, LOST, StoredBlock, check_frame, companion_of, read_framed};
use crate::sst::block::scan::{KeyBuffer, scan_entries};
use crate::sst::index::key_filters::KeyFilters;
use crate::sst::table::table::{Table, promised};

/// The result of checking one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckedBlock {
    /// Its length in the file.
    pub bytes: u64,
    /// Number of records that match their companions.
    pub validated: u64,
    /// Number of records that have no companion, where none was promised.
    pub unverified: u64,
    /// Counts and checksums of the records.
    pub ledger: Ledger,
}

impl Table {
    /// Checks one block from its file: CRC, format, order, companions, and that the filters have its keys and their
    /// prefixes. The first block of a partition also checks the index and filter blocks of that partition. Errors:
    /// `Corruption` if any check fails.
    pub fn check_block(&self, number: usize, protector: &dyn Companions) -> Result<CheckedBlock> {
        if let Some(span) = self.table_index.spans().iter().find(|span| span.range.first == number) {
            self.check_partition(span)?;
        }
        let part = self.partition_of(number)?;
        let (own, policy) = (part.filter.as_ref(), self.policy_filter.as_ref());
        let filters = KeyFilters { own, prefixes: self.properties.prefix_extractor, policy };
        let handle = &self.handle(number)?;
        let protection = promised(&self.properties, protector);
        let mut checked = CheckedBlock { bytes: handle.bytes() as u64, ..CheckedBlock::default() };
        let looked = read_framed(&self.name, &*self.file, handle).and_then(|framed| {
            let (intact, mut room) = (check_frame(&framed, &self.expected.uid, Role::Data, handle)?, Vec::new());
            let (stored, codec, handle) = self.bound(intact, handle, &mut room)?;
            let stored = StoredBlock::split(stored, codec)?;
            let mut scratch = Vec::new();
            let body = stored.body(handle.raw_len, &mut scratch, self.dictionary.as_deref())?;
            scan_entries(body, stored.column, self.base, &self.records.order, &mut KeyBuffer::default(), |_, record| {
                filters.check(record.key, &self.records.order)?;
                match protector.verify(record, hash_key(record.key), protection) {
                    Check::Validated => checked.validated += 1,
                    Check::Unverified => checked.unverified += 1,
                    found => return Err(mismatch(record, found)),
                }
                checked.ledger.add(record.kind, protector.term(record));
                Ok(())
            })
        });
        looked.map(|_| checked).map_err(|error| error.in_file(&self.name, handle.offset))
    }

    /// Visits the records of the block at `offset` from its cached copy, if there is one and all its records match
    /// their companions. Returns false otherwise.
    pub fn cached_copy(
        &self,
        offset: u64,
        protector: &dyn Companions,
        visit: &mut dyn FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<bool> {
        let Some((number, _)) = self.at_offset(offset)? else {
            return Ok(false);
        };
        let cached = self.slots.slot(number).load();
        let Some(block) = &*cached else { return Ok(false) };
        let protection = promised(&self.properties, protector);
        let mut confirmed = true;
        let mut key = Vec::new();
        let looked = block.each(&mut key, |record| {
            confirmed &= protector.verify(record, hash_key(record.key), protection) == Check::Validated;
            Ok(())
        });
        if looked.is_err() || !confirmed {
            return Ok(false);
        }
        block.each(&mut key, visit)?;
        Ok(true)
    }

    /// Returns true if the device can read the block at an offset, whether or not it is damaged.
    pub fn gives(&self, offset: u64) -> bool {
        let handle = self.at_offset(offset).ok().flatten();
        handle.is_some_and(|(_, handle)| read_or_probe(self, &handle).is_ok())
    }

    /// Returns the maximum number of records that can have been lost in these gaps of the table. Returns `None` if that
    /// is unknown because a gap does not match one block of the index.
    pub fn room_in(&self, gaps: &[LostRange]) -> Option<u64> {
        let mut offsets: Vec<u64> = gaps.iter().map(|gap| gap.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let room = |offset: u64| {
            let (_, handle) = self.at_offset(offset).ok().flatten()?;
            (handle.crc != LOST).then_some(u64::from(handle.raw_len) / LEAST_ENTRY_BYTES as u64)
        };
        offsets.into_iter().map(room).sum()
    }

    /// Returns the block at an offset, and its number.
    fn at_offset(&self, offset: u64) -> Result<Option<(usize, BlockHandle)>> {
        let before = self.table_index.spans().partition_point(|span| span.range.offset <= offset);
        let index =
            &self.partition_of(before.checked_sub(1).map_or(0, |at| self.table_index.spans()[at].range.first))?.index;
        let at = index.handles().binary_search_by_key(&offset, |handle| handle.offset);
        Ok(at.ok().map(|at| (index.range().first + at, index.handles()[at])))
    }

    /// Visits the apparent entries of the block at `offset`, with their companions as stored, whether or not they
    /// match. A compressed block that cannot be decompressed has none.
    pub fn suspects(&self, offset: u64, visit: &mut dyn FnMut(&Record<'_>)) {
        let Ok(Some((_, handle))) = self.at_offset(offset) else { return };
        let Ok(framed) = read_or_probe(self, &handle) else { return };
        let Some((stored, behind)) = framed.split_at_checked(handle.stored_len as usize) else { return };
        let Some(Ok(stored)) = behind.first().map(|codec| StoredBlock::split(stored, *codec)) else { return };
        let mut scratch = Vec::new();
        let Ok(body) = stored.body(handle.raw_len, &mut scratch, self.dictionary.as_deref()) else { return };
        let (mut at, mut index, mut restart) = (0, 0, Vec::new());
        while let Ok(entry) = BlockEntry::read(body, at) {
            let suffix = &body[entry.suffix_at..entry.value_at];
            if entry.shared == 0 {
                restart = suffix.to_vec();
            }
            let mut reader = Reader::starting_at(body, entry.value_end);
            let Ok(inline) = companion::take(&mut reader) else { return };
            let from_column = stored.column.and_then(|column| column.get(index * 8..)?.get(..8)).map(companion_of);
            let mut companion = Cow::Borrowed(from_column.as_ref().map_or(inline, |word| &word[..]));
            if self.is_ingested() {
                self.bind(companion.to_mut());
            }
            let companion = &*companion;
            let seqno = entry.seqno(self.base);
            if let Some(start) = restart.get(..entry.shared)
                && start.len() + suffix.len() <= MAX_KEY_BYTES
                && seqno <= MAX_SEQNO
            {
                let value = &body[entry.value_at..entry.value_end];
                visit(&Record { key: &[start, suffix].concat(), seqno, kind: entry.kind, value, companion });
            }
            (at, index) = (reader.position(), index + 1);
        }
    }
}
