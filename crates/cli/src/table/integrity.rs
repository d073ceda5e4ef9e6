//! verify, repair: the indexes of tables, compared with their rows and built again.

use serde_json::json;
use waxseal_table::Tables;

use super::tables_of;
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{open_to_change, open_to_read};
use crate::text::{counted, escape};

/// Runs a step for the named table, or for all tables. Among all tables, the step reports a failed table and continues with
/// the next one; the exit code is that of the first failure. It also reports families whose tables are lost.
fn each(
    tables: &Tables,
    name: Option<&str>,
    output: &mut Output,
    mut step: impl FnMut(&str, &mut Output) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if let Some(name) = name {
        return step(name, output);
    }
    let mut first = Exit::Ok;
    for name in tables.names()? {
        let exit = match step(&name, output) {
            Err(failure) if !failure.is_broken_pipe() => {
                output.flush()?;
                eprintln!("waxseal: {failure}"); // it names the table
                let exit = failure.exit();
                output.failure(&failure.with("table", name))?;
                exit
            }
            done => done?,
        };
        first = if first == Exit::Ok { exit } else { first };
    }
    for family in tables.families_without_schema()? {
        let message = format!(
            "the family {family} has the rows of a table whose schema was lost, and keeps them: restore the store from a \
             backup, or export the family"
        );
        let failure = Failure::new(Exit::Corruption, message);
        output.flush()?;
        eprintln!("waxseal: {failure}");
        output.failure(&failure.with("family", family))?;
        first = if first == Exit::Ok { Exit::Corruption } else { first };
    }
    Ok(first)
}

pub(crate) fn verify(args: &Args, name: Option<&str>, output: &mut Output) -> Result<Exit, Failure> {
    let tables = tables_of(args, &open_to_read(args)?)?;
    each(&tables, name, output, |name, output| {
        let report = tables.table(name)?.verify_indexes()?;
        let mut line = format!(
            "{}: {}, {}",
            escape(name.as_bytes()),
            counted(report.rows, "row", "rows"),
            counted(report.entries, "index entry", "index entries")
        );
        for (number, what) in [(report.missing, "missing"), (report.stale, "stale"), (report.damaged, "damaged")] {
            if number > 0 {
                line += &format!(", {number} {what}");
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
        Ok(if report.is_clean() { Exit::Ok } else { Exit::Corruption })
    })
}

pub(crate) fn repair(args: &Args, name: Option<&str>, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    let tables = tables_of(args, &db)?;
    let exit = each(&tables, name, output, |name, output| {
        let built = tables.table(name)?.repair_indexes()? as u64;
        output.line(format!("{}: built {}", escape(name.as_bytes()), counted(built, "index", "indexes")))?;
        output.object(&json!({ "ok": true, "table": name, "indexes": built }))?;
        Ok(Exit::Ok)
    })?;
    db.close()?;
    Ok(exit)
}
