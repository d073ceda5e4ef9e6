//! Properties of tables from the Rust face: which tables a search finds, and what keeps the sets of items.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use waxseal::{
    Backup, CfOptions, ColumnFamily, CompactionFilter, Db, Durability, ErrorKind, FilterDecision, IngestOptions,
    MergeOperator, TableProperty, TableWriter, WriteOptions,
};

/// How long a thread waits for another one at most.
const MOST: Duration = Duration::from_secs(60);

/// A row is a list of the ids of its columns, and the property of a table the set of these ids.
fn columns() -> TableProperty {
    TableProperty::new("columns", |_, value, add| {
        value.split(|byte| *byte == b',').for_each(add);
        Ok(())
    })
}

/// Removes the column `x` of all rows.
fn without_x() -> CompactionFilter {
    CompactionFilter::new("without x", |_, value| Ok(decide_without_x(value)))
}

fn decide_without_x(value: &[u8]) -> FilterDecision {
    let kept: Vec<&[u8]> = value.split(|byte| *byte == b',').filter(|id| *id != b"x").collect();
    if kept.is_empty() { FilterDecision::Drop } else { FilterDecision::Change(kept.join(&b',')) }
}

fn options() -> CfOptions {
    CfOptions { table_properties: vec![columns()], compaction_filter: Some(without_x()), ..CfOptions::default() }
}

/// Writes one table for each row.
fn fill(db: &Db, cf: &ColumnFamily, rows: &[(&str, &str)]) {
    for (key, value) in rows {
        cf.put(key, value).unwrap();
        db.flush().unwrap();
    }
}

/// Writes one table with all rows.
fn fill_at_once(db: &Db, cf: &ColumnFamily, rows: &[(&str, &str)]) {
    for (key, value) in rows {
        cf.put(key, value).unwrap();
    }
    db.flush().unwrap();
}

/// Returns the smallest keys of the tables that may have a column, sorted.
fn found(cf: &ColumnFamily, id: &str) -> Vec<String> {
    let tables = cf.files_with("columns", id).unwrap();
    let mut keys: Vec<String> = tables.into_iter().map(|table| String::from_utf8(table.smallest).unwrap()).collect();
    keys.sort();
    keys
}

fn reopened(path: &Path) -> (Db, ColumnFamily) {
    let db = Db::open(path).unwrap();
    let cf = db.column_family("rows").unwrap();
    (db, cf)
}

/// The purge of a dropped column: the filter runs over the tables that have it, and no other table is rewritten.
#[test]
fn a_column_is_purged_from_the_tables_that_have_it() {
    let db = Db::memory().unwrap();
    let cf = db.create_column_family("rows", options()).unwrap();
    fill(&db, &cf, &[("a", "x,y"), ("b", "y,z"), ("c", "x")]);
    assert_eq!((found(&cf, "x"), found(&cf, "y"), found(&cf, "q")), (args(&["a", "c"]), args(&["a", "b"]), args(&[])));
    assert_eq!(cf.files_with("other", "x").unwrap().len(), 3, "a property that nobody collects");
    let kept = cf.tables().unwrap().into_iter().find(|table| table.smallest == b"b").unwrap();
    cf.compact_files(cf.files_with("columns", "x").unwrap().iter().map(|table| table.number)).unwrap();
    assert_eq!(found(&cf, "x"), args(&[]));
    assert!(cf.tables().unwrap().contains(&kept), "a table without the column was rewritten");
    assert_eq!(cf.get("a").unwrap().unwrap(), "y");
    assert_eq!((cf.get("b").unwrap().unwrap(), cf.get("c").unwrap()), ("y,z".as_bytes().into(), None));
    // Merges of tables collect anew.
    cf.compact().unwrap();
    assert_eq!((found(&cf, "y").len(), found(&cf, "z").len(), found(&cf, "x").len()), (2, 1, 0));
}

fn args(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[test]
fn copies_and_ingested_tables_keep_their_properties() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let db = Db::open(at("store")).unwrap();
    let cf = db.create_column_family("rows", options()).unwrap();
    fill(&db, &cf, &[("a", "x"), ("b", "y")]);
    let mut writer = TableWriter::create(at("table"), &cf).unwrap();
    writer.put("c", "x,z").unwrap();
    writer.finish().unwrap();
    db.ingest(&cf, &[at("table")], IngestOptions::default()).unwrap();
    assert_eq!((found(&cf, "x"), found(&cf, "z")), (args(&["a", "c"]), args(&["c"])));
    db.checkpoint(at("copy")).unwrap();
    let id = db.backup(at("backups")).unwrap().id;
    Backup::open(at("backups")).unwrap().restore(id, at("restored")).unwrap();
    drop(cf);
    db.close().unwrap();
    // The stores are opened without the functions.
    for copy in ["store", "copy", "restored"] {
        let (db, cf) = reopened(&at(copy));
        assert_eq!((found(&cf, "x"), found(&cf, "q")), (args(&["a", "c"]), args(&[])), "{copy}");
        cf.put("d", "y").unwrap();
        db.flush().unwrap();
        assert_eq!(found(&cf, "q"), args(&["d"]), "{copy}: a table without the property");
        drop(cf);
        db.close().unwrap();
    }
}

/// Purges the column `x`. The filter stops at each value that has it until this thread has called `meanwhile` with its
/// key.
fn purge_beside(cf: &ColumnFamily, mut meanwhile: impl FnMut(&str)) {
    let ((judges, judged), (answers, answered)) = (channel(), channel());
    let (done, gate) = (judges.clone(), Mutex::new((judges, answered)));
    let gated = CompactionFilter::new("without x", move |key, value| {
        if value.split(|byte| *byte == b',').any(|id| id == b"x") {
            let gate = gate.lock().unwrap();
            gate.0.send(Some(String::from_utf8(key.to_vec())?))?;
            gate.1.recv_timeout(MOST)?;
        }
        Ok(decide_without_x(value))
    });
    cf.set_functions(Some(gated), vec![columns()]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let outcome = cf.compact_with("columns", "x");
            done.send(None).unwrap();
            outcome.unwrap();
        });
        while let Some(key) = judged.recv_timeout(MOST).unwrap() {
            meanwhile(&key);
            answers.send(()).unwrap();
        }
    });
}

/// A writer overwrites a value while the filter judges it, so that this compaction keeps it: the newer version is flushed
/// and merged with it.
#[test]
fn an_item_is_purged_from_values_that_are_overwritten_meanwhile() {
    let db = Db::memory().unwrap();
    let cf = db.create_column_family("rows", CfOptions { compaction_filter: None, ..options() }).unwrap();
    fill(&db, &cf, &[("a", "x,y"), ("b", "x,z")]);
    let mut judged = Vec::new();
    purge_beside(&cf, |key| {
        judged.push(key.to_owned());
        cf.put(key, "w").unwrap();
    });
    assert!(judged.len() >= 2, "{judged:?}");
    assert_eq!((found(&cf, "x"), cf.get("a").unwrap().unwrap()), (args(&[]), "w".as_bytes().into()));
    assert_eq!(cf.get("b").unwrap().unwrap(), "w");
}

/// An operand that is written while the filter judges its value makes a new value of the old one, which has the item.
/// No operand is lost, and the next call purges the item.
#[test]
fn an_item_that_an_operand_takes_over_is_purged_by_the_next_call() {
    let db = Db::memory().unwrap();
    let merge_operator = Some(MergeOperator::append(","));
    let cf =
        db.create_column_family("rows", CfOptions { merge_operator, compaction_filter: None, ..options() }).unwrap();
    fill(&db, &cf, &[("a", "x,y"), ("b", "x,z")]);
    let mut written = false;
    purge_beside(&cf, |key| {
        if key == "a" && !std::mem::replace(&mut written, true) {
            cf.merge("a", "w").unwrap();
        }
    });
    assert_eq!((found(&cf, "x"), cf.get("a").unwrap().unwrap()), (args(&["a"]), "x,y,w".as_bytes().into()));
    assert_eq!(cf.get("b").unwrap().unwrap(), "z");
    purge_beside(&cf, |_| {});
    assert_eq!((found(&cf, "x"), cf.get("a").unwrap().unwrap()), (args(&[]), "y,w".as_bytes().into()));
}

/// The compaction has chosen its table and stops at its first key: other keys of the table are overwritten and deleted
/// before they are merged. The values are in the table, or are moved out of a blob file.
#[test]
fn an_item_is_purged_from_a_table_whose_keys_are_overwritten_after_its_choice() {
    for large_value_bytes in [1 << 20, 100] {
        let db = Db::memory().unwrap();
        let of = CfOptions { compaction_filter: None, large_value_bytes, ..options() };
        let cf = db.create_column_family("rows", of).unwrap();
        let large = |ids: &str| format!("{ids},{}", "y".repeat(200));
        for key in ["a", "b", "c", "d"] {
            cf.put(key, large("x")).unwrap();
        }
        cf.compact().unwrap();
        let mut judged = Vec::new();
        purge_beside(&cf, |key| {
            if judged.is_empty() {
                cf.put("b", large("z")).unwrap();
                cf.delete("c").unwrap();
            }
            judged.push(key.to_owned());
        });
        assert_eq!(judged[0], "a");
        assert_eq!(found(&cf, "x"), args(&[]));
        let all = ["a", "b", "c", "d"].map(|key| cf.get(key).unwrap().map(|value| value.to_vec()));
        let rest = |value: String| Some(value.into_bytes());
        assert_eq!(all, [rest("y".repeat(200)), rest(large("z")), None, rest("y".repeat(200))]);
    }
}

/// A flush writes a table over the whole range of keys while the filter judges a value. It has no newer version of the
/// key, so the value is filtered.
#[test]
fn an_item_is_purged_below_tables_that_do_not_have_its_key() {
    let db = Db::memory().unwrap();
    let cf = db.create_column_family("rows", CfOptions { compaction_filter: None, ..options() }).unwrap();
    fill(&db, &cf, &[("k", "x,y")]);
    cf.compact().unwrap();
    let mut judged = 0;
    purge_beside(&cf, |_| {
        judged += 1;
        fill_at_once(&db, &cf, &[("a", "w"), ("z", "w")]);
    });
    assert_eq!((found(&cf, "x"), cf.get("k").unwrap().unwrap()), (args(&[]), "y".as_bytes().into()));
    assert_eq!(judged, 1);
}

/// Returns the names of the blob files in a directory.
#[expect(clippy::disallowed_methods, reason = "the names of the store's own files")]
fn blob_files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".val")).collect();
    names.sort();
    names
}

/// Blob files have items of their own, whether a commit, a flush or a collection of values wrote them, and a purge leaves
/// no blob file that has the item.
#[test]
fn an_item_is_purged_from_blob_files() {
    let home = tempfile::tempdir().unwrap();
    let of = CfOptions { large_value_bytes: 64, ..options() };
    let path = home.path().join("store");
    let opened = || {
        let db = Db::builder(&path).column_family("rows", of.clone()).open().unwrap();
        let cf = db.column_family("rows").unwrap();
        (db, cf)
    };
    let (db, cf) = opened();
    let large = |id: &str| format!("{id},{}", "y".repeat(100));
    // Four blob files: those of `a` with `aa`, of `b` and of `d` are written by commits, that of `c` by a flush, because
    // its commit was synced.
    cf.put("a", large("x")).unwrap();
    cf.put("aa", large("w")).unwrap();
    db.flush().unwrap();
    cf.put("b", large("z")).unwrap();
    db.flush().unwrap();
    cf.put_with("c", large("x"), WriteOptions::new().durability(Durability::Sync)).unwrap();
    cf.put("d", large("v")).unwrap();
    db.flush().unwrap();
    let before = blob_files(&path);
    assert_eq!(before.len(), 4);
    let all = || ["x", "w", "z", "v", "q"].map(|id| found(&cf, id).join(" "));
    assert_eq!(all(), ["a c", "a", "b", "c", ""]);
    drop(cf);
    db.close().unwrap();
    let (db, cf) = opened(); // the manifest has the items
    let all = || ["x", "w", "z", "v", "q"].map(|id| found(&cf, id).join(" "));
    assert_eq!(all(), ["a c", "a", "b", "c", ""]);
    cf.compact_with("columns", "x").unwrap();
    assert_eq!(found(&cf, "x"), args(&[]));
    assert_eq!(cf.get("a").unwrap().unwrap(), "y".repeat(100));
    for (key, id) in [("aa", "w"), ("b", "z"), ("d", "v")] {
        assert_eq!((cf.get(key).unwrap().unwrap(), found(&cf, id).len()), (large(id).as_bytes().into(), 1));
    }
    let left = blob_files(&path);
    assert_eq!(left.iter().filter(|name| before.contains(name)).count(), 2, "{before:?} {left:?}");
    cf.compact_with("columns", "x").unwrap();
    db.close().unwrap();
    assert_eq!(*cf.compact_with("columns", "x").unwrap_err().kind(), ErrorKind::Closed);
}

/// Two kinds of tables have the item after one pass: an old version below a newer one that lacks it, and the output of a
/// compaction that began without the filter.
#[test]
fn a_filter_reaches_old_versions_below_newer_ones() {
    for large_value_bytes in [1 << 20, 100] {
        let db = Db::memory().unwrap();
        let of = CfOptions { compaction_filter: None, large_value_bytes, ..options() };
        let cf = db.create_column_family("rows", of).unwrap();
        let large = |ids: &str| format!("{ids},{}", "y".repeat(200));
        fill(&db, &cf, &[("a", &large("x")), ("b", &large("x"))]);
        cf.compact().unwrap();
        fill(&db, &cf, &[("b", &large("z"))]);
        cf.set_functions(Some(without_x()), vec![columns()]).unwrap();
        cf.compact_with("columns", "x").unwrap();
        assert_eq!(found(&cf, "x"), args(&[]));
        assert_eq!(cf.get("b").unwrap().unwrap(), large("z"));
    }
}

#[test]
fn a_deleted_item_is_gone_without_a_filter() {
    let db = Db::memory().unwrap();
    let of = CfOptions { table_properties: vec![columns()], ..CfOptions::default() };
    let cf = db.create_column_family("rows", of).unwrap();
    fill(&db, &cf, &[("a", "x"), ("b", "x")]);
    cf.compact().unwrap();
    cf.delete("a").unwrap();
    db.flush().unwrap();
    cf.put("b", "z").unwrap();
    cf.compact_with("columns", "x").unwrap();
    assert_eq!((found(&cf, "x"), found(&cf, "z")), (args(&[]), args(&["b"])));
}

/// The other compaction writes its output while the purge waits for it. A writer may then overwrite each value that the
/// filter judges.
#[test]
fn a_filter_reaches_the_output_of_a_compaction_that_began_before_it() {
    for overwrites in [false, true] {
        let db = Db::memory().unwrap();
        let ((begins, has_begun), (filters, has_filtered)) = (channel(), channel());
        let (begins, has_filtered) = (Mutex::new(begins), Mutex::new(has_filtered));
        let old = TableProperty::new("columns", move |key, value, add| {
            if key == b"b" {
                begins.lock().unwrap().send(())?;
                has_filtered.lock().unwrap().recv_timeout(MOST)?;
            }
            value.split(|byte| *byte == b',').for_each(add);
            Ok(())
        });
        let of = CfOptions { table_properties: vec![columns()], ..CfOptions::default() };
        let cf = db.create_column_family("rows", of).unwrap();
        fill(&db, &cf, &[("b", "x,y")]);
        cf.compact().unwrap();
        let bottom = cf.tables().unwrap()[0].number;
        fill(&db, &cf, &[("a", "x,y")]);
        cf.set_functions(None, vec![old]).unwrap();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| cf.compact_files([bottom]));
            has_begun.recv_timeout(MOST).unwrap();
            let (filters, writer) = (Mutex::new(filters), cf.clone());
            let filter = CompactionFilter::new("without x", move |key, _| {
                let _ = filters.lock().unwrap().send(()); // the other compaction goes on, or has ended
                if overwrites {
                    writer.put(key, "w").map_err(|error| error.to_string())?;
                }
                Ok(FilterDecision::Change(b"y".to_vec()))
            });
            cf.set_functions(Some(filter), vec![columns()]).unwrap();
            cf.compact_with("columns", "x").unwrap();
            running.join().unwrap().unwrap();
        });
        assert_eq!(found(&cf, "x"), args(&[]));
        let expected: &[u8] = if overwrites { b"w" } else { b"y" };
        for key in ["a", "b"] {
            assert_eq!(cf.get(key).unwrap().unwrap(), expected);
        }
    }
}

/// The blob file that commits write into collects items by the functions that the family had when it was begun.
#[test]
fn new_functions_reach_values_that_commits_write() {
    let db = Db::memory().unwrap();
    let old = TableProperty::new("columns", |_, _, add| {
        add(b"old");
        Ok(())
    });
    let of = CfOptions { table_properties: vec![old], large_value_bytes: 100, ..CfOptions::default() };
    let cf = db.create_column_family("rows", of).unwrap();
    let large = |id: &str| format!("{id},{}", "y".repeat(200));
    cf.put("a", large("x")).unwrap();
    cf.set_functions(None, vec![columns()]).unwrap();
    cf.put("b", large("z")).unwrap();
    db.flush().unwrap();
    assert_eq!(["old", "x", "z", "q"].map(|id| found(&cf, id).len()), [1, 0, 1, 0]);
    assert_eq!(cf.get("a").unwrap().unwrap(), large("x"));
    assert_eq!(cf.get("b").unwrap().unwrap(), large("z"));
}

#[test]
fn properties_stay_while_a_store_is_open() {
    let db = Db::memory().unwrap();
    let cf = db.create_column_family("rows", options()).unwrap();
    let changed = CfOptions { table_properties: Vec::new(), ..options() };
    assert_eq!(*cf.set_options(changed).unwrap_err().kind(), ErrorKind::Invalid);
    cf.set_options(CfOptions { level0_tables: 8, ..options() }).unwrap();
    fill(&db, &cf, &[("a", "y")]);
    assert_eq!((found(&cf, "y"), found(&cf, "x")), (args(&["a"]), args(&[])), "the functions stay");
    cf.clear().unwrap();
    cf.compact().unwrap();
    assert_eq!(found(&cf, "y"), args(&[]));
}

#[test]
fn invalid_properties_are_refused() {
    let db = Db::memory().unwrap();
    let twice = CfOptions { table_properties: vec![columns(), columns()], ..CfOptions::default() };
    assert_eq!(*db.create_column_family("rows", twice).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(db.column_families().iter().all(|family| family.name() != "rows"));
}

/// The functions of a family that is open are replaced, and a store keeps the name of the filter only.
#[test]
fn functions_are_given_to_a_family_that_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (db, cf) = reopened(&path);
    fill(&db, &cf, &[("a", "x")]);
    cf.set_functions(Some(without_x()), vec![columns()]).unwrap();
    fill(&db, &cf, &[("b", "y")]);
    assert_eq!(found(&cf, "q"), args(&["a"]), "the table without the property");
    cf.compact_with("columns", "x").unwrap();
    assert_eq!((cf.get("a").unwrap(), found(&cf, "x"), found(&cf, "y")), (None, args(&[]), args(&["b"])));
    cf.set_options(CfOptions { level0_tables: 8, ..(*cf.options()).clone() }).unwrap();
    fill(&db, &cf, &[("c", "z")]);
    assert_eq!(found(&cf, "q"), args(&[]), "other options leave the functions");
    cf.set_functions(None, Vec::new()).unwrap();
    assert_eq!(cf.options().compaction_filter.as_ref().map(CompactionFilter::name), Some("without x"));
    fill(&db, &cf, &[("d", "x")]);
    assert_eq!(found(&cf, "q"), args(&["d"]));
    for (filter, properties) in [
        (Some(CompactionFilter::by_key("", |_| Ok(FilterDecision::Drop))), Vec::new()),
        (None, vec![columns(), columns()]),
    ] {
        assert_eq!(*cf.set_functions(filter, properties).unwrap_err().kind(), ErrorKind::Invalid);
    }
    drop(cf);
    db.close().unwrap();
    let (db, cf) = reopened(&path);
    assert_eq!(cf.options().compaction_filter.as_ref().map(CompactionFilter::name), Some("without x"));
    cf.compact().unwrap();
    assert_eq!(cf.get("d").unwrap().unwrap(), "x", "a name without a function");
    cf.set_functions(Some(without_x()), vec![columns()]).unwrap();
    cf.compact().unwrap();
    assert_eq!((cf.get("d").unwrap(), db.column_families().len()), (None, 2));
    db.close().unwrap();
    assert_eq!(*cf.set_functions(None, Vec::new()).unwrap_err().kind(), ErrorKind::Closed);
}
