//! Reports: the findings of verify, scrub, repair and salvage.

use std::ffi::c_char;
use std::sync::OnceLock;

use face::Report;
use face::care::{Finding, Outcome, Rung, Token};

use crate::call::{status_of, value_of};
use crate::error::{c_text, verdict_number};
use crate::handle::{Kind, end, handle, with};
use crate::lent::{out, waxseal_slice_t};

/// The damage was reported; nothing was changed.
pub const WAXSEAL_OUTCOME_REPORTED: i32 = 0;
/// The damage was repaired without loss.
pub const WAXSEAL_OUTCOME_REPAIRED: i32 = 1;
/// The key range was fenced: reads in it return `WAXSEAL_CORRUPTION`.
pub const WAXSEAL_OUTCOME_FENCED: i32 = 2;
/// The file was left unchanged and is excluded from compaction.
pub const WAXSEAL_OUTCOME_BARRED: i32 = 3;
/// The loss was accepted: reads behave as if the records had never existed.
pub const WAXSEAL_OUTCOME_ACCEPTED: i32 = 4;
/// An outcome for which this header has no number.
pub const WAXSEAL_OUTCOME_OTHER: i32 = 5;
/// A salvage left the file alone: it is another store's.
pub const WAXSEAL_OUTCOME_LEFT_ALONE: i32 = 6;

/// No repair step was tried, or none succeeded.
pub const WAXSEAL_RUNG_NONE: i32 = 0;
/// The file was read again, bypassing the cache.
pub const WAXSEAL_RUNG_READ_AGAIN: i32 = 1;
/// Another copy in memory was undamaged.
pub const WAXSEAL_RUNG_MEMORY: i32 = 2;
/// One or two flipped bits were corrected with the block's checksum and its seals.
pub const WAXSEAL_RUNG_CORRECTION: i32 = 3;
/// Index, filter and properties were rebuilt from the data.
pub const WAXSEAL_RUNG_REBUILD: i32 = 4;
/// The records were recovered from the log.
pub const WAXSEAL_RUNG_LOG: i32 = 5;
/// The records were recovered from tables that compaction had replaced.
pub const WAXSEAL_RUNG_TRASH: i32 = 6;
/// The records were recovered from the caller's source.
pub const WAXSEAL_RUNG_SOURCE: i32 = 7;
/// The caller's handler decided.
pub const WAXSEAL_RUNG_HANDLER: i32 = 8;
/// A repair step for which this header has no number.
pub const WAXSEAL_RUNG_OTHER: i32 = 9;

/// The place where a scrub resumes; opaque to the caller. Compactions do not invalidate it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct waxseal_resume_t {
    /// The encoded place.
    pub bytes: [u8; 84],
}

const _: () = assert!(size_of::<waxseal_resume_t>() == Token::BYTES);

/// The findings of a pass over a store, and the repairs that it made. It does not depend on the store, is readable from
/// any thread, and is freed by `waxseal_report_destroy`.
pub struct waxseal_report_t {
    _opaque: [u8; 0],
}

handle!(waxseal_report_t => Found, Kind::Report, "report");

/// A report, and its texts, which are formatted on first use.
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

/// The counters of a report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_counts_t {
    /// Records checked.
    pub records: u64,
    /// Records that match their seal.
    pub validated: u64,
    /// Records that do not match their seal, or that no checksum or seal confirms.
    pub corrupted: u64,
    /// Records without a seal in a file that promised one.
    pub missing: u64,
    /// Records without a seal in a file that promised none.
    pub unverified: u64,
    /// Places that cannot be decoded.
    pub structural: u64,
    /// Repaired blocks and records.
    pub repaired: u64,
    /// Records known to be permanently lost.
    pub lost: u64,
    /// Bytes checked.
    pub bytes: u64,
    /// Files checked.
    pub files: u64,
    /// Duration of the pass in nanoseconds.
    pub nanos: u64,
    /// Number of damaged places.
    pub damage: usize,
    /// True if the pass was complete, and all damage that it found is repaired.
    pub is_clean: bool,
    /// True if the caller stopped the pass early.
    pub cancelled: bool,
}

/// One damaged place. Its slices are valid until its report is destroyed.
#[repr(C)]
pub struct waxseal_damage_t {
    /// The damaged file; empty for damage in memory.
    pub file: waxseal_slice_t,
    /// The offset of the block or frame in the file.
    pub offset: u64,
    /// The name of the column family; empty for damage outside of families or in an unknown family.
    pub family: waxseal_slice_t,
    /// The first key that may be affected, if `has_keys`.
    pub from: waxseal_slice_t,
    /// The last key that may be affected, if `has_keys`.
    pub to: waxseal_slice_t,
    /// A description, UTF-8.
    pub message: waxseal_slice_t,
    /// The kind of damage: one of `WAXSEAL_VERDICT_..`.
    pub verdict: i32,
    /// The outcome: one of `WAXSEAL_OUTCOME_..`.
    pub outcome: i32,
    /// The repair step that succeeded: one of `WAXSEAL_RUNG_..`.
    pub rung: i32,
    /// Number of repair steps tried, for `waxseal_report_step`.
    pub steps: usize,
    /// True if the affected keys are known.
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
        Outcome::LeftAlone => (WAXSEAL_OUTCOME_LEFT_ALONE, WAXSEAL_RUNG_NONE),
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

/// Returns the counters of a report.
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

/// The damaged place at a 0-based index, in the order of detection. `WAXSEAL_NOT_FOUND` past the end.
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

/// A repair step of a damaged place, both by 0-based index: one of `WAXSEAL_RUNG_..`, and whether it succeeded.
/// `WAXSEAL_NOT_FOUND` past the end.
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

/// The place where a scrub that stopped early resumes, for `waxseal_care_options_set_resume`. `WAXSEAL_NOT_FOUND` if
/// the scrub is complete.
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

/// The report for programs, as one JSON object; empty for null and for a destroyed report. Never null. Valid until the
/// report is destroyed.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_report_json(report: *const waxseal_report_t) -> *const c_char {
    value_of(c"".as_ptr(), || {
        with(report, |found| Ok(found.json.get_or_init(|| c_text(&found.report.json())).as_ptr()))
    })
}

/// The report for people, on several lines; empty for null and for a destroyed report. Never null. Valid until the
/// report is destroyed.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_report_text(report: *const waxseal_report_t) -> *const c_char {
    value_of(c"".as_ptr(), || {
        with(report, |found| Ok(found.text.get_or_init(|| c_text(&found.report.to_string())).as_ptr()))
    })
}

/// Destroys a report. Null is allowed; a destroyed report is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_report_destroy(report: *mut waxseal_report_t) -> i32 {
    status_of(|| end(report.cast_const()))
}
