//! Integrity maintenance: verify, scrub, repair, salvage, digest.

use face::care::{Digest, ErrorHandler, RepairSource, Watch};
use face::{Builder, Db, RepairOptions, Report, SalvageOptions, ScrubOptions, VerifyOptions};

use crate::care_options::{Care, Pass, care_settings, waxseal_care_options_t};
use crate::db::waxseal_db_t;
use crate::error::calls;
use crate::failure::Result;
use crate::family::waxseal_family_t;
use crate::handle::{issue, with};
use crate::lent::Out;
use crate::options::{configured, waxseal_options_t};
use crate::range::waxseal_range_t;
use crate::reentry::Caller;
use crate::repair_source::{CallerSource, Handler};
use crate::report::{ReportTexts, waxseal_report_t};
use crate::snapshot::{read, waxseal_snapshot_t};

/// Runs a pass over an open store and hands the report to the caller.
fn look(
    db: *const waxseal_db_t,
    options: *const waxseal_care_options_t,
    pass: Pass,
    report: Out<'_, *mut waxseal_report_t>,
    look: impl FnOnce(&Db, &Care, &Caller) -> face::Result<Report>,
) -> Result<()> {
    let report = report.needed("report")?;
    let care = care_settings(options, pass)?;
    let found = with(db, |db| care.unless_interrupted(look(db, &care, &Caller::of(db.store()))))?;
    report.set(issue(ReportTexts::from(found))?);
    Ok(())
}

/// The callbacks that help a repair.
struct Helpers {
    source: Option<CallerSource>,
    handler: Option<Handler>,
}

impl Helpers {
    fn of(care: &Care, caller: &Caller) -> Helpers {
        Helpers { source: care.source(caller), handler: care.handler(caller) }
    }

    /// Returns the repair options.
    fn options<'a>(&'a self, care: &Care, progress: Option<Watch<'a>>) -> RepairOptions<'a> {
        RepairOptions {
            accept_loss: care.accept_loss.unwrap_or(false),
            source: self.source.as_ref().map(|source| source as &dyn RepairSource),
            handler: self.handler.as_ref().map(|handler| handler as &dyn ErrorHandler),
            max_retries: care.max_retries.unwrap_or(0),
            trash: care.trash.clone(),
            progress,
        }
    }
}

calls! {
    /// Checks every table, block and record, the memtables, the log and the manifest, concurrently with readers and
    /// writers. Changes no data. The report lists the findings; damage is not an error of this call. Costs one read of
    /// all files, bypassing the cache. `options` may be null; verify accepts families and progress.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it
    /// with `waxseal_report_destroy`. Errors: `WAXSEAL_IO`, `WAXSEAL_CLOSED`; `WAXSEAL_INVALID` for a family that does
    /// not exist.
    fn waxseal_verify(
        db: *const waxseal_db_t, options: *const waxseal_care_options_t, out report: *mut *mut waxseal_report_t,
    ) {
        look(db, options, Pass::Verify, report, |db, care, caller| {
            let mut progress = |progress| care.notify(caller, progress);
            db.verify(VerifyOptions { families: care.families.clone(), progress: Some(&mut progress) })
        })
    }

    /// `waxseal_verify` for a closed store. It writes nothing to the store and replays no log into it. A store that
    /// cannot be opened is reported as damaged. `store_options` and `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it
    /// with `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if there is no store, `WAXSEAL_LOCKED` if the store is
    /// open, `WAXSEAL_IO`.
    fn waxseal_verify_closed(
        bytes path, store_options: *const waxseal_options_t, options: *const waxseal_care_options_t,
        out report: *mut *mut waxseal_report_t,
    ) {
        closed(Db::builder(path.path()?), store_options, options, Pass::Verify, report, |builder, care, caller| {
            let mut progress = |progress| care.notify(caller, progress);
            builder.verify_closed(VerifyOptions { families: care.families.clone(), progress: Some(&mut progress) })
        })
    }
}

/// Runs a pass over a closed store and hands the report to the caller.
fn closed(
    builder: Builder,
    store_options: *const waxseal_options_t,
    options: *const waxseal_care_options_t,
    pass: Pass,
    report: Out<'_, *mut waxseal_report_t>,
    look: impl FnOnce(Builder, &Care, &Caller) -> face::Result<Report>,
) -> Result<()> {
    let report = report.needed("report")?;
    let care = care_settings(options, pass)?;
    let (builder, caller) = configured(store_options, builder)?;
    let found = care.unless_interrupted(look(builder, &care, &caller))?;
    report.set(issue(ReportTexts::from(found))?);
    Ok(())
}

calls! {
    /// `waxseal_verify` in the background, for cold data: at a limited rate, optionally in portions, and from the place
    /// where the previous scrub stopped. It repairs damage if asked to. Its report includes every fence that is left.
    /// It runs on the caller's thread: use a dedicated one. `options` may be null; scrub accepts all except families,
    /// and those of repair only if it repairs.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it
    /// with `waxseal_report_destroy`. Errors: as of `waxseal_verify`; with repair, as of `waxseal_repair`.
    fn waxseal_scrub(
        db: *const waxseal_db_t, options: *const waxseal_care_options_t, out report: *mut *mut waxseal_report_t,
    ) {
        look(db, options, Pass::Scrub, report, |db, care, caller| {
            let helpers = Helpers::of(care, caller);
            let repair = (care.repair == Some(true)).then(|| helpers.options(care, None));
            let mut progress = |progress| care.notify(caller, progress);
            db.scrub(ScrubOptions {
                bytes_per_second: care.bytes_per_second,
                resume: care.resume,
                most_bytes: care.most_bytes,
                repair,
                progress: Some(&mut progress),
            })
        })
    }

    /// Finds damage and tries the repair steps in order: read again, correct by checksums and seals, rebuild from
    /// another copy (the log, replaced tables, the source). If no step helps, the handler is asked once. By default the
    /// key range is then fenced: reads in it return `WAXSEAL_CORRUPTION` until the fence is lifted, and keys outside it
    /// are served. Fences that are left, also those of an earlier repair, are in the report. Repair never restores an
    /// older version and never guesses. Repaired data is durable when this call returns. `options` may be null; repair
    /// accepts progress and those of repair.
    ///
    /// Thread-safe, also with concurrent readers and writers, if no other thread uses the options meanwhile. On success
    /// the caller owns `*report` and frees it with `waxseal_report_destroy`. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`,
    /// `WAXSEAL_CLOSED`, `WAXSEAL_HALTED`.
    fn waxseal_repair(
        db: *mut waxseal_db_t, options: *const waxseal_care_options_t, out report: *mut *mut waxseal_report_t,
    ) {
        look(db.cast_const(), options, Pass::Repair, report, |db, care, caller| {
            let helpers = Helpers::of(care, caller);
            let mut progress = |progress| care.notify(caller, progress);
            db.repair(helpers.options(care, Some(&mut progress)))
        })
    }

    /// Copies all readable records of the store in `from`, which may be too damaged to open, to a new store in `to`.
    /// The source is not modified. A record that does not match its seal is omitted. The new store fences the key
    /// ranges that may have held an omitted record, or a newer version of a copied one, unless losses are accepted.
    /// `store_options` and `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it
    /// with `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if `to` is neither new nor empty, `WAXSEAL_LOCKED`,
    /// `WAXSEAL_IO`.
    fn waxseal_salvage(
        bytes from, bytes to, store_options: *const waxseal_options_t, options: *const waxseal_care_options_t,
        out report: *mut *mut waxseal_report_t,
    ) {
        let to = to.path()?;
        closed(Db::builder(from.path()?), store_options, options, Pass::Salvage, report, |builder, care, caller| {
            let mut progress = |progress| care.notify(caller, progress);
            let accept_loss = care.accept_loss.unwrap_or(false);
            let stores = care.stores.clone().unwrap_or_default();
            builder.salvage(&to, SalvageOptions { accept_loss, stores, progress: Some(&mut progress) })
        })
    }
}

/// Number and seal sum of records: equal for equal content.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_digest_t {
    /// Number of visible records.
    pub count: u64,
    /// The sum of their seals as numbers, modulo 2^64.
    pub sum: u64,
}

calls! {
    /// Computes the number and the seal sum of the records in a range, at the current state or, unless `snapshot` is
    /// null, at the snapshot. Equal content has an equal digest, whatever the levels, files and commit order, so two
    /// stores compare by sixteen bytes. Every record is checked against its seal. Costs a scan. A null `range` means
    /// all keys. The digest is not secure against an adversary who chooses the content.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CORRUPTION` if a record in the range is damaged or may have been lost,
    /// `WAXSEAL_INVALID` if family and snapshot belong to different stores, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_digest(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bounds range: *const waxseal_range_t,
        out digest: *mut waxseal_digest_t,
    ) {
        let digest = digest.needed("digest")?;
        let range = range?;
        let Digest { count, sum } = with(family, |family| {
            read(snapshot, || family.digest(range.clone()), |snapshot| snapshot.digest(family, range.clone()))
        })?;
        digest.set(waxseal_digest_t { count, sum });
        Ok(())
    }
}
