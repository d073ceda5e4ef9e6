//! Formats of files that rows are read from and written to.

use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Dir,
    Csv,
    Tsv,
    Jsonl,
}

/// Returns the format that a file's name ends in.
pub(crate) fn by_extension(path: &Path) -> Option<Format> {
    match path.extension().and_then(OsStr::to_str)? {
        "csv" => Some(Format::Csv),
        "tsv" => Some(Format::Tsv),
        "jsonl" | "ndjson" => Some(Format::Jsonl),
        _ => None,
    }
}

/// A format of files of a table.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TableFormat {
    Csv,
    Tsv,
    Jsonl,
    /// Only in builds with the feature `arrow`
    Parquet,
    /// Arrow IPC; only in builds with the feature `arrow`
    Arrow,
}

impl TableFormat {
    /// Returns the format that a file's name ends in.
    pub(crate) fn by_extension(path: &Path) -> Option<TableFormat> {
        match path.extension().and_then(OsStr::to_str)? {
            "parquet" => Some(TableFormat::Parquet),
            "arrow" | "feather" => Some(TableFormat::Arrow),
            _ => match by_extension(path)? {
                Format::Csv => Some(TableFormat::Csv),
                Format::Tsv => Some(TableFormat::Tsv),
                Format::Jsonl => Some(TableFormat::Jsonl),
                Format::Dir => None,
            },
        }
    }

    /// Returns the byte between fields.
    pub(crate) fn delimiter(self) -> u8 {
        if self == TableFormat::Tsv { b'\t' } else { b',' }
    }
}
