//! Reading input within limits: lines, and whole contents.
//!
//! Without a limit, input that never ends is read into memory until there is none left.

use std::fmt;
use std::io::{self, BufRead, Read};

use crate::closed_streams::check_input;
use crate::failure::Failure;

/// Greatest length of a line of input, with its end, and of a row of delimited text. In JSON, text that needs escapes
/// and values in hexadecimal are up to six times as long as their value.
pub(crate) const MAX_LINE_BYTES: usize = 256 << 20;

/// Returns standard input. Errors: the process was started without one.
pub(crate) fn standard_input() -> Result<io::Stdin, Failure> {
    check_input().map(|()| io::stdin())
}

/// Reads lines, and counts them.
#[derive(Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
    /// Number of the last line; the first one is 1.
    number: u64,
}

impl Lines {
    /// Returns the next line with its end, and its number; `None` behind the last one. Errors: that of `input`, or an
    /// [`OverlongLine`].
    pub(crate) fn next(&mut self, input: &mut impl BufRead) -> io::Result<Option<(u64, &[u8])>> {
        self.next_within(input, MAX_LINE_BYTES)
    }

    fn next_within(&mut self, input: &mut impl BufRead, limit: usize) -> io::Result<Option<(u64, &[u8])>> {
        self.line.clear();
        self.number += 1;
        input.take(limit as u64 + 1).read_until(b'\n', &mut self.line)?;
        match self.line.len() {
            0 => Ok(None),
            length if length > limit => Err(OverlongLine { number: self.number }.into()),
            _ => Ok(Some((self.number, &self.line))),
        }
    }
}

/// The error of a line above the limit. The rest of the line has not been read.
#[derive(Debug)]
pub(crate) struct OverlongLine {
    /// Number of the line, from 1 on.
    pub(crate) number: u64,
}

impl fmt::Display for OverlongLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: longer than {} MiB, the limit of a line", self.number, MAX_LINE_BYTES >> 20)
    }
}

impl std::error::Error for OverlongLine {}

impl From<OverlongLine> for io::Error {
    fn from(line: OverlongLine) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, line)
    }
}

/// Returns the failure of a read of `source`: of the input if a line is too long, else of the device.
pub(crate) fn read_failed(source: impl fmt::Display, error: io::Error) -> Failure {
    match error.get_ref().is_some_and(|inner| inner.is::<OverlongLine>()) {
        true => Failure::usage(format!("{source}: {error}")),
        false => Failure::io(source, error),
    }
}

/// Reads the whole of `source`, of at most `limit` bytes.
pub(crate) fn read_within(input: impl Read, limit: usize, source: impl fmt::Display) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match input.take(limit as u64 + 1).read_to_end(&mut bytes) {
        Ok(length) if length > limit => Err(Failure::usage(format!("{source}: longer than {limit} bytes, the limit"))),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::io(source, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_line_has_at_most_the_limit() {
        let mut lines = Lines::default();
        let mut input = &b"12345\n\n1234\n123456\n1\n"[..];
        let mut next =
            || lines.next_within(&mut input, 6).map(|line| line.map(|(number, line)| (number, line.to_vec())));
        assert_eq!(next().unwrap(), Some((1, b"12345\n".to_vec())));
        assert_eq!(next().unwrap(), Some((2, b"\n".to_vec())));
        assert_eq!(next().unwrap(), Some((3, b"1234\n".to_vec())));
        let failure = read_failed("in", next().unwrap_err());
        assert_eq!(failure.exit(), Exit::Usage);
        assert_eq!(failure.to_string(), "in: line 4: longer than 256 MiB, the limit of a line");
    }

    #[test]
    fn the_last_line_needs_no_end() {
        let mut lines = Lines::default();
        let mut input = &b"1\n23"[..];
        lines.next(&mut input).unwrap();
        assert_eq!(lines.next(&mut input).unwrap(), Some((2, &b"23"[..])));
        assert_eq!(lines.next(&mut input).unwrap(), None);
    }

    #[test]
    fn contents_have_at_most_the_limit() {
        assert_eq!(read_within(&b"123"[..], 3, "in").unwrap(), b"123");
        let failure = read_within(io::repeat(0), 3, "in").unwrap_err();
        assert_eq!((failure.exit(), failure.to_string().as_str()), (Exit::Usage, "in: longer than 3 bytes, the limit"));
    }
}
