//! The tool on a store of more tables than the process may have files open.

use std::process::Output;

use waxseal::{CfOptions, Compression, Db};

use crate::{Command, Tool};

const ROWS: usize = 3000;

/// A store of some hundred tables.
fn store_of_many_tables(tool: &Tool) {
    let (block_bytes, table_bytes, compression) = (1024, 4096, Compression::None);
    let options = CfOptions { block_bytes, table_bytes, compression, ..CfOptions::default() };
    let db = Db::builder(tool.path("store")).column_family("default", options).open().unwrap();
    let family = db.column_family("default").unwrap();
    // Two tables that overlap, so that compaction does not just move one.
    for parity in 0..2 {
        for n in (parity..ROWS).step_by(2) {
            family.put(format!("key-{n:05}"), format!("value-{n:05}").repeat(40)).unwrap();
        }
        db.flush().unwrap();
    }
    family.compact().unwrap();
    db.close().unwrap();
}

/// Runs the tool in a process that may open `files` files.
fn run_with(tool: &Tool, files: usize, args: &[&str]) -> Output {
    let command = tool.command(args);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {files} && exec \"$0\" \"$@\"")).arg(command.get_program());
    shell.args(command.get_args()).output().unwrap()
}

#[test]
fn every_verb_works_with_few_descriptors() {
    let tool = Tool::new();
    store_of_many_tables(&tool);
    let tables = std::fs::read_dir(tool.path("store")).unwrap();
    let tables = tables.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tbl")).count();
    assert!(tables > 100, "{tables}");
    let dump = ["dump", "-", "--format", "tsv"];
    let verbs =
        [&["get", "key-02999"][..], &["stats"], &["levels"], &["scan"], &["verify"], &dump, &["compact"], &["scan"]];
    for args in verbs {
        let output = run_with(&tool, 64, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        if args == ["scan"] {
            assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), ROWS);
        }
    }
}
