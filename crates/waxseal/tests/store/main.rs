//! The public API on a real file system: one program, so that its parts link once.

mod changes;
mod ends;
mod estimate;
mod event_rewrite;
mod expiry;
mod face;
mod filter;
mod format_levels;
mod ingest;
mod modify;
mod old_readers;
mod old_values;
mod pause;
mod properties;
mod ranges;
mod registry;
mod seals;
mod sizes;
mod transaction;
mod watches;
