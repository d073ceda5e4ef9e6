//! The engine event log: one line in the manifest per job, and the events that a line is shown as. docs/format.md,
//! section 9.9.
//!
//! The engine creates a line while it writes the manifest edit that makes the job's result valid, so a line is short
//! and requires no lookup. A line is shown as one event of the engine part that did the job, and one event of each
//! table file that was read or written. The events of a file therefore show its origin and its use. When the manifest
//! has no room for a line, its events become rows of the log.

use std::collections::{HashMap, HashSet};

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::codec::{Reader, put_varint};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::record::{MAX_SEQNO, Seqno};
use waxseal_lsm::seam::{EngineEvent, TableFact, Work};

use crate::clock::Time;
use crate::event::Event;
use crate::key::{ANONYMOUS, LogKey};
use crate::operation::{Operation, Site};
use crate::payload::{Field, FileRef, Payload};
use crate::target::Target;

/// The format level of a line.
const LEVEL: u8 = 1;

/// Maximum number of table files that a line names per side. A line with more files also states the number of files.
const MOST_FILES: usize = 4096;

/// Up to this number of files, the event of each file names all files. Beyond it, only the event of the engine part
/// does, and a file's event names itself and the number of files. A line of a thousand files thus becomes a thousand
/// short rows.
const FEW_FILES: usize = 16;

/// Maximum total length of the keys in a line of an ingestion. A line has at most `MAX_LINE_BYTES`.
const MOST_KEY_BYTES: usize = 256 * 1024;

/// The settings that hold the number of files read and written.
const FILES: [&str; 2] = ["files read", "files written"];

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineLine {
    /// The job's operation.
    pub operation: Operation,
    /// The time of the job.
    pub time: Time,
    /// The last commit that readers saw at that time.
    pub seqno: Seqno,
    /// Details of the job.
    pub payload: Payload,
}

impl EngineLine {
    /// Creates the line of a job.
    pub fn of(work: &Work<'_>, time: Time) -> EngineLine {
        let (operation, mut payload) = engine_event(&work.engine_event);
        for touched in &work.touched {
            payload.push(Field::Setting(("family".to_owned(), touched.name.to_owned())));
            files(&mut payload, &touched.read, Field::Input, FILES[0]);
            files(&mut payload, &touched.written, Field::Output, FILES[1]);
        }
        if let Some(range) = work.log {
            payload.push(Field::LogRange(range));
        }
        if work.nanos > 0 {
            payload.push(Field::Nanos(work.nanos));
        }
        EngineLine { operation, time, seqno: work.seqno, payload }
    }

    /// Encodes the line. Errors: `Invalid` for a payload beyond its limits.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = vec![LEVEL];
        out.extend_from_slice(&self.operation.number().to_le_bytes());
        out.extend_from_slice(&self.time.0.to_le_bytes());
        put_varint(&mut out, self.seqno);
        self.payload.encode(&mut out)?;
        Ok(out)
    }

    /// Decodes a line. Fails with `Corruption` for malformed bytes, and with `FormatTooNew` for a later level.
    pub fn decode(bytes: &[u8]) -> Result<EngineLine> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            0 => return Err(Error::structural("a line of level 0")),
            LEVEL => {}
            level => {
                let say = format!("a line of level {level}; this store knows {LEVEL}");
                return Err(Error::of(ErrorKind::FormatTooNew, say));
            }
        }
        let operation = Operation::from_number(reader.u16()?);
        let operation = operation.ok_or_else(|| Error::structural("a line of no operation"))?;
        let (time, seqno) = (Time(reader.u64()?), reader.varint()?);
        if seqno > MAX_SEQNO {
            return Err(Error::structural("a line with a seqno above the greatest"));
        }
        Ok(EngineLine { operation, time, seqno, payload: Payload::decode(&mut reader)? })
    }

    /// Returns the events that the line is shown as: one for the engine part, and one for each file it names. `number`
    /// is the line's number, which ends the events' keys and is unique among lines.
    pub fn events(&self, number: u64) -> Vec<Event> {
        let mut events = vec![self.event(self.part(), self.payload.clone(), number)];
        let (count, short) = (self.files().count(), self.without_files());
        let mut of_file: HashMap<Uid, usize> = HashMap::new();
        for (file, field) in self.files() {
            let at = *of_file.entry(file).or_insert(events.len());
            if at == events.len() {
                let payload = if count > FEW_FILES { short.clone() } else { self.payload.clone() };
                events.push(self.event(Target::TableFile(file), payload, number));
            }
            if count > FEW_FILES {
                events[at].payload.push(field.clone());
            }
        }
        events
    }

    /// Returns the number of events that the line is shown as.
    pub(crate) fn count(&self) -> u64 {
        let files: HashSet<Uid> = self.files().map(|(file, _)| file).collect();
        1 + files.len() as u64
    }

    /// Returns the line's events of one target.
    pub(crate) fn events_of(&self, target: &Target, number: u64) -> Vec<Event> {
        let is_named = match target {
            Target::TableFile(uid) => self.files().any(|(file, _)| file == *uid),
            target => *target == self.part(),
        };
        let mut events = if is_named { self.events(number) } else { Vec::new() };
        events.retain(|event| event.key.target == *target);
        events
    }

    fn event(&self, target: Target, payload: Payload, number: u64) -> Event {
        let EngineLine { operation, time, .. } = *self;
        let (client, seqno) = (ANONYMOUS.to_owned(), number.min(MAX_SEQNO));
        Event { key: LogKey { target, operation, time, client, seqno }, payload }
    }

    fn part(&self) -> Target {
        part_of(self.operation)
    }

    /// Returns the files that the line names, with the fields that name them.
    fn files(&self) -> impl Iterator<Item = (Uid, &Field)> {
        self.payload.fields().iter().filter_map(|field| match field {
            Field::Input(file) | Field::Output(file) => Some((file.uid, field)),
            _ => None,
        })
    }

    /// Returns the payload without the file names, but with the number of files.
    fn without_files(&self) -> Payload {
        let (mut payload, mut counts) = (Payload::new(), [0usize; 2]);
        for field in self.payload.fields() {
            match field {
                Field::Input(_) => counts[0] += 1,
                Field::Output(_) => counts[1] += 1,
                Field::Setting((name, count)) if FILES.contains(&name.as_str()) => {
                    let side = usize::from(name == FILES[1]);
                    // The line names only the first `MOST_FILES` of these.
                    counts[side] += count.parse::<usize>().unwrap_or(0).saturating_sub(MOST_FILES);
                }
                other => payload.push(other.clone()),
            }
        }
        for (name, count) in FILES.iter().zip(counts) {
            payload.push(Field::Setting(((*name).to_owned(), count.to_string())));
        }
        payload
    }
}

/// Returns true if the event of a file leaves the names of other files to the event of the engine part.
pub(crate) fn is_short(event: &Event) -> bool {
    let counts = |field: &Field| matches!(field, Field::Setting((name, _)) if FILES.contains(&name.as_str()));
    matches!(event.key.target, Target::TableFile(_)) && event.payload.fields().iter().any(counts)
}

/// Returns the table files that a job wrote.
pub(crate) fn written_files(payload: &Payload) -> impl Iterator<Item = Uid> {
    payload.fields().iter().filter_map(|field| if let Field::Output(file) = field { Some(file.uid) } else { None })
}

/// Returns true if a payload reports that this lost range was marked.
pub(crate) fn concerns(payload: &Payload, lost_range: &LostRange) -> bool {
    span(how(FENCED), lost_range).fields().iter().all(|field| payload.fields().contains(field))
}

/// Returns true if a verification covered the whole store.
pub(crate) fn is_whole_look(payload: &Payload) -> bool {
    let part = |field: &Field| matches!(field, Field::Setting((name, value)) if name == "extent" && value == "part");
    !payload.fields().iter().any(part)
}

/// Returns the engine part on which an operation occurs.
pub(crate) fn part_of(operation: Operation) -> Target {
    Target::Engine(part(operation).to_owned())
}

/// A reserved operation, or one of a later version, is assigned to `store`.
fn part(operation: Operation) -> &'static str {
    let part = |site: &Site| if let Site::Part(name) = site { Some(*name) } else { None };
    operation.sites().iter().find_map(part).unwrap_or("store")
}

fn engine_event(engine_event: &EngineEvent<'_>) -> (Operation, Payload) {
    let payload = Payload::new();
    match engine_event {
        EngineEvent::Recovered { commits, cut_bytes } => {
            (Operation::ENGINE_RECOVER, payload.with(Field::Records(*commits)).with(Field::Bytes(*cut_bytes)))
        }
        EngineEvent::Flushed => (Operation::ENGINE_FLUSH, payload),
        EngineEvent::Compacted { level, moved, reason, filtered: (dropped, changed) } => {
            let mut payload = how(reason).with(Field::Setting(("level".to_owned(), level.to_string())));
            for (name, count) in [("filter_dropped", *dropped), ("filter_changed", *changed)] {
                if count > 0 {
                    payload.push(Field::Setting((name.to_owned(), count.to_string())));
                }
            }
            (Operation::ENGINE_COMPACT, if *moved { payload.with(Field::Verdict("moved".to_owned())) } else { payload })
        }
        EngineEvent::Ingested { spans } => (Operation::ENGINE_INGEST, key_spans(payload, spans)),
        EngineEvent::Replaced => (Operation::ENGINE_REPAIR, payload),
        EngineEvent::Barred => (Operation::ENGINE_QUARANTINE, how("barred")),
        EngineEvent::Freed => (Operation::ENGINE_QUARANTINE, how("freed")),
        EngineEvent::Fenced(lost_range) => (Operation::ENGINE_FENCE, span(how(FENCED), lost_range)),
        EngineEvent::Lifted(lost_range) => (Operation::ENGINE_FENCE, span(how("lifted"), lost_range)),
        EngineEvent::Checkpointed { dir } => {
            (Operation::ENGINE_CHECKPOINT, payload.with(Field::Setting(("directory".to_owned(), (*dir).to_owned()))))
        }
        EngineEvent::BackedUp { dir } => {
            (Operation::ENGINE_BACKUP, payload.with(Field::Setting(("directory".to_owned(), (*dir).to_owned()))))
        }
        EngineEvent::Dropped => (Operation::TABLE_DROP, payload),
    }
}

/// The method of an event that marks a lost range.
const FENCED: &str = "fenced";

fn how(method: &str) -> Payload {
    Payload::new().with(Field::Method(method.to_owned()))
}

fn span(payload: Payload, lost_range: &LostRange) -> Payload {
    let payload = payload
        .with(Field::SeqnoBound(lost_range.bound))
        .with(Field::Setting(("file".to_owned(), lost_range.file.clone())));
    payload.with(Field::RangeStart(lost_range.from.0.clone())).with(Field::RangeEnd(lost_range.to.0.clone()))
}

/// Adds the keys of an ingestion: a start and an end for each family, in the order of the families' names. Keys that
/// are too long for a line together are left out.
fn key_spans(mut payload: Payload, spans: &[(&[u8], &[u8])]) -> Payload {
    if spans.iter().map(|(first, last)| first.len() + last.len()).sum::<usize>() <= MOST_KEY_BYTES {
        for (first, last) in spans {
            payload.push(Field::RangeStart(first.to_vec()));
            payload.push(Field::RangeEnd(last.to_vec()));
        }
    }
    payload
}

fn files(payload: &mut Payload, facts: &[TableFact], field: fn(FileRef) -> Field, what: &str) {
    for fact in facts.iter().take(MOST_FILES) {
        payload.push(field(FileRef { uid: fact.uid, digest: fact.digest, records: fact.records }));
    }
    if facts.len() > MOST_FILES {
        payload.push(Field::Setting((what.to_owned(), facts.len().to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::testing::payload;
    use proptest::prelude::*;
    use waxseal_lsm::seam::Touched;

    fn fact(uid: u8) -> TableFact {
        TableFact { number: 9, uid: Uid([uid; 16]), digest: 7, level: 0, records: 3, bytes: 100 }
    }

    #[test]
    fn golden_line() {
        // docs/format.md, section 9.9.
        let touched = Touched { family: 1, name: "u", read: Vec::new(), written: vec![fact(0xAB)] };
        let work = Work { engine_event: EngineEvent::Flushed, touched: vec![touched], log: None, seqno: 5, nanos: 0 };
        let line = EngineLine::of(&work, Time(2)).encode().unwrap();
        let uid = [0xAB; 16];
        let expected =
            [&b"\x01\x03\x07\x02\0\0\0\0\0\0\0\x05\x04\x08\x06familyu\x17\x19"[..], &uid, b"\x07\0\0\0\0\0\0\0\x03"];
        assert_eq!(line, expected.concat());
    }

    #[test]
    fn a_line_is_an_event_of_its_part_and_of_every_file() {
        let touched = Touched { family: 1, name: "u", read: vec![fact(1), fact(2)], written: vec![fact(3), fact(2)] };
        let engine_event = EngineEvent::Compacted { level: 1, moved: false, reason: "score", filtered: (0, 0) };
        let line =
            EngineLine::of(&Work { engine_event, touched: vec![touched], log: None, seqno: 5, nanos: 0 }, Time(2));
        let targets: Vec<String> = line.events(1).iter().map(|event| event.key.target.to_string()).collect();
        assert_eq!(targets.len(), 4);
        assert_eq!(targets[0], "engine:compaction");
        let mut keys: Vec<_> = line.events(1).iter().map(|event| event.encode().unwrap().0).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 4);
    }

    #[test]
    fn where_there_are_many_files_each_names_itself_and_the_part_all() {
        let facts = |from: u8, count: u8| (from..from + count).map(fact).collect::<Vec<_>>();
        let line = |read: u8, written: u8| {
            let touched = Touched { family: 1, name: "u", read: facts(1, read), written: facts(read, written) };
            let engine_event = EngineEvent::Compacted { level: 1, moved: false, reason: "score", filtered: (0, 0) };
            EngineLine::of(&Work { engine_event, touched: vec![touched], log: None, seqno: 5, nanos: 7 }, Time(2))
        };
        let few = line(8, 8).events(1);
        assert!(few.iter().all(|event| event.payload == few[0].payload && !is_short(event)));
        // The file in the middle is read and written.
        let (many, line) = (line(9, 8).events(1), line(9, 8));
        assert_eq!((many.len(), &many[0].payload), (1 + 16, &line.payload));
        assert!(!is_short(&many[0]) && many[1..].iter().all(is_short));
        for event in &many {
            assert_eq!(line.events_of(&event.key.target, 1), std::slice::from_ref(event));
        }
        let shown = |event: &Event| event.payload.fields().iter().map(|field| format!("{field:?}")).collect::<Vec<_>>();
        let own = |kind: &str, uid: u8| {
            let file = FileRef { uid: Uid([uid; 16]), digest: 7, records: 3 };
            if kind == "in" { format!("{:?}", Field::Input(file)) } else { format!("{:?}", Field::Output(file)) }
        };
        let middle = many.iter().find(|event| event.key.target == Target::TableFile(Uid([9; 16]))).unwrap();
        let said = shown(middle);
        let files: Vec<_> = said.iter().filter(|field| field.contains("put(")).collect();
        assert_eq!(files, [&own("in", 9), &own("out", 9)]);
        let counted = |name: &str, count: &str| format!("{:?}", Field::Setting((name.to_owned(), count.to_owned())));
        assert!(
            said.contains(&counted("files read", "9")) && said.contains(&counted("files written", "8")),
            "{said:?}"
        );
        assert!(said.contains(&counted("family", "u")) && said.contains(&format!("{:?}", Field::Nanos(7))));
        assert_eq!(line.events_of(&Target::TableFile(Uid([99; 16])), 1), []);
        assert_eq!(line.events_of(&Target::Engine("flush".to_owned()), 1), []);
    }

    #[test]
    fn rows_of_very_many_files_are_as_many_short_ones() {
        let uid = |n: u32| Uid(std::array::from_fn(|at| n.to_le_bytes()[at % 4]));
        let read: Vec<TableFact> = (0..5000).map(|n| TableFact { uid: uid(n), ..fact(1) }).collect();
        let touched = Touched { family: 1, name: "u", read, written: Vec::new() };
        let line = EngineLine::of(
            &Work { engine_event: EngineEvent::Dropped, touched: vec![touched], log: None, seqno: 5, nanos: 0 },
            Time(2),
        );
        let events = line.events(1);
        let bytes: usize = events.iter().map(|event| event.encode().unwrap().1.len()).sum();
        assert_eq!(events.len(), 1 + MOST_FILES);
        assert!(bytes < 150 * MOST_FILES, "{bytes}");
        let count = Field::Setting(("files read".to_owned(), "5000".to_owned()));
        assert!(events.iter().all(|event| event.payload.fields().contains(&count)));
    }

    #[test]
    fn of_very_many_files_the_number_is_kept() {
        let read: Vec<TableFact> = (0..5000).map(|_| fact(1)).collect();
        let touched = Touched { family: 1, name: "u", read, written: Vec::new() };
        let line = EngineLine::of(
            &Work { engine_event: EngineEvent::Dropped, touched: vec![touched], log: None, seqno: 5, nanos: 0 },
            Time(2),
        );
        assert!(line.encode().unwrap().len() < waxseal_lsm::seam::MAX_LINE_BYTES);
        assert!(line.payload.fields().contains(&Field::Setting(("files read".to_owned(), "5000".to_owned()))));
    }

    proptest! {
        #[test]
        fn lines_come_back(number in 1..=u16::MAX, time: u64, seqno in 0..=MAX_SEQNO, payload in payload()) {
            let operation = Operation::from_number(number).unwrap();
            let line = EngineLine { operation, time: Time(time), seqno, payload };
            prop_assert_eq!(EngineLine::decode(&line.encode().unwrap()).unwrap(), line);
        }

        #[test]
        fn any_bytes_are_a_line_or_refused(bytes: Vec<u8>, payload in payload(), at: prop::sample::Index, flip: u8) {
            let line = EngineLine { operation: Operation::ENGINE_FLUSH, time: Time(1), seqno: 1, payload };
            let mut likely = line.encode().unwrap();
            let at = at.index(likely.len());
            likely[at] ^= flip;
            for bytes in [bytes, likely] {
                if let Ok(line) = EngineLine::decode(&bytes) {
                    prop_assert_eq!(EngineLine::decode(&line.encode().unwrap()).unwrap(), line);
                }
            }
        }
    }
}
