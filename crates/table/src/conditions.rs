//! Conditions and values of columns as text.

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::json;
use crate::json_rows::{in_column, no_column};
use crate::schema::Schema;
use crate::value::Value;

type Comparison = fn(&str, Value) -> Filter;

/// Longer operators first.
const COMPARISONS: [(&str, Comparison); 7] = [
    ("!=", |column, value| Filter::ne(column, value)),
    ("<>", |column, value| Filter::ne(column, value)),
    ("<=", |column, value| Filter::le(column, value)),
    (">=", |column, value| Filter::ge(column, value)),
    ("=", |column, value| Filter::eq(column, value)),
    ("<", |column, value| Filter::lt(column, value)),
    (">", |column, value| Filter::gt(column, value)),
];

impl Schema {
    /// Parses the text form of a value of a column: see [`Value::parse`]. In a dynamic column, text that is a JSON number,
    /// string or truth value, or names its type, is that value. Any other text is a text value: `01234`, `+5`, a number
    /// with blanks around it, a number out of range.
    ///
    /// Errors: `NotFound` for an unknown column; `Invalid` for text that does not fit the column's type.
    pub fn parse_value(&self, column: &str, text: &str) -> Result<Value> {
        match self.column_named(column) {
            Some(found) => Value::parse(text, found.column_type()).map_err(|error| in_column(column, &error)),
            None if self.has_dynamic_columns() => {
                let is_document = json::check(text).is_ok() && json::trimmed(text) == text;
                let value = if is_document { Value::from_dynamic_json(text).ok() } else { None };
                let value = value.filter(|value| !value.is_null());
                Ok(value.unwrap_or_else(|| Value::Text(text.to_owned())))
            }
            None => Err(no_column(column)),
        }
    }
}

impl Filter {
    /// Parses a condition on the rows of a table with a schema. A comparison has a column, one of `=`, `!=`, `<`, `<=`,
    /// `>`, `>=`, and the text form of a value. A check for nulls is written `COLUMN is null` or `COLUMN is not null`.
    /// Blanks around the parts are ignored. A value may be in single quotes, with quotes inside it doubled.
    ///
    /// Errors: `Invalid` for malformed text; `NotFound` for an unknown column.
    ///
    /// ```
    /// use waxseal_table::{ColumnType, Filter, Schema};
    ///
    /// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("year", ColumnType::I32);
    /// let filter = Filter::parse("year >= 1800", &schema)?.and(Filter::parse("isbn != '0141439580'", &schema)?);
    /// # let _ = filter;
    /// # Ok::<(), waxseal_table::Error>(())
    /// ```
    pub fn parse(condition: &str, schema: &Schema) -> Result<Filter> {
        let Some(at) = condition.find(['=', '!', '<', '>']) else { return null_check(condition, schema) };
        let (column, rest) = (condition[..at].trim(), &condition[at..]);
        let found = COMPARISONS.iter().find(|(operator, _)| rest.starts_with(operator));
        let (operator, compare) = found.ok_or_else(|| wrong(condition))?;
        let value = rest[operator.len()..].trim();
        let quoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        let value = match quoted {
            Some(quoted) => schema.parse_value(column, &quoted.replace("''", "'"))?,
            None => schema.parse_value(column, value)?,
        };
        Ok(compare(column, value))
    }
}

fn null_check(condition: &str, schema: &Schema) -> Result<Filter> {
    let words: Vec<&str> = condition.split_whitespace().collect();
    let is = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
    let is_null = match words.as_slice() {
        [_, .., first, second, third] if is(first, "is") && is(second, "not") && is(third, "null") => false,
        [_, .., first, second] if is(first, "is") && is(second, "null") => true,
        _ => return Err(wrong(condition)),
    };
    let lower = condition.to_ascii_lowercase();
    let at = lower.rfind("is").ok_or_else(|| wrong(condition))?;
    let column = condition[..at].trim();
    if schema.column_named(column).is_none() && !schema.has_dynamic_columns() {
        return Err(no_column(column));
    }
    Ok(if is_null { Filter::is_null(column) } else { Filter::is_not_null(column) })
}

#[cold]
fn wrong(condition: &str) -> Error {
    Error::invalid(format!(
        "{condition:?} is no condition: COLUMN and one of =, !=, <, <=, >, >= and a value, or COLUMN is null, or COLUMN \
         is not null"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::row::Row;
    use crate::types::ColumnType;

    fn schema() -> Schema {
        Schema::new().partition_key("this is", ColumnType::Text).column("year", ColumnType::I32)
    }

    #[test]
    fn conditions_hold_for_these_rows() {
        let row = Row::new().with("this is", "it's = 1").with("year", 1815);
        for (condition, holds) in [
            ("year=1815", true),
            (" year  =  '1815' ", true),
            ("year != 1815", false),
            ("year <> 1814", true),
            ("year < 1815", false),
            ("year <= 1815", true),
            ("year > 1814", true),
            ("year >= 1816", false),
            ("this is = it's = 1", true),
            ("this is='it''s = 1'", true),
            ("year is null", false),
            ("this is IS NOT NULL", true),
        ] {
            assert_eq!(Filter::parse(condition, &schema()).unwrap().matches(&row), holds, "{condition}");
        }
        let dynamic = schema().dynamic_columns();
        let row = Row::new().with("label", 5i64).with("text", "5");
        for (condition, holds) in
            [("label = 5", true), ("text = 5", false), ("text = \"5\"", true), ("other is null", true)]
        {
            assert_eq!(Filter::parse(condition, &dynamic).unwrap().matches(&row), holds, "{condition}");
        }
    }

    #[test]
    fn dynamic_text_keeps_its_characters_unless_it_is_json() {
        let dynamic = schema().dynamic_columns();
        for text in ["01234", "+49", ".5", "1.", " 5", "5\n", "-", "", "null", "[1]", "1e-400", "1e400", "\"a"] {
            assert_eq!(dynamic.parse_value("label", text).unwrap(), Value::from(text), "{text}");
        }
        for (text, value) in [
            ("-5", Value::from(-5i64)),
            ("0.5", Value::from(0.5)),
            ("true", Value::from(true)),
            ("\"5\"", Value::from("5")),
            ("{\"date\": \"1970-01-01\"}", Value::Date(0)),
        ] {
            assert_eq!(dynamic.parse_value("label", text).unwrap(), value, "{text}");
        }
        let zip = Row::new().with("this is", "a").with("label", "01234");
        assert!(Filter::parse("label = 01234", &dynamic).unwrap().matches(&zip));
    }

    #[test]
    fn other_conditions_are_refused() {
        for (condition, kind) in [
            ("", ErrorKind::Invalid),
            ("year", ErrorKind::Invalid),
            ("is null", ErrorKind::Invalid),
            ("year ! 5", ErrorKind::Invalid),
            ("year = five", ErrorKind::Invalid),
            ("year = ", ErrorKind::Invalid),
            ("month = 5", ErrorKind::NotFound),
            ("month is null", ErrorKind::NotFound),
            ("= 5", ErrorKind::NotFound),
        ] {
            assert_eq!(Filter::parse(condition, &schema()).unwrap_err().kind(), kind, "{condition}");
        }
    }
}
