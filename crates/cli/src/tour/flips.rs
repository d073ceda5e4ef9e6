//! Flipped bits: a copy of the store is damaged, verified, read, and repaired.
//!
//! Each round flips one bit at a random position of each table file of the copy. Then `verify` must name the file,
//! unless the store itself has reported it before. Every record is read by key and by scan, and each answer must be
//! exact or an error. Finally `repair` repairs what it can, and the next round continues with the remaining damage. A
//! wrong value, an older version, a missing record or an additional row counts as *silent* if no error is returned for
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
use waxseal::{ColumnFamily, Db, Event, Listener, RepairOptions, Report as Findings, VerifyOptions};

use super::files::ContentDigest;
use super::kill;
use super::report::{FlipResults, TourReport};
use super::seconds;
use super::steps::{NOTES, RunningTour, builder, open};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use crate::text::{count, counted};

/// Rounds continue until this many bits were flipped.
const LEAST_FLIPS: u64 = 16;
const MOST_ROUNDS: u64 = 8;
/// Number of gaps printed by name.
const PRINTED: usize = 3;

/// The answers of a store.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
struct Answers {
    exact: u64,
    errors: u64,
    silent: u64,
}

impl Answers {
    fn add(&mut self, other: Answers) {
        self.exact += other.exact;
        self.errors += other.errors;
        self.silent += other.silent;
    }
}

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

impl RunningTour {
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
            let made = flip_tables(dir, &random).map_err(|error| Failure::io(dir.display(), error))?;
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
        let db = open(dir)?;
        let after = self.read_all(&db, outcome)?;
        flips.silent += after.silent;
        db.close()?;
        drop(db);
        report.flips = flips;
        say(flips, round, answers, after, &details, start, report, output)
    }

    /// Reads every record by key, and by scan in both directions.
    fn read_all(&self, db: &Db, outcome: &kill::WriterOutcome) -> Result<Answers, Failure> {
        let mut answers = Answers::default();
        let (cf, notes) = (db.column_family("default")?, db.column_family(NOTES)?);
        answers.add(read_family(&cf, self.expected_or_none())?);
        answers.add(read_family(&notes, self.expected_notes())?);
        match super::events::events(db) {
            Ok(events) => {
                let faults = super::events::faults(self.items(), &events).len() as u64;
                answers.add(Answers { exact: events.len() as u64, silent: faults, errors: 0 });
            }
            Err(error) if error.is_corruption() => answers.errors += 1,
            Err(error) => return Err(error.into()),
        }
        match kill::check(db, outcome) {
            Ok(verdict) => {
                answers.add(Answers { exact: verdict.keys, silent: verdict.lost + verdict.wrong, errors: 0 })
            }
            Err(failure) if failure.is_corruption() => answers.errors += 1,
            Err(failure) => return Err(failure),
        }
        Ok(answers)
    }
}

/// Reads every key by `get`, then all keys by scan, forwards and backwards. Keys that must be absent have no expected
/// content.
fn read_family<'a>(
    cf: &ColumnFamily,
    expected: impl DoubleEndedIterator<Item = (&'a [u8], Option<ContentDigest>)> + Clone,
) -> Result<Answers, Failure> {
    let mut answers = Answers::default();
    for (key, content) in expected.clone() {
        match cf.get_with(key, ContentDigest::of) {
            Ok(found) if found == content => answers.exact += 1,
            Ok(_) => answers.silent += 1,
            Err(error) if error.is_corruption() => answers.errors += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let rows = expected.filter_map(|(key, content)| Some((key, content?)));
    answers.add(scan(cf, rows.clone(), true)?);
    answers.add(scan(cf, rows.rev(), false)?);
    Ok(answers)
}

/// Compares a scan with the expected records. A row may be missing only within the key range of a reported error.
fn scan<'a>(
    cf: &ColumnFamily,
    expected: impl Iterator<Item = (&'a [u8], ContentDigest)>,
    forward: bool,
) -> Result<Answers, Failure> {
    let is_ahead = |key: &[u8], of: &[u8]| if forward { key < of } else { key > of };
    let (mut answers, mut gaps) = (Answers::default(), Gaps::default());
    let mut expected = expected.peekable();
    let mut cursor = cf.cursor();
    let mut step = if forward { cursor.first() } else { cursor.last() };
    loop {
        match step {
            Err(error) if error.is_corruption() => {
                answers.errors += 1;
                gaps.note(&error);
            }
            Err(error) => return Err(error.into()),
            Ok(()) if !cursor.valid() => break,
            Ok(()) => {
                while let Some((missing, _)) = expected.next_if(|(key, _)| is_ahead(key, cursor.key())) {
                    answers.silent += u64::from(!gaps.excuse(missing));
                }
                gaps.open = false;
                match expected.next_if(|(key, _)| *key == cursor.key()) {
                    Some((_, content)) if content == ContentDigest::of(cursor.value()) => answers.exact += 1,
                    _ => answers.silent += 1, // a wrong value, or an additional row
                }
            }
        }
        step = if forward { cursor.next() } else { cursor.prev() };
    }
    answers.silent += expected.filter(|(missing, _)| !gaps.excuse(missing)).count() as u64;
    Ok(answers)
}

/// The gaps that a scan reported.
#[derive(Default)]
struct Gaps {
    spans: Vec<(Vec<u8>, Vec<u8>)>,
    /// The last step returned an error: a gap extends between the adjacent rows, whatever keys it names.
    open: bool,
}

impl Gaps {
    fn note(&mut self, error: &waxseal::Error) {
        self.open = true;
        let span = error.damage().and_then(|damage| damage.key_range.clone());
        self.spans.extend(span.filter(|span| !self.spans.contains(span)));
    }

    /// Returns true if a row with this key may be missing.
    fn excuse(&self, key: &[u8]) -> bool {
        self.open || self.spans.iter().any(|(from, to)| &from[..] <= key && key <= &to[..])
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
        "{} flipped in the tables of a copy, in {}: {} told of",
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

/// Flips one bit in each table file.
fn flip_tables(dir: &Path, random: &SeededRandom) -> io::Result<Vec<Flip>> {
    let mut tables: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    tables.retain(|path| path.extension().is_some_and(|extension| extension == "tbl"));
    tables.sort();
    let mut flips = Vec::new();
    for path in tables {
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

    fn answers(written: &[(&str, &str)], expected: &[(&str, Option<&str>)]) -> Answers {
        let db = Db::memory().unwrap();
        let cf = db.column_family("default").unwrap();
        for (key, value) in written {
            cf.put(key, value).unwrap();
        }
        let expected = expected
            .iter()
            .map(|(key, value)| (key.as_bytes(), value.map(|value| ContentDigest::of(value.as_bytes()))));
        read_family(&cf, expected).unwrap()
    }

    #[test]
    fn every_kind_of_wrong_answer_is_silent() {
        let whole = [("a", "1"), ("b", "2"), ("c", "3")];
        let all = [("a", Some("1")), ("aa", None), ("b", Some("2")), ("c", Some("3"))];
        assert_eq!(answers(&whole, &all), Answers { exact: 4 + 2 * 3, errors: 0, silent: 0 });
        assert_eq!(answers(&whole[1..], &all).silent, 3, "missing");
        assert_eq!(answers(&whole[..2], &all).silent, 3, "missing at the end");
        assert_eq!(answers(&[("a", "1"), ("b", "old"), ("c", "3")], &all).silent, 3, "another value");
        assert_eq!(answers(&[("a", "1"), ("aa", "back"), ("b", "2"), ("c", "3")], &all).silent, 3, "a row too many");
    }

    #[test]
    fn an_error_excuses_what_it_names() {
        let mut gaps = Gaps::default();
        assert!(!gaps.excuse(b"b"));
        let damage = waxseal::Damage { key_range: Some((b"b".to_vec(), b"d".to_vec())), ..waxseal::Damage::default() };
        gaps.note(&waxseal::Error::corruption(damage, "here"));
        assert!(gaps.excuse(b"z"), "before the next row");
        gaps.open = false;
        assert_eq!(["a", "b", "c", "d", "e"].map(|key| gaps.excuse(key.as_bytes())), [false, true, true, true, false]);
    }

    #[test]
    fn one_bit_of_each_table_is_flipped() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["000001.tbl", "000002.tbl", "000003.log"] {
            fs::write(dir.path().join(name), [0; 100]).unwrap();
        }
        let flips = flip_tables(dir.path(), &SeededRandom::new(1)).unwrap();
        assert_eq!(flips.iter().map(|flip| &flip.file[..]).collect::<Vec<_>>(), ["000001.tbl", "000002.tbl"]);
        let ones =
            |name: &str| fs::read(dir.path().join(name)).unwrap().iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert_eq!(["000001.tbl", "000002.tbl", "000003.log"].map(ones), [1, 1, 0]);
    }
}
