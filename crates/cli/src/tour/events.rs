//! The tour's check of the log: registers the files before changing them, and compares the events with the changes.

use std::collections::BTreeMap;

use waxseal::registry::{Event, Field, Operation, Paging, Query, Target};
use waxseal::{Db, Session};

use super::FAMILY;
use super::entries::{Now, TourEntry};
use super::report::TourReport;
use crate::failure::Failure;
use crate::output::Output;
use crate::registry::event_line;
use crate::text::counted;

/// The session name for the tour's changes.
pub(super) const NAME: &str = "tour";
/// Operations that are registered on the family of the files.
const UPDATE: &str = "File.Write";
const DELETE: &str = "File.Remove";
/// Number of events per page.
const PAGE: usize = 1000;
/// Number of events printed.
const PRINTED: usize = 2;

/// Registers the operations, and returns the session that changes files.
pub(super) fn watch(db: &Db) -> Result<Session, Failure> {
    let session = db.session(NAME)?;
    for operation in [UPDATE, DELETE] {
        session.register(Target::family(FAMILY), operation)?;
    }
    Ok(session)
}

/// Returns every event of the tour's files.
fn events(db: &Db) -> waxseal::Result<Vec<Event>> {
    let query = Query { below: true, ..Query::of(Target::family(FAMILY)) };
    let (mut events, mut paging) = (Vec::new(), Paging::first(PAGE));
    loop {
        let page = db.registry().log_query(&query, &paging)?;
        events.extend(page.events);
        paging.after = page.next;
        if paging.after.is_none() {
            return Ok(events);
        }
    }
}

/// The events that a check has read, and what is wrong with them.
pub(super) struct EventCheck {
    pub(super) events: u64,
    pub(super) faults: Vec<(&'static str, Vec<u8>)>,
}

/// Compares the log with the changes of these entries.
pub(super) fn compare(db: &Db, entries: &[TourEntry]) -> waxseal::Result<EventCheck> {
    let (events, registry) = (events(db)?, db.registry());
    let operations = (registry.operation(UPDATE)?, registry.operation(DELETE)?);
    Ok(EventCheck { events: events.len() as u64, faults: faults(entries, &events, operations) })
}

/// Each change must have exactly one event, in the tour's name. The text of an event is the path.
fn faults(
    entries: &[TourEntry],
    events: &[Event],
    (update, delete): (Operation, Operation),
) -> Vec<(&'static str, Vec<u8>)> {
    let mut faults = Vec::new();
    let mut expected: BTreeMap<Vec<u8>, Operation> = BTreeMap::new();
    for entry in entries {
        let operation = match entry.now {
            Now::AsLoaded => continue,
            Now::Updated(_) => update,
            Now::Deleted => delete,
        };
        expected.insert(entry.path.escape_ascii().collect(), operation);
    }
    for event in events {
        let [Field::Text(path)] = event.payload.fields() else {
            faults.push(("an event of something else was logged", Vec::new()));
            continue;
        };
        match expected.remove(path) {
            None => faults.push(("an event was logged of what did not happen, or twice", path.clone())),
            Some(operation) if operation != event.key.operation => {
                faults.push(("another event was logged than what happened", path.clone()))
            }
            Some(_) if event.key.client != NAME => faults.push(("an event was logged in another name", path.clone())),
            Some(_) => {}
        }
    }
    faults.extend(expected.into_keys().map(|path| ("a change was not logged", path)));
    faults
}

/// Compares the log with the changes.
pub(super) fn check(
    db: &Db,
    entries: &[TourEntry],
    report: &mut TourReport,
    output: &mut Output,
) -> Result<(), Failure> {
    let start = std::time::Instant::now();
    let EventCheck { events, faults } = compare(db, entries)?;
    report.events = events;
    for (what, path) in &faults {
        report.mismatch(what, path);
    }
    let text = format!(
        "{} of the changes logged, {} ({})",
        counted(report.events, "event", "events"),
        if faults.is_empty() { "each once, by its name" } else { "not as they happened" },
        super::seconds(start)
    );
    report.step("log", text, output)
}

/// Prints the first events.
pub(super) fn say(db: &Db, report: &TourReport, output: &mut Output) -> Result<(), Failure> {
    for event in events(db)?.iter().take(PRINTED) {
        let line = event_line(&db.nobody(), event, output)?;
        report.note(line.replace('\t', "  "), output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tour::entries::EntryState;
    use waxseal_files::FileStore;

    #[test]
    fn every_kind_of_wrong_log_is_a_fault() -> Result<(), Failure> {
        let db = Db::memory()?;
        let files = FileStore::open(&db, FAMILY)?;
        for path in ["a", "b", "c"] {
            files.write(path, path)?;
        }
        let changing = files.in_session(&watch(&db)?)?;
        changing.write("a", "1")?;
        changing.remove("b")?;
        let operations = (db.registry().operation(UPDATE)?, db.registry().operation(DELETE)?);
        let updated = Now::Updated(EntryState::file("1"));
        let found = |a: Now, b: Now, events: &[Event]| {
            let entries = [TourEntry::stub("a", a), TourEntry::stub("b", b), TourEntry::stub("c", Now::AsLoaded)];
            faults(&entries, events, operations).len()
        };
        let right = events(&db)?;
        assert_eq!(found(updated, Now::Deleted, &right), 0);
        assert_eq!(found(updated, Now::AsLoaded, &right), 1, "one too many");
        assert_eq!(found(updated, updated, &right), 1, "of another operation");
        assert_eq!(found(updated, Now::Deleted, &right[..1]), 1, "one is missing");
        assert_eq!(found(updated, Now::Deleted, &[&right[..], &right[..1]].concat()), 1, "twice");
        let mut renamed = right.clone();
        renamed[0].key.client = "somebody".to_owned();
        assert_eq!(found(updated, Now::Deleted, &renamed), 1, "in another name");
        Ok(())
    }
}
