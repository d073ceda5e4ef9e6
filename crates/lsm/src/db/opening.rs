//! The inputs of an open, and the openers of its tables.

use std::path::Path;
use std::sync::Arc;

use super::Parts;
use super::notifier::{FamilyWatch, Notifier};
use crate::descriptors::Descriptors;
use crate::env::Env;
use crate::names::StoreFileName;
use crate::options::{CfOptions, Settings};
use crate::seam::Companions;
use crate::sst::{Cache, Expected, Table};
use crate::values::BlobFiles;
use crate::version::{ManifestState, ObsoleteList, OpenTables, TableCache};
use crate::wal::LogProofs;

/// The inputs of an open.
pub(super) struct Opening<'a> {
    pub(super) dir: &'a Path,
    pub(super) settings: &'a Settings,
    pub(super) parts: &'a Parts,
    /// Receives the damage reports of table readers.
    pub(super) notifier: &'a Arc<Notifier>,
    /// The block cache and the open files of a store that refreshes; `None` creates fresh ones.
    pub(super) kept: Option<(Arc<Cache>, Arc<Descriptors>)>,
}

impl Opening<'_> {
    pub(super) fn env(&self) -> &Env {
        &self.parts.env
    }
}

/// The objects that the tables of all families share: the cache, the obsolete files, the bound on open tables.
pub(super) type TableResources<'a> = (&'a Arc<Cache>, &'a Arc<ObsoleteList>, &'a Arc<OpenTables>);

/// Returns the table opener of a family.
pub(super) fn table_cache(
    family: &str,
    options: &CfOptions,
    (cache, dead, tables): TableResources<'_>,
    (protector, notifier): (&Arc<dyn Companions>, &Arc<Notifier>),
) -> Arc<TableCache<Arc<Table>>> {
    let cache = cache.clone();
    let (order, policy) = (options.order.clone(), options.filter_policy.clone());
    let (protector, watch) = (protector.clone(), FamilyWatch::new(family, notifier, tables));
    let values = BlobFiles::cached(
        protector.clone(),
        (dead.values().clone(), tables.files().clone()),
        (cache.clone(), watch.clone()),
    );
    let weigh: fn(&Arc<Table>) -> usize = |table| table.pinned_bytes();
    let table_cache = TableCache::bounded(family, dead.clone(), (tables.clone(), weigh), move |meta, file| {
        let name = StoreFileName::Table(meta.number).to_string();
        let expected = Expected { uid: meta.uid, size: meta.size, digest: meta.digest };
        let read_by = (expected, order.clone(), policy.clone());
        Table::open_watched(name, file, read_by, cache.clone(), protector.clone(), watch.clone())
    });
    table_cache.with_values(values).freed_later(|table| table)
}

/// Returns the facts that a manifest proves about the log.
pub fn facts_of(state: &ManifestState) -> LogProofs {
    LogProofs {
        sealed: state.sealed.values().copied().collect(),
        permanent: state.permanent_offset,
        witness: state.log_witness,
        seqno: state.permanent_seqno + 1,
    }
}
