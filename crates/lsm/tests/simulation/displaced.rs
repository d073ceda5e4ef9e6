//! What others do to the directory of an open store: it is moved, removed, or loses its lock file. The store goes on where it is, or halts
//! before it promises anything, and nothing that was synced is lost.

use std::path::PathBuf;

use waxseal_lsm::db::Db;
use waxseal_lsm::env::Fs;
use waxseal_lsm::env::sim::Crash;
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::Durability;

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
    halts(world);
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
    let change = Change::Put("default".into(), world.key(), world.value());
    let promise: (&str, fn(&Db) -> Result<()>) = match world.below(4) {
        0 => ("flush", Db::flush),
        1 => ("close", Db::close),
        2 => ("sync", Db::sync),
        _ => {
            let outcome = world.commit(vec![change], Durability::Sync);
            return expect_halted(world, "a synced commit", &outcome);
        }
    };
    let outcome = promise.1(world.db());
    expect_halted(world, promise.0, &outcome);
}

fn expect_halted(world: &World, what: &str, outcome: &Result<()>) {
    let is_halted = matches!(outcome, Err(error) if *error.kind() == ErrorKind::Halted);
    assert!(is_halted || world.sim.is_crashed(), "{what} of a store that lost its lock: {outcome:?}");
    world.tally.add("halted without its lock", 1);
}
