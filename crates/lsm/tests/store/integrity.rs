//! Reads of a sealed store while bytes on disk and in memory are flipped: they return the written data, or one error
//! that names the place. They never return another record or an older one, and never omit one without an error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Event, Family, Parts, Remedy};
use waxseal_lsm::env::work::Mode;
use waxseal_lsm::env::{Env, SimFs};
use waxseal_lsm::error::{Error, Result, Verdict};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Verify};
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record};
use waxseal_lsm::seam::{Check, Companions, PendingWrite, Protection};
use waxseal_lsm::sst::fuzzing::CorruptionSite;
use waxseal_testing::above::{Above, Over};
use waxseal_testing::listener::Heard;
use waxseal_testing::memory::{damage_cache, damage_table};
use waxseal_testing::protector::TestProtector;
use waxseal_testing::store::*;

struct Stage {
    sim: SimFs,
    dir: std::path::PathBuf,
    db: Db,
    heard: Arc<Heard<Event>>,
    protector: Arc<TestProtector>,
}

fn wide() -> CfOptions {
    CfOptions { block_bytes: 1024, table_bytes: 1 << 20, level_base_bytes: 1 << 20, filter_bits: 0, ..options() }
}

impl Stage {
    fn open(options: CfOptions) -> Stage {
        let (sim, dir) = sim(77);
        let (heard, protector) = (Heard::new(|event| Some(event.clone())), Arc::new(TestProtector::default()));
        let db = open_with(&sim, &dir, options, &heard, &protector);
        Stage { sim, dir, db, heard, protector }
    }

    /// Opens a store with a hundred records in one table.
    fn filled(options: CfOptions) -> Stage {
        let stage = Stage::open(options);
        fill(&stage.db, 0..100, 0);
        stage.db.flush().unwrap();
        stage.db.settle().unwrap();
        assert_eq!(named(&stage.sim, &stage.dir, ".tbl").len(), 1);
        stage
    }

    fn reopen(&mut self, options: CfOptions) {
        self.db.close().unwrap();
        self.db = open_with(&self.sim, &self.dir, options, &self.heard, &self.protector);
    }

    fn reopen_closed(&mut self, options: CfOptions) {
        self.db = open_with(&self.sim, &self.dir, options, &self.heard, &self.protector);
    }

    fn healed(&self) -> Vec<Remedy> {
        self.heard
            .all()
            .iter()
            .filter_map(|event| if let Event::Healed { by, .. } = event { Some(*by) } else { None })
            .collect()
    }

    fn corruptions(&self) -> Vec<Error> {
        let error = |event: &Event| if let Event::Corruption { error } = event { Some(error.clone()) } else { None };
        self.heard.all().iter().filter_map(error).collect()
    }

    fn family(&self) -> Family {
        default(&self.db)
    }

    fn table(&self) -> String {
        named(&self.sim, &self.dir, ".tbl")[0].clone()
    }

    fn get(&self, n: usize, verify: Verify) -> Result<Option<Vec<u8>>> {
        let mut value = None;
        let key = record(n, 0).0;
        self.db
            .get_checked(&self.family(), &key, At::Latest, verify, &mut |found| value = Some(found.value.to_vec()))?;
        Ok(value)
    }

    /// Returns the offset of a record's value in the table's file.
    fn place_of(&self, n: usize) -> usize {
        let bytes = self.sim.read_all(self.dir.join(self.table())).unwrap();
        let value = record(n, 0).1;
        bytes.windows(value.len()).position(|window| window == value).expect("the record is in the table")
    }

    /// Flips four bits of a record on disk.
    fn hit(&self, n: usize) {
        let at = self.place_of(n);
        for bit in [0, 9, 18, 27] {
            self.sim.flip(self.dir.join(self.table()), (at * 8 + bit) as u64).unwrap();
        }
    }

    /// Loads the first block into the cache, then flips a bit of one of its records there.
    fn hit_in_cache(&self, n: usize) {
        self.get(n, Verify::Always).unwrap();
        let in_block = self.place_of(n) - 64; // after the file's header
        assert!(damage_cache(&self.db, &self.table(), 0, in_block, 1).unwrap());
    }
}

fn open_with(
    sim: &SimFs,
    dir: &std::path::Path,
    options: CfOptions,
    heard: &Arc<Heard<Event>>,
    protector: &Arc<TestProtector>,
) -> Db {
    let parts = Parts {
        families: vec![("default".to_owned(), options)],
        companions: protector.clone(),
        listener: heard.clone(),
        ..parts(sim.env(sim.steps()))
    };
    Db::open(dir, settings(), parts).unwrap()
}

/// Returns all rows, and the errors between them, in the order of the scan.
fn walk(db: &Db, family: &Family, verify: Verify, forward: bool) -> (Rows, Vec<Error>) {
    let mut cursor = db.cursor_checked(family, At::Latest, ALL, verify).unwrap();
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    let mut moved = if forward { cursor.first() } else { cursor.last() };
    loop {
        match moved {
            Ok(()) if cursor.valid() => rows.push((cursor.key().to_vec(), cursor.value().to_vec())),
            Ok(()) => break,
            Err(error) => {
                assert!(!cursor.valid());
                errors.push(error);
            }
        }
        moved = if forward { cursor.next() } else { cursor.prev() };
    }
    if !forward {
        rows.reverse();
    }
    (rows, errors)
}

#[test]
fn a_bit_that_flips_after_the_first_verified_read_is_caught_by_the_next() {
    let stage = Stage::filled(wide());
    let table = stage.table();
    assert_eq!(stage.get(5, Verify::Always).unwrap(), Some(record(5, 0).1));
    let mut caught = 0;
    for byte in 0..1024 {
        if !damage_cache(&stage.db, &table, 0, byte, 0x08).unwrap() {
            break;
        }
        let before = stage.healed().len();
        for n in 0..20 {
            assert_eq!(stage.get(n, Verify::Always).unwrap(), Some(record(n, 0).1), "byte {byte}, record {n}");
        }
        caught += (stage.healed().len() > before) as usize;
    }
    assert!(caught > 500, "{caught}");
    assert!(stage.healed().iter().all(|remedy| *remedy == Remedy::ReadAgain));
    let seen = stage.db.metrics().integrity;
    assert!(seen.doubted >= seen.read_again && seen.read_again as usize == stage.healed().len());
    assert!(stage.corruptions().is_empty());
    assert!(stage.db.metrics().to_string().contains("read again"));
}

#[test]
fn what_is_read_without_a_check_may_be_wrong_and_only_then() {
    for (verify, catches) in
        [(Verify::Never, false), (Verify::OnFill, false), (Verify::Sampled(1), true), (Verify::Always, true)]
    {
        let stage = Stage::filled(wide());
        stage.hit_in_cache(3);
        assert_eq!(stage.get(3, verify).unwrap() == Some(record(3, 0).1), catches, "{verify:?}");
    }
}

/// A record at an unreliable position is found through its block, without checking its seal. The scan must still check
/// the next one.
#[test]
fn a_scan_that_was_led_astray_in_one_block_checks_the_next() {
    let stage = Stage::filled(wide());
    let (table, all) = (stage.table(), filled(0..100, 0));
    let scan = || walk(&stage.db, &stage.family(), Verify::Always, true);
    for byte in 0..300 {
        assert_eq!(scan().0, all);
        assert!(damage_cache(&stage.db, &table, 0, byte, 0x80).unwrap());
        assert!(damage_cache(&stage.db, &table, 2, 100, 0x08).unwrap());
        let (rows, errors) = scan();
        assert!(rows == all && errors.is_empty(), "byte {byte}: {errors:?}");
    }
}

/// A cursor over a few rows never reaches the sampling interval, so each cursor starts counting at another position.
#[test]
fn short_walks_have_their_share_of_checks() {
    let stage = Stage::filled(wide());
    stage.hit_in_cache(3);
    let is_right = || {
        let mut cursor = stage.db.cursor_checked(&stage.family(), At::Latest, ALL, Verify::Sampled(64)).unwrap();
        cursor.seek(&record(0, 0).0).unwrap();
        (0..10).all(|n| {
            let is_right = (cursor.key(), cursor.value()) == (&record(n, 0).0, &record(n, 0).1);
            cursor.next().unwrap();
            is_right
        })
    };
    let walks = (0..2_000).take_while(|_| !is_right()).count();
    assert!((1..2_000).contains(&walks), "{walks}");
    assert_eq!(stage.healed(), [Remedy::ReadAgain]);
}

#[test]
fn absence_is_proved_and_costs_no_other_block() {
    let mut stage = Stage::filled(wide());
    stage.reopen(wide());
    let steps = |verify| -> u64 {
        let before = stage.sim.steps();
        for n in 0..100 {
            let key = format!("key-{n:04}x");
            assert!(!stage.db.get_checked(&stage.family(), key.as_bytes(), At::Latest, verify, &mut |_| ()).unwrap());
        }
        stage.sim.steps() - before
    };
    let cold = steps(Verify::Always);
    assert!(cold > 5, "{cold}");
    assert_eq!((steps(Verify::Always), steps(Verify::Never)), (0, 0));
    assert_eq!(stage.db.metrics().integrity.doubted, 0);
}

#[test]
fn verified_and_plain_reads_read_the_same_of_the_file() {
    let reads = |verify| {
        let mut stage = Stage::filled(CfOptions { filter_bits: 10, ..wide() });
        stage.reopen(CfOptions { filter_bits: 10, ..wide() });
        let mut steps = Vec::new();
        for n in (0..100).rev() {
            for key in [format!("key-{n:04}"), format!("key-{n:04}x")] {
                let before = stage.sim.steps();
                stage.db.get_checked(&stage.family(), key.as_bytes(), At::Latest, verify, &mut |_| ()).unwrap();
                steps.push(stage.sim.steps() - before);
            }
        }
        steps
    };
    assert_eq!(reads(Verify::Always), reads(Verify::Never));
    assert!(reads(Verify::Always).iter().sum::<u64>() > 5);
}

#[test]
fn a_record_lost_on_disk_is_one_error_and_the_walk_goes_on() {
    for compression in [Compression::None, Compression::Lz4] {
        let mut stage = Stage::open(CfOptions { compression, ..wide() });
        fill(&stage.db, 0..100, 0);
        stage.db.flush().unwrap();
        stage.db.compact(&stage.family(), &ALL).unwrap();
        stage.reopen(CfOptions { compression, ..wide() });
        if compression == Compression::None {
            stage.hit(40);
        } else {
            let path = stage.dir.join(stage.table());
            let middle = stage.sim.read_all(&path).unwrap().len() / 3;
            (0..4).for_each(|byte| stage.sim.flip(&path, ((middle + byte) * 8 + byte) as u64).unwrap());
        }
        let all = filled(0..100, 0);
        let mut lost = Vec::new();
        for forward in [true, false] {
            let (rows, errors) = walk(&stage.db, &stage.family(), Verify::Sampled(64), forward);
            assert!(rows.iter().all(|row| all.contains(row)));
            lost = all.iter().filter(|row| !rows.contains(row)).map(|(key, _)| key.clone()).collect();
            assert!(!lost.is_empty() && errors.len() <= lost.len(), "{lost:?} {errors:?}");
            for error in &errors {
                let damage = error.damage().unwrap();
                assert_eq!((damage.file.clone(), damage.cf.as_deref()), (stage.table(), Some("default")));
            }
        }
        if compression == Compression::None {
            assert_eq!(lost, [record(40, 0).0]);
        }
        for n in 0..100 {
            let (key, value) = record(n, 0);
            match stage.get(n, Verify::Always) {
                Ok(found) => assert_eq!((found, lost.contains(&key)), (Some(value), false)),
                Err(error) => assert!(lost.contains(&key), "{n}: {error}"),
            }
        }
        // The damage is reported once, however often it is read.
        let told = stage.corruptions();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].damage().unwrap().cf.as_deref(), Some("default"));
        let seen = stage.db.metrics().integrity;
        assert!(seen.damaged_blocks == 1 && seen.gaps_met > 2, "{seen:?}");
        // A newer record decides; the older one below it stays lost and does not reappear.
        put(&stage.db, &stage.family(), &lost[0], b"newer", Durability::Os).unwrap();
        assert_eq!(get(&stage.db, &stage.family(), &lost[0], At::Latest).unwrap().unwrap(), b"newer");
        let (rows, _) = walk(&stage.db, &stage.family(), Verify::Always, true);
        assert!(rows.contains(&(lost[0].clone(), b"newer".to_vec())));
    }
}

/// A device that failed once, or a copy that put the bytes back: the open store kept its gaps until it was reopened.
#[test]
fn damage_that_has_passed_is_forgotten_once_the_file_is_found_intact() {
    let mut stage = Stage::open(CfOptions { compression: Compression::None, ..wide() });
    fill(&stage.db, 0..100, 0);
    stage.db.flush().unwrap();
    stage.db.compact(&stage.family(), &ALL).unwrap();
    stage.reopen(CfOptions { compression: Compression::None, ..wide() });
    let path = stage.dir.join(stage.table());
    let middle = stage.sim.read_all(&path).unwrap().len() / 3;
    let flip = || (0..4).for_each(|byte| stage.sim.flip(&path, ((middle + byte) * 8 + byte) as u64).unwrap());
    flip();
    let walked = |stage: &Stage| walk(&stage.db, &stage.family(), Verify::Always, true);
    assert!(!walked(&stage).1.is_empty());
    flip();
    assert!(!walked(&stage).1.is_empty(), "nobody has looked at the file again");
    let tables = stage.db.tables(&stage.family()).unwrap();
    tables.iter().for_each(waxseal_lsm::db::TableRef::forget_damage);
    let (rows, errors) = walked(&stage);
    assert_eq!((rows, errors.len()), (filled(0..100, 0), 0));
}

#[test]
fn a_flip_or_two_on_disk_cost_nothing() {
    let mut stage = Stage::filled(wide());
    stage.reopen(wide());
    let path = stage.dir.join(stage.table());
    for bits in [vec![8 * 300], vec![8 * 1500, 8 * 1501 + 3]] {
        bits.iter().for_each(|bit| stage.sim.flip(&path, *bit).unwrap());
    }
    let (rows, errors) = walk(&stage.db, &stage.family(), Verify::OnFill, true);
    assert_eq!((rows, errors.len()), (filled(0..100, 0), 0));
    assert_eq!(stage.healed(), [Remedy::Corrected, Remedy::Corrected]);
    assert_eq!(stage.db.metrics().integrity.corrected, 2);
}

#[test]
fn an_older_version_does_not_come_to_light_where_a_newer_one_is_lost() {
    let mut stage = Stage::open(CfOptions { level0_tables: 10, ..wide() });
    fill(&stage.db, 0..100, 7);
    stage.db.flush().unwrap();
    fill(&stage.db, 0..100, 0);
    stage.db.flush().unwrap();
    stage.reopen(CfOptions { level0_tables: 10, ..wide() });
    let tables = named(&stage.sim, &stage.dir, ".tbl");
    assert_eq!(tables.len(), 2);
    let path = stage.dir.join(&tables[1]);
    let value = record(40, 0).1;
    let bytes = stage.sim.read_all(&path).unwrap();
    let at = bytes.windows(value.len()).position(|window| window == value).unwrap();
    [0, 9, 18].iter().for_each(|bit| stage.sim.flip(&path, (at * 8 + bit) as u64).unwrap());
    assert!(stage.get(40, Verify::Always).unwrap_err().is_corruption());
    for forward in [true, false] {
        let (rows, errors) = walk(&stage.db, &stage.family(), Verify::Always, forward);
        assert_eq!(errors.len(), 1);
        let kept: Rows = filled(0..100, 0).into_iter().filter(|(key, _)| *key != record(40, 0).0).collect();
        assert_eq!(rows, kept);
    }
}

#[test]
fn a_table_that_cannot_be_opened_is_a_fence_over_its_keys() {
    let mut stage = Stage::open(CfOptions { level0_tables: 10, ..wide() });
    fill(&stage.db, 0..100, 0);
    stage.db.flush().unwrap();
    fill(&stage.db, 30..60, 1);
    stage.db.flush().unwrap();
    stage.db.close().unwrap();
    let tables = named(&stage.sim, &stage.dir, ".tbl");
    let path = stage.dir.join(&tables[1]);
    let length = stage.sim.read_all(&path).unwrap().len();
    stage.sim.flip(&path, ((length - 20) * 8) as u64).unwrap();
    stage.reopen_closed(CfOptions { level0_tables: 10, ..wide() });
    put(&stage.db, &stage.family(), b"key-0045", b"newer", Durability::Os).unwrap();
    let mut expected: Rows = filled(0..100, 0);
    expected.retain(|(key, _)| !(record(30, 0).0..=record(59, 0).0).contains(key));
    expected.push((b"key-0045".to_vec(), b"newer".to_vec()));
    expected.sort();
    for forward in [true, false] {
        let (rows, errors) = walk(&stage.db, &stage.family(), Verify::Always, forward);
        assert_eq!(rows, expected);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].damage().unwrap().file, tables[1]);
    }
    for n in 0..100 {
        assert_eq!(stage.get(n, Verify::Always).is_err(), (30..60).contains(&n) && n != 45, "{n}");
    }
    assert_eq!(stage.corruptions().len(), 1, "told once");
}

#[test]
fn fences_of_the_manifest_hold_for_gets_and_cursors() {
    let stage = Stage::filled(wide());
    let place = |n: usize, seqno| (record(n, 0).0, seqno);
    let seqno = stage.db.metrics().visible_seqno;
    let lost_range = LostRange {
        from: place(10, MAX_SEQNO),
        to: place(14, 0),
        bound: seqno,
        file: "000099.tbl".into(),
        offset: 64,
        verdict: Verdict::Seal,
    };
    stage.db.add_lost_ranges(&stage.family(), vec![lost_range.clone()]).unwrap();
    put(&stage.db, &stage.family(), &record(12, 0).0, b"newer", Durability::Os).unwrap();
    let hidden = |n: usize| (10..=14).contains(&n) && n != 12;
    for n in 0..100 {
        match stage.get(n, Verify::Always) {
            Ok(found) => assert_eq!(found, Some(if n == 12 { b"newer".to_vec() } else { record(n, 0).1 })),
            Err(error) => assert!(hidden(n) && error.damage().unwrap().file == "000099.tbl", "{n}: {error}"),
        }
        assert_eq!(stage.get(n, Verify::Never).is_err(), hidden(n));
    }
    assert!(
        get(&stage.db, &stage.family(), b"key-0011x", At::Latest).is_err(),
        "nothing is there, and something may have been"
    );
    for forward in [true, false] {
        let (rows, errors) = walk(&stage.db, &stage.family(), Verify::Never, forward);
        assert_eq!((rows.len(), errors.len()), (96, 1));
        assert_eq!(errors[0].damage().unwrap().cf.as_deref(), Some("default"));
    }
    let mut keys: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let asked = [record(3, 0).0, record(9, 0).0];
    let asked: Vec<&[u8]> = asked.iter().map(|key| &key[..]).collect();
    stage
        .db
        .multi_get(&stage.family(), &asked, At::Latest, &mut |n, found| drop(keys.insert(n, found.value.to_vec())))
        .unwrap();
    assert_eq!(keys.len(), 2);
    assert!(stage.db.multi_get(&stage.family(), &[&record(11, 0).0], At::Latest, &mut |_, _| ()).is_err());
    let lost_ranges: Vec<u64> = stage.db.lost_ranges(&stage.family()).iter().map(|(id, _)| *id).collect();
    stage.db.lift_lost_ranges(&stage.family(), &lost_ranges).unwrap();
    assert_eq!(walk(&stage.db, &stage.family(), Verify::Always, true).0.len(), 100);
}

#[test]
fn an_index_or_filter_that_is_hit_in_memory_hides_nothing() {
    let options = CfOptions { filter_bits: 10, block_bytes: 256, ..wide() };
    for (site, count) in [(CorruptionSite::Index, 60), (CorruptionSite::Filter, 64)] {
        let stage = Stage::filled(options.clone());
        for at in 0..count {
            damage_table(&stage.db, &stage.table(), site, at, 0x41).unwrap();
            for n in 0..100 {
                assert_eq!(stage.get(n, Verify::Always).unwrap(), Some(record(n, 0).1), "{site:?} {at}, record {n}");
            }
        }
    }
}

/// Creates a store of twenty records, one of which was written again in memory with a wrong companion, as if its bytes
/// had changed since. The older records are in a table, or also in memory.
fn hit_in_memory(is_flushed: bool) -> Stage {
    let stage = Stage::open(wide());
    fill(&stage.db, 0..20, 0);
    if is_flushed {
        stage.db.flush().unwrap();
    }
    let mut batch = Batch::new();
    batch.push_with(stage.family().id(), Kind::Put, &record(7, 0).0, b"not what was sealed", &[0xAA; 9]).unwrap();
    stage.protector.blind.store(true, Ordering::Relaxed);
    stage.db.commit(&mut batch, Durability::Os).unwrap();
    stage.protector.blind.store(false, Ordering::Relaxed);
    stage
}

#[test]
fn a_record_in_memory_that_was_hit_is_not_given_out() {
    let stage = hit_in_memory(true);
    for _ in 0..3 {
        let error = stage.get(7, Verify::Always).unwrap_err();
        let damage = error.damage().unwrap();
        assert_eq!((damage.verdict, damage.cf.as_deref()), (Verdict::Seal, Some("default")));
        assert_eq!(damage.key_range, Some((record(7, 0).0, record(7, 0).0)));
    }
    assert_eq!(stage.get(7, Verify::Never).unwrap().unwrap(), b"not what was sealed");
    assert_eq!(stage.corruptions().len(), 1);
    for forward in [true, false] {
        let (rows, errors) = walk(&stage.db, &stage.family(), Verify::Always, forward);
        assert_eq!((rows.len(), errors.len()), (19, 1));
        assert!(!rows.iter().any(|(key, _)| *key == record(7, 0).0), "the older version stays where it is");
    }
}

/// Damage to a key or a seqno may have moved its record among the records in memory with a similar key. A scan returns
/// neither these records nor older versions of them.
#[test]
fn beside_a_record_in_memory_that_was_hit_no_older_version_is_shown() {
    let stage = hit_in_memory(false);
    for forward in [true, false] {
        let (rows, errors) = walk(&stage.db, &stage.family(), Verify::Always, forward);
        assert!(errors.len() == 1 && errors[0].is_corruption(), "{errors:?}");
        assert!(rows.iter().all(|(key, value)| *key != record(7, 0).0 && value.starts_with(b"value")), "{rows:?}");
    }
    for n in (0..20).filter(|n| *n != 7) {
        assert_eq!(stage.get(n, Verify::Always).unwrap(), Some(record(n, 0).1), "a read by its key goes on");
    }
}

/// Damage found only by scans is reported and counted like damage found by point reads: reported once per place,
/// counted each time.
#[test]
fn a_record_in_memory_that_was_hit_is_told_of_by_scans_too() {
    let stage = hit_in_memory(true);
    for forward in [true, false] {
        let (rows, errors) = walk(&stage.db, &stage.family(), Verify::Always, forward);
        assert_eq!((rows.len(), errors.len()), (19, 1));
    }
    let counted = || stage.db.metrics().integrity.damaged_in_memory;
    assert_eq!(counted(), 2);
    assert!(stage.get(7, Verify::Always).unwrap_err().is_corruption());
    assert_eq!(counted(), 3);
    let told = stage.corruptions();
    assert_eq!(told.len(), 1, "{told:?}");
    let damage = told[0].damage().unwrap();
    assert_eq!((damage.file.as_str(), damage.cf.as_deref()), ("", Some("default")));
    // The scan found it first. Its key was written, and has no other record in memory.
    assert_eq!(damage.key_range, Some((record(7, 0).0, record(7, 0).0)));
}

/// A memtable leaf whose keys are all deleted is skipped by later cursors after one cursor has verified all of it. It
/// is not skipped if a tombstone does not match its seal, or if the earlier cursor did not verify.
#[test]
fn a_tombstone_in_memory_that_was_hit_is_told_of_again_and_again() {
    for hit in [None, Some(7)] {
        let stage = Stage::open(wide());
        fill(&stage.db, 0..20, 0);
        let mut batch = Batch::new();
        for n in 0..20 {
            let (key, _) = record(n, 0);
            match hit {
                Some(hit) if hit == n => {
                    batch.push_with(stage.family().id(), Kind::Delete, &key, b"", &[0xAA; 9]).unwrap()
                }
                _ => batch.push(stage.family().id(), Kind::Delete, &key, b"", stage.db.companions()).unwrap(),
            }
        }
        stage.protector.blind.store(true, Ordering::Relaxed);
        stage.db.commit(&mut batch, Durability::Os).unwrap();
        stage.protector.blind.store(false, Ordering::Relaxed);
        // A sampling cursor also verifies all of such a leaf, and reports damage.
        let rarely = Verify::Sampled(1 << 20);
        for verify in [Verify::Never, Verify::Always, rarely, Verify::Always, Verify::Never, rarely, Verify::Always] {
            let (rows, errors) = walk(&stage.db, &stage.family(), verify, true);
            assert!(rows.is_empty());
            assert_eq!(errors.len(), usize::from(hit.is_some() && verify != Verify::Never), "{verify:?}");
        }
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_get_hashes_its_key_once() {
    use waxseal_lsm::checksum::keys_hashed;
    let stage = Stage::filled(CfOptions { filter_bits: 10, ..wide() });
    let hashed = |n: usize, verify| {
        let before = keys_hashed();
        stage.get(n, verify).unwrap();
        keys_hashed() - before
    };
    for verify in [Verify::Always, Verify::Never, Verify::OnFill, Verify::Sampled(2)] {
        stage.get(50, verify).unwrap();
        assert_eq!(hashed(50, verify), 1, "{verify:?}");
    }
    put(&stage.db, &stage.family(), &record(50, 0).0, b"in memory", Durability::Os).unwrap();
    assert_eq!(hashed(50, Verify::Always), 1);
    assert_eq!(hashed(50, Verify::Never), 1); // for the memtable's filter
}

/// Counts the calls of a record protector: a record's seal is made by its put, verified once by each read, and copied
/// by flush and merge.
#[test]
fn a_seal_is_made_once_and_looked_at_once_a_read() {
    let asked = Arc::new(Over::<Asked>::default());
    let home = tempfile::tempdir().unwrap();
    let env = Env { work: Mode::Stepped, ..Env::real() };
    let parts = Parts { companions: asked.clone(), ..parts(env) };
    let db = Db::open(&home.path().join("store"), settings(), parts).unwrap();
    let family = default(&db);
    let key = |n: u64| format!("{n:08}").into_bytes();
    let reads = || {
        (0..500).for_each(|n| assert!(get(&db, &family, &key(n), At::Latest).unwrap().is_some()));
        asked.take()
    };
    for n in 0..500 {
        put(&db, &family, &key(n), &[7; 30], Durability::Os).unwrap();
    }
    let (made, _) = asked.take();
    assert_eq!(made, 500);
    assert_eq!(reads(), (0, 500), "in memory");
    db.settle().unwrap();
    let (made, looked_at) = asked.take();
    assert!(made == 0 && looked_at >= 500, "nothing that is damaged gets into a table: {looked_at}");
    assert_eq!(reads(), (0, 500), "in tables");
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 500);
    let (made, looked_at) = asked.take();
    // Each record once, and once more when a seek verifies the neighbors of its position.
    assert!(made == 0 && (500..=550).contains(&looked_at), "{looked_at} by a scan");
}

/// Wraps the test's record protector, and counts how often a seal is made and verified.
#[derive(Default)]
struct Asked {
    protector: TestProtector,
    made: AtomicUsize,
    looked_at: AtomicUsize,
}

impl Asked {
    fn take(&self) -> (usize, usize) {
        (self.made.swap(0, Ordering::SeqCst), self.looked_at.swap(0, Ordering::SeqCst))
    }
}

impl Above for Asked {
    fn beneath(&self) -> &dyn Companions {
        &self.protector
    }
    fn on_write(&self, pending: &PendingWrite<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.made.fetch_add(1, Ordering::SeqCst);
        self.protector.on_write(pending, out)
    }
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        self.looked_at.fetch_add(1, Ordering::SeqCst);
        self.protector.verify(record, key_hash, source)
    }
}
