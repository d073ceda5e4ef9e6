//! JSON documents (RFC 8259) as text: checked, and taken apart into texts of their parts.
//!
//! A part keeps its own text, so that numbers of any size and documents in a column lose nothing.

use std::collections::HashSet;
use std::fmt::Write;

use crate::error::{Error, Result};

/// The deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 128;

/// The levels that may be around a document in the JSON of a row: the row, a group, an entry, the name of a type, a list.
const ROW_LEVELS: usize = 5;

/// Fails with `Invalid` for a text that is not one JSON document.
pub(crate) fn check(text: &str) -> Result<()> {
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    let whole = parser.value(0) && parser.space() && parser.at == text.len();
    match whole {
        true => Ok(()),
        false => Err(Error::invalid(format!("the text is not a JSON document: see byte {}", parser.at))),
    }
}

/// Returns true for a document that may be a part of the JSON of a row.
pub(crate) fn fits_in_row(text: &str) -> bool {
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    parser.value(ROW_LEVELS) && parser.space() && parser.at == text.len()
}

/// Returns the names and values of an object. Errors: `Invalid` for text that is not one object, and for a
/// duplicate name.
pub(crate) fn members(text: &str) -> Result<Vec<(String, &str)>> {
    let (mut found, mut names) = (Vec::new(), HashSet::new());
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    parser.space();
    let is_object = parser.peek() == Some(b'{')
        && parser.elements(b'}', 0, |parser, depth| {
            parser.space();
            let start = parser.at;
            if !parser.string() {
                return false;
            }
            let Some(name) = string(&text[start..parser.at]) else { return false };
            if !(parser.space() && parser.byte(b':') && parser.space()) {
                return false;
            }
            let start = parser.at;
            let is_value = parser.value(depth);
            found.push((name, &text[start..parser.at]));
            is_value
        });
    if !(is_object && parser.space() && parser.at == text.len()) {
        return Err(Error::invalid(format!("the text is not a JSON object: see byte {}", parser.at)));
    }
    match found.iter().find(|(name, _)| !names.insert(name.as_str())) {
        Some((name, _)) => Err(Error::invalid(format!("the JSON object has {name:?} twice"))),
        None => Ok(found),
    }
}

/// Returns the elements of an array. Errors: `Invalid` for a text that is not one array.
pub(crate) fn elements(text: &str) -> Result<Vec<&str>> {
    let mut found = Vec::new();
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    parser.space();
    let is_array = parser.peek() == Some(b'[')
        && parser.elements(b']', 0, |parser, depth| {
            parser.space();
            let start = parser.at;
            let is_value = parser.value(depth);
            found.push(&text[start..parser.at]);
            is_value
        });
    match is_array && parser.space() && parser.at == text.len() {
        true => Ok(found),
        false => Err(Error::invalid(format!("the text is not a JSON array: see byte {}", parser.at))),
    }
}

/// Returns the text without the white space of JSON around it.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

/// Decodes a JSON string. Returns `None` for other JSON, and for half of a surrogate pair, which is no character.
pub(crate) fn string(text: &str) -> Option<String> {
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    if !parser.string() || parser.at < text.len() {
        return None;
    }
    let mut rest = &text[1..text.len() - 1];
    let mut out = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (escape, after) = rest[at + 1..].split_at(1);
        rest = after;
        out.push(match escape {
            "b" => '\u{8}',
            "f" => '\u{C}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => {
                let (high, after) = hex4(rest)?;
                rest = after;
                let low = if (0xD800..0xDC00).contains(&high) { rest.strip_prefix("\\u") } else { None };
                match low {
                    Some(low) => {
                        let (low, after) = hex4(low)?;
                        rest = after;
                        let low = low.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
                        char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + low)?
                    }
                    None => char::from_u32(high)?,
                }
            }
            literal => literal.chars().next()?,
        });
    }
    out.push_str(rest);
    Some(out)
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

/// Appends a text as a string.
pub(crate) fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string does not fail.
            '\0'..' ' | '\u{7F}' => drop(write!(out, "\\u{:04x}", u32::from(character))),
            other => out.push(other),
        }
    }
    out.push('"');
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
    fn elements(&mut self, close: u8, depth: usize, mut element: impl FnMut(&mut Self, usize) -> bool) -> bool {
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
    #[test]
    fn documents_are_taken_apart_into_their_texts() {
        let parts = members(" {\"a\" : [1, 2] ,\"\\u0062\": 1.50}\n").unwrap();
        assert_eq!(parts, [("a".to_owned(), "[1, 2]"), ("b".to_owned(), "1.50")]);
        assert_eq!(members("{}").unwrap(), []);
        assert_eq!(elements(" [ {\"a\": null} , \"]\" ] ").unwrap(), ["{\"a\": null}", "\"]\""]);
        for other in ["", "[]", "{", "{\"a\"}", "{\"a\": 1} 2", "{\"a\": 1, \"\\u0061\": 2}", "{\"\\ud800\": 1}"] {
            assert!(members(other).is_err(), "{other}");
        }
        for other in ["", "{}", "[", "[1,]", "[1] 2"] {
            assert!(elements(other).is_err(), "{other}");
        }
    }

    #[test]
    fn strings_are_read_back() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("\u{2028}😀\u{10FFFF}".chars()).collect();
        let mut quoted = String::new();
        put_string(&mut quoted, &all);
        assert_eq!(string(&quoted).as_deref(), Some(all.as_str()));
        assert!(quoted.bytes().all(|byte| byte >= b' '), "on one line");
        for (text, expected) in [
            (r#""\ud83d\ude00\b\f\/\"""#, Some("😀\u{8}\u{C}/\"")),
            (r#""\ud83d""#, None),
            (r#""\ud83dA""#, None),
            (r#""\ud83d\u0041""#, None),
            (r#""\ud83d\uffff""#, None),
            (r#""\ude00""#, None),
            (r#""a" "#, None),
            ("a", None),
            ("\"", None),
        ] {
            assert_eq!(string(text).as_deref(), expected, "{text}");
        }
    }
}
