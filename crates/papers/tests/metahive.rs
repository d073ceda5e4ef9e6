//! Every experiment about seals as a user calls it, tiny: its lines have their shape, what is about right and wrong
//! passes, and what is about time may be undecided.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

mod lines;

const PROGRAM: &str = env!("CARGO_BIN_EXE_waxseal-papers");

/// Runs an experiment, and holds its lines to their shape.
fn lines(arguments: &[&str]) {
    lines::lines(PROGRAM, "metahive", arguments);
}

/// All lines of an experiment pass, but those that measure time or need another program.
fn passes(arguments: &[&str], others: &[&str]) {
    lines::passes(PROGRAM, "metahive", arguments, others);
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
