//! The table opener of a family, and what the tables of all families share.

use std::sync::Arc;

use crate::db::notify::notifier::{FamilyWatch, Notifier};
use crate::names::StoreFileName;
use crate::options::CfOptions;
use crate::seam::Companions;
use crate::sst::{Cache, Table};
use crate::values::BlobFiles;
use crate::version::{ObsoleteList, OpenTables, TableCache};

/// The objects that the tables of all families share: the cache, the obsolete files, the bound on open tables.
pub(in crate::db) type TableResources<'a> = (&'a Arc<Cache>, &'a Arc<ObsoleteList>, &'a Arc<OpenTables>);

/// Returns the table opener of a family.
pub(in crate::db) fn table_cache(
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
        let read_by = (meta.expected(), order.clone(), policy.clone());
        Table::open_watched(name, file, read_by, cache.clone(), protector.clone(), watch.clone())
    });
    table_cache.with_values(values).freed_later(|table| table)
}
