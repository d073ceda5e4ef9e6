//! Registry and log: what is watched, and what happened to it, kept as ordinary column families.
//!
//! After Wasef (Alkhalidi, Gupta, Raghavan, Ghosh: Leveraging Metadata in NoSQL Storage Systems): a *target* is anything that
//! has a name, an *operation* is what can happen to it, a *registration* says that an operation on a target is to be logged,
//! and an *event* is one row of the log. Floors, top first; a module imports only from floors below its own:
//!
//! ```text
//! registrar                            everything in one handle: what the face calls
//! registry, provenance                 what is watched, from which commit on; where and why, and how table files came to be
//! single                               one operation, committed as it is encoded
//! hooks                                the write path: looked at, stamped, committed under the rules it was looked at with
//! log                                  events asked for, and deleted
//! pending                              events that are no rows yet
//! witness, sources                     what the engine calls while it works; places where events stand, walked as one
//! matching, rights, turns              which registration watches an operation, asked on every write; who may do what; who gives way
//! emission                             how an operation becomes an event
//! fuzzing                              ways in for fuzzers: any bytes, any text
//! quarantine, retention                what is kept out of reach; which events of the engine's own are kept
//! sessions, chronicle, modes, families    who writes; what the engine did; mode async; the store's own families
//! occurrence                           which operations can happen to which targets
//! event, registration                  the rows of the log and of the registry
//! payload, key                         what an event holds; where rows stand, and how queries walk over them
//! target, operation, clock             what, which and when
//! ordered                              bytes that sort as what they stand for
//! ```
//!
//! The engine knows nothing of all this. Every byte is in docs/format.md, section 9.

pub mod chronicle;
pub mod clock;
mod emission;
pub mod event;
pub mod families;
pub mod fuzzing;
mod hooks;
pub mod key;
pub mod log;
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
mod turns;
mod witness;

pub use clock::{Clock, Time};
pub use event::Event;
pub use key::Query;
pub use log::{Page, Paging};
pub use modes::{Ring, RingStats, WhenFull};
pub use operation::{Operation, Operations, Site};
pub use payload::{Field, Image, Payload};
pub use provenance::{Explanation, Lies, Lineage, Provenance, Step};
pub use quarantine::Case;
pub use registrar::{Catalogue, Prepared, Registrar, Setup, Verb};
pub use registration::{Mode, Options, Registration, Scope, Values};
pub use rights::{Authorizer, Everybody};
pub use sessions::{Identity, Session};
pub use target::Target;
