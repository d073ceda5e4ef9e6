//! The dead: tables and value files that nobody can read any more.
//!
//! In:    what died, from whoever let go of it last: a reader, as often as not. Out: one piece at a time, to whoever works in the background,
//!        who hears of each, frees it or removes its file.
//! Holds: nothing is freed and no file is touched here, so that letting go of a thing never takes longer than to write down that it died.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::edit::TableMeta;
use crate::env::work::lock;
use crate::values::DeadValues;

/// Something that takes a while to free.
pub type Late = Arc<dyn Send + Sync>;

/// A piece of what died.
pub enum Dead {
    /// Dropping it frees it.
    Memory(Late),
    /// The file of a table that no version names.
    Table(Arc<TableMeta>),
    /// The number of a value file that no table names.
    Values(u64),
}

/// Tables and value files that nobody can read any more and whose files still exist, and what of them is in memory.
#[derive(Default)]
pub struct DeadFiles {
    tables: Mutex<Tables>,
    values: Arc<DeadValues>,
}

#[derive(Default)]
struct Tables {
    dead: VecDeque<Dead>,
    /// Nobody sweeps any more.
    is_closed: bool,
}

impl DeadFiles {
    /// Names who hears when something died.
    pub fn heard_by(&self, hears: impl Fn() + Send + Sync + 'static) {
        self.values.heard_by(hears);
    }

    /// Writes down that something died, and tells of it. Once the store is closed memory is freed at once, and files are left to the next open.
    pub(super) fn bury(&self, dead: Dead) {
        let mut tables = lock(&self.tables);
        if tables.is_closed {
            drop(tables); // what is freed may lead here again
            return drop(dead);
        }
        tables.dead.push_back(dead);
        drop(tables);
        self.values.tell();
    }

    /// The store is closed, and nobody sweeps any more: frees what is in memory. A table in this list leads back to the list, so what stayed in it
    /// would never be freed.
    pub fn close(&self) {
        let mut tables = lock(&self.tables);
        tables.is_closed = true;
        let dead = std::mem::take(&mut tables.dead);
        drop(tables);
        drop(dead);
    }

    /// Takes a piece, to be freed or removed: what died first of tables, and then a value file.
    pub fn take(&self) -> Option<Dead> {
        let first = lock(&self.tables).dead.pop_front();
        first.or_else(|| self.values.take().map(Dead::Values))
    }

    /// The list of value files.
    pub fn values(&self) -> &Arc<DeadValues> {
        &self.values
    }
}
