//! export: the rows of a table as text, which `import` reads.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rustix::fs::Mode;
use serde_json::json;
use waxseal_table::{Row, Rows, Schema, Select, Value};

use super::OpenTable;
use crate::args::Args;
use crate::damage::Damaged;
use crate::failure::{Exit, Failure};
use crate::files::location::directory_of;
use crate::files::{Unnamed, remove_stale};
use crate::format::TableFormat;
use crate::output::Output;
use crate::{progress, text};

/// Size of the output buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// A file appears under its name when its data is durable, so that the table may be dropped once the verb has returned.
/// Damaged rows are left out, with exit code 3.
pub(crate) fn export(
    args: &Args,
    name: &str,
    file: Option<&Path>,
    format: Option<TableFormat>,
    columns: &[String],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let file = file.filter(|file| *file != "-");
    let format = format.or_else(|| TableFormat::by_extension(file?)).unwrap_or(TableFormat::Jsonl);
    let open = OpenTable::to_read(args, name)?;
    let select = if columns.is_empty() { open.table.select() } else { open.table.select().columns(columns) };
    let source = match format {
        TableFormat::Parquet | TableFormat::Arrow => ExportSource::Batches(batches(select)?, format),
        TableFormat::Jsonl => ExportSource::Lines(select.rows()?),
        format => ExportSource::Fields(select.rows()?, csv_columns(&open.schema, columns)?, format.delimiter()),
    };
    let mut damaged = Damaged::default();
    let write = |out: &mut (dyn Write + Send)| -> Result<u64, Failure> {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        let rows = match source {
            ExportSource::Lines(rows) => {
                each(rows, &mut damaged, |row| writeln!(out, "{}", open.schema.row_to_json(row)))
            }
            ExportSource::Fields(rows, columns, delimiter) => {
                write_csv(rows, &mut damaged, &columns, delimiter, &mut out)
            }
            ExportSource::Batches(scan, format) => write_batches(scan, format, &mut damaged, &mut out),
        }?;
        out.flush().map_err(|error| Failure::io("export", error))?;
        Ok(rows)
    };
    let rows = match file {
        None => write(&mut io::stdout())?,
        Some(file) => {
            let failed = |error: io::Error| Failure::io(file.display(), error);
            let (directory, file_name) = place(file).map_err(failed)?;
            let copy = directory.try_clone().map_err(failed)?;
            let unnamed = Unnamed::create(copy.into(), Mode::from_raw_mode(0o666)).map_err(failed)?;
            let rows = write(&mut unnamed.file())?;
            unnamed.file().sync_all().map_err(failed)?;
            unnamed.name_new(file_name).map_err(failed)?;
            directory.sync_all().map_err(failed)?;
            output.line(format!("exported {}", text::counted(rows, "row", "rows")))?;
            rows
        }
    };
    let around = format!("the {} around were exported", text::counted(rows, "row", "rows"));
    let exit = damaged.outcome(&around).map_err(|failure| failure.with("rows", rows))?;
    if file.is_some() {
        output.object(&json!({ "ok": true, "rows": rows }))?;
    }
    Ok(exit)
}

/// The rows that are exported, in the form that the format needs.
enum ExportSource {
    Lines(Rows),
    Fields(Rows, Vec<String>, u8),
    Batches(Scan, TableFormat),
}

#[cfg(feature = "arrow")]
type Scan = waxseal_table::ArrowScan;

#[cfg(not(feature = "arrow"))]
type Scan = std::convert::Infallible;

#[cfg(feature = "arrow")]
fn batches(select: Select<'_>) -> Result<Scan, Failure> {
    Ok(select.scan_arrow()?)
}

#[cfg(not(feature = "arrow"))]
fn batches(_: Select<'_>) -> Result<Scan, Failure> {
    Err(super::no_batches())
}

#[cfg(feature = "arrow")]
fn write_batches(
    scan: Scan,
    format: TableFormat,
    damaged: &mut Damaged,
    out: &mut (impl Write + Send),
) -> Result<u64, Failure> {
    super::batches::write(scan, format, damaged, out)
}

#[cfg(not(feature = "arrow"))]
fn write_batches(scan: Scan, _: TableFormat, _: &mut Damaged, _: &mut impl Write) -> Result<u64, Failure> {
    match scan {}
}

/// Returns the directory of a new file, and its name there. Fails early if the file exists. Removes what exports that were
/// killed have left in the directory.
fn place(file: &Path) -> io::Result<(File, &OsStr)> {
    if file.symlink_metadata().is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists"));
    }
    let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let directory = File::open(directory_of(file))?;
    remove_stale(&directory)?;
    Ok((directory, name))
}

/// Returns the columns of a delimited file. Fails for a table whose rows have more than columns, unless columns are
/// chosen.
fn csv_columns(schema: &Schema, wanted: &[String]) -> Result<Vec<String>, Failure> {
    let has_more = schema.has_dynamic_columns() || schema.groups().iter().any(|group| group.is_repeated());
    if wanted.is_empty() && has_more {
        return Err(Failure::usage(
            "the rows have dynamic columns or entries, which a line of fields cannot hold: use --format jsonl, or name \
             columns of the schema with --columns",
        ));
    }
    let columns: Vec<String> = match wanted {
        [] => schema.columns().map(|column| column.name().to_owned()).collect(),
        wanted => wanted.to_vec(),
    };
    for name in &columns {
        let Some(column) = schema.columns().find(|column| column.name() == name) else {
            return Err(match schema.has_dynamic_columns() {
                true => Failure::usage(format!(
                    "column {name:?} is not in the schema: dynamic columns are exported with --format jsonl alone"
                )),
                false => Failure::not_found(format!("the table has no column {name:?}")),
            });
        };
        let group = schema.group_of(column);
        if schema.groups().iter().any(|own| own.is_repeated() && own.name() == group) {
            return Err(Failure::usage(format!(
                "column {name:?} is of the repeated group {group:?}: use --format jsonl"
            )));
        }
        if columns.len() == 1 && !column.role().is_key() {
            return Err(Failure::usage(format!(
                "a line of the column {name:?} alone cannot hold a null: add a column of the key"
            )));
        }
    }
    Ok(columns)
}

fn write_csv(
    rows: Rows,
    damaged: &mut Damaged,
    columns: &[String],
    delimiter: u8,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let names = columns.iter().map(|name| Some(name.as_str()));
    write_fields(out, names, delimiter).map_err(|error| Failure::io("export", error))?;
    each(rows, damaged, |row| {
        let values: Vec<Option<String>> = columns.iter().map(|name| row.get(name).map(Value::to_string)).collect();
        write_fields(out, values.iter().map(Option::as_deref), delimiter)
    })
}

/// Writes a line of fields. The `csv` crate writes an empty text and a null alike.
fn write_fields<'a>(
    out: &mut impl Write,
    fields: impl Iterator<Item = Option<&'a str>>,
    delimiter: u8,
) -> io::Result<()> {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.write_all(&[delimiter])?;
        }
        match field {
            None => {}
            Some(field) if field.is_empty() || field.contains([char::from(delimiter), '"', '\n', '\r']) => {
                write!(out, "\"{}\"", field.replace('"', "\"\""))?;
            }
            Some(field) => out.write_all(field.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

/// Passes on every readable row. Returns their number.
fn each(rows: Rows, damaged: &mut Damaged, mut write: impl FnMut(&Row) -> io::Result<()>) -> Result<u64, Failure> {
    let mut count = 0;
    let bar = progress::bar("export", None, "rows");
    for row in rows {
        match row {
            Ok(row) => {
                write(&row).map_err(|error| Failure::io("export", error))?;
                count += 1;
                bar.inc(1);
            }
            Err(error) => damaged.note(error)?,
        }
    }
    bar.finish_and_clear();
    Ok(count)
}
