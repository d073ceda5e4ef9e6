//! The index of a table, whole or partitioned, and its filters.

pub(super) mod filter;
pub(super) mod index;
pub(super) mod key_filters;
pub(super) mod partition_builder;
pub(super) mod partitions;
pub(super) mod policy_filter;
pub(super) mod range;
pub(super) mod separators;
pub(super) mod top_index;
