//! `waxseal mount`: the files of a store as the kernel shows them.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Tool;

/// A mount in a process of its own.
struct Mount {
    child: Child,
}

impl Mount {
    /// Mounts the store at the directory `mnt`. `None` on a machine without FUSE.
    fn start(tool: &Tool) -> Option<Mount> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: there is no /dev/fuse");
            return None;
        }
        let _ = fs::create_dir(tool.path("mnt")); // it exists, or is a mount that has lost its process
        let mut command = Command::new(env!("CARGO_BIN_EXE_waxseal"));
        command.args([OsStr::new("mount"), tool.path("store").as_os_str(), tool.path("mnt").as_os_str()]);
        let mut child = command.arg("--read-only").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("mounted "), "{line}");
        Some(Mount { child })
    }

    fn signal(mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn a_mounted_tree_is_the_tree() {
    let tool = Tool::new();
    let (tree, mounted) = (tool.path("tree"), tool.path("mnt/tree"));
    fs::create_dir_all(tree.join("many")).unwrap();
    for number in 0..1500 {
        fs::write(tree.join(format!("many/file-{number}")), number.to_string()).unwrap();
    }
    let content: Vec<u8> = (0..2_000_003u32).map(|number| (number % 251) as u8).collect();
    fs::write(tree.join("large"), &content).unwrap();
    fs::File::create(tree.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    fs::write(tree.join("script"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(tree.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("many/file-7", tree.join("link")).unwrap();
    rustix::fs::setxattr(tree.join("large"), "user.of", b"a file", rustix::fs::XattrFlags::empty()).unwrap();
    tool.ok(&["fs", "put", &tool.local("tree"), &tool.url("")]);
    let Some(mount) = Mount::start(&tool) else { return };
    let diff = Command::new("diff").args(["-r", "--no-dereference"]).args([&tree, &mounted]).output().unwrap();
    assert!(diff.status.success(), "{diff:?}");
    assert_eq!(fs::read_to_string(mounted.join("link")).unwrap(), "7");
    assert_eq!(fs::read_dir(mounted.join("many")).unwrap().count(), 1500);
    let (own, other) = (fs::metadata(tree.join("script")).unwrap(), fs::metadata(mounted.join("script")).unwrap());
    assert_eq!((own.mode(), own.mtime(), own.mtime_nsec()), (other.mode(), other.mtime(), other.mtime_nsec()));
    let sparse = fs::metadata(mounted.join("sparse")).unwrap();
    assert_eq!((sparse.len(), sparse.blocks()), (1 << 30, 0));
    let mut value = [0; 64];
    let length = rustix::fs::getxattr(mounted.join("large"), "user.of", &mut value).unwrap();
    assert_eq!(&value[..length], b"a file");
    assert!(rustix::fs::statvfs(tool.path("mnt")).unwrap().f_blocks > 0);
    assert_eq!(fs::write(mounted.join("new"), "").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read(mounted.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    // Files that are open do not keep the mount.
    let open = fs::File::open(mounted.join("large")).unwrap();
    assert!(mount.signal(Signal::TERM).success());
    drop(open);
    assert_eq!(fs::read_dir(tool.path("mnt")).unwrap().count(), 0);
}

#[test]
fn a_mount_shows_what_is_written_beside_it() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("file", "old").unwrap());
    let Some(mount) = Mount::start(&tool) else { return };
    let file = tool.path("mnt/file");
    let mut open = fs::File::open(&file).unwrap();
    tool.with_files(|files| files.write("file", "newer").unwrap());
    while fs::read_to_string(&file).unwrap() != "newer" {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut content = String::new();
    open.read_to_string(&mut content).unwrap();
    assert_eq!(content, "old", "an open file is of one point in time");
    drop(open);
    assert!(mount.signal(Signal::INT).success());
}

#[test]
fn a_mount_that_has_lost_its_process_is_replaced() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("file", "content").unwrap());
    let Some(mount) = Mount::start(&tool) else { return };
    assert!(!mount.signal(Signal::KILL).success());
    let error = fs::read(tool.path("mnt/file")).unwrap_err();
    assert_eq!(rustix::io::Errno::from_io_error(&error), Some(rustix::io::Errno::NOTCONN));
    let mount = Mount::start(&tool).unwrap();
    assert_eq!(fs::read(tool.path("mnt/file")).unwrap(), b"content");
    // A user may unmount it, too.
    assert!(Command::new("umount").arg(tool.path("mnt")).status().unwrap().success());
    let mut mount = mount;
    assert!(mount.child.wait().unwrap().success());
    let missing = tool.run(&["mount", &tool.local("store"), &tool.local("absent"), "--read-only"]);
    assert_eq!(missing.status.code(), Some(4));
    assert_eq!(tool.code(&["mount", &tool.local("store"), &tool.local("mnt")]), 1, "not for writing");
    assert_eq!(tool.code(&["mount", &tool.local("store"), &tool.local("store"), "--read-only"]), 1);
}
