//! The registry: what is watched. After Wasef, section 2.4: `register`, `unregister`, and asking whether a pair is there.

use std::sync::Mutex;
use std::time::Duration;

use face::Session as Who;
use face::registry::{Mode, Operation, RegisterOptions, Registration, Scope, Target, Values};

use crate::call::{answer, status_of, value_of};
use crate::error::{Failure, Result, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with, with_mut};
use crate::lent::{Lent, Out, lent, out, waxseal_slice_t};
use crate::session::waxseal_session_t;

/// Whatever suits the pair.
pub const WAXSEAL_SUITED: i32 = -1;
/// The target alone.
pub const WAXSEAL_SCOPE_EXACT: i32 = 0;
/// The target and everything below it.
pub const WAXSEAL_SCOPE_SUBTREE: i32 = 1;
/// The log row is written in the commit of the operation itself.
pub const WAXSEAL_MODE_SYNC: i32 = 0;
/// A little later, by a thread of its own; a crash may lose some.
pub const WAXSEAL_MODE_ASYNC: i32 = 1;
/// When the records of the operation leave memory; until then it is read from there.
pub const WAXSEAL_MODE_DEFERRED: i32 = 2;
/// Nothing is kept of values.
pub const WAXSEAL_VALUES_NONE: i32 = 0;
/// The new value is.
pub const WAXSEAL_VALUES_NEW: i32 = 1;
/// The old value and the new one are.
pub const WAXSEAL_VALUES_OLD_NEW: i32 = 2;
/// Their seals are.
pub const WAXSEAL_VALUES_HASH: i32 = 3;

/// A retention that never ends.
pub const WAXSEAL_FOREVER: u64 = u64::MAX;

/// How a pair is logged. One thread at a time may use it.
pub struct waxseal_register_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_register_options_t => Mutex<Chosen>, Kind::RegisterOptions, "options of a registration");

/// What was chosen; for the rest what suits the pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chosen {
    scope: Option<Scope>,
    mode: Option<Mode>,
    values: Option<Values>,
    retention: Option<Option<Duration>>,
    history: Option<bool>,
}

impl Chosen {
    fn over(self, suited: RegisterOptions) -> RegisterOptions {
        RegisterOptions {
            scope: self.scope.unwrap_or(suited.scope),
            mode: self.mode.unwrap_or(suited.mode),
            values: self.values.unwrap_or(suited.values),
            retention: self.retention.unwrap_or(suited.retention),
            history: self.history.unwrap_or(suited.history),
        }
    }
}

/// Options with which everything is as it suits the pair: a family is watched with all its keys, rows are logged deferred.
///
/// Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_register_options_destroy`. Errors: `WAXSEAL_INVALID` without a
/// place for the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_register_options_create(
    options: *mut *mut waxseal_register_options_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (options, error) = unsafe { (out(options), out(error)) };
    answer(error, || {
        let options = options.needed("options")?;
        options.set(issue(Mutex::default())?);
        Ok(())
    })
}

/// Ends options. Null is no error; those that were ended are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_register_options_destroy(options: *mut waxseal_register_options_t) -> i32 {
    status_of(|| end(options.cast_const()))
}

fn choose(options: *mut waxseal_register_options_t, choice: impl FnOnce(&mut Chosen) -> Result<()>) -> i32 {
    status_of(|| with_mut(options.cast_const(), choice))
}

/// The choice of a number; none for `WAXSEAL_SUITED`.
fn one_of<T: Copy>(all: &[T], number: i32, what: &str) -> Result<Option<T>> {
    if number == WAXSEAL_SUITED {
        return Ok(None);
    }
    let choice = usize::try_from(number).ok().and_then(|at| all.get(at)).copied();
    choice.map(Some).ok_or_else(|| Failure::invalid(format!("there is no {what} {number}")))
}

const SCOPES: [Scope; 2] = [Scope::Exact, Scope::Subtree];
const MODES: [Mode; 3] = [Mode::Sync, Mode::Async, Mode::Deferred];
const VALUES: [Values; 4] = [Values::None, Values::New, Values::OldNew, Values::Hash];

/// Which targets are meant: `WAXSEAL_SCOPE_..`, or `WAXSEAL_SUITED`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_register_options_set_scope(options: *mut waxseal_register_options_t, scope: i32) -> i32 {
    choose(options, |chosen| {
        chosen.scope = one_of(&SCOPES, scope, "scope")?;
        Ok(())
    })
}

/// When log rows are written: `WAXSEAL_MODE_..`, or `WAXSEAL_SUITED`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_register_options_set_mode(options: *mut waxseal_register_options_t, mode: i32) -> i32 {
    choose(options, |chosen| {
        chosen.mode = one_of(&MODES, mode, "mode")?;
        Ok(())
    })
}

/// What they keep of values: `WAXSEAL_VALUES_..`, or `WAXSEAL_SUITED`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_register_options_set_values(options: *mut waxseal_register_options_t, values: i32) -> i32 {
    choose(options, |chosen| {
        chosen.values = one_of(&VALUES, values, "choice of values")?;
        Ok(())
    })
}

/// After how many microseconds they may be dropped; `WAXSEAL_FOREVER`: never, which is the default.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_register_options_set_retention(options: *mut waxseal_register_options_t, micros: u64) -> i32 {
    let retention = (micros != WAXSEAL_FOREVER).then(|| Duration::from_micros(micros));
    choose(options, |chosen| {
        chosen.retention = Some(retention);
        Ok(())
    })
}

/// Whether old versions of what is registered move into the log instead of being dropped. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_register_options_set_history(options: *mut waxseal_register_options_t, history: bool) -> i32 {
    choose(options, |chosen| {
        chosen.history = Some(history);
        Ok(())
    })
}

/// What stands for any operation.
pub(crate) const ANY: &str = "*";

/// Target and operation as a caller writes them: a target is text such as `users`, `users.john` or `cluster:`, an operation its name, and
/// `*` or nothing at all stands for any.
pub(crate) fn pair(who: &Who, target: Lent<'_>, operation: Lent<'_>) -> Result<(Target, Option<Operation>)> {
    named(who, target.text("target")?, operation.text("operation")?)
}

/// The same of text.
pub(crate) fn named(who: &Who, target: &str, operation: &str) -> Result<(Target, Option<Operation>)> {
    let target = who.target(target)?;
    let operation = if is_any(operation) { None } else { Some(who.operation(operation)?) };
    Ok((target, operation))
}

/// True for text that stands for any operation.
fn is_any(operation: &str) -> bool {
    matches!(operation, "" | ANY)
}

/// From now on an operation on a target is logged: by every commit after this call, by none before. A target is text (`users`,
/// `users.john`, `cluster:`; docs/guide.md), an operation its name (`Row.Write`, `Row.Delete`, ..), where `*` or length 0 stands for any.
/// `options` may be null. To register a pair again changes nothing but its options. Says in `is_new`, unless null, whether it is new.
/// Costs a synced commit. `waxseal_operation_warning` tells what a registration of an operation leaves out.
///
/// Thread-safe, if the options are this thread's own meanwhile. Errors: `WAXSEAL_INVALID` for what is no target, an operation or a family
/// that is not there (a key need not be), an operation that cannot occur on the target or below it (the message says where it occurs),
/// options that do not go together, and if the session may not; `WAXSEAL_READ_ONLY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_register(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    options: *const waxseal_register_options_t,
    is_new: *mut bool,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that bytes be readable, and outputs null or writable.
    let (target, operation, is_new, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(is_new), out(error)) };
    answer(error, || {
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let new = match options.is_null() {
                true => who.register(target, operation)?,
                false => {
                    let chosen = with_mut(options, |chosen: &mut Chosen| Ok(*chosen))?;
                    let suited = RegisterOptions::suited(&target, operation);
                    who.register_with(target, operation, chosen.over(suited))?
                }
            };
            is_new.set(new);
            Ok(())
        })
    })
}

/// The pair is not logged any more; its events stay. Says in `was_there`, unless null, whether it was registered.
///
/// Thread-safe. Errors: as of `waxseal_register`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_unregister(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    was_there: *mut bool,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that bytes be readable, and outputs null or writable.
    let (target, operation, was_there, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(was_there), out(error)) };
    answer(error, || {
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            was_there.set(who.unregister(target, operation)?);
            Ok(())
        })
    })
}

/// Says in `is_registered` whether an operation, which must be named, on a target is logged, by whatever registration.
///
/// Thread-safe. Errors: as of `waxseal_register`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_is_registered(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    is_registered: *mut bool,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that bytes be readable, and outputs null or writable.
    let (target, operation, is_registered, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(is_registered), out(error)) };
    answer(error, || {
        let is_registered = is_registered.needed("answer")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            is_registered.set(who.is_registered(target, operation)?);
            Ok(())
        })
    })
}

/// Writes to `warning` why a registration of an operation logs less than its name promises: `Row.Insert` is logged only for puts whose
/// writer marks them. `WAXSEAL_NOT_FOUND` if it does not. The text lasts as long as the process.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` for what is no operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_operation_warning(
    session: *const waxseal_session_t,
    operation: *const u8,
    operation_len: usize,
    warning: *mut waxseal_slice_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that bytes be readable, and outputs null or writable.
    let (operation, warning, error) = unsafe { (lent(operation, operation_len), out(warning), out(error)) };
    answer(error, || {
        let operation = operation.text("operation")?;
        let known =
            with(session, |who| if is_any(operation) { Ok(None) } else { Ok(Some(who.operation(operation)?)) })?;
        let Some(text) = known.and_then(Operation::warning) else { return Ok(false) };
        warning.set(waxseal_slice_t::of(text.as_bytes()));
        Ok(true)
    })
}

/// Defines an operation of your own, or finds it: 1 to 64 letters, digits, `_`, `-` or `.`. Its number, the same in every store, is
/// written to `number`, unless that is null.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` for a name that cannot be or means something else; as of a commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_define_operation(
    session: *const waxseal_session_t,
    name: *const u8,
    name_len: usize,
    number: *mut u16,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that bytes be readable, and outputs null or writable.
    let (name, number, error) = unsafe { (lent(name, name_len), out(number), out(error)) };
    answer(error, || {
        with(session, |who| {
            number.set(who.define_operation(name.text("name")?)?.number());
            Ok(())
        })
    })
}

/// Registrations. They depend on nothing, may be read from any thread, and are ended by `waxseal_registrations_destroy`.
pub struct waxseal_registrations_t {
    _opaque: [u8; 0],
}

handle!(waxseal_registrations_t => Registrations, Kind::Registrations, "list of registrations");

/// One registration. Its slices are valid until its list is ended.
#[repr(C)]
pub struct waxseal_registration_t {
    /// What is watched, as people write it.
    pub target: waxseal_slice_t,
    /// The operation, by name; `*`: any.
    pub operation: waxseal_slice_t,
    /// One of `WAXSEAL_SCOPE_..`.
    pub scope: i32,
    /// One of `WAXSEAL_MODE_..`.
    pub mode: i32,
    /// One of `WAXSEAL_VALUES_..`.
    pub values: i32,
    /// Whether old versions move into the log.
    pub history: bool,
    /// After how many microseconds events may be dropped; `WAXSEAL_FOREVER`: never.
    pub retention_micros: u64,
}

/// Registrations as C reads them: target, operation, options.
pub(crate) struct Registrations(Vec<(String, String, RegisterOptions)>);

impl Registrations {
    /// These, as they are named in the store of the session.
    pub(crate) fn of(who: &Who, registrations: &[Registration]) -> face::Result<Registrations> {
        let row = |registration: &Registration| {
            let operation =
                registration.operation.map_or(Ok(ANY.to_owned()), |operation| who.operation_name(operation));
            Ok((who.target_text(&registration.target)?, operation?, registration.options))
        };
        registrations.iter().map(row).collect::<face::Result<_>>().map(Registrations)
    }

    /// Gives them to the caller.
    pub(crate) fn give(self, place: Out<'_, *mut waxseal_registrations_t>) -> Result<()> {
        place.set(issue(self)?);
        Ok(())
    }
}

/// Everything that is registered, by target and operation.
///
/// Thread-safe. On success `*registrations` is the caller's, to be ended by `waxseal_registrations_destroy`. Errors: `WAXSEAL_CLOSED`,
/// `WAXSEAL_CORRUPTION` if the registry is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_registrations(
    session: *const waxseal_session_t,
    registrations: *mut *mut waxseal_registrations_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (registrations, error) = unsafe { (out(registrations), out(error)) };
    answer(error, || {
        let registrations = registrations.needed("registrations")?;
        with(session, |who| Registrations::of(who, &who.registrations()?)?.give(registrations))
    })
}

/// How many registrations there are; 0 for null and for a list that was ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_registrations_count(registrations: *const waxseal_registrations_t) -> usize {
    value_of(0, || with(registrations, |registrations| Ok(registrations.0.len())))
}

/// The registration at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_registrations_get(
    registrations: *const waxseal_registrations_t,
    at: usize,
    registration: *mut waxseal_registration_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let registration = unsafe { out(registration) };
    status_of(|| {
        with(registrations, |registrations| {
            let Some((target, operation, options)) = registrations.0.get(at) else { return Ok(false) };
            let retention = options.retention.and_then(|retention| u64::try_from(retention.as_micros()).ok());
            registration.set(waxseal_registration_t {
                target: waxseal_slice_t::of(target.as_bytes()),
                operation: waxseal_slice_t::of(operation.as_bytes()),
                scope: options.scope as i32,
                mode: options.mode as i32,
                values: options.values as i32,
                history: options.history,
                retention_micros: retention.unwrap_or(WAXSEAL_FOREVER),
            });
            Ok(true)
        })
    })
}

/// Ends a list of registrations. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_registrations_destroy(registrations: *mut waxseal_registrations_t) -> i32 {
    status_of(|| end(registrations.cast_const()))
}
