//! register, unregister, registrations, provenance, explain, lineage: registrations, and the history of keys and files.

use std::ffi::OsStr;
use std::time::Duration;

use serde_json::{Map, Value, json};
use waxseal::registry::{
    Event, Explanation, Lies, Lineage, Mode, Operation, RegisterOptions, Registration, Scope, Step, Target, Values,
};
use waxseal::{Db, KeyText, Session};
use waxseal_table::Tables;

use crate::args::{self, Args, Pair, Register};
use crate::failure::{Exit, Failure};
use crate::options;
use crate::output::Output;
use crate::payload;
use crate::records::labels;
use crate::store::{bytes_of, existing_family, open_to_change, open_to_read, session};
use crate::text::{counted, escape};
use crate::times;

/// The text that means any operation.
const ANY: &str = "*";

/// A store whose registry and log are used.
pub(crate) struct OpenRegistry {
    pub(crate) db: Db,
    /// The session of `--as`.
    pub(crate) who: Session,
    /// The tables of the store: targets name them while they are open.
    pub(crate) _tables: Option<Tables>,
}

impl OpenRegistry {
    /// Opens a registry for verbs that only read; works while another process writes.
    pub(crate) fn to_read(args: &Args) -> Result<OpenRegistry, Failure> {
        OpenRegistry::of(args, open_to_read(args)?)
    }

    /// Opens a registry for verbs that change it.
    fn to_change(args: &Args) -> Result<OpenRegistry, Failure> {
        OpenRegistry::of(args, open_to_change(args)?)
    }

    fn of(args: &Args, db: Db) -> Result<OpenRegistry, Failure> {
        let (who, tables) = (session(args, &db)?, Tables::open_existing(&db)?);
        Ok(OpenRegistry { db, who, _tables: tables })
    }
}

pub(crate) fn register(args: &Args, register: &Register, output: &mut Output) -> Result<Exit, Failure> {
    let OpenRegistry { db, who, _tables } = OpenRegistry::to_change(args)?;
    let (target, operation) = pair(&who, &register.pair)?;
    let options = chosen(register, &target, operation);
    let is_new = who.register_with(&target, operation, options)?;
    let row = RegistrationRow::of(&who, &Registration { target, operation, options })?;
    db.close()?;
    output.line(format!("{}\t{}", if is_new { "registered" } else { "changed" }, row.line()))?;
    let warning = operation.and_then(Operation::warning);
    warn(warning);
    let mut object = row.json();
    if let Some(warning) = warning {
        object.insert("warning".to_owned(), warning.into());
    }
    object.insert("ok".to_owned(), true.into());
    object.insert("new".to_owned(), is_new.into());
    output.object(&Value::Object(object))?;
    Ok(Exit::Ok)
}

/// Prints on standard error what a registration of an operation does not log.
pub(crate) fn warn(warning: Option<&str>) {
    if let Some(warning) = warning {
        eprintln!("waxseal: {warning}");
    }
}

/// Returns the options given, and the pair's defaults for the others.
fn chosen(register: &Register, target: &Target, operation: Option<Operation>) -> RegisterOptions {
    let suited = RegisterOptions::suited(target, operation);
    RegisterOptions {
        scope: match (register.exact, register.subtree) {
            (true, _) => Scope::Exact,
            (_, true) => Scope::Subtree,
            _ => suited.scope,
        },
        mode: register.mode.map_or(suited.mode, |mode| match mode {
            args::ModeArg::Sync => Mode::Sync,
            args::ModeArg::Async => Mode::Async,
            args::ModeArg::Deferred => Mode::Deferred,
        }),
        values: register.values.map_or(suited.values, |values| match values {
            args::ValuesArg::None => Values::None,
            args::ValuesArg::New => Values::New,
            args::ValuesArg::OldNew => Values::OldNew,
            args::ValuesArg::Hash => Values::Hash,
        }),
        retention: register.retention.map(Duration::from_secs).or(suited.retention),
        history: register.history || suited.history,
    }
}

pub(crate) fn unregister(args: &Args, said: &Pair, output: &mut Output) -> Result<Exit, Failure> {
    let OpenRegistry { db, who, _tables } = OpenRegistry::to_change(args)?;
    let (target, operation) = pair(&who, said)?;
    let was_there = who.unregister(&target, operation)?;
    db.close()?;
    if !was_there {
        return Err(Failure::not_found(format!("{} is not registered on {}", said.operation, said.target)));
    }
    output.line(format!("unregistered\t{}\t{}", said.target, said.operation))?;
    output.changed(&json!({ "ok": true, "target": said.target, "operation": said.operation }))?;
    Ok(Exit::Ok)
}

pub(crate) fn registrations(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let OpenRegistry { who, _tables, .. } = OpenRegistry::to_read(args)?;
    for registration in who.registrations()? {
        let row = RegistrationRow::of(&who, &registration)?;
        output.line(row.line())?;
        output.object(&Value::Object(row.json()))?;
    }
    Ok(Exit::Ok)
}

pub(crate) fn provenance(args: &Args, key: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let OpenRegistry { db, who, _tables } = OpenRegistry::to_read(args)?;
    let cf = existing_family(&db, args.cf())?;
    let (known, labels) = (who.provenance(&cf, &key)?, labels(&cf, &key)?);
    if known.watched_by.is_empty() && known.events.is_empty() && labels.is_none() {
        return Err(Failure::not_found(format!("{} is not watched, and nothing is logged of it", KeyText(&key))));
    }
    let rows = known.watched_by.iter().map(|registration| RegistrationRow::of(&who, registration));
    let rows = rows.collect::<Result<Vec<RegistrationRow>, Failure>>()?;
    let events = events_json(&who, &known.events, output)?;
    output.line(format!("target\t{}", who.target_text(&known.target)?))?;
    for (name, text) in labels.iter().filter_map(Value::as_object).flatten() {
        output.line(format!("label\t{name}\t{}", text.as_str().unwrap_or_default()))?;
    }
    for row in &rows {
        output.line(format!("watched\t{}", row.line()))?;
    }
    for event in &known.events {
        output.line(format!("event\t{}", event_line(&who, event, output)?))?;
    }
    output.object(&json!({
        "target": who.target_text(&known.target)?,
        "labels": labels,
        "watched_by": rows.into_iter().map(|row| Value::Object(row.json())).collect::<Value>(),
        "events": events,
    }))?;
    Ok(Exit::Ok)
}

pub(crate) fn explain(args: &Args, key: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let OpenRegistry { db, who, _tables } = OpenRegistry::to_read(args)?;
    let cf = existing_family(&db, args.cf())?;
    let known = who.explain(&cf, &key)?;
    if known.seqno.is_none() && known.events.is_empty() {
        return Err(Failure::not_found(format!("nothing is known of {}", KeyText(&key))));
    }
    explain_lines(&who, &known, output)?;
    let object = explain_json(&who, &known, output)?;
    output.object(&object)?;
    Ok(Exit::Ok)
}

fn explain_lines(who: &Session, known: &Explanation, output: &mut Output) -> Result<(), Failure> {
    let value = known.value.as_ref().map(|value| {
        let size = counted(value.len() as u64, "byte", "bytes");
        if value.is_empty() { size } else { format!("{size}, {}", payload::cut(value, output)) }
    });
    let mut line = |name: &str, text: String| output.line(format!("{name:<9} {text}"));
    line("target", who.target_text(&known.target)?)?;
    line("value", value.unwrap_or_else(|| "none".to_owned()))?;
    line("verdict", known.verdict.clone())?;
    if let Some(seqno) = known.seqno {
        line("seqno", seqno.to_string())?;
    }
    if let Some(seal) = known.seal {
        line("seal", crate::text::hex(&seal.to_bytes()))?;
    }
    if let Some((client, time)) = &known.written {
        line("written", format!("by {client} at {}", times::text(*time)))?;
    }
    match &known.lies {
        Some(Lies::Memory) => line("lies", "in memory and in the log".to_owned())?,
        Some(Lies::Table { uid, file, level, offset }) => {
            line("lies", format!("in {file} ({uid:?}), level {level}, block at {offset}"))?
        }
        None => {}
    }
    if let Some(time) = known.verified {
        line("verified", times::text(time))?;
    }
    for event in &known.events {
        let text = event_line(who, event, output)?;
        output.line(format!("{:<9} {text}", "event"))?;
    }
    for step in &known.lineage.steps {
        let text = step_line(who, step, output)?;
        output.line(format!("{:<9} {text}", "lineage"))?;
    }
    Ok(())
}

fn explain_json(who: &Session, known: &Explanation, output: &Output) -> Result<Value, Failure> {
    Ok(json!({
        "target": who.target_text(&known.target)?,
        "value": known.value.as_ref().map(|value| output.to_json(value)),
        "verdict": known.verdict,
        "seqno": known.seqno,
        "seal": known.seal.map(|seal| crate::text::hex(&seal.to_bytes())),
        "written": known.written.as_ref().map(|(client, time)| json!({ "client": client, "time": times::text(*time) })),
        "lies": known.lies.as_ref().map(|lies| match lies {
            Lies::Memory => json!({ "in": "memory" }),
            Lies::Table { uid, file, level, offset } => {
                json!({ "in": "table", "uid": format!("{uid:?}"), "file": file, "level": level, "offset": offset })
            }
        }),
        "verified": known.verified.map(times::text),
        "events": events_json(who, &known.events, output)?,
        "lineage": lineage_json(who, &known.lineage, output)?,
    }))
}

pub(crate) fn lineage(args: &Args, file: &str, output: &mut Output) -> Result<Exit, Failure> {
    let OpenRegistry { db, who, _tables } = OpenRegistry::to_read(args)?;
    let file = file.rsplit('/').next().unwrap_or(file);
    let lineage = match who.lineage(file) {
        Ok(lineage) => lineage,
        Err(error) if *error.kind() == waxseal::ErrorKind::Invalid && has_registry(&db) => {
            return Err(Failure::not_found(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    if lineage.steps.is_empty() {
        return Err(Failure::not_found(format!("the log says nothing of {file}")));
    }
    for step in &lineage.steps {
        output.line(step_line(&who, step, output)?)?;
    }
    for object in lineage_json(&who, &lineage, output)?.as_array().into_iter().flatten() {
        output.object(object)?;
    }
    Ok(Exit::Ok)
}

fn has_registry(db: &Db) -> bool {
    db.registry().registrations().is_ok()
}

fn step_line(who: &Session, step: &Step, output: &Output) -> Result<String, Failure> {
    Ok(format!("{}\t{}", step.back, event_line(who, &step.event, output)?))
}

fn lineage_json(who: &Session, lineage: &Lineage, output: &Output) -> Result<Value, Failure> {
    let step = |step: &Step| {
        let mut object = event_json(who, &step.event, output)?;
        object.insert("back".to_owned(), step.back.into());
        Ok(Value::Object(object))
    };
    lineage.steps.iter().map(step).collect()
}

/// Parses target and operation of the command line.
fn pair(who: &Session, pair: &Pair) -> Result<(Target, Option<Operation>), Failure> {
    Ok((who.target(&pair.target)?, operation(who, &pair.operation)?))
}

/// Parses the operation of the command line; `None`: any.
pub(crate) fn operation(who: &Session, name: &str) -> Result<Option<Operation>, Failure> {
    if name == ANY { Ok(None) } else { Ok(Some(who.operation(name)?)) }
}

/// A registration to be printed.
struct RegistrationRow {
    target: String,
    operation: String,
    options: RegisterOptions,
}

impl RegistrationRow {
    fn of(who: &Session, registration: &Registration) -> Result<RegistrationRow, Failure> {
        let operation = registration.operation.map_or(Ok(ANY.to_owned()), |operation| who.operation_name(operation))?;
        Ok(RegistrationRow { target: who.target_text(&registration.target)?, operation, options: registration.options })
    }

    fn line(&self) -> String {
        format!("{}\t{}\t{}", self.target, self.operation, self.options)
    }

    fn json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("target".to_owned(), self.target.as_str().into());
        object.insert("operation".to_owned(), self.operation.as_str().into());
        object.append(&mut options::json(&self.options));
        object
    }
}

pub(crate) fn print_event(who: &Session, event: &Event, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        let object = event_json(who, event, output)?;
        return output.object(&Value::Object(object));
    }
    let line = event_line(who, event, output)?;
    output.line(line)
}

/// Formats an event on a line: time, client, operation, target, seqno, payload.
pub(crate) fn event_line(who: &Session, event: &Event, output: &Output) -> Result<String, Failure> {
    let key = &event.key;
    let (operation, target) = (who.operation_name(key.operation)?, who.target_text(&key.target)?);
    let client = escape(key.client.as_bytes());
    let mut line = format!("{}\t{client}\t{operation}\t{target}\t{}", times::text(key.time), key.seqno);
    if !event.payload.is_empty() {
        line.push('\t');
        line.push_str(&payload::line(who, &event.payload, output));
    }
    Ok(line)
}

fn event_json(who: &Session, event: &Event, output: &Output) -> Result<Map<String, Value>, Failure> {
    let key = &event.key;
    let mut object = Map::new();
    object.insert("time".to_owned(), times::text(key.time).into());
    object.insert("micros".to_owned(), key.time.micros().into());
    object.insert("client".to_owned(), key.client.as_str().into());
    object.insert("operation".to_owned(), who.operation_name(key.operation)?.into());
    object.insert("target".to_owned(), who.target_text(&key.target)?.into());
    object.insert("seqno".to_owned(), key.seqno.into());
    object.insert("payload".to_owned(), payload::json(who, &event.payload, output));
    Ok(object)
}

fn events_json(who: &Session, events: &[Event], output: &Output) -> Result<Value, Failure> {
    events.iter().map(|event| Ok(Value::Object(event_json(who, event, output)?))).collect()
}
