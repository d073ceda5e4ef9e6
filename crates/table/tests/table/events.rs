//! Operations on tables in the store's log: targets, metadata, and one event for each operation.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use waxseal::registry::{Event, Field, Operation, Paging, Payload, Query, Registry, Target};
use waxseal::{Db, ErrorKind as StoreError};
use waxseal_table::{
    Alteration, Changes, ColumnType, ErrorKind, Index, Result, Row, RowOptions, Schema, Table, Tables, Value,
};

use crate::store::{book, books, fill, memory, volumes};

/// Returns the events at and below a target, as `operation target columns`, oldest first.
fn events(registry: &Registry, target: &str) -> Vec<String> {
    let query = Query { below: true, ..Query::of(registry.target(target).unwrap()) };
    let mut found = registry.log_query(&query, &Paging::ALL).unwrap().events;
    found.retain(|event| event.key.operation != Operation::REGISTRY_ADD);
    found.retain(|event| !matches!(event.key.target, Target::Engine(_) | Target::TableFile(_)));
    found.sort_by_key(|event| (event.key.seqno, event.key.operation, event.key.target.clone()));
    found
        .iter()
        .map(|event| format!("{:?} {} {}", event.key.operation, event.key.target, columns(event).join(",")))
        .collect()
}

fn columns(event: &Event) -> Vec<String> {
    let name = |field: &Field| match field {
        Field::Column(name) => Some(name.clone()),
        _ => None,
    };
    event.payload.fields().iter().filter_map(name).collect()
}

fn with_books() -> (Tables, Table, Registry) {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    let registry = tables.db().registry();
    (tables, table, registry)
}

#[test]
fn each_row_operation_is_one_event_with_its_columns() {
    let (tables, table, registry) = with_books();
    fill(&table);
    assert!(registry.register("library.books", "*").unwrap());
    table.insert(book("Zola", 1885, "Germinal")).unwrap();
    table.upsert(book("Zola", 1885, "Germinal!").with("price", Value::from(5))).unwrap();
    table.upsert(Row::new().with("author", "Zola").with("year", 1890)).unwrap();
    assert!(table.update(("Zola", 1890), Changes::new().set("title", "a").remove("price")).unwrap());
    assert!(!table.update(("Zola", 1), Changes::new().set("title", "a")).unwrap());
    table.insert(book("Zola", 1885, "again")).unwrap_err();
    table.delete(("Zola", 1890)).unwrap();
    table.delete_range("Austen", 1813..).unwrap();
    table.delete_partition("Shelley").unwrap();
    table.delete_range(Vec::<Value>::new(), "A".."B").unwrap();
    assert!(
        table
            .compare_and_set(("Zola", 1885), Some(&book("Zola", 1885, "Germinal!").with("price", Value::from(5))), None)
            .unwrap()
    );
    table.truncate().unwrap();
    let expected = [
        "Row.Insert library.books.Zola.1885 title",
        "Row.Update library.books.Zola.1885 title,price",
        "Row.Insert library.books.Zola.1890 ",
        "Row.Update library.books.Zola.1890 title,price",
        "Row.Delete library.books.Zola.1890 ",
        "Range.Delete library.books.Austen ",
        "Range.Delete library.books.Shelley ",
        "Range.Delete library.books ",
        "Row.Delete library.books.Zola.1885 ",
        "Table.Truncate library.books ",
    ];
    assert_eq!(events(&registry, "library.books"), expected);
    let insert = registry.query_latest("library.books.Zola.1885", "Row.Insert").unwrap().unwrap();
    let keys = |field: &&Field| matches!(field, Field::KeyColumn(_));
    assert_eq!(insert.payload.fields().iter().filter(keys).count(), 2);
    drop(tables);
}

/// Registrations of the whole store log what happens to tables, and nothing of the families that they are in.
#[test]
fn the_families_of_a_table_are_not_logged() {
    let (tables, table, registry) = with_books();
    registry.register("cluster:", "*").unwrap();
    table.insert(book("Zola", 1885, "Germinal")).unwrap();
    table.truncate().unwrap();
    tables.drop("library.books").unwrap();
    let expected =
        ["Row.Insert library.books.Zola.1885 title", "Table.Truncate library.books ", "Table.Drop library.books "];
    assert_eq!(events(&registry, "cluster:"), expected);
}

/// Operations of one kind on one target in one commit are one event.
#[test]
fn operations_of_one_commit_do_not_replace_each_other() {
    let (tables, table, registry) = with_books();
    registry.register("library.books", "*").unwrap();
    let add = |name: &str| (name.to_owned(), ColumnType::Text);
    let two = [add("genre"), add("place")];
    table.alter(two.into_iter().fold(Alteration::new(), |alter, (name, ty)| alter.add_column(&name, ty))).unwrap();
    table.insert(book("Zola", 1885, "Germinal")).unwrap();
    tables
        .transact(|transaction| {
            transaction.update(&table, ("Zola", 1885), Changes::new().set("genre", "novel"))?;
            transaction.update(&table, ("Zola", 1885), Changes::new().set("place", "Paris"))?;
            transaction.update(&table, ("Zola", 1885), Changes::new()).map(drop)
        })
        .unwrap();
    let found = events(&registry, "library.books");
    assert_eq!(found[0], "Table.AlterAdd library.books genre,place");
    let updated: Vec<&str> = found.iter().filter_map(|event| event.strip_prefix("Row.Update ")).collect();
    assert_eq!(updated.join(";").matches("genre").count(), 1, "{updated:?}");
    assert_eq!(updated.join(";").matches("place").count(), 1, "{updated:?}");
}

/// A deletion of many rows is logged for the registrations of each, as one of a raw family is.
#[test]
fn deletions_of_many_rows_concern_watched_rows() {
    let watched = [("library.books.Zola.1885", "*"), ("library.books", "Row.Delete"), ("cluster:", "Row.Delete")];
    for (target, operation) in watched {
        let (tables, table, registry) = with_books();
        fill(&table);
        registry.register(target, operation).unwrap();
        table.delete_partition("Austen").unwrap(); // another row
        table.delete_partition("Zola").unwrap();
        table.truncate().unwrap();
        tables.drop("library.books").unwrap();
        let other = (target != watched[0].0).then_some("Range.Delete library.books.Austen ");
        let expected: Vec<&str> = other
            .into_iter()
            .chain(["Range.Delete library.books.Zola ", "Table.Truncate library.books ", "Table.Drop library.books "])
            .collect();
        assert_eq!(events(&registry, "cluster:"), expected, "{target}");
    }
}

#[test]
fn a_row_is_refused_whose_key_is_too_long_for_its_event() {
    let (tables, table, registry) = with_books();
    let long = || book(&"a".repeat(65_000), 1885, "t");
    let logged = tables.db().column_family("raw").unwrap();
    registry.register("raw", "*").unwrap();
    table.insert(long()).unwrap(); // nothing of the table is registered
    drop(logged);
    registry.register("library.books.Zola", "*").unwrap();
    assert_eq!(table.upsert(long()).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(events(&registry, "library.books").is_empty());
}

#[test]
fn a_keyspace_has_no_name_of_a_family() {
    let (tables, _, registry) = with_books();
    tables.db().column_family("raw").unwrap();
    assert_eq!(tables.create("raw.books", books()).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tables.rename("library.books", "raw.books").unwrap_err().kind(), ErrorKind::Invalid);
    assert!(registry.register("raw.books", "*").unwrap(), "a key of the family");
}

#[test]
fn a_column_is_logged_if_it_is_registered() {
    let (_, table, registry) = with_books();
    registry.register("library.books.Austen.1815.title", "*").unwrap();
    registry.register("library.books.Shelley", "Column.Delete").unwrap();
    for (author, year) in [("Austen", 1815), ("Austen", 1813), ("Shelley", 1818)] {
        table.insert(book(author, year, "t").with("price", Value::from(1))).unwrap();
        table.update((author, year), Changes::new().set("title", "u").remove("price")).unwrap();
    }
    table.update(("Austen", 1815), Changes::new().remove("title")).unwrap();
    let expected = [
        "Column.Insert library.books.Austen.1815.title title",
        "Column.Update library.books.Austen.1815.title title",
        "Column.Delete library.books.Shelley.1818.price price",
        "Column.Delete library.books.Austen.1815.title title",
    ];
    assert_eq!(events(&registry, "library.books"), expected);
}

#[test]
fn schema_changes_are_events_of_their_table() {
    let (tables, table, registry) = with_books();
    registry.register("library", "*").unwrap();
    table.alter(Alteration::new().add_column("genre", ColumnType::Text).rename_column("title", "name")).unwrap();
    table.drop_column_for("genre", Duration::from_secs(1000)).unwrap();
    table.undelete_column("genre").unwrap();
    table.drop_column("genre").unwrap();
    table.drop_column("genre").unwrap();
    table.purge_columns().unwrap();
    tables.rename("library.books", "library.old").unwrap();
    tables.drop("library.old").unwrap();
    let (alter, dropped) = ("Table.AlterDrop library.books genre", "Table.Drop library.old ");
    let rename = ["Table.AlterRename library.books name", "Table.AlterRename library.books "];
    let add = "Table.AlterAdd library.books genre";
    let expected = [add, rename[0], alter, add, alter, alter, alter, rename[1], dropped];
    assert_eq!(events(&registry, "ks:library"), expected);
    let first = registry.query_all("ks:library.books", "Table.AlterDrop").unwrap().remove(0);
    let state = first.payload.fields().iter().find_map(|field| match field {
        Field::ColumnState(state) => Some(*state),
        _ => None,
    });
    assert_eq!(state, Some(1));
    assert!(first.payload.fields().iter().any(|field| matches!(field, Field::Deadline(_))));
}

#[test]
fn a_registration_of_the_store_logs_rows_and_not_their_records() {
    let (tables, table, registry) = with_books();
    let other = tables.db().column_family("raw").unwrap();
    registry.register("cluster:", "Row.Write").unwrap();
    table.insert(book("Austen", 1815, "Emma")).unwrap();
    other.put("key", "value").unwrap();
    table.create_index(Index::on("by_title", ["title"])).unwrap();
    assert_eq!(events(&registry, "cluster:"), ["Row.Insert library.books.Austen.1815 title", "Row.Update raw.key "]);
}

#[test]
fn what_a_transaction_undoes_is_no_event() {
    let (tables, table, registry) = with_books();
    table.create_index(Index::on("by_title", ["title"]).unique()).unwrap();
    registry.register("library.books", "Row.Write").unwrap();
    let transaction = tables.transaction();
    transaction.insert(&table, book("Austen", 1815, "Emma")).unwrap();
    assert_eq!(transaction.upsert(&table, book("Austen", 1816, "Emma")).unwrap_err().kind(), ErrorKind::Exists);
    transaction.update(&table, ("Austen", 1815), Changes::new().set("title", "Emma!")).unwrap();
    transaction.commit().unwrap();
    let rolled_back = tables.transaction();
    rolled_back.insert(&table, book("Zola", 1, "a")).unwrap();
    rolled_back.rollback();
    let (raw, rows) = (tables.db().transaction(), tables.db().column_family("raw").unwrap());
    for year in ["1", "2"] {
        raw.savepoint();
        raw.put(&rows, year, "a").unwrap();
        let row = registry.target(&format!("library.books.Zola.{year}")).unwrap();
        raw.describe(row, Operation::ROW_UPDATE, Payload::new());
    }
    raw.rollback_to_savepoint().unwrap();
    raw.commit().unwrap();
    let expected = [
        "Row.Insert library.books.Austen.1815 title",
        "Row.Update library.books.Austen.1815 title",
        "Row.Update library.books.Zola.1 ",
    ];
    assert_eq!(events(&registry, "library.books"), expected);
}

#[test]
fn a_commit_that_was_made_before_a_registration_runs_again() {
    let (tables, table, registry) = with_books();
    let transaction = tables.transaction();
    transaction.insert(&table, book("Austen", 1815, "Emma")).unwrap();
    registry.register("library.books", "Row.Insert").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let mut runs = 0;
    registry.unregister("library.books", "Row.Insert").unwrap();
    tables
        .transact(|transaction| {
            runs += 1;
            transaction.insert(&table, book("Austen", 1815, "Emma"))?;
            if runs == 1 {
                registry.register("library.books", "Row.Insert").unwrap();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!((runs, events(&registry, "library.books").len()), (2, 1));
}

#[test]
fn writes_beside_a_registration_are_logged_from_it_on() {
    let tables = memory();
    let schema = Schema::new().partition_key("key", ColumnType::I32).column("value", ColumnType::I32);
    let table = tables.create("test.rows", schema).unwrap();
    let registry = tables.db().registry();
    let (written, is_done) = (AtomicI32::new(0), AtomicBool::new(false));
    let wait_for = |least: i32| {
        while written.load(Ordering::SeqCst) < least {
            std::thread::yield_now();
        }
    };
    let (before, last) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                let key = written.load(Ordering::SeqCst);
                table.upsert(Row::new().with("key", key).with("value", key)).unwrap();
                written.store(key + 1, Ordering::SeqCst);
            }
        });
        wait_for(50);
        let before = written.load(Ordering::SeqCst);
        registry.register("test.rows", "Row.Insert").unwrap();
        let after = written.load(Ordering::SeqCst);
        wait_for(after + 50);
        is_done.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        ((before, after), written.load(Ordering::SeqCst) - 1)
    });
    let query = Query { below: true, ..Query::of(registry.target("test.rows").unwrap()) };
    let logged = registry.log_query(&query, &Paging::ALL).unwrap().events;
    let key = |event: &Event| event.key.target.to_string().rsplit('.').next().unwrap().parse::<i32>().unwrap();
    let mut keys: Vec<i32> = logged.iter().map(key).collect();
    keys.sort_unstable();
    // From some row on, each one is logged.
    assert_eq!(keys, (keys[0]..=last).collect::<Vec<_>>());
    assert!((before.0..=before.1 + 1).contains(&keys[0]), "{before:?} {}", keys[0]);
}

#[test]
fn targets_that_do_not_exist_are_refused() -> Result<()> {
    let (tables, table, registry) = with_books();
    let volumes = tables.create("corpus.volumes", volumes())?;
    for (target, operation) in [
        ("library.none", "Row.Write"),
        ("library.none.key", "Row.Write"),
        ("library.books.Austen", "Table.Drop"),
        ("library.books", "Session.Open"),
        ("library.books.a.b.c.d", "Row.Write"),
    ] {
        assert_eq!(*registry.register(target, operation).unwrap_err().kind(), StoreError::Invalid, "{target}");
    }
    // A row of one key column, a dynamic column, and an entry of a repeated group.
    registry.register("corpus.volumes.iu\\.1", "*").unwrap();
    let row = Row::new().with("volume", "iu.1").with("label", 1).with_entry("pages", "1", "contents", "a");
    volumes.insert_with(row, RowOptions::new().expires_in(Duration::from_secs(100)))?;
    assert_eq!(events(&registry, "corpus.volumes"), ["Row.Insert corpus.volumes.iu\\.1 pages,label"]);
    let event = registry.query_latest("corpus.volumes.iu\\.1", "Row.Insert").unwrap().unwrap();
    assert!(event.payload.fields().iter().any(|field| matches!(field, Field::Ttl(98..=100))));
    drop(table);
    Ok(())
}

#[test]
fn events_are_kept_with_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    let tables = open();
    let table = tables.create("library.books", books()).unwrap();
    let alice = tables.db().session("alice").unwrap();
    alice.register("library.books", "Row.Insert").unwrap();
    table.insert(book("Austen", 1815, "Emma")).unwrap();
    drop((alice, table, tables));
    let tables = open();
    let registry = tables.db().registry();
    assert!(registry.is_registered("library.books.Zola.1", "Row.Insert").unwrap());
    tables.table("library.books").unwrap().insert(book("Zola", 1, "a")).unwrap();
    assert_eq!(events(&registry, "library.books").len(), 2);
}

fn clients(registry: &Registry, target: &str) -> Vec<String> {
    let query = Query { below: true, ..Query::of(registry.target(target).unwrap()) };
    let mut found = registry.log_query(&query, &Paging::ALL).unwrap().events;
    found.retain(|event| event.key.operation != Operation::REGISTRY_ADD);
    found.sort_by_key(|event| event.key.seqno);
    found.iter().map(|event| format!("{:?} {}", event.key.operation, event.key.client)).collect()
}

#[test]
fn events_name_the_session_of_the_tables() {
    let (anonymous, table, registry) = with_books();
    registry.register("library", "*").unwrap();
    let [alice, bob] = ["alice", "bob"].map(|name| anonymous.db().session(name).unwrap());
    let tables = anonymous.in_session(&alice).unwrap();
    let of_alice = tables.table("library.books").unwrap();
    of_alice.insert(book("Zola", 1885, "Germinal")).unwrap();
    of_alice.upsert(book("Zola", 1885, "Germinal!")).unwrap();
    assert!(of_alice.update(("Zola", 1885), Changes::new().set("title", "a")).unwrap());
    of_alice.delete(("Zola", 1885)).unwrap();
    of_alice.delete_partition("Zola").unwrap();
    of_alice.truncate().unwrap();
    of_alice.alter(Alteration::new().add_column("genre", ColumnType::Text)).unwrap();
    of_alice.drop_column("genre").unwrap();
    of_alice.drop_column("genre").unwrap();
    of_alice.purge_columns().unwrap();
    tables.transact(|transaction| transaction.insert(&of_alice, book("Zola", 1, "a"))).unwrap();
    anonymous.transact(|transaction| transaction.insert(&of_alice, book("Zola", 2, "a"))).unwrap();
    tables.transact(|transaction| transaction.insert(&table, book("Zola", 3, "a"))).unwrap();
    tables.rename("library.books", "library.old").unwrap();
    tables.drop("library.old").unwrap();
    let found = clients(&registry, "ks:library"); // it has no table any more
    assert_eq!(found.len(), 15, "{found:?}");
    assert!(found.iter().all(|event| event.ends_with(" alice")), "{found:?}");

    let tables = anonymous.in_session(&bob).unwrap();
    let of_bob = tables.create("library.new", books()).unwrap();
    of_bob.insert(book("Zola", 1885, "Germinal")).unwrap();
    anonymous.table("library.new").unwrap().delete(("Zola", 1885)).unwrap();
    assert_eq!(clients(&registry, "library.new"), ["Row.Insert bob", "Row.Delete -"]);
    // A transaction is of one session, and a session of one store.
    let mixed = anonymous.in_session(&alice).unwrap().transaction();
    assert_eq!(mixed.insert(&of_bob, book("Zola", 1, "a")).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(memory().in_session(&alice).unwrap_err().kind(), ErrorKind::Invalid);
}
