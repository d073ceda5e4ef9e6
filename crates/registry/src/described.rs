//! Operations on tables, which a layer above the raw families describes beside the records that it writes. Their events
//! are written with the commit, whatever the mode of the registration.

use waxseal_lsm::error::{Error, ErrorKind, Result};

use crate::matching::RegistrySnapshot;
use crate::operation::{Operation, OperationGroup};
use crate::payload::Payload;
use crate::registration::Registration;
use crate::sessions::Session;
use crate::target::Target;

use waxseal_meta::stamp::StampVerb;

/// An operation that a layer above the raw families makes by a commit.
#[derive(Clone, Debug)]
pub struct DescribedOperation {
    /// The index, in the commit, of the last record that it writes.
    pub at: u64,
    /// What it happens to.
    pub target: Target,
    /// The operation.
    pub operation: Operation,
    /// What its event says.
    pub payload: Payload,
}

/// What a caller says of the records of a commit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes<'a> {
    /// The session that makes it; `None`: anonymous.
    pub who: Option<&'a Session>,
    /// The log names of the records, in order. Puts beyond its end are updates, and deletes are always deletes.
    pub verbs: &'a [StampVerb],
    /// The operations that the records make up.
    pub described: &'a [DescribedOperation],
    /// The records are of a layer that describes its operations: registrations of the whole store log these in place of
    /// the records.
    pub is_described: bool,
    /// The caller has described nothing because nothing was registered. If something is, the commit is a conflict.
    pub expects_unwatched: bool,
}

impl Notes<'_> {
    /// Fails with `Conflict` if the caller has described nothing and something is registered.
    pub(crate) fn check(&self) -> Result<()> {
        match self.expects_unwatched {
            true => Err(Error::of(ErrorKind::Conflict, "an operation was registered meanwhile")),
            false => Ok(()),
        }
    }
}

/// Returns the registration that logs a described operation. An operation on a row has one event: those on its columns
/// are logged if a column or the operation itself is registered.
pub(crate) fn registration_of<'a>(
    described: &DescribedOperation,
    snapshot: &'a RegistrySnapshot,
) -> Option<&'a Registration> {
    let found = snapshot.find(&described.target, described.operation)?;
    let is_column = described.operation.group() == OperationGroup::Column;
    (!is_column || names_columns(found)).then_some(found)
}

/// Returns true if a registration asks for operations on columns.
fn names_columns(registration: &Registration) -> bool {
    let named = registration.operation.is_some_and(|operation| operation.group() == OperationGroup::Column);
    named || matches!(registration.target, Target::Column { .. })
}
