//! The write path: a batch is matched against the registrations, stamped where it is registered, and committed under
//! the configuration epoch that it was matched with.
//!
//! ```text
//! look      finds the registered operations, by the registry snapshot of the current epoch (the epoch word)
//! claim     reserves ring space for events of mode async
//! time      takes a time later than those of all commits so far
//! encode    encodes the batch again, with a stamp for each registered operation, and the rows of mode sync behind them
//! commit    commits under the same epoch, behind earlier times only; otherwise nothing changed, and it starts again
//! ```
//!
//! `single.rs` encodes a single operation with its stamp at once, so it needs neither `look` nor a second encoding.
//!
//! Holds: an operation is logged if its seqno lies between the seqnos of registration and unregistration. While nothing
//! is registered, none of this code runs. The registrar's own writes bypass it, so events have no events.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use waxseal_lsm::batch::{Batch, BatchOperation as Written, SystemPass, seqno_of_before};
use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::{Condition, Db, Precondition};
use waxseal_lsm::env::work::{Mode as Work, lock};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::names::system_number;
use waxseal_lsm::options::{Durability, Verify};
use waxseal_lsm::planted;
use waxseal_lsm::range_delete::{RangeBounds, bounds_of, is_within};
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::PendingWrite;
use waxseal_meta::Sealer;
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::stamp::{Stamp, StampValues, StampVerb, Via};

use crate::clock::Time;
use crate::commit_gate::{CommitGate, GatePass};
use crate::described::{Notes, WatchedEvent, look_at_described};
use crate::emission::{
    Done, EmissionPlan, OLD_VALUE, check_key, event_at, expires, old_image, operation_of, put_event, retention_of,
};
use crate::event::Event;
use crate::families::{LOG_ID, SESSIONS_ID, granted, one_row};
use crate::matching::{Matching, RegistrySnapshot, bit};
use crate::modes::{Claim, RowBuffer, RowQueue};
use crate::operation::Operation;
use crate::payload::{Field, Image, Payload};
use crate::registration::Mode;
use crate::sessions::Session;
use crate::target::Target;
use crate::witness::Witness;

/// Largest buffer that a thread keeps between commits, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// Keys up to this length can be logged, whatever their bytes and the name of their family.
pub(crate) const SHORT_KEY: usize = 30_000;

/// The write side of registry and log.
pub(crate) struct Hooks {
    /// Unique among all hooks of the process, past and present.
    pub(crate) number: u64,
    pub(crate) db: Db,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) witness: Arc<Witness>,
    pub(crate) matching: Matching,
    /// The commit gate, for registered commits that need exclusion.
    pub(crate) gate: CommitGate,
    /// Held while the registrations change, until the change is in force.
    pub(crate) change: Mutex<()>,
    /// Held from the read of log rows to the commit that changes or deletes them, so that no deleted event comes back.
    /// Taken after `change` and before `gate`.
    pub(crate) log_rows: Mutex<()>,
    pub(crate) queue: Arc<RowQueue>,
    pub(crate) work: Work,
    /// Number of commits that were retried because the registrations changed or a later time was ordered.
    pub(crate) again: AtomicU64,
}

/// Returns a new number for hooks; never 0.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Returns the lower half of the configuration epoch for a snapshot of the registry.
pub(crate) fn epoch_of(snapshot: &RegistrySnapshot) -> u32 {
    (snapshot.version() as u32) << 1 | u32::from(!snapshot.registrations().is_empty())
}

/// Returns true if anything is registered under a configuration epoch (`Db::epoch`), so that writes pass the registrar.
#[inline]
pub fn is_watched(epoch: u64) -> bool {
    epoch & 1 == 1
}

/// A registered operation of a batch.
struct WatchedOperation {
    /// Its index in the batch.
    at: u64,
    /// Its stamp, without the time.
    stamp: Stamp,
    mode: Mode,
    /// The old value is read before the write.
    reads: bool,
    old: Option<Image>,
    /// The family's name, if the event is made now.
    family: Option<Arc<str>>,
}

/// Buffers that a thread reuses for its commits.
#[derive(Default)]
pub(crate) struct Room {
    out: Batch,
    found: Vec<WatchedOperation>,
    ranges: Vec<WatchedEvent>,
    /// The key and value of one row.
    pub(crate) row: Vec<u8>,
    pub(crate) seen: Option<CachedSnapshot>,
}

/// The registry snapshot that the thread used last. It is reused while the store's rules word names it.
pub(crate) struct CachedSnapshot {
    /// `Hooks::number`.
    pub(crate) store: u64,
    pub(crate) snapshot: Arc<RegistrySnapshot>,
}

thread_local! {
    static ROOM: Cell<Option<Box<Room>>> = const { Cell::new(None) };
}

impl Room {
    /// Lends the thread's buffers. A listener that writes from inside a commit gets its own.
    pub(crate) fn lend<T>(run: impl FnOnce(&mut Room) -> T) -> T {
        let mut room = ROOM.try_with(Cell::take).ok().flatten().unwrap_or_default();
        let outcome = run(&mut room);
        if room.out.encoded_bytes().max(room.row.capacity()) <= KEPT_BYTES {
            room.found.clear();
            room.ranges.clear();
            room.out.clear();
            let _ = ROOM.try_with(|kept| kept.set(Some(room))); // the thread may be ending
        }
        outcome
    }
}

impl Hooks {
    /// Commits a batch while something is registered.
    pub(crate) fn commit(
        &self,
        batch: &mut Batch,
        durability: Durability,
        who: Option<&Session>,
        verbs: &[StampVerb],
    ) -> Result<Seqno> {
        self.commit_noted(batch, durability, Notes { who, verbs, ..Notes::default() })
    }

    /// Commits a batch with all that its caller says of it.
    pub(crate) fn commit_noted(&self, batch: &mut Batch, durability: Durability, notes: Notes<'_>) -> Result<Seqno> {
        Room::lend(|room| self.commit_in(room, batch, durability, notes))
    }

    /// Commits a batch like `commit` while a condition holds. Returns `None`, and changes nothing, once it does not.
    pub(crate) fn commit_when(
        &self,
        batch: &mut Batch,
        durability: Durability,
        notes: Notes<'_>,
        condition: &mut dyn Condition,
    ) -> Result<Option<Seqno>> {
        Room::lend(|room| self.commit_on(room, batch, durability, notes, condition))
    }

    /// Returns true if the epoch names this snapshot. Otherwise a change is being published, and the call waits
    /// until publication ends.
    pub(crate) fn is_in_force(&self, snapshot: &RegistrySnapshot, epoch: u64) -> bool {
        let holds = planted!(RegistrationSeenLate, true, epoch as u32 == epoch_of(snapshot));
        if !holds {
            drop(lock(&self.change));
        }
        holds
    }

    /// `commit` with the thread's buffers.
    pub(crate) fn commit_in(
        &self,
        room: &mut Room,
        batch: &mut Batch,
        durability: Durability,
        notes: Notes<'_>,
    ) -> Result<Seqno> {
        let committed = self.commit_on(room, batch, durability, notes, &mut Always(&self.db))?;
        committed.ok_or_else(|| Error::structural("a commit without a condition was refused"))
    }

    /// Commits while a condition holds. Generic, so that a commit without a condition checks none.
    fn commit_on<C: Condition + ?Sized>(
        &self,
        room: &mut Room,
        batch: &mut Batch,
        durability: Durability,
        notes: Notes<'_>,
        condition: &mut C,
    ) -> Result<Option<Seqno>> {
        notes.check()?;
        let Notes { who, verbs, described, .. } = notes;
        let mut handed_back = 0;
        loop {
            condition.prepare()?;
            let epoch = self.db.epoch();
            let snapshot = self.matching.load();
            if !self.is_in_force(&snapshot, epoch) {
                continue;
            }
            look(batch, &snapshot, &self.db, verbs, &mut room.found)?;
            look_at_ranges(batch, &snapshot, &self.db, &mut room.ranges)?;
            if notes.is_described {
                room.found.retain(|found| found.stamp.via != Via::Cluster);
                room.ranges.retain(|range| range.registration.target != Target::Cluster);
                look_at_described(described, &snapshot, &mut room.ranges)?;
            }
            let exclusive = snapshot.reads_before();
            if batch.is_empty() || room.found.is_empty() && room.ranges.is_empty() && !exclusive {
                let Some(under) = condition.precondition()? else { return Ok(None) };
                match self.db.commit_if(batch, durability, under.in_epoch(epoch))? {
                    Some(last) => return Ok(Some(last)),
                    None => continue,
                }
            }
            drop(snapshot);
            if !batch.is_granted() && batch.families().iter().any(|id| system_number(*id).is_some()) {
                return Err(Error::invalid("the batch writes a system family"));
            }
            let pass = self.gate.enter(exclusive, handed_back); // before `claim`: its holder may await claimed room
            let claim = self.claim(&mut room.found)?;
            let Some(under) = condition.precondition()? else { return Ok(None) };
            let under = passing(&pass, under.in_epoch(epoch));
            if let Some(first) = self.commit_watched(room, batch, durability, (who, under), exclusive)? {
                self.push(room, batch, who, first, claim)?;
                return Ok(Some(first + batch.len() as u64 - 1));
            }
            self.again.fetch_add(1, Relaxed);
            handed_back += 1;
        }
    }

    /// Reserves ring space for the events of a batch. Without space, the events may be written with their operations.
    fn claim(&self, found: &mut [WatchedOperation]) -> Result<Claim<'_>> {
        let events = found.iter().filter(|found| found.mode == Mode::Async).count();
        let claim = self.claim_room(events)?;
        if matches!(claim, Claim::WithOperation(_)) {
            found.iter_mut().filter(|found| found.mode == Mode::Async).for_each(|found| found.mode = Mode::Sync);
        }
        Ok(claim)
    }

    /// Reserves ring space for this number of events, or returns the alternative.
    pub(crate) fn claim_room(&self, events: usize) -> Result<Claim<'_>> {
        let mut waited = self.work == Work::Stepped;
        loop {
            match self.queue.claim(events) {
                // After one wait, the caller helps to write, and so receives the error if writing fails.
                Claim::Full if waited => drop(self.write_waiting()?),
                Claim::Full => {
                    self.queue.wait_for_room(events)?;
                    waited = true;
                }
                claim => return Ok(claim),
            }
        }
    }

    /// Commits a registered batch, which holds the gate if it is `exclusive`. Returns the seqno of its first operation,
    /// or `None` if the commit was rejected for retry.
    fn commit_watched(
        &self,
        room: &mut Room,
        batch: &Batch,
        durability: Durability,
        (who, under): (Option<&Session>, Precondition),
        exclusive: bool,
    ) -> Result<Option<Seqno>> {
        let session = match room.found.is_empty() {
            true => 0,
            false => planted!(SessionRowLate, who.map_or(0, |who| who.id().max(1)), self.number(who)?),
        };
        // An old value that readers no longer saw must not be shown: it is judged at the precise time.
        let time = if exclusive { self.witness.clock.now() } else { self.witness.clock.next() };
        for found in &mut room.found {
            (found.stamp.time, found.stamp.session) = (time.0, session);
        }
        if exclusive {
            self.read_old(&mut room.found, batch, time)?;
        }
        self.encode(room, batch, (who, time))?;
        let last = self.db.commit_if(&mut room.out, durability, under.at_time(time.0))?;
        planted!(SessionRowLate => self.number(who).map(drop)?);
        Ok(last.map(|last| last + 1 - room.out.len() as u64))
    }

    /// Encodes the batch again, with stamps, with the rows of mode sync and with those of range deletes.
    fn encode(&self, room: &mut Room, batch: &Batch, (who, time): (Option<&Session>, Time)) -> Result<()> {
        let Room { out, found, ranges, row, .. } = room;
        out.clear();
        let (mut at, mut left) = (0, found.iter().peekable());
        self.sealer.restamp(batch, out, &mut |_, _| {
            let stamp = left.next_if(|found| found.at == at).map(|found| found.stamp);
            at += 1;
            stamp
        })?;
        if found.iter().all(|found| found.mode != Mode::Sync) && ranges.is_empty() {
            if batch.is_granted() {
                out.grant(SystemPass::for_layers_above());
            }
            return Ok(());
        }
        out.grant(SystemPass::for_layers_above());
        for_each(batch, found, |found, operation| {
            if found.mode != Mode::Sync {
                return Ok(());
            }
            let key_end = found.row(operation, who, 0, row)?;
            self.push_beside(out, row, key_end, found.at, &found.stamp)
        })?;
        for WatchedEvent { at, registration, target, operation, payload } in ranges {
            let event = event_at(time, registration, (target, *operation), payload.clone(), who);
            let back = out.len() as u64 - *at;
            push_event(out, &event, back, retention_of(registration), time, &self.sealer)?;
        }
        Ok(())
    }

    /// Adds the row (key and value) of the operation at index `at` of the batch. The row's key ends in the seqno of
    /// that operation.
    pub(crate) fn push_beside(
        &self,
        out: &mut Batch,
        row: &mut [u8],
        key_end: usize,
        at: u64,
        stamp: &Stamp,
    ) -> Result<()> {
        let (key, value) = row.split_at_mut(key_end);
        let back = out.len() as u64 - at;
        planted!(RowOfAnotherOperation => let back = back - 1);
        end_in(key, back);
        push_row(out, key, value, expires(Time(stamp.time), stamp.retention), &self.sealer)
    }

    /// Puts the events of mode async into the ring if space was reserved, and counts them otherwise.
    fn push(
        &self,
        room: &mut Room,
        batch: &Batch,
        who: Option<&Session>,
        first: Seqno,
        claim: Claim<'_>,
    ) -> Result<()> {
        let Room { found, row, .. } = room;
        let waits = |found: &WatchedOperation| found.mode == Mode::Async;
        let Claim::Room(claimed) = claim else {
            self.queue.count(&claim);
            return Ok(());
        };
        if !found.iter().any(waits) {
            return Ok(());
        }
        let mut rows = RowBuffer::default();
        for_each(batch, found, |found, operation| {
            if waits(found) {
                let key_end = found.row(operation, who, first + found.at, row)?;
                rows.push(row, key_end, expires(Time(found.stamp.time), found.stamp.retention));
            }
            Ok(())
        })?;
        claimed.push(|waiting| waiting.append(&rows));
        Ok(())
    }

    /// Reads the values that are about to be overwritten: those of earlier operations in the batch, else those of the
    /// store. The store already contains every commit ordered before, because each of them holds the gate until it is
    /// applied.
    fn read_old(&self, found: &mut [WatchedOperation], batch: &Batch, time: Time) -> Result<()> {
        // The value after an operand of the batch is not known: `None`.
        let mut own: BTreeMap<(u32, &[u8]), Option<Image>> = BTreeMap::new();
        let mut ranges: Vec<(u32, RangeBounds<'_>)> = Vec::new();
        let mut found = found.iter_mut().peekable();
        for (at, operation) in (0..).zip(batch.operations()) {
            let Written { family, kind, key, value, companion } = operation?;
            if kind == Kind::RangeDelete {
                let bounds = bounds_of(key, value)?;
                own.iter_mut()
                    .filter(|((of, key), _)| *of == family && self.holds(family, bounds, key))
                    .for_each(|(_, image)| *image = Some(Image::Absent));
                ranges.push((family, bounds));
                continue;
            }
            if kind == Kind::Merge {
                own.insert((family, key), None);
                found.next_if(|found| found.at == at);
                continue;
            }
            if let Some(found) = found.next_if(|found| found.at == at)
                && found.reads
            {
                found.old = match (own.get(&(family, key)), &found.family) {
                    (Some(image), _) if planted!(OldValueOfOwnBatchMissed, false, true) => image.clone(),
                    _ if ranges.iter().any(|(of, bounds)| *of == family && self.holds(family, *bounds, key)) => {
                        Some(Image::Absent)
                    }
                    (_, Some(name)) => Some(self.read(name, key, time)?),
                    (_, None) => Some(Image::Absent),
                };
            }
            let written = Record { key, seqno: 0, kind, value, companion };
            own.insert((family, key), Some(old_image(&written, OLD_VALUE, time)));
        }
        Ok(())
    }

    /// Returns true if a range of a family holds a key.
    fn holds(&self, family: u32, bounds: RangeBounds<'_>, key: &[u8]) -> bool {
        self.db.family_by_id(family).is_some_and(|family| is_within(family.order(), bounds, key))
    }

    fn read(&self, family: &str, key: &[u8], time: Time) -> Result<Image> {
        let mut old = Image::Absent;
        if let Some(family) = self.db.family(family) {
            self.db.get_before(&family, key, MAX_SEQNO, Verify::Always, &mut |record| {
                old = old_image(record, OLD_VALUE, time);
            })?;
        }
        Ok(old)
    }

    /// Returns the number of a session. The row of a new session is committed first.
    #[inline]
    pub(crate) fn number(&self, who: Option<&Session>) -> Result<u64> {
        self.witness.sessions.number(who, |key, value| {
            let mut batch = one_row(&self.db, SESSIONS_ID, &key, &value)?;
            self.db.commit(&mut batch, self.db.durability()).map(|_| ())
        })
    }

    /// Adds an event that does not belong to a write; `make` receives its time. Returns the seqno of its commit.
    pub(crate) fn add(
        &self,
        durability: Durability,
        retention: Option<u64>,
        make: impl Fn(Time) -> Event,
    ) -> Result<Seqno> {
        self.add_with(durability, retention, make, |_| Ok(()))
    }

    /// Adds an event like `add`, in one commit with the operations that `fill` adds to the batch.
    pub(crate) fn add_with(
        &self,
        durability: Durability,
        retention: Option<u64>,
        make: impl Fn(Time) -> Event,
        fill: impl Fn(&mut Batch) -> Result<()>,
    ) -> Result<Seqno> {
        let mut handed_back = 0;
        loop {
            self.db.await_holds();
            let epoch = self.db.epoch();
            let pass = self.gate.enter(false, handed_back);
            let now = self.witness.clock.next();
            let mut batch = granted();
            fill(&mut batch)?;
            push_event(&mut batch, &make(now), 0, retention, now, &self.sealer)?;
            // Only the event's time depends on concurrent commits.
            let under = passing(&pass, Precondition::epoch(epoch).at_time(now.0));
            if let Some(last) = self.db.commit_if(&mut batch, durability, under)? {
                return Ok(last);
            }
            handed_back += 1;
        }
    }

    /// Writes the rows of every commit that has reserved ring space, including running commits. New reservations must
    /// not continue without end meanwhile.
    pub(crate) fn write_claimed(&self) -> Result<()> {
        loop {
            while self.write_waiting()? {}
            if !self.queue.wait_for_claimed() {
                return Ok(());
            }
        }
    }

    /// Writes waiting rows; returns false if there were none.
    pub(crate) fn write_waiting(&self) -> Result<bool> {
        self.queue.write(|rows| {
            let mut batch = granted();
            for row in rows {
                push_row(&mut batch, row.key, row.value, row.expires, &self.sealer)?;
            }
            self.db.commit(&mut batch, self.db.durability()).map(|_| ())
        })
    }
}

/// Lets a commit with a pass of the gate pass holds: their holder may be waiting for the gate. The commit has waited for
/// them before it entered.
pub(crate) fn passing(pass: &Option<GatePass<'_>>, under: Precondition) -> Precondition {
    if pass.is_some() { under.passing_holds() } else { under }
}

/// The condition of a commit without one.
struct Always<'a>(&'a Db);

impl Condition for Always<'_> {
    #[inline]
    fn prepare(&mut self) -> Result<()> {
        self.0.await_holds();
        Ok(())
    }

    #[inline]
    fn precondition(&mut self) -> Result<Option<Precondition>> {
        Ok(Some(Precondition::default()))
    }
}

/// Finds the registered operations of a batch.
fn look(
    batch: &Batch,
    snapshot: &RegistrySnapshot,
    db: &Db,
    verbs: &[StampVerb],
    found: &mut Vec<WatchedOperation>,
) -> Result<()> {
    found.clear();
    let (mut last, mut mask) = (None, 0);
    for (at, operation) in (0u64..).zip(batch.operations()) {
        let Written { family, kind, key, .. } = operation?;
        if kind == Kind::RangeDelete {
            continue;
        }
        if last != Some(family) {
            last = Some(family);
            mask = mask_of(snapshot, family);
        }
        let verb = verb_of(kind, verbs.get(at as usize).copied());
        if mask & bit(operation_of(verb)) != 0 {
            found.extend(look_at((family, key, hash_key(key)), snapshot, db, (kind, verb), at)?);
        }
    }
    Ok(())
}

/// Finds the registered range deletes of a batch.
fn look_at_ranges(batch: &Batch, snapshot: &RegistrySnapshot, db: &Db, found: &mut Vec<WatchedEvent>) -> Result<()> {
    found.clear();
    if !batch.has_ranges() {
        return Ok(());
    }
    for (at, operation) in (0u64..).zip(batch.operations()) {
        let Written { family, kind, key, value, .. } = operation?;
        if kind != Kind::RangeDelete || system_number(family).is_some() {
            continue;
        }
        let Some(family) = db.family_by_id(family) else { continue };
        let bounds = bounds_of(key, value)?;
        let holds = |key: &[u8]| is_within(family.order(), bounds, key);
        let Some(registration) = snapshot.range_delete(family.name(), holds).cloned() else { continue };
        let mut payload = Payload::new();
        bounds.0.into_iter().for_each(|start| payload.push(Field::RangeStart(start.to_vec())));
        bounds.1.into_iter().for_each(|end| payload.push(Field::RangeEnd(end.to_vec())));
        let (target, operation) = (Target::family(family.name()), Operation::RANGE_DELETE);
        found.push(WatchedEvent { at, registration, target, operation, payload });
    }
    Ok(())
}

/// Returns the mask of registered operations in a family; 0 for system families.
fn mask_of(snapshot: &RegistrySnapshot, family: u32) -> u32 {
    if system_number(family).is_some() { 0 } else { snapshot.mask(family) }
}

/// Looks up the registration of one operation on a key, after the mask of its family has not excluded it.
fn look_at(
    (family, key, key_hash): (u32, &[u8], u64),
    snapshot: &RegistrySnapshot,
    db: &Db,
    (kind, verb): (Kind, StampVerb),
    at: u64,
) -> Result<Option<WatchedOperation>> {
    let Some(plan) = snapshot.plan(family, key, key_hash, operation_of(verb)) else { return Ok(None) };
    let EmissionPlan { mode, reads, stamp, .. } = *plan;
    // The value that an operand leads to is not known: its event has no values, and keeps no version for them.
    let (reads, stamp) = match kind {
        Kind::Merge => (false, Stamp { values: StampValues::None, history: false, ..stamp }),
        _ => (reads, stamp),
    };
    let named = mode != Mode::Deferred || reads || key.len() > SHORT_KEY;
    let name = if named { Some(name_of(plan, family, db)?.into_owned()) } else { None };
    if let (Some(name), true) = (&name, key.len() > SHORT_KEY) {
        check_key(name, key)?;
    }
    Ok(Some(WatchedOperation { at, stamp: Stamp { verb, ..stamp }, mode, reads, old: None, family: name }))
}

/// Returns the log name of an operation. Deletes are deletes; operands are updates, and so are puts, unless the caller marks them as
/// inserts.
pub(crate) fn verb_of(kind: Kind, given: Option<StampVerb>) -> StampVerb {
    match (kind, given) {
        (Kind::Put, Some(StampVerb::Insert)) => StampVerb::Insert,
        (Kind::Put | Kind::Merge, _) => StampVerb::Update,
        _ => StampVerb::Delete,
    }
}

/// Returns the name of the family in which a registration covers an operation.
pub(crate) fn name_of<'a>(plan: &'a EmissionPlan, family: u32, db: &Db) -> Result<Cow<'a, Arc<str>>> {
    if let Some(name) = &plan.family {
        return Ok(Cow::Borrowed(name));
    }
    let found = db.family_by_id(family).map(|family| Cow::Owned(family.name().into()));
    found.ok_or_else(|| Error::invalid("the batch names a family that was dropped"))
}

impl WatchedOperation {
    /// Replaces the content of `out` by the row; returns the end of its key.
    fn row(&self, operation: &Written<'_>, who: Option<&Session>, seqno: Seqno, out: &mut Vec<u8>) -> Result<usize> {
        let family = self.family.as_deref().unwrap_or_default();
        row_of((family, operation, seqno), &self.stamp, who, self.old.as_ref(), out)
    }
}

/// Replaces the content of `out` by the row of an operation on a key of a family; returns the end of its key.
pub(crate) fn row_of(
    (family, operation, seqno): (&str, &Written<'_>, Seqno),
    stamp: &Stamp,
    who: Option<&Session>,
    old: Option<&Image>,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let Written { kind, key, value, companion, .. } = *operation;
    let done = Done { family, key, kind, value, companion, seqno };
    out.clear();
    put_event(&done, stamp, who.unwrap_or(&Session::ANONYMOUS), old, out)
}

/// Visits each registered operation.
fn for_each(
    batch: &Batch,
    found: &[WatchedOperation],
    mut see: impl FnMut(&WatchedOperation, &Written<'_>) -> Result<()>,
) -> Result<()> {
    let mut found = found.iter().peekable();
    for (at, operation) in (0..).zip(batch.operations()) {
        let operation = operation?;
        if let Some(found) = found.next_if(|found| found.at == at) {
            see(found, &operation)?;
        }
    }
    Ok(())
}

/// Makes a row's key end in the seqno of the operation `back` positions before it.
fn end_in(key: &mut [u8], back: u64) {
    if let Some(last) = key.last_chunk_mut() {
        *last = seqno_of_before(back);
    }
}

/// Adds the row of an event that does not belong to a write; its key ends in the seqno of the operation `back`
/// positions before it. No record's stamp holds its time, so the row has its own stamp: after a restart the clock
/// continues behind it.
pub(crate) fn push_event(
    batch: &mut Batch,
    event: &Event,
    back: u64,
    retention: Option<u64>,
    now: Time,
    sealer: &Sealer,
) -> Result<()> {
    let (mut key, value) = event.encode()?;
    end_in(&mut key, back);
    let entry = expires(event.key.time, retention).filter(|_| sealer.providers().find(EXPIRY).is_some());
    let entry = entry.map(Expiry::at);
    let entries: Vec<(u16, &[u8])> = entry.iter().map(|entry| (EXPIRY, &entry[..])).collect();
    let (key, value, key_hash) = (&key[..], &value[..], None);
    let pending = PendingWrite { family: LOG_ID, kind: Kind::Put, key, value, key_hash, entries: &entries };
    let stamp = Stamp { elsewhere: true, ..Stamp::new(StampVerb::Insert, now.0, 0) };
    sealer.push_stamped(batch, &pending, None, &stamp)
}

/// Adds a row of the log, which may expire: in microseconds since 1970.
pub(crate) fn push_row(
    batch: &mut Batch,
    key: &[u8],
    value: &[u8],
    expires: Option<u64>,
    sealer: &Sealer,
) -> Result<()> {
    match expires.filter(|_| sealer.providers().find(EXPIRY).is_some()) {
        None => batch.push(LOG_ID, Kind::Put, key, value, sealer),
        Some(micros) => {
            let entry = Expiry::at(micros);
            batch.push_given(LOG_ID, Kind::Put, key, value, &[(EXPIRY, &entry)], sealer)
        }
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // In a forked child, the ring's lock may be held by a thread that does not exist there.
        if !is_forked(&self.db) {
            self.queue.stop();
        }
    }
}

/// Returns true in a forked child of the process that opened the store.
pub(crate) fn is_forked(db: &Db) -> bool {
    db.snapshot().is_err_and(|error| *error.kind() == ErrorKind::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal_lsm::seam::Plain;

    #[test]
    fn a_room_is_kept_empty_unless_it_grew_large() {
        for (bytes, kept) in [(1, true), (KEPT_BYTES, false)] {
            Room::lend(|room| {
                room.row.reserve(8);
                room.out.push(1, Kind::Put, b"k", &vec![0; bytes], &Plain).unwrap();
            });
            Room::lend(|room| assert_eq!((room.row.capacity() > 0, room.out.len()), (kept, 0)));
        }
    }
}
