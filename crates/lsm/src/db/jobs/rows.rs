//! Rows for other families: emitted by the records of a flush, or supplied for its edit.
//!
//! In:    rows as they were emitted, with the ledger computed then.
//! Out:   a level-0 table for each family that receives rows, synced but not yet named; the ledger matches (I11).
//! Alone: a dropped family leaves no table, but its last records may emit rows. They are read only for that; each
//!        record is verified, and the ledger of the memtables is compared with the records read.

use std::cmp::Ordering;
use std::sync::Arc;

use super::level0::Level0;
use crate::checksum::hash_key;
use crate::compaction::output::{EmittedRows, write_tables};
use crate::compaction::{Rules, Splitter};
use crate::cursor::{Cursor, ListCursor};
use crate::db::state::family::Family;
use crate::error::{Damage, Error, Result, Verdict};
use crate::ledger::Ledger;
use crate::memtable::Memtable;
use crate::merge::MergeCursor;
use crate::names::StoreFileName;
use crate::seam::{Companions, Emitted, PendingWrite};
use crate::sst::not_served;
use crate::values::BlobRef;
use crate::version::TableMeta;

/// Tables by the receiving family.
pub(super) type Received = Vec<(Family, Vec<TableMeta>)>;

/// Writes rows to level-0 tables of their families. After an error no file remains.
pub(super) fn write_given(level0: &Level0<'_>, given: EmittedRows) -> Result<Received> {
    let mut received: Received = Vec::new();
    for (id, expected, rows) in given.into_families() {
        // Rows for a dropped family are discarded.
        let Some(family) = level0.families.by_id.get(&id) else { continue };
        match write_rows(level0, family, expected, rows) {
            Ok(tables) => received.push((family.clone(), tables)),
            Err(error) => {
                received.iter().for_each(|(family, tables)| remove_tables(level0, family, tables));
                return Err(error);
            }
        }
    }
    Ok(received)
}

/// Removes files that no edit names: tables of a flush, and the blob files that were written with them. Blob files that
/// memtables point into are kept.
pub(super) fn remove_tables(level0: &Level0<'_>, family: &Family, tables: &[TableMeta]) {
    let blob_files = family.table_cache().values();
    let is_new = |values: &&BlobRef| blob_files.is_none_or(|blob_files| blob_files.find(&values.file.uid).is_none());
    for meta in tables {
        let values = meta.values.iter().filter(is_new).map(|values| StoreFileName::Values(values.file.number));
        for name in [StoreFileName::Table(meta.number)].into_iter().chain(values) {
            level0.left.remove(&*level0.env.fs, level0.dir, name);
        }
    }
}

/// Writes rows to a level-0 table of the receiving family. `expected` was computed when they were emitted (I11).
fn write_rows(
    level0: &Level0<'_>,
    family: &Family,
    expected: Ledger,
    mut rows: Vec<Emitted>,
) -> Result<Vec<TableMeta>> {
    let base_seqno = rows.iter().map(|row| row.seqno).min().unwrap_or(0);
    let order = family.order();
    sort(&mut rows, |a, b| order.compare_internal((a.key(), a.seqno), (b.key(), b.seqno)));
    // If the record protector promises a companion for every record, its own rows must have one too.
    let mut cursor = ListCursor::new(order.clone(), rows, level0.companions.protection());
    let rules = Rules::new(family.order().clone(), Vec::new(), |_: &[u8]| false).keeping_all();
    let splitter = Splitter::new(family.order().clone(), u64::MAX, Vec::new());
    write_tables(&level0.job(family, base_seqno, expected), &mut cursor, rules, splitter)
}

/// Returns the rows that memtables emit, without writing the memtables' own records.
pub(super) fn emit_alone(level0: &Level0<'_>, family: &Family, memtables: &[Arc<Memtable>]) -> Result<EmittedRows> {
    let companions = &**level0.companions;
    let emitting = level0.emitting(family);
    let (mut expected, mut read) = (Ledger::default(), Ledger::default());
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for memtable in memtables {
        expected.merge(&memtable.ledger());
        sources.push(Box::new(memtable.cursor()));
    }
    let mut cursor = MergeCursor::new(family.order().clone(), sources);
    let (mut given, mut rows) = (EmittedRows::default(), Vec::new());
    cursor.first()?;
    while cursor.valid() {
        let record = cursor.record();
        let check = companions.verify(&record, hash_key(record.key), cursor.source().protection);
        if !check.serves() {
            return Err(not_served(&record, check));
        }
        read.add(record.kind, companions.term(&record));
        companions.emit(&emitting, &record, &mut rows)?;
        given.extend(companions, rows.drain(..));
        cursor.next()?;
    }
    if read == expected {
        return Ok(given);
    }
    let damage = Damage {
        verdict: Verdict::Ledger,
        expected: Some(expected.count()),
        found: Some(read.count()),
        ..Damage::default()
    };
    Err(Error::corruption(damage, format!("the ledger does not close: in {expected:?}, read {read:?}")))
}

/// Adds rows supplied for an edit; rows without a companion get one.
pub(super) fn take_given(companions: &dyn Companions, given: &mut EmittedRows, rows: Vec<Emitted>) -> Result<()> {
    for mut row in rows {
        if row.companion().is_empty() {
            let (key, value, mut companion) = (row.key(), row.value(), Vec::new());
            let pending =
                PendingWrite { family: row.family, kind: row.kind(), key, value, entries: &[], key_hash: None };
            companions.on_write(&pending, &mut companion)?;
            companions.bind(&mut companion, None, row.seqno);
            row.accompany(&companion);
        }
        given.extend(companions, [row]);
    }
    Ok(())
}

/// Sorts rows, fast for nearly sorted input with short descending runs: rows of a flush arrive in the order of its
/// records, and rows of one key newest first. Other input is sorted correctly as well.
fn sort(rows: &mut [Emitted], compare: impl Fn(&Emitted, &Emitted) -> Ordering) {
    let mut start = 0;
    while start < rows.len() {
        let falls = rows[start..].windows(2).take_while(|pair| compare(&pair[0], &pair[1]).is_gt()).count();
        rows[start..=start + falls].reverse();
        start += falls + 1;
    }
    rows.sort_by(compare);
}
