//! changes, cursor: the change feed of a store.

use std::time::Duration;

use serde_json::{Value, json};
use waxseal::meta::{EXPIRY, Expiry, LABELS};
use waxseal::{Change, ChangeOperation, ChangePosition, Db, ErrorKind};

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::records::labels_object;
use crate::store::{open_to_change, open_to_read};
use crate::text;

/// How long one wait for further changes takes at most.
const STEP: Duration = Duration::from_millis(200);

/// Where the printed changes begin.
pub(crate) struct From<'a> {
    pub(crate) since: Option<&'a str>,
    pub(crate) cursor: Option<&'a str>,
}

impl From<'_> {
    fn position(&self, db: &Db) -> Result<ChangePosition, Failure> {
        if let Some(text) = self.since {
            return position(text);
        }
        if let Some(name) = self.cursor {
            return cursor_of(db, name);
        }
        db.oldest_change_position().ok_or_else(|| {
            Failure::not_found("the store keeps no log for a change feed: add a cursor, or set keep_log_bytes")
        })
    }
}

fn position(text: &str) -> Result<ChangePosition, Failure> {
    text.parse().map_err(|error: waxseal::Error| Failure::usage(error.to_string()))
}

fn cursor_of(db: &Db, name: &str) -> Result<ChangePosition, Failure> {
    let found = db.change_cursors().into_iter().find(|(known, _)| known == name);
    found.map(|(_, position)| position).ok_or_else(|| Failure::not_found(format!("there is no cursor {name:?}")))
}

/// Prints changes; with `follow`, also those that become durable later.
pub(crate) fn changes(
    args: &Args,
    from: From<'_>,
    follow: bool,
    limit: Option<u64>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let mut changes = db.changes_since(from.position(&db)?).map_err(failure)?;
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let next = match follow {
            false => changes.next().transpose(),
            true => changes.wait_next(Duration::ZERO),
        };
        match next.map_err(failure)? {
            Some(change) => {
                print(&change, &changes.position(), output)?;
                left -= 1;
            }
            None if follow => {
                output.flush()?; // before the wait
                if let Some(change) = changes.wait_next(STEP).map_err(failure)? {
                    print(&change, &changes.position(), output)?;
                    left -= 1;
                }
            }
            None => break,
        }
    }
    Ok(Exit::Ok)
}

fn failure(error: waxseal::Error) -> Failure {
    match error.kind() {
        ErrorKind::OutOfReach => Failure::new(Exit::CheckFailed, error.to_string()),
        _ => error.into(),
    }
}

fn print(change: &Change, position: &ChangePosition, output: &mut Output) -> Result<(), Failure> {
    let readable = |bytes: &[u8]| text::escape(bytes);
    let bound = |bytes: &Option<Vec<u8>>| bytes.as_deref().map_or("-".to_owned(), readable);
    let what = match &change.operation {
        ChangeOperation::Put { key, value } => format!("put\t{}\t{}", readable(key), readable(value)),
        ChangeOperation::Delete { key } => format!("delete\t{}", readable(key)),
        ChangeOperation::Merge { key, operand } => format!("merge\t{}\t{}", readable(key), readable(operand)),
        ChangeOperation::DeleteRange { start, end } => format!("delete-range\t{}\t{}", bound(start), bound(end)),
        ChangeOperation::DropFamily => "drop-family".to_owned(),
    };
    output.line(format!("{}\t{}\t{what}", change.seqno, change.family))?;
    output.object(&row(change, position, output)?)
}

fn row(change: &Change, position: &ChangePosition, output: &Output) -> Result<Value, Failure> {
    let bound = |bytes: &Option<Vec<u8>>| bytes.as_deref().map_or(Value::Null, |bytes| output.to_json(bytes));
    let mut row = json!({
        "seqno": change.seqno,
        "family": &*change.family,
        "family_id": change.family_id,
        "position": position.to_string(),
        "ends_commit": change.ends_commit,
    });
    let (operation, fields) = match &change.operation {
        ChangeOperation::Put { key, value } => {
            ("put", vec![("key", output.to_json(key)), ("value", output.to_json(value))])
        }
        ChangeOperation::Delete { key } => ("delete", vec![("key", output.to_json(key))]),
        ChangeOperation::Merge { key, operand } => {
            ("merge", vec![("key", output.to_json(key)), ("operand", output.to_json(operand))])
        }
        ChangeOperation::DeleteRange { start, end } => {
            ("delete_range", vec![("start", bound(start)), ("end", bound(end))])
        }
        ChangeOperation::DropFamily => ("drop_family", Vec::new()),
    };
    row["operation"] = operation.into();
    fields.into_iter().for_each(|(name, value)| row[name] = value);
    row["seal"] = change.seal.map_or(Value::Null, |seal| text::hex(&seal.to_bytes()).into());
    row["session"] = change.session.into();
    row["expires_micros"] = change.meta(EXPIRY)?.and_then(Expiry::read).into();
    row["labels"] = change.meta(LABELS)?.and_then(labels_object).into();
    Ok(row)
}

/// What `cursor` does.
pub(crate) enum CursorChange<'a> {
    List,
    Add(&'a str),
    Advance(&'a str, &'a str),
    Remove(&'a str),
}

impl<'a> CursorChange<'a> {
    pub(crate) fn of(
        (add, advance, remove): (Option<&'a str>, Option<&'a str>, Option<&'a str>),
        to: Option<&'a str>,
    ) -> CursorChange<'a> {
        match (add, advance.zip(to), remove) {
            (Some(name), ..) => CursorChange::Add(name),
            (_, Some((name, to)), _) => CursorChange::Advance(name, to),
            (.., Some(name)) => CursorChange::Remove(name),
            _ => CursorChange::List,
        }
    }
}

/// Lists the cursors, after adding, moving or removing one.
pub(crate) fn cursor(args: &Args, what: CursorChange<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let db = match what {
        CursorChange::List => open_to_read(args)?,
        _ => open_to_change(args)?,
    };
    match what {
        CursorChange::List => {}
        CursorChange::Add(name) => drop(db.change_cursor(name)?),
        CursorChange::Advance(name, to) => {
            cursor_of(&db, name)?;
            db.change_cursor(name)?.advance(position(to)?).map_err(failure)?;
        }
        CursorChange::Remove(name) => {
            cursor_of(&db, name)?;
            db.change_cursor(name)?.remove()?;
        }
    }
    let cursors = db.change_cursors();
    for (name, position) in &cursors {
        output.line(format!("{position}\t{name}"))?;
    }
    let rows: Vec<Value> =
        cursors.iter().map(|(name, position)| json!({ "name": name, "position": position.to_string() })).collect();
    let oldest = db.oldest_change_position().map(|position| position.to_string());
    db.close()?;
    output.object(&json!({ "ok": true, "cursors": rows, "oldest": oldest }))?;
    Ok(Exit::Ok)
}
