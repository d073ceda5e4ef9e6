//! Queries beside writers.

use std::thread;

use waxseal_sql::{Error, Sql, display_cell};
use waxseal_table::{Changes, ColumnType, ErrorKind, Row, Schema, Table, Tables, Transaction};

use crate::store::{fill, memory, rows, schema};

#[test]
fn a_query_reads_the_snapshot_of_its_beginning() {
    let tables = memory();
    let table = fill(&tables, "library.books", schema());
    let query = "SELECT count(*) FROM library.books a JOIN library.books b USING (volume)";
    let mut batches = Sql::new(&tables).query(query).unwrap();
    table.truncate().unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(display_cell(&batch, 0, 0).unwrap().as_i64(), Some(240));
    assert_eq!(rows(&tables, query).unwrap()[0][0], "0");
}

/// Accounts with 100 each.
fn accounts(tables: &Tables, name: &str) -> Table {
    let schema = Schema::new().partition_key("id", ColumnType::I32).column("money", ColumnType::I64);
    let table = tables.create(name, schema).unwrap();
    for id in 0..200 {
        table.insert(Row::new().with("id", id).with("money", 100i64)).unwrap();
    }
    table
}

#[test]
fn a_query_of_two_tables_sees_whole_transactions() {
    let tables = memory();
    let (east, west) = (accounts(&tables, "bank.east"), accounts(&tables, "bank.west"));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for moved in 1..3000i64 {
                let both = |transaction: &Transaction| {
                    transaction.update(&east, 7, Changes::new().set("money", 100 - moved))?;
                    transaction.update(&west, 7, Changes::new().set("money", 100 + moved))
                };
                tables.transact(both).unwrap();
            }
        });
        let sum = "SELECT (SELECT sum(money) FROM bank.east) + (SELECT sum(money) FROM bank.west)";
        let union = "SELECT sum(money) FROM (SELECT * FROM bank.east UNION ALL SELECT * FROM bank.west)";
        let joined = "SELECT sum(e.money + w.money) FROM bank.east e JOIN bank.west w USING (id)";
        while !writer.is_finished() {
            for query in [sum, union, joined] {
                assert_eq!(rows(&tables, query).unwrap(), [["40000"]], "{query}");
            }
        }
    });
}

#[test]
fn a_table_that_is_dropped_meanwhile_is_read_whole_or_is_an_error() {
    let tables = memory();
    let begun = |query: &str| {
        fill(&tables, "library.books", schema());
        let batches = Sql::new(&tables).query(query).unwrap();
        tables.drop("library.books").unwrap();
        batches
    };
    // This scan begins with the query.
    let batch = begun("SELECT count(*) FROM library.books").next().unwrap().unwrap();
    assert_eq!(display_cell(&batch, 0, 0).unwrap().as_i64(), Some(240));
    // These begin with the first batch.
    let mut batches = begun("SELECT year FROM library.books UNION ALL SELECT year FROM library.books");
    match batches.next() {
        Some(Err(Error::Table(error))) => assert_eq!(error.kind(), ErrorKind::NotFound),
        other => panic!("{other:?}"),
    }
    assert!(batches.next().is_none());
    assert!(matches!(rows(&tables, "SELECT count(*) FROM library.books"), Err(Error::Query(_))));
}

#[test]
fn a_table_keeps_its_name_for_the_snapshot_of_a_query() {
    let tables = memory();
    let names = ["library.one", "library.two"];
    for (number, name) in (1i32..).zip(names) {
        let table = tables.create(name, Schema::new().partition_key("number", ColumnType::I32)).unwrap();
        table.insert(Row::new().with("number", number)).unwrap();
    }
    thread::scope(|scope| {
        // `one` is the first or the second table, or none.
        let writer = scope.spawn(|| {
            for _ in 0..500 {
                for (from, to) in [("one", "spare"), ("two", "one"), ("spare", "two")] {
                    tables.rename(&format!("library.{from}"), &format!("library.{to}")).unwrap();
                }
            }
        });
        while !writer.is_finished() {
            match rows(&tables, "SELECT a.number, b.number FROM library.one a CROSS JOIN library.two b") {
                Ok(both) => assert!(both == [["1", "2"]] || both == [["2", "1"]], "{both:?}"),
                Err(Error::Query(message)) => assert!(message.contains("not found"), "{message}"),
                Err(other) => panic!("{other}"),
            }
        }
    });
}
