//! Question: what does a column drop that can be undone and is logged cost beside a change of the schema alone? (The
//!           paper's Figure 9.)
//! Protocol: a table of ten columns. A column is dropped and restored, 500 times a round. Each drop is timed, once with
//!           nothing registered and once with every operation on the table registered. The base is a change of the
//!           column's name, which commits a schema of the same size, with neither a deadline nor an event. All sides
//!           run on a disk, where each change is synced, and in memory, where a sync costs nothing.
//! Passes:   on the disk, registered drops take at most 5 % longer, the paper's. In memory, they take at most 20 us
//!           longer.

use super::Run;
use crate::content::Laps;
use std::time::Instant;
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{LEAST, Rounds, alternate, shown};
use waxseal_table::{Alteration, ColumnType, Schema, Table, Tables};

/// Drops of a round at scale 1, as in the paper.
const DROPS: u64 = 500;

const TABLE: &str = "bench.rows";

/// The column that is dropped, and its name after the base's change.
const COLUMN: &str = "c9";
const RENAMED: &str = "d9";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    SchemaAlone,
    Drop,
    RegisteredDrop,
}

const SIDES: [Side; 3] = [Side::SchemaAlone, Side::Drop, Side::RegisteredDrop];
const BASE: usize = 0;
const REGISTERED: usize = 2;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let drops = run.size(DROPS, 50);
    let in_memory = measure(&run.within(0.3), drops, |_| Ok(Db::memory()?))?;
    print("in memory", &in_memory);
    let dirs = run.fresh("stores")?;
    let on_disk = measure(run, drops, |side| Ok(Db::open(dirs.join(format!("{side:?}")))?))?;
    print("on the disk, synced", &on_disk);
    println!("the paper: 5 % (Figure 9)");
    Ok(vec![
        run.at_most("memory", "more_time", "ns", in_memory.more(REGISTERED, BASE), 20_000.0),
        run.at_most("synced", "more_time", "%", on_disk.percent(REGISTERED, BASE, 0.0), 5.0),
    ])
}

/// Measures the sides in turn.
fn measure(run: &waxseal_bench::experiment::Run, drops: u64, open: impl Fn(Side) -> Outcome<Db>) -> Outcome<Rounds> {
    let tables = SIDES.into_iter().map(|side| table(&open(side)?, side)).collect::<Outcome<Vec<Table>>>()?;
    alternate(run, SIDES.len(), 4 * LEAST, |side| round(&tables[side], SIDES[side], drops))
}

fn table(db: &Db, side: Side) -> Outcome<Table> {
    let mut schema = Schema::new().partition_key("id", ColumnType::U64);
    for column in 1..10 {
        schema = schema.column(&format!("c{column}"), ColumnType::Text);
    }
    let table = Tables::open(db)?.create(TABLE, schema)?;
    if side == Side::RegisteredDrop {
        db.registry().register(TABLE, "*")?;
    }
    Ok(table)
}

/// Returns the nanoseconds of a change, without the slowest 1 %.
fn round(table: &Table, side: Side, drops: u64) -> Outcome<f64> {
    let mut laps = Laps::with_room(drops as usize);
    let rename = |from: &str, to: &str| table.alter(Alteration::new().rename_column(from, to));
    for _ in 0..drops {
        let start = Instant::now();
        match side {
            Side::SchemaAlone => rename(COLUMN, RENAMED)?,
            Side::Drop | Side::RegisteredDrop => table.drop_column(COLUMN)?,
        }
        laps.push(start.elapsed());
        match side {
            Side::SchemaAlone => rename(RENAMED, COLUMN)?,
            Side::Drop | Side::RegisteredDrop => table.undelete_column(COLUMN)?,
        }
    }
    Ok(laps.trimmed_mean())
}

fn print(place: &str, rounds: &Rounds) {
    println!("{place}: {} rounds", rounds.count());
    for (number, side) in SIDES.into_iter().enumerate() {
        let (more, percent) = (rounds.more(number, BASE), rounds.percent(number, BASE, 0.0));
        println!("    {side:?}: {:.2} us; {} ns, {} %", rounds.of(number) / 1e3, shown(more), shown(percent));
    }
}
