//! The page of a directory.

use std::time::{Duration, UNIX_EPOCH};

use axum::body::Bytes;
use waxseal_files::{DirEntry, FileKind, List};

use crate::download::Source;
use crate::response::Outcome;
use crate::url_path;

/// Bytes of a part of a page.
const PART: usize = 64 * 1024;

/// Browsers load nothing for a page, and run nothing in it.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A page of all entries of a directory, of one point in time.
pub(crate) struct Listing {
    path: Vec<u8>,
    list: List,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    Entries,
    End,
}

impl Listing {
    pub(crate) fn new(path: Vec<u8>, list: List) -> Listing {
        Listing { path, list, place: Place::Head }
    }
}

impl Source for Listing {
    fn next(&mut self) -> Outcome<Option<Bytes>> {
        let mut page = String::new();
        match self.place {
            Place::Head => {
                page += &head(&self.path);
                self.place = Place::Entries;
            }
            Place::Entries => {}
            Place::End => return Ok(None),
        }
        while page.len() < PART {
            match self.list.next() {
                Some(entry) => page += &row(&entry?, self.path.is_empty()),
                None => {
                    page += "</table>\n";
                    self.place = Place::End;
                    break;
                }
            }
        }
        Ok(Some(page.into()))
    }
}

fn head(path: &[u8]) -> String {
    let shown = escape(path);
    let up = if path.is_empty() { "" } else { "<tr><td><a href=\"../\">../</a><td><td>\n" };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>/{shown}</title>\n\
         <style>td{{padding-right:2em}}td+td{{text-align:right}}</style>\n<h1>/{shown}</h1>\n<table>\n{up}"
    )
}

fn row(entry: &DirEntry, is_in_root: bool) -> String {
    let metadata = &entry.metadata;
    let slash = if metadata.is_directory() { "/" } else { "" };
    let (name, link) = (escape(&entry.name), url_path::encode(&entry.name));
    // The URL `/metrics` is that of the counters.
    let more = if is_in_root && entry.name == b"metrics" && !metadata.is_directory() { "/" } else { "" };
    let kind = match metadata.kind {
        FileKind::File => metadata.size.to_string(),
        FileKind::Directory => String::new(),
        FileKind::Link => "link".to_owned(),
        FileKind::Fifo => "pipe".to_owned(),
        FileKind::Socket => "socket".to_owned(),
    };
    let seconds = u64::try_from(metadata.mtime / 1_000_000_000).unwrap_or(0).min(253_402_300_799);
    let time = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
    format!("<tr><td><a href=\".{more}{link}{slash}\">{name}{slash}</a><td>{kind}<td>{time}\n")
}

/// Returns text that HTML shows as it is. Control characters, and bytes that are no UTF-8, are shown as `U+FFFD`.
fn escape(text: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            // Marks that reorder the text around them.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal_files::FileStore;

    #[test]
    fn names_stay_text() {
        let fs = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        fs.mkdir("<d>").unwrap();
        for name in [&b"<script>alert(1)"[..], b"\"'&", b"\xff\n\xe2\x80\xae", b"javascript:x"] {
            fs.write([b"<d>/", name].concat(), "").unwrap();
        }
        let mut listing = Listing::new(b"<d>".to_vec(), fs.list("<d>").unwrap());
        let mut page = String::new();
        while let Some(part) = listing.next().unwrap() {
            page += std::str::from_utf8(&part).unwrap();
        }
        assert!(page.contains("<title>/&lt;d&gt;</title>") && page.contains("href=\"../\""), "{page}");
        assert!(page.contains("<a href=\"./%3Cscript%3Ealert%281%29\">&lt;script&gt;alert(1)</a>"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("<a href=\"./%22%27%26\">&quot;&#39;&amp;</a>"), "{page}");
        assert!(page.contains("<a href=\"./%FF%0A%E2%80%AE\">\u{fffd}\u{fffd}\u{fffd}</a>"), "{page}");
        assert!(page.contains("<a href=\"./javascript%3Ax\">javascript:x</a>"), "{page}");
    }

    #[test]
    fn a_file_beside_the_counters_is_linked_past_them() {
        let fs = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        fs.mkdir("d").unwrap();
        for (path, directory, link) in
            [("metrics", "", "href=\".//metrics\""), ("d/metrics", "d", "href=\"./metrics\"")]
        {
            fs.write(path, "").unwrap();
            let mut listing = Listing::new(directory.into(), fs.list(directory).unwrap());
            let page = listing.next().unwrap().unwrap();
            let page = String::from_utf8_lossy(&page);
            assert!(page.contains(link), "{page}");
        }
    }

    #[test]
    fn a_large_directory_comes_in_parts() {
        let fs = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        for number in 0..1000 {
            fs.mkdir(format!("directory-{number}")).unwrap();
        }
        let mut listing = Listing::new(Vec::new(), fs.list("").unwrap());
        let (mut parts, mut rows) = (0, 0);
        while let Some(part) = listing.next().unwrap() {
            rows += String::from_utf8_lossy(&part).matches("<tr>").count();
            parts += 1;
        }
        assert!(parts > 1 && rows == 1000, "{parts} parts, {rows} rows");
    }
}
