//! Registry and log: the registered operations and their events, stored in ordinary column families.
//!
//! After Wasef (Alkhalidi, Gupta, Raghavan, Ghosh: Leveraging Metadata in NoSQL Storage Systems): a *target* is
//! anything with a name. An *operation* can happen to a target. A *registration* asks for an operation on a target to
//! be logged. An *event* is one row of the log. The module layers, top first; a module imports only from layers below
//! its own:
//!
//! ```text
//! log_calls                            calls of the registrar on events
//! registrar                            the public handle: all calls of the upper layers
//! registry, provenance, event_versions   changes of the registrations; provenance of keys, lineage of table files;
//!                                      changes of events
//! single                               fast path: commits a single operation
//! hooks                                write path: matches, stamps and commits batches under one configuration epoch
//! log                                  queries and deletion of events
//! pending                              events that are not rows yet
//! witness, sources                     callbacks of the engine; the sources of events, and their merge
//! described                            operations on tables, described by the layer above
//! matching, rights, commit_gate        registration lookup for writes; authorization; the commit gate
//! emission                             conversion of an operation to an event
//! quarantine, retention                quarantined tables and lost ranges; retention of the engine's events
//! sessions, engine_log, modes, families   sessions; the engine event log; mode async; the system families
//! occurrence                           the targets on which an operation can occur
//! event, registration                  the rows of the log and of the registry
//! payload, key                         event payloads; keys of rows, and query plans over them
//! target, operation, clock             targets, operations and times
//! ordered                              an order-preserving byte encoding
//! ```
//!
//! The engine does not depend on this crate. docs/format.md, section 9, describes every byte.

pub mod clock;
mod commit_gate;
mod described;
mod emission;
pub mod engine_log;
pub mod event;
mod event_versions;
pub mod families;
mod hooks;
pub mod key;
pub mod log;
mod log_calls;
pub mod matching;
pub mod modes;
mod occurrence;
pub mod operation;
pub mod ordered;
pub mod payload;
mod pending;
pub mod provenance;
pub mod quarantine;
pub mod registrar;
pub mod registration;
mod registry;
mod retention;
pub mod rights;
pub mod sessions;
mod single;
mod sources;
pub mod target;
mod witness;

pub use clock::{EventClock, Time};
pub use described::{DescribedOperation, Notes};
pub use event::Event;
pub use event_versions::{EventChange, EventCounts, EventVersion};
pub use hooks::is_watched;
pub use key::Query;
pub use log::{Page, Paging};
pub use modes::{Ring, RingStats, WhenFull};
pub use operation::{Operation, OperationGroup, Operations, Site};
pub use payload::{Field, Image, Payload};
pub use provenance::{Explanation, Lies, Lineage, Provenance, Step};
pub use quarantine::Case;
pub use registrar::{Catalogue, Prepared, Registrar, Setup, StampVerb};
pub use registration::{Mode, Options, Registration, Scope, Values};
pub use rights::{Authorizer, Everybody};
pub use sessions::{Identity, Session};
pub use target::Target;
