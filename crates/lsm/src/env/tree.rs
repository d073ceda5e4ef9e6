//! Names:  directories and their entries, for the in-memory file systems.
//!
//! A call is first planned (is it possible in the current tree? which error would the operating system return?) and
//! becomes a [`Change`], a value; then the change is applied. The simulation keeps changes that are not yet durable and
//! applies them later, or never.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::DirEntry;

/// The target of a name: a file or a directory, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Entry {
    File(u64),
    Dir(u64),
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) dir: u64,
    pub(super) name: Arc<str>,
}

/// One change of names. It is atomic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Put { at: Place, entry: Entry },
    Take { at: Place, entry: Entry },
    Move { from: Place, to: Place, entry: Entry, replaced: Option<Entry> },
}

impl Change {
    /// Returns the place that has a new entry after the change.
    pub(super) fn filled(&self) -> Option<&Place> {
        match self {
            Change::Put { at, .. } => Some(at),
            Change::Take { .. } => None,
            Change::Move { to, .. } => Some(to),
        }
    }

    /// Returns the place that is empty after the change.
    pub(super) fn vacated(&self) -> Option<&Place> {
        match self {
            Change::Put { .. } => None,
            Change::Take { at, .. } => Some(at),
            Change::Move { from, .. } => Some(from),
        }
    }

    /// Returns the directories whose entries it changes.
    pub(super) fn dirs(&self) -> impl Iterator<Item = u64> {
        [self.filled(), self.vacated()].into_iter().flatten().map(|place| place.dir)
    }

    /// Returns the file or directory that the change concerns.
    pub(super) fn entry(&self) -> Entry {
        match self {
            Change::Put { entry, .. } | Change::Take { entry, .. } | Change::Move { entry, .. } => *entry,
        }
    }
}

/// The number of the root directory, which always exists.
pub(super) const ROOT: u64 = 0;

/// All directories and their entries. Files are identified by number only.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    dirs: BTreeMap<u64, BTreeMap<Arc<str>, Entry>>,
}

impl Tree {
    /// Creates a tree with an empty root.
    pub(super) fn new() -> Tree {
        Tree { dirs: BTreeMap::from([(ROOT, BTreeMap::new())]) }
    }

    /// Creates the empty directory `dir`, without a name.
    pub(super) fn add_dir(&mut self, dir: u64) {
        self.dirs.insert(dir, BTreeMap::new());
    }

    /// Returns the entry that a path names.
    pub(super) fn lookup(&self, path: &Path) -> io::Result<Entry> {
        let mut entry = Entry::Dir(ROOT);
        for name in names(path)? {
            let Entry::Dir(dir) = entry else { return Err(ErrorKind::NotADirectory.into()) };
            entry = *self.entries(dir).get(name).ok_or(ErrorKind::NotFound)?;
        }
        Ok(entry)
    }

    /// Returns the file that a path names.
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.lookup(path)? {
            Entry::File(file) => Ok(file),
            Entry::Dir(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    /// Returns the directory that a path names.
    pub(super) fn dir(&self, path: &Path) -> io::Result<u64> {
        match self.lookup(path)? {
            Entry::Dir(dir) => Ok(dir),
            Entry::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Returns the entries of a directory, sorted; none for a removed directory.
    pub(super) fn entries(&self, dir: u64) -> &BTreeMap<Arc<str>, Entry> {
        static NONE: BTreeMap<Arc<str>, Entry> = BTreeMap::new();
        self.dirs.get(&dir).unwrap_or(&NONE)
    }

    /// Returns true if the directory has a name.
    pub(super) fn has_dir(&self, dir: u64) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// Returns the entries of a directory in the form of `Fs::entries`.
    pub(super) fn dir_entries(&self, dir: u64) -> Vec<DirEntry> {
        let entry = |(name, entry): (&Arc<str>, &Entry)| DirEntry {
            name: name.to_string(),
            is_file: matches!(entry, Entry::File(_)),
        };
        self.entries(dir).iter().map(entry).collect()
    }

    /// Returns the place of a path's last name in its directory, which must exist.
    pub(super) fn place(&self, path: &Path) -> io::Result<Place> {
        let names = names(path)?;
        let (last, above) = names.split_last().ok_or(ErrorKind::AlreadyExists)?;
        Ok(Place { dir: self.dir(&above.iter().collect::<PathBuf>())?, name: Arc::from(*last) })
    }

    /// Returns the entry at a place.
    pub(super) fn at(&self, place: &Place) -> Option<Entry> {
        self.dirs.get(&place.dir)?.get(&place.name).copied()
    }

    /// Returns the place of a name in a directory given by its number. `NotFound` if the directory was removed.
    pub(super) fn place_in(&self, dir: u64, name: &str) -> io::Result<Place> {
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return Err(ErrorKind::InvalidInput.into());
        }
        match self.dirs.contains_key(&dir) {
            true => Ok(Place { dir, name: Arc::from(name) }),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Returns the file at a place.
    pub(super) fn file_at(&self, place: &Place) -> io::Result<u64> {
        match self.at(place) {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Dir(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Plans a new name for `entry`.
    pub(super) fn plan_put(&self, at: Place, entry: Entry) -> io::Result<Change> {
        match self.at(&at) {
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
            None => Ok(Change::Put { at, entry }),
        }
    }

    /// Plans the removal of a file's name.
    pub(super) fn plan_remove(&self, at: Place) -> io::Result<Change> {
        let file = self.file_at(&at)?;
        Ok(Change::Take { at, entry: Entry::File(file) })
    }

    /// Plans the removal of an empty directory.
    pub(super) fn plan_remove_dir(&self, path: &Path) -> io::Result<Change> {
        let dir = self.dir(path)?;
        if !self.entries(dir).is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(Change::Take { at: self.place(path)?, entry: Entry::Dir(dir) })
    }

    /// Plans a rename; `None` if both paths name the same entry.
    pub(super) fn plan_rename(&self, from: &Path, to: &Path) -> io::Result<Option<Change>> {
        let (left, right) = (self.place(from)?, self.place(to)?);
        let entry = self.at(&left).ok_or(ErrorKind::NotFound)?;
        let same = self.at(&right) == Some(entry);
        if !same && names(from)?.starts_with(&names(to)?) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let replaces_file = matches!(self.at(&right), Some(Entry::File(_)));
        if !same && !replaces_file && matches!(entry, Entry::Dir(_)) && names(to)?.starts_with(&names(from)?) {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.plan_move(left, right)
    }

    /// Plans a move between two places, neither of which is inside the other.
    pub(super) fn plan_move(&self, from: Place, to: Place) -> io::Result<Option<Change>> {
        let entry = self.at(&from).ok_or(ErrorKind::NotFound)?;
        let replaced = self.at(&to);
        match (entry, replaced) {
            _ if replaced == Some(entry) => return Ok(None),
            (Entry::File(_), Some(Entry::Dir(_))) => return Err(ErrorKind::IsADirectory.into()),
            (Entry::Dir(_), Some(Entry::File(_))) => return Err(ErrorKind::NotADirectory.into()),
            (Entry::Dir(_), Some(Entry::Dir(dir))) if !self.entries(dir).is_empty() => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            _ => {}
        }
        Ok(Some(Change::Move { from, to, entry, replaced }))
    }

    /// Returns the missing directories of a path, outermost first.
    pub(super) fn missing_dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        let mut prefix = PathBuf::new();
        for name in names(path)? {
            prefix.push(name);
            match self.lookup(&prefix) {
                Ok(Entry::Dir(_)) => {}
                Ok(Entry::File(_)) if self.lookup(path).is_ok() => return Err(ErrorKind::AlreadyExists.into()),
                Ok(Entry::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                Err(_) => missing.push(prefix.clone()),
            }
        }
        Ok(missing)
    }

    /// Applies a change. If the tree has changed since the change was planned, a name is removed only if it still has
    /// the planned entry.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Put { at, entry } => self.put(at, *entry),
            Change::Take { at, entry } => {
                self.take(at, *entry);
                self.forget_dir(*entry);
            }
            Change::Move { from, to, entry, replaced } => {
                self.take(from, *entry);
                self.put(to, *entry);
                replaced.iter().for_each(|replaced| self.forget_dir(*replaced));
            }
        }
    }

    fn put(&mut self, at: &Place, entry: Entry) {
        self.dirs.entry(at.dir).or_default().insert(at.name.clone(), entry);
    }

    fn take(&mut self, at: &Place, entry: Entry) {
        if let Some(entries) = self.dirs.get_mut(&at.dir)
            && entries.get(&at.name) == Some(&entry)
        {
            entries.remove(&at.name);
        }
    }

    /// Removes a directory that has lost its name, so that open handles can add no entries to it.
    fn forget_dir(&mut self, entry: Entry) {
        if let Entry::Dir(dir) = entry {
            self.dirs.remove(&dir);
        }
    }

    /// Returns every file and directory reachable from the root, with its path. A file with two names is listed twice.
    pub(super) fn walk(&self) -> Vec<(PathBuf, Entry)> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::new(), ROOT)];
        while let Some((path, dir)) = open.pop() {
            for (name, entry) in self.dirs.get(&dir).into_iter().flatten() {
                let path = path.join(&**name);
                found.push((path.clone(), *entry));
                if let Entry::Dir(dir) = *entry {
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
    pub(super) fn all_entries(&self) -> impl Iterator<Item = Entry> {
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
