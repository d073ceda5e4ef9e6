//! Provenance of keys: the registrations that cover a key, its events, and the lineage of the file that holds it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::db::{At, Db, Family, RecordPlace};
use waxseal_lsm::env::try_copy;
use waxseal_lsm::error::{IoContext, Result};
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::options::Verify;
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::Check;
use waxseal_meta::stamp::Stamp;
use waxseal_meta::{Seal, Sealer};

use crate::clock::Time;
use crate::engine_log::{EngineLine, is_short, is_whole_look, part_of, written_files};
use crate::event::Event;
use crate::key::{LogKey, Query};
use crate::log::{LogReader, Paging};
use crate::matching::RegistrySnapshot;
use crate::operation::Operation;
use crate::payload::{Field, Payload};
use crate::registration::{Registration, Scope};
use crate::sessions::Session;
use crate::target::Target;

/// The registrations that cover a key, and its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The key's full name.
    pub target: Target,
    /// The registrations that cover it, the most specific first.
    pub watched_by: Vec<Registration>,
    /// Its events, oldest first.
    pub events: Vec<Event>,
}

/// The location of the current version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lies {
    /// In a memtable, and in the write-ahead log.
    Memory,
    /// In a table file.
    Table {
        /// The file's uid.
        uid: Uid,
        /// Its name in the store's directory.
        file: String,
        /// Its level.
        level: u8,
        /// The offset of its block.
        offset: u64,
    },
}

/// Everything that the store knows about a key.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The key's full name.
    pub target: Target,
    /// The value; `None` if it is absent or fails verification.
    pub value: Option<Vec<u8>>,
    /// The seqno of the current version.
    pub seqno: Option<Seqno>,
    /// Its seal.
    pub seal: Option<Seal>,
    /// The result of verification: `validated`, or the reason why the value is not returned.
    pub verdict: String,
    /// Writer and time, if the write was registered.
    pub written: Option<(String, Time)>,
    /// Its events, oldest first.
    pub events: Vec<Event>,
    /// Its location.
    pub lies: Option<Lies>,
    /// The lineage of the file that holds it.
    pub lineage: Lineage,
    /// When the whole store was last verified.
    pub verified: Option<Time>,
}

/// One step of a lineage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The number of steps back from the requested file.
    pub back: usize,
    /// The event of the step.
    pub event: Event,
}

/// The lineage of a table file, the last step first. Empty if the log has no events of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lineage {
    /// The steps, the most recent first.
    pub steps: Vec<Step>,
}

/// Maximum number of steps of a lineage.
const MOST_STEPS: usize = 10_000;

/// Returns the registrations of any operation that cover a target, and its events.
pub(crate) fn provenance(reading: &LogReader<'_>, snapshot: &RegistrySnapshot, target: Target) -> Result<Provenance> {
    let watches = |registration: &&Registration| match registration.options.scope {
        Scope::Exact => registration.target == target,
        Scope::Subtree => registration.target.covers(&target),
    };
    let watched_by = snapshot.registrations().iter().filter(watches).cloned().collect();
    let mut events = reading.page_of_query(&Query::of(target.clone()), &Paging::ALL)?.events;
    events.sort_by_key(|event| (event.key.time, event.key.seqno));
    Ok(Provenance { target, watched_by, events })
}

/// Explains a key. Damage is part of the result, not an error.
pub(crate) fn explain(
    db: &Db,
    reading: &LogReader<'_>,
    (family, key): (&Family, &[u8]),
    session: &dyn Fn(u64) -> Session,
) -> Result<Explanation> {
    let target = Target::key(family.name(), key);
    let mut value = None;
    let mut copy = |record: &Record<'_>| value = Some(try_copy(record.value));
    let read = db.get_checked(family, key, At::Latest, Verify::Always, &mut copy);
    let value = value.transpose().during(|| "copying a value")?;
    let found = db.locate(family, key, At::Latest);
    let verdict = match (&read, &found) {
        (Err(error), _) | (_, Err(error)) => error.to_string(),
        (Ok(_), Ok(None)) => "absent".to_owned(),
        (Ok(_), Ok(Some(found))) => text_of(found.check).to_owned(),
    };
    let mut events = reading.page_of_query(&Query::of(target.clone()), &Paging::ALL)?.events;
    events.sort_by_key(|event| (event.key.time, event.key.seqno));
    let found = found.ok().flatten();
    let (mut seal, mut written, mut lies) = (None, None, None);
    if let Some(found) = &found {
        let record = Record { key, seqno: found.seqno, kind: found.kind, value: &[], companion: &found.companion };
        seal = Sealer::seal_of(&record).ok().flatten();
        let stamp = Stamp::of(&found.companion, hash_key(key)).ok().flatten();
        written = stamp.map(|stamp| (session(stamp.session).name().to_owned(), Time(stamp.time)));
        lies = Some(match &found.place {
            RecordPlace::Active | RecordPlace::Frozen(_) => Lies::Memory,
            RecordPlace::Table { level, number, uid, offset } => Lies::Table {
                uid: *uid,
                file: StoreFileName::Table(*number).to_string(),
                level: *level as u8,
                offset: *offset,
            },
        });
    }
    let lineage = match &lies {
        Some(Lies::Table { uid, .. }) => lineage(reading, *uid)?,
        _ => Lineage::default(),
    };
    let scrubbed =
        Query { operation: Some(Operation::ENGINE_SCRUB), ..Query::of(Target::Engine("integrity".to_owned())) };
    let looks = reading.page(&scrubbed.target, scrubbed.plan()?, &Paging::ALL)?.events;
    let verified = looks.iter().filter(|event| is_whole_look(&event.payload)).map(|event| event.key.time).max();
    let seqno = found.map(|found| found.seqno);
    Ok(Explanation { target, value, seqno, seal, verdict, written, events, lies, lineage, verified })
}

fn text_of(check: Check) -> &'static str {
    match check {
        Check::Validated => "validated",
        Check::Unverified => "unverified",
        Check::CompanionDamaged => "validated; what stands beside it was hit",
        Check::Missing => "corrupted: its seal is missing",
        Check::Corrupted => "corrupted",
    }
}

/// Returns the lineage of a table file.
pub(crate) fn lineage(reading: &LogReader<'_>, file: Uid) -> Result<Lineage> {
    let lines = reading.lines()?;
    let mut writes: HashMap<Uid, Vec<usize>> = HashMap::new();
    for (at, (_, line)) in lines.iter().enumerate() {
        for uid in written_files(&line.payload) {
            writes.entry(uid).or_default().push(at);
        }
    }
    let (mut lineage, mut seen) = (Lineage::default(), BTreeSet::from([file.0]));
    let mut asked = VecDeque::from([(file, 0)]);
    while let Some((uid, back)) = asked.pop_front()
        && lineage.steps.len() < MOST_STEPS
    {
        let target = Target::TableFile(uid);
        let mut events = reading.stored_page(Query::of(target.clone()).plan()?)?;
        let of_lines = writes.get(&uid).into_iter().flatten().filter_map(|at| lines.get(*at));
        events.extend(of_lines.flat_map(|(number, line): &(u64, EngineLine)| line.events_of(&target, *number)));
        events.retain(|event| written_files(&event.payload).any(|output| output == uid));
        for event in events.iter_mut().filter(|event| is_short(event)) {
            if let Some(whole) = of_part(reading, &lines, event)? {
                event.payload = whole;
            }
        }
        events.sort_by_key(|event| (event.key.time, event.key.seqno));
        events.dedup();
        for event in events.into_iter().rev() {
            for field in event.payload.fields() {
                if let Field::Input(input) = field
                    && seen.insert(input.uid.0)
                {
                    asked.push_back((input.uid, back + 1));
                }
            }
            lineage.steps.push(Step { back, event });
        }
    }
    Ok(lineage)
}

/// Returns the payload of the engine part's event that belongs to the event of a file.
fn of_part(reading: &LogReader<'_>, lines: &[(u64, EngineLine)], event: &Event) -> Result<Option<Payload>> {
    let LogKey { operation, time, seqno, .. } = event.key;
    if let Some((_, line)) = lines.iter().find(|(number, _)| *number == seqno) {
        return Ok(Some(line.payload.clone()));
    }
    let query = Query { operation: Some(operation), from: time, to: time, ..Query::of(part_of(operation)) };
    let events = reading.stored_page(query.plan()?)?;
    Ok(events.into_iter().find(|event| event.key.seqno == seqno).map(|event| event.payload))
}
