//! Writes a family as rows.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use waxseal::{ColumnFamily, Snapshot};

use super::{PLAIN, delimiter, key_text};
use crate::args::Args;
use crate::damage::Damaged;
use crate::failure::{Exit, Failure};
use crate::format::Format;
use crate::output::Output;
use crate::store::{existing_family, open_to_read};
use crate::{progress, text};

/// Size of the output buffer.
const BUFFER_BYTES: usize = 1 << 20;

pub(crate) fn dump(args: &Args, dest: &Path, format: Format, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let cf = existing_family(&db, args.cf())?;
    let at = db.snapshot();
    let shape = DumpShape::of(&at, &cf)?;
    let to_stdout = dest == "-";
    let out: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        Box::new(File::create_new(dest).map_err(|error| Failure::io(dest.display(), error))?)
    };
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let is_jsonl = format == Format::Jsonl;
    let key_column = shape.key_column(is_jsonl);
    let mut damaged = Damaged::default();
    let records = match is_jsonl {
        true => dump_jsonl((&at, &cf), &mut damaged, key_column.is_some(), output, &mut out),
        false => {
            dump_csv((&at, &cf), &mut damaged, key_column.and(shape.columns.as_deref()), delimiter(format), &mut out)
        }
    }?;
    out.flush().map_err(|error| Failure::io(dest.display(), error))?;
    if !to_stdout {
        let by = key_column.map(|column| format!("; the key is {column:?}")).unwrap_or_default();
        output.line(format!("dumped {}{by}", text::counted(records, "record", "records")))?;
    }
    let around = format!("the {} around were dumped", text::counted(records, "record", "records"));
    let exit = damaged.outcome(&around).map_err(|failure| failure.with("records", records))?;
    if !to_stdout {
        output.object(&json!({ "ok": true, "records": records, "key": key_column }))?;
    }
    Ok(exit)
}

/// The common structure of a family's records.
#[derive(Debug, Default)]
struct DumpShape {
    /// The fields that equal the key in every record, if every value is a JSON object on one line.
    keys: Option<Vec<String>>,
    /// The ordered field names of every record, if they are all the same and all values are text.
    columns: Option<Vec<String>>,
}

impl DumpShape {
    /// Damaged places are left out; the dump itself reports them.
    fn of(at: &Snapshot, cf: &ColumnFamily) -> Result<DumpShape, Failure> {
        let mut shape = DumpShape::default();
        let mut is_first = true;
        for row in at.iter(cf) {
            let (key, value) = match row {
                Err(error) if error.is_corruption() => continue,
                row => row?,
            };
            let object = object_of(&value).map_err(|error| Failure::io("dump", error))?;
            let object = object.filter(|_| !value.contains(&b'\n'));
            shape.narrow(&key, object.as_ref(), is_first);
            if shape.keys.is_none() {
                break;
            }
            is_first = false;
        }
        Ok(shape)
    }

    /// Restricts the structure to what the next record shares.
    fn narrow(&mut self, key: &[u8], object: Option<&Map<String, Value>>, is_first: bool) {
        let Some(object) = object else {
            *self = DumpShape::default();
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

    /// Returns the field that holds the key, if the family can be written as rows.
    fn key_column(&self, is_jsonl: bool) -> Option<&str> {
        let keys = self.keys.as_ref()?;
        (is_jsonl || self.columns.is_some()).then(|| keys.first().map(String::as_str)).flatten()
    }
}

/// Reads a value as a JSON object; returns `None` for any other value. Returns `OutOfMemory` if the memory for the
/// fields and the parser's buffer is not available, each as long as the value.
fn object_of(value: &[u8]) -> io::Result<Option<Map<String, Value>>> {
    if value.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(2 * value.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
    drop(std::hint::black_box(room)); // otherwise the compiler may remove the request and assume its success
    Ok(serde_json::from_slice(value).ok())
}

fn dump_jsonl(
    family: (&Snapshot, &ColumnFamily),
    damaged: &mut Damaged,
    as_rows: bool,
    output: &Output,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    each(family, damaged, |key, value| match as_rows {
        true => out.write_all(value).and_then(|()| out.write_all(b"\n")),
        false => text::write_json_row(out, (key, Some(value)), output.hex).and_then(|()| out.write_all(b"}\n")),
    })
}

fn dump_csv(
    family: (&Snapshot, &ColumnFamily),
    damaged: &mut Damaged,
    columns: Option<&[String]>,
    delimiter: u8,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
    let header = match columns {
        Some(columns) => writer.write_record(columns),
        None => writer.write_record(PLAIN),
    };
    header.map_err(|error| Failure::io("dump", io_error(error)))?;
    let (mut key_text, mut value_text) = (String::new(), String::new());
    let records = each(family, damaged, |key, value| {
        let written = match columns {
            None => {
                text::escape_into(&mut key_text, key)?;
                text::escape_into(&mut value_text, value)?;
                writer.write_record([&key_text, &value_text])
            }
            Some(_) => {
                let object = object_of(value)?.ok_or(io::ErrorKind::InvalidData)?;
                writer.write_record(object.values().map(|field| field.as_str().unwrap_or_default()))
            }
        };
        written.map_err(io_error)
    })?;
    writer.flush().map_err(|error| Failure::io("dump", error))?;
    Ok(records)
}

/// Extracts the underlying I/O error. The library's own conversion loses its kind, which identifies a closed pipe.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// Passes on every readable record. Returns their number.
fn each(
    (at, cf): (&Snapshot, &ColumnFamily),
    damaged: &mut Damaged,
    mut write: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
) -> Result<u64, Failure> {
    let mut records = 0;
    let bar = progress::bar("dump", None, "records");
    for row in at.iter(cf) {
        match row {
            Ok((key, value)) => {
                write(&key, &value).map_err(|error| Failure::io("dump", error))?;
                records += 1;
                bar.inc(1);
            }
            Err(error) => damaged.note(error)?,
        }
    }
    bar.finish_and_clear();
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(records: &[(&str, &str)]) -> DumpShape {
        let mut shape = DumpShape::default();
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
