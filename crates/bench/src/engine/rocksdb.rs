//! RocksDB in two variants: with its defaults (point-in-time recovery), and with every check that its C interface
//! offers (absolute consistency, a log tracked in the manifest, paranoid checks). Filters and cache follow its tuning
//! guide; compression is off in both.

use super::settings::Strict;
use super::{Engine, Op, Reader, Rows, Settings, Start, View};
use crate::Outcome;
use crate::workload::touch;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRecoveryMode, Options, ReadOptions, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};
use std::path::Path;
use std::time::Duration;

struct Rocks {
    db: DB,
    lazy: WriteOptions,
    synced: WriteOptions,
}

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
    let db = DB::open(&options, dir)?;
    let lazy = WriteOptions::default();
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    Ok(Box::new(Rocks { db, lazy, synced }))
}

impl Rocks {
    fn durability(&self, sync: bool) -> &WriteOptions {
        if sync { &self.synced } else { &self.lazy }
    }
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        Ok(self.db.put_opt(key, value, self.durability(sync))?)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        Ok(self.db.delete_opt(key, self.durability(sync))?)
    }

    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        for op in ops {
            match &op.value {
                Some(value) => batch.put(&op.key, value),
                None => batch.delete(&op.key),
            }
        }
        Ok(self.db.write_opt(batch, self.durability(sync))?)
    }

    fn reader(&self, _: View) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(RocksReader { db: &self.db, options: ReadOptions::default() }))
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

struct RocksReader<'a> {
    db: &'a DB,
    options: ReadOptions,
}

impl Reader for RocksReader<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>> {
        Ok(self.db.get_pinned_opt(key, &self.options)?.map(|value| touch(&value)))
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.db.get_pinned_opt(key, &self.options)?.map(|value| value.to_vec()))
    }

    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()> {
        let mut at = self.db.raw_iterator();
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
}
