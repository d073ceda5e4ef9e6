//! Scrubs that stop and continue, and damage that has passed.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::db::{At, Db};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_meta::integrity::{RepairOptions, Report, ScrubOptions, VerifyOptions, repair, scrub, verify};

use super::world::*;

#[test]
fn a_scrub_that_goes_on_in_a_table_closes_its_count() {
    let mut world = World::new(options(Compression::None, false));
    world.fill(0, 200);
    world.compact();
    let first = scrub(&world.db, ScrubOptions { most_bytes: Some(4000), ..ScrubOptions::default() }).unwrap();
    let token = first.resume.unwrap();
    assert_eq!(token.ledger.count(), first.records);
    let rest = scrub(&world.db, ScrubOptions { resume: Some(token), ..ScrubOptions::default() }).unwrap();
    assert_eq!((first.records + rest.records, rest.files), (200, 1));
    // With another count than that of the blocks before it is looked at from the beginning.
    let other = waxseal_meta::integrity::Token { ledger: Default::default(), ..token };
    let rest = scrub(&world.db, ScrubOptions { resume: Some(other), ..ScrubOptions::default() }).unwrap();
    assert!(rest.files == 2 && rest.records > 200 && rest.damage.is_empty(), "{rest}");
}

#[test]
fn a_scrub_goes_on_where_it_stopped_and_keeps_its_pace() {
    let mut world = World::new(options(Compression::None, false));
    world.fill(0, 200);
    world.db.flush().unwrap();
    world.fill(100, 200); // over the same keys, so that a compaction merges them
    world.db.flush().unwrap();
    let clock = world.sim.clock();
    let began = waxseal_lsm::env::Clock::monotonic_nanos(&*clock);
    let (mut records, mut bytes, mut passes) = (0, 0, 0);
    let mut resume = None;
    loop {
        let options = ScrubOptions {
            bytes_per_second: Some(1_000_000),
            most_bytes: Some(4000),
            resume,
            ..ScrubOptions::default()
        };
        let report = scrub(&world.db, options).unwrap();
        assert!(report.damage.is_empty(), "{report}");
        records += report.records;
        bytes += report.bytes;
        passes += 1;
        resume = report.resume;
        if resume.is_none() {
            break;
        }
    }
    assert_eq!(records, 400);
    assert!(passes > 5);
    let passed = waxseal_lsm::env::Clock::monotonic_nanos(&*clock) - began;
    assert!(passed >= bytes * 1000 * 9 / 10, "{bytes} bytes in {passed} ns");
    // What is compacted meanwhile is not missed, and what is damaged is found and mended.
    let first = scrub(&world.db, ScrubOptions { most_bytes: Some(4000), ..ScrubOptions::default() }).unwrap();
    world.compact();
    let table = world.tables()[0].clone();
    world.sim.flip(&table, 3000 * 8).unwrap();
    let found = scrub(&world.db, ScrubOptions { resume: first.resume, ..ScrubOptions::default() }).unwrap();
    assert_eq!(found.damage.len(), 1, "{found}");
    let repair = Some(RepairOptions::default());
    let mended = scrub(&world.db, ScrubOptions { repair, ..ScrubOptions::default() }).unwrap();
    assert!(mended.is_clean() && mended.repaired == 1, "{mended}");
    world.assert_clean();
}

/// Reads every key, by itself and in a scan, whatever the errors.
fn read_whatever_there_is(world: &World) {
    for key in world.model.keys() {
        let _ = world.db.get(&world.family, key, At::Latest, &mut |_| {});
    }
    let mut cursor = world.db.cursor(&world.family, At::Latest, ALL).unwrap();
    let mut moved = cursor.first();
    for _ in 0..2 * world.model.len() {
        if moved.is_ok() && !cursor.valid() {
            break;
        }
        moved = cursor.next();
    }
}

/// A device that fails for a time, or a copy that restored the bytes: readers forget the damage that they met once a
/// scrub, verification or repair has found the files intact.
#[test]
fn every_care_makes_readers_forget_damage_that_has_passed() {
    const PARTS: u64 = 12;
    type Care = fn(&Db) -> Result<Report>;
    let cares: [(&str, Care); 3] = [
        ("verify", |db| verify(db, VerifyOptions::default())),
        ("scrub", |db| scrub(db, ScrubOptions::default())),
        ("repair", |db| repair(db, RepairOptions::default())),
    ];
    let plain = options(Compression::None, false);
    let kinds = [
        ("one index", plain.clone()),
        ("cut index", CfOptions { part_blocks: 2, ..plain.clone() }),
        ("value file", CfOptions { large_value_bytes: 64, ..plain }),
    ];
    let (mut remembered, mut renewed) = (0, 0);
    for (kind, options) in kinds {
        let (sim, model, table, data_end) = one_table(options.clone(), 300);
        let mut hits = Vec::new();
        for name in sim.files(DIR).into_iter().filter(|name| name.ends_with(".tbl") || name.ends_with(".val")) {
            let path = Path::new(DIR).join(name);
            let each = (sim.read_all(&path).unwrap().len() as u64).div_ceil(PARTS);
            hits.extend(
                (0..PARTS).map(|part| (path.clone(), std::iter::once(part * each..(part + 1) * each).collect())),
            );
        }
        // The index and filter of the first blocks follow the data. Without a block, the index is not rebuilt whole.
        let (first_block, first_part) = (64..128, data_end..data_end + 200);
        hits.push((table.clone(), vec![first_part.clone()]));
        hits.push((table, vec![first_block, first_part]));
        for ((path, ranges), (care_name, care)) in
            hits.into_iter().flat_map(|hit| cares.map(|care| (hit.clone(), care)))
        {
            let world = World::on(sim.fork(), options.clone(), model.clone());
            let whole = world.sim.read_all(&path).unwrap();
            let mut hit = whole.clone();
            for range in &ranges {
                let (from, length) = (range.start as usize, (range.end - range.start) as usize);
                hit.iter_mut().skip(from).take(length).for_each(|byte| *byte ^= 0xFF);
            }
            world.sim.write_all(&path, &hit).unwrap();
            read_whatever_there_is(&world);
            let opened = || world.db.tables(&world.family).unwrap()[0].table();
            let before = opened().ok();
            world.sim.write_all(&path, &whole).unwrap();
            let is_whole = || model.keys().all(|key| world.db.get(&world.family, key, At::Latest, &mut |_| {}).is_ok());
            remembered += u32::from(!is_whole());
            let report = care(&world.db).unwrap();
            let place = format!("{kind}, {}, bytes {ranges:?}, {care_name}", path.display());
            assert!(report.damage.is_empty(), "{place}: {report}");
            assert!(is_whole(), "{place}");
            assert_eq!(world.content(), model, "{place}");
            renewed += u32::from(before.is_some_and(|before| !Arc::ptr_eq(&before, &opened().unwrap())));
        }
    }
    assert!(remembered > 30, "{remembered} cases left something to forget");
    // Two hits on the first part, with each care. A part without its filter answers rightly, but slowly.
    assert!(renewed >= 6, "{renewed} tables were opened again");
}
