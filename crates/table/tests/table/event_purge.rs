//! Purges of the events that show values of a purged column.

use waxseal::registry::{Event, Field, Image, Mode, Operation, Paging, Query, RegisterOptions, Target, Values};
use waxseal::{Db, Seal};
use waxseal_table::{Changes, ColumnType, ErrorKind, Index, Row, Schema, Table, Tables};

use crate::certificate::{SECRET, leaking, open};
use crate::store::memory;

const ROWS: &str = "waxseal_tables-1-rows";
const INDEXES: &str = "waxseal_tables-1-indexes";

/// People with a secret in a column and in an index. All events of the raw families are logged with values.
pub(crate) fn people(tables: &Tables, mode: Mode) -> Table {
    let schema = ["name", "phone"]
        .into_iter()
        .fold(Schema::new().partition_key("id", ColumnType::I32), |schema, name| schema.column(name, ColumnType::Text));
    let schema = schema.index(Index::on("by_phone", ["phone"])).index(Index::on("by_name", ["name"]));
    let table = tables.create("staff.people", schema).unwrap();
    let values = if mode == Mode::Sync { Values::OldNew } else { Values::New };
    for family in [ROWS, INDEXES] {
        let options = RegisterOptions { mode, values, ..RegisterOptions::suited(&Target::family(family), None) };
        tables.db().registry().register_with(family, "*", options).unwrap();
    }
    for id in 0..20 {
        table.insert(Row::new().with("id", id).with("name", "n").with("phone", format!("{SECRET}{id}"))).unwrap();
    }
    table.update(7, Changes::new().set("name", "other")).unwrap();
    table.delete(8).unwrap();
    table
}

/// Returns the query of all events of a family and its keys.
fn all_of(family: &str) -> Query {
    Query { below: true, ..Query::of(Target::family(family)) }
}

fn purged(table: &Table) {
    (0..2).for_each(|_| table.drop_column("phone").unwrap());
    assert_eq!(table.purge_columns().unwrap().columns, ["phone"]);
}

fn logged(tables: &Tables, family: &str) -> Vec<Event> {
    tables.db().registry().drain_events().unwrap();
    tables.db().registry().log_query(&all_of(family), &Paging::ALL).unwrap().events
}

/// Returns the events of a family and its keys, oldest first within each key, without those about purges of events.
fn events(tables: &Tables, family: &str) -> Vec<Event> {
    let is_other = |event: &Event| event.key.operation != Operation::REGISTRY_REWRITE;
    logged(tables, family).into_iter().filter(is_other).collect()
}

/// Returns the purges of events that are logged at a family: the client, and the numbers of changed and removed events.
fn rewrites(tables: &Tables, family: &str) -> Vec<(String, u64, u64)> {
    let events = tables.db().registry().query_all(Target::family(family), Operation::REGISTRY_REWRITE).unwrap();
    let number = |event: &Event, wanted: &str| {
        let value = |field: &Field| match field {
            Field::Setting((name, value)) if name == wanted => Some(value.parse().unwrap()),
            _ => None,
        };
        event.payload.find(value).unwrap()
    };
    let counts = |event: &Event| (number(event, "events_changed"), number(event, "events_removed"));
    events.iter().map(|event| (event.key.client.clone(), counts(event).0, counts(event).1)).collect()
}

/// Returns true if an event says that the column was purged from it.
fn names_phone(event: &Event) -> bool {
    let fields = event.payload.fields();
    [Field::Column("phone".to_owned()), Field::ColumnId(3), Field::ColumnState(3)]
        .iter()
        .all(|own| fields.contains(own))
}

fn shows_secret(event: &Event) -> bool {
    let has = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    has(format!("{:?}", event.key).as_bytes())
        || event.payload.fields().iter().any(|field| match field {
            Field::OldValue(Image::Value(value)) | Field::NewValue(Image::Value(value)) => has(value),
            _ => false,
        })
}

#[test]
fn events_lose_the_column_in_each_mode() {
    for mode in [Mode::Sync, Mode::Async, Mode::Deferred] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let tables = open(&path);
        let table = people(&tables, mode);
        tables.db().registry().register("staff.people", "Table.AlterDrop").unwrap();
        assert_eq!(table.purge_events("phone").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(table.purge_events("none").unwrap_err().kind(), ErrorKind::NotFound);
        purged(&table);
        let before = table.certificate("phone").unwrap();
        assert!(before.events().is_none() && before.not_covered()[0].contains("that show values"), "{before}");
        tables.db().registry().drain_events().unwrap();
        assert!(!leaking(&path).is_empty() && events(&tables, ROWS).iter().any(shows_secret), "{mode:?}");
        let (rows, indexes) = (events(&tables, ROWS), events(&tables, INDEXES));

        let report = table.purge_events("phone").unwrap();
        let left = events(&tables, ROWS);
        assert!(!left.iter().chain(&events(&tables, INDEXES)).any(shows_secret), "{mode:?}");
        let keys = |events: &[Event]| events.iter().map(|event| event.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&left), keys(&rows), "who did what to which row, and when, stays");
        let (shown, named): (Vec<bool>, Vec<bool>) =
            rows.iter().zip(&left).map(|(before, after)| (shows_secret(before), names_phone(after))).unzip();
        assert_eq!((named, report.changed()), (shown.clone(), shown.iter().filter(|shown| **shown).count() as u64));
        assert_eq!(report.removed(), indexes.iter().filter(|event| shows_secret(event)).count() as u64);
        assert_eq!(report.removed() as usize, indexes.len() - events(&tables, INDEXES).len());
        assert_eq!(rewrites(&tables, ROWS), [("-".to_owned(), report.changed(), 0)]);
        assert_eq!(rewrites(&tables, INDEXES), [("-".to_owned(), 0, report.removed())]);
        let has_name = |event: &Event| {
            event
                .payload
                .fields()
                .iter()
                .any(|field| matches!(field, Field::NewValue(Image::Value(v)) if v.ends_with(b"n")))
        };
        assert!(left.iter().any(has_name), "the other column stays");
        let logged = tables.db().registry().query_latest("staff.people", "Table.AlterDrop").unwrap().unwrap();
        let setting = ("events_changed".to_owned(), report.changed().to_string());
        assert!(logged.payload.fields().contains(&Field::Setting(setting)), "{logged:?}");

        let certificate = table.certificate("phone").unwrap();
        assert_eq!(certificate.events(), Some(&report));
        assert!(Some(certificate.issued_at()) >= report.ended_at());
        assert!(certificate.not_covered()[0].contains("programs have added"), "{certificate}");
        assert_eq!(leaking(&path), Vec::<String>::new(), "{mode:?}");
        assert_eq!((table.purge_events("phone").unwrap(), table.certificate("phone").unwrap()), (report, certificate));
        // Later events are logged as before.
        table.update(1, Changes::new().set("name", "later")).unwrap();
        assert_eq!(events(&tables, ROWS).len(), left.len() + 1);
        drop((table, tables));
        let reader = Tables::open(&Db::open_read_only(&path).unwrap()).unwrap();
        let found = reader.table("staff.people").unwrap();
        assert_eq!(found.certificate("phone").unwrap().events(), Some(&report));
        assert_eq!(found.purge_events("phone").unwrap_err().kind(), ErrorKind::ReadOnly);
    }
}

#[test]
fn a_snapshot_holds_the_events_that_it_sees() {
    let tables = memory();
    let table = people(&tables, Mode::Sync);
    purged(&table);
    let snapshot = tables.db().snapshot();
    let report = table.purge_events("phone").unwrap();
    let seen = tables.db().registry().log_query_at(&all_of(ROWS), &Paging::ALL, &snapshot).unwrap();
    assert!(seen.events.iter().any(shows_secret) && !events(&tables, ROWS).iter().any(shows_secret));
    let error = table.certificate("phone").unwrap_err();
    assert!(error.kind() == ErrorKind::InUse && error.to_string().contains("a snapshot"), "{error}");
    drop(snapshot);
    assert_eq!(table.certificate("phone").unwrap().events(), Some(&report));
}

#[test]
fn a_table_without_such_events_is_certified_at_once() {
    let tables = memory();
    let table = tables
        .create("staff.people", Schema::new().partition_key("id", ColumnType::I32).column("phone", ColumnType::Text));
    let table = table.unwrap();
    table.insert(Row::new().with("id", 1).with("phone", SECRET)).unwrap();
    purged(&table);
    let report = table.purge_events("phone").unwrap();
    assert_eq!((report.changed(), report.removed()), (0, 0));
    assert!(table.certificate("phone").unwrap().events().is_some());
}

/// A record that a program wrote into the raw family may have the column in any form.
#[test]
fn the_image_of_a_foreign_record_becomes_its_seal() {
    let tables = memory();
    let table = people(&tables, Mode::Sync);
    let rows = tables.db().column_family(ROWS).unwrap();
    rows.put(b"\x80\0\0\x63", b"\xFFforeign").unwrap();
    rows.delete(b"\x80\0\0\x63").unwrap();
    purged(&table);
    table.purge_events("phone").unwrap();
    let seal = Image::Seal(Seal::of(b"\x80\0\0\x63", b"\xFFforeign"));
    let is_foreign = |event: &Event| event.payload.fields().contains(&Field::NewValue(seal.clone()));
    assert_eq!(events(&tables, ROWS).iter().filter(|event| is_foreign(event)).count(), 1);
}

#[test]
fn a_range_delete_of_entries_shows_their_values() {
    let tables = memory();
    let table = people(&tables, Mode::Sync);
    let indexes = tables.db().column_family(INDEXES).unwrap();
    let key = |index: u8, value: &str| [&[0, 0, 0, index], value.as_bytes()].concat();
    for index in [1, 2] {
        indexes.delete_range(key(index, "")..key(index, SECRET)).unwrap();
        indexes.delete_range(key(index, "")..key(index + 1, "")).unwrap();
    }

    let ends = || -> Vec<Vec<u8>> {
        let end = |field: &Field| if let Field::RangeEnd(key) = field { Some(key.clone()) } else { None };
        events(&tables, INDEXES).iter().filter_map(|event| event.payload.find(end)).collect()
    };
    let whole = [key(2, ""), key(2, SECRET), key(3, "")];
    assert_eq!(ends(), [&[key(1, SECRET)], &whole[..]].concat());
    purged(&table);
    table.purge_events("phone").unwrap();
    assert_eq!(ends()[..3], whole, "an index of another column, and all entries of an index, show no value of it");
    assert!(!ends().contains(&key(1, SECRET)));
}

/// Old versions that a registration keeps in the family have the column: there is no purge, and so no certificate.
#[test]
fn kept_old_values_hold_the_purge() {
    let tables = memory();
    let table = tables
        .create("staff.people", Schema::new().partition_key("id", ColumnType::I32).column("phone", ColumnType::Text))
        .unwrap();
    let options = RegisterOptions {
        mode: Mode::Deferred,
        values: Values::OldNew,
        history: true,
        ..RegisterOptions::suited(&Target::family(ROWS), None)
    };
    tables.db().registry().register_with(ROWS, "*", options).unwrap();
    for phone in [SECRET, "none"] {
        table.upsert(Row::new().with("id", 1).with("phone", phone)).unwrap();
    }
    (0..2).for_each(|_| table.drop_column("phone").unwrap());
    assert_eq!(table.purge_columns().unwrap().held, ["phone"]);
    assert_eq!(table.purge_events("phone").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(table.certificate("phone").unwrap_err().kind(), ErrorKind::Invalid);
}
