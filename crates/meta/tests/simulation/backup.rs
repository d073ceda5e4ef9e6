//! Backups: a crash at every step of a backup, a restore and a purge leaves whole backups, or none.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use waxseal_lsm::backup::{Backup, BackupOptions};
use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::sim::Crash;
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::Durability;

use crate::oracle::Change;
use crate::sweep::LOSSES;
use crate::world::{CONFIGS, World, rows_of};

const BACKUPS: &str = "/backups";
const RESTORED: &str = "/restored";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Searches for a planted bug; returns true if a check failed.
#[cfg(feature = "planted")]
pub fn is_found() -> bool {
    let found = |check: fn()| std::panic::catch_unwind(check).is_err();
    [crashes_during_a_backup, crashes_during_a_purge, crashes_during_a_restore, damage].into_iter().any(found)
}

/// A store whose backups 1 and 2 exist, or are about to.
struct Scene {
    world: World,
    /// The rows of each backup, by id.
    expected: BTreeMap<u64, Rows>,
}

impl Scene {
    fn new() -> Scene {
        let mut world = World::new(7, CONFIGS[10]);
        world.open().expect("a new store");
        Scene { world, expected: BTreeMap::new() }
    }

    /// Commits rows, large values among them, which the next backup with this id holds.
    fn fill(&mut self, id: u64) {
        for n in 0..12u8 {
            let value = vec![n ^ id as u8; if n % 3 == 0 { 300 } else { 10 }];
            let change = Change::Put("default".into(), vec![b'k', n + id as u8 * 4], value);
            self.world.commit(vec![change], Durability::Os).expect("a put");
        }
        self.expected.insert(id, rows(self.world.db()));
    }

    fn back_up(&self) -> Result<u64> {
        let created = Backup::create(self.world.db(), Path::new(BACKUPS), BackupOptions::default());
        created.map(|created| created.id)
    }

    fn backups(&self) -> Result<Backup> {
        Backup::open_in(Path::new(BACKUPS), &self.world.env())
    }

    /// Restores a backup, checks its rows, and removes the store.
    fn check(&self, id: u64) {
        let backup = self.backups().expect("backups");
        let verified = backup.verify(id).expect("a whole description");
        assert!(verified.damage.is_empty(), "backup {id}: {:?}", verified.damage);
        backup.restore(id, RESTORED).unwrap_or_else(|error| panic!("backup {id}: {error}"));
        self.check_restored(id);
        Db::destroy(Path::new(RESTORED), &self.world.env()).expect("a store");
    }

    fn check_restored(&self, id: u64) {
        let db = Db::open(Path::new(RESTORED), self.world.settings(), self.world.parts()).expect("a store");
        assert_eq!(rows(&db), self.expected[&id], "backup {id}");
        db.close().expect("a close");
    }

    /// Checks every listed backup, and returns the ids.
    fn check_all(&self) -> Vec<u64> {
        let listed = match self.backups() {
            Ok(backup) => backup.list().expect("a list"),
            Err(error) if *error.kind() == ErrorKind::Invalid => Vec::new(),
            Err(error) => panic!("{error}"),
        };
        let ids: Vec<u64> = listed.iter().map(|info| info.id).collect();
        ids.iter().for_each(|id| self.check(*id));
        ids
    }

    /// Checks that a new backup works, and that a purge leaves its files alone.
    fn go_on(&mut self) {
        let id = self.back_up().expect("a backup");
        self.expected.insert(id, rows(self.world.db()));
        let backup = self.backups().expect("backups");
        backup.purge(1).expect("a purge");
        assert_eq!(self.check_all(), [id]);
        let files = backup.list().expect("a list")[0].files;
        let names = self.world.sim.files(BACKUPS);
        assert_eq!(names.len(), files + 2, "the lock, the description and its files: {names:?}");
    }

    fn crash(&mut self, crash: Crash) {
        self.world.kill(crash);
        self.world.open().expect("a store");
    }
}

fn rows(db: &Db) -> Rows {
    rows_of(db, &db.family("default").expect("always there"), At::Latest).expect("reading")
}

/// Crashes `act` at every step and at its end, with each of the losses. `prepare` is not interrupted; `check` gets the
/// scene after the crash, and whether `act` had returned.
fn sweep(prepare: fn(&mut Scene), act: fn(&Scene) -> Result<()>, check: fn(&mut Scene, bool)) -> u64 {
    for step in 0.. {
        for (which, loss) in LOSSES.iter().enumerate() {
            let mut scene = Scene::new();
            prepare(&mut scene);
            scene.world.sim.crash_at(scene.world.sim.steps() + step);
            let outcome = act(&scene);
            let is_done = !scene.world.sim.is_crashed();
            if is_done {
                outcome.expect("no crash, no error");
            }
            let _place = Place { step, which };
            scene.crash(loss(step));
            check(&mut scene, is_done);
            if is_done && which + 1 == LOSSES.len() {
                return step;
            }
        }
    }
    unreachable!("a call has an end")
}

/// Prints the position of a failing sweep.
struct Place {
    step: u64,
    which: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("crash at step {}, loss {}", self.step, self.which);
        }
    }
}

#[test]
fn crashes_during_a_backup() {
    let prepare = |scene: &mut Scene| {
        scene.fill(1);
        scene.back_up().expect("a backup");
        scene.fill(2);
        scene.world.db().sync().expect("a sync");
    };
    let check = |scene: &mut Scene, is_done: bool| {
        let ids = scene.check_all();
        assert!(ids == [1, 2] || ids == [1] && !is_done, "{ids:?}");
        scene.go_on();
    };
    assert!(sweep(prepare, |scene| scene.back_up().map(drop), check) > 20);
}

#[test]
fn crashes_during_the_first_backup() {
    let prepare = |scene: &mut Scene| {
        scene.fill(1);
        scene.world.db().sync().expect("a sync");
    };
    let check = |scene: &mut Scene, is_done: bool| {
        let ids = scene.check_all();
        assert!(ids == [1] || ids.is_empty() && !is_done, "{ids:?}");
        scene.go_on();
    };
    assert!(sweep(prepare, |scene| scene.back_up().map(drop), check) > 20);
}

fn two_backups(scene: &mut Scene) {
    for id in [1, 2] {
        scene.fill(id);
        scene.back_up().expect("a backup");
    }
    scene.world.db().sync().expect("a sync");
}

#[test]
fn crashes_during_a_purge() {
    let check = |scene: &mut Scene, is_done: bool| {
        let ids = scene.check_all();
        assert!(ids == [2] || ids == [1, 2] && !is_done, "{ids:?}");
        scene.go_on();
    };
    // The first backup has files of its own, which the purge removes.
    let prepare = |scene: &mut Scene| {
        scene.fill(1);
        scene.back_up().expect("a backup");
        scene.fill(2);
        let db = scene.world.db();
        db.compact(&db.family("default").expect("the family"), &(Bound::Unbounded, Bound::Unbounded)).expect("a merge");
        scene.back_up().expect("a backup");
        scene.world.db().sync().expect("a sync");
    };
    assert!(sweep(prepare, |scene| scene.backups()?.purge(1).map(drop), check) > 5);
}

#[test]
fn crashes_during_a_restore() {
    let check = |scene: &mut Scene, is_done: bool| {
        if is_done {
            scene.check_restored(1);
        }
        let restored = Db::open(Path::new(RESTORED), scene.world.settings(), scene.world.parts());
        match restored {
            // Nothing was begun: the open made a new store.
            Ok(db) if rows(&db).is_empty() => {
                drop(db);
                Db::destroy(Path::new(RESTORED), &scene.world.env()).expect("a store");
                scene.check(1);
            }
            Ok(db) => {
                drop(db);
                scene.check_restored(1);
                Db::destroy(Path::new(RESTORED), &scene.world.env()).expect("a store");
            }
            Err(error) => {
                assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
                scene.check(1);
            }
        }
        scene.go_on();
    };
    assert!(sweep(two_backups, |scene| scene.backups()?.restore(1, RESTORED), check) > 20);
}

/// Damage in the store and in a backup, once each; `lsm` tests every place.
#[test]
fn damage() {
    let mut scene = Scene::new();
    two_backups(&mut scene);
    scene.fill(3);
    scene.world.db().flush().expect("a flush");
    let known: Vec<String> = scene.world.sim.files(BACKUPS);
    let newest = scene.world.sim.files(&scene.world.dir).into_iter().filter(|name| name.ends_with(".tbl")).max();
    let path = scene.world.dir.join(newest.expect("a table"));
    scene.world.sim.flip(&path, 1000).expect("a file");
    let error = scene.back_up().expect_err("a damaged table");
    assert!(error.is_corruption(), "{error}");
    scene.world.sim.flip(&path, 1000).expect("a file");
    for name in known.iter().filter(|name| name.ends_with(".tbl") || name.ends_with(".val")) {
        scene.world.sim.flip(Path::new(BACKUPS).join(name), 1001).expect("a file");
        let backup = scene.backups().expect("backups");
        let damaged = [1, 2].into_iter().filter(|id| !backup.verify(*id).expect("described").damage.is_empty());
        let damaged: Vec<u64> = damaged.collect();
        assert!(!damaged.is_empty(), "{name}");
        for id in damaged {
            let error = backup.restore(id, RESTORED).expect_err("a damaged file");
            assert!(error.is_corruption() && scene.world.sim.files(RESTORED).is_empty(), "{name}: {error}");
        }
        scene.world.sim.flip(Path::new(BACKUPS).join(name), 1001).expect("a file");
    }
}
