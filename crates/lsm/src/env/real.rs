//! The operating system's files: pread, pwrite, fdatasync, flock, and one shared mapping for the tail ring.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::{Dir, DirEntry, File, Fs, Lock, Machine, Mapped, Open};
use dir::RealDir;

mod dir;
#[cfg_attr(not(target_os = "linux"), path = "real/no_mapping.rs")]
mod mapping;
mod origin;
mod pages;
mod space;

pub use origin::Origin;
pub use pages::{Pages, populate};

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFs;

#[expect(clippy::disallowed_methods, reason = "this is the door")]
impl Fs for RealFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(how != Open::Read).create_new(how.creates());
        #[cfg(unix)]
        if let Open::CreateMode(mode) = how {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        }
        // Opening a pipe in the place of a file would wait for a writer. Regular files ignore the flag.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(DirEntry { name, is_file: entry.file_type()?.is_file() });
        }
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn create_dir_mode(&self, dir: &Path, mode: u32) -> io::Result<()> {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
        match builder.create(dir) {
            Err(error) if !dir.is_dir() => Err(error),
            _ => Ok(()),
        }
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn hold_dir(&self, dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        Ok(Some(Arc::new(RealDir::open(dir)?)))
    }

    fn link_into(&self, from: &Path, dir: &dyn Dir, name: &str) -> io::Result<()> {
        RealDir::of(dir)?.link_from(from, name)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        RealDir::open(parent.unwrap_or(Path::new(".")))?.lock_file(name, holder)
    }

    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        Ok(Machine { boot_id: boot_id(), device: fs::metadata(dir)?.dev() })
    }

    fn most_open(&self) -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }

    fn expect_open(&self, dir: &Path, files: u64) {
        let most = self.most_open().unwrap_or(u64::MAX);
        if let Ok(dir) = fs::File::open(dir) {
            space::expect_open(&dir, files.min(most.saturating_sub(1)));
        }
    }

    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        space::reserves_blocks(&fs::File::open(dir)?)
    }
}

/// True if a file could not be opened because the process or the system has reached its limit on open files.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let refused = error.raw_os_error();
    refused == Some(Errno::MFILE.raw_os_error()) || refused == Some(Errno::NFILE.raw_os_error())
}

/// Returns the boot id of this kernel: 16 bytes, parsed from their text form. `None` if the kernel does not provide it.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> =
        text.iter().filter_map(|byte| (*byte as char).to_digit(16)).map(|digit| digit as u8).collect();
    let mut id = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(id)
}

struct RealFile(fs::File);

impl fmt::Debug for RealFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn data_end(&self) -> io::Result<u64> {
        space::data_end(&self.0)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        space::allocate(&self.0, length)
    }

    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        mapping::map(&self.0, length)
    }

    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        space::advise(&self.0, offset, length, will_need);
    }
}
