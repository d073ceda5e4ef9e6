//! Whether delimited text ends inside a quoted field, which the `csv` crate accepts as the end of the field.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// A position in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QuotePosition {
    FieldStart,
    Unquoted,
    Quoted,
    /// Behind a quote in a quoted field: its end, or the first of two quotes that stand for one.
    QuoteInQuoted,
}

/// A reader that tracks quotes in the bytes that it passes on.
pub(crate) struct Quotes<R> {
    inner: R,
    delimiter: u8,
    at: QuotePosition,
    in_quotes: Rc<Cell<bool>>,
}

impl<R: Read> Quotes<R> {
    /// The reader, and whether the bytes read so far end inside a quoted field.
    pub(crate) fn new(inner: R, delimiter: u8) -> (Quotes<R>, Rc<Cell<bool>>) {
        let in_quotes = Rc::default();
        (Quotes { inner, delimiter, at: QuotePosition::FieldStart, in_quotes: Rc::clone(&in_quotes) }, in_quotes)
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.at = buffer[..length].iter().fold(self.at, |at, byte| after(at, *byte, self.delimiter));
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
