//! changes, cursor, follow.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use waxseal::{CfOptions, Db, MergeOperator, WriteOptions};

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

/// A consumer of the printed changes can keep labels, and drop values when they expire.
#[test]
fn changes_are_printed_with_expiry_and_labels() {
    let tool = Tool::new();
    tool.ok(&["put", "before", "0"]);
    tool.json(&["cursor", "--add", "copy"]);
    tool.ok(&["put", "plain", "1"]);
    tool.ok(&["put", "soon", "2", "--expires-at", "2100-01-01T00:00:00Z"]);
    let db = Db::open(tool.path("store")).unwrap();
    let labelled = WriteOptions::new().label("source", "import");
    db.column_family("default").unwrap().put_with("labelled", "3", labelled).unwrap();
    db.close().unwrap();
    tool.ok(&["del", "plain"]);
    let printed: Vec<[Value; 2]> =
        rows(&tool, &["changes"]).iter().map(|row| [row["expires_micros"].clone(), row["labels"].clone()]).collect();
    let none = [Value::Null, Value::Null];
    let expires = [4_102_444_800_000_000u64.into(), Value::Null];
    let labels = [Value::Null, serde_json::json!({ "source": "import" })];
    assert_eq!(printed, [none.clone(), expires, labels, none]);
}

/// Follows the store by the directory `copy`, until the copy is current.
pub(crate) fn follow_once(tool: &Tool, copy: &str) {
    tool.ok(&["follow", &tool.local("store"), &tool.local(copy), "--once"]);
}

/// Returns everything that the families of a store hold.
pub(crate) fn contents(tool: &Tool, store: &str) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let db = Db::open_read_only(tool.path(store)).unwrap();
    let mut all = Vec::new();
    for family in db.column_families() {
        if family.name().starts_with("waxseal.") {
            continue; // the position
        }
        for row in family.iter() {
            let (key, value) = row.unwrap();
            all.push((family.name().to_owned(), key.to_vec(), value.to_vec()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_copy_follows_its_store() {
    let tool = Tool::new();
    tool.ok(&["put", "before", "1"]);
    tool.ok(&["--cf", "counts", "merge", "--create", "add_i64", "visits", "5"]);
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
    tool.ok(&["put", "after", "2"]);
    tool.ok(&["del", "before"]);
    tool.ok(&["--cf", "counts", "merge", "visits", "7"]);
    tool.ok(&["--cf", "sums", "merge", "--create", "add_i64", "k", "1"]);
    tool.ok(&["--cf", "gone", "put", "k", "v"]);
    tool.ok(&["--cf", "new", "put", "a", "1"]);
    tool.ok(&["--cf", "new", "delete-range", "--from", "a", "--to", "b"]);
    tool.ok(&["--cf", "new", "put", "b", "2"]);
    tool.with_files(|files| files.write("dir-less", vec![7; 700_000]).unwrap());
    Db::open(tool.path("store")).unwrap().drop_column_family("gone").unwrap();
    for _ in 0..2 {
        follow_once(&tool, "copy"); // the second time there is nothing to do
        assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
    }
    let visits = Db::open_read_only(tool.path("copy")).unwrap().column_family("counts").unwrap().get("visits").unwrap();
    assert_eq!(visits.unwrap(), &12i64.to_le_bytes()[..]);
    let url = format!("waxseal://{}", tool.local("copy"));
    assert_eq!(tool.ok(&["fs", "cat", &format!("{url}/dir-less")]), vec![7; 700_000]);
    tool.ok(&["fs", "fsck", &url]);
    // A copy of the copy, whose first checkpoint has the copy's own position.
    tool.ok(&["follow", &tool.local("copy"), &tool.local("second"), "--once"]);
    tool.ok(&["put", "later", "3"]);
    follow_once(&tool, "copy");
    tool.ok(&["follow", &tool.local("copy"), &tool.local("second"), "--once"]);
    assert_eq!(contents(&tool, "second"), contents(&tool, "store"));
    // A copy that was restored or checkpointed by hand.
    Db::open(tool.path("store")).unwrap().checkpoint(tool.path("third")).unwrap();
    tool.ok(&["put", "last", "4"]);
    follow_once(&tool, "third");
    assert_eq!(contents(&tool, "third"), contents(&tool, "store"));
    // Files of its own would get the numbers of later ones of the source.
    let intruder = format!("waxseal://{}/intruder", tool.local("third"));
    assert_eq!(tool.code(&["fs", "newfile", &intruder]), 6);
    follow_once(&tool, "third");
    let mut release = Command::new(env!("CARGO_BIN_EXE_waxseal"));
    let third = tool.local("third");
    release.args(["-d", &third, "--cf", "waxseal.followed", "del", "position"]);
    assert!(release.status().unwrap().success());
    tool.ok(&["fs", "newfile", &intruder]);
}

/// Commits of the store's own families have positions, too. The cursor of the source never passes the copy.
#[test]
fn a_copy_is_as_far_as_its_cursor() {
    let tool = Tool::new();
    tool.ok(&["put", "k", "1"]);
    follow_once(&tool, "copy");
    tool.ok(&["register", "default", "Row.Delete"]);
    for number in 0..3 {
        follow_once(&tool, "copy");
        tool.ok(&["put", "k", &number.to_string()]);
        tool.ok(&["compact"]); // flushes, and lets go of the log before the cursor
    }
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
}

/// The options of a family that came and went are not known.
#[test]
fn a_family_that_came_and_went_is_left_out() {
    let tool = Tool::new();
    tool.ok(&["put", "k", "1"]);
    follow_once(&tool, "copy");
    tool.ok(&["--cf", "sums", "merge", "--create", "add_i64", "k", "1"]);
    Db::open(tool.path("store")).unwrap().drop_column_family("sums").unwrap();
    tool.ok(&["put", "k", "2"]);
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
    // It comes again without the operator, so that its first operand cannot be applied to it.
    tool.ok(&["--cf", "sums", "merge", "--create", "add_i64", "k", "1"]);
    Db::open(tool.path("store")).unwrap().drop_column_family("sums").unwrap();
    tool.ok(&["--cf", "sums", "put", "k", "plain"]);
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
}

/// A family without a change is not in the feed. The family of the indexes of a table without an index is one.
#[test]
fn families_without_changes_are_in_the_copy() {
    let names = |tool: &Tool, store| {
        let db = Db::open_read_only(tool.path(store)).unwrap();
        let names = db.column_families().iter().map(|family| family.name().to_owned()).collect::<Vec<_>>();
        names.into_iter().filter(|name| !name.starts_with("waxseal.")).collect::<Vec<_>>()
    };
    let tool = Tool::new();
    tool.ok(&["put", "k", "1"]);
    follow_once(&tool, "copy");
    tool.ok(&["table", "create", "k.books", "--partition-key", "id:text", "--column", "title:text"]);
    tool.ok(&["table", "insert", "k.books", "id=1", "title=Emma"]);
    Db::open(tool.path("store")).unwrap().create_column_family("empty", CfOptions::default()).unwrap();
    follow_once(&tool, "copy");
    assert_eq!(names(&tool, "copy"), names(&tool, "store"));
    let rows = tool.text(&["table", "select", "k.books"]);
    fs::rename(tool.path("store"), tool.path("source")).unwrap();
    fs::rename(tool.path("copy"), tool.path("store")).unwrap();
    assert_eq!(tool.text(&["table", "select", "k.books"]), rows);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let tool = Tool::new();
    let code = |source: &str, copy: &str| tool.code(&["follow", &tool.local(source), &tool.local(copy), "--once"]);
    assert_ne!(code("store", "copy"), 0, "no source");
    assert!(!tool.path("copy").exists());
    tool.ok(&["put", "k", "v"]);
    assert_eq!(code("store", "store"), 1);
    Db::open(tool.path("other")).unwrap().column_family("default").unwrap().put("k", "v").unwrap();
    assert_eq!(code("store", "other"), 1, "no copy");
    fs::create_dir(tool.path("taken")).unwrap();
    fs::write(tool.path("taken/file"), "").unwrap();
    assert_eq!(code("store", "taken"), 1);
    Db::open(tool.path("copy.follow-partial")).unwrap().column_family("default").unwrap().put("own", "v").unwrap();
    assert_eq!(code("store", "copy"), 1, "another store is in the way");
    Db::destroy(tool.path("copy.follow-partial")).unwrap();
    let writer = Db::open(tool.path("store")).unwrap();
    let refused = tool.run(&["follow", &tool.local("store"), &tool.local("copy"), "--once"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(5) && said.contains("waxseal serve"), "begun beside a writer: {said}");
    drop(writer);
    assert_eq!(code("store", "copy"), 0);
    // The log does not reach back to the copy.
    tool.ok(&["cursor", "--remove", "follow"]);
    tool.ok(&["put", "k", "w"]);
    let db = Db::open(tool.path("store")).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    assert_eq!(code("store", "copy"), 6);
    assert_eq!(contents(&tool, "copy")[0].2, b"v", "the copy stays");
}

/// A process that is killed and started again while others write. The operands show a change that is applied twice.
#[test]
fn a_killed_follower_applies_each_change_once() {
    let tool = Tool::new();
    let db = Db::open(tool.path("store")).unwrap();
    let options = CfOptions { merge_operator: Some(MergeOperator::add_i64()), ..CfOptions::default() };
    drop(db.create_column_family("counts", options).unwrap());
    db.close().unwrap();
    follow_once(&tool, "copy");
    let start = || -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waxseal"));
        command.args(["follow", &tool.local("store"), &tool.local("copy")]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("following from "), "{line}");
        child
    };
    let db = Db::open(tool.path("store")).unwrap();
    let counts = db.column_family("counts").unwrap();
    for round in 0..4u64 {
        let mut child = start();
        for number in 0..300 {
            counts.merge(format!("{}", number % 7), 1i64.to_le_bytes()).unwrap();
        }
        db.sync().unwrap();
        std::thread::sleep(Duration::from_millis(7 * round)); // not always at the same step
        child.kill().unwrap();
        child.wait().unwrap();
    }
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
}
