//! Repair on a simulated disk: what can be had comes back, what cannot becomes a lost range and is reported, nothing
//! else changes.

mod blocks;
mod device_faults;
mod log;
mod lost_ranges;
mod salvage;
mod scrub;
mod sources;
mod trash;
mod unreadable;
mod verify;
mod withholding;
mod world;
