//! Every pair of a target and an operation: one that is accepted is logged when the operation is performed, every other
//! one is refused with the reason.

#![expect(clippy::disallowed_methods, reason = "the test damages files that the store made")]

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use waxseal::care::{Corrupted, Decision};
use waxseal::exchange::{ExportOptions, Policy};
use waxseal::registry::{
    Event, EventChange, Field, Image, Lies, Mode, Operation, OperationGroup, Paging, Payload, Query, RegisterOptions,
    Schema, Scope, TableColumns, TableName, Target, Time, Values,
};
use waxseal::{ColumnFamily, Db, Durability, ErrorHandler, ErrorKind, RepairOptions, Result, WriteOptions};

/// The operation that the tests define.
const OWN: &str = "app.reindexed";

/// A store with a family `users` of one table, which holds `john`; and the table's uid.
struct World {
    dir: tempfile::TempDir,
    db: Db,
    table: Target,
}

/// The table `School.Teacher`, with a key of two columns.
struct Teachers;

impl Schema for Teachers {
    fn is_keyspace(&self, name: &str) -> bool {
        name == "School"
    }

    fn shape(&self, table: &TableName) -> Option<TableColumns> {
        (table.table == "Teacher").then_some(TableColumns { partition: 1, clustering: 1 })
    }
}

impl World {
    fn new() -> Result<World> {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("store"))?;
        let users = db.column_family("users")?;
        users.put("john", "33")?;
        db.flush()?;
        let Some(Lies::Table { uid, .. }) = db.registry().explain(&users, "john")?.lies else {
            panic!("john lies in no table")
        };
        db.registry().define_operation(OWN)?;
        db.registry().set_catalogue(Arc::new(Teachers))?;
        Ok(World { dir, db, table: Target::TableFile(uid) })
    }

    fn users(&self) -> Result<ColumnFamily> {
        self.db.column_family("users")
    }

    fn reopen(&mut self) -> Result<()> {
        self.db.close()?;
        self.db = Db::open(self.dir.path().join("store"))?;
        Ok(())
    }

    /// Overwrites part of the block that holds `john`.
    fn damage(&mut self) -> Result<()> {
        let Some(Lies::Table { file, offset, .. }) = self.db.registry().explain(&self.users()?, "john")?.lies else {
            panic!("john lies in no table")
        };
        self.db.close()?;
        let path = self.dir.path().join("store").join(file);
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[0; 16], offset + 4).unwrap();
        self.reopen()
    }

    /// Performs an operation in a way that concerns a target or what lies below it.
    fn perform(&mut self, target: &Target, operation: Operation) -> Result<()> {
        let users = self.users()?;
        if let Some(described) = of_teachers(target, operation) {
            let mut batch = self.db.batch();
            let operation = if operation == Operation::ROW_WRITE { Operation::ROW_UPDATE } else { operation };
            return batch
                .put(&users, "teacher", "1")
                .describe(described, operation, Payload::new())
                .commit(Durability::Os);
        }
        match operation {
            Operation::ROW_INSERT => users.put_with("john", "34", WriteOptions::new().log_as_insert())?,
            Operation::ROW_UPDATE | Operation::ROW_WRITE => users.put("john", "34")?,
            Operation::ROW_DELETE => users.delete("john")?,
            Operation::RANGE_DELETE => users.delete_range("j".."k")?,
            Operation::TABLE_DROP => self.db.drop_column_family("users")?,
            Operation::REGISTRY_ADD => drop(self.db.registry().register(target, OWN)?),
            Operation::REGISTRY_DELETE => {
                self.db.registry().register(target, OWN)?;
                assert!(self.db.registry().unregister(target, OWN)?);
            }
            Operation::REGISTRY_REWRITE => {
                self.db.registry().register(target, OWN)?;
                self.db.registry().log_add(target, OWN, None, Payload::new())?;
                self.db.registry().rewrite_events(target, &|_| Ok(EventChange::Replace(Payload::text("erased"))))?;
            }
            Operation::SESSION_OPEN => drop(self.db.session("alice")?),
            Operation::SESSION_CLOSE => self.db.session("alice")?.close()?,
            Operation::ENGINE_OPEN => self.reopen()?,
            Operation::ENGINE_RECOVER => {
                users.put("jane", "7")?;
                self.reopen()?;
            }
            Operation::ENGINE_FLUSH => {
                users.put("jane", "7")?;
                self.db.flush()?;
            }
            Operation::ENGINE_COMPACT => {
                users.put("john", "34")?;
                users.compact()?;
            }
            Operation::ENGINE_EXPORT => drop(self.export()?),
            Operation::ENGINE_INGEST => drop(users.import(self.export()?)?),
            Operation::ENGINE_CHECKPOINT => self.db.checkpoint(self.dir.path().join("checkpoint"))?,
            Operation::ENGINE_BACKUP => {
                self.db.backup(self.dir.path().join("backups"))?;
            }
            Operation::ENGINE_SCRUB => drop(self.db.scrub(Default::default())?),
            Operation::ENGINE_REPAIR | Operation::ENGINE_FENCE => {
                self.damage()?;
                self.db.repair(RepairOptions::default())?;
            }
            Operation::ENGINE_QUARANTINE => {
                self.damage()?;
                self.db.repair(RepairOptions { handler: Some(&Keep), ..RepairOptions::default() })?;
            }
            Operation::NODE_JOIN | Operation::NODE_DECOMMISSION | Operation::NODE_VERIFY => {
                let node = Target::Node("n1".to_owned());
                let node = if matches!(target, Target::Node(_)) { target } else { &node };
                self.db.registry().log_add(node, operation, None, Payload::new())?;
            }
            own if own.is_defined() => drop(self.db.registry().log_add(target, own, None, Payload::new())?),
            other => panic!("{other:?} is listed, and nothing here performs it"),
        }
        Ok(())
    }

    fn export(&self) -> Result<std::path::PathBuf> {
        let parcel = self.dir.path().join("parcel");
        self.users()?.export(&parcel, ExportOptions::new().policy(Policy::Companion { allow: vec![] }))?;
        Ok(parcel)
    }

    fn logged(&self, target: &Target, operation: Option<Operation>, scope: Scope) -> Result<Vec<Event>> {
        let below = scope == Scope::Subtree;
        let query = Query { below, operation, from: Time::FIRST, ..Query::of(target.clone()) };
        Ok(self.db.registry().log_query(&query, &Paging::ALL)?.events)
    }
}

/// Leaves a damaged table as it is.
struct Keep;

impl ErrorHandler for Keep {
    fn on_corruption(&self, _: &Corrupted) -> Decision {
        Decision::Fail
    }
}

/// One target of each kind, and of each part of the engine.
fn targets(world: &World) -> Vec<Target> {
    let table = || TableName::new("School", "Teacher");
    let keys = || vec![b"John".to_vec()];
    let mut targets = vec![
        Target::Cluster,
        Target::Keyspace("School".to_owned()),
        Target::Table(table()),
        Target::row(table(), keys(), Vec::new()),
        Target::row(table(), keys(), keys()),
        Target::Column { table: table(), partition: keys(), clustering: Vec::new(), column: "age".to_owned() },
        Target::family("users"),
        Target::key("users", "john"),
        Target::Node("n1".to_owned()),
        world.table.clone(),
    ];
    targets.extend(Operation::parts().into_iter().chain(["nothing"]).map(|part| Target::Engine(part.to_owned())));
    targets
}

/// Returns what an operation on a table, or below a target of tables, happens to.
fn of_teachers(target: &Target, operation: Operation) -> Option<Target> {
    let table = TableName::new("School", "Teacher");
    let is_of_tables = matches!(
        target,
        Target::Keyspace(_) | Target::Table(_) | Target::Partition { .. } | Target::Row { .. } | Target::Column { .. }
    );
    let is_only_of_tables = matches!(operation.group(), OperationGroup::Schema | OperationGroup::Column)
        || matches!(operation.group(), OperationGroup::Table) && operation != Operation::TABLE_DROP;
    if !(is_of_tables || is_only_of_tables && *target == Target::Cluster) {
        return None;
    }
    let keys = vec![b"John".to_vec()];
    match operation.group() {
        OperationGroup::Schema => Some(Target::Keyspace(table.keyspace)),
        OperationGroup::Table => Some(Target::Table(table)),
        OperationGroup::Range if matches!(target, Target::Keyspace(_) | Target::Table(_)) => Some(Target::Table(table)),
        OperationGroup::Row | OperationGroup::Range => match target {
            Target::Partition { .. } => Some(target.clone()),
            _ => Some(Target::row(table, keys.clone(), keys)),
        },
        OperationGroup::Column => {
            let clustering = match target {
                Target::Partition { .. } | Target::Column { .. } => Vec::new(),
                _ => keys.clone(),
            };
            Some(Target::Column { table, partition: keys, clustering, column: "age".to_owned() })
        }
        _ => None,
    }
}

/// Every operation that has a name, one that is defined, and any.
fn operations(world: &World) -> Result<Vec<Option<Operation>>> {
    let own = world.db.registry().operation(OWN)?;
    Ok(Operation::known().chain(Operation::reserved()).chain([own]).map(Some).chain([None]).collect())
}

/// The pairs that a store accepts; of all others, that they are refused with the reason and leave nothing behind.
fn accepted(world: &World) -> Result<Vec<(Target, Option<Operation>, Scope)>> {
    let mut accepted = Vec::new();
    for target in targets(world) {
        for operation in operations(world)? {
            for scope in [Scope::Exact, Scope::Subtree] {
                let options = RegisterOptions { scope, ..RegisterOptions::suited(&target, operation) };
                match world.db.registry().register_with(&target, operation, options) {
                    Ok(_) => {
                        assert!(world.db.registry().unregister(&target, operation)?);
                        accepted.push((target.clone(), operation, scope));
                    }
                    Err(error) => {
                        assert_eq!(*error.kind(), ErrorKind::Invalid, "{target} {operation:?}");
                        let text = error.to_string();
                        let says = ["happens to", "reserved", "there is no", "has no part"];
                        assert!(says.iter().any(|why| text.contains(why)), "{target} {operation:?}: {text}");
                    }
                }
            }
        }
    }
    assert_eq!(world.db.registry().registrations()?, []);
    Ok(accepted)
}

#[test]
fn a_pair_that_is_accepted_is_logged_and_every_other_is_refused() -> Result<()> {
    let accepted = accepted(&World::new()?)?;
    // Nothing lies below other targets: there both scopes are one.
    let has_below = |target: &Target| {
        let is_of_tables =
            matches!(target, Target::Keyspace(_) | Target::Table(_) | Target::Partition { .. } | Target::Row { .. });
        is_of_tables || matches!(target, Target::Cluster | Target::Family(_))
    };
    let performed = accepted.iter().filter(|(target, _, scope)| *scope == Scope::Exact || has_below(target));
    for (number, (target, operation, scope)) in performed.enumerate() {
        let mut world = World::new()?;
        // Each store has a table file of its own.
        let target = if matches!(target, Target::TableFile(_)) { world.table.clone() } else { target.clone() };
        let context = format!("{number}: {target} {operation:?} {scope:?}");
        let options = RegisterOptions { scope: *scope, ..RegisterOptions::suited(&target, *operation) };
        world.db.registry().register_with(&target, *operation, options)?;
        let before = world.logged(&target, *operation, *scope)?.len();
        world.perform(&target, operation.unwrap_or(Operation::REGISTRY_ADD))?;
        let events = world.logged(&target, *operation, *scope)?;
        assert!(events.len() > before, "{context}: {events:?}");
    }
    // What is listed can be registered somewhere, and what is reserved nowhere.
    let somewhere = |wanted| accepted.iter().any(|(_, operation, _)| *operation == Some(wanted));
    assert!(Operation::known().all(somewhere));
    assert!(!Operation::reserved().any(somewhere));
    Ok(())
}

#[test]
fn a_refusal_says_what_would_be_logged_and_where() -> Result<()> {
    let world = World::new()?;
    let exact = RegisterOptions { scope: Scope::Exact, ..RegisterOptions::default() };
    let refused =
        |target: &str, operation: &str| world.db.registry().register(target, operation).unwrap_err().to_string();
    for (text, expected) in [
        (
            refused("users", "Node.Decommission"),
            "a registration on users would log nothing: Node.Decommission happens to nodes and not to a column family",
        ),
        (
            refused("users", "Engine.Restore"),
            "a registration on users would log nothing: Engine.Restore is a reserved name, and this version never \
             performs it",
        ),
        (
            refused("default", "Engine.Flush"),
            "a registration on default would log nothing: Engine.Flush happens to engine:flush and not to a column family",
        ),
        (
            refused("engine:flush", "Engine.Compact"),
            "a registration on engine:flush would log nothing: Engine.Compact happens to table files, engine:compaction \
             and not to this part of the engine",
        ),
        (
            refused("users.john", "Table.Drop"),
            "Table.Drop happens to column families, tables, table files, engine:store and not",
        ),
        (refused("engine:flsh", "*"), "its parts are compaction, flush, integrity, session, store"),
        (
            world.db.registry().register_with("users", "Row.Update", exact).unwrap_err().to_string(),
            "Row.Update happens to keys below it and not to a column family itself; register its subtree",
        ),
    ] {
        assert!(text.contains(expected), "{text}\nand not\n{expected}");
    }
    Ok(())
}

/// Any put, whatever its writer calls it, in each mode and wherever the event is.
#[test]
fn a_watch_on_writes_sees_every_put() -> Result<()> {
    for mode in [Mode::Sync, Mode::Async, Mode::Deferred] {
        let world = World::new()?;
        let (db, users) = (&world.db, world.users()?);
        let options = RegisterOptions { mode, ..RegisterOptions::suited(&Target::family("users"), None) };
        db.registry().register_with("users", "Row.Write", options)?;
        assert!(
            db.registry().is_registered("users.john", "Row.Insert")?
                && db.registry().is_registered("users.john", "Row.Write")?
        );
        assert!(!db.registry().is_registered("users.john", "Row.Delete")?);
        users.put("john", "1")?;
        users.delete("john")?;
        users.put_with("john", "2", WriteOptions::new().log_as_insert())?;
        let mut batch = db.batch();
        batch.put(&users, "john", "3").put_logged_as_insert(&users, "john", "4").delete(&users, "jane");
        batch.commit(Durability::Os)?;
        db.registry().drain_events()?;
        for flushed in [false, true] {
            let named = |operation: &str| -> Result<Vec<String>> {
                let events = db.registry().query_all("users.john", operation)?;
                events.iter().map(|event| db.registry().operation_name(event.key.operation)).collect()
            };
            let (inserts, updates) = (["Row.Insert"; 2], ["Row.Update"; 2]);
            assert_eq!(named("Row.Write")?, [inserts, updates].concat(), "{mode:?} {flushed}");
            assert_eq!(named("*")?, [inserts, updates].concat(), "nothing but puts: {mode:?} {flushed}");
            assert_eq!(
                (named("Row.Insert")?, named("Row.Update")?),
                (inserts.map(str::to_owned).to_vec(), updates.map(str::to_owned).to_vec())
            );
            let latest = db.registry().query_latest("users.john", "Row.Write")?.unwrap();
            assert_eq!(latest.key.operation, Operation::ROW_INSERT, "the last put");
            let query = Query { below: true, operation: Some(Operation::ROW_WRITE), ..Query::of(Target::Cluster) };
            let mut paged = Vec::new();
            let mut paging = Paging::first(1);
            loop {
                let page = db.registry().log_query(&query, &paging)?;
                paged.extend(page.events);
                match page.next {
                    Some(next) => paging.after = Some(next),
                    None => break,
                }
            }
            assert_eq!(paged, db.registry().query_all("users.john", "Row.Write")?);
            db.flush()?;
        }
    }
    Ok(())
}

/// Of several registrations of one target the most specific decides, and a put has one event.
#[test]
fn an_update_by_itself_goes_before_any_put() -> Result<()> {
    let db = Db::memory()?;
    let users = db.column_family("users")?;
    let kept = |values| RegisterOptions { values, ..RegisterOptions::default() };
    db.registry().register_with("users", "*", kept(Values::None))?;
    db.registry().register_with("users", "Row.Write", kept(Values::Hash))?;
    db.registry().register_with("users", "Row.Update", kept(Values::New))?;
    users.put("john", "1")?;
    users.put_with("jane", "2", WriteOptions::new().log_as_insert())?;
    let new = |key: &str| -> Result<Vec<Image>> {
        let events = db.registry().query_all(Target::key("users", key), "Row.Write")?;
        let fields = events.iter().flat_map(|event| event.payload.fields());
        Ok(fields.filter_map(|field| if let Field::NewValue(new) = field { Some(new.clone()) } else { None }).collect())
    };
    assert_eq!(new("john")?, [Image::Value(b"1".to_vec())]);
    assert!(matches!(new("jane")?[..], [Image::Seal(_)]));
    assert_eq!(
        db.registry()
            .log_delete(&Query { operation: Some(Operation::ROW_WRITE), ..Query::of(Target::key("users", "jane")) })?,
        1
    );
    assert_eq!(db.registry().query_all("users.jane", "*")?, []);
    Ok(())
}

#[test]
fn a_watch_on_inserts_comes_with_a_warning() {
    assert!(Operation::ROW_INSERT.warning().unwrap().contains("Row.Write is every put"));
    assert_eq!(Operation::known().filter(|operation| operation.warning().is_some()).count(), 1);
}

/// What is printed of an event names targets as people write them.
#[test]
fn a_printed_event_shows_names_and_no_bytes() -> Result<()> {
    let db = Db::memory()?;
    db.column_family("users")?.put("john", "0")?;
    db.registry().register("users", "*")?;
    db.column_family("users")?.put("john", "1")?;
    let event = db.registry().query_latest("users.john", "*")?.unwrap();
    let text = format!("{event:?}");
    assert!(text.contains("target: users.john") && text.contains("Via(users)"), "{text}");
    assert!(
        event.payload.fields().iter().any(|field| matches!(field, Field::Via(path) if path.to_string() == "users"))
    );
    Ok(())
}

/// A registration of a name that is reserved now is read, asked about and taken back.
#[test]
fn reserved_names_are_still_understood() -> Result<()> {
    let db = Db::memory()?;
    db.column_family("users")?;
    assert_eq!(db.registry().query_all("users", "Node.Join")?, []);
    assert!(!db.registry().is_registered("users", "Node.Join")?);
    assert!(!db.registry().unregister("users", "Node.Join")?);
    assert!(db.registry().define_operation("Node.Join").is_err());
    Ok(())
}

#[test]
fn an_open_is_an_event_where_that_is_registered() -> Result<()> {
    let mut world = World::new()?;
    let opened =
        |world: &World| Ok::<_, waxseal::Error>(world.db.registry().query_all("engine:store", "Engine.Open")?.len());
    world.reopen()?;
    assert_eq!(opened(&world)?, 0, "nobody asked for it");
    world.db.registry().register("engine:store", "Engine.Open")?;
    for count in 1..3 {
        world.reopen()?;
        assert_eq!(opened(&world)?, count);
    }
    world.db.close()?;
    let reader = Db::open_read_only(world.dir.path().join("store"))?;
    assert_eq!(reader.registry().query_all("engine:store", "Engine.Open")?.len(), 2, "a reader writes nothing");
    Ok(())
}
