//! Options of integrity maintenance: settings for verify, scrub, repair and salvage.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use face::care::{Progress, StoreUid, Token};
use face::interrupt;

use crate::call::status_of;
use crate::declare::{destroy, field, setters};
use crate::error::{calls, create};
use crate::failure::{Failure, Result, WAXSEAL_INTERRUPTED};
use crate::handle::{HandleKind, handle, with_mut};
use crate::reentry::Caller;
use crate::repair_source::{CallerSource, Handler, waxseal_handler_fn, waxseal_source_fn};
use crate::report::waxseal_resume_t;

/// Progress of a pass over a store. Valid during the call only.
#[repr(C)]
pub struct waxseal_progress_t {
    /// Bytes checked so far.
    pub done: u64,
    /// Total bytes, as estimated at the beginning.
    pub total: u64,
    /// Damaged places found so far.
    pub found: u64,
}

/// Progress callback, called about once per block on the thread that runs the pass. It returns 0 to continue; any other
/// value stops the pass, which the report states. It must not call the store that the pass checks.
pub type waxseal_progress_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, progress: *const waxseal_progress_t) -> i32>;

/// Options of integrity maintenance. Options that are not set keep their defaults; a null pointer means all defaults. A
/// pass fails with `WAXSEAL_INVALID` if an option is set that it does not accept. Usable for any number of passes, by
/// one thread at a time. Destroyed by `waxseal_care_options_destroy`. The contexts of callbacks must stay valid as long
/// as a pass with these options may run.
pub struct waxseal_care_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_care_options_t => Mutex<Care>, HandleKind::CareOptions, "care options object");

/// A callback and its context.
#[derive(Clone, Copy)]
pub(crate) struct CareHook<F> {
    pub(crate) function: F,
    pub(crate) context: *mut c_void,
}

// SAFETY: the header requires that any thread may use the contexts of these options.
unsafe impl<F: Send> Send for CareHook<F> {}

/// All options that were set.
#[derive(Clone, Default)]
pub(crate) struct Care {
    pub(crate) families: Option<Vec<String>>,
    pub(crate) stores: Option<Vec<StoreUid>>,
    pub(crate) progress: Option<CareHook<waxseal_progress_fn>>,
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) most_bytes: Option<u64>,
    pub(crate) resume: Option<Token>,
    pub(crate) repair: Option<bool>,
    pub(crate) accept_loss: Option<bool>,
    pub(crate) source: Option<CareHook<waxseal_source_fn>>,
    pub(crate) handler: Option<CareHook<waxseal_handler_fn>>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) trash: Option<PathBuf>,
    /// Set if the thread's interrupt function ended the pass.
    pub(crate) is_interrupted: Cell<bool>,
}

/// The kind of a pass, which determines the options that it accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Verify,
    Scrub,
    Repair,
    Salvage,
    Backup,
}

impl Care {
    /// Returns `Invalid`, with the option's name, if an option is set that the pass does not accept.
    pub(crate) fn check(&self, pass: Pass) -> Result<()> {
        let mends = pass == Pass::Repair || (pass == Pass::Scrub && self.repair == Some(true));
        let known = [
            (self.families.is_some(), pass == Pass::Verify, "families"),
            (self.stores.is_some(), pass == Pass::Salvage, "a store's id"),
            (self.bytes_per_second.is_some(), matches!(pass, Pass::Scrub | Pass::Backup), "a pace"),
            (self.most_bytes.is_some(), pass == Pass::Scrub, "a number of bytes to stop after"),
            (self.resume.is_some(), pass == Pass::Scrub, "a place to go on"),
            (self.repair.is_some(), pass == Pass::Scrub, "whether it repairs"),
            (self.accept_loss.is_some(), mends || pass == Pass::Salvage, "whether losses are accepted"),
            (self.source.is_some(), mends, "a source"),
            (self.handler.is_some(), mends, "a handler"),
            (self.max_retries.is_some(), mends, "a number of retries"),
            (self.trash.is_some(), mends, "a trash directory"),
        ];
        match known.iter().find(|(is_set, is_known, _)| *is_set && !*is_known) {
            Some((_, _, what)) => Err(Failure::invalid(format!("this pass does not know what to do with {what}"))),
            None => Ok(()),
        }
    }

    /// Returns the result of a pass, unless it was interrupted.
    pub(crate) fn unless_interrupted<T>(&self, found: face::Result<T>) -> Result<T> {
        match self.is_interrupted.get() {
            true => Err(Failure::Call(WAXSEAL_INTERRUPTED, "interrupted by the caller".into())),
            false => Ok(found?),
        }
    }

    /// Reports progress to the caller; returns `Break` to end the pass.
    pub(crate) fn notify(&self, caller: &Caller, progress: Progress) -> ControlFlow<()> {
        // The interrupt function runs now, before the progress callback: a signal that arrived meanwhile is handled
        // here, not in that callback.
        let asked = if self.progress.is_some() { interrupt::ask() } else { interrupt::check() };
        if asked.is_err() {
            self.is_interrupted.set(true);
            return ControlFlow::Break(());
        }
        let Some(CareHook { function: Some(function), context }) = self.progress else {
            return ControlFlow::Continue(());
        };
        let Progress { done, total, found } = progress;
        let progress = waxseal_progress_t { done, total, found };
        // SAFETY: the header states the function's arguments and their lifetime; the caller supplied the context with
        // the function.
        match caller.calls(|| unsafe { function(context, &progress) }) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    pub(crate) fn source(&self, caller: &Caller) -> Option<CallerSource> {
        let CareHook { function, context } = self.source?;
        Some(CallerSource { caller: caller.clone(), function, context })
    }

    pub(crate) fn handler(&self, caller: &Caller) -> Option<Handler> {
        let CareHook { function, context } = self.handler?;
        Some(Handler { caller: caller.clone(), function, context })
    }
}

/// Returns the options; null means defaults. Returns `Invalid` if an option is set that the pass does not accept.
pub(crate) fn care_settings(options: *const waxseal_care_options_t, pass: Pass) -> Result<Care> {
    let care = if options.is_null() { Care::default() } else { with_mut(options, |care: &mut Care| Ok(care.clone()))? };
    care.check(pass).map(|()| care)
}

/// Changes an option.
fn change(options: *mut waxseal_care_options_t, apply: impl FnOnce(&mut Care)) -> Result<()> {
    with_mut(options.cast_const(), |care: &mut Care| {
        apply(care);
        Ok(())
    })
}

create! {
    /// Creates options of integrity maintenance with all defaults.
    fn waxseal_care_options_create(options: *mut *mut waxseal_care_options_t) => "care options";
}

calls! {
    /// Adds a column family to verify. If none is added, verify checks all families.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8. A family that does not exist is
    /// reported by the pass.
    fn waxseal_care_options_add_family(options: *mut waxseal_care_options_t, bytes name) {
        let name = name.text("name")?.to_owned();
        change(options, |care| care.families.get_or_insert_default().push(name))
    }

    /// A store whose tables and log a salvage takes where no manifest names them, by its id: 32 hexadecimal digits, as
    /// the refusal of a directory with files of several stores lists them. Files of stores that are not named are left
    /// alone. None named: the store that the surviving files name.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for any other text.
    fn waxseal_care_options_add_store(options: *mut waxseal_care_options_t, bytes id) {
        let digits = id.text("id")?;
        let store = StoreUid::parse(digits)
            .ok_or_else(|| Failure::invalid(format!("a store's id has 32 hexadecimal digits: {digits:?}")))?;
        change(options, |care| care.stores.get_or_insert_default().push(store))
    }
}

setters! {
    field;

    /// Sets the function that receives the progress of any pass and may end it; null: no function.
    fn waxseal_care_options_set_progress(
        options: *mut waxseal_care_options_t,
        progress: waxseal_progress_fn,
        context: *mut c_void,
    ) => progress = Some(CareHook { function: progress, context });

    /// Limits a scrub, a backup, its verification or its restore to this many bytes per second; 0, the default, means no limit.
    fn waxseal_care_options_set_bytes_per_second(options: *mut waxseal_care_options_t, bytes: u64) =>
        bytes_per_second = (bytes > 0).then_some(bytes);

    /// Stops a scrub after approximately this many bytes, with a place to resume from; 0, the default, means a scrub of
    /// the whole store.
    fn waxseal_care_options_set_most_bytes(options: *mut waxseal_care_options_t, bytes: u64) =>
        most_bytes = (bytes > 0).then_some(bytes);
}

/// Sets the place where a scrub resumes, as returned by `waxseal_report_resume` for the previous scrub; null, the
/// default, means the beginning.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_care_options_set_resume(
    options: *mut waxseal_care_options_t,
    place: *const waxseal_resume_t,
) -> i32 {
    // SAFETY: the header asks that inputs be null or readable.
    let token = unsafe { place.as_ref() }.map(|place| Token::from_bytes(&place.bytes));
    status_of(|| change(options, |care| care.resume = token))
}

setters! {
    field;

    /// Whether a scrub repairs the damage that it finds. Default false.
    fn waxseal_care_options_set_repair(options: *mut waxseal_care_options_t, repair: bool) => repair = Some(repair);

    /// Whether a repair accepts losses: it lifts existing fences and creates none. Likewise for a salvage. Default
    /// false.
    fn waxseal_care_options_set_accept_loss(options: *mut waxseal_care_options_t, accept: bool) =>
        accept_loss = Some(accept);

    /// Sets a source of records for a repair, such as a replica or a backup; null for none.
    fn waxseal_care_options_set_source(
        options: *mut waxseal_care_options_t,
        source: waxseal_source_fn,
        context: *mut c_void,
    ) => source = source.is_some().then_some(CareHook { function: source, context });

    /// Sets the callback that decides about each loss that no repair step could undo; null means
    /// `WAXSEAL_DECISION_QUARANTINE` for all losses.
    fn waxseal_care_options_set_handler(
        options: *mut waxseal_care_options_t,
        handler: waxseal_handler_fn,
        context: *mut c_void,
    ) => handler = handler.is_some().then_some(CareHook { function: handler, context });

    /// Number of times the source is asked before a repair treats it as unavailable; 0, the default, means three times.
    fn waxseal_care_options_set_max_retries(options: *mut waxseal_care_options_t, retries: u32) =>
        max_retries = Some(retries);
}

calls! {
    /// Sets a directory of tables that compaction had replaced, which a repair searches too. Length 0 means no
    /// directory.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an invalid path.
    fn waxseal_care_options_set_trash(options: *mut waxseal_care_options_t, bytes path) {
        let trash = if path.bytes("path")?.is_empty() { None } else { Some(path.path()?) };
        change(options, |care| care.trash = trash)
    }
}

destroy! {
    /// Destroys options of integrity maintenance. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
    fn waxseal_care_options_destroy(options: *mut waxseal_care_options_t);
}
