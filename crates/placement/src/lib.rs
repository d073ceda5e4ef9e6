//! Tables spread over several Waxseal stores: each range of keys has one owner, and reads and writes are routed to it.
//!
//! A [`Placement`] is a small store of its own that knows the *nodes*, which are stores in directories, and the owner of
//! each range. A [`RoutedTable`] reads and writes rows wherever they are. docs/moves.md is the guide.
//!
//! The crate uses the public interfaces of `waxseal` and `waxseal-table` alone. Modules import from lower lines only:
//!
//! ```text
//! placement        nodes, tables and owners; the log of the placement
//! routed_table     reads and writes of rows
//! routed_select    reads of many rows
//! routes           the ranges of a table and their present owners
//! node             the store of a node
//! ledger           the placement store
//! records          rows of nodes and ranges
//! key_span         ranges of encoded keys
//! error
//! ```

mod error;
mod key_span;
mod ledger;
mod node;
mod placement;
mod records;
mod routed_select;
mod routed_table;
mod routes;

pub use error::{Error, ErrorKind, Result};
pub use key_span::KeySpan;
pub use placement::{NodeStatus, Placement, RangeStatus, Splits, Status};
pub use records::NodeState;
pub use routed_select::{RoutedRows, RoutedSelect};
pub use routed_table::RoutedTable;

/// The page of the repository, included so that its examples are compiled and run as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/moves.md")]
    struct Page;
}
