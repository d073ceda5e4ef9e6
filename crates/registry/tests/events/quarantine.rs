//! What is barred or fenced stands in a family that can be read, at once and after every crash; and whose rows were
//! lost is unknown, never somebody else.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use waxseal_lsm::db::{At, Replacement};
use waxseal_lsm::env::sim::{Crash, Fault, Loss, SimFs};
use waxseal_lsm::error::{Result, Verdict};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_registry::quarantine::Item;
use waxseal_registry::{Case, Field, Operation, Payload, Query, Scope, StampVerb, Target, Values};

use crate::store::{Config, DEFERRED, DIR, Store, Write, open_without_engine_log};

const SESSIONS: &str = "system_metadata.sessions";
const QUARANTINE: &str = "system_metadata.quarantine";
const SCHEMA: &str = "system_metadata.schema";
const REGISTRY: &str = "system_metadata.registry";

pub(crate) fn all() {
    told();
    made_up();
    no_room();
    crashes();
    an_unknown_session();
    a_session_behind_a_fence();
    a_session_given_up();
    a_session_given_up_and_what_told_of_it();
    lost_registrations();
    lost_operations();
    closed_cases_leave();
}

/// Nothing in the place of tables, and fences.
fn nothing(fenced: Vec<LostRange>) -> Replacement<'static> {
    let expected = Ledger::default();
    Replacement { records: None, expected, summed: true, base_seqno: 0, fenced, lifted: Vec::new() }
}

fn lost_range(low: &[u8], high: &[u8]) -> LostRange {
    LostRange::over(low, high, 9, "000001.tbl", Verdict::Seal)
}

/// What is in quarantine by the manifest: family, item.
fn held(store: &Store) -> Vec<(String, Item)> {
    let mut held = Vec::new();
    for family in store.db.families() {
        let tables = store.db.quarantined_tables(&family).into_iter().map(Item::Table);
        let lost_ranges = store.db.lost_ranges(&family).into_iter().map(|(number, _)| Item::Span(number));
        held.extend(tables.chain(lost_ranges).map(|item| (family.name().to_owned(), item)));
    }
    held.sort();
    held
}

/// The cases of the family, of which those that are open are what the manifest says.
fn cases(store: &Store, context: &str) -> Vec<Case> {
    let cases = store.registrar.quarantined().unwrap();
    let open = cases.iter().filter(|case| case.until.is_none());
    let mut open: Vec<_> = open.map(|case| (case.family.clone(), case.item)).collect();
    open.sort();
    assert_eq!(open, held(store), "{context}");
    cases
}

fn ends(cases: &[Case]) -> Vec<&str> {
    cases.iter().map(|case| case.until.as_ref().map_or("", |(_, how)| how)).collect()
}

fn table(store: &Store, family: &str) -> u64 {
    store.db.tables(&store.family(family)).unwrap()[0].meta().number
}

/// Bars, fences and their ends, each way there is.
fn told() {
    let mut store = Store::new(DEFERRED, &SimFs::new(31)).unwrap();
    for name in ["default", "kept"] {
        for n in 0..9u8 {
            store.put(name, &[n], b"value").unwrap();
        }
    }
    store.db.flush().unwrap();
    let (family, kept) = (store.family("default"), store.family("kept"));
    let number = table(&store, "default");
    assert_eq!(cases(&store, "nothing"), []);
    store.db.free_tables(&family, &[number]).unwrap(); // it was never barred
    store.db.quarantine_tables(&family, &[number]).unwrap();
    store.db.quarantine_tables(&family, &[number]).unwrap();
    assert_eq!(ends(&cases(&store, "barred")), [""]);
    store.db.free_tables(&family, &[number]).unwrap();
    store.db.quarantine_tables(&family, &[number]).unwrap();
    store.db.add_lost_ranges(&family, vec![lost_range(b"x", b"y"), lost_range(b"x", b"y")]).unwrap();
    assert_eq!(ends(&cases(&store, "fenced")), ["freed", "", "", ""]);
    let lost_ranges: Vec<u64> = store.db.lost_ranges(&family).iter().map(|(number, _)| *number).collect();
    store.db.replace_lost_ranges(&family, &lost_ranges[..1], vec![lost_range(b"z", b"z")]).unwrap();
    store.db.quarantine_tables(&kept, &[table(&store, "kept")]).unwrap();
    store.db.add_lost_ranges(&kept, vec![lost_range(b"", b"\xFF")]).unwrap();
    let found = cases(&store, "lifted");
    assert_eq!(ends(&found), ["freed", "", "lifted", "", "", "", ""]);
    let said: Vec<_> = found[3].payload.fields().iter().filter(|field| !matches!(field, Field::Setting(_))).collect();
    assert_eq!(
        said,
        [
            &Field::SeqnoBound(9),
            &Field::RangeStart(b"x".to_vec()),
            &Field::RangeEnd(b"y".to_vec()),
            &Field::Verdict("seal".to_owned()),
            &Field::Method("fenced".to_owned())
        ]
    );
    let held = store.db.hold_tables(&family, &[number]).unwrap().unwrap();
    held.replace(nothing(vec![lost_range(&[0], &[9])])).unwrap();
    store.registrar.drop_family("kept", None).unwrap();
    let found = cases(&store, "replaced and dropped");
    assert_eq!(ends(&found), ["freed", "replaced", "lifted", "", "", "", "dropped", "dropped"]);
    store.db.settle().unwrap();
    store.restart().unwrap();
    assert_eq!(cases(&store, "opened again"), found);
    store.sim.reboot(Crash::Process);
    store.reopen().unwrap();
    assert_eq!(cases(&store, "after a crash"), found);
}

/// What happened while nobody kept rows is made up, once.
fn made_up() {
    let mut store = Store::new(DEFERRED, &SimFs::new(32)).unwrap();
    store.put("default", b"k", b"value").unwrap();
    store.db.flush().unwrap();
    store.db.add_lost_ranges(&store.family("default"), vec![lost_range(b"x", b"y")]).unwrap();
    store.registrar.close().unwrap();
    store.db.close().unwrap();
    let beside = open_without_engine_log(&store.sim).unwrap();
    let family = beside.family("default").unwrap();
    let (lost_ranges, table) = (beside.lost_ranges(&family), beside.tables(&family).unwrap()[0].meta().number);
    beside.lift_lost_ranges(&family, &[lost_ranges[0].0]).unwrap();
    beside.quarantine_tables(&family, &[table]).unwrap();
    beside.close().unwrap();
    store.reopen().unwrap();
    let found = cases(&store, "made up");
    assert_eq!(ends(&found), ["", "gone"]);
    store.restart().unwrap();
    assert_eq!(cases(&store, "again"), found);
}

/// A bar does not wait for room for its row.
fn no_room() {
    let mut store = Store::new(DEFERRED, &SimFs::new(33)).unwrap();
    store.put("default", b"k", b"value").unwrap();
    store.db.flush().unwrap();
    let (family, number) = (store.family("default"), table(&store, "default"));
    store.sim.fail_at(store.sim.steps() + 1, Fault::Error(std::io::ErrorKind::StorageFull));
    store.db.quarantine_tables(&family, &[number]).unwrap();
    assert!(store.sim.clear_faults(), "nothing failed");
    assert_eq!(
        (store.db.quarantined_tables(&family), store.registrar.quarantined().unwrap()),
        (vec![number], Vec::new())
    );
    store.restart().unwrap();
    assert_eq!(ends(&cases(&store, "with room")), [""]);
}

/// After a crash at any step the rows are those of what the manifest says.
fn crashes() {
    let scenario = |store: &mut Store| -> Result<()> {
        store.put("default", b"k", b"value")?;
        store.put("kept", b"k", b"value")?;
        store.db.flush()?;
        let (family, kept) = (store.family("default"), store.family("kept"));
        let number = store.db.tables(&family)?[0].meta().number;
        store.db.quarantine_tables(&family, &[number])?;
        store.db.add_lost_ranges(&kept, vec![lost_range(b"a", b"b")])?;
        store.db.add_lost_ranges(&family, vec![lost_range(b"a", b"b")])?;
        store.db.free_tables(&family, &[number])?;
        let lost_ranges: Vec<u64> = store.db.lost_ranges(&family).iter().map(|(number, _)| *number).collect();
        store.db.lift_lost_ranges(&family, &lost_ranges)?;
        store.registrar.drop_family("kept", None)
    };
    let sim = SimFs::new(34);
    let mut whole = Store::new(DEFERRED, &sim).unwrap();
    let before = sim.steps();
    scenario(&mut whole).unwrap();
    let steps: Vec<u64> = sim.changing_steps().into_iter().filter(|step| *step > before).collect();
    drop(whole);
    for (at, step) in steps.into_iter().enumerate() {
        let sim = SimFs::new(34);
        sim.crash_at(step);
        if let Ok(mut store) = Store::new(DEFERRED, &sim) {
            let _ = scenario(&mut store);
        }
        let losses = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
        sim.reboot(losses[at % 3]);
        let mut store = Store::new_or_old(DEFERRED, &sim).unwrap();
        let found = cases(&store, &format!("stopped at step {step}"));
        assert!(ends(&found).iter().all(|how| *how != "gone"), "step {step}: a row of what never was");
        assert!(found.iter().all(|case| !case.payload.fields().contains(&Field::Method("found".to_owned()))));
        store.restart().unwrap();
        assert_eq!(cases(&store, &format!("stopped at step {step}, again")), found);
    }
}

/// The clients of the events of a key.
fn clients(store: &Store) -> Vec<String> {
    let query = Query::of(Target::key("default", *b"k"));
    store.find(&query, At::Latest).unwrap().into_iter().map(|event| event.key.client).collect()
}

fn watched(seed: u64) -> Store {
    let mut store = Store::new(DEFERRED, &SimFs::new(seed)).unwrap();
    store.register(Target::family("default"), Some(Operation::ROW_UPDATE), Values::New).unwrap();
    store.put("default", b"k", b"first").unwrap();
    store.db.flush().unwrap();
    store.put("default", b"k", b"second").unwrap();
    store
}

/// A row that cannot be read names nobody, stops nothing, and its number is not given to anybody else.
fn an_unknown_session() {
    let mut store = watched(35);
    let number = table(&store, SESSIONS);
    store.sim.reboot(Crash::Process);
    let path = Path::new(DIR).join(format!("{number:06}.tbl"));
    let mut bytes = store.sim.read_all(&path).unwrap();
    let end = bytes.len().min(200);
    bytes[..end].iter_mut().for_each(|byte| *byte ^= 0x5A);
    store.sim.write_all(&path, &bytes).unwrap();
    store.reopen().unwrap();
    // The row of the first event names her; whose the other one is cannot be known.
    assert_eq!(clients(&store), ["alice", "unknown session 1"]);
    let write = |store: &mut Store, client| {
        let (key, value) = (b"k".to_vec(), Some(b"third".to_vec()));
        store.write(&[Write { family: "default", key, value, verb: StampVerb::Update }], client).unwrap();
    };
    write(&mut store, 2);
    write(&mut store, 1);
    let expected = ["alice", "unknown session 1", "bob", "alice"];
    assert_eq!(clients(&store), expected);
    store.db.flush().unwrap();
    assert_eq!(clients(&store), expected);
    store.restart().unwrap();
    assert_eq!(clients(&store), expected);
}

/// A table of the registry is lost, of one row and of several: no write to any family is refused, and what may have
/// been watched is logged.
fn lost_registrations() {
    for targets in [&["default"][..], &["default", "kept"]] {
        let mut store = Store::new(DEFERRED, &SimFs::new(39)).unwrap();
        for target in targets {
            store.register(Target::family(*target), Some(Operation::ROW_UPDATE), Values::New).unwrap();
        }
        store.put("default", b"k", b"first").unwrap();
        store.db.flush().unwrap();
        let (family, number) = (store.family(REGISTRY), table(&store, REGISTRY));
        let meta = store.db.tables(&family).unwrap()[0].meta().clone();
        let lost =
            vec![LostRange::over(&meta.smallest, &meta.largest, meta.greatest_seqno, "000001.tbl", Verdict::Missing)];
        let held = store.db.hold_tables(&family, &[number]).unwrap().unwrap();
        held.replace(nothing(lost)).unwrap();
        store.restart().unwrap();
        store.put("default", b"k", b"second").unwrap();
        store.put("kept", b"k", b"value").unwrap();
        assert_eq!(clients(&store).len(), 2, "{targets:?}");
        store.restart().unwrap();
        // Registered anew the pair is known again, whatever was lost below it.
        let options = store.options(Scope::Subtree, Values::New);
        let target = Target::family("default");
        store.registrar.register(&target, Some(Operation::ROW_UPDATE), Some(options), None).unwrap();
        store.restart().unwrap();
        store.put("default", b"k", b"third").unwrap();
        assert_eq!(clients(&store).len(), 3, "{targets:?}");
    }
}

/// The row that names an operation of the embedder's own is lost: behind a fence, in a damaged file, or with its file.
/// The store opens, no write is refused, events of the operation are found, and the name defined again means the
/// operation that it meant.
fn lost_operations() {
    for how in ["fenced", "damaged", "gone"] {
        let mut store = Store::new(DEFERRED, &SimFs::new(41)).unwrap();
        let load = store.registrar.define("etl.load", None).unwrap();
        store.register(Target::family("default"), Some(load), Values::New).unwrap();
        store.add(Target::family("default"), load, "first").unwrap();
        store.db.flush().unwrap();
        let (family, number) = (store.family(SCHEMA), table(&store, SCHEMA));
        let path = Path::new(DIR).join(format!("{number:06}.tbl"));
        if how == "fenced" {
            let meta = store.db.tables(&family).unwrap()[0].meta().clone();
            let bound = meta.greatest_seqno;
            let lost_range = LostRange::over(&meta.smallest, &meta.largest, bound, "000001.tbl", Verdict::Missing);
            store.db.hold_tables(&family, &[number]).unwrap().unwrap().replace(nothing(vec![lost_range])).unwrap();
        }
        drop(family);
        store.sim.reboot(Crash::Process);
        match how {
            "damaged" => {
                let bytes: Vec<u8> = store.sim.read_all(&path).unwrap().iter().map(|byte| byte ^ 0x5A).collect();
                store.sim.write_all(&path, &bytes).unwrap();
            }
            "gone" => store.sim.delete(&path).unwrap(),
            _ => {}
        }
        store.reopen().unwrap_or_else(|error| panic!("{how}: {error}"));
        for family in ["default", "kept"] {
            store.put(family, b"k", b"value").unwrap();
        }
        store.db.flush().unwrap();
        let found = |store: &Store| {
            let events = store.find(&Query::of(Target::family("default")), At::Latest).unwrap();
            events.iter().filter(|event| event.key.operation == load).count()
        };
        assert_eq!(found(&store), 1, "{how}");
        let error = store.registrar.operation("etl.load").unwrap_err().to_string();
        assert!(error.contains("define it again"), "{how}: {error}");
        let error = store.registrar.operation("etl.extract").unwrap_err().to_string();
        assert!(error.contains("define it again"), "{how}: nobody knows which names were lost: {error}");
        assert_eq!(store.registrar.define("etl.load", None).unwrap(), load, "{how}");
        store.add(Target::family("default"), load, "second").unwrap();
        store.restart().unwrap();
        let again = store.registrar.operation("etl.load").unwrap_or_else(|error| panic!("{how}: {error}"));
        assert_eq!(again, load, "{how}");
        assert_eq!(found(&store), 2, "{how}");
    }
}

/// A row that is lost for good, as somebody said it might be, before anybody else got a number.
fn a_session_given_up() {
    let mut store = watched(37);
    let (sessions, number) = (store.family(SESSIONS), table(&store, SESSIONS));
    let held = store.db.hold_tables(&sessions, &[number]).unwrap().unwrap();
    held.replace(nothing(Vec::new())).unwrap();
    store.restart().unwrap();
    store.put("default", b"k", b"third").unwrap();
    assert!(store.session(1).unwrap().unwrap().id() > 1);
    assert_eq!(clients(&store), ["alice", "unknown session 1", "alice"]);
}

/// A row that is lost for good, and with it what told of that. Its number stands beside records of tables, which nobody
/// reads at the open.
fn a_session_given_up_and_what_told_of_it() {
    let mut store = watched(38);
    store.db.flush().unwrap();
    for name in [SESSIONS, QUARANTINE] {
        let family = store.family(name);
        let tables: Vec<u64> = store.db.tables(&family).unwrap().iter().map(|table| table.meta().number).collect();
        assert!(!tables.is_empty(), "{name} has no table to lose");
        store.db.hold_tables(&family, &tables).unwrap().unwrap().replace(nothing(Vec::new())).unwrap();
    }
    store.restart().unwrap();
    let cases = store.registrar.quarantined().unwrap();
    assert!(cases.iter().all(|case| case.family == QUARANTINE), "the loss of the session is not told any more");
    let (key, value) = (b"other".to_vec(), Some(b"value".to_vec()));
    store.write(&[Write { family: "default", key, value, verb: StampVerb::Update }], 2).unwrap();
    assert!(store.session(2).unwrap().unwrap().id() > 1, "he has the number of somebody else");
    assert_eq!(clients(&store), ["alice", "alice"]);
}

/// A row that a fence hides, and that is gone when the fence is lifted.
fn a_session_behind_a_fence() {
    let mut store = watched(36);
    let (sessions, number) = (store.family(SESSIONS), table(&store, SESSIONS));
    let held = store.db.hold_tables(&sessions, &[number]).unwrap().unwrap();
    held.replace(nothing(vec![lost_range(&[4], &[5])])).unwrap();
    store.sim.reboot(Crash::Process);
    store.reopen().unwrap();
    assert_eq!(clients(&store), ["alice", "unknown session 1"]);
    let lost_ranges: Vec<u64> =
        store.db.lost_ranges(&store.family(SESSIONS)).iter().map(|(number, _)| *number).collect();
    store.db.lift_lost_ranges(&store.family(SESSIONS), &lost_ranges).unwrap();
    store.restart().unwrap();
    store.put("default", b"k", b"third").unwrap();
    store.db.flush().unwrap();
    assert_eq!(clients(&store), ["alice", "unknown session 1", "alice"]);
    assert!(store.session(1).unwrap().unwrap().id() > 1);
}

/// Cases that ended have the retention of the engine's events: they leave at the next open, and after a repair. Open
/// ones stay, and so does the newest one of each family that says which sessions may be unknown.
fn closed_cases_leave() {
    const HOUR: Duration = Duration::from_secs(3600);
    let by_number = Config { kept: (3, Duration::MAX), ..DEFERRED };
    let by_age = Config { kept: (usize::MAX, HOUR), ..DEFERRED };
    for (config, by_repair) in [(by_number, false), (by_number, true), (by_age, false), (by_age, true)] {
        let mut store = Store::new(config, &SimFs::new(43)).unwrap();
        let end_one = |store: &Store, name: &str| {
            let family = store.family(name);
            store.db.add_lost_ranges(&family, vec![lost_range(b"x", b"y")]).unwrap();
            let (number, _) = *store.db.lost_ranges(&family).last().unwrap();
            store.db.lift_lost_ranges(&family, &[number]).unwrap();
        };
        store.db.add_lost_ranges(&store.family("kept"), vec![lost_range(b"a", b"b")]).unwrap();
        end_one(&store, SESSIONS);
        end_one(&store, SESSIONS);
        for _ in 0..10 {
            end_one(&store, "default");
        }
        store.wall.0.fetch_add(2 * HOUR.as_micros() as u64, SeqCst);
        for _ in 0..2 {
            end_one(&store, "default");
        }
        assert_eq!(cases(&store, "before").len(), 1 + 2 + 12);
        let trim = |store: &mut Store| match by_repair {
            true => store.registrar.note(Operation::ENGINE_REPAIR, Payload::new()).unwrap(),
            false => store.restart().unwrap(),
        };
        trim(&mut store);
        let (left, found) = (if config.kept.0 == 3 { 3 } else { 2 }, cases(&store, "trimmed"));
        let of = |name: &str| found.iter().filter(|case| case.family == name).collect::<Vec<_>>();
        assert_eq!((of("default").len(), of("kept").len(), of(SESSIONS).len()), (left, 1, 1), "{found:?}");
        assert!(of("kept")[0].until.is_none(), "an open case");
        let newest = of("default").iter().map(|case| case.since).min().unwrap();
        assert!(of(SESSIONS)[0].since < newest, "an old one that is needed");
        trim(&mut store);
        assert_eq!(cases(&store, "again"), found);
        store.sim.reboot(Crash::Machine(Loss::DurableOnly));
        store.reopen().unwrap();
        assert_eq!(cases(&store, "after a crash").len(), found.len());
    }
}
