//! Families come and go: one edit each, durable before anybody sees it.
//!
//! A created family is in the manifest before its first record is in the log. A dropped one leaves the manifest; records of it
//! that are still in the log are skipped by recovery, its tables die when no version names them. Its id is never used again.

use std::sync::Arc;

use super::family::Family;
use super::recover::shelf;
use super::{DEFAULT_FAMILY, Db, Inner, Levels};
use crate::error::{Error, Result};
use crate::options::CfOptions;
use crate::version::{self, Change, Edit};

/// Longest family name, in bytes.
const MAX_NAME_BYTES: usize = 255;

impl Db {
    /// Creates a family. `Invalid` if the name is taken, empty or longer than 255 bytes, or the options cannot work.
    /// Durable when it returns; costs two fsyncs.
    pub fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        let (inner, _) = self.writable()?;
        options.validate()?;
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(format!("a family name has 1 to {MAX_NAME_BYTES} bytes")));
        }
        let _job = inner.job()?;
        inner.create_family(name, options)
    }

    /// Drops a family and all it holds. `Invalid` if there is none of this name, or for `default`. Handles that are still
    /// around read nothing; files go when the last cursor over them goes.
    pub fn drop_family(&self, name: &str) -> Result<()> {
        let (inner, _) = self.writable()?;
        if name == DEFAULT_FAMILY {
            return Err(Error::invalid("the default family cannot be dropped"));
        }
        let _job = inner.job()?;
        inner.drop_family(name)
    }
}

impl Inner {
    fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        let mut families = (**self.families()).clone();
        if families.named(name).is_some() {
            return Err(Error::invalid(format!("there is a family {name:?} already")));
        }
        let id = families.next_id;
        let seen_by = (&self.companions, &self.integrity);
        let shelf = shelf(&self.env, &self.dir, name, &options, &self.cache, &self.dead_files, seen_by);
        let levels = Arc::new(Levels::empty(options.order.clone()));
        let family = Family::new(id, name, options.clone(), shelf, levels);
        families.by_id.insert(id, family.clone());
        families.next_id = id + 1;
        self.sync_log()?; // I15
        let mut edit = Edit::default();
        edit.changes.push(Change::FamilyCreated {
            id,
            name: name.to_owned(),
            comparator: options.order.name().to_owned(),
            options: version::family::encode(&options),
        });
        // Shown only when it is durable: else a synced commit could name a family that a crash forgets.
        self.install(edit, None)?;
        self.families.store(Arc::new(families));
        Ok(family)
    }

    fn drop_family(&self, name: &str) -> Result<()> {
        let mut families = (**self.families()).clone();
        let Some(family) = families.named(name).cloned() else {
            return Err(Error::invalid(format!("there is no family {name:?}")));
        };
        self.sync_log()?; // I15
        let mut edit = Edit::default();
        edit.changes.push(Change::FamilyDropped { id: family.id() });
        // Marked first: a compaction that finishes now finds the mark under the manifest's lock and adds nothing.
        family.set_dropped(true);
        if let Err(error) = self.install(edit, None) {
            family.set_dropped(false);
            return Err(error);
        }
        families.by_id.remove(&family.id());
        self.families.store(Arc::new(families));
        family.view().levels.iter().flat_map(|level| level.tables()).for_each(|table| table.retire());
        family.clear(Arc::new(Levels::empty(family.order().clone())));
        self.sweep_dead_files();
        self.revise_stall();
        Ok(())
    }
}
