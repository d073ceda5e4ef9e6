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

/// A registered range delete or described operation of a batch. Its event is written with it, whatever the mode of the
/// registration.
pub(crate) struct WatchedEvent {
    /// Its index in the batch.
    pub(crate) at: u64,
    pub(crate) registration: Registration,
    pub(crate) target: Target,
    pub(crate) operation: Operation,
    pub(crate) payload: Payload,
}

/// Finds the registered operations among those that are described. Of several on one target that are described after the
/// same record, one event has the fields of all: their rows in the log would have the same key.
///
/// Errors: `Invalid` for a target that is too long for the log, if operations on it may be registered.
pub(crate) fn look_at_described(
    described: &[DescribedOperation],
    snapshot: &RegistrySnapshot,
    found: &mut Vec<WatchedEvent>,
) -> Result<()> {
    let first = found.len();
    for one in described {
        let Some(registration) = registration_of(one, snapshot)? else { continue };
        let DescribedOperation { at, target, operation, payload } = one;
        let same =
            |event: &&mut WatchedEvent| (event.at, event.operation) == (*at, *operation) && event.target == *target;
        // Those of one record follow each other.
        match found[first..].iter_mut().rev().take_while(|event| event.at == *at).find(same) {
            Some(event) => add_fields(&mut event.payload, payload, operation.group()),
            None => found.push(WatchedEvent {
                at: *at,
                registration: registration.clone(),
                target: target.clone(),
                operation: *operation,
                payload: payload.clone(),
            }),
        }
    }
    Ok(())
}

/// Adds the fields of an operation on the same target. Those of tables are lists: the second type is that of the second
/// column. A row's columns and keys are named once.
fn add_fields(to: &mut Payload, from: &Payload, group: OperationGroup) {
    let is_list = matches!(group, OperationGroup::Schema | OperationGroup::Table | OperationGroup::Range);
    for field in from.fields() {
        if is_list || !to.fields().contains(field) {
            to.push(field.clone());
        }
    }
}

/// Returns the registration that logs a described operation. An operation on a row has one event: those on its columns
/// are logged if a column or the operation itself is registered. One that deletes all rows of its target is logged for
/// registrations of these rows, too, as a range delete of a family is.
fn registration_of<'a>(
    described: &DescribedOperation,
    snapshot: &'a RegistrySnapshot,
) -> Result<Option<&'a Registration>> {
    let DescribedOperation { target, operation, .. } = described;
    let path = match target.to_path() {
        Ok(path) => path,
        Err(_) if !snapshot.concerns(&target.above_rows()) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = snapshot.find_path(&path, *operation);
    if operation.group() == OperationGroup::Column {
        return Ok(found.filter(|found| names_columns(found)));
    }
    Ok(found.or_else(|| if deletes_rows(*operation) { snapshot.delete_of_rows(target) } else { None }))
}

/// Returns true if an operation deletes all rows of its target.
fn deletes_rows(operation: Operation) -> bool {
    matches!(operation, Operation::RANGE_DELETE | Operation::TABLE_TRUNCATE | Operation::TABLE_DROP)
}

/// Returns true if a registration asks for operations on columns.
fn names_columns(registration: &Registration) -> bool {
    let named = registration.operation.is_some_and(|operation| operation.group() == OperationGroup::Column);
    named || matches!(registration.target, Target::Column { .. })
}
