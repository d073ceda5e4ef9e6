//! RocksDB in two variants: with its defaults (point-in-time recovery), and with every check that its C interface
//! offers (absolute consistency, a log tracked in the manifest, paranoid checks). Filters and cache follow its tuning
//! guide; compression is off in both. A store of transactions is an `OptimisticTransactionDB`; its counters are
//! transactions too.

use super::settings::Strict;
use super::{Engine, Op, Reader, Rows, Settings, Sink, Start, View, backups_of, keeps, number};
use crate::Outcome;
use crate::workload::touch;
use rocksdb::CompactionDecision as Decision;
use rocksdb::backup::{BackupEngine, BackupEngineOptions};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRecoveryMode, Env, ErrorKind, IngestExternalFileOptions,
    OptimisticTransactionDB, OptimisticTransactionOptions, Options, ReadOptions, SingleThreaded, SliceTransform,
    SstFileWriter, Transaction, WaitForCompactOptions, WriteBatchIterator, WriteBatchWithTransaction, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn open(dir: &Path, settings: &Settings, strict: bool) -> Outcome<Box<dyn Engine>> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(usize::try_from(settings.cache_bytes)?));
    let own = &settings.own.rocksdb;
    table.set_bloom_filter(own.bloom_bits, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(usize::try_from(settings.memtable_bytes)?);
    options.set_compression_type(DBCompressionType::None);
    if let Some(bytes) = settings.table_bytes {
        options.set_target_file_size_base(bytes);
    }
    if let Some(bytes) = settings.level_bytes {
        options.set_max_bytes_for_level_base(bytes);
    }
    if strict {
        let Strict { absolute_consistency, track_and_verify_wals, paranoid_checks } = own.strict;
        if absolute_consistency {
            options.set_wal_recovery_mode(DBRecoveryMode::AbsoluteConsistency);
        }
        options.set_track_and_verify_wals_in_manifest(track_and_verify_wals);
        options.set_paranoid_checks(paranoid_checks);
    }
    if settings.feeding {
        options.set_wal_ttl_seconds(KEPT_LOG_SECONDS);
    }
    if settings.filtering {
        options.set_compaction_filter("odd keys", filter);
    }
    if let Some(bytes) = settings.prefix_bytes {
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(bytes));
    }
    if settings.merging {
        // The C interface has the operator, and this crate reaches it by name only.
        options = options.get_options_from_string("merge_operator=uint64add")?;
    }
    let lazy = WriteOptions::default();
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    Ok(match settings.transactional {
        false => Box::new(Rocks { db: DB::open(&options, dir)?, lazy, synced, options, dir: dir.to_owned() }),
        true => Box::new(Transactional {
            db: OptimisticTransactionDB::open(&options, dir)?,
            lazy,
            synced,
            options,
            dir: dir.to_owned(),
        }),
    })
}

/// The driver's compaction filter, in RocksDB's form.
fn filter(_: u32, key: &[u8], _: &[u8]) -> Decision {
    if keeps(key) { Decision::Keep } else { Decision::Remove }
}

/// Age up to which a store keeps log for its changes: longer than any run.
const KEPT_LOG_SECONDS: u64 = 24 * 3600;

/// Passes the puts of a batch to the rows of a scan.
struct Puts<'a, 'b>(&'a mut Rows<'b>);

impl WriteBatchIterator for Puts<'_, '_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.0.row(key, value);
    }

    fn delete(&mut self, _: &[u8]) {}
}

type Transactions = OptimisticTransactionDB<SingleThreaded>;

/// Runs a transaction until it commits.
fn run<T>(
    db: &Transactions,
    lazy: &WriteOptions,
    mut run: impl FnMut(&Transaction<'_, Transactions>) -> Outcome<T>,
) -> Outcome<T> {
    loop {
        let transaction = db.transaction_opt(lazy, &OptimisticTransactionOptions::default());
        let outcome = run(&transaction)?;
        match transaction.commit() {
            Ok(()) => return Ok(outcome),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A store of one of RocksDB's types, which share their calls and no trait.
macro_rules! store {
    ($store:ident, $reader:ident, $db:ty, $batch:ty, $($own:item)*) => {

struct $store {
    db: $db,
    lazy: WriteOptions,
    synced: WriteOptions,
    options: Options,
    dir: PathBuf,
}

impl $store {
    fn durability(&self, sync: bool) -> &WriteOptions {
        if sync { &self.synced } else { &self.lazy }
    }
}

impl Engine for $store {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        Ok(self.db.put_opt(key, value, self.durability(sync))?)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        Ok(self.db.delete_opt(key, self.durability(sync))?)
    }

    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()> {
        let mut batch = <$batch>::default();
        for op in ops {
            match &op.value {
                Some(value) => batch.put(&op.key, value),
                None => batch.delete(&op.key),
            }
        }
        Ok(self.db.write_opt(batch, self.durability(sync))?)
    }

    $($own)*

    fn bulk_load(&self, fill: &mut dyn FnMut(Sink<'_>) -> Outcome<()>) -> Outcome<()> {
        let path = self.dir.with_extension("sst");
        let mut writer = SstFileWriter::create(&self.options);
        writer.open(&path)?;
        fill(&mut |key, value| Ok(writer.put(key, value)?))?;
        writer.finish()?;
        let mut moves = IngestExternalFileOptions::default();
        moves.set_move_files(true);
        Ok(self.db.ingest_external_file_opts(&moves, vec![path])?)
    }

    fn changes(&self, rows: &mut Rows<'_>) -> Outcome<()> {
        let mut batches = self.db.get_updates_since(0)?;
        for batch in batches.by_ref() {
            batch?.1.iterate(&mut Puts(rows));
        }
        Ok(batches.status()?)
    }

    fn backup(&self) -> Outcome<()> {
        let options = BackupEngineOptions::new(backups_of(&self.dir))?;
        Ok(BackupEngine::open(&options, &Env::new()?)?.create_new_backup_flush(&self.db, true)?)
    }

    fn compact(&self) -> Outcome<()> {
        // Without options it rewrites the last level too if the store has a compaction filter.
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn reader(&self, _: View) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new($reader { db: &self.db, options: ReadOptions::default() }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.db.flush()?)
    }

    fn settle(&self) -> Outcome<Duration> {
        self.db.flush()?;
        self.db.wait_for_compact(&WaitForCompactOptions::default())?;
        Ok(Duration::ZERO)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.db.flush_wal(true)?)
    }
}

struct $reader<'a> {
    db: &'a $db,
    options: ReadOptions,
}

impl Reader for $reader<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>> {
        Ok(self.db.get_pinned_opt(key, &self.options)?.map(|value| touch(&value)))
    }

    fn multi_get(&mut self, keys: &[Vec<u8>], each: &mut dyn FnMut(Option<u64>)) -> Outcome<()> {
        for value in self.db.multi_get_opt(keys, &self.options) {
            each(value?.map(|value| touch(&value)));
        }
        Ok(())
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.db.get_pinned_opt(key, &self.options)?.map(|value| value.to_vec()))
    }

    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()> {
        // A store with a prefix extractor seeks within one prefix otherwise.
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        let mut at = self.db.raw_iterator_opt(options);
        match start {
            Start::First => at.seek_to_first(),
            Start::Last => at.seek_to_last(),
            Start::Seek(key) => at.seek(key),
        }
        let down = matches!(start, Start::Last);
        while let Some((key, value)) = at.item() {
            if !rows.row(key, value) {
                break;
            }
            if down { at.prev() } else { at.next() }
        }
        // The end of the data and an error are only distinguished by the status.
        Ok(at.status()?)
    }

    fn scan_prefix(&mut self, prefix: &[u8], rows: &mut Rows<'_>) -> Outcome<()> {
        let mut options = ReadOptions::default();
        options.set_prefix_same_as_start(true);
        let mut at = self.db.raw_iterator_opt(options);
        at.seek(prefix);
        while let Some((key, value)) = at.item() {
            if !rows.row(key, value) {
                break;
            }
            at.next();
        }
        Ok(at.status()?)
    }
}
    };
}

store! {
    Rocks, RocksReader, DB, WriteBatchWithTransaction<false>,
    fn count(&self, _: &[u8]) -> Outcome<()> {
        Err("the store was not opened for transactions".into())
    }
    fn merge(&self, key: &[u8]) -> Outcome<()> {
        Ok(self.db.merge_opt(key, 1u64.to_le_bytes(), &self.lazy)?)
    }
    fn transact(&self, _: [&[u8]; 2], _: &[u8]) -> Outcome<u64> {
        Err("the store was not opened for transactions".into())
    }
    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        let mut batch = WriteBatchWithTransaction::<false>::default();
        batch.delete_range(start, end);
        Ok(self.db.write_opt(batch, &self.lazy)?)
    }
}

store! {
    Transactional, TransactionalReader, Transactions, WriteBatchWithTransaction<true>,
    fn count(&self, key: &[u8]) -> Outcome<()> {
        run(&self.db, &self.lazy, |transaction| {
            let before = transaction.get_pinned_for_update(key, true)?.map_or(0, |value| number(&value));
            Ok(transaction.put(key, (before + 1).to_le_bytes())?)
        })
    }
    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Outcome<u64> {
        run(&self.db, &self.lazy, |transaction| {
            let mut found = 0;
            for key in keys {
                found += u64::from(transaction.get_pinned_for_update(key, true)?.map(|value| touch(&value)).is_some());
                transaction.put(key, value)?;
            }
            Ok(found)
        })
    }
    fn delete_range(&self, _: &[u8], _: &[u8]) -> Outcome<()> {
        Err("a store of transactions has no range deletes".into())
    }
}
