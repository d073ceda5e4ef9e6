//! redb: one table, one transaction per write (`Durability::None`, or `Immediate` for synced steps).

use super::{Engine, Op, Reader, Rows, Settings, Start, View, number};
use crate::Outcome;
use crate::workload::touch;
use redb::{
    AccessGuard, Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};
use std::path::Path;
use std::time::Duration;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// A key and its value, as returned by a range.
type Row<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

struct Redb {
    db: Database,
}

pub(super) fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Engine>> {
    let cache = usize::try_from(settings.cache_bytes)?;
    let db = Database::builder().set_cache_size(cache).create(dir.join("bench.redb"))?;
    let store = Redb { db };
    // Readers need the table to exist.
    store.write(true, |_| Ok(()))?;
    Ok(Box::new(store))
}

impl Redb {
    fn write(
        &self,
        sync: bool,
        change: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(if sync { Durability::Immediate } else { Durability::None })?;
        change(&mut transaction.open_table(TABLE)?)?;
        Ok(transaction.commit()?)
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        self.write(sync, |table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        self.write(sync, |table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()> {
        self.write(sync, |table| {
            for op in ops {
                match &op.value {
                    Some(value) => drop(table.insert(op.key.as_slice(), value.as_slice())?),
                    None => drop(table.remove(op.key.as_slice())?),
                }
            }
            Ok(())
        })
    }

    fn count(&self, key: &[u8]) -> Outcome<()> {
        self.write(false, |table| {
            let before = table.get(key)?.map_or(0, |value| number(value.value()));
            table.insert(key, (before + 1).to_le_bytes().as_slice())?;
            Ok(())
        })
    }

    /// There is one writer at a time, and no conflict.
    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Outcome<u64> {
        let mut found = 0;
        self.write(false, |table| {
            for key in keys {
                found += u64::from(table.insert(key, value)?.map(|before| touch(before.value())).is_some());
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        self.write(false, |table| Ok(table.retain_in(start..end, |_, _| false)?))
    }

    fn reader(&self, view: View) -> Outcome<Box<dyn Reader + '_>> {
        let held = match view {
            View::Fixed => Some(self.db.begin_read()?.open_table(TABLE)?),
            View::Latest => None,
        };
        Ok(Box::new(RedbReader { db: &self.db, held }))
    }

    fn sync(&self) -> Outcome<()> {
        self.write(true, |_| Ok(()))
    }

    fn flush(&self) -> Outcome<()> {
        self.sync()
    }

    /// Makes a durable commit; without one, no earlier write would survive.
    fn settle(&self) -> Outcome<Duration> {
        self.sync()?;
        Ok(Duration::ZERO)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

struct RedbReader<'a> {
    db: &'a Database,
    held: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl RedbReader<'_> {
    fn with<T>(&self, read: impl FnOnce(&ReadOnlyTable<&'static [u8], &'static [u8]>) -> Outcome<T>) -> Outcome<T> {
        match &self.held {
            Some(table) => read(table),
            None => read(&self.db.begin_read()?.open_table(TABLE)?),
        }
    }
}

impl Reader for RedbReader<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>> {
        self.with(|table| Ok(table.get(key)?.map(|value| touch(value.value()))))
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        self.with(|table| Ok(table.get(key)?.map(|value| value.value().to_vec())))
    }

    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()> {
        self.with(|table| {
            let mut walk = |item: Result<Row<'_>, StorageError>| {
                let (key, value) = item?;
                Ok(rows.row(key.value(), value.value()))
            };
            let all: std::ops::RangeFull = ..;
            match start {
                Start::First => until_done(table.range::<&[u8]>(all)?, &mut walk),
                Start::Last => until_done(table.range::<&[u8]>(all)?.rev(), &mut walk),
                Start::Seek(key) => until_done(table.range::<&[u8]>(key..)?, &mut walk),
            }
        })
    }
}

fn until_done<T>(items: impl Iterator<Item = T>, walk: &mut impl FnMut(T) -> Outcome<bool>) -> Outcome<()> {
    for item in items {
        if !walk(item)? {
            break;
        }
    }
    Ok(())
}
