//! The change feed: a follower that is applied from it has the digest of its source after any crash of either side.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Change, ChangeOperation, ChangeReach, Db, Parts};
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_lsm::version::ChangePosition;
use waxseal_meta::Sealer;
use waxseal_meta::integrity::digest;
use waxseal_testing::store::{ALL, options, settings};

use crate::sweep::LOSSES;

const CURSOR: &str = "follower";

/// The family of a follower that holds its position.
const POSITION: &str = "position";

/// Number of operations on the source.
const OPERATIONS: u64 = 40;

/// A store and its disk, which may crash.
struct Side {
    sim: SimFs,
    db: Option<Db>,
}

impl Side {
    fn new(seed: u64) -> Side {
        Side { sim: SimFs::new(seed), db: None }
    }

    /// Opens the store unless it is open. After a crash, the disk is rebooted with the loss first.
    fn open(&mut self, loss: Crash) -> Result<&Db> {
        if self.sim.is_crashed() {
            self.db = None;
            self.sim.reboot(loss);
        }
        if self.db.is_none() {
            let families = vec![("default".to_owned(), family_options())];
            let env = self.sim.env(self.sim.steps());
            let parts = Parts { env, families, companions: Arc::new(Sealer::new()), ..Parts::real() };
            let small =
                Settings { memtable_bytes: 4096, segment_bytes: 16 * 1024, ring_bytes: 16 * 1024, ..settings() };
            let settings = Settings { drain_bytes: 4096, ..small };
            self.db = Some(Db::open(Path::new("/store"), settings, parts)?);
        }
        Ok(self.db.as_ref().expect("just opened"))
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }
}

fn family_options() -> CfOptions {
    CfOptions { large_value_bytes: 64, merge_operator: Some(MergeOperator::append("")), ..options() }
}

/// A source, its follower, and how the follower reads.
struct Pair {
    source: Side,
    follower: Side,
    reach: ChangeReach,
    loss: Crash,
    /// Operations that the source has begun.
    begun: u64,
    /// The source crashes after the follower has followed this many operations.
    power_fails_at: Option<u64>,
    copies: u64,
}

impl Pair {
    fn new(reach: ChangeReach, loss: Crash) -> Pair {
        Pair { source: Side::new(1), follower: Side::new(2), reach, loss, begun: 0, power_fails_at: None, copies: 0 }
    }

    /// Works until all operations are done and followed, over crashes.
    fn run(&mut self) {
        for _ in 0..OPERATIONS * 4 {
            match self.step() {
                Ok(true) => return,
                Ok(false) => {}
                Err(_) if self.source.sim.is_crashed() || self.follower.sim.is_crashed() => {}
                Err(error) => panic!("without a crash: {error}"),
            }
            // A store into a mapping cannot report the crash.
        }
        panic!("no end after {} operations", self.begun);
    }

    /// Does one operation, and follows. Returns true at the end.
    fn step(&mut self) -> Result<bool> {
        self.source.open(self.loss)?;
        self.follower.open(self.loss)?;
        if self.begun < OPERATIONS {
            let n = self.begun;
            self.begun += 1;
            self.operate(n)?;
            if n % 3 != 2 {
                return Ok(false);
            }
        } else {
            self.source.db().sync()?;
        }
        self.follow()?;
        if self.source.sim.is_crashed() || self.follower.sim.is_crashed() {
            return Ok(false);
        }
        if self.power_fails_at == Some(self.begun) {
            self.power_fails_at = None;
            self.source.sim.crash_at(self.source.sim.steps());
            return Ok(false);
        }
        if self.begun == OPERATIONS {
            self.check()?;
        }
        Ok(self.begun == OPERATIONS)
    }

    /// Performs one operation on the source.
    fn operate(&self, n: u64) -> Result<()> {
        let db = self.source.db();
        if db.change_cursors().is_empty() {
            db.keep_log_for(CURSOR, None)?;
        }
        let family = db.family("default").expect("always there");
        let mut batch = Batch::new();
        let key = |at: u64| vec![b'k', (at * 7 % 32) as u8];
        for at in 0..4 {
            let value = vec![n as u8; if (n + at).is_multiple_of(3) { 300 } else { 20 }];
            batch.push(family.id(), Kind::Put, &key(n * 3 + at), &value, db.companions())?;
        }
        match n % 8 {
            1 => batch.push(family.id(), Kind::Delete, &key(n), b"", db.companions())?,
            3 => batch.push(family.id(), Kind::Merge, &key(n), &[n as u8], db.companions())?,
            5 => batch.delete_range(family.id(), (Some(&key(n)[..]), Some(b"k\xff")), db.companions())?,
            _ => {}
        }
        let durability = if n.is_multiple_of(5) { Durability::Sync } else { Durability::Os };
        db.commit(&mut batch, durability)?;
        match n % 10 {
            2 => db.flush()?,
            4 => {
                let rows = &mut |load: &mut waxseal_lsm::db::BulkLoad<'_>| {
                    (0..5).try_for_each(|at| load.push(Kind::Put, &[b'i', at], &[n as u8; 90], &[]))
                };
                db.bulk_load(&family, rows)?;
            }
            6 => {
                if db.family("other").is_none() {
                    db.create_family("other", family_options())?;
                }
                let other = db.family("other").expect("just made");
                let mut batch = Batch::new();
                batch.push(other.id(), Kind::Put, b"k", &[n as u8; 80], db.companions())?;
                db.commit(&mut batch, Durability::Os)?;
            }
            8 if db.family("other").is_some() => db.drop_family("other")?,
            9 => db.settle()?,
            _ => {}
        }
        Ok(())
    }

    /// Returns the follower's position; at first, that of the cursor.
    fn position(&self) -> Result<Option<ChangePosition>> {
        let mut found = None;
        if let Some(family) = self.follower.db().family(POSITION) {
            self.follower.db().get(&family, b"at", At::Latest, &mut |record| {
                found = Some(std::str::from_utf8(record.value).expect("a text").parse().expect("a position"));
            })?;
        }
        let cursors = self.source.db().change_cursors();
        Ok(found.or_else(|| cursors.first().map(|cursor| cursor.position)))
    }

    /// Applies what the feed returns, each commit whole and with the position behind it.
    fn follow(&mut self) -> Result<()> {
        let (source, follower) = (self.source.db(), self.follower.db());
        let Some(position) = self.position()? else { return Ok(()) };
        let mut changes = match source.changes_since(&position, self.reach) {
            Err(error) if *error.kind() == ErrorKind::OutOfReach => {
                assert!(self.reach == ChangeReach::Visible, "{error}");
                self.copies += 1;
                return self.copy();
            }
            opened => opened?,
        };
        let mut batch = Batch::new();
        while let Some(change) = changes.next()? {
            add(source, follower, &mut batch, &change)?;
            if change.ends_commit {
                put_position(follower, &mut batch, &changes.position())?;
                follower.commit(&mut batch, Durability::Sync)?;
                batch.clear();
            }
        }
        assert!(batch.is_empty(), "a commit came in part");
        if self.begun.is_multiple_of(2) && !self.follower.sim.is_crashed() {
            source.keep_log_for(CURSOR, Some(&changes.position()))?;
        }
        Ok(())
    }

    /// Copies the rows of the source: the follower has seen commits that the source has lost.
    fn copy(&self) -> Result<()> {
        let (source, follower) = (self.source.db(), self.follower.db());
        let position = source.change_position(ChangeReach::Visible)?;
        for family in follower.families() {
            if family.name() != POSITION {
                let mut batch = Batch::new();
                batch.delete_range(family.id(), (None, None), follower.companions())?;
                follower.commit(&mut batch, Durability::Os)?;
            }
        }
        let mut batch = Batch::new();
        for family in source.families() {
            let own = family_of(follower, family.name())?;
            let mut cursor = source.cursor(&family, At::Latest, ALL)?;
            cursor.first()?;
            while cursor.valid() {
                batch.push(own, Kind::Put, cursor.key(), cursor.value(), follower.companions())?;
                cursor.next()?;
            }
        }
        put_position(follower, &mut batch, &position)?;
        follower.commit(&mut batch, Durability::Sync).map(drop)
    }

    fn check(&self) -> Result<()> {
        let (source, follower) = (self.source.db(), self.follower.db());
        let of = |db: &Db, name: &str| {
            let bounds = (Bound::Unbounded, Bound::Unbounded);
            db.family(name).map(|family| digest(db, &family, &bounds, At::Latest)).transpose()
        };
        for name in ["default", "other"] {
            let (own, its) = (of(source, name)?, of(follower, name)?);
            assert_eq!(own.unwrap_or_default(), its.unwrap_or_default(), "the digest of {name}");
        }
        Ok(())
    }
}

fn put_position(follower: &Db, batch: &mut Batch, position: &ChangePosition) -> Result<()> {
    let family = family_of(follower, POSITION)?;
    batch.push(family, Kind::Put, b"at", position.to_string().as_bytes(), follower.companions())
}

/// Returns the id of a follower's family, which is created if it is missing.
fn family_of(follower: &Db, name: &str) -> Result<u32> {
    match follower.family(name) {
        Some(family) => Ok(family.id()),
        None => follower.create_family(name, family_options()).map(|family| family.id()),
    }
}

/// Adds a change to a batch of the follower. A drop takes effect at once: repeated after a crash, it finds no family.
fn add(source: &Db, follower: &Db, batch: &mut Batch, change: &Change) -> Result<()> {
    assert!(source.check_open().is_ok());
    let name = &change.family.name;
    if change.operation == ChangeOperation::DropFamily {
        return if follower.family(name).is_some() { follower.drop_family(name) } else { Ok(()) };
    }
    let id = family_of(follower, name)?;
    match &change.operation {
        ChangeOperation::Put { key, value } => batch.push_with(id, Kind::Put, key, value, &change.companion),
        ChangeOperation::Delete { key } => batch.push_with(id, Kind::Delete, key, b"", &change.companion),
        ChangeOperation::Merge { key, operand } => batch.push_with(id, Kind::Merge, key, operand, &change.companion),
        ChangeOperation::DeleteRange { start, end } => {
            batch.delete_range(id, (start.as_deref(), end.as_deref()), follower.companions())
        }
        ChangeOperation::DropFamily => Ok(()),
    }
}

/// Says where a failing sweep is.
struct Place(&'static str, u64, usize);

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("crash of the {} at step {}, loss {}", self.0, self.1, self.2);
        }
    }
}

/// Crashes one side at `points` of its steps, with each loss. Returns how often a follower had to be copied anew.
fn sweep(reach: ChangeReach, points: u64) -> u64 {
    let mut clean = Pair::new(reach, Crash::Process);
    clean.run();
    assert_eq!(clean.copies, 0);
    let mut copies = 0;
    for which in ["source", "follower"] {
        let side = if which == "source" { &clean.source } else { &clean.follower };
        let steps = side.sim.steps();
        for point in 0..points {
            for (number, loss) in LOSSES.iter().enumerate() {
                let step = (point * 3 + number as u64) * steps / (points * 3);
                let _place = Place(which, step, number);
                let mut pair = Pair::new(reach, loss(step));
                let side = if which == "source" { &pair.source } else { &pair.follower };
                side.sim.crash_at(step);
                pair.run();
                assert!(pair.copies == 0 || which == "source");
                copies += pair.copies;
            }
        }
    }
    copies
}

#[test]
fn a_follower_of_durable_changes_survives_every_crash_of_either_side() {
    sweep(ChangeReach::Durable, 24);
}

/// Such a follower may have seen commits that the source loses: it is told, and begins anew.
#[test]
fn a_follower_of_visible_changes_is_told_when_it_is_ahead() {
    sweep(ChangeReach::Visible, 8);
    let copies = (3..OPERATIONS).step_by(3).map(|begun| {
        let mut pair = Pair::new(ChangeReach::Visible, LOSSES[1](begun));
        pair.power_fails_at = Some(begun);
        pair.run();
        pair.copies
    });
    assert!(copies.sum::<u64>() > 0, "no follower was ahead");
}

/// Searches for a planted bug; returns true if a check failed.
#[cfg(feature = "planted")]
pub fn is_found() -> bool {
    let found = |check: fn()| std::panic::catch_unwind(check).is_err();
    found(a_follower_of_durable_changes_survives_every_crash_of_either_side)
        || found(a_follower_of_visible_changes_is_told_when_it_is_ahead)
}
