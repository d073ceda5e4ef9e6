//! The store of a node.

use std::path::{Path, PathBuf};

use waxseal::Db;
use waxseal::env::Env;
use waxseal_table::{Schema, Table, Tables};

use crate::directories::plain;
use crate::error::{Error, ErrorKind, Result};
use crate::ledger::{identity, last_move_of, set_last_move, set_node_identity};
use crate::records::{NodeRow, NodeState};

/// The moves that the placement store knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moves {
    /// The number of the last one; 0 before the first one.
    pub(crate) last: u64,
    /// The number of the last one that has copied a range from or to the node; 0 if none has.
    pub(crate) of_node: u64,
}

impl Moves {
    /// Compares them with the last move that the store of the node knows. Errors: `Outdated` if the placement does not
    /// have it; `Invalid` if the store is older than a move from or to the node.
    fn check(self, noted: Option<u64>) -> Result<()> {
        match noted {
            Some(number) if number > self.last => {
                let known = match self.last {
                    0 => "no move".to_owned(),
                    last => format!("moves up to {last}"),
                };
                let message =
                    format!("its store knows move {number}, and the placement {known}: restore a later backup");
                Err(Error::of(ErrorKind::Outdated, message))
            }
            Some(number) if number < self.of_node => Err(Error::invalid(format!(
                "its store is older than move {}: restore a later backup of it",
                self.of_node
            ))),
            _ => Ok(()),
        }
    }
}

/// A node and its store.
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) directory: PathBuf,
    pub(crate) state: NodeState,
    /// The tables of its store, or the reason why it is not open.
    store: Result<Tables>,
}

impl Node {
    /// Opens the store of a node. A store that cannot be opened is an error of the calls that need it.
    pub(crate) fn open(row: &NodeRow, placement: &str, moves: Moves, env: &Env, is_read_only: bool) -> Result<Node> {
        if row.state()? == NodeState::Left {
            return Node::of(row, Err(has_left(&row.id)));
        }
        let builder = Db::builder(&row.directory).env(env.clone()).create_if_missing(false);
        let open = || {
            let db = if is_read_only { builder.open_read_only()? } else { builder.open()? };
            match identity(&db)? {
                Some(found) if found == node_identity(placement, &row.id) => {}
                _ => return Err(Error::invalid(format!("the store in {} is another one", row.directory))),
            }
            moves.check(last_move_of(&db)?)?;
            Ok(Tables::open(&db)?)
        };
        Node::of(row, open().map_err(|error| error.about(format!("node {}", row.id))))
    }

    /// Makes the store in a node's directory the one of the node, and opens it. The store is created if there is none.
    /// Errors: `Exists` if it belongs to another node or to another placement.
    pub(crate) fn join(row: &NodeRow, placement: &str, env: &Env) -> Result<Node> {
        let db = Db::builder(&row.directory).env(env.clone()).open()?;
        let own = node_identity(placement, &row.id);
        match identity(&db)? {
            None => set_node_identity(&db, &own)?,
            Some(found) if found == own => {} // a crash came before the node's row
            Some(_) => {
                let message = format!("the store in {} belongs to another node or placement", row.directory);
                return Err(Error::of(ErrorKind::Exists, message));
            }
        }
        Node::of(row, Ok(Tables::open(&db)?))
    }

    /// Returns the node in another state.
    pub(crate) fn in_state(&self, state: NodeState) -> Node {
        let store = match state {
            NodeState::Left => Err(has_left(&self.id)),
            _ => self.store.clone(),
        };
        Node { id: self.id.clone(), directory: self.directory.clone(), state, store }
    }

    /// Returns the node's row.
    pub(crate) fn row(&self) -> NodeRow {
        NodeRow::new(&self.id, &self.directory.to_string_lossy(), self.state) // it is Unicode: it was a row before
    }

    fn of(row: &NodeRow, store: Result<Tables>) -> Result<Node> {
        let (id, directory) = (row.id.clone(), plain(Path::new(&row.directory))?);
        Ok(Node { id, directory, state: row.state()?, store })
    }

    /// Notes in the node's store that a move reaches it, unless it has done so.
    pub(crate) fn enter_move(&self, number: u64) -> Result<()> {
        let db = self.tables()?.db();
        match last_move_of(db)? {
            Some(last) if last >= number => Ok(()),
            _ => set_last_move(db, number),
        }
    }

    /// Returns the tables of the node's store. Errors: those of its open.
    pub(crate) fn tables(&self) -> Result<&Tables> {
        self.store.as_ref().map_err(Error::clone)
    }

    /// Opens a table of the node, which must have this schema.
    pub(crate) fn table(&self, name: &str, schema: &Schema) -> Result<Table> {
        let check = |table: Table| match table.schema()? == *schema {
            true => Ok(table),
            false => Err(Error::invalid("the schema is not the one of the other nodes: change it on all of them")),
        };
        let found = self.tables()?.table(name).map_err(Error::from).and_then(check);
        found.map_err(|error| error.about(format!("table {name} on node {}", self.id)))
    }

    /// Creates a table on the node. An empty table with the same schema is kept. Errors: `Exists` for a table with
    /// rows.
    pub(crate) fn create_table(&self, name: &str, schema: &Schema) -> Result<()> {
        match self.tables()?.create(name, schema.clone()) {
            Err(error) if error.kind() == waxseal_table::ErrorKind::Exists => {
                let table = self.table(name, schema)?;
                match table.select().limit(1).count()? {
                    0 => Ok(()),
                    _ => Err(Error::of(ErrorKind::Exists, format!("table {name} on node {} has rows", self.id))),
                }
            }
            created => {
                created?;
                Ok(())
            }
        }
    }
}

fn has_left(node: &str) -> Error {
    Error::invalid(format!("node {node} has left"))
}

fn node_identity(placement: &str, node: &str) -> String {
    format!("{placement}/{node}")
}
