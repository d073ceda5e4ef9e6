//! What every experiment's lines have in common: their shape, the file beside them, the exit code that follows from
//! them.

use std::process::Command;

/// Runs an experiment of a program; answers its lines (verdict, id).
pub(crate) fn lines(program: &str, verb: &str, arguments: &[&str]) -> Vec<(String, String)> {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("gates.json");
    let done = Command::new(program)
        .arg(verb)
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
    let has = |verdict: &str| lines.iter().any(|(found, _)| found == verdict);
    let expected = match (has("FAIL"), has("INCONCLUSIVE")) {
        (true, _) => 6,
        (false, true) => 7,
        (false, false) => 0,
    };
    assert_eq!(done.status.code(), Some(expected), "{text}{complaint}");
    lines
}

/// All lines of an experiment pass, but those that measure time or need another program.
pub(crate) fn passes(program: &str, verb: &str, arguments: &[&str], others: &[&str]) {
    for (verdict, id) in &lines(program, verb, arguments) {
        let is_other = others.iter().any(|part| id.contains(part));
        assert!(verdict == "PASS" || is_other, "{verdict} {id}");
    }
}
