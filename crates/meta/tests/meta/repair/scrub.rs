//! Scrubs that stop and continue.

use waxseal_lsm::options::Compression;
use waxseal_meta::care::{RepairOptions, ScrubOptions, scrub};

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
    let other = waxseal_meta::care::Token { ledger: Default::default(), ..token };
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
