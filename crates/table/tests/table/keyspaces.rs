//! Keyspaces: create, change, rename and drop, with their tables and events.

use std::thread;

use waxseal::Db;
use waxseal::registry::{Event, Field, Operation};
use waxseal_table::{ErrorKind, Keyspace, Tables};

use crate::store::{book, books, fill, memory};

/// What the events of a target say, oldest first.
fn logged(tables: &Tables, target: &str) -> Vec<String> {
    let shown = |event: &Event| {
        let fields = event.payload.fields().iter().filter_map(|field| match field {
            Field::OldName(name) => Some(format!(" old={name}")),
            Field::NewName(name) => Some(format!(" new={name}")),
            Field::Setting((name, value)) => Some(format!(" {name}={value}")),
            _ => None,
        });
        let operation = event.key.operation.known_name().unwrap();
        format!("{} {operation}{}", event.key.client, fields.collect::<String>())
    };
    tables.db().registry().query_all(target, "*").unwrap().iter().map(shown).collect()
}

#[test]
fn keyspaces_are_kept_with_their_replication_maps() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store")).unwrap();
    let tables = Tables::open(&db).unwrap();
    let library = || Keyspace::new("library").replication("east", 3).replication("west", 2);
    tables.create_keyspace(library()).unwrap();
    tables.create("corpus.volumes", books()).unwrap();
    tables.create("library.books", books()).unwrap();
    assert_eq!(tables.create_keyspace(library()).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(tables.create_keyspace(Keyspace::new("corpus")).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(tables.alter_keyspace(Keyspace::new("none")).unwrap_err().kind(), ErrorKind::NotFound);
    tables.alter_keyspace(Keyspace::new("corpus").replication("east", 1)).unwrap();
    db.close().unwrap();

    let db = Db::open_read_only(dir.path().join("store")).unwrap();
    let reader = Tables::open(&db).unwrap();
    let expected = [Keyspace::new("corpus").replication("east", 1), library()];
    assert_eq!(reader.keyspaces().unwrap(), expected);
    assert_eq!(reader.create_keyspace(Keyspace::new("new")).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(reader.rename_keyspace("corpus", "new").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(reader.drop_keyspace("corpus").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(reader.keyspaces().unwrap(), expected);
    db.close().unwrap();

    // A keyspace that was created outlives its tables, another one does not.
    let tables = Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    tables.drop("library.books").unwrap();
    assert_eq!(tables.keyspace("library").unwrap(), library());
    tables.create("other.books", books()).unwrap();
    assert_eq!(tables.keyspace("other").unwrap(), Keyspace::new("other"));
    tables.drop("other.books").unwrap();
    assert_eq!(tables.keyspace("other").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_renamed_keyspace_takes_its_tables_along() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store")).unwrap();
    let tables = Tables::open(&db).unwrap();
    let table = tables.create("library.books", books()).unwrap();
    fill(&table);
    tables.create("library.plays", books()).unwrap();
    tables.create("library2.books", books()).unwrap();
    tables.create("brief.books", books()).unwrap();
    tables.rename_keyspace("brief", "short").unwrap();
    tables.drop("short.books").unwrap();
    assert!(tables.keyspace("short").is_err(), "no call has created it");
    tables.rename_keyspace("library", "archive").unwrap();
    assert_eq!(tables.names().unwrap(), ["archive.books", "archive.plays", "library2.books"]);
    assert_eq!(table.name(), "archive.books");
    table.insert(book("a", 1, "b")).unwrap();
    assert_eq!(tables.table("archive.books").unwrap().select().count().unwrap(), 6);
    assert_eq!(tables.rename_keyspace("library", "other").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(tables.rename_keyspace("archive", "library2").unwrap_err().kind(), ErrorKind::Exists);
    db.close().unwrap();

    let tables = Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    assert_eq!(tables.names().unwrap(), ["archive.books", "archive.plays", "library2.books"]);
    let table = tables.table("archive.books").unwrap();
    assert_eq!(table.select().count().unwrap(), 6);
    assert_eq!(table.schema().unwrap().version(), 2);
}

#[test]
fn a_dropped_keyspace_is_gone_with_its_tables() {
    let tables = memory();
    tables.create_keyspace(Keyspace::new("library")).unwrap();
    let table = tables.create("library.books", books()).unwrap();
    tables.create("library.plays", books()).unwrap();
    tables.create("library2.books", books()).unwrap();
    let families = tables.db().column_families().len();
    tables.drop_keyspace("library").unwrap();
    assert_eq!(tables.names().unwrap(), ["library2.books"]);
    assert_eq!(tables.db().column_families().len(), families - 4);
    assert!(table.insert(book("a", 1, "b")).is_err() && table.get(("a", 1)).is_err());
    assert_eq!(tables.drop_keyspace("library").unwrap_err().kind(), ErrorKind::NotFound);
    tables.create_keyspace(Keyspace::new("library")).unwrap();
}

#[test]
fn names_and_maps_that_cannot_be_are_refused() {
    let tables = memory();
    tables.db().column_family("users").unwrap();
    let new = |name: &str| Keyspace::new(name);
    let long = "x".repeat(256);
    let many = (0..257).fold(new("a"), |keyspace, number| keyspace.replication(&number.to_string(), 1));
    for refused in [
        new(""),
        new("a.b"),
        new("users"),
        new(&long),
        new("a").replication("", 1),
        new("a").replication("b=c", 1),
        new("a").replication("b", "c\n"),
        new("a").replication("b", &long),
        many,
    ] {
        assert_eq!(tables.create_keyspace(refused.clone()).unwrap_err().kind(), ErrorKind::Invalid, "{refused:?}");
    }
    tables.create_keyspace(new("a")).unwrap();
    for name in ["", "a.b", "users"] {
        assert_eq!(tables.rename_keyspace("a", name).unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
    }
    assert_eq!(tables.keyspaces().unwrap(), [new("a")]);

    tables.create("library.books", books()).unwrap();
    for name in ["a", "library"] {
        assert_eq!(tables.db().column_family(name).unwrap_err().kind(), &waxseal::ErrorKind::Invalid, "{name}");
        tables.drop_keyspace(name).unwrap();
        tables.db().column_family(name).unwrap();
    }
}

#[test]
fn changes_of_keyspaces_are_events_with_their_maps() {
    let tables = memory();
    let alice = tables.in_session(&tables.db().session("alice").unwrap()).unwrap();
    let registry = tables.db().registry();
    registry.register("cluster:", Operation::SCHEMA_ALTER).unwrap();
    alice.create_keyspace(Keyspace::new("library").replication("east", 3)).unwrap();
    registry.register("library", Operation::SCHEMA_DROP).unwrap();
    tables.create("library.books", books()).unwrap();
    registry.register("library.books", Operation::TABLE_ALTER_RENAME).unwrap();
    tables.alter_keyspace(Keyspace::new("library").replication("west", 1)).unwrap();
    alice.rename_keyspace("library", "archive").unwrap();
    alice.rename_keyspace("archive", "library").unwrap();
    alice.drop_keyspace("library").unwrap();
    assert_eq!(
        logged(&tables, "ks:library"),
        [
            "alice Schema.Alter new=library replication.east=3",
            "- Schema.Alter replication.west=1",
            "alice Schema.Alter old=library new=archive replication.west=1",
            "alice Schema.Drop replication.west=1",
        ]
    );
    assert_eq!(logged(&tables, "ks:archive"), ["alice Schema.Alter old=archive new=library replication.west=1"]);
    assert_eq!(logged(&tables, "ks:library.books"), ["alice Table.AlterRename old=library.books new=archive.books"]);
}

#[test]
fn writers_go_on_while_their_keyspace_is_renamed() {
    let tables = memory();
    let all = ["library.books", "library.plays"].map(|name| tables.create(name, books()).unwrap());
    thread::scope(|scope| {
        for (thread, table) in all.iter().chain(&all).enumerate() {
            scope.spawn(move || {
                for number in 0..50 {
                    table.upsert(book(&format!("{thread}"), number, "title")).unwrap();
                }
            });
        }
        for (from, to) in [("library", "archive"), ("archive", "library")].repeat(10) {
            tables.rename_keyspace(from, to).unwrap();
        }
    });
    for table in &all {
        assert_eq!(table.select().count().unwrap(), 100);
        assert_eq!(table.schema().unwrap().version(), 21);
    }
}
