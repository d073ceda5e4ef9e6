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
