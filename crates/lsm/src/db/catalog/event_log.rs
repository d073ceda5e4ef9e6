//! The event log: each job adds an entry to the edit that makes its change durable.
//!
//! In:    the facts of a job, from which the `EngineLog` implementation makes an entry, or none.
//! Out:   the entries that the manifest still holds, readable without its lock. If there are more than
//!        `chronicle_lines` of them, or more than 2 MiB, a flush that runs anyway converts the oldest to rows of a
//!        family. The rows become visible before their entries are removed. The implementation may release entries
//!        earlier, discard entries outside its retention, and add tombstones for expired rows.
//! Crash: an entry exists if and only if its change is durable.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::view_change::Replaced;
use crate::seam::{EngineLog, MAX_LINE_BYTES, TableFact, Touched, Work};
use crate::version::{self, Edit, EditChange, EventLines, ManifestState, TableMeta};

/// The event log implementation, and the entries as readers see them.
pub(crate) struct EventLog {
    engine_log: Option<Arc<dyn EngineLog>>,
    lines: ArcSwap<EventLines>,
}

impl EventLog {
    pub(in crate::db) fn new(engine_log: Option<Arc<dyn EngineLog>>, lines: EventLines) -> EventLog {
        EventLog { engine_log, lines: ArcSwap::from_pointee(lines) }
    }

    pub(in crate::db) fn engine_log(&self) -> Option<&Arc<dyn EngineLog>> {
        self.engine_log.as_ref()
    }

    /// Returns the entries that the manifest still holds.
    pub(in crate::db) fn lines(&self) -> arc_swap::Guard<Arc<EventLines>> {
        self.lines.load()
    }

    /// Makes the entries of a state visible to readers.
    pub(in crate::db) fn show(&self, lines: &EventLines) {
        let shown = self.lines.load();
        if (shown.last(), shown.taken_out()) != (lines.last(), lines.taken_out()) {
            self.lines.store(Arc::new(lines.clone()));
        }
    }
}

/// Adds the entry of a job, if the implementation makes one, to the job's edit; its number is assigned later.
pub(in crate::db) fn add_event(engine_log: &dyn EngineLog, edit: &mut Edit, work: &Work<'_>) {
    let line = engine_log.line(work);
    debug_assert!(line.as_ref().is_none_or(|line| line.len() <= MAX_LINE_BYTES));
    if let Some(line) = line.filter(|line| line.len() <= MAX_LINE_BYTES) {
        edit.changes.push(EditChange::Line { number: 0, bytes: line.into() });
    }
}

/// Assigns the next numbers to the entries of an edit.
pub(in crate::db) fn number_events(edit: &mut Edit, state: &ManifestState) {
    let mut last = state.lines.last();
    for change in &mut edit.changes {
        if let EditChange::Line { number, .. } = change {
            last += 1;
            *number = last;
        }
    }
}

/// Moves the entries of an edit to an edit of their own.
#[cfg(feature = "planted")]
pub(in crate::db) fn split_events(edit: &mut Edit) -> Edit {
    let is_line = |change: &EditChange| matches!(change, EditChange::Line { .. });
    let (lines, rest) = std::mem::take(&mut edit.changes).into_iter().partition(is_line);
    edit.changes = rest;
    Edit { changes: lines }
}

/// Returns the facts about a table in a level.
pub(in crate::db) fn table_fact(level: usize, meta: &TableMeta) -> TableFact {
    let TableMeta { number, uid, digest, .. } = *meta;
    TableFact { number, uid, digest, level: level as u8, records: meta.ledger.count(), bytes: meta.size }
}

/// Returns the tables that an edit changes in a family; called before the change.
pub(super) fn touched<'a>(part: &Replaced<'a>) -> Touched<'a> {
    let (family, levels) = (part.family, &part.family.view().levels);
    let gone = |(level, number): &(usize, u64)| Some(table_fact(*level, levels.get(*level, *number)?.meta()));
    let read = part.removes.iter().filter_map(gone).collect();
    let written = part.adds.iter().map(|(level, meta)| table_fact(*level, meta)).collect();
    Touched { family: family.id(), name: family.name(), read, written }
}

/// Returns the tables of a whole state, or for each family the tables that `changes` add.
pub(in crate::db) fn touched_in<'a>(state: &'a ManifestState, changes: &[EditChange], all: bool) -> Vec<Touched<'a>> {
    let of = |family: &'a version::FamilyState| {
        let added = changes.iter().filter_map(|change| match change {
            EditChange::TableAdded { family: id, level, table } if *id == family.id => {
                Some(table_fact(*level as usize, table))
            }
            _ => None,
        });
        let stay = family.tables.values().filter(|_| all).map(|(level, meta)| table_fact(*level as usize, meta));
        Touched { family: family.id, name: &family.name, read: stay.collect(), written: added.collect() }
    };
    let touched = state.families.values().map(|family| of(family));
    touched.filter(|touched| !(touched.read.is_empty() && touched.written.is_empty())).collect()
}
