//! Access by inode number.

use waxseal_files::{ErrorKind, Inodes, ROOT_INODE, RenameMode};

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
    inodes.forget(file, 1);
    assert_eq!(inodes.path(file).unwrap(), b"a/moved/file");
    inodes.forget(file, 1);
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
