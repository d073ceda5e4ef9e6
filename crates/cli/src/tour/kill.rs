//! The killed writer: a process that writes, its death, and the state of the store afterwards.
//!
//! The writer runs two threads. Operation `n` of a thread is one batch over two families. It puts or deletes one of the
//! thread's keys, computed from (seed, thread, n), and sets the thread's counter to n + 1. After the commit has
//! returned, the thread acknowledges it by writing (thread, n) into the pipe. The writer continues until it is killed.
//!
//! Afterwards each counter must be at least the acknowledged one, and the keys must be exactly the result of the
//! operations below the counter. A partial batch, or one without its predecessors, is wrong even if it was not
//! acknowledged.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use waxseal::env::{Random, SeededRandom};
use waxseal::{Db, Durability, KIB, MIB};

use super::report::TourReport;
use super::seconds;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::text::count;

const WRITES: &str = "tour.writes";
const COUNTERS: &str = "tour.counters";
const THREADS: u8 = 2;
const KEYS: u64 = 2000;
/// The writer is killed after this many acknowledgements, plus a random number up to the same limit.
const LEAST_WRITES: u64 = 6000;
/// A writer without an acknowledgement for this long is considered stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// One operation of the writer.
struct WriterOperation {
    key: [u8; 5],
    /// `None` deletes the key.
    value: Option<Vec<u8>>,
    durability: Durability,
}

/// Returns the writer's `n`th operation.
fn operation(seed: u64, thread: u8, n: u64) -> WriterOperation {
    let random = SeededRandom::new(seed ^ (u64::from(thread) << 56) ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let number = random.below(KEYS) as u32;
    let [a, b, c, d] = number.to_le_bytes();
    let value = (!random.one_in(8)).then(|| {
        let length = random.below(2000) as usize;
        let mut value = n.to_le_bytes().to_vec();
        while value.len() < length {
            value.extend(random.next_u64().to_le_bytes());
        }
        value
    });
    let durability = if random.one_in(64) { Durability::Sync } else { Durability::Os };
    WriterOperation { key: [thread, d, c, b, a], value, durability }
}

/// The writer: opens the store and writes until it is killed, or its reader closes the pipe.
pub(crate) fn write_until_killed(dir: &Path, seed: u64) -> Result<Exit, Failure> {
    // A small memtable, so that the writer dies amid flushes and compactions.
    let db = Db::builder(dir).memtable_bytes(256 * KIB).cache_bytes(8 * MIB).open()?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || write_thread(db, seed, thread))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(Exit::Ok)
}

fn write_thread(db: &Db, seed: u64, thread: u8) -> Result<(), Failure> {
    let (writes, counters) = (db.column_family(WRITES)?, db.column_family(COUNTERS)?);
    let mut batch = db.batch();
    for n in 0u64.. {
        let WriterOperation { key, value, durability } = operation(seed, thread, n);
        match value {
            Some(value) => batch.put(&writes, key, value),
            None => batch.delete(&writes, key),
        };
        batch.put(&counters, [thread], (n + 1).to_le_bytes());
        batch.commit(durability)?;
        let mut message = [thread; 9];
        message[1..].copy_from_slice(&n.to_le_bytes());
        let mut out = io::stdout().lock();
        out.write_all(&message).and_then(|()| out.flush()).map_err(|error| Failure::io("acknowledging", error))?;
    }
    Ok(())
}

/// The acknowledgements of a writer before it was killed.
pub(super) struct WriterOutcome {
    seed: u64,
    /// Number of acknowledged operations, by thread.
    acknowledged: [u64; THREADS as usize],
}

/// Starts a writer on the store, kills it, and returns its acknowledgements.
pub(super) fn kill_a_writer(
    dir: &Path,
    seed: u64,
    report: &mut TourReport,
    output: &mut Output,
) -> Result<WriterOutcome, Failure> {
    let kill_at = LEAST_WRITES + SeededRandom::new(!seed).below(LEAST_WRITES);
    let start = Instant::now();
    let mut writer = start_writer(dir, seed).map_err(|error| Failure::io("starting the writer", error))?;
    let acknowledgements = listen(&mut writer);

    let mut outcome = WriterOutcome { seed, acknowledged: [0; THREADS as usize] };
    let mut acks = 0;
    while acks < kill_at {
        match acknowledgements.recv_timeout(PATIENCE) {
            Ok((thread, n)) => outcome.hear(thread, n)?,
            Err(_) => {
                let how = stop(&mut writer)?;
                let message = format!("the writer ended or got stuck after {} writes ({how})", count(acks));
                return Err(Failure::new(Exit::CheckFailed, message));
            }
        }
        acks += 1;
    }
    let how = stop(&mut writer)?;
    report.killed_at_op = acks;
    // Acknowledgements that were already in the pipe count, too.
    while let Ok((thread, n)) = acknowledgements.recv() {
        outcome.hear(thread, n)?;
        acks += 1;
    }
    report.acknowledged = acks;
    let text = format!(
        "a process that writes in {THREADS} threads, after {} acknowledged writes in {} ({how})",
        count(report.killed_at_op),
        seconds(start)
    );
    report.step("kill", text, output)?;
    Ok(outcome)
}

impl WriterOutcome {
    /// Records an acknowledgement. Those of a thread must be in order.
    fn hear(&mut self, thread: u8, n: u64) -> Result<(), Failure> {
        match self.acknowledged.get_mut(thread as usize) {
            Some(next) if *next == n => {
                *next += 1;
                Ok(())
            }
            _ => Err(Failure::new(Exit::CheckFailed, "the writer spoke out of turn")),
        }
    }
}

fn start_writer(dir: &Path, seed: u64) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("-d")
        .arg(dir)
        .args(["tour-writer", "--seed", &seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
}

/// Reads acknowledgements on a separate thread until the pipe ends.
fn listen(writer: &mut Child) -> Receiver<(u8, u64)> {
    let (sender, receiver) = mpsc::channel();
    if let Some(mut pipe) = writer.stdout.take() {
        thread::spawn(move || {
            let mut message = [0; 9];
            while pipe.read_exact(&mut message).is_ok() {
                let [thread, n @ ..] = message;
                if sender.send((thread, u64::from_le_bytes(n))).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// Sends SIGKILL, so that the writer cannot clean up.
fn stop(writer: &mut Child) -> Result<ExitStatus, Failure> {
    let killed = writer.kill().and_then(|()| writer.wait());
    killed.map_err(|error| Failure::io("killing the writer", error))
}

/// The state of the killed writer's records.
pub(super) struct KillVerdict {
    pub(super) lost: u64,
    pub(super) wrong: u64,
    pub(super) keys: u64,
}

/// Checks every acknowledged write, and that no write is partial.
pub(super) fn check(db: &Db, outcome: &WriterOutcome) -> Result<KillVerdict, Failure> {
    let (writes, counters) = (db.column_family(WRITES)?, db.column_family(COUNTERS)?);
    let mut verdict = KillVerdict { lost: 0, wrong: 0, keys: 0 };
    for (thread, acknowledged) in (0..THREADS).zip(outcome.acknowledged) {
        let counter = counters.get_with([thread], |value| value.try_into().map(u64::from_le_bytes).ok())?;
        let done = counter.flatten().unwrap_or(0);
        verdict.lost += acknowledged.saturating_sub(done);
        // A thread has at most one unacknowledged write, so the counter cannot be higher.
        verdict.wrong += u64::from(done > acknowledged + 1);

        let last: HashMap<[u8; 5], u64> = (0..done).map(|n| (operation(outcome.seed, thread, n).key, n)).collect();
        let mut expected: Vec<([u8; 5], Vec<u8>)> =
            last.into_iter().filter_map(|(key, n)| Some((key, operation(outcome.seed, thread, n).value?))).collect();
        expected.sort();
        let mut found = writes.prefix([thread]);
        for (key, value) in &expected {
            let is_right = match found.next().transpose()? {
                Some((found_key, found_value)) => found_key == *key && found_value == *value,
                None => false,
            };
            verdict.keys += u64::from(is_right);
            verdict.wrong += u64::from(!is_right);
        }
        for too_many in found {
            too_many?;
            verdict.wrong += 1;
        }
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(db: &Db, thread: u8, n: u64, counted: bool) {
        let operation = operation(1, thread, n);
        let writes = db.column_family(WRITES).unwrap();
        match operation.value {
            Some(value) => writes.put(operation.key, value).unwrap(),
            None => writes.delete(operation.key).unwrap(),
        }
        if counted {
            db.column_family(COUNTERS).unwrap().put([thread], (n + 1).to_le_bytes()).unwrap();
        }
    }

    fn verdict(write_all: impl Fn(&Db), acknowledged: [u64; 2]) -> (u64, u64) {
        let db = Db::memory().unwrap();
        write_all(&db);
        let verdict = check(&db, &WriterOutcome { seed: 1, acknowledged }).unwrap();
        (verdict.lost, verdict.wrong)
    }

    #[test]
    fn lost_and_wrong_writes_are_found() {
        let whole = |db: &Db| (0..200).for_each(|n| (0..2).for_each(|thread| write(db, thread, n, true)));
        assert_eq!(verdict(whole, [200, 200]), (0, 0));
        assert_eq!(verdict(whole, [199, 200]), (0, 0), "the write under way may be there");
        assert_eq!(verdict(whole, [198, 200]), (0, 1), "two cannot have been under way");
        assert_eq!(verdict(whole, [203, 200]), (3, 0));
        let (_, wrong) = verdict(
            |db| {
                whole(db);
                write(db, 0, 200, false);
            },
            [200, 200],
        );
        assert!(wrong > 0, "half of a batch");
        let (_, wrong) = verdict(
            |db| {
                whole(db);
                let key = db.column_family(WRITES).unwrap().iter().keys().next().unwrap().unwrap();
                db.column_family(WRITES).unwrap().delete(key).unwrap();
            },
            [200, 200],
        );
        assert!(wrong > 0, "a record gone from the middle");
    }
}
