//! Salvage where no manifest says which tables live: tables written by hand, so that each holds just what a case needs.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::{Bound, ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::watched::{self, Watched};
use waxseal_lsm::batch::{Batch, seqno_of_before};
use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{At, Db, Family, IngestMode, Parts, Silent};
use waxseal_lsm::env::sim::{Crash, Fault, Loss, SimFs};
use waxseal_lsm::env::{Fs, Open, TracedFs};
use waxseal_lsm::error::{ErrorKind as Kinds, Result};
use waxseal_lsm::interrupt;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, PendingWrite, Plain};
use waxseal_lsm::sst::{Writer, WriterSettings};
use waxseal_meta::builtin::{Labels, standard};
use waxseal_meta::integrity::{Finding, Outcome, Progress, Report, Rung, SalvageOptions, salvage};
use waxseal_meta::provider::LABELS;
use waxseal_meta::stamp::{Stamp, StampVerb};
use waxseal_meta::{Seal, Sealer};
use waxseal_testing::harness::{DIR, Store, options};

/// Of a table. docs/format.md, section 4.6.
const FOOTER_BYTES: u64 = 136;

const SAVED: &str = "/salvaged";

/// A record of a table: key, seqno, and the value, if it is a put.
type Row<'a> = (&'a str, Seqno, Option<&'a str>);

fn parts(sim: &SimFs) -> Parts {
    let options = CfOptions { compression: Compression::None, ..CfOptions::default() };
    Parts {
        env: sim.env(sim.steps() + 1),
        companions: Arc::new(Sealer::new()),
        listener: Arc::new(Silent),
        families: vec![("default".to_owned(), options.clone()), ("other".to_owned(), options)],
        filters: Vec::new(),
        orders: Vec::new(),
        merge_operators: Vec::new(),
        engine_log: None,
        cache: None,
    }
}

/// A table of the first family with these records, which stand in internal order, sealed or not.
fn write_table(sim: &SimFs, number: u8, rows: &[Row<'_>], is_sealed: &dyn Fn(&str) -> bool) -> PathBuf {
    write_table_of(sim, 0, number, rows, is_sealed)
}

fn write_table_of(sim: &SimFs, family: u32, number: u8, rows: &[Row<'_>], is_sealed: &dyn Fn(&str) -> bool) -> PathBuf {
    write_table_by(sim, family, number, rows, &mut |pending, seqno| {
        let is_sealed = is_sealed(std::str::from_utf8(pending.key).unwrap());
        if is_sealed { companions_of(pending, seqno) } else { Vec::new() }
    })
}

/// What stands beside a record: its seal, and what the draft says.
fn companions_of(pending: &PendingWrite<'_>, seqno: Seqno) -> Vec<u8> {
    let (sealer, mut companions) = (Sealer::new().with(standard()), Vec::new());
    sealer.on_write(pending, &mut companions).unwrap();
    sealer.bind(&mut companions, None, seqno);
    companions
}

fn write_table_by(
    sim: &SimFs,
    family: u32,
    number: u8,
    rows: &[Row<'_>],
    companions: &mut dyn FnMut(&PendingWrite<'_>, Seqno) -> Vec<u8>,
) -> PathBuf {
    write_all(sim, number, (family, rows), companions, &mut |settings| settings, &|writer| writer)
}

/// The same in small blocks, of each four of which a part of the index leads to them.
fn write_table_cut(sim: &SimFs, number: u8, rows: &[Row<'_>]) -> PathBuf {
    let small = &mut |settings| WriterSettings { block_bytes: 64, ..settings };
    write_all(sim, number, (0, rows), &mut companions_of, small, &|writer| writer.cut_into(4))
}

fn write_all(
    sim: &SimFs,
    number: u8,
    (family, rows): (u32, &[Row<'_>]),
    companions: &mut dyn FnMut(&PendingWrite<'_>, Seqno) -> Vec<u8>,
    settings: &mut dyn FnMut(WriterSettings) -> WriterSettings,
    how: &dyn Fn(Writer) -> Writer,
) -> PathBuf {
    sim.create_dir_all(Path::new(DIR)).unwrap();
    let path = Path::new(DIR).join(format!("{number:06}.tbl"));
    let compression = Compression::None;
    let options = CfOptions { block_bytes: 1 << 20, restart_interval: 4, compression, ..CfOptions::default() };
    let base_seqno = rows.iter().map(|row| row.1).min().unwrap();
    let settings = settings(WriterSettings::of(&options, family, base_seqno));
    let file = sim.open(&path, Open::Create).unwrap();
    let mut writer = how(Writer::new(file, Uid([number; 16]), settings, Arc::new(Sealer::new())));
    for (key, seqno, value) in rows {
        let (kind, bytes) = match value {
            Some(value) => (Kind::Put, value.as_bytes()),
            None => (Kind::Delete, &b""[..]),
        };
        let pending = PendingWrite { family, kind, key: key.as_bytes(), value: bytes, key_hash: None, entries: &[] };
        let companion = &companions(&pending, *seqno)[..];
        writer.add(&Record { key: key.as_bytes(), seqno: *seqno, kind, value: bytes, companion }).unwrap();
    }
    writer.finish().unwrap();
    sim.settle();
    path
}

fn sealed(_: &str) -> bool {
    true
}

/// Hits one record of a table beyond repair, by its seal.
fn strike(sim: &SimFs, table: &Path, (key, seqno, value): Row<'_>) {
    let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
    let word = Seal::of_operation(kind, key.as_bytes(), value.unwrap_or("").as_bytes()).at(seqno).to_le_bytes();
    let bytes = sim.read_all(table).unwrap();
    let at = bytes.windows(8).position(|window| window == word).expect("the record stands in the table");
    for bit in [3, 11, 17, 30, 55] {
        sim.flip(table, at as u64 * 8 + bit).unwrap();
    }
}

/// What a salvage of the store left.
struct Saved {
    db: Db,
    family: Family,
    report: Report,
}

impl Saved {
    fn of(sim: &SimFs, accept_loss: bool) -> Saved {
        let how = SalvageOptions { accept_loss, ..SalvageOptions::default() };
        let report = salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(sim), how).unwrap();
        Saved::opened(sim, report)
    }

    fn opened(sim: &SimFs, report: Report) -> Saved {
        let db = Db::open(Path::new(SAVED), Settings::default(), parts(sim)).unwrap();
        let family = db.family("default").unwrap();
        Saved { db, family, report }
    }

    fn read_in(&self, family: &Family, key: &str) -> Result<Option<String>> {
        let mut found = None;
        let take = &mut |record: &Record<'_>| found = Some(String::from_utf8(record.value.to_vec()).unwrap());
        self.db.get(family, key.as_bytes(), At::Latest, take)?;
        Ok(found)
    }

    fn read(&self, key: &str) -> Result<Option<String>> {
        self.read_in(&self.family, key)
    }

    /// The outcomes of the findings, without the one of the manifest.
    fn outcomes(&self) -> Vec<Outcome> {
        let of_records = |finding: &&Finding| finding.file != "CURRENT";
        self.report.damage.iter().filter(of_records).map(|finding| finding.outcome).collect()
    }
}

/// A seal says what was put and not when: an older record of the same content does not stand for the one that was lost,
/// since what came between the two is older than that and would answer.
#[test]
fn an_older_record_of_the_same_content_fills_no_hole() {
    let (v, w) = (Some("the value that comes again"), Some("what stood between"));
    // What was put and deleted under one key, and when; the last of it is lost.
    let lives: [[Row<'_>; 3]; 3] = [
        [("k", 2, v), ("k", 3, w), ("k", 4, v)],
        [("k", 2, v), ("k", 3, None), ("k", 4, v)],
        [("k", 2, None), ("k", 3, w), ("k", 4, None)],
    ];
    for [first, between, last] in lives {
        // The table of the last one reaches back beyond the first one, as after a merge, or not, as after a flush.
        for least in [1, 4] {
            let sim = SimFs::new(3);
            write_table(&sim, 10, &[first], &sealed);
            write_table(&sim, 11, &[between], &sealed);
            let hit = write_table(&sim, 12, &[("a", least, v), last, ("z", 5, v)], &sealed);
            strike(&sim, &hit, last);
            let saved = Saved::of(&sim, false);
            assert!(saved.read("k").unwrap_err().is_corruption(), "{last:?} from {least}: {}", saved.report);
            assert_eq!((saved.report.lost, saved.report.repaired), (1, 0), "{}", saved.report);
            assert_eq!(saved.outcomes(), [Outcome::Fenced]);
            assert_eq!((saved.read("a").unwrap().as_deref(), saved.read("z").unwrap().as_deref()), (v, v));
        }
    }
}

/// The newest of them does: where it stands elsewhere too, or where what is newer than the whole table hides it anyway.
#[test]
fn the_newest_record_of_a_content_fills_a_hole() {
    let (v, w) = (Some("the value that comes again"), Some("what stood between"));
    let cases: [(&[Row<'_>], _); 2] = [(&[("k", 4, v), ("k", 3, w), ("k", 2, v)], v), (&[("k", 6, w), ("k", 4, v)], w)];
    for (others, newest) in cases {
        let sim = SimFs::new(3);
        for (number, other) in (10..).zip(others) {
            write_table(&sim, number, &[*other], &sealed);
        }
        let hit = write_table(&sim, 20, &[("a", 1, v), ("k", 4, v), ("z", 5, v)], &sealed);
        strike(&sim, &hit, ("k", 4, v));
        let saved = Saved::of(&sim, false);
        assert_eq!(saved.read("k").unwrap().as_deref(), newest, "{}", saved.report);
        assert_eq!((saved.report.lost, saved.report.repaired), (0, 1), "{}", saved.report);
        assert_eq!(saved.outcomes(), [Outcome::Repaired(Rung::Trash)]);
        assert!(saved.db.lost_ranges(&saved.family).is_empty());
    }
}

/// Records without seals add nothing to the sum of a table: any of them would close it.
#[test]
fn a_record_without_a_seal_fills_no_hole() {
    let is_sealed = |key: &str| key != "k";
    let sim = SimFs::new(3);
    let hit =
        write_table(&sim, 10, &[("a", 1, Some("v")), ("k", 2, Some("lost value")), ("z", 5, Some("v"))], &is_sealed);
    write_table(&sim, 11, &[("k", 3, Some("another"))], &is_sealed);
    let bytes = sim.read_all(&hit).unwrap();
    let at = bytes.windows(10).position(|window| window == b"lost value").unwrap();
    [3, 11, 17, 30, 55].iter().for_each(|bit| sim.flip(&hit, at as u64 * 8 + bit).unwrap());
    let saved = Saved::of(&sim, false);
    assert!(saved.read("k").unwrap_err().is_corruption(), "{}", saved.report);
    assert_eq!((saved.report.lost, saved.report.repaired), (1, 0), "{}", saved.report);
}

/// The same in a store that was written by itself: tables that a merge has replaced stand beside what it made.
#[test]
fn tables_that_were_replaced_do_not_stand_in_for_a_version_that_came_again() {
    let (v, w) = (Some("the value that comes again"), Some("what stood between"));
    for between in [w, None] {
        let sim = SimFs::new(3);
        let store = Store::open(&sim, Arc::new(Sealer::new()), CfOptions { level0_tables: 64, ..options() });
        let mut replaced = Vec::new();
        for (number, value) in (90..).zip([v, between, v]) {
            store.put(format!("a {number}").as_bytes(), b"beside it");
            match value {
                Some(value) => store.put(b"k", value.as_bytes()),
                None => store.delete(b"k"),
            }
            store.db.flush().unwrap();
            let newest = store.tables().pop().unwrap();
            replaced.push((number, sim.read_all(newest).unwrap()));
        }
        store.compact();
        store.db.close().unwrap();
        drop(store);
        // Opened again, so that the log has nothing of it.
        drop(Store::open(&sim, Arc::new(Sealer::new()), options()));
        let merged = Path::new(DIR).join(sim.files(DIR).into_iter().find(|name| name.ends_with(".tbl")).unwrap());
        strike(&sim, &merged, ("k", 6, v));
        for (number, bytes) in &replaced[..2] {
            sim.write_all(Path::new(DIR).join(format!("{number:06}.tbl")), bytes).unwrap();
        }
        sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        let saved = Saved::of(&sim, false);
        assert!(saved.read("k").unwrap_err().is_corruption(), "{between:?}: {}", saved.report);
        assert_eq!((saved.report.lost, saved.report.repaired), (1, 0), "{}", saved.report);
        for number in 90..93 {
            assert_eq!(saved.read(&format!("a {number}")).unwrap().as_deref(), Some("beside it"), "{}", saved.report);
        }
    }
}

/// A device that gives a block not now and then again: what it gives is taken, whichever look it was that saw it, and
/// whether it decides or not.
#[test]
fn what_a_device_does_not_give_at_first_is_taken_when_it_does() {
    let (v, old) = (Some("the value"), Some("an old value"));
    let sim = SimFs::new(3);
    // Two versions of one key in one table, a key of which another has a newer one, and one that another family has
    // too.
    write_table(&sim, 10, &[("a", 1, v), ("b", 5, v), ("b", 2, old), ("c", 4, old), ("d", 8, v)], &sealed);
    write_table(&sim, 11, &[("c", 6, v), ("e", 7, v)], &sealed);
    write_table_of(&sim, 1, 12, &[("a", 9, old), ("f", 10, v)], &sealed);
    let answers =
        [(0, "a", v), (0, "b", v), (0, "c", v), (0, "d", v), (0, "e", v), (0, "f", None), (1, "a", old), (1, "f", v)];
    // From the first step to the one with which all tables were read once.
    let (whole, mut last) = (sim.fork(), 0);
    let mut watch = |progress: Progress| {
        last = if progress.done == progress.total { whole.steps() } else { 0 };
        ControlFlow::Continue(())
    };
    let how = SalvageOptions { progress: Some(&mut watch), ..SalvageOptions::default() };
    salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(&whole), how).unwrap();
    let mut read_again = BTreeMap::new();
    // A block is read four times before it is given up.
    for (step, times) in (sim.steps()..last).flat_map(|step| [1, 4].map(|times| (step, times))) {
        let sim = sim.fork();
        (0..times).for_each(|_| sim.fail_at(step, Fault::Error(ErrorKind::PermissionDenied)));
        let how = SalvageOptions::default();
        match salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(&sim), how) {
            Err(error) => assert!(!error.is_corruption(), "{error}"),
            Ok(report) => {
                sim.clear_faults();
                let saved = Saved::opened(&sim, report);
                let families = ["default", "family 1"].map(|name| saved.db.family(name));
                for (family, key, value) in answers {
                    let Some(family) = &families[family] else { continue };
                    match saved.read_in(family, key) {
                        Ok(found) => assert_eq!(found.as_deref(), value, "{key}, step {step}: {}", saved.report),
                        Err(error) => assert!(error.is_corruption() && !saved.report.is_clean(), "{key}: {error}"),
                    }
                }
                assert!(families[1].is_some() || !saved.report.is_clean(), "{}", saved.report);
                if saved.outcomes() == [Outcome::Repaired(Rung::ReadAgain)] {
                    assert_eq!(saved.report.lost, 0, "{}", saved.report);
                    *read_again.entry(saved.report.repaired).or_insert(0) += 1;
                }
            }
        }
    }
    assert_eq!(read_again.keys().copied().collect::<Vec<_>>(), [2, 5], "{read_again:?}");
}

/// Of a table, whose data ends there, nothing is left but that and the footer.
fn hide_the_family(sim: &SimFs, table: &Path, data_end: u64) {
    let length = sim.read_all(table).unwrap().len() as u64;
    (data_end + 8..length - FOOTER_BYTES).for_each(|at| sim.flip(table, at * 8 + at % 7).unwrap());
}

/// One that does not say of which family it is stands in no other's place: what is newer in it is no answer of the
/// first family, and what that has goes on.
#[test]
fn a_table_of_nobody_answers_for_no_family_but_its_own() {
    let sim = SimFs::new(3);
    let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
    let [first, other] = ["default", "other"].map(|name| db.family(name).unwrap());
    for (family, key, value) in [(&first, "k", "its own"), (&other, "k", "another's"), (&other, "l", "another's")] {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, key.as_bytes(), value.as_bytes(), db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    }
    db.flush().unwrap();
    let table = db.tables(&other).unwrap().remove(0);
    let end = table.table().unwrap().approximate_offset(b"z");
    let name = table.name();
    sim.crash_at(sim.steps());
    drop((table, db));
    sim.reboot(Crash::Process);
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    hide_the_family(&sim, &Path::new(DIR).join(&name), end);
    let fenced = Saved::of(&sim.fork(), false);
    assert!(fenced.read("k").unwrap_err().is_corruption(), "{}", fenced.report);
    let saved = Saved::of(&sim, true);
    assert_eq!(saved.read("k").unwrap().as_deref(), Some("its own"), "{}", saved.report);
    assert_eq!(saved.read("l").unwrap(), None, "{}", saved.report);
    let stray = saved.db.family(&format!("family of {name}")).expect("a family of its own");
    for key in ["k", "l"] {
        assert_eq!(saved.read_in(&stray, key).unwrap().as_deref(), Some("another's"), "{key}: {}", saved.report);
    }
}

/// A family that the caller names may be one of those that have lost their names: it does not answer that nothing is
/// there.
#[test]
fn a_family_that_may_be_another_does_not_answer_that_nothing_is_there() {
    let (first, lost) = (("a", 3, Some("of the first family")), ("b", 2, Some("of another")));
    let message = "nobody knows which of these it was: family 1";
    let sim = SimFs::new(3);
    write_table(&sim, 10, &[first], &sealed);
    let alone = sim.fork();
    write_table_of(&sim, 1, 11, &[lost], &sealed);
    for accept_loss in [false, true] {
        let saved = Saved::of(&sim.fork(), accept_loss);
        let [other, found] = ["other", "family 1"].map(|name| saved.db.family(name).unwrap());
        assert_eq!(saved.read("a").unwrap().as_deref(), first.2, "{}", saved.report);
        assert_eq!(saved.read_in(&found, "b").unwrap().as_deref(), lost.2, "{}", saved.report);
        let told = saved.report.damage.iter().find(|finding| finding.message.contains(message));
        let outcome = told.expect("it is told").outcome;
        if accept_loss {
            assert_eq!((outcome, saved.read_in(&other, "b").unwrap()), (Outcome::Accepted, None), "{}", saved.report);
            continue;
        }
        assert_eq!(outcome, Outcome::Fenced, "{}", saved.report);
        assert!(saved.read_in(&other, "b").unwrap_err().is_corruption(), "{}", saved.report);
        // What is written there from now on decides.
        let mut batch = Batch::new();
        batch.push(other.id(), Kind::Put, b"b", b"newer", saved.db.companions()).unwrap();
        saved.db.commit(&mut batch, Durability::Os).unwrap();
        assert_eq!(saved.read_in(&other, "b").unwrap().as_deref(), Some("newer"));
    }
    // Where no other was found it is new.
    let saved = Saved::of(&alone, false);
    assert_eq!(saved.read_in(&saved.db.family("other").unwrap(), "b").unwrap(), None, "{}", saved.report);
    assert!(saved.outcomes().is_empty(), "{}", saved.report);
}

/// Nor does it say anything of what of the first family is in the log alone.
#[test]
fn a_table_of_nobody_leaves_nothing_of_the_log_out() {
    let sim = SimFs::new(3);
    let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
    let [first, other] = ["default", "other"].map(|name| db.family(name).unwrap());
    let put = |family: &Family, key: &str| {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, key.as_bytes(), b"value", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    };
    put(&first, "in the log alone");
    put(&other, "in a table");
    db.flush().unwrap();
    put(&first, "in the log alone, later");
    let table = db.tables(&other).unwrap().remove(0);
    let (path, end) = (Path::new(DIR).join(table.name()), table.table().unwrap().approximate_offset(b"z"));
    sim.crash_at(sim.steps());
    sim.reboot(Crash::Process);
    // Of the first family's table nothing is left, and of the other's the data and the footer.
    let gone = db.tables(&first).unwrap().remove(0);
    for name in [gone.name(), "CURRENT".to_owned()] {
        sim.delete(Path::new(DIR).join(name)).unwrap();
    }
    hide_the_family(&sim, &path, end);
    let saved = Saved::of(&sim, true);
    let message = "nothing is left that says of which family";
    assert!(saved.report.damage.iter().any(|finding| finding.message.contains(message)), "{}", saved.report);
    for key in ["in the log alone", "in the log alone, later"] {
        assert_eq!(saved.read(key).unwrap().as_deref(), Some("value"), "{key}: {}", saved.report);
    }
}

/// What is left over in the ring of a log that all tables were made of is no torn tail: nothing is found but that there
/// is no manifest.
#[test]
fn a_store_that_was_closed_has_no_torn_tail_without_a_manifest() {
    for flushes in [false, true] {
        let sim = SimFs::new(3);
        let mut model = BTreeMap::new();
        for round in 0..4 {
            let store = Store::open(&sim, Arc::new(Sealer::new()), options());
            for n in 0..40 + round {
                let (key, value) = (format!("key {n}"), format!("value {n} of round {round}"));
                store.put(key.as_bytes(), value.as_bytes());
                model.insert(key, value);
            }
            if flushes {
                store.db.flush().unwrap();
            }
            store.db.close().unwrap();
            drop(store);
            let sim = sim.fork();
            sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
            let saved = Saved::of(&sim, false);
            assert!(saved.outcomes().is_empty(), "{flushes}, {round}: {}", saved.report);
            assert_eq!((saved.report.damage.len(), saved.report.lost), (1, 0), "{}", saved.report);
            for (key, value) in &model {
                assert_eq!(saved.read(key).unwrap().as_ref(), Some(value), "{}", saved.report);
            }
        }
    }
}

/// A flush of one family writes tables of another, for the rows that its records give rise to: they say nothing of what
/// that one has in memory itself.
#[test]
fn a_row_that_only_the_log_has_is_taken_though_a_flush_wrote_later_rows() {
    let sim = SimFs::new(3);
    let world = Watched::open(&sim);
    let mut batch = Batch::new();
    let key = [&b"row"[..], &seqno_of_before(0)].concat();
    batch.push(world.log.id(), Kind::Put, &key, b"with its batch", &*world.sealer).unwrap();
    batch.grant(watched::pass());
    let seqno = world.db.commit(&mut batch, Durability::Os).unwrap();
    world.put(b"k", b"value", &Stamp::new(StampVerb::Update, 1 << 12, 7));
    world.db.flush_ordered(&world.family).unwrap();
    assert_eq!(world.db.tables(&world.log).unwrap().len(), 1, "the row of the flush");
    sim.crash_at(sim.steps());
    drop(world);
    sim.reboot(Crash::Process);
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    let parts = watched::parts(&sim, Arc::new(watched::sealer()));
    let how = SalvageOptions::default();
    let report = salvage(Path::new(DIR), Path::new(SAVED), watched::settings(), parts, how).unwrap();
    let saved = Watched::open_at(&sim, SAVED);
    let row = [&b"row"[..], &watched::high_first(seqno)].concat();
    assert!(saved.scan(&saved.log).iter().any(|found| found.key == row), "{report}");
    assert_eq!((saved.rows().len(), report.damage.len()), (1, 1), "{report}");
}

/// Short segments, and nothing but them.
fn small_log() -> Settings {
    let (segment_bytes, ring_bytes) = (64 * 1024, 16 * 1024);
    Settings { segment_bytes, ring_bytes, drain_bytes: 4096, wal_mapped: false, ..Settings::default() }
}

/// A store without a manifest, of whose log the first segment and the last are left: those between were used again. The
/// first one has `early`, the last one `late`, and one between has said that `early` is deleted. Answers their seqnos.
fn with_an_old_segment(sim: &SimFs, early: &str, late: &[&str], value: &str) -> (Seqno, Vec<Seqno>) {
    let db = Db::open(Path::new(DIR), small_log(), parts(sim)).unwrap();
    let family = db.family("default").unwrap();
    let write = |kind, key: &str, value: &[u8]| {
        let mut batch = Batch::new();
        batch.push(family.id(), kind, key.as_bytes(), value, db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap()
    };
    let fill = || {
        for _ in 0..400 {
            write(Kind::Put, "beside", &[7; 400]);
        }
    };
    let first = write(Kind::Put, early, value.as_bytes());
    fill();
    write(Kind::Delete, early, b"");
    fill();
    let last = late.iter().map(|key| write(Kind::Put, key, value.as_bytes())).collect();
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Process);
    let has =
        |path: &Path, key: &str| sim.read_all(path).unwrap().windows(key.len()).any(|part| part == key.as_bytes());
    for name in sim.files(DIR) {
        let path = Path::new(DIR).join(&name);
        let is_over = || !has(&path, value) || !(has(&path, early) || has(&path, late[0]));
        if name == "CURRENT" || name.ends_with(".log") && is_over() {
            sim.delete(&path).unwrap();
        }
    }
    assert_eq!(sim.files(DIR).iter().filter(|name| name.ends_with(".log")).count(), 2, "{:?}", sim.files(DIR));
    (first, last)
}

/// An old segment of the log may be left that has what was deleted since: it does not come back because a table lacks
/// something there.
#[test]
fn what_the_log_had_of_old_comes_back_in_no_gap() {
    let text = "the value that is looked for";
    let (v, other) = (Some(text), Some("beside"));
    // The table begins behind what the log had of old; or before it, lacking one record or two.
    for (reaches_back, lost) in [(false, 1), (true, 1), (true, 2)] {
        let sim = SimFs::new(3);
        let (early, late) = with_an_old_segment(&sim, "k-early", &["k-late", "k-later"], text);
        let least = if reaches_back { early.min(1) } else { early + 1 };
        let rows = [("j", least, other), ("k-late", late[0], v), ("k-later", late[1], v), ("l", late[0] - 1, other)];
        let table = write_table(&sim, 90, &rows, &sealed);
        rows[1..=lost].iter().for_each(|row| strike(&sim, &table, *row));
        let saved = Saved::of(&sim, false);
        for key in ["k-late", "k-later"] {
            assert_eq!(saved.read(key).unwrap().as_deref(), v, "{reaches_back}, {lost}: {}", saved.report);
        }
        let rung = Outcome::Repaired(Rung::Log);
        assert!(saved.outcomes().contains(&rung) && saved.report.lost == 0, "{}", saved.report);
        // Of two that are lost it may be one, by what it says alone; then nobody knows why the table does not have it.
        match saved.read("k-early") {
            Ok(found) => assert!(found.is_none() && lost == 1, "{reaches_back}, {lost}: {}", saved.report),
            Err(error) => assert!(error.is_corruption() && lost == 2, "{error}: {}", saved.report),
        }
    }
}

/// Of what a table has as well the log says nothing new, whatever a hole was filled with.
#[test]
fn what_the_log_and_a_table_have_is_not_lost_though_another_fills_the_gap() {
    let text = "the value that is looked for";
    let (v, other) = (Some(text), Some("beside"));
    let sim = SimFs::new(3);
    let (early, late) = with_an_old_segment(&sim, "k-early", &["k-late", "k-later"], text);
    let [in_log, in_both, in_table] = [("k-late", late[0], v), ("k-later", late[1], v), ("k-other", early + 2, other)];
    let rows = [("j", early + 1, other), in_log, in_table, ("l", late[1] + 1, other)];
    let hit = write_table(&sim, 90, &rows, &sealed);
    write_table(&sim, 91, &[in_both, in_table], &sealed);
    rows[1..3].iter().for_each(|row| strike(&sim, &hit, *row));
    let saved = Saved::of(&sim, false);
    assert_eq!(saved.report.lost, 0, "{}", saved.report);
    for (key, _, value) in [in_log, in_both, in_table] {
        assert_eq!(saved.read(key).unwrap().as_deref(), value, "{}", saved.report);
    }
}

/// A part of a cut index that the device does not give leads nowhere: the table is read by its data.
#[test]
fn a_part_of_an_index_that_cannot_be_read_ends_no_salvage() {
    let sim = SimFs::new(3);
    write_table(&sim, 10, &[("a", 1, Some("the first"))], &sealed);
    let keys: Vec<String> = (0..40).map(|n| format!("k{n:02}")).collect();
    let rows: Vec<Row<'_>> = (2..).zip(&keys).map(|(seqno, key)| (&key[..], seqno, Some("beside it"))).collect();
    write_table_cut(&sim, 11, &rows);
    // The steps in which the second table is read.
    let (whole, mut steps) = (sim.fork(), Vec::new());
    let mut watch = |progress: Progress| {
        steps.extend((progress.done > 0).then(|| whole.steps()));
        ControlFlow::Continue(())
    };
    let how = SalvageOptions { progress: Some(&mut watch), ..SalvageOptions::default() };
    salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(&whole), how).unwrap();
    let mut rebuilt = 0;
    for (step, times) in (steps[0]..steps[1]).flat_map(|step| [1, 4].map(|times| (step, times))) {
        let sim = sim.fork();
        (0..times).for_each(|_| sim.fail_at(step, Fault::Error(ErrorKind::PermissionDenied)));
        let how = SalvageOptions::default();
        let report = match salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(&sim), how) {
            Ok(report) => report,
            Err(error) if error.to_string().contains("000011.tbl") => panic!("{error}"),
            Err(_) => continue, // a step of the new store
        };
        sim.clear_faults();
        let saved = Saved::opened(&sim, report);
        for key in &keys {
            match saved.read(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some("beside it"), "{key}, step {step}: {}", saved.report),
                Err(error) => assert!(error.is_corruption() && !saved.report.is_clean(), "{key}: {error}"),
            }
        }
        rebuilt += usize::from(saved.report.lost == 0);
    }
    assert!(rebuilt > 0);
}

/// A table of another family of which a device gives only the records when it is looked into again: they are not of the
/// first family.
#[test]
fn a_table_that_does_not_say_again_whose_it_is_gives_nothing_to_the_first_family() {
    let v = Some("the value");
    let sim = SimFs::new(3);
    let hit = write_table(&sim, 10, &[("j", 80, v), ("k-late", 90, v), ("l", 85, v)], &sealed);
    write_table(&sim, 11, &[("k-late", 90, v)], &sealed);
    write_table_of(&sim, 1, 12, &[("k", 84, Some("another family's"))], &sealed);
    strike(&sim, &hit, ("k-late", 90, v));
    let mut saved_whole = 0;
    with_two_reads_failing(&sim, &look_into(&sim, 3, 2), &mut |saved, steps| {
        match saved.read("k") {
            Ok(found) => assert_eq!(found, None, "steps {steps:?}: {}", saved.report),
            Err(error) => assert!(error.is_corruption() && !saved.report.is_clean(), "{error}"),
        }
        saved_whole += usize::from(saved.outcomes() == [Outcome::Repaired(Rung::Trash)]);
    });
    assert!(saved_whole > 0);
}

/// The steps in which a salvage without faults looks again into one of the tables.
fn look_into(sim: &SimFs, tables: u64, nth: usize) -> Range<u64> {
    let (whole, mut steps) = (sim.fork(), Vec::new());
    let mut watch = |progress: Progress| {
        steps.extend((progress.done == tables).then(|| whole.steps()));
        ControlFlow::Continue(())
    };
    let how = SalvageOptions { progress: Some(&mut watch), ..SalvageOptions::default() };
    salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(&whole), how).unwrap();
    steps[nth]..steps[nth + 1]
}

/// Every salvage that comes to its end though two reads failed, of which the first was of these steps.
fn with_two_reads_failing(sim: &SimFs, steps: &Range<u64>, see: &mut dyn FnMut(Saved, (u64, u64))) {
    for (first, second) in steps.clone().flat_map(|first| (first + 1..steps.end + 8).map(move |second| (first, second)))
    {
        let sim = sim.fork();
        [first, second].iter().for_each(|step| sim.fail_at(*step, Fault::Error(ErrorKind::PermissionDenied)));
        let how = SalvageOptions::default();
        if let Ok(report) = salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(&sim), how) {
            sim.clear_faults();
            see(Saved::opened(&sim, report), (first, second));
        }
    }
}

/// A table that says nothing of itself when it is looked into again, and gives nothing, lacks what it lacked.
#[test]
fn a_table_that_gives_nothing_again_is_not_whole() {
    let sim = SimFs::new(3);
    let lost = ("k", 4, Some("the value"));
    let hit = write_table(&sim, 10, &[lost], &sealed);
    write_table(&sim, 11, &[("l", 5, Some("another"))], &sealed);
    strike(&sim, &hit, lost);
    let mut tried = 0;
    with_two_reads_failing(&sim, &look_into(&sim, 2, 0), &mut |saved, steps| {
        assert!(saved.read("k").unwrap_err().is_corruption(), "steps {steps:?}: {}", saved.report);
        assert_eq!(saved.report.lost, 1, "steps {steps:?}: {}", saved.report);
        tried += 1;
    });
    assert!(tried > 0);
}

/// A segment of the log whose first page was hit cannot be read: that is told, and missed where no other segment is
/// there.
#[test]
fn a_segment_that_does_not_say_which_it_is_is_told_of() {
    let sim = SimFs::new(3);
    let db = Db::open(Path::new(DIR), small_log(), parts(&sim)).unwrap();
    let family = db.family("default").unwrap();
    for (key, value) in [("k", &b"in the log alone"[..])].into_iter().chain([("l", &[7; 400][..]); 400]) {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, key.as_bytes(), value, db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    }
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Process);
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    let segments = || sim.files(DIR).into_iter().filter(|name| name.ends_with(".log"));
    let has_it = |path: &Path| sim.read_all(path).unwrap().windows(16).any(|part| part == b"in the log alone");
    let live = segments().find(|name| has_it(&Path::new(DIR).join(name))).unwrap();
    assert_eq!(Saved::of(&sim.fork(), false).read("k").unwrap().as_deref(), Some("in the log alone"));
    sim.flip(Path::new(DIR).join(&live), 75 * 8 + 3).unwrap();
    for with_another in [true, false] {
        let sim = sim.fork();
        let others = sim.files(DIR).into_iter().filter(|name| name.ends_with(".log") && *name != live);
        if with_another {
            assert!(others.count() > 0, "a log of several");
        } else {
            others.for_each(|name| sim.delete(Path::new(DIR).join(name)).unwrap());
        }
        let saved = Saved::of(&sim, false);
        let of_it: Vec<&Finding> = saved.report.damage.iter().filter(|finding| finding.file == live).collect();
        // The others begin with later commits than the first one: what was before them is missed.
        assert_eq!(
            of_it.iter().map(|finding| finding.outcome).collect::<Vec<_>>(),
            [Outcome::Fenced],
            "{}",
            saved.report
        );
        let error = saved.read("k").unwrap_err();
        assert!(error.is_corruption(), "{error}");
    }
}

/// A seal says nothing of a label: whether what fills a hole has the one that was lost nobody knows.
#[test]
fn a_record_that_fills_a_hole_may_have_an_older_label() {
    let v = Some("the value");
    for (lost, filling) in [(true, true), (true, false), (false, true), (false, false)] {
        let sim = SimFs::new(3);
        let write = |number, rows: &[Row<'_>], with: bool, text| {
            let label = Labels::of(&[("label", text)]).unwrap();
            write_table_by(&sim, 0, number, rows, &mut |pending, seqno| {
                let entries: &[(u16, &[u8])] = if with && pending.key == b"k" { &[(LABELS, &label[..])] } else { &[] };
                companions_of(&PendingWrite { entries, ..*pending }, seqno)
            })
        };
        write(10, &[("k", 2, v)], filling, "older");
        let hit = write(11, &[("a", 1, v), ("k", 4, v), ("z", 5, v)], lost, "newer");
        strike(&sim, &hit, ("k", 4, v));
        let saved = Saved::of(&sim, false);
        assert_eq!(saved.read("k").unwrap().as_deref(), v, "{}", saved.report);
        let told = u64::from(lost || filling);
        assert_eq!((saved.report.lost, saved.report.lost_beside), (0, told), "{lost}, {filling}: {}", saved.report);
        let left_out = saved.outcomes().iter().filter(|outcome| **outcome == Outcome::LeftOut).count();
        assert_eq!(left_out as u64, told, "{lost}, {filling}: {}", saved.report);
    }
}

/// What is gathered is bounded by its bytes, not by the number of records alone: else a few hundred large values were
/// more than a batch may hold, and no store would be left.
#[test]
fn large_values_are_written_in_groups_that_stay_small() {
    const VALUE: usize = 1 << 20;
    let sim = SimFs::new(3);
    // Values stand in their records, so all of a group stands in one frame of the log.
    let options = CfOptions { compression: Compression::None, large_value_bytes: 0, ..CfOptions::default() };
    let of_large = || Parts { families: vec![("default".to_owned(), options.clone())], ..parts(&sim) };
    let db = Db::open(Path::new(DIR), Settings::default(), of_large()).unwrap();
    let family = db.family("default").unwrap();
    for n in 0..12u8 {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, &[n], &vec![n; VALUE], db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let mut into = of_large();
    let traced = TracedFs::new(into.env.fs.clone(), SAVED);
    into.env.fs = Arc::new(traced.clone());
    let how = SalvageOptions::default();
    let report = salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), into, how).unwrap();
    assert!(report.is_clean() && report.records == 12, "{report}");
    // A frame of that length is written by itself, all but its first page and its last.
    let trace = traced.take();
    let written = |line: &str| {
        let (name, place) = line.strip_prefix("write ")?.split_once(' ')?;
        let (_, bytes) = place.split_once('+')?;
        if name.ends_with(".log") { bytes.parse::<usize>().ok() } else { None }
    };
    let largest = trace.lines().filter_map(written).max().unwrap();
    assert!(largest > VALUE && largest <= 4 * VALUE, "{largest} bytes at once");
    let db = Db::open(Path::new(SAVED), Settings::default(), of_large()).unwrap();
    let family = db.family("default").unwrap();
    for n in 0..12u8 {
        let mut is_whole = false;
        let look = &mut |record: &Record<'_>| is_whole = record.value == vec![n; VALUE];
        db.get(&family, &[n], At::Latest, look).unwrap();
        assert!(is_whole, "{n}");
    }
}

/// Killed between two of its steps, a salvage left a store that opened without an error and without rows.
#[test]
fn a_salvage_that_is_killed_leaves_no_store_that_answers_less() {
    let written = || {
        let sim = SimFs::new(77);
        let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
        for name in ["default", "other"] {
            let mut batch = Batch::new();
            batch.push(db.family(name).unwrap().id(), Kind::Put, b"k", name.as_bytes(), db.companions()).unwrap();
            db.commit(&mut batch, Durability::Os).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        sim.reboot(Crash::Process);
        sim
    };
    let run = |sim: &SimFs| {
        let (from, to) = (Path::new(DIR), Path::new(SAVED));
        salvage(from, to, Settings::default(), parts(sim), SalvageOptions::default())
    };
    let whole = written();
    run(&whole).unwrap();
    let steps = whole.changing_steps();
    let mut whole_stores = 0;
    for crash in [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Names)] {
        for step in &steps {
            let sim = written();
            sim.crash_at(*step);
            let outcome = run(&sim);
            sim.reboot(crash);
            let settings = Settings { create_if_missing: false, ..Settings::default() };
            let Ok(db) = Db::open(Path::new(SAVED), settings, parts(&sim)) else { continue };
            whole_stores += 1;
            for name in ["default", "other"] {
                let family = db.family(name).expect(name);
                let mut found = None;
                db.get(&family, b"k", At::Latest, &mut |record| found = Some(record.value.to_vec())).unwrap();
                assert_eq!(found.as_deref(), Some(name.as_bytes()), "step {step}: {outcome:?}");
            }
        }
    }
    assert!((3..3 * steps.len()).contains(&whole_stores), "{whole_stores} of {} steps", steps.len());
}

/// A log of 300 commits that no table has, of which three frames are damaged: one in its body, one in its header, and
/// one in the body again. Nobody closed the store.
fn with_gaps_in_the_log() -> SimFs {
    let sim = SimFs::new(78);
    let db = Db::open(Path::new(DIR), small_log(), parts(&sim)).unwrap();
    for at in 0..300 {
        let mut batch = Batch::new();
        let (key, value) = in_log(at);
        batch.push(0, Kind::Put, key.as_bytes(), value.as_bytes(), db.companions()).unwrap();
        db.commit(&mut batch, if at % 50 == 49 { Durability::Sync } else { Durability::Os }).unwrap();
    }
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Process);
    for (at, has_header) in [(100, true), (104, false), (200, true)] {
        let key = in_log(at).0;
        let mut copies = 0;
        for name in sim.files(DIR) {
            let path = Path::new(DIR).join(&name);
            let mut bytes = sim.read_all(&path).unwrap();
            while let Some(found) = bytes.windows(key.len()).position(|part| part == key.as_bytes()) {
                bytes[found] ^= 0x80;
                if !has_header {
                    bytes[found - 20..found].fill(0xA5);
                }
                copies += 1;
            }
            sim.write_all(&path, &bytes).unwrap();
        }
        assert!(copies > 0, "{key} is in the log");
    }
    sim
}

fn in_log(at: u32) -> (String, String) {
    (format!("key-{at:04}"), format!("{at:0400}"))
}

/// Reads all keys of the log: `None` for what may be lost.
fn read_of_log(sim: &SimFs) -> Vec<Option<Option<Vec<u8>>>> {
    let settings = Settings { create_if_missing: false, ..Settings::default() };
    let db = Db::open(Path::new(SAVED), settings, parts(sim)).unwrap();
    let family = db.family("default").unwrap();
    let read = |at| {
        let mut found = None;
        let key = in_log(at).0;
        match db.get(&family, key.as_bytes(), At::Latest, &mut |record| found = Some(record.value.to_vec())) {
            Ok(_) => Some(found),
            Err(error) if error.is_corruption() => None,
            Err(error) => panic!("{key}: {error}"),
        }
    };
    (0..300).map(read).collect()
}

#[test]
fn what_the_log_has_behind_damage_is_kept_and_what_may_be_older_is_lost() {
    for with_manifest in [true, false] {
        for accept_loss in [false, true] {
            let sim = with_gaps_in_the_log();
            if !with_manifest {
                sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
            }
            let (from, to) = (Path::new(DIR), Path::new(SAVED));
            let options = SalvageOptions { accept_loss, ..SalvageOptions::default() };
            let report = salvage(from, to, Settings::default(), parts(&sim), options).unwrap();
            for (at, read) in (0..).zip(read_of_log(&sim)) {
                let expected = match at {
                    100 | 104 | 200 if accept_loss => Some(None),
                    ..=200 if !accept_loss => None,
                    _ => Some(Some(in_log(at).1.into_bytes())),
                };
                assert_eq!(read, expected, "{at}, manifest {with_manifest}, accepted {accept_loss}\n{report}");
            }
            let told = report.damage.iter().filter(|finding| finding.message.contains("which keys are lost"));
            assert_eq!(told.count(), 3, "{report}");
        }
    }
}

/// Where the records of a store of one family are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordsIn {
    Table,
    Log,
    /// In a table with a damaged block, in a store without `CURRENT`: the salvage looks for the missing records.
    DamagedTable,
}

/// A closed store of one table with as many records.
fn one_table(records: u32) -> SimFs {
    store_of(records, RecordsIn::Table)
}

fn store_of(records: u32, place: RecordsIn) -> SimFs {
    let sim = SimFs::new(79);
    let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
    for at in 0..records {
        let mut batch = Batch::new();
        let (key, value) = in_log(at);
        batch.push(0, Kind::Put, key.as_bytes(), value.as_bytes(), db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    }
    if place != RecordsIn::Log {
        db.flush().unwrap();
    }
    db.close().unwrap();
    if place == RecordsIn::DamagedTable {
        let table = sim.files(DIR).into_iter().find(|name| name.ends_with(".tbl")).unwrap();
        (0..64).for_each(|byte| sim.flip(Path::new(DIR).join(&table), 8 * (100 + byte)).unwrap());
        sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    }
    sim
}

/// Progress is told table by table, and a table or the log may take seconds. The function takes longer than the
/// interval in which it is asked, so each look at the clock asks it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the function under test looks at the clock of the system")]
fn a_salvage_asks_for_an_interrupt_with_each_record() {
    const RECORDS: u32 = 30;
    let run = |sim: &SimFs| {
        salvage(Path::new(DIR), Path::new(SAVED), Settings::default(), parts(sim), SalvageOptions::default())
    };
    let asks_until = |place, end: u32| {
        let sim = store_of(RECORDS, place);
        let asked = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = asked.clone();
        interrupt::set(Some(Box::new(move || {
            std::thread::sleep(std::time::Duration::from_millis(11));
            count.set(count.get() + 1);
            count.get() >= end
        })));
        let outcome = run(&sim);
        interrupt::set(None);
        (sim, outcome, asked.get())
    };
    // In the log a frame asks, and so does its record. A table with holes is read three times.
    for (place, least) in
        [(RecordsIn::Table, RECORDS), (RecordsIn::Log, 2 * RECORDS), (RecordsIn::DamagedTable, 3 * RECORDS - 5)]
    {
        let (_, outcome, asked) = asks_until(place, u32::MAX);
        assert!(outcome.is_ok() && asked >= least, "{place:?}: asked {asked} times");
        let (sim, outcome, _) = asks_until(place, RECORDS / 2);
        assert_eq!(*outcome.unwrap_err().kind(), Kinds::Interrupted, "{place:?}");
        assert!(!sim.exists(Path::new(SAVED)).unwrap(), "{place:?}: {:?}", sim.files(SAVED));
        run(&sim).unwrap();
    }
}

#[test]
fn a_salvage_that_cannot_begin_leaves_no_directories() {
    let sim = one_table(3);
    let to = Path::new("/new/saved");
    let bad = Settings { memtable_bytes: 0, ..Settings::default() };
    let error = salvage(Path::new(DIR), to, bad, parts(&sim), SalvageOptions::default()).unwrap_err();
    assert_eq!(*error.kind(), Kinds::Invalid, "{error}");
    assert!(!sim.exists(Path::new("/new")).unwrap());
    salvage(Path::new(DIR), to, Settings::default(), parts(&sim), SalvageOptions::default()).unwrap();
}

#[test]
fn source_and_destination_lie_apart() {
    let sim = one_table(3);
    let before = sim.files(DIR);
    let inside = Path::new(DIR).join("saved");
    sim.create_dir_all(Path::new("/empty")).unwrap();
    for to in [inside.clone(), inside.join("deeper"), PathBuf::from("/")] {
        let error = salvage(Path::new(DIR), &to, Settings::default(), parts(&sim), SalvageOptions::default());
        assert_eq!(*error.unwrap_err().kind(), Kinds::Invalid, "{}", to.display());
        assert_eq!(sim.files(DIR), before);
        assert!(!sim.exists(&inside).unwrap());
    }
}

/// A store of one family with an ingested table of `a` to `e`, beside a flushed table with an older `c`; `after` writes
/// to it then, and its manifest is lost.
fn ingested(protector: Arc<dyn Companions>, after: &dyn Fn(&Db, &Family)) -> SimFs {
    let sim = SimFs::new(7);
    let db = Db::open(Path::new(DIR), Settings::default(), Parts { companions: protector, ..parts(&sim) }).unwrap();
    let family = db.family("default").unwrap();
    let put = |key: &str| put_in(&db, key, "old");
    for key in ["c", "m"] {
        put(key);
    }
    sim.create_dir_all(Path::new("/files")).unwrap();
    let path = PathBuf::from("/files/one");
    let mut writer = db.table_writer(&family, &path).unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        writer.push(Kind::Put, key.as_bytes(), b"ingested", &[]).unwrap();
    }
    writer.finish().unwrap();
    db.ingest_tables(&[(&family, &[path])], IngestMode::Move).unwrap();
    after(&db, &family);
    drop(family);
    db.close().unwrap();
    drop(db);
    sim.settle();
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    sim
}

fn put_in(db: &Db, key: &str, value: &str) {
    let mut batch = Batch::new();
    batch.push(0, Kind::Put, key.as_bytes(), value.as_bytes(), db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
}

/// Reads `a` to `e` and `m`: `!` for a lost key.
fn read_ingested(saved: &Saved) -> String {
    let read = |key: &str| match saved.read(key) {
        Ok(value) => value.unwrap_or_else(|| "-".to_owned())[..1].to_owned(),
        Err(error) if error.is_corruption() => "!".to_owned(),
        Err(error) => panic!("{key}: {error}"),
    };
    ["a", "b", "c", "d", "e", "m"].map(read).concat()
}

/// Only the manifest says when a table was ingested: without it, a key with another version is lost, not answered by the
/// one or the other.
#[test]
fn ingested_records_are_lost_where_another_version_may_be_newer() {
    let nothing = |_: &Db, _: &Family| {};
    let later = |db: &Db, _: &Family| put_in(db, "d", "later");
    let flushed = |db: &Db, _: &Family| {
        put_in(db, "d", "later");
        db.flush().unwrap();
    };
    let same = |db: &Db, _: &Family| put_in(db, "d", "ingested");
    let range = |db: &Db, _: &Family| {
        let mut batch = Batch::new();
        batch.push(0, Kind::RangeDelete, b"e", b"\x01f", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    };
    let merged = |db: &Db, family: &Family| db.compact(family, &(Bound::Unbounded, Bound::Unbounded)).unwrap();
    type Prepare<'a> = &'a dyn Fn(&Db, &Family);
    let cases: [(&str, Prepare<'_>, &str, &str); 6] = [
        ("nothing", &nothing, "ii!iio", "ii!iio"),
        ("a later record in the log", &later, "ii!!io", "ii!!io"),
        ("a later record in a table", &flushed, "ii!!io", "ii!!io"),
        ("the same content", &same, "ii!iio", "ii!!io"),
        ("a range delete in the log", &range, "!!!!!o", "!!!!!o"),
        ("a compaction", &merged, "iiiiio", "iiiiio"),
    ];
    for (case, after, sealed, plain) in cases {
        let protectors: [(Arc<dyn Companions>, &str); 2] =
            [(Arc::new(Sealer::new()), sealed), (Arc::new(Plain), plain)];
        for (protector, expected) in protectors {
            let sim = ingested(protector.clone(), after);
            let report = salvage(
                Path::new(DIR),
                Path::new(SAVED),
                Settings::default(),
                Parts { companions: protector, ..parts(&sim) },
                SalvageOptions::default(),
            );
            let saved = Saved::opened(&sim, report.unwrap());
            assert_eq!(read_ingested(&saved), expected, "{case}\n{}", saved.report);
            let counted = |finding: &Finding| {
                let (_, counted) = finding.message.split_once("ingestions that were committed: ")?;
                counted.split(' ').next()?.parse::<usize>().ok()
            };
            let counted: usize = saved.report.damage.iter().filter_map(counted).sum();
            let shown = if case == "a compaction" { 0 } else { expected.matches('i').count() };
            assert_eq!(counted, shown, "{case}: the rows that the copy shows\n{}", saved.report);
        }
    }
}

/// The copy has the format level of the old store, so a build that reads the one also reads the other.
#[test]
fn a_salvage_keeps_the_format_level() {
    for level in [1, 2] {
        for has_manifest in [true, false] {
            let sim = SimFs::new(7);
            let settings = Settings { format_level: level, ..Settings::default() };
            let db = Db::open(Path::new(DIR), settings, parts(&sim)).unwrap();
            put_in(&db, "k", "value");
            db.close().unwrap();
            drop(db);
            if !has_manifest {
                sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
            }
            let saved = Saved::of(&sim, false);
            assert_eq!(saved.read("k").unwrap().as_deref(), Some("value"));
            assert_eq!(saved.db.format_level().number(), if has_manifest { level } else { 2 });
        }
    }
}

/// Without a manifest nothing shows whether an ingestion was committed: its records are copied, and the report says so.
#[test]
fn records_of_an_ingestion_that_was_never_committed_are_reported() {
    let mut reported = 0;
    for step in 0.. {
        let sim = SimFs::new(8);
        let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
        let family = db.family("default").unwrap();
        ["c", "m"].iter().for_each(|key| put_in(&db, key, "old"));
        sim.create_dir_all(Path::new("/files")).unwrap();
        let path = PathBuf::from("/files/one");
        let mut writer = db.table_writer(&family, &path).unwrap();
        for key in ["a", "b", "e"] {
            writer.push(Kind::Put, key.as_bytes(), b"ingested", &[]).unwrap();
        }
        writer.finish().unwrap();
        sim.crash_at(sim.steps() + step);
        let ingested = db.ingest_tables(&[(&family, &[path])], IngestMode::Move);
        drop((family, db));
        if ingested.is_ok() {
            break;
        }
        sim.reboot(Crash::Process);
        sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        let saved = Saved::of(&sim, false);
        let findings: Vec<&Finding> =
            saved.report.damage.iter().filter(|finding| finding.message.contains("may never have been")).collect();
        assert_eq!(saved.read("m").unwrap().as_deref(), Some("old"), "step {step}");
        let Some(finding) = findings.first() else {
            assert_eq!(saved.read("a").unwrap(), None, "step {step}: a row without a finding\n{}", saved.report);
            continue;
        };
        let keys = Some((b"a".to_vec(), b"e".to_vec()));
        assert_eq!((findings.len(), &finding.key_range, finding.outcome), (1, &keys, Outcome::Reported), "step {step}");
        assert!(finding.file.ends_with(".tbl") && finding.message.contains("3 records"), "step {step}: {finding:?}");
        assert_eq!(saved.read("a").unwrap().as_deref(), Some("ingested"), "step {step}");
        reported += 1;
    }
    assert!(reported > 3, "{reported}");
}

/// A version that cannot be read hides all others of its key, whether it was ingested or they were.
#[test]
fn a_damaged_version_beside_an_ingested_table_hides_the_other_one() {
    let later = |db: &Db, _: &Family| {
        put_in(db, "a", "later");
        db.flush().unwrap();
    };
    for (key, value, expected) in [("a", "ingested", "!i!iio"), ("b", "ingested", "!!!iio"), ("c", "old", "!i!!!o")] {
        let sim = ingested(Arc::new(Sealer::new()), &later);
        let word = Seal::of(key.as_bytes(), value.as_bytes()).at(1).to_le_bytes();
        let mut found = sim.files(DIR).into_iter().filter(|name| name.ends_with(".tbl")).filter_map(|name| {
            let path = Path::new(DIR).join(name);
            let at = sim.read_all(&path).unwrap().windows(8).position(|window| window == word)?;
            Some((path, at as u64 * 8))
        });
        let (path, at) = found.next().expect("the record is in a table");
        [3, 11, 17, 30, 55].iter().for_each(|bit| sim.flip(&path, at + bit).unwrap());
        let saved = Saved::of(&sim, false);
        assert_eq!(read_ingested(&saved), expected, "{key} {value}\n{}", saved.report);
    }
}
