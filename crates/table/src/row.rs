//! Rows, as callers write and read them.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::value::Value;

/// A row: columns by name, and the entries of repeated groups. Absent columns are null.
///
/// ```
/// use waxseal_table::{Row, Value};
///
/// let row = Row::new().with("title", "Emma").with("year", 1815);
/// assert_eq!(row.get("year"), Some(&Value::I32(1815)));
/// assert_eq!(row.get("genre"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub(crate) columns: Vec<(Arc<str>, Value)>,
    pub(crate) entries: Vec<GroupEntry>,
}

/// One entry of a repeated group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    pub(crate) group: Arc<str>,
    pub(crate) name: String,
    pub(crate) columns: Vec<(Arc<str>, Value)>,
}

impl Row {
    /// Returns a row without columns.
    pub fn new() -> Row {
        Row::default()
    }

    /// Returns a row of columns in any order, without those that are null. Takes time `n log n` of their number `n`, where
    /// [`set`](Row::set) for each takes its square. Errors: `Invalid` for a name that occurs twice.
    ///
    /// ```
    /// use waxseal_table::{Row, Value};
    ///
    /// let row = Row::from_columns([("title", Value::from("Emma")), ("genre", Value::Null)])?;
    /// assert_eq!(row, Row::new().with("title", "Emma"));
    /// assert!(Row::from_columns([("title", Value::from("Emma")), ("title", Value::Null)]).is_err());
    /// # Ok::<(), waxseal_table::Error>(())
    /// ```
    pub fn from_columns<N: Into<Arc<str>>>(columns: impl IntoIterator<Item = (N, Value)>) -> Result<Row> {
        let mut columns: Vec<(Arc<str>, Value)> =
            columns.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let mut names: Vec<&str> = columns.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if let Some(equal) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid(format!("the row has column {:?} twice", equal[0])));
        }
        columns.retain(|(_, value)| !value.is_null());
        Ok(Row { columns, entries: Vec::new() })
    }

    /// Sets a column, and returns the row. A null removes it.
    pub fn with(mut self, column: &str, value: impl Into<Value>) -> Row {
        self.set(column, value);
        self
    }

    /// Sets a column of an entry of a repeated group, and returns the row. An entry is created by its first column.
    pub fn with_entry(mut self, group: &str, entry: &str, column: &str, value: impl Into<Value>) -> Row {
        self.set_entry(group, entry, column, value);
        self
    }

    /// Sets a column. A null removes it. Compares the name with those of all columns of the row.
    pub fn set(&mut self, column: &str, value: impl Into<Value>) {
        set_in(&mut self.columns, column, value.into());
    }

    /// Sets a column of an entry of a repeated group. An entry is created by its first column.
    pub fn set_entry(&mut self, group: &str, entry: &str, column: &str, value: impl Into<Value>) {
        let is_it = |other: &&mut GroupEntry| &*other.group == group && other.name == entry;
        if let Some(found) = self.entries.iter_mut().find(is_it) {
            return set_in(&mut found.columns, column, value.into());
        }
        let mut new = GroupEntry { group: group.into(), name: entry.to_owned(), columns: Vec::new() };
        set_in(&mut new.columns, column, value.into());
        self.entries.push(new);
    }

    /// Returns the value of a column; `None` for a null.
    pub fn get(&self, column: &str) -> Option<&Value> {
        find_in(&self.columns, column)
    }

    /// Returns the columns, by name.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.columns.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the entries of a repeated group, in the order of their names.
    pub fn entries<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a GroupEntry> {
        self.entries.iter().filter(move |entry| &*entry.group == group)
    }

    /// Returns the entries of all repeated groups.
    pub fn all_entries(&self) -> impl Iterator<Item = &GroupEntry> {
        self.entries.iter()
    }

    /// Returns an entry of a repeated group.
    pub fn entry(&self, group: &str, name: &str) -> Option<&GroupEntry> {
        self.entries.iter().find(|entry| &*entry.group == group && entry.name == name)
    }
}

impl GroupEntry {
    /// Returns the name of the group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the name of the entry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value of a column; `None` for a null.
    pub fn get(&self, column: &str) -> Option<&Value> {
        find_in(&self.columns, column)
    }

    /// Returns the columns, by name.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.columns.iter().map(|(name, value)| (&**name, value))
    }
}

fn find_in<'a>(columns: &'a [(Arc<str>, Value)], name: &str) -> Option<&'a Value> {
    columns.iter().find(|(own, _)| &**own == name).map(|(_, value)| value)
}

fn set_in(columns: &mut Vec<(Arc<str>, Value)>, name: &str, value: Value) {
    match columns.iter().position(|(own, _)| &**own == name) {
        Some(at) if value.is_null() => drop(columns.remove(at)),
        Some(at) => columns[at].1 = value,
        None if value.is_null() => {}
        None => columns.push((name.into(), value)),
    }
}
