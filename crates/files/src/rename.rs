//! Renames, of single entries and of trees. Each is one batch.

use waxseal::Batch;

use crate::entry::{Entry, not_a_file};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Verb;
use crate::metadata::FileKind;
use crate::namespace::{exists, is_root, of_path};
use crate::path::FilePath;
use crate::place::Place;
use crate::store::{Files, shown};
use crate::walk::Walk;

/// Most entries of a tree that one step renames.
pub const MAX_TREE_ENTRIES: usize = 1_000_000;
/// Longest time that collecting the entries of a tree takes.
const MAX_TREE_NANOS: u64 = 10_000_000_000;
/// Most bytes of the entries of a tree that one step renames, keys included.
const MAX_TREE_BYTES: usize = 1 << 30;

/// The treatment of an existing entry at the new path of a rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenameMode {
    /// Replaces a file by a file, and an empty directory by a directory.
    #[default]
    Replace,
    /// Fails with `Exists` (`RENAME_NOREPLACE`).
    NoReplace,
    /// Swaps both entries, with everything in them; both must exist (`RENAME_EXCHANGE`).
    Exchange,
}

impl Files {
    /// Renames a file or a tree, and replaces a file or an empty directory at the new path.
    ///
    /// One atomic step: readers, snapshots and crashes see everything at the old path or everything at the new one.
    /// Handles of files follow. A file costs a few records. A tree costs one for each entry and has the namespace to
    /// itself meanwhile: about a million entries in a few seconds.
    ///
    /// Errors: as for `stat`; `IsDirectory`, `NotDirectory` or `NotEmpty` for the new path; `Invalid` for a path below
    /// the old one; `Busy` for the root; `TooLarge` for a tree of more than a million entries or one that takes longer
    /// than 10 s to collect: copy it, then remove it.
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// [`rename`](Files::rename) with another way to treat an existing path.
    pub fn rename_with(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, mode: RenameMode) -> Result<()> {
        let (from, to) = (Place::parse(from.as_ref())?, Place::parse(to.as_ref())?);
        self.rename_at(&from, &to, mode, MAX_TREE_ENTRIES)
    }

    /// `rename_with` of places, with another limit of entries.
    pub(crate) fn rename_at(&self, old: &Place, new: &Place, mode: RenameMode, most: usize) -> Result<()> {
        let (from, to) = (&old.path, &new.path);
        self.check_writable()?;
        let (Some(old_parent), Some(new_parent)) = (from.parent(), to.parent()) else { return Err(is_root()) };
        if to.is_below(from) || mode == RenameMode::Exchange && from.is_below(to) {
            let view = self.families.latest();
            view.metadata(from)?;
            view.directory(&new_parent).map_err(|error| of_path(error, to))?;
            return Err(Error::invalid("a directory cannot become a part of itself").at(to.display()));
        }
        let rename = Rename { fs: self, places: [old, new], from, to, old_parent, new_parent, mode, most };
        if from == to {
            self.families.latest().metadata(from)?;
            return if mode == RenameMode::NoReplace { Err(exists(to)) } else { Ok(()) };
        }
        let entries = match rename.single()? {
            Some(entries) => entries,
            None => rename.tree()?,
        };
        self.log(Verb::Rename, from, || match entries {
            1 => format!("{} to {}", shown(from), shown(to)),
            _ => format!("{} to {}, {entries} entries", shown(from), shown(to)),
        })?;
        self.settle()
    }
}

/// A rename of two different paths, neither of which is the root.
struct Rename<'a> {
    fs: &'a Files,
    places: [&'a Place; 2],
    from: &'a FilePath,
    to: &'a FilePath,
    old_parent: FilePath,
    new_parent: FilePath,
    mode: RenameMode,
    /// Most entries of a tree.
    most: usize,
}

impl Rename<'_> {
    /// Renames an entry that is no directory. Returns `None`, and changes nothing, if a directory is renamed.
    fn single(&self) -> Result<Option<usize>> {
        let _locked = self.fs.shared.namespace.lock([&self.old_parent, &self.new_parent]);
        let (old, replaced) = self.entries()?;
        let is_directory = |entry: &Entry| entry.metadata.is_directory();
        let is_exchange = self.mode == RenameMode::Exchange;
        if is_directory(&old) || is_exchange && replaced.as_ref().is_some_and(is_directory) {
            return Ok(None);
        }
        let mut batch = self.fs.families.batch();
        if !is_exchange {
            batch.delete(&self.fs.families.entries, self.from.key());
        }
        self.finish(batch, old, replaced)?;
        Ok(Some(1))
    }

    /// Renames a directory with all that is in it, or exchanges two entries of which one is a directory.
    fn tree(&self) -> Result<usize> {
        let _locked = self.fs.shared.namespace.lock_tree();
        let (old, replaced) = self.entries()?;
        let mut batch = self.fs.families.batch();
        let mut collected =
            Collected { started: self.fs.families.db.env().clock.monotonic_nanos(), ..Collected::default() };
        let moved = self.collect(self.from, self.to, &mut collected)?;
        let back = match self.mode {
            RenameMode::Exchange => self.collect(self.to, self.from, &mut collected)?,
            _ => Vec::new(),
        };
        batch.delete_range(&self.fs.families.entries, self.from.subtree());
        if self.mode == RenameMode::Exchange {
            batch.delete_range(&self.fs.families.entries, self.to.subtree());
        }
        for (key, value) in moved.into_iter().chain(back) {
            batch.put(&self.fs.families.entries, key, value);
        }
        self.finish(batch, old, replaced)?;
        Ok(collected.entries)
    }

    /// Returns the entry at the old path, and the one at the new path after checking that it may be replaced.
    fn entries(&self) -> Result<(Entry, Option<Entry>)> {
        let view = self.fs.families.latest();
        self.places.iter().try_for_each(|place| place.check(view))?;
        let old = view.entry(self.from)?;
        view.directory(&self.new_parent).map_err(|error| of_path(error, self.to))?;
        let replaced = view.find(self.to)?;
        match (&replaced, self.mode) {
            (Some(_), RenameMode::NoReplace) => return Err(exists(self.to)),
            (None, RenameMode::Exchange) => return Err(view.entry(self.to).err().unwrap_or_else(|| exists(self.to))),
            (Some(other), RenameMode::Replace) => match (old.metadata.is_directory(), other.metadata.is_directory()) {
                (true, false) => {
                    let message = "is not a directory, and would be replaced by one";
                    return Err(Error::of(ErrorKind::NotDirectory, message).at(self.to.display()));
                }
                (false, true) if self.from.is_below(self.to) => self.fs.check_empty(self.to)?, // it holds the old path
                (false, true) => return Err(not_a_file(FileKind::Directory).at(self.to.display())),
                (true, true) => self.fs.check_empty(self.to)?,
                (false, false) => {}
            },
            _ => {}
        }
        Ok((old, replaced))
    }

    /// Returns the entries below a path, with the keys that they get.
    fn collect(&self, from: &FilePath, to: &FilePath, collected: &mut Collected) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let clock = &self.fs.families.db.env().clock;
        let mut walk = Walk::new(self.fs.families.latest().entries(from.subtree()));
        let mut entries = Vec::new();
        let moved = |key: &[u8], value: &[u8]| (FilePath::of_key(key).moved(from, to), value.to_vec());
        while let Some((path, value)) = walk.visit(moved)? {
            if path.key().len() > crate::path::MAX_PATH_BYTES {
                return Err(Error::of(ErrorKind::NameTooLong, "the new path would be too long").at(path.display()));
            }
            collected.entries += 1;
            collected.bytes += path.key().len() + value.len();
            let is_late = collected.entries.is_multiple_of(1024)
                && clock.monotonic_nanos().saturating_sub(collected.started) > MAX_TREE_NANOS;
            if collected.entries > self.most || collected.bytes > MAX_TREE_BYTES || is_late {
                let message = format!(
                    "a tree is renamed in one step up to {} entries and 10 s: copy it, then remove it",
                    self.most
                );
                return Err(Error::of(ErrorKind::TooLarge, message).at(self.from.display()));
            }
            entries.push((path.key().to_vec(), value));
        }
        Ok(entries)
    }

    /// Adds the entries of both paths and the times of both parents, commits, and tells the open files. The caller holds
    /// the locks.
    fn finish(&self, mut batch: Batch, mut old: Entry, mut replaced: Option<Entry>) -> Result<()> {
        let (fs, now) = (self.fs, self.fs.now());
        let is_exchange = self.mode == RenameMode::Exchange;
        old.metadata.ctime = now;
        fs.families.put_entry(&mut batch, self.to, &old);
        let mut released = None;
        match &mut replaced {
            Some(other) if is_exchange => {
                other.metadata.ctime = now;
                fs.families.put_entry(&mut batch, self.from, other);
            }
            Some(other) => released = fs.release(&mut batch, other),
            None => {}
        }
        let view = fs.families.latest();
        for parent in [&self.old_parent, &self.new_parent] {
            // A parent that is moved itself keeps its times: only an exchange could move one, and refuses to.
            fs.touch_directory(&mut batch, parent, view.directory(parent)?, now);
        }
        fs.families.commit(batch)?;
        let files = &fs.shared.open_files;
        if let Some(other) = &replaced {
            match is_exchange {
                true => files.rename(other.metadata.inode, self.from, now),
                false => files.unlink(other.metadata.inode, now),
            }
        }
        if is_exchange {
            files.exchange_trees(self.from, self.to);
        } else {
            files.rename_tree(self.from, self.to);
        }
        files.rename(old.metadata.inode, self.to, now);
        fs.shared.reclaimer.add(released);
        Ok(())
    }
}

/// The size of what was collected.
#[derive(Default)]
struct Collected {
    entries: usize,
    bytes: usize,
    started: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileStore;
    use waxseal::Db;

    #[test]
    fn a_tree_beyond_the_limit_stays_where_it_is() {
        let fs = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
        fs.create_dir_all("tree/sub").unwrap();
        fs.write("tree/sub/file", "content").unwrap();
        fs.mkdir("other").unwrap();
        let rename = |from: &str, to: &str, mode, most| {
            let place = |path: &str| Place::parse(path.as_bytes()).unwrap();
            fs.rename_at(&place(from), &place(to), mode, most)
        };
        for mode in [RenameMode::Replace, RenameMode::NoReplace] {
            let error = rename("tree", "moved", mode, 2).unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::TooLarge, Some(&b"tree"[..])), "{error}");
        }
        // The entries of both trees count.
        assert_eq!(rename("tree", "other", RenameMode::Exchange, 3).unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!((fs.read("tree/sub/file").unwrap(), fs.exists("moved").unwrap()), (b"content".to_vec(), false));
        rename("tree", "other", RenameMode::Exchange, 4).unwrap();
        rename("other", "moved", RenameMode::Replace, 3).unwrap();
        assert_eq!(fs.read("moved/sub/file").unwrap(), b"content");
    }
}
