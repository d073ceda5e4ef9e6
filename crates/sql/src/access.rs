//! The range of a scan: of the key or of an index, as narrow as the comparisons of a query permit.

use std::fmt;
use std::ops::Bound;

use waxseal_table::{ColumnRole, IndexInfo, IndexState, Partitioning, Schema, Select, Value};

use crate::comparison::{Comparison, ComparisonOperator};

/// What a scan reads.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// `None` for the key.
    index: Option<String>,
    prefix: Vec<Comparison>,
    low: Option<Comparison>,
    high: Option<Comparison>,
    /// The comparisons that the range does not apply.
    rest: Vec<Comparison>,
}

impl Access {
    /// Chooses the range that has the most equalities, then the most bounds. The key is preferred to an index, which
    /// costs a search for each row: an index needs an equality or both bounds, since one bound may leave most rows.
    pub(crate) fn choose(schema: &Schema, comparisons: &[Comparison]) -> Access {
        let mut best = Access::of_key(schema, comparisons);
        for index in schema.indexes() {
            if let Some(other) = Access::of_index(schema, index, comparisons)
                && other.rank() > best.rank().max((0, 1))
            {
                best = other;
            }
        }
        best
    }

    fn of_key(schema: &Schema, comparisons: &[Comparison]) -> Access {
        let columns: Vec<&str> = schema.key_columns().map(|column| column.name()).collect();
        let partition = schema.key_columns().filter(|column| column.role() == ColumnRole::Partition).count();
        let narrowed = Access::over(None, &columns, comparisons);
        // The order of hashed partitions is that of the hash.
        match schema.partitioning() == Partitioning::Hashed && narrowed.prefix.len() < partition {
            true => Access::over(None, &[], comparisons),
            false => narrowed,
        }
    }

    /// Returns `None` if the index does not help, or may lack rows that match.
    fn of_index(schema: &Schema, index: &IndexInfo, comparisons: &[Comparison]) -> Option<Access> {
        if index.state() != IndexState::Public {
            return None;
        }
        let columns: Vec<_> = schema.columns_of_index(index).map(|(column, _)| column).collect();
        // An index leaves out rows that lack one of its columns, and a comparison is never true for these.
        let is_compared = |name: &str| comparisons.iter().any(|comparison| comparison.column == name);
        let is_complete =
            index.has_missing() || columns.iter().all(|column| column.role().is_key() || is_compared(column.name()));
        let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
        is_complete.then(|| Access::over(Some(index.name()), &names, comparisons))
    }

    /// Returns the range over these columns.
    fn over(index: Option<&str>, columns: &[&str], comparisons: &[Comparison]) -> Access {
        use ComparisonOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        let mut rest = comparisons.to_vec();
        let mut take = |column: &str, operators: &[ComparisonOperator]| {
            let is_one = |found: &Comparison| found.column == column && operators.contains(&found.operator);
            rest.iter().position(is_one).map(|place| rest.remove(place))
        };
        let mut prefix = Vec::new();
        let mut next = columns.iter();
        let (mut low, mut high) = (None, None);
        for column in next.by_ref() {
            match take(column, &[Equal]) {
                Some(equality) => prefix.push(equality),
                None => {
                    low = take(column, &[Greater, GreaterOrEqual]);
                    high = take(column, &[Less, LessOrEqual]);
                    break;
                }
            }
        }
        Access { index: index.map(str::to_owned), prefix, low, high, rest }
    }

    fn rank(&self) -> (usize, usize) {
        (self.prefix.len(), usize::from(self.low.is_some()) + usize::from(self.high.is_some()))
    }

    /// Narrows a select to the range and the other comparisons.
    pub(crate) fn narrow<'a>(&self, mut select: Select<'a>) -> Select<'a> {
        if let Some(index) = &self.index {
            select = select.index(index);
        }
        let prefix: Vec<Value> = self.prefix.iter().map(|equality| equality.value.clone()).collect();
        let (low, high) = (bound(self.low.as_ref()), bound(self.high.as_ref()));
        select = select.prefix(prefix).range((low, high));
        self.rest.iter().fold(select, |select, comparison| select.filter(comparison.filter()))
    }
}

fn bound(comparison: Option<&Comparison>) -> Bound<Vec<Value>> {
    use ComparisonOperator::{Greater, Less};
    match comparison {
        None => Bound::Unbounded,
        Some(Comparison { operator: Greater | Less, value, .. }) => Bound::Excluded(vec![value.clone()]),
        Some(Comparison { value, .. }) => Bound::Included(vec![value.clone()]),
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |comparisons: Vec<&Comparison>| {
            comparisons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ")
        };
        match &self.index {
            None => f.write_str("by=key")?,
            Some(index) => write!(f, "by=index {index}")?,
        }
        let range: Vec<&Comparison> = self.prefix.iter().chain(&self.low).chain(&self.high).collect();
        if !range.is_empty() {
            write!(f, ", range=[{}]", shown(range))?;
        }
        if !self.rest.is_empty() {
            write!(f, ", filter=[{}]", shown(self.rest.iter().collect()))?;
        }
        Ok(())
    }
}
