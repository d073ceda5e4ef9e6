//! verify, scrub, repair, salvage, digest: integrity maintenance.
//!
//! Each verb prints a report, as text or as one JSON object. The last line states the outcome and, if work is left, the
//! next command; the exit code follows the outcome. Remaining damage makes it 3, whatever else was found. A file that
//! could not be read makes it 4. A reader that closes the pipe early changes neither.

use std::path::Path;

use serde_json::{Value, json};
use waxseal::care::{Finding, Outcome, StoreUid, Token};
use waxseal::{Db, Error, ErrorKind, RepairOptions, Report, SalvageOptions, ScrubOptions, VerifyOptions};
use waxseal_table::Tables;

use crate::args::{self, Args, Span};
use crate::failure::{Exit, Failure};
use crate::output::{Output, or_seen_enough};
use crate::progress;
use crate::records::bounds;
use crate::store::{existing_family, existing_store, open_to_read, report_cut, salvageable};
use crate::text::{self, counted};

/// A store that no process has open is verified without opening it, so that an unopenable store can be verified too.
pub(crate) fn verify(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let dir = existing_store(args)?;
    let mut watch = progress::watch("verify");
    let closed = Db::builder(dir).verify_closed(VerifyOptions { progress: Some(&mut watch), ..Default::default() });
    let report = match closed {
        Err(error) if *error.kind() == ErrorKind::Locked => {
            Db::open_read_only(dir)?.verify(VerifyOptions { progress: Some(&mut watch), ..Default::default() })
        }
        other => other,
    };
    let report = report.map_err(|error| advise(error, dir))?;
    print(CareVerb::Verify, &report, dir, output)
}

pub(crate) fn scrub(args: &Args, scrub: &args::Scrub, output: &mut Output) -> Result<Exit, Failure> {
    let resume = scrub.resume.as_deref().map(token).transpose()?;
    let db = if scrub.repair { open_to_repair(args, false)? } else { open_to_read(args)? };
    let mut watch = progress::watch("scrub");
    let verb = if scrub.repair { CareVerb::Repair } else { CareVerb::Verify };
    let report = db.scrub(ScrubOptions {
        bytes_per_second: scrub.rate,
        most_bytes: scrub.most,
        resume,
        repair: scrub.repair.then(RepairOptions::default),
        progress: Some(&mut watch),
    })?;
    db.close()?;
    print(verb, &report, existing_store(args)?, output)
}

pub(crate) fn repair(args: &Args, accept_loss: bool, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_repair(args, accept_loss)?;
    let mut watch = progress::watch("repair");
    let report = db.repair(RepairOptions { accept_loss, progress: Some(&mut watch), ..Default::default() })?;
    db.close()?;
    print(CareVerb::Repair, &report, existing_store(args)?, output)
}

pub(crate) fn salvage(
    args: &Args,
    dest: &Path,
    accept_loss: bool,
    stores: &[StoreUid],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let dir = salvageable(args)?;
    let mut watch = progress::watch("salvage");
    let options = SalvageOptions { accept_loss, stores: stores.to_vec(), progress: Some(&mut watch) };
    let report = Db::builder(dir).salvage(dest, options)?;
    print(CareVerb::Salvage, &report, dest, output)
}

pub(crate) fn digest(args: &Args, span: &Span, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let cf = existing_family(&db, args.cf())?;
    let digest = db.digest(&cf, bounds(args, span)?)?;
    output.line(format!("{}\t{:016x}", digest.count, digest.sum))?;
    output.object(&json!({ "cf": args.cf(), "count": digest.count, "sum": format!("{:016x}", digest.sum) }))?;
    Ok(Exit::Ok)
}

fn open_to_repair(args: &Args, accept_loss: bool) -> Result<Db, Failure> {
    let dir = existing_store(args)?;
    match Db::builder(dir).create_if_missing(false).accept_loss(accept_loss).open() {
        Ok(db) => report_cut(db),
        Err(error) => Err(advise(error, dir)),
    }
}

/// A store that cannot be opened is not repaired in place; the failure names the command that salvages it.
fn advise(error: Error, dir: &Path) -> Failure {
    let is_corruption = error.is_corruption();
    let failure = Failure::from(error);
    if !is_corruption {
        return failure;
    }
    failure.explain(format!("the store does not open; next: waxseal -d {} salvage NEW_DIR", text::shell_word(dir)))
}

/// The verb that a report belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CareVerb {
    Verify,
    Repair,
    Salvage,
}

/// Prints the report and returns the exit code of its outcome. `dir` is the store for the next command.
fn print(verb: CareVerb, report: &Report, dir: &Path, output: &mut Output) -> Result<Exit, Failure> {
    or_seen_enough(write_report(verb, report, dir, output))?;
    Ok(exit_of(report))
}

fn write_report(verb: CareVerb, report: &Report, dir: &Path, output: &mut Output) -> Result<(), Failure> {
    let body = report.to_string();
    output.line(body.strip_suffix(report.outcome()).unwrap_or(&body).trim_end())?;
    output.line(closing_line(verb, report, dir))?;
    output.object(&to_json(report, output))
}

/// Returns the outcome, and the next command if work is left.
fn closing_line(verb: CareVerb, report: &Report, dir: &Path) -> String {
    let dir = text::shell_word(dir);
    let lost = counted(report.lost, "record is", "records are");
    let known_lost = if report.lost > 0 { format!("{lost} lost, ") } else { String::new() };
    let accept = format!("restore them from a backup, or give them up: waxseal -d {dir} repair --accept-loss");
    let has_given_up_tables = report.damage.iter().any(is_given_up_of_table);
    let indexes = if has_given_up_tables { format!("; next: waxseal -d {dir} table repair") } else { String::new() };
    if let Some(token) = report.resume {
        let rest = format!("to be continued; next: waxseal -d {dir} scrub --resume {}", text::hex(&token.to_bytes()));
        return if report.is_clean() { rest } else { format!("damaged; {rest}") };
    }
    match (verb, exit_of(report)) {
        (_, Exit::Ok) if report.cancelled => "ended before it was complete".to_owned(),
        (CareVerb::Salvage, Exit::Ok) if !has(report, Outcome::Accepted) => {
            format!("everything was salvaged; next: waxseal -d {dir} verify")
        }
        (_, Exit::Ok) if report.damage.is_empty() => "no damage".to_owned(),
        (_, Exit::Ok) if report.lost > 0 => format!("all damage was settled; {lost} given up for good{indexes}"),
        (_, Exit::Ok) if has(report, Outcome::Accepted) => {
            format!("all damage was settled; the lost ranges are given up for good{indexes}")
        }
        (_, Exit::Ok) => "all damage was repaired".to_owned(),
        (CareVerb::Salvage, Exit::Io) => {
            "incomplete: a file could not be read; next: the same command once the device answers".to_owned()
        }
        (_, Exit::Io) => "not all of it could be read; next: the same command once the device answers".to_owned(),
        (CareVerb::Verify, _) if report.unopened => {
            format!("damaged, the store does not open; next: waxseal -d {dir} salvage NEW_DIR")
        }
        (CareVerb::Verify, _) => format!("damaged; next: waxseal -d {dir} repair"),
        (CareVerb::Repair, _) => format!("damaged: {known_lost}reads of the lost ranges fail; next: {accept}"),
        (CareVerb::Salvage, _) if report.lost == 0 && !has(report, Outcome::Fenced) => {
            format!(
                "no record that was found is lost, but missing files would not be noticed; next: waxseal -d {dir} verify"
            )
        }
        (CareVerb::Salvage, _) => format!("incomplete: {lost} lost, reads of the lost ranges fail; next: {accept}"),
    }
}

/// Returns true if the loss of a table's rows or entries was accepted: its indexes may differ from the rows.
fn is_given_up_of_table(finding: &Finding) -> bool {
    let is_of_table = finding.family.as_ref().is_some_and(|family| Tables::has_family(family));
    is_of_table && finding.outcome == Outcome::Accepted
}

fn has(report: &Report, outcome: Outcome) -> bool {
    report.damage.iter().any(|finding| finding.outcome == outcome)
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

/// Returns true if the damage was repaired, or its loss was accepted.
fn is_settled(finding: &Finding) -> bool {
    matches!(finding.outcome, Outcome::Repaired(_) | Outcome::Accepted | Outcome::LeftAlone)
}

/// Converts the report to JSON, with keys in the tool's format for bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome, lost: u64) -> Report {
        Report { damage: vec![Finding { outcome, ..Finding::default() }], lost, ..Report::default() }
    }

    #[test]
    fn the_closing_line_names_the_next_command_of_each_outcome() {
        let line = |verb, report: &Report| (exit_of(report), closing_line(verb, report, Path::new("my store")));
        let clean = Report::default();
        assert_eq!(line(CareVerb::Verify, &clean), (Exit::Ok, "no damage".to_owned()));
        let (exit, text) = line(CareVerb::Verify, &report(Outcome::Reported, 0));
        assert_eq!((exit, text.as_str()), (Exit::Corruption, "damaged; next: waxseal -d 'my store' repair"));
        let (exit, text) = line(CareVerb::Repair, &report(Outcome::Fenced, 2));
        assert!(exit == Exit::Corruption && text.starts_with("damaged: 2 records are lost"), "{text}");
        assert!(text.ends_with("waxseal -d 'my store' repair --accept-loss"), "{text}");
        let (exit, text) = line(CareVerb::Salvage, &report(Outcome::Unread, 0));
        assert!(exit == Exit::Io && text.starts_with("incomplete"), "{text}");
        let (exit, text) = line(CareVerb::Repair, &report(Outcome::Accepted, 1));
        assert_eq!((exit, text.as_str()), (Exit::Ok, "all damage was settled; 1 record is given up for good"));
        let (_, text) = line(CareVerb::Salvage, &report(Outcome::Accepted, 1));
        assert_eq!(text, "all damage was settled; 1 record is given up for good");
        assert!(line(CareVerb::Salvage, &clean).1.starts_with("everything was salvaged"));
        let finding = |family: &str| Finding {
            family: Some(family.to_owned()),
            outcome: Outcome::Accepted,
            ..Finding::default()
        };
        for (family, next) in [("waxseal_tables-1-rows", "; next: waxseal -d 'my store' table repair"), ("default", "")]
        {
            let of_family = Report { damage: vec![finding(family)], lost: 1, ..Report::default() };
            let expected = format!("all damage was settled; 1 record is given up for good{next}");
            assert_eq!(line(CareVerb::Repair, &of_family).1, expected);
        }
        // an earlier repair counted the records
        let (exit, text) = line(CareVerb::Repair, &report(Outcome::Accepted, 0));
        assert_eq!((exit, text.as_str()), (Exit::Ok, "all damage was settled; the lost ranges are given up for good"));
    }

    #[test]
    fn a_store_without_current_is_salvaged_and_nothing_is_called_lost() {
        let finding = Finding { file: "CURRENT".to_owned(), ..Finding::default() };
        let report = Report { damage: vec![finding], unopened: true, ..Report::default() };
        let line = |verb| closing_line(verb, &report, Path::new("store"));
        assert!(line(CareVerb::Verify).ends_with("waxseal -d store salvage NEW_DIR"), "{}", line(CareVerb::Verify));
        assert!(line(CareVerb::Salvage).starts_with("no record that was found is lost"), "{}", line(CareVerb::Salvage));
    }
}
