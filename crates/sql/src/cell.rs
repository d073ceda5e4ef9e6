//! Values of results.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use waxseal_table::Value;

use crate::error::{Error, Result};

/// Returns a value of a batch, by its column and row. A value of a type that no column of a table has, an interval for
/// instance, becomes text.
pub fn display_cell(batch: &RecordBatch, column: usize, row: usize) -> Result<Value> {
    let (schema, array) = (batch.schema_ref(), batch.column(column));
    if let Ok(value) = Value::from_arrow(schema.field(column), array, row) {
        return Ok(value);
    }
    let format = FormatOptions::default();
    let text = ArrayFormatter::try_new(array, &format).and_then(|shown| shown.value(row).try_to_string());
    text.map(Value::Text).map_err(|error| Error::Query(error.to_string()))
}
