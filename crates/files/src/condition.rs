//! Conditions of writes and removals, as the conditional requests of HTTP name them.

use crate::entity_tag::EntityTag;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::Metadata;

/// The condition under which a file is written or removed. It is checked in the same step, so that of two writers that
/// replace the same content one fails.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// use waxseal_files::{Condition, ErrorKind, SetAttributes};
///
/// fs.write("page", "first")?;
/// let tag = fs.stat("page")?.etag().expect("no change waits");
/// fs.write("page", "by another writer")?;
/// let error = fs.write_if("page", "second", &SetAttributes::new(), Condition::Matches(tag)).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::ConditionFailed);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Condition {
    /// None.
    #[default]
    Always,
    /// The path does not exist (`If-None-Match: *`).
    Absent,
    /// The path exists (`If-Match: *`).
    Exists,
    /// The file has this content (`If-Match`).
    Matches(EntityTag),
    /// The file has another content, or does not exist (`If-None-Match`). While changes wait in memory, the content is
    /// not known and the condition fails.
    Differs(EntityTag),
}

impl Condition {
    /// Checks the condition against the attributes of the path, with changes that wait in memory. Errors:
    /// `ConditionFailed`.
    pub(crate) fn check(self, found: Option<Metadata>) -> Result<()> {
        let tag = found.and_then(|metadata| metadata.etag());
        let is_met = match self {
            Condition::Always => true,
            Condition::Absent => found.is_none(),
            Condition::Exists => found.is_some(),
            Condition::Matches(expected) => tag == Some(expected),
            Condition::Differs(other) => found.is_none() || tag.is_some_and(|tag| tag != other),
        };
        match is_met {
            true => Ok(()),
            false => Err(Error::of(ErrorKind::ConditionFailed, "the content is not the one that the condition names")),
        }
    }
}
