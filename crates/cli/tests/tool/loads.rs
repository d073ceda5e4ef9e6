//! Bad rows: where a load stops, what `--atomic` and `--skip-bad` make of them, and a dump whose reader leaves early.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::{Tool, args};

/// Three good rows, a bad one on line 4, a good one.
const BAD_CSV: &str = "id,name\n1,a\n2,b\n3\n4,d\n";

fn failure(tool: &Tool, verb: &[std::ffi::OsString]) -> (Option<i32>, String, Value) {
    let output = tool.run(verb);
    let said = String::from_utf8(output.stderr).unwrap();
    let object = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), said, object)
}

#[test]
fn a_bad_row_says_how_many_are_loaded() {
    let tool = Tool::new();
    fs::write(tool.path("bad.csv"), BAD_CSV).unwrap();
    let (code, said, object) = failure(&tool, &args("load", &tool.path("bad.csv"), &["--json"]));
    assert_eq!((code, &object["ok"], &object["records"]), (Some(1), &Value::from(false), &Value::from(2)), "{said}");
    assert!(said.contains("line 4: 1 fields instead of 2; 2 records before it were loaded"), "{said}");
    assert_eq!(tool.text(&["scan", "--keys-only"]), "1\n2\n");
}

#[test]
fn an_atomic_load_is_all_or_nothing() {
    let tool = Tool::new();
    fs::write(tool.path("bad.csv"), BAD_CSV).unwrap();
    let (code, said, object) = failure(&tool, &args("load", &tool.path("bad.csv"), &["--json", "--atomic"]));
    assert_eq!((code, &object["records"]), (Some(1), &Value::from(0)), "{said}");
    assert!(said.contains("nothing was loaded"), "{said}");
    assert!(!tool.path("store").exists(), "not even a store was made");
    let loaded = tool.ok(&args("load", &tool.path("bad.csv"), &["--atomic", "--skip-bad"]));
    assert_eq!(String::from_utf8(loaded).unwrap(), "loaded 3 records; skipped 1 bad row\n");
    assert_eq!(tool.text(&["scan", "--keys-only"]), "1\n2\n4\n");
}

#[test]
fn bad_rows_are_skipped_and_counted_in_every_format() {
    let long_key = "k".repeat(70_000);
    let csv = format!("{BAD_CSV}{long_key},e\n5,f\n");
    let jsonl = format!("{{\"id\":1}}\nnonsense\n{{\"name\":2}}\n[1]\n{{\"id\":{long_key:?}}}\n{{\"id\":3}}\n");
    for (name, content, good, bad) in
        [("in.csv", csv.as_str(), 4, 2), ("in.tsv", &csv.replace(',', "\t"), 4, 2), ("in.jsonl", &jsonl, 2, 4)]
    {
        let tool = Tool::new();
        fs::write(tool.path(name), content).unwrap();
        let output = tool.run(&args("load", &tool.path(name), &["--json", "--skip-bad", "--key", "id"]));
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&object["records"], &object["skipped"]), (&good.into(), &bad.into()), "{name}: {object}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().filter(|line| line.contains("skipped")).count() as i32, bad, "{said}");
        assert_eq!(tool.text(&["scan", "--keys-only"]).lines().count() as i32, good, "{name}");
    }
}

/// The csv crate takes the end of the file for the end of the field, so that all rows behind the quote were part of one value.
#[test]
fn a_quote_that_is_not_closed_is_a_bad_row() {
    for (name, content) in [("in.csv", "id,v\n1,a\n2,\"b\n3,c\n4,d\n"), ("in.tsv", "id\tv\n1\ta\n2\t\"b\n3\tc\n4\td\n")]
    {
        let tool = Tool::new();
        fs::write(tool.path(name), content).unwrap();
        let (code, said, object) = failure(&tool, &args("load", &tool.path(name), &["--json"]));
        assert_eq!((code, &object["records"]), (Some(1), &Value::from(1)), "{said}");
        assert!(said.contains("line 3: a quoted field is not closed before the end of the file"), "{said}");
        let loaded = tool.ok(&args("load", &tool.path(name), &["--skip-bad"]));
        assert_eq!(String::from_utf8(loaded).unwrap(), "loaded 1 record; skipped 1 bad row\n");
    }
}

#[test]
fn a_dump_ends_in_silence_when_its_reader_leaves() {
    let tool = Tool::new();
    let rows: String = (0..50_000).map(|n| format!("{n:06}\tvalue {n} of a row that fills the pipe\n")).collect();
    fs::write(tool.path("rows.tsv"), format!("key\tv\n{rows}")).unwrap();
    tool.ok(&args("load", &tool.path("rows.tsv"), &[]));
    for format in ["jsonl", "csv", "tsv"] {
        let mut dump = tool.command(&["dump", "-", "--format", format]);
        let mut child = dump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap(); // and the pipe is closed
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{format}: {output:?}");
    }
}
