//! Records in, tables out: the pass that flushes and compactions share.
//!
//! In:     a cursor over the merged inputs in internal order, and the ledger that the inputs' own records give (never the merge).
//! Out:    table files, written and synced, not yet named by any edit (I04 is the caller's: directory, then edit).
//! Holds:  no user key over two tables (I05); what a live snapshot sees is kept (I08); the ledger closes (I11): what came in is
//!         what the finished blocks hold plus what was dropped, counted and summed by kind. A keeper that gives a companion to a
//!         record without one, or makes one for a new value, adds a term; one that takes a companion away leaves a gap.
//!         A record is checked before it is dropped, since a damaged key, seqno or kind could be the reason why it is; and
//!         records out of order end the pass, since a newer one met too late would be dropped for an older.
//! Crash:  unnamed files, swept at the next open.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cursor::Cursor;
use crate::env::{Env, Open};
use crate::error::{Damage, Error, ErrorKind, IoContext, Result, Verdict};
use crate::ledger::Ledger;
use crate::names::Name;
use crate::options::{CfOptions, Compression};
use crate::planted::{self, Bug};
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Build, Companions, DropReason, Protection, Rows};
use crate::sst::{Finished, Writer, WriterSettings, checked_term};
use crate::version::TableMeta;

use super::rules::{Decision, Rules};
use super::split::Splitter;

/// What the pass needs to know; facts, not the store.
pub struct Job<'a> {
    /// Files and randomness.
    pub env: &'a Env,
    /// The store's directory.
    pub dir: &'a Path,
    /// The keeper of companions.
    pub companions: &'a Arc<dyn Companions>,
    /// The family's id.
    pub family: u32,
    /// The family's settings.
    pub options: &'a CfOptions,
    /// How the outputs are packed.
    pub compression: Compression,
    /// Not above any seqno of the inputs.
    pub base_seqno: Seqno,
    /// Gives numbers to new files.
    pub next_file: &'a dyn Fn() -> u64,
    /// Set when the store closes: the pass stops with `Closed`.
    pub cancelled: &'a AtomicBool,
    /// What the inputs' own records say.
    pub expected: Ledger,
    /// Whether they have sums of all companions; tables that a plain node wrote have counts only.
    pub summed: bool,
}

/// Writes the records of `cursor` that `rules` keeps into tables that end where `splitter` says.
///
/// On any error the files written so far are removed again, as far as possible.
pub fn write_tables(
    job: &Job<'_>,
    cursor: &mut dyn Cursor,
    mut rules: Rules<impl FnMut(&[u8]) -> bool>,
    mut splitter: Splitter,
) -> Result<Vec<TableMeta>> {
    let mut outputs = Outputs {
        job,
        open: None,
        tables: Vec::new(),
        numbers: Vec::new(),
        companion: Vec::new(),
        derived: Ledger::default(),
    };
    let outcome = outputs.run(cursor, &mut rules, &mut splitter);
    if outcome.is_err() {
        for number in &outputs.numbers {
            let _ = job.env.fs.remove(&job.dir.join(Name::Table(*number).to_string()));
        }
    }
    outcome.map(|()| outputs.tables)
}

struct Outputs<'a> {
    job: &'a Job<'a>,
    open: Option<OpenTable>,
    tables: Vec<TableMeta>,
    /// Files made, finished or not.
    numbers: Vec<u64>,
    /// Room for a companion that the keeper writes anew.
    companion: Vec<u8>,
    /// Terms that the keeper added, by kind; counts only of rows that it made.
    derived: Ledger,
}

struct OpenTable {
    number: u64,
    uid: crate::checksum::Uid,
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
        let mut dropped = Ledger::default();
        let mut since_check = 0;
        let mut own = companions.rows(self.job.family, &self.job.options.order)?;
        cursor.first()?;
        while cursor.valid() {
            let record = cursor.record();
            if let Some(own) = &mut own
                && own.takes(&record, cursor.source())?
            {
                dropped.add(record.kind, companions.term(&record));
                cursor.next()?;
                continue;
            }
            let mut decision = rules.decide(record.key, record.seqno, record.kind);
            if decision == Decision::Keep
                && record.kind == Kind::Put
                && companions.expired(&record, &|| self.job.env.clock.wall_micros())
                && rules.may_expire()
            {
                decision = Decision::Drop(DropReason::Expired);
            }
            match decision {
                Decision::Disordered => {
                    let damage = Damage {
                        verdict: Verdict::Ledger,
                        key_range: Some((record.key.to_vec(), record.key.to_vec())),
                        ..Damage::default()
                    };
                    return Err(Error::corruption(damage, "records are merged out of order"));
                }
                Decision::Drop(reason) => {
                    dropped.add(record.kind, checked_term(&*companions, &record, cursor.source().protection)?);
                    companions.on_drop(&record, reason);
                    own.as_mut().map_or(Ok(()), |own| own.sees(&record, false, cursor.source()))?;
                }
                Decision::Keep if own.is_some() => {
                    own.as_mut().map_or(Ok(()), |own| own.sees(&record, true, cursor.source()))?;
                    self.put_groups(own.as_deref_mut(), splitter)?;
                }
                Decision::Keep => {
                    let written = self.open.as_ref().map_or(0, |open| open.writer.file_bytes());
                    if splitter.ends_before(record.key, written) {
                        self.finish_table()?;
                    }
                    self.add(&record, cursor.source().protection)?;
                }
            }
            since_check += 1;
            if since_check == 1024 {
                since_check = 0;
                if self.job.cancelled.load(Ordering::Relaxed) {
                    return Err(Error::of(ErrorKind::Closed, "the store is closing"));
                }
            }
            cursor.next()?;
        }
        own.as_mut().map_or(Ok(()), |own| own.ends())?;
        self.put_groups(own.as_deref_mut(), splitter)?;
        self.finish_table()?;
        self.balance(&dropped)
    }

    /// Writes what the keeper's own rows have been put between. A table ends in front of a group only.
    fn put_groups(&mut self, own: Option<&mut (dyn Rows + '_)>, splitter: &mut Splitter) -> Result<()> {
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

    fn add(&mut self, record: &Record<'_>, source: Protection) -> Result<()> {
        if self.open.is_none() {
            self.open = Some(self.open_table()?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        self.companion.clear();
        let companions = self.job.companions;
        let build = companions.on_build(record, source, &mut self.companion);
        if build == Build::Keep {
            return open.writer.add(record);
        }
        let built = Record { companion: &self.companion, ..*record };
        let (old, new) = (companions.term(record), companions.term(&built));
        if build == Build::Derive || (build == Build::Set && old == 0) {
            self.derived.adjust(record.kind, new.wrapping_sub(old));
        }
        open.writer.add(&built)
    }

    fn open_table(&mut self) -> Result<OpenTable> {
        let job = self.job;
        let number = (job.next_file)();
        let name = Name::Table(number).to_string();
        let file = job.env.fs.open(&job.dir.join(&name), Open::Create).during(|| format!("creating {name}"))?;
        self.numbers.push(number);
        let uid = job.env.random.uid();
        let settings = WriterSettings {
            order: job.options.order.clone(),
            family: job.family,
            block_bytes: job.options.block_bytes,
            restart_interval: job.options.restart_interval,
            filter_bits: job.options.filter_bits,
            compression: job.compression,
            base_seqno: job.base_seqno,
            seal_column: job.options.seal_column,
            created_micros: job.env.clock.wall_micros(),
        };
        let writer = Writer::new(file.clone(), uid, settings, job.companions.clone());
        Ok(OpenTable { number, uid, file, writer })
    }

    fn finish_table(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let name = Name::Table(open.number);
        let finished: Finished = open.writer.finish()?;
        if !planted::active(Bug::EditBeforeTableSync) {
            open.file.sync_data().during(|| format!("syncing {name}"))?;
        }
        self.tables.push(TableMeta {
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
        });
        Ok(())
    }

    /// I11: Σ-in (from the inputs' own records) + Σ derived = Σ-out (from the verifying pass over finished blocks) + Σ dropped.
    fn balance(&self, dropped: &Ledger) -> Result<()> {
        let mut accounted = *dropped;
        for table in &self.tables {
            accounted.merge(&table.ledger);
        }
        let mut expected = self.job.expected;
        expected.merge(&self.derived);
        let summed = self.job.summed && self.job.companions.protection() != Protection::None;
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
}
