//! Events of the log, given away: what queries answer.

use std::sync::Arc;

use face::Session;
use face::registry::{Event, Step};

use crate::call::{status_of, value_of};
use crate::error::Result;
use crate::fields::{Flat, WAXSEAL_FIELD_NUMBERS, flat};
use crate::handle::{Kind, end, handle, issue, with};
use crate::lent::{Out, out, waxseal_slice_t};

/// Events, in the order that the call which made them says. They depend on nothing, may be read from any thread, and are ended by
/// `waxseal_events_destroy`.
pub struct waxseal_events_t {
    _opaque: [u8; 0],
}

handle!(waxseal_events_t => Arc<Events>, Kind::Events, "list of events");

/// Something that happened to something. Its slices are valid until its list is ended.
#[repr(C)]
pub struct waxseal_event_t {
    /// To what, as people write it: `users.john`.
    pub target: waxseal_slice_t,
    /// What, by name: `Row.Update`.
    pub operation: waxseal_slice_t,
    /// The name of the session in which it was done; `-` for nobody in particular.
    pub client: waxseal_slice_t,
    /// When: microseconds since 1970.
    pub micros: u64,
    /// The same moment as a number, in the order in which things happened; the events of one commit share it.
    pub time: u64,
    /// Its commit's place in the order of commits.
    pub seqno: u64,
    /// Number of its fields.
    pub fields: usize,
    /// In a lineage: how many steps it lies behind the file that was asked for.
    pub back: usize,
}

/// One field of an event, or of a case of quarantine. Its slices are valid until its list is ended.
#[repr(C)]
pub struct waxseal_field_t {
    /// The number under which it stands in the log.
    pub number: u64,
    /// Its name: `new_value`, `records`, ..
    pub name: waxseal_slice_t,
    /// One of `WAXSEAL_FIELD_..`: what of the following says something.
    pub kind: i32,
    /// See `kind`.
    pub bytes: waxseal_slice_t,
    /// See `kind`.
    pub more: waxseal_slice_t,
    /// See `kind`.
    pub numbers: [u64; WAXSEAL_FIELD_NUMBERS],
}

impl waxseal_field_t {
    /// Lends a field.
    pub(crate) fn of(flat: &Flat) -> waxseal_field_t {
        waxseal_field_t {
            number: flat.number,
            name: waxseal_slice_t::of(flat.name.as_bytes()),
            kind: flat.kind,
            bytes: waxseal_slice_t::of(&flat.bytes),
            more: waxseal_slice_t::of(&flat.more),
            numbers: flat.numbers,
        }
    }
}

/// Events as C reads them.
#[derive(Debug, Default)]
pub(crate) struct Events {
    rows: Vec<Row>,
    /// Where the page after this one begins; empty: there is none.
    next: Vec<u8>,
}

#[derive(Debug)]
struct Row {
    target: String,
    operation: String,
    client: String,
    micros: u64,
    time: u64,
    seqno: u64,
    back: usize,
    fields: Vec<Flat>,
}

impl Row {
    fn of(session: &Session, event: &Event, back: usize) -> face::Result<Row> {
        let key = &event.key;
        Ok(Row {
            target: session.target_text(&key.target)?,
            operation: session.operation_name(key.operation)?,
            client: key.client.clone(),
            micros: key.time.micros(),
            time: key.time.0,
            seqno: key.seqno,
            back,
            fields: flat(&event.payload),
        })
    }
}

impl Events {
    /// These events, as they are named in the store of the session.
    pub(crate) fn of(session: &Session, events: &[Event], next: Option<Vec<u8>>) -> face::Result<Events> {
        let rows = events.iter().map(|event| Row::of(session, event, 0)).collect::<face::Result<_>>()?;
        Ok(Events { rows, next: next.unwrap_or_default() })
    }

    /// The steps of a lineage.
    pub(crate) fn of_steps(session: &Session, steps: &[Step]) -> face::Result<Events> {
        let rows = steps.iter().map(|step| Row::of(session, &step.event, step.back)).collect::<face::Result<_>>()?;
        Ok(Events { rows, next: Vec::new() })
    }

    /// Gives them to the caller.
    pub(crate) fn give(self, place: Out<'_, *mut waxseal_events_t>) -> Result<()> {
        give(place, Arc::new(self))
    }
}

/// Gives events to the caller, who may have them already.
pub(crate) fn give(place: Out<'_, *mut waxseal_events_t>, events: Arc<Events>) -> Result<()> {
    place.set(issue(events)?);
    Ok(())
}

/// How many events there are; 0 for null and for a list that was ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_events_count(events: *const waxseal_events_t) -> usize {
    value_of(0, || with(events, |events| Ok(events.rows.len())))
}

/// The event at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_events_get(
    events: *const waxseal_events_t,
    at: usize,
    event: *mut waxseal_event_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let event = unsafe { out(event) };
    status_of(|| {
        with(events, |events| {
            let Some(row) = events.rows.get(at) else { return Ok(false) };
            event.set(waxseal_event_t {
                target: waxseal_slice_t::of(row.target.as_bytes()),
                operation: waxseal_slice_t::of(row.operation.as_bytes()),
                client: waxseal_slice_t::of(row.client.as_bytes()),
                micros: row.micros,
                time: row.time,
                seqno: row.seqno,
                fields: row.fields.len(),
                back: row.back,
            });
            Ok(true)
        })
    })
}

/// A field of the event at a place, both counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_events_field(
    events: *const waxseal_events_t,
    at: usize,
    field_at: usize,
    field: *mut waxseal_field_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let field = unsafe { out(field) };
    status_of(|| {
        with(events, |events| {
            let Some(flat) = events.rows.get(at).and_then(|row| row.fields.get(field_at)) else { return Ok(false) };
            field.set(waxseal_field_t::of(flat));
            Ok(true)
        })
    })
}

/// Where the next page begins, for `waxseal_query_set_page`. `WAXSEAL_NOT_FOUND` if there is none. Valid until the list is ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_events_next(events: *const waxseal_events_t, after: *mut waxseal_slice_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let after = unsafe { out(after) };
    status_of(|| {
        with(events, |events| {
            if events.next.is_empty() {
                return Ok(false);
            }
            after.set(waxseal_slice_t::of(&events.next));
            Ok(true)
        })
    })
}

/// Ends a list of events. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_events_destroy(events: *mut waxseal_events_t) -> i32 {
    status_of(|| end(events.cast_const()))
}
