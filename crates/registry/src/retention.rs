//! Retention: which events of the engine's own work are kept. Events of users are kept for ever, unless they have a retention of their own.
//!
//! ```text
//! keep      the newest events, up to a number and an age
//!           of a live table: what wrote it, which `lineage` shows
//!           of an open quarantine: the bar of a table, the fence of a lost range
//!           the last look at the whole store, which `explain` shows
//! line      leaves the manifest once it is beyond number or age; of its events those become rows that are kept
//! row       gets a tombstone once it is not kept any more, by a sweep over the rows of the engine
//! ```
//!
//! Holds:  a row of a user on a target of the engine has a stamp, or an expiry, and the engine's own have neither. A row of which that cannot be
//!         told for sure is taken for a user's.
//! Costs:  a flush decodes the lines that came since the one before. A sweep reads all rows of the engine twice, once as many events
//!         have left the manifest as a quarter of those rows, so four to eight rows are read for each event. The first one of an open comes
//!         with the first lines that leave.
//! Bound:  rows that are kept, and a quarter more; lines as many events as are kept, and a quarter more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::Result;
use waxseal_lsm::planted::{self, Bug};
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Emitted, EventRetention, EventStore};
use waxseal_meta::beside::Beside;
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::stamp::Stamp;

use crate::chronicle::{Line, is_whole_look, part_of, tells_of, written_files};
use crate::clock::Time;
use crate::event::Event;
use crate::families::LOG_ID;
use crate::key::{ANONYMOUS, LogKey, engine_keys};
use crate::operation::Operation;
use crate::payload::{Field, Payload};
use crate::target::Target;

/// What is let go by halves: work is done for this part of what is kept, or more.
const PART: u64 = 4;
/// Events that are worth a sweep, and a rewrite of the lines that hold them.
const LEAST: u64 = 64;
/// An age may be exceeded by this part of it.
const AGE_PART: u32 = 8;
/// Tombstones of one flush. What is left goes with the next.
const MOST_TOMBSTONES: usize = 32_768;

/// What is known of lines and rows without reading them again.
#[derive(Debug, Default)]
pub(crate) struct Keeping(Mutex<Known>);

#[derive(Debug)]
struct Known {
    /// The lines of the manifest.
    lines: VecDeque<Counted>,
    /// The events of all of them.
    events: u64,
    /// Events that left the manifest since the last sweep.
    left: u64,
    /// Rows that the last sweep found and kept.
    rows: u64,
    /// The oldest of them that is there for its number and age alone.
    oldest: Option<Time>,
    /// There is something to sweep for certain, or nobody knows yet.
    is_due: bool,
    /// The first line that left last: if it leaves again, the flush failed.
    first: u64,
}

impl Default for Known {
    fn default() -> Known {
        let (lines, events, left, rows, oldest, first) = (VecDeque::new(), 0, 0, 0, None, 0);
        Known { lines, events, left, rows, oldest, is_due: true, first }
    }
}

/// A line, its events and its time.
#[derive(Clone, Copy, Debug)]
struct Counted {
    number: u64,
    events: u64,
    time: Time,
}

impl Keeping {
    /// How many of the oldest lines leave the manifest although it has room for them.
    pub(crate) fn outdated(
        &self,
        lines: &mut dyn Iterator<Item = (u64, &[u8])>,
        retention: &EventRetention,
        now: u64,
    ) -> usize {
        let mut known = lock(&self.0);
        known.meet(lines);
        let swept = known.rows_are_outdated(retention, now);
        known.outdated_lines(retention, now).max(usize::from(swept).min(known.lines.len()))
    }

    /// Rows of the events of lines that are kept, and tombstones of rows that are not. An error while rows are read leaves them for
    /// another time.
    pub(crate) fn rows(&self, lines: &[(u64, Arc<[u8]>)], store: &dyn EventStore) -> Vec<Emitted> {
        let mut known = lock(&self.0);
        let through = lines.last().map_or(0, |(number, _)| *number);
        let stay = known.lines.iter().filter(|line| line.number > through).map(|line| line.events).sum();
        let (mut rows, events) = rows_of(lines, stay, store);
        let first = lines.first().map_or(0, |(number, _)| *number);
        known.is_due |= first == known.first;
        (known.first, known.left) = (first, known.left + events);
        if known.is_due || known.is_worth_it() || known.rows_are_outdated(&store.retention(), store.now()) {
            match sweep(stay + events, store) {
                Ok(swept) => {
                    known.take(&swept, rows.len() as u64);
                    rows.extend(swept.tombstones);
                }
                Err(_) => (known.left, known.is_due) = (0, false),
            }
        }
        rows
    }
}

impl Known {
    /// Takes up lines that came, and leaves those that went.
    fn meet(&mut self, lines: &mut dyn Iterator<Item = (u64, &[u8])>) {
        let mut lines = lines.peekable();
        let first = lines.peek().map_or(u64::MAX, |(number, _)| *number);
        while let Some(gone) = self.lines.front().filter(|line| line.number < first) {
            self.events -= gone.events;
            self.lines.pop_front();
        }
        let last = self.lines.back().map_or(0, |line| line.number);
        for (number, bytes) in lines.skip_while(|(number, _)| *number <= last) {
            // A line of a later version has no events here.
            let (events, time) = Line::decode(bytes).map_or((0, Time::LAST), |line| (line.count(), line.time));
            self.lines.push_back(Counted { number, events, time });
            self.events += events;
        }
    }

    fn outdated_lines(&self, retention: &EventRetention, now: u64) -> usize {
        let most = retention.events as u64;
        let by_number = match self.events > most.saturating_add((most / PART).max(LEAST)) {
            true => {
                let mut left = self.events;
                let stay = |line: &&Counted| {
                    left -= line.events;
                    left >= most
                };
                self.lines.iter().take_while(stay).count()
            }
            false => 0,
        };
        let late = retention.age.saturating_add(retention.age / AGE_PART);
        let by_age = match self.lines.front() {
            Some(first) if is_older(first.time, late, now) => {
                self.lines.iter().take_while(|line| is_older(line.time, retention.age, now)).count()
            }
            _ => 0,
        };
        by_number.max(by_age)
    }

    /// True if a sweep is known to find something; before the first one of an open nobody knows.
    fn rows_are_outdated(&self, retention: &EventRetention, now: u64) -> bool {
        let late = retention.age.saturating_add(retention.age / AGE_PART);
        self.first > 0 && (self.is_due || self.oldest.is_some_and(|oldest| is_older(oldest, late, now)))
    }

    fn is_worth_it(&self) -> bool {
        self.left >= (self.rows / PART).max(LEAST)
    }

    fn take(&mut self, swept: &Swept, written: u64) {
        (self.left, self.rows, self.oldest) = (0, swept.kept + written, swept.oldest);
        self.is_due = swept.is_more;
    }
}

fn is_older(time: Time, age: Duration, now: u64) -> bool {
    let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
    time.micros().saturating_add(age) < now
}

/// The rows of lines that leave, behind which the manifest keeps `stay` events; and how many events they have.
fn rows_of(lines: &[(u64, Arc<[u8]>)], stay: u64, store: &dyn EventStore) -> (Vec<Emitted>, u64) {
    let (retention, mut newer, mut rows, mut look) = (store.retention(), stay, Vec::new(), None);
    for (number, bytes) in lines.iter().rev() {
        let Ok(line) = Line::decode(bytes) else { continue };
        let is_kept = newer < retention.events as u64 && !is_older(line.time, retention.age, store.now());
        newer += line.count();
        if look.is_none() && is_look(&line.payload, line.operation) {
            look = Some(*number);
        }
        for event in line.events(*number) {
            if (is_kept || look == Some(*number) || is_protected(&event, store))
                && let Ok((key, value)) = event.encode()
            {
                rows.push(Emitted::new(LOG_ID, line.seqno, &key, &value));
            }
        }
    }
    (rows, newer - stay)
}

/// What a sweep found.
#[derive(Debug, Default)]
struct Swept {
    tombstones: Vec<Emitted>,
    kept: u64,
    oldest: Option<Time>,
    is_more: bool,
}

/// Looks at all rows of the engine. `newer`: events that are newer than all of them.
fn sweep(newer: u64, store: &dyn EventStore) -> Result<Swept> {
    let (counts, look) = count(store)?;
    let retention = store.retention();
    let (mut newer, mut through) = (newer, 0);
    for (number, count) in counts.iter().rev() {
        if newer >= retention.events as u64 {
            through = *number;
            break;
        }
        newer += count;
    }
    let mut swept = Swept::default();
    each_row(store, &mut |record, key| {
        let is_kept = key.seqno > through && !is_older(key.time, retention.age, store.now());
        let is_protected = || Event::decode(record.key, record.value).map_or(true, |event| is_protected(&event, store));
        if is_kept {
            swept.oldest = Some(swept.oldest.map_or(key.time, |oldest| oldest.min(key.time)));
        }
        if is_kept || look == Some(key.seqno) || is_protected() || record.seqno >= store.seqno() {
            swept.kept += 1;
            return true;
        }
        if swept.tombstones.len() >= MOST_TOMBSTONES {
            swept.is_more = true;
            return false;
        }
        swept.tombstones.push(Emitted::tombstone(LOG_ID, store.seqno(), record.key));
        true
    })?;
    Ok(swept)
}

/// How many rows the log has of each line, and the last line that tells of a look at the whole store.
fn count(store: &dyn EventStore) -> Result<(BTreeMap<u64, u64>, Option<u64>)> {
    let (mut counts, mut look) = (BTreeMap::new(), None);
    each_row(store, &mut |record, key| {
        *counts.entry(key.seqno).or_default() += 1;
        let payload = || Event::decode(record.key, record.value).map(|event| event.payload).unwrap_or_default();
        if key.operation == Operation::ENGINE_SCRUB && Some(key.seqno) > look && is_look(&payload(), key.operation) {
            look = Some(key.seqno);
        }
        true
    })?;
    Ok((counts, look))
}

/// Shows the rows of the engine's own events.
fn each_row(store: &dyn EventStore, see: &mut dyn FnMut(&Record<'_>, &LogKey) -> bool) -> Result<()> {
    for (from, to) in engine_keys() {
        let mut goes_on = true;
        store.scan(LOG_ID, &from, &to, &mut |record| {
            if let Ok(key) = LogKey::decode(record.key)
                && is_engines(&key, record)
            {
                goes_on = see(record, &key);
            }
            goes_on
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// True for a row that a line became.
fn is_engines(key: &LogKey, record: &Record<'_>) -> bool {
    if planted::active(Bug::UsersEventTakenForEngines) {
        return true;
    }
    let is_target = match &key.target {
        Target::TableFile(_) => true,
        target => *target == part_of(key.operation),
    };
    let is_stamped = !matches!(Stamp::of(record.companion, hash_key(record.key)), Ok(None));
    let ends = || Beside::read(record.companion).and_then(|beside| Ok(beside.entry(EXPIRY)?.is_some()));
    is_target && key.client == ANONYMOUS && !is_stamped && !ends().unwrap_or(true)
}

/// True for an event that stays however old it is.
fn is_protected(event: &Event, store: &dyn EventStore) -> bool {
    let (operation, payload) = (event.key.operation, &event.payload);
    if operation == Operation::ENGINE_FENCE {
        return store.fences().iter().any(|fence| tells_of(payload, fence));
    }
    match &event.key.target {
        Target::TableFile(uid) if operation == Operation::ENGINE_QUARANTINE => store.is_barred(*uid),
        Target::TableFile(uid) => {
            store.is_live(*uid)
                && written_files(payload).any(|written| written == *uid)
                && !planted::active(Bug::LiveTablesEventsExpire)
        }
        _ if operation == Operation::ENGINE_QUARANTINE => {
            let barred = |field: &Field| matches!(field, Field::Input(file) if store.is_barred(file.uid));
            payload.fields().iter().any(barred)
        }
        _ => written_files(payload).any(|uid| store.is_live(uid)),
    }
}

fn is_look(payload: &Payload, operation: Operation) -> bool {
    operation == Operation::ENGINE_SCRUB && is_whole_look(payload)
}
