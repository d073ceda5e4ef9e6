//! SQL over the tables of a store, by DataFusion.
//!
//! `Sql` runs queries, and `SqlRows` returns their results as Arrow record batches. docs/tables.md, "SQL", has the
//! limits.
//!
//! # Design
//!
//! **One snapshot.** A query reads all of its tables, and their schemas, at one snapshot of the store.
//!
//! **Pushdown.** Comparisons of a column of the key or of an index with a constant narrow the range that a scan reads,
//! or are evaluated in the scan. DataFusion leaves them to the scan, so the scan applies each of them, whichever range
//! it chooses. Projections and limits are pushed down, too.
//!
//! **Faults.** Damage ends the query with an error. Results of an incomplete scan would be wrong answers.
//!
//! **Any query.** A panic of DataFusion becomes the error of its query. DataFusion recurses over expressions and plans:
//! the number of words and operators of a query is bounded, and its steps run on a stack that suffices for them.
//!
//! **Right answers.** DataFusion's optimizer runs without a rule that gives wrong answers, and with a wrapper around
//! another. Subqueries that DataFusion answers wrongly are refused.
//!
//! **Memory.** Sorts, joins and aggregates take their memory from one bounded pool. They never spill to disk, because
//! bytes in a temporary file have no seal.
//!
//! Modules import from lower lines only, top first:
//!
//! ```text
//! query       runs queries
//! subqueries  refuses subqueries that DataFusion answers wrongly
//! optimizer   rules of the optimizer, without those that give wrong answers
//! guard       catches panics and bounds the depth of queries
//! catalog     keyspaces and tables as DataFusion looks them up
//! provider    a table at a snapshot
//! scan        the leaf of a plan that reads a table
//! access      the range of a scan, chosen by comparisons
//! comparison  comparisons of a column with a constant
//! cell        values of results
//! error
//! ```
//!
//! The crate is empty without its feature `datafusion`, so that a build of the workspace does not compile DataFusion.
#![cfg(feature = "datafusion")]

mod access;
mod catalog;
mod cell;
mod comparison;
mod error;
mod guard;
mod optimizer;
mod provider;
mod query;
mod scan;
mod subqueries;

pub use cell::display_cell;
pub use error::{Error, Result};
pub use query::{Sql, SqlRows};
