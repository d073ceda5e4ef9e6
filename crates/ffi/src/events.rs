//! Lists of events, the results of queries on the log of events.

use std::sync::Arc;

use face::Session;
use face::registry::{Event, Step};

use crate::declare::{destroy, finders, getters, mirror};
use crate::failure::Result;
use crate::fields::{Flat, WAXSEAL_FIELD_NUMBERS, flat};
use crate::handle::{HandleKind, handle, issue};
use crate::lent::{Out, waxseal_slice_t};

/// Events, in the order documented for the call that returned them. They do not depend on the store, are readable from
/// any thread, and are freed by `waxseal_events_destroy`.
pub struct waxseal_events_t {
    _opaque: [u8; 0],
}

handle!(waxseal_events_t => Arc<Events>, HandleKind::Events, "list of events");

mirror! {
    /// One event: an operation on a target. Its slices are valid until its list is destroyed.
    pub struct waxseal_event_t of |row: &EventRow| {
        /// The target in its short form: `users.john`.
        pub target: waxseal_slice_t = waxseal_slice_t::text(&row.target),
        /// The name of the operation: `Row.Update`.
        pub operation: waxseal_slice_t = waxseal_slice_t::text(&row.operation),
        /// The name of the session that performed it; `-` for the unnamed session.
        pub client: waxseal_slice_t = waxseal_slice_t::text(&row.client),
        /// The time in microseconds since 1970.
        pub micros: u64,
        /// The same time as an ordered number. The events of one commit share it.
        pub time: u64,
        /// The sequence number of its commit.
        pub seqno: u64,
        /// Number of its fields.
        pub fields: usize = row.fields.len(),
        /// In a lineage: number of steps between this event and the requested file.
        pub back: usize,
    }
}

mirror! {
    /// One field of an event, or of a case of quarantine. Its slices are valid until its list is destroyed.
    pub struct waxseal_field_t of |flat: &Flat| {
        /// The field's number in the log.
        pub number: u64,
        /// Its name: `new_value`, `records`, ..
        pub name: waxseal_slice_t = waxseal_slice_t::text(&flat.name),
        /// One of `WAXSEAL_FIELD_..`; it determines which of the following members are used.
        pub kind: i32,
        /// See `kind`.
        pub bytes: waxseal_slice_t = waxseal_slice_t::of(&flat.bytes),
        /// See `kind`.
        pub more: waxseal_slice_t = waxseal_slice_t::of(&flat.more),
        /// See `kind`.
        pub numbers: [u64; WAXSEAL_FIELD_NUMBERS],
    }
}

/// Events in the form that C reads.
#[derive(Debug, Default)]
pub(crate) struct Events {
    rows: Vec<EventRow>,
    /// The start of the next page; empty if this is the last one.
    next: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct EventRow {
    target: String,
    operation: String,
    client: String,
    micros: u64,
    time: u64,
    seqno: u64,
    back: usize,
    fields: Vec<Flat>,
}

impl EventRow {
    fn of(session: &Session, event: &Event, back: usize) -> face::Result<EventRow> {
        let key = &event.key;
        Ok(EventRow {
            target: session.target_text(&key.target)?,
            operation: session.operation_name(key.operation)?,
            client: key.client.clone(),
            micros: key.time.micros(),
            time: key.time.0,
            seqno: key.seqno,
            back,
            fields: flat(session, &event.payload),
        })
    }
}

impl Events {
    /// Converts events, with the names of the session's store.
    pub(crate) fn of(session: &Session, events: &[Event], next: Option<Vec<u8>>) -> face::Result<Events> {
        let rows = events.iter().map(|event| EventRow::of(session, event, 0)).collect::<face::Result<_>>()?;
        Ok(Events { rows, next: next.unwrap_or_default() })
    }

    /// Converts the steps of a lineage.
    pub(crate) fn of_steps(session: &Session, steps: &[Step]) -> face::Result<Events> {
        let rows =
            steps.iter().map(|step| EventRow::of(session, &step.event, step.back)).collect::<face::Result<_>>()?;
        Ok(Events { rows, next: Vec::new() })
    }

    /// Hands the list to the caller.
    pub(crate) fn give(self, place: Out<'_, *mut waxseal_events_t>) -> Result<()> {
        give(place, Arc::new(self))
    }
}

/// Hands a list to the caller, perhaps one that other handles share.
pub(crate) fn give(place: Out<'_, *mut waxseal_events_t>, events: Arc<Events>) -> Result<()> {
    place.set(issue(events)?);
    Ok(())
}

getters! {
    with;

    /// Number of events; 0 for null and for a destroyed list.
    fn waxseal_events_count(events: *const waxseal_events_t) -> usize => |events| events.rows.len(), or 0;
}

finders! {
    /// The event at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
    fn waxseal_events_get(events: *const waxseal_events_t, at: usize; event: *mut waxseal_event_t) =>
        |events| events.rows.get(at).map(waxseal_event_t::of);

    /// A field of an event, both by 0-based index. `WAXSEAL_NOT_FOUND` past the end.
    fn waxseal_events_field(
        events: *const waxseal_events_t,
        at: usize,
        field_at: usize;
        field: *mut waxseal_field_t,
    ) => |events| events.rows.get(at).and_then(|row| row.fields.get(field_at)).map(waxseal_field_t::of);

    /// The start of the next page, for `waxseal_query_set_page`. `WAXSEAL_NOT_FOUND` if there is none. Valid until the
    /// list is destroyed.
    fn waxseal_events_next(events: *const waxseal_events_t; after: *mut waxseal_slice_t) =>
        |events| (!events.next.is_empty()).then(|| waxseal_slice_t::of(&events.next));
}

destroy! {
    /// Destroys a list of events. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
    fn waxseal_events_destroy(events: *mut waxseal_events_t);
}
