//! Runs compactions: merges tables of two levels into the lower one, or moves a table down without reading it.
//!
//! The plan comes from `compaction::pick`, the merge is `compaction::output`. Damaged inputs are quarantined; other
//! compactions continue.
//! Crash: before the edit, unnamed files that the next open removes; after it, the complete change.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::expire::{self, is_in_memory};
use super::job_lock::Flusher;
use super::newer_versions;
use super::pick_cache::{Basis, Pick, PickCache, Urgency};
use super::prepopulate::{Input, Prepopulation};
use super::quarantine::quarantine_tables;
use super::range_deletes::{RetiredRanges, retire_range_deletes};
use crate::checksum::Uid;
use crate::compaction::blob_gc::GcPolicy;
use crate::compaction::output::{
    CompactionJob, ExpiryRule, FilterCounts, FilterRule, MergeRule, PassOptions, PassResult,
};
use crate::compaction::packing;
use crate::compaction::parts::{CompactionPart, write_parts};
use crate::compaction::pick::{self, BOTTOM, LevelSummary, OutputRange, RangeStep};
use crate::compaction::{
    CompactionPlan, IoPriority, PlanAction, RangeDeleted, Reason, Rules, Splitter, blob_gc, expired, range_deleted,
    space_compaction, split,
};
use crate::compaction_filter::CompactionFilter;
use crate::cursor::Cursor;
use crate::db::catalog::Catalog;
use crate::db::catalog::claims::{Picked, Taken};
use crate::db::catalog::view_change::Replaced;
use crate::db::notify::events::Event;
use crate::db::notify::lanes::{Lane, LaneSignals};
use crate::db::notify::notifier::Notifier;
use crate::db::state::context::{StoreContext, reach};
use crate::db::state::family::{Family, TableHandle, TableLevels, View};
use crate::db::state::snapshot::Horizon;
use crate::db::state::store_log::StoreLog;
use crate::db::writes::memory::{job_room, training_room};
use crate::db::writes::write_path::WritePath;
use crate::env::work::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;
use crate::lost_range::LostRange;
use crate::merge::{self, ConcatCursor, merged};
use crate::names::StoreFileName;
use crate::options::Compression;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::range_index::RangeIndex;
use crate::read::CursorBounds;
use crate::record::{MAX_SEQNO, Seqno};
use crate::seam::EngineEvent;
use crate::sst::{CompanionSummary, train_for};
use crate::version::{Edit, EditChange, LEVELS, TableMeta};

/// Debug builds recompute each pick and compare it with the cached one, in stores with at most this many families.
const MOST_CHECKED: usize = 64;

/// The outcome of one step of a compaction that a caller asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// A plan was carried out, or other compactions were waited for.
    Again,
    /// Nothing is left to do.
    Done,
    /// The next plan needs a table that is left alone, and no compaction runs that could change this.
    Blocked,
}

/// Merges and drops tables. Contains the flusher.
pub(crate) struct Compactor {
    pub(in crate::db) flusher: Flusher,
    /// The next compaction of each family, as the compaction lane last computed it.
    pub(in crate::db) picks: Mutex<PickCache>,
    /// Held while range deletes are retired.
    pub(in crate::db) retiring: Mutex<RetiredRanges>,
}

reach!(
    Compactor, flusher: write_path -> WritePath, catalog -> Catalog, store_log -> StoreLog, context -> StoreContext,
    notifier -> Notifier, lanes -> LaneSignals
);

impl Compactor {
    #[inline]
    pub(in crate::db) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    /// Flushes all memtables, then compacts until no compaction is due and nothing holds excess data. Finally releases
    /// the log's unneeded disk space.
    pub(in crate::db) fn settle(&self, step: &dyn Fn() -> bool) -> Result<()> {
        self.flusher().flush_all(|_| true)?;
        let (newest, picks) = (self.catalog().next_file.load(Ordering::Relaxed), Mutex::default());
        loop {
            let seen = self.catalog().claims.finished();
            match self.compact_once(Some(newest), &picks)? {
                true => {}
                false if self.catalog().claims.is_running() || self.catalog().claims.finished() != seen => {
                    self.store_log().wait_for_compactions(step, || self.catalog().claims.finished() != seen)?;
                }
                false => break,
            }
        }
        let _job = self.flusher().job()?;
        let trimmed = self.write_path().trim_log();
        self.catalog().remove_obsolete_files(); // whose last holder may have been a flush
        match trimmed {
            Err(error) if self.store_log().check_halted().is_err() => Err(error),
            _ => Ok(()), // if the disk lacks room for it, the log stays as it is
        }
    }

    /// Performs the most urgent compaction. If none is due, merges tables dense with tombstones.
    pub(crate) fn compact_step(&self) -> Result<bool> {
        self.compact_once(None, &self.picks)
    }

    /// Performs one compaction. With `settles` (the next file number when `settle` began), also merges excess data of
    /// the upper levels.
    fn compact_once(&self, settles: Option<u64>, picks: &Mutex<PickCache>) -> Result<bool> {
        if self.store_log().check_halted().is_err() {
            return Ok(false);
        }
        if self.lanes().is_stopping() {
            return Err(Error::closed());
        }
        let retired = retire_range_deletes(self.write_path(), &self.retiring);
        if retired.or_else(|error| self.store_log().halt_if_lost().and(Err(error)))? {
            return Ok(true);
        }
        // An explicit call retries postponed tables at once, however often they have failed.
        let now = if settles.is_some() { u64::MAX } else { self.context().now_nanos() };
        match self.catalog().claims.pick(now, |taken| self.most_urgent(taken, settles, &mut lock(picks))) {
            Some(picked) => {
                self.lanes().kick(Lane::Compact); // another thread may find a concurrent one
                self.carry_out(picked, &BTreeSet::new()).map(|()| true)
            }
            None => Ok(false),
        }
    }

    /// Carries out a plan, and moves the values out of these blob files.
    fn carry_out(&self, picked: Picked<'_>, chosen: &BTreeSet<Uid>) -> Result<()> {
        let outcome = self.run_plan(&picked.family, &picked.plan, chosen);
        self.catalog().remove_obsolete_files(); // held until now; callers that wait for this job find them gone
        drop(picked);
        self.lanes().changed();
        outcome.or_else(|error| self.store_log().halt_if_lost().and(Err(error))).map(|prepopulation| {
            self.lanes().kick(Lane::Compact); // which may have found them taken
            prepopulation.load(self.lanes());
        })
    }

    /// Returns the most urgent plan of all families.
    fn most_urgent(
        &self,
        taken: &Taken<'_>,
        settles: Option<u64>,
        cache: &mut PickCache,
    ) -> Option<(Family, CompactionPlan)> {
        let horizon = self.catalog().snapshots.horizon_now(self.catalog().reads.expiry_clock());
        let families = self.catalog().families();
        let basis = taken.is_steady().then(|| Basis {
            settles,
            oldest_snapshot: horizon.boundaries.first().copied(),
            has_rows: self.context().companions.has_rows(),
            left_alone: taken.changes(),
        });
        cache.begin(basis, families.by_id.size());
        let mut most: Option<(Urgency, &Family)> = None;
        for family in families.by_id.values() {
            // Options that change meanwhile make the pick one of the options before, which is not found again.
            let (options, view) = (family.options(), family.view());
            let look = || self.pick_of(family, &view, &horizon, taken, settles);
            // While one of its plans runs, whichever thread made it, the view does not show the tables' final state.
            let known = if taken.runs_for(family.id()) { None } else { cache.known(family, &view, &options) };
            let urgency = match known {
                Some(known) => {
                    let is_same = || known == look().0.as_ref() || !Arc::ptr_eq(&options, &family.options());
                    debug_assert!(families.by_id.size() > MOST_CHECKED || is_same(), "{family:?}");
                    known.map(|pick| pick.urgency)
                }
                None => {
                    let (pick, depends_on_more) = look();
                    let urgency = pick.as_ref().map(|pick| pick.urgency);
                    cache.keep(family, (&view, &options), pick, depends_on_more);
                    urgency
                }
            };
            if let Some(urgency) = urgency.filter(|urgency| most.is_none_or(|(of_most, _)| *urgency > of_most)) {
                most = Some((urgency, family));
            }
        }
        let (_, family) = most?;
        cache.take(family).map(|plan| (family.clone(), plan))
    }

    /// Returns the next compaction of a family, and whether it depends on more than its view and the `Basis`.
    fn pick_of(
        &self,
        family: &Family,
        view: &View,
        horizon: &Horizon,
        taken: &Taken<'_>,
        settles: Option<u64>,
    ) -> (Option<Pick>, bool) {
        let spans = taken.spans(family.id());
        let summary = self.summary_of(family, view, &spans, horizon, taken);
        let pick_expired = || match settles {
            Some(newest) => expired::pick_any(&summary, newest),
            None => expired::pick_dense(&summary),
        };
        let stale = |reason| pick_stale((family, &view.levels), &summary, taken, reason);
        let ranked = |urgency: Urgency| move |plan| Pick { urgency, plan };
        let pick = expired::pick_drop(&summary).or_else(|| range_deleted::pick_drop(&summary));
        let pick = pick.map(ranked(Urgency::Drop));
        let of_ranges = || match settles {
            Some(newest) => range_deleted::pick_any(&summary, newest),
            None => range_deleted::pick_many(&summary, view.range_deletes.len(), |number| taken.is_kept(number)),
        };
        let pick = pick.or_else(|| {
            let plan = pick::pick(&summary)?;
            Some(Pick { urgency: Urgency::DueEvents(plan.score), plan })
        });
        let pick = pick
            .or_else(|| pick_settling(&summary, &view.levels, settles?, stale).map(ranked(Urgency::Space)))
            .or_else(|| of_ranges().map(ranked(Urgency::Expired)))
            .or_else(|| pick_expired().map(ranked(Urgency::Expired)))
            .or_else(|| stale(Reason::Values).map(ranked(Urgency::Values)))
            .or_else(|| pick::pick_idle(&summary).map(ranked(Urgency::Idle)));
        let may_expire =
            !view.range_deletes.is_empty() || summary.levels.iter().flatten().any(|table| table.expiry.is_some());
        (pick, !spans.is_empty() || may_expire)
    }

    pub(in crate::db) fn compact_range(
        &self,
        family: &Family,
        bounds: &CursorBounds,
        step: &dyn Fn() -> bool,
    ) -> Result<()> {
        let (low, high) = (bound_key(&bounds.0), bound_key(&bounds.1));
        let newest = self.catalog().next_file.load(Ordering::Relaxed);
        for level in 0..LEVELS {
            let hidden = if level == BOTTOM { hidden_at_bottom(&family.view()) } else { HashMap::new() };
            loop {
                if self.lanes().is_stopping() {
                    return Err(Error::closed());
                }
                let turn = self.compact_step_of(family, &BTreeSet::new(), step, &|mut summary, taken, horizon| {
                    for table in summary.levels[BOTTOM].iter_mut().filter(|table| !taken.is_kept(table.number)) {
                        table.hidden = hidden.get(&table.number).copied().unwrap_or(0);
                    }
                    if family.compaction_filter().is_some_and(|filter| filter.is_known()) {
                        let seen = horizon.boundaries.last().copied().unwrap_or(0);
                        let bottom = summary.levels[BOTTOM].iter_mut();
                        bottom.for_each(|table| table.may_filter = table.greatest_seqno > seen);
                    }
                    pick::plan_range(&summary, level, low, high, newest)
                })?;
                if turn != Turn::Again {
                    break; // what rests or is quarantined stays
                }
            }
        }
        Ok(())
    }

    /// Makes a plan and carries it out, or waits for the compactions that it waits for.
    pub(super) fn compact_step_of(
        &self,
        family: &Family,
        chosen: &BTreeSet<Uid>,
        step: &dyn Fn() -> bool,
        plan: &dyn Fn(LevelSummary<'_>, &Taken<'_>, &Horizon) -> RangeStep,
    ) -> Result<Turn> {
        let (mut next, seen) = (RangeStep::Done, self.catalog().claims.finished());
        let planned = self.catalog().claims.pick(u64::MAX, |taken| {
            let (view, spans) = (family.view(), taken.spans(family.id()));
            let horizon = self.catalog().snapshots.horizon_now(self.catalog().reads.expiry_clock());
            next = plan(self.summary_of(family, &view, &spans, &horizon, taken), taken, &horizon);
            match &next {
                RangeStep::Run(plan) => Some((family.clone(), plan.clone())),
                RangeStep::Wait | RangeStep::Done => None,
            }
        });
        match (planned, next) {
            (Some(picked), _) => self.carry_out(picked, chosen)?,
            (None, RangeStep::Wait) => {
                let has_finished = || self.catalog().claims.finished() != seen;
                if !self.catalog().claims.is_running() && !has_finished() {
                    return Ok(Turn::Blocked);
                }
                self.store_log().wait_for_compactions(step, has_finished)?;
            }
            _ => return Ok(Turn::Done),
        }
        Ok(Turn::Again)
    }

    /// Runs a plan; returns the blocks to load into the cache after its inputs are released.
    fn run_plan(&self, family: &Family, plan: &CompactionPlan, chosen: &BTreeSet<Uid>) -> Result<Prepopulation> {
        let (summary, started) = (MergeView::of(family), self.context().now_nanos());
        let inputs = find_inputs(&summary.levels, plan);
        if family.is_dropped() || inputs.len() != plan.inputs.iter().map(|(_, numbers)| numbers.len()).sum::<usize>() {
            return Ok(Prepopulation::default()); // dropped meanwhile
        }
        let plan = &CompactionPlan { action: packing::action(&family.options(), plan), ..plan.clone() };
        let outcome = match plan.action {
            PlanAction::Move => self.move_tables(family, plan, &inputs, started).map(|()| Prepopulation::default()),
            PlanAction::Drop => self.drop_tables(family, plan, &inputs, started).map(|()| Prepopulation::default()),
            PlanAction::Merge => self.merge_tables(family, (plan, chosen), (&summary, &inputs), started),
        };
        if family.is_dropped() {
            self.write_path().revise_stall();
            // family dropped during the compaction: neither a failure nor work left
            return Ok(Prepopulation::default());
        }
        if let Err(error) = &outcome
            && error.is_corruption()
        {
            // Damaged tables stay as they are and are hidden from the picker, together with the tables that they
            // overlap; other compactions continue.
            let error = error.clone().in_family(family.name(), None);
            let _ = quarantine_tables(self.write_path(), family, &to_blame(&error, &inputs)); // at least in memory
            self.notifier().notify(Event::Corruption { error });
            return Ok(Prepopulation::default());
        }
        if let Err(error) = &outcome
            && !matches!(error.kind(), ErrorKind::Closed | ErrorKind::Halted | ErrorKind::Interrupted)
            && (!error.is_out_of_space() || plan.reason.is_spare())
        {
            // An input cannot be read now, or the output cannot be written: other compactions continue, and this one is
            // retried later.
            self.catalog().claims.put_off(&plan.inputs, self.context().now_nanos(), error.is_out_of_space());
        }
        self.write_path().revise_stall();
        outcome
    }

    fn move_tables(&self, family: &Family, plan: &CompactionPlan, inputs: &[Input], started: u64) -> Result<()> {
        let removes: Vec<_> = inputs.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let adds: Vec<_> = inputs.iter().map(|(_, table)| (plan.output_level, table.meta().clone())).collect();
        let numbers: Vec<u64> = removes.iter().map(|(_, number)| *number).collect();
        self.exchange(Replaced::tables(family, removes, adds), DroppedRecords::default(), plan, started)?;
        self.context().counters.moved();
        self.notify_compacted(family, numbers.clone(), numbers, plan, true);
        Ok(())
    }

    fn merge_tables(
        &self,
        family: &Family,
        (plan, chosen): (&CompactionPlan, &BTreeSet<Uid>),
        (summary, inputs): (&MergeView, &[Input]),
        started: u64,
    ) -> Result<Prepopulation> {
        let mut stale = stale_files(
            family,
            &summary.levels,
            plan.thrift(),
            &self.catalog().claims.resting(self.context().now_nanos()),
        );
        stale.extend(chosen);
        let filter = family.compaction_filter().filter(CompactionFilter::is_known);
        let filter = filter.as_ref();
        // Lasts until the edit is visible. A snapshot is either older than the horizon, or finds that a pass runs.
        let _filtering = filter.map(|_| FilteringPass::begin(self.catalog()));
        let (written, through) = match self.merge_once(family, plan, (summary, inputs), (&stale, filter), false) {
            // The damage may have occurred in memory or during a file read. Retry once with verified inputs; then
            // quarantine the damaged table, and record that.
            Err(error) if error.is_corruption() => {
                self.merge_once(family, plan, (summary, inputs), (&stale, filter), true)?
            }
            // Moving values needs disk space too, so retry without it.
            Err(error)
                if error.is_out_of_space()
                    && !plan.is_for_values()
                    && chosen.is_empty()
                    && inputs.iter().any(|(_, table)| points_into(table.meta(), &stale)) =>
            {
                self.merge_once(family, plan, (summary, inputs), (&BTreeSet::new(), filter), false)?
            }
            outcome => outcome?,
        };
        self.context().counters.built(&written);
        let (expired, filtered, outputs) = (written.expired, written.filtered, written.tables);
        let (unmoved, values) = (written.values_unreadable, written.value_bytes);
        let keeps_hidden = written.hidden_by.is_some();
        let removes: Vec<_> = inputs.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let gone: Vec<u64> = removes.iter().map(|(_, number)| *number).collect();
        let read: u64 = inputs.iter().map(|(_, table)| table.meta().size).sum();
        let written = values + outputs.iter().map(|meta| meta.size).sum::<u64>();
        let numbers: Vec<u64> = outputs.iter().map(|meta| meta.number).collect();
        let in_place = plan.inputs.iter().all(|(level, _)| *level == plan.output_level);
        let before: u64 = inputs.iter().map(|(_, table)| table.meta().ledger.deletes.count).sum();
        // Tables that were rewritten for their tombstones, or for versions that are hidden, and hold as many as before.
        let is_for_tombstones = match plan.reason {
            Reason::Values | Reason::Space | Reason::Expired | Reason::RangeDelete | Reason::Chosen => false,
            Reason::Range => filter.is_none() || before > 0,
            Reason::Level0 | Reason::Size | Reason::Tombstones => true,
        };
        let deletes = outputs.iter().map(|meta| meta.ledger.deletes.count).sum::<u64>();
        let stay = in_place && (unmoved > 0 || is_for_tombstones && deletes >= before);
        let stays = |meta: &&TableMeta| in_place && meta.expiry.is_some_and(|of| of.any_by(through));
        let keep_expired: Vec<u64> = outputs.iter().filter(stays).map(|meta| meta.number).collect();
        let adds = outputs.into_iter().map(|meta| (plan.output_level, Arc::new(meta))).collect();
        let dropped = DroppedRecords { expired: Some((expired, through)), filtered: Some(&filtered) };
        self.exchange(Replaced::tables(family, removes, adds), dropped, plan, started)?;
        self.report_filtered(family, filtered);
        self.catalog().claims.keep_expired(keep_expired.into_iter());
        if stay || plan.reason == Reason::RangeDelete && keeps_hidden {
            self.catalog().claims.keeps(&numbers); // or they would be rewritten forever
        }
        self.context().counters.compacted(read, written);
        let prepopulation = Prepopulation::of_inputs(family, (plan.output_level, &numbers), inputs);
        self.notify_compacted(family, gone, numbers, plan, false);
        Ok(prepopulation)
    }

    /// Drops tables whose records have all expired or are hidden by range deletes, without reading them.
    fn drop_tables(&self, family: &Family, plan: &CompactionPlan, inputs: &[Input], started: u64) -> Result<()> {
        let Horizon { expired: through, boundaries } =
            self.catalog().snapshots.horizon(self.catalog().reads.expiry_clock());
        let view = family.view();
        let ranges = match plan.reason {
            Reason::RangeDelete => RangeIndex::build(family.order(), view.durable_ranges(), &boundaries),
            _ => RangeIndex::new(family.order().clone()),
        };
        let has_gone = |meta: &TableMeta| match plan.reason {
            Reason::RangeDelete => range_deleted::hidden_in(meta, &ranges, &boundaries) == RangeDeleted::Wholly,
            _ => meta.expiry.is_some_and(|of| of.all_by(through)),
        };
        if !inputs.iter().all(|(_, table)| has_gone(table.meta()) && !expire::is_fenced(&view, table.meta())) {
            return Ok(()); // the clock was set back, or records were lost, since the plan was made
        }
        let (mut dropped, mut bytes) = (Ledger::default(), 0);
        for (_, table) in inputs {
            dropped.merge(&table.meta().ledger);
            bytes += table.meta().bytes_with_values();
        }
        let removes: Vec<_> = inputs.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let numbers: Vec<u64> = removes.iter().map(|(_, number)| *number).collect();
        drop(view);
        let expired = (plan.reason != Reason::RangeDelete).then_some((dropped, through));
        let dropped = DroppedRecords { expired, filtered: None };
        self.exchange(Replaced::tables(family, removes, Vec::new()), dropped, plan, started)?;
        self.context().counters.dropped(numbers.len() as u64, bytes);
        self.notify_compacted(family, numbers, Vec::new(), plan, false);
        Ok(())
    }

    /// Exchanges tables in one edit.
    pub(super) fn exchange(
        &self,
        replaced: Replaced<'_>,
        dropped: DroppedRecords<'_>,
        plan: &CompactionPlan,
        started: u64,
    ) -> Result<()> {
        let mut edit = Edit::from(replaced.changes());
        if let Some(FilterCounts { dropped, changed, .. }) = dropped.filtered
            && dropped.count() + changed.count() > 0
        {
            let family = replaced.family.id();
            edit.changes.push(EditChange::Filtered { family, dropped: *dropped, changed: *changed });
        }
        if let Some((dropped, through)) = dropped.expired.filter(|(dropped, _)| dropped.count() > 0) {
            edit.changes.push(EditChange::Expired { family: replaced.family.id(), through, dropped });
            self.context().counters.expired(dropped.count());
        }
        let (level, moved, reason) = (plan.output_level as u8, plan.action == PlanAction::Move, plan.reason.name());
        let filtered = dropped.filtered.map_or((0, 0), |counts| (counts.dropped.count(), counts.changed.count()));
        let engine_event = EngineEvent::Compacted { level, moved, reason, filtered };
        self.catalog().log_event(&mut edit, engine_event, std::slice::from_ref(&replaced), None, started);
        self.catalog().install(edit, [replaced])
    }

    /// Returns the output, and the time by which the dropped records had expired.
    fn merge_once(
        &self,
        family: &Family,
        plan: &CompactionPlan,
        (summary, inputs): (&MergeView, &[Input]),
        (collects, filter): (&BTreeSet<Uid>, Option<&CompactionFilter>),
        checks_inputs: bool,
    ) -> Result<(PassResult, u64)> {
        let MergeView { levels, lost_ranges, range_deletes } = summary;
        let mut expected = Ledger::default();
        let (mut summed, mut properties) = (true, Vec::new());
        for (_, table) in inputs {
            expected.merge(&table.meta().ledger);
            summed &= table.meta().ledger.has_sums() || table.table()?.properties().protection == 0;
            properties.push(table.table()?.properties());
        }
        properties.reverse(); // the lower level is the older
        let carried = Some(CompanionSummary::joined(&*self.context().companions, properties.into_iter()));
        // Taken once for all subcompactions, and before any lookup in the upper levels.
        let Horizon { boundaries: snapshots, expired: now } =
            self.catalog().snapshots.horizon(self.catalog().reads.expiry_clock());
        let may_be_hidden = |key: &[u8]| newer_versions::may_exist(plan, &family.view(), key);
        let expires = Some(ExpiryRule { now, is_hidden: &may_be_hidden });
        let collects = collects.clone();
        let ranges_through = range_deletes.last().map_or(0, |range| range.seqno);
        let ranges = range_deletes.iter().map(|range| &**range);
        let ranges = (ranges_through > 0).then(|| RangeIndex::build(family.order(), ranges, &snapshots));
        let base_seqno = inputs.iter().map(|(_, table)| table.meta().least_seqno).min().unwrap_or(0);
        let next_file = || self.catalog().new_file_number();
        let mut job = self.pass_over(family, plan.output_level, base_seqno, (expected, summed), &next_file);
        if plan.output_level == BOTTOM && matches!(job.compression, Compression::Zstd(_)) {
            let _room = training_room(&self.context().cache);
            let tables = inputs.iter().map(|(_, table)| table.table()).collect::<Result<Vec<_>>>()?;
            job.dictionary = train_for(job.compression, job.options.table_bytes, tables.into_iter());
        }
        // A repair may later replace a lost range by the records lost in it; a tombstone must still hide them then.
        let order = family.order();
        let is_fenced = |key: &[u8]| {
            planted!(
                TombstoneDroppedUnderFence,
                false,
                lost_ranges.iter().any(|lost_range| lost_range.may_hide(order, key, MAX_SEQNO))
            )
        };
        let is_bottom = |key: &[u8]| levels.is_bottom_for(plan.output_level, key) && !is_fenced(key);
        let is_whole = |key: &[u8]| !is_fenced(key);
        let operator = family.merge_operator().filter(|operator| operator.is_known());
        let merges = operator.map(|operator| MergeRule { operator, is_whole: &is_whole });
        let is_hidden_or_fenced = |key: &[u8]| is_fenced(key) || newer_versions::exist(plan, &family.view(), key);
        let filters = filter.map(|filter| FilterRule { filter, is_hidden: &is_hidden_or_fenced });
        let pass = PassOptions {
            carried,
            checks_inputs,
            emits: None,
            expires,
            merges,
            filters,
            collects,
            ranges,
            ranges_through,
            stop: None,
        };
        let below = if plan.output_level + 1 < LEVELS { levels.ends(plan.output_level + 1) } else { Vec::new() };
        let table_bytes = job.options.table_bytes;
        let part = || {
            Ok(CompactionPart {
                cursor: merged(family.order().clone(), sources(family, plan, inputs)?),
                rules: Rules::new(family.order().clone(), snapshots.clone(), is_bottom),
                splitter: Splitter::new(family.order().clone(), table_bytes, below.clone()),
            })
        };
        let cuts = self.cuts(family, inputs)?;
        // Each subcompaction holds the hashes of one table at a time.
        let records = expected.count().min(table_bytes / LEAST_RECORD_BYTES * (cuts.len() as u64 + 1));
        let _room = job_room(&self.context().cache, inputs.len() * (cuts.len() + 1), cuts.len() + 1, records);
        let written = write_parts(&job, &pass, &cuts, part)?;
        self.context().counters.divided(cuts.len());
        if !written.tables.is_empty() {
            self.store_log().sync_dir_before_edit()?;
        }
        Ok((written, now))
    }

    /// Returns the keys that divide a compaction into concurrent subcompactions. A record protector with rows of its
    /// own needs all records in one sequence.
    fn cuts(&self, family: &Family, inputs: &[Input]) -> Result<Vec<Vec<u8>>> {
        let bytes: u64 = inputs.iter().map(|(_, table)| table.meta().size).sum();
        let parts = (bytes / family.options().table_bytes).min(self.context().settings.current().subcompactions as u64)
            as usize;
        if parts < 2 || self.context().companions.has_rows() {
            return Ok(Vec::new());
        }
        let mut samples = Vec::new();
        for (_, table) in inputs {
            let (meta, table) = (table.meta(), table.table()?);
            let step = table.blocks().div_ceil(SAMPLES).max(1);
            let size = meta.size / table.blocks().div_ceil(step).max(1) as u64;
            samples.push((meta.smallest.clone(), size));
            let within = (step..table.blocks()).step_by(step);
            samples.extend(within.filter_map(|block| Some((table.separator(block - 1)?, size))));
        }
        Ok(split::cut(family.order(), samples, parts))
    }

    /// Returns the parameters shared by all passes that write into a level of a family. `summed`: `expected` has sums.
    pub(in crate::db) fn pass_over<'a>(
        &'a self,
        family: &'a Family,
        level: usize,
        base_seqno: Seqno,
        (expected, summed): (Ledger, bool),
        next_file: &'a (dyn Fn() -> u64 + Sync),
    ) -> CompactionJob<'a> {
        let deeper = family.view().levels.filled().filter(|filled| *filled > level).count();
        let options = family.options();
        CompactionJob {
            env: &self.context().env,
            dir: &self.context().dir,
            left: &self.context().left,
            store: Some(self.context().store),
            companions: &self.context().companions,
            family: family.id(),
            filter_bits: options.filter_bits_above(deeper),
            compression: packing::compression_at(&options, level),
            options,
            dictionary: None,
            base_seqno,
            next_file,
            cancelled: &self.lanes().stopping,
            expected,
            summed,
            values: family.table_cache().values(),
            pace: Some((&self.context().pace, IoPriority::Compaction)),
            unsynced: None,
        }
    }

    /// Counts the results of a compaction filter, and reports its failures.
    fn report_filtered(&self, family: &Family, filtered: FilterCounts) {
        self.context().counters.filtered(&filtered);
        if let Some(error) = filtered.error {
            let (family, values) = (family.name().to_owned(), filtered.failures);
            self.notifier().notify(Event::FilterFailed { family, error, values });
        }
    }

    pub(super) fn notify_compacted(
        &self,
        family: &Family,
        inputs: Vec<u64>,
        outputs: Vec<u64>,
        plan: &CompactionPlan,
        moved: bool,
    ) {
        self.lanes().kick(Lane::Compact);
        let family = family.name().to_owned();
        self.notifier().notify(Event::Compacted {
            family,
            inputs,
            outputs,
            level: plan.output_level,
            moved,
            reason: plan.reason,
        });
    }
}

/// The records that a compaction removed from the store, other than those that newer records hide.
#[derive(Clone, Copy, Default)]
pub(super) struct DroppedRecords<'a> {
    /// The ledger of the expired records, and the time by which they had expired.
    expired: Option<(Ledger, u64)>,
    /// The results of the compaction filter.
    filtered: Option<&'a FilterCounts>,
}

/// A running compaction that applies a filter: snapshots taken meanwhile hold their views.
struct FilteringPass<'a>(&'a Catalog);

impl FilteringPass<'_> {
    fn begin(catalog: &Catalog) -> FilteringPass<'_> {
        catalog.filtering.fetch_add(1, Ordering::SeqCst);
        FilteringPass(catalog)
    }
}

impl Drop for FilteringPass<'_> {
    fn drop(&mut self) {
        self.0.filtering.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Minimum bytes of a record in a table, for estimating a job's memory.
const LEAST_RECORD_BYTES: u64 = 16;

/// Number of keys sampled per table as candidates for dividing a compaction.
const SAMPLES: usize = 64;

/// Returns cursors over the inputs of a compaction, from their start on.
fn sources(family: &Family, plan: &CompactionPlan, inputs: &[Input]) -> Result<Vec<Box<dyn Cursor>>> {
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for (level, _) in &plan.inputs {
        let tables = inputs.iter().filter(|(of, _)| of == level).map(|(_, table)| table);
        if *level == 0 {
            for table in tables {
                sources.push(Box::new(table.table()?.stream()));
            }
        } else {
            let parts = tables.map(|table| Streamed(table.clone())).collect();
            sources.push(Box::new(ConcatCursor::new(family.order().clone(), parts)));
        }
    }
    Ok(sources)
}

/// Returns, for each table at the bottom level, the number of records with a newer version in the same table. Omits
/// tables that cannot be opened, or whose properties lack this number.
fn hidden_at_bottom(view: &View) -> HashMap<u64, u64> {
    let tables = view.levels.level(BOTTOM).tables().iter();
    let hidden = tables.filter_map(|table| Some((table.meta().number, table.table().ok()?.properties().versions?)));
    hidden.collect()
}

/// A table as one part of its level, read by a job.
struct Streamed(Arc<TableHandle>);

impl merge::MergePart for Streamed {
    fn smallest(&self) -> &[u8] {
        &self.0.meta().smallest
    }

    fn largest(&self) -> &[u8] {
        &self.0.meta().largest
    }

    fn open(&self) -> Result<merge::PartCursor> {
        Ok(merge::PartCursor::Other(Box::new(self.0.table()?.stream())))
    }
}

/// The parts of a view that a merge needs while it runs, possibly for minutes. It holds no memtable, so that flushed
/// memtables can be freed.
struct MergeView {
    levels: Arc<TableLevels>,
    lost_ranges: Arc<Vec<LostRange>>,
    range_deletes: Arc<Vec<Arc<RangeDelete>>>,
}

impl MergeView {
    fn of(family: &Family) -> MergeView {
        let view = family.view();
        let View { levels, lost_ranges, range_deletes, .. } = &**view;
        MergeView { levels: levels.clone(), lost_ranges: lost_ranges.clone(), range_deletes: range_deletes.clone() }
    }
}

/// Returns the input table that an error names, or all inputs if it names none.
fn to_blame(error: &Error, inputs: &[Input]) -> Vec<u64> {
    let numbers = || inputs.iter().map(|(_, table)| table.meta().number);
    let named = error.damage().and_then(|damage| StoreFileName::parse(&damage.file));
    let named = named.and_then(|name| numbers().find(|number| name == StoreFileName::Table(*number)));
    named.map_or_else(|| numbers().collect(), |number| vec![number])
}

fn bound_key(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn find_inputs(levels: &TableLevels, plan: &CompactionPlan) -> Vec<Input> {
    let numbers = plan.inputs.iter().flat_map(|(level, numbers)| numbers.iter().map(move |number| (*level, *number)));
    numbers.filter_map(|(level, number)| Some((level, levels.get(level, number)?.clone()))).collect()
}

/// Returns a space compaction for a settling family, or the plan of `stale`. Returns `None` if the family was flushed
/// since: writes to it continue, so it would not settle.
fn pick_settling(
    summary: &LevelSummary<'_>,
    levels: &TableLevels,
    newest: u64,
    stale: impl FnOnce(Reason) -> Option<CompactionPlan>,
) -> Option<CompactionPlan> {
    if !summary.running.is_empty() || summary.levels[0].iter().any(|table| table.number >= newest) {
        return None;
    }
    let towards =
        if holds_pointers(levels) { space_compaction::pick_single_level } else { space_compaction::pick_compact };
    // Merge first, because merging shows which values are garbage; afterwards the live values are moved only once.
    towards(summary).or_else(|| stale(Reason::Space))
}

/// Returns a plan to rewrite a table that points into blob files with mostly garbage.
fn pick_stale(
    (family, levels): (&Family, &TableLevels),
    summary: &LevelSummary<'_>,
    taken: &Taken<'_>,
    reason: Reason,
) -> Option<CompactionPlan> {
    let thrift = if reason == Reason::Space { GcPolicy::Lean } else { GcPolicy::Usual };
    let stale = stale_files(family, levels, thrift, &taken.resting());
    if stale.is_empty() {
        return None;
    }
    let tables = levels.iter().flat_map(|level| level.tables()).map(|table| table.meta());
    let bytes_of = |meta: &TableMeta| {
        let of_stale = meta.values.iter().filter(|values| stale.contains(&values.file.uid));
        of_stale.map(|values| values.bytes).sum::<u64>()
    };
    let bytes: HashMap<u64, u64> = tables.map(|meta| (meta.number, bytes_of(meta))).collect();
    let of = |number| if taken.is_kept(number) { 0 } else { bytes.get(&number).copied().unwrap_or(0) };
    blob_gc::pick_stale(summary, reason, &of)
}

/// Returns the blob files of a family that are due for garbage collection. Files that `resting` or level-0 tables point
/// into get no plan.
fn stale_files(family: &Family, levels: &TableLevels, thrift: GcPolicy, resting: &HashSet<u64>) -> BTreeSet<Uid> {
    let tables = |from: usize| levels.iter().skip(from).flat_map(|level| level.tables()).map(|table| &**table.meta());
    let files = blob_gc::living(tables(0));
    let stale = blob_gc::stale(&files, thrift);
    if stale.is_empty() {
        return stale;
    }
    let (held, alive) = held_and_pointed(levels);
    let movable = blob_gc::living(tables(1).filter(|meta| !resting.contains(&meta.number)));
    blob_gc::select_files(&files, stale, &movable, blob_gc::most_at_once(family.options().table_bytes, held, alive))
}

/// Returns true if a table points into one of these files.
pub(super) fn points_into(meta: &TableMeta, files: &BTreeSet<Uid>) -> bool {
    meta.values.iter().any(|of| files.contains(&of.file.uid))
}

/// Returns the bytes of tables, and of the values that they point to.
fn held_and_pointed(levels: &TableLevels) -> (u64, u64) {
    let tables = levels.iter().flat_map(|level| level.tables()).map(|table| table.meta());
    tables.fold((0u64, 0u64), |(held, pointed), meta| {
        let values = meta.values.iter().map(|of| of.bytes).fold(pointed, u64::saturating_add);
        (held.saturating_add(meta.size), values)
    })
}

/// Returns true if the tables are at most an eighth of the size of the values that they point to.
fn holds_pointers(levels: &TableLevels) -> bool {
    let (held, pointed) = held_and_pointed(levels);
    pointed / 8 > held
}

impl Compactor {
    fn summary_of<'a>(
        &self,
        family: &'a Family,
        view: &'a View,
        spans: &'a [OutputRange],
        horizon: &Horizon,
        taken: &Taken<'_>,
    ) -> LevelSummary<'a> {
        let busy = |number| taken.is_busy(number);
        let oldest = horizon.boundaries.first().copied();
        let summary = LevelSummary::new(&view.levels, packing::level_shape(&family.options()), spans, oldest, busy);
        let mut summary = LevelSummary { expired: horizon.expired, ..summary.fenced(&view.lost_ranges) };
        for table in summary.levels.iter_mut().flatten() {
            table.is_kept = taken.keeps_expired(table.number);
            let may_go = table.expiry.is_some_and(|of| of.count == table.entries && of.all_by(horizon.expired));
            table.is_in_memory = may_go && (!self.context().companions.may_drop_unread() || is_in_memory(view, table));
        }
        if !view.range_deletes.is_empty() {
            let ranges = RangeIndex::build(family.order(), view.durable_ranges(), &horizon.boundaries);
            let tables = view.levels.iter().flat_map(|level| level.tables());
            for (table, handle) in summary.levels.iter_mut().flatten().zip(tables) {
                table.range_deleted = range_deleted::hidden_in(handle.meta(), &ranges, &horizon.boundaries);
                if table.range_deleted == RangeDeleted::Wholly {
                    table.is_in_memory = !self.context().companions.may_drop_unread();
                }
            }
        }
        let stay = |number| taken.is_kept(number);
        summary.levels.iter_mut().flatten().filter(|table| stay(table.number)).for_each(|table| table.tombstones = 0);
        if self.context().companions.has_rows() {
            // The protector's own rows may be tombstones, which stay; merging a table to drop tombstones is useless
            // then.
            summary.levels.iter_mut().flatten().for_each(|table| table.tombstones = 0);
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{Db, Parts};
    use crate::env::SimFs;
    use crate::options::{CfOptions, Durability, Settings};
    use crate::record::Kind;

    #[test]
    fn what_somebody_else_has_taken_meanwhile_is_not_picked() {
        let options = CfOptions { level0_tables: 2, ..CfOptions::default() };
        let families = ["default", "other"].map(|name| (name.to_owned(), options.clone())).to_vec();
        let parts = Parts { env: SimFs::new(1).env(1), families, ..Parts::real() };
        let db = Db::open(Path::new("/store"), Settings::default(), parts).unwrap();
        let [fuller, other] = ["default", "other"].map(|name| db.family(name).unwrap());
        for round in 0..4 {
            let mut batch = Batch::new();
            for family in [&fuller, &other].into_iter().take(if round < 2 { 2 } else { 1 }) {
                batch.push(family.id(), Kind::Put, b"key", b"value", db.companions()).unwrap();
            }
            db.commit(&mut batch, Durability::Os).unwrap();
            db.flush_ordered(&fuller).unwrap();
            db.flush_ordered(&other).unwrap();
        }
        let inner = db.inner();
        let pick = || {
            inner
                .catalog()
                .claims
                .pick(0, |taken| inner.compactor().most_urgent(taken, None, &mut lock(&inner.compactor().picks)))
        };
        let first = pick().unwrap();
        assert_eq!(first.family, fuller);
        let numbers: Vec<u64> = other.table_numbers().into_iter().map(|(_, number)| number).collect();
        let span = OutputRange { level: BOTTOM, smallest: b"key".to_vec(), largest: b"key".to_vec() };
        assert!(inner.catalog().claims.hold(&numbers, || Some((other.id(), span.clone()))));
        assert!(pick().is_none());
        inner.catalog().claims.release(numbers.into_iter(), Some((other.id(), &span)));
        assert_eq!(pick().unwrap().family, other);
    }

    /// A pass that moves values checks for cancellation and for its rate limit by the bytes it writes, because the
    /// pointers it reads are short.
    #[test]
    fn a_pass_that_moves_values_ends_soon_where_the_store_closes() {
        let options = CfOptions { large_value_bytes: 1000, level0_tables: 1, ..CfOptions::default() };
        let families = vec![("default".to_owned(), options)];
        let parts = Parts { env: SimFs::new(1).env(1), families, ..Parts::real() };
        let db = Db::open(Path::new("/store"), Settings::default(), parts).unwrap();
        let family = db.family("default").unwrap();
        let write = |numbers: &mut dyn Iterator<Item = u64>| {
            for n in numbers {
                let mut batch = Batch::new();
                let value: Vec<u8> = (0..60_000u64).map(|at| (crate::checksum::mix(at ^ n << 32) >> 8) as u8).collect();
                batch.push(family.id(), Kind::Put, format!("{n:04}").as_bytes(), &value, db.companions()).unwrap();
                db.commit(&mut batch, Durability::Os).unwrap();
            }
            db.flush_ordered(&family).unwrap();
        };
        write(&mut (0..64));
        while db.step().unwrap() {}
        write(&mut (0..64).filter(|n| n % 4 != 0));
        let inner = db.inner();
        let picked = || {
            let mut picks = lock(&inner.compactor().picks);
            inner.catalog().claims.pick(0, |taken| inner.compactor().most_urgent(taken, None, &mut picks)).unwrap()
        };
        let merge = picked();
        assert_eq!(merge.plan.reason, Reason::Level0);
        inner.compactor().carry_out(merge, &BTreeSet::new()).unwrap();
        let collect = picked();
        assert_eq!(collect.plan.reason, Reason::Values);
        inner.lanes().stopping.store(true, Ordering::Relaxed);
        let outcome = inner.compactor().run_plan(&collect.family, &collect.plan, &BTreeSet::new());
        inner.lanes().stopping.store(false, Ordering::Relaxed);
        assert!(outcome.is_err_and(|error| *error.kind() == ErrorKind::Closed));
        inner.compactor().carry_out(collect, &BTreeSet::new()).unwrap();
        assert_eq!(db.metrics().values_moved, 16);
    }
}
