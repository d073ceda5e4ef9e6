//! Retained versions, event log entries, and tables held by a caller. Each check uses a short-lived store.

use waxseal_lsm::db::{At, CursorBounds};
use waxseal_lsm::env::sim::{Crash, Loss};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::Kind;
use waxseal_testing::scribe::{check_lines, retains};

use crate::oracle::Change;
use crate::world::{CONFIGS, World};

/// The checks that must find the planted bugs.
#[cfg(feature = "planted")]
pub const ALL: [fn(); 3] = [versions, lines, tables];

const EVERYTHING: CursorBounds = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);

/// Returns the first key or value of its kind that is retained, or that is not.
fn pick(kind: Kind, retained: bool, from: u32) -> Vec<u8> {
    let words = (from..).map(|n| format!("{n:08}").into_bytes());
    words.into_iter().find(|word| retains(kind, word, word) == retained).expect("a word")
}

/// Writes keys with retained and unretained tombstones, and with retained and unretained values, and merges them to the
/// bottom.
pub fn versions() {
    for sealed in [0, 5] {
        let mut world = World::new(3, CONFIGS[sealed]);
        world.open().expect("a new store");
        let keys = [pick(Kind::Delete, true, 0), pick(Kind::Delete, false, 0)];
        let values = [pick(Kind::Put, true, 0), pick(Kind::Put, false, 0), pick(Kind::Put, false, 5_000)];
        let put = |key: usize, value: usize| Change::Put("default".into(), keys[key].clone(), values[value].clone());
        let delete = |key: usize| Change::Delete("default".into(), keys[key].clone());
        let steps = [
            put(0, 1),
            put(0, 2),
            put(0, 0),
            put(0, 1),
            put(1, 2),
            put(1, 0),
            delete(0),
            delete(1),
            put(1, 1),
            delete(1),
        ];
        let family = world.db().family("default").expect("family");
        for (n, step) in steps.into_iter().enumerate() {
            world.commit(vec![step], Durability::Os).expect("commit");
            if n % 3 == 0 {
                world.db().flush().expect("flush");
            }
        }
        world.check();
        for _ in 0..2 {
            world.db().settle().expect("settle");
            world.db().compact(&family, &EVERYTHING).expect("compact");
            world.check();
        }
        for key in &keys {
            assert!(!world.db().get(&family, key, At::Latest, &mut |_| {}).expect("get"), "{key:?} is back");
        }
        // One key with only a retained tombstone, and one with only an unretained tombstone.
        let mut world = World::new(3, CONFIGS[sealed]);
        world.open().expect("a new store");
        for key in 0..2 {
            world.commit(vec![delete(key)], Durability::Os).expect("delete");
        }
        let family = world.db().family("default").expect("family");
        world.db().compact(&family, &EVERYTHING).expect("compact");
        world.check();
        let tables = world.db().tables(&family).expect("tables");
        assert_eq!(
            tables.iter().map(|table| table.meta().ledger.deletes.count).sum::<u64>(),
            1,
            "tombstones that stay"
        );
    }
}

/// Holds tables while others are opened, so that their files are closed, and then merges them away.
pub fn tables() {
    let mut world = World::new(5, CONFIGS[1]);
    world.open().expect("a new store");
    for round in 0..8u8 {
        for n in 0..24u8 {
            world
                .commit(vec![Change::Put("default".into(), vec![n, round], vec![n; 100])], Durability::Os)
                .expect("put");
        }
        world.db().flush().expect("flush");
    }
    world.db().settle().expect("settle");
    world.check();
    let family = world.db().family("default").expect("family");
    let held = world.db().tables(&family).expect("tables");
    assert!(held.len() > world.settings().open_tables, "{} tables", held.len());
    world.check(); // reads all tables, and closes most of them
    world.db().compact(&family, &EVERYTHING).expect("compact");
    for table in &held {
        world.db().open_anew(table).unwrap_or_else(|error| panic!("{table:?} is held and gone: {error}"));
    }
    drop(held);
    world.db().compact(&family, &EVERYTHING).expect("compact");
    world.check();
}

/// Writes so much that entries become rows twice.
fn busy(world: &mut World) -> Result<()> {
    for round in 0..9u8 {
        for n in 0..3 {
            let change = Change::Put("default".into(), vec![n], vec![round; 20]);
            world.commit(vec![change], Durability::Os)?;
            world.db().note(format!("Noted 1 {round} {n}").into_bytes())?;
        }
        world.db().flush()?;
        world.oracle.sync();
    }
    Ok(())
}

/// Wherever the store is stopped, the entries add up, and a clean reopen keeps them.
pub fn lines() {
    let begin = || {
        let mut world = World::new(4, CONFIGS[0]);
        world.open().expect("a new store");
        world
    };
    let mut whole = begin();
    let start = whole.sim.steps();
    busy(&mut whole).expect("without a crash");
    let end = whole.sim.steps();
    let before = waxseal_testing::scribe::lines(whole.db()).expect("lines");
    assert!(whole.db().engine_log().len() < before.len() && before.len() > 35, "{before:?}");
    whole.db().close().expect("close");
    whole.db = None;
    whole.open().expect("reopening");
    assert_eq!(waxseal_testing::scribe::lines(whole.db()).expect("lines"), before);
    for step in (start..end).step_by(2) {
        let mut world = begin();
        world.plan = step;
        world.sim.crash_at(step);
        let _ = busy(&mut world);
        world.plan = u64::MAX;
        world.crash(if step % 4 == 0 { Crash::Process } else { Crash::Machine(Loss::DurableOnly) });
        check_lines(world.db(), &format!("stopped at step {step}")).expect("lines");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_retained_is_there() {
        super::versions();
    }

    #[test]
    fn tables_that_are_held_stay() {
        super::tables();
    }

    #[test]
    fn lines_add_up_wherever_a_store_is_stopped() {
        super::lines();
    }
}
