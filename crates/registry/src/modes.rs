//! Modes: sync, async, deferred.

/// What becomes of events of mode async while the ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The writer waits.
    #[default]
    Backpressure,
    /// They are written with their operation, as of mode sync.
    SyncFallback,
    /// They are dropped, and counted.
    DropCounted,
}

/// Where events of mode async wait until they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// How many there may be: as many may be lost in a crash.
    pub events: usize,
    /// What happens to more.
    pub when_full: WhenFull,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { events: 4096, when_full: WhenFull::default() }
    }
}

/// How things stand with events of mode async.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingStats {
    /// Taken, and not in the log yet.
    pub waiting: u64,
    /// Dropped since the store was opened.
    pub dropped: u64,
    /// Written with their operation since the ring was full.
    pub fallen_back: u64,
    /// As many may be lost in a crash.
    pub lost_at_most: u64,
}
