//! Repair from the log.

use std::io::ErrorKind;
use std::sync::Arc;

use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::cursor::ListCursor;
use waxseal_lsm::db::{At, Parts};
use waxseal_lsm::env::sim::{Fault, SimFs};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, OwnedRecord};
use waxseal_lsm::seam::{Plain, Protection};
use waxseal_meta::integrity::{Outcome, RepairOptions, Rung, repair};

use super::world::*;

#[test]
fn a_burst_is_repaired_from_the_log() {
    let mut world = World::new(options(codecs().pop().unwrap(), false));
    world.keep_log();
    world.fill(0, 60);
    world.compact();
    let table = world.tables()[0].clone();
    let length = world.sim.read_all(&table).unwrap().len() as u64;
    for bit in 0..40 {
        world.sim.flip(&table, 1000 * 8 + bit * 3).unwrap();
    }
    assert!(length > 1200);
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(report.is_clean(), "{report}");
    let by_log = report.damage.iter().filter(|finding| finding.outcome == Outcome::Repaired(Rung::Log)).count();
    assert!(by_log >= 1, "{report}");
    world.assert_clean();
}

/// A plain node's table counts its records without sums: a log that has all is believed, also one that is read twice
/// for a fault.
#[test]
fn a_fault_while_the_log_is_read_gives_nothing_up_of_a_table_without_sums() {
    let options = options(Compression::None, false);
    for step in 0.. {
        let sim = SimFs::new(7);
        let plain = Parts { companions: Arc::new(Plain), ..parts(&sim, &options) };
        let mut world = World::of(sim, plain, options.clone(), Model::new());
        world.keep_log();
        world.fill(0, 10);
        world.db.flush().unwrap();
        burst(&world.sim, &world.tables()[0], &world.model[&key(3)]);
        let from = world.sim.steps();
        world.sim.fail_at(from + step, Fault::Error(ErrorKind::PermissionDenied));
        let first = repair(&world.db, RepairOptions::default());
        if world.sim.steps() - from <= step {
            break;
        }
        world.sim.clear_faults();
        match repair(&world.db, RepairOptions::default()) {
            Err(_) if first.is_err() => continue, // a sync failed, and the store has halted
            report => assert!(report.as_ref().unwrap().is_clean(), "{step}: {first:?}, {report:?}"),
        }
        assert_no_fence(&world, &first.unwrap_or_default());
        assert_eq!((world.content(), world.refused()), (world.model.clone(), 0), "{step}");
    }
}

#[test]
fn the_log_tells_of_others_where_a_value_that_it_points_to_is_gone_or_damaged() {
    for is_gone in [false, true] {
        let options = CfOptions { large_value_bytes: 100, ..options(Compression::None, false) };
        let mut world = World::new(options);
        world.keep_log();
        world.fill(0, 30);
        world.apply(Kind::Put, &key(30), &[b'a'; 300]);
        world.fill(31, 29);
        let values = world.value_files().remove(0);
        // An open cursor keeps what it can see, the value that is deleted among it.
        let cursor = (!is_gone).then(|| world.db.cursor(&world.family, At::Latest, ALL).unwrap());
        world.db.flush().unwrap();
        world.apply(Kind::Delete, &key(30), b"");
        world.compact();
        while world.db.step().unwrap() {}
        assert_eq!(world.value_files().contains(&values), !is_gone);
        if !is_gone {
            burst(&world.sim, &values, &[b'a'; 300]);
        }
        for around in [29, 31] {
            burst(&world.sim, &world.tables()[0], &world.model[&key(around)]);
        }
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(report.is_clean() && report.lost == 0, "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Log)), "{report}");
        drop(cursor);
        world.assert_clean();
    }
}

/// Without seals a table has lost a whole block, and counts no more than its records: older versions in the log may be
/// as many.
#[test]
fn a_count_is_believed_of_a_log_that_has_all() {
    let options = options(Compression::None, false);
    for has_all in [false, true] {
        let sim = SimFs::new(7);
        let plain = |sim: &SimFs| Parts { companions: Arc::new(Plain), ..parts(sim, &options) };
        let mut world = World::of(sim.clone(), plain(&sim), options.clone(), Model::new());
        if has_all {
            world.keep_log();
        }
        world.fill(0, 10);
        world.db.flush().unwrap();
        if !has_all {
            let (sim, model) = (world.closed(), world.model.clone());
            world = World::of(sim.clone(), plain(&sim), options.clone(), model);
            world.keep_log();
            for n in 0..10 {
                world.apply(Kind::Put, &key(5), format!("version {n} of the fifth").as_bytes());
            }
            world.compact();
        }
        burst(&world.sim, &world.tables()[0], &world.model[&key(3)]);
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert_eq!((report.is_clean(), report.lost), (has_all, if has_all { 0 } else { 10 }), "{report}");
        assert_eq!(world.refused(), report.lost as usize, "{report}");
    }
}

/// What comes in as a table is in no log.
#[test]
fn a_count_is_not_believed_of_a_log_beside_which_records_came_in() {
    let options = options(Compression::None, false);
    let sim = SimFs::new(7);
    let plain = Parts { companions: Arc::new(Plain), ..parts(&sim, &options) };
    let mut world = World::of(sim, plain, options, Model::new());
    world.keep_log();
    world.fill(0, 1);
    for n in 0..10 {
        world.apply(Kind::Put, &key(5), format!("version {n} of the fifth").as_bytes());
    }
    let value = |n: u64| format!("number {n:06}, which came in").into_bytes();
    let record = |n| OwnedRecord { key: key(n), seqno: 1, kind: Kind::Put, value: value(n), companion: Vec::new() };
    let came_in = || (1..11).filter(|n| *n != 5);
    let records: Vec<_> = came_in().map(record).collect();
    world.model.extend(came_in().map(|n| (key(n), value(n))));
    let open = &mut || -> Result<Box<dyn Cursor>> {
        Ok(Box::new(ListCursor::new(Order::bytewise(), records.clone(), Protection::None)))
    };
    world.db.ingest(&world.family, open).unwrap();
    world.compact();
    burst(&world.sim, &world.tables()[0], &world.model[&key(3)]);
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(!report.is_clean() && report.lost == 11, "{report}");
    assert_eq!(world.refused(), 11, "{report}");
}
