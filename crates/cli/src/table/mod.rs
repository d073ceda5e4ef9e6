//! `waxseal table`: typed rows in tables of a store.
//!
//! [`define`] creates, changes and drops tables, [`describe`] prints them, with the commands of [`recreate`], [`row`]
//! reads and changes single rows, [`select`] prints many, which [`grid`] aligns, [`import`] and [`export`] move rows in
//! and out, [`integrity`] checks and repairs indexes, [`keyspaces`] creates, changes and drops keyspaces, and
//! [`certificate`] proves that a column is gone.

#[cfg(feature = "arrow")]
mod batches;
mod certificate;
mod define;
mod describe;
mod empty_fields;
mod export;
pub(crate) mod grid;
mod import;
mod integrity;
mod keyspaces;
mod recreate;
mod row;
mod select;

use waxseal::Db;
use waxseal_table::{Schema, Table, Tables, Value};

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{open_to_change, open_to_read, session};
use crate::table_verbs::{RowRange, TableVerb};
use crate::text;

pub(crate) fn run(args: &Args, verb: &TableVerb, output: &mut Output) -> Result<Exit, Failure> {
    if args.hex {
        return Err(Failure::usage("columns have types: bytes are hexadecimal without --hex, and nothing else is"));
    }
    match verb {
        TableVerb::Create(create) => define::create(args, create, output),
        TableVerb::Drop { name } => define::drop(args, name, output),
        TableVerb::Alter { name, change } => define::alter(args, name, change, output),
        TableVerb::Insert { name, columns, replace, expiry } if columns.is_empty() => {
            import::from_standard_input(args, name, *replace, expiry, output)
        }
        TableVerb::Insert { name, columns, replace, expiry } => {
            row::insert(args, name, columns, *replace, expiry, output)
        }
        TableVerb::Update { name, key, set, remove, conditions } => {
            row::update(args, (name, key), (set, remove), conditions, output)
        }
        TableVerb::Get { name, key } => row::get(args, name, key, output),
        TableVerb::Select(select) => select::select(args, select, output),
        TableVerb::Delete { name, key, range } => row::delete(args, name, key, range, output),
        TableVerb::Truncate { name } => row::truncate(args, name, output),
        TableVerb::Import { name, file, format, replace, skip_bad, expiry } => {
            let import = import::Import { file, format: *format, replace: *replace, skip_bad: *skip_bad, expiry };
            import::import(args, name, &import, output)
        }
        TableVerb::Export { name, file, format, columns } => {
            export::export(args, name, file.as_deref(), *format, columns, output)
        }
        TableVerb::Describe { name } => describe::describe(args, name, output),
        TableVerb::List => describe::list(args, output),
        TableVerb::Certificate { name, column, purge_events } => {
            certificate::run(args, (name, column), *purge_events, output)
        }
        TableVerb::Keyspace(verb) => keyspaces::run(args, verb, output),
        TableVerb::Verify { name } => integrity::verify(args, name.as_deref(), output),
        TableVerb::Repair { name } => integrity::repair(args, name.as_deref(), output),
    }
}

#[cfg(not(feature = "arrow"))]
fn no_batches() -> Failure {
    Failure::usage("this build has no parquet and no arrow: cargo install --path crates/cli --features arrow")
}

/// Returns the tables of a store in the name of the session that the command line gives.
fn tables_of(args: &Args, db: &Db) -> Result<Tables, Failure> {
    Ok(Tables::open(db)?.in_session(&session(args, db)?)?)
}

/// A table of an open store.
struct OpenTable {
    db: Db,
    tables: Tables,
    table: Table,
    schema: Schema,
}

impl OpenTable {
    /// Opens a table for verbs that only read; works while another process writes.
    fn to_read(args: &Args, name: &str) -> Result<OpenTable, Failure> {
        OpenTable::of(args, open_to_read(args)?, name)
    }

    /// Opens a table for verbs that change it.
    fn to_change(args: &Args, name: &str) -> Result<OpenTable, Failure> {
        OpenTable::of(args, open_to_change(args)?, name)
    }

    fn of(args: &Args, db: Db, name: &str) -> Result<OpenTable, Failure> {
        let tables = tables_of(args, &db)?;
        let table = tables.table(name)?;
        Ok(OpenTable { schema: table.schema()?, db, tables, table })
    }

    /// Returns the values of the first columns of the key.
    fn key(&self, values: &[String]) -> Result<Vec<Value>, Failure> {
        let columns: Vec<&str> = self.schema.key_columns().map(|column| column.name()).collect();
        values_of(&self.schema, &columns, 0, values)
    }
}

/// The values of a range of rows: its prefix, from and to.
type RangeValues = (Vec<Value>, Vec<Value>, Vec<Value>);

/// Returns the values of a range over these columns of a key.
fn range_of(schema: &Schema, columns: &[&str], range: &RowRange) -> Result<RangeValues, Failure> {
    let prefix = values_of(schema, columns, 0, &range.prefix)?;
    let from = values_of(schema, columns, prefix.len(), &range.from)?;
    let to = values_of(schema, columns, prefix.len(), &range.to)?;
    Ok((prefix, from, to))
}

/// Parses values of columns of a key, the first of which is at a place in it.
fn values_of(schema: &Schema, columns: &[&str], first: usize, values: &[String]) -> Result<Vec<Value>, Failure> {
    let places = columns.iter().skip(first);
    if values.len() > places.len() {
        let wanted = text::counted(columns.len() as u64, "column", "columns");
        let (names, found) = (columns.join(", "), first + values.len());
        return Err(Failure::usage(format!("the key has {wanted} ({names}), and {found} values were given")));
    }
    values.iter().zip(places).map(|(value, column)| Ok(schema.parse_value(column, value)?)).collect()
}

/// Splits a text at its first `=`. `form` is the form that it must have, for the error.
fn assignment<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=').ok_or_else(|| Failure::usage(format!("{text:?} is no {form}")))
}
