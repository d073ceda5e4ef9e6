//! A memtable alone: inserts, gets, a walk.
//!
//! `memtable RECORDS [ROUNDS]` prints the median nanoseconds of each; `memtable RECORDS only fill|get|missing|walk`
//! does one thing once, for valgrind (`--toggle-collect="*work*"`).

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use waxseal_bench::workload::{Keys, Random, Values};
use waxseal_lsm::checksum::hash;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::memtable::Memtable;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record};

const WORKS: [&str; 4] = ["fill", "get", "missing", "walk"];

struct Bench {
    table: Arc<Memtable>,
    keys: Keys,
    values: Values,
    random: Random,
    records: u64,
}

impl Bench {
    fn new(records: u64) -> Bench {
        let table = Arc::new(Memtable::with_budget(Order::bytewise(), 64 << 20));
        let keys = Keys::new(records, 16, 0).expect("sixteen digits are enough");
        Bench { table, keys, values: Values::new(100, 1, 1), random: Random::new(7), records }
    }

    #[inline(never)]
    fn work(&mut self, what: &str) {
        let Bench { table, keys, values, random, records } = self;
        match what {
            "fill" => {
                for n in 0..*records {
                    let (key, value) = (keys.written(n), values.value());
                    let record = Record { key, seqno: n + 1, kind: Kind::Put, value, companion: &[0xAA; 9] };
                    table.insert(&record, n).expect("room");
                }
            }
            "get" => {
                for _ in 0..*records {
                    let key = keys.written(random.below(*records));
                    assert!(table.may_hold(hash(key)));
                    table.get(key, MAX_SEQNO, &mut |record| _ = black_box(record.value[99]));
                }
            }
            "missing" => {
                for _ in 0..*records {
                    let key = keys.missing(random.below(*records));
                    if table.may_hold(hash(key)) {
                        table.get(key, MAX_SEQNO, &mut |_| unreachable!());
                    }
                }
            }
            _ => {
                let mut cursor = table.cursor();
                cursor.first().expect("memory");
                while cursor.valid() {
                    black_box((cursor.record().key.len(), cursor.record().value[0]));
                    cursor.next().expect("memory");
                }
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    match (number(0), &words[..]) {
        (Some(records), [_, "only", what]) => {
            let mut bench = Bench::new(records);
            if *what != "fill" {
                bench.work("fill");
            }
            bench.work(what);
            println!("{} bytes a record", bench.table.bytes() as u64 / records);
        }
        (Some(records), _) => {
            let mut nanos = vec![Vec::new(); WORKS.len()];
            for _ in 0..number(1).unwrap_or(5) {
                let mut bench = Bench::new(records);
                for (what, nanos) in WORKS.into_iter().zip(&mut nanos) {
                    let started = Instant::now();
                    bench.work(what);
                    nanos.push(started.elapsed().as_nanos() as f64 / records as f64);
                }
            }
            for (what, rounds) in WORKS.iter().zip(&mut nanos) {
                rounds.sort_by(f64::total_cmp);
                println!("{what}: {:.0} ns", rounds.get(rounds.len() / 2).copied().unwrap_or_default());
            }
        }
        _ => {
            eprintln!("usage: memtable RECORDS [ROUNDS] | RECORDS only fill|get|missing|walk");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
