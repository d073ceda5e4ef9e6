//! Rough edges: a dump of a damaged store, lost ranges that a repair leaves, and labels.

use std::fs;

use serde_json::Value;
use waxseal::{CfOptions, Contents, Db, Durability, WriteOptions};

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
}

/// `repair` finds no table to repair after the open has made lost ranges of the log's damaged values, and the ranges are
/// left.
#[test]
fn a_repair_that_leaves_lost_ranges_is_no_success() {
    let tool = Tool::new();
    let db = Db::open(tool.path("store")).unwrap();
    let options = CfOptions { large_value_bytes: 600, ..CfOptions::default() };
    let cf = db.create_column_family("large", options).unwrap();
    let value: Vec<u8> = (0..900u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for key in ["a", "b", "c"] {
        cf.put_with(key, &value, WriteOptions::new().durability(Durability::Buffered)).unwrap();
    }
    db.sync().unwrap();
    db.close().unwrap();
    let mut files = fs::read_dir(tool.path("store")).unwrap().map(|entry| entry.unwrap().path());
    let blobs = files.find(|path| path.extension().is_some_and(|kind| kind == "val")).unwrap();
    let mut bytes = fs::read(&blobs).unwrap();
    let at = bytes.windows(value.len()).position(|part| part == value).unwrap();
    bytes[at + 100..at + 400].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&blobs, bytes).unwrap();
    for verb in ["verify", "repair", "repair", "scrub", "verify"] {
        let (said, _) = tool.ends(3, &[verb]);
        assert!(said.contains("\ndamaged") && !said.contains("no damage"), "{verb}: {said}");
        let (report, _) = tool.ends(3, &["--json", verb]);
        let report: Value = serde_json::from_str(&report).unwrap();
        let found = &report["damage"][0];
        assert_eq!((&report["ok"], &found["family"]), (&false.into(), &"large".into()), "{verb}: {report}");
        assert_eq!((&found["from"]["text"], &found["to"]["text"]), (&"a".into(), &"a".into()), "{verb}: {report}");
    }
    tool.ends(3, &["scrub", "--repair"]);
    tool.ends(0, &["repair", "--accept-loss"]);
    for verb in ["verify", "repair", "scrub"] {
        assert!(tool.text(&[verb]).ends_with("\nno damage\n"), "{verb}");
    }
}

#[test]
fn a_refused_node_makes_no_placement() {
    let tool = Tool::new();
    fs::create_dir(tool.path("full")).unwrap();
    fs::write(tool.path("full").join("x"), "").unwrap();
    let (_, said) = tool.ends(1, &["node", "add", "n1", &tool.local("full")]);
    assert!(said.contains("full"), "{said}");
    assert_eq!(Db::contents(tool.path("store")).unwrap(), Contents::Empty);
    tool.ok(&["node", "add", "n1", &tool.local("n1")]);
    tool.ends(1, &["node", "add", "n2", &tool.local("full")]);
    assert!(tool.text(&["node", "status"]).starts_with("n1\tlive"));
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
