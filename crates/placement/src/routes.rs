//! The ranges of a table and their present owners.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use waxseal_table::{IntoKey, Schema, Table};

use crate::error::{Error, Result};
use crate::key_span::KeySpan;
use crate::node::Node;

/// A table and its ranges. All handles of a placement share it.
pub(crate) struct Routes {
    pub(crate) table: String,
    pub(crate) schema: Schema,
    /// In the order of their keys, without gaps.
    routes: Vec<Arc<Route>>,
}

/// A range, and the node to which its reads and writes go.
pub(crate) struct Route {
    pub(crate) span: KeySpan,
    /// Held shared by each write, and alone by the end of a move.
    writing: RwLock<()>,
    owner: RwLock<Owner>,
}

/// The owner of a range.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) node: Arc<Node>,
    /// The table on the node, or the reason why it cannot be used.
    table: Result<Table>,
}

impl Owner {
    pub(crate) fn new(node: Arc<Node>, table: Result<Table>) -> Owner {
        Owner { node, table }
    }

    pub(crate) fn table(&self) -> Result<&Table> {
        self.table.as_ref().map_err(Error::clone)
    }
}

impl Route {
    /// Returns the owner. While the guard lives, the range stays with it.
    pub(crate) fn owner(&self) -> RwLockReadGuard<'_, Owner> {
        self.owner.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a write. While the guard lives, no move ends.
    pub(crate) fn admit_write(&self) -> RwLockReadGuard<'_, ()> {
        self.writing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all further writes wait, when those under way have ended. Reads go on.
    pub(crate) fn pause_writes(&self) -> RwLockWriteGuard<'_, ()> {
        self.writing.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the owner, when `commit` has made it durable and the reads under way have ended. A failed
    /// commit may be durable. Calls for the range then fail until the placement is opened again.
    pub(crate) fn switch(&self, owner: Owner, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let outcome = commit();
        let unknown = |error: &Error| error.clone().about(format!("range {} has no known owner", self.span));
        let table = outcome.as_ref().map_err(unknown).and_then(|()| owner.table.clone());
        *self.owner.write().unwrap_or_else(PoisonError::into_inner) = Owner { table, ..owner };
        outcome
    }
}

impl Routes {
    /// Opens the ranges of a table. The first node whose store opens tells the schema.
    ///
    /// Errors: `Invalid` if the ranges leave a gap; those of the open if no store of an owner opens.
    pub(crate) fn open(table: &str, ranges: Vec<(KeySpan, Arc<Node>)>) -> Result<Routes> {
        check_complete(ranges.iter().map(|(span, _)| span))?;
        let mut failure = Error::not_found(format!("table {table} is not placed"));
        for (_, node) in &ranges {
            match node.tables().and_then(|tables| Ok(tables.table(table)?)) {
                Err(error) => failure = error,
                Ok(table_of_node) => {
                    let schema = table_of_node.schema()?;
                    let route = |(span, node): (KeySpan, Arc<Node>)| {
                        let of_node = node.table(table, &schema);
                        Route { span, writing: RwLock::default(), owner: RwLock::new(Owner::new(node, of_node)) }
                    };
                    let routes = ranges.into_iter().map(|range| Arc::new(route(range))).collect();
                    return Ok(Routes { table: table.to_owned(), schema, routes });
                }
            }
        }
        Err(failure)
    }

    /// Returns the beginning of the keys that have these values. All nodes encode keys in the same way. Errors: that of
    /// the first range if no owner's store is open.
    pub(crate) fn encoded_key(&self, key: impl IntoKey) -> Result<Vec<u8>> {
        let owners = || self.routes.iter().map(|route| route.owner());
        let open = owners().find(|owner| owner.table().is_ok()).unwrap_or_else(|| self.routes[0].owner());
        Ok(open.table()?.encoded_key(key)?)
    }

    /// Returns the range of an encoded key.
    pub(crate) fn route(&self, key: &[u8]) -> &Arc<Route> {
        // The first range starts with the least key.
        &self.routes[self.routes.partition_point(|route| route.span.start.as_slice() <= key) - 1]
    }

    /// Returns a range by its limits.
    pub(crate) fn exactly(&self, span: &KeySpan) -> Option<&Arc<Route>> {
        self.routes.iter().find(|route| route.span == *span)
    }

    /// Returns the ranges that may have keys with a prefix, in the order of their keys.
    pub(crate) fn with_prefix(&self, prefix: &[u8]) -> Vec<Arc<Route>> {
        self.routes.iter().filter(|route| route.span.may_have_prefix(prefix)).cloned().collect()
    }
}

/// Checks that ranges in the order of their keys cover a table. Errors: `Invalid`, with the missing range.
pub(crate) fn check_complete<'a>(spans: impl Iterator<Item = &'a KeySpan>) -> Result<()> {
    let (mut next, mut table) = (Some(Vec::new()), String::new());
    let missing = |table: &str, start: Vec<u8>, end: Option<Vec<u8>>| {
        let gap = KeySpan { table: table.to_owned(), start, end };
        Err(Error::invalid(format!("range {gap} has no owner")))
    };
    for span in spans {
        table.clone_from(&span.table);
        match next {
            Some(next) if next == span.start => {}
            Some(next) if next < span.start => return missing(&table, next, Some(span.start.clone())),
            _ => return Err(Error::invalid(format!("range {span} has two owners"))),
        }
        next = span.end.clone();
    }
    match next {
        Some(start) if !table.is_empty() => missing(&table, start, None),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: &[u8], end: Option<&[u8]>) -> KeySpan {
        KeySpan { table: "t.t".to_owned(), start: start.to_vec(), end: end.map(<[u8]>::to_vec) }
    }

    #[test]
    fn a_missing_range_is_named() {
        let fault = |spans: &[KeySpan]| check_complete(spans.iter()).map_err(|error| error.to_string());
        let (first, second, last) = (span(b"", Some(b"a")), span(b"a", Some(b"b")), span(b"b", None));
        assert_eq!(fault(&[first.clone(), second.clone(), last.clone()]), Ok(()));
        let no_owner = |range: &str| Err(format!("range t.t {range} has no owner"));
        assert_eq!(fault(&[second.clone(), last.clone()]), no_owner("[-, 61)"));
        assert_eq!(fault(&[first.clone(), last.clone()]), no_owner("[61, 62)"));
        assert_eq!(fault(&[first.clone(), second.clone()]), no_owner("[62, -)"));
        let wide = span(b"a", None);
        assert_eq!(fault(&[first, wide, last]), Err("range t.t [62, -) has two owners".to_owned()));
    }
}
