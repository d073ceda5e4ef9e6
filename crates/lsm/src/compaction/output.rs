//! Writes records into tables: the pass that flushes and compactions share.
//!
//! In:     a cursor over the merged inputs in internal order, and the ledger computed from the inputs' own records
//!         (never from the merge).
//! Out:    table and value files, written and synced but not yet named by an edit (I04 is the caller's duty: directory
//!         sync, then edit); and the rows that a flush produces for other families, with their ledger.
//! Holds:  no user key spans two tables (I05); versions visible to a live snapshot are kept (I08); the ledger balances
//!         (I11). A record is checked before it is dropped, since a damaged key, seqno or kind could be the reason for
//!         the drop. Records out of order end the pass, since a newer version that comes too late would be dropped in
//!         favor of an older one. A record from a source in which every record has a companion must have one in the
//!         finished block, or the pass fails.
//! Ledger: by kind, count and sum of terms:
//!         what the inputs' own ledgers say (memtables: counted at insert; tables: counted in their finished blocks)
//!         + the protector's additions: terms of records that had none (adopted) and of new values (derived)
//!         = the contents of the finished blocks of all outputs + the dropped records.
//! A damaged companion that is corrected has its original term; one that is rebuilt over damaged bytes, or lost, leaves
//! a gap. Rows for other families are counted when they are produced and again in their own finished blocks.
//! Damage: a first pass detects it in a finished block and cannot determine its source. The second one
//!         (`PassOptions::checks_inputs`) checks each record at its source, and reports the file and the block.
//! Crash:  leaves files that no edit names; the next open deletes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::checksum::{Uid, hash_key};
use crate::compaction_filter::FilterDecision;
use crate::cursor::Cursor;
use crate::env::Open;
use crate::error::{Damage, Error, ErrorKind, IoContext, Result, Verdict};
use crate::inject;
use crate::interrupt;
use crate::ledger::Ledger;
use crate::names::StoreFileName;
use crate::options::KIB;
use crate::planted;
use crate::range_index::RangeIndex;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::{
    Build, Check, DropReason, Emitted, Emitting, PassRecord, Protection, RecordSource, RowRewriter, is_over,
};
use crate::sst::{CompanionSummary, Finished, Writer, WriterSettings, not_served};
use crate::values::BlobBuffer;
use crate::version::TableMeta;

mod folding;

use super::blob_separation::{BlobRefs, BlobSeparation, NewBlobFiles, record_blob_refs};
use super::filter;
pub use super::filter::{FilterCounts, FilterRule};
use super::fold::Fold;
pub use super::fold::MergeRule;
pub use super::job::CompactionJob;
pub use super::pass::{EmittedRows, ExpiryRule, PassOptions, PassResult};
use super::rules::{RecordDecision, Rules};
use super::split::Splitter;

/// A pass checks for cancellation and for its write rate once per this many bytes of records.
const CHECKED_BYTES: usize = 64 * KIB;

/// Bytes that a record counts for this purpose, in addition to its value.
const CHECKED_RECORD_BYTES: usize = 64;

/// Writes the records of `cursor` that `rules` keeps into tables whose ends `splitter` decides.
///
/// On any error the files written so far are removed; `CompactionJob::left` knows those that cannot be.
pub fn write_tables(
    job: &CompactionJob<'_>,
    cursor: &mut dyn Cursor,
    rules: Rules<impl FnMut(&[u8]) -> bool>,
    splitter: Splitter,
) -> Result<Vec<TableMeta>> {
    write_pass(job, &PassOptions::default(), cursor, rules, splitter).map(|written| written.tables)
}

/// Writes tables like `write_tables`, with the deviations in `pass`.
pub fn write_pass(
    job: &CompactionJob<'_>,
    pass: &PassOptions<'_>,
    cursor: &mut dyn Cursor,
    rules: Rules<impl FnMut(&[u8]) -> bool>,
    splitter: Splitter,
) -> Result<PassResult> {
    let done = write_span(job, pass, cursor, rules, splitter, PartRange::default());
    close(job, pass, [done])
}

/// The key range of a part of a pass: the first bound is inclusive, the second exclusive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartRange<'a> {
    pub(super) from: Option<&'a [u8]>,
    pub(super) to: Option<&'a [u8]>,
    /// Set when another part has failed: this one stops with `Closed`.
    pub(super) stop: Option<&'a AtomicBool>,
}

/// The result of a part of a pass.
pub(super) struct PartOutput {
    outcome: Result<()>,
    written: PassResult,
    /// Files created, finished or not.
    names: Vec<StoreFileName>,
    /// The value files that each table points into, and those that were written.
    refs: Vec<BlobRefs>,
    made: NewBlobFiles,
    /// Terms that the protector added, by kind; for rows that it made, counts only.
    derived: Ledger,
    /// Ledger of the dropped records.
    dropped: Ledger,
}

impl PartOutput {
    pub(super) fn has_failed(&self) -> bool {
        self.outcome.is_err()
    }
}

/// Writes the records that a pass keeps within a span of keys. The files stay, whatever the result, until `close`.
pub(super) fn write_span(
    job: &CompactionJob<'_>,
    pass: &PassOptions<'_>,
    cursor: &mut dyn Cursor,
    mut rules: Rules<impl FnMut(&[u8]) -> bool>,
    mut splitter: Splitter,
    span: PartRange<'_>,
) -> PartOutput {
    let carried = pass.carried.clone().unwrap_or_else(|| CompanionSummary::of_protector(&**job.companions));
    let mut outputs = Outputs {
        job,
        pass,
        span,
        is_strange: carried.is_strange_to(&**job.companions),
        carried,
        open: None,
        written: PassResult::default(),
        given: Vec::new(),
        values: BlobSeparation::new(job, &pass.collects),
        refs: Vec::new(),
        names: Vec::new(),
        companion: Vec::new(),
        derived: Ledger::default(),
        dropped: Ledger::default(),
        fold: pass.merges.map(|rule| Fold::new(rule, job.companions)),
        retains: false,
        is_fresh: true,
        paced: 0,
    };
    let outcome = inject::along(cursor, |cursor| outputs.run(cursor, &mut rules, &mut splitter));
    let Outputs { written, names, refs, values, derived, dropped, .. } = outputs;
    let made = values.into_made();
    PartOutput { outcome, written, names, refs, made, derived, dropped }
}

/// Joins the parts of a pass, in key order: concatenates their tables, and balances one ledger over all of them (I11).
/// On any error all files are removed; `CompactionJob::left` knows those that cannot be removed.
pub(super) fn close(
    job: &CompactionJob<'_>,
    pass: &PassOptions<'_>,
    parts: impl IntoIterator<Item = PartOutput>,
) -> Result<PassResult> {
    let (mut written, mut names, mut outcome) = (PassResult::default(), Vec::new(), Ok(()));
    let (mut derived, mut dropped) = (Ledger::default(), Ledger::default());
    let (mut refs, mut made) = (Vec::new(), NewBlobFiles::new());
    for part in parts {
        written.receive(part.written);
        names.extend(part.names);
        refs.extend(part.refs);
        made.extend(part.made);
        derived.merge(&part.derived);
        dropped.merge(&part.dropped);
        // The error of a stopped part is less informative than that of the failed part.
        let is_stopped = |outcome: &Result<()>| matches!(outcome, Err(error) if *error.kind() == ErrorKind::Closed);
        if outcome.is_ok() || (is_stopped(&outcome) && part.outcome.is_err()) {
            outcome = part.outcome;
        }
    }
    let cleared_through = pass.ranges_through.min(written.hidden_by.map_or(Seqno::MAX, |seqno| seqno - 1));
    written.tables.iter_mut().for_each(|table| table.cleared_through = cleared_through);
    let outcome = outcome.and_then(|()| record_blob_refs(job, &made, &mut written.tables, &refs));
    let outcome = outcome.and_then(|()| balance(job, pass, &written.tables, &derived, &dropped));
    if outcome.is_err() {
        for name in names {
            job.left.remove(&*job.env.fs, job.dir, name);
        }
    }
    outcome.map(|()| written)
}

/// Balances the ledger (I11): see the module's documentation.
fn balance(
    job: &CompactionJob<'_>,
    pass: &PassOptions<'_>,
    tables: &[TableMeta],
    derived: &Ledger,
    dropped: &Ledger,
) -> Result<()> {
    let mut accounted = *dropped;
    for table in tables {
        accounted.merge(&table.ledger);
    }
    let mut expected = job.expected;
    expected.merge(derived);
    let is_strange = pass.carried.as_ref().is_some_and(|carried| carried.is_strange_to(&**job.companions));
    let summed = job.summed && !is_strange && job.companions.protection() != Protection::None;
    planted!(LedgerIgnored => return Ok(()));
    if accounted == expected || (!summed && accounted.counts() == expected.counts()) {
        return Ok(());
    }
    let damage = Damage {
        verdict: Verdict::Ledger,
        expected: Some(expected.count()),
        found: Some(accounted.count()),
        ..Damage::default()
    };
    let what = format!("the ledger does not close: in {expected:?}, out and dropped {accounted:?}");
    Err(Error::corruption(damage, what))
}

struct Outputs<'a> {
    job: &'a CompactionJob<'a>,
    pass: &'a PassOptions<'a>,
    span: PartRange<'a>,
    carried: CompanionSummary,
    /// True if the protector does not know the companions of these records: it only carries them along.
    is_strange: bool,
    open: Option<OpenOutput>,
    written: PassResult,
    /// Buffer for the rows that one record produces.
    given: Vec<Emitted>,
    values: BlobSeparation<'a>,
    refs: Vec<BlobRefs>,
    names: Vec<StoreFileName>,
    /// Buffer for a companion that the protector rewrites.
    companion: Vec<u8>,
    derived: Ledger,
    dropped: Ledger,
    /// The merge operands of the current key; `None` if the pass folds none.
    fold: Option<Fold<'a>>,
    /// True if a record of the open table retains another one.
    retains: bool,
    /// True if no version of the current key has been written: a table may end here.
    is_fresh: bool,
    /// Bytes already reported to the rate limiter.
    paced: u64,
}

/// A record that is dropped unless an older version of its key is kept.
#[derive(Default)]
struct HeldRecord {
    /// The record, or an earlier one whose buffers are reused.
    row: Option<PassRecord>,
    /// The drop reason and the ledger term; `None` if no record is held.
    reason: Option<(DropReason, u64)>,
}

impl HeldRecord {
    fn take(&mut self, record: &Record<'_>, protection: Protection, reason: (DropReason, u64)) {
        match &mut self.row {
            Some(row) => row.set(record, protection),
            None => self.row = Some(PassRecord::copy(record, protection)),
        }
        self.reason = Some(reason);
    }

    /// Holds a tombstone that the pass has made: no input record has its term.
    fn take_made(&mut self, made: PassRecord) {
        self.row = Some(made);
        self.reason = Some((DropReason::Tombstone, 0));
    }

    /// Returns and clears the held record, if there is one.
    fn release(&mut self) -> Option<(&PassRecord, (DropReason, u64))> {
        let reason = self.reason.take()?;
        self.row.as_ref().map(|row| (row, reason))
    }
}

struct OpenOutput {
    number: u64,
    uid: Uid,
    file: Arc<dyn crate::env::File>,
    writer: Writer,
}

impl Outputs<'_> {
    fn run(
        &mut self,
        cursor: &mut dyn Cursor,
        rules: &mut Rules<impl FnMut(&[u8]) -> bool>,
        splitter: &mut Splitter,
    ) -> Result<()> {
        let companions = self.job.companions.clone();
        let mut since_check = 0usize;
        let mut own = companions.rows(self.job.family, &self.job.options.order)?;
        let (mut held, mut room) = (HeldRecord::default(), BlobBuffer::default());
        match self.span.from {
            None => cursor.first()?,
            Some(from) => cursor.seek(from, MAX_SEQNO)?,
        }
        while cursor.valid() {
            let (record, source) = (cursor.record(), self.source(cursor.source()));
            if self.span.to.is_some_and(|to| self.is_behind(record.key, to)) {
                break;
            }
            // The protector's own rows refer to values: resolve separated values for them.
            let record = match self.job.values {
                Some(values) if own.is_some() => values.resolve(&record, true, &mut room)?,
                _ => record,
            };
            if let Some(own) = &mut own
                && own.takes(&record, source)?
            {
                self.dropped.add(record.kind, companions.term(&record));
                cursor.next()?;
                continue;
            }
            if let Some(family) = &self.pass.emits {
                self.emit(family, &record)?;
            }
            if self.pass.checks_inputs {
                self.check(&record, source)?;
            }
            let retains = own.is_none() && companions.retains(&record);
            let mut decision = rules.decide(record.key, record.seqno, record.kind.logical(), retains);
            if rules.is_first_of_key() {
                self.end_key(rules, splitter)?;
                self.is_fresh = true;
            }
            if decision == RecordDecision::Keep
                && record.kind.is_value()
                && let Some(ExpiryRule { now, is_hidden }) = self.pass.expires
                && is_over(&*companions, &record, &|| now)
                && rules.may_expire()
                && planted!(HiddenValueExpires, true, !is_hidden(record.key))
            {
                decision = RecordDecision::Hold(DropReason::Expired);
            }
            let newer = self.pass.ranges.as_ref().and_then(|ranges| ranges.oldest_above(record.key, record.seqno));
            if let Some(newer) = newer {
                match decision {
                    RecordDecision::Keep | RecordDecision::Hold(_) if rules.may_hide(newer) => {
                        decision = RecordDecision::Drop(DropReason::RangeDelete);
                    }
                    RecordDecision::Keep => {
                        self.written.hidden_by = self.written.hidden_by.into_iter().chain([record.seqno + 1]).min();
                    }
                    _ => {}
                }
            }
            let mut is_folded = false;
            if self.fold.is_some() && own.is_none() {
                (decision, is_folded) = self.fold((&record, source), (decision, newer), rules, splitter)?;
            }
            let mut filtered = FilterDecision::Keep;
            if let Some(rule) = &self.pass.filters
                && decision == RecordDecision::Keep
                && !is_folded
                && own.is_none()
                && !self.is_strange // a result may be made of verified values only
                && record.kind.is_value()
                && rules.may_filter(rule.filter.is_hidden_from())
                && self.is_present(&record)
            {
                filtered = rule.decide(&record, self.job.values, &mut self.written.filtered)?;
                if filtered != FilterDecision::Keep {
                    decision = RecordDecision::Drop(DropReason::Filtered);
                }
            }
            match decision {
                RecordDecision::Hold(reason) if own.is_some() => decision = RecordDecision::Drop(reason),
                _ if rules.is_first_of_key() => self.let_go(&mut held),
                RecordDecision::Drop(_) | RecordDecision::Disordered => {}
                _ if planted!(HeldTombstoneDropped, true, false) => self.let_go(&mut held),
                RecordDecision::Keep | RecordDecision::Hold(_) => self.put_held(&mut held, splitter)?,
            }
            match decision {
                _ if is_folded => {}
                RecordDecision::Disordered => {
                    let damage = Damage {
                        verdict: Verdict::Ledger,
                        key_range: Some((record.key.to_vec(), record.key.to_vec())),
                        ..Damage::default()
                    };
                    let error = Error::corruption(damage, "records are merged out of order");
                    return Err(if self.pass.checks_inputs { placed(error, source) } else { error });
                }
                RecordDecision::Drop(reason) => {
                    let term = self.term_of_dropped(&record, source)?;
                    self.dropped.add(record.kind, term);
                    if reason == DropReason::Expired {
                        self.written.expired.add(record.kind, term);
                    }
                    companions.on_drop(&record, reason);
                    own.as_mut().map_or(Ok(()), |own| own.sees(&record, false, source))?;
                    if reason == DropReason::Filtered {
                        let made = self.replaced(&record, (source.protection, term), filtered)?;
                        match made.kind == Kind::Delete && planted!(FilteredUncoversOlder, true, rules.may_expire()) {
                            true => held.take_made(made),
                            false => self.put_made(&made, splitter)?,
                        }
                    }
                }
                RecordDecision::Hold(reason) => {
                    let term = self.term_of_dropped(&record, source)?;
                    held.take(&record, source.protection, (reason, term));
                }
                RecordDecision::Keep if own.is_some() => {
                    own.as_mut().map_or(Ok(()), |own| own.sees(&record, true, source))?;
                    self.put_groups(own.as_deref_mut(), splitter)?;
                }
                RecordDecision::Keep => self.put(&record, source.protection, splitter)?,
            }
            since_check += record.value.len() + self.values.take_moved() + CHECKED_RECORD_BYTES;
            if since_check >= CHECKED_BYTES {
                since_check = 0;
                self.keep_pace();
                let stop = [Some(self.job.cancelled), self.span.stop, self.pass.stop];
                if stop.iter().flatten().any(|stop| stop.load(Ordering::Relaxed)) {
                    return Err(Error::of(ErrorKind::Closed, "the store is closing"));
                }
                interrupt::check()?;
            }
            cursor.next()?;
        }
        self.end_key(rules, splitter)?;
        self.let_go(&mut held);
        own.as_mut().map_or(Ok(()), |own| own.ends())?;
        self.put_groups(own.as_deref_mut(), splitter)?;
        self.finish_table()?;
        self.values.finish_file()?;
        self.written.value_bytes = self.values.bytes();
        (self.written.values_moved, self.written.values_unreadable) = (self.values.moved, self.values.unreadable);
        if let Some(fold) = &self.fold {
            let replaced = fold.replaced();
            self.dropped.merge(&replaced.ledger);
            (self.written.operands_folded, self.written.merge_failures) = (replaced.operands, replaced.failures);
        }
        if let (Some((pace, _)), news) = (self.job.pace, self.unpaced()) {
            pace.owe(news); // the next job waits for these bytes: finished work is not delayed
        }
        Ok(())
    }

    /// Returns the bytes written since the last report to the rate limiter.
    fn unpaced(&mut self) -> u64 {
        let finished: u64 = self.written.tables.iter().map(|table| table.size).sum();
        let values = self.values.written_bytes();
        let written = values + finished + self.open.as_ref().map_or(0, |open| open.writer.file_bytes());
        written.saturating_sub(std::mem::replace(&mut self.paced, written))
    }

    /// Waits as the write rate requires.
    fn keep_pace(&mut self) {
        if let (Some((pace, priority)), news) = (self.job.pace, self.unpaced()) {
            pace.keep(news, priority, self.job.env, || self.job.cancelled.load(Ordering::Relaxed));
        }
    }

    /// True if a key is beyond this part's range.
    fn is_behind(&self, key: &[u8], to: &[u8]) -> bool {
        let compared = self.job.options.order.compare(key, to);
        planted!(PartTakesItsEnd, compared.is_gt(), compared.is_ge())
    }

    /// Returns the source of a record; without protection if the protector cannot judge its companions.
    fn source<'s>(&self, source: RecordSource<'s>) -> RecordSource<'s> {
        if self.is_strange { RecordSource { protection: Protection::Foreign, ..source } } else { source }
    }

    /// Returns true if a value has neither expired nor been deleted by a range delete.
    fn is_present(&self, record: &Record<'_>) -> bool {
        let is_over = |rule: &ExpiryRule<'_>| is_over(&**self.job.companions, record, &|| rule.now);
        let is_covered = |ranges: &RangeIndex| ranges.oldest_above(record.key, record.seqno).is_some();
        !self.pass.expires.as_ref().is_some_and(is_over) && !self.pass.ranges.as_ref().is_some_and(is_covered)
    }

    /// Returns the record that replaces one that the filter dropped or changed, which is verified.
    fn replaced(
        &mut self,
        record: &Record<'_>,
        (protection, term): (Protection, u64),
        decision: FilterDecision,
    ) -> Result<PassRecord> {
        let value = match decision {
            FilterDecision::Change(value) => Some(value),
            FilterDecision::Keep | FilterDecision::Drop => None,
        };
        let counts = &mut self.written.filtered;
        let ledger = if value.is_some() { &mut counts.changed } else { &mut counts.dropped };
        ledger.add(record.kind, term);
        filter::replacement(&**self.job.companions, record, protection, value)
    }

    /// Writes a record that the pass has made, and counts it as derived.
    fn put_made(&mut self, row: &PassRecord, splitter: &mut Splitter) -> Result<()> {
        self.derived.add(row.kind, self.job.companions.term(&row.record()));
        self.put(&row.record(), row.protection, splitter)
    }

    /// Requests rows for other families from the protector, and counts them.
    fn emit(&mut self, family: &Emitting<'_>, record: &Record<'_>) -> Result<()> {
        let companions = &**self.job.companions;
        companions.emit(family, record, &mut self.given)?;
        if self.given.is_empty() {
            return Ok(());
        }
        self.written.rows.extend(companions, self.given.drain(..));
        Ok(())
    }

    /// Checks a record at its source. A record whose companion alone is damaged passes: the companion is corrected.
    fn check(&self, record: &Record<'_>, source: RecordSource<'_>) -> Result<()> {
        let check = self.job.companions.verify(record, hash_key(record.key), source.protection);
        if check.serves() { Ok(()) } else { Err(placed(not_served(record, check), source)) }
    }

    /// Returns the ledger term of a dropped record.
    fn term_of_dropped(&mut self, record: &Record<'_>, source: RecordSource<'_>) -> Result<u64> {
        let companions = self.job.companions;
        let check = companions.verify(record, hash_key(record.key), source.protection);
        self.companion.clear();
        match check {
            Check::Validated | Check::Unverified => Ok(companions.term(record)),
            // The companion is damaged and the record intact; the first check itself may have been wrong.
            Check::CompanionDamaged
                if self.pass.checks_inputs
                    && companions.on_build(record, source.protection, &mut self.companion) == Build::Mend =>
            {
                self.written.mended += 1;
                Ok(companions.term(&Record { companion: &self.companion, ..*record }))
            }
            _ => Err(placed(not_served(record, check), source)),
        }
    }

    /// Writes the groups into which the protector has inserted its own rows. A table ends only before a group.
    fn put_groups(&mut self, own: Option<&mut (dyn RowRewriter + '_)>, splitter: &mut Splitter) -> Result<()> {
        let Some(own) = own else { return Ok(()) };
        while let Some(group) = own.next_group() {
            for (at, row) in group.iter().enumerate() {
                let written = self.open.as_ref().map_or(0, |open| open.writer.file_bytes());
                if splitter.ends_before(&row.key, written) && at == 0 {
                    self.finish_table()?;
                }
                if let (0, Some(open)) = (at, &mut self.open) {
                    open.writer.keep_together(group.iter().map(|row| row.record()))?;
                }
                if row.made {
                    self.derived.add(row.kind, self.job.companions.term(&row.record()));
                }
                self.add(&row.record(), row.protection)?;
            }
        }
        Ok(())
    }

    /// Writes a record that is kept. If allowed, a table ends before it.
    fn put(&mut self, record: &Record<'_>, source: Protection, splitter: &mut Splitter) -> Result<()> {
        if std::mem::take(&mut self.is_fresh) {
            let written = self.open.as_ref().map_or(0, |open| open.writer.file_bytes());
            if splitter.ends_before_key(record.key, written) {
                self.finish_table()?;
            }
        }
        self.add(record, source)
    }

    /// Writes the held record, because an older version of its key is kept.
    fn put_held(&mut self, held: &mut HeldRecord, splitter: &mut Splitter) -> Result<()> {
        match held.release() {
            Some((row, _)) if row.made => self.put_made(row, splitter),
            Some((row, _)) => self.put(&row.record(), row.protection, splitter),
            None => Ok(()),
        }
    }

    /// Drops the held record, because no older version of its key is kept.
    fn let_go(&mut self, held: &mut HeldRecord) {
        if let Some((row, (reason, term))) = held.release()
            && !row.made
        {
            self.dropped.add(row.kind, term);
            if reason == DropReason::Expired {
                self.written.expired.add(row.kind, term);
            }
            self.job.companions.on_drop(&row.record(), reason);
        }
    }

    fn add(&mut self, record: &Record<'_>, source: Protection) -> Result<()> {
        if self.open.is_none() {
            self.open = Some(self.open_table()?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        self.retains |= self.job.companions.retains(record);
        self.companion.clear();
        let companions = self.job.companions;
        let build = companions.on_build(record, source, &mut self.companion);
        if build == Build::Keep {
            return match self.values.place(self.job, record, &mut self.names)? {
                None => open.writer.add_promised(record, source),
                Some(pointer) => open.writer.add_promised(&pointing(record, &pointer), source),
            };
        }
        let built = Record { companion: &self.companion, ..*record };
        let (old, new) = (companions.term(record), companions.term(&built));
        if build == Build::Derive || (build == Build::Set && old == 0) {
            self.derived.adjust(record.kind, new.wrapping_sub(old));
        }
        self.written.mended += (build == Build::Mend) as u64;
        self.written.adopted += (build == Build::Set && old == 0 && new != 0) as u64;
        // The finished block must contain the companion that the record was given.
        let promise = if new != 0 { Protection::Complete } else { source };
        match self.values.place(self.job, &built, &mut self.names)? {
            None => open.writer.add_promised(&built, promise),
            Some(pointer) => open.writer.add_promised(&pointing(&built, &pointer), promise),
        }
    }

    fn open_table(&mut self) -> Result<OpenOutput> {
        let job = self.job;
        let number = (job.next_file)();
        let name = StoreFileName::Table(number).to_string();
        let file = job.env.fs.open(&job.dir.join(&name), Open::Create).during(|| format!("creating {name}"))?;
        self.names.push(StoreFileName::Table(number));
        let uid = job.env.random.uid();
        let settings = WriterSettings {
            filter_bits: job.filter_bits,
            compression: job.compression,
            seal_column: job.options.seals.is_column(job.compression),
            created_micros: job.env.clock.wall_micros(),
            store: job.store,
            ..WriterSettings::of(&job.options, job.family, job.base_seqno)
        };
        let writer = Writer::new(file.clone(), uid, settings, job.companions.clone());
        let writer = writer.carrying(self.carried.clone()).packing_with(job.dictionary.clone());
        let writer = writer.cut_into(job.options.part_blocks);
        Ok(OpenOutput { number, uid, file, writer })
    }

    fn finish_table(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let name = StoreFileName::Table(open.number);
        let finished: Finished = open.writer.finish()?;
        match self.job.unsynced {
            _ if planted!(EditBeforeTableSync, true, false) => {}
            Some(unsynced) => unsynced.add(name, open.file, finished.size)?,
            None => open.file.sync_data().during(|| format!("syncing {name}"))?,
        }
        self.written.tables.push(TableMeta {
            number: open.number,
            uid: open.uid,
            size: finished.size,
            smallest: finished.smallest,
            largest: finished.largest,
            least_seqno: finished.least_seqno,
            greatest_seqno: finished.greatest_seqno,
            digest: finished.digest,
            ingest_seqno: 0,
            ledger: finished.ledger,
            values: Vec::new(),
            expiry: finished.expiry,
            cleared_through: 0, // set by `close`, once all parts are known
            retains_nothing: !std::mem::take(&mut self.retains),
        });
        self.refs.push(finished.values);
        Ok(())
    }
}

/// Returns a record with a pointer in place of its value.
fn pointing<'r>(record: &Record<'r>, pointer: &'r [u8]) -> Record<'r> {
    Record { kind: Kind::BlobPointer, value: pointer, ..*record }
}

/// Adds the file and block of a record to an error, if the record comes from a file.
#[cold]
fn placed(error: Error, source: RecordSource<'_>) -> Error {
    if source.file.is_empty() { error } else { error.in_file(source.file, source.offset) }
}
