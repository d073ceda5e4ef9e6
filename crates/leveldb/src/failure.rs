//! Errors in LevelDB's form: the name of a status, then the message.

use std::fmt;

use waxseal::{Error, ErrorKind, Order, OrderMismatch};

/// The error text of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(String);

impl Failure {
    /// The call is invalid; nothing was changed.
    #[cold]
    pub(crate) fn invalid(what: impl fmt::Display) -> Failure {
        Failure(format!("Invalid argument: {what}"))
    }

    /// The system reported an error.
    #[cold]
    pub(crate) fn io(what: impl fmt::Display) -> Failure {
        Failure(format!("IO error: {what}"))
    }

    /// Stored bytes are damaged.
    #[cold]
    pub(crate) fn corruption(what: impl fmt::Display) -> Failure {
        Failure(format!("Corruption: {what}"))
    }

    /// The pointer names no object: it is NULL, a destroyed object, or an object of another kind.
    #[cold]
    pub(crate) fn dead(ticket: usize, kind: &str) -> Failure {
        match ticket {
            0 => Failure::invalid(format_args!("{kind} is NULL")),
            _ => Failure::invalid(format_args!("{kind} was closed or destroyed, or never was one")),
        }
    }

    /// The database was created with another comparator than the program supplied.
    fn order(OrderMismatch { stored, given, .. }: &OrderMismatch) -> Failure {
        let (stored, given) = (leveldb_name(stored), leveldb_name(given.as_deref().unwrap_or_default()));
        Failure::invalid(format_args!("{stored} does not match existing comparator : {given}"))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Returns LevelDB's name of a comparator; LevelDB uses bytewise order by default.
fn leveldb_name(name: &str) -> &str {
    if name.is_empty() || name == Order::bytewise().name() { "leveldb.BytewiseComparator" } else { name }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        if let Some(mismatch) = error.order_mismatch() {
            return Failure::order(mismatch);
        }
        let text = error.to_string();
        match error.kind() {
            ErrorKind::Corruption(_) => Failure::corruption(text.strip_prefix("corruption in ").unwrap_or(&text)),
            ErrorKind::Invalid => Failure::invalid(text),
            ErrorKind::FormatTooNew => Failure(format!("Not implemented: {text}")),
            ErrorKind::Locked => Failure::io(format_args!("lock: {text}")),
            _ => Failure::io(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_status_comes_first() {
        let said = |error: Error| Failure::from(error).text().to_owned();
        assert_eq!(said(Error::invalid("no")), "Invalid argument: no");
        assert_eq!(said(Error::structural("odd").in_file("7.tbl", 9)), "Corruption: 7.tbl at 9: odd");
        assert_eq!(said(Error::of(ErrorKind::Locked, "open already")), "IO error: lock: open already");
        assert_eq!(said(Error::of(ErrorKind::FormatTooNew, "v9")), "Not implemented: v9");
        let mismatch = |stored: &str, given: Option<&str>| {
            let (family, stored, given) = ("default".to_owned(), stored.to_owned(), given.map(str::to_owned));
            said(OrderMismatch { family, stored, given }.into())
        };
        let other = "Invalid argument: mine does not match existing comparator : other";
        assert_eq!(mismatch("mine", Some("other")), other);
        let usual = "Invalid argument: mine does not match existing comparator : leveldb.BytewiseComparator";
        assert_eq!([mismatch("mine", Some("wax.bytewise")), mismatch("mine", None)], [usual, usual]);
        assert_eq!(said(Error::closed()), "IO error: the store is closed");
    }
}
