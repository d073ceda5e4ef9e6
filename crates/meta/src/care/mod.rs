//! Care: looking after a store that lies on devices which forget.
//!
//! ```text
//! digest    a count and a sum of what a snapshot sees, equal on every replica
//! verify    every byte looked at, nothing changed
//! scrub     the same, slowly, for data that nobody reads; goes on where it stopped
//! repair    what was found mended: the ladder of docs/integrity.md, and fences where it ends
//! salvage   what can still be read of a store that may not even open, into a new one
//! report    what all of them found, for people and for programs
//! ```
//!
//! Decisions are pure (`plan`), and the engine's calls carry them out (`waxseal_lsm::db`). Nothing is ever repaired from an older
//! version, and no two candidates make a repair.

mod carry;
mod digest;
mod losses;
mod options;
mod plan;
mod repair;
mod report;
mod salvage;
mod scrub;
mod verify;

pub use digest::{Digest, digest};
pub use options::{
    Candidate, Corrupted, Decision, ErrorHandler, Progress, RepairOptions, RepairSource, SalvageOptions, ScrubOptions,
    VerifyOptions, Watch,
};
pub use repair::repair;
pub use report::{Finding, Outcome, Report, Rung, Step, Token};
pub use salvage::salvage;
pub use scrub::scrub;
pub use verify::{verify, verify_closed};
