//! Trees: rename, exchange, remove, copy, measure, find, and what concurrent readers see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waxseal::Db;
use waxseal::env::{Clock, ManualClock};
use waxseal_files::{ErrorKind, Files, MAX_XATTR_BYTES, RenameMode, SetAttributes, XattrMode};

use crate::store::{assert_clean, bytes, fails, memory, paths, small_chunks};

fn plant(fs: &Files, root: &str) {
    fs.create_dir_all(format!("{root}/sub/deep")).unwrap();
    fs.write(format!("{root}/small"), "small").unwrap();
    fs.write(format!("{root}/sub/large"), bytes(20_000, 1)).unwrap();
    fs.write(format!("{root}/sub/deep/sparse"), "").unwrap();
    fs.truncate(format!("{root}/sub/deep/sparse"), 1 << 30).unwrap();
    fs.symlink("small", format!("{root}/link")).unwrap();
    fs.write(format!("{root}!"), "beside").unwrap();
}

#[test]
fn a_tree_is_renamed_with_everything_in_it() {
    let fs = memory();
    plant(&fs, "a");
    let inode = fs.stat("a/sub/large").unwrap().inode;
    fs.mkdir("empty").unwrap();
    fs.rename("a", "empty").unwrap();
    let below = ["", "/link", "/small", "/sub", "/sub/deep", "/sub/deep/sparse", "/sub/large"];
    assert_eq!(paths(&fs, "empty"), below.map(|path| format!("empty{path}")));
    assert_eq!((fs.read("empty/sub/large").unwrap(), fs.read("a!").unwrap()), (bytes(20_000, 1), b"beside".to_vec()));
    assert_eq!(fs.stat("empty/sub/large").unwrap().inode, inode);
    assert!(!fs.exists("a").unwrap());
    fs.mkdir("full").unwrap();
    fs.write("full/file", "").unwrap();
    fails(fs.rename("empty", "full"), ErrorKind::NotEmpty);
    fails(fs.rename("empty", "a!"), ErrorKind::NotDirectory);
    fs.rename("empty", "full/within").unwrap();
    assert_eq!(paths(&fs, "full").len(), 2 + below.len());
    fails(fs.rename("full/within", format!("full/{}", "n/".repeat(20_000))), ErrorKind::NameTooLong);
    assert_clean(&fs);
}

#[test]
fn two_entries_are_exchanged() {
    let fs = memory();
    plant(&fs, "a");
    fs.write("file", "file").unwrap();
    fs.rename_with("a", "file", RenameMode::Exchange).unwrap();
    assert_eq!((fs.read("a").unwrap(), fs.read("file/small").unwrap()), (b"file".to_vec(), b"small".to_vec()));
    fs.mkdir("b").unwrap();
    fs.write("b/other", "other").unwrap();
    let (open, other) = (fs.open("b/other").unwrap(), fs.open("file/small").unwrap());
    fs.rename_with("b", "file", RenameMode::Exchange).unwrap();
    assert_eq!(other.path().unwrap(), b"b/small");
    assert_eq!((paths(&fs, "file").len(), paths(&fs, "b").len()), (2, 7));
    assert_eq!(open.path().unwrap(), b"file/other");
    fs.rename_with("a", "a!", RenameMode::Exchange).unwrap();
    assert_eq!((fs.read("a").unwrap(), fs.read("a!").unwrap()), (b"beside".to_vec(), b"file".to_vec()));
    fails(fs.rename_with("b", "b/sub", RenameMode::Exchange), ErrorKind::Invalid);
    fails(fs.rename_with("b/sub", "b", RenameMode::Exchange), ErrorKind::Invalid);
    drop(open);
    assert_clean(&fs);
}

#[test]
fn a_tree_is_removed_and_its_content_goes() {
    let fs = memory();
    plant(&fs, "a");
    plant(&fs, "b");
    fs.remove_tree("a").unwrap();
    assert_eq!(fs.fsck().unwrap().contents, 2, "of the other tree");
    assert_eq!(fs.read("b/sub/large").unwrap(), bytes(20_000, 1));
    fs.remove_tree("b/small").unwrap();
    fs.remove_tree("b").unwrap();
    assert_eq!(paths(&fs, ""), ["", "a!", "b!"]);
    assert_clean(&fs);
    assert_eq!(fs.fsck().unwrap().chunks, 0);
}

#[test]
fn a_copied_tree_is_equal_and_independent() {
    let fs = memory();
    plant(&fs, "a");
    fs.set_xattr("a/sub", "user.x", "1", XattrMode::Set).unwrap();
    fs.copy_tree("a", "copy").unwrap();
    fs.remove_tree("a").unwrap();
    assert_eq!(paths(&fs, "copy").len(), 7);
    assert_eq!(fs.read("copy/sub/large").unwrap(), bytes(20_000, 1));
    assert_eq!(
        (fs.read_link("copy/link").unwrap(), fs.xattr("copy/sub", "user.x").unwrap()),
        (b"small".to_vec(), b"1".to_vec())
    );
    assert_eq!(fs.stat("copy/sub/deep/sparse").unwrap().allocated, 0);
    fails(fs.copy_tree("copy", "a!"), ErrorKind::Exists);
    fs.set_attributes("copy/sub", &SetAttributes::new().mode(0o750).owner(3, 4).mtime(5)).unwrap();
    fs.copy_dir("copy/sub", "alone").unwrap();
    let alone = fs.stat("alone").unwrap();
    assert_eq!((alone.mode, alone.uid, alone.gid, alone.mtime), (0o750, 3, 4, 5));
    assert_eq!((paths(&fs, "alone").len(), fs.xattr("alone", "user.x").unwrap()), (1, b"1".to_vec()));
    fails(fs.copy_dir("copy/sub", "alone"), ErrorKind::Exists);
    fails(fs.copy_dir("copy/small", "other"), ErrorKind::NotDirectory);
    fails(fs.copy_dir("absent", "other"), ErrorKind::NotFound);
    fs.copy_dir("", "copy/root").unwrap();
    fs.remove_dir("alone").and_then(|()| fs.remove_dir("copy/root")).unwrap();
    fs.copy_tree("copy/sub", "copy/again").unwrap();
    fs.copy_tree("", "copy/all").unwrap();
    assert_eq!(paths(&fs, "copy/all/copy/again").len(), 4);
    assert_clean(&fs);
}

#[test]
fn use_and_names_of_a_tree_are_found() {
    let fs = memory();
    plant(&fs, "a");
    let usage = fs.disk_usage("a").unwrap();
    assert_eq!((usage.files, usage.directories, usage.others), (3, 3, 1));
    assert_eq!((usage.bytes, usage.allocated), (5 + 20_000 + (1 << 30) + 5, 5 * 4096));
    let found = |pattern| -> Vec<Vec<u8>> { fs.find("a", pattern).unwrap().map(|entry| entry.unwrap().path).collect() };
    assert_eq!(found("s*"), [&b"a/small"[..], b"a/sub", b"a/sub/deep/sparse"]);
    assert_eq!(found("[!as]*e*"), [&b"a/sub/deep"[..], b"a/sub/large"]);
    fails(fs.find("absent", "*").map(drop), ErrorKind::NotFound);
}

/// A reader never sees a tree at both paths or at none.
#[test]
fn a_rename_is_one_step_for_readers() {
    let fs = memory();
    fs.mkdir("a").unwrap();
    (0..50).for_each(|n| fs.write(format!("a/{n}"), "content").unwrap());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let snapshot = fs.snapshot();
                    let trees = ["a", "b"].map(|root| snapshot.walk(root).map_or(0, Iterator::count));
                    assert!(trees == [51, 0] || trees == [0, 51], "{trees:?}");
                }
            });
        }
        for _ in 0..30 {
            fs.rename("a", "b").unwrap();
            fs.rename("b", "a").unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_clean(&fs);
}

/// Creations, removals and renames of directories at once: no entry loses its directory.
#[test]
fn concurrent_changes_of_one_tree_leave_a_tree() {
    let fs = memory();
    ["a", "b"].iter().for_each(|name| fs.mkdir(name).unwrap());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let fs = &fs;
            scope.spawn(move || {
                for n in 0..60 {
                    let (here, there) = if (n + worker) % 2 == 0 { ("a", "b") } else { ("b", "a") };
                    let outcomes = [
                        fs.mkdir(format!("{here}/dir{}", n % 3)),
                        fs.write(format!("{here}/dir{}/file", n % 3), bytes(6000, n)),
                        fs.rename(format!("{here}/dir{}", n % 3), format!("{there}/dir{}", (n + 1) % 3)),
                        fs.remove(format!("{there}/dir{}/file", n % 3)),
                        fs.remove_dir(format!("{there}/dir{}", n % 3)),
                    ];
                    for error in outcomes.into_iter().filter_map(Result::err) {
                        let expected = [ErrorKind::NotFound, ErrorKind::Exists, ErrorKind::NotEmpty];
                        assert!(expected.contains(&error.kind()), "{error:?}");
                    }
                }
            });
        }
    });
    assert_clean(&fs);
}

#[test]
fn directories_and_trees_are_read_with_their_content() {
    let fs = memory();
    plant(&fs, "a");
    fs.truncate("a/sub/deep/sparse", 9_000).unwrap();
    fs.write("a/sub/before", bytes(30_000, 4)).unwrap(); // its chunks come behind those of `large`
    fs.write("a/sub/empty", "").unwrap();
    for file in fs.read_tree("a").unwrap() {
        let (entry, content) = file.unwrap();
        assert_eq!(content, fs.read(&entry.path).ok(), "{:?}", entry.path);
    }
    let listed: Vec<_> = fs.read_dir("a/sub").unwrap().map(|file| file.unwrap()).collect();
    let names: Vec<&[u8]> = listed.iter().map(|(entry, _)| &entry.name[..]).collect();
    assert_eq!(names, [&b"before"[..], b"deep", b"empty", b"large"]);
    assert_eq!(
        listed.iter().map(|(_, content)| content.as_ref().map(Vec::len)).collect::<Vec<_>>(),
        [Some(30_000), None, Some(0), Some(20_000)]
    );
    assert_eq!(fs.read_tree("").unwrap().count(), 11);
}

/// A copy gets its extended attributes with its content: there is no time at which it has none, and nothing is left of
/// the file that it replaces.
#[test]
fn a_copy_is_complete_in_one_step() {
    let fs = memory();
    let full = vec![1; MAX_XATTR_BYTES - "user.b".len()];
    for size in [10, 30_000] {
        fs.write("from", bytes(size, 1)).unwrap();
        fs.set_xattr("from", "user.a", "of the source", XattrMode::Set).unwrap();
        fs.write("to", "old").unwrap();
        fs.set_xattr("to", "user.b", &full, XattrMode::Set).unwrap();
        let seqno = fs.db().snapshot().seqno().unwrap();
        fs.copy("from", "to").unwrap();
        assert_eq!((fs.xattrs("to").unwrap(), fs.read("to").unwrap()), (vec![b"user.a".to_vec()], bytes(size, 1)));
        if size == 10 {
            // Two records of one batch: the entry, and the time of the directory if that is not fresh.
            assert!(fs.db().snapshot().seqno().unwrap() <= seqno + 2, "more than one batch");
        }
        fs.remove("to").unwrap();
        fs.remove("from").unwrap();
    }
    fs.mkdir("dir").unwrap();
    fs.set_xattr("dir", "user.c", "1", XattrMode::Set).unwrap();
    fs.symlink("target", "dir/link").unwrap();
    fs.set_xattr("dir/link", "user.d", "2", XattrMode::Set).unwrap();
    fs.copy_tree("dir", "copy").unwrap();
    assert_eq!(
        (fs.xattr("copy", "user.c").unwrap(), fs.xattr("copy/link", "user.d").unwrap()),
        (b"1".into(), b"2".into())
    );
    assert_eq!((fs.read_link("copy/link").unwrap(), fs.stat("copy/link").unwrap().size), (b"target".to_vec(), 6));
    assert_clean(&fs);
}

#[test]
fn contents_are_read_in_pages_of_bounded_files() {
    let fs = memory();
    fs.create_dir_all("dir/sub").unwrap();
    for (name, size) in [("a", 10), ("b", 5_000), ("c", 5_001), ("d", 0)] {
        fs.write(format!("dir/{name}"), bytes(size, 1)).unwrap();
    }
    let read = |files: waxseal_files::ReadDir| -> Vec<(Vec<u8>, Option<usize>)> {
        files.map(|file| file.unwrap()).map(|(entry, content)| (entry.name, content.map(|bytes| bytes.len()))).collect()
    };
    let page = |names: &[(&str, Option<usize>)]| -> Vec<(Vec<u8>, Option<usize>)> {
        names.iter().map(|(name, length)| (name.as_bytes().to_vec(), *length)).collect()
    };
    assert_eq!(
        read(fs.read_dir_after("dir", "b").unwrap()),
        page(&[("c", Some(5_001)), ("d", Some(0)), ("sub", None)])
    );
    let bounded = fs.read_dir_after("dir", "a").unwrap().max_file_bytes(5_000);
    assert_eq!(read(bounded), page(&[("b", Some(5_000)), ("c", None), ("d", Some(0)), ("sub", None)]));
    fails(fs.read_dir_after("dir", "a/b").map(drop), ErrorKind::Invalid);
    let tree = fs.read_tree("dir").unwrap().max_file_bytes(10);
    assert_eq!(tree.filter(|file| file.as_ref().unwrap().1.is_some()).count(), 2);
}

/// The clock stands still until the traversal sleeps.
#[test]
fn a_traversal_has_a_pace() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let db = Db::builder(dir.path()).clock(clock.clone()).open().unwrap();
    let fs = small_chunks(&db);
    fs.create_dir_all("dir/sub").unwrap();
    for (name, size) in [("a", 40_000), ("b", 500), ("sub/c", 9_500)] {
        fs.write(format!("dir/{name}"), bytes(size, 1)).unwrap();
    }
    let taken = |read: &dyn Fn() -> usize| {
        let start = clock.monotonic_nanos();
        (read(), (clock.monotonic_nanos() - start) / 1_000_000)
    };
    let tree = |rate| fs.read_tree("dir").unwrap().bytes_per_second(rate).map(Result::unwrap).count();
    let directory = |rate| fs.read_dir("dir").unwrap().bytes_per_second(rate).map(Result::unwrap).count();
    assert_eq!(taken(&|| tree(100_000)), (5, 500));
    assert_eq!(taken(&|| directory(100_000)), (3, 405));
    assert_eq!((taken(&|| tree(0)), taken(&|| directory(0))), ((5, 0), (3, 0)));
    db.close().unwrap();
}
