//! Care of damaged stores, on a simulated disk: what can be had comes back, what cannot is fenced and said, nothing else changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Bounds, Db, Family, ListCursor, OwnedRecord, Parts, Silent};
use waxseal_lsm::env::sim::{Fault, SimFs};
use waxseal_lsm::env::{DirEntry, Env, File, Fs, Lock, Machine, Mapped, Open};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::identity;
use waxseal_lsm::options::{CfOptions, Compression, Durability, SealLayout, Settings};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Plain, Protection};
use waxseal_lsm::sst::{Found, Table, Writer, WriterSettings};
use waxseal_meta::care::{
    Candidate, Corrupted, Decision, Digest, ErrorHandler, Outcome, RepairOptions, RepairSource, Report, Rung,
    SalvageOptions, ScrubOptions, VerifyOptions, digest, repair, salvage, scrub, verify, verify_closed,
};
use waxseal_meta::{Seal, Sealer};

const DIR: &str = "/store";
const TRASH: &str = "/trash";
const ALL: Bounds = (Bound::Unbounded, Bound::Unbounded);

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(compression: Compression, seal_column: bool) -> CfOptions {
    CfOptions {
        block_bytes: 1024,
        restart_interval: 4,
        compression,
        seals: SealLayout::always(seal_column),
        level0_tables: 64,
        ..CfOptions::default()
    }
}

fn settings() -> Settings {
    Settings { segment_bytes: 64 * 1024, ring_bytes: 16 * 1024, drain_bytes: 4096, ..Settings::default() }
}

fn parts(sim: &SimFs, options: &CfOptions) -> Parts {
    Parts {
        env: sim.env(sim.steps() + 1),
        companions: Arc::new(Sealer::new()),
        listener: Arc::new(Silent),
        families: vec![("default".to_owned(), options.clone()), ("other".to_owned(), options.clone())],
        orders: Vec::new(),
        chronicle: None,
        cache: None,
    }
}

struct World {
    sim: SimFs,
    options: CfOptions,
    db: Db,
    family: Family,
    model: Model,
}

impl World {
    fn new(options: CfOptions) -> World {
        World::on(SimFs::new(7), options, Model::new())
    }

    fn on(sim: SimFs, options: CfOptions, model: Model) -> World {
        let parts = parts(&sim, &options);
        World::of(sim, parts, options, model)
    }

    fn of(sim: SimFs, parts: Parts, options: CfOptions, model: Model) -> World {
        let db = Db::open(Path::new(DIR), settings(), parts).unwrap();
        let family = db.family("default").unwrap();
        World { sim, options, db, family, model }
    }

    fn apply(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.family.id(), kind, key, value, self.db.companions()).unwrap();
        self.db.commit(&mut batch, Durability::Os).unwrap();
        match kind {
            Kind::Put => self.model.insert(key.to_vec(), value.to_vec()),
            _ => self.model.remove(key),
        };
    }

    /// Records numbered from `from`, each with a value of its own that packs to about half.
    fn fill(&mut self, from: u64, count: u64) {
        for n in from..from + count {
            let value = format!("value {n:06} {:016x} {}", hash(&n.to_le_bytes()), "x".repeat(40));
            self.apply(Kind::Put, key(n).as_slice(), value.as_bytes());
        }
    }

    /// A record of another family that is in no table keeps the log alive from here on.
    fn keep_log(&self) {
        let other = self.db.family("other").unwrap();
        let mut batch = Batch::new();
        batch.push(other.id(), Kind::Put, b"k", b"v", self.db.companions()).unwrap();
        self.db.commit(&mut batch, Durability::Os).unwrap();
    }

    /// Everything down to the lowest level.
    fn compact(&self) {
        self.db.compact(&self.family, &ALL).unwrap();
    }

    fn tables(&self) -> Vec<PathBuf> {
        let tables = self.db.tables(&self.family).unwrap();
        tables.iter().map(|table| Path::new(DIR).join(table.name())).collect()
    }

    fn value_files(&self) -> Vec<PathBuf> {
        let names = self.sim.files(DIR).into_iter().filter(|name| name.ends_with(".val"));
        names.map(|name| Path::new(DIR).join(name)).collect()
    }

    /// The closed store on a disk of its own, to be damaged and opened again.
    fn closed(&self) -> SimFs {
        let copy = self.sim.fork();
        self.db.sync().unwrap();
        self.db.close().unwrap();
        drop(copy);
        self.sim.fork()
    }

    fn content(&self) -> Model {
        let mut cursor = self.db.cursor(&self.family, At::Latest, ALL).unwrap();
        let mut found = Model::new();
        cursor.first().unwrap();
        while cursor.valid() {
            found.insert(cursor.key().to_vec(), cursor.value().to_vec());
            cursor.next().unwrap();
        }
        found
    }

    /// What a point read answers.
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.db.get(&self.family, key, At::Latest, &mut |record| found = Some(record.value.to_vec()))?;
        Ok(found)
    }

    /// Every key of the model is answered as in it, or with corruption; how many are not answered.
    fn refused(&self) -> usize {
        let answer = |(key, value): (&Vec<u8>, &Vec<u8>)| match self.read(key) {
            Ok(found) => {
                assert_eq!(found.as_ref(), Some(value), "{}", key.escape_ascii());
                false
            }
            Err(error) => error.is_corruption(),
        };
        self.model.iter().filter(|pair| answer(*pair)).count()
    }

    fn digest(&self) -> Digest {
        digest(&self.db, &self.family, &ALL, At::Latest).unwrap()
    }

    fn assert_clean(&self) {
        let report = verify(&self.db, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty(), "{report}");
        assert_eq!(self.content(), self.model);
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

/// A closed store of one table, and where its data lies.
fn one_table(options: CfOptions, records: u64) -> (SimFs, Model, PathBuf, u64) {
    let mut world = World::new(options);
    world.fill(0, records);
    world.compact();
    let tables = world.tables();
    assert_eq!(tables.len(), 1);
    let open = world.db.tables(&world.family).unwrap()[0].table().unwrap();
    let data_end = open.approximate_offset(b"zzz");
    (world.closed(), world.model.clone(), tables[0].clone(), data_end)
}

fn reopened(sim: &SimFs, options: &CfOptions, model: &Model) -> World {
    World::on(sim.clone(), options.clone(), model.clone())
}

fn codecs() -> Vec<Compression> {
    if cfg!(feature = "lz4") { vec![Compression::None, Compression::Lz4] } else { vec![Compression::None] }
}

/// Flips bits of a value as it stands in a file of plain blocks, too many for the sum to help.
fn burst(sim: &SimFs, table: &Path, value: &[u8]) {
    let bytes = sim.read_all(table).unwrap();
    let at = bytes.windows(value.len()).position(|window| window == value).expect("the value stands in the file");
    for bit in [3, 11, 17, 30, 55] {
        sim.flip(table, at as u64 * 8 + bit).unwrap();
    }
}

#[test]
fn verify_has_no_false_alarm() {
    for (compression, seal_column) in codecs().into_iter().flat_map(|codec| [(codec, false), (codec, true)]) {
        let mut world = World::new(options(compression, seal_column));
        world.fill(0, 300);
        world.compact();
        world.fill(200, 200);
        world.db.flush().unwrap();
        world.apply(Kind::Delete, &key(7), b"");
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty(), "{report}");
        assert_eq!((report.records, report.validated, report.files), (501, 501, 2), "{report}");
        let sim = world.closed();
        let parts = parts(&sim, &world.options);
        let report = verify_closed(Path::new(DIR), settings(), parts, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty() && report.validated == 501, "{report}");
    }
}

/// A device that does not answer says nothing of what is in a file: that is told apart from damage, and nothing is repaired for it.
#[test]
fn a_table_that_cannot_be_opened_is_not_called_damaged() {
    let (sim, model, table, _) = one_table(options(Compression::None, false), 300);
    let world = reopened(&sim, &options(Compression::None, false), &model);
    for (kind, is_unread) in [(ErrorKind::PermissionDenied, true), (ErrorKind::NotFound, false)] {
        // Whatever step it is at which the table is opened: the first that a look at the store takes.
        sim.fail_at(sim.steps() + 1, Fault::Error(kind));
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        let [finding] = &report.damage[..] else { panic!("{report}") };
        assert_eq!((finding.outcome == Outcome::Unread, report.unread == 1), (is_unread, is_unread), "{report}");
        assert_eq!(report.tables.len(), usize::from(!is_unread));
        if is_unread {
            assert_eq!(Path::new(DIR).join(&finding.file), table);
            assert_eq!((report.lost, report.structural), (0, 0));
            assert!(report.json().contains("\"verdict\":\"io\"") && !report.is_clean());
        }
    }
    sim.fail_at(sim.steps() + 1, Fault::Error(ErrorKind::PermissionDenied));
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert_eq!((report.unread, report.repaired, report.damage[0].outcome), (1, 0, Outcome::Unread), "{report}");
    assert!(world.db.barred_tables(&world.family).is_empty() && world.db.fences(&world.family).is_empty());
    world.assert_clean();
}

#[test]
fn a_digest_tells_content_and_not_layout() {
    let mut world = World::new(options(Compression::None, false));
    world.fill(0, 200);
    let in_memory = world.digest();
    assert_eq!(in_memory.count, 200);
    world.db.flush().unwrap();
    assert_eq!(world.digest(), in_memory);
    world.compact();
    let sim = world.closed();
    let again = reopened(&sim, &options(codecs().pop().unwrap(), true), &world.model);
    assert_eq!(again.digest(), in_memory);
    again.compact();
    assert_eq!(again.digest(), in_memory);
    let half =
        |from: Bound<Vec<u8>>, to: Bound<Vec<u8>>| digest(&again.db, &again.family, &(from, to), At::Latest).unwrap();
    let (low, high) =
        (half(Bound::Unbounded, Bound::Excluded(key(90))), half(Bound::Included(key(90)), Bound::Unbounded));
    assert_eq!(low.and(high), in_memory);
    // Another order of writes, other seqnos, one record that came and went: the same.
    let mut other = World::new(options(Compression::None, false));
    other.fill(100, 100);
    other.apply(Kind::Put, b"gone", b"x");
    other.fill(0, 100);
    other.apply(Kind::Delete, b"gone", b"");
    assert_eq!(other.digest(), in_memory);
    other.apply(Kind::Put, &key(5), b"other");
    assert_ne!(other.digest(), in_memory);
}

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
            assert!(world.db.fences(&world.family).is_empty());
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

/// A replica: the model, and how often it was asked.
struct Replica {
    model: Model,
    asked: Mutex<u64>,
}

impl Replica {
    fn of(model: &Model) -> Replica {
        Replica { model: model.clone(), asked: Mutex::new(0) }
    }
}

impl RepairSource for Replica {
    fn by_seal(&self, _: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        *self.asked.lock().unwrap() += 1;
        let value = self.model.get(key).filter(|value| Seal::of(key, value) == seal);
        Ok(value.map(|value| Candidate { kind: Kind::Put, key: key.to_vec(), value: value.clone() }))
    }
    fn by_range(&self, _: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        *self.asked.lock().unwrap() += 1;
        for (key, value) in self.model.range(low.to_vec()..=high.to_vec()) {
            visit(Candidate { kind: Kind::Put, key: key.clone(), value: value.clone() });
        }
        Ok(())
    }
}

/// Answers every question, and always wrong.
struct Liar;

impl RepairSource for Liar {
    fn by_seal(&self, _: &str, key: &[u8], _: Seal) -> Result<Option<Candidate>> {
        Ok(Some(Candidate { kind: Kind::Put, key: key.to_vec(), value: b"a lie".to_vec() }))
    }
    fn by_range(&self, _: &str, low: &[u8], _: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        visit(Candidate { kind: Kind::Put, key: low.to_vec(), value: b"a lie".to_vec() });
        Ok(())
    }
}

#[derive(Default)]
struct Human {
    calls: Mutex<Vec<Corrupted>>,
    decision: Decision,
}

impl ErrorHandler for Human {
    fn on_corruption(&self, event: &Corrupted) -> Decision {
        self.calls.lock().unwrap().push(event.clone());
        self.decision
    }
}

#[test]
fn a_burst_is_repaired_from_a_source_and_no_wrong_answer_is_taken() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let value = model[&key(50)].clone();
    burst(&sim, &table, &value);
    let world = reopened(&sim.fork(), &options, &model);
    let replica = Replica::of(&model);
    let report = repair(&world.db, RepairOptions { source: Some(&replica), ..Default::default() }).unwrap();
    assert!(report.is_clean(), "{report}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Source)), "{report}");
    assert!(*replica.asked.lock().unwrap() > 0);
    world.assert_clean();
    let hurt = sim.fork();
    let world = reopened(&hurt, &options, &model);
    let human = Human::default();
    let report =
        repair(&world.db, RepairOptions { source: Some(&Liar), handler: Some(&human), ..Default::default() }).unwrap();
    assert!(!report.is_clean() && report.lost == 1, "{report}");
    assert_eq!(human.calls.lock().unwrap().len(), 1, "{report}");
    assert_fenced(&world, &report, 50);
}

/// One record is lost behind a fence; all others are there.
fn assert_fenced(world: &World, report: &Report, lost: u64) {
    let fences = world.db.fences(&world.family);
    assert_eq!(fences.len(), 1, "{report}");
    assert!(fences[0].1.may_hide(world.family.order(), &key(lost), u64::MAX >> 8));
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
    let found = verify(&world.db, VerifyOptions::default()).unwrap();
    assert_eq!(found.damage.len(), 1, "{found}");
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..Default::default() }).unwrap();
    assert!(report.damage.iter().all(|finding| finding.outcome == Outcome::Accepted), "{report}");
    assert!(world.db.fences(&world.family).is_empty());
    model.remove(&key(50));
    assert_eq!(world.content(), model);
    assert!(sim.exists(&damaged).unwrap(), "set aside for whoever wants to look");
}

#[test]
fn a_handler_that_forbids_it_keeps_the_table_as_it_is() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)].clone());
    for decision in [Decision::Fail, Decision::ReadOnly] {
        let world = reopened(&sim.fork(), &options, &model);
        let human = Human { decision, ..Human::default() };
        let report = repair(&world.db, RepairOptions { handler: Some(&human), ..Default::default() }).unwrap();
        assert_eq!(human.calls.lock().unwrap().len(), 1);
        assert!(report.damage.iter().all(|finding| finding.outcome == Outcome::Barred), "{report}");
        assert_eq!(report.cancelled, decision == Decision::ReadOnly);
        let mut batch = Batch::new();
        batch.push(world.family.id(), Kind::Put, b"k", b"v", world.db.companions()).unwrap();
        let written = world.db.commit(&mut batch, Durability::Os);
        assert_eq!(written.is_err(), decision == Decision::ReadOnly, "{written:?}");
        assert_eq!((world.db.is_read_only(), world.refused()), (decision == Decision::ReadOnly, 1));
        assert_eq!(world.db.barred_tables(&world.family).len(), 1);
        assert_eq!(world.tables(), std::slice::from_ref(&table));
        world.db.close().unwrap();
    }
}

#[test]
fn a_handler_is_asked_about_each_record_that_is_known_and_else_about_the_gap() {
    for compression in codecs() {
        let options = CfOptions { block_bytes: 4096, ..options(compression, false) };
        let (sim, model, table, _) = one_table(options.clone(), 100);
        if compression == Compression::None {
            for n in [10, 11, 12] {
                burst(&sim, &table, &model[&key(n)].clone()); // side by side: one gap
            }
        } else {
            (300 * 8..300 * 8 + 64).for_each(|bit| sim.flip(&table, bit).unwrap());
        }
        let world = reopened(&sim, &options, &model);
        let human = Human::default();
        let report = repair(&world.db, RepairOptions { handler: Some(&human), ..Default::default() }).unwrap();
        let calls = human.calls.lock().unwrap();
        let gaps = report.damage.iter().filter(|finding| finding.outcome == Outcome::Fenced).count();
        let single = calls.iter().filter(|event| event.span.0 == event.span.1).count();
        match compression {
            Compression::None => {
                let keys: Vec<_> = calls.iter().map(|event| event.span.0.0.clone()).collect();
                assert_eq!((gaps, single, keys), (1, 3, vec![key(10), key(11), key(12)]), "{report}");
            }
            // Unpacked as far as it goes: here and there something that looks like a record.
            _ => assert!(calls.len() >= gaps && single < gaps, "{report}"),
        }
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

/// The bytes of a damaged block: up to where the next one is whole.
fn next_block(open: &Table, block: usize, at: u64) -> u64 {
    let error = open.file().len().unwrap();
    let key = open.separator(block).unwrap();
    let next = [&key[..], b"\xff"].concat();
    open.approximate_offset(&next).min(error) - at
}

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
fn a_burst_is_repaired_from_the_log() {
    let mut world = World::new(options(codecs().pop().unwrap(), false));
    world.keep_log();
    world.fill(0, 60);
    world.compact();
    let table = world.tables()[0].clone();
    let length = world.sim.read_all(&table).unwrap().len() as u64;
    for bit in 0..40 {
        world.sim.flip(&table, 1000 * 8 + bit * 3).unwrap();
    }
    assert!(length > 1200);
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(report.is_clean(), "{report}");
    let by_log = report.damage.iter().filter(|finding| finding.outcome == Outcome::Repaired(Rung::Log)).count();
    assert!(by_log >= 1, "{report}");
    world.assert_clean();
}

/// One step after the other of a repair fails once; how often the table was put off. The log or the trash has what is lost: a record,
/// and a pointer to a value.
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
        assert!(world.db.fences(&world.family).is_empty(), "{step}: {first:?}");
        assert!(world.db.barred_tables(&world.family).is_empty(), "{step}: {first:?}");
        world.assert_clean();
    }
    put_off
}

/// A device that does not answer for a moment: what might have mended a table may be there still, so nothing of it is given up, not even
/// by who would give up what cannot be had.
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

/// A disk of which some files cannot be opened for reading, and a byte of one not be read.
#[derive(Clone, Debug)]
struct Withholding {
    sim: SimFs,
    withheld: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// Where the bytes stand, and which of the reads to come do not get each, the next one in the lowest bit.
    unread: Arc<Mutex<Vec<(PathBuf, u64, u128)>>>,
}

/// No read gets it.
const ALWAYS: u128 = u128::MAX;

/// A file of such a disk.
#[derive(Debug)]
struct Withheld {
    disk: Withholding,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl File for Withheld {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.pass(&self.path, offset..offset + buf.len() as u64)?;
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        self.file.map(length)
    }
}

impl Withholding {
    fn new(sim: &SimFs) -> Withholding {
        Withholding { sim: sim.clone(), withheld: Arc::default(), unread: Arc::default() }
    }

    /// From now on these, and no others.
    fn hold_back<P: AsRef<Path>>(&self, files: impl IntoIterator<Item = P>) {
        *self.withheld.lock().unwrap() = files.into_iter().map(|file| file.as_ref().to_owned()).collect();
    }

    fn release(&self) {
        self.withheld.lock().unwrap().clear();
        self.unread.lock().unwrap().clear();
    }

    /// From now on these reads of a byte fail too.
    fn fail_reads(&self, file: &Path, at: u64, reads: u128) {
        self.unread.lock().unwrap().push((file.to_owned(), at, reads));
    }

    fn pass(&self, file: &Path, span: Range<u64>) -> io::Result<()> {
        let mut fails = false;
        for (unread, at, reads) in self.unread.lock().unwrap().iter_mut() {
            if unread == file && span.contains(at) {
                fails |= *reads & 1 == 1;
                if *reads != ALWAYS {
                    *reads >>= 1;
                }
            }
        }
        if fails { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// A store on it.
    fn world(&self, options: &CfOptions, model: &Model) -> World {
        let parts = parts(&self.sim, options);
        let parts = Parts { env: Env { fs: Arc::new(self.clone()), ..parts.env }, ..parts };
        World::of(self.sim.clone(), parts, options.clone(), model.clone())
    }
}

impl Fs for Withholding {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        match how {
            Open::Read if self.withheld.lock().unwrap().contains(path) => Err(ErrorKind::PermissionDenied.into()),
            _ => Ok(Arc::new(Withheld { disk: self.clone(), path: path.to_owned(), file: self.sim.open(path, how)? })),
        }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.sim.remove(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.link(from, to)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.sim.list(dir)
    }
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.sim.entries(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.sim.create_dir_all(dir)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.remove_dir(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Fs::exists(&self.sim, path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.sync_dir(dir)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<std::result::Result<Box<dyn Lock>, String>> {
        self.sim.lock(path, holder)
    }
    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.sim.machine(dir)
    }
    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.sim.reserves_blocks(dir)
    }
}

/// Two copies of a table in a directory of their own.
fn copied_to_trash(sim: &SimFs, table: &Path) -> [PathBuf; 2] {
    sim.create_dir_all(Path::new(TRASH)).unwrap();
    ["000001.trash", "000002.trash"].map(|name| {
        let copy = Path::new(TRASH).join(name);
        sim.write_all(&copy, &sim.read_all(table).unwrap()).unwrap();
        copy
    })
}

/// A loss that only what cannot be read may have: it waits for that, unless it is accepted, and then it is told why.
fn assert_waits_or_is_accepted(of: impl Fn() -> (Withholding, World), trash: bool, lost: u64) {
    let trash = || trash.then(|| PathBuf::from(TRASH));
    let (disk, world) = of();
    for _ in 0..2 {
        let report = repair(&world.db, RepairOptions { trash: trash(), ..Default::default() }).unwrap();
        assert_eq!((report.unread, report.lost, report.repaired), (1, 1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Unread), "{report}");
        assert!(world.db.fences(&world.family).is_empty() && world.db.barred_tables(&world.family).is_empty());
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
    assert!(world.db.fences(&world.family).is_empty() && world.db.barred_tables(&world.family).is_empty());
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

/// Where bytes stand in a file.
fn place_of(sim: &SimFs, file: &Path, bytes: &[u8]) -> u64 {
    let all = sim.read_all(file).unwrap();
    all.windows(bytes.len()).position(|window| window == bytes).expect("they stand in the file") as u64
}

fn accepting(accept_loss: bool) -> RepairOptions<'static> {
    RepairOptions { accept_loss, ..Default::default() }
}

fn assert_no_fence(world: &World, report: &Report) {
    assert!(world.db.fences(&world.family).is_empty(), "{report}");
    assert!(world.db.barred_tables(&world.family).is_empty(), "{report}");
}

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

/// Walks do not get the block, and each time they end it is there: nothing of it is given up, whoever would accept that, and whether or not
/// a bit of it was hit besides.
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

/// A page of a cut index that the device does not give: its table waits, or is read by its data; all others are looked at and mended.
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

#[test]
fn verify_tells_a_block_that_cannot_be_read_from_one_that_is_damaged() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let disk = Withholding::new(&sim);
    let world = disk.world(&options, &model);
    let place = place_of(&sim, &table, &model[&key(50)]);
    for reads in [0b111, ALWAYS] {
        disk.fail_reads(&table, place, reads);
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        assert_eq!((report.unread, report.structural), (1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Unread), "{report}");
    }
    disk.release();
    world.assert_clean();
}

/// A replica that is away while so many questions are asked.
struct Away {
    replica: Replica,
    questions: Mutex<u64>,
}

impl Away {
    fn of(model: &Model, questions: u64) -> Away {
        Away { replica: Replica::of(model), questions: Mutex::new(questions) }
    }

    fn answers(&self) -> Result<&Replica> {
        let mut questions = self.questions.lock().unwrap();
        match questions.checked_sub(1) {
            Some(left) => {
                *questions = left;
                Err(Error::io("asking the replica", ErrorKind::NotFound.into()))
            }
            None => Ok(&self.replica),
        }
    }
}

impl RepairSource for Away {
    fn by_seal(&self, family: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        self.answers()?.by_seal(family, key, seal)
    }
    fn by_range(&self, family: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        self.answers()?.by_range(family, low, high, visit)
    }
}

/// Somebody who ends the repair, by its first question.
#[derive(Default)]
struct Interrupted(Mutex<u64>);

impl Interrupted {
    fn ends<T>(&self) -> Result<T> {
        *self.0.lock().unwrap() += 1;
        Err(Error::io("asking the replica", ErrorKind::Interrupted.into()))
    }
}

impl RepairSource for Interrupted {
    fn by_seal(&self, _: &str, _: &[u8], _: Seal) -> Result<Option<Candidate>> {
        self.ends()
    }
    fn by_range(&self, _: &str, _: &[u8], _: &[u8], _: &mut dyn FnMut(Candidate)) -> Result<()> {
        self.ends()
    }
}

/// Neither is the loss given up nor does a handler hear of it: who comes back later mends all of it.
#[test]
fn a_source_that_ends_the_repair_gives_nothing_up() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)]);
    for accept_loss in [false, true] {
        let world = reopened(&sim.fork(), &options, &model);
        let (away, human) = (Interrupted::default(), Human::default());
        let handler: Option<&dyn ErrorHandler> = if accept_loss { None } else { Some(&human) };
        let report = repair(&world.db, RepairOptions { accept_loss, handler, ..from(&away) }).unwrap();
        assert!(report.cancelled && !report.is_clean(), "{report}");
        assert_eq!((*away.0.lock().unwrap(), human.calls.lock().unwrap().len()), (1, 0));
        assert_no_fence(&world, &report);
        assert!(repair(&world.db, from(&Replica::of(&model))).unwrap().is_clean());
        world.assert_clean();
    }
}

fn from(source: &dyn RepairSource) -> RepairOptions<'_> {
    RepairOptions { source: Some(source), ..Default::default() }
}

#[test]
fn a_source_that_is_away_is_waited_for() {
    let options = options(Compression::None, false);
    let (sim, mut model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)]);
    let world = reopened(&sim.fork(), &options, &model);
    for _ in 0..2 {
        let report = repair(&world.db, from(&Away::of(&model, u64::MAX))).unwrap();
        assert_eq!((report.unread, report.lost, report.repaired), (1, 1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Unread), "{report}");
        assert_no_fence(&world, &report);
    }
    let report = repair(&world.db, from(&Away::of(&model, 2))).unwrap(); // it is asked three times
    assert!(report.is_clean(), "{report}");
    world.assert_clean();
    // Who accepts the loss asks once more, both for the seal and the gap.
    let world = reopened(&sim.fork(), &options, &model);
    let away = Away::of(&model, 6);
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..from(&away) }).unwrap();
    assert!(report.is_clean(), "{report}");
    world.assert_clean();
    // A handler decides.
    let world = reopened(&sim.fork(), &options, &model);
    let (away, human) = (Away::of(&model, u64::MAX), Human::default());
    let report = repair(&world.db, RepairOptions { handler: Some(&human), ..from(&away) }).unwrap();
    assert_eq!((report.unread, human.calls.lock().unwrap().len()), (1, 1), "{report}");
    assert_fenced(&world, &report, 50);
    // And one that never comes back is not waited for with a loss that is accepted.
    let world = reopened(&sim, &options, &model);
    let away = Away::of(&model, u64::MAX);
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..from(&away) }).unwrap();
    assert_eq!((report.unread, report.lost), (1, 1), "{report}");
    for outcome in [Outcome::Unread, Outcome::Accepted] {
        assert!(report.damage.iter().any(|finding| finding.outcome == outcome), "{report}");
    }
    assert_no_fence(&world, &report);
    model.remove(&key(50));
    assert_eq!(world.content(), model);
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
    assert_eq!((world.refused(), world.db.fences(&world.family).len()), (0, 1));
}

/// A plain node's table counts its records without sums: a log that has all is believed, also one that is read twice for a fault.
#[test]
fn a_fault_while_the_log_is_read_gives_nothing_up_of_a_table_without_sums() {
    let options = options(Compression::None, false);
    for step in 0.. {
        let sim = SimFs::new(7);
        let plain = Parts { companions: Arc::new(Plain), ..parts(&sim, &options) };
        let mut world = World::of(sim, plain, options.clone(), Model::new());
        world.keep_log();
        world.fill(0, 10);
        world.db.flush().unwrap();
        burst(&world.sim, &world.tables()[0], &world.model[&key(3)]);
        let from = world.sim.steps();
        world.sim.fail_at(from + step, Fault::Error(ErrorKind::PermissionDenied));
        let first = repair(&world.db, RepairOptions::default());
        if world.sim.steps() - from <= step {
            break;
        }
        world.sim.clear_faults();
        match repair(&world.db, RepairOptions::default()) {
            Err(_) if first.is_err() => continue, // a sync failed, and the store has halted
            report => assert!(report.as_ref().unwrap().is_clean(), "{step}: {first:?}, {report:?}"),
        }
        assert_no_fence(&world, &first.unwrap_or_default());
        assert_eq!((world.content(), world.refused()), (world.model.clone(), 0), "{step}");
    }
}

/// One value, or the end of its file, that cannot be read: what else is damaged is mended all the same, and the value is there afterwards.
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

#[test]
fn the_log_tells_of_others_where_a_value_that_it_points_to_is_gone_or_damaged() {
    for is_gone in [false, true] {
        let options = CfOptions { large_value_bytes: 100, ..options(Compression::None, false) };
        let mut world = World::new(options);
        world.keep_log();
        world.fill(0, 30);
        world.apply(Kind::Put, &key(30), &[b'a'; 300]);
        world.fill(31, 29);
        let values = world.value_files().remove(0);
        // An open cursor keeps what it can see, the value that is deleted among it.
        let cursor = (!is_gone).then(|| world.db.cursor(&world.family, At::Latest, ALL).unwrap());
        world.db.flush().unwrap();
        world.apply(Kind::Delete, &key(30), b"");
        world.compact();
        while world.db.step().unwrap() {}
        assert_eq!(world.value_files().contains(&values), !is_gone);
        if !is_gone {
            burst(&world.sim, &values, &[b'a'; 300]);
        }
        for around in [29, 31] {
            burst(&world.sim, &world.tables()[0], &world.model[&key(around)]);
        }
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert!(report.is_clean() && report.lost == 0, "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Log)), "{report}");
        drop(cursor);
        world.assert_clean();
    }
}

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

/// Hits the pointer to a value as it stands in a table, so that no correction helps.
fn burst_pointer(sim: &SimFs, table: &Path, value: &[u8]) {
    burst(sim, table, &hash(value).to_le_bytes());
}

/// A store of two tables that point into one value file; the first one's values have moved to another since it was copied to the trash.
fn moved_apart() -> World {
    let options = CfOptions { large_value_bytes: 100, table_bytes: 2048, ..options(Compression::None, false) };
    let mut world = World::new(options);
    let value = |n: u64| [hash(&n.to_le_bytes()).to_le_bytes(); 16].concat();
    (0..40).for_each(|n| world.apply(Kind::Put, &key(n), &value(n)));
    world.db.flush().unwrap();
    world.apply(Kind::Put, &key(20), b"in its record"); // so that the tables are merged, and cut
    world.compact();
    let (sim, model) = (world.closed(), world.model.clone());
    let world = reopened(&sim, &world.options, &model);
    let ([first, _], [values]) = (&world.tables()[..], &world.value_files()[..]) else {
        panic!("{:?}", sim.files(DIR))
    };
    copied_to_trash(&sim, first);
    let bytes = sim.read_all(values).unwrap();
    let at = bytes.windows(128).position(|window| window == value(4)).unwrap();
    sim.flip(values, at as u64 * 8 + 77).unwrap();
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(report.is_clean() && report.repaired > 0, "{report}");
    assert_eq!((world.tables().len(), world.value_files().len()), (2, 2));
    world
}

/// The only table that holds a pointer to this value.
fn table_of(world: &World, value: &[u8]) -> PathBuf {
    let hash = hash(value).to_le_bytes();
    let holds = |table: &PathBuf| world.sim.read_all(table).unwrap().windows(8).any(|window| window == hash);
    let mut tables: Vec<PathBuf> = world.tables().into_iter().filter(holds).collect();
    assert_eq!(tables.len(), 1);
    tables.remove(0)
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
    assert!(world.db.fences(&world.family).is_empty(), "{report}");
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

/// A table that a plain node wrote counts its records without sums: an older version from the trash would make the count close.
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
    assert!(world.refused() > 0 && !world.db.fences(&world.family).is_empty(), "{report}");
}

/// Without seals a table has lost a whole block, and counts no more than its records: older versions in the log may be as many.
#[test]
fn a_count_is_believed_of_a_log_that_has_all() {
    let options = options(Compression::None, false);
    for has_all in [false, true] {
        let sim = SimFs::new(7);
        let plain = |sim: &SimFs| Parts { companions: Arc::new(Plain), ..parts(sim, &options) };
        let mut world = World::of(sim.clone(), plain(&sim), options.clone(), Model::new());
        if has_all {
            world.keep_log();
        }
        world.fill(0, 10);
        world.db.flush().unwrap();
        if !has_all {
            let (sim, model) = (world.closed(), world.model.clone());
            world = World::of(sim.clone(), plain(&sim), options.clone(), model);
            world.keep_log();
            for n in 0..10 {
                world.apply(Kind::Put, &key(5), format!("version {n} of the fifth").as_bytes());
            }
            world.compact();
        }
        burst(&world.sim, &world.tables()[0], &world.model[&key(3)]);
        let report = repair(&world.db, RepairOptions::default()).unwrap();
        assert_eq!((report.is_clean(), report.lost), (has_all, if has_all { 0 } else { 10 }), "{report}");
        assert_eq!(world.refused(), report.lost as usize, "{report}");
    }
}

/// What comes in as a table is in no log.
#[test]
fn a_count_is_not_believed_of_a_log_beside_which_records_came_in() {
    let options = options(Compression::None, false);
    let sim = SimFs::new(7);
    let plain = Parts { companions: Arc::new(Plain), ..parts(&sim, &options) };
    let mut world = World::of(sim, plain, options, Model::new());
    world.keep_log();
    world.fill(0, 1);
    for n in 0..10 {
        world.apply(Kind::Put, &key(5), format!("version {n} of the fifth").as_bytes());
    }
    let value = |n: u64| format!("number {n:06}, which came in").into_bytes();
    let record = |n| OwnedRecord { key: key(n), seqno: 1, kind: Kind::Put, value: value(n), companion: Vec::new() };
    let came_in = || (1..11).filter(|n| *n != 5);
    let records: Vec<_> = came_in().map(record).collect();
    world.model.extend(came_in().map(|n| (key(n), value(n))));
    let open = &mut || -> Result<Box<dyn Cursor>> {
        Ok(Box::new(ListCursor::new(Order::bytewise(), records.clone(), Protection::None)))
    };
    world.db.ingest(&world.family, open).unwrap();
    world.compact();
    burst(&world.sim, &world.tables()[0], &world.model[&key(3)]);
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(!report.is_clean() && report.lost == 11, "{report}");
    assert_eq!(world.refused(), 11, "{report}");
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
    let db = Db::open(to, settings(), parts(sim, options)).unwrap();
    let family = db.family("default").unwrap();
    (World { sim: sim.clone(), options: options.clone(), db, family, model: model.clone() }, report)
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

fn files(sim: &SimFs) -> Vec<(String, Vec<u8>)> {
    let names = sim.files(DIR).into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), sim.read_all(Path::new(DIR).join(&name)).unwrap())).collect()
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
    assert!(saved.db.fences(&saved.family).is_empty());
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

/// The table file written anew under its own uid, whole in itself, without one of its records: an older copy of it, say.
fn without_one(sim: &SimFs, options: &CfOptions, model: &Model, table: &Path, left_out: &[u8]) {
    let world = reopened(&sim.fork(), options, model);
    let found = world.db.tables(&world.family).unwrap();
    let (open, meta) = (found[0].table().unwrap(), found[0].meta().clone());
    let settings = WriterSettings {
        order: Order::bytewise(),
        family: world.family.id(),
        block_bytes: options.block_bytes,
        restart_interval: options.restart_interval,
        filter_bits: options.filter_bits,
        filter_policy: None,
        compression: options.compression,
        base_seqno: meta.least_seqno,
        seal_column: options.seals.is_column(options.compression),
        created_micros: 0,
        store: None,
    };
    let path = Path::new("/other.tbl");
    let file = sim.open(path, Open::Create).unwrap();
    let mut writer = Writer::new(file, meta.uid, settings, Arc::new(Sealer::new()));
    let take = &mut |found: Found<'_>| match found {
        Found::Record(record, ..) if record.key != left_out => writer.add(record),
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
        assert_eq!((world.tables(), world.db.barred_tables(&world.family).len()), (vec![table.clone()], 1));
        // Nobody knows where it stood: all that the table spans is under one fence.
        let fences = world.db.fences(&world.family);
        assert_eq!((fences.len(), &fences[0].1.from.0, &fences[0].1.to.0), (1, &key(0), &key(99)), "{report}");
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
    assert!(report.damage.is_empty() && world.db.fences(&world.family).is_empty(), "{report}");
    assert!(world.db.barred_tables(&world.family).is_empty());
    write(&hurt);
    // Or it is given up: told, and the file set aside.
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..Default::default() }).unwrap();
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Accepted) && report.lost == 1, "{report}");
    assert!(report.damage.iter().all(|finding| finding.outcome != Outcome::Barred), "{report}");
    assert!(world.sim.exists(&table.with_extension("damaged")).unwrap());
    assert!(world.db.fences(&world.family).is_empty() && world.db.barred_tables(&world.family).is_empty());
    assert_eq!(world.refused(), 0);
}

/// The table of `one_table` as it was.
fn sim_before(options: &CfOptions, table: &Path) -> Vec<u8> {
    let (sim, _, same, _) = one_table(options.clone(), 100);
    assert_eq!(same, table);
    sim.read_all(table).unwrap()
}

/// A store with old and new versions in tables of their own, and newer ones in the log.
fn in_layers(options: &CfOptions) -> World {
    let mut world = World::new(options.clone());
    world.fill(0, 100);
    world.compact();
    for n in 40..60 {
        world.apply(Kind::Put, &key(n), format!("newer than the first, number {n:06}").as_bytes());
    }
    world.db.flush().unwrap();
    world.apply(Kind::Put, &key(51), b"the newest, in the log");
    world.apply(Kind::Delete, &key(52), b"");
    world
}

/// Tables of the default family, the oldest first.
fn by_age(world: &World) -> Vec<PathBuf> {
    let mut tables = world.tables();
    tables.sort();
    tables
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
    assert!(saved.db.fences(&saved.family).is_empty());
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
    assert_eq!(saved.refused(), world.model.len(), "{report}");
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
            assert!(saved.db.fences(&saved.family).is_empty());
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
    assert!(saved.db.fences(&saved.family).is_empty());
}

#[test]
fn a_salvage_that_is_ended_leaves_no_store() {
    let options = options(Compression::None, false);
    let (sim, _, _, _) = one_table(options.clone(), 100);
    let to = Path::new("/salvaged");
    let progress: Option<waxseal_meta::care::Watch<'_>> = None;
    let mut stop = |_| std::ops::ControlFlow::Break(());
    let how = SalvageOptions { progress: progress.or(Some(&mut stop)), ..Default::default() };
    assert!(salvage(Path::new(DIR), to, settings(), parts(&sim, &options), how).is_err());
    assert!(!sim.exists(to).unwrap() || sim.files(to).is_empty(), "{:?}", sim.files(to));
}
