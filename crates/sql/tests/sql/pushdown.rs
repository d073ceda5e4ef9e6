//! Ranges that scans read, and that they return the rows of a plain evaluation.

use waxseal_sql::Error;
use waxseal_table::{ColumnType, Index, Row};

use crate::store::{Book, DAMAGED, books, fill, memory, rows, scan_of, schema};

/// A condition of SQL, and whether it holds for a row.
type Condition<T> = (&'static str, fn(&T) -> bool);

#[test]
fn comparisons_narrow_the_range_of_a_scan() {
    let tables = memory();
    fill(&tables, "library.books", schema());
    fill(&tables, "library.hashed", schema().hashed());
    let expected = [
        ("SELECT volume FROM library.books", "by=key, columns=[volume]"),
        (
            "SELECT genre FROM library.books WHERE author = 'Eliot' AND 1810 <= year AND year < 1820",
            "by=key, range=[author = Eliot AND year >= 1810 AND year < 1820], columns=[genre]",
        ),
        ("SELECT genre FROM library.books WHERE author > 'E'", "by=key, range=[author > E], columns=[genre]"),
        ("SELECT author FROM library.books WHERE year = 1810", "by=key, filter=[year = 1810], columns=[author]"),
        (
            "SELECT volume FROM library.books WHERE genre = 'novel' AND pages BETWEEN 10 AND 20",
            "by=index by_genre, range=[genre = novel AND pages >= 10 AND pages <= 20], columns=[volume]",
        ),
        // The index leaves out the rows without pages.
        ("SELECT volume FROM library.books WHERE genre = 'novel'", "by=key, filter=[genre = novel], columns=[volume]"),
        ("SELECT volume FROM library.books WHERE pages = 7", "by=index by_pages, range=[pages = 7], columns=[volume]"),
        (
            "SELECT volume FROM library.books WHERE author = 'Eliot' AND pages = 7",
            "by=key, range=[author = Eliot], filter=[pages = 7], columns=[volume]",
        ),
        // Too many rows for an index, perhaps.
        ("SELECT volume FROM library.books WHERE pages < 7", "by=key, filter=[pages < 7], columns=[volume]"),
        (
            "SELECT volume FROM library.books WHERE 7 > pages AND pages >= 5",
            "by=index by_pages, range=[pages >= 5 AND pages < 7], columns=[volume]",
        ),
        ("SELECT volume FROM library.hashed WHERE author > 'E'", "by=key, filter=[author > E], columns=[volume]"),
        ("SELECT volume FROM library.hashed WHERE author = 'E'", "by=key, range=[author = E], columns=[volume]"),
        ("SELECT volume FROM library.books LIMIT 3", "by=key, columns=[volume], limit=3"),
    ];
    for (query, scan) in expected {
        let found = scan_of(&tables, query);
        let found = found.split_once(", ").map(|(_, scan)| scan);
        assert_eq!(found, Some(scan), "{query}");
    }
}

#[test]
fn rows_outside_of_the_range_are_not_read() {
    let conditions: &[Condition<Row>] = &[
        ("author = 'Eliot' AND year BETWEEN 1810 AND 1812", |row| {
            text(row, "author") == Some("Eliot") && (1810..=1812).contains(&number(row, "year").unwrap())
        }),
        ("author > 'Gaskell'", |row| text(row, "author") > Some("Gaskell")),
        ("genre = 'novel' AND pages > 50", |row| {
            text(row, "genre") == Some("novel") && number(row, "pages") > Some(50)
        }),
        ("pages = 74", |row| number(row, "pages") == Some(74)),
    ];
    for (condition, is_inside) in conditions {
        let tables = memory();
        let table = fill(&tables, "library.books", schema());
        let records = tables.db().column_family("waxseal_tables-1-rows").unwrap();
        let keys: Vec<_> = records.iter().keys().map(Result::unwrap).collect();
        let all: Vec<Row> = table.select().rows().unwrap().map(Result::unwrap).collect();
        for (key, _) in keys.iter().zip(&all).filter(|(_, row)| !is_inside(row)) {
            records.put(key, DAMAGED).unwrap();
        }
        let inside = all.iter().filter(|row| is_inside(row)).count();
        let counted = |query: &str| rows(&tables, query).map(|rows| rows[0][0].clone());
        let query = format!("SELECT count(year) FROM library.books WHERE {condition}");
        assert_eq!(counted(&query).unwrap(), inside.to_string(), "{query}");
        assert!(matches!(counted("SELECT count(price) FROM library.books"), Err(Error::Table(_))));
    }
}

fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    row.get(column).and_then(|value| value.as_str())
}

fn number(row: &Row, column: &str) -> Option<i64> {
    row.get(column).and_then(|value| value.as_i64())
}

#[test]
fn a_query_returns_the_rows_of_a_plain_evaluation() {
    let tables = memory();
    for (name, schema) in [("library.books", schema()), ("library.hashed", schema().hashed())] {
        fill(&tables, name, schema);
        let conditions: &[Condition<Book>] = &[
            ("author = 'Eliot'", |book| book.0 == "Eliot"),
            ("author > 'Eliot'", |book| book.0 > "Eliot"),
            ("author <= 'Eliot'", |book| book.0 <= "Eliot"),
            ("author <> 'Eliot'", |book| book.0 != "Eliot"),
            ("year > 1810", |book| book.1 > 1810),
            ("year <= 1812", |book| book.1 <= 1812),
            ("year = 1811 AND volume < 90", |book| book.1 == 1811 && book.2 < 90),
            ("year > 1820 AND year < 1805", |_| false),
            ("author = 'Eliot' AND author = 'Austen'", |_| false),
            ("genre = 'novel'", |book| book.3 == Some("novel")),
            ("genre >= 'f'", |book| book.3.is_some_and(|genre| genre >= "f")),
            ("genre IS NULL", |book| book.3.is_none()),
            ("pages = 74", |book| book.4 == Some(74)),
            ("pages < 50", |book| book.4.is_some_and(|pages| pages < 50)),
            ("pages IN (1, 2, 3, 74, 75)", |book| book.4.is_some_and(|pages| [1, 2, 3, 74, 75].contains(&pages))),
            ("pages + 0 > 90", |book| book.4.is_some_and(|pages| pages > 90)),
        ];
        for (one, one_holds) in conditions {
            for (other, other_holds) in conditions {
                let query = format!("SELECT volume FROM {name} WHERE {one} AND {other}");
                let mut found: Vec<i64> =
                    rows(&tables, &query).unwrap().iter().map(|row| row[0].parse().unwrap()).collect();
                found.sort_unstable();
                let is_match = |book: &Book| one_holds(book) && other_holds(book);
                let expected: Vec<i64> = books().iter().filter(|book| is_match(book)).map(|book| book.2).collect();
                assert_eq!(found, expected, "{query}");
                let counted = rows(&tables, &query.replace("volume FROM", "count(*) FROM")).unwrap();
                assert_eq!(counted[0][0], expected.len().to_string(), "{query}");
                let limited = rows(&tables, &format!("{query} LIMIT 2")).unwrap();
                assert_eq!(limited.len(), expected.len().min(2), "{query}");
            }
        }
    }
}

#[test]
fn keys_of_all_types_are_compared_like_sql_does() {
    let tables = memory();
    let types = [
        ("flag", ColumnType::Bool, vec!["false", "true"]),
        ("whole", ColumnType::I32, vec!["-5", "0", "7"]),
        ("long", ColumnType::I64, vec!["-5", "0", "7"]),
        ("natural", ColumnType::U64, vec!["0", "7", "18446744073709551615"]),
        ("real", ColumnType::F64, vec!["-1.5", "0.0", "2.5"]),
        ("price", ColumnType::Decimal { precision: 9, scale: 2 }, vec!["-1.50", "0.00", "12.25"]),
        ("day", ColumnType::Date, vec!["1969-12-31", "2026-01-31"]),
        ("time", ColumnType::Timestamp, vec!["1969-12-31T23:00:00Z", "2026-01-31T12:00:00Z"]),
        ("name", ColumnType::Text, vec!["", "a", "b"]),
    ];
    for (name, ty, values) in types {
        // SQL evaluates the same comparisons over a column that nothing narrows.
        let schema = waxseal_table::Schema::new()
            .partition_key("k", ty.clone())
            .column("v", ty.clone())
            .column("i", ty.clone())
            .index(Index::on("by_i", ["i"]));
        let table = tables.create(&format!("types.{name}"), schema).unwrap();
        for value in &values {
            let value = waxseal_table::Value::parse(value, &ty).unwrap();
            table.insert(Row::new().with("k", value.clone()).with("v", value.clone()).with("i", value)).unwrap();
        }
        for value in &values {
            for operator in ["=", "<", "<=", ">", ">="] {
                let constant = if matches!(name, "flag" | "whole" | "long" | "natural" | "real" | "price") {
                    (*value).to_owned()
                } else {
                    format!("'{value}'")
                };
                let query = |column: &str| {
                    let query = format!("SELECT v FROM types.{name} WHERE {column} {operator} {constant} ORDER BY v");
                    rows(&tables, &query).unwrap()
                };
                assert_eq!(query("k"), query("v"), "{name} {operator} {value}");
                assert_eq!(query("i"), query("v"), "{name} {operator} {value}");
            }
        }
    }
    let scan = scan_of(&tables, "SELECT v FROM types.day WHERE k >= '2026-01-31'");
    assert!(scan.contains("range=[k >= 2026-01-31]"), "{scan}");
}

#[test]
fn joins_and_aggregates_span_tables() {
    let tables = memory();
    fill(&tables, "library.books", schema());
    fill(&tables, "archive.books", schema());
    let found = rows(
        &tables,
        "SELECT b.author, count(*), min(a.year) FROM library.books b JOIN archive.books a USING (author, year, volume)
         WHERE b.year >= 1810 GROUP BY b.author ORDER BY b.author",
    );
    let expected =
        ["Austen", "Eliot", "Gaskell", "Shelley"].map(|author| vec![author.to_owned(), "40".into(), "1810".into()]);
    assert_eq!(found.unwrap(), expected);
}
