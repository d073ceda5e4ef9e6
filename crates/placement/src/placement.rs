//! Placements: nodes, tables, and the owners of their ranges.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use waxseal::Digest;
use waxseal::env::{Env, lock};
use waxseal::registry::{Field, Operation, Payload, Registry, Target};
use waxseal_table::{Partitioning, Schema, Tables, Value};

use crate::directories::{plain, whole};
use crate::error::{Error, ErrorKind, Result};
use crate::key_span::KeySpan;
use crate::ledger::{KEYSPACE, Ledger};
use crate::move_row::{MoveRow, MoveStep};
use crate::mover::Mover;
use crate::node::{Moves, Node};
use crate::records::{NodeRow, NodeState, RangeRow};
use crate::routed_table::RoutedTable;
use crate::routes::Routes;

/// Longest id of a node, in bytes.
const MAX_ID_BYTES: usize = 255;

/// Most ranges of a table.
const MAX_RANGES: u32 = 65_536;

/// Operations on nodes that the placement logs.
const NODE_OPERATIONS: [Operation; 3] = [Operation::NODE_JOIN, Operation::NODE_DECOMMISSION, Operation::NODE_VERIFY];

/// The places of tables on several stores. Clones share it and may be used from any thread.
///
/// The placement is a separate store in its own directory. It opens the stores of all nodes, so one process writes to
/// all of them. If a node's store cannot be opened, the other nodes remain usable.
///
/// The owners are rows of the tables `placement.nodes` and `placement.ranges` of the placement store. Its log has every
/// change of them, and `Node.Join`, `Node.Decommission` and `Node.Verify` on nodes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// use waxseal_placement::{Placement, Splits};
/// use waxseal_table::{ColumnType, Row, Schema};
///
/// let placement = Placement::open(dir.join("placement"))?;
/// placement.add("n1", dir.join("n1"))?;
/// placement.add("n2", dir.join("n2"))?;
/// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("title", ColumnType::Text).hashed();
/// let books = placement.create_table("library.books", schema, &Splits::Even(8))?;
/// books.insert(Row::new().with("isbn", "0141439580").with("title", "Emma"))?;
/// assert!(books.get("0141439580")?.is_some()); // on either node
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Placement {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    pub(crate) ledger: Ledger,
    pub(crate) env: Env,
    is_read_only: bool,
    nodes: RwLock<BTreeMap<String, Arc<Node>>>,
    /// The tables with handles.
    routes: Mutex<HashMap<String, Arc<Routes>>>,
    /// Held by a call that changes nodes or owners.
    changing: Mutex<()>,
}

/// Where the ranges of a table begin.
#[derive(Clone, Debug)]
pub enum Splits {
    /// This number of ranges of equal size, for hashed partitions.
    Even(u32),
    /// Ranges before, between and behind these keys, for ordered partitions. A key has the values of the first columns
    /// of the key. Without any, the table is one range.
    At(Vec<Vec<Value>>),
}

/// Nodes and owners.
#[derive(Clone, Debug)]
pub struct Status {
    /// All nodes, by their ids.
    pub nodes: Vec<NodeStatus>,
    /// All ranges, in the order of tables and keys.
    pub ranges: Vec<RangeStatus>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The id.
    pub id: String,
    /// The directory of its store.
    pub directory: PathBuf,
    /// The state.
    pub state: NodeState,
    /// The number of ranges that it owns.
    pub ranges: u64,
    /// The reason why its store is not open; `None` if the store is open or the node has left.
    pub problem: Option<String>,
}

/// A range.
#[derive(Clone, Debug)]
pub struct RangeStatus {
    /// The range.
    pub span: KeySpan,
    /// The id of the node that owns it.
    pub owner: String,
}

/// A move of a range between nodes.
#[derive(Clone, Debug)]
pub struct MoveStatus {
    /// Numbers the moves of a placement, from 1.
    pub number: u64,
    /// The range.
    pub span: KeySpan,
    /// The id of the old owner.
    pub source: String,
    /// The id of the new owner.
    pub destination: String,
    /// The last step that was taken.
    pub step: MoveStep,
    /// The number of records whose equality was proved, and the sum of their seals.
    pub proved: Option<Digest>,
    /// How long writes to the range waited; `None` before the switch, and after a crash between switch and end.
    pub paused: Option<Duration>,
}

impl Placement {
    /// Opens a placement and the stores of its nodes. A directory without a store becomes a new placement.
    ///
    /// Errors: `Locked` if a process has the placement open; `Invalid` if the directory holds another store; `Outdated`
    /// if the placement store was restored from before a move that a node knows.
    pub fn open(directory: impl AsRef<Path>) -> Result<Placement> {
        Placement::open_in(directory, &Env::real())
    }

    /// [`open`](Placement::open) with other files, another clock or another source of random numbers, also for the
    /// stores of the nodes.
    pub fn open_in(directory: impl AsRef<Path>, env: &Env) -> Result<Placement> {
        let directory = plain(directory.as_ref())?;
        let ledger = Ledger::open(&directory, env)?;
        let registry = ledger.db().registry();
        register(&registry, Target::Keyspace(KEYSPACE.to_owned()), None)?;
        for operation in NODE_OPERATIONS {
            register(&registry, Target::Cluster, Some(operation))?;
        }
        Placement::of(&directory, ledger, env, false)
    }

    /// Opens a placement for its [`status`](Placement::status), also beside the process that writes.
    pub fn open_read_only(directory: impl AsRef<Path>) -> Result<Placement> {
        let (directory, env) = (plain(directory.as_ref())?, Env::real());
        let ledger = Ledger::open_read_only(&directory, &env)?;
        Placement::of(&directory, ledger, &env, true)
    }

    fn of(directory: &Path, ledger: Ledger, env: &Env, is_read_only: bool) -> Result<Placement> {
        let (mut nodes, moves, last) = (BTreeMap::new(), ledger.moves()?, ledger.last_move()?);
        for row in ledger.nodes()? {
            let of_node = moves.iter().filter(|known| known.has_copied() && known.concerns(&row.id));
            let known = Moves { last, of_node: of_node.map(|known| known.number).max().unwrap_or_default() };
            let node = Node::open(&row, &ledger.id, known, env, is_read_only)?;
            match node.tables() {
                Err(error) if error.kind() == ErrorKind::Outdated && !is_read_only => return Err(error),
                _ => nodes.insert(row.id.clone(), Arc::new(node)),
            };
        }
        let (nodes, routes, changing) = (RwLock::new(nodes), Mutex::default(), Mutex::default());
        let (directory, env) = (directory.to_owned(), env.clone());
        let shared = Shared { directory, ledger, env, is_read_only, nodes, routes, changing };
        Ok(Placement { shared: Arc::new(shared) })
    }

    /// Returns the registry and the log of the placement store.
    pub fn registry(&self) -> Registry {
        self.shared.ledger.db().registry()
    }

    /// Adds a node, whose store is created if the directory has none. All placed tables are created on it, empty. It
    /// owns no range yet. Logs `Node.Join`. Durable when the call returns.
    ///
    /// Errors: `Exists` if the placement has the node, if the store belongs to another placement, and if it has rows of
    /// a placed table; `Invalid` unless the id has 1 to 255 ASCII letters, digits, dots, hyphens and underscores, a dot
    /// not first, and for a directory whose name is no Unicode.
    pub fn add(&self, id: &str, directory: impl AsRef<Path>) -> Result<()> {
        let shared = &self.shared;
        let _changing = self.begin_change()?;
        let is_allowed = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        if id.is_empty() || id.len() > MAX_ID_BYTES || id.starts_with('.') || !id.chars().all(is_allowed) {
            return Err(Error::invalid(format!(
                "{id:?} is no id: 1 to {MAX_ID_BYTES} letters, digits, dots, hyphens and underscores, a dot not first"
            )));
        }
        if self.nodes().contains_key(id) {
            return Err(Error::of(ErrorKind::Exists, format!("node {id} exists")));
        }
        let row = NodeRow::new(id, &whole(directory.as_ref())?, NodeState::Live);
        let node = Node::join(&row, &shared.ledger.id, &shared.env)?;
        for name in self.placed_tables()? {
            node.create_table(&name, &self.routes(&name)?.schema)?;
        }
        let joined = Payload::new().with(Field::Setting(("directory".to_owned(), row.directory.clone())));
        shared.ledger.add_node(row)?;
        self.registry().log_add(Target::Node(id.to_owned()), Operation::NODE_JOIN, None, joined)?;
        self.replace_node(node);
        Ok(())
    }

    /// Creates a table on all nodes, divides it into ranges, and deals these to the nodes in turn. Durable when the
    /// call returns.
    ///
    /// Errors: `Exists` if the table is placed, or if a node has rows of it; `Invalid` without nodes, for a schema with
    /// indexes, and for splits that do not fit the schema; those of the open of a node's store.
    pub fn create_table(&self, name: &str, schema: Schema, splits: &Splits) -> Result<RoutedTable> {
        let _changing = self.begin_change()?;
        self.check_new(name, &schema)?;
        let nodes: Vec<Arc<Node>> = self.live_nodes();
        let Some(first) = nodes.first() else {
            return Err(Error::invalid("the placement has no node: add one first"));
        };
        first.create_table(name, &schema)?;
        let spans = spans(first.tables()?, name, splits)?;
        nodes.iter().skip(1).try_for_each(|node| node.create_table(name, &schema))?;
        let owned = spans.into_iter().zip(nodes.iter().cycle());
        let ranges: Vec<RangeRow> = owned.map(|(span, owner)| RangeRow::new(&span, &owner.id)).collect();
        self.shared.ledger.add_ranges(&ranges)?;
        self.table(name)
    }

    /// Places a table that a node's store has: divides it into ranges, all owned by the node, and creates the table on
    /// the other nodes, empty. Durable when the call returns. From then on, use the table through the placement alone.
    ///
    /// Errors: those of [`create_table`](Placement::create_table); `NotFound` if the node does not have the table.
    pub fn place_table(&self, name: &str, owner: &str, splits: &Splits) -> Result<RoutedTable> {
        let _changing = self.begin_change()?;
        let owner = self.node(owner)?;
        let schema = owner.tables()?.table(name)?.schema()?;
        self.check_new(name, &schema)?;
        let spans = spans(owner.tables()?, name, splits)?;
        for node in self.live_nodes().iter().filter(|node| node.id != owner.id) {
            node.create_table(name, &schema)?;
        }
        let ranges: Vec<RangeRow> = spans.into_iter().map(|span| RangeRow::new(&span, &owner.id)).collect();
        self.shared.ledger.add_ranges(&ranges)?;
        self.table(name)
    }

    /// Opens a placed table. Errors: `NotFound`; `Invalid` in a placement that is open for reading, and if a range has
    /// no owner, which the error names.
    pub fn table(&self, name: &str) -> Result<RoutedTable> {
        if self.shared.is_read_only {
            // A move in another process deletes ranges on their old owners.
            return Err(Error::invalid("the placement is open for reading: rows are read where they are written"));
        }
        Ok(RoutedTable::new(self.routes(name)?))
    }

    /// Returns the names of the placed tables, in order.
    pub fn placed_tables(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.shared.ledger.ranges()?.into_iter().map(|range| range.table).collect();
        names.dedup();
        Ok(names)
    }

    /// Returns all tables in a node's store, placed ones and others. Read and write rows of placed tables through
    /// [`table`](Placement::table) alone. Errors: `NotFound`; those of the open of the node's store.
    pub fn tables_of(&self, node: &str) -> Result<Tables> {
        Ok(self.node(node)?.tables()?.clone())
    }

    /// Moves a range to another node, while it is read and written. Returns when the old owner no longer has it. A move
    /// that was begun before is continued.
    ///
    /// The range is copied by an export, and the copy catches up by the change feed. The copy is compared with the
    /// range, as of one commit and at one time, by the count of the records and the sum of their seals. A checkpoint of
    /// the new owner keeps what was compared. Then writes to the range wait for the last changes, which are compared
    /// record by record, and the owner is switched. Source, destination and owner are durable when the call returns.
    ///
    /// Both stores have the range meanwhile, and the log of the source is kept. The directories `DIRECTORY.moves`
    /// beside those of the nodes have what a move needs, and the checkpoints.
    ///
    /// Errors: `NotFound` for a range or a node that the placement does not have; `Invalid` if the node owns the range,
    /// or if a move to another node is under way; `Unproved` if the copy differs, and the next call copies the range
    /// again; those of the stores. Until the switch the old owner stays, and the next call continues the move. If the
    /// switch itself fails, calls for the range fail until the placement is opened again.
    pub fn move_range(&self, span: &KeySpan, to: &str) -> Result<MoveStatus> {
        let _changing = self.begin_change()?;
        let range = self.shared.ledger.ranges()?.into_iter().find(|range| range.span().is_ok_and(|own| own == *span));
        let range = range.ok_or_else(|| Error::not_found(format!("there is no range {span}")))?;
        if self.node(to)?.state != NodeState::Live {
            return Err(Error::invalid(format!("node {to} leaves or has left")));
        }
        let under_way = self.unfinished()?.into_iter().find(|row| row.span().is_ok_and(|own| own == *span));
        match under_way {
            Some(row) if row.destination == to => self.run_move(row),
            Some(row) => Err(Error::invalid(format!("range {span} is being moved to node {}", row.destination))),
            None if range.owner == to => Err(Error::invalid(format!("node {to} owns range {span}"))),
            None => self.run_move(self.shared.ledger.plan_move(&range, to)?),
        }
    }

    /// Continues the moves that a crash or an error has interrupted. Errors: those of
    /// [`move_range`](Placement::move_range).
    pub fn resume(&self) -> Result<Vec<MoveStatus>> {
        let _changing = self.begin_change()?;
        self.unfinished()?.into_iter().map(|row| self.run_move(row)).collect()
    }

    /// Returns all moves, oldest first.
    pub fn moves(&self) -> Result<Vec<MoveStatus>> {
        self.shared.ledger.moves()?.iter().map(MoveStatus::of).collect()
    }

    pub(crate) fn unfinished(&self) -> Result<Vec<MoveRow>> {
        let mut rows = self.shared.ledger.moves()?;
        rows.retain(|row| row.step().is_ok_and(|step| step != MoveStep::Done));
        Ok(rows)
    }

    pub(crate) fn run_move(&self, row: MoveRow) -> Result<MoveStatus> {
        let (ledger, env, span) = (&self.shared.ledger, &self.shared.env, row.span()?);
        let (source, destination) = (self.node(&row.source)?, self.node(&row.destination)?);
        let routes = self.routes(&span.table)?;
        let route = routes.exactly(&span).ok_or_else(|| Error::not_found(format!("there is no range {span}")))?;
        let original = source.table(&span.table, &routes.schema)?;
        let copy = destination.table(&span.table, &routes.schema)?;
        let (source, destination) = (&source, &destination);
        MoveStatus::of(&Mover { ledger, env, source, destination, original, copy, span, row }.run(route)?)
    }

    /// Returns the nodes, and the owners of all ranges.
    pub fn status(&self) -> Result<Status> {
        let ranges = self.shared.ledger.ranges()?;
        let node = |node: &Arc<Node>| NodeStatus {
            id: node.id.clone(),
            directory: node.directory.clone(),
            state: node.state,
            ranges: ranges.iter().filter(|range| range.owner == node.id).count() as u64,
            problem: node.tables().err().filter(|_| node.state != NodeState::Left).map(|error| error.to_string()),
        };
        let nodes = self.nodes().values().map(node).collect();
        let range = |range: &RangeRow| Ok(RangeStatus { span: range.span()?, owner: range.owner.clone() });
        Ok(Status { nodes, ranges: ranges.iter().map(range).collect::<Result<_>>()? })
    }

    /// Begins a change of nodes or owners; changes run one after the other.
    pub(crate) fn begin_change(&self) -> Result<MutexGuard<'_, ()>> {
        match self.shared.is_read_only {
            true => Err(Error::invalid("the placement is open for reading only")),
            false => Ok(lock(&self.shared.changing)),
        }
    }

    pub(crate) fn nodes(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Node>>> {
        self.shared.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the nodes that may own ranges.
    pub(crate) fn live_nodes(&self) -> Vec<Arc<Node>> {
        self.nodes().values().filter(|node| node.state == NodeState::Live).cloned().collect()
    }

    /// Makes a node known to this process, in place of the one with the same id.
    pub(crate) fn replace_node(&self, node: Node) {
        let mut nodes = self.shared.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node.id.clone(), Arc::new(node));
    }

    pub(crate) fn node(&self, id: &str) -> Result<Arc<Node>> {
        let found = self.nodes().get(id).cloned();
        found.ok_or_else(|| Error::not_found(format!("the placement has no node {id}")))
    }

    /// Returns the ranges of a table, which are opened if the table has no handles.
    fn routes(&self, name: &str) -> Result<Arc<Routes>> {
        let mut open = lock(&self.shared.routes);
        if let Some(found) = open.get(name) {
            return Ok(found.clone());
        }
        let ranges = self.shared.ledger.ranges()?.into_iter().filter(|range| range.table == name);
        let ranges = ranges.map(|range| Ok((range.span()?, self.node(&range.owner)?))).collect::<Result<_>>()?;
        let routes = Arc::new(Routes::open(name, ranges)?);
        open.insert(name.to_owned(), routes.clone());
        Ok(routes)
    }

    /// Checks that a table can be placed.
    fn check_new(&self, name: &str, schema: &Schema) -> Result<()> {
        if self.placed_tables()?.iter().any(|placed| placed == name) {
            return Err(Error::of(ErrorKind::Exists, format!("table {name} is placed")));
        }
        match schema.indexes().next() {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("table {name} has indexes, and such tables cannot be placed yet"))),
        }
    }
}

impl MoveStatus {
    /// Returns true if the move has taken its last step.
    pub fn is_done(&self) -> bool {
        self.step == MoveStep::Done
    }

    fn of(row: &MoveRow) -> Result<MoveStatus> {
        Ok(MoveStatus {
            number: row.number,
            span: row.span()?,
            source: row.source.clone(),
            destination: row.destination.clone(),
            step: row.step()?,
            proved: row.proof().map(|proof| proof.digest),
            paused: row.pause_micros.map(Duration::from_micros),
        })
    }
}

/// Divides the encoded keys of a table.
fn spans(tables: &Tables, name: &str, splits: &Splits) -> Result<Vec<KeySpan>> {
    let table = tables.table(name)?;
    let is_hashed = table.schema()?.partitioning() == Partitioning::Hashed;
    let starts = match splits {
        Splits::Even(ranges) if is_hashed && (1..=MAX_RANGES).contains(ranges) => KeySpan::token_starts(*ranges),
        Splits::Even(_) if is_hashed => return Err(Error::invalid(format!("a table has 1 to {MAX_RANGES} ranges"))),
        Splits::Even(_) => return Err(Error::invalid(format!("{name} has ordered partitions: split it at keys"))),
        Splits::At(keys) if is_hashed && !keys.is_empty() => {
            return Err(Error::invalid(format!("{name} has hashed partitions: split it evenly")));
        }
        Splits::At(keys) => {
            let mut starts = vec![Vec::new()];
            for key in keys {
                starts.push(table.encoded_key(key)?);
            }
            starts.sort_unstable();
            starts.dedup();
            starts
        }
    };
    let ends = starts.iter().skip(1).cloned().map(Some).chain([None]);
    let span =
        |(start, end): (&Vec<u8>, Option<Vec<u8>>)| KeySpan { table: name.to_owned(), start: start.clone(), end };
    Ok(starts.iter().zip(ends).map(span).collect())
}

/// Registers operations of a target, once for all opens.
fn register(registry: &Registry, target: Target, operation: Option<Operation>) -> Result<()> {
    let is_same = |other: &waxseal::registry::Registration| other.target == target && other.operation == operation;
    if !registry.registrations()?.iter().any(is_same) {
        registry.register(target, operation)?;
    }
    Ok(())
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement").field("id", &self.shared.ledger.id).finish_non_exhaustive()
    }
}
