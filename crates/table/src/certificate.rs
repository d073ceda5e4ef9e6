//! Certificates: that no file of the store has a value of a purged column any more.

use std::fmt;

use waxseal::env::lock;
use waxseal::{Durability, OldestSeqnos};

use crate::catalogue::PurgedColumns;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::purged_column::PurgedColumn;
use crate::purged_events::PurgedEvents;
use crate::row_functions::item_of;
use crate::schema::{Column, ColumnState};
use crate::table::Table;

/// Attempts to erase the log while other threads write.
const ATTEMPTS: u32 = 8;

/// The pause after the first attempt. Each further pause is twice as long.
const FIRST_PAUSE_NANOS: u64 = 1_000_000;

/// Places that a certificate covers only after a purge of events.
const EVENTS: [&str; 1] = ["events of the store's log that show values"];

/// Places in the log that no purge of events covers.
const OTHER_EVENTS: [&str; 2] = ["events that programs have added to the store's log", "seals of records in events"];

/// Places that no certificate covers.
const NOT_COVERED: [&str; 7] = [
    "bounds of the ranges that repairs have marked as lost",
    "followers of the change feed",
    "backups",
    "checkpoints",
    "exports",
    "readers in other processes",
    "disk blocks that the file system has freed",
];

/// States that, when it was issued, no file of the store had a value of a dropped column: no table, blob file, segment of
/// the log, ring, or file that waits for its removal, and that no snapshot, cursor or memtable held one. See
/// [`Table::certificate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    table: String,
    purged: PurgedColumn,
    events: Option<PurgedEvents>,
    issued_at: i64,
}

impl Certificate {
    /// Returns the name of the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the name that the column had.
    pub fn column(&self) -> &str {
        &self.purged.name
    }

    /// Returns the id that the column had. No other column of the table ever gets it.
    pub fn column_id(&self) -> u32 {
        self.purged.id
    }

    /// Returns the sequence number of the store after which no record has a value of the column: that of the purge.
    pub fn through(&self) -> u64 {
        self.purged.through
    }

    /// Returns when the purge ended, in microseconds since 1970.
    pub fn purged_at(&self) -> i64 {
        self.purged.purged_at
    }

    /// Returns when the certificate was issued, in microseconds since 1970.
    pub fn issued_at(&self) -> i64 {
        self.issued_at
    }

    /// Returns the [purge of events](Table::purge_events) after which the certificate was issued: no event of the store's
    /// log showed a value. `None` if events may show values.
    pub fn events(&self) -> Option<&PurgedEvents> {
        self.events.as_ref()
    }

    /// Returns where values may be that the certificate does not cover.
    pub fn not_covered(&self) -> Vec<&'static str> {
        let of_log: &[&str] = if self.events.is_some() { &OTHER_EVENTS } else { &EVENTS };
        of_log.iter().chain(&NOT_COVERED).copied().collect()
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (column, id, through) = (&self.purged.name, self.purged.id, self.purged.through);
        writeln!(f, "No file of the store had a value of the column {column:?} (id {id}) of {} then.", self.table)?;
        writeln!(f, "No record after the sequence number {through} had one.")?;
        if let Some(events) = &self.events {
            let (changed, removed) = (events.changed, events.removed);
            writeln!(f, "No event of the store's log showed one: {changed} had lost it, {removed} were removed.")?;
        }
        write!(f, "Not covered: {}.", self.not_covered().join(", "))
    }
}

impl Table {
    /// Erases what is left of a purged column outside of the table's files, and returns a certificate of it: of the last
    /// column of this name that was purged. It covers the events of the store's log if
    /// [`purge_events`](Table::purge_events) was called before, and is issued again after that call.
    ///
    /// A certificate is issued once; later calls return the same one. A repair from a backup, an ingestion of old files
    /// and a move of rows may bring values back. So each call looks for them in the table's files. If it finds one, it
    /// removes them again, and issues another certificate. In a store that is open for reading it does not look.
    ///
    /// A certificate is of one store. A copy of the store, as a follower or a restored backup is, has none until its own
    /// files are purged: [`purge_columns`](Table::purge_columns).
    ///
    /// Costs a flush. Without a certificate also about six syncs, and a listing of the store's directory. Other threads may
    /// write meanwhile. Tries for a quarter of a second if a file is held.
    ///
    /// Errors: `InUse`, with the holders in the message, if a snapshot, a cursor, the change feed or tables that are kept
    /// for repairs may have values; `Invalid` if a column of this name is not purged, or in another store alone; `NotFound`
    /// if no column of the name was dropped.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{ColumnType, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new().partition_key("name", ColumnType::Text).column("phone", ColumnType::Text);
    /// let people = tables.create("staff.people", schema)?;
    /// people.insert(Row::new().with("name", "Alice").with("phone", "555-0100"))?;
    /// people.drop_column("phone")?;
    /// people.drop_column("phone")?;
    /// people.purge_columns()?;
    /// let certificate = people.certificate("phone")?;
    /// assert_eq!((certificate.column(), certificate.column_id()), ("phone", 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn certificate(&self, name: &str) -> Result<Certificate> {
        self.try_certificate(name).map_err(|error| self.named(error))
    }

    fn try_certificate(&self, name: &str) -> Result<Certificate> {
        let _one_at_a_time = lock(&self.state.purging);
        let catalogue = &self.state.store.catalogue;
        let purged = self.looked_after(self.purged_column(name)?)?;
        let events = catalogue.purged_events(self.state.id, purged.id)?.filter(|events| events.end.is_some());
        let table = self.name();
        if let Some(issued_at) = purged.certified_at {
            return Ok(Certificate { table, purged, events, issued_at });
        }
        self.erase(&purged, events.as_ref())?;
        let issued_at = self.now();
        let purged = PurgedColumn { certified_at: Some(issued_at), ..purged };
        let mut batch = self.session.batch();
        catalogue.put_purged(&mut batch, self.state.id, &purged)?;
        batch.describe_nothing().commit(Durability::Sync)?;
        Ok(Certificate { table, purged, events, issued_at })
    }

    /// Returns the record of a purged column, without its certificate if values have come back. They are removed again.
    fn looked_after(&self, purged: PurgedColumn) -> Result<PurgedColumn> {
        if self.db().is_read_only() {
            return Ok(purged);
        }
        self.db().flush()?;
        if self.is_in_files(purged.id, &purged.indexes)? {
            // A recovery writes tables before they have the functions that list their columns.
            self.rewrite_files(purged.id, &purged.indexes)?;
        }
        if !self.is_in_files(purged.id, &purged.indexes)? {
            return Ok(purged);
        }
        let purged = PurgedColumn { through: self.db().snapshot().seqno()?, certified_at: None, ..purged };
        let mut batch = self.session.batch();
        for index in &purged.indexes {
            batch.delete_range(&self.state.indexes, item_of(*index)..item_of(index + 1));
        }
        self.state.store.catalogue.put_purged(&mut batch, self.state.id, &purged)?;
        batch.describe_nothing().commit(Durability::Sync)?;
        self.purge_files(&self.state.layout()?, std::slice::from_ref(&purged))?;
        Ok(purged)
    }

    /// Returns the last column of a name that was purged. Errors: `Invalid` if a column of the name is not purged, or was
    /// purged in another store alone; `NotFound` if none was dropped.
    pub(crate) fn purged_column(&self, name: &str) -> Result<PurgedColumn> {
        let layout = self.state.layout()?;
        let is_dropped = |column: &&Column| column.name == name && column.state != ColumnState::Active;
        if let Some(column) = layout.record.schema.columns.iter().find(is_dropped) {
            return Err(not_purged(column));
        }
        let PurgedColumns { here, elsewhere } = self.state.store.catalogue.purged(self.state.id)?;
        let last = |columns: Vec<PurgedColumn>| columns.into_iter().rfind(|column| column.name == name);
        match (last(here), last(elsewhere)) {
            (own, Some(other)) if own.as_ref().is_none_or(|own| own.id < other.id) => Err(Error::invalid(format!(
                "column {name:?} was purged in another store, and the files of this copy may have values: purge_columns"
            ))),
            (own, _) => own.ok_or_else(|| never_purged(&layout, name)),
        }
    }

    /// Erases what the log and obsolete files have of a column, and of its events if these were purged. Errors: `InUse` if
    /// something is left.
    fn erase(&self, purged: &PurgedColumn, events: Option<&PurgedEvents>) -> Result<()> {
        let (db, mut holders) = (self.db(), Vec::new());
        let through =
            events.and_then(|events| events.end).map_or(purged.through, |end| end.through.max(purged.through));
        let hidden_from = self.hidden_from(purged)?;
        let seen_through = events.and_then(|events| events.end).map_or(hidden_from, |end| end.through.max(hidden_from));
        let is_in_events = || if events.is_some() { self.is_in_events(purged) } else { Ok(false) };
        for attempt in 0..ATTEMPTS {
            // A recovery writes tables before they have the functions that list their columns.
            if self.is_in_files(purged.id, &purged.indexes)? {
                self.rewrite_files(purged.id, &purged.indexes)?;
            }
            if is_in_events()? {
                self.compact_events()?;
            }
            db.erase_log()?;
            // Records move from memtables to tables and from there to obsolete files: the tables are searched in between.
            let before = db.oldest_seqnos()?;
            let is_in_files = self.is_in_files(purged.id, &purged.indexes)?;
            let is_in_events = is_in_events()?;
            let left = [before, db.oldest_seqnos()?];
            let holds = |of: fn(&OldestSeqnos) -> Option<u64>| left.iter().filter_map(of).any(|seqno| seqno <= through);
            let is_seen = left.iter().filter_map(|oldest| oldest.snapshots).any(|seqno| seqno < seen_through);
            // These pass: other writers flush, and the next attempt erases their log. A job that has ended may hold an
            // obsolete file for a moment.
            let passing = [
                (is_in_files, "a table"),
                (is_in_events, "an event of the log, or an older version of one"),
                (holds(|oldest| oldest.memtables), "a memtable, or a cursor over one"),
                (holds(|oldest| oldest.log), "the log"),
                (
                    holds(|oldest| oldest.obsolete_files),
                    "a file that a cursor or a backup holds, that is kept for repairs (trash_bytes), or that a recovery or \
                     a repair has set aside (.cut, .damaged)",
                ),
            ];
            let lasting =
                [(holds(|oldest| oldest.kept_log), "log that the change feed keeps"), (is_seen, "a snapshot")];
            let is_lasting = lasting.iter().any(|(holds, _)| *holds);
            holders =
                passing.into_iter().chain(lasting).filter(|(holds, _)| *holds).map(|(_, holder)| holder).collect();
            if holders.is_empty() {
                return Ok(());
            }
            if is_lasting {
                break;
            }
            db.env().clock.sleep_nanos(FIRST_PAUSE_NANOS << attempt);
        }
        let (name, holders) = (&purged.name, holders.join("; "));
        Err(Error::of(ErrorKind::InUse, format!("column {name:?} may still have values in: {holders}")))
    }
}

/// Returns the error of a name that no purged column had.
#[cold]
fn never_purged(layout: &Layout, name: &str) -> Error {
    match layout.record.schema.columns.iter().find(|column| column.name == name) {
        None => Error::of(ErrorKind::NotFound, format!("the table had no column {name:?} that was purged")),
        Some(column) => not_purged(column),
    }
}

/// Returns the error of a column that is not purged.
#[cold]
fn not_purged(column: &Column) -> Error {
    let name = &column.name;
    match column.state {
        ColumnState::Active => Error::invalid(format!("column {name:?} was not dropped")),
        ColumnState::Tentative(_) => Error::invalid(format!("column {name:?} can be restored: drop it again")),
        ColumnState::Purging => Error::invalid(format!("column {name:?} is not purged yet: purge_columns")),
    }
}
