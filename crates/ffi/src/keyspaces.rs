//! Keyspaces: named groups of tables with a replication map.

use waxseal_table::Keyspace;

use crate::bytes::{give as give_bytes, waxseal_bytes_t};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::json::put_text;
use crate::session::waxseal_session_t;
use crate::table_catalogue::in_session;

/// Returns the keyspace with a replication map of lines `NAME=VALUE`.
fn keyspace(name: &str, replication: &str) -> Result<Keyspace> {
    replication.split_terminator('\n').try_fold(Keyspace::new(name), |keyspace, line| match line.split_once('=') {
        Some((name, value)) => Ok(keyspace.replication(name, value)),
        None => Err(Failure::invalid("a line of a replication map is NAME=VALUE")),
    })
}

/// Returns keyspaces as one object of JSON: their replication maps by their names.
fn keyspaces_json(keyspaces: &[Keyspace]) -> String {
    let mut out = String::from("{");
    for (index, keyspace) in keyspaces.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        put_text(&mut out, keyspace.name());
        out.push_str(":{");
        for (index, (name, value)) in keyspace.replication_map().iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            put_text(&mut out, name);
            out.push(':');
            put_text(&mut out, value);
        }
        out.push('}');
    }
    out + "}"
}

calls! {
    /// Creates a keyspace, a named group of tables, under the session's identity. `replication` is its replication map:
    /// lines `NAME=VALUE`, or length 0. The store keeps and logs the map and does not interpret it. A keyspace also
    /// exists, with an empty map, while it has a table. It is durable when the call returns.
    ///
    /// Thread-safe. Errors: `WAXSEAL_EXISTS`, also for a keyspace that has tables; `WAXSEAL_INVALID` for a malformed name or
    /// map, and for the name of a column family; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_keyspace_create(session: *const waxseal_session_t, bytes name, bytes replication) {
        let created = keyspace(name.text("name of the keyspace")?, replication.text("replication map")?)?;
        in_session(session, |tables| Ok(tables.create_keyspace(created)?))
    }

    /// Replaces the replication map of a keyspace, under the session's identity. It is durable when the call returns.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_INVALID` for a malformed map; `WAXSEAL_READ_ONLY`,
    /// `WAXSEAL_CLOSED`.
    fn waxseal_keyspace_alter(session: *const waxseal_session_t, bytes name, bytes replication) {
        let altered = keyspace(name.text("name of the keyspace")?, replication.text("replication map")?)?;
        in_session(session, |tables| Ok(tables.alter_keyspace(altered)?))
    }

    /// Renames a keyspace with all its tables, under the session's identity. Handles of the tables stay valid. The new name
    /// is durable when the call returns.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_EXISTS`; `WAXSEAL_INVALID` for a malformed name and for the
    /// name of a column family; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_keyspace_rename(session: *const waxseal_session_t, bytes name, bytes new_name) {
        let (name, new_name) = (name.text("name of the keyspace")?, new_name.text("new name of the keyspace")?);
        in_session(session, |tables| Ok(tables.rename_keyspace(name, new_name)?))
    }

    /// Drops a keyspace with all its tables and everything in them, under the session's identity. Handles of the tables
    /// fail afterwards. The drop is durable when the call returns.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_keyspace_drop(session: *const waxseal_session_t, bytes name) {
        let name = name.text("name of the keyspace")?;
        in_session(session, |tables| Ok(tables.drop_keyspace(name)?))
    }

    /// Returns all keyspaces as an object of JSON: the replication map of each by its name.
    ///
    /// Thread-safe. On success the caller owns `*keyspaces` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
    fn waxseal_keyspaces_json(session: *const waxseal_session_t, out keyspaces: *mut *mut waxseal_bytes_t) {
        let place = keyspaces.needed("keyspaces")?;
        let found = in_session(session, |tables| Ok(tables.keyspaces()?))?;
        give_bytes(place, keyspaces_json(&found).as_bytes())
    }
}
