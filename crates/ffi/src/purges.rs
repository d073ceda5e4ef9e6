//! Purges of events, and certificates of purged columns.

use std::fmt::Write;

use waxseal_table::{Certificate, PurgedEvents};

use crate::bytes::{give as give_bytes, waxseal_bytes_t};
use crate::error::calls;
use crate::json::put_text;
use crate::table::{on, waxseal_table_t};

calls! {
    /// Removes the values of a purged column from the store's log: of the last column of this name that was purged. Events
    /// that show the values of records lose the column and name it as purged, and events of entries in the column's indexes
    /// are removed. The log says so as `Registry.Rewrite` of the table's raw families. A certificate that is issued
    /// afterwards covers the log. `*report` is JSON: `changed` and `removed` are the numbers of events, `ended_at` is in
    /// microseconds since 1970.
    ///
    /// Thread-safe. On success the caller owns `*report` and frees it with `waxseal_bytes_destroy`. After an error or a
    /// crash, call it again. Errors: `WAXSEAL_INVALID` if no column of this name is purged, and in a store without a
    /// registry; `WAXSEAL_NO_SUCH_NAME` if none was dropped; `WAXSEAL_READ_ONLY`, `WAXSEAL_CORRUPTION`.
    fn waxseal_table_purge_events(table: *mut waxseal_table_t, bytes name, out report: *mut *mut waxseal_bytes_t) {
        let (name, report) = (name.text("name of the column")?, report.needed("report")?);
        let events = on(table, |table| Ok(table.purge_events(name)?))?;
        give_bytes(report, events_json(&events).as_bytes())
    }

    /// Erases what is left of a purged column outside of the table's files, and returns a certificate: of the last column
    /// of this name that was purged. `*certificate` is JSON: `table`, `column`, `column_id`, `through` (no record of a
    /// greater sequence number had a value), `purged_at` and `issued_at` (microseconds since 1970), `events` (the purge of
    /// events that the certificate covers, as `waxseal_table_purge_events` reports it, or null), and `not_covered`, a list
    /// of texts.
    ///
    /// Thread-safe. On success the caller owns `*certificate` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_BUSY` if a snapshot, a cursor, the change feed or a file that is kept may have values, which the message
    /// names; `WAXSEAL_INVALID` if no column of this name is purged; `WAXSEAL_NO_SUCH_NAME` if none was dropped;
    /// `WAXSEAL_READ_ONLY`.
    fn waxseal_table_certificate(table: *mut waxseal_table_t, bytes name, out certificate: *mut *mut waxseal_bytes_t) {
        let (name, certificate) = (name.text("name of the column")?, certificate.needed("certificate")?);
        let issued = on(table, |table| Ok(table.certificate(name)?))?;
        give_bytes(certificate, certificate_json(&issued).as_bytes())
    }
}

fn events_json(events: &PurgedEvents) -> String {
    let ended_at = events.ended_at().unwrap_or_default();
    format!("{{\"changed\":{},\"removed\":{},\"ended_at\":{ended_at}}}", events.changed(), events.removed())
}

fn certificate_json(certificate: &Certificate) -> String {
    let mut out = String::from("{\"table\":");
    put_text(&mut out, certificate.table());
    out.push_str(",\"column\":");
    put_text(&mut out, certificate.column());
    let numbers = [
        ("column_id", i64::from(certificate.column_id())),
        ("through", certificate.through().cast_signed()),
        ("purged_at", certificate.purged_at()),
        ("issued_at", certificate.issued_at()),
    ];
    for (name, number) in numbers {
        let _ = write!(out, ",\"{name}\":{number}");
    }
    out.push_str(",\"events\":");
    out.push_str(&certificate.events().map_or_else(|| "null".to_owned(), events_json));
    out.push_str(",\"not_covered\":[");
    for (index, place) in certificate.not_covered().into_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        put_text(&mut out, place);
    }
    out + "]}"
}
