//! Rows on several nodes, as callers read and write them.

#![expect(clippy::disallowed_methods, reason = "the tests move and delete directories of stores")]

use std::path::Path;

use tempfile::TempDir;
use waxseal::Db;
use waxseal::registry::{Field, Operation, TableName, Target};
use waxseal_placement::{ErrorKind, Placement, RoutedTable, Splits};
use waxseal_table::{Changes, ColumnType, Filter, Row, Schema, Tables};

fn books() -> Schema {
    Schema::new()
        .partition_key("author", ColumnType::Text)
        .clustering_key("year", ColumnType::I32)
        .column("title", ColumnType::Text)
}

fn book(author: &str, year: i32, title: &str) -> Row {
    Row::new().with("author", author).with("year", year).with("title", title)
}

/// Opens a placement with nodes `n1` and so on.
fn placement_of(dir: &TempDir, nodes: usize) -> Placement {
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    for node in 1..=nodes {
        let id = format!("n{node}");
        placement.add(&id, dir.path().join(&id)).unwrap();
    }
    placement
}

fn at(keys: &[&str]) -> Splits {
    Splits::At(keys.iter().map(|key| vec![(*key).into()]).collect())
}

fn authors(table: &RoutedTable) -> Vec<String> {
    let author = |row: Row| row.get("author").unwrap().as_str().unwrap().to_owned();
    table.select().rows().unwrap().map(|row| author(row.unwrap())).collect()
}

/// Counts the rows in the store of a node.
fn rows_in(directory: &Path, table: &str) -> u64 {
    let db = Db::open_read_only(directory).unwrap();
    Tables::open(&db).unwrap().table(table).unwrap().select().count().unwrap()
}

#[test]
fn rows_are_read_and_written_on_the_owner_of_their_range() {
    let dir = tempfile::tempdir().unwrap();
    let placement = placement_of(&dir, 2);
    let table = placement.create_table("library.books", books(), &at(&["D", "M", "T"])).unwrap();
    for (author, owner) in [("Austen", "n1"), ("D", "n2"), ("Eliot", "n2"), ("Melville", "n1"), ("Woolf", "n2")] {
        table.insert(book(author, 1900, "first")).unwrap();
        table.insert(book(author, 1901, "second")).unwrap();
        assert_eq!(table.owner(author).unwrap(), owner, "{author}");
    }
    assert_eq!(table.insert(book("Austen", 1900, "again")).unwrap_err().kind(), ErrorKind::Exists);
    table.upsert(book("Austen", 1900, "third")).unwrap();
    assert!(table.update(("Eliot", 1901), Changes::new().set("title", "fourth")).unwrap());
    table.delete(("Woolf", 1900)).unwrap();
    assert_eq!(table.get(("Austen", 1900)).unwrap(), Some(book("Austen", 1900, "third")));
    assert_eq!(table.get(("Eliot", 1901)).unwrap(), Some(book("Eliot", 1901, "fourth")));
    assert_eq!(table.get(("Woolf", 1900)).unwrap(), None);
    let missing = table.insert(Row::new().with("author", "Austen")).unwrap_err();
    assert_eq!(missing.to_string(), "library.books: the row has no value of the key's column \"year\"");
    assert_eq!(
        (rows_in(&dir.path().join("n1"), "library.books"), rows_in(&dir.path().join("n2"), "library.books")),
        (4, 5)
    );
}

#[test]
fn a_select_reads_the_ranges_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let placement = placement_of(&dir, 3);
    let table = placement.create_table("library.books", books(), &at(&["M", "D", "T"])).unwrap();
    let written = ["Austen", "D", "Eliot", "M", "Melville", "Twain", "Woolf"];
    for author in written {
        table.insert(book(author, 1900, author)).unwrap();
        table.insert(book(author, 1901, author)).unwrap();
    }
    let both = |authors: &[&str]| authors.iter().flat_map(|author| [*author, *author]).map(str::to_owned).collect();
    let expected: Vec<String> = both(&written);
    assert_eq!(authors(&table), expected);

    let found = |select: waxseal_placement::RoutedSelect| {
        let rows = select.rows().unwrap().map(|row| row.unwrap());
        rows.map(|row| row.get("author").unwrap().as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let reversed: Vec<String> = expected.iter().rev().cloned().collect();
    assert_eq!(found(table.select().reverse()), reversed);
    assert_eq!(found(table.select().reverse().limit(5)), reversed[..5]);
    assert_eq!(found(table.select().range("D".."Twain")), both(&["D", "Eliot", "M", "Melville"]));
    assert_eq!(found(table.select().prefix("Melville").range(1901..)), ["Melville"]);
    assert_eq!(found(table.select().filter(Filter::eq("title", "Woolf"))), both(&["Woolf"]));
    let row = table.select().prefix(("Twain", 1900)).columns(["title"]).rows().unwrap().next().unwrap().unwrap();
    assert_eq!(row, Row::new().with("title", "Twain"));
    assert!(table.select().columns(["pages"]).rows().is_err());
}

#[test]
fn hashed_partitions_are_divided_by_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let placement = placement_of(&dir, 2);
    let table = placement.create_table("library.books", books().hashed(), &Splits::Even(8)).unwrap();
    for year in 0..40 {
        table.insert(book(&format!("author {year}"), year, "title")).unwrap();
    }
    let (one, other) =
        (rows_in(&dir.path().join("n1"), "library.books"), rows_in(&dir.path().join("n2"), "library.books"));
    assert_eq!(one + other, 40);
    assert!(one > 5 && other > 5, "{one} and {other}");
    assert_eq!(table.select().rows().unwrap().count(), 40);
    for year in 0..40 {
        let author = format!("author {year}");
        assert!(table.get((author.as_str(), year)).unwrap().is_some());
        assert_eq!(table.select().prefix(author).rows().unwrap().count(), 1);
    }
    let refused = table.select().range("a".."b").rows().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[test]
fn a_placement_is_found_again_and_its_nodes_are_those_that_joined() {
    let dir = tempfile::tempdir().unwrap();
    let placement = placement_of(&dir, 2);
    placement.create_table("library.books", books(), &at(&["M"])).unwrap().insert(book("Woolf", 1925, "x")).unwrap();
    let locked = Placement::open(dir.path().join("placement")).unwrap_err();
    assert_eq!(locked.kind(), ErrorKind::Locked);
    let beside = Placement::open_read_only(dir.path().join("placement")).unwrap();
    assert_eq!(beside.status().unwrap().ranges.len(), 2);
    assert!(beside.table("library.books").is_err() && beside.add("n3", dir.path().join("n3")).is_err());
    drop((placement, beside));

    let placement = Placement::open(dir.path().join("placement")).unwrap();
    let table = placement.table("library.books").unwrap();
    assert!(table.get(("Woolf", 1925)).unwrap().is_some());
    assert_eq!(placement.table("library.films").unwrap_err().kind(), ErrorKind::NotFound);
    drop((placement, table));

    // The directories of the nodes are exchanged, and one is lost.
    let move_to = |from: &str, to: &str| std::fs::rename(dir.path().join(from), dir.path().join(to)).unwrap();
    move_to("n2", "elsewhere");
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    let table = placement.table("library.books").unwrap();
    assert!(table.get(("Austen", 1815)).unwrap().is_none());
    assert!(table.get(("Woolf", 1925)).unwrap_err().to_string().contains("node n2"));
    assert!(!dir.path().join("n2").exists());
    let rows: Vec<bool> = table.select().rows().unwrap().map(|row| row.is_ok()).collect();
    assert_eq!(rows, [false]);
    drop((placement, table));
    move_to("n1", "n2");
    move_to("elsewhere", "n1");
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    let refused = placement.table("library.books").unwrap_err().to_string();
    assert!(refused.contains("node n2") && refused.contains("is another one"), "{refused}");
    assert!(placement.status().unwrap().nodes.iter().all(|node| node.problem.is_some()));
}

#[test]
fn a_missing_range_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let placement = placement_of(&dir, 1);
    placement.create_table("library.books", books(), &at(&["D", "M"])).unwrap();
    drop(placement);
    let db = Db::open(dir.path().join("placement")).unwrap();
    let ranges = Tables::open(&db).unwrap().table("placement.ranges").unwrap();
    let lost = ranges.select().rows().unwrap().nth(1).unwrap().unwrap();
    ranges.delete(("library.books", lost.get("start").unwrap().clone())).unwrap();
    drop((ranges, db));
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    let refused = placement.table("library.books").unwrap_err().to_string();
    assert!(refused.starts_with("range library.books [44") && refused.ends_with("has no owner"), "{refused}");
}

#[test]
fn a_table_of_one_store_is_placed_with_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let create = |node: &str, schema: Schema| {
        let tables = Tables::open(&Db::open(dir.path().join(node)).unwrap()).unwrap();
        let table = tables.create("library.books", schema).unwrap();
        for author in ["Austen", "Woolf"] {
            table.insert(book(author, 1900, "title")).unwrap();
        }
    };
    create("n1", books());
    let placement = placement_of(&dir, 2);
    assert_eq!(placement.tables_of("n1").unwrap().names().unwrap(), ["library.books"]);
    let table = placement.place_table("library.books", "n1", &at(&["M"])).unwrap();
    assert_eq!(authors(&table), ["Austen", "Woolf"]);
    assert_eq!(table.owner("Woolf").unwrap(), "n1");
    assert_eq!(placement.tables_of("n2").unwrap().names().unwrap(), ["library.books"]);

    // A node whose store has rows of a placed table, or another schema, is refused.
    create("n3", books());
    let refused = placement.add("n3", dir.path().join("n3")).unwrap_err();
    assert_eq!(refused.to_string(), "table library.books on node n3 has rows");
    create("n4", books().column("pages", ColumnType::I32));
    assert_eq!(placement.add("n4", dir.path().join("n4")).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(placement.status().unwrap().nodes.len(), 2);
}

#[test]
fn refused_calls_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    let kind = |result: waxseal_placement::Result<RoutedTable>| result.unwrap_err().kind();
    assert_eq!(kind(placement.create_table("library.books", books(), &at(&[]))), ErrorKind::Invalid); // no node
    for id in ["", "a b", "../n1", "..", &"x".repeat(256)] {
        assert_eq!(placement.add(id, dir.path().join("n1")).unwrap_err().kind(), ErrorKind::Invalid);
    }
    placement.add("n1", dir.path().join("n1")).unwrap();
    assert_eq!(placement.add("n1", dir.path().join("n2")).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(placement.add("n2", dir.path().join("n1")).unwrap_err().kind(), ErrorKind::Locked);
    let indexed = books().index(waxseal_table::Index::on("by_title", ["title"]));
    assert_eq!(kind(placement.create_table("library.books", indexed, &at(&[]))), ErrorKind::Invalid);
    assert_eq!(kind(placement.create_table("library.books", books(), &Splits::Even(4))), ErrorKind::Invalid);
    let hashed = || books().hashed();
    assert_eq!(kind(placement.create_table("library.films", hashed(), &Splits::Even(0))), ErrorKind::Invalid);
    assert_eq!(kind(placement.create_table("library.films", hashed(), &at(&["M"]))), ErrorKind::Invalid);
    assert!(placement.placed_tables().unwrap().is_empty());

    placement.create_table("library.books", books(), &at(&[])).unwrap();
    assert_eq!(kind(placement.create_table("library.books", books(), &at(&[]))), ErrorKind::Exists);
    assert_eq!(kind(placement.place_table("library.books", "n1", &at(&[]))), ErrorKind::Exists);
    drop(placement);
    // The store of a node is no placement, and belongs to one placement.
    assert_eq!(Placement::open(dir.path().join("n1")).unwrap_err().kind(), ErrorKind::Invalid);
    let other = Placement::open(dir.path().join("other")).unwrap();
    assert_eq!(other.add("n1", dir.path().join("n1")).unwrap_err().kind(), ErrorKind::Exists);
}

#[test]
fn the_placement_store_logs_joins_and_owners() {
    let dir = tempfile::tempdir().unwrap();
    let placement = placement_of(&dir, 2);
    placement.create_table("library.books", books(), &at(&["M"])).unwrap();
    let registry = placement.registry();
    let joined = registry.query_latest(Target::Node("n2".to_owned()), Operation::NODE_JOIN).unwrap().unwrap();
    let directory = dir.path().join("n2").to_str().unwrap().to_owned();
    assert_eq!(joined.payload.fields()[0], Field::Setting(("directory".to_owned(), directory)));
    assert_eq!(registry.query_all("placement.nodes.n1", "Row.Insert").unwrap().len(), 1);
    let (ranges, partition) = (TableName::new("placement", "ranges"), vec!["library.books".into()]);
    let owned = Target::Row { table: ranges, partition, clustering: vec!["-".into()] };
    assert_eq!(registry.query_all(owned, "Row.Insert").unwrap().len(), 1);
    let registrations = registry.registrations().unwrap().len();
    drop((registry, placement));
    let again = Placement::open(dir.path().join("placement")).unwrap();
    assert_eq!(again.registry().registrations().unwrap().len(), registrations);
}
