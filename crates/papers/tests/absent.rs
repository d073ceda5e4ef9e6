//! Papers without experiments, as a user asks for them.

use std::process::Command;

#[test]
fn a_paper_without_experiments_names_those_that_have_some() {
    let program = env!("CARGO_BIN_EXE_waxseal-papers");
    let done = Command::new(program).args(["files", "table1", "--quick"]).output().expect("the program starts");
    let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("files") && complaint.contains("metahive, wasef, htrc"), "{complaint}");
}
