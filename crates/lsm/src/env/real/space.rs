//! Linux features beyond the standard library: space reservation, hints, the type of the file system.

use std::fs::File;
use std::io;

/// Reserves blocks for `length` bytes and extends the file; if the file system cannot reserve, only extends it.
pub(super) fn allocate(file: &File, length: u64) -> io::Result<()> {
    if reserve(file, 0, length)? {
        return Ok(());
    }
    if file.metadata()?.len() < length { file.set_len(length) } else { Ok(()) }
}

/// Reserves blocks for a range, and extends the file to its end. Returns false if the file system cannot reserve.
pub(super) fn reserve(file: &File, offset: u64, length: u64) -> io::Result<bool> {
    // fallocate rejects a length of 0 as an invalid argument.
    if length == 0 {
        return Ok(true);
    }
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, length) {
        Ok(()) => return Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    let _ = (file, offset);
    Ok(false)
}

/// Maximum number of separate extents that are examined to find the last one.
#[cfg(target_os = "linux")]
const MOST_EXTENTS: usize = 1 << 16;

/// Returns the end of the last extent with data, or the length if the file system cannot tell.
pub(super) fn data_end(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{SeekFrom, seek};
        let mut end = 0;
        for _ in 0..MOST_EXTENTS {
            // The file position that these calls move is not used elsewhere.
            match seek(file, SeekFrom::Data(end)) {
                Ok(data) => end = seek(file, SeekFrom::Hole(data))?,
                Err(rustix::io::Errno::NXIO) => return Ok(end.min(length)),
                Err(_) => break,
            }
        }
    }
    Ok(length)
}

/// Tells the kernel that a range is about to be read, or no longer needed.
pub(super) fn advise(file: &File, offset: u64, length: u64, will_need: bool) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::Advice;
        let advice = if will_need { Advice::WillNeed } else { Advice::DontNeed };
        let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(length), advice);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, length, will_need);
}

/// Enlarges the process's file table for this many files. Linux doubles the table when it is full. The thread that
/// opens the first file beyond it then waits until every processor has passed a quiescent state (RCU) if other threads
/// share the table: some 10 ms, in the middle of a read. Duplicating one descriptor to such a high number, and closing
/// it at once, moves all these waits to a time without reads.
pub(super) fn expect_open(any: &File, files: u64) {
    if let Ok(last) = i32::try_from(files) {
        let _ = rustix::io::fcntl_dupfd_cloexec(any, last);
    }
}

/// Returns true for ext2/3/4, XFS and tmpfs, which never lose the reservation of a written block.
pub(super) fn reserves_blocks(dir: &File) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        const EXT: u64 = 0xEF53;
        const XFS: u64 = 0x5846_5342;
        const TMPFS: u64 = 0x0102_1994;
        Ok(matches!(rustix::fs::fstatfs(dir)?.f_type as u64, EXT | XFS | TMPFS))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = dir;
        Ok(false)
    }
}
