//! The cost of the head of a queue: `queue ROUNDS DIR`.
//!
//! A queue with a backlog of 10,000 messages of 100 bytes. A round pushes and pops 200,000 messages, one of each in turn,
//! and takes the time of every pop. Then the queue rests for a second, and its head is read a thousand times, at first by
//! one read alone. Last, the same for a queue that shares its family with other records, behind a prefix, whose head is
//! read by an iterator and deleted.

#![expect(clippy::disallowed_methods, reason = "a clock and directories of its own")]

use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use waxseal::{ColumnFamily, Db, Slice};
use waxseal_bench::Outcome;
use waxseal_bench::rounds::main_of;

const BACKLOG: u64 = 10_000;
const MESSAGES: u64 = 200_000;

fn main() -> ExitCode {
    main_of("queue", measure)
}

fn measure(rounds: u64, dir: &Path) -> Outcome<String> {
    let db = Db::builder(dir.join("queue")).open()?;
    let whole = Queue { family: db.column_family("queue")?, prefix: "" };
    let shared = Queue { family: db.column_family("shared")?, prefix: "q/" };
    for n in 0..100_000 {
        shared.family.put(format!("a/{n:08}"), [7; 100])?;
        shared.family.put(format!("z/{n:08}"), [7; 100])?;
    }
    let mut lines = Vec::new();
    for (name, queue) in [("alone", &whole), ("behind a prefix", &shared)] {
        (0..BACKLOG).try_for_each(|n| queue.push(n))?;
        for round in 0..rounds {
            let mut micros = Vec::with_capacity(MESSAGES as usize);
            for n in round * MESSAGES..(round + 1) * MESSAGES {
                queue.push(BACKLOG + n)?;
                let start = Instant::now();
                let popped = queue.pop()?;
                micros.push(start.elapsed().as_nanos() as f64 / 1000.0);
                if popped != Some(queue.key(n).as_bytes().into()) {
                    return Err(format!("message {n}: {popped:?}").into());
                }
            }
            let traffic = Times::of(micros);
            sleep(Duration::from_secs(1));
            let mut micros = Vec::new();
            for _ in 0..1000 {
                let start = Instant::now();
                queue.head()?;
                micros.push(start.elapsed().as_nanos() as f64 / 1000.0);
            }
            let first = micros[0];
            lines.push(format!(
                "{name}, round {round}: pops {}; after a second: first read {first:.1} µs, reads {}",
                traffic.shown(),
                Times::of(micros).shown()
            ));
        }
    }
    db.close()?;
    Ok(lines.join("\n"))
}

struct Queue<'a> {
    family: ColumnFamily,
    prefix: &'a str,
}

impl Queue<'_> {
    fn key(&self, n: u64) -> String {
        format!("{}{n:012}", self.prefix)
    }

    fn push(&self, n: u64) -> Outcome<()> {
        Ok(self.family.put(self.key(n), [7; 100])?)
    }

    fn head(&self) -> Outcome<Option<Slice>> {
        Ok(match self.prefix {
            "" => self.family.first_key_value()?.map(|(key, _)| key),
            prefix => self.family.prefix(prefix).next().transpose()?.map(|(key, _)| key),
        })
    }

    fn pop(&self) -> Outcome<Option<Slice>> {
        if self.prefix.is_empty() {
            return Ok(self.family.pop_first()?.map(|(key, _)| key));
        }
        let head = self.head()?;
        head.iter().try_for_each(|key| self.family.delete(key))?;
        Ok(head)
    }
}

/// Times of calls, in microseconds.
struct Times(Vec<f64>);

impl Times {
    fn of(mut micros: Vec<f64>) -> Times {
        micros.sort_by(f64::total_cmp);
        Times(micros)
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    fn shown(&self) -> String {
        let mean = self.0.iter().sum::<f64>() / self.0.len() as f64;
        let [median, high, most] = [0.5, 0.99, 1.0].map(|share| self.at(share));
        format!("mean {mean:.1}, median {median:.1}, p99 {high:.1}, most {most:.1} µs")
    }
}
