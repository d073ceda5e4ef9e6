//! Reads for those who must not wait for a file: answered from memory, or declined.
//!
//! In:    what a read asks for. Out: its answer, if memtables, index, filter and cached blocks hold all that it needs; else nothing, and
//!        whoever asked asks again where waiting is allowed.
//! Holds: an answer is that of the ordinary read (I13). Declined: a table nobody opened yet, a block or a large value that is not in the
//!        cache, and whatever does not agree with itself, since healing reads the file.
//! Costs: as a cached read. A declined one has searched what is above the block that it lacks.

use super::family::{Family, View};
use super::reads::Moment;
use super::snapshot::At;
use super::values::show_cached;
use super::versions::unread;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::options::Verify;
use crate::record::{Kind, Record};
use crate::sst::Checks;

/// Why there is no answer.
enum Unanswered {
    /// It takes a file.
    Declined,
    Failed(Error),
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Unanswered {
        Unanswered::Failed(error)
    }
}

impl Db {
    /// `get_checked`, if no file has to be touched for it; none if one has, and then nothing was shown.
    pub fn get_resident(
        &self,
        family: &Family,
        key: &[u8],
        at: At<'_>,
        verify: Verify,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Option<bool>> {
        let inner = self.open_inner()?;
        let checks = inner.checks(verify);
        if let At::Snapshot(snapshot) = at
            && let Some(views) = snapshot.views()
            && let Some(view) = views.of(family)?
        {
            return inner.get_resident((family, view), key, inner.moment(at)?, checks, visit);
        }
        let view = family.view();
        let moment = inner.moment(at)?;
        inner.get_resident((family, &view), key, moment, checks, visit)
    }

    /// `multi_get_checked`, if no file has to be touched for it; false if one has. What was shown until then counts for nothing.
    pub fn multi_get_resident(
        &self,
        family: &Family,
        keys: &[&[u8]],
        at: At<'_>,
        verify: Verify,
        visit: &mut dyn FnMut(usize, &Record<'_>),
    ) -> Result<bool> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        let moment = inner.moment(at)?;
        for (index, key) in keys.iter().enumerate() {
            let checks = inner.checks(verify);
            let mut show = |record: &Record<'_>| visit(index, record);
            if inner.get_resident((family, &view), key, moment, checks, &mut show)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Inner {
    fn get_resident(
        &self,
        of: (&Family, &View),
        key: &[u8],
        moment: Moment,
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
                // Mostly its value is in a file.
                (Kind::BlobPointer, Some(true)) => {
                    Ok(show_cached(of.1, record, checks.asks_values(), visit).then_some(true))
                }
                (Kind::Put | Kind::BlobPointer | Kind::Delete, is_value) => Ok(is_value), // none: a closer look
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
