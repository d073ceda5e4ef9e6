//! Planted bugs: the model, the crash sweep or the flips must find each bug, enabled at run time, within CI's time.
//!
//! Alone in its process: `cargo test -p waxseal-meta --features planted --test simulation planted`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::At;
use waxseal_lsm::options::Durability;
use waxseal_lsm::planted::{Bug, plant};
use waxseal_lsm::record::Kind;

use crate::flips::{Outcomes, subject};
use crate::model::Run;
use crate::sweep::{SCENARIOS, sweep, torn_tails, trims};
use crate::world::{CONFIGS, World};
use crate::{
    backup, care, epoch, expiring, feed, filters, forged, hurt, ingest, kept, memory, operands, panics, prefixes,
    transactions, values,
};

/// Flips bits of a held batch in the length of a value. The value then ends at the end of its seal, and seems to have
/// none.
fn a_swallowed_seal() {
    let mut world = World::new(3, CONFIGS[5]);
    world.open().expect("a new store");
    let (db, family) = (world.db(), world.db().family("default").expect("always there"));
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, b"k", b"123456", db.companions()).expect("a batch");
    batch.hold();
    // Kind, family, key length, value length; the seal has a kind and eight bytes.
    let length = &mut batch.bytes_mut()[3];
    assert_eq!(*length, 6);
    *length ^= 0b1001;
    assert!(db.commit(&mut batch, Durability::Os).is_err(), "a value with its seal in it is taken");
    assert!(!db.get(&family, b"k", At::Latest, &mut |_| {}).expect("a read"));
}

/// Runs until a check panics; returns true if one did.
fn is_found() -> bool {
    let found = |test: &dyn Fn()| catch_unwind(AssertUnwindSafe(test)).is_err();
    if memory::ALL
        .iter()
        .chain(&care::ALL)
        .chain(&forged::ALL)
        .chain(&epoch::ALL)
        .chain(&kept::ALL)
        .chain(&values::ALL)
        .chain(&panics::ALL)
        .chain(&transactions::ALL)
        .chain(&ingest::ALL)
        .chain(&operands::ALL)
        .chain(&filters::ALL)
        .chain(&prefixes::ALL)
        .chain(&memory::QUEUES)
        .any(|check| found(check))
    {
        return true;
    }
    if found(&torn_tails) || found(&trims) || found(&a_swallowed_seal) {
        return true;
    }
    for (name, scenario) in SCENARIOS {
        for config in [CONFIGS[0], CONFIGS[5]] {
            if found(&|| {
                sweep(name, scenario, config, 24);
            }) {
                return true;
            }
        }
    }
    if found(&|| {
        hurt::stopped_repairs(CONFIGS[5], 6);
    }) {
        return true;
    }
    for closed in [true, false] {
        if found(&|| {
            let mut subject = subject(CONFIGS[0], closed);
            let bits = subject.bits();
            let outcomes = Outcomes::default();
            for n in 0..600 {
                subject.flip(n * (bits / 600), &outcomes);
            }
        }) {
            return true;
        }
    }
    for seed in 0..40 {
        if found(&|| Run::new(seed, CONFIGS[seed as usize % CONFIGS.len()]).operations(2_000)) {
            return true;
        }
    }
    false
}

/// Processes that share the bugs: a planted bug affects its whole process, and each search runs in one thread.
const PROCESSES: usize = 2;

/// The variable that tells a process its share.
const SHARE: &str = "WAXSEAL_BUG_SHARE";

/// How a bug is found.
type Search = fn() -> bool;

fn all() -> impl Iterator<Item = (Bug, Search)> {
    let others = Bug::ALL.into_iter().map(|bug| (bug, is_found as Search));
    let of_expiry = Bug::OF_EXPIRY.into_iter().map(|bug| (bug, expiring::is_found as Search));
    let of_feed = Bug::OF_FEED.into_iter().map(|bug| (bug, feed::is_found as Search));
    others
        .chain(of_expiry)
        .chain(of_feed)
        .chain(Bug::OF_BACKUP.into_iter().map(|bug| (bug, backup::is_found as Search)))
}

/// Searches for bugs one after the other; first, for `clean`, without a bug. Returns the number of bugs.
fn search(clean: Option<Search>, bugs: impl Iterator<Item = (Bug, Search)>) -> usize {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let clean = clean.is_none_or(|search| !search());
    let (found, missed): (Vec<_>, Vec<_>) = bugs
        .map(|(bug, search)| {
            plant(Some(bug));
            let is_found = search();
            plant(None);
            (bug, is_found)
        })
        .partition(|(_, is_found)| *is_found);
    std::panic::set_hook(hook);
    assert!(clean, "the suite fails without a planted bug");
    assert!(missed.is_empty(), "not found: {missed:?}");
    found.len()
}

/// Searches in several processes, each a run of this test with its share.
fn search_in_processes() {
    let start = |share: usize| {
        let mut program = Command::new(std::env::current_exe().expect("the program of this test"));
        program.args(["--exact", "planted::planted_bugs_are_found", "--nocapture"]).env(SHARE, share.to_string());
        program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a second run of this test")
    };
    let processes: Vec<_> = (0..PROCESSES).map(start).collect();
    let found = processes.into_iter().map(|process| {
        let output = process.wait_with_output().expect("its end");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "{text}");
        let count = text.lines().find_map(|line| line.strip_prefix("found: ")?.parse::<usize>().ok());
        count.unwrap_or_else(|| panic!("no search took place:\n{text}"))
    });
    assert_eq!(found.sum::<usize>(), all().count());
}

#[test]
fn planted_bugs_are_found() {
    let variable = |name| std::env::var(name).ok();
    if let Some(only) = variable("WAXSEAL_BUG") {
        search(None, all().filter(|(bug, _)| format!("{bug:?}") == only));
    } else if let Some(share) = variable(SHARE) {
        let share: usize = share.parse().expect("the number of a share");
        let clean: [Search; PROCESSES] = [is_found, expiring::is_found];
        let bugs = all().enumerate().filter(|(n, _)| n % PROCESSES == share).map(|(_, bug)| bug);
        println!("\nfound: {}", search(Some(clean[share]), bugs));
    } else {
        search_in_processes();
    }
}
