//! Tables that the tests share.

use waxseal::Db;
use waxseal_table::{ColumnType, Row, Schema, Table, Tables};

pub(crate) fn memory() -> Tables {
    Tables::open(&Db::memory().unwrap()).unwrap()
}

/// Authors, and their books by year.
pub(crate) fn books() -> Schema {
    Schema::new()
        .partition_key("author", ColumnType::Text)
        .clustering_key("year", ColumnType::I32)
        .column("title", ColumnType::Text)
        .column("price", ColumnType::Decimal { precision: 9, scale: 2 })
}

/// A row per volume, with an entry per page, any labels, and the whole volume apart.
pub(crate) fn volumes() -> Schema {
    Schema::new()
        .partition_key("volume", ColumnType::Text)
        .column("title", ColumnType::Text)
        .column_in("whole", "zip", ColumnType::Bytes)
        .repeated_group("pages")
        .column_in("pages", "contents", ColumnType::Text)
        .column_in("pages", "byte_count", ColumnType::U64)
        .dynamic_columns()
}

pub(crate) fn book(author: &str, year: i32, title: &str) -> Row {
    Row::new().with("author", author).with("year", year).with("title", title)
}

/// Fills a table with books of two authors.
pub(crate) fn fill(table: &Table) {
    for (author, year, title) in [
        ("Austen", 1811, "Sense and Sensibility"),
        ("Austen", 1813, "Pride and Prejudice"),
        ("Austen", 1815, "Emma"),
        ("Shelley", 1818, "Frankenstein"),
        ("Shelley", 1826, "The Last Man"),
    ] {
        table.insert(book(author, year, title)).unwrap();
    }
}

/// Returns the years of the rows.
pub(crate) fn years(rows: impl Iterator<Item = waxseal_table::Result<Row>>) -> Vec<i64> {
    rows.map(|row| row.unwrap().get("year").unwrap().as_i64().unwrap()).collect()
}
