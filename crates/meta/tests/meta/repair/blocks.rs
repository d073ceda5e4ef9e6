//! Repair of blocks from what the table itself still holds.

use std::path::Path;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::record::{Kind, Record};
use waxseal_meta::integrity::{Outcome, RepairOptions, Rung, VerifyOptions, repair, verify};

use super::sources::*;
use super::world::*;

#[test]
fn one_or_two_flipped_bits_of_any_block_are_repaired() {
    for compression in codecs() {
        let options = options(compression, compression != Compression::None);
        let (sim, model, table, data_end) = one_table(options.clone(), 120);
        for trial in 0..24u64 {
            let hurt = sim.fork();
            let first = 64 * 8 + hash(&trial.to_le_bytes()) % ((data_end - 64) * 8);
            hurt.flip(&table, first).unwrap();
            if trial % 2 == 1 {
                let second = first ^ (1 + trial % 7); // in the same byte, so in the same block
                hurt.flip(&table, second).unwrap();
            }
            let world = reopened(&hurt, &options, &model);
            let report = repair(&world.db, RepairOptions::default()).unwrap();
            assert!(report.is_clean() && report.repaired >= 1 && report.lost == 0, "{compression:?} {trial}: {report}");
            world.assert_clean();
            assert!(world.db.lost_ranges(&world.family).is_empty());
        }
    }
}

#[test]
fn index_filter_properties_and_footer_are_made_anew() {
    let options = options(codecs().pop().unwrap(), false);
    let (sim, model, table, data_end) = one_table(options.clone(), 200);
    let length = sim.read_all(&table).unwrap().len() as u64;
    for step in 0..24 {
        let hurt = sim.fork();
        for bit in [3, 13, 29] {
            hurt.flip(&table, (data_end + (length - data_end) * step / 24) * 8 + bit).unwrap();
        }
        let world = reopened(&hurt, &options, &model);
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(report.is_clean() && report.repaired >= 1, "{step}: {report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Rebuild)), "{report}");
        world.assert_clean();
    }
}

#[test]
fn two_flips_anywhere_are_repaired() {
    for compression in codecs() {
        let options = options(compression, false);
        let (sim, model, table, data_end) = one_table(options.clone(), 120);
        for trial in 0..24u64 {
            let hurt = sim.fork();
            let bit = |n: u64| 64 * 8 + hash(&(trial * 2 + n).to_le_bytes()) % ((data_end - 64) * 8);
            let first = bit(0);
            // In other bytes of the block, most likely, or anywhere.
            let second = if trial % 2 == 0 { first ^ (1 << (5 + trial % 5)) } else { bit(1) };
            hurt.flip(&table, first).unwrap();
            hurt.flip(&table, second.clamp(64 * 8, data_end * 8 - 1)).unwrap();
            let world = reopened(&hurt, &options, &model);
            let report = repair(&world.db, RepairOptions::default()).unwrap();
            assert!(report.is_clean() && report.repaired >= 1 && report.lost == 0, "{compression:?} {trial}: {report}");
            world.assert_clean();
        }
    }
}

#[test]
fn what_memory_still_holds_of_a_block_fills_its_gaps() {
    for compression in codecs() {
        let options = options(compression, false);
        let (sim, model, table, _) = one_table(options.clone(), 100);
        let world = reopened(&sim, &options, &model);
        assert_eq!(world.content(), model);
        for bit in 0..40 {
            sim.flip(&table, 1000 * 8 + bit * 3).unwrap();
        }
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(report.is_clean(), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Memory)), "{report}");
        world.assert_clean();
    }
}

#[test]
fn a_block_whose_sum_alone_is_wrong_is_told_behind_another_damage() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(3)].clone());
    let world = reopened(&sim.fork(), &options, &model);
    let open = world.db.tables(&world.family).unwrap()[0].table().unwrap().clone();
    let mut at = 64;
    let mut offsets = Vec::new();
    for block in 0..open.blocks() {
        offsets.push(at);
        at += open
            .check_block(block, world.db.companions())
            .map_or_else(|_| next_block(&open, block, at), |checked| checked.bytes);
    }
    let (victim, behind) = (offsets[offsets.len() - 2], offsets[offsets.len() - 1]);
    for bit in [1, 6, 11, 13, 17, 22, 29] {
        sim.flip(&table, (behind - 4) * 8 + bit).unwrap();
    }
    let world = reopened(&sim, &options, &model);
    let report = verify(&world.db, VerifyOptions::default()).unwrap();
    let told: Vec<u64> = report.damage.iter().map(|finding| finding.offset).collect();
    assert!(told.len() == 2 && told.contains(&victim), "{report}");
    // It may be an older copy, so its own seals do not speak for it; a replica does.
    let replica = Replica::of(&model);
    let report = repair(&world.db, RepairOptions { source: Some(&replica), ..Default::default() }).unwrap();
    assert!(report.is_clean() && report.damage.len() == 2, "{report}");
    world.assert_clean();
}

/// Versions of one key that two damaged blocks share come back in their order.
#[test]
fn versions_of_a_key_in_two_damaged_blocks_come_back_in_their_order() {
    let options = CfOptions { block_bytes: 256, ..options(Compression::None, false) };
    let value = |n: u64| format!("version {n:06} {}", "x".repeat(60));
    let mut world = World::new(options.clone());
    world.keep_log();
    let seen: Vec<_> = (0..12)
        .map(|n| {
            world.apply(Kind::Put, b"k", value(n).as_bytes());
            world.db.snapshot().unwrap()
        })
        .collect();
    world.compact();
    let table = world.tables()[0].clone();
    for (a, b) in (0..12).flat_map(|a| (0..a).map(move |b| (a, b))) {
        let world = &world;
        [a, b].iter().for_each(|n| burst(&world.sim, &world.tables()[0], value(*n).as_bytes()));
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(report.is_clean(), "{a}, {b}: {report}");
        for (n, snapshot) in (0..).zip(&seen) {
            let mut found = None;
            let take = &mut |record: &Record<'_>| found = Some(record.value.to_vec());
            world.db.get(&world.family, b"k", At::Snapshot(snapshot), take).unwrap();
            assert_eq!(found, Some(value(n).into_bytes()), "{a}, {b}");
        }
    }
    assert_ne!(world.tables()[0], table);
}

/// A table of which nothing is left is a gap from its first key to its last.
#[test]
fn a_table_that_is_gone_or_empty_is_mended_or_fenced() {
    let options = options(Compression::None, false);
    for is_gone in [false, true] {
        let hit = |sim: &SimFs, table: &Path| {
            sim.delete(table).unwrap();
            if !is_gone {
                sim.open(table, Open::Create).unwrap();
            }
        };
        let (sim, model, table, _) = one_table(options.clone(), 100);
        copied_to_trash(&sim, &table);
        hit(&sim, &table);
        let world = reopened(&sim.fork(), &options, &model);
        let report = repair(&world.db, RepairOptions { trash: Some(TRASH.into()), ..Default::default() }).unwrap();
        assert!(report.is_clean() && report.lost == 0, "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Trash)), "{report}");
        assert_no_fence(&world, &report);
        world.assert_clean();
        let world = reopened(&sim, &options, &model);
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert_eq!((report.lost, world.refused()), (100, 100), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Fenced), "{report}");
        assert!(world.read(&key(100)).unwrap().is_none() && world.tables().is_empty());
        let report = repair(&world.db, accepting(true)).unwrap();
        assert!(report.damage.iter().all(|finding| finding.outcome == Outcome::Accepted), "{report}");
        assert!(world.content().is_empty());
        assert_no_fence(&world, &report);
    }
}
