//! The event ring: a queue of async events that are not in the log yet.

use face::registry::{Ring, RingStats, WhenFull};

use crate::db::waxseal_db_t;
use crate::declare::{mirror, setters};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::handle::with;
use crate::options::{step, waxseal_options_t};

/// The writer waits for room.
pub const WAXSEAL_WHEN_FULL_WAIT: i32 = 0;
/// Events are written in the commit of their operation, as in mode sync.
pub const WAXSEAL_WHEN_FULL_SYNC: i32 = 1;
/// Events are dropped and counted.
pub const WAXSEAL_WHEN_FULL_DROP: i32 = 2;

fn when_full(number: i32) -> Result<WhenFull> {
    match number {
        WAXSEAL_WHEN_FULL_WAIT => Ok(WhenFull::Backpressure),
        WAXSEAL_WHEN_FULL_SYNC => Ok(WhenFull::SyncFallback),
        WAXSEAL_WHEN_FULL_DROP => Ok(WhenFull::DropCounted),
        other => Err(Failure::invalid(format!("{other} says nothing of what happens when the ring is full"))),
    }
}

setters! {
    step;

    /// Sets the capacity of the event ring, which is the number of async events that a crash may lose, and the behavior
    /// when it is full: one of `WAXSEAL_WHEN_FULL_..`. The ring is also full when it holds 16 MiB of rows. Default
    /// 4096, and the writer waits.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown behavior; the open reports an invalid capacity.
    fn waxseal_options_set_ring(options: *mut waxseal_options_t, events: usize, when_full: i32) =>
        ring = Ring { events, when_full: self::when_full(when_full)? };
}

mirror! {
    /// Counters of the event ring.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct waxseal_ring_t of |stats: RingStats| {
        /// Events in the ring, not in the log yet.
        pub waiting: u64,
        /// Events dropped since the open.
        pub dropped: u64,
        /// Events written in the commit of their operation because the ring was full.
        pub fallen_back: u64,
        /// Maximum number of events that a crash may lose now.
        pub lost_at_most: u64,
    }
}

calls! {
    /// Returns the counters of the event ring.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` in a store that was opened without its registry, `WAXSEAL_CLOSED`.
    fn waxseal_event_ring(db: *const waxseal_db_t, out ring: *mut waxseal_ring_t) {
        let ring = ring.needed("numbers")?;
        ring.set(waxseal_ring_t::of(with(db, |db| Ok(db.registry().event_ring()?))?));
        Ok(())
    }

    /// Waits until every async event accepted so far is in the log.
    ///
    /// Thread-safe. Errors: as of a commit; `WAXSEAL_INVALID` in a store that was opened without its registry.
    fn waxseal_drain_events(db: *mut waxseal_db_t) { with(db.cast_const(), |db| Ok(db.registry().drain_events()?)) }
}
