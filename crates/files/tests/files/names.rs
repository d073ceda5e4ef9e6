//! Single paths: create, remove, attributes, lists, and the errors of POSIX.

use waxseal_files::{ErrorKind, FileKind, MAX_XATTR_BYTES, RenameMode, SetAttributes, XattrMode};

use crate::store::{assert_clean, bytes, fails, memory, names};

#[test]
fn errors_are_those_of_posix() {
    let fs = memory();
    fs.mkdir("dir").unwrap();
    fs.write("dir/file", "content").unwrap();
    fs.symlink("file", "dir/link").unwrap();
    fs.create_dir_all("deep/sub").unwrap();
    fs.write("deep/sub/file", "content").unwrap();
    let cases = [
        (fs.read("absent").err(), ErrorKind::NotFound),
        (fs.read("absent/below").err(), ErrorKind::NotFound),
        (fs.read("dir/file/below").err(), ErrorKind::NotDirectory),
        (fs.read("dir/link/below").err(), ErrorKind::NotDirectory),
        (fs.read("dir").err(), ErrorKind::IsDirectory),
        (fs.read("").err(), ErrorKind::IsDirectory),
        (fs.read("dir/link").err(), ErrorKind::SymbolicLink),
        (fs.open("dir/link").err(), ErrorKind::SymbolicLink),
        (fs.write("dir", "").err(), ErrorKind::IsDirectory),
        (fs.write("", "").err(), ErrorKind::IsDirectory),
        (fs.write("absent/file", "").err(), ErrorKind::NotFound),
        (fs.write("dir/file/below", "").err(), ErrorKind::NotDirectory),
        (fs.mkdir("dir").err(), ErrorKind::Exists),
        (fs.mkdir("").err(), ErrorKind::Exists),
        (fs.mkdir("absent/dir").err(), ErrorKind::NotFound),
        (fs.create_dir_all("dir/file/x").err(), ErrorKind::NotDirectory),
        (fs.create_dir_all("dir/file").err(), ErrorKind::Exists),
        (fs.symlink("", "l").err(), ErrorKind::Invalid),
        (fs.symlink("x".repeat(4096), "l").err(), ErrorKind::NameTooLong),
        (fs.replace_symlink("", "l", &SetAttributes::new()).err(), ErrorKind::Invalid),
        (fs.replace_symlink("x", "dir/file", &SetAttributes::new()).err(), ErrorKind::Exists),
        (fs.replace_symlink("x", "", &SetAttributes::new()).err(), ErrorKind::Exists),
        (fs.replace_symlink("x", "absent/l", &SetAttributes::new()).err(), ErrorKind::NotFound),
        (fs.remove("dir").err(), ErrorKind::IsDirectory),
        (fs.remove("absent").err(), ErrorKind::NotFound),
        (fs.remove("").err(), ErrorKind::Busy),
        (fs.remove_dir("dir").err(), ErrorKind::NotEmpty),
        (fs.remove_dir("dir/file").err(), ErrorKind::NotDirectory),
        (fs.remove_dir("").err(), ErrorKind::Busy),
        (fs.remove_tree("").err(), ErrorKind::Busy),
        (fs.remove_tree("absent").err(), ErrorKind::NotFound),
        (fs.rename("absent", "x").err(), ErrorKind::NotFound),
        (fs.rename("dir", "dir/below").err(), ErrorKind::Invalid),
        (fs.rename("dir/file", "dir").err(), ErrorKind::NotEmpty),
        (fs.rename("dir/file", "deep").err(), ErrorKind::IsDirectory),
        (fs.rename("dir", "dir/file").err(), ErrorKind::Invalid),
        (fs.rename("dir/file", "absent/x").err(), ErrorKind::NotFound),
        (fs.rename("absent", "absent/below").err(), ErrorKind::NotFound),
        (fs.rename("dir/file", "dir/file/below").err(), ErrorKind::NotDirectory),
        (fs.rename("dir", "dir/absent/below").err(), ErrorKind::NotFound),
        (fs.rename("deep/sub/file", "deep").err(), ErrorKind::NotEmpty),
        (fs.rename("deep/sub", "deep").err(), ErrorKind::NotEmpty),
        (fs.rename_with("deep/absent", "deep", RenameMode::Exchange).err(), ErrorKind::NotFound),
        (fs.rename("", "x").err(), ErrorKind::Busy),
        (fs.rename_with("dir/file", "dir/link", RenameMode::NoReplace).err(), ErrorKind::Exists),
        (fs.rename_with("dir/file", "dir/absent", RenameMode::Exchange).err(), ErrorKind::NotFound),
        (fs.read_link("dir/file").err(), ErrorKind::Invalid),
        (fs.list("dir/file").err(), ErrorKind::NotDirectory),
        (fs.xattr("dir", "user.x").err(), ErrorKind::NoAttribute),
        (fs.remove_xattr("dir", "user.x").err(), ErrorKind::NoAttribute),
        (fs.set_attributes("dir", &SetAttributes::new().mode(0o10000)).err(), ErrorKind::Invalid),
        (fs.create_node("n", FileKind::Directory, &SetAttributes::new()).err(), ErrorKind::Invalid),
        (fs.read("a/../b").err(), ErrorKind::Invalid),
    ];
    for (number, (error, kind)) in cases.into_iter().enumerate() {
        assert_eq!(error.map(|error| error.kind()), Some(kind), "case {number}");
    }
    assert_eq!(names(&fs, "dir"), ["file", "link"]);
    assert_clean(&fs);
}

#[test]
fn names_are_any_bytes_and_sort_by_component() {
    let fs = memory();
    let odd: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    fs.mkdir("a").unwrap();
    fs.write([&b"a/"[..], &odd[..200]].concat(), "odd").unwrap();
    for name in ["a!", "a\u{1}", "b", "x_$1", "x"] {
        fs.write(name, name).unwrap();
    }
    assert_eq!(names(&fs, ""), ["a", "a\u{1}", "a!", "b", "x", "x_$1"]);
    assert_eq!(fs.list("a").unwrap().next().unwrap().unwrap().name, &odd[..200]);
    assert_clean(&fs);
}

#[test]
fn a_large_file_beside_a_name_that_looks_like_its_chunk() {
    let fs = memory();
    fs.write("x", bytes(20_000, 1)).unwrap();
    fs.write("x_$1", "another").unwrap();
    assert_eq!(fs.read("x").unwrap(), bytes(20_000, 1));
    fs.remove("x").unwrap();
    assert_clean(&fs);
    assert_eq!(fs.read("x_$1").unwrap(), b"another");
}

#[test]
fn lists_are_pages_of_one_directory() {
    let fs = memory();
    for n in 0..7 {
        fs.mkdir(format!("{n}")).unwrap();
        fs.write(format!("{n}/below"), "").unwrap();
        fs.write(format!("{n}."), "").unwrap();
    }
    let mut after = Vec::new();
    let mut seen = Vec::new();
    loop {
        let page: Vec<_> = fs.list_after("", &after).unwrap().take(3).map(|entry| entry.unwrap().name).collect();
        let Some(last) = page.last() else { break };
        after.clone_from(last);
        seen.extend(page);
    }
    let expected: Vec<Vec<u8>> =
        (0..7).flat_map(|n| [format!("{n}"), format!("{n}.")]).map(String::into_bytes).collect();
    assert_eq!(seen, expected);
    let list = fs.list("3").unwrap();
    fs.remove("3/below").unwrap();
    assert_eq!(list.count(), 1, "a list is of one point in time");
}

#[test]
fn attributes_are_set_and_kept_by_a_new_content() {
    let fs = memory();
    let attributes = SetAttributes::new().mode(0o600).owner(1000, 100).mtime(5);
    fs.write_with("file", "one", &attributes).unwrap();
    let before = fs.stat("file").unwrap();
    assert_eq!((before.mode, before.uid, before.gid, before.mtime, before.size), (0o600, 1000, 100, 5, 3));
    fs.set_xattr("file", "user.a", "1", XattrMode::Create).unwrap();
    fs.write("file", "other").unwrap();
    let after = fs.stat("file").unwrap();
    assert_eq!((after.mode, after.uid, after.gid, after.size), (0o600, 1000, 100, 5));
    assert!(after.inode != before.inode && after.mtime > 5 && after.digest != before.digest);
    assert_eq!(fs.xattrs("file").unwrap(), [b"user.a"]);
    let before = fs.stat("file").unwrap();
    fs.set_attributes("file", &SetAttributes::new().gid(7)).unwrap();
    let after = fs.stat("file").unwrap();
    assert!(after.gid == 7 && after.ctime > before.ctime && after.mtime == before.mtime, "{before:?} {after:?}");
    assert_eq!(fs.read("file").unwrap(), b"other");
    fs.rename("file", "renamed").unwrap();
    assert!(fs.stat("renamed").unwrap().ctime > after.ctime, "a rename is a change of the entry");
    fs.write_with("renamed", "again", &SetAttributes::new().mode(0o640).mtime(6)).unwrap();
    let again = fs.stat("renamed").unwrap();
    assert_eq!((again.mode, again.uid, again.gid, again.mtime), (0o640, 1000, 7, 6));
    assert_eq!(fs.stat("").unwrap().inode, waxseal_files::ROOT_INODE);
}

#[test]
fn extended_attributes_have_modes_and_a_limit() {
    let fs = memory();
    fs.write("file", "content").unwrap();
    fs.set_xattr("file", "user.a", "1", XattrMode::Create).unwrap();
    fails(fs.set_xattr("file", "user.a", "2", XattrMode::Create), ErrorKind::Exists);
    fails(fs.set_xattr("file", "user.b", "2", XattrMode::Replace), ErrorKind::NoAttribute);
    fs.set_xattr("file", "user.a", "3", XattrMode::Replace).unwrap();
    let mut writer = fs.writer("whole").unwrap();
    fails(writer.set_xattr("", "3"), ErrorKind::Invalid);
    fails(writer.set_xattr("user.b", vec![1; MAX_XATTR_BYTES]), ErrorKind::NoSpace);
    writer.set_xattr("user.c", "4").unwrap();
    writer.finish().unwrap();
    assert_eq!(
        (fs.xattrs("whole").unwrap(), fs.xattr("whole", "user.c").unwrap()),
        (vec![b"user.c".to_vec()], b"4".to_vec())
    );
    fs.write("whole", "again").unwrap();
    assert_eq!(fs.xattrs("whole").unwrap(), [b"user.c"], "a write keeps them");
    let mut writer = fs.writer("whole").unwrap();
    writer.clear_xattrs();
    writer.finish().unwrap();
    assert!(fs.xattrs("whole").unwrap().is_empty());
    fails(fs.set_xattr("file", "", "3", XattrMode::Set), ErrorKind::Invalid);
    fails(fs.set_xattr("file", "n".repeat(256), "3", XattrMode::Set), ErrorKind::NameTooLong);
    let full = MAX_XATTR_BYTES - "user.a3user.b".len();
    fails(fs.set_xattr("file", "user.b", vec![1; full + 1], XattrMode::Set), ErrorKind::NoSpace);
    fs.set_xattr("file", "user.b", vec![1; full], XattrMode::Set).unwrap();
    fs.set_xattr("file", "user.b", vec![2; full], XattrMode::Set).unwrap();
    assert_eq!(fs.xattr("file", "user.a").unwrap(), b"3");
    fs.remove_xattr("file", "user.b").unwrap();
    assert_eq!(fs.xattrs("file").unwrap(), [b"user.a"]);
    assert_eq!(fs.read("file").unwrap(), b"content");
}

#[test]
fn nodes_of_all_kinds_are_entries() {
    let fs = memory();
    fs.create_node("fifo", FileKind::Fifo, &SetAttributes::new()).unwrap();
    fs.create_node("socket", FileKind::Socket, &SetAttributes::new()).unwrap();
    fs.create_node("empty", FileKind::File, &SetAttributes::new()).unwrap();
    fs.symlink("../anywhere", "link").unwrap();
    let kinds: Vec<FileKind> = fs.list("").unwrap().map(|entry| entry.unwrap().metadata.kind).collect();
    assert_eq!(kinds, [FileKind::File, FileKind::Fifo, FileKind::Link, FileKind::Socket]);
    assert_eq!((fs.read_link("link").unwrap(), fs.stat("link").unwrap().size), (b"../anywhere".to_vec(), 11));
    fails(fs.read("fifo"), ErrorKind::Invalid);
    fails(fs.write("fifo", ""), ErrorKind::Invalid);
    for name in ["fifo", "socket", "empty", "link"] {
        fs.remove(name).unwrap();
    }
    assert_clean(&fs);
}

#[test]
fn directories_have_the_time_of_their_last_change() {
    let fs = memory();
    fs.mkdir_with("dir", &SetAttributes::new().mtime(1)).unwrap();
    fs.write("dir/file", "").unwrap();
    let after = fs.stat("dir").unwrap().mtime;
    assert!(after > 1);
    fs.set_attributes("dir", &SetAttributes::new().mtime(1)).unwrap();
    fs.write("dir/file", "new content").unwrap();
    assert_eq!(fs.stat("dir").unwrap().mtime, 1, "no entry came or went");
    fs.rename("dir/file", "file").unwrap();
    assert!(fs.stat("dir").unwrap().mtime >= after);
}
