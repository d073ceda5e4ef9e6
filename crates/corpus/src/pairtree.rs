//! Loads volumes from a pairtree: one directory a volume, with an XML file of metadata and a zip file of page texts.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::volume::Volume;
use crate::{metadata_xml, page_zip};

/// Most bytes of a file with metadata.
pub const MAX_XML_BYTES: u64 = 16 << 20;

/// Most bytes of a zip file, and of all its page texts together.
pub const MAX_ZIP_BYTES: u64 = 256 << 20;

/// The file of a pairtree that holds the first characters of all its ids.
const PREFIX: &str = "pairtree_prefix";

/// Reads the volumes below a directory, one after the other, by path. Each directory with a zip file is a volume and
/// has one `.zip` file and one `.xml` file. The zip file becomes the volume's archive, and its `.txt` files the pages.
/// METS with MARC, MODS or Dublin Core is understood, and so are plain elements such as `<title>`. A volume whose XML
/// names no id has that of its directory, decoded by the rules of pairtree.
///
/// A directory or file that cannot be used is an error of its own, and the iterator goes on. So is each symbolic link:
/// none is followed. Memory is that of one volume, at most 3 times [`MAX_ZIP_BYTES`], and of the names of directories.
/// Errors: `Source` with the path.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let corpus = waxseal_corpus::Corpus::create(&waxseal::Db::memory()?, "books", Default::default())?;
/// for volume in waxseal_corpus::pairtree::read(dir.path()) {
///     match volume {
///         Ok(volume) => corpus.add(&volume)?,
///         Err(error) => eprintln!("{error}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub fn read(root: impl AsRef<Path>) -> impl Iterator<Item = Result<Volume>> {
    let mut pending = vec![Directory { path: root.as_ref().to_owned(), prefix: String::new() }];
    let mut found = VecDeque::new();
    std::iter::from_fn(move || {
        loop {
            if let Some(found) = found.pop_front() {
                return Some(found);
            }
            let directory = pending.pop()?;
            match directory.list() {
                Ok(Listed { directories, zips, xmls, links }) => {
                    found.extend(links.into_iter().map(|link| Err(Error::source(link.display(), "is a link"))));
                    if !zips.is_empty() {
                        found.push_back(directory.volume(&zips, &xmls));
                    }
                    pending.extend(directories.into_iter().rev());
                }
                Err(error) => found.push_back(Err(error)),
            }
        }
    })
}

/// A directory that is to be read, and the first characters of the ids below it.
struct Directory {
    path: PathBuf,
    prefix: String,
}

/// The entries of a directory, by name.
#[derive(Default)]
struct Listed {
    directories: Vec<Directory>,
    zips: Vec<PathBuf>,
    xmls: Vec<PathBuf>,
    links: Vec<PathBuf>,
}

impl Directory {
    #[expect(clippy::disallowed_methods, reason = "the source of a load is outside the store")]
    fn list(&self) -> Result<Listed> {
        let failed = |error| Error::source(self.path.display(), error);
        let entries = fs::read_dir(&self.path).map_err(failed)?.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        let mut listed = Listed::default();
        let mut prefix = self.prefix.clone();
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_symlink() {
                listed.links.push(path);
            } else if kind.is_dir() {
                listed.directories.push(Directory { path, prefix: String::new() });
            } else if entry.file_name() == PREFIX {
                prefix = text_of(&path, 4096)?.trim().to_owned();
            } else if has_extension(&path, "zip") {
                listed.zips.push(path);
            } else if has_extension(&path, "xml") {
                listed.xmls.push(path);
            }
        }
        listed.directories.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        listed.directories.iter_mut().for_each(|directory| directory.prefix.clone_from(&prefix));
        listed.links.sort_unstable();
        Ok(listed)
    }

    /// Reads the volume of this directory.
    fn volume(&self, zips: &[PathBuf], xmls: &[PathBuf]) -> Result<Volume> {
        let ([zip], [xml]) = (zips, xmls) else {
            let (zips, xmls) = (zips.len(), xmls.len());
            let reason = format!("a volume has one .zip file and one .xml file, this one {zips} and {xmls}");
            return Err(Error::source(self.path.display(), reason));
        };
        let name = self.path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::source(self.path.display(), "the name is not UTF-8"))?;
        let id = format!("{}{}", self.prefix, decoded(name));
        let metadata = text_of(xml, MAX_XML_BYTES)?;
        let metadata = metadata_xml::parse(&metadata, &id).map_err(|reason| Error::source(xml.display(), reason))?;
        let archive = bytes_of(zip, MAX_ZIP_BYTES)?;
        let pages = page_zip::pages(&archive, MAX_ZIP_BYTES).map_err(|reason| Error::source(zip.display(), reason))?;
        Ok(Volume { metadata, pages, archive: Some(archive) })
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|own| own.eq_ignore_ascii_case(extension))
}

fn text_of(path: &Path, limit: u64) -> Result<String> {
    String::from_utf8(bytes_of(path, limit)?).map_err(|_| Error::source(path.display(), "is not UTF-8"))
}

/// Reads a regular file. A link that replaced it since it was listed is not followed, and a pipe is not waited for.
#[expect(clippy::disallowed_methods, reason = "the source of a load is outside the store")]
fn bytes_of(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let failed = |error| Error::source(path.display(), error);
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Error::source(path.display(), "is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > limit {
        true => Err(Error::source(path.display(), format!("has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// Decodes the name of a directory: `=` is `/`, `+` is `:`, `,` is `.`, and `^` is followed by two hexadecimal digits
/// of a byte. An invalid name is returned unchanged.
fn decoded(name: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), name.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = behind;
        match first {
            b'=' => bytes.push(b'/'),
            b'+' => bytes.push(b':'),
            b',' => bytes.push(b'.'),
            b'^' => {
                let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                let is_hex = digits.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| is_hex) {
                    Some(byte) => bytes.push(byte),
                    None => return name.to_owned(),
                }
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded() {
        let names = ["ark+=13960=t0,1", "a^20b^e2^82^ac", "a^2", "a^zz", "^ff", "^+1", "39015"];
        assert_eq!(names.map(decoded), ["ark:/13960/t0.1", "a b€", "a^2", "a^zz", "^ff", "^+1", "39015"]);
    }
}
