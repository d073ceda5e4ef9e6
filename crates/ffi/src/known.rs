//! Provenance of keys and table files: the registrations that watch a key, the events of a key, and the lineage of a
//! file.

use std::sync::Arc;

use face::registry::{Explanation, Lies};

use crate::call::status_of;
use crate::declare::{destroy, finders};
use crate::error::calls;
use crate::events::{Events, give, waxseal_events_t};
use crate::failure::Result;
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, with};
use crate::lent::{out, waxseal_slice_t};
use crate::registry::{Registrations, waxseal_registrations_t};
use crate::seal::waxseal_seal_t;
use crate::session::waxseal_session_t;

/// The key was not found.
pub const WAXSEAL_LIES_NOWHERE: i32 = 0;
/// The key is in a memtable, and in the store's log.
pub const WAXSEAL_LIES_IN_MEMORY: i32 = 1;
/// The key is in a table file.
pub const WAXSEAL_LIES_IN_TABLE: i32 = 2;

calls! {
    /// Returns the registrations that watch a key, the most specific ones first, and the events of the key, oldest
    /// first. Either output may be null.
    ///
    /// Thread-safe. On success the caller owns `*watched_by` and `*events`, and frees them with
    /// `waxseal_registrations_destroy` and `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
    fn waxseal_provenance(
        session: *const waxseal_session_t, family: *const waxseal_family_t, bytes key,
        out watched_by: *mut *mut waxseal_registrations_t, out events: *mut *mut waxseal_events_t,
    ) {
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
    }

    /// Returns the lineage of a table file: the job that wrote it, the jobs that wrote that job's inputs, and so on,
    /// newest step first; `waxseal_event_t.back` counts the steps. The file is named by its name in the store's
    /// directory or by its uid, 32 hexadecimal digits; the uid also works for a deleted file.
    ///
    /// Thread-safe. On success the caller owns `*steps` and frees it with `waxseal_events_destroy`. Errors:
    /// `WAXSEAL_INVALID` for an unknown file; otherwise as of `waxseal_query_all`.
    fn waxseal_lineage(session: *const waxseal_session_t, bytes file, out steps: *mut *mut waxseal_events_t) {
        let steps = steps.needed("steps")?;
        with(session, |who| {
            let lineage = who.lineage(file.text("name of the file")?)?;
            Events::of_steps(who, &lineage.steps)?.give(steps)
        })
    }
}

/// All known facts about a key. It does not depend on the store, is readable from any thread, and is freed by
/// `waxseal_explanation_destroy`.
pub struct waxseal_explanation_t {
    _opaque: [u8; 0],
}

handle!(waxseal_explanation_t => Explained, HandleKind::Explanation, "explanation");

/// The content of an explanation. Its slices are valid until the explanation is destroyed.
#[repr(C)]
pub struct waxseal_explained_t {
    /// The key in its full form.
    pub target: waxseal_slice_t,
    /// The result of the checks: `validated`, `absent`, or the reason why the value is withheld.
    pub verdict: waxseal_slice_t,
    /// The value, if `has_value`.
    pub value: waxseal_slice_t,
    /// The name of the session that wrote it; empty if the key was not watched at that time.
    pub writer: waxseal_slice_t,
    /// The time of that write, in microseconds since 1970.
    pub written_micros: u64,
    /// The sequence number of the version that determines the result, if `has_version`.
    pub seqno: u64,
    /// The time of the last complete verification of the store, in microseconds since 1970; 0 if unknown.
    pub verified_micros: u64,
    /// The table file that holds the version, if `lies` is `WAXSEAL_LIES_IN_TABLE`.
    pub file: waxseal_slice_t,
    /// The uid of that file.
    pub uid: [u8; 16],
    /// The offset of its block in the file.
    pub offset: u64,
    /// The level of the file.
    pub level: u32,
    /// The location of the version that determines the result: one of `WAXSEAL_LIES_..`.
    pub lies: i32,
    /// Its seal, if `has_seal`.
    pub seal: waxseal_seal_t,
    /// False if the key has no value, or its value is withheld.
    pub has_value: bool,
    /// False if there is no such version, or it cannot be read.
    pub has_version: bool,
    /// False if the record has no seal.
    pub has_seal: bool,
}

/// An explanation in the form that C reads.
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

calls! {
    /// Explains a key: its value and verdict, the writer and time, its events, its file and that file's lineage. Damage
    /// is part of the explanation, not an error. Costs several reads.
    ///
    /// Thread-safe. On success the caller owns `*explanation` and frees it with `waxseal_explanation_destroy`. Errors:
    /// as of `waxseal_query_all`.
    fn waxseal_explain(
        session: *const waxseal_session_t, family: *const waxseal_family_t, bytes key,
        out explanation: *mut *mut waxseal_explanation_t,
    ) {
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
    }
}

finders! {
    /// Returns the content of an explanation.
    fn waxseal_explanation_get(explanation: *const waxseal_explanation_t; explained: *mut waxseal_explained_t) =>
        |explanation| Some(explanation.view());
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

/// Returns the events of the key, oldest first.
///
/// Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_explanation_events(
    explanation: *const waxseal_explanation_t,
    events: *mut *mut waxseal_events_t,
) -> i32 {
    part(explanation, events, |explained| &explained.events)
}

/// Returns the lineage of the key's table file, as of `waxseal_lineage`.
///
/// Thread-safe. On success the caller owns `*steps` and frees it with `waxseal_events_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_explanation_lineage(
    explanation: *const waxseal_explanation_t,
    steps: *mut *mut waxseal_events_t,
) -> i32 {
    part(explanation, steps, |explained| &explained.lineage)
}

destroy! {
    /// Destroys an explanation. Null is allowed; a destroyed explanation is `WAXSEAL_CLOSED`.
    fn waxseal_explanation_destroy(explanation: *mut waxseal_explanation_t);
}
