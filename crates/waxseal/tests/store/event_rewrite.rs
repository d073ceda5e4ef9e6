//! Changes of events: what they leave, and other callers that change the same events meanwhile.

use std::cell::Cell;

use waxseal::registry::{Event, EventChange, Field, Operation, Payload, Query, RegisterOptions, Target, Values};
use waxseal::{Db, Result, Session};

/// A store with three logged keys, and a session.
fn logged() -> Result<(Db, Session)> {
    let db = Db::memory()?;
    let users = db.column_family("users")?;
    db.registry().register_with("users", "*", RegisterOptions { values: Values::New, ..RegisterOptions::default() })?;
    ["jack", "john", "kate"].iter().try_for_each(|name| users.put(name, "555-0100"))?;
    let alice = db.session("alice")?;
    Ok((db, alice))
}

fn is_of(event: &Event, name: &str) -> bool {
    matches!(&event.key.target, Target::Key { key, .. } if key == name.as_bytes())
}

/// Returns the settings of the events about changes of events, with their clients.
fn rewrites(db: &Db) -> Result<Vec<(String, Vec<String>)>> {
    let events = db.registry().query_all("users", Operation::REGISTRY_REWRITE)?;
    let settings = |event: &Event| {
        let values = event.payload.fields().iter().filter_map(|field| match field {
            Field::Setting((name, value)) => Some(format!("{name}={value}")),
            _ => None,
        });
        values.collect()
    };
    Ok(events.iter().map(|event| (event.key.client.clone(), settings(event))).collect())
}

#[test]
fn a_rewrite_is_logged_and_judges_no_rewrite() -> Result<()> {
    let (db, alice) = logged()?;
    assert_eq!(alice.rewrite_events("users", &|_| Ok(EventChange::Keep))?, Default::default());
    assert_eq!(rewrites(&db)?, [], "nothing was changed");
    let judge = |event: &Event| match is_of(event, "john") {
        true => Ok(EventChange::Remove),
        false => Ok(EventChange::Replace(Payload::text("erased"))),
    };
    let counts = alice.rewrite_events("users", &judge)?;
    assert_eq!((counts.changed, counts.removed), (2, 1));
    assert_eq!(db.registry().query_all("users.john", "*")?, []);
    assert_eq!(db.registry().query_all("users.kate", "*")?[0].payload, Payload::text("erased"));
    let logged = ("alice".to_owned(), vec!["events_changed=2".to_owned(), "events_removed=1".to_owned()]);
    assert_eq!(rewrites(&db)?, std::slice::from_ref(&logged));
    let counts = db.registry().rewrite_events("users", &|_| Ok(EventChange::Remove))?;
    assert_eq!((counts.changed, counts.removed), (0, 2));
    assert_eq!(rewrites(&db)?[0], logged);
    Ok(())
}

#[test]
fn an_event_that_is_deleted_meanwhile_does_not_come_back() -> Result<()> {
    let (db, alice) = logged()?;
    let john = Query::of(Target::key("users", "john"));
    let judged = Cell::new(0);
    let judge = |event: &Event| {
        if is_of(event, "john") {
            judged.set(judged.get() + 1);
            if judged.get() == 2 {
                assert_eq!(db.registry().log_delete(&john)?, 1);
            }
        }
        Ok(EventChange::Replace(Payload::text("erased")))
    };
    let counts = alice.rewrite_events("users", &judge)?;
    assert_eq!((counts.changed, counts.removed), (2, 0));
    assert_eq!(db.registry().query_all("users.john", "*")?, []);
    Ok(())
}

#[test]
fn an_event_that_is_changed_meanwhile_is_judged_again() -> Result<()> {
    let (db, alice) = logged()?;
    let judged = Cell::new(0);
    let judge = |event: &Event| {
        if !is_of(event, "john") {
            return Ok(EventChange::Keep);
        }
        judged.set(judged.get() + 1);
        if judged.get() == 2 {
            db.registry().rewrite_events("users.john", &|_| Ok(EventChange::Replace(Payload::text("first"))))?;
        }
        let text = event.payload.find(|field| if let Field::Text(text) = field { Some(text.clone()) } else { None });
        Ok(EventChange::Replace(Payload::text([text.unwrap_or_default(), b" second".to_vec()].concat())))
    };
    assert_eq!(alice.rewrite_events("users", &judge)?.changed, 1);
    assert_eq!(db.registry().query_all("users.john", "Row.Update")?[0].payload, Payload::text("first second"));
    assert_eq!(judged.get(), 3);
    Ok(())
}
