//! Rows as JSON objects, and back.

use crate::error::{Error, ErrorKind, Result};
use crate::json;
use crate::row::{GroupEntry, Row};
use crate::schema::{Column, Schema};
use crate::value::Value;

impl Schema {
    /// Returns a row of a table with this schema as a JSON object, on one line: see [`Value::to_json`]. Null columns are
    /// left out. A repeated group is an object of its entries. [`row_from_json`](Schema::row_from_json) reads it back.
    ///
    /// ```
    /// use waxseal_table::{ColumnType, Row, Schema};
    ///
    /// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("year", ColumnType::I32);
    /// let row = Row::new().with("isbn", "0141439580").with("year", 1815);
    /// assert_eq!(schema.row_to_json(&row), r#"{"isbn":"0141439580","year":1815}"#);
    /// assert_eq!(schema.row_from_json(r#"{"year": 1815, "isbn": "0141439580"}"#)?.get("year"), row.get("year"));
    /// # Ok::<(), waxseal_table::Error>(())
    /// ```
    pub fn row_to_json(&self, row: &Row) -> String {
        let mut out = String::from("{");
        for (name, value) in row.columns() {
            put_name(&mut out, name);
            match self.column_named(name) {
                Some(_) => out.push_str(&value.to_json()),
                None => out.push_str(&value.to_dynamic_json()),
            }
        }
        for group in self.groups().iter().filter(|group| group.is_repeated()) {
            let mut entries = row.entries(group.name()).peekable();
            if entries.peek().is_none() {
                continue;
            }
            put_name(&mut out, group.name());
            out.push('{');
            for entry in entries {
                put_name(&mut out, entry.name());
                out.push('{');
                for (name, value) in entry.columns() {
                    put_name(&mut out, name);
                    out.push_str(&value.to_json());
                }
                out.push('}');
            }
            out.push('}');
        }
        out + "}"
    }

    /// Reads a JSON object as a row of a table with this schema. A column that is null or missing is null.
    ///
    /// Errors: `NotFound` for an unknown column; `Invalid` for text that is not a JSON object, a duplicate column, and
    /// JSON that does not fit the column's type. The error names the column.
    pub fn row_from_json(&self, text: &str) -> Result<Row> {
        let (mut columns, mut entries) = (Vec::new(), Vec::new());
        for (name, value) in json::members(text)? {
            if self.groups().iter().any(|group| group.is_repeated() && group.name() == name) {
                entries.extend(self.entries_from_json(&name, value)?);
                continue;
            }
            let value = match self.column_named(&name) {
                Some(column) if self.is_of_repeated_group(column) => {
                    let group = self.group_of(column);
                    return Err(Error::invalid(format!("column {name:?} is of the repeated group {group:?}")));
                }
                Some(column) => Value::from_part(value, column.column_type()),
                None if self.has_dynamic_columns() => Value::from_dynamic_json(value),
                None => return Err(no_column(&name)),
            };
            let value = value.map_err(|error| in_column(&name, &error))?;
            columns.push((name, value));
        }
        Ok(Row { entries, ..Row::from_columns(columns)? })
    }

    fn entries_from_json(&self, group: &str, text: &str) -> Result<Vec<GroupEntry>> {
        let in_group = |error: Error| Error::of(error.kind(), format!("group {group:?}: {error}"));
        let mut entries = Vec::new();
        if text == "null" {
            return Ok(entries);
        }
        for (name, columns) in json::members(text).map_err(in_group)? {
            let mut entry = GroupEntry { group: group.into(), name, columns: Vec::new() };
            for (name, value) in json::members(columns).map_err(in_group)? {
                let column = self.column_named(&name).filter(|column| self.group_of(column) == group);
                let column = column.ok_or_else(|| in_group(no_column(&name)))?;
                let value = Value::from_part(value, column.column_type());
                match value.map_err(|error| in_group(in_column(&name, &error)))? {
                    Value::Null => {}
                    value => entry.columns.push((name.as_str().into(), value)),
                }
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Returns a visible column.
    pub(crate) fn column_named(&self, name: &str) -> Option<&Column> {
        self.columns().find(|column| column.name() == name)
    }

    fn is_of_repeated_group(&self, column: &Column) -> bool {
        self.groups().iter().any(|group| group.is_repeated() && group.name() == self.group_of(column))
    }
}

/// Appends the name of a member, behind the members before it.
fn put_name(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    json::put_string(out, name);
    out.push(':');
}

#[cold]
pub(crate) fn no_column(name: &str) -> Error {
    Error::of(ErrorKind::NotFound, format!("the table has no column {name:?}"))
}

#[cold]
pub(crate) fn in_column(name: &str, error: &Error) -> Error {
    Error::of(error.kind(), format!("column {name:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ColumnType;

    fn schema() -> Schema {
        Schema::new()
            .partition_key("volume", ColumnType::Text)
            .column("notes", ColumnType::Json)
            .repeated_group("pages")
            .column_in("pages", "contents", ColumnType::Text)
            .column_in("pages", "layouts", ColumnType::Json.list())
            .dynamic_columns()
    }

    #[test]
    fn rows_are_read_back() {
        let mut row = Row::new()
            .with("volume", "iu.1\n")
            .with("notes", Value::Json("null".to_owned()))
            .with("a \"label\"", Value::Date(1))
            .with("{", "{")
            .with_entry("pages", "2", "contents", "{")
            .with_entry("pages", "1\u{0}", "contents", "b");
        row.entries.push(GroupEntry { group: "pages".into(), name: String::new(), columns: Vec::new() });
        let line = schema().row_to_json(&row);
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(schema().row_from_json(&line).unwrap(), row, "{line}");
        assert_eq!(schema().row_from_json("{\"pages\": null, \"notes\": null}").unwrap(), Row::new());
    }

    /// The deepest documents of a column are deeper than those of a row may be.
    #[test]
    fn rows_with_deep_documents_are_read_back() {
        for depth in 120..=128 {
            let document = Value::Json("[".repeat(depth) + &"]".repeat(depth));
            let list = Value::List(vec![document.clone()]);
            let row = Row::new()
                .with("notes", document.clone())
                .with("label", document)
                .with("labels", list.clone())
                .with_entry("pages", "1", "layouts", list.clone());
            let line = schema().row_to_json(&row);
            assert_eq!(schema().row_from_json(&line).unwrap(), row, "{depth}");
            let ty = ColumnType::Json.list();
            assert_eq!(Value::from_json(&list.to_json(), &ty).unwrap(), list, "{depth}");
        }
        let too_deep = "[".repeat(129) + &"]".repeat(129);
        assert!(schema().row_from_json(&format!("{{\"notes\": {too_deep}}}")).is_err());
    }

    #[test]
    fn a_fault_names_its_column() {
        let fixed = Schema::new().partition_key("id", ColumnType::I32);
        for (schema, line, fault) in [
            (&schema(), "{\"contents\": \"a\"}", "column \"contents\" is of the repeated group \"pages\""),
            (&schema(), "{\"pages\": [1]}", "group \"pages\": the text is not a JSON object: see byte 0"),
            (&schema(), "{\"pages\": {\"1\": {\"notes\": 1}}}", "group \"pages\": the table has no column \"notes\""),
            (
                &schema(),
                "{\"pages\": {\"1\": {\"contents\": 1}}}",
                "group \"pages\": column \"contents\": \"1\" is not of type text",
            ),
            (&fixed, "{\"id\": \"x\"}", "column \"id\": \"x\" is not of type i32"),
            (&fixed, "{\"ids\": 1}", "the table has no column \"ids\""),
            (&fixed, "{\"id\": 1, \"id\": 1}", "the JSON object has \"id\" twice"),
        ] {
            assert_eq!(schema.row_from_json(line).unwrap_err().to_string(), fault);
        }
    }
}
