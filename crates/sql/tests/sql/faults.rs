//! Queries that fail, and what they must not see.

use waxseal_sql::{Error, Sql};
use waxseal_table::Row;

use crate::store::{DAMAGED, fill, memory, rows, schema};

#[test]
fn damage_ends_a_query_with_an_error() {
    let tables = memory();
    fill(&tables, "library.books", schema());
    let records = tables.db().column_family("waxseal_tables-1-rows").unwrap();
    let key = records.iter().keys().nth(120).unwrap().unwrap();
    records.put(&key, DAMAGED).unwrap();
    for query in [
        "SELECT count(genre) FROM library.books",
        "SELECT * FROM library.books",
        "SELECT max(pages) FROM library.books",
    ] {
        match rows(&tables, query) {
            Err(Error::Table(error)) => assert!(error.is_corruption(), "{query}: {error}"),
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[test]
fn dropped_columns_are_hidden() {
    let tables = memory();
    let table = fill(&tables, "library.books", schema());
    assert_eq!(rows(&tables, "SELECT * FROM library.books LIMIT 1").unwrap()[0].len(), 6);
    table.drop_column("price").unwrap();
    assert_eq!(rows(&tables, "SELECT * FROM library.books LIMIT 1").unwrap()[0].len(), 5);
    assert!(matches!(rows(&tables, "SELECT price FROM library.books"), Err(Error::Query(_))));
    table.undelete_column("price").unwrap();
    assert_eq!(rows(&tables, "SELECT price FROM library.books").unwrap().len(), 240);
}

#[test]
fn statements_that_change_something_are_refused() {
    let tables = memory();
    let table = fill(&tables, "library.books", schema());
    for statement in [
        "INSERT INTO library.books (author, year, volume) VALUES ('a', 1, 1)",
        "UPDATE library.books SET pages = 1",
        "DELETE FROM library.books",
        "CREATE TABLE library.others AS SELECT * FROM library.books",
        "CREATE VIEW library.others AS SELECT * FROM library.books",
        "CREATE EXTERNAL TABLE hosts STORED AS CSV LOCATION '/etc/hosts'",
        "DROP TABLE library.books",
        "COPY library.books TO '/tmp/books.csv'",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN ANALYZE DELETE FROM library.books",
    ] {
        match rows(&tables, statement) {
            Err(Error::Query(message)) => assert!(message.starts_with("SQL only reads"), "{statement}: {message}"),
            other => panic!("{statement}: {other:?}"),
        }
    }
    assert_eq!(table.select().count().unwrap(), 240);
    for malformed in ["", "SELEC 1", "SELECT 1; SELECT 2", "SELECT x FROM library.books", "SELECT 1 FROM library.none"]
    {
        assert!(matches!(rows(&tables, malformed), Err(Error::Query(_))), "{malformed}");
    }
}

#[test]
fn a_query_stays_within_its_memory() {
    let tables = memory();
    let table = tables.create("library.books", schema()).unwrap();
    let genre = "g".repeat(1000);
    for volume in 0..2000i64 {
        let row = Row::new().with("author", "a").with("year", 1).with("volume", volume);
        table.insert(row.with("genre", genre.as_str())).unwrap();
    }
    let query = "SELECT * FROM library.books ORDER BY volume DESC";
    let sorted = |bytes: usize| -> Result<usize, Error> {
        let batches = Sql::new(&tables).memory_bytes(bytes).query(query)?;
        batches.map(|batch| batch.map(|batch| batch.num_rows())).sum()
    };
    assert_eq!(sorted(64 << 20).unwrap(), 2000);
    assert!(matches!(sorted(1 << 20), Err(Error::Memory(_))));
}

#[test]
fn names_without_keyspace_are_of_the_keyspace_that_was_set() {
    let tables = memory();
    fill(&tables, "library.books", schema());
    let query = "SELECT count(*) FROM books";
    assert!(matches!(Sql::new(&tables).query(query), Err(Error::Query(_))));
    assert!(Sql::new(&tables).keyspace("library").query(query).unwrap().next().unwrap().is_ok());
    let listed = rows(&tables, "SHOW TABLES").unwrap();
    assert!(listed.iter().any(|row| row.contains(&"books".to_owned())), "{listed:?}");
}
