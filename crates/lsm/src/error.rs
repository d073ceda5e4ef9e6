//! Errors, classified by the caller's possible reactions.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::env::{Fs, PlaceLost, RealFs, StoreClosed, is_out_of_descriptors};
use crate::key_text::RangeText;

/// The result of every fallible call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// An error. Cheap to clone. `kind` classifies it by possible reactions; `Display` describes it.
///
/// One word in size, so that a successful `Result` fits into registers.
#[derive(Clone)]
pub struct Error(Box<Circumstances>);

#[derive(Clone)]
struct Circumstances {
    kind: ErrorKind,
    message: Arc<str>,
    source: Option<Arc<io::Error>>,
}

/// Kinds of errors, by possible reactions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Stored bytes changed. Repair, salvage or restore the data; the rest of the store stays usable.
    Corruption(Box<Damage>),
    /// The operating system reported an error. Free space or fix the device, then retry.
    Io(io::ErrorKind),
    /// Another process (or handle) has the store open.
    Locked,
    /// The call is invalid; nothing was changed.
    Invalid,
    /// A conflicting commit came first; run the transaction again.
    Conflict,
    /// The store was opened without write access.
    ReadOnly,
    /// Writes have stopped: an earlier fsync or drain failed (I09), or a callback panicked at a point where writes
    /// cannot continue. Reads still work; reopen the store to write.
    Halted,
    /// The store was written by a newer version.
    FormatTooNew,
    /// The store was closed.
    Closed,
    /// The caller's interrupt function ended the call (see `interrupt`). Work that the call had finished is kept.
    Interrupted,
    /// The change feed cannot continue at the position: the log behind it is not kept any more, or it lies in a history
    /// that was cut. The message names the oldest position. Copy the store again, and continue from there.
    OutOfReach,
}

/// The location and nature of corrupt bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// File name inside the store; empty if not known yet.
    pub file: String,
    /// Byte offset in the file of the damaged block or frame.
    pub offset: u64,
    /// Name of the column family, if one is affected.
    pub cf: Option<String>,
    /// Smallest and largest user key that may be affected.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
    /// The recorded checksum.
    pub expected: Option<u64>,
    /// The computed checksum of the bytes found.
    pub found: Option<u64>,
    /// The kind of damage.
    pub verdict: Verdict,
}

/// Kinds of damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The bytes cannot be decoded.
    #[default]
    Structural,
    /// A checksum does not match.
    Checksum,
    /// Required data is missing.
    Missing,
    /// The bytes are intact but do not belong here (another file, an older copy, another offset).
    Misplaced,
    /// A record does not match its seal.
    Seal,
    /// The engine itself lost, added or changed records (I11).
    Ledger,
}

/// The method by which damaged bytes were repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// The file was read again, bypassing memory.
    ReadAgain,
    /// Another copy in memory was intact.
    Memory,
    /// The flipped bits were found by the block's CRC and confirmed by its seals.
    Corrected,
    /// The log still held the records.
    Log,
    /// A file replaced by compaction still held the records.
    Trash,
    /// A source given by the caller held the records.
    Source,
    /// An index was rebuilt from the data blocks.
    Rebuilt,
}

impl Verdict {
    /// Returns the verdict with this number (its position in the enum), as stored in the manifest. Unknown numbers
    /// become the default, `Structural`.
    pub fn from_number(number: u64) -> Verdict {
        let all = [
            Verdict::Structural,
            Verdict::Checksum,
            Verdict::Missing,
            Verdict::Misplaced,
            Verdict::Seal,
            Verdict::Ledger,
        ];
        usize::try_from(number).ok().and_then(|number| all.get(number)).copied().unwrap_or_default()
    }

    /// Returns its name in messages, in `--json` output and in events.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Structural => "structural",
            Verdict::Checksum => "checksum",
            Verdict::Missing => "missing",
            Verdict::Misplaced => "misplaced",
            Verdict::Seal => "seal",
            Verdict::Ledger => "ledger",
        }
    }
}

impl Error {
    /// Creates a corruption error with all known details.
    #[cold]
    pub fn corruption(damage: Damage, message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Corruption(Box::new(damage)), message)
    }

    /// Creates an error for undecodable bytes at a location not known yet; a caller that knows the file adds it with
    /// `in_file`.
    #[cold]
    pub fn structural(message: &str) -> Error {
        Error::corruption(Damage::default(), message)
    }

    /// Creates an error for a checksum mismatch at a location not known yet.
    #[cold]
    pub fn mismatch(expected: u64, found: u64, message: &str) -> Error {
        let damage =
            Damage { expected: Some(expected), found: Some(found), verdict: Verdict::Checksum, ..Damage::default() };
        Error::corruption(damage, message)
    }

    /// Creates an error for an invalid call; nothing was changed.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Invalid, message)
    }

    /// Creates an error for an invalid call, with the error that made it so as a source.
    #[cold]
    pub fn invalid_because(
        message: impl Into<String>,
        reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        let source = Some(Arc::new(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        Error(Box::new(Circumstances { kind: ErrorKind::Invalid, message: message.into().into(), source }))
    }

    /// Creates the error of a directory that holds no store.
    #[cold]
    pub fn no_store(dir: &Path) -> Error {
        Error::invalid_because(format!("there is no store at {}", dir.display()), NoStore)
    }

    /// Creates an error for an operating system error during `what`. Returns `Closed` for a file that was released
    /// because its store was closed, `Halted` if the store lost its lock or its `CURRENT`, and the engine's own error
    /// if `source` was made from one.
    #[cold]
    pub fn io(what: impl fmt::Display, source: io::Error) -> Error {
        if source.get_ref().is_some_and(|cause| cause.is::<StoreClosed>()) {
            return Error::closed();
        }
        if let Some(lost) = source.get_ref().filter(|cause| cause.is::<PlaceLost>()) {
            return Error::of(ErrorKind::Halted, lost.to_string());
        }
        if let Some(story) = source.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            return story.clone();
        }
        let kind = ErrorKind::Io(source.kind());
        let message = match is_out_of_descriptors(&source) {
            true => format!("{what}: {source}: {}", out_of_descriptors()),
            false => format!("{what}: {source}"),
        };
        Error(Box::new(Circumstances { kind, message: message.into(), source: Some(Arc::new(source)) }))
    }

    /// Creates an error of a kind without details.
    #[cold]
    pub fn of(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Circumstances { kind, message: message.into().into(), source: None }))
    }

    /// Creates the error of a reader that needs a file which the writer has replaced since the reader's last `refresh`.
    #[cold]
    pub fn outdated(file: &str) -> Error {
        let what = format!("{file} was replaced by the process that writes the store: call `refresh` and read again");
        Error::of(ErrorKind::Io(io::ErrorKind::StaleNetworkFileHandle), what)
    }

    /// Creates the error for a closed store.
    #[cold]
    pub fn closed() -> Error {
        Error::of(ErrorKind::Closed, "the store is closed")
    }

    /// Adds file and offset to a corruption error that has none yet; other errors are unchanged.
    #[cold]
    pub fn in_file(mut self, file: &str, offset: u64) -> Error {
        if let ErrorKind::Corruption(damage) = &mut self.0.kind
            && damage.file.is_empty()
        {
            damage.file = file.to_owned();
            damage.offset = offset;
        }
        self
    }

    /// Adds the column family and the affected keys to a corruption error that has none yet.
    #[cold]
    pub fn in_family(mut self, cf: &str, keys: Option<(&[u8], &[u8])>) -> Error {
        if let ErrorKind::Corruption(damage) = &mut self.0.kind {
            damage.cf.get_or_insert_with(|| cf.to_owned());
            if let (None, Some((low, high))) = (&damage.key_range, keys) {
                damage.key_range = Some((low.to_vec(), high.to_vec()));
            }
        }
        self
    }

    /// Adds the affected key to a corruption error that has none yet.
    #[cold]
    pub fn in_key(mut self, key: &[u8]) -> Error {
        if let ErrorKind::Corruption(damage) = &mut self.0.kind {
            damage.key_range.get_or_insert_with(|| (key.to_vec(), key.to_vec()));
        }
        self
    }

    /// Appends advice for the caller to the message.
    #[cold]
    pub fn advise(mut self, way: &str) -> Error {
        self.0.message = format!("{}; {way}", self.0.message).into();
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the damage, if this is corruption.
    pub fn damage(&self) -> Option<&Damage> {
        match &self.0.kind {
            ErrorKind::Corruption(damage) => Some(damage),
            _ => None,
        }
    }

    /// Returns both orders, if a family was opened with another order than the stored one.
    pub fn order_mismatch(&self) -> Option<&OrderMismatch> {
        self.0.source.as_ref()?.get_ref()?.downcast_ref()
    }

    /// Returns true if the directory holds no store that could be opened: none, or one whose creation was interrupted.
    pub fn is_no_store(&self) -> bool {
        self.0.source.as_ref().and_then(|source| source.get_ref()).is_some_and(|source| source.is::<NoStore>())
    }

    /// Returns true for corruption.
    pub fn is_corruption(&self) -> bool {
        self.damage().is_some()
    }

    /// Returns true if a read-only store must `refresh`: it needs a file that the writer has replaced.
    pub fn needs_refresh(&self) -> bool {
        self.0.kind == ErrorKind::Io(io::ErrorKind::StaleNetworkFileHandle)
    }

    /// Returns true if the device is full, the quota is exhausted, or the file length limit is reached: the call may
    /// succeed once there is space.
    pub fn is_out_of_space(&self) -> bool {
        self.is_disk_full() || self.0.kind == ErrorKind::Io(io::ErrorKind::FileTooLarge)
    }

    /// Returns true if deleting other files may help: the device is full or the quota is exhausted.
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Io(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A family was opened with another order than the stored one. The source of the corresponding error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderMismatch {
    /// The family's name.
    pub family: String,
    /// The name of its stored order.
    pub stored: String,
    /// The name of the given order; `None` if no order of the stored name was given.
    pub given: Option<String>,
}

impl fmt::Display for OrderMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OrderMismatch { family, stored, given } = self;
        match given {
            Some(given) => write!(f, "family {family:?} is ordered by {stored:?}, not by {given:?}"),
            None => write!(f, "family {family:?} is ordered by {stored:?}, which was not given"),
        }
    }
}

impl std::error::Error for OrderMismatch {}

impl From<OrderMismatch> for Error {
    fn from(mismatch: OrderMismatch) -> Error {
        Error::invalid_because(mismatch.to_string(), mismatch)
    }
}

/// A directory holds no store. The source of the corresponding error.
#[derive(Debug)]
struct NoStore;

impl fmt::Display for NoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no store")
    }
}

impl std::error::Error for NoStore {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            ErrorKind::Corruption(damage) => {
                let file = if damage.file.is_empty() { "(in memory)" } else { &damage.file };
                write!(f, "corruption in {file} at {}: {}", damage.offset, self.0.message)?;
                if let (Some(expected), Some(found)) = (damage.expected, damage.found) {
                    write!(f, " (expected {expected:x}, found {found:x})")?;
                }
                if let Some(cf) = &damage.cf {
                    write!(f, ", family {cf:?}")?;
                }
                match &damage.key_range {
                    Some((low, high)) => write!(f, ", {}", RangeText(low, high)),
                    None => Ok(()),
                }
            }
            _ => f.write_str(&self.0.message),
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
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Lets an engine error pass through a call that returns `io::Result`; `Error::io` restores it.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::Io(kind) => *kind,
            ErrorKind::Corruption(damage) if damage.verdict == Verdict::Missing => io::ErrorKind::NotFound,
            ErrorKind::Corruption(_) => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Describes the limit on open files that was reached.
fn out_of_descriptors() -> String {
    let limit = match RealFs.most_open() {
        Some(limit) => format!("the process may have {limit} files open (RLIMIT_NOFILE)"),
        None => "the system has as many files open as it may have".to_owned(),
    };
    format!("{limit}; raise the limit, close files of the process, or set a smaller `open_tables`")
}

/// Adds the attempted action to an operating system error.
pub trait IoContext<T> {
    /// `what` is evaluated only on failure.
    fn during<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn during<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|source| Error::io(what(), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `EMFILE` on Linux.
    const OUT_OF_DESCRIPTORS: i32 = 24;

    #[test]
    fn an_error_without_descriptors_names_the_file_and_the_limit() {
        let error = Error::io("opening 000007.tbl", io::Error::from_raw_os_error(OUT_OF_DESCRIPTORS)).to_string();
        assert!(error.starts_with("opening 000007.tbl: ") && error.contains("RLIMIT_NOFILE"), "{error}");
        assert!(error.contains("`open_tables`"), "{error}");
    }

    #[test]
    fn an_io_error_tells_a_missing_file_from_damaged_bytes() {
        let kind =
            |verdict| io::Error::from(Error::corruption(Damage { verdict, ..Damage::default() }, "damaged")).kind();
        assert_eq!(kind(Verdict::Missing), io::ErrorKind::NotFound);
        assert_eq!(kind(Verdict::Seal), io::ErrorKind::InvalidData);
    }

    #[test]
    fn corruption_names_the_keys_that_are_concerned() {
        let damage = Damage { file: "000007.tbl".to_owned(), offset: 64, ..Damage::default() };
        let said = |keys: Option<(&[u8], &[u8])>| {
            Error::corruption(damage.clone(), "lost").in_family("users", keys).to_string()
        };
        let place = "corruption in 000007.tbl at 64: lost, family \"users\"";
        assert_eq!(said(None), place);
        assert_eq!(said(Some((b"a", b"a"))), format!("{place}, key \"a\""));
        assert_eq!(said(Some((b"k1\0", b"\xff"))), format!("{place}, keys after \"k1\" to 0xff"));
    }

    #[test]
    fn another_order_is_told_by_both_names() {
        let (family, stored) = ("users".to_owned(), "mine".to_owned());
        let mismatch = OrderMismatch { family, stored, given: Some("other".to_owned()) };
        let error = Error::from(mismatch.clone());
        assert_eq!(error.to_string(), "family \"users\" is ordered by \"mine\", not by \"other\"");
        assert_eq!((error.kind(), error.order_mismatch()), (&ErrorKind::Invalid, Some(&mismatch)));
        assert_eq!(Error::invalid("family").order_mismatch(), None);
    }

    #[test]
    fn an_engine_error_passes_through_an_io_result() {
        let lost = Damage { file: "000007.tbl".to_owned(), verdict: Verdict::Missing, ..Damage::default() };
        let error = Error::io("reading", Error::corruption(lost.clone(), "gone").into());
        assert_eq!(error.damage(), Some(&lost));
        assert!(Error::io("reading", Error::outdated("000007.tbl").into()).needs_refresh());
    }
}
