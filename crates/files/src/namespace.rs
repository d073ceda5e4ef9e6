//! Operations on single paths: create, remove, rename, attributes. Each is one batch.

use crate::condition::Condition;
use crate::entry::{Body, Content, Entry, MAX_LINK_BYTES, MAX_XATTR_BYTES, MAX_XATTR_NAME_BYTES, Xattrs};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Verb;
use crate::families::View;
use crate::metadata::{FileKind, Metadata, SetAttributes};
use crate::path::FilePath;
use crate::place::Place;
use crate::snapshot::no_attribute;
use crate::store::{Files, shown, stale};

/// The condition under which `set_xattr` sets an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum XattrMode {
    /// Creates or replaces.
    #[default]
    Set,
    /// Fails with `Exists` if it exists.
    Create,
    /// Fails with `NoAttribute` if it does not exist.
    Replace,
}

impl Files {
    /// Creates a directory. Errors: `Exists`, `NotFound` or `NotDirectory` for the directory above.
    pub fn mkdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.mkdir_with(path, &SetAttributes::new())
    }

    /// [`mkdir`](Files::mkdir) with attributes.
    pub fn mkdir_with(&self, path: impl AsRef<[u8]>, attributes: &SetAttributes) -> Result<()> {
        self.create(&Place::parse(path.as_ref())?, FileKind::Directory, attributes, Body::Nothing).map(drop)
    }

    /// Creates a directory and all directories above it that do not exist. Succeeds if it exists.
    pub fn create_dir_all(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.create_dirs(&FilePath::parse(path.as_ref())?)
    }

    fn create_dirs(&self, path: &FilePath) -> Result<()> {
        match self.families.latest().metadata(path) {
            Ok(metadata) if metadata.is_directory() => return Ok(()),
            Ok(_) => return Err(exists(path)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if let Some(parent) = path.parent() {
            self.create_dirs(&parent)?;
        }
        match self.mkdir(path.display()) {
            Err(error) if error.kind() == ErrorKind::Exists => self.families.latest().directory(path).map(drop),
            other => other,
        }
    }

    /// Creates a symbolic link to `target`, which need not exist. Errors: as for `mkdir`; `Invalid` for an empty target
    /// and one with a zero byte, `NameTooLong`.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.symlink_with(target, path, &SetAttributes::new())
    }

    /// [`symlink`](Files::symlink) with attributes.
    pub fn symlink_with(
        &self,
        target: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
        attributes: &SetAttributes,
    ) -> Result<()> {
        let body = Body::Link(target.as_ref().to_vec());
        self.create(&Place::parse(path.as_ref())?, FileKind::Link, attributes, body).map(drop)
    }

    /// Creates a symbolic link, or gives an existing one another target, in one atomic step. The link gets a new inode
    /// number and no extended attributes. Errors: as for `symlink`; `Exists` if the path exists and is no link.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// use waxseal_files::SetAttributes;
    ///
    /// fs.symlink("releases/1", "current")?;
    /// fs.replace_symlink("releases/2", "current", &SetAttributes::new())?; // every reader finds a link
    /// assert_eq!(fs.read_link("current")?, b"releases/2");
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace_symlink(
        &self,
        target: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
        attributes: &SetAttributes,
    ) -> Result<()> {
        let (path, target) = (FilePath::parse(path.as_ref())?, target.as_ref());
        check_target(target)?;
        self.check_writable()?;
        let Some(parent) = path.parent() else { return Err(exists(&path)) };
        let mut entry = self.new_entry(FileKind::Link, attributes)?;
        entry.metadata.size = target.len() as u64;
        entry.body = Body::Link(target.to_vec());
        let verb = {
            let _locked = self.shared.namespace.lock([&parent]);
            let view = self.families.latest();
            let directory = view.directory(&parent).map_err(|error| of_path(error, &path))?;
            let verb = match view.find(&path)?.map(|old| old.metadata.kind) {
                Some(FileKind::Link) => Verb::Write,
                Some(_) => return Err(exists(&path)),
                None => Verb::Create,
            };
            let mut batch = self.families.batch();
            self.families.put_entry(&mut batch, &path, &entry);
            self.touch_directory(&mut batch, &parent, directory, entry.metadata.ctime);
            self.families.commit(batch)?;
            verb
        };
        self.log(verb, &path, || shown(&path))?;
        self.settle()
    }

    /// Creates an empty file, a fifo or a socket. Errors: as for `mkdir`; `Invalid` for another kind.
    pub fn create_node(&self, path: impl AsRef<[u8]>, kind: FileKind, attributes: &SetAttributes) -> Result<()> {
        self.create(&Place::parse(path.as_ref())?, kind, attributes, node_body(kind)?).map(drop)
    }

    /// Creates an entry. Returns its attributes.
    pub(crate) fn create(
        &self,
        place: &Place,
        kind: FileKind,
        attributes: &SetAttributes,
        body: Body,
    ) -> Result<Metadata> {
        if let Body::Link(target) = &body {
            check_target(target)?;
        }
        self.check_writable()?;
        let mut entry = self.new_entry(kind, attributes)?;
        if let Body::Link(target) = &body {
            entry.metadata.size = target.len() as u64;
        }
        entry.body = body;
        self.create_entry(place, entry, |entry| entry.metadata)
    }

    /// Creates an entry. `created` gets it under the lock of its directory, after the commit.
    pub(crate) fn create_entry<R>(&self, place: &Place, entry: Entry, created: impl FnOnce(Entry) -> R) -> Result<R> {
        let path = &place.path;
        let Some(parent) = path.parent() else { return Err(exists(path)) };
        let created = {
            let _locked = self.shared.namespace.lock([&parent]);
            let view = self.families.latest();
            place.check(view)?;
            let directory = view.directory(&parent).map_err(|error| of_path(error, path))?;
            if view.find(path)?.is_some() {
                return Err(exists(path));
            }
            let mut batch = self.families.batch();
            self.families.put_entry(&mut batch, path, &entry);
            self.touch_directory(&mut batch, &parent, directory, entry.metadata.ctime);
            self.families.commit(batch)?;
            created(entry)
        };
        self.log(Verb::Create, path, || shown(path))?;
        self.settle()?;
        Ok(created)
    }

    /// Removes a file, link, fifo or socket. Handles keep the content of an open file. Errors: as for `stat`;
    /// `IsDirectory`. A damaged entry goes; its content stays, and `fsck` reports it.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.remove_if(path, Condition::Always)
    }

    /// [`remove`](Files::remove) under a condition. Errors: also `ConditionFailed`.
    pub fn remove_if(&self, path: impl AsRef<[u8]>, condition: Condition) -> Result<()> {
        self.remove_at(&Place::parse(path.as_ref())?, condition).map(drop)
    }

    /// `remove_if` of a place. Returns the attributes that the entry had; `None` for a damaged one.
    pub(crate) fn remove_at(&self, place: &Place, condition: Condition) -> Result<Option<Metadata>> {
        self.remove_entry(place, condition, |_, entry, path| match entry.metadata.kind {
            FileKind::Directory => Err(crate::entry::not_a_file(FileKind::Directory).at(path.display())),
            _ => Ok(()),
        })
    }

    /// Removes an empty directory. Errors: as for `stat`; `NotDirectory`, `NotEmpty`, `Busy` for the root.
    pub fn remove_dir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.remove_dir_at(&Place::parse(path.as_ref())?).map(drop)
    }

    /// `remove_dir` of a place: see `remove_at`.
    pub(crate) fn remove_dir_at(&self, place: &Place) -> Result<Option<Metadata>> {
        self.remove_entry(place, Condition::Always, |fs, _, path| {
            fs.families.latest().directory(path)?;
            fs.check_empty(path)
        })
    }

    /// Fails with `NotEmpty` if a directory has entries.
    pub(crate) fn check_empty(&self, path: &FilePath) -> Result<()> {
        match self.families.latest().has_children(path)? {
            true => Err(Error::of(ErrorKind::NotEmpty, "the directory is not empty").at(path.display())),
            false => Ok(()),
        }
    }

    fn remove_entry(
        &self,
        place: &Place,
        condition: Condition,
        check: impl Fn(&Files, &Entry, &FilePath) -> Result<()>,
    ) -> Result<Option<Metadata>> {
        let path = &place.path;
        self.check_writable()?;
        let Some(parent) = path.parent() else { return Err(is_root()) };
        let removed = {
            let _locked = self.shared.namespace.lock_entry(path);
            let view = self.families.latest();
            place.check(view)?;
            let entry = or_damaged(view, path, condition, view.entry(path).map(Some))?;
            if let Some(entry) = &entry {
                check(self, entry, path)?;
                condition.check(Some(self.live(entry.metadata))).map_err(|error| error.at(path.display()))?;
            }
            let mut batch = self.families.batch();
            batch.delete(&self.families.entries, path.key());
            let released = entry.as_ref().and_then(|entry| self.release(&mut batch, entry));
            let (open_files, now) = (&self.shared.open_files, self.now());
            self.touch_directory(&mut batch, &parent, view.directory(&parent)?, now);
            self.families.commit(batch)?;
            match &entry {
                Some(entry) => open_files.unlink(entry.metadata.inode, now),
                None => open_files.unlink_tree(path, path.key(), now),
            }
            self.shared.reclaimer.add(released);
            entry.map(|entry| Metadata { ctime: now, ..entry.metadata })
        };
        self.log(Verb::Remove, path, || shown(path))?;
        self.settle()?;
        Ok(removed)
    }

    /// Sets attributes. Errors: as for `stat`; `Invalid` for a mode beyond `0o7777`.
    pub fn set_attributes(&self, path: impl AsRef<[u8]>, attributes: &SetAttributes) -> Result<()> {
        attributes.check()?;
        self.change(path.as_ref(), |entry| {
            attributes.apply(&mut entry.metadata);
            Ok(())
        })
    }

    /// `set_attributes` for an inode number.
    pub(crate) fn set_attributes_of(
        &self,
        inode: u64,
        path: Option<&FilePath>,
        attributes: &SetAttributes,
    ) -> Result<()> {
        attributes.check()?;
        self.change_inode(inode, path, |entry| {
            attributes.apply(&mut entry.metadata);
            Ok(())
        })
    }

    /// Sets an extended attribute. Errors: as for `stat`; `Exists` or `NoAttribute`, as the mode says; `Invalid` for an
    /// empty name and one with a zero byte, `NameTooLong`; `NoSpace` if all attributes of the entry would have more than
    /// 2,048 bytes.
    pub fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        let (name, value) = (name.as_ref(), value.as_ref());
        check_xattr_name(name)?;
        self.change(path.as_ref(), |entry| put_xattr(&mut entry.xattrs, name, value, mode))
    }

    /// `set_xattr` for an inode number.
    pub(crate) fn set_xattr_of(
        &self,
        inode: u64,
        path: Option<&FilePath>,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<()> {
        check_xattr_name(name)?;
        self.change_inode(inode, path, |entry| put_xattr(&mut entry.xattrs, name, value, mode))
    }

    /// Removes an extended attribute. Errors: as for `stat`; `NoAttribute`.
    pub fn remove_xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<()> {
        self.change(path.as_ref(), |entry| take_xattr(&mut entry.xattrs, name.as_ref()))
    }

    /// `remove_xattr` for an inode number.
    pub(crate) fn remove_xattr_of(&self, inode: u64, path: Option<&FilePath>, name: &[u8]) -> Result<()> {
        self.change_inode(inode, path, |entry| take_xattr(&mut entry.xattrs, name))
    }

    /// Changes the attributes of an entry, and of the file that handles have open.
    fn change(&self, path: &[u8], change: impl Fn(&mut Entry) -> Result<()>) -> Result<()> {
        self.check_writable()?;
        self.change_entry(&FilePath::parse(path)?, None, change)
    }

    /// Changes the attributes of an entry or of an open file, which may have no path. Errors: `Stale` if another entry
    /// is at the path.
    fn change_inode(
        &self,
        inode: u64,
        path: Option<&FilePath>,
        change: impl Fn(&mut Entry) -> Result<()>,
    ) -> Result<()> {
        self.check_writable()?;
        let Some(file) = self.shared.open_files.find(inode) else {
            return self.change_entry(path.ok_or_else(stale)?, Some(inode), change);
        };
        loop {
            let path = {
                let mut state = file.write();
                let Some(path) = &state.path else {
                    return state.set_own_attributes(|entry| {
                        change(entry)?;
                        entry.metadata.ctime = self.now();
                        Ok(())
                    });
                };
                path.clone()
            };
            match self.change_entry(&path, Some(inode), &change) {
                // Renamed, replaced or removed meanwhile; otherwise the path is still its own.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Stale | ErrorKind::NotFound | ErrorKind::NotDirectory)
                        && file.read().path.as_ref() != Some(&path) => {}
                changed => return changed,
            }
        }
    }

    /// Changes the attributes of an entry, of the inode number if one is given.
    fn change_entry(
        &self,
        path: &FilePath,
        inode: Option<u64>,
        change: impl Fn(&mut Entry) -> Result<()>,
    ) -> Result<()> {
        {
            let _locked = self.shared.namespace.lock_entry(path);
            let mut entry = self.families.latest().entry(path)?;
            if inode.is_some_and(|inode| inode != entry.metadata.inode) {
                return Err(stale().at(path.display()));
            }
            change(&mut entry).map_err(|error| error.at(path.display()))?;
            entry.metadata.ctime = self.now();
            let mut batch = self.families.batch();
            self.families.put_entry(&mut batch, path, &entry);
            self.families.commit(batch)?;
            if let Some(file) = self.shared.open_files.find(entry.metadata.inode) {
                // The same change, since the file may have newer times and content that are not committed.
                file.write().set_attributes(|own| {
                    let _ = change(own); // it has succeeded with the same attributes
                    own.metadata.ctime = entry.metadata.ctime;
                });
            }
        }
        self.settle()
    }
}

/// Returns the body of a new file, fifo or socket. Errors: `Invalid` for another kind.
pub(crate) fn node_body(kind: FileKind) -> Result<Body> {
    match kind {
        FileKind::File => Ok(Body::File(Content::default())),
        FileKind::Fifo | FileKind::Socket => Ok(Body::Nothing),
        FileKind::Directory | FileKind::Link => Err(Error::invalid("use `mkdir` or `symlink`")),
    }
}

fn put_xattr(xattrs: &mut Xattrs, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
    match (mode, xattrs.contains_key(name)) {
        (XattrMode::Create, true) => return Err(Error::of(ErrorKind::Exists, "the attribute exists")),
        (XattrMode::Replace, false) => return Err(no_attribute()),
        _ => {}
    }
    insert_xattr(xattrs, name, value)
}

fn take_xattr(xattrs: &mut Xattrs, name: &[u8]) -> Result<()> {
    xattrs.remove(name).map(drop).ok_or_else(no_attribute)
}

fn check_target(target: &[u8]) -> Result<()> {
    if target.is_empty() || target.contains(&0) {
        return Err(Error::invalid("the target of a symbolic link has at least one byte, and none that is zero"));
    }
    if target.len() > MAX_LINK_BYTES {
        let message = format!("the target of a symbolic link has at most {MAX_LINK_BYTES} bytes");
        return Err(Error::of(ErrorKind::NameTooLong, message));
    }
    Ok(())
}

fn check_xattr_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&0) {
        return Err(Error::invalid("the name of an attribute has at least one byte, and none that is zero"));
    }
    if name.len() > MAX_XATTR_NAME_BYTES {
        let message = format!("the name of an attribute has at most {MAX_XATTR_NAME_BYTES} bytes");
        return Err(Error::of(ErrorKind::NameTooLong, message));
    }
    Ok(())
}

/// Adds or replaces an extended attribute. Errors: `Invalid`, `NameTooLong`, `NoSpace`; the attributes stay then.
pub(crate) fn insert_xattr(xattrs: &mut Xattrs, name: &[u8], value: &[u8]) -> Result<()> {
    check_xattr_name(name)?;
    let others = xattrs.iter().filter(|(other, _)| &other[..] != name);
    let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
    if bytes + name.len() + value.len() > MAX_XATTR_BYTES {
        let message = format!("the extended attributes of an entry have at most {MAX_XATTR_BYTES} bytes");
        return Err(Error::of(ErrorKind::NoSpace, message));
    }
    xattrs.insert(name.to_vec(), value.to_vec());
    Ok(())
}

/// Returns `None` for a damaged entry without readable entries below it. Removals and writes without a condition may replace such
/// an entry. The chunks of its content stay, because no record names their content id.
pub(crate) fn or_damaged(
    view: View<'_>,
    path: &FilePath,
    condition: Condition,
    found: Result<Option<Entry>>,
) -> Result<Option<Entry>> {
    let is_free = condition == Condition::Always;
    match found {
        Err(error) if is_free && error.is_corruption() && !view.has_readable_children(path)? => Ok(None),
        found => found,
    }
}

/// Replaces the path in an error about a directory above by the path that the caller named.
pub(crate) fn of_path(error: Error, path: &FilePath) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotDirectory => Error::of(
            error.kind(),
            match error.kind() {
                ErrorKind::NotFound => "the directory that would hold it does not exist",
                _ => "a component above it is not a directory",
            },
        )
        .at(path.display()),
        _ => error,
    }
}

pub(crate) fn exists(path: &FilePath) -> Error {
    Error::of(ErrorKind::Exists, "the path exists").at(path.display())
}

pub(crate) fn is_root() -> Error {
    Error::of(ErrorKind::Busy, "the root cannot be removed or renamed").at("")
}
