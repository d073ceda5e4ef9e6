//! certificate: the proof that no value of a purged column is left.

use serde_json::json;
use waxseal::registry::Time;

use super::OpenTable;
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::times;

pub(crate) fn run(
    args: &Args,
    (name, column): (&str, &str),
    purge_events: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let open = OpenTable::to_change(args, name)?;
    if purge_events {
        open.table.purge_events(column)?;
    }
    let certificate = open.table.certificate(column)?;
    open.db.close()?;
    output.line(certificate.to_string())?;
    let events = certificate.events().map(|events| {
        json!({ "changed": events.changed(), "removed": events.removed(), "ended_at": events.ended_at().map(shown) })
    });
    output.object(&json!({
        "ok": true,
        "table": certificate.table(),
        "column": certificate.column(),
        "column_id": certificate.column_id(),
        "through": certificate.through(),
        "purged_at": shown(certificate.purged_at()),
        "issued_at": shown(certificate.issued_at()),
        "events": events,
        "not_covered": certificate.not_covered(),
    }))?;
    Ok(Exit::Ok)
}

/// Returns a time in microseconds since 1970 as text.
fn shown(micros: i64) -> String {
    times::text(Time::from_micros(u64::try_from(micros).unwrap_or_default()))
}
