//! Exports: the metadata that they keep, and the counts of the rest.

use serde_json::{Value, json};
use waxseal::meta::{LABELS, Labels};
use waxseal::{Db, WriteOptions};

use super::{Command, Tool, args};

#[test]
fn an_export_keeps_labels_and_counts_the_metadata_left_behind() {
    let (giver, taker) = (Tool::new(), Tool::new());
    let db = Db::open(giver.path("store")).unwrap();
    let cf = db.column_family("default").unwrap();
    cf.put_with("a", "value", WriteOptions::new().label("class", "secret")).unwrap();
    cf.put("b", "value").unwrap();
    db.close().unwrap();

    let kept = giver.path("kept");
    let text = String::from_utf8(giver.ok(&args("export", &kept, &[]))).unwrap();
    assert!(text.ends_with("left behind: nothing\n"), "{text}");
    taker.ok(&args("import", &kept, &[]));
    let db = Db::open(taker.path("store")).unwrap();
    let label = db.column_family("default").unwrap().get_meta("a", LABELS).unwrap().unwrap();
    assert_eq!(Labels::read(&label.bytes).unwrap(), [("class", "secret")]);

    let text = String::from_utf8(giver.ok(&args("export", &giver.path("strip"), &["--policy", "strip"]))).unwrap();
    assert!(text.ends_with("left behind: 2 seals, 1 label entry\n"), "{text}");
    let told = giver.ok(&args("export", &giver.path("json"), &["--policy", "strip", "--json"]));
    let left = &serde_json::from_slice::<Value>(&told).unwrap()["left_behind"];
    assert_eq!((&left["seals"], &left["entries"]), (&json!(2), &json!({"4": 1})));
    let refused = args("export", &giver.path("no"), &["--policy", "strip", "--provider", "4"]);
    assert_eq!(giver.code(&refused), 1, "a policy without seals exports no entries");
}

/// Opening a pipe waits for its other end, for ever.
#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_an_exported_file_keeps_no_import_waiting() {
    let giver = Tool::new();
    giver.ok(&["put", "a", "value"]);
    for name in ["EXCHANGE", "000001.tbl"] {
        let exported = giver.path(&format!("with {name}"));
        giver.ok(&args("export", &exported, &[]));
        let file = exported.join(name);
        std::fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        let taker = Tool::new();
        let output = taker.run(&args("import", &exported, &[]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(name), "{name}: {said}");
        assert_eq!(taker.text(&["scan"]), "", "{name}");
    }
}
