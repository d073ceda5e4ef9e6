//! Checks that a text is a JSON document (RFC 8259). Nothing is built.

use crate::error::{Error, Result};

/// The deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 128;

/// Fails with `Invalid` for a text that is not one JSON document.
pub(crate) fn check(text: &str) -> Result<()> {
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    let whole = parser.value(0) && parser.space() && parser.at == text.len();
    match whole {
        true => Ok(()),
        false => Err(Error::invalid(format!("the text is not a JSON document: see byte {}", parser.at))),
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space.
    fn space(&mut self) -> bool {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        true
    }

    fn byte(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn literal(&mut self, text: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> bool {
        self.space();
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => {
                depth < MAX_DEPTH
                    && self.elements(b'}', depth, |parser, depth| {
                        parser.space() && parser.string() && parser.space() && parser.byte(b':') && parser.value(depth)
                    })
            }
            Some(b'[') => depth < MAX_DEPTH && self.elements(b']', depth, Parser::value),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => self.number(),
        }
    }

    /// Parses the elements of an array or object, from its opening bracket to its closing one.
    fn elements(&mut self, close: u8, depth: usize, element: impl Fn(&mut Self, usize) -> bool) -> bool {
        self.at += 1;
        self.space();
        if self.byte(close) {
            return true;
        }
        loop {
            if !element(self, depth + 1) {
                return false;
            }
            self.space();
            if self.byte(close) {
                return true;
            }
            if !self.byte(b',') {
                return false;
            }
        }
    }

    fn string(&mut self) -> bool {
        if !self.byte(b'"') {
            return false;
        }
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return true;
                }
                b'\\' => {
                    self.at += 1;
                    let length = match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 1,
                        Some(b'u') => 5,
                        _ => return false,
                    };
                    let digits = self.bytes.get(self.at + 1..self.at + length);
                    if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                        return false;
                    }
                    self.at += length;
                }
                0..0x20 => return false,
                _ => self.at += 1,
            }
        }
        false
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> bool {
        self.byte(b'-');
        let whole = self.byte(b'0') || self.digits();
        let fraction = !self.byte(b'.') || self.digits();
        let exponent = match self.peek() {
            Some(b'e' | b'E') => {
                self.at += 1;
                if !self.byte(b'+') {
                    self.byte(b'-');
                }
                self.digits()
            }
            _ => true,
        };
        whole && fraction && exponent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_from_other_texts() {
        for document in ["0", "-1.5e+3", " [1, {\"a\\u00e9\": null}, []] ", "{}", "\"\\n\"", "true"] {
            check(document).unwrap();
        }
        let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        for other in ["", "01", "1.", "[1,]", "{a: 1}", "{\"a\" 1}", "\"\\u12\"", "\"", "\"\n\"", "[1] 2", "nul", &deep]
        {
            assert!(check(other).is_err(), "{other}");
        }
    }
}
