//! Several damages at once, in one file and across a store: before and after repair and salvage every key answers its
//! value or `Corruption`.
//!
//! Each case forks a closed or open store, applies two to five damages drawn from a seed, and checks every read path. A
//! read that returns an older value, or nothing for a key that exists, fails the test. So does an error other than
//! `Corruption`. `WAXSEAL_DAMAGES` sets the number of cases of each sweep, `WAXSEAL_DAMAGES_FROM` the seed of the
//! first.

mod checks;
mod hits;
mod stores;

use std::path::Path;

use self::checks::{check, check_but, is_fair};
use self::hits::{Hit, draw};
use self::stores::{Kind, SAVED, STORES, Sample};
use waxseal_lsm::env::SeededRandom;
use waxseal_lsm::env::sim::SimFs;
use waxseal_meta::integrity::{RepairOptions, SalvageOptions, VerifyOptions, repair, salvage, verify};

/// Cases of each sweep.
const CASES: u64 = 270;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs the cases of one sweep, on each store in turn.
fn sweep(salt: u64, targets: &dyn Fn(&Sample, &SeededRandom) -> Vec<String>) {
    let samples: Vec<Sample> = STORES.iter().map(Sample::new).collect();
    let (first, cases) = (setting("WAXSEAL_DAMAGES_FROM", 0), setting("WAXSEAL_DAMAGES", CASES));
    let mut wrong = Vec::new();
    for seed in first..first + cases {
        let sample = &samples[(seed % samples.len() as u64) as usize];
        let random = SeededRandom::new(seed ^ salt << 32);
        let files = targets(sample, &random);
        if files.is_empty() {
            continue;
        }
        let disk = sample.disk.fork();
        let hits: Vec<Hit> = (0..2 + random.below(4)).map(|_| draw(&disk, sample, &files, &random)).collect();
        if let Err(what) = judge(sample, &disk) {
            wrong.push(format!("seed {seed}, {}: {hits:?}\n{what}", sample.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} cases are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// Reads a damaged store, repairs it and reads it again, and does the same with what salvage makes of it.
fn judge(sample: &Sample, disk: &SimFs) -> Result<(), String> {
    let to_salvage = disk.fork();
    match sample.open(disk) {
        Ok(db) => {
            check(&db, sample).map_err(|wrong| format!("before repair: {wrong}"))?;
            verify(&db, VerifyOptions::default()).map_err(|error| format!("verify: {error}"))?;
            let report = repair(&db, RepairOptions::default()).map_err(|error| format!("repair: {error}"))?;
            check(&db, sample).map_err(|wrong| format!("after repair: {wrong}\n{report}"))?;
            db.close().map_err(|error| format!("close: {error}"))?;
            drop(db);
            let db = sample.open(disk).map_err(|error| format!("opened after repair: {error}"))?;
            check(&db, sample).map_err(|wrong| format!("opened after repair: {wrong}\n{report}"))?;
            let again = repair(&db, RepairOptions::default()).map_err(|error| format!("second repair: {error}"))?;
            check(&db, sample).map_err(|wrong| format!("after a second repair: {wrong}\n{report}\n{again}"))?;
        }
        Err(error) if is_fair(&error) => {}
        Err(error) => return Err(format!("open: {error}")),
    }
    let (from, disk) = (sample.dir(), to_salvage);
    let saved = salvage(&from, Path::new(SAVED), sample.settings(), sample.parts(&disk), SalvageOptions::default());
    let report = saved.map_err(|error| format!("salvage: {error}"))?;
    let db = sample.open_at(&disk, Path::new(SAVED)).map_err(|error| format!("salvaged: {error}"))?;
    // Without its manifest, the range deletes of a store are unknown; the report says so.
    let may_come_back = report.damage.iter().any(|finding| finding.message.contains("range deletes"));
    check_but(&db, sample, may_come_back).map_err(|wrong| format!("salvaged: {wrong}\n{report}"))
}

#[test]
fn several_damages_in_one_table_hide_no_loss() {
    sweep(1, &|sample, random| {
        let tables = sample.files(Kind::Table);
        vec![tables[random.below(tables.len() as u64) as usize].clone()]
    });
}

#[test]
fn several_damages_in_the_tables_of_a_store_hide_no_loss() {
    sweep(2, &|sample, _| sample.files(Kind::Table));
}

#[test]
fn several_damages_in_value_files_hide_no_loss() {
    sweep(3, &|sample, _| sample.files(Kind::Values));
}

#[test]
fn several_damages_in_the_log_hide_no_loss() {
    sweep(4, &|sample, _| sample.files(Kind::Log));
}

#[test]
fn several_damages_in_the_manifest_hide_no_loss() {
    sweep(5, &|sample, _| sample.files(Kind::Manifest));
}

#[test]
fn several_damages_anywhere_in_a_store_hide_no_loss() {
    sweep(6, &|sample, _| Kind::ALL.into_iter().flat_map(|kind| sample.files(kind)).collect());
}
