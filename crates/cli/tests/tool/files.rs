//! `waxseal fs`: what a transcript cannot show.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use waxseal::Db;
use waxseal_files::{FileKind, FileStore, SetAttributes, XattrMode};

use crate::Tool;

impl Tool {
    /// Returns the URL of a path in the store.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("waxseal://{}/{path}", self.path("store").display())
    }

    pub(crate) fn local(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn with_files(&self, act: impl FnOnce(&FileStore)) {
        let db = Db::open(self.path("store")).unwrap();
        act(&FileStore::open(&db, "files").unwrap());
        db.close().unwrap();
    }
}

/// Links below the destination lead elsewhere: nothing is written, read or removed there.
#[test]
fn no_link_below_the_destination_is_followed() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.create_dir_all("tree/sub").unwrap();
        files.write("tree/file", "new").unwrap();
        files.write("tree/sub/file", "new").unwrap();
    });
    let (outside, dest) = (tool.path("outside"), tool.path("dest"));
    fs::create_dir_all(outside.join("kept")).unwrap();
    fs::write(outside.join("file"), "old").unwrap();
    fs::create_dir_all(dest.join("tree")).unwrap();
    symlink(&outside, dest.join("tree/sub")).unwrap();
    symlink(outside.join("file"), dest.join("tree/file")).unwrap();
    assert_eq!(tool.code(&["fs", "get", &tool.url("tree"), &tool.local("dest")]), 6);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"old");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    let sync = ["fs", "sync", "--delete", &tool.url("tree"), &tool.local("dest/tree")];
    tool.ok(&sync);
    assert!(outside.join("kept").exists() && fs::read(outside.join("file")).unwrap() == b"old");
    assert!(fs::symlink_metadata(dest.join("tree/sub")).unwrap().is_dir());
    assert_eq!(fs::read(dest.join("tree/sub/file")).unwrap(), b"new");
    assert!(!fs::symlink_metadata(dest.join("tree/file")).unwrap().is_symlink());
    // A source is not left either.
    symlink("/etc", dest.join("tree/etc")).unwrap();
    tool.ok(&["fs", "put", &tool.local("dest/tree"), &tool.url("copied")]);
    tool.with_files(|files| assert_eq!(files.read_link("copied/etc").unwrap(), b"/etc"));
    // `-d` names no store for `fs`: the user may mean the tree of the store.
    assert_eq!(tool.code(&["fs", "rm", "-r", &tool.local("dest/tree")]), 1);
    assert!(dest.join("tree").exists());
    let mut without_dir = Command::new(env!("CARGO_BIN_EXE_waxseal"));
    let removed = without_dir.args(["fs", "rm", "-r", &tool.local("dest/tree")]).env("WAXSEAL_DIR", tool.path("store"));
    assert!(removed.status().unwrap().success());
    assert!(!dest.join("tree").exists());
    assert!(Path::new("/etc").exists() && outside.join("kept").exists());
}

/// A compaction frees the space of removed files. No other verb has to open them before.
#[test]
fn a_removed_file_gives_its_space_back() {
    let tool = Tool::new();
    // Compression does not shorten it.
    let mut state = 1u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    fs::write(tool.path("local"), noise.take(6 << 20).collect::<Vec<u8>>()).unwrap();
    let value_bytes = || {
        let entries = fs::read_dir(tool.path("store")).unwrap().map(|entry| entry.unwrap());
        let values = entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "val"));
        values.map(|entry| entry.metadata().unwrap().len()).sum::<u64>()
    };
    tool.ok(&["fs", "put", &tool.local("local"), &tool.url("file")]);
    assert!(value_bytes() > 6 << 20);
    tool.ok(&["fs", "rm", &tool.url("file")]);
    tool.ok(&["--cf", "files-chunks", "compact"]);
    assert_eq!(value_bytes(), 0);
}

/// Damage is an exit code and a message; what is whole is copied.
#[test]
fn damaged_files_are_reported_and_the_others_copied() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.mkdir("tree").unwrap();
        for name in ["a", "b", "c"] {
            files.write(format!("tree/{name}"), vec![name.as_bytes()[0]; 300_000]).unwrap();
        }
        let chunks = files.db().column_family("files-chunks").unwrap();
        let keys: Vec<_> = chunks.range("c".."d").keys().map(Result::unwrap).collect();
        assert_eq!(keys.len(), 6);
        chunks.delete(&keys[3]).unwrap();
        files.db().column_family("files").unwrap().put("tree\0d", [1, 1]).unwrap();
    });
    let output = tool.run(&["--json", "fs", "get", &tool.url("tree"), &tool.local("out")]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &object["files"], &object["failed"]),
        (Some(3), &2.into(), &2.into()),
        "{object}"
    );
    let mut names: Vec<_> = fs::read_dir(tool.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(), [b"a", b"c"], "no part of a file");
    let output = tool.run(&["--json", "dump", &tool.local("dumped")]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed: Vec<_> = object["failed"].as_array().unwrap().iter().map(|left| &left["path"]["text"]).collect();
    assert_eq!(
        (output.status.code(), &object["ok"], &object["files"]),
        (Some(3), &false.into(), &2.into()),
        "{object}"
    );
    assert_eq!(failed, ["tree/b", "tree/d"], "{object}");
    assert_eq!(fs::read_dir(tool.path("dumped/tree")).unwrap().count(), 2);
    assert_eq!(tool.code(&["fs", "cat", &tool.url("tree/b")]), 3);
    let listed = tool.run(&["fs", "ls", &tool.url("tree")]);
    assert_eq!((listed.status.code(), &listed.stdout[..]), (Some(3), &b"a\nb\nc\n"[..]));
    for verb in ["verify", "fsck"] {
        let path = if verb == "verify" { "tree" } else { "" };
        let output = tool.run(&["--json", "fs", verb, &tool.url(path)]);
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), &object["faults"], &object["ok"]),
            (Some(3), &2.into(), &false.into()),
            "{verb}"
        );
    }
    // A damaged source removes nothing from a copy that is whole.
    fs::write(tool.path("out/b"), vec![b'b'; 300_000]).unwrap();
    fs::write(tool.path("out/d"), "whole").unwrap();
    assert_eq!(tool.code(&["fs", "sync", "--delete", &tool.url("tree"), &tool.local("out")]), 3);
    assert!(
        fs::read(tool.path("out/d")).unwrap() == b"whole" && fs::metadata(tool.path("out/b")).unwrap().len() == 300_000
    );
}

/// A store in use is read by every verb, and written by none; the writer's name is in the log.
#[test]
fn a_store_in_use_is_read() {
    let tool = Tool::new();
    let db = Db::open(tool.path("store")).unwrap();
    let files = FileStore::open(&db, "files").unwrap();
    files.write("file", "content").unwrap();
    db.sync().unwrap();
    assert_eq!(tool.ok(&["fs", "cat", &tool.url("file")]), b"content");
    assert_eq!(tool.code(&["fs", "rm", &tool.url("file")]), 5);
    assert_eq!(tool.code(&["fs", "newfile", &tool.url("new")]), 5);
    assert_eq!(tool.text(&["fs", "sync", "--dry-run", &tool.url("file"), &tool.url("other")]).lines().count(), 2);
    drop((files, db));
    tool.ok(&["register", "files", "File.Create"]);
    tool.ok(&["--as", "alice", "fs", "newfile", &tool.url("new")]);
    assert!(tool.text(&["log", "files", "File.Create"]).contains("alice"));
}

/// Names are any bytes, on the command line and in local directories.
#[test]
fn names_of_any_bytes_are_copied() {
    let tool = Tool::new();
    let names = [&b"line\nbreak"[..], b"\xff\xfe", b"-dash", b"a b'c\"", b"x_$1"];
    fs::create_dir(tool.path("src")).unwrap();
    for name in names {
        fs::write(tool.path("src").join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    tool.ok(&["fs", "put", &tool.local("src"), &tool.url("dest")]);
    tool.with_files(|files| {
        for name in names {
            assert_eq!(files.read([b"dest/", name].concat()).unwrap(), name);
        }
    });
    tool.ok(&["fs", "get", &tool.url("dest"), &tool.local("out")]);
    for name in names {
        assert_eq!(fs::read(tool.path("out").join(std::ffi::OsStr::from_bytes(name))).unwrap(), name);
    }
}

/// A file or a link is no tree: the destination keeps what it has.
#[test]
fn a_sync_of_a_file_does_not_empty_a_directory() {
    let tool = Tool::new();
    fs::create_dir(tool.path("dest")).unwrap();
    fs::write(tool.path("dest/kept"), "kept").unwrap();
    fs::write(tool.path("file"), "file").unwrap();
    tool.with_files(|files| {
        files.write("file", "file").unwrap();
        files.mkdir("dir").unwrap();
        files.write("dir/kept", "kept").unwrap();
    });
    let sync = |src: &str, dest: &str| tool.code(&["fs", "sync", "--delete", src, dest]);
    assert_eq!(sync(&tool.url("file"), &tool.local("dest")), 1);
    assert_eq!(sync(&tool.local("file"), &tool.url("dir")), 1);
    assert_eq!(sync(&tool.local("dest"), &tool.url("file")), 1);
    assert_eq!(fs::read(tool.path("dest/kept")).unwrap(), b"kept");
    tool.with_files(|files| {
        assert_eq!(files.read("dir/kept").unwrap(), b"kept");
        assert_eq!(files.read("file").unwrap(), b"file");
    });
}

/// A store is no part of what is copied from it or into it.
#[test]
fn a_store_and_a_directory_that_overlap_are_refused() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.mkdir("tree").unwrap();
        files.write("tree/file", "content").unwrap();
        files.mkdir("store").unwrap();
        files.write("store/CURRENT", "no store").unwrap();
    });
    symlink(tool.path(""), tool.path("alias")).unwrap();
    for [verb, src, dest] in [
        ["sync", &tool.url("tree"), &tool.local("")],
        ["sync", &tool.url("tree"), &tool.local("alias")],
        ["sync", &tool.local("store"), &tool.url("new")],
        ["put", &tool.local(""), &tool.url("")],
        ["put", &tool.local("alias/store"), &tool.url("copy")],
        ["put", &tool.local(""), &format!("waxseal://{}", tool.local("alias/new"))],
        ["get", &tool.url("store"), &tool.local("")],
        ["get", &tool.url("tree"), &tool.local("store/new")],
    ] {
        assert_eq!(tool.code(&["fs", verb, src, dest]), 1, "{verb} {src} {dest}");
    }
    assert_eq!(tool.code(&["fs", "sync", "--delete", &tool.url("tree"), &tool.local("")]), 1);
    assert!(!tool.path("new").exists());
    tool.ok(&["fs", "get", &tool.url("tree"), &tool.local("")]); // beside the store
    assert_eq!(fs::read(tool.path("tree/file")).unwrap(), b"content");
}

/// `--delete` removes an entry once the one that replaces it is at hand.
#[test]
fn a_sync_keeps_what_it_cannot_replace() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.mkdir("tree").unwrap();
        files.create_node("tree/a", FileKind::Fifo, &SetAttributes::new()).unwrap();
        files.write("tree/b", vec![1; 300_000]).unwrap();
        let chunks = files.db().column_family("files-chunks").unwrap();
        let keys: Vec<_> = chunks.range("c".."d").keys().map(Result::unwrap).collect();
        chunks.delete(&keys[1]).unwrap();
    });
    for name in ["a", "b"] {
        fs::create_dir_all(tool.path("dest").join(name)).unwrap();
        fs::write(tool.path("dest").join(name).join("kept"), "kept").unwrap();
    }
    assert_eq!(tool.code(&["fs", "sync", "--delete", &tool.url("tree"), &tool.local("dest")]), 3);
    for name in ["a", "b"] {
        assert_eq!(fs::read(tool.path("dest").join(name).join("kept")).unwrap(), b"kept", "{name}");
    }
}

/// The mode of a directory that was not copied is not asked for.
#[test]
fn a_sync_sets_the_modes_of_its_own_directories() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.create_dir_all("tree/a").unwrap();
        files.write("tree/b", "b").unwrap();
    });
    fs::create_dir(tool.path("dest")).unwrap();
    fs::write(tool.path("dest/a"), "a").unwrap();
    fs::set_permissions(tool.path("dest/a"), Permissions::from_mode(0o600)).unwrap();
    let output = tool.run(&["--json", "fs", "sync", &tool.url("tree"), &tool.local("dest")]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(fs::metadata(tool.path("dest/a")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(tool.path("dest/b")).unwrap(), b"b");
}

/// A failure of the device ends a copy. The files before it are complete, and the tool says so.
#[test]
fn a_copy_that_ends_early_is_completed_and_printed() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.mkdir_with("tree", &SetAttributes::new().mode(0o500)).unwrap();
        files.write("tree/a", "a").unwrap();
        files.write("tree/b", vec![1; 300_000]).unwrap();
    });
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    for verb in ["get", "sync"] {
        let dest = tool.path(verb);
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_waxseal"), "fs", verb]);
        let output = command.arg(tool.url("tree")).arg(&dest).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(4), "{printed}");
        assert!(printed.starts_with("copied 1 file, 1 directory"), "{printed}");
        assert_eq!(fs::metadata(&dest).unwrap().permissions().mode() & 0o777, 0o500);
        let names: Vec<_> = fs::read_dir(&dest).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"], "no part of a file");
        fs::set_permissions(&dest, Permissions::from_mode(0o700)).unwrap();
    }
}

/// Chunks that are whole, but not those of the entry.
#[test]
fn a_copy_has_the_digest_of_its_entry() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.mkdir("tree").unwrap();
        files.write("tree/a", vec![1; 300_000]).unwrap();
        files.write("tree/b", "b").unwrap();
        files.write("tree/c", vec![3; 400_000]).unwrap();
        let chunks = files.db().column_family("files-chunks").unwrap();
        let keys: Vec<_> = chunks.range("c".."d").keys().map(Result::unwrap).collect();
        let other = chunks.get(&keys[1]).unwrap().unwrap();
        chunks.put(&keys[0], other.iter().map(|byte| byte ^ 8).collect::<Vec<_>>()).unwrap();
    });
    for (verb, name) in [("get", "got"), ("sync", "synced")] {
        assert_eq!(tool.code(&["fs", verb, &tool.url("tree"), &tool.local(name)]), 3);
        let dest = tool.path(name);
        assert!(!dest.join("a").exists() && fs::metadata(dest.join("c")).unwrap().len() == 400_000);
        assert_eq!(fs::read(dest.join("b")).unwrap(), b"b");
    }
}

/// A terabyte of nothing is copied at once, and takes no space.
#[test]
fn holes_stay_holes() {
    const SIZE: u64 = 1 << 40;
    let tool = Tool::new();
    let is_sparse = |name: &str| {
        let file = fs::File::open(tool.path(name)).unwrap();
        let (mut first, mut last) = ([0; 6], [0; 6]);
        file.read_exact_at(&mut first, 0).unwrap();
        file.read_exact_at(&mut last, SIZE / 2).unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!((&first, &last, metadata.len()), (b"first\0", b"last\0\0", SIZE), "{name}");
        assert!(metadata.blocks() * 512 < 10 << 20, "{name}: {} blocks", metadata.blocks());
    };
    let file = fs::File::create(tool.path("sparse")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.write_all_at(b"last", SIZE / 2).unwrap();
    file.set_len(SIZE).unwrap();
    is_sparse("sparse");
    tool.ok(&["fs", "put", &tool.local("sparse"), &tool.url("sparse")]);
    tool.ok(&["fs", "cp", &tool.url("sparse"), &tool.url("copy")]);
    tool.ok(&["fs", "get", &tool.url("copy"), &tool.local("back")]);
    is_sparse("back");
    let other = format!("waxseal://{}/other", tool.path("second").display());
    tool.ok(&["fs", "cp", &tool.url("copy"), &other]);
    for url in [&tool.url("copy"), &other] {
        assert_eq!(tool.json(&["fs", "stat", url])["allocated"], 2 * 256 * 1024, "{url}");
        assert!(tool.text(&["fs", "sync", &tool.local("sparse"), url]).starts_with("copied 0 files"), "{url}");
    }
}

/// The system ends the tool in the middle of a file, as any signal does.
#[test]
fn a_copy_that_is_killed_leaves_no_part_of_a_file() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("large", vec![1; 300_000]).unwrap());
    fs::create_dir(tool.path("dest")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0; ulimit -f 16; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_waxseal"), "fs", "get"]);
    let output = command.arg(tool.url("large")).arg(tool.path("dest")).output().unwrap();
    assert!(output.status.signal().is_some(), "{output:?}");
    assert_eq!(fs::read_dir(tool.path("dest")).unwrap().count(), 0);
}

#[test]
fn what_ended_copies_left_is_removed_by_the_next_one() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.create_dir_all("tree/sub").unwrap();
        files.write("tree/sub/file", "content").unwrap();
    });
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let dest = tool.path("dest/tree/sub");
    fs::create_dir_all(&dest).unwrap();
    let left = |process: u32, number: u32| format!(".waxseal-{process}-{number}");
    let kept = [left(std::process::id(), 0), left(ended.id(), 2), ".waxseal-notes".to_owned(), "file".to_owned()];
    for name in [&left(ended.id(), 0), &left(ended.id(), 1)].into_iter().chain(&kept[..3]) {
        fs::write(dest.join(name), "part").unwrap();
    }
    let running = fs::File::open(dest.join(&kept[1])).unwrap();
    running.lock().unwrap(); // a process of that number in another container
    tool.ok(&["fs", "get", &tool.url("tree"), &tool.local("dest")]);
    let mut names: Vec<_> = fs::read_dir(&dest).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let mut kept = kept.map(std::ffi::OsString::from);
    kept.sort();
    assert_eq!(names, kept);
}

/// The unit test of `files::temporary` shows that it is there meanwhile.
#[test]
fn a_changed_link_is_replaced() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.mkdir("tree").unwrap();
        files.symlink("new", "tree/link").unwrap();
    });
    fs::create_dir(tool.path("tree")).unwrap();
    symlink("old", tool.path("tree/link")).unwrap();
    let before = fs::symlink_metadata(tool.path("tree/link")).unwrap().ino();
    tool.ok(&["fs", "get", &tool.url("tree"), &tool.local("")]);
    assert_eq!(fs::read_link(tool.path("tree/link")).unwrap().as_os_str(), "new");
    assert_ne!(fs::symlink_metadata(tool.path("tree/link")).unwrap().ino(), before);
    assert_eq!(fs::read_dir(tool.path("tree")).unwrap().count(), 1, "no temporary link stays");
    fs::remove_file(tool.path("tree/link")).unwrap();
    symlink("newer", tool.path("tree/link")).unwrap();
    tool.ok(&["fs", "put", &tool.local("tree"), &tool.url("")]);
    tool.with_files(|files| assert_eq!(files.read_link("tree/link").unwrap(), b"newer"));
}

#[test]
fn a_copy_into_a_directory_that_is_missing_is_not_found() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("file", "content").unwrap());
    fs::create_dir(tool.path("dir")).unwrap();
    fs::write(tool.path("dir/file"), "content").unwrap();
    let new = format!("waxseal://{}", tool.path("new").display());
    for src in ["dir", "dir/file"] {
        for verb in ["put", "cp", "sync"] {
            let code = |dest: &str| tool.code(&["fs", verb, &tool.local(src), dest]);
            assert_eq!(code(&tool.url("absent/copy")), 2, "{verb} {src}");
            assert_eq!(code(&tool.url("file/copy")), 1, "{verb} {src}");
            assert_eq!(code(&format!("{new}/absent/copy")), 2, "{verb} {src}");
        }
    }
    assert_eq!(tool.code(&["fs", "put", "-", &format!("{new}/absent/copy")]), 2);
    assert!(!tool.path("new").exists(), "no store is made for nothing");
    assert_eq!(tool.code(&["fs", "get", &tool.url("file"), &tool.local("absent/copy")]), 2);
    assert_eq!(tool.code(&["fs", "get", &tool.url("file"), &tool.local("dir/file/copy")]), 1);
}

#[test]
fn extended_attributes_of_users_are_copied() {
    let tool = Tool::new();
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    let get = |name: &str, xattr: &str| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::getxattr(tool.path(name), xattr, &mut value[..]);
        length.map(|length| value[..length].to_vec())
    };
    fs::create_dir(tool.path("tree")).unwrap();
    fs::write(tool.path("tree/file"), "content").unwrap();
    set(&tool.path("tree"), "user.of", b"a directory");
    set(&tool.path("tree/file"), "user.of", b"a file\0\xff");
    tool.ok(&["fs", "put", &tool.local("tree"), &tool.url("")]);
    tool.with_files(|files| {
        assert_eq!(files.xattr("tree", "user.of").unwrap(), b"a directory");
        assert_eq!(files.xattrs("tree/file").unwrap(), [b"user.of"]);
    });
    tool.ok(&["fs", "cp", &tool.url("tree"), &tool.url("copy")]);
    tool.ok(&["fs", "get", &tool.url("copy"), &tool.local("back")]);
    // `sync` copies attributes of equal contents.
    set(&tool.path("back"), "user.of", b"old");
    set(&tool.path("back/file"), "user.of", b"old");
    set(&tool.path("back/file"), "user.own", b"1");
    let sync = ["fs", "sync", "--dry-run", &tool.url("copy"), &tool.local("back")];
    assert_eq!(tool.text(&sync).matches("attributes ").count(), 2);
    assert_eq!(get("back", "user.of").unwrap(), b"old");
    tool.ok(&["fs", "sync", &tool.url("copy"), &tool.local("back")]);
    assert_eq!(get("back/file", "user.own").unwrap(), b"1");
    assert!(!tool.text(&sync).contains("attributes "));
    assert_eq!(
        (get("back", "user.of").unwrap(), get("back/file", "user.of").unwrap()),
        (b"a directory".to_vec(), b"a file\0\xff".to_vec())
    );
    // More than an entry holds: what fits is copied, and the rest is named.
    set(&tool.path("tree/file"), "user.large", &[7; 2030]);
    let output = tool.run(&["fs", "put", &tool.local("tree"), &tool.url("")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(6) && said.contains("attributes user.of: ") && said.contains("tree/file"),
        "{said}"
    );
    tool.with_files(|files| {
        assert_eq!(files.xattr("tree/file", "user.large").unwrap(), [7; 2030]);
        // The names of a local system are those of its own.
        files.set_xattr("copy/file", "checksum", "1", XattrMode::Set).unwrap();
        files.symlink("file", "copy/link").unwrap();
        files.set_xattr("copy/link", "user.of", "a link", XattrMode::Set).unwrap();
    });
    let output = tool.run(&["fs", "get", &tool.url("copy"), &tool.local("again")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("attributes checksum: ")
            && said.contains("attributes user.of: ")
            && output.status.code() == Some(6),
        "{said}"
    );
    assert!(get("again/file", "user.of").is_ok() && fs::read_link(tool.path("again/link")).is_ok());
}

/// Attributes and content of a copy are those of one file, which is opened once.
#[test]
#[cfg(target_os = "linux")]
fn each_file_is_opened_once() {
    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
    let tool = Tool::new();
    fs::create_dir(tool.path("tree")).unwrap();
    for name in ["small", "large", "plain"] {
        fs::write(tool.path("tree").join(name), vec![7; if name == "large" { 3 << 20 } else { 10 }]).unwrap();
    }
    for name in ["small", "large"] {
        rustix::fs::setxattr(tool.path("tree").join(name), "user.of", b"a", rustix::fs::XattrFlags::empty()).unwrap();
    }
    let opens = |arguments: &[&str]| {
        let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
        // Each open is an event of its own, because a close is between two.
        inotify::add_watch(&watch, tool.path("tree"), WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE).unwrap();
        tool.ok(arguments);
        let mut room = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&watch, &mut room);
        let mut names = Vec::new();
        while let Ok(event) = events.next() {
            if let (true, Some(name)) = (event.events().contains(inotify::ReadFlags::OPEN), event.file_name()) {
                names.push(name.to_str().unwrap().to_owned());
            }
        }
        names.sort();
        names
    };
    assert_eq!(opens(&["load", &tool.local("tree")]), ["large", "plain", "small"]);
    tool.with_files(|files| assert_eq!(files.xattr("large", "user.of").unwrap(), b"a"));
    assert_eq!(opens(&["fs", "put", &tool.local("tree"), &tool.url("copy")]), ["large", "plain", "small"]);
    assert_eq!(opens(&["fs", "sync", &tool.local("tree"), &tool.url("copy")]), ["large", "plain", "small"]);
}
