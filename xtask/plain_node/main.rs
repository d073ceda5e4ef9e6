//! The plain node: a node of an older make, for experiments with mixed clusters. It is compiled against the engine as
//! it stood at the commit that `cargo xtask plain-node` names, and knows nothing of what came later.
//!
//!     plain_node add DIR TABLE...      makes DIR a store, if it is none, and puts whole table files into it, as they
//!     are plain_node put DIR KEY VALUE     writes one record (key and value in hex) plain_node count DIR            
//!     iterates: records, and rows of all kinds in its tables plain_node get DIR KEY           the value in hex, or
//!     null plain_node list DIR              iterates: key TAB value, in hex plain_node compact DIR           merges
//!     everything down to the bottom
//!
//! Everything but `list` answers with one line of JSON. Tables are placed in level 0 with the seqnos that stand in
//! them: this engine cannot import, so its manifest is continued with an edit that names them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::{Env, Open, read_exact};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::Name;
use waxseal_lsm::options::{Durability, Settings};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Kind;
use waxseal_lsm::sst::{Cache, Table};
use waxseal_lsm::version::{Change, Edit, Manifest, TableMeta, recover};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["add", dir, ref tables @ ..] => add(Path::new(dir), tables),
        ["put", dir, key, value] => put(Path::new(dir), key, value),
        ["count", dir] => count(Path::new(dir)),
        ["get", dir, key] => get(Path::new(dir), key),
        ["list", dir] => list(Path::new(dir)),
        ["compact", dir] => compact(Path::new(dir)),
        _ => {
            eprintln!("usage: plain_node add|put|count|get|list|compact DIR ...");
            return ExitCode::from(1);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plain_node: {error}");
            ExitCode::from(2)
        }
    }
}

fn open(dir: &Path) -> Result<Db> {
    Db::open(dir, Settings::default(), Parts::real())
}

/// The default family, which every store has.
fn family(db: &Db) -> Result<waxseal_lsm::db::Family> {
    db.family("default").ok_or_else(|| Error::invalid("no default family"))
}

fn add(dir: &Path, tables: &[&str]) -> Result<()> {
    let db = open(dir)?;
    db.flush()?;
    db.close()?;
    drop(db);
    let env = Env::real();
    let Some(found) = recover(&env, dir)? else { return Err(Error::invalid("no store")) };
    let (mut number, mut last_seqno) = (found.next_file, found.state.last_seqno);
    let mut edit = Edit::default();
    for path in tables {
        let meta = copy(&env, &PathBuf::from(path), dir, number)?;
        (number, last_seqno) = (number + 1, last_seqno.max(meta.greatest_seqno));
        edit.changes.push(Change::TableAdded { family: 0, level: 0, table: Arc::new(meta) });
    }
    env.fs.sync_dir(dir).map_err(|error| Error::io("syncing the directory", error))?;
    edit.changes.push(Change::Counters { next_file: number + 1, last_seqno, next_family: found.state.next_family });
    Manifest::resume(&env, dir, &found, number, &edit)?;
    println!("{{\"added\": {}, \"last_seqno\": {last_seqno}}}", tables.len());
    Ok(())
}

/// Copies a table and reads what the manifest must say of it.
fn copy(env: &Env, from: &Path, dir: &Path, number: u64) -> Result<TableMeta> {
    let io = |error| Error::io(from.display(), error);
    let name = Name::Table(number).to_string();
    let file = env.fs.open(from, Open::Read).map_err(io)?;
    let bytes = read_exact(&*file, 0, file.len().map_err(io)? as usize).map_err(io)?;
    let to = env.fs.open(&dir.join(&name), Open::Create).map_err(io)?;
    to.write_at(&bytes, 0).and_then(|()| to.sync_data()).map_err(io)?;
    let expected = Table::identify(&name, &*file)?;
    let table = Table::open(name, file, expected, Order::bytewise(), Arc::new(Cache::new(1 << 20)))?;
    let properties = table.properties();
    Ok(TableMeta {
        number,
        uid: expected.uid,
        size: expected.size,
        smallest: properties.smallest.clone(),
        largest: properties.largest.clone(),
        least_seqno: properties.least_seqno,
        greatest_seqno: properties.greatest_seqno,
        digest: expected.digest,
        ingest_seqno: 0,
        ledger: properties.ledger,
    })
}

fn put(dir: &Path, key: &str, value: &str) -> Result<()> {
    let db = open(dir)?;
    let mut batch = Batch::new();
    batch.push(family(&db)?.id(), Kind::Put, &bytes(key)?, &bytes(value)?, db.companions())?;
    let seqno = db.commit(&mut batch, Durability::Sync)?;
    println!("{{\"seqno\": {seqno}}}");
    db.close()
}

fn get(dir: &Path, key: &str) -> Result<()> {
    let db = open(dir)?;
    let mut found = "null".to_owned();
    db.get(&family(&db)?, &bytes(key)?, At::Latest, &mut |record| found = format!("\"{}\"", hex(record.value)))?;
    println!("{{\"value\": {found}}}");
    db.close()
}

fn walk(db: &Db, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    let mut cursor = db.cursor(&family(db)?, At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
    cursor.first()?;
    while cursor.valid() {
        visit(cursor.key(), cursor.value());
        cursor.next()?;
    }
    Ok(())
}

fn list(dir: &Path) -> Result<()> {
    let db = open(dir)?;
    walk(&db, &mut |key, value| println!("{}\t{}", hex(key), hex(value)))?;
    db.close()
}

fn count(dir: &Path) -> Result<()> {
    let db = open(dir)?;
    db.flush()?;
    let mut records = 0;
    walk(&db, &mut |_, _| records += 1)?;
    db.close()?;
    drop(db);
    let env = Env::real();
    let Some(found) = recover(&env, dir)? else { return Err(Error::invalid("no store")) };
    let (mut kinds, mut companions, mut tables): (BTreeMap<&str, u64>, u64, u64) = Default::default();
    for number in found.state.families.values().flat_map(|family| family.tables.keys()) {
        let name = Name::Table(*number).to_string();
        let file = env.fs.open(&dir.join(&name), Open::Read).map_err(|error| Error::io(&name, error))?;
        let expected = Table::identify(&name, &*file)?;
        let table = Table::open(name, file, expected, Order::bytewise(), Arc::new(Cache::new(1 << 20)))?;
        let mut cursor = table.cursor(false);
        cursor.first()?;
        while cursor.valid() {
            let record = cursor.record();
            let kind = if record.kind == Kind::Put { "puts" } else { "tombstones" };
            *kinds.entry(kind).or_default() += 1;
            companions += record.companion.len() as u64;
            cursor.next()?;
        }
        tables += 1;
    }
    let of = |kind| kinds.get(kind).copied().unwrap_or(0);
    println!(
        "{{\"records\": {records}, \"tables\": {tables}, \"puts\": {}, \"tombstones\": {}, \"companion_bytes\": {companions}}}",
        of("puts"),
        of("tombstones")
    );
    Ok(())
}

fn compact(dir: &Path) -> Result<()> {
    let db = open(dir)?;
    db.compact(&family(&db)?, &(Bound::Unbounded, Bound::Unbounded))?;
    db.close()?;
    println!("{{\"compacted\": true}}");
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digits = |at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(digits).collect();
    bytes.ok_or_else(|| Error::invalid("not hex"))
}
