//! fjall: one keyspace, no compression, each write passed to the operating system (its default), `SyncData` for synced
//! steps.

use super::{Engine, Op, Reader, Rows, Settings, Start, View, number};
use crate::Outcome;
use crate::workload::touch;
use fjall::compaction::Leveled;
use fjall::config::CompressionPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticWriteTx, PersistMode,
    Readable,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The store counts as settled after this idle time, which is subtracted from the measurement.
const QUIET: Duration = Duration::from_millis(50);

/// Default number of tables in its level 0.
const L0_TABLES: u64 = 4;

struct Fjall {
    db: Database,
    keyspace: Keyspace,
    /// Present in a transactional store.
    optimistic: Option<OptimisticTxDatabase>,
}

/// Sets the options of a builder; its trait is private.
macro_rules! configured {
    ($builder:expr, $settings:ident) => {
        $builder
            .cache_size($settings.cache_bytes)
            .journal_compression(CompressionType::None)
            .max_journaling_size($settings.own.fjall.journal_mib << 20)
    };
}

pub(super) fn open(dir: &Path, settings: &Settings) -> Outcome<Box<dyn Engine>> {
    let (db, optimistic) = match settings.transactional {
        false => (configured!(Database::builder(dir), settings).open()?, None),
        true => {
            let optimistic = configured!(OptimisticTxDatabase::builder(dir), settings).open()?;
            (optimistic.inner().clone(), Some(optimistic))
        }
    };
    let (memtable_bytes, table, level) = (settings.memtable_bytes, settings.table_bytes, settings.level_bytes);
    let keyspace = db.keyspace("bench", move || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(memtable_bytes)
            .compaction_strategy(Arc::new(levels(table, level)))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
    })?;
    Ok(Box::new(Fjall { db, keyspace, optimistic }))
}

/// Returns its leveled compaction. The first level holds as many tables as level 0, so the table size determines the
/// level size.
fn levels(table: Option<u64>, level: Option<u64>) -> Leveled {
    let levels = Leveled::default();
    match (table, level) {
        (None, None) => levels,
        (Some(table), None) => levels.with_table_target_size(table),
        (_, Some(level)) => levels.with_table_target_size((level / L0_TABLES).max(1)),
    }
}

impl Fjall {
    /// Runs a transaction until it commits.
    fn run<T>(&self, mut run: impl FnMut(&mut OptimisticWriteTx) -> Outcome<T>) -> Outcome<T> {
        let optimistic = self.optimistic.as_ref().ok_or("the store was not opened for transactions")?;
        loop {
            let mut transaction = optimistic.write_tx()?;
            let outcome = run(&mut transaction)?;
            if transaction.commit()?.is_ok() {
                return Ok(outcome);
            }
        }
    }

    fn persist(&self, sync: bool) -> Outcome<()> {
        if sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        self.keyspace.insert(key, value)?;
        self.persist(sync)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        self.keyspace.remove(key)?;
        self.persist(sync)
    }

    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()> {
        let mut batch = self.db.batch().durability(sync.then_some(PersistMode::SyncData));
        for op in ops {
            match &op.value {
                Some(value) => batch.insert(&self.keyspace, op.key.as_slice(), value.as_slice()),
                None => batch.remove(&self.keyspace, op.key.as_slice()),
            }
        }
        Ok(batch.commit()?)
    }

    fn count(&self, key: &[u8]) -> Outcome<()> {
        self.run(|transaction| {
            let before = transaction.get(&self.keyspace, key)?.map_or(0, |value| number(&value));
            transaction.insert(&self.keyspace, key, (before + 1).to_le_bytes());
            Ok(())
        })
    }

    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Outcome<u64> {
        self.run(|transaction| {
            let mut found = 0;
            for key in keys {
                found += u64::from(transaction.get(&self.keyspace, key)?.map(|value| touch(&value)).is_some());
                transaction.insert(&self.keyspace, key, value);
            }
            Ok(found)
        })
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        let mut batch = self.db.batch();
        for guard in self.keyspace.range(start..end) {
            batch.remove(&self.keyspace, guard.key()?);
        }
        Ok(batch.commit()?)
    }

    fn reader(&self, _: View) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(FjallReader { keyspace: &self.keyspace }))
    }

    fn sync(&self) -> Outcome<()> {
        self.persist(true)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.keyspace.rotate_memtable_and_wait()?)
    }

    fn settle(&self) -> Outcome<Duration> {
        self.keyspace.rotate_memtable_and_wait()?;
        // fjall has no call that waits for compactions: it counts as settled when its counters stop changing.
        let mut quiet_since = Instant::now();
        let mut completed = self.db.compactions_completed();
        while quiet_since.elapsed() < QUIET {
            std::thread::sleep(Duration::from_millis(1));
            let now = self.db.compactions_completed();
            if self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0 || now != completed {
                completed = now;
                quiet_since = Instant::now();
            }
        }
        Ok(quiet_since.elapsed())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}

struct FjallReader<'a> {
    keyspace: &'a Keyspace,
}

impl Reader for FjallReader<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>> {
        Ok(self.keyspace.get(key)?.map(|value| touch(&value)))
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.keyspace.get(key)?.map(|value| value.to_vec()))
    }

    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()> {
        match start {
            Start::First => walk(self.keyspace.iter(), rows),
            Start::Last => walk(self.keyspace.iter().rev(), rows),
            Start::Seek(key) => walk(self.keyspace.range(key..), rows),
        }
    }
}

fn walk(guards: impl Iterator<Item = fjall::Guard>, rows: &mut Rows<'_>) -> Outcome<()> {
    for guard in guards {
        let (key, value) = guard.into_inner()?;
        if !rows.row(&key, &value) {
            break;
        }
    }
    Ok(())
}
