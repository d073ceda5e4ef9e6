//! Queries that DataFusion 54 answers wrongly by itself.

use waxseal_sql::Error;

use crate::store::{fill, memory, rows, scan_of, schema};

#[test]
fn equal_steps_of_nested_queries_all_count() {
    let tables = memory();
    fill(&tables, "library.books", schema());
    let nested = |step: &str, levels: usize| {
        let base = "SELECT CAST(volume AS bigint) AS x, 7 AS y FROM library.books WHERE volume = 3".to_owned();
        let query = (0..levels).fold(base, |query, _| format!("SELECT {step} FROM ({query})"));
        rows(&tables, &query).unwrap().concat()
    };
    for levels in 0..6usize {
        assert_eq!(nested("x + x AS x, y", levels), [(3 << levels).to_string(), "7".into()]);
        assert_eq!(nested("x + 1 AS x, y", levels), [(3 + levels).to_string(), "7".into()]);
        assert_eq!(nested("y AS x, x AS y", levels), if levels % 2 == 0 { ["3", "7"] } else { ["7", "3"] });
    }
    let query = "SELECT x + 1 AS x FROM (SELECT x + 1 AS x FROM (SELECT volume AS x FROM library.books))";
    assert_eq!(scan_of(&tables, query), "TableScan: library.books, by=key, columns=[volume]");
}

#[test]
fn no_rows_have_no_groups() {
    let tables = memory();
    fill(&tables, "library.books", schema());
    let counted = |end: &str| rows(&tables, &format!("SELECT count(*) FROM library.books {end}")).unwrap();
    assert_eq!(counted("WHERE year < 0"), [["0"]]);
    assert!(counted("WHERE year < 0 GROUP BY 'a'").is_empty());
    assert_eq!(counted("GROUP BY 'a'"), [["240"]]);
}

/// A row without pages is in no list, and outside of none but the empty one.
#[test]
fn null_is_neither_in_a_list_nor_outside() {
    let tables = memory();
    fill(&tables, "library.books", schema());
    let counted = |condition: &str| {
        let counted = rows(&tables, &format!("SELECT count(*) FROM library.books b WHERE {condition}"));
        counted.map(|rows| rows[0][0].parse::<u32>().unwrap())
    };
    let paged = "(SELECT pages FROM library.books WHERE pages < 50)";
    let all = "(SELECT pages FROM library.books)";
    let (inside, absent) = (counted("pages < 50").unwrap(), counted("pages IS NULL").unwrap());
    assert_eq!(counted(&format!("pages IN {paged}")).unwrap(), inside);
    assert_eq!(counted(&format!("pages IN {paged} OR volume < 0")).unwrap(), inside);
    assert_eq!(counted(&format!("pages NOT IN {paged} AND volume >= 0")).unwrap(), 240 - inside - absent);
    assert_eq!(counted(&format!("NOT (pages IN {paged})")).unwrap(), 240 - inside - absent);
    assert_eq!(counted(&format!("pages NOT IN {all}")).unwrap(), 0);
    assert_eq!(counted("pages NOT IN (SELECT pages FROM library.books WHERE year < 0)").unwrap(), 240);
    for refused in [
        format!("pages NOT IN {paged} OR volume < 0"),
        format!("NOT (volume < 0 OR pages IN {paged})"),
        format!("(pages IN {paged}) IS NULL"),
        format!("pages = ANY {paged}"),
        format!("pages <> ALL {paged} OR volume < 0"),
        "pages NOT IN (SELECT a.pages FROM library.books a WHERE a.year > b.year)".to_owned(),
    ] {
        match counted(&refused) {
            Err(Error::Query(message)) => assert!(message.starts_with("use EXISTS or NOT EXISTS"), "{message}"),
            other => panic!("{refused}: {other:?}"),
        }
    }
}
