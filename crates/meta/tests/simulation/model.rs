//! The seeded model test: every operation of the engine in random order, with crashes, compared with the oracle.

use std::ops::Bound;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Snapshot};
use waxseal_lsm::env::sim::{Crash, Fault, Loss};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::Durability;
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::PendingWrite;

use waxseal_meta::integrity::{VerifyOptions, verify};
use waxseal_meta::{Seal, Sealer};

use crate::displaced::{lose_directory, lose_place, move_directory};
use crate::events::EVENTS;
use crate::hurt::hurt_and_mend;
use crate::oracle::{Change, Content};
use crate::world::{CONFIGS, Config, Tally, World, content_of, exchange, ingest_tables, is_honest, rows_of};

/// The kinds of operations and their weights; at least one in a hundred each.
const KINDS: [(&str, u64); 37] = [
    ("put", 28),
    ("put synced", 4),
    ("put buffered", 4),
    ("delete", 10),
    ("delete a stretch", 4),
    ("delete range", 6),
    ("batch", 10),
    ("get", 28),
    ("get missing", 6),
    ("multi_get", 4),
    ("get at snapshot", 8),
    ("scan", 6),
    ("scan backwards", 6),
    ("scan at snapshot", 4),
    ("cursor walk", 12),
    ("snapshot", 6),
    ("drop snapshot", 6),
    ("step", 28),
    ("flush", 4),
    ("compact", 4),
    ("settle", 4),
    ("sync", 4),
    ("create family", 3),
    ("drop family", 4),
    ("checkpoint", 3),
    ("read-only", 3),
    ("reopen", 4),
    ("fault", 4),
    ("seal of get", 4),
    ("wrong seal", 3),
    ("verify", 3),
    ("exchange", 3),
    ("ingest tables", 4),
    ("hurt and mend", 3),
    ("move directory", 3),
    ("lose place", 3),
    ("lose directory", 3),
];

/// One operation in this many ends in a crash.
const CRASH_EVERY: u64 = 320;

pub struct Run {
    pub world: World,
    snapshots: Vec<(Snapshot, Content)>,
    /// A fault may have hit a sync since the last open, and lost pages that were never synced.
    faulted: bool,
    /// Reports of damage that the test caused.
    caused: u64,
}

impl Run {
    pub fn new(seed: u64, config: Config) -> Run {
        let mut world = World::new(seed, config);
        world.open().expect("a new store");
        Run { world, snapshots: Vec::new(), faulted: false, caused: 0 }
    }

    pub fn operations(&mut self, count: u64) {
        for _ in 0..count {
            if self.world.one_in(CRASH_EVERY) {
                self.crash_soon();
            }
            let kind = self.operation();
            let faulted = self.faulted;
            if self.world.sim.is_crashed() {
                self.come_back();
            }
            self.hears_of_no_damage(kind, faulted);
            self.keeps_its_log_short(kind);
        }
        self.world.told.borrow_mut().forget();
        self.world.check();
    }

    /// Checks that no damage is reported, except where the test caused it. Reads would not reveal a ledger mismatch or
    /// a wrong seal, because the job is retried or its table quarantined.
    fn hears_of_no_damage(&mut self, kind: &str, faulted: bool) {
        let heard = self.world.tally.get("event: corruption");
        let hurt = matches!(kind, "hurt and mend" | "fault") || faulted || self.world.lost_ranges != Some(0);
        assert!(hurt || heard == self.caused, "{kind}: {} reports of damage that nobody caused", heard - self.caused);
        self.caused = heard;
    }

    /// Checks that after background work no memtable keeps much more of the log than its bound, whatever else is due.
    /// The factor 2 is needed because only the model's own steps run background work while commits are synced one by
    /// one.
    fn keeps_its_log_short(&self, kind: &str) {
        if kind == "step" && !self.faulted {
            let wal = self.world.db().metrics().wal;
            assert!(wal.needed_bytes <= 2 * wal.limit_bytes, "{wal:?}");
        }
    }

    fn operation(&mut self) -> &'static str {
        let total: u64 = KINDS.iter().map(|(_, weight)| weight).sum();
        let mut at = self.world.below(total);
        let kind = KINDS.iter().find(|(_, weight)| {
            let hit = at < *weight;
            at = at.wrapping_sub(*weight);
            hit
        });
        let kind = kind.expect("the weights cover the range").0;
        self.world.tally.add(kind, 1);
        if std::env::var_os("WAXSEAL_TRACE").is_some() {
            eprintln!("{kind} at step {}", self.world.sim.steps());
        }
        let outcome = self.perform(kind);
        if let Err(error) = outcome
            && !self.world.sim.is_crashed()
        {
            panic!("{kind}: {error}\n{:#?}", self.world.db().metrics().families);
        }
        kind
    }

    fn perform(&mut self, kind: &'static str) -> waxseal_lsm::error::Result<()> {
        let world = &mut self.world;
        match kind {
            "put" | "put synced" | "put buffered" => {
                let change = Change::Put(world.family_name(), world.key(), world.value());
                let durability = match kind {
                    "put synced" => Durability::Sync,
                    "put buffered" => Durability::Buffered,
                    _ => Durability::Os,
                };
                world.commit(vec![change], durability)
            }
            "delete" => {
                let change = Change::Delete(world.family_name(), world.key());
                world.commit(vec![change], Durability::Os)
            }
            "delete a stretch" => {
                // The next cursor relies on memtable leaves that an earlier cursor verified.
                let (family, from) = (world.family_name(), world.key());
                let rows = world.oracle.now()[&family].range(from..);
                let keys: Vec<_> = rows.take(40).map(|(key, _)| key.clone()).collect();
                for keys in keys.chunks(4) {
                    let changes = keys.iter().map(|key| Change::Delete(family.clone(), key.clone()));
                    world.commit(changes.collect(), Durability::Os)?;
                }
                self.scan(false)
            }
            "delete range" => {
                let change = world.range_delete();
                if let Change::DeleteRange(family, Some(from), Some(to)) = &change
                    && from != to
                    && world.one_in(4)
                {
                    // Refused without any change: a later check would detect one.
                    let id = world.db().family(family).expect("family").id();
                    let mut batch = Batch::new();
                    batch.push(id, Kind::Put, from, b"refused", world.db().companions())?;
                    batch.delete_range(id, (Some(to), Some(from)), world.db().companions())?;
                    let refused =
                        world.db().commit(&mut batch, Durability::Os).expect_err("a range that ends too early");
                    assert!(*refused.kind() == ErrorKind::Invalid || world.sim.is_crashed(), "{refused}");
                }
                let durability = if world.one_in(4) { Durability::Sync } else { Durability::Os };
                world.commit(vec![change], durability)
            }
            "batch" => {
                let changes = (0..1 + world.below(8)).map(|_| match world.below(17) {
                    16 => world.range_delete(),
                    0..4 => Change::Delete(world.family_name(), world.key()),
                    _ => Change::Put(world.family_name(), world.key(), world.value()),
                });
                let changes = changes.collect();
                if world.one_in(40) {
                    // A burst that background work cannot keep up with.
                    for _ in 0..12 {
                        let change = Change::Put(world.family_name(), world.key(), vec![b'b'; 1500]);
                        world.commit(vec![change], Durability::Os)?;
                    }
                }
                let durability = if world.one_in(8) { Durability::Sync } else { Durability::Os };
                world.commit(changes, durability)
            }
            "get" | "get missing" => {
                let (family, mut key) = (world.family_name(), world.key());
                if kind == "get missing" {
                    key.push(b'~');
                }
                let expected = world.oracle.now()[&family].get(&key).cloned();
                let found = get(world.db(), &family, &key, At::Latest)?;
                assert_eq!(found, expected, "get {family} {key:?}");
                Ok(())
            }
            "multi_get" => {
                let family = world.family_name();
                let keys: Vec<Vec<u8>> = (0..6).map(|_| world.key()).collect();
                let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let handle = world.db().family(&family).expect("family");
                let mut found = vec![None; keys.len()];
                world.db().multi_get(&handle, &borrowed, At::Latest, &mut |index, record| {
                    found[index] = Some(record.value.to_vec());
                })?;
                let expected: Vec<_> = keys.iter().map(|key| world.oracle.now()[&family].get(key).cloned()).collect();
                assert_eq!(found, expected, "multi_get {family}");
                Ok(())
            }
            "get at snapshot" => {
                let Some((snapshot, content)) = self.snapshots.last() else { return Ok(()) };
                let (family, key) = (world.family_name(), world.key());
                // A family that was dropped and created again is another family.
                let Some(rows) = content.get(&family) else { return Ok(()) };
                let found = get(world.db(), &family, &key, At::Snapshot(snapshot))?;
                assert_eq!(found, rows.get(&key).cloned(), "get at snapshot {family} {key:?}");
                Ok(())
            }
            "scan" | "scan backwards" => self.scan(kind == "scan backwards"),
            "scan at snapshot" => {
                let Some((snapshot, content)) = self.snapshots.first() else { return Ok(()) };
                for (name, rows) in content {
                    if let Some(family) = world.db().family(name) {
                        assert_eq!(rows_of(world.db(), &family, At::Snapshot(snapshot))?, *rows, "snapshot of {name}");
                    }
                }
                Ok(())
            }
            "cursor walk" => self.walk(),
            "snapshot" => {
                if self.snapshots.len() < 4 {
                    let snapshot = world.db().snapshot()?;
                    self.snapshots.push((snapshot, world.oracle.now().clone()));
                }
                Ok(())
            }
            "drop snapshot" => {
                if !self.snapshots.is_empty() {
                    let at = world.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.remove(at);
                }
                Ok(())
            }
            "step" => {
                for _ in 0..1 + world.below(3) {
                    world.db().step()?;
                }
                Ok(())
            }
            "flush" => {
                world.db().flush()?;
                world.oracle.sync();
                Ok(())
            }
            "compact" => {
                let family = world.db().family(&world.family_name()).expect("family");
                let (a, b) = (world.key(), world.key());
                let (low, high) = if family.order().compare(&a, &b).is_le() { (a, b) } else { (b, a) };
                world.db().compact(&family, &(Bound::Included(low), Bound::Included(high)))
            }
            "settle" => {
                world.db().settle()?;
                world.oracle.sync();
                Ok(())
            }
            "sync" => {
                world.db().sync()?;
                world.oracle.sync();
                Ok(())
            }
            "create family" => {
                let names = ["alpha", "beta", "back1", "back2"];
                let name = names[world.below(4) as usize];
                match world.oracle.now().contains_key(name) {
                    true => {
                        let options = world.options(name);
                        world.db().create_family(name, options).expect_err("exists");
                        Ok(())
                    }
                    false => world.create_family(name),
                }
            }
            "drop family" => {
                let name = world.family_name();
                if name == "default" {
                    world.db().drop_family(&name).expect_err("default");
                    return Ok(());
                }
                if !world.one_in(3) {
                    return Ok(());
                }
                for (_, content) in &mut self.snapshots {
                    content.remove(&name);
                }
                world.drop_family(&name)
            }
            "checkpoint" => self.checkpoint(),
            "read-only" => self.read_only(),
            "reopen" => {
                self.snapshots.clear();
                world.count_store();
                let family = world.db().family("default").expect("default");
                let all = (Bound::Unbounded, Bound::Unbounded);
                let (snapshot, mut cursor) = (world.db().snapshot()?, world.db().cursor(&family, At::Latest, all)?);
                let _ = cursor.first();
                world.db().close()?;
                assert_eq!(
                    world.sim.open_files(),
                    [] as [std::path::PathBuf; 0],
                    "a closed store holds no file, whoever has a cursor"
                );
                drop((snapshot, cursor));
                world.db = None;
                world.oracle.sync();
                world.open()?;
                let report = world.db().recovery();
                assert_eq!(report.cut_bytes, 0, "a clean close leaves no torn tail");
                world.check_recovered(true);
                Ok(())
            }
            "fault" => self.fault(),
            "move directory" => move_directory(world),
            "lose place" => {
                self.snapshots.clear();
                lose_place(world)
            }
            "lose directory" => {
                self.snapshots.clear();
                lose_directory(world)
            }
            "seal of get" => {
                let (name, key) = (world.family_name(), world.key());
                let family = world.db().family(&name).expect("family");
                let expected = world.oracle.now()[&name].get(&key).map(|value| world.seal(&key, value));
                let mut found = None;
                world.db().get(&family, &key, At::Latest, &mut |record| found = Some(Sealer::seal_of(record)))?;
                let found = found.map(|seal| seal.expect("companions"));
                let expected = expected.map(|seal| world.sealer.is_some().then_some(seal));
                assert_eq!(found, expected, "the seal of {key:?} in {name}");
                Ok(())
            }
            "wrong seal" => {
                // Rejected without any change: a later check would detect one.
                let sealer = world.sealer.clone().unwrap_or_default();
                let (key, value, mut batch) = (world.key(), world.value(), Batch::new());
                let wrong =
                    Seal::from_bytes((world.seal(&key, &value).number() ^ (1 << world.below(64))).to_le_bytes());
                let (key, value) = (&key[..], &value[..]);
                let pending = PendingWrite { family: 0, kind: Kind::Put, key, value, key_hash: None, entries: &[] };
                let refused = sealer.push_sealed(&mut batch, &pending, wrong).expect_err("a wrong seal");
                assert_eq!(*refused.kind(), ErrorKind::Invalid);
                assert!(batch.is_empty());
                Ok(())
            }
            "verify" => {
                let report = verify(world.db(), VerifyOptions::default())?;
                assert!(report.damage.is_empty() || world.sim.is_crashed(), "a false alarm: {report}");
                Ok(())
            }
            "exchange" => {
                let to = "beta";
                if world.oracle.now().contains_key(to) {
                    for (_, content) in &mut self.snapshots {
                        content.remove(to);
                    }
                    world.drop_family(to)?;
                }
                world.create_family(to)?;
                let from = if world.oracle.now().contains_key("alpha") { "alpha" } else { "default" };
                exchange(world, from, to)
            }
            "ingest tables" => ingest_tables(world),
            "hurt and mend" => {
                self.snapshots.clear(); // they hold the earlier content
                world.sim.crash_at(u64::MAX);
                hurt_and_mend(world)
            }
            _ => unreachable!("{kind}"),
        }
    }

    fn scan(&mut self, backwards: bool) -> waxseal_lsm::error::Result<()> {
        let world = &self.world;
        let name = world.family_name();
        let family = world.db().family(&name).expect("family");
        let bound = || match world.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(world.key()),
            _ => Bound::Excluded(world.key()),
        };
        let bounds = (bound(), bound());
        let order = family.order().clone();
        let inside = |key: &[u8]| {
            let low = match &bounds.0 {
                Bound::Unbounded => true,
                Bound::Included(bound) => order.compare(key, bound).is_ge(),
                Bound::Excluded(bound) => order.compare(key, bound).is_gt(),
            };
            let high = match &bounds.1 {
                Bound::Unbounded => true,
                Bound::Included(bound) => order.compare(key, bound).is_le(),
                Bound::Excluded(bound) => order.compare(key, bound).is_lt(),
            };
            low && high
        };
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = world.oracle.now()[&name]
            .iter()
            .filter(|(key, _)| inside(key))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        expected.sort_by(|a, b| order.compare(&a.0, &b.0));
        let mut found = Vec::new();
        let mut cursor = world.db().cursor(&family, At::Latest, bounds.clone())?;
        if backwards {
            expected.reverse();
            cursor.last()?;
        } else {
            cursor.first()?;
        }
        while cursor.valid() {
            found.push((cursor.key().to_vec(), cursor.value().to_vec()));
            if backwards { cursor.prev()? } else { cursor.next()? }
        }
        assert_eq!(found, expected, "scan of {name}, backwards {backwards}");
        Ok(())
    }

    /// Moves one cursor randomly, changing direction at any point.
    fn walk(&mut self) -> waxseal_lsm::error::Result<()> {
        let world = &self.world;
        let name = world.family_name();
        let family = world.db().family(&name).expect("family");
        let order = family.order().clone();
        let mut rows: Vec<(&Vec<u8>, &Vec<u8>)> = world.oracle.now()[&name].iter().collect();
        rows.sort_by(|a, b| order.compare(a.0, b.0));
        let mut cursor = world.db().cursor(&family, At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
        let stands_at = |cursor: &UserCursor, at: Option<usize>| {
            assert_eq!(cursor.valid(), at.is_some(), "validity in {name}");
            if let Some(at) = at {
                assert_eq!((cursor.key(), cursor.value()), (&rows[at].0[..], &rows[at].1[..]), "place in {name}");
            }
        };
        let mut at: Option<usize> = None;
        for _ in 0..8 {
            match world.below(8) {
                0 => {
                    cursor.first()?;
                    at = (!rows.is_empty()).then_some(0);
                }
                1 => {
                    cursor.last()?;
                    at = rows.len().checked_sub(1);
                }
                2 => {
                    let key = world.key();
                    cursor.seek(&key)?;
                    at = rows.iter().position(|row| order.compare(row.0, &key).is_ge());
                }
                3 => {
                    let key = world.key();
                    cursor.seek_for_prev(&key)?;
                    at = rows.iter().rposition(|row| order.compare(row.0, &key).is_le());
                }
                move_on => {
                    // One step or several, so that some steps stay within a block.
                    for _ in 0..if move_on < 6 { 1 } else { 6 } {
                        let Some(now) = at else { break };
                        if move_on % 2 == 0 {
                            cursor.next()?;
                            at = (now + 1 < rows.len()).then_some(now + 1);
                        } else {
                            cursor.prev()?;
                            at = now.checked_sub(1);
                        }
                        stands_at(&cursor, at);
                    }
                }
            }
            stands_at(&cursor, at);
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> waxseal_lsm::error::Result<()> {
        let world = &mut self.world;
        let dir = std::path::PathBuf::from("/copy");
        for name in world.sim.files(&dir) {
            world.sim.delete(dir.join(name)).expect("clearing an old checkpoint");
        }
        world.db().checkpoint(&dir)?;
        world.oracle.sync();
        let copy = Db::open(&dir, world.settings(), world.parts())?;
        assert_eq!(content_of(&copy)?, *world.oracle.now(), "the checkpoint");
        if world.config.watched {
            world.told.borrow().clone().check(&copy, "the checkpoint")?;
        }
        copy.close()
    }

    /// Opens a reader beside the writer; it takes no lock and sees the committed content.
    fn read_only(&mut self) -> waxseal_lsm::error::Result<()> {
        let world = &mut self.world;
        let parts = world.parts();
        let reader = Db::open_read_only(&world.dir, world.settings(), parts)?;
        assert_eq!(content_of(&reader)?, *world.oracle.now(), "read-only beside the writer");
        let snapshot = reader.snapshot()?;
        let before = world.oracle.now().clone();
        let change = Change::Put("default".into(), world.key(), world.value());
        world.commit(vec![change], Durability::Os)?;
        for _ in 0..world.below(4) {
            world.db().step()?;
        }
        // Few files may be open here, so for a table that the writer has replaced the reader asks for a refresh.
        if let Some(content) = unless_outdated(content_of(&reader))? {
            assert_eq!(content, before, "a reader sees later commits only after refresh");
        }
        reader.refresh()?;
        assert_eq!(content_of(&reader)?, *world.oracle.now(), "after refresh");
        for (name, rows) in before.iter().filter(|(name, _)| *name != EVENTS) {
            let family = reader.family(name).expect("family");
            if let Some(seen) = unless_outdated(rows_of(&reader, &family, At::Snapshot(&snapshot)))? {
                assert_eq!(seen, *rows, "a reader's snapshot of {name}");
            }
        }
        Ok(())
    }

    /// Makes one I/O fail; the result is correct or an error, and acknowledged data is not affected.
    fn fault(&mut self) -> waxseal_lsm::error::Result<()> {
        let world = &mut self.world;
        let fault = match world.below(4) {
            0 => Fault::Error(std::io::ErrorKind::Other),
            1 => Fault::Error(std::io::ErrorKind::StorageFull),
            2 => Fault::Short,
            _ => Fault::SyncFailed,
        };
        let at = world.sim.steps() + world.below(30);
        self.faulted = true;
        world.sim.fail_at(at, fault);
        let mut failed = None;
        for _ in 0..4 {
            let change = Change::Put(world.family_name(), world.key(), world.value());
            let durability = if world.one_in(2) { Durability::Sync } else { Durability::Os };
            if let Err(error) = world.commit(vec![change], durability) {
                failed = Some(error);
            }
            if world.sim.is_crashed() {
                return Ok(());
            }
            if let Err(error) = world.db().step() {
                failed = Some(error);
            }
            if world.one_in(4)
                && let Err(error) = world.db().flush()
            {
                failed = Some(error);
            }
        }
        world.sim.clear_faults();
        if world.sim.is_crashed() {
            return Ok(());
        }
        if let Some(error) = &failed {
            assert!(is_honest(error), "a failing disk gave {error:?}");
            world.tally.add("fault met", 1);
        }
        // Reads continue, even in a halted store; then the store is reopened.
        world.check();
        self.snapshots.clear();
        self.world.crash_after_failed_sync(); // the fault may have hit a sync
        self.faulted = false;
        Ok(())
    }

    fn crash_soon(&mut self) {
        let world = &self.world;
        world.sim.crash_at(world.sim.steps() + world.below(60));
        world.tally.add("crash asked for", 1);
    }

    fn come_back(&mut self) {
        self.snapshots.clear();
        let world = &mut self.world;
        let mut machine = false;
        loop {
            let crash = any_crash(world);
            machine |= !matches!(crash, Crash::Process);
            world.tally.add(if machine { "crash of the machine" } else { "crash of the process" }, 1);
            world.count_store();
            world.db = None;
            world.sim.reboot(crash);
            if world.one_in(4) {
                world.sim.crash_at(world.sim.steps() + world.below(80)); // interrupts the recovery itself
            }
            match world.open() {
                Ok(()) if !world.sim.is_crashed() => break,
                Ok(()) => {}
                Err(error) if self.faulted && error.is_corruption() && !world.sim.is_crashed() => {
                    world.sim.crash_at(u64::MAX);
                    world.open_with_loss();
                    machine = true;
                    break;
                }
                Err(error) => assert!(world.sim.is_crashed(), "an honest store is refused: {error}"),
            }
        }
        // No earlier scheduled crash is pending any more.
        world.sim.crash_at(u64::MAX);
        let missing = self.faulted && world.db().recovery().acknowledged_bytes_missing > 0;
        let given_up = world.give_up_lost_values();
        assert!(self.faulted || !given_up, "a crash alone damages no value of a whole commit");
        self.faulted = false;
        world.check_recovered(machine || missing || given_up);
    }
}

pub fn any_crash(world: &World) -> Crash {
    let seed = world.below(1 << 30);
    match world.below(13) {
        0..4 => Crash::Process,
        4 => Crash::Machine(Loss::DurableOnly),
        5 => Crash::Machine(Loss::KeepAll),
        6 => Crash::Machine(Loss::TornLastSector),
        7 => Crash::Machine(Loss::ZeroTail { seed }),
        8 => Crash::Machine(Loss::Names),
        9 => Crash::Machine(Loss::Data),
        10 => Crash::Machine(Loss::Reordered { seed }),
        11 => Crash::Machine(Loss::Ordered { seed }),
        _ => Crash::Machine(Loss::Random { seed }),
    }
}

fn get(db: &Db, family: &str, key: &[u8], at: At<'_>) -> waxseal_lsm::error::Result<Option<Vec<u8>>> {
    let family = db.family(family).expect("family");
    let mut found = None;
    let is_there = db.get(&family, key, at, &mut |record| found = Some(record.value.to_vec()))?;
    assert_eq!(is_there, found.is_some());
    Ok(found)
}

/// Number of operations over all configurations in CI; `WAXSEAL_MODEL_OPS` sets another number, `WAXSEAL_SEED` selects
/// one seed.
const OPERATIONS: u64 = 1_040_000;

#[test]
fn the_store_agrees_with_its_model_across_crashes() {
    let wanted: u64 = std::env::var("WAXSEAL_MODEL_OPS").ok().and_then(|n| n.parse().ok()).unwrap_or(OPERATIONS);
    let only: Option<u64> = std::env::var("WAXSEAL_SEED").ok().and_then(|n| n.parse().ok());
    let total = Tally::default();
    let per_run = 4_000;
    let runs: Vec<(u64, Config)> =
        (0..wanted.div_ceil(per_run)).map(|n| (n, CONFIGS[n as usize % CONFIGS.len()])).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((seed, config)) = runs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if only.is_some_and(|only| only != *seed) {
                        continue;
                    }
                    let say = Replay { seed: *seed };
                    let mut run = Run::new(*seed, *config);
                    run.operations(per_run);
                    total.merge(&run.world.tally);
                    std::mem::forget(say);
                }
            });
        }
    });
    total.print();
    if wanted < OPERATIONS || only.is_some() {
        return;
    }
    let operations: u64 = KINDS.iter().map(|(kind, _)| total.get(kind)).sum();
    assert!(operations >= 1_000_000, "{operations} operations");
    for (kind, _) in KINDS {
        assert!(total.get(kind) * 100 >= operations, "{kind}: {} of {operations}", total.get(kind));
    }
    let crashes = total.get("crash of the machine") + total.get("crash of the process");
    assert!(crashes >= 2_000, "{crashes} crashes");
    let often = [
        "event: recovered",
        "event: flushed",
        "event: moved",
        "event: compacted level 0",
        "event: compacted for size",
        "event: compacted for tombstones",
        "event: compacted a range",
        "event: compacted for range deletes",
        "event: stalled",
        "writer held back",
        "event: healed",
        "event: fenced",
        "event: fence lifted",
        "mended",
        "given up",
        "segment begun",
        "segment recycled",
        "manifest rotated",
    ];
    for what in often {
        assert!(total.get(what) >= 100, "{what}: {}", total.get(what));
    }
}

/// Prints how to rerun a failing seed.
struct Replay {
    seed: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        eprintln!("replay: WAXSEAL_SEED={} cargo test -p waxseal-meta --test simulation agrees", self.seed);
    }
}

/// Returns the result of a read, or `None` if it requests a refresh.
fn unless_outdated<T>(read: waxseal_lsm::error::Result<T>) -> waxseal_lsm::error::Result<Option<T>> {
    match read {
        Err(error) if error.needs_refresh() => Ok(None),
        read => read.map(Some),
    }
}
