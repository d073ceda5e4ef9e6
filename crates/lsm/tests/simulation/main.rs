//! The engine on a simulated disk: the model test, the crash sweep, the flip sweep, and the planted bugs that they must find.
//!
//! Everything runs in one thread from a seed; a failure prints the seed that shows it again.

#![expect(clippy::disallowed_methods, reason = "a test lives outside the engine")]

mod flips;
mod model;
mod oracle;
#[cfg(feature = "planted")]
mod planted;
mod sweep;
mod world;
