//! Expired tables, the arm: they go by an edit alone; and when the compaction lane is to look for more.
//!
//! Which tables go is decided in `compaction::expired`. The edit carries the counts and sums of what it drops (I11), and the time by which
//! all of it had expired, so that the store never judges by an earlier one.

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

/// The compaction lane of a store whose records expire looks so often at least: views that were let go of ring no bell.
const LOOK_MICROS: u64 = 60_000_000;

/// It looks no more often than so.
const LEAST_LOOK_MICROS: u64 = 20_000;

impl Inner {
    /// Tables whose records have all expired go, unread.
    pub(super) fn drop_tables(&self, family: &Family, plan: &Plan, inputs: &[Input], started: u64) -> Result<()> {
        let through = self.snapshots.horizon(&self.expiry_clock).expired;
        let view = family.view();
        let has_gone = |meta: &TableMeta| meta.expiry.is_some_and(|of| of.all_by(through));
        if !inputs.iter().all(|(_, table)| has_gone(table.meta()) && !is_fenced(&view, table.meta())) {
            return Ok(()); // the clock was set back, or something was lost, since the plan was made
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

    /// How long the compaction lane may sleep until records expire for which it would work; none if no table has any that expire.
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

/// True if a memtable holds a key within the bounds of a table.
pub(super) fn is_in_memory(view: &View, table: &TableFacts<'_>) -> bool {
    let order = view.levels.order();
    let mut generations = [&view.active].into_iter().chain(&view.frozen);
    generations.any(|generation| {
        let mut cursor = generation.memtable.cursor();
        let sought = cursor.seek(table.smallest, MAX_SEQNO);
        sought.is_err() || cursor.valid() && order.compare(cursor.record().key, table.largest).is_le()
    })
}

/// True if something was lost between the keys of a table.
fn is_fenced(view: &View, table: &TableMeta) -> bool {
    let order = view.levels.order();
    view.fences.iter().any(|fence| {
        order.compare(&fence.from.0, &table.largest).is_le() && order.compare(&table.smallest, &fence.to.0).is_le()
    })
}
