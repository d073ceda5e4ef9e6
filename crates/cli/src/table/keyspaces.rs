//! keyspace: groups of tables with a replication map.

use serde_json::json;
use waxseal_table::Keyspace;

use super::{assignment, tables_of};
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{open_to_change, open_to_fill, open_to_read};
use crate::table_verbs::KeyspaceVerb;

pub(crate) fn run(args: &Args, verb: &KeyspaceVerb, output: &mut Output) -> Result<Exit, Failure> {
    match verb {
        KeyspaceVerb::List => return list(args, output),
        KeyspaceVerb::Create { name, replication } => {
            let keyspace = keyspace(name, replication)?;
            // A refused keyspace leaves no new store behind.
            tables_of(args, &waxseal::Db::memory()?)?.create_keyspace(keyspace.clone())?;
            let db = open_to_fill(args)?;
            tables_of(args, &db)?.create_keyspace(keyspace)?;
            db.close()?;
        }
        KeyspaceVerb::Alter { name, replication } => {
            let keyspace = keyspace(name, replication)?;
            let db = open_to_change(args)?;
            tables_of(args, &db)?.alter_keyspace(keyspace)?;
            db.close()?;
        }
        KeyspaceVerb::Rename { name, new } => {
            let db = open_to_change(args)?;
            tables_of(args, &db)?.rename_keyspace(name, new)?;
            db.close()?;
        }
        KeyspaceVerb::Drop { name } => {
            let db = open_to_change(args)?;
            tables_of(args, &db)?.drop_keyspace(name)?;
            db.close()?;
        }
    }
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

fn list(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    for keyspace in tables_of(args, &open_to_read(args)?)?.keyspaces()? {
        let entries = keyspace.replication_map().iter().map(|(name, value)| format!("\t{name}={value}"));
        output.line(format!("{}{}", keyspace.name(), entries.collect::<String>()))?;
        output.object(&json!({ "keyspace": keyspace.name(), "replication": keyspace.replication_map() }))?;
    }
    Ok(Exit::Ok)
}

/// Returns the keyspace with a replication map of `NAME=VALUE`.
fn keyspace(name: &str, replication: &[String]) -> Result<Keyspace, Failure> {
    replication.iter().try_fold(Keyspace::new(name), |keyspace, entry| {
        let (name, value) = assignment(entry, "NAME=VALUE")?;
        Ok(keyspace.replication(name, value))
    })
}
