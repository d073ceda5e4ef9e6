//! Operations on rows, columns and schemas in the store's log. Each operation is described in the commit that makes it,
//! and the store logs the registered ones.

use std::collections::HashMap;

use waxseal::registry::{Field, Operation, Payload, TableName, Target};
use waxseal::{Batch, Transaction};

use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::layout::Layout;
use crate::packed::ColumnId;
use crate::purged_column::PurgedColumn;
use crate::purged_events::PurgedEvents;
use crate::schema::{Column, ColumnState};
use crate::schema_record::TableRecord;
use crate::value::Value;

/// The number of a column's state in events: that of the schema, and 3 for a purged column.
const PURGED: u64 = 3;

/// An operation on a row.
pub(crate) struct RowOperation<'a> {
    pub(crate) row_key: &'a [u8],
    pub(crate) operation: Operation,
    /// The affected columns, and what happens to each.
    pub(crate) columns: Vec<(String, Operation)>,
    /// The time to live in seconds.
    pub(crate) ttl: Option<u64>,
}

impl RowOperation<'_> {
    /// Describes the operation: an event of the row, and an event of each affected column.
    pub(crate) fn describe(&self, layout: &Layout, transaction: &Transaction) -> Result<()> {
        let values = layout.key_values(self.row_key)?;
        let (partition, clustering) = values.split_at(layout.partition_parts);
        let [partition, clustering] =
            [partition, clustering].map(|values| values.iter().map(component).collect::<Vec<_>>());
        let table = table_name(&layout.record);
        let payload = |columns: &mut dyn Iterator<Item = &String>| {
            let mut payload = Payload::new();
            (0..layout.parts.len()).for_each(|index| payload.push(Field::KeyColumn(layout.name(index).to_string())));
            columns.for_each(|name| payload.push(Field::Column(name.clone())));
            self.ttl.into_iter().for_each(|seconds| payload.push(Field::Ttl(seconds)));
            payload
        };
        let row = Target::row(table.clone(), partition.clone(), clustering.clone());
        transaction.describe(row, self.operation, payload(&mut self.columns.iter().map(|(name, _)| name)));
        for (name, operation) in &self.columns {
            let (table, partition, clustering) = (table.clone(), partition.clone(), clustering.clone());
            let target = Target::Column { table, partition, clustering, column: name.clone() };
            transaction.describe(target, *operation, payload(&mut std::iter::once(name)));
        }
        Ok(())
    }
}

/// Describes a delete of the rows whose keys begin with these values. Its target is the partition or the table.
pub(crate) fn describe_range(
    layout: &Layout,
    prefix: &[Value],
    bounds: (Option<Vec<u8>>, Option<Vec<u8>>),
    transaction: &Transaction,
) {
    let table = table_name(&layout.record);
    let keys: Vec<Vec<u8>> = prefix.iter().map(component).collect();
    let target = match keys.split_at_checked(layout.partition_parts) {
        Some((partition, clustering)) => Target::row(table, partition.to_vec(), clustering.to_vec()),
        None => Target::Table(table),
    };
    let mut payload = Payload::new();
    bounds.0.into_iter().for_each(|start| payload.push(Field::RangeStart(start)));
    bounds.1.into_iter().for_each(|end| payload.push(Field::RangeEnd(end)));
    transaction.describe(target, Operation::RANGE_DELETE, payload);
}

/// Describes what a change of a table's record does to the table and its columns.
pub(crate) fn describe_change(batch: &mut Batch, before: &TableRecord, next: &TableRecord) {
    let target = || Target::Table(table_name(before));
    if before.name != next.name {
        let payload =
            Payload::new().with(Field::OldName(before.name.to_string())).with(Field::NewName(next.name.to_string()));
        batch.describe(target(), Operation::TABLE_ALTER_RENAME, payload);
    }
    let by_id = |record: &TableRecord| -> HashMap<ColumnId, Column> {
        record.schema.columns.iter().map(|column| (column.id, column.clone())).collect()
    };
    let (old, new) = (by_id(before), by_id(next));
    let of = |column: &Column| {
        Payload::new()
            .with(Field::Column(column.name.clone()))
            .with(Field::ColumnType(column.ty.to_string()))
            .with(Field::ColumnId(u64::from(column.id)))
    };
    for column in &next.schema.columns {
        let was = old.get(&column.id);
        if let Some(was) = was.filter(|was| was.name != column.name) {
            let payload = of(column).with(Field::OldName(was.name.clone())).with(Field::NewName(column.name.clone()));
            batch.describe(target(), Operation::TABLE_ALTER_RENAME, payload);
        }
        if was.is_some_and(|was| was.state == column.state) {
            continue;
        }
        let (operation, payload) = match column.state {
            ColumnState::Active => (Operation::TABLE_ALTER_ADD, of(column).with(Field::ColumnState(0))),
            ColumnState::Tentative(deadline) => {
                let deadline = Field::Deadline(u64::try_from(deadline).unwrap_or(0));
                (Operation::TABLE_ALTER_DROP, of(column).with(Field::ColumnState(1)).with(deadline))
            }
            ColumnState::Purging => (Operation::TABLE_ALTER_DROP, of(column).with(Field::ColumnState(2))),
        };
        batch.describe(target(), operation, payload);
    }
    for column in before.schema.columns.iter().filter(|column| !new.contains_key(&column.id)) {
        batch.describe(target(), Operation::TABLE_ALTER_DROP, of(column).with(Field::ColumnState(PURGED)));
    }
}

/// Describes a purge of the events that show values of a purged column.
pub(crate) fn describe_event_purge(
    batch: &mut Batch,
    table: &TableRecord,
    column: &PurgedColumn,
    events: &PurgedEvents,
) {
    let setting = |name: &str, number: u64| Field::Setting((name.to_owned(), number.to_string()));
    let counts =
        Payload::new().with(setting("events_changed", events.changed)).with(setting("events_removed", events.removed));
    batch.describe(Target::Table(table_name(table)), Operation::TABLE_ALTER_DROP, as_purged(counts, column));
}

/// Adds a column to a payload, as purged.
pub(crate) fn as_purged(payload: Payload, column: &PurgedColumn) -> Payload {
    payload
        .with(Field::Column(column.name.clone()))
        .with(Field::ColumnId(u64::from(column.id)))
        .with(Field::ColumnState(PURGED))
}

/// Describes an operation on a keyspace. The event has its replication map.
pub(crate) fn describe_keyspace(batch: &mut Batch, keyspace: &Keyspace, operation: Operation) {
    let payload = with_replication(Payload::new(), keyspace);
    batch.describe(Target::Keyspace(keyspace.name().to_owned()), operation, payload);
}

/// Describes that a keyspace has got its name, in place of the one before. The target of a rename is the name before.
pub(crate) fn describe_new_name(batch: &mut Batch, before: Option<&str>, keyspace: &Keyspace) {
    let new = keyspace.name();
    let old = before.into_iter().fold(Payload::new(), |payload, old| payload.with(Field::OldName(old.to_owned())));
    let payload = with_replication(old.with(Field::NewName(new.to_owned())), keyspace);
    batch.describe(Target::Keyspace(before.unwrap_or(new).to_owned()), Operation::SCHEMA_ALTER, payload);
}

fn with_replication(payload: Payload, keyspace: &Keyspace) -> Payload {
    let setting = |(name, value): (&String, &String)| Field::Setting((format!("replication.{name}"), value.clone()));
    keyspace.replication_map().iter().map(setting).fold(payload, Payload::with)
}

/// Describes an operation on a whole table.
pub(crate) fn describe_table(batch: &mut Batch, table: &TableRecord, operation: Operation) {
    batch.describe(Target::Table(table_name(table)), operation, Payload::new());
}

fn table_name(record: &TableRecord) -> TableName {
    TableName::new(record.name.keyspace.clone(), record.name.table.clone())
}

/// Returns a value of a key as a component of a target. Numbers and other values become text.
fn component(value: &Value) -> Vec<u8> {
    let text = match value {
        Value::Bytes(bytes) => return bytes.clone(),
        Value::Text(text) | Value::Json(text) => return text.clone().into_bytes(),
        Value::Bool(truth) => truth.to_string(),
        Value::I32(number) | Value::Date(number) => number.to_string(),
        Value::I64(number) | Value::Timestamp(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Decimal(number) => number.to_string(),
        Value::Uuid(uuid) => uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Null | Value::List(_) | Value::Empty => String::new(), // no parts of keys
    };
    text.into_bytes()
}
