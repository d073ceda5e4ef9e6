//! Loads volumes from JSON lines: one object a line, with `id`, `title`, `author`, `publish_date`, `genre`,
//! `copyright` and `pages`, a list of texts. All but `id` may be absent. Other names are ignored.

use std::io::{BufRead, Read};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::volume::{Metadata, Rights, Volume};

/// Longest line, in bytes.
pub const MAX_LINE_BYTES: u64 = 256 << 20;

/// Reads volumes, one after the other; `name` is the source in errors. A malformed line is an error of its own, and the
/// iterator goes on. A failed read and a line of more than [`MAX_LINE_BYTES`] end it. Memory is that of one line.
///
/// ```
/// let lines = r#"{"id": "iu.1", "title": "Emma", "copyright": "public", "pages": ["one", "two"]}"#;
/// let volumes = waxseal_corpus::jsonl::read(lines.as_bytes(), "books.jsonl");
/// assert_eq!(volumes.map(|volume| volume.unwrap().pages.len()).collect::<Vec<_>>(), [2]);
/// ```
pub fn read(source: impl BufRead, name: &str) -> impl Iterator<Item = Result<Volume>> {
    read_within(source, name, MAX_LINE_BYTES)
}

fn read_within(mut source: impl BufRead, name: &str, limit: u64) -> impl Iterator<Item = Result<Volume>> {
    let (mut number, mut is_over, name) = (0u64, false, name.to_owned());
    std::iter::from_fn(move || {
        while !is_over {
            number += 1;
            let place = format!("{name}, line {number}");
            let mut line = Vec::new();
            match source.by_ref().take(limit + 1).read_until(b'\n', &mut line) {
                Ok(0) => is_over = true,
                Ok(read) if read as u64 > limit => {
                    is_over = true;
                    return Some(Err(Error::source(place, format!("the line has more than {limit} bytes"))));
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => return Some(volume(&line).map_err(|reason| Error::source(place, reason))),
                Err(error) => {
                    is_over = true;
                    return Some(Err(Error::source(place, error)));
                }
            }
        }
        None
    })
}

fn volume(line: &[u8]) -> std::result::Result<Volume, String> {
    let Value::Object(mut object) = serde_json::from_slice(line).map_err(|error| error.to_string())? else {
        return Err("the line is no object".to_owned());
    };
    let mut text = |name: &str| match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{name:?} is no text")),
    };
    let id = text("id")?.filter(|id| !id.is_empty()).ok_or("the volume has no id")?;
    let metadata = Metadata {
        title: text("title")?,
        author: text("author")?,
        publish_date: text("publish_date")?,
        genre: text("genre")?,
        rights: Rights::parse(&text("copyright")?.unwrap_or_default()),
        ..Metadata::new(id)
    };
    let pages = match object.remove("pages") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(pages)) => pages.into_iter().map(page).collect::<std::result::Result<_, _>>()?,
        Some(_) => return Err("\"pages\" is no list".to_owned()),
    };
    Ok(Volume { metadata, pages, archive: None })
}

fn page(value: Value) -> std::result::Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err("a page is no text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_is_named_and_the_rest_is_read() {
        let lines =
            b"{\"id\":\"a\"}\n\n{\"id\":\n{\"id\":\"b\",\"pages\":[1]}\n\xff\n{\"title\":\"x\"}\n{\"id\":\"c\"}"
                .as_slice();
        let read: Vec<_> = read(lines, "x").map(|volume| volume.map(|volume| volume.metadata.id)).collect();
        let bad = |at: usize| read[at].as_ref().unwrap_err().to_string();
        assert_eq!(read.len(), 6);
        assert_eq!((read[0].as_ref().unwrap().as_str(), read[5].as_ref().unwrap().as_str()), ("a", "c"));
        assert!(bad(1).starts_with("x, line 3: ") && bad(2) == "x, line 4: a page is no text");
        assert!(bad(3).starts_with("x, line 5: ") && bad(4) == "x, line 6: the volume has no id");
    }

    #[test]
    fn a_line_that_is_too_long_ends_the_read() {
        let lines = b"{\"id\":\"a\"}\n{\"id\":\"a longer id\"}\n{\"id\":\"b\"}\n".as_slice();
        let read: Vec<_> = read_within(lines, "x", 12).collect();
        assert!(read.len() == 2 && read[0].is_ok());
        assert_eq!(read[1].as_ref().unwrap_err().to_string(), "x, line 2: the line has more than 12 bytes");
    }
}
