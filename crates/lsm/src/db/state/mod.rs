//! The state that all owners share.
//!
//! ```text
//! store_log.rs  `StoreLog`: the log's durable position, the visible seqno, halting (I09); panics.rs: callbacks that panic
//! context.rs    `StoreContext`: environment, settings, record protector; counters.rs: numbers of background work
//! snapshot.rs   snapshots, and the versions that they keep (I08)
//! tables.rs     the table opener of a family
//! family.rs     families, and the view that readers load; replaced_views.rs: the views before; live_memtables.rs: the
//!               memtables of all views
//! ```

pub(super) mod context;
pub(super) mod counters;
pub(super) mod family;
pub(super) mod live_memtables;
mod live_options;
pub(super) mod live_settings;
mod panics;
mod replaced_views;
pub(super) mod snapshot;
pub(super) mod store_log;
pub(super) mod tables;
