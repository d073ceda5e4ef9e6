//! Which events of the engine's own work are kept: the newest, those of live tables and of open quarantines, and every
//! event of a user.

use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::error::{Result, Verdict};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::options::Verify;
use waxseal_registry::families::LOG;
use waxseal_registry::{Event, Field, Mode, Operation, Paging, Payload, Query, Target, Values};

use crate::store::{Config, DEFERRED, SYNC, Store, is_engines};

/// So many events are kept.
const NEWEST: usize = 100;
/// What may be there beyond them: lines are taken out, and rows swept, for so many at least.
const SLACK: usize = 2 * 64;
const BY_NUMBER: Config = Config { kept: (NEWEST, Duration::MAX), ..DEFERRED };
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn all() {
    bounded();
    aged();
    quarantined();
    of_users();
    by_number_and_age_not_at_all();
}

/// Everything in the log, by row or line, that tells of the engine's work.
fn of_engine(store: &Store) -> Vec<Event> {
    let all = Query { below: true, ..Query::of(Target::Cluster) };
    let events = store.registrar.log_query(&all, &Paging::ALL, At::Latest, None).unwrap().events;
    events.into_iter().filter(is_engines).collect()
}

/// Rows of the log family, and records of its tables.
fn rows(store: &Store) -> (usize, u64) {
    let log = store.family(LOG);
    let mut cursor = store.db.cursor_checked(&log, At::Latest, (Unbounded, Unbounded), Verify::Always).unwrap();
    let mut rows = 0;
    cursor.first().unwrap();
    while cursor.valid() {
        rows += 1;
        cursor.next().unwrap();
    }
    let records = store.db.tables(&log).unwrap().iter().map(|table| table.meta().ledger.count()).sum();
    (rows, records)
}

/// The same few keys over and over: each round makes a table, and most rounds a merge.
fn churn(store: &mut Store, rounds: usize) -> Result<()> {
    for round in 0..rounds {
        for n in 0..6u8 {
            store.put("default", &[n], &[round as u8; 30])?;
        }
        store.db.flush()?;
        while store.db.step()? {}
        store.alive()?;
    }
    Ok(())
}

/// The uids of all tables.
fn live(store: &Store) -> BTreeSet<[u8; 16]> {
    let families = store.db.families();
    families.iter().flat_map(|family| store.db.tables(family).unwrap()).map(|table| table.meta().uid.0).collect()
}

/// True for what tells how a live table was written.
fn is_needed(live: &BTreeSet<[u8; 16]>, event: &Event) -> bool {
    let is_own = !matches!(&event.key.target, Target::TableFile(uid) if !live.contains(&uid.0));
    let wrote = |field: &Field| matches!(field, Field::Output(file) if live.contains(&file.uid.0));
    is_own && event.payload.fields().iter().any(wrote)
}

/// Tables of all families, of which each must have the events of how it came to be.
fn check_lineages(store: &Store, context: &str) -> usize {
    let mut tables = 0;
    for family in store.db.families() {
        for table in store.db.tables(&family).unwrap() {
            let uid = table.meta().uid;
            let lineage = store.registrar.lineage(uid, None).unwrap();
            let wrote = |event: &Event| {
                let is_it = |field: &Field| matches!(field, Field::Output(file) if file.uid == uid);
                event.payload.fields().iter().any(is_it)
            };
            let steps = lineage.steps.iter().filter(|step| step.back == 0 && wrote(&step.event)).count();
            assert!(steps > 0, "{context}: nothing tells how {uid:?} of {} came to be", family.name());
            tables += 1;
        }
    }
    tables
}

fn bounded() {
    let mut store = Store::new(BY_NUMBER, &SimFs::new(41)).unwrap();
    store.register(Target::family("default"), Some(Operation::ROW_UPDATE), Values::New).unwrap();
    for part in 0..6 {
        churn(&mut store, 50).unwrap();
        let tables = check_lineages(&store, "churned");
        let events = of_engine(&store).len();
        // Each table is written once, and moves through a few levels.
        assert!(events <= NEWEST + SLACK + 4 * tables, "{events} events, {tables} tables, part {part}");
        assert!(events >= NEWEST, "{events} events are fewer than are kept");
        store.check_now();
        if part % 2 == 1 {
            store.restart().unwrap();
        }
    }
    // Users' rows, deleted here, are no longer in the way.
    store.delete(&Query { below: true, ..Query::of(Target::family("default")) }).unwrap();
    store.db.settle().unwrap();
    store.db.compact(&store.family(LOG), &(Unbounded, Unbounded)).unwrap();
    let (rows, records) = rows(&store);
    assert!(rows <= NEWEST + SLACK + 100, "{rows} rows");
    assert_eq!(records, rows as u64, "tombstones and what they hide are gone from the tables");
    assert!(store.db.engine_log().last().unwrap().0 > 400, "too little happened");
}

/// Beyond the age events go with the next flush; what a live table needs stays.
fn aged() {
    let mut store = Store::new(Config { kept: (usize::MAX, HOUR), ..DEFERRED }, &SimFs::new(42)).unwrap();
    store.put("kept", b"k", b"cold").unwrap();
    churn(&mut store, 60).unwrap();
    let before = of_engine(&store);
    churn(&mut store, 1).unwrap();
    assert!(of_engine(&store).len() > before.len() && before.len() > 2 * SLACK, "nothing was due");
    let old = store.wall.0.load(SeqCst);
    store.wall.0.fetch_add(2 * HOUR.as_micros() as u64, SeqCst);
    for again in 0..2 {
        churn(&mut store, 2).unwrap();
        check_lineages(&store, "aged");
        let live = live(&store);
        let (needed, stale): (Vec<_>, Vec<_>) = of_engine(&store)
            .into_iter()
            .filter(|event| event.key.time.micros() <= old)
            .partition(|event| is_needed(&live, event));
        // Tables that died since the last sweep leave some.
        let (stale, needed) = (stale.len(), needed.len());
        assert!(stale <= SLACK / 2 && needed > 0, "{stale} of {} events outlived their age", before.len());
        if again == 0 {
            store.restart().unwrap();
        }
    }
    let kept = store.db.tables(&store.family("kept")).unwrap();
    let event = store.registrar.query_latest(&Target::TableFile(kept[0].meta().uid), None, None).unwrap();
    assert!(event.is_some_and(|event| event.key.time.micros() <= old), "the cold table's own event");
}

/// What tells of a bar or a fence stays while it is there.
fn quarantined() {
    let mut store = Store::new(BY_NUMBER, &SimFs::new(43)).unwrap();
    store.put("kept", b"k", b"cold").unwrap();
    store.db.flush().unwrap();
    let kept = store.family("kept");
    let table = store.db.tables(&kept).unwrap()[0].meta().clone();
    store.db.quarantine_tables(&kept, &[table.number]).unwrap();
    store.db.add_lost_ranges(&kept, vec![LostRange::over(b"x", b"y", 3, "000001.tbl", Verdict::Seal)]).unwrap();
    let told = |store: &Store| {
        let of = |operation: Operation, target: Target| {
            store.registrar.query_all(&target, Some(operation), None).unwrap().len()
        };
        let integrity = || Target::Engine("integrity".to_owned());
        [
            of(Operation::ENGINE_QUARANTINE, Target::TableFile(table.uid)),
            of(Operation::ENGINE_QUARANTINE, integrity()),
            of(Operation::ENGINE_FENCE, integrity()),
        ]
    };
    assert_eq!(told(&store), [1, 1, 1]);
    churn(&mut store, 80).unwrap();
    store.restart().unwrap();
    churn(&mut store, 80).unwrap();
    assert_eq!(told(&store), [1, 1, 1], "they are open");
    let first = of_engine(&store).iter().map(|event| event.key.seqno).filter(|number| *number > 4).min();
    assert!(first > Some(50), "what is newer went: {first:?}");
    let kept = store.family("kept");
    store.db.free_tables(&kept, &[table.number]).unwrap();
    let lost_ranges: Vec<u64> = store.db.lost_ranges(&kept).iter().map(|(number, _)| *number).collect();
    store.db.lift_lost_ranges(&kept, &lost_ranges).unwrap();
    churn(&mut store, 160).unwrap();
    assert_eq!(told(&store), [0, 0, 0], "they have ended");
}

/// What a user added to a target of the engine, and the events of registrations, are not the engine's.
fn of_users() {
    for mode in [Mode::Sync, Mode::Deferred] {
        let mut store = Store::new(Config { mode, ..BY_NUMBER }, &SimFs::new(44)).unwrap();
        store.register(Target::family("default"), Some(Operation::ROW_UPDATE), Values::New).unwrap();
        let part = Target::Engine("flush".to_owned());
        store.put("kept", b"k", b"cold").unwrap();
        store.db.flush().unwrap();
        let file = Target::TableFile(store.db.tables(&store.family("kept")).unwrap()[0].meta().uid);
        for (target, operation) in [(&part, Operation::ENGINE_FLUSH), (&file, Operation::ENGINE_COMPACT)] {
            store.registrar.register(target, None, None, None).unwrap();
            for n in 0..3 {
                store.registrar.log_add(target, operation, None, Payload::text(format!("{n}")), None).unwrap();
            }
        }
        let said = |store: &Store| {
            let mut said = 0;
            for event in of_engine(store) {
                said += event.payload.fields().iter().filter(|field| matches!(field, Field::Text(_))).count();
            }
            said
        };
        assert_eq!(said(&store), 6);
        churn(&mut store, 80).unwrap();
        store.restart().unwrap();
        store.db.compact(&store.family(LOG), &(Unbounded, Unbounded)).unwrap();
        churn(&mut store, 120).unwrap();
        assert_eq!(said(&store), 6, "{mode:?}: events of a user went");
        assert!(of_engine(&store).iter().map(|event| event.key.seqno).filter(|number| *number > 20).min() > Some(50));
        store.check_now();
    }
}

/// Nothing is kept for its number: live tables and open quarantines alone. Nothing goes where there is no bound.
fn by_number_and_age_not_at_all() {
    let mut store = Store::new(Config { kept: (0, Duration::ZERO), ..SYNC }, &SimFs::new(45)).unwrap();
    churn(&mut store, 150).unwrap();
    let tables = check_lineages(&store, "none are kept");
    let events = of_engine(&store).len();
    assert!(events <= SLACK + 4 * tables, "{events} events, {tables} tables");
    let mut store = Store::new(SYNC, &SimFs::new(46)).unwrap();
    churn(&mut store, 150).unwrap();
    let mut numbers: Vec<u64> = of_engine(&store).iter().map(|event| event.key.seqno).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let last = store.db.engine_log().last().unwrap().0;
    assert!(numbers.into_iter().eq(1..=last), "all of them");
}

/// A crash at every step, or every so many, of flushes that expire events.
pub(crate) fn crashes(every: usize) {
    let config = Config { kept: (8, Duration::MAX), ..BY_NUMBER };
    let scenario = |store: &mut Store| -> Result<()> {
        store.register(Target::family("default"), Some(Operation::ROW_UPDATE), Values::New)?;
        store.put("kept", b"k", b"cold")?;
        churn(store, 40)
    };
    let sim = SimFs::new(47);
    let mut whole = Store::new(config, &sim).unwrap();
    scenario(&mut whole).unwrap();
    let oracle = whole.oracle.clone();
    let steps = sim.changing_steps();
    let quarter = steps.len() * 3 / 4; // from here on lines leave, and rows go
    for (at, step) in steps.into_iter().enumerate().skip(quarter).filter(|(at, _)| at % every == 0) {
        let losses = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
        let sim = SimFs::new(47);
        sim.crash_at(step);
        if let Ok(mut store) = Store::new(config, &sim) {
            let _ = scenario(&mut store);
        }
        sim.reboot(losses[at / every % losses.len()]);
        let mut store = Store::new_or_old(config, &sim).unwrap();
        let context = format!("stopped at step {step}");
        check_lineages(&store, &context);
        store.oracle = oracle.clone();
        store.oracle.registered = store.registrar.registrations();
        store.check_now();
        store.db.settle().unwrap();
        check_lineages(&store, &context);
        let lines = store.db.engine_log().len();
        assert!(lines <= 100, "{context}: {lines} lines");
    }
}
