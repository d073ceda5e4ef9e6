//! Every experiment about seals as a user calls it, tiny: its lines have their shape, what is about right and wrong passes, and what
//! is about time may be undecided.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

use std::process::Command;

/// Runs an experiment; answers its lines (verdict, id) and its exit code.
fn lines(arguments: &[&str]) -> (Vec<(String, String)>, i32) {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("gates.json");
    let done = Command::new(env!("CARGO_BIN_EXE_waxseal-bench"))
        .arg("metahive")
        .args(arguments)
        .args(["--quick", "--dir"])
        .arg(dir.path())
        .arg("--json")
        .arg(&json)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
    let mut lines = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if matches!(words[0], "PASS" | "FAIL" | "INCONCLUSIVE") {
            assert_eq!(words.len(), 6, "{line}");
            assert!(words[3] == "-" || words[3].parse::<f64>().is_ok(), "{line}");
            assert!(words[5].parse::<f64>().is_ok(), "{line}");
            lines.push((words[0].to_owned(), words[1].to_owned()));
        }
    }
    assert!(!lines.is_empty(), "{arguments:?}: {text}{complaint}");
    let gates: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("the file is written")).expect("objects");
    assert_eq!(gates.as_array().map(Vec::len), Some(lines.len()));
    assert!(gates[0]["n"].is_u64() && gates[0]["scale"].is_f64(), "{gates}");
    let code = done.status.code().unwrap_or(-1);
    let has = |verdict: &str| lines.iter().any(|(found, _)| found == verdict);
    let expected = match (has("FAIL"), has("INCONCLUSIVE")) {
        (true, _) => 6,
        (false, true) => 7,
        (false, false) => 0,
    };
    assert_eq!(code, expected, "{text}{complaint}");
    (lines, code)
}

/// All lines of an experiment pass, but those that measure time.
fn passes(arguments: &[&str], timed: &[&str]) {
    let (lines, _) = lines(arguments);
    for (verdict, id) in &lines {
        let is_timed = timed.iter().any(|part| id.contains(part));
        assert!(verdict == "PASS" || is_timed, "{verdict} {id}");
    }
}

#[test]
fn what_is_right_or_wrong_passes() {
    passes(&["weak-xor", "--scale", "0.01"], &[]);
    passes(&["verdicts", "--scale", "0.01"], &[]);
    passes(&["adjacency", "--scale", "0.002"], &[]);
    passes(&["launder", "--scale", "0.005"], &[]);
    passes(&["hetero", "--scale", "0.01"], &[]);
}

#[test]
fn what_is_beside_a_seal_and_what_comes_back_passes() {
    passes(&["providers", "--scale", "0.005"], &["value_untouched"]);
    passes(&["conserve", "--scale", "0.002"], &["ledger"]);
    passes(&["repair", "--scale", "0.005"], &["time"]);
    passes(&["ablate", "--scale", "0.001"], &[]);
}

#[test]
fn injected_faults_are_told() {
    passes(&["faults", "--scale", "0.001"], &[]);
    // Counts are kept from run to run, and only what is asked for is injected.
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state.json");
    let state = state.to_str().expect("a readable path");
    for wanted in ["0.002", "0.004"] {
        passes(&["faults", "--scale", wanted, "--cells", "TableData/Value", "--state", state], &[]);
    }
    let counts: serde_json::Value = serde_json::from_slice(&std::fs::read(state).expect("written")).expect("objects");
    let cells = counts.as_object().expect("cells");
    assert_eq!(cells.len(), 4);
    for (cell, outcomes) in cells {
        let total: u64 = outcomes.as_object().expect("outcomes").values().filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(total, 4, "{cell}");
    }
}

#[test]
fn what_is_about_time_or_space_has_its_lines() {
    lines(&["table1", "--scale", "0.002"]);
    lines(&["space", "--scale", "0.002"]);
    lines(&["layout", "--scale", "0.002"]);
}
