//! Access by inode number.

use waxseal_files::{
    ErrorKind, FileKind, InodePlace, Inodes, OpenOptions, ROOT_INODE, RenameMode, SetAttributes, XattrMode,
};

use crate::store::{fails, memory};

#[test]
fn numbers_follow_renames_and_are_forgotten() {
    let fs = memory();
    fs.create_dir_all("a/b").unwrap();
    fs.write("a/b/file", "one").unwrap();
    fs.mkdir("c").unwrap();
    let inodes = Inodes::new(&fs);
    assert_eq!((inodes.path(ROOT_INODE).unwrap(), inodes.stat(ROOT_INODE).unwrap().inode), (b"".to_vec(), ROOT_INODE));
    let a = inodes.lookup(ROOT_INODE, "a").unwrap().inode;
    let b = inodes.lookup(a, "b").unwrap().inode;
    let file = inodes.lookup(b, "file").unwrap().inode;
    let c = inodes.lookup(ROOT_INODE, "c").unwrap().inode;
    assert_eq!((inodes.path(file).unwrap(), inodes.stat(file).unwrap().size), (b"a/b/file".to_vec(), 3));
    inodes.rename((a, b"b"), (c, b"moved"), RenameMode::Replace).unwrap();
    assert_eq!(inodes.path(file).unwrap(), b"c/moved/file");
    inodes.rename((ROOT_INODE, b"a"), (ROOT_INODE, b"c"), RenameMode::Exchange).unwrap();
    assert_eq!((inodes.path(file).unwrap(), inodes.path(a).unwrap()), (b"a/moved/file".to_vec(), b"c".to_vec()));
    fails(inodes.rename((c, b"moved"), (ROOT_INODE, b"c"), RenameMode::NoReplace), ErrorKind::Exists);
    assert_eq!(inodes.path_in(b, "new").unwrap(), b"a/moved/new");
    for name in ["", ".", "..", "a/b", "a\0b"] {
        fails(inodes.lookup(b, name), ErrorKind::Invalid);
    }
    fails(inodes.lookup(b, "n".repeat(256)), ErrorKind::NameTooLong);
    fails(inodes.lookup(b, "absent"), ErrorKind::NotFound);
    fails(inodes.lookup(1 << 40, "x"), ErrorKind::Stale);
    inodes.lookup(b, "file").unwrap();
    assert!(!inodes.forget(file, 1));
    assert_eq!(inodes.path(file).unwrap(), b"a/moved/file");
    assert!(inodes.forget(file, 1));
    fails(inodes.path(file), ErrorKind::Stale);
}

/// Changes that do not go through the table never show another entry under a number.
#[test]
fn a_number_is_stale_once_another_entry_is_at_its_path() {
    let fs = memory();
    fs.create_dir_all("a/b").unwrap();
    fs.write("file", "one").unwrap();
    let inodes = Inodes::new(&fs);
    let file = inodes.lookup(ROOT_INODE, "file").unwrap().inode;
    let a = inodes.lookup(ROOT_INODE, "a").unwrap().inode;
    let b = inodes.lookup(a, "b").unwrap().inode;
    fs.write("file", "replaced").unwrap();
    fails(inodes.stat(file), ErrorKind::Stale);
    fs.rename("a", "elsewhere").unwrap();
    fails(inodes.path(b), ErrorKind::NotFound);
    fs.create_dir_all("a/b").unwrap();
    fails(inodes.path(b), ErrorKind::Stale);
    // Lookups by another way may close a circle of what is known: it ends.
    inodes.lookup(ROOT_INODE, "elsewhere").unwrap();
    assert_eq!(inodes.path(b).unwrap(), b"elsewhere/b");
    fs.remove_tree("elsewhere").unwrap();
    fails(inodes.path(b), ErrorKind::NotFound);
}

#[test]
fn entries_are_created_and_changed_by_number() {
    let fs = memory();
    let inodes = Inodes::new(&fs);
    let private = SetAttributes::new().mode(0o700).owner(7, 8);
    let dir = inodes.mkdir(ROOT_INODE, "dir", &private).unwrap();
    assert_eq!((dir.mode, dir.uid, dir.gid, inodes.path(dir.inode).unwrap()), (0o700, 7, 8, b"dir".to_vec()));
    let link = inodes.symlink("target", dir.inode, "link", &SetAttributes::new()).unwrap();
    assert_eq!((link.size, fs.read_link(inodes.path(link.inode).unwrap()).unwrap()), (6, b"target".to_vec()));
    let fifo = inodes.create_node(dir.inode, "fifo", FileKind::Fifo, &SetAttributes::new()).unwrap();
    assert_eq!(inodes.stat(fifo.inode).unwrap().kind, FileKind::Fifo);
    fails(inodes.create_node(dir.inode, "x", FileKind::Link, &SetAttributes::new()), ErrorKind::Invalid);
    fails(inodes.symlink("", dir.inode, "x", &SetAttributes::new()), ErrorKind::Invalid);
    fails(inodes.mkdir(dir.inode, "fifo", &private), ErrorKind::Exists);
    fails(inodes.mkdir(fifo.inode, "x", &private), ErrorKind::NotDirectory);
    fails(inodes.remove_dir(ROOT_INODE, "dir"), ErrorKind::NotEmpty);
    inodes.remove(dir.inode, "link").unwrap();
    fails(inodes.path(link.inode), ErrorKind::Stale);
    inodes.set_attributes(fifo.inode, &SetAttributes::new().mode(0o600)).unwrap();
    inodes.set_xattr(fifo.inode, "user.a", "1", XattrMode::Create).unwrap();
    fails(inodes.set_xattr(fifo.inode, "user.a", "2", XattrMode::Create), ErrorKind::Exists);
    let stat = fs.stat("dir/fifo").unwrap();
    assert_eq!((stat.mode, inodes.xattr(fifo.inode, "user.a").unwrap()), (0o600, b"1".to_vec()));
    inodes.remove_xattr(fifo.inode, "user.a").unwrap();
    fails(inodes.xattr(fifo.inode, "user.a"), ErrorKind::NoAttribute);
    let new = OpenOptions::new().write(true).create_new(true).attributes(private);
    let file = inodes.open_in(dir.inode, "file", &new).unwrap();
    fails(inodes.open_in(dir.inode, "file", &new), ErrorKind::Exists);
    file.write_at(b"content", 0).unwrap();
    assert_eq!((inodes.stat(file.inode()).unwrap().size, fs.stat("dir/file").unwrap().uid), (7, 7));
    // Another entry at the path is neither opened nor changed.
    drop(file);
    let file = inodes.lookup(dir.inode, "file").unwrap().inode;
    fs.write("dir/file", "another").unwrap();
    let truncate = OpenOptions::new().write(true).truncate(true);
    fails(inodes.open(file, &truncate), ErrorKind::Stale);
    fails(inodes.set_attributes(file, &private.mode(0o1)), ErrorKind::Stale);
    fails(inodes.set_xattr(file, "user.a", "1", XattrMode::Set), ErrorKind::Stale);
    fails(inodes.xattrs(file), ErrorKind::Stale);
    assert_eq!((fs.read("dir/file").unwrap(), fs.stat("dir/file").unwrap().mode), (b"another".to_vec(), 0o700));
}

#[test]
fn a_removed_entry_keeps_its_attributes_while_it_is_known() {
    let fs = memory();
    let inodes = Inodes::new(&fs);
    let private = SetAttributes::new().mode(0o700).owner(7, 8);
    let dir = inodes.mkdir(ROOT_INODE, "dir", &private).unwrap();
    let fifo = inodes.create_node(dir.inode, "fifo", FileKind::Fifo, &private).unwrap();
    let link = inodes.symlink("target", dir.inode, "link", &private).unwrap();
    let new = inodes.symlink("other", dir.inode, "new", &private).unwrap();
    inodes.remove(dir.inode, "fifo").unwrap();
    inodes.rename((dir.inode, b"new"), (dir.inode, b"link"), RenameMode::Replace).unwrap();
    inodes.rename((dir.inode, b"link"), (dir.inode, b"link"), RenameMode::Replace).unwrap();
    assert!(!inodes.stat(new.inode).unwrap().is_removed);
    inodes.remove(dir.inode, "link").unwrap();
    inodes.remove_dir(ROOT_INODE, "dir").unwrap();
    inodes.mkdir(ROOT_INODE, "dir", &SetAttributes::new()).unwrap();
    for entry in [dir, fifo, link, new] {
        let removed = inodes.stat(entry.inode).unwrap();
        assert_eq!((removed.is_removed, removed.mode, removed.uid, removed.size), (true, entry.mode, 7, entry.size));
        fails(inodes.path(entry.inode), ErrorKind::Stale);
        fails(inodes.set_attributes(entry.inode, &private), ErrorKind::Stale);
        assert!(inodes.forget(entry.inode, 1));
        fails(inodes.stat(entry.inode), ErrorKind::Stale);
    }
}

/// A number that is looked up is found while a directory above it is renamed.
#[test]
fn numbers_are_found_during_renames() {
    let fs = memory();
    let inodes = Inodes::new(&fs);
    let dir = inodes.mkdir(ROOT_INODE, "a", &SetAttributes::new()).unwrap().inode;
    let link = inodes.symlink("target", dir, "link", &SetAttributes::new()).unwrap().inode;
    std::thread::scope(|scope| {
        let renames = scope.spawn(|| {
            for names in [[b"a", b"b"], [b"b", b"a"]].iter().cycle().take(2000) {
                let [from, to] = names.map(|name| (ROOT_INODE, &name[..]));
                inodes.rename(from, to, RenameMode::Replace).unwrap();
            }
        });
        while !renames.is_finished() {
            assert_eq!((inodes.stat(link).unwrap().size, inodes.path(link).unwrap().len()), (6, 6));
            let (snapshot, path) = inodes.snapshot(link).unwrap();
            assert_eq!(snapshot.read_link(path).unwrap(), b"target");
            assert_eq!(inodes.path_in(dir, "x").unwrap().len(), 3);
        }
    });
    fs.rename(inodes.path(dir).unwrap(), "c").unwrap();
    fs.mkdir("a").unwrap();
    fails(inodes.snapshot(dir), ErrorKind::Stale);
}

/// A file that was removed while it is open is reached by its number as long as a handle keeps it.
#[test]
fn a_removed_file_is_known_while_it_is_open() {
    let fs = memory();
    let inodes = Inodes::new(&fs);
    let create = OpenOptions::new().read(true).write(true).create(true);
    let open = inodes.open_in(ROOT_INODE, "file", &create).unwrap();
    open.write_at(&[7; 300_000], 0).unwrap();
    let file = open.inode();
    assert!(!inodes.stat(file).unwrap().is_removed);
    inodes.remove(ROOT_INODE, "file").unwrap();
    let stat = inodes.stat(file).unwrap();
    assert_eq!((stat.is_removed, stat.size), (true, 300_000));
    fails(inodes.path(file), ErrorKind::Stale);
    inodes.set_attributes(file, &SetAttributes::new().mode(0o600)).unwrap();
    inodes.set_xattr(file, "user.a", "1", XattrMode::Set).unwrap();
    fails(inodes.set_xattr(file, "user.a", "2", XattrMode::Create), ErrorKind::Exists);
    open.sync().unwrap();
    let again = inodes.open(file, &OpenOptions::new().read(true).write(true)).unwrap();
    drop(open);
    again.set_len(10).unwrap();
    let (mut bytes, stat) = ([0; 20], inodes.stat(file).unwrap());
    assert_eq!((again.read_at(&mut bytes, 0).unwrap(), stat.mode), (10, 0o600));
    assert_eq!(inodes.xattr(file, "user.a").unwrap(), b"1");
    again.close().unwrap();
    assert!(inodes.stat(file).unwrap().is_removed);
    inodes.forget(file, 1);
    fails(inodes.stat(file), ErrorKind::Stale);
    fs.reclaim().unwrap();
    assert!(fs.fsck().unwrap().is_clean());
    // A file that another handle has open follows renames that the table does not know.
    let open = inodes.open_in(ROOT_INODE, "file", &create).unwrap();
    fs.rename("file", "moved").unwrap();
    assert_eq!(inodes.path(open.inode()).unwrap(), b"moved");
    inodes.set_attributes(open.inode(), &SetAttributes::new().mode(0o640)).unwrap();
    assert_eq!(fs.stat("moved").unwrap().mode, 0o640);
}

/// Changes beside the table are noted by path: moved entries keep their numbers, with everything below them.
#[test]
fn changes_beside_the_table_are_noted() {
    let fs = memory();
    fs.create_dir_all("dir/sub").unwrap();
    fs.write("dir/sub/file", "content").unwrap();
    let inodes = Inodes::new(&fs);
    let dir = inodes.lookup(ROOT_INODE, "dir").unwrap().inode;
    let sub = inodes.lookup(dir, "sub").unwrap().inode;
    let file = inodes.lookup(sub, "file").unwrap().inode;
    fs.rename("dir", "moved").unwrap();
    fails(inodes.path(file), ErrorKind::NotFound);
    let place = |parent, name: &str, inode| InodePlace { parent, name: name.as_bytes().to_vec(), inode };
    assert_eq!(inodes.note_change("dir").unwrap(), place(ROOT_INODE, "dir", None));
    assert_eq!(inodes.note_change("moved/").unwrap(), place(ROOT_INODE, "moved", Some(dir)));
    assert_eq!(inodes.path(file).unwrap(), b"moved/sub/file");
    fs.remove_tree("moved").unwrap();
    let mut below = inodes.known_below("moved").unwrap();
    below.sort_by_key(|place| place.inode);
    assert_eq!(below, [place(dir, "sub", Some(sub)), place(sub, "file", Some(file))]);
    assert_eq!(inodes.known_below("dir").unwrap(), []);
    fails(inodes.note_change(""), ErrorKind::Busy);
    fails(inodes.note_change("moved/sub"), ErrorKind::NotFound);
}
