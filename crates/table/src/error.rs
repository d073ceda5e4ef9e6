//! Errors of table operations.

use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a table operation. Cheap to move; `kind` classifies it, `Display` names the table and the reason.
///
/// A call that is refused changes nothing.
///
/// ```
/// # fn main() -> waxseal_table::Result<()> {
/// use waxseal_table::{ErrorKind, Tables};
///
/// let error = Tables::open(&waxseal::Db::memory()?)?.table("library.books").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.to_string(), "library.books: the table does not exist");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error(Box<Circumstances>);

#[derive(Clone)]
struct Circumstances {
    kind: ErrorKind,
    table: Option<String>,
    message: String,
    source: Option<waxseal::Error>,
}

/// Kinds of errors, by the reaction that they call for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The keyspace, the table, the column or the index does not exist.
    NotFound,
    /// The keyspace, the table, the column, the index or the row exists.
    Exists,
    /// The arguments are not valid.
    Invalid,
    /// Another commit came first, and the transaction must run again.
    Conflict,
    /// Something else holds what the call needs: a snapshot, a cursor, the change feed. The message names it.
    InUse,
    /// The store was opened for reading only.
    ReadOnly,
    /// The store was closed.
    Closed,
    /// The caller interrupted the operation.
    Interrupted,
    /// A newer version of Waxseal has written the record.
    FormatTooNew,
    /// Stored bytes are damaged or missing. No value of them is returned.
    Corruption,
    /// The store below failed otherwise.
    Store,
}

impl Error {
    /// Creates an error of a kind.
    #[cold]
    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Circumstances { kind, table: None, message: message.into(), source: None }))
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Invalid, message)
    }

    #[cold]
    pub(crate) fn corruption(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Corruption, message)
    }

    /// Returns the error of something that only a newer version of Waxseal writes.
    #[cold]
    pub(crate) fn too_new(what: impl fmt::Display) -> Error {
        let message = format!("{what}: a newer version of Waxseal has written it");
        Error::of(ErrorKind::FormatTooNew, message)
    }

    /// Adds the table to an error that names none yet.
    #[cold]
    pub(crate) fn in_table(mut self, name: &str) -> Error {
        self.0.table.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Puts what it means for the caller in front of the message.
    #[cold]
    pub(crate) fn about(mut self, what: &str) -> Error {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the name of the table that the error concerns, if it concerns one.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// Returns true if stored bytes are damaged or missing.
    pub fn is_corruption(&self) -> bool {
        self.0.kind == ErrorKind::Corruption
    }

    /// Returns the error of the store below, if it caused this one.
    pub fn store_error(&self) -> Option<&waxseal::Error> {
        self.0.source.as_ref()
    }
}

impl From<waxseal::Error> for Error {
    #[cold]
    fn from(source: waxseal::Error) -> Error {
        use waxseal::ErrorKind as Below;
        let kind = match source.kind() {
            Below::Corruption(_) => ErrorKind::Corruption,
            Below::Conflict => ErrorKind::Conflict,
            Below::ReadOnly => ErrorKind::ReadOnly,
            Below::Closed => ErrorKind::Closed,
            Below::Interrupted => ErrorKind::Interrupted,
            Below::FormatTooNew => ErrorKind::FormatTooNew,
            Below::Invalid => ErrorKind::Invalid,
            _ => ErrorKind::Store,
        };
        let message = source.to_string();
        Error(Box::new(Circumstances { kind, table: None, message, source: Some(source) }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.table {
            Some(table) => write!(f, "{table}: {}", self.0.message),
            None => f.write_str(&self.0.message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
