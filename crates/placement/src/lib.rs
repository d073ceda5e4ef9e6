//! Tables spread over several Waxseal stores: each range of keys has one owner, and reads and writes are routed to it.
//!
//! A [`Placement`] is a small store of its own that knows the *nodes*, which are stores in directories, and the owner
//! of each range. A [`RoutedTable`] reads and writes rows wherever they are. docs/moves.md is the guide.
//!
//! The crate uses the public interfaces of `waxseal` and `waxseal-table` alone. Modules import from lower lines only:
//!
//! ```text
//! decommission     nodes that leave
//! placement        nodes, tables and owners; the log of the placement
//! verification     checks of the ranges that a node has left
//! mover            moves of a range, step by step
//! routed_table     reads and writes of rows
//! routed_select    reads of many rows
//! routes           the ranges of a table and their present owners
//! catch_up         changes of a range, applied to its copy
//! node             the store of a node
//! checkpoint       copies of stores, read at a given time
//! ledger           the placement store
//! move_row         rows of moves
//! records          rows of nodes and ranges
//! key_span         ranges of encoded keys
//! directories      names of the directories of stores
//! error
//! ```

mod catch_up;
mod checkpoint;
mod decommission;
mod directories;
mod error;
mod key_span;
mod ledger;
mod move_row;
mod mover;
mod node;
mod placement;
mod records;
mod routed_select;
mod routed_table;
mod routes;
mod verification;

pub use decommission::Decommissioned;
pub use error::{Error, ErrorKind, Result};
pub use key_span::KeySpan;
pub use move_row::MoveStep;
pub use placement::{MoveStatus, NodeStatus, Placement, RangeStatus, Splits, Status};
pub use records::NodeState;
pub use routed_select::{RoutedRows, RoutedSelect};
pub use routed_table::RoutedTable;
pub use verification::Verification;

/// The page of the repository, included so that its examples are compiled and run as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/moves.md")]
    struct Page;
}
