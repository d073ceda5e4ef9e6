//! Loads rows into a family.
//!
//! A row is bad if it cannot become a record: a wrong number of fields, a quote that the file does not close, not a
//! JSON object, no key, or a key or value above its limit. By default the first bad row ends the load, and every row
//! before it is in the store. With `--skip-bad` bad rows are reported and left out; a row above the limit of a line ends
//! the load even then. With `--atomic` all rows are parsed
//! first and stored by one commit, so a failure leaves the store unchanged. With `--bulk` they are written straight into
//! tables, which one commit adds.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use csv::StringRecord;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use waxseal::{Batch, ColumnFamily, Contents, Db, Durability, Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, WriteOptions};

use super::quotes::Quotes;
use super::{PLAIN, delimiter, key_text};
use crate::args::{Args, Load};
use crate::failure::{Exit, Failure};
use crate::format::Format;
use crate::input::{Lines, read_failed, standard_input};
use crate::output::{Output, or_seen_enough};
use crate::store::{dir, find_family, open_to_fill, session};
use crate::{progress, text};

/// Maximum size of a batch of rows, in bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Number of bad rows named on standard error; the others are only counted.
pub(crate) const NAMED_ROWS: u64 = 20;

pub(crate) fn load(args: &Args, load: &Load, format: Format, output: &mut Output) -> Result<Exit, Failure> {
    let (src, options) = (load.src.as_path(), load.expiry.options()?);
    let input: Box<dyn Read> = if src == "-" {
        Box::new(standard_input()?)
    } else {
        Box::new(File::open(src).map_err(|error| Failure::io(src.display(), error))?)
    };
    let mut rows = RowLoader { skip_bad: load.skip_bad, bad: 0, bar: progress::bar("load", None, "records") };
    let read = |put: PutRow<'_>| match format {
        Format::Jsonl => load_jsonl(input, load, &mut rows, put),
        _ => load_csv(input, load, delimiter(format), &mut rows, put),
    };
    let records = match load {
        Load { bulk: true, .. } => load_in_bulk(args, options, read),
        Load { atomic: true, .. } => load_atomically(args, options, read),
        _ => load_in_batches(args, options, read),
    }?;
    let bad = rows.bad;
    rows.bar.finish_and_clear();
    let mut line = format!("loaded {}", text::counted(records, "record", "records"));
    if bad > 0 {
        line += &format!("; skipped {}", text::counted(bad, "bad row", "bad rows"));
    }
    let object = json!({ "ok": true, "records": records, "skipped": bad });
    or_seen_enough(output.line(line).and_then(|()| output.changed(&object)))?;
    Ok(Exit::Ok)
}

/// A callback for the key and value of a record.
type PutRow<'a> = &'a mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<(), Failure>;

/// Parses every row, then commits all of them at once. Returns the number of records.
fn load_atomically(
    args: &Args,
    options: WriteOptions,
    read: impl FnOnce(PutRow<'_>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut rows = Vec::new();
    let parsed = read(&mut |key, value| {
        rows.push((key, value));
        Ok(())
    });
    parsed.map_err(|failure| failure.explain("nothing was loaded").with("records", 0))?;
    let made = CreatedByLoad::before(args)?;
    let db = open_to_fill(args)?;
    let made = made.with_family(&db, args);
    let writer = session(args, &db)?;
    let (cf, mut batch) = (writer.column_family(args.cf())?, writer.batch());
    let records = rows.len() as u64;
    for (key, value) in rows {
        batch.put_with(&cf, &key, &value, options.clone());
    }
    let committed = batch.commit(Durability::Sync).map(drop);
    if committed.is_err() {
        made.undo(&db, args);
    }
    committed.map_err(|error| Failure::from(error).explain("nothing was loaded"))?;
    db.close()?;
    Ok(records)
}

/// Writes rows into tables while reading, and adds the tables in one commit. Returns the number of records; a key that
/// occurs twice counts once.
fn load_in_bulk(
    args: &Args,
    options: WriteOptions,
    read: impl FnOnce(PutRow<'_>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let made = CreatedByLoad::before(args)?;
    let db = open_to_fill(args)?;
    let made = made.with_family(&db, args);
    let (cf, mut failed) = (db.column_family(args.cf())?, None);
    let loaded = db.bulk_load_with(&cf, |load| {
        let rows = read(&mut |key, value| Ok(load.put_with(key, value, options.clone()).map(drop)?));
        rows.map_err(|failure| {
            failed = Some(failure);
            Error::invalid("the rows ended in a failure") // which takes the place of this error
        })
    });
    let loaded = loaded.map_err(|error| failed.unwrap_or_else(|| Failure::from(error)));
    if loaded.is_err() {
        made.undo(&db, args);
    }
    let loaded = loaded.map_err(|failure| failure.explain("nothing was loaded").with("records", 0))?;
    db.close()?;
    Ok(loaded.records)
}

/// Commits rows in batches while reading. A failure leaves every row before it in the store. Returns the number of
/// records.
fn load_in_batches(
    args: &Args,
    options: WriteOptions,
    read: impl FnOnce(PutRow<'_>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let made = CreatedByLoad::before(args)?;
    let db = open_to_fill(args)?;
    let made = made.with_family(&db, args);
    let writer = session(args, &db)?;
    let cf = writer.column_family(args.cf())?;
    let mut sink = Sink { cf, batch: writer.batch(), options, pending: 0, records: 0 };
    let outcome = read(&mut |key, value| sink.put(&key, &value));
    let outcome = outcome.and(sink.commit()).or_else(|failure| sink.commit().and(Err(failure)));
    let records = sink.records;
    match &outcome {
        Err(_) if records == 0 => made.undo(&db, args),
        _ => {
            db.sync()?;
            db.close()?;
        }
    }
    outcome.map_err(|failure| {
        let before = text::counted(records, "record", "records");
        let advice = format!("{before} before it {} loaded", if records == 1 { "was" } else { "were" });
        failure.explain(advice).with("records", records)
    })?;
    Ok(records)
}

/// The store and the family, as far as a load created them: a failed load that committed nothing removes them again.
#[derive(Clone, Copy)]
struct CreatedByLoad {
    store: bool,
    family: bool,
}

impl CreatedByLoad {
    fn before(args: &Args) -> Result<CreatedByLoad, Failure> {
        Ok(CreatedByLoad { store: Db::contents(dir(args)?)? == Contents::Empty, family: false })
    }

    fn with_family(self, db: &Db, args: &Args) -> CreatedByLoad {
        CreatedByLoad { family: find_family(db, args.cf()).is_none(), ..self }
    }

    /// Failures are not reported: the load has failed already, and an empty store or family does no harm.
    fn undo(self, db: &Db, args: &Args) {
        if self.family && !self.store {
            let _ = db.drop_column_family(args.cf());
        }
        let is_closed = db.close().is_ok();
        if let (true, true, Some(dir)) = (self.store, is_closed, &args.dir) {
            let _ = Db::destroy(dir);
        }
    }
}

/// The destination of loaded records.
struct Sink {
    cf: ColumnFamily,
    batch: Batch,
    options: WriteOptions,
    /// Number of records in the batch.
    pending: u64,
    /// Number of committed records.
    records: u64,
}

impl Sink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.batch.put_with(&self.cf, key, value, self.options.clone());
        self.pending += 1;
        if self.batch.bytes() >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.batch.commit(Durability::Os)?;
        self.records += std::mem::take(&mut self.pending);
        Ok(())
    }
}

/// The policy and the count for bad rows.
struct RowLoader {
    skip_bad: bool,
    bad: u64,
    bar: ProgressBar,
}

impl RowLoader {
    /// Passes on a row. A bad one is skipped, or fails the load.
    fn take(
        &mut self,
        src: &Path,
        line: u64,
        row: Result<(Vec<u8>, Vec<u8>), String>,
        put: PutRow<'_>,
    ) -> Result<(), Failure> {
        match row.and_then(within_limits) {
            Ok((key, value)) => {
                self.bar.inc(1);
                put(key, value)
            }
            Err(fault) if self.skip_bad => {
                self.bad += 1;
                match self.bad {
                    ..=NAMED_ROWS => eprintln!("waxseal: skipped {}: line {line}: {fault}", src.display()),
                    bad if bad == NAMED_ROWS + 1 => eprintln!("waxseal: further bad rows are only counted"),
                    _ => {}
                }
                Ok(())
            }
            Err(fault) => Err(Failure::usage(format!("{}: line {line}: {fault}", src.display()))),
        }
    }
}

fn within_limits((key, value): (Vec<u8>, Vec<u8>)) -> Result<(Vec<u8>, Vec<u8>), String> {
    match (key.len(), value.len()) {
        (key, _) if key > MAX_KEY_BYTES => Err(format!("the key has {key} bytes; the limit is {MAX_KEY_BYTES}")),
        (_, value) if value > MAX_VALUE_BYTES => {
            Err(format!("the value has {value} bytes; the limit is {MAX_VALUE_BYTES}"))
        }
        _ => Ok((key, value)),
    }
}

fn load_csv(
    input: Box<dyn Read>,
    load: &Load,
    delimiter: u8,
    rows: &mut RowLoader,
    put: PutRow<'_>,
) -> Result<(), Failure> {
    let src = load.src.as_path();
    let (input, in_quotes) = Quotes::new(input, delimiter);
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(input);
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            let (line, fault) = csv_fault(src.display(), error)?;
            return Err(Failure::usage(format!("{}: line {line}: {fault}", src.display())));
        }
    };
    let is_plain = load.key.is_none() && header == PLAIN[..];
    let column = match load.key.as_deref() {
        None => 0,
        Some(key) => header.iter().position(|column| column == key).ok_or_else(|| {
            Failure::usage(format!("{} has no column {key:?}, only {}", src.display(), columns(&header)))
        })?,
    };
    // A row is held back until the next one is read: a quote that the file does not close swallows all rows behind it.
    let mut last = None;
    for row in reader.records() {
        let row = match row {
            Ok(row) => {
                let line = row.position().map_or(0, csv::Position::line);
                (line, if is_plain { plain_row(&row) } else { object_row(&header, &row, column) })
            }
            Err(error) => match csv_fault(src.display(), error) {
                Ok((line, fault)) => (line, Err(fault)),
                Err(failure) => {
                    last.map_or(Ok(()), |(line, record)| rows.take(src, line, record, put))?;
                    return Err(failure);
                }
            },
        };
        if let Some((line, record)) = last.replace(row) {
            rows.take(src, line, record, put)?;
        }
    }
    let unclosed = || "a quoted field is not closed before the end of the file".to_owned();
    match last {
        Some((line, _)) if in_quotes.get() => rows.take(src, line, Err(unclosed()), put),
        Some((line, record)) => rows.take(src, line, record, put),
        None if in_quotes.get() => Err(Failure::usage(format!("{}: line 1: {}", src.display(), unclosed()))),
        None => Ok(()),
    }
}

/// Returns key and value of a row with the escaped columns `key` and `value`.
fn plain_row(row: &StringRecord) -> Result<(Vec<u8>, Vec<u8>), String> {
    match (text::unescape(&row[0]), text::unescape(&row[1])) {
        (Some(key), Some(value)) => Ok((key, value)),
        _ => Err("a wrong escape".to_owned()),
    }
}

/// Returns the field of the key column, and the row as a JSON object.
fn object_row(header: &StringRecord, row: &StringRecord, column: usize) -> Result<(Vec<u8>, Vec<u8>), String> {
    let fields = header.iter().zip(row);
    let object: Map<String, Value> = fields.map(|(column, field)| (column.to_owned(), field.into())).collect();
    Ok((row[column].as_bytes().to_vec(), Value::from(object).to_string().into_bytes()))
}

/// Returns line and fault of a bad row; fails if the source cannot be read.
pub(crate) fn csv_fault(source: impl fmt::Display, error: csv::Error) -> Result<(u64, String), Failure> {
    let line = |position: &Option<csv::Position>| position.as_ref().map_or(0, csv::Position::line);
    Ok(match error.into_kind() {
        csv::ErrorKind::Io(error) => return Err(read_failed(source, error)),
        csv::ErrorKind::Utf8 { pos, err } => (line(&pos), err.to_string()),
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            (line(&pos), format!("{len} fields instead of {expected_len}"))
        }
        kind => (0, format!("{kind:?}")),
    })
}

fn columns(header: &StringRecord) -> String {
    header.iter().collect::<Vec<_>>().join(", ")
}

fn load_jsonl(input: Box<dyn Read>, load: &Load, rows: &mut RowLoader, put: PutRow<'_>) -> Result<(), Failure> {
    let src = load.src.as_path();
    let (mut input, mut lines) = (BufReader::with_capacity(BATCH_BYTES, input), Lines::default());
    while let Some((number, line)) = lines.next(&mut input).map_err(|error| read_failed(src.display(), error))? {
        let row = line.trim_ascii();
        if !row.is_empty() {
            rows.take(src, number, json_row(row, load.key.as_deref()), put)?;
        }
    }
    Ok(())
}

/// Returns key and value of a line: a row with its key in a field, or a line of `scan --json`.
fn json_row(row: &[u8], key: Option<&str>) -> Result<(Vec<u8>, Vec<u8>), String> {
    let object: Map<String, Value> = serde_json::from_slice(row).map_err(|error| error.to_string())?;
    match (key.and_then(|key| object.get(key)), plain_record(&object)) {
        (Some(field), _) => Ok((key_text(field).into_bytes(), row.to_vec())),
        (None, Some(record)) => Ok(record),
        (None, None) => Err(match key {
            Some(key) => format!("no field {key:?}"),
            None => "no record {\"key\": .., \"value\": ..}; say which field is the key: --key COL".to_owned(),
        }),
    }
}

/// Returns key and value of a line of `scan --json`.
fn plain_record(object: &Map<String, Value>) -> Option<(Vec<u8>, Vec<u8>)> {
    if object.len() != 2 {
        return None;
    }
    Some((text::from_json(object.get("key")?)?, text::from_json(object.get("value")?)?))
}
