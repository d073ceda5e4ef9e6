//! File stores: directory trees in a store, and the operations on their paths.
//!
//! Reads are in `file_reads`, open files in `file`, whole-file writes in `file_writer`, lists and walks in `file_list`.

use face::Db;
use waxseal_files::{Condition, FileKind, FileStore, FileStoreOptions, Metadata, RenameMode, SetAttributes, XattrMode};

use crate::db::waxseal_db_t;
use crate::declare::{destroy, mirror};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::handle::{HandleKind, handle, issue, with};
use crate::lent::{Lent, Out};
use crate::options::durability;
use crate::session::waxseal_session_t;

/// A regular file.
pub const WAXSEAL_FILE_KIND_FILE: i32 = 1;
/// A directory.
pub const WAXSEAL_FILE_KIND_DIRECTORY: i32 = 2;
/// A symbolic link.
pub const WAXSEAL_FILE_KIND_LINK: i32 = 3;
/// A named pipe.
pub const WAXSEAL_FILE_KIND_FIFO: i32 = 4;
/// A socket.
pub const WAXSEAL_FILE_KIND_SOCKET: i32 = 5;

/// `waxseal_file_attributes_t` has a mode.
pub const WAXSEAL_FILE_SET_MODE: u32 = 1;
/// `waxseal_file_attributes_t` has an owner.
pub const WAXSEAL_FILE_SET_UID: u32 = 2;
/// `waxseal_file_attributes_t` has a group.
pub const WAXSEAL_FILE_SET_GID: u32 = 4;
/// `waxseal_file_attributes_t` has a time of the last change.
pub const WAXSEAL_FILE_SET_MTIME: u32 = 8;

/// Replaces a file by a file, and an empty directory by a directory.
pub const WAXSEAL_RENAME_REPLACE: i32 = 0;
/// Fails with `EEXIST` if the new path exists.
pub const WAXSEAL_RENAME_NO_REPLACE: i32 = 1;
/// Swaps both entries, which must exist.
pub const WAXSEAL_RENAME_EXCHANGE: i32 = 2;

/// Creates or replaces the extended attribute.
pub const WAXSEAL_XATTR_SET: i32 = 0;
/// Fails with `EEXIST` if the extended attribute exists.
pub const WAXSEAL_XATTR_CREATE: i32 = 1;
/// Fails with `ENODATA` if the extended attribute does not exist.
pub const WAXSEAL_XATTR_REPLACE: i32 = 2;

/// No condition.
pub const WAXSEAL_IF_ALWAYS: i32 = 0;
/// The path does not exist.
pub const WAXSEAL_IF_ABSENT: i32 = 1;
/// The path exists.
pub const WAXSEAL_IF_EXISTS: i32 = 2;
/// The file has the content of the entity tag.
pub const WAXSEAL_IF_MATCHES: i32 = 3;
/// The file has another content, or does not exist.
pub const WAXSEAL_IF_DIFFERS: i32 = 4;

/// A directory tree in a store. Usable from any thread. Destroyed by `waxseal_files_destroy`, before or after its store
/// is closed.
///
/// A path is bytes: components separated by `/`, relative to the root, which is the empty path. `.` and `..` are
/// refused, and no call follows a symbolic link. Every change of paths is atomic. A failed call returns
/// `WAXSEAL_FILE`, and `waxseal_error_errno` the error of POSIX; damage is `WAXSEAL_CORRUPTION`.
pub struct waxseal_files_t {
    _opaque: [u8; 0],
}

handle!(waxseal_files_t => FileStore, HandleKind::Files, "file store", |files| Some(files.db().store()));

/// A change of attributes. Attributes that `set` does not name keep their values; in a new entry they have defaults.
/// All zero changes nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_file_attributes_t {
    /// The attributes that are set: `WAXSEAL_FILE_SET_..`, combined by or.
    pub set: u32,
    /// Permission bits: at most 07777.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last change of the content, in nanoseconds since 1970.
    pub mtime_nanos: i64,
}

impl waxseal_file_attributes_t {
    pub(crate) fn to_set(self) -> Result<SetAttributes> {
        const ALL: u32 = WAXSEAL_FILE_SET_MODE | WAXSEAL_FILE_SET_UID | WAXSEAL_FILE_SET_GID | WAXSEAL_FILE_SET_MTIME;
        if self.set & !ALL != 0 {
            return Err(Failure::invalid(format!("{} is no set of attributes", self.set)));
        }
        let mut attributes = SetAttributes::new();
        if self.set & WAXSEAL_FILE_SET_MODE != 0 {
            attributes = attributes.mode(self.mode);
        }
        if self.set & WAXSEAL_FILE_SET_UID != 0 {
            attributes = attributes.uid(self.uid);
        }
        if self.set & WAXSEAL_FILE_SET_GID != 0 {
            attributes = attributes.gid(self.gid);
        }
        if self.set & WAXSEAL_FILE_SET_MTIME != 0 {
            attributes = attributes.mtime(self.mtime_nanos);
        }
        Ok(attributes)
    }
}

mirror! {
    /// The attributes of an entry.
    #[derive(Clone, Copy, Debug)]
    pub struct waxseal_file_info_t of |metadata: &Metadata| {
        /// The kind, one of `WAXSEAL_FILE_KIND_..`.
        pub kind: i32 = kind_number(metadata.kind),
        /// Permission bits.
        pub mode: u32,
        /// The owner.
        pub uid: u32,
        /// The group.
        pub gid: u32,
        /// The time of the last change of the content, in nanoseconds since 1970.
        pub mtime_nanos: i64 = metadata.mtime,
        /// The time of the last change of the entry, in nanoseconds since 1970.
        pub ctime_nanos: i64 = metadata.ctime,
        /// The inode number, which is never reused. A rename keeps it.
        pub inode: u64,
        /// The length of a file, or of a link's target, in bytes.
        pub size: u64,
        /// Bytes that are stored as chunks, without holes.
        pub allocated: u64,
        /// The upper half of the content's digest.
        pub digest_high: u64 = (metadata.digest.number() >> 64) as u64,
        /// The lower half of the content's digest.
        pub digest_low: u64 = metadata.digest.number() as u64,
        /// The chunk size of a file with chunks, in bytes; otherwise 0.
        pub chunk_bytes: u32,
        /// Changes of an open file wait in memory: size and times include them, the digest does not.
        pub has_changes: bool,
    }
}

pub(crate) fn kind_number(kind: FileKind) -> i32 {
    match kind {
        FileKind::File => WAXSEAL_FILE_KIND_FILE,
        FileKind::Directory => WAXSEAL_FILE_KIND_DIRECTORY,
        FileKind::Link => WAXSEAL_FILE_KIND_LINK,
        FileKind::Fifo => WAXSEAL_FILE_KIND_FIFO,
        FileKind::Socket => WAXSEAL_FILE_KIND_SOCKET,
    }
}

fn kind_of(number: i32) -> Result<FileKind> {
    match number {
        WAXSEAL_FILE_KIND_FILE => Ok(FileKind::File),
        WAXSEAL_FILE_KIND_DIRECTORY => Ok(FileKind::Directory),
        WAXSEAL_FILE_KIND_LINK => Ok(FileKind::Link),
        WAXSEAL_FILE_KIND_FIFO => Ok(FileKind::Fifo),
        WAXSEAL_FILE_KIND_SOCKET => Ok(FileKind::Socket),
        other => Err(Failure::invalid(format!("{other} is no kind of an entry"))),
    }
}

/// Returns the condition with this number. `etag` counts where the condition needs one.
pub(crate) fn condition(number: i32, etag: Lent<'_>) -> Result<Condition> {
    match number {
        WAXSEAL_IF_ALWAYS => Ok(Condition::Always),
        WAXSEAL_IF_ABSENT => Ok(Condition::Absent),
        WAXSEAL_IF_EXISTS => Ok(Condition::Exists),
        WAXSEAL_IF_MATCHES => Ok(Condition::Matches(etag.text("entity tag")?.parse()?)),
        WAXSEAL_IF_DIFFERS => Ok(Condition::Differs(etag.text("entity tag")?.parse()?)),
        other => Err(Failure::invalid(format!("{other} is no condition"))),
    }
}

/// Runs a call of a file store.
pub(crate) fn on<R>(
    files: *const waxseal_files_t,
    call: impl FnOnce(&FileStore) -> waxseal_files::Result<R>,
) -> Result<R> {
    with(files, |files| Ok(call(files)?))
}

/// Returns the bytes of a path.
pub(crate) fn path_of<'a>(path: Lent<'a>) -> Result<&'a [u8]> {
    path.bytes("path")
}

/// Gives the caller a file store.
fn give(place: Out<'_, *mut waxseal_files_t>, open: impl FnOnce() -> Result<FileStore>) -> Result<()> {
    let place = place.needed("file store")?;
    place.set(issue(open()?)?);
    Ok(())
}

calls! {
    /// Opens the file store in the families `name` and `name-chunks`, or creates it. `chunk_bytes` is the chunk size of
    /// files in a new one, 4,096 to 5,000,000; 0 is the default of 256 KiB. An existing one keeps its own.
    ///
    /// Thread-safe. On success the caller owns `*files` and frees it with `waxseal_files_destroy`. Errors:
    /// `WAXSEAL_FILE` with `EINVAL` if a family of this name holds other records, or if there is none in a store that
    /// is open for reading only; `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
    fn waxseal_files_open(db: *mut waxseal_db_t, bytes name, chunk_bytes: u32, out files: *mut *mut waxseal_files_t) {
        let name = name.text("name of the file store")?;
        let options = match chunk_bytes {
            0 => FileStoreOptions::new(),
            bytes => FileStoreOptions::new().chunk_bytes(bytes),
        };
        give(files, || with(db.cast_const(), |db: &Db| Ok(options.open(db, name)?)))
    }

    /// Returns the same file store, whose changes are made under the session's identity.
    ///
    /// Thread-safe. On success the caller owns `*own` and frees it with `waxseal_files_destroy`. Errors:
    /// `WAXSEAL_INVALID` for a session of another store, `WAXSEAL_CLOSED`.
    fn waxseal_files_in_session(
        files: *const waxseal_files_t, session: *const waxseal_session_t, out own: *mut *mut waxseal_files_t,
    ) {
        give(own, || {
            with(files, |files| {
                with(session, |session| match session.store() == files.db().store() {
                    true => Ok(files.in_session(session)?),
                    false => Err(Failure::invalid("the session is of another store")),
                })
            })
        })
    }

    /// Returns the same file store, whose changes have this durability, one of `WAXSEAL_DURABILITY_..`.
    ///
    /// Thread-safe. On success the caller owns `*own` and frees it with `waxseal_files_destroy`. Errors:
    /// `WAXSEAL_INVALID` for an unknown durability.
    fn waxseal_files_with_durability(
        files: *const waxseal_files_t, durability: i32, out own: *mut *mut waxseal_files_t,
    ) {
        let number = self::durability(durability)?;
        give(own, || {
            with(files, |files| {
                Ok(number.map_or_else(|| files.clone(), |durability| files.with_durability(durability)))
            })
        })
    }

    /// Makes every finished change durable.
    ///
    /// Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
    fn waxseal_files_sync(files: *mut waxseal_files_t) {
        on(files, |files| files.sync())
    }

    /// Deletes the content that removed and replaced files have left, except that of open files. A thread of the store
    /// does this on its own. `*count` is the number of deleted contents; it may be null.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_files_reclaim(files: *mut waxseal_files_t, out count: *mut u64) {
        count.set(on(files, |files| files.reclaim())? as u64);
        Ok(())
    }

    /// Creates a directory.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `EEXIST`, or with `ENOENT` or `ENOTDIR` for the directory above.
    fn waxseal_files_mkdir(files: *mut waxseal_files_t, bytes path, attributes: waxseal_file_attributes_t) {
        let (path, attributes) = (path_of(path)?, attributes.to_set()?);
        on(files, |files| files.mkdir_with(path, &attributes))
    }

    /// Creates a directory and all directories above it that do not exist. Succeeds if it exists.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `EEXIST` or `ENOTDIR` for an entry that is no directory.
    fn waxseal_files_create_dirs(files: *mut waxseal_files_t, bytes path) {
        let path = path_of(path)?;
        on(files, |files| files.create_dir_all(path))
    }

    /// Creates a symbolic link to `target`, which need not exist. If `replace` is true, another link at the path gets
    /// the target in one step.
    ///
    /// Thread-safe. Errors: as of `waxseal_files_mkdir`; `WAXSEAL_FILE` with `EINVAL` for a target that is empty or has
    /// a zero byte, `ENAMETOOLONG`.
    fn waxseal_files_symlink(
        files: *mut waxseal_files_t, bytes target, bytes path, attributes: waxseal_file_attributes_t, replace: bool,
    ) {
        let (target, path, attributes) = (target.bytes("target")?, path_of(path)?, attributes.to_set()?);
        on(files, |files| match replace {
            true => files.replace_symlink(target, path, &attributes),
            false => files.symlink_with(target, path, &attributes),
        })
    }

    /// Creates an empty file, a named pipe or a socket: `kind` is one of `WAXSEAL_FILE_KIND_..`.
    ///
    /// Thread-safe. Errors: as of `waxseal_files_mkdir`; `WAXSEAL_FILE` with `EINVAL` for another kind.
    fn waxseal_files_create_node(
        files: *mut waxseal_files_t, bytes path, kind: i32, attributes: waxseal_file_attributes_t,
    ) {
        let (path, kind, attributes) = (path_of(path)?, kind_of(kind)?, attributes.to_set()?);
        on(files, |files| files.create_node(path, kind, &attributes))
    }

    /// Writes a whole file: creates it, or replaces its content. Readers and crashes see the old file or the new one.
    /// An existing file keeps its extended attributes, and the attributes that `attributes` does not set. `*info`
    /// receives the attributes of the file; it may be null.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `EISDIR`, `ELOOP` or `EINVAL` if the path exists and is no file, with
    /// `ENOENT` or `ENOTDIR` for the directory above; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`.
    fn waxseal_files_write(
        files: *mut waxseal_files_t, bytes path, bytes content, attributes: waxseal_file_attributes_t,
        out info: *mut waxseal_file_info_t,
    ) {
        let (path, content, attributes) = (path_of(path)?, content.bytes("content")?, attributes.to_set()?);
        let written = on(files, |files| files.write_with(path, content, &attributes))?;
        info.set(waxseal_file_info_t::of(&written));
        Ok(())
    }

    /// Appends to a file, which is created if it does not exist, and commits.
    ///
    /// Thread-safe. Errors: as of `waxseal_files_write`, and `WAXSEAL_CORRUPTION` if the last chunk is damaged.
    fn waxseal_files_append(files: *mut waxseal_files_t, bytes path, bytes content) {
        let (path, content) = (path_of(path)?, content.bytes("content")?);
        on(files, |files| files.append(path, content))
    }

    /// Sets the length of a file, and commits. A longer file ends in zeros.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, `EISDIR`, `ELOOP` or `EFBIG`; `WAXSEAL_CORRUPTION` if the
    /// chunk that is cut is damaged.
    fn waxseal_files_truncate(files: *mut waxseal_files_t, bytes path, size: u64) {
        let path = path_of(path)?;
        on(files, |files| files.truncate(path, size))
    }

    /// Sets attributes.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, or with `EINVAL` for a mode above 07777.
    fn waxseal_files_set_attributes(
        files: *mut waxseal_files_t, bytes path, attributes: waxseal_file_attributes_t,
    ) {
        let (path, attributes) = (path_of(path)?, attributes.to_set()?);
        on(files, |files| files.set_attributes(path, &attributes))
    }

    /// Sets an extended attribute; `mode` is one of `WAXSEAL_XATTR_..`.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, `EEXIST` or `ENODATA`, with `EINVAL` for an empty name, and
    /// with `ENOSPC` if all attributes of the entry would have more than 2,048 bytes.
    fn waxseal_files_set_xattr(files: *mut waxseal_files_t, bytes path, bytes name, bytes value, mode: i32,) {
        let mode = match mode {
            WAXSEAL_XATTR_SET => XattrMode::Set,
            WAXSEAL_XATTR_CREATE => XattrMode::Create,
            WAXSEAL_XATTR_REPLACE => XattrMode::Replace,
            other => return Err(Failure::invalid(format!("{other} is no mode of an extended attribute"))),
        };
        let (path, name, value) = (path_of(path)?, name.bytes("name")?, value.bytes("value")?);
        on(files, |files| files.set_xattr(path, name, value, mode))
    }

    /// Removes an extended attribute.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT` or `ENODATA`.
    fn waxseal_files_remove_xattr(files: *mut waxseal_files_t, bytes path, bytes name) {
        let (path, name) = (path_of(path)?, name.bytes("name")?);
        on(files, |files| files.remove_xattr(path, name))
    }

    /// Removes a file, link, named pipe or socket under a condition, one of `WAXSEAL_IF_..`. Open files keep their
    /// content. `etag` counts where the condition needs one: the text that `waxseal_files_etag` returns.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT` or `EISDIR`, and with `ECANCELED` if the condition is not met.
    fn waxseal_files_remove(files: *mut waxseal_files_t, bytes path, condition: i32, bytes etag) {
        let (path, condition) = (path_of(path)?, self::condition(condition, etag)?);
        on(files, |files| files.remove_if(path, condition))
    }

    /// Removes an empty directory.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, `ENOTDIR` or `ENOTEMPTY`, and with `EBUSY` for the root.
    fn waxseal_files_remove_dir(files: *mut waxseal_files_t, bytes path) {
        let path = path_of(path)?;
        on(files, |files| files.remove_dir(path))
    }

    /// Removes an entry with everything below it: up to a million entries in one atomic step.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, and with `EBUSY` for the root.
    fn waxseal_files_remove_tree(files: *mut waxseal_files_t, bytes path) {
        let path = path_of(path)?;
        on(files, |files| files.remove_tree(path))
    }

    /// Renames a file or a tree in one atomic step; `mode` is one of `WAXSEAL_RENAME_..`. Open files follow.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, with `EISDIR`, `ENOTDIR`, `ENOTEMPTY` or `EEXIST` for the new
    /// path, with `EINVAL` for a path below the old one, with `EBUSY` for the root, and with `EFBIG` for a tree of more
    /// than a million entries.
    fn waxseal_files_rename(files: *mut waxseal_files_t, bytes from, bytes to, mode: i32,) {
        let mode = match mode {
            WAXSEAL_RENAME_REPLACE => RenameMode::Replace,
            WAXSEAL_RENAME_NO_REPLACE => RenameMode::NoReplace,
            WAXSEAL_RENAME_EXCHANGE => RenameMode::Exchange,
            other => return Err(Failure::invalid(format!("{other} is no mode of a rename"))),
        };
        let (from, to) = (path_of(from)?, path_of(to)?);
        on(files, |files| files.rename_with(from, to, mode))
    }

    /// Copies a file with its attributes, in one atomic step. Every byte is verified, and holes stay holes.
    ///
    /// Thread-safe. Errors: as of `waxseal_files_read` and `waxseal_files_write`.
    fn waxseal_files_copy(files: *mut waxseal_files_t, bytes from, bytes to) {
        let (from, to) = (path_of(from)?, path_of(to)?);
        on(files, |files| files.copy(from, to))
    }

    /// Copies a tree as it is now, entry by entry.
    ///
    /// Thread-safe. Errors: as of `waxseal_files_copy`; `WAXSEAL_FILE` with `EEXIST` if the new path exists. The copy
    /// then ends before the entry at fault.
    fn waxseal_files_copy_tree(files: *mut waxseal_files_t, bytes from, bytes to) {
        let (from, to) = (path_of(from)?, path_of(to)?);
        on(files, |files| files.copy_tree(from, to))
    }
}

destroy! {
    /// Destroys a file store's handle. Open files, writers and lists stay valid. Null is allowed; a destroyed one is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_files_destroy(files: *mut waxseal_files_t);
}
