//! register, unregister, registrations, log, provenance, explain, lineage, as a user meets them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::json;

use super::Tool;

#[test]
fn explain_and_lineage_name_the_table_of_a_record() {
    let tool = Tool::new();
    tool.ok(&["--as", "alice", "--cf", "users", "put", "john", "33"]);
    tool.ok(&["register", "users", "Row.Update"]);
    tool.ok(&["register", "users.john", "Row.Delete"]);
    tool.ok(&["--as", "alice", "--cf", "users", "put", "john", "34"]);
    let known = tool.json(&["--cf", "users", "provenance", "john"]);
    assert_eq!((known["watched_by"].as_array().unwrap().len(), known["events"].as_array().unwrap().len()), (2, 1));
    tool.ok(&["--cf", "users", "compact"]);
    let known = tool.json(&["--cf", "users", "explain", "john"]);
    assert_eq!(known["value"], json!({ "text": "34" }));
    assert_eq!((&known["verdict"], &known["written"]["client"]), (&"validated".into(), &"alice".into()));
    let file = known["lies"]["file"].as_str().unwrap();
    assert!(tool.text(&["--cf", "users", "explain", "john"]).contains(file));
    assert!(tool.text(&["lineage", file]).contains("Engine."), "{file}");
    let uid = known["lies"]["uid"].as_str().unwrap();
    assert_eq!(tool.text(&["lineage", uid]), tool.text(&["lineage", file]));
}

#[test]
fn one_event_is_found_by_its_moment() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "before", "1"]);
    tool.ok(&["register", "users", "Row.Update", "--mode", "sync"]);
    tool.ok(&["--cf", "users", "put", "john", "33"]);
    tool.ok(&["--cf", "users", "put", "jane", "7"]);
    tool.ok(&["--cf", "users", "del", "john"]);
    let log = tool.text(&["log", "users", "--below"]);
    let moment = log.lines().nth(1).unwrap().split('\t').next().unwrap();
    assert_eq!(tool.text(&["log", "users", "--below", "--from", moment, "--to", moment]).lines().count(), 1);
    assert_eq!(tool.text(&["log", "users", "--below", "--to", "2001-01-01"]), "");
    assert!(tool.text(&["log", "--engine"]).lines().count() > 3, "what the engine did is told too");
    assert!(!tool.text(&["--cf", "system_metadata.log", "scan", "--keys-only"]).is_empty());
}

#[test]
fn nothing_of_an_event_is_lost_in_its_json() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "john", "33"]);
    tool.ok(&["register", "users", "*", "--mode", "sync"]);
    tool.ok(&["--cf", "users", "put", "john", "34"]);
    tool.ok(&["--cf", "users", "put", "jane", "35"]);
    // The last recovery flushed the family, and the log beside it.
    let recovered = tool.json(&["log", "engine:store", "Engine.Recover", "--latest"]);
    assert_eq!(recovered["payload"]["settings"]["family"], json!(["users", "system_metadata.log"]));
}

#[test]
fn a_watch_on_inserts_is_warned_of() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "john", "33"]);
    let warned = |args: &[&str]| {
        let output = tool.run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap().contains("Row.Write is every put")
    };
    assert!(warned(&["register", "users", "Row.Insert"]));
    assert!(tool.json(&["register", "users", "Row.Insert"])["warning"].as_str().unwrap().contains("log_as_insert"));
    tool.ok(&["--cf", "users", "put", "jane", "34"]);
    assert!(warned(&["log", "users", "Row.Insert"]), "it shows nothing, and says why");
    assert!(!warned(&["register", "users", "Row.Write"]));
    assert!(tool.json(&["register", "users", "Row.Write"])["warning"].is_null());
    tool.ok(&["--cf", "users", "put", "jane", "35"]);
    assert_eq!(tool.text(&["log", "users", "Row.Write"]).lines().count(), 1);
    assert!(!warned(&["log", "users", "Row.Write"]));
}

/// Client, operation and target of each line.
fn told(log: &str) -> Vec<[String; 3]> {
    let fields = |line: &str| -> Vec<String> { line.split('\t').map(str::to_owned).collect() };
    log.lines().map(fields).map(|fields| [fields[1].clone(), fields[2].clone(), fields[3].clone()]).collect()
}

#[test]
fn the_log_shows_what_users_did_by_time_and_the_engine_by_itself() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "x", "0"]);
    tool.ok(&["register", "engine:session", "*"]);
    tool.ok(&["register", "users", "*"]);
    for (key, value) in [("c", "1"), ("a", "2"), ("b", "3"), ("a", "4")] {
        tool.ok(&["--cf", "users", "put", key, value]);
    }
    tool.ok(&["--cf", "users", "del", "c"]);
    tool.ok(&["--cf", "users", "compact"]);
    let row = |operation: &str, key: &str| ["-".to_owned(), operation.to_owned(), format!("users.{key}")];
    let expected = [
        row("Row.Update", "c"),
        row("Row.Update", "a"),
        row("Row.Update", "b"),
        row("Row.Update", "a"),
        row("Row.Delete", "c"),
    ];
    let log = tool.text(&["log"]);
    assert_eq!(told(&log), expected, "no event of the engine");
    let times: Vec<&str> = log.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(log.lines().all(|line| line.contains("via=users")), "{log}");
    assert_eq!(told(&tool.text(&["log", "--limit", "2"])), expected[3..], "the newest, in their order");
    assert_eq!(told(&tool.text(&["log", "users", "--below", "--limit", "2"])), expected[3..]);
    assert_eq!(tool.text(&["log", "--limit", "0"]), "");
    assert_eq!(told(&tool.text(&["log", "--from", times[3]])), expected[3..]);

    let engine = told(&tool.text(&["log", "--engine"]));
    assert!(engine.iter().any(|[_, operation, _]| operation == "Engine.Compact"), "{engine:?}");
    assert!(
        engine.iter().all(|[_, operation, target]| operation.starts_with("Engine.") && target.starts_with("engine:"))
    );
    assert_eq!(tool.code(&["log", "users", "--engine"]), 1);
    let newest = told(&tool.text(&["log", "--engine", "--limit", "1"]));
    assert_eq!(newest[..], engine[engine.len() - 1..]);

    tool.ok(&["--as", "alice", "--cf", "users", "put", "d", "5"]);
    let last = told(&tool.text(&["log", "--limit", "2"]));
    assert_eq!(last[0][1], "Session.Open", "what users did to a part of the engine is theirs");
}

#[test]
fn the_log_goes_on_where_it_is_followed() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "x", "0"]);
    tool.ok(&["register", "users", "*"]);
    for key in ["a", "b", "c"] {
        tool.ok(&["--cf", "users", "put", key, "1"]);
    }
    let mut child = tool.command(&["log", "--follow", "--limit", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || told(&lines.next().unwrap().unwrap()).remove(0);
    assert_eq!(next()[2], "users.c", "older ones were not asked for");
    tool.ok(&["--as", "alice", "--cf", "users", "put", "d", "2"]);
    assert_eq!(next(), ["alice", "Row.Update", "users.d"]);
    tool.ok(&["--cf", "users", "del", "a"]);
    tool.ok(&["--cf", "users", "compact"]); // moves rows, and is no news
    tool.ok(&["--cf", "users", "put", "e", "3"]);
    assert_eq!(next()[1..], ["Row.Delete", "users.a"]);
    assert_eq!(next()[1..], ["Row.Update", "users.e"]);
    child.kill().unwrap();
    child.wait().unwrap();
}
