//! Lost ranges: what readers see of them, and how they end.

use waxseal_lsm::db::At;
use waxseal_lsm::env::Fs;
use waxseal_lsm::options::Compression;
use waxseal_lsm::record::Kind;
use waxseal_meta::integrity::{
    Outcome, RepairOptions, Report, ScrubOptions, VerifyOptions, digest, repair, scrub, verify,
};

use super::sources::*;
use super::world::*;

/// One record is lost behind a fence; all others are there.
pub(crate) fn assert_fenced(world: &World, report: &Report, lost: u64) {
    let lost_ranges = world.db.lost_ranges(&world.family);
    assert_eq!(lost_ranges.len(), 1, "{report}");
    assert!(lost_ranges[0].1.may_hide(world.family.order(), &key(lost), u64::MAX >> 8));
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Fenced));
    for (known, value) in world.model.iter().filter(|(known, _)| **known != key(lost)) {
        let mut found = None;
        let outcome = world.db.get(&world.family, known, At::Latest, &mut |record| found = Some(record.value.to_vec()));
        assert!(outcome.unwrap(), "{report}");
        assert_eq!(found.as_ref(), Some(value));
    }
}

#[test]
fn reads_behind_a_fence_answer_corruption_once_and_go_on() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)].clone());
    let world = reopened(&sim, &options, &model);
    repair(&world.db, RepairOptions::default()).unwrap();
    assert!(world.db.get(&world.family, &key(50), At::Latest, &mut |_| {}).unwrap_err().is_corruption());
    assert!(digest(&world.db, &world.family, &ALL, At::Latest).unwrap_err().is_corruption());
    for back in [false, true] {
        let mut cursor = world.db.cursor(&world.family, At::Latest, ALL).unwrap();
        let (mut found, mut errors) = (0, 0);
        let mut moved = if back { cursor.last() } else { cursor.first() };
        loop {
            match moved {
                Err(error) => {
                    assert!(error.is_corruption());
                    errors += 1;
                }
                Ok(()) if cursor.valid() => found += 1,
                Ok(()) => break,
            }
            moved = if back { cursor.prev() } else { cursor.next() };
        }
        assert_eq!((found, errors), (99, 1));
    }
}

#[test]
fn a_fence_survives_a_reopen_and_ends_when_the_loss_is_accepted() {
    let options = options(Compression::None, false);
    let (sim, mut model, table, _) = one_table(options.clone(), 100);
    let value = model[&key(50)].clone();
    burst(&sim, &table, &value);
    let world = reopened(&sim, &options, &model);
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert_fenced(&world, &report, 50);
    let damaged = table.with_extension("damaged");
    assert!(sim.exists(&damaged).unwrap(), "{:?}", sim.files(DIR));
    let sim = world.closed();
    let world = reopened(&sim, &options, &model);
    assert_fenced(&world, &report, 50);
    let passes = [
        verify(&world.db, VerifyOptions::default()),
        repair(&world.db, RepairOptions::default()),
        scrub(&world.db, ScrubOptions::default()),
        scrub(&world.db, ScrubOptions { repair: Some(RepairOptions::default()), ..Default::default() }),
    ];
    for found in passes {
        let found = found.unwrap();
        assert_eq!((found.damage.len(), found.is_clean()), (1, false), "{found}");
        assert_eq!(found.damage[0].outcome, Outcome::Fenced, "{found}");
    }
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..Default::default() }).unwrap();
    assert!(report.damage.iter().all(|finding| finding.outcome == Outcome::Accepted), "{report}");
    assert!(world.db.lost_ranges(&world.family).is_empty());
    model.remove(&key(50));
    assert_eq!(world.content(), model);
    assert!(sim.exists(&damaged).unwrap(), "set aside for whoever wants to look");
}

/// A fence stays when a source comes that has what was lost: the new table counts what it holds.
#[test]
fn a_fence_ends_for_a_newer_write_or_an_accepted_loss() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)]);
    let mut world = reopened(&sim, &options, &model);
    repair(&world.db, RepairOptions::default()).unwrap();
    let replica = Replica::of(&model);
    repair(&world.db, RepairOptions { source: Some(&replica), ..Default::default() }).unwrap();
    assert_eq!((*replica.asked.lock().unwrap(), world.refused()), (0, 1));
    world.apply(Kind::Put, &key(50), b"newer");
    assert_eq!((world.refused(), world.db.lost_ranges(&world.family).len()), (0, 1));
}
