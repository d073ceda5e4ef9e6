//! Redo: repeats a flush from the log after it found damage or a ledger mismatch.
//!
//! In:    the frozen memtables, and the log, which holds all of their records: no segment is retired before a flush is
//!        durable.
//! Out:   the same records, read back from segments and ring, as a level-0 table. From memory only the number of
//!        records is trusted.
//! Fails: then the flush has failed: no table was named and no segment retired. It is retried later, and writers are
//!        throttled once memory is full.

use std::sync::Arc;

use crate::batch::{BatchOperation, BatchOperations, Binding};
use crate::db::catalog::Catalog;
use crate::db::notify::events::Event;
use crate::db::state::family::{Family, MemtableShape};
use crate::db::state::store_log::{LogPosition, facts_of};
use crate::env::work::lock;
use crate::error::Remedy;
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::memtable::Memtable;
use crate::names::StoreFileName;
use crate::range_delete::RangeDelete;
use crate::record::{Kind, Seqno};
use crate::values::{LoggedValues, LostValues};
use crate::wal::{self, LiveRead, LogStart, ReadUntil, Stop};

/// How often the log is reread when its files are recycled during the read.
const ATTEMPTS: usize = 16;

/// Reports that records damaged in memory were recovered from the log.
pub(super) fn queue_redone(catalog: &Catalog, start: &LogStart) {
    let (file, offset) = (StoreFileName::Segment(start.place.segment).to_string(), start.place.offset);
    catalog.notifier().queue(Event::Healed { file, offset, by: Remedy::Log });
}

/// Returns the records of `memtables`, in which a pass found `damage`, as the log has them.
pub(super) fn records_from_log(
    catalog: &Catalog,
    family: &Family,
    memtables: &[Arc<Memtable>],
    (through, moment): (Seqno, LogPosition),
    damage: Error,
) -> Result<(Arc<Memtable>, LogStart)> {
    if !is_of_the_pass(&damage) {
        return Err(damage.in_family(family.name(), None));
    }
    let (fresh, start) = read_back(catalog, family, through, moment)?;
    let taken: usize = memtables.iter().map(|memtable| memtable.len()).sum();
    if fresh.len() != taken {
        let what =
            format!("the log holds {} records where {taken} were taken, and their flush failed: {damage}", fresh.len());
        let damage = Damage { verdict: Verdict::Ledger, ..Damage::default() };
        return Err(Error::corruption(damage, what).in_family(family.name(), None));
    }
    Ok((Arc::new(fresh), start))
}

/// Returns the family's unflushed records up to `through`, as the log has them, and the start of the log.
fn read_back(catalog: &Catalog, family: &Family, through: Seqno, moment: LogPosition) -> Result<(Memtable, LogStart)> {
    let (log, facts, flushed) = {
        let manifest = lock(&catalog.manifest);
        let state = manifest.as_ref().ok_or_else(Error::closed)?.state();
        let log = state.log.ok_or_else(|| Error::invalid("the store has no log"))?;
        let flushed = state.families.get(&family.id()).map_or(0, |family| family.flushed);
        (log, facts_of(state), flushed)
    };
    let machine =
        catalog.context().env.fs.machine(&catalog.context().dir).during(|| "asking for the device of the store")?;
    for _ in 0..ATTEMPTS {
        let fresh = MemtableShape::of(&catalog.context().settings.current(), &catalog.families().memtables)
            .memtable(family.order());
        let mut binding = Binding::default();
        let ends = family.key_ends_in_seqno();
        let marks = wal::read_marks(&catalog.context().env, &catalog.context().dir, &log)?;
        let mut values = LoggedValues::new(
            catalog.context().env.fs.clone(),
            &catalog.context().dir,
            catalog.context().companions.clone(),
        );
        let visit = &mut |frame: wal::Replayed<'_>| -> std::result::Result<(), Stop> {
            let mut is_taken = |operation: &BatchOperation<'_>, at: u64| {
                operation.family == family.id() && (flushed + 1..=through).contains(&(frame.seqno + at))
            };
            let body = values.expand(frame.body, &mut is_taken, &mut LostValues::default())?;
            for (at, operation) in (0..).zip(BatchOperations::new(body)?) {
                let operation = operation?;
                if !is_taken(&operation, at) {
                    continue;
                }
                let record = binding.record(&operation, (frame.seqno, at), ends, &*catalog.context().companions)?;
                match record.kind {
                    Kind::RangeDelete => fresh.add_range_delete(RangeDelete::of(&record)?, 0),
                    _ => fresh.insert(&record, catalog.context().companions.term(&record))?,
                }
            }
            Ok(())
        };
        let until = ReadUntil::Own(marks);
        match wal::recover_live(&catalog.context().env, &catalog.context().dir, &log, &facts, machine, until, visit)? {
            LiveRead::Read { end, .. } if end.place.offset >= moment.offset => return Ok((fresh, log)),
            LiveRead::Read { .. } | LiveRead::Moved | LiveRead::Gone(_) => {}
        }
    }
    Err(Error::structural("the log cannot be read back to where it was synced"))
}

/// Returns true for damage found in memory by the pass itself: a ledger mismatch, or a record with a wrong or missing
/// companion.
pub(in crate::db) fn is_of_the_pass(error: &Error) -> bool {
    error.damage().is_some_and(|damage| damage.file.is_empty() && damage.verdict != Verdict::Misplaced)
}
