//! Sessions: writes and queries under a client's identity.

use std::sync::Mutex;

use face::{Identity, Session};

use crate::batch::waxseal_batch_t;
use crate::bytes::{give, waxseal_bytes_t};
use crate::db::waxseal_db_t;
use crate::declare::destroy;
use crate::error::calls;
use crate::family::waxseal_family_t;
use crate::family_options::{family_settings, waxseal_family_options_t};
use crate::handle::{HandleKind, handle, issue, with};

/// A store together with a client's identity. Families and batches opened from a session write under that identity;
/// registry and log are used through a session. Usable from any thread. Destroyed by `waxseal_session_destroy`, before
/// or after its store is closed.
pub struct waxseal_session_t {
    _opaque: [u8; 0],
}

handle!(waxseal_session_t => Session, HandleKind::Session, "session", |session| Some(session.store()));

calls! {
    /// Opens the session of an identity. `name` is UTF-8 of 1 to 255 bytes. Length 0 opens the unnamed session, to
    /// which all operations without a session belong. `authenticated` is the authentication method; length 0 means
    /// unauthenticated. The pair of name and method is the identity: the same pair is the same session, also after a
    /// reopen, and one name with two methods is two sessions. The store does not verify names: the application must
    /// authenticate clients before it opens sessions for them.
    ///
    /// Thread-safe. On success the caller owns `*session` and frees it with `waxseal_session_destroy`. Errors:
    /// `WAXSEAL_INVALID` for an invalid name, and in a store that was opened without its registry; otherwise as of a
    /// commit, for a new name.
    fn waxseal_session_open(
        db: *mut waxseal_db_t, bytes name, bytes authenticated, out session: *mut *mut waxseal_session_t,
    ) {
        let session = session.needed("session")?;
        let (name, authenticated) = (name.text("name of the session")?, authenticated.text("way of authentication")?);
        let opened = with(db.cast_const(), |db| match (name, authenticated) {
            ("", _) => Ok(db.nobody()),
            (name, "") => Ok(db.session(name)?),
            (name, authenticated) => Ok(db.session(Identity::named(name).authenticated(authenticated))?),
        })?;
        session.set(issue(opened)?);
        Ok(())
    }

    /// Returns the name of a session; `-` for the unnamed session.
    ///
    /// Thread-safe. On success the caller owns `*name` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_session_name(session: *const waxseal_session_t, out name: *mut *mut waxseal_bytes_t) {
        with(session, |session| give(name.needed("name")?, session.name().as_bytes()))
    }

    /// As `waxseal_family_open`, but the handle writes under the session's identity.
    ///
    /// Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors: as of
    /// `waxseal_family_open`.
    fn waxseal_session_family_open(
        session: *const waxseal_session_t, bytes name, out family: *mut *mut waxseal_family_t,
    ) {
        let family = family.needed("column family")?;
        let opened = with(session, |session| Ok(session.column_family(name.text("name")?)?))?;
        family.set(issue(opened)?);
        Ok(())
    }

    /// As `waxseal_family_find`, but the handle writes under the session's identity.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors: as of
    /// `waxseal_family_find`.
    fn waxseal_session_family_find(
        session: *const waxseal_session_t, bytes name, out family: *mut *mut waxseal_family_t,
    ) {
        let family = family.needed("column family")?;
        let found = with(session, |session| Ok(session.find_column_family(name.text("name")?)?))?;
        let Some(found) = found else { return Ok(false) };
        family.set(issue(found)?);
        Ok(true)
    }

    /// As `waxseal_family_create`, but creates the family and writes through the handle under the session's identity.
    /// `options` may be null.
    ///
    /// Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors: as of
    /// `waxseal_family_create`.
    fn waxseal_session_family_create(
        session: *const waxseal_session_t, bytes name, options: *const waxseal_family_options_t,
        out family: *mut *mut waxseal_family_t,
    ) {
        let family = family.needed("column family")?;
        let made = with(session, |session| {
            let settings = family_settings(options, session.store())?;
            Ok(session.create_column_family(name.text("name")?, settings)?)
        })?;
        family.set(issue(made)?);
        Ok(())
    }

    /// As `waxseal_family_drop`, under the session's identity. The events of the family's rows and its registrations
    /// stay.
    ///
    /// Thread-safe. Errors: as of `waxseal_family_drop`.
    fn waxseal_session_family_drop(session: *const waxseal_session_t, bytes name) {
        with(session, |session| Ok(session.drop_column_family(name.text("name")?)?))
    }

    /// Creates an empty batch that commits under the session's identity.
    ///
    /// Thread-safe. On success the caller owns `*batch` and frees it with `waxseal_batch_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_session_batch_create(session: *const waxseal_session_t, out batch: *mut *mut waxseal_batch_t) {
        let batch = batch.needed("batch")?;
        batch.set(issue(Mutex::new(with(session, |session| Ok(session.batch()))?.into()))?);
        Ok(())
    }

    /// Returns the authentication method of a session. `WAXSEAL_NOT_FOUND` for an unauthenticated session.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*how` and frees it with `waxseal_bytes_destroy`.
    fn waxseal_session_authenticated(session: *const waxseal_session_t, out how: *mut *mut waxseal_bytes_t) {
        with(session, |session| match session.authenticated() {
            Some(said) => give(how.needed("way of authentication")?, said.as_bytes()).map(|()| true),
            None => Ok(false),
        })
    }

    /// Records the end of the session: writes an event if `Session.Close` of `engine:session` is registered, and has no
    /// other effect. The handle must still be destroyed; families and batches opened from the session stay usable.
    ///
    /// Thread-safe. Errors: as of a commit for the event.
    fn waxseal_session_close(session: *const waxseal_session_t) {
        with(session, |session| Ok(session.clone().close()?))
    }
}

destroy! {
    /// Destroys a handle to a session. Null is allowed; a destroyed handle is `WAXSEAL_CLOSED`.
    ///
    /// Thread-safe: concurrent calls that use the handle finish.
    fn waxseal_session_destroy(session: *mut waxseal_session_t);
}
