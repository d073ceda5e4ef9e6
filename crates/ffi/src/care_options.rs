//! How a store is looked after: everything that can be asked of verify, scrub, repair and salvage.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use face::care::{Progress, Token};
use face::interrupt;

use crate::call::{answer, status_of};
use crate::callback::Caller;
use crate::error::{Failure, Result, WAXSEAL_INTERRUPTED, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with_mut};
use crate::lent::{lent, out};
use crate::repair_source::{Handler, Source, waxseal_handler_fn, waxseal_source_fn};
use crate::report::waxseal_resume_t;

/// How far a pass over a store has come. Lent for the call.
#[repr(C)]
pub struct waxseal_progress_t {
    /// Bytes looked at.
    pub done: u64,
    /// Bytes there are, as far as known when it began.
    pub total: u64,
    /// Places of damage found so far.
    pub found: u64,
}

/// Hears of progress about once a block, on the thread that asked for the pass, and answers 0 to go on; anything else ends the pass, and
/// the report says so. It must not call the store that is looked at.
pub type waxseal_progress_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, progress: *const waxseal_progress_t) -> i32>;

/// How a store is looked after. Whatever is not set keeps its default; a null pointer has nothing but defaults. What a pass does not know
/// what to do with is `WAXSEAL_INVALID`. May be used for any number of passes, by one thread at a time, and is ended by
/// `waxseal_care_options_destroy`. Contexts of functions must be good for as long as a pass with these options may run.
pub struct waxseal_care_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_care_options_t => Mutex<Care>, Kind::CareOptions, "care options object");

/// A function of the caller and what it wants to see again.
#[derive(Clone, Copy)]
pub(crate) struct Hook<F> {
    pub(crate) function: F,
    pub(crate) context: *mut c_void,
}

// SAFETY: the header asks that contexts of these options be good for any thread.
unsafe impl<F: Send> Send for Hook<F> {}

/// Everything that was set.
#[derive(Clone, Default)]
pub(crate) struct Care {
    pub(crate) families: Option<Vec<String>>,
    pub(crate) progress: Option<Hook<waxseal_progress_fn>>,
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) most_bytes: Option<u64>,
    pub(crate) resume: Option<Token>,
    pub(crate) repair: Option<bool>,
    pub(crate) accept_loss: Option<bool>,
    pub(crate) source: Option<Hook<waxseal_source_fn>>,
    pub(crate) handler: Option<Hook<waxseal_handler_fn>>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) trash: Option<PathBuf>,
    /// The thread's interrupt function ended the pass.
    pub(crate) is_interrupted: Cell<bool>,
}

/// A pass, by what it knows what to do with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Verify,
    Scrub,
    Repair,
    Salvage,
}

impl Care {
    /// `Invalid` for what a pass does not know what to do with, by name.
    pub(crate) fn check(&self, pass: Pass) -> Result<()> {
        let mends = pass == Pass::Repair || (pass == Pass::Scrub && self.repair == Some(true));
        let known = [
            (self.families.is_some(), pass == Pass::Verify, "families"),
            (self.bytes_per_second.is_some(), pass == Pass::Scrub, "a pace"),
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

    /// What a pass found, unless it was interrupted.
    pub(crate) fn unless_interrupted<T>(&self, found: face::Result<T>) -> Result<T> {
        match self.is_interrupted.get() {
            true => Err(Failure::Call(WAXSEAL_INTERRUPTED, "interrupted by the caller".into())),
            false => Ok(found?),
        }
    }

    /// Tells the caller of progress; `Break` if it ends the pass.
    pub(crate) fn tell(&self, caller: &Caller, progress: Progress) -> ControlFlow<()> {
        // Asked now before a function of the caller's: a signal that came meanwhile is handled there and not in that function.
        let asked = if self.progress.is_some() { interrupt::ask() } else { interrupt::check() };
        if asked.is_err() {
            self.is_interrupted.set(true);
            return ControlFlow::Break(());
        }
        let Some(Hook { function: Some(function), context }) = self.progress else { return ControlFlow::Continue(()) };
        let Progress { done, total, found } = progress;
        let progress = waxseal_progress_t { done, total, found };
        // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
        match caller.calls(|| unsafe { function(context, &progress) }) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    pub(crate) fn source(&self, caller: &Caller) -> Option<Source> {
        let Hook { function, context } = self.source?;
        Some(Source { caller: caller.clone(), function, context })
    }

    pub(crate) fn handler(&self, caller: &Caller) -> Option<Handler> {
        let Hook { function, context } = self.handler?;
        Some(Handler { caller: caller.clone(), function, context })
    }
}

/// What was set; null sets nothing. `Invalid` for what the pass does not know what to do with.
pub(crate) fn care_settings(options: *const waxseal_care_options_t, pass: Pass) -> Result<Care> {
    let care = if options.is_null() { Care::default() } else { with_mut(options, |care: &mut Care| Ok(care.clone()))? };
    care.check(pass).map(|()| care)
}

/// Sets one thing.
fn change(options: *mut waxseal_care_options_t, turn: impl FnOnce(&mut Care)) -> Result<()> {
    with_mut(options.cast_const(), |care: &mut Care| {
        turn(care);
        Ok(())
    })
}

/// Sets one thing that cannot be wrong by itself.
fn set(options: *mut waxseal_care_options_t, turn: impl FnOnce(&mut Care)) -> i32 {
    status_of(|| change(options, turn))
}

/// New care options: defaults.
///
/// Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_care_options_destroy`. Errors: `WAXSEAL_INVALID` without a
/// place for the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_care_options_create(
    options: *mut *mut waxseal_care_options_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (options, error) = unsafe { (out(options), out(error)) };
    answer(error, || {
        let options = options.needed("care options")?;
        options.set(issue(Mutex::default())?);
        Ok(())
    })
}

/// One column family more that verify looks at; without any it looks at all.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8; one that is not there is told by the pass.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_care_options_add_family(
    options: *mut waxseal_care_options_t,
    name: *const u8,
    name_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, error) = unsafe { (lent(name, name_len), out(error)) };
    answer(error, || {
        let name = name.text("name")?.to_owned();
        change(options, |care| care.families.get_or_insert_default().push(name))
    })
}

/// Who hears of the progress of any pass, and may end it; null: nobody.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_progress(
    options: *mut waxseal_care_options_t,
    progress: waxseal_progress_fn,
    context: *mut c_void,
) -> i32 {
    let hook = Hook { function: progress, context };
    set(options, |care| care.progress = Some(hook))
}

/// The pace of a scrub in bytes a second; 0: as fast as it goes, the default.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_bytes_per_second(options: *mut waxseal_care_options_t, bytes: u64) -> i32 {
    set(options, |care| care.bytes_per_second = (bytes > 0).then_some(bytes))
}

/// After about how many bytes a scrub stops, with a place to go on from; 0: at the end, the default.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_most_bytes(options: *mut waxseal_care_options_t, bytes: u64) -> i32 {
    set(options, |care| care.most_bytes = (bytes > 0).then_some(bytes))
}

/// Where a scrub goes on: what `waxseal_report_resume` said of the one before; null: from the beginning, the default.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_care_options_set_resume(
    options: *mut waxseal_care_options_t,
    place: *const waxseal_resume_t,
) -> i32 {
    // SAFETY: the header asks that inputs be null or readable.
    let token = unsafe { place.as_ref() }.map(|place| Token::from_bytes(&place.bytes));
    set(options, |care| care.resume = token)
}

/// Whether a scrub mends what it finds. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_repair(options: *mut waxseal_care_options_t, repair: bool) -> i32 {
    set(options, |care| care.repair = Some(repair))
}

/// Whether a repair gives up what was lost: it lifts the fences that are there and leaves none; likewise a salvage. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_accept_loss(options: *mut waxseal_care_options_t, accept: bool) -> i32 {
    set(options, |care| care.accept_loss = Some(accept))
}

/// Somebody who has the records too, for a repair: a replica, a backup. Null: nobody.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_source(
    options: *mut waxseal_care_options_t,
    source: waxseal_source_fn,
    context: *mut c_void,
) -> i32 {
    let hook = source.is_some().then_some(Hook { function: source, context });
    set(options, |care| care.source = hook)
}

/// Who is asked by a repair about each loss that nothing helped; null: `WAXSEAL_DECISION_QUARANTINE` for all of them.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_handler(
    options: *mut waxseal_care_options_t,
    handler: waxseal_handler_fn,
    context: *mut c_void,
) -> i32 {
    let hook = handler.is_some().then_some(Hook { function: handler, context });
    set(options, |care| care.handler = hook)
}

/// How often the source is asked before it counts as without an answer; 0: three times, the default.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_set_max_retries(options: *mut waxseal_care_options_t, retries: u32) -> i32 {
    set(options, |care| care.max_retries = Some(retries))
}

/// A directory of tables that compaction had replaced, where a repair looks too. Length 0: none.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a path that cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_care_options_set_trash(
    options: *mut waxseal_care_options_t,
    path: *const u8,
    path_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (path, error) = unsafe { (lent(path, path_len), out(error)) };
    answer(error, || {
        let trash = if path_len == 0 { None } else { Some(path.path()?) };
        change(options, |care| care.trash = trash)
    })
}

/// Ends care options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_care_options_destroy(options: *mut waxseal_care_options_t) -> i32 {
    status_of(|| end(options.cast_const()))
}
