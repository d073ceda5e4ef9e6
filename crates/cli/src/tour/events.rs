//! The tour's check of the log: registers the family of the tour's files before changing them, and compares the events
//! with the changes.

use std::collections::BTreeMap;

use waxseal::registry::{Event, Operation, Paging, Query, Target};
use waxseal::{Db, Session};

use super::files::{Now, StoredFile};
use super::report::TourReport;
use crate::failure::Failure;
use crate::output::Output;
use crate::registry::event_line;
use crate::text::counted;

/// The session name for the tour's changes.
pub(super) const NAME: &str = "tour";
/// The operations registered on the family of the tour's files.
const WATCHED: [Operation; 2] = [Operation::ROW_UPDATE, Operation::ROW_DELETE];
/// Number of events per page.
const PAGE: usize = 1000;
/// Number of events printed.
const PRINTED: usize = 2;

/// Registers the operations, and returns the session that changes files.
pub(super) fn watch(db: &Db) -> Result<Session, Failure> {
    let session = db.session(NAME)?;
    for operation in WATCHED {
        session.register(Target::family("default"), operation)?;
    }
    Ok(session)
}

/// Returns every event of the tour's files, by key.
pub(super) fn events(db: &Db) -> waxseal::Result<Vec<Event>> {
    let query = Query { below: true, ..Query::of(Target::family("default")) };
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

/// Compares the events with the changes of these files. Returns the faults: each change must have exactly one event, in
/// the tour's name.
pub(super) fn faults(items: &[StoredFile], events: &[Event]) -> Vec<(&'static str, Vec<u8>)> {
    let mut faults = Vec::new();
    let mut expected: BTreeMap<&[u8], Operation> = BTreeMap::new();
    for item in items {
        match item.now {
            Now::AsLoaded => {}
            Now::Updated(_) => drop(expected.insert(&item.key, Operation::ROW_UPDATE)),
            Now::Deleted => drop(expected.insert(&item.key, Operation::ROW_DELETE)),
        }
    }
    for event in events {
        let Target::Key { key, .. } = &event.key.target else {
            faults.push(("an event of something else was logged", Vec::new()));
            continue;
        };
        match expected.remove(&key[..]) {
            None => faults.push(("an event was logged of what did not happen, or twice", key.clone())),
            Some(operation) if operation != event.key.operation => {
                faults.push(("another event was logged than what happened", key.clone()))
            }
            Some(_) if event.key.client != NAME => faults.push(("an event was logged in another name", key.clone())),
            Some(_) => {}
        }
    }
    faults.extend(expected.into_keys().map(|key| ("a change was not logged", key.to_vec())));
    faults
}

/// Compares the log with the changes.
pub(super) fn check(
    db: &Db,
    items: &[StoredFile],
    report: &mut TourReport,
    output: &mut Output,
) -> Result<(), Failure> {
    let start = std::time::Instant::now();
    let events = events(db)?;
    report.events = events.len() as u64;
    let faults = faults(items, &events);
    for (what, key) in &faults {
        report.mismatch(what, key);
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
    let events = events(db)?;
    for event in events.iter().take(PRINTED) {
        let line = event_line(&db.nobody(), event, output)?;
        report.note(line.replace('\t', "  "), output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_wrong_log_is_a_fault() -> Result<(), Failure> {
        let db = Db::memory()?;
        let session = watch(&db)?;
        let cf = session.column_family("default")?;
        cf.put("a", "1")?;
        cf.delete("b")?;
        db.flush()?;
        let items =
            |a: Now, b: Now| [StoredFile::stub("a", a), StoredFile::stub("b", b), StoredFile::stub("c", Now::AsLoaded)];
        let updated = Now::updated(b"1");
        let right = events(&db)?;
        assert_eq!(faults(&items(updated, Now::Deleted), &right), []);
        assert_eq!(faults(&items(updated, Now::AsLoaded), &right).len(), 1, "one too many");
        assert_eq!(faults(&items(updated, updated), &right).len(), 1, "of another operation");
        assert_eq!(faults(&items(updated, Now::Deleted), &right[..1]).len(), 1, "one is missing");
        assert_eq!(faults(&items(updated, Now::Deleted), &[&right[..], &right[..1]].concat()).len(), 1, "twice");
        let mut renamed = right.clone();
        renamed[0].key.client = "somebody".to_owned();
        assert_eq!(faults(&items(updated, Now::Deleted), &renamed).len(), 1, "in another name");
        Ok(())
    }
}
