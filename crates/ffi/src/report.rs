//! Reports: what verify, scrub, repair and salvage found.

use std::ffi::c_char;
use std::sync::OnceLock;

use face::Report;
use face::care::{Finding, Outcome, Rung, Token};

use crate::call::{status_of, value_of};
use crate::error::{c_text, verdict_number};
use crate::handle::{Kind, end, handle, with};
use crate::lent::{out, waxseal_slice_t};

/// It was reported, and nothing was changed.
pub const WAXSEAL_OUTCOME_REPORTED: i32 = 0;
/// Nothing was lost: it was repaired.
pub const WAXSEAL_OUTCOME_REPAIRED: i32 = 1;
/// A fence stands in its place: reads there answer `WAXSEAL_CORRUPTION`.
pub const WAXSEAL_OUTCOME_FENCED: i32 = 2;
/// The file stays as it is, left alone by compaction.
pub const WAXSEAL_OUTCOME_BARRED: i32 = 3;
/// The loss was accepted: reads go on as if the records had never been.
pub const WAXSEAL_OUTCOME_ACCEPTED: i32 = 4;
/// Something that this header has no number for.
pub const WAXSEAL_OUTCOME_OTHER: i32 = 5;

/// Nothing was tried, or nothing helped.
pub const WAXSEAL_RUNG_NONE: i32 = 0;
/// The file was read again, past what memory held of it.
pub const WAXSEAL_RUNG_READ_AGAIN: i32 = 1;
/// Another copy in memory was whole.
pub const WAXSEAL_RUNG_MEMORY: i32 = 2;
/// One or two flipped bits were found by the block's sum and its seals.
pub const WAXSEAL_RUNG_CORRECTION: i32 = 3;
/// Index, filter and properties were made anew from the data.
pub const WAXSEAL_RUNG_REBUILD: i32 = 4;
/// The log still held the records.
pub const WAXSEAL_RUNG_LOG: i32 = 5;
/// Tables that compaction had replaced still held them.
pub const WAXSEAL_RUNG_TRASH: i32 = 6;
/// The caller's source had them.
pub const WAXSEAL_RUNG_SOURCE: i32 = 7;
/// The caller's handler decided.
pub const WAXSEAL_RUNG_HANDLER: i32 = 8;
/// Something that this header has no number for.
pub const WAXSEAL_RUNG_OTHER: i32 = 9;

/// Where a scrub goes on; to be kept as it is. It survives compactions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct waxseal_resume_t {
    /// The place.
    pub bytes: [u8; 84],
}

const _: () = assert!(size_of::<waxseal_resume_t>() == Token::BYTES);

/// What a look at a store found, and what was done about it. It depends on nothing, may be read from any thread, and is ended by
/// `waxseal_report_destroy`.
pub struct waxseal_report_t {
    _opaque: [u8; 0],
}

handle!(waxseal_report_t => Found, Kind::Report, "report");

/// A report, and its texts once somebody asked for them.
pub(crate) struct Found {
    report: Report,
    json: OnceLock<std::ffi::CString>,
    text: OnceLock<std::ffi::CString>,
}

impl From<Report> for Found {
    fn from(report: Report) -> Found {
        Found { report, json: OnceLock::new(), text: OnceLock::new() }
    }
}

/// The numbers of a report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_counts_t {
    /// Records looked at.
    pub records: u64,
    /// Those that match their seal.
    pub validated: u64,
    /// Those that do not, or that nothing speaks for.
    pub corrupted: u64,
    /// Those whose seal is gone although their file promised one.
    pub missing: u64,
    /// Those that have no seal and were promised none.
    pub unverified: u64,
    /// Places that cannot be decoded.
    pub structural: u64,
    /// Blocks and records that were made right again.
    pub repaired: u64,
    /// Records that cannot be had any more, as far as known.
    pub lost: u64,
    /// Bytes looked at.
    pub bytes: u64,
    /// Files looked at.
    pub files: u64,
    /// How long it took, in nanoseconds.
    pub nanos: u64,
    /// Places of damage.
    pub damage: usize,
    /// Whether it was not ended early, and nothing was found that is not right now.
    pub is_clean: bool,
    /// Whether the caller ended it before it was through.
    pub cancelled: bool,
}

/// One place of damage. Its slices are valid until its report is ended.
#[repr(C)]
pub struct waxseal_damage_t {
    /// The file; empty: in memory.
    pub file: waxseal_slice_t,
    /// The place of the block or frame in it.
    pub offset: u64,
    /// The column family, by name; empty: none, or not known.
    pub family: waxseal_slice_t,
    /// The first key that may be concerned, if `has_keys`.
    pub from: waxseal_slice_t,
    /// The last key that may be concerned, if `has_keys`.
    pub to: waxseal_slice_t,
    /// In words, UTF-8.
    pub message: waxseal_slice_t,
    /// What is wrong: one of `WAXSEAL_VERDICT_..`.
    pub verdict: i32,
    /// What became of it: one of `WAXSEAL_OUTCOME_..`.
    pub outcome: i32,
    /// What helped: one of `WAXSEAL_RUNG_..`.
    pub rung: i32,
    /// How many things were tried: `waxseal_report_step`.
    pub steps: usize,
    /// Whether keys are known.
    pub has_keys: bool,
}

fn rung_number(rung: Rung) -> i32 {
    match rung {
        Rung::ReadAgain => WAXSEAL_RUNG_READ_AGAIN,
        Rung::Memory => WAXSEAL_RUNG_MEMORY,
        Rung::Correction => WAXSEAL_RUNG_CORRECTION,
        Rung::Rebuild => WAXSEAL_RUNG_REBUILD,
        Rung::Log => WAXSEAL_RUNG_LOG,
        Rung::Trash => WAXSEAL_RUNG_TRASH,
        Rung::Source => WAXSEAL_RUNG_SOURCE,
        Rung::Handler => WAXSEAL_RUNG_HANDLER,
        _ => WAXSEAL_RUNG_OTHER,
    }
}

fn damage_of(finding: &Finding) -> waxseal_damage_t {
    let text = |text: &str| waxseal_slice_t::of(text.as_bytes());
    let (from, to) = match &finding.key_range {
        Some((from, to)) => (waxseal_slice_t::of(from), waxseal_slice_t::of(to)),
        None => (waxseal_slice_t::EMPTY, waxseal_slice_t::EMPTY),
    };
    let (outcome, rung) = match finding.outcome {
        Outcome::Reported => (WAXSEAL_OUTCOME_REPORTED, WAXSEAL_RUNG_NONE),
        Outcome::Repaired(rung) => (WAXSEAL_OUTCOME_REPAIRED, rung_number(rung)),
        Outcome::Fenced => (WAXSEAL_OUTCOME_FENCED, WAXSEAL_RUNG_NONE),
        Outcome::Barred => (WAXSEAL_OUTCOME_BARRED, WAXSEAL_RUNG_NONE),
        Outcome::Accepted => (WAXSEAL_OUTCOME_ACCEPTED, WAXSEAL_RUNG_NONE),
        _ => (WAXSEAL_OUTCOME_OTHER, WAXSEAL_RUNG_NONE),
    };
    waxseal_damage_t {
        file: text(&finding.file),
        offset: finding.offset,
        family: text(finding.family.as_deref().unwrap_or("")),
        from,
        to,
        message: text(&finding.message),
        verdict: verdict_number(finding.verdict),
        outcome,
        rung,
        steps: finding.steps.len(),
        has_keys: finding.key_range.is_some(),
    }
}

/// The numbers of a report.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_report_counts(report: *const waxseal_report_t, counts: *mut waxseal_counts_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let counts = unsafe { out(counts) };
    status_of(|| {
        with(report, |found| {
            let report = &found.report;
            counts.set(waxseal_counts_t {
                records: report.records,
                validated: report.validated,
                corrupted: report.corrupted,
                missing: report.missing,
                unverified: report.unverified,
                structural: report.structural,
                repaired: report.repaired,
                lost: report.lost,
                bytes: report.bytes,
                files: report.files,
                nanos: report.nanos,
                damage: report.damage.len(),
                is_clean: report.is_clean(),
                cancelled: report.cancelled,
            });
            Ok(())
        })
    })
}

/// The place of damage that was met as the one of this number, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_report_damage(
    report: *const waxseal_report_t,
    at: usize,
    damage: *mut waxseal_damage_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let damage = unsafe { out(damage) };
    status_of(|| {
        with(report, |found| {
            let Some(finding) = found.report.damage.get(at) else { return Ok(false) };
            damage.set(damage_of(finding));
            Ok(true)
        })
    })
}

/// What was tried as the step of this number at a place of damage, both counted from 0: one of `WAXSEAL_RUNG_..`, and whether it helped.
/// `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_report_step(
    report: *const waxseal_report_t,
    at: usize,
    step_at: usize,
    rung: *mut i32,
    helped: *mut bool,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (rung, helped) = unsafe { (out(rung), out(helped)) };
    status_of(|| {
        with(report, |found| {
            let finding = found.report.damage.get(at);
            let Some(step) = finding.and_then(|finding| finding.steps.get(step_at)) else { return Ok(false) };
            rung.set(rung_number(step.rung));
            helped.set(step.helped);
            Ok(true)
        })
    })
}

/// Where a scrub that stopped early goes on: for `waxseal_care_options_set_resume`. `WAXSEAL_NOT_FOUND` if it came to the end.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_report_resume(report: *const waxseal_report_t, place: *mut waxseal_resume_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let place = unsafe { out(place) };
    status_of(|| {
        with(report, |found| {
            let Some(token) = found.report.resume else { return Ok(false) };
            place.set(waxseal_resume_t { bytes: token.to_bytes() });
            Ok(true)
        })
    })
}

/// The report for programs, one JSON object; empty for null and for one that was ended. Never null. Valid until the report is ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_report_json(report: *const waxseal_report_t) -> *const c_char {
    value_of(c"".as_ptr(), || {
        with(report, |found| Ok(found.json.get_or_init(|| c_text(&found.report.json())).as_ptr()))
    })
}

/// The report for people, on several lines; empty for null and for one that was ended. Never null. Valid until the report is ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_report_text(report: *const waxseal_report_t) -> *const c_char {
    value_of(c"".as_ptr(), || {
        with(report, |found| Ok(found.text.get_or_init(|| c_text(&found.report.to_string())).as_ptr()))
    })
}

/// Ends a report. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_report_destroy(report: *mut waxseal_report_t) -> i32 {
    status_of(|| end(report.cast_const()))
}
