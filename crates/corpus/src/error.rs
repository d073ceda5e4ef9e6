//! Errors of a corpus.

use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a corpus or of a loader.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The tables below failed.
    Table(waxseal_table::Error),
    /// No volume of this id, or no workset of this name, exists.
    NotFound(String),
    /// The reader may not read the volume, because it is not in the public domain.
    Denied(String),
    /// The arguments are not valid.
    Invalid(String),
    /// A source of volumes cannot be read: the file or line, and the reason.
    Source {
        /// The file, and the line or page in it.
        place: String,
        /// Why it was refused.
        reason: String,
    },
}

impl Error {
    #[cold]
    pub(crate) fn source(place: impl fmt::Display, reason: impl fmt::Display) -> Error {
        Error::Source { place: place.to_string(), reason: reason.to_string() }
    }
}

impl From<waxseal_table::Error> for Error {
    #[cold]
    fn from(error: waxseal_table::Error) -> Error {
        Error::Table(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Table(error) => error.fmt(f),
            Error::NotFound(what) => write!(f, "the corpus does not have {what}"),
            Error::Denied(id) => write!(f, "volume {id:?} is not in the public domain, and the reader may not read it"),
            Error::Invalid(reason) => f.write_str(reason),
            Error::Source { place, reason } => write!(f, "{place}: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Table(error) => Some(error),
            _ => None,
        }
    }
}
