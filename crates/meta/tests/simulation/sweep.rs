//! The crash sweep: every scenario is stopped at its I/O steps, one at a time, with three ways of losing unsynced data.
//!
//! After each crash the store must open, hold a prefix of the commits with all required ones, accept new commits, close
//! and reopen.

use std::ops::Bound;

use waxseal_lsm::db::Db;
use waxseal_lsm::env::Machine;
use waxseal_lsm::env::sim::{Crash, Fault, Loss};
use waxseal_lsm::error::{Result, Verdict};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::options::Durability;
use waxseal_testing::scribe::check_lines;

use crate::beside;
use crate::events::EVENTS;
use crate::oracle::Change;
use crate::world::{CONFIGS, Config, FENCED, Seals, World, content_of, exchange, ingest_tables};

type Scenario = fn(&mut World) -> Result<()>;

/// The scenarios; an error means that the crash occurred.
pub const SCENARIOS: [(&str, Scenario); 32] = [
    ("puts", puts),
    ("synced puts", synced_puts),
    ("batches over families", batches),
    ("ring full, drain behind", ring_full),
    ("frame above a quarter ring", |world| large_value(world, 5_000)),
    ("frame above the ring", |world| large_value(world, 18_000)),
    ("frame above a quarter segment", |world| large_value(world, 9_000)),
    ("frame above a segment", |world| large_value(world, 40_000)),
    ("segment turnover and recycling", turnover),
    ("flush", flush),
    ("flush with later commits", flush_and_go_on),
    ("compaction", compaction),
    ("settled, and written on", settled),
    ("deletes down to the bottom", deletes),
    ("snapshot kept over compaction", snapshot),
    ("ranges deleted", ranges_deleted),
    ("operands merged", operands_merged),
    ("families created and dropped", families),
    ("checkpoint", checkpoint),
    ("manifest rotation", rotation),
    ("clean close and reopen", reopen),
    ("clean close, then another boot", another_boot),
    ("recovery after a kill", recovery),
    ("drain failed", drain_failed),
    ("fsync failed", fsync_failed),
    ("read-only beside the writer", beside),
    ("records without seals adopted", adoption),
    ("fences and bars", lost_ranges),
    ("export and import", exchanged),
    ("table files ingested", ingested),
    ("large values flushed", values_flushed),
    ("value files collected", values_collected),
];

/// Ways to lose unsynced data.
pub const LOSSES: [fn(u64) -> Crash; 3] =
    [|_| Crash::Process, |_| Crash::Machine(Loss::DurableOnly), |seed| Crash::Machine(Loss::Random { seed })];

fn put(world: &mut World, durability: Durability) -> Result<()> {
    let change = Change::Put(world.family_name(), world.key(), world.value());
    world.commit(vec![change], durability)
}

/// Returns an error if the simulated crash has occurred, because a store into the mapping cannot report it.
fn alive(world: &World) -> Result<()> {
    if world.sim.is_crashed() { Err(waxseal_lsm::error::Error::closed()) } else { Ok(()) }
}

fn many_puts(world: &mut World, count: usize) -> Result<()> {
    (0..count).try_for_each(|_| put(world, Durability::Os))
}

fn puts(world: &mut World) -> Result<()> {
    many_puts(world, 20)
}

fn synced_puts(world: &mut World) -> Result<()> {
    for _ in 0..8 {
        put(world, Durability::Sync)?;
        put(world, Durability::Os)?;
    }
    Ok(())
}

fn batches(world: &mut World) -> Result<()> {
    world.create_family("alpha")?;
    world.create_family("back1")?;
    for _ in 0..10 {
        let changes = (0..5).map(|_| Change::Put(world.family_name(), world.key(), world.value())).collect();
        world.commit(changes, Durability::Os)?;
    }
    Ok(())
}

fn ring_full(world: &mut World) -> Result<()> {
    for _ in 0..30 {
        let change = Change::Put("default".into(), world.key(), vec![7; 1_500]);
        world.commit(vec![change], Durability::Os)?;
    }
    Ok(())
}

/// Puts values that are large enough for blob files, if the world's configuration enables these.
fn large_values(world: &mut World, numbers: std::ops::Range<u8>, round: u8) -> Result<()> {
    for n in numbers {
        let change = Change::Put("default".into(), vec![b'v', n], vec![n ^ round; 400 + usize::from(n) * 11]);
        world.commit(vec![change], Durability::Os)?;
    }
    Ok(())
}

fn ingested(world: &mut World) -> Result<()> {
    world.create_family("back1")?;
    many_puts(world, 10)?;
    let from = Some(b"user0".to_vec());
    world.commit(vec![Change::DeleteRange("default".into(), from, None)], Durability::Os)?;
    ingest_tables(world)?;
    many_puts(world, 6)?;
    ingest_tables(world)?;
    step_all(world)?;
    ingest_tables(world)?;
    put(world, Durability::Os)
}

fn values_flushed(world: &mut World) -> Result<()> {
    large_values(world, 0..6, 1)?;
    world.db().flush()?;
    large_values(world, 3..9, 2)?;
    world.db().flush()?;
    put(world, Durability::Sync)
}

fn values_collected(world: &mut World) -> Result<()> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    large_values(world, 0..8, 1)?;
    world.db().flush()?;
    let family = world.db().family("default").expect("default");
    world.db().compact(&family, &all)?;
    large_values(world, 0..6, 2)?;
    let seen = world.db().snapshot()?;
    large_values(world, 2..7, 3)?;
    world.db().compact(&family, &all)?;
    drop(seen);
    world.db().compact(&family, &all)?;
    step_all(world)?;
    put(world, Durability::Os)
}

fn large_value(world: &mut World, bytes: usize) -> Result<()> {
    many_puts(world, 3)?;
    for n in 0..3u8 {
        let change = Change::Put("default".into(), vec![n], vec![n; bytes]);
        world.commit(vec![change], if n == 1 { Durability::Sync } else { Durability::Os })?;
        put(world, Durability::Os)?;
    }
    Ok(())
}

fn step_all(world: &World) -> Result<()> {
    while world.db().step()? {}
    Ok(())
}

fn turnover(world: &mut World) -> Result<()> {
    for round in 0..40 {
        let change = Change::Put("default".into(), world.key(), vec![round; 2_500]);
        world.commit(vec![change], if round % 16 == 9 { Durability::Sync } else { Durability::Os })?;
        if round % 4 == 3 {
            step_all(world)?;
        }
    }
    Ok(())
}

fn flush(world: &mut World) -> Result<()> {
    many_puts(world, 10)?;
    world.db().flush()?;
    world.oracle.sync();
    Ok(())
}

fn flush_and_go_on(world: &mut World) -> Result<()> {
    for _ in 0..3 {
        many_puts(world, 6)?;
        world.db().flush()?;
        world.oracle.sync();
        many_puts(world, 6)?;
    }
    Ok(())
}

fn compaction(world: &mut World) -> Result<()> {
    for _ in 0..5 {
        many_puts(world, 12)?;
        world.db().flush()?;
        world.oracle.sync();
        step_all(world)?;
    }
    many_puts(world, 4)?;
    world.db().settle()?;
    world.oracle.sync();
    Ok(())
}

/// The log is trimmed each time, and by the close; later writes must create new segments.
fn settled(world: &mut World) -> Result<()> {
    for durability in [Durability::Os, Durability::Sync] {
        many_puts(world, 20)?;
        world.db().settle()?;
        world.oracle.sync();
        for _ in 0..8 {
            let change = Change::Put("default".into(), world.key(), vec![7; 2_500]);
            world.commit(vec![change], durability)?;
        }
        step_all(world)?;
    }
    put(world, Durability::Os)?;
    world.db().close()?;
    world.oracle.sync();
    alive(world)?;
    world.db = None;
    world.open()?;
    world.db().settle()?;
    world.oracle.sync();
    put(world, Durability::Os)
}

fn deletes(world: &mut World) -> Result<()> {
    many_puts(world, 25)?;
    world.db().settle()?;
    world.oracle.sync();
    for _ in 0..25 {
        let change = Change::Delete("default".into(), world.key());
        world.commit(vec![change], Durability::Os)?;
    }
    world.db().settle()?;
    world.oracle.sync();
    Ok(())
}

fn snapshot(world: &mut World) -> Result<()> {
    many_puts(world, 12)?;
    let before = world.oracle.now().clone();
    let snapshot = world.db().snapshot()?;
    many_puts(world, 12)?;
    world.db().settle()?;
    world.oracle.sync();
    for (name, rows) in before.into_iter().filter(|(name, _)| name != EVENTS) {
        let family = world.db().family(&name).expect("family");
        let found = crate::world::rows_of(world.db(), &family, waxseal_lsm::db::At::Snapshot(&snapshot))?;
        assert_eq!(found, rows, "the snapshot after compaction");
    }
    Ok(())
}

/// Operands of the log, of tables, and of a batch, above values, deletes and range deletes. A snapshot keeps some of
/// them from being folded.
fn operands_merged(world: &mut World) -> Result<()> {
    let family = || "tags".to_owned();
    let key = |n: u8| vec![b't', n];
    world.create_family(&family())?;
    for round in 0..3 {
        let merge = |n: u8| Change::Merge(family(), key(n), vec![b'0' + round, b'a' + n]);
        for n in 0..4 {
            if round == 0 && n % 2 == 0 {
                world.commit(vec![Change::Put(family(), key(n), b"base".to_vec())], Durability::Os)?;
            }
            world.commit(vec![merge(n)], if n == 2 { Durability::Sync } else { Durability::Os })?;
        }
        world.commit(vec![merge(4), Change::Delete(family(), key(5)), merge(5), merge(4)], Durability::Os)?;
        let (snapshot, before) = (world.db().snapshot()?, world.oracle.now()[&family()].clone());
        world.commit(vec![merge(0), merge(1)], Durability::Os)?;
        world.db().flush()?;
        world.oracle.sync();
        step_all(world)?;
        let tags = world.db().family(&family()).expect("family");
        let found = crate::world::rows_of(world.db(), &tags, waxseal_lsm::db::At::Snapshot(&snapshot))?;
        assert_eq!(found, before, "the snapshot after newer operands");
    }
    world.commit(vec![Change::DeleteRange(family(), Some(key(1)), Some(key(3)))], Durability::Os)?;
    world.commit(vec![Change::Merge(family(), key(1), b"last".to_vec())], Durability::Sync)?;
    world.db().settle()?;
    world.oracle.sync();
    Ok(())
}

/// Range deletes in the log, in the manifest and retired: beside a snapshot that sees what they delete, then without it.
fn ranges_deleted(world: &mut World) -> Result<()> {
    many_puts(world, 16)?;
    world.db().flush()?;
    world.oracle.sync();
    let before = world.oracle.now().clone();
    let snapshot = world.db().snapshot()?;
    for _ in 0..3 {
        let change = world.range_delete();
        world.commit(vec![change], Durability::Os)?;
        many_puts(world, 2)?;
    }
    let changes = vec![Change::DeleteRange("default".into(), None, Some(b"user030".to_vec()))];
    world.commit(changes, Durability::Sync)?;
    many_puts(world, 3)?;
    world.db().flush()?;
    world.oracle.sync();
    step_all(world)?;
    for (name, rows) in before.into_iter().filter(|(name, _)| name != EVENTS) {
        let family = world.db().family(&name).expect("family");
        let found = crate::world::rows_of(world.db(), &family, waxseal_lsm::db::At::Snapshot(&snapshot))?;
        assert_eq!(found, rows, "the snapshot after range deletes");
    }
    drop(snapshot);
    put(world, Durability::Os)?;
    world.db().settle()?;
    world.oracle.sync();
    alive(world)?;
    world.check();
    let change = world.range_delete();
    world.commit(vec![change], Durability::Os)?;
    put(world, Durability::Os)
}

fn families(world: &mut World) -> Result<()> {
    for name in ["alpha", "beta", "back1"] {
        world.create_family(name)?;
        many_puts(world, 5)?;
    }
    world.db().flush()?;
    world.oracle.sync();
    world.drop_family("alpha")?;
    many_puts(world, 5)?;
    world.drop_family("back1")?;
    world.create_family("alpha")?;
    many_puts(world, 5)
}

fn checkpoint(world: &mut World) -> Result<()> {
    many_puts(world, 12)?;
    world.db().checkpoint("/copy".as_ref())?;
    world.oracle.sync();
    let copy = Db::open("/copy".as_ref(), world.settings(), world.parts())?;
    assert_eq!(content_of(&copy)?, *world.oracle.now(), "the checkpoint");
    if world.config.watched {
        check_lines(&copy, "the checkpoint")?;
    }
    drop(copy);
    many_puts(world, 3)
}

fn rotation(world: &mut World) -> Result<()> {
    for n in 0..8 {
        world.create_family("alpha")?;
        many_puts(world, 4)?;
        if n % 2 == 0 {
            world.db().flush()?;
            world.oracle.sync();
        }
        world.drop_family("alpha")?;
    }
    Ok(())
}

fn reopen(world: &mut World) -> Result<()> {
    many_puts(world, 10)?;
    world.db().close()?;
    world.oracle.sync();
    world.db = None;
    world.open()?;
    alive(world)?;
    assert_eq!(world.db().recovery().cut_bytes, 0, "nothing is cut after a clean close");
    world.check();
    many_puts(world, 5)
}

fn another_boot(world: &mut World) -> Result<()> {
    many_puts(world, 10)?;
    world.db().close()?;
    world.oracle.sync();
    alive(world)?;
    world.kill(Crash::Machine(Loss::DurableOnly));
    world.open()?;
    alive(world)?;
    assert_eq!(world.db().recovery().cut_bytes, 0, "nothing is cut after a clean close");
    world.check();
    many_puts(world, 5)
}

fn recovery(world: &mut World) -> Result<()> {
    many_puts(world, 25)?;
    put(world, Durability::Sync)?;
    many_puts(world, 5)?;
    if world.sim.is_crashed() {
        return Ok(());
    }
    world.kill(Crash::Process);
    world.open()?;
    alive(world)?;
    world.check_recovered(false);
    many_puts(world, 3)
}

/// A write of the log fails: the call returns an error, and no acknowledged commit is lost later.
fn drain_failed(world: &mut World) -> Result<()> {
    many_puts(world, 6)?;
    let at = world.sim.steps();
    world.sim.fail_from(at + 3, Fault::Error(std::io::ErrorKind::Other));
    for _ in 0..12 {
        let _ = put(world, Durability::Os);
        let _ = world.db().step();
    }
    world.sim.clear_faults();
    if world.sim.is_crashed() {
        return put(world, Durability::Os);
    }
    world.check();
    Ok(())
}

/// An fsync fails: the next machine crash may lose commits that were unsynced before it, and no others.
fn fsync_failed(world: &mut World) -> Result<()> {
    put(world, Durability::Sync)?;
    many_puts(world, 4)?;
    world.sim.fail_at(world.sim.steps(), Fault::SyncFailed);
    let failed = put(world, Durability::Sync);
    if world.sim.is_crashed() {
        return failed;
    }
    assert!(failed.is_err(), "a commit was acknowledged although its fsync failed");
    for _ in 0..3 {
        let again = put(world, Durability::Sync);
        if world.sim.is_crashed() {
            return again;
        }
        assert!(again.is_err(), "a commit was acknowledged after a failed fsync (I09)");
    }
    world.check(); // reads continue
    // Killed, then the machine fails: only commits synced before are certain, and the content after the kill is still a
    // prefix.
    world.kill(Crash::Process);
    world.open()?;
    world.check_recovered(true);
    Ok(())
}

fn beside(world: &mut World) -> Result<()> {
    many_puts(world, 5)?;
    let parts = world.parts();
    let reader = Db::open_read_only(&world.dir, world.settings(), parts)?;
    for _ in 0..4 {
        for _ in 0..6 {
            let change = Change::Put("default".into(), world.key(), vec![9; 2_000]);
            world.commit(vec![change], Durability::Os)?;
        }
        step_all(world)?;
        reader.refresh()?;
        assert_eq!(content_of(&reader)?, *world.oracle.now(), "a reader after refresh");
    }
    Ok(())
}

/// A sealing node opens a plain store, and adopts the records that it merges.
fn adoption(world: &mut World) -> Result<()> {
    world.sealer = None;
    world.db().close()?;
    world.db = None;
    world.open()?;
    many_puts(world, 12)?;
    world.db().flush()?;
    world.oracle.sync();
    many_puts(world, 4)?; // which are replayed from the log
    world.db().close()?;
    world.oracle.sync();
    alive(world)?;
    world.oracle.sync();
    world.db = None;
    world.sealer = Some(beside::sealer(Seals::Following));
    world.open()?;
    many_puts(world, 12)?;
    let family = world.db().family("default").expect("family");
    world.db().compact(&family, &(Bound::Unbounded, Bound::Unbounded))?;
    world.db().settle()?;
    world.oracle.sync();
    world.check_digests()?;
    many_puts(world, 4)
}

/// Two lost ranges are added in one edit and removed in one, and tables are quarantined and freed; a reopen preserves
/// all of it.
fn lost_ranges(world: &mut World) -> Result<()> {
    many_puts(world, 12)?;
    world.db().flush()?;
    world.oracle.sync();
    let family = world.db().family("default").expect("family");
    let tables: Vec<u64> = world.db().tables(&family)?.iter().map(|table| table.meta().number).collect();
    let span = |from: &[u8], to: &[u8]| LostRange {
        from: (from.to_vec(), 1_000),
        to: (to.to_vec(), 0),
        bound: 1_000,
        file: "000001.tbl".into(),
        offset: 64,
        verdict: Verdict::Seal,
    };
    world.lost_ranges = None;
    world.db().add_lost_ranges(&family, vec![span(FENCED, b"~b"), span(b"~c", b"~d")])?;
    alive(world)?;
    world.lost_ranges = Some(2);
    many_puts(world, 6)?;
    world.db().quarantine_tables(&family, &tables)?;
    alive(world)?;
    assert_eq!(world.db().quarantined_tables(&family), tables);
    world.db().compact(&family, &(Bound::Unbounded, Bound::Unbounded))?;
    world.oracle.sync();
    world.db().free_tables(&family, &tables)?;
    let numbers: Vec<u64> = world.db().lost_ranges(&family).iter().map(|(number, _)| *number).collect();
    world.lost_ranges = None;
    world.db().lift_lost_ranges(&family, &numbers)?;
    alive(world)?;
    world.lost_ranges = Some(0);
    many_puts(world, 3)
}

fn exchanged(world: &mut World) -> Result<()> {
    many_puts(world, 12)?;
    world.create_family("beta")?;
    exchange(world, "default", "beta")?;
    many_puts(world, 6)?;
    exchange(world, "default", "beta")?;
    many_puts(world, 3)
}

pub struct Swept {
    pub points: u64,
}

/// Crashes one scenario at up to `most` of its steps, with each kind of loss.
pub fn sweep(name: &str, scenario: Scenario, config: Config, most: usize) -> Swept {
    let seed = waxseal_lsm::checksum::hash(name.as_bytes());
    let begin = || {
        let mut world = World::new(seed, config);
        world.open().expect("a new store");
        world
    };
    let mut whole = begin();
    let start = whole.sim.steps();
    scenario(&mut whole).unwrap_or_else(|error| panic!("{name}, {}: without a crash: {error}", config.name));
    whole.check();
    let end = whole.sim.steps();
    drop(whole);
    let stride = ((end - start) as usize).div_ceil(most).max(1);
    let mut swept = Swept { points: 0 };
    for (n, step) in (start..end).step_by(stride).enumerate() {
        for (which, loss) in LOSSES.iter().enumerate() {
            // If steps are skipped, each kind of loss uses different ones.
            let step = step + (which as u64 * stride as u64 / 3);
            let _say = Place { name, step, losing: which };
            let mut world = begin();
            world.plan = step;
            world.sim.crash_at(step);
            let _ = scenario(&mut world);
            world.plan = u64::MAX;
            let crash = loss(seed ^ n as u64);
            world.crash(crash);
            swept.points += 1;
            go_on(&mut world);
        }
    }
    swept
}

/// Prints the position of a failing sweep.
struct Place<'a> {
    name: &'a str,
    step: u64,
    losing: usize,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("scenario {:?}, crash at step {}, loss {}", self.name, self.step, self.losing);
        }
    }
}

/// Checks that a recovered store works like any other.
fn go_on(world: &mut World) {
    let mut try_all = || -> Result<()> {
        many_puts(world, 3)?;
        put(world, Durability::Sync)?;
        world.db().flush()?;
        world.oracle.sync();
        world.db().close()?;
        world.db = None;
        world.open()?;
        Ok(())
    };
    try_all().unwrap_or_else(|error| panic!("after recovery: {error}"));
    world.check();
}

/// Crash points per scenario and configuration in CI; `WAXSEAL_SWEEP` sets another number.
const POINTS_EACH: usize = 24;

#[test]
fn no_crash_loses_what_was_promised() {
    let most = std::env::var("WAXSEAL_SWEEP").ok().and_then(|n| n.parse().ok()).unwrap_or(POINTS_EACH);
    let work: Vec<(usize, Config)> =
        (0..SCENARIOS.len()).flat_map(|n| [0, 1, 4, 5, 8, 9, 10].map(|config| (n, CONFIGS[config]))).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let points = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((n, config)) = work.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let (name, scenario) = SCENARIOS[*n];
                    let swept = sweep(name, scenario, *config, most);
                    points.fetch_add(swept.points, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    let points = points.into_inner();
    println!(
        "{points} crash points in {} scenarios, {} losses, mapped and plain, sealed and not",
        SCENARIOS.len(),
        LOSSES.len()
    );
    assert!(points >= 3_000, "{points} crash points");
}

/// A copy of an open store opens on any machine; after a sync the copy is complete.
#[test]
fn a_store_copied_while_open_opens_anywhere() {
    let machines = [
        Machine { boot_id: Some([1; 16]), device: 1 },
        Machine { boot_id: Some([2; 16]), device: 1 },
        Machine { boot_id: None, device: 1 },
        Machine { boot_id: Some([1; 16]), device: 9 },
    ];
    for config in CONFIGS {
        for machine in machines {
            let mut world = World::new(77, config);
            world.sim.set_machine(machines[0]);
            world.open().expect("a new store");
            many_puts(&mut world, 30).expect("puts");
            world.db().sync().expect("sync");
            world.oracle.sync();
            let copy = world.sim.copy(machine);
            let db =
                Db::open(&world.dir, world.settings(), waxseal_lsm::db::Parts { env: copy.env(5), ..world.parts() });
            let db = db.unwrap_or_else(|error| panic!("{} on {machine:?}: {error}", config.name));
            assert_eq!(
                content_of(&db).expect("reading the copy"),
                *world.oracle.now(),
                "{} on {machine:?}",
                config.name
            );
        }
    }
}

/// The log is trimmed by a settle, and by a close.
fn trimmed(world: &mut World) -> Result<()> {
    many_puts(world, 4)?;
    world.db().settle()?;
    world.oracle.sync();
    many_puts(world, 2)?;
    world.db().flush()?;
    world.oracle.sync();
    world.db().close()?;
    alive(world)?;
    world.db = None;
    world.open()
}

#[test]
fn a_log_is_trimmed_without_a_moment_at_which_it_is_missing() {
    trims();
}

/// Uses every step, because few of them lie between the edit and the removal of its files.
pub fn trims() {
    sweep("trimmed", trimmed, CONFIGS[0], usize::MAX);
}

/// Cut bytes are reported by the report and the event, and saved to a file.
#[test]
fn a_torn_tail_is_cut_with_a_report() {
    torn_tails();
}

pub fn torn_tails() {
    let mut cuts = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, CONFIGS[1]);
        world.open().expect("a new store");
        put(&mut world, Durability::Sync).expect("put");
        many_puts(&mut world, 8).expect("puts");
        world.kill(Crash::Machine(Loss::Random { seed }));
        let reader = Db::open_read_only(&world.dir, world.settings(), world.parts()).expect("a reader");
        let read = content_of(&reader).expect("what a reader sees");
        drop(reader);
        world.open().expect("recovery");
        let report = world.db().recovery();
        let found = world.content().expect("content");
        assert_eq!(read, found, "who reads before the recovery sees what that will find");
        let lost = found != *world.oracle.now();
        if lost && report.cut_bytes > 0 {
            cuts += 1;
            let name = report.set_aside.clone().expect("a file with what was cut");
            assert!(world.sim.files(&world.dir).contains(&name), "{name} is kept");
            assert!(report.cut_at.is_some());
        }
        world.check_recovered(true);
    }
    assert!(cuts > 0, "no seed tore the tail");
}
