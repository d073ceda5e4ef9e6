//! Tables: one program, so that its parts link once.

#[cfg(feature = "arrow")]
mod arrow;
mod cassandra_3919;
mod certificate;
mod changes;
mod copies;
mod crash;
mod damage;
mod event_purge;
mod events;
mod expiry;
mod golden;
mod index_damage;
mod indexes;
mod keyspaces;
mod lost_schema;
mod model;
mod purge;
mod rows;
mod schema;
mod select;
mod store;
mod tables;
mod typed_rows;
