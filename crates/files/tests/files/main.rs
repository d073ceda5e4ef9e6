//! The file store: one program, so that its parts link once.

mod content;
mod crash;
mod events;
mod handles;
mod names;
mod store;
mod trees;
