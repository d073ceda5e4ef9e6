//! Texts of pages from the zip file of a volume. Names inside the archive decide the order of the pages and nothing
//! else: no file is written.

use std::io::{Cursor, Read};

use zip::ZipArchive;

/// Returns the texts of all entries that end in `.txt`, by name. `limit` bounds the bytes of all texts together, so
/// that a small archive cannot fill the memory. Errors: a damaged or encrypted archive, a name that leads out of the archive
/// or is there twice, a link, a text that is not UTF-8, and an archive without any text.
pub(crate) fn pages(archive: &[u8], limit: u64) -> Result<Vec<String>, String> {
    let failed = |error: zip::result::ZipError| error.to_string();
    let mut archive = ZipArchive::new(Cursor::new(archive)).map_err(failed)?;
    if archive.has_duplicate_names() {
        return Err("two entries have the same name".to_owned());
    }
    let mut texts = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(failed)?;
        let name = entry.name().map_err(failed)?.into_owned();
        if name.starts_with('/') || name.split(['/', '\\']).any(|part| part == "..") {
            return Err(format!("the name {name:?} leads out of the archive"));
        }
        if entry.is_symlink() {
            return Err(format!("{name:?} is a link"));
        }
        if entry.is_file() && name.ends_with(".txt") {
            texts.push((name.len(), name, index)); // 2.txt is before 10.txt
        }
    }
    if texts.is_empty() {
        return Err("the archive has no file that ends in .txt".to_owned());
    }
    texts.sort_unstable();
    let (mut pages, mut left) = (Vec::new(), limit);
    for (_, name, index) in texts {
        let mut text = Vec::new();
        let entry = archive.by_index(index).map_err(|error| format!("{name:?}: {error}"))?;
        entry.take(left + 1).read_to_end(&mut text).map_err(|error| format!("{name:?}: {error}"))?;
        let bytes = text.len() as u64;
        left = left.checked_sub(bytes).ok_or_else(|| format!("the pages have more than {limit} bytes"))?;
        pages.push(String::from_utf8(text).map_err(|_| format!("{name:?} is not UTF-8"))?);
    }
    Ok(pages)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    /// Returns an archive of entries.
    pub(crate) fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in entries {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn pages_are_in_the_order_of_their_numbers() {
        let archive = zip_of(&[("v/10.txt", b"ten"), ("v/2.txt", b"two"), ("v/notes.xml", b"<"), ("v/1.txt", b"")]);
        assert_eq!(pages(&archive, 6).unwrap(), ["", "two", "ten"]);
        assert_eq!(pages(&archive, 5).unwrap_err(), "the pages have more than 5 bytes");
    }

    #[test]
    fn a_small_archive_of_a_long_text_is_bounded() {
        let archive = zip_of(&[("1.txt", &vec![b'a'; 10 << 20])]);
        assert!(archive.len() < 100_000, "{}", archive.len());
        assert_eq!(pages(&archive, 1 << 20).unwrap_err(), "the pages have more than 1048576 bytes");
    }

    #[test]
    fn hostile_archives_are_refused() {
        let refused = |entries: &[(&str, &[u8])]| pages(&zip_of(entries), 100).unwrap_err();
        assert_eq!(refused(&[("../1.txt", b"a")]), "the name \"../1.txt\" leads out of the archive");
        assert_eq!(refused(&[("/etc/1.txt", b"a")]), "the name \"/etc/1.txt\" leads out of the archive");
        assert_eq!(refused(&[("1.txt", b"\xff")]), "\"1.txt\" is not UTF-8");
        assert_eq!(refused(&[("1.xml", b"a")]), "the archive has no file that ends in .txt");
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.add_symlink("1.txt", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        let link = writer.finish().unwrap().into_inner();
        assert_eq!(pages(&link, 100).unwrap_err(), "\"1.txt\" is a link");
    }

    #[test]
    fn each_cut_and_each_flipped_byte_is_an_error_or_harmless() {
        let whole = zip_of(&[("1.txt", b"one page"), ("2.txt", b"another page")]);
        for at in 0..whole.len() {
            assert!(pages(&whole[..at], 100).is_err(), "cut at {at}");
            let mut flipped = whole.clone();
            flipped[at] ^= 0x55;
            // A flip may hit a field that nothing reads, such as a date. A name decides the order.
            if let Ok(mut found) = pages(&flipped, 100) {
                found.sort_unstable();
                let is_part = found.iter().all(|page| ["one page", "another page"].contains(&page.as_str()));
                assert!(is_part, "flipped at {at}: {found:?}");
            }
        }
    }
}
