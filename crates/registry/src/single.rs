//! The fast path: commits a single operation as it is encoded, which covers nearly all writes.
//!
//! ```text
//! ask       finds the registration, by the thread's cached registry snapshot if the epoch still names it
//! claim     reserves ring space for its event (mode async)
//! time      takes a time later than those of all commits so far
//! encode    encodes the operation with its stamp and (mode sync) with its row behind it
//! commit    commits under the same epoch, behind earlier times only; otherwise nothing changed, and it starts again
//! push      adds its row to the ring (mode async)
//!
//! usual     mode deferred, where all keys of the family are treated alike, and the thread's last write was of the same
//!           kind: neither `ask` nor `claim`
//! ```
//!
//! Costs, in addition to those of an unregistered commit: one reading of the clock, and 15 bytes in the record. Mode
//! sync adds a row of about 60 bytes and its place in the memtable; mode async copies the row's bytes to the ring. No
//! lock is taken, nothing is allocated, and the value is copied once. With concurrent registered writes, the operation
//! may be encoded more than once, or wait at the commit gate (`commit_gate.rs`).
//!
//! Two cases are committed as a batch (`hooks.rs`): an old value that must be read first, and a key that may be too
//! long to be logged.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use waxseal_lsm::batch::{Batch, SystemPass};
use waxseal_lsm::db::Precondition;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::system_number;
use waxseal_lsm::options::Durability;
use waxseal_lsm::planted;
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_lsm::seam::{Companions, PendingWrite};
use waxseal_meta::Seal;
use waxseal_meta::stamp::{Blank, Stamp, StampVerb};

use crate::clock::Time;
use crate::described::Notes;
use crate::emission::{EmissionPlan, expires, operation_of};
use crate::hooks::{CachedSnapshot, Hooks, Room, SHORT_KEY, epoch_of, is_watched, name_of, passing, row_of, verb_of};
use crate::matching::RegistrySnapshot;
use crate::modes::Claim;
use crate::registration::Mode;
use crate::sessions::Session;

/// How one operation is to be written.
enum StampPlan<'a> {
    /// Without a stamp.
    Plain,
    /// With a stamp, once its time and its session are known.
    Watched(&'a EmissionPlan),
    /// As a batch of one operation.
    Whole,
    /// Ask again: a new epoch is about to take effect.
    Again,
}

/// The thread's last lookup in mode deferred, for a family whose keys are all treated alike. Valid while the store's
/// epoch is unchanged. Each part is a separate cell, so that a comparison copies nothing.
struct Usual {
    /// `Hooks::number`; 0 before the first lookup.
    store: Cell<u64>,
    epoch: Cell<u64>,
    family: Cell<u32>,
    kind: Cell<Kind>,
    /// As passed by the caller.
    verb: Cell<StampVerb>,
    stamp: Cell<Blank>,
}

thread_local! {
    static USUAL: Usual = const {
        Usual {
            store: Cell::new(0),
            epoch: Cell::new(0),
            family: Cell::new(0),
            kind: Cell::new(Kind::Put),
            verb: Cell::new(StampVerb::Update),
            stamp: Cell::new(Blank::LEAST),
        }
    };
}

impl Usual {
    /// Returns the stamp for an operation, if store, epoch, family, kind and verb equal those of the last lookup.
    #[inline]
    fn stamp_of(&self, single: &Single<'_>, store: u64, epoch: u64) -> Option<Blank> {
        let PendingWrite { family, kind, key, .. } = &single.pending;
        let is_ruled = planted!(AnswerOutlivesItsRules, true, self.epoch.get() == epoch);
        let is_like = self.family.get() == *family && self.kind.get() == *kind && self.verb.get() == single.verb;
        let holds = is_ruled && self.store.get() == store && is_like && key.len() <= SHORT_KEY;
        if holds { Some(self.stamp.get()) } else { None }
    }

    /// Records a lookup.
    fn set(&self, single: &Single<'_>, (store, epoch): (u64, u64), stamp: Blank) {
        self.store.set(store);
        self.epoch.set(epoch);
        self.family.set(single.pending.family);
        self.kind.set(single.pending.kind);
        self.verb.set(single.verb);
        self.stamp.set(stamp);
    }
}

/// One operation with its context.
#[derive(Clone, Copy)]
pub(crate) struct Single<'a> {
    pub(crate) pending: PendingWrite<'a>,
    /// The caller's seal, if any.
    pub(crate) seal: Option<Seal>,
    /// The log name that the caller passed.
    pub(crate) verb: StampVerb,
    pub(crate) who: Option<&'a Session>,
    pub(crate) durability: Durability,
}

impl Single<'_> {
    /// Returns the operation's log name.
    #[inline]
    fn verb(&self) -> StampVerb {
        verb_of(self.pending.kind, Some(self.verb))
    }
}

impl Hooks {
    /// Commits one operation, registered or not, under the epoch read last. `batch` is a buffer for its encoding.
    pub(crate) fn commit_one(&self, batch: &mut Batch, single: &Single<'_>, epoch: u64) -> Result<Seqno> {
        if let Some(stamp) = USUAL.with(|usual| usual.stamp_of(single, self.number, epoch))
            && let Some(session) = Session::number_of(single.who)
            && !self.gate.is_wanted()
        {
            let time = self.witness.clock.next().0; // first: reading the clock waits for all preceding instructions
            batch.clear();
            self.sealer.push_filled(batch, &single.pending, single.seal, (stamp, time, session))?;
            if let Some(seqno) =
                self.db.commit_if(batch, single.durability, Precondition::epoch(epoch).at_time(time))?
            {
                return Ok(seqno);
            }
        }
        self.commit_asked(batch, single)
    }

    /// Commits one operation after a lookup of its registration.
    #[inline(never)]
    fn commit_asked(&self, batch: &mut Batch, single: &Single<'_>) -> Result<Seqno> {
        let pending = PendingWrite { key_hash: Some(single.pending.hashed_key()), ..single.pending };
        let outcome = Room::lend(|room| self.one_in(room, batch, &Single { pending, ..*single }));
        batch.clear(); // also revokes its grant
        outcome
    }

    fn one_in(&self, room: &mut Room, batch: &mut Batch, single: &Single<'_>) -> Result<Seqno> {
        let Single { pending, seal, who, durability, .. } = single;
        let (seal, who, durability, verb) = (*seal, *who, *durability, single.verb());
        let mut handed_back = 0;
        loop {
            self.db.await_holds();
            let epoch = self.db.epoch();
            let committed = match self.ask(&mut room.seen, epoch, single) {
                StampPlan::Again => continue,
                StampPlan::Plain => {
                    self.push_one(batch, pending, seal)?;
                    self.db.commit_if(batch, durability, Precondition::epoch(epoch))?
                }
                StampPlan::Watched(plan) => {
                    let plan = (plan, self.number(who)?);
                    let pass = self.gate.enter(false, handed_back);
                    let under = passing(&pass, Precondition::epoch(epoch));
                    let committed = match plan.0.mode {
                        Mode::Deferred => self.commit_stamped(batch, single, plan, under, None)?.0,
                        _ => self.commit_logged(batch, single, plan, under, &mut room.row)?,
                    };
                    if committed.is_none() {
                        self.again.fetch_add(1, Relaxed);
                        handed_back += 1;
                    }
                    committed
                }
                StampPlan::Whole => {
                    self.push_one(batch, pending, seal)?;
                    return self.commit_in(room, batch, durability, Notes { who, verbs: &[verb], ..Notes::default() });
                }
            };
            if let Some(seqno) = committed {
                return Ok(seqno);
            }
        }
    }

    /// Clears the batch and encodes the operation into the batch.
    #[inline]
    fn push_one(&self, batch: &mut Batch, pending: &PendingWrite<'_>, seal: Option<Seal>) -> Result<()> {
        let Some(seal) = seal else { return push_unsealed(batch, &mut { *pending }, self.db.companions()) };
        batch.clear();
        self.sealer.push_sealed(batch, pending, seal)
    }

    /// Decides how one operation is written under these rules.
    #[inline]
    fn ask<'a>(&self, seen: &'a mut Option<CachedSnapshot>, epoch: u64, single: &Single<'_>) -> StampPlan<'a> {
        let (pending, verb) = (&single.pending, single.verb());
        if !is_watched(epoch) || system_number(pending.family).is_some() {
            return StampPlan::Plain; // never logged: the engine refuses writes to system families
        }
        let is_known = |seen: &CachedSnapshot| seen.store == self.number && epoch_of(&seen.snapshot) == epoch as u32;
        if !seen.as_ref().is_some_and(is_known) {
            let Some(snapshot) = self.look_for(epoch) else { return StampPlan::Again };
            *seen = Some(CachedSnapshot { store: self.number, snapshot });
        }
        let Some(CachedSnapshot { snapshot, .. }) = seen else { return StampPlan::Again };
        if snapshot.reads_before() {
            return StampPlan::Whole;
        }
        match snapshot.plan(pending.family, pending.key, pending.hashed_key(), operation_of(verb)) {
            None => StampPlan::Plain,
            Some(_) if pending.key.len() > SHORT_KEY || pending.kind == Kind::Merge => StampPlan::Whole,
            Some(plan) => {
                if plan.mode == Mode::Deferred && snapshot.is_alike(pending.family) {
                    let stamp = Stamp { verb, ..plan.stamp }.blank();
                    USUAL.with(|usual| usual.set(single, (self.number, epoch), stamp));
                }
                StampPlan::Watched(plan)
            }
        }
    }

    /// Returns the current snapshot, if the epoch names it.
    #[cold]
    fn look_for(&self, epoch: u64) -> Option<Arc<RegistrySnapshot>> {
        let snapshot = self.matching.load();
        self.is_in_force(&snapshot, epoch).then(|| Arc::clone(&snapshot))
    }

    /// Commits an operation whose event row is written with it (mode sync) or soon after it (mode async). Returns
    /// `None` if the commit was rejected for retry; nothing changed then.
    fn commit_logged(
        &self,
        batch: &mut Batch,
        single: &Single<'_>,
        (plan, session): (&EmissionPlan, u64),
        under: Precondition,
        row: &mut Vec<u8>,
    ) -> Result<Option<Seqno>> {
        let name = name_of(plan, single.pending.family, &self.db)?;
        let name: &str = &name;
        let claim = match plan.mode {
            Mode::Async => self.claim_room(1)?,
            _ => Claim::WithOperation(0),
        };
        let with_row = matches!(claim, Claim::WithOperation(_)).then_some((name, &mut *row));
        let (Some(seqno), stamp) = self.commit_stamped(batch, single, (plan, session), under, with_row)? else {
            return Ok(None);
        };
        match claim {
            Claim::Room(claimed) => {
                let key_end = row_of_one(batch, (name, seqno), &stamp, single.who, row)?;
                claimed.push(|rows| rows.push(row, key_end, expires(Time(stamp.time), stamp.retention)));
            }
            without => self.queue.count(&without),
        }
        Ok(Some(seqno))
    }

    /// Commits an operation with its stamp. With `with_row`, a family name and a buffer, also commits its row. Returns
    /// its seqno, or `None` if the commit was rejected for retry, and the stamp.
    #[inline]
    fn commit_stamped(
        &self,
        batch: &mut Batch,
        single: &Single<'_>,
        (plan, session): (&EmissionPlan, u64),
        under: Precondition,
        with_row: Option<(&str, &mut Vec<u8>)>,
    ) -> Result<(Option<Seqno>, Stamp)> {
        let Single { pending, seal, who, durability, .. } = single;
        batch.clear();
        let stamp = Stamp { verb: single.verb(), time: self.witness.clock.next().0, session, ..plan.stamp };
        self.sealer.push_stamped(batch, pending, *seal, &stamp)?;
        if let Some((family, row)) = with_row {
            let key_end = row_of_one(batch, (family, 0), &stamp, *who, row)?;
            self.push_beside(batch, row, key_end, 0, &stamp)?;
            batch.grant(SystemPass::for_layers_above());
        }
        let last = self.db.commit_if(batch, *durability, under.at_time(stamp.time))?;
        Ok((last.map(|last| last + 1 - batch.len() as u64), stamp))
    }
}

/// Clears the batch and encodes the operation into the batch; the record protector computes the seal.
#[inline]
pub(crate) fn push_unsealed(
    batch: &mut Batch,
    pending: &mut PendingWrite<'_>,
    protector: &dyn Companions,
) -> Result<()> {
    batch.clear();
    batch.push_pending(pending, protector)
}

/// Replaces the content of `out` by the row of the first operation of a batch; returns the end of its key.
fn row_of_one(
    batch: &Batch,
    (family, seqno): (&str, Seqno),
    stamp: &Stamp,
    who: Option<&Session>,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let operation = batch.operations().next().ok_or_else(|| Error::structural("a batch without its operation"))??;
    row_of((family, &operation, seqno), stamp, who, None, out)
}
