//! Names:  directories and their entries, for the in-memory file systems.
//!
//! A call is first planned (is it possible in the current tree? which error would the operating system return?) and
//! becomes a [`TreeChange`], a value; then the change is applied. The simulation keeps changes that are not yet durable
//! and applies them later, or never.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::DirEntry;

/// The target of a name: a file or a directory, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TreeEntry {
    File(u64),
    Dir(u64),
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TreePath {
    pub(super) dir: u64,
    pub(super) name: Arc<str>,
}

/// One change of names. It is atomic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TreeChange {
    Put { at: TreePath, entry: TreeEntry },
    Take { at: TreePath, entry: TreeEntry },
    Move { from: TreePath, to: TreePath, entry: TreeEntry, replaced: Option<TreeEntry> },
}

impl TreeChange {
    /// Returns the place that has a new entry after the change.
    pub(super) fn filled(&self) -> Option<&TreePath> {
        match self {
            TreeChange::Put { at, .. } => Some(at),
            TreeChange::Take { .. } => None,
            TreeChange::Move { to, .. } => Some(to),
        }
    }

    /// Returns the place that is empty after the change.
    pub(super) fn vacated(&self) -> Option<&TreePath> {
        match self {
            TreeChange::Put { .. } => None,
            TreeChange::Take { at, .. } => Some(at),
            TreeChange::Move { from, .. } => Some(from),
        }
    }

    /// Returns the directories whose entries it changes.
    pub(super) fn dirs(&self) -> impl Iterator<Item = u64> {
        [self.filled(), self.vacated()].into_iter().flatten().map(|place| place.dir)
    }

    /// Returns the file or directory that the change concerns.
    pub(super) fn entry(&self) -> TreeEntry {
        match self {
            TreeChange::Put { entry, .. } | TreeChange::Take { entry, .. } | TreeChange::Move { entry, .. } => *entry,
        }
    }
}

/// The number of the root directory, which always exists.
pub(super) const ROOT: u64 = 0;

/// All directories and their entries. Files are identified by number only.
#[derive(Clone, Debug)]
pub(super) struct NameTree {
    dirs: BTreeMap<u64, BTreeMap<Arc<str>, TreeEntry>>,
}

impl NameTree {
    /// Creates a tree with an empty root.
    pub(super) fn new() -> NameTree {
        NameTree { dirs: BTreeMap::from([(ROOT, BTreeMap::new())]) }
    }

    /// Creates the empty directory `dir`, without a name.
    pub(super) fn add_dir(&mut self, dir: u64) {
        self.dirs.insert(dir, BTreeMap::new());
    }

    /// Returns the entry that a path names.
    pub(super) fn lookup(&self, path: &Path) -> io::Result<TreeEntry> {
        let mut entry = TreeEntry::Dir(ROOT);
        for name in names(path)? {
            let TreeEntry::Dir(dir) = entry else { return Err(ErrorKind::NotADirectory.into()) };
            entry = *self.entries(dir).get(name).ok_or(ErrorKind::NotFound)?;
        }
        Ok(entry)
    }

    /// Returns the file that a path names.
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.lookup(path)? {
            TreeEntry::File(file) => Ok(file),
            TreeEntry::Dir(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    /// Returns the directory that a path names.
    pub(super) fn dir(&self, path: &Path) -> io::Result<u64> {
        match self.lookup(path)? {
            TreeEntry::Dir(dir) => Ok(dir),
            TreeEntry::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Returns the entries of a directory, sorted; none for a removed directory.
    pub(super) fn entries(&self, dir: u64) -> &BTreeMap<Arc<str>, TreeEntry> {
        static NONE: BTreeMap<Arc<str>, TreeEntry> = BTreeMap::new();
        self.dirs.get(&dir).unwrap_or(&NONE)
    }

    /// Returns true if the directory has a name.
    pub(super) fn has_dir(&self, dir: u64) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// Returns the entries of a directory in the form of `Fs::entries`.
    pub(super) fn dir_entries(&self, dir: u64) -> Vec<DirEntry> {
        let entry = |(name, entry): (&Arc<str>, &TreeEntry)| DirEntry {
            name: name.to_string(),
            is_file: matches!(entry, TreeEntry::File(_)),
        };
        self.entries(dir).iter().map(entry).collect()
    }

    /// Returns the place of a path's last name in its directory, which must exist.
    pub(super) fn place(&self, path: &Path) -> io::Result<TreePath> {
        let names = names(path)?;
        let (last, above) = names.split_last().ok_or(ErrorKind::AlreadyExists)?;
        Ok(TreePath { dir: self.dir(&above.iter().collect::<PathBuf>())?, name: Arc::from(*last) })
    }

    /// Returns the entry at a place.
    pub(super) fn at(&self, place: &TreePath) -> Option<TreeEntry> {
        self.dirs.get(&place.dir)?.get(&place.name).copied()
    }

    /// Returns the place of a name in a directory given by its number. `NotFound` if the directory was removed.
    pub(super) fn place_in(&self, dir: u64, name: &str) -> io::Result<TreePath> {
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return Err(ErrorKind::InvalidInput.into());
        }
        match self.dirs.contains_key(&dir) {
            true => Ok(TreePath { dir, name: Arc::from(name) }),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Returns the file at a place.
    pub(super) fn file_at(&self, place: &TreePath) -> io::Result<u64> {
        match self.at(place) {
            Some(TreeEntry::File(file)) => Ok(file),
            Some(TreeEntry::Dir(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Plans a new name for `entry`.
    pub(super) fn plan_put(&self, at: TreePath, entry: TreeEntry) -> io::Result<TreeChange> {
        match self.at(&at) {
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
            None => Ok(TreeChange::Put { at, entry }),
        }
    }

    /// Plans the removal of a file's name.
    pub(super) fn plan_remove(&self, at: TreePath) -> io::Result<TreeChange> {
        let file = self.file_at(&at)?;
        Ok(TreeChange::Take { at, entry: TreeEntry::File(file) })
    }

    /// Plans the removal of an empty directory.
    pub(super) fn plan_remove_dir(&self, path: &Path) -> io::Result<TreeChange> {
        let dir = self.dir(path)?;
        if !self.entries(dir).is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(TreeChange::Take { at: self.place(path)?, entry: TreeEntry::Dir(dir) })
    }

    /// Plans a rename; `None` if both paths name the same entry.
    pub(super) fn plan_rename(&self, from: &Path, to: &Path) -> io::Result<Option<TreeChange>> {
        let (left, right) = (self.place(from)?, self.place(to)?);
        let entry = self.at(&left).ok_or(ErrorKind::NotFound)?;
        let same = self.at(&right) == Some(entry);
        if !same && names(from)?.starts_with(&names(to)?) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let replaces_file = matches!(self.at(&right), Some(TreeEntry::File(_)));
        if !same && !replaces_file && matches!(entry, TreeEntry::Dir(_)) && names(to)?.starts_with(&names(from)?) {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.plan_move(left, right)
    }

    /// Plans a move between two places, neither of which is inside the other.
    pub(super) fn plan_move(&self, from: TreePath, to: TreePath) -> io::Result<Option<TreeChange>> {
        let entry = self.at(&from).ok_or(ErrorKind::NotFound)?;
        let replaced = self.at(&to);
        match (entry, replaced) {
            _ if replaced == Some(entry) => return Ok(None),
            (TreeEntry::File(_), Some(TreeEntry::Dir(_))) => return Err(ErrorKind::IsADirectory.into()),
            (TreeEntry::Dir(_), Some(TreeEntry::File(_))) => return Err(ErrorKind::NotADirectory.into()),
            (TreeEntry::Dir(_), Some(TreeEntry::Dir(dir))) if !self.entries(dir).is_empty() => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            _ => {}
        }
        Ok(Some(TreeChange::Move { from, to, entry, replaced }))
    }

    /// Returns the missing directories of a path, outermost first.
    pub(super) fn missing_dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        let mut prefix = PathBuf::new();
        for name in names(path)? {
            prefix.push(name);
            match self.lookup(&prefix) {
                Ok(TreeEntry::Dir(_)) => {}
                Ok(TreeEntry::File(_)) if self.lookup(path).is_ok() => return Err(ErrorKind::AlreadyExists.into()),
                Ok(TreeEntry::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                Err(_) => missing.push(prefix.clone()),
            }
        }
        Ok(missing)
    }

    /// Applies a change. If the tree has changed since the change was planned, a name is removed only if it still has
    /// the planned entry.
    pub(super) fn apply(&mut self, change: &TreeChange) {
        match change {
            TreeChange::Put { at, entry } => self.put(at, *entry),
            TreeChange::Take { at, entry } => {
                self.take(at, *entry);
                self.forget_dir(*entry);
            }
            TreeChange::Move { from, to, entry, replaced } => {
                self.take(from, *entry);
                self.put(to, *entry);
                replaced.iter().for_each(|replaced| self.forget_dir(*replaced));
            }
        }
    }

    fn put(&mut self, at: &TreePath, entry: TreeEntry) {
        self.dirs.entry(at.dir).or_default().insert(at.name.clone(), entry);
    }

    fn take(&mut self, at: &TreePath, entry: TreeEntry) {
        if let Some(entries) = self.dirs.get_mut(&at.dir)
            && entries.get(&at.name) == Some(&entry)
        {
            entries.remove(&at.name);
        }
    }

    /// Removes a directory that has lost its name, so that open handles can add no entries to it.
    fn forget_dir(&mut self, entry: TreeEntry) {
        if let TreeEntry::Dir(dir) = entry {
            self.dirs.remove(&dir);
        }
    }

    /// Returns every file and directory reachable from the root, with its path. A file with two names is listed twice.
    pub(super) fn walk(&self) -> Vec<(PathBuf, TreeEntry)> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::new(), ROOT)];
        while let Some((path, dir)) = open.pop() {
            for (name, entry) in self.dirs.get(&dir).into_iter().flatten() {
                let path = path.join(&**name);
                found.push((path.clone(), *entry));
                if let TreeEntry::Dir(dir) = *entry {
                    open.push((path, dir));
                }
            }
        }
        found
    }

    /// Removes directories for which `keep` is false.
    pub(super) fn retain_dirs(&mut self, keep: impl Fn(u64) -> bool) {
        self.dirs.retain(|dir, _| *dir == ROOT || keep(*dir));
    }

    /// Returns every entry of every directory, including directories not reachable from the root.
    pub(super) fn all_entries(&self) -> impl Iterator<Item = TreeEntry> {
        self.dirs.values().flat_map(|entries| entries.values().copied())
    }
}

/// Splits a path into names from the root; `.` and the leading `/` are ignored, and `..` is rejected.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidInput)?),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(ErrorKind::InvalidInput.into()),
        }
    }
    Ok(names)
}
