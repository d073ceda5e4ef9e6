//! The cost of many families: `families FAMILIES DIR`.
//!
//! Makes FAMILIES column families one by one, puts a record into each, flushes, closes, opens the store for writing and
//! read-only, and settles it. A line with the seconds of each. The directory must be empty: two sizes tell whether a
//! cost grows with the number of families alone.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use waxseal::{CfOptions, Db};
use waxseal_bench::Outcome;
use waxseal_bench::rounds::main_of;

fn main() -> ExitCode {
    main_of("families", measure)
}

fn measure(families: u64, dir: &Path) -> Outcome<String> {
    let mut took = Vec::new();
    let mut lap = Instant::now();
    let mut note = |what: &str| {
        took.push(format!("{what} {:.2} s", lap.elapsed().as_secs_f64()));
        lap = Instant::now();
    };
    let db = Db::builder(dir).open()?;
    note("open");
    let made = (0..families).map(|n| db.create_column_family(&format!("family {n}"), CfOptions::default()));
    let made: Vec<_> = made.collect::<Result<_, _>>()?;
    note("create");
    made.iter().try_for_each(|family| family.put(b"key", b"value"))?;
    note("put");
    db.flush()?;
    note("flush");
    drop(made);
    db.close()?;
    note("close");
    let db = Db::builder(dir).open_read_only()?;
    note("open read-only");
    db.close()?;
    note("close");
    let db = Db::builder(dir).open()?;
    note("open again");
    db.settle()?;
    note("settle");
    db.close()?;
    note("close");
    Ok(took.join(", "))
}
