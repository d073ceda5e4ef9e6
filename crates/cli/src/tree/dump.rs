//! Writes a family as a directory tree.
//!
//! The destination starts empty, every name of a path is checked, and links are created last, so no content of a store
//! can cause a write outside the destination. A record is skipped and reported if its key is not a path, or names both
//! a file and a directory.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;
use waxseal::{ColumnFamily, Snapshot};

use super::{Left, PathAttributes, left_json, meta_family, say_left};
use crate::args::Args;
use crate::damage::Damaged;
use crate::failure::{Exit, Failure};
use crate::output::{Output, or_seen_enough};
use crate::store::{existing_family, find_family, open_to_read};
use crate::{progress, text};

struct Dump<'a> {
    dest: &'a Path,
    at: Snapshot,
    files: ColumnFamily,
    metas: Option<ColumnFamily>,
    skipped: Vec<Left>,
    damaged: Damaged,
}

pub(crate) fn dump(args: &Args, dest: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let files = existing_family(&db, &args.cf)?;
    prepare(dest)?;
    let metas = find_family(&db, &meta_family(&args.cf));
    let mut dump = Dump { dest, at: db.snapshot(), files, metas, skipped: Vec::new(), damaged: Damaged::default() };

    let directories = dump.make_directories()?;
    let (files, bytes) = dump.write_files()?;
    let links = dump.make_links()?;
    set_modes(&directories)?;

    say_left("skipped", &dump.skipped, output);
    let (directories, skipped) = (directories.len() as u64, dump.skipped.len() as u64);
    let line = format!(
        "dumped {}, {} and {}: {}; skipped {}",
        text::counted(files, "file", "files"),
        text::counted(directories, "directory", "directories"),
        text::counted(links, "link", "links"),
        text::size(bytes),
        text::count(skipped)
    );
    or_seen_enough(output.line(line))?;
    dump.damaged.outcome("the entries around were dumped").map_err(|failure| failure.with("files", files))?;
    let object = json!({
        "ok": skipped == 0,
        "files": files,
        "directories": directories,
        "links": links,
        "bytes": bytes,
        "skipped": left_json(&dump.skipped, output),
    });
    or_seen_enough(output.object(&object))?;
    Ok(if skipped == 0 { Exit::Ok } else { Exit::CheckFailed })
}

/// Creates the destination, which must be new or empty.
fn prepare(dest: &Path) -> Result<(), Failure> {
    let made = || -> io::Result<bool> {
        fs::create_dir_all(dest)?;
        Ok(fs::read_dir(dest)?.next().is_none())
    };
    match made() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::usage(format!("{} is not empty", dest.display()))),
        Err(error) => Err(Failure::io(dest.display(), error)),
    }
}

impl Dump<'_> {
    /// Creates every directory, writable for now. Returns them with their final modes.
    fn make_directories(&mut self) -> Result<Vec<(PathBuf, u32)>, Failure> {
        let mut made = Vec::new();
        self.for_each_meta(true, |dump, key, meta| {
            if let PathAttributes::Directory { mode } = meta {
                let path = dump.place(key)?;
                fs::create_dir_all(&path)?;
                made.push((path, mode));
            }
            Ok(())
        })?;
        Ok(made)
    }

    fn make_links(&mut self) -> Result<u64, Failure> {
        let mut made = 0;
        // Damage among the entries was reported with the directories.
        self.for_each_meta(false, |dump, key, meta| {
            if let PathAttributes::Link { target } = meta {
                let path = dump.place(key)?;
                make_parents(&path)?;
                symlink(OsStr::from_bytes(&target), &path)?;
                made += 1;
            }
            Ok(())
        })?;
        Ok(made)
    }

    fn write_files(&mut self) -> Result<(u64, u64), Failure> {
        let (mut files, mut bytes) = (0, 0);
        let bar = progress::bar("dump", None, "files");
        for row in self.at.iter(&self.files) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(error) => {
                    self.damaged.note(error)?;
                    continue;
                }
            };
            match self.write_file(&key, &value) {
                Ok(()) => {
                    files += 1;
                    bytes += value.len() as u64;
                }
                Err(error) => self.skip_or_fail(&key, error)?,
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok((files, bytes))
    }

    fn write_file(&self, key: &[u8], content: &[u8]) -> io::Result<()> {
        let path = self.place(key)?;
        let meta = match &self.metas {
            Some(metas) => self.at.get_with(metas, key, PathAttributes::decode).map_err(io::Error::other)?.flatten(),
            None => None,
        };
        make_parents(&path)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path)?;
        file.write_all(content)?;
        match meta {
            Some(PathAttributes::File { mode }) => file.set_permissions(Permissions::from_mode(mode)),
            _ => Ok(()),
        }
    }

    fn for_each_meta(
        &mut self,
        reports: bool,
        mut act: impl FnMut(&mut Self, &[u8], PathAttributes) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let Some(metas) = self.metas.clone() else { return Ok(()) };
        for row in self.at.iter(&metas) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(error) if error.is_corruption() && !reports => continue,
                Err(error) => {
                    self.damaged.note(error)?;
                    continue;
                }
            };
            let meta = PathAttributes::decode(&value).ok_or_else(|| io::Error::other("no entry of a tree"));
            if let Err(error) = meta.and_then(|meta| act(self, &key, meta)) {
                self.skip_or_fail(&key, error)?;
            }
        }
        Ok(())
    }

    /// Returns the path of a key's file, if the key is a path below the destination.
    fn place(&self, key: &[u8]) -> io::Result<PathBuf> {
        if !is_path(key) {
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, "the key is no path"));
        }
        Ok(self.dest.join(OsStr::from_bytes(key)))
    }

    /// Records the fault of one entry, which is reported at the end. A device error ends the dump.
    fn skip_or_fail(&mut self, key: &[u8], error: io::Error) -> Result<(), Failure> {
        use io::ErrorKind::{AlreadyExists, InvalidFilename, IsADirectory, NotADirectory, Other};
        match error.kind() {
            AlreadyExists | InvalidFilename | IsADirectory | NotADirectory | Other => {
                self.skipped.push(Left { path: key.to_vec(), reason: error.to_string() });
                Ok(())
            }
            _ => Err(Failure::io(self.dest.join(OsStr::from_bytes(key)).display(), error)),
        }
    }
}

/// Returns true for names joined by `/`, none of them empty, `.` or `..`.
fn is_path(key: &[u8]) -> bool {
    key.split(|byte| *byte == b'/').all(|name| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0))
}

fn make_parents(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Sets the modes, children first, since a directory may lose its own write permission.
fn set_modes(directories: &[(PathBuf, u32)]) -> Result<(), Failure> {
    directories.iter().rev().try_for_each(|(path, mode)| {
        fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(|error| Failure::io(path.display(), error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_are_paths() {
        for path in [&b"a"[..], b"a/b", b"a b/\xff", b"...", b".a"] {
            assert!(is_path(path), "{path:?}");
        }
        for other in [&b""[..], b"/", b"/etc/passwd", b"a/", b"a//b", b"..", b"a/../b", b".", b"a/.", b"a\0b"] {
            assert!(!is_path(other), "{other:?}");
        }
    }
}
