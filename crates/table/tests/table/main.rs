//! Tables: one program, so that its parts link once.

mod changes;
mod crash;
mod damage;
mod expiry;
mod golden;
mod indexes;
mod model;
mod purge;
mod rows;
mod schema;
mod select;
mod store;
mod tables;
