//! Optimistic commits: a read of one record, and a commit that takes effect only if the record is unchanged. The record
//! is that of a key, or the first or last one of a family.
//!
//! ```text
//! read      notes the visible seqno and reads the record there
//! decide    the caller computes its batch from the value, with no lock held
//! commit    the log orders the batch only if no other batch was ordered after that seqno (`unchanged_since`)
//! rejected  newer commits are applied and the record is read again: the same one -> commit again, at the newer seqno;
//!           another one -> decide again
//! ```
//!
//! Holds:   a batch that was ordered follows directly on the state that it was computed from, so the operation is
//!          linearizable beside every other commit. An equal record suffices: the result depends on nothing else.
//! Expiry:  one time decides for the whole operation whether a record has expired.
//! Ends:    after `PATIENCE` attempts the thread takes a hold (`wal/hold.rs`), so that other commits wait for it.
//! Costs:   plain commits pay nothing. A rejected attempt costs another read and another turn in the order.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Db;
use crate::batch::{Batch, Body};
use crate::db::open::inner::StoreInner;
use crate::db::reads::ReadPoint;
use crate::db::state::family::{Family, View};
use crate::db::state::store_log::OpenLog;
use crate::env::try_extend;
use crate::env::work::pause;
use crate::error::{IoContext, Result};
use crate::expiry::AsOf;
use crate::interrupt;
use crate::options::{Durability, ReadSettings};
use crate::record::{Record, Seqno};
use crate::wal::{Hold, Precondition};

/// Attempts to commit before the thread takes a hold.
const PATIENCE: u32 = 3;

/// The condition of a commit that is attempted until it succeeds or the condition no longer holds.
pub trait Condition {
    /// Begins an attempt. Called with no lock held; may wait.
    fn prepare(&mut self) -> Result<()>;

    /// Returns the precondition of the attempt, or `None` if the condition no longer holds. The caller may hold its own
    /// commit locks.
    fn precondition(&mut self) -> Result<Option<Precondition>>;
}

/// One end of a family, in key order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The least key.
    First,
    /// The greatest key.
    Last,
}

/// The record that is read.
#[derive(Clone, Copy)]
enum Choice<'a> {
    /// That of a key.
    Key(&'a [u8]),
    /// The one at an end of the family.
    End(End),
}

/// A record as read at one seqno, and the condition that the same read still returns it.
pub struct OptimisticRead<'a> {
    inner: &'a Arc<StoreInner>,
    log: &'a OpenLog,
    family: &'a Family,
    choice: Choice<'a>,
    reading: ReadSettings,
    as_of: AsOf,
    seqno: Seqno,
    found: Option<FoundRecord>,
    /// Buffer for the next read.
    spare: FoundRecord,
    /// No attempt was made since the last read.
    is_fresh: bool,
    attempts: Attempts<'a>,
}

/// A copy of the record that was read. The key is empty if the caller chose it.
#[derive(PartialEq, Eq, Default)]
struct FoundRecord {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl FoundRecord {
    /// Replaces the value by a copy. Returns `Io` if the memory is not available.
    fn keep_value(&mut self, value: &[u8]) -> Result<()> {
        self.value.clear();
        try_extend(&mut self.value, value).during(|| "copying a value")
    }
}

/// The attempts of one optimistic commit, and the hold that it takes after too many of them.
pub(super) struct Attempts<'a> {
    log: &'a OpenLog,
    count: u32,
    hold: Option<Hold<'a, Body>>,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(log: &'a OpenLog) -> Attempts<'a> {
        Attempts { log, count: 0, hold: None }
    }

    /// Begins an attempt; may wait for the holds of other commits. Returns true if it took a hold, so that commits may
    /// have been ordered since.
    pub(super) fn begin(&mut self) -> Result<bool> {
        interrupt::check()?;
        self.count += 1;
        if self.count > PATIENCE && !self.hold.as_ref().is_some_and(Hold::is_served) {
            self.hold = None;
            self.hold = Some(self.log.wal().hold());
            return Ok(true);
        }
        if self.hold.is_none() {
            self.log.wal().await_holds();
        }
        Ok(false)
    }

    /// Returns the precondition that no batch was ordered after `seqno`.
    pub(super) fn unchanged_since(&self, seqno: Seqno) -> Precondition {
        let under = Precondition::default().unchanged_since(seqno);
        self.hold.as_ref().map_or(under, |hold| under.within(hold.id()))
    }
}

impl Db {
    /// Reads a key for a commit that depends on its value. Errors: as for a read; `ReadOnly` if the store cannot be
    /// written.
    pub fn read_optimistic<'a>(
        &'a self,
        family: &'a Family,
        key: &'a [u8],
        reading: impl Into<ReadSettings>,
    ) -> Result<OptimisticRead<'a>> {
        self.read_choice(family, Choice::Key(key), reading.into())
    }

    /// Reads the first or last record of a family for a commit that depends on it. Errors: as for a scan; `ReadOnly` if
    /// the store cannot be written.
    pub fn read_end_optimistic<'a>(
        &'a self,
        family: &'a Family,
        end: End,
        reading: impl Into<ReadSettings>,
    ) -> Result<OptimisticRead<'a>> {
        self.read_choice(family, Choice::End(end), reading.into())
    }

    fn read_choice<'a>(
        &'a self,
        family: &'a Family,
        choice: Choice<'a>,
        reading: ReadSettings,
    ) -> Result<OptimisticRead<'a>> {
        let (inner, log) = self.writable()?;
        let mut read = OptimisticRead {
            inner,
            log,
            family,
            choice,
            reading,
            as_of: AsOf::micros(inner.catalog().reads.expiry_clock().now()),
            seqno: 0,
            found: None,
            spare: FoundRecord::default(),
            is_fresh: true,
            attempts: Attempts::new(log),
        };
        read.read()?;
        Ok(read)
    }

    /// Commits a batch while a condition holds: repeats rejected attempts until one succeeds. Returns `None`, and
    /// changes nothing, once the condition no longer holds. Errors: as for `commit`, and those of the condition.
    pub fn commit_when(
        &self,
        batch: &mut Batch,
        durability: Durability,
        condition: &mut dyn Condition,
    ) -> Result<Option<Seqno>> {
        loop {
            condition.prepare()?;
            let epoch = self.epoch();
            let Some(under) = condition.precondition()? else { return Ok(None) };
            if let Some(last) = self.commit_if(batch, durability, under.in_epoch(epoch))? {
                return Ok(Some(last));
            }
        }
    }

    /// Waits for the holds of optimistic commits, at most 10 ms for one. For a caller whose lock such a commit may need
    /// (`Precondition::passing_holds`); call it before that lock is taken. Usually costs one load.
    #[inline]
    pub fn await_holds(&self) {
        if let Some(log) = self.inner().store_log().log() {
            log.wal().await_holds();
        }
    }
}

impl OptimisticRead<'_> {
    /// Returns the value that was read, or `None` if there was no record or it has expired.
    pub fn value(&self) -> Option<&[u8]> {
        self.found.as_ref().map(|found| &found.value[..])
    }

    /// Returns key and value of the record that was read, or `None` if there was no record or it has expired.
    pub fn record(&self) -> Option<(&[u8], &[u8])> {
        let found = self.found.as_ref()?;
        let key = match self.choice {
            Choice::Key(key) => key,
            Choice::End(_) => &found.key,
        };
        Some((key, &found.value))
    }

    /// Reads the record at the visible seqno. Returns true if it differs from the one read before.
    fn read(&mut self) -> Result<bool> {
        let catalog = self.inner.catalog();
        let is_found = loop {
            // The records of an ingestion appear under a seqno that is already visible, so such a read is repeated.
            let ingestions = catalog.ingestions.load(Ordering::SeqCst);
            if ingestions.is_multiple_of(2) {
                let view = self.family.readable_view()?; // before the seqno (I13)
                self.seqno = self.inner.store_log().visible();
                // Commits up to the seqno may be in a memtable that is newer than the view. Then the batch would be
                // ordered on a state that was not read.
                if !Arc::ptr_eq(&self.family.view().active, &view.active) {
                    continue;
                }
                let is_found = self.read_in(view)?;
                if catalog.ingestions.load(Ordering::SeqCst) == ingestions {
                    break is_found;
                }
            } else {
                pause(Duration::from_millis(1));
            }
            interrupt::check()?;
        };
        let is_same = match &self.found {
            Some(found) => is_found && *found == self.spare,
            None => !is_found,
        };
        if !is_same {
            let before = if is_found { self.found.replace(std::mem::take(&mut self.spare)) } else { self.found.take() };
            self.spare = before.unwrap_or_default();
        }
        Ok(!is_same)
    }

    /// Reads the record in a view into the spare buffer. Returns false if there is none.
    fn read_in(&mut self, view: Arc<View>) -> Result<bool> {
        let reads = &self.inner.catalog().reads;
        let (moment, spare) = (ReadPoint { seqno: self.seqno, as_of: self.as_of }, &mut self.spare);
        let end = match self.choice {
            Choice::End(end) => end,
            Choice::Key(key) => {
                let checks = reads.checks(self.reading);
                let mut kept = Ok(());
                let mut keep = |record: &Record<'_>| kept = spare.keep_value(record.value);
                let is_found = reads.get_in((self.family, &view), (key, None), moment, checks, &mut keep)?;
                return kept.map(|()| is_found);
            }
        };
        let mut cursor = reads.cursor_in(self.family, view, moment, (Bound::Unbounded, Bound::Unbounded), self.reading);
        match end {
            End::First => cursor.first()?,
            End::Last => cursor.last()?,
        }
        if cursor.valid() {
            spare.key.clear();
            spare.key.extend_from_slice(cursor.key());
            spare.keep_value(cursor.value())?;
        }
        Ok(cursor.valid())
    }
}

impl fmt::Debug for OptimisticRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptimisticRead")
            .field("seqno", &self.seqno)
            .field("attempts", &self.attempts.count)
            .finish_non_exhaustive()
    }
}

impl Condition for OptimisticRead<'_> {
    fn prepare(&mut self) -> Result<()> {
        if self.attempts.begin()? {
            self.is_fresh = false;
        }
        Ok(())
    }

    fn precondition(&mut self) -> Result<Option<Precondition>> {
        if !std::mem::take(&mut self.is_fresh) {
            self.inner.write_path().apply_ordered(self.log)?;
            if self.read()? {
                self.is_fresh = true;
                return Ok(None);
            }
        }
        Ok(Some(self.attempts.unchanged_since(self.seqno)))
    }
}
