//! Conditions on the columns of rows.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::row::Row;
use crate::types::ColumnType;
use crate::value::Value;

/// A condition on the columns of a row. Nulls count as in SQL: a comparison with a null is neither true nor false, and
/// a select returns the rows whose condition is true.
///
/// ```
/// use waxseal_table::Filter;
///
/// let recent_novels = Filter::eq("genre", "novel").and(Filter::ge("year", 1900));
/// # let _ = recent_novels;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Filter(Condition);

#[derive(Clone, Debug)]
enum Condition {
    Compare(String, Comparison, Value),
    In(String, Vec<Value>),
    IsNull(String),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident => $comparison:ident;)*) => {
        impl Filter {
            $($(#[$doc])*
            pub fn $name(column: &str, value: impl Into<Value>) -> Filter {
                Filter(Condition::Compare(column.to_owned(), Comparison::$comparison, value.into()))
            })*
        }
    };
}

comparisons! {
    /// The column equals the value.
    eq => Equal;
    /// The column has another value.
    ne => NotEqual;
    /// The column is less than the value.
    lt => Less;
    /// The column is at most the value.
    le => LessOrEqual;
    /// The column is greater than the value.
    gt => Greater;
    /// The column is at least the value.
    ge => GreaterOrEqual;
}

impl Filter {
    /// The column equals one of the values.
    pub fn is_in<V: Into<Value>>(column: &str, values: impl IntoIterator<Item = V>) -> Filter {
        Filter(Condition::In(column.to_owned(), values.into_iter().map(Into::into).collect()))
    }

    /// The row does not have the column.
    pub fn is_null(column: &str) -> Filter {
        Filter(Condition::IsNull(column.to_owned()))
    }

    /// The row has the column.
    pub fn is_not_null(column: &str) -> Filter {
        Filter::is_null(column).negate()
    }

    /// This condition is false.
    pub fn negate(self) -> Filter {
        Filter(Condition::Not(Box::new(self.0)))
    }

    /// Both conditions are true.
    pub fn and(self, other: Filter) -> Filter {
        Filter(Condition::And(Box::new(self.0), Box::new(other.0)))
    }

    /// At least one condition is true.
    pub fn or(self, other: Filter) -> Filter {
        Filter(Condition::Or(Box::new(self.0), Box::new(other.0)))
    }

    /// Converts the values to the types of their columns, which `type_of` returns. Errors: `Invalid` for a value that
    /// does not fit, and those of `type_of`.
    pub(crate) fn resolve<'a>(mut self, type_of: &dyn Fn(&str) -> Result<Option<&'a ColumnType>>) -> Result<Filter> {
        self.0.resolve(type_of)?;
        Ok(self)
    }

    /// Adds the names of its columns to a list.
    pub(crate) fn names<'a>(&'a self, out: &mut Vec<&'a str>) {
        self.0.names(out);
    }

    /// Returns true if a row with these columns matches.
    pub(crate) fn matches(&self, row: &Row) -> bool {
        self.0.evaluate(row) == Some(true)
    }
}

impl Condition {
    fn resolve<'a>(&mut self, type_of: &dyn Fn(&str) -> Result<Option<&'a ColumnType>>) -> Result<()> {
        let fit = |name: &str, value: &mut Value| {
            let Some(ty) = type_of(name)? else { return Ok(()) };
            let fitting = std::mem::replace(value, Value::Null).into_type(ty);
            *value = fitting.map_err(|error| Error::invalid(format!("filter on column {name:?}: {error}")))?;
            Ok(())
        };
        match self {
            Condition::Compare(name, _, value) => fit(name, value),
            Condition::In(name, values) => values.iter_mut().try_for_each(|value| fit(name, value)),
            Condition::IsNull(name) => type_of(name).map(drop),
            Condition::Not(condition) => condition.resolve(type_of),
            Condition::And(one, other) | Condition::Or(one, other) => {
                one.resolve(type_of)?;
                other.resolve(type_of)
            }
        }
    }

    fn names<'a>(&'a self, out: &mut Vec<&'a str>) {
        match self {
            Condition::Compare(name, ..) | Condition::In(name, _) | Condition::IsNull(name) => out.push(name),
            Condition::Not(condition) => condition.names(out),
            Condition::And(one, other) | Condition::Or(one, other) => {
                one.names(out);
                other.names(out);
            }
        }
    }

    /// Returns whether the condition is true; `None` if a null decides.
    fn evaluate(&self, row: &Row) -> Option<bool> {
        match self {
            Condition::Compare(name, comparison, value) => comparison.holds(row.get(name)?, value),
            Condition::In(name, values) => {
                let found = row.get(name)?;
                let has_null = values.iter().any(Value::is_null);
                match values.iter().any(|value| !value.is_null() && found == value) {
                    false if has_null => None,
                    is_in => Some(is_in),
                }
            }
            Condition::IsNull(name) => Some(row.get(name).is_none()),
            Condition::Not(condition) => condition.evaluate(row).map(|truth| !truth),
            Condition::And(one, other) => match (one.evaluate(row), other.evaluate(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Condition::Or(one, other) => match (one.evaluate(row), other.evaluate(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

impl Comparison {
    /// Returns whether the comparison holds; `None` for values that have no order.
    fn holds(self, found: &Value, value: &Value) -> Option<bool> {
        if value.is_null() {
            return None;
        }
        match self {
            Comparison::Equal => return Some(found == value),
            Comparison::NotEqual => return Some(found != value),
            _ => {}
        }
        let ordering = found.compare(value)?;
        Some(match self {
            Comparison::Less => ordering == Ordering::Less,
            Comparison::LessOrEqual => ordering != Ordering::Greater,
            Comparison::Greater => ordering == Ordering::Greater,
            Comparison::GreaterOrEqual => ordering != Ordering::Less,
            Comparison::Equal | Comparison::NotEqual => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_count_as_in_sql() {
        let row = Row::new().with("a", 1);
        let null = || Filter::eq("b", 1);
        assert_eq!(null().0.evaluate(&row), None);
        assert_eq!(null().negate().0.evaluate(&row), None);
        assert_eq!(null().or(Filter::eq("a", 1)).0.evaluate(&row), Some(true));
        assert_eq!(null().and(Filter::eq("a", 2)).0.evaluate(&row), Some(false));
        assert_eq!(null().and(Filter::eq("a", 1)).0.evaluate(&row), None);
        assert_eq!(Filter::eq("a", None::<i32>).0.evaluate(&row), None);
        assert_eq!(Filter::is_in("a", [Some(2), None]).0.evaluate(&row), None);
        assert_eq!(Filter::is_in("a", [Some(1), None]).0.evaluate(&row), Some(true));
        assert!(Filter::is_null("b").matches(&row) && Filter::is_not_null("a").matches(&row));
    }
}
