//! import, and insert from standard input: rows as text into a table.
//!
//! A row is bad if its text is none of the format, if a value does not fit into its column, or if the table has a row of
//! its key. Rows are committed in batches. The first bad row ends the import, after the rows before it; with
//! `--skip-bad` bad rows are reported and left out. A quote that is never closed and a row above the limit of a line end
//! the import in any case.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use csv::ByteRecord;
use indicatif::ProgressBar;
use serde_json::json;
use waxseal_table::{ErrorKind, Row, RowOptions, Schema, Value};

use super::empty_fields::{EMPTY_TEXT, EmptyFields};
use super::{OpenTable, row};
use crate::args::Args;
use crate::expiry::ExpiryArgs;
use crate::failure::{Exit, Failure};
use crate::format::TableFormat;
use crate::input::{Lines, read_failed, standard_input};
use crate::output::{Output, or_seen_enough};
use crate::rows::{NAMED_ROWS, Quotes, csv_fault};
use crate::{progress, text};

/// Greatest number of rows of a batch.
const BATCH_ROWS: usize = 1000;

/// Size of the text of a batch of rows, in bytes.
const BATCH_BYTES: usize = 1 << 20;

/// The file that is imported, and how.
pub(crate) struct Import<'a> {
    pub(crate) file: &'a Path,
    pub(crate) format: Option<TableFormat>,
    pub(crate) replace: bool,
    pub(crate) skip_bad: bool,
    pub(crate) expiry: &'a ExpiryArgs,
}

impl Import<'_> {
    /// Returns the name of the file for messages.
    fn source(&self) -> String {
        match self.file {
            file if file == "-" => "standard input".to_owned(),
            file => file.display().to_string(),
        }
    }
}

/// Reads rows as JSON lines.
pub(crate) fn from_standard_input(
    args: &Args,
    name: &str,
    replace: bool,
    expiry: &ExpiryArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let format = Some(TableFormat::Jsonl);
    import(args, name, &Import { file: Path::new("-"), format, replace, skip_bad: false, expiry }, output)
}

pub(crate) fn import(args: &Args, name: &str, import: &Import<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let options = row::row_options(import.expiry)?;
    let format = import.format.or_else(|| TableFormat::by_extension(import.file)).ok_or_else(|| {
        Failure::usage(format!("cannot tell the format of {}; say --format csv, tsv or jsonl", import.file.display()))
    })?;
    let open_file = || File::open(import.file).map_err(|error| Failure::io(import.source(), error));
    let input = match (format, import.file) {
        (TableFormat::Parquet | TableFormat::Arrow, file) if file == "-" => {
            return Err(Failure::usage("parquet and arrow are read from a file, not from standard input"));
        }
        (TableFormat::Parquet | TableFormat::Arrow, _) => Input::Batches(batches(open_file()?, format, import)?),
        (TableFormat::Jsonl, file) if file == "-" => Input::Lines(Box::new(standard_input()?)),
        (TableFormat::Jsonl, _) => Input::Lines(Box::new(open_file()?)),
        (format, file) if file == "-" => Input::Fields(Box::new(standard_input()?), format.delimiter()),
        (format, _) => Input::Fields(Box::new(open_file()?), format.delimiter()),
    };
    let open = OpenTable::to_change(args, name)?;
    let mut importer = Importer {
        open: &open,
        import,
        options,
        unit: if matches!(input, Input::Batches(_)) { "row" } else { "line" },
        batch: Vec::new(),
        bytes: 0,
        rows: 0,
        bad: 0,
        bar: progress::bar("import", None, "rows"),
    };
    let read = match input {
        Input::Lines(input) => read_jsonl(input, &mut importer),
        Input::Fields(input, delimiter) => read_csv(input, delimiter, &mut importer),
        Input::Batches(batches) => read_batches(batches, &mut importer),
    };
    let outcome = importer.commit().and(read);
    importer.bar.finish_and_clear();
    let (rows, bad) = (importer.rows, importer.bad);
    open.db.sync()?;
    open.db.close()?;
    outcome.map_err(|failure| {
        let before = text::counted(rows, "row", "rows");
        let advice = format!("{before} before it {} imported", if rows == 1 { "was" } else { "were" });
        failure.explain(advice).with("rows", rows)
    })?;
    let mut line = format!("imported {}", text::counted(rows, "row", "rows"));
    if bad > 0 {
        line += &format!("; skipped {}", text::counted(bad, "bad row", "bad rows"));
    }
    let object = json!({ "ok": true, "rows": rows, "skipped": bad });
    or_seen_enough(output.line(line).and_then(|()| output.changed(&object)))?;
    Ok(Exit::Ok)
}

/// The opened file.
enum Input {
    Lines(Box<dyn Read>),
    Fields(Box<dyn Read>, u8),
    Batches(Batches),
}

#[cfg(feature = "arrow")]
type Batches = super::batches::BatchReader;

#[cfg(not(feature = "arrow"))]
type Batches = std::convert::Infallible;

#[cfg(feature = "arrow")]
fn batches(file: File, format: TableFormat, import: &Import<'_>) -> Result<Batches, Failure> {
    super::batches::read(file, format).map_err(|fault| Failure::usage(format!("{}: {fault}", import.source())))
}

#[cfg(not(feature = "arrow"))]
fn batches(_: File, _: TableFormat, _: &Import<'_>) -> Result<Batches, Failure> {
    Err(super::no_batches())
}

#[cfg(feature = "arrow")]
fn read_batches(batches: Batches, importer: &mut Importer<'_>) -> Result<(), Failure> {
    let mut number = 0;
    for batch in batches {
        let batch = batch
            .map_err(|fault| Failure::usage(format!("{}: behind row {number}: {fault}", importer.import.source())))?;
        let bytes = batch.get_array_memory_size() / batch.num_rows().max(1);
        for row in 0..batch.num_rows() {
            number += 1;
            let row = importer.open.schema.row_from_arrow(&batch, row).map_err(|error| error.to_string());
            importer.take(number, bytes, row)?;
        }
    }
    Ok(())
}

#[cfg(not(feature = "arrow"))]
fn read_batches(batches: Batches, _: &mut Importer<'_>) -> Result<(), Failure> {
    match batches {}
}

/// Collects rows, and commits them in batches.
struct Importer<'a> {
    open: &'a OpenTable,
    import: &'a Import<'a>,
    options: RowOptions,
    /// The word for a place in the file: `line`, or `row` in a file without lines.
    unit: &'static str,
    /// Rows and faults, with their lines.
    batch: Vec<(u64, Result<Row, String>)>,
    /// Size of the text of the batch.
    bytes: usize,
    /// Number of committed rows.
    rows: u64,
    bad: u64,
    bar: ProgressBar,
}

impl Importer<'_> {
    /// Adds a row, whose text has a size. A bad one is skipped, or ends the import.
    fn take(&mut self, line: u64, bytes: usize, row: Result<Row, String>) -> Result<(), Failure> {
        let is_last = row.is_err() && !self.import.skip_bad;
        self.batch.push((line, row));
        self.bytes += bytes;
        let is_full = self.batch.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES;
        if is_full || is_last { self.commit() } else { Ok(()) }
    }

    fn fault(&mut self, line: u64, fault: &str) -> Result<(), Failure> {
        let (file, unit) = (self.import.source(), self.unit);
        if !self.import.skip_bad {
            return Err(Failure::usage(format!("{file}: {unit} {line}: {fault}")));
        }
        self.bad += 1;
        match self.bad {
            ..=NAMED_ROWS => eprintln!("waxseal: skipped {file}: {unit} {line}: {fault}"),
            bad if bad == NAMED_ROWS + 1 => eprintln!("waxseal: further bad rows are only counted"),
            _ => {}
        }
        Ok(())
    }

    /// Commits the batch, up to its first bad row unless bad rows are skipped.
    fn commit(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let (table, import) = (&self.open.table, self.import);
        let (rows, faults) = self.open.tables.transact(|transaction| {
            let (mut rows, mut faults) = (0, Vec::new());
            for (line, row) in &batch {
                let written = match (row, import.replace) {
                    (Err(fault), _) => Err(fault.clone()),
                    (Ok(row), true) => of_row(transaction.upsert_with(table, row.clone(), self.options.clone()))?,
                    (Ok(row), false) => of_row(transaction.insert_with(table, row.clone(), self.options.clone()))?,
                };
                match written {
                    Ok(()) => rows += 1,
                    Err(fault) => {
                        faults.push((*line, fault));
                        if !import.skip_bad {
                            break;
                        }
                    }
                }
            }
            Ok((rows, faults))
        })?;
        self.rows += rows;
        self.bar.inc(rows);
        faults.iter().try_for_each(|(line, fault)| self.fault(*line, fault))
    }
}

/// Separates what is wrong with a row from errors that the next row has, too.
fn of_row(written: waxseal_table::Result<()>) -> waxseal_table::Result<Result<(), String>> {
    match written {
        Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::Invalid | ErrorKind::NotFound) => {
            Ok(Err(error.to_string()))
        }
        written => written.map(Ok),
    }
}

fn read_jsonl(input: Box<dyn Read>, importer: &mut Importer<'_>) -> Result<(), Failure> {
    let source = importer.import.source();
    let (mut input, mut lines) = (BufReader::with_capacity(BATCH_BYTES, input), Lines::default());
    while let Some((number, line)) = lines.next(&mut input).map_err(|error| read_failed(&source, error))? {
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let row = match std::str::from_utf8(text) {
            Ok(text) => importer.open.schema.row_from_json(text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        importer.take(number, text.len(), row)?;
    }
    Ok(())
}

fn read_csv(input: Box<dyn Read>, delimiter: u8, importer: &mut Importer<'_>) -> Result<(), Failure> {
    let source = importer.import.source();
    let failed = |line: u64, fault: String| Failure::usage(format!("{source}: line {line}: {fault}"));
    let unclosed = || "a quoted field is not closed before the end of the file".to_owned();
    let (input, in_quotes) = Quotes::new(input, delimiter);
    let input = EmptyFields::new(input, delimiter);
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(input);
    let header = match reader.byte_headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            let (line, fault) = csv_fault(&source, error)?;
            return Err(failed(line, fault));
        }
    };
    let columns = columns_of(&importer.open.schema, &header).map_err(|fault| failed(1, fault))?;
    // A row is held back until the next one is read: a quote that the file does not close swallows all rows behind it.
    // It is no bad row to skip, because the number of hidden rows is unknown.
    let mut last: Option<(u64, usize, Result<Row, String>)> = None;
    for record in reader.byte_records() {
        let row = match record {
            Ok(record) => {
                let line = record.position().map_or(0, csv::Position::line);
                (line, record.as_slice().len(), csv_row(&importer.open.schema, &columns, &record))
            }
            Err(error) => match csv_fault(&source, error) {
                Ok((line, fault)) => (line, 0, Err(fault)),
                Err(failure) => {
                    last.map_or(Ok(()), |(line, bytes, row)| importer.take(line, bytes, row))?;
                    return Err(failure);
                }
            },
        };
        if let Some((line, bytes, row)) = last.replace(row) {
            importer.take(line, bytes, row)?;
        }
    }
    match last {
        Some((line, ..)) if in_quotes.get() => Err(failed(line, unclosed())),
        Some((line, bytes, row)) => importer.take(line, bytes, row),
        None if in_quotes.get() => Err(failed(1, unclosed())),
        None => Ok(()),
    }
}

/// Returns the names of the columns of a header. Fails for columns that the table does not have, and without a column of
/// the key.
fn columns_of(schema: &Schema, header: &ByteRecord) -> Result<Vec<String>, String> {
    let mut columns: Vec<String> = Vec::with_capacity(header.len());
    for name in header {
        let name = std::str::from_utf8(name).map_err(|_| "the header has a name that is no UTF-8 text".to_owned())?;
        let is_known = schema.has_dynamic_columns() || schema.columns().any(|column| column.name() == name);
        match columns.iter().any(|other| other == name) {
            true => return Err(format!("the header has {name:?} twice")),
            false if !is_known => return Err(format!("the table has no column {name:?}")),
            false => columns.push(name.to_owned()),
        }
    }
    match schema.key_columns().find(|column| !columns.iter().any(|name| name == column.name())) {
        Some(column) => Err(format!("the header lacks the column {:?} of the key", column.name())),
        None => Ok(columns),
    }
}

fn csv_row(schema: &Schema, columns: &[String], record: &ByteRecord) -> Result<Row, String> {
    let mut row = Vec::with_capacity(columns.len());
    for (name, field) in columns.iter().zip(record) {
        let value = match field {
            b"" => Value::Null,
            EMPTY_TEXT => schema.parse_value(name, "").map_err(|error| error.to_string())?,
            field => {
                let field = std::str::from_utf8(field).map_err(|_| format!("column {name:?}: not UTF-8 text"))?;
                schema.parse_value(name, field).map_err(|error| error.to_string())?
            }
        };
        row.push((name.as_str(), value));
    }
    Row::from_columns(row).map_err(|error| error.to_string())
}
