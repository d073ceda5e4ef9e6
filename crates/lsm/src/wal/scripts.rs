//! Scripts of the log: `scripts/log`.
//!
//! ```text
//! log [plain]                begins a log on an empty disk: a ring of 16 KiB (or none), segments of 32 KiB
//! order a 100 [ops=3]        orders a batch; its first value has 100 bytes
//! copy a                     copies its frame to its offset
//! take                       takes the whole frames, in order, and acknowledges them
//! commit a 100 [ops=3]       all three
//! alone a 100 [ops=3]        uses the fast path, or reports that it does not apply
//! drain, sync, prepare, close
//! seal                       the manifest seals the segments that are full and durable
//! frames                     lists the frames in the files
//! files
//! flip a                     flips one bit of the body of frame `a`, in every file that has it
//! crash                      the process is killed
//! power-cut [keeping-all]    the machine loses all unsynced data; or by luck none, which recovery cannot know
//! recover [accept-loss]      what a reader finds from the manifest's start on
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use waxseal_testing::golden::{self, number};

use super::segment::PAGE;
use super::source::{FrameLookup, FrameSource, RingSource, SegmentSource};
use super::{LogProofs, LogStart, Precondition, Ticket, Wal, recover};
use crate::batch::{Batch, BatchOperations, Body};
use crate::codec::Reader;
use crate::env::Fs;
use crate::env::sim::{Crash, Loss, SimFs};
use crate::error::Result;
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::identity::StoreIdentity;
use crate::options::Settings;
use crate::record::Kind;
use crate::seam::Plain;

const DIR: &str = "/log";

/// A disk, its log, and the facts that a manifest would hold.
struct LogStage {
    sim: SimFs,
    wal: Option<Wal<String>>,
    start: LogStart,
    facts: LogProofs,
    pending: BTreeMap<String, (Ticket, Body)>,
}

/// A frame as found in a file, or in two.
struct FoundFrame {
    offset: u64,
    header: FrameHeader,
    /// The key of its first operation.
    name: String,
    /// The files that hold the frame, and its position in each file.
    places: Vec<(String, u64)>,
}

#[test]
fn scripts_tell_what_a_log_does() {
    let fresh = || begun(true);
    golden::run("scripts/log", fresh, |stage, input| {
        let outcome = |line| stage.step(line).unwrap_or_else(|error| format!("{line}: {error}\n"));
        input.lines().map(outcome).collect()
    });
}

fn begun(wal_mapped: bool) -> LogStage {
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    let env = sim.env(1);
    env.fs.create_dir_all(dir).unwrap();
    sim.settle();
    let settings = Settings {
        segment_bytes: 32 * 1024,
        ring_bytes: 16 * 1024,
        drain_bytes: 8 * 1024,
        wal_mapped,
        ..Settings::default()
    };
    let next = AtomicU64::new(1);
    let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
    let (wal, start) = Wal::create(&env, (dir, &StoreIdentity::default()), &settings, 0, 1, numbers).unwrap();
    LogStage { sim, wal: Some(wal), start, facts: LogProofs::default(), pending: BTreeMap::new() }
}

impl LogStage {
    fn step(&mut self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.get(1).copied().unwrap_or_default();
        match words[0] {
            "log" => *self = begun(name != "plain"),
            "order" => return self.order(line, &words),
            "copy" => self.copy(name)?,
            "take" => return self.take(),
            "commit" => {
                self.order(line, &words)?;
                self.copy(name)?;
                self.take()?;
            }
            "alone" => return self.alone(line, &words),
            "drain" => drop(self.wal().drain()?),
            "prepare" => drop(self.wal().prepare()?),
            "reserve" => self.wal().supply.reserve(&self.wal().stream, self.wal().whole_up_to() + 2 * PAGE)?,
            "sync" => return self.wal().sync_all().map(|place| format!("durable up to {}\n", place.offset)),
            "close" => self.facts.sealed.push(self.wal().close()?),
            "seal" => return Ok(self.seal()),
            "frames" => return self.frames().map(|frames| frames.iter().map(described).collect()),
            "files" => return Ok(self.sim.files(DIR).join(" ") + "\n"),
            "flip" => self.flip(name)?,
            "crash" => self.reboot(Crash::Process),
            "power-cut" if name == "keeping-all" => self.reboot(Crash::Machine(Loss::KeepAll)),
            "power-cut" => self.reboot(Crash::Machine(Loss::DurableOnly)),
            "recover" => return self.recover(name == "accept-loss"),
            other => panic!("no such step: {other}"),
        }
        Ok(String::new())
    }

    fn wal(&self) -> &Wal<String> {
        self.wal.as_ref().unwrap()
    }

    fn alone(&self, line: &str, words: &[&str]) -> Result<String> {
        let name = words[1];
        let body = body(line, words)?;
        let Some(whole) = self.wal().try_append_fast(&body.sum(), &Precondition::default()) else {
            return Ok(format!("{name} is not alone\n"));
        };
        self.wal().acknowledge(whole.end)?;
        Ok(format!("{name}: seqno {}, acknowledged up to {}\n", whole.seqno, whole.end))
    }

    fn order(&mut self, line: &str, words: &[&str]) -> Result<String> {
        let name = words[1];
        let body = body(line, words)?;
        let ticket = self.wal().order(&body, name.to_owned())?;
        let described = format!("{name}: seqno {}, ends at {}\n", ticket.seqno, ticket.end);
        self.pending.insert(name.to_owned(), (ticket, body));
        Ok(described)
    }

    fn copy(&mut self, name: &str) -> Result<()> {
        let (ticket, body) = self.pending.remove(name).unwrap();
        self.wal().copy(&ticket, &body)
    }

    fn take(&self) -> Result<String> {
        let mut group = Vec::new();
        self.wal().take_whole(&mut group);
        let Some(last) = group.last() else { return Ok("nothing is whole\n".to_owned()) };
        self.wal().acknowledge(last.end)?;
        let names: Vec<&str> = group.iter().map(|whole| whole.payload.as_str()).collect();
        Ok(format!("took {}, acknowledged up to {}\n", names.join(" "), last.end))
    }

    fn seal(&mut self) -> String {
        let mut out = String::new();
        for seal in self.wal().seals_due() {
            writeln!(out, "segment {} is sealed at {}", seal.segment, seal.offset).unwrap();
            self.facts.sealed.push(seal);
            self.wal().sealed(&[seal]);
        }
        if out.is_empty() { "nothing to seal\n".to_owned() } else { out }
    }

    /// Kills the log: no later write of it reaches the disk.
    fn reboot(&mut self, crash: Crash) {
        self.sim.reboot(crash);
        self.wal = None;
        self.pending.clear();
    }

    /// Returns the frames from the start on, with the places of each.
    fn frames(&self) -> Result<Vec<FoundFrame>> {
        let (env, dir) = (self.sim.env(2), Path::new(DIR));
        let mut ring = RingSource::open(&env, dir, &self.start)?;
        let mut at = self.start.place;
        let mut segment = SegmentSource::open(&env, dir, at.segment, at.nonce, at.offset)?;
        let mut found = Vec::new();
        let mut link = at.nonce;
        loop {
            let mut body = Vec::new();
            let mut places = Vec::new();
            let mut whole = None;
            for source in [&mut segment as &mut dyn FrameSource, &mut ring] {
                let mut bytes = Vec::new();
                if let FrameLookup::Whole(header) = source.frame(at.offset, link, &mut bytes) {
                    places.push((source.name().to_owned(), source.position(at.offset)));
                    (whole, body) = (Some(header), bytes);
                }
            }
            let Some(header) = whole else { return Ok(found) };
            let is_batch = matches!(header.kind, FrameKind::Batch | FrameKind::LargeBatch);
            let name = if is_batch { first_key(&body)? } else { String::new() };
            found.push(FoundFrame { offset: at.offset, header, name, places });
            (at.offset, link) = (at.offset + header.extent(), header.link);
            if header.kind == FrameKind::Turnover {
                let mut reader = Reader::new(&body);
                (at.segment, at.nonce, at.offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
                segment = SegmentSource::open(&env, dir, at.segment, at.nonce, at.offset)?;
                link = at.nonce;
            }
        }
    }

    fn flip(&self, name: &str) -> Result<()> {
        let found = self.frames()?.into_iter().find(|frame| frame.name == name).unwrap();
        for (file, position) in found.places {
            let bit = (position + FRAME_HEADER_BYTES as u64 + 8) * 8;
            self.sim.flip(Path::new(DIR).join(file), bit).unwrap();
        }
        Ok(())
    }

    fn recover(&self, accept_loss: bool) -> Result<String> {
        let (env, dir) = (self.sim.env(2), Path::new(DIR));
        let machine = self.sim.machine(dir).unwrap();
        let mut names = Vec::new();
        let end = recover(&env, dir, &self.start, &self.facts, machine, accept_loss, &mut |replayed| {
            names.push(first_key(replayed.body)?);
            Ok(())
        })?;
        let mut out = if names.is_empty() { "kept nothing".to_owned() } else { format!("kept {}", names.join(" ")) };
        write!(out, "; the log ends at {}", end.place.offset).unwrap();
        if let Some(next) = end.next_seqno {
            write!(out, ", next seqno {next}").unwrap();
        }
        out += if end.closed { ", it was closed\n" } else { "\n" };
        if end.from_ring > 0 {
            writeln!(out, "{} frames were in the ring only", end.from_ring).unwrap();
        }
        if let Some(cut) = end.cut {
            writeln!(out, "cut {} bytes of {} from {} on", cut.bytes, cut.file, cut.offset).unwrap();
            if cut.acknowledged > cut.offset {
                writeln!(out, "commits up to {} had been acknowledged", cut.acknowledged).unwrap();
            }
            if let Some(accepted) = cut.accepted {
                writeln!(out, "accepted: {accepted}").unwrap();
            }
        }
        Ok(out)
    }
}

fn body(line: &str, words: &[&str]) -> Result<Body> {
    let (name, bytes) = (words[1], words[2].parse().unwrap());
    let mut batch = Batch::new();
    batch.push(0, Kind::Put, name.as_bytes(), &vec![b'x'; bytes], &Plain)?;
    for _ in 1..number(line, "ops", 1) {
        batch.push(0, Kind::Delete, b"more", b"", &Plain)?;
    }
    Ok(batch.seal())
}

fn first_key(body: &[u8]) -> Result<String> {
    match BatchOperations::new(body)?.next().transpose()? {
        Some(operation) => Ok(operation.key.escape_ascii().to_string()),
        None => Ok("(empty)".to_owned()),
    }
}

fn described(frame: &FoundFrame) -> String {
    let FoundFrame { offset, header, name, places } = frame;
    let files: Vec<&str> = places.iter().map(|(file, _)| file.as_str()).collect();
    let what = if name.is_empty() { String::new() } else { format!(" {name}") };
    let FrameHeader { kind, seqno, length, .. } = header;
    format!("{offset:6}: {kind:?}{what}, seqno {seqno}, {length} bytes, in {}\n", files.join(" and "))
}
