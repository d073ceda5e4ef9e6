//! Records of the catalogue that damage has taken: an accepted loss leaves none, or an older version of one.

use waxseal::Db;
use waxseal_table::{Alteration, ColumnType, Index, Row, Schema, Tables};

const ROWS: &str = "waxseal_tables-1-rows";

fn people() -> Schema {
    Schema::new().partition_key("id", ColumnType::I32).column("name", ColumnType::Text)
}

#[test]
fn rows_stay_when_their_schema_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    let tables = open();
    for name in ["staff.people", "staff.other"] {
        let table = tables.create(name, people()).unwrap();
        (0..10).for_each(|id| table.insert(Row::new().with("id", id).with("name", "n")).unwrap());
    }
    assert!(tables.families_without_schema().unwrap().is_empty());
    let catalogue = tables.db().column_family("waxseal_tables").unwrap();
    for key in [&b"t\0\0\0\x01"[..], b"nstaff\0people"] {
        assert!(catalogue.get(key).unwrap().is_some());
        catalogue.delete(key).unwrap();
    }
    drop((catalogue, tables));
    let tables = open();
    assert_eq!(tables.names().unwrap(), ["staff.other"]);
    assert_eq!(tables.families_without_schema().unwrap(), [ROWS]);
    assert_eq!(tables.db().column_family(ROWS).unwrap().iter().count(), 10);
    assert!(tables.db().column_families().iter().any(|family| family.name() == "waxseal_tables-1-indexes"));
    assert_eq!(tables.table("staff.other").unwrap().select().count().unwrap(), 10);
    tables.drop("staff.other").unwrap();
    assert_eq!(open_families(&tables), 2, "those of the lost table");
}

fn open_families(tables: &Tables) -> usize {
    let is_of_table = |name: &str| name.starts_with("waxseal_tables-");
    tables.db().column_families().iter().filter(|family| is_of_table(family.name())).count()
}

/// The older schema has lower next ids. No new column finds values of the lost one, and no new index its entries.
#[test]
fn an_older_schema_gives_no_id_that_files_have() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    let tables = open();
    let table = tables.create("staff.people", people()).unwrap();
    let catalogue = tables.db().column_family("waxseal_tables").unwrap();
    let older = catalogue.get(b"t\0\0\0\x01").unwrap().unwrap().to_vec();
    table.alter(Alteration::new().add_column("password", ColumnType::Text)).unwrap();
    table.create_index(Index::on("by_password", ["password"])).unwrap();
    for id in 0..10 {
        let row = Row::new().with("id", id).with("name", format!("name {}", id % 2)).with("password", "secret");
        table.insert(row).unwrap();
    }
    catalogue.put(b"t\0\0\0\x01", &older).unwrap();
    drop((catalogue, table, tables)); // a recovery writes the rows to tables that list no columns
    let tables = open();
    let table = tables.table("staff.people").unwrap();
    table.alter(Alteration::new().add_column("nickname", ColumnType::Text)).unwrap();
    let nickname = table.schema().unwrap().columns().find(|column| column.name() == "nickname").unwrap().id();
    assert_eq!(nickname, 4);
    table.create_index(Index::on("by_name", ["name"])).unwrap();
    let rows = |index: &str| table.select().index(index).rows().unwrap().map(Result::unwrap).collect::<Vec<Row>>();
    assert_eq!(rows("by_name").len(), 10);
    assert!(rows("by_name").iter().all(|row| row.get("nickname").is_none() && row.get("name").is_some()));
}
