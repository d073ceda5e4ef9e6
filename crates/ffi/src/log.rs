//! The log of events. Implements Wasef, section 2.4: `queryAll`, `queryLatest`, and `Log.add`, `Log.query`,
//! `Log.delete` with the paper's parameters. Also offers queries with more parameters, one page at a time.

use std::sync::Mutex;

use face::registry::{Paging, Payload, Query, Time};

use crate::call::status_of;
use crate::declare::{destroy, field, setters};
use crate::error::calls;
use crate::events::{Events, waxseal_events_t};
use crate::failure::Result;
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, with, with_mut};
use crate::range::waxseal_range_t;
use crate::registry::{named, pair};
use crate::session::waxseal_session_t;
use crate::snapshot::waxseal_snapshot_t;

/// A time before all others.
pub const WAXSEAL_TIME_FIRST: u64 = 0;
/// A time after all others. As the time of an added event it means now.
pub const WAXSEAL_TIME_LAST: u64 = u64::MAX;

/// Returns the last time within the microsecond `micros`: an inclusive end covers that whole microsecond.
fn end_of(micros: u64) -> Time {
    match micros.checked_add(1).map(Time::from_micros) {
        Some(after) if after < Time::LAST => Time(after.0 - 1),
        _ => Time::LAST,
    }
}

calls! {
    /// Returns all events of a target itself, of one operation or, with `*` or length 0, of any, ordered by operation
    /// and then by time. Events that are not written to the log yet are included. For the targets below it, use a query
    /// with `waxseal_query_set_below`.
    ///
    /// Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors:
    /// `WAXSEAL_INVALID` for an invalid target or operation, or if the session lacks the right; `WAXSEAL_CORRUPTION`
    /// where the log is damaged.
    fn waxseal_query_all(
        session: *const waxseal_session_t, bytes target, bytes operation, out events: *mut *mut waxseal_events_t,
    ) {
        let events = events.needed("events")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            Events::of(who, &who.query_all(target, operation)?, None)?.give(events)
        })
    }

    /// Returns the latest event of a target itself, of one operation or any, as a list with one entry.
    /// `WAXSEAL_NOT_FOUND` if there is none. Costs one seek, whatever the number of events.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors: as of
    /// `waxseal_query_all`.
    fn waxseal_query_latest(
        session: *const waxseal_session_t, bytes target, bytes operation, out events: *mut *mut waxseal_events_t,
    ) {
        let events = events.needed("events")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let Some(event) = who.query_latest(target, operation)? else { return Ok(false) };
            Events::of(who, &[event], None)?.give(events)?;
            Ok(true)
        })
    }

    /// Adds an event of the application, which the store cannot observe itself. The operation must be named, and the
    /// pair registered. `time` is in microseconds since 1970, or `WAXSEAL_TIME_LAST` for now; `value` is the text of
    /// the event. `seqno`, unless null, receives the event's sequence number.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` if the pair is not registered, or if the session lacks the right;
    /// otherwise as of a commit.
    fn waxseal_log_add(
        session: *const waxseal_session_t, bytes target, bytes operation, time: u64, bytes value, out seqno: *mut u64,
    ) {
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let time = (time != WAXSEAL_TIME_LAST).then(|| Time::from_micros(time));
            let payload = match value.bytes("value")? {
                [] => Payload::new(),
                said => Payload::text(said),
            };
            seqno.set(who.log_add(target, operation, time, payload)?);
            Ok(())
        })
    }

    /// Returns all events of a target itself, of one operation or any, from `start` to `end`, both inclusive, in
    /// microseconds since 1970. `WAXSEAL_TIME_FIRST` and `WAXSEAL_TIME_LAST` mean no limit.
    ///
    /// Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors: as of
    /// `waxseal_query_all`.
    fn waxseal_log_query(
        session: *const waxseal_session_t, bytes target, bytes operation, start: u64, end: u64,
        out events: *mut *mut waxseal_events_t,
    ) {
        let events = events.needed("events")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let query = Query { operation, from: Time::from_micros(start), to: end_of(end), ..Query::of(target) };
            let page = who.log_query(&query, &Paging::ALL)?;
            Events::of(who, &page.events, page.next)?.give(events)
        })
    }

    /// Deletes the events that `waxseal_log_query` would return, except those of the engine itself. `deleted`, unless
    /// null, receives their number. No other call deletes events from the log.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` if the session lacks the right; otherwise as of a commit.
    fn waxseal_log_delete(
        session: *const waxseal_session_t, bytes target, bytes operation, start: u64, end: u64, out deleted: *mut u64,
    ) {
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let query = Query { operation, from: Time::from_micros(start), to: end_of(end), ..Query::of(target) };
            deleted.set(who.log_delete(&query)?);
            Ok(())
        })
    }
}

/// A query on the log with all parameters. Used by one thread at a time. Destroyed by `waxseal_query_destroy`.
pub struct waxseal_query_t {
    _opaque: [u8; 0],
}

handle!(waxseal_query_t => Mutex<QueryParts>, HandleKind::Query, "query");

/// The parameters of a query. Target and operation are text until a store resolves them.
pub(crate) struct QueryParts {
    target: String,
    operation: String,
    below: bool,
    from: Time,
    to: Time,
    client: Option<String>,
    paging: Paging,
}

impl QueryParts {
    fn query(&self, who: &face::Session) -> Result<Query> {
        let (target, operation) = named(who, &self.target, &self.operation)?;
        let QueryParts { below, from, to, ref client, .. } = *self;
        Ok(Query { target, below, operation, from, to, client: client.clone() })
    }
}

calls! {
    /// Creates a query for all events of a target itself, of one operation or, with `*` or length 0, of any.
    ///
    /// Thread-safe. On success the caller owns `*query` and frees it with `waxseal_query_destroy`. Errors:
    /// `WAXSEAL_INVALID` for text that is not UTF-8. An invalid target is reported when the query runs.
    fn waxseal_query_create(bytes target, bytes operation, out query: *mut *mut waxseal_query_t) {
        let query = query.needed("query")?;
        let asked = QueryParts {
            target: target.text("target")?.to_owned(),
            operation: operation.text("operation")?.to_owned(),
            below: false,
            from: Time::FIRST,
            to: Time::LAST,
            client: None,
            paging: Paging::ALL,
        };
        query.set(issue(Mutex::new(asked))?);
        Ok(())
    }
}

/// Changes a parameter.
fn change(query: *mut waxseal_query_t, apply: impl FnOnce(&mut QueryParts)) -> Result<()> {
    with_mut(query.cast_const(), |asked: &mut QueryParts| {
        apply(asked);
        Ok(())
    })
}

setters! {
    field;

    /// Whether the query includes events of the targets below its target. Default false.
    fn waxseal_query_set_below(query: *mut waxseal_query_t, below: bool) => below = below;
}

/// Limits the query to a time span, both ends inclusive, in microseconds since 1970. Default `WAXSEAL_TIME_FIRST` to
/// `WAXSEAL_TIME_LAST`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_query_set_span(query: *mut waxseal_query_t, start: u64, end: u64) -> i32 {
    status_of(|| change(query, |asked| (asked.from, asked.to) = (Time::from_micros(start), end_of(end))))
}

calls! {
    /// Limits the query to the events of one session, by name; length 0, the default, means all sessions.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for text that is not UTF-8.
    fn waxseal_query_set_client(query: *mut waxseal_query_t, bytes client) {
        let client = client.text("name of the session")?;
        change(query, |asked| asked.client = (!client.is_empty()).then(|| client.to_owned()))
    }

    /// Sets the page: at most `limit` events (0 for all), starting after the place that `waxseal_events_next` returned.
    /// Length 0 means the beginning.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for null with a length. A place that is not the end of a page is
    /// reported when the query runs.
    fn waxseal_query_set_page(query: *mut waxseal_query_t, bytes after, limit: usize) {
        let after = after.bytes("place of a page")?;
        let after = (!after.is_empty()).then(|| after.to_vec());
        let limit = if limit == 0 { usize::MAX } else { limit };
        change(query, |asked| asked.paging = Paging { after, limit })
    }

    /// Runs a query and returns a page of its events, ordered by target, operation and time. With a snapshot, events of
    /// commits after it are omitted.
    ///
    /// Thread-safe, if no other thread uses the query meanwhile. On success the caller owns `*events` and frees it with
    /// `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
    fn waxseal_query_run(
        session: *const waxseal_session_t, snapshot: *const waxseal_snapshot_t, query: *const waxseal_query_t,
        out events: *mut *mut waxseal_events_t,
    ) {
        let events = events.needed("events")?;
        with(session, |who| {
            let (query, paging) =
                with_mut(query, |asked: &mut QueryParts| Ok((asked.query(who)?, asked.paging.clone())))?;
            let page = match snapshot.is_null() {
                true => who.log_query(&query, &paging)?,
                false => with(snapshot, |snapshot| Ok(who.log_query_at(&query, &paging, snapshot)?))?,
            };
            Events::of(who, &page.events, page.next)?.give(events)
        })
    }

    /// Deletes the events that a query selects, as `waxseal_log_delete` does. Ignores the query's page.
    ///
    /// Thread-safe, if no other thread uses the query meanwhile. Errors: as of `waxseal_log_delete`.
    fn waxseal_query_delete(session: *const waxseal_session_t, query: *const waxseal_query_t, out deleted: *mut u64) {
        with(session, |who| {
            let query = with_mut(query, |asked: &mut QueryParts| asked.query(who))?;
            deleted.set(who.log_delete(&query)?);
            Ok(())
        })
    }
}

destroy! {
    /// Destroys a query. Null is allowed; a destroyed query is `WAXSEAL_CLOSED`.
    fn waxseal_query_destroy(query: *mut waxseal_query_t);
}

calls! {
    /// Returns the events of all keys in a range of a family: at most `limit` of them (0 for all), starting after the
    /// place `after`, as of `waxseal_query_set_page`. `range` may be null: all keys.
    ///
    /// Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors: as of
    /// `waxseal_query_all`.
    fn waxseal_query_range(
        session: *const waxseal_session_t, family: *const waxseal_family_t, bounds range: *const waxseal_range_t,
        bytes after, limit: usize, out events: *mut *mut waxseal_events_t,
    ) {
        let events = events.needed("events")?;
        let after = after.bytes("place of a page")?;
        let paging = Paging {
            after: (!after.is_empty()).then(|| after.to_vec()),
            limit: if limit == 0 { usize::MAX } else { limit },
        };
        with(session, |who| {
            let page = with(family, |family| Ok(who.query_range(family, range?, &paging)?))?;
            Events::of(who, &page.events, page.next)?.give(events)
        })
    }
}
