//! LMDB through heed: the unnamed database, one transaction per write. Skipping syncs is a flag of the environment, so
//! a store with synced writes is opened without the flag.
#![expect(unsafe_code, reason = "opening a memory map is unsafe by nature: the driver alone holds the directory")]

use super::{Engine, Op, Reader, Rows, Settings, Start, View, number};
use crate::Outcome;
use crate::workload::touch;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

type Records = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: Env<WithTls>,
    records: Records,
    synced: bool,
}

pub(super) fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Engine>> {
    let mut options = EnvOpenOptions::new();
    // Address space, not disk: the file is sparse and grows as it is written.
    options.map_size(usize::try_from(settings.own.lmdb.map_gib << 30)?).max_readers(settings.own.lmdb.readers);
    if !settings.synced {
        // SAFETY: without syncing only a machine crash can spoil the file, and no step crashes the machine.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: the directory is the driver's own; no other process changes the file while it is mapped.
    let env = unsafe { options.open(dir)? };
    let transaction = env.write_txn()?;
    let records: Records = env
        .create_databases_and_commit(transaction, |opener, transaction| -> heed::Result<CommitOrAbort<_, ()>> {
            Ok(CommitOrAbort::Commit(opener.create_database::<Bytes, Bytes>(transaction, None)?))
        })?
        .unwrap_commit();
    Ok(Box::new(Lmdb { env, records, synced: settings.synced }))
}

impl Lmdb {
    fn sync_if(&self, asked: bool) -> Outcome<()> {
        if asked && !self.synced {
            self.env.force_sync()?;
        }
        Ok(())
    }
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        self.records.put(&mut transaction, key, value)?;
        transaction.commit()?;
        self.sync_if(sync)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        self.records.delete(&mut transaction, key)?;
        transaction.commit()?;
        self.sync_if(sync)
    }

    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        for op in ops {
            match &op.value {
                Some(value) => self.records.put(&mut transaction, &op.key, value)?,
                None => drop(self.records.delete(&mut transaction, &op.key)?),
            }
        }
        transaction.commit()?;
        self.sync_if(sync)
    }

    fn count(&self, key: &[u8]) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        let before = self.records.get(&transaction, key)?.map_or(0, number);
        self.records.put(&mut transaction, key, &(before + 1).to_le_bytes())?;
        Ok(transaction.commit()?)
    }

    /// There is one writer at a time, and no conflict.
    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Outcome<u64> {
        let mut transaction = self.env.write_txn()?;
        let mut found = 0;
        for key in keys {
            found += u64::from(self.records.get(&transaction, key)?.map(touch).is_some());
            self.records.put(&mut transaction, key, value)?;
        }
        transaction.commit()?;
        Ok(found)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        let range: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(start), Bound::Excluded(end));
        self.records.delete_range(&mut transaction, &range)?;
        Ok(transaction.commit()?)
    }

    fn reader(&self, view: View) -> Outcome<Box<dyn Reader + '_>> {
        let held = match view {
            View::Fixed => Some(self.env.read_txn()?),
            View::Latest => None,
        };
        Ok(Box::new(LmdbReader { env: &self.env, records: self.records, held }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.env.force_sync()?)
    }

    fn flush(&self) -> Outcome<()> {
        self.sync()
    }

    fn settle(&self) -> Outcome<Duration> {
        self.env.force_sync()?;
        Ok(Duration::ZERO)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbReader<'a> {
    env: &'a Env<WithTls>,
    records: Records,
    held: Option<RoTxn<'a, WithTls>>,
}

impl LmdbReader<'_> {
    fn with<T>(&self, read: impl FnOnce(&RoTxn<'_, WithTls>) -> Outcome<T>) -> Outcome<T> {
        match &self.held {
            Some(transaction) => read(transaction),
            None => read(&self.env.read_txn()?),
        }
    }
}

impl Reader for LmdbReader<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>> {
        self.with(|transaction| Ok(self.records.get(transaction, key)?.map(touch)))
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        self.with(|transaction| Ok(self.records.get(transaction, key)?.map(<[u8]>::to_vec)))
    }

    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()> {
        self.with(|transaction| match start {
            Start::First => walk(self.records.iter(transaction)?, rows),
            Start::Last => walk(self.records.rev_iter(transaction)?, rows),
            Start::Seek(key) => {
                let range: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(key), Bound::Unbounded);
                walk(self.records.range(transaction, &range)?, rows)
            }
        })
    }
}

fn walk<'a>(items: impl Iterator<Item = heed::Result<(&'a [u8], &'a [u8])>>, rows: &mut Rows<'_>) -> Outcome<()> {
    for item in items {
        let (key, value) = item?;
        if !rows.row(key, value) {
            break;
        }
    }
    Ok(())
}
