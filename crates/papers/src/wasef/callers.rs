//! The same calls from Rust, C and Python: one script, whose answers are compared line by line.
//!
//! ```text
//! tests/callers/script      calls as lines: a verb and its words, `-` for none
//! here                      through the crate `waxseal`, whose answers are the reference
//! tests/callers/script.c    through waxseal.h, compiled now, linked to the library beside this program
//! tests/callers/script.py   through the package `waxseal`, by both of its backends
//! tests/callers/answers     the common answers, for the tests of each
//! ```
//!
//! Answers are printed completely: events with their names, seqnos and fields, registrations with their options, errors
//! by their C number. Times are printed if the script set them. So any difference that a caller can see makes two
//! answers differ.

use super::Run;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use waxseal::registry::{
    Event, Field, Image, Lies, Mode, Operation, Paging, Payload, Query, RegisterOptions, Registration, Scope, Target,
    Time, Values,
};
use waxseal::{ColumnFamily, Db, Error, ErrorKind, Identity, Result, Session};
use waxseal_bench::Outcome;

/// The script.
pub(super) const SCRIPT: &str = include_str!("../../../../tests/callers/script");

/// Returns the answers of this crate.
pub(super) fn here(dir: &Path) -> Outcome<String> {
    let mut caller = Caller::open(&dir.join("here"))?;
    for line in SCRIPT.lines() {
        let _ = writeln!(caller.out, "> {line}");
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.resize(8, "-");
        if let Err(error) = caller.carry_out(&words) {
            let number = number_of(error.kind()).ok_or_else(|| format!("{line}: {error}"))?;
            let _ = writeln!(caller.out, "status {number}");
        }
    }
    Ok(caller.out)
}

/// Returns the C number of an error.
fn number_of(kind: &ErrorKind) -> Option<i32> {
    match kind {
        ErrorKind::Invalid => Some(-4),
        ErrorKind::Closed => Some(-9),
        _ => None,
    }
}

struct Caller {
    path: PathBuf,
    db: Db,
    who: Session,
    family: ColumnFamily,
    name: String,
    how: String,
    family_name: String,
    out: String,
}

impl Caller {
    fn open(path: &Path) -> Result<Caller> {
        let db = Db::open(path)?;
        let (who, family) = (db.nobody(), db.column_family("default")?);
        let [name, how, family_name] = ["-", "-", "default"].map(str::to_owned);
        Ok(Caller { path: path.to_owned(), db, who, family, name, how, family_name, out: "ok\n".to_owned() })
    }

    fn say(&mut self, answer: &str) {
        self.out.push_str(answer);
        self.out.push('\n');
    }

    fn ok(&mut self) -> Result<()> {
        self.say("ok");
        Ok(())
    }

    fn yes(&mut self, yes: bool) -> Result<()> {
        self.say(if yes { "yes" } else { "no" });
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> Result<()> {
        for event in events {
            let line = told(&self.who, event)?;
            self.say(&line);
        }
        self.ok()
    }

    fn registrations(&mut self, found: &[Registration]) -> Result<()> {
        for registration in found {
            let line = registered(&self.who, registration)?;
            self.say(&line);
        }
        Ok(())
    }

    /// Reopens session and family by the names used last.
    fn take(&mut self) -> Result<()> {
        self.who = match (self.name.as_str(), self.how.as_str()) {
            ("-", _) => self.db.nobody(),
            (name, "-") => self.db.session(name)?,
            (name, how) => self.db.session(Identity::named(name).authenticated(how))?,
        };
        self.family = self.who.column_family(&self.family_name)?;
        self.ok()
    }

    fn pair(&self, target: &str, operation: &str) -> Result<(Target, Option<Operation>)> {
        let target = self.who.target(target)?;
        let operation = if operation == "*" || operation == "-" { None } else { Some(self.who.operation(operation)?) };
        Ok((target, operation))
    }

    fn query(&self, words: &[&str], from: &str, to: &str) -> Result<Query> {
        let (target, operation) = self.pair(words[1], words[2])?;
        let time = |word: &str, otherwise| word.parse().map_or(otherwise, Time::from_micros);
        // Include all events within the last microsecond.
        let last = to.parse().map_or(Time::LAST, |micros: u64| Time(Time::from_micros(micros + 1).0 - 1));
        Ok(Query { operation, from: time(from, Time::FIRST), to: last, ..Query::of(target) })
    }

    fn carry_out(&mut self, words: &[&str]) -> Result<()> {
        match words[0] {
            "session" => {
                (self.name, self.how) = (words[1].to_owned(), words[2].to_owned());
                self.take()
            }
            "family" => {
                self.family_name = words[1].to_owned();
                self.take()
            }
            "put" => self.family.put(words[1], words[2]).and_then(|()| self.ok()),
            "delete" => self.family.delete(words[1]).and_then(|()| self.ok()),
            "drop" => self.who.drop_column_family(words[1]).and_then(|()| self.ok()),
            "flush" => self.db.flush().and_then(|()| self.ok()),
            "leave" => self.who.clone().close().and_then(|()| self.ok()),
            "define" => {
                let number = self.who.define_operation(words[1])?.number();
                self.say(&format!("number {number}"));
                self.ok()
            }
            "register" => self.register(words),
            "unregister" => {
                let (target, operation) = self.pair(words[1], words[2])?;
                let was_there = self.who.unregister(target, operation)?;
                self.yes(was_there)
            }
            "registered" => {
                let (target, operation) = self.pair(words[1], words[2])?;
                let is_there = self.who.is_registered(target, operation)?;
                self.yes(is_there)
            }
            "registrations" => {
                let found = self.who.registrations()?;
                self.registrations(&found)?;
                self.ok()
            }
            "add" => {
                let time = words[3].parse().ok().map(Time::from_micros);
                let (target, operation) = self.pair(words[1], words[2])?;
                let operation = operation.ok_or_else(|| Error::invalid("any operation"))?;
                let seqno = self.who.log_add(target, operation, time, Payload::text(words[4]))?;
                self.say(&format!("seqno {seqno}"));
                self.ok()
            }
            "all" => {
                let (target, operation) = self.pair(words[1], words[2])?;
                let found = self.who.query_all(target, operation)?;
                self.events(&found)
            }
            "latest" => {
                let (target, operation) = self.pair(words[1], words[2])?;
                match self.who.query_latest(target, operation)? {
                    Some(event) => self.events(&[event]),
                    None => {
                        self.say("none");
                        Ok(())
                    }
                }
            }
            "span" => {
                let page = self.who.log_query(&self.query(words, words[3], words[4])?, &Paging::ALL)?;
                self.events(&page.events)
            }
            "forget" => {
                let deleted = self.who.log_delete(&self.query(words, words[3], words[4])?)?;
                self.say(&format!("deleted {deleted}"));
                self.ok()
            }
            "pages" => self.pages(words),
            "provenance" => {
                let known = self.who.provenance(&self.family, words[1])?;
                self.registrations(&known.watched_by)?;
                self.events(&known.events)
            }
            "explain" => self.explain(words[1]),
            "reopen" => {
                self.db.close()?;
                self.say("ok");
                self.db = Db::open(&self.path)?;
                self.say("ok");
                self.take()
            }
            "close" => self.db.close().and_then(|()| self.ok()),
            other => Err(Error::invalid(format!("what is {other}?"))),
        }
    }

    fn register(&mut self, words: &[&str]) -> Result<()> {
        let (target, operation) = self.pair(words[1], words[2])?;
        let suited = RegisterOptions::suited(&target, operation);
        let of = |words: &[&str], word: &str| words.iter().position(|known| *known == word);
        let options = RegisterOptions {
            scope: of(&SCOPES, words[3]).map_or(suited.scope, |at| [Scope::Exact, Scope::Subtree][at]),
            mode: of(&MODES, words[4]).map_or(suited.mode, |at| [Mode::Sync, Mode::Async, Mode::Deferred][at]),
            values: of(&VALUES, words[5])
                .map_or(suited.values, |at| [Values::None, Values::New, Values::OldNew, Values::Hash][at]),
            history: if words[6] == "-" { suited.history } else { words[6] == "yes" },
            retention: words[7].parse().map_or(suited.retention, |micros| Some(Duration::from_micros(micros))),
        };
        let is_new = self.who.register_with(target, operation, options)?;
        self.yes(is_new)
    }

    fn pages(&mut self, words: &[&str]) -> Result<()> {
        let (target, operation) = self.pair(words[1], words[2])?;
        let client = (words[3] != "-").then(|| words[3].to_owned());
        let query = Query { below: true, operation, client, ..Query::of(target) };
        let mut paging = Paging::first(words[4].parse().unwrap_or(usize::MAX));
        let mut found = Vec::new();
        loop {
            let page = self.who.log_query(&query, &paging)?;
            found.extend(page.events);
            match page.next {
                Some(next) => paging.after = Some(next),
                None => return self.events(&found),
            }
        }
    }

    fn explain(&mut self, key: &str) -> Result<()> {
        let known = self.who.explain(&self.family, key)?;
        let none = || "none".to_owned();
        let lies = match &known.lies {
            None => "nowhere",
            Some(Lies::Memory) => "memory",
            Some(Lies::Table { .. }) => "table",
        };
        let line = format!(
            "explained {} {} value={} writer={} lies={lies} seal={}{}",
            self.who.target_text(&known.target)?,
            known.verdict,
            known.value.as_deref().map_or_else(none, hex),
            known.written.as_ref().map_or("", |(who, _)| who.as_str()),
            known.seal.map_or_else(none, |seal| hex(&seal.to_bytes())),
            known.seqno.map(|seqno| format!(" seqno {seqno}")).unwrap_or_default(),
        );
        self.say(&line);
        self.events(&known.events)
    }
}

const SCOPES: [&str; 2] = ["exact", "subtree"];
const MODES: [&str; 3] = ["sync", "async", "deferred"];
const VALUES: [&str; 4] = ["none", "new", "old_new", "hash"];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn told(who: &Session, event: &Event) -> Result<String> {
    let key = &event.key;
    let mut line =
        format!("event {} {} {}", who.target_text(&key.target)?, who.operation_name(key.operation)?, key.client);
    if key.time.micros() < 1_000_000_000 {
        let _ = write!(line, " at {}", key.time.micros());
    }
    let _ = write!(line, " seqno {}", key.seqno);
    for field in event.payload.fields() {
        line.push(' ');
        line.push_str(&of_field(field));
    }
    Ok(line)
}

/// Formats a field. The fields that the script produces have a case here; a field without one makes the answers differ.
fn of_field(field: &Field) -> String {
    let image = |image: &Image| match image {
        Image::Absent => "absent".to_owned(),
        Image::Value(value) => hex(value),
        Image::Seal(seal) => hex(&seal.to_bytes()),
    };
    match field {
        Field::Text(text) => format!("text={}", hex(text)),
        Field::Setting((name, value)) => format!("setting={}:{}", hex(name.as_bytes()), hex(value.as_bytes())),
        Field::OldValue(old) => format!("old_value={}", image(old)),
        Field::NewValue(new) => format!("new_value={}", image(new)),
        Field::Authenticated(how) => format!("authenticated={}", hex(how.as_bytes())),
        Field::Via(path) => format!("via={}", hex(path.to_string().as_bytes())),
        Field::Options(options) => format!("options={}", hex(options)),
        other => format!("{other:?}"),
    }
}

fn registered(who: &Session, registration: &Registration) -> Result<String> {
    let operation = registration.operation.map_or(Ok("*".to_owned()), |operation| who.operation_name(operation))?;
    let RegisterOptions { scope, mode, values, history, retention } = registration.options;
    let retention = retention.map_or("forever".to_owned(), |retention| retention.as_micros().to_string());
    Ok(format!(
        "registration {} {operation} {} {} {} {} {retention}",
        who.target_text(&registration.target)?,
        SCOPES[usize::from(scope != Scope::Exact)],
        MODES[match mode {
            Mode::Sync => 0,
            Mode::Async => 1,
            Mode::Deferred => 2,
        }],
        VALUES[match values {
            Values::None => 0,
            Values::New => 1,
            Values::OldNew => 2,
            Values::Hash => 3,
        }],
        if history { "yes" } else { "no" },
    ))
}

/// Returns the answers of C, or the reason why they are missing: no compiler or no library.
pub(super) fn in_c(dir: &Path) -> Outcome<std::result::Result<String, String>> {
    let Some(folder) = beside().filter(|folder| folder.join("libwaxseal.so").exists()) else {
        return Ok(Err("there is no libwaxseal.so beside this program: build waxseal-ffi".to_owned()));
    };
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if Command::new(&cc).arg("--version").output().is_err() {
        return Ok(Err("there is no C compiler".to_owned()));
    }
    let header = include_str!("../../../ffi/include/waxseal.h");
    let source = include_str!("../../../../tests/callers/script.c");
    std::fs::write(dir.join("waxseal.h"), header)?;
    std::fs::write(dir.join("script.c"), source)?;
    let program = dir.join("script");
    let mut compile = Command::new(cc);
    compile.arg("-O1").arg("-o").arg(&program).arg(dir.join("script.c")).arg("-I").arg(dir);
    compile.arg("-L").arg(&folder).arg("-lwaxseal").arg(format!("-Wl,-rpath,{}", folder.display()));
    let compiled = compile.output()?;
    if !compiled.status.success() {
        return Ok(Err(format!("script.c does not link: {}", String::from_utf8_lossy(&compiled.stderr).trim())));
    }
    carried_out(Command::new(program).arg(dir.join("c"))).map(Ok)
}

/// Returns the answers of Python with one of the two backends, or the reason why they are missing: the package is not
/// installed.
pub(super) fn in_python(run: &Run, dir: &Path, backend: &str) -> Outcome<std::result::Result<String, String>> {
    let Some(python) = python(run) else {
        return Ok(Err("no Python has the package waxseal of this version; say --python".to_owned()));
    };
    std::fs::write(dir.join("script.py"), include_str!("../../../../tests/callers/script.py"))?;
    let mut command = Command::new(python);
    command.arg(dir.join("script.py")).arg(dir.join(backend)).env("WAXSEAL_BACKEND", backend);
    carried_out(&mut command).map(Ok)
}

/// Returns the folder of this program; for a test binary, the parent folder.
fn beside() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?;
    Some(if folder.ends_with("deps") { folder.parent()?.to_owned() } else { folder.to_owned() })
}

/// Returns an interpreter with the package: the named one, that of the tests, or `python3`.
fn python(run: &Run) -> Option<PathBuf> {
    let of_the_tests = beside().and_then(|folder| Some(folder.parent()?.join("python-tests/bin/python")));
    let candidates = run
        .python
        .clone()
        .map_or_else(|| of_the_tests.into_iter().chain([PathBuf::from("python3")]).collect(), |python| vec![python]);
    let asks = "import waxseal; waxseal.Table";
    let has_it = |python: &PathBuf| {
        let asked = Command::new(python).args(["-c", asks]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    candidates.into_iter().find(has_it)
}

/// Runs the script in a program and returns its output. Errors: the program fails.
fn carried_out(command: &mut Command) -> Outcome<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    // The script fits into the pipe, so the write cannot block.
    input.write_all(SCRIPT.as_bytes())?;
    drop(input);
    let done = child.wait_with_output()?;
    if !done.status.success() {
        return Err(format!("{command:?} ended with {}", done.status).into());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Returns the number of calls, and the lines that differ, each after its call.
pub(super) fn differing(expected: &str, found: &str) -> (u64, Vec<String>) {
    let answers = |text: &str| -> Vec<String> {
        let mut answers = Vec::new();
        for line in text.lines() {
            if line.starts_with("> ") || answers.is_empty() {
                answers.push(String::new());
            }
            if let Some(last) = answers.last_mut() {
                last.push_str(line);
                last.push('\n');
            }
        }
        answers
    };
    let (expected, found) = (answers(expected), answers(found));
    let pairs = expected.iter().zip(&found).filter(|(expected, found)| expected != found);
    let mut told: Vec<String> = pairs.map(|(expected, found)| format!("expected {expected}found {found}")).collect();
    if expected.len() != found.len() {
        told.push(format!("{} answers, not {}", found.len(), expected.len()));
    }
    (expected.len() as u64, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To update after a change of script or answers, copy `answers` from the folder of `waxseal-papers wasef
    /// conformance --dir`.
    #[test]
    fn the_answers_are_those_that_every_caller_is_held_to() {
        let dir = tempfile::tempdir().unwrap();
        let expected = include_str!("../../../../tests/callers/answers");
        let (asked, wrong) = differing(expected, &here(dir.path()).unwrap());
        assert!(asked > 80 && wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn an_answer_that_differs_is_told() {
        let one = "ok\n> put a b\nok\n> all *\nevent x\nok\n";
        assert_eq!(differing(one, one), (3, Vec::new()));
        assert_eq!(differing(one, "ok\n> put a b\nok\n> all *\nok\n").1.len(), 1);
        assert_eq!(differing(one, "ok\n> put a b\nok\n").1.len(), 1);
    }
}
