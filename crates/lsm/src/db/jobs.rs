//! Jobs: one flush, one compaction. Each writes tables, makes them durable, names them in one edit, and only then swaps views.
//!
//! Flush:      frozen memtables -> one table of level 0. Before: the log is durable through what the table makes permanent (I15).
//! Compaction: tables of two levels -> tables of the lower one, or a table moved without being read.
//! Crash:      before the edit, unnamed files that the next open sweeps; after it, everything.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use super::background::Lane;
use super::commit::Moment;
use super::family::{Family, Generation};
use super::reads::{Bounds, LevelPart};
use super::running::Taken;
use super::{Db, Event, Inner, Levels, TableHandle};
use crate::compaction::output::{Job, write_tables};
use crate::compaction::pick::{self, Picture, Shape, Span, Step};
use crate::compaction::{Action, Limits, Plan, Rules, Splitter, Stall, debt};
use crate::cursor::Cursor;
use crate::env::Env;
use crate::env::work::lock;
use crate::error::{Error, IoContext, Result, Verdict};
use crate::ledger::Ledger;
use crate::merge::{ConcatCursor, MergeCursor};
use crate::names::Name;
use crate::options::{CfOptions, Compression};
use crate::planted::{self, Bug};
use crate::record::Seqno;
use crate::seam::Companions;
use crate::version::{Change, Edit, LEVELS, TableMeta};

/// The levels that stay uncompressed: data passes through them soon.
const HOT_LEVELS: usize = 2;

/// Frozen memtables at most; with so many, a full active one stops writers.
const FROZEN_MEMTABLES: usize = 2;

impl Db {
    /// Writes all memtables to tables and waits until they are durable.
    pub fn flush(&self) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.flush_all(|_| true).map(|_| ())
    }

    /// Flushes, then compacts until no compaction is due.
    pub fn settle(&self) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.flush_all(|_| true)?;
        loop {
            match inner.compact_step()? {
                true => {}
                false if inner.compactions.is_running() => {
                    let seen = inner.compactions.finished();
                    inner.wait_until(Lane::Compact, || inner.compactions.finished() != seen)?;
                }
                false => return Ok(()),
            }
        }
    }

    /// Flushes, then merges everything within bounds down to the lowest level that holds data.
    pub fn compact(&self, family: &Family, bounds: &Bounds) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.flush_all(|other| other == family)?;
        inner.compact_range(family, bounds)
    }
}

impl Inner {
    /// Waits for its turn to flush, create, drop or copy; `Closed` if the store closed meanwhile.
    pub(super) fn job(&self) -> Result<MutexGuard<'_, ()>> {
        let turn = lock(&self.jobs_lock);
        if self.background.is_stopping() { Err(Error::closed()) } else { Ok(turn) }
    }

    /// True if a frozen memtable waits.
    pub(crate) fn flush_is_due(&self) -> bool {
        self.families().by_id.values().any(|family| !family.view().frozen.is_empty())
    }

    /// Freezes the memtables of the chosen families at one commit and flushes them.
    pub(crate) fn flush_all(&self, choose: impl Fn(&Family) -> bool) -> Result<Seqno> {
        let _job = self.job()?;
        let through = self.freeze(&choose)?;
        self.flush_frozen(&choose, through)?;
        Ok(through)
    }

    /// The flush lane: everything frozen, of all families.
    pub(crate) fn flush_step(&self) -> Result<bool> {
        if !self.flush_is_due() {
            return Ok(false);
        }
        let _job = self.job()?;
        self.flush_frozen(&|_| true, Seqno::MAX)
    }

    /// Flushes the memtables of the chosen families that were frozen at commits up to `through`; the caller holds `jobs_lock`.
    /// Writers go on and freeze more meanwhile: with that a checkpoint would hold another moment of each family.
    pub(super) fn flush_frozen(&self, choose: &dyn Fn(&Family) -> bool, through: Seqno) -> Result<bool> {
        let families: Vec<Family> = self.families().by_id.values().filter(|family| choose(family)).cloned().collect();
        let mut any = false;
        for family in families {
            let view = family.pinned_view();
            let newer = view.frozen.iter().take_while(|generation| generation.through() > through).count();
            if newer < view.frozen.len() {
                self.flush_family(&family, &view.frozen[newer..])?;
                any = true;
            }
        }
        Ok(any)
    }

    fn flush_family(&self, family: &Family, frozen: &[Arc<Generation>]) -> Result<()> {
        let Some(through) = frozen.iter().map(|generation| generation.through()).max() else { return Ok(()) };
        let moment = match planted::active(Bug::LogNotSyncedBeforeEdit) {
            false => self.sync_log()?, // I15
            true => Moment { offset: 0, seqno: 0 },
        };
        let level0 = Level0 {
            env: &self.env,
            dir: &self.dir,
            companions: &self.companions,
            next_file: &|| self.new_file_number(),
            cancelled: &self.background.stopping,
            snapshots: self.snapshots.boundaries(),
        };
        let added = write_level0(&level0, family, frozen)?;
        self.sync_dir_before_edit()?;
        let table = added.first().map(|meta| meta.number);
        let bytes = added.iter().map(|meta| meta.size).sum();
        let mut edit = Edit::default();
        edit.changes.extend(added.iter().map(|meta| added_to(family, 0, meta)));
        let flushed = if planted::active(Bug::FlushedSeqnoTooHigh) { self.visible() } else { through };
        edit.changes.push(Change::Flushed { family: family.id(), seqno: flushed });
        let retirable = self.log_changes(&mut edit, moment, Some((family, through)));
        let adds = added.into_iter().map(|meta| (0, Arc::new(meta))).collect();
        self.install(edit, Some(Replaced { family, removes: Vec::new(), adds, flushed: Some(through) }))?;
        self.retire_log(retirable);
        self.counters.flushed(bytes);
        self.revise_stall();
        self.background.kick(Lane::Compact);
        self.listener.on_event(&Event::Flushed { family: family.name().to_owned(), table, bytes });
        Ok(())
    }

    fn sync_dir_before_edit(&self) -> Result<()> {
        if planted::active(Bug::EditBeforeDirectorySync) {
            return Ok(());
        }
        self.env.fs.sync_dir(&self.dir).during(|| "syncing the store's directory")
    }

    /// Makes an edit durable, then shows it to readers (I04). Edits and views change in the same order. If the edit is refused,
    /// the files that it would have named are removed, unless it may have reached the disk all the same.
    pub(super) fn install(&self, mut edit: Edit, replaced: Option<Replaced<'_>>) -> Result<()> {
        let mut guard = lock(&self.manifest);
        let Some(manifest) = guard.as_mut() else { return Err(Error::closed()) };
        let outcome = self.check_halted().and_then(|()| match &replaced {
            Some(replaced) if replaced.family.is_dropped() => Err(Error::invalid("the family was dropped meanwhile")),
            _ => Ok(()),
        });
        let outcome = outcome.and_then(|()| {
            let created = edit.changes.iter().filter_map(|change| match change {
                Change::FamilyCreated { id, .. } => Some(id + 1),
                _ => None,
            });
            edit.changes.push(Change::Counters {
                next_family: created.max().unwrap_or(self.families().next_id),
                next_file: self.next_file.load(Ordering::Relaxed),
                last_seqno: self.visible(),
            });
            manifest.append(&edit)
        });
        if let Err(error) = outcome {
            if manifest.has_ended() {
                self.halt(&error);
            } else if let Some(replaced) = &replaced {
                self.remove_unnamed(replaced);
            }
            return Err(error);
        }
        if let Some(replaced) = &replaced {
            self.show(replaced)?;
        }
        if manifest.is_full(self.settings.manifest_bytes) {
            match manifest.rotate(self.new_file_number()) {
                Ok(()) => self.counters.rotated(),
                Err(error) if manifest.has_ended() => self.halt(&error),
                Err(_) => {} // no room for a fresh one: the old one goes on
            }
        }
        drop(guard);
        self.sweep_dead_files();
        Ok(())
    }

    /// Swaps the view of a family to what the manifest now says.
    fn show(&self, replaced: &Replaced<'_>) -> Result<()> {
        let family = replaced.family;
        let view = family.pinned_view();
        // A table that only moves keeps its handle, and with it its open file and cached blocks.
        let handle_of = |meta: &Arc<TableMeta>| {
            let moved = replaced.removes.iter().find(|(_, number)| *number == meta.number);
            let handle = moved.and_then(|(level, number)| view.levels.get(*level, *number).cloned());
            handle.unwrap_or_else(|| TableHandle::new(meta.clone(), family.shelf().clone()))
        };
        let adds: Vec<_> = replaced.adds.iter().map(|(level, meta)| (*level, handle_of(meta))).collect();
        let levels = view.levels.apply(&replaced.removes, &adds)?;
        for (level, number) in &replaced.removes {
            if !replaced.adds.iter().any(|(_, meta)| meta.number == *number)
                && let Some(gone) = view.levels.get(*level, *number)
            {
                gone.retire();
            }
        }
        family.install(Arc::new(levels), replaced.flushed);
        Ok(())
    }

    fn remove_unnamed(&self, replaced: &Replaced<'_>) {
        for (_, meta) in &replaced.adds {
            if !replaced.removes.iter().any(|(_, number)| *number == meta.number) {
                let _ = self.env.fs.remove(&self.path(Name::Table(meta.number)));
            }
        }
    }

    /// Compacts once, if something is due, or else where tombstones are dense.
    pub(crate) fn compact_step(&self) -> Result<bool> {
        if self.check_halted().is_err() {
            return Ok(false);
        }
        if self.background.is_stopping() {
            return Err(Error::closed());
        }
        match self.compactions.pick(|taken| self.most_urgent(taken)) {
            Some((family, plan)) => {
                self.background.kick(Lane::Compact); // another thread may find something beside this
                self.carry_out(&family, &plan).map(|()| true)
            }
            None => Ok(false),
        }
    }

    fn carry_out(&self, family: &Family, plan: &Plan) -> Result<()> {
        let outcome = self.run_plan(family, plan);
        self.compactions.done(family, plan);
        self.background.changed();
        self.sweep_dead_files(); // the inputs were held until now
        outcome
    }

    /// The plan of the family whose fullest level is fullest.
    fn most_urgent(&self, taken: &Taken<'_>) -> Option<(Family, Plan)> {
        let oldest = self.snapshots.boundaries().first().copied();
        let plan = |family: &Family, pick: fn(&Picture<'_>) -> Option<Plan>| {
            let (view, spans) = (family.view(), taken.spans(family.id()));
            pick(&picture(family, &view.levels, &spans, oldest, taken)).map(|plan| (family.clone(), plan))
        };
        let families = self.families();
        let due = families.by_id.values().filter_map(|family| plan(family, pick::pick));
        let due = due.max_by_key(|(_, plan)| plan.score);
        due.or_else(|| families.by_id.values().find_map(|family| plan(family, pick::pick_idle)))
    }

    fn compact_range(&self, family: &Family, bounds: &Bounds) -> Result<()> {
        let (low, high) = (bound_key(&bounds.0), bound_key(&bounds.1));
        let newest = self.next_file.load(Ordering::Relaxed);
        for level in 0..LEVELS {
            loop {
                if self.background.is_stopping() {
                    return Err(Error::closed());
                }
                let mut step = Step::Done;
                let planned = self.compactions.pick(|taken| {
                    let (view, spans) = (family.view(), taken.spans(family.id()));
                    let oldest = self.snapshots.boundaries().first().copied();
                    let picture = picture(family, &view.levels, &spans, oldest, taken);
                    step = pick::plan_range(&picture, level, low, high, newest);
                    match &step {
                        Step::Run(plan) => Some((family.clone(), plan.clone())),
                        Step::Wait | Step::Done => None,
                    }
                });
                match (planned, step) {
                    (Some((family, plan)), _) => self.carry_out(&family, &plan)?,
                    (None, Step::Wait) if self.compactions.is_running() => {
                        let seen = self.compactions.finished();
                        self.wait_until(Lane::Compact, || self.compactions.finished() != seen)?;
                    }
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn run_plan(&self, family: &Family, plan: &Plan) -> Result<()> {
        let view = family.pinned_view();
        let inputs = find_inputs(&view.levels, plan);
        if family.is_dropped() || inputs.len() != plan.inputs.iter().map(|(_, numbers)| numbers.len()).sum::<usize>() {
            return Ok(()); // dropped meanwhile
        }
        let outcome = match plan.action {
            Action::Move => self.move_tables(family, plan, &inputs),
            Action::Merge => self.merge_tables(family, plan, &view.levels, &inputs),
        };
        if family.is_dropped() {
            return Ok(()); // while it was compacted: nothing is left to be done, and nothing failed
        }
        if let Err(error) = &outcome
            && error.is_corruption()
        {
            // A damaged input stays as it is, out of the picker's sight; what it does not cover goes on.
            self.compactions.bar(inputs.iter().map(|(_, table)| table.meta().number));
            self.listener.on_event(&Event::Corruption { error: error.clone().in_family(family.name(), None) });
            self.revise_stall();
            return Ok(());
        }
        self.revise_stall();
        outcome
    }

    fn move_tables(&self, family: &Family, plan: &Plan, inputs: &[Input]) -> Result<()> {
        let removes: Vec<_> = inputs.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let adds: Vec<_> = inputs.iter().map(|(_, table)| (plan.output_level, table.meta().clone())).collect();
        let numbers: Vec<u64> = removes.iter().map(|(_, number)| *number).collect();
        self.exchange(family, removes, adds)?;
        self.counters.moved();
        self.tell_compacted(family, numbers.clone(), numbers, plan, true);
        Ok(())
    }

    fn merge_tables(&self, family: &Family, plan: &Plan, levels: &Levels, inputs: &[Input]) -> Result<()> {
        let outputs = match self.merge_once(family, plan, levels, inputs) {
            Err(error) if error.damage().is_some_and(|damage| damage.verdict == Verdict::Ledger) => {
                self.merge_once(family, plan, levels, inputs)? // once more; then the span is barred
            }
            outcome => outcome?,
        };
        let removes: Vec<_> = inputs.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let gone: Vec<u64> = removes.iter().map(|(_, number)| *number).collect();
        let read: u64 = inputs.iter().map(|(_, table)| table.meta().size).sum();
        let written: u64 = outputs.iter().map(|meta| meta.size).sum();
        let numbers = outputs.iter().map(|meta| meta.number).collect();
        let adds = outputs.into_iter().map(|meta| (plan.output_level, Arc::new(meta))).collect();
        self.exchange(family, removes, adds)?;
        self.counters.compacted(read, written);
        self.tell_compacted(family, gone, numbers, plan, false);
        Ok(())
    }

    /// Tables for tables, in one edit.
    fn exchange(&self, family: &Family, removes: Vec<(usize, u64)>, adds: Vec<(usize, Arc<TableMeta>)>) -> Result<()> {
        let mut edit = Edit::default();
        edit.changes.extend(removes.iter().map(|(level, number)| Change::TableRemoved {
            family: family.id(),
            level: *level as u8,
            number: *number,
        }));
        edit.changes.extend(adds.iter().map(|(level, meta)| added_to(family, *level, meta)));
        self.install(edit, Some(Replaced { family, removes, adds, flushed: None }))
    }

    fn merge_once(&self, family: &Family, plan: &Plan, levels: &Levels, inputs: &[Input]) -> Result<Vec<TableMeta>> {
        let mut expected = Ledger::default();
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        for (level, _) in &plan.inputs {
            let tables = inputs.iter().filter(|(of, _)| of == level).map(|(_, table)| table);
            match level {
                0 => {
                    for table in tables {
                        sources.push(Box::new(table.table()?.cursor(false)));
                    }
                }
                _ => {
                    let parts = tables.map(|table| LevelPart { table: table.clone(), fill_cache: false });
                    sources.push(Box::new(ConcatCursor::new(family.order().clone(), parts.collect())));
                }
            }
        }
        let mut summed = true;
        for (_, table) in inputs {
            expected.merge(&table.meta().ledger);
            summed &= table.meta().ledger.has_sums() || table.table()?.properties().protection == 0;
        }
        let base_seqno = inputs.iter().map(|(_, table)| table.meta().least_seqno).min().unwrap_or(0);
        let mut cursor = MergeCursor::new(family.order().clone(), sources);
        let compression = if plan.output_level < HOT_LEVELS { Compression::None } else { family.options().compression };
        let job = Job {
            env: &self.env,
            dir: &self.dir,
            companions: &self.companions,
            family: family.id(),
            options: family.options(),
            compression,
            base_seqno,
            next_file: &|| self.new_file_number(),
            cancelled: &self.background.stopping,
            expected,
            summed,
        };
        let is_bottom = |key: &[u8]| levels.is_bottom_for(plan.output_level, key);
        let rules = Rules::new(family.order().clone(), self.snapshots.boundaries(), is_bottom);
        let below = if plan.output_level + 1 < LEVELS { levels.ends(plan.output_level + 1) } else { Vec::new() };
        let splitter = Splitter::new(family.order().clone(), family.options().table_bytes, below);
        let tables = write_tables(&job, &mut cursor, rules, splitter)?;
        self.sync_dir_before_edit()?;
        Ok(tables)
    }

    fn tell_compacted(&self, family: &Family, inputs: Vec<u64>, outputs: Vec<u64>, plan: &Plan, moved: bool) {
        self.background.kick(Lane::Compact);
        let family = family.name().to_owned();
        self.listener.on_event(&Event::Compacted {
            family,
            inputs,
            outputs,
            level: plan.output_level,
            moved,
            reason: plan.reason,
        });
    }

    /// Decides anew how much writers are held back.
    pub(crate) fn revise_stall(&self) {
        let changed = self.background.decide_stall(|| self.stall_due());
        if let Some(stall) = changed {
            self.listener.on_event(&Event::Stalled { stalled: stall != Stall::Go });
        }
    }

    fn stall_due(&self) -> Stall {
        let families = self.families();
        let worst = families.by_id.values().map(|family| {
            let view = family.view();
            let options = family.options();
            let picture = Picture::new(&view.levels, shape(options), &[], None, |_| false);
            let active = view.active.memtable.bytes() as u64 * 1000 / self.settings.memtable_bytes as u64;
            let limits = Limits::new(options.level0_tables, options.level_base_bytes, FROZEN_MEMTABLES);
            let mut debt = debt::debt(&picture, view.frozen.len(), active);
            // Behind a barred table level 0 grows whatever writers do: to hold them back would end in waiting for ever.
            if self.compactions.bars_any(view.levels.level(0).tables().iter().map(|table| table.meta().number)) {
                debt.level0 = debt.level0.min(limits.level0.0);
            }
            debt::stall(&debt, &limits)
        });
        let price = |stall: &Stall| stall.nanos(1 << 20).unwrap_or(u64::MAX);
        worst.max_by_key(price).unwrap_or(Stall::Go)
    }

    /// Removes the files that no version names any more (I06). One that cannot be removed now is swept at the next open.
    pub(crate) fn sweep_dead_files(&self) {
        for table in self.dead_files.drain() {
            let _ = self.env.fs.remove(&self.path(Name::Table(table.number)));
        }
    }
}

/// What an edit does to one family's view.
pub(super) struct Replaced<'a> {
    pub(super) family: &'a Family,
    /// Tables that go: level and number.
    pub(super) removes: Vec<(usize, u64)>,
    /// Tables that come, with their level.
    pub(super) adds: Vec<(usize, Arc<TableMeta>)>,
    /// Memtables frozen up to here are in tables now.
    pub(super) flushed: Option<Seqno>,
}

/// A table that goes into a compaction, with its level.
type Input = (usize, Arc<TableHandle>);

pub(super) fn added_to(family: &Family, level: usize, meta: &TableMeta) -> Change {
    Change::TableAdded { family: family.id(), level: level as u8, table: Arc::new(meta.clone()) }
}

fn bound_key(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn find_inputs(levels: &Levels, plan: &Plan) -> Vec<Input> {
    let numbers = plan.inputs.iter().flat_map(|(level, numbers)| numbers.iter().map(move |number| (*level, *number)));
    numbers.filter_map(|(level, number)| Some((level, levels.get(level, number)?.clone()))).collect()
}

/// The shape that a family wants. Tables move freely where all levels are packed alike.
pub(super) fn shape(options: &CfOptions) -> Shape {
    Shape::new(options, if options.compression == Compression::None { LEVELS } else { HOT_LEVELS })
}

fn picture<'a>(
    family: &'a Family,
    levels: &'a Levels,
    spans: &'a [Span],
    oldest_snapshot: Option<Seqno>,
    taken: &Taken<'_>,
) -> Picture<'a> {
    Picture::new(levels, shape(family.options()), spans, oldest_snapshot, |number| taken.is_busy(number))
}

/// What a flush needs to know; also used by recovery, before there is a store.
pub(super) struct Level0<'a> {
    pub(super) env: &'a Env,
    pub(super) dir: &'a Path,
    pub(super) companions: &'a Arc<dyn Companions>,
    pub(super) next_file: &'a dyn Fn() -> u64,
    pub(super) cancelled: &'a AtomicBool,
    pub(super) snapshots: Vec<Seqno>,
}

/// The records of frozen memtables as a table of level 0, synced but not named yet.
pub(super) fn write_level0(level0: &Level0<'_>, family: &Family, frozen: &[Arc<Generation>]) -> Result<Vec<TableMeta>> {
    let mut expected = Ledger::default();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for generation in frozen {
        expected.merge(&generation.memtable.ledger());
        sources.push(Box::new(generation.memtable.cursor()));
    }
    let base_seqno = frozen.iter().filter_map(|generation| generation.memtable.least_seqno()).min().unwrap_or(0);
    let mut cursor = MergeCursor::new(family.order().clone(), sources);
    let job = Job {
        env: level0.env,
        dir: level0.dir,
        companions: level0.companions,
        family: family.id(),
        options: family.options(),
        compression: Compression::None,
        base_seqno,
        next_file: level0.next_file,
        cancelled: level0.cancelled,
        expected,
        summed: true,
    };
    let rules = Rules::new(family.order().clone(), level0.snapshots.clone(), |_: &[u8]| false);
    let splitter = Splitter::new(family.order().clone(), u64::MAX, Vec::new());
    write_tables(&job, &mut cursor, rules, splitter)
}
