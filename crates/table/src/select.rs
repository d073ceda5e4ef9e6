//! Selects: which rows and columns to read, in which order.

use std::collections::HashSet;
use std::fmt;
use std::ops::Bound;

use waxseal::Snapshot;

use crate::alteration::no_index;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::index::IndexState;
use crate::index_reader::IndexReader;
use crate::key::above;
use crate::key_range::{KeyBound, KeyRange, Keys, key_bounds};
use crate::key_values::{IntoKey, IntoKeyRange};
use crate::layout::{IndexLayout, Layout};
use crate::row::Row;
use crate::row_reader::RowReader;
use crate::rows::{RowSource, Rows};
use crate::table::Table;
use crate::value::Value;

/// A query: its methods choose rows, columns and order. Rows come in key order by default.
///
/// ```
/// # fn main() -> waxseal_table::Result<()> {
/// # use waxseal_table::{ColumnType, Filter, Row, Schema, Tables};
/// # let tables = Tables::open(&waxseal::Db::memory()?)?;
/// let schema = Schema::new()
///     .partition_key("author", ColumnType::Text)
///     .clustering_key("year", ColumnType::I32)
///     .column("title", ColumnType::Text);
/// let books = tables.create("library.books", schema)?;
/// for (year, title) in [(1811, "Sense and Sensibility"), (1813, "Pride and Prejudice"), (1815, "Emma")] {
///     books.insert(Row::new().with("author", "Austen").with("year", year).with("title", title))?;
/// }
/// let rows = books.select().prefix("Austen").range(1812..).columns(["title"]).reverse().rows()?;
/// let titles = rows.map(|row| Ok(row?.get("title").unwrap().clone())).collect::<waxseal_table::Result<Vec<_>>>()?;
/// assert_eq!(titles, ["Emma".into(), "Pride and Prejudice".into()]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Select<'a> {
    table: &'a Table,
    snapshot: Option<Snapshot>,
    index: Option<String>,
    prefix: Vec<Value>,
    range: KeyRange,
    columns: Option<Vec<String>>,
    filter: Option<Filter>,
    limit: Option<usize>,
    after: Option<PageToken>,
    within: Option<EncodedRange>,
    is_reverse: bool,
    full_scan: bool,
}

/// A range of the encoded keys of rows, from a start to before an end.
type EncodedRange = (Vec<u8>, Option<Vec<u8>>);

/// The position behind a page of rows. A token of a table's rows is `Invalid` for a select of an index, and a token of
/// an index is `Invalid` for any other select, also of the same index after a rebuild.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PageToken(Vec<u8>);

/// The first byte of a token, before a key.
const OF_ROWS: u8 = b'r';
const OF_INDEX: u8 = b'i';

impl PageToken {
    fn new(kind: u8, key: &[u8]) -> PageToken {
        PageToken([&[kind], key].concat())
    }

    /// Returns the key of the position. `index` is the index that the select reads. Errors: `Invalid` for a position of
    /// something else.
    fn key(&self, layout: &Layout, index: Option<&IndexLayout>) -> Result<&[u8]> {
        let is_of = |kind: u8, key: &[u8]| match index {
            Some(index) => kind == OF_INDEX && key.starts_with(&index.info.prefix()),
            None => kind == OF_ROWS && layout.row_key_length(key).is_ok_and(|length| length == key.len()),
        };
        match self.0.split_first() {
            Some((kind, key)) if is_of(*kind, key) => Ok(key),
            _ => Err(Error::invalid("the page token is of another select, or is none")),
        }
    }

    /// Returns the token's bytes, to be kept or sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the token of such bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> PageToken {
        PageToken(bytes.into())
    }
}

/// Some rows of a select, and where the rest begins.
#[derive(Clone, Debug)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Row>,
    /// The position for [`Select::after`]; `None` if the page has fewer rows than the limit.
    pub next: Option<PageToken>,
}

impl Table {
    /// Begins a read of rows.
    pub fn select(&self) -> Select<'_> {
        Select::new(self)
    }
}

impl<'a> Select<'a> {
    fn new(table: &'a Table) -> Select<'a> {
        Select {
            table,
            snapshot: None,
            index: None,
            prefix: Vec::new(),
            range: (Bound::Unbounded, Bound::Unbounded),
            columns: None,
            filter: None,
            limit: None,
            after: None,
            within: None,
            is_reverse: false,
            full_scan: false,
        }
    }

    /// Reads the rows, and the schema, as a snapshot of the store sees them.
    pub fn at(mut self, snapshot: &Snapshot) -> Select<'a> {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Reads the rows of an index, in its order. [`prefix`](Select::prefix) and [`range`](Select::range) then are of
    /// the index's columns. A null in the prefix stands for rows that lack the column. Each row costs two searches.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{ColumnType, Index, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new()
    ///     .partition_key("isbn", ColumnType::Text)
    ///     .column("year", ColumnType::I32)
    ///     .index(Index::on("by_year", ["year"]));
    /// let books = tables.create("library.books", schema)?;
    /// for (isbn, year) in [("0141439580", 1815), ("0141439513", 1813), ("0141439661", 1811)] {
    ///     books.insert(Row::new().with("isbn", isbn).with("year", year))?;
    /// }
    /// assert_eq!(books.select().index("by_year").range(1812..).count()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn index(mut self, name: &str) -> Select<'a> {
        self.index = Some(name.to_owned());
        self
    }

    /// Reads the rows whose key begins with these values.
    pub fn prefix(mut self, key: impl IntoKey) -> Select<'a> {
        self.prefix = key.into_key();
        self
    }

    /// Reads the rows whose next columns of the key, behind the prefix, are in a range. Without a prefix, the range is
    /// one of partitions. The bounds are values, least first, also of a descending column. A bound of several values
    /// compares the columns one after the other.
    pub fn range(mut self, range: impl IntoKeyRange) -> Select<'a> {
        self.range = range.into_key_range();
        self
    }

    /// Returns these columns only, and reads only the groups that have them. The name of a repeated group is one of
    /// all its columns.
    pub fn columns<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Select<'a> {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the rows that match a condition. The others are read all the same.
    pub fn filter(mut self, filter: Filter) -> Select<'a> {
        self.filter = Some(match self.filter {
            Some(other) => other.and(filter),
            None => filter,
        });
        self
    }

    /// Returns at most this number of rows.
    pub fn limit(mut self, rows: usize) -> Select<'a> {
        self.limit = Some(rows);
        self
    }

    /// Returns the rows behind a page that this select has returned, with the same order. A token of other rows, or of
    /// another index, is `Invalid`.
    pub fn after(mut self, token: &PageToken) -> Select<'a> {
        self.after = Some(token.clone());
        self
    }

    /// Reads only the rows whose [encoded keys](Table::encoded_key) are in a range, from `start` to before `end`. For
    /// layers that divide tables by encoded keys, with bounds that part no row. `Invalid` for a select of an index.
    pub fn encoded_range(mut self, start: &[u8], end: Option<&[u8]>) -> Select<'a> {
        self.within = Some((start.to_vec(), end.map(<[u8]>::to_vec)));
        self
    }

    /// Reads from the greatest key to the least.
    pub fn reverse(mut self) -> Select<'a> {
        self.is_reverse = !self.is_reverse;
        self
    }

    /// Permits a range or an incomplete partition key in a table with hashed partitions. Every row is read then, and
    /// the rows come in the order of the hash.
    pub fn full_scan(mut self) -> Select<'a> {
        self.full_scan = true;
        self
    }

    /// Reads the rows, one after the other. Errors: `NotFound` for an unknown column; `Invalid` for
    /// a value that does not fit, and for a range over hashed partitions without [`full_scan`](Select::full_scan).
    pub fn rows(self) -> Result<Rows> {
        let table = self.table;
        self.try_rows().map_err(|error| table.named(error))
    }

    /// Reads one page: as many rows as [`limit`](Select::limit) says. Errors: as for [`rows`](Select::rows), damage,
    /// and `Invalid` without a limit.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{ColumnType, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// # let numbers = tables.create("test.numbers", Schema::new().partition_key("number", ColumnType::I32))?;
    /// for number in 0..5 {
    ///     numbers.insert(Row::new().with("number", number))?;
    /// }
    /// let (mut page, mut rows) = (numbers.select().limit(2).page()?, 0);
    /// loop {
    ///     rows += page.rows.len();
    ///     let Some(next) = page.next else { break };
    ///     page = numbers.select().limit(2).after(&next).page()?;
    /// }
    /// assert_eq!(rows, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn page(self) -> Result<Page> {
        let table = self.table;
        let Some(limit) = self.limit else {
            return Err(table.named(Error::invalid("a page has a limit")));
        };
        let kind = if self.index.is_some() { OF_INDEX } else { OF_ROWS };
        let mut found = self.rows()?;
        let rows = found.by_ref().take(limit).collect::<Result<Vec<_>>>().map_err(|error| table.named(error))?;
        let next = (rows.len() == limit).then(|| found.last_key().map(|key| PageToken::new(kind, key))).flatten();
        Ok(Page { rows, next })
    }

    /// Returns the number of rows. Costs a read of all of them.
    pub fn count(self) -> Result<u64> {
        let table = self.table;
        let select = if self.columns.is_some() { self } else { self.columns([""; 0]) };
        let mut count = 0;
        for row in select.rows()? {
            row.map_err(|error| table.named(error))?;
            count += 1;
        }
        Ok(count)
    }

    fn try_rows(mut self) -> Result<Rows> {
        let snapshot = self.snapshot.take().unwrap_or_else(|| self.table.state.store.db.snapshot());
        let layout = self.table.state.layout_at(&snapshot)?;
        let index = self.index.as_deref().map(|name| readable_index(&layout, name)).transpose()?;
        if index.is_none() && layout.is_hashed() && self.is_across_partitions(&layout) {
            self.filter_all_partitions(&layout)?;
        }
        let keys = index.map_or(Keys::Rows(&layout), |index| Keys::Entries(&layout.indexes[index]));
        let (start, end) = key_bounds(keys, &self.prefix, &self.range)?;
        let of_index = index.map(|index| &layout.indexes[index]);
        let after = self.after.as_ref().map(|token| token.key(&layout, of_index)).transpose()?;
        let (start, end) = beyond(start, end, after, self.is_reverse);
        let (start, end) = match self.within.take() {
            None => (start, end),
            Some(_) if index.is_some() => return Err(Error::invalid("an index has no range of encoded keys of rows")),
            Some(range) => within(start, end, range),
        };
        let filter = layout.checked(self.filter.take())?;
        let selection = match &self.columns {
            None => layout.select_all(),
            Some(columns) => {
                let mut names: Vec<&str> = columns.iter().map(String::as_str).collect();
                filter.iter().for_each(|filter| filter.names(&mut names));
                layout.select(names)?
            }
        };
        let is_filtered = filter.is_some();
        let projection = self.columns.filter(|_| is_filtered).map(HashSet::from_iter);
        let rows = &self.table.rows;
        let family = if index.is_some() { &self.table.state.indexes } else { rows };
        let cursor = snapshot.cursor_in(family, (start, end));
        cursor.check()?;
        let source = match index {
            None => RowSource::Table(RowReader::new(layout, selection, cursor, self.is_reverse)),
            Some(index) => {
                let entries = (cursor, self.is_reverse);
                RowSource::Index(IndexReader::new((&snapshot, rows), (&layout, index), selection, entries))
            }
        };
        Ok(Rows::new(source, filter, projection, self.limit))
    }

    #[cfg(feature = "arrow")]
    pub(crate) fn table(&self) -> &'a Table {
        self.table
    }

    /// Returns the names of the selected columns; `None` for all columns.
    #[cfg(feature = "arrow")]
    pub(crate) fn selected(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    /// Fixes the snapshot that the select reads, and returns the schema at it.
    #[cfg(feature = "arrow")]
    pub(crate) fn with_schema(mut self) -> Result<(Select<'a>, crate::schema::Schema)> {
        let snapshot = self.snapshot.take().unwrap_or_else(|| self.table.state.store.db.snapshot());
        let schema = self.table.state.layout_at(&snapshot)?.record.schema.clone();
        Ok((self.at(&snapshot), schema))
    }

    /// Returns true if the rows of the select are in partitions that the key does not name.
    fn is_across_partitions(&self, layout: &Layout) -> bool {
        let has_range = !matches!(self.range, (Bound::Unbounded, Bound::Unbounded));
        self.prefix.len() < layout.partition_parts && (has_range || !self.prefix.is_empty())
    }

    /// Makes a select of hashed partitions one of all rows, with a filter. Errors: `Invalid` unless that was asked for.
    fn filter_all_partitions(&mut self, layout: &Layout) -> Result<()> {
        if !self.full_scan {
            return Err(Error::invalid(
                "partitions are hashed: give the whole partition key, or ask for a full_scan of all rows",
            ));
        }
        let mut filters: Vec<Filter> = self.filter.take().into_iter().collect();
        let prefix = std::mem::take(&mut self.prefix);
        let parts = prefix.len();
        for (index, value) in prefix.into_iter().enumerate() {
            filters.push(Filter::eq(layout.name(index), value));
        }
        let (start, end) = std::mem::replace(&mut self.range, (Bound::Unbounded, Bound::Unbounded));
        let single = |bound: Vec<Value>| match <[Value; 1]>::try_from(bound) {
            Ok([value]) => Ok(value),
            Err(_) => Err(Error::invalid("a full_scan compares one column with a bound of one value")),
        };
        let column = || layout.name(parts);
        match start {
            Bound::Included(start) => filters.push(Filter::ge(column(), single(start)?)),
            Bound::Excluded(start) => filters.push(Filter::gt(column(), single(start)?)),
            Bound::Unbounded => {}
        }
        match end {
            Bound::Included(end) => filters.push(Filter::le(column(), single(end)?)),
            Bound::Excluded(end) => filters.push(Filter::lt(column(), single(end)?)),
            Bound::Unbounded => {}
        }
        self.filter = filters.into_iter().reduce(Filter::and);
        Ok(())
    }
}

/// Returns the place of an index in the layout. Errors: `NotFound`; `Invalid` for an index that is still being built.
fn readable_index(layout: &Layout, name: &str) -> Result<usize> {
    let found = layout.index(name).ok_or_else(|| no_index(name))?;
    if found.info.state != IndexState::Public {
        return Err(Error::invalid(format!("the index {name:?} is being built, and cannot be read yet")));
    }
    let place = layout.indexes.iter().position(|index| index.info.id == found.info.id);
    place.ok_or_else(|| no_index(name))
}

/// Moves a bound to the position behind a page.
fn beyond(start: KeyBound, end: KeyBound, after: Option<&[u8]>, is_reverse: bool) -> (KeyBound, KeyBound) {
    let Some(key) = after else { return (start, end) };
    if is_reverse {
        return match &end {
            Bound::Excluded(end) | Bound::Included(end) if end.as_slice() <= key => {
                (start, Bound::Excluded(end.clone()))
            }
            _ => (start, Bound::Excluded(key.to_vec())),
        };
    }
    let next = above(key).unwrap_or_else(|| vec![0xFF; key.len() + 1]);
    match &start {
        Bound::Included(start) | Bound::Excluded(start) if *start >= next => (Bound::Included(start.clone()), end),
        _ => (Bound::Included(next), end),
    }
}

/// Moves bounds into a range of encoded keys.
fn within(start: KeyBound, end: KeyBound, range: EncodedRange) -> (KeyBound, KeyBound) {
    let start = match start {
        Bound::Included(key) => Bound::Included(key.max(range.0)),
        Bound::Unbounded => Bound::Included(range.0),
        Bound::Excluded(_) => start, // an empty range
    };
    let end = match (end, range.1) {
        (Bound::Unbounded, Some(last)) => Bound::Excluded(last),
        (Bound::Excluded(key), Some(last)) => Bound::Excluded(key.min(last)),
        (end, _) => end,
    };
    (start, end)
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("table", self.table).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
