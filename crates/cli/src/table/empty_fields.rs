//! Empty fields of delimited text: `""` is an empty text, and an empty field without quotes is a null.
//!
//! The `csv` crate reads both as an empty field. The byte `FF`, which no UTF-8 text has, is therefore put into the former.
//! Where the text has this byte, it is doubled, so that it stays malformed.

use std::io::{self, Read};

/// The content of a quoted empty field.
pub(super) const EMPTY_TEXT: &[u8] = b"\xFF";

/// A position in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FieldPosition {
    Start,
    Unquoted,
    /// Behind the first quote of a field.
    Opened,
    /// Behind two quotes that begin a field. Unless a third one follows, the field is empty.
    Closed,
    Quoted,
    QuoteInQuoted,
}

/// A reader that marks quoted empty fields in the text that it passes on.
pub(super) struct EmptyFields<R> {
    inner: R,
    delimiter: u8,
    at: FieldPosition,
    /// Text that is marked and not yet passed on, from `next` on.
    marked: Vec<u8>,
    next: usize,
}

impl<R: Read> EmptyFields<R> {
    pub(super) fn new(inner: R, delimiter: u8) -> EmptyFields<R> {
        EmptyFields { inner, delimiter, at: FieldPosition::Start, marked: Vec::new(), next: 0 }
    }

    /// Reads and marks the next piece of text. None is left at the end.
    fn fill(&mut self) -> io::Result<()> {
        let mut text = [0; 32 * 1024];
        (self.next, self.marked) = (0, Vec::with_capacity(text.len() + 16));
        // A piece that is the second quote of a field alone marks nothing yet.
        while self.marked.is_empty() {
            let length = self.inner.read(&mut text)?;
            for byte in &text[..length] {
                self.take(*byte);
            }
            if length == 0 {
                if self.at == FieldPosition::Closed {
                    self.marked.extend_from_slice(EMPTY_TEXT);
                    self.marked.push(b'"');
                }
                self.at = FieldPosition::Start;
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, byte: u8) {
        use FieldPosition::{Closed, Opened, QuoteInQuoted, Quoted, Start, Unquoted};
        let is_end = byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        let is_quote = byte == b'"';
        let next = match self.at {
            Start | QuoteInQuoted | Unquoted if is_end => Start,
            Start if is_quote => Opened,
            Start | Unquoted => Unquoted,
            Opened if is_quote => {
                self.at = Closed;
                return;
            }
            Opened | Quoted => {
                if is_quote {
                    QuoteInQuoted
                } else {
                    Quoted
                }
            }
            QuoteInQuoted => {
                if is_quote {
                    Quoted
                } else {
                    Unquoted
                }
            }
            Closed => {
                if is_end {
                    self.marked.extend_from_slice(EMPTY_TEXT);
                }
                self.marked.push(b'"'); // the one that was held back
                if is_end {
                    Start
                } else if is_quote {
                    Quoted
                } else {
                    Unquoted
                }
            }
        };
        self.marked.push(byte);
        if EMPTY_TEXT == [byte] {
            self.marked.push(byte);
        }
        self.at = next;
    }
}

impl<R: Read> Read for EmptyFields<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.next == self.marked.len() {
            self.fill()?;
        }
        let length = buffer.len().min(self.marked.len() - self.next);
        buffer[..length].copy_from_slice(&self.marked[self.next..self.next + length]);
        self.next += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes on one byte at a time.
    struct Bytewise<'a>(&'a [u8]);

    impl Read for Bytewise<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = 1.min(buffer.len());
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn only_quoted_empty_fields_are_marked() {
        for (text, marked) in [
            ("a,,\"\",b\n", "a,,\"~\",b\n"),
            ("\"\"", "\"~\""),
            ("\"\"\r\n\"\"\n", "\"~\"\r\n\"~\"\n"),
            ("\"\"\"\",\"\"\"a\"\"\",\"\"", "\"\"\"\",\"\"\"a\"\"\",\"~\""),
            ("\"a,\"\"\n\"\"\",\"\"", "\"a,\"\"\n\"\"\",\"~\""),
            ("a\"\",\"\"", "a\"\",\"~\""),
            ("\"\"a,\"", "\"\"a,\""),
            ("~,\"~\"", "~~,\"~~\""),
            ("", ""),
        ] {
            let bytes = |text: &str| -> Vec<u8> {
                text.bytes().map(|byte| if byte == b'~' { EMPTY_TEXT[0] } else { byte }).collect()
            };
            let (text, marked) = (bytes(text), bytes(marked));
            for size in [1, 3, 1000] {
                let mut readers: [Box<dyn Read>; 2] = [Box::new(&*text), Box::new(Bytewise(&text))];
                for reader in &mut readers {
                    let mut reader = EmptyFields::new(reader, b',');
                    let (mut found, mut buffer) = (Vec::new(), vec![0; size]);
                    loop {
                        match reader.read(&mut buffer).unwrap() {
                            0 => break,
                            length => found.extend_from_slice(&buffer[..length]),
                        }
                    }
                    assert_eq!(found, marked, "{text:?} by {size}");
                }
            }
        }
    }
}
