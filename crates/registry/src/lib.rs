//! Registry and log: what is watched, and what happened to it, kept as ordinary column families.
//!
//! After Wasef (Alkhalidi, Gupta, Raghavan, Ghosh: Leveraging Metadata in NoSQL Storage Systems): a *target* is anything that
//! has a name, an *operation* is what can happen to it, a *registration* says that an operation on a target is to be logged,
//! and an *event* is one row of the log. Floors, top first; a module imports only from floors below its own:
//!
//! ```text
//! fuzzing                              ways in for fuzzers: any bytes, any text
//! matching                             which registration watches an operation, asked on every write
//! event, registration                  the rows of the log and of the registry
//! payload, key                         what an event holds; where rows stand, and how queries walk over them
//! target, operation, clock             what, which and when
//! ordered                              bytes that sort as what they stand for
//! ```
//!
//! Above these will stand, in this order: `registry` and `log` (the two families and their calls), `hooks` (what the engine
//! calls), `modes` (sync, async, deferred), `sessions` (who writes, and who may read), `provenance` (where and why). The engine
//! knows none of them. Every byte is in docs/format.md, section 9.

pub mod clock;
pub mod event;
pub mod fuzzing;
pub mod key;
pub mod matching;
pub mod operation;
pub mod ordered;
pub mod payload;
pub mod registration;
pub mod target;

pub use clock::{Clock, Time};
pub use event::Event;
pub use operation::{Operation, Operations};
pub use registration::{Mode, Options, Registration, Scope, Values};
pub use target::Target;
