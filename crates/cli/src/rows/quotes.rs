//! Whether delimited text ends inside a quoted field, which the `csv` crate accepts as the end of the field, and whether
//! a row is above the limit of a line, which the crate would read into memory.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use crate::input::{MAX_LINE_BYTES, OverlongLine};

/// A position in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QuotePosition {
    FieldStart,
    Unquoted,
    Quoted,
    /// Behind a quote in a quoted field: its end, or the first of two quotes that stand for one.
    QuoteInQuoted,
}

/// A reader that tracks quotes and rows in the bytes that it passes on.
pub(crate) struct Quotes<R> {
    inner: R,
    delimiter: u8,
    at: QuotePosition,
    in_quotes: Rc<Cell<bool>>,
    /// Number of the line, from 1 on, and of the line where the row began.
    line: u64,
    row_line: u64,
    row_bytes: usize,
    /// Greatest length of a row, in bytes.
    limit: usize,
}

impl<R: Read> Quotes<R> {
    /// The reader, and whether the bytes read so far end inside a quoted field.
    pub(crate) fn new(inner: R, delimiter: u8) -> (Quotes<R>, Rc<Cell<bool>>) {
        let in_quotes = Rc::default();
        let quotes = Quotes {
            inner,
            delimiter,
            at: QuotePosition::FieldStart,
            in_quotes: Rc::clone(&in_quotes),
            line: 1,
            row_line: 1,
            row_bytes: 0,
            limit: MAX_LINE_BYTES,
        };
        (quotes, in_quotes)
    }

    fn pass(&mut self, byte: u8) -> io::Result<()> {
        self.at = after(self.at, byte, self.delimiter);
        self.line += u64::from(byte == b'\n');
        self.row_bytes += 1;
        if matches!(byte, b'\n' | b'\r') && self.at == QuotePosition::FieldStart {
            (self.row_line, self.row_bytes) = (self.line, 0);
        }
        if self.row_bytes > self.limit { Err(OverlongLine { number: self.row_line }.into()) } else { Ok(()) }
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        buffer[..length].iter().try_for_each(|byte| self.pass(*byte))?;
        self.in_quotes.set(self.at == QuotePosition::Quoted);
        Ok(length)
    }
}

fn after(at: QuotePosition, byte: u8, delimiter: u8) -> QuotePosition {
    match (at, byte) {
        (QuotePosition::Quoted, b'"') => QuotePosition::QuoteInQuoted,
        (QuotePosition::Quoted, _) => QuotePosition::Quoted,
        (QuotePosition::FieldStart | QuotePosition::QuoteInQuoted, b'"') => QuotePosition::Quoted,
        (_, b'\n' | b'\r') => QuotePosition::FieldStart,
        (_, byte) if byte == delimiter => QuotePosition::FieldStart,
        _ => QuotePosition::Unquoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_above_the_limit_is_an_error_that_names_its_first_line() {
        for (text, line) in [
            (&b"a,b\n1,2345\n1,234\n"[..], None),
            (b"a,b\n1,23456\n1,2\n", Some(2)),
            (b"a,b\r\n1,2\r\n123456", None),
            (b"a,b\r\n1,2\r\n1234567", Some(3)),
            (b"a\n\"\n\n\n\n\"\n1\n", None),
            (b"a\n\"\n\n\n\n\n\n\n\n", Some(2)), // a quote that is not closed
        ] {
            for size in 1..=text.len() {
                let mut reader = Quotes { limit: 6, ..Quotes::new(text, b',').0 };
                let mut buffer = vec![0; size];
                let failed = loop {
                    match reader.read(&mut buffer) {
                        Ok(0) => break None,
                        Ok(_) => {}
                        Err(error) => break Some(error.to_string()),
                    }
                };
                let names = |line| format!("line {line}: longer than 256 MiB, the limit of a line");
                assert_eq!(failed, line.map(names), "{text:?} by {size}");
            }
        }
    }

    #[test]
    fn an_unclosed_quote_is_found_at_any_buffer_size() {
        let cases: [(&[u8], bool); 8] = [
            (b"a,b\n1,2\n", false),
            (b"a,\"b\n1,2\n", true),
            (b"a,\"b\"\n1,\"x \"\" y\"\n", false),
            (b"a,\"b\"\"\n1,2", true),
            (b"5\" disk,\"x\"\n", false), // a quote inside a bare field is a character
            (b"\"x\"y\",z\n", false),
            (b"\"", true),
            (b"", false),
        ];
        for (text, is_open) in cases {
            for size in 1..=text.len().max(1) {
                let (mut reader, in_quotes) = Quotes::new(text, b',');
                let mut buffer = vec![0; size];
                while reader.read(&mut buffer).unwrap() > 0 {}
                assert_eq!(in_quotes.get(), is_open, "{text:?} by {size}");
            }
        }
    }
}
