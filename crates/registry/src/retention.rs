//! Retention of the engine's own events. Events of users are kept until deleted, unless they have their own retention.
//!
//! ```text
//! keep      the newest events, up to a number and an age
//!           of a live table: the event that wrote it, which `lineage` shows
//!           of an open quarantine: the event that began it (a quarantined table, a lost range)
//!           the last verification of the whole store, which `explain` shows
//! line      leaves the manifest when it exceeds number or age; those of its events that are kept become rows
//! row       gets a tombstone when it is not kept any more, by a sweep over the rows of the engine
//! ```
//!
//! Holds:  a user's row on an engine target has a stamp or an expiry, and the engine's rows have neither. A row for
//!         which this cannot be determined is treated as a user's.
//! Costs:  a flush decodes the lines added since the previous flush. A sweep reads all rows of the engine twice. It
//!         runs once the events that left the manifest amount to a quarter of those rows, so four to eight rows are
//!         read per event. After an open, the first sweep runs when the first lines leave.
//! Bound:  the log has at most a quarter more rows than are kept, and the manifest at most a quarter more events than
//!         the limit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::Result;
use waxseal_lsm::planted;
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Emitted, EventRetention, EventStore};
use waxseal_meta::annotations::Annotations;
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::stamp::Stamp;

use crate::clock::{Time, is_older};
use crate::engine_log::{EngineLine, concerns, is_whole_look, part_of, written_files};
use crate::event::Event;
use crate::families::LOG_ID;
use crate::key::{ANONYMOUS, LogKey, engine_keys};
use crate::operation::Operation;
use crate::payload::{Field, Payload};
use crate::target::Target;

/// Cleanup waits until the due events amount to one in `PART` of the kept events.
const PART: u64 = 4;
/// Minimum number of events for a sweep, and for a rewrite of the lines that hold them.
const LEAST: u64 = 64;
/// Events may exceed the maximum age by one in `AGE_PART`.
const AGE_PART: u32 = 8;
/// Maximum number of tombstones per flush. The rest follows with the next flush.
const MOST_TOMBSTONES: usize = 32_768;

/// Facts about lines and rows, cached to avoid reading them again.
#[derive(Debug, Default)]
pub(crate) struct RetentionCache(Mutex<RetentionFacts>);

#[derive(Debug)]
struct RetentionFacts {
    /// The lines of the manifest.
    lines: VecDeque<CountedLine>,
    /// Number of events of all lines.
    events: u64,
    /// Number of events that left the manifest since the last sweep.
    left: u64,
    /// Number of rows that the last sweep kept.
    rows: u64,
    /// The oldest row that the last sweep kept for its number and age alone.
    oldest: Option<Time>,
    /// A sweep is known to be necessary, or has not run since the open.
    is_due: bool,
    /// The number of the first line that left last. If it leaves again, the flush had failed.
    first: u64,
}

impl Default for RetentionFacts {
    fn default() -> RetentionFacts {
        let (lines, events, left, rows, oldest, first) = (VecDeque::new(), 0, 0, 0, None, 0);
        RetentionFacts { lines, events, left, rows, oldest, is_due: true, first }
    }
}

/// A line with the number of its events and its time.
#[derive(Clone, Copy, Debug)]
struct CountedLine {
    number: u64,
    events: u64,
    time: Time,
}

impl RetentionCache {
    /// Returns how many of the oldest lines must leave the manifest although it has room for them.
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

    /// Returns rows for the kept events of lines that leave, and tombstones for rows that are not kept any more. If
    /// reading rows fails, they are left for a later sweep.
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

impl RetentionFacts {
    /// Adds new lines and removes those that are gone.
    fn meet(&mut self, lines: &mut dyn Iterator<Item = (u64, &[u8])>) {
        let mut lines = lines.peekable();
        let first = lines.peek().map_or(u64::MAX, |(number, _)| *number);
        while let Some(gone) = self.lines.front().filter(|line| line.number < first) {
            self.events -= gone.events;
            self.lines.pop_front();
        }
        let last = self.lines.back().map_or(0, |line| line.number);
        for (number, bytes) in lines.skip_while(|(number, _)| *number <= last) {
            // A line of a later version counts as having no events.
            let (events, time) = EngineLine::decode(bytes).map_or((0, Time::LAST), |line| (line.count(), line.time));
            self.lines.push_back(CountedLine { number, events, time });
            self.events += events;
        }
    }

    fn outdated_lines(&self, retention: &EventRetention, now: u64) -> usize {
        let most = retention.events as u64;
        let by_number = match self.events > most.saturating_add((most / PART).max(LEAST)) {
            true => {
                let mut left = self.events;
                let stay = |line: &&CountedLine| {
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

    /// Returns true if a sweep is known to find rows. Before the first sweep of an open this is assumed only after
    /// lines have left.
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

/// The rows of lines that leave, behind which the manifest keeps `stay` events; and how many events they have.
fn rows_of(lines: &[(u64, Arc<[u8]>)], stay: u64, store: &dyn EventStore) -> (Vec<Emitted>, u64) {
    let (retention, mut newer, mut rows, mut look) = (store.retention(), stay, Vec::new(), None);
    for (number, bytes) in lines.iter().rev() {
        let Ok(line) = EngineLine::decode(bytes) else { continue };
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

/// The result of a sweep.
#[derive(Debug, Default)]
struct Swept {
    tombstones: Vec<Emitted>,
    kept: u64,
    oldest: Option<Time>,
    is_more: bool,
}

/// Examines all rows of the engine. `newer` is the number of events that are newer than all of them.
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

/// Returns the number of log rows per line, and the last line that records a verification of the whole store.
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

/// Visits the rows of the engine's own events.
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

/// Returns true for a row that was made from a line.
fn is_engines(key: &LogKey, record: &Record<'_>) -> bool {
    planted!(UsersEventTakenForEngines => return true);
    let is_target = match &key.target {
        Target::TableFile(_) => true,
        target => *target == part_of(key.operation),
    };
    let is_stamped = !matches!(Stamp::of(record.companion, hash_key(record.key)), Ok(None));
    let ends = || Annotations::read(record.companion).and_then(|annotations| Ok(annotations.entry(EXPIRY)?.is_some()));
    is_target && key.client == ANONYMOUS && !is_stamped && !ends().unwrap_or(true)
}

/// Returns true for an event that is kept whatever its age.
fn is_protected(event: &Event, store: &dyn EventStore) -> bool {
    let (operation, payload) = (event.key.operation, &event.payload);
    if operation == Operation::ENGINE_FENCE {
        return store.lost_ranges().iter().any(|lost_range| concerns(payload, lost_range));
    }
    match &event.key.target {
        Target::TableFile(uid) if operation == Operation::ENGINE_QUARANTINE => store.is_quarantined(*uid),
        Target::TableFile(uid) => {
            let is_own = store.is_live(*uid) && written_files(payload).any(|written| written == *uid);
            planted!(LiveTablesEventsExpire, false, is_own)
        }
        _ if operation == Operation::ENGINE_QUARANTINE => {
            let quarantined = |field: &Field| matches!(field, Field::Input(file) if store.is_quarantined(file.uid));
            payload.fields().iter().any(quarantined)
        }
        _ => written_files(payload).any(|uid| store.is_live(uid)),
    }
}

fn is_look(payload: &Payload, operation: Operation) -> bool {
    operation == Operation::ENGINE_SCRUB && is_whole_look(payload)
}
