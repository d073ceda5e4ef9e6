//! The experiments as a user calls them: through the program, with its exit codes. Small, and on stores that every
//! build has.
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

/// Two histories are too few for a verdict; a finding would fail.
#[test]
fn histories_of_transactions_are_serializable() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().join("histories");
    let done = bench(&["histories", "--rounds", "2", "--dir", store.to_str().expect("a readable path")]);
    assert_eq!(done.status.code(), Some(7), "{} {}", text(&done.stdout), text(&done.stderr));
    assert!(!text(&done.stdout).contains(" 0 transactions committed"), "{}", text(&done.stdout));
    assert!(!store.exists());
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

/// Everything but the size: all suites, all lines, the files beside them. Peers of this build, if it has any.
#[test]
fn peers_judge_every_row_and_leave_tables_and_plots() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("a readable path").to_owned();
    let settings = include_str!("../peers.toml");
    let quick = settings.split_once("[quick]").expect("both sizes").0.to_owned()
        + "[quick]\nrounds = 1\nrecords = 2_000\nthreads = [2]\nlarge_mib = 4\nload_mib = 1\nrecover_mib = 1\ntables = 4\n\
           table_kib = 64\ngrowth = [1_000, 2_000]\nbudget_mib = 4\nbeyond = 2_000\nmixed_seconds = 3\nwindow_seconds = 1\n";
    std::fs::write(at("settings.toml"), quick).expect("written");
    let (settings, json, out, stores) = (at("settings.toml"), at("gates.json"), at("out"), at("stores"));
    let done = bench(&["peers", "--quick", "--settings", &settings, "--json", &json, "--out", &out, "--dir", &stores]);
    let text_of = |path: &str| std::fs::read_to_string(path).expect("written");
    let said = text(&done.stdout);
    assert!(matches!(done.status.code(), Some(6 | 7)), "{said}{}", text(&done.stderr));
    let gates: serde_json::Value = serde_json::from_str(&text_of(&json)).expect("objects");
    let gates = gates.as_array().expect("an array");
    for id in ["fillrandom", "fillsync_64", "queue", "cold.open", "recover.open", "tables.open", "long.p999", "memory"]
    {
        assert!(gates.iter().any(|gate| gate["id"] == id), "{id}: {said}");
        assert!(said.lines().any(|line| line.split(' ').nth(1) == Some(id)), "{id}: {said}");
    }
    let steps = text_of(&format!("{out}/rounds.json"));
    for label in ["recover.open", "20k.readseq", "ycsbf", "queue/2", "long.mixed/2", "grow2000.seekrandom"] {
        assert!(steps.contains(&format!("\"label\": \"{label}\"")), "{label}");
    }
    assert!(text_of(&format!("{out}/tables.md")).contains("| readrandom "));
    assert!(text_of(&format!("{out}/growth_readrandom.svg")).contains("waxseal"));
    assert!(!dir.path().join("stores").exists(), "what was made goes");
}

/// Small sizes decide nothing; every part is measured.
#[cfg(feature = "tables")]
#[test]
fn tables_are_measured_beside_the_engine_and_sqlite() {
    let done = bench(&["tables", "--scale", "0.001"]);
    let (lines, errors) = (text(&done.stdout), text(&done.stderr));
    assert!(matches!(done.status.code(), Some(0 | 6 | 7)), "{lines}{errors}");
    let gates = lines.lines().filter(|line| line.contains(" tables.")).collect::<Vec<_>>();
    assert_eq!(gates.len(), 12, "{lines}");
    assert!(gates.iter().all(|gate| !gate.contains(" - ")), "{lines}");
}
