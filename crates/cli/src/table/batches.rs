//! Files of record batches: Parquet and Arrow IPC.

use std::fs::File;
use std::io::{self, Write};

use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use waxseal_table::{ArrowScan, RecordBatch};

use crate::damage::Damaged;
use crate::failure::Failure;
use crate::format::TableFormat;
use crate::progress;

/// The batches of a file.
pub(super) enum BatchReader {
    Parquet(ParquetRecordBatchReader),
    Arrow(Box<FileReader<File>>),
}

/// Opens a file of batches. Returns what is wrong with it otherwise.
pub(super) fn read(file: File, format: TableFormat) -> Result<BatchReader, String> {
    match format {
        TableFormat::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| error.to_string())?;
            Ok(BatchReader::Parquet(builder.build().map_err(|error| error.to_string())?))
        }
        _ => Ok(BatchReader::Arrow(Box::new(FileReader::try_new(file, None).map_err(|error| error.to_string())?))),
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, String>;

    fn next(&mut self) -> Option<Result<RecordBatch, String>> {
        let next = match self {
            BatchReader::Parquet(reader) => reader.next()?,
            BatchReader::Arrow(reader) => reader.next()?,
        };
        Some(next.map_err(|error| error.to_string()))
    }
}

/// Writes the batches of a scan. Returns the number of rows.
pub(super) fn write(
    scan: ArrowScan,
    format: TableFormat,
    damaged: &mut Damaged,
    out: &mut (impl Write + Send),
) -> Result<u64, Failure> {
    let schema = scan.schema();
    match format {
        TableFormat::Parquet => {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(failed)?;
            let rows = each(scan, damaged, |batch| writer.write(batch).map_err(failed))?;
            writer.close().map_err(failed)?;
            Ok(rows)
        }
        _ => {
            let mut writer = FileWriter::try_new(out, &schema).map_err(failed)?;
            let rows = each(scan, damaged, |batch| writer.write(batch).map_err(failed))?;
            writer.finish().map_err(failed)?;
            Ok(rows)
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::io("export", io::Error::other(error))
}

fn each(
    scan: ArrowScan,
    damaged: &mut Damaged,
    mut write: impl FnMut(&RecordBatch) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut rows = 0;
    let bar = progress::bar("export", None, "rows");
    for batch in scan {
        match batch {
            Ok(batch) => {
                write(&batch)?;
                rows += batch.num_rows() as u64;
                bar.set_position(rows);
            }
            Err(error) => damaged.note(error)?,
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}
