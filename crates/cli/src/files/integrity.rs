//! verify, fsck.

use std::ffi::OsStr;

use serde_json::json;
use waxseal_files::{FileStore, Problem};

use super::location::{Access, Location, Place};
use super::tree::Tree;
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::text;

fn store(tree: &dyn Tree) -> Result<&FileStore, Failure> {
    tree.store().ok_or_else(|| Failure::usage("a local directory has no digests; name a path in a store"))
}

pub(super) fn verify(args: &Args, path: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let Place { tree, path } = Location::parse(path)?.open(args, Access::Read)?;
    let report = store(&*tree)?.verify(&path)?;
    print_problems(&report.problems, output)?;
    output.line(format!(
        "verified {}: {}; {}",
        text::counted(report.entries, "entry", "entries"),
        text::size(report.bytes),
        text::counted(report.faults, "fault", "faults"),
    ))?;
    output.object(&json!({
        "ok": report.is_clean(),
        "entries": report.entries,
        "bytes": report.bytes,
        "faults": report.faults,
        "problems": problems_json(&report.problems, output),
    }))?;
    Ok(if report.is_clean() { Exit::Ok } else { Exit::Corruption })
}

pub(super) fn fsck(args: &Args, path: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let Place { tree, path } = Location::parse(path)?.open(args, Access::Read)?;
    if !path.is_empty() {
        return Err(Failure::usage("fsck checks a whole store; verify takes a path"));
    }
    let report = store(&*tree)?.fsck()?;
    print_problems(&report.problems, output)?;
    output.line(format!(
        "checked {}, {}, {} and {}; {}",
        text::counted(report.entries, "entry", "entries"),
        text::counted(report.contents, "content", "contents"),
        text::counted(report.chunks, "chunk", "chunks"),
        text::counted(report.reclaims, "removed content", "removed contents"),
        text::counted(report.faults, "fault", "faults"),
    ))?;
    output.object(&json!({
        "ok": report.is_clean(),
        "entries": report.entries,
        "contents": report.contents,
        "chunks": report.chunks,
        "reclaims": report.reclaims,
        "faults": report.faults,
        "problems": problems_json(&report.problems, output),
    }))?;
    Ok(if report.is_clean() { Exit::Ok } else { Exit::Corruption })
}

fn print_problems(problems: &[Problem], output: &mut Output) -> Result<(), Failure> {
    problems
        .iter()
        .try_for_each(|problem| output.line(format!("/{}: {}", output.readable(&problem.path), problem.fault)))
}

fn problems_json(problems: &[Problem], output: &Output) -> serde_json::Value {
    problems.iter().map(|problem| json!({ "path": output.to_json(&problem.path), "fault": problem.fault })).collect()
}
