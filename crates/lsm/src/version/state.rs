//! The result of all edits so far: the contents of the first edit in a new manifest, and the starting point of a
//! reopened store.
//!
//! Pure. An edit that does not fit is rejected; a state that rejected one must not be used further (work on a clone).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::edit::{Edit, EditChange};
use super::event_log::{EventLine, EventLines};
use super::feed::{FeedEdit, FeedState};
use super::table_meta::TableMeta;
use crate::checksum::Uid;
use crate::error::Error;
use crate::format_level::FormatLevel;
use crate::ledger::Ledger;
use crate::lost_range::LostRange;
use crate::names::system_number;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::record::Seqno;
use crate::table_property::CollectedSets;
use crate::values::BlobMeta;
use crate::wal::{LogPlace, LogStart};

/// The state of the store, as far as the manifest records it. Clones share unchanged parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestState {
    /// The column families by id.
    pub families: RedBlackTreeMapSync<u32, Arc<FamilyState>>,
    /// Their ids by name.
    ids: RedBlackTreeMapSync<Arc<str>, u32>,
    /// Number of tables of all families.
    tables: usize,
    /// The position where reading of the log begins; `None` before the first log was named.
    pub log: Option<LogStart>,
    /// Sealed segments that are still needed, by number; each with its end.
    pub sealed: BTreeMap<u64, LogPlace>,
    /// The format level: as recorded, and at least that of what the manifest names.
    pub format_level: FormatLevel,
    /// True if frames of the log may point into value files.
    pub log_points: bool,
    /// True if frames of the log may hold range deletes.
    pub log_deletes_ranges: bool,
    /// The log offset below which edits made commits permanent.
    pub permanent_offset: u64,
    /// The seqno up to which edits made commits permanent.
    pub permanent_seqno: Seqno,
    /// The greatest log offset that was observed to be durable.
    pub log_witness: u64,
    /// A number above every file number in use.
    pub next_file: u64,
    /// The greatest recorded seqno; the log may hold greater ones.
    pub last_seqno: Seqno,
    /// An id above every family id ever used.
    pub next_family: u32,
    /// The cuts that recoveries made in the log.
    pub cuts: Vec<RecordedCut>,
    /// Compactions have dropped records that expired by this time, in microseconds since 1970.
    pub expired_through: u64,
    /// The event log entries.
    pub lines: EventLines,
    /// What the change feed keeps.
    pub feed: Arc<FeedState>,
    /// The items of value files of which any are known.
    value_items: RedBlackTreeMapSync<Uid, ValueItems>,
}

/// The items of a value file, and the number of tables that point into it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ValueItems {
    tables: u64,
    collected: CollectedSets,
}

/// One column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyState {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The name of its order.
    pub comparator: String,
    /// Its options, for `family::decode`.
    pub options: Vec<u8>,
    /// The name of its merge operator; `None` if it never had one.
    pub merge_operator: Option<String>,
    /// The name of its compaction filter; `None` if it never had one.
    pub compaction_filter: Option<String>,
    /// All records up to this seqno are in tables.
    pub flushed: Seqno,
    /// Its tables by number, each with its level.
    pub tables: BTreeMap<u64, (u8, Arc<TableMeta>)>,
    /// Ranges in which records were permanently lost, by number.
    pub lost_ranges: BTreeMap<u64, Arc<LostRange>>,
    /// The range deletes that tables may need, by seqno.
    pub range_deletes: BTreeMap<Seqno, Arc<RangeDelete>>,
    /// Numbers of the quarantined tables.
    pub quarantined: BTreeSet<u64>,
    /// Counts and sums of the records that compactions dropped because they had expired.
    pub expired: Ledger,
    /// Counts and sums of the records that compaction filters dropped.
    pub filter_dropped: Ledger,
    /// Counts and sums of the original records that compaction filters changed.
    pub filter_changed: Ledger,
}

/// A cut that a recovery made in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCut {
    /// The logical offset of the log's new end.
    pub offset: u64,
    /// Number of bytes set aside.
    pub bytes: u64,
    /// The number of the `.cut` file that holds them.
    pub file: u64,
}

impl ManifestState {
    /// Applies one edit. If the edit does not fit, returns the reason; the state is then partially changed.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), &'static str> {
        edit.changes.iter().try_for_each(|change| {
            self.format_level = self.format_level.max(change.level());
            self.change(change)
        })?;
        // At the end: a table may be removed before another one that points into the same file is added.
        let unnamed = self.value_items.iter().filter(|(_, items)| items.tables == 0).map(|(uid, _)| *uid);
        for uid in unnamed.collect::<Vec<_>>() {
            self.value_items.remove_mut(&uid);
        }
        Ok(())
    }

    /// Returns an edit with the items of the value files that it names first, before its other changes.
    pub(super) fn with_value_items<'a>(&self, edit: &'a Edit) -> Cow<'a, Edit> {
        let mut new = BTreeMap::new();
        for change in &edit.changes {
            let EditChange::TableAdded { table, .. } = change else { continue };
            for BlobMeta { uid, collected, .. } in table.values.iter().map(|values| &*values.file) {
                if !collected.is_empty() && !self.value_items.contains_key(uid) {
                    new.insert(*uid, collected.clone());
                }
            }
        }
        if new.is_empty() {
            return Cow::Borrowed(edit);
        }
        let new = new.into_iter().map(|(uid, collected)| EditChange::ValuesCollected { uid, collected });
        Cow::Owned(Edit { changes: new.chain(edit.changes.iter().cloned()).collect() })
    }

    /// Returns an edit that makes an empty state equal to this one.
    pub fn snapshot(&self) -> Edit {
        let mut changes = vec![EditChange::Counters {
            next_file: self.next_file,
            last_seqno: self.last_seqno,
            next_family: self.next_family,
        }];
        if self.format_level > FormatLevel::FIRST {
            changes.push(EditChange::FormatLevel(self.format_level));
        }
        changes.extend(self.value_items.iter().map(|(uid, ValueItems { collected, .. })| {
            EditChange::ValuesCollected { uid: *uid, collected: collected.clone() }
        }));
        for family in self.families.values() {
            changes.push(EditChange::FamilyCreated {
                id: family.id,
                name: family.name.clone(),
                comparator: family.comparator.clone(),
                options: family.options.clone(),
            });
            let operator = family.merge_operator.clone();
            changes.extend(operator.map(|name| EditChange::MergeOperatorNamed { family: family.id, name }));
            let filter = family.compaction_filter.clone();
            changes.extend(filter.map(|name| EditChange::CompactionFilterNamed { family: family.id, name }));
            changes.push(EditChange::Flushed { family: family.id, seqno: family.flushed });
            changes.extend(family.tables.values().map(|(level, table)| EditChange::TableAdded {
                family: family.id,
                level: *level,
                table: Arc::clone(table),
            }));
            changes.extend(
                family
                    .quarantined
                    .iter()
                    .map(|number| EditChange::TableQuarantined { family: family.id, number: *number }),
            );
            changes.extend(family.lost_ranges.iter().map(|(id, lost_range)| EditChange::LostRangeAdded {
                family: family.id,
                id: *id,
                lost_range: Arc::clone(lost_range),
            }));
            changes.extend(
                family
                    .range_deletes
                    .values()
                    .map(|range| EditChange::RangeDeleteAdded { family: family.id, range: Arc::clone(range) }),
            );
            let (dropped, changed) = (family.filter_dropped, family.filter_changed);
            if dropped.count() + changed.count() > 0 {
                changes.push(EditChange::Filtered { family: family.id, dropped, changed });
            }
            let (family, through, dropped) = (family.id, self.expired_through, family.expired);
            let any = dropped.count() > 0;
            changes.extend(any.then_some(EditChange::Expired { family, through, dropped }));
        }
        if let Some(LogStart { place, ring, ring_nonce }) = self.log {
            changes.push(EditChange::LogStart { place, ring, ring_nonce });
        }
        if self.log_points {
            changes.push(EditChange::LogPoints);
        }
        if self.log_deletes_ranges {
            changes.push(EditChange::LogDeletesRanges);
        }
        changes.extend(self.sealed.values().copied().map(EditChange::SegmentSealed));
        changes.push(EditChange::Permanent { offset: self.permanent_offset, seqno: self.permanent_seqno });
        changes.push(EditChange::LogWitness { offset: self.log_witness });
        changes.extend(self.cuts.iter().map(|RecordedCut { offset, bytes, file }| EditChange::Cut {
            offset: *offset,
            bytes: *bytes,
            file: *file,
        }));
        changes.extend(self.feed.snapshot().map(EditChange::Feed));
        if self.lines.taken_out() > 0 {
            changes.push(EditChange::LinesTakenOut { through: self.lines.taken_out() });
        }
        let line = |(number, bytes): &EventLine| EditChange::Line { number: *number, bytes: Arc::clone(bytes) };
        planted!(LinesLostAtRotation, (), changes.extend(self.lines.iter().map(line)));
        Edit { changes }
    }

    /// Returns the same tables without a log: the starting point for a copy of the store, which begins a new log. The copy
    /// begins a new history of the change feed (`FeedState::of_copy`).
    pub fn without_log(&self) -> ManifestState {
        ManifestState {
            log: None,
            log_points: false,
            sealed: BTreeMap::new(),
            permanent_offset: 0,
            log_witness: 0,
            cuts: Vec::new(),
            feed: Arc::new(self.feed.without_log()),
            ..self.clone()
        }
    }

    /// Checks that the store's format level allows changes. A change of the level allows what it adds. Errors: `Invalid`.
    pub fn check_level(&self, changes: &[EditChange]) -> Result<(), Error> {
        let raised =
            changes.iter().filter(|change| matches!(change, EditChange::FormatLevel(_))).map(EditChange::level);
        let level = raised.fold(self.format_level, FormatLevel::max);
        changes.iter().try_for_each(|change| level.check(change.level()))
    }

    /// Returns the number of tables of all families.
    pub fn tables(&self) -> usize {
        self.tables
    }

    /// Returns the family with this name.
    pub fn family(&self, name: &str) -> Option<&Arc<FamilyState>> {
        self.ids.get(name).and_then(|id| self.families.get(id))
    }

    fn change(&mut self, change: &EditChange) -> Result<(), &'static str> {
        match change {
            EditChange::FamilyCreated { id, name, comparator, options } => {
                if self.families.contains_key(id) || self.family(name).is_some() {
                    return Err("creates a family that exists");
                }
                let family = FamilyState {
                    id: *id,
                    name: name.clone(),
                    comparator: comparator.clone(),
                    options: options.clone(),
                    merge_operator: None,
                    compaction_filter: None,
                    flushed: 0,
                    tables: BTreeMap::new(),
                    lost_ranges: BTreeMap::new(),
                    range_deletes: BTreeMap::new(),
                    quarantined: BTreeSet::new(),
                    expired: Ledger::default(),
                    filter_dropped: Ledger::default(),
                    filter_changed: Ledger::default(),
                };
                self.families.insert_mut(*id, Arc::new(family));
                self.ids.insert_mut(name.as_str().into(), *id);
                if system_number(*id).is_none() {
                    self.next_family = self.next_family.max(id.saturating_add(1));
                }
            }
            EditChange::FamilyDropped { id } => {
                let dropped = self.families.get(id).cloned().ok_or("drops a family that does not exist")?;
                self.families.remove_mut(id);
                self.ids.remove_mut(&dropped.name[..]);
                self.tables -= dropped.tables.len();
                dropped.tables.values().for_each(|(_, table)| self.release_values(table));
            }
            EditChange::TableAdded { family, level, table } => {
                let table = self.hold_values(table);
                if self.named(*family)?.tables.insert(table.number, (*level, Arc::clone(&table))).is_some() {
                    return Err("adds a table that exists");
                }
                self.tables += 1;
                self.saw_file(table.number);
                table.values.iter().for_each(|values| self.saw_file(values.file.number));
                self.last_seqno = self.last_seqno.max(table.newest_seqno());
            }
            EditChange::TableRemoved { family, level, number } => {
                let family = self.named(*family)?;
                family.quarantined.remove(number);
                let removed = family.tables.remove(number).filter(|(was, _)| was == level);
                let (_, removed) = removed.ok_or("removes a table that does not exist")?;
                self.tables -= 1;
                self.release_values(&removed);
            }
            EditChange::Flushed { family, seqno } => {
                let family = self.named(*family)?;
                family.flushed = family.flushed.max(*seqno);
                self.last_seqno = self.last_seqno.max(*seqno);
            }
            EditChange::LogStart { place, ring, ring_nonce } => {
                self.log = Some(LogStart { place: *place, ring: *ring, ring_nonce: *ring_nonce });
                self.sealed.retain(|_, end| end.offset > place.offset);
                self.saw_file(place.segment);
                self.saw_file(*ring);
            }
            EditChange::SegmentSealed(place) => {
                self.sealed.insert(place.segment, *place);
                self.saw_file(place.segment);
            }
            EditChange::Permanent { offset, seqno } => {
                self.permanent_offset = self.permanent_offset.max(*offset);
                self.permanent_seqno = self.permanent_seqno.max(*seqno);
                self.last_seqno = self.last_seqno.max(*seqno);
            }
            EditChange::Counters { next_file, last_seqno, next_family } => {
                self.next_file = self.next_file.max(*next_file);
                self.last_seqno = self.last_seqno.max(*last_seqno);
                self.next_family = self.next_family.max(*next_family);
            }
            EditChange::SegmentRetired { segment } => {
                self.sealed.remove(segment);
            }
            EditChange::FormatLevel(_) => {}
            EditChange::LogPoints => self.log_points = true,
            EditChange::LogDeletesRanges => self.log_deletes_ranges = true,
            EditChange::RangeDeleteAdded { family, range } => {
                if self.named(*family)?.range_deletes.insert(range.seqno, Arc::clone(range)).is_some() {
                    return Err("adds a range delete that exists");
                }
                self.last_seqno = self.last_seqno.max(range.seqno);
            }
            EditChange::RangeDeleteRetired { family, seqno } => {
                self.named(*family)?.range_deletes.remove(seqno).ok_or("retires a range delete that does not exist")?;
            }
            EditChange::MergeOperatorNamed { family, name } => {
                let stored = self.named(*family)?.merge_operator.get_or_insert_with(|| name.clone());
                if stored != name {
                    return Err("gives a family another merge operator");
                }
            }
            EditChange::OptionsChanged { family, options } => self.named(*family)?.options.clone_from(options),
            EditChange::LogWitness { offset } => self.log_witness = self.log_witness.max(*offset),
            EditChange::Cut { offset, bytes, file } => {
                self.cuts.push(RecordedCut { offset: *offset, bytes: *bytes, file: *file });
                self.saw_file(*file);
            }
            EditChange::LostRangeAdded { family, id, lost_range } => {
                if self.named(*family)?.lost_ranges.insert(*id, Arc::clone(lost_range)).is_some() {
                    return Err("adds a fence that exists");
                }
                self.saw_file(*id);
            }
            EditChange::LostRangeLifted { family, id } => {
                self.named(*family)?.lost_ranges.remove(id).ok_or("lifts a fence that does not exist")?;
            }
            EditChange::TableQuarantined { family, number } => {
                let family = self.named(*family)?;
                if !family.tables.contains_key(number) {
                    return Err("bars a table that does not exist");
                }
                family.quarantined.insert(*number);
            }
            EditChange::Line { number, bytes } => {
                if !self.lines.add(*number, Arc::clone(bytes)) {
                    return Err("gives the number of a line again");
                }
            }
            EditChange::Expired { family, through, dropped } => {
                self.named(*family)?.expired.merge(dropped);
                self.expired_through = self.expired_through.max(*through);
            }
            EditChange::CompactionFilterNamed { family, name } => {
                self.named(*family)?.compaction_filter = Some(name.clone());
            }
            EditChange::Filtered { family, dropped, changed } => {
                let family = self.named(*family)?;
                family.filter_dropped.merge(dropped);
                family.filter_changed.merge(changed);
            }
            EditChange::LinesTakenOut { through } => self.lines.take_out(*through),
            EditChange::Feed(feed) => {
                match feed {
                    FeedEdit::SegmentKept(segment) => self.saw_file(segment.number),
                    FeedEdit::FileKept(file) => self.saw_file(file.name.number().unwrap_or(0)),
                    _ => {}
                }
                Arc::make_mut(&mut self.feed).apply(feed)?;
            }
            EditChange::ValuesCollected { uid, collected } => {
                if !self.value_items.contains_key(uid) {
                    self.value_items.insert_mut(*uid, ValueItems { tables: 0, collected: collected.clone() });
                }
            }
            EditChange::Skipped { .. } => {}
        }
        Ok(())
    }

    /// Counts a table among those that point into its value files. Returns it with the items of these files.
    fn hold_values(&mut self, table: &Arc<TableMeta>) -> Arc<TableMeta> {
        let mut table = Arc::clone(table);
        for at in 0..table.values.len() {
            let file = Arc::clone(&table.values[at].file);
            match self.value_items.get_mut(&file.uid) {
                Some(items) => {
                    items.tables += 1;
                    if file.collected.is_empty() {
                        let collected = items.collected.clone();
                        let file = Arc::new(BlobMeta { collected, ..BlobMeta::clone(&file) });
                        Arc::make_mut(&mut table).values[at].file = file;
                    }
                }
                None if file.collected.is_empty() => {}
                None => {
                    let collected = file.collected.clone();
                    self.value_items.insert_mut(file.uid, ValueItems { tables: 1, collected });
                }
            }
        }
        table
    }

    /// Counts a removed table no longer among those that point into its value files.
    fn release_values(&mut self, table: &TableMeta) {
        for values in &table.values {
            if let Some(items) = self.value_items.get_mut(&values.file.uid) {
                items.tables = items.tables.saturating_sub(1);
            }
        }
    }

    fn named(&mut self, family: u32) -> Result<&mut FamilyState, &'static str> {
        let family = self.families.get_mut(&family);
        family.map(Arc::make_mut).ok_or("names a family that does not exist")
    }

    fn saw_file(&mut self, number: u64) {
        self.next_file = self.next_file.max(number.saturating_add(1));
    }
}
