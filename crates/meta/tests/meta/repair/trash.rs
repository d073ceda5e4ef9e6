//! Repair from replaced tables that are kept for a while.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::db::{At, Parts};
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::options::Compression;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::Plain;
use waxseal_lsm::sst::Table;
use waxseal_meta::integrity::{Outcome, RepairOptions, Rung, repair};

use super::withholding::*;
use super::world::*;

#[test]
fn a_burst_is_repaired_from_the_trash() {
    for compression in codecs() {
        let mut world = World::new(options(compression, false));
        world.fill(0, 60);
        world.db.flush().unwrap();
        world.sim.create_dir_all(Path::new("/trash")).unwrap();
        let kept = world.tables()[0].clone();
        let bytes = world.sim.read_all(&kept).unwrap();
        world.fill(60, 60);
        world.compact();
        let sim = world.closed();
        let trash = sim.open(&Path::new("/trash").join(kept.file_name().unwrap()), Open::Create).unwrap();
        trash.write_at(&bytes, 0).unwrap();
        assert!(Table::identify("trash", &*trash).is_ok());
        let world = reopened(&sim, &world.options, &world.model);
        let table = world.tables()[0].clone();
        for bit in 0..40 {
            sim.flip(&table, 1000 * 8 + bit * 3).unwrap();
        }
        let trash = Some(PathBuf::from("/trash"));
        let report = repair(&world.db, RepairOptions { trash, ..Default::default() }).unwrap();
        assert!(report.is_clean(), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Trash)), "{report}");
        world.assert_clean();
    }
}

#[test]
fn a_pointer_from_the_trash_stays_one_into_a_file_that_others_hold() {
    let world = moved_apart();
    let value = world.model[&key(3)].clone();
    let files = world.value_files();
    burst_pointer(&world.sim, &table_of(&world, &value), &value);
    let report = repair(&world.db, RepairOptions { trash: Some(TRASH.into()), ..Default::default() }).unwrap();
    assert!(report.is_clean() && report.lost == 0, "{report}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Trash)), "{report}");
    assert_eq!(world.value_files(), files, "no value is written");
    let first = &world.db.tables(&world.family).unwrap()[0];
    assert_eq!(first.values().len(), 2, "one of them by a single record");
    world.assert_clean();
    world.compact();
    world.assert_clean();
    let sim = world.closed();
    reopened(&sim, &world.options, &world.model).assert_clean();
}

#[test]
fn a_pointer_from_the_trash_waits_for_a_file_that_cannot_be_read() {
    let world = moved_apart();
    let value = world.model[&key(3)].clone();
    burst_pointer(&world.sim, &table_of(&world, &value), &value);
    let files = world.value_files();
    let disk = Withholding::new(&world.closed());
    let world = disk.world(&world.options, &world.model);
    disk.hold_back(&files[..1]);
    let trash = || RepairOptions { trash: Some(TRASH.into()), ..Default::default() };
    let report = repair(&world.db, trash()).unwrap();
    assert_eq!((report.repaired, report.lost), (0, 1), "{report}");
    assert!(world.db.lost_ranges(&world.family).is_empty(), "{report}");
    disk.release();
    let report = repair(&world.db, trash()).unwrap();
    assert!(report.is_clean() && report.repaired > 0, "{report}");
    world.assert_clean();
}

/// A file that only readers hold is not named again for one value: its room would not come back.
#[test]
fn a_value_from_the_trash_leaves_a_file_that_readers_alone_hold() {
    let world = moved_apart();
    let value = world.model[&key(3)].clone();
    let cursor = world.db.cursor(&world.family, At::Latest, ALL).unwrap();
    let holding = |file: &PathBuf| world.sim.read_all(file).unwrap().windows(128).any(|window| window == value);
    let older = world.value_files().into_iter().find(holding).unwrap();
    // The values of the second table move too.
    let bytes = world.sim.read_all(&older).unwrap();
    let at = bytes.windows(128).position(|window| window == world.model[&key(35)]).unwrap();
    world.sim.flip(&older, at as u64 * 8 + 77).unwrap();
    assert!(repair(&world.db, RepairOptions::default()).unwrap().is_clean());
    assert!(world.value_files().contains(&older));
    burst_pointer(&world.sim, &table_of(&world, &value), &value);
    let report = repair(&world.db, RepairOptions { trash: Some(TRASH.into()), ..Default::default() }).unwrap();
    assert!(report.is_clean() && report.lost == 0, "{report}");
    let named = world.db.value_files(&world.family).unwrap();
    assert!(named.iter().all(|file| Path::new(DIR).join(file.name().to_string()) != older), "{named:?}");
    drop(cursor);
    while world.db.step().unwrap() {}
    assert!(!world.value_files().contains(&older));
    world.assert_clean();
}

/// The value of a pointer from the trash leaves a file that is not right, so that nothing is left to be repaired.
#[test]
fn a_pointer_from_the_trash_leads_into_no_file_that_was_hit() {
    let place = |bytes: &[u8], value: &[u8]| {
        let at = bytes.windows(value.len()).position(|window| window == value);
        at.unwrap() as u64 * 8 + 77
    };
    for at_header in [false, true] {
        let world = moved_apart();
        let value = world.model[&key(3)].clone();
        let holding = |file: &PathBuf| world.sim.read_all(file).unwrap().windows(128).any(|window| window == value);
        let older = world.value_files().into_iter().find(holding).unwrap();
        let bytes = world.sim.read_all(&older).unwrap();
        world.sim.flip(&older, if at_header { 30 * 8 } else { place(&bytes, &value) }).unwrap();
        burst_pointer(&world.sim, &table_of(&world, &value), &value);
        let report = repair(&world.db, RepairOptions { trash: Some(TRASH.into()), ..Default::default() }).unwrap();
        assert!(report.is_clean() && report.lost == 0, "{report}");
        world.assert_clean();
    }
}

/// A table that a plain node wrote counts its records without sums: an older version from the trash would make the
/// count close.
#[test]
fn no_older_version_from_the_trash_makes_a_count_close() {
    let options = options(Compression::None, false);
    let mut world = World::new(options.clone());
    world.fill(0, 10);
    world.db.flush().unwrap();
    let older = world.sim.read_all(&world.tables()[0]).unwrap();
    for n in 1..10 {
        world.apply(Kind::Put, &key(n), format!("newer than the first, number {n:06}").as_bytes());
    }
    let model = world.model.clone();
    let sim = world.closed();
    let plain = Parts { companions: Arc::new(Plain), ..parts(&sim, &options) };
    let plain = World::of(sim, plain, options.clone(), model.clone());
    let snapshot = plain.db.snapshot(); // so that the seqnos stay
    plain.compact();
    let [table] = &plain.tables()[..] else { panic!("one table") };
    drop(snapshot);
    let sim = plain.closed();
    burst(&sim, table, &model[&key(5)]);
    sim.create_dir_all(Path::new(TRASH)).unwrap();
    sim.write_all(Path::new(TRASH).join("000001.trash"), &older).unwrap();
    let world = reopened(&sim, &options, &model);
    assert!(!world.db.tables(&world.family).unwrap()[0].meta().ledger.has_sums());
    let report = repair(&world.db, RepairOptions { trash: Some(TRASH.into()), ..Default::default() }).unwrap();
    assert!(report.repaired == 0 && report.lost > 0, "{report}");
    assert!(world.refused() > 0 && !world.db.lost_ranges(&world.family).is_empty(), "{report}");
}
