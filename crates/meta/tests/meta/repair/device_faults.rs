//! Faults of the device during a repair: they put it off, and give nothing up.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use waxseal_lsm::env::sim::{Fault, SimFs};
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::record::Kind;
use waxseal_meta::integrity::{Outcome, RepairOptions, Rung, repair};

use super::sources::*;
use super::withholding::*;
use super::world::*;

/// One step after the other of a repair fails once; how often the table was put off. The log or the trash has what is
/// lost: a record, and a pointer to a value.
fn put_off_by_faults(faults: usize, accept_loss: bool, by_trash: bool) -> u64 {
    let options = CfOptions { large_value_bytes: 100, ..options(Compression::None, false) };
    let mut put_off = 0;
    for step in 0.. {
        let mut world = World::new(options.clone());
        world.keep_log();
        world.fill(0, 30);
        world.apply(Kind::Put, &key(30), &[b'a'; 300]);
        world.compact();
        if by_trash {
            let [_, second] = copied_to_trash(&world.sim, &world.tables()[0]);
            world.sim.delete(second).unwrap();
            let (sim, model) = (world.closed(), world.model.clone());
            world = reopened(&sim, &options, &model);
        }
        burst(&world.sim, &world.tables()[0], &world.model[&key(29)]);
        burst_pointer(&world.sim, &world.tables()[0], &world.model[&key(30)]);
        let options = |accept_loss| {
            let trash = by_trash.then(|| PathBuf::from(TRASH));
            RepairOptions { accept_loss, trash, ..Default::default() }
        };
        let from = world.sim.steps();
        (0..faults).for_each(|_| world.sim.fail_at(from + step, Fault::Error(ErrorKind::PermissionDenied)));
        let first = repair(&world.db, options(accept_loss));
        if world.sim.steps() - from <= step {
            break; // it came through before that
        }
        world.sim.clear_faults();
        put_off += u64::from(first.as_ref().is_ok_and(|report| report.unread > 0));
        match repair(&world.db, options(false)) {
            Err(_) if first.is_err() => continue, // a sync failed, and the store has halted
            report => assert!(report.as_ref().unwrap().is_clean(), "{step}: {first:?}, {report:?}"),
        }
        assert!(world.db.lost_ranges(&world.family).is_empty(), "{step}: {first:?}");
        assert!(world.db.quarantined_tables(&world.family).is_empty(), "{step}: {first:?}");
        world.assert_clean();
    }
    put_off
}

/// A device that does not answer for a moment: what might have mended a table may be there still, so nothing of it is
/// given up, not even by who would give up what cannot be had.
#[test]
fn a_fault_of_the_device_gives_nothing_up() {
    for by_trash in [false, true] {
        let (put_off, accepting) = (put_off_by_faults(1, false, by_trash), put_off_by_faults(1, true, by_trash));
        assert!(put_off > accepting && accepting > 0, "{put_off}, {accepting}");
        // As often as a block is read again, and more often.
        for faults in [4, 8] {
            assert!(put_off_by_faults(faults, false, by_trash) > 0);
        }
    }
}

/// A loss that only what cannot be read may have: it waits for that, unless it is accepted, and then it is told why.
fn assert_waits_or_is_accepted(of: impl Fn() -> (Withholding, World), trash: bool, lost: u64) {
    let trash = || trash.then(|| PathBuf::from(TRASH));
    let (disk, world) = of();
    for _ in 0..2 {
        let report = repair(&world.db, RepairOptions { trash: trash(), ..Default::default() }).unwrap();
        assert_eq!((report.unread, report.lost, report.repaired), (1, 1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Unread), "{report}");
        assert!(
            world.db.lost_ranges(&world.family).is_empty() && world.db.quarantined_tables(&world.family).is_empty()
        );
    }
    disk.release();
    let report = repair(&world.db, RepairOptions { trash: trash(), ..Default::default() }).unwrap();
    assert!(report.is_clean(), "{report}");
    world.assert_clean();
    // Or the caller's source has it, who is asked last.
    let (disk, world) = of();
    let replica = Replica::of(&world.model);
    let options = RepairOptions { source: Some(&replica), trash: trash(), ..Default::default() };
    let report = repair(&world.db, options).unwrap();
    assert!(report.is_clean() && report.unread == 0, "{report}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Source)), "{report}");
    disk.release();
    world.assert_clean();
    // Or it is given up: a device that never reads does not keep the store as it is.
    let (disk, mut world) = of();
    let report = repair(&world.db, RepairOptions { accept_loss: true, trash: trash(), ..Default::default() }).unwrap();
    assert_eq!((report.unread, report.lost), (1, 1), "{report}");
    for outcome in [Outcome::Unread, Outcome::Accepted] {
        assert!(report.damage.iter().any(|finding| finding.outcome == outcome), "{report}");
    }
    assert!(world.db.lost_ranges(&world.family).is_empty() && world.db.quarantined_tables(&world.family).is_empty());
    disk.release();
    world.model.remove(&key(lost));
    world.assert_clean();
}

#[test]
fn a_trash_file_that_cannot_be_read_keeps_nobody_else_from_being_asked() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let trash = copied_to_trash(&sim, &table);
    burst(&sim, &table, &model[&key(50)]);
    let of = |withheld: &[PathBuf]| {
        let disk = Withholding::new(&sim.fork());
        let world = disk.world(&options, &model);
        disk.hold_back(withheld);
        (disk, world)
    };
    for withheld in &trash {
        let (_, world) = of(std::slice::from_ref(withheld));
        let report = repair(&world.db, RepairOptions { trash: Some(TRASH.into()), ..Default::default() }).unwrap();
        assert!(report.is_clean() && report.unread == 0, "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Trash)), "{report}");
        world.assert_clean();
    }
    assert_waits_or_is_accepted(|| of(&trash), true, 50);
}

#[test]
fn a_log_that_cannot_be_read_keeps_nobody_else_from_being_asked() {
    let options = options(Compression::None, false);
    let of = || {
        let disk = Withholding::new(&SimFs::new(7));
        let mut world = disk.world(&options, &Model::new());
        world.keep_log();
        world.fill(0, 60);
        world.compact();
        burst(&world.sim, &world.tables()[0], &world.model[&key(50)]);
        let log = world.sim.files(DIR).into_iter().filter(|name| name.ends_with(".log"));
        disk.hold_back(log.map(|name| Path::new(DIR).join(name)));
        (disk, world)
    };
    assert_waits_or_is_accepted(of, false, 50);
}

/// One value, or the end of its file, that cannot be read: what else is damaged is mended all the same, and the value
/// is there afterwards.
#[test]
fn a_value_that_cannot_be_read_keeps_nothing_else_from_being_mended() {
    let options = CfOptions { large_value_bytes: 100, ..options(Compression::None, false) };
    for (at_end, accept_loss) in [(false, false), (false, true), (true, false), (true, true)] {
        let disk = Withholding::new(&SimFs::new(7));
        let mut world = disk.world(&options, &Model::new());
        world.keep_log();
        world.fill(0, 30);
        world.apply(Kind::Put, &key(30), &[b'a'; 300]);
        world.apply(Kind::Put, &key(31), &[b'b'; 300]);
        world.compact();
        let values = world.value_files().remove(0);
        burst(&world.sim, &world.tables()[0], &world.model[&key(20)]);
        let place = match at_end {
            false => place_of(&world.sim, &values, &[b'a'; 300]),
            true => world.sim.read_all(&values).unwrap().len() as u64 - 1,
        };
        disk.fail_reads(&values, place, ALWAYS);
        let report = repair(&world.db, accepting(accept_loss)).unwrap();
        assert_eq!((report.unread, report.lost), (1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Log)), "{report}");
        assert_no_fence(&world, &report);
        // Nothing is to be done for it alone.
        let tables = world.tables();
        let report = repair(&world.db, accepting(accept_loss)).unwrap();
        assert_eq!((report.unread, report.damage.len(), report.repaired), (1, 1, 0), "{report}");
        assert_eq!(world.tables(), tables);
        // What stands beside it cannot leave its file, and nobody says that it did.
        let hit = place_of(&world.sim, &values, &[b'b'; 300]);
        world.sim.flip(&values, hit * 8 + 77).unwrap();
        let report = repair(&world.db, accepting(accept_loss)).unwrap();
        assert_eq!((report.unread, report.repaired, report.lost), (1, 0, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Reported), "{report}");
        disk.release();
        assert!(repair(&world.db, RepairOptions::default()).unwrap().is_clean());
        world.assert_clean();
    }
}

/// A block of the trash that no walk gets, whether or not it is given between them.
#[test]
fn a_trash_that_answers_now_and_then_is_waited_for() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let [trash, second] = copied_to_trash(&sim, &table);
    sim.delete(second).unwrap();
    burst(&sim, &table, &model[&key(50)]);
    let place = place_of(&sim, &trash, &model[&key(50)]);
    let mut waited = 0;
    for reads in (0..8).flat_map(|from| [0b1_1110_1111, 0b1111_1111].map(|reads: u128| reads << from)).chain([ALWAYS]) {
        let disk = Withholding::new(&sim.fork());
        let world = disk.world(&options, &model);
        disk.fail_reads(&trash, place, reads);
        let options = || RepairOptions { trash: Some(TRASH.into()), ..Default::default() };
        let first = repair(&world.db, options()).unwrap();
        assert_no_fence(&world, &first);
        waited += first.unread;
        disk.release();
        let report = repair(&world.db, options()).unwrap();
        assert!(report.is_clean() && report.lost == 0, "{reads:b}: {first}\n{report}");
        world.assert_clean();
    }
    assert!(waited > 1, "{waited}");
}
