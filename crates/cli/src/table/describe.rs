//! describe, list: what the tables of a store are.

use serde_json::{Value, json};
use waxseal_table::{Column, ColumnRole, ColumnState, IndexState, Partitioning, Schema, SortOrder, Tables};

use super::OpenTable;
use super::grid::{Grid, GridColumn};
use super::recreate;
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::open_to_read;
use crate::text::escape;
use crate::times;

pub(crate) fn list(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    for name in Tables::open(&open_to_read(args)?)?.names()? {
        output.line(escape(name.as_bytes()))?;
        output.object(&json!({ "table": name }))?;
    }
    Ok(Exit::Ok)
}

pub(crate) fn describe(args: &Args, name: &str, output: &mut Output) -> Result<Exit, Failure> {
    let open = OpenTable::to_read(args, name)?;
    let schema = &open.schema;
    output.object(&as_json(name, schema))?;
    if output.json {
        return Ok(Exit::Ok);
    }
    let partitions = if is_hashed(schema) { "hashed" } else { "ordered" };
    let others = if schema.has_dynamic_columns() { ", dynamic columns" } else { "" };
    output.line(format!(
        "{}: schema {}, {partitions} partitions{others}",
        escape(name.as_bytes()),
        schema.version()
    ))?;
    let columns = ["column", "type", "key", "group", "state"];
    let mut grid = Grid::new(columns.map(|name| GridColumn { name: name.to_owned(), is_number: false }).into());
    for column in schema.columns().chain(schema.dropped_columns()) {
        let key = match column.role() {
            ColumnRole::Partition => "partition",
            ColumnRole::Clustering(SortOrder::Ascending) => "clustering",
            ColumnRole::Clustering(SortOrder::Descending) => "clustering, descending",
            ColumnRole::Value => "",
        };
        let state = match column.state() {
            ColumnState::Active => String::new(),
            ColumnState::Tentative(deadline) => format!("dropped, undelete until {}", time(deadline)),
            ColumnState::Purging => "dropped, to be purged".to_owned(),
        };
        let group = schema.group_of(column);
        let repeated = if is_repeated(schema, group) { " (repeated)" } else { "" };
        let shown = |text: &str| escape(text.as_bytes());
        let group = format!("{}{repeated}", shown(group));
        grid.row(vec![shown(column.name()), column.column_type().to_string(), key.to_owned(), group, state], output)?;
    }
    grid.finish(output)?;
    for index in schema.indexes() {
        let columns = schema.columns_of_index(index).map(|(column, order)| match order {
            SortOrder::Ascending => escape(column.name().as_bytes()),
            SortOrder::Descending => format!("{} descending", escape(column.name().as_bytes())),
        });
        let mut line =
            format!("index {} on {}", escape(index.name().as_bytes()), columns.collect::<Vec<_>>().join(", "));
        for (is_so, word) in [
            (index.is_unique(), ", unique"),
            (index.has_missing(), ", with missing values"),
            (index.state() == IndexState::Building, ", being built: `repair` finishes it"),
        ] {
            line += if is_so { word } else { "" };
        }
        output.line(line)?;
    }
    for command in recreate::commands(name, schema).unwrap_or_default() {
        output.line(command)?;
    }
    Ok(Exit::Ok)
}

fn is_hashed(schema: &Schema) -> bool {
    schema.partitioning() == Partitioning::Hashed
}

fn is_repeated(schema: &Schema, group: &str) -> bool {
    schema.groups().iter().any(|own| own.is_repeated() && own.name() == group)
}

fn time(micros: i64) -> String {
    times::text(waxseal::registry::Time::from_micros(micros.unsigned_abs()))
}

fn as_json(name: &str, schema: &Schema) -> Value {
    let column = |column: &Column| {
        let (key, order) = match column.role() {
            ColumnRole::Partition => (Some("partition"), None),
            ColumnRole::Clustering(SortOrder::Ascending) => (Some("clustering"), Some("ascending")),
            ColumnRole::Clustering(SortOrder::Descending) => (Some("clustering"), Some("descending")),
            ColumnRole::Value => (None, None),
        };
        let (state, deadline) = match column.state() {
            ColumnState::Active => ("active", None),
            ColumnState::Tentative(deadline) => ("tentative", Some(deadline)),
            ColumnState::Purging => ("purging", None),
        };
        json!({
            "name": column.name(),
            "id": column.id(),
            "type": column.column_type().to_string(),
            "key": key,
            "order": order,
            "group": schema.group_of(column),
            "state": state,
            "deadline": deadline,
        })
    };
    let group = |group: &waxseal_table::Group| json!({ "name": group.name(), "repeated": group.is_repeated() });
    let index = |index: &waxseal_table::IndexInfo| {
        let columns = schema.columns_of_index(index).map(|(column, order)| {
            let order = if order == SortOrder::Descending { "descending" } else { "ascending" };
            json!({ "name": column.name(), "order": order })
        });
        json!({
            "name": index.name(),
            "columns": columns.collect::<Vec<_>>(),
            "unique": index.is_unique(),
            "with_missing": index.has_missing(),
            "public": index.state() == IndexState::Public,
        })
    };
    json!({
        "table": name,
        "version": schema.version(),
        "partitioning": if is_hashed(schema) { "hashed" } else { "ordered" },
        "dynamic_columns": schema.has_dynamic_columns(),
        "columns": schema.columns().chain(schema.dropped_columns()).map(column).collect::<Vec<_>>(),
        "groups": schema.groups().iter().map(group).collect::<Vec<_>>(),
        "indexes": schema.indexes().map(index).collect::<Vec<_>>(),
        "create": recreate::commands(name, schema),
    })
}
