//! A mount by its Rust interface.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a mount is of the system's own files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waxseal::Db;
use waxseal::env::{Clock, SystemClock};
use waxseal_files::{FileStore, SetAttributes, XattrMode};
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

/// Another content or owner ends privileges. A caller that may keep the bits of the mode writes without losing them,
/// unless there are capabilities: the kernel asks for their removal and that of the bits in one way.
#[test]
fn privileges_end_with_the_content_of_a_file() {
    const CAPABILITIES: &str = "security.capability";
    const ROOT: u32 = 0;
    const NOBODY: u32 = 65_534;
    // Command, its user, whether there are capabilities, mode before, mode after.
    const CASES: [(&str, u32, bool, u32, u32); 8] = [
        ("printf x >> $0", NOBODY, true, 0o6777, 0o777),
        ("printf x > $0", NOBODY, true, 0o6777, 0o777),
        ("truncate -s 1 $0", NOBODY, true, 0o6777, 0o777),
        ("fallocate -z -l 1 $0", NOBODY, true, 0o6777, 0o777),
        ("printf x >> $0", NOBODY, true, 0o6767, 0o2767),
        ("printf x >> $0", ROOT, false, 0o6777, 0o6777),
        ("truncate -s 1 $0", ROOT, true, 0o6777, 0o777),
        ("chown 7:8 $0", ROOT, true, 0o6777, 0o777),
    ];
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (store, directory) = (dir.path().join("store"), dir.path().join("mnt"));
    fs::create_dir(&directory).unwrap();
    let db = Db::builder(&store).open().unwrap();
    let files = FileStore::open(&db, "files").unwrap();
    for (number, (_, _, has_capabilities, before, _)) in CASES.into_iter().enumerate() {
        let name = number.to_string();
        files.write(&name, b"content").unwrap();
        files.set_attributes(&name, &SetAttributes::new().mode(before)).unwrap();
        if has_capabilities {
            files.set_xattr(&name, CAPABILITIES, [1; 20], XattrMode::Set).unwrap();
        }
    }
    let idle = Duration::from_secs(600);
    let options = MountOptions { files: files.clone(), store, directory, allow_other: is_root, idle };
    let at = options.directory.clone();
    let mounted = Mounted::mount(options).unwrap();
    let run = |number: usize| {
        let (command, user, ..) = CASES[number];
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).arg(at.join(number.to_string()));
        match (is_root, user) {
            (true, ROOT) => {}
            (true, _) => {
                shell.uid(user).gid(user);
            }
            (false, ROOT) => return None,
            (false, _) => {} // who runs the tests
        }
        Some(shell.output().unwrap())
    };
    let outputs: Vec<_> = (0..CASES.len()).map(run).collect();
    mounted.unmount().unwrap(); // before anything fails
    for (number, output) in outputs.into_iter().enumerate() {
        let Some(output) = output else { continue };
        assert!(output.status.success(), "{:?}: {output:?}", CASES[number]);
        let name = number.to_string();
        let found = (files.stat(&name).unwrap().mode, files.xattrs(&name).unwrap());
        assert_eq!(found, (CASES[number].4, Vec::new()), "{:?}", CASES[number]);
    }
}
