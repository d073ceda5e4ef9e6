//! Provenance: where a value is watched and why it is what it is, and how the file came to be in which it lies.

use std::collections::{BTreeSet, HashMap, VecDeque};

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::db::{At, Db, Family, Stands};
use waxseal_lsm::error::Result;
use waxseal_lsm::names::Name;
use waxseal_lsm::options::Verify;
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::Check;
use waxseal_meta::stamp::Stamp;
use waxseal_meta::{Seal, Sealer};

use crate::chronicle::{Line, is_short, is_whole_look, part_of, written_files};
use crate::clock::Time;
use crate::event::Event;
use crate::key::{LogKey, Query};
use crate::log::{Paging, Reading};
use crate::matching::Snapshot;
use crate::operation::Operation;
use crate::payload::{Field, Payload};
use crate::registration::{Registration, Scope};
use crate::sessions::Session;
use crate::target::Target;

/// Where a key is watched, and why it is what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The key by its full name.
    pub target: Target,
    /// The registrations that watch it, those that say most first.
    pub watched_by: Vec<Registration>,
    /// What happened to it, oldest first.
    pub events: Vec<Event>,
}

/// Where the version lies that decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lies {
    /// In memory, and in the log.
    Memory,
    /// In a table file.
    Table {
        /// The file's uid.
        uid: Uid,
        /// Its name in the store's directory.
        file: String,
        /// Its level.
        level: u8,
        /// The offset of the block.
        offset: u64,
    },
}

/// Everything that is known of a key.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The key by its full name.
    pub target: Target,
    /// The value; none if there is none, or it cannot be given out.
    pub value: Option<Vec<u8>>,
    /// The seqno of the version that decides.
    pub seqno: Option<Seqno>,
    /// Its seal.
    pub seal: Option<Seal>,
    /// What the checks say: `validated`, or why it is not given out.
    pub verdict: String,
    /// Who wrote it, and when, if it was watched.
    pub written: Option<(String, Time)>,
    /// What happened to it, oldest first.
    pub events: Vec<Event>,
    /// Where it lies.
    pub lies: Option<Lies>,
    /// How the file came to be in which it lies.
    pub lineage: Lineage,
    /// When that file, or all of the store, was last checked.
    pub verified: Option<Time>,
}

/// One step in the life of table files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// How many steps it lies behind the file that was asked for.
    pub back: usize,
    /// What happened.
    pub event: Event,
}

/// How a table file came to be, the last step first. Empty if the log knows nothing of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lineage {
    /// The steps, nearest first.
    pub steps: Vec<Step>,
}

/// Steps that a lineage goes back at most.
const MOST_STEPS: usize = 10_000;

/// The registrations that watch a target, whatever the operation, and its events.
pub(crate) fn provenance(reading: &Reading<'_>, snapshot: &Snapshot, target: Target) -> Result<Provenance> {
    let watches = |registration: &&Registration| match registration.options.scope {
        Scope::Exact => registration.target == target,
        Scope::Subtree => registration.target.covers(&target),
    };
    let watched_by = snapshot.registrations().iter().filter(watches).cloned().collect();
    let mut events = reading.page(&target, Query::of(target.clone()).plan()?, &Paging::ALL)?.events;
    events.sort_by_key(|event| (event.key.time, event.key.seqno));
    Ok(Provenance { target, watched_by, events })
}

/// Everything that is known of a key. What is damaged is told, not an error.
pub(crate) fn explain(
    db: &Db,
    reading: &Reading<'_>,
    (family, key): (&Family, &[u8]),
    session: &dyn Fn(u64) -> Session,
) -> Result<Explanation> {
    let target = Target::key(family.name(), key);
    let mut value = None;
    let read =
        db.get_checked(family, key, At::Latest, Verify::Always, &mut |record| value = Some(record.value.to_vec()));
    let found = db.whereabouts(family, key, At::Latest);
    let verdict = match (&read, &found) {
        (Err(error), _) | (_, Err(error)) => error.to_string(),
        (Ok(_), Ok(None)) => "absent".to_owned(),
        (Ok(_), Ok(Some(found))) => said(found.check).to_owned(),
    };
    let mut events = reading.page(&target, Query::of(target.clone()).plan()?, &Paging::ALL)?.events;
    events.sort_by_key(|event| (event.key.time, event.key.seqno));
    let found = found.ok().flatten();
    let (mut seal, mut written, mut lies) = (None, None, None);
    if let Some(found) = &found {
        let record = Record { key, seqno: found.seqno, kind: found.kind, value: &[], companion: &found.companion };
        seal = Sealer::seal_of(&record).ok().flatten();
        let stamp = Stamp::of(&found.companion, hash_key(key)).ok().flatten();
        written = stamp.map(|stamp| (session(stamp.session).name().to_owned(), Time(stamp.time)));
        lies = Some(match &found.stands {
            Stands::Active | Stands::Frozen(_) => Lies::Memory,
            Stands::Table { level, number, uid, offset } => {
                Lies::Table { uid: *uid, file: Name::Table(*number).to_string(), level: *level as u8, offset: *offset }
            }
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

fn said(check: Check) -> &'static str {
    match check {
        Check::Validated => "validated",
        Check::Unverified => "unverified",
        Check::CompanionDamaged => "validated; what stands beside it was hit",
        Check::Missing => "corrupted: its seal is missing",
        Check::Corrupted => "corrupted",
    }
}

/// How a table file came to be.
pub(crate) fn lineage(reading: &Reading<'_>, file: Uid) -> Result<Lineage> {
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
        events.extend(of_lines.flat_map(|(number, line): &(u64, Line)| line.events_of(&target, *number)));
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

/// What the event of the engine's part says that did what the event of a file tells.
fn of_part(reading: &Reading<'_>, lines: &[(u64, Line)], event: &Event) -> Result<Option<Payload>> {
    let LogKey { operation, time, seqno, .. } = event.key;
    if let Some((_, line)) = lines.iter().find(|(number, _)| *number == seqno) {
        return Ok(Some(line.payload.clone()));
    }
    let query = Query { operation: Some(operation), from: time, to: time, ..Query::of(part_of(operation)) };
    let events = reading.stored_page(query.plan()?)?;
    Ok(events.into_iter().find(|event| event.key.seqno == seqno).map(|event| event.payload))
}
