//! `killloop`: a child writes with several threads and is killed; every acknowledged write must exist afterwards.
//!
//! Each thread has its own keys and its own sequence of operations, derived from the seed. After an acknowledgement it
//! appends the operation's number to its own file, which the kernel keeps when the process dies. After the kill, each
//! thread's keys must show all acknowledged operations, and either the whole operation in flight or no part of it. The
//! next child continues with the same store. Some children are killed during recovery.

use crate::engine::{self, Engine, Name, Op, Rows, Settings, Start, View};
use crate::gate::{Gate, conclude};
use crate::measure::require_space;
use crate::workload::{Random, fmix64};
use crate::{Outcome, child};
use clap::Args;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `killloop`.
#[derive(Args, Debug)]
pub struct Line {
    /// The store.
    #[arg(long, default_value = "waxseal")]
    engine: Name,
    /// Number of kills [default: 200, or 25 with --quick].
    #[arg(long)]
    rounds: Option<u64>,
    /// Number of writing threads.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Seed of all random choices; the time of a kill is not reproducible.
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

/// Arguments of the child that writes.
#[derive(Args, Debug)]
pub struct WriteLine {
    #[arg(long)]
    engine: Name,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    acks: PathBuf,
    #[arg(long)]
    seed: u64,
    /// The next operation of each thread.
    #[arg(long, value_delimiter = ',')]
    from: Vec<u64>,
}

/// Minimum number of kills for a verdict.
const ENOUGH: usize = 20;
/// Small, so that flushes, compactions and log rotations are in progress at the kill.
const SETTINGS: Settings = Settings::new(8 << 20, 1 << 20);
const SLOTS: u64 = 400;
/// Maximum lifetime of a child.
const LIFE: Duration = Duration::from_millis(700);

/// Returns the `number`th operation of a thread, and whether it is synced.
fn operation(seed: u64, thread: u64, number: u64) -> (Vec<Op>, bool) {
    let mut random = Random::stream(fmix64(seed ^ (thread << 48)), number);
    let sync = random.below(10) == 0;
    let count = if random.below(10) == 0 { 2 + random.below(7) } else { 1 };
    let ops = (0..count)
        .map(|_| {
            let key = format!("thread{thread:02}/{:06}", random.below(SLOTS)).into_bytes();
            let len = match random.below(1000) {
                0..50 => None,
                // Larger than a quarter of a 4 MiB ring; rare, because such writes are slow.
                50 if random.below(4) == 0 => Some(1_500_000),
                50..70 => Some(4_000 + random.below(60_000)),
                _ => Some(random.below(200)),
            };
            let value = len.map(|len| {
                let mut word = random.word();
                (0..len)
                    .map(|_| {
                        word = word.rotate_left(9).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        (word >> 56) as u8
                    })
                    .collect()
            });
            Op { key, value }
        })
        .collect();
    (ops, sync)
}

/// The content of a thread's keys: a fingerprint per key.
type State = BTreeMap<Vec<u8>, u64>;

fn fingerprint(value: &[u8]) -> u64 {
    value.iter().fold(value.len() as u64 ^ 0x9e37, |sum, byte| fmix64(sum ^ u64::from(*byte)))
}

fn apply(state: &mut State, ops: &[Op]) {
    for op in ops {
        match &op.value {
            Some(value) => state.insert(op.key.clone(), fingerprint(value)),
            None => state.remove(&op.key),
        };
    }
}

/// Writes until it is killed. An error of the store ends the child: no operation here may fail.
pub fn write(line: &WriteLine) -> Outcome<()> {
    let store = engine::open(line.engine, &line.dir, &SETTINGS)?;
    std::thread::scope(|scope| {
        for (thread, from) in line.from.iter().enumerate() {
            let store = store.as_ref();
            scope.spawn(move || {
                if let Err(fault) = write_one(line, store, thread as u64, *from) {
                    eprintln!("thread {thread}: {fault}");
                    std::process::exit(3);
                }
            });
        }
    });
    Ok(())
}

fn write_one(line: &WriteLine, store: &dyn Engine, thread: u64, from: u64) -> Outcome<()> {
    let path = line.acks.join(thread.to_string());
    let mut acks = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    for number in from.. {
        let (ops, sync) = operation(line.seed, thread, number);
        match ops.as_slice() {
            [Op { key, value: Some(value) }] => store.put(key, value, sync)?,
            [Op { key, value: None }] => store.delete(key, sync)?,
            ops => store.batch(ops, sync)?,
        }
        acks.write_all(&number.to_le_bytes())?;
        if thread == 0 && number % 1500 == 1499 {
            store.flush()?;
        }
    }
    Ok(())
}

/// Returns the number of acknowledged operations of a thread: one more than the last number in its file.
fn acknowledged(acks: &Path, thread: u64, before: u64) -> Outcome<u64> {
    let bytes = std::fs::read(acks.join(thread.to_string())).unwrap_or_default();
    let whole = bytes.len() / 8 * 8;
    let Some(last) = bytes[..whole].last_chunk::<8>() else { return Ok(before) };
    Ok(u64::from_le_bytes(*last) + 1)
}

/// The findings so far.
#[derive(Debug, Default)]
struct Findings {
    kills: usize,
    acknowledged: u64,
    lost: u64,
    wrong: u64,
    refused: u64,
    unfaithful: u64,
}

/// Runs the experiment.
pub fn killloop(line: &Line) -> Outcome<u8> {
    if !line.engine.is_built() {
        return Err(engine::not_built(line.engine));
    }
    let started = Instant::now();
    let at_most = Duration::from_secs(if line.quick { 45 } else { 270 });
    let rounds = line.rounds.unwrap_or(if line.quick { 25 } else { 200 });
    let dir =
        line.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("waxseal-kill-{}", std::process::id())));
    require_space(&dir, 2 << 30)?;
    let (store_dir, acks) = (dir.join("store"), dir.join("acks"));
    std::fs::create_dir_all(&acks)?;
    let mut random = Random::stream(line.seed, 0xdead);
    let mut next = vec![0u64; line.threads as usize];
    let mut states = vec![State::new(); line.threads as usize];
    let mut findings = Findings::default();
    for round in 0..rounds {
        // An explicit number of rounds is completed regardless of time.
        if line.rounds.is_none() && started.elapsed() >= at_most {
            break;
        }
        let life = LIFE.mul_f64(random.unit());
        if !live_and_die(line, &store_dir, &acks, &next, life)? {
            findings.unfaithful += 1;
        }
        findings.kills += 1;
        let store = match std::panic::catch_unwind(|| engine::open(line.engine, &store_dir, &SETTINGS)) {
            Ok(Ok(store)) => store,
            Ok(Err(fault)) => {
                eprintln!("round {round}: {fault}");
                findings.refused += 1;
                break;
            }
            Err(_) => {
                findings.refused += 1;
                break;
            }
        };
        let found = contents(store.as_ref(), line.threads)?;
        for (thread, found) in found.into_iter().enumerate() {
            let acked = acknowledged(&acks, thread as u64, next[thread])?;
            findings.acknowledged += acked - next[thread];
            let (at, difference) = place(line.seed, thread as u64, &mut states[thread], next[thread], acked, &found);
            match difference {
                Difference::None => {}
                Difference::Lost(count) => {
                    eprintln!(
                        "round {round}, thread {thread}: {count} acknowledged operations before {acked} are missing"
                    );
                    findings.lost += count;
                }
                Difference::Wrong(keys) => {
                    eprintln!(
                        "round {round}, thread {thread}: {keys} keys hold what they never held together, near operation {acked}"
                    );
                    findings.wrong += keys;
                }
            }
            next[thread] = at;
        }
        store.close()?;
        if findings.lost + findings.wrong > 0 {
            break;
        }
    }
    let clean = findings.lost + findings.wrong + findings.refused + findings.unfaithful == 0;
    println!(
        "killloop {}: {} kills, {} acknowledged operations, {} lost, {} wrong, {} opens refused, {} children that failed by themselves",
        line.engine.text(),
        findings.kills,
        findings.acknowledged,
        findings.lost,
        findings.wrong,
        findings.refused,
        findings.unfaithful
    );
    if clean {
        std::fs::remove_dir_all(&dir)?;
    } else {
        println!("kept for a look: {}", dir.display());
    }
    let enough = if findings.acknowledged > 0 { ENOUGH } else { usize::MAX };
    let none = |id, metric, count| Gate::none_allowed(id, metric, count, findings.kills, enough, line.seed);
    let gates = [
        none("killloop.lost", "acknowledged_operations", findings.lost),
        none("killloop.wrong", "keys", findings.wrong),
        none("killloop.refused", "opens", findings.refused),
        none("killloop.failed", "children", findings.unfaithful),
    ];
    conclude(&gates, line.json.as_deref())
}

/// Runs one child until the kill. Returns false if it ended earlier, because of an error.
fn live_and_die(line: &Line, store: &Path, acks: &Path, next: &[u64], life: Duration) -> Outcome<bool> {
    let from: Vec<String> = next.iter().map(u64::to_string).collect();
    let mut writer = child::command(["killloop-write", "--engine", line.engine.text(), "--from", &from.join(",")])?
        .arg("--seed")
        .arg(line.seed.to_string())
        .arg("--dir")
        .arg(store)
        .arg("--acks")
        .arg(acks)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::inherit())
        .spawn()?;
    std::thread::sleep(life);
    let ended_before = writer.try_wait()?.is_some();
    // On Unix this is SIGKILL.
    if !ended_before {
        writer.kill()?;
        writer.wait()?;
    }
    Ok(!ended_before)
}

/// Reads the store's content by thread; each key is also looked up, with the same result required.
fn contents(store: &dyn Engine, threads: u64) -> Outcome<Vec<State>> {
    let mut states = vec![State::new(); threads as usize];
    let mut reader = store.reader(View::Latest)?;
    let mut strangers = 0u64;
    let mut each = |key: &[u8], value: &[u8]| {
        let thread = key
            .get(6..8)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| digits.parse::<usize>().ok());
        match thread.and_then(|thread| states.get_mut(thread)) {
            Some(state) => drop(state.insert(key.to_vec(), fingerprint(value))),
            None => strangers += 1,
        }
    };
    reader.scan(Start::First, &mut Rows::shown(&mut each))?;
    if strangers > 0 {
        return Err(format!("{strangers} keys that nobody wrote").into());
    }
    for (thread, state) in states.iter().enumerate() {
        for slot in 0..SLOTS {
            let key = format!("thread{thread:02}/{slot:06}").into_bytes();
            let alone = reader.fetch(&key)?.map(|value| fingerprint(&value));
            if alone != state.get(&key).copied() {
                return Err(format!("{} differs between a scan and a read", String::from_utf8_lossy(&key)).into());
            }
        }
    }
    Ok(states)
}

/// The difference between the found and the required state of a thread's keys.
#[derive(Debug, PartialEq)]
enum Difference {
    None,
    /// The state of this many acknowledged operations earlier.
    Lost(u64),
    /// A state that never existed.
    Wrong(u64),
}

/// Finds the operation after which the state equals the found one, and moves `state` there. Returns the next operation.
fn place(seed: u64, thread: u64, state: &mut State, from: u64, acked: u64, found: &State) -> (u64, Difference) {
    let mut kept = (*state == *found).then_some(from);
    for number in from..=acked {
        apply(state, &operation(seed, thread, number).0);
        if *state == *found {
            kept = Some(number + 1);
        }
    }
    let difference = match kept {
        Some(kept) if kept >= acked => Difference::None,
        Some(kept) => Difference::Lost(acked - kept),
        None => Difference::Wrong(differing(state, found)),
    };
    state.clone_from(found);
    (kept.unwrap_or(acked).max(acked), difference)
}

fn differing(a: &State, b: &State) -> u64 {
    let missing = a.iter().filter(|(key, print)| b.get(*key) != Some(print)).count();
    let added = b.keys().filter(|key| !a.contains_key(*key)).count();
    (missing + added) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(count: u64) -> State {
        let mut state = State::new();
        for number in 0..count {
            apply(&mut state, &operation(1, 0, number).0);
        }
        state
    }

    #[test]
    fn what_was_acknowledged_or_one_more_is_right() {
        assert_eq!(place(1, 0, &mut after(0), 0, 50, &after(50)), (50, Difference::None));
        assert_eq!(place(1, 0, &mut after(20), 20, 50, &after(51)), (51, Difference::None));
        assert_eq!(place(1, 0, &mut after(50), 50, 50, &after(50)), (50, Difference::None));
    }

    #[test]
    fn an_earlier_state_is_a_loss_of_so_many() {
        assert_eq!(place(1, 0, &mut after(20), 20, 50, &after(47)).1, Difference::Lost(3));
    }

    #[test]
    fn a_state_with_a_hole_is_wrong() {
        let mut found = after(50);
        let key = found.keys().next().cloned().expect("a key");
        found.remove(&key);
        assert_eq!(
            place(1, 0, &mut after(20), 20, 50, &found).1,
            Difference::Wrong(2 - u64::from(after(51) == after(50)))
        );
    }

    #[test]
    fn the_last_whole_number_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(acknowledged(dir.path(), 0, 7).expect("read"), 7);
        let mut bytes = [8u64.to_le_bytes(), 9u64.to_le_bytes()].concat();
        bytes.extend_from_slice(&[1, 2, 3]);
        std::fs::write(dir.path().join("0"), bytes).expect("written");
        assert_eq!(acknowledged(dir.path(), 0, 7).expect("read"), 10);
    }
}
