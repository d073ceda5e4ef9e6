//! The tables of a store under salvage: selects the tables to read, and opens each completely or by its readable parts.

use std::cmp::Reverse;
use std::sync::Arc;

use waxseal_lsm::env::{File, Open};
use waxseal_lsm::error::{Error, IoContext, Result};
use waxseal_lsm::names::{StoreFileName, system_id};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::MAX_SEQNO;
use waxseal_lsm::seam::Companions;
use waxseal_lsm::sst::{Cache, Expected, KnownTable, Table, WRITTEN_SEQNO, rebuild};
use waxseal_lsm::version::{self, TableMeta};

use super::undated::UNDATED;
use super::{Named, Salvage};

impl Salvage<'_> {
    /// Returns a separate family for a table whose family is unknown, so that its records do not mix with others.
    pub(super) fn family_of_stray(&mut self, name: &str) -> u32 {
        self.strays.push(name.to_owned());
        system_id(0) - self.strays.len() as u32
    }

    /// Returns the name of such a family.
    pub(super) fn name_of_stray(&self, id: u32) -> Option<String> {
        let at = system_id(0).checked_sub(id)?.checked_sub(1)?;
        self.strays.get(at as usize).map(|table| format!("family of {table}"))
    }

    /// Returns the tables to read: those in the manifest, for each key from its oldest versions to its newest, or every
    /// table file if no manifest is readable.
    pub(super) fn tables(&self, names: &[String]) -> Vec<(String, Option<Named>)> {
        match &self.state {
            Some(state) => {
                let of = |family: &Arc<version::FamilyState>| {
                    let id = family.id;
                    let mut tables: Vec<_> = family.tables.values().collect();
                    // Operands are copied behind what is below them: see `operands`.
                    tables.sort_by_key(|(level, meta)| (Reverse(*level), meta.greatest_seqno));
                    let named = |(_, meta): &(u8, Arc<TableMeta>)| {
                        (StoreFileName::Table(meta.number).to_string(), Some((id, meta.clone())))
                    };
                    tables.into_iter().map(named).collect::<Vec<_>>()
                };
                state.families.values().flat_map(of).collect()
            }
            None => {
                let is_own = |name: StoreFileName| matches!(name, StoreFileName::Table(_)) && !self.others.has(name);
                let is_table = |name: &&String| StoreFileName::parse(name).is_some_and(is_own);
                let mut tables: Vec<_> = names.iter().filter(is_table).map(|name| (name.clone(), None)).collect();
                // Undated tables come last: then their contested keys are found in order.
                tables.sort_by_cached_key(|(name, _)| self.may_be_undated(name));
                tables
            }
        }
    }

    fn may_be_undated(&self, name: &str) -> bool {
        let file = self.parts.env.fs.open(&self.from.join(name), Open::Read).ok();
        let properties = file.and_then(|file| Table::properties_of(name, &*file).ok());
        properties.is_some_and(|of| (of.least_seqno, of.greatest_seqno) == (WRITTEN_SEQNO, WRITTEN_SEQNO))
    }

    /// Without a manifest, a table under two names means that a copy of it has overwritten another table, which is
    /// lost.
    pub(super) fn misses_another(&mut self, table: &Table, name: &str, known: Option<&Named>) {
        if known.is_some() {
            return;
        }
        if let Some(other) = self.uids.insert(table.expected().uid, name.to_owned()) {
            let message = format!("the file holds the table of {other}; which table it held before is not known");
            self.lost_anywhere(&Error::structural(&message).in_file(name, 0), MAX_SEQNO);
        }
    }

    /// Opens a table, or its readable parts.
    pub(super) fn open(&self, name: &str, known: Option<&Named>) -> Result<Arc<Table>> {
        let file = self.parts.env.fs.open(&self.from.join(name), Open::Read).during(|| format!("opening {name}"))?;
        let (protector, cache) = (self.parts.companions.clone(), Arc::new(Cache::new(0)));
        let comparator = match (known, &self.state) {
            (Some((id, _)), Some(state)) => state.families.get(id).map(|family| family.comparator.clone()),
            _ => None,
        };
        let orders: Vec<Order> = match comparator {
            Some(name) => self.order_named(&name).into_iter().collect(),
            None => self.parts.orders.iter().cloned().chain([Order::bytewise()]).collect(),
        };
        let mut failed = Error::invalid(format!("the order of {name} was not given"));
        for order in &orders {
            match self.open_in(name, &file, known, order, &cache, &protector) {
                Ok(table) => return Ok(table),
                Err(error) => failed = error,
            }
        }
        let is_named = known.is_some();
        let mut known = match known {
            None => KnownTable::default(),
            Some((id, meta)) => KnownTable {
                uid: Some(meta.uid),
                family: *id,
                keys: Some((meta.smallest.clone(), meta.largest.clone())),
                seqnos: Some((meta.least_seqno, meta.greatest_seqno)),
                ledger: Some(meta.ledger),
                ingest_seqno: meta.ingest_seqno,
                size: Some(meta.size),
            },
        };
        for order in &orders {
            let rebuilt = |known: &_| rebuild(name, file.clone(), known, order, cache.clone(), protector.clone());
            if let Ok(found) = rebuilt(&known)
                && found.table.properties().comparator == order.name()
            {
                if is_named || !found.table.is_ingestible() {
                    return Ok(found.table);
                }
                known.ingest_seqno = UNDATED;
                return Ok(rebuilt(&known)?.table);
            }
        }
        Err(failed)
    }

    fn open_in(
        &self,
        name: &str,
        file: &Arc<dyn File>,
        known: Option<&Named>,
        order: &Order,
        cache: &Arc<Cache>,
        protector: &Arc<dyn Companions>,
    ) -> Result<Arc<Table>> {
        let open = |expected| {
            Table::open(name.to_owned(), file.clone(), expected, order.clone(), cache.clone(), protector.clone())
        };
        let mut table = match known {
            Some((_, meta)) => open(meta.expected())?,
            None => open(Table::identify(name, &**file)?)?,
        };
        if known.is_none() && table.is_ingestible() {
            table = open(Expected { ingest_seqno: UNDATED, ..*table.expected() })?;
        }
        table.read_guide(true)?;
        Ok(table)
    }
}
