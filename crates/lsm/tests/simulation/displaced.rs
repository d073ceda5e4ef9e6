//! What others do to the directory of an open store: it is moved, removed, or loses its lock file. The store goes on where it is, or halts
//! before it promises anything, and nothing that was synced is lost.

use std::path::PathBuf;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::Db;
use waxseal_lsm::env::Fs;
use waxseal_lsm::env::sim::Crash;
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::Kind;

use crate::oracle::Change;
use crate::world::{World, is_honest};

/// The paths at which the store may be.
pub const PATHS: [&str; 2] = ["/store", "/moved"];

/// Moves the directory of the open store.
pub fn move_directory(world: &mut World) -> Result<()> {
    let to = PathBuf::from(PATHS[usize::from(world.dir.ends_with("store"))]);
    if world.sim.rename(&world.dir, &to).is_err() {
        assert!(world.sim.is_crashed(), "a directory is moved");
        return Ok(());
    }
    world.dir = to;
    if world.one_in(2) && world.sim.sync_dir("/".as_ref()).is_err() {
        assert!(world.sim.is_crashed(), "the directory above is synced");
    }
    Ok(())
}

/// Takes the lock file away from the open store, or puts another in its place; what promises anything after that fails.
pub fn lose_lock(world: &mut World) -> Result<()> {
    let lock = world.dir.join("LOCK");
    world.sim.delete(&lock).expect("the lock file of an open store");
    if world.one_in(2) {
        world.sim.write_all(&lock, b"process 1").expect("another in its place");
    }
    halts(world);
    if !world.sim.is_crashed() {
        if world.db().check_open().is_ok() {
            world.check(); // reads go on
        }
        world.kill(Crash::Process);
        world.recover(false);
    }
    Ok(())
}

/// Removes the directory of the open store, which goes on from a copy of it.
pub fn lose_directory(world: &mut World) -> Result<()> {
    let Ok(machine) = world.sim.machine(&world.dir) else { return Ok(()) }; // crashed
    let kept = world.sim.copy(machine);
    world.sim.delete_dir(&world.dir).expect("a directory of files");
    // What is committed now goes with the directory, so the oracle does not hear of it.
    for _ in 0..world.below(4) {
        let _ = put(world.db());
        let _ = world.db().step();
    }
    let (what, promise) = promise(world);
    let outcome = promise(world.db());
    expect_halted(world, what, &outcome);
    world.count_store();
    world.db = None;
    world.sim = kept;
    world.recover(true); // what was committed meanwhile went with the directory
    Ok(())
}

/// Commits that are not synced may go on; a sync, an edit and a close say that the store has halted.
fn halts(world: &mut World) {
    for _ in 0..world.below(4) {
        let change = Change::Put(world.family_name(), world.key(), world.value());
        if let Err(error) = world.commit(vec![change], Durability::Os) {
            assert!(is_honest(&error) || world.sim.is_crashed(), "a store without a lock gave {error:?}");
        }
        let _ = world.db().step();
    }
    let (what, outcome) = match world.one_in(4) {
        true => {
            let change = Change::Put("default".into(), world.key(), world.value());
            ("a synced commit", world.commit(vec![change], Durability::Sync))
        }
        false => {
            let (what, promise) = promise(world);
            (what, promise(world.db()))
        }
    };
    expect_halted(world, what, &outcome);
}

/// A call that returns only when what was written is durable.
type Promise = fn(&Db) -> Result<()>;

fn promise(world: &World) -> (&'static str, Promise) {
    let promises: [(&str, Promise); 3] = [("flush", Db::flush), ("close", Db::close), ("sync", Db::sync)];
    promises[world.below(3) as usize]
}

fn put(db: &Db) -> Result<()> {
    let mut batch = Batch::new();
    batch.push(0, Kind::Put, b"~scratch", b"value", db.companions())?;
    db.commit(&mut batch, Durability::Os).map(drop)
}

fn expect_halted(world: &World, what: &str, outcome: &Result<()>) {
    let is_halted = matches!(outcome, Err(error) if *error.kind() == ErrorKind::Halted);
    assert!(is_halted || world.sim.is_crashed(), "{what} of a store that lost its lock: {outcome:?}");
    world.tally.add("halted without its lock", 1);
}
