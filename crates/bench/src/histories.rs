//! `histories`: threads of a child run transactions until the child is killed; a checker builds the graph of their
//! dependencies. A cycle proves that a history is not serializable.
//!
//! Each thread appends a line to its own file before a commit, with all that the transaction read and writes, and a line
//! with the outcome; the kernel keeps both when the process dies. Every value is the number of the transaction that wrote
//! it, and a transaction reads the keys that it writes. The versions of a key are therefore a chain, whatever the order
//! of the commits: each has one successor, and the store holds the last one. A transaction without an outcome has
//! committed if any transaction or the store saw its value. The graph has an edge from the writer of a version to its
//! readers, and from these to the writer of the next version.
//!
//! Transactions work on small groups of keys, which are empty at first, and change to the next group after some commits:
//! phantoms and absent keys are frequent. The next child continues with the same store and new groups.

use crate::gate::{Gate, conclude};
use crate::measure::require_space;
use crate::workload::Random;
use crate::{Outcome, child};
use clap::{Args, ValueEnum};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use waxseal::{ColumnFamily, Db, ErrorKind, Isolation};

/// Arguments of `histories`.
#[derive(Args, Debug)]
pub struct Line {
    /// Number of kills [default: 200, or 25 with --quick].
    #[arg(long)]
    rounds: Option<u64>,
    /// Number of threads.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Isolation level; under `snapshot` cycles are expected.
    #[arg(long, default_value = "serializable")]
    isolation: Level,
    /// Seed of all random choices; the order of the threads and the time of a kill are not reproducible.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ends within a minute.
    #[arg(long)]
    quick: bool,
    /// Directory for the store [default: below the system's temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the gates with their bounds to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Arguments of the child that runs transactions.
#[derive(Args, Debug)]
pub struct RunLine {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    notes: PathBuf,
    #[arg(long)]
    threads: u64,
    #[arg(long)]
    isolation: Level,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    round: u64,
}

/// The isolation levels by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Serializable,
    Snapshot,
}

/// Minimum number of kills for a verdict.
const ENOUGH: usize = 20;
/// Maximum lifetime of a child.
const LIFE: Duration = Duration::from_millis(700);
/// Bytes of notes of the first thread after which a child has a history.
const LEAST_NOTES: u64 = 4096;
/// Keys of a group.
const KEYS: u8 = 8;
/// Transactions that a group is used for.
const PER_GROUP: u64 = 100;

/// The number of a transaction, and the value that it writes; 0 stands for an absent key.
type Number = u64;

/// A key: its group, and its place in the group.
type Key = (u64, u8);

/// The outcome of a transaction as its thread noted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    Committed,
    Conflict,
    /// The process was killed.
    Unknown,
}

/// A transaction as its thread noted it. It has read all keys that it writes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Noted {
    number: Number,
    group: u64,
    reads: BTreeMap<u8, Number>,
    writes: BTreeSet<u8>,
    ended: Ended,
}

impl Noted {
    /// Returns the line to note before the commit.
    fn line(&self) -> String {
        let mut line = format!("begin {} {} ", self.number, self.group);
        for (key, value) in &self.reads {
            let kind = if self.writes.contains(key) { 'w' } else { 'r' };
            let _ = write!(line, "{kind}{key}={value},");
        }
        line.push('\n');
        line
    }

    fn read(text: &str) -> Option<Noted> {
        let mut words = text.split(' ');
        let (number, group) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (mut reads, mut writes) = (BTreeMap::new(), BTreeSet::new());
        for read in words.next()?.split(',').filter(|read| !read.is_empty()) {
            let (kind, rest) = read.split_at_checked(1)?;
            let (key, value) = rest.split_once('=')?;
            let key = key.parse().ok()?;
            reads.insert(key, value.parse().ok()?);
            if kind == "w" {
                writes.insert(key);
            }
        }
        Some(Noted { number, group, reads, writes, ended: Ended::Unknown })
    }
}

/// Returns the transactions of a thread's file. A kill may leave the last line incomplete.
fn noted(text: &str) -> Outcome<Vec<Noted>> {
    let mut all: Vec<Noted> = Vec::new();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        match (line.split_once(' '), all.last_mut()) {
            (Some(("begin", rest)), _) => all.push(Noted::read(rest).ok_or_else(|| format!("not a note: {line}"))?),
            (None, Some(last)) if line == "committed" => last.ended = Ended::Committed,
            (None, Some(last)) if line == "conflict" => last.ended = Ended::Conflict,
            _ => return Err(format!("not a note: {line}").into()),
        }
    }
    Ok(all)
}

/// Runs transactions until it is killed. An error of the store other than a conflict ends the child.
pub fn run(line: &RunLine) -> Outcome<()> {
    let db = open(&line.dir)?;
    let cf = db.column_family("default")?;
    let begun = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..line.threads {
            let (db, cf, begun) = (&db, &cf, &begun);
            scope.spawn(move || {
                if let Err(fault) = run_one(line, db, cf, thread, begun) {
                    eprintln!("thread {thread}: {fault}");
                    std::process::exit(3);
                }
            });
        }
    });
    Ok(())
}

/// Small, so that flushes, compactions and log rotations are in progress at the kill.
fn open(dir: &Path) -> Outcome<Db> {
    Ok(Db::builder(dir).cache_bytes(8 << 20).memtable_bytes(1 << 20).create_if_missing(true).open()?)
}

fn key_bytes(round: u64, group: u64, key: u8) -> String {
    format!("{round:06}/{group:08}/{key}")
}

fn value_of(bytes: &[u8]) -> Number {
    bytes.try_into().map_or(Number::MAX, Number::from_le_bytes)
}

fn run_one(line: &RunLine, db: &Db, cf: &ColumnFamily, thread: u64, begun: &AtomicU64) -> Outcome<()> {
    let path = line.notes.join(thread.to_string());
    let mut notes = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    let mut random = Random::stream(line.seed ^ (line.round << 20), thread);
    let isolation = match line.isolation {
        Level::Serializable => Isolation::Serializable,
        Level::Snapshot => Isolation::Snapshot,
    };
    for count in 1.. {
        let group = begun.fetch_add(1, Ordering::Relaxed) / PER_GROUP;
        let number = (line.round << 40) | (thread << 32) | count;
        let transaction = db.transaction_with(isolation);
        let name = |key| key_bytes(line.round, group, key);
        let get = |key| transaction.get_with(cf, name(key), value_of).map(Option::unwrap_or_default);
        let (mut reads, mut writes) = (BTreeMap::new(), BTreeSet::new());
        for _ in 0..=random.below(2) {
            let key = random.below(KEYS.into()) as u8;
            match random.below(3) {
                0 => {
                    // Keys that the range passed without a row are absent.
                    let mut passed = KEYS - 1;
                    let mut found = BTreeMap::new();
                    let wanted = 1 + random.below(3) as usize;
                    for row in transaction.range(cf, name(key)..=name(KEYS - 1)) {
                        let (bytes, value) = row?;
                        let at = bytes.last().map_or(0, |digit| digit - b'0');
                        found.insert(at, value_of(&value));
                        if found.len() == wanted {
                            passed = at;
                            break;
                        }
                    }
                    reads.extend((key..=passed).map(|key| (key, found.get(&key).copied().unwrap_or(0))));
                }
                _ => drop(reads.insert(key, get(key)?)),
            }
            std::thread::yield_now(); // other transactions come between
        }
        if random.below(5) > 0 {
            for _ in 0..=random.below(2) {
                let key = random.below(KEYS.into()) as u8;
                reads.insert(key, get(key)?);
                writes.insert(key);
            }
        }
        for key in &writes {
            transaction.put(cf, name(*key), number.to_le_bytes())?;
        }
        notes.write_all(Noted { number, group, reads, writes, ended: Ended::Unknown }.line().as_bytes())?;
        match transaction.commit() {
            Ok(()) => notes.write_all(b"committed\n")?,
            Err(error) if *error.kind() == ErrorKind::Conflict => notes.write_all(b"conflict\n")?,
            Err(error) => return Err(error.into()),
        }
        if thread == 0 && count % 1500 == 0 {
            db.flush()?;
        }
    }
    Ok(())
}

/// The findings so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Findings {
    committed: u64,
    conflicts: u64,
    /// Committed writes that the store no longer has.
    lost: u64,
    /// Versions that nobody committed, and versions with two successors.
    wrong: u64,
    /// Histories with a cycle.
    cycles: u64,
}

/// Checks one history against the values that the store has at its end.
fn check(all: &[Noted], last: &BTreeMap<Key, Number>) -> Findings {
    let mut findings = Findings::default();
    let mut seen: HashSet<Number> = last.values().copied().collect();
    seen.extend(all.iter().flat_map(|one| one.reads.values()));
    findings.conflicts = all.iter().filter(|one| one.ended == Ended::Conflict).count() as u64;
    findings.wrong +=
        all.iter().filter(|one| one.ended == Ended::Conflict && seen.contains(&one.number)).count() as u64;
    let has_committed = |one: &&Noted| match one.ended {
        Ended::Committed => true,
        Ended::Conflict => false,
        Ended::Unknown => seen.contains(&one.number),
    };
    let committed: Vec<&Noted> = all.iter().filter(has_committed).collect();
    findings.committed = committed.len() as u64;
    let place: HashMap<Number, usize> = committed.iter().enumerate().map(|(at, one)| (one.number, at)).collect();
    // The writer of the version after a version of a key, and the number of versions of each key.
    let mut next: HashMap<(Key, Number), usize> = HashMap::new();
    let mut versions: BTreeMap<Key, u64> = BTreeMap::new();
    for (at, one) in committed.iter().enumerate() {
        for key in &one.writes {
            let before = one.reads.get(key).copied().unwrap_or(0);
            *versions.entry((one.group, *key)).or_default() += 1;
            findings.wrong += u64::from(next.insert(((one.group, *key), before), at).is_some());
        }
    }
    for (key, count) in &versions {
        let (mut value, mut steps) = (0, 0);
        while let Some(writer) = next.get(&(*key, value)).filter(|_| steps < *count) {
            value = committed[*writer].number;
            steps += 1;
        }
        let is_last = last.get(key).copied().unwrap_or(0) == value;
        findings.lost += count - steps + u64::from(!is_last);
    }
    findings.wrong += last.keys().filter(|key| !versions.contains_key(key)).count() as u64;
    let mut edges = vec![Vec::new(); committed.len()];
    for (reader, one) in committed.iter().enumerate() {
        for (key, version) in &one.reads {
            match place.get(version) {
                Some(writer) if committed[*writer].writes.contains(key) => edges[*writer].push(reader),
                _ => findings.wrong += u64::from(*version != 0),
            }
            if let Some(writer) = next.get(&((one.group, *key), *version)).filter(|writer| **writer != reader) {
                edges[reader].push(*writer);
            }
        }
    }
    findings.cycles = u64::from(has_cycle(&edges));
    findings
}

/// Removes nodes without predecessors until none is left; a cycle stays.
fn has_cycle(edges: &[Vec<usize>]) -> bool {
    let mut before = vec![0; edges.len()];
    edges.iter().flatten().for_each(|to| before[*to] += 1);
    let mut free: Vec<usize> = (0..edges.len()).filter(|at| before[*at] == 0).collect();
    let mut removed = 0;
    while let Some(at) = free.pop() {
        removed += 1;
        for to in &edges[at] {
            before[*to] -= 1;
            if before[*to] == 0 {
                free.push(*to);
            }
        }
    }
    removed < edges.len()
}

/// Runs the experiment.
pub fn histories(line: &Line) -> Outcome<u8> {
    let started = Instant::now();
    let at_most = Duration::from_secs(if line.quick { 45 } else { 270 });
    let rounds = line.rounds.unwrap_or(if line.quick { 25 } else { 200 });
    let name = format!("waxseal-histories-{}", std::process::id());
    let dir = line.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    require_space(&dir, 2 << 30)?;
    let mut random = Random::stream(line.seed, 0xdead);
    let (mut all, mut kills, mut refused, mut unfaithful) = (Findings::default(), 0, 0, 0);
    for round in 0..rounds {
        // An explicit number of rounds is completed regardless of time.
        if line.rounds.is_none() && started.elapsed() >= at_most {
            break;
        }
        let notes = dir.join(format!("notes{round}"));
        std::fs::create_dir_all(&notes)?;
        if !live_and_die(line, &dir.join("store"), &notes, round, LIFE.mul_f64(random.unit()))? {
            unfaithful += 1;
        }
        kills += 1;
        let last = match contents(&dir.join("store"), round) {
            Ok(last) => last,
            Err(fault) => {
                eprintln!("round {round}: {fault}");
                refused += 1;
                break;
            }
        };
        let mut transactions = Vec::new();
        for thread in 0..line.threads {
            let text = std::fs::read_to_string(notes.join(thread.to_string())).unwrap_or_default();
            transactions.extend(noted(&text)?);
        }
        let found = check(&transactions, &last);
        all.committed += found.committed;
        all.conflicts += found.conflicts;
        all.lost += found.lost;
        all.wrong += found.wrong;
        all.cycles += found.cycles;
        if found.lost + found.wrong + found.cycles > 0 {
            eprintln!("round {round}: {found:?}, see {}", notes.display());
            break;
        }
        std::fs::remove_dir_all(&notes)?;
    }
    println!(
        "histories: {kills} kills, {} transactions committed, {} conflicts, {} lost, {} wrong, {} histories with a cycle, \
         {refused} opens refused, {unfaithful} children that failed by themselves",
        all.committed, all.conflicts, all.lost, all.wrong, all.cycles
    );
    if all.lost + all.wrong + all.cycles + refused + unfaithful == 0 {
        std::fs::remove_dir_all(&dir)?;
    } else {
        println!("kept for a look: {}", dir.display());
    }
    let enough = if all.conflicts > 0 { ENOUGH } else { usize::MAX };
    let none = |id, metric, count| Gate::none_allowed(id, metric, count, kills, enough, line.seed);
    let gates = [
        none("histories.cycles", "histories", all.cycles),
        none("histories.wrong", "versions", all.wrong),
        none("histories.lost", "committed_writes", all.lost),
        none("histories.refused", "opens", refused),
        none("histories.failed", "children", unfaithful),
    ];
    conclude(&gates, line.json.as_deref())
}

/// Runs one child until the kill. Returns false if it ended earlier, because of an error.
fn live_and_die(line: &Line, store: &Path, notes: &Path, round: u64, life: Duration) -> Outcome<bool> {
    let isolation = line.isolation.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let numbers = [line.threads, line.seed, round].map(|number| number.to_string());
    let [threads, seed, number] = &numbers;
    let arguments =
        ["histories-run", "--threads", threads, "--seed", seed, "--round", number, "--isolation", &isolation];
    let mut child = child::command(arguments)?
        .arg("--dir")
        .arg(store)
        .arg("--notes")
        .arg(notes)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::inherit())
        .spawn()?;
    // Every fourth child may be killed while it recovers the store; the others have a history first.
    let is_early = round % 4 == 3;
    let has_history = || std::fs::metadata(notes.join("0")).is_ok_and(|file| file.len() >= LEAST_NOTES);
    while !is_early && !has_history() && child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(life);
    let ended_before = child.try_wait()?.is_some();
    if !ended_before {
        child.kill()?;
        child.wait()?;
    }
    Ok(!ended_before)
}

/// Returns the values of a round's keys.
fn contents(store: &Path, round: u64) -> Outcome<BTreeMap<Key, Number>> {
    let db = open(store)?;
    let mut values = BTreeMap::new();
    for row in db.column_family("default")?.prefix(format!("{round:06}/")) {
        let (key, value) = row?;
        let text = String::from_utf8_lossy(&key);
        let parsed = text.rsplit_once('/').and_then(|(head, key)| {
            Some(((head.rsplit_once('/')?.1.parse().ok()?, key.parse().ok()?), value_of(&value)))
        });
        let (key, value) = parsed.ok_or_else(|| format!("{text} is a key that nobody wrote"))?;
        values.insert(key, value);
    }
    db.close()?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction of group 0.
    fn one(number: Number, reads: &[(u8, Number)], writes: &[u8], ended: Ended) -> Noted {
        let (reads, writes) = (reads.iter().copied().collect(), writes.iter().copied().collect());
        Noted { number, group: 0, reads, writes, ended }
    }

    fn checked(all: &[Noted], last: &[(u8, Number)]) -> (u64, u64, u64, u64) {
        let found = check(all, &last.iter().map(|(key, value)| ((0, *key), *value)).collect());
        (found.committed, found.lost, found.wrong, found.cycles)
    }

    use Ended::{Committed, Conflict, Unknown};

    #[test]
    fn a_note_reads_as_it_was_written() {
        let (first, second) = (one(7, &[(1, 0), (2, 5)], &[2], Committed), one(8, &[(0, 0)], &[], Conflict));
        let text = format!("{}committed\n{}conflict\n{}", first.line(), second.line(), "begin 9 0 w1=0");
        assert_eq!(noted(&text).expect("notes"), [first.clone(), second]);
        let unknown = Noted { ended: Unknown, ..first };
        assert_eq!(noted(&unknown.line()).expect("a note"), [unknown]);
        assert!(noted("nothing\n").is_err() && noted("begin 1\n").is_err());
    }

    #[test]
    fn a_serial_history_has_no_findings() {
        let all = [
            one(1, &[(0, 0), (1, 0)], &[0, 1], Committed),
            one(2, &[(0, 1), (1, 1)], &[0], Committed),
            one(3, &[(0, 2), (1, 1)], &[], Committed),
            one(4, &[(0, 1)], &[0], Conflict),
            one(5, &[(1, 1)], &[1], Unknown), // committed: the store has its value
            one(6, &[(0, 2)], &[0], Unknown), // not committed
        ];
        assert_eq!(checked(&all, &[(0, 2), (1, 5)]), (4, 0, 0, 0));
    }

    #[test]
    fn anomalies_are_found() {
        let skew = [one(1, &[(0, 0), (1, 0)], &[0], Committed), one(2, &[(0, 0), (1, 0)], &[1], Committed)];
        assert_eq!(checked(&skew, &[(0, 1), (1, 2)]), (2, 0, 0, 1));
        let lost_update = [one(1, &[(0, 0)], &[0], Committed), one(2, &[(0, 0)], &[0], Committed)];
        let (_, lost, wrong, _) = checked(&lost_update, &[(0, 2)]);
        assert!(lost > 0 && wrong > 0);
        let lost_commit = [one(1, &[(0, 0)], &[0], Committed)];
        assert_eq!(checked(&lost_commit, &[]), (1, 1, 0, 0));
        let dirty = [one(1, &[(0, 0)], &[0], Conflict), one(2, &[(0, 1)], &[], Committed)];
        assert!(checked(&dirty, &[]).2 > 0);
        assert_eq!(checked(&[], &[(0, 9)]), (0, 0, 1, 0));
        // Two readers see two independent writes in different orders.
        let fork = [
            one(1, &[(0, 0)], &[0], Committed),
            one(2, &[(1, 0)], &[1], Committed),
            one(3, &[(0, 1), (1, 0)], &[], Committed),
            one(4, &[(0, 0), (1, 2)], &[], Committed),
        ];
        assert_eq!(checked(&fork, &[(0, 1), (1, 2)]), (4, 0, 0, 1));
    }
}
