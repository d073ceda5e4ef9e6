//! verify, repair: the indexes of tables, compared with their rows and built again.

use serde_json::json;
use waxseal_table::Tables;

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{open_to_change, open_to_read};
use crate::text::{counted, escape};

/// Returns the name that was given, or those of all tables.
fn names(tables: &Tables, name: Option<&str>) -> Result<Vec<String>, Failure> {
    Ok(match name {
        Some(name) => vec![name.to_owned()],
        None => tables.names()?,
    })
}

pub(crate) fn verify(args: &Args, name: Option<&str>, output: &mut Output) -> Result<Exit, Failure> {
    let tables = Tables::open(&open_to_read(args)?)?;
    let mut exit = Exit::Ok;
    for name in names(&tables, name)? {
        let report = tables.table(&name)?.verify_indexes()?;
        let mut line = format!(
            "{}: {}, {}",
            escape(name.as_bytes()),
            counted(report.rows, "row", "rows"),
            counted(report.entries, "index entry", "index entries")
        );
        for (number, what) in [(report.missing, "missing"), (report.stale, "stale"), (report.damaged, "damaged")] {
            if number > 0 {
                line += &format!(", {number} {what}");
                exit = Exit::Corruption;
            }
        }
        output.line(line)?;
        output.object(&json!({
            "ok": report.is_clean(),
            "table": name,
            "rows": report.rows,
            "entries": report.entries,
            "missing": report.missing,
            "stale": report.stale,
            "damaged": report.damaged,
        }))?;
    }
    Ok(exit)
}

pub(crate) fn repair(args: &Args, name: Option<&str>, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    let tables = Tables::open(&db)?;
    for name in names(&tables, name)? {
        let built = tables.table(&name)?.repair_indexes()? as u64;
        output.line(format!("{}: built {}", escape(name.as_bytes()), counted(built, "index", "indexes")))?;
        output.object(&json!({ "ok": true, "table": name, "indexes": built }))?;
    }
    db.close()?;
    Ok(Exit::Ok)
}
