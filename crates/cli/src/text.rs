//! Bytes as text, and back: escaped, hexadecimal, or in JSON.

use std::fmt::Write;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

/// Escapes bytes for one line: readable text is unchanged; backslash, control characters and non-UTF-8 bytes become
/// `\\`, `\t`, `\n`, `\r`, `\xNN`. `unescape` reverses it for any bytes.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                control if control.is_control() => {
                    control.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_byte(&mut out, byte));
                }
                readable => out.push(readable),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte));
    }
    out
}

/// Length of the pieces of a long value.
const PIECE_BYTES: usize = 64 * 1024;

/// Splits bytes between characters into pieces that can be escaped one by one, so that a long value needs no copy.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let begins = |at: &usize| rest.get(*at).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000);
        let most = PIECE_BYTES.min(rest.len());
        let end = (most.saturating_sub(3)..=most).rev().find(begins).unwrap_or(most);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Replaces the text of a buffer by bytes as `escape` formats them. Returns `OutOfMemory` if the memory is not
/// available.
pub(crate) fn escape_into(buffer: &mut String, bytes: &[u8]) -> io::Result<()> {
    buffer.clear();
    for piece in pieces(bytes).map(escape) {
        buffer.try_reserve(piece.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        buffer.push_str(&piece);
    }
    Ok(())
}

fn push_byte(out: &mut String, byte: u8) {
    let _ = write!(out, "\\x{byte:02x}"); // writing to a string cannot fail
}

/// Reverses `escape`. Returns `None` if the text has an escape that `escape` does not write.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&escaped, after) = rest.split_first()?;
        rest = after;
        out.push(match escaped {
            b'\\' => b'\\',
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'x' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                *unhex(std::str::from_utf8(digits).ok()?)?.first()?
            }
            _ => return None,
        });
    }
    Some(out)
}

/// Formats bytes as two hexadecimal digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}"); // writing to a string cannot fail
    }
    out
}

/// Parses hexadecimal text; returns `None` for other text.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Returns `{"text": ..}` for UTF-8 bytes, and `{"hex": ..}` for others or if `always_hex`.
pub(crate) fn to_json(bytes: &[u8], always_hex: bool) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) if !always_hex => json!({ "text": text }),
        _ => json!({ "hex": hex(bytes) }),
    }
}

/// Writes what `to_json` returns, piece by piece: a long value needs no copy.
pub(crate) fn write_json(out: &mut impl io::Write, bytes: &[u8], always_hex: bool) -> io::Result<()> {
    let is_text = !always_hex && std::str::from_utf8(bytes).is_ok();
    out.write_all(if is_text { b"{\"text\":\"" } else { b"{\"hex\":\"" })?;
    for piece in pieces(bytes) {
        match std::str::from_utf8(piece) {
            Ok(text) if is_text => {
                let quoted = Value::from(text).to_string();
                out.write_all(&quoted.as_bytes()[1..quoted.len() - 1])?;
            }
            _ => out.write_all(hex(piece).as_bytes())?,
        }
    }
    out.write_all(b"\"}")
}

/// Writes a record, or only its key, as the members of a JSON object, without its end.
pub(crate) fn write_json_row(
    out: &mut impl io::Write,
    (key, value): (&[u8], Option<&[u8]>),
    always_hex: bool,
) -> io::Result<()> {
    out.write_all(b"{\"key\":")?;
    write_json(out, key, always_hex)?;
    let Some(value) = value else { return Ok(()) };
    out.write_all(b",\"value\":")?;
    write_json(out, value, always_hex)
}

/// Reverses `to_json`.
pub(crate) fn from_json(value: &Value) -> Option<Vec<u8>> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    match (object.get("text"), object.get("hex")) {
        (Some(text), None) => Some(text.as_str()?.as_bytes().to_vec()),
        (None, Some(digits)) => unhex(digits.as_str()?),
        _ => None,
    }
}

/// Quotes a path as one shell word.
pub(crate) fn shell_word(path: &Path) -> String {
    let word = path.display().to_string();
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+,:@%=".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Formats a number with thousands separators.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Formats a size in binary units.
pub(crate) fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((name, shift)) => format!("{:.1} {name}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [&all[..], b"", b"plain", b"a\\x41\t\n", "grün ☃ \u{85}".as_bytes(), b"\xff\xfe", b"\xe2\x98"] {
            let escaped = escape(bytes);
            assert!(!escaped.contains(['\t', '\n', '\r', '\0']), "{escaped}");
            assert_eq!(unescape(&escaped).as_deref(), Some(bytes), "{escaped}");
            assert_eq!(unhex(&hex(bytes)).as_deref(), Some(bytes));
            for always_hex in [false, true] {
                assert_eq!(from_json(&to_json(bytes, always_hex)).as_deref(), Some(bytes));
            }
        }
    }

    #[test]
    fn escapes_read_well() {
        for long in
            [vec![b'a'; PIECE_BYTES - 1], vec![b'a'; PIECE_BYTES - 2], vec![0xff; PIECE_BYTES], vec![0x80; PIECE_BYTES]]
        {
            let long = [&long[..], "grün€".repeat(PIECE_BYTES).as_bytes(), b"\xe2\x82"].concat();
            assert!(pieces(&long).all(|piece| piece.len() <= PIECE_BYTES));
            assert_eq!(pieces(&long).map(escape).collect::<String>(), escape(&long));
        }
        assert_eq!(escape("a\tgrün\\\x00".as_bytes()), "a\\tgrün\\\\\\x00");
        assert_eq!(escape(b"\xff/name"), "\\xff/name");
    }

    #[test]
    fn json_is_written_as_it_is_returned() {
        let mut buffer = String::from("before");
        for bytes in [&b""[..], b"a\"\\\n\x01", "grün€".repeat(PIECE_BYTES).as_bytes(), &[0xff; 2 * PIECE_BYTES + 1]]
        {
            for always_hex in [false, true] {
                let mut out = Vec::new();
                write_json_row(&mut out, (b"k", Some(bytes)), always_hex).unwrap();
                let row = json!({ "key": to_json(b"k", always_hex), "value": to_json(bytes, always_hex) });
                assert_eq!(String::from_utf8(out).unwrap() + "}", row.to_string());
            }
            escape_into(&mut buffer, bytes).unwrap();
            assert_eq!(buffer, escape(bytes));
        }
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        for text in ["\\", "\\q", "\\x", "\\x1", "\\xg1"] {
            assert_eq!(unescape(text), None, "{text}");
        }
        for text in ["1", "0g", "+1", "zz"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }

    #[test]
    fn a_shell_reads_paths_back() {
        let words = ["data/store-1", "my store", "it's", ""].map(|path| shell_word(Path::new(path)));
        assert_eq!(words, ["data/store-1", "'my store'", r"'it'\''s'", "''"]);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1023, 1024, 48_339_354, 5 << 29].map(size), ["1023 B", "1.0 KiB", "46.1 MiB", "2.5 GiB"]);
    }
}
