//! SQL over tables. Run with `--features sql`.

use super::*;

fn with_books() -> Tool {
    let tool = Tool::new();
    let columns = ["--partition-key=author:text", "--clustering-key=year:i32", "--column=note:text"];
    tool.ok(&[&["table", "create", "library.books"], &columns[..]].concat());
    for (author, year, note) in [("Austen", 1813, "note=a\tb"), ("Austen", 1815, ""), ("Shelley", 1818, "note=c")] {
        let (author, year) = (format!("author={author}"), format!("year={year}"));
        let words = ["table", "insert", "library.books", &author, &year, note];
        tool.ok(&words[..if note.is_empty() { 5 } else { 6 }]);
    }
    tool
}

#[test]
fn rows_are_a_grid_or_json_lines() {
    let tool = with_books();
    let query = "SELECT year, note FROM books WHERE author = 'Austen' ORDER BY year";
    let found = tool.text(&["sql", "--keyspace", "library", query]);
    assert_eq!(found, "year  note\n----  ----\n1813  a\\tb\n1815  NULL\n(2 rows)\n");
    let found = tool.text(&["--json", "sql", "--keyspace", "library", query]);
    assert_eq!(found, "{\"year\":1813,\"note\":\"a\\tb\"}\n{\"year\":1815}\n");
}

#[test]
fn a_query_that_fails_has_an_exit_code_and_its_reason() {
    let tool = with_books();
    let nested = format!("SELECT {}1{}", "(".repeat(1000), ")".repeat(1000));
    let twice = "SELECT a.note, b.note FROM library.books a JOIN library.books b USING (year)".to_owned();
    let failures: &[(&[&str], &str)] = &[
        (&["sql", "SELEC 1"], "SELEC"),
        (&["sql", "SELECT 1 FROM library.none"], "library.none"),
        (&["sql", "DROP TABLE library.books"], "SQL only reads"),
        (&["--hex", "sql", "SELECT 1"], "--hex"),
        (&["--json", "sql", &twice], "two columns of the result are named \"note\""),
        (&["sql", "SELECT a.year / (a.year - a.year) FROM library.books a"], "zero"),
        (&["sql", "--memory-mib", "0", "SELECT note FROM library.books ORDER BY note"], "--memory-mib"),
        (&["sql", &nested], "RecursionLimit"),
    ];
    for (words, reason) in failures {
        let output = tool.run(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.starts_with("waxseal: ") && error.contains(reason), "{error}");
    }
}

#[test]
fn damage_ends_a_query_with_3_and_without_an_answer() {
    let tool = with_books();
    let rows: String = (0..2000).map(|year| format!("Byron,{year},note {year}\n")).collect();
    fs::write(tool.path("rows.csv"), format!("author,year,note\n{rows}")).unwrap();
    tool.ok(&["table", "import", "library.books", tool.path("rows.csv").to_str().unwrap()]);
    tool.ok(&["compact"]);
    let count = "SELECT count(note) AS n FROM library.books";
    assert_eq!(tool.text(&["--json", "sql", count]), "{\"n\":2002}\n");
    let files = fs::read_dir(tool.path("store")).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension() == Some(OsStr::new("tbl")));
    let largest = tables.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xA5);
    fs::write(&largest, bytes).unwrap();
    for query in [count, "SELECT count(*) FROM library.books", "SELECT note FROM library.books ORDER BY note"] {
        let (printed, error) = tool.ends(3, &["sql", query]);
        assert!(printed.is_empty() && error.contains("corruption in "), "{query}: {printed}{error}");
    }
    let whole = "SELECT note FROM library.books WHERE author = 'Shelley'";
    assert_eq!(tool.text(&["--json", "sql", whole]), "{\"note\":\"c\"}\n");
}

#[test]
fn a_deep_query_is_answered_or_refused() {
    let tool = with_books();
    let query = |depth: usize| {
        let sum = "+ year".repeat(depth);
        format!("SELECT count(*) AS n FROM library.books WHERE year {sum} = 0{}", " OR year = 1".repeat(depth))
    };
    assert_eq!(tool.text(&["--json", "sql", &query(1000)]), "{\"n\":0}\n");
    let refused = tool.run(&["sql", &query(5000)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("at most 8192 are possible"), "{refused:?}");
}
