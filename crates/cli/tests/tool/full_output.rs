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
fn help_that_cannot_be_printed_is_an_error() {
    let tool = Tool::new();
    for verb in [&["--help"][..], &["--version"], &["help"], &["help", "put"], &["put", "--help"], &["man", "--help"]] {
        tool.message_of_full(verb);
    }
}
