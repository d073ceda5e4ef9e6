//! The chronicle: what the engine did, a line a work, and the events that a line is shown as. docs/format.md, section 9.9.
//!
//! A line is made while the engine writes the edit that makes the work true, so it is short and asks nobody. It is shown as one event
//! of the part of the engine that did it, and one of each table file that was read or written: so the log of a file says where it
//! came from and where it went. Lines that the manifest has no room for become just these rows.

use waxseal_lsm::codec::{Reader, put_varint};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::fence::Fence;
use waxseal_lsm::record::{MAX_SEQNO, Seqno};
use waxseal_lsm::seam::{Deed, TableFact, Work};

use crate::clock::Time;
use crate::event::Event;
use crate::key::{ANONYMOUS, LogKey};
use crate::operation::Operation;
use crate::payload::{Field, FileRef, Payload};
use crate::target::Target;

/// The level of a line.
const LEVEL: u8 = 1;

/// Table files that a line names on either side; of more it says how many there were.
const MOST_FILES: usize = 4096;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// What was done.
    pub operation: Operation,
    /// When.
    pub time: Time,
    /// The last commit that readers saw then.
    pub seqno: Seqno,
    /// What is known of it.
    pub payload: Payload,
}

impl Line {
    /// The line of a work.
    pub fn of(work: &Work<'_>, time: Time) -> Line {
        let (operation, mut payload) = deed(&work.deed);
        for touched in &work.touched {
            payload.push(Field::Setting(("family".to_owned(), touched.name.to_owned())));
            files(&mut payload, &touched.read, Field::Input, "read");
            files(&mut payload, &touched.written, Field::Output, "written");
        }
        if let Some(range) = work.log {
            payload.push(Field::LogRange(range));
        }
        if work.nanos > 0 {
            payload.push(Field::Nanos(work.nanos));
        }
        Line { operation, time, seqno: work.seqno, payload }
    }

    /// Its bytes. Errors: `Invalid` for a payload beyond its limits.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = vec![LEVEL];
        out.extend_from_slice(&self.operation.number().to_le_bytes());
        out.extend_from_slice(&self.time.0.to_le_bytes());
        put_varint(&mut out, self.seqno);
        self.payload.encode(&mut out)?;
        Ok(out)
    }

    /// Reads a line; other bytes are refused, those of a later level as `FormatTooNew`.
    pub fn decode(bytes: &[u8]) -> Result<Line> {
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
        Ok(Line { operation, time, seqno, payload: Payload::decode(&mut reader)? })
    }

    /// The events that it is shown as. `number` is the line's, which ends their keys: no line has another's.
    pub fn events(&self, number: u64) -> Vec<Event> {
        let mut targets = vec![Target::Engine(part(self.operation).to_owned())];
        for field in self.payload.fields() {
            if let Field::Input(file) | Field::Output(file) = field {
                let target = Target::TableFile(file.uid);
                if !targets.contains(&target) {
                    targets.push(target);
                }
            }
        }
        targets.into_iter().map(|target| self.event(target, number)).collect()
    }

    /// The event that it is shown as for one target.
    pub(crate) fn event(&self, target: Target, number: u64) -> Event {
        let Line { operation, time, .. } = *self;
        let (client, seqno) = (ANONYMOUS.to_owned(), number.min(MAX_SEQNO));
        Event { key: LogKey { target, operation, time, client, seqno }, payload: self.payload.clone() }
    }
}

/// The part of the engine that does it.
fn part(operation: Operation) -> &'static str {
    match operation {
        Operation::ENGINE_FLUSH => "flush",
        Operation::ENGINE_COMPACT => "compaction",
        Operation::ENGINE_SCRUB | Operation::ENGINE_REPAIR | Operation::ENGINE_QUARANTINE | Operation::ENGINE_FENCE => {
            "integrity"
        }
        _ => "store",
    }
}

fn deed(deed: &Deed<'_>) -> (Operation, Payload) {
    let payload = Payload::new();
    let how = |method: &str| Payload::new().with(Field::Method(method.to_owned()));
    match deed {
        Deed::Recovered { commits, cut_bytes } => {
            (Operation::ENGINE_RECOVER, payload.with(Field::Records(*commits)).with(Field::Bytes(*cut_bytes)))
        }
        Deed::Flushed => (Operation::ENGINE_FLUSH, payload),
        Deed::Compacted { level, moved, reason } => {
            let payload = how(reason).with(Field::Setting(("level".to_owned(), level.to_string())));
            (Operation::ENGINE_COMPACT, if *moved { payload.with(Field::Verdict("moved".to_owned())) } else { payload })
        }
        Deed::Ingested => (Operation::ENGINE_INGEST, payload),
        Deed::Replaced => (Operation::ENGINE_REPAIR, payload),
        Deed::Barred => (Operation::ENGINE_QUARANTINE, how("barred")),
        Deed::Freed => (Operation::ENGINE_QUARANTINE, how("freed")),
        Deed::Fenced(fence) => (Operation::ENGINE_FENCE, span(how("fenced"), fence)),
        Deed::Lifted(fence) => (Operation::ENGINE_FENCE, span(how("lifted"), fence)),
        Deed::Checkpointed { dir } => {
            (Operation::ENGINE_CHECKPOINT, payload.with(Field::Setting(("directory".to_owned(), (*dir).to_owned()))))
        }
        Deed::Dropped => (Operation::TABLE_DROP, payload),
    }
}

fn span(payload: Payload, fence: &Fence) -> Payload {
    let payload =
        payload.with(Field::SeqnoBound(fence.bound)).with(Field::Setting(("file".to_owned(), fence.file.clone())));
    payload.with(Field::RangeStart(fence.from.0.clone())).with(Field::RangeEnd(fence.to.0.clone()))
}

fn files(payload: &mut Payload, facts: &[TableFact], field: fn(FileRef) -> Field, what: &str) {
    for fact in facts.iter().take(MOST_FILES) {
        payload.push(field(FileRef { uid: fact.uid, digest: fact.digest, records: fact.records }));
    }
    if facts.len() > MOST_FILES {
        payload.push(Field::Setting((format!("files {what}"), facts.len().to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::testing::payload;
    use proptest::prelude::*;
    use waxseal_lsm::checksum::Uid;
    use waxseal_lsm::seam::Touched;

    fn fact(uid: u8) -> TableFact {
        TableFact { number: 9, uid: Uid([uid; 16]), digest: 7, level: 0, records: 3, bytes: 100 }
    }

    #[test]
    fn golden_line() {
        // docs/format.md, section 9.9.
        let touched = Touched { family: 1, name: "u", read: Vec::new(), written: vec![fact(0xAB)] };
        let work = Work { deed: Deed::Flushed, touched: vec![touched], log: None, seqno: 5, nanos: 0 };
        let line = Line::of(&work, Time(2)).encode().unwrap();
        let uid = [0xAB; 16];
        let expected =
            [&b"\x01\x03\x07\x02\0\0\0\0\0\0\0\x05\x04\x08\x06familyu\x17\x19"[..], &uid, b"\x07\0\0\0\0\0\0\0\x03"];
        assert_eq!(line, expected.concat());
    }

    #[test]
    fn a_line_is_an_event_of_its_part_and_of_every_file() {
        let touched = Touched { family: 1, name: "u", read: vec![fact(1), fact(2)], written: vec![fact(3), fact(2)] };
        let deed = Deed::Compacted { level: 1, moved: false, reason: "score" };
        let line = Line::of(&Work { deed, touched: vec![touched], log: None, seqno: 5, nanos: 0 }, Time(2));
        let targets: Vec<String> = line.events(1).iter().map(|event| event.key.target.to_string()).collect();
        assert_eq!(targets.len(), 4);
        assert_eq!(targets[0], "engine:compaction");
        let mut keys: Vec<_> = line.events(1).iter().map(|event| event.encode().unwrap().0).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 4);
    }

    #[test]
    fn of_very_many_files_the_number_is_kept() {
        let read: Vec<TableFact> = (0..5000).map(|_| fact(1)).collect();
        let touched = Touched { family: 1, name: "u", read, written: Vec::new() };
        let line =
            Line::of(&Work { deed: Deed::Dropped, touched: vec![touched], log: None, seqno: 5, nanos: 0 }, Time(2));
        assert!(line.encode().unwrap().len() < waxseal_lsm::seam::MAX_LINE_BYTES);
        assert!(line.payload.fields().contains(&Field::Setting(("files read".to_owned(), "5000".to_owned()))));
    }

    proptest! {
        #[test]
        fn lines_come_back(number in 1..=u16::MAX, time: u64, seqno in 0..=MAX_SEQNO, payload in payload()) {
            let operation = Operation::from_number(number).unwrap();
            let line = Line { operation, time: Time(time), seqno, payload };
            prop_assert_eq!(Line::decode(&line.encode().unwrap()).unwrap(), line);
        }

        #[test]
        fn any_bytes_are_a_line_or_refused(bytes: Vec<u8>, payload in payload(), at: prop::sample::Index, flip: u8) {
            let line = Line { operation: Operation::ENGINE_FLUSH, time: Time(1), seqno: 1, payload };
            let mut likely = line.encode().unwrap();
            let at = at.index(likely.len());
            likely[at] ^= flip;
            for bytes in [bytes, likely] {
                if let Ok(line) = Line::decode(&bytes) {
                    prop_assert_eq!(Line::decode(&line.encode().unwrap()).unwrap(), line);
                }
            }
        }
    }
}
