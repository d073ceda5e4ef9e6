//! Integrity maintenance: verify, scrub, repair, salvage, digest. `waxseal_meta::integrity` implements it; this module
//! passes it the store.

use std::path::Path;

use waxseal_lsm::db::{self as engine, At};
use waxseal_lsm::error::{Error, Result};
use waxseal_meta::integrity;
use waxseal_registry::{Field, Operation, Payload};

use crate::attach::Watching;
use crate::builder::Builder;
use crate::db::Db;
use crate::inner::{ColumnFamily, Inner};
use crate::range::KeyRange;
use crate::snapshot::Snapshot;

pub use waxseal_lsm::checksum::Uid as StoreUid;
pub use waxseal_lsm::db::Remedy;
pub use waxseal_lsm::lost_range::LostRange as Fence;
pub use waxseal_lsm::record::Kind;
pub use waxseal_meta::integrity::{
    Candidate, Corrupted, Decision, Digest, ErrorHandler, Finding, Outcome, Progress, RepairOptions, RepairSource,
    Report, Rung, SalvageOptions, ScrubOptions, Step, Token, VerifyOptions, Watch,
};

impl Db {
    /// Verifies every table, block and record, the memtables, the log and the manifest, concurrently with readers and
    /// writers.
    ///
    /// Changes no data. The report lists all damage; damage is not an error of this call. If the store is open for
    /// writing, an event (`Engine.Scrub`) records the run and its result.
    ///
    /// Costs one read of all files, bypassing the cache, on the caller's thread. Errors: `Io`, `Closed`; `Invalid` for
    /// a family that does not exist. Source: the offline check of the MetaHive paper, section 4, done online.
    /// docs/integrity.md lists the kinds of damage that it detects, and those that it cannot.
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
        self.inner.looking("verify", is_whole, |engine| integrity::verify(engine, options))
    }

    /// Runs `verify` slowly, for data that is rarely read: rate-limited, optionally in portions, resuming where the
    /// last portion stopped. With `options.repair` it repairs the damage that it finds. Every portion reports the lost
    /// ranges that the store has when it ends.
    ///
    /// Runs on the caller's thread: use a dedicated one. Errors: as for `verify`; with repair, as for `repair`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// use waxseal::ScrubOptions;
    ///
    /// let options = ScrubOptions { bytes_per_second: Some(8 << 20), most_bytes: Some(1 << 30), ..ScrubOptions::default() };
    /// let report = db.scrub(options)?;
    /// let next = ScrubOptions { resume: report.resume, ..ScrubOptions::default() }; // tomorrow
    /// # let _ = next;
    /// # Ok(())
    /// # }
    /// ```
    pub fn scrub(&self, options: ScrubOptions<'_>) -> Result<Report> {
        self.inner.check_open()?;
        let (is_whole, way) = (options.resume.is_none(), if options.repair.is_some() { "repair" } else { "scrub" });
        self.inner.looking(way, is_whole, |engine| integrity::scrub(engine, options))
    }

    /// Finds damage and repairs it step by step: re-read, correct with checksums and seals, rebuild from other copies
    /// (the log, replaced tables, `options.source`).
    ///
    /// Damage that no step repairs is reported once to `options.handler`. By default it becomes a lost range (fence):
    /// reads there return `Corruption` permanently, and all other reads work. No repair restores an older version or
    /// guesses content: every replacement record matches its seal. Lost ranges that are left, also those of an earlier
    /// repair, are in the report, so `is_clean` is false while reads of the store fail. Repairs are durable when the call returns. An event
    /// (`Engine.Repair`) records the damage and the steps that repaired it. May run concurrently with readers and
    /// writers. Errors: `ReadOnly`, `Io`, `Closed`, `Halted`.
    ///
    /// Source: the retries and the handler of the MetaHive paper, section 4.3; docs/integrity.md describes the steps.
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
        self.inner.looking("repair", true, |engine| integrity::repair(engine, options))
    }

    /// Returns the count and a checksum of the current records of a range. Equal content has equal digests, whatever
    /// its levels, files and commit order, so two stores can be compared by sixteen bytes. Every record is checked
    /// against its seal.
    ///
    /// Costs a scan. Errors: `Corruption` where anything in the range is damaged or may have been lost; `Invalid` for a
    /// family of another store. The digest does not protect against an adversary who chooses the content.
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

    /// Reads the undamaged records of the store in `from`, even if it cannot be opened, and writes them to a new store
    /// in `to`.
    ///
    /// The source is not written to. A record that does not match its seal is left out. Where it, or a newer version of
    /// a recovered record, may have been, the new store has a lost range: reads there return `Corruption`.
    /// [`Builder::salvage`] does the same for a store with settings, or with the loss accepted.
    pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Report> {
        Db::builder(from).salvage(to, SalvageOptions::default())
    }
}

impl ColumnFamily {
    /// Returns the lost key ranges (fences): reads in them return `Corruption` until a repair removes them.
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
        Ok(self.inner.engine.lost_ranges(&self.family).into_iter().map(|(_, fence)| fence).collect())
    }

    /// Returns the digest of a range of the current state: see [`Db::digest`].
    pub fn digest(&self, range: impl KeyRange) -> Result<Digest> {
        self.inner.check(&self.family)?;
        integrity::digest(&self.inner.engine, &self.family, &range.into_bounds(), At::Latest)
    }

    /// Returns the numbers of damaged table files, which compaction does not touch until they are repaired.
    pub fn barred_tables(&self) -> Result<Vec<u64>> {
        self.inner.check(&self.family)?;
        Ok(self.inner.engine.quarantined_tables(&self.family))
    }
}

impl Snapshot {
    /// Returns the digest of a range at the snapshot: see [`Db::digest`].
    pub fn digest(&self, cf: &ColumnFamily, range: impl KeyRange) -> Result<Digest> {
        let at = self.of(cf)?;
        self.inner.check(&cf.family)?;
        integrity::digest(&self.inner.engine, &cf.family, &range.into_bounds(), At::Snapshot(at))
    }
}

impl Builder {
    /// Verifies a store that no process has open. The call writes nothing and does not replay the log. A store that
    /// cannot be opened is reported as damaged. Errors: `Invalid` if there is no store, `Locked` if a process has it
    /// open, `Io`.
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
        integrity::verify_closed(&ready.path, ready.settings, ready.parts, options)
    }

    /// Copies all readable records of this store into a new store at `to`: see [`Db::salvage`]. Errors: `Invalid` if
    /// `to` is not new or empty, or if no manifest is left and files of several stores are there
    /// ([`SalvageOptions::stores`] names one), `Locked`, `Io`.
    pub fn salvage(self, to: impl AsRef<Path>, options: SalvageOptions<'_>) -> Result<Report> {
        let ready = self.prepare()?;
        if ready.protector.is_none() {
            return Err(Error::invalid("only a store with seals is salvaged: leave out plain()"));
        }
        integrity::salvage(&ready.path, to.as_ref(), ready.settings, ready.parts, options)
    }
}

impl Inner {
    /// Runs a maintenance call on the store and logs an event for it. A failure to log is ignored: the report is the
    /// result, and the same failure will make the next write fail with an error.
    fn looking(&self, way: &str, is_whole: bool, look: impl FnOnce(&engine::Db) -> Result<Report>) -> Result<Report> {
        let start = self.env.clock.monotonic_nanos();
        let report = look(&self.engine)?;
        let nanos = self.env.clock.monotonic_nanos().saturating_sub(start);
        let (operation, payload) = account(&report, way, is_whole, nanos);
        let _ = self.note_event(operation, payload);
        Ok(report)
    }

    /// Logs work done to the store above the engine, if the store has a log and is open for writing.
    pub(crate) fn note_event(&self, operation: Operation, payload: Payload) -> Result<()> {
        match &self.watching {
            Watching::Registrar(registrar) if !self.engine.is_read_only() => registrar.note(operation, payload),
            _ => Ok(()),
        }
    }
}

/// Builds the event for a maintenance run. It is a repair event only if there was damage to repair.
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
