//! Changes of single columns, as callers write them.

use crate::value::Value;

/// Changes of a row's columns. Other columns stay unchanged.
///
/// ```
/// use waxseal_table::Changes;
///
/// let changes = Changes::new().set("title", "Emma").remove("genre").set_entry("pages", "1", "contents", "Preface");
/// # let _ = changes;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Changes(pub(crate) Vec<Change>);

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Column(String, Value),
    EntryColumn { group: String, entry: String, column: String, value: Value },
    RemoveEntry { group: String, entry: String },
}

impl Changes {
    /// Returns no changes.
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Sets a column. A null removes it.
    pub fn set(mut self, column: &str, value: impl Into<Value>) -> Changes {
        self.0.push(Change::Column(column.to_owned(), value.into()));
        self
    }

    /// Removes a column from the row.
    pub fn remove(self, column: &str) -> Changes {
        self.set(column, Value::Null)
    }

    /// Sets a column of an entry of a repeated group. An entry is created by its first column.
    pub fn set_entry(mut self, group: &str, entry: &str, column: &str, value: impl Into<Value>) -> Changes {
        let (group, entry, column) = (group.to_owned(), entry.to_owned(), column.to_owned());
        self.0.push(Change::EntryColumn { group, entry, column, value: value.into() });
        self
    }

    /// Removes an entry of a repeated group with all its columns.
    pub fn remove_entry(mut self, group: &str, entry: &str) -> Changes {
        self.0.push(Change::RemoveEntry { group: group.to_owned(), entry: entry.to_owned() });
        self
    }
}
