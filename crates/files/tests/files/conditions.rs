//! Conditional writes and removals, entity tags, and digests that are compared without the bytes.

use std::io::Write;

use waxseal::Db;
use waxseal_files::{Condition, Digester, EntityTag, ErrorKind, FileStoreOptions, Files, OpenOptions, SetAttributes};

use crate::store::{assert_clean, bytes, fails, memory};

fn tag(fs: &Files, path: &str) -> EntityTag {
    fs.stat(path).unwrap().etag().unwrap()
}

fn write_if(fs: &Files, path: &str, bytes: &[u8], condition: Condition) -> waxseal_files::Result<()> {
    fs.write_if(path, bytes, &SetAttributes::new(), condition).map(drop)
}

#[test]
fn a_write_depends_on_the_content() {
    let fs = memory();
    fs.write("one", "one").unwrap();
    let (one, large) = (tag(&fs, "one"), bytes(20_000, 1));
    for (path, condition) in [
        ("one", Condition::Absent),
        ("none", Condition::Exists),
        ("none", Condition::Matches(one)),
        ("one", Condition::Differs(one)),
        ("one", Condition::Matches(EntityTag { size: 4, ..one })),
    ] {
        let error = fails(write_if(&fs, path, b"two", condition), ErrorKind::ConditionFailed);
        assert_eq!(error.path(), Some(path.as_bytes()));
        fails(write_if(&fs, path, &large, condition), ErrorKind::ConditionFailed);
        let mut writer = fs.writer(path).unwrap().only_if(condition);
        writer.write_all(&large).unwrap();
        fails(writer.finish(), ErrorKind::ConditionFailed);
    }
    assert_eq!((fs.read("one").unwrap(), fs.exists("none").unwrap()), (b"one".to_vec(), false));
    assert_clean(&fs); // nothing is left of the streams
    write_if(&fs, "none", b"new", Condition::Absent).unwrap();
    write_if(&fs, "none", b"newer", Condition::Differs(one)).unwrap();
    write_if(&fs, "one", &large, Condition::Matches(one)).unwrap();
    fails(write_if(&fs, "one", b"", Condition::Matches(one)), ErrorKind::ConditionFailed);
    write_if(&fs, "one", b"again", Condition::Exists).unwrap();
    fails(fs.remove_if("one", Condition::Matches(one)), ErrorKind::ConditionFailed);
    fails(fs.remove_if("absent", Condition::Exists), ErrorKind::NotFound);
    fs.remove_if("one", Condition::Matches(tag(&fs, "one"))).unwrap();
    assert!(!fs.exists("one").unwrap());
}

/// Changes that wait in memory have no tag yet: a write that names the last commit would lose them.
#[test]
fn changes_that_wait_meet_no_tag() {
    let fs = memory();
    fs.write("file", "before").unwrap();
    let before = tag(&fs, "file");
    let file = fs.open_with("file", &OpenOptions::new().write(true)).unwrap();
    file.write_at(b"after!", 0).unwrap();
    fails(write_if(&fs, "file", b"", Condition::Matches(before)), ErrorKind::ConditionFailed);
    fails(fs.remove_if("file", Condition::Matches(before)), ErrorKind::ConditionFailed);
    fails(write_if(&fs, "file", b"", Condition::Differs(before)), ErrorKind::ConditionFailed);
    file.close().unwrap();
    write_if(&fs, "file", b"after!", Condition::Differs(before)).unwrap();
    fs.mkdir("directory").unwrap();
    assert_eq!(fs.stat("directory").unwrap().etag(), None);
    write_if(&fs, "file", b"", Condition::Matches(EntityTag { ..tag(&fs, "file") })).unwrap();
}

/// A damaged entry has no content that a condition could name.
#[test]
fn a_damaged_entry_meets_no_condition() {
    let fs = memory();
    fs.db().column_family("files").unwrap().put("file", [1, 1]).unwrap();
    fails(write_if(&fs, "file", b"", Condition::Absent), ErrorKind::Corruption);
    fails(fs.remove_if("file", Condition::Exists), ErrorKind::Corruption);
}

#[test]
fn files_of_two_stores_are_compared_by_their_digests() {
    let (fs, db) = (memory(), Db::memory().unwrap());
    let other = FileStoreOptions::new().chunk_bytes(8192).open(&db, "files").unwrap();
    for size in [0, 1, 1000, 1025, 4096, 4097, 20_000] {
        let content = bytes(size, 1);
        fs.write("file", &content).unwrap();
        fs.write("same", &content).unwrap();
        other.write("file", &content).unwrap();
        let (one, same, foreign) = (fs.stat("file").unwrap(), fs.stat("same").unwrap(), other.stat("file").unwrap());
        assert_eq!((one.chunk_bytes, foreign.chunk_bytes), if size > 1024 { (4096, 8192) } else { (0, 0) });
        assert_eq!(one.has_content_of(&same), Some(true));
        assert_eq!(one.has_content_of(&foreign), if size <= 4096 { Some(true) } else { None }, "{size}");
        let mut digester = Digester::new(4096);
        content.chunks(999).for_each(|part| digester.update(part));
        assert_eq!(digester.finish(), one.digest, "{size}");
        if size > 0 {
            fs.write("same", bytes(size, 2)).unwrap();
            assert_eq!(one.has_content_of(&fs.stat("same").unwrap()), Some(false));
            other.write("file", bytes(size + 1, 1)).unwrap();
            assert_eq!(one.has_content_of(&other.stat("file").unwrap()), Some(false));
        }
    }
    let file = fs.open_with("file", &OpenOptions::new().write(true)).unwrap();
    file.append(b"x").unwrap();
    assert_eq!(fs.stat("file").unwrap().has_content_of(&fs.stat("same").unwrap()), None);
}

#[test]
fn a_copy_depends_on_the_new_path() {
    let fs = memory();
    let (small, large) = (b"small".to_vec(), bytes(20_000, 1));
    fs.write("small", &small).unwrap();
    fs.write("large", &large).unwrap();
    for (path, content) in [("small", &small), ("large", &large)] {
        fs.write("other", "other").unwrap();
        fails(fs.copy_if(path, "other", Condition::Absent), ErrorKind::ConditionFailed);
        assert_eq!(fs.read("other").unwrap(), b"other");
        fs.copy_if(path, "other", Condition::Matches(tag(&fs, "other"))).unwrap();
        fs.remove("other").unwrap();
        fs.copy_if(path, "other", Condition::Absent).unwrap();
        assert_eq!(&fs.read("other").unwrap(), content);
    }
    assert_clean(&fs);
}
