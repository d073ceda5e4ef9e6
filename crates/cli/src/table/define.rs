//! create, drop, alter: the schemas of tables.

use serde_json::json;
use waxseal_table::{Alteration, ColumnType, Index, Schema, Tables};

use super::{OpenTable, tables_of};
use crate::args::Args;
use crate::expiry::parse_duration;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{open_to_change, open_to_fill};
use crate::table_verbs::{CreateTable, TableChange};

pub(crate) fn create(args: &Args, create: &CreateTable, output: &mut Output) -> Result<Exit, Failure> {
    let schema = schema_of(create)?;
    // A refused schema leaves no new store behind.
    Tables::open(&waxseal::Db::memory()?)?.create(&create.name, schema.clone())?;
    let db = open_to_fill(args)?;
    tables_of(args, &db)?.create(&create.name, schema)?;
    db.close()?;
    done(&create.name, output)
}

pub(crate) fn drop(args: &Args, name: &str, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    tables_of(args, &db)?.drop(name)?;
    db.close()?;
    done(name, output)
}

pub(crate) fn alter(args: &Args, name: &str, change: &TableChange, output: &mut Output) -> Result<Exit, Failure> {
    let change = TableStep::of(change)?;
    let open = OpenTable::to_change(args, name)?;
    match change {
        TableStep::Alter(alteration) => open.table.alter(alteration)?,
        TableStep::Drop(column, time) => open.table.drop_column_for(column, time)?,
        TableStep::CreateIndex(index) => open.table.create_index(index)?,
        TableStep::Rename(new) => {
            open.tables.rename(name, new)?;
            open.db.close()?;
            return done(new, output);
        }
        TableStep::Purge => {
            let report = open.table.purge_columns()?;
            open.db.close()?;
            for column in &report.columns {
                output.line(format!("purged {column:?}"))?;
            }
            if report.held.is_empty() {
                output.changed(&json!({ "ok": true, "purged": report.columns, "held": report.held }))?;
                return Ok(Exit::Ok);
            }
            let held = format!("held by a snapshot: {}", report.held.join(", "));
            let failure = Failure::new(Exit::CheckFailed, held);
            return Err(failure.with("purged", report.columns).with("held", report.held));
        }
    }
    open.db.close()?;
    done(name, output)
}

fn done(name: &str, output: &mut Output) -> Result<Exit, Failure> {
    output.changed(&json!({ "ok": true, "table": name }))?;
    Ok(Exit::Ok)
}

/// A change of the command line, parsed before the store is opened.
enum TableStep<'a> {
    Alter(Alteration),
    Drop(&'a str, std::time::Duration),
    CreateIndex(Index),
    Rename(&'a str),
    Purge,
}

impl TableStep<'_> {
    fn of(change: &TableChange) -> Result<TableStep<'_>, Failure> {
        let new = Alteration::new;
        Ok(match change {
            TableChange::Add { column, group } => {
                let (name, ty) = column_of(column)?;
                TableStep::Alter(new().add_column_in(group.as_deref().unwrap_or("default"), name, ty))
            }
            TableChange::Drop { column, time } => TableStep::Drop(column, parse_duration(time)?),
            TableChange::Undelete { column } => TableStep::Alter(new().undelete_column(column)),
            TableChange::Rename { column, new: name } => TableStep::Alter(new().rename_column(column, name)),
            TableChange::Widen { column } => {
                let (name, ty) = column_of(column)?;
                TableStep::Alter(new().widen_column(name, ty))
            }
            TableChange::Purge => TableStep::Purge,
            TableChange::CreateIndex { index, columns, unique, with_missing } => {
                let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                let index = index_over(index, &columns);
                let index = if *unique { index.unique() } else { index };
                TableStep::CreateIndex(if *with_missing { index.with_missing() } else { index })
            }
            TableChange::DropIndex { index } => TableStep::Alter(new().drop_index(index)),
            TableChange::RenameTable { new } => TableStep::Rename(new),
        })
    }
}

fn schema_of(create: &CreateTable) -> Result<Schema, Failure> {
    let mut schema = Schema::new();
    for column in &create.partition_key {
        let (name, ty) = column_of(column)?;
        schema = schema.partition_key(name, ty);
    }
    for column in &create.clustering_key {
        let (column, is_descending) = ordered(column);
        let (name, ty) = column_of(column)?;
        schema = match is_descending {
            true => schema.clustering_key_descending(name, ty),
            false => schema.clustering_key(name, ty),
        };
    }
    let mut groups = Vec::new();
    for group in &create.repeated_group {
        let (group, columns) = named_list(group)?;
        schema = schema.repeated_group(group);
        groups.push((group, columns));
    }
    for group in &create.group {
        groups.push(named_list(group)?);
    }
    for column in &create.column {
        let (name, ty) = column_of(column)?;
        let of_column = groups.iter().filter(|(_, columns)| columns.contains(&name)).map(|(group, _)| *group);
        schema = match of_column.collect::<Vec<_>>().as_slice() {
            [] => schema.column(name, ty),
            [group] => schema.column_in(group, name, ty),
            [first, second, ..] => {
                return Err(Failure::usage(format!("column {name:?} is in the groups {first:?} and {second:?}")));
            }
        };
    }
    for (group, columns) in &groups {
        let is_missing =
            |name: &&&str| !schema.columns().any(|column| column.name() == **name && !column.role().is_key());
        if let Some(name) = columns.iter().find(is_missing) {
            return Err(Failure::usage(format!("group {group:?} has {name:?}, which is no --column")));
        }
    }
    for (index, is_unique) in
        create.index.iter().map(|index| (index, false)).chain(create.unique_index.iter().map(|index| (index, true)))
    {
        let (name, columns) = named_list(index)?;
        let index = index_over(name, &columns);
        schema = schema.index(if is_unique { index.unique() } else { index });
    }
    schema = if create.hashed { schema.hashed() } else { schema };
    Ok(if create.dynamic_columns { schema.dynamic_columns() } else { schema })
}

/// Parses `COLUMN:TYPE`. The name may have colons.
fn column_of(text: &str) -> Result<(&str, ColumnType), Failure> {
    let wrong = || Failure::usage(format!("{text:?} is no COLUMN:TYPE"));
    let (name, ty) = text.rsplit_once(':').ok_or_else(wrong)?;
    Ok((name, ty.parse().map_err(|error| Failure::usage(format!("column {name:?}: {error}")))?))
}

/// Splits the order from a column. Returns true for a descending one.
fn ordered(column: &str) -> (&str, bool) {
    match column.strip_suffix(":desc") {
        Some(column) => (column, true),
        None => (column.strip_suffix(":asc").unwrap_or(column), false),
    }
}

/// Splits `NAME=COLUMN,COLUMN`. Behind `NAME=` are no columns.
fn named_list(text: &str) -> Result<(&str, Vec<&str>), Failure> {
    let (name, list) = text.split_once('=').ok_or_else(|| Failure::usage(format!("{text:?} is no NAME=COLUMNS")))?;
    Ok((name, if list.is_empty() { Vec::new() } else { list.split(',').collect() }))
}

fn index_over(name: &str, columns: &[&str]) -> Index {
    columns.iter().fold(Index::on(name, [""; 0]), |index, column| match ordered(column) {
        (column, true) => index.descending(column),
        (column, false) => index.ascending(column),
    })
}
