//! The write path: batch -> ordered -> copied -> applied -> acknowledged, and synced if requested.
//!
//! ```text
//! caller   seals the batch outside every lock: encoding, hashes, companions; verifies a held batch again
//! separate unless the commit is synced, moves large values to a blob file and leaves pointers (`blob_separation.rs`)
//! order    assigns seqno, offset and link (short mutex inside the log)
//! copy     each thread copies its own frame, concurrently with the others
//! apply    one thread at a time applies complete frames in order, publishes the seqno (I01), acknowledges them
//! sync     one group at a time, for the commits that requested it; other commits never wait for a sync
//! ```
//!
//! Fast path: an uncontended writer orders, copies and applies its frame under the apply lock, directly from
//! the batch. It uses no queue, no second pass and no reference counts. All other writers take the steps above.
//!
//! After:  a commit that returned is visible, completely in the log, and below the acknowledged mark; a `Sync` commit
//!         is also below the witness.
//! Errors: before a commit is ordered, a failure affects only this commit. A failed write or sync of the log halts the
//!         store (I09).

use std::sync::atomic::Ordering;

use super::blob_separation::damaged_batch;
use super::write_path::{Apply, WritePath};
use crate::batch::{Batch, BatchOperation, BatchOperations, EncodedOperations, Sum, distance};
use crate::checksum::{hash, hash_key};
use crate::codec::{Reader, put_varint};
use crate::compaction::Stall;
use crate::db::catalog::FamilyMap;
use crate::db::notify::lanes::Lane;
use crate::db::state::family::{ApplyTarget, Family};
use crate::db::state::store_log::OpenLog;
use crate::env::work::{lock, or_undo};
use crate::error::{Error, Result};
use crate::names::system_number;
use crate::options::Durability;
use crate::planted;
use crate::range_delete::bounds_of;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Check, Protection};
use crate::version::{Edit, EditChange};
use crate::wal::{EpochChange, Precondition, Whole};

/// The id that no family ever has. An operation with this id takes a seqno and holds no data (docs/format.md, section
/// 5.2).
pub(in crate::db) const NO_FAMILY: u32 = u32::MAX;

/// The purpose of a seqno without a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::db) enum TakenFor {
    /// A flush: nothing changes.
    Flush,
    /// An edit changes the family at this seqno, unless it fails.
    Edit,
}

impl TakenFor {
    /// Returns the value of the operation, which tells readers of the log to look for an edit.
    fn mark(self) -> &'static [u8] {
        match self {
            TakenFor::Flush => b"",
            TakenFor::Edit => b"\x01",
        }
    }
}

impl WritePath {
    /// Commits a batch under a precondition. Returns `None` and changes nothing if the precondition fails. In stepped
    /// mode, `step` performs one step of background work.
    pub(in crate::db) fn commit(
        &self,
        log: &OpenLog,
        batch: &mut Batch,
        durability: Durability,
        under: &Precondition,
        on_ordered: impl FnOnce(Seqno),
        step: impl Fn() -> bool,
    ) -> Result<Option<Seqno>> {
        if batch.is_empty() {
            return match under.changes_epoch() {
                true => Err(Error::invalid("rules change with a batch")),
                false => Ok(Some(self.store_log().visible())),
            };
        }
        match under.at_once {
            true => {
                self.grows_by(batch.encoded_bytes());
                if self.lanes().stall() != Stall::Go {
                    return Ok(None);
                }
            }
            false => self.admit(batch.encoded_bytes(), &step)?,
        }
        if batch.has_ranges() {
            if self.context().companions.has_rows() {
                return Err(Error::invalid("a range delete in a store whose record protector has rows of its own"));
            }
            check_families(&self.catalog().families(), batch)?; // a batch that is refused changes nothing
            if !self.record_that_log_deletes_ranges(!under.at_once)? {
                return Ok(None);
            }
        }
        let sum = batch.sum();
        if batch.is_held() {
            self.check_batch(batch, &sum)?;
        }
        let hash = sum.hash;
        let may_separate = durability != Durability::Sync && !under.at_once;
        match if may_separate { self.separation.separate(self.catalog(), batch)? } else { None } {
            Some(mut separated) => {
                let hash = separated.batch.sum().hash;
                let mut is_ordered = false;
                let mark_ordered = |seqno| {
                    is_ordered = true;
                    on_ordered(seqno);
                };
                let committed = self.commit_summed(log, (&mut separated.batch, hash), durability, under, mark_ordered);
                if !is_ordered {
                    separated.take_back();
                }
                committed
            }
            None => self.commit_summed(log, (batch, hash), durability, under, on_ordered),
        }
    }

    /// Orders, copies and applies a batch with a known hash.
    #[inline]
    fn commit_summed(
        &self,
        log: &OpenLog,
        (batch, hash): (&mut Batch, u64),
        durability: Durability,
        under: &Precondition,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Seqno>> {
        let sum = batch.summed(hash);
        let mut alone = self.applier.apply.try_lock().ok();
        if !alone.as_ref().is_some_and(|apply| apply.is_aimed_at(batch)) {
            check_families(&self.catalog().families(), batch)?;
        }
        // On the fast path this thread holds the apply lock until its batch is applied.
        let whole = alone.as_ref().and_then(|_| log.wal().try_append_fast(&sum, under));
        let (last, end) = match (&mut alone, whole) {
            (Some(apply), Some(whole)) => {
                let applied = || {
                    on_ordered(whole.seqno);
                    self.apply_alone(log, apply, &whole, batch)
                };
                let applied = or_undo(applied, || self.store_log().halt_unwound("a commit was applied"));
                if let Err(error) = applied {
                    drop(alone.take());
                    self.store_log().report_halt(&error);
                    return Err(error);
                }
                (whole.seqno + whole.count - 1, whole.end)
            }
            _ => {
                drop(alone.take());
                let body = batch.share(hash);
                let ordered = || log.wal().order_under(&body, body.clone(), under, on_ordered);
                let ticket = or_undo(ordered, || self.store_log().halt_unwound("a commit was ordered"));
                let Some(ticket) = ticket.inspect_err(|error| self.store_log().report_halt(error))? else {
                    return Ok(None);
                };
                log.wal().copy(&ticket, &body).inspect_err(|error| self.store_log().report_halt(error))?;
                self.apply_through(log, ticket.end).inspect_err(|error| self.store_log().report_halt(error))?;
                (ticket.seqno + ticket.count - 1, ticket.end)
            }
        };
        drop(alone);
        if durability == Durability::Sync {
            log.wal().sync(end).inspect_err(|error| self.store_log().report_halt(error))?;
            log.note_durable(last);
        }
        self.store_log().kick_log(log, durability == Durability::Sync);
        Ok(Some(last))
    }

    /// Checks that a held batch still contains the operations that were put into it. Called after the batch's hash was
    /// taken: an earlier bit flip does not match a companion, and a later one does not match the hash. Fails with
    /// `Corruption`; then nothing was changed, and the caller must rebuild the batch.
    fn check_batch(&self, batch: &Batch, sum: &Sum<'_>) -> Result<()> {
        let protector = &*self.context().companions;
        if protector.protection() == Protection::None {
            return Ok(());
        }
        // An operation that seems to have no companion may have a damaged length, so that its value includes the
        // companion's bytes.
        let promised = planted!(SwallowedSealTaken, Protection::Partial, protector.written());
        let (mut room, mut long) = ([0; 64], Vec::new());
        for (operation, known_hash) in BatchOperations::new(sum.bytes)?.zip(batch.key_hashes()) {
            let BatchOperation { family, kind, key, value, companion } = operation?;
            let bound = match room.get_mut(..companion.len()) {
                Some(room) => room,
                None => {
                    long.resize(companion.len(), 0);
                    &mut long[..]
                }
            };
            bound.copy_from_slice(companion);
            protector.bind(bound, None, 0);
            let record = Record { key, seqno: 0, kind, value, companion: bound };
            let key_hash = hash(key);
            let check = protector.verify(&record, key_hash, promised);
            let is_hashed = *known_hash == 0 || *known_hash == key_hash;
            if !matches!(check, Check::Validated | Check::Unverified)
                || !is_hashed
                || !batch.families().contains(&family)
            {
                return Err(damaged_batch(key));
            }
        }
        Ok(())
    }

    /// Applies a fast-path frame, publishes and acknowledges it. No thread waits for this frame's application: a
    /// waiting thread has a later frame.
    #[inline]
    fn apply_alone(&self, log: &OpenLog, apply: &mut Apply, whole: &Whole<()>, batch: &Batch) -> Result<()> {
        let outcome = self.apply_batch(apply, whole, batch.operations(), batch.encoded());
        outcome.and_then(|()| self.publish(log, apply, whole.end)).map_err(|error| log.wal().halt(error))
    }

    /// Applies complete frames until the frame that ends at `end` has been applied, by this thread or another.
    pub(super) fn apply_through(&self, log: &OpenLog, end: u64) -> Result<()> {
        loop {
            let mut apply = lock(&self.applier.apply);
            self.apply_whole(log, &mut apply)?;
            if apply.offset >= end {
                return Ok(());
            }
            drop(apply);
            // An earlier frame is not copied yet. The thread that copies it applies ours too.
            let mut applied = self.applier.applied.lock();
            while *applied < end && log.wal().failed().is_none() {
                applied = self.applier.applied.wait(applied, Some(std::time::Duration::from_millis(1)));
                if log.wal().whole_up_to() >= end {
                    break;
                }
            }
            drop(applied);
            self.store_log().check_halted()?;
        }
    }

    /// Applies complete frames until every commit that was ordered before this call is visible.
    pub(in crate::db) fn apply_ordered(&self, log: &OpenLog) -> Result<()> {
        let seqno = log.wal().last_seqno();
        while self.store_log().visible() < seqno {
            self.apply_whole(log, &mut lock(&self.applier.apply))?;
            let applied = self.applier.applied.lock();
            // A frame that is not copied yet is applied by the thread that copies it.
            if self.store_log().visible() < seqno {
                drop(self.applier.applied.wait(applied, Some(std::time::Duration::from_millis(1))));
            }
        }
        Ok(())
    }

    /// Applies the complete frames to the memtables, publishes and acknowledges them. Called under the apply lock.
    ///
    /// Fails in a halted store, where earlier frames may be missing.
    fn apply_whole(&self, log: &OpenLog, apply: &mut Apply) -> Result<()> {
        self.store_log().check_halted()?;
        let mut group = std::mem::take(&mut apply.group);
        log.wal().take_whole(&mut group);
        let all = || {
            group.iter().try_for_each(|whole| {
                let encoded = &*whole.payload.bytes;
                self.apply_batch(apply, whole, BatchOperations::new(encoded)?, encoded)
            })
        };
        let outcome = or_undo(all, || self.store_log().halt_unwound("a commit was applied"));
        if let (Ok(()), Some(last)) = (&outcome, group.last()) {
            let marked = self.publish(log, apply, last.end);
            *self.applier.applied.lock() = last.end;
            self.applier.applied.notify_all();
            marked?;
        }
        group.clear();
        apply.group = group;
        outcome.map_err(|error| log.wal().halt(error))
    }

    /// Publishes all applied frames up to the one that ends at `end`, and acknowledges them. Called under the apply
    /// lock.
    #[inline]
    fn publish(&self, log: &OpenLog, apply: &mut Apply, end: u64) -> Result<()> {
        self.store_log().visible.store(apply.last_seqno, Ordering::Release);
        apply.offset = end;
        log.wal().acknowledge(end)
    }

    fn apply_batch<T>(
        &self,
        apply: &mut Apply,
        whole: &Whole<T>,
        mut operations: BatchOperations<'_>,
        encoded: &EncodedOperations,
    ) -> Result<()> {
        let mut at = 0;
        while let Some(operation) = operations.step()? {
            if !apply.target.as_ref().is_some_and(|target| target.is_that_of(operation.family)) {
                apply.target = self.catalog().families().by_id.get(&operation.family).map(Family::target);
            }
            if let Some(ApplyTarget { family, generation: active, .. }) = &apply.target {
                let ends = family.key_ends_in_seqno();
                let place = (whole.seqno, at);
                let (record, term) =
                    apply.binding.record_and_term(&operation, place, ends, &*self.context().companions)?;
                active.touch(whole.offset, whole.seqno);
                if family.deleted_runs().is_armed() {
                    family.deleted_runs().note(family.order(), &record);
                }
                if record.kind == Kind::BlobPointer {
                    active.hold_value(family.table_cache().values(), &record)?;
                }
                if record.kind == Kind::RangeDelete {
                    active.delete_range(family.order(), &record)?;
                } else {
                    // In a family whose keys end in a seqno, the stored key may differ from the encoded one.
                    let key_hash = if ends { None } else { encoded.key_hash(at) };
                    let term = term.unwrap_or_else(|| self.context().companions.term(&record));
                    active
                        .memtable
                        .insert_hashed(&record, term, || key_hash.unwrap_or_else(|| hash_key(record.key)))?;
                }
                apply.full |= active.is_full(self.context().settings.memtable_bytes);
            }
            let seqno = whole.seqno + at;
            if operation.family == NO_FAMILY {
                apply.target = None;
                freeze_named(&self.catalog().families(), operation.key, seqno, &|| self.readers());
            }
            planted!(BatchTornApart => {
                self.store_log().visible.store(seqno, Ordering::Release);
                if whole.count > 2 {
                    apply.last_seqno = whole.seqno + whole.count - 1;
                    return Ok(()); // only the first operation takes effect
                }
            });
            at += 1;
        }
        apply.last_seqno = whole.seqno + whole.count - 1;
        // Freeze right away, so that no memtable exceeds its budget by more than one batch.
        if std::mem::take(&mut apply.full) {
            apply.target = None; // only its flush may reference a frozen memtable
            self.freeze_full(apply.last_seqno);
        }
        Ok(())
    }

    /// Freezes the full memtables. Called under the apply lock.
    fn freeze_full(&self, last_seqno: Seqno) {
        let limit = self.context().settings.memtable_bytes;
        let mut any = false;
        for family in self.catalog().families().by_id.values() {
            if family.view().active.is_full(limit) {
                family.freeze(last_seqno, &|| self.readers());
                any = true;
            }
        }
        if any {
            self.note_waits();
            self.lanes().kick(Lane::Flush); // which also delivers the event
        }
    }

    /// Takes a seqno without a record for each of these families, in one commit, and returns the first. Each family's
    /// memtable is frozen at its seqno. `then` changes the configuration epoch from these seqnos on. `takes` says whether
    /// an edit is going to take effect at these seqnos.
    pub(in crate::db) fn take_seqno(
        &self,
        families: &[&Family],
        (then, takes): (EpochChange, TakenFor),
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Seqno> {
        let Some(log) = self.store_log().log() else { return Err(Error::invalid("the store has no log")) };
        let mut batch = Batch::new();
        for family in families {
            let mut id = Vec::new();
            put_varint(&mut id, family.id().into());
            batch.push_with(NO_FAMILY, Kind::Delete, &id, takes.mark(), &[])?;
        }
        let body = batch.seal();
        let under = Precondition::changing(then);
        let ordered = || log.wal().order_under(&body, body.clone(), &under, on_ordered);
        let ticket = or_undo(ordered, || self.store_log().halt_unwound("a commit was ordered"));
        let ticket = ticket.inspect_err(|error| self.store_log().queue_halt(error))?;
        let ticket = ticket.ok_or_else(|| Error::structural("refused under any rules"))?;
        log.wal().copy(&ticket, &body).inspect_err(|error| self.store_log().queue_halt(error))?;
        self.apply_through(log, ticket.end).inspect_err(|error| self.store_log().queue_halt(error))?;
        if takes == TakenFor::Edit {
            let taken = (ticket.seqno..).zip(families);
            taken.for_each(|(seqno, family)| self.catalog().feed.job_takes(seqno, family.id()));
        }
        Ok(ticket.seqno)
    }

    /// Syncs for a caller that is promised durability. If the log was already synced, neither the directory nor an
    /// earlier failure has been checked yet, so both follow here.
    pub(in crate::db) fn sync_and_check(&self) -> Result<()> {
        let Some(log) = self.store_log().log() else { return Ok(()) };
        let before = log.wal().synced().offset;
        let moment = self.sync_log()?;
        if moment.offset > before {
            return Ok(());
        }
        self.store_log().check_halted()?;
        self.store_log().halt_if_lost()
    }

    /// Closes the log: makes everything durable, seals the last segment and syncs the manifest's witness.
    pub(in crate::db) fn close_log(&self) -> Result<()> {
        let Some(log) = self.store_log().log() else { return Ok(()) };
        self.store_log().check_halted()?;
        let is_written = log.wal().taken_up_to() > log.start().place.offset;
        if is_written && self.trim_log().is_err() {
            self.store_log().check_halted()?; // otherwise the disk had no room, and the log stays this long
        }
        let place = log.wal().close()?;
        // The last commits in flight; their results stay the same.
        self.apply_whole(log, &mut lock(&self.applier.apply))?;
        let mut edit = Edit::default();
        edit.changes.push(EditChange::SegmentSealed(place));
        edit.changes.push(EditChange::LogWitness { offset: place.offset });
        self.catalog().install(edit, None)?;
        log.wal().give_back();
        match lock(&self.catalog().manifest).as_mut() {
            Some(manifest) => manifest.close(),
            None => Ok(()),
        }
    }
}

/// Freezes the memtable of the family that an operation for `NO_FAMILY` names; under the apply lock, in commit order.
fn freeze_named(families: &FamilyMap, key: &[u8], seqno: Seqno, readers: &dyn Fn() -> Vec<Seqno>) {
    let id = Reader::new(key).varint().ok().and_then(|id| u32::try_from(id).ok());
    if let Some(family) = id.and_then(|id| families.by_id.get(&id)) {
        family.freeze(seqno, readers);
    }
}

/// Checks that a batch may be written to all families that it names.
#[inline]
fn check_families(families: &FamilyMap, batch: &Batch) -> Result<()> {
    let mut any_ends_in_seqno = false;
    for id in batch.families() {
        match families.by_id.get(id) {
            Some(family) if !family.is_dropped() => any_ends_in_seqno |= family.key_ends_in_seqno(),
            _ => return Err(Error::invalid("the batch names a family that was dropped")),
        }
        if planted!(SystemFamilyWritable, false, system_number(*id).is_some() && !batch.is_granted()) {
            return Err(Error::invalid("the batch writes a system family"));
        }
    }
    if batch.has_ranges() {
        check_ranges(families, batch)?;
    }
    if batch.has_operands() {
        check_operands(families, batch)?;
    }
    if any_ends_in_seqno { check_keys(families, batch) } else { Ok(()) }
}

/// Checks that no range delete of a batch starts behind its end.
#[cold]
fn check_ranges(families: &FamilyMap, batch: &Batch) -> Result<()> {
    for operation in batch.operations() {
        let BatchOperation { family, kind, key, value, .. } = operation?;
        let Some(family) = families.by_id.get(&family).filter(|_| kind == Kind::RangeDelete) else { continue };
        if family.key_ends_in_seqno() {
            return Err(Error::invalid("a range delete in a family whose keys end in a seqno"));
        }
        if let (Some(start), Some(end)) = bounds_of(key, value)?
            && family.order().compare(start, end).is_gt()
        {
            return Err(Error::invalid("a range delete starts behind its end"));
        }
    }
    Ok(())
}

/// Checks that the families of a batch's merge operands have a merge operator that accepts them.
#[cold]
fn check_operands(families: &FamilyMap, batch: &Batch) -> Result<()> {
    for operation in batch.operations() {
        let BatchOperation { family, kind, key, value, .. } = operation?;
        let Some(family) = families.by_id.get(&family).filter(|_| kind == Kind::Merge) else { continue };
        family.check_operand(key, value)?;
    }
    Ok(())
}

/// Checks that keys ending in a seqno refer to operations of their own batch.
#[cold]
fn check_keys(families: &FamilyMap, batch: &Batch) -> Result<()> {
    for (at, operation) in (0..).zip(batch.operations()) {
        let BatchOperation { family, key, .. } = operation?;
        let ends = families.by_id.get(&family).is_some_and(|family| family.key_ends_in_seqno());
        if ends && distance(key).is_some_and(|distance| distance > at) {
            return Err(Error::invalid("a key ends in the seqno of an operation in front of its batch"));
        }
    }
    Ok(())
}
