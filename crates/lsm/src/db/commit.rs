//! The write path: batch -> ordered -> copied -> applied -> acknowledged, and synced if requested.
//!
//! ```text
//! caller   seals the batch outside every lock: encoding, hashes, companions; verifies a held batch again
//! apart    unless the commit is synced, moves large values to a blob file and leaves pointers (`apart.rs`)
//! order    assigns seqno, offset and link (short mutex inside the log)
//! copy     each thread copies its own frame, concurrently with the others
//! apply    one thread at a time applies complete frames in order, publishes the seqno (I01), acknowledges them
//! sync     one group at a time, for the commits that requested it; other commits never wait for a sync
//! ```
//!
//! Fast path (*alone*): an uncontended writer orders, copies and applies its frame under the apply lock, directly from
//! the batch. It uses no queue, no second pass and no reference counts. All other writers take the steps above.
//!
//! After:  a commit that returned is visible, completely in the log, and below the acknowledged mark; a `Sync` commit
//!         is also below the witness.
//! Errors: before a commit is ordered, a failure affects only this commit. A failed write or sync of the log halts the
//!         store (I09).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::background::Lane;
use super::family::{Family, Target};
use super::ingest::{self, NO_FAMILY};
use super::{Db, Event, Families, Inner};
use crate::batch::{Batch, Binding, Body, Encoded, Operation, Operations, Sum, distance};
use crate::checksum::{hash, hash_key};
use crate::compaction::Stall;
use crate::env::Env;
use crate::env::work::{Signal, lock, or_undo};
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};
use crate::identity::StoreIdentity;
use crate::names::{check_place, system_number};
use crate::options::{Durability, Settings};
use crate::planted::{self, Bug};
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Check, Protection};
use crate::version::{Change, Edit};
use crate::wal::{LogStart, Numbers, Then, Under, Wal, Whole};

/// The log, and the only place where its frames become visible.
pub(crate) struct Log {
    wal: Wal<Body>,
    pub(super) apply: Mutex<Apply>,
    /// Offset up to which frames are applied, for writers whose frame another thread applies.
    applied: Signal<u64>,
    /// The greatest seqno known to be durable.
    durable: AtomicU64,
    start: LogStart,
}

pub(super) struct Apply {
    group: Vec<Whole<Body>>,
    binding: Binding,
    /// The memtable that received the last record.
    pub(super) target: Option<Target>,
    pub(super) last_seqno: Seqno,
    pub(super) offset: u64,
    /// True if a memtable exceeded its budget.
    full: bool,
}

impl Apply {
    /// Returns true if a batch writes to a single ordinary family, and the last record went to that family's current
    /// memtable.
    #[inline]
    fn is_aimed_at(&self, batch: &Batch) -> bool {
        let ([id], Some(target)) = (batch.families(), &self.target) else { return false };
        target.is_that_of(*id) && system_number(*id).is_none() && !target.family.options().key_ends_in_seqno
    }
}

/// A position in the log: all operations up to the seqno are applied, and their frames end at the offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) offset: u64,
    pub(crate) seqno: Seqno,
}

impl Log {
    /// Creates a log that begins at `offset`, after `last_seqno`; no manifest edit names it yet.
    pub(super) fn create(
        env: &Env,
        (dir, store): (&Path, &StoreIdentity),
        settings: &Settings,
        offset: u64,
        last_seqno: Seqno,
        numbers: Numbers,
    ) -> Result<Log> {
        let (wal, start) = Wal::create(env, (dir, store), settings, offset, last_seqno + 1, numbers)?;
        let (group, binding) = (Vec::new(), Binding::default());
        Ok(Log {
            wal,
            apply: Mutex::new(Apply { group, binding, target: None, last_seqno, offset, full: false }),
            applied: Signal::new(offset),
            durable: AtomicU64::new(last_seqno),
            start,
        })
    }

    /// Returns the location of the first segment and of the ring.
    pub(super) fn start(&self) -> LogStart {
        self.start
    }

    pub(super) fn durable_seqno(&self) -> Seqno {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn wal(&self) -> &Wal<Body> {
        &self.wal
    }

    /// Frees the memory that only commits need, because the log is closed.
    pub(super) fn release(&self) {
        let mut apply = lock(&self.apply);
        (apply.target, apply.group) = (None, Vec::new());
        drop(apply);
        self.wal.release();
    }

    fn moment(&self) -> Moment {
        let apply = lock(&self.apply);
        Moment { offset: apply.offset, seqno: apply.last_seqno }
    }

    /// Makes all applied frames durable.
    fn sync(&self) -> Result<Moment> {
        let moment = self.moment();
        self.wal.sync_once(moment.offset)?;
        self.durable.fetch_max(moment.seqno, Ordering::AcqRel);
        Ok(moment)
    }
}

impl Db {
    /// Commits a batch atomically, at one position in the commit order. Returns the seqno of its last operation.
    ///
    /// When the call returns, the batch is visible to reads. It may become visible earlier, but only once it is certain
    /// to be completely in the log. Errors: `Io` (for example a full disk: nothing was changed, and the caller can
    /// retry), `Halted`, `ReadOnly`, `Closed`. After `Halted` from a `Sync` commit the batch is visible, but not known
    /// to be durable. An empty batch does nothing. The batch itself is not modified.
    #[inline]
    pub fn commit(&self, batch: &mut Batch, durability: Durability) -> Result<Seqno> {
        loop {
            if let Some(last) = self.commit_unheard(batch, durability, self.rules())? {
                return Ok(last);
            }
        }
    }

    /// Commits like `commit_under`, without a callback. All callers without a callback share this function, so the
    /// commit path is not inlined into each of them.
    #[inline(never)]
    pub fn commit_unheard(&self, batch: &mut Batch, durability: Durability, rules: u64) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &under(rules), |_| {})
    }

    /// Returns the current configuration epoch, under which batches are built. The engine owns the upper half and
    /// changes it when a family is dropped. The lower half belongs to the caller and is 0 at open. If a caller reads an
    /// epoch here and commits under it, neither half changed in between. Costs one atomic load; returns 0 for a store
    /// that cannot be written.
    #[inline]
    pub fn rules(&self) -> u64 {
        self.inner().log.as_ref().map_or(0, |log| log.wal.rules())
    }

    /// Sets the lower half of the configuration epoch for all batches ordered from now on.
    pub fn set_rules(&self, low: u32) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal.set_rules(low);
        Ok(())
    }

    /// Commits like `commit` if the configuration epoch still equals `rules`. Returns `None` if it does not; then
    /// nothing was changed.
    ///
    /// `on_ordered` receives the seqno of the first operation once the batch's position in the commit order is certain.
    /// A caller that holds a lock to keep an order can release it there. The callback runs once, or not at all if the
    /// batch is not ordered. The log waits for it, so it must be short, must not call the store and must not panic.
    /// Before the callback, the commit may wait for log space, flushes and compactions. The caller must therefore not
    /// hold any lock that the record protector takes during those.
    pub fn commit_under(
        &self,
        batch: &mut Batch,
        durability: Durability,
        rules: u64,
        on_ordered: &mut dyn FnMut(Seqno),
    ) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &under(rules), on_ordered)
    }

    /// Commits like `commit_unheard`, with a timestamp `time` above 0. Timestamps increase in the commit order. Returns
    /// `None` also if a commit with the same or a later timestamp was ordered first (see `last_time`). Then nothing was
    /// changed, and the caller must rebuild the batch with a later timestamp. The caller thus needs no lock between
    /// choosing a timestamp and the ordering of its batch.
    pub fn commit_timed(
        &self,
        batch: &mut Batch,
        durability: Durability,
        rules: u64,
        time: u64,
    ) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &Under { time, ..under(rules) }, |_| {})
    }

    /// Returns a cell that always holds the timestamp of the last timed commit, readable without a lock; 0 if there was
    /// none since open.
    pub fn last_time(&self) -> Arc<AtomicU64> {
        self.inner().log.as_ref().map_or_else(Arc::default, |log| log.wal.last_time().clone())
    }

    /// Changes the upper half of the configuration epoch. Batches built under the old epoch that are not yet ordered
    /// are rejected for retry.
    pub fn renew_rules(&self) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal.renew_rules();
        Ok(())
    }

    /// Commits the last batch of the current configuration epoch: every later batch in the commit order sees `low` as
    /// the lower half. `on_ordered` works as in `commit_under`. Fails with `Invalid` also for an empty batch.
    pub fn commit_with_rules(
        &self,
        batch: &mut Batch,
        durability: Durability,
        low: u32,
        on_ordered: &mut dyn FnMut(Seqno),
    ) -> Result<Seqno> {
        if batch.is_empty() {
            return Err(Error::invalid("rules change with a batch"));
        }
        loop {
            let under = Under { mask: u64::MAX << 32, then: Then::Low(low), ..under(self.rules()) };
            if let Some(last) = self.commit_as(batch, durability, &under, &mut *on_ordered)? {
                return Ok(last);
            }
        }
    }

    /// Commits like `commit_unheard` with `Os` durability, but only if this needs no waiting and no file access.
    /// Returns `None` and changes nothing if writers are stalled, the log has no space or is not mapped, the frame is
    /// too long for the ring, or an earlier commit is not copied yet. It also returns `None` if the configuration epoch
    /// changed.
    ///
    /// For callers that must not block: the call takes only short locks, none of which is held during I/O.
    pub fn commit_at_once(&self, batch: &mut Batch, rules: u64) -> Result<Option<Seqno>> {
        self.commit_as(batch, Durability::Os, &Under { at_once: true, ..under(rules) }, |_| {})
    }

    fn commit_as(
        &self,
        batch: &mut Batch,
        durability: Durability,
        under: &Under,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Seqno>> {
        let (inner, log) = self.writable()?;
        if batch.is_empty() {
            return Ok(Some(inner.visible()));
        }
        match under.at_once {
            true => {
                inner.grows_by(batch.encoded_bytes());
                if inner.background.stall() != Stall::Go {
                    return Ok(None);
                }
            }
            false => inner.admit(batch.encoded_bytes())?,
        }
        let sum = batch.sum();
        if batch.is_held() {
            inner.check_batch(batch, &sum)?;
        }
        let hash = sum.hash;
        let may_go_apart = durability != Durability::Sync && !under.at_once;
        match if may_go_apart { inner.put_apart(batch)? } else { None } {
            Some(mut apart) => {
                let hash = apart.batch.sum().hash;
                let mut is_ordered = false;
                let heard = |seqno| {
                    is_ordered = true;
                    on_ordered(seqno);
                };
                let committed = self.commit_summed((inner, log), (&mut apart.batch, hash), durability, under, heard);
                if !is_ordered {
                    apart.take_back();
                }
                committed
            }
            None => self.commit_summed((inner, log), (batch, hash), durability, under, on_ordered),
        }
    }

    /// Orders, copies and applies a batch with a known hash.
    #[inline]
    fn commit_summed(
        &self,
        (inner, log): (&Inner, &Log),
        (batch, hash): (&mut Batch, u64),
        durability: Durability,
        under: &Under,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Seqno>> {
        let sum = batch.summed(hash);
        let mut alone = log.apply.try_lock().ok();
        if !alone.as_ref().is_some_and(|apply| apply.is_aimed_at(batch)) {
            check_families(&inner.families(), batch)?;
        }
        // On the fast path this thread holds the apply lock until its batch is applied.
        let whole = alone.as_ref().and_then(|_| log.wal.append_alone(&sum, under));
        let (last, end) = match (&mut alone, whole) {
            (Some(apply), Some(whole)) => {
                let applied = || {
                    on_ordered(whole.seqno);
                    inner.apply_alone(log, apply, &whole, batch)
                };
                let applied = or_undo(applied, || inner.halt_unwound("a commit was applied"));
                if let Err(error) = applied {
                    drop(alone.take());
                    inner.tell_halted(&error);
                    return Err(error);
                }
                (whole.seqno + whole.count - 1, whole.end)
            }
            _ => {
                drop(alone.take());
                let body = batch.share(hash);
                let ordered = || log.wal.order_under(&body, body.clone(), under, on_ordered);
                let ticket = or_undo(ordered, || inner.halt_unwound("a commit was ordered"));
                let Some(ticket) = ticket.inspect_err(|error| inner.tell_halted(error))? else { return Ok(None) };
                log.wal.copy(&ticket, &body).inspect_err(|error| inner.tell_halted(error))?;
                inner.apply_through(log, ticket.end).inspect_err(|error| inner.tell_halted(error))?;
                (ticket.seqno + ticket.count - 1, ticket.end)
            }
        };
        drop(alone);
        if durability == Durability::Sync {
            log.wal.sync(end).inspect_err(|error| inner.tell_halted(error))?;
            log.durable.fetch_max(last, Ordering::AcqRel);
        }
        inner.kick_log(log, durability == Durability::Sync);
        Ok(Some(last))
    }

    /// Makes all commits acknowledged before this call durable, whatever durability they requested. Costs one
    /// fdatasync, shared with concurrent syncs.
    pub fn sync(&self) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal.expect_syncs();
        self.sync_committed()
    }

    /// Syncs like `sync`, for commits that have already returned. If the store has been closed since, or is being
    /// closed, the call still returns the correct result, because closing makes all commits durable.
    pub fn sync_committed(&self) -> Result<()> {
        let inner = self.here()?;
        let synced = inner.sync_and_check();
        inner.tell_noted();
        synced
    }
}

/// Returns the precondition for a batch built under a configuration epoch.
fn under(rules: u64) -> Under {
    Under { word: rules, mask: u64::MAX, ..Under::default() }
}

impl Inner {
    /// Checks that a held batch still contains the operations that were put into it. Called after the batch's hash was
    /// taken: an earlier bit flip does not match a companion, and a later one does not match the hash. Fails with
    /// `Corruption`; then nothing was changed, and the caller must rebuild the batch.
    fn check_batch(&self, batch: &Batch, sum: &Sum<'_>) -> Result<()> {
        let keeper = &*self.companions;
        if keeper.protection() == Protection::None {
            return Ok(());
        }
        // An operation that seems to have no companion may have a damaged length, so that its value includes the
        // companion's bytes.
        let promised = if planted::active(Bug::SwallowedSealTaken) { Protection::Partial } else { keeper.written() };
        let (mut room, mut long) = ([0; 64], Vec::new());
        for (operation, known_hash) in Operations::new(sum.bytes)?.zip(batch.key_hashes()) {
            let Operation { family, kind, key, value, companion } = operation?;
            let bound = match room.get_mut(..companion.len()) {
                Some(room) => room,
                None => {
                    long.resize(companion.len(), 0);
                    &mut long[..]
                }
            };
            bound.copy_from_slice(companion);
            keeper.bind(bound, None, 0);
            let record = Record { key, seqno: 0, kind, value, companion: bound };
            let key_hash = hash(key);
            let check = keeper.verify(&record, key_hash, promised);
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
    fn apply_alone(&self, log: &Log, apply: &mut Apply, whole: &Whole<()>, batch: &Batch) -> Result<()> {
        let outcome = self.apply_batch(apply, whole, batch.operations(), batch.encoded());
        outcome.and_then(|()| self.publish(log, apply, whole.end)).map_err(|error| log.wal.halt(error))
    }

    /// Applies complete frames until the frame that ends at `end` has been applied, by this thread or another.
    pub(super) fn apply_through(&self, log: &Log, end: u64) -> Result<()> {
        loop {
            let mut apply = lock(&log.apply);
            self.apply_whole(log, &mut apply)?;
            if apply.offset >= end {
                return Ok(());
            }
            drop(apply);
            // An earlier frame is not copied yet. The thread that copies it applies ours too.
            let mut applied = log.applied.lock();
            while *applied < end && log.wal.failed().is_none() {
                applied = log.applied.wait(applied, Some(std::time::Duration::from_millis(1)));
                if log.wal.whole_up_to() >= end {
                    break;
                }
            }
            drop(applied);
            self.check_halted()?;
        }
    }

    /// Applies the complete frames to the memtables, publishes and acknowledges them. Called under the apply lock.
    ///
    /// Fails in a halted store, where earlier frames may be missing.
    fn apply_whole(&self, log: &Log, apply: &mut Apply) -> Result<()> {
        self.check_halted()?;
        let mut group = std::mem::take(&mut apply.group);
        log.wal.take_whole(&mut group);
        let all = || {
            group.iter().try_for_each(|whole| {
                let encoded = &*whole.payload.bytes;
                self.apply_batch(apply, whole, Operations::new(encoded)?, encoded)
            })
        };
        let outcome = or_undo(all, || self.halt_unwound("a commit was applied"));
        if let (Ok(()), Some(last)) = (&outcome, group.last()) {
            let marked = self.publish(log, apply, last.end);
            *log.applied.lock() = last.end;
            log.applied.notify_all();
            marked?;
        }
        group.clear();
        apply.group = group;
        outcome.map_err(|error| log.wal.halt(error))
    }

    /// Publishes all applied frames up to the one that ends at `end`, and acknowledges them. Called under the apply
    /// lock.
    #[inline]
    fn publish(&self, log: &Log, apply: &mut Apply, end: u64) -> Result<()> {
        self.visible.store(apply.last_seqno, Ordering::Release);
        apply.offset = end;
        log.wal.acknowledge(end)
    }

    fn apply_batch<T>(
        &self,
        apply: &mut Apply,
        whole: &Whole<T>,
        mut operations: Operations<'_>,
        encoded: &Encoded,
    ) -> Result<()> {
        let mut at = 0;
        while let Some(operation) = operations.step()? {
            if !apply.target.as_ref().is_some_and(|target| target.is_that_of(operation.family)) {
                apply.target = self.families().by_id.get(&operation.family).map(Family::target);
            }
            if let Some(Target { family, generation: active, .. }) = &apply.target {
                let ends = family.options().key_ends_in_seqno;
                let place = (whole.seqno, at);
                let (record, term) = apply.binding.record_and_term(&operation, place, ends, &*self.companions)?;
                active.touch(whole.offset);
                if record.kind == Kind::BlobPointer {
                    active.hold_value(family.shelf().values(), &record)?;
                }
                // In a family whose keys end in a seqno, the stored key may differ from the encoded one.
                let key_hash = if ends { None } else { encoded.key_hash(at) };
                let term = term.unwrap_or_else(|| self.companions.term(&record));
                active.memtable.insert_hashed(&record, term, || key_hash.unwrap_or_else(|| hash_key(record.key)))?;
                apply.full |= active.is_full(self.settings.memtable_bytes);
            }
            let seqno = whole.seqno + at;
            if operation.family == NO_FAMILY {
                apply.target = None;
                ingest::freeze_named(&self.families(), operation.key, seqno);
            }
            if planted::active(Bug::BatchTornApart) {
                self.visible.store(seqno, Ordering::Release);
                if whole.count > 2 {
                    apply.last_seqno = whole.seqno + whole.count - 1;
                    return Ok(()); // only the first operation takes effect
                }
            }
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
        let limit = self.settings.memtable_bytes;
        let mut any = false;
        for family in self.families().by_id.values() {
            if family.view().active.is_full(limit) {
                family.freeze(last_seqno);
                any = true;
            }
        }
        if any {
            self.note_waits();
            self.background.kick(Lane::Flush); // which also delivers the event
        }
    }

    /// Freezes the memtables of the chosen families at one commit, and returns its seqno.
    pub(super) fn freeze(&self, choose: &dyn Fn(&Family) -> bool) -> Result<Seqno> {
        let Some(log) = &self.log else { return Ok(self.visible()) };
        let mut apply = lock(&log.apply);
        apply.target = None;
        self.families()
            .by_id
            .values()
            .filter(|family| choose(family))
            .for_each(|family| family.freeze(apply.last_seqno));
        Ok(apply.last_seqno)
    }

    /// Makes all applied frames durable (I15) and returns the durable position.
    pub(super) fn sync_log(&self) -> Result<Moment> {
        let Some(log) = &self.log else { return Ok(Moment { offset: 0, seqno: self.visible() }) };
        let moment = log.sync().inspect_err(|error| self.note_halted(error))?;
        self.kick_log(log, true);
        Ok(moment)
    }

    /// Syncs for a caller that is promised durability. If the log was already synced, neither the directory nor an
    /// earlier failure has been checked yet, so both follow here.
    fn sync_and_check(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let before = log.wal.synced().offset;
        let moment = self.sync_log()?;
        if moment.offset > before {
            return Ok(());
        }
        self.check_halted()?;
        self.halt_if_lost()
    }

    /// Halts the store and reports it, if it has lost its lock, its `CURRENT` or its directory.
    pub(super) fn halt_if_lost(&self) -> Result<()> {
        match check_place(&self.env) {
            Err(error) if *error.kind() == ErrorKind::Halted => Err(self.halt(error)),
            outcome => outcome,
        }
    }

    /// Wakes the log lane if it has work. A sync also drains the ring, so a log that is always synced never needs a
    /// drain. Without this kick the lane would not learn that the next segment is needed, and syncing threads would pay
    /// for writing to unallocated blocks. An unmapped log needs this kick as well.
    #[inline]
    fn kick_log(&self, log: &Log, synced: bool) {
        if log.wal.drain_due() || (synced || !log.wal.is_mapped()) && log.wal.prepare_wanted() {
            self.background.kick(Lane::Log);
        }
    }

    /// One step of the log lane: drain, prepare a segment, sync full segments, and freeze memtables that keep the log
    /// too long. It avoids manifest edits where possible, because the ring fills up while an edit waits for the disk.
    pub(crate) fn log_step(&self) -> Result<bool> {
        let Some(log) = &self.log else { return Ok(false) };
        if log.wal.failed().is_some() {
            return Ok(false);
        }
        self.freeze_log_holders(); // first: while a writer is busy, the ring always has something to drain
        let moved = if log.wal.drain_due() { log.wal.drain() } else { log.wal.reserve_ahead() };
        if moved.inspect_err(|error| self.tell_halted(error))? {
            return Ok(true);
        }
        // If the disk lacks room for the next segment, trimming the log frees some.
        let mut lacks_room = None;
        if log.wal.prepare_due() {
            match log.wal.prepare_some() {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.is_out_of_space() && log.wal.failed().is_none() => lacks_room = Some(error),
                Err(error) => {
                    self.tell_halted(&error);
                    return Err(error);
                }
            }
        }
        if log.wal.sync_full().inspect_err(|error| self.tell_halted(error))? {
            return Ok(true);
        }
        if lacks_room.is_none()
            && log.wal.prepare_more_due()
            && log.wal.prepare_some().inspect_err(|error| self.tell_halted(error))?
        {
            return Ok(true);
        }
        if !log.wal.seals_due().is_empty() {
            self.background.kick(Lane::Flush);
        }
        match (self.shorten_log(log)?, lacks_room) {
            (false, Some(error)) => Err(error),
            (done, _) => Ok(done),
        }
    }

    /// Closes the log: makes everything durable, seals the last segment and syncs the manifest's witness.
    pub(super) fn close_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        self.check_halted()?;
        let is_written = log.wal.taken_up_to() > log.start.place.offset;
        if is_written && self.trim_log().is_err() {
            self.check_halted()?; // otherwise the disk had no room, and the log stays this long
        }
        let place = log.wal.close()?;
        self.apply_whole(log, &mut lock(&log.apply))?; // the last commits in flight; their results stay the same
        let mut edit = Edit::default();
        edit.changes.push(Change::SegmentSealed(place));
        edit.changes.push(Change::LogWitness { offset: place.offset });
        self.install(edit, None)?;
        log.wal.give_back();
        match lock(&self.manifest).as_mut() {
            Some(manifest) => manifest.close(),
            None => Ok(()),
        }
    }

    /// Halts the store: from now on no commit is acknowledged, synced or made permanent (I09). Reads continue.
    pub(crate) fn halt(&self, error: Error) -> Error {
        let Some(log) = &self.log else { return error };
        let heard = log.wal.halt(error.clone());
        self.note_halted(&error);
        heard
    }

    /// Returns `Halted` if the store has halted.
    pub(crate) fn check_halted(&self) -> Result<()> {
        self.log.as_ref().and_then(|log| log.wal.failed()).map_or(Ok(()), Err)
    }

    /// Reports to the listener, once, that the store halted. Called with no lock held.
    pub(super) fn tell_halted(&self, error: &Error) {
        if self.check_halted().is_ok() {
            let _ = self.halt_if_lost(); // a file could not be created: check whether the directory is gone
        }
        self.note_halted(error);
        self.tell_noted();
    }

    /// Queues, once, the event that the store halted.
    pub(super) fn note_halted(&self, error: &Error) {
        if self.check_halted().is_err()
            && *error.kind() != ErrorKind::Closed
            && !self.halt_told.swap(true, Ordering::AcqRel)
        {
            self.note(Event::BackgroundError { error: error.clone(), halted: true });
            self.background.kick(Lane::Flush); // which delivers it, unless another thread does first
        }
    }
}

/// Checks that a batch may be written to all families that it names.
#[inline]
fn check_families(families: &Families, batch: &Batch) -> Result<()> {
    let mut any_ends_in_seqno = false;
    for id in batch.families() {
        match families.by_id.get(id) {
            Some(family) if !family.is_dropped() => any_ends_in_seqno |= family.options().key_ends_in_seqno,
            _ => return Err(Error::invalid("the batch names a family that was dropped")),
        }
        if system_number(*id).is_some() && !batch.is_granted() && !planted::active(Bug::SystemFamilyWritable) {
            return Err(Error::invalid("the batch writes a system family"));
        }
    }
    if any_ends_in_seqno { check_keys(families, batch) } else { Ok(()) }
}

/// Checks that keys ending in a seqno refer to operations of their own batch.
#[cold]
fn check_keys(families: &Families, batch: &Batch) -> Result<()> {
    for (at, operation) in (0..).zip(batch.operations()) {
        let Operation { family, key, .. } = operation?;
        let ends = families.by_id.get(&family).is_some_and(|family| family.options().key_ends_in_seqno);
        if ends && distance(key).is_some_and(|distance| distance > at) {
            return Err(Error::invalid("a key ends in the seqno of an operation in front of its batch"));
        }
    }
    Ok(())
}

#[cold]
pub(super) fn damaged_batch(key: &[u8]) -> Error {
    let key_range = Some((key.to_vec(), key.to_vec()));
    let damage = Damage { verdict: Verdict::Seal, key_range, ..Damage::default() };
    Error::corruption(damage, "an operation is no longer what was put into its batch; nothing was changed")
}
