//! Bad rows that `--skip-bad` skips and counts, and a dump whose reader leaves early.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;
use waxseal::{Db, TableWriter};

use crate::{Tool, args};

/// Three good rows, a bad one on line 4, a good one.
const BAD_CSV: &str = "id,name\n1,a\n2,b\n3\n4,d\n";

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

#[test]
fn rows_are_loaded_in_bulk_or_not_at_all() {
    let tool = Tool::new();
    fs::write(tool.path("in.csv"), "id,name\n2,b\n1,a\n2,c\n").unwrap();
    let output = tool.run(&args("load", &tool.path("in.csv"), &["--json", "--bulk"]));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["records"], 2, "{object}");
    assert_eq!(tool.text(&["scan", "--keys-only"]).lines().collect::<Vec<_>>(), ["1", "2"]);
    assert!(tool.text(&["get", "2"]).contains("\"c\""));
    fs::write(tool.path("bad.csv"), BAD_CSV).unwrap();
    assert_eq!(tool.code(&args("load", &tool.path("bad.csv"), &["--bulk"])), 1);
    assert_eq!(tool.text(&["scan", "--keys-only"]).lines().count(), 2, "a bad row cancels the load");
}

#[test]
fn table_files_are_ingested() {
    let tool = Tool::new();
    let path = tool.path("one.tbl");
    let file = tempfile::tempdir().unwrap();
    let made = Db::open(file.path()).unwrap();
    TableWriter::create(&path, &made.column_family("default").unwrap())
        .unwrap()
        .put("a", "1")
        .unwrap()
        .finish()
        .unwrap();
    drop(made);
    tool.ok(&args("ingest", &path, &["--move"]));
    assert_eq!(tool.text(&["get", "a"]), "1");
    assert!(!path.exists());
    fs::write(&path, "no table").unwrap();
    assert_eq!(tool.code(&args("ingest", &path, &[])), 3);
}
