//! insert, update, get, delete, truncate: single rows, and deletes of many.

use std::collections::HashSet;
use std::ops::Bound;

use serde_json::json;
use waxseal::meta::Expiry;
use waxseal_table::{Changes, Filter, Row, RowOptions, Value};

use super::{OpenTable, assignment, range_of};
use crate::args::Args;
use crate::expiry::ExpiryArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::table_verbs::RowRange;
use crate::text;

pub(crate) fn insert(
    args: &Args,
    name: &str,
    columns: &[String],
    replace: bool,
    expiry: &ExpiryArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let options = row_options(expiry)?;
    let open = OpenTable::to_change(args, name)?;
    let values = columns.iter().map(|column| {
        let (column, value) = assignment(column, "COLUMN=VALUE")?;
        Ok((column, open.schema.parse_value(column, value)?))
    });
    let row = Row::from_columns(values.collect::<Result<Vec<_>, Failure>>()?)?;
    match replace {
        true => open.table.upsert_with(row, options)?,
        false => open.table.insert_with(row, options)?,
    }
    open.db.close()?;
    output.changed(&json!({ "ok": true, "rows": 1 }))?;
    Ok(Exit::Ok)
}

/// Returns the options of written rows. Fails for an expiry that no row can have, before any row is read.
pub(super) fn row_options(expiry: &ExpiryArgs) -> Result<RowOptions, Failure> {
    Ok(match (expiry.after()?, expiry.at_micros()?) {
        (Some(after), _) => RowOptions::new().expires_in(after),
        (None, Some(micros)) => {
            Expiry::checked(micros)?;
            RowOptions::new().expires_at(micros)
        }
        (None, None) => RowOptions::new(),
    })
}

pub(crate) fn update(
    args: &Args,
    (name, key): (&str, &[String]),
    (set, remove): (&[String], &[String]),
    conditions: &[String],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let open = OpenTable::to_change(args, name)?;
    let key = open.key(key)?;
    let assigned = set.iter().map(|column| {
        let (column, value) = assignment(column, "COLUMN=VALUE")?;
        Ok((column, open.schema.parse_value(column, value)?))
    });
    let mut values = assigned.collect::<Result<Vec<_>, Failure>>()?;
    values.extend(remove.iter().map(|column| (column.as_str(), Value::Null)));
    let mut changed = HashSet::new();
    if let Some((column, _)) = values.iter().find(|(column, _)| !changed.insert(*column)) {
        return Err(Failure::usage(format!("column {column:?} is changed twice")));
    }
    let changes = values.into_iter().fold(Changes::new(), |changes, (column, value)| changes.set(column, value));
    let filters = conditions.iter().map(|condition| Filter::parse(condition, &open.schema));
    let condition = filters.collect::<Result<Vec<_>, _>>()?.into_iter().reduce(Filter::and);
    let is_updated = match condition {
        Some(condition) => open.table.update_if(&key, condition, changes)?,
        None => open.table.update(&key, changes)?,
    };
    if !is_updated {
        return Err(match open.table.contains(&key)? {
            true => Failure::new(Exit::CheckFailed, format!("the row of the key {} does not match", shown(&key))),
            false => Failure::not_found(format!("no row of the key {}", shown(&key))),
        });
    }
    open.db.close()?;
    output.changed(&json!({ "ok": true, "rows": 1 }))?;
    Ok(Exit::Ok)
}

pub(crate) fn get(args: &Args, name: &str, key: &[String], output: &mut Output) -> Result<Exit, Failure> {
    let open = OpenTable::to_read(args, name)?;
    let key = open.key(key)?;
    let row = open.table.get(&key)?.ok_or_else(|| Failure::not_found(format!("no row of the key {}", shown(&key))))?;
    if output.json {
        output.write(&[open.schema.row_to_json(&row).as_bytes(), b"\n"])?;
        return Ok(Exit::Ok);
    }
    for (column, value) in row.columns() {
        output.line(line(column, value))?;
    }
    for group in open.schema.groups().iter().filter(|group| group.is_repeated()) {
        for entry in row.entries(group.name()) {
            if entry.columns().next().is_none() {
                output.line(line(&format!("{}.{}", group.name(), entry.name()), &Value::Text(String::new())))?;
            }
            for (column, value) in entry.columns() {
                output.line(line(&format!("{}.{}.{column}", group.name(), entry.name()), value))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn line(name: &str, value: &Value) -> String {
    format!("{}\t{}", text::escape(name.as_bytes()), text::escape(value.to_string().as_bytes()))
}

/// Formats a key for messages.
fn shown(key: &[Value]) -> String {
    format!("({})", key.iter().map(Value::to_json).collect::<Vec<_>>().join(", "))
}

pub(crate) fn delete(
    args: &Args,
    name: &str,
    key: &[String],
    range: &RowRange,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let open = OpenTable::to_change(args, name)?;
    if key.is_empty() {
        let columns: Vec<&str> = open.schema.key_columns().map(|column| column.name()).collect();
        let (prefix, from, to) = range_of(&open.schema, &columns, range)?;
        open.table.delete_range(prefix, bounds(from, to))?;
    } else {
        open.table.delete(open.key(key)?)?;
    }
    open.db.close()?;
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

/// Returns the range from a start to an end, neither of which must be given.
pub(super) fn bounds(from: Vec<Value>, to: Vec<Value>) -> (Bound<Vec<Value>>, Bound<Vec<Value>>) {
    let start = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
    (start, if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to) })
}

pub(crate) fn truncate(args: &Args, name: &str, output: &mut Output) -> Result<Exit, Failure> {
    let open = OpenTable::to_change(args, name)?;
    open.table.truncate()?;
    open.db.close()?;
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}
