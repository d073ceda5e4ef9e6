//! Rough edges: a dump of a damaged store, and labels.

use std::fs;

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
