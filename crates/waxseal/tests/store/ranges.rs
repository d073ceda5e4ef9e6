//! Range deletes as users and the registry see them.

#![expect(clippy::disallowed_methods, reason = "a test damages a file that the store made")]

use std::ops::Bound;
use std::os::unix::fs::FileExt;

use waxseal::registry::{Field, Lies, Operation, RegisterOptions, Scope};
use waxseal::{Db, Durability, ErrorKind, RepairOptions, WriteOptions};

fn keys(db: &Db, name: &str) -> Vec<String> {
    let family = db.column_family(name).unwrap();
    family.iter().keys().map(|key| String::from_utf8(key.unwrap().to_vec()).unwrap()).collect()
}

#[test]
fn ranges_are_removed_with_every_kind_of_bound() {
    let db = Db::memory().unwrap();
    let family = db.column_family("f").unwrap();
    let fill = || ["a", "b", "c", "d", "e"].iter().for_each(|key| family.put(key, key).unwrap());
    let left = |bounds: (Bound<&str>, Bound<&str>)| {
        fill();
        family.delete_range(bounds).unwrap();
        keys(&db, "f").concat()
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(left((Included("b"), Excluded("d"))), "ade");
    assert_eq!(left((Excluded("b"), Included("d"))), "abe");
    assert_eq!(left((Unbounded, Included("b"))), "cde");
    assert_eq!(left((Excluded("d"), Unbounded)), "abcd");
    assert_eq!(left((Included("c"), Excluded("c"))), "abcde");
    assert_eq!(left((Unbounded, Unbounded)), "");
    fill();
    let refused = family.delete_range("d".."b").unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Invalid);
    assert_eq!(keys(&db, "f").concat(), "abcde");
    let refused = family.delete_range_with("a".., WriteOptions::new().label("why", "old")).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Invalid);
    family.delete_range_with("b".., WriteOptions::new().durability(Durability::Sync)).unwrap();
    assert_eq!(keys(&db, "f").concat(), "a");
}

#[test]
fn a_batch_removes_what_came_before_in_several_families() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path).unwrap();
    let [one, two] = ["one", "two"].map(|name| db.column_family(name).unwrap());
    one.put("a", "1").unwrap();
    two.put("a", "1").unwrap();
    let snapshot = db.snapshot();
    let mut batch = db.batch();
    batch.put(&one, "b", "2").delete_range(&one, ..).put(&one, "c", "3");
    batch.commit(Durability::Os).unwrap();
    assert_eq!((keys(&db, "one").concat(), keys(&db, "two").concat()), ("c".into(), "a".into()));
    db.clear([&one, &two]).unwrap();
    assert_eq!(keys(&db, "one").len() + keys(&db, "two").len(), 0);
    assert_eq!(snapshot.get(&one, "a").unwrap().unwrap(), "1");
    one.put("d", "4").unwrap();
    drop((snapshot, one, two));
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!((keys(&db, "one").concat(), keys(&db, "two").len()), ("d".into(), 0));
    assert_eq!(db.verify(Default::default()).unwrap().corrupted, 0);
}

/// The bounds of the range delete that an event tells of.
fn bounds(event: &waxseal::registry::Event) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let start = event.payload.find(|field| if let Field::RangeStart(key) = field { Some(key.clone()) } else { None });
    let end = event.payload.find(|field| if let Field::RangeEnd(key) = field { Some(key.clone()) } else { None });
    (start, end)
}

#[test]
fn a_range_delete_is_one_event_for_everybody_who_watches_a_key_in_it() {
    let db = Db::memory().unwrap();
    let (users, registry) = (db.column_family("users").unwrap(), db.registry());
    for key in ["ada", "bob", "eve"] {
        users.put(key, "1").unwrap();
    }
    registry.register("users.bob", "Row.Delete").unwrap();
    registry.register("users.eve", "*").unwrap();
    users.delete_range("x"..).unwrap();
    assert_eq!(registry.query_all("users", "Range.Delete").unwrap(), [], "no key in it is watched");
    users.delete_range("b".."c").unwrap();
    users.delete_range("a".."f").unwrap();
    let events = registry.query_all("users", "Range.Delete").unwrap();
    let expected = [("b", "c"), ("a", "f")].map(|(a, b)| (Some(a.as_bytes().to_vec()), Some(b.as_bytes().to_vec())));
    assert_eq!(events.iter().map(bounds).collect::<Vec<_>>(), expected);
    for operation in ["Range.Delete", "Row.Delete", "*"] {
        let found = registry.query_all("users.bob", operation).unwrap();
        let of_ranges = found.iter().filter(|event| event.key.operation == Operation::RANGE_DELETE);
        assert_eq!(of_ranges.map(bounds).collect::<Vec<_>>(), expected, "{operation}");
    }
    assert_eq!(registry.query_all("users.eve", "Row.Delete").unwrap().len(), 1);
    assert_eq!(registry.query_all("users.zoe", "Range.Delete").unwrap().len(), 0);
    let latest = registry.query_latest("users.bob", "Row.Delete").unwrap().unwrap();
    assert_eq!(bounds(&latest), expected[1]);
    assert_eq!(registry.provenance(&users, "bob").unwrap().events.len(), 2);
}

#[test]
fn rows_that_a_range_delete_covers_still_get_their_events() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store")).unwrap();
    let (users, registry) = (db.column_family("users").unwrap(), db.registry());
    let options = RegisterOptions { scope: Scope::Subtree, ..RegisterOptions::default() };
    registry.register_with("users", "*", options).unwrap();
    users.put("bob", "1").unwrap();
    users.delete_range(..).unwrap();
    users.put("bob", "2").unwrap();
    let names = || {
        let events = registry.query_all("users.bob", "*").unwrap();
        events.iter().map(|event| format!("{:?}", event.key.operation)).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["Range.Delete", "Row.Update", "Row.Update"]);
    db.flush().unwrap();
    db.settle().unwrap();
    assert_eq!(names(), ["Range.Delete", "Row.Update", "Row.Update"]);
    assert_eq!(keys(&db, "users"), ["bob"]);
}

/// A store whose only table lost the record of `john`.
fn with_lost_record(dir: &std::path::Path) -> Db {
    let path = dir.join("store");
    let db = Db::open(&path).unwrap();
    let users = db.column_family("users").unwrap();
    users.put("john", "33").unwrap();
    db.flush().unwrap();
    let Some(Lies::Table { file, offset, .. }) = db.registry().explain(&users, "john").unwrap().lies else {
        panic!("john lies in no table")
    };
    db.close().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path.join(file)).unwrap();
    file.write_all_at(&[0; 16], offset + 4).unwrap();
    let db = Db::open(&path).unwrap();
    db.repair(RepairOptions::default()).unwrap();
    db
}

#[test]
fn a_range_delete_ends_the_loss_of_what_it_covers() {
    let dir = tempfile::tempdir().unwrap();
    let db = with_lost_record(dir.path());
    let users = db.column_family("users").unwrap();
    assert!(users.get("john").unwrap_err().is_corruption());
    let snapshot = db.snapshot();
    users.delete_range("a".."b").unwrap();
    assert!(users.get("john").unwrap_err().is_corruption(), "another range");
    users.delete_range("j".."k").unwrap();
    assert_eq!(users.get("john").unwrap(), None);
    assert!(users.iter().all(|row| row.is_ok()));
    assert!(snapshot.get(&users, "john").unwrap_err().is_corruption());
    db.settle().unwrap();
    assert!(snapshot.get(&users, "john").unwrap_err().is_corruption());
    let report = db.verify(Default::default()).unwrap();
    assert!(report.damage.len() == 1, "{report:?}");
    drop(snapshot);
    db.settle().unwrap();
    let report = db.verify(Default::default()).unwrap();
    assert!(report.damage.is_empty(), "{report:?}");
    users.put("john", "34").unwrap();
    drop(users);
    db.close().unwrap();
    let db = Db::open(dir.path().join("store")).unwrap();
    assert_eq!(keys(&db, "users"), ["john"]);
}
