//! Purge of events: the events of the store's log that show values of a purged column.
//!
//! Events of tables have no values. Those of a table's raw families do, if somebody has registered these: an event of a
//! record has the record before and after, and the key of an index entry has the values of its columns.
//!
//! The purge is recorded and logged before it changes an event. A crash leaves a purge that the next call continues.
//! A changed event says which column it has lost.

use waxseal::env::lock;
use waxseal::registry::{Event, EventChange, EventCounts, Field, Image, Payload, Target};
use waxseal::{Durability, Seal};

use crate::catalogue::{indexes_family, rows_family};
use crate::error::Result;
use crate::events::{as_purged, describe_event_purge};
use crate::layout::Layout;
use crate::packed::{ColumnId, Packer, columns};
use crate::purged_column::PurgedColumn;
use crate::purged_events::{EventPurgeEnd, PurgedEvents};
use crate::row_functions::item_of;
use crate::schema_record::TableId;
use crate::table::Table;

impl Table {
    /// Removes the values of a purged column from the store's log: of the last column of this name that was purged. Events
    /// that show the values of records keep who changed them and when, lose the column, and name it as purged. Events of
    /// entries in the column's indexes are removed, because their keys have its values. Reads and writes go on.
    ///
    /// Such events exist only if somebody has registered the table's raw families. The purge is recorded in the catalogue
    /// with the numbers of changed and removed events, and logged as `Table.AlterDrop` if that is registered. Each commit
    /// that changes events is logged as `Registry.Rewrite` of the raw family. A [`certificate`](Table::certificate) that is
    /// issued afterwards covers the log. The changes are durable when the call returns. Queries at older snapshots see the
    /// events as they were.
    ///
    /// Costs a flush, reads of these events, and a compaction of their part of the log. After an error or a crash, call it
    /// again. Errors: `Invalid` if a column of this name is not purged, if the session may not delete these events, and in
    /// a store without a registry; `NotFound` if no column of the name was dropped; `Corruption` for a damaged event.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use waxseal_table::{ColumnType, Row, Schema, Tables};
    /// use waxseal::registry::{RegisterOptions, Values};
    ///
    /// let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new().partition_key("name", ColumnType::Text).column("phone", ColumnType::Text);
    /// let people = tables.create("staff.people", schema)?;
    /// let with_values = RegisterOptions { values: Values::New, ..RegisterOptions::default() };
    /// tables.db().registry().register_with("waxseal_tables-1-rows", "*", with_values)?;
    /// people.insert(Row::new().with("name", "Alice").with("phone", "555-0100"))?;
    ///
    /// (0..2).try_for_each(|_| people.drop_column("phone"))?;
    /// people.purge_columns()?;
    /// assert_eq!(people.purge_events("phone")?.changed(), 1);
    /// assert!(people.certificate("phone")?.events().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn purge_events(&self, name: &str) -> Result<PurgedEvents> {
        self.try_purge_events(name).map_err(|error| self.named(error))
    }

    fn try_purge_events(&self, name: &str) -> Result<PurgedEvents> {
        let _one_at_a_time = lock(&self.state.purging);
        let purged = self.purged_column(name)?;
        let (layout, catalogue) = (self.state.layout()?, &self.state.store.catalogue);
        self.session.drain_events()?;
        self.db().flush()?;
        let found = self.count_events(&layout, &purged)?;
        let mut events = match catalogue.purged_events(self.state.id, purged.id)? {
            Some(known) if known.end.is_some() && found == EventCounts::default() => return Ok(known),
            // The counts of a purge that has not ended include the events that are left.
            Some(known) if known.end.is_none() => known,
            known => {
                let before = known.unwrap_or_default();
                let (changed, removed) = (before.changed + found.changed, before.removed + found.removed);
                PurgedEvents { changed, removed, end: None }
            }
        };
        let mut batch = self.session.batch();
        catalogue.put_purged_events(&mut batch, self.state.id, purged.id, &events)?;
        describe_event_purge(&mut batch, &layout.record, &purged, &events);
        batch.commit(Durability::Sync)?;
        for target in event_targets(layout.record.id) {
            self.session.rewrite_events(target, &|event| Ok(judge(&layout, &purged, event)))?;
        }
        self.compact_events()?;
        // No record has had a value since the purge of the column, so no later event shows one.
        events.end = Some(EventPurgeEnd { through: self.db().snapshot().seqno()?, at: self.now() });
        let mut batch = self.session.batch();
        catalogue.put_purged_events(&mut batch, self.state.id, purged.id, &events)?;
        catalogue.put_purged(&mut batch, self.state.id, &PurgedColumn { certified_at: None, ..purged })?;
        batch.describe_nothing().commit(Durability::Sync)?;
        Ok(events)
    }

    /// Returns how many events a purge would change and remove.
    fn count_events(&self, layout: &Layout, purged: &PurgedColumn) -> Result<EventCounts> {
        let mut found = EventCounts::default();
        for target in event_targets(layout.record.id) {
            self.session.event_versions(target, &mut |version| {
                if version.is_newest && !version.is_tombstone {
                    match judge(layout, purged, &version.event) {
                        EventChange::Keep => {}
                        EventChange::Remove => found.removed += 1,
                        EventChange::Replace(_) => found.changed += 1,
                    }
                }
                Ok(true)
            })?;
        }
        Ok(found)
    }

    /// Returns true if a memtable or a table of the log has a version of an event that shows a value of a column.
    pub(crate) fn is_in_events(&self, purged: &PurgedColumn) -> Result<bool> {
        let (layout, mut is_shown) = (self.state.layout()?, false);
        for target in event_targets(layout.record.id) {
            self.session.event_versions(target, &mut |version| {
                is_shown |= judge(&layout, purged, &version.event) != EventChange::Keep;
                Ok(!is_shown)
            })?;
        }
        Ok(is_shown)
    }

    /// Removes older versions of events from the log, unless a snapshot sees them.
    pub(crate) fn compact_events(&self) -> Result<()> {
        event_targets(self.state.id).into_iter().try_for_each(|target| Ok(self.session.compact_events(target)?))
    }
}

/// Returns the targets whose events may show values of a table.
fn event_targets(table: TableId) -> [Target; 2] {
    [rows_family(table), indexes_family(table)].map(Target::family)
}

/// Returns what becomes of an event in the purge of a column.
fn judge(layout: &Layout, purged: &PurgedColumn, event: &Event) -> EventChange {
    let indexes = indexes_family(layout.record.id);
    match &event.key.target {
        Target::Key { family, key } if *family == indexes && is_entry_over(purged, key) => EventChange::Remove,
        Target::Family(family) if *family == indexes && bounds(event).any(|key| is_entry_over(purged, key)) => {
            EventChange::Remove
        }
        Target::Key { family, key } if *family != indexes => judge_record(layout, purged, key, &event.payload),
        _ => EventChange::Keep,
    }
}

/// Returns true for the key of an entry, or a part of one, in an index over a column. The prefix of all its keys is none.
fn is_entry_over(purged: &PurgedColumn, key: &[u8]) -> bool {
    purged.indexes.iter().any(|index| key.strip_prefix(&item_of(*index)).is_some_and(|values| !values.is_empty()))
}

/// Returns the bounds of a range delete.
fn bounds(event: &Event) -> impl Iterator<Item = &[u8]> {
    event.payload.fields().iter().filter_map(|field| match field {
        Field::RangeStart(key) | Field::RangeEnd(key) => Some(key.as_slice()),
        _ => None,
    })
}

/// Returns what becomes of the event of a record: its images lose the column, and it names the column as purged.
fn judge_record(layout: &Layout, purged: &PurgedColumn, key: &[u8], payload: &Payload) -> EventChange {
    let (mut is_changed, mut left) = (false, Payload::new());
    for mut field in payload.fields().iter().cloned() {
        if let Field::OldValue(image) | Field::NewValue(image) = &mut field
            && let Image::Value(record) = image
            && let Some(without) = without(layout, key, record, purged.id)
        {
            *image = without;
            is_changed = true;
        }
        left.push(field);
    }
    match is_changed {
        true => EventChange::Replace(as_purged(left, purged)),
        false => EventChange::Keep,
    }
}

/// Returns the image of a record without a column; `None` if the record does not have it. The image of a record that
/// cannot be decoded is its seal, because it may have the column.
fn without(layout: &Layout, key: &[u8], record: &[u8], column: ColumnId) -> Option<Image> {
    let strip = || -> Result<Option<Image>> {
        let (suffix, mut has_column) = (key.get(layout.row_key_length(key)?..).unwrap_or_default(), false);
        layout.columns_of(suffix, record, |id| has_column |= id == column)?;
        if !has_column {
            return Ok(None);
        }
        let (mut packer, mut packed) = (Packer::new(), columns(record)?);
        while let Some(raw) = packed.next()? {
            if raw.id != column {
                packer.push_raw(&raw);
            }
        }
        Ok(Some(Image::Value(packer.finish())))
    };
    strip().unwrap_or_else(|_| Some(Image::Seal(Seal::of(key, record))))
}
