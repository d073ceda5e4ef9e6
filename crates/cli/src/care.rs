//! verify, scrub, repair, salvage, digest: looking after a store.
//!
//! Each prints a report: for people, or one JSON object. Damage that is left makes the exit code 3, whatever else was found; what could
//! not be read makes it 4. So it does if nobody reads the report to its end.

use std::path::Path;

use serde_json::{Value, json};
use waxseal::care::{Finding, Outcome, Token};
use waxseal::{Db, ErrorKind, RepairOptions, Report, SalvageOptions, ScrubOptions, VerifyOptions};

use crate::args::{self, Args, Span};
use crate::failure::{Exit, Failure};
use crate::output::{Output, or_seen_enough};
use crate::records::bounds;
use crate::store::{existing_family, existing_store, open_to_read, report_cut};
use crate::{progress, text};

/// A store that nobody has open is looked at as it lies there, so that one that does not open is looked at too.
pub(crate) fn verify(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let dir = existing_store(args)?;
    let mut watch = progress::watch("verify");
    let closed = Db::builder(dir).verify_closed(VerifyOptions { progress: Some(&mut watch), ..Default::default() });
    let report = match closed {
        Err(error) if *error.kind() == ErrorKind::Locked => {
            Db::open_read_only(dir)?.verify(VerifyOptions { progress: Some(&mut watch), ..Default::default() })
        }
        other => other,
    }?;
    print(&report, output)
}

pub(crate) fn scrub(args: &Args, scrub: &args::Scrub, output: &mut Output) -> Result<Exit, Failure> {
    let resume = scrub.resume.as_deref().map(token).transpose()?;
    let db = if scrub.repair { open_to_repair(args, false)? } else { open_to_read(args)? };
    let mut watch = progress::watch("scrub");
    let report = db.scrub(ScrubOptions {
        bytes_per_second: scrub.rate,
        most_bytes: scrub.most,
        resume,
        repair: scrub.repair.then(RepairOptions::default),
        progress: Some(&mut watch),
    })?;
    db.close()?;
    print(&report, output)
}

pub(crate) fn repair(args: &Args, accept_loss: bool, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_repair(args, accept_loss)?;
    let mut watch = progress::watch("repair");
    let report = db.repair(RepairOptions { accept_loss, progress: Some(&mut watch), ..Default::default() })?;
    db.close()?;
    print(&report, output)
}

pub(crate) fn salvage(args: &Args, dest: &Path, accept_loss: bool, output: &mut Output) -> Result<Exit, Failure> {
    let dir = existing_store(args)?;
    let mut watch = progress::watch("salvage");
    let options = SalvageOptions { accept_loss, progress: Some(&mut watch) };
    let report = Db::builder(dir).salvage(dest, options)?;
    print(&report, output)
}

pub(crate) fn digest(args: &Args, span: &Span, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let cf = existing_family(&db, &args.cf)?;
    let digest = db.digest(&cf, bounds(args, span)?)?;
    output.line(format!("{}\t{:016x}", digest.count, digest.sum))?;
    output.object(&json!({ "cf": args.cf, "count": digest.count, "sum": format!("{:016x}", digest.sum) }))?;
    Ok(Exit::Ok)
}

fn open_to_repair(args: &Args, accept_loss: bool) -> Result<Db, Failure> {
    let builder = Db::builder(existing_store(args)?).create_if_missing(false).accept_loss(accept_loss);
    match builder.open() {
        Ok(db) => report_cut(db),
        Err(error) if error.is_corruption() => Err(Failure::new(
            Exit::Corruption,
            format!(
                "the store does not open, so it is not repaired in place: {error}; `salvage DEST` reads what can still be read"
            ),
        )),
        Err(error) => Err(error.into()),
    }
}

/// Prints the report; the exit code that it means, whoever reads it.
fn print(report: &Report, output: &mut Output) -> Result<Exit, Failure> {
    or_seen_enough(say(report, output))?;
    Ok(exit_of(report))
}

fn say(report: &Report, output: &mut Output) -> Result<(), Failure> {
    output.line(report.to_string())?;
    if let Some(token) = report.resume {
        output.line(format!("go on with --resume {}", text::hex(&token.to_bytes())))?;
    }
    output.object(&to_json(report, output))
}

fn exit_of(report: &Report) -> Exit {
    let unread = |finding: &Finding| finding.outcome == Outcome::Unread;
    let left = || report.damage.iter().filter(|finding| !is_settled(finding));
    match (left().count(), left().all(unread)) {
        (0, _) => Exit::Ok,
        (_, true) => Exit::Io,
        (_, false) => Exit::Corruption,
    }
}

/// True if nothing is left of it, or somebody said that it is to be forgotten.
fn is_settled(finding: &Finding) -> bool {
    matches!(finding.outcome, Outcome::Repaired(_) | Outcome::Accepted)
}

/// The report's own JSON, its keys as the tool prints bytes.
fn to_json(report: &Report, output: &Output) -> Value {
    let mut value: Value = serde_json::from_str(&report.json()).unwrap_or_default();
    let places = value["damage"].as_array_mut().into_iter().flatten();
    for (place, finding) in places.zip(&report.damage) {
        if let (Some(place), Some((from, to))) = (place.as_object_mut(), &finding.key_range) {
            place.insert("from".to_owned(), output.to_json(from));
            place.insert("to".to_owned(), output.to_json(to));
        }
    }
    value
}

fn token(digits: &str) -> Result<Token, Failure> {
    let bytes = text::unhex(digits).and_then(|bytes| <[u8; Token::BYTES]>::try_from(bytes).ok());
    bytes.map(|bytes| Token::from_bytes(&bytes)).ok_or_else(|| Failure::usage("--resume wants what a scrub printed"))
}
