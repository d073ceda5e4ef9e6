//! The experiments about the corpus store as a user calls them, tiny.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

use std::process::Command;

mod lines;

const PROGRAM: &str = env!("CARGO_BIN_EXE_waxseal-papers");

#[test]
fn each_name_of_the_papers_schemas_has_a_value() {
    lines::passes(PROGRAM, "htrc", &["schema"], &[]);
    let one = lines::lines(PROGRAM, "htrc", &["schema", "2"]);
    assert_eq!(one, [("PASS".to_owned(), "schema.2".to_owned())]);
}

#[test]
fn the_generated_collection_has_the_papers_counts() {
    lines::passes(PROGRAM, "htrc", &["generate", "--scale", "0.0001"], &[]);
}

#[test]
fn numbers_that_an_experiment_does_not_have_are_refused() {
    for arguments in [["htrc", "schema", "4"], ["htrc", "schema", "0"], ["htrc", "generate", "1"]] {
        let done = Command::new(PROGRAM).args(arguments).output().expect("the program starts");
        let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(4) && complaint.contains("number"), "{arguments:?}: {complaint}");
    }
}
