//! The placement store: the rows of nodes, of ranges with their owners, and of moves.

use std::path::Path;

use waxseal::env::Env;
use waxseal::{Db, Durability};
use waxseal_table::{RowOptions, Table, Tables, Transaction, TypedRow};

use crate::error::{Error, Result};
use crate::move_row::{MoveRow, MoveStep};
use crate::records::{NodeRow, RangeRow};

/// The tables of the placement store.
pub(crate) const KEYSPACE: &str = "placement";
const NODES: &str = "placement.nodes";
const RANGES: &str = "placement.ranges";
const MOVES: &str = "placement.moves";

/// The family that identifies a store: the placement itself, or one of its nodes.
const IDENTITY: &str = "waxseal-placement";
const IDENTITY_KEY: &str = "identity";
/// In the store of a node: the number of the last move from or to it.
const LAST_MOVE_KEY: &str = "last_move";

/// The placement store. Writes are durable when a call returns.
pub(crate) struct Ledger {
    /// Identifies the placement. The stores of its nodes repeat it.
    pub(crate) id: String,
    tables: Tables,
    nodes: Table,
    ranges: Table,
    moves: Table,
}

impl Ledger {
    /// Opens the placement store; creates it if `directory` has no store.
    pub(crate) fn open(directory: &Path, env: &Env) -> Result<Ledger> {
        let db = Db::builder(directory).env(env.clone()).open()?;
        let new_id = || format!("{:016x}{:016x}", db.env().random.next_u64(), db.env().random.next_u64());
        if identity(&db)?.is_none() {
            note(&db, &[(IDENTITY_KEY, &new_id())])?;
        }
        Ledger::of(&db)
    }

    /// Opens the placement store for reading, beside a process that writes.
    pub(crate) fn open_read_only(directory: &Path, env: &Env) -> Result<Ledger> {
        Ledger::of(&Db::builder(directory).env(env.clone()).open_read_only()?)
    }

    fn of(db: &Db) -> Result<Ledger> {
        let id = identity(db)?.ok_or_else(|| Error::invalid("the store is no placement"))?;
        if id.contains('/') {
            return Err(Error::invalid("the store is a node of a placement, and no placement itself"));
        }
        let tables = Tables::open(db)?;
        Ok(Ledger {
            id,
            nodes: own_table::<NodeRow>(&tables, NODES)?,
            ranges: own_table::<RangeRow>(&tables, RANGES)?,
            moves: own_table::<MoveRow>(&tables, MOVES)?,
            tables,
        })
    }

    pub(crate) fn db(&self) -> &Db {
        self.tables.db()
    }

    /// Returns all nodes, by their ids.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeRow>> {
        rows_of(&self.nodes)
    }

    /// Adds a node.
    pub(crate) fn add_node(&self, node: NodeRow) -> Result<()> {
        Ok(self.nodes.insert_with(node, RowOptions::new().durability(Durability::Sync))?)
    }

    /// Writes the row of a node.
    pub(crate) fn save_node(&self, node: NodeRow) -> Result<()> {
        Ok(self.nodes.upsert_with(node, RowOptions::new().durability(Durability::Sync))?)
    }

    /// Returns the ranges of all tables, in the order of tables and keys.
    pub(crate) fn ranges(&self) -> Result<Vec<RangeRow>> {
        rows_of(&self.ranges)
    }

    /// Adds the ranges of a table in one commit. Errors: `Exists` if the table is placed.
    pub(crate) fn add_ranges(&self, ranges: &[RangeRow]) -> Result<()> {
        self.commit(|transaction| {
            ranges.iter().try_for_each(|range| transaction.insert(&self.ranges, range.clone()))?;
            Ok(())
        })
    }

    /// Returns all moves, oldest first.
    pub(crate) fn moves(&self) -> Result<Vec<MoveRow>> {
        rows_of(&self.moves)
    }

    /// Returns the number of the last move; 0 before the first one.
    pub(crate) fn last_move(&self) -> Result<u64> {
        let last = self.moves.select().reverse().limit(1).rows()?.next().transpose()?;
        Ok(last.map(|row| MoveRow::from_row(&row)).transpose()?.map_or(0, |last| last.number))
    }

    /// Begins a move of a range to another node.
    pub(crate) fn plan_move(&self, range: &RangeRow, destination: &str) -> Result<MoveRow> {
        let row = MoveRow::new(self.last_move()? + 1, range, destination);
        self.save_move(&row)?;
        Ok(row)
    }

    /// Writes the row of a move.
    pub(crate) fn save_move(&self, row: &MoveRow) -> Result<()> {
        Ok(self.moves.upsert_with(row.clone(), RowOptions::new().durability(Durability::Sync))?)
    }

    /// Makes the destination of a move the owner of its range, and writes the row of the move, in one commit.
    pub(crate) fn switch(&self, row: &MoveRow) -> Result<()> {
        debug_assert_eq!(row.step().ok(), Some(MoveStep::Switched));
        self.commit(|transaction| {
            transaction.upsert(&self.ranges, row.range())?;
            Ok(transaction.upsert(&self.moves, row.clone())?)
        })
    }

    fn commit(&self, fill: impl FnOnce(&Transaction) -> Result<()>) -> Result<()> {
        let transaction = self.tables.transaction();
        fill(&transaction)?;
        Ok(transaction.commit_with(Durability::Sync)?)
    }
}

/// Opens a table of the placement store, which is created if it does not exist.
fn own_table<T: TypedRow>(tables: &Tables, name: &str) -> Result<Table> {
    match tables.table(name) {
        Err(error) if error.kind() == waxseal_table::ErrorKind::NotFound && !tables.db().is_read_only() => {
            Ok(tables.create(name, T::schema())?)
        }
        table => Ok(table?),
    }
}

fn rows_of<T: TypedRow>(table: &Table) -> Result<Vec<T>> {
    table.select().rows()?.map(|row| Ok(T::from_row(&row?)?)).collect()
}

/// Returns the text that identifies a store as a placement or as a node; `None` if nothing does.
pub(crate) fn identity(db: &Db) -> Result<Option<String>> {
    noted(db, IDENTITY_KEY)
}

/// Makes a store the one of a node that no move has reached. Durable when the call returns.
pub(crate) fn set_node_identity(db: &Db, identity: &str) -> Result<()> {
    note(db, &[(IDENTITY_KEY, identity), (LAST_MOVE_KEY, "0")])
}

/// Returns the number of the last move from or to the node with this store. `None` if an earlier version made the node,
/// and no move since.
pub(crate) fn last_move_of(db: &Db) -> Result<Option<u64>> {
    let parse = |text: String| text.parse().map_err(|_| Error::corruption(format!("{text:?} is no number of a move")));
    noted(db, LAST_MOVE_KEY)?.map(parse).transpose()
}

/// Notes a move in the store of a node. Durable when the call returns.
pub(crate) fn set_last_move(db: &Db, number: u64) -> Result<()> {
    note(db, &[(LAST_MOVE_KEY, &number.to_string())])
}

fn noted(db: &Db, key: &str) -> Result<Option<String>> {
    let Some(family) = db.find_column_family(IDENTITY)? else { return Ok(None) };
    Ok(family.get(key)?.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

fn note(db: &Db, notes: &[(&str, &str)]) -> Result<()> {
    let (family, mut batch) = (db.column_family(IDENTITY)?, db.batch());
    for (key, text) in notes {
        batch.put(&family, key, text);
    }
    Ok(batch.commit(Durability::Sync)?)
}
