//! Nodes that leave: all their ranges are moved, and a later check proves that nothing is missing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::Checkpoint;
use crate::directories::beside;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::placement::{MoveStatus, Placement};
use crate::records::NodeState;
use crate::verification::{Verification, Verifier, log_moves, log_verification};

/// The result of a decommission.
#[derive(Clone, Debug)]
pub struct Decommissioned {
    /// The moves from the node, also those of earlier attempts.
    pub moves: Vec<MoveStatus>,
    /// A checkpoint of the node's store without the moved rows. It has the node's event log.
    pub archive: PathBuf,
    /// The time that logging the moves took.
    pub logged_in: Duration,
}

impl Placement {
    /// Moves all ranges of a node to the other live nodes, each to the node with the fewest ranges at that moment. Then
    /// the node has left, and its store is closed. Rows are read and written meanwhile. A decommission that was
    /// interrupted is continued.
    ///
    /// Each range logs `Node.Decommission` on the node: bounds, new owner, number of records and sum of their seals.
    /// When the ranges are gone, a checkpoint of the node's store is kept in `PLACEMENT.archive/ID`, beside the
    /// placement. It has the event log of the node. The directory of the node is not needed afterwards. All of it is
    /// durable when the call returns.
    ///
    /// Errors: `NotFound`; `Invalid` if the node has left, if no other live node has an open store, and if a move from
    /// or to the node was begun before and is not done; those of the open of the node's store. None of these changes
    /// anything. Also those of [`move_range`](Placement::move_range), which leave the node in the state `leaving`.
    pub fn decommission(&self, id: &str) -> Result<Decommissioned> {
        let _changing = self.begin_change()?;
        let ledger = &self.shared.ledger;
        let node = self.node(id)?;
        node.tables()?;
        self.heir(id)?;
        if node.state == NodeState::Live {
            self.check_at_rest(id)?;
            self.set_state(&node, NodeState::Leaving)?;
        }
        for row in self.unfinished()?.into_iter().filter(|row| row.source == id) {
            self.run_move(row)?;
        }
        for range in ledger.ranges()?.into_iter().filter(|range| range.owner == id) {
            self.run_move(ledger.plan_move(&range, &self.heir(id)?.id)?)?;
        }
        let start = self.shared.env.clock.monotonic_nanos();
        log_moves(ledger, id)?;
        let logged_in = Duration::from_nanos(self.shared.env.clock.monotonic_nanos() - start);
        let archive = self.archive(&node)?.directory;
        self.set_state(&node, NodeState::Left)?;
        let moves = self.moves()?.into_iter().filter(|moved| moved.source == id).collect();
        Ok(Decommissioned { moves, archive, logged_in })
    }

    /// Checks that nothing is missing of the ranges that a node has left to others, also when its directory is gone:
    ///
    /// - The node has left, and its archive opens.
    /// - Each range of each table has one owner, which has not left and whose store is open.
    /// - The log has each range that the node has left to another, with the digest that was compared.
    /// - The checkpoint of the new owner has the records of that digest.
    /// - Every live record of these ranges is readable on its present owner and matches its seal.
    ///
    /// Each problem of a range names it. Logs `Node.Verify` on the node. Costs a read of the checkpoints and of the
    /// ranges. Errors: `NotFound`; those of the placement store.
    pub fn verify_decommission(&self, id: &str) -> Result<Verification> {
        let _changing = self.begin_change()?;
        let (ledger, env) = (&self.shared.ledger, &self.shared.env);
        let (node, nodes, archive) = (self.node(id)?, self.nodes().clone(), self.archive_of(id));
        let found = Verifier { ledger, env, node: &node, nodes: &nodes, archive }.run()?;
        log_verification(ledger, id, &found)?;
        Ok(found)
    }

    fn set_state(&self, node: &Node, state: NodeState) -> Result<()> {
        let next = node.in_state(state);
        self.shared.ledger.save_node(next.row())?;
        self.replace_node(next);
        Ok(())
    }

    /// Returns the node that gets the next range of a leaving one: of the live nodes with open stores, the one with the
    /// fewest ranges.
    fn heir(&self, leaver: &str) -> Result<Arc<Node>> {
        let ranges = self.shared.ledger.ranges()?;
        let load = |node: &Arc<Node>| ranges.iter().filter(|range| range.owner == node.id).count();
        let others = self.live_nodes().into_iter().filter(|node| node.id != leaver && node.tables().is_ok());
        let none = || format!("no other live node has an open store: the ranges of node {leaver} stay");
        others.min_by_key(load).ok_or_else(|| Error::invalid(none()))
    }

    /// Checks that no move from or to a live node is under way.
    fn check_at_rest(&self, id: &str) -> Result<()> {
        match self.unfinished()?.into_iter().find(|row| row.concerns(id)) {
            None => Ok(()),
            Some(row) => Err(Error::invalid(format!(
                "node {id}: the move of range {} from node {} to node {} is not done: resume it first",
                row.span()?,
                row.source,
                row.destination
            ))),
        }
    }

    /// Keeps a checkpoint of a node without ranges. Its tables are compacted first: the moved rows are not kept.
    fn archive(&self, node: &Node) -> Result<Checkpoint> {
        let (tables, placed) = (node.tables()?, self.placed_tables()?);
        // Tables that were placed while the node was leaving are not on it.
        for name in tables.names()?.into_iter().filter(|name| placed.contains(name)) {
            tables.table(&name)?.rows_family().compact()?;
        }
        Checkpoint::take(tables.db(), self.archive_of(&node.id).directory, &self.shared.env)
    }

    fn archive_of(&self, id: &str) -> Checkpoint {
        Checkpoint { directory: beside(&self.shared.directory, ".archive").join(id) }
    }
}
