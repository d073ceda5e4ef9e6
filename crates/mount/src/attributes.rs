//! Conversion of attributes between kernel and store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::FileType as NodeType;
use waxseal_files::{FileKind, Metadata, SetAttributes};

/// The unit in which `stat` counts what a file takes.
const BLOCK_BYTES: u64 = 512;

/// The bits of a mode that are no type.
const PERMISSIONS: u32 = 0o7777;
/// In the mode of a directory: new entries get its group. In that of a program: it runs as its group.
pub(crate) const SET_GROUP_ID: u32 = 0o2000;

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Link => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

/// Returns the kind of node that a mode names; `None` for devices.
pub(crate) fn node_kind(mode: u32) -> Option<FileKind> {
    match NodeType::from_raw_mode(mode) {
        NodeType::RegularFile => Some(FileKind::File),
        NodeType::Fifo => Some(FileKind::Fifo),
        NodeType::Socket => Some(FileKind::Socket),
        _ => None,
    }
}

/// The user and group of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The user and group that entries of user or group 0 are shown with. They were made without an owner, and the user of
/// the mount could not change them otherwise. Where others may use the mount, the group stays 0: the members of another
/// one would get its permissions. The user may do everything with the store anyway.
pub(crate) fn default_owner(process: Owner, allow_other: bool) -> Owner {
    Owner { gid: if allow_other { 0 } else { process.gid }, ..process }
}

/// Returns the attributes of an entry in a mount with this default owner.
pub(crate) fn file_attributes(metadata: &Metadata, mount: Owner) -> FileAttr {
    // An inline content has no chunks.
    let bytes = if metadata.chunk_bytes > 0 { metadata.allocated } else { metadata.size };
    let links = if metadata.is_directory() { 2 } else { 1 };
    FileAttr {
        ino: INodeNo(metadata.inode),
        size: metadata.size,
        blocks: bytes.div_ceil(BLOCK_BYTES),
        atime: time(metadata.mtime),
        mtime: time(metadata.mtime),
        ctime: time(metadata.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(metadata.kind),
        perm: metadata.mode as u16, // at most 0o7777
        nlink: if metadata.is_removed { 0 } else { links },
        uid: if metadata.uid == 0 { mount.uid } else { metadata.uid },
        gid: if metadata.gid == 0 { mount.gid } else { metadata.gid },
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Returns the attributes of a new entry. A directory with the set-group-ID bit gives its group on,
/// and the bit to directories.
pub(crate) fn new_attributes(parent: &Metadata, owner: Owner, mode: u32, kind: FileKind) -> SetAttributes {
    let is_inherited = parent.mode & SET_GROUP_ID != 0;
    let gid = if is_inherited { parent.gid } else { owner.gid };
    let group_bit = if is_inherited && kind == FileKind::Directory { SET_GROUP_ID } else { 0 };
    SetAttributes::new().mode(mode & PERMISSIONS | group_bit).owner(owner.uid, gid)
}

/// Returns the change that the kernel asks for.
pub(crate) fn changed_attributes(
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<TimeOrNow>,
) -> SetAttributes {
    let mut set = SetAttributes::new();
    if let Some(mode) = mode {
        set = set.mode(mode & PERMISSIONS);
    }
    if let Some(uid) = uid {
        set = set.uid(uid);
    }
    if let Some(gid) = gid {
        set = set.gid(gid);
    }
    match mtime {
        Some(TimeOrNow::SpecificTime(time)) => set.mtime(received_nanos(time)),
        Some(TimeOrNow::Now) => set.mtime(nanos(SystemTime::now())),
        None => set,
    }
}

fn time(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// Returns the time of a request in nanoseconds since 1970. The kernel sends whole seconds, rounded down, and the
/// nanoseconds after them. fuser 0.18 subtracts these from a time before 1970 (`system_time_from_time`) instead of
/// adding them; this function undoes it. The times of replies are right (`time_from_system_time`).
fn received_nanos(time: SystemTime) -> i64 {
    let sent = match UNIX_EPOCH.duration_since(time) {
        Ok(before) => time.checked_add(2 * Duration::from_nanos(before.subsec_nanos().into())),
        Err(_) => None,
    };
    nanos(sent.unwrap_or(time))
}

/// Returns a time in nanoseconds since 1970, or the nearest one that the store can keep.
fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal_files::FileStore;

    #[test]
    fn entries_without_an_owner_are_the_users() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.mkdir_with("other", &SetAttributes::new().owner(7, 8)).unwrap();
        let owner = |path: &str, uid, gid| {
            let found = file_attributes(&files.stat(path).unwrap(), Owner { uid, gid });
            (found.uid, found.gid)
        };
        assert_eq!((owner("", 1000, 1001), owner("", 0, 0)), ((1000, 1001), (0, 0)));
        assert_eq!(owner("other", 1000, 1001), (7, 8));
        let process = Owner { uid: 1000, gid: 1001 };
        assert_eq!(default_owner(process, false), process);
        assert_eq!(default_owner(process, true), Owner { uid: 1000, gid: 0 });
    }

    #[test]
    fn a_set_group_id_directory_gives_its_group_on() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.mkdir_with("own", &SetAttributes::new().owner(7, 8)).unwrap();
        files.mkdir_with("group", &SetAttributes::new().owner(7, 8).mode(0o2775)).unwrap();
        let of = |parent: &str, kind| {
            let parent = files.stat(parent).unwrap();
            new_attributes(&parent, Owner { uid: 1, gid: 2 }, 0o100_640, kind)
        };
        let set = |mode, gid| SetAttributes::new().mode(mode).owner(1, gid);
        assert_eq!(of("own", FileKind::Directory), set(0o640, 2));
        assert_eq!(of("group", FileKind::File), set(0o640, 8));
        assert_eq!(of("group", FileKind::Directory), set(0o2640, 8));
    }

    #[test]
    fn a_fraction_of_a_second_before_1970_is_received_as_sent() {
        // As fuser makes a time of the kernel's seconds and nanoseconds.
        let received = |seconds: i64, nanos: u32| match u64::try_from(seconds) {
            Ok(after) => UNIX_EPOCH + Duration::new(after, nanos),
            Err(_) => UNIX_EPOCH - Duration::new(seconds.unsigned_abs(), nanos),
        };
        for kept in [0, 1, -1, -500_000_000, -1_000_000_000, -1_500_000_000, 1_500_000_000, -999_999_999, i64::MIN + 1]
        {
            let (seconds, nanos) = (kept.div_euclid(1_000_000_000), kept.rem_euclid(1_000_000_000));
            let set =
                changed_attributes(None, None, None, Some(TimeOrNow::SpecificTime(received(seconds, nanos as u32))));
            assert_eq!(set, SetAttributes::new().mtime(kept));
        }
    }

    #[test]
    fn times_before_1970_and_far_ones_are_kept() {
        for nanos_kept in [0, 1, -1, 1_700_000_000_123_456_789, -5_000_000_000, i64::MAX] {
            assert_eq!(nanos(time(nanos_kept)), nanos_kept);
        }
        assert_eq!(nanos(UNIX_EPOCH + Duration::from_secs(1 << 40)), i64::MAX);
        assert_eq!(nanos(UNIX_EPOCH - Duration::from_secs(1 << 40)), i64::MIN);
    }
}
