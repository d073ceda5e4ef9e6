//! Care of a store: verify, scrub, repair, salvage, digest.

use face::care::{Digest, ErrorHandler, RepairSource, Watch};
use face::{Builder, Db, RepairOptions, Report, SalvageOptions, ScrubOptions, VerifyOptions};

use crate::call::answer;
use crate::callback::Caller;
use crate::care_options::{Care, Pass, care_settings, waxseal_care_options_t};
use crate::db::waxseal_db_t;
use crate::error::{Result, waxseal_error_t};
use crate::family::waxseal_family_t;
use crate::handle::{issue, with};
use crate::lent::{Out, lent, out};
use crate::options::{configured, waxseal_options_t};
use crate::range::{bounds, waxseal_range_t};
use crate::repair_source::{Handler, Source};
use crate::report::{Found, waxseal_report_t};
use crate::snapshot::{read, waxseal_snapshot_t};

/// Looks at an open store in some way, and gives the report to the caller.
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
    report.set(issue(Found::from(found))?);
    Ok(())
}

/// Who helps a repair.
struct Helpers {
    source: Option<Source>,
    handler: Option<Handler>,
}

impl Helpers {
    fn of(care: &Care, caller: &Caller) -> Helpers {
        Helpers { source: care.source(caller), handler: care.handler(caller) }
    }

    /// What was said of a repair.
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

/// Looks at every table, block and record, at the memtables, and at what log and manifest say, beside readers and writers. Changes no data.
/// What it finds is in the report; damage is no error of this call. Costs one read of all files past the cache. `options` may be null; of
/// them it knows families and progress.
///
/// Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
/// `waxseal_report_destroy`. Errors: `WAXSEAL_IO`, `WAXSEAL_CLOSED`; `WAXSEAL_INVALID` for a family that is not there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_verify(
    db: *const waxseal_db_t,
    options: *const waxseal_care_options_t,
    report: *mut *mut waxseal_report_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (report, error) = unsafe { (out(report), out(error)) };
    answer(error, || {
        look(db, options, Pass::Verify, report, |db, care, caller| {
            let mut progress = |progress| care.tell(caller, progress);
            db.verify(VerifyOptions { families: care.families.clone(), progress: Some(&mut progress) })
        })
    })
}

/// `waxseal_verify` for a store that nobody has open: nothing of it is written, no log is replayed into it. One that does not open is
/// reported as damaged. `store_options` and `options` may be null.
///
/// Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
/// `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if there is no store, `WAXSEAL_LOCKED` if somebody has it open, `WAXSEAL_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_verify_closed(
    path: *const u8,
    path_len: usize,
    store_options: *const waxseal_options_t,
    options: *const waxseal_care_options_t,
    report: *mut *mut waxseal_report_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (path, report, error) = unsafe { (lent(path, path_len), out(report), out(error)) };
    answer(error, || {
        closed(Db::builder(path.path()?), store_options, options, Pass::Verify, report, |builder, care, caller| {
            let mut progress = |progress| care.tell(caller, progress);
            builder.verify_closed(VerifyOptions { families: care.families.clone(), progress: Some(&mut progress) })
        })
    })
}

/// Looks at a store that is not open in some way, and gives the report to the caller.
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
    report.set(issue(Found::from(found))?);
    Ok(())
}

/// `waxseal_verify`, slowly, for data that nobody reads: at a pace, in portions if asked, and from where the last one stopped. If asked it
/// mends what it finds. It runs on the caller's thread: give it one of its own. `options` may be null; of them it knows all but families,
/// those of repair only if it repairs.
///
/// Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
/// `waxseal_report_destroy`. Errors: as of `waxseal_verify`; with repair, as of `waxseal_repair`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_scrub(
    db: *const waxseal_db_t,
    options: *const waxseal_care_options_t,
    report: *mut *mut waxseal_report_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (report, error) = unsafe { (out(report), out(error)) };
    answer(error, || {
        look(db, options, Pass::Scrub, report, |db, care, caller| {
            let helpers = Helpers::of(care, caller);
            let repair = (care.repair == Some(true)).then(|| helpers.options(care, None));
            let mut progress = |progress| care.tell(caller, progress);
            db.scrub(ScrubOptions {
                bytes_per_second: care.bytes_per_second,
                resume: care.resume,
                most_bytes: care.most_bytes,
                repair,
                progress: Some(&mut progress),
            })
        })
    })
}

/// Finds what is damaged and sends it up the ladder: read again, corrected by its sums and seals, made anew from what else holds it (the
/// log, replaced tables, the source). What nothing helps is told to the handler, once, and by default a fence takes its place: reads there
/// answer `WAXSEAL_CORRUPTION` for good, everything around it is served. Nothing is repaired to an older version, and nothing is guessed.
/// What was mended is durable when this answers. `options` may be null; of them it knows progress and those of repair.
///
/// Thread-safe, if the options are this thread's own meanwhile; safe beside readers and writers. On success `*report` is the caller's,
/// to be ended by `waxseal_report_destroy`. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`, `WAXSEAL_HALTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_repair(
    db: *mut waxseal_db_t,
    options: *const waxseal_care_options_t,
    report: *mut *mut waxseal_report_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (report, error) = unsafe { (out(report), out(error)) };
    answer(error, || {
        look(db.cast_const(), options, Pass::Repair, report, |db, care, caller| {
            let helpers = Helpers::of(care, caller);
            let mut progress = |progress| care.tell(caller, progress);
            db.repair(helpers.options(care, Some(&mut progress)))
        })
    })
}

/// Reads what can still be read of the store in `from`, which may not even open, and writes it into a new store in `to`. The source is not
/// written to. A record that does not match its seal is left out; where it, or anything newer than what was found, may have stood the new
/// store is fenced, unless losses are accepted. `store_options` and `options` may be null.
///
/// Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
/// `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if `to` is not new or empty, `WAXSEAL_LOCKED`, `WAXSEAL_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_salvage(
    from: *const u8,
    from_len: usize,
    to: *const u8,
    to_len: usize,
    store_options: *const waxseal_options_t,
    options: *const waxseal_care_options_t,
    report: *mut *mut waxseal_report_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (from, to, report, error) = unsafe { (lent(from, from_len), lent(to, to_len), out(report), out(error)) };
    answer(error, || {
        let to = to.path()?;
        closed(Db::builder(from.path()?), store_options, options, Pass::Salvage, report, |builder, care, caller| {
            let mut progress = |progress| care.tell(caller, progress);
            let accept_loss = care.accept_loss.unwrap_or(false);
            builder.salvage(&to, SalvageOptions { accept_loss, progress: Some(&mut progress) })
        })
    })
}

/// A count and a sum of records: equal for equal content.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_digest_t {
    /// Records that are seen.
    pub count: u64,
    /// The sum of their seals as numbers, modulo 2^64.
    pub sum: u64,
}

/// A count and a sum of the records of a range, as they are now or, unless `snapshot` is null, as it sees them: equal for equal content,
/// whatever the levels, files and order of commits, so that two stores compare by sixteen bytes. Every record is checked against its seal on
/// the way. Costs a scan. `range` may be null: all keys. It is no proof against somebody who chooses the content.
///
/// Thread-safe. Errors: `WAXSEAL_CORRUPTION` where anything in the range is damaged or may have been lost, `WAXSEAL_INVALID` for a family
/// of another store than the snapshot, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_digest(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    range: *const waxseal_range_t,
    digest: *mut waxseal_digest_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (range, digest, error) = unsafe { (bounds(range), out(digest), out(error)) };
    answer(error, || {
        let digest = digest.needed("digest")?;
        let range = range?;
        let Digest { count, sum } = with(family, |family| {
            read(snapshot, || family.digest(range.clone()), |snapshot| snapshot.digest(family, range.clone()))
        })?;
        digest.set(waxseal_digest_t { count, sum });
        Ok(())
    })
}
