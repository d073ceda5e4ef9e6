//! A mount by its Rust interface.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a mount is of the system's own files")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waxseal::Db;
use waxseal::env::{Clock, SystemClock};
use waxseal_files::FileStore;
use waxseal_mount::{MountOptions, Mounted};

/// A clock that is 11 s further at each look. A rename takes the entries of a tree for 10 s at most.
struct LateClock {
    system: SystemClock,
    looks: AtomicU64,
}

impl Clock for LateClock {
    fn wall_micros(&self) -> u64 {
        self.system.wall_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst) * 11_000_000_000
    }
}

#[test]
fn a_tree_beyond_the_limit_of_a_rename_is_copied_by_mv() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (store, directory) = (dir.path().join("store"), dir.path().join("mnt"));
    fs::create_dir(&directory).unwrap();
    let clock = LateClock { system: SystemClock::new(), looks: AtomicU64::new(0) };
    let db = Db::builder(&store).clock(Arc::new(clock)).open().unwrap();
    let files = FileStore::open(&db, "files").unwrap();
    files.create_dir_all("tree/sub").unwrap();
    files.write("tree/file", vec![7; 300_000]).unwrap();
    // The time is looked at after every 1,024 entries.
    (0..1100).for_each(|number| files.symlink("../file", format!("tree/sub/{number}")).unwrap());
    let (store, idle) = (store.clone(), Duration::from_secs(600));
    let options = MountOptions { files: files.clone(), store, directory, allow_other: false, idle };
    let (tree, moved) = (options.directory.join("tree"), options.directory.join("moved"));
    let mounted = Mounted::mount(options).unwrap();
    let renamed = fs::rename(&tree, &moved);
    let untouched = (files.exists("tree/sub/1099").unwrap(), files.exists("moved").unwrap());
    let mv = Command::new("mv").args([&tree, &moved]).output();
    mounted.unmount().unwrap(); // before anything fails
    const EXDEV: i32 = 18;
    assert_eq!((renamed.unwrap_err().raw_os_error(), untouched), (Some(EXDEV), (true, false)));
    let mv = mv.unwrap();
    assert!(mv.status.success(), "{mv:?}");
    assert_eq!((files.exists("tree").unwrap(), files.walk("moved").unwrap().count()), (false, 1103));
    assert_eq!(files.read("moved/file").unwrap(), vec![7; 300_000]);
    assert_eq!(files.read_link("moved/sub/1099").unwrap(), b"../file");
    assert!(files.fsck().unwrap().is_clean());
}
