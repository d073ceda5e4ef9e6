//! Salvage of stores without a manifest.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::identity;
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::range_delete::RangeDelete;
use waxseal_lsm::record::Kind;
use waxseal_lsm::sst::{ExaminedItem, Writer, WriterSettings};
use waxseal_lsm::version::{Edit, EditChange, Manifest, recover};
use waxseal_meta::Sealer;
use waxseal_meta::integrity::{
    Outcome, RepairOptions, Report, Rung, SalvageOptions, VerifyOptions, digest, repair, salvage, verify,
};
use waxseal_testing::harness::Store;

use super::lost_ranges::*;
use super::world::*;

/// The store into a new one on the same disk, opened.
fn salvaged(sim: &SimFs, options: &CfOptions, model: &Model) -> (World, Report) {
    salvaged_by(sim, options, model, SalvageOptions::default())
}

fn salvaged_accepting(sim: &SimFs, options: &CfOptions, model: &Model) -> (World, Report) {
    salvaged_by(&sim.fork(), options, model, SalvageOptions { accept_loss: true, ..Default::default() })
}

fn salvaged_by(sim: &SimFs, options: &CfOptions, model: &Model, how: SalvageOptions<'_>) -> (World, Report) {
    let to = Path::new("/salvaged");
    let report = salvage(Path::new(DIR), to, settings(), parts(sim, options), how).unwrap();
    let store = Store::of(sim, to, settings(), parts(sim, options)).unwrap();
    (World { store, options: options.clone(), model: model.clone() }, report)
}

#[test]
fn a_store_without_a_manifest_is_salvaged() {
    for compression in codecs() {
        let options = options(compression, false);
        let mut world = World::new(options.clone());
        world.fill(0, 200);
        world.compact();
        world.fill(100, 20);
        for n in 50..60 {
            world.apply(Kind::Delete, &key(n), b"");
        }
        world.apply(Kind::Put, &key(1), b"newer");
        world.db.flush().unwrap();
        world.apply(Kind::Put, &key(2), b"newest, in the log alone");
        let content = digest(&world.db, &world.family, &ALL, At::Latest).unwrap();
        let sim = world.sim.fork(); // as a killed process leaves it
        for name in sim.files(DIR).into_iter().filter(|name| name.starts_with("MANIFEST") || *name == "CURRENT") {
            sim.delete(Path::new(DIR).join(name)).unwrap();
        }
        let before = files(&sim);
        assert!(Db::open(Path::new(DIR), settings(), parts(&sim, &options)).is_err());
        let (saved, report) = salvaged(&sim, &options, &world.model);
        assert_eq!(saved.content(), world.model, "{report}");
        assert_eq!(saved.digest(), content);
        saved.assert_clean();
        assert_eq!(report.lost, 0, "{report}");
        assert_eq!(files(&sim), before, "the source is only read");
    }
}

#[test]
fn a_salvage_takes_what_is_left_of_damaged_tables() {
    let options = options(Compression::None, false);
    let (sim, mut model, table, data_end) = one_table(options.clone(), 100);
    let length = sim.read_all(&table).unwrap().len() as u64;
    let with_ends = sim.fork();
    for at in [data_end + 10, length - 40, length - 90] {
        sim.flip(&table, at * 8).unwrap();
    }
    let (saved, report) = salvaged(&sim.fork(), &options, &model);
    assert_eq!(saved.content(), model, "{report}");
    for sim in [&sim, &with_ends] {
        burst(sim, &table, &model[&key(50)].clone());
    }
    let (saved, report) = salvaged_accepting(&sim, &options, &model);
    assert!(saved.db.lost_ranges(&saved.family).is_empty());
    let (fenced, told) = salvaged(&with_ends, &options, &model);
    assert_fenced(&fenced, &told, 50);
    // Without its properties nothing says that the key behind the gap has no newer version in it.
    let (fenced, told) = salvaged(&sim, &options, &model);
    assert_eq!(fenced.refused(), 2, "{told}");
    assert!(fenced.read(&key(50)).is_err());
    model.remove(&key(50));
    assert_eq!(saved.content(), model, "{report}");
    assert_eq!((report.lost, told.lost), (1, 1), "{report}");
    assert!(report.damage.iter().all(|finding| finding.outcome != Outcome::Fenced), "{report}");
    assert!(
        salvage(Path::new(DIR), Path::new("/salvaged"), settings(), parts(&sim, &options), SalvageOptions::default())
            .is_err()
    );
}

/// The table file written anew under its own uid, whole in itself, without one of its records: an older copy of it,
/// say.
fn without_one(sim: &SimFs, options: &CfOptions, model: &Model, table: &Path, left_out: &[u8]) {
    let world = reopened(&sim.fork(), options, model);
    let found = world.db.tables(&world.family).unwrap();
    let (open, meta) = (found[0].table().unwrap(), found[0].meta().clone());
    let settings = WriterSettings::of(options, world.family.id(), meta.least_seqno);
    let path = Path::new("/other.tbl");
    let file = sim.open(path, Open::Create).unwrap();
    let mut writer = Writer::new(file, meta.uid, settings, Arc::new(Sealer::new()));
    let take = &mut |found: ExaminedItem<'_>| match found {
        ExaminedItem::Record(record, ..) if record.key != left_out => writer.add(record),
        _ => Ok(()),
    };
    open.examine(&Sealer::new(), false, take).unwrap();
    writer.finish().unwrap();
    let bytes = sim.read_all(path).unwrap();
    sim.delete(table).unwrap();
    sim.open(table, Open::Create).unwrap().write_at(&bytes, 0).unwrap();
}

#[test]
fn a_table_that_is_whole_but_lacks_a_record_is_never_called_repaired() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    without_one(&sim, &options, &model, &table, &key(50));
    let world = reopened(&sim.fork(), &options, &model);
    for _ in 0..2 {
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(!report.is_clean() && report.repaired == 0 && report.lost == 1, "{report}");
        assert_eq!((world.tables(), world.db.quarantined_tables(&world.family).len()), (vec![table.clone()], 1));
        // Nobody knows where it stood: all that the table spans is under one fence.
        let lost_ranges = world.db.lost_ranges(&world.family);
        assert_eq!(
            (lost_ranges.len(), &lost_ranges[0].1.from.0, &lost_ranges[0].1.to.0),
            (1, &key(0), &key(99)),
            "{report}"
        );
    }
    assert!(world.read(&key(50)).is_err());
    assert!(world.read(&key(100)).unwrap().is_none());
    let mut world = World { model: world.model.clone(), ..world };
    world.apply(Kind::Put, &key(50), b"newer");
    assert_eq!(world.read(&key(50)).unwrap().unwrap(), b"newer");
    // The file is put back in its place: nothing was lost.
    let (hurt, whole) = (world.sim.read_all(&table).unwrap(), sim_before(&options, &table));
    let write = |bytes: &[u8]| {
        world.sim.delete(&table).unwrap();
        world.sim.open(&table, Open::Create).unwrap().write_at(bytes, 0).unwrap();
    };
    write(&whole);
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(report.damage.is_empty() && world.db.lost_ranges(&world.family).is_empty(), "{report}");
    assert!(world.db.quarantined_tables(&world.family).is_empty());
    write(&hurt);
    // Or it is given up: told, and the file set aside.
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..Default::default() }).unwrap();
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Accepted) && report.lost == 1, "{report}");
    assert!(report.damage.iter().all(|finding| finding.outcome != Outcome::Barred), "{report}");
    assert!(world.sim.exists(&table.with_extension("damaged")).unwrap());
    assert!(world.db.lost_ranges(&world.family).is_empty() && world.db.quarantined_tables(&world.family).is_empty());
    assert_eq!(world.refused(), 0);
}

/// The table of `one_table` as it was.
fn sim_before(options: &CfOptions, table: &Path) -> Vec<u8> {
    let (sim, _, same, _) = one_table(options.clone(), 100);
    assert_eq!(same, table);
    sim.read_all(table).unwrap()
}

#[test]
fn no_older_version_stands_in_for_one_that_a_salvage_lost() {
    let options = options(Compression::None, false);
    let world = in_layers(&options);
    let newer = by_age(&world)[1].clone();
    let sim = world.sim.fork();
    for n in [50, 51, 52] {
        burst(&sim, &newer, format!("newer than the first, number {n:06}").as_bytes());
    }
    let check = |saved: &World, report: &Report| {
        assert!(saved.read(&key(50)).unwrap_err().is_corruption(), "{report}");
        assert_eq!(saved.read(&key(51)).unwrap().unwrap(), b"the newest, in the log");
        assert_eq!((saved.read(&key(52)).unwrap(), saved.refused()), (None, 1), "{report}");
    };
    let (saved, report) = salvaged(&sim.fork(), &options, &world.model);
    check(&saved, &report);
    saved.compact(); // and the tombstone stays
    check(&saved, &report);
    // The same where the whole table is gone: its keys are fenced, and no others.
    let gone = sim.fork();
    gone.delete(&newer).unwrap();
    let (saved, report) = salvaged(&gone, &options, &world.model);
    assert_eq!((saved.refused(), saved.read(&key(52)).unwrap()), (18, None), "{report}");
    assert!(saved.read(b"key 000045x").unwrap_err().is_corruption());
    // Who accepts the loss gets what there is.
    let (saved, report) = salvaged_accepting(&sim, &options, &world.model);
    assert!(saved.read(&key(50)).unwrap().unwrap().starts_with(b"value 000050"), "{report}");
    assert!(report.damage.iter().all(|finding| finding.outcome == Outcome::Accepted), "{report}");
    assert!(saved.db.lost_ranges(&saved.family).is_empty());
}

#[test]
fn a_salvage_keeps_the_fences_there_were() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)].clone());
    let world = reopened(&sim, &options, &model);
    repair(&world.db, RepairOptions::default()).unwrap();
    let sim = world.closed();
    let (saved, report) = salvaged(&sim, &options, &model);
    assert_fenced(&saved, &report, 50);
}

#[test]
fn what_the_log_lost_may_have_been_any_key() {
    let options = options(Compression::None, false);
    let mut world = in_layers(&options);
    for n in 70..80 {
        world.apply(Kind::Put, &key(n), format!("only the log has number {n:06}").as_bytes());
    }
    world.db.sync().unwrap();
    let sim = world.sim.fork();
    let mut hits = 0;
    for name in sim.files(DIR).into_iter().filter(|name| name.ends_with(".log") || name.ends_with(".ring")) {
        let path = Path::new(DIR).join(&name);
        let bytes = sim.read_all(&path).unwrap();
        let value = b"only the log has number 000075";
        let places: Vec<_> = (0..bytes.len() - value.len()).filter(|at| bytes[*at..].starts_with(value)).collect();
        places.iter().for_each(|at| sim.flip(&path, *at as u64 * 8 + 5).unwrap());
        hits += places.len();
    }
    assert!(hits > 0, "{:?}", sim.files(DIR));
    let (saved, report) = salvaged(&sim.fork(), &options, &world.model);
    let behind: Vec<Vec<u8>> = (76..80).map(key).collect(); // written after what is lost
    assert_eq!(saved.refused(), world.model.len() - behind.len(), "{report}");
    for key in &behind {
        assert_eq!(saved.read(key).unwrap().as_ref(), world.model.get(key), "{report}");
    }
    assert!(saved.read(b"a key that never was").unwrap_err().is_corruption());
    let (saved, report) = salvaged_accepting(&sim, &options, &world.model);
    assert_eq!(saved.read(&key(74)).unwrap(), world.model.get(&key(74)).cloned(), "{report}");
    assert!(saved.read(&key(75)).unwrap().unwrap().starts_with(b"value 000075"), "{report}");
}

#[test]
fn without_a_manifest_a_table_that_does_not_say_what_it_held_fences_all() {
    let options = options(Compression::None, false);
    let world = in_layers(&options);
    let newer = by_age(&world)[1].clone();
    let sim = world.sim.fork();
    for name in sim.files(DIR).into_iter().filter(|name| name.starts_with("MANIFEST") || *name == "CURRENT") {
        sim.delete(Path::new(DIR).join(name)).unwrap();
    }
    let length = sim.read_all(&newer).unwrap().len() as u64;
    let data_end =
        world.db.tables(&world.family).unwrap().iter().find(|table| newer.ends_with(table.name())).unwrap().table();
    let data_end = data_end.unwrap().approximate_offset(b"zzz");
    (data_end + 8..length).for_each(|at| sim.flip(&newer, at * 8 + at % 7).unwrap());
    let (saved, report) = salvaged(&sim.fork(), &options, &world.model);
    assert_eq!(saved.refused(), world.model.len(), "{report}");
    let (saved, report) = salvaged_accepting(&sim, &options, &world.model);
    assert_eq!(saved.refused(), 0, "{report}");
    assert!(report.damage.iter().any(|finding| finding.message.contains("its manifest")), "{report}");
}

/// Without a manifest a table that was replaced may stand beside the one that replaced it, with the same records.
#[test]
fn what_one_table_lacks_and_another_holds_is_not_lost() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    // The same records in a table of another uid: one table under two names would mean that a third is gone.
    let apart = SimFs::new(8);
    let mut world = World::of(
        apart.clone(),
        Parts { env: apart.env(99), ..parts(&apart, &options) },
        options.clone(),
        Model::new(),
    );
    world.fill(0, 100);
    world.compact();
    let its_table = world.tables()[0].clone();
    let twin = (world.closed(), its_table);
    let hit = |(sim, table): (&SimFs, &Path), of: &[u64]| {
        let sim = sim.fork();
        of.iter().for_each(|n| burst(&sim, table, &model[&key(*n)]));
        sim.read_all(table).unwrap()
    };
    let (older, newer) = ((&twin.0, &*twin.1), (&sim, &*table));
    let of_tables = |of_older: &[u64], of_newer: &[u64]| {
        let (older, newer) = (hit(older, of_older), hit(newer, of_newer));
        let sim = sim.fork();
        for name in [table.file_name().unwrap().to_str().unwrap(), "CURRENT"] {
            sim.delete(Path::new(DIR).join(name)).unwrap();
        }
        sim.write_all(Path::new(DIR).join("000090.tbl"), &older).unwrap();
        sim.write_all(Path::new(DIR).join("000091.tbl"), &newer).unwrap();
        sim
    };
    // Another store wrote the twin: both are asked for.
    let store = |sim: &SimFs| identity::named_in(&sim.env(0), Path::new(DIR)).unwrap()[0].1.store;
    let stores = vec![store(&sim), store(&twin.0)];
    let (one, others) = (&[20, 21, 50][..], &[80][..]);
    for (older, newer, repaired) in [(one, &[][..], 3), (&[][..], one, 3), (one, others, 4)] {
        for accept_loss in [false, true] {
            let how = SalvageOptions { accept_loss, stores: stores.clone(), ..Default::default() };
            let (saved, report) = salvaged_by(&of_tables(older, newer), &options, &model, how);
            assert_eq!(saved.content(), model, "{report}");
            assert_eq!((report.lost, report.repaired), (0, repaired), "{report}");
            assert!(saved.db.lost_ranges(&saved.family).is_empty());
        }
    }
    // What both lack is lost.
    let how = SalvageOptions { stores, ..Default::default() };
    let (saved, report) = salvaged_by(&of_tables(one, &[50]), &options, &model, how);
    assert!(saved.read(&key(50)).unwrap_err().is_corruption() && report.lost > 0, "{report}");
    saved.refused();
}

#[test]
fn what_a_table_lacks_and_the_log_holds_is_not_lost_without_a_manifest() {
    let options = options(Compression::None, false);
    let mut world = World::new(options.clone());
    world.fill(0, 40);
    world.db.flush().unwrap();
    let sim = world.sim.fork(); // as a killed process leaves it
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    burst(&sim, &world.tables()[0], &world.model[&key(20)]);
    let (saved, report) = salvaged(&sim, &options, &world.model);
    assert_eq!(saved.content(), world.model, "{report}");
    assert_eq!((report.lost, report.repaired), (0, 1), "{report}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Log)), "{report}");
    assert!(saved.db.lost_ranges(&saved.family).is_empty());
}

#[test]
fn a_salvage_that_is_ended_leaves_no_store() {
    let options = options(Compression::None, false);
    let (sim, _, _, _) = one_table(options.clone(), 100);
    let to = Path::new("/salvaged");
    let progress: Option<waxseal_meta::integrity::Watch<'_>> = None;
    let mut stop = |_| std::ops::ControlFlow::Break(());
    let how = SalvageOptions { progress: progress.or(Some(&mut stop)), ..Default::default() };
    assert!(salvage(Path::new(DIR), to, settings(), parts(&sim, &options), how).is_err());
    assert!(!sim.exists(to).unwrap() || sim.files(to).is_empty(), "{:?}", sim.files(to));
}

/// A snapshot keeps one range delete in the manifest, and another one is in the log alone.
#[test]
fn a_salvage_brings_back_no_record_that_a_range_delete_hides() {
    let options = options(Compression::None, false);
    let mut world = World::new(options.clone());
    world.fill(0, 100);
    world.db.flush().unwrap();
    let snapshot = world.db.snapshot().unwrap();
    world.delete_range(20, 60);
    world.apply(Kind::Put, &key(30), b"newer than the first");
    world.db.flush().unwrap();
    world.delete_range(80, 90);
    world.apply(Kind::Put, &key(82), b"newer than the second");
    let content = digest(&world.db, &world.family, &ALL, At::Latest).unwrap();
    assert_eq!(world.db.range_deletes(&world.family).unwrap().len(), 1);
    let sim = world.sim.fork(); // as a killed process leaves it
    drop(snapshot);
    let (saved, report) = salvaged(&sim.fork(), &options, &world.model);
    assert_eq!(saved.content(), world.model, "{report}");
    assert_eq!((saved.digest(), report.lost), (content, 0), "{report}");
    assert!(report.damage.is_empty(), "{report}");
    saved.compact();
    assert_eq!(saved.content(), world.model, "{report}");
    // Beside a loss, the records around it are written a second time, but not those that are deleted.
    let hurt = sim.fork();
    burst(&hurt, &by_age(&world)[0], b"value 000010");
    let (saved, report) = salvaged(&hurt, &options, &world.model);
    assert!(saved.read(&key(10)).unwrap_err().is_corruption(), "{report}");
    for n in [25, 59, 85] {
        assert!(saved.read(&key(n)).map_or_else(|error| error.is_corruption(), |found| found.is_none()), "{report}");
    }
    saved.refused();
    // Without a manifest the first range delete is unknown, and the report says so; the second one is in the log.
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    let (saved, report) = salvaged(&sim, &options, &world.model);
    assert!(report.damage.iter().any(|finding| finding.message.contains("range deletes")), "{report}");
    for n in 80..90 {
        assert_eq!(saved.read(&key(n)).unwrap().as_ref(), world.model.get(&key(n)), "{report}");
    }
    assert_eq!(saved.read(&key(30)).unwrap().unwrap(), b"newer than the first");
}

/// A range delete whose end was changed, in an edit with the right checksum.
#[test]
fn a_range_delete_of_the_manifest_that_does_not_match_its_seal_is_found() {
    let options = options(Compression::None, false);
    let mut world = World::new(options.clone());
    world.fill(0, 40);
    world.db.flush().unwrap();
    let snapshot = world.db.snapshot().unwrap();
    world.delete_range(20, 30);
    world.db.flush().unwrap();
    drop(snapshot);
    assert!(verify(&world.db, VerifyOptions::default()).unwrap().is_clean());
    let range = world.db.range_deletes(&world.family).unwrap()[0].clone();
    let sim = world.closed();
    let (dir, env) = (Path::new(DIR), sim.env(99));
    let found = recover(&env, dir).unwrap().unwrap();
    let mut edit = Edit::default();
    let changed = RangeDelete { end: Some(key(25)), ..(*range).clone() };
    edit.changes.push(EditChange::RangeDeleteRetired { family: 0, seqno: range.seqno });
    edit.changes.push(EditChange::RangeDeleteAdded { family: 0, range: Arc::new(changed) });
    let next_file = found.next_file + 1;
    let (last_seqno, next_family) = (found.state.last_seqno, found.state.next_family);
    edit.changes.push(EditChange::Counters { next_file, last_seqno, next_family });
    Manifest::resume(&env, dir, &found, found.next_file, &edit).unwrap();
    let (saved, report) = salvaged(&sim.fork(), &options, &world.model);
    assert!(report.damage.iter().any(|finding| finding.message.contains("does not match its seal")), "{report}");
    assert_eq!(saved.refused(), world.model.len(), "any key may have been deleted: {report}");
    let report = verify(&reopened(&sim, &options, &world.model).db, VerifyOptions::default()).unwrap();
    assert_eq!((report.corrupted, report.damage.len()), (1, 1), "{report}");
}
