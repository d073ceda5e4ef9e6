//! register, unregister, registrations, log, provenance, explain, lineage, as a user meets them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::Tool;

#[test]
fn who_did_what() {
    let tool = Tool::new();
    assert_eq!(tool.code(&["registrations"]), 2, "no store");
    tool.ok(&["--cf", "users", "put", "before", "1"]);
    assert!(
        tool.text(&["--as", "alice", "register", "users", "Row.Update"]).starts_with("registered\tusers\tRow.Update")
    );
    assert!(tool.text(&["register", "users", "Row.Update"]).starts_with("changed\t"));
    let new =
        tool.json(&["register", "users.john", "Row.Delete", "--mode", "sync", "--values", "hash", "--retention", "60"]);
    assert_eq!(new["new"], true);
    assert_eq!(
        tool.text(&["registrations"]),
        "users\tRow.Update\tsubtree deferred\nusers.john\tRow.Delete\texact sync values=hash retention=60s\n"
    );
    tool.ok(&["--as", "alice", "--cf", "users", "put", "john", "33"]);
    tool.ok(&["--as", "bob", "--cf", "users", "put", "jane", "7"]);
    tool.ok(&["--cf", "users", "del", "john"]);

    let log = tool.text(&["log", "users"]);
    assert_eq!(log.lines().count(), 0, "nothing happened to the family itself: {log}");
    let log = tool.text(&["log", "users", "--below"]);
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split('\t').collect()).collect();
    let told: Vec<[&str; 3]> = lines.iter().map(|fields| [fields[1], fields[2], fields[3]]).collect();
    let expected =
        [["alice", "Row.Update", "users.john"], ["bob", "Row.Update", "users.jane"], ["-", "Row.Delete", "users.john"]];
    assert_eq!(told, expected);
    assert_eq!(tool.text(&["log", "users", "Row.Update"]).lines().count(), 2, "it never happens to the family itself");
    assert_eq!(tool.text(&["log", "users", "Row.Update", "--limit", "1"]).lines().count(), 1);
    assert_eq!(tool.text(&["log", "users", "--below", "--client", "alice"]).lines().count(), 1);
    assert_eq!(tool.text(&["log", "users", "--below", "--to", "2001-01-01"]), "");
    let moment = lines[1][0];
    assert_eq!(tool.text(&["log", "users", "--below", "--from", moment, "--to", moment]).lines().count(), 1);
    let latest = tool.json(&["log", "users.john", "--latest"]);
    assert_eq!((&latest["operation"], &latest["client"]), (&"Row.Delete".into(), &"-".into()));
    assert_eq!(tool.code(&["log", "users.nobody", "--latest"]), 2);
    let rows = tool.text(&["--json", "log", "--engine"]);
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 3, "what the engine did is told too");

    tool.ok(&["--as", "alice", "--cf", "users", "put", "john", "34"]);
    let known = tool.json(&["--cf", "users", "provenance", "john"]);
    assert_eq!((known["watched_by"].as_array().unwrap().len(), known["events"].as_array().unwrap().len()), (2, 3));
    tool.ok(&["--cf", "users", "compact"]);
    let known = tool.json(&["--cf", "users", "explain", "john"]);
    assert_eq!(known["value"], json!({ "text": "34" }));
    assert_eq!((&known["verdict"], &known["written"]["client"]), (&"validated".into(), &"alice".into()));
    let file = known["lies"]["file"].as_str().unwrap();
    assert!(tool.text(&["--cf", "users", "explain", "john"]).contains(file));
    assert!(tool.text(&["lineage", file]).contains("Engine."), "{file}");
    let uid = known["lies"]["uid"].as_str().unwrap();
    assert_eq!(tool.text(&["lineage", uid]), tool.text(&["lineage", file]));
    for missing in [&["lineage", "000999.tbl"][..], &["--cf", "users", "explain", "x"], &["provenance", "x"]] {
        assert_eq!(tool.code(missing), 2, "{missing:?}");
    }

    for wrong in [
        &["register", "nobody", "*"][..],
        &["register", "users", "Row.Upset"],
        &["register", "users"],
        &["register", "users", "Node.Decommission"],
        &["register", "default", "Engine.Flush"],
        &["register", "users", "Row.Write", "--exact"],
        &["log", "what:", "*"],
        &["log", "--from", "noon"],
        &["--cf", "system_metadata.log", "put", "a", "b"],
        &["register", "users", "*", "--values", "old-new", "--mode", "deferred"],
    ] {
        assert_eq!(tool.code(wrong), 1, "{wrong:?}");
    }
    assert!(!tool.text(&["--cf", "system_metadata.log", "scan", "--keys-only"]).is_empty());
    tool.ok(&["unregister", "users", "Row.Update"]);
    assert_eq!(tool.code(&["unregister", "users", "Row.Update"]), 2);
}

#[test]
fn what_is_registered_is_told_with_its_operation_and_options() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "john", "33"]);
    tool.ok(&["register", "cluster:", "Registry.Add", "--subtree"]);
    tool.ok(&["register", "cluster:", "Registry.Delete", "--subtree"]);
    tool.ok(&["--as", "alice", "register", "users", "*", "--exact"]);
    tool.ok(&["--as", "alice", "register", "users", "Row.Update", "--values", "new", "--retention", "60"]);
    tool.ok(&["--as", "bob", "unregister", "users", "*"]);
    assert_eq!(
        tool.text(&["registrations"]).lines().last(),
        Some("users\tRow.Update\tsubtree deferred values=new retention=60s")
    );
    let log = tool.text(&["--json", "log", "users"]);
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |event: &Value| json!([event["client"], event["operation"], event["payload"]["settings"]["operation"]]);
    assert_eq!(
        events.iter().map(told).collect::<Vec<_>>(),
        [
            json!(["alice", "Registry.Add", "*"]),
            json!(["alice", "Registry.Add", "Row.Update"]),
            json!(["bob", "Registry.Delete", "*"]),
        ]
    );
    let options = |scope, values, retention: Option<u64>| json!({ "scope": scope, "mode": "deferred", "values": values, "history": false, "retention_s": retention });
    assert_eq!(events[0]["payload"]["options"], options("exact", "none", None));
    assert_eq!(events[1]["payload"]["options"], options("subtree", "new", Some(60)));
    assert!(tool.text(&["log", "users"]).contains("operation=Row.Update"));

    tool.ok(&["--cf", "users", "put", "john", "34"]);
    assert_eq!(tool.text(&["log", "users.john"]).lines().count(), 1);
    assert_eq!(tool.code(&["register", "users", "*", "--exact", "--subtree"]), 1);
}

#[test]
fn the_family_alone_is_watched_if_that_is_said() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "john", "33"]);
    assert!(tool.text(&["register", "users", "*", "--exact"]).contains("\texact "));
    tool.ok(&["--cf", "users", "put", "john", "34"]);
    assert_eq!(tool.text(&["log", "users", "--below"]), "", "no key is watched");
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
fn names_are_text_also_where_keys_are_hexadecimal() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "john", "33"]);
    tool.ok(&["register", "users", "*", "--values", "new"]);
    tool.ok(&["--as", "alice", "--cf", "users", "put", "john", "34"]);
    let line = tool.text(&["--hex", "log", "users.john"]);
    assert!(line.contains("\talice\tRow.Update\tusers.john\t") && line.contains("new_value=3334"), "{line}");
}

#[test]
fn explain_shows_the_value() {
    let tool = Tool::new();
    let value = |key: &str| {
        let text = tool.text(&["explain", key]);
        text.lines().find_map(|line| line.strip_prefix("value").map(|rest| rest.trim().to_owned())).unwrap()
    };
    tool.ok(&["put", "short", "33"]);
    tool.ok(&["put", "long", &"x".repeat(100)]);
    tool.ok(&["put", "empty", ""]);
    assert_eq!(value("short"), "2 bytes, 33");
    assert_eq!(value("long"), format!("100 bytes, {}..", "x".repeat(80)));
    assert_eq!(value("empty"), "0 bytes");
}

#[test]
fn who_finds_nothing_is_told_where_more_is_if_there_is_more() {
    let tool = Tool::new();
    tool.ok(&["--cf", "users", "put", "john", "33"]);
    tool.ok(&["register", "users", "*"]);
    let said = |args: &[&str]| {
        let output = tool.run(args);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(said(&["log", "users"]), "", "there is nothing below it either");
    tool.ok(&["--cf", "users", "put", "john", "34"]);
    assert!(said(&["log", "users"]).contains("--below"));
    assert_eq!(said(&["log", "users", "--limit", "0"]), "", "nothing was asked for");
    assert_eq!(said(&["log", "users", "--to", "2001-01-01"]), "", "nothing below it is so old");
    assert_eq!(said(&["log", "users.jane"]), "", "nothing lies below a key");
    assert!(said(&["log", "users", "--below", "--from", "2002-01-01", "--to", "2001-01-01"]).contains("no moment"));
    assert_eq!(said(&["log", "users", "--below", "--from", "2200-01-01+1"]), "", "nothing is so late");
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
