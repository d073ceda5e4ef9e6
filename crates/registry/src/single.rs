//! One operation, committed as it is encoded: what nearly every write is.
//!
//! ```text
//! ask       which registration watches it, by the snapshot that the thread met last, if the word of rules still names that
//! claim     room for its event, mode async
//! turn      from taking its time until it has its place: so times rise in the order of commits
//! encode    with its stamp and, mode sync, with its row behind it
//! commit    under the same word of rules; another one by now: nothing was changed, and it is asked again
//! push      its row to the ring, mode async
//! ```
//!
//! Costs beside a commit that nobody watches: the clock once, the turn, 14 bytes beside the record; mode sync a row of some 60
//! bytes and its place in memory, mode async the row's bytes copied to the ring. Nothing is allocated, and the value is copied once.
//!
//! What needs more is committed as a batch (`hooks.rs`): an old value that is read before, and a key too long to be watched for sure.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use waxseal_lsm::batch::{Batch, SystemPass};
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::system_number;
use waxseal_lsm::options::Durability;
use waxseal_lsm::planted::{self, Bug};
use waxseal_lsm::record::Seqno;
use waxseal_lsm::seam::Draft;
use waxseal_meta::Seal;
use waxseal_meta::stamp::{Stamp, Verb};

use crate::clock::Time;
use crate::emission::{Plan, expires, operation_of};
use crate::hooks::{Hooks, Room, SHORT_KEY, Seen, name_of, row_of, rules_of, verb_of};
use crate::matching::Snapshot;
use crate::modes::Claim;
use crate::registration::Mode;
use crate::sessions::Session;

/// How one operation is written.
enum Answer<'a> {
    /// As it is.
    Plain,
    /// With a stamp, once its time and its session are known.
    Watched(&'a Plan),
    /// As a batch of one, since it needs more.
    Whole,
    /// Ask again: other rules are about to be in force.
    Again,
}

/// One operation, what is known of it, and who does it.
#[derive(Clone, Copy)]
struct Single<'a> {
    draft: &'a Draft<'a>,
    seal: Option<Seal>,
    verb: Verb,
    who: Option<&'a Session>,
    durability: Durability,
}

impl Hooks {
    /// Commits one operation, watched or not. `batch` is room to encode it in.
    pub(crate) fn commit_one(
        &self,
        batch: &mut Batch,
        draft: &Draft<'_>,
        seal: Option<Seal>,
        durability: Durability,
        (who, verb): (Option<&Session>, Verb),
    ) -> Result<Seqno> {
        let draft = &Draft { key_hash: Some(draft.hashed_key()), ..*draft };
        let single = Single { draft, seal, verb: verb_of(draft.kind, Some(verb)), who, durability };
        Room::lend(|room| self.one_in(room, batch, single))
    }

    fn one_in(&self, room: &mut Room, batch: &mut Batch, single: Single<'_>) -> Result<Seqno> {
        let Single { draft, seal, verb, who, durability } = single;
        loop {
            let rules = self.db.rules();
            let committed = match self.ask(&mut room.seen, rules, draft, verb) {
                Answer::Again => continue,
                Answer::Plain => {
                    self.push_one(batch, draft, seal)?;
                    self.db.commit_unheard(batch, durability, rules)?
                }
                Answer::Watched(plan) => {
                    let session = self.number(who)?;
                    let committed = match plan.mode {
                        Mode::Deferred => self.commit_stamped(batch, &single, (plan, session), rules, None)?.0,
                        _ => self.commit_told(batch, &single, (plan, session), rules, &mut room.row)?,
                    };
                    if committed.is_none() {
                        self.again.fetch_add(1, Relaxed);
                    }
                    committed
                }
                Answer::Whole => {
                    self.push_one(batch, draft, seal)?;
                    return self.commit_in(room, batch, durability, (who, &[verb]));
                }
            };
            if let Some(seqno) = committed {
                return Ok(seqno);
            }
        }
    }

    /// The operation alone in a batch, encoded.
    #[inline]
    pub(crate) fn push_one(&self, batch: &mut Batch, draft: &Draft<'_>, seal: Option<Seal>) -> Result<()> {
        batch.clear();
        let Draft { family, kind, key, value, entries, .. } = *draft;
        match seal {
            None => batch.push_given(family, kind, key, value, entries, self.db.companions()),
            Some(seal) => self.sealer.push_sealed_given(batch, draft, seal),
        }
    }

    /// How one operation is written under these rules.
    #[inline]
    fn ask<'a>(&self, seen: &'a mut Option<Seen>, rules: u64, draft: &Draft<'_>, verb: Verb) -> Answer<'a> {
        if rules & 1 == 0 || system_number(draft.family).is_some() {
            return Answer::Plain; // to the store's own families nothing happens: the engine refuses
        }
        let is_known = |seen: &Seen| seen.store == self.number && rules_of(&seen.snapshot) == rules as u32;
        if !seen.as_ref().is_some_and(is_known) {
            let Some(snapshot) = self.look_for(rules) else { return Answer::Again };
            *seen = Some(Seen { store: self.number, snapshot });
        }
        let Some(Seen { snapshot, .. }) = seen else { return Answer::Again };
        if snapshot.reads_before() {
            return Answer::Whole;
        }
        match snapshot.plan(draft.family, draft.key, draft.hashed_key(), operation_of(verb)) {
            None => Answer::Plain,
            Some(_) if draft.key.len() > SHORT_KEY => Answer::Whole,
            Some(plan) => Answer::Watched(plan),
        }
    }

    /// The snapshot in force, if the word of rules names it.
    #[cold]
    fn look_for(&self, rules: u64) -> Option<Arc<Snapshot>> {
        let snapshot = self.matching.load();
        self.is_in_force(&snapshot, rules).then(|| Arc::clone(&snapshot))
    }

    /// Commits an operation of whose event a row is written now, mode sync, or soon, mode async; none if other rules are in force by now,
    /// and then nothing was changed.
    fn commit_told(
        &self,
        batch: &mut Batch,
        single: &Single<'_>,
        (plan, session): (&Plan, u64),
        rules: u64,
        row: &mut Vec<u8>,
    ) -> Result<Option<Seqno>> {
        let name = name_of(plan, single.draft.family, &self.db)?;
        let claim = self.claim_room(usize::from(plan.mode == Mode::Async))?;
        let is_beside = plan.mode == Mode::Sync || claim == Claim::WithOperation;
        let beside = is_beside.then_some((&*name, &mut *row));
        let release = || self.queue.release(claim);
        let committed = self.commit_stamped(batch, single, (plan, session), rules, beside);
        let (Some(seqno), stamp) = committed.inspect_err(|_| release())? else {
            release();
            return Ok(None);
        };
        if claim == Claim::Room(1) {
            let key_end = row_of_one(batch, (&name, seqno), &stamp, single.who, row).inspect_err(|_| release())?;
            self.queue.push(|rows| rows.push(row, key_end, expires(Time(stamp.time), stamp.retention)));
        }
        Ok(Some(seqno))
    }

    /// Commits an operation with its stamp, in its turn, and with its row where `beside` says of which family and where it may be put
    /// together. Answers its seqno, none if other rules are in force by now, and the stamp.
    #[inline]
    fn commit_stamped(
        &self,
        batch: &mut Batch,
        single: &Single<'_>,
        (plan, session): (&Plan, u64),
        rules: u64,
        beside: Option<(&str, &mut Vec<u8>)>,
    ) -> Result<(Option<Seqno>, Stamp)> {
        let Single { draft, seal, verb, who, durability } = *single;
        batch.clear();
        let mut turn = (!planted::active(Bug::TurnNotHeld)).then(|| lock(&self.turn));
        let stamp = Stamp { verb, time: self.witness.clock.now().0, session, ..plan.stamp };
        self.sealer.push_stamped(batch, draft, seal, &stamp)?;
        if let Some((family, row)) = beside {
            let key_end = row_of_one(batch, (family, 0), &stamp, who, row)?;
            self.push_beside(batch, row, key_end, 0, &stamp)?;
            batch.grant(SystemPass::for_layers_above());
        }
        let mut first = None;
        let committed = self.db.commit_under(batch, durability, rules, &mut |seqno| {
            first = Some(seqno);
            turn = None;
        })?;
        Ok((committed.and(first), stamp))
    }
}

/// The row of the first operation of a batch, in the place of what `out` held; answers where its key ends.
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
