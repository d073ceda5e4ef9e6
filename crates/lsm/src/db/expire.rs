//! Drops expired tables, by an edit alone; also decides when the compaction lane checks for more.
//!
//! `compaction::expired` chooses the tables. The edit carries the counts and sums of the dropped records (I11), and the
//! time by which all of them had expired, so that the store never evaluates expiry at an earlier time.

use std::time::Duration;

use super::compact::Input;
use super::family::{Family, View};
use super::install::Replaced;
use super::{Inner, TableHandle};
use crate::compaction::expired;
use crate::compaction::{Plan, TableFacts};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::ledger::Ledger;
use crate::record::MAX_SEQNO;
use crate::version::TableMeta;

/// Maximum interval between checks of the compaction lane in a store with expiring records, because the release of a
/// view rings no bell.
const LOOK_MICROS: u64 = 60_000_000;

/// Minimum interval between these checks.
const LEAST_LOOK_MICROS: u64 = 20_000;

impl Inner {
    /// Drops tables whose records have all expired, without reading them.
    pub(super) fn drop_tables(&self, family: &Family, plan: &Plan, inputs: &[Input], started: u64) -> Result<()> {
        let through = self.snapshots.horizon(&self.expiry_clock).expired;
        let view = family.view();
        let has_gone = |meta: &TableMeta| meta.expiry.is_some_and(|of| of.all_by(through));
        if !inputs.iter().all(|(_, table)| has_gone(table.meta()) && !is_fenced(&view, table.meta())) {
            return Ok(()); // the clock was set back or records were lost since the plan was made
        }
        let (mut dropped, mut bytes) = (Ledger::default(), 0);
        for (_, table) in inputs {
            dropped.merge(&table.meta().ledger);
            bytes += table.meta().bytes_with_values();
        }
        let removes: Vec<_> = inputs.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let numbers: Vec<u64> = removes.iter().map(|(_, number)| *number).collect();
        drop(view);
        self.exchange(Replaced::tables(family, removes, Vec::new()), Some((dropped, through)), plan, started)?;
        self.counters.dropped(numbers.len() as u64, bytes);
        self.tell_compacted(family, numbers, Vec::new(), plan, false);
        Ok(())
    }

    /// Returns how long the compaction lane may sleep until enough records expire; `None` if no table has expiring
    /// records.
    pub(super) fn until_expiry(&self) -> Option<Duration> {
        let (families, now) = (self.families(), self.expiry_clock.now());
        let due = |table: &TableHandle| {
            let meta = table.meta();
            meta.expiry.map(|of| expired::due_at(&of, meta.ledger.count()))
        };
        let soonest = |family: &Family| {
            let view = family.view();
            let tables = view.levels.iter().flat_map(|level| level.tables());
            let waits = tables.filter_map(|table| due(table)).map(|at| at.checked_sub(now).unwrap_or(LOOK_MICROS));
            waits.min()
        };
        let micros = families.by_id.values().filter_map(soonest).min()?;
        Some(Duration::from_micros(micros.clamp(LEAST_LOOK_MICROS, LOOK_MICROS)))
    }
}

/// Returns true if a memtable holds a key within the bounds of a table.
pub(super) fn is_in_memory(view: &View, table: &TableFacts<'_>) -> bool {
    let order = view.levels.order();
    let mut generations = [&view.active].into_iter().chain(&view.frozen);
    generations.any(|generation| {
        let mut cursor = generation.memtable.cursor();
        let sought = cursor.seek(table.smallest, MAX_SEQNO);
        sought.is_err() || cursor.valid() && order.compare(cursor.record().key, table.largest).is_le()
    })
}

/// Returns true if a lost range overlaps the keys of a table.
fn is_fenced(view: &View, table: &TableMeta) -> bool {
    let order = view.levels.order();
    view.fences.iter().any(|fence| {
        order.compare(&fence.from.0, &table.largest).is_le() && order.compare(&table.smallest, &fence.to.0).is_le()
    })
}
