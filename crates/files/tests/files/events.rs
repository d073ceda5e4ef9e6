//! Events of the registry.

use waxseal::Db;
use waxseal::registry::Target;

use crate::store::{bytes, small_chunks};

#[test]
fn registered_operations_leave_one_event_each() {
    let db = Db::memory().unwrap();
    let fs = small_chunks(&db);
    let registry = db.registry();
    fs.mkdir("unseen").unwrap();
    for operation in ["File.Create", "File.Write", "File.Rename", "File.Remove"] {
        registry.register("files", operation).unwrap();
    }
    let alice = fs.in_session(&db.session("alice").unwrap()).unwrap();
    alice.mkdir("dir").unwrap();
    alice.write("dir/file", "one").unwrap();
    alice.write("dir/file", bytes(9_000, 1)).unwrap();
    alice.append("dir/file", "more").unwrap();
    fs.rename("dir", "tree").unwrap();
    fs.remove_tree("tree").unwrap();
    let texts = |operation: &str| -> Vec<(String, String)> {
        let events = registry.query_all("files", operation).unwrap();
        events.into_iter().map(|event| (event.key.client.clone(), format!("{:?}", event.payload))).collect()
    };
    let (created, written) = (texts("File.Create"), texts("File.Write"));
    assert_eq!((created.len(), written.len()), (2, 2));
    assert!(created.iter().chain(&written).all(|(client, _)| client == "alice"), "{created:?} {written:?}");
    let (renamed, removed) = (texts("File.Rename"), texts("File.Remove"));
    assert_eq!((renamed.len(), removed.len()), (1, 1));
    assert_eq!((&renamed[0].0[..], &removed[0].0[..]), ("-", "-"));
}

#[test]
fn one_path_can_be_registered() {
    let db = Db::memory().unwrap();
    let fs = small_chunks(&db);
    let registry = db.registry();
    let target = Target::key("files", "dir\0file");
    registry.register(target.clone(), "File.Write").unwrap();
    fs.mkdir("dir").unwrap();
    fs.write("dir/file", "one").unwrap();
    fs.write("dir/file", "two").unwrap();
    fs.write("dir/other", "one").unwrap();
    fs.write("dir/other", "two").unwrap();
    assert_eq!(registry.query_all(target, "File.Write").unwrap().len(), 1);
    assert!(registry.query_all("files", "File.Write").unwrap().is_empty());
}
