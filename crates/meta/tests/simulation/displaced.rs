//! External changes to the directory of an open store: it is moved, removed, or loses its lock file or its `CURRENT`.
//! The store continues where it is, or halts before it acknowledges durability, and no synced commit is lost.

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

/// The possible paths of the store.
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

/// Removes the lock file or `CURRENT` of the open store, or replaces it; later calls that promise durability fail.
pub fn lose_place(world: &mut World) -> Result<()> {
    let (name, other): (_, &[u8]) = match world.one_in(2) {
        true => ("LOCK", b"process 1"),
        false => ("CURRENT", b"MANIFEST-000001 of an older backup\n"),
    };
    let path = world.dir.join(name);
    let Ok(ours) = world.sim.read_all(&path) else { panic!("an open store has {name}") };
    let in_place = name == "CURRENT" && world.one_in(2);
    if !in_place {
        world.sim.delete(&path).expect("a file of an open store");
    }
    if in_place || world.one_in(2) {
        world.sim.write_all(&path, other).expect("another in its place");
    }
    halts(world, name);
    if name == "CURRENT" {
        world.sim.write_all(&path, &ours).expect("the store's own");
    }
    if !world.sim.is_crashed() {
        if world.db().check_open().is_ok() {
            world.check(); // reads continue
        }
        world.kill(Crash::Process);
        world.recover(false);
    }
    Ok(())
}

/// Removes the directory of the open store, which continues from a copy of it.
pub fn lose_directory(world: &mut World) -> Result<()> {
    let Ok(machine) = world.sim.machine(&world.dir) else { return Ok(()) }; // crashed
    let kept = world.sim.copy(machine);
    world.sim.delete_dir(&world.dir).expect("a directory of files");
    // Commits made now are lost with the directory, so the oracle does not record them.
    for _ in 0..world.below(4) {
        let _ = put(world.db());
        let _ = world.db().step();
    }
    let (what, promise) = promise(world);
    let outcome = promise(world.db());
    expect_halted(world, what, "its directory", &outcome);
    world.count_store();
    world.db = None;
    world.sim = kept;
    world.recover(true); // commits made meanwhile were lost with the directory
    Ok(())
}

/// Unsynced commits may still succeed; a sync, an edit and a close report that the store has halted.
fn halts(world: &mut World, lost: &str) {
    for _ in 0..world.below(4) {
        let change = Change::Put(world.family_name(), world.key(), world.value());
        if let Err(error) = world.commit(vec![change], Durability::Os) {
            assert!(is_honest(&error) || world.sim.is_crashed(), "a store that lost {lost} gave {error:?}");
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
    expect_halted(world, what, lost, &outcome);
}

/// A call that returns only after its writes are durable.
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

fn expect_halted(world: &World, what: &str, lost: &str, outcome: &Result<()>) {
    let is_halted = matches!(outcome, Err(error) if *error.kind() == ErrorKind::Halted);
    assert!(is_halted || world.sim.is_crashed(), "{what} of a store that lost {lost}: {outcome:?}");
    let counted = match lost {
        "LOCK" => "halted without its lock",
        "CURRENT" => "halted without its CURRENT",
        _ => "halted without its directory",
    };
    world.tally.add(counted, 1);
}
