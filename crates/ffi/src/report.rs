//! Reports: the findings of verify, scrub, repair and salvage.

use std::ffi::c_char;
use std::sync::OnceLock;

use face::Report;
use face::care::{Finding, Outcome, Rung, Token};

use crate::call::status_of;
use crate::declare::{destroy, finders, getters, mirror};
use crate::error::{c_text, verdict_number};
use crate::handle::{HandleKind, handle, with};
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

handle!(waxseal_report_t => ReportTexts, HandleKind::Report, "report");

/// A report, and its texts, which are formatted on first use.
pub(crate) struct ReportTexts {
    report: Report,
    json: OnceLock<std::ffi::CString>,
    text: OnceLock<std::ffi::CString>,
}

impl From<Report> for ReportTexts {
    fn from(report: Report) -> ReportTexts {
        ReportTexts { report, json: OnceLock::new(), text: OnceLock::new() }
    }
}

mirror! {
    /// The counters of a report.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct waxseal_counts_t of |report: &Report| {
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
        pub damage: usize = report.damage.len(),
        /// True if the pass was complete, and all damage that it found is repaired.
        pub is_clean: bool = report.is_clean(),
        /// True if the caller stopped the pass early.
        pub cancelled: bool,
    }
}

mirror! {
    /// One damaged place. Its slices are valid until its report is destroyed.
    pub struct waxseal_damage_t of |finding: &Finding| {
        /// The damaged file; empty for damage in memory.
        pub file: waxseal_slice_t = waxseal_slice_t::text(&finding.file),
        /// The offset of the block or frame in the file.
        pub offset: u64,
        /// The name of the column family; empty for damage outside of families or in an unknown family.
        pub family: waxseal_slice_t = waxseal_slice_t::text(finding.family.as_deref().unwrap_or("")),
        /// The first key that may be affected, if `has_keys`.
        pub from: waxseal_slice_t = waxseal_slice_t::or_empty(finding.key_range.as_ref().map(|(from, _)| from)),
        /// The last key that may be affected, if `has_keys`.
        pub to: waxseal_slice_t = waxseal_slice_t::or_empty(finding.key_range.as_ref().map(|(_, to)| to)),
        /// A description, UTF-8.
        pub message: waxseal_slice_t = waxseal_slice_t::text(&finding.message),
        /// The kind of damage: one of `WAXSEAL_VERDICT_..`.
        pub verdict: i32 = verdict_number(finding.verdict),
        /// The outcome: one of `WAXSEAL_OUTCOME_..`.
        pub outcome: i32 = outcome_number(finding.outcome),
        /// The repair step that succeeded: one of `WAXSEAL_RUNG_..`.
        pub rung: i32 = match finding.outcome { Outcome::Repaired(rung) => rung_number(rung), _ => WAXSEAL_RUNG_NONE },
        /// Number of repair steps tried, for `waxseal_report_step`.
        pub steps: usize = finding.steps.len(),
        /// True if the affected keys are known.
        pub has_keys: bool = finding.key_range.is_some(),
    }
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

fn outcome_number(outcome: Outcome) -> i32 {
    match outcome {
        Outcome::Reported => WAXSEAL_OUTCOME_REPORTED,
        Outcome::Repaired(_) => WAXSEAL_OUTCOME_REPAIRED,
        Outcome::Fenced => WAXSEAL_OUTCOME_FENCED,
        Outcome::Barred => WAXSEAL_OUTCOME_BARRED,
        Outcome::Accepted => WAXSEAL_OUTCOME_ACCEPTED,
        Outcome::LeftAlone => WAXSEAL_OUTCOME_LEFT_ALONE,
        _ => WAXSEAL_OUTCOME_OTHER,
    }
}

finders! {
    /// Returns the counters of a report.
    fn waxseal_report_counts(report: *const waxseal_report_t; counts: *mut waxseal_counts_t) =>
        |found| Some(waxseal_counts_t::of(&found.report));

    /// The damaged place at a 0-based index, in the order of detection. `WAXSEAL_NOT_FOUND` past the end.
    fn waxseal_report_damage(report: *const waxseal_report_t, at: usize; damage: *mut waxseal_damage_t) =>
        |found| found.report.damage.get(at).map(waxseal_damage_t::of);
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

finders! {
    /// The place where a scrub that stopped early resumes, for `waxseal_care_options_set_resume`. `WAXSEAL_NOT_FOUND`
    /// if the scrub is complete.
    fn waxseal_report_resume(report: *const waxseal_report_t; place: *mut waxseal_resume_t) =>
        |found| found.report.resume.map(|token| waxseal_resume_t { bytes: token.to_bytes() });
}

getters! {
    with;

    /// The report for programs, as one JSON object; empty for null and for a destroyed report. Never null. Valid until
    /// the report is destroyed.
    fn waxseal_report_json(report: *const waxseal_report_t) -> *const c_char =>
        |found| found.json.get_or_init(|| c_text(&found.report.json())).as_ptr(), or c"".as_ptr();

    /// The report for people, on several lines; empty for null and for a destroyed report. Never null. Valid until the
    /// report is destroyed.
    fn waxseal_report_text(report: *const waxseal_report_t) -> *const c_char =>
        |found| found.text.get_or_init(|| c_text(&found.report.to_string())).as_ptr(), or c"".as_ptr();
}

destroy! {
    /// Destroys a report. Null is allowed; a destroyed report is `WAXSEAL_CLOSED`.
    fn waxseal_report_destroy(report: *mut waxseal_report_t);
}
