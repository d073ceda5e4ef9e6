//! The rows of nodes and of ranges in the placement store.

use waxseal_table::Row;

use crate::error::{Error, Result};
use crate::key_span::{KeySpan, hex, unhex};

/// State of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum NodeState {
    /// The node may own ranges.
    Live,
    /// The ranges of the node are being moved to other nodes.
    Leaving,
    /// The node has left. Its store is not opened.
    Left,
}

impl NodeState {
    const ALL: [NodeState; 3] = [NodeState::Live, NodeState::Leaving, NodeState::Left];

    /// Returns the state's word: `live`, `leaving` or `left`.
    pub fn word(self) -> &'static str {
        match self {
            NodeState::Live => "live",
            NodeState::Leaving => "leaving",
            NodeState::Left => "left",
        }
    }

    fn parse(word: &str) -> Result<NodeState> {
        let found = NodeState::ALL.into_iter().find(|state| state.word() == word);
        found.ok_or_else(|| Error::invalid(format!("this version does not know the state {word:?} of a node")))
    }
}

/// A node.
#[derive(Row, Clone, Debug)]
pub(crate) struct NodeRow {
    #[column(partition_key)]
    pub(crate) id: String,
    pub(crate) directory: String,
    state: String,
}

impl NodeRow {
    pub(crate) fn new(id: &str, directory: &str, state: NodeState) -> NodeRow {
        NodeRow { id: id.to_owned(), directory: directory.to_owned(), state: state.word().to_owned() }
    }

    pub(crate) fn state(&self) -> Result<NodeState> {
        NodeState::parse(&self.state).map_err(|error| error.about(format!("node {}", self.id)))
    }
}

/// A range of a table. Its bounds are hexadecimal digits, which sort like the keys.
#[derive(Row, Clone, Debug)]
pub(crate) struct RangeRow {
    #[column(partition_key, name = "table")]
    pub(crate) table: String,
    /// [`FIRST`] for the beginning of the table: no target of the log has an empty key.
    #[column(clustering_key)]
    start: String,
    /// The next range's start: a gap is a range that was lost.
    end: Option<String>,
    pub(crate) owner: String,
}

/// The start of the first range of a table. It sorts before all digits.
const FIRST: &str = "-";

impl RangeRow {
    pub(crate) fn new(span: &KeySpan, owner: &str) -> RangeRow {
        let start = if span.start.is_empty() { FIRST.to_owned() } else { hex(&span.start) };
        let end = span.end.as_deref().map(hex);
        RangeRow { table: span.table.clone(), start, end, owner: owner.to_owned() }
    }

    /// Creates the row of a range whose bounds are digits.
    pub(crate) fn at(table: &str, (start, end): (&str, Option<&str>), owner: &str) -> RangeRow {
        let (table, start, owner) = (table.to_owned(), start.to_owned(), owner.to_owned());
        RangeRow { table, start, end: end.map(str::to_owned), owner }
    }

    /// Returns the bounds as digits.
    pub(crate) fn bounds(&self) -> (&str, Option<&str>) {
        (&self.start, self.end.as_deref())
    }

    pub(crate) fn span(&self) -> Result<KeySpan> {
        let bytes = |digits: &str| {
            unhex(digits)
                .ok_or_else(|| Error::corruption(format!("{digits:?} is no bound of a range of {}", self.table)))
        };
        let start = if self.start == FIRST { Vec::new() } else { bytes(&self.start)? };
        Ok(KeySpan { table: self.table.clone(), start, end: self.end.as_deref().map(bytes).transpose()? })
    }
}
