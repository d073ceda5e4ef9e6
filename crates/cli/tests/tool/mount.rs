//! `waxseal mount`: the files of a store as the kernel shows them.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, XattrFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use waxseal_files::SetAttributes;

use crate::Tool;

/// A mount in a process of its own.
struct Mount {
    child: Child,
}

impl Mount {
    /// Mounts the store at the directory `mnt`, for reading. `None` on a machine without FUSE.
    fn start(tool: &Tool) -> Option<Mount> {
        Mount::start_with(tool, &["--read-only"])
    }

    /// Mounts a new store for writing.
    fn writable(tool: &Tool) -> Option<Mount> {
        tool.with_files(|files| files.sync().unwrap());
        Mount::start_with(tool, &[])
    }

    fn start_with(tool: &Tool, options: &[&str]) -> Option<Mount> {
        Mount::spawn(tool, Command::new(env!("CARGO_BIN_EXE_waxseal")), options)
    }

    /// Mounts by a command to which the arguments of the tool are added.
    fn spawn(tool: &Tool, mut command: Command, options: &[&str]) -> Option<Mount> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: there is no /dev/fuse");
            return None;
        }
        let _ = fs::create_dir(tool.path("mnt")); // it exists, or is a mount that has lost its process
        command.args([OsStr::new("mount"), tool.path("store").as_os_str(), tool.path("mnt").as_os_str()]);
        let mut child = command.args(options).stdout(Stdio::piped()).spawn().unwrap();
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
    rustix::fs::setxattr(tree.join("large"), "user.of", b"a file", XattrFlags::empty()).unwrap();
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
    assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTCONN));
    let mount = Mount::start(&tool).unwrap();
    assert_eq!(fs::read(tool.path("mnt/file")).unwrap(), b"content");
    // A user may unmount it, too.
    assert!(Command::new("umount").arg(tool.path("mnt")).status().unwrap().success());
    let mut mount = mount;
    assert!(mount.child.wait().unwrap().success());
    let missing = tool.run(&["mount", &tool.local("store"), &tool.local("absent"), "--read-only"]);
    assert_eq!(missing.status.code(), Some(4));
    assert_eq!(tool.code(&["mount", &tool.local("store"), &tool.local("store"), "--read-only"]), 1);
}

#[test]
fn a_file_is_not_mounted_over() {
    let tool = Tool::new();
    tool.with_files(|files| files.sync().unwrap());
    fs::write(tool.path("file"), "of the user").unwrap();
    for (place, code) in [("file", 1), ("absent", 4), ("store", 1)] {
        assert_eq!(tool.code(&["mount", &tool.local("store"), &tool.local(place)]), code, "{place}");
    }
    assert_eq!(fs::read(tool.path("file")).unwrap(), b"of the user");
}

#[test]
fn a_mount_point_is_not_mounted_over() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("file", "content").unwrap());
    let Some(_mount) = Mount::start(&tool) else { return };
    assert_eq!(tool.code(&["mount", &tool.local("store"), &tool.local("mnt"), "--read-only"]), 4);
    // A directory of the same file system, which has the same device number.
    fs::create_dir(tool.path("bound")).unwrap();
    let bind = Command::new("mount").arg("--bind").args([tool.path("bound"), tool.path("bound")]).output().unwrap();
    if !bind.status.success() {
        eprintln!("skipped: no bind mount, {bind:?}");
        return;
    }
    let mut command = tool.command(&["mount", &tool.local("store"), &tool.local("bound"), "--read-only"]);
    let mut second = Mount { child: command.stdout(Stdio::piped()).spawn().unwrap() };
    let mut line = String::new();
    BufReader::new(second.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(second); // also one that has mounted
    assert!(Command::new("umount").arg(tool.path("bound")).status().unwrap().success());
    assert_eq!(line, "");
}

/// Attributes of a newer content do not cut off those who read the older one.
#[test]
fn an_open_file_keeps_its_length() {
    let tool = Tool::new();
    let content = vec![b'x'; 1_000_000];
    tool.with_files(|files| files.write("file", &content).unwrap());
    let Some(_mount) = Mount::start(&tool) else { return };
    let mut open = fs::File::open(tool.path("mnt/file")).unwrap();
    open.read_exact(&mut [0; 10]).unwrap();
    tool.with_files(|files| files.truncate("file", 10).unwrap()); // keeps the inode number
    while fs::metadata(tool.path("mnt/file")).unwrap().len() != 10 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut rest = Vec::new();
    open.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), content.len() - 10);
    assert_eq!(fs::read(tool.path("mnt/file")).unwrap().len(), 10);
}

/// With `--idle 0` every look at what is open gives the snapshots back.
#[test]
fn what_is_idle_gives_its_snapshot_back() {
    let tool = Tool::new();
    let content = vec![b'x'; 4_000_000];
    tool.with_files(|files| {
        files.write("changed", &content).unwrap();
        files.write("same", &content).unwrap();
        files.mkdir("many").unwrap();
        (0..2000).for_each(|number| files.write(format!("many/{number}"), "").unwrap());
    });
    let Some(_mount) = Mount::start_with(&tool, &["--read-only", "--idle", "0"]) else { return };
    let open = |name: &str| {
        let file = fs::File::open(tool.path("mnt").join(name)).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap(); // each page is a request
        file
    };
    let (changed, same, many) = (open("changed"), open("same"), fs::File::open(tool.path("mnt/many")).unwrap());
    tool.with_files(|files| files.append("changed", "y").unwrap());
    let mut page = [0; 4096];
    let (mut file_error, mut directory_error) = (None, None);
    let mut room = [std::mem::MaybeUninit::uninit(); 256];
    for number in 0.. {
        same.read_exact_at(&mut page, number * 4096).unwrap();
        file_error = file_error.or(changed.read_exact_at(&mut page, number * 4096).err());
        if directory_error.is_none() {
            let mut entries = rustix::fs::RawDir::new(&many, &mut room);
            directory_error = entries.next().and_then(Result::err);
        }
        if file_error.is_some() && directory_error.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(file_error.unwrap().raw_os_error(), Some(Errno::STALE.raw_os_error()));
    assert_eq!(directory_error.unwrap(), Errno::STALE);
    // From its start the directory is read as it is now.
    rustix::fs::seek(&many, SeekFrom::Start(0)).unwrap();
    let mut entries = rustix::fs::RawDir::new(&many, &mut room);
    assert!(entries.next().unwrap().is_ok());
}

/// Checks the store of a mount that has ended.
fn check(tool: &Tool) {
    tool.ok(&["fs", "fsck", &tool.url("")]);
    tool.ok(&["fs", "verify", &tool.url("")]);
}

fn errno<T>(result: io::Result<T>) -> Errno {
    let error = result.err().expect("an error");
    Errno::from_io_error(&error).unwrap()
}

#[test]
fn files_change_through_the_mount() {
    let tool = Tool::new();
    let Some(mount) = Mount::writable(&tool) else { return };
    let at = |name: &str| tool.path("mnt").join(name);
    fs::create_dir(at("dir")).unwrap();
    let content: Vec<u8> = (0..700_000u32).map(|number| (number % 251) as u8).collect();
    fs::write(at("dir/file"), &content).unwrap();
    assert_eq!(fs::read(at("dir/file")).unwrap(), content);
    let both = fs::File::options().read(true).write(true).open(at("dir/file")).unwrap();
    both.write_all_at(b"in place", 300_000).unwrap();
    let mut append = fs::File::options().append(true).open(at("dir/file")).unwrap();
    append.write_all(b"the end").unwrap();
    let mut found = [0; 7];
    both.read_exact_at(&mut found, 700_000).unwrap();
    assert_eq!((&found, both.metadata().unwrap().len()), (b"the end", 700_007));
    both.set_len(700_003).unwrap();
    assert_eq!(fs::metadata(at("dir/file")).unwrap().len(), 700_003, "also before a flush");
    both.sync_all().unwrap();
    let expected = [&content[..300_000], b"in place", &content[300_008..], b"the"].concat();
    assert_eq!(fs::read(at("dir/file")).unwrap(), expected);
    // Holes.
    let sparse = fs::File::create(at("sparse")).unwrap();
    sparse.write_all_at(b"x", 1 << 30).unwrap();
    sparse.sync_all().unwrap();
    let data = rustix::fs::seek(&sparse, SeekFrom::Data(0)).unwrap();
    assert!(data > 1 << 29 && data <= 1 << 30, "{data}");
    assert!(sparse.metadata().unwrap().blocks() < 2048);
    // Attributes.
    fs::set_permissions(at("dir/file"), fs::Permissions::from_mode(0o4710)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    both.set_modified(time).unwrap();
    rustix::fs::setxattr(at("dir/file"), "user.of", b"a file", XattrFlags::CREATE).unwrap();
    let again = rustix::fs::setxattr(at("dir/file"), "user.of", b"a file", XattrFlags::CREATE);
    assert_eq!(again, Err(Errno::EXIST));
    rustix::fs::setxattr(at("dir/file"), "user.other", b"", XattrFlags::empty()).unwrap();
    rustix::fs::removexattr(at("dir/file"), "user.other").unwrap();
    assert_eq!(rustix::fs::removexattr(at("dir/file"), "user.other"), Err(Errno::NODATA));
    let metadata = fs::metadata(at("dir/file")).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.modified().unwrap()), (0o4710, time));
    // A file that is open without a name.
    let named = fs::File::options().read(true).write(true).create_new(true).open(at("unnamed")).unwrap();
    named.write_all_at(b"kept", 0).unwrap();
    fs::remove_file(at("unnamed")).unwrap();
    named.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    named.write_all_at(&content, 4).unwrap();
    named.sync_all().unwrap();
    named.set_len(10).unwrap();
    let (mut kept, metadata) = ([0; 10], named.metadata().unwrap());
    named.read_exact_at(&mut kept, 0).unwrap();
    assert_eq!((metadata.nlink(), metadata.len(), metadata.mode() & 0o777), (0, 10, 0o600));
    assert_eq!(kept, [&b"kept"[..], &content[..6]].concat()[..]);
    // Renames, with files that are open.
    fs::write(at("other"), "other").unwrap();
    let rename = |from: &str, to: &str, flags| rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags);
    assert_eq!(rename("other", "dir/file", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename("other", "dir", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(at("dir")).unwrap(), b"other");
    both.write_all_at(b"moved", 0).unwrap();
    fs::rename(at("other"), at("moved")).unwrap();
    both.sync_all().unwrap();
    assert_eq!(fs::read(at("moved/file")).unwrap()[..5], *b"moved");
    fs::write(at("replaced"), "new").unwrap();
    fs::rename(at("replaced"), at("dir")).unwrap();
    assert_eq!(fs::read(at("dir")).unwrap(), b"new");
    // Other kinds, and what is refused.
    symlink("moved/file", at("link")).unwrap();
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("moved/file"));
    assert_eq!(fs::metadata(at("link")).unwrap().len(), 700_003);
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, at("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(fs::metadata(at("fifo")).unwrap().file_type().is_fifo());
    assert_eq!(errno(fs::hard_link(at("dir"), at("hard"))), Errno::PERM);
    assert_eq!(errno(fs::create_dir(at("moved"))), Errno::EXIST);
    assert_eq!(errno(fs::remove_dir(at("moved"))), Errno::NOTEMPTY);
    assert_eq!(errno(fs::write(at(&"n".repeat(256)), "")), Errno::NAMETOOLONG);
    assert_eq!(errno(fs::rename(at("moved"), at("moved/below"))), Errno::INVAL);
    fs::remove_file(at("fifo")).unwrap();
    fs::create_dir(at("empty")).unwrap();
    fs::remove_dir(at("empty")).unwrap();
    // A directory that is read again from its start.
    let directory = fs::File::open(at("moved")).unwrap();
    let names = || {
        rustix::fs::seek(&directory, SeekFrom::Start(0)).unwrap();
        let mut room = [std::mem::MaybeUninit::uninit(); 1024];
        let mut entries = rustix::fs::RawDir::new(&directory, &mut room);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            names.push(entry.unwrap().file_name().to_bytes().to_vec());
        }
        names
    };
    assert_eq!(names(), [&b"."[..], b"..", b"file"]);
    fs::write(at("moved/later"), "").unwrap();
    assert_eq!(names(), [&b"."[..], b"..", b"file", b"later"]);
    fs::remove_file(at("moved/later")).unwrap();
    // Changes of files that are open when a signal ends the mount.
    both.write_all_at(b"at last", 0).unwrap();
    assert!(mount.signal(Signal::TERM).success());
    check(&tool);
    assert!(tool.ok(&["fs", "cat", &tool.url("moved/file")]) == [b"at last", &expected[7..]].concat());
    assert_eq!(tool.text(&["fs", "ls", &tool.url("")]), "dir\nlink\nmoved/\nsparse\n");
}

/// A mount whose directory was taken by another one commits its files, and leaves the other one.
#[test]
fn a_mount_unmounts_itself_alone() {
    let tool = Tool::new();
    let Some(mount) = Mount::writable(&tool) else { return };
    let directory = tool.path("mnt");
    let open = fs::File::create(directory.join("file")).unwrap();
    let run = |program: &str, args: &[&OsStr]| Command::new(program).args(args).arg(&directory).output().unwrap();
    assert!(run("umount", &[OsStr::new("--lazy")]).status.success());
    fs::create_dir(tool.path("bound")).unwrap();
    fs::write(tool.path("bound/other"), "").unwrap();
    let bind = run("mount", &[OsStr::new("--bind"), tool.path("bound").as_os_str()]);
    open.write_all_at(b"at last", 0).unwrap();
    assert!(mount.signal(Signal::TERM).success());
    if bind.status.success() {
        assert!(directory.join("other").exists());
        assert!(run("umount", &[]).status.success());
    }
    assert_eq!(errno(open.write_at(b"too late", 0)), Errno::NOTCONN);
    assert_eq!(tool.ok(&["fs", "cat", &tool.url("file")]), b"at last");
}

/// A process that reads a file, or has it open for writing and changes nothing, commits nothing of another one that
/// rewrites it.
#[test]
fn others_do_not_commit_a_rewrite() {
    let tool = Tool::new();
    let Some(mount) = Mount::writable(&tool) else { return };
    let file = tool.path("mnt/file");
    fs::write(&file, "old").unwrap();
    let unused = fs::File::options().write(true).open(&file).unwrap();
    let mut rewrite = fs::File::create(&file).unwrap();
    rewrite.write_all(b"ne").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"ne");
    drop(unused);
    assert!(!mount.signal(Signal::KILL).success());
    drop(rewrite);
    let mount = Mount::start_with(&tool, &[]).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"old");
    assert!(mount.signal(Signal::TERM).success());
}

/// The verbs of `fs` change a store that is mounted for writing, and no other process writes it.
#[test]
fn a_mounted_store_is_changed_beside_the_mount() {
    let tool = Tool::new();
    let Some(mount) = Mount::writable(&tool) else { return };
    let file = tool.path("mnt/file");
    fs::write(&file, "through the mount").unwrap();
    assert_eq!(tool.ok(&["fs", "cat", &tool.url("file")]), b"through the mount");
    fs::write(tool.path("local"), "through the socket").unwrap();
    tool.ok(&["fs", "put", &tool.local("local"), &tool.url("file")]);
    while fs::read_to_string(&file).unwrap() != "through the socket" {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(tool.code(&["put", "key", "value"]), 5);
    fs::create_dir(tool.path("other")).unwrap();
    assert_eq!(tool.code(&["mount", &tool.local("store"), &tool.local("other")]), 5);
    assert!(mount.signal(Signal::INT).success());
    assert!(!tool.path("store/files.sock").exists());
}

/// Sends a request to the process that has mounted the store.
fn send(tool: &Tool, head: &str, body: &str) {
    let mut socket = UnixStream::connect(tool.path("store/files.sock")).unwrap();
    let request = format!("{head}host: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(request.as_bytes()).unwrap();
    let response = io::read_to_string(socket).unwrap();
    assert!(response.starts_with("HTTP/1.1 20"), "{response}");
}

/// The kernel may use a name for a second without asking, and reaches the file that it had: one that is open lives on
/// after it was removed or renamed.
#[test]
fn a_change_beside_the_mount_is_seen_through_it_at_once() {
    let tool = Tool::new();
    let Some(mount) = Mount::writable(&tool) else { return };
    let at = |name: &str| tool.path("mnt").join(name);
    let text = |name: &str| fs::read_to_string(at(name)).unwrap();
    let rename = |from: &str, to: &str| tool.ok(&["fs", "mv", &tool.url(from), &tool.url(to)]);
    ["dir", "left", "tree"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    let names = ["moved", "removed", "replaced", "longer", "dir/file", "left/file", "tree/file"];
    names.iter().for_each(|name| fs::write(at(name), "one").unwrap());
    let handles = names.map(|name| fs::File::open(at(name)).unwrap());
    let [left, tree] = ["left", "tree"].map(|name| fs::File::open(at(name)).unwrap());

    rename("moved", "new");
    fs::write(at("moved"), "two").unwrap();
    assert_eq!([text("moved"), text("new")], ["two", "one"]);

    tool.ok(&["fs", "rm", &tool.url("removed")]);
    fs::write(at("removed"), "two").unwrap();
    assert_eq!(text("removed"), "two");

    fs::write(tool.path("local"), "put").unwrap();
    tool.ok(&["fs", "put", &tool.local("local"), &tool.url("replaced")]);
    fs::File::options().append(true).open(at("replaced")).unwrap().write_all(b"+two").unwrap();
    assert_eq!(text("replaced"), "put+two");

    assert_eq!(text("longer"), "one");
    send(&tool, "POST /longer HTTP/1.1\r\n", "+more");
    assert_eq!((fs::metadata(at("longer")).unwrap().len(), text("longer")), (8, "one+more".to_owned()));
    send(&tool, "PATCH /longer HTTP/1.1\r\nwaxseal-mode: 600\r\n", "");
    assert_eq!(fs::metadata(at("longer")).unwrap().mode() & 0o777, 0o600);

    let changed = || fs::metadata(at("")).unwrap().modified().unwrap();
    let before = changed();
    tool.ok(&["fs", "mkdir", &tool.url("made")]);
    assert_ne!(changed(), before);

    rename("dir", "old");
    rename("left", "dir");
    fs::write(at("dir/file"), "two").unwrap();
    assert_eq!([text("dir/file"), text("old/file")], ["two", "one"]);
    let write = |directory: &fs::File| openat(directory, "file", OFlags::WRONLY | OFlags::TRUNC, Mode::empty());
    fs::File::from(write(&left).unwrap()).write_all(b"of a process in it").unwrap();
    assert_eq!(text("dir/file"), "of a process in it");

    tool.ok(&["fs", "rm", "-r", &tool.url("tree")]);
    assert!(matches!(write(&tree).unwrap_err(), Errno::NOENT | Errno::STALE));
    drop((handles, left, tree));
    assert!(mount.signal(Signal::TERM).success());
    check(&tool);
}

/// Runs a program in the mount. `false` if it is not installed.
fn run(directory: &Path, program: &str, args: &[&str]) -> bool {
    match Command::new(program).args(args).current_dir(directory).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            false
        }
        output => {
            let output = output.unwrap();
            assert!(output.status.success(), "{program} {args:?}: {output:?}");
            true
        }
    }
}

#[test]
fn git_and_sqlite_work_in_a_mount() {
    let tool = Tool::new();
    let Some(mount) = Mount::writable(&tool) else { return };
    let (local, mounted) = (tool.path("local"), tool.path("mnt"));
    fs::create_dir(&local).unwrap();
    let git = |directory: &Path, args: &[&str]| {
        let identity = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main"];
        run(directory, "git", &[&identity, args].concat())
    };
    if git(&local, &["init", "-q"]) {
        for number in 0..100 {
            fs::write(local.join(format!("file-{number}")), format!("{number}\n").repeat(number * 10)).unwrap();
        }
        symlink("file-1", local.join("link")).unwrap();
        git(&local, &["add", "."]);
        git(&local, &["commit", "-q", "-m", "first"]);
        git(&mounted, &["clone", "-q", "--no-local", local.to_str().unwrap(), "clone"]);
        let clone = mounted.join("clone");
        fs::write(clone.join("file-2"), "changed").unwrap();
        git(&clone, &["commit", "-q", "-a", "-m", "second"]);
        git(&clone, &["gc", "-q"]);
        git(&clone, &["fsck", "--strict", "--full"]);
        git(&clone, &["diff", "--exit-code"]);
    }
    let script = "
import sqlite3
for mode in ('delete', 'truncate', 'persist'):
    db = sqlite3.connect('rows.db')
    db.execute('pragma journal_mode=' + mode)
    db.execute('create table if not exists rows (id integer primary key, value blob)')
    for start in range(0, 3000, 1000):
        with db:
            db.executemany('insert or replace into rows values (?, ?)', ((n, bytes(n % 900)) for n in range(start, start + 1000)))
    db.execute('begin'); db.execute('delete from rows'); db.rollback()
    assert db.execute('select count(*), sum(length(value)) from rows').fetchone() == (3000, sum(n % 900 for n in range(3000)))
    db.execute('vacuum')
    assert db.execute('pragma integrity_check').fetchall() == [('ok',)]
    db.close()
import mmap
with open('mapped', 'w+b') as file:
    file.truncate(1 << 20)
    with mmap.mmap(file.fileno(), 0) as mapped:
        mapped[500000:500006] = b'mapped'
        mapped.flush()
assert open('mapped', 'rb').read()[500000:500006] == b'mapped'
";
    run(&mounted, "python3", &["-c", script]);
    assert!(mount.signal(Signal::TERM).success());
    check(&tool);
}

/// The content of a file of the kill test in one of its versions.
fn version(file: usize, number: u64) -> Vec<u8> {
    let length = 200_000 + 100_000 * file + (number as usize * 4099) % 50_000;
    let word = (number * 16 + file as u64).to_le_bytes();
    word.iter().copied().cycle().take(length).collect()
}

/// Writes versions of a file, each with a sync, until the mount has lost its process. Prints each version that was
/// synced.
fn write_until_killed(directory: &Path, file: usize) {
    let path = directory.join(file.to_string());
    let write = |number: u64| -> io::Result<()> {
        let content = version(file, number);
        match file {
            // In place: the ends of both versions differ.
            0 | 1 => {
                let open = fs::File::options().write(true).open(&path)?;
                open.set_len(content.len() as u64)?;
                content.chunks(65_536).enumerate().try_for_each(|(part, bytes)| {
                    open.write_all_at(bytes, part as u64 * 65_536) // a part is smaller than a chunk
                })?;
                open.sync_all()
            }
            // From empty.
            2 => {
                let mut open = fs::File::create(&path)?;
                open.write_all(&content)?;
                open.sync_all()
            }
            // As editors do it.
            _ => {
                let new = directory.join(format!("{file}.new"));
                let mut open = fs::File::create(&new)?;
                open.write_all(&content)?;
                open.sync_all()?;
                fs::rename(&new, &path)?;
                fs::File::open(directory)?.sync_all()
            }
        }
    };
    for number in 1.. {
        if write(number).is_err() {
            return;
        }
        println!("{CONFIRMED}{file} {number}");
    }
}

const WRITTEN: &str = "WAXSEAL_TEST_WRITTEN";

/// Begins a line that names a file and its last version that was synced.
const CONFIRMED: &str = "confirmed ";

/// Not a test of its own: the test below runs it in another process, which starts no process. Tests beside it do, and a
/// descriptor that such a process inherits, and closes, commits what a file has so far.
#[test]
fn child_that_writes_until_the_mount_is_killed() {
    let Some(directory) = std::env::var_os(WRITTEN) else { return };
    let directory = Path::new(&directory);
    std::thread::scope(|scope| {
        (0..4).for_each(|file| drop(scope.spawn(move || write_until_killed(directory, file))));
    });
}

#[test]
fn a_killed_mount_leaves_each_file_old_or_new() {
    let tool = Tool::new();
    let Some(mut mount) = Mount::writable(&tool) else { return };
    let directory = tool.path("mnt");
    for round in 0..3 {
        (0..4).for_each(|file| fs::write(directory.join(file.to_string()), version(file, 0)).unwrap());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "mount::child_that_writes_until_the_mount_is_killed", "--nocapture"])
            .env(WRITTEN, &directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut confirmed = [0; 4];
        let mut next = |confirmed: &mut [u64; 4]| {
            let Some(line) = lines.next() else { return false };
            if let Some((file, number)) = line.unwrap().strip_prefix(CONFIRMED).and_then(|rest| rest.split_once(' ')) {
                confirmed[file.parse::<usize>().unwrap()] = number.parse().unwrap();
            }
            true
        };
        while confirmed.iter().any(|number| *number < 2) {
            assert!(next(&mut confirmed), "the child ended");
        }
        std::thread::sleep(Duration::from_millis(23 * round)); // not always at the same step
        assert!(!mount.signal(Signal::KILL).success());
        while next(&mut confirmed) {}
        assert!(child.wait().unwrap().success());
        check(&tool);
        mount = Mount::start_with(&tool, &[]).unwrap();
        for (file, number) in confirmed.into_iter().enumerate() {
            let found = fs::read(directory.join(file.to_string())).unwrap();
            let is_known = [number, number + 1].into_iter().any(|number| found == version(file, number));
            assert!(is_known, "round {round}, file {file}: {} bytes after version {number}", found.len());
        }
    }
}

#[test]
fn ranges_are_zeroed_through_the_mount() {
    const TERABYTE: u64 = 1 << 40;
    let tool = Tool::new();
    let Some(mount) = Mount::writable(&tool) else { return };
    let at = |name: &str| tool.path("mnt").join(name);
    let run = |arguments: &[&str], name: &str| {
        let done = Command::new("fallocate").args(arguments).arg(at(name)).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    let mut expected: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8 + 1).collect();
    fs::write(at("file"), &expected).unwrap();
    let file = fs::File::options().read(true).write(true).open(at("file")).unwrap();
    assert_eq!(fs::read(at("file")).unwrap(), expected, "pages are cached");
    // Space for more bytes changes nothing that is seen, or extends the file.
    run(&["--keep-size", "--length", "5000000"], "file");
    assert_eq!(file.metadata().unwrap().len(), 1_000_000);
    run(&["--length", "1100000"], "file");
    expected.resize(1_100_000, 0);
    assert_eq!(fs::read(at("file")).unwrap(), expected);
    run(&["--punch-hole", "--offset", "200000", "--length", "500000"], "file");
    expected[200_000..700_000].fill(0);
    assert_eq!(fs::read(at("file")).unwrap(), expected);
    file.sync_all().unwrap();
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap();
    let data = rustix::fs::seek(&file, SeekFrom::Data(hole)).unwrap();
    assert_eq!((hole, data), (1 << 18, 1 << 19)); // the chunk that the range covers
    run(&["--zero-range", "--offset", "900000", "--length", "300000"], "file");
    expected.resize(1_200_000, 0);
    expected[900_000..].fill(0);
    run(&["--zero-range", "--keep-size", "--offset", "0", "--length", "2000000"], "file");
    expected.fill(0);
    assert_eq!(fs::read(at("file")).unwrap(), expected);
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    let refused = [
        FallocateFlags::COLLAPSE_RANGE,
        FallocateFlags::INSERT_RANGE,
        FallocateFlags::UNSHARE_RANGE,
        FallocateFlags::PUNCH_HOLE,
    ];
    for mode in refused {
        assert_eq!(rustix::fs::fallocate(&file, mode, 0, 4096), Err(Errno::OPNOTSUPP), "{mode:?}");
    }
    let reading = fs::File::open(at("file")).unwrap();
    assert_eq!(rustix::fs::fallocate(&reading, FallocateFlags::empty(), 0, 4096), Err(Errno::BADF));
    // A range of any length costs what is stored in it.
    run(&["--length", &TERABYTE.to_string()], "large");
    let large = fs::File::options().read(true).write(true).open(at("large")).unwrap();
    large.write_all_at(b"kept", TERABYTE).unwrap();
    large.write_all_at(b"zeroed", TERABYTE / 2).unwrap();
    run(&["--punch-hole", "--length", &TERABYTE.to_string()], "large");
    let data = rustix::fs::seek(&large, SeekFrom::Data(0)).unwrap();
    assert_eq!((data, large.metadata().unwrap().len()), (TERABYTE, TERABYTE + 4));
    drop((file, reading, large));
    assert!(mount.signal(Signal::TERM).success());
    tool.ok(&["fs", "fsck", &tool.url("")]);
}

/// A user that is not root, and another one.
const USER: u32 = 65534;
const OTHER: u32 = 1;

/// Returns a program that runs another one for a user with these capabilities.
fn as_user(user: u32, capabilities: &[&str]) -> Command {
    let id = user.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    if !capabilities.is_empty() {
        let list = capabilities.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(",");
        command.args(["--inh-caps", &list, "--ambient-caps", &list]);
    }
    command
}

/// Runs shell commands for a user in the mounted directory. Returns what they printed, errors included.
fn shell(tool: &Tool, user: u32, commands: &str) -> String {
    let mut command = as_user(user, &[]);
    let output = command.args(["sh", "-c", &format!("exec 2>&1; cd mnt && {{ {commands}; }}")]);
    String::from_utf8(output.current_dir(tool.path("")).env("LC_ALL", "C").output().unwrap().stdout).unwrap()
}

/// A mount by another user than root. The capabilities stand for `fusermount3`, which has the rights of root.
fn mount_of_user(tool: &Tool, options: &[&str]) -> Option<Mount> {
    let mut command = as_user(USER, &["sys_admin", "dac_override"]);
    command.arg(env!("CARGO_BIN_EXE_waxseal"));
    Mount::spawn(tool, command, options)
}

/// Returns a store of a user, with a file that was made by root.
fn store_of_user(tool: &Tool) {
    tool.with_files(|files| files.write("file", "by root").unwrap());
    fs::create_dir(tool.path("mnt")).unwrap();
    let names = fs::read_dir(tool.path("store")).unwrap().map(|entry| entry.unwrap().path());
    for path in names.chain([tool.path(""), tool.path("store"), tool.path("mnt")]) {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    fs::set_permissions(tool.path(""), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_mount_of_a_user_is_the_users_alone() {
    let tool = Tool::new();
    store_of_user(&tool);
    let Some(mount) = mount_of_user(&tool, &[]) else { return };
    assert_eq!(errno(fs::read_dir(tool.path("mnt"))), Errno::ACCESS, "also for root");
    assert!(shell(&tool, OTHER, "ls").contains("cd: "), "the directory is not entered");
    let commands =
        "cat file; echo own >new; chmod 600 new; mkdir dir; echo more >>file; stat -c ' %u %g %a' file new dir";
    assert_eq!(shell(&tool, USER, commands), "by root 65534 65534 644\n 65534 65534 600\n 65534 65534 755\n");
    assert!(mount.signal(Signal::TERM).success());
    tool.with_files(|files| {
        let new = files.stat("new").unwrap();
        assert_eq!((new.uid, new.gid, new.mode), (USER, USER, 0o600));
        assert_eq!((files.stat("file").unwrap().uid, files.read("file").unwrap()), (0, b"by rootmore\n".to_vec()));
    });
    check(&tool);
}

#[test]
fn the_kernel_checks_permissions_for_other_users() {
    let tool = Tool::new();
    store_of_user(&tool);
    tool.with_files(|files| {
        let of_group = SetAttributes::new().owner(USER, OTHER).mode(0o640);
        files.writer_with("shared", &of_group).unwrap().finish().unwrap();
    });
    let Some(mount) = mount_of_user(&tool, &["--allow-other"]) else { return };
    // Entries of group 0 stay with that group.
    let commands = "stat -c '%u %g' file shared; echo own >new; chmod 600 new; mkdir dir; chmod 777 dir; chown 1 new";
    let said = shell(&tool, USER, commands);
    assert!(said.starts_with("65534 0\n65534 1\nchown: ") && said.contains("Operation not permitted"), "{said}");
    assert_eq!(shell(&tool, OTHER, "cat file shared"), "by root");
    for refused in ["cat new", "echo x >file", "echo x >other", "rm file", "chmod 777 file", "echo x >shared"] {
        let said = shell(&tool, OTHER, refused);
        let is_refused = ["Permission denied", "not permitted"].iter().any(|reason| said.contains(reason));
        assert!(is_refused, "{refused}: {said}");
    }
    assert_eq!(shell(&tool, OTHER, "echo x >dir/other; stat -c '%u %g' dir/other"), "1 1\n");
    assert_eq!(fs::read(tool.path("mnt/new")).unwrap(), b"own\n", "root");
    chown(tool.path("mnt/new"), Some(OTHER), None).unwrap();
    assert_eq!(shell(&tool, OTHER, "cat new"), "own\n");
    assert!(mount.signal(Signal::TERM).success());
    check(&tool);
}

#[test]
fn a_user_without_the_helper_is_told() {
    let tool = Tool::new();
    store_of_user(&tool);
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return;
    }
    let mut command = as_user(USER, &["dac_override"]);
    command.args([OsStr::new(env!("CARGO_BIN_EXE_waxseal")), OsStr::new("mount")]);
    command.args([tool.path("store"), tool.path("mnt")]).env("FUSERMOUNT_PATH", "/absent/fusermount3");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(4) && said.contains("fusermount3, which is not installed"), "{said}");
}
