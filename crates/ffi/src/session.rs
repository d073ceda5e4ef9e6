//! Sessions: what is written and asked in somebody's name.

use std::sync::Mutex;

use face::{Identity, Session};

use crate::batch::waxseal_batch_t;
use crate::bytes::{give, waxseal_bytes_t};
use crate::call::{answer, status_of};
use crate::db::waxseal_db_t;
use crate::error::waxseal_error_t;
use crate::family::waxseal_family_t;
use crate::family_options::{family_settings, waxseal_family_options_t};
use crate::handle::{Kind, end, handle, issue, with};
use crate::lent::{lent, out};

/// A store, and who uses it. Families and batches that are taken from it write in its name, and registry and log are asked through it.
/// May be used from any thread, and is ended by `waxseal_session_destroy`, before or after its store is closed.
pub struct waxseal_session_t {
    _opaque: [u8; 0],
}

handle!(waxseal_session_t => Session, Kind::Session, "session", |session| Some(session.store()));

/// A session of this name, UTF-8 of 1 to 255 bytes; without a name (length 0) that of nobody in particular, in whose name everything is
/// done that is done without a session. `authenticated` says how it was found out who that is; length 0: not at all, which is somebody
/// else than the one of the same name who was. The same identity is the same session, also after a reopen. A name is taken as it is
/// given: open sessions for those only whom you know.
///
/// Thread-safe. On success `*session` is the caller's, to be ended by `waxseal_session_destroy`. Errors: `WAXSEAL_INVALID` for a name
/// that cannot be, and in a store that was opened without its registry; as of a commit for a name that is new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_open(
    db: *mut waxseal_db_t,
    name: *const u8,
    name_len: usize,
    authenticated: *const u8,
    authenticated_len: usize,
    session: *mut *mut waxseal_session_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, how, session, error) =
        unsafe { (lent(name, name_len), lent(authenticated, authenticated_len), out(session), out(error)) };
    answer(error, || {
        let session = session.needed("session")?;
        let (name, how) = (name.text("name of the session")?, how.text("way of authentication")?);
        let opened = with(db.cast_const(), |db| match (name, how) {
            ("", _) => Ok(db.nobody()),
            (name, "") => Ok(db.session(name)?),
            (name, how) => Ok(db.session(Identity::named(name).authenticated(how))?),
        })?;
        session.set(issue(opened)?);
        Ok(())
    })
}

/// The name of a session; `-` for nobody in particular.
///
/// Thread-safe. On success `*name` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_name(
    session: *const waxseal_session_t,
    name: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (name, error) = unsafe { (out(name), out(error)) };
    answer(error, || with(session, |session| give(name.needed("name")?, session.name().as_bytes())))
}

/// `waxseal_family_open`, as a handle that writes in this name.
///
/// Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: as of `waxseal_family_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_family_open(
    session: *const waxseal_session_t,
    name: *const u8,
    name_len: usize,
    family: *mut *mut waxseal_family_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, family, error) = unsafe { (lent(name, name_len), out(family), out(error)) };
    answer(error, || {
        let family = family.needed("column family")?;
        let opened = with(session, |session| Ok(session.column_family(name.text("name")?)?))?;
        family.set(issue(opened)?);
        Ok(())
    })
}

/// `waxseal_family_create`, in this name and as a handle that writes in it. `options` may be null.
///
/// Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: as of `waxseal_family_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_family_create(
    session: *const waxseal_session_t,
    name: *const u8,
    name_len: usize,
    options: *const waxseal_family_options_t,
    family: *mut *mut waxseal_family_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, family, error) = unsafe { (lent(name, name_len), out(family), out(error)) };
    answer(error, || {
        let family = family.needed("column family")?;
        let made = with(session, |session| {
            let settings = family_settings(options, session.store())?;
            Ok(session.create_column_family(name.text("name")?, settings)?)
        })?;
        family.set(issue(made)?);
        Ok(())
    })
}

/// `waxseal_family_drop`, in this name. The events of its rows stay, and so do registrations.
///
/// Thread-safe. Errors: as of `waxseal_family_drop`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_family_drop(
    session: *const waxseal_session_t,
    name: *const u8,
    name_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, error) = unsafe { (lent(name, name_len), out(error)) };
    answer(error, || with(session, |session| Ok(session.drop_column_family(name.text("name")?)?)))
}

/// An empty batch that commits in this name.
///
/// Thread-safe. On success `*batch` is the caller's, to be ended by `waxseal_batch_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_batch_create(
    session: *const waxseal_session_t,
    batch: *mut *mut waxseal_batch_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (batch, error) = unsafe { (out(batch), out(error)) };
    answer(error, || {
        let batch = batch.needed("batch")?;
        batch.set(issue(Mutex::new(with(session, |session| Ok(session.batch()))?.into()))?);
        Ok(())
    })
}

/// How it was found out who that is. `WAXSEAL_NOT_FOUND`: not at all.
///
/// Thread-safe. On `WAXSEAL_OK` `*how` is the caller's, to be ended by `waxseal_bytes_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_authenticated(
    session: *const waxseal_session_t,
    how: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (how, error) = unsafe { (out(how), out(error)) };
    answer(error, || {
        with(session, |session| match session.authenticated() {
            Some(said) => give(how.needed("way of authentication")?, said.as_bytes()).map(|()| true),
            None => Ok(false),
        })
    })
}

/// Says that the session has ended: an event, where `Session.Close` of `engine:session` is registered, and nothing else. The handle is
/// still to be ended; what was taken from the session goes on.
///
/// Thread-safe. Errors: as of a commit for the event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_session_close(
    session: *const waxseal_session_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(session, |session| Ok(session.clone().close()?)))
}

/// Ends a handle to a session. Null is no error; a handle that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe: calls that use it meanwhile finish.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_session_destroy(session: *mut waxseal_session_t) -> i32 {
    status_of(|| end(session.cast_const()))
}
