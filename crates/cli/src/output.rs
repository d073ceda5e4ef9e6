//! Standard output: text for people and pipes, or JSON.

use std::io::{self, BufWriter, Stdout, Write};

use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::text;

/// The destination of a verb's result.
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    pub(crate) json: bool,
    pub(crate) hex: bool,
}

impl Output {
    pub(crate) fn new(json: bool, hex: bool) -> Output {
        Output { out: BufWriter::with_capacity(64 * 1024, io::stdout()), json, hex }
    }

    /// Writes a line of text; nothing with `--json`.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> Result<(), Failure> {
        if self.json { Ok(()) } else { self.write(&[line.as_ref().as_bytes(), b"\n"]) }
    }

    /// Writes a JSON object on a line; nothing without `--json`.
    pub(crate) fn object(&mut self, object: &Value) -> Result<(), Failure> {
        if self.json { self.write(&[object.to_string().as_bytes(), b"\n"]) } else { Ok(()) }
    }

    /// Writes a record, or only its key, as a row.
    pub(crate) fn row(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Failure> {
        if self.json {
            text::write_json_row(&mut self.out, (key, value), self.hex).map_err(stdout_failed)?;
            return self.write(&[b"}\n"]);
        }
        self.write_readable(key)?;
        if let Some(value) = value {
            self.write(&[b"\t"])?;
            self.write_readable(value)?;
        }
        self.write(&[b"\n"])
    }

    /// Writes bytes as `readable` formats them, piece by piece: a long value needs no copy.
    pub(crate) fn write_readable(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        text::pieces(bytes).try_for_each(|piece| self.write(&[self.readable(piece).as_bytes()]))
    }

    /// Writes a record as a JSON object, with its labels if it has any.
    pub(crate) fn labelled(&mut self, key: &[u8], value: &[u8], labels: Option<Value>) -> Result<(), Failure> {
        text::write_json_row(&mut self.out, (key, Some(value)), self.hex).map_err(stdout_failed)?;
        if let Some(labels) = labels {
            self.write(&[b",\"labels\":", labels.to_string().as_bytes()])?;
        }
        self.write(&[b"}\n"])
    }

    /// Writes raw bytes.
    pub(crate) fn write(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        parts.iter().try_for_each(|part| self.out.write_all(part)).map_err(stdout_failed)
    }

    pub(crate) fn to_json(&self, bytes: &[u8]) -> Value {
        text::to_json(bytes, self.hex)
    }

    /// Formats bytes on one line.
    pub(crate) fn readable(&self, bytes: &[u8]) -> String {
        if self.hex { text::hex(bytes) } else { text::escape(bytes) }
    }

    /// Writes the JSON object of a failure; nothing without `--json`.
    pub(crate) fn failure(&mut self, failure: &Failure) -> Result<(), Failure> {
        let error = json!({ "kind": failure.name(), "message": failure.to_string() });
        let mut object = Map::from_iter([("ok".to_owned(), false.into()), ("error".to_owned(), error)]);
        object.extend(failure.details().clone());
        self.object(&Value::Object(object))?;
        self.flush()
    }

    /// Writes the JSON object of a change that was made, and flushes the text before it. If that fails, the failure says
    /// that the change was made, so that nobody repeats it.
    pub(crate) fn changed(&mut self, object: &Value) -> Result<(), Failure> {
        let printed = self.object(object).and_then(|()| self.flush());
        printed.map_err(|failure| failure.explain("the change was made"))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(stdout_failed)
    }
}

/// Ignores the failure if the reader has closed the pipe: it wants no more output, and the exit code remains that of
/// the work.
pub(crate) fn or_seen_enough(printed: Result<(), Failure>) -> Result<(), Failure> {
    printed.or_else(|failure| if failure.is_broken_pipe() { Ok(()) } else { Err(failure) })
}

fn stdout_failed(error: io::Error) -> Failure {
    Failure::io("standard output", error)
}
