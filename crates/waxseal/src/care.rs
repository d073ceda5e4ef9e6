//! Care of a store: verify, scrub, repair, salvage, digest. The work is done by `waxseal_meta::care`; this file lends it the store.

use std::path::Path;

use waxseal_lsm::db::{self as engine, At};
use waxseal_lsm::error::{Error, Result};
use waxseal_meta::care;
use waxseal_registry::{Field, Operation, Payload};

use crate::attach::Watching;
use crate::builder::Builder;
use crate::db::{Db, Inner};
use crate::family::ColumnFamily;
use crate::range::KeyRange;
use crate::snapshot::Snapshot;

pub use waxseal_lsm::db::Remedy;
pub use waxseal_lsm::fence::Fence;
pub use waxseal_lsm::record::Kind;
pub use waxseal_meta::care::{
    Candidate, Corrupted, Decision, Digest, ErrorHandler, Finding, Outcome, Progress, RepairOptions, RepairSource,
    Report, Rung, SalvageOptions, ScrubOptions, Step, Token, VerifyOptions, Watch,
};

impl Db {
    /// Looks at every table, block and record, at the memtables, and at what log and manifest say, beside readers and writers.
    /// Changes no data. What it finds is in the report; damage is not an error of this call. Where the store is open for writing, an event
    /// (`Engine.Scrub`) says that it was looked at, and what came of it.
    ///
    /// Costs one read of all files past the cache, on the caller's thread. Errors: `Io`, `Closed`; `Invalid` for a family that
    /// does not exist. Source: the offline check of the MetaHive paper, section 4, made online; docs/integrity.md has what it
    /// can tell and what not.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::VerifyOptions;
    ///
    /// let db = waxseal::Db::memory()?;
    /// db.column_family("default")?.put("key", "value")?;
    /// let report = db.verify(VerifyOptions::default())?;
    /// assert!(report.is_clean());
    /// println!("{report}"); // for people; report.json() for programs
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self, options: VerifyOptions<'_>) -> Result<Report> {
        self.inner.check_open()?;
        let is_whole = options.families.is_none();
        self.inner.looking("verify", is_whole, |engine| care::verify(engine, options))
    }

    /// `verify`, slowly, for data that nobody reads: at a pace, in portions if asked, and from where the last one stopped. With
    /// `options.repair` it mends what it finds.
    ///
    /// It runs on the caller's thread: give it one of its own. Errors: as `verify`; with repair, as `repair`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// use waxseal::ScrubOptions;
    ///
    /// let options = ScrubOptions { bytes_per_second: Some(8 << 20), most_bytes: Some(1 << 30), ..ScrubOptions::default() };
    /// let report = db.scrub(options)?;
    /// let next = ScrubOptions { resume: report.resume, ..ScrubOptions::default() }; // tomorrow; a token is 36 bytes to keep
    /// # let _ = next;
    /// # Ok(())
    /// # }
    /// ```
    pub fn scrub(&self, options: ScrubOptions<'_>) -> Result<Report> {
        self.inner.check_open()?;
        let (is_whole, way) = (options.resume.is_none(), if options.repair.is_some() { "repair" } else { "scrub" });
        self.inner.looking(way, is_whole, |engine| care::scrub(engine, options))
    }

    /// Finds what is damaged and sends it up the ladder: read again, corrected by its sums and seals, made anew from what else
    /// holds it (the log, replaced tables, `options.source`). What nothing helps is told to `options.handler`, once, and by default
    /// a fence takes its place: reads there answer `Corruption` for good, everything around it is served.
    ///
    /// Nothing is repaired to an older version, and nothing is guessed: what takes the place of a record has its seal. What was
    /// mended is durable when this returns, and an event (`Engine.Repair`) says what was found and what helped. Errors: `ReadOnly`, `Io`, `Closed`, `Halted`. Safe beside readers and writers.
    /// Source: the retries and the handler of the MetaHive paper, section 4.3; the ladder is docs/integrity.md.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// use waxseal::RepairOptions;
    ///
    /// let report = db.repair(RepairOptions::default())?;
    /// for finding in &report.damage {
    ///     println!("{finding}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn repair(&self, options: RepairOptions<'_>) -> Result<Report> {
        self.inner.check_writable()?;
        self.inner.looking("repair", true, |engine| care::repair(engine, options))
    }

    /// A count and a sum of the records of a range as they are now: equal for equal content, whatever the levels, files and
    /// order of commits, so that two stores compare by sixteen bytes. Every record is checked against its seal on the way.
    ///
    /// Costs a scan. Errors: `Corruption` where anything in the range is damaged or may have been lost; `Invalid` for a family of
    /// another store. It is no proof against somebody who chooses the content.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::Db;
    ///
    /// let (one, other) = (Db::memory()?, Db::memory()?);
    /// let (a, b) = (one.column_family("default")?, other.column_family("default")?);
    /// a.put("x", "1")?;
    /// a.put("y", "2")?;
    /// b.put("y", "0")?;
    /// b.put("y", "2")?;
    /// other.flush()?;
    /// b.put("x", "1")?;
    /// assert_eq!(one.digest(&a, ..)?, other.digest(&b, ..)?);
    /// b.delete("x")?;
    /// assert_ne!(one.digest(&a, ..)?, other.digest(&b, ..)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn digest(&self, cf: &ColumnFamily, range: impl KeyRange) -> Result<Digest> {
        self.snapshot().digest(cf, range)
    }

    /// Reads what can still be read of the store in `from`, which may not even open, and writes it into a new store in `to`. The
    /// source is not written to. A record that does not match its seal is left out; where it, or anything newer than what was found,
    /// may have stood the new store is fenced: reads there answer `Corruption`. [`Builder::salvage`] does the same for a store with
    /// settings, or with the loss accepted.
    pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Report> {
        Db::builder(from).salvage(to, SalvageOptions::default())
    }
}

impl ColumnFamily {
    /// Where something was lost for good: reads between these keys answer `Corruption`, until a repair lifts the fence.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// for fence in cf.fences()? {
    ///     println!("{:?} to {:?}: {}", fence.from.0, fence.to.0, fence.error());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fences(&self) -> Result<Vec<Fence>> {
        self.inner.check(&self.family)?;
        Ok(self.inner.engine.fences(&self.family).into_iter().map(|(_, fence)| fence).collect())
    }

    /// The digest of a range as it is now: see [`Db::digest`].
    pub fn digest(&self, range: impl KeyRange) -> Result<Digest> {
        self.inner.check(&self.family)?;
        care::digest(&self.inner.engine, &self.family, &range.into_bounds(), At::Latest)
    }

    /// Numbers of the table files that are damaged and that compaction leaves alone until they are repaired.
    pub fn barred_tables(&self) -> Result<Vec<u64>> {
        self.inner.check(&self.family)?;
        Ok(self.inner.engine.barred_tables(&self.family))
    }
}

impl Snapshot {
    /// The digest of a range as it was: see [`Db::digest`].
    pub fn digest(&self, cf: &ColumnFamily, range: impl KeyRange) -> Result<Digest> {
        let at = self.of(cf)?;
        self.inner.check(&cf.family)?;
        care::digest(&self.inner.engine, &cf.family, &range.into_bounds(), At::Snapshot(at))
    }
}

impl Builder {
    /// `verify` for a store that nobody has open: nothing of it is written, no log is replayed into it. One that does not open is
    /// reported as damaged. Errors: `Invalid` if there is no store, `Locked` if somebody has it open, `Io`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("store");
    /// use waxseal::{Db, VerifyOptions};
    ///
    /// Db::open(&path)?.close()?;
    /// assert!(Db::builder(&path).verify_closed(VerifyOptions::default())?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify_closed(self, options: VerifyOptions<'_>) -> Result<Report> {
        let ready = self.prepare()?;
        care::verify_closed(&ready.path, ready.settings, ready.parts, options)
    }

    /// Reads what can still be read of this store and writes it into a new one in `to`: see [`Db::salvage`]. Errors: `Invalid` if
    /// `to` is not new or empty, `Locked`, `Io`.
    pub fn salvage(self, to: impl AsRef<Path>, options: SalvageOptions<'_>) -> Result<Report> {
        let ready = self.prepare()?;
        if ready.keeper.is_none() {
            return Err(Error::invalid("only a store with seals is salvaged: leave out plain()"));
        }
        care::salvage(&ready.path, to.as_ref(), ready.settings, ready.parts, options)
    }
}

impl Inner {
    /// Looks at the store in some way, and notes that this was done. An event that cannot be written is left out: the report counts, and
    /// whatever keeps an event from being written keeps the next write from being done, which says so.
    fn looking(&self, way: &str, is_whole: bool, look: impl FnOnce(&engine::Db) -> Result<Report>) -> Result<Report> {
        let start = self.env.clock.monotonic_nanos();
        let report = look(&self.engine)?;
        let nanos = self.env.clock.monotonic_nanos().saturating_sub(start);
        let (operation, payload) = account(&report, way, is_whole, nanos);
        let _ = self.note_event(operation, payload);
        Ok(report)
    }

    /// Notes what was done to the store from above the engine, where there is a log and it can be written.
    pub(crate) fn note_event(&self, operation: Operation, payload: Payload) -> Result<()> {
        match &self.watching {
            Watching::Registrar(registrar) if !self.engine.is_read_only() => registrar.note(operation, payload),
            _ => Ok(()),
        }
    }
}

/// What the log says of a look at the store: a repair only where there was something to repair.
fn account(report: &Report, way: &str, is_whole: bool, nanos: u64) -> (Operation, Payload) {
    let is_whole = is_whole && report.resume.is_none() && !report.cancelled;
    let verdict = match report.damage.len() {
        0 => "clean".to_owned(),
        1 => "1 place damaged".to_owned(),
        places => format!("{places} places damaged"),
    };
    let mut payload = Payload::new()
        .with(Field::Method(way.to_owned()))
        .with(Field::Verdict(verdict))
        .with(Field::Setting(("extent".to_owned(), if is_whole { "whole" } else { "part" }.to_owned())))
        .with(Field::Records(report.records))
        .with(Field::Bytes(report.bytes))
        .with(Field::Nanos(nanos));
    if way != "repair" || report.damage.is_empty() {
        return (Operation::ENGINE_SCRUB, payload);
    }
    let mut tries = 0;
    for finding in &report.damage {
        tries += finding.steps.len() as u64;
        if let Outcome::Repaired(rung) = finding.outcome {
            let helper = Field::Helper(rung.to_string());
            if !payload.fields().contains(&helper) {
                payload.push(helper);
            }
        }
    }
    payload.push(Field::Retries(tries));
    for (name, count) in [("repaired", report.repaired), ("lost", report.lost)] {
        payload.push(Field::Setting((name.to_owned(), count.to_string())));
    }
    (Operation::ENGINE_REPAIR, payload)
}
