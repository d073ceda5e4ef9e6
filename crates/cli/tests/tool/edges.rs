//! Rough edges: a dump of a damaged store, a load that fails at once, a log of what is not there, labels, and a salvage into its own
//! source.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;

use waxseal::{Db, WriteOptions};

use crate::{Tool, args};

#[test]
fn a_dump_goes_on_behind_damage_and_says_so() {
    let tool = Tool::new();
    let table = tool.damage(2000, |bytes| bytes[..40].fill(0xA5));
    let (rows, _) = tool.ends(3, &["scan"]);
    for format in ["tsv", "csv", "jsonl"] {
        let dest = tool.path(&format!("out.{format}"));
        let output = tool.run(&args("dump", &dest, &[]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{format}: {said}");
        assert!(said.contains(&format!("corruption in {table} at ")), "{format}: {said}");
        let around = format!("damaged; the {} records around were dumped", rows.lines().count());
        assert!(said.replace(',', "").contains(&around), "{said}");
        let header = usize::from(format != "jsonl");
        let dumped = fs::read_to_string(&dest).unwrap();
        assert_eq!(dumped.lines().count(), rows.lines().count() + header, "{format}");
    }
    let output = tool.run(&["dump", "-", "--format", "tsv"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), rows.lines().count() + 1);
    let output = tool.run(&args("dump", &tool.path("tree"), &["--format", "dir"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(fs::read_dir(tool.path("tree")).unwrap().count(), rows.lines().count(), "{said}");
}

/// A load that commits nothing leaves no store and no family that it made, and keeps those that were there.
#[test]
fn a_load_that_fails_at_once_leaves_nothing() {
    let tool = Tool::new();
    fs::write(tool.path("bad.csv"), "id,name\n1\n").unwrap();
    tool.ends(1, &["load", tool.path("bad.csv").to_str().unwrap()]);
    assert!(!tool.path("store").exists(), "a store was made");
    tool.ok(&["put", "key", "value"]);
    tool.ends(1, &["--cf", "users", "load", tool.path("bad.csv").to_str().unwrap()]);
    let families = |tool: &Tool| -> Vec<String> {
        let db = Db::open_read_only(tool.path("store")).unwrap();
        db.column_families().iter().map(|family| family.name().to_owned()).collect()
    };
    assert_eq!(families(&tool), ["default"]);
    tool.ends(1, &["load", tool.path("bad.csv").to_str().unwrap()]);
    assert_eq!(tool.ok(&["get", "key"]), b"value");
    fs::write(tool.path("half.csv"), "id,name\n1,a\n2\n").unwrap();
    tool.ends(1, &["--cf", "users", "load", tool.path("half.csv").to_str().unwrap()]);
    assert_eq!(families(&tool), ["default", "users"], "one record was committed");
}

#[test]
fn a_log_of_a_family_that_is_not_there_says_so() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    for target in ["nosuch", "nosuch.key"] {
        let (_, said) = tool.ends(2, &["log", target]);
        assert!(said.contains("no column family \"nosuch\""), "{said}");
    }
    tool.ends(0, &["log", "default"]);
}

#[test]
fn labels_are_shown() {
    let tool = Tool::new();
    let db = Db::open(tool.path("store")).unwrap();
    let family = db.column_family("default").unwrap();
    family.put_with("key", "value", WriteOptions::new().label("source", "scan 7").label("unit", "mm")).unwrap();
    family.put("bare", "value").unwrap();
    db.close().unwrap();
    let row = tool.json(&["get", "key"]);
    assert_eq!(row["labels"], serde_json::json!({ "source": "scan 7", "unit": "mm" }), "{row}");
    assert!(tool.json(&["get", "bare"]).get("labels").is_none());
    assert!(tool.text(&["provenance", "key"]).contains("label\tsource\tscan 7\n"));
    assert_eq!(tool.json(&["provenance", "key"])["labels"]["unit"], "mm");
    tool.ends(2, &["provenance", "bare"]);
}

/// A link may lead into the source, too.
#[test]
fn a_salvage_into_its_own_source_is_refused() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    let store = tool.path("store");
    fs::create_dir(store.join("sub")).unwrap();
    symlink(store.join("sub"), tool.path("link")).unwrap();
    let names = || fs::read_dir(&store).unwrap().count();
    let before = names();
    for dest in [store.join("saved"), tool.path("link"), tool.path("link").join("saved"), store.join("sub/a/b")] {
        let output = tool.run(&[OsStr::new("salvage"), dest.as_os_str()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{}: {said}", dest.display());
        assert!(said.contains("in the source"), "{said}");
        assert_eq!((names(), fs::read_dir(store.join("sub")).unwrap().count()), (before, 0), "{}", dest.display());
    }
    tool.ok(&[OsStr::new("salvage"), tool.path("apart").as_os_str()]);
}
