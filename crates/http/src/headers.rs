//! Names of headers, and texts in them, that client and server share.

/// The name of an error in POSIX.
pub(crate) const ERROR: &str = "waxseal-error";
/// The value of [`ERROR`] for damage, which POSIX does not tell from other failures of a device.
pub(crate) const CORRUPTION: &str = "CORRUPTION";
/// The family that the client takes the files from, percent-encoded.
pub(crate) const FAMILY: &str = "waxseal-family";
/// The name of the session in whose name a change is logged, percent-encoded. Only through the socket.
pub(crate) const SESSION: &str = "waxseal-session";
/// Permission bits, octal.
pub(crate) const MODE: &str = "waxseal-mode";
/// `uid:gid`.
pub(crate) const OWNER: &str = "waxseal-owner";
/// Nanoseconds since 1970.
pub(crate) const MTIME: &str = "waxseal-mtime";
/// `link`: the body of a `PUT` is the target of a symbolic link.
pub(crate) const KIND: &str = "waxseal-kind";
pub(crate) const KIND_LINK: &str = "link";
/// `true`: directories above are created, too.
#[cfg(feature = "server")]
pub(crate) const PARENTS: &str = "waxseal-parents";
/// The name of a cursor of the change feed, percent-encoded, which a `POST` to the root creates or moves. Only through the
/// socket.
pub(crate) const CURSOR: &str = "waxseal-cursor";
/// The position that the cursor gets.
pub(crate) const POSITION: &str = "waxseal-position";
/// A new directory for a checkpoint of the store after the cursor, percent-encoded.
pub(crate) const CHECKPOINT: &str = "waxseal-checkpoint";
/// Extended attributes that an entry did not get, as a message.
pub(crate) const REFUSED: &str = "waxseal-refused";
/// The content type of a body of [parts](crate::parts).
pub(crate) const PARTS_TYPE: &str = "application/x-waxseal-parts";
