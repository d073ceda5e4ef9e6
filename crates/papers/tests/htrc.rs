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

/// The scale at which an experiment is only tried out.
const TINY: [&str; 2] = ["--scale", "0.000001"];

#[test]
fn figures_4_to_6_have_their_lines_and_plots() {
    let plots = tempfile::tempdir().expect("a directory");
    let plots_in = ["--plots", plots.path().to_str().expect("a name in UTF-8")];
    let lines = |name| lines::lines(PROGRAM, "htrc", &[&[name][..], &TINY, &plots_in].concat());
    assert_eq!((lines("concurrent").len(), lines("queries").len()), (7, 9));
    assert_eq!(lines::lines(PROGRAM, "htrc", &[&["larger"][..], &TINY].concat()).len(), 3);
    for figure in ["figure4.svg", "figure6.svg"] {
        let text = std::fs::read_to_string(plots.path().join(figure)).expect("the figure is drawn");
        assert!(text.contains("schema 3"), "{figure}");
    }
}

#[test]
fn each_volume_of_a_workload_has_its_own_text() {
    let plots = tempfile::tempdir().expect("a directory");
    let plots_in = ["--plots", plots.path().to_str().expect("a name in UTF-8")];
    lines::passes(PROGRAM, "htrc", &[&["workload"][..], &TINY, &plots_in].concat(), &["_over_"]);
    for number in 7..=11 {
        let path = plots.path().join(format!("figure{number}.svg"));
        let text = std::fs::read_to_string(path).expect("the figure is drawn");
        assert!(text.contains("response time") && text.contains("CPU usage"), "figure {number}");
    }
}

#[test]
fn numbers_that_an_experiment_does_not_have_are_refused() {
    for arguments in [["htrc", "schema", "4"], ["htrc", "workload", "0"], ["htrc", "generate", "1"]] {
        let done = Command::new(PROGRAM).args(arguments).output().expect("the program starts");
        let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(4) && complaint.contains("number"), "{arguments:?}: {complaint}");
    }
}
