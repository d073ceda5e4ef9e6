//! Stamped: operations that are watched get stamps, and the flush that meets them tells of each.
//!
//! ```text
//! push_stamped   one operation with its stamp, its key hashed once
//! push_filled    the same for whoever writes many: nothing of the stamp but time and session is told anew
//! restamp        a batch that was built before anybody asked, again, with stamps where they are due
//! emit           a flush meets a record: its stamp and itself are checked, then the `Emitter` says what row it has
//! seal_row       a row that no caller wrote gets a seal like any other
//! ```
//!
//! Holds: the seal of an operation is the same with and without a stamp. No row is made of a record or a stamp that is not what was
//! written: the flush then fails, as it does where it meets such a record, and is done again from the log.
//! Crash: rows stand in the edit that makes the flush true.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::batch::{Batch, Operation};
use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::error::{Damage, Error, Result, Verdict};
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Companions, Draft, Emitted, Emitting, Protection};

use crate::Seal;
use crate::beside::{Beside, SEAL_BYTES, put_without_stamp, seal_bytes, word_and_stamp};
use crate::counts::Count;
use crate::keeper::Sealer;
use crate::stamp::{self, Blank, Stamp};

/// Says which rows of other families a stamped record gives rise to. All calls come from flushes, any thread, and from recovery
/// before the store is open.
pub trait Emitter: Send + Sync {
    /// A flush meets a stamped record whose row stands nowhere yet: appends it. Rows without companions are sealed by the keeper.
    /// `record` and `stamp` are what was written. It may be asked again for the same record, if the flush fails.
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, stamp: &Stamp, rows: &mut Vec<Emitted>) -> Result<()>;

    /// A flush meets a stamp, whether or not its row stands elsewhere: whoever keeps the clock goes on behind its time.
    fn observe(&self, _stamp: &Stamp) {}
}

/// Who is asked for rows, if anybody is.
#[derive(Clone, Default)]
pub(crate) struct Emits(Option<Arc<dyn Emitter>>);

impl fmt::Debug for Emits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Emits" } else { "EmitsNothing" })
    }
}

impl Sealer {
    /// The same with somebody who says which rows stamped records give rise to. Without one they give rise to none.
    #[must_use]
    pub fn emitting(mut self, emitter: Arc<dyn Emitter>) -> Sealer {
        self.emits = Emits(Some(emitter));
        self
    }

    /// Adds an operation with its stamp, and with the seal that the caller was given, if it was. Errors: as those of `Batch::push_given`
    /// and of `push_sealed_given`; the batch is then as it was.
    pub fn push_stamped(&self, batch: &mut Batch, draft: &Draft<'_>, seal: Option<Seal>, stamp: &Stamp) -> Result<()> {
        self.push_filled(batch, draft, seal, (stamp.blank(), stamp.time, stamp.session))
    }

    /// The same with a stamp whose time and session are told beside it.
    #[inline]
    pub fn push_filled(
        &self,
        batch: &mut Batch,
        draft: &Draft<'_>,
        seal: Option<Seal>,
        (blank, time, session): (Blank, u64, u64),
    ) -> Result<()> {
        let key_hash = draft.hashed_key();
        batch.push_hashed(draft.family, draft.kind, (draft.key, key_hash), draft.value, |out| {
            match seal {
                None => self.accompany(draft, key_hash, out)?,
                Some(seal) => self.accompany_sealed(draft, key_hash, seal, out)?,
            }
            blank.put(time, session, key_hash, out);
            Ok(())
        })
    }

    /// Adds the operations of a batch to `out`, in order, each with the stamp that `stamps` gives it in the place of any that it has, or
    /// as it was. Their seals and entries go on byte by byte. What `batch` was granted, `out` is not. Errors: `Invalid` beyond the
    /// limits of a batch.
    pub fn restamp(
        &self,
        batch: &Batch,
        out: &mut Batch,
        stamps: &mut dyn FnMut(&Operation<'_>, u64) -> Option<Stamp>,
    ) -> Result<()> {
        if batch.is_held() {
            out.hold();
        }
        for operation in batch.operations() {
            let operation = operation?;
            let Operation { family, kind, key, value, companion } = operation;
            let key_hash = hash_key(key);
            let stamp = stamps(&operation, key_hash);
            out.push_hashed(family, kind, (key, key_hash), value, |out| match stamp {
                None => {
                    out.extend_from_slice(companion);
                    Ok(())
                }
                Some(stamp) => {
                    put_without_stamp(companion, out)?;
                    stamp.put(key_hash, out);
                    Ok(())
                }
            })?;
        }
        Ok(())
    }

    /// Seals a row that no caller wrote, in the place of what companions it has.
    pub fn seal_row(&self, row: &mut Emitted) {
        let seal = Seal::of(row.key(), row.value());
        row.accompany(&seal_bytes(seal.at(row.seqno)));
        self.tally.add(Count::Derived);
    }

    /// What a flush that meets a record is told of it.
    #[inline]
    pub(crate) fn emit_of(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
        match &self.emits.0 {
            Some(emitter) if self.may_emit_of(record) => self.emit_slowly(&**emitter, family, record, rows),
            _ => Ok(()),
        }
    }

    /// True if there may be a stamp that a flush makes a row of.
    #[inline]
    pub(crate) fn may_emit_of(&self, record: &Record<'_>) -> bool {
        self.emits.0.is_some() && record.companion.len() > SEAL_BYTES
    }

    fn emit_slowly(
        &self,
        emitter: &dyn Emitter,
        family: &Emitting<'_>,
        record: &Record<'_>,
        rows: &mut Vec<Emitted>,
    ) -> Result<()> {
        let key_hash = hash_key(record.key);
        let stamp = Stamp::standing(record.companion, key_hash).map_err(|error| of_record(&error, record))?;
        let Some(stamp) = stamp else { return Ok(()) };
        emitter.observe(&stamp);
        if stamp.elsewhere {
            return Ok(());
        }
        // A record that the flush leaves out is checked by nobody else before its row is written.
        if !self.verify(record, key_hash, Protection::Partial).serves() {
            return Err(of_record(&"a record that is watched does not match its seal", record));
        }
        let first = rows.len();
        emitter.emit(family, record, &stamp, rows)?;
        rows[first..].iter_mut().filter(|row| row.companion().is_empty()).for_each(|row| self.seal_row(row));
        Ok(())
    }
}

/// True if a record's stamp asks that the version below it be kept.
#[inline]
pub fn has_history(record: &Record<'_>) -> bool {
    if record.companion.len() <= SEAL_BYTES {
        return false;
    }
    match word_and_stamp(record.companion) {
        Some((_, content)) => stamp::says_history(content),
        None => Beside::read(record.companion).is_ok_and(|beside| beside.stamp.is_some_and(stamp::says_history)),
    }
}

/// True if a record that may be given out has a stamp that was hit.
pub(crate) fn is_stamp_hit(companions: &[u8], key_hash: u64) -> bool {
    let stamp = Beside::read(companions).map(|beside| beside.stamp);
    stamp.is_ok_and(|stamp| stamp.is_some_and(|content| !stamp::is_whole(content, key_hash)))
}

/// The companions of a record that goes to another store and whose row stands in the log already, so that no flush writes it again
/// there. What it hid stays behind, and nothing else is to be taken for that. A stamp that was hit goes.
pub(crate) fn told(companions: &[u8], key_hash: u64) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(companions.len());
    put_without_stamp(companions, &mut out)?;
    if let Some(content) = Beside::read(companions)?.stamp
        && let Some(stamp) = Stamp::read(content, key_hash)
    {
        Stamp { elsewhere: true, history: false, ..stamp }.put(key_hash, &mut out);
    }
    Ok(out)
}

/// Damage that a flush notices in memory, which sends it to the log.
#[cold]
fn of_record(what: &dyn fmt::Display, record: &Record<'_>) -> Error {
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    Error::corruption(Damage { verdict: Verdict::Seal, key_range, ..Damage::default() }, what.to_string())
}
