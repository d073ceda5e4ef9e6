//! Standard output that takes nothing, as on a full disk.

use std::fs::OpenOptions;
use std::process::Output;

use crate::Tool;

impl Tool {
    /// Runs a verb whose standard output is full. Returns its message.
    fn message_of_full(&self, args: &[&str]) -> String {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output: Output = self.command(args).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{args:?}: {said}");
        assert!(said.contains("standard output: "), "{args:?}: {said}");
        said
    }
}

#[test]
fn a_change_whose_result_is_not_printed_is_named() {
    let tool = Tool::new();
    for _ in 0..2 {
        let said = tool.message_of_full(&["add", "count", "5"]);
        assert!(said.ends_with("; the change was made\n"), "{said}");
    }
    assert_eq!(tool.ok(&["get", "count"]), 10i64.to_le_bytes());
    for verb in [
        &["--json", "add", "count"][..],
        &["--json", "put", "key", "value"],
        &["--json", "compare-and-set", "key", "value", "other"],
        &["--json", "del", "count"],
        &["--json", "delete-range", "--prefix", "x"],
        &["--json", "clear", "default"],
        &["--json", "--cf", "sums", "merge", "--create", "add_i64", "key", "1"],
        &["--json", "table", "create", "a.b", "--partition-key", "k:text"],
        &["--json", "table", "drop", "a.b"],
        &["--json", "fs", "mkdir", &tool.url("d")],
        &["--json", "fs", "rm", &tool.url("d")],
        &["--json", "backup", tool.path("backups").to_str().unwrap()],
        &["--json", "checkpoint", tool.path("copy").to_str().unwrap()],
    ] {
        assert!(tool.message_of_full(verb).contains("; the change was made"), "{verb:?}");
    }
}

#[test]
fn a_verb_that_changes_nothing_says_nothing_of_a_change() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    for verb in [&["get", "key"][..], &["scan"], &["stats"], &["pop"], &["pop", "--last"]] {
        assert!(!tool.message_of_full(verb).contains("change was made"), "{verb:?}");
    }
    assert_eq!(tool.text(&["scan"]), "key\tvalue\n", "pop has removed nothing");
}

#[test]
fn help_that_cannot_be_printed_is_an_error() {
    let tool = Tool::new();
    for verb in [&["--help"][..], &["--version"], &["help"], &["help", "put"], &["put", "--help"], &["man", "--help"]] {
        tool.message_of_full(verb);
    }
}
