//! Errors of queries.

use std::error::Error as StdError;
use std::fmt;

use datafusion::error::DataFusionError;

/// The error of a query.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A table could not be read: damage, for instance.
    Table(waxseal_table::Error),
    /// The query needs more memory than it may take.
    Memory(String),
    /// The query is malformed, changes something, failed on the values that it read, or met a defect of DataFusion.
    Query(String),
}

/// The result of a query.
pub type Result<T> = std::result::Result<T, Error>;

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Error {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
        while let Some(found) = cause {
            if let Some(of_table) = found.downcast_ref::<waxseal_table::Error>() {
                return Error::Table(of_table.clone());
            }
            cause = found.source();
        }
        match error.find_root() {
            DataFusionError::ResourcesExhausted(message) => Error::Memory(message.clone()),
            _ => Error::Query(error.strip_backtrace()),
        }
    }
}

impl From<waxseal_table::Error> for Error {
    fn from(error: waxseal_table::Error) -> Error {
        Error::Table(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Table(error) => error.fmt(f),
            Error::Memory(message) => write!(f, "the query needs more memory than its bound: {message}"),
            Error::Query(message) => f.write_str(message),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Table(error) => Some(error),
            _ => None,
        }
    }
}
