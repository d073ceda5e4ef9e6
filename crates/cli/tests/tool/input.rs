//! Input without an end: a line above the limit ends a verb with an error that names it.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use serde_json::Value;

use crate::{Tool, args};

/// Makes a file of these lines and a line of 300 MiB, which takes no room.
fn with_endless_line(path: &Path, lines: &str) {
    fs::write(path, lines).unwrap();
    OpenOptions::new().write(true).open(path).unwrap().set_len(300 << 20).unwrap();
}

#[test]
fn a_load_ends_at_a_line_above_the_limit_and_keeps_the_rows_before() {
    let tool = Tool::new();
    with_endless_line(&tool.path("in.jsonl"), "{\"id\":1}\n\n{\"id\":2}\n");
    for more in [&["--key", "id"][..], &["--key", "id", "--skip-bad"]] {
        let output = tool.run(&args("load", &tool.path("in.jsonl"), &[&["--json"], more].concat()));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = said["error"]["message"].as_str().unwrap();
        assert_eq!((output.status.code(), &said["records"]), (Some(1), &2.into()), "{said}");
        let fault = "in.jsonl: line 4: longer than 256 MiB, the limit of a line; 2 records before it were loaded";
        assert!(message.ends_with(fault), "{message}");
    }
    assert_eq!(tool.text(&["scan", "--keys-only"]), "1\n2\n");
    tool.ok(&["--cf", "other", "put", "key", "value"]);
    let atomic = ["--atomic", "--key", "id", "--cf", "other"];
    assert_eq!(tool.code(&args("load", &tool.path("in.jsonl"), &atomic)), 1);
    assert_eq!(tool.text(&["--cf", "other", "scan", "--keys-only"]), "key\n");
}

#[test]
fn rows_of_standard_input_end_at_a_line_above_the_limit() {
    let tool = Tool::new();
    tool.ok(&["table", "create", "a.b", "--partition-key", "k:text"]);
    with_endless_line(&tool.path("rows"), "{\"k\":\"1\"}\n");
    let mut insert = tool.command(&["table", "insert", "a.b"]);
    let output = insert.stdin(File::open(tool.path("rows")).unwrap()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard input: line 2: longer than 256 MiB"), "{said}");
    assert!(said.contains("1 row before it was imported"), "{said}");
    assert_eq!(tool.json(&["table", "select", "a.b"])["k"], "1");
}

#[test]
fn the_shell_ends_at_a_line_above_the_limit() {
    let tool = Tool::new();
    with_endless_line(&tool.path("lines"), "mkdir d\n");
    let mut shell = tool.command(&["fs", "shell", &tool.url("")]);
    let output = shell.stdin(File::open(tool.path("lines")).unwrap()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard input: line 2: longer than 256 MiB"), "{said}");
    assert_eq!(tool.text(&["fs", "ls", &tool.url("")]).trim_end(), "d/");
}
