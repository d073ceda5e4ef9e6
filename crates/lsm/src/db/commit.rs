//! The write path: batch -> ordered -> copied -> applied -> acknowledged, and synced where asked.
//!
//! ```text
//! caller   seals the batch: encoding, hashes, companions, outside every lock; if it was kept, each companion is asked once more
//! apart    large values go to a value file, and pointers in their place, unless the commit is synced   (`apart.rs`)
//! order    seqno, place and link (short mutex, inside the log)
//! copy     each thread its own frame, beside the others
//! apply    one thread at a time takes what is whole, in order, into the memtables; publishes the seqno (I01); marks it
//! sync     a group at a time, for those who asked; others never wait for it
//! ```
//!
//! Whoever finds nothing on the way is *alone*: under the apply lock its frame is ordered, copied and taken in one piece, and it is applied
//! from the batch where that lies. No queue, no second look, no count of owners. All others take the steps above.
//!
//! After:  a commit that returned is visible, whole in the log, and below the acknowledged mark; `Sync` ones below the witness.
//! Errors: before it is ordered a commit fails alone; a failed write or sync of the log halts the store (I09).

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
use crate::names::{check_lock, system_number};
use crate::options::{Durability, Settings};
use crate::planted::{self, Bug};
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Check, Protection};
use crate::version::{Change, Edit};
use crate::wal::{LogStart, Numbers, Then, Under, Wal, Whole};

/// The log and the one place where its frames become visible.
pub(crate) struct Log {
    wal: Wal<Body>,
    pub(super) apply: Mutex<Apply>,
    /// Offset up to which frames are applied, for those whose frame another thread applies.
    applied: Signal<u64>,
    /// The greatest seqno known to be durable.
    durable: AtomicU64,
    start: LogStart,
}

pub(super) struct Apply {
    group: Vec<Whole<Body>>,
    binding: Binding,
    /// Where the last record went.
    pub(super) target: Option<Target>,
    pub(super) last_seqno: Seqno,
    pub(super) offset: u64,
    /// A memtable grew beyond its budget.
    full: bool,
}

impl Apply {
    /// True if a batch names one ordinary family alone, which is the one that the last record went to and may be written to.
    #[inline]
    fn is_aimed_at(&self, batch: &Batch) -> bool {
        let ([id], Some(target)) = (batch.families(), &self.target) else { return false };
        target.is_that_of(*id) && system_number(*id).is_none() && !target.family.options().key_ends_in_seqno
    }
}

/// A moment of the log: everything up to the seqno is applied, and its frames end at the offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) offset: u64,
    pub(crate) seqno: Seqno,
}

impl Log {
    /// A fresh log from `offset` on, after `last_seqno`; not yet named by any edit.
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

    /// Where its first segment and its ring are.
    pub(super) fn start(&self) -> LogStart {
        self.start
    }

    pub(super) fn durable_seqno(&self) -> Seqno {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn wal(&self) -> &Wal<Body> {
        &self.wal
    }

    /// Frees memory that only commits need: the log is closed.
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

    /// Makes everything applied durable.
    fn sync(&self) -> Result<Moment> {
        let moment = self.moment();
        self.wal.sync_once(moment.offset)?;
        self.durable.fetch_max(moment.seqno, Ordering::AcqRel);
        Ok(moment)
    }
}

impl Db {
    /// Commits a batch: all of it or nothing, in one place in the order of commits. Returns the seqno of its last operation.
    ///
    /// Visible to reads when it returns (and, before that, only if it will be whole in the log). Errors: `Io` (a full disk:
    /// nothing was changed, try again), `Halted`, `ReadOnly`, `Closed`. After `Halted` from a `Sync` commit the batch is
    /// visible, but not known to be durable. An empty batch does nothing. The batch itself is left as it was.
    #[inline]
    pub fn commit(&self, batch: &mut Batch, durability: Durability) -> Result<Seqno> {
        loop {
            if let Some(last) = self.commit_unheard(batch, durability, self.rules())? {
                return Ok(last);
            }
        }
    }

    /// `commit_under`, with nobody to hear when it is ordered. One way for all who write so, never a copy in each of them.
    #[inline(never)]
    pub fn commit_unheard(&self, batch: &mut Batch, durability: Durability, rules: u64) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &under(rules), |_| {})
    }

    /// The word of rules under which batches are made. Its upper half is the engine's: it changes when a family is dropped. The
    /// lower half is the caller's, 0 at open. Whoever reads a word here and commits under it knows that nothing of either
    /// kind came between. A load; 0 for a store that cannot be written.
    #[inline]
    pub fn rules(&self) -> u64 {
        self.inner().log.as_ref().map_or(0, |log| log.wal.rules())
    }

    /// Sets the lower half of the word of rules: batches that are ordered from now on are made under it.
    pub fn set_rules(&self, low: u32) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal.set_rules(low);
        Ok(())
    }

    /// `commit`, if the word of rules is still what it was when the batch was made; none if it is not, and then nothing was changed.
    ///
    /// `on_ordered` hears the seqno of the first operation once its place in the order of commits is certain: whoever holds a
    /// lock for the order releases it there. It is called once or, if the batch is not ordered, not at all; the log waits
    /// for it, so it must be short, must not call the store and must not panic. Before that the call may wait for room, and for
    /// flushes and compactions, so no lock that their keeper takes may be held.
    pub fn commit_under(
        &self,
        batch: &mut Batch,
        durability: Durability,
        rules: u64,
        on_ordered: &mut dyn FnMut(Seqno),
    ) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &under(rules), on_ordered)
    }

    /// `commit_unheard`, for a batch that says when it was made: `time`, above 0. Times rise in the order of commits: none also where one
    /// that is not earlier is in front of it by now (`last_time`), and then nothing was changed: it is to be made anew, with a later one. So
    /// whoever takes a time holds no lock until its batch is ordered.
    pub fn commit_timed(
        &self,
        batch: &mut Batch,
        durability: Durability,
        rules: u64,
        time: u64,
    ) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &Under { time, ..under(rules) }, |_| {})
    }

    /// Shows the time of the last commit that said one, from now on and without a lock; 0: none did since the store was opened.
    pub fn last_time(&self) -> Arc<AtomicU64> {
        self.inner().log.as_ref().map_or_else(Arc::default, |log| log.wal.last_time().clone())
    }

    /// From now on the upper half of the word of rules is another: what was made under it so far and is not ordered yet is handed back.
    pub fn renew_rules(&self) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal.renew_rules();
        Ok(())
    }

    /// `commit` of the last batch under the rules so far: in the order of commits the lower half of the word is `low` behind it.
    /// `on_ordered` as with `commit_under`. Errors: also `Invalid` for an empty batch.
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

    /// `commit_unheard` with `Os`, if nothing has to be waited for and no file to be touched: stalled writers, a log without room, one that
    /// is not mapped, a frame too long for the ring, another commit that is not copied yet. None then, as where the rules are others, and nothing was changed.
    ///
    /// For whoever must not block: what is left are short locks that are held over no I/O.
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

    /// Orders, copies and applies a batch whose hash was taken.
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
        // Whoever is alone has the apply lock until its batch is applied.
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

    /// Makes everything that was acknowledged before the call durable, whatever durability it asked for. One fdatasync, shared
    /// with whoever else syncs.
    pub fn sync(&self) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal.expect_syncs();
        self.sync_committed()
    }

    /// `sync` for commits that have returned already: where the store was closed since, or is being closed, they still hear the truth, since
    /// closing makes everything durable.
    pub fn sync_committed(&self) -> Result<()> {
        let inner = self.here()?;
        let synced = inner.sync_and_check();
        inner.tell_noted();
        synced
    }
}

/// What a batch that was made under a word of rules asks for.
fn under(rules: u64) -> Under {
    Under { word: rules, mask: u64::MAX, ..Under::default() }
}

impl Inner {
    /// Whether a batch that was kept is still what was put into it. Asked after its sum was taken: what flipped before does not
    /// match its companion, what flips later does not fit the sum. Errors: `Corruption`; nothing was changed, and the batch is to be built anew.
    fn check_batch(&self, batch: &Batch, sum: &Sum<'_>) -> Result<()> {
        let keeper = &*self.companions;
        if keeper.protection() == Protection::None {
            return Ok(());
        }
        // An operation whose companion seems not to be there may have been hit in a length: then its value has swallowed it.
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

    /// Applies what was appended alone, shows it, marks it. Nobody waits to hear of it: who waits has a frame behind it.
    #[inline]
    fn apply_alone(&self, log: &Log, apply: &mut Apply, whole: &Whole<()>, batch: &Batch) -> Result<()> {
        let outcome = self.apply_batch(apply, whole, batch.operations(), batch.encoded());
        outcome.and_then(|()| self.publish(log, apply, whole.end)).map_err(|error| log.wal.halt(error))
    }

    /// Applies what is whole until the frame that ends at `end` is applied, by this thread or another.
    pub(super) fn apply_through(&self, log: &Log, end: u64) -> Result<()> {
        loop {
            let mut apply = lock(&log.apply);
            self.apply_whole(log, &mut apply)?;
            if apply.offset >= end {
                return Ok(());
            }
            drop(apply);
            // A frame before ours is not copied yet. Whoever copies it applies ours too.
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

    /// Takes the whole frames into the memtables, shows them, marks them. Under the apply lock.
    ///
    /// Not in a store that halted: what was to be applied before may be missing.
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

    /// Shows what was applied, up to the frame that ends there, and marks it. Under the apply lock.
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
                // The key of such a family may be another one by now.
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
        // Frozen at once: no memtable grows by more than one batch beyond its budget.
        if std::mem::take(&mut apply.full) {
            apply.target = None; // nobody but its flush keeps a frozen memtable
            self.freeze_full(apply.last_seqno);
        }
        Ok(())
    }

    /// Freezes the memtables that are full. Under the apply lock.
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
            self.background.kick(Lane::Flush); // which tells it too
        }
    }

    /// Freezes the memtables of the chosen families, all at one commit, which is returned.
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

    /// Makes everything applied durable (I15); returns the moment up to which it is.
    pub(super) fn sync_log(&self) -> Result<Moment> {
        let Some(log) = &self.log else { return Ok(Moment { offset: 0, seqno: self.visible() }) };
        let moment = log.sync().inspect_err(|error| self.note_halted(error))?;
        self.kick_log(log, true);
        Ok(moment)
    }

    /// The same for a caller who is told that all is durable: where nothing was left to sync, the lock has not been looked at yet.
    fn sync_and_check(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let before = log.wal.synced().offset;
        let moment = self.sync_log()?;
        if moment.offset <= before { self.halt_if_lost() } else { Ok(()) }
    }

    /// Halts a store that has lost its lock or its directory, and says so.
    pub(super) fn halt_if_lost(&self) -> Result<()> {
        match check_lock(&self.env) {
            Err(error) if *error.kind() == ErrorKind::Halted => Err(self.halt(error)),
            outcome => outcome,
        }
    }

    /// Kicks the log's lane if there is work for it. Who syncs drains too, so that a log that is always synced is never due to be drained: then
    /// the lane would not hear that the next segment is wanted, and whoever syncs would pay for blocks that were never written. Nor is a log that is
    /// not mapped.
    #[inline]
    fn kick_log(&self, log: &Log, synced: bool) {
        if log.wal.drain_due() || (synced || !log.wal.is_mapped()) && log.wal.prepare_wanted() {
            self.background.kick(Lane::Log);
        }
    }

    /// The log lane: drain, prepare, sync what is full, and flushes for a log that grew too long. An edit is none of its work where it can be helped: while that waits
    /// for the disk the ring fills up.
    pub(crate) fn log_step(&self) -> Result<bool> {
        let Some(log) = &self.log else { return Ok(false) };
        if log.wal.failed().is_some() {
            return Ok(false);
        }
        self.freeze_log_holders(); // first: beside a busy writer there is always something to drain
        let moved = if log.wal.drain_due() { log.wal.drain() } else { log.wal.reserve_ahead() };
        if moved.inspect_err(|error| self.tell_halted(error))? {
            return Ok(true);
        }
        // Where there is no room for the next segment a log that is made shorter has one.
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

    /// Ends the log: everything durable, the last segment sealed, the manifest's witness synced.
    pub(super) fn close_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        self.check_halted()?;
        let is_written = log.wal.taken_up_to() > log.start.place.offset;
        if is_written && self.trim_log().is_err() {
            self.check_halted()?; // else there was no room for it, and the log is closed as long as it is
        }
        let place = log.wal.close()?;
        self.apply_whole(log, &mut lock(&log.apply))?; // the last commits in flight, which return what they would have returned before
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

    /// From now on nothing is acknowledged, synced or made permanent (I09); reads go on.
    pub(crate) fn halt(&self, error: Error) -> Error {
        let Some(log) = &self.log else { return error };
        let heard = log.wal.halt(error.clone());
        self.note_halted(&error);
        heard
    }

    /// `Halted`, if the store is.
    pub(crate) fn check_halted(&self) -> Result<()> {
        self.log.as_ref().and_then(|log| log.wal.failed()).map_or(Ok(()), Err)
    }

    /// Tells the listener once that the store halted. With no lock held.
    pub(super) fn tell_halted(&self, error: &Error) {
        if self.check_halted().is_ok() {
            let _ = self.halt_if_lost(); // a file could not be made, perhaps: is its directory gone?
        }
        self.note_halted(error);
        self.tell_noted();
    }

    /// Notes once that the store halted, to be told.
    pub(super) fn note_halted(&self, error: &Error) {
        if self.check_halted().is_err()
            && *error.kind() != ErrorKind::Closed
            && !self.halt_told.swap(true, Ordering::AcqRel)
        {
            self.note(Event::BackgroundError { error: error.clone(), halted: true });
            self.background.kick(Lane::Flush); // which tells it, if nobody does before
        }
    }
}

/// Whether a batch may be written to all the families that it names.
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

/// Whether the keys that end in a seqno name operations of their own batch.
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
