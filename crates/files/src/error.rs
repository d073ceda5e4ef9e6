//! Errors of file operations, named as POSIX names them.

use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a file operation. Cheap to move; `kind` classifies it, `Display` names the path and the reason.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// use waxseal_files::ErrorKind;
///
/// let error = fs.read("no/such/file").unwrap_err();
/// assert_eq!((error.kind(), error.kind().posix_name()), (ErrorKind::NotFound, "ENOENT"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error(Box<Circumstances>);

#[derive(Clone)]
struct Circumstances {
    kind: ErrorKind,
    path: Option<Vec<u8>>,
    message: String,
    source: Option<waxseal::Error>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $posix:literal;)*) => {
        /// Kinds of errors: one for each POSIX error that file operations return.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
        }

        impl ErrorKind {
            /// Returns the error's name in POSIX, for example `ENOENT`.
            pub fn posix_name(self) -> &'static str {
                match self {
                    $(ErrorKind::$name => $posix,)*
                }
            }

            /// Returns the error's number on Linux.
            pub fn errno(self) -> i32 {
                match self {
                    $(ErrorKind::$name => $number,)*
                }
            }
        }
    };
}

kinds! {
    /// The path does not exist.
    NotFound = 2, "ENOENT";
    /// The path exists.
    Exists = 17, "EEXIST";
    /// A component of the path is not a directory.
    NotDirectory = 20, "ENOTDIR";
    /// The path is a directory.
    IsDirectory = 21, "EISDIR";
    /// The directory has entries.
    NotEmpty = 39, "ENOTEMPTY";
    /// The path is a symbolic link; this crate never follows one.
    SymbolicLink = 40, "ELOOP";
    /// The arguments are not valid.
    Invalid = 22, "EINVAL";
    /// A name or a path is too long.
    NameTooLong = 36, "ENAMETOOLONG";
    /// The file, or the tree that an operation would move, exceeds a limit.
    TooLarge = 27, "EFBIG";
    /// The extended attributes of an entry would exceed their limit, or the disk is full.
    NoSpace = 28, "ENOSPC";
    /// The entry has no extended attribute of this name.
    NoAttribute = 61, "ENODATA";
    /// The handle was not opened for this operation.
    BadHandle = 9, "EBADF";
    /// The operation does not apply to this kind of entry.
    NotPermitted = 1, "EPERM";
    /// The condition of the operation is not met: the file has another content.
    ConditionFailed = 125, "ECANCELED";
    /// The operation was interrupted.
    Interrupted = 4, "EINTR";
    /// The root cannot be removed or renamed.
    Busy = 16, "EBUSY";
    /// The store was opened for reading only.
    ReadOnly = 30, "EROFS";
    /// A snapshot was given back, or its store was closed.
    Stale = 116, "ESTALE";
    /// Stored bytes are damaged or missing. No byte of them is returned.
    Corruption = 5, "EIO";
    /// The store below failed otherwise.
    Store = 5, "EIO";
}

impl Error {
    /// Creates an error of a kind.
    #[cold]
    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Circumstances { kind, path: None, message: message.into(), source: None }))
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Invalid, message)
    }

    #[cold]
    pub(crate) fn corruption(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Corruption, message)
    }

    /// Adds the path to an error that names none yet.
    #[cold]
    pub(crate) fn at(mut self, path: impl AsRef<[u8]>) -> Error {
        self.0.path.get_or_insert_with(|| path.as_ref().to_vec());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the path that the error concerns, if it concerns one.
    pub fn path(&self) -> Option<&[u8]> {
        self.0.path.as_deref()
    }

    /// Returns the error's number on Linux.
    pub fn errno(&self) -> i32 {
        self.0.kind.errno()
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
        let kind = match source.kind() {
            waxseal::ErrorKind::Corruption(_) => ErrorKind::Corruption,
            waxseal::ErrorKind::ReadOnly => ErrorKind::ReadOnly,
            waxseal::ErrorKind::Closed => ErrorKind::Stale,
            waxseal::ErrorKind::Interrupted => ErrorKind::Interrupted,
            _ if source.is_out_of_space() => ErrorKind::NoSpace,
            _ => ErrorKind::Store,
        };
        let message = source.to_string();
        Error(Box::new(Circumstances { kind, path: None, message, source: Some(source) }))
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            ErrorKind::NotFound => Io::NotFound,
            ErrorKind::Exists => Io::AlreadyExists,
            ErrorKind::NotDirectory => Io::NotADirectory,
            ErrorKind::IsDirectory => Io::IsADirectory,
            ErrorKind::NotEmpty => Io::DirectoryNotEmpty,
            ErrorKind::Invalid | ErrorKind::NameTooLong => Io::InvalidInput,
            ErrorKind::TooLarge => Io::FileTooLarge,
            ErrorKind::NoSpace => Io::StorageFull,
            ErrorKind::NotPermitted | ErrorKind::BadHandle => Io::PermissionDenied,
            ErrorKind::Busy => Io::ResourceBusy,
            ErrorKind::ReadOnly => Io::ReadOnlyFilesystem,
            ErrorKind::Stale => Io::StaleNetworkFileHandle,
            ErrorKind::Interrupted => Io::Interrupted,
            ErrorKind::Corruption => Io::InvalidData,
            _ => Io::Other,
        };
        std::io::Error::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.path {
            Some(path) => write!(f, "\"{}\": {}", path.escape_ascii(), self.0.message),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_pass_is_eintr() {
        let error = Error::from(waxseal::Error::of(waxseal::ErrorKind::Interrupted, "stopped by the caller"));
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Interrupted, 4));
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::Interrupted);
    }
}
