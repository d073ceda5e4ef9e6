//! Waxseal through its public API, with seals (the default) or plain.

use super::{Engine, Findings, Op, Reader, Rows, Settings, Sink, Start, View, backups_of, keeps};
use crate::Outcome;
use crate::workload::touch;
use std::path::{Path, PathBuf};
use std::time::Duration;
use waxseal::{
    CfOptions, ChangeCursor, ChangeOperation, ChangeReach, ColumnFamily, CompactionFilter, Compression, Db, Durability,
    Error, FilterDecision, MergeOperator, Prefix, PrefixExtractor, TableProperty,
};

struct Waxseal {
    db: Db,
    records: ColumnFamily,
    synced: bool,
    dir: PathBuf,
    /// Present in a store whose changes are read.
    feed: Option<ChangeCursor>,
}

/// Name of the cursor that keeps the log.
const FEED: &str = "bench";

/// Name of the property with the first bytes of the keys.
const PREFIXES: &str = "prefixes";

/// Bytes of a key that the property leaves out: with decimal numbers, an item for 10,000 keys.
const LEFT_OUT: usize = 4;

/// Returns the item of a key.
fn prefix(key: &[u8]) -> &[u8] {
    &key[..key.len().saturating_sub(LEFT_OUT)]
}

pub(super) fn open(dir: &Path, settings: &Settings, plain: bool) -> Outcome<Box<dyn Engine>> {
    let merge_operator = settings.merging.then(MergeOperator::add_u64);
    let mut family = CfOptions { compression: Compression::None, merge_operator, ..CfOptions::default() };
    if settings.collecting {
        family.table_properties = vec![TableProperty::of_keys(PREFIXES, |key, add| {
            add(prefix(key));
            Ok(())
        })];
    }
    family.compaction_filter = settings.filtering.then(|| {
        CompactionFilter::by_key("odd keys", |key| {
            Ok(if keeps(key) { FilterDecision::Keep } else { FilterDecision::Drop })
        })
    });
    family.prefix_extractor = settings.prefix_bytes.map(PrefixExtractor::Fixed);
    family.level_base_bytes = settings.level_bytes.unwrap_or(family.level_base_bytes);
    family.table_bytes = settings.table_bytes.unwrap_or(family.table_bytes).min(family.level_base_bytes);
    let builder = Db::builder(dir)
        .cache_bytes(usize::try_from(settings.cache_bytes)?)
        .memtable_bytes(usize::try_from(settings.memtable_bytes)?)
        .column_family("default", family)
        .durability(durability(settings.synced))
        .create_if_missing(true);
    let db = if plain { builder.plain().open()? } else { builder.open()? };
    let records = db.column_family("default")?;
    let feed = settings.feeding.then(|| db.change_cursor(FEED)).transpose()?;
    Ok(Box::new(Waxseal { db, records, synced: settings.synced, dir: dir.to_owned(), feed }))
}

fn durability(sync: bool) -> Durability {
    if sync { Durability::Sync } else { Durability::Os }
}

impl Engine for Waxseal {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        if sync == self.synced {
            return Ok(self.records.put(key, value)?);
        }
        let mut batch = self.db.batch();
        batch.put(&self.records, key, value);
        batch.commit(durability(sync))?;
        Ok(())
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        if sync == self.synced {
            return Ok(self.records.delete(key)?);
        }
        let mut batch = self.db.batch();
        batch.delete(&self.records, key);
        batch.commit(durability(sync))?;
        Ok(())
    }

    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()> {
        let mut batch = self.db.batch();
        for op in ops {
            match &op.value {
                Some(value) => batch.put(&self.records, &op.key, value),
                None => batch.delete(&self.records, &op.key),
            };
        }
        batch.commit(durability(sync))?;
        Ok(())
    }

    fn count(&self, key: &[u8]) -> Outcome<()> {
        self.records.fetch_add(key, 1)?;
        Ok(())
    }

    fn merge(&self, key: &[u8]) -> Outcome<()> {
        Ok(self.records.merge(key, 1u64.to_le_bytes())?)
    }

    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Outcome<u64> {
        let run = |transaction: &waxseal::Transaction| {
            let mut found = 0;
            for key in keys {
                found += u64::from(transaction.get_with(&self.records, key, touch)?.is_some());
                transaction.put(&self.records, key, value)?;
            }
            Ok(found)
        };
        Ok(self.db.transact(run)?)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        Ok(self.records.delete_range(start..end)?)
    }

    fn bulk_load(&self, fill: &mut dyn FnMut(Sink<'_>) -> Outcome<()>) -> Outcome<()> {
        self.db.bulk_load_with(&self.records, |load| {
            let filled = fill(&mut |key, value| Ok(load.put(key, value).map(drop)?));
            filled.map_err(|fault| Error::invalid(fault.to_string()))
        })?;
        Ok(())
    }

    fn changes(&self, rows: &mut Rows<'_>) -> Outcome<()> {
        let from = self.feed.as_ref().ok_or("the store was not opened for its changes")?.position()?;
        for change in self.db.changes_within(from, ChangeReach::Visible)? {
            let ChangeOperation::Put { key, value } = change?.operation else { continue };
            rows.row(&key, &value);
        }
        Ok(())
    }

    fn backup(&self) -> Outcome<()> {
        self.db.backup(backups_of(&self.dir))?;
        Ok(())
    }

    fn tables_with(&self, key: &[u8]) -> Outcome<u64> {
        Ok(self.records.files_with(PREFIXES, prefix(key))?.len() as u64)
    }

    fn compact(&self) -> Outcome<()> {
        Ok(self.records.compact()?)
    }

    fn reader(&self, _: View) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(WaxsealReader { records: &self.records }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.db.sync()?)
    }

    fn own_wait(&self) -> Option<Duration> {
        let metrics = self.db.metrics();
        Some(Duration::from_nanos(metrics.longest_stall_nanos.max(metrics.wal.longest_wait_nanos)))
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.db.flush()?)
    }

    fn settle(&self) -> Outcome<Duration> {
        self.db.settle()?;
        Ok(Duration::ZERO)
    }

    fn findings(&self) -> Findings {
        Findings { cut: self.db.recovery().cut_bytes > 0, repaired: false }
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.db.close()?)
    }
}

struct WaxsealReader<'a> {
    records: &'a ColumnFamily,
}

impl Reader for WaxsealReader<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>> {
        Ok(self.records.get_with(key, touch)?)
    }

    fn multi_get(&mut self, keys: &[Vec<u8>], each: &mut dyn FnMut(Option<u64>)) -> Outcome<()> {
        for value in self.records.multi_get(keys)? {
            each(value.map(|value| touch(&value)));
        }
        Ok(())
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.records.get_with(key, <[u8]>::to_vec)?)
    }

    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()> {
        let mut at = self.records.cursor();
        match start {
            Start::First => at.first()?,
            Start::Last => at.last()?,
            Start::Seek(key) => at.seek(key)?,
        };
        let down = matches!(start, Start::Last);
        while at.valid() && rows.row(at.key(), at.value()) {
            if down {
                at.prev()?
            } else {
                at.next()?
            };
        }
        Ok(())
    }

    fn scan_prefix(&mut self, prefix: &[u8], rows: &mut Rows<'_>) -> Outcome<()> {
        let mut at = self.records.cursor_in(Prefix(prefix));
        at.first()?;
        while at.valid() && rows.row(at.key(), at.value()) {
            at.next()?;
        }
        Ok(())
    }
}
