//! Callbacks that help a repair: a source of records from another copy, and a handler that decides about losses.

use std::ffi::c_void;
use std::io;

use face::care::{Candidate, Corrupted, Decision, ErrorHandler, Kind, RepairSource};
use face::{Result, Seal};

use crate::call::status_of;
use crate::callback::ask;
use crate::error::{verdict_number, waxseal_error_t};
use crate::failure::{Failure, WAXSEAL_CALLBACK, failed, failed_as};
use crate::lent::{Lent, lent, waxseal_slice_t};
use crate::provider::{WAXSEAL_KIND_DELETE, WAXSEAL_KIND_PUT};
use crate::reentry::Caller;
use crate::seal::waxseal_seal_t;

/// Fence the lost range: reads in it return `WAXSEAL_CORRUPTION`, the rest stays readable.
pub const WAXSEAL_DECISION_QUARANTINE: i32 = 0;
/// Leave the table unchanged and exclude it from compaction.
pub const WAXSEAL_DECISION_FAIL: i32 = 1;
/// As `WAXSEAL_DECISION_FAIL`, and the repair ends. The store refuses writes until it is reopened.
pub const WAXSEAL_DECISION_READ_ONLY: i32 = 2;

/// The records that a repair requests. All slices are valid during the call only.
#[repr(C)]
pub struct waxseal_wanted_t {
    /// The name of the column family.
    pub family: waxseal_slice_t,
    /// The first key.
    pub low: waxseal_slice_t,
    /// The last key, inclusive. Equal to `low` if the seal is known.
    pub high: waxseal_slice_t,
    /// The seal of the one requested record, if `has_seal`.
    pub seal: waxseal_seal_t,
    /// False if all records from `low` to `high` are requested.
    pub has_seal: bool,
}

/// Takes a record that a source found: `WAXSEAL_KIND_PUT` with its value, or `WAXSEAL_KIND_DELETE`. The record is
/// copied. A status other than `WAXSEAL_OK` means that the record is invalid.
pub type waxseal_found_fn = unsafe extern "C" fn(
    answer: *mut c_void,
    kind: i32,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> i32;

/// Searches another copy of the store for records, and passes each of them to `found` together with `answer`; both are
/// valid during this call only. A record is accepted only if it matches the seal of the lost one. A negative status
/// means that the search failed; the repair then retries a few times. `WAXSEAL_CALLBACK` ends the repair at once,
/// before any record of the current table is given up, and the report is that of a cancelled pass. It must not call the
/// store that is repaired.
pub type waxseal_source_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        wanted: *const waxseal_wanted_t,
        found: waxseal_found_fn,
        answer: *mut c_void,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

/// A loss that no repair step could undo: a readable record that no checksum or seal confirms, or a key range with
/// unknown records. All slices are valid during the call only.
#[repr(C)]
pub struct waxseal_loss_t {
    /// The damaged file.
    pub file: waxseal_slice_t,
    /// The offset of the block in the file.
    pub offset: u64,
    /// The name of the column family.
    pub family: waxseal_slice_t,
    /// The first key that may be affected.
    pub from: waxseal_slice_t,
    /// The sequence number of the first affected version of `from`.
    pub from_seqno: u64,
    /// The last key that may be affected, inclusive.
    pub to: waxseal_slice_t,
    /// The sequence number of the last affected version of `to`.
    pub to_seqno: u64,
    /// The kind of damage: one of `WAXSEAL_VERDICT_..`.
    pub verdict: i32,
}

/// Decides about a loss: returns one of `WAXSEAL_DECISION_..`. Any other number counts as `WAXSEAL_DECISION_FAIL`,
/// which changes nothing. If a table has several losses, the strictest decision applies. It must not call the store
/// that is repaired.
pub type waxseal_handler_fn = Option<unsafe extern "C" fn(context: *mut c_void, loss: *const waxseal_loss_t) -> i32>;

/// The caller's source of records.
pub(crate) struct CallerSource {
    pub(crate) caller: Caller,
    pub(crate) function: waxseal_source_fn,
    pub(crate) context: *mut c_void,
}

// SAFETY: the header requires that callbacks and contexts of a repair may be used by any thread; the repair calls them
// on its own thread.
unsafe impl Sync for CallerSource {}

/// The receiver of the records that a source finds.
struct CandidateSink<'a> {
    visit: &'a mut dyn FnMut(Candidate),
    /// The reason why the source's last invalid record was refused.
    refused: Option<String>,
}

/// # Safety
/// `answer` is one that `CallerSource::look` lends, and the bytes are readable.
unsafe extern "C" fn found(
    answer: *mut c_void,
    kind: i32,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> i32 {
    // SAFETY: as the caller promises.
    let (answer, key, value) =
        unsafe { (answer.cast::<CandidateSink<'_>>().as_mut(), lent(key, key_len), lent(value, value_len)) };
    status_of(|| {
        let answer = answer.ok_or_else(|| Failure::invalid("the answer is a null pointer"))?;
        match candidate(kind, key, value) {
            Ok(candidate) => {
                (answer.visit)(candidate);
                Ok(())
            }
            Err(failure) => {
                answer.refused = Some(failure.to_string());
                Err(failure)
            }
        }
    })
}

/// Converts a source's record.
fn candidate(kind: i32, key: Lent<'_>, value: Lent<'_>) -> crate::failure::Result<Candidate> {
    let kind = match kind {
        WAXSEAL_KIND_PUT => Kind::Put,
        WAXSEAL_KIND_DELETE => Kind::Delete,
        other => return Err(Failure::invalid(format!("{other} is no kind of record"))),
    };
    Ok(Candidate { kind, key: key.key()?.to_vec(), value: value.value()?.to_vec() })
}

impl CallerSource {
    fn look(
        &self,
        family: &str,
        (low, high): (&[u8], &[u8]),
        seal: Option<Seal>,
        visit: &mut dyn FnMut(Candidate),
    ) -> Result<()> {
        let Some(function) = self.function else { return Ok(()) };
        let wanted = waxseal_wanted_t {
            family: waxseal_slice_t::of(family.as_bytes()),
            low: waxseal_slice_t::of(low),
            high: waxseal_slice_t::of(high),
            seal: seal.map(waxseal_seal_t::from).unwrap_or_default(),
            has_seal: seal.is_some(),
        };
        let mut answer = CandidateSink { visit, refused: None };
        let place: *mut CandidateSink<'_> = &mut answer;
        let mut status = 0;
        let asked = ask(&self.caller, "the source of repair", |error| {
            // SAFETY: the header states the function's arguments and their lifetime; the caller supplied the context
            // with the function.
            status = unsafe { function(self.context, &wanted, found, place.cast(), error) };
            status
        });
        asked.map_err(|error| match status {
            WAXSEAL_CALLBACK => failed_as(io::ErrorKind::Interrupted, "the source of repair", error.to_string()),
            _ => error,
        })?;
        answer.refused.map_or(Ok(()), |why| Err(failed("the source of repair", why)))
    }
}

impl RepairSource for CallerSource {
    fn by_seal(&self, family: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        let mut first = None;
        self.look(family, (key, key), Some(seal), &mut |candidate| {
            first.get_or_insert(candidate);
        })?;
        Ok(first)
    }

    fn by_range(&self, family: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        self.look(family, (low, high), None, visit)
    }
}

/// The caller's handler.
pub(crate) struct Handler {
    pub(crate) caller: Caller,
    pub(crate) function: waxseal_handler_fn,
    pub(crate) context: *mut c_void,
}

// SAFETY: as of `CallerSource`.
unsafe impl Sync for Handler {}

impl ErrorHandler for Handler {
    fn on_corruption(&self, event: &Corrupted) -> Decision {
        let Some(function) = self.function else { return Decision::default() };
        let ((from, from_seqno), (to, to_seqno)) = &event.span;
        let loss = waxseal_loss_t {
            file: waxseal_slice_t::of(event.file.as_bytes()),
            offset: event.offset,
            family: waxseal_slice_t::of(event.family.as_bytes()),
            from: waxseal_slice_t::of(from),
            from_seqno: *from_seqno,
            to: waxseal_slice_t::of(to),
            to_seqno: *to_seqno,
            verdict: verdict_number(event.verdict),
        };
        // SAFETY: the header states the function's arguments and their lifetime; the caller supplied the context with
        // the function.
        match self.caller.calls(|| unsafe { function(self.context, &loss) }) {
            WAXSEAL_DECISION_QUARANTINE => Decision::Quarantine,
            WAXSEAL_DECISION_READ_ONLY => Decision::ReadOnly,
            _ => Decision::Fail,
        }
    }
}
