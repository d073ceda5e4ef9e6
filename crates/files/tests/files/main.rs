//! The file store: one program, so that its parts link once.

mod conditions;
mod content;
mod crash;
mod damage;
mod events;
mod handles;
mod inodes;
mod model;
mod names;
mod store;
mod trees;
