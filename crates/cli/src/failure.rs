//! The outcome of a call: exit codes, and the failures that lead to them.

use std::fmt;
use std::io;
use std::process::ExitCode;

use serde_json::{Map, Value};
use waxseal::ErrorKind;

/// Exit codes that scripts rely on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    Usage = 1,
    NotFound = 2,
    Corruption = 3,
    Io = 4,
    Locked = 5,
    CheckFailed = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The failure of a verb.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    is_broken_pipe: bool,
    /// The path of the entry of a tree that failed.
    path: Option<Box<[u8]>>,
    /// Members of the JSON object in addition to `ok` and `error`.
    details: Map<String, Value>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), is_broken_pipe: false, path: None, details: Map::new() }
    }

    /// Appends advice for the user to the message.
    pub(crate) fn explain(mut self, what: impl fmt::Display) -> Failure {
        self.message = format!("{}; {what}", self.message);
        self
    }

    /// Adds a member to the JSON object of the failure.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Failure {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Names the entry of a tree that failed.
    pub(crate) fn at(mut self, path: &[u8]) -> Failure {
        self.path = Some(path.into());
        self
    }

    /// Returns the path of the entry of a tree that failed, if it was one.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        self.path.as_deref()
    }

    /// Returns true if an entry of a tree is at fault, and not the device below it.
    pub(crate) fn is_of_entry(&self) -> bool {
        matches!(self.exit, Exit::Corruption | Exit::Usage | Exit::NotFound)
    }

    pub(crate) fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Failure {
        Failure::new(Exit::NotFound, message)
    }

    pub(crate) fn io(what: impl fmt::Display, error: io::Error) -> Failure {
        let is_broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { is_broken_pipe, ..Failure::new(Exit::Io, format!("{what}: {error}")) }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns a short name for the exit code.
    pub(crate) fn name(&self) -> &'static str {
        match self.exit {
            Exit::Ok => "ok",
            Exit::Usage => "usage",
            Exit::NotFound => "not found",
            Exit::Corruption => "corruption",
            Exit::Io => "io",
            Exit::Locked => "locked",
            Exit::CheckFailed => "check failed",
        }
    }

    pub(crate) fn is_corruption(&self) -> bool {
        self.exit == Exit::Corruption
    }

    /// Returns true if the reader of standard output has closed it.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.is_broken_pipe
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<waxseal::Error> for Failure {
    fn from(error: waxseal::Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::Corruption(_) => Exit::Corruption,
            ErrorKind::Locked => Exit::Locked,
            ErrorKind::Invalid if error.is_no_store() => Exit::NotFound,
            ErrorKind::Invalid => Exit::Usage,
            _ => Exit::Io,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<waxseal_table::Error> for Failure {
    fn from(error: waxseal_table::Error) -> Failure {
        use waxseal_table::ErrorKind;
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Exists | ErrorKind::InUse => Exit::CheckFailed,
            ErrorKind::Invalid => Exit::Usage,
            ErrorKind::Corruption => Exit::Corruption,
            _ => Exit::Io,
        };
        Failure::new(exit, error.to_string())
    }
}
