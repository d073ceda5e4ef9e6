//! Recovery: manifest -> families, log -> memtables -> tables, then a fresh log. Also the read-only variant, which
//! writes nothing.
//!
//! Writes: recovery trusts no page that it has not written itself, and overwrites none that it still needs (I16). It
//!         flushes the replayed records to tables and syncs them, creates and syncs a fresh segment and ring, and
//!         creates and syncs a fresh manifest that names all of these. Then it switches `CURRENT` to the new manifest.
//!         Only after that does it acknowledge commits and remove files (`leftovers.rs`), except for files that a
//!         failed recovery created itself.
//! Crash:  before the switch, the store as it was found, with some additional unnamed files; after it, the recovered
//!         store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::directory::{no_store, remove_ours};
use super::kept_log::{KeptLog, feed_changes};
use super::opening::Opening;
use super::replay::{MOST_UNSYNCED, Replay};
use crate::batch::Binding;
use crate::checksum::Uid;
use crate::compaction::UnsyncedTables;
use crate::compaction_filter::CompactionFilter;
use crate::db::catalog::FamilyMap;
use crate::db::catalog::event_log::{add_event, number_events, touched_in};
use crate::db::catalog::feed::{FeedView, is_needed};
use crate::db::jobs::redo::is_of_the_pass;
use crate::db::state::family::{DEFAULT_FAMILY, Family, MemtableShape, TableHandle, TableLevels, ViewDelta};
use crate::db::state::store_log::{OpenLog, facts_of};
use crate::db::state::tables::{TableResources, table_cache};
use crate::db::writes::memory::cache_of;
use crate::descriptors::Descriptors;
use crate::env::{File, Machine, Open};
use crate::error::{Error, ErrorKind, IoContext, OrderMismatch, Result, Verdict};
use crate::format_level::FormatLevel;
use crate::lost_range::LostRange;
use crate::merge_operator::MergeOperator;
use crate::names::{StoreFileName, system_number};
use crate::options::{CfOptions, Settings};
use crate::order::Order;
use crate::planted;
use crate::record::Seqno;
use crate::seam::{EngineEvent, Work};
use crate::sst::Cache;
use crate::values::LoggedValues;
use crate::version::{
    self, Contents, Edit, EditChange, EventLines, FeedState, KeptSegment, Manifest, ManifestState, ObsoleteList,
    OpenTables, RecoveredManifest, recover,
};
use crate::wal::{self, LiveRead, LogEnd, Numbers, ReadUntil, Replayed, Stop};

/// Reports what recovery found in the log at open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Number of commits replayed.
    pub commits: u64,
    /// Bytes of the log that were cut as a torn tail (or, with `accept_loss`, as damage). 0 after a clean close.
    pub cut_bytes: u64,
    /// Logical offset at which the log was cut.
    pub cut_at: Option<u64>,
    /// Name of the file in the store that keeps the cut bytes.
    pub set_aside: Option<String>,
    /// Bytes of missing commits that had returned: the acknowledged mark minus the recovered end. 0 unless the machine
    /// failed. If `may_lack_unsynced` is set, this is a lower bound: the mark is as old as the operating system's last
    /// write of its page.
    pub acknowledged_bytes_missing: u64,
    /// True if the machine failed, or the store moved to another device, while the log was open. Commits that had
    /// returned without a sync may be missing, and the remaining files do not tell how many.
    pub may_lack_unsynced: bool,
    /// Damaged values of commits in the log. Reads of their keys fail with `Corruption` until the keys are overwritten
    /// or repaired.
    pub lost_values: u64,
}

impl RecoveryReport {
    /// Records what the end of the log proves about missing commits.
    pub(super) fn of_end(&mut self, end: &LogEnd) {
        self.acknowledged_bytes_missing = end.acknowledged.saturating_sub(end.place.offset);
        self.may_lack_unsynced = end.may_lack_unsynced;
    }
}

/// The result of an open.
pub(super) struct Opened {
    pub(super) store: Uid,
    pub(in crate::db) families: FamilyMap,
    pub(in crate::db) cache: Arc<Cache>,
    pub(super) dead_files: Arc<ObsoleteList>,
    pub(in crate::db) open_tables: Arc<OpenTables>,
    pub(in crate::db) visible: Seqno,
    /// Quarantined tables.
    pub(in crate::db) quarantined: Vec<u64>,
    /// Compactions have dropped records that expired by this time.
    pub(super) expired_through: u64,
    pub(super) format_level: FormatLevel,
    /// The event log.
    pub(in crate::db) lines: EventLines,
    /// Unnamed files: the log as it was found, and files that a crash left.
    pub(in crate::db) leftovers: Vec<StoreFileName>,
    /// Numbers of the replaced tables that an earlier process kept, if this one keeps them too.
    pub(super) trash: Vec<u64>,
    pub(in crate::db) next_file: Arc<AtomicU64>,
    pub(in crate::db) log: Option<OpenLog>,
    pub(in crate::db) manifest: Option<Manifest>,
    pub(super) report: RecoveryReport,
    /// Lost values of the log, each as a lost range.
    pub(in crate::db) lost: Vec<(Family, u64, Arc<LostRange>)>,
    /// In a read-only store: what the change feed keeps.
    pub(in crate::db) feed: FeedView,
}

impl Opening<'_> {
    /// Opens for reading: replays the whole log into memtables and writes nothing.
    pub(super) fn read(&self) -> Result<Opened> {
        for _ in 0..READ_ATTEMPTS {
            match self.read_once(false) {
                // A writer may remove files of an old state; a fresh read of the manifest names their successors.
                Err(error) if matches!(error.kind(), ErrorKind::Io(std::io::ErrorKind::NotFound)) => {}
                Ok(None) => {}
                outcome => return outcome.and_then(|opened| opened.ok_or_else(moved)),
            }
        }
        self.read_once(true)?.ok_or_else(moved)
    }

    /// Returns `None` if a writer changed files during the read. If a file is missing although the manifest is
    /// unchanged, the file was lost; a lost table is reported when it is read. Marks that lag behind the tables
    /// normally belong to a writer that is about to update them. At the last attempt such marks are ignored.
    fn read_once(&self, is_last: bool) -> Result<Option<Opened>> {
        let missing = || match version::contents(self.env(), self.dir)? {
            Contents::Empty | Contents::Store => Err(Error::no_store(self.dir)),
            contents => Err(Error::invalid(format!("{} holds {contents}", self.dir.display()))),
        };
        let look = || recover(self.env(), self.dir)?.filter(|found| !found.is_unfinished()).map_or_else(missing, Ok);
        let first = look()?;
        let marks = first.state.log.as_ref().map(|log| wal::read_marks(self.env(), self.dir, log));
        let values = self.open_values_of_log(&first.state)?;
        let found = look()?;
        if found.state.log != first.state.log {
            return Ok(None);
        }
        let state = &found.state;
        let has_changed = || recover(self.env(), self.dir).map(|now| now.is_none_or(|now| now.state != *state));
        let mut replay = self.replay(&found, None)?;
        replay.next_lost = found.next_file;
        replay.values.keep_open(values);
        if pin(&replay) && has_changed()? {
            return Ok(None);
        }
        let (mut visible, mut report) = (state.last_seqno, RecoveryReport::default());
        if let (Some(log), Some(marks)) = (&state.log, marks) {
            // A damaged ring has no marks, and a ring older than the manifest (as in a copy) has no usable ones. The
            // log is then read without marks, as in a recovery.
            let lags = |marks: &wal::Marks| state.permanent_offset > marks.acknowledged.max(log.place.offset);
            let marks = match marks {
                Err(error) if error.is_corruption() => None,
                marks => Some(marks?).filter(|marks| !(is_last && found.state == first.state && lags(marks))),
            };
            let visit = &mut |frame: Replayed<'_>| replay.apply(&frame);
            let until = ReadUntil::Theirs(marks);
            let facts = facts_of(state);
            let beside = wal::recover_live(self.env(), self.dir, log, &facts, self.machine()?, until, visit)?;
            let (end, is_believed) = match beside {
                LiveRead::Read { end, by_marks } => (end, by_marks),
                LiveRead::Moved => return Ok(None),
                LiveRead::Gone(_) if has_changed()? => return Ok(None),
                LiveRead::Gone(end) => ((*end)?, false),
            };
            report.of_end(&end);
            let read = end.next_seqno.map_or(0, |next| next - 1).max(state.permanent_seqno);
            // Each edit counts the commits before it, although most edits do not change the log. These older marks lead
            // to fewer commits.
            if is_believed && visible > read && !is_last {
                return Ok(None);
            }
            visible = visible.max(read);
        }
        Ok(Some(Opened {
            store: found.identity.store,
            visible,
            next_file: Arc::new(AtomicU64::new(found.next_file)),
            log: None,
            manifest: None,
            quarantined: quarantined_of(&found.state),
            expired_through: found.state.expired_through,
            format_level: found.state.format_level,
            lines: found.state.lines.clone(),
            feed: FeedView::of(&found.state),
            leftovers: Vec::new(),
            trash: Vec::new(),
            report: RecoveryReport { commits: replay.commits, lost_values: replay.lost.len() as u64, ..report },
            lost: replay.lost,
            families: replay.families,
            cache: replay.cache,
            dead_files: replay.dead_files,
            open_tables: replay.open_tables,
        }))
    }

    /// Returns the bound on descriptors. Half of the process's limit is left to the host application.
    fn descriptors(&self, beside_a_writer: bool) -> Descriptors {
        let (fs, most) = (self.env().fs.clone(), self.settings.open_tables);
        let limit = || fs.most_open().map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let most = if most == 0 { files_within(limit()) } else { most };
        let files = Descriptors::bounded(fs.clone(), self.dir, most);
        match beside_a_writer {
            false => files,
            true => {
                let (env, dir) = (self.env().clone(), self.dir.to_owned());
                files.beside_a_writer(Box::new(move |name| {
                    Ok(recover(&env, &dir)?.is_some_and(|found| live_files(&found.state, found.number).contains(&name)))
                }))
            }
        }
    }

    /// Opens the blob files that only the log may point into; returns them with their numbers. They are opened between
    /// reading the marks and reading the state. The state needs no frame that points into a file removed earlier, and a
    /// file removed later stays open. A file that cannot be opened is an error of its first reader.
    fn open_values_of_log(&self, state: &ManifestState) -> Result<Vec<(u64, Arc<dyn File>)>> {
        if !state.log_points {
            return Ok(Vec::new());
        }
        let tables = state.families.values().flat_map(|family| family.tables.values());
        let named: BTreeSet<u64> =
            tables.flat_map(|(_, table)| table.values.iter().map(|values| values.file.number)).collect();
        let open = |name: StoreFileName| match name {
            StoreFileName::Values(number) if !named.contains(&number) => {
                let opened = self.env().fs.open(&self.dir.join(name.to_string()), Open::Read);
                opened.ok().map(|file| (number, file))
            }
            _ => None,
        };
        Ok(self.names()?.into_iter().filter_map(open).collect())
    }

    /// Recovers the store, or creates one if the directory has none yet.
    pub(super) fn recover_for_writing(&self, is_new: bool) -> Result<Opened> {
        if is_new {
            return self.create();
        }
        match recover(self.env(), self.dir)? {
            // Records that were damaged in memory while they were written are read from the log once more.
            Some(found) => match self.recover(&found) {
                Err(error) if is_of_the_pass(&error) => match recover(self.env(), self.dir)? {
                    Some(found) => self.recover(&found),
                    None => Err(error),
                },
                outcome => outcome,
            },
            None => Err(no_store(self.dir)),
        }
    }

    /// Creates a store: a manifest without a log, followed by a normal recovery.
    fn create(&self) -> Result<Opened> {
        if self.names()?.iter().any(|name| *name != StoreFileName::Lock) {
            remove_ours(self.dir, self.env())?; // of an interrupted creation
        }
        let options = self.options(DEFAULT_FAMILY).unwrap_or_default();
        let level = FormatLevel::new(self.settings.format_level)?;
        let mut first = Edit::default();
        first.changes.extend((level > FormatLevel::FIRST).then_some(EditChange::FormatLevel(level)));
        first.changes.extend(version::family::creation(0, DEFAULT_FAMILY.to_owned(), &options));
        ManifestState::default().check_level(&first.changes)?;
        // The other families are created later, and no store may be left behind if one is refused.
        for (name, options) in &self.parts.families {
            version::family::creation(0, name.clone(), options).try_for_each(|change| level.check(change.level()))?;
        }
        if is_needed(&FeedState::default(), self.settings) {
            level.check(FormatLevel::RANGES)?;
        }
        Manifest::create(self.env(), self.dir, 1, self.env().random.uid(), &first)?;
        match recover(self.env(), self.dir)? {
            Some(found) => self.recover(&found),
            None => Err(Error::structural("a manifest just made is not there").in_file("CURRENT", 0)),
        }
    }

    fn recover(&self, found: &RecoveredManifest) -> Result<Opened> {
        if found.read_compatible != 0 {
            let what = format!(
                "features {:#x}: a newer version must write this store; it can be opened read-only",
                found.read_compatible
            );
            return Err(Error::of(ErrorKind::FormatTooNew, what));
        }
        if is_needed(&found.state.feed, self.settings) {
            found.state.format_level.check(FormatLevel::RANGES)?;
        }
        let mut names = self.names()?;
        // A file of this name that is no mark is the user's, and stays.
        let is_marked = names.contains(&StoreFileName::Unfinished)
            && version::our_files(self.env(), self.dir)?.contains(&StoreFileName::Unfinished);
        names.retain(|name| *name != StoreFileName::Unfinished);
        if is_marked {
            // A copy that was killed at its end. If `CURRENT` were lost later, a restore would take the store for half
            // a copy and clear the directory.
            version::mark_finished(self.env(), self.dir)?;
        }
        let next_file = Arc::new(AtomicU64::new(found.next_file));
        let counter = next_file.clone();
        let numbers: Numbers = Arc::new(move || counter.fetch_add(1, Ordering::Relaxed));
        let prepared = self.prepare(found, &names, &numbers).and_then(|prepared| {
            let manifest = Manifest::resume(self.env(), self.dir, found, numbers(), &prepared.edit)?;
            Ok((prepared, manifest))
        });
        let (prepared, manifest) = prepared.inspect_err(|_| self.take_back(found.next_file))?;
        let PreparedRecovery { replay, log, last, report, .. } = prepared;
        let before = StoreFileName::Manifest(found.number);
        let is_removed = self.env().fs.remove(&self.dir.join(before.to_string())).is_ok();
        let live: BTreeSet<StoreFileName> = live_files(manifest.state(), manifest.number()).into_iter().collect();
        let keeps_trash = self.settings.trash_bytes > 0;
        let kept_table = |name: &StoreFileName| match name {
            StoreFileName::Trash(number) if keeps_trash => Some(*number),
            _ => None,
        };
        let trash = names.iter().filter_map(kept_table).collect();
        let leftovers = names.into_iter().filter(|name| match name {
            StoreFileName::Cut(_) | StoreFileName::Damaged(_) => false,
            StoreFileName::Temporary => false, // a rotation of the manifest may use it by then
            StoreFileName::Trash(_) => !keeps_trash,
            name => !live.contains(name) && (!is_removed || *name != before),
        });
        let shared = (&replay.cache, &replay.dead_files, &replay.open_tables);
        let families = self.families(manifest.state(), shared)?;
        Ok(Opened {
            store: manifest.store(),
            families,
            quarantined: quarantined_of(manifest.state()),
            expired_through: manifest.state().expired_through,
            format_level: manifest.state().format_level,
            lines: manifest.state().lines.clone(),
            leftovers: leftovers.collect(),
            trash,
            cache: replay.cache,
            dead_files: replay.dead_files,
            open_tables: replay.open_tables,
            visible: last,
            next_file,
            log: Some(log),
            manifest: Some(manifest),
            report,
            lost: replay.lost,
            feed: FeedView::default(),
        })
    }

    /// Removes the files that a failed recovery created, which have this number or a higher one. The log still holds
    /// all of their records, and a full disk must not become fuller with every attempt. If a fresh manifest exists, no
    /// file is removed, because `CURRENT` may name that manifest.
    fn take_back(&self, first: u64) {
        let made = self.names().unwrap_or_default();
        let is_made = |name: StoreFileName| name.number().is_some_and(|number| number >= first);
        if !made.iter().any(|name| matches!(name, StoreFileName::Manifest(_)) && is_made(*name)) {
            self.sweep(&made, &|name| !is_made(name));
        }
    }

    /// Writes everything that the new manifest will name: tables with the log's records, a fresh log, and the cut
    /// bytes. After an error some of these files exist.
    #[cfg_attr(not(feature = "planted"), expect(unused_variables, reason = "only a planted bug takes the names"))]
    fn prepare<'a>(
        &'a self,
        found: &RecoveredManifest,
        names: &[StoreFileName],
        numbers: &'a Numbers,
    ) -> Result<PreparedRecovery<'a>> {
        let (env, started) = (self.env(), self.env().clock.monotonic_nanos());
        let state = &found.state;
        let mut replay = self.replay(found, Some(&**numbers))?;
        let mut kept = KeptLog::of(self, found, numbers);
        let end = match &state.log {
            Some(log) => {
                let visit = &mut |frame: Replayed<'_>| {
                    replay.apply(&frame)?;
                    kept.as_mut().map_or(Ok(()), |kept| kept.take(&frame)).map_err(Stop::Failed)
                };
                let loss = self.settings.accept_loss;
                Some(wal::recover(env, self.dir, log, &facts_of(state), self.machine()?, loss, visit)?)
            }
            None => None,
        };
        let next_seqno = end.as_ref().and_then(|end| end.next_seqno).unwrap_or(1);
        let last = state.last_seqno.max(next_seqno - 1);
        replay.flush_all(last)?;
        let mut edit = Edit::default();
        let report = self.report(end.as_ref(), replay.commits, &**numbers, &mut edit)?;
        let report = RecoveryReport { lost_values: replay.lost.len() as u64, ..report };
        let feed = feed_changes(env, self.settings, state, kept, end.as_ref(), last)?;
        let offset = end.as_ref().map_or(0, |end| end.next_start);
        planted!(RecoveryRecyclesBeforeEdit => { self.sweep(names, &|name| !matches!(name, StoreFileName::Segment(_) | StoreFileName::Ring(_))); });
        // The names of the tables and of the log are durable with that of the manifest, before `CURRENT` is turned to
        // it (I16).
        let log = OpenLog::create(env, (self.dir, &found.identity), self.settings, offset, last, numbers.clone())?;
        edit.changes.append(&mut replay.added);
        edit.changes.extend(replay.lost_ranges());
        edit.changes.extend(self.new_merge_operators(state));
        edit.changes.extend(feed);
        state.check_level(&edit.changes)?;
        edit.changes.extend(self.new_compaction_filters(state));
        edit.changes.extend(state.families.keys().map(|id| EditChange::Flushed { family: *id, seqno: last }));
        let start = log.start();
        edit.changes.push(EditChange::LogStart { place: start.place, ring: start.ring, ring_nonce: start.ring_nonce });
        edit.changes.push(EditChange::Permanent { offset, seqno: last });
        let work = Work {
            engine_event: EngineEvent::Recovered { commits: report.commits, cut_bytes: report.cut_bytes },
            touched: touched_in(state, &edit.changes, false),
            log: state.log.zip(end.as_ref()).map(|(log, end)| (log.place.offset, end.place.offset)),
            seqno: last,
            nanos: env.clock.monotonic_nanos().saturating_sub(started),
        };
        // An open without changes writes no event.
        let any = report.cut_bytes > 0 || !work.touched.is_empty();
        if let Some(engine_log) = self.parts.engine_log.as_ref().filter(|_| any) {
            engine_log.resumes(&mut state.lines.iter().map(|(_, line)| &line[..]));
            add_event(&**engine_log, &mut edit, &work);
            number_events(&mut edit, state);
        }
        Ok(PreparedRecovery { replay, edit, log, last, report })
    }

    /// Saves the cut bytes to a separate file, and reports them.
    fn report(
        &self,
        end: Option<&LogEnd>,
        commits: u64,
        new_number: &(dyn Fn() -> u64 + Sync),
        edit: &mut Edit,
    ) -> Result<RecoveryReport> {
        let mut report = RecoveryReport { commits, ..RecoveryReport::default() };
        let Some(end) = end else { return Ok(report) };
        report.of_end(end);
        if let Some(cut) = planted!(TornTailNotReported, &None, &end.cut) {
            let number = new_number();
            let name = StoreFileName::Cut(number);
            let file = self.env().fs.open(&self.dir.join(name.to_string()), Open::Create);
            let file = file.during(|| format!("creating {name}"))?;
            let mut at = 0;
            let mut keep = |bytes: &[u8]| {
                file.write_at(bytes, at).during(|| format!("writing {name}"))?;
                at += bytes.len() as u64;
                Ok(())
            };
            keep(&cut.offset.to_le_bytes())?;
            wal::set_aside(self.env(), self.dir, cut, &mut keep)?;
            file.sync_data().during(|| format!("syncing {name}"))?;
            edit.changes.push(EditChange::Cut { offset: cut.offset, bytes: cut.bytes, file: number });
            report.cut_bytes = cut.bytes;
            report.cut_at = Some(cut.offset);
            report.set_aside = Some(name.to_string());
        }
        Ok(report)
    }

    fn names(&self) -> Result<Vec<StoreFileName>> {
        let names = self.env().fs.list(self.dir).during(|| "listing the store's directory")?;
        Ok(names.iter().filter_map(|name| StoreFileName::parse(name)).collect())
    }

    /// Removes the store's files that `keep` rejects, and no user files. A file that cannot be removed is removed by
    /// the next open.
    fn sweep(&self, found: &[StoreFileName], keep: &dyn Fn(StoreFileName) -> bool) {
        let is_ours = |name: StoreFileName| version::is_a_stores(&*self.env().fs, self.dir, name);
        for name in found.iter().filter(|name| !keep(**name) && is_ours(**name)) {
            let _ = self.env().fs.remove(&self.dir.join(name.to_string()));
        }
    }

    /// Removes the files that neither a recovery nor a reader needs, because the disk is full: replaced tables that an
    /// earlier process kept, and outputs of jobs that a crash left unnamed. The log may point into value files, unless
    /// the store has never had pointers there. Returns true if this may have freed space.
    pub(super) fn remove_spare_files(&self) -> bool {
        let found = self.names().unwrap_or_default();
        let state = recover(self.env(), self.dir).ok().flatten().map(|found| (found.number, found.state));
        let unnamed = state.map(|(number, state)| {
            let live: BTreeSet<StoreFileName> = live_files(&state, number).into_iter().collect();
            move |name: &StoreFileName| {
                let is_output = match name {
                    StoreFileName::Table(_) => true,
                    StoreFileName::Values(_) => !state.log_points,
                    _ => false,
                };
                is_output && !live.contains(name)
            }
        });
        let is_spare = |name: StoreFileName| {
            matches!(name, StoreFileName::Trash(_)) || unnamed.as_ref().is_some_and(|unnamed| unnamed(&name))
        };
        self.sweep(&found, &|name| !is_spare(name));
        found.into_iter().any(is_spare)
    }

    fn machine(&self) -> Result<Machine> {
        self.env().fs.machine(self.dir).during(|| "asking for the device of the store")
    }

    fn options(&self, name: &str) -> Option<CfOptions> {
        self.parts.families.iter().find(|(of, _)| of == name).map(|(_, options)| options.clone())
    }

    /// Returns the caller's options for a stored family, or else the stored ones; the order must equal the stored one
    /// in both cases.
    fn options_of(&self, stored: &version::FamilyState, given: Option<CfOptions>) -> Result<CfOptions> {
        if let Some(options) = given {
            if options.key_ends_in_seqno
                != version::family::decode(&stored.options, Order::bytewise())?.key_ends_in_seqno
            {
                let what = format!("family {:?}: whether its keys end in seqnos cannot be changed", stored.name);
                return Err(Error::invalid(what));
            }
            if options.system != system_number(stored.id) {
                return Err(Error::invalid(format!("family {:?} has another system number", stored.name)));
            }
            let large_value_bytes = match version::family::knows_value_files(&stored.options)? {
                true => options.large_value_bytes,
                false => 0, // opening a store never raises its format version
            };
            let merge_operator = self.merge_operator_of(stored, options.merge_operator)?;
            // Options that an open without the filter's function has returned have its name alone.
            let filter = options.compaction_filter.filter(CompactionFilter::is_known);
            let stored_filter = || stored.compaction_filter.as_deref().map(|name| self.parts.compaction_filter(name));
            let compaction_filter = filter.or_else(stored_filter);
            return match options.order.name() == stored.comparator {
                true => Ok(CfOptions { large_value_bytes, merge_operator, compaction_filter, ..options }),
                false => Err(mismatch(stored, Some(options.order.name()))),
            };
        }
        let bytewise = Order::bytewise();
        let order = self.parts.orders.iter().chain([&bytewise]).find(|order| order.name() == stored.comparator);
        let Some(order) = order else {
            return Err(mismatch(stored, None));
        };
        let options = self.parts.stored_options(stored, order)?;
        if let Some(codec) = options.missing_codec() {
            let what = format!(
                "family {:?} is packed with {codec}, and this build is one without the feature `{codec}`",
                stored.name
            );
            return Err(Error::of(ErrorKind::FormatTooNew, what));
        }
        // The options are bytes of a file, so values that an application could not set are rejected.
        let too_new = |error| Error::of(ErrorKind::FormatTooNew, format!("family {:?}: {error}", stored.name));
        options.validate().map_err(too_new)?;
        Ok(options)
    }

    /// Returns the merge operator of a stored family: that of the caller's options, or one of the caller's by its name.
    /// Errors: `Invalid` if the options have one with another name.
    fn merge_operator_of(
        &self,
        stored: &version::FamilyState,
        given: Option<MergeOperator>,
    ) -> Result<Option<MergeOperator>> {
        // Options that an open without the operator's function has returned have its name alone.
        let given = given.filter(|given| given.is_known() || stored.merge_operator.is_none());
        match (&stored.merge_operator, given) {
            (Some(stored_name), Some(given)) if given.name() != stored_name => Err(Error::invalid(format!(
                "family {:?} has merge operator {stored_name:?}, and cannot be opened with {:?}",
                stored.name,
                given.name()
            ))),
            (_, Some(given)) => Ok(Some(given)),
            (Some(name), None) => Ok(Some(self.parts.merge_operator(name))),
            (None, None) => Ok(None),
        }
    }

    /// Returns the changes that record the merge operators which the caller's options add to stored families.
    fn new_merge_operators<'s>(&'s self, state: &'s ManifestState) -> impl Iterator<Item = EditChange> + 's {
        state.families.values().filter(|stored| stored.merge_operator.is_none()).filter_map(|stored| {
            let operator = self.options(&stored.name)?.merge_operator?;
            Some(EditChange::MergeOperatorNamed { family: stored.id, name: operator.name().to_owned() })
        })
    }

    /// Returns the changes that record the compaction filters of the caller's options whose names differ from the stored
    /// ones.
    fn new_compaction_filters<'s>(&'s self, state: &'s ManifestState) -> impl Iterator<Item = EditChange> + 's {
        state.families.values().filter_map(|stored| {
            let filter = self.options(&stored.name)?.compaction_filter.filter(CompactionFilter::is_known)?;
            let name = filter.name().to_owned();
            let is_new = stored.compaction_filter.as_ref() != Some(&name);
            is_new.then_some(EditChange::CompactionFilterNamed { family: stored.id, name })
        })
    }

    /// Returns the families of a state with their levels; tables are opened when first read.
    fn families(&self, state: &ManifestState, shared: TableResources<'_>) -> Result<FamilyMap> {
        let mut families = FamilyMap::none(state.next_family);
        let given: HashMap<&str, &CfOptions> =
            self.parts.families.iter().rev().map(|(name, options)| (&name[..], options)).collect();
        for stored in state.families.values() {
            let options = self.options_of(stored, given.get(&stored.name[..]).map(|options| (*options).clone()))?;
            let options = CfOptions { system: system_number(stored.id), ..options };
            let seen_by = (&self.parts.companions, self.notifier);
            let table_cache = table_cache(&stored.name, &options, shared, seen_by);
            let handles = stored.tables.values();
            let handles =
                handles.map(|(level, meta)| (*level as usize, TableHandle::new(meta.clone(), table_cache.clone())));
            let levels = TableLevels::new(options.order.clone(), handles)?;
            let levels = Arc::new(levels);
            let shape = MemtableShape::of(self.settings, &families.memtables);
            let clock = self.env().clock.clone();
            let family =
                Family::new(stored.id, &stored.name, options, (shape, clock), table_cache.clone(), levels.clone());
            if planted!(FenceForgottenAfterReopen, false, !stored.lost_ranges.is_empty()) {
                let lost_ranges: Vec<_> =
                    stored.lost_ranges.iter().map(|(id, lost_range)| (*id, lost_range.clone())).collect();
                family.install(levels.clone(), &ViewDelta { fenced: &lost_ranges, ..ViewDelta::default() });
            }
            if !stored.range_deletes.is_empty() {
                let ranged: Vec<_> = stored.range_deletes.values().cloned().collect();
                family.install(levels, &ViewDelta { ranged: &ranged, ..ViewDelta::default() });
                family.index_range_deletes();
            }
            families.add(family);
        }
        Ok(families)
    }

    fn replay<'a>(
        &'a self,
        found: &RecoveredManifest,
        new_number: Option<&'a (dyn Fn() -> u64 + Sync)>,
    ) -> Result<Replay<'a>> {
        let state = &found.state;
        let own = || {
            let cache = self.parts.cache.clone().unwrap_or_else(|| Arc::new(cache_of(self.settings)));
            (cache, Arc::new(self.descriptors(new_number.is_none())))
        };
        let (cache, files) = self.kept.clone().unwrap_or_else(own);
        let dead_files = Arc::new(ObsoleteList::default());
        let open_tables = Arc::new(self.open_tables(files));
        let tables = state.families.values().map(|family| family.tables.len()).sum();
        if let Some(files) = open_tables.outgrown(tables) {
            self.env().fs.expect_open(self.dir, files as u64);
        }
        let families = self.families(state, (&cache, &dead_files, &open_tables))?;
        let flushed = state.families.values().map(|family| (family.id, family.flushed)).collect();
        Ok(Replay {
            opening: self,
            new_number,
            store: found.identity.store,
            families,
            flushed,
            added: Vec::new(),
            commits: 0,
            binding: Binding::default(),
            target: None,
            cache,
            dead_files,
            open_tables,
            unsynced: UnsyncedTables::new(MOST_UNSYNCED),
            values: LoggedValues::new(self.env().fs.clone(), self.dir, self.parts.companions.clone()),
            came_in: 0,
            lost: Vec::new(),
            next_lost: 0,
        })
    }

    /// Returns the bound on the memory of open tables.
    fn open_tables(&self, files: Arc<Descriptors>) -> OpenTables {
        let Settings { index_bytes, memory_bytes, .. } = *self.settings;
        // Indexes may take at most half of the budget, so that blocks and memtables keep a share.
        let index_bytes = if memory_bytes > 0 { index_bytes.min(memory_bytes / 2) } else { index_bytes };
        OpenTables::bounded(index_bytes, files)
    }
}

/// Files that a store has open besides table and blob files: log, ring, manifest, lock, directory, and outputs of jobs.
const OTHER_FILES: usize = 24;

/// Returns how many table and blob files a process with a limit of `limit` open files may keep open. Half of the limit
/// is left to the host application, and a quarter of our half to blob files being written.
fn files_within(limit: usize) -> usize {
    let ours = (limit / 2).saturating_sub(OTHER_FILES);
    (ours - ours / 4).max(FEWEST_FILES)
}

/// The fewest descriptors with which a store can still read its tables.
const FEWEST_FILES: usize = 4;

/// Opens the files of tables, up to the bound, so that they stay readable after a writer removes them. Returns true if
/// a file is missing.
fn pin(replay: &Replay<'_>) -> bool {
    let mut room = replay.open_tables.files().most();
    let mut any_missing = false;
    let views: Vec<_> = replay.families.by_id.values().map(|family| family.pinned_view()).collect();
    let tables = views.iter().flat_map(|view| view.levels.iter().flat_map(|level| level.tables()));
    for table in tables {
        let Some(left) = room.checked_sub(table.files()) else { break };
        room = left;
        // All tables are opened, even after a missing file was found.
        any_missing |= table.open_files().is_err_and(|error| {
            error.needs_refresh() || error.damage().is_some_and(|damage| damage.verdict == Verdict::Missing)
        });
    }
    any_missing
}

/// The files that a recovery wrote, and the edit that names them.
struct PreparedRecovery<'a> {
    replay: Replay<'a>,
    edit: Edit,
    log: OpenLog,
    /// The last seqno in the log.
    last: Seqno,
    report: RecoveryReport,
}

/// How often a reader retries when a writer changes files during the read.
const READ_ATTEMPTS: usize = 16;

fn moved() -> Error {
    Error::io("reading beside a writer", std::io::Error::new(std::io::ErrorKind::ResourceBusy, "files keep changing"))
}

/// Returns the quarantined tables.
fn quarantined_of(state: &ManifestState) -> Vec<u64> {
    let quarantined = state.families.values().flat_map(|family| family.quarantined.iter().copied());
    planted!(BarForgotten, Vec::new(), quarantined.collect())
}

/// Returns the files of a store, except those that its log will create.
fn live_files(state: &ManifestState, manifest: u64) -> Vec<StoreFileName> {
    let tables = state.families.values().flat_map(|family| family.tables.values());
    let tables = tables.flat_map(|(_, table)| {
        let values = table.values.iter().map(|values| StoreFileName::Values(values.file.number));
        [StoreFileName::Table(table.number)].into_iter().chain(values)
    });
    let log =
        state.log.iter().flat_map(|log| [StoreFileName::Segment(log.place.segment), StoreFileName::Ring(log.ring)]);
    let feed = state.feed.segments.values().map(KeptSegment::name).chain(state.feed.files.keys().copied());
    tables
        .chain(feed)
        .chain(log)
        .chain([StoreFileName::Manifest(manifest), StoreFileName::Current, StoreFileName::Lock])
        .collect()
}

/// Returns the error of a family that is opened with another order than the stored one.
fn mismatch(stored: &version::FamilyState, given: Option<&str>) -> Error {
    let (family, stored, given) = (stored.name.clone(), stored.comparator.clone(), given.map(str::to_owned));
    OrderMismatch { family, stored, given }.into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::db::{Db, Parts};
    use crate::env::sim::SimFs;

    /// A manifest is bytes of a file: sizes that an option could not have are rejected.
    #[test]
    fn sizes_that_nobody_may_give_are_refused() {
        let wrong = [
            CfOptions { block_bytes: 1 << 40, ..CfOptions::default() },
            CfOptions { table_bytes: 0, ..CfOptions::default() },
        ];
        for options in wrong {
            let (env, dir) = (SimFs::new(1).env(1), Path::new("/store"));
            env.fs.create_dir_all(dir).unwrap();
            let first = Edit::from(vec![EditChange::FamilyCreated {
                id: 0,
                name: DEFAULT_FAMILY.to_owned(),
                comparator: Order::bytewise().name().to_owned(),
                options: version::family::encode(&options),
            }]);
            // Manifest 1 without a log is an interrupted creation.
            Manifest::create(&env, dir, 2, env.random.uid(), &first).unwrap();
            let refused = Db::open(dir, Settings::default(), Parts { env, ..Parts::real() }).map(drop).unwrap_err();
            assert_eq!(*refused.kind(), ErrorKind::FormatTooNew, "{refused}");
        }
    }
}
