//! The file system as the kernel asks for it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr,
    Request,
};
use waxseal_files::{Error, FileKind, FileStore, Inodes, Metadata, Result};

use crate::handles::{Caching, Contents, Handles, OpenDirectory, OpenFile};

/// How long the kernel may use a name and attributes without asking again.
const FRESH: Duration = Duration::from_secs(1);

/// The unit in which `stat` counts what a file takes.
const BLOCK_BYTES: u64 = 512;

/// Ordinals before those of a directory's entries: `.` and `..`.
const DOTS: u64 = 2;

pub(crate) struct FileSystem {
    files: FileStore,
    inodes: Inodes,
    /// The directory of the store, whose disk `statfs` reports.
    store: File,
    open: Handles<OpenFile>,
    directories: Handles<OpenDirectory>,
    contents: Contents,
}

impl FileSystem {
    pub(crate) fn new(files: FileStore, store: File) -> FileSystem {
        FileSystem {
            inodes: Inodes::new(&files),
            files,
            store,
            open: Handles::new(),
            directories: Handles::new(),
            contents: Contents::default(),
        }
    }

    fn open_file(&self, inode: u64) -> std::result::Result<(u64, Caching), Errno> {
        let file = self.files.snapshot().open(self.inodes.path(inode).map_err(errno)?).map_err(errno)?;
        if file.metadata().inode != inode {
            return Err(Errno::ESTALE); // another file has taken the path meanwhile
        }
        let caching = self.contents.open(&file);
        Ok((self.open.add(OpenFile { file, caching }), caching))
    }

    /// Returns how long the kernel may use attributes. Those of another content than its pages have would cut the pages
    /// short for the files that use them.
    fn lifetime(&self, metadata: &Metadata) -> Duration {
        if self.contents.is_other_open(metadata) { Duration::ZERO } else { FRESH }
    }

    fn xattr(&self, inode: u64, name: &OsStr) -> Result<Vec<u8>> {
        self.files.xattr(self.inodes.path(inode)?, name.as_bytes())
    }

    /// Returns the names of extended attributes, a zero byte behind each.
    fn xattrs(&self, inode: u64) -> Result<Vec<u8>> {
        let names = self.files.xattrs(self.inodes.path(inode)?)?;
        Ok(names.into_iter().flat_map(|name| [name, vec![0]]).flatten().collect())
    }
}

fn errno(error: Error) -> Errno {
    Errno::from_i32(error.errno())
}

fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Link => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

fn time(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

fn attributes(metadata: &Metadata) -> FileAttr {
    let bytes = if metadata.chunk_bytes == 0 { metadata.size } else { metadata.allocated };
    FileAttr {
        ino: INodeNo(metadata.inode),
        size: metadata.size,
        blocks: bytes.div_ceil(BLOCK_BYTES),
        atime: time(metadata.mtime),
        mtime: time(metadata.mtime),
        ctime: time(metadata.ctime),
        crtime: UNIX_EPOCH,
        kind: kind(metadata.kind),
        perm: metadata.mode as u16, // at most 0o7777
        nlink: if metadata.is_directory() { 2 } else { 1 },
        uid: metadata.uid,
        gid: metadata.gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
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
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.inodes.lookup(parent.0, name.as_bytes()) {
            Ok(metadata) => reply.entry(&self.lifetime(&metadata), &attributes(&metadata), Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.inodes.forget(inode.0, lookups);
        self.contents.forget(inode.0);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        if let Some(open) = handle.and_then(|handle| self.open.find(handle.0)) {
            let lifetime = if open.caching == Caching::Bypass { Duration::ZERO } else { FRESH };
            return reply.attr(&lifetime, &attributes(&open.file.metadata()));
        }
        match self.inodes.stat(inode.0) {
            Ok(metadata) => reply.attr(&self.lifetime(&metadata), &attributes(&metadata)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.inodes.path(inode.0).and_then(|path| self.files.read_link(path)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(inode.0) {
            Ok((handle, caching)) => reply.opened(
                FileHandle(handle),
                match caching {
                    Caching::Keep => FopenFlags::FOPEN_KEEP_CACHE,
                    Caching::Begin => FopenFlags::empty(),
                    Caching::Bypass => FopenFlags::FOPEN_DIRECT_IO,
                },
            ),
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
        let Some(open) = self.open.find(handle.0) else { return reply.error(Errno::EBADF) };
        if open.caching == Caching::Begin {
            self.contents.begin(inode.0);
        }
        let left = open.file.metadata().size.saturating_sub(offset);
        let mut bytes = vec![0; left.min(size.into()) as usize];
        match open.file.read_at(&mut bytes, offset) {
            Ok(length) => reply.data(&bytes[..length]),
            Err(error) => reply.error(errno(error)),
        }
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
        if self.open.remove(handle.0).is_some_and(|open| open.caching != Caching::Bypass) {
            self.contents.close(inode.0);
        }
        reply.ok();
    }

    fn lseek(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let Some(open) = self.open.find(handle.0) else { return reply.error(Errno::EBADF) };
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = match whence {
            SEEK_DATA => open.file.next_data(from),
            SEEK_HOLE => open.file.next_hole(from),
            _ => return reply.error(Errno::EINVAL),
        };
        match found.and_then(|place| i64::try_from(place).ok()) {
            Some(place) => reply.offset(place),
            None => reply.error(Errno::ENXIO),
        }
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.inodes.path(inode.0).and_then(|path| OpenDirectory::open(self.files.snapshot(), path));
        match opened {
            Ok(directory) => reply.opened(FileHandle(self.directories.add(directory)), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(directory) = self.directories.find(handle.0) else { return reply.error(Errno::EBADF) };
        let mut has_entries = false;
        for (ordinal, name) in [".", ".."].into_iter().enumerate().skip(offset.min(DOTS) as usize) {
            if reply.add(inode, ordinal as u64 + 1, FileType::Directory, name) {
                return reply.ok();
            }
            has_entries = true;
        }
        let read = directory.read(offset.saturating_sub(DOTS), |ordinal, entry| {
            let name = OsStr::from_bytes(&entry.name);
            let is_full = reply.add(INodeNo(entry.metadata.inode), ordinal + DOTS + 1, kind(entry.metadata.kind), name);
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
        self.directories.remove(handle.0);
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
        answer_xattr(self.xattr(inode.0, name), room, reply);
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        answer_xattr(self.xattrs(inode.0), room, reply);
    }
}
