//! Rows in and out: CSV, TSV, JSON lines.
//!
//! A loaded row is a record: its key is one field, its value is the whole row as a JSON object. A family is dumped as
//! such rows if every value is an object and one field is the key of every record. Otherwise it is dumped as plain
//! records, which can hold any bytes: in JSON lines `{"key": .., "value": ..}` as `scan --json` prints them, in CSV and
//! TSV two escaped columns `key` and `value`. Both forms can be loaded again.

mod dump;
mod load;
mod quotes;

pub(crate) use dump::dump;
pub(crate) use load::{NAMED_ROWS, csv_fault, load};
pub(crate) use quotes::Quotes;

use serde_json::Value;

use crate::format::Format;

/// The header of plain records.
const PLAIN: [&str; 2] = ["key", "value"];

fn delimiter(format: Format) -> u8 {
    if format == Format::Tsv { b'\t' } else { b',' }
}

/// Converts a field to a key: text unchanged, any other type as JSON.
fn key_text(field: &Value) -> String {
    field.as_str().map_or_else(|| field.to_string(), str::to_owned)
}
