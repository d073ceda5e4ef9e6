//! Tables in files that are no text.

use super::*;

const COLUMNS: &[&str] = &[
    "--column=text:text",
    "--column=bytes:bytes",
    "--column=decimal:decimal(38,10)",
    "--column=at:timestamp",
    "--column=uuid:uuid",
    "--column=json:json",
    "--column=list:list<text>",
    "--column=mark:empty",
];

const ROWS: &str = r#"{"id":1,"text":"","bytes":"","decimal":"-0.0000000001","at":"1969-12-31T23:59:59.999999Z","uuid":"00000000-0000-0000-0000-000000000000","json":{"json":"null"},"list":[],"mark":true}
{"id":2}
{"id":3,"text":"two\nlines","bytes":"00ff","json":{"a": 1},"list":["","b"]}
"#;

fn with_rows() -> Tool {
    let tool = Tool::new();
    tool.ok(&[&["table", "create", "t.all", "--partition-key=id:u64"], COLUMNS].concat());
    fs::write(tool.path("in.jsonl"), ROWS).unwrap();
    tool.ok(&[OsStr::new("table"), OsStr::new("import"), OsStr::new("t.all"), tool.path("in.jsonl").as_os_str()]);
    tool
}

#[test]
#[cfg(feature = "arrow")]
fn parquet_and_arrow_files_bring_rows_back() {
    let tool = with_rows();
    for format in ["parquet", "arrow"] {
        let file = tool.path(&format!("rows.{format}"));
        let verb = |verb: &'static str| [OsString::from("table"), verb.into(), "t.all".into(), file.clone().into()];
        assert_eq!(tool.text(&verb("export")), "exported 3 rows\n");
        let again = tool.run(&verb("import"));
        let error = String::from_utf8_lossy(&again.stderr);
        assert!(
            again.status.code() == Some(1) && error.contains("row 1: t.all: a row of the key (1) exists"),
            "{error}"
        );
        tool.ok(&["table", "truncate", "t.all"]);
        assert_eq!(tool.text(&verb("import")), "imported 3 rows\n");
        assert_eq!(tool.text(&["table", "export", "t.all"]), ROWS);
        // A file that ends early, and one of another table.
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(tool.code(&verb("import")), 1);
        fs::write(&file, &bytes).unwrap();
        tool.ok(&["table", "create", &format!("t.{format}"), "--partition-key=id:i32", "--column=text:text"]);
        let other = [OsString::from("table"), "import".into(), format!("t.{format}").into(), file.into()];
        let error = tool.run(&other);
        assert_eq!(error.status.code(), Some(1));
        let error = String::from_utf8_lossy(&error.stderr).into_owned();
        assert!(error.contains("row 1: ") && error.contains("\"bytes\""), "{error}");
    }
}

#[test]
#[cfg(not(feature = "arrow"))]
fn a_build_without_parquet_says_so() {
    let tool = with_rows();
    for verb in ["import", "export"] {
        let file = tool.path("rows.parquet");
        let refused = tool.run(&[OsStr::new("table"), OsStr::new(verb), OsStr::new("t.all"), file.as_os_str()]);
        assert_eq!(refused.status.code(), Some(if verb == "import" { 4 } else { 1 }), "{refused:?}");
        assert!(!file.exists());
    }
    assert_eq!(tool.text(&["table", "export", "t.all"]), ROWS);
}

/// Damage has taken the records of a table in the catalogue.
#[test]
fn a_family_whose_schema_was_lost_is_named_and_kept() {
    let tool = Tool::new();
    tool.ok(&["table", "create", "t.people", "--partition-key=id:i32"]);
    tool.ok(&["table", "insert", "t.people", "id=1"]);
    for key in ["7400000001", "6e740070656f706c65"] {
        tool.ok(&["--cf", "waxseal_tables", "--hex", "del", key]);
    }
    for verb in ["verify", "repair"] {
        let output = tool.run(&["table", verb]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && error.contains("waxseal_tables-1-rows"), "{error}");
    }
    assert_eq!(tool.text(&["--cf", "waxseal_tables-1-rows", "--hex", "scan"]).lines().count(), 1);
}
