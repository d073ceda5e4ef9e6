//! Watched operations get stamps, and a flush makes the event rows of the stamped records it reads.
//!
//! ```text
//! push_stamped   adds one operation with its stamp; its key is hashed once
//! push_filled    the same for callers with many writes: only time and session change between stamps
//! restamp        copies an existing batch and adds the stamps that are due
//! emit           a flush reads a record: the record and its stamp are checked, then the `Emitter` makes its rows
//! seal_row       gives an engine-made row a seal like any other
//! ```
//!
//! Holds:  a stamp does not change an operation's seal. No row is made from a damaged record or stamp: the
//!         flush then fails, as for any damaged record in memory, and is repeated from the log.
//! Crash:  rows are part of the manifest edit that installs the flush.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::batch::{Batch, BatchOperation};
use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::error::{Damage, Error, Result, Verdict};
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Companions, Emitted, Emitting, PendingWrite, Protection};

use crate::Seal;
use crate::annotations::{Annotations, SEAL_BYTES, put_without_stamp, seal_bytes};
use crate::counts::Count;
use crate::emitter::{Emits, Emitter};
use crate::protector::Sealer;
use crate::stamp::{Blank, Stamp};
use crate::stamp_check::is_whole;

impl Sealer {
    /// Returns this protector with an emitter. Without one, stamped records cause no rows.
    #[must_use]
    pub fn emitting(mut self, emitter: Arc<dyn Emitter>) -> Sealer {
        self.emits = Emits(Some(emitter));
        self
    }

    /// Adds an operation with its stamp, and with the caller's seal if given. Errors: those of `Batch::push_given` and
    /// of `push_sealed`; the batch is then unchanged.
    pub fn push_stamped(
        &self,
        batch: &mut Batch,
        pending: &PendingWrite<'_>,
        seal: Option<Seal>,
        stamp: &Stamp,
    ) -> Result<()> {
        self.push_filled(batch, pending, seal, (stamp.blank(), stamp.time, stamp.session))
    }

    /// Like `push_stamped`, with the stamp's time and session as separate arguments.
    #[inline]
    pub fn push_filled(
        &self,
        batch: &mut Batch,
        pending: &PendingWrite<'_>,
        seal: Option<Seal>,
        (blank, time, session): (Blank, u64, u64),
    ) -> Result<()> {
        let key_hash = pending.hashed_key();
        batch.push_hashed(pending.family, pending.kind, (pending.key, key_hash), pending.value, |out| {
            match seal {
                None => self.accompany(pending, key_hash, out)?,
                Some(seal) => self.accompany_sealed(pending, key_hash, seal, out)?,
            }
            blank.put(time, session, key_hash, out);
            Ok(())
        })
    }

    /// Appends the operations of a batch to `out`, in order. Each gets the stamp from `stamps` instead of its own, or
    /// keeps its own. Seals and entries are copied unchanged. The memory reserved for `batch` is not transferred to
    /// `out`. Errors: `Invalid` beyond the limits of a batch.
    pub fn restamp(
        &self,
        batch: &Batch,
        out: &mut Batch,
        stamps: &mut dyn FnMut(&BatchOperation<'_>, u64) -> Option<Stamp>,
    ) -> Result<()> {
        if batch.is_held() {
            out.hold();
        }
        for operation in batch.operations() {
            let operation = operation?;
            let BatchOperation { family, kind, key, value, companion } = operation;
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

    /// Seals a row that the engine made; the seal replaces its companions.
    pub fn seal_row(&self, row: &mut Emitted) {
        let seal = Seal::of(row.key(), row.value());
        row.accompany(&seal_bytes(seal.at(row.seqno)));
        self.tally.add(Count::Derived);
    }

    /// Called for every record that a flush reads.
    #[inline]
    pub(crate) fn emit_of(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
        match &self.emits.0 {
            Some(emitter) if self.may_emit_of(record) => self.emit_slowly(&**emitter, family, record, rows),
            _ => Ok(()),
        }
    }

    /// Returns true if the record may have a stamp from which a flush makes a row.
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
        // No other check covers a record that the flush drops, so it is checked before its row is written.
        if !self.verify(record, key_hash, Protection::Partial).serves() {
            return Err(of_record(&"a record that is watched does not match its seal", record));
        }
        let first = rows.len();
        emitter.emit(family, record, &stamp, rows)?;
        rows[first..].iter_mut().filter(|row| row.companion().is_empty()).for_each(|row| self.seal_row(row));
        Ok(())
    }
}

/// Returns true if the stamp among decodable companions is damaged.
pub(crate) fn is_stamp_hit(companions: &[u8], key_hash: u64) -> bool {
    let stamp = Annotations::read(companions).map(|annotations| annotations.stamp);
    stamp.is_ok_and(|stamp| stamp.is_some_and(|content| !is_whole(content, key_hash)))
}

/// Returns the companions for an export of a record whose row is already in the event log, so that no flush there
/// writes it again. The history flag is removed: the older version is not exported, and no other record may take its
/// place. A damaged stamp is dropped.
pub(crate) fn as_emitted(companions: &[u8], key_hash: u64) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(companions.len());
    put_without_stamp(companions, &mut out)?;
    if let Some(content) = Annotations::read(companions)?.stamp
        && let Some(stamp) = Stamp::read(content, key_hash)
    {
        Stamp { elsewhere: true, history: false, ..stamp }.put(key_hash, &mut out);
    }
    Ok(out)
}

/// Damage that a flush finds in memory; the flush is then repeated from the log.
#[cold]
fn of_record(what: &dyn fmt::Display, record: &Record<'_>) -> Error {
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    Error::corruption(Damage { verdict: Verdict::Seal, key_range, ..Damage::default() }, what.to_string())
}
