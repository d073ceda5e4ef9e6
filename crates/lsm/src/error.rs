//! Errors, named by what the caller can do about them.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::env::{Fs, LockLost, RealFs, StoreClosed, is_out_of_descriptors};
use crate::key_text::RangeText;

/// What every fallible call of the engine answers.
pub type Result<T> = std::result::Result<T, Error>;

/// One failure. Cheap to clone; `kind` says what can be done, `Display` tells the story.
///
/// One word: what nearly always succeeds answers in registers, and nobody makes room for a failure on its way up.
#[derive(Clone)]
pub struct Error(Box<Story>);

#[derive(Clone)]
struct Story {
    kind: ErrorKind,
    message: Arc<str>,
    source: Option<Arc<io::Error>>,
}

/// Failures by what the caller can do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes are not what was written. Repair, salvage or restore; the rest of the store goes on.
    Corruption(Box<Damage>),
    /// The operating system refused. Free space or mend the device, then repeat.
    Io(io::ErrorKind),
    /// Another process (or handle) has the store open.
    Locked,
    /// The call is wrong; nothing was changed.
    Invalid,
    /// Another commit came first; run the transaction again.
    Conflict,
    /// The store was opened without the right to write.
    ReadOnly,
    /// An earlier fsync or drain failed (I09), or a callback panicked where nobody may go on; reads do, reopen to write.
    Halted,
    /// The store was written by a newer version.
    FormatTooNew,
    /// The store was closed.
    Closed,
    /// The caller's own interrupt function ended the call (`interrupt`). What the call had finished stays.
    Interrupted,
}

/// Where bytes are not what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// File name inside the store, empty if not known yet.
    pub file: String,
    /// Byte offset in the file of the block or frame that is hit.
    pub offset: u64,
    /// Name of the column family, if one is concerned.
    pub cf: Option<String>,
    /// Smallest and largest user key that may be concerned.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
    /// The sum that was recorded.
    pub expected: Option<u64>,
    /// The sum of what is there.
    pub found: Option<u64>,
    /// What is wrong.
    pub verdict: Verdict,
}

/// What is wrong with damaged bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The bytes cannot be decoded.
    #[default]
    Structural,
    /// A checksum does not match.
    Checksum,
    /// Something that must be there is not.
    Missing,
    /// The bytes are whole but do not belong here (another file, an older copy, another place).
    Misplaced,
    /// A record does not match its seal.
    Seal,
    /// Records were lost, added or changed by the engine itself (I11).
    Ledger,
}

/// What made damaged bytes right again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// The file was read once more, past what memory held of it.
    ReadAgain,
    /// Another copy in memory was whole.
    Memory,
    /// The flipped bits were found by the block's sum, and confirmed by its seals.
    Corrected,
    /// The log still held the records.
    Log,
    /// A file that compaction had replaced still held them.
    Trash,
    /// A source that the caller gave had them.
    Source,
    /// What leads to blocks was made anew from the blocks themselves.
    Rebuilt,
}

impl Verdict {
    /// The verdict with this number (its place in the list), as the manifest keeps it; an unknown one says only that something is wrong.
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

    /// Its name in messages, in `--json` and in events.
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
    /// Corruption with everything that is known of it.
    #[cold]
    pub fn corruption(damage: Damage, message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Corruption(Box::new(damage)), message)
    }

    /// Undecodable bytes, place not known yet: whoever knows the file adds it with `in_file`.
    #[cold]
    pub fn structural(message: &str) -> Error {
        Error::corruption(Damage::default(), message)
    }

    /// A checksum that does not match, place not known yet.
    #[cold]
    pub fn mismatch(expected: u64, found: u64, message: &str) -> Error {
        let damage =
            Damage { expected: Some(expected), found: Some(found), verdict: Verdict::Checksum, ..Damage::default() };
        Error::corruption(damage, message)
    }

    /// A wrong call; nothing was changed.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::of(ErrorKind::Invalid, message)
    }

    /// An error of the operating system while doing `what`. `Closed` for a file that was released because its store was closed, `Halted` if
    /// the store has lost its lock; the engine's own error, if `source` was made from one.
    #[cold]
    pub fn io(what: impl fmt::Display, source: io::Error) -> Error {
        if source.get_ref().is_some_and(|cause| cause.is::<StoreClosed>()) {
            return Error::closed();
        }
        if let Some(lost) = source.get_ref().filter(|cause| cause.is::<LockLost>()) {
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
        Error(Box::new(Story { kind, message: message.into(), source: Some(Arc::new(source)) }))
    }

    /// An error of a plain kind.
    #[cold]
    pub fn of(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Story { kind, message: message.into().into(), source: None }))
    }

    /// A reader needs a file that the writer has replaced since the reader looked at the store.
    #[cold]
    pub fn outdated(file: &str) -> Error {
        let what = format!("{file} was replaced by the process that writes the store: call `refresh` and read again");
        Error::of(ErrorKind::Io(io::ErrorKind::StaleNetworkFileHandle), what)
    }

    /// The store was closed.
    #[cold]
    pub fn closed() -> Error {
        Error::of(ErrorKind::Closed, "the store is closed")
    }

    /// Names the file and offset of a corruption that does not have one yet; other errors pass unchanged.
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

    /// Adds the column family and the keys concerned to a corruption that does not have them yet.
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

    /// Adds the key concerned to a corruption that has none yet.
    #[cold]
    pub fn in_key(mut self, key: &[u8]) -> Error {
        if let ErrorKind::Corruption(damage) = &mut self.0.kind {
            damage.key_range.get_or_insert_with(|| (key.to_vec(), key.to_vec()));
        }
        self
    }

    /// Adds to the text what the caller can do about it.
    #[cold]
    pub fn advise(mut self, way: &str) -> Error {
        self.0.message = format!("{}; {way}", self.0.message).into();
        self
    }

    /// What can be done about it.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The damage, if this is corruption.
    pub fn damage(&self) -> Option<&Damage> {
        match &self.0.kind {
            ErrorKind::Corruption(damage) => Some(damage),
            _ => None,
        }
    }

    /// The orders, if a family was opened by another one than it is stored in.
    pub fn order_mismatch(&self) -> Option<&OrderMismatch> {
        self.0.source.as_ref()?.get_ref()?.downcast_ref()
    }

    /// True for corruption.
    pub fn is_corruption(&self) -> bool {
        self.damage().is_some()
    }

    /// True if a read-only store has to `refresh`: it needs a file that the writer has replaced.
    pub fn needs_refresh(&self) -> bool {
        self.0.kind == ErrorKind::Io(io::ErrorKind::StaleNetworkFileHandle)
    }

    /// True if the device is full, the quota is used up, or a file may not be that long: the same call may succeed once there is space.
    pub fn is_out_of_space(&self) -> bool {
        self.is_disk_full() || self.0.kind == ErrorKind::Io(io::ErrorKind::FileTooLarge)
    }

    /// The same, where other files stand in the way.
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Io(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A family was opened by another order than it is stored in. The source of the error that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderMismatch {
    /// The family.
    pub family: String,
    /// The name of its order.
    pub stored: String,
    /// The name of the order that was given; none: no order of the stored name was.
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
        let (kind, message) = (ErrorKind::Invalid, mismatch.to_string().into());
        let source = Some(Arc::new(io::Error::new(io::ErrorKind::InvalidInput, mismatch)));
        Error(Box::new(Story { kind, message, source }))
    }
}

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

/// Lets an engine error pass through a call that answers `io::Result`; `Error::io` gives it back.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::Io(kind) => *kind,
            ErrorKind::Corruption(_) => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Says which limit a process without descriptors has met.
fn out_of_descriptors() -> String {
    let limit = match RealFs.most_open() {
        Some(limit) => format!("the process may have {limit} files open (RLIMIT_NOFILE)"),
        None => "the system has as many files open as it may have".to_owned(),
    };
    format!("{limit}; raise the limit, close files of the process, or set a smaller `open_tables`")
}

/// Adds what was being done to an error of the operating system.
pub trait IoContext<T> {
    /// `what` is only built on failure.
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
