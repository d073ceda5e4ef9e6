//! Selects of rows of a table as Arrow streams.

use face::{Error, StoreId};
use waxseal_table::{Row, Rows, Table};

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
use super::scan::limits_of;
use super::stream::{BatchSource, Limits, no_memory, streamed};
use super::table_columns::{TableBatch, TableColumn, Unfit, table_schema};
use crate::failure::{Failure, Result, WAXSEAL_CORRUPTION};
use crate::table_select::CallerSelect;

/// The rows of a select, in batches.
struct SelectSource {
    store: StoreId,
    columns: Vec<TableColumn>,
    rows: Rows,
    limits: Limits,
    state: State,
}

enum State {
    Within,
    /// Within, and the next call returns this failure first.
    Owing(Failure),
    Behind,
    /// Every call returns this failure.
    Failed(Failure),
}

impl SelectSource {
    /// Begins a select. The schema is that of the rows' snapshot.
    fn begin(table: &Table, mut select: CallerSelect, limits: Limits) -> Result<SelectSource> {
        let snapshot = select.snapshot(table)?;
        let schema = table.schema_at(&snapshot)?;
        let names = match select.columns.take() {
            Some(names) => names,
            None if schema.has_dynamic_columns() || schema.groups().iter().any(|group| group.is_repeated()) => {
                return Err(Failure::invalid("the table has repeated groups or dynamic columns: name other columns"));
            }
            None => schema.columns().map(|column| column.name().to_owned()).collect(),
        };
        let mut columns: Vec<TableColumn> = Vec::new();
        for name in &names {
            let is_repeated = |group: &str| schema.groups().iter().any(|own| own.name() == group && own.is_repeated());
            let mut found = schema.columns().filter(|column| !is_repeated(schema.group_of(column)));
            let Some(column) = found.find(|column| column.name() == name) else {
                return Err(Failure::invalid(format!("the schema has no column {name:?} that fits into Arrow")));
            };
            if columns.iter().any(|other| other.name == *name) {
                return Err(Failure::invalid(format!("the column {name:?} is named twice")));
            }
            columns.push(TableColumn { name: name.clone(), column_type: column.column_type().clone() });
        }
        if columns.is_empty() {
            return Err(Failure::invalid("a scan without columns"));
        }
        let rows = select.on(table)?.at(&snapshot).columns(names).rows()?;
        Ok(SelectSource { store: table.db().store(), columns, rows, limits, state: State::Within })
    }

    /// Returns the next rows; `None` at the end.
    fn next(&mut self) -> Result<Option<TableBatch>> {
        match std::mem::replace(&mut self.state, State::Within) {
            State::Within => {}
            State::Owing(failure) => return Err(failure),
            State::Behind => {
                self.state = State::Behind;
                return Ok(None);
            }
            State::Failed(failure) => {
                self.state = State::Failed(failure.clone());
                return Err(failure);
            }
        }
        let filled = self.fill();
        if let Err(failure) = &filled
            && failure.status() != WAXSEAL_CORRUPTION
        {
            self.state = State::Failed(failure.clone());
        }
        filled
    }

    fn fill(&mut self) -> Result<Option<TableBatch>> {
        let memory = |error| Failure::Engine(no_memory(error));
        let mut batch = TableBatch::new(&self.columns).map_err(memory)?;
        while batch.rows() < self.limits.rows && batch.bytes() < self.limits.bytes {
            match self.rows.next() {
                Some(Ok(row)) => add(&mut batch, &row)?,
                Some(Err(error)) => {
                    let failure = Failure::from(error);
                    if batch.rows() == 0 {
                        return Err(failure);
                    }
                    self.state = match failure.status() {
                        WAXSEAL_CORRUPTION => State::Owing(failure),
                        _ => State::Failed(failure),
                    };
                    break;
                }
                None => {
                    self.state = State::Behind;
                    break;
                }
            }
        }
        Ok(Some(batch).filter(|batch| batch.rows() > 0))
    }
}

/// Adds a row to a batch.
fn add(batch: &mut TableBatch, row: &Row) -> Result<()> {
    batch.push(row).map_err(|unfit| match unfit {
        Unfit::Memory(error) => Failure::Engine(no_memory(error)),
        Unfit::Type(name) => Failure::internal(format!("a value of the column {name:?} has another type")),
    })
}

impl BatchSource for SelectSource {
    fn store(&self) -> StoreId {
        self.store
    }

    fn schema(&self) -> ArrowSchema {
        table_schema(&self.columns)
    }

    fn next_array(&mut self) -> Result<ArrowArray> {
        Ok(self.next()?.map_or(ArrowArray::released(), TableBatch::into_array))
    }

    fn fail(&mut self, error: Error) {
        self.state = State::Failed(error.into());
    }
}

/// Returns a stream of the rows of a select, which its owner must release.
pub(crate) fn stream_of(
    table: &Table,
    select: CallerSelect,
    batch_rows: usize,
    batch_bytes: usize,
) -> Result<ArrowArrayStream> {
    Ok(streamed(SelectSource::begin(table, select, limits_of(batch_rows, batch_bytes))?))
}
