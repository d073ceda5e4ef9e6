//! Opens tables: rereads metadata that fails its check, corrects the dictionary, and gives each table its damage
//! handling.

use std::sync::Arc;

use super::block_repair;
use super::dictionary_repair::corrected;
use super::partition_rebuild::rebuild_partition;
use crate::env::File;
use crate::error::{Error, Remedy, Result};
use crate::order::Order;
use crate::policy::FilterPolicy;
use crate::record::Record;
use crate::seam::Companions;
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::TRIES;
use crate::sst::cache::cache::Cache;
use crate::sst::index::index::Index;
use crate::sst::index::partitions::PartitionReader;
use crate::sst::index::top_index::PartitionEntry;
use crate::sst::table::ingested::AsStored;
use crate::sst::table::table::{DamageHandler, LoadedBlock, ReadDoubt, Table};
use crate::sst::table::tail::{Expected, TableMetadata, read_parts};
use crate::sst::table::verify_read::PointRead;
use crate::sst::table::watch::{NoWatch, TableListener};

/// The damage handling of all tables.
pub(in crate::sst) const DAMAGE: &dyn DamageHandler = &Repairs;

/// Repairs what can be repaired, and salvages the rest.
struct Repairs;

impl DamageHandler for Repairs {
    fn get(
        &self,
        table: &Table,
        wanted: &PointRead<'_>,
        doubt: ReadDoubt,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        block_repair::get(table, wanted, doubt, visit)
    }

    fn repair_block(&self, table: &Table, number: usize) -> Result<LoadedBlock> {
        block_repair::repair_block(table, number)
    }

    fn rebuild_index(
        &self,
        from: &PartitionReader<'_>,
        span: &PartitionEntry,
        dictionary: Option<&Dictionary>,
    ) -> Result<(Index, bool, Option<Error>)> {
        rebuild_partition(from, span, dictionary)
    }
}

impl Table {
    /// Opens a table: checks header, footer, identity and digest, and loads index and filter. `name` is used in errors,
    /// and `protector` checks records.
    pub fn open(
        name: String,
        file: Arc<dyn File>,
        expected: Expected,
        order: Order,
        cache: Arc<Cache>,
        protector: Arc<dyn Companions>,
    ) -> Result<Arc<Table>> {
        Table::open_watched(name, file, (expected, order, None), cache, protector, Arc::new(NoWatch))
    }

    /// As `open`, with a receiver of notifications and a filter policy. Metadata that fails its check is read again.
    pub fn open_watched(
        name: String,
        file: Arc<dyn File>,
        (expected, order, policy): (Expected, Order, Option<Arc<dyn FilterPolicy>>),
        cache: Arc<Cache>,
        protector: Arc<dyn Companions>,
        watch: Arc<dyn TableListener>,
    ) -> Result<Arc<Table>> {
        let read = || read_parts(&name, &*file, expected, &order, policy.as_ref());
        let mut parts = read();
        for _ in 0..TRIES {
            // As with data blocks, a reread that bypasses the page cache may succeed.
            if !parts.as_ref().map_or_else(Error::is_corruption, TableMetadata::lacks_dictionary) {
                break;
            }
            file.advise(0, expected.size, false);
            parts = read();
            if parts.as_ref().is_ok_and(|parts| !parts.lacks_dictionary()) {
                watch.healed(&name, 0, Remedy::ReadAgain);
            }
        }
        let mut parts = parts?;
        let as_stored = AsStored(&*protector);
        let by: &dyn Companions = if expected.ingest_seqno == 0 { &*protector } else { &as_stored };
        if parts.lacks_dictionary()
            && let Some((dictionary, at)) = corrected(&name, &*file, &parts, &order, by)
        {
            parts.dictionary = Some(Arc::new(dictionary));
            watch.healed(&name, at, Remedy::Corrected);
        }
        Ok(Table::assembled(name, file, (expected, order), cache, (protector, watch, DAMAGE), parts))
    }
}
