//! Sealed stores on the real engine, on a simulated disk: seals live as long as their records, and no longer.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Event, Parts};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::error::{Error, Result, Verdict as Damaged};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::options::{CfOptions, Compression, Durability};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Build, Companions, PendingWrite, Plain, Protection};
use waxseal_meta::verdict::SealVerdict;
use waxseal_meta::{Seal, SealCounts, SealPoint, Sealer};
use waxseal_testing::above::{Above, Over};
use waxseal_testing::harness::{DIR, Model, Store, open_table, options, parts, settings};
use waxseal_testing::listener::Heard;
use waxseal_testing::store::ALL;

/// An open store, and what its listener heard.
struct World {
    store: Store,
    heard: Arc<Heard<Error>>,
}

impl Deref for World {
    type Target = Store;
    fn deref(&self) -> &Store {
        &self.store
    }
}

impl World {
    fn open(sim: &SimFs, companions: Arc<dyn Companions>) -> World {
        World::try_open(sim, companions).unwrap()
    }

    fn try_open(sim: &SimFs, companions: Arc<dyn Companions>) -> Result<World> {
        let heard = Heard::new(|event| match event {
            Event::Corruption { error } | Event::BackgroundError { error, .. } => Some(error.clone()),
            _ => None,
        });
        let options = CfOptions { compression: Compression::default(), ..options() };
        let parts = Parts { listener: heard.clone(), ..parts(companions, options) };
        Ok(World { store: Store::try_open(sim, DIR, settings(), parts)?, heard })
    }

    /// Checks the whole content both ways and by key, and judges each record. Returns how often one without a
    /// seal was met, by the scan and by a get.
    fn check(&self, model: &Model, at: At<'_>, sealer: &Sealer) -> usize {
        let mut unsealed = 0;
        let mut judge = |record: &Record<'_>| match sealer.judge(record, hash(record.key), false) {
            SealVerdict::Validated => {
                assert_eq!(Sealer::seal_of(record).unwrap(), Some(Seal::of(record.key, record.value)));
            }
            SealVerdict::Unverified => unsealed += 1,
            verdict => panic!("{verdict:?}: {record:?}"),
        };
        let scanned = self.scan_at(at);
        scanned.iter().for_each(|owned| judge(&owned.record()));
        assert!(scanned.iter().map(|owned| (&owned.key, &owned.value)).eq(model));
        for (key, value) in model {
            let found = self.get_at(key, at).unwrap().unwrap();
            assert_eq!(&found.value, value);
            judge(&found.record());
        }
        unsealed
    }

    fn levels(&self) -> usize {
        self.db.metrics().families[0].levels.iter().filter(|level| level.tables > 0).count()
    }

    /// Every table file walked from end to end by a keeper; protection and ledger of each.
    fn tables(&self, protector: &dyn Companions) -> Vec<(u8, Ledger)> {
        let mut tables = Vec::new();
        for path in self.store.tables() {
            let table = open_table(&self.sim, &path, &Order::bytewise());
            tables.push((table.properties().protection, table.verify(protector, &mut |_| Ok(())).unwrap()));
        }
        tables
    }

    fn damage_heard(&self) -> Vec<Damaged> {
        let heard = self.heard.all();
        heard.iter().map(|error| error.damage().map_or_else(|| panic!("{error}"), |damage| damage.verdict)).collect()
    }
}

#[test]
fn seals_live_as_long_as_their_records() {
    let sim = SimFs::new(1);
    let sealer = Arc::new(Sealer::new());
    let world = World::open(&sim, sealer.clone());
    let mut model = Model::new();
    let mut written = world.work(&mut model, 1, 700);
    let (snapshot, then) = (world.db.snapshot().unwrap(), model.clone());
    written += world.work(&mut model, 2, 1500);
    assert!(world.levels() >= 3, "{:?}", world.db.metrics().families);
    assert_eq!(world.check(&model, At::Latest, &sealer), 0);
    assert_eq!(world.check(&then, At::Snapshot(&snapshot), &sealer), 0);
    drop(snapshot);
    world.db.settle().unwrap();
    world.db.compact(&world.family, &ALL).unwrap();
    assert_eq!(world.check(&model, At::Latest, &sealer), 0);
    let tables = world.tables(&*sealer);
    assert!(tables.len() > 1);
    let mut total = Ledger::default();
    for (protection, ledger) in &tables {
        assert_eq!(*protection, 2);
        total.merge(ledger);
    }
    // Nothing but the model is left, and its sum of seals, wherever the records lie.
    let digest = model.iter().fold(0u64, |sum, (key, value)| sum.wrapping_add(Seal::of(key, value).number()));
    assert_eq!((total.puts.count, total.puts.sum), (model.len() as u64, digest));
    assert_eq!(total.deletes.count, 0);
    // One seal an operation, and not one more on the way.
    assert_eq!(sealer.counts(), SealCounts { computed: written, ..SealCounts::default() });
    assert!(world.damage_heard().is_empty());
}

#[test]
fn seals_come_back_from_the_log() {
    for (seed, crash) in [
        (1, None),
        (2, Some(Crash::Process)),
        (3, Some(Crash::Machine(Loss::KeepAll))),
        (4, Some(Crash::Machine(Loss::DurableOnly))),
    ] {
        let sim = SimFs::new(seed);
        let mut model = Model::new();
        for round in 0..4 {
            // A keeper of its own for each life: what it computes is what was written in it.
            let sealer = Arc::new(Sealer::new());
            let world = World::open(&sim, sealer.clone());
            assert_eq!(world.check(&model, At::Latest, &sealer), 0);
            let written = world.work(&mut model, seed * 100 + round, 90);
            assert_eq!(world.check(&model, At::Latest, &sealer), 0);
            assert_eq!(sealer.counts(), SealCounts { computed: written, ..SealCounts::default() });
            match crash {
                None => world.db.close().unwrap(),
                Some(crash) => {
                    world.db.sync().unwrap();
                    sim.reboot(crash);
                }
            }
        }
        let sealer = Arc::new(Sealer::new());
        let world = World::open(&sim, sealer.clone());
        world.db.settle().unwrap();
        assert_eq!(world.check(&model, At::Latest, &sealer), 0);
        assert!(world.tables(&*sealer).iter().all(|(protection, _)| *protection == 2));
    }
}

#[test]
fn a_given_seal_is_handed_back_after_five_compactions() {
    let sim = SimFs::new(1);
    let sealer = Arc::new(Sealer::new());
    let world = World::open(&sim, sealer.clone());
    let seal = Seal::of(b"150x", b"given");
    let mut batch = Batch::new();
    let pending = PendingWrite {
        family: world.family.id(),
        kind: Kind::Put,
        key: b"150x",
        value: b"given",
        key_hash: None,
        entries: &[],
    };
    sealer.push_sealed(&mut batch, &pending, seal).unwrap();
    world.db.commit(&mut batch, Durability::Sync).unwrap();
    for round in 0..5 {
        world.put(b"149", &[round; 10]);
        world.put(b"151", &[round; 10]);
        world.db.compact(&world.family, &ALL).unwrap();
    }
    let mut handed = None;
    world.db.get(&world.family, b"150x", At::Latest, &mut |record| handed = Sealer::seal_of(record).unwrap()).unwrap();
    assert_eq!(handed, Some(seal));
    assert_eq!((sealer.counts().given, sealer.counts().computed), (1, 10));
}

#[test]
fn keys_of_every_shape_keep_their_own_seal() {
    let sim = SimFs::new(1);
    let sealer = Arc::new(Sealer::new());
    let world = World::open(&sim, sealer.clone());
    let keys: [&[u8]; 9] = [b"", b"a", b"a\0", b"a\0\xff", b"a\x01", b"a\x01\x01", b"\xAA", b"\xFF\xFF", &[0xAA; 60]];
    let mut model = Model::new();
    for value in [&b""[..], b"\x01", &[0xAA; 9], b"last"] {
        for key in keys {
            world.put(key, value);
            model.insert(key.to_vec(), value.to_vec());
        }
        world.apply(Kind::Delete, b"a\x01\x01", b"");
        model.remove(&b"a\x01\x01"[..]);
        assert_eq!(world.check(&model, At::Latest, &sealer), 0);
        world.db.settle().unwrap();
        assert_eq!(world.check(&model, At::Latest, &sealer), 0);
    }
}

#[test]
fn a_plain_node_reads_the_same_and_a_sealed_one_trusts_what_it_left() {
    let sim = SimFs::new(1);
    let mut model = Model::new();
    let sealed = World::open(&sim, Arc::new(Sealer::new()));
    sealed.work(&mut model, 1, 600);
    sealed.db.flush().unwrap();
    sealed.put(b"in the log only", b"1"); // with a seal that no node without the algebra can bind
    model.insert(b"in the log only".to_vec(), b"1".to_vec());
    sealed.db.sync().unwrap();
    sim.reboot(Crash::Process);

    let plain = World::open(&sim, Arc::new(Plain));
    let judge = Sealer::new();
    assert_eq!(plain.check(&model, At::Latest, &judge), 2);
    plain.work(&mut model, 2, 600);
    plain.db.settle().unwrap();
    plain.db.compact(&plain.family, &ALL).unwrap();
    assert!(plain.damage_heard().is_empty(), "{:?}", plain.damage_heard());
    assert!(plain.check(&model, At::Latest, &judge) > 0);
    // No record has the seal of another: a file with seals has them whole, on records that were sealed.
    plain.tables(&judge);
    plain.put(b"in the log only", b"2");
    model.insert(b"in the log only".to_vec(), b"2".to_vec());
    plain.db.close().unwrap();

    let sealer = Arc::new(Sealer::new());
    let again = World::open(&sim, sealer.clone());
    let unsealed = again.check(&model, At::Latest, &sealer);
    again.work(&mut model, 3, 600);
    again.db.settle().unwrap();
    again.db.compact(&again.family, &ALL).unwrap();
    assert!(again.damage_heard().is_empty(), "{:?}", again.damage_heard());
    assert!(again.check(&model, At::Latest, &sealer) <= unsealed);
    assert_eq!((sealer.counts().computed, sealer.counts().adopted > 0), (600, true));
    again.tables(&*sealer);
}

#[test]
fn a_store_of_a_time_without_seals_is_adopted() {
    let sim = SimFs::new(1);
    let mut model = Model::new();
    let plain = World::open(&sim, Arc::new(Plain));
    plain.work(&mut model, 1, 600);
    plain.db.close().unwrap();
    drop(plain);
    let sealer = Arc::new(Sealer::new());
    let world = World::open(&sim, sealer.clone());
    world.work(&mut model, 2, 50);
    for key in [&b""[..], b"z"] {
        world.put(key, b"so that all tables are merged");
        model.insert(key.to_vec(), b"so that all tables are merged".to_vec());
    }
    world.db.compact(&world.family, &ALL).unwrap();
    world.db.settle().unwrap();
    assert!(world.damage_heard().is_empty(), "{:?}", world.damage_heard());
    assert_eq!(world.check(&model, At::Latest, &sealer), 0);
    let counts = sealer.counts();
    assert_eq!((counts.computed, counts.unsealed), (52, 0));
    // Each adopted record says so; what was put through the keeper does not.
    let mut marked = 0;
    let mut cursor = world.db.cursor(&world.family, At::Latest, ALL).unwrap();
    cursor.first().unwrap();
    while cursor.valid() {
        marked += u64::from(Sealer::is_adopted(&cursor.record()));
        cursor.next().unwrap();
    }
    assert!(marked > 0 && marked <= counts.adopted, "{marked} of {}", counts.adopted);
    assert!(model.len() as u64 - marked <= 52);
    assert!(world.tables(&*sealer).iter().all(|(protection, _)| *protection == 2));
}

#[test]
fn sealing_at_the_flush_covers_tables_only() {
    let sim = SimFs::new(1);
    let sealer = Arc::new(Sealer::new().at(SealPoint::Flush));
    let world = World::open(&sim, sealer.clone());
    world.put(b"k", b"v");
    let model = Model::from([(b"k".to_vec(), b"v".to_vec())]);
    assert_eq!(world.check(&model, At::Latest, &sealer), 2);
    assert_eq!(sealer.counts().computed, 0);
    world.db.flush().unwrap();
    assert_eq!(world.check(&model, At::Latest, &sealer), 0);
    assert_eq!(sealer.counts().computed, 1);
}

/// How a keeper goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A bit of the seal flips when it is bound: what stands in the memtable is wrong.
    FlipInBind,
    /// A bit of the seal flips between source and table.
    FlipInBuild,
    /// The seal gets lost between source and table.
    Lose,
    /// The seal is that of the next seqno.
    Shift,
    /// The seal is another one's, right in itself.
    Foreign,
}

/// A sealer that goes wrong so many more times.
struct Mangler {
    sealer: Sealer,
    fault: Fault,
    strikes: AtomicUsize,
}

impl Mangler {
    fn new(fault: Fault) -> Arc<Over<Mangler>> {
        Arc::new(Over(Mangler { sealer: Sealer::new(), fault, strikes: AtomicUsize::new(0) }))
    }
    fn strike(&self) -> bool {
        self.strikes.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

impl Above for Mangler {
    fn beneath(&self) -> &dyn Companions {
        &self.sealer
    }
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        self.sealer.bind(companion, old, new);
        // A batch is bound to 0 when it is asked once more before its commit; that one is left alone.
        if self.fault == Fault::FlipInBind && new > 0 && self.strike() {
            companion[5] ^= 0x10;
        }
    }
    fn on_build(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build {
        if self.fault == Fault::FlipInBind || record.key != STRUCK || !self.strike() {
            return self.sealer.on_build(record, source, out);
        }
        out.extend_from_slice(record.companion);
        match self.fault {
            Fault::Lose => out.clear(),
            Fault::Shift => self.sealer.bind(out, Some(record.seqno), record.seqno + 1),
            Fault::Foreign => out[1..].copy_from_slice(&Seal::of(b"other", b"v").at(record.seqno).to_le_bytes()),
            _ => out[8] ^= 1,
        }
        Build::Set
    }
}

/// The record that is struck on its way, so that a strike is one pass.
const STRUCK: [u8; 1] = [19];

const ON_THE_WAY: [(Fault, Damaged); 4] = [
    (Fault::FlipInBuild, Damaged::Seal),
    (Fault::Shift, Damaged::Seal),
    (Fault::Foreign, Damaged::Seal),
    (Fault::Lose, Damaged::Missing),
];

#[test]
fn damage_between_memtable_and_table_is_found_and_nothing_is_lost() {
    for ((fault, verdict), strikes) in ON_THE_WAY.into_iter().flat_map(|row| [(row, 1), (row, 2)]) {
        let mangler = Mangler::new(fault);
        let world = World::open(&SimFs::new(1), mangler.clone());
        let mut model = Model::new();
        for n in 0..20u8 {
            world.put(&[n], b"value");
            model.insert(vec![n], b"value".to_vec());
        }
        mangler.strikes.store(strikes, Relaxed);
        let outcome = world.db.flush();
        assert_eq!(mangler.strikes.load(Relaxed), 0, "too few records were built");
        // What happened once on the way is done again from the log, and right. What happens again ends the flush.
        if strikes == 2 {
            let found = outcome.as_ref().err().and_then(|error| error.damage()).map(|damage| damage.verdict);
            let is_expected = found == Some(verdict) || (fault == Fault::Lose && found == Some(Damaged::Ledger));
            assert!(is_expected, "{fault:?}: {outcome:?}");
            assert!(!world.sim.files(DIR).iter().any(|name| name.ends_with(".tbl")), "{fault:?}");
        } else {
            outcome.unwrap();
        }
        // Nothing is lost either way.
        assert_eq!(world.check(&model, At::Latest, &mangler.sealer), 0);
        world.db.flush().unwrap();
        assert_eq!(world.check(&model, At::Latest, &mangler.sealer), 0);
        assert_eq!(world.tables(&mangler.sealer).len(), 1);
    }
}

#[test]
fn damage_between_two_tables_is_found_and_the_inputs_stay() {
    for ((fault, verdict), strikes) in ON_THE_WAY.into_iter().flat_map(|row| [(row, 1), (row, 2)]) {
        let mangler = Mangler::new(fault);
        let world = World::open(&SimFs::new(1), mangler.clone());
        let mut model = Model::new();
        for round in 0..2u8 {
            for n in 0..20u8 {
                world.put(&[n], &[round; 5]);
                model.insert(vec![n], vec![round; 5]);
            }
            world.db.flush().unwrap();
        }
        mangler.strikes.store(strikes, Relaxed);
        world.db.compact(&world.family, &ALL).unwrap();
        assert_eq!(mangler.strikes.load(Relaxed), 0, "too few records were built");
        // What happened once on the way is done again and right. What happens again is reported, and the inputs are
        // left alone.
        let expected = if strikes == 1 { vec![] } else { vec![verdict] };
        assert_eq!(world.damage_heard(), expected, "{fault:?}");
        assert_eq!(world.check(&model, At::Latest, &mangler.sealer), 0);
        assert_eq!(world.tables(&mangler.sealer).len(), strikes);
    }
}

#[test]
fn damage_in_the_memtable_is_found_by_reads_and_healed_by_the_flush() {
    let mangler = Mangler::new(Fault::FlipInBind);
    let sim = SimFs::new(1);
    let world = World::open(&sim, mangler.clone());
    world.put(b"a", b"1");
    mangler.strikes.store(1, Relaxed);
    world.put(b"b", b"2");
    let mut verdict = None;
    world
        .db
        .get(&world.family, b"b", At::Latest, &mut |record| {
            verdict = Some(mangler.sealer.judge(record, hash(b"b"), true))
        })
        .unwrap();
    assert_eq!(verdict, Some(SealVerdict::SealDamaged)); // one bit of the seal: the record is what was written
    // The log has it right: the flush is made from there.
    world.db.flush().unwrap();
    let model = Model::from([(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
    assert_eq!(world.check(&model, At::Latest, &mangler.sealer), 0);
    world.db.sync().unwrap();
    sim.reboot(Crash::Process);
    let sealer = Arc::new(Sealer::new());
    let world = World::open(&sim, sealer.clone());
    assert_eq!(world.check(&model, At::Latest, &sealer), 0);
    world.db.flush().unwrap();
    assert_eq!(world.check(&model, At::Latest, &sealer), 0);
}
