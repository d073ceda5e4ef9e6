//! Files of the store that no edit names yet: the tables of an ingestion before its commit.
//!
//! In:    table files outside of the store, and tables that were just written.
//! Out:   files under new numbers.
//! Fork:  a child removes none of them.
//! Crash: files that no edit names, which the next open removes.

use std::path::Path;

use super::checkpoint::copy_contents;
use crate::db::jobs::compact::Compactor;
use crate::db::state::context::StoreContext;
use crate::env::{Open, Origin};
use crate::error::{IoContext, Result};
use crate::names::StoreFileName;
use crate::planted;
use crate::version::TableMeta;

/// Files of the store that no edit names yet; removed when dropped.
pub(super) struct PlacedFiles<'a> {
    compactor: &'a Compactor,
    names: Vec<StoreFileName>,
    origin: Origin,
}

impl<'a> PlacedFiles<'a> {
    pub(super) fn new(compactor: &'a Compactor) -> PlacedFiles<'a> {
        PlacedFiles { compactor, names: Vec::new(), origin: Origin::here() }
    }

    /// Returns false in a forked child, which must not change the store.
    pub(super) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// Adds tables that were just written, and the blob files that were written with them.
    pub(super) fn adopt(&mut self, tables: &[TableMeta]) {
        self.names.extend(tables.iter().flat_map(names_of));
    }

    /// Removes the files of tables.
    pub(super) fn remove(&mut self, tables: &[TableMeta]) {
        let context = self.compactor.context();
        for name in tables.iter().flat_map(names_of) {
            context.remove_file(name);
            self.names.retain(|placed| *placed != name);
        }
    }

    /// Leaves all files to the edit that is about to name them: if it fails and cannot be on the disk, it removes them.
    pub(super) fn hand_over(&mut self) {
        self.names.clear();
    }

    /// Copies a file into the store, or links it there if it is to be moved, and returns its new number.
    pub(super) fn place(&mut self, path: &Path, is_moved: bool) -> Result<u64> {
        let (context, number) = (self.compactor.context(), self.compactor.catalog().new_file_number());
        let name = StoreFileName::Table(number);
        let (fs, to) = (&context.env.fs, context.path(name));
        let source = fs.open(path, Open::Read).during(|| format!("opening {}", path.display()))?;
        self.names.push(name);
        if is_moved && is_regular(context, path) && fs.link(path, &to).is_ok() {
            let linked = fs.open(&to, Open::Write).during(|| format!("opening {name}"))?;
            linked.sync_data().during(|| format!("syncing {name}"))?;
            planted!(IngestSourceRemovedEarly => { let _ = fs.remove(path); });
            return Ok(number);
        }
        let copy = fs.open(&to, Open::Create).during(|| format!("creating {name}"))?;
        copy_contents(&*source, &*copy, &name)?;
        Ok(number)
    }
}

impl Drop for PlacedFiles<'_> {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        let context = self.compactor.context();
        for name in self.names.drain(..) {
            context.remove_file(name);
        }
    }
}

fn names_of(table: &TableMeta) -> impl Iterator<Item = StoreFileName> {
    let values = table.values.iter().map(|values| StoreFileName::Values(values.file.number));
    [StoreFileName::Table(table.number)].into_iter().chain(values)
}

/// Returns true if a path names a file itself. A second name for a symbolic link would not keep the file.
fn is_regular(context: &StoreContext, path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = context.env.fs.entries(parent).unwrap_or_default();
    let name = path.file_name().and_then(|name| name.to_str());
    entries.iter().any(|entry| entry.is_file && Some(&*entry.name) == name)
}
