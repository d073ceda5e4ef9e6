//! `flip`: the effects of one flipped bit.
//!
//! For each store a child writes known operations, some of them flushed to tables, all of them synced, and copies the
//! store while it is open. Each trial restores that copy, flips one random bit of one file (never in a lock file, and
//! only in nonempty sectors), and has another child open it and read everything. The result is one of: exact, repaired,
//! an error, a reported cut, a rejected open, a panic, or one of the two forbidden ones: a silent loss, a silent wrong
//! answer.
//!
//! Parent and children share only a seed, from which all three derive the same operations.

use crate::engine::{self, Engine, Findings, Name, Op, Reader, Rows, Settings, Start, View};
use crate::gate::{Gate, conclude};
use crate::measure::require_space;
use crate::stats::median;
use crate::workload::Random;
use crate::{Outcome, child};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `flip`.
#[derive(Args, Debug)]
pub struct Line {
    /// Stores, separated by commas [default: all of this build].
    #[arg(long, value_delimiter = ',')]
    engines: Vec<Name>,
    /// Flips per store [default: 600, or 60 with --quick].
    #[arg(long)]
    trials: Option<u64>,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ends within a minute.
    #[arg(long)]
    quick: bool,
    /// Directory for the copies [default: below the system's temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the gates with their bounds to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Arguments of the child that fills.
#[derive(Args, Debug)]
pub struct FillLine {
    #[arg(long)]
    engine: Name,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    image: PathBuf,
    #[arg(long)]
    seed: u64,
}

/// Arguments of the child that opens a damaged copy.
#[derive(Args, Debug)]
pub struct CheckLine {
    #[arg(long)]
    engine: Name,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    seed: u64,
}

/// A child without an answer after this time hangs, which counts as a panic.
const PATIENCE: Duration = Duration::from_secs(20);
/// Minimum number of flips per kind of file for a verdict.
const ENOUGH: usize = 100;
const SETTINGS: Settings = Settings::new(8 << 20, 64 << 20);

/// The purpose of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Wal,
    Table,
    Meta,
}

/// Returns the purpose of a byte of a store's file; `None` for locks and for text files that no store reads. In
/// single-file stores the offset decides: their first pages are the equivalent of a manifest.
fn kind(name: Name, path: &str, offset: u64) -> Option<Kind> {
    let file = path.rsplit('/').next().unwrap_or(path);
    match name {
        Name::Null => None,
        Name::Waxseal | Name::Plain => match file.rsplit('.').next() {
            _ if file == "LOCK" => None,
            Some("log" | "ring") => Some(Kind::Wal),
            Some("tbl" | "val") => Some(Kind::Table),
            _ => Some(Kind::Meta),
        },
        Name::Fjall if file == "lock" => None,
        Name::Fjall if file.ends_with(".jnl") => Some(Kind::Wal),
        Name::Fjall if path.contains("/tables/") => Some(Kind::Table),
        Name::Fjall => Some(Kind::Meta),
        Name::Redb => Some(if offset < 4096 { Kind::Meta } else { Kind::Table }),
        Name::Lmdb if file == "lock.mdb" => None,
        Name::Lmdb => Some(if offset < 8192 { Kind::Meta } else { Kind::Table }),
        Name::Rocksdb | Name::RocksdbStrict => match file.rsplit('.').next() {
            _ if file == "LOCK" || file.starts_with("LOG") => None,
            Some("log") => Some(Kind::Wal),
            Some("sst") => Some(Kind::Table),
            _ => Some(Kind::Meta),
        },
    }
}

/// The result of a trial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
enum Ending {
    Exact,
    Repaired,
    Error,
    CutReported,
    OpenRefused,
    Panic,
    SilentLoss,
    SilentWrong,
}

/// The findings of a child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Found {
    ending: Ending,
    /// Live records that were not returned exactly.
    lost: u64,
    note: String,
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Tally {
    engine: &'static str,
    kind: Kind,
    exact: u64,
    repaired: u64,
    error: u64,
    cut_reported: u64,
    open_refused: u64,
    panic: u64,
    silent_loss: u64,
    silent_wrong: u64,
    records_lost_median: f64,
}

/// At least the size of values that are stored in separate files, in stores with key-value separation.
const LARGE_BYTES: usize = 5_000;

/// Returns the known history: three phases, with a flush after each of the first two.
fn history(seed: u64) -> [Vec<Op>; 3] {
    let mut random = Random::stream(seed, 0xf11b);
    [(1_500, 0), (700, 15), (400, 15)].map(|(count, deletes)| {
        (0..count)
            .map(|_| {
                let key = format!("{:016}", random.below(1_200)).into_bytes();
                let length = if random.below(20) == 0 { LARGE_BYTES } else { 100 };
                let value = (random.below(100) >= deletes).then(|| (0..length).map(|_| random.word() as u8).collect());
                Op { key, value }
            })
            .collect()
    })
}

/// Fills a store, copies it while it is open, and ends without closing it.
pub fn fill(line: &FillLine) -> Outcome<()> {
    let store = engine::open(line.engine, &line.dir, &SETTINGS)?;
    for (phase, ops) in history(line.seed).into_iter().enumerate() {
        let last = ops.len() - 1;
        for (number, op) in ops.into_iter().enumerate() {
            // Records that end up in tables need no sync of their own; records that stay in the log are synced
            // individually.
            let sync = phase == 2 || number % 8 == 7 || number == last;
            match op.value {
                Some(value) => store.put(&op.key, &value, sync)?,
                None => store.delete(&op.key, sync)?,
            }
        }
        match phase {
            0 => store.flush()?,
            1 => drop(store.settle()?),
            _ => {}
        }
    }
    Image::of(&line.dir)?.write(&line.image)?;
    std::process::exit(0)
}

/// Opens a damaged copy, reads everything, and prints the findings.
pub fn check(line: &CheckLine) -> Outcome<()> {
    static PANICS: AtomicU32 = AtomicU32::new(0);
    std::panic::set_hook(Box::new(|panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        eprintln!("{panic}");
    }));
    let ops: Vec<Op> = history(line.seed).into_iter().flatten().collect();
    let mut found = match engine::open(line.engine, &line.dir, &SETTINGS) {
        Err(fault) => Found { ending: Ending::OpenRefused, lost: state(&ops).len() as u64, note: fault.to_string() },
        Ok(store) => judge(&ops, &read(store.as_ref(), &ops)?, store.findings()),
    };
    if PANICS.load(Ordering::Relaxed) > 0 {
        found.ending = Ending::Panic;
    }
    println!("{}", serde_json::to_string(&found)?);
    // Closing a damaged store is not tested here, and may wait for its threads.
    std::process::exit(0)
}

/// The answers of a complete read.
#[derive(Default)]
struct Answers {
    /// The result of a look-up for each key ever written.
    points: BTreeMap<Vec<u8>, Result<Option<Vec<u8>>, String>>,
    /// Rows of the scan, and its error if it failed.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    scan: Option<String>,
}

fn read(store: &dyn Engine, ops: &[Op]) -> Outcome<Answers> {
    let mut answers = Answers::default();
    let mut reader: Box<dyn Reader> = store.reader(View::Latest)?;
    for op in ops {
        if !answers.points.contains_key(&op.key) {
            let answer = reader.fetch(&op.key).map_err(|fault| fault.to_string());
            answers.points.insert(op.key.clone(), answer);
        }
    }
    let rows = &mut answers.rows;
    let mut each = |key: &[u8], value: &[u8]| rows.push((key.to_vec(), value.to_vec()));
    answers.scan = reader.scan(Start::First, &mut Rows::shown(&mut each)).err().map(|fault| fault.to_string());
    Ok(answers)
}

fn state(ops: &[Op]) -> BTreeMap<&[u8], &[u8]> {
    let mut state = BTreeMap::new();
    for op in ops {
        match &op.value {
            Some(value) => state.insert(op.key.as_slice(), value.as_slice()),
            None => state.remove(op.key.as_slice()),
        };
    }
    state
}

/// Decides the result of a trial. An error is a reported failure; a differing answer is silent, unless the store
/// reported a cut and its state equals that after some earlier operation.
fn judge(ops: &[Op], answers: &Answers, findings: Findings) -> Found {
    let expected = state(ops);
    let point_of = |key: &[u8]| answers.points.get(key);
    let exact = |key: &[u8], value: &[u8]| matches!(point_of(key), Some(Ok(Some(found))) if found == value);
    let lost = expected.iter().filter(|(key, value)| !exact(key, value)).count() as u64;
    let errors = answers.points.values().filter(|answer| answer.is_err()).count();
    let first_error = answers.points.values().find_map(|answer| answer.as_ref().err()).or(answers.scan.as_ref());
    let note = first_error.cloned().unwrap_or_default();
    let found = |ending, note| Found { ending, lost, note };

    let kept = longest_prefix(ops, answers);
    if kept == Some(ops.len()) {
        return match scan_differs(&expected, answers) {
            Some(ending) => found(ending, "the scan differs from the point reads".into()),
            None if errors > 0 || answers.scan.is_some() => found(Ending::Error, note),
            None if findings.repaired => found(Ending::Repaired, note),
            None => found(Ending::Exact, note),
        };
    }
    if let Some(kept) = kept {
        let ending = if findings.cut { Ending::CutReported } else { Ending::SilentLoss };
        return found(ending, format!("{} operations missing from the end", ops.len() - kept));
    }
    let is_wrong = |(key, answer): (&Vec<u8>, &Result<Option<Vec<u8>>, String>)| match answer {
        Ok(Some(value)) => expected.get(key.as_slice()) != Some(&value.as_slice()),
        _ => false,
    };
    let ending = if answers.points.iter().any(is_wrong) { Ending::SilentWrong } else { Ending::SilentLoss };
    found(ending, "no state that the store ever had".into())
}

/// Returns the longest prefix of the operations whose state agrees with every answer other than an error.
fn longest_prefix(ops: &[Op], answers: &Answers) -> Option<usize> {
    let agrees = |key: &[u8], value: Option<&Vec<u8>>| match answers.points.get(key) {
        Some(Ok(found)) => found.as_ref() == value,
        _ => true,
    };
    let mut current: BTreeMap<&[u8], Option<&Vec<u8>>> = ops.iter().map(|op| (op.key.as_slice(), None)).collect();
    let mut differing = current.keys().filter(|key| !agrees(key, None)).count();
    let mut longest = (differing == 0).then_some(0);
    for (done, op) in ops.iter().enumerate() {
        let before = current.insert(&op.key, op.value.as_ref()).flatten();
        differing -= usize::from(!agrees(&op.key, before));
        differing += usize::from(!agrees(&op.key, op.value.as_ref()));
        if differing == 0 {
            longest = Some(done + 1);
        }
    }
    longest
}

/// Compares the rows of a scan with the expected ones; rows after an error are not required.
fn scan_differs(expected: &BTreeMap<&[u8], &[u8]>, answers: &Answers) -> Option<Ending> {
    let mut rest = expected.iter();
    for (key, value) in &answers.rows {
        match rest.next() {
            Some((expected_key, expected_value))
                if *expected_key == key.as_slice() && *expected_value == value.as_slice() => {}
            Some((expected_key, _)) if *expected_key < key.as_slice() && expected.contains_key(key.as_slice()) => {
                return Some(Ending::SilentLoss);
            }
            _ => return Some(Ending::SilentWrong),
        }
    }
    (answers.scan.is_none() && rest.next().is_some()).then_some(Ending::SilentLoss)
}

/// A store's files in memory, without their holes.
struct Image {
    files: Vec<ImageFile>,
}

struct ImageFile {
    path: String,
    len: u64,
    /// Nonempty sectors, by offset.
    sectors: Vec<(u64, Vec<u8>)>,
}

impl Image {
    const SECTOR: usize = 512;

    fn of(dir: &Path) -> Outcome<Image> {
        let mut image = Image { files: Vec::new() };
        image.take(dir, "")?;
        image.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(image)
    }

    fn take(&mut self, dir: &Path, prefix: &str) -> Outcome<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.take(&entry.path(), &format!("{path}/"))?;
            } else {
                self.files.push(ImageFile::read(&entry.path(), path)?);
            }
        }
        Ok(())
    }

    /// Writes the image to a directory.
    fn write(&self, dir: &Path) -> Outcome<()> {
        use std::os::unix::fs::FileExt;
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        std::fs::create_dir_all(dir)?;
        for file in &self.files {
            let path = dir.join(&file.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let out = std::fs::File::create(&path)?;
            out.set_len(file.len)?;
            for (offset, sector) in &file.sectors {
                out.write_all_at(sector, *offset)?;
            }
        }
        Ok(())
    }

    /// Returns the positions of one kind at which a bit may be flipped: file and sector.
    fn places(&self, name: Name, wanted: Kind) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            for (sector, (offset, _)) in file.sectors.iter().enumerate() {
                if kind(name, &file.path, *offset) == Some(wanted) {
                    places.push((at, sector));
                }
            }
        }
        places
    }
}

impl ImageFile {
    fn read(from: &Path, path: String) -> Outcome<ImageFile> {
        use std::io::Read;
        let mut file = std::fs::File::open(from)?;
        let len = file.metadata()?.len();
        let mut sectors = Vec::new();
        let mut chunk = vec![0u8; 1 << 20];
        let mut at = 0u64;
        loop {
            let mut got = 0;
            while got < chunk.len() {
                match file.read(&mut chunk[got..])? {
                    0 => break,
                    more => got += more,
                }
            }
            for (place, sector) in chunk[..got].chunks(Image::SECTOR).enumerate() {
                if sector.iter().any(|byte| *byte != 0) {
                    sectors.push((at + (place * Image::SECTOR) as u64, sector.to_vec()));
                }
            }
            at += got as u64;
            if got < chunk.len() {
                return Ok(ImageFile { path, len, sectors });
            }
        }
    }
}

/// Runs the experiment.
pub fn flip(line: &Line) -> Outcome<u8> {
    let started = Instant::now();
    let at_most = Duration::from_secs(if line.quick { 50 } else { 270 });
    let trials = line.trials.unwrap_or(if line.quick { 60 } else { 600 });
    let mut engines: Vec<Name> = if line.engines.is_empty() { Name::built() } else { line.engines.clone() };
    engines.retain(|name| *name != Name::Null);
    if let Some(missing) = engines.iter().find(|name| !name.is_built()) {
        return Err(engine::not_built(*missing));
    }
    let dir =
        line.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("waxseal-flip-{}", std::process::id())));
    require_space(&dir, 1 << 30)?;
    let mut tallies = Vec::new();
    for (place, name) in engines.iter().enumerate() {
        // The remaining time is shared evenly; an explicit number of trials is completed regardless of time.
        let share = at_most.saturating_sub(started.elapsed()) / (engines.len() - place) as u32;
        let until = line.trials.is_none().then(|| Instant::now() + share);
        let endings = trials_of(*name, &dir, trials, line.seed, until)?;
        for tally in tally(*name, &endings) {
            println!("{}", serde_json::to_string(&tally)?);
            tallies.push(tally);
        }
    }
    std::fs::remove_dir_all(&dir)?;
    conclude(&gates(&tallies, line.seed), line.json.as_deref())
}

fn trials_of(name: Name, dir: &Path, trials: u64, seed: u64, until: Option<Instant>) -> Outcome<Vec<(Kind, Found)>> {
    let (store, copy) = (dir.join("store"), dir.join("copy"));
    for dir in [&store, &copy] {
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
    }
    let seed_text = seed.to_string();
    let arguments = |verb: &str| {
        [verb.to_owned(), "--engine".into(), name.text().into(), "--seed".into(), seed_text.clone(), "--dir".into()]
    };
    let filler = child::command(arguments("flip-fill"))?.arg(&store).arg("--image").arg(&copy).spawn()?;
    let ended = child::finish(filler, Duration::from_secs(120))?;
    if !ended.status.is_some_and(|status| status.success()) {
        return Err(format!("filling {} failed: {}", name.text(), ended.complaint.trim()).into());
    }
    let mut image = Image::of(&copy)?;
    let places: Vec<(Kind, Vec<(usize, usize)>)> = [Kind::Wal, Kind::Table, Kind::Meta]
        .into_iter()
        .map(|kind| (kind, image.places(name, kind)))
        .filter(|(_, places)| !places.is_empty())
        .collect();
    // The control: without a flip everything must be returned, or the harness itself is faulty.
    let control = understood(&child::finish(child::command(arguments("flip-check"))?.arg(&copy).spawn()?, PATIENCE)?);
    if control.ending != Ending::Exact {
        return Err(format!("{} does not come back from an undamaged copy: {control:?}", name.text()).into());
    }
    let mut endings = Vec::new();
    for trial in 0..trials {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let mut random = Random::stream(seed, 1 + trial);
        let (kind, places) = &places[trial as usize % places.len()];
        let (file, sector) = places[random.below(places.len() as u64) as usize];
        let bytes = &mut image.files[file].sectors[sector].1;
        let bit = random.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let written = image.write(&copy);
        image.files[file].sectors[sector].1[bit / 8] ^= 1 << (bit % 8);
        written?;
        let checker = child::command(arguments("flip-check"))?.arg(&copy).spawn()?;
        let found = understood(&child::finish(checker, PATIENCE)?);
        if matches!(found.ending, Ending::SilentLoss | Ending::SilentWrong | Ending::Panic)
            && matches!(name, Name::Waxseal | Name::Plain)
        {
            let at = image.files[file].sectors[sector].0 + bit as u64 / 8;
            eprintln!(
                "{}: seed {seed} trial {trial}: {} byte {at} bit {}: {found:?}",
                name.text(),
                image.files[file].path,
                bit % 8
            );
        }
        endings.push((*kind, found));
    }
    Ok(endings)
}

/// A child that died, hung or printed nothing counts as a panic.
fn understood(ended: &child::Ended) -> Found {
    let said = ended.output.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match (ended.status, said) {
        (Some(status), Some(found)) if status.success() => found,
        (Some(status), _) => {
            Found { ending: Ending::Panic, lost: 0, note: format!("{status}: {}", ended.complaint.trim()) }
        }
        (None, _) => Found { ending: Ending::Panic, lost: 0, note: "did not end".into() },
    }
}

fn tally(name: Name, endings: &[(Kind, Found)]) -> Vec<Tally> {
    let kinds: BTreeSet<Kind> = endings.iter().map(|(kind, _)| *kind).collect();
    kinds
        .into_iter()
        .map(|kind| {
            let of_kind = || endings.iter().filter(move |(of, _)| *of == kind).map(|(_, found)| found);
            let count = |ending| of_kind().filter(|found| found.ending == ending).count() as u64;
            let lost: Vec<f64> = of_kind()
                .filter(|found| found.lost > 0 && !matches!(found.ending, Ending::OpenRefused | Ending::Panic))
                .map(|found| found.lost as f64)
                .collect();
            Tally {
                engine: name.text(),
                kind,
                exact: count(Ending::Exact),
                repaired: count(Ending::Repaired),
                error: count(Ending::Error),
                cut_reported: count(Ending::CutReported),
                open_refused: count(Ending::OpenRefused),
                panic: count(Ending::Panic),
                silent_loss: count(Ending::SilentLoss),
                silent_wrong: count(Ending::SilentWrong),
                records_lost_median: median(&lost),
            }
        })
        .collect()
}

impl Tally {
    fn trials(&self) -> u64 {
        self.exact
            + self.repaired
            + self.error
            + self.cut_reported
            + self.open_refused
            + self.panic
            + self.silent_loss
            + self.silent_wrong
    }
}

/// Gates apply only to our own store; the peers' results are printed for comparison.
fn gates(tallies: &[Tally], seed: u64) -> Vec<Gate> {
    let ours = || tallies.iter().filter(|tally| tally.engine == Name::Waxseal.text());
    let sum = |count: fn(&Tally) -> u64| ours().map(count).sum::<u64>();
    let least = ours().map(|tally| tally.trials() as usize).min().unwrap_or(0);
    let table_refusals = ours().filter(|tally| tally.kind == Kind::Table).map(|tally| tally.open_refused).sum();
    vec![
        Gate::none_allowed("flip.silent_loss", "trials", sum(|tally| tally.silent_loss), least, ENOUGH, seed),
        Gate::none_allowed("flip.silent_wrong", "trials", sum(|tally| tally.silent_wrong), least, ENOUGH, seed),
        Gate::none_allowed("flip.panic", "trials", sum(|tally| tally.panic), least, ENOUGH, seed),
        Gate::none_allowed("flip.table_refuses_open", "trials", table_refusals, least, ENOUGH, seed),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(key: &str, value: Option<&str>) -> Op {
        Op { key: key.into(), value: value.map(Into::into) }
    }

    fn ops() -> Vec<Op> {
        vec![op("a", Some("1")), op("b", Some("1")), op("a", Some("2")), op("b", None), op("c", Some("1"))]
    }

    fn answers(points: &[(&str, Result<Option<&str>, &str>)], rows: &[(&str, &str)], scan: Option<&str>) -> Answers {
        Answers {
            points: points
                .iter()
                .map(|(key, answer)| {
                    (key.as_bytes().to_vec(), answer.map(|found| found.map(Into::into)).map_err(Into::into))
                })
                .collect(),
            rows: rows.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect(),
            scan: scan.map(Into::into),
        }
    }

    fn ending(answers: &Answers, cut: bool, repaired: bool) -> (Ending, u64) {
        let found = judge(&ops(), answers, Findings { cut, repaired });
        (found.ending, found.lost)
    }

    #[test]
    fn the_whole_state_is_exact_or_repaired() {
        let whole =
            answers(&[("a", Ok(Some("2"))), ("b", Ok(None)), ("c", Ok(Some("1")))], &[("a", "2"), ("c", "1")], None);
        assert_eq!(ending(&whole, false, false), (Ending::Exact, 0));
        assert_eq!(ending(&whole, false, true), (Ending::Repaired, 0));
    }

    #[test]
    fn an_error_is_loud() {
        let loud =
            answers(&[("a", Ok(Some("2"))), ("b", Ok(None)), ("c", Err("damaged"))], &[("a", "2")], Some("damaged"));
        assert_eq!(ending(&loud, false, false), (Ending::Error, 1));
    }

    #[test]
    fn an_earlier_state_is_a_loss_and_silent_unless_reported() {
        let earlier =
            answers(&[("a", Ok(Some("2"))), ("b", Ok(Some("1"))), ("c", Ok(None))], &[("a", "2"), ("b", "1")], None);
        assert_eq!(ending(&earlier, false, false), (Ending::SilentLoss, 1));
        assert_eq!(ending(&earlier, true, false), (Ending::CutReported, 1));
    }

    #[test]
    fn an_old_value_beside_new_ones_is_wrong_even_after_a_reported_cut() {
        let mixed =
            answers(&[("a", Ok(Some("1"))), ("b", Ok(None)), ("c", Ok(Some("1")))], &[("a", "1"), ("c", "1")], None);
        assert_eq!(ending(&mixed, true, false), (Ending::SilentWrong, 1));
        let deleted_again = answers(&[("a", Ok(Some("2"))), ("b", Ok(Some("1"))), ("c", Ok(Some("1")))], &[], None);
        assert_eq!(ending(&deleted_again, false, false), (Ending::SilentWrong, 0));
    }

    #[test]
    fn a_hole_is_a_silent_loss() {
        let hole = answers(&[("a", Ok(None)), ("b", Ok(None)), ("c", Ok(Some("1")))], &[("c", "1")], None);
        assert_eq!(ending(&hole, false, false), (Ending::SilentLoss, 1));
    }

    #[test]
    fn a_scan_that_ends_early_without_an_error_is_a_silent_loss() {
        let points: &[(&str, Result<Option<&str>, &str>)] =
            &[("a", Ok(Some("2"))), ("b", Ok(None)), ("c", Ok(Some("1")))];
        assert_eq!(ending(&answers(points, &[("a", "2")], None), false, false).0, Ending::SilentLoss);
        assert_eq!(ending(&answers(points, &[("c", "1")], None), false, false).0, Ending::SilentLoss);
        assert_eq!(ending(&answers(points, &[("a", "2")], Some("damaged")), false, false).0, Ending::Error);
        assert_eq!(ending(&answers(points, &[("a", "1")], None), false, false).0, Ending::SilentWrong);
        assert_eq!(ending(&answers(points, &[("a", "2"), ("b", "1")], None), false, false).0, Ending::SilentWrong);
    }

    #[test]
    fn files_are_told_apart_by_name_and_single_files_by_offset() {
        assert_eq!(kind(Name::Waxseal, "000003.ring", 0), Some(Kind::Wal));
        assert_eq!(kind(Name::Waxseal, "000003.tbl", 0), Some(Kind::Table));
        assert_eq!(kind(Name::Waxseal, "MANIFEST-000001", 0), Some(Kind::Meta));
        assert_eq!(kind(Name::Waxseal, "LOCK", 0), None);
        assert_eq!(kind(Name::Fjall, "keyspaces/1/tables/0", 0), Some(Kind::Table));
        assert_eq!(kind(Name::Fjall, "0.jnl", 0), Some(Kind::Wal));
        assert_eq!(kind(Name::Fjall, "keyspaces/1/current", 0), Some(Kind::Meta));
        assert_eq!(kind(Name::Lmdb, "data.mdb", 4096), Some(Kind::Meta));
        assert_eq!(kind(Name::Lmdb, "data.mdb", 8192), Some(Kind::Table));
        assert_eq!(kind(Name::Rocksdb, "000004.log", 0), Some(Kind::Wal));
        assert_eq!(kind(Name::Rocksdb, "LOG.old.1", 0), None);
    }

    #[test]
    fn an_image_gives_the_directory_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(from.join("below")).expect("created");
        let mut bytes = vec![0u8; 10_000];
        bytes[600] = 7;
        bytes[9_999] = 9;
        std::fs::write(from.join("below/file"), &bytes).expect("written");
        std::fs::write(from.join("empty"), b"").expect("written");
        let image = Image::of(&from).expect("read");
        image.write(&to).expect("written");
        assert_eq!(std::fs::read(to.join("below/file")).expect("read"), bytes);
        assert_eq!(std::fs::read(to.join("empty")).expect("read"), b"");
        assert_eq!(image.files[0].sectors.len(), 2);
    }
}
