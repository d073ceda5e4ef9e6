//! Tables in a Waxseal store: typed rows under typed keys, each of them sealed, in the order of their keys.
//!
//! [`Tables`] are the tables of a store, and a [`Table`] reads and writes [`Row`](struct@Row)s. docs/tables.md shows the
//! crate in ten minutes, docs/format-tables.md has the bytes.
//!
//! # Design
//!
//! **Keys.** A row has a partition key and, behind it, clustering columns. Each part is encoded so that bytes sort like
//! values, ascending or descending, and so that no encoding is the beginning of another one. A key therefore sorts by
//! its columns, a prefix of the columns is a range of keys, and the records of a row are neighbors. A hash in front of
//! the partition key spreads partitions, if the schema asks for it.
//!
//! **Groups.** The columns of a group are packed into one record, as id, type tag and value. Group 0 has the row's own
//! key and marks the row: without it the row does not exist, whatever other records remain. A table of one group costs
//! one record a row. Other groups keep large or rarely read columns apart. A repeated group has named entries, one
//! record each. Each dynamic column has its own record as well.
//!
//! **Schemas.** The catalogue has each table's schema and all versions before it. A select reads the schema at the
//! snapshot of its rows, so that the two agree in every process. A write holds the table's schema lock shared from the
//! encoding to the commit. A schema change holds the lock alone for one commit. Records are not rewritten: ids that the
//! schema no longer has are skipped, and an older type is widened by its tag on read. A dropped column's id is never
//! used again, so that no new column finds old values.
//!
//! **Commits.** A write of a whole row is one batch, and needs no read in a table without indexes while nothing is
//! registered. A write that depends on what is stored is an
//! optimistic transaction of the engine, which any other commit to the same keys makes run again.
//!
//! **Faults.** Records are verified by the store below. Damage is an error of the rows that it hits, and a select goes
//! on behind it.
//!
//! The crate uses the public interface of `waxseal` alone. Its modules import from lower lines only, top first:
//!
//! ```text
//! keyspaces                  create, rename, drop and list keyspaces
//! tables                     create, open, list and drop
//! targets                    tables as targets of the registry
//! transaction                rows of several tables
//! arrow_rows                 rows as Arrow record batches
//! purge, event_purge, certificate  purge of dropped columns and of events; the proof that no value is left
//! select, indexes            reads of many rows; build and verify indexes
//! passes, new_columns        passes over all rows; names and ids of new columns
//! table                      writes and reads of single rows
//! rows                       the rows of a select
//! row_writer                 rows in a transaction of the store
//! index_reader               rows in the order of an index
//! row_reader, write          reads and writes of the records of rows
//! own_expiries               expiries that a transaction has written
//! state, events              what the handles of a table share; operations in the store's log
//! catalogue                  names and schemas of tables
//! row_functions              what flushes and compactions do with records
//! key_range                  ranges of rows and of entries as ranges of keys
//! layout                     rows as records
//! conditions                 conditions as text
//! filter, selection          conditions; columns that are read
//! schema_record, alteration, purged_column, purged_events, keyspace  schemas, purges and keyspaces as bytes; changes of
//!                            schemas
//! json_rows, typed_row       rows as JSON and as structs
//! schema, row, changes, key_values   what callers write
//! index                      definitions and entries of indexes
//! packed, key                values and keys as bytes
//! text, arrow_values         values as text, JSON and Arrow arrays
//! value, types, decimal      values and types
//! json, calendar, floats, codec, error
//! ```

mod alteration;
#[cfg(feature = "arrow")]
mod arrow_rows;
#[cfg(feature = "arrow")]
mod arrow_values;
mod calendar;
mod catalogue;
mod certificate;
mod changes;
mod codec;
mod conditions;
mod decimal;
mod error;
mod event_purge;
mod events;
mod filter;
mod floats;
mod index;
mod index_reader;
mod indexes;
mod json;
mod json_rows;
mod key;
mod key_range;
mod key_values;
mod keyspace;
mod keyspaces;
mod layout;
mod new_columns;
mod own_expiries;
mod packed;
mod passes;
mod purge;
mod purged_column;
mod purged_events;
mod row;
mod row_functions;
mod row_reader;
mod row_writer;
mod rows;
mod schema;
mod schema_record;
mod select;
mod selection;
mod state;
mod table;
mod tables;
mod targets;
mod text;
mod transaction;
mod typed_row;
mod types;
mod value;
#[cfg(test)]
mod values_for_tests;
mod write;

pub use alteration::Alteration;
#[cfg(feature = "arrow")]
pub use arrow_array::RecordBatch;
#[cfg(feature = "arrow")]
pub use arrow_rows::ArrowScan;
pub use certificate::Certificate;
pub use changes::Changes;
pub use decimal::{Decimal, MAX_DECIMAL_DIGITS};
pub use error::{Error, ErrorKind, Result};
pub use filter::Filter;
pub use index::{Index, IndexInfo, IndexState};
pub use indexes::IndexReport;
pub use key::SortOrder;
pub use key_values::{IntoKey, IntoKeyRange};
pub use keyspace::{Keyspace, MAX_REPLICATION};
pub use purge::PurgeReport;
pub use purged_column::PurgedColumn;
pub use purged_events::PurgedEvents;
pub use row::{GroupEntry, Row};
pub use rows::Rows;
pub use schema::{
    Column, ColumnRole, ColumnState, Group, MAX_COLUMNS, MAX_NAME_BYTES, Partitioning, Schema, TableName,
};
pub use select::{Page, PageToken, Select};
pub use table::Table;
pub use tables::Tables;
pub use transaction::Transaction;
#[doc(hidden)]
pub use typed_row::derive_support;
pub use typed_row::{ColumnValue, TypedRow};
pub use types::ColumnType;
pub use value::Value;
/// Implements [`TypedRow`] for a struct.
#[cfg(feature = "derive")]
pub use waxseal_table_derive::Row;
pub use write::RowOptions;

/// The page of the repository, included so that its examples are compiled and run as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/tables.md")]
    struct Page;
}
