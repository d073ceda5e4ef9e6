//! Events of mode async: where they wait until they are in the log.

use face::registry::{Ring, RingStats, WhenFull};

use crate::call::{answer, status_of};
use crate::db::waxseal_db_t;
use crate::error::{Failure, waxseal_error_t};
use crate::handle::with;
use crate::lent::out;
use crate::options::{set, waxseal_options_t};

/// The writer waits until there is room.
pub const WAXSEAL_WHEN_FULL_WAIT: i32 = 0;
/// Events are written with their operation, as of mode sync.
pub const WAXSEAL_WHEN_FULL_SYNC: i32 = 1;
/// Events are dropped, and counted.
pub const WAXSEAL_WHEN_FULL_DROP: i32 = 2;

/// How many events of mode async may wait until they are in the log, as many as a crash may lose, and what happens to more: one of
/// `WAXSEAL_WHEN_FULL_..`. With 16 MiB of rows the ring is full as well. Default 4096, and the writer waits.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no choice; what cannot be is told by the open.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_ring(options: *mut waxseal_options_t, events: usize, when_full: i32) -> i32 {
    status_of(|| {
        let when_full = match when_full {
            WAXSEAL_WHEN_FULL_WAIT => WhenFull::Backpressure,
            WAXSEAL_WHEN_FULL_SYNC => WhenFull::SyncFallback,
            WAXSEAL_WHEN_FULL_DROP => WhenFull::DropCounted,
            other => {
                return Err(Failure::invalid(format!("{other} says nothing of what happens when the ring is full")));
            }
        };
        Ok(set(options, move |builder| builder.ring(Ring { events, when_full })))
    })
}

/// How things stand with events of mode async.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_ring_t {
    /// Taken, and not in the log yet.
    pub waiting: u64,
    /// Dropped since the store was opened.
    pub dropped: u64,
    /// Written with their operation since the ring was full.
    pub fallen_back: u64,
    /// As many may be lost in a crash.
    pub lost_at_most: u64,
}

/// How things stand with events of mode async.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` in a store that was opened without its registry, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_event_ring(
    db: *const waxseal_db_t,
    ring: *mut waxseal_ring_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (ring, error) = unsafe { (out(ring), out(error)) };
    answer(error, || {
        let ring = ring.needed("numbers")?;
        let RingStats { waiting, dropped, fallen_back, lost_at_most } = with(db, |db| Ok(db.event_ring()?))?;
        ring.set(waxseal_ring_t { waiting, dropped, fallen_back, lost_at_most });
        Ok(())
    })
}

/// Waits until every event of mode async that was taken so far is in the log.
///
/// Thread-safe. Errors: as of a commit; `WAXSEAL_INVALID` in a store that was opened without its registry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_drain_events(db: *mut waxseal_db_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(db.cast_const(), |db| Ok(db.drain_events()?)))
}
