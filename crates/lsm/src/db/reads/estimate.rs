//! Estimates how many records of a family a scan would return.
//!
//! In:     a view and the time at which expiry is judged. Out: the estimate.
//! Sum:    each record contributes 1 if it is a live value, less 1 if the next older version of its key is a live value.
//!         The contributions of one key's versions add up to 1 if its newest version is a live value, otherwise to 0.
//! Counts: records of the lowest level have no older versions below, so the manifest's counts are their sum. A table
//!         with tombstones is an exception: it may hold older versions, or not. So is a table that a newer range delete
//!         overlaps: a record that a range delete hides contributes nothing, and is no older version of another.
//! Sample: the sum over all other records is the mean over a sample, times their number. A scan of the sources draws
//!         `SAMPLES` records in total, but at least `LEAST` from each source. A settled store has at most an eighth of
//!         its bytes above the lowest level, so an error of the mean matters an eighth.
//! Cost:   nothing but counts if the lowest level holds all data, without tombstones. Otherwise at most a block for each
//!         sampled position, a look-up for each sampled record, and a step for each record of the memtables.
//! Errors: a sampled record that cannot be judged because of damage is left out.

use std::sync::Arc;

use super::{ReadPoint, Reads};
use crate::checksum::mix;
use crate::cursor::Cursor;
use crate::db::state::family::{Family, Generation, TableHandle, View};
use crate::error::Result;
use crate::ledger::Ledger;
use crate::options::{ReadSettings, Verify};
use crate::range_index::RangeIndex;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::version::TableMeta;

/// Number of sampled records.
const SAMPLES: u64 = 1024;

/// Minimum number of records sampled in one memtable or table.
const LEAST: u64 = 8;

/// Number of adjacent records sampled at one position of a table, or more if the table knows few positions.
const RUN: u64 = 4;

/// Sampled reads verify nothing, and leave the cache as it is.
const READING: ReadSettings = ReadSettings { verify: Verify::Never, fill_cache: false };

/// The contributions of the sampled records of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    records: u64,
    sum: i64,
}

impl Sample {
    /// Returns the estimated sum over all records of a source. Without a sample each value counts as a new key, and
    /// each tombstone as the end of an existing one.
    fn scaled(self, all: &Ledger) -> f64 {
        match self.records {
            0 => all.puts.count as f64 - all.deletes.count as f64,
            records => self.sum as f64 / records as f64 * all.count() as f64,
        }
    }
}

/// A source whose records are sampled.
enum Sampled<'a> {
    Memtable(&'a Generation),
    Table(&'a TableHandle),
}

impl Sampled<'_> {
    fn ledger(&self) -> Ledger {
        match self {
            Sampled::Memtable(generation) => generation.memtable.ledger(),
            Sampled::Table(table) => table.meta().ledger,
        }
    }
}

impl Reads {
    /// Returns the estimate for a view.
    pub(in crate::db) fn approximate_len(&self, family: &Family, view: &View, moment: ReadPoint) -> u64 {
        let levels: Vec<&[Arc<TableHandle>]> = view.levels.iter().map(|level| level.tables()).collect();
        // Tables of level 0 overlap, so only one of them can be the lowest.
        let lowest = levels.iter().rposition(|tables| !tables.is_empty()).filter(|level| *level > 0);
        let now = moment.fixed(self.expiry_clock());
        let ranges = view.active.range_index();
        let is_hidden_in_part = |meta: &TableMeta| {
            let overlap = |ranges: &Arc<RangeIndex>| {
                ranges
                    .fragments(&meta.smallest, &meta.largest)
                    .any(|fragment| fragment.newest(now.seqno) > meta.oldest_seqno())
            };
            ranges.as_ref().is_some_and(overlap)
        };
        let is_counted =
            |table: &&Arc<TableHandle>| table.meta().ledger.deletes.count == 0 && !is_hidden_in_part(table.meta());
        let (counted, mixed): (Vec<_>, Vec<_>) =
            lowest.map_or(&[][..], |level| levels[level]).iter().partition(is_counted);
        let counts: u64 = counted.iter().map(|table| live_of(table, self.expiry_clock().now())).sum();

        let tables = levels[..lowest.unwrap_or(levels.len())].iter().copied().flatten().chain(mixed);
        let memtables = view.memtables().map(|generation| Sampled::Memtable(generation));
        let sampled: Vec<Sampled<'_>> = memtables.chain(tables.map(|table| Sampled::Table(table))).collect();
        let all: u64 = sampled.iter().map(|source| source.ledger().count()).sum();
        let mut sum = counts as f64;
        for source in &sampled {
            let ledger = source.ledger();
            let share = u128::from(SAMPLES) * u128::from(ledger.count()) / u128::from(all.max(1));
            let wanted = (share as u64).max(LEAST).min(ledger.count());
            let mut sample = Sample::default();
            let mut take = |record: &Record<'_>| {
                if let Ok(Some(change)) = self.contribution((family, view), record, now) {
                    sample.records += 1;
                    sample.sum += change;
                }
            };
            let _ = match source {
                Sampled::Memtable(generation) => sample_memtable(generation, wanted, now.seqno, &mut take),
                Sampled::Table(table) => sample_table(table, wanted, &mut take),
            };
            sum += sample.scaled(&ledger);
        }
        sum.max(0.0).round() as u64
    }

    /// Returns the contribution of a value, an operand or a tombstone; `None` for other kinds of record.
    fn contribution(&self, of: (&Family, &View), record: &Record<'_>, now: ReadPoint) -> Result<Option<i64>> {
        if !record.kind.is_value() && !matches!(record.kind, Kind::Delete | Kind::Merge) {
            return Ok(None);
        }
        let checks = self.checks(READING);
        let hidden_through = of.1.active.range_deleted_at(record.key, now.seqno);
        let is_live = |record: &Record<'_>| {
            record.seqno > hidden_through
                && (record.kind == Kind::Merge || self.is_value(record, now.as_of, checks).unwrap_or(true))
        };
        let mut was_live = false;
        if let Some(before) = record.seqno.checked_sub(1) {
            self.version_in(of, (record.key, None), before, checks, |older| was_live = is_live(older))?;
        }
        Ok(Some(i64::from(is_live(record)) - i64::from(was_live)))
    }
}

/// Returns the number of keys of a table without tombstones whose newest version is live. Older versions, which
/// snapshots keep, are known only while the table is open.
fn live_of(table: &TableHandle, now: u64) -> u64 {
    let older = table.opened().and_then(|table| table.properties().versions).unwrap_or(0);
    let expired = table.meta().expiry.map_or(0, |expiries| expiries.about_by(now));
    table.meta().ledger.puts.count.saturating_sub(older).saturating_sub(expired)
}

/// Passes one of every so many adjacent records of a memtable to `take`: not always the same one, because the versions of
/// the keys may repeat at that distance. Costs a step for each record.
fn sample_memtable(
    generation: &Generation,
    wanted: u64,
    seqno: Seqno,
    take: &mut dyn FnMut(&Record<'_>),
) -> Result<()> {
    let every = (generation.memtable.len() as u64).div_ceil(wanted.max(1)).max(1);
    let mut cursor = generation.memtable.cursor();
    cursor.first()?;
    let mut at = 0;
    while cursor.valid() {
        if at % every == mix(at / every + 1) % every && cursor.record().seqno <= seqno {
            take(&cursor.record());
        }
        at += 1;
        cursor.next()?;
    }
    Ok(())
}

/// Passes records at evenly spaced positions of a table to `take`.
fn sample_table(handle: &TableHandle, wanted: u64, take: &mut dyn FnMut(&Record<'_>)) -> Result<()> {
    let table = handle.table()?;
    let every = (table.blocks() as u64 * RUN).div_ceil(wanted.max(1)).max(1) as usize;
    // The first position is the table's start. Of a partitioned index only the partitions' bounds are known without a
    // read, so many blocks share one position.
    let mut starts: Vec<Vec<u8>> =
        (every..table.blocks()).step_by(every).filter_map(|block| table.separator(block - 1)).collect();
    starts.dedup();
    let run = wanted.div_ceil(starts.len() as u64 + 1);
    let mut cursor = table.cursor(READING.fill_cache);
    cursor.first()?;
    take_run(&mut cursor, run, take)?;
    for start in starts {
        cursor.seek(&start, MAX_SEQNO)?;
        take_run(&mut cursor, run, take)?;
    }
    Ok(())
}

/// Passes the next `count` records to `take`.
fn take_run(cursor: &mut dyn Cursor, count: u64, take: &mut dyn FnMut(&Record<'_>)) -> Result<()> {
    for _ in 0..count {
        if !cursor.valid() {
            break;
        }
        take(&cursor.record());
        cursor.next()?;
    }
    Ok(())
}
