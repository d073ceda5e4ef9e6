//! The tool as a user meets it: verbs, exit codes, formats, trees that come back, and the tour.

#![expect(clippy::disallowed_methods, reason = "the tests make the files that the tool reads")]

mod backups;
mod changes;
mod descriptors;
mod edges;
mod exchange;
mod files;
#[cfg(target_os = "linux")]
mod full_output;
mod input;
mod loads;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(all(feature = "mount", target_os = "linux"))]
mod mount;
mod overview;
mod registry;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "sql")]
mod sql;
mod tables;
mod transcripts;

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;
use waxseal::{CfOptions, Db, TableProperty, WriteOptions};

struct Tool {
    dir: TempDir,
}

impl Tool {
    fn new() -> Tool {
        Tool { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waxseal"));
        command.arg("-d").arg(self.path("store")).args(args);
        command
    }

    fn run(&self, args: &[impl AsRef<OsStr>]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a verb that must succeed; what it printed.
    fn ok(&self, args: &[impl AsRef<OsStr>]) -> Vec<u8> {
        let output = self.run(args);
        assert!(output.status.success(), "{:?}", output);
        output.stdout
    }

    fn text(&self, args: &[impl AsRef<OsStr>]) -> String {
        String::from_utf8(self.ok(args)).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.ok(&[&["--json"], args].concat())).unwrap()
    }

    fn code(&self, args: &[impl AsRef<OsStr>]) -> i32 {
        self.run(args).status.code().unwrap()
    }
}

#[test]
fn exit_codes() {
    let tool = Tool::new();
    // 1: usage
    assert_eq!(tool.code(&["nonsense"]), 1);
    assert_eq!(tool.code(&["put", "key"]), 1);
    assert_eq!(tool.code(&["--hex", "put", "xyz", "00"]), 1);
    let without_store = Command::new(env!("CARGO_BIN_EXE_waxseal")).args(["get", "key"]).output().unwrap();
    assert_eq!(without_store.status.code(), Some(1));
    assert_eq!(tool.code(&["--help"]), 0);
    assert_eq!(tool.code(&["--version"]), 0);
    // 2: not found
    assert_eq!(tool.code(&["delete-range"]), 1);
    assert_eq!(tool.code(&["delete-range", "--prefix", ""]), 1);
    let delete_all = &["delete-range", "--all"][..];
    for verb in [
        &["get", "key"][..],
        &["scan"],
        &["del", "key"],
        delete_all,
        &["clear", "users"],
        &["levels"],
        &["stats"],
        &["compact"],
    ] {
        assert_eq!(tool.code(verb), 2, "{verb:?}");
    }
    for verb in [&["mount", &tool.local("store"), "/proc"][..], &["serve", &tool.local("store")]] {
        assert_eq!(tool.code(verb), 2, "{verb:?}");
    }
    assert_eq!(tool.code(&["follow", &tool.local("store"), &tool.local("copy"), "--once"]), 2);
    assert!(!tool.path("store").exists(), "looking makes no store");
    fs::create_dir(tool.path("store")).unwrap();
    assert_eq!(tool.code(&["del", "key"]), 2);
    assert_eq!(fs::read_dir(tool.path("store")).unwrap().count(), 0, "nor a file where there is none");
    tool.ok(&["put", "key", "value"]);
    assert_eq!(tool.code(&["--cf", "none", "scan"]), 2);
    let missing = tool.run(&["--json", "get", "none"]);
    assert_eq!(missing.status.code(), Some(2));
    let object: Value = serde_json::from_slice(&missing.stdout).unwrap();
    assert_eq!((&object["ok"], &object["error"]["kind"]), (&Value::from(false), &Value::from("not found")));
    // 4: I/O
    let absent = tool.path("absent");
    assert_eq!(tool.code(&[OsStr::new("put"), OsStr::new("key"), OsStr::new("--file"), absent.as_os_str()]), 4);
    // 5: locked
    let db = Db::open(tool.path("store")).unwrap();
    assert_eq!(tool.code(&["put", "key", "other"]), 5);
    assert_eq!(tool.ok(&["get", "key"]), b"value", "reading goes on beside a writer");
    drop(db);
    tool.ok(&["put", "key", "other"]);
    // 3: corruption
    fs::write(tool.path("store").join("CURRENT"), "garbage").unwrap();
    assert_eq!(tool.code(&["get", "key"]), 3);
}

/// A creation that was killed leaves no store.
#[test]
fn half_a_store_is_none() {
    let tool = Tool::new();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("ulimit -c 0; ulimit -f 20 && exec \"$0\" \"$@\"").arg(env!("CARGO_BIN_EXE_waxseal"));
    assert!(!shell.arg("-d").arg(tool.path("store")).args(["put", "k", "v"]).status().unwrap().success());
    assert!(tool.path("store/CURRENT").exists());
    for verb in [&["get", "k"][..], &["verify"], &["fs", "ls", &tool.url("")]] {
        assert_eq!(tool.code(verb), 2, "{verb:?}");
    }
    tool.ok(&["put", "k", "v"]);
}

/// A shell starts a process without standard streams for `>&-` and `<&-`.
#[test]
fn a_closed_stream_is_no_empty_one() {
    let tool = Tool::new();
    tool.ok(&["put", "k", "v"]);
    let run = |redirected: &str, args: &[&str]| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec \"$0\" -d \"$@\" {redirected}")).arg(env!("CARGO_BIN_EXE_waxseal"));
        let output = shell.arg(tool.path("store")).args(args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for args in [&["pop"][..], &["get", "k"], &["scan"], &["--json", "stats"], &["--help"]] {
        let (code, said) = run(">&-", args);
        assert!(code == 4 && said.contains("standard output is closed"), "{args:?}: {code} {said}");
    }
    for args in [&["put", "k", "-"][..], &["fs", "put", "-", &tool.url("f")], &["load", "-", "--format", "tsv"]] {
        let (code, said) = run("<&-", args);
        assert!(code == 4 && said.contains("standard input is closed"), "{args:?}: {code} {said}");
    }
    assert_eq!(tool.ok(&["get", "k"]), b"v");
    assert_eq!(run("<&- >/dev/null", &["get", "k"]).0, 0);
    assert_eq!(run(">/dev/null 2>&-", &["pop"]).0, 0);
    assert_eq!(run("</dev/null", &["put", "k", "-"]).0, 0);
    assert_eq!(tool.ok(&["get", "k"]), b"");
}

#[test]
fn a_change_depends_on_the_value() {
    let tool = Tool::new();
    assert_eq!(tool.code(&["compare-and-set", "job", "waiting", "running"]), 2, "no store");
    tool.ok(&["put", "--if-absent", "job", "waiting"]);
    assert_eq!(tool.code(&["put", "--if-absent", "job", "again"]), 6);
    tool.ok(&["compare-and-set", "job", "waiting", "running"]);
    let failed = tool.run(&["--json", "compare-and-set", "job", "waiting", "running"]);
    let object: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!((failed.status.code(), &object["error"]["kind"]), (Some(6), &"check failed".into()));
    assert_eq!(tool.run(&["get", "job"]).stdout, b"running");
    tool.ok(&["compare-and-set", "job", "running"]);
    assert_eq!(tool.code(&["get", "job"]), 2);
    assert_eq!(tool.run(&["add", "count"]).stdout, b"1\n");
    assert_eq!(tool.run(&["add", "count", "-3"]).stdout, b"-2\n");
    let sum: Value = serde_json::from_slice(&tool.run(&["--json", "add", "count", "10"]).stdout).unwrap();
    assert_eq!((&sum["before"], &sum["after"]), (&Value::from(-2), &Value::from(8)));
    assert_eq!(tool.code(&["add", "count", "9223372036854775807"]), 1);
    assert_eq!(tool.run(&["get", "count"]).stdout, 8i64.to_le_bytes());
}

#[test]
fn operands_are_merged_into_a_value() {
    let tool = Tool::new();
    let merge = |family: &str, rest: &[&str]| tool.code(&[&["--cf", family, "merge"], rest].concat());
    assert_eq!(merge("counts", &["k", "1"]), 2, "no store");
    assert_eq!(merge("counts", &["--create", "sum", "k", "1"]), 1);
    assert_eq!(merge("counts", &["--create", "add_i64", "k", "ten"]), 1);
    assert!(!tool.path("store").exists(), "nothing is created for an operand that is refused");
    assert_eq!(merge("counts", &["--create", "add_i64", "k", "5", "-7"]), 0);
    assert_eq!(merge("counts", &["k", "10"]), 0);
    assert_eq!(tool.run(&["--cf", "counts", "get", "k"]).stdout, 8i64.to_le_bytes());
    assert_eq!(merge("counts", &["k", "ten"]), 1);
    assert_eq!(merge("counts", &["--create", "max", "k", "1"]), 1, "another operator");
    assert_eq!(merge("none", &["k", "1"]), 2);
    assert_eq!(merge("tags", &["--create", "append:, ", "k", "a", "b"]), 0);
    assert_eq!(tool.run(&["--cf", "tags", "get", "k"]).stdout, b"a, b");
    assert_eq!(merge("sets", &["--create", "union", "k", "b", "a", "b"]), 0);
    assert_eq!(tool.run(&["--cf", "sets", "get", "k"]).stdout, b"\x01a\x01b");
    tool.ok(&["put", "key", "value"]);
    assert_eq!(tool.code(&["merge", "key", "1"]), 1, "no operator");
}

#[test]
fn a_new_store_has_the_operator_from_its_first_moment_on() {
    let tool = Tool::new();
    let long = format!("append:{}", ",".repeat(200));
    assert_ne!(tool.code(&["merge", "--create", &long, "k", "1"]), 0);
    assert!(!tool.path("store").exists(), "nothing is created for an operator that is refused");
    tool.ok(&["merge", "--create", "add_i64", "visits", "5"]);
    assert_eq!(tool.run(&["get", "visits"]).stdout, 5i64.to_le_bytes());
}

#[test]
fn records_are_popped_from_both_ends() {
    let tool = Tool::new();
    for (key, value) in [("1", "paint"), ("2", "dry"), ("3", "sell")] {
        tool.ok(&["put", key, value]);
    }
    assert_eq!(tool.run(&["pop"]).stdout, b"1\tpaint\n");
    assert_eq!(tool.run(&["pop", "--last"]).stdout, b"3\tsell\n");
    let row: Value = serde_json::from_slice(&tool.run(&["--json", "pop"]).stdout).unwrap();
    assert_eq!(row["key"]["text"], "2");
    assert_eq!(tool.code(&["pop"]), 2);
}

/// A record that expires after `pop` has printed it, while the reader makes the tool wait, costs no other record.
#[test]
fn pop_removes_only_the_record_that_it_printed() {
    for (verb, popped, next) in [(&["pop"][..], "a", "b"), (&["pop", "--last"], "b", "a")] {
        let tool = Tool::new();
        tool.ok(&["put", next, "precious"]);
        // A slow tool may see the record only when it has expired already. Then it pops the other one, and the next
        // attempt has more time.
        let mut first = [0];
        for seconds in [1, 4, 16, 64] {
            let expiry = SystemTime::now() + Duration::from_secs(seconds);
            let db = Db::open(tool.path("store")).unwrap();
            let cf = db.column_family("default").unwrap();
            cf.put(next, "precious").unwrap();
            let value = vec![b'x'; 1 << 20]; // more than a pipe holds
            cf.put_with(popped, value, WriteOptions::new().expires_at(expiry)).unwrap();
            db.close().unwrap();
            let mut child = tool.command(verb).stdout(Stdio::piped()).spawn().unwrap();
            let mut row = child.stdout.take().unwrap();
            row.read_exact(&mut first).unwrap();
            while let Ok(left) = expiry.duration_since(SystemTime::now()) {
                thread::sleep(left + Duration::from_millis(1));
            }
            std::io::copy(&mut row, &mut std::io::sink()).unwrap();
            assert!(child.wait().unwrap().success());
            if first == popped.as_bytes() {
                break;
            }
        }
        assert_eq!(&first, popped.as_bytes());
        assert_eq!(tool.text(&["scan"]), format!("{next}\tprecious\n"), "{verb:?}");
    }
}

#[test]
fn chosen_tables_are_compacted() {
    let tool = Tool::new();
    let tables = || {
        let names = fs::read_dir(tool.path("store")).unwrap().map(|entry| entry.unwrap().file_name());
        let number = |name: &str| name.strip_suffix(".tbl").map(|number| number.parse::<u64>().unwrap().to_string());
        names.filter_map(|name| number(name.to_str().unwrap())).collect::<Vec<_>>()
    };
    tool.ok(&["put", "key", "value"]);
    tool.ok(&["compact"]);
    let before = tables();
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(tool.code(&["compact", "--file", &before[0], "--file", "999999"]), 1, "no such table");
    assert_eq!(tables(), before);
    let done = tool.json(&["compact", "--file", &before[0]]);
    assert_eq!((&done["ok"], &done["levels"][1]["entries"]), (&true.into(), &1.into()), "{done}");
    assert!(!tables().contains(&before[0]), "{:?}", tables());
    // Tables that were written without a property may have any item of it.
    let before = tables();
    tool.ok(&["compact", "--with", "columns=x"]);
    assert!(!tables().contains(&before[0]), "{:?}", tables());
    assert_ne!(tool.code(&["compact", "--with", "columns"]), 0, "no item");
    assert_eq!(tool.text(&["get", "key"]), "value");
    // Of tables with the property, only those with the item are compacted.
    let columns = TableProperty::new("columns", |_, value, add| {
        add(value);
        Ok(())
    });
    let db = Db::open(tool.path("store")).unwrap();
    let options = CfOptions { table_properties: vec![columns], ..CfOptions::default() };
    let rows = db.create_column_family("rows", options).unwrap();
    for (key, value) in [("a", "x"), ("b", "columns")] {
        rows.put(key, value).unwrap();
        db.flush().unwrap();
    }
    let of = |item: &str| rows.files_with("columns", item).unwrap()[0].number.to_string();
    let (x, other) = (of("x"), of("columns"));
    drop(rows);
    db.close().unwrap();
    tool.ok(&["--cf", "rows", "compact", "--with", "columns=x"]);
    let left = tables();
    assert!(!left.contains(&x) && left.contains(&other), "{x} {other} {left:?}");
}

/// A table that the operating system does not give is told apart from one that is damaged: a link to itself cannot be
/// opened.
#[test]
fn verify_tells_what_it_could_not_read() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    tool.ok(&["compact"]);
    let mut paths = fs::read_dir(tool.path("store")).unwrap().map(|entry| entry.unwrap().path());
    let table = paths.find(|path| path.extension().is_some_and(|kind| kind == "tbl")).unwrap();
    let bytes = fs::read(&table).unwrap();
    fs::remove_file(&table).unwrap();
    symlink(&table, &table).unwrap();
    let output = tool.run(&["--json", "verify"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{report}");
    assert_eq!((&report["unread"], &report["lost"], &report["ok"]), (&1.into(), &0.into(), &false.into()));
    assert_eq!((&report["damage"][0]["verdict"], &report["damage"][0]["outcome"]), (&"io".into(), &"not read".into()));
    fs::remove_file(&table).unwrap();
    assert_eq!(tool.code(&["verify"]), 3, "one that is gone is lost");
    fs::write(&table, bytes).unwrap();
    tool.ok(&["verify"]);
}

#[test]
fn whoever_has_seen_enough_may_leave() {
    let tool = Tool::new();
    fs::write(tool.path("big"), vec![b'x'; 4 << 20]).unwrap();
    tool.ok(&[OsStr::new("put"), OsStr::new("key"), OsStr::new("--file"), tool.path("big").as_os_str()]);
    let mut child = tool.command(&["get", "key"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

/// What was found is in the exit code, whether or not anybody reads the report.
#[test]
fn damage_that_nobody_reads_of_is_damage() {
    let tool = Tool::new();
    tool.damage(2000, |bytes| bytes[..40].fill(0xA5));
    let copy = tool.path("copy");
    let copy = copy.to_str().unwrap();
    for verb in [&["verify"][..], &["--json", "verify"], &["scrub"], &["salvage", copy], &["repair"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = tool.command(verb).stdout(writer).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(3), "{verb:?}");
    }
}

#[test]
fn the_store_as_a_whole() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    tool.ok(&["compact"]);
    let levels = tool.json(&["levels"]);
    assert!(levels["levels"].is_array());
    for level in levels["levels"].as_array().unwrap() {
        for field in ["level", "tables", "bytes", "target_bytes"] {
            assert!(level[field].is_u64(), "{field}");
        }
    }
    assert!(tool.text(&["levels"]).starts_with("level"));
    let families = |options: &[&str]| {
        let families = tool.json(options)["families"].as_array().unwrap().clone();
        families.into_iter().map(|family| family["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(families(&["stats"]), ["default"]);
    assert_eq!(families(&["stats", "--all"])[..2], ["default", "system_metadata.registry"]);
    assert!(!tool.text(&["stats"]).contains("system_metadata"));
    assert!(tool.text(&["stats", "--all"]).contains("system_metadata.sessions"));
    assert!(tool.text(&["stats"]).contains("integrity: no known damage"));
    let rows = tool.json(&["stats", "--rows"])["families"][0]["rows"].as_u64().unwrap();
    assert_eq!(tool.json(&["stats"])["families"][0]["approximate_rows"], rows);
    assert!(tool.text(&["stats"]).contains(&format!("family default  about {rows} row")));

    let copy = tool.path("copy");
    tool.ok(&[OsStr::new("checkpoint"), copy.as_os_str()]);
    tool.ok(&["put", "key", "later"]);
    let output =
        Command::new(env!("CARGO_BIN_EXE_waxseal")).arg("-d").arg(&copy).args(["get", "key"]).output().unwrap();
    assert_eq!(output.stdout, b"value");
}

impl Tool {
    /// Stores `records` keys, and changes the bytes in the middle of the table that they are in.
    fn damage(&self, records: usize, change: impl FnOnce(&mut [u8])) -> String {
        let rows: String = (0..records).map(|n| format!("k{n:04}\tv{n:04}\n")).collect();
        let rows = format!("key\tvalue\n{rows}");
        fs::write(self.path("rows.tsv"), rows).unwrap();
        self.ok(&args("load", &self.path("rows.tsv"), &[]));
        self.ok(&["compact"]);
        let files = fs::read_dir(self.path("store")).unwrap().map(|entry| entry.unwrap().path());
        let tables: Vec<PathBuf> = files.filter(|path| path.extension() == Some(OsStr::new("tbl"))).collect();
        assert_eq!(tables.len(), 1);
        let mut bytes = fs::read(&tables[0]).unwrap();
        let middle = bytes.len() / 2;
        change(&mut bytes[middle..]);
        fs::write(&tables[0], bytes).unwrap();
        tables[0].file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// Runs a verb that ends with this code; what it printed on both outputs.
    fn ends(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn a_whole_store_is_found_whole() {
    let tool = Tool::new();
    for verb in ["verify", "scrub", "repair", "digest"] {
        assert_eq!(tool.code(&[verb]), 2, "{verb} of no store");
    }
    tool.ok(&["put", "key", "value"]);
    tool.ok(&["put", "other", "value"]);
    for verb in [&["verify"][..], &["scrub"], &["scrub", "--repair"], &["repair"], &["repair", "--accept-loss"]] {
        let report = tool.json(verb);
        assert_eq!((&report["ok"], report["damage"].as_array().unwrap().len()), (&Value::from(true), 0), "{verb:?}");
        assert_eq!(report["corrupted"], 0);
    }
    let report = tool.json(&["verify"]);
    assert_eq!((report["records"].as_u64(), report["validated"].as_u64()), (Some(2), Some(2)), "{report}");
    assert!(tool.text(&["verify"]).contains("no damage"));
    assert_eq!(tool.code(&["scrub", "--resume", "xyz"]), 1);

    let db = Db::open(tool.path("store")).unwrap();
    assert!(tool.text(&["verify"]).contains("no damage"), "beside a writer");
    assert_eq!(tool.code(&["repair"]), 5);
    drop(db);
}

/// Without `CURRENT` a store is damaged and no missing one, and `salvage` gets back what is in it.
#[test]
fn a_store_without_current_is_damaged_and_is_salvaged() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    fs::remove_file(tool.path("store/CURRENT")).unwrap();
    for verb in ["verify", "repair", "scan", "stats"] {
        let (out, err) = tool.ends(3, &[verb]);
        assert!(format!("{out}{err}").contains("CURRENT"), "{verb}: {out}{err}");
    }
    let saved = tool.path("saved");
    assert_eq!(tool.code(&args("salvage", &saved, &[])), 3, "the missing file is reported");
    let get = Command::new(env!("CARGO_BIN_EXE_waxseal")).arg("-d").arg(&saved).args(["get", "key"]).output().unwrap();
    assert_eq!(get.stdout, b"value", "{get:?}");
}

/// Tables of two stores in one directory without a manifest are not mixed: the user names a store by the id that the
/// refusal prints.
#[test]
fn of_tables_of_two_stores_the_user_chooses() {
    let tool = Tool::new();
    for (dir, key) in [("store", "own"), ("other", "other")] {
        let db = Db::open(tool.path(dir)).unwrap();
        db.column_family("default").unwrap().put(key, "value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
    let entries = |dir: &str| fs::read_dir(tool.path(dir)).unwrap().map(|entry| entry.unwrap().path());
    let is_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tbl");
    for (at, table) in entries("other").filter(is_table).enumerate() {
        fs::copy(table, tool.path("store").join(format!("0009{at:02}.tbl"))).unwrap();
    }
    entries("store").filter(|path| !is_table(path)).for_each(|path| fs::remove_file(path).unwrap());
    let refused = tool.run(&args("salvage", &tool.path("refused"), &[]));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("several stores") && said.contains("--store"), "{said}");
    let is_id = |word: &&str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ids: Vec<&str> = said.split(' ').filter(is_id).collect();
    assert_eq!(ids.len(), 2, "{said}");
    for id in ids {
        let saved = tool.path(id);
        let told = String::from_utf8(tool.ok(&args("salvage", &saved, &["--accept-loss", "--store", id]))).unwrap();
        assert!(told.contains("left alone"), "{told}");
        let db = Db::open(&saved).unwrap();
        let cf = db.column_family("default").unwrap();
        let found = ["own", "other"].map(|key| cf.get(key).unwrap().is_some());
        assert!(found[0] != found[1], "{found:?}: {told}");
    }
    assert_ne!(tool.code(&args("salvage", &tool.path("none"), &["--store", "own"])), 0, "no id");
}

#[test]
fn another_engines_database_is_named_and_left_alone() {
    let tool = Tool::new();
    fs::create_dir(tool.path("store")).unwrap();
    for (name, bytes) in [("CURRENT", &b"MANIFEST-000004\n"[..]), ("000003.log", b"records"), ("LOCK", b"")] {
        fs::write(tool.path("store").join(name), bytes).unwrap();
    }
    for (verb, code) in
        [(&["verify"][..], 2), (&["salvage", "saved"], 2), (&["get", "key"], 2), (&["put", "a", "b"], 1)]
    {
        let (_, said) = tool.ends(code, verb);
        assert!(said.contains("LevelDB database"), "{verb:?}: {said}");
    }
    assert_eq!(fs::read_dir(tool.path("store")).unwrap().count(), 3);
    assert_eq!(fs::read(tool.path("store/000003.log")).unwrap(), b"records");
}

#[test]
fn a_flipped_bit_is_found_read_around_and_repaired() {
    let tool = Tool::new();
    let table = tool.damage(2000, |bytes| bytes[0] ^= 1);
    let (found, _) = tool.ends(3, &["verify"]);
    assert!(found.contains(&table), "{found}");
    let (found, _) = tool.ends(3, &["--json", "verify"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["ok"], &found["damage"][0]["file"]), (&Value::from(false), &Value::from(table)));
    // What is read meanwhile is right.
    let rows = tool.text(&["scan"]);
    assert_eq!(rows.lines().count(), 2000);
    assert_eq!(tool.ok(&["get", "k1000"]), b"v1000");
    let digest = tool.text(&["digest"]);

    let repaired: Value = serde_json::from_str(&tool.ends(0, &["--json", "repair"]).0).unwrap();
    assert_eq!((&repaired["ok"], repaired["lost"].as_u64()), (&Value::from(true), Some(0)), "{repaired}");
    tool.ends(0, &["verify"]);
    assert_eq!((tool.text(&["scan"]), tool.text(&["digest"])), (rows, digest));
}

#[test]
fn what_cannot_be_repaired_is_fenced_and_everything_else_is_served() {
    let tool = Tool::new();
    let table = tool.damage(2000, |bytes| bytes[..40].fill(0xA5));
    tool.ends(3, &["verify"]);
    // The rows around are printed; what is lost is said, with file and offset.
    let whole = |rows: &str| {
        for row in rows.lines() {
            let number = &row[1..5];
            assert_eq!(row, format!("k{number}\tv{number}"));
        }
        rows.lines().count()
    };
    let (rows, said) = tool.ends(3, &["scan"]);
    assert!((1000..2000).contains(&whole(&rows)), "{}", whole(&rows));
    assert!(said.contains(&format!("corruption in {table} at ")), "{said}");
    for verb in [&["families", "--rows"][..], &["stats", "--rows"]] {
        let (_, said) = tool.ends(3, verb);
        assert!(said.contains("1 place is damaged; the rows around were counted"), "{said}");
    }
    let lost = (0..2000).map(|n| format!("k{n:04}")).find(|key| !rows.contains(&format!("{key}\t"))).unwrap();
    let (_, said) = tool.ends(3, &["get", &lost]);
    assert!(said.contains(&format!("corruption in {table} at ")), "{said}");
    assert!(said.contains(", family \"default\", keys ") && said.contains("\" to \"k"), "{said}");
    let (_, said) = tool.ends(3, &["--json", "get", &lost]);
    assert!(said.contains(&table));
    // Salvage takes what there is.
    let copy = tool.path("copy");
    let output = tool.run(&[OsStr::new("salvage"), copy.as_os_str()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let of = |dir: &Path, verb: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_waxseal")).arg("-d").arg(dir).args(verb).output().unwrap()
    };
    let salvaged = of(&copy, &["scan"]);
    assert!(whole(&String::from_utf8(salvaged.stdout).unwrap()) >= whole(&rows));
    // What it could not read is fenced there too, unless that is accepted.
    assert_eq!((salvaged.status.code(), of(&copy, &["get", &lost]).status.code()), (Some(3), Some(3)));
    let accepted = tool.path("accepted");
    let output = tool.run(&[OsStr::new("salvage"), accepted.as_os_str(), OsStr::new("--accept-loss")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows_accepted = of(&accepted, &["scan"]);
    assert!(rows_accepted.status.success() && whole(&String::from_utf8(rows_accepted.stdout).unwrap()) >= whole(&rows));
    // Repair fences it, for good.
    tool.ends(3, &["repair"]);
    let (after, _) = tool.ends(3, &["scan"]);
    assert!(whole(&after) >= whole(&rows));
    tool.ends(3, &["get", &lost]);
    // A lost range begins behind the last record that is there, and is named by that one.
    let last = (0..2000).map(|n| format!("k{n:04}")).take_while(|key| *key < lost).last().unwrap();
    let range = format!("keys after \"{last}\" to \"k");
    let (stats, (_, get)) = (tool.text(&["stats"]), tool.ends(3, &["get", &lost]));
    assert!(stats.contains(&format!("  default: {range}")) && get.contains(&range), "{range}\n{stats}\n{get}");
    assert!(!stats.contains("\\x00") && !get.contains("0x"), "{stats}\n{get}");
    let log = tool.text(&["log", "engine:integrity", "Engine.Fence"]);
    assert!(log.contains(&format!("range={range}")) && !log.contains("0x"), "{log}");
    let fences = &tool.json(&["stats"])["families"][0]["fences"];
    assert_eq!((fences.as_array().unwrap().is_empty(), &fences[0]["file"]), (false, &Value::from(table)));
    // Until somebody gives it up.
    tool.ends(0, &["repair", "--accept-loss"]);
    let (_, said) = tool.ends(2, &["get", &lost]);
    assert!(said.contains(&format!("no key \"{lost}\"")), "{said}");
    tool.ends(0, &["verify"]);
    assert_eq!(whole(&tool.text(&["scan"])), whole(&after));
}

/// A tree with everything that is hard to keep.
fn make_tree(root: &Path) {
    let file = |name: &[u8], content: &[u8]| {
        let path = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    file(b"empty", b"");
    file(b"a/b/c/deep", b"deep");
    file(b"a-b", b"between a and a/");
    file(b"not \xff utf-8 \x01/\xfe", b"bytes");
    file(b"new\nline\t", b"odd name");
    file(b"script.sh", b"#!/bin/sh\n");
    file(b"large", &(0..3_000_000u32).map(|n| (n * 7) as u8).collect::<Vec<_>>());
    file(b"closed/inside", b"in a directory that cannot be written");
    fs::create_dir_all(root.join("empty directory/inner")).unwrap();
    symlink("../a/b", root.join("a/link")).unwrap();
    symlink(OsStr::from_bytes(b"nowhere \xff"), root.join("dangling")).unwrap();
    symlink("/etc", root.join("absolute")).unwrap();
    fs::set_permissions(root.join("script.sh"), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("empty"), Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(root.join("closed"), Permissions::from_mode(0o555)).unwrap();
}

fn mode(path: PathBuf) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_tree_comes_back() {
    let tool = Tool::new();
    let (source, back) = (tool.path("source"), tool.path("back"));
    make_tree(&source);
    let loaded = tool.text(&[OsStr::new("load"), source.as_os_str()]);
    assert!(loaded.starts_with("loaded 8 files, 7 directories and 3 links"), "{loaded}");
    tool.ok(&[OsStr::new("dump"), back.as_os_str()]);
    let diff = Command::new("diff").args(["-r", "--no-dereference"]).args([&source, &back]).output().unwrap();
    assert!(diff.status.success() && diff.stdout.is_empty(), "{:?}", diff);
    for name in ["script.sh", "empty", "closed", "a", "large"] {
        assert_eq!(mode(source.join(name)), mode(back.join(name)), "{name}");
    }
    let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(time(source.join("large")), time(back.join("large")));
    assert_eq!(fs::read_link(back.join("dangling")).unwrap(), OsStr::from_bytes(b"nowhere \xff"));
    assert_eq!(tool.ok(&["fs", "cat", &tool.url("a/b/c/deep")]), b"deep");

    // A second load replaces what it finds, and keeps the rest.
    tool.ok(&["fs", "newfile", &tool.url("a/kept"), "kept"]);
    fs::remove_file(source.join("a/link")).unwrap();
    fs::write(source.join("a/link"), "a file now").unwrap();
    fs::write(source.join("a-b"), "changed").unwrap();
    fs::remove_file(source.join("a/b/c/deep")).unwrap();
    fs::create_dir(source.join("a/b/c/deep")).unwrap();
    tool.ok(&[OsStr::new("load"), source.as_os_str()]);
    tool.ok(&[OsStr::new("dump"), tool.path("again").as_os_str()]);
    fs::write(source.join("a/kept"), "kept").unwrap();
    let diff =
        Command::new("diff").args(["-r", "--no-dereference"]).args([&source, &tool.path("again")]).output().unwrap();
    assert!(diff.status.success(), "{:?}", diff);
    assert_eq!(tool.code(&[OsStr::new("dump"), back.as_os_str()]), 1, "not over what is there");
    // So that the test's directory can be removed.
    for tree in ["source", "back", "again"] {
        fs::set_permissions(tool.path(tree).join("closed"), Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn special_files_and_the_store_itself_are_left_out() {
    let tool = Tool::new();
    let source = tool.dir.path();
    fs::write(source.join("file"), "content").unwrap();
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    let output = tool.run(&[OsStr::new("--json"), OsStr::new("load"), source.as_os_str()]);
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &loaded["ok"]), (Some(0), &true.into()), "{loaded}");
    assert_eq!(loaded["failed"], serde_json::json!([]));
    assert_eq!((loaded["files"].as_u64(), loaded["bytes"].as_u64()), (Some(1), Some(7)));
    assert_eq!(loaded["skipped"][0]["path"]["text"], "socket");
    assert!(String::from_utf8(output.stderr).unwrap().contains("socket"));
    assert_eq!(tool.text(&["fs", "ls", &tool.url("")]), "file\n");
    assert_eq!(tool.code(&args("load", &tool.path("store"), &[])), 1, "its log would grow with every part");
    assert_eq!(tool.code(&args("dump", &tool.path("store/back"), &[])), 1);
}

#[test]
fn what_cannot_be_loaded_is_in_the_exit_code() {
    let tool = Tool::new();
    let source = tool.path("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "content").unwrap();
    fs::write(source.join("taken"), "content").unwrap();
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    tool.with_files(|files| {
        files.mkdir("taken").unwrap();
        files.write("taken/kept", "kept").unwrap();
    });
    let output = tool.run(&args("load", &source, &["--json"]));
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &loaded["ok"]), (Some(6), &false.into()), "{loaded}");
    assert_eq!((loaded["files"].as_u64(), loaded["bytes"].as_u64()), (Some(1), Some(7)));
    let paths = |what: &str| loaded[what].as_array().unwrap().iter().map(|left| left["path"]["text"].clone()).collect();
    let (failed, skipped): (Vec<Value>, Vec<Value>) = (paths("failed"), paths("skipped"));
    assert_eq!((failed, skipped), (vec!["taken".into()], vec!["socket".into()]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("not loaded: \"taken\": the directory is not empty"), "{said}");
    assert_eq!(
        tool.ok(&["fs", "cat", &tool.url("file"), &tool.url("taken/kept")]),
        b"contentkept",
        "the rest is there"
    );
    let output = tool.run(&args("load", &source, &[]));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(6) && said.contains("skipped 1; not loaded 1"), "{said}");
}

#[test]
fn rows_and_files_have_families_of_their_own() {
    let tool = Tool::new();
    let source = tool.path("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "content").unwrap();
    tool.ok(&["put", "key", "value"]);
    let output = tool.run(&args("dump", &tool.path("back"), &[]));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no files in the family \"files\"; rows are dumped with --format csv"), "{said}");
    assert!(!tool.path("back").exists());
    assert_eq!(tool.code(&args("load", &source, &["--cf", "default"])), 1, "it has rows");
    tool.ok(&args("load", &source, &["--cf", "photos"]));
    assert!(tool.text(&["families"]).contains("photos\nphotos-chunks\n"));
    assert_eq!(tool.ok(&["--cf", "photos", "fs", "cat", &tool.url("file")]), b"content");
    tool.ok(&args("dump", &tool.path("back"), &["--cf", "photos"]));
    assert_eq!(fs::read(tool.path("back/file")).unwrap(), b"content");
    assert_eq!(tool.text(&["scan"]), "key\tvalue\n");
}

fn args<'a>(verb: &'a str, path: &'a Path, more: &[&'a str]) -> Vec<OsString> {
    [OsStr::new(verb), path.as_os_str()].into_iter().chain(more.iter().map(OsStr::new)).map(OsStr::to_owned).collect()
}

#[test]
fn the_tour_of_a_small_tree() {
    let tool = Tool::new();
    let source = tool.path("source");
    make_tree(&source);
    for n in 0..60 {
        fs::write(source.join(format!("file {n}")), format!("{n}").repeat(n * 50)).unwrap();
    }
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    let store = tool.path("tour");
    let output = Command::new(env!("CARGO_BIN_EXE_waxseal"))
        .args([OsStr::new("tour"), source.as_os_str(), OsStr::new("--store"), store.as_os_str()])
        .args(["--json", "--keep", "--seed", "7"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let tour: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields: Vec<&str> = tour.as_object().unwrap().keys().map(String::as_str).collect();
    let contract = "ok files bytes skipped load_s mismatches updated deleted events snapshot_checked checkpoint_records killed_at_op \
                    acknowledged lost wrong store_bytes peak_rss_bytes levels sealed flips";
    assert_eq!(fields, contract.split_whitespace().collect::<Vec<_>>());
    let number = |field: &str| tour[field].as_u64().unwrap_or_else(|| panic!("{field}"));
    assert_eq!(tour["ok"], true);
    assert_eq!((number("files"), number("skipped")), (68, 1));
    assert_eq!((number("mismatches"), number("lost"), number("wrong")), (0, 0, 0));
    assert_eq!((number("updated"), number("deleted"), number("events")), (14, 7, 21));
    assert_eq!((number("snapshot_checked"), number("checkpoint_records")), (68, 61));
    assert!(number("acknowledged") >= number("killed_at_op") && number("killed_at_op") >= 6000);
    assert!(number("store_bytes") > 0 && number("peak_rss_bytes") > 0);
    assert_eq!(tour["sealed"], true);
    let flips = |field: &str| tour["flips"][field].as_u64().unwrap_or_else(|| panic!("{field}"));
    assert!(flips("injected") >= 16, "{}", tour["flips"]);
    assert_eq!((flips("detected"), flips("silent")), (flips("injected"), 0), "{}", tour["flips"]);
    assert!(flips("repaired") > 0, "{}", tour["flips"]);
    // The store was kept; the checkpoint and the damaged copy were not.
    assert!(!tool.path("tour-checkpoint").exists() && !tool.path("tour-damaged").exists());
    let url = format!("waxseal://{}", store.display());
    assert_eq!(tool.text(&["fs", "find", "--kind", "file", &url]).lines().count(), 61);
    assert!(tool.text(&["fs", "find", "--kind", "link", &url]).lines().count() == 3);
    tool.ok(&["fs", "fsck", &url]);
}

#[test]
fn the_tour_respects_its_limit_and_tidies_up() {
    let tool = Tool::new();
    let (source, store) = (tool.path("source"), tool.path("tour"));
    fs::create_dir(&source).unwrap();
    for n in 0..10 {
        fs::write(source.join(n.to_string()), [b'x'; 1000]).unwrap();
    }
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waxseal"));
        command.args([OsStr::new("tour"), source.as_os_str(), OsStr::new("--store"), store.as_os_str()]);
        command.args(more).output().unwrap()
    };
    let output = run(&["--limit", "3500"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("3 files, 2.9 KiB")
            && text.contains("skipped: 7 beyond the limit, 0 special and others")
            && text.contains("OK"),
        "{text}"
    );
    assert!(!store.exists());
    fs::create_dir(&store).unwrap();
    assert_eq!(tool.code(&["tour", &tool.local("tour"), "--store", &tool.local("tour")]), 1, "not of itself");
    fs::write(store.join("mine"), "").unwrap();
    assert_eq!(run(&[]).status.code(), Some(1), "not into a directory with something in it");
}
