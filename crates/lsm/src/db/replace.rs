//! Replacement of tables by their remaining records, lost ranges, and quarantine; used by repairs. Each change is one
//! edit.
//!
//! In:     held tables, which no compaction processes meanwhile; the records that replace their contents.
//! Before: the new tables and the directory are synced (I04); the ledger of the new tables matches the caller's (I11).
//! After:  one edit has removed the old tables, added the new ones, and added and removed lost ranges.
//! Crash:  before the edit, unnamed files that the next open removes; after it, the complete change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::background::Lane;
use super::family::Family;
use super::install::Replaced;
use super::quarantine::Item;
use super::{Db, Event, Inner, TableHandle};
use crate::checksum::Uid;
use crate::compaction::output::{Pass, write_pass};
use crate::compaction::{Rules, Span, Splitter};
use crate::cursor::Cursor;
use crate::env::work::lock;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::ledger::Ledger;
use crate::order::Order;
use crate::record::{Record, Seqno};
use crate::seam::{Deed, Emitted, Source};
use crate::values::ValueFile;
use crate::version::{Change, Edit, LEVELS, TableMeta};

/// Tables that no compaction picks until this value is dropped. They stay readable. Closing the store waits for the
/// drop.
pub struct HeldTables<'a> {
    inner: &'a Arc<Inner>,
    family: Family,
    tables: Vec<(usize, Arc<TableHandle>)>,
    span: Option<Span>,
    /// Blob files under collection, whose values are rewritten.
    collects: BTreeSet<Uid>,
    /// Blob files kept alive until the edit.
    keeps: Vec<Arc<ValueFile>>,
}

/// The contents that replace held tables.
pub struct Replacement<'a> {
    /// The remaining records, in internal order, with keys within the bounds of the removed tables; `None` leaves no
    /// record.
    pub records: Option<&'a mut dyn Cursor>,
    /// Counts and sums of these records, computed by the caller.
    pub expected: Ledger,
    /// True if `expected` has sums; otherwise only counts are compared.
    pub summed: bool,
    /// At or below every seqno of the records, except 0.
    pub base_seqno: Seqno,
    /// Key ranges whose records are permanently lost.
    pub fenced: Vec<Fence>,
    /// Numbers of the lost ranges to remove.
    pub lifted: Vec<u64>,
}

impl Db {
    /// Keeps tables of a family, quarantined ones included, out of every compaction until the returned value is
    /// dropped. Waits for running compactions of these tables. Returns `None` if a table is missing.
    pub fn hold_tables(&self, family: &Family, tables: &[u64]) -> Result<Option<HeldTables<'_>>> {
        loop {
            let (inner, _) = self.writable()?; // each time: a closing store holds no more tables
            let (mut held, seen) = (None, inner.compactions.finished()); // first: a later release is a change
            let free = inner.compactions.hold(tables, || {
                held = Some(HeldTables::find(inner, family, tables));
                let span = held.as_ref().and_then(|held| held.as_ref()).and_then(|held| held.span.clone());
                span.map(|span| (family.id(), span))
            });
            match (free, held) {
                (true, Some(found)) => return Ok(found),
                _ => {
                    inner.wait_for_others(|| inner.compactions.finished() != seen || !inner.compactions.is_running())?
                }
            }
        }
    }

    /// Returns the lost ranges of a family, each with its number.
    pub fn fences(&self, family: &Family) -> Vec<(u64, Fence)> {
        let view = family.view();
        view.fence_ids.iter().copied().zip(view.fences.iter().cloned()).collect()
    }

    /// Removes lost ranges: reads of these keys return the remaining records again. Fails with `Invalid` if a number
    /// does not exist.
    pub fn lift_fences(&self, family: &Family, fences: &[u64]) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.change_fences(family, fences.to_vec(), Vec::new())
    }

    /// Adds lost ranges: from now on reads of these keys fail with `Corruption`, also after reopens and compactions.
    pub fn add_fences(&self, family: &Family, fences: Vec<Fence>) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.change_fences(family, Vec::new(), fences)
    }

    /// Removes lost ranges and adds others, in one edit.
    pub fn replace_fences(&self, family: &Family, lifted: &[u64], fenced: Vec<Fence>) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.change_fences(family, lifted.to_vec(), fenced)
    }

    /// Returns the numbers of the family's quarantined tables, which compactions skip.
    pub fn barred_tables(&self, family: &Family) -> Vec<u64> {
        let view = family.pinned_view();
        let numbers = view.levels.iter().flat_map(|level| level.tables()).map(|table| table.meta().number);
        numbers.filter(|number| self.inner().compactions.bars_any([*number].into_iter())).collect()
    }

    /// Quarantines tables: compactions skip them until they are replaced or freed, also after a reopen. Waits for
    /// running compactions of these tables. A caller that holds the tables itself uses `HeldTables::bar`.
    pub fn bar_tables(&self, family: &Family, tables: &[u64]) -> Result<()> {
        match self.hold_tables(family, tables)? {
            Some(held) => held.bar(), // held: a concurrent move would lift the quarantine
            None => Err(Error::invalid("a table that is to be barred is not there")),
        }
    }

    /// Ends the quarantine of tables, so that compactions can pick them again.
    pub fn free_tables(&self, family: &Family, tables: &[u64]) -> Result<()> {
        let held = self.hold_tables(family, tables)?;
        let held = held.ok_or_else(|| Error::invalid("a table that is to be freed is not there"))?;
        held.free()
    }
}

impl<'a> HeldTables<'a> {
    fn find(inner: &'a Arc<Inner>, family: &Family, numbers: &[u64]) -> Option<HeldTables<'a>> {
        let tables = HeldTables::locate(family, numbers)?;
        let span = hull(family.order(), &tables);
        Some(HeldTables { inner, family: family.clone(), tables, span, collects: BTreeSet::new(), keeps: Vec::new() })
    }

    /// Declares blob files under collection: the new tables do not point into them, and the values are rewritten.
    #[must_use]
    pub fn collecting(mut self, values: BTreeSet<Uid>) -> HeldTables<'a> {
        self.collects = values;
        self
    }

    /// Keeps blob files alive, so that the replacement records may point into them.
    #[must_use]
    pub fn keeping(mut self, values: Vec<Arc<ValueFile>>) -> HeldTables<'a> {
        self.keeps = values;
        self
    }

    fn locate(family: &Family, numbers: &[u64]) -> Option<Vec<(usize, Arc<TableHandle>)>> {
        let view = family.view();
        let find = |number: &u64| {
            (0..LEVELS).find_map(|level| view.levels.get(level, *number).map(|table| (level, table.clone())))
        };
        numbers.iter().map(find).collect()
    }

    /// Returns level and metadata of each table, in the requested order.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableMeta>)> {
        self.tables.iter().map(|(level, table)| (*level, table.meta()))
    }

    /// Replaces the tables by `replacement`, in the deepest level of the held tables, and returns the new tables. After
    /// an error the store is unchanged, unless it halted.
    pub fn replace(self, replacement: Replacement<'_>) -> Result<Vec<Arc<TableMeta>>> {
        let (inner, family) = (self.inner, &self.family);
        let Replacement { records, expected, summed, base_seqno, fenced, lifted } = replacement;
        let started = inner.now_nanos();
        let removes: Vec<_> = self.tables.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let written = match (records, &self.span) {
            (Some(records), Some(span)) => {
                self.check_alone(span)?;
                let mut within = Within { records, order: family.order(), span };
                self.write_anew(span.level, &mut within, (expected, summed), base_seqno)?
            }
            (Some(_), None) => return Err(Error::invalid("records in the place of no table")),
            (None, _) if expected != Ledger::default() => {
                return Err(Error::invalid("a ledger of records that are not given"));
            }
            (None, _) => Vec::new(),
        };
        let written: Vec<_> = written.into_iter().map(Arc::new).collect();
        let level = self.span.as_ref().map_or(0, |span| span.level);
        let adds = written.iter().map(|meta| (level, meta.clone())).collect();
        let replaced = Replaced::tables(family, removes, adds);
        inner.exchange_fenced(replaced, (lifted, fenced), Some(Deed::Replaced), started)?;
        Ok(written)
    }

    /// Quarantines the tables: compactions skip them until they are replaced or freed, even after they are released or
    /// the store is reopened.
    pub fn bar(&self) -> Result<()> {
        let numbers: Vec<u64> = self.tables.iter().map(|(_, table)| table.meta().number).collect();
        self.inner.bar_tables(&self.family, &numbers)
    }

    /// Ends the quarantine of the tables; the edit removes each table and adds it again.
    pub fn free(self) -> Result<()> {
        let removes = self.tables.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let adds = self.tables.iter().map(|(level, table)| (*level, table.meta().clone())).collect();
        let (replaced, started) = (Replaced::tables(&self.family, removes, adds), self.inner.now_nanos());
        self.inner.exchange_fenced(replaced, (Vec::new(), Vec::new()), Some(Deed::Freed), started)
    }

    /// Writes all records of a cursor to tables of a level, synced but not yet named by an edit.
    fn write_anew(
        &self,
        level: usize,
        records: &mut dyn Cursor,
        counted: (Ledger, bool),
        base_seqno: Seqno,
    ) -> Result<Vec<TableMeta>> {
        let (inner, family) = (self.inner, &self.family);
        let next_file = || inner.new_file_number();
        let mut job = inner.pass_over(family, level, base_seqno, counted, &next_file);
        // Reuse a readable dictionary of the old tables: the remaining records offer no better training data.
        job.dictionary = self.tables.iter().find_map(|(_, table)| table.table().ok()?.dictionary());
        let rules = Rules::new(family.order().clone(), Vec::new(), |_: &[u8]| false).keeping_all();
        let table_bytes = if level == 0 { u64::MAX } else { family.options().table_bytes };
        let splitter = Splitter::new(family.order().clone(), table_bytes, Vec::new());
        let pass = Pass { collects: self.collects.clone(), ..Pass::default() };
        let written = write_pass(&job, &pass, records, rules, splitter)?;
        inner.sync_dir_before_edit()?;
        Ok(written.tables)
    }

    /// Checks I05: records that move to another level, or merge into one table, must not pass versions of other tables
    /// in between, nor overlap tables that stay. A single table that keeps its place cannot do either.
    fn check_alone(&self, span: &Span) -> Result<()> {
        if self.tables.len() == 1 {
            return Ok(());
        }
        let view = self.family.view();
        let first = self.tables.iter().map(|(level, _)| *level).min().unwrap_or(0);
        let overlap = |level| view.levels.overlapping(level, Some(&span.smallest), Some(&span.largest));
        let number = |table: &Arc<TableHandle>| table.meta().number;
        let is_held = |table: &Arc<TableHandle>| self.tables.iter().any(|(_, held)| number(held) == number(table));
        match (first..=span.level).flat_map(overlap).all(is_held) {
            true => Ok(()),
            false => Err(Error::invalid("the tables to be replaced reach over others between them")),
        }
    }
}

impl Drop for HeldTables<'_> {
    fn drop(&mut self) {
        let span = self.span.as_ref().map(|span| (self.family.id(), span));
        self.inner.compactions.release(self.tables.iter().map(|(_, table)| table.meta().number), span);
        self.tables.clear(); // possibly the last references to obsolete files
        self.keeps.clear();
        self.inner.background.changed();
        self.inner.background.kick(Lane::Compact); // which may have found them taken
        self.inner.sweep_dead_files();
    }
}

impl Inner {
    /// Quarantines tables, in memory and in the manifest, and reports it.
    pub(super) fn bar_tables(&self, family: &Family, numbers: &[u64]) -> Result<()> {
        // Checked against the manifest, because memory may quarantine tables whose edit failed.
        let is_known = |number: &u64| {
            let manifest = lock(&self.manifest);
            let stored = manifest.as_ref().and_then(|manifest| manifest.state().families.get(&family.id()));
            stored.is_some_and(|family| family.barred.contains(number))
        };
        let new: Vec<u64> = numbers.iter().copied().filter(|number| !is_known(number)).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.compactions.bar(new.iter().copied());
        self.revise_stall();
        let bar = |number: &u64| Change::TableBarred { family: family.id(), number: *number };
        let mut edit = Edit::from(new.iter().map(bar).collect::<Vec<_>>());
        let level_of = |number: &u64| {
            let view = family.view();
            (0..LEVELS).find(|level| view.levels.get(*level, *number).is_some()).map(|level| (level, *number))
        };
        let concerned = Replaced::tables(family, new.iter().filter_map(level_of).collect(), Vec::new());
        let row = |table| self.quarantine_row(family, Item::Table(table), true, "barred");
        let received = self.write_quarantine(concerned.removes.iter().filter_map(row).collect());
        let of_rows = || received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables));
        let parts: Vec<_> = of_rows().collect();
        edit.changes.extend(parts.iter().flat_map(Replaced::changes));
        let told: Vec<_> = [concerned].into_iter().chain(of_rows()).collect();
        self.tell(&mut edit, Deed::Barred, &told, None, self.now_nanos());
        let outcome = self.install(edit, parts);
        for number in new {
            self.say(Event::Barred { family: family.name().to_owned(), table: number });
        }
        self.background.kick(Lane::Compact); // which writes the rows
        outcome
    }

    fn change_fences(&self, family: &Family, lifted: Vec<u64>, fenced: Vec<Fence>) -> Result<()> {
        let nothing = Replaced::tables(family, Vec::new(), Vec::new());
        self.exchange_fenced(nothing, (lifted, fenced), None, self.now_nanos())
    }

    /// Changes tables and lost ranges in one edit, then reports the lost ranges to the listener.
    fn exchange_fenced(
        &self,
        replaced: Replaced<'_>,
        (lifted, fenced): (Vec<u64>, Vec<Fence>),
        deed: Option<Deed<'_>>,
        started: u64,
    ) -> Result<()> {
        let family = replaced.family;
        let view = family.pinned_view();
        let fenced: Vec<_> = fenced.into_iter().map(|fence| (self.new_file_number(), Arc::new(fence))).collect();
        let replaced = Replaced { lifted: lifted.clone(), fenced: fenced.clone(), ..replaced };
        let ended: Vec<_> = view.fence_ids.iter().zip(&*view.fences).filter(|(id, _)| lifted.contains(id)).collect();
        let rows = self.quarantine_rows(&replaced, &ended, deed);
        let received = self.write_quarantine(rows);
        let beside = received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables));
        let parts: Vec<_> = [replaced].into_iter().chain(beside).collect();
        let mut edit = Edit::from(parts.iter().flat_map(Replaced::changes).collect::<Vec<_>>());
        let begun = fenced.iter().map(|(_, fence)| Deed::Fenced(fence));
        let over = ended.iter().map(|(_, fence)| Deed::Lifted(fence));
        // All tables of the edit belong to the first entry; the other entries concern only the family.
        let (mut told, family_alone) = (&parts[..], [Replaced::tables(family, Vec::new(), Vec::new())]);
        for deed in deed.into_iter().chain(begun).chain(over) {
            self.tell(&mut edit, deed, told, None, started);
            told = &family_alone;
        }
        self.install(edit, parts)?;
        let name = || family.name().to_owned();
        for (_, fence) in fenced {
            self.say(Event::Fenced { family: name(), fence: (*fence).clone() });
        }
        ended.iter().for_each(|(_, fence)| self.say(Event::Lifted { family: name(), fence: (*fence).clone() }));
        self.revise_stall();
        self.background.kick(Lane::Compact);
        Ok(())
    }

    /// Returns the rows for replaced tables, tables freed from quarantine, and lost ranges added or removed.
    fn quarantine_rows(
        &self,
        replaced: &Replaced<'_>,
        ended: &[(&u64, &Fence)],
        deed: Option<Deed<'_>>,
    ) -> Vec<Emitted> {
        let row = |item, begins, how| self.quarantine_row(replaced.family, item, begins, how);
        let gone = |how| move |table| row(Item::Table(table), false, how);
        let tables: Vec<_> = match deed {
            Some(Deed::Freed) => self.barred_of(&replaced.removes).filter_map(gone("freed")).collect(),
            _ => replaced.removes.iter().filter_map(gone("replaced")).collect(),
        };
        let begun = replaced.fenced.iter().filter_map(|(id, fence)| row(Item::Span(*id, fence), true, "fenced"));
        let over = ended.iter().filter_map(|(id, fence)| row(Item::Span(**id, fence), false, "lifted"));
        tables.into_iter().chain(begun).chain(over).collect()
    }
}

/// Returns the key span of the tables, in the deepest of their levels.
fn hull(order: &Order, tables: &[(usize, Arc<TableHandle>)]) -> Option<Span> {
    let level = tables.iter().map(|(level, _)| *level).max()?;
    let metas = || tables.iter().map(|(_, table)| table.meta());
    let smallest = metas().map(|meta| &meta.smallest).min_by(|a, b| order.compare(a, b))?;
    let largest = metas().map(|meta| &meta.largest).max_by(|a, b| order.compare(a, b))?;
    Some(Span { level, smallest: smallest.clone(), largest: largest.clone() })
}

/// A cursor that rejects keys outside a span.
struct Within<'a> {
    records: &'a mut dyn Cursor,
    order: &'a Order,
    span: &'a Span,
}

impl Within<'_> {
    fn checked(&self, moved: Result<()>) -> Result<()> {
        moved?;
        if !self.records.valid() {
            return Ok(());
        }
        let key = self.records.record().key;
        let inside =
            self.order.compare(&self.span.smallest, key).is_le() && self.order.compare(key, &self.span.largest).is_le();
        if inside { Ok(()) } else { Err(Error::invalid("a record outside of the tables that it replaces")) }
    }
}

impl Cursor for Within<'_> {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.records.seek(key, seqno);
        self.checked(moved)
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.records.seek_for_prev(key, seqno);
        self.checked(moved)
    }
    fn first(&mut self) -> Result<()> {
        let moved = self.records.first();
        self.checked(moved)
    }
    fn last(&mut self) -> Result<()> {
        let moved = self.records.last();
        self.checked(moved)
    }
    fn next(&mut self) -> Result<()> {
        let moved = self.records.next();
        self.checked(moved)
    }
    fn prev(&mut self) -> Result<()> {
        let moved = self.records.prev();
        self.checked(moved)
    }
    fn valid(&self) -> bool {
        self.records.valid()
    }
    fn record(&self) -> Record<'_> {
        self.records.record()
    }
    fn source(&self) -> Source<'_> {
        self.records.source()
    }
}

impl std::fmt::Debug for HeldTables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldTables").field("family", &self.family).field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Replacement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replacement").field("expected", &self.expected).finish_non_exhaustive()
    }
}
