//! Operations on trees: remove, copy, disk use, find.

use crate::condition::Condition;
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Verb;
use crate::glob::matches;
use crate::metadata::{FileKind, SetAttributes};
use crate::namespace::is_root;
use crate::path::FilePath;
use crate::place::Place;
use crate::records::{ContentId, reclaim_key, reclaim_value};
use crate::rename::MAX_TREE_ENTRIES;
use crate::snapshot::Snapshot;
use crate::store::{Files, shown};
use crate::walk::{Walk, WalkEntry};

/// The space that a tree takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DiskUsage {
    /// Regular files.
    pub files: u64,
    /// Directories, the root of the tree included.
    pub directories: u64,
    /// Symbolic links, fifos and sockets.
    pub others: u64,
    /// The sum of the sizes of files and links.
    pub bytes: u64,
    /// The sum of the bytes that are stored as chunks, without holes.
    pub allocated: u64,
}

impl Snapshot {
    /// Returns the space that a tree takes. Costs a walk. Errors: as for `walk`.
    pub fn disk_usage(&self, path: impl AsRef<[u8]>) -> Result<DiskUsage> {
        let mut usage = DiskUsage::default();
        for entry in self.walk(path)? {
            let metadata = entry?.metadata;
            match metadata.kind {
                FileKind::File => usage.files += 1,
                FileKind::Directory => usage.directories += 1,
                _ => usage.others += 1,
            }
            usage.bytes += metadata.size;
            usage.allocated += metadata.allocated;
        }
        Ok(usage)
    }

    /// Walks over the entries of a tree whose names match a pattern: `*` is any bytes, `?` one byte, `[a-z]` and
    /// `[!a-z]` one byte of a set, and `\` takes the byte behind it literally. Costs a walk. Errors: as for `walk`.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// fs.write("a.jpg", "")?;
    /// fs.write("b.png", "")?;
    /// let found: Vec<_> = fs.snapshot().find("", "*.jpg")?.collect::<waxseal_files::Result<_>>()?;
    /// assert_eq!(found[0].path, b"a.jpg");
    /// # Ok(())
    /// # }
    /// ```
    pub fn find(&self, path: impl AsRef<[u8]>, pattern: impl AsRef<[u8]>) -> Result<Find> {
        Ok(Find { walk: self.walk(path)?, pattern: pattern.as_ref().to_vec() })
    }
}

/// The entries of a tree whose names match a pattern.
#[must_use = "iterators are lazy"]
pub struct Find {
    walk: Walk,
    pattern: Vec<u8>,
}

impl Iterator for Find {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Result<WalkEntry>> {
        let pattern = &self.pattern;
        self.walk.find(|entry| match entry {
            Ok(entry) => matches(pattern, entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()),
            Err(_) => true,
        })
    }
}

impl Files {
    /// Returns the space that a tree takes. Costs a walk. Errors: as for `walk`.
    pub fn disk_usage(&self, path: impl AsRef<[u8]>) -> Result<DiskUsage> {
        self.snapshot().disk_usage(path)
    }

    /// Walks over the entries of a tree whose names match a pattern: see [`Snapshot::find`].
    pub fn find(&self, path: impl AsRef<[u8]>, pattern: impl AsRef<[u8]>) -> Result<Find> {
        self.snapshot().find(path, pattern)
    }

    /// Removes an entry with everything below it.
    ///
    /// Up to a million entries this is one atomic step. A larger tree goes in steps of a million entries from its end,
    /// so that what is left is always a tree. Has the namespace to itself meanwhile. Costs a scan of the entries and a
    /// record for each file with chunks; their content is deleted afterwards. Damaged entries go, too; their content
    /// stays, and `fsck` reports it. Errors: as for `stat`; `Busy` for the root.
    pub fn remove_tree(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.remove_tree_by(path.as_ref(), MAX_TREE_ENTRIES)
    }

    /// `remove_tree` in steps of another size.
    pub(crate) fn remove_tree_by(&self, path: &[u8], most: usize) -> Result<()> {
        let path = FilePath::parse(path)?;
        self.check_writable()?;
        let Some(parent) = path.parent() else { return Err(is_root()) };
        let mut removed = 0;
        {
            let _locked = self.shared.namespace.lock_tree();
            match self.families.latest().metadata(&path) {
                Err(error) if error.is_corruption() => {}
                known => drop(known?),
            }
            let mut is_removed = false;
            while !is_removed {
                let count;
                (count, is_removed) = self.remove_end(&path, &parent, most)?;
                removed += count;
            }
        }
        self.log(Verb::Remove, &path, || match removed {
            1 => shown(&path),
            _ => format!("{}, {removed} entries", shown(&path)),
        })?;
        self.settle()
    }

    /// Removes the last entries of a tree. Returns their number, and whether they were all. The content of a damaged
    /// entry is not known, and stays.
    fn remove_end(&self, path: &FilePath, parent: &FilePath, most: usize) -> Result<(usize, bool)> {
        let view = self.families.latest();
        let mut cursor = view.entries(path.subtree());
        let (mut contents, mut count, mut first) = (Vec::<(ContentId, u32)>::new(), 0, Vec::new());
        // The handles of an open file may add chunks.
        let open = self.shared.open_files.inodes();
        let mut moved = cursor.last();
        while count < most {
            match moved {
                Ok(()) if !cursor.valid() => {
                    first = path.key().to_vec();
                    break;
                }
                Ok(()) => {
                    if let Ok((inode, Some((id, chunks)))) = Entry::decode_stored_content(cursor.value()) {
                        contents.push((id, if open.contains(&inode) { u32::MAX } else { chunks }));
                    }
                    first.clear();
                    first.extend_from_slice(cursor.key());
                    count += 1;
                }
                Err(error) if error.is_corruption() => {}
                Err(error) => return Err(error.into()),
            }
            moved = cursor.prev();
        }
        let is_all = first == path.key();
        let mut batch = self.families.batch();
        batch.delete_range(&self.families.entries, &first[..]..&path.end());
        for (content, chunks) in &contents {
            batch.put(&self.families.chunks, reclaim_key(*content), reclaim_value(*chunks));
        }
        let now = self.now();
        if is_all {
            self.touch_directory(&mut batch, parent, view.directory(parent)?, now);
        }
        self.families.commit(batch)?;
        self.shared.open_files.unlink_tree(path, &first, now);
        self.shared.reclaimer.add(contents);
        Ok((count, is_all))
    }

    /// Copies a directory, link, fifo or socket, with its extended attributes in the same commit.
    fn copy_entry(&self, old: Entry, path: &FilePath) -> Result<()> {
        let metadata = old.metadata;
        let attributes =
            SetAttributes::new().mode(metadata.mode).owner(metadata.uid, metadata.gid).mtime(metadata.mtime);
        let mut entry = self.new_entry(metadata.kind, &attributes)?;
        (entry.metadata.size, entry.body, entry.xattrs) = (metadata.size, old.body, old.xattrs);
        self.create_entry(&Place::of(path.clone()), entry, drop)
    }

    /// Copies a directory without what is in it, in one atomic step: mode, owner, time of the last change and extended
    /// attributes. The new path must not exist. Errors: as for `mkdir`; `NotDirectory` for another entry.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// fs.mkdir("cats")?;
    /// fs.write("cats/tom", "...")?;
    /// fs.copy_dir("cats", "dogs")?;
    /// assert_eq!(fs.list("dogs")?.count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_dir(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let (from, to) = (FilePath::parse(from.as_ref())?, FilePath::parse(to.as_ref())?);
        let old = self.families.latest().entry(&from)?;
        match old.metadata.is_directory() {
            true => self.copy_entry(old, &to),
            false => Err(Error::of(ErrorKind::NotDirectory, "the entry is no directory").at(from.display())),
        }
    }

    /// Copies a tree as it is now: entry by entry, directories first. The new path must not exist. Errors: as for
    /// `copy` and `mkdir`. After an error, a part of the copy is left.
    pub fn copy_tree(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let (from, to) = (FilePath::parse(from.as_ref())?, FilePath::parse(to.as_ref())?);
        let snapshot = self.snapshot();
        if self.exists(to.display())? {
            return Err(crate::namespace::exists(&to));
        }
        for entry in snapshot.walk(from.display())? {
            let WalkEntry { path, metadata } = entry?;
            let old = FilePath::parse(&path)?;
            let new = match from.is_root() {
                true => FilePath::parse(&[&to.display()[..], b"/", &path].concat())?,
                false => old.moved(&from, &to),
            };
            match metadata.kind {
                FileKind::File => self.copy_from(&snapshot, &path, &new.display(), Condition::Always)?,
                _ => self.copy_entry(snapshot.view().entry(&old)?, &new)?,
            }
        }
        Ok(())
    }
}
