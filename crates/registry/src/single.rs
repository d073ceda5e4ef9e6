//! One operation, committed as it is encoded: what nearly every write is.
//!
//! ```text
//! ask       which registration watches it, by the snapshot that the thread met last, if the word of rules still names that
//! claim     room for its event, mode async
//! time      one that is later than those of all commits so far
//! encode    with its stamp and, mode sync, with its row behind it
//! commit    under the same word of rules, behind earlier times alone; else nothing was changed, and it is asked again
//! push      its row to the ring, mode async
//!
//! usual     what is watched alike whatever its key, mode deferred, by a thread that wrote such a thing last: no question, and no claim
//! ```
//!
//! Costs beside a commit that nobody watches: the clock once, 15 bytes beside the record; mode sync a row of some 60
//! bytes and its place in memory, mode async the row's bytes copied to the ring. No lock is taken and nothing is allocated, and the value is copied
//! once. Beside others who write watched things at the same moment it may be encoded more than once, or wait for its turn (`turns.rs`).
//!
//! What needs more is committed as a batch (`hooks.rs`): an old value that is read before, and a key too long to be watched for sure.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use waxseal_lsm::batch::{Batch, SystemPass};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::system_number;
use waxseal_lsm::options::Durability;
use waxseal_lsm::planted::{self, Bug};
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_lsm::seam::{Companions, Draft};
use waxseal_meta::Seal;
use waxseal_meta::stamp::{Blank, Stamp, Verb};

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

/// What a thread was told last of operations that are watched alike whatever their key, mode deferred. It holds while the word of rules of its
/// store is the same. Each part is compared where it lies: nobody needs a copy of all.
struct Usual {
    /// `Hooks::number`; 0: the thread was told of nothing yet.
    store: Cell<u64>,
    rules: Cell<u64>,
    family: Cell<u32>,
    kind: Cell<Kind>,
    /// As the caller says it.
    verb: Cell<Verb>,
    stamp: Cell<Blank>,
}

thread_local! {
    static USUAL: Usual = const {
        Usual {
            store: Cell::new(0),
            rules: Cell::new(0),
            family: Cell::new(0),
            kind: Cell::new(Kind::Put),
            verb: Cell::new(Verb::Update),
            stamp: Cell::new(Blank::LEAST),
        }
    };
}

impl Usual {
    /// The stamp of an operation of a store, under rules, if it is like the last one that the thread was told of.
    #[inline]
    fn stamp_of(&self, single: &Single<'_>, store: u64, rules: u64) -> Option<Blank> {
        let Draft { family, kind, key, .. } = &single.draft;
        let is_ruled = self.rules.get() == rules || planted::active(Bug::AnswerOutlivesItsRules);
        let is_like = self.family.get() == *family && self.kind.get() == *kind && self.verb.get() == single.verb;
        let holds = is_ruled && self.store.get() == store && is_like && key.len() <= SHORT_KEY;
        if holds { Some(self.stamp.get()) } else { None }
    }

    /// The thread is told.
    fn set(&self, single: &Single<'_>, (store, rules): (u64, u64), stamp: Blank) {
        self.store.set(store);
        self.rules.set(rules);
        self.family.set(single.draft.family);
        self.kind.set(single.draft.kind);
        self.verb.set(single.verb);
        self.stamp.set(stamp);
    }
}

/// One operation, what is known of it, and who does it.
#[derive(Clone, Copy)]
pub(crate) struct Single<'a> {
    pub(crate) draft: Draft<'a>,
    /// The one that the caller was given with it, if it was.
    pub(crate) seal: Option<Seal>,
    /// What the caller says that it is called.
    pub(crate) verb: Verb,
    pub(crate) who: Option<&'a Session>,
    pub(crate) durability: Durability,
}

impl Single<'_> {
    /// What the operation is called.
    #[inline]
    fn verb(&self) -> Verb {
        verb_of(self.draft.kind, Some(self.verb))
    }
}

impl Hooks {
    /// Commits one operation, watched or not, by the word of rules that was read last. `batch` is room to encode it in.
    pub(crate) fn commit_one(&self, batch: &mut Batch, single: &Single<'_>, rules: u64) -> Result<Seqno> {
        if let Some(stamp) = USUAL.with(|usual| usual.stamp_of(single, self.number, rules))
            && let Some(session) = Session::number_of(single.who)
            && !self.turns.is_wanted()
        {
            let time = self.witness.clock.next().0; // first, since the processor ends all that it has begun before it reads a clock
            batch.clear();
            self.sealer.push_filled(batch, &single.draft, single.seal, (stamp, time, session))?;
            if let Some(seqno) = self.db.commit_timed(batch, single.durability, rules, time)? {
                return Ok(seqno);
            }
        }
        self.commit_asked(batch, single)
    }

    /// Commits one operation after it was asked who watches it.
    #[inline(never)]
    fn commit_asked(&self, batch: &mut Batch, single: &Single<'_>) -> Result<Seqno> {
        let draft = Draft { key_hash: Some(single.draft.hashed_key()), ..single.draft };
        let outcome = Room::lend(|room| self.one_in(room, batch, &Single { draft, ..*single }));
        batch.clear(); // and with it what it was granted
        outcome
    }

    fn one_in(&self, room: &mut Room, batch: &mut Batch, single: &Single<'_>) -> Result<Seqno> {
        let Single { draft, seal, who, durability, .. } = single;
        let (seal, who, durability, verb) = (*seal, *who, *durability, single.verb());
        let mut handed_back = 0;
        loop {
            let rules = self.db.rules();
            let committed = match self.ask(&mut room.seen, rules, single) {
                Answer::Again => continue,
                Answer::Plain => {
                    self.push_one(batch, draft, seal)?;
                    self.db.commit_unheard(batch, durability, rules)?
                }
                Answer::Watched(plan) => {
                    let plan = (plan, self.number(who)?);
                    let _turn = self.turns.enter(false, handed_back);
                    let committed = match plan.0.mode {
                        Mode::Deferred => self.commit_stamped(batch, single, plan, rules, None)?.0,
                        _ => self.commit_told(batch, single, plan, rules, &mut room.row)?,
                    };
                    if committed.is_none() {
                        self.again.fetch_add(1, Relaxed);
                        handed_back += 1;
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
    fn push_one(&self, batch: &mut Batch, draft: &Draft<'_>, seal: Option<Seal>) -> Result<()> {
        let Some(seal) = seal else { return push_unsealed(batch, &mut { *draft }, self.db.companions()) };
        batch.clear();
        self.sealer.push_sealed_given(batch, draft, seal)
    }

    /// How one operation is written under these rules.
    #[inline]
    fn ask<'a>(&self, seen: &'a mut Option<Seen>, rules: u64, single: &Single<'_>) -> Answer<'a> {
        let (draft, verb) = (&single.draft, single.verb());
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
            Some(plan) => {
                if plan.mode == Mode::Deferred && snapshot.is_alike(draft.family) {
                    let stamp = Stamp { verb, ..plan.stamp }.blank();
                    USUAL.with(|usual| usual.set(single, (self.number, rules), stamp));
                }
                Answer::Watched(plan)
            }
        }
    }

    /// The snapshot in force, if the word of rules names it.
    #[cold]
    fn look_for(&self, rules: u64) -> Option<Arc<Snapshot>> {
        let snapshot = self.matching.load();
        self.is_in_force(&snapshot, rules).then(|| Arc::clone(&snapshot))
    }

    /// Commits an operation of whose event a row is written now, mode sync, or soon, mode async; none if it was handed back, and then nothing
    /// was changed.
    fn commit_told(
        &self,
        batch: &mut Batch,
        single: &Single<'_>,
        (plan, session): (&Plan, u64),
        rules: u64,
        row: &mut Vec<u8>,
    ) -> Result<Option<Seqno>> {
        let name = name_of(plan, single.draft.family, &self.db)?;
        let name: &str = &name;
        let claim = match plan.mode {
            Mode::Async => self.claim_room(1)?,
            _ => Claim::WithOperation(0),
        };
        let beside = matches!(claim, Claim::WithOperation(_)).then_some((name, &mut *row));
        let (Some(seqno), stamp) = self.commit_stamped(batch, single, (plan, session), rules, beside)? else {
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

    /// Commits an operation with its stamp, and with its row where `beside` says of which family and where it may be put together, under
    /// rules. Answers its seqno, none if it was handed back, and the stamp.
    #[inline]
    fn commit_stamped(
        &self,
        batch: &mut Batch,
        single: &Single<'_>,
        (plan, session): (&Plan, u64),
        rules: u64,
        beside: Option<(&str, &mut Vec<u8>)>,
    ) -> Result<(Option<Seqno>, Stamp)> {
        let Single { draft, seal, who, durability, .. } = single;
        batch.clear();
        let stamp = Stamp { verb: single.verb(), time: self.witness.clock.next().0, session, ..plan.stamp };
        self.sealer.push_stamped(batch, draft, *seal, &stamp)?;
        if let Some((family, row)) = beside {
            let key_end = row_of_one(batch, (family, 0), &stamp, *who, row)?;
            self.push_beside(batch, row, key_end, 0, &stamp)?;
            batch.grant(SystemPass::for_layers_above());
        }
        let last = self.db.commit_timed(batch, *durability, rules, stamp.time)?;
        Ok((last.map(|last| last + 1 - batch.len() as u64), stamp))
    }
}

/// The operation alone in a batch, encoded, with the seal that the keeper gives it.
#[inline]
pub(crate) fn push_unsealed(batch: &mut Batch, draft: &mut Draft<'_>, keeper: &dyn Companions) -> Result<()> {
    batch.clear();
    batch.push_draft(draft, keeper)
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
