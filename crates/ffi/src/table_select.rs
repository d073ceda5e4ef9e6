//! Selects of rows: which rows and columns to read, in which order.

use std::ops::Bound;

use face::Snapshot;
use waxseal_table::{Filter, PageToken, Select, Table, Value};

use crate::failure::{Failure, Result};
use crate::handle::with;
use crate::lent::{Lend, copied_array, copied_text, waxseal_slice_t};
use crate::range::{WAXSEAL_EXCLUDED, WAXSEAL_INCLUDED, WAXSEAL_UNBOUNDED};
use crate::snapshot::waxseal_snapshot_t;
use crate::table_value::waxseal_value_list_t;

/// The column equals the value.
pub const WAXSEAL_CONDITION_EQ: i32 = 1;
/// The column has another value.
pub const WAXSEAL_CONDITION_NE: i32 = 2;
/// The column is less than the value.
pub const WAXSEAL_CONDITION_LT: i32 = 3;
/// The column is at most the value.
pub const WAXSEAL_CONDITION_LE: i32 = 4;
/// The column is greater than the value.
pub const WAXSEAL_CONDITION_GT: i32 = 5;
/// The column is at least the value.
pub const WAXSEAL_CONDITION_GE: i32 = 6;
/// The column equals one of the values.
pub const WAXSEAL_CONDITION_IN: i32 = 7;
/// The row does not have the column.
pub const WAXSEAL_CONDITION_IS_NULL: i32 = 8;
/// The preceding condition is false.
pub const WAXSEAL_CONDITION_NOT: i32 = 9;
/// Both preceding conditions are true.
pub const WAXSEAL_CONDITION_AND: i32 = 10;
/// One of the two preceding conditions is true, or both.
pub const WAXSEAL_CONDITION_OR: i32 = 11;

/// The largest number of conditions in a filter.
pub const WAXSEAL_MAX_CONDITIONS: usize = 1024;

/// A condition, or an operator on preceding conditions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_condition_t {
    /// One of `WAXSEAL_CONDITION_..`.
    pub kind: i32,
    /// The name of the column of a condition.
    pub column: waxseal_slice_t,
    /// The value of a comparison, or the values of `WAXSEAL_CONDITION_IN`.
    pub values: waxseal_value_list_t,
}

/// A filter, in postfix order: `a`, `b`, `WAXSEAL_CONDITION_AND`, `c`, `WAXSEAL_CONDITION_OR` is (a and b) or c. All
/// zeros mean no filter. Nulls count as in SQL: a comparison with a null is neither true nor false.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_filter_t {
    /// The first condition.
    pub conditions: *const waxseal_condition_t,
    /// Number of conditions, at most `WAXSEAL_MAX_CONDITIONS`.
    pub count: usize,
}

/// One end of a range of values. All zeros mean no bound.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_value_bound_t {
    /// One of `WAXSEAL_UNBOUNDED`, `WAXSEAL_INCLUDED`, `WAXSEAL_EXCLUDED`.
    pub kind: i32,
    /// Values of the columns; the first column is compared first.
    pub values: waxseal_value_list_t,
}

/// A range of values of the columns behind a prefix, least first, also of a descending column. All zeros mean all.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_value_range_t {
    /// The lower end.
    pub lower: waxseal_value_bound_t,
    /// The upper end.
    pub upper: waxseal_value_bound_t,
}

/// Which rows and columns to read. All zeros mean all rows, and so does a null pointer to a select.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_select_t {
    /// Reads the rows, and the schema, as the snapshot sees them; null is the current state.
    pub snapshot: *const waxseal_snapshot_t,
    /// Reads the rows of the index of this name, in its order; `prefix` and `range` are then of its columns. Empty
    /// reads the rows in the order of their keys.
    pub index: waxseal_slice_t,
    /// The rows whose key begins with these values.
    pub prefix: waxseal_value_list_t,
    /// The rows whose next columns of the key are in this range.
    pub range: waxseal_value_range_t,
    /// The names of the columns to return, or of repeated groups; null returns all.
    pub columns: *const waxseal_slice_t,
    /// Number of names.
    pub column_count: usize,
    /// The rows that match this filter.
    pub filter: waxseal_filter_t,
    /// The rows behind this position, which `waxseal_table_page` has returned; empty begins with the first row.
    pub after: waxseal_slice_t,
    /// The largest number of rows; 0 is no limit, unless `has_limit` is true.
    pub limit: u64,
    /// Reads from the greatest key to the least.
    pub is_reverse: bool,
    /// Permits a range over hashed partitions, which reads every row.
    pub is_full_scan: bool,
    /// Makes a `limit` of 0 a limit: the select has no rows, and reads none.
    pub has_limit: bool,
}

/// A select that was copied from a caller.
pub(crate) struct CallerSelect {
    snapshot: *const waxseal_snapshot_t,
    index: String,
    prefix: Vec<Value>,
    range: (Bound<Vec<Value>>, Bound<Vec<Value>>),
    pub(crate) columns: Option<Vec<String>>,
    filter: Option<Filter>,
    after: Vec<u8>,
    limit: Option<u64>,
    is_reverse: bool,
    is_full_scan: bool,
}

impl CallerSelect {
    /// Returns the select of all rows.
    fn all() -> CallerSelect {
        CallerSelect {
            snapshot: std::ptr::null(),
            index: String::new(),
            prefix: Vec::new(),
            range: (Bound::Unbounded, Bound::Unbounded),
            columns: None,
            filter: None,
            after: Vec::new(),
            limit: None,
            is_reverse: false,
            is_full_scan: false,
        }
    }

    /// Returns the snapshot of the select, or one of the current state.
    pub(crate) fn snapshot(&self, table: &Table) -> Result<Snapshot> {
        match self.snapshot.is_null() {
            true => Ok(table.db().snapshot()),
            false => at_snapshot(table, self.snapshot, |snapshot| Ok(snapshot.clone())),
        }
    }

    /// Returns the select on a table.
    pub(crate) fn on(self, table: &Table) -> Result<Select<'_>> {
        let mut select = table.select().prefix(self.prefix).range(self.range);
        if !self.snapshot.is_null() {
            select = at_snapshot(table, self.snapshot, |snapshot| Ok(select.at(snapshot)))?;
        }
        if !self.index.is_empty() {
            select = select.index(&self.index);
        }
        if let Some(columns) = self.columns {
            select = select.columns(columns);
        }
        if let Some(filter) = self.filter {
            select = select.filter(filter);
        }
        if !self.after.is_empty() {
            select = select.after(&PageToken::from_bytes(self.after));
        }
        if let Some(limit) = self.limit {
            select = select.limit(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        select = if self.is_reverse { select.reverse() } else { select };
        Ok(if self.is_full_scan { select.full_scan() } else { select })
    }
}

/// Lends a snapshot of a table's store to `read`.
pub(crate) fn at_snapshot<R>(
    table: &Table,
    snapshot: *const waxseal_snapshot_t,
    read: impl FnOnce(&Snapshot) -> Result<R>,
) -> Result<R> {
    with(snapshot, |snapshot| match snapshot.store() == table.db().store() {
        true => read(snapshot),
        false => Err(Failure::invalid("the snapshot is of another store")),
    })
}

impl Lend for *const waxseal_table_select_t {
    type Copied = CallerSelect;

    unsafe fn copied(self) -> Result<CallerSelect> {
        // SAFETY: null, or readable by the caller's promise.
        let Some(select) = (unsafe { self.as_ref() }) else { return Ok(CallerSelect::all()) };
        // SAFETY: the caller's promise.
        unsafe {
            let columns = match select.columns.is_null() && select.column_count == 0 {
                true => None,
                false => Some(copied_array(select.columns.cast::<Name>(), select.column_count)?),
            };
            Ok(CallerSelect {
                snapshot: select.snapshot,
                index: copied_text(select.index, "name of an index")?,
                prefix: select.prefix.copied()?,
                range: select.range.copied()?,
                columns,
                filter: select.filter.copied()?,
                after: select.after.copied()?,
                limit: (select.has_limit || select.limit > 0).then_some(select.limit),
                is_reverse: select.is_reverse,
                is_full_scan: select.is_full_scan,
            })
        }
    }
}

/// A slice that is the name of a column.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Name(waxseal_slice_t);

impl Lend for Name {
    type Copied = String;

    unsafe fn copied(self) -> Result<String> {
        // SAFETY: the caller's promise.
        unsafe { copied_text(self.0, "name of a column") }
    }
}

impl Lend for waxseal_value_bound_t {
    type Copied = Bound<Vec<Value>>;

    unsafe fn copied(self) -> Result<Bound<Vec<Value>>> {
        // SAFETY: the caller's promise. The values of an unbounded end are not read.
        let values = || unsafe { self.values.copied() };
        match self.kind {
            WAXSEAL_UNBOUNDED => Ok(Bound::Unbounded),
            WAXSEAL_INCLUDED => Ok(Bound::Included(values()?)),
            WAXSEAL_EXCLUDED => Ok(Bound::Excluded(values()?)),
            other => Err(Failure::invalid(format!("{other} is no kind of bound"))),
        }
    }
}

impl Lend for waxseal_value_range_t {
    type Copied = (Bound<Vec<Value>>, Bound<Vec<Value>>);

    unsafe fn copied(self) -> Result<Self::Copied> {
        // SAFETY: the caller's promise.
        unsafe { Ok((self.lower.copied()?, self.upper.copied()?)) }
    }
}

/// A step of a filter in postfix order.
pub(crate) enum FilterStep {
    Condition(Filter),
    Not,
    And,
    Or,
}

impl Lend for waxseal_condition_t {
    type Copied = FilterStep;

    unsafe fn copied(self) -> Result<FilterStep> {
        match self.kind {
            WAXSEAL_CONDITION_NOT => return Ok(FilterStep::Not),
            WAXSEAL_CONDITION_AND => return Ok(FilterStep::And),
            WAXSEAL_CONDITION_OR => return Ok(FilterStep::Or),
            _ => {}
        }
        // SAFETY: the caller's promise.
        let (column, values) = unsafe { (copied_text(self.column, "name of a column")?, self.values.copied()?) };
        let count = values.len();
        let value = || match <[Value; 1]>::try_from(values.clone()) {
            Ok([value]) => Ok(value),
            Err(_) => Err(Failure::invalid(format!("a comparison has one value, not {count}"))),
        };
        Ok(FilterStep::Condition(match self.kind {
            WAXSEAL_CONDITION_EQ => Filter::eq(&column, value()?),
            WAXSEAL_CONDITION_NE => Filter::ne(&column, value()?),
            WAXSEAL_CONDITION_LT => Filter::lt(&column, value()?),
            WAXSEAL_CONDITION_LE => Filter::le(&column, value()?),
            WAXSEAL_CONDITION_GT => Filter::gt(&column, value()?),
            WAXSEAL_CONDITION_GE => Filter::ge(&column, value()?),
            WAXSEAL_CONDITION_IN => Filter::is_in(&column, values),
            WAXSEAL_CONDITION_IS_NULL => Filter::is_null(&column),
            other => return Err(Failure::invalid(format!("{other} is no condition"))),
        }))
    }
}

impl Lend for waxseal_filter_t {
    type Copied = Option<Filter>;

    unsafe fn copied(self) -> Result<Option<Filter>> {
        if self.count > WAXSEAL_MAX_CONDITIONS {
            let found = self.count;
            return Err(Failure::invalid(format!(
                "a filter has at most {WAXSEAL_MAX_CONDITIONS} conditions, not {found}"
            )));
        }
        // SAFETY: the caller's promise.
        joined(unsafe { copied_array(self.conditions, self.count) }?)
    }
}

/// Returns the filter of steps in postfix order.
fn joined(steps: Vec<FilterStep>) -> Result<Option<Filter>> {
    let is_empty = steps.is_empty();
    let mut stack: Vec<Filter> = Vec::new();
    let missing = || Failure::invalid("a connection of conditions has too few conditions before it");
    for step in steps {
        let joined = match step {
            FilterStep::Condition(filter) => filter,
            FilterStep::Not => stack.pop().ok_or_else(missing)?.negate(),
            FilterStep::And => {
                let (second, first) = (stack.pop().ok_or_else(missing)?, stack.pop().ok_or_else(missing)?);
                first.and(second)
            }
            FilterStep::Or => {
                let (second, first) = (stack.pop().ok_or_else(missing)?, stack.pop().ok_or_else(missing)?);
                first.or(second)
            }
        };
        stack.push(joined);
    }
    match (stack.pop(), stack.is_empty()) {
        (filter, true) if filter.is_some() || is_empty => Ok(filter),
        _ => Err(Failure::invalid("the conditions of the filter are not connected")),
    }
}
