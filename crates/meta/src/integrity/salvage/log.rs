//! Reads the log of a store under salvage from each segment on, as far as the segments link up.
//!
//! Holds:  the log ends where recovery would end it, but for damage: behind that, reading continues with the next
//!         frame that certainly belongs to the log, and the commits between are lost. A batch is copied completely or
//!         not at all. Exceptions: damage has left only part of an acknowledged batch, or a value is currently
//!         unreadable. The missing record is then lost individually, with a lost range.

use waxseal_lsm::batch::{BatchOperation, BatchOperations, Binding};
use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::{Parts, facts_of};
use waxseal_lsm::error::{Damage, Error, IoContext, Result, Verdict};
use waxseal_lsm::interrupt;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::Protection;
use waxseal_lsm::values::{LoggedValues, LostValues};
use waxseal_lsm::wal::{self, Gap, HeadlessSegment, LogProofs, Replayed, Stop, Tolerates};

use super::super::report::{Finding, Outcome, is_unread};
use super::Salvage;

/// The state of reading one stretch of the log.
struct StretchReader {
    values: LoggedValues,
    binding: Binding,
    first: Option<Seqno>,
    next: Option<Seqno>,
}

/// Returns the last missing seqno, if `next` was expected and `first` was found.
fn last_missing(next: Option<Seqno>, first: Seqno) -> Option<Seqno> {
    next.is_none_or(|next| next < first).then(|| first.saturating_sub(1))
}

/// A readable stretch of the log.
struct Stretch {
    /// The seqno of the first commit; `None` if nothing was read.
    first: Option<Seqno>,
    /// The next expected seqno.
    next: Option<Seqno>,
    /// Evidence that the log had more.
    fault: Option<Error>,
    /// Bytes of a torn end that were never acknowledged.
    torn: Option<(String, u64, u64)>,
    /// Damage inside the stretch.
    gaps: Vec<Gap>,
}

impl Salvage<'_> {
    /// Copies log records that no table has, stretch by stretch. Commits missing between two stretches or after the
    /// last one are lost.
    pub(super) fn log(&mut self) -> Result<()> {
        let env = &self.parts.env;
        let (facts, named) = match &self.state {
            Some(state) => (facts_of(state), state.log),
            None => (LogProofs::default(), None),
        };
        if self.state.is_some() && named.is_none() {
            return Ok(());
        }
        let is_later = |start: &wal::LogStart| named.is_none_or(|named| start.place.offset > named.place.offset);
        let mut starts: Vec<wal::LogStart> = named.into_iter().collect();
        let found = wal::find(env, self.from, &|name| self.others.has(name))?;
        starts.extend(found.starts.into_iter().filter(is_later));
        // With a start of the log in the manifest, segments identify their successors.
        if named.is_none() && !self.again {
            found.unread.iter().for_each(|error| self.lost_anywhere(error, MAX_SEQNO));
        }
        let (mut read, mut before, mut begins) = (Vec::new(), None::<Stretch>, None);
        for start in starts {
            if read.contains(&start.place.segment) {
                continue;
            }
            let ended = before.as_ref().is_some_and(|before| before.fault.is_none());
            if self.state.is_some() && ended {
                break; // the end of the log
            }
            let seqno = before.as_ref().and_then(|before| before.next);
            let seqno = seqno.unwrap_or_else(|| facts.seqno.max(self.least_seqno_of(start.place.segment)));
            let facts = LogProofs { seqno, ..facts.clone() };
            let stretch = self.stretch(&start, &facts, &mut read)?;
            begins = begins.or(stretch.first);
            let gap = match (&before, stretch.first) {
                (_, None) if before.is_some() && stretch.fault.is_none() => continue, // an unused segment
                (Some(before), Some(first)) => last_missing(before.next, first),
                _ => None,
            };
            if let (Some(bound), Some(before)) = (gap, &before) {
                let at_begin = stretch.gaps.first().filter(|gap| gap.next.is_none()).map(|gap| &gap.fault);
                self.lost_of_log(before.fault.as_ref().or(at_begin), bound);
            }
            for inside in stretch.gaps.iter().filter(|inside| inside.next.is_some() || before.is_none()) {
                if let Some(bound) = last_missing(inside.next, inside.first) {
                    self.lost_of_log(Some(&inside.fault), bound);
                }
            }
            let next = stretch.next.or(before.as_ref().and_then(|before| before.next));
            before = Some(Stretch { next, ..stretch });
        }
        if named.is_none() && !self.again {
            found.damaged.iter().for_each(|headless| self.hidden(headless, begins));
        }
        match before {
            Some(before) if before.fault.is_some() => self.lost_of_log(before.fault.as_ref(), MAX_SEQNO),
            Some(Stretch { torn: Some((file, offset, bytes)), .. }) if !self.again => {
                let message =
                    format!("{bytes} bytes at the end of the log were not whole: no commit that was promised to last");
                let outcome = if self.accepts { Outcome::Accepted } else { Outcome::Reported };
                self.report.damage.push(Finding { file, offset, message, outcome, ..Finding::default() });
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles a segment without a readable header. It may be unused, unless it has data behind the header, or no other
    /// segment has a frame, or the first commit of the log (`begins`) does not follow the tables' seqnos.
    fn hidden(&mut self, HeadlessSegment { error, is_used }: &HeadlessSegment, begins: Option<Seqno>) {
        match begins {
            Some(first) if !is_used && first > self.in_tables + 1 => return self.lost_anywhere(error, first - 1),
            Some(_) if !is_used => {}
            _ => return self.lost_anywhere(error, MAX_SEQNO),
        }
        self.report.structural += 1;
        let finding = Finding::of(error, None);
        let message = format!("{}; what it had is not missed, if it had anything", finding.message);
        let outcome = if self.accepts { Outcome::Accepted } else { Outcome::Reported };
        self.report.damage.push(Finding { message, outcome, ..finding });
    }

    /// Returns the smallest seqno that a segment's frames can have, derived from the tables if there is no manifest: a
    /// table's records were ordered before its file was numbered, and file numbers increase. Remains of an earlier log
    /// are recognized by this.
    fn least_seqno_of(&self, segment: u64) -> Seqno {
        let older = self.seen.iter().filter(|table| table.number < segment);
        older.filter_map(|table| Some(table.seqnos?.1 + 1)).max().unwrap_or(0)
    }

    /// Reports commits up to `bound` as lost. A family whose tables already had them has lost no record.
    fn lost_of_log(&mut self, fault: Option<&Error>, bound: Seqno) {
        if !self.again {
            let missing = || Error::structural("a stretch of the log is not there");
            self.lost_anywhere(&fault.cloned().unwrap_or_else(missing), bound);
        }
    }

    /// Reads the log from one position, as far as the segments link up.
    fn stretch(&mut self, start: &wal::LogStart, facts: &LogProofs, read: &mut Vec<u64>) -> Result<Stretch> {
        let Parts { env, companions, .. } = self.parts;
        let machine = env.fs.machine(self.from).during(|| "asking for the device of the store")?;
        let values = LoggedValues::new(env.fs.clone(), self.from, companions.clone());
        let mut reading = StretchReader { values, binding: Binding::default(), first: None, next: None };
        let from = self.from;
        let visit = &mut |frame: Replayed<'_>| self.frame(&frame, &mut reading);
        let mut gaps = Vec::new();
        let outcome = wal::recover_behind_gaps(env, from, start, facts, machine, &mut gaps, visit);
        let StretchReader { first, next, .. } = reading;
        match outcome {
            Ok(end) => {
                self.report.files += if self.again { 0 } else { end.segments.len() as u64 };
                read.extend(end.segments);
                let next = end.next_seqno.or(next);
                let (fault, torn) = match end.cut {
                    Some(cut) => (cut.accepted, (cut.bytes > 0).then_some((cut.file, cut.position, cut.bytes))),
                    None => (None, None),
                };
                Ok(Stretch { first, next, fault, torn, gaps })
            }
            Err(error) if error.is_corruption() => {
                read.push(start.place.segment);
                Ok(Stretch { first, next, fault: Some(error), torn: None, gaps })
            }
            Err(error) => Err(error),
        }
    }

    /// Copies a range delete, if all older records of its family were copied before. A range delete that does not match
    /// its seal may have deleted any key.
    fn range_delete(&mut self, id: u32, record: &Record<'_>) -> Result<()> {
        if self.again || !self.is_unflushed(id, record.seqno) {
            return Ok(());
        }
        let check = self.parts.companions.verify(record, hash_key(record.key), Protection::Partial);
        self.report.count(check);
        if !check.serves() {
            let message = format!("the range delete with seqno {} does not match its seal", record.seqno);
            let error = Error::corruption(Damage { verdict: Verdict::Seal, ..Damage::default() }, &message);
            self.lost_anywhere(&error.in_file("the log", 0), MAX_SEQNO);
            return Ok(());
        }
        let order = self.order_of(id);
        let family = self.family(id, &order)?;
        self.take_range_delete(id, &family, record)
    }

    /// Copies the new records of a frame if all its values are intact, as recovery does. From an acknowledged frame, or
    /// one with currently unreadable values, it copies the intact ones.
    fn frame(&mut self, frame: &Replayed<'_>, reading: &mut StretchReader) -> std::result::Result<(), Stop> {
        interrupt::check()?;
        reading.first.get_or_insert(frame.seqno);
        let mut is_wanted = |operation: &BatchOperation<'_>, at| self.is_unflushed(operation.family, frame.seqno + at);
        // Everything up to a seqno in a table was acknowledged, even without a manifest that says so. An ingestion that
        // was interrupted before it synced the log makes this too large. Then unacknowledged records are reported as
        // lost, which is the safe side.
        let damaged = frame.tolerates.damaged || frame.seqno <= self.in_tables;
        // A read failure is no evidence against the frame, nor against later ones.
        let mut losses = LostValues::of(Tolerates { damaged, unread: true });
        let body = match reading.values.expand(frame.body, &mut is_wanted, &mut losses) {
            Err(Stop::Refused(error)) if is_unread(&error) => frame.body,
            Ok(_) if !losses.is_empty() => frame.body,
            expanded => expanded?,
        };
        let protector = &*self.parts.companions;
        for (at, operation) in (0..).zip(BatchOperations::new(body)?) {
            let operation = operation?;
            let ends_in_seqno = self.ends_in_seqno(operation.family);
            let record = reading.binding.record(&operation, (frame.seqno, at), ends_in_seqno, protector)?;
            reading.next = Some(record.seqno + 1);
            if record.kind == Kind::RangeDelete {
                self.range_delete(operation.family, &record)?;
                continue;
            }
            let is_news = self.is_news(operation.family, record.key, record.seqno);
            let open = if is_news { Vec::new() } else { self.open_holes(operation.family, &record) };
            if is_news || !open.is_empty() {
                if operation.kind == Kind::BlobPointer {
                    self.hold_logged(operation.value);
                }
                let check = protector.verify(&record, hash_key(record.key), Protection::Partial);
                // A record that a table has already provided is no substitute.
                let hole = open.first().filter(|_| !self.is_newest(operation.family, record.key, record.seqno));
                if let Some(hole) = hole {
                    let last = self.stand_ins.entry((operation.family, record.key.to_vec())).or_default();
                    *last = (record.seqno, *hole).max(*last);
                }
                if !self.again {
                    self.report.count(check);
                }
                let order = self.order_of(operation.family);
                let family = self.family(operation.family, &order)?;
                self.take(operation.family, &family, &record, check, !self.again)?;
                let holes = self.holes_about(operation.family, &order, &record, check);
                self.may_fill(&holes, &record, check);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_ends_before_what_came() {
        let cases =
            [(Some(5), 5, None), (Some(6), 5, None), (Some(4), 9, Some(8)), (None, 9, Some(8)), (None, 0, Some(0))];
        for (next, first, missing) in cases {
            assert_eq!(last_missing(next, first), missing, "{next:?}, {first}");
        }
        assert_eq!(last_missing(Some(3), 0), None);
    }
}
