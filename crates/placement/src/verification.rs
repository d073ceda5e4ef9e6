//! Checks that a node that has left took nothing with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use waxseal::env::Env;
use waxseal::registry::{Field, Operation, Payload, Target};
use waxseal_table::Tables;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::key_span::KeySpan;
use crate::ledger::Ledger;
use crate::move_row::{MoveRow, MoveStep};
use crate::node::Node;
use crate::records::{NodeState, RangeRow};
use crate::routes::check_complete;

/// The setting of an event that has the number of its move.
const MOVE: &str = "move";

/// The result of a verification of a decommission.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// Ranges that the node has left to others.
    pub ranges: u64,
    /// Live records of these ranges that were read and match their seals.
    pub records: u64,
    /// Failed checks. Each check of a range names it.
    pub problems: Vec<String>,
}

impl Verification {
    /// Returns true if nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds the error of a check, if it failed.
    fn note<T>(&mut self, check: Result<T>) -> Option<T> {
        check.map_err(|error| self.problems.push(error.to_string())).ok()
    }
}

/// A check of the ranges that a node has left to others.
pub(crate) struct Verifier<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) env: &'a Env,
    pub(crate) node: &'a Node,
    /// All nodes, by their ids.
    pub(crate) nodes: &'a BTreeMap<String, Arc<Node>>,
    pub(crate) archive: Checkpoint,
}

impl Verifier<'_> {
    /// Runs all checks. Damage is a problem of the result, and an error only in the placement store itself.
    pub(crate) fn run(&self) -> Result<Verification> {
        let (ranges, mut found) = (self.ledger.ranges()?, Verification::default());
        found.note(self.check_left());
        self.check_owners(&ranges, &mut found)?;
        let logged = logged_moves(self.ledger, &self.node.id)?;
        for (span, row) in left_ranges(self.ledger, &self.node.id)? {
            let named = |error: Error| error.about(format!("range {span}"));
            found.ranges += 1;
            if row.step()? == MoveStep::Done {
                found.note(check_log(&row, &logged).map_err(named));
                found.note(self.check_proof(&row, &span).map_err(named));
            } else {
                let unfinished = Error::invalid(format!("the move to node {} is not done", row.destination));
                found.problems.push(named(unfinished).to_string());
            }
            let records = self.read_records(&ranges, &span).map_err(named);
            found.records += found.note(records).unwrap_or_default();
        }
        Ok(found)
    }

    /// Checks that the node has left, and that its event log is archived.
    fn check_left(&self) -> Result<()> {
        let Node { id, state, .. } = self.node;
        if *state != NodeState::Left {
            return Err(Error::invalid(format!("node {id} has not left: it is {}", state.word())));
        }
        let opened = self.archive.open(self.env).and_then(|archive| Ok(archive.close()?));
        opened.map_err(|error| error.about(format!("archive of node {id}, {}", self.archive.directory.display())))
    }

    /// Checks that each range of each table has one owner, which is neither this node nor one without an open store.
    fn check_owners(&self, ranges: &[RangeRow], found: &mut Verification) -> Result<()> {
        for of_table in ranges.chunk_by(|one, other| one.table == other.table) {
            let spans = of_table.iter().map(RangeRow::span).collect::<Result<Vec<_>>>()?;
            found.note(check_complete(spans.iter()));
            for (range, span) in of_table.iter().zip(&spans) {
                let owner = self.tables_of_owner(range).map(drop);
                found.note(owner.map_err(|error| error.about(format!("range {span}"))));
            }
        }
        Ok(())
    }

    /// Compares the recorded digest with the checkpoint of the new owner.
    fn check_proof(&self, row: &MoveRow, span: &KeySpan) -> Result<()> {
        let proof = row.proof().ok_or_else(|| Error::corruption("no digest is recorded"))?;
        let checkpoint = Checkpoint { directory: proof.checkpoint };
        let named = |error: Error| error.about(format!("checkpoint {}", checkpoint.directory.display()));
        match checkpoint.digest(self.env, proof.time, &proof.family, span).map_err(named)? == proof.digest {
            true => Ok(()),
            false => Err(named(Error::corruption("its records have another digest than the one recorded"))),
        }
    }

    /// Reads every record of a range on its present owner, and returns their number; 0 if `check_owners` reports the
    /// owner.
    fn read_records(&self, ranges: &[RangeRow], span: &KeySpan) -> Result<u64> {
        let range = ranges.iter().find(|range| range.span().is_ok_and(|own| own == *span));
        let range = range.ok_or_else(|| Error::corruption("it has no owner"))?;
        let Ok(tables) = self.tables_of_owner(range) else { return Ok(0) };
        let records = tables.table(&span.table).map_err(Error::from);
        let records = records.and_then(|table| Ok(table.rows_family().digest(span.bounds())?.count));
        records.map_err(|error| error.about(format!("node {}", range.owner)))
    }

    /// Returns the tables of a range's owner.
    fn tables_of_owner(&self, range: &RangeRow) -> Result<&Tables> {
        if range.owner == self.node.id {
            return Err(Error::invalid(format!("its owner is still node {}", range.owner)));
        }
        let node = self.nodes.get(&range.owner);
        node.ok_or_else(|| Error::not_found(format!("its owner, node {}, is unknown", range.owner)))?.tables()
    }
}

/// Returns the ranges that a node has left to others or is leaving, each with its last move.
fn left_ranges(ledger: &Ledger, node: &str) -> Result<BTreeMap<KeySpan, MoveRow>> {
    let from_node = ledger.moves()?.into_iter().filter(|row| row.source == node);
    from_node.map(|row| Ok((row.span()?, row))).collect()
}

/// Checks that the log has a move as it is recorded.
fn check_log(row: &MoveRow, logged: &HashMap<String, Payload>) -> Result<()> {
    let event = logged.get(&row.number.to_string());
    let event = event.ok_or_else(|| Error::corruption("the log has no Node.Decommission of it"))?;
    match event_of(row)?.fields().iter().all(|field| event.fields().contains(field)) {
        true => Ok(()),
        false => Err(Error::corruption("its Node.Decommission in the log differs from the recorded move")),
    }
}

/// Logs the ranges that a node has left to others, except those that the log has.
pub(crate) fn log_moves(ledger: &Ledger, node: &str) -> Result<()> {
    let (registry, target, logged) =
        (ledger.db().registry(), Target::Node(node.to_owned()), logged_moves(ledger, node)?);
    for row in left_ranges(ledger, node)?.values().filter(|row| !logged.contains_key(&row.number.to_string())) {
        registry.log_add(&target, Operation::NODE_DECOMMISSION, None, event_of(row)?)?;
    }
    Ok(())
}

fn event_of(row: &MoveRow) -> Result<Payload> {
    let span = row.span()?;
    let mut event = Payload::new()
        .with(setting(MOVE, &row.number.to_string()))
        .with(setting("table", &span.table))
        .with(setting("owner", &row.destination))
        .with(Field::RangeStart(span.start));
    span.end.into_iter().for_each(|end| event.push(Field::RangeEnd(end)));
    if let Some(proof) = row.proof() {
        event.push(Field::Records(proof.digest.count));
        event.push(Field::Sum(proof.digest.sum));
    }
    Ok(event)
}

/// Returns the events of moves from a node that the log has, by the numbers of the moves.
fn logged_moves(ledger: &Ledger, node: &str) -> Result<HashMap<String, Payload>> {
    let events = ledger.db().registry().query_all(Target::Node(node.to_owned()), Operation::NODE_DECOMMISSION)?;
    let number = |field: &Field| match field {
        Field::Setting((name, number)) if name == MOVE => Some(number.clone()),
        _ => None,
    };
    Ok(events.into_iter().filter_map(|event| Some((event.payload.find(number)?, event.payload))).collect())
}

fn setting(name: &str, value: &str) -> Field {
    Field::Setting((name.to_owned(), value.to_owned()))
}

/// Logs the outcome of a verification.
pub(crate) fn log_verification(ledger: &Ledger, node: &str, found: &Verification) -> Result<()> {
    let verdict = match found.problems.first() {
        None => "verified".to_owned(),
        Some(first) => format!("{} problems: {first}", found.problems.len()),
    };
    let event = Payload::new().with(Field::Records(found.records)).with(Field::Verdict(verdict));
    ledger.db().registry().log_add(Target::Node(node.to_owned()), Operation::NODE_VERIFY, None, event)?;
    Ok(())
}
