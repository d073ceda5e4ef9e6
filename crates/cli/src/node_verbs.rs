//! The verbs of `waxseal node`, as the command line has them.

use std::path::PathBuf;

use clap::Subcommand;

/// `-d` is the directory of the placement, a small store of its own. docs/moves.md has an example.
#[derive(Subcommand, Debug)]
pub(crate) enum NodeVerb {
    /// Add a node: the store in DIRECTORY. Missing stores are created, the placement too.
    ///
    /// The node gets all placed tables, empty. Tables that its store has already are placed: the node owns all their
    /// ranges. Tables with indexes are reported and not placed. Adding a node again places the tables that its store
    /// got later.
    Add {
        /// Letters, digits, dots, hyphens and underscores.
        id: String,
        directory: PathBuf,
        /// Divide each table with hashed partitions into this number of ranges. Others are one range.
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65536))]
        ranges: u32,
    },
    /// Print the nodes, the owner of each range, and the moves that are not done. Works while another process writes.
    Status,
    /// Move all ranges of a node to other nodes, and archive its event log. An interrupted decommission continues.
    Decommission {
        id: String,
        /// Move nothing, and check that nothing is missing: owners, digests, and every live record of the moved ranges.
        ///
        /// Exit code 6 if a check fails. Each problem of a range names it. Works without the directory of the node.
        #[arg(long)]
        verify: bool,
    },
}
