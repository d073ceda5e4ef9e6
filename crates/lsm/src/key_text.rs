//! Formatting of keys in messages: used by errors, reports and logs of every crate.
//!
//! ```text
//! key       "alice"              quoted where the bytes are text without control characters
//!           0x00ff               else two digits a byte
//!           0xffff.. (65536 bytes)    the first 64 bytes of a longer one
//! range     key "a"              a single one
//!           keys "a" to "c"      both included
//!           keys after "a" to "c"    where the first is the immediate successor of a key: its bytes and 00
//!           keys from the first to "c", keys "a" to the last, all keys
//! ```

use std::fmt;

/// Maximum number of key bytes shown.
const MOST_SHOWN: usize = 64;

/// Minimum length of a key of FF bytes that stands for the end of all keys; the longest possible key is one.
const END_BYTES: usize = 1024;

/// Formats a key for a message.
///
/// ```
/// use waxseal_lsm::key_text::KeyText;
///
/// assert_eq!(KeyText(b"alice").to_string(), "\"alice\"");
/// assert_eq!(KeyText(b"\x00\xff").to_string(), "0x00ff");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyText<'a>(pub &'a [u8]);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.0.len();
        if let Some(text) = printable(self.0) {
            return match text.char_indices().find(|(at, _)| *at >= MOST_SHOWN) {
                Some((end, _)) => write!(f, "{:?}.. ({length} bytes)", &text[..end]),
                None => write!(f, "{text:?}"),
            };
        }
        f.write_str("0x")?;
        self.0.iter().take(MOST_SHOWN).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if length > MOST_SHOWN { write!(f, ".. ({length} bytes)") } else { Ok(()) }
    }
}

/// Formats a key range, both ends included, for a message.
///
/// ```
/// use waxseal_lsm::key_text::RangeText;
///
/// assert_eq!(RangeText(b"a", b"c").to_string(), "keys \"a\" to \"c\"");
/// assert_eq!(RangeText(b"a\0", b"c").to_string(), "keys after \"a\" to \"c\"");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RangeText<'a>(pub &'a [u8], pub &'a [u8]);

impl fmt::Display for RangeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeText(first, last) = *self;
        let ends_nowhere = last.len() >= END_BYTES && last.iter().all(|byte| *byte == 0xFF);
        if first == last {
            return write!(f, "key {}", KeyText(first));
        }
        match (first, before(first, last)) {
            ([], _) if ends_nowhere => return f.write_str("all keys"),
            ([], _) => f.write_str("keys from the first")?,
            (_, Some(before)) => write!(f, "keys after {}", KeyText(before))?,
            (first, None) => write!(f, "keys {}", KeyText(first))?,
        }
        if ends_nowhere { f.write_str(" to the last") } else { write!(f, " to {}", KeyText(last)) }
    }
}

/// Returns the key whose immediate successor is `first`. A binary key may end in 00 by itself; this is assumed if
/// `last` has the same length.
fn before<'a>(first: &'a [u8], last: &[u8]) -> Option<&'a [u8]> {
    let (0, before) = first.split_last()? else { return None };
    (printable(before).is_some() || first.len() != last.len()).then_some(before)
}

fn printable(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of `record::MAX_KEY_BYTES`, which this module may not import.
    const MAX_KEY_BYTES: usize = 65_535;

    #[test]
    fn a_key_is_text_or_hexadecimal() {
        let long = "lorem ipsum ".repeat(9);
        for (key, said) in [
            (&b""[..], "\"\""),
            (b"alice", "\"alice\""),
            ("früh \"x\"".as_bytes(), "\"früh \\\"x\\\"\""),
            (b"a\n", "0x610a"),
            (b"a\0", "0x6100"),
            (b"\xff\x00", "0xff00"),
            (long.as_bytes(), "\"lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lore\".. (108 bytes)"),
        ] {
            assert_eq!(KeyText(key).to_string(), said);
        }
        let said = KeyText(&[0xFF; MAX_KEY_BYTES]).to_string();
        assert_eq!(said, format!("0x{}.. ({MAX_KEY_BYTES} bytes)", "ff".repeat(64)));
    }

    #[test]
    fn a_range_names_its_ends_and_what_lies_before_it() {
        let last = [0xFF; MAX_KEY_BYTES];
        for (first, last, said) in [
            (&b"a"[..], &b"a"[..], "key \"a\""),
            (b"a\0", b"a\0", "key 0x6100"),
            (b"a", b"c", "keys \"a\" to \"c\""),
            (b"k00142\0", b"k00212", "keys after \"k00142\" to \"k00212\""),
            (b"\0", b"c", "keys after \"\" to \"c\""),
            (b"\x01\xff\0", b"\x02\x00", "keys after 0x01ff to 0x0200"),
            (b"\x01\xff\0", b"\x02\x00\x00", "keys 0x01ff00 to 0x020000"),
            (b"", b"c", "keys from the first to \"c\""),
            (b"a", &last, "keys \"a\" to the last"),
            (b"", &last, "all keys"),
        ] {
            assert_eq!(RangeText(first, last).to_string(), said);
        }
    }
}
