//! The public API on a real file system: one program, so that its parts link once.

mod ends;
mod estimate;
mod expiry;
mod face;
mod old_readers;
mod modify;
mod old_values;
mod ranges;
mod pause;
mod registry;
mod seals;
mod sizes;
mod watches;
