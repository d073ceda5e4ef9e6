//! A table with nulls, a descending column and indexes, and queries over it.

use waxseal_sql::{Error, Sql, display_cell};
use waxseal_table::{ColumnType, Index, Row, Schema, Table, Tables};

pub(crate) fn memory() -> Tables {
    Tables::open(&waxseal::Db::memory().unwrap()).unwrap()
}

pub(crate) fn schema() -> Schema {
    Schema::new()
        .partition_key("author", ColumnType::Text)
        .clustering_key_descending("year", ColumnType::I32)
        .clustering_key("volume", ColumnType::I64)
        .column("genre", ColumnType::Text)
        .column("price", ColumnType::Decimal { precision: 9, scale: 2 })
        .column("pages", ColumnType::I32)
        .index(Index::on("by_genre", ["genre", "pages"]))
        .index(Index::on("by_pages", ["pages"]).with_missing())
}

/// A record that no row has.
pub(crate) const DAMAGED: &[u8] = b"\x01\x03\x02\x05ab";

/// A row of the tests, in the order of the schema's columns.
pub(crate) type Book = (&'static str, i32, i64, Option<&'static str>, Option<i32>);

/// Returns 240 rows. A fifth has no genre, and a seventh no pages.
pub(crate) fn books() -> Vec<Book> {
    let mut books = Vec::new();
    for number in 0..240i32 {
        let author = ["Austen", "Eliot", "Gaskell", "Shelley"][(number % 4) as usize];
        let genre = Some(["novel", "letters", "essay"][(number % 3) as usize]).filter(|_| number % 5 != 0);
        let pages = Some(number * 37 % 100).filter(|_| number % 7 != 0);
        books.push((author, 1800 + number / 8, i64::from(number), genre, pages));
    }
    books
}

pub(crate) fn fill(tables: &Tables, name: &str, schema: Schema) -> Table {
    let table = tables.create(name, schema).unwrap();
    for (author, year, volume, genre, pages) in books() {
        let mut row = Row::new().with("author", author).with("year", year).with("volume", volume);
        if let Some(genre) = genre {
            row = row.with("genre", genre);
        }
        if let Some(pages) = pages {
            row = row.with("pages", pages);
        }
        table.insert(row).unwrap();
    }
    table
}

/// Returns the cells of a result.
pub(crate) fn rows(tables: &Tables, query: &str) -> Result<Vec<Vec<String>>, Error> {
    let mut rows = Vec::new();
    for batch in Sql::new(tables).query(query)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cell = |column| display_cell(&batch, column, row).unwrap().to_string();
            rows.push((0..batch.num_columns()).map(cell).collect());
        }
    }
    Ok(rows)
}

/// Returns the line of a plan that names the scan.
pub(crate) fn scan_of(tables: &Tables, query: &str) -> String {
    let plan = rows(tables, &format!("EXPLAIN FORMAT INDENT {query}")).unwrap();
    let text = plan.iter().flatten().find(|text| text.contains("by=")).cloned().unwrap_or_default();
    let line = text.lines().find(|line| line.contains("by=")).unwrap_or_default();
    line.trim().to_owned()
}
