//! The log: what happened. After Wasef, section 2.4: `queryAll`, `queryLatest`, and `Log.add`, `Log.query`, `Log.delete` with the
//! paper's parameters; and queries with more of them, a page at a time.

use std::sync::Mutex;

use face::registry::{Paging, Payload, Query, Time};

use crate::call::{answer, status_of};
use crate::error::{Result, waxseal_error_t};
use crate::events::{Events, waxseal_events_t};
use crate::family::waxseal_family_t;
use crate::handle::{Kind, end, handle, issue, with, with_mut};
use crate::lent::{lent, out};
use crate::range::{bounds, waxseal_range_t};
use crate::registry::{named, pair};
use crate::session::waxseal_session_t;
use crate::snapshot::waxseal_snapshot_t;

/// A time before all others.
pub const WAXSEAL_TIME_FIRST: u64 = 0;
/// A time behind all others; as the time of an event that is added: now.
pub const WAXSEAL_TIME_LAST: u64 = u64::MAX;

/// The whole microsecond `micros` belongs to a span that ends with it.
fn end_of(micros: u64) -> Time {
    match micros.checked_add(1).map(Time::from_micros) {
        Some(after) if after < Time::LAST => Time(after.0 - 1),
        _ => Time::LAST,
    }
}

/// All events of a target itself, of one operation or, with `*` or length 0, any, by operation and then by time. Those of what lies below
/// it are asked for by a query with `waxseal_query_set_below`. Events that were not written to the log yet are among them.
///
/// Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: `WAXSEAL_INVALID` for what is no
/// target or operation, or if the session may not; `WAXSEAL_CORRUPTION` where the log is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_all(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    events: *mut *mut waxseal_events_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (target, operation, events, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(events), out(error)) };
    answer(error, || {
        let events = events.needed("events")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            Events::of(who, &who.query_all(target, operation)?, None)?.give(events)
        })
    })
}

/// The latest event of a target itself, of one operation or any, as a list of one. `WAXSEAL_NOT_FOUND` if there is none. Costs one seek,
/// however many events there are.
///
/// Thread-safe. On `WAXSEAL_OK` `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_latest(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    events: *mut *mut waxseal_events_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (target, operation, events, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(events), out(error)) };
    answer(error, || {
        let events = events.needed("events")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let Some(event) = who.query_latest(target, operation)? else { return Ok(false) };
            Events::of(who, &[event], None)?.give(events)?;
            Ok(true)
        })
    })
}

/// Adds an event: something happened that the store cannot know of. The operation must be named, and the pair registered. `time` is in
/// microseconds since 1970, `WAXSEAL_TIME_LAST` for now; `value` is what is to be said of it. The event's place in the order of commits is
/// written to `seqno`, unless that is null.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` if the pair is not registered, or the session may not; as of a commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_log_add(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    time: u64,
    value: *const u8,
    value_len: usize,
    seqno: *mut u64,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (target, operation, value, seqno, error) = unsafe {
        (lent(target, target_len), lent(operation, operation_len), lent(value, value_len), out(seqno), out(error))
    };
    answer(error, || {
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
    })
}

/// All events of a target itself, of one operation or any, that happened from `start` to `end`, both included, in microseconds since
/// 1970; `WAXSEAL_TIME_FIRST` and `WAXSEAL_TIME_LAST` leave them open.
///
/// Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_log_query(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    start: u64,
    end: u64,
    events: *mut *mut waxseal_events_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (target, operation, events, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(events), out(error)) };
    answer(error, || {
        let events = events.needed("events")?;
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let query = Query { operation, from: Time::from_micros(start), to: end_of(end), ..Query::of(target) };
            let page = who.log_query(&query, &Paging::ALL)?;
            Events::of(who, &page.events, page.next)?.give(events)
        })
    })
}

/// Deletes the events that `waxseal_log_query` would answer, and writes how many there were to `deleted`, unless that is null. Those of
/// the engine itself stay. Nothing else is ever deleted from the log.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` if the session may not; as of a commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_log_delete(
    session: *const waxseal_session_t,
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    start: u64,
    end: u64,
    deleted: *mut u64,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (target, operation, deleted, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(deleted), out(error)) };
    answer(error, || {
        with(session, |who| {
            let (target, operation) = pair(who, target, operation)?;
            let query = Query { operation, from: Time::from_micros(start), to: end_of(end), ..Query::of(target) };
            deleted.set(who.log_delete(&query)?);
            Ok(())
        })
    })
}

/// A question to the log with everything that can be asked. Used by one thread at a time, and ended by `waxseal_query_destroy`.
pub struct waxseal_query_t {
    _opaque: [u8; 0],
}

handle!(waxseal_query_t => Mutex<Asked>, Kind::Query, "query");

/// What is asked; target and operation are text until there is a store that knows them.
pub(crate) struct Asked {
    target: String,
    operation: String,
    below: bool,
    from: Time,
    to: Time,
    client: Option<String>,
    paging: Paging,
}

impl Asked {
    fn query(&self, who: &face::Session) -> Result<Query> {
        let (target, operation) = named(who, &self.target, &self.operation)?;
        let Asked { below, from, to, ref client, .. } = *self;
        Ok(Query { target, below, operation, from, to, client: client.clone() })
    }
}

/// A question for all events of a target itself, of one operation or, with `*` or length 0, any.
///
/// Thread-safe. On success `*query` is the caller's, to be ended by `waxseal_query_destroy`. Errors: `WAXSEAL_INVALID` for what is no
/// UTF-8; what is no target is told when it is asked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_create(
    target: *const u8,
    target_len: usize,
    operation: *const u8,
    operation_len: usize,
    query: *mut *mut waxseal_query_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (target, operation, query, error) =
        unsafe { (lent(target, target_len), lent(operation, operation_len), out(query), out(error)) };
    answer(error, || {
        let query = query.needed("query")?;
        let asked = Asked {
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
    })
}

/// Sets one thing.
fn change(query: *mut waxseal_query_t, turn: impl FnOnce(&mut Asked)) -> Result<()> {
    with_mut(query.cast_const(), |asked: &mut Asked| {
        turn(asked);
        Ok(())
    })
}

/// Sets one thing that cannot be wrong by itself.
fn set(query: *mut waxseal_query_t, turn: impl FnOnce(&mut Asked)) -> i32 {
    status_of(|| change(query, turn))
}

/// Whether events of what lies below the target are asked for too. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_query_set_below(query: *mut waxseal_query_t, below: bool) -> i32 {
    set(query, |asked| asked.below = below)
}

/// From when to when, both included, in microseconds since 1970. Default `WAXSEAL_TIME_FIRST` to `WAXSEAL_TIME_LAST`.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_query_set_span(query: *mut waxseal_query_t, start: u64, end: u64) -> i32 {
    set(query, |asked| (asked.from, asked.to) = (Time::from_micros(start), end_of(end)))
}

/// Whose events: the name of a session; length 0, the default: everybody's.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for what is no UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_set_client(
    query: *mut waxseal_query_t,
    client: *const u8,
    client_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (client, error) = unsafe { (lent(client, client_len), out(error)) };
    answer(error, || {
        let client = client.text("name of the session")?;
        change(query, |asked| asked.client = (!client.is_empty()).then(|| client.to_owned()))
    })
}

/// Which page: at most `limit` events (0: all) behind the place that `waxseal_events_next` said, of which length 0 is the beginning.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for null with a length; a place where no page ended is told when it is asked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_set_page(
    query: *mut waxseal_query_t,
    after: *const u8,
    after_len: usize,
    limit: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (after, error) = unsafe { (lent(after, after_len), out(error)) };
    answer(error, || {
        let after = after.bytes("place of a page")?;
        let after = (!after.is_empty()).then(|| after.to_vec());
        let limit = if limit == 0 { usize::MAX } else { limit };
        change(query, |asked| asked.paging = Paging { after, limit })
    })
}

/// Asks: a page of the events, by target, operation and time. With a snapshot, events of commits that it does not see are left out.
///
/// Thread-safe, if the query is this thread's own meanwhile. On success `*events` is the caller's, to be ended by
/// `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_run(
    session: *const waxseal_session_t,
    snapshot: *const waxseal_snapshot_t,
    query: *const waxseal_query_t,
    events: *mut *mut waxseal_events_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (events, error) = unsafe { (out(events), out(error)) };
    answer(error, || {
        let events = events.needed("events")?;
        with(session, |who| {
            let (query, paging) = with_mut(query, |asked: &mut Asked| Ok((asked.query(who)?, asked.paging.clone())))?;
            let page = match snapshot.is_null() {
                true => who.log_query(&query, &paging)?,
                false => with(snapshot, |snapshot| Ok(who.log_query_at(&query, &paging, snapshot)?))?,
            };
            Events::of(who, &page.events, page.next)?.give(events)
        })
    })
}

/// Deletes the events that a query asks for, its page left aside: as `waxseal_log_delete`.
///
/// Thread-safe, if the query is this thread's own meanwhile. Errors: as of `waxseal_log_delete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_delete(
    session: *const waxseal_session_t,
    query: *const waxseal_query_t,
    deleted: *mut u64,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (deleted, error) = unsafe { (out(deleted), out(error)) };
    answer(error, || {
        with(session, |who| {
            let query = with_mut(query, |asked: &mut Asked| asked.query(who))?;
            deleted.set(who.log_delete(&query)?);
            Ok(())
        })
    })
}

/// Ends a query. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_query_destroy(query: *mut waxseal_query_t) -> i32 {
    status_of(|| end(query.cast_const()))
}

/// The events of all keys of a range of a family, at most `limit` of them (0: all) behind the place `after`, as of
/// `waxseal_query_set_page`. `range` may be null: all keys.
///
/// Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_query_range(
    session: *const waxseal_session_t,
    family: *const waxseal_family_t,
    range: *const waxseal_range_t,
    after: *const u8,
    after_len: usize,
    limit: usize,
    events: *mut *mut waxseal_events_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (range, after, events, error) = unsafe { (bounds(range), lent(after, after_len), out(events), out(error)) };
    answer(error, || {
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
    })
}
