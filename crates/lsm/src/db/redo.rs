//! Redo: repeats a flush from the log after it found damage or a ledger mismatch.
//!
//! In:    the frozen memtables, and the log, which holds all of their records: no segment is retired before a flush is
//!        durable.
//! Out:   the same records, read back from segments and ring, as a level-0 table. From memory only the number of
//!        records is trusted.
//! Fails: then the flush has failed: no table was named and no segment retired. It is retried later, and writers are
//!        throttled once memory is full.

use std::sync::Arc;

use super::commit::Moment;
use super::compact::is_of_the_pass;
use super::family::{Family, Shape};
use super::flush::{Flushed, Level0, write_level0};
use super::recover::facts_of;
use super::{Event, Inner, Remedy};
use crate::batch::{Binding, Operation, Operations};
use crate::env::work::lock;
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::memtable::Memtable;
use crate::names::Name;
use crate::record::Seqno;
use crate::values::{LoggedValues, Losses};
use crate::wal::{self, Beside, LogStart, Stop, Until};

/// How often the log is reread when its files are recycled during the read.
const ATTEMPTS: usize = 16;

impl Inner {
    /// Flushes the log's records instead of `memtables`, whose flush found `damage`: all records of the family up to
    /// `through`.
    pub(super) fn flush_from_log(
        &self,
        level0: &Level0<'_>,
        family: &Family,
        memtables: &[Arc<Memtable>],
        (through, moment): (Seqno, Moment),
        damage: Error,
    ) -> Result<Flushed> {
        let (fresh, start) = self.records_from_log(family, memtables, (through, moment), damage)?;
        let flushed = write_level0(level0, family, &[fresh]);
        let flushed = flushed.map_err(|error| error.in_family(family.name(), None))?;
        self.tell_redone(&start);
        Ok(flushed)
    }

    /// Reports that records damaged in memory were recovered from the log.
    pub(super) fn tell_redone(&self, start: &LogStart) {
        let (file, offset) = (Name::Segment(start.place.segment).to_string(), start.place.offset);
        self.note(Event::Healed { file, offset, by: Remedy::Log });
    }

    /// Returns the records of `memtables`, in which a pass found `damage`, as the log has them.
    pub(super) fn records_from_log(
        &self,
        family: &Family,
        memtables: &[Arc<Memtable>],
        (through, moment): (Seqno, Moment),
        damage: Error,
    ) -> Result<(Arc<Memtable>, LogStart)> {
        if !is_of_the_pass(&damage) {
            return Err(damage.in_family(family.name(), None));
        }
        let (fresh, start) = self.read_back(family, through, moment)?;
        let taken: usize = memtables.iter().map(|memtable| memtable.len()).sum();
        if fresh.len() != taken {
            let what = format!(
                "the log holds {} records where {taken} were taken, and their flush failed: {damage}",
                fresh.len()
            );
            let damage = Damage { verdict: Verdict::Ledger, ..Damage::default() };
            return Err(Error::corruption(damage, what).in_family(family.name(), None));
        }
        Ok((Arc::new(fresh), start))
    }

    /// Returns the family's unflushed records up to `through`, as the log has them, and the start of the log.
    fn read_back(&self, family: &Family, through: Seqno, moment: Moment) -> Result<(Memtable, LogStart)> {
        let (log, facts, flushed) = {
            let manifest = lock(&self.manifest);
            let state = manifest.as_ref().ok_or_else(Error::closed)?.state();
            let log = state.log.ok_or_else(|| Error::invalid("the store has no log"))?;
            let flushed = state.families.get(&family.id()).map_or(0, |family| family.flushed);
            (log, facts_of(state), flushed)
        };
        let machine = self.env.fs.machine(&self.dir).during(|| "asking for the device of the store")?;
        for _ in 0..ATTEMPTS {
            let fresh = Shape::of(&self.settings).memtable(family.order());
            let mut binding = Binding::default();
            let ends = family.options().key_ends_in_seqno;
            let marks = wal::read_marks(&self.env, &self.dir, &log)?;
            let mut values = LoggedValues::new(self.env.fs.clone(), &self.dir, self.companions.clone());
            let visit = &mut |frame: wal::Replayed<'_>| -> std::result::Result<(), Stop> {
                let mut is_taken = |operation: &Operation<'_>, at: u64| {
                    operation.family == family.id() && (flushed + 1..=through).contains(&(frame.seqno + at))
                };
                let body = values.expand(frame.body, &mut is_taken, &mut Losses::default())?;
                for (at, operation) in (0..).zip(Operations::new(body)?) {
                    let operation = operation?;
                    if !is_taken(&operation, at) {
                        continue;
                    }
                    let record = binding.record(&operation, (frame.seqno, at), ends, &*self.companions)?;
                    fresh.insert(&record, self.companions.term(&record))?;
                }
                Ok(())
            };
            let until = Until::Own(marks);
            match wal::recover_beside(&self.env, &self.dir, &log, &facts, machine, until, visit)? {
                Beside::Read { end, .. } if end.place.offset >= moment.offset => return Ok((fresh, log)),
                Beside::Read { .. } | Beside::Moved | Beside::Gone(_) => {}
            }
        }
        Err(Error::structural("the log cannot be read back to where it was synced"))
    }
}
