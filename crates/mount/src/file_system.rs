//! The file system as the kernel asks for it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File as StoreDirectory;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use rustix::process::{getegid, geteuid};
use waxseal_files::{
    Error, ErrorKind, File, FileKind, FileStore, Inodes, Metadata, OpenOptions, RenameMode, Result, SetAttributes,
    SnapshotFile, XattrMode,
};

use crate::attributes::{
    Owner, changed_attributes, default_owner, file_attributes, file_type, new_attributes, node_kind,
};
use crate::handles::{Caching, Contents, Lease, OpenDirectory, OpenFile, OpenHandles, PinnedFile};
use crate::privileges::drop_privileges;

/// How long the kernel may use a name and attributes without asking again.
const FRESH: Duration = Duration::from_secs(1);

/// Ordinals before those of a directory's entries: `.` and `..`.
const DOTS: u64 = 2;

/// The names of attributes that need more than storage: access control lists, which this file system does not enforce.
const SYSTEM_ATTRIBUTES: &[u8] = b"system.";

/// The result of a request: a value, or the number of an error.
type Answer<T> = std::result::Result<T, Errno>;

pub(crate) struct FileSystem {
    files: FileStore,
    inodes: Arc<Inodes>,
    is_read_only: bool,
    /// The user and group that entries without an owner are shown with.
    owner: Owner,
    /// The directory of the store, whose disk `statfs` reports.
    store: StoreDirectory,
    open: Arc<OpenHandles>,
    /// Used by a mount for reading.
    contents: Contents,
    /// Files of which the kernel may have pages with changes that were lost, because they could not be committed.
    suspects: Mutex<HashSet<u64>>,
}

impl FileSystem {
    pub(crate) fn new(
        files: FileStore,
        store: StoreDirectory,
        open: Arc<OpenHandles>,
        allow_other: bool,
    ) -> FileSystem {
        let process = Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        FileSystem {
            inodes: Arc::new(Inodes::new(&files)),
            is_read_only: files.db().is_read_only(),
            owner: default_owner(process, allow_other),
            files,
            store,
            open,
            contents: Contents::default(),
            suspects: Mutex::default(),
        }
    }

    /// Returns the table of the entries that the kernel knows.
    pub(crate) fn inodes(&self) -> Arc<Inodes> {
        Arc::clone(&self.inodes)
    }

    fn open_file(&self, inode: u64, flags: OpenFlags) -> Answer<(OpenFile, FopenFlags)> {
        if self.is_read_only {
            return self.pin_file(inode);
        }
        let truncate = is_set(flags, OFlags::TRUNC);
        let write = truncate || flags.acc_mode() != OpenAccMode::O_RDONLY;
        if truncate {
            drop_privileges(&self.inodes, inode, true).map_err(errno)?;
        }
        // The kernel checks what the caller may do, and reads a file that is open for writing through any handle.
        let options = OpenOptions::new().read(true).write(write).truncate(truncate);
        let file = self.inodes.open(inode, &options).map_err(errno)?;
        // All changes come through the mount, are notified, or change size or time: the kernel drops pages by itself.
        let flags = match self.suspects().remove(&inode) {
            true => FopenFlags::empty(),
            false => FopenFlags::FOPEN_KEEP_CACHE,
        };
        Ok((OpenFile::Live(file), flags))
    }

    fn suspects(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file with its content at this time.
    fn pin_file(&self, inode: u64) -> Answer<(OpenFile, FopenFlags)> {
        let file = self.snapshot_file(inode)?;
        let metadata = file.metadata();
        let caching = self.contents.open(&metadata);
        let flags = match caching {
            Caching::Keep => FopenFlags::FOPEN_KEEP_CACHE,
            Caching::Begin => FopenFlags::empty(),
            Caching::Bypass => FopenFlags::FOPEN_DIRECT_IO,
        };
        Ok((OpenFile::Pinned(PinnedFile { lease: Lease::new(file), metadata, caching }), flags))
    }

    fn snapshot_file(&self, inode: u64) -> Answer<SnapshotFile> {
        self.inodes.snapshot(inode).and_then(|(snapshot, path)| snapshot.open(path)).map_err(errno)
    }

    /// Returns the file of a handle. After its snapshot was given back, a newer snapshot with the same content serves.
    /// Errors: `ESTALE` for another content.
    fn pinned(&self, inode: u64, pinned: &PinnedFile) -> Answer<Arc<SnapshotFile>> {
        pinned.lease.value(|| {
            let file = self.snapshot_file(inode)?;
            match file.metadata().etag() == pinned.metadata.etag() {
                true => Ok(file),
                false => Err(Errno::ESTALE),
            }
        })
    }

    fn open_directory(&self, inode: u64) -> Answer<OpenDirectory> {
        let opened = self.inodes.snapshot(inode).and_then(|(snapshot, path)| OpenDirectory::open(snapshot, path));
        opened.map_err(errno)
    }

    /// Returns a guard under which files are opened and changed. Errors: `ENOTCONN` once the mount ends.
    fn before_end(&self) -> Answer<RwLockReadGuard<'_, bool>> {
        self.open.before_end().ok_or(Errno::ENOTCONN)
    }

    /// Returns the file of a handle for writing.
    fn live(&self, handle: FileHandle, change: impl FnOnce(&File) -> Result<()>) -> Answer<()> {
        let _before_end = self.before_end()?;
        match self.open.files.find(handle.0).as_deref() {
            Some(OpenFile::Live(file)) => change(file).map_err(errno),
            Some(OpenFile::Pinned(_)) => Ok(()), // it has no changes
            None => Err(Errno::EBADF),
        }
    }

    /// Returns how long the kernel may use attributes. Those of another content than its pages have would cut the pages
    /// short for the files that use them.
    fn lifetime(&self, metadata: &Metadata) -> Duration {
        if self.contents.is_other_open(metadata) { Duration::ZERO } else { FRESH }
    }

    fn answer_entry(&self, found: Answer<Metadata>, reply: ReplyEntry) {
        match found {
            Ok(metadata) => {
                reply.entry(&self.lifetime(&metadata), &file_attributes(&metadata, self.owner), Generation(0))
            }
            Err(error) => reply.error(error),
        }
    }

    /// Returns the attributes of a new entry.
    fn attributes_in(&self, request: &Request, parent: INodeNo, mode: u32, kind: FileKind) -> Answer<SetAttributes> {
        let parent = self.inodes.stat(parent.0).map_err(errno)?;
        Ok(new_attributes(&parent, Owner { uid: request.uid(), gid: request.gid() }, mode, kind))
    }

    /// Sets the length through a handle, where it waits for a flush with other changes, or commits it.
    fn set_length(&self, inode: u64, size: u64, handle: Option<FileHandle>) -> Answer<()> {
        if let Some(handle) = handle {
            return self.live(handle, |file| file.set_len(size));
        }
        let _before_end = self.before_end()?;
        let set = self.inodes.open(inode, &OpenOptions::new().write(true)).and_then(|file| {
            file.set_len(size)?;
            file.close()
        });
        set.map_err(errno)
    }
}

fn errno(error: Error) -> Errno {
    Errno::from_i32(error.errno())
}

fn answer(done: Answer<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn is_set(flags: OpenFlags, flag: OFlags) -> bool {
    OFlags::from_bits_retain(flags.0 as u32).contains(flag)
}

/// Answers with an extended attribute, or with its length if the caller has no room yet.
fn answer_xattr(found: Result<Vec<u8>>, room: u32, reply: ReplyXattr) {
    match found {
        Err(error) => reply.error(errno(error)),
        Ok(bytes) if room == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if !self.is_read_only {
            // The kernel drops pages when size or time have changed by another way than the mount, and names the
            // truncation in `open`: it is committed with the new content. A kernel without them has no FUSE that this
            // crate works with.
            let wanted = InitFlags::FUSE_AUTO_INVAL_DATA | InitFlags::FUSE_ATOMIC_O_TRUNC;
            config.add_capabilities(wanted).map_err(|_| io::ErrorKind::Unsupported)?;
            // An older kernel asks for the capabilities of a file before each write.
            let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.answer_entry(self.inodes.lookup(parent.0, name.as_bytes()).map_err(errno), reply);
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.contents.forget(inode.0);
        if self.inodes.forget(inode.0, lookups) {
            self.suspects().remove(&inode.0); // the kernel has dropped the pages, too
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let open = handle.and_then(|handle| self.open.files.find(handle.0));
        if let Some(OpenFile::Pinned(pinned)) = open.as_deref() {
            let lifetime = if pinned.caching == Caching::Bypass { Duration::ZERO } else { FRESH };
            return reply.attr(&lifetime, &file_attributes(&pinned.metadata, self.owner));
        }
        match self.inodes.stat(inode.0) {
            Ok(metadata) => reply.attr(&self.lifetime(&metadata), &file_attributes(&metadata, self.owner)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let attributes = changed_attributes(mode, uid, gid, mtime);
        // A request that sets nothing is `chown` without a new owner, or comes before a change of the content. fuser
        // does not pass whether the caller may keep the bits of a file that is truncated.
        let sets_nothing = atime.is_none() && size.is_none() && attributes == SetAttributes::new();
        let dropped = match sets_nothing || size.is_some() || uid.is_some() || gid.is_some() {
            true => drop_privileges(&self.inodes, inode.0, true).map_err(errno),
            false => Ok(()),
        };
        let set = dropped.and_then(|()| size.map_or(Ok(()), |size| self.set_length(inode.0, size, handle)));
        let set = set.and_then(|()| match attributes == SetAttributes::new() {
            true => Ok(()),
            false => self.inodes.set_attributes(inode.0, &attributes).map_err(errno),
        });
        match set.and_then(|()| self.inodes.stat(inode.0).map_err(errno)) {
            Ok(metadata) => reply.attr(&FRESH, &file_attributes(&metadata, self.owner)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.inodes.snapshot(inode.0).and_then(|(snapshot, path)| snapshot.read_link(path)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: u32, reply: ReplyEntry) {
        let Some(kind) = node_kind(mode) else { return reply.error(Errno::EPERM) };
        let created = self.attributes_in(request, parent, mode, kind).and_then(|attributes| {
            self.inodes.create_node(parent.0, name.as_bytes(), kind, &attributes).map_err(errno)
        });
        self.answer_entry(created, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let created = self
            .attributes_in(request, parent, mode, FileKind::Directory)
            .and_then(|attributes| self.inodes.mkdir(parent.0, name.as_bytes(), &attributes).map_err(errno));
        self.answer_entry(created, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        let created = self
            .attributes_in(request, parent, 0o777, FileKind::Link)
            .and_then(|attributes| self.inodes.symlink(target, parent.0, name.as_bytes(), &attributes).map_err(errno));
        self.answer_entry(created, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.inodes.remove(parent.0, name.as_bytes()).map_err(errno), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.inodes.remove_dir(parent.0, name.as_bytes()).map_err(errno), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ if flags.is_empty() => RenameMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let renamed = self.inodes.rename((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()), mode);
        let renamed = renamed.map_err(|error| match error.kind() {
            ErrorKind::TooLarge => Errno::EXDEV, // the caller copies the tree
            _ => errno(error),
        });
        answer(renamed, reply);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM); // as `link` reports that a file system has no hard links
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OpenFlags(flags);
        let opened = self.before_end().and_then(|_before_end| {
            let attributes = self.attributes_in(request, parent, mode, FileKind::File)?;
            let options = OpenOptions::new().read(true).write(true).create_new(true).attributes(attributes);
            let opened = self.inodes.open_in(parent.0, name.as_bytes(), &options);
            let mut file = opened.map_err(|error| match error.kind() {
                // Created meanwhile: the kernel looks it up, checks its permissions, and opens it.
                ErrorKind::Exists if !is_set(flags, OFlags::EXCL) => Errno::ESTALE,
                _ => errno(error),
            })?;
            if flags.acc_mode() == OpenAccMode::O_RDONLY {
                file = self.inodes.open(file.inode(), &OpenOptions::new().read(true)).map_err(errno)?;
            }
            let attributes = file_attributes(&file.metadata(), self.owner);
            Ok((attributes, FileHandle(self.open.files.add(OpenFile::Live(file)))))
        });
        match opened {
            Ok((attributes, handle)) => {
                reply.created(&FRESH, &attributes, Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.before_end().and_then(|_before_end| {
            let (file, flags) = self.open_file(inode.0, flags)?;
            Ok((FileHandle(self.open.files.add(file)), flags))
        });
        match opened {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = |length: u64, read: &dyn Fn(&mut [u8]) -> Result<usize>| {
            let mut bytes = vec![0; length.saturating_sub(offset).min(size.into()) as usize];
            let length = read(&mut bytes).map_err(errno)?;
            bytes.truncate(length);
            Ok(bytes)
        };
        let bytes = match self.open.files.find(handle.0).as_deref() {
            Some(OpenFile::Live(file)) => read(file.metadata().size, &|out| file.read_at(out, offset)),
            Some(OpenFile::Pinned(pinned)) => self.pinned(inode.0, pinned).and_then(|file| {
                if pinned.caching == Caching::Begin {
                    self.contents.begin(inode.0);
                }
                read(pinned.metadata.size, &|out| file.read_at(out, offset))
            }),
            None => Err(Errno::EBADF),
        };
        match bytes {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages of a mapping are written through any handle of the file, at their own place.
        let is_mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let written = self.live(handle, |file| {
            if !is_mapped {
                let with_bits = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
                drop_privileges(&self.inodes, inode.0, with_bits)?;
            }
            match is_set(flags, OFlags::APPEND) && !is_mapped {
                true => file.append(bytes).map(drop),
                false => file.write_at(bytes, offset),
            }
        });
        match written {
            Ok(()) => reply.written(bytes.len() as u32), // the kernel sends less than 4 GiB
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        answer(self.live(handle, File::flush_own), reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.live(handle, File::sync), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.files.sync().map_err(errno), reply);
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        match self.open.files.remove(handle.0).as_deref() {
            Some(OpenFile::Pinned(pinned)) if pinned.caching != Caching::Bypass => self.contents.close(inode.0),
            // The last handle loses changes that cannot be committed.
            Some(OpenFile::Live(file)) if file.metadata().has_changes => {
                self.suspects().insert(inode.0);
            }
            _ => {}
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let keeps_size = mode.contains(FallocateFlags::KEEP_SIZE);
        let is_zeroing = match mode.difference(FallocateFlags::KEEP_SIZE) {
            FallocateFlags::PUNCH_HOLE if keeps_size => true,
            FallocateFlags::ZERO_RANGE => true,
            rest if rest.is_empty() => false,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let Some(end) = offset.checked_add(length) else { return reply.error(Errno::EFBIG) };
        let changed = self.live(handle, |file| match (is_zeroing, keeps_size) {
            (true, true) => file.punch_hole(offset..end),
            (true, false) => file.zero_range(offset..end),
            (false, true) => Ok(()), // no space can be reserved
            (false, false) => file.extend_to(end),
        });
        answer(changed, reply);
    }

    fn lseek(&self, _: &Request, inode: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = match (self.open.files.find(handle.0).as_deref(), whence) {
            (None, _) => return reply.error(Errno::EBADF),
            (Some(OpenFile::Live(file)), SEEK_DATA) => file.next_data(from),
            (Some(OpenFile::Live(file)), SEEK_HOLE) => file.next_hole(from),
            (Some(OpenFile::Pinned(pinned)), SEEK_DATA | SEEK_HOLE) => match self.pinned(inode.0, pinned) {
                Ok(file) if whence == SEEK_DATA => file.next_data(from),
                Ok(file) => file.next_hole(from),
                Err(error) => return reply.error(error),
            },
            _ => return reply.error(Errno::EINVAL),
        };
        match found.and_then(|place| i64::try_from(place).ok()) {
            Some(place) => reply.offset(place),
            None => reply.error(Errno::ENXIO),
        }
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.inodes.stat(inode.0) {
            Ok(_) => reply.opened(FileHandle(self.open.directories.add(Lease::empty())), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(directory) = self.open.directories.find(handle.0) else { return reply.error(Errno::EBADF) };
        let directory = match offset {
            0 => self.open_directory(inode.0).map(|new| directory.set(new)), // `rewinddir` shows the directory as it is
            _ => directory.value(|| Err(Errno::ESTALE)), // the ordinals are those of the snapshot that was given back
        };
        let directory = match directory {
            Ok(directory) => directory,
            Err(error) => return reply.error(error),
        };
        let mut has_entries = false;
        for (ordinal, name) in [".", ".."].into_iter().enumerate().skip(offset.min(DOTS) as usize) {
            if reply.add(inode, ordinal as u64 + 1, FileType::Directory, name) {
                return reply.ok();
            }
            has_entries = true;
        }
        let read = directory.read(offset.saturating_sub(DOTS), |ordinal, entry| {
            let name = OsStr::from_bytes(&entry.name);
            let is_full =
                reply.add(INodeNo(entry.metadata.inode), ordinal + DOTS + 1, file_type(entry.metadata.kind), name);
            has_entries |= !is_full;
            !is_full
        });
        match read {
            // Entries before a damaged one are an answer; the next read meets it.
            Err(error) if !has_entries => reply.error(errno(error)),
            _ => reply.ok(),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.open.directories.remove(handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::fstatvfs(&self.store) {
            Ok(disk) => reply.statfs(
                disk.f_blocks,
                disk.f_bfree,
                disk.f_bavail,
                disk.f_files,
                disk.f_ffree,
                disk.f_bsize as u32,
                waxseal_files::MAX_NAME_BYTES as u32,
                disk.f_frsize as u32,
            ),
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        }
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        answer_xattr(self.inodes.xattr(inode.0, name.as_bytes()), room, reply);
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        let names = self.inodes.xattrs(inode.0);
        let ended = |names: Vec<Vec<u8>>| names.into_iter().flat_map(|name| [name, vec![0]]).flatten().collect();
        answer_xattr(names.map(ended), room, reply);
    }

    fn setxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        if name.as_bytes().starts_with(SYSTEM_ATTRIBUTES) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let mode = match XattrFlags::from_bits_retain(flags as u32) {
            XattrFlags::CREATE => XattrMode::Create,
            XattrFlags::REPLACE => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        answer(self.inodes.set_xattr(inode.0, name.as_bytes(), value, mode).map_err(errno), reply);
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.inodes.remove_xattr(inode.0, name.as_bytes()).map_err(errno), reply);
    }
}
