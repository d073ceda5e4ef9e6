//! Reads of many rows, range by range.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use waxseal_table::{Filter, IntoKey, IntoKeyRange, Row, Rows, Value};

use crate::error::Result;
use crate::routes::{Route, Routes};

/// A query of a placed table. The methods are those of [`Select`](waxseal_table::Select). Rows come in key order; with
/// hashed partitions, in the order of the hash.
///
/// Each range is read at one snapshot of its owner, taken when the iterator reaches it. The ranges of one query are
/// therefore not of one moment.
#[derive(Clone)]
#[must_use]
pub struct RoutedSelect {
    routes: Arc<Routes>,
    query: Query,
}

/// The rows and columns to read.
#[derive(Clone)]
struct Query {
    prefix: Vec<Value>,
    range: (Bound<Vec<Value>>, Bound<Vec<Value>>),
    columns: Option<Vec<String>>,
    filter: Option<Filter>,
    limit: Option<usize>,
    is_reverse: bool,
}

impl RoutedSelect {
    pub(crate) fn new(routes: Arc<Routes>) -> RoutedSelect {
        let range = (Bound::Unbounded, Bound::Unbounded);
        let query = Query { prefix: Vec::new(), range, columns: None, filter: None, limit: None, is_reverse: false };
        RoutedSelect { routes, query }
    }

    /// Reads the rows whose key begins with these values.
    pub fn prefix(mut self, key: impl IntoKey) -> RoutedSelect {
        self.query.prefix = key.into_key();
        self
    }

    /// Reads the rows whose next columns of the key, behind the prefix, are in a range.
    pub fn range(mut self, range: impl IntoKeyRange) -> RoutedSelect {
        self.query.range = range.into_key_range();
        self
    }

    /// Returns these columns only.
    pub fn columns<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> RoutedSelect {
        self.query.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the rows that match a condition.
    pub fn filter(mut self, filter: Filter) -> RoutedSelect {
        self.query.filter = Some(match self.query.filter {
            Some(other) => other.and(filter),
            None => filter,
        });
        self
    }

    /// Returns at most this number of rows.
    pub fn limit(mut self, rows: usize) -> RoutedSelect {
        self.query.limit = Some(rows);
        self
    }

    /// Reads from the greatest key to the least.
    pub fn reverse(mut self) -> RoutedSelect {
        self.query.is_reverse = !self.query.is_reverse;
        self
    }

    /// Reads the rows, one after the other. Errors: those of [`Select::rows`](waxseal_table::Select::rows), here for
    /// the first range, and from the iterator for the others.
    pub fn rows(self) -> Result<RoutedRows> {
        // Incomplete partition keys of hashed partitions have no encoding. The first range refuses them.
        let prefix = self.routes.encoded_key(&self.query.prefix).unwrap_or_default();
        let mut waiting: VecDeque<Arc<Route>> = self.routes.with_prefix(&prefix).into();
        if self.query.is_reverse {
            waiting.make_contiguous().reverse();
        }
        let mut rows = RoutedRows { remaining: self.query.limit, query: self.query, waiting, current: None };
        rows.current = rows.next_range().transpose()?;
        Ok(rows)
    }
}

/// An iterator over the rows of a [`RoutedSelect`].
///
/// Damage is an error of the row that it hits, and the iterator goes on behind it. A range whose owner's store is not
/// open is one error, and the iterator goes on with the next range.
pub struct RoutedRows {
    query: Query,
    waiting: VecDeque<Arc<Route>>,
    current: Option<Rows>,
    remaining: Option<usize>,
}

impl RoutedRows {
    /// Reads the next range at the present snapshot of its owner; `None` behind the last range.
    fn next_range(&mut self) -> Option<Result<Rows>> {
        let route = self.waiting.pop_front()?;
        Some(self.query.rows_of(&route))
    }
}

impl Query {
    fn rows_of(&self, route: &Route) -> Result<Rows> {
        let (owner, span) = (route.owner(), &route.span);
        let mut select = owner.table()?.select().prefix(&self.prefix).range(self.range.clone());
        select = select.encoded_range(&span.start, span.end.as_deref());
        if let Some(columns) = &self.columns {
            select = select.columns(columns.clone());
        }
        if let Some(filter) = &self.filter {
            select = select.filter(filter.clone());
        }
        if self.is_reverse {
            select = select.reverse();
        }
        Ok(select.rows()?)
    }
}

impl Iterator for RoutedRows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.remaining == Some(0) {
            return None;
        }
        loop {
            if let Some(row) = self.current.as_mut().and_then(Iterator::next) {
                if row.is_ok() {
                    self.remaining = self.remaining.map(|remaining| remaining - 1);
                }
                return Some(row.map_err(Into::into));
            }
            match self.next_range()? {
                Ok(rows) => self.current = Some(rows),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl fmt::Debug for RoutedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutedRows").field("remaining", &self.remaining).finish_non_exhaustive()
    }
}
