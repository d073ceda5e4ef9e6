//! The experiments as a user calls them: through the program, with its exit codes. Small, and on stores that every build has.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_waxseal-bench")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn run_prints_an_object_a_step() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().to_str().expect("a readable path");
    let done = bench(&[
        "run",
        "--engine",
        "null",
        "--bench",
        "fillrandom,settle,ycsba",
        "--num",
        "1000",
        "--json",
        "--dir",
        dir,
    ]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let lines: Vec<serde_json::Value> =
        text(&done.stdout).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let benches: Vec<&str> = lines.iter().filter_map(|line| line["bench"].as_str()).collect();
    assert_eq!(benches, ["fillrandom", "settle", "ycsba"]);
    assert_eq!(lines[0]["ops"], 1000);
}

/// The loop can fail: a store that keeps nothing has lost all it acknowledged.
#[test]
fn a_store_that_keeps_nothing_fails_the_kill_loop() {
    let dir = tempfile::tempdir().expect("a directory");
    let gates = dir.path().join("gates.json");
    let done = bench(&[
        "killloop",
        "--engine",
        "null",
        "--rounds",
        "5",
        "--dir",
        dir.path().join("store").to_str().expect("a readable path"),
        "--json",
        gates.to_str().expect("a readable path"),
    ]);
    assert_eq!(done.status.code(), Some(6), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("FAIL killloop.lost acknowledged_operations"), "{}", text(&done.stdout));
    let gates: serde_json::Value = serde_json::from_slice(&std::fs::read(gates).expect("written")).expect("objects");
    assert_eq!(gates[0]["verdict"], "FAIL");
}

#[cfg(feature = "peers")]
#[test]
fn flips_are_counted_by_kind_of_file_and_prove_nothing_about_a_store_that_is_absent() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("work");
    let done = bench(&["flip", "--engines", "fjall", "--trials", "9", "--dir", dir.to_str().expect("a readable path")]);
    let out = text(&done.stdout);
    assert_eq!(done.status.code(), Some(7), "{out}{}", text(&done.stderr));
    let counted: u64 = out
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .flat_map(|line| line.as_object().cloned().unwrap_or_default())
        .filter(|(name, _)| name != "records_lost_median")
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    assert_eq!(counted, 9, "{out}");
}
