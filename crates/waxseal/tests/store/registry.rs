//! Registry and log as a user meets them: sessions, what is watched, what the log says before and after flush, reopen
//! and drop, who may do what, and what nobody may.

#![expect(clippy::disallowed_methods, reason = "the tests damage and remove files that the store made")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use waxseal::env::{self, Env, Fs, ManualClock, MemoryFs, SeededRandom};
use waxseal::registry::{
    Asker, Authorizer, Event, EventChange, Field, Identity, Image, Lies, Mode, Operation, Paging, Payload, Query,
    RegisterOptions, Ring, Scope, Target, Time, Values, WhenFull,
};
use waxseal::{
    Batch, Builder, CfOptions, ColumnFamily, Db, Durability, Error, ErrorKind, KIB, Result, Session, WriteOptions,
};

const SYSTEM: [&str; 5] = [
    "system_metadata.registry",
    "system_metadata.log",
    "system_metadata.quarantine",
    "system_metadata.schema",
    "system_metadata.sessions",
];

fn is_invalid<T: std::fmt::Debug>(outcome: Result<T>) -> Error {
    let error = outcome.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
    error
}

/// Everything that is logged of a target and below it.
fn below(db: &Db, target: &str) -> Result<Vec<Event>> {
    let query = Query { below: true, ..Query::of(db.registry().target(target)?) };
    Ok(db.registry().log_query(&query, &Paging::ALL)?.events)
}

/// Client, operation and key of each event but those of registrations, in the order of time.
fn told(mut events: Vec<Event>) -> Vec<(String, Operation, String)> {
    events.retain(|event| !matches!(event.key.operation, Operation::REGISTRY_ADD | Operation::REGISTRY_DELETE));
    events.sort_by_key(|event| (event.key.time, event.key.seqno));
    let key = |event: &Event| match &event.key.target {
        Target::Key { key, .. } => String::from_utf8_lossy(key).into_owned(),
        other => other.to_string(),
    };
    events.iter().map(|event| (event.key.client.clone(), event.key.operation, key(event))).collect()
}

fn event(client: &str, operation: Operation, key: &str) -> (String, Operation, String) {
    (client.to_owned(), operation, key.to_owned())
}

#[test]
fn a_session_stands_beside_what_it_wrote_wherever_the_events_are() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path().join("store"));
    let db = open()?;
    db.column_family("users")?.put("before", "0")?; // not registered yet
    let alice = db.session("alice")?;
    assert!(alice.register("users", "*")?);
    assert!(!alice.register("users", "*")?, "registered already");

    let users = alice.column_family("users")?;
    users.put_with("john", "33", WriteOptions::new().log_as_insert())?;
    users.put("john", "34")?;
    let mut batch = db.session("bob")?.batch();
    batch.delete(&users_of(&db, "bob")?, "john").put_logged_as_insert(&users_of(&db, "bob")?, "jane", "7");
    batch.commit(Durability::Sync)?;
    db.column_family("users")?.put("jane", "8")?;
    let expected = [
        event("alice", Operation::ROW_INSERT, "john"),
        event("alice", Operation::ROW_UPDATE, "john"),
        event("bob", Operation::ROW_DELETE, "john"),
        event("bob", Operation::ROW_INSERT, "jane"),
        event("-", Operation::ROW_UPDATE, "jane"),
    ];
    let check = |db: &Db, when: &str| -> Result<()> {
        assert_eq!(told(below(db, "users")?), expected, "{when}");
        let johns = db.registry().query_all("users.john", "*")?;
        assert_eq!(johns.len(), 3, "{when}");
        assert_eq!(db.registry().query_all("users.john", "Row.Update")?.len(), 1, "{when}");
        let latest = db.registry().query_latest("users.john", "*")?.unwrap();
        assert_eq!((latest.key.client.as_str(), latest.key.operation), ("bob", Operation::ROW_DELETE), "{when}");
        assert!(db.registry().query_latest("users.john", "Row.Insert")?.unwrap().key.time < latest.key.time, "{when}");
        assert_eq!(db.registry().query_all("users.before", "*")?, [], "{when}");
        Ok(())
    };
    check(&db, "in memory")?;
    let seen = below(&db, "users")?;
    db.flush()?;
    check(&db, "in the log")?;
    assert_eq!(below(&db, "users")?, seen, "the very same events");
    db.close()?;
    let db = open()?;
    check(&db, "reopened")?;
    assert_eq!(db.registry().registrations()?.len(), 1);
    db.column_family("users")?.compact()?;
    db.settle()?;
    check(&db, "compacted")?;
    db.close()?;
    let db = Db::open_read_only(dir.path().join("store"))?;
    check(&db, "read only")?;
    assert_eq!(*db.registry().register("users", "Row.Update").unwrap_err().kind(), ErrorKind::ReadOnly);
    Ok(())
}

#[test]
fn a_reader_catches_up_with_what_is_registered() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    db.flush()?;
    let reader = Db::open_read_only(&path)?;
    db.column_family("users")?;
    db.registry().register("users", "*")?;
    let reindexed = db.registry().define_operation("Search.Reindexed")?;
    reader.refresh()?;
    assert_eq!(reader.registry().registrations()?, db.registry().registrations()?);
    assert!(reader.registry().is_registered("users.john", "Row.Update")?);
    assert_eq!(reader.registry().operation("Search.Reindexed")?, reindexed);
    db.registry().unregister("users", "*")?;
    reader.refresh()?;
    assert_eq!(reader.registry().registrations()?, []);
    // One that writes has nothing to catch up with.
    db.registry().register("users", "*")?;
    db.refresh()?;
    db.column_family("users")?.put("john", "33")?;
    assert_eq!(db.registry().query_all("users.john", "*")?.len(), 1);
    Ok(())
}

fn users_of(db: &Db, name: &str) -> Result<ColumnFamily> {
    db.session(name)?.column_family("users")
}

#[test]
fn what_was_not_flushed_is_told_after_a_reopen_too() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    let users = db.session(Identity::named("alice").authenticated("password"))?.column_family("users")?;
    db.registry().register("users.john", "Row.Update")?;
    users.put("john", "33")?;
    users.put("jane", "not watched")?;
    db.close()?;
    let read_only = Db::open_read_only(&path)?;
    assert_eq!(
        told(read_only.registry().query_all("users.john", "*")?),
        [event("alice", Operation::ROW_UPDATE, "john")]
    );
    drop(read_only);
    let db = Db::open(&path)?;
    assert_eq!(told(below(&db, "users")?), [event("alice", Operation::ROW_UPDATE, "john")]);
    db.column_family("users")?.put("john", "34")?;
    let events = db.registry().query_all("users.john", "*")?;
    assert_eq!(told(events.clone()).last(), Some(&event("-", Operation::ROW_UPDATE, "john")));
    assert!(events.iter().max_by_key(|event| event.key.time).unwrap().key.client == "-", "time goes on");
    Ok(())
}

#[test]
fn every_way_to_write_is_watched() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("c")?;
    db.registry().register("c", "*")?;
    cf.put("put", "1")?;
    cf.put_with("with", "1", Durability::Sync.into())?;
    cf.put_sealed("sealed", "1", waxseal::Seal::of("sealed", "1"))?;
    cf.delete("deleted")?;
    let mut batch = db.batch();
    batch.put(&cf, "batch.put", "1").delete(&cf, "batch.delete").put_logged_as_insert(&cf, "batch.insert", "1");
    batch.put_sealed(&cf, "batch.sealed", "1", waxseal::Seal::of("batch.sealed", "1")).put_given(
        &cf,
        "given",
        "1",
        &[],
    );
    batch.commit(Durability::Os)?;
    batch.put(&cf, "again", "1");
    batch.commit(Durability::Os)?;
    let update = |key: &str| event("-", Operation::ROW_UPDATE, key);
    let expected = [
        update("put"),
        update("with"),
        update("sealed"),
        event("-", Operation::ROW_DELETE, "deleted"),
        update("batch.put"),
        event("-", Operation::ROW_DELETE, "batch.delete"),
        event("-", Operation::ROW_INSERT, "batch.insert"),
        update("batch.sealed"),
        update("given"),
        update("again"),
    ];
    let mut events = below(&db, "c")?;
    events.sort_by_key(|event| event.key.seqno);
    assert_eq!(told(events), expected);
    Ok(())
}

#[test]
fn a_batch_is_written_in_one_name() -> Result<()> {
    let db = Db::memory()?;
    db.column_family("users")?;
    db.registry().register("users", "*")?;
    let (alice, bob) = (users_of(&db, "alice")?, users_of(&db, "bob")?);
    let commit = |mut batch: Batch, handle: &ColumnFamily| -> Result<String> {
        batch.put(handle, "key", "value");
        batch.commit(Durability::Os)?;
        Ok(db.registry().query_latest("users.key", "*")?.unwrap().key.client)
    };
    assert_eq!(commit(db.batch(), &alice)?, "alice", "of the handle");
    assert_eq!(commit(db.session("bob")?.batch(), &db.column_family("users")?)?, "bob", "of the batch");
    assert_eq!(commit(db.batch(), &db.column_family("users")?)?, "-");
    is_invalid(commit(db.session("bob")?.batch(), &alice));
    let mut batch = db.batch();
    batch.put(&alice, "a", "1").put(&bob, "b", "1");
    is_invalid(batch.commit(Durability::Os));
    batch.clear();
    batch.put(&bob, "b", "1");
    batch.commit(Durability::Os)?;
    assert_eq!(db.registry().query_latest("users.b", "*")?.unwrap().key.client, "bob");
    assert_eq!(alice.get("a")?, None);
    Ok(())
}

#[test]
fn modes_and_values_tell_the_same_story() -> Result<()> {
    for mode in [Mode::Sync, Mode::Deferred, Mode::Async] {
        let db = Db::memory()?;
        let users = db.session("alice")?.column_family("users")?;
        let history = mode != Mode::Sync;
        let options = RegisterOptions { scope: Scope::Subtree, mode, values: Values::OldNew, history, retention: None };
        if mode == Mode::Async {
            let options = RegisterOptions { values: Values::New, history: false, ..options };
            db.registry().register_with("users", "*", options)?;
        } else {
            db.registry().register_with("users", "*", options)?;
        }
        for value in ["1", "2"] {
            users.put("john", value)?;
        }
        users.delete("john")?;
        if mode == Mode::Async {
            db.registry().drain_events()?;
            assert_eq!(db.registry().event_ring()?.waiting, 0);
        }
        let mut events = db.registry().query_all("users.john", "*")?;
        events.sort_by_key(|event| event.key.time);
        let images: Vec<(Option<Image>, Option<Image>)> = events.iter().map(images).collect();
        let value = |value: &str| Some(Image::Value(value.into()));
        let expected = match mode {
            Mode::Async => [(None, value("1")), (None, value("2")), (None, None)],
            _ => [(Some(Image::Absent), value("1")), (value("1"), value("2")), (value("2"), None)],
        };
        let without_absent = |(old, new): &(Option<Image>, Option<Image>)| {
            (old.clone().filter(|old| *old != Image::Absent), new.clone().filter(|new| *new != Image::Absent))
        };
        let (images, expected): (Vec<_>, Vec<_>) =
            (images.iter().map(without_absent).collect(), expected.iter().map(without_absent).collect());
        assert_eq!(images, expected, "{mode:?}");
    }
    Ok(())
}

/// Old and new value of an event.
fn images(event: &Event) -> (Option<Image>, Option<Image>) {
    let mut images = (None, None);
    for field in event.payload.fields() {
        match field {
            Field::OldValue(image) => images.0 = Some(image.clone()),
            Field::NewValue(image) => images.1 = Some(image.clone()),
            _ => {}
        }
    }
    images
}

#[test]
fn a_full_ring_does_what_it_was_told() -> Result<()> {
    let ring = Ring { events: 1, when_full: WhenFull::SyncFallback };
    let db = Builder::in_memory().ring(ring).open()?;
    let users = db.column_family("users")?;
    let options = RegisterOptions { scope: Scope::Subtree, mode: Mode::Async, ..Default::default() };
    db.registry().register_with("users", "*", options)?;
    for n in 0..100 {
        users.put(format!("{n}"), "value")?;
    }
    db.registry().drain_events()?;
    assert_eq!(below(&db, "users")?.len(), 100);
    assert_eq!(db.registry().event_ring()?.dropped, 0);
    Ok(())
}

#[test]
fn the_store_own_families_are_read_and_never_written() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"))?;
    let users = db.session("alice")?.column_family("users")?;
    db.registry().register("users", "*")?;
    users.put("john", "33")?;
    db.flush()?;
    let mut names: Vec<String> = db.column_families().iter().map(|cf| cf.name().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["default", "users"], "users' own alone");

    type Rows = Vec<(Vec<u8>, Vec<u8>)>;
    let content = || -> Result<Vec<Rows>> {
        let rows = |name: &&str| -> Result<Vec<_>> {
            db.column_family(name)?.iter().map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect()
        };
        SYSTEM.iter().map(rows).collect()
    };
    let before = content()?;
    assert_eq!((before[0].len(), before[1].len(), before[4].len()), (1, 1, 1), "a registration, an event, a session");
    for name in SYSTEM {
        let cf = db.column_family(name)?;
        let key = before.iter().flatten().next().unwrap().0.clone();
        is_invalid(cf.put(&key, "forged"));
        is_invalid(cf.put_with("x", "forged", WriteOptions::new().durability(Durability::Sync)));
        is_invalid(cf.put_sealed("x", "y", waxseal::Seal::of("x", "y")));
        is_invalid(cf.delete(&key));
        let mut batch = db.batch();
        batch.put(&users, "with", "it").put(&cf, &key, "forged");
        is_invalid(batch.commit(Durability::Os));
        let mut batch = db.batch();
        batch.delete(&cf, &key);
        is_invalid(batch.commit(Durability::Os));
        is_invalid(db.drop_column_family(name));
        is_invalid(db.create_column_family(name, CfOptions::default()));
        is_invalid(db.registry().register(Target::family(name), "*"));
        let parcel = dir.path().join("parcel");
        users.export(&parcel, Default::default())?;
        is_invalid(cf.import(&parcel));
        std::fs::remove_dir_all(&parcel).unwrap();
    }
    for name in ["system_metadata.other", "system_metadata", "system_metadata."] {
        is_invalid(db.column_family(name));
        is_invalid(db.create_column_family(name, CfOptions::default()));
    }
    assert_eq!(content()?, before);
    assert_eq!(users.get("with")?, None);
    db.close()?;
    let given = Db::builder(dir.path().join("store")).column_family(SYSTEM[1], CfOptions::default());
    is_invalid(given.open());
    Ok(())
}

#[test]
fn a_family_that_is_dropped_leaves_its_events() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    let alice = db.session("alice")?;
    let users = alice.create_column_family("users", CfOptions::default())?;
    db.registry().register("users", "*")?;
    users.put("flushed", "1")?;
    db.flush()?;
    users.put("waiting", "1")?;
    alice.drop_column_family("users")?;
    is_invalid(users.put("late", "1"));
    let check = |db: &Db| -> Result<()> {
        let mut told = told(below(db, "users")?);
        told.retain(|(_, operation, _)| *operation == Operation::ROW_UPDATE);
        let update = |key| event("alice", Operation::ROW_UPDATE, key);
        assert_eq!(told, [update("flushed"), update("waiting")]);
        let dropped = db.registry().query_all("users", "Table.Drop")?;
        assert_eq!(dropped.iter().filter(|event| event.key.client == "alice").count(), 1);
        Ok(())
    };
    check(&db)?;
    db.close()?;
    let db = Db::open(&path)?;
    check(&db)?;
    // Made anew it is watched: what is registered is a name.
    let users = db.column_family("users")?;
    users.put("anew", "1")?;
    assert_eq!(db.registry().query_all("users.anew", "*")?.len(), 1);
    assert_eq!(db.registry().registrations()?.len(), 1);
    Ok(())
}

#[test]
fn a_snapshot_of_the_log_stays_as_it_was() -> Result<()> {
    let db = Db::memory()?;
    let users = db.column_family("users")?;
    db.registry().register("users", "*")?;
    users.put("john", "1")?;
    let then = db.snapshot();
    users.put("john", "2")?;
    let query = Query::of(db.registry().target("users.john")?);
    let seen = |db: &Db| db.registry().log_query_at(&query, &Paging::ALL, &then).map(|page| page.events.len());
    assert_eq!((seen(&db)?, db.registry().query_all("users.john", "*")?.len()), (1, 2));
    db.flush()?;
    assert_eq!(seen(&db)?, 1);
    assert_eq!(db.registry().log_delete(&query)?, 2);
    assert_eq!((seen(&db)?, db.registry().query_all("users.john", "*")?.len()), (1, 0));
    is_invalid(Db::memory()?.registry().log_query_at(&query, &Paging::ALL, &then));
    Ok(())
}

#[test]
fn queries_go_by_time_client_and_page() -> Result<()> {
    let db = Db::memory()?;
    db.column_family("users")?;
    db.registry().register("users", "*")?;
    for n in 0..20 {
        let name = if n % 2 == 0 { "alice" } else { "bob" };
        users_of(&db, name)?.put(format!("{:02}", n % 5), "value")?;
        if n == 9 {
            db.flush()?;
        }
    }
    let mut all = below(&db, "users")?;
    assert_eq!(all.len(), 20);
    all.sort_by_key(|event| event.key.time);
    let (from, to) = (all[5].key.time, all[14].key.time);
    let query = |client: Option<&str>| Query {
        below: true,
        from,
        to,
        client: client.map(str::to_owned),
        ..Query::of(Target::family("users"))
    };
    for (client, expected) in [(None, 10), (Some("alice"), 5), (Some("bob"), 5), (Some("carol"), 0)] {
        let query = query(client);
        let whole = db.registry().log_query(&query, &Paging::ALL)?.events;
        assert_eq!(whole.len(), expected, "{client:?}");
        let (mut pages, mut paging) = (Vec::new(), Paging::first(3));
        loop {
            let page = db.registry().log_query(&query, &paging)?;
            assert!(page.events.len() <= 3);
            pages.extend(page.events);
            paging.after = page.next;
            if paging.after.is_none() {
                break;
            }
        }
        assert_eq!(pages, whole, "{client:?}");
    }
    is_invalid(db.registry().log_query(&query(None), &Paging { after: Some(b"elsewhere".to_vec()), limit: 3 }));
    let cf = db.column_family("users")?;
    assert_eq!(db.registry().query_range(&cf, "01".."03", &Paging::ALL)?.events.len(), 8);
    let latest = db.registry().log_latest(&Query { to, ..Query::of(db.registry().target("users.03")?) })?.unwrap();
    assert_eq!(latest.key.time, all[13].key.time);
    Ok(())
}

#[test]
fn events_of_an_embedder() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    db.column_family("users")?;
    is_invalid(db.registry().log_add("users", "app.reindexed", None, Payload::new())); // means nothing yet
    let reindexed = db.registry().define_operation("app.reindexed")?;
    is_invalid(db.registry().log_add("users", reindexed, None, Payload::new())); // nobody wants to know
    is_invalid(db.registry().log_add("users", "*", None, Payload::new()));
    db.registry().register("users", reindexed)?;
    let alice = db.session("alice")?;
    alice.log_add("users", "app.reindexed", None, Payload::text("took 3 s"))?;
    alice.log_add("users", reindexed, Some(Time::from_micros(7)), Payload::text("long ago"))?;
    is_invalid(db.registry().define_operation("Row.Update"));
    is_invalid(db.registry().define_operation("a b"));
    db.close()?;
    let db = Db::open(&path)?;
    assert_eq!(db.registry().operation("app.reindexed")?, reindexed);
    assert_eq!(db.registry().operation_name(reindexed)?, "app.reindexed");
    let events = db.registry().query_all("users", reindexed)?;
    let texts: Vec<&Field> = events.iter().flat_map(|event| event.payload.fields()).collect();
    assert_eq!(texts, [&Field::Text(b"long ago".to_vec()), &Field::Text(b"took 3 s".to_vec())]);
    assert!(events.iter().all(|event| event.key.client == "alice"));
    Ok(())
}

#[test]
fn bad_input_is_refused_and_changes_nothing() -> Result<()> {
    let db = Db::memory()?;
    let users = db.column_family("users")?;
    for target in ["", ".", "nobody", "nobody.key", "users\\", "node", "what:is", "sst:12", "system_metadata.log"] {
        is_invalid(db.registry().register(target, "Row.Update"));
    }
    for operation in ["", "Row", "row.update", "Row.Updated", "**"] {
        is_invalid(db.registry().register("users", operation));
        is_invalid(db.registry().query_all("users", operation));
    }
    is_invalid(db.registry().register(Target::family(""), "*"));
    is_invalid(db.registry().register("users", Operation::from_number(0x9999)));
    let old_new = RegisterOptions { values: Values::OldNew, mode: Mode::Deferred, ..Default::default() };
    is_invalid(db.registry().register_with("users", "*", old_new)); // the old values are not kept
    for name in [String::new(), "x".repeat(256)] {
        is_invalid(db.session(name));
    }
    is_invalid(db.registry().unregister("users.", "nothing"));
    assert!(!db.registry().unregister("users.john", "*")?, "was never registered");
    is_invalid(db.registry().lineage("000999.tbl"));
    is_invalid(db.registry().lineage("rubbish"));
    assert_eq!(db.registry().registrations()?, []);
    assert!(db.registry().register("users.not there yet", "*")?, "a key need not be there");

    let other = Db::memory()?;
    is_invalid(other.registry().explain(&users, "john"));
    is_invalid(other.registry().provenance(&users, "john"));
    is_invalid(other.registry().query_range(&users, .., &Paging::ALL));
    let alice = db.session("alice")?;
    db.close()?;
    assert_eq!(*alice.register("users", "*").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(*alice.column_family("users").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(*db.session("alice").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(*alice.batch().commit(Durability::Os).unwrap_err().kind(), ErrorKind::Closed);
    Ok(())
}

#[test]
fn names_that_need_escaping() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("odd.name:with,all")?;
    db.registry().register(Target::family("odd.name:with,all"), "*")?;
    for key in [&b"plain"[..], b"", b"a.b:c,d\\e", b"\xff\0\x01", "grün".as_bytes()] {
        cf.put(key, "value")?;
        let target = Target::key("odd.name:with,all", key);
        let text = db.registry().target_text(&target)?;
        assert_eq!(db.registry().target(&text)?, target, "{text}");
        let events = db.registry().query_all(text.as_str(), "Row.Update")?;
        assert_eq!(events.len(), 1, "{text}");
        assert_eq!(events[0].key.target, target);
    }
    // A key that no target can name is not written where it would have to be named.
    let long = vec![0; waxseal::MAX_KEY_BYTES];
    is_invalid(cf.put(&long, "value"));
    assert_eq!(cf.get(&long)?, None);
    db.column_family("unwatched")?.put(&long, "value")?;
    db.registry().unregister(Target::family("odd.name:with,all"), "*")?;
    cf.put(&long, "value")?;
    Ok(())
}

#[test]
fn provenance_explain_and_lineage() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"))?;
    let users = db.session("alice")?.column_family("users")?;
    db.registry().register("users", "Row.Update")?;
    db.registry().register("users.john", "Row.Delete")?;
    users.put("john", "33")?;
    let known = db.registry().explain(&users, "john")?;
    assert_eq!((known.value.as_deref(), known.lies), (Some(&b"33"[..]), Some(Lies::Memory)));
    db.flush()?;
    users.put("jane", "7")?;
    db.flush()?;
    users.compact()?;

    let known = db.registry().provenance(&users, "john")?;
    assert_eq!(db.registry().target_text(&known.target)?, "users.john");
    assert_eq!(known.watched_by.len(), 2);
    assert_eq!(told(known.events), [event("alice", Operation::ROW_UPDATE, "john")]);

    db.verify(waxseal::VerifyOptions { families: Some(vec!["default".to_owned()]), progress: None })?;
    assert_eq!(db.registry().explain(&users, "john")?.verified, None, "a part of the store");
    assert!(db.verify(Default::default())?.is_clean());
    let known = db.registry().explain(&users, "john")?;
    assert_eq!((known.value.as_deref(), known.verdict.as_str()), (Some(&b"33"[..]), "validated"));
    assert_eq!(known.seal, Some(waxseal::Seal::of("john", "33")));
    let (who, when) = known.written.unwrap();
    assert_eq!((who.as_str(), when), ("alice", known.events[0].key.time));
    assert!(known.verified.is_some_and(|time| time > when));
    let Some(Lies::Table { file, .. }) = known.lies else { panic!("{:?}", known.lies) };
    assert!(dir.path().join("store").join(&file).exists());
    assert_eq!(known.lineage, db.registry().lineage(&file)?);
    let steps: Vec<Operation> = known.lineage.steps.iter().map(|step| step.event.key.operation).collect();
    assert!(steps.contains(&Operation::ENGINE_FLUSH), "{steps:?}");
    assert!(steps.contains(&Operation::ENGINE_COMPACT), "{steps:?}");

    let nothing = db.registry().explain(&users, "nobody")?;
    assert_eq!((nothing.value, nothing.seqno, nothing.written, nothing.events.len()), (None, None, None, 0));
    Ok(())
}

#[test]
fn what_is_done_to_the_store_is_told_once() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    let cf = db.column_family("default")?;
    cf.put("key", "value")?;
    db.flush()?;
    db.scrub(Default::default())?;
    cf.export(dir.path().join("parcel"), Default::default())?;
    cf.import(dir.path().join("parcel"))?;
    db.checkpoint(dir.path().join("copy"))?;
    let engine = |db: &Db, operation: Operation| -> Result<usize> {
        let query = Query { below: true, operation: Some(operation), ..Query::of(Target::Cluster) };
        let events = db.registry().log_query(&query, &Paging::ALL)?.events;
        Ok(events.iter().filter(|event| matches!(event.key.target, Target::Engine(_))).count())
    };
    let told = |db: &Db| -> Result<Vec<usize>> {
        [
            Operation::ENGINE_FLUSH,
            Operation::ENGINE_SCRUB,
            Operation::ENGINE_EXPORT,
            Operation::ENGINE_INGEST,
            Operation::ENGINE_CHECKPOINT,
            Operation::ENGINE_REPAIR,
        ]
        .map(|operation| engine(db, operation))
        .into_iter()
        .collect()
    };
    assert_eq!(told(&db)?, [1, 1, 1, 1, 1, 0]);
    db.close()?;
    let db = Db::open(&path)?;
    assert_eq!(told(&db)?, [1, 1, 1, 1, 1, 0], "without being registered, and kept");
    Ok(())
}

/// What each may do: `auditor` everything, `reader` read, others nothing.
struct ByName;

impl Authorizer for ByName {
    fn can_register(&self, who: &Asker, _: &Target, _: Option<Operation>) -> bool {
        who.name() == "auditor"
    }
    fn can_read_log(&self, who: &Asker, target: &Target) -> bool {
        who.name() == "auditor" || (who.name() == "reader" && Target::family("users").covers(target))
    }
    fn can_delete_log(&self, who: &Asker, _: &Target) -> bool {
        who.name() == "auditor"
    }
    fn can_add_to_log(&self, who: &Asker, _: &Target, _: Operation) -> bool {
        who.name() == "auditor"
    }
}

#[test]
fn an_authorizer_decides() -> Result<()> {
    let db = Builder::in_memory().authorizer(Arc::new(ByName)).open()?;
    let users = db.column_family("users")?;
    let [auditor, reader, other] = ["auditor", "reader", "other"].map(|name| db.session(name).unwrap());
    for who in [&reader, &other, &db.nobody()] {
        is_invalid(who.register("users", "*"));
        is_invalid(who.define_operation("app.x"));
    }
    auditor.register("users", "*")?;
    for who in [&reader, &other, &db.nobody()] {
        is_invalid(who.unregister("users", "*"));
    }
    users.put("john", "33")?; // whoever writes is not asked
    assert_eq!(reader.query_all("users.john", "*")?.len(), 1);
    is_invalid(reader.query_all("cluster:", "*"));
    let query = Query::of(Target::key("users", "john"));
    let is_refused = |who: &Session| {
        is_invalid(who.event_versions("users", &mut |_| Ok(true)));
        is_invalid(who.query_all("users.john", "*"));
        is_invalid(who.query_latest("users.john", "*"));
        is_invalid(who.log_query(&query, &Paging::ALL));
        is_invalid(who.log_latest(&query));
        is_invalid(who.provenance(&users, "john"));
        is_invalid(who.explain(&users, "john"));
        is_invalid(who.query_range(&users, .., &Paging::ALL));
    };
    is_refused(&other);
    is_refused(&db.nobody());
    for who in [&reader, &other] {
        is_invalid(who.log_delete(&query));
        is_invalid(who.rewrite_events("users", &|_| Ok(EventChange::Remove)));
        is_invalid(who.compact_events("users"));
        is_invalid(who.log_add("users.john", "Row.Update", None, Payload::new()));
    }
    assert_eq!(auditor.query_all("users.john", "*")?.len(), 1);
    assert_eq!(auditor.log_delete(&query)?, 1);
    assert_eq!(reader.query_all("users.john", "*")?.len(), 0);
    Ok(())
}

/// Looks up operations of its own store before it decides.
struct Asks(std::sync::OnceLock<Db>);

impl Authorizer for Asks {
    fn can_register(&self, _: &Asker, _: &Target, operation: Option<Operation>) -> bool {
        let db = self.0.get().expect("opened");
        operation.is_none_or(|operation| db.registry().operation_name(operation).is_ok())
    }
    fn can_read_log(&self, _: &Asker, _: &Target) -> bool {
        true
    }
    fn can_delete_log(&self, _: &Asker, _: &Target) -> bool {
        false
    }
}

#[test]
fn an_authorizer_may_ask_the_store() -> Result<()> {
    let asks = Arc::new(Asks(std::sync::OnceLock::new()));
    let db = Builder::in_memory().authorizer(asks.clone()).open()?;
    asks.0.set(db.clone()).expect("once");
    let defined = db.registry().define_operation("app.reindexed")?;
    assert!(db.registry().register("cluster:", "app.reindexed")?);
    assert_eq!(db.registry().operation_name(defined)?, "app.reindexed");
    Ok(())
}

#[test]
fn a_store_without_registry_is_refused_where_something_is_registered() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let without = |path: &Path| Db::builder(path).registry(false);
    let db = without(&path).open()?;
    is_invalid(db.session("alice"));
    is_invalid(db.registry().register("default", "*"));
    is_invalid(db.column_family("system_metadata.log"));
    assert_eq!(db.nobody().column_family("default")?.name(), "default");
    db.close()?;
    let read_only = Db::open_read_only(&path)?; // it has none, and none is made
    assert_eq!(
        (read_only.registry().registrations()?, read_only.registry().query_all("default", "*")?.len()),
        (vec![], 0)
    );
    is_invalid(read_only.column_family("system_metadata.log"));
    drop(read_only);
    let db = Db::open(&path)?; // from now on it has one
    assert_eq!(db.registry().registrations()?, []);
    db.close()?;
    without(&path).open()?.close()?; // nothing is lost
    Db::builder(&path).plain().open()?.close()?;
    let db = Db::open(&path)?;
    db.registry().register("default", "Row.Update")?;
    db.column_family("default")?.put("key", "value")?;
    db.close()?;
    is_invalid(without(&path).open());
    is_invalid(Db::builder(&path).plain().open());
    without(&path).open_read_only()?.close()?;
    let db = Db::open(&path)?;
    assert_eq!(below(&db, "default")?.len(), 1);
    db.column_family("default")?.put("key", "again")?;
    db.registry().unregister("default", "Row.Update")?;
    db.close()?;
    is_invalid(Db::builder(&path).plain().open()); // an event waits in the log
    without(&path).open()?.close()?;
    let db = Db::open(&path)?;
    assert_eq!(below(&db, "default")?.len(), 2);
    db.flush()?;
    db.close()?;
    Db::builder(&path).plain().open()?.close()?;
    let db = Db::open(&path)?;
    assert_eq!(below(&db, "default")?.len(), 2);
    Ok(())
}

/// Flips a bit of a key wherever it stands in the files of a store.
fn hit(path: &Path, key: &str) {
    let mut hits = 0;
    for file in std::fs::read_dir(path).unwrap() {
        let file = file.unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(key.len()).position(|window| window == key.as_bytes()) {
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            hits += 1;
        }
    }
    assert!(hits > 0, "{key:?} stands nowhere");
}

/// The log is damaged behind an event that waits in it: whoever accepts the loss of what was hit has not given that
/// event up.
#[test]
fn no_event_that_waits_in_a_damaged_log_is_lost_by_a_plain_open() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    db.registry().register("default", "Row.Update")?;
    db.flush()?;
    db.column_family("default")?.put("key", "value")?;
    db.registry().unregister("default", "Row.Update")?;
    for key in ["this one is hit", "one", "two"] {
        db.column_family("default")?.put_with(key, "value", WriteOptions::default().durability(Durability::Sync))?;
    }
    db.close()?;
    hit(&path, "this one is hit");
    let accepting = || Db::builder(&path).accept_loss(true);
    assert!(Db::open_read_only(&path).unwrap_err().is_corruption());
    is_invalid(accepting().plain().open());
    let db = accepting().open()?;
    assert_eq!(below(&db, "default")?.len(), 1);
    db.flush()?;
    db.close()?;
    let db = Db::builder(&path).plain().open()?;
    assert_eq!(db.column_family("default")?.get("key")?.as_deref(), Some(&b"value"[..]));
    db.close()
}

/// Nobody can see whether something is registered: a plain open that would be refused afterwards leaves the seals where
/// they are.
#[test]
fn a_plain_open_that_cannot_see_what_is_registered_leaves_no_seals_behind() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    db.column_family("users")?;
    db.registry().register("users", "*")?;
    db.flush()?;
    for key in ["before", "this one is hit", "one", "two"] {
        db.column_family("default")?.put_with(key, "value", WriteOptions::default().durability(Durability::Sync))?;
    }
    db.close()?;
    hit(&path, "this one is hit");
    is_invalid(Db::builder(&path).accept_loss(true).plain().open());
    let db = Db::builder(&path).accept_loss(true).open()?;
    assert!(db.column_family("default")?.get_sealed("before")?.is_some());
    db.close()
}

#[test]
fn copies_have_registry_and_log() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let [path, copy, saved] = ["store", "copy", "saved"].map(|name| dir.path().join(name));
    let db = Db::open(&path)?;
    let users = db.session("alice")?.column_family("users")?;
    db.registry().register("users", "*")?;
    users.put("john", "33")?;
    db.flush()?;
    users.put("jane", "7")?;
    db.checkpoint(&copy)?;
    db.close()?;
    let of_copy = Db::open(&copy)?;
    assert_eq!(below(&of_copy, "users")?.len(), 2);
    of_copy.column_family("users")?.put("jim", "1")?;
    assert_eq!(below(&of_copy, "users")?.len(), 3);
    of_copy.close()?;
    assert!(Db::salvage(&path, &saved)?.is_clean());
    let of_saved = Db::open(&saved)?;
    assert_eq!(of_saved.registry().registrations()?.len(), 1);
    assert_eq!(told(below(&of_saved, "users")?).len(), 2);
    Ok(())
}

#[test]
fn the_last_handle_closes_a_store_that_logs() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for n in 1..4 {
        let db = Db::open(&path)?; // would be locked if the last one were still open
        let users = db.column_family("users")?;
        let options = RegisterOptions { scope: Scope::Subtree, mode: Mode::Async, ..Default::default() };
        db.registry().register_with("users", "Row.Update", options)?;
        users.put("john", "33")?;
        db.registry().drain_events()?;
        assert_eq!(below(&db, "users")?.len(), n);
    }
    Ok(())
}

#[test]
fn many_sessions_write_beside_registrations() -> Result<()> {
    let db = Db::memory()?;
    db.column_family("users")?;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                let users = users_of(db, &format!("writer{thread}")).unwrap();
                for n in 0..200 {
                    users.put(format!("{thread}.{n}"), "value").unwrap();
                }
            });
        }
        for _ in 0..20 {
            db.registry().register("users", "*").unwrap();
            db.registry().unregister("users", "*").unwrap();
        }
        db.registry().register("users", "*").unwrap();
    });
    let mut count = 0;
    for (client, _, key) in told(below(&db, "users")?) {
        assert_eq!(client, format!("writer{}", &key[..1]), "in its own name");
        count += 1;
    }
    assert!(count <= 800);
    users_of(&db, "last")?.put("last", "1")?;
    assert_eq!(db.registry().query_all("users.last", "*")?.len(), 1);
    Ok(())
}

/// Writes zeros over the middle of the block where a key of a family lies.
fn spoil(path: &Path, family: &str) -> Result<()> {
    let db = Db::open(path)?;
    let cf = db.column_family(family)?;
    let (key, _) = cf.iter().next().unwrap()?;
    let Some(Lies::Table { file, offset, .. }) = db.registry().explain(&cf, &key)?.lies else {
        panic!("{family} lies in no table")
    };
    db.close()?;
    let file = std::fs::OpenOptions::new().write(true).open(path.join(file)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 16], offset + 4).unwrap();
    Ok(())
}

#[test]
fn a_damaged_registry_keeps_nobody_from_reading() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    let users = db.session("alice")?.column_family("users")?;
    db.registry().register("users", "*")?;
    users.put("john", "33")?;
    db.flush()?;
    db.close()?;
    spoil(&path, "system_metadata.registry")?;

    let db = Db::open(&path)?;
    let users = db.column_family("users")?;
    assert_eq!(users.get("john")?.unwrap(), "33");
    // Writes go on, and a registration that stands in for the lost one misses no event of theirs.
    let known = db.registry().query_all("users.john", "*")?.len();
    users.put("john", "34")?;
    let mut batch = db.batch();
    batch.put(&users, "john", "35");
    batch.commit(Durability::Os)?;
    assert_eq!(db.registry().query_all("users.john", "*")?.len(), known + 2);
    assert_eq!(db.registry().registrations()?.len(), 1);
    assert_eq!(users.get("john")?.unwrap(), "35");
    assert!(!db.verify(Default::default())?.is_clean());
    db.close()?;
    let reader = Db::open_read_only(&path)?;
    reader.refresh()?;
    assert_eq!(reader.column_family("users")?.get("john")?.unwrap(), "35");
    drop(reader);

    let db = Db::open(&path)?;
    db.repair(waxseal::RepairOptions { accept_loss: true, ..Default::default() })?;
    db.close()?;
    let db = Db::open(&path)?; // what is lost is lost, as was said; the rest goes on
    db.column_family("users")?.put("john", "34")?;
    db.registry().registrations()?;
    Ok(())
}

/// Whose number stands for whom is lost for those whose row is, and for nobody else: all goes on.
#[test]
fn damaged_sessions_are_unknown_and_stop_nothing() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    let users = db.session("alice")?.column_family("users")?;
    db.registry().register("users", "*")?;
    users.put("john", "33")?;
    db.flush()?;
    db.close()?;
    spoil(&path, "system_metadata.sessions")?;

    let db = Db::open(&path)?;
    db.session("bob")?.column_family("users")?.put("john", "34")?;
    db.flush()?;
    let known = db.registry().explain(&db.column_family("users")?, "john")?;
    assert_eq!(known.written.unwrap().0, "bob");
    assert!(!db.verify(Default::default())?.is_clean());
    assert_eq!(db.registry().quarantined()?, []);
    db.repair(waxseal::RepairOptions { accept_loss: true, ..Default::default() })?;
    let cases = db.registry().quarantined()?;
    assert!(cases.iter().any(|case| case.family == "system_metadata.sessions"), "{cases:?}");
    db.close()?;
    let db = Db::open_read_only(&path)?;
    assert_eq!(db.registry().quarantined()?, cases);
    let rows = db.column_family("system_metadata.quarantine")?.iter().count();
    assert!(rows >= cases.len());
    let clients: Vec<_> =
        db.registry().query_all("users.john", "*")?.into_iter().map(|event| event.key.client).collect();
    assert_eq!(clients, ["alice", "bob"]);
    Ok(())
}

/// The files of a store but for the manifest, after a life in which nothing is registered: through flushes,
/// compactions, a family that goes, a session that writes, and a reopen.
fn files_of(registry: bool) -> Result<BTreeMap<String, Vec<u8>>> {
    let (fs, clock) = (Arc::new(MemoryFs::new()), Arc::new(ManualClock::default()));
    let dir = Path::new("/store");
    for life in 0..2 {
        let env = Env {
            fs: fs.clone(),
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(40 + life)),
            work: env::Mode::Stepped,
        };
        let db = Db::builder(dir).env(env).registry(registry).memtable_bytes(16 * KIB).open()?;
        let users = db.column_family("users")?;
        let writer = if registry { db.session("alice")?.column_family("users")? } else { users.clone() };
        for n in 0..3000u32 {
            let key = (n * 7919 % 1000).to_le_bytes();
            match n % 10 {
                0 => users.delete(key)?,
                1 => users.put_with(key, n.to_le_bytes(), WriteOptions::new().log_as_insert())?,
                2 => {
                    let mut batch = db.batch();
                    batch.put(&users, key, "batch").delete(&users, n.to_le_bytes());
                    batch.commit(Durability::Os)?;
                }
                _ => writer.put(key, [n as u8; 40])?,
            }
            clock.advance_nanos(1_000);
            while n % 50 == 0 && db.step()? {}
        }
        db.column_family("guests")?.put("guest", "1")?;
        db.drop_column_family("guests")?;
        db.settle()?;
        users.put("last", "in the log")?;
        db.close()?;
    }
    let mut files = BTreeMap::new();
    for name in fs.list(dir).unwrap() {
        if !name.starts_with("MANIFEST") && name != "CURRENT" {
            let file = fs.open(&dir.join(&name), env::Open::Read).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(&mut bytes, 0).unwrap();
            files.insert(name, bytes);
        }
    }
    Ok(files)
}

#[test]
fn a_store_in_which_nothing_is_registered_is_byte_for_byte_one_without_a_registry() -> Result<()> {
    let (with, without) = (files_of(true)?, files_of(false)?);
    assert_eq!(with.keys().collect::<Vec<_>>(), without.keys().collect::<Vec<_>>());
    assert!(with.keys().filter(|name| name.ends_with(".tbl")).count() > 0, "{:?}", with.keys());
    for (name, bytes) in &with {
        assert!(*bytes == without[name], "{name} differs");
    }
    Ok(())
}
