//! What is known of a key, and of a table file: where it is watched, why it is what it is, how it came to be.

use std::sync::Arc;

use face::registry::{Explanation, Lies};

use crate::call::{answer, status_of};
use crate::error::{Result, waxseal_error_t};
use crate::events::{Events, give, waxseal_events_t};
use crate::family::waxseal_family_t;
use crate::handle::{Kind, end, handle, issue, with};
use crate::lent::{lent, out, waxseal_slice_t};
use crate::registry::{Registrations, waxseal_registrations_t};
use crate::seal::waxseal_seal_t;
use crate::session::waxseal_session_t;

/// The key is nowhere.
pub const WAXSEAL_LIES_NOWHERE: i32 = 0;
/// It is in memory, and in the log of the store.
pub const WAXSEAL_LIES_IN_MEMORY: i32 = 1;
/// It is in a table file.
pub const WAXSEAL_LIES_IN_TABLE: i32 = 2;

/// The registrations that watch a key, those that say most first, and what happened to it, oldest first. Either place may be null.
///
/// Thread-safe. On success `*watched_by` and `*events` are the caller's, to be ended by `waxseal_registrations_destroy` and
/// `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_provenance(
    session: *const waxseal_session_t,
    family: *const waxseal_family_t,
    key: *const u8,
    key_len: usize,
    watched_by: *mut *mut waxseal_registrations_t,
    events: *mut *mut waxseal_events_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, watched_by, events, error) = unsafe { (lent(key, key_len), out(watched_by), out(events), out(error)) };
    answer(error, || {
        with(session, |who| {
            let known = with(family, |family| Ok(who.provenance(family, key.key()?)?))?;
            let rows = Registrations::of(who, &known.watched_by)?;
            let happened = Events::of(who, &known.events, None)?;
            if !events.is_nowhere() {
                happened.give(events)?;
            }
            if !watched_by.is_nowhere() {
                rows.give(watched_by)?;
            }
            Ok(())
        })
    })
}

/// How a table file came to be: what wrote it, what that had read, and so on back, the last step first; `waxseal_event_t.back` counts the
/// steps. The file is said by its name in the store's directory or, also if it is gone, by its uid: 32 hexadecimal digits.
///
/// Thread-safe. On success `*steps` is the caller's, to be ended by `waxseal_events_destroy`. Errors: `WAXSEAL_INVALID` for a file that is
/// not there; else as of `waxseal_query_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_lineage(
    session: *const waxseal_session_t,
    file: *const u8,
    file_len: usize,
    steps: *mut *mut waxseal_events_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (file, steps, error) = unsafe { (lent(file, file_len), out(steps), out(error)) };
    answer(error, || {
        let steps = steps.needed("steps")?;
        with(session, |who| {
            let lineage = who.lineage(file.text("name of the file")?)?;
            Events::of_steps(who, &lineage.steps)?.give(steps)
        })
    })
}

/// Everything that is known of a key. It depends on nothing, may be read from any thread, and is ended by
/// `waxseal_explanation_destroy`.
pub struct waxseal_explanation_t {
    _opaque: [u8; 0],
}

handle!(waxseal_explanation_t => Explained, Kind::Explanation, "explanation");

/// What an explanation says. Its slices are valid until the explanation is ended.
#[repr(C)]
pub struct waxseal_explained_t {
    /// The key by its full name.
    pub target: waxseal_slice_t,
    /// What the checks say: `validated`, `absent`, or why the value is not given out.
    pub verdict: waxseal_slice_t,
    /// The value, if `has_value`.
    pub value: waxseal_slice_t,
    /// Who wrote it, by the name of the session; empty if it was not watched then.
    pub writer: waxseal_slice_t,
    /// When that was, in microseconds since 1970.
    pub written_micros: u64,
    /// The place in the order of commits of the version that decides, if `has_version`.
    pub seqno: u64,
    /// When all of the store was last checked, in microseconds since 1970; 0: nothing is known of that.
    pub verified_micros: u64,
    /// The table file in which it lies, if `lies` says so.
    pub file: waxseal_slice_t,
    /// The uid of that file.
    pub uid: [u8; 16],
    /// The place of the block in it.
    pub offset: u64,
    /// The level of the file.
    pub level: u32,
    /// Where the version lies that decides: one of `WAXSEAL_LIES_..`.
    pub lies: i32,
    /// Its seal, if `has_seal`.
    pub seal: waxseal_seal_t,
    /// False: there is no value, or none that can be given out.
    pub has_value: bool,
    /// False: nothing decides, or it cannot be read.
    pub has_version: bool,
    /// False: the record has no seal.
    pub has_seal: bool,
}

/// An explanation as C reads it.
pub(crate) struct Explained {
    known: Explanation,
    target: String,
    events: Arc<Events>,
    lineage: Arc<Events>,
}

impl Explained {
    fn view(&self) -> waxseal_explained_t {
        let known = &self.known;
        let text = |text: &str| waxseal_slice_t::of(text.as_bytes());
        let (writer, written_micros) = known.written.as_ref().map_or(("", 0), |(who, time)| (who, time.micros()));
        let (lies, file, uid, offset, level) = match &known.lies {
            None => (WAXSEAL_LIES_NOWHERE, "", [0; 16], 0, 0),
            Some(Lies::Memory) => (WAXSEAL_LIES_IN_MEMORY, "", [0; 16], 0, 0),
            Some(Lies::Table { uid, file, level, offset }) => {
                (WAXSEAL_LIES_IN_TABLE, file.as_str(), uid.0, *offset, u32::from(*level))
            }
        };
        waxseal_explained_t {
            target: text(&self.target),
            verdict: text(&known.verdict),
            value: known.value.as_deref().map_or(waxseal_slice_t::EMPTY, waxseal_slice_t::of),
            writer: text(writer),
            written_micros,
            seqno: known.seqno.unwrap_or(0),
            verified_micros: known.verified.map_or(0, |time| time.micros()),
            file: text(file),
            uid,
            offset,
            level,
            lies,
            seal: known.seal.map(waxseal_seal_t::from).unwrap_or_default(),
            has_value: known.value.is_some(),
            has_version: known.seqno.is_some(),
            has_seal: known.seal.is_some(),
        }
    }
}

/// Everything that is known of a key: value and verdict, who wrote it and when, what happened to it, in which file it lies and how that
/// came to be. Damage is told, not an error. Costs several reads.
///
/// Thread-safe. On success `*explanation` is the caller's, to be ended by `waxseal_explanation_destroy`. Errors: as of
/// `waxseal_query_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_explain(
    session: *const waxseal_session_t,
    family: *const waxseal_family_t,
    key: *const u8,
    key_len: usize,
    explanation: *mut *mut waxseal_explanation_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, explanation, error) = unsafe { (lent(key, key_len), out(explanation), out(error)) };
    answer(error, || {
        let explanation = explanation.needed("explanation")?;
        let explained: Explained = with(session, |who| {
            let known = with(family, |family| Ok(who.explain(family, key.key()?)?))?;
            Ok(Explained {
                target: who.target_text(&known.target)?,
                events: Arc::new(Events::of(who, &known.events, None)?),
                lineage: Arc::new(Events::of_steps(who, &known.lineage.steps)?),
                known,
            })
        })?;
        explanation.set(issue(explained)?);
        Ok(())
    })
}

/// What an explanation says.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_explanation_get(
    explanation: *const waxseal_explanation_t,
    explained: *mut waxseal_explained_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let explained = unsafe { out(explained) };
    status_of(|| {
        with(explanation, |explanation| {
            explained.set(explanation.view());
            Ok(())
        })
    })
}

fn part(
    explanation: *const waxseal_explanation_t,
    events: *mut *mut waxseal_events_t,
    part: impl FnOnce(&Explained) -> &Arc<Events>,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let events = unsafe { out(events) };
    status_of(|| -> Result<()> {
        let events = events.needed("events")?;
        give(events, with(explanation, |explanation| Ok(Arc::clone(part(explanation))))?)
    })
}

/// What happened to the key, oldest first.
///
/// Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_explanation_events(
    explanation: *const waxseal_explanation_t,
    events: *mut *mut waxseal_events_t,
) -> i32 {
    part(explanation, events, |explained| &explained.events)
}

/// How the file came to be in which it lies, as of `waxseal_lineage`.
///
/// Thread-safe. On success `*steps` is the caller's, to be ended by `waxseal_events_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_explanation_lineage(
    explanation: *const waxseal_explanation_t,
    steps: *mut *mut waxseal_events_t,
) -> i32 {
    part(explanation, steps, |explained| &explained.lineage)
}

/// Ends an explanation. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_explanation_destroy(explanation: *mut waxseal_explanation_t) -> i32 {
    status_of(|| end(explanation.cast_const()))
}
