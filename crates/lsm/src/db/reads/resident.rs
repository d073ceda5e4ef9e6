//! Reads for callers that must not wait for a file: answered from memory, or declined.
//!
//! In:    the arguments of a read.
//! Out:   its result, if memtables, indexes, filters and cached blocks suffice; otherwise the read is declined, and the
//!        caller repeats it where waiting is allowed.
//! Holds: a result equals that of the ordinary read (I13). A read is declined if it needs an unopened table, or an
//!        uncached block or large value, or if data in memory fails its check, because block repair reads the file.
//! Costs: as a cached read. A declined read has searched everything above the missing block.

use super::values::show_cached;
use super::{ReadPoint, Reads, unread};
use crate::db::state::family::{Family, View};
use crate::error::{Error, Result};
use crate::record::{Kind, Record};
use crate::sst::Checks;

/// Why a read has no result.
enum Unanswered {
    /// It needs a file access.
    Declined,
    Failed(Error),
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Unanswered {
        Unanswered::Failed(error)
    }
}

impl Reads {
    /// Reads a value if memory suffices; returns `None` if it does not.
    pub(in crate::db) fn get_resident(
        &self,
        of: (&Family, &View),
        key: &[u8],
        moment: ReadPoint,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Option<bool>> {
        let mut outcome = Ok(Some(false));
        let decide = |record: &Record<'_>| {
            outcome = match (record.kind, self.is_value(record, moment.as_of, checks)) {
                (Kind::Put, Some(true)) => {
                    visit(record);
                    Ok(Some(true))
                }
                // Most such values are in a file.
                (Kind::BlobPointer, Some(true)) => {
                    Ok(show_cached(of.1, record, checks.asks_values(), visit).then_some(true))
                }
                (Kind::Put | Kind::BlobPointer | Kind::Delete, is_value) => Ok(is_value), // `None`: verify it
                (Kind::Merge, _) => Ok(None),                                             // its inputs may be anywhere
                (kind, _) => Err(unread(kind)),
            };
        };
        let found = self.version_by(of, (key, None), moment.seqno, checks, decide, |table, key_hash, decide| {
            let answer = match table.opened() {
                Some(table) => table.get_resident(key, key_hash, moment.seqno, checks, decide),
                None => None,
            };
            answer.ok_or(Unanswered::Declined)
        });
        match found {
            Ok(_) => outcome,
            Err(Unanswered::Declined) => Ok(None),
            Err(Unanswered::Failed(error)) => Err(error),
        }
    }
}
