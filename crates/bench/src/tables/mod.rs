//! Question: what do typed rows cost beside the engine's own records, how fast are scans into Arrow, and how do tables
//!           compare with SQLite?
//! Protocol: all sides of a part are measured in turn, forwards and backwards, by one thread in this process. Arguments
//!           (rows, keys, values) are made before the clock starts, a thousand at a time. Inserts go into new stores each
//!           round; reads are of settled stores that the cache holds. The engine writes and reads the very records of
//!           the table. SQLite has a write-ahead log, prepared statements, and a cache of the same size.
//! Passes:   a row takes at most 1.5 times as long as its record; a scan of five columns of fixed width returns 5
//!           million rows a second; a lookup by an index takes at most as long as the engine's gets of the entry and of
//!           the record; inserts, gets and ranges of an index are at least twice as fast as SQLite's.
//!
//! ```text
//! beside_engine    scan    beside_sqlite
//!           \        |       /
//!                rows                     schemas, rows, stores
//! ```

mod beside_engine;
mod beside_sqlite;
mod rows;
mod scan;

use clap::Args;

use crate::Outcome;
use crate::experiment::{self, Needs};

/// Arguments of `tables`.
#[derive(Args, Debug)]
pub struct Line {
    #[command(flatten)]
    ask: experiment::Ask,
}

/// Number of rounds of each part, if time permits.
const ROUNDS: usize = 7;

/// Runs the experiment.
pub fn tables(line: &Line) -> Outcome<u8> {
    let needs = Needs { id: "tables", scales: (0.2, 0.02), disk: (4_000 << 20, 256 << 20) };
    experiment::conduct(&line.ask, &needs, |run| {
        let mut gates = beside_engine::run(&run.within(0.25))?;
        gates.extend(scan::run(&run.within(0.25))?);
        gates.extend(beside_sqlite::run(&run)?);
        Ok(gates)
    })
}
