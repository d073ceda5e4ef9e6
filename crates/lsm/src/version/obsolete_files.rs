//! Obsolete files: tables and value files that no reader can reach any more.
//!
//! In:     obsolete objects, from their last holder, often a reader. Out: one object at a time, to a background thread,
//!         which is notified of each and frees its memory or removes its file.
//! Holds:  no memory is freed and no file is touched here, so releasing an object takes no longer than adding it to the
//!         list.
//! Owner:  handles of tables and blob files hold the list and outlive the store. Its only reader is `db`'s
//!         `ObsoleteFiles`, which removes what the list returns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::table_meta::TableMeta;
use crate::env::work::lock;
use crate::record::Seqno;
use crate::values::ObsoleteBlobs;

/// An object whose memory takes long to free.
pub type Late = Arc<dyn Send + Sync>;

/// An obsolete object.
pub enum ObsoleteObject {
    /// Dropping it frees it.
    Memory(Late),
    /// The file of a table that no version names.
    Table(Arc<TableMeta>),
    /// The number of a value file that no table names.
    Values(u64),
}

/// The list of tables and value files that no reader can reach any more, and whose files or memory still exist.
#[derive(Default)]
pub struct ObsoleteList {
    tables: Mutex<ObsoleteQueue>,
    /// The tables that no version names and whose files exist: number, and the least seqno of a record.
    unnamed: Mutex<BTreeMap<u64, Seqno>>,
    values: Arc<ObsoleteBlobs>,
}

#[derive(Default)]
struct ObsoleteQueue {
    dead: VecDeque<ObsoleteObject>,
    /// True once no background thread works through the list any more.
    is_closed: bool,
}

impl ObsoleteList {
    /// Registers the callback for new obsolete objects.
    pub fn on_new(&self, hears: impl Fn() + Send + Sync + 'static) {
        self.values.on_new(hears);
    }

    /// Adds an obsolete object to the list, and notifies the callback. After the store is closed, memory is freed
    /// immediately, and files are left to the next open.
    pub(super) fn bury(&self, dead: ObsoleteObject) {
        let mut tables = lock(&self.tables);
        if tables.is_closed {
            drop(tables); // freeing may call this function again
            return drop(dead);
        }
        tables.dead.push_back(dead);
        drop(tables);
        self.values.notify();
    }

    /// Notes that no version names a table any more. Its file exists until `removed`.
    pub(super) fn retired(&self, table: &TableMeta) {
        lock(&self.unnamed).insert(table.number, table.oldest_seqno());
    }

    /// Notes that the file of a table does not exist any more.
    pub fn removed(&self, table: u64) {
        lock(&self.unnamed).remove(&table);
    }

    /// Returns the least seqno of a record in files that no version names: files that readers or memtables hold or that
    /// wait for their removal. 0 if it is not known.
    pub fn oldest_seqno(&self) -> Option<Seqno> {
        // Tables first: their value files become obsolete after them.
        let tables = lock(&self.unnamed).values().min().copied();
        tables.into_iter().chain(self.values.oldest_seqno()).min()
    }

    /// Frees the memory in the list when the store is closed and no background thread remains. A table in this list
    /// refers back to the list, so without this call it would never be freed.
    pub fn close(&self) {
        let mut tables = lock(&self.tables);
        tables.is_closed = true;
        let dead = std::mem::take(&mut tables.dead);
        drop(tables);
        drop(dead);
    }

    /// Takes an object to be freed or removed: tables in the order in which they became obsolete, then value files.
    pub fn take(&self) -> Option<ObsoleteObject> {
        let first = lock(&self.tables).dead.pop_front();
        first.or_else(|| self.values.take().map(ObsoleteObject::Values))
    }

    /// Returns the list of obsolete value files.
    pub fn values(&self) -> &Arc<ObsoleteBlobs> {
        &self.values
    }
}
