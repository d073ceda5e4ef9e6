//! Who helps a repair: somebody who still has the records, and somebody who decides about what nobody has.

use std::ffi::c_void;
use std::io;

use face::care::{Candidate, Corrupted, Decision, ErrorHandler, Kind, RepairSource};
use face::{Result, Seal};

use crate::call::status_of;
use crate::callback::{Caller, ask, failed, failed_as};
use crate::error::{Failure, WAXSEAL_CALLBACK, verdict_number, waxseal_error_t};
use crate::lent::{Lent, lent, waxseal_slice_t};
use crate::provider::{WAXSEAL_KIND_DELETE, WAXSEAL_KIND_PUT};
use crate::seal::waxseal_seal_t;

/// A fence takes the place of the loss: reads there answer `WAXSEAL_CORRUPTION`, the rest goes on.
pub const WAXSEAL_DECISION_QUARANTINE: i32 = 0;
/// The table stays as it is, left alone by compaction.
pub const WAXSEAL_DECISION_FAIL: i32 = 1;
/// The same, and repair ends; the store refuses writes until it is opened anew.
pub const WAXSEAL_DECISION_READ_ONLY: i32 = 2;

/// What a repair is looking for. Everything is lent for the call.
#[repr(C)]
pub struct waxseal_wanted_t {
    /// The column family, by name.
    pub family: waxseal_slice_t,
    /// The first key.
    pub low: waxseal_slice_t,
    /// The last key, included. If the seal is known it is the first one too.
    pub high: waxseal_slice_t,
    /// The seal of the one record that is wanted, if `has_seal`.
    pub seal: waxseal_seal_t,
    /// False: all records that there are from `low` to `high` are wanted.
    pub has_seal: bool,
}

/// Takes a record that a source found: `WAXSEAL_KIND_PUT` with its value, or `WAXSEAL_KIND_DELETE`. It is copied. A status other than
/// `WAXSEAL_OK` says that it is none that can be.
pub type waxseal_found_fn = unsafe extern "C" fn(
    answer: *mut c_void,
    kind: i32,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> i32;

/// Looks for records in another copy of the store, and hands each of them to `found` together with `answer`, both good for this call alone.
/// What it hands over is believed only if the seal of what was lost says so. A negative status says that it could not look; it is asked
/// again then, a few times, but `WAXSEAL_CALLBACK` ends the repair there, before anything of the table at hand is given up, and its report is
/// one of a cancelled pass. It must not call the store that is repaired.
pub type waxseal_source_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        wanted: *const waxseal_wanted_t,
        found: waxseal_found_fn,
        answer: *mut c_void,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

/// A loss that nothing helped: a record that can be read though nothing speaks for it, or a span in which nobody knows what there was.
/// Everything is lent for the call.
#[repr(C)]
pub struct waxseal_loss_t {
    /// The file.
    pub file: waxseal_slice_t,
    /// The place of the block in it.
    pub offset: u64,
    /// The column family, by name.
    pub family: waxseal_slice_t,
    /// The first key at which something may have been lost.
    pub from: waxseal_slice_t,
    /// Its place in the order of commits.
    pub from_seqno: u64,
    /// The last key at which something may have been lost, included.
    pub to: waxseal_slice_t,
    /// Its place in the order of commits.
    pub to_seqno: u64,
    /// What is wrong: one of `WAXSEAL_VERDICT_..`.
    pub verdict: i32,
}

/// Decides what becomes of a loss: one of `WAXSEAL_DECISION_..`; any other number is `WAXSEAL_DECISION_FAIL`, which changes nothing. The strictest
/// answer about a table counts. It must not call the store that is repaired.
pub type waxseal_handler_fn = Option<unsafe extern "C" fn(context: *mut c_void, loss: *const waxseal_loss_t) -> i32>;

/// A source of the caller.
pub(crate) struct Source {
    pub(crate) caller: Caller,
    pub(crate) function: waxseal_source_fn,
    pub(crate) context: *mut c_void,
}

// SAFETY: the header asks that what repair is given be good for any thread; it calls on that which asked for the repair.
unsafe impl Sync for Source {}

/// Where what a source finds goes.
struct Answer<'a> {
    visit: &'a mut dyn FnMut(Candidate),
    /// What was handed over and is none that can be.
    refused: Option<String>,
}

/// # Safety
/// `answer` is one that `Source::look` lends, and bytes are readable.
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
        unsafe { (answer.cast::<Answer<'_>>().as_mut(), lent(key, key_len), lent(value, value_len)) };
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

/// What was handed over, as a record.
fn candidate(kind: i32, key: Lent<'_>, value: Lent<'_>) -> crate::error::Result<Candidate> {
    let kind = match kind {
        WAXSEAL_KIND_PUT => Kind::Put,
        WAXSEAL_KIND_DELETE => Kind::Delete,
        other => return Err(Failure::invalid(format!("{other} is no kind of record"))),
    };
    Ok(Candidate { kind, key: key.key()?.to_vec(), value: value.value()?.to_vec() })
}

impl Source {
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
        let mut answer = Answer { visit, refused: None };
        let place: *mut Answer<'_> = &mut answer;
        let mut status = 0;
        let asked = ask(&self.caller, "the source of repair", |error| {
            // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
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

impl RepairSource for Source {
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

/// A handler of the caller.
pub(crate) struct Handler {
    pub(crate) caller: Caller,
    pub(crate) function: waxseal_handler_fn,
    pub(crate) context: *mut c_void,
}

// SAFETY: as of `Source`.
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
        // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
        match self.caller.calls(|| unsafe { function(self.context, &loss) }) {
            WAXSEAL_DECISION_QUARANTINE => Decision::Quarantine,
            WAXSEAL_DECISION_READ_ONLY => Decision::ReadOnly,
            _ => Decision::Fail,
        }
    }
}
