//! Texts and options as JSON.

use std::fmt::Write as _;

use face::{OptionList, OptionValue};

/// Appends a text in quotation marks.
pub(crate) fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Returns options as one object, name by name.
pub(crate) fn options_json(options: &OptionList) -> String {
    let mut out = String::from("{");
    for (index, (name, value)) in options.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        put_text(&mut out, name);
        out.push(':');
        match value {
            OptionValue::Text(text) => put_text(&mut out, text),
            OptionValue::Unset => out.push_str("null"),
            plain => {
                let _ = write!(out, "{plain}");
            }
        }
    }
    out + "}"
}
