//! Flipped bits: a copy of the store is damaged, verified, read, and repaired.
//!
//! Each round flips one bit at a random position of each table and blob file of the copy. Then `verify` must name the
//! file, unless the store itself has reported it before. Every file is read by its path and listed, and each answer
//! must be exact or an error. Finally `repair` repairs what it can, and the next round continues with the remaining damage. A
//! wrong content, an older version, a missing entry or an additional one counts as *silent* if no error is returned for
//! it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use waxseal::care::Outcome;
use waxseal::env::SeededRandom;
use waxseal::{Db, Event, Listener, RepairOptions, Report as Findings, VerifyOptions};
use waxseal_files::FileStore;

use super::check::{self, Answers};
use super::events::{self, EventCheck};
use super::report::{FlipResults, TourReport};
use super::steps::{ExpectedTree, builder};
use super::{FAMILY, kill, seconds};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use crate::text::{count, counted};

/// Rounds continue until this many bits were flipped.
const LEAST_FLIPS: u64 = 16;
const MOST_ROUNDS: u64 = 8;
/// Number of gaps printed by name.
const PRINTED: usize = 3;

/// The files that the store itself reported: an open reads some of its tables and corrects the damage it finds, and a
/// compaction may have rewritten such a table before `verify` runs.
#[derive(Default)]
struct ReportedFiles(Mutex<BTreeSet<String>>);

impl ReportedFiles {
    fn names(&self, file: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(file)
    }
}

impl Listener for ReportedFiles {
    fn on_event(&self, event: &Event) {
        let file = match event {
            Event::Healed { file, .. } => Some(file.clone()),
            Event::Corruption { error } => error.damage().map(|damage| damage.file.clone()),
            _ => None,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(file);
    }
}

/// A flipped bit of a file.
struct Flip {
    file: String,
}

impl ExpectedTree {
    /// Copies the closed store, damages the copy, and checks that no damage is silent.
    pub(super) fn flip_bits(
        &self,
        dir: &Path,
        outcome: &kill::WriterOutcome,
        seed: u64,
        report: &mut TourReport,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let random = SeededRandom::new(seed ^ 0xF11F_0F11);
        copy_store(self.dir(), dir).map_err(|error| Failure::io(dir.display(), error))?;
        let (mut flips, mut answers, mut printed) = (FlipResults::default(), Answers::default(), 0);
        let mut details = FlipDetails::default();
        let mut round = 0;
        while round < MOST_ROUNDS && flips.injected < LEAST_FLIPS {
            let made = flip_files(dir, &random).map_err(|error| Failure::io(dir.display(), error))?;
            if made.is_empty() {
                break;
            }
            round += 1;
            flips.injected += made.len() as u64;
            let reported = Arc::new(ReportedFiles::default());
            let db = builder(dir).listener(reported.clone()).open()?;
            let found =
                db.verify(VerifyOptions { progress: Some(&mut progress::watch("verify")), ..Default::default() })?;
            flips.detected +=
                made.iter().filter(|flip| names(&found, &flip.file) || reported.names(&flip.file)).count() as u64;
            for finding in found.damage.iter().take(PRINTED - printed) {
                details.found.push(finding.to_string());
                printed += 1;
            }
            let meanwhile = self.read_all(&db, outcome)?;
            flips.silent += meanwhile.silent;
            answers.add(meanwhile);
            let mended =
                db.repair(RepairOptions { progress: Some(&mut progress::watch("repair")), ..Default::default() })?;
            flips.repaired += made.iter().filter(|flip| is_repaired(&mended, &flip.file)).count() as u64;
            details.note(&mended);
            db.close()?;
        }
        // Repaired data must read correctly as well, also after reopening.
        let db = builder(dir).open()?;
        let after = self.read_all(&db, outcome)?;
        flips.silent += after.silent;
        db.close()?;
        report.flips = flips;
        say(flips, round, answers, after, &details, start, report, output)
    }

    /// Reads every entry and every event, and what the killed writer has written.
    fn read_all(&self, db: &Db, outcome: &kill::WriterOutcome) -> Result<Answers, Failure> {
        let mut answers = Answers::default();
        let files = FileStore::open(db, FAMILY).map_err(Failure::from);
        let read =
            files.and_then(|files| check::tree(&files.snapshot(), self.states(), self.chunk_bytes(), &mut |_, _| {}));
        answers.add(or_error(read)?);
        let compared = events::compare(db, self.entries()).map_err(Failure::from);
        let compared = compared.map(|EventCheck { events, faults }| (events, faults.len() as u64));
        answers.add(or_error(compared.map(|(exact, silent)| Answers { exact, silent, ..Answers::default() }))?);
        let verdict = kill::check(db, outcome).map(|verdict| Answers {
            exact: verdict.keys,
            silent: verdict.lost + verdict.wrong,
            ..Answers::default()
        });
        answers.add(or_error(verdict)?);
        Ok(answers)
    }
}

/// Counts corruption as one answer that is an error.
fn or_error(read: Result<Answers, Failure>) -> Result<Answers, Failure> {
    match read {
        Err(failure) if failure.is_corruption() => Ok(Answers { errors: 1, ..Answers::default() }),
        read => read,
    }
}

/// Details of the rounds for the report.
#[derive(Default)]
struct FlipDetails {
    found: Vec<String>,
    ladder: BTreeSet<String>,
    fenced: u64,
}

impl FlipDetails {
    fn note(&mut self, mended: &Findings) {
        for finding in &mended.damage {
            match finding.outcome {
                Outcome::Repaired(rung) => drop(self.ladder.insert(rung.to_string())),
                _ => self.fenced += 1,
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "it prints them")]
fn say(
    flips: FlipResults,
    rounds: u64,
    meanwhile: Answers,
    after: Answers,
    details: &FlipDetails,
    start: Instant,
    report: &mut TourReport,
    output: &mut Output,
) -> Result<(), Failure> {
    let text = format!(
        "{} flipped in the tables and blobs of a copy, in {}: {} told of",
        counted(flips.injected, "bit", "bits"),
        counted(rounds, "round", "rounds"),
        count(flips.detected)
    );
    report.step("flip", text, output)?;
    for found in &details.found {
        report.note(found, output)?;
    }
    let text = format!(
        "{} exact meanwhile, {} corruption, {} wrong",
        counted(meanwhile.exact, "answer", "answers"),
        count(meanwhile.errors),
        count(meanwhile.silent)
    );
    report.step("read", text, output)?;
    let ladder: Vec<&str> = details.ladder.iter().map(String::as_str).collect();
    let by = if ladder.is_empty() { String::new() } else { format!(" ({})", ladder.join(", ")) };
    let text = format!(
        "{} of {} made right again{by}, {} fenced ({})",
        count(flips.repaired),
        count(flips.injected),
        counted(details.fenced, "place", "places"),
        seconds(start)
    );
    report.step("repair", text, output)?;
    let text = format!(
        "{} exact, {} corruption, {} wrong after that",
        counted(after.exact, "answer", "answers"),
        count(after.errors),
        count(after.silent)
    );
    report.note(text, output)
}

/// Returns true if a report names the file as damaged.
fn names(report: &Findings, file: &str) -> bool {
    report.damage.iter().any(|finding| finding.file == file)
}

/// Returns true if the file was damaged and all its damage was repaired.
fn is_repaired(report: &Findings, file: &str) -> bool {
    let mut found = report.damage.iter().filter(|finding| finding.file == file).peekable();
    found.peek().is_some() && found.all(|finding| matches!(finding.outcome, Outcome::Repaired(_)))
}

/// Copies every file. Hard links would let the damage reach the original.
fn copy_store(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Flips one bit in each table and blob file.
fn flip_files(dir: &Path, random: &SeededRandom) -> io::Result<Vec<Flip>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tbl" || extension == "val"));
    paths.sort();
    let mut flips = Vec::new();
    for path in paths {
        let file = fs::OpenOptions::new().read(true).write(true).open(&path)?;
        let length = file.metadata()?.len();
        if length == 0 {
            continue;
        }
        let (offset, bit) = (random.below(length), random.below(8));
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset)?;
        file.write_all_at(&[byte[0] ^ 1 << bit], offset)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        flips.push(Flip { file });
    }
    Ok(flips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_of_each_file_is_flipped() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["000001.tbl", "000002.val", "000003.log"] {
            fs::write(dir.path().join(name), [0; 100]).unwrap();
        }
        let flips = flip_files(dir.path(), &SeededRandom::new(1)).unwrap();
        assert_eq!(flips.iter().map(|flip| &flip.file[..]).collect::<Vec<_>>(), ["000001.tbl", "000002.val"]);
        let ones =
            |name: &str| fs::read(dir.path().join(name)).unwrap().iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert_eq!(["000001.tbl", "000002.val", "000003.log"].map(ones), [1, 1, 0]);
    }
}
