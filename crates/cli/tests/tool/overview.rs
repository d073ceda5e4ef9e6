//! What a person sees of a store and of the tool: stats, closing lines, help, completions, manual pages.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::Tool;

/// The store of one small record: its log and ring have only the blocks that they use.
#[test]
fn a_store_of_one_record_takes_little_of_the_disk() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    let files = fs::read_dir(tool.path("store")).unwrap();
    let allocated: u64 = files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum();
    assert!(allocated <= 256 << 10, "{allocated} bytes");
}

#[test]
fn stats_are_a_table_of_what_a_closed_store_knows() {
    let tool = Tool::new();
    for n in 0..50 {
        tool.ok(&["put", &format!("k{n:02}"), &"v".repeat(100)]);
        if n == 40 {
            tool.ok(&["compact"]);
        }
    }
    tool.ok(&["del", "k00"]);
    let stats = tool.text(&["stats", "--rows"]);
    assert!(stats.starts_with("family default  49 rows\n"), "{stats}");
    for part in ["entries", "tombstones", "KiB", "in the log, not flushed yet", "manifest", "no known damage"] {
        assert!(stats.contains(part), "no {part:?} in:\n{stats}");
    }
    for counter in ["stalls", "fdatasync", "evictions", "write amplification"] {
        assert!(!stats.contains(counter), "{counter:?} means nothing of a closed store:\n{stats}");
    }
    let json = tool.json(&["stats", "--rows"]);
    assert_eq!((&json["families"][0]["rows"], &json["stalls"]), (&49.into(), &0.into()), "{json}");
    let entries = json["families"][0]["levels"].as_array().unwrap().iter().map(|level| level["entries"].as_u64());
    assert_eq!(entries.map(Option::unwrap).sum::<u64>(), 50, "the tombstone is in the log");
    assert!(json["files"]["tables"]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn reports_end_with_the_outcome_and_the_next_command() {
    let tool = Tool::new();
    let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    tool.damage(2000, |bytes| bytes[..40].fill(0xA5));
    let store = tool.path("store").display().to_string();
    let (said, _) = tool.ends(3, &["verify"]);
    assert_eq!(last(&said), format!("damaged; next: waxseal -d {store} repair"));
    let (said, _) = tool.ends(3, &["repair"]);
    assert!(last(&said).starts_with("damaged: ") && last(&said).ends_with("repair --accept-loss"), "{said}");
    let (said, _) = tool.ends(0, &["repair", "--accept-loss"]);
    assert!(last(&said).starts_with("all damage was "), "{said}");
    let (said, _) = tool.ends(0, &["verify"]);
    assert_eq!(last(&said), "no damage");
    fs::write(tool.path("store").join("CURRENT"), "garbage").unwrap();
    let (_, said) = tool.ends(3, &["repair"]);
    assert!(last(&said).ends_with(&format!("next: waxseal -d {store} salvage NEW_DIR")), "{said}");
}

#[test]
fn the_directory_comes_from_the_environment() {
    let tool = Tool::new();
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_waxseal")).env("WAXSEAL_DIR", tool.path("store")).args(args).output().unwrap()
    };
    assert!(run(&["put", "key", "value"]).status.success());
    assert_eq!(run(&["get", "key"]).stdout, b"value");
    let other = tool.path("other").display().to_string();
    assert_eq!(run(&["-d", &other, "get", "key"]).status.code(), Some(2), "the option is stronger");
}

#[test]
fn options_of_a_family_are_printed_and_changed() {
    let tool = Tool::new();
    tool.ok(&["put", "key", "value"]);
    assert_eq!(tool.json(&["options"])["level0_tables"], 4);
    let set = ["options", "--set", "level0_tables=9", "--set", "default_ttl_micros=5000000"];
    assert!(tool.text(&set).contains("\nlevel0_tables\t9\n"));
    let found = tool.json(&["options"]);
    assert_eq!((&found["level0_tables"], &found["default_ttl_micros"]), (&9.into(), &5_000_000.into()));
    assert!(found["merge_operator"].is_null() && found["order"] == "wax.bytewise");
    for wrong in ["fanout=1", "fanout", "fanout=x", "order=mine", "nothing=1"] {
        tool.ends(1, &["options", "--set", "level0_tables=3", "--set", wrong]);
    }
    tool.ends(2, &["options", "--cf", "other"]);
    assert_eq!(tool.json(&["options"])["level0_tables"], 9);
}

#[test]
fn shells_and_man_get_their_descriptions() {
    let tool = Tool::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = tool.text(&["completions", shell]);
        assert!(script.contains("salvage") && script.contains("accept-loss"), "{shell}");
    }
    tool.ok(&[OsStr::new("man"), tool.path("man").as_os_str()]);
    let pages = ["waxseal.1", "waxseal-load.1", "waxseal-repair.1"];
    for page in pages {
        let page = fs::read_to_string(tool.path("man").join(page)).unwrap();
        assert!(page.contains(".TH"), "{page}");
    }
    assert!(!tool.path("man").join("waxseal-tour-writer.1").exists());
    let help = tool.text(&["--help"]);
    for heading in ["Records:", "Integrity:", "Registry and log:", "Options:"] {
        assert!(help.contains(heading), "{help}");
    }
}

#[test]
fn a_format_level_is_printed_and_raised() {
    let tool = Tool::new();
    let db = waxseal::Db::builder(tool.path("store")).format_level(1).open().unwrap();
    db.close().unwrap();
    assert_eq!(tool.text(&["upgrade"]), "format level 1\n");
    let (_, said) = tool.ends(1, &["delete-range", "--from", "a", "--to", "b"]);
    assert!(said.contains("upgrade(2)"), "{said}");
    assert_eq!(tool.json(&["upgrade", "2"])["format_level"], 2);
    assert_eq!(tool.text(&["upgrade"]), "format level 2\n");
    tool.ok(&["delete-range", "--from", "a", "--to", "b"]);
    tool.ends(1, &["upgrade", "3"]);
}
