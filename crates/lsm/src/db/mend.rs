//! The tools of a repair that rewrites the records of a damaged table into a new one.
//!
//! Before: the table is held, so that no compaction processes it (`hold_tables`); its records were read, in order, from
//!         all places that still have them.
//! After:  one edit has replaced it by a table of these records, with lost ranges for missing ones.
//! Crash:  the damaged table, or the new one.

use super::Db;
use super::examine::TableRef;
use crate::env::{Open, read_into};
use crate::error::{IoContext, Result};
use crate::names::Name;
use crate::options::MIB;

impl Db {
    /// Keeps the file of a table under another name (`000012.damaged`), which only `destroy` removes; returns the name.
    pub fn keep_damaged(&self, table: &TableRef) -> Result<String> {
        let (inner, _) = self.writable()?;
        let fs = &inner.env.fs;
        let (from, kept) = (Name::Table(table.meta().number), Name::Damaged(table.meta().number));
        let (source, copy) = (inner.path(from), inner.path(kept));
        if !fs.exists(&copy).during(|| format!("looking for {kept}"))? && fs.link(&source, &copy).is_err() {
            let source = fs.open(&source, Open::Read).during(|| format!("opening {from}"))?;
            let length = source.len().during(|| format!("asking for the length of {from}"))?;
            let target = fs.open(&copy, Open::Create).during(|| format!("creating {kept}"))?;
            let mut buffer = vec![0; MIB];
            let mut at = 0;
            while at < length {
                let part = (length - at).min(MIB as u64) as usize;
                if read_into(&*source, at, &mut buffer[..part]).is_err() {
                    buffer[..part].fill(0); // an unreadable page
                }
                target.write_at(&buffer[..part], at).during(|| format!("writing {kept}"))?;
                at += part as u64;
            }
            target.sync_data().during(|| format!("syncing {kept}"))?;
        }
        inner.sync_dir_before_edit()?;
        Ok(kept.to_string())
    }
}
