//! Errors of placements.

use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a placement. `kind` classifies it, `Display` names the node or the range and the reason.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Kinds of errors, by the reaction that they call for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments are not valid, or the state of a node does not allow the call.
    Invalid,
    /// Unknown node, table or range.
    NotFound,
    /// The node, the table or the row exists.
    Exists,
    /// A copy differs from its range. The owner is the old one.
    Unproved,
    /// The placement store is older than a move that the stores of its nodes know: it was restored from a backup. Its
    /// owners are no longer the owners.
    Outdated,
    /// Stored bytes are damaged or missing.
    Corruption,
    /// Another process has a store open.
    Locked,
    /// A store failed otherwise.
    Store,
}

impl Error {
    #[cold]
    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Invalid, message)
    }

    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::NotFound, message)
    }

    #[cold]
    pub(crate) fn corruption(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Corruption, message)
    }

    #[cold]
    pub(crate) fn io(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Store, message)
    }

    /// Names the node or the range that an error concerns.
    #[cold]
    pub(crate) fn about(self, subject: impl fmt::Display) -> Error {
        Error { message: format!("{subject}: {}", self.message), ..self }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<waxseal_table::Error> for Error {
    #[cold]
    fn from(error: waxseal_table::Error) -> Error {
        use waxseal_table::ErrorKind as Below;
        let kind = match error.kind() {
            Below::Corruption => ErrorKind::Corruption,
            Below::NotFound => ErrorKind::NotFound,
            Below::Exists => ErrorKind::Exists,
            Below::Invalid => ErrorKind::Invalid,
            _ if error.store_error().is_some_and(is_locked) => ErrorKind::Locked,
            _ => ErrorKind::Store,
        };
        Error::of(kind, error.to_string())
    }
}

impl From<waxseal::Error> for Error {
    #[cold]
    fn from(error: waxseal::Error) -> Error {
        waxseal_table::Error::from(error).into()
    }
}

fn is_locked(error: &waxseal::Error) -> bool {
    matches!(error.kind(), waxseal::ErrorKind::Locked)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
