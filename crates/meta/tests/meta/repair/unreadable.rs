//! Blocks, footers and partitions that cannot be read now.

use std::path::Path;
use std::sync::atomic::Ordering;

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::{Env, Fs, Open};
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_meta::integrity::{
    Outcome, RepairOptions, Report, Rung, SalvageOptions, VerifyOptions, repair, salvage, verify,
};

use super::withholding::*;
use super::world::*;

/// Nobody else has the block, and the device gives it the next time, or the time after that.
#[test]
fn a_block_that_cannot_be_read_now_is_not_lost() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let place = place_of(&sim, &table, &model[&key(50)]);
    let of = |reads| {
        let disk = Withholding::new(&sim.fork());
        let world = disk.world(&options, &model);
        disk.fail_reads(&table, place, reads);
        (disk, world)
    };
    let for_a_while = (1..=16).map(|reads| (1 << reads) - 1);
    let patterns = [0b1111, 0b1_1110_1111, 0b11_1101_1110_1111];
    let now_and_then = (0..32).flat_map(|from| patterns.map(|reads: u128| reads << from));
    for (reads, accept_loss) in for_a_while.chain(now_and_then).flat_map(|reads| [(reads, false), (reads, true)]) {
        let (disk, world) = of(reads);
        let first = repair(&world.db, accepting(accept_loss)).unwrap();
        assert_no_fence(&world, &first);
        disk.release();
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(report.is_clean() && report.lost == 0, "{reads:b} {accept_loss}: {first}\n{report}");
        world.assert_clean();
    }
    // While it never does the table waits for it.
    let (disk, world) = of(ALWAYS);
    for _ in 0..2 {
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert_eq!((report.unread, report.repaired), (1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Unread), "{report}");
        assert_no_fence(&world, &report);
    }
    disk.release();
    assert!(repair(&world.db, RepairOptions::default()).unwrap().is_clean());
    world.assert_clean();
    // Or it is given up, and told why.
    let (disk, mut world) = of(ALWAYS);
    let report = repair(&world.db, accepting(true)).unwrap();
    assert!(report.unread == 1 && report.lost > 0, "{report}");
    for outcome in [Outcome::Unread, Outcome::Accepted] {
        assert!(report.damage.iter().any(|finding| finding.outcome == outcome), "{report}");
    }
    assert_no_fence(&world, &report);
    disk.release();
    world.model = world.content();
    assert_eq!(world.model.len() as u64, 100 - report.lost, "{report}");
    world.assert_clean();
}

/// Walks do not get the block, and each time they end it is there: nothing of it is given up, whoever would accept
/// that, and whether or not a bit of it was hit besides.
#[test]
fn a_block_that_answers_between_the_walks_is_not_lost() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    // One of another block is damaged, so that there is something to mend.
    burst(&sim, &table, &model[&key(5)]);
    let place = place_of(&sim, &table, &model[&key(95)]);
    let patterns = (5..8).map(|period| (0..8).map(|walk| 0b1111u128 << (period * walk)).sum::<u128>());
    let (mut told, mut tried) = (0, 0);
    for reads in patterns.flat_map(|pattern| (0..12).map(move |from| pattern << from)) {
        for (is_hit, accept_loss) in [(false, false), (true, false), (false, true), (true, true)] {
            let disk = Withholding::new(&sim.fork());
            if is_hit {
                disk.sim.flip(&table, place * 8 + 3).unwrap();
            }
            let world = disk.world(&options, &model);
            disk.fail_reads(&table, place, reads);
            let first = repair(&world.db, accepting(accept_loss)).unwrap();
            disk.release();
            (told, tried) = (told + first.unread, tried + 1);
            assert!(first.lost <= 1 || first.unread == 1, "{reads:b}: {first}");
            repair(&world.db, RepairOptions::default()).unwrap();
            let found = world.read(&key(95)).unwrap();
            assert_eq!(found.as_ref(), model.get(&key(95)), "{reads:b}, {is_hit}, {accept_loss}: {first}");
        }
    }
    assert!(told > 0 && told < tried, "{told} of {tried}");
}

/// A block is never read, and another one not now and then: with the loss accepted the first one alone is given up.
#[test]
fn a_block_that_is_never_read_takes_no_other_with_it() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let [never, now_and_then] = [5, 95].map(|n| place_of(&sim, &table, &model[&key(n)]));
    let mut given_up = 0;
    for (from, reads) in (0..40).flat_map(|from| [0b1111, 0b1_1110_1111].map(|reads: u128| (from, reads << from))) {
        let disk = Withholding::new(&sim.fork());
        let world = disk.world(&options, &model);
        disk.fail_reads(&table, never, ALWAYS);
        disk.fail_reads(&table, now_and_then, reads);
        let first = repair(&world.db, accepting(true)).unwrap();
        assert!(first.unread == 1, "{from}: {first}");
        disk.release();
        assert_eq!(world.read(&key(95)).unwrap().as_ref(), model.get(&key(95)), "{from}: {first}");
        given_up += u64::from(world.read(&key(5)).unwrap().is_none());
    }
    assert!(given_up > 20, "{given_up}");
}

/// The index is damaged, and of the only block the device gives nothing: nothing is left of the table, for now.
#[test]
fn a_table_of_which_nothing_can_be_read_now_is_not_lost() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 3);
    let length = sim.read_all(&table).unwrap().len() as u64;
    let place = place_of(&sim, &table, &model[&key(2)]);
    (place + 200..length - 136).for_each(|at| sim.flip(&table, at * 8 + at % 7).unwrap());
    for (reads, accept_loss) in [(ALWAYS, false), (ALWAYS, true), ((1 << 8) - 1, true), ((1 << 12) - 1, false)] {
        let disk = Withholding::new(&sim.fork());
        let world = disk.world(&options, &model);
        disk.fail_reads(&table, place, reads);
        let first = repair(&world.db, accepting(accept_loss)).unwrap();
        assert_no_fence(&world, &first);
        let gives_up = accept_loss && reads == ALWAYS;
        assert_eq!(first.unread > 0, reads == ALWAYS, "{reads:b}: {first}");
        disk.release();
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(report.is_clean() && report.lost == 0, "{reads:b}: {first}\n{report}");
        assert_eq!(world.content().is_empty(), gives_up, "{reads:b}: {first}\n{report}");
    }
}

/// The footer is in a page that the device does not give: the table waits for it, or is made anew by its data.
#[test]
fn a_footer_that_is_never_read_is_given_up_and_made_anew() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let footer = sim.read_all(&table).unwrap().len() as u64 - 1;
    let disk = Withholding::new(&sim.fork());
    let world = disk.world(&options, &model);
    disk.fail_reads(&table, footer, ALWAYS);
    for _ in 0..2 {
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert_eq!((report.unread, report.repaired), (1, 0), "{report}");
        assert_no_fence(&world, &report);
    }
    let report = repair(&world.db, accepting(true)).unwrap();
    assert!(report.unread <= 1 && report.lost == 0, "{report}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Rebuild)), "{report}");
    assert_no_fence(&world, &report);
    world.assert_clean();
}

/// A page of a cut index that the device does not give: its table waits, or is read by its data; all others are looked
/// at and mended.
#[test]
fn a_part_of_an_index_that_cannot_be_read_ends_nothing() {
    let options = CfOptions { block_bytes: 128, ..options(Compression::None, false) };
    let mut world = World::new(options.clone());
    world.fill(0, 3_000);
    world.compact();
    let (large, blocks, data_end) = {
        let table = &world.db.tables(&world.family).unwrap()[0];
        let open = table.table().unwrap();
        (Path::new(DIR).join(table.name()), open.blocks(), open.approximate_offset(b"zzz"))
    };
    assert!(blocks > 1_024, "{blocks}");
    world.fill(5_000, 20);
    world.db.flush().unwrap();
    let small = world.tables().into_iter().find(|table| *table != large).unwrap();
    let (sim, model) = (world.closed(), world.model.clone());
    burst(&sim, &small, &model[&key(5_010)]);
    let length = sim.read_all(&large).unwrap().len() as u64;
    let mut unread = 0;
    for at in (data_end..length - 136).step_by(1_000) {
        let disk = Withholding::new(&sim.fork());
        let world = disk.world(&options, &model);
        disk.fail_reads(&large, at, ALWAYS);
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        assert!(report.damage.iter().any(|finding| large.ends_with(&finding.file)), "{at}: {report}");
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert_eq!(report.lost, 1, "the other table is mended: {at}: {report}");
        unread += report.unread;
        let report = repair(&world.db, accepting(true)).unwrap();
        assert_eq!(report.lost, 0, "{at}: {report}");
        assert_eq!(world.content().len(), model.len() - 1, "{at}: {report}");
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty(), "{at}: {report}");
    }
    assert!(unread > 0);
}

/// A table file that was extended, perhaps to a length that nobody can read through: care looks at what it has, not at
/// the hole.
#[test]
fn the_hole_behind_a_table_is_not_read() {
    const LENGTH: u64 = 1 << 26;
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let size = sim.read_all(&table).unwrap().len() as u64;
    sim.open(&table, Open::Write).unwrap().set_len(LENGTH).unwrap();
    sim.settle();
    type Care<'a> = (&'a str, &'a dyn Fn(&World) -> Report);
    let cares: [Care<'_>; 2] = [
        ("verify", &|world| verify(&world.db, VerifyOptions::default()).unwrap()),
        ("repair", &|world| repair(&world.db, RepairOptions::default()).unwrap()),
    ];
    for (what, care) in cares {
        let disk = Withholding::new(&sim.fork());
        let world = disk.world(&options, &model);
        let report = care(&world);
        assert!(!report.damage.is_empty() && report.lost == 0, "{what}: {report}");
        let read = disk.bytes_read.load(Ordering::Relaxed);
        assert!(read < LENGTH / 64, "{what}: {read} bytes read of a table of {size}");
        if what == "repair" {
            world.assert_clean();
        }
    }
    for with_manifest in [true, false] {
        let disk = Withholding::new(&sim.fork());
        if !with_manifest {
            disk.sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        }
        let parts = parts(&disk.sim, &options);
        let parts = || Parts { env: Env { fs: disk.fs(), ..parts.env.clone() }, ..parts.clone() };
        let saved = Path::new("/saved");
        let report = salvage(Path::new(DIR), saved, settings(), parts(), SalvageOptions::default()).unwrap();
        let read = disk.bytes_read.load(Ordering::Relaxed);
        assert!(read < LENGTH / 64, "manifest {with_manifest}: {read} bytes read of a table of {size}");
        let db = Db::open(saved, settings(), parts()).unwrap();
        let family = db.family("default").unwrap();
        for (key, value) in &model {
            let mut found = None;
            db.get(&family, key, At::Latest, &mut |record| found = Some(record.value.to_vec())).unwrap();
            assert_eq!(found.as_ref(), Some(value), "manifest {with_manifest}: {report}");
        }
    }
}
