//! changes, cursor.

use serde_json::Value;

use crate::Tool;

fn rows(tool: &Tool, args: &[&str]) -> Vec<Value> {
    let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
    tool.text(&args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn changes_are_printed_after_a_cursor_until_it_moves() {
    let tool = Tool::new();
    tool.ok(&["put", "before", "1"]);
    assert_eq!(tool.code(&["changes"]), 2, "nothing keeps the log");
    assert_eq!(tool.code(&["changes", "--cursor", "copy"]), 2);
    let added = tool.json(&["cursor", "--add", "copy"]);
    assert_eq!(added["cursors"][0]["name"], "copy");
    tool.ok(&["put", "key", "a value"]);
    tool.ok(&["del", "key"]);
    tool.ok(&["delete-range", "--from", "a", "--to", "b"]);
    assert_eq!(
        tool.text(&["changes"]).lines().map(|line| line.split_once('\t').unwrap().1).collect::<Vec<_>>(),
        ["default\tput\tkey\ta value", "default\tdelete\tkey", "default\tdelete-range\ta\tb"]
    );
    let all = rows(&tool, &["changes", "--cursor", "copy"]);
    assert_eq!(all[0]["operation"], "put");
    assert_eq!((&all[0]["key"]["text"], &all[0]["value"]["text"]), (&"key".into(), &"a value".into()));
    assert_eq!((&all[0]["ends_commit"], all[0]["seal"].as_str().unwrap().len()), (&true.into(), 16));
    let first = all[0]["position"].as_str().unwrap();
    assert_eq!(rows(&tool, &["changes", "--since", first]), all[1..]);
    assert_eq!(rows(&tool, &["changes", "--follow", "--limit", "2"]), all[..2]);
    let last = all[2]["position"].as_str().unwrap();
    assert_eq!(tool.json(&["cursor", "--advance", "copy", "--to", last])["cursors"][0]["position"], last);
    assert!(rows(&tool, &["changes", "--cursor", "copy"]).is_empty());
    let unknown = format!("{}:1", "0".repeat(32));
    assert_eq!(tool.code(&["changes", "--since", &unknown]), 6);
    assert_eq!(tool.code(&["changes", "--since", "7"]), 1);
    assert_eq!(tool.code(&["cursor", "--remove", "other"]), 2);
    tool.ok(&["cursor", "--remove", "copy"]);
    assert_eq!(tool.json(&["cursor"])["cursors"], Value::Array(Vec::new()));
}
