//! backup, backups, restore.

use std::ffi::OsStr;
use std::fs;

use serde_json::Value;

use crate::{Tool, args};

#[test]
fn backups_are_made_listed_and_restored() {
    let tool = Tool::new();
    let backups = tool.path("backups");
    let backups_text = backups.to_str().unwrap();
    assert_eq!(tool.code(&args("backup", &backups, &[])), 2, "no store");
    tool.ok(&["put", "key", "first"]);
    let made = tool.json(&["backup", backups_text]);
    assert_eq!((&made["ok"], &made["id"], &made["copied_bytes"]), (&true.into(), &1.into(), &made["bytes"]));
    tool.ok(&["put", "key", "second"]);
    let line = tool.text(&args("backup", &backups, &["--rate", "1000000000"]));
    assert!(line.starts_with("backup 2: "), "{line}");
    let listed = tool.json(&["backups", backups_text, "--verify"]);
    assert_eq!(listed["backups"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed["backups"][0]["damage"], Value::Array(Vec::new()));
    assert!(tool.text(&args("backups", &backups, &["--verify"])).lines().all(|line| line.ends_with(", whole")));
    assert_eq!(tool.code(&args("restore", &backups, &[])), 1, "the store is there");
    fs::rename(tool.path("store"), tool.path("old")).unwrap();
    assert_eq!(tool.code(&args("restore", &backups, &["--id", "9"])), 2);
    tool.ok(&args("restore", &backups, &["--id", "1"]));
    assert_eq!(tool.text(&["get", "key"]), "first");
    fs::remove_dir_all(tool.path("store")).unwrap();
    assert_eq!(tool.json(&["restore", backups_text])["id"], 2);
    assert_eq!(tool.text(&["get", "key"]), "second");
    // The restored store goes on in the same directory.
    assert_eq!(tool.json(&["backup", backups_text, "--keep", "1"])["purged"], 2);
    let listed = tool.json(&["backups", backups_text]);
    assert_eq!((listed["backups"].as_array().unwrap().len(), &listed["backups"][0]["id"]), (1, &3.into()));
    assert_eq!(tool.code(&args("backups", &tool.path("old"), &[])), 2, "a store is no directory of backups");
}

#[test]
fn damage_in_a_backup_and_in_the_store_ends_with_3() {
    let tool = Tool::new();
    let backups = tool.path("backups");
    let table = tool.damage(500, |_| ());
    tool.ok(&args("backup", &backups, &[]));
    let copy = fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path());
    let copy = copy.filter(|path| path.extension() == Some(OsStr::new("tbl"))).min_by_key(|path| path.clone()).unwrap();
    let whole = fs::read(&copy).unwrap();
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    fs::write(&copy, &damaged).unwrap();
    let output = tool.run(&args("backups", &backups, &["--verify"]));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(said.contains(", damaged") && said.contains(copy.file_name().unwrap().to_str().unwrap()), "{said}");
    fs::write(&copy, &whole).unwrap();
    tool.ok(&args("backups", &backups, &["--verify"]));
    // A new directory needs every file of the store.
    let path = tool.path("store").join(&table);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = tool.run(&args("backup", &tool.path("others"), &[]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(3) && said.contains(&table), "{said}");
    assert_eq!(tool.code(&args("backups", &tool.path("others"), &[])), 2, "none was made");
}
