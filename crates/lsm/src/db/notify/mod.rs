//! Reaches listeners and background threads.
//!
//! ```text
//! notifier.rs  `Notifier`: queues and delivers events, damage reports
//! events.rs    the events of a store, and the listener that receives them
//! lanes.rs     wakes the background lanes
//! ```

pub(super) mod events;
pub(super) mod lanes;
pub(super) mod notifier;
