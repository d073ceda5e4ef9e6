//! Question: does the event log account for the origin of every table file?
//! Protocol: a small store on a simulated disk: writes, deletes, flushes, compactions, ingested records, a table
//!           damaged and repaired, a family dropped, the store reopened with a log to recover. The engine's events, in
//!           sequence, remove their inputs from a set of files and add their outputs.
//! Passes:   the remaining set equals the live files, with their digests and record counts; no event reads a missing
//!           file or writes a file twice; every file's lineage leads back to flushes, ingestions and recoveries, and
//!           includes all events that wrote its content. All this holds after every single job. (Offline changes of a
//!           row need the tamper-evident log, which does not exist yet.)

use super::Run;
use super::store::Store;
use crate::node::{ALL, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lsm::checksum::Uid;
use waxseal_lsm::cursor::ListCursor;
use waxseal_lsm::db::{At, Family};
use waxseal_lsm::env::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::record::{Kind, OwnedRecord};
use waxseal_lsm::seam::Protection;
use waxseal_meta::integrity::{RepairOptions, repair};
use waxseal_registry::payload::FileRef;
use waxseal_registry::{Event, Field, Mode, Operation, Paging, Query, Setup, Target};

/// Number of jobs at scale 1.
const WORKS: u64 = 4_000;

/// Number of jobs per store.
const EACH: u64 = 50;

const DIR: &str = "/store";
const DROPPED: &str = "dropped";

/// The findings.
#[derive(Debug, Default)]
struct Found {
    works: u64,
    files: u64,
    lineages: u64,
    /// Live files without events, and files by the events that are not live.
    unaccounted: u64,
    /// Files whose digests or counts differ.
    differ: u64,
    /// Events that read a missing file, or write an existing one.
    impossible: u64,
    /// Files whose lineage lacks their writing event, or ends in an event that is no origin.
    rootless: u64,
    ended: BTreeMap<String, u64>,
}

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let stores = (run.size(WORKS, EACH) / EACH).max(1);
    let mut found = Found::default();
    for number in 0..stores {
        if number > 0 && run.is_over() {
            break;
        }
        one(run.seed.wrapping_add(number), &mut found)?;
    }
    println!(
        "{} pieces of work, {} files looked at, {} lineages; events: {:?}",
        found.works, found.files, found.lineages, found.ended
    );
    let kinds = ["Engine.Flush", "Engine.Compact", "Engine.Ingest", "Engine.Repair", "Engine.Recover", "Table.Drop"];
    let absent = kinds.iter().filter(|kind| !found.ended.contains_key(**kind)).count() as u64;
    let works = found.works;
    Ok(vec![
        run.none("unaccounted", "files", found.unaccounted, works, works),
        run.none("differ", "digests_or_counts", found.differ, works, works),
        run.none("impossible", "events", found.impossible, works, works),
        run.none("rootless", "files", found.rootless, works, works),
        run.none("unseen", "kinds_of_work", absent, works, works),
    ])
}

fn open(sim: &SimFs, seed: u64) -> Result<Store> {
    let shape = Shape::small(sim.env(seed));
    Store::try_open(Path::new(DIR), &shape, Setup::new(&shape.env))
}

fn one(seed: u64, found: &mut Found) -> Outcome<()> {
    let sim = SimFs::new(seed);
    let mut random = Random::new(seed);
    let mut store = open(&sim, seed)?;
    store.watch_all(Mode::Deferred)?;
    for work in 0..EACH {
        write(&store, &mut random)?;
        match work % 10 {
            1 | 6 => store.db.flush()?,
            2 => store.db.settle()?,
            3 => ingest(&store, &mut random)?,
            4 => damage_and_repair(&sim, &store, &mut random)?,
            5 => store.db.compact(&store.family, &ALL)?,
            7 => drop_a_family(&store)?,
            8 => {
                // Dropped without a close, so that there is a log to recover.
                drop(store);
                store = open(&sim, seed.wrapping_add(work))?;
            }
            _ => {
                store.db.step()?;
            }
        }
        look(&store, found)?;
    }
    for event in of_the_engine(&store)? {
        *found.ended.entry(format!("{:?}", event.key.operation)).or_default() += 1;
    }
    Ok(store.close()?)
}

fn write(store: &Store, random: &mut Random) -> Result<()> {
    let mut writer = store.writer();
    for _ in 0..40 {
        let key = format!("key{:04}", random.below(300));
        if random.below(5) == 0 {
            writer.write(Kind::Delete, key.as_bytes(), b"", &[], Durability::Os)?;
        } else {
            writer.put(key.as_bytes(), format!("{:032x}", random.word()).as_bytes())?;
        }
    }
    Ok(())
}

fn ingest(store: &Store, random: &mut Random) -> Result<()> {
    let start = random.below(10_000);
    let records: Vec<OwnedRecord> = (start..start + 20)
        .map(|number| OwnedRecord {
            key: format!("new{number:06}").into_bytes(),
            seqno: 0,
            kind: Kind::Put,
            value: number.to_le_bytes().to_vec(),
            companion: Vec::new(),
        })
        .collect();
    let order = store.family.order().clone();
    store.db.ingest(&store.family, &mut || {
        Ok(Box::new(ListCursor::new(order.clone(), records.clone(), Protection::None)))
    })?;
    Ok(())
}

/// Flips one bit of one table file; a repair replaces the file.
fn damage_and_repair(sim: &SimFs, store: &Store, random: &mut Random) -> Outcome<()> {
    let tables = store.db.tables(&store.family)?;
    let Some(table) = tables.get(random.below(tables.len().max(1) as u64) as usize) else { return Ok(()) };
    // A bit in the first block, behind the header: its records and their seals.
    let bit = 8 * (64 + random.below(64)) + random.below(8);
    sim.flip(Path::new(DIR).join(table.name()), bit)?;
    repair(&store.db, RepairOptions { accept_loss: true, ..RepairOptions::default() })?;
    Ok(())
}

fn drop_a_family(store: &Store) -> Result<()> {
    let registrar = store.registrar()?;
    let family = registrar.create_family(DROPPED, CfOptions::default())?;
    let mut batch = waxseal_lsm::batch::Batch::new();
    batch.push(family.id(), Kind::Put, b"key", b"value", store.db.companions())?;
    registrar.commit(&mut batch, Durability::Os, None, &[])?;
    store.db.flush()?;
    registrar.drop_family(DROPPED, None)
}

/// Returns the engine's own events, in order.
fn of_the_engine(store: &Store) -> Result<Vec<Event>> {
    let query = Query { below: true, ..Query::of(Target::Cluster) };
    let page = store.registrar()?.log_query(&query, &Paging::ALL, At::Latest, None)?;
    let mut events: Vec<Event> =
        page.events.into_iter().filter(|event| matches!(event.key.target, Target::Engine(_))).collect();
    events.sort_by_key(|event| (event.key.time, event.key.seqno));
    Ok(events)
}

fn files(event: &Event) -> (Vec<FileRef>, Vec<FileRef>) {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for field in event.payload.fields() {
        match field {
            Field::Input(file) => read.push(*file),
            Field::Output(file) => written.push(*file),
            _ => {}
        }
    }
    (read, written)
}

fn look(store: &Store, found: &mut Found) -> Outcome<()> {
    found.works += 1;
    let events = of_the_engine(store)?;
    let mut left: BTreeMap<Uid, FileRef> = BTreeMap::new();
    for event in &events {
        let (read, written) = files(event);
        for file in &read {
            found.impossible += u64::from(left.remove(&file.uid).is_none());
        }
        for file in written {
            found.impossible += u64::from(left.insert(file.uid, file).is_some());
        }
    }
    let mut live = BTreeSet::new();
    for family in store.db.families() {
        for table in store.db.tables(&family)? {
            let meta = table.meta();
            live.insert(meta.uid);
            found.files += 1;
            let Some(file) = left.get(&meta.uid) else { continue };
            found.differ += u64::from((file.digest, file.records) != (meta.digest, meta.ledger.count()));
        }
    }
    let told: BTreeSet<Uid> = left.into_keys().collect();
    found.unaccounted += live.symmetric_difference(&told).count() as u64;
    for family in store.db.families() {
        lineages(store, &family, &events, found)?;
    }
    Ok(())
}

/// Compares a file's history (its writing event, those of its inputs, and so on) by the events and by `lineage`.
fn lineages(store: &Store, family: &Family, events: &[Event], found: &mut Found) -> Outcome<()> {
    for table in store.db.tables(family)? {
        found.lineages += 1;
        let uid = table.meta().uid;
        let lineage = store.registrar()?.lineage(uid, None)?;
        let mut wanted = BTreeSet::new();
        let (mut open, mut seen) = (vec![uid], BTreeSet::new());
        while let Some(uid) = open.pop() {
            if !seen.insert(uid) {
                continue;
            }
            for event in events {
                let (read, written) = files(event);
                if written.iter().any(|file| file.uid == uid) {
                    wanted.insert(event.key.time);
                    // A moved file is both input and output of one event.
                    open.extend(read.iter().map(|file| file.uid).filter(|read| *read != uid));
                }
            }
        }
        let steps: BTreeSet<_> = lineage.steps.iter().map(|step| step.event.key.time).collect();
        let begins = lineage.steps.iter().filter(|step| files(&step.event).0.is_empty());
        let is_root = |operation: Operation| {
            matches!(operation, Operation::ENGINE_FLUSH | Operation::ENGINE_INGEST | Operation::ENGINE_RECOVER)
        };
        let mut roots = begins.map(|step| is_root(step.event.key.operation)).collect::<Vec<_>>();
        roots.push(lineage.steps.first().is_some_and(|step| step.back == 0));
        found.rootless += u64::from(steps != wanted || roots.len() < 2 || roots.contains(&false));
    }
    Ok(())
}
