//! Iterates over the rows of a select.

use std::collections::HashSet;
use std::fmt;

use crate::error::Result;
use crate::filter::Filter;
use crate::index_reader::IndexReader;
use crate::row::Row;
use crate::row_reader::RowReader;

/// Where rows come from.
pub(crate) enum RowSource {
    Table(RowReader),
    Index(IndexReader),
}

impl RowSource {
    /// Returns the next row, and the key that it was found by.
    fn next_row(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        match self {
            RowSource::Table(reader) => reader.next_row(),
            RowSource::Index(reader) => reader.next_row(),
        }
    }
}

/// An iterator over the rows of a [`Select`](crate::Select).
///
/// Damage is an error of the row that it hits, and the iterator goes on behind it. Any other error ends it.
pub struct Rows {
    source: RowSource,
    filter: Option<Filter>,
    /// The columns to return, if others are read for the filter.
    projection: Option<HashSet<String>>,
    remaining: Option<usize>,
    last_key: Option<Vec<u8>>,
}

impl Rows {
    pub(crate) fn new(
        source: RowSource,
        filter: Option<Filter>,
        projection: Option<HashSet<String>>,
        limit: Option<usize>,
    ) -> Rows {
        Rows { source, filter, projection, remaining: limit, last_key: None }
    }

    /// Returns the key of the last row that the iterator has returned.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.last_key.as_deref()
    }

    /// Returns the key of the next row that matches, and the row with all columns that were read.
    pub(crate) fn next_match(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        while let Some((key, row)) = self.source.next_row()? {
            if self.filter.as_ref().is_none_or(|filter| filter.matches(&row)) {
                return Ok(Some((key, row)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.remaining == Some(0) {
            return None;
        }
        let (key, mut row) = match self.next_match() {
            Ok(found) => found?,
            Err(error) => return Some(Err(error)),
        };
        self.last_key = Some(key);
        self.remaining = self.remaining.map(|remaining| remaining - 1);
        if let Some(projection) = &self.projection {
            row.columns.retain(|(name, _)| projection.contains(&**name));
        }
        Some(Ok(row))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("remaining", &self.remaining).finish_non_exhaustive()
    }
}
