//! `waxseal node`: tables on several stores.

use std::path::{Path, absolute};

use serde_json::json;
use waxseal::{Contents, Db};
use waxseal_placement::{ErrorKind, MoveStatus, Placement, Splits, Verification};
use waxseal_table::Partitioning;

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::node_verbs::NodeVerb;
use crate::output::Output;
use crate::store::{dir, existing_store};
use crate::text::counted;

impl From<waxseal_placement::Error> for Failure {
    fn from(error: waxseal_placement::Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Exists | ErrorKind::Unproved | ErrorKind::Outdated => Exit::CheckFailed,
            ErrorKind::Invalid => Exit::Usage,
            ErrorKind::Corruption => Exit::Corruption,
            ErrorKind::Locked => Exit::Locked,
            _ => Exit::Io,
        };
        Failure::new(exit, error.to_string())
    }
}

pub(crate) fn run(args: &Args, verb: &NodeVerb, output: &mut Output) -> Result<Exit, Failure> {
    match verb {
        NodeVerb::Add { id, directory, ranges } => add(args, id, directory, *ranges, output),
        NodeVerb::Status => status(args, output),
        NodeVerb::Decommission { id, verify: false } => decommission(args, id, output),
        NodeVerb::Decommission { id, verify: true } => verify(args, id, output),
    }
}

fn add(args: &Args, id: &str, directory: &Path, ranges: u32, output: &mut Output) -> Result<Exit, Failure> {
    let (store, is_new) = (dir(args)?, Db::contents(dir(args)?)? == Contents::Empty);
    let placement = Placement::open(store)?;
    match placement.add(id, directory) {
        // An earlier call may not have placed all tables.
        Err(error) if error.kind() == ErrorKind::Exists && has_node(&placement, id, directory)? => {
            output.line(format!("node {id} is there"))?;
        }
        // A refused call makes no placement. After another error the store of the node may know the placement.
        Err(error) if is_new && matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Exists | ErrorKind::Locked) => {
            drop(placement);
            Db::destroy(store)?;
            return Err(error.into());
        }
        added => {
            added?;
            output.line(format!("added node {id}"))?;
        }
    }
    let (mut placed, known, tables) = (Vec::new(), placement.placed_tables()?, placement.tables_of(id)?);
    for name in tables.names()?.into_iter().filter(|name| !known.contains(name)) {
        let schema = tables.table(&name)?.schema()?;
        if schema.indexes().next().is_some() {
            eprintln!("waxseal: table {name} has indexes, and is not placed");
            continue;
        }
        let splits = match schema.partitioning() {
            Partitioning::Hashed => Splits::Even(ranges),
            Partitioning::Ordered => Splits::At(Vec::new()),
        };
        placement.place_table(&name, id, &splits)?;
        output.line(format!("placed table {name}"))?;
        placed.push(name);
    }
    output.object(&json!({ "ok": true, "node": id, "placed": placed }))?;
    Ok(Exit::Ok)
}

/// Returns true if a placement has a node with this directory.
fn has_node(placement: &Placement, id: &str, directory: &Path) -> Result<bool, Failure> {
    let directory = absolute(directory).ok();
    Ok(placement.status()?.nodes.iter().any(|node| node.id == id && Some(&node.directory) == directory.as_ref()))
}

fn status(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let placement = Placement::open_read_only(existing_store(args)?)?;
    let (status, moves) = (placement.status()?, placement.moves()?);
    for node in &status.nodes {
        let problem = node.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
        let (ranges, directory) = (counted(node.ranges, "range", "ranges"), node.directory.display());
        output.line(format!("{}\t{}\t{ranges}\t{directory}{problem}", node.id, node.state.word()))?;
        output.object(&json!({
            "node": node.id,
            "state": node.state.word(),
            "ranges": node.ranges,
            "directory": node.directory.to_string_lossy(),
            "problem": node.problem,
        }))?;
    }
    for range in &status.ranges {
        output.line(format!("{}\t{}", range.span, range.owner))?;
        output.object(&json!({ "range": range.span.to_string(), "owner": range.owner }))?;
    }
    moves.iter().filter(|moved| !moved.is_done()).try_for_each(|moved| print_move(moved, output))?;
    Ok(Exit::Ok)
}

fn decommission(args: &Args, id: &str, output: &mut Output) -> Result<Exit, Failure> {
    let placement = Placement::open(existing_store(args)?)?;
    let done = placement.decommission(id)?;
    done.moves.iter().try_for_each(|moved| print_move(moved, output))?;
    let archive = done.archive.display();
    output.line(format!("node {id} has left; its event log is in {archive}"))?;
    output.object(&json!({ "ok": true, "node": id, "moves": done.moves.len(), "archive": archive.to_string() }))?;
    Ok(Exit::Ok)
}

fn print_move(moved: &MoveStatus, output: &mut Output) -> Result<(), Failure> {
    let proved = moved.proved.map(|digest| format!(", {}", counted(digest.count, "record", "records")));
    output.line(format!(
        "{}\t{} to {}\t{}{}",
        moved.span,
        moved.source,
        moved.destination,
        moved.step.word(),
        proved.unwrap_or_default()
    ))?;
    output.object(&json!({
        "move": moved.number,
        "range": moved.span.to_string(),
        "from": moved.source,
        "to": moved.destination,
        "step": moved.step.word(),
        "records": moved.proved.map(|digest| digest.count),
        "sum": moved.proved.map(|digest| format!("{:016x}", digest.sum)),
        "pause_us": moved.paused.map(|paused| paused.as_micros() as u64),
    }))
}

fn verify(args: &Args, id: &str, output: &mut Output) -> Result<Exit, Failure> {
    let Verification { ranges, records, problems } = Placement::open(existing_store(args)?)?.verify_decommission(id)?;
    problems.iter().try_for_each(|problem| output.line(problem))?;
    let (left, live) = (counted(ranges, "range", "ranges"), counted(records, "live record", "live records"));
    match problems.is_empty() {
        true => output.line(format!("verified {left} that node {id} has left, with {live}"))?,
        false => output.line(format!("failed: {}", counted(problems.len() as u64, "problem", "problems")))?,
    }
    let ok = problems.is_empty();
    output.object(&json!({ "ok": ok, "node": id, "ranges": ranges, "records": records, "problems": problems }))?;
    Ok(if ok { Exit::Ok } else { Exit::CheckFailed })
}
