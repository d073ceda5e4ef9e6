//! Rows as Arrow record batches, and back.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, SchemaRef};

use crate::arrow_values::{array, field, value};
use crate::error::{Error, ErrorKind, Result};
use crate::json_rows::in_column;
use crate::row::Row;
use crate::rows::Rows;
use crate::schema::{Column, Schema};
use crate::select::Select;
use crate::table::Table;
use crate::value::Value;

/// Rows of a batch, unless the scan sets another number.
const BATCH_ROWS: usize = 8192;

/// A batch ends with the row that reaches this size, so that the offsets of Arrow, which have 32 bits, suffice.
const BATCH_BYTES: usize = 64 << 20;

/// Size of a row that no batch holds.
const MOST_BYTES: usize = 1 << 30;

impl Table {
    /// Reads all rows as Arrow record batches: see [`Select::scan_arrow`].
    pub fn scan_arrow(&self) -> Result<ArrowScan> {
        self.select().scan_arrow()
    }
}

impl Select<'_> {
    /// Reads the rows as Arrow record batches of 8192 rows. Only the records of the selected columns are read, and only
    /// the rows of the prefix and range.
    ///
    /// Errors: as for [`rows`](Select::rows); `Invalid` for a table with dynamic columns or repeated groups, unless
    /// columns are selected, and for a selected column of those.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{ColumnType, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("year", ColumnType::I32);
    /// let books = tables.create("library.books", schema)?;
    /// books.insert(Row::new().with("isbn", "0141439580").with("year", 1815))?;
    /// let batch = books.select().columns(["year"]).scan_arrow()?.next().unwrap()?;
    /// assert_eq!((batch.num_rows(), batch.schema().field(0).name().as_str()), (1, "year"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan_arrow(self) -> Result<ArrowScan> {
        let table = self.table();
        self.try_scan().map_err(|error| table.named(error))
    }

    fn try_scan(self) -> Result<ArrowScan> {
        let (select, schema) = self.with_schema()?;
        let columns: Vec<Column> = match select.selected() {
            None => schema.all_arrow_columns()?,
            Some(names) => names.iter().map(|name| schema.arrow_column(name)).collect::<Result<_>>()?,
        };
        let fields: Vec<Field> =
            columns.iter().map(|column| field(column.name(), column.column_type(), !column.role().is_key())).collect();
        let schema = Arc::new(arrow_schema::Schema::new(fields));
        Ok(ArrowScan { rows: select.rows()?, columns, schema, batch_rows: BATCH_ROWS, kept: Vec::new(), kept_bytes: 0 })
    }
}

impl Schema {
    fn all_arrow_columns(&self) -> Result<Vec<Column>> {
        if self.has_dynamic_columns() || self.groups().iter().any(|group| group.is_repeated()) {
            return Err(Error::invalid("the rows have dynamic columns or entries: select the columns of a batch"));
        }
        Ok(self.columns().cloned().collect())
    }

    fn arrow_column(&self, name: &str) -> Result<Column> {
        let found = self.column_named(name).ok_or_else(|| {
            Error::of(ErrorKind::NotFound, format!("a batch has columns of the schema, and {name:?} is none"))
        })?;
        match self.groups().iter().any(|group| group.is_repeated() && group.name() == self.group_of(found)) {
            true => Err(Error::invalid(format!("column {name:?} is of a repeated group, which no batch has"))),
            false => Ok(found.clone()),
        }
    }

    /// Returns the rows of a record batch as rows of a table with this schema. A value is converted if nothing is lost, as
    /// by [`Value::into_type`]; nanoseconds have to be whole microseconds.
    ///
    /// Errors: `NotFound` for an unknown column; `Invalid` for two columns of one name, and for a value that does not fit,
    /// with its column.
    pub fn rows_from_arrow(&self, batch: &RecordBatch) -> Result<Vec<Row>> {
        (0..batch.num_rows()).map(|row| self.row_from_arrow(batch, row)).collect()
    }

    /// Returns one row of a record batch: see [`rows_from_arrow`](Schema::rows_from_arrow).
    pub fn row_from_arrow(&self, batch: &RecordBatch, row: usize) -> Result<Row> {
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let name = field.name().as_str();
            let value = value(array, row, self.arrow_column(name)?.column_type());
            columns.push((name, value.map_err(|error| in_column(name, &error))?));
        }
        Row::from_columns(columns)
    }
}

/// An iterator over the record batches of a select.
///
/// Damage is an error of the row that it hits, and the iterator goes on behind it. Any other error ends it.
#[derive(Debug)]
pub struct ArrowScan {
    rows: Rows,
    columns: Vec<Column>,
    schema: SchemaRef,
    batch_rows: usize,
    /// Rows of a batch that an error has interrupted.
    kept: Vec<Row>,
    kept_bytes: usize,
}

impl ArrowScan {
    /// Returns the schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Sets the number of rows of a batch, at least one.
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> ArrowScan {
        self.batch_rows = rows.max(1);
        self
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        self.kept_bytes = 0;
        let rows = std::mem::take(&mut self.kept);
        let array = |column: &Column| {
            let values: Vec<Option<&Value>> = rows.iter().map(|row| row.get(column.name())).collect();
            array(column.column_type(), &values)
        };
        let arrays = self.columns.iter().map(array).collect::<std::result::Result<Vec<_>, _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = arrays.and_then(|arrays| RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options));
        batch.map_err(|error| Error::invalid(error.to_string()))
    }
}

impl Iterator for ArrowScan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        while self.kept.len() < self.batch_rows && self.kept_bytes < BATCH_BYTES {
            match self.rows.next() {
                Some(Ok(row)) => match row.columns().map(|(_, value)| size(value)).sum::<usize>() {
                    bytes if bytes > MOST_BYTES => return Some(Err(too_large(bytes))),
                    bytes => {
                        self.kept_bytes += bytes;
                        self.kept.push(row);
                    }
                },
                Some(Err(error)) => return Some(Err(error)),
                None if self.kept.is_empty() => return None,
                None => break,
            }
        }
        Some(self.batch())
    }
}

/// Returns the bytes that a value has beside its place in an array.
fn size(value: &Value) -> usize {
    match value {
        Value::List(values) => values.iter().map(|value| size(value) + 16).sum(),
        value => value.as_bytes().map_or(0, <[u8]>::len),
    }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    Error::invalid(format!("a row of {bytes} bytes, and a batch has at most {MOST_BYTES}"))
}
