//! The registry: the pairs of target and operation that are watched. Implements Wasef, section 2.4: `register`,
//! `unregister`, and a test whether a pair is registered.

use std::sync::Mutex;
use std::time::Duration;

use face::Session as Who;
use face::registry::{Mode, Operation, RegisterOptions, Registration, Scope, Target, Values};

use crate::declare::{destroy, field, finders, getters, mirror, setters};
use crate::error::{calls, create};
use crate::failure::{Failure, Result};
use crate::handle::{HandleKind, handle, issue, with, with_mut};
use crate::lent::{Lent, Out, waxseal_slice_t};
use crate::session::waxseal_session_t;

/// The default for the pair.
pub const WAXSEAL_SUITED: i32 = -1;
/// The target alone.
pub const WAXSEAL_SCOPE_EXACT: i32 = 0;
/// The target and all targets below it.
pub const WAXSEAL_SCOPE_SUBTREE: i32 = 1;
/// The event is written in the commit of the operation itself.
pub const WAXSEAL_MODE_SYNC: i32 = 0;
/// The event is written shortly after the commit, by a separate thread; a crash may lose some events.
pub const WAXSEAL_MODE_ASYNC: i32 = 1;
/// The event is written when the records of the operation are flushed; until then queries read it from the memtable.
pub const WAXSEAL_MODE_DEFERRED: i32 = 2;
/// Events store no values.
pub const WAXSEAL_VALUES_NONE: i32 = 0;
/// Events store the new value.
pub const WAXSEAL_VALUES_NEW: i32 = 1;
/// Events store the old and the new value.
pub const WAXSEAL_VALUES_OLD_NEW: i32 = 2;
/// Events store the seals of the old and the new value.
pub const WAXSEAL_VALUES_HASH: i32 = 3;

/// Unlimited retention.
pub const WAXSEAL_FOREVER: u64 = u64::MAX;

/// Options of a registration. Used by one thread at a time.
pub struct waxseal_register_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_register_options_t => Mutex<Chosen>, HandleKind::RegisterOptions, "options of a registration");

/// The options that were set; the others keep the defaults for the pair.
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

create! {
    /// Creates options with the defaults for the pair: a family is watched with all its keys, events are written
    /// deferred.
    fn waxseal_register_options_create(options: *mut *mut waxseal_register_options_t) => "options";
}

destroy! {
    /// Destroys options of a registration. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
    fn waxseal_register_options_destroy(options: *mut waxseal_register_options_t);
}

/// Returns the choice with this number; `None` for `WAXSEAL_SUITED`.
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

setters! {
    field;

    /// Sets which targets are watched: `WAXSEAL_SCOPE_..`, or `WAXSEAL_SUITED`.
    fn waxseal_register_options_set_scope(options: *mut waxseal_register_options_t, scope: i32) =>
        scope = one_of(&SCOPES, scope, "scope")?;

    /// Sets when events are written: `WAXSEAL_MODE_..`, or `WAXSEAL_SUITED`.
    fn waxseal_register_options_set_mode(options: *mut waxseal_register_options_t, mode: i32) =>
        mode = one_of(&MODES, mode, "mode")?;

    /// Sets which values the events store: `WAXSEAL_VALUES_..`, or `WAXSEAL_SUITED`.
    fn waxseal_register_options_set_values(options: *mut waxseal_register_options_t, values: i32) =>
        values = one_of(&VALUES, values, "choice of values")?;

    /// Sets the age, in microseconds, from which events may be dropped; `WAXSEAL_FOREVER`, the default, means never.
    fn waxseal_register_options_set_retention(options: *mut waxseal_register_options_t, micros: u64) =>
        retention = Some((micros != WAXSEAL_FOREVER).then(|| Duration::from_micros(micros)));

    /// Whether the version that each registered write replaces stays in its family instead of being dropped. Default
    /// false.
    fn waxseal_register_options_set_history(options: *mut waxseal_register_options_t, history: bool) =>
        history = Some(history);
}

/// The text for any operation.
pub(crate) const ANY: &str = "*";

/// Parses a caller's target and operation. A target is text such as `users`, `users.john` or `cluster:`. An operation
/// is its name; `*` or empty text means any.
pub(crate) fn pair(who: &Who, target: Lent<'_>, operation: Lent<'_>) -> Result<(Target, Option<Operation>)> {
    named(who, target.text("target")?, operation.text("operation")?)
}

/// As `pair`, for text.
pub(crate) fn named(who: &Who, target: &str, operation: &str) -> Result<(Target, Option<Operation>)> {
    let target = who.target(target)?;
    let operation = if is_any(operation) { None } else { Some(who.operation(operation)?) };
    Ok((target, operation))
}

/// True for text that means any operation.
fn is_any(operation: &str) -> bool {
    matches!(operation, "" | ANY)
}

calls! {
    /// Registers an operation on a target: every commit after this call logs it, no commit before does. A target is
    /// text (`users`, `users.john`, `cluster:`; docs/guide.md). An operation is its name (`Row.Write`, `Row.Delete`,
    /// ..); `*` or length 0 means any. `options` may be null. A second registration of a pair only replaces its
    /// options. `is_new`, unless null, receives whether the pair is new. Costs a synced commit.
    /// `waxseal_operation_warning` returns what a registration of an operation does not log.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_INVALID` for an invalid target, an
    /// unknown operation or family (a key need not exist), an operation that cannot occur on the target or below it
    /// (the message names where it occurs), conflicting options, and if the session lacks the right;
    /// `WAXSEAL_READ_ONLY`.
    fn waxseal_register(
        session: *const waxseal_session_t, bytes target, bytes operation, options: *const waxseal_register_options_t,
        out is_new: *mut bool,
    ) {
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
    }

    /// Unregisters the pair, which is then no longer logged; its events stay. `was_there`, unless null, receives
    /// whether the pair was registered.
    ///
    /// Thread-safe. Errors: as of `waxseal_register`.
    fn waxseal_unregister(session: *const waxseal_session_t, bytes target, bytes operation, out was_there: *mut bool) {
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            was_there.set(who.unregister(target, operation)?);
            Ok(())
        })
    }

    /// Sets `is_registered` to whether an operation, which must be named, on a target is logged, through any
    /// registration.
    ///
    /// Thread-safe. Errors: as of `waxseal_register`.
    fn waxseal_is_registered(
        session: *const waxseal_session_t, bytes target, bytes operation, out is_registered: *mut bool,
    ) {
        let is_registered = is_registered.needed("answer")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            is_registered.set(who.is_registered(target, operation)?);
            Ok(())
        })
    }

    /// Sets `warning` to the reason why a registration of an operation logs less than its name suggests: `Row.Insert`
    /// is logged only for puts that the writer marks as inserts. `WAXSEAL_NOT_FOUND` if there is no such reason. The
    /// text is valid for the life of the process.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown operation.
    fn waxseal_operation_warning(
        session: *const waxseal_session_t, bytes operation, out warning: *mut waxseal_slice_t,
    ) {
        let operation = operation.text("operation")?;
        let known =
            with(session, |who| if is_any(operation) { Ok(None) } else { Ok(Some(who.operation(operation)?)) })?;
        let Some(text) = known.and_then(Operation::warning) else { return Ok(false) };
        warning.set(waxseal_slice_t::of(text.as_bytes()));
        Ok(true)
    }

    /// Defines an operation of the application, or finds it. The name has 1 to 64 letters, digits, `_`, `-` or `.`.
    /// `number`, unless null, receives the operation's number, which is the same in every store.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for a name that is invalid or already has another meaning; otherwise as
    /// of a commit.
    fn waxseal_define_operation(session: *const waxseal_session_t, bytes name, out number: *mut u16) {
        with(session, |who| {
            number.set(who.define_operation(name.text("name")?)?.number());
            Ok(())
        })
    }
}

/// A list of registrations. It does not depend on the store, is readable from any thread, and is freed by
/// `waxseal_registrations_destroy`.
pub struct waxseal_registrations_t {
    _opaque: [u8; 0],
}

handle!(waxseal_registrations_t => Registrations, HandleKind::Registrations, "list of registrations");

mirror! {
    /// One registration. Its slices are valid until its list is destroyed.
    pub struct waxseal_registration_t of |listed: &Listed| {
        /// The watched target in its short form.
        pub target: waxseal_slice_t = waxseal_slice_t::text(&listed.target),
        /// The name of the operation; `*` for any.
        pub operation: waxseal_slice_t = waxseal_slice_t::text(&listed.operation),
        /// One of `WAXSEAL_SCOPE_..`.
        pub scope: i32 = listed.options.scope as i32,
        /// One of `WAXSEAL_MODE_..`.
        pub mode: i32 = listed.options.mode as i32,
        /// One of `WAXSEAL_VALUES_..`.
        pub values: i32 = listed.options.values as i32,
        /// Whether replaced versions stay in their family.
        pub history: bool = listed.options.history,
        /// The age, in microseconds, from which events may be dropped; `WAXSEAL_FOREVER` for never.
        pub retention_micros: u64 = forever(listed.options.retention),
    }
}

/// Registrations in the form that C reads.
pub(crate) struct Registrations(Vec<Listed>);

pub(crate) struct Listed {
    target: String,
    operation: String,
    options: RegisterOptions,
}

impl Registrations {
    /// Converts registrations, with the names of the session's store.
    pub(crate) fn of(who: &Who, registrations: &[Registration]) -> face::Result<Registrations> {
        let row = |registration: &Registration| {
            let target = who.target_text(&registration.target)?;
            let named = registration.operation.map(|operation| who.operation_name(operation)).transpose()?;
            Ok(Listed { target, operation: named.unwrap_or_else(|| ANY.to_owned()), options: registration.options })
        };
        registrations.iter().map(row).collect::<face::Result<_>>().map(Registrations)
    }

    /// Hands the list to the caller.
    pub(crate) fn give(self, place: Out<'_, *mut waxseal_registrations_t>) -> Result<()> {
        place.set(issue(self)?);
        Ok(())
    }
}

calls! {
    /// Returns all registrations, ordered by target and operation.
    ///
    /// Thread-safe. On success the caller owns `*registrations` and frees it with `waxseal_registrations_destroy`.
    /// Errors: `WAXSEAL_CLOSED`, `WAXSEAL_CORRUPTION` if the registry is damaged.
    fn waxseal_registrations(session: *const waxseal_session_t, out registrations: *mut *mut waxseal_registrations_t) {
        let registrations = registrations.needed("registrations")?;
        with(session, |who| Registrations::of(who, &who.registrations()?)?.give(registrations))
    }
}

getters! {
    with;

    /// Number of registrations; 0 for null and for a destroyed list.
    fn waxseal_registrations_count(registrations: *const waxseal_registrations_t) -> usize =>
        |registrations| registrations.0.len(), or 0;
}

/// A retention in microseconds.
pub(crate) fn forever(retention: Option<Duration>) -> u64 {
    retention.and_then(|retention| u64::try_from(retention.as_micros()).ok()).unwrap_or(WAXSEAL_FOREVER)
}

finders! {
    /// The registration at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
    fn waxseal_registrations_get(
        registrations: *const waxseal_registrations_t,
        at: usize;
        registration: *mut waxseal_registration_t,
    ) => |registrations| registrations.0.get(at).map(waxseal_registration_t::of);
}

destroy! {
    /// Destroys a list of registrations. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
    fn waxseal_registrations_destroy(registrations: *mut waxseal_registrations_t);
}
