//! A scan of all data blocks of a table, for verification.
//!
//! In:    the blocks in order, each with its separator, bypassing the cache.
//! Out:   the ledger of their records.
//! Holds: CRCs, order, separators, filters and companions are checked, and at the end the counts and bounds against the
//!        table's properties.

use std::cmp::Ordering;

use super::properties::Properties;
use super::table::Table;
use super::writer::checked_term;
use crate::checksum::Role;
use crate::error::{Damage, Error, Result, Verdict};
use crate::ledger::Ledger;
use crate::order::Order;
use crate::record::{Record, Seqno};
use crate::seam::{Companions, Protection};
use crate::sst::block::frame::{BlockHandle, StoredBlock, check_frame, read_framed};
use crate::sst::block::scan::{KeyBuffer, scan_entries};
use crate::sst::index::filter::BloomFilter;
use crate::sst::index::key_filters::KeyFilters;
use crate::sst::index::partitions::{IndexPartition, TableIndex};
use crate::sst::index::policy_filter::PolicyFilter;

/// A verification scan of all data blocks.
pub(in crate::sst) struct VerifyScan<'a> {
    table: &'a Table,
    protector: &'a dyn Companions,
    policy_filter: Option<&'a PolicyFilter>,
    /// Number of blocks scanned.
    pub(in crate::sst) blocks: usize,
    pub(in crate::sst) ledger: Ledger,
    keys: KeyBuffer,
    scratch: Vec<u8>,
    first: Option<Vec<u8>>,
    /// Last key and seqno of the previous block, and its separator.
    before: Option<(Vec<u8>, Seqno, Vec<u8>)>,
    seqnos: (Seqno, Seqno),
    /// Receives every record after its checks.
    visit: &'a mut dyn FnMut(&Record<'_>) -> Result<()>,
}

impl<'a> VerifyScan<'a> {
    pub(in crate::sst) fn new(
        table: &'a Table,
        protector: &'a dyn Companions,
        policy_filter: Option<&'a PolicyFilter>,
        visit: &'a mut dyn FnMut(&Record<'_>) -> Result<()>,
    ) -> VerifyScan<'a> {
        VerifyScan {
            table,
            protector,
            policy_filter,
            blocks: 0,
            ledger: Ledger::default(),
            keys: KeyBuffer::default(),
            scratch: Vec::new(),
            first: None,
            before: None,
            seqnos: (Seqno::MAX, 0),
            visit,
        }
    }

    /// Scans the next block; `own`: the engine's filter for its keys.
    pub(in crate::sst) fn block(
        &mut self,
        handle: &BlockHandle,
        separator: &[u8],
        own: Option<&BloomFilter>,
    ) -> Result<()> {
        self.blocks += 1;
        let Table { name, file, records, expected, base, .. } = self.table;
        let (order, protection) = (&records.order, records.protection);
        let framed = read_framed(name, &**file, handle)?;
        let (checked, mut room) = (check_frame(&framed, &expected.uid, Role::Data, handle)?, Vec::new());
        let (stored, codec, handle) = self.table.bound(checked, handle, &mut room)?;
        let stored = StoredBlock::split(stored, codec)?;
        let body = stored.body(handle.raw_len, &mut self.scratch, self.table.dictionary.as_deref())?;
        let (before, first) = (self.before.take(), &mut self.first);
        let (ledger, seqnos, protector) = (&mut self.ledger, &mut self.seqnos, self.protector);
        let (prefixes, visit) = (self.table.properties.prefix_extractor, &mut self.visit);
        let filters = KeyFilters { own, prefixes, policy: self.policy_filter };
        let mut last_seqno = None;
        scan_entries(body, stored.column, *base, order, &mut self.keys, |_, record| {
            if last_seqno.is_none() {
                first.get_or_insert_with(|| record.key.to_vec());
                follows(order, before.as_ref(), record)?;
            }
            last_seqno = Some(record.seqno);
            *seqnos = (seqnos.0.min(record.seqno), seqnos.1.max(record.seqno));
            filters.check(record.key, order)?;
            ledger.add(record.kind, checked_term(protector, record, protection)?);
            visit(record)
        })?;
        if order.compare(&self.keys.last, separator) == Ordering::Greater {
            return Err(Error::structural("a block reaches beyond its separator"));
        }
        self.before = Some((self.keys.last.clone(), last_seqno.unwrap_or(0), separator.to_vec()));
        Ok(())
    }

    /// Checks the results against the properties. Ledger sums are compared only if a protector made them and one is
    /// available to recompute them.
    pub(in crate::sst) fn closes(&self, properties: &Properties) -> Result<()> {
        let (found, kept) = (&self.ledger, &properties.ledger);
        let pairs = [(found.puts, kept.puts), (found.deletes, kept.deletes), (found.others, kept.others)];
        let summed = self.protector.protection() != Protection::None && pairs.iter().any(|(_, kept)| kept.sum != 0);
        if pairs.iter().any(|(found, kept)| found.count != kept.count || (summed && found.sum != kept.sum)) {
            let damage = Damage { verdict: Verdict::Ledger, ..Damage::default() };
            return Err(Error::corruption(damage, "the records of the table are not those its properties count"));
        }
        let largest = self.before.as_ref().map(|(key, ..)| key);
        if self.first.as_ref() != Some(&properties.smallest)
            || largest != Some(&properties.largest)
            || self.seqnos != (properties.least_seqno, properties.greatest_seqno)
        {
            return Err(Error::structural("the bounds in the properties are not those of the records"));
        }
        Ok(())
    }
}

impl Table {
    /// Reads the whole file, bypassing the cache, and checks CRCs, order, separators, filter, companions and counts.
    /// `progress` receives the number of bytes read since its last call; its error ends the scan. Returns the ledger of
    /// the records.
    pub fn verify(&self, protector: &dyn Companions, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<Ledger> {
        self.verify_each(protector, progress, &mut |_| Ok(()))
    }

    /// As `verify`, and passes every record to `visit` after its checks; an error of `visit` ends the scan.
    pub fn verify_each(
        &self,
        protector: &dyn Companions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
        visit: &mut dyn FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<Ledger> {
        let parts = self.read_parts()?;
        if parts.lacks_dictionary() {
            return Err(
                Error::structural("the dictionary is damaged").in_file(&self.name, parts.table_index.data_end())
            );
        }
        let mut walked = VerifyScan::new(self, protector, parts.policy_filter.as_ref(), visit);
        let mut walk = |part: &IndexPartition| -> Result<()> {
            for handle in part.index.handles() {
                let number = walked.blocks;
                walked
                    .block(handle, &part.index.separator(number), part.filter.as_ref())
                    .map_err(|error| error.in_file(&self.name, handle.offset))?;
                progress(handle.bytes() as u64)?;
            }
            Ok(())
        };
        match &parts.table_index {
            TableIndex::Whole(part) => walk(part)?,
            TableIndex::Partitioned(cut) => {
                cut.top.spans().iter().try_for_each(|span| walk(&self.check_partition(span)?))?
            }
        }
        walked.closes(&parts.properties).map_err(|error| error.in_file(&self.name, 0))?;
        progress(self.expected.size.saturating_sub(parts.table_index.data_end()))?;
        Ok(walked.ledger)
    }
}

/// Checks that the first record of a block may follow the previous block's last record and separator.
fn follows(order: &Order, before: Option<&(Vec<u8>, Seqno, Vec<u8>)>, record: &Record<'_>) -> Result<()> {
    let Some((key, seqno, separator)) = before else { return Ok(()) };
    let in_order = order.compare_internal((key, *seqno), (record.key, record.seqno)) == Ordering::Less;
    let spilled = order.compare(key, record.key) == Ordering::Equal;
    let separated = match order.compare(separator, record.key) {
        Ordering::Less => true,
        Ordering::Equal => spilled,
        Ordering::Greater => false,
    };
    if in_order && separated { Ok(()) } else { Err(Error::structural("a block does not follow the one before")) }
}
