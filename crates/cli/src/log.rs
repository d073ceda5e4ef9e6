//! log: events in the order of time, newest last.
//!
//! The log itself is ordered by target, so all selected events are read and a bounded number is held in memory: the
//! newest ones for `--limit`, else the next ones in the order of time, pass by pass.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use waxseal::registry::{Event, Operation, Paging, Query, RegisterOptions, Scope, Target, Time};
use waxseal::{Db, Session, Snapshot};

use crate::args::{self, Args};
use crate::failure::{Exit, Failure};
use crate::output::{Output, or_seen_enough};
use crate::registry::{OpenRegistry, operation, print_event, warn};
use crate::store::find_family;
use crate::times;

/// Number of events per page.
const PAGE: usize = 1000;
/// Maximum number of events held in memory.
const HELD: usize = 100_000;
/// Polling interval of `--follow`.
const INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of consecutive failed polls: the writer may remove tables while they are read, and the next poll
/// finds the new ones.
const TRIES: u32 = 10;
/// `--follow` does not show an event that reaches the log later than this, in microseconds. A row of mode async is
/// written a little after its commit.
const LATE_MICROS: u64 = 60_000_000;

/// The position of an event in the order of time.
type EventPosition = (Time, u64, Vec<u8>);

/// A callback that prints an event.
type Show<'a> = &'a mut dyn FnMut(&Event) -> Result<(), Failure>;

/// The selection of events.
struct EventSelection<'a> {
    who: &'a Session,
    query: Query,
    /// Only events of the engine, or only other events; `None`: both.
    engine: Option<bool>,
}

pub(crate) fn log(args: &Args, log: &args::LogArgs, output: &mut Output) -> Result<Exit, Failure> {
    let OpenRegistry { db, who, _tables } = OpenRegistry::to_read(args)?;
    let asked =
        EventSelection { who: &who, query: query(&who, log)?, engine: log.target.is_none().then_some(log.engine) };
    if log.latest {
        let latest = who.log_latest(&asked.query)?;
        let latest = latest.ok_or_else(|| Failure::not_found("no such event of the target itself"))?;
        print_event(&who, &latest, output)?;
        return Ok(Exit::Ok);
    }
    let snapshot = db.snapshot();
    let mut show = |event: &Event| print_event(&who, event, output);
    let count = match log.limit {
        Some(limit) => asked.newest(&snapshot, limit, &mut show)?,
        None => asked.all(&snapshot, HELD, &mut show)?,
    };
    if log.follow {
        or_seen_enough(asked.follow(&db, snapshot, output))?;
    } else if count == 0 && log.limit != Some(0) {
        asked.say_where_more_is()?;
        if let Some(name) = family_of(&asked.query.target).filter(|name| find_family(&db, name).is_none()) {
            return Err(Failure::not_found(format!("no column family {name:?}, and no event of one")));
        }
    }
    Ok(Exit::Ok)
}

fn query(who: &Session, log: &args::LogArgs) -> Result<Query, Failure> {
    let target = log.target.as_ref().map_or(Ok(Target::Cluster), |target| who.target(target))?;
    let operation = log.operation.as_ref().map_or(Ok(None), |name| operation(who, name))?;
    let never_itself = operation.is_some() && RegisterOptions::suited(&target, operation).scope == Scope::Subtree;
    let below = !log.latest && (log.below || log.target.is_none() || never_itself);
    let from = log.from.as_ref().map_or(Ok(Time::FIRST), |time| moment(time, false))?;
    let to = log.to.as_ref().map_or(Ok(Time::LAST), |time| moment(time, true))?;
    if from > to {
        eprintln!("waxseal: no moment lies from {} to {}", times::text(from), times::text(to));
    }
    Ok(Query { target, below, operation, from, to, client: log.client.clone() })
}

/// Returns the name of the family that a target is or lies in.
fn family_of(target: &Target) -> Option<&str> {
    match target {
        Target::Family(family) | Target::Key { family, .. } => Some(family),
        _ => None,
    }
}

fn moment(text: &str, is_last: bool) -> Result<Time, Failure> {
    times::parse(text, is_last).ok_or_else(|| {
        Failure::usage(format!("{text:?} is no time; say 2026-01-31, 2026-01-31T12:00:00Z or microseconds since 1970"))
    })
}

/// Returns true for an event of the engine's own work.
fn is_engines(event: &Event) -> bool {
    let named = event.key.operation.known_name().unwrap_or_default();
    let by_engine = named.starts_with("Engine.") || event.key.operation == Operation::TABLE_DROP;
    by_engine && matches!(event.key.target, Target::Engine(_) | Target::TableFile(_))
}

impl EventSelection<'_> {
    /// Returns true if an event must be printed. The engine's work on a table file is printed once, by the event of the
    /// engine part, which names the file.
    fn wants(&self, event: &Event) -> bool {
        match self.engine {
            None => true,
            Some(false) => !is_engines(event),
            Some(true) => is_engines(event) && matches!(event.key.target, Target::Engine(_)),
        }
    }

    /// Visits each event of a snapshot from a time on, in no particular order.
    fn each(
        &self,
        snapshot: &Snapshot,
        from: Time,
        mut see: impl FnMut(EventPosition, Event) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let query = Query { from: from.max(self.query.from), ..self.query.clone() };
        let mut after = None;
        loop {
            let page = self.who.log_query_at(&query, &Paging { after, limit: PAGE }, snapshot)?;
            for event in page.events.into_iter().filter(|event| self.wants(event)) {
                see((event.key.time, event.key.seqno, event.key.encode()?), event)?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Prints the newest `limit` events of a snapshot and returns their number.
    fn newest(&self, snapshot: &Snapshot, limit: usize, show: Show<'_>) -> Result<usize, Failure> {
        let mut held = BTreeMap::new();
        self.each(snapshot, Time::FIRST, |place, event| {
            held.insert(place, event);
            if held.len() > limit {
                held.pop_first();
            }
            Ok(())
        })?;
        held.values().try_for_each(&mut *show)?;
        Ok(held.len())
    }

    /// Prints all events of a snapshot and returns their number. Holds at most `most` of them; if there are more, it
    /// reads the log once per `most` events.
    fn all(&self, snapshot: &Snapshot, most: usize, show: Show<'_>) -> Result<usize, Failure> {
        let (mut count, mut last): (usize, Option<EventPosition>) = (0, None);
        loop {
            let (mut held, mut is_all) = (BTreeMap::new(), true);
            let from = last.as_ref().map_or(Time::FIRST, |(time, ..)| *time);
            self.each(snapshot, from, |place, event| {
                if last.as_ref().is_none_or(|last| place > *last) {
                    held.insert(place, event);
                }
                if held.len() > most {
                    held.pop_last();
                    is_all = false;
                }
                Ok(())
            })?;
            held.values().try_for_each(&mut *show)?;
            count += held.len();
            match held.pop_last() {
                Some((place, _)) if !is_all => last = Some(place),
                _ => return Ok(count),
            }
        }
    }

    /// Prints the events after a snapshot, until printing fails.
    fn follow(&self, db: &Db, shown: Snapshot, output: &mut Output) -> Result<(), Failure> {
        let mut newest = Time::FIRST;
        let mut seen: BTreeSet<EventPosition> = BTreeSet::new();
        self.each(&shown, Time::FIRST, |place, _| {
            newest = newest.max(place.0);
            seen.insert(place);
            forget(&mut seen, newest);
            Ok(())
        })?;
        drop(shown);
        let mut failed = 0;
        loop {
            output.flush()?;
            std::thread::sleep(INTERVAL);
            let fresh = match self.fresh(db, too_late(newest), &seen) {
                Ok(fresh) => fresh,
                Err(failure) if failed >= TRIES => return Err(failure),
                Err(_) => {
                    failed += 1;
                    continue;
                }
            };
            failed = 0;
            for (place, event) in fresh {
                print_event(self.who, &event, output)?;
                newest = newest.max(place.0);
                seen.insert(place);
            }
            forget(&mut seen, newest);
        }
    }

    /// Returns the events from a time on that were not seen yet.
    fn fresh(
        &self,
        db: &Db,
        from: Time,
        seen: &BTreeSet<EventPosition>,
    ) -> Result<BTreeMap<EventPosition, Event>, Failure> {
        db.refresh()?;
        let mut fresh = BTreeMap::new();
        self.each(&db.snapshot(), from, |place, event| {
            if !seen.contains(&place) {
                fresh.insert(place, event);
            }
            Ok(())
        })?;
        Ok(fresh)
    }

    /// Explains on standard error why nothing was found, and which options find events.
    fn say_where_more_is(&self) -> Result<(), Failure> {
        let Query { below, operation, .. } = self.query;
        warn(operation.and_then(Operation::warning));
        if self.engine == Some(false) {
            eprintln!("waxseal: no such event of users; --engine shows what the engine did");
        }
        if below {
            return Ok(());
        }
        let all = Query { below: true, ..self.query.clone() };
        if !self.who.log_query(&all, &Paging::first(1))?.events.is_empty() {
            eprintln!("waxseal: no such event of the target itself; there are some of what lies below it: --below");
        }
        Ok(())
    }
}

/// Returns the time before which an event is too late to be shown.
fn too_late(newest: Time) -> Time {
    Time::from_micros(newest.micros().saturating_sub(LATE_MICROS))
}

/// Removes positions that later polls cannot return.
fn forget(seen: &mut BTreeSet<EventPosition>, newest: Time) {
    let end = too_late(newest);
    while seen.first().is_some_and(|(time, ..)| *time < end) {
        seen.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal::WriteOptions;

    #[test]
    fn however_few_are_held_all_are_shown_in_the_order_of_time() -> Result<(), Failure> {
        let db = Db::memory()?;
        let users = db.column_family("users")?;
        db.registry().register("users", "*")?;
        for n in 0..20 {
            let options = if n % 3 == 0 { WriteOptions::new().log_as_insert() } else { WriteOptions::new() };
            users.put_with([b'a' + (n * 7) % 20], [n], options)?;
        }
        let who = db.nobody();
        let query = Query { below: true, ..Query::of(Target::Cluster) };
        let asked = EventSelection { who: &who, query, engine: Some(false) };
        let snapshot = db.snapshot();
        let keys = |shown: &[Event]| -> Vec<Target> { shown.iter().map(|event| event.key.target.clone()).collect() };
        let expected: Vec<Target> = (0..20).map(|n: u8| Target::key("users", [b'a' + (n * 7) % 20])).collect();
        for most in [1, 2, 3, 19, 20, 21] {
            let mut shown = Vec::new();
            let mut show = |event: &Event| {
                shown.push(event.clone());
                Ok(())
            };
            assert_eq!(asked.all(&snapshot, most, &mut show)?, 20);
            assert_eq!(keys(&shown), expected, "{most}");
            shown.clear();
            let mut show = |event: &Event| {
                shown.push(event.clone());
                Ok(())
            };
            assert_eq!(asked.newest(&snapshot, most, &mut show)?, most.min(20));
            assert_eq!(keys(&shown), expected[20 - most.min(20)..]);
        }
        Ok(())
    }
}
