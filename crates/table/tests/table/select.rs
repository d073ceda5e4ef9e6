//! Selects: prefixes, ranges, projection, filters, limits and pages, in both directions.

use waxseal_table::{ColumnType, ErrorKind, Filter, Index, PageToken, Row, Schema, Table};

use crate::store::{book, books, fill, memory, years};

fn library() -> Table {
    let table = memory().create("library.books", books()).unwrap();
    fill(&table);
    table
}

#[test]
fn prefixes_and_ranges_choose_rows() {
    let table = library();
    let select = || table.select();
    assert_eq!(years(select().rows().unwrap()), [1811, 1813, 1815, 1818, 1826]);
    assert_eq!(years(select().reverse().rows().unwrap()), [1826, 1818, 1815, 1813, 1811]);
    assert_eq!(years(select().prefix("Austen").rows().unwrap()), [1811, 1813, 1815]);
    assert_eq!(years(select().prefix("Aust").rows().unwrap()), [0i64; 0]);
    assert_eq!(years(select().prefix(("Austen", 1813)).rows().unwrap()), [1813]);
    assert_eq!(years(select().prefix("Austen").range(1812..).rows().unwrap()), [1813, 1815]);
    assert_eq!(years(select().prefix("Austen").range(1811..1815).reverse().rows().unwrap()), [1813, 1811]);
    assert_eq!(years(select().prefix("Austen").range(..=1813).rows().unwrap()), [1811, 1813]);
    assert_eq!(years(select().range("B"..).rows().unwrap()), [1818, 1826]);
    assert_eq!(years(select().range(("Austen", 1815)..("Shelley", 1826)).rows().unwrap()), [1815, 1818]);
    assert_eq!(years(select().range(..).limit(2).rows().unwrap()), [1811, 1813]);
    for wrong in [
        select().prefix(("Austen", 1813, 1)),
        select().prefix(1),
        select().prefix("Austen").range("a"..),
        select().prefix(("Austen", 1813)).range(1..),
    ] {
        assert_eq!(wrong.rows().unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn ranges_of_encoded_keys_divide_the_rows() {
    let table = library();
    let split = table.encoded_key(("Austen", 1813)).unwrap();
    let (below, above) =
        (|| table.select().encoded_range(b"", Some(&split)), || table.select().encoded_range(&split, None));
    assert_eq!(years(below().rows().unwrap()), [1811]);
    assert_eq!(years(above().rows().unwrap()), [1813, 1815, 1818, 1826]);
    assert_eq!(years(above().reverse().limit(1).rows().unwrap()), [1826]);
    assert_eq!(years(below().prefix("Austen").range(1811..).rows().unwrap()), [1811]);
    assert_eq!(years(above().prefix("Austen").range(..1815).rows().unwrap()), [1813]);
    assert_eq!(years(below().prefix("Shelley").rows().unwrap()), [0i64; 0]);
    assert_eq!(years(above().range("T".."S").rows().unwrap()), [0i64; 0]);
    let empty = table.select().encoded_range(&split, Some(&split));
    assert_eq!(years(empty.rows().unwrap()), [0i64; 0]);
    let mut records = table.rows_family().range(split.clone()..);
    assert!(records.next().unwrap().unwrap().0.starts_with(&split));
    assert_eq!(table.encoded_key(("Austen", 1813, 1)).unwrap_err().kind(), ErrorKind::Invalid);

    let indexed = memory().create("library.books", books().index(Index::on("by_title", ["title"]))).unwrap();
    let refused = indexed.select().index("by_title").encoded_range(b"", None).rows();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    let hashed = memory().create("library.books", books().hashed()).unwrap();
    assert_eq!(hashed.encoded_key(("Austen", 1813)).unwrap()[..8], hashed.encoded_key("Austen").unwrap()[..8]);
}

#[test]
fn a_range_of_a_descending_column_is_one_of_values() {
    let schema = Schema::new()
        .partition_key("author", ColumnType::Text)
        .clustering_key_descending("year", ColumnType::I32)
        .column("title", ColumnType::Text);
    let table = memory().create("library.latest", schema).unwrap();
    for (year, title) in [(1811, "a"), (1813, "b"), (1815, "c")] {
        table.insert(book("Austen", year, title)).unwrap();
    }
    assert_eq!(years(table.select().rows().unwrap()), [1815, 1813, 1811]);
    assert_eq!(years(table.select().prefix("Austen").range(1812..).rows().unwrap()), [1815, 1813]);
    assert_eq!(years(table.select().prefix("Austen").range(1811..1815).rows().unwrap()), [1813, 1811]);
    assert_eq!(years(table.select().prefix("Austen").range(..=1811).rows().unwrap()), [1811]);
    let mixed = table.select().range(("Austen", 1812)..);
    assert_eq!(mixed.rows().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn hashed_partitions_have_no_ranges() {
    let table = memory().create("library.books", books().hashed()).unwrap();
    fill(&table);
    assert_eq!(years(table.select().prefix("Austen").range(1812..).rows().unwrap()), [1813, 1815]);
    assert_eq!(table.get(("Shelley", 1818)).unwrap(), Some(book("Shelley", 1818, "Frankenstein")));
    assert_eq!(table.select().range("B"..).rows().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(years(table.select().range("B"..).full_scan().rows().unwrap()), [1818, 1826]);
    assert_eq!(table.select().count().unwrap(), 5);

    let schema = Schema::new().partition_key("a", ColumnType::I32).partition_key("b", ColumnType::I32).hashed();
    let pairs = memory().create("test.pairs", schema).unwrap();
    (0..10).for_each(|n| pairs.insert(Row::new().with("a", n / 5).with("b", n % 5)).unwrap());
    assert_eq!(pairs.select().prefix(1).rows().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(pairs.select().prefix(1).range(3..).full_scan().count().unwrap(), 2);
    assert_eq!(pairs.select().prefix((1, 3)).count().unwrap(), 1);
}

#[test]
fn columns_and_filters_choose_what_is_returned() {
    let table = library();
    let titles =
        |select: waxseal_table::Select<'_>| -> Vec<Row> { select.rows().unwrap().map(Result::unwrap).collect() };
    assert_eq!(titles(table.select().columns(["title"]).limit(1)), [Row::new().with("title", "Sense and Sensibility")]);
    let filter = Filter::eq("author", "Austen").and(Filter::gt("year", 1811i64).and(Filter::ne("title", "Emma")));
    assert_eq!(
        titles(table.select().columns(["title"]).filter(filter)),
        [Row::new().with("title", "Pride and Prejudice")]
    );
    assert_eq!(years(table.select().filter(Filter::is_in("year", [1815, 1818])).rows().unwrap()), [1815, 1818]);
    assert_eq!(table.select().filter(Filter::is_null("price")).count().unwrap(), 5);
    assert_eq!(table.select().columns(["isbn"]).rows().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(table.select().filter(Filter::eq("isbn", 1)).rows().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(table.select().filter(Filter::eq("year", "a")).rows().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn pages_follow_each_other_in_both_directions() {
    let table = library();
    for is_reverse in [false, true] {
        let select = || if is_reverse { table.select().reverse() } else { table.select() };
        let expected = years(select().range("Austen"..="Shelley").rows().unwrap());
        for limit in 1..7 {
            let (mut found, mut after) = (Vec::new(), None::<PageToken>);
            loop {
                let select = select().range("Austen"..="Shelley").limit(limit);
                let page = after.iter().fold(select, |select, token| select.after(token)).page().unwrap();
                found.extend(years(page.rows.into_iter().map(Ok)));
                let Some(next) = page.next else { break };
                after = Some(PageToken::from_bytes(next.as_bytes()));
            }
            assert_eq!(found, expected, "{limit} rows a page");
        }
    }
    assert_eq!(table.select().page().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_token_of_another_select_is_refused() {
    let schema = books().index(Index::on("by_title", ["title"])).index(Index::on("by_year", ["year"]));
    let table = memory().create("library.books", schema).unwrap();
    fill(&table);
    let token = |select: waxseal_table::Select<'_>| select.limit(2).page().unwrap().next.unwrap();
    let by = |name: Option<&str>| name.iter().fold(table.select(), |select, name| select.index(name));
    let orders = [None, Some("by_title"), Some("by_year")];
    for own in orders {
        let token = token(by(own));
        assert_eq!(by(own).after(&token).count().unwrap(), 3);
        for other in orders.into_iter().filter(|other| *other != own) {
            assert_eq!(by(other).after(&token).rows().unwrap_err().kind(), ErrorKind::Invalid, "{own:?}, {other:?}");
        }
        let bytes = token.as_bytes();
        for wrong in [&b""[..], &bytes[1..], &bytes[..4], b"r", b"i", b"zzz"] {
            let wrong = PageToken::from_bytes(wrong);
            assert_eq!(by(own).after(&wrong).rows().unwrap_err().kind(), ErrorKind::Invalid, "{own:?}, {wrong:?}");
        }
    }
    let rebuilt = token(by(Some("by_title")));
    table.rebuild_index("by_title").unwrap();
    assert_eq!(by(Some("by_title")).after(&rebuilt).rows().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_select_reads_one_snapshot() {
    let table = library();
    let mut rows = table.select().rows().unwrap();
    rows.next().unwrap().unwrap();
    table.delete(("Shelley", 1826)).unwrap();
    table.insert(book("Zola", 1885, "Germinal")).unwrap();
    assert_eq!(years(rows), [1813, 1815, 1818, 1826]);
    assert_eq!(years(table.select().rows().unwrap()), [1811, 1813, 1815, 1818, 1885]);
}
