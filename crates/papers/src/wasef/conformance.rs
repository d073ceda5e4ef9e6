//! Question: does every call of the paper work as described, and are invalid calls rejected?
//! Protocol: the registry's, the log's and the client's calls one by one, from Rust and through the tool; paged events;
//!           writes to system families; and simultaneous events: eight threads write and log with a stopped clock. Then
//!           one script with all calls, from Rust, C and Python.
//! Passes:   every answer is the expected one, and the number of rows equals that of events. C and Python return Rust's
//!           answers. Without the tool or the C library beside this program, or without the package (`--python`), their
//!           lines are undecided.

use super::store::{FAMILY, LOG, REGISTRY, Store, pair};
use super::{Run, callers};
use crate::node::{ALL, Shape};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::At;
use waxseal_lsm::env::{Env, ManualClock};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::record::Kind;
use waxseal_registry::{
    Authorizer, Event, Identity, Mode, Operation, Options, Paging, Payload, Query, Scope, Session, Setup, StampVerb,
    Target, Time,
};

/// Number of simultaneous events at scale 1.
const EVENTS: u64 = 1_000_000;
const THREADS: u64 = 8;

const UPDATE: Operation = Operation::ROW_UPDATE;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let mut gates = Vec::new();
    type Part = fn(&Run, &mut Checks) -> Outcome<()>;
    let parts: [(&str, Part); 6] = [
        ("registry", registry),
        ("log", log),
        ("client", client),
        ("pages", pages),
        ("refused", refused),
        ("rights", rights),
    ];
    for (what, part) in parts {
        let mut checks = Checks::default();
        part(run, &mut checks)?;
        gates.push(checks.gate(run, what));
    }
    gates.extend(one_moment(run)?);
    gates.push(tool(run)?);
    gates.extend(others(run)?);
    Ok(gates)
}

/// Counts of answers and of wrong ones.
#[derive(Default)]
struct Checks {
    asked: u64,
    wrong: u64,
}

impl Checks {
    fn is(&mut self, what: &str, right: bool) {
        self.asked += 1;
        if !right {
            self.wrong += 1;
            println!("    wrong: {what}");
        }
    }

    /// Expects `Invalid`.
    fn invalid<T>(&mut self, what: &str, outcome: Result<T>) {
        self.is(what, outcome.is_err_and(|error| *error.kind() == ErrorKind::Invalid));
    }

    fn gate(&self, run: &Run, what: &str) -> Gate {
        println!("{what}: {} answers", self.asked);
        run.none(what, "wrong_answers", self.wrong, self.asked, 1)
    }
}

fn john() -> Target {
    Target::key(FAMILY, *b"John")
}

fn store(run: &Run, name: &str) -> Outcome<Store> {
    Store::open(&run.fresh(name)?, &Shape::real())
}

fn all(store: &Store, query: &Query) -> Result<Vec<Event>> {
    Ok(store.registrar()?.log_query(query, &Paging::ALL, At::Latest, None)?.events)
}

/// `Registry.add`, `delete` and `query` of the paper.
fn registry(run: &Run, checks: &mut Checks) -> Outcome<()> {
    let store = store(run, "registry")?;
    let registrar = store.registrar()?;
    checks.is("nothing is registered at first", !registrar.is_registered(&john(), UPDATE));
    checks.is("add is new", registrar.register(&john(), Some(UPDATE), None, None)?);
    checks.is("add again is not", !registrar.register(&john(), Some(UPDATE), None, None)?);
    checks.is("query finds it", registrar.is_registered(&john(), UPDATE));
    checks.is("query finds no other operation", !registrar.is_registered(&john(), Operation::ROW_DELETE));
    checks.is("query finds no other target", !registrar.is_registered(&Target::key(FAMILY, *b"Mary"), UPDATE));
    checks.is("it is listed", registrar.registrations().iter().map(pair).eq([(john(), Some(UPDATE))]));
    checks.is("delete finds it", registrar.unregister(&john(), Some(UPDATE), None)?);
    checks.is("delete again does not", !registrar.unregister(&john(), Some(UPDATE), None)?);
    checks.is("and it is gone", !registrar.is_registered(&john(), UPDATE) && registrar.registrations().is_empty());
    // Every known operation, on its targets and on any target.
    for operation in Operation::known() {
        registrar.register(&Target::Cluster, Some(operation), None, None)?;
        checks.is(
            &format!("{operation:?} by its name"),
            registrar.operation(operation.known_name().unwrap_or(""))? == operation,
        );
        for alias in operation.aliases() {
            checks.is(&format!("{operation:?} as {alias}"), registrar.operation(alias)? == operation);
        }
    }
    let before: BTreeSet<_> = registrar.registrations().iter().map(pair).collect();
    checks.is("all of them are listed", before.len() == Operation::known().count());
    let operation = registrar.define("app.reindex", None)?;
    registrar.register(&john(), Some(operation), None, None)?;
    store.close()?;
    let store = Store::open(&run.dir.join("registry"), &Shape::real())?;
    let registrar = store.registrar()?;
    let after: BTreeSet<_> = registrar.registrations().iter().map(pair).collect();
    checks.is("all are there when it is opened again", after.len() == before.len() + 1 && after.is_superset(&before));
    checks.is("a defined operation keeps its name", registrar.operation("app.reindex")? == operation);
    checks.is("and stays registered", registrar.is_registered(&john(), operation));
    Ok(store.close()?)
}

/// `Log.add`, `query` and `delete`.
fn log(run: &Run, checks: &mut Checks) -> Outcome<()> {
    let store = store(run, "log")?;
    let registrar = store.registrar()?;
    let add = |time, text: &str| registrar.log_add(&john(), UPDATE, time, Payload::text(text), None);
    checks.invalid("add of what is not registered", add(None, "early"));
    registrar.register(&john(), Some(UPDATE), None, None)?;
    let (first, last) = (Time::from_micros(1_510_051_314_000_000), Time::from_micros(1_510_051_315_000_000));
    add(Some(first), "first")?;
    add(Some(last), "second")?;
    add(Some(last), "third")?;
    let mut writer = store.writer();
    writer.put(b"John", b"Urbana,IL")?;
    writer.put(b"Mary", b"Chicago,IL")?;
    let query = Query::of(john());
    let texts = |query: &Query| -> Result<Vec<Payload>> {
        Ok(all(&store, query)?.into_iter().map(|event| event.payload).collect())
    };
    let said = |texts: &[&str]| -> Vec<Payload> { texts.iter().map(|text| Payload::text(*text)).collect() };
    checks.is("query finds what was added and what happened", all(&store, &query)?.len() == 4);
    checks.is("and nothing of others", all(&store, &Query::of(Target::key(FAMILY, *b"Mary")))?.is_empty());
    checks.is("of a span of time", texts(&Query { from: first, to: first, ..query.clone() })? == said(&["first"]));
    checks.is(
        "events of one moment are two",
        texts(&Query { from: last, to: last, ..query.clone() })? == said(&["second", "third"]),
    );
    checks.is(
        "of another operation there is none",
        all(&store, &Query { operation: Some(Operation::ROW_DELETE), ..query.clone() })?.is_empty(),
    );
    checks.is("a span that is empty", all(&store, &Query { from: last, to: first, ..query.clone() })?.is_empty());
    let below = Query { below: true, ..Query::of(Target::family(FAMILY)) };
    checks.is("below the family", all(&store, &below)?.len() == 4);
    registrar.unregister(&john(), Some(UPDATE), None)?;
    checks.is("what was logged stays when it is taken back", all(&store, &query)?.len() == 4);
    let deleted = registrar.log_delete(&Query { from: first, to: last, ..query.clone() }, None)?;
    checks.is("delete says how many", deleted == 3);
    checks.is("and leaves the rest", all(&store, &query)?.len() == 1);
    store.db.settle()?;
    checks.is("also once everything is flushed", all(&store, &query)?.len() == 1);
    checks.is(
        "delete of what waits in memory too",
        registrar.log_delete(&query, None)? == 1 && all(&store, &query)?.is_empty(),
    );
    checks.is("delete of nothing", registrar.log_delete(&query, None)? == 0);
    Ok(store.close()?)
}

/// The calls `register`, `unregister`, `queryAll` and `queryLatest` in a session, and `explain` for a row.
fn client(run: &Run, checks: &mut Checks) -> Outcome<()> {
    let store = store(run, "client")?;
    let registrar = store.registrar()?;
    let alice = registrar.session(Identity::named("alice").authenticated("password"))?;
    let bob = registrar.session(Identity::named("bob"))?;
    checks.is("a session has a name", alice.name() == "alice" && alice.authenticated() == Some("password"));
    let any = Options { scope: Scope::Subtree, mode: Mode::Deferred, ..Options::default() };
    registrar.register(&Target::family(FAMILY), None, Some(any), Some(&alice))?;
    store.writer_as(Some(alice.clone())).write(Kind::Put, b"John", b"1", &[StampVerb::Insert], Durability::Os)?;
    store.writer_as(Some(bob.clone())).put(b"John", b"2")?;
    store.writer().write(Kind::Delete, b"John", b"", &[], Durability::Os)?;
    for flushed in [false, true] {
        let events = registrar.query_all(&john(), None, Some(&bob))?;
        let of = |event: &Event| (event.key.operation, event.key.client.clone());
        let expected = [(Operation::ROW_INSERT, "alice"), (UPDATE, "bob"), (Operation::ROW_DELETE, "-")];
        let expected = expected.map(|(operation, name)| (operation, name.to_owned()));
        checks.is(&format!("query_all, flushed {flushed}"), events.iter().map(of).eq(expected.clone()));
        checks.is("times rise", events.windows(2).all(|pair| pair[0].key.time < pair[1].key.time));
        let latest = registrar.query_latest(&john(), None, None)?;
        checks.is("query_latest of any operation", latest.as_ref().map(of) == Some(expected[2].clone()));
        let latest = registrar.query_latest(&john(), Some(UPDATE), None)?;
        checks.is("query_latest of one", latest.as_ref().map(of) == Some(expected[1].clone()));
        checks.is("of none", registrar.query_latest(&john(), Some(Operation::COLUMN_UPDATE), None)?.is_none());
        let of_bob = Query { client: Some("bob".into()), below: true, ..Query::of(Target::family(FAMILY)) };
        checks.is("of one client", all(&store, &of_bob)?.iter().map(of).eq([expected[1].clone()]));
        let provenance = registrar.provenance(&store.family, b"John", None)?;
        checks.is("provenance: where", provenance.target == john());
        checks.is("provenance: why", provenance.events.iter().map(of).eq(expected.clone()));
        checks.is("provenance: watched by", provenance.watched_by.len() == 1);
        let explained = registrar.explain(&store.family, b"John", None)?;
        // A flush may already have dropped a tombstone that hides nothing.
        let lies = flushed || explained.lies.is_some();
        checks.is("explain", explained.value.is_none() && explained.events.len() == 3 && lies);
        store.db.flush()?;
    }
    let ranged = registrar.query_range(&store.family, &ALL, &Paging::ALL, At::Latest, None)?;
    checks.is("query_range", ranged.events.len() == 3);
    checks.is("unregister", registrar.unregister(&Target::family(FAMILY), None, Some(&alice))?);
    store.writer().put(b"John", b"3")?;
    checks.is("then nothing is logged", registrar.query_all(&john(), None, None)?.len() == 3);
    Ok(store.close()?)
}

/// Pages of any length add up to the complete result, in memory and on disk.
fn pages(run: &Run, checks: &mut Checks) -> Outcome<()> {
    let store = store(run, "pages")?;
    store.watch_all(Mode::Deferred)?;
    let mut writer = store.writer();
    let write = |writer: &mut super::store::Writer<'_>, from: u64| -> Result<()> {
        (from..from + 150)
            .try_for_each(|number| writer.put(format!("key{:02}", number % 37).as_bytes(), b"value").map(drop))
    };
    write(&mut writer, 0)?;
    store.db.flush()?;
    write(&mut writer, 150)?;
    let query = Query { below: true, ..Query::of(Target::family(FAMILY)) };
    let whole = all(&store, &query)?;
    checks.is("as many events as updates", whole.len() == 300);
    for limit in [1, 2, 7, 100, 299, 300, 301] {
        let mut paging = Paging::first(limit);
        let (mut events, mut pages) = (Vec::new(), 0);
        loop {
            let page = store.registrar()?.log_query(&query, &paging, At::Latest, None)?;
            checks.is("no page is too long", page.events.len() <= limit);
            events.extend(page.events);
            pages += 1;
            match page.next {
                Some(next) if pages < 1_000 => paging.after = Some(next),
                _ => break,
            }
        }
        checks.is(&format!("pages of {limit}"), events == whole && pages == 300usize.div_ceil(limit));
    }
    let wrong = Paging { after: Some(b"nowhere".to_vec()), limit: 3 };
    checks.invalid("a place where no page ended", store.registrar()?.log_query(&query, &wrong, At::Latest, None));
    let snapshot = store.db.snapshot()?;
    write(&mut writer, 300)?;
    store.db.flush()?;
    let then = store.registrar()?.log_query(&query, &Paging::ALL, At::Snapshot(&snapshot), None)?;
    checks.is("a snapshot's log stays as it was", then.events == whole);
    Ok(store.close()?)
}

/// Calls that must be rejected.
fn refused(run: &Run, checks: &mut Checks) -> Outcome<()> {
    let store = store(run, "refused")?;
    let registrar = store.registrar()?;
    for name in [REGISTRY, LOG, "system_metadata.quarantine", "system_metadata.schema", "system_metadata.sessions"] {
        let family = store.db.family(name).ok_or_else(|| format!("no family {name}"))?;
        for kind in [Kind::Put, Kind::Delete] {
            let mut batch = Batch::new();
            batch.push(family.id(), kind, b"key", b"", store.db.companions())?;
            checks.invalid(&format!("{kind:?} in {name}"), registrar.commit(&mut batch, Durability::Os, None, &[]));
            checks.invalid(
                &format!("{kind:?} in {name}, past the registrar"),
                store.db.commit(&mut batch, Durability::Os),
            );
        }
        checks.invalid(&format!("dropping {name}"), registrar.drop_family(name, None));
        checks.invalid(&format!("creating {name}"), registrar.create_family(name, CfOptions::default()));
        let mut cursor = store.db.cursor(&family, At::Latest, ALL)?;
        checks.is(&format!("{name} can be read"), cursor.first().is_ok());
    }
    for text in ["", ".", "sst:zz", "cf:", "\\", "a\\xG0"] {
        checks.invalid(&format!("target {text:?}"), registrar.target(text));
    }
    for name in ["", "Row.Upsert", "row.update"] {
        checks.invalid(&format!("operation {name:?}"), registrar.operation(name));
    }
    checks.invalid("an operation of the store's own", registrar.define("Row.Update", None));
    checks.invalid("a name that cannot be", registrar.define("a b", None));
    checks.invalid("a family that is not there", registrar.register(&Target::family("nowhere"), None, None, None));
    checks.is("a key that is not there yet", registrar.register(&Target::key(FAMILY, *b"later"), None, None, None)?);
    let old_new = Options { values: waxseal_registry::Values::OldNew, mode: Mode::Deferred, ..Options::default() };
    checks.invalid("old values without history", registrar.register(&john(), None, Some(old_new), None));
    checks.invalid("a session without a name", registrar.session(Identity::named("")));
    Ok(store.close()?)
}

/// Allows only bob's calls.
struct Bobs;

impl Authorizer for Bobs {
    fn can_register(&self, who: &Session, _: &Target, _: Option<Operation>) -> bool {
        who.name() == "bob"
    }
    fn can_read_log(&self, who: &Session, target: &Target) -> bool {
        who.name() == "bob" || *target == john()
    }
    fn can_delete_log(&self, who: &Session, _: &Target) -> bool {
        who.name() == "bob"
    }
}

fn rights(run: &Run, checks: &mut Checks) -> Outcome<()> {
    let shape = Shape::real();
    let setup = Setup { authorizer: Arc::new(Bobs), ..Setup::new(&shape.env) };
    let store = Store::try_open(&run.fresh("rights")?, &shape, setup)?;
    let registrar = store.registrar()?;
    let (alice, bob) = (registrar.session(Identity::named("alice"))?, registrar.session(Identity::named("bob"))?);
    let (query, mary) = (Query::of(john()), Target::key(FAMILY, *b"Mary"));
    for who in [None, Some(&alice)] {
        checks.invalid("registering", registrar.register(&john(), None, None, who));
        checks.invalid("taking back", registrar.unregister(&john(), None, who));
        checks.invalid("reading", registrar.query_all(&mary, None, who));
        checks.invalid("reading the latest", registrar.query_latest(&mary, None, who));
        checks.invalid(
            "reading all below",
            registrar.log_query(&Query { below: true, ..Query::of(Target::Cluster) }, &Paging::ALL, At::Latest, who),
        );
        checks.invalid("deleting", registrar.log_delete(&query, who));
        checks.is("reading what is allowed", registrar.query_all(&john(), None, who).is_ok());
    }
    checks.is("bob registers", registrar.register(&john(), None, None, Some(&bob))?);
    store.writer_as(Some(alice)).put(b"John", b"1")?;
    checks.is("alice writes, and it is logged", registrar.query_all(&john(), None, None)?.len() == 1);
    checks.is("bob reads", registrar.query_all(&mary, None, Some(&bob)).is_ok());
    checks.is("bob deletes", registrar.log_delete(&query, Some(&bob))? == 1);
    Ok(store.close()?)
}

/// Eight threads write and log with a stopped clock.
fn one_moment(run: &Run) -> Outcome<Vec<Gate>> {
    let each = run.size(EVENTS, 8_000) / THREADS;
    let events = each * THREADS;
    let mut gates = Vec::new();
    for (what, mode) in [("sync", Mode::Sync), ("deferred", Mode::Deferred)] {
        let mut shape = Shape::real();
        shape.env = Env { clock: Arc::new(ManualClock::default()), ..Env::real() };
        let store = Store::try_open(&run.fresh(what)?, &shape, Setup::new(&shape.env))?;
        store.register(john(), Some(UPDATE), mode)?;
        std::thread::scope(|scope| -> Outcome<()> {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| -> Result<()> {
                        let mut writer = store.writer();
                        (0..each).try_for_each(|number| writer.put(b"John", &number.to_le_bytes()).map(drop))
                    })
                })
                .collect();
            for thread in threads {
                thread.join().map_err(|_| "a thread failed")??;
            }
            Ok(())
        })?;
        let mut found = BTreeSet::new();
        let mut paging = Paging::first(10_000);
        let mut rows = 0;
        loop {
            let page = store.registrar()?.log_query(&Query::of(john()), &paging, At::Latest, None)?;
            rows += page.events.len() as u64;
            found.extend(page.events.into_iter().map(|event| event.key.time));
            let Some(next) = page.next else { break };
            paging.after = Some(next);
        }
        println!(
            "one moment, {what}: {events} updates of one row from {THREADS} threads, {rows} events, {} times",
            found.len()
        );
        let wrong = rows.abs_diff(events) + (found.len() as u64).abs_diff(events);
        gates.push(run.none(&format!("one_moment.{what}"), "events_missing", wrong, events, events));
        store.close()?;
    }
    Ok(gates)
}

/// Compares the script's answers from C and Python with Rust's.
fn others(run: &Run) -> Outcome<Vec<Gate>> {
    let dir = run.fresh("callers")?;
    let expected = callers::here(&dir)?;
    std::fs::write(dir.join("answers"), &expected)?;
    let mut gates = Vec::new();
    let answers = [
        ("from_c", callers::in_c(&dir)?),
        ("from_python", callers::in_python(run, &dir, "native")?),
        ("from_python_ctypes", callers::in_python(run, &dir, "ctypes")?),
    ];
    for (who, answered) in answers {
        let mut checks = Checks::default();
        match answered {
            Err(why) => println!("{who}: {why}"),
            Ok(found) => {
                let (asked, wrong) = callers::differing(&expected, &found);
                wrong.iter().for_each(|wrong| println!("    wrong: {wrong}"));
                checks = Checks { asked, wrong: wrong.len() as u64 };
            }
        }
        gates.push(checks.gate(run, who));
    }
    Ok(gates)
}

/// Makes the same calls through the tool.
fn tool(run: &Run) -> Outcome<Gate> {
    let beside = || std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("waxseal")));
    let tool = run.tool.clone().or_else(beside).filter(|tool| tool.exists());
    let mut checks = Checks::default();
    if let Some(tool) = tool {
        with_the_tool(&tool, &run.fresh("tool")?, &mut checks)?;
    } else {
        println!("tool: there is none beside this program; say --tool, or build waxseal-cli");
    }
    Ok(checks.gate(run, "tool"))
}

fn with_the_tool(tool: &PathBuf, dir: &Path, checks: &mut Checks) -> Outcome<()> {
    let store = dir.join("store");
    let mut call = |code: i32, arguments: &[&str]| -> Outcome<String> {
        let done = Command::new(tool).arg("-d").arg(&store).args(arguments).output()?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        if done.status.code() != Some(code) {
            println!("    {arguments:?}: {:?} {}", done.status.code(), String::from_utf8_lossy(&done.stderr));
        }
        checks.is(&format!("{arguments:?} ends with {code}"), done.status.code() == Some(code));
        Ok(text)
    };
    call(0, &["put", "John", "Urbana"])?;
    call(0, &["register", "default", "Row.Update"])?;
    let listed = call(0, &["registrations"])?;
    call(0, &["put", "John", "Chicago"])?;
    call(0, &["put", "John", "Springfield"])?;
    let events = call(0, &["--json", "log", "default.John"])?;
    let latest = call(0, &["--json", "log", "default.John", "Row.Update", "--latest"])?;
    let of_nobody = call(0, &["--json", "log", "default.John", "--client", "nobody"])?;
    let why = call(0, &["provenance", "John"])?;
    let explained = call(0, &["explain", "John"])?;
    call(0, &["unregister", "default", "Row.Update"])?;
    call(0, &["put", "John", "Boston"])?;
    let after = call(0, &["--json", "log", "default.John"])?;
    call(1, &["register", "default", "Row.Upsert"])?;
    call(1, &["register", "sst:zz", "Row.Update"])?;
    let lines = |text: &str| text.lines().filter(|line| line.starts_with('{')).count();
    checks.is("registrations", listed.contains("Row.Update"));
    checks.is("log", lines(&events) == 2);
    checks.is("log --latest", lines(&latest) == 1);
    checks.is("log --client", lines(&of_nobody) == 0);
    checks.is("provenance", why.contains("Row.Update"));
    checks.is("explain", explained.contains("Row.Update"));
    checks.is("nothing after unregister", lines(&after) == 2);
    Ok(())
}
