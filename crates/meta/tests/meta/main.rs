//! Tests of seals on the real engine: one program, so that its parts link once and share their stores.

mod adversarial;
mod damages;
mod engine;
mod exchange;
mod expiring;
mod ingested;
mod launder;
mod left_behind;
mod metadata;
mod nodes;
mod operands;
mod plain_node;
mod range_deletes;
mod repair;
mod salvage;
mod salvage_stores;
mod support;
mod values;
mod verify_progress;
#[allow(dead_code, reason = "the suite of stamps uses the rest")]
#[path = "../stamps/watched.rs"]
mod watched;
