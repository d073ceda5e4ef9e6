//! select: many rows, as aligned columns or as JSON lines.

use serde_json::json;
use waxseal_table::{Column, ColumnType, Filter, Row, Schema, Select, Value};

use super::grid::{Grid, GridColumn};
use super::{OpenTable, range_of, row};
use crate::args::Args;
use crate::damage::Damaged;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::table_verbs::SelectRows;
use crate::text;

/// Damage is reported on standard error, and the rows around it are printed nevertheless.
pub(crate) fn select(args: &Args, select: &SelectRows, output: &mut Output) -> Result<Exit, Failure> {
    let open = OpenTable::to_read(args, &select.name)?;
    let rows = query(&open, select)?.rows()?;
    let (mut damaged, mut count) = (Damaged::default(), 0u64);
    let shape = RowShape::of(&open.schema, &select.columns);
    let mut grid = Grid::new(shape.header());
    for row in rows {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                damaged.note(error)?;
                continue;
            }
        };
        count += 1;
        match () {
            () if select.count => {}
            () if output.json => output.write(&[open.schema.row_to_json(&row).as_bytes(), b"\n"])?,
            () => grid.row(shape.cells(&row), output)?,
        }
    }
    if select.count {
        output.line(count.to_string())?;
        output.object(&json!({ "rows": count }))?;
    } else if !output.json {
        grid.finish(output)?;
        output.line(format!("({})", text::counted(count, "row", "rows")))?;
    }
    damaged.outcome("the rows around were read")
}

fn query<'a>(open: &'a OpenTable, select: &SelectRows) -> Result<Select<'a>, Failure> {
    let schema = &open.schema;
    let mut query = open.table.select();
    let columns: Vec<&str> = match &select.index {
        None => schema.key_columns().map(Column::name).collect(),
        Some(index) => {
            let found = schema.indexes().find(|found| found.name() == index);
            let found = found.ok_or_else(|| Failure::not_found(format!("{}: no index {index:?}", select.name)))?;
            query = query.index(index);
            schema.columns_of_index(found).map(|(column, _)| column.name()).collect()
        }
    };
    let (prefix, from, to) = range_of(schema, &columns, &select.range)?;
    query = query.prefix(prefix).range(row::bounds(from, to));
    for condition in &select.conditions {
        query = query.filter(Filter::parse(condition, schema)?);
    }
    if !select.columns.is_empty() {
        query = query.columns(select.columns.iter().cloned());
    }
    if let Some(limit) = select.limit {
        query = query.limit(limit);
    }
    query = if select.reverse { query.reverse() } else { query };
    Ok(if select.full_scan { query.full_scan() } else { query })
}

/// The columns of a grid of rows: those of the schema, then a column for each repeated group and one for all dynamic
/// columns.
struct RowShape<'a> {
    schema: &'a Schema,
    columns: Vec<&'a Column>,
    groups: Vec<&'a str>,
    has_others: bool,
}

impl<'a> RowShape<'a> {
    /// `wanted` are the names of the selected columns and repeated groups; none for all.
    fn of(schema: &'a Schema, wanted: &[String]) -> RowShape<'a> {
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
        let is_repeated = |group: &str| schema.groups().iter().any(|own| own.is_repeated() && own.name() == group);
        let of_row: Vec<&Column> = schema.columns().filter(|column| !is_repeated(schema.group_of(column))).collect();
        let columns: Vec<&Column> = match wanted {
            [] => of_row,
            wanted => {
                wanted.iter().filter_map(|name| of_row.iter().copied().find(|column| column.name() == name)).collect()
            }
        };
        let groups = schema.groups().iter().filter(|group| group.is_repeated()).map(|group| group.name());
        let groups: Vec<&str> = groups
            .filter(|group| {
                let mut columns = schema.columns().filter(|column| schema.group_of(column) == *group);
                is_wanted(group) || columns.any(|column| is_wanted(column.name()))
            })
            .collect();
        let is_known =
            |name: &String| groups.contains(&name.as_str()) || schema.columns().any(|own| own.name() == name);
        let has_others = schema.has_dynamic_columns() && (wanted.is_empty() || !wanted.iter().all(is_known));
        RowShape { schema, columns, groups, has_others }
    }

    fn header(&self) -> Vec<GridColumn> {
        let name = |name: &str| text::escape(name.as_bytes());
        let columns = self.columns.iter().map(|column| {
            let is_number = is_number(column.column_type());
            GridColumn { name: name(column.name()), is_number }
        });
        let groups = self.groups.iter().map(|group| GridColumn { name: name(group), is_number: false });
        let others = self.has_others.then(|| GridColumn { name: "(other columns)".to_owned(), is_number: false });
        columns.chain(groups).chain(others).collect()
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let shown = |value: &Value| text::escape(value.to_string().as_bytes());
        let mut cells: Vec<String> = Vec::new();
        for column in &self.columns {
            cells.push(row.get(column.name()).map_or_else(|| "NULL".to_owned(), shown));
        }
        for group in &self.groups {
            cells.push(text::counted(row.entries(group).count() as u64, "entry", "entries"));
        }
        if self.has_others {
            let is_other = |name: &str| !self.schema.columns().any(|column| column.name() == name);
            let others = row.columns().filter(|(name, _)| is_other(name));
            let others: Vec<String> =
                others.map(|(name, value)| format!("{}={}", text::escape(name.as_bytes()), shown(value))).collect();
            cells.push(others.join(" "));
        }
        cells
    }
}

fn is_number(ty: &ColumnType) -> bool {
    use ColumnType::{Decimal, F32, F64, I32, I64, U64};
    matches!(ty, I32 | I64 | U64 | F32 | F64 | Decimal { .. })
}
