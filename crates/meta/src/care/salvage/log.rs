//! The log of a store that is salvaged: from each segment on, as far as it links.

use waxseal_lsm::batch::{Binding, Operations};
use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::facts_of;
use waxseal_lsm::error::{Error, IoContext, Result};
use waxseal_lsm::record::{Kind, MAX_SEQNO, Seqno};
use waxseal_lsm::seam::Protection;
use waxseal_lsm::wal::{self, Facts};

use super::super::report::{Finding, Outcome};
use super::Salvage;

/// How far a stretch of the log could be read.
struct Stretch {
    /// The seqno that would have come next; none: nothing was read.
    next: Option<Seqno>,
    /// What proves that there was more.
    fault: Option<Error>,
    /// Bytes that came too late to be promised to anybody.
    torn: Option<(String, u64, u64)>,
}

impl Salvage<'_> {
    /// What the log holds that no table does, stretch by stretch; what is missing between two of them, or behind the last, is lost.
    pub(super) fn log(&mut self) -> Result<()> {
        let env = &self.parts.env;
        let (facts, named) = match &self.state {
            Some(state) => (facts_of(state), state.log),
            None => (Facts::default(), None),
        };
        if self.state.is_some() && named.is_none() {
            return Ok(());
        }
        let is_later = |start: &wal::LogStart| named.is_none_or(|named| start.place.offset > named.place.offset);
        let mut starts: Vec<wal::LogStart> = named.into_iter().collect();
        starts.extend(wal::find(env, self.from)?.into_iter().filter(is_later));
        let (mut read, mut before) = (Vec::new(), None::<Stretch>);
        for start in starts {
            if read.contains(&start.place.segment) {
                continue;
            }
            let ended = before.as_ref().is_some_and(|before| before.fault.is_none());
            if self.state.is_some() && ended {
                break; // the log came to its end
            }
            let mut first = None;
            let seqno = before.as_ref().and_then(|before| before.next).unwrap_or(facts.seqno);
            let facts = Facts { seqno, ..facts.clone() };
            let stretch = self.stretch(&start, &facts, &mut read, &mut first)?;
            let gap = match (&before, first) {
                (_, None) if before.is_some() && stretch.fault.is_none() => continue, // a segment that was not used yet
                (Some(before), Some(first)) => before.next.is_none_or(|next| next < first).then_some(first - 1),
                _ => None,
            };
            if let (Some(bound), Some(before)) = (gap, &before) {
                self.lost_of_log(before, bound);
            }
            let next = stretch.next.or(before.as_ref().and_then(|before| before.next));
            before = Some(Stretch { next, ..stretch });
        }
        match before {
            Some(before) if before.fault.is_some() => self.lost_of_log(&before, MAX_SEQNO),
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

    /// Commits up to `bound` are lost. Families that had them in tables already have lost nothing.
    fn lost_of_log(&mut self, before: &Stretch, bound: Seqno) {
        if !self.again {
            let missing = || Error::structural("a stretch of the log is not there");
            self.lost_anywhere(&before.fault.clone().unwrap_or_else(missing), bound);
        }
    }

    /// Reads the log from one place on, as far as it links. `first` becomes the seqno of the first commit.
    fn stretch(
        &mut self,
        start: &wal::LogStart,
        facts: &Facts,
        read: &mut Vec<u64>,
        first: &mut Option<Seqno>,
    ) -> Result<Stretch> {
        let (env, keeper) = (&self.parts.env, self.parts.companions.clone());
        let machine = env.fs.machine(self.from).during(|| "asking for the device of the store")?;
        let (mut next, mut binding) = (None, Binding::default());
        let outcome = wal::recover(env, self.from, start, facts, machine, true, &mut |frame| {
            first.get_or_insert(frame.seqno);
            for (at, operation) in (0..).zip(Operations::new(frame.body)?) {
                let operation = operation?;
                let ends_in_seqno = self.ends_in_seqno(operation.family);
                let record = binding.record(&operation, (frame.seqno, at), ends_in_seqno, &*keeper)?;
                next = Some(record.seqno + 1);
                if self.is_news(operation.family, record.key, record.seqno) {
                    if operation.kind == Kind::BlobPointer {
                        self.hold_logged(operation.value);
                    }
                    let check = keeper.verify(&record, hash_key(record.key), Protection::Partial);
                    if !self.again {
                        self.report.count(check);
                    }
                    let order = self.order_of(operation.family);
                    let family = self.family(operation.family, &order)?;
                    self.take(operation.family, &family, &record, check, !self.again)?;
                }
            }
            Ok(())
        });
        match outcome {
            Ok(end) => {
                self.report.files += if self.again { 0 } else { end.segments.len() as u64 };
                read.extend(end.segments);
                let next = end.next_seqno.or(next);
                let (fault, torn) = match end.cut {
                    Some(cut) => (cut.accepted, (cut.bytes > 0).then_some((cut.file, cut.position, cut.bytes))),
                    None => (None, None),
                };
                Ok(Stretch { next, fault, torn })
            }
            Err(error) if error.is_corruption() => {
                read.push(start.place.segment);
                Ok(Stretch { next, fault: Some(error), torn: None })
            }
            Err(error) => Err(error),
        }
    }
}
