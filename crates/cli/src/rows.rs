//! Rows in and out: CSV, TSV, JSON lines.
//!
//! A loaded row is a record: the field that is its key, to the whole row as a JSON object. A family dumps as such rows if each
//! of its values is an object and one field is the key of every record; else as plain records, which any bytes can be:
//! in JSON lines `{"key": .., "value": ..}` as `scan --json` prints them, in CSV and TSV two columns `key` and `value`, escaped.
//! Both forms load again.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use csv::StringRecord;
use serde_json::{Map, Value, json};
use waxseal::{Batch, ColumnFamily, Durability, Snapshot};

use crate::args::{Args, Format};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{existing_family, open_to_fill, open_to_read, session};
use crate::{progress, text};

/// Rows are committed together up to this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// The header of plain records.
const PLAIN: [&str; 2] = ["key", "value"];

fn delimiter(format: Format) -> u8 {
    if format == Format::Tsv { b'\t' } else { b',' }
}

pub(crate) fn load(
    args: &Args,
    src: &Path,
    format: Format,
    key: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let input: Box<dyn Read> = if src == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(src).map_err(|error| Failure::io(src.display(), error))?)
    };
    let db = open_to_fill(args)?;
    let bar = progress::bar("load", None);
    let writer = session(args, &db)?;
    let mut sink = Sink { cf: writer.column_family(&args.cf)?, batch: writer.batch(), records: 0 };
    match format {
        Format::Jsonl => load_jsonl(input, src, key, &mut sink)?,
        _ => load_csv(input, src, delimiter(format), key, &mut sink)?,
    }
    sink.batch.commit(Durability::Os)?;
    db.sync()?;
    db.close()?;
    bar.finish_and_clear();
    output.line(format!("loaded {}", text::counted(sink.records, "record", "records")))?;
    output.object(&json!({ "ok": true, "records": sink.records }))?;
    Ok(Exit::Ok)
}

/// Where loaded records go.
struct Sink {
    cf: ColumnFamily,
    batch: Batch,
    records: u64,
}

impl Sink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.batch.put(&self.cf, key, value);
        self.records += 1;
        if self.batch.bytes() >= BATCH_BYTES {
            self.batch.commit(Durability::Os)?;
        }
        Ok(())
    }
}

fn load_csv(
    input: Box<dyn Read>,
    src: &Path,
    delimiter: u8,
    key: Option<&str>,
    sink: &mut Sink,
) -> Result<(), Failure> {
    let unreadable = |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::io(src.display(), error),
        kind => Failure::usage(format!("{}: {}", src.display(), csv_fault(&kind))),
    };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(input);
    let header = reader.headers().map_err(unreadable)?.clone();
    let is_plain = key.is_none() && header == PLAIN[..];
    let column = match key {
        None => 0,
        Some(key) => header.iter().position(|column| column == key).ok_or_else(|| {
            Failure::usage(format!("{} has no column {key:?}, only {}", src.display(), columns(&header)))
        })?,
    };
    for row in reader.records() {
        let row = row.map_err(unreadable)?;
        if is_plain {
            let (key, value) = (text::unescape(&row[0]), text::unescape(&row[1]));
            let (Some(key), Some(value)) = (key, value) else {
                return Err(at_line(src, row.position().map_or(0, csv::Position::line), "a wrong escape"));
            };
            sink.put(&key, &value)?;
        } else {
            let object: Map<String, Value> =
                header.iter().zip(&row).map(|(column, field)| (column.to_owned(), field.into())).collect();
            sink.put(row[column].as_bytes(), Value::from(object).to_string().as_bytes())?;
        }
    }
    Ok(())
}

fn csv_fault(kind: &csv::ErrorKind) -> String {
    let line = |position: &Option<csv::Position>| position.as_ref().map_or(0, csv::Position::line);
    match kind {
        csv::ErrorKind::Utf8 { pos, err } => format!("line {}: {err}", line(pos)),
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            format!("line {}: {len} fields instead of {expected_len}", line(pos))
        }
        kind => format!("{kind:?}"),
    }
}

fn columns(header: &StringRecord) -> String {
    header.iter().collect::<Vec<_>>().join(", ")
}

fn load_jsonl(input: Box<dyn Read>, src: &Path, key: Option<&str>, sink: &mut Sink) -> Result<(), Failure> {
    let mut lines = BufReader::with_capacity(BATCH_BYTES, input);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(|error| Failure::io(src.display(), error))? == 0 {
            break;
        }
        let row = line.trim_ascii();
        if row.is_empty() {
            continue;
        }
        let object: Map<String, Value> =
            serde_json::from_slice(row).map_err(|error| at_line(src, number, &error.to_string()))?;
        match (key.and_then(|key| object.get(key)), plain_record(&object)) {
            (Some(field), _) => sink.put(key_text(field).as_bytes(), row)?,
            (None, Some((key, value))) => sink.put(&key, &value)?,
            (None, None) => {
                let fault = match key {
                    Some(key) => format!("no field {key:?}"),
                    None => "no record {\"key\": .., \"value\": ..}; say which field is the key: --key COL".to_owned(),
                };
                return Err(at_line(src, number, &fault));
            }
        }
    }
    Ok(())
}

fn at_line(src: &Path, line: u64, fault: &str) -> Failure {
    Failure::usage(format!("{}: line {line}: {fault}", src.display()))
}

/// Key and value of a line that `scan --json` printed.
fn plain_record(object: &Map<String, Value>) -> Option<(Vec<u8>, Vec<u8>)> {
    if object.len() != 2 {
        return None;
    }
    Some((text::from_json(object.get("key")?)?, text::from_json(object.get("value")?)?))
}

/// A field as a key: text as it is, anything else as JSON.
fn key_text(field: &Value) -> String {
    field.as_str().map_or_else(|| field.to_string(), str::to_owned)
}

pub(crate) fn dump(args: &Args, dest: &Path, format: Format, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let cf = existing_family(&db, &args.cf)?;
    let at = db.snapshot();
    let shape = Shape::of(&at, &cf)?;
    let to_stdout = dest == "-";
    let out: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        Box::new(File::create_new(dest).map_err(|error| Failure::io(dest.display(), error))?)
    };
    let mut out = BufWriter::with_capacity(BATCH_BYTES, out);
    let is_jsonl = format == Format::Jsonl;
    let key_column = shape.key_column(is_jsonl);
    let records = match is_jsonl {
        true => dump_jsonl(&at, &cf, key_column.is_some(), output, &mut out),
        false => dump_csv(&at, &cf, key_column.and(shape.columns.as_deref()), delimiter(format), &mut out),
    }?;
    out.flush().map_err(|error| Failure::io(dest.display(), error))?;
    if !to_stdout {
        let by = key_column.map(|column| format!("; the key is {column:?}")).unwrap_or_default();
        output.line(format!("dumped {}{by}", text::counted(records, "record", "records")))?;
        output.object(&json!({ "ok": true, "records": records, "key": key_column }))?;
    }
    Ok(Exit::Ok)
}

/// What the records of a family have in common.
#[derive(Debug, Default)]
struct Shape {
    /// Fields that are the key of every record, if every value is an object on one line.
    keys: Option<Vec<String>>,
    /// The fields of every record, in order, if they are the same and all text.
    columns: Option<Vec<String>>,
}

impl Shape {
    fn of(at: &Snapshot, cf: &ColumnFamily) -> Result<Shape, Failure> {
        let mut shape = Shape::default();
        let mut is_first = true;
        let mut cursor = at.cursor(cf);
        cursor.first()?;
        while cursor.valid() {
            let object = serde_json::from_slice::<Map<String, Value>>(cursor.value());
            let object = object.ok().filter(|_| !cursor.value().contains(&b'\n'));
            shape.narrow(cursor.key(), object.as_ref(), is_first);
            if shape.keys.is_none() {
                break;
            }
            is_first = false;
            cursor.next()?;
        }
        Ok(shape)
    }

    /// Keeps what holds for one more record too.
    fn narrow(&mut self, key: &[u8], object: Option<&Map<String, Value>>, is_first: bool) {
        let Some(object) = object else {
            *self = Shape::default();
            return;
        };
        let is_key = |column: &String| object.get(column).is_some_and(|field| key_text(field).as_bytes() == key);
        if is_first {
            self.keys = Some(object.keys().filter(|column| is_key(column)).cloned().collect());
            self.columns = Some(object.keys().cloned().collect());
        } else if let Some(keys) = &mut self.keys {
            keys.retain(is_key);
        }
        if self.keys.as_ref().is_some_and(Vec::is_empty) {
            self.keys = None;
        }
        let is_text = object.values().all(Value::is_string);
        if !is_text || self.columns.as_ref().is_some_and(|columns| !columns.iter().eq(object.keys())) {
            self.columns = None;
        }
    }

    /// The field that is the key, if the family can be written as rows.
    fn key_column(&self, is_jsonl: bool) -> Option<&str> {
        let keys = self.keys.as_ref()?;
        (is_jsonl || self.columns.is_some()).then(|| keys.first().map(String::as_str)).flatten()
    }
}

fn dump_jsonl(
    at: &Snapshot,
    cf: &ColumnFamily,
    as_rows: bool,
    output: &Output,
    out: &mut dyn Write,
) -> Result<u64, Failure> {
    each(at, cf, |key, value| match as_rows {
        true => out.write_all(value).and_then(|()| out.write_all(b"\n")),
        false => writeln!(out, "{}", json!({ "key": output.to_json(key), "value": output.to_json(value) })),
    })
}

fn dump_csv(
    at: &Snapshot,
    cf: &ColumnFamily,
    columns: Option<&[String]>,
    delimiter: u8,
    out: &mut dyn Write,
) -> Result<u64, Failure> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
    let header = match columns {
        Some(columns) => writer.write_record(columns),
        None => writer.write_record(PLAIN),
    };
    header.map_err(|error| Failure::io("dump", error.into()))?;
    let records = each(at, cf, |key, value| {
        let written = match columns {
            None => writer.write_record([text::escape(key), text::escape(value)]),
            Some(_) => {
                let object: Map<String, Value> = serde_json::from_slice(value)?;
                writer.write_record(object.values().map(|field| field.as_str().unwrap_or_default()))
            }
        };
        written.map_err(io::Error::from)
    })?;
    writer.flush().map_err(|error| Failure::io("dump", error))?;
    Ok(records)
}

fn each(
    at: &Snapshot,
    cf: &ColumnFamily,
    mut write: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
) -> Result<u64, Failure> {
    let mut records = 0;
    let mut cursor = at.cursor(cf);
    cursor.first()?;
    while cursor.valid() {
        write(cursor.key(), cursor.value()).map_err(|error| Failure::io("dump", error))?;
        records += 1;
        cursor.next()?;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(records: &[(&str, &str)]) -> Shape {
        let mut shape = Shape::default();
        for (at, (key, value)) in records.iter().enumerate() {
            let object = serde_json::from_str::<Map<String, Value>>(value).ok();
            shape.narrow(key.as_bytes(), object.as_ref(), at == 0);
        }
        shape
    }

    #[test]
    fn the_field_that_is_always_the_key_is_found() {
        let rows = shape(&[("1", r#"{"a":"1","id":"1"}"#), ("2", r#"{"a":"1","id":"2"}"#)]);
        assert_eq!((rows.key_column(true), rows.key_column(false)), (Some("id"), Some("id")));
    }

    #[test]
    fn rows_that_csv_cannot_hold_are_rows_of_json_only() {
        let numbers = shape(&[("1", r#"{"id":1}"#)]);
        assert_eq!((numbers.key_column(true), numbers.key_column(false)), (Some("id"), None));
        let ragged = shape(&[("1", r#"{"id":"1"}"#), ("2", r#"{"id":"2","b":""}"#)]);
        assert_eq!((ragged.key_column(true), ragged.key_column(false)), (Some("id"), None));
    }

    #[test]
    fn anything_else_is_plain() {
        for records in [&[("1", r#"{"id":"2"}"#)][..], &[("1", r#"{"id":"1"}"#), ("2", "text")], &[("1", "[1]")], &[]] {
            assert_eq!(shape(records).key_column(true), None);
        }
    }
}
